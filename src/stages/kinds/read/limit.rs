//! `limit`: the rows of a table that come first by `row_id`, in the order of the table. Without that column, its first rows.

use arrow::array::{Array, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::DataType;

use crate::session::engine::BATCH_ROWS;
use crate::stages::error::StageError;

const ROW_ID: &str = "row_id";

/// Takes all rows and keeps those.
#[derive(Debug)]
pub struct FirstRows {
    rows: usize,
    kept: Vec<RecordBatch>,
    /// Rows that were seen.
    pub seen: u64,
}

impl FirstRows {
    /// Keeps so many.
    pub fn to(rows: u64) -> Self {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        Self { rows, kept: Vec::new(), seen: 0 }
    }

    /// Sees further rows.
    pub fn add(&mut self, batch: RecordBatch) -> Result<(), StageError> {
        self.seen += batch.num_rows() as u64;
        self.kept.push(batch);
        let held: usize = self.kept.iter().map(RecordBatch::num_rows).sum();
        match held > self.rows.saturating_add(BATCH_ROWS) {
            true => self.cut(),
            false => Ok(()),
        }
    }

    /// Sees what another kept of the rows behind these.
    pub fn append(&mut self, other: Self) -> Result<(), StageError> {
        let seen = self.seen + other.seen;
        other.kept.into_iter().try_for_each(|batch| self.add(batch))?;
        self.seen = seen;
        Ok(())
    }

    /// The rows that are kept; nothing where there were none.
    pub fn finish(mut self) -> Result<Option<RecordBatch>, StageError> {
        self.cut()?;
        Ok(self.kept.pop())
    }

    /// What a person should know; nothing if no row was left out.
    pub fn note(&self) -> Option<String> {
        let is_cut = self.seen > self.rows as u64;
        is_cut.then(|| {
            format!(
                "`limit`: {} of {} rows, those that come first by `{ROW_ID}`",
                self.rows, self.seen
            )
        })
    }

    fn cut(&mut self) -> Result<(), StageError> {
        let Some(first) = self.kept.first() else { return Ok(()) };
        let all = concat_batches(&first.schema(), &self.kept)?;
        let mut places: Vec<usize> = (0..all.num_rows()).collect();
        if all.num_rows() > self.rows {
            if let Some(ids) = all.column_by_name(ROW_ID) {
                let ids = cast(ids, &DataType::Utf8)?;
                let ids = ids.as_string::<i32>();
                let id = |place: usize| ids.is_valid(place).then(|| ids.value(place));
                places.sort_by_key(|place| (id(*place), *place));
            }
            places.truncate(self.rows);
            places.sort_unstable();
        }
        let places = UInt64Array::from_iter_values(places.into_iter().map(|place| place as u64));
        self.kept = vec![take_record_batch(&all, &places)?];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn batch(ids: &[&str], from: i64) -> RecordBatch {
        let numbers = Int64Array::from_iter_values(from..from + ids.len() as i64);
        let ids = StringArray::from(ids.to_vec());
        RecordBatch::try_from_iter([
            (ROW_ID, Arc::new(ids) as ArrayRef),
            ("n", Arc::new(numbers) as ArrayRef),
        ])
        .unwrap()
    }

    fn numbers(limited: FirstRows) -> Vec<i64> {
        let kept = limited.finish().unwrap().unwrap();
        kept["n"].as_primitive::<arrow::datatypes::Int64Type>().values().to_vec()
    }

    #[test]
    fn the_first_by_identity_stay_in_their_order_however_rows_come() {
        let ids = ["d", "b", "e", "a", "b", "c"];
        let mut whole = FirstRows::to(4);
        whole.add(batch(&ids, 0)).unwrap();
        assert_eq!(
            whole.note().unwrap(),
            "`limit`: 4 of 6 rows, those that come first by `row_id`"
        );
        assert_eq!(numbers(whole), [1, 3, 4, 5]);
        let mut left = FirstRows::to(4);
        left.add(batch(&ids[..2], 0)).unwrap();
        let mut right = FirstRows::to(4);
        right.add(batch(&ids[2..], 2)).unwrap();
        left.append(right).unwrap();
        assert_eq!((left.seen, numbers(left)), (6, vec![1, 3, 4, 5]));
    }

    #[test]
    fn many_rows_are_cut_on_the_way() {
        let mut limited = FirstRows::to(2);
        for block in (0..40).rev() {
            let ids: Vec<String> =
                (0..1_000).map(|i| format!("{:06}", block * 1_000 + i)).collect();
            limited
                .add(batch(&ids.iter().map(String::as_str).collect::<Vec<_>>(), block * 1_000))
                .unwrap();
            assert!(
                limited.kept.iter().map(RecordBatch::num_rows).sum::<usize>() <= BATCH_ROWS + 2
            );
        }
        assert_eq!((limited.seen, numbers(limited)), (40_000, vec![0, 1]));
    }

    #[test]
    fn few_rows_and_none_are_left_alone() {
        assert!(FirstRows::to(4).finish().unwrap().is_none());
        let mut few = FirstRows::to(4);
        few.add(batch(&["b", "a"], 0)).unwrap();
        assert_eq!((few.note(), numbers(few)), (None, vec![0, 1]));
    }
}
