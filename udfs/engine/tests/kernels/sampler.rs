//! From logits to tokens, against the processor's choices.

use std::cell::RefCell;
use std::rc::Rc;

use proofmill_engine::backend::{
    Backend, DeviceError, Linear, MatrixSource, Placement, Precision, RowSampling, SamplerOutput,
    SamplingMetadata, SamplingMethod,
};
use proofmill_engine::checkpoint::StoredTensor;
use proofmill_engine::cpu::Cpu;
use proofmill_engine::cuda::{Driver, Gpu, Launch, Role};
use proofmill_engine::rng::CounterRng;

use crate::emulator::{Emulator, pass};
use crate::mutation::Mutation;
use crate::rows::{Checked, numbers, tensor};

/// One token, less and more than a warp has, several rounds of all threads.
const VOCABULARIES: [usize; 6] = [1, 31, 33, 1000, 5000, 9001];

/// Rows of logits and what is requested of them.
#[derive(Clone, Default)]
pub struct Case {
    logits: Vec<Vec<f32>>,
    sampling: SamplingMetadata,
}

impl Case {
    fn ask(&mut self, logits: Vec<f32>, method: SamplingMethod, banned: &[u32]) {
        let first_banned = self.list(banned);
        let banned = banned.len() as u32;
        self.sampling.rows.push(RowSampling { first_banned, banned, ..RowSampling::new(method) });
        self.logits.push(logits);
    }

    /// The last row again with a mask of so many words, whose bits `seed` decides.
    fn mask_last(&mut self, words: usize, seed: u64) {
        let rng = CounterRng::new(seed, 8, 9, 10);
        let first_mask = self.sampling.masks.len() as u32;
        self.sampling.masks.extend((0..words as u32).map(|word| rng.bits(word) as u32));
        let last = *self.sampling.rows.last().expect("a row was requested");
        let mask_words = words as u32;
        self.sampling.rows.push(RowSampling { first_mask, mask_words, ..last });
        self.logits.push(self.logits.last().expect("a row was requested").clone());
    }

    /// How many rows are sampled.
    pub fn rows(&self) -> usize {
        self.sampling.rows.len()
    }

    fn list(&mut self, tokens: &[u32]) -> u32 {
        let first = self.sampling.tokens.len();
        self.sampling.tokens.extend_from_slice(tokens);
        first as u32
    }

    /// The same rows, of methods that have one result each.
    pub fn of_one_result(seed: u64, n: usize) -> Self {
        let mut case = kinds(&spread(seed, n), seed, &[0]);
        let one = among(&mut case, &[n as u32 / 3], 1);
        case.ask(spread(seed + 1, n), one, &[]);
        // Nothing can be chosen.
        let all: Vec<u32> = (0..n as u32).collect();
        case.ask(spread(seed + 2, n), SamplingMethod::Greedy, &all);
        let of_one = |row: &RowSampling| match row.method {
            SamplingMethod::Greedy | SamplingMethod::Sample { .. } => true,
            SamplingMethod::Choices { tokens, .. } => tokens == 1,
            SamplingMethod::Score { .. } | SamplingMethod::TopK { .. } => false,
        };
        let rows = case.sampling.rows.iter().zip(&case.logits).filter(|(row, _)| of_one(row));
        let (rows, logits) = rows.map(|(row, logits)| (*row, logits.clone())).unzip();
        Self { logits, sampling: SamplingMetadata { rows, ..case.sampling } }
    }

    /// What is sampled.
    fn on<B: Backend>(&self, device: &mut B) -> Result<SamplerOutput, DeviceError> {
        let mut output = SamplerOutput::default();
        let sampled = self.begun(device, None)?;
        device.read_sampled(sampled, &mut output)?;
        Ok(output)
    }

    /// Row `r` of the activations is 1 at `r` and 0 elsewhere, so that logits are weights.
    pub fn begun<B: Backend>(
        &self,
        device: &mut B,
        tokens: Option<&mut B::Tokens>,
    ) -> Result<B::Sampled, DeviceError> {
        let (rows, n) = (self.logits.len(), self.logits[0].len());
        let ones: Vec<f32> =
            (0..rows * rows).map(|i| f32::from(u8::from(i / rows == i % rows))).collect();
        let x = tensor(device, &ones, rows)?;
        let weights: Vec<f32> = (0..n * rows).map(|i| self.logits[i % rows][i / rows]).collect();
        let stored = StoredTensor::from_f32(&weights, vec![n, rows]).expect("the shape fits");
        let source = MatrixSource { blocks: vec![Placement::OutputsByInputs(stored)] };
        let matrix = device.matrix(&source, Precision::F32)?;
        let head = Linear { matrix, bias: None, outputs: n, inputs: rows };
        device.sample(&x, &head, 1.0, &self.sampling, tokens)
    }

