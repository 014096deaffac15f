//! Requests that failed for a reason that stays, in a table that is computed again because other rows failed for reasons
//! that may pass. They are not sent again.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, RecordBatch};
use proofmill_base::digest::Digest;
use proofmill_store::{Store, read_part};
use proofmill_udfs::model::{Class, Failure, Key};

use crate::run::planned::PlannedStage;
use crate::run::reason::Reason;
use crate::stages::queries::answers::REQUEST_DIGEST;

/// Those of the table that this run computes again. None where it is computed for another reason, such as `--rerun`,
/// and where error rows cannot be read or do not name their requests: then they are sent.
pub async fn permanent_failures(store: &Store, planned: &PlannedStage) -> HashMap<Key, Failure> {
    let mut all = HashMap::new();
    let (Reason::Transient(_), Some(old)) = (&planned.reason, &planned.replace) else { return all };
    for part in &old.record.errors {
        for batch in read_part(store, part).await.unwrap_or_default() {
            all.extend((0..batch.num_rows()).filter_map(|row| of_row(&batch, row)));
        }
    }
    all
}

fn of_row(errors: &RecordBatch, row: usize) -> Option<(Key, Failure)> {
    let text = |name: &str| {
        let texts = errors.column_by_name(name)?.as_string_opt::<i32>()?;
        texts.is_valid(row).then(|| texts.value(row).to_owned())
    };
    let class = Class::named(&text("class")?).filter(|class| !class.may_pass())?;
    let request: Digest = text(REQUEST_DIGEST)?.parse().ok()?;
    Some((*request.as_bytes(), Failure { class, message: text("message")? }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    use super::*;

    #[test]
    fn rows_that_stay_failed_are_known_by_their_requests() {
        let digest = Digest::of(b"requested");
        let rows: [(&str, Option<String>); 5] = [
            ("invalid", Some(digest.to_string())),
            ("transient", Some(digest.to_string())),
            ("too_long", None),
            ("failed", Some("no digest".to_owned())),
            ("of a later version", Some(digest.to_string())),
        ];
        let column = |texts: Vec<Option<&str>>| Arc::new(StringArray::from(texts)) as ArrayRef;
        let classes = column(rows.iter().map(|(class, _)| Some(*class)).collect());
        let digests = column(rows.iter().map(|(_, digest)| digest.as_deref()).collect());
        let known = |columns: Vec<(&str, ArrayRef)>| -> Vec<_> {
            let batch = RecordBatch::try_from_iter_with_nullable(
                columns.into_iter().map(|(name, column)| (name, column, true)),
            );
            let batch = batch.unwrap();
            (0..batch.num_rows()).filter_map(|row| of_row(&batch, row)).collect()
        };
        let all = known(vec![
            ("class", Arc::clone(&classes)),
            ("message", Arc::clone(&classes)),
            (REQUEST_DIGEST, digests),
        ]);
        assert_eq!(all, [(*digest.as_bytes(), Failure::invalid("invalid"))]);
        // Stores of older versions do not name requests.
        assert_eq!(known(vec![("class", Arc::clone(&classes)), ("message", classes)]), []);
    }
}
