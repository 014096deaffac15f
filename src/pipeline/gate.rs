//! What users write of a gate: a file `kind: gate`.

use std::collections::BTreeMap;

use proofmill_base::ids::{ChannelName, PipelineName, StageName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::kind_file::{self, KindFile, Refused};

/// The chance of a false alarm of one comparison if nothing is said.
const ALPHA_DEFAULT: f64 = 0.05;
/// The largest level that a gate takes.
const LEVEL_MAX: f64 = 0.5;
/// What `runs` is if nothing is said.
const DAILY: &str = "365 per year";

/// A gate file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateFile {
    /// What the file is.
    pub kind: GateKind,
    /// Name of the gate.
    #[schemars(extend("x-name" = true))]
    pub name: String,
    /// The run that others are compared with, as commands name runs: `nightly@baseline`.
    pub baseline: Option<String>,
    /// The channel that moves to a run that passes.
    pub channel: Option<String>,
    /// What must not drop.
    #[schemars(length(min = 1))]
    pub metrics: Vec<MetricFile>,
    /// The chance of a false alarm of one comparison, over all metrics: 0.05 if neither this nor `false_alarms` is given.
    pub alpha: Option<f64>,
    /// False alarms of all comparisons together, such as `1 per year`: sets the chance of each.
    pub false_alarms: Option<String>,
    /// How often runs are compared, for `false_alarms`: `365 per year` if nothing is said.
    pub runs: Option<String>,
    /// Confidence at which a drop is excluded.
    #[serde(default = "confidence")]
    pub confidence: f64,
    /// The smallest share of questions that have to be answered.
    pub answered: Option<f64>,
    /// How many questions may become worse or better.
    pub flips: Option<Flips>,
    /// Whether endpoints may call themselves something else than before.
    #[serde(default)]
    pub reported_models: ReportedRule,
    /// What may differ between the two runs: `models.NAME`, `stages.NAME`, `stages.NAME.SETTING`, `versions`. Without it
    /// anything may.
    pub vary: Option<Vec<String>>,
    /// What may not differ, written likewise: the judge, say. Runs in which it does are not compared.
    pub same: Option<Vec<String>>,
    /// A drop within the spread of so many runs before the candidate is none.
    #[schemars(range(min = 2, max = 1000))]
    pub noise: Option<u32>,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    Gate,
}

/// A metric that must not drop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricFile {
    /// `STAGE.METRIC` of a `measure`; `STAGE..METRIC` for a metric with a point in its name.
    pub metric: String,
    /// The group, for a `measure` with `by`: its columns with their values.
    #[serde(default, rename = "where")]
    pub group: BTreeMap<String, String>,
    /// Columns that tell questions apart; samples of one question are one unit. The key of the rows if nothing is said.
    #[serde(default)]
    pub unit: Vec<String>,
    /// Column of the measured rows that tells clusters of questions apart.
    pub cluster: Option<String>,
    /// Which values are better.
    #[serde(default)]
    pub better: Better,
    /// The smallest drop that matters, in units of the metric.
    pub min_effect: f64,
    /// A drop whose power is printed.
    pub detect: Option<f64>,
}

/// Which values of a metric are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    #[default]
    Higher,
    Lower,
}

/// Whether endpoints may call themselves something else in their answers than before: the `model` and the
/// `system_fingerprint` that they report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportedRule {
    /// It is said, and decides nothing.
    #[default]
    Any,
    /// A change fails.
    Same,
}

/// How many questions may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flips {
    /// At most so many may become worse.
    pub worse: Option<u64>,
    /// At most so many may become better.
    pub better: Option<u64>,
}

fn confidence() -> f64 {
    0.95
}

/// A gate whose parts have been checked, as verdicts have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    pub name: PipelineName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
    pub metrics: Vec<GatedMetric>,
    /// The chance of a false alarm of one comparison, over all metrics.
    pub level: f64,
    pub confidence: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<f64>,
    #[serde(default)]
    pub flips: Flips,
    #[serde(default)]
    pub reported_models: ReportedRule,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vary: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<u32>,
}

