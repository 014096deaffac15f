//! One step ahead: what a step samples is read by the next one on the device, and that is launched before the
//! host waits for the first.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use proofmill_engine::backend::{Backend, DeviceError, Embedding, Input, Precision, SamplerOutput};
use proofmill_engine::checkpoint::StoredTensor;
use proofmill_engine::cpu::Cpu;
use proofmill_engine::cuda::{Driver, Gpu, Kernel, Launch, Role};
use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::{Generate, Request, Strategy};

use crate::ask;
use crate::emulator::{Emulator, Order, pass};
use crate::mutation::Mutation;
use crate::rows::Checked;
use crate::sampler::{Case, kinds, spread};
use crate::texts::download;

/// The tokens that a case samples, as the next step embeds them, the last first; and what is read of them then. A token
/// that the host knows stands between them.
fn carried<B: Backend>(
    device: &mut B,
    case: &Case,
    n: usize,
) -> Result<(Vec<f32>, SamplerOutput), DeviceError> {
    let rows = case.rows();
    let mut tokens = device.tokens(rows)?;
    let sampled = case.begun(device, Some(&mut tokens))?;
    let ids: Vec<f32> = (0..n).map(|id| id as f32).collect();
    let table = StoredTensor::from_f32(&ids, vec![n, 1]).expect("the shape fits");
    let tokens_table = device.table(&table)?;
    let embedding =
        Embedding { tokens: tokens_table, scale: 1.0, positions: None, kind: None, width: 1 };
    let mut input = Input::default();
    for from in (0..rows as u32).rev() {
        input.push_sampled(from, 0, 0);
        if from == 1 {
            input.push(n as u32 - 1, 0, 0);
        }
    }
    let mut place = B::Input::default();
    device.upload_input(&input, Some(&tokens), &mut place)?;
    let mut out = device.tensor(rows + 1, 1)?;
    device.embed(&place, &embedding, &mut out)?;
    let embedded = download(device, &out)?;
    let mut output = SamplerOutput::default();
    device.read_sampled(sampled, &mut output)?;
    Ok((embedded, output))
}

/// Few rows, and more than are sampled at once.
fn goes_on(emulator: &Emulator) -> Checked {
    for (n, logits) in [(33, 4 * 64 * 4), (33, 1 << 20), (1000, 1 << 20), (700, 2 * 704 * 4)] {
        let gpu = &mut Gpu::new(emulator.clone(), Precision::F32).with_logits(logits);
        let case = Case::of_one_result(n as u64, n);
        let (got, output) = carried(gpu, &case, n).map_err(|error| error.to_string())?;
        let (expected, _) = carried(&mut Cpu::default(), &case, n).map_err(|it| it.to_string())?;
        if got != expected {
            return Err(format!("{got:?}, not {expected:?} of {n} tokens"));
        }
        let read = (0..case.rows()).rev().map(|row| output.of(row)[0].id as f32);
        let embedded = got.iter().enumerate().filter(|(at, _)| at + 2 != got.len());
        if !read.eq(embedded.map(|(_, id)| *id)) {
            return Err(format!("{got:?} is not what is read: {output:?}"));
        }
        kinds(&spread(7, n), 7, &[1]).check(gpu)?;
    }
    Ok(())
}

#[test]
fn the_next_step_goes_on_with_what_was_sampled() {
    pass(goes_on);
}

#[test]
fn tokens_that_were_not_sampled_are_refused() {
    let Some(emulator) = Emulator::start() else { return };
    let mut gpu = Gpu::new(emulator, Precision::F32);
    let case = Case::of_one_result(1, 9);
    let mut refused = |there: bool, from: u32| {
        let mut tokens = gpu.tokens(case.rows()).unwrap();
        let _unread = case.begun(&mut gpu, Some(&mut tokens)).unwrap();
        let mut input = Input::default();
        input.push_sampled(from, 0, 0);
        let mut place = <Gpu<Emulator> as Backend>::Input::default();
        gpu.upload_input(&input, there.then_some(&tokens), &mut place).unwrap_err().to_string()
    };
    let last = case.rows() as u32;
    assert!(refused(true, last).contains(&format!("1 rows and {last} sampled tokens")));
    assert!(refused(false, 0).contains("1 rows and 0 sampled tokens"));
    let mut few = gpu.tokens(2).unwrap();
    let error = case.begun(&mut gpu, Some(&mut few)).err().unwrap().to_string();
    assert!(error.contains("at most 2 rows"), "{error}");
}

