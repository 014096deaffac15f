//! Which part of two runs moves their metrics.

use serde::Serialize;

use crate::diff::swap::{Cost, MetricEffects, PartEffect, Swap, SwapEnd};
use crate::draw::cells::format_float;
use crate::report::units::{count, plural};
use crate::views::section::{Grid, Section, View};
use proofmill_base::ids::RunId;
use proofmill_base::styled::printable;
use proofmill_store::RunPart;

/// Which part of two runs moves their metrics.
#[derive(Clone, Debug, Serialize)]
pub struct AttributionView {
    a: RunId,
    b: RunId,
    /// What differs in each part that does, in words.
    parts: Vec<PartLine>,
    /// What became of each swap.
    swaps: Vec<SwapLine>,
    /// Empty where nothing was run.
    metrics: Vec<MetricEffects>,
}

#[derive(Clone, Debug, Serialize)]
struct PartLine {
    part: RunPart,
    differs: String,
}

#[derive(Clone, Debug, Serialize)]
struct SwapLine {
    /// `a` or `b`: the run that it is.
    of: &'static str,
    /// The part that is the other run's; none if all are its own.
    part: Option<RunPart>,
    #[serde(flatten)]
    end: SwapEnd,
}

impl AttributionView {
    /// Of two runs.
    pub fn of(
        [a, b]: [RunId; 2],
        parts: Vec<(RunPart, String)>,
        swaps: Vec<(Swap, SwapEnd)>,
        metrics: Vec<MetricEffects>,
    ) -> Self {
        let name = |of| if of == 0 { "a" } else { "b" };
        let swaps = swaps.into_iter();
        Self {
            a,
            b,
            parts: parts.into_iter().map(|(part, differs)| PartLine { part, differs }).collect(),
            swaps: swaps
                .map(|(Swap { of, part }, end)| SwapLine { of: name(of), part, end })
                .collect(),
            metrics,
        }
    }

    /// What the swaps that are not known would take, in a line.
    pub fn cost(&self) -> String {
        let costs = self.swaps.iter().filter_map(|line| match &line.end {
            SwapEnd::Planned(cost) | SwapEnd::Ran { cost, .. } => Some(*cost),
            SwapEnd::Known { .. } | SwapEnd::Failed { .. } => None,
        });
        let costs: Vec<Cost> = costs.collect();
        let stages: u64 = costs.iter().map(|cost| cost.stages).sum();
        let requests = costs.iter().map(|cost| cost.requests).sum::<Option<u64>>();
        let requests = match requests {
            Some(requests) => format!("at most {}", plural(requests as usize, "request")),
            None => "an unknown number of requests".to_owned(),
        };
        let runs = plural(costs.len(), "run");
        format!("{runs} over {}, {requests}", plural(stages as usize, "stage"))
    }
}

impl View for AttributionView {
    fn sections(&self) -> Vec<Section> {
        let mut all = vec![Section::Text(format!("a: run {}\nb: run {}\n", self.a, self.b))];
        if self.parts.is_empty() {
            all.push(Section::Text("the runs were made of the same\n".to_owned()));
        }
        let swap = |of: &str, part| {
            self.swaps.iter().find(|line| line.of == of && line.part == part).map(|line| &line.end)
        };
        let row = |line: &PartLine| {
            vec![
                line.part.name().to_owned(),
                printable(&line.differs, false),
                swap("a", Some(line.part)).map(shown).unwrap_or_default(),
                swap("b", Some(line.part)).map(shown).unwrap_or_default(),
            ]
        };
        let mut rows: Vec<_> = self.parts.iter().map(row).collect();
        let again = [swap("a", None), swap("b", None)];
        if again.iter().flatten().any(|end| !matches!(end, SwapEnd::Known { .. })) {
            let [a, b] = again.map(|end| end.map(shown).unwrap_or_default());
            rows.push(vec![
                "program".to_owned(),
                "the same would come out otherwise".to_owned(),
                a,
                b,
            ]);
        }
        if !rows.is_empty() {
            let header = ["part", "differs in", "a with that of b", "b with that of a"];
            all.push(Section::Table(Grid::new(&header, &[], rows)));
        }
        let rows: Vec<_> = self.metrics.iter().flat_map(effects).collect();
        if !rows.is_empty() {
            let header = ["metric", "a", "b", "part", "into a", "out of b"];
            let grid = Grid::new(&header, &["a", "b", "into a", "out of b"], rows);
            let note =
                "`into a`: what the part of b does to a; `out of b`: what b would lack without it";
            all.push(Section::Table(grid.noted(note.to_owned())));
            let named = self.metrics.iter().filter_map(named);
            all.push(Section::Text(named.collect()));
        }
        all
    }
}

fn shown(end: &SwapEnd) -> String {
    let requests = |cost: &Cost| match cost.requests {
        Some(requests) => format!("{} requests", count(requests)),
        None => "requests unknown".to_owned(),
    };
    match end {
        SwapEnd::Known { run } => format!("as run {run}"),
        SwapEnd::Planned(cost) => format!("{} stages, {}", count(cost.stages), requests(cost)),
        SwapEnd::Ran { run, .. } => format!("run {run}"),
        SwapEnd::Failed { why } => format!("failed: {}", printable(why, false)),
    }
}

fn part_name(part: &PartEffect) -> &'static str {
    part.part.map_or("program", RunPart::name)
}

fn metric_name(metric: &MetricEffects) -> String {
    format!("{}.{} {}", metric.stage, metric.metric, metric.of).trim_end().to_owned()
}

/// A line for each part that does something, the first with the metric.
fn effects(metric: &MetricEffects) -> Vec<Vec<String>> {
    let float = |value: Option<f64>| value.map(format_float).unwrap_or_default();
    let line = |part: &str, into: Option<f64>, out: Option<f64>| {
        vec![String::new(), String::new(), String::new(), part.to_owned(), float(into), float(out)]
    };
    let mut lines: Vec<_> = metric
        .parts
        .iter()
        .map(|part| line(part_name(part), part.into_first, part.out_of_second))
        .collect();
    lines.extend(metric.together.map(|together| line("together", Some(together), None)));
    if let Some(first) = lines.first_mut() {
        first[0] = metric_name(metric);
        (first[1], first[2]) = (float(metric.values[0]), float(metric.values[1]));
    }
    lines
}

/// The part that does most; `None` where the metric did not move.
fn named(metric: &MetricEffects) -> Option<String> {
    let [Some(a), Some(b)] = metric.values else { return None };
    let size = |part: &&PartEffect| part.mean().unwrap_or(0.0).abs();
    let most = metric.parts.iter().max_by(|x, y| size(x).total_cmp(&size(y)))?;
    let effect = most.mean().filter(|effect| *effect != 0.0)?;
    let (name, part) = (metric_name(metric), part_name(most));
    let (effect, all) = (format_float(effect), format_float(b - a));
    Some(format!("{name}: {part} does most, {effect} of {all}\n"))
}