impl Gate {
    /// Whether it says what may differ between runs.
    pub fn limits_differences(&self) -> bool {
        self.vary.is_some() || !self.same.is_empty()
    }

    /// What no gate file could say, if some of it is so: of a gate that does not come from one.
    pub fn fault(&self) -> Option<String> {
        if !is_level(self.level) {
            return Some(format!("a level of {}", self.level));
        }
        if !is_confidence(self.confidence) {
            return Some(format!("a confidence of {}", self.confidence));
        }
        if self.answered.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Some("`answered` is no share".to_owned());
        }
        let wrong = self.metrics.iter().find(|metric| {
            metric.metric.is_empty()
                || !is_effect(metric.min_effect)
                || metric.detect.is_some_and(|detect| !is_effect(detect))
        });
        match wrong {
            Some(metric) => Some(format!("metric `{}.{}`", metric.stage, metric.metric)),
            None => self.metrics.is_empty().then(|| "it has no metric".to_owned()),
        }
    }
}

/// A metric that must not drop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatedMetric {
    pub stage: StageName,
    pub metric: String,
    pub group: BTreeMap<String, String>,
    pub unit: Vec<String>,
    pub cluster: Option<String>,
    pub better: Better,
    pub min_effect: f64,
    pub detect: Option<f64>,
}

/// A part of a gate file that runs may not have, by its number in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatePlace {
    Metric(usize),
    MinEffect(usize),
    Vary(usize),
    Same(usize),
}

/// The JSON Schema of gate files, for editors.
pub fn schema() -> serde_json::Value {
    kind_file::schema::<GateFile>()
}

/// A gate as it was written, for what is wrong with it that only runs tell.
#[derive(Debug)]
pub struct GateText(KindFile<GateFile>);

impl GateText {
    /// The file, and the line of a metric, by its number; of the name of the gate where there is none.
    pub fn line_of(&self, metric: Option<usize>) -> (&str, usize) {
        let node = match metric {
            Some(metric) => self.0.node.at(&["metrics", &metric.to_string()]),
            None => self.0.node.at(&["name"]),
        };
        let (line, _) = self.0.sources.position(node.span);
        (&self.0.sources.get(node.span.source).name, line)
    }

    /// What is wrong with a part of the file, as only runs tell.
    pub fn wrong(self, place: GatePlace, message: String, help: Option<&str>) -> Refused {
        let wrong = match place {
            GatePlace::Metric(at) => {
                self.0.wrong(&["metrics", &at.to_string(), "metric"], message, help)
            }
            GatePlace::MinEffect(at) => {
                self.0.wrong(&["metrics", &at.to_string(), "min_effect"], message, help)
            }
            GatePlace::Vary(at) => self.0.wrong(&["vary", &at.to_string()], message, help),
            GatePlace::Same(at) => self.0.wrong(&["same", &at.to_string()], message, help),
        };
        (vec![wrong], self.0.sources)
    }
}

/// Reads the bytes of a gate file.
///
/// # Errors
///
/// Everything that is wrong, each at its place.
pub fn parse(name: &str, bytes: &[u8]) -> Result<(Gate, GateText), Refused> {
    let read: KindFile<GateFile> = kind_file::parse(name, bytes)?;
    let mut wrong = Vec::new();
    let gate = checked(&read, &mut wrong);
    match gate {
        Some(gate) if wrong.is_empty() => Ok((gate, GateText(read))),
        _ => Err((wrong, read.sources)),
    }
}