/// What is requested of a driver in order to sample.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Launched(Vec<Launch>),
    Waited,
}

/// The emulator, with a note of the steps that sample.
#[derive(Clone)]
struct Watched(Emulator, Arc<Mutex<Vec<Event>>>);

impl Watched {
    fn note(&self, event: Event) {
        self.1.lock().expect("no thread panics with the lock").push(event);
    }
}

impl Driver for Watched {
    type Memory = <Emulator as Driver>::Memory;
    type Download = <Emulator as Driver>::Download;

    fn alloc(&self, role: Role, bytes: usize) -> Result<Self::Memory, DeviceError> {
        self.0.alloc(role, bytes)
    }

    fn upload(&self, from: &[u8], to: &Self::Memory, offset: usize) -> Result<(), DeviceError> {
        self.0.upload(from, to, offset)
    }

    fn run(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        if launches.iter().any(|launch| launch.kernel == Kernel::PickStats) {
            self.note(Event::Launched(launches.to_vec()));
        }
        self.0.run(launches)
    }

    fn download(&self, _: &Self::Memory, _: usize, _: &mut [u8]) -> Result<(), DeviceError> {
        Err(DeviceError::Failed("all that was launched would be waited for".to_owned()))
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
        self.note(Event::Waited);
        self.0.end_download(copy, to)
    }

    fn shared_per_block(&self) -> usize {
        self.0.shared_per_block()
    }
}

/// In steady decode each step is launched before the last is waited for, by lists of launches that came before: graphs.
#[test]
fn a_step_is_launched_before_the_last_is_waited_for() {
    const STEPS: usize = 8;
    for (order, strategy) in
        [(Order::Forward, Strategy::Greedy), (Order::Reversed, ask::sampled(3, 2))]
    {
        let Some(emulator) = Emulator::start_in(order) else { return };
        let noted = Arc::default();
        let watched = Watched(emulator, Arc::clone(&noted));
        let settings = Settings {
            precision: Precision::Bf16,
            kv_cache_bytes: ask::blocks(96),
            max_batch_tokens: 64,
            max_num_seqs: 4,
            ..Settings::for_cores(1)
        };
        let make = Box::new(move || Ok(Gpu::new(watched, Precision::Bf16)));
        let model = Model::open_on(&Arc::new(ask::folder("llama")), &settings, vec![make]).unwrap();
        let tokens = STEPS as u32;
        let generate = ask::plain("ba ne ko", strategy);
        let request = Generate { max_tokens: tokens, min_tokens: tokens, ..generate };
        let (sender, receiver) = mpsc::channel();
        ask::submit(&model, &Request::Generate(request), 0, &sender);
        let (_, answer) = receiver.recv_timeout(Duration::from_secs(600)).expect("no answer");
        let written = ask::generations(answer);
        assert!(written.iter().all(|it| it.output_tokens == tokens));
        let events = std::mem::take(&mut *noted.lock().expect("no thread panics with the lock"));
        let waits: Vec<bool> = events.iter().map(|event| *event == Event::Waited).collect();
        let steady = [false, true].repeat(STEPS - 1);
        assert_eq!(waits, [&[false][..], &steady, &[true]].concat());
        let steps = events.iter().filter(|event| **event != Event::Waited);
        let steps: Vec<&Event> = steps.skip(2).collect();
        // Two tensors change places in each step.
        assert!(steps.windows(3).all(|it| it[0] == it[2]), "{order:?}: steps differ");
    }
}

pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        kernel: "pick_ids",
        source: "pick.cu",
        from: "row.kind == PICK_SAMPLE || row.wanted == 1",
        to: "row.wanted == 1",
        check: goes_on,
    },
    Mutation {
        kernel: "pick_ids",
        source: "pick.cu",
        from: "row.kind == PICK_SAMPLE || row.wanted == 1",
        to: "row.kind == PICK_SAMPLE",
        check: goes_on,
    },
    Mutation {
        kernel: "pick_ids",
        source: "pick.cu",
        from: "row.kind != PICK_NOTHING && pick_has_choice(results, at)",
        to: "row.kind != PICK_NOTHING",
        check: goes_on,
    },
    Mutation {
        kernel: "embed",
        source: "rows.cu",
        from: "if (id >> 31) id = sampled[id & 0x7fffffffu];",
        to: "id &= 0x7fffffffu;",
        check: goes_on,
    },
];
