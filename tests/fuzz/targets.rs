//! The parsers of foreign bytes, as functions that must end soon and never panic, whatever they get.
//! `tests/it/tree/fuzz.rs` runs them on mutations for some seconds, `cargo fuzz` for as long as you like.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;
use chrono::{DateTime, Utc};
use parquet::arrow::ArrowWriter;
use proofmill::{graph, sqltext};
use proofmill_base::clock::Clock;
use proofmill_base::rng::SeededRng;
use proofmill_engine::checkpoint::Folder;
use proofmill_engine::request::{Embed, Generate, Prompt, Request, Score, Strategy};
use proofmill_files as files;
use proofmill_pipeline::expand::{self, Loader};
use proofmill_remote::{RemoteModel, Retry, Settings};
use proofmill_settings::endpoint::{Api, Capabilities};
use tempfile::TempDir;

/// A parser, and what to begin with.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
    /// Small inputs that are what the parser wants, or nearly.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them. `tests/fuzz/Cargo.toml` has a program for each.
pub const TARGETS: [Target; 8] = [
    Target { name: "json", run: json, seeds: json_seeds },
    Target { name: "delimited", run: delimited, seeds: delimited_seeds },
    Target { name: "parquet", run: parquet, seeds: parquet_seeds },
    Target { name: "pipeline", run: pipeline, seeds: pipeline_seeds },
    Target { name: "sql", run: sql, seeds: sql_seeds },
    Target { name: "safetensors", run: safetensors, seeds: safetensors_seeds },
    Target { name: "checkpoint_config", run: checkpoint_config, seeds: config_seeds },
    Target { name: "endpoint", run: endpoint, seeds: endpoint_seeds },
];

thread_local! {
    /// A folder for what is read from files.
    static FOLDER: TempDir = tempfile::tempdir().unwrap();
    static ENDPOINT: Endpoint = Endpoint::start();
}

/// A file of the repository.
fn file(name: &str) -> Vec<u8> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().find(|folder| folder.join("pipelines").is_dir()).unwrap();
    fs::read(root.join(name)).unwrap()
}

/// The first lines of a file of the repository.
fn lines(name: &str, count: usize) -> Vec<u8> {
    file(name).split_inclusive(|byte| *byte == b'\n').take(count).flatten().copied().collect()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The folder of this thread with these files in it.
fn written(files: &[(&str, &[u8])]) -> PathBuf {
    FOLDER.with(|folder| {
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder.path().to_owned()
    })
}

/// Reads a file as the stage kind `read` does.
fn read(name: &str, bytes: &[u8], more: serde_json::Value) {
    let path = written(&[(name, bytes)]).join(name);
    let mut settings = serde_json::json!({ "path": path });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let Ok(source) = files::open(&serde_json::from_value(settings).unwrap()) else { return };
    for partition in source.partitions(1 << 10) {
        let _ = source.read(&partition, 7, &mut |_| ControlFlow::Continue(()));
    }
}

fn json(bytes: &[u8]) {
    read("a.jsonl", bytes, serde_json::json!({}));
    read("a.json", bytes, serde_json::json!({}));
}

fn json_seeds() -> Vec<Vec<u8>> {
    let mut seeds = texts(&[
        "{\"a\": [1, 2.5e3, -0], \"b\": {\"c\": \"\\ud83d\\ude00\\n\"}, \"d\": null}\n{\"a\": []}\n",
        "[{\"id\": \"x\", \"t\": \"2026-11-23T04:00:00Z\"}, {\"id\": \"y\", \"big\": 18446744073709551616}]",
        "\u{feff}{\"a\": true}\r\n\r\n{\"a\": \"\u{1f600}\"}",
    ]);
    seeds.push(lines("data/samples/recall/test.jsonl", 3));
    seeds.push(lines("data/samples/entailment/gold.jsonl", 1));
    seeds
}

fn delimited(bytes: &[u8]) {
    read("a.csv", bytes, serde_json::json!({}));
    read("a.tsv", bytes, serde_json::json!({ "header": false }));
}

fn delimited_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "id,text,score\n1,\"a \"\"quoted\"\" text,\nover two lines\",0.5\n2,plain,\n",
        "a\tb\tc\n1\t2026-11-23\ttrue\n-7\tx\t\n",
        "a,a,\r\n\"\",\" \",1e9\r\n,,\r\n",
    ])
}

fn parquet(bytes: &[u8]) {
    read("a.parquet", bytes, serde_json::json!({}));
}

