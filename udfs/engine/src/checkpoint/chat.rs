//! A model's chat template: Jinja that makes of messages the one text that the model was trained to read.
//! It is rendered as transformers does (`apply_chat_template` with `add_generation_prompt`), but for the
//! date: `strftime_now` is not there, as a prompt must not depend on the day.

use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::Config;
use crate::request::Message;

/// Special tokens that a template may name.
const TOKENS: [&str; 7] =
    ["bos_token", "cls_token", "eos_token", "mask_token", "pad_token", "sep_token", "unk_token"];
/// Steps of one rendering: a template that loops for ever ends.
const STEPS_MAX: u64 = 50_000_000;
const NAME: &str = "chat";

/// A template that can be rendered.
#[derive(Debug)]
pub struct ChatTemplate {
    /// With the special tokens as globals.
    environment: Environment<'static>,
}

/// What a template is given.
#[derive(Serialize)]
struct Given<'a> {
    messages: &'a [Message],
    add_generation_prompt: bool,
    tools: Option<()>,
    documents: Option<()>,
}

impl ChatTemplate {
    /// The template `source`, with the special tokens of `settings` or of `map`. An error is what keeps
    /// the model from reading messages.
    pub fn read(
        source: Option<String>,
        settings: Option<&Config>,
        map: Option<&Config>,
    ) -> Result<Self, String> {
        let Some(source) = source else {
            return Err("the model's folder has no chat template (chat_template.jinja, or `chat_template` of \
                        tokenizer_config.json); give a prompt instead of messages"
                .to_owned());
        };
        let mut environment = Environment::new();
        for name in TOKENS {
            let mut files = [settings, map].into_iter().flatten();
            if let Some(text) = files.find_map(|file| file.token_text(name).ok().flatten()) {
                environment.add_global(name, text.to_owned());
            }
        }
        let unknown =
            |error: Error| format!("the model's chat template is not understood: {error}");
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(unknown)?);
        environment.set_fuel(Some(STEPS_MAX));
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_filter("tojson", tojson);
        environment.add_function("raise_exception", |why: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, why))
        });
        let added = environment.add_template_owned(NAME, source);
        added.map_err(unknown)?;
        Ok(Self { environment })
    }

    /// The text that the model reads: the messages, and the beginning of its answer.
    pub fn render(&self, messages: &[Message]) -> Result<String, String> {
        let refused =
            |error: Error| format!("the model's chat template refuses the messages: {error}");
        let template = self.environment.get_template(NAME).map_err(refused)?;
        let given = Given { messages, add_generation_prompt: true, tools: None, documents: None };
        template.render(Serde(given)).map_err(refused)
    }
}

/// JSON as Python's `json.dumps` writes it, without escapes for HTML or for other alphabets.
fn tojson(value: &Value, arguments: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = arguments.get("indent")?;
    let _: Option<bool> = arguments.get("ensure_ascii")?;
    arguments.assert_all_used()?;
    let written = match indent {
        Some(width) => dump(value, PrettyFormatter::with_indent(" ".repeat(width).as_bytes())),
        None => dump(value, Spaced),
    };
    written
        .map(Value::from)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, format!("no JSON: {error}")))
}

fn dump(value: &Value, formatter: impl Formatter) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A space after each `,` and `:`.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}
