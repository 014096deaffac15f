//! One vector of each text.

/// Which rows of a text make its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The mean of all.
    Mean,
    First,
}

impl Pool {
    /// The vectors `[texts, width]` of rows that lie one text after the other.
    pub fn forward(self, rows: &[f32], lengths: &[usize], width: usize) -> Vec<f32> {
        let mut out = Vec::with_capacity(lengths.len() * width);
        let mut rest = rows;
        for &length in lengths {
            let (text, others) = rest.split_at(length * width);
            rest = others;
            match self {
                Self::First => out.extend_from_slice(&text[..width]),
                Self::Mean => {
                    let at = out.len();
                    out.resize(at + width, 0.0);
                    for row in text.chunks_exact(width) {
                        for (sum, x) in out[at..].iter_mut().zip(row) {
                            *sum += x;
                        }
                    }
                    let scale = 1.0 / length as f32;
                    out[at..].iter_mut().for_each(|sum| *sum *= scale);
                }
            }
        }
        out
    }

    /// The gradient of the rows.
    pub fn backward(self, grad: &[f32], lengths: &[usize], width: usize) -> Vec<f32> {
        let mut out = Vec::with_capacity(lengths.iter().sum::<usize>() * width);
        for (&length, grad) in lengths.iter().zip(grad.chunks_exact(width)) {
            match self {
                Self::First => {
                    out.extend_from_slice(grad);
                    out.resize(out.len() + (length - 1) * width, 0.0);
                }
                Self::Mean => {
                    let scale = 1.0 / length as f32;
                    for _ in 0..length {
                        out.extend(grad.iter().map(|grad| grad * scale));
                    }
                }
            }
        }
        out
    }
}
