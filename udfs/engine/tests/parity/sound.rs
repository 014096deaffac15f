//! The goldens themselves: complete, and in agreement with each other and with the tokenizers.

use std::path::Path;

use tokenizers::Tokenizer;

use crate::golden::{self, Kind, NEW_TOKENS, Run, Text, Writer};
use crate::near::relative_error;

const FAMILIES: [&str; 23] = [
    "bart",
    "bart-forced",
    "bert",
    "bert-classifier",
    "bert-reranker",
    "bert-sentence",
    "bert2bert",
    "bert2bert-untied",
    "dpr",
    "flan-t5",
    "flan-t5-old",
    "gpt2",
    "llama",
    "llama-tied",
    "mistral",
    "opt",
    "opt-post-norm",
    "qwen2",
    "qwen3",
    "roberta",
    "roberta-classifier",
    "t5",
    "xlm-roberta",
];

#[test]
fn every_family_is_there() {
    let checkpoints = golden::checkpoints();
    for family in FAMILIES {
        let folder = golden::kept().join(family);
        assert!(checkpoints.contains(&folder), "{family}");
    }
    let kept = checkpoints.iter().filter(|folder| folder.starts_with(golden::kept()));
    assert_eq!(kept.count(), FAMILIES.len());
}

fn tokenizer(folder: &Path) -> Tokenizer {
    let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
    tokenizer.with_truncation(None).unwrap();
    tokenizer.with_padding(None);
    tokenizer
}

fn check_tokens(tokenizer: &Tokenizer, text: &str, ids: &[u32], special: bool) {
    assert_eq!(tokenizer.encode(text, special).unwrap().get_ids(), ids, "{text:?}");
}

fn check_texts(folder: &Path, texts: &[Text]) -> Tokenizer {
    let tokenizer = tokenizer(folder);
    assert_eq!(texts.len(), 5);
    for entry in texts {
        check_tokens(&tokenizer, &entry.text, &entry.ids, true);
    }
    tokenizer
}

#[test]
fn texts_have_the_tokens_that_the_tokenizers_give() {
    for folder in golden::checkpoints() {
        if matches!(golden::kind(&folder), Kind::Encoder | Kind::Classifier) {
            check_texts(&folder, &golden::encoder(&folder).0.texts);
            continue;
        }
        let writer = golden::writer(&folder).0;
        let tokenizer = check_texts(&folder, &writer.texts);
        for greedy in &writer.greedy {
            let decoded = tokenizer.decode(&greedy.run.tokens, true).unwrap();
            assert_eq!(decoded, greedy.decoded, "{folder:?}");
        }
        for entry in &writer.prefixed {
            check_tokens(&tokenizer, &entry.prefix, &entry.forced, false);
        }
        for continuation in writer.scores.iter().flat_map(|scores| &scores.continuations) {
            check_tokens(&tokenizer, &continuation.text, &continuation.tokens, false);
        }
        for fusion in &writer.fusion {
            assert_eq!(fusion.passages.len(), fusion.ids.len());
            for (passage, ids) in fusion.passages.iter().zip(&fusion.ids) {
                check_tokens(&tokenizer, passage, ids, true);
            }
        }
    }
}

fn check_tokens_of_answer(writer: &Writer, tokens: &[u32], logprob: f64) {
    assert!((1..=NEW_TOKENS).contains(&tokens.len()));
    let (last, before) = tokens.split_last().unwrap();
    assert!(before.iter().all(|token| !writer.ends.contains(token)));
    assert!(tokens.len() == NEW_TOKENS || writer.ends.contains(last));
    assert!(logprob < 0.0);
}

fn check_run(writer: &Writer, run: &Run) {
    check_tokens_of_answer(writer, &run.tokens, run.logprob);
    assert_eq!(run.gaps.len(), run.tokens.len());
    assert!(run.gaps.iter().all(|&gap| gap >= 0.0));
}

#[test]
fn answers_end_where_they_must_and_have_a_gap_for_every_token() {
    for folder in golden::checkpoints() {
        if matches!(golden::kind(&folder), Kind::Encoder | Kind::Classifier) {
            continue;
        }
        let (writer, tensors) = golden::writer(&folder);
        assert!(writer.f32_error < 5e-6, "{folder:?}");
        assert_eq!((writer.greedy.len(), writer.beam.len(), writer.sampled.len()), (5, 2, 2));
        for (number, greedy) in writer.greedy.iter().enumerate() {
            assert_eq!(greedy.text, number);
            check_run(&writer, &greedy.run);
        }
        for entry in &writer.prefixed {
            assert!(entry.text < writer.texts.len());
            check_run(&writer, &entry.run);
        }
        for setting in &writer.sampled {
            assert!(setting.temperature > 0.0 && setting.top_p > 0.0 && setting.seed == 7);
            assert!(setting.top_k == 50 || setting.top_k == 0);
            for run in &setting.runs {
                assert!(run.row == run.text as u64 && run.sample < 2);
                check_run(&writer, &run.run);
            }
        }
        for (number, fusion) in writer.fusion.iter().enumerate() {
            check_run(&writer, &fusion.run);
            let best = argmax(tensors.fusion(number).rows().next().unwrap());
            // A forced first token has a gap without bound.
            assert!(best == fusion.run.tokens[0] || fusion.run.gaps[0] >= 1e9);
        }
        assert_eq!(writer.fusion.len(), if writer.kind == Kind::Seq2seq { 2 } else { 0 });
    }
}

