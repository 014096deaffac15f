//! What each part of two runs does to their metrics: the part of one run in the other, both ways.

use std::collections::BTreeMap;

use proofmill_base::ids::RunId;
use proofmill_store::RunPart;
use proofmill_udfs::stats;
use serde::Serialize;

use crate::stages::tables::metrics::MetricPoint;

/// One of two runs, but with a part of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Swap {
    /// The run that it is: 0 or 1.
    pub of: usize,
    /// The part that is the other run's; none if all are its own.
    pub part: Option<RunPart>,
}

/// What a run would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Stages that would be computed.
    pub stages: u64,
    /// Requests to models that have no recorded answer, at most; `None` if that is unknown.
    pub requests: Option<u64>,
}

/// What became of a swap.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SwapEnd {
    /// It would be one of the two runs again.
    Known {
        run: RunId,
    },
    /// It was not run.
    Planned(Cost),
    Ran {
        run: RunId,
        cost: Cost,
    },
    /// It has no metrics.
    Failed {
        why: String,
    },
}

/// A metric in two runs, and what each part does to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricEffects {
    pub stage: String,
    pub metric: String,
    /// What tells it from other rows of the same metric; empty if nothing does.
    pub of: String,
    /// Its value in the two runs.
    pub values: [Option<f64>; 2],
    pub parts: Vec<PartEffect>,
    /// What the parts do together beyond what each does in the first run alone.
    pub together: Option<f64>,
}

/// What a part does to a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartEffect {
    /// None for the program: what each run would give today, with all parts its own.
    pub part: Option<RunPart>,
    /// By how much the second run's part moves the metric of the first run.
    pub into_first: Option<f64>,
    /// By how much the metric of the second run would fall short without its own part.
    pub out_of_second: Option<f64>,
}

impl PartEffect {
    /// The mean of both ways, as far as they are known.
    pub fn mean(&self) -> Option<f64> {
        match (self.into_first, self.out_of_second) {
            (Some(a), Some(b)) => Some((a + b) / 2.0),
            (one, other) => one.or(other),
        }
    }
}

/// A sum of differences that is none, but for its rounding.
fn rounded(sum: f64) -> f64 {
    if sum.abs() <= stats::ROUNDING { 0.0 } else { sum }
}

/// The metrics of each swap that has any. Those of the two runs as they were are `runs`.
pub fn effects(
    runs: [&[MetricPoint]; 2],
    swaps: &BTreeMap<Swap, Vec<MetricPoint>>,
    parts: &[RunPart],
) -> Vec<MetricEffects> {
    let [first, _] = runs;
    let value = |points: &[MetricPoint], of: &MetricPoint| {
        let is_it =
            |it: &&MetricPoint| it.stage == of.stage && it.metric == of.metric && it.of == of.of;
        points.iter().find(is_it).and_then(|it| it.value)
    };
    let effect_on = |point: &MetricPoint| {
        let then = runs.map(|points| value(points, point));
        let swapped = |of: usize, part: Option<RunPart>| {
            swaps.get(&Swap { of, part }).map(|points| value(points, point))
        };
        // A run that would come out the same today needs no second one.
        let today = [0, 1].map(|of| swapped(of, None).unwrap_or(then[of]));
        let minus = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
        let of_part = |part: &RunPart| {
            let with = |of| swapped(of, Some(*part)).flatten();
            PartEffect {
                part: Some(*part),
                into_first: minus(with(0), today[0]),
                out_of_second: minus(today[1], with(1)),
            }
        };
        let program = PartEffect {
            part: None,
            into_first: minus(today[0], then[0]),
            out_of_second: minus(then[1], today[1]),
        };
        let is_other = swapped(0, None).is_some() || swapped(1, None).is_some();
        let parts: Vec<PartEffect> =
            parts.iter().map(of_part).chain(is_other.then_some(program)).collect();
        let alone = parts.iter().map(|it| it.into_first).sum::<Option<f64>>();
        let together = minus(minus(then[1], then[0]), alone);
        MetricEffects {
            stage: point.stage.clone(),
            metric: point.metric.clone(),
            of: point.of.clone(),
            values: then,
            together: together.filter(|_| parts.len() > 1).map(rounded),
            parts,
        }
    };
    first.iter().map(effect_on).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(value: f64) -> Vec<MetricPoint> {
        vec![MetricPoint {
            run: "20261121-021500123-k3f9qa".parse().unwrap(),
            started_at: chrono::DateTime::UNIX_EPOCH,
            stage: "judged".to_owned(),
            metric: "accuracy".to_owned(),
            of: String::new(),
            labels: Vec::new(),
            value: Some(value),
            ci_low: None,
            ci_high: None,
        }]
    }

    #[test]
    fn effects_of_parts_and_what_they_do_together() {
        let swap = |of, part| Swap { of, part: Some(part) };
        let swaps = BTreeMap::from([
            (swap(0, RunPart::Params), points(0.7)),
            (swap(1, RunPart::Params), points(0.85)),
            (swap(0, RunPart::Inputs), points(0.75)),
            (swap(1, RunPart::Inputs), points(0.6)),
        ]);
        let (a, b) = (points(0.8), points(0.5));
        let parts = [RunPart::Params, RunPart::Inputs];
        let found = effects([&a, &b], &swaps, &parts);
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} {b}");
        let [params, inputs] = found[0].parts.as_slice() else { panic!() };
        close(params.into_first, -0.1);
        close(params.out_of_second, -0.35);
        close(params.mean(), -0.225);
        close(inputs.into_first, -0.05);
        close(inputs.out_of_second, -0.1);
        close(found[0].together, -0.15);
    }

    #[test]
    fn what_the_program_does_today_is_no_part_of_the_others() {
        let again = |of| Swap { of, part: None };
        let params = Swap { of: 0, part: Some(RunPart::Params) };
        let swaps = BTreeMap::from([(again(0), points(0.9)), (params, points(0.7))]);
        let (a, b) = (points(0.8), points(0.7));
        let found = effects([&a, &b], &swaps, &[RunPart::Params]);
        let of = |at: usize| found[0].parts[at].into_first.unwrap();
        assert!((of(0) + 0.2).abs() < 1e-12 && (of(1) - 0.1).abs() < 1e-12, "{found:?}");
        assert_eq!(found[0].parts[1].part, None);
    }
}
