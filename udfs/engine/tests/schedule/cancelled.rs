//! Requests that no caller waits for any more, models that end, and replies that fail.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::{Generate, Request, RequestError, Strategy};
use proofmill_engine::schedule::Cancel;

use crate::ask::{
    Gate, ask_all, blocks, collect, embed, hidden, open, plain, sampled, score, settings, submit,
};

fn long(seed: u64) -> Request {
    let all = plain("lu ko", sampled(seed, 2));
    Request::Generate(Generate { max_tokens: 90, min_tokens: 90, ..all })
}

fn stopped() -> RequestError {
    RequestError::Failed("the model stopped before it answered".to_owned())
}

#[test]
fn what_is_cancelled_while_it_waits_costs_nothing() {
    let model = open("gpt2", &settings());
    let (sender, receiver) = mpsc::channel();
    let gate = Gate::close(&model);
    let before = model.counts();
    let requests = [long(1), score("ba ne", &[" ko"]), hidden("vi"), embed("xe lu")];
    for (name, request) in requests.iter().enumerate() {
        submit(&model, request, name, &sender).cancel();
    }
    let last = score("zu", &[" ko"]);
    submit(&model, &last, requests.len(), &sender);
    drop(gate);
    let answers = collect(&receiver, 5);
    let cancelled = answers[..4].iter().all(|(_, it)| *it == Err(RequestError::Cancelled));
    assert!(cancelled && answers[4].1.is_ok(), "{answers:?}");
    assert_eq!(model.counts().decoder_rows - before.decoder_rows, 1);
}

#[test]
fn what_is_cancelled_under_way_frees_its_room() {
    // Room for one at a time.
    let model =
        open("gpt2", &Settings { max_num_seqs: 2, kv_cache_bytes: blocks(30), ..settings() });
    let (sender, receiver) = mpsc::channel();
    let mut running = Vec::new();
    for round in 0..20 {
        let cancel = submit(&model, &long(round), 0, &sender);
        // It is under way as soon as rows are computed.
        let before = model.counts().steps;
        while model.counts().steps < before + 3 && receiver.try_recv().is_err() {
            std::thread::yield_now();
        }
        cancel.cancel();
        running.push(cancel);
    }
    // All blocks and sequences are there again.
    let expected = ask_all(&open("gpt2", &settings()), [&long(7)]);
    assert_eq!(ask_all(&model, [&long(7)]), expected);
    drop(sender);
    let (done, cancelled): (Vec<_>, Vec<_>) = receiver.iter().partition(|(_, it)| it.is_ok());
    assert!(!cancelled.is_empty(), "{} done", done.len());
    assert!(cancelled.iter().all(|(_, it)| *it == Err(RequestError::Cancelled)));
}

#[test]
fn neighbours_of_the_cancelled_go_on() {
    let model = open("gpt2", &settings());
    let (sender, receiver) = mpsc::channel();
    let cancels: Vec<Cancel> =
        (0..12).map(|name| submit(&model, &long(name as u64 % 2), name, &sender)).collect();
    for cancel in cancels.iter().skip(1).step_by(2) {
        cancel.cancel();
        assert!(cancel.is_cancelled());
    }
    let answers = collect(&receiver, 12);
    let expected = ask_all(&open("gpt2", &settings()), [&long(0)]).remove(0);
    assert!(answers.iter().step_by(2).all(|(_, answer)| *answer == expected));
}

#[test]
fn a_model_that_ends_answers_everything() {
    let model = open("gpt2", &Settings { workers: 2, max_num_seqs: 4, ..settings() });
    let (sender, receiver) = mpsc::channel();
    let mut requests: Vec<Request> = (0..30).map(long).collect();
    requests.extend((0..10).map(|number| score(&format!("ba {number}"), &[" ko", " da"])));
    for (name, request) in requests.iter().enumerate() {
        submit(&model, request, name, &sender);
    }
    drop(model);
    // The threads have ended: nothing comes later.
    drop(sender);
    let answers: Vec<_> = receiver.try_iter().collect();
    assert_eq!(answers.len(), requests.len());
    let some = answers.iter().filter(|(_, answer)| *answer == Err(stopped())).count();
    let done = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
    assert!(some > 0 && some + done == requests.len(), "{some} stopped, {done} done");
}

/// A reply that panics loses its own answer and nothing else.
#[test]
fn a_reply_that_panics_hurts_nobody_else() {
    let model = open("gpt2", &settings());
    let (sender, receiver) = mpsc::channel();
    let requests = [long(1), score("ba ne", &[" ko"]), hidden("vi"), embed("xe lu")];
    for (name, request) in requests.iter().enumerate() {
        submit(&model, request, name, &sender);
        let (called, wait) = mpsc::channel::<()>();
        let reply = Box::new(move |_| {
            let _called = called;
            panic!("a reply of a test panics, as it should");
        });
        model.submit(request, [0; 32], reply, Cancel::default());
        // The panic drops the sender.
        assert!(wait.recv_timeout(Duration::from_secs(60)).is_err());
    }
    assert!(collect(&receiver, requests.len()).iter().all(|(_, answer)| answer.is_ok()));
    let again = ask_all(&model, &requests);
    assert!(again.iter().all(Result::is_ok));
}

#[test]
fn a_reply_may_ask_again() {
    let model = Arc::new(open("gpt2", &settings()));
    let (sender, receiver) = mpsc::channel();
    // The model must not be dropped by its own thread.
    let again: Arc<Mutex<Option<Arc<Model>>>> = Arc::new(Mutex::new(Some(Arc::clone(&model))));
    let cancel = Cancel::default();
    cancel.cancel();
    let gate = Gate::close(&model);
    let taken = Arc::clone(&again);
    let reply = Box::new(move |answer| {
        assert_eq!(answer, Err(RequestError::Cancelled));
        if let Some(model) = taken.lock().unwrap().take() {
            submit(&model, &hidden("ba"), 0, &sender);
        }
    });
    model.submit(&score("ba", &[" ko"]), [0; 32], reply, cancel);
    drop(gate);
    assert!(collect(&receiver, 1)[0].1.is_ok());
}

#[test]
fn a_reply_may_drop_the_model() {
    let model = Arc::new(open("gpt2", &Settings { workers: 2, ..settings() }));
    let (sender, receiver) = mpsc::channel();
    let last = Arc::clone(&model);
    let (dropped, wait) = mpsc::channel();
    let (alone, others_left) = mpsc::channel::<()>();
    let reply = Box::new(move |_| {
        assert!(others_left.recv().is_err());
        drop(last);
        dropped.send(()).unwrap();
    });
    model.submit(&hidden("ba"), [0; 32], reply, Cancel::default());
    for name in 0..8 {
        submit(&model, &long(0), name, &sender);
    }
    drop(model);
    drop(alone);
    wait.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(collect(&receiver, 8).len(), 8);
}

#[test]
fn a_request_without_sense_is_answered_at_once() {
    let model = open("gpt2", &settings());
    let gate = Gate::close(&model);
    let bad = Request::Generate(Generate { max_tokens: 0, ..plain("ba", Strategy::Greedy) });
    let (sender, receiver) = mpsc::channel();
    submit(&model, &bad, 0, &sender);
    // The worker is busy, and the answer is there.
    assert!(matches!(receiver.try_recv(), Ok((0, Err(RequestError::Invalid(_))))));
    drop(gate);
}
