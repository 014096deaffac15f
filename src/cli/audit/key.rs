//! `proofmill audit key`

use crate::cli::audit::args::{AnnounceArgs, NewKeyArgs, ShowKeyArgs};
use crate::cli::environment::Environment;
use crate::views::audit::KeyView;
use proofmill_audit::checkpoint::origin;
use proofmill_audit::key_file;
use proofmill_audit::note::{Signer, Verifier};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::audit::entry::AuditEvent;
use proofmill_catalog::audit::log::AuditLog;
use proofmill_store::writer_name;

/// Makes a key.
pub async fn new(args: &NewKeyArgs, environment: &Environment) -> Result<()> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => origin(environment.host.store().await?.format()),
    };
    let mut seed = [0; 32];
    #[expect(clippy::disallowed_methods, reason = "a key must be unpredictable, and no result is")]
    let filled = getrandom::fill(&mut seed);
    filled.map_err(|error| {
        let message = format!("the operating system gives no random numbers: {error}");
        Error::new(ErrorKind::Resources, message)
    })?;
    let signer = Signer::of_seed(&name, seed)
        .map_err(|error| Error::new(ErrorKind::Usage, format!("`{name}`: {error}")))?;
    key_file::write(&args.out, &signer)?;
    let shown = args.out.display();
    environment.output.remark(format!(
        "`{shown}` is the private key: keep it out of the store, and set PROOFMILL_SIGN_KEY to it where runs are to be signed"
    ));
    environment.output.view(&KeyView { verifier: signer.verifier().to_string() })
}

/// Prints the public half of a key.
pub fn show(args: &ShowKeyArgs, environment: &Environment) -> Result<()> {
    let signer = key_file::read(&args.file)?;
    environment.output.view(&KeyView { verifier: signer.verifier().to_string() })
}

/// Enters a verifier key into the audit log.
pub async fn announce(args: &AnnounceArgs, environment: &Environment) -> Result<()> {
    let verifier = verifier(&args.key)?.to_string();
    let store = environment.host.store().await?;
    let event = AuditEvent::Key { verifier: verifier.clone() };
    AuditLog::of(&store).append(&writer_name(&store), |_| Some(event.clone())).await?;
    environment.output.view(&KeyView { verifier })
}

/// The verifier key that was given.
///
/// # Errors
///
/// If it is none.
pub fn verifier(text: &str) -> Result<Verifier> {
    text.parse().map_err(|error| {
        Error::new(ErrorKind::Usage, format!("the key: {error}"))
            .with_hint("give the verifier key that `proofmill audit key new` printed: `name+id+…`")
    })
}