#[test]
fn beams_come_best_first_with_their_scores() {
    for folder in golden::checkpoints() {
        if matches!(golden::kind(&folder), Kind::Encoder | Kind::Classifier) {
            continue;
        }
        let writer = golden::writer(&folder).0;
        let forced = writer.prefixed.is_empty();
        for search in &writer.beam {
            assert_eq!((search.beams, search.answers, search.runs.len()), (4, 2, 5));
            assert_eq!(search.early_stopping, search.length_penalty < 1.0);
            assert!(search.runs.iter().filter(|run| run.stable).count() >= 3, "{folder:?}");
            for run in &search.runs {
                assert!(run.text < 5 && run.answers[0].score >= run.answers[1].score);
                for answer in &run.answers {
                    check_tokens_of_answer(&writer, &answer.tokens, answer.logprob);
                    let length = (answer.tokens.len() as f64).powf(search.length_penalty.into());
                    let off = (answer.logprob / length - answer.score).abs();
                    assert!(forced || off < 1e-4, "{folder:?} {off}");
                }
            }
        }
    }
}

#[test]
fn scores_are_consistent_and_some_are_greedy() {
    let mut greedy = 0;
    for folder in golden::checkpoints() {
        if matches!(golden::kind(&folder), Kind::Encoder | Kind::Classifier) {
            continue;
        }
        let writer = golden::writer(&folder).0;
        for scores in &writer.scores {
            assert!(scores.text < writer.texts.len() && scores.continuations.len() >= 3);
            for continuation in &scores.continuations {
                assert!(continuation.logprob < 0.0 && continuation.end_logprob < 0.0);
                assert!(continuation.gap >= 0.0);
                greedy += u32::from(continuation.is_greedy);
            }
        }
    }
    assert!(greedy >= 10, "{greedy}");
}

fn argmax(values: &[f32]) -> u32 {
    let best = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(token, _)| token as u32)
}

#[test]
fn logits_and_states_have_their_shapes() {
    for folder in golden::checkpoints() {
        if matches!(golden::kind(&folder), Kind::Encoder | Kind::Classifier) {
            continue;
        }
        let (writer, tensors) = golden::writer(&folder);
        for (number, forward) in writer.forward.iter().enumerate() {
            let (logits, ids) = (tensors.logits(number), &writer.texts[forward.text].ids);
            let places = match writer.kind {
                Kind::Seq2seq => 1 + forward.forced.len(),
                Kind::Causal | Kind::Encoder | Kind::Classifier => ids.len(),
            };
            assert_eq!((logits.width, logits.rows().len()), (500, places - forward.first));
            if writer.kind == Kind::Causal {
                assert_eq!(tensors.hidden(number).rows().len(), 1);
                let first = writer.greedy[number].run.tokens[0];
                assert_eq!(argmax(logits.rows().last().unwrap()), first, "{folder:?}");
            } else if number < 3 {
                assert_eq!(tensors.encoder(number).rows().len(), ids.len());
            }
        }
    }
}

#[test]
fn vectors_are_means_and_first_states() {
    for folder in golden::checkpoints() {
        if golden::kind(&folder) != Kind::Encoder {
            continue;
        }
        let (encoder, tensors) = golden::encoder(&folder);
        assert!(encoder.f32_error < 1e-6);
        let (mean, cls, pooler) = (tensors.mean(), tensors.cls(), tensors.pooler());
        assert_eq!((cls.rows().len(), pooler.rows().len()), (5, 5));
        for (number, (mean, cls)) in mean.rows().zip(cls.rows()).enumerate() {
            let hidden = tensors.hidden(number);
            assert_eq!(hidden.rows().next().unwrap(), cls);
            assert_eq!(hidden.rows().len(), encoder.texts[number].ids.len());
            let mut sum = vec![0f32; hidden.width];
            hidden.rows().for_each(|row| sum.iter_mut().zip(row).for_each(|(s, r)| *s += r));
            let length = sum.iter().map(|s| s * s).sum::<f32>().sqrt();
            sum.iter_mut().for_each(|s| *s /= length);
            assert!(relative_error(&sum, mean) < 1e-6);
        }
    }
}

#[test]
fn minilm_has_a_unit_vector_for_every_sentence() {
    let (encoder, tensors) = golden::encoder(&golden::kept().join("minilm"));
    let mean = tensors.mean();
    assert_eq!((encoder.texts.len(), mean.rows().len(), mean.width), (20, 20, 384));
    for row in mean.rows() {
        let length = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        assert!((length - 1.0).abs() < 1e-6);
    }
}

#[test]
fn the_noise_follows_from_its_uniforms() {
    let draws = golden::noise();
    assert_eq!(draws.len(), 5);
    for draw in draws {
        let key = (draw.seed, draw.row, draw.sample, draw.step, draw.token);
        assert!(0.0 < draw.uniform && draw.uniform < 1.0, "{key:?}");
        assert!((-(-draw.uniform.ln()).ln() - draw.gumbel).abs() < 1e-12, "{key:?}");
    }
}
