//! Requests that failed for a reason that stays, in a table that is computed again because other rows failed for reasons
//! that may pass. They are not asked again.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, RecordBatch};
use proofmill_base::digest::Digest;
use proofmill_store::{Store, read_part};
use proofmill_udfs::model::{Class, Failure, Key};

use crate::run::planned::PlannedStage;
use crate::run::reason::Reason;
use crate::stages::queries::answers::REQUEST_DIGEST;

/// Those of the table that this run computes again. None where it is computed for another reason, such as `--rerun`,
/// and where error rows cannot be read or do not name their requests: then they are asked.
pub async fn refused(store: &Store, planned: &PlannedStage) -> HashMap<Key, Failure> {
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