    /// Compares a device with the processor.
    pub fn check<D: Driver>(&self, gpu: &mut Gpu<D>) -> Checked {
        let got = self.on(gpu).map_err(|error| error.to_string())?;
        let expected = self.on(&mut Cpu::default()).map_err(|error| error.to_string())?;
        if got.ends != expected.ends {
            return Err(format!("results end at {:?}, not at {:?}", got.ends, expected.ends));
        }
        for (row, pick) in self.sampling.rows.iter().enumerate() {
            for (place, (got, expected)) in got.of(row).iter().zip(expected.of(row)).enumerate() {
                let (left, right) = (got.logprob, expected.logprob);
                let near = left == right || (left - right).abs() <= 1e-6 * (1.0 + right.abs());
                if got.id != expected.id || !(near || left.is_nan() && right.is_nan()) {
                    return Err(format!(
                        "row {row} of {} tokens, {pick:?}, result {place}: {got:?}, not {expected:?}",
                        self.logits[row].len()
                    ));
                }
            }
        }
        Ok(())
    }
}

fn gpu(emulator: &Emulator) -> Gpu<Emulator> {
    Gpu::new(emulator.clone(), Precision::F32)
}

/// Logits that differ from each other, most of them small.
pub fn spread(seed: u64, n: usize) -> Vec<f32> {
    numbers(seed, n).iter().map(|x| x * x * x * 12.0 - 3.0).collect()
}

/// Logits of few values, so that most tokens have equals.
fn tied(seed: u64, n: usize, values: usize) -> Vec<f32> {
    numbers(seed, n).iter().map(|x| ((x + 1.0) * 0.5 * values as f32).floor() * 0.75).collect()
}

fn among(case: &mut Case, tokens: &[u32], count: u32) -> SamplingMethod {
    SamplingMethod::Choices { first: case.list(tokens), tokens: tokens.len() as u32, count }
}

fn sample(temperature: f32, top_k: u32, top_p: f32, seed: u64) -> SamplingMethod {
    SamplingMethod::Sample { temperature, top_k, top_p, rng: CounterRng::new(seed, 5, 6, 7) }
}

/// The likeliest token, log-probabilities of given ones, and bans.
pub fn stats(emulator: &Emulator) -> Checked {
    let gpu = &mut gpu(emulator);
    for n in VOCABULARIES {
        let last = n as u32 - 1;
        let mut case = Case::default();
        for (seed, logits) in
            [spread(1, n), tied(2, n, 4), tied(3, n, 1), spread(4, n)].into_iter().enumerate()
        {
            let best = (0..n).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0) as u32;
            let middle = last / 2;
            case.ask(logits.clone(), SamplingMethod::Greedy, &[]);
            case.ask(logits.clone(), SamplingMethod::Score { token: last }, &[]);
            if n > 1 {
                case.ask(logits.clone(), SamplingMethod::Greedy, &[best]);
                case.ask(
                    logits.clone(),
                    SamplingMethod::Score { token: best },
                    &[best, seed as u32],
                );
                let method = among(&mut case, &[last, 0, middle, last, best, 0], 2);
                case.ask(logits.clone(), method, &[0]);
            }
            let method = among(&mut case, &[middle, last], 5);
            case.ask(logits, method, &[]);
        }
        // Far from 0, and all but one next to nothing.
        case.ask(
            spread(5, n).iter().map(|x| x + 80.0).collect(),
            SamplingMethod::Score { token: 0 },
            &[],
        );
        case.ask(
            spread(6, n).iter().map(|x| x * 30.0).collect(),
            SamplingMethod::Score { token: 0 },
            &[],
        );
        case.check(gpu)?;
    }
    Ok(())
}

