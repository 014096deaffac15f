//! Losses, vectors and gradients of a batch: its parts on several threads, summed in their order, so that the
//! number of threads changes no bit.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;

use proofmill_gemm::{Level, Multiplier, OutOfMemory};

use crate::data::batch::{Part, Reading};
use crate::graph::network::Pass;
use crate::graph::ops::{Dropout, Pool};
use crate::graph::tape::{Given, Gradient, Tape, add};
use crate::model::weights::{Plan, Weights};
use crate::rng::CounterRng;

/// What a pass of training needs besides the weights.
#[derive(Clone, Copy)]
pub struct Mode {
    /// Decides what is dropped in this step.
    pub rng: CounterRng,
    pub dropout: f64,
    /// Part of the target that is spread evenly.
    pub smoothing: f64,
    /// What is usual among rewards.
    pub baseline: f64,
}

impl Mode {
    fn dropout(self, part: usize) -> Dropout {
        Dropout::new(self.rng.of(part as u64), self.dropout)
    }
}

/// A network with its weights, and the threads it may use.
#[derive(Clone, Copy)]
pub struct Computer<'a> {
    plan: &'a Plan,
    weights: &'a Weights,
    threads: usize,
    level: Level,
}

impl<'a> Computer<'a> {
    /// Parts are computed on so many threads.
    pub fn new(plan: &'a Plan, weights: &'a Weights, threads: usize) -> Self {
        Self { plan, weights, threads: threads.max(1), level: Level::best() }
    }

    /// The same with other instructions.
    #[cfg(test)]
    pub fn with(self, level: Level) -> Self {
        Self { level, ..self }
    }

    fn given(&self) -> Vec<Given<'a>> {
        let both = self.plan.parameters.iter().zip(self.weights);
        both.map(|(it, numbers)| Given { width: it.width(), numbers }).collect()
    }

    fn pass<'t>(&'t self, given: &'t [Given<'t>], records: bool, dropout: Dropout) -> Pass<'t> {
        let tape = Tape::new(given, Multiplier::new(self.level), records);
        Pass { places: &self.plan.places, tape, dropout }
    }

    /// The loss of a batch and its gradient.
    pub fn gradient(&self, parts: &[Part], mode: Mode) -> Result<(f64, Weights), OutOfMemory> {
        let given = self.given();
        let mut loss = 0.0;
        let one = |number: usize, part: &Part| {
            let pass = self.pass(&given, true, mode.dropout(number));
            pass.loss(part, mode.smoothing as f32)
        };
        let mut sum = self.zeros();
        in_order(parts, self.threads, one, |_, (part, grads)| {
            loss += part;
            add_all(&mut sum, &given, grads);
        })?;
        Ok((loss, sum))
    }

    /// The loss of a batch.
    pub fn loss(&self, parts: &[Part]) -> Result<f64, OutOfMemory> {
        let given = self.given();
        let mut sum = 0.0;
        let one = |_: usize, part: &Part| {
            self.pass(&given, false, Dropout::none()).loss(part, 0.0).map(|(loss, _)| loss)
        };
        in_order(parts, self.threads, one, |_, loss| sum += loss)?;
        Ok(sum)
    }

    /// The vectors of texts by their places. Without a `mode` nothing is dropped.
    pub fn vectors(
        &self,
        readings: &[Reading],
        pool: Pool,
        mode: Option<Mode>,
    ) -> Result<Vec<Vec<f32>>, OutOfMemory> {
        let given = self.given();
        let count = readings.iter().map(|reading| reading.places.len()).sum();
        let mut vectors = vec![Vec::new(); count];
        let one = |number: usize, reading: &Reading| {
            let dropout = mode.map_or_else(Dropout::none, |mode| mode.dropout(number));
            self.pass(&given, false, dropout).vectors(&reading.texts, pool)
        };
        in_order(readings, self.threads, one, |number, found| {
            let places = &readings[number].places;
            let width = found.len() / places.len();
            for (&place, vector) in places.iter().zip(found.chunks_exact(width)) {
                vectors[place] = vector.to_vec();
            }
        })?;
        Ok(vectors)
    }

    /// The gradient of the weights, given those of the vectors of texts by their places. The pass is made once more,
    /// which takes a third longer than to keep all of it, and the memory of one part for each thread.
    pub fn pull(
        &self,
        readings: &[Reading],
        pool: Pool,
        mode: Mode,
        grads: &[Vec<f32>],
    ) -> Result<Weights, OutOfMemory> {
        let given = self.given();
        let mut sum = self.zeros();
        let one = |number: usize, reading: &Reading| {
            let grad = reading.places.iter().flat_map(|&place| &grads[place]).copied().collect();
            self.pass(&given, true, mode.dropout(number)).pull(&reading.texts, pool, grad)
        };
        in_order(readings, self.threads, one, |_, grads| {
            add_all(&mut sum, &given, grads);
        })?;
        Ok(sum)
    }

    fn zeros(&self) -> Weights {
        self.weights.iter().map(|values| vec![0.0; values.len()]).collect()
    }
}

