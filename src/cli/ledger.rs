//! `proofmill ledger`

use serde_json::Value as Json;

use crate::cli::args::{self, LedgerAction};
use crate::cli::environment::Environment;
use crate::views::ledger::{ForgotView, LedgerView, described, model_id, parts};
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::secret;
use proofmill_base::styled::printable;
use proofmill_catalog::audit::entry::AuditEvent;
use proofmill_catalog::audit::log::AuditLog;
use proofmill_ledger::{Forget, Forgotten, Ledger, ModelAnswers, Scope};
use proofmill_store::{Store, writer_name};

/// The fewest digits that name a digest.
const DIGITS_MIN: usize = 6;

/// Shows or forgets recorded answers.
pub async fn ledger(args: &args::Ledger, environment: &Environment) -> Result<()> {
    let store = environment.host.store().await?;
    let ledger = Ledger::open(&store).await?;
    match &args.action {
        LedgerAction::List => list(&ledger, environment).await,
        LedgerAction::Forget(forget) => self::forget(forget, &ledger, &store, environment).await,
    }
}

async fn list(ledger: &Ledger, environment: &Environment) -> Result<()> {
    let (models, forgotten) = (ledger.models().await?, ledger.forgotten());
    environment.output.view(&LedgerView::of(&models, &forgotten))
}

async fn forget(
    args: &args::Forget,
    ledger: &Ledger,
    store: &Store,
    environment: &Environment,
) -> Result<()> {
    let scope = if args.what.request.is_empty() {
        Scope::Models(named(&args.what.model, &ledger.models().await?)?)
    } else {
        let requests = args.what.request.iter().map(|text| request(text));
        Scope::Requests(requests.collect::<Result<_>>()?)
    };
    let what = described(&scope);
    let answers = ledger.forget(scope, &args.author, &args.reason).await?;
    if answers == 0 {
        let message = format!("there is no recorded answer of {what}");
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint("`proofmill ledger list` shows which models answered"));
    }
    enter(answers, args, ledger, store).await?;
    let output = &environment.output;
    output.view(&ForgotView { forgotten: answers, what })?;
    output.remark(
        "stored tables keep the old answers: `proofmill run PIPELINE --rerun STAGE` calls the model \
         again; runs in progress may still replay answers that they opened before",
    );
    Ok(())
}

/// Enters a forgetting of so many answers into the audit log.
async fn enter(answers: u64, args: &args::Forget, ledger: &Ledger, store: &Store) -> Result<()> {
    let is_ours = |forgotten: &&Forgotten| {
        let forget = &forgotten.forget;
        (forget.answers, &forget.author, &forget.reason) == (answers, &args.author, &args.reason)
    };
    let forgotten = ledger.forgotten();
    let Some(Forgotten { forget, .. }) = forgotten.iter().rev().find(is_ours) else {
        return Ok(());
    };
    let Forget { id, author, reason, .. } = forget.clone();
    let event = AuditEvent::Forgot { id, author, reason, answers };
    AuditLog::of(store).append(&writer_name(store), |_| Some(event.clone())).await?;
    Ok(())
}

/// The identities that `wanted` name, each of them exactly one.
fn named(wanted: &[String], models: &[ModelAnswers]) -> Result<Vec<String>> {
    let one = |wanted: &String| {
        let found: Vec<&ModelAnswers> =
            models.iter().filter(|known| is_named(&known.model, wanted)).collect();
        let shown = printable(&secret::covered(wanted), false);
        match found[..] {
            [known] => Ok(known.model.clone()),
            [] => {
                let message = format!("there is no recorded answer of a model `{shown}`");
                let hint = "`proofmill ledger list` shows the ids of the models that answered";
                Err(Error::new(ErrorKind::Usage, message).with_hint(hint))
            }
            _ => {
                let ids: Vec<String> = found.iter().map(|known| model_id(&known.model)).collect();
                let all: String = ids.iter().map(|id| format!(" --model {id}")).collect();
                let message = format!("`{shown}` matches several models: {}", ids.join(", "));
                let hint = format!("name the ones you mean; all of them:{all}");
                Err(Error::new(ErrorKind::Usage, message).with_hint(hint))
            }
        }
    };
    wanted.iter().map(one).collect()
}

/// Whether a model is meant: by its id, its weights, or what it is called at an endpoint.
fn is_named(identity: &str, wanted: &str) -> bool {
    let begins = |digest: &str| wanted.len() >= DIGITS_MIN && digest.starts_with(wanted);
    let parts = parts(identity);
    let part = |key: &str| parts.get(key).and_then(Json::as_str);
    let at_endpoint = ["model", "url"].iter().any(|key| part(key) == Some(wanted));
    identity == wanted
        || at_endpoint
        || begins(&Digest::of(identity.as_bytes()).to_string())
        || part("weights").is_some_and(begins)
}

fn request(text: &str) -> Result<Digest> {
    text.parse().map_err(|_| {
        let message = format!("`{}` is not the digest of a request", printable(text, false));
        Error::new(ErrorKind::Usage, message)
            .with_hint("give the 64 hex digits of the column `request_digest`")
    })
}
