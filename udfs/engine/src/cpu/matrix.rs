//! Weight matrices, packed once: panels of 32 outputs that a tile of rows is multiplied by.

use super::memory::Buffer;
use super::simd::LANES;
use crate::backend::{DeviceError, MatrixSource, Placement, Precision, check};
use crate::checkpoint::StoredTensor;

/// Outputs of a panel: two registers.
pub(super) const PANEL: usize = 2 * LANES;
/// Inputs whose products with bytes are added at once.
pub(super) const QUAD: usize = 4;
/// Rows below this size are taken for zeros in int8: f32 cannot divide 127 by them.
pub(super) const SMALLEST: f32 = 1e-35;
/// Above it, sums of products of bytes could overflow 32 bits.
const MAX_INT8_INPUTS: usize = 1 << 16;
/// Added and taken away again, it rounds what is small to the nearest whole number, halves to even:
/// as `round_ties_even`, which is a call for every number where the processor may be an old one.
const ROUND: f32 = 12_582_912.0;
/// What is added to the bytes of activations to make them unsigned.
const BYTE_OFFSET: i32 = 128;

/// `[n, k]`. The last panel is filled up with zeros.
#[derive(Debug)]
pub struct Matrix {
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) weights: Weights,
}

#[derive(Debug)]
pub(super) enum Weights {
    /// `[n / 32][k][32]`
    F32(Buffer<f32>),
    Int8(Int8),
}

#[derive(Debug)]
pub(super) struct Int8 {
    /// `[n / 32][k / 4][32][4]`, with zeros up to a whole four.
    pub(super) panels: Buffer<i8>,
    /// What a byte of each output is worth.
    pub(super) scales: Buffer<f32>,
    /// The sum of each output's bytes, times the 128 added to activations.
    pub(super) offsets: Buffer<i32>,
}

impl Matrix {
    /// Packs.
    pub(super) fn new(source: &MatrixSource, precision: Precision) -> Result<Self, DeviceError> {
        let sizes = source.blocks.iter().map(sizes).collect::<Result<Vec<_>, _>>()?;
        let k = check::inputs(sizes.iter().map(|&(_, k)| k), source)?;
        let n = sizes.iter().map(|&(n, _)| n).sum();
        let weights = match precision {
            Precision::F32 => Weights::F32(pack_f32(source, n, k)?),
            Precision::Bf16 => {
                return Err(DeviceError::Failed(
                    "the processor does not compute in bf16; use f32 or int8".to_owned(),
                ));
            }
            Precision::Int8 if k > MAX_INT8_INPUTS => {
                return Err(DeviceError::Failed(format!(
                    "a matrix with {k} inputs cannot be kept in int8 (at most {MAX_INT8_INPUTS}); \
                     use f32"
                )));
            }
            Precision::Int8 => Weights::Int8(pack_int8(source, n, k)?),
        };
        Ok(Self { n, k, weights })
    }
}

/// Outputs and inputs.
fn sizes(placement: &Placement) -> Result<(usize, usize), DeviceError> {
    let (Placement::OutputsByInputs(stored) | Placement::InputsByOutputs(stored)) = placement;
    match (placement, stored.shape()) {
        (Placement::OutputsByInputs(_), &[n, k]) | (Placement::InputsByOutputs(_), &[k, n]) => {
            Ok((n, k))
        }
        (_, shape) => Err(DeviceError::Failed(format!(
            "expected a weight matrix of 2 dimensions, found the shape {shape:?}"
        ))),
    }
}

fn pack_f32(source: &MatrixSource, n: usize, k: usize) -> Result<Buffer<f32>, DeviceError> {
    let mut panels = Buffer::new(n.next_multiple_of(PANEL) * k)?;
    each_output(source, k, |output, row| {
        let panel = &mut panels[output / PANEL * PANEL * k..][..PANEL * k];
        for (place, &weight) in panel[output % PANEL..].iter_mut().step_by(PANEL).zip(row) {
            *place = weight;
        }
    });
    Ok(panels)
}

fn pack_int8(source: &MatrixSource, n: usize, k: usize) -> Result<Int8, DeviceError> {
    let padded = n.next_multiple_of(PANEL);
    let panel_len = k.next_multiple_of(QUAD) * PANEL;
    let mut panels: Buffer<i8> = Buffer::new(padded / PANEL * panel_len)?;
    let mut scales = Buffer::new(padded)?;
    let mut offsets = Buffer::new(padded)?;
    each_output(source, k, |output, row| {
        let largest = row.iter().fold(0.0_f32, |largest, weight| largest.max(weight.abs()));
        let scale = largest / 127.0;
        let inverse = if largest > SMALLEST { 127.0 / largest } else { 0.0 };
        let panel = &mut panels[output / PANEL * panel_len..][..panel_len];
        let quads = panel[output % PANEL * QUAD..].chunks_mut(PANEL * QUAD);
        let mut sum = 0;
        for (quad, weights) in quads.zip(row.chunks(QUAD)) {
            for (place, &weight) in quad.iter_mut().zip(weights) {
                *place = (weight * inverse + ROUND - ROUND) as i8;
                sum += i32::from(*place);
            }
        }
        // Weights that are no numbers make every answer NaN, as they do in f32.
        let spoilt = row.iter().any(|weight| !weight.is_finite());
        scales[output] = if spoilt { f32::NAN } else { scale };
        offsets[output] = BYTE_OFFSET * sum;
    });
    Ok(Int8 { panels, scales, offsets })
}

/// Calls `take` with every output and its weights, in order.
fn each_output(source: &MatrixSource, k: usize, mut take: impl FnMut(usize, &[f32])) {
    let mut row = vec![0.0; k];
    let mut first = 0;
    for block in &source.blocks {
        match block {
            Placement::OutputsByInputs(stored) => {
                for output in 0..stored.rows() {
                    stored.row(output, &mut row);
                    take(first + output, &row);
                }
                first += stored.rows();
            }
            Placement::InputsByOutputs(stored) => {
                each_column(stored, &mut row, |output, row| take(first + output, row));
                first += stored.width();
            }
        }
    }
}

/// Calls `take` with every column of `stored`, in order.
fn each_column(stored: &StoredTensor, column: &mut [f32], mut take: impl FnMut(usize, &[f32])) {
    let all = stored.values();
    for output in 0..stored.width() {
        for (weight, row) in column.iter_mut().zip(all.chunks_exact(stored.width())) {
            *weight = row[output];
        }
        take(output, column);
    }
}
