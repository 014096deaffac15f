//! Rewards of logged outputs decide what is written: by outputs that were drawn at random, and by those that somebody's rules chose.

use std::sync::atomic::Ordering;

use proofmill_engine::model::Model;
use proofmill_fit::{Logged, Pair, Start};
use proofmill_settings::fit::{Activation, Keep, Objective, Training};

use crate::answers::{logprob, opened, says};
use crate::made::{fitted, run, scratch, settings};

const STATES: [&str; 3] = ["no evidence", "evidence", "a good answer"];
const ACTIONS: [&str; 3] = ["acquire", "query", "send"];
/// The action that is rewarded in each state.
const BEST: [usize; 3] = [0, 1, 2];

/// Every action in every state, drawn evenly: the best of each, and others that are worth nothing or cost something.
fn logged() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (state, best) in STATES.iter().zip(BEST) {
        for (number, action) in ACTIONS.iter().enumerate() {
            let reward = if number == best { 1.0 } else { -0.1 * number as f32 };
            let logprob = Some((1.0_f32 / 3.0).ln());
            pairs.push(Pair {
                logged: Some(Logged { reward, logprob }),
                ..Pair::new(*state, *action)
            });
        }
    }
    pairs
}

fn policy(steps: u32) -> Training {
    Training { objective: Objective::Policy, batch: 6, keep: Keep::Last, ..settings(steps) }
}

/// A policy that has learnt from its logs what actions there are, then which of them are worth something.
#[test]
fn what_is_rewarded_is_written_and_what_is_not_is_not() {
    let (train, start) = (logged(), scratch(Activation::Relu));
    let plain: Vec<Pair> = train.iter().map(|it| Pair { logged: None, ..it.clone() }).collect();
    let imitated = fitted(&settings(100), &start, &plain, &[]);
    let right = |model: &Model| {
        let best = STATES.iter().zip(BEST);
        best.filter(|(state, best)| says(model, state) == ACTIONS[*best]).count()
    };
    let (model, _) = opened(&imitated);
    assert!(right(&model) < STATES.len(), "without rewards each action is as good as another");
    let folder = tempfile::tempdir().unwrap();
    imitated.write(folder.path()).unwrap();
    let start = Start::Checkpoint { folder: folder.path().to_owned(), digested: None };
    let (model, _) = opened(&fitted(&policy(200), &start, &train, &[]));
    assert_eq!(right(&model), STATES.len());
}

/// The dev loss is what the engine's probabilities say of the reward: weights cut at `ratio_max`.
#[test]
fn the_dev_loss_is_the_reward_to_be_expected() {
    let (train, start) = (logged(), scratch(Activation::Relu));
    for ratio_max in [1.5, 10.0] {
        let settings = Training { ratio_max, keep: Keep::Best, ..policy(20) };
        let fitted = fitted(&settings, &start, &train, &train);
        let (model, _) = opened(&fitted);
        let expected = train.iter().map(|pair| {
            let Logged { reward, logprob: drawn } = pair.logged.unwrap();
            let ratio = (logprob(&model, pair).0 - f64::from(drawn.unwrap())).exp().min(ratio_max);
            ratio * f64::from(reward)
        });
        let expected = expected.sum::<f64>() / train.len() as f64;
        let found = -fitted.dev_loss.unwrap();
        assert!((found - expected).abs() < 1e-5, "{ratio_max}: {found} {expected}");
    }
}

#[test]
fn a_stopped_fit_goes_on_with_the_baseline_it_had() {
    let (train, start) = (logged(), scratch(Activation::Relu));
    let settings = policy(24);
    let whole = fitted(&settings, &start, &train, &[]);
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let stopped =
        run(&settings, &start, (&train, &[]), (2, Some(&state)), &mut |report, cancel| {
            cancel.store(report.step == 13, Ordering::Relaxed);
        });
    assert!(stopped.is_err());
    let rest = run(&settings, &start, (&train, &[]), (1, Some(&state)), &mut |_, _| ()).unwrap();
    assert_eq!(rest.files["model.safetensors"], whole.files["model.safetensors"]);
    let other = Training { baseline: 0.0, ..settings };
    let other = fitted(&other, &start, &train, &[]);
    assert_ne!(other.files["model.safetensors"], whole.files["model.safetensors"]);
}

#[test]
fn rewards_stand_where_they_are_learnt_and_nowhere_else() {
    let (train, start) = (logged(), scratch(Activation::Relu));
    let refused = |settings: &Training, train: &[Pair]| {
        run(settings, &start, (train, &[]), (1, None), &mut |_, _| ()).unwrap_err().to_string()
    };
    assert!(refused(&settings(1), &train).contains("the objective is `generation`"));
    let plain = [Pair::new("a", "b")];
    assert!(refused(&policy(1), &plain).contains("training pair 0: the objective `policy`"));
    let logged = Some(Logged { reward: f32::NAN, logprob: None });
    assert!(
        refused(&policy(1), &[Pair { logged, ..Pair::new("a", "b") }]).contains("finite reward")
    );
}