fn checked(read: &KindFile<GateFile>, out: &mut Vec<Diagnostic>) -> Option<Gate> {
    let file = &read.file;
    let mut wrong = |path: &[&str], message: String, help: Option<&str>| {
        out.push(read.wrong(path, message, help));
    };
    let level = level(file).map_err(|(key, message, help)| wrong(&[key], message, help));
    let name = file.name.parse().map_err(|error| wrong(&["name"], format!("{error}"), None));
    let channel = match &file.channel {
        Some(text) if text == "baseline" => {
            let help = "`proofmill channel pin` moves it; `good` is a usual name";
            wrong(&["channel"], "`baseline` moves by hand only".to_owned(), Some(help));
            None
        }
        Some(text) => {
            let parsed = text.parse::<ChannelName>();
            parsed.map_err(|error| wrong(&["channel"], error.to_string(), None)).ok()
        }
        None => None,
    };
    if !is_confidence(file.confidence) {
        let message = format!("`{}` is not a confidence", file.confidence);
        wrong(&["confidence"], message, Some("a number from 0.5 to below 1: `0.95`"));
    }
    if file.answered.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        wrong(&["answered"], "expected a share from 0 to 1".to_owned(), None);
    }
    let vary = file.vary.iter().flatten().enumerate().map(|(at, item)| ("vary", at, item));
    let same = file.same.iter().flatten().enumerate().map(|(at, item)| ("same", at, item));
    for (key, at, item) in vary.chain(same) {
        let parts: Vec<&str> = item.split('.').collect();
        let fits = match parts.as_slice() {
            ["versions"] => true,
            ["models" | "stages", rest @ ..] => {
                !rest.is_empty() && rest.iter().all(|part| !part.is_empty())
            }
            _ => false,
        };
        if !fits {
            let help = "`models.NAME`, `stages.NAME`, `stages.NAME.SETTING`, or `versions`";
            wrong(&[key, &at.to_string()], format!("`{item}` names nothing"), Some(help));
        }
    }
    let mut metrics: Vec<GatedMetric> = Vec::new();
    for (at, metric) in file.metrics.iter().enumerate() {
        let at = at.to_string();
        let place = |key| ["metrics", &at, key];
        let named = named(&metric.metric);
        if named.is_none() {
            let message = format!("`{}` is not a metric of a stage", metric.metric);
            wrong(&place("metric"), message, Some("write `STAGE.METRIC`: `scores.accuracy`"));
        }
        for (key, value) in [("min_effect", Some(metric.min_effect)), ("detect", metric.detect)] {
            if value.is_some_and(|value| !is_effect(value)) {
                let help = "a drop, in units of the metric: `0.02` are two points of accuracy";
                wrong(&place(key), "expected a number above 0".to_owned(), Some(help));
            }
        }
        let Some((stage, name)) = named else { continue };
        let is_same = |known: &GatedMetric| {
            (&known.stage, &known.metric, &known.group) == (&stage, &name, &metric.group)
        };
        if metrics.iter().any(is_same) {
            wrong(&place("metric"), format!("`{}` is listed twice", metric.metric), None);
        }
        metrics.push(GatedMetric {
            stage,
            metric: name,
            group: metric.group.clone(),
            unit: metric.unit.clone(),
            cluster: metric.cluster.clone(),
            better: metric.better,
            min_effect: metric.min_effect,
            detect: metric.detect,
        });
    }
    Some(Gate {
        name: name.ok()?,
        baseline: file.baseline.clone(),
        channel,
        metrics,
        level: level.ok()?,
        confidence: file.confidence,
        answered: file.answered,
        flips: file.flips.unwrap_or_default(),
        reported_models: file.reported_models,
        vary: file.vary.clone(),
        same: file.same.clone().unwrap_or_default(),
        noise: file.noise,
    })
}

fn is_level(level: f64) -> bool {
    level > 0.0 && level <= LEVEL_MAX
}

fn is_confidence(confidence: f64) -> bool {
    (0.5..1.0).contains(&confidence)
}

fn is_effect(effect: f64) -> bool {
    effect > 0.0 && effect.is_finite()
}

/// The stage and the metric that `STAGE.METRIC` names. A stage of a group has a point in its name, and a metric may have one: the last that
/// follows a name of a stage parts them, unless the text says otherwise with two.
fn named(text: &str) -> Option<(StageName, String)> {
    let parted = match text.split_once("..") {
        Some(parted) => Some(parted),
        None => text.rsplit_once('.'),
    };
    let (stage, name) = parted?;
    Some((stage.parse().ok()?, name.to_owned())).filter(|(_, name)| !name.is_empty())
}

