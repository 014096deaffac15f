//! How fast a model answers, by wall and processor time, for a side by side with other engines.
//!
//! `cargo bench -p proofmill-engine --bench throughput -- generate|embed|hidden|choices --model FOLDER ...`
//! prints one JSON object. `docs/results.md` has the commands and the numbers.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, and stops where it cannot go on"
)]

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use proofmill_engine::backend::Precision;
use proofmill_engine::checkpoint::{Folder, VectorMode, VectorSettings};
use proofmill_engine::model::{Claim, Model, Settings};
use proofmill_engine::request::{
    Body, Embed, Generate, Hidden, HiddenRows, Prompt, Request, Score, Scored, Strategy,
};
use proofmill_engine::schedule::Cancel;

const USAGE: &str = "usage: generate|embed|hidden|choices --model FOLDER [--prompts FILE] [--prefix FILE] [--device cpu|cuda:N] \
    [--dtype f32|bf16|int8] [--workers N] [--new-tokens N] [--stop TEXT] [--max-num-seqs N] [--max-batch-tokens N] [--repeat N]";

/// Options by name.
struct Options(HashMap<String, String>);

impl Options {
    fn number(&self, name: &str, default: usize) -> Result<usize, String> {
        let text = self.0.get(name);
        text.map_or(Ok(default), |text| text.parse().map_err(|e| format!("--{name}: {e}")))
    }

    fn text(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).map(String::as_str).ok_or_else(|| format!("--{name} is missing\n{USAGE}"))
    }
}

