//! The matmul algorithms of cuBLASLt: one for each matrix, whatever the number of rows, so that no
//! sum depends on it.

use std::collections::HashMap;

use crate::backend::DeviceError;
use crate::cuda::gemm::Shape;

/// Chooses algorithms.
pub(super) trait AlgorithmPlanner {
    /// How products of a shape are made.
    type Algorithm;
    /// Where the rows of a product lie.
    type Layouts;

    /// The algorithm for all products of a shape.
    fn choose(&self, shape: Shape) -> Result<Self::Algorithm, DeviceError>;
    /// The layouts of a product with so many rows, if the algorithm can make it.
    fn layouts(
        &self,
        shape: Shape,
        algorithm: &Self::Algorithm,
        rows: usize,
    ) -> Result<Self::Layouts, DeviceError>;
}

/// The algorithms chosen so far. Steps have few different numbers of rows, so that this stays small.
pub(super) struct AlgorithmCache<P: AlgorithmPlanner> {
    shapes: HashMap<Shape, ShapeAlgorithm<P>>,
}

struct ShapeAlgorithm<P: AlgorithmPlanner> {
    algorithm: P::Algorithm,
    layouts: HashMap<usize, P::Layouts>,
}

impl<P: AlgorithmPlanner> Default for AlgorithmCache<P> {
    fn default() -> Self {
        Self { shapes: HashMap::new() }
    }
}

impl<P: AlgorithmPlanner> AlgorithmCache<P> {
    /// The algorithm and layouts for `rows` rows of a shape, made if it is not there.
    pub(super) fn plan(
        &mut self,
        planner: &P,
        shape: Shape,
        rows: usize,
    ) -> Result<(&P::Algorithm, &P::Layouts), DeviceError> {
        use std::collections::hash_map::Entry;
        let plan = match self.shapes.entry(shape) {
            Entry::Occupied(plan) => plan.into_mut(),
            Entry::Vacant(place) => {
                let algorithm = planner.choose(shape)?;
                place.insert(ShapeAlgorithm { algorithm, layouts: HashMap::new() })
            }
        };
        let layouts = match plan.layouts.entry(rows) {
            Entry::Occupied(layouts) => layouts.into_mut(),
            Entry::Vacant(place) => place.insert(planner.layouts(shape, &plan.algorithm, rows)?),
        };
        Ok((&plan.algorithm, layouts))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Numbers what it chooses, and remembers what was requested.
    #[derive(Default)]
    struct Tape {
        chosen: Cell<usize>,
        requested: RefCell<Vec<(usize, usize)>>,
        fails: Cell<bool>,
    }

    impl AlgorithmPlanner for Tape {
        type Algorithm = usize;
        type Layouts = (usize, usize);

        fn choose(&self, _: Shape) -> Result<usize, DeviceError> {
            if self.fails.get() {
                return Err(DeviceError::Failed("no".to_owned()));
            }
            self.chosen.set(self.chosen.get() + 1);
            Ok(self.chosen.get())
        }

        fn layouts(
            &self,
            shape: Shape,
            algorithm: &usize,
            rows: usize,
        ) -> Result<(usize, usize), DeviceError> {
            if self.fails.get() {
                return Err(DeviceError::Failed("no".to_owned()));
            }
            self.requested.borrow_mut().push((*algorithm, rows));
            Ok((shape.n, rows))
        }
    }

    fn shape(n: usize) -> Shape {
        Shape { n, depth: 64, x_stride: 64, out_stride: n }
    }

    #[test]
    fn an_algorithm_is_chosen_once_and_used_for_all_rows() {
        let (tape, mut algorithms) = (Tape::default(), AlgorithmCache::default());
        for (n, rows) in [(32, 1), (64, 1), (32, 512), (32, 1), (64, 512), (32, 512)] {
            let chosen = algorithms.plan(&tape, shape(n), rows).unwrap();
            assert_eq!(chosen, (&(n / 32), &(n, rows)));
        }
        assert_eq!(*tape.requested.borrow(), [(1, 1), (2, 1), (1, 512), (2, 512)]);
        let other = Shape { out_stride: 96, ..shape(32) };
        assert_eq!(algorithms.plan(&tape, other, 1).unwrap().0, &3);
    }

    #[test]
    fn what_failed_is_tried_again() {
        let (tape, mut algorithms) = (Tape::default(), AlgorithmCache::default());
        tape.fails.set(true);
        assert!(algorithms.plan(&tape, shape(32), 1).is_err());
        tape.fails.set(false);
        assert_eq!(algorithms.plan(&tape, shape(32), 1).unwrap().0, &1);
        tape.fails.set(true);
        assert!(algorithms.plan(&tape, shape(32), 2).is_err());
        assert_eq!(algorithms.plan(&tape, shape(32), 1).unwrap().0, &1);
    }
}