fn parquet_seeds() -> Vec<Vec<u8>> {
    let lists = [Some(vec![Some(1), None]), None, Some(vec![])];
    let columns: [(&str, ArrayRef); 3] = [
        ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)]))),
        ("text", Arc::new(StringArray::from(vec!["a", "", "\u{1f600}"]))),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
    ];
    let file = |columns: &[(&str, ArrayRef)]| {
        let batch = RecordBatch::try_from_iter(columns.iter().cloned()).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    };
    vec![file(&columns), file(&columns[..1]), file(&columns[1..])]
}

/// A pipeline that names templates gets this one for each.
struct OneTemplate;

impl Loader for OneTemplate {
    fn load(&self, _: &str, path: &str) -> Result<(String, Vec<u8>), String> {
        Ok((
            path.to_owned(),
            b"params: { n: 1 }\nstages:\n  a: { sql: \"SELECT {{ n }}\" }\n".to_vec(),
        ))
    }
}

fn pipeline(bytes: &[u8]) {
    let mut parsed = expand::parse("p.yaml", bytes, &[], &[], &OneTemplate);
    if let Some(pipeline) = parsed.pipeline {
        graph::build::build(pipeline, &mut parsed.diagnostics);
    }
    for diagnostic in &parsed.diagnostics {
        diagnostic.render(&parsed.sources, false);
    }
}

fn pipeline_seeds() -> Vec<Vec<u8>> {
    let mut seeds = texts(&[
        "pipeline: a\nparams: { n: 3 }\nstages:\n  x: { sql: \"SELECT {{ n }} AS n\" }\n  \"y_{k}\":\n    \
         matrix: { k: [1, 2] }\n    sql: |\n      SELECT * FROM x\n    checks:\n      - rows: { min: 1 }\n",
        "pipeline: b\nstages:\n  g:\n    use: t.yaml\n    with: { n: 2 }\n  z: { sql: 'SELECT 1' }\n",
        "pipeline: &a c\nstages: { *a : { read: { path: [x.csv, y.csv] } } }\n",
    ]);
    seeds.push(file("pipelines/ask.yaml"));
    seeds.push(file("pipelines/recall.yaml"));
    seeds
}

fn sql(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = sqltext::parse_expression(&text);
    sqltext::normalized(&text);
    if let Ok(query) = sqltext::parse(&text) {
        sqltext::output_place(&query, "n");
    }
    sqltext::find_word(&text, "n");
    sqltext::find_only(&text, "n");
}

fn sql_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "SELECT a.n, count(*) AS n FROM t AS a LEFT JOIN \"u v\" USING (k) WHERE n > 1.5e3 GROUP BY 1",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT * FROM x -- end\n;",
        "SELECT CASE WHEN a IN (SELECT b FROM c) THEN {x: [1, 2]} ELSE NULL END /* ; */ FROM d",
        "VALUES (1, 'it''s', X'ff', DATE '2026-11-23', INTERVAL '1' DAY, $$a$$, U&'\\0041')",
        "SELECT ((((1)))) || NOT NOT - - n::INT[2] OVER (PARTITION BY a ORDER BY b ROWS 1 PRECEDING)",
    ])
}

/// A weights file with this header and some bytes of data.
fn weights(header: &str) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0x3f; 24]);
    bytes
}

const HEADER: &str = r#"{"wte.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"BF16","shape":[4],"data_offsets":[16,24]}}"#;

fn safetensors(bytes: &[u8]) {
    opened(&file("udfs/engine/tests/parity/data/gpt2/config.json"), bytes);
}

fn safetensors_seeds() -> Vec<Vec<u8>> {
    let all = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[3,4],"data_offsets":[0,24]}}"#;
    vec![weights(HEADER), weights(all), weights("{}")]
}

fn checkpoint_config(bytes: &[u8]) {
    opened(bytes, &weights(HEADER));
}

fn config_seeds() -> Vec<Vec<u8>> {
    let of = |family: &str| file(&format!("udfs/engine/tests/parity/data/{family}/config.json"));
    ["gpt2", "t5", "bert", "llama"].map(of).to_vec()
}

fn opened(config: &[u8], weights: &[u8]) {
    let folder = written(&[("config.json", config), ("model.safetensors", weights)]);
    let Ok(folder) = Folder::open(&folder) else { return };
    folder.parameters();
    for (name, shape) in [("wte.weight", &[2, 2][..]), ("b", &[4]), ("a", &[3, 4])] {
        if let Ok(tensor) = folder.tensor(name, shape) {
            tensor.values();
        }
    }
}

