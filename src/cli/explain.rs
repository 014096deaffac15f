//! `proofmill explain`

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::views::explain::{CodeView, CodesView};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_pipeline::code::{CODES, Code};

/// Explains an error code, or lists all.
pub fn explain(args: &args::Explain, environment: &Environment) -> Result<()> {
    let Some(wanted) = &args.code else { return environment.output.view(&CodesView::all()) };
    if let Some(code) = Code::find(wanted) {
        return environment.output.view(&CodeView::of(code));
    }
    let error = Error::new(ErrorKind::Usage, format!("there is no code `{wanted}`"));
    let codes = CODES.iter().map(|code| code.as_str());
    let help = suggest::nearest(&wanted.to_uppercase(), codes)
        .map_or("`proofmill explain` lists them".to_owned(), |code| {
            format!("did you mean {code}?")
        });
    Err(error.with_hint(help))
}
