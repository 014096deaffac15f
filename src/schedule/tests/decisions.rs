//! What becomes of instants, case by case.

use chrono::{DateTime, TimeDelta, Utc};
use proofmill_base::ids::RunId;
use proofmill_base::rng::SeededRng;

use crate::decision::{apply, begins, decide, pause, resume};
use crate::file::{self, Schedule};
use crate::state::{Decided, ScheduleEvent, ScheduleState, SkipReason, Why};
use crate::tests::checks;
use proofmill_catalog::audit::entry::Ending;

fn time(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(&format!("2026-11-{text}:00Z")).unwrap().to_utc()
}

fn schedule(more: &str) -> Schedule {
    let text =
        format!("kind: schedule\nname: nightly\npipeline: p.yaml\ncron: \"0 2 * * *\"\n{more}");
    file::parse("s.yaml", text.as_bytes(), time("01T00:00"), checks()).unwrap()
}

fn run(n: u64) -> RunId {
    RunId::new(time("01T00:00"), &SeededRng::new(n))
}

/// A schedule that was applied on the first of the month.
fn applied(more: &str) -> ScheduleState {
    let state = ScheduleState::default();
    state.after(&apply(&state, schedule(more), time("01T00:00")).unwrap())
}

fn decided(state: &ScheduleState, now: &str) -> Option<Decided> {
    decide(state, time(now), &run(7)).unwrap()
}

fn after(state: &ScheduleState, decided: Decided) -> ScheduleState {
    state.after(&ScheduleEvent::Decided(decided))
}

/// The end of the run that was fired.
fn ended(how: Ending) -> ScheduleEvent {
    let run = run(7);
    ScheduleEvent::Ended { run, how, verdict: None, requests: None, sampled: Vec::new() }
}

/// The numbers of instants by reason.
fn skipped(decided: &Decided) -> Vec<(u64, SkipReason)> {
    decided.skipped.iter().map(|it| (it.count, it.reason.clone())).collect()
}

#[test]
fn a_due_instant_is_fired_once() {
    let state = applied("");
    assert_eq!(decided(&state, "01T01:59"), None);
    let first = decided(&state, "01T02:00").unwrap();
    let fired = first.fired.clone().unwrap();
    assert_eq!((fired.planned, fired.why), (time("01T02:00"), Why::Due));
    let state = after(&state, first);
    // Neither later, nor by a clock that went back.
    assert_eq!(decided(&state, "01T02:01"), None);
    assert_eq!(decided(&state, "01T01:00"), None);
    let state = state.after(&ended(Ending::Succeeded));
    assert_eq!(state.open, None);
    assert_eq!(decided(&state, "01T02:30"), None);
    assert!(decided(&state, "02T02:00").unwrap().fired.is_some());
}

#[test]
fn missed_instants_are_made_up_as_the_file_says() {
    // Five nights without a process.
    let latest = decided(&applied(""), "05T10:00").unwrap();
    assert_eq!(latest.fired.as_ref().unwrap().planned, time("05T02:00"));
    assert_eq!(skipped(&latest), [(4, SkipReason::Superseded { by: time("05T02:00") })]);
    let none = decided(&applied("missed: none\n"), "05T10:00").unwrap();
    assert_eq!((none.fired.clone(), skipped(&none)), (None, vec![(5, SkipReason::Missed)]));
    assert!(decided(&applied("missed: none\n"), "01T02:04").unwrap().fired.is_some());
    let short = decided(&applied("window: 2h\n"), "05T10:00").unwrap();
    assert_eq!((short.fired.clone(), skipped(&short)), (None, vec![(5, SkipReason::Missed)]));

    let state = applied("missed: { all: 3 }\nwindow: 240h\n");
    let all = decided(&state, "05T10:00").unwrap();
    assert_eq!(all.fired.as_ref().unwrap().planned, time("03T02:00"));
    assert_eq!(skipped(&all), [(2, SkipReason::Missed)]);
    assert_eq!(all.waiting.len(), 2);
    let state = after(&state, all);
    assert_eq!(decided(&state, "05T10:01"), None, "they wait for each other");
    let state = state.after(&ended(Ending::Failed));
    assert_eq!(decided(&state, "05T10:02").unwrap().fired.unwrap().planned, time("04T02:00"));
}