/// The likeliest few, many, all and more than there are.
pub fn tops(emulator: &Emulator) -> Checked {
    let gpu = &mut gpu(emulator);
    for n in VOCABULARIES {
        let all = n as u32;
        let mut case = Case::default();
        for logits in [spread(7, n), tied(8, n, 4), tied(9, n, 1)] {
            for count in [1, 3, 40, all / 2 + 1, all, all + 5] {
                case.ask(logits.clone(), SamplingMethod::TopK { count }, &[]);
            }
            if n > 3 {
                case.ask(logits.clone(), SamplingMethod::TopK { count: 4 }, &[0, 1, all - 1]);
                let most: Vec<u32> = (0..all - 2).collect();
                case.ask(logits, SamplingMethod::TopK { count: 4 }, &most);
            }
        }
        case.check(gpu)?;
    }
    Ok(())
}

/// Cuts by number and by share, of many draws. Where few tokens are left and where many are.
pub fn samples(emulator: &Emulator) -> Checked {
    let gpu = &mut gpu(emulator);
    let cuts = [(0, 1.0), (5, 1.0), (0, 0.9), (0, 0.3), (40, 0.8), (2, 1e-6), (1, 0.5), (0, 0.0)];
    for (n, draws) in [(1, 1), (33, 3), (1000, 24), (5000, 2)] {
        for (number, (top_k, top_p)) in (0..).zip(cuts) {
            let mut case = Case::default();
            for seed in 0..draws {
                let temperature = [1.0, 0.6, 2.5][seed as usize % 3];
                let method = sample(temperature, top_k, top_p, seed * 10 + number);
                let banned = if n > 1 && seed % 2 == 1 { vec![0, n as u32 - 1] } else { vec![] };
                case.ask(spread(seed, n), method, &banned);
            }
            case.check(gpu)?;
        }
    }
    Ok(())
}

/// Cuts among tokens that are equally likely: those with small ids stay.
pub fn ties(emulator: &Emulator) -> Checked {
    let gpu = &mut gpu(emulator);
    for (n, values) in [(33, 2), (1000, 3), (5000, 1), (9001, 3)] {
        let mut case = Case::default();
        for (seed, (top_k, top_p)) in
            (0..).zip([(0, 0.511), (7, 1.0), (7, 0.37), (n as u32 / 2, 0.73), (0, 0.013)])
        {
            let logits = tied(seed, n, values);
            case.ask(logits.clone(), sample(1.7, top_k, top_p, seed), &[]);
            case.ask(logits, sample(0.3, top_k, top_p, seed + 100), &[1, 2]);
        }
        case.check(gpu)?;
    }
    // Many small weights beside a large one: together they have most of the share.
    let mut case = Case::default();
    for seed in 0..6 {
        let mut logits = vec![-6.24; 5000];
        logits[4000] = 0.0;
        case.ask(logits, sample(1.0, 0, 0.5, seed), &[]);
    }
    case.check(gpu)?;
    // The cut is exact: of 5,000 equals no other than the first 2,555 is ever drawn.
    let mut case = Case::default();
    for seed in 0..20 {
        case.ask(vec![0.0; 5000], sample(1.0, 0, 0.511, seed), &[]);
    }
    let output = case.on(gpu).map_err(|error| error.to_string())?;
    match output.tokens.iter().find(|token| token.id >= 2555) {
        Some(cut) => Err(format!("{cut:?} was cut")),
        None => Ok(()),
    }
}

/// Masks that are shorter than the vocabulary, as long, and longer, beside bans.
pub fn masks(emulator: &Emulator) -> Checked {
    let gpu = &mut gpu(emulator);
    for n in VOCABULARIES {
        let whole = n.div_ceil(32);
        for (seed, words) in [(1, whole), (2, whole.div_ceil(2)), (3, whole + 2)] {
            let all = kinds(&spread(seed, n), seed, &[0]);
            let mut case = Case { sampling: SamplingMetadata::default(), logits: Vec::new() };
            case.sampling.tokens = all.sampling.tokens;
            for (row, logits) in all.sampling.rows.into_iter().zip(all.logits) {
                case.sampling.rows.push(row);
                case.logits.push(logits);
                case.mask_last(words, seed);
            }
            case.check(gpu)?;
        }
    }
    Ok(())
}

