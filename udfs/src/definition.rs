//! What a function is called, takes and returns: one record from which the type check, the error
//! messages and the reference page all follow.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{DocSection, Documentation};

/// Whether a function maps rows to rows or rows to one value, and who computes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// One value per row.
    Scalar,
    /// One value per group of rows.
    Aggregate,
    /// One value per row, by a model.
    Model,
}

/// The documentation record of a function.
#[derive(Debug)]
pub struct Doc {
    /// SQL name.
    pub name: &'static str,
    /// Behaviour version: raised whenever the same arguments give another result.
    pub version: u32,
    /// Scalar, aggregate or by a model.
    pub kind: FunctionKind,
    /// What it computes, by which definition, and what it does with NULL.
    pub description: &'static str,
    /// The arguments in order; optional ones come last.
    pub arguments: &'static [Argument],
    /// The SQL type of the result, in words.
    pub returns: &'static str,
    /// A query, and the result it prints.
    pub example: Example,
}

/// A query and its printed result, checked by a test.
#[derive(Debug)]
pub struct Example {
    pub sql: &'static str,
    pub result: &'static str,
}

/// One argument of a function.
#[derive(Debug)]
pub struct Argument {
    /// Its name in documentation and errors.
    pub name: &'static str,
    pub kind: Kind,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether more of the same may follow; only of the last one.
    pub repeated: bool,
    /// What it means, with its default.
    pub description: &'static str,
}

impl Argument {
    /// An argument that must be given.
    pub const fn required(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self { name, kind, optional: false, repeated: false, description }
    }

    /// An argument that may be left out.
    pub const fn optional(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self { name, kind, optional: true, repeated: false, description }
    }

    /// The last argument of a function that takes one or more of it.
    pub const fn repeated(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self { name, kind, optional: false, repeated: true, description }
    }

    /// The same, of a function that takes none as well.
    pub const fn any_number(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self { name, kind, optional: true, repeated: true, description }
    }
}

/// Arguments of a call that the function does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    pub problem: String,
    /// What it takes.
    pub help: String,
}

/// What may be passed as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text, read in the type it has.
    RawText,
    Text,
    Texts,
    Numbers,
    Number,
    Whole,
    Boolean,
    /// A text, whole number or truth value that names a class or a cluster.
    Label,
    /// A constant: one of these names.
    Choice(&'static [&'static str]),
    ConstantNumber,
    ConstantWhole,
    Switch,
    /// A constant: the name of a model.
    Model,
    TextList,
    /// A text, or a list of structs with a role and a content.
    Prompt,
    /// A list of texts or of structs with a title and a text.
    Passages,
    /// Options by name: a JSON object or a struct.
    Options,
    /// A step into JSON: the key of an object or the position in an array.
    Step,
    /// A struct, with fields of any type.
    Record,
    /// A list of lists of numbers.
    Vectors,
}

impl Kind {
    /// Whether every row must pass the same value.
    pub fn is_constant(self) -> bool {
        matches!(
            self,
            Self::Choice(_)
                | Self::ConstantNumber
                | Self::ConstantWhole
                | Self::Switch
                | Self::Model
        )
    }

    /// What may be passed, in words.
    pub fn expected(self) -> String {
        match self {
            Self::RawText | Self::Text => "text".into(),
            Self::Texts => "text or a list of texts".into(),
            Self::Numbers => "a list of numbers".into(),
            Self::Number => "a number".into(),
            Self::Whole => "a whole number".into(),
            Self::Boolean => "a boolean".into(),
            Self::Label => "text, a whole number or a boolean".into(),
            Self::Choice(names) => format!("one of the constants '{}'", names.join("', '")),
            Self::ConstantNumber => "a constant number".into(),
            Self::ConstantWhole => "a constant whole number".into(),
            Self::Switch => "a constant boolean".into(),
            Self::Model => "the name of a model as a constant text".into(),
            Self::TextList => "a list of texts".into(),
            Self::Prompt => "text or a list of struct(role, content)".into(),
            Self::Passages => "a list of texts or of struct(title, text)".into(),
            Self::Options => "a JSON object as text, or a struct".into(),
            Self::Step => "text or a whole number".into(),
            Self::Record => "a struct".into(),
            Self::Vectors => "a list of lists of numbers".into(),
        }
    }

