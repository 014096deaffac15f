//! Templates of prompts: Jinja whose variables, the slots, are filled in for each row.

use std::collections::BTreeMap;
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

/// Steps of one rendering: a template that loops for ever ends.
const STEPS_MAX: u64 = 10_000_000;
/// Most bytes of a text that is filled in.
const BYTES_MAX: usize = 16 << 20;
const NAME: &str = "template";

/// A template that can be rendered. A line that has nothing but a block tag leaves nothing behind; of the line ends at the
/// end of the text one is no part of it, as text files end with one.
#[derive(Debug)]
pub struct Template {
    environment: Environment<'static>,
}

/// A text under way, which ends where it becomes too long.
struct Text(Vec<u8>);

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > BYTES_MAX {
            let why = format!("the text has more than {BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a text is no template, or cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", line.map(|line| format!(" (line {line} of the template)")).unwrap_or_default())]
pub struct TemplateError {
    pub message: String,
    /// Counted from 1.
    pub line: Option<usize>,
}

impl From<Error> for TemplateError {
    fn from(error: Error) -> Self {
        let line = error.line();
        let message = match error.kind() {
            ErrorKind::UndefinedError => {
                "a slot is NULL where a value must stand: write `{% if slot %}` or `slot | default('…')`".to_owned()
            }
            kind => match (error.detail(), std::error::Error::source(&error)) {
                (_, Some(source)) => format!("{kind}: {source}"),
                (Some(detail), None) => format!("{kind}: {detail}"),
                (None, None) => kind.to_string(),
            },
        };
        Self { message, line }
    }
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// It is no Jinja, or names another template.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax?);
        environment.set_fuel(Some(STEPS_MAX));
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.add_template_owned(NAME, source.to_owned())?;
        Ok(Self { environment })
    }

    /// The slots, by name.
    pub fn slots(&self) -> Vec<String> {
        let Ok(template) = self.environment.get_template(NAME) else { return Vec::new() };
        let mut slots: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        slots.retain(|name| self.environment.globals().all(|(global, _)| global != name));
        slots.sort_unstable();
        slots
    }

    /// The text with its slots filled in. One without a value is like one that is NULL.
    ///
    /// # Errors
    ///
    /// A slot without a value is written out, or the template asks of a value what it cannot do.
    pub fn render(&self, slots: BTreeMap<String, Value>) -> Result<String, TemplateError> {
        let template = self.environment.get_template(NAME)?;
        let mut text = Text(Vec::new());
        template.render_captured_to(Value::from(slots), &mut text)?;
        Ok(String::from_utf8_lossy(&text.0).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, slots: &[(&str, Value)]) -> Result<String, String> {
        let template = Template::parse(source).map_err(|error| error.to_string())?;
        let slots = slots.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        template.render(slots.collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn slots_are_filled_in_and_nothing_is_escaped() {
        let turns = Value::from(vec!["hi", "ho"]);
        let source = "Q: {{ q }}\n{% for turn in turns %}\nT{{ loop.index }}: {{ turn }}\n{% endfor %}\nA:\n";
        let found = render(source, &[("q", Value::from("<a> & \"b\" ’")), ("turns", turns)]);
        assert_eq!(found.as_deref(), Ok("Q: <a> & \"b\" ’\nT1: hi\nT2: ho\nA:"));
        assert_eq!(Template::parse(source).unwrap().slots(), ["q", "turns"]);
        assert_eq!(Template::parse("{{ range(3) }}{% set x = y %}{{ x }}").unwrap().slots(), ["y"]);
    }

    #[test]
    fn a_missing_value_is_an_error_only_where_it_would_be_written() {
        let source = "{% if e %}E: {{ e }}\n{% endif %}{{ f | default('none') }}\n{{ q }}";
        let q = [("q", Value::from("q"))];
        assert_eq!(render(source, &q).as_deref(), Ok("none\nq"));
        assert_eq!(
            render(source, &[]).unwrap_err(),
            "a slot is NULL where a value must stand: write `{% if slot %}` or `slot | default('…')` (line 3 of the template)"
        );
    }

    #[test]
    fn what_is_no_template_says_where() {
        assert!(render("a\n{% if x %}", &[]).unwrap_err().contains("(line 2 of the template)"));
        let forever =
            "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
        assert!(render(forever, &[]).unwrap_err().contains("fuel"));
        assert!(render("{% include 'x' %}", &[]).is_err());
        let long = "{% for a in range(100000) %}{{ x }}{% endfor %}";
        let text = Value::from("x".repeat(10_000));
        let message = render(long, &[("x", text)]).unwrap_err();
        assert!(message.contains("more than 16777216 bytes"), "{message}");
    }
}
