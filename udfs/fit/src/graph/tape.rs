//! Reverse-mode differentiation: a tape of what was computed, and the gradients on the way back.
//!
//! Values stay on the tape, and each knows which step made it of which others. Gradients are moved where they are
//! the first, and added in place where not. Products are those of `proofmill-gemm`, whose sums have one order.

use std::sync::Arc;

use proofmill_gemm::{Multiplier, Operand, OutOfMemory, Sums};

use crate::graph::ops::{Attend, Drop, Dropout, LayerNorm, MlpShape, Norm, Pool, Saved};

/// The number of a value on the tape: `[rows, width]`, or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(pub usize);

/// A parameter as the tape sees it.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Numbers of a row.
    pub width: usize,
    pub numbers: &'a [f32],
}

/// Values in the order in which they were computed, the parameters first.
pub struct Tape<'a> {
    parameters: &'a [Given<'a>],
    values: Vec<Value>,
    multiplier: Multiplier,
    /// Whether gradients will be requested.
    records: bool,
}

struct Value {
    width: usize,
    numbers: Vec<f32>,
    step: Step,
}

/// What made a value.
enum Step {
    /// Rows of a table by their numbers.
    Rows {
        table: NodeId,
        ids: Arc<[u32]>,
    },
    Add {
        left: NodeId,
        right: NodeId,
    },
    /// `left · right + bias`
    Product {
        left: NodeId,
        right: NodeId,
        bias: Option<NodeId>,
    },
    /// `left · rightᵀ + bias`
    ProductTransposed {
        left: NodeId,
        right: NodeId,
        bias: Option<NodeId>,
    },
    Scale {
        rows: NodeId,
        scale: f32,
    },
    Norm {
        rows: NodeId,
        weight: NodeId,
        norm: Norm,
    },
    LayerNorm {
        rows: NodeId,
        weight: NodeId,
        bias: NodeId,
        norm: LayerNorm,
    },
    Mlp {
        rows: NodeId,
        mlp: MlpShape,
    },
    Attend {
        first: NodeId,
        other: Option<NodeId>,
        table: Option<NodeId>,
        attend: Box<Attend>,
        saved: Saved,
    },
    Dropout {
        rows: NodeId,
        drop: Drop,
    },
    Pool {
        rows: NodeId,
        pool: Pool,
        lengths: Arc<[usize]>,
    },
}

/// The gradient of a parameter that takes part.
#[derive(Default)]
pub struct Gradient {
    /// Of all its numbers; empty if only rows of it were read.
    pub dense: Vec<f32>,
    /// Of rows of it: their numbers, and `[ids, width]`.
    pub rows: Vec<(Arc<[u32]>, Vec<f32>)>,
}

/// Gradients of values, as far as they are known.
struct Gradients {
    parameters: Vec<Gradient>,
    values: Vec<Vec<f32>>,
}

impl Gradients {
    fn of(&mut self, at: NodeId) -> &mut Vec<f32> {
        let parameters = self.parameters.len();
        match at.0.checked_sub(parameters) {
            None => &mut self.parameters[at.0].dense,
            Some(value) => &mut self.values[value],
        }
    }

    fn add(&mut self, at: NodeId, grad: Vec<f32>) {
        let sum = self.of(at);
        if sum.is_empty() {
            *sum = grad;
        } else {
            add(sum, &grad);
        }
    }

    /// Adds a product: into what is there, if anything is.
    fn add_product(
        &mut self,
        at: NodeId,
        multiplier: &mut Multiplier,
        (a, b): (Operand<'_>, Operand<'_>),
    ) -> Result<(), OutOfMemory> {
        let sum = self.of(at);
        if sum.is_empty() {
            *sum = product(multiplier, a, b)?;
            return Ok(());
        }
        multiplier.multiply(a, b, Sums::FromOut, sum)
    }
}

