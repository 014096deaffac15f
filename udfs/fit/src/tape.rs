//! What was computed, so that slopes can be found on the way back.
//!
//! candle has such a tape, but it adds up every slope with operations that allocate, and from 65,536
//! numbers on spin on a pool that only one thread at a time can use. Here slopes are moved where they
//! are the first, and added in place where not. Products are candle's.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};

use crate::ops::{Add, AddRows, Attend, Dropout, Feed, Norm, with_numbers};

/// A value: `[rows, width]`, or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub usize);

/// Values in the order in which they were computed, the parameters first.
pub struct Tape {
    values: Vec<Tensor>,
    /// The way back from each value that is no parameter; none if nobody goes it.
    back: Option<Vec<(At, Back)>>,
}

/// Adds the slopes of what a value was made of, given its own.
type Back = Box<dyn FnOnce(Tensor, &mut Slopes) -> Result<()>>;

/// Slopes of values, as far as they are known. No two share their numbers.
pub struct Slopes(Vec<Option<Tensor>>);

impl Slopes {
    fn add(&mut self, at: At, slope: Tensor) -> Result<()> {
        match &self.0[at.0] {
            None => self.0[at.0] = Some(slope),
            Some(sum) => sum.inplace_op2(&slope, &Add)?,
        }
        Ok(())
    }

    fn add_rows(&mut self, at: At, table: &Tensor, ids: &[u32], rows: &Tensor) -> Result<()> {
        let sum = match self.0[at.0].take() {
            None => Tensor::zeros(table.shape(), DType::F32, &Device::Cpu)?,
            Some(sum) => sum,
        };
        sum.inplace_op2(rows, &AddRows(ids))?;
        self.0[at.0] = Some(sum);
        Ok(())
    }
}

impl Tape {
    /// Begins with these parameters.
    pub fn new(parameters: &[Tensor], back: bool) -> Self {
        Self { values: parameters.to_vec(), back: back.then(Vec::new) }
    }

    /// Whether there is a way back.
    pub fn goes_back(&self) -> bool {
        self.back.is_some()
    }

    pub fn value(&self, at: At) -> &Tensor {
        &self.values[at.0]
    }

    fn push(
        &mut self,
        value: Tensor,
        back: impl FnOnce(Tensor, &mut Slopes) -> Result<()> + 'static,
    ) -> At {
        let at = At(self.values.len());
        self.values.push(value);
        if let Some(way) = &mut self.back {
            way.push((at, Box::new(back)));
        }
        at
    }

    /// The slopes of the first `parameters` values, given that of one.
    pub fn slopes(self, of: At, slope: Tensor, parameters: usize) -> Result<Vec<Option<Tensor>>> {
        let mut slopes = Slopes(vec![None; self.values.len()]);
        slopes.0[of.0] = Some(slope);
        for (at, back) in self.back.unwrap_or_default().into_iter().rev() {
            if let Some(slope) = slopes.0[at.0].take() {
                back(slope, &mut slopes)?;
            }
        }
        slopes.0.truncate(parameters);
        Ok(slopes.0)
    }

    pub fn rows(&mut self, table: At, ids: &Arc<[u32]>) -> Result<At> {
        let from = self.value(table).clone();
        let (_, width) = from.dims2()?;
        let rows = with_numbers(&from, |table| {
            let mut rows = Vec::with_capacity(ids.len() * width);
            for &id in &ids[..] {
                rows.extend_from_slice(&table[id as usize * width..][..width]);
            }
            rows
        })?;
        let ids = Arc::clone(ids);
        Ok(self.push(matrix(rows, width)?, move |slope, slopes| {
            slopes.add_rows(table, &from, &ids, &slope)
        }))
    }

    /// `left + right`.
    pub fn add(&mut self, left: At, right: At) -> Result<At> {
        let sum = self.value(left).copy()?;
        sum.inplace_op2(self.value(right), &Add)?;
        Ok(self.push(sum, move |slope, slopes| {
            slopes.add(left, slope.copy()?)?;
            slopes.add(right, slope)
        }))
    }

