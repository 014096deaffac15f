//! `proofmill schema`

use crate::cli::environment::Environment;
use proofmill_base::error::Result;
use proofmill_pipeline::schema::FormatSchema;

/// Prints the JSON Schema of pipeline files.
pub fn schema(environment: &Environment) -> Result<()> {
    environment.output.json(&FormatSchema::generate().document())?;
    Ok(())
}
