//! The same inputs give the same bytes, however often the fit is stopped and on however many threads.

use std::sync::atomic::Ordering;

use proofmill_engine::checkpoint::Digest;
use proofmill_fit::{FitError, Fitted, Input, Report};
use proofmill_settings::fit::{Activation, Training};

use crate::answers::text;
use crate::made::{pairs, run, scratch, settings};

fn long() -> Training {
    // Several parts a step, several epochs, and all kinds of chance.
    Training { batch: 16, dropout: 0.1, label_smoothing: 0.05, ..settings(12) }
}

fn on(threads: usize, settings: &Training) -> Fitted {
    let mut pairs = pairs();
    for (number, pair) in pairs.iter_mut().enumerate() {
        // Long enough that a batch falls into parts.
        pair.input =
            Input::Text(std::iter::repeat_n(text(pair), 7).collect::<Vec<_>>().join(" ; "));
        pair.weight = 1.0 + number as f32 / 7.0;
    }
    let dev = pairs.split_off(15);
    run(settings, &scratch(Activation::GatedGelu), (&pairs, &dev), (threads, None), &mut |_, _| ())
        .unwrap()
}

#[test]
fn threads_and_repetition_change_nothing() {
    let once = on(1, &long());
    for threads in [1, 2, 3, 16] {
        assert!(on(threads, &long()) == once, "{threads} threads");
    }
    let other = on(1, &Training { seed: 1, ..long() });
    assert_ne!(other.files["model.safetensors"], once.files["model.safetensors"]);
}

/// Another number means that fits of before cannot be made again: raise the version of the stage kind `fit`, and `FORMAT` of
/// the state unless it is the ids of the texts that changed, which a state knows.
#[cfg(target_arch = "x86_64")]
#[test]
fn machines_change_nothing() {
    let fitted = on(2, &long());
    let digest = Digest::of(&fitted.files["model.safetensors"]).to_string();
    assert_eq!(digest, "44e43d035694cd1ec9b72da828e90a544a1d3fb19ba7a0e8966f54a8f69b4c25");
}

#[test]
fn stopping_changes_nothing() {
    let (all, start) = (pairs(), scratch(Activation::Relu));
    let pairs = (&all[..12], &all[12..]);
    let settings = Training { dropout: 0.2, ..settings(12) };
    let never = run(&settings, &start, pairs, (1, None), &mut |_, _| ()).unwrap();
    for stops in [vec![1], vec![3, 4, 9], vec![5], (1..12).collect()] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.safetensors");
        for stop in stops {
            let error = run(&settings, &start, pairs, (2, Some(&file)), &mut |report, cancel| {
                cancel.store(report.step == stop, Ordering::Relaxed);
            })
            .unwrap_err();
            assert!(matches!(error, FitError::Cancelled { step, kept: true } if step == stop));
        }
        let last = run(&settings, &start, pairs, (1, Some(&file)), &mut |_, _| ()).unwrap();
        assert!(last == never);
        // A fit that has ended is not made again.
        let mut reported = Vec::new();
        let mut look = |report: &Report, _: &_| reported.push(report.step);
        let again = run(&settings, &start, pairs, (1, Some(&file)), &mut look).unwrap();
        assert!(again == never);
        assert_eq!(reported, [5, 10, 12], "its evaluations, and no step");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_state_belongs_to_its_fit() {
    let (pairs, start) = (pairs(), scratch(Activation::Relu));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.safetensors");
    let base = settings(2);
    let fit = |settings: &Training, pairs: &[_]| {
        run(settings, &start, (pairs, &[]), (1, Some(&file)), &mut |_, _| ())
    };
    fit(&base, &pairs).unwrap();
    let other = Training { seed: 3, ..base.clone() };
    assert!(matches!(fit(&other, &pairs), Err(FitError::OtherState { .. })));
    assert!(matches!(fit(&base, &pairs[1..]), Err(FitError::OtherState { .. })));
    // A damaged one is never gone on with: its weights would be others.
    let whole = std::fs::read(&file).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 50) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&file, damaged).unwrap();
        assert!(matches!(fit(&base, &pairs), Err(FitError::State { .. })), "byte {at}");
    }
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert!(matches!(fit(&base, &pairs), Err(FitError::State { .. })));
    std::fs::write(&file, b"nonsense").unwrap();
    assert!(matches!(fit(&base, &pairs), Err(FitError::State { .. })));
}
