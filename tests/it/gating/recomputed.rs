//! Nights whose models compute a share of their answers once more: one bit that differs fails the night.

use std::fs::{self, File};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, ListArray, RecordBatch};
use arrow::datatypes::Float32Type;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proofmill_base::digest::Digest;
use serde_json::{Value as Json, json};

use crate::evidence::forgeries::sealed;
use crate::support::Workspace;

const PIPELINE: &str = r#"
pipeline: nightly
models:
  writer: { path: writer, kv_cache_mib: 8 }
  encoder: { path: encoder }
stages:
  asked:
    sql: |
      SELECT 'r' || n AS row_id, CASE WHEN n = 5 THEN NULL ELSE 'the cat ' || n END AS question
      FROM (SELECT unnest(range(40)) AS n)
  written:
    generate: { from: asked, model: writer, prompt: question, options: { max_tokens: 6, min_tokens: 3, temperature: 1, samples: 2 } }
    max_error_rate: 0.1
  chosen:
    score: { from: asked, model: writer, prompt: question, choices: "['sat', 'ran', row_id]" }
    max_error_rate: 0.1
  embedded:
    embed: { from: asked, model: encoder, text: question }
    max_error_rate: 0.1
"#;

const SCHEDULE: &str =
    "kind: schedule\nname: nights\npipeline: p.yaml\ncron: '0 2 * * *'\nrecompute: 100%\n";

fn nightly(schedule: &str) -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.add_model("gpt2", "writer");
    workspace.add_model("bert-sentence", "encoder");
    workspace.write("s.yaml", schedule);
    workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    workspace
}

fn night(workspace: &Workspace) -> crate::support::Done {
    workspace.proofmill(&["schedule", "trigger", "nights"]).expect(0);
    workspace.proofmill(&["schedule", "tick"])
}

/// The samples of the last night, by stage: how many answers came again, and how many differ.
fn sampled(workspace: &Workspace) -> Vec<(String, u64, u64)> {
    let status = workspace.json(&["schedule", "status"]);
    let sampled = status[0]["last"]["sampled"].as_array().cloned().unwrap_or_default();
    let of = |it: &Json| {
        assert_eq!(it["is_local"], true, "{it:#}");
        let number = |name: &str| it[name].as_u64().unwrap();
        (it["stage"].as_str().unwrap().to_owned(), number("again"), number("differ"))
    };
    sampled.iter().map(of).collect()
}

/// Changes the lowest bit of one number of the vectors that the store has, in a way that only a recomputation can see: all
/// digests follow.
fn flip_a_bit(workspace: &Workspace) {
    let store = workspace.path("store");
    let named = |key: &String| workspace.read(&format!("store/{key}")).contains("\"embed\"");
    let key = workspace.keys("artifacts/").into_iter().find(named).unwrap();
    let mut record: Json = serde_json::from_str(&workspace.read(&format!("store/{key}"))).unwrap();
    let part = store.join(record["parts"][0]["key"].as_str().unwrap());
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&part).unwrap()).unwrap();
    let schema = Arc::clone(reader.schema());
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, Arc::clone(&schema), None).unwrap();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let (at, _) = schema.column_with_name("vector").unwrap();
        let lists: &ListArray = batch.column(at).as_list();
        let mut values = lists.values().as_primitive::<Float32Type>().values().to_vec();
        values[7] = f32::from_bits(values[7].to_bits() ^ 1);
        let (field, offsets) = match lists.data_type() {
            arrow::datatypes::DataType::List(field) => (Arc::clone(field), lists.offsets().clone()),
            other => panic!("{other}"),
        };
        let values = Arc::new(Float32Array::from(values));
        let lists = ListArray::new(field, offsets, values, lists.nulls().cloned());
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        columns[at] = Arc::new(lists);
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()).unwrap();
    }
    writer.close().unwrap();
    record["parts"][0]["sha256"] = Digest::of(&bytes).to_string().into();
    record["parts"][0]["bytes"] = bytes.len().into();
    record.as_object_mut().unwrap().remove("rows_root");
    fs::write(part, bytes).unwrap();
    fs::write(store.join(key), sealed(&record)).unwrap();
}

#[test]
fn one_bit_that_a_model_computes_otherwise_fails_the_night() {
    let workspace = nightly(SCHEDULE);
    // A row without a question has one row without an answer.
    let all = [("written", 79, 0), ("chosen", 118, 0), ("embedded", 40, 0)];
    let all = all.map(|(stage, again, differ)| (stage.to_owned(), again, differ));
    for _ in 0..2 {
        night(&workspace).expect(0);
        assert_eq!(sampled(&workspace), all);
    }
    let before = workspace.keys("ledger/").len();
    flip_a_bit(&workspace);
    night(&workspace)
        .expect(1)
        .says("40 answers of stage `embedded`, computed once more by this machine, 1 of 40 differ");
    assert_eq!(workspace.keys("ledger/").len(), before, "what is computed again is not kept");
    let status = workspace.proofmill(&["schedule", "status"]).stdout;
    assert!(
        status.contains("computed once more, 1 of 40 answers of `embedded` differ"),
        "{status}"
    );
    let rows =
        workspace.json(&["sql", "SELECT by, differ FROM system.asked_again WHERE differ > 0"]);
    assert_eq!(rows, json!([{ "by": "this machine", "differ": 1 }]));
    let nights = workspace.json(&["sql", "SELECT how FROM system.nights ORDER BY ended_at"]);
    assert_eq!(
        nights,
        json!([{ "how": "succeeded" }, { "how": "succeeded" }, { "how": "failed" }])
    );
}

#[test]
fn a_hundredth_is_computed_again_unless_another_share_is_wanted() {
    for line in ["", "recompute: 10%\n", "recompute: none\n"] {
        let workspace = nightly(&SCHEDULE.replace("recompute: 100%\n", line));
        night(&workspace).expect(0);
        let found: Vec<u64> = sampled(&workspace).iter().map(|(_, again, _)| *again).collect();
        // Which rows these are depends on the instant of the night, and so does how many they are: of 40, a hundredth or a tenth.
        match line {
            "recompute: none\n" => assert_eq!(found, [0; 0]),
            "" => {
                assert!(found.len() == 3 && found.iter().all(|n| (1..10).contains(n)), "{found:?}")
            }
            _ => {
                assert!(found.len() == 3 && found.iter().all(|n| (1..20).contains(n)), "{found:?}")
            }
        }
    }
    let workspace = nightly(SCHEDULE);
    workspace.write("s.yaml", SCHEDULE.replace("100%", "0%"));
    workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(3).says("s.yaml:5:");
}