/// Adds the gradients of a part; nothing where a parameter takes no part.
fn add_all(sum: &mut Weights, given: &[Given<'_>], grads: Vec<Gradient>) {
    for ((sum, grad), Given { width, .. }) in sum.iter_mut().zip(grads).zip(given) {
        add(sum, &grad.dense);
        for (ids, rows) in grad.rows {
            for (&id, row) in ids.iter().zip(rows.chunks_exact(*width)) {
                add(&mut sum[id as usize * width..][..*width], row);
            }
        }
    }
}

/// Computes items on threads, and takes their results in the order of the items. No thread begins
/// an item more than twice as many items ahead of the last taken as there are threads, as results
/// may be large.
fn in_order<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    compute: impl Fn(usize, &I) -> Result<T, OutOfMemory> + Sync,
    mut take: impl FnMut(usize, T),
) -> Result<(), OutOfMemory> {
    let next = AtomicUsize::new(0);
    let (taken, moved) = (Mutex::new(0), Condvar::new());
    let (sender, receiver) = mpsc::channel();
    let work = |sender: mpsc::Sender<(usize, thread::Result<Result<T, OutOfMemory>>)>| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else { return };
            let behind = |taken: &mut usize| number >= *taken + 2 * threads;
            let wait = taken.lock().map(|taken| moved.wait_while(taken, behind));
            // A thread that panics would leave the others waiting for its result.
            let result = || catch_unwind(AssertUnwindSafe(|| compute(number, item)));
            if !matches!(wait, Ok(Ok(_))) || sender.send((number, result())).is_err() {
                return;
            }
        }
    };
    let move_to = |number: usize| {
        if let Ok(mut taken) = taken.lock() {
            *taken = number;
        }
        moved.notify_all();
    };
    thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work(sender));
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut expected = 0;
        let (mut failed, mut panicked) = (None, None);
        for (number, result) in receiver {
            waiting.insert(number, result);
            while let Some(result) = waiting.remove(&expected) {
                match result {
                    Ok(Ok(result)) if failed.is_none() && panicked.is_none() => {
                        take(expected, result);
                        expected += 1;
                        move_to(expected);
                        continue;
                    }
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => failed = failed.or(Some(error)),
                    Err(panic) => panicked = panicked.or(Some(panic)),
                }
                // No thread begins another.
                next.store(items.len(), Ordering::Relaxed);
                expected += 1;
                move_to(expected);
            }
        }
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
        failed.map_or(Ok(()), Err)
    })
}

#[cfg(test)]
mod tests {
    use proofmill_gemm::Isa;

    use super::*;
    use crate::data::batch::{Begin, Example, parts, readings};
    use crate::graph::ops::{Heads, Inner};
    use crate::graph::pairs::contrastive;
    use crate::model::bert::BertShape;
    use crate::model::opt::OptShape;
    use crate::model::places::Places;
    use crate::model::t5::T5Shape;
    use crate::rng::Purpose;
    use proofmill_settings::fit::{Activation, DecoderSizes, Sizes};

    fn plan(activation: Activation, own_head: bool) -> Plan {
        let shape = T5Shape {
            vocabulary: 13,
            width: 12,
            heads: Heads { count: 3, width: 5 },
            mlp_width: 20,
            activation,
            layers: 2,
            decoder_layers: 2,
            buckets: 8,
            max_distance: 20,
            eps: 1e-6,
            own_head,
            scaled: !own_head,
        };
        shape.plan()
    }

    const START: Begin = Begin::Token(0);

    fn opt() -> Plan {
        let sizes = Sizes { d_model: 12, d_kv: 4, d_ff: 20, heads: 3, layers: 2, ..Sizes::tiny() };
        let mut plan = OptShape::new(&sizes, 13, 200).plan();
        // Without the corners of ReLU, which are tested elsewhere and which a step of finite differences goes across.
        if let Places::Decoder { decoder, .. } = &mut plan.places {
            decoder.mlp.inner = Inner::Gelu;
        }
        plan
    }

    fn bert(inner: Inner) -> BertShape {
        BertShape::for_tests(13, 12, Heads { count: 3, width: 4 }, inner)
    }