    /// The type an argument of type `given` is cast to; `None` if it does not fit.
    pub fn coerce(self, given: &DataType) -> Option<DataType> {
        use DataType::{Boolean, Float64, Int64, Null, Utf8, Utf8View};
        let integer = given.is_integer() || *given == Null;
        let text = is_text(given) || *given == Null;
        match self {
            Self::RawText if given.is_string() => Some(given.clone()),
            Self::RawText if text => Some(Utf8),
            Self::Text | Self::Choice(_) if text => Some(Utf8View),
            Self::Texts if text => Some(Utf8View),
            Self::Texts => list_element(given)
                .is_some_and(|element| is_text(element) || *element == Null)
                .then(texts_type),
            Self::Numbers if *given == Null => Some(numbers_type()),
            Self::Numbers => list_element(given)
                .is_some_and(|element| element.is_numeric() || *element == Null)
                .then(numbers_type),
            Self::Number | Self::ConstantNumber if given.is_numeric() || *given == Null => {
                Some(Float64)
            }
            Self::Whole | Self::ConstantWhole if integer => Some(Int64),
            Self::Boolean | Self::Switch if matches!(given, Boolean | Null) => Some(Boolean),
            Self::Label if text || integer || *given == Boolean => Some(Utf8View),
            Self::Model | Self::Options if text => Some(Utf8View),
            Self::Options if matches!(given, DataType::Struct(_)) => Some(given.clone()),
            Self::Record if matches!(given, DataType::Struct(_) | Null) => Some(given.clone()),
            Self::Vectors if *given == Null => Some(vectors_type()),
            Self::Vectors => Self::Numbers.coerce(list_element(given)?).map(|_| vectors_type()),
            Self::Step if is_text(given) => Some(Utf8View),
            Self::Step if integer => Some(Int64),
            Self::TextList | Self::Passages if *given == Null => Some(texts_type()),
            Self::TextList => list_element(given)
                .is_some_and(|element| is_text(element) || *element == Null)
                .then(texts_type),
            Self::Prompt if text => Some(Utf8View),
            Self::Prompt => is_list_of(given, ["role", "content"]).then(|| given.clone()),
            Self::Passages if is_list_of(given, ["title", "text"]) => Some(given.clone()),
            Self::Passages => Self::TextList.coerce(given),
            _ => None,
        }
    }
}

/// Whether a type is text, however it is stored.
pub fn is_text(given: &DataType) -> bool {
    match given {
        DataType::Dictionary(_, values) => is_text(values),
        given => given.is_string(),
    }
}

