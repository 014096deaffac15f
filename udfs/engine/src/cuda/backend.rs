//! [`Gpu`] as a device: each operation lies in the file of its kind.

use std::mem;

use zerocopy::IntoBytes;

use super::device::Gpu;
use super::driver::Driver;
use super::gemm::Matrix;
use super::input::{GpuInput, GpuTokens};
use super::kv_cache::Cache;
use super::memory::{Table, Tensor, Vector};
use super::metadata::GpuMetadata;
use super::sampler::GpuSampled;
use super::{attend, gemm, kv_write, rows, sampler};
use crate::backend::{
    Activation, Attend, AttentionMetadata, Backend, CacheShape, DeviceError, Embedding, Input,
    KvWrite, Linear, LoadWeights, MatrixSource, Norm, Pool, Precision, SamplerOutput,
    SamplingMetadata, Write,
};
use crate::checkpoint::StoredTensor;

impl<D: Driver> LoadWeights for Gpu<D> {
    type Matrix = Matrix<D::Memory>;
    type Vector = Vector<D::Memory>;
    type Table = Table<D::Memory>;

    fn matrix(
        &self,
        source: &MatrixSource,
        precision: Precision,
    ) -> Result<Self::Matrix, DeviceError> {
        Matrix::new(self.driver(), source, precision)
    }

    fn vector(&self, values: &[f32]) -> Result<Self::Vector, DeviceError> {
        Vector::new(self.driver(), values)
    }

    fn table(&self, rows: &StoredTensor) -> Result<Self::Table, DeviceError> {
        Table::new(self.driver(), rows)
    }
}

impl<D: Driver> Backend for Gpu<D> {
    type Tensor = Tensor<D::Memory>;
    type Cache = Cache<D::Memory>;
    type Input = GpuInput<D::Memory>;
    type Metadata = GpuMetadata<D::Memory>;
    type Tokens = GpuTokens<D::Memory>;
    type Sampled = GpuSampled<D::Download>;

    fn runs_ahead(&self) -> bool {
        true
    }

    fn tensor(&self, rows: usize, width: usize) -> Result<Self::Tensor, DeviceError> {
        Tensor::new(self.driver(), rows, width, self.has_halves())
    }

    fn cache(&self, shape: CacheShape) -> Result<Self::Cache, DeviceError> {
        // Keys and values are kept as this device computes, whatever the processor would do.
        Cache::new(self.driver(), CacheShape { precision: self.precision(), ..shape })
    }

    fn tokens(&self, rows: usize) -> Result<Self::Tokens, DeviceError> {
        GpuTokens::new(self.driver(), rows)
    }

    fn upload_input(
        &mut self,
        from: &Input,
        sampled: Option<&Self::Tokens>,
        to: &mut Self::Input,
    ) -> Result<(), DeviceError> {
        to.bring(self, from, sampled)
    }

    fn upload_metadata(
        &mut self,
        from: &AttentionMetadata,
        to: &mut Self::Metadata,
    ) -> Result<(), DeviceError> {
        to.bring(self, from)
    }

    fn embed(
        &mut self,
        rows: &Self::Input,
        embedding: &Embedding<Self>,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        rows::embed(self, rows, embedding, out)
    }

    fn norm(
        &mut self,
        x: &Self::Tensor,
        norm: &Norm<Self>,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        rows::norm(self, x, norm, out)
    }

    fn linear(
        &mut self,
        x: &Self::Tensor,
        weights: &Linear<Self>,
        activation: Activation,
        write: Write,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        gemm::linear(self, x, weights, activation, write, out)
    }

    fn glu(
        &mut self,
        x: &Self::Tensor,
        activation: Activation,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        rows::glu(self, x, activation, out)
    }

    fn write_kv(
        &mut self,
        qkv: &mut Self::Tensor,
        rows: &Self::Input,
        kv_write: &KvWrite<'_, Self>,
        cache: &mut Self::Cache,
        layer: usize,
    ) -> Result<(), DeviceError> {
        kv_write::write_kv(self, qkv, rows, kv_write, cache, layer)
    }

    fn attend(
        &mut self,
        q: &Self::Tensor,
        metadata: &Self::Metadata,
        attend: &Attend<'_, Self>,
        cache: &Self::Cache,
        layer: usize,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        attend::attend(self, q, metadata, attend, cache, layer, out)
    }

    fn index_select(
        &mut self,
        x: &Self::Tensor,
        rows: &[u32],
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        rows::index_select(self, x, rows, out)
    }

    fn sample(
        &mut self,
        x: &Self::Tensor,
        head: &Linear<Self>,
        scale: f32,
        sampling: &SamplingMetadata,
        tokens: Option<&mut Self::Tokens>,
    ) -> Result<Self::Sampled, DeviceError> {
        sampler::sample(self, x, head, scale, sampling, tokens)
    }

    fn read_sampled(
        &mut self,
        sampled: Self::Sampled,
        out: &mut SamplerOutput,
    ) -> Result<(), DeviceError> {
        sampled.read(self.driver(), out)
    }

    fn pool(
        &mut self,
        x: &Self::Tensor,
        metadata: &Self::Metadata,
        pool: Pool,
        normalize: bool,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        rows::pool(self, x, metadata, pool, normalize, out)
    }

    fn copy_blocks(
        &mut self,
        cache: &mut Self::Cache,
        pairs: &[(u32, u32)],
    ) -> Result<(), DeviceError> {
        kv_write::copy_blocks(self, cache, pairs)
    }

    fn download(&mut self, x: &Self::Tensor, out: &mut Vec<f32>) -> Result<(), DeviceError> {
        let (rows, width, stride) = (x.rows(), x.width(), x.stride());
        rows::floats(self, x)?;
        self.flush()?;
        let mut all = mem::take(out);
        all.clear();
        all.resize(rows * stride, 0.0);
        self.driver().download(x.floats(), 0, all.as_mut_bytes())?;
        for row in 1..rows {
            all.copy_within(row * stride..row * stride + width, row * width);
        }
        all.truncate(rows * width);
        *out = all;
        Ok(())
    }
}