/// Adds numbers to others.
pub fn add(sums: &mut [f32], values: &[f32]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

/// The sums of all rows.
fn column_sums(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sums = vec![0.0; width];
    rows.chunks_exact(width).for_each(|row| add(&mut sums, row));
    sums
}

fn product(
    multiplier: &mut Multiplier,
    a: Operand<'_>,
    b: Operand<'_>,
) -> Result<Vec<f32>, OutOfMemory> {
    let mut out = vec![0.0; a.rows() * b.columns()];
    multiplier.multiply(a, b, Sums::FromZero, &mut out)?;
    Ok(out)
}

impl<'a> Tape<'a> {
    /// Begins with these parameters.
    pub fn new(parameters: &'a [Given<'a>], multiplier: Multiplier, records: bool) -> Self {
        Self { parameters, values: Vec::new(), multiplier, records }
    }

    /// Whether gradients can be computed.
    pub fn records(&self) -> bool {
        self.records
    }

    pub fn value(&self, at: NodeId) -> &[f32] {
        match at.0.checked_sub(self.parameters.len()) {
            None => self.parameters[at.0].numbers,
            Some(value) => &self.values[value].numbers,
        }
    }

    /// Numbers of a row.
    pub fn width(&self, at: NodeId) -> usize {
        match at.0.checked_sub(self.parameters.len()) {
            None => self.parameters[at.0].width,
            Some(value) => self.values[value].width,
        }
    }

    fn operand(&self, at: NodeId) -> Operand<'_> {
        let (numbers, width) = (self.value(at), self.width(at));
        Operand::new(numbers, numbers.len() / width, width)
    }

    fn push(&mut self, width: usize, numbers: Vec<f32>, step: Step) -> NodeId {
        self.values.push(Value { width, numbers, step });
        NodeId(self.parameters.len() + self.values.len() - 1)
    }

    /// Takes the multiplier out for a product of operands that lie on the tape.
    fn multiply(
        &mut self,
        compute: impl FnOnce(&Self, &mut Multiplier) -> Result<Vec<f32>, OutOfMemory>,
    ) -> Result<Vec<f32>, OutOfMemory> {
        let mut multiplier = std::mem::take(&mut self.multiplier);
        let out = compute(self, &mut multiplier);
        self.multiplier = multiplier;
        out
    }

    pub fn rows(&mut self, table: NodeId, ids: &Arc<[u32]>) -> NodeId {
        let (from, width) = (self.value(table), self.width(table));
        let row = |&id: &u32| &from[id as usize * width..][..width];
        let rows = ids.iter().flat_map(row).copied().collect();
        self.push(width, rows, Step::Rows { table, ids: Arc::clone(ids) })
    }

    /// `left + right`.
    pub fn add(&mut self, left: NodeId, right: NodeId) -> NodeId {
        let mut sum = self.value(left).to_vec();
        add(&mut sum, self.value(right));
        self.push(self.width(left), sum, Step::Add { left, right })
    }

    /// `left · right + bias`.
    pub fn product(
        &mut self,
        left: NodeId,
        right: NodeId,
        bias: Option<NodeId>,
    ) -> Result<NodeId, OutOfMemory> {
        let mut out =
            self.multiply(|tape, it| product(it, tape.operand(left), tape.operand(right)))?;
        let width = self.width(right);
        self.add_bias(&mut out, bias, width);
        Ok(self.push(width, out, Step::Product { left, right, bias }))
    }

    /// `left · rightᵀ + bias`.
    pub fn product_transposed(
        &mut self,
        left: NodeId,
        right: NodeId,
        bias: Option<NodeId>,
    ) -> Result<NodeId, OutOfMemory> {
        let mut out = self.multiply(|tape, it| {
            product(it, tape.operand(left), tape.operand(right).transposed())
        })?;
        let width = self.operand(right).rows();
        self.add_bias(&mut out, bias, width);
        Ok(self.push(width, out, Step::ProductTransposed { left, right, bias }))
    }

    fn add_bias(&self, rows: &mut [f32], bias: Option<NodeId>, width: usize) {
        if let Some(bias) = bias {
            rows.chunks_exact_mut(width).for_each(|row| add(row, self.value(bias)));
        }
    }

    /// Rows times a number.
    pub fn scale(&mut self, rows: NodeId, scale: f32) -> NodeId {
        let out = self.value(rows).iter().map(|x| x * scale).collect();
        self.push(self.width(rows), out, Step::Scale { rows, scale })
    }

    /// Rows, normalised by their mean square.
    pub fn norm(&mut self, rows: NodeId, weight: NodeId, norm: Norm) -> NodeId {
        let out = norm.forward(self.value(rows), self.value(weight));
        self.push(self.width(rows), out, Step::Norm { rows, weight, norm })
    }

    /// Rows, normalised by mean and variance.
    pub fn layer_norm(
        &mut self,
        rows: NodeId,
        weight: NodeId,
        bias: NodeId,
        norm: LayerNorm,
    ) -> NodeId {
        let out = norm.forward(self.value(rows), self.value(weight), self.value(bias));
        self.push(self.width(rows), out, Step::LayerNorm { rows, weight, bias, norm })
    }

    /// The activation between the two matrices of an MLP.
    pub fn mlp(&mut self, rows: NodeId, mlp: MlpShape) -> NodeId {
        let out = mlp.forward(self.value(rows));
        let width = if out.len() == self.value(rows).len() { self.width(rows) } else { mlp.width };
        self.push(width, out, Step::Mlp { rows, mlp })
    }

    /// An attention; its operands are described where it is defined.
    pub fn attend(
        &mut self,
        first: NodeId,
        other: Option<NodeId>,
        table: Option<NodeId>,
        attend: Attend,
    ) -> Result<NodeId, OutOfMemory> {
        let mut multiplier = std::mem::take(&mut self.multiplier);
        let done = attend.forward(
            &mut multiplier,
            self.value(first),
            other.map(|other| self.value(other)),
            table.map(|table| self.value(table)),
        );
        self.multiplier = multiplier;
        let (out, saved) = done?;
        let attend = Box::new(attend);
        Ok(self.push(attend.inner(), out, Step::Attend { first, other, table, attend, saved }))
    }

    /// Dropout.
    pub fn dropout(&mut self, rows: NodeId, dropout: &Dropout) -> NodeId {
        let Some(drop) = dropout.next() else { return rows };
        let out = drop.apply(self.value(rows));
        self.push(self.width(rows), out, Step::Dropout { rows, drop })
    }

    /// One vector of each text.
    pub fn pool(&mut self, rows: NodeId, pool: Pool, lengths: &Arc<[usize]>) -> NodeId {
        let width = self.width(rows);
        let out = pool.forward(self.value(rows), lengths, width);
        self.push(width, out, Step::Pool { rows, pool, lengths: Arc::clone(lengths) })
    }

    /// The gradients of the parameters, given that of one value.
    pub fn backward(mut self, of: NodeId, grad: Vec<f32>) -> Result<Vec<Gradient>, OutOfMemory> {
        let mut grads = Gradients {
            parameters: self.parameters.iter().map(|_| Gradient::default()).collect(),
            values: vec![Vec::new(); self.values.len()],
        };
        grads.add(of, grad);
        let mut multiplier = std::mem::take(&mut self.multiplier);
        // Each value is last read by its own step: it goes when that is done.
        while let Some(value) = self.values.pop() {
            let grad = grads.values.pop().unwrap_or_default();
            if !grad.is_empty() {
                self.back(value, grad, &mut grads, &mut multiplier)?;
            }
        }
        Ok(grads.parameters)
    }

    /// Adds the gradients of the operands of a value, given its own.
    fn back(
        &self,
        value: Value,
        grad: Vec<f32>,
        grads: &mut Gradients,
        multiplier: &mut Multiplier,
    ) -> Result<(), OutOfMemory> {
        let width = value.width;
        let rows_of = |grad: &[f32]| grad.len() / width;
        match value.step {
            Step::Rows { table, ids } => grads.parameters[table.0].rows.push((ids, grad)),
            Step::Add { left, right } => {
                grads.add(left, grad.clone());
                grads.add(right, grad);
            }
            Step::Product { left, right, bias } => {
                let out = Operand::new(&grad, rows_of(&grad), width);
                let right_value = self.operand(right).transposed();
                grads.add_product(left, multiplier, (out, right_value))?;
                let left = self.operand(left).transposed();
                grads.add_product(right, multiplier, (left, out))?;
                if let Some(bias) = bias {
                    grads.add(bias, column_sums(&grad, width));
                }
            }
            Step::ProductTransposed { left, right, bias } => {
                let out = Operand::new(&grad, rows_of(&grad), width);
                grads.add_product(left, multiplier, (out, self.operand(right)))?;
                grads.add_product(right, multiplier, (out.transposed(), self.operand(left)))?;
                if let Some(bias) = bias {
                    grads.add(bias, column_sums(&grad, width));
                }
            }
            Step::Scale { rows, scale } => {
                grads.add(rows, grad.iter().map(|x| x * scale).collect());
            }
            Step::Norm { rows, weight, norm } => {
                let of = norm.backward(self.value(rows), self.value(weight), &grad);
                grads.add(rows, of.0);
                grads.add(weight, of.1);
            }
            Step::LayerNorm { rows, weight, bias, norm } => {
                let of = norm.backward(self.value(rows), self.value(weight), &grad);
                grads.add(rows, of.0);
                grads.add(weight, of.1);
                grads.add(bias, of.2);
            }
            Step::Mlp { rows, mlp } => grads.add(rows, mlp.backward(self.value(rows), &grad)),
            Step::Attend { first, other, table, attend, saved } => {
                let operands = (self.value(first), other.map(|other| self.value(other)));
                let size = table.map_or(0, |table| self.value(table).len());
                let [of_first, of_other, of_table] =
                    attend.backward(multiplier, &saved, operands, size, &grad)?;
                grads.add(first, of_first);
                if let Some(other) = other {
                    grads.add(other, of_other);
                }
                if let Some(table) = table {
                    grads.add(table, of_table);
                }
            }
            Step::Dropout { rows, drop } => grads.add(rows, drop.apply(&grad)),
            Step::Pool { rows, pool, lengths } => {
                grads.add(rows, pool.backward(&grad, &lengths, width));
            }
        }
        Ok(())
    }
}
