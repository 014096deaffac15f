//! `proofmill explain`

use crate::cli::args;
use crate::cli::environment::Environment;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_pipeline::code::{CODES, Code};
use proofmill_base::suggest;

/// Explains an error code, or lists all.
pub fn explain(args: &args::Explain, environment: &Environment) -> Result<()> {
    let output = &environment.output;
    let Some(wanted) = &args.code else {
        for code in CODES {
            let title = code.page().lines().next().unwrap_or_default();
            output.data(format!("{}\n", title.trim_start_matches("# ")))?;
        }
        return Ok(());
    };
    match Code::find(wanted) {
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
