//! The files that make a folder a sentence encoder of sentence-transformers.

use serde_json::json;

use crate::graph::ops::Pool;
use crate::model::origin::pretty;

/// Their names.
pub const FILES: [&str; 3] = ["1_Pooling/config.json", "modules.json", "sentence_bert_config.json"];

/// The files for vectors of this width, of texts of up to so many tokens.
pub fn files(
    pool: Pool,
    normalize: bool,
    width: usize,
    positions: usize,
) -> [(String, Vec<u8>); 3] {
    let module = |number: usize, kind: &str, path: &str| {
        let kind = format!("sentence_transformers.models.{kind}");
        json!({"idx": number, "name": number.to_string(), "path": path, "type": kind})
    };
    let mut modules = vec![module(0, "Transformer", ""), module(1, "Pooling", "1_Pooling")];
    if normalize {
        modules.push(module(2, "Normalize", "2_Normalize"));
    }
    let pooling = json!({
        "pooling_mode_cls_token": pool == Pool::First,
        "pooling_mode_max_tokens": false,
        "pooling_mode_mean_sqrt_len_tokens": false,
        "pooling_mode_mean_tokens": pool == Pool::Mean,
        "word_embedding_dimension": width,
    });
    let limits = json!({"do_lower_case": false, "max_seq_length": positions});
    let [at_pooling, at_modules, at_limits] = FILES.map(str::to_owned);
    [
        (at_pooling, pretty(&pooling)),
        (at_modules, pretty(&json!(modules))),
        (at_limits, pretty(&limits)),
    ]
}
