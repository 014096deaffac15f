//! `proofmill explain`

use serde_json::{Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_pipeline::code::{CODES, Code};

/// Explains an error code, or lists all.
pub fn explain(args: &args::Explain, environment: &Environment) -> Result<()> {
    let output = &environment.output;
    let Some(wanted) = &args.code else {
        if output.json {
            return output
                .json(&CODES.iter().map(|code| to_json(*code, false)).collect::<Vec<_>>());
        }
        for code in CODES {
            output.data(format!("{}\n", title(*code)))?;
        }
        return Ok(());
    };
    match Code::find(wanted) {
        Some(code) if output.json => output.json(&to_json(code, true)),
        Some(code) => {
            output.data(code.page())?;
            Ok(())
        }
        None => {
            let error = Error::new(ErrorKind::Usage, format!("there is no code `{wanted}`"));
            let codes = CODES.iter().map(|code| code.as_str());
            let help = suggest::nearest(&wanted.to_uppercase(), codes)
                .map_or("`proofmill explain` lists them".to_owned(), |code| {
                    format!("did you mean {code}?")
                });
            Err(error.with_hint(help))
        }
    }
}

/// The first line of the page of a code: the code and what it means.
fn title(code: Code) -> &'static str {
    code.page().lines().next().unwrap_or_default().trim_start_matches("# ")
}

fn to_json(code: Code, with_page: bool) -> Json {
    let mut json = json!({"code": code.as_str(), "title": title(code)});
    if with_page {
        json["page"] = code.page().into();
    }
    json
}
