//! GPUs that do not record what they launch.

use std::sync::{Arc, OnceLock};

/// By the number of a GPU: why it does not record what it launches any more, once that is so.
#[derive(Debug, Default)]
pub(super) struct WithoutGraphs(pub(super) Vec<(u32, Arc<OnceLock<String>>)>);

impl WithoutGraphs {
    pub(super) fn of(gpus: &[u32]) -> Self {
        Self(gpus.iter().map(|&number| (number, Arc::default())).collect())
    }

    /// A sentence for each GPU of which that is so.
    pub(super) fn notices(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|(number, why)| {
            let why = why.get()?;
            Some(format!("cuda:{number} launches its kernels one by one, which is slower: {why}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_records_no_graphs_is_told_of() {
        let gpus = WithoutGraphs::of(&[0, 3]);
        assert_eq!(gpus.notices().count(), 0);
        gpus.0[1].1.set("no recording here".to_owned()).unwrap();
        let said = "cuda:3 launches its kernels one by one, which is slower: no recording here";
        assert_eq!(gpus.notices().collect::<Vec<_>>(), [said]);
    }
}