/// All kinds of picks on some logits.
pub fn kinds(logits: &[f32], seed: u64, banned: &[u32]) -> Case {
    let mut case = Case::default();
    let last = logits.len() as u32 - 1;
    let list = among(&mut case, &[0, last, last / 2], 2);
    let hows = [
        SamplingMethod::Greedy,
        sample(0.9, 0, 0.8, seed),
        SamplingMethod::Score { token: last },
        SamplingMethod::TopK { count: 3 },
        sample(1.1, 0, 1.0, seed),
        list,
        sample(1.3, 4, 1.0, seed),
    ];
    hows.into_iter().for_each(|method| case.ask(logits.to_vec(), method, banned));
    case
}

/// Logits that are no numbers, too large or none, and rows of which everything is banned.
pub fn spoilt(emulator: &Emulator) -> Checked {
    let gpu = &mut gpu(emulator);
    for n in [1, 50] {
        let all: Vec<u32> = (0..n as u32).collect();
        kinds(&spread(1, n), 1, &all).check(gpu)?;
        let mut cases = vec![vec![f32::NEG_INFINITY; n]];
        for spoilt in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut logits = spread(2, n);
            logits[n / 2] = spoilt;
            cases.push(logits);
        }
        for logits in cases {
            // One row at a time: 0 times infinity would spoil the others.
            let kinds = kinds(&logits, 3, &[]);
            for pick in &kinds.sampling.rows {
                let sampling = SamplingMetadata {
                    rows: vec![*pick],
                    tokens: kinds.sampling.tokens.clone(),
                    masks: kinds.sampling.masks.clone(),
                };
                Case { logits: vec![logits.clone()], sampling }.check(gpu)?;
            }
        }
    }
    Ok(())
}

/// The same results alone and among others, with the same bits.
pub fn bits(emulator: &Emulator) -> Checked {
    let gpu = &mut gpu(emulator);
    let mut together = Case::default();
    let mut apart = Vec::new();
    for seed in 0..3 {
        let kinds = kinds(&spread(seed, 700), seed, &[3, 600]);
        let first = together.list(&kinds.sampling.tokens);
        for (logits, pick) in kinds.logits.iter().zip(&kinds.sampling.rows) {
            let mut moved = *pick;
            moved.first_banned += first;
            if let SamplingMethod::Choices { first: list, .. } = &mut moved.method {
                *list += first;
            }
            together.logits.push(logits.clone());
            together.sampling.rows.push(moved);
            let sampling = SamplingMetadata {
                rows: vec![*pick],
                tokens: kinds.sampling.tokens.clone(),
                masks: kinds.sampling.masks.clone(),
            };
            apart.push(Case { logits: vec![logits.clone()], sampling });
        }
    }
    together.check(gpu)?;
    let together = together.on(gpu).map_err(|error| error.to_string())?;
    for (row, alone) in apart.iter().enumerate() {
        let alone = alone.on(gpu).map_err(|error| error.to_string())?;
        if alone.of(0) != together.of(row) {
            return Err(format!("row {row}: {:?} and {:?}", alone.of(0), together.of(row)));
        }
    }
    Ok(())
}

/// The emulator, with a note of what was launched.
#[derive(Clone)]
struct Noted(Emulator, Rc<RefCell<Vec<Launch>>>);

impl Driver for Noted {
    type Memory = <Emulator as Driver>::Memory;
    type Download = <Emulator as Driver>::Download;

    fn alloc(&self, role: Role, bytes: usize) -> Result<Self::Memory, DeviceError> {
        self.0.alloc(role, bytes)
    }

    fn upload(&self, from: &[u8], to: &Self::Memory, offset: usize) -> Result<(), DeviceError> {
        self.0.upload(from, to, offset)
    }

    fn run(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        self.1.borrow_mut().extend_from_slice(launches);
        self.0.run(launches)
    }

    fn download(
        &self,
        from: &Self::Memory,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.0.download(from, offset, to)
    }

    fn begin_download(
        &self,
        from: &Self::Memory,
        offset: usize,
        bytes: usize,
    ) -> Result<Self::Download, DeviceError> {
        self.0.begin_download(from, offset, bytes)
    }

    fn end_download(&self, copy: Self::Download, to: &mut [u8]) -> Result<(), DeviceError> {
        self.0.end_download(copy, to)
    }

    fn processors(&self) -> usize {
        self.0.processors()
    }
}

