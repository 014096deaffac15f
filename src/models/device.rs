//! Where a model computes: what the file asks for, and what the machine has.

use std::fmt;
use std::sync::{Arc, OnceLock};

use proofmill_engine::backend::Precision;
use proofmill_engine::model::{GemmBackend, GpuInfo, NoGpu};

use proofmill_pipeline::device::Device;
use proofmill_pipeline::models::{Dtype, Gemm, Model};

/// Finds out which GPUs there are.
pub type Probe = fn() -> Result<Vec<GpuInfo>, NoGpu>;

/// The GPUs of the machine. They are probed on the first request for one, and only once.
#[derive(Clone)]
pub struct Gpus {
    probe: Probe,
    found: Arc<OnceLock<Result<Vec<GpuInfo>, NoGpu>>>,
}

impl Gpus {
    /// What `probe` finds.
    pub fn new(probe: Probe) -> Self {
        Self { probe, found: Arc::default() }
    }

    /// All of them, or why there is none.
    pub fn all(&self) -> Result<&[GpuInfo], &NoGpu> {
        self.found.get_or_init(self.probe).as_deref()
    }
}

impl fmt::Debug for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gpus").field(&self.found.get()).finish()
    }
}

/// Where a model computes, and with which weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The GPUs it is on; none if it is on the processor.
    pub gpus: Vec<GpuInfo>,
    pub precision: Precision,
    pub gemm: GemmBackend,
}

/// Why a model can compute nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlacement {
    /// A GPU is requested, and there is none.
    #[error("`device: {device}` needs a GPU, but {why}")]
    NoGpu {
        device: Device,
        /// Why there is none.
        why: NoGpu,
    },
    /// The requested GPU does not exist.
    #[error("`device: {device}` does not exist, found {found}")]
    OtherGpus { device: Device, found: String },
    /// All GPUs are requested, and they are not alike.
    #[error(
        "`device: cuda` selects GPUs whose answers may differ in their last bits: {}",
        found.iter().map(with_capability).collect::<Vec<_>>().join(", ")
    )]
    UnlikeGpus { found: Vec<GpuInfo> },
    /// The processor cannot compute so.
    #[error(
        "`dtype: bf16` needs a GPU, but the model runs on the processor{}",
        why.as_ref().map(|no| format!(", as {}", no.why)).unwrap_or_default()
    )]
    Bf16 {
        /// Why it runs on the processor, if that was not requested.
        why: Option<NoGpu>,
    },
    /// The processor has no such library.
    #[error(
        "`gemm: cublaslt` needs a GPU, but the model runs on the processor{}",
        why.as_ref().map(|no| format!(", as {}", no.why)).unwrap_or_default()
    )]
    GemmOfNoGpu {
        /// Why it runs on the processor, if that was not requested.
        why: Option<NoGpu>,
    },
    /// The library multiplies otherwise.
    #[error("`gemm: cublaslt` works only with `dtype: bf16`")]
    GemmOfOtherType,
}

impl NoPlacement {
    /// The setting that cannot be.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NoGpu { .. } | Self::OtherGpus { .. } | Self::UnlikeGpus { .. } => "device",
            Self::Bf16 { .. } => "dtype",
            Self::GemmOfNoGpu { .. } | Self::GemmOfOtherType => "gemm",
        }
    }

    /// What to write instead.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoGpu { .. } => {
                "write `device: auto` to use a GPU if there is one, or `device: cpu`"
            }
            Self::OtherGpus { .. } => "name one of these, or write `device: cuda` for all",
            Self::UnlikeGpus { .. } => {
                "name one with `device: cuda:N`, or write `device: auto` for those of the highest \
                 compute capability"
            }
            Self::Bf16 { .. } => {
                "write `dtype: f32` or `dtype: int8`, or run it on a GPU with `device: cuda`"
            }
            Self::GemmOfNoGpu { .. } => {
                "leave it out, or run the model on a GPU with `device: cuda`"
            }
            Self::GemmOfOtherType => "leave one of the two out",
        }
    }
}

