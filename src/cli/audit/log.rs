//! `proofmill audit log`

use crate::cli::audit::args::LogArgs;
use crate::cli::environment::Environment;
use crate::views::audit::AuditLogView;
use proofmill_base::error::Result;
use proofmill_catalog::audit::log::AuditLog;

/// Lists entries, the latest first.
pub async fn log(args: &LogArgs, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let mut backwards = AuditLog::of(&store).backwards();
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let mut entries = Vec::new();
    while entries.len() < limit {
        let next = backwards.next().await?;
        if next.is_empty() {
            break;
        }
        let of_pipeline = next.into_iter().filter(|stored| {
            let name = stored.entry.event.pipeline().map(|name| name.as_str());
            args.pipeline.is_none() || name == args.pipeline.as_deref()
        });
        entries.extend(of_pipeline);
    }
    entries.truncate(limit);
    environment.output.view(&AuditLogView::of(&entries))
}