#[test]
fn steps_of_the_same_kinds_are_the_same_launches() {
    let Some(emulator) = Emulator::start() else { return };
    let noted = Rc::new(RefCell::new(Vec::new()));
    let mut gpu = Gpu::new(Noted(emulator, noted.clone()), Precision::F32);
    let mut launches = |case: &Case| {
        case.check(&mut gpu).unwrap();
        let all = std::mem::take(&mut *noted.borrow_mut());
        let sampling = all.into_iter().filter(|launch| launch.kernel.name().starts_with("pick_"));
        sampling.collect::<Vec<_>>()
    };
    let largest = kinds(&spread(1, 40), 1, &[5, 6, 7]);
    launches(&largest);
    let mut fewer = kinds(&spread(2, 40), 2, &[1]);
    fewer.logits.truncate(5);
    fewer.sampling.rows.truncate(5);
    let (fewer, again) = (launches(&fewer), launches(&largest));
    assert_eq!(fewer.len(), 3);
    assert_eq!(fewer, again);
    let mut greedy = Case::default();
    greedy.ask(spread(3, 40), SamplingMethod::Greedy, &[]);
    assert_eq!(launches(&greedy).len(), 1);
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(emulator) = Emulator::start() else { return };
    let hows = [
        SamplingMethod::Score { token: 9 },
        SamplingMethod::TopK { count: 0 },
        sample(0.0, 0, 1.0, 1),
        SamplingMethod::Choices { first: 0, tokens: 2, count: 1 },
    ];
    for method in hows {
        let mut case = Case::default();
        case.ask(spread(1, 9), method, &[4]);
        let expected = case.on(&mut Cpu::default()).unwrap_err();
        assert_eq!(case.on(&mut gpu(&emulator)).unwrap_err(), expected);
    }
}

#[test]
fn tokens_and_log_probabilities_are_those_of_the_processor() {
    pass(stats);
}

#[test]
fn the_likeliest_are_those_of_the_processor() {
    pass(tops);
}

#[test]
fn samples_are_those_of_the_processor() {
    pass(samples);
}

#[test]
fn masks_leave_tokens_out() {
    pass(masks);
}

#[test]
fn ties_go_to_smaller_ids() {
    pass(ties);
}

#[test]
fn spoilt_rows_say_so() {
    pass(spoilt);
}

#[test]
fn rows_keep_their_bits() {
    pass(bits);
}

pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        kernel: "pick_stats",
        source: "pick.cu",
        from: "sum *= (double)exponential(largest - top);",
        to: "",
        check: stats,
    },
    Mutation {
        kernel: "pick_stats",
        source: "pick.cu",
        from: "i + j < vocabulary ? read.at[j] : -INFINITE",
        to: "read.at[j]",
        check: stats,
    },
    Mutation {
        kernel: "pick_stats",
        source: "pick.cu",
        from: "if (key >= PICK_LEAST && key > own) own = key;",
        to: "if (key > own) own = key;",
        check: spoilt,
    },
    Mutation {
        kernel: "pick_stats",
        source: "pick.cu",
        from: "tokens[row.mask - 1 + i / 32] >> i % 32 & 1",
        to: "tokens[row.mask - 1 + i / 32] >> i % 31 & 1",
        check: masks,
    },
    Mutation {
        kernel: "pick_top",
        source: "pick.cu",
        from: "if (step == 0 && s.total <= target) return floor;",
        to: "",
        check: tops,
    },
    Mutation {
        kernel: "pick_top",
        source: "pick.cu",
        from: "target -= s.amount_before;",
        to: "",
        check: tops,
    },
    Mutation {
        kernel: "pick_top",
        source: "pick.cu",
        from: "kept_before += s.count_before;",
        to: "",
        check: tops,
    },
    Mutation {
        kernel: "pick_sample",
        source: "pick.cu",
        from: "if (key < floor) return;",
        to: "if (key < PICK_LEAST) return;",
        check: ties,
    },
    Mutation {
        kernel: "pick_sample",
        source: "pick.cu",
        from: "low) < low) high += 1;",
        to: "low) < low) high += 0;",
        check: ties,
    },
    Mutation {
        kernel: "pick_sample",
        source: "pick.cu",
        from: "* 0x94d049bb133111ebull",
        to: "* 0x94d049bb133111edull",
        check: samples,
    },
    Mutation {
        kernel: "pick_sample",
        source: "pick.cu",
        from: "exp(-leader) * 1.001",
        to: "exp(-leader) * 0.01",
        check: samples,
    },
];