    fn two_berts(inner: Inner, own_head: bool) -> Plan {
        let decoder = DecoderSizes { layers: 2, heads: Some(2), d_ff: Some(9) };
        bert(inner).two_plan(&bert(inner).decoder(&decoder).unwrap(), own_head)
    }

    /// First weights that are larger than usual, so that every part matters.
    fn first(plan: &Plan) -> Weights {
        let mut weights = plan.first(3);
        if plan.places.first().learned.is_some() {
            let rng = CounterRng::new(9, Purpose::Weights);
            for (at, values) in weights.iter_mut().enumerate() {
                let decays = plan.parameters[at].decays();
                for (i, value) in values.iter_mut().enumerate() {
                    let noise = 0.1 * rng.of(at as u64).normal(i as u64);
                    *value = if decays { 15.0 * *value } else { *value + noise };
                }
            }
        }
        weights
    }

    fn gradient(plan: &Plan, weights: &Weights, parts: &[Part], mode: Mode) -> (f64, Weights) {
        Computer::new(plan, weights, 2).gradient(parts, mode).unwrap()
    }

    fn examples() -> Vec<Example> {
        let text = |seed: u32, length: u32| (0..length).map(|i| (seed + i * i * 5) % 13).collect();
        let lengths = [(3, 2), (9, 1), (1, 6), (14, 4)];
        lengths
            .iter()
            .zip(1..)
            .map(|(&(input, output), seed)| Example {
                input: text(seed, input),
                passages: vec![input as usize],
                output: text(seed + 2, output),
                weight: seed as f32 / 2.0,
                logged: None,
            })
            .collect()
    }

    fn mode(dropout: f64, smoothing: f64) -> Mode {
        Mode { rng: CounterRng::new(5, Purpose::Dropout), dropout, smoothing, baseline: 0.0 }
    }

    fn moved(weights: &Weights, at: usize, direction: &[f32], by: f32) -> Weights {
        let mut weights = weights.clone();
        for (weight, direction) in weights[at].iter_mut().zip(direction) {
            *weight += by * direction;
        }
        weights
    }

    /// Compares the gradient along directions in every parameter with finite differences.
    fn gradients_are_right(
        plan: &Plan,
        weights: &Weights,
        loss: impl Fn(&Weights) -> f64,
        grads: &Weights,
    ) {
        const STEP: f32 = 5e-3;
        for (at, grad) in grads.iter().enumerate() {
            let length = grad.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!(length > 1e-4, "{:?} has no slope", plan.parameters[at].names);
            let steepest = grad.iter().map(|x| x / length).collect::<Vec<_>>();
            let rng = CounterRng::new(1, Purpose::Weights).of(at as u64);
            let scale = (grad.len() as f32).sqrt().recip();
            let others = (0..3).map(|number| {
                let of = |i: usize| rng.of(number).normal(i as u64) * scale;
                (0..grad.len()).map(of).collect::<Vec<_>>()
            });
            for direction in others.chain([steepest]) {
                let right: f32 = grad.iter().zip(&direction).map(|(a, b)| a * b).sum();
                let ahead = loss(&moved(weights, at, &direction, STEP));
                let behind = loss(&moved(weights, at, &direction, -STEP));
                let found = (ahead - behind) / f64::from(2.0 * STEP);
                let off = (found - f64::from(right)).abs();
                let names = &plan.parameters[at].names;
                assert!(
                    off < 3e-3 * f64::from(length) + 1e-4,
                    "{names:?}: {found} {right} {length}"
                );
            }
        }
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        let mut examples = examples();
        examples[1].passages = vec![4, 5];
        examples[3].passages = vec![6, 1, 7];
        let all = [
            (plan(Activation::Relu, false), START, mode(0.0, 0.0)),
            (plan(Activation::GatedGelu, true), START, mode(0.0, 0.2)),
            (plan(Activation::GatedGelu, false), START, mode(0.3, 0.1)),
            (two_berts(Inner::Gelu, false), START, mode(0.0, 0.0)),
            (two_berts(Inner::GeluTanh, true), START, mode(0.2, 0.1)),
            (opt(), Begin::Input, mode(0.0, 0.0)),
            (opt(), Begin::Input, mode(0.2, 0.1)),
        ];
        for (plan, begin, mode) in all {
            let parts = parts(&examples, &[0, 1, 2, 3], begin, None);
            let weights = first(&plan);
            let (_, grads) = gradient(&plan, &weights, &parts, mode);
            let loss = |weights: &Weights| gradient(&plan, weights, &parts, mode).0;
            gradients_are_right(&plan, &weights, loss, &grads);
        }
    }