/// What is wrong with a value: its key, the message, and what helps.
type Wrong = (&'static str, String, Option<&'static str>);

/// The chance of a false alarm of one comparison.
fn level(file: &GateFile) -> Result<f64, Wrong> {
    let rate = |key: &'static str, text: &str| {
        let help = "a number above 0 per year, month, week or day: `1 per year`";
        per_year(text).ok_or_else(|| (key, format!("`{text}` is not a rate"), Some(help)))
    };
    let (key, level) = match (&file.alpha, &file.false_alarms) {
        (Some(_), Some(_)) => {
            let message = "`alpha` and `false_alarms` are both given".to_owned();
            let help = "`false_alarms` sets the chance of each comparison";
            return Err(("false_alarms", message, Some(help)));
        }
        (None, Some(alarms)) => {
            let runs = rate("runs", file.runs.as_deref().unwrap_or(DAILY))?;
            ("false_alarms", rate("false_alarms", alarms)? / runs)
        }
        (_, None) if file.runs.is_some() => {
            let help = "`false_alarms: 1 per year` with it sets the chance of each comparison";
            return Err((
                "runs",
                "`runs` means nothing without `false_alarms`".to_owned(),
                Some(help),
            ));
        }
        (alpha, None) => ("alpha", alpha.unwrap_or(ALPHA_DEFAULT)),
    };
    match is_level(level) {
        true => Ok(level),
        false => {
            let message =
                format!("a chance of {level} of a false alarm is not one of 0 to {LEVEL_MAX}");
            Err((key, message, None))
        }
    }
}

/// `1 per year`, `2 per month`: how often a year.
fn per_year(text: &str) -> Option<f64> {
    let (number, period) = text.split_once(" per ")?;
    let times = match period.trim() {
        "year" => 1.0,
        "month" => 12.0,
        "week" => 52.0,
        "day" => 365.0,
        _ => return None,
    };
    let number: f64 = number.trim().parse().ok()?;
    (number > 0.0 && number.is_finite()).then_some(number * times)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str =
        "kind: gate\nname: g\nmetrics: [{ metric: scores.accuracy, min_effect: 0.02 }]\n";

    fn said(text: &str) -> Vec<String> {
        let (wrong, sources) = parse("gate.yaml", text.as_bytes()).unwrap_err();
        let line = |it: &Diagnostic| format!("{} {}", sources.position(it.span).0, it.message);
        wrong.iter().map(line).collect()
    }

    #[test]
    fn a_short_file_has_usual_values() {
        let gate = parse("gate.yaml", PLAIN.as_bytes()).unwrap().0;
        assert_eq!((gate.level, gate.confidence, gate.vary), (0.05, 0.95, None));
        let yearly = parse("g", format!("{PLAIN}false_alarms: 1 per year\n").as_bytes()).unwrap().0;
        assert_eq!(yearly.level, 1.0 / 365.0);
        let weekly = format!("{PLAIN}false_alarms: 2 per year\nruns: 1 per week\n");
        assert_eq!(parse("g", weekly.as_bytes()).unwrap().0.level, 2.0 / 52.0);
    }

    #[test]
    fn each_error_has_its_place() {
        let of = |more: &str| said(&format!("{PLAIN}{more}"));
        assert_eq!(of("alpha: 0.7\n").len(), 1);
        assert!(of("alpha: 0.05\nfalse_alarms: 1 per year\n")[0].contains("both given"));
        assert!(of("false_alarms: often\n")[0].starts_with("4 `often` is not a rate"));
        assert!(of("vary: [models.reader, reader]\n")[0].contains("`reader` names nothing"));
        assert!(of("channel: baseline\n")[0].contains("by hand only"));
        assert!(of("confidence: 95\n")[0].contains("not a confidence"));
        let two = "kind: gate\nname: g\nmetrics:\n  - { metric: accuracy, min_effect: 0 }\n";
        assert_eq!(said(two).len(), 2, "{:?}", said(two));
        assert!(said("kind: gate\nname: g\n")[0].contains("metrics"));
    }
}
