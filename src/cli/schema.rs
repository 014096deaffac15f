//! `proofmill schema`

use crate::cli::args::{SchemaArgs, SchemaOf};
use crate::cli::environment::Environment;
use proofmill_base::error::Result;
use proofmill_pipeline::gate;
use proofmill_pipeline::schema::FormatSchema;
use proofmill_schedule::file;

/// Prints the JSON Schema of a kind of file.
pub fn schema(args: &SchemaArgs, environment: &Environment) -> Result<()> {
    match args.of {
        SchemaOf::Pipeline => environment.output.json(&FormatSchema::generate().document()),
        SchemaOf::Gate => environment.output.json(&gate::schema()),
        SchemaOf::Schedule => environment.output.json(&file::schema()),
    }
}