impl Placement {
    /// Where `model`, which lies in a folder, computes on a machine with these GPUs. They are looked
    /// for only if it may use them.
    pub fn of(model: &Model, gpus: &Gpus) -> Result<Self, NoPlacement> {
        let device = model.device.unwrap_or_default();
        let (gpus, why) = match device {
            Device::Cpu => (Vec::new(), None),
            Device::Auto => match gpus.all() {
                Ok(all) => (GpuInfo::newest(all), None),
                Err(why) => (Vec::new(), Some(why.clone())),
            },
            Device::Cuda => {
                let all = at_least_one(device, gpus)?.to_vec();
                if GpuInfo::newest(&all).len() < all.len() {
                    return Err(NoPlacement::UnlikeGpus { found: all });
                }
                (all, None)
            }
            Device::CudaAt(number) => {
                let all = at_least_one(device, gpus)?;
                let one = all.iter().find(|gpu| gpu.number == number);
                let found = || all.iter().map(name_of).collect::<Vec<_>>().join(", ");
                let one = one.ok_or_else(|| NoPlacement::OtherGpus { device, found: found() })?;
                (vec![one.clone()], None)
            }
        };
        let precision = match (model.dtype, gpus.is_empty()) {
            (Some(Dtype::F32), _) | (None, true) => Precision::F32,
            (Some(Dtype::Int8), _) => Precision::Int8,
            (Some(Dtype::Bf16) | None, false) => Precision::Bf16,
            (Some(Dtype::Bf16), true) => return Err(NoPlacement::Bf16 { why }),
        };
        let gemm = match (model.gemm.unwrap_or_default(), precision) {
            (Gemm::Builtin, _) => GemmBackend::Builtin,
            (Gemm::Cublaslt, _) if gpus.is_empty() => {
                return Err(NoPlacement::GemmOfNoGpu { why });
            }
            (Gemm::Cublaslt, Precision::Bf16) => GemmBackend::CublasLt,
            (Gemm::Cublaslt, Precision::F32 | Precision::Int8) => {
                return Err(NoPlacement::GemmOfOtherType);
            }
        };
        Ok(Self { gpus, precision, gemm })
    }

    /// The kind of arithmetic, which an answer depends on; on which GPU of its compute capability or on
    /// how many it does not.
    pub fn class(&self) -> String {
        match self.gpus.first().map(|gpu| gpu.capability) {
            None => "cpu".to_owned(),
            Some((major, minor)) => format!("cuda {major}.{minor}"),
        }
    }

    /// How weights are kept, as the file says it.
    pub fn dtype(&self) -> &'static str {
        match self.precision {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
        }
    }
}

/// `cuda:0 NVIDIA H200`.
pub fn name_of(gpu: &GpuInfo) -> String {
    format!("cuda:{} {}", gpu.number, gpu.name)
}

fn with_capability(gpu: &GpuInfo) -> String {
    let (major, minor) = gpu.capability;
    format!("{} (compute capability {major}.{minor})", name_of(gpu))
}

