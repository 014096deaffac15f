//! `proofmill audit trace`

use crate::cli::audit::args::{ProofsShown, TraceArgs};
use crate::cli::environment::Environment;
use crate::report::trace::{Style, item, text};
use crate::report::width;
use crate::trace::assemble::ShownProofs;
use crate::trace::document::Audit;
use crate::trace::inquiry::{self, Inquiry, Traced};
use proofmill_base::error::Result;

/// Traces answers.
pub async fn trace(args: &TraceArgs, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let run = environment.run(&store, Some(&args.run)).await?;
    let engine = environment.host.engine(&store, &environment.host.new_run())?;
    let inquiry = Inquiry {
        question: args.question.clone(),
        answers: args.answers.clone(),
        shown: match args.proofs {
            ProofsShown::All => ShownProofs::All,
            ProofsShown::Accepted => ShownProofs::Accepted,
            ProofsShown::Best => ShownProofs::Best,
        },
    };
    let traced = inquiry::trace(&inquiry, &run, &store, &engine).await?;
    let output = &environment.output;
    if output.json {
        output.json(&traced)?;
        return Ok(());
    }
    let style = Style {
        width: width::of_page(),
        colour: output.paints(),
        // A user who names one knows of them.
        listed: args.answers.is_none(),
    };
    match traced {
        Traced::Item(trace) => output.data(item::text(&trace, args.rows as usize, style))?,
        Traced::Answers(audit) => {
            output.data(text(&audit, style))?;
            if let Some(remark) = others(&audit) {
                output.remark(&remark);
            }
        }
    }
    Ok(())
}

/// How to see the answers that are not traced, if there are some.
fn others(audit: &Audit) -> Option<String> {
    let all = audit.answers.len();
    (audit.traces.len() < all).then(|| {
        format!(
            "{} of {all} answers traced; `--answers STAGE` traces another, `--answers all` every one",
            audit.traces.len()
        )
    })
}
