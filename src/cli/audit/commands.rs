//! `proofmill audit`, command by command.

use crate::cli::audit::args::{AuditArgs, AuditOf, KeyAction};
use crate::cli::audit::{anchor, export, key, log, prove, replay, root, trace, verify};
use crate::cli::environment::Environment;
use proofmill_audit::SECOND_VERIFIER;
use proofmill_base::error::Result;

/// Looks into what runs did.
pub async fn audit(args: &AuditArgs, environment: &Environment) -> Result<()> {
    match &args.of {
        AuditOf::Trace(args) => trace::trace(args, environment).await,
        AuditOf::Log(args) => log::log(args, environment).await,
        AuditOf::Verify(args) => verify::verify(args, environment).await,
        AuditOf::Prove(args) => prove::prove(args, environment).await,
        AuditOf::Export(args) => export::export(args, environment).await,
        AuditOf::Replay(args) => replay::replay(args, environment).await,
        AuditOf::Verifier => environment.output.data(SECOND_VERIFIER),
        AuditOf::Anchor(args) => anchor::anchor(args, environment).await,
        AuditOf::Root(args) => root::root(args, environment).await,
        AuditOf::Key(args) => match &args.action {
            KeyAction::New(args) => key::new(args, environment).await,
            KeyAction::Show(args) => key::show(args, environment),
            KeyAction::Announce(args) => key::announce(args, environment).await,
        },
    }
}
