//! `proofmill schema`

use crate::cli::environment::Environment;
use crate::error::Result;
use crate::spec::schema::FormatSchema;

/// Prints the JSON Schema of pipeline files.
pub fn schema(environment: &Environment) -> Result<()> {
    environment.output.json(&FormatSchema::generate().document())?;
    Ok(())
}
