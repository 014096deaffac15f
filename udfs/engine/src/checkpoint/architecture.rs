//! Which family of models a folder belongs to.

use serde::{Deserialize, Serialize};

use super::{Config, LoadError};

/// Families of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// T5 and Flan-T5.
    T5,
    Bart,
    /// BERT and its sentence encoders.
    Bert,
    /// Two BERTs, of which the second writes.
    EncoderDecoder,
    /// The question and the context encoder of dense passage retrieval: BERT without a pooler.
    Dpr,
    /// RoBERTa and its sentence encoders.
    Roberta,
    /// RoBERTa of many languages; its checkpoints are read as RoBERTa's.
    XlmRoberta,
    Opt,
    /// GPT-2.
    Gpt2,
    /// Llama 2 and 3.
    Llama,
    Mistral,
    /// Qwen2 and Qwen2.5.
    Qwen2,
    /// Qwen3.
    Qwen3,
}

impl Family {
    const ALL: [Self; 13] = [
        Self::T5,
        Self::Bart,
        Self::Bert,
        Self::EncoderDecoder,
        Self::Dpr,
        Self::Roberta,
        Self::XlmRoberta,
        Self::Opt,
        Self::Gpt2,
        Self::Llama,
        Self::Mistral,
        Self::Qwen2,
        Self::Qwen3,
    ];

    /// Its `model_type` in `config.json`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::T5 => "t5",
            Self::Bart => "bart",
            Self::Bert => "bert",
            Self::EncoderDecoder => "encoder-decoder",
            Self::Dpr => "dpr",
            Self::Roberta => "roberta",
            Self::XlmRoberta => "xlm-roberta",
            Self::Opt => "opt",
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// The classes of transformers whose checkpoints can be loaded, the usual one first. Classes with
    /// a head of another kind (tokens, spans and the like) are not among them: their answer would
    /// lack the head.
    pub fn architectures(self) -> &'static [&'static str] {
        match self {
            Self::T5 => &["T5ForConditionalGeneration"],
            Self::Bart => &["BartForConditionalGeneration", "BartModel"],
            Self::Bert => &[
                "BertModel",
                "BertForMaskedLM",
                "BertForPreTraining",
                "BertForSequenceClassification",
            ],
            Self::Dpr => &["DPRQuestionEncoder", "DPRContextEncoder"],
            Self::Roberta => {
                &["RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification"]
            }
            Self::XlmRoberta => {
                &["XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification"]
            }
            Self::EncoderDecoder => &["EncoderDecoderModel"],
            Self::Opt => &["OPTForCausalLM", "OPTModel"],
            Self::Gpt2 => &["GPT2LMHeadModel", "GPT2Model"],
            Self::Llama => &["LlamaForCausalLM", "LlamaModel"],
            Self::Mistral => &["MistralForCausalLM", "MistralModel"],
            Self::Qwen2 => &["Qwen2ForCausalLM", "Qwen2Model"],
            Self::Qwen3 => &["Qwen3ForCausalLM", "Qwen3Model"],
        }
    }

    /// The family and the class that `config.json` names.
    pub fn parse(config: &Config) -> Result<(Self, String), LoadError> {
        let unknown =
            |found: String| LoadError::Architecture { file: config.file().to_owned(), found };
        let by_type = config.text("model_type")?;
        let named = config.texts("architectures")?;
        let Some(&name) = named.first() else {
            let family = Self::ALL.into_iter().find(|family| by_type == Some(family.model_type()));
            return match (family, by_type) {
                (Some(family), _) => Ok((family, family.architectures()[0].to_owned())),
                (None, Some(found)) => Err(unknown(format!("model type `{found}`"))),
                (None, None) => Err(config.refuse("model_type", "the type of the model")),
            };
        };
        let family = Self::ALL
            .into_iter()
            .find(|family| family.architectures().contains(&name))
            .ok_or_else(|| unknown(format!("architecture `{name}`")))?;
        match by_type {
            Some(found) if found != family.model_type() => Err(config.refuse(
                "model_type",
                format!("\"{}\" for architecture {name}", family.model_type()),
            )),
            _ => Ok((family, name.to_owned())),
        }
    }
}
