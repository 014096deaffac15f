//! Columns of vectors: lists of floating-point numbers, read as slices of 32-bit ones.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, ListArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type};

use proofmill_retrieval::vectors::VectorFlaw;
use crate::stages::error::StageError;

/// A column of vectors.
pub struct Vectors {
    list: ListArray,
    values: Float32Array,
}

/// The type of a stored vector.
pub fn data_type() -> DataType {
    DataType::List(item(false))
}

/// True for lists of 32- or 64-bit floating-point numbers.
pub fn is_vector(kind: &DataType) -> bool {
    match kind {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            matches!(item.data_type(), DataType::Float32 | DataType::Float64)
        }
        _ => false,
    }
}

/// The numbers of a vector.
pub fn item(nullable: bool) -> FieldRef {
    Arc::new(Field::new("item", DataType::Float32, nullable))
}

impl Vectors {
    /// The vectors of a column for which [`is_vector`] holds. A number beyond 32 bits becomes
    /// infinite, which no vector may hold.
    pub fn of(column: &ArrayRef) -> Result<Self, StageError> {
        let list = cast(column, &DataType::List(item(true)))?;
        let list = list.as_list::<i32>().clone();
        let values = list.values().as_primitive::<Float32Type>().clone();
        Ok(Self { list, values })
    }

    /// The numbers of a row.
    pub fn get(&self, row: usize) -> Result<&[f32], VectorFlaw> {
        if self.list.is_null(row) {
            return Err(VectorFlaw::Missing);
        }
        let offsets = self.list.value_offsets();
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        let hole = (start..end).find(|&at| self.values.null_count() > 0 && self.values.is_null(at));
        match hole {
            Some(at) => Err(VectorFlaw::Hole(at - start + 1)),
            None => Ok(&self.values.values()[start..end]),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{FixedSizeListArray, LargeListArray};
    use arrow::datatypes::Float64Type;

    use super::*;

    fn column() -> ListArray {
        let rows = [Some(vec![Some(0.5), Some(-1.0)]), None, Some(vec![Some(2.0), None])];
        ListArray::from_iter_primitive::<Float64Type, _, _>(rows)
    }

    #[test]
    fn every_kind_of_list_reads_the_same() {
        let rows = [Some(vec![Some(0.5), Some(-1.0)]), None, Some(vec![Some(2.0), None])];
        let all: [ArrayRef; 3] = [
            Arc::new(column()),
            Arc::new(LargeListArray::from_iter_primitive::<Float32Type, _, _>(rows.clone())),
            Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2)),
        ];
        for column in all {
            assert!(is_vector(column.data_type()));
            let vectors = Vectors::of(&column).unwrap();
            assert_eq!(vectors.rows(), 3);
            assert_eq!(vectors.get(0), Ok([0.5, -1.0].as_slice()));
            assert_eq!(vectors.get(1), Err(VectorFlaw::Missing));
            assert_eq!(vectors.get(2), Err(VectorFlaw::Hole(2)));
        }
    }

    #[test]
    fn a_slice_of_a_column_reads_its_own_rows() {
        let sliced: ArrayRef = Arc::new(column().slice(2, 1));
        assert_eq!(Vectors::of(&sliced).unwrap().get(0), Err(VectorFlaw::Hole(2)));
        let sliced: ArrayRef = Arc::new(column().slice(0, 1));
        assert_eq!(Vectors::of(&sliced).unwrap().get(0), Ok([0.5, -1.0].as_slice()));
    }

    #[test]
    fn numbers_beyond_32_bits_are_infinite() {
        let row = [Some(vec![Some(1e300)])];
        let column: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(row));
        let vectors = Vectors::of(&column).unwrap();
        assert_eq!(vectors.get(0), Ok([f32::INFINITY].as_slice()));
    }

    #[test]
    fn lists_of_other_things_are_no_vectors() {
        let list = |kind| DataType::List(Arc::new(Field::new("item", kind, true)));
        for kind in [DataType::Float32, list(DataType::Int64), list(DataType::Utf8)] {
            assert!(!is_vector(&kind), "{kind}");
        }
    }
}
