//! Where a model on this machine computes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Where a model on this machine computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// All GPUs if there are any, or else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// All GPUs.
    Cuda,
    /// The GPU of this number.
    CudaAt(u32),
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `auto`, `cpu`, `cuda` or `cuda:N` with the number N of a GPU, found `{0}`")]
pub struct NotADevice(String);

impl FromStr for Device {
    type Err = NotADevice;

    fn from_str(text: &str) -> Result<Self, NotADevice> {
        let wrong = || NotADevice(text.to_owned());
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            _ => {
                let number = text.strip_prefix("cuda:").ok_or_else(wrong)?;
                let digits = number.bytes().all(|byte| byte.is_ascii_digit());
                let number = number.parse().ok().filter(|_| digits);
                number.map(Self::CudaAt).ok_or_else(wrong)
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda => f.write_str("cuda"),
            Self::CudaAt(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = NotADevice;

    fn try_from(text: String) -> Result<Self, NotADevice> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

impl JsonSchema for Device {
    fn schema_name() -> Cow<'static, str> {
        "Device".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Where a model on this machine computes.",
            "type": "string",
            "pattern": "^(auto|cpu|cuda(:[0-9]{1,9})?)$",
            "x-device": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_as_it_is_written() {
        for text in ["auto", "cpu", "cuda", "cuda:0", "cuda:12"] {
            assert_eq!(text.parse::<Device>().unwrap().to_string(), text);
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "CPU", "cuda:99999999999"]
        {
            assert_eq!(text.parse::<Device>(), Err(NotADevice(text.to_owned())));
        }
    }
}
