//! Reverse-mode differentiation: a tape of what was computed, and the gradients on the way back.
//!
//! candle has such a tape, but it accumulates every gradient with operations that allocate, and from
//! 65,536 numbers on spin on a pool that only one thread at a time can use. Here gradients are moved
//! where they are the first, and added in place where not. Matrix products are candle's.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};

use crate::ops::{Add, AddRows, Attend, Dropout, MlpShape, Norm, with_numbers};

/// The number of a value on the tape: `[rows, width]`, or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(pub usize);

/// Values in the order in which they were computed, the parameters first.
pub struct Tape {
    values: Vec<Tensor>,
    /// The backward function of each value that is no parameter; none if no gradients are needed.
    back: Option<Vec<(NodeId, Back)>>,
}

/// Adds the gradients of the operands of a value, given its own.
type Back = Box<dyn FnOnce(Tensor, &mut Gradients) -> Result<()>>;

/// Gradients of values, as far as they are known. No two share their numbers.
pub struct Gradients(Vec<Option<Tensor>>);

impl Gradients {
    fn add(&mut self, at: NodeId, grad: Tensor) -> Result<()> {
        match &self.0[at.0] {
            None => self.0[at.0] = Some(grad),
            Some(sum) => sum.inplace_op2(&grad, &Add)?,
        }
        Ok(())
    }

    fn add_rows(&mut self, at: NodeId, table: &Tensor, ids: &[u32], rows: &Tensor) -> Result<()> {
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

    /// Whether gradients can be computed.
    pub fn records(&self) -> bool {
        self.back.is_some()
    }

    pub fn value(&self, at: NodeId) -> &Tensor {
        &self.values[at.0]
    }

    fn push(
        &mut self,
        value: Tensor,
        back: impl FnOnce(Tensor, &mut Gradients) -> Result<()> + 'static,
    ) -> NodeId {
        let at = NodeId(self.values.len());
        self.values.push(value);
        if let Some(way) = &mut self.back {
            way.push((at, Box::new(back)));
        }
        at
    }

    /// The gradients of the first `parameters` values, given that of one; none of a value that takes no
    /// part.
    pub fn backward(
        self,
        of: NodeId,
        grad: Tensor,
        parameters: usize,
    ) -> Result<Vec<Option<Tensor>>> {
        let mut grads = Gradients(vec![None; self.values.len()]);
        grads.0[of.0] = Some(grad);
        for (at, back) in self.back.unwrap_or_default().into_iter().rev() {
            if let Some(grad) = grads.0[at.0].take() {
                back(grad, &mut grads)?;
            }
        }
        grads.0.truncate(parameters);
        Ok(grads.0)
    }

    pub fn rows(&mut self, table: NodeId, ids: &Arc<[u32]>) -> Result<NodeId> {
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
        Ok(self.push(matrix(rows, width)?, move |grad, grads| {
            grads.add_rows(table, &from, &ids, &grad)
        }))
    }

    /// `left + right`.
    pub fn add(&mut self, left: NodeId, right: NodeId) -> Result<NodeId> {
        let sum = self.value(left).copy()?;
        sum.inplace_op2(self.value(right), &Add)?;
        Ok(self.push(sum, move |grad, grads| {
            grads.add(left, grad.copy()?)?;
            grads.add(right, grad)
        }))
    }

    /// `left · right`.
    pub fn product(&mut self, left: NodeId, right: NodeId) -> Result<NodeId> {
        let (a, b) = (self.value(left).clone(), self.value(right).clone());
        Ok(self.push(a.matmul(&b)?, move |grad, grads| {
            grads.add(left, grad.matmul(&b.t()?)?)?;
            grads.add(right, a.t()?.matmul(&grad)?)
        }))
    }

    /// `scale left · rightᵀ`.
    pub fn product_transposed(
        &mut self,
        left: NodeId,
        right: NodeId,
        scale: f32,
    ) -> Result<NodeId> {
        let (a, b) = (scaled(self.value(left), scale)?, self.value(right).clone());
        Ok(self.push(a.matmul(&b.t()?)?, move |grad, grads| {
            grads.add(left, scaled(&grad.matmul(&b)?, scale)?)?;
            grads.add(right, grad.t()?.matmul(&a)?)
        }))
    }

    /// Rows, normalised.
    pub fn norm(&mut self, rows: NodeId, weight: NodeId, norm: Norm) -> Result<NodeId> {
        let (a, b) = (self.value(rows).clone(), self.value(weight).clone());
        let width = b.elem_count();
        let out = with_numbers(&a, |a| with_numbers(&b, |b| norm.forward(a, b)))??;
        Ok(self.push(matrix(out, width)?, move |grad, grads| {
            let (of_rows, of_weight) = with_numbers(&grad, |grad| {
                with_numbers(&a, |a| with_numbers(&b, |b| norm.backward(a, b, grad)))
            })???;
            grads.add(rows, matrix(of_rows, width)?)?;
            grads.add(weight, Tensor::from_vec(of_weight, width, &Device::Cpu)?)
        }))
    }

    /// The activation between the two matrices of an MLP.
    pub fn mlp(&mut self, rows: NodeId, mlp: MlpShape) -> Result<NodeId> {
        let a = self.value(rows).clone();
        let (_, width) = a.dims2()?;
        let out = with_numbers(&a, |a| mlp.forward(a))?;
        Ok(self.push(matrix(out, mlp.width)?, move |grad, grads| {
            let of_rows = with_numbers(&grad, |grad| with_numbers(&a, |a| mlp.backward(a, grad)))??;
            grads.add(rows, matrix(of_rows, width)?)
        }))
    }

    /// An attention; its operands are told where it is defined.
    pub fn attend(&mut self, first: NodeId, second: NodeId, attend: Attend) -> Result<NodeId> {
        let (a, b) = (self.value(first).clone(), self.value(second).clone());
        let (out, saved) = with_numbers(&a, |a| with_numbers(&b, |b| attend.forward(a, b)))???;
        let (shape_a, shape_b) = (a.shape().clone(), b.shape().clone());
        let out = matrix(out, attend.inner())?;
        Ok(self.push(out, move |grad, grads| {
            let table = shape_b.elem_count();
            let (of_a, of_b) = with_numbers(&grad, |grad| attend.backward(&saved, grad, table))??;
            grads.add(first, Tensor::from_vec(of_a, shape_a, &Device::Cpu)?)?;
            grads.add(second, Tensor::from_vec(of_b, shape_b, &Device::Cpu)?)
        }))
    }

    /// Dropout.
    pub fn dropout(&mut self, rows: NodeId, dropout: &Dropout) -> Result<NodeId> {
        let Some(drop) = dropout.next() else { return Ok(rows) };
        let a = self.value(rows).clone();
        let (_, width) = a.dims2()?;
        let out = matrix(with_numbers(&a, |a| drop.apply(a))?, width)?;
        Ok(self.push(out, move |grad, grads| {
            grads.add(rows, matrix(with_numbers(&grad, |grad| drop.apply(grad))?, width)?)
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
