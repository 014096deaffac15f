//! Builders of columns: values that have been checked against their kind, appended one by one.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, ListArray, NullBufferBuilder,
    StringBuilder, StructArray,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};

use crate::json::{Json, get};
use crate::kind::Kind;

/// Builds the column of a [`Kind`].
pub enum Builder {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
    List(Box<ListBuilder>),
    Struct(StructBuilder),
}

/// Builds a column of lists.
pub struct ListBuilder {
    kind: Kind,
    item: Builder,
    items: i32,
    ends: Vec<i32>,
    valid: NullBufferBuilder,
}

/// Builds a column of structs.
pub struct StructBuilder {
    kind: Kind,
    names: Vec<String>,
    fields: Vec<Builder>,
    valid: NullBufferBuilder,
}

impl Builder {
    /// An empty column.
    pub fn new(kind: &Kind) -> Self {
        match kind {
            Kind::Bool => Self::Bool(BooleanBuilder::new()),
            Kind::Int => Self::Int(Int64Builder::new()),
            Kind::Float => Self::Float(Float64Builder::new()),
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::List(item) => Self::List(Box::new(ListBuilder {
                kind: kind.clone(),
                item: Self::new(item),
                items: 0,
                ends: vec![0],
                valid: NullBufferBuilder::new(0),
            })),
            Kind::Struct(fields) => Self::Struct(StructBuilder {
                kind: kind.clone(),
                names: fields.iter().map(|(name, _)| name.clone()).collect(),
                fields: fields.iter().map(|(_, kind)| Self::new(kind)).collect(),
                valid: NullBufferBuilder::new(0),
            }),
        }
    }

    /// Appends a value, or NULL for what is missing. Values that [`Kind::check`] would refuse
    /// become NULL.
    pub fn append(&mut self, value: Option<&Json<'_>>) {
        match self {
            Self::Bool(builder) => builder.append_option(match value {
                Some(Json::Bool(value)) => Some(*value),
                _ => None,
            }),
            Self::Int(builder) => builder.append_option(value.and_then(Json::as_int)),
            Self::Float(builder) => builder.append_option(value.and_then(Json::as_float)),
            Self::Text(builder) => builder.append_option(value.and_then(Json::as_text)),
            Self::List(builder) => builder.append(value),
            Self::Struct(builder) => builder.append(value),
        }
    }

    /// The column; the builder is empty again.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(builder) => Arc::new(builder.finish()),
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::List(builder) => builder.finish(),
            Self::Struct(builder) => builder.finish(),
        }
    }
}

impl ListBuilder {
    fn append(&mut self, value: Option<&Json<'_>>) {
        let items = match value {
            Some(Json::List(items, _)) => Some(items),
            _ => None,
        };
        self.valid.append(items.is_some());
        for item in items.into_iter().flatten() {
            self.item.append(Some(item));
            self.items += 1;
        }
        self.ends.push(self.items);
    }

    fn finish(&mut self) -> ArrayRef {
        let Kind::List(item) = &self.kind else { unreachable!("made from a list") };
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        self.items = 0;
        Arc::new(ListArray::new(
            Arc::new(item.field("item")),
            OffsetBuffer::new(ScalarBuffer::from(ends)),
            self.item.finish(),
            self.valid.finish(),
        ))
    }
}

impl StructBuilder {
    fn append(&mut self, value: Option<&Json<'_>>) {
        let object = match value {
            Some(Json::Object(object, _)) => Some(object),
            _ => None,
        };
        self.valid.append(object.is_some());
        for (i, (name, field)) in self.names.iter().zip(&mut self.fields).enumerate() {
            field.append(object.and_then(|object| get(object, name, i)));
        }
    }

    fn finish(&mut self) -> ArrayRef {
        let fields = self.fields.iter_mut().map(Builder::finish).collect();
        Arc::new(StructArray::new(self.kind.fields(), fields, self.valid.finish()))
    }
}
