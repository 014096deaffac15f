//! Classes of texts and of pairs, against transformers.

use std::path::{Path, PathBuf};

use proofmill_engine::checkpoint::Folder;
use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::{
    Body, ClassScore, Classify, Embed, Keep, Request, RequestError, Truncate,
};
use serde_json::{Value, json};

use crate::golden::{self, Classes, Classifier, Kind};
use crate::model::ask_all;
use crate::near::relative_error;

const TOLERANCE: f64 = 1e-5;

fn classifiers() -> Vec<(PathBuf, Classifier)> {
    let folders = golden::checkpoints().into_iter();
    let all = folders.filter(|folder| golden::kind(folder) == Kind::Classifier);
    all.map(|folder| (golden::classifier(&folder), folder)).map(|(it, at)| (at, it)).collect()
}

fn open(folder: &Path) -> Model {
    Model::open(&Folder::open(folder).unwrap(), &Settings::for_cores(1)).unwrap()
}

fn request(it: &Classes) -> Request {
    Request::Classify(Classify {
        text: it.text.clone(),
        pair: it.pair.clone(),
        truncate: it.truncate.map(|tokens| Truncate { tokens, keep: Keep::Start }),
    })
}

fn classes(body: Body) -> Vec<ClassScore> {
    match body {
        Body::Classes(classes) => classes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn classes_are_those_of_transformers() {
    let all = classifiers();
    assert!(all.len() >= 3);
    for (folder, golden) in all {
        let requests: Vec<_> = golden.classes.iter().map(|it| (request(it), 0)).collect();
        let answers = ask_all(&open(&folder), &requests);
        for (answer, it) in answers.into_iter().zip(&golden.classes) {
            let answer = answer.unwrap();
            let what = format!("{folder:?} {:?} {:?} {:?}", it.text, it.pair, it.truncate);
            assert_eq!(answer.prompt_tokens as usize, it.ids.len(), "{what}");
            let ours = classes(answer.body);
            assert!(ours.iter().map(|one| &one.label).eq(&golden.labels), "{what}");
            let logits: Vec<f32> = ours.iter().map(|one| one.logit).collect();
            let error = relative_error(&logits, &it.logits);
            assert!(error < TOLERANCE, "{what}: {error:e}");
            let Some(theirs) = &it.probabilities else { continue };
            assert!(!answer.prompt_truncated, "{what}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                let ours = f64::from(ours.probability.unwrap());
                assert!((ours - theirs).abs() < 1e-6, "{what}: {ours}, not {theirs}");
            }
        }
        let cut = golden.classes.iter().filter(|it| it.truncate == Some(7));
        assert!(cut.filter(|it| it.pair.is_some()).all(|it| it.ids.len() == 7));
    }
}

#[test]
fn a_pair_has_the_same_bits_alone_and_among_others() {
    for (folder, golden) in classifiers() {
        let model = open(&folder);
        let requests: Vec<_> = golden.classes.iter().map(|it| (request(it), 0)).collect();
        let together = ask_all(&model, &requests);
        for (request, among) in requests.iter().zip(together).step_by(7) {
            assert_eq!(ask_all(&model, std::slice::from_ref(request)).remove(0), among);
        }
    }
}

/// A copy of a checkpoint with another setting.
fn with(name: &str, key: &str, value: Value) -> (tempfile::TempDir, PathBuf) {
    let (copy, from) = (tempfile::tempdir().unwrap(), golden::kept().join(name));
    for file in ["model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(from.join(file), copy.path().join(file)).unwrap();
    }
    let text = std::fs::read_to_string(from.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config[key] = value;
    std::fs::write(copy.path().join("config.json"), config.to_string()).unwrap();
    let path = copy.path().to_owned();
    (copy, path)
}

fn class_scores(folder: &Path, pair: &str) -> Result<Vec<ClassScore>, RequestError> {
    let (text, pair) = ("ba be".to_owned(), Some(pair.to_owned()));
    let request = Request::Classify(Classify { text, pair, truncate: None });
    ask_all(&open(folder), &[(request, 0)]).remove(0).map(|answer| classes(answer.body))
}

#[test]
fn a_regression_has_values_and_no_probabilities() {
    let (_copy, regression) = with("bert-reranker", "problem_type", json!("regression"));
    let logits = class_scores(&golden::kept().join("bert-reranker"), "bo").unwrap();
    let values = class_scores(&regression, "bo").unwrap();
    assert_eq!((values[0].logit, values[0].probability), (logits[0].logit, None));
    assert!(logits[0].probability.is_some());
}

/// As the folder lists it, or the tokenizer's class in transformers has it.
#[test]
fn token_types_are_given_where_the_folder_says_so() {
    let (_copy, folder) = with("bert-classifier", "problem_type", Value::Null);
    let file = folder.join("tokenizer_config.json");
    let given: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let classes = |key: &str, value: Value| {
        let mut settings = given.clone();
        settings[key] = value;
        std::fs::write(&file, settings.to_string()).unwrap();
        class_scores(&folder, "bo").unwrap()
    };
    let typed = classes("unk_token", json!("[UNK]"));
    let untyped = classes("model_input_names", json!(["input_ids", "attention_mask"]));
    assert_ne!(typed, untyped);
    assert_eq!(classes("model_input_names", Value::Null), untyped);
    let of_bert = json!({"tokenizer_class": "BertTokenizer"});
    std::fs::write(&file, of_bert.to_string()).unwrap();
    assert_eq!(class_scores(&folder, "bo").unwrap(), typed);
}

#[test]
fn a_model_without_a_head_and_a_pair_that_is_too_long_are_row_errors() {
    let why = class_scores(&golden::kept().join("bert"), "bo").unwrap_err().to_string();
    assert!(why.starts_with("the model has no head that tells classes;"), "{why}");
    let long = class_scores(&golden::kept().join("bert-reranker"), &"ba ".repeat(100)).unwrap_err();
    assert_eq!(long, RequestError::TooLong { tokens: 105, limit: 96 });
    let request = Classify {
        text: "ba".to_owned(),
        pair: Some("be".to_owned()),
        truncate: Some(Truncate { tokens: 2, keep: Keep::Start }),
    };
    let model = open(&golden::kept().join("bert-reranker"));
    let none = ask_all(&model, &[(Request::Classify(request), 0)]).remove(0).unwrap_err();
    let expected = "`truncate` leaves 2 tokens, and the special tokens alone are 3".to_owned();
    assert_eq!(none, RequestError::Invalid(expected));
}

/// What reads for a head still makes vectors.
#[test]
fn a_classifier_gives_vectors_too() {
    let embed = Embed { text: "ba be".to_owned(), truncate: None };
    let answer =
        ask_all(&open(&golden::kept().join("bert-classifier")), &[(Request::Embed(embed), 0)]);
    assert!(matches!(&answer[0].as_ref().unwrap().body, Body::Vector(it) if it.len() == 40));
}
