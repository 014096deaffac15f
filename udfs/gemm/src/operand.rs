//! A matrix in somebody's memory, by its strides.

use std::ops::Range;

/// A matrix of f32, of which element `(i, j)` lies at `i * row_stride + j * column_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Operand<'a> {
    /// `[rows, columns]`, row by row.
    ///
    /// # Panics
    ///
    /// If `data` has another number of elements.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert!(data.len() == rows * columns, "{} numbers are not [{rows}, {columns}]", data.len());
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// `[rows, columns]`, where rows begin `stride` elements apart: some columns of a wider matrix whose `data` begins
    /// with the first of them.
    ///
    /// # Panics
    ///
    /// If rows overlap, or `data` ends before the last.
    pub fn with_stride(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        let ends = rows == 0 || (rows - 1) * stride + columns <= data.len();
        assert!(columns <= stride && ends, "rows of {columns} every {stride} do not fit");
        Self { data, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// The same elements with rows for columns; nothing is moved.
    pub fn transposed(self) -> Self {
        let Self { data, rows, columns, row_stride, column_stride } = self;
        Self {
            data,
            rows: columns,
            columns: rows,
            row_stride: column_stride,
            column_stride: row_stride,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Some rows and columns.
    ///
    /// # Panics
    ///
    /// If it has fewer.
    pub fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(rows.end <= self.rows && columns.end <= self.columns, "{rows:?}, {columns:?}");
        let start = rows.start * self.row_stride + columns.start * self.column_stride;
        let data = self.data.get(start..).unwrap_or_default();
        Self { data, rows: rows.len(), columns: columns.len(), ..self }
    }

    /// The elements of row `row`, in order.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = &'a f32> {
        self.data[row * self.row_stride..].iter().step_by(self.column_stride).take(self.columns)
    }

    /// Row `row` if its elements are neighbours.
    #[inline(always)]
    pub(crate) fn row_slice(&self, row: usize) -> Option<&'a [f32]> {
        let from = row * self.row_stride;
        (self.column_stride == 1).then(|| &self.data[from..from + self.columns])
    }

    /// Some elements of column `column` if they are neighbours.
    #[inline(always)]
    pub(crate) fn column_slice(&self, column: usize, rows: Range<usize>) -> Option<&'a [f32]> {
        let from = column * self.column_stride;
        (self.row_stride == 1).then(|| &self.data[from + rows.start..from + rows.end])
    }
}