    #[test]
    fn gradients_of_vectors_are_those_of_finite_differences() {
        let (examples, mode) = (examples(), mode(0.1, 0.0));
        let texts: Vec<&[u32]> =
            examples.iter().flat_map(|it| [&it.input[..], &it.output[..]]).collect();
        let readings = readings(&texts);
        let plan = bert(Inner::Gelu).encoder_plan();
        for pool in [Pool::Mean, Pool::First] {
            let batch = |weights: &Weights| {
                let computer = Computer::new(&plan, weights, 2);
                let vectors = computer.vectors(&readings, pool, Some(mode)).unwrap();
                let (x, u): (Vec<_>, Vec<_>) =
                    vectors.chunks_exact(2).map(|it| (it[0].clone(), it[1].clone())).unzip();
                contrastive(&x, &u, &[0, 1, 2, 3], &[1.0, 2.0, 0.5, 1.0], 0.5)
            };
            let weights = first(&plan);
            let found = batch(&weights);
            let pairs = found.inputs.iter().zip(&found.outputs);
            let narrow = |grad: &Vec<f64>| grad.iter().map(|x| *x as f32).collect();
            let of: Vec<Vec<f32>> = pairs.flat_map(|(x, u)| [narrow(x), narrow(u)]).collect();
            let computer = Computer::new(&plan, &weights, 2);
            let grads = computer.pull(&readings, pool, mode, &of).unwrap();
            gradients_are_right(&plan, &weights, |weights| batch(weights).sum, &grads);
        }
    }

    #[test]
    fn a_pair_does_not_see_its_neighbours() {
        let plans = [
            (plan(Activation::GatedGelu, false), START),
            (two_berts(Inner::Gelu, false), START),
            (opt(), Begin::Input),
        ];
        for (plan, begin) in plans {
            let weights = first(&plan);
            let all = examples();
            for alone in 0..all.len() {
                let single = parts(&all, &[alone], begin, None);
                let (right, grads) = gradient(&plan, &weights, &single, mode(0.0, 0.0));
                let mut together = parts(&all, &[0, 1, 2, 3], begin, None);
                assert_eq!(together.len(), 1);
                let first: usize = together[0].outputs.lengths[..alone].iter().sum();
                together[0].weights.fill(0.0);
                together[0].weights[first..][..single[0].weights.len()]
                    .copy_from_slice(&single[0].weights);
                let (found, others) = gradient(&plan, &weights, &together, mode(0.0, 0.0));
                assert!((found - right).abs() < 1e-6, "{found} {right}");
                for (grad, other) in grads.iter().flatten().zip(others.iter().flatten()) {
                    assert!((grad - other).abs() < 1e-5, "{grad} {other}");
                }
                let seen = Computer::new(&plan, &weights, 1).loss(&together).unwrap();
                assert!((seen - right).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn instructions_and_threads_change_nothing() {
        let long = |seed: u32| (0..700).map(|i| (seed + i * i * 5) % 13).collect::<Vec<u32>>();
        let mut examples = examples();
        // Longer than a block of inputs of a product, in each direction.
        examples.push(Example {
            input: long(1)[..90].to_vec(),
            passages: vec![90],
            output: long(2)[..90].to_vec(),
            weight: 1.0,
            logged: None,
        });
        let wide = T5Shape::new(
            &proofmill_settings::fit::Sizes {
                d_ff: 1100,
                ..proofmill_settings::fit::Sizes::tiny()
            },
            13,
        );
        let all: Vec<usize> = (0..5).collect();
        for plan in [wide.plan(), two_berts(Inner::Gelu, false)] {
            let weights = first(&plan);
            let parts = parts(&examples, &all, START, None);
            let of = |computer: Computer<'_>| computer.gradient(&parts, mode(0.1, 0.1)).unwrap();
            let once = of(Computer::new(&plan, &weights, 1));
            for level in Isa::ALL.into_iter().filter_map(Level::of) {
                assert!(of(Computer::new(&plan, &weights, 3).with(level)) == once, "{level:?}");
            }
        }
    }

    #[test]
    fn what_is_dropped_follows_from_the_step() {
        let plan = plan(Activation::Relu, false);
        let (weights, parts) = (plan.first(3), parts(&examples(), &[0, 1, 2, 3], START, None));
        let at = |step| {
            let rng = CounterRng::new(5, Purpose::Dropout).of(step);
            gradient(&plan, &weights, &parts, Mode { rng, ..mode(0.5, 0.0) })
        };
        assert_eq!(at(1), at(1));
        assert_ne!(at(1).0, at(2).0);
    }
}