    /// `left · right`.
    pub fn product(&mut self, left: At, right: At) -> Result<At> {
        let (a, b) = (self.value(left).clone(), self.value(right).clone());
        Ok(self.push(a.matmul(&b)?, move |slope, slopes| {
            slopes.add(left, slope.matmul(&b.t()?)?)?;
            slopes.add(right, a.t()?.matmul(&slope)?)
        }))
    }

    /// `scale left · rightᵀ`.
    pub fn product_across(&mut self, left: At, right: At, scale: f32) -> Result<At> {
        let (a, b) = (scaled(self.value(left), scale)?, self.value(right).clone());
        Ok(self.push(a.matmul(&b.t()?)?, move |slope, slopes| {
            slopes.add(left, scaled(&slope.matmul(&b)?, scale)?)?;
            slopes.add(right, slope.t()?.matmul(&a)?)
        }))
    }

    /// Rows, normalised.
    pub fn norm(&mut self, rows: At, weight: At, norm: Norm) -> Result<At> {
        let (a, b) = (self.value(rows).clone(), self.value(weight).clone());
        let width = b.elem_count();
        let out = with_numbers(&a, |a| with_numbers(&b, |b| norm.forward(a, b)))??;
        Ok(self.push(matrix(out, width)?, move |slope, slopes| {
            let (of_rows, of_weight) = with_numbers(&slope, |slope| {
                with_numbers(&a, |a| with_numbers(&b, |b| norm.backward(a, b, slope)))
            })???;
            slopes.add(rows, matrix(of_rows, width)?)?;
            slopes.add(weight, Tensor::from_vec(of_weight, width, &Device::Cpu)?)
        }))
    }

    /// What stands between the two matrices of a feed-forward part.
    pub fn feed(&mut self, rows: At, feed: Feed) -> Result<At> {
        let a = self.value(rows).clone();
        let (_, width) = a.dims2()?;
        let out = with_numbers(&a, |a| feed.forward(a))?;
        Ok(self.push(matrix(out, feed.width)?, move |slope, slopes| {
            let of_rows =
                with_numbers(&slope, |slope| with_numbers(&a, |a| feed.backward(a, slope)))??;
            slopes.add(rows, matrix(of_rows, width)?)
        }))
    }

    /// An attention; its operands are told where it is defined.
    pub fn attend(&mut self, first: At, second: At, attend: Attend) -> Result<At> {
        let (a, b) = (self.value(first).clone(), self.value(second).clone());
        let (out, saved) = with_numbers(&a, |a| with_numbers(&b, |b| attend.forward(a, b)))???;
        let (shape_a, shape_b) = (a.shape().clone(), b.shape().clone());
        let out = matrix(out, attend.inner())?;
        Ok(self.push(out, move |slope, slopes| {
            let table = shape_b.elem_count();
            let (of_a, of_b) =
                with_numbers(&slope, |slope| attend.backward(&saved, slope, table))??;
            slopes.add(first, Tensor::from_vec(of_a, shape_a, &Device::Cpu)?)?;
            slopes.add(second, Tensor::from_vec(of_b, shape_b, &Device::Cpu)?)
        }))
    }

    /// Numbers, some of them dropped.
    pub fn thin(&mut self, rows: At, dropout: &Dropout) -> Result<At> {
        let Some(drop) = dropout.next() else { return Ok(rows) };
        let a = self.value(rows).clone();
        let (_, width) = a.dims2()?;
        let out = matrix(with_numbers(&a, |a| drop.thin(a))?, width)?;
        Ok(self.push(out, move |slope, slopes| {
            slopes.add(rows, matrix(with_numbers(&slope, |slope| drop.thin(slope))?, width)?)
        }))
    }
}

fn scaled(tensor: &Tensor, scale: f32) -> Result<Tensor> {
    let values = with_numbers(tensor, |values| values.iter().map(|it| it * scale).collect())?;
    Tensor::from_vec::<_, f32>(values, tensor.shape(), &Device::Cpu)
}

fn matrix(values: Vec<f32>, width: usize) -> Result<Tensor> {
    let rows = values.len() / width;
    Tensor::from_vec(values, (rows, width), &Device::Cpu)
}
