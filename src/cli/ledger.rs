//! `proofmill ledger`

use chrono::{DateTime, Utc};
use serde_json::{Map, Value as Json, json};

use crate::cli::args::{self, LedgerAction};
use crate::cli::environment::Environment;
use crate::report::units::{count, plural};
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::secret;
use proofmill_base::styled::printable;
use proofmill_ledger::{Forgotten, Ledger, ModelAnswers, Scope};

/// Digits of the id of a model, of the digest of its identity.
const ID_DIGITS: usize = 12;
/// The fewest digits that name a digest.
const DIGITS_MIN: usize = 6;

/// Shows or forgets recorded answers.
pub async fn ledger(args: &args::Ledger, environment: &Environment) -> Result<()> {
    let store = environment.store().await?;
    let ledger = Ledger::open(&store).await?;
    match &args.action {
        LedgerAction::List => list(&ledger, environment).await,
        LedgerAction::Forget(forget) => self::forget(forget, &ledger, environment).await,
    }
}

async fn list(ledger: &Ledger, environment: &Environment) -> Result<()> {
    let (models, forgotten) = (ledger.models().await?, ledger.forgotten());
    let output = &environment.output;
    if output.json {
        let models: Vec<Json> = models.iter().map(model_json).collect();
        let forgotten: Vec<Json> = forgotten.iter().map(forgotten_json).collect();
        output.json(&json!({"models": models, "forgotten": forgotten}))?;
        return Ok(());
    }
    if models.is_empty() {
        output.data("no answer of a model is recorded\n".to_owned())?;
    } else {
        let header = ["id", "answers", "kinds", "first (UTC)", "last (UTC)", "model"];
        let right = [false, true, false, false, false, false];
        let rows = models.iter().map(model_row).collect();
        output.long(output.table(&header.map(str::to_owned), rows, &right))?;
    }
    if !forgotten.is_empty() {
        let header = ["forgotten (UTC)", "answers", "what", "author", "reason"];
        let right = [false, true, false, false, false];
        let rows = forgotten.iter().map(forgotten_row).collect();
        output.data(format!("\n{}", output.table(&header.map(str::to_owned), rows, &right)))?;
    }
    Ok(())
}

async fn forget(args: &args::Forget, ledger: &Ledger, environment: &Environment) -> Result<()> {
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
    let output = &environment.output;
    if output.json {
        output.json(&json!({"forgotten": answers, "what": what}))?;
    } else {
        let answers = usize::try_from(answers).unwrap_or(usize::MAX);
        output.data(format!("forgot {} of {what}\n", plural(answers, "answer")))?;
    }
    output.remark(
        "tables that are stored already keep what was answered: `proofmill run PIPELINE --rerun STAGE` \
         asks again; runs that are under way may still replay what they opened before",
    );
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
                let ids: Vec<String> = found.iter().map(|known| id(&known.model)).collect();
                let all: String = ids.iter().map(|id| format!(" --model {id}")).collect();
                let message = format!("`{shown}` may be any of {}", ids.join(", "));
                let hint = format!("name those that are meant; all of them are{all}");
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

fn id(identity: &str) -> String {
    Digest::of(identity.as_bytes()).to_string().chars().take(ID_DIGITS).collect()
}

fn parts(identity: &str) -> Map<String, Json> {
    serde_json::from_str(identity).unwrap_or_default()
}

/// A model on one line: where it is, or what it is made of.
fn summary(identity: &str) -> String {
    let parts = parts(identity);
    let text = |key: &str| parts.get(key).and_then(Json::as_str).unwrap_or_default();
    let shown = match (text("url"), text("weights")) {
        ("", "") => identity.to_owned(),
        ("", weights) => {
            let weights: String = weights.chars().take(ID_DIGITS).collect();
            format!("weights {weights}, {}, {}", text("dtype"), text("device"))
        }
        (url, _) => format!("`{}` at {url}", text("model")),
    };
    printable(&secret::covered(&shown), false)
}

fn described(scope: &Scope) -> String {
    match scope {
        Scope::Models(models) => {
            let one = |model: &String| format!("{} ({})", id(model), summary(model));
            models.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Scope::Requests(requests) => {
            let requests: Vec<String> = requests.iter().map(Digest::to_string).collect();
            format!("request {}", requests.join(", "))
        }
    }
}

fn time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S").to_string()
}

fn model_row(model: &ModelAnswers) -> Vec<String> {
    let kind = |(kind, n): (&String, &u64)| format!("{} {}", count(*n), printable(kind, false));
    vec![
        id(&model.model),
        count(model.answers()),
        model.kinds.iter().map(kind).collect::<Vec<_>>().join(", "),
        time(model.first),
        time(model.last),
        summary(&model.model),
    ]
}

fn model_json(model: &ModelAnswers) -> Json {
    json!({
        "id": id(&model.model),
        "answers": model.answers(),
        "kinds": model.kinds,
        "first": model.first,
        "last": model.last,
        "model": secret::covered(&model.model),
    })
}

fn forgotten_row(forgotten: &Forgotten) -> Vec<String> {
    let forget = &forgotten.forget;
    vec![
        time(forgotten.t_utc),
        count(forget.answers),
        described(&forget.what),
        printable(&forget.author, false),
        printable(&forget.reason, false),
    ]
}

fn forgotten_json(forgotten: &Forgotten) -> Json {
    let forget = &forgotten.forget;
    let (models, requests) = match &forget.what {
        Scope::Models(models) => (models.iter().map(|model| id(model)).collect(), Vec::new()),
        Scope::Requests(requests) => (Vec::new(), requests.clone()),
    };
    json!({
        "at": forgotten.t_utc,
        "answers": forget.answers,
        "models": models,
        "requests": requests,
        "author": forget.author,
        "reason": forget.reason,
    })
}
