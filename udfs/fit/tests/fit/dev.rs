//! Dev pairs decide when to stop and what to keep.

use proofmill_fit::{Pair, Start};
use proofmill_settings::fit::{Activation, Judge, Keep, Training};

use crate::answers::{opened, says, text};
use crate::made::{fitted, pairs, run, scratch, settings};

#[test]
fn the_best_is_kept_and_patience_ends() {
    let mut train = pairs();
    // What is learnt by heart makes other pairs less likely sooner or later.
    let dev = train.split_off(12);
    let start = scratch(Activation::Relu);
    let settings = Training { patience: Some(3), evaluate_every: 4, ..settings(400) };
    let mut evaluations = Vec::new();
    let best = run(&settings, &start, (&train, &dev), (1, None), &mut |report, _| {
        if let Some(loss) = report.dev_loss {
            evaluations.push((report.step, loss, report.best));
        }
    })
    .unwrap();
    let least = evaluations.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert_eq!((best.step, best.dev_loss), (least.0, Some(least.1)));
    assert!(least.2);
    assert_eq!(best.steps, evaluations.last().unwrap().0);
    assert_eq!(best.steps, best.step + 3 * 4, "three looks without a better one");
    assert!(best.steps < 400);

    // The weights are those of that step, and not the last ones.
    let until = Training { patience: None, ..settings.clone() };
    let last = Training { keep: Keep::Last, ..settings };
    let last = fitted(&last, &start, &train, &dev);
    assert_eq!((last.steps, last.step, last.dev_loss), (best.steps, best.steps, None));
    assert_ne!(last.files["model.safetensors"], best.files["model.safetensors"]);
    let mut kept = None;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    let stop = best.step;
    let cut = run(&until, &start, (&train, &dev), (1, Some(&file)), &mut |report, cancel| {
        cancel.store(report.step == stop, std::sync::atomic::Ordering::Relaxed);
        kept = report.dev_loss.or(kept);
    });
    assert!(cut.is_err());
    assert_eq!(kept, best.dev_loss);
}

/// The loss of the dev pairs can rise while more of them are answered right.
#[test]
fn exact_matches_can_be_the_judge() {
    let all = pairs();
    let (train, known) = (&all[..14], &all[6..14]);
    // Others are answered in letters that are never learnt: their loss rises as soon as anything is learnt.
    let wrong = (0..6).map(|i| Pair { weight: 20.0, ..Pair::new(text(&all[i]), "zzz") });
    let dev: Vec<Pair> = known.iter().cloned().chain(wrong).collect();
    let dev = &dev[..];
    let start = scratch(Activation::Relu);
    let settings =
        Training { judge: Judge::ExactMatch, batch: 14, evaluate_every: 2, ..settings(80) };
    let mut looks = Vec::new();
    let mut look = |report: &proofmill_fit::Report, _: &_| {
        if let (Some(loss), Some(exact)) = (report.dev_loss, report.exact_match) {
            looks.push((report.step, loss, exact, report.best));
        }
    };
    let best = run(&settings, &start, (train, dev), (2, None), &mut look).unwrap();
    assert_eq!(looks.len(), 40);
    let least = looks.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let most = looks.iter().map(|look| look.2).fold(0.0, f64::max);
    assert!(least.2 < most, "{looks:?}");
    let chosen = looks.iter().rfind(|look| look.3).unwrap();
    assert_eq!((chosen.2, chosen.0), (most, best.step));
    // What the engine says is what was counted.
    let (model, _) = opened(&best);
    let right = dev.iter().filter(|pair| says(&model, &text(pair)) == pair.output).count();
    assert_eq!(right as f64 / dev.len() as f64, most);

    // Stopped and gone on with, it is the same.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    let stopped = run(&settings, &start, (train, dev), (1, Some(&file)), &mut |report, cancel| {
        cancel.store(report.step == 50, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(stopped.is_err());
    let mut reported = Vec::new();
    let mut look = |report: &proofmill_fit::Report, _: &_| {
        if let (Some(loss), Some(exact)) = (report.dev_loss, report.exact_match) {
            reported.push((report.step, loss, exact, report.best));
        }
    };
    let again = run(&settings, &start, (train, dev), (1, Some(&file)), &mut look).unwrap();
    assert!(again == best);
    assert_eq!(reported, looks, "those before it was stopped are reported too");
}

/// What was trained well is not made worse by more training that harms it.
#[test]
fn the_start_is_kept_where_nothing_is_better() {
    let dev = &pairs()[..];
    // What is learnt makes every dev output less likely.
    let train: Vec<Pair> = dev.iter().map(|pair| Pair::new(text(pair), "zzz")).collect();
    let train = &train[..];
    let trained = tempfile::tempdir().unwrap();
    fitted(&settings(100), &scratch(Activation::Relu), dev, &[]).write(trained.path()).unwrap();
    let start = Start::Checkpoint { folder: trained.path().to_owned(), digested: None };
    let harmful = Training { evaluate_every: 10, ..settings(30) };
    let without = fitted(&harmful, &start, train, dev);
    let settings = Training { evaluate_start: true, ..harmful };
    let mut reported = Vec::new();
    let mut look = |report: &proofmill_fit::Report, _: &_| {
        reported.extend(report.dev_loss.map(|loss| (report.step, report.loss.is_some(), loss)));
    };
    let kept = run(&settings, &start, (train, dev), (1, None), &mut look).unwrap();
    assert_eq!((kept.step, kept.steps), (0, 30));
    let steps: Vec<_> = reported.iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(steps, [(0, false), (10, true), (20, true), (30, true)]);
    assert!(reported[1..].iter().all(|it| it.2 > reported[0].2), "{reported:?}");
    assert_eq!(kept.dev_loss, Some(reported[0].2));
    assert!(without.dev_loss > kept.dev_loss);

    // Stopped and gone on with, the look at the start is reported again, and is still the best.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    let stopped = run(&settings, &start, (train, dev), (1, Some(&file)), &mut |report, cancel| {
        cancel.store(report.step == 13, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(stopped.is_err());
    let mut again = Vec::new();
    let mut look = |report: &proofmill_fit::Report, _: &_| {
        again.extend(report.dev_loss.map(|loss| (report.step, report.loss.is_some(), loss)));
    };
    assert!(run(&settings, &start, (train, dev), (2, Some(&file)), &mut look).unwrap() == kept);
    assert_eq!(again, reported);

    let refused = run(&settings, &start, (train, &[]), (1, None), &mut |_, _| {});
    let message = refused.err().unwrap().to_string();
    assert!(
        message.starts_with("`evaluate_start` is true, but there are no dev pairs"),
        "{message}"
    );
}
