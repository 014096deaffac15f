//! The numbers of a tensor that lies in one piece, and sums into them.

use candle_core::{CpuStorage, Error, InplaceOp2, Layout, Result, Storage, Tensor};

/// Shows the numbers of a tensor, wherever they lie.
pub fn with_numbers<T>(tensor: &Tensor, show: impl FnOnce(&[f32]) -> T) -> Result<T> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => Ok(show(numbers(storage, layout)?)),
        Storage::Cuda(_) | Storage::Metal(_) => {
            Err(Error::Msg("training is for the CPU alone".to_owned()))
        }
    }
}

fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (from, to) = layout
        .contiguous_offsets()
        .ok_or_else(|| Error::Msg("an operand does not lie in one piece".to_owned()))?;
    Ok(&storage.as_slice::<f32>()?[from..to])
}

fn all(storage: &mut CpuStorage) -> Result<&mut [f32]> {
    match storage {
        CpuStorage::F32(values) => Ok(values),
        _ => Err(Error::Msg("a sum is not of f32".to_owned())),
    }
}

/// Adds one tensor to another, which is not a view.
pub struct Add;

impl InplaceOp2 for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn cpu_fwd(
        &self,
        sums: &mut CpuStorage,
        _: &Layout,
        values: &CpuStorage,
        at: &Layout,
    ) -> Result<()> {
        for (sum, value) in all(sums)?.iter_mut().zip(numbers(values, at)?) {
            *sum += value;
        }
        Ok(())
    }
}

/// Adds rows to the rows of a table that these numbers name, one after the other.
pub struct AddRows<'a>(pub &'a [u32]);

impl InplaceOp2 for AddRows<'_> {
    fn name(&self) -> &'static str {
        "add rows"
    }

    fn cpu_fwd(
        &self,
        table: &mut CpuStorage,
        table_at: &Layout,
        rows: &CpuStorage,
        rows_at: &Layout,
    ) -> Result<()> {
        let (_, width) = table_at.shape().dims2()?;
        let rows = numbers(rows, rows_at)?.chunks_exact(width);
        let table = all(table)?;
        for (&id, row) in self.0.iter().zip(rows) {
            let sums = &mut table[id as usize * width..][..width];
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
        Ok(())
    }
}