fn main() -> ExitCode {
    // `cargo bench` adds its own flag.
    let mut words: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.is_empty() {
        eprintln!("skipped: no model is named\n{USAGE}");
        return ExitCode::SUCCESS;
    }
    let task = words.remove(0);
    let pairs = words.chunks(2).map(|pair| {
        let name = pair[0].trim_start_matches("--").to_owned();
        (name, pair.get(1).cloned().unwrap_or_default())
    });
    match run(&task, &Options(pairs.collect())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &str, options: &Options) -> Result<(), String> {
    let folder = Folder::open(Path::new(options.text("model")?)).map_err(|e| e.to_string())?;
    let folder = match folder.vector() {
        None if task == "embed" => {
            folder.with_vector(VectorSettings { mode: VectorMode::Mean, normalize: true })
        }
        _ => folder,
    };
    let defaults = Settings::for_cores(2);
    let settings = Settings {
        precision: match options.0.get("dtype").map(String::as_str) {
            None | Some("f32") => Precision::F32,
            Some("bf16") => Precision::Bf16,
            Some("int8") => Precision::Int8,
            Some(other) => return Err(format!("--dtype: `{other}` is none\n{USAGE}")),
        },
        workers: options.number("workers", defaults.workers)?,
        max_num_seqs: options.number("max-num-seqs", defaults.max_num_seqs)?,
        max_batch_tokens: options.number("max-batch-tokens", defaults.max_batch_tokens)?,
        encoder_batch_tokens: options.number("max-batch-tokens", defaults.encoder_batch_tokens)?,
        ..defaults
    };
    let requests = requests(task, options)?;
    let device = options.0.get("device").map_or("cpu", String::as_str);
    let folder = Arc::new(folder);
    let mut best = f64::INFINITY;
    let (mut walls, mut cpu_s, mut rows, mut open_s) = (Vec::new(), 0.0, 0, 0.0);
    let mut tokens = Tokens::default();
    for _ in 0..options.number("repeat", 3)?.max(1) {
        // A model remembers what prompts begin with: each round has one of its own.
        let opened = Instant::now();
        let model = open(&folder, &settings, device)?;
        open_s = opened.elapsed().as_secs_f64();
        let (before, started) = (cpu_seconds(), Instant::now());
        tokens = ask(&model, &requests)?;
        let wall = started.elapsed().as_secs_f64();
        let now = model.counts();
        rows = now.encoder_rows + now.decoder_rows;
        walls.push((wall * 1e3).round() / 1e3);
        if wall < best {
            (best, cpu_s) = (wall, cpu_seconds() - before);
        }
    }
    let round = |value: f64| (value * 1e3).round() / 1e3;
    println!(
        "{}",
        serde_json::json!({
            "task": task, "precision": format!("{:?}", settings.precision),
            "workers": settings.workers, "max-num-seqs": settings.max_num_seqs,
            "requests": requests.len(), "wall_s": round(best), "walls_s": walls,
            "cpu_s": round(cpu_s), "tokens_out": tokens.written, "tokens_out_per_s": round(tokens.written as f64 / best),
            "requests_per_s": round(requests.len() as f64 / best), "tokens_computed": rows,
            "tokens_of_one_pass_each": tokens.alone,
            "open_s": round(open_s), "peak_mib": peak_mib(),
        })
    );
    Ok(())
}

fn open(folder: &Arc<Folder>, settings: &Settings, device: &str) -> Result<Model, String> {
    let opened = match device.strip_prefix("cuda:") {
        None if device == "cpu" => Model::open(folder, settings),
        None => return Err(format!("--device: `{device}` is none\n{USAGE}")),
        Some(number) => {
            let number = number.parse().map_err(|e| format!("--device: {e}"))?;
            let claim = Claim { gpus: vec![number], kv_cache_bytes: None, models: 1 };
            let encoder_batch_tokens = settings.max_batch_tokens;
            let settings = Settings { workers: 1, encoder_batch_tokens, ..*settings };
            Model::open_on_gpus(folder, &settings, &claim)
        }
    };
    opened.map_err(|e| e.to_string())
}

fn requests(task: &str, options: &Options) -> Result<Vec<Request>, String> {
    if task == "choices" {
        return Ok(choices());
    }
    let prompts = std::fs::read_to_string(options.text("prompts")?).map_err(|e| e.to_string())?;
    let new_tokens = options.number("new-tokens", 32)? as u32;
    let prefix = options.0.get("prefix").map_or(Ok(String::new()), std::fs::read_to_string);
    let prefix = prefix.map_err(|e| format!("--prefix: {e}"))?;
    let request = |prompt: &str| match task {
        "generate" => Ok(Request::Generate(Generate {
            prompt: Prompt::Text(prompt.to_owned()),
            truncate: None,
            prefix: String::new(),
            strategy: Strategy::Greedy,
            max_tokens: new_tokens,
            min_tokens: new_tokens,
            stop: options.0.get("stop").cloned().into_iter().collect(),
            choices: Vec::new(),
            response_format: None,
            logprobs: false,
        })),
        "embed" => Ok(Request::Embed(Embed { text: prompt.to_owned(), truncate: None })),
        "hidden" => Ok(Request::Hidden(Hidden {
            text: format!("{prefix}{prompt}"),
            truncate: None,
            layer: -1,
            rows: HiddenRows::Last,
        })),
        other => Err(format!("`{other}` is no task\n{USAGE}")),
    };
    prompts.lines().map(request).collect()
}

/// Four choices behind a question behind examples that all questions share.
fn choices() -> Vec<Request> {
    let words = |from: usize, count: usize| {
        let word = |i: usize| format!("w{}", (from * 31 + i * 17) % 97);
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    };
    let examples = words(1, 250);
    (0..200)
        .map(|question| {
            Request::Score(Score {
                prompt: format!("{examples} {}", words(question + 2, 45)),
                truncate: None,
                continuations: (0..4).map(|choice| format!(" {}", words(choice + 7, 2))).collect(),
                include_eos: false,
                messages: Vec::new(),
                logprobs: false,
                prompt_logprobs: false,
            })
        })
        .collect()
}

/// Tokens of all answers.
#[derive(Default)]
struct Tokens {
    written: u64,
    /// That a pass of its own for each text, or prompt and continuation, takes.
    alone: u64,
}

/// Asks everything at once.
fn ask(model: &Model, requests: &[Request]) -> Result<Tokens, String> {
    let (sender, receiver) = mpsc::channel();
    for (index, request) in requests.iter().enumerate() {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&(index as u64).to_be_bytes());
        let sender = sender.clone();
        let reply = Box::new(move |answer| drop(sender.send(answer)));
        model.submit(request, key, reply, Cancel::default());
    }
    drop(sender);
    let mut tokens = Tokens::default();
    for answer in receiver {
        let answer = answer.map_err(|e| e.to_string())?;
        match answer.body {
            Body::Generations(all) => {
                tokens.written += all.iter().map(|one| u64::from(one.output_tokens)).sum::<u64>();
            }
            Body::Scores(all) => {
                let alone = |one: &Scored| u64::from(answer.prompt_tokens + one.tokens);
                tokens.alone += all.iter().map(alone).sum::<u64>();
            }
            Body::Vector(_) => tokens.alone += u64::from(answer.prompt_tokens),
            Body::Vectors(_) | Body::Classes(_) => {}
        }
    }
    Ok(tokens)
}

/// Processor time of all threads so far, in seconds, where `/proc` tells.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let field = |index: usize| -> f64 {
        after_name.split_whitespace().nth(index).and_then(|f| f.parse().ok()).unwrap_or(0.0)
    };
    (field(11) + field(12)) / TICKS_PER_SECOND
}

/// Most memory this process held, in MiB, where `/proc` tells.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