/// A server on this machine that says what it is told, and models that ask it.
struct Endpoint {
    /// The status line, a header and the body of the next answers.
    says: Arc<Mutex<Vec<u8>>>,
    models: [RemoteModel; 2],
    runtime: tokio::runtime::Runtime,
}

/// Time that passes by waiting only.
#[derive(Debug, Default)]
struct WaitsForNothing(AtomicU64);

#[async_trait::async_trait]
impl Clock for WaitsForNothing {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    async fn sleep(&self, duration: Duration) {
        // Never less than was asked for: who waits for a part of a microsecond would wait for ever.
        let micros = u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap();
        self.0.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Endpoint {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let says = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&says);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let told = Arc::clone(&told);
                std::thread::spawn(move || answer(&stream, &told));
            }
        });
        let model = |api| {
            let settings = Settings {
                api,
                capabilities: Capabilities {
                    logprobs: true,
                    scores: true,
                    top_k: true,
                    samples: true,
                },
                retry: Retry { retries_max: 1, ..Retry::default() },
                timeout: Duration::from_secs(10),
                response_bytes_max: 1 << 16,
                ..Settings::new(url.clone(), "m")
            };
            let (clock, rng) = (Arc::new(WaitsForNothing::default()), Arc::new(SeededRng::new(7)));
            RemoteModel::open(settings, |_| None, clock, rng).unwrap()
        };
        let models = [model(Api::Completions), model(Api::Chat)];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { says, models, runtime }
    }
}

/// Answers the requests of a connection until it ends.
fn answer(stream: &TcpStream, told: &Mutex<Vec<u8>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        let says = told.lock().unwrap().clone();
        writer.write_all(&says).ok()?;
    }
}

/// The first line is the status and the value of `Retry-After`, the rest the body.
fn endpoint(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (first, body) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let first: String =
        first.iter().filter(|it| (0x20..0x7f).contains(*it)).map(|it| char::from(*it)).collect();
    let (status, after) = first.split_once(' ').unwrap_or((&first, ""));
    let status = status.parse().ok().filter(|status| (200..600).contains(status)).unwrap_or(200u16);
    // Neither has a body.
    let body = if matches!(status, 204 | 304) { &[][..] } else { body };
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\nretry-after: {after}\r\n\r\n",
        body.len()
    );
    let generate = |strategy| {
        Request::Generate(Generate {
            prompt: Prompt::Text("say hi".to_owned()),
            truncate: None,
            prefix: String::new(),
            strategy,
            max_tokens: 16,
            min_tokens: 0,
            stop: vec!["x".to_owned()],
            choices: Vec::new(),
            response_format: None,
            logprobs: false,
        })
    };
    let sample = Strategy::Sample { temperature: 0.7, top_k: 0, top_p: 0.9, seed: 5, samples: 2 };
    let score = Score {
        prompt: "a b".to_owned(),
        truncate: None,
        continuations: vec![" c".to_owned()],
        include_eos: false,
        messages: Vec::new(),
        logprobs: false,
        prompt_logprobs: false,
    };
    let requests = [
        generate(Strategy::Greedy),
        generate(sample),
        Request::Score(score),
        Request::Embed(Embed { text: "a".to_owned(), truncate: None }),
    ];
    ENDPOINT.with(|endpoint| {
        *endpoint.says.lock().unwrap() = [head.as_bytes(), body].concat();
        for model in &endpoint.models {
            for request in &requests {
                let _ = endpoint.runtime.block_on(model.ask(request));
            }
        }
    });
}

fn endpoint_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "200\n{\"choices\": [{\"index\": 0, \"text\": \"hi\", \"finish_reason\": \"stop\", \"logprobs\": \
         {\"tokens\": [\"a\", \" b\", \" c\"], \"token_logprobs\": [null, -0.5, -1.5], \"text_offset\": [0, 1, 3]}}, \
         {\"index\": 1, \"text\": \"ho\"}], \"usage\": {\"prompt_tokens\": 3, \"completion_tokens\": 2}}",
        "200\n{\"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\", \"content\": \"hi\"}, \
         \"logprobs\": {\"content\": [{\"token\": \"hi\", \"logprob\": -0.25}]}, \"finish_reason\": \"length\"}]}",
        "200\n{\"data\": [{\"index\": 0, \"embedding\": [0.25, -1e3, 0]}], \"usage\": {\"prompt_tokens\": 1}}",
        "429 3\n{\"error\": {\"message\": \"slow down\", \"code\": \"rate_limit\"}}",
        "503 Sun, 06 Nov 1994 08:49:37 GMT\n<html>busy</html>",
        "401\n{\"error\": \"no\"}",
    ])
}
