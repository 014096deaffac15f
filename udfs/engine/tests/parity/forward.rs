//! Logits, against transformers, through the network alone: no scheduling.

use proofmill_engine::architecture;
use proofmill_engine::backend::Precision;
use proofmill_engine::checkpoint::{Family, Folder, Special};
use proofmill_engine::cpu::Cpu;

use crate::golden::{self, Forward, Kind, Writer};
use crate::near::relative_error;
use crate::pass::{ROWS, classes, logprobs, states};

/// Logits to log-probabilities, which is all that the engine gives away.
fn normalized(logits: &[f32]) -> Vec<f32> {
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    logits.iter().map(|&logit| (f64::from(logit) - sum.ln()) as f32).collect()
}

fn written(writer: &Writer, special: &Special, it: &Forward) -> (Vec<u32>, Vec<u32>) {
    let read = writer.texts[it.text].ids.clone();
    match writer.kind {
        Kind::Seq2seq => (read, [&[special.start.unwrap()], &it.forced[..]].concat()),
        Kind::Causal | Kind::Encoder | Kind::Classifier => (Vec::new(), read),
    }
}

#[test]
fn logits_are_those_of_transformers() {
    let mut worst = Vec::new();
    for path in golden::checkpoints() {
        if !matches!(golden::kind(&path), Kind::Causal | Kind::Seq2seq) {
            continue;
        }
        let (writer, tensors) = golden::writer(&path);
        let folder = Folder::open(&path).unwrap();
        let special = Special::read(&folder).unwrap();
        let network = architecture::load(&folder, &Cpu::default(), Precision::F32, ROWS).unwrap();
        let tolerance = if folder.family() == Family::T5 { 3e-5 } else { 1e-5 };
        let mut largest: f64 = 0.0;
        for (number, it) in writer.forward.iter().enumerate() {
            let theirs = tensors.logits(number);
            let (read, written) = written(&writer, &special, it);
            let rows = theirs.rows().len();
            assert_eq!(it.first + rows, written.len());
            let ours = logprobs(&mut Cpu::default(), &network, &read, &written, rows).unwrap();
            for (ours, theirs) in ours.iter().zip(theirs.rows()) {
                let error = relative_error(ours, &normalized(theirs));
                assert!(error < tolerance, "{path:?} text {}: {error:e}", it.text);
                largest = largest.max(error);
            }
        }
        worst.push(format!("{} {largest:.1e}", path.file_name().unwrap().display()));
    }
    // Seen with `--nocapture`; `compare.md` quotes it.
    println!("largest relative errors: {}", worst.join(", "));
}

#[test]
fn states_of_encoders_are_those_of_transformers() {
    for path in golden::checkpoints() {
        if golden::kind(&path) != Kind::Encoder {
            continue;
        }
        let (encoder, tensors) = golden::encoder(&path);
        let folder = Folder::open(&path).unwrap();
        let network = architecture::load(&folder, &Cpu::default(), Precision::F32, ROWS).unwrap();
        for (number, text) in encoder.texts.iter().enumerate() {
            let ours = states(&mut Cpu::default(), &network, &text.ids).unwrap();
            let error = relative_error(&ours, &tensors.hidden(number).values);
            assert!(error < 1e-5, "{path:?} text {number}: {error:e}");
        }
    }
}

/// The last block leaves out rows that are not requested.
#[test]
fn a_row_is_the_same_whichever_others_are_requested() {
    for path in golden::checkpoints() {
        if matches!(golden::kind(&path), Kind::Encoder | Kind::Classifier) {
            continue;
        }
        let (writer, _) = golden::writer(&path);
        let folder = Folder::open(&path).unwrap();
        let special = Special::read(&folder).unwrap();
        let network = architecture::load(&folder, &Cpu::default(), Precision::F32, ROWS).unwrap();
        for it in &writer.forward {
            let (read, written) = written(&writer, &special, it);
            // One more token, since the shortest decoder prompts of T5 have one.
            let written = [&written[..], &written[..1]].concat();
            let logprobs =
                |rows| logprobs(&mut Cpu::default(), &network, &read, &written, rows).unwrap();
            let (all, last) = (logprobs(written.len()), logprobs(1));
            assert_eq!(all.last(), last.last(), "{path:?} text {}", it.text);
        }
    }
}

#[test]
fn heads_say_what_those_of_transformers_say() {
    for path in golden::checkpoints() {
        if golden::kind(&path) != Kind::Classifier {
            continue;
        }
        let folder = Folder::open(&path).unwrap();
        let network = architecture::load(&folder, &Cpu::default(), Precision::F32, ROWS).unwrap();
        let all = golden::classifier(&path).classes;
        for it in all.iter().filter(|it| it.pair.is_none()) {
            let ours = classes(&mut Cpu::default(), &network, &it.ids, false).unwrap();
            let error = relative_error(&ours, &it.logits);
            assert!(error < 1e-5, "{path:?} {:?}: {error:e}", it.text);
        }
    }
}