#[test]
fn an_instant_during_a_run_is_skipped_or_waits_as_the_file_says() {
    let busy = |more: &str| {
        let state = applied(more);
        let first = decided(&state, "01T02:00").unwrap();
        after(&state, first)
    };
    let skip = decided(&busy(""), "02T02:00").unwrap();
    assert_eq!(skip.fired, None);
    assert_eq!(skipped(&skip), [(1, SkipReason::Overlap { run: run(7) })]);

    let state = busy("overlap: queue\n");
    let queued = decided(&state, "02T02:00").unwrap();
    assert_eq!((queued.fired.clone(), queued.waiting.len(), queued.stop.clone()), (None, 1, None));
    let state = after(&state, queued);
    let later = decided(&state, "03T02:00").unwrap();
    assert_eq!(skipped(&later), [(1, SkipReason::Superseded { by: time("03T02:00") })]);
    let state = after(&state, later);
    assert_eq!(decided(&state, "03T03:00"), None);
    let state = state.after(&ended(Ending::Succeeded));
    assert_eq!(decided(&state, "03T04:00").unwrap().fired.unwrap().planned, time("03T02:00"));
    // What waits longer than the window is missed.
    let late = decided(&state, "04T01:00").unwrap();
    assert!(late.fired.is_some());
    let too_late = decided(
        &ScheduleState { schedule: Some(schedule("overlap: queue\nwindow: 1h\n")), ..state },
        "04T01:00",
    );
    assert_eq!(skipped(&too_late.unwrap()), [(1, SkipReason::Missed)]);

    let cancel = decided(&busy("overlap: cancel\n"), "02T02:00").unwrap();
    assert_eq!((cancel.stop, cancel.waiting.len()), (Some(run(7)), 1));
}

#[test]
fn paused_time_is_not_made_up_and_an_edit_counts_from_its_instant() {
    let state = applied("");
    let state = state.after(&pause(&state, "holidays".to_owned(), time("02T00:00")).unwrap());
    assert_eq!(decided(&state, "05T10:00"), None);
    let resumed = resume(&state, time("06T00:00")).unwrap();
    let ScheduleEvent::Resumed { skipped, .. } = &resumed else { panic!("{resumed:?}") };
    assert_eq!((skipped[0].count, &skipped[0].reason), (4, &SkipReason::Paused));
    let state = state.after(&resumed);
    assert_eq!(decided(&state, "06T01:00"), None);
    assert!(decided(&state, "06T02:00").unwrap().fired.is_some());

    // From 02:00 to 03:00, at half past two: today's run at three comes, the one at two does not come again.
    let state = applied("");
    let first = decided(&state, "01T02:00").unwrap();
    let state = after(&state, first).after(&ended(Ending::Succeeded));
    let other = Schedule { cron: "0 3 * * *".to_owned(), ..schedule("") };
    let state = state.after(&apply(&state, other.clone(), time("01T02:30")).unwrap());
    assert_eq!(decided(&state, "01T02:40"), None);
    assert_eq!(decided(&state, "01T03:00").unwrap().fired.unwrap().planned, time("01T03:00"));
    // To an earlier time of the day: nothing of today is run again.
    let earlier = Schedule { cron: "0 1 * * *".to_owned(), ..schedule("") };
    let state = state.after(&apply(&state, earlier, time("01T03:30")).unwrap());
    assert_eq!(decided(&state, "01T23:00"), None);
}

#[test]
fn jitter_is_the_same_in_every_process_and_keeps_the_order() {
    let schedule = schedule("jitter: 30m\n");
    let shift = |day: u32| {
        begins(&schedule, time(&format!("{day:02}T02:00"))) - time(&format!("{day:02}T02:00"))
    };
    let shifts: Vec<TimeDelta> = (1..29).map(shift).collect();
    assert!(shifts.iter().all(|it| *it >= TimeDelta::zero() && *it < TimeDelta::minutes(30)));
    assert!(shifts.iter().any(|it| *it != shifts[0]));
    assert_eq!(shifts, (1..29).map(shift).collect::<Vec<_>>());
    let state = applied("jitter: 30m\n");
    let begin = begins(&schedule, time("01T02:00"));
    assert_eq!(decide(&state, begin - TimeDelta::seconds(1), &run(7)).unwrap(), None);
    assert!(decide(&state, begin, &run(7)).unwrap().unwrap().fired.is_some());
}
