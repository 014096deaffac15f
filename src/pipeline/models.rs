//! Settings of `models`: what `generate`, `score`, `embed` and the like may name.

use std::fmt::{self, Display};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use proofmill_settings::endpoint::{Api, Budget, Capabilities, Prices};

/// A model: a folder on this machine (`path`), or an endpoint that speaks OpenAI's protocol (`url`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["path"]}, {"required": ["url"]}]))]
pub struct Model {
    /// A folder in the Hugging Face layout: `config.json`, `*.safetensors`, `tokenizer.json`.
    pub path: Option<String>,
    /// Where it computes: `cpu`, `cuda` (all GPUs), `cuda:N` (one), or `auto`: all GPUs if there are
    /// any, or else the processor; `auto` when absent. Only with `path`, as the next eight.
    pub device: Option<Device>,
    /// How weights are stored and multiplied; `f32` on the processor and `bf16` on a GPU when absent.
    pub dtype: Option<Dtype>,
    /// GEMM implementation on a GPU with `bf16`; `builtin` when absent.
    pub gemm: Option<Gemm>,
    /// Threads on the processor, each with its own batch; as many as cores when absent. A GPU has
    /// one.
    #[schemars(range(min = 1, max = 1024))]
    pub workers: Option<u32>,
    /// Tokens of one pass of a worker, and of the longest text that is read in one piece; when absent 2048,
    /// for an encoder alone 512, on a GPU 4096.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub max_batch_tokens: Option<u32>,
    /// Maximum number of answers in flight per worker.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_num_seqs: Option<u32>,
    /// KV cache of all workers in MiB; 1024 on the processor and most of a GPU's memory when absent.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub kv_cache_mib: Option<u32>,
    /// Which rows of a text make its vector; as the folder says when absent.
    pub pooling: Option<Pooling>,
    /// Whether vectors are divided by their length; needs `pooling`.
    pub normalize: Option<bool>,
    /// Base address, such as `http://localhost:8000/v1`.
    pub url: Option<String>,
    /// The model's name at the endpoint. Only with `url`, as the next twelve.
    pub model: Option<String>,
    /// API for text requests; `completions` when absent.
    pub api: Option<Api>,
    /// System message before every prompt; only for `chat`.
    pub system: Option<String>,
    /// Capabilities of the endpoint beyond the minimum of the protocol.
    pub capabilities: Option<Capabilities>,
    /// Name of the environment variable that holds the key. The key itself is never written.
    pub api_key_env: Option<String>,
    /// Requests in flight at a time; 8 when absent.
    #[schemars(range(min = 1, max = 4096))]
    pub concurrency: Option<u32>,
    /// Maximum number of requests per minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u32>,
    /// Maximum number of tokens per minute.
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<u32>,
    /// Timeout of one answer in seconds; 600 when absent.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u32>,
    /// Maximum number of retries of a request; 6 when absent.
    #[schemars(range(min = 0, max = 100))]
    pub retries: Option<u32>,
    /// The most that one command may spend on it; what the ledger replays costs nothing.
    pub budget: Option<Budget>,
    /// Price per million tokens, in any currency.
    pub prices: Option<Prices>,
    /// A word that tells askings of one model apart: with another word all requests are sent anew, and the recorded
    /// answers of each are kept. With `path` or `url`.
    #[schemars(length(min = 1, max = 100))]
    pub generation: Option<String>,
}

/// How weights are stored and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32-bit floats.
    F32,
    /// 16-bit floats with 32-bit sums: half the memory; only on a GPU.
    Bf16,
    /// 8-bit integers: smaller and faster, a little less exact.
    Int8,
}

/// GEMM implementation on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gemm {
    /// Built-in kernels.
    #[default]
    Builtin,
    /// NVIDIA's library cuBLASLt, where it is installed.
    Cublaslt,
}

/// Which rows of a text make its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean of all.
    Mean,
    /// The first.
    Cls,
    /// The last.
    Last,
    /// The first, through BERT's pooler.
    Pooler,
}

/// Where answers of endpoints come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// From the ledger, where it has them.
    #[default]
    Ledger,
    /// From the endpoints, all of them, as a generation of their own: new answers and new tables, beside the recorded ones.
    All,
    /// From the ledger; and a sample of this share, `2%`, is requested once more and compared.
    Sample(Share),
}

/// A share above nothing and up to all, in parts of a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Share(u32);

/// What one whole is.
const WHOLE: f64 = 1e6;

impl Share {
    /// As a number from 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / WHOLE
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let parts = number.map(|number| (number / 100.0 * WHOLE).round());
        let parts = parts.filter(|parts| (1.0..=WHOLE).contains(parts));
        let wrong = "expected a share above 0 % and up to 100 %, such as `10%`";
        parts.map(|parts| Self(parts as u32)).ok_or_else(|| wrong.to_owned())
    }
}

impl TryFrom<String> for Share {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Share> for String {
    fn from(share: Share) -> Self {
        format!("{}%", share.fraction() * 100.0)
    }
}

impl Ask {
    /// Whether recorded answers count.
    pub fn is_of_ledger(&self) -> bool {
        *self == Self::Ledger
    }
}

impl Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger => f.write_str("ledger"),
            Self::All => f.write_str("all"),
            Self::Sample(share) => write!(f, "sample:{}", String::from(*share)),
        }
    }
}

impl FromStr for Ask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.split_once(':')) {
            ("ledger", _) => Ok(Self::Ledger),
            ("all", _) => Ok(Self::All),
            (_, Some(("sample", share))) => share.parse().map(Self::Sample),
            _ => Err("expected `ledger`, `all` or a sample such as `sample:2%`".to_owned()),
        }
    }
}

impl Model {
    /// Settings that mean nothing beside `path` or `url`, whichever is there. Where both are, or
    /// neither, that is what is wrong.
    pub fn idle(&self) -> Vec<&'static str> {
        let local = [
            ("device", self.device.is_some()),
            ("dtype", self.dtype.is_some()),
            ("gemm", self.gemm.is_some()),
            ("workers", self.workers.is_some()),
            ("max_batch_tokens", self.max_batch_tokens.is_some()),
            ("max_num_seqs", self.max_num_seqs.is_some()),
            ("kv_cache_mib", self.kv_cache_mib.is_some()),
            ("pooling", self.pooling.is_some()),
            ("normalize", self.normalize.is_some()),
        ];
        let remote = [
            ("model", self.model.is_some()),
            ("api", self.api.is_some()),
            ("system", self.system.is_some()),
            ("capabilities", self.capabilities.is_some()),
            ("api_key_env", self.api_key_env.is_some()),
            ("concurrency", self.concurrency.is_some()),
            ("requests_per_minute", self.requests_per_minute.is_some()),
            ("tokens_per_minute", self.tokens_per_minute.is_some()),
            ("timeout_seconds", self.timeout_seconds.is_some()),
            ("retries", self.retries.is_some()),
            ("budget", self.budget.is_some()),
            ("prices", self.prices.is_some()),
        ];
        let idle = match (&self.path, &self.url) {
            (Some(_), None) => &remote[..],
            (None, Some(_)) => &local[..],
            (Some(_), Some(_)) | (None, None) => &[],
        };
        idle.iter().filter(|(_, there)| *there).map(|(key, _)| *key).collect()
    }
}
