//! A row of any table, read by the names of its columns: what it lacks is nothing, not an error.

use serde_json::{Map, Value as Json};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonRow(pub Map<String, Json>);

impl JsonRow {
    pub fn text(&self, column: &str) -> Option<String> {
        self.0.get(column)?.as_str().map(str::to_owned)
    }

    pub fn number(&self, column: &str) -> Option<f64> {
        self.0.get(column)?.as_f64()
    }

    /// A whole number.
    pub fn whole(&self, column: &str) -> Option<i64> {
        self.0.get(column)?.as_i64()
    }

    /// True or false.
    pub fn flag(&self, column: &str) -> Option<bool> {
        self.0.get(column)?.as_bool()
    }

    /// A list of texts; those that are none are left out.
    pub fn texts(&self, column: &str) -> Vec<String> {
        let texts = self.items(column).filter_map(Json::as_str);
        texts.map(str::to_owned).collect()
    }

    /// A list of records.
    pub fn rows(&self, column: &str) -> Vec<JsonRow> {
        let records = self.items(column).filter_map(Json::as_object);
        records.cloned().map(JsonRow).collect()
    }

    fn items(&self, column: &str) -> impl Iterator<Item = &Json> {
        self.0.get(column).and_then(Json::as_array).into_iter().flatten()
    }

    /// The columns that are not among `known`, and not NULL.
    pub fn others(&self, known: &[&str]) -> Map<String, Json> {
        let others = self
            .0
            .iter()
            .filter(|(name, value)| !known.contains(&name.as_str()) && !value.is_null());
        others.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_there_or_of_another_type_is_nothing() {
        let Json::Object(map) = json!({"t": "x", "n": 2, "l": ["a", null, {"k": 1}], "z": null})
        else {
            unreachable!("it is an object")
        };
        let row = JsonRow(map);
        assert_eq!(
            (row.text("t"), row.text("n"), row.text("absent")),
            (Some("x".into()), None, None)
        );
        assert_eq!((row.number("n"), row.whole("n"), row.flag("n")), (Some(2.0), Some(2), None));
        assert_eq!(
            (row.texts("l"), row.rows("l").len(), row.texts("t")),
            (vec!["a".into()], 1, vec![])
        );
        assert_eq!(row.others(&["t", "l"]).keys().collect::<Vec<_>>(), ["n"]);
    }
}
