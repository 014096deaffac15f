//! What a setting can be beside a plain value: the name of a stage, the name of a model, an SQL
//! expression. They are types of their own, so that edges and fingerprints follow from the settings
//! themselves: no list of keys says which settings name a stage.

use std::fmt;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_content::{Data, Number, Serializer, Value};
use serde_json::Value as Json;

/// Types of text that say what the text is. Their names, as serde sees them, are what [`read`] goes by.
macro_rules! text_types {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub struct $name(pub String);

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        /// In a file it is a string.
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string"})
            }
        }
    )*};
}

text_types! {
    /// The name of a stage whose table is read. The table counts for a fingerprint, not the name.
    StageRef
    /// The name of a model of `models:`. What the model is counts for a fingerprint, not the name.
    ModelRef
    /// An SQL expression. Comments, white space and the case of keywords do not count for a fingerprint.
    Expression
}

/// A setting that names a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Keys and positions that lead to it from the stage's kind.
    pub steps: Vec<String>,
    /// The name as it is written.
    pub stage: String,
}

impl Reference {
    /// The steps as one text: `from`, `from[1]`, `blocks[0].table.from`.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.steps {
            match step.parse::<usize>() {
                Ok(position) => path.push_str(&format!("[{position}]")),
                Err(_) if path.is_empty() => path.push_str(step),
                Err(_) => path.push_str(&format!(".{step}")),
            }
        }
        path
    }
}

/// What settings are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingValues {
    /// The stages that they name, in their order.
    pub references: Vec<Reference>,
    /// All else, as JSON, with every expression in its canonical form; `null` for what is absent and for names of stages and
    /// models.
    pub values: Json,
}

/// Reads settings: the stages that they name, and all else. `canonical` makes expressions equal that
/// differ in cosmetics alone.
pub fn read(settings: &impl Serialize, canonical: &dyn Fn(&str) -> String) -> SettingValues {
    let mut reader = Reader { steps: Vec::new(), references: Vec::new(), canonical };
    let value = Serializer::new().human_readable().serialize(settings);
    let values = value.map_or(Json::Null, |value| reader.json(value));
    SettingValues { references: reader.references, values }
}

/// The stages that settings name.
pub fn references(settings: &impl Serialize) -> Vec<Reference> {
    read(settings, &|text| text.to_owned()).references
}

struct Reader<'a> {
    steps: Vec<String>,
    references: Vec<Reference>,
    canonical: &'a dyn Fn(&str) -> String,
}

impl Reader<'_> {
    fn json(&mut self, value: Value<'_>) -> Json {
        match value {
            Value::Unit | Value::Option(None) => Json::Null,
            Value::Bool(value) => Json::Bool(value),
            Value::Number(value) => number(value),
            Value::Char(value) => Json::String(value.to_string()),
            Value::String(text) => Json::String(text.into_owned()),
            Value::Bytes(bytes) => Json::Array(bytes.iter().map(|byte| (*byte).into()).collect()),
            Value::Seq(items) | Value::Tuple(items) => self.list(items),
            Value::Map(entries) => {
                let named = entries.into_iter().map(|(key, value)| (self.text(key), value));
                let named: Vec<(String, Value<'_>)> = named.collect();
                self.object(named)
            }
            Value::Option(Some(value)) => self.json(*value),
            Value::Struct(found) => match (found.name.as_ref(), found.data) {
                ("StageRef", Data::NewType { value }) => {
                    let stage = self.text(value);
                    self.references.push(Reference { steps: self.steps.clone(), stage });
                    Json::Null
                }
                // The bytes of sources count, not where they lie.
                ("ModelRef" | "Paths" | "StoredName", _) => Json::Null,
                ("Expression", Data::NewType { value }) => {
                    let text = self.text(value);
                    Json::String((self.canonical)(&text))
                }
                (_, data) => self.data(data),
            },
            Value::Enum(found) => match found.data {
                Data::Unit => Json::String(found.variant.into_owned()),
                data => {
                    let variant = found.variant.into_owned();
                    let value = self.within(variant.clone(), |reader| reader.data(data));
                    Json::Object([(variant, value)].into_iter().collect())
                }
            },
        }
    }

    fn data(&mut self, data: Data<'_>) -> Json {
        match data {
            Data::Unit => Json::Null,
            Data::NewType { value } => self.json(value),
            Data::Tuple { values } => self.list(values),
            Data::Struct { fields } => self
                .object(fields.into_iter().map(|(key, value)| (key.into_owned(), value)).collect()),
        }
    }

    fn list(&mut self, items: Vec<Value<'_>>) -> Json {
        let items = items.into_iter().enumerate();
        let items = items.map(|(i, item)| self.within(i.to_string(), |reader| reader.json(item)));
        Json::Array(items.collect())
    }

    fn object(&mut self, fields: Vec<(String, Value<'_>)>) -> Json {
        let fields = fields.into_iter().map(|(key, value)| {
            let value = self.within(key.clone(), |reader| reader.json(value));
            (key, value)
        });
        Json::Object(fields.collect())
    }

    fn within<T>(&mut self, step: String, read: impl FnOnce(&mut Self) -> T) -> T {
        self.steps.push(step);
        let found = read(self);
        self.steps.pop();
        found
    }

    /// A key of a map, or the text of a newtype.
    fn text(&mut self, value: Value<'_>) -> String {
        match self.json(value) {
            Json::String(text) => text,
            other => other.to_string(),
        }
    }
}

fn number(value: Number) -> Json {
    match value {
        Number::I8(value) => value.into(),
        Number::I16(value) => value.into(),
        Number::I32(value) => value.into(),
        Number::I64(value) => value.into(),
        Number::U8(value) => value.into(),
        Number::U16(value) => value.into(),
        Number::U32(value) => value.into(),
        Number::U64(value) => value.into(),
        Number::F32(value) => value.into(),
        Number::F64(value) => value.into(),
        // No setting is that large; a number that is not known stays a number of its own.
        other => Json::String(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;

    use super::*;

    #[derive(Serialize)]
    struct Outer {
        from: StageRef,
        context: String,
        others: Vec<StageRef>,
        model: Option<ModelRef>,
        metrics: IndexMap<String, Expression>,
        inner: Option<Inner>,
        absent: Option<u32>,
    }

    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Inner {
        SomeBlock { table: StageRef, limit: u32, share: f64 },
    }

    #[test]
    fn names_of_stages_and_models_are_distinguished_from_values_by_their_types() {
        let stage = |name: &str| StageRef(name.to_owned());
        let settings = Outer {
            from: stage("a"),
            context: "b".to_owned(),
            others: vec![stage("c"), stage("d")],
            model: Some(ModelRef("m".to_owned())),
            metrics: [("x".to_owned(), Expression("A  =  1".to_owned()))].into_iter().collect(),
            inner: Some(Inner::SomeBlock { table: stage("e"), limit: 3, share: 0.5 }),
            absent: None,
        };
        let read = read(&settings, &|text| text.replace("  ", " "));
        let found: Vec<_> =
            read.references.iter().map(|it| (it.path(), it.stage.as_str())).collect();
        let expected = [
            ("from", "a"),
            ("others[0]", "c"),
            ("others[1]", "d"),
            ("inner.some_block.table", "e"),
        ];
        assert_eq!(found, expected.map(|(path, stage)| (path.to_owned(), stage)));
        let expected = serde_json::json!({
            "from": null, "context": "b", "others": [null, null], "model": null,
            "metrics": {"x": "A = 1"},
            "inner": {"some_block": {"table": null, "limit": 3, "share": 0.5}},
            "absent": null,
        });
        assert_eq!(read.values, expected);
    }
}
