//! Arguments of `work` and `workers`.

use clap::Args;

use crate::cli::values::parse_seconds;

/// `work`
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// A model in a folder that this worker may be, by the name that pipelines give it: `NAME=FOLDER`, or `NAME` for the folder
    /// that the pipeline names. It must be the very model: weights, tokenizer, number type, device class, engine
    #[arg(long = "model", value_name = "NAME[=FOLDER]", value_parser = parse_model)]
    pub models: Vec<(String, Option<String>)>,
    /// The address of an endpoint that this worker may send requests to, with the key that its environment has
    #[arg(long = "url", value_name = "ADDRESS")]
    pub urls: Vec<String>,
    /// End after this time without a request, such as `10m`
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub until_idle: Option<u64>,
}

/// `workers`
#[derive(Debug, Args)]
pub struct WorkersArgs {}

/// `NAME` or `NAME=FOLDER`.
fn parse_model(text: &str) -> Result<(String, Option<String>), String> {
    match text.split_once('=') {
        Some((name, folder)) if !name.is_empty() && !folder.is_empty() => {
            Ok((name.to_owned(), Some(folder.to_owned())))
        }
        None if !text.is_empty() => Ok((text.to_owned(), None)),
        _ => Err("expected NAME or NAME=FOLDER".to_owned()),
    }
}
