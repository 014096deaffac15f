//! The schema of an artifact in its record: readable columns and the exact Arrow schema.

use std::panic::catch_unwind;

use arrow::datatypes::Schema;
use arrow::ipc::convert::{IpcSchemaEncoder, fb_to_schema};
use arrow::ipc::writer::DictionaryTracker;
use serde::{Deserialize, Serialize};

/// One column, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    pub name: String,
    /// Arrow type, as Arrow displays it.
    #[serde(rename = "type")]
    pub data_type: String,
    pub nullable: bool,
}

/// The columns of `schema`.
pub fn columns_of(schema: &Schema) -> Vec<Column> {
    let column = |field: &arrow::datatypes::FieldRef| Column {
        name: field.name().clone(),
        data_type: field.data_type().to_string(),
        nullable: field.is_nullable(),
    };
    schema.fields().iter().map(column).collect()
}

/// `schema` with all metadata: the hex digits of its Arrow IPC flatbuffer.
pub fn schema_to_hex(schema: &Schema) -> String {
    // A schema with dictionaries is not encoded without one.
    let mut tracker = DictionaryTracker::new(false);
    let flatbuffer =
        IpcSchemaEncoder::new().with_dictionary_tracker(&mut tracker).schema_to_fb(schema);
    let bytes = flatbuffer.finished_data();
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        hex.extend(
            [byte >> 4, byte & 0xf]
                .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
        );
    }
    hex
}

/// The schema that [`schema_to_hex`] wrote; none if the text is anything else.
pub fn schema_from_hex(hex: &str) -> Option<Schema> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> = match hex.len() % 2 {
        0 => hex
            .as_bytes()
            .chunks(2)
            .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
            .collect(),
        _ => None,
    };
    let bytes = bytes?;
    // A flatbuffer that is well-formed may still hold no schema: the conversion then panics.
    catch_unwind(|| arrow::ipc::root_as_schema(&bytes).ok().map(fb_to_schema)).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::datatypes::{DataType, Field, TimeUnit};

    use super::*;

    #[test]
    fn the_exact_schema_survives() {
        let premise = DataType::Struct(vec![Field::new("text", DataType::Utf8View, false)].into());
        let marked = Field::new("score", DataType::Float32, true)
            .with_metadata(HashMap::from([("unit".to_owned(), "nats".to_owned())]));
        let schema = Schema::new_with_metadata(
            vec![
                Field::new(
                    "premises",
                    DataType::List(Field::new("item", premise, true).into()),
                    false,
                ),
                Field::new(
                    "at",
                    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
                    true,
                ),
                marked,
                Field::new_dictionary("label", DataType::Int32, DataType::Utf8, true),
            ],
            HashMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]),
        );
        assert_eq!(schema_from_hex(&schema_to_hex(&schema)).unwrap(), schema);
        assert_eq!(columns_of(&schema)[2].data_type, "Float32");
    }

    #[test]
    fn other_texts_hold_no_schema() {
        for text in ["0", "zz", "00", &"00".repeat(40), &"ff".repeat(64)] {
            assert!(schema_from_hex(text).is_none(), "{text}");
        }
    }
}
