//! `proofmill functions`

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::views::functions::{EngineFunctionView, FunctionsView};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;

/// Lists the SQL functions beside DataFusion's own, or shows one of either.
pub fn functions(args: &args::Functions, environment: &Environment) -> Result<()> {
    let (output, ours) = (&environment.output, FunctionsView::all());
    let Some(wanted) = &args.name else {
        output.view(&ours)?;
        if !output.json {
            output.remark(
                "DataFusion's own, such as `round`, are available too; `proofmill functions NAME` explains each",
            );
        }
        return Ok(());
    };
    let (name, names) = (wanted.to_lowercase(), ours.names().collect::<Vec<_>>());
    if let Some(function) = ours.find(&name) {
        return output.view(&function);
    }
    let theirs = EngineFunctionView::all();
    if let Some(function) = theirs.get(&name) {
        return output.view(function);
    }
    let error = Error::new(ErrorKind::Usage, format!("there is no function `{wanted}`"));
    let names = names.into_iter().chain(theirs.keys().map(String::as_str));
    let help = suggest::nearest(&name, names)
        .map_or("`proofmill functions` lists them".to_owned(), |near| {
            format!("did you mean `{near}`?")
        });
    Err(error.with_hint(help))
}
