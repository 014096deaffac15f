//! The log of a command: what runs, stages, attempts and requests report, one entry a line on standard
//! error, for unattended jobs. Entries say UTC, quote nothing raw and show no secret.

use std::any::Any;
use std::fmt::{Debug, Write};
use std::sync::Arc;

use chrono::SecondsFormat;
use clap::ValueEnum;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value as Json, json};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument, Span, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::console;
use proofmill_base::clock::Clock;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::secret;

/// The beginning of the names of our modules, in all our crates.
const OURS: &str = "proofmill";
/// The field that holds what an event says.
const MESSAGE: &str = "message";

/// How log entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Time, level, message, and `name=value`.
    Text,
    /// A JSON object.
    Json,
}

/// Has entries written from now on. Only the command line does, once a process.
pub fn install(filter: &Targets, format: LogFormat, clock: Arc<dyn Clock>) -> Result<()> {
    let subscriber = Registry::default().with(Log { format, clock }).with(filter.clone());
    let twice = |_| Error::new(ErrorKind::Internal, "the log is set up twice");
    tracing::subscriber::set_global_default(subscriber).map_err(|_| twice(()))?;
    set_join_set_tracer(&InSpan).map_err(|_| twice(()))
}

/// Levels by module: `LEVEL` for all of ours, `MODULE=LEVEL` for one of anybody's, with commas.
///
/// # Errors
///
/// When a part is neither.
pub fn parse_filter(text: &str) -> std::result::Result<Targets, String> {
    text.split(',').try_fold(Targets::new(), |filter, part| {
        let (module, level) = part.trim().split_once('=').unwrap_or((OURS, part.trim()));
        // Nothing and numbers are levels too, as few know.
        let is_word = !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_alphabetic());
        match level.parse::<LevelFilter>() {
            Ok(level) if is_word && !module.is_empty() => Ok(filter.with_target(module, level)),
            _ => Err(
                "expected `error`, `warn`, `info`, `debug` or `trace`, or MODULE=LEVEL, several \
                      separated by commas"
                    .to_owned(),
            ),
        }
    })
}

/// Writes entries.
struct Log {
    format: LogFormat,
    clock: Arc<dyn Clock>,
}

/// What a span or an event says, by name, with secrets covered.
#[derive(Default)]
struct Fields(Map<String, Json>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), secret::covered(value).into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut said = Fields::default();
        event.record(&mut said);
        let message = said.0.shift_remove(MESSAGE).unwrap_or_default();
        let mut spans = Vec::new();
        // From the outermost span to the event; what is nearer to it says it last.
        let mut fields = Map::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            spans.push(span.name());
            if let Some(Fields(outer)) = span.extensions().get::<Fields>() {
                fields.extend(outer.clone());
            }
        }
        fields.extend(said.0);
        let time = self.clock.now().to_rfc3339_opts(SecondsFormat::Millis, true);
        let (level, module) = (event.metadata().level().as_str(), event.metadata().target());
        match self.format {
            LogFormat::Text => {
                let message = message.as_str().unwrap_or_default().replace('\n', " ");
                console::remark(&format!("{time} {level:<5} {message}{}", pairs(&fields)).into());
            }
            LogFormat::Json => {
                let mut entry = Map::new();
                entry.insert("t_utc".to_owned(), time.into());
                entry.insert("level".to_owned(), level.to_lowercase().into());
                entry.insert(MESSAGE.to_owned(), message);
                entry.extend(fields);
                entry.insert("spans".to_owned(), json!(spans));
                entry.insert("module".to_owned(), module.into());
                console::remark_json(&Json::Object(entry));
            }
        }
    }
}

/// The fields as ` name=value`; what would not read back as one value is quoted.
fn pairs(fields: &Map<String, Json>) -> String {
    fields.iter().fold(String::new(), |mut text, (name, value)| {
        let plain =
            |c: char| c.is_alphanumeric() || (c.is_ascii_punctuation() && !"\"='".contains(c));
        // Writing to a String cannot fail.
        let _ = match value {
            Json::String(value) if !value.is_empty() && value.chars().all(plain) => {
                write!(text, " {name}={value}")
            }
            Json::String(value) => write!(text, " {name}={value:?}"),
            value => write!(text, " {name}={value}"),
        };
        text
    })
}

/// Keeps tasks that the query engine starts in the span of the stage that runs the query.
struct InSpan;

impl JoinSetTracer for InSpan {
    fn trace_future(
        &self,
        work: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        work.in_current_span().boxed()
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        let span = Span::current();
        Box::new(move || span.in_scope(work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_for_our_modules_and_others_are_named() {
        let filter = parse_filter("warn, proofmill_remote=debug,hyper=info").unwrap();
        let would = |module, level| filter.would_enable(module, &level);
        assert!(would("proofmill::run", tracing::Level::WARN));
        assert!(!would("proofmill::run", tracing::Level::INFO));
        assert!(would("proofmill_remote::model", tracing::Level::DEBUG));
        assert!(would("hyper::client", tracing::Level::INFO));
        assert!(!would("h2", tracing::Level::ERROR));
        for wrong in ["", "inof", "3", "info,", "=info", "hyper=loud", "hyper=3"] {
            assert!(parse_filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_that_could_be_taken_for_two_is_quoted() {
        let fields =
            json!({"rows": 3, "stage": "a.b", "reason": "a b\nc", "url": "x=\"y\"", "no": ""});
        let Json::Object(fields) = fields else { panic!() };
        assert_eq!(pairs(&fields), r#" rows=3 stage=a.b reason="a b\nc" url="x=\"y\"" no="""#);
    }
}