fn list_element(given: &DataType) -> Option<&DataType> {
    match given {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

/// Whether a type is a list of structs with two texts of these names.
pub fn is_list_of(given: &DataType, names: [&str; 2]) -> bool {
    let Some(DataType::Struct(fields)) = list_element(given) else { return false };
    let named = |name: &str| fields.iter().find(|field| field.name() == name);
    let fits =
        |field: &FieldRef| is_text(field.data_type()) || *field.data_type() == DataType::Null;
    fields.len() == 2 && names.iter().all(|name| named(name).is_some_and(fits))
}

/// The one list type in which lists of texts are read.
pub fn texts_type() -> DataType {
    DataType::LargeList(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
}

/// The one list type in which lists of numbers are read.
pub fn numbers_type() -> DataType {
    DataType::LargeList(Arc::new(Field::new_list_field(DataType::Float64, true)))
}

/// The one list type in which lists of vectors are read.
pub fn vectors_type() -> DataType {
    DataType::LargeList(Arc::new(Field::new_list_field(numbers_type(), true)))
}

impl Doc {
    /// The call with its arguments: `bleu(hypothesis, references [, smoothing])`.
    pub fn syntax(&self) -> String {
        let mut syntax = format!("{}(", self.name);
        for (index, argument) in self.arguments.iter().enumerate() {
            syntax.push_str(match (index, argument.optional) {
                (0, _) => "",
                (_, false) => ", ",
                (_, true) => " [, ",
            });
            syntax.push_str(argument.name);
            if argument.repeated {
                syntax.push_str(", …");
            }
        }
        let optional = self.arguments.iter().filter(|argument| argument.optional).count();
        syntax.push_str(&"]".repeat(optional));
        syntax.push(')');
        syntax
    }

    /// The record as Markdown: the section of the reference without its title.
    pub fn markdown(&self) -> String {
        let mut text =
            format!("`{}` → {}\n\n{}\n\n", self.syntax(), self.returns, self.description);
        for argument in self.arguments {
            text.push_str(&format!("- `{}`: {}\n", argument.name, argument.description));
        }
        let (sql, result) = (self.example.sql, self.example.result.trim_end());
        text.push_str(&format!(
            "\n```sql\n{sql}\n```\n\n```text\n{result}\n```\n\nVersion {}.\n",
            self.version
        ));
        text
    }

    /// The first sentence of the description.
    pub fn summary(&self) -> &'static str {
        self.description.split_inclusive(". ").next().unwrap_or_default().trim_end()
    }

    /// The record in DataFusion's form.
    pub fn documentation(&self) -> Documentation {
        let section =
            DocSection { include: true, label: "Evaluation Functions", description: None };
        let description = format!("{} Returns {}.", self.description, self.returns);
        let example =
            format!("```sql\n> {};\n{}\n```", self.example.sql, self.example.result.trim());
        let builder =
            Documentation::builder(section, description, self.syntax()).with_sql_example(example);
        self.arguments
            .iter()
            .fold(builder, |builder, argument| {
                builder.with_argument(argument.name, argument.description)
            })
            .build()
    }

    /// [`Doc::fit`] with a plan error.
    pub fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.fit(given).or_else(|Misfit { problem, help }| plan_err!("{problem}; {help}"))
    }

    /// The types the arguments are cast to, or what does not fit: the number of arguments, or the first one
    /// of another type.
    pub fn fit(&self, given: &[DataType]) -> Result<Vec<DataType>, Misfit> {
        let required = self.arguments.iter().filter(|argument| !argument.optional).count();
        let last = self.arguments.last().filter(|argument| argument.repeated);
        if given.len() < required || (given.len() > self.arguments.len() && last.is_none()) {
            let problem = format!("`{}` with {} arguments", self.name, given.len());
            return Err(Misfit { problem, help: format!("expected {}", self.syntax()) });
        }
        let fit = |(argument, given): (&Argument, &DataType)| {
            argument.kind.coerce(given).ok_or_else(|| {
                let (function, argument, kind) = (self.name, argument.name, argument.kind);
                let problem = format!("`{function}`: argument `{argument}` is of type {given}");
                Misfit { problem, help: format!("expected {}", kind.expected()) }
            })
        };
        let arguments = self.arguments.iter().chain(last.into_iter().cycle());
        arguments.zip(given).map(fit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: Doc = Doc {
        name: "f",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "",
        arguments: &[
            Argument::required("a", Kind::Texts, ""),
            Argument::optional("b", Kind::Choice(&["x", "y"]), ""),
            Argument::optional("c", Kind::ConstantNumber, ""),
        ],
        returns: "",
        example: Example { sql: "", result: "" },
    };

    #[test]
    fn syntax_brackets_what_may_be_left_out() {
        assert_eq!(DOC.syntax(), "f(a [, b [, c]])");
    }

    #[test]
    fn every_list_and_string_type_is_taken() {
        let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
        for given in [
            DataType::List(item(DataType::Utf8)),
            DataType::LargeList(item(DataType::LargeUtf8)),
            DataType::FixedSizeList(item(DataType::Utf8View), 2),
            DataType::List(item(DataType::Null)),
        ] {
            assert_eq!(DOC.coerce_types(&[given]).unwrap(), [texts_type()]);
        }
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        for given in [DataType::Utf8, DataType::LargeUtf8, DataType::Null, dictionary] {
            assert_eq!(DOC.coerce_types(&[given]).unwrap(), [DataType::Utf8View]);
        }
    }

    #[test]
    fn errors_name_function_argument_and_expectation() {
        let message = |given: &[DataType]| DOC.coerce_types(given).unwrap_err().to_string();
        assert!(message(&[]).contains("`f` with 0 arguments; expected f(a [, b [, c]])"));
        assert!(
            message(&[DataType::Int32])
                .contains("`f`: argument `a` is of type Int32; expected text or a list of texts")
        );
        assert!(
            message(&[DataType::Utf8, DataType::Int32])
                .contains("expected one of the constants 'x', 'y'")
        );
    }
}