fn at_least_one(device: Device, gpus: &Gpus) -> Result<&[GpuInfo], NoPlacement> {
    gpus.all().map_err(|why| NoPlacement::NoGpu { device, why: why.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(number: u32) -> GpuInfo {
        GpuInfo { number, name: format!("G{number}"), capability: (9, 0), bytes: 1 << 34 }
    }

    fn unlike() -> Gpus {
        Gpus::new(|| Ok(vec![GpuInfo { capability: (8, 9), ..gpu(0) }, gpu(1), gpu(2)]))
    }

    fn two() -> Gpus {
        Gpus::new(|| Ok(vec![gpu(0), gpu(3)]))
    }

    fn none() -> Gpus {
        Gpus::new(|| Err(NoGpu { why: "there is no driver".to_owned(), help: Some("install one") }))
    }

    fn model(settings: &str) -> Model {
        let all = format!("{{\"path\": \"m\"{settings}}}");
        serde_json::from_str(&all).unwrap()
    }

    fn in_one_line(error: NoPlacement) -> String {
        format!("{error}; {}", error.help())
    }

    fn place(settings: &str, gpus: &Gpus) -> Result<(Vec<u32>, &'static str), String> {
        let place = Placement::of(&model(settings), gpus).map_err(in_one_line)?;
        Ok((place.gpus.iter().map(|gpu| gpu.number).collect(), place.dtype()))
    }

    #[test]
    fn all_gpus_are_used_where_there_are_any() {
        for auto in ["", r#", "device": "auto""#, r#", "device": "cuda""#] {
            assert_eq!(place(auto, &two()), Ok((vec![0, 3], "bf16")), "{auto}");
        }
        assert_eq!(
            place(r#", "device": "cuda:3", "dtype": "int8""#, &two()),
            Ok((vec![3], "int8"))
        );
        assert_eq!(place(r#", "dtype": "f32""#, &two()), Ok((vec![0, 3], "f32")));
        assert_eq!(place("", &none()), Ok((vec![], "f32")));
        assert_eq!(place(r#", "device": "cpu""#, &two()), Ok((vec![], "f32")));
    }

    #[test]
    fn a_model_runs_on_gpus_of_one_compute_capability() {
        assert_eq!(place("", &unlike()), Ok((vec![1, 2], "bf16")));
        assert_eq!(place(r#", "device": "cuda:0""#, &unlike()), Ok((vec![0], "bf16")));
        let error = place(r#", "device": "cuda""#, &unlike()).unwrap_err();
        assert!(error.contains("cuda:0 G0 (compute capability 8.9), cuda:1 G1 ("), "{error}");
        assert!(error.contains("; name one with `device: cuda:N`"), "{error}");
        let class =
            |settings: &str, gpus: &Gpus| Placement::of(&model(settings), gpus).unwrap().class();
        assert_eq!(class("", &unlike()), "cuda 9.0");
        assert_eq!(class(r#", "device": "cuda:0""#, &unlike()), "cuda 8.9");
        assert_eq!(class("", &none()), "cpu");
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is() {
        let error = place(r#", "device": "cuda""#, &none()).unwrap_err();
        assert!(error.starts_with("`device: cuda` needs a GPU, but there is no driver; "));
        let error = place(r#", "device": "cuda:1""#, &two()).unwrap_err();
        assert!(error.contains("`device: cuda:1` does not exist, found cuda:0 G0, cuda:3 G3; "));
        let error = place(r#", "dtype": "bf16""#, &none()).unwrap_err();
        assert!(error.contains("runs on the processor, as there is no driver; write"), "{error}");
        let error = place(r#", "dtype": "bf16", "device": "cpu""#, &two()).unwrap_err();
        assert!(error.contains("runs on the processor; write"), "{error}");
    }

    #[test]
    fn a_library_multiplies_only_where_it_can() {
        let gemm = |settings: &str, gpus: &Gpus| {
            let settings = format!(r#", "gemm": "cublaslt"{settings}"#);
            let place = Placement::of(&model(&settings), gpus).map_err(in_one_line);
            place.map(|place| place.gemm)
        };
        assert_eq!(gemm("", &two()), Ok(GemmBackend::CublasLt));
        assert_eq!(gemm(r#", "dtype": "bf16""#, &two()), Ok(GemmBackend::CublasLt));
        let error = gemm(r#", "dtype": "int8""#, &two()).unwrap_err();
        assert!(error.contains("only with `dtype: bf16`; leave one"), "{error}");
        let error = gemm("", &none()).unwrap_err();
        assert!(error.contains("on the processor, as there is no driver; leave"), "{error}");
        let error = gemm(r#", "device": "cpu""#, &two()).unwrap_err();
        assert!(error.contains("runs on the processor; leave"), "{error}");
        let builtin =
            Placement::of(&model(r#", "gemm": "builtin", "dtype": "f32""#), &none()).unwrap();
        assert_eq!(builtin.gemm, GemmBackend::Builtin);
    }

    #[test]
    fn gpus_are_not_probed_unless_they_are_requested() {
        let never = Gpus::new(|| panic!("somebody looked"));
        assert_eq!(place(r#", "device": "cpu""#, &never), Ok((vec![], "f32")));
    }
}
