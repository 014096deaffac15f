//! Attention, against a plain computation in f64 and against the processor's.

use std::sync::{Arc, Mutex};

use proofmill_engine::backend::{
    Attend, AttentionMetadata, Backend, BlockRef, DeviceError, Input, KvWrite, Precision,
};
use proofmill_engine::cpu::Cpu;
use proofmill_engine::cuda::{Driver, Gpu, GpuMetadata, Launch, Role};

use crate::emulator::{Emulator, pass};
use crate::mutation::Mutation;
use crate::texts::{
    Model, Texts, all_attended, attended, bits, download, filled, input, means, numbers, slots,
    tensor, text,
};

/// Weights in bfloat16 and the result too, see [`near`].
const ROUNDING: f64 = 1.0 / 256.0;
/// What sums in f32 may add to that.
const SUMS: f64 = 1e-5;

fn model(head_dim: usize, precision: Precision) -> Model {
    Model { kv_heads: 1, group: 1, head_dim, causal: true, reach: None, precision }
}

/// Texts with few rows and with many, of one chunk of keys and of several, that begin alike.
fn some(seed: u64) -> Texts {
    let texts = vec![text(23, 1, 1), text(70, 4, 2), text(21, 19, 3), text(131, 1, 4)];
    Texts { texts, shared: 20, seed }
}

/// In f32 the rows are the processor's to 1e-5. In bfloat16, with weights w that are rounded to
/// w (1 + e), |e| <= 2^-8, a mean of values v moves by at most 2^-8 times the mean of |v - mean|;
/// then it is rounded itself.
fn right(emulator: &Emulator, model: Model, texts: &Texts) -> Result<(), String> {
    let mut gpu = Gpu::new(emulator.clone(), model.precision);
    let got = all_attended(&mut gpu, model, texts).map_err(|error| error.to_string())?;
    let fail = |index: usize, wanted: f64| {
        let (row, column) = (index / model.q_width(), index % model.q_width());
        Err(format!("{model:?}: row {row}, column {column}: {} for {wanted}", got[index]))
    };
    if model.precision == Precision::F32 {
        let mut cpu = Cpu::default();
        let wanted = all_attended(&mut cpu, model, texts).map_err(|error| error.to_string())?;
        let far = wanted
            .iter()
            .zip(&got)
            .position(|(x, y)| (x - y).abs().partial_cmp(&1e-5).is_none_or(|o| o.is_gt()));
        return far.map_or(Ok(()), |index| fail(index, f64::from(wanted[index])));
    }
    let wanted = means(model, texts);
    let near = |index: usize| {
        let allowed = ROUNDING * (wanted[index].spread + wanted[index].value.abs()) + SUMS;
        (wanted[index].value - f64::from(got[index])).abs() <= allowed
    };
    match (0..wanted.len().max(got.len())).find(|&index| !near(index)) {
        None => Ok(()),
        Some(index) => fail(index, wanted[index].value),
    }
}

fn narrow_heads(emulator: &Emulator) -> Result<(), String> {
    for head_dim in [8, 40, 64] {
        right(emulator, model(head_dim, Precision::Bf16), &some(1))?;
    }
    Ok(())
}

fn wide_heads(emulator: &Emulator) -> Result<(), String> {
    for head_dim in [80, 128] {
        right(emulator, model(head_dim, Precision::Bf16), &some(2))?;
    }
    Ok(())
}

/// Neither rows of more than 128 numbers nor such as are no multiple of 8 are for tensor cores.
fn other_heads(emulator: &Emulator) -> Result<(), String> {
    for head_dim in [12, 136] {
        right(emulator, model(head_dim, Precision::Int8), &some(3))?;
    }
    Ok(())
}

fn f32_heads(emulator: &Emulator) -> Result<(), String> {
    for head_dim in [7, 40, 136] {
        right(emulator, model(head_dim, Precision::F32), &some(4))?;
    }
    Ok(())
}

fn grouped_without_tiles(emulator: &Emulator) -> Result<(), String> {
    let model = model(12, Precision::Bf16);
    right(emulator, Model { kv_heads: 2, group: 3, reach: Some(4), ..model }, &some(5))
}

/// Drawn texts, placed at random.
fn drawn(emulator: &Emulator) -> Result<(), String> {
    for seed in 1..=6 {
        let draws: Vec<usize> =
            numbers(seed * 1000, 16).iter().map(|x| (x.abs() * 1e6) as usize).collect();
        let texts = draws[..3].iter().enumerate().map(|(i, draw)| {
            let keys = 5 + draw % 146;
            text(keys, 1 + draws[i + 3] % keys.min(80), seed + i as u64)
        });
        let texts = Texts { texts: texts.collect(), shared: draws[6] % 6, seed };
        let model = Model {
            kv_heads: 1 + draws[7] % 2,
            group: 1 + draws[8] % 3,
            head_dim: 8 * (1 + draws[9] % 10),
            causal: draws[10].is_multiple_of(2),
            reach: draws[11].is_multiple_of(2).then_some(draws[12] % 40),
            precision: if draws[13].is_multiple_of(3) { Precision::F32 } else { Precision::Bf16 },
        };
        right(emulator, model, &texts)?;
    }
    Ok(())
}

/// Heads that share keys, biases, rows that read all keys.
fn variants(emulator: &Emulator) -> Result<(), String> {
    for (head_dim, precision) in
        [(16, Precision::Bf16), (72, Precision::Bf16), (20, Precision::F32)]
    {
        let plain = model(head_dim, precision);
        let grouped = Model { kv_heads: 2, group: 3, ..plain };
        right(emulator, grouped, &some(5))?;
        right(emulator, Model { reach: Some(9), ..grouped }, &some(0))?;
        right(emulator, Model { reach: Some(200), causal: false, ..plain }, &some(6))?;
        // More rows than keys, as beams that read one source.
        let beams = Texts { texts: vec![text(5, 9, 1), text(66, 30, 2)], shared: 0, seed: 7 };
        right(emulator, Model { causal: false, ..grouped }, &beams)?;
    }
    Ok(())
}

/// A prompt in one pass, its rows one by one, alone and beside others, wherever the keys lie: the
/// same bits.
fn same(emulator: &Emulator, model: Model) -> Result<(), String> {
    let run = || -> Result<_, DeviceError> {
        let mut gpu = Gpu::new(emulator.clone(), model.precision);
        let prompt = text(75, 70, 8);
        let alone = Texts::one(prompt);
        let whole = all_attended(&mut gpu, model, &alone)?;
        let beside =
            Texts { texts: vec![text(3, 2, 9), prompt, text(80, 1, 10)], shared: 0, seed: 11 };
        let start = 2 * model.q_width();
        let among = all_attended(&mut gpu, model, &beside)?[start..start + whole.len()].to_vec();
        let cache = filled(&mut gpu, model, &alone)?;
        let one_by_one = attended(&mut gpu, model, &steps(&alone), &model.q(&prompt), &cache)?;
        Ok([whole, among, one_by_one])
    };
    let [whole, among, one_by_one] = run().map_err(|error| error.to_string())?;
    for (what, other) in [("beside others", among), ("one by one", one_by_one)] {
        let differs = whole.iter().zip(&other).position(|(x, y)| x.to_bits() != y.to_bits());
        if let Some(index) = differs {
            let row = index / model.q_width();
            return Err(format!("{model:?}: row {row} is another {what}"));
        }
    }
    Ok(())
}

/// Keys of a later chunk, even if they are no numbers, leave the rows alone that do not read them.
fn unread(emulator: &Emulator) -> Result<(), String> {
    let run = |spoiled: bool| -> Result<_, DeviceError> {
        let model = model(72, Precision::Bf16);
        let mut gpu = Gpu::new(emulator.clone(), model.precision);
        let texts = Texts::one(text(70, 50, 8));
        let mut cache = filled(&mut gpu, model, &texts)?;
        if spoiled {
            let mut kv = tensor(&mut gpu, &vec![f32::NAN; 144], 144)?;
            let slots = slots(&texts.blocks().0[0])[69..].to_vec();
            let rows = input(&mut gpu, &Input { slots, ..Input::default() })?;
            let kv_write = KvWrite { heads: 0, kv_heads: 1, head_dim: 72, norms: None, rope: None };
            gpu.write_kv(&mut kv, &rows, &kv_write, &mut cache, 1)?;
            download(&mut gpu, &kv)?;
        }
        attended(&mut gpu, model, &texts.metadata(), &model.q(&texts.texts[0]), &cache)
    };
    let [good, spoiled] = [run(false), run(true)].map(|out| out.map_err(|error| error.to_string()));
    let (good, spoiled) = (good?, spoiled?);
    // The first 44 rows read no more than the first chunk; a warp has some of them and of the others.
    if bits(&good[..44 * 72]) != bits(&spoiled[..44 * 72]) {
        return Err("a row is spoiled by keys of a chunk that it does not read".to_owned());
    }
    if !spoiled[49 * 72..].iter().all(|x| x.is_nan()) {
        return Err("a key that is no number does not show".to_owned());
    }
    Ok(())
}

/// Layouts that do not fit the rows or the cache are errors, not crashes.
fn refused(emulator: &Emulator) -> Result<(), String> {
    let run = || -> Result<_, DeviceError> {
        let model = Model { causal: false, ..model(8, Precision::Bf16) };
        let causal = Model { causal: true, ..model };
        let mut gpu = Gpu::new(emulator.clone(), model.precision);
        let texts = Texts::one(text(5, 2, 1));
        let cache = filled(&mut gpu, model, &texts)?;
        let metadata = |rows, blocks: &[(u32, u32)]| {
            let mut metadata = AttentionMetadata::default();
            metadata.push(rows, blocks.iter().map(|&(block, used)| BlockRef { block, used }));
            metadata
        };
        let q = |rows| numbers(1, rows * model.q_width());
        let mut failed = |model, metadata: &AttentionMetadata, rows| {
            attended(&mut gpu, model, metadata, &q(rows), &cache).is_err()
        };
        let mut torn = metadata(2, &[(1, 3)]);
        torn.segments[0].keys = 4;
        let mut short = metadata(2, &[(1, 3)]);
        short.segments[0].blocks = 2;
        let wide = Model { head_dim: 16, ..model };
        Ok(vec![
            !failed(model, &metadata(2, &[(1, 3)]), 2),
            !failed(model, &metadata(4, &[(1, 3)]), 4),
            failed(causal, &metadata(4, &[(1, 3)]), 4),
            failed(model, &metadata(2, &[(1, 17)]), 2),
            failed(model, &metadata(2, &[(1, 0)]), 2),
            failed(model, &metadata(2, &[(1000, 3)]), 2),
            failed(model, &torn, 2),
            failed(model, &short, 2),
            failed(wide, &metadata(2, &[(1, 3)]), 2),
        ])
    };
    let refused = run().map_err(|error| error.to_string())?;
    match refused.iter().position(|refused| !refused) {
        None => Ok(()),
        Some(index) => Err(format!("number {index} was not as it should")),
    }
}

/// The first `keys` keys of `blocks`.
fn head(blocks: &[BlockRef], keys: u32) -> impl Iterator<Item = BlockRef> {
    let mut left = keys;
    blocks.iter().map_while(move |block| {
        let used = block.used.min(left);
        left -= used;
        (used > 0).then_some(BlockRef { used, ..*block })
    })
}

/// The rows of a causal text, each as a segment of its own that reads the keys up to its own.
fn steps(texts: &Texts) -> AttentionMetadata {
    let mut metadata = AttentionMetadata::default();
    for (text, blocks) in texts.texts.iter().zip(texts.blocks().0) {
        for row in 0..text.rows {
            metadata.push(1, head(&blocks, (text.keys - text.rows + row + 1) as u32));
        }
    }
    metadata
}

/// The emulator, with a note of what it ran.
#[derive(Clone)]
struct Noting(Emulator, Arc<Mutex<Vec<Launch>>>);

impl Driver for Noting {
    type Memory = <Emulator as Driver>::Memory;
    type Download = <Emulator as Driver>::Download;

    fn alloc(&self, role: Role, bytes: usize) -> Result<Self::Memory, DeviceError> {
        self.0.alloc(role, bytes)
    }

    fn upload(&self, from: &[u8], to: &Self::Memory, offset: usize) -> Result<(), DeviceError> {
        self.0.upload(from, to, offset)
    }

    fn run(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        self.1.lock().expect("no thread panics with the lock").extend_from_slice(launches);
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
}

/// A step in which the texts have grown is the same list of launches.
fn same_list(emulator: &Emulator) -> Result<(), String> {
    let run = || -> Result<_, DeviceError> {
        let noted = Arc::default();
        let model = Model { kv_heads: 2, group: 2, ..model(16, Precision::Bf16) };
        let mut gpu = Gpu::new(Noting(emulator.clone(), Arc::clone(&noted)), model.precision);
        let end = Texts::one(text(70, 4, 3));
        let cache = filled(&mut gpu, model, &end)?;
        let mut there = GpuMetadata::default();
        let q = tensor(&mut gpu, &numbers(1, 4 * model.q_width()), model.q_width())?;
        let mut out = gpu.tensor(4, model.q_width())?;
        let attend =
            Attend { heads: 4, kv_heads: 2, head_dim: 16, scale: 1.0, causal: true, bias: None };
        let blocks = &end.blocks().0[0];
        let mut lists = Vec::new();
        for keys in [39, 40, 41, 57, 64] {
            let mut metadata = AttentionMetadata::default();
            for less in 0..4 {
                metadata.push(1, head(blocks, keys - less));
            }
            noted.lock().expect("no thread panics with the lock").clear();
            gpu.upload_metadata(&metadata, &mut there)?;
            gpu.attend(&q, &there, &attend, &cache, 1, &mut out)?;
            download(&mut gpu, &out)?;
            lists.push(noted.lock().expect("no thread panics with the lock").clone());
        }
        Ok(lists)
    };
    // The first step also rounds the queries, which then stay as they are.
    let lists = run().map_err(|error| error.to_string())?.split_off(1);
    match lists.iter().position(|list| *list != lists[0]) {
        None => Ok(()),
        Some(index) => Err(format!("list {index} is {:?} after {:?}", lists[index], lists[0])),
    }
}

fn same_narrow(emulator: &Emulator) -> Result<(), String> {
    same(emulator, Model { group: 2, reach: Some(30), ..model(24, Precision::Bf16) })
}

fn same_wide(emulator: &Emulator) -> Result<(), String> {
    same(emulator, model(72, Precision::Bf16))
}

fn same_without_tiles(emulator: &Emulator) -> Result<(), String> {
    same(emulator, model(4, Precision::Bf16))?;
    same(emulator, model(4, Precision::F32))
}

#[test]
fn heads_of_up_to_64() {
    pass(narrow_heads);
}

#[test]
fn heads_of_up_to_128() {
    pass(wide_heads);
}

#[test]
fn heads_of_other_widths() {
    pass(other_heads);
}

#[test]
fn heads_in_f32() {
    pass(f32_heads);
}

#[test]
fn groups_biases_and_all_keys() {
    pass(variants);
}

#[test]
fn drawn_texts_and_models() {
    pass(drawn);
    pass(grouped_without_tiles);
}

#[test]
fn layouts_that_do_not_fit_are_refused() {
    pass(refused);
}

#[test]
fn later_keys_leave_rows_alone() {
    pass(unread);
}

#[test]
fn longer_texts_are_the_same_list_of_launches() {
    pass(same_list);
}

#[test]
fn the_bits_of_a_row_are_its_own() {
    pass(same_narrow);
    pass(same_wide);
    pass(same_without_tiles);
}

pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        kernel: "attend_keys_64",
        source: "attend.cu",
        from: "fmaxf(fmaxf(__uint_as_float(all.x), __uint_as_float(all.y)),",
        to: "fmaxf(fmaxf(__uint_as_float(all.x), __uint_as_float(all.x)),",
        check: same_narrow,
    },
    Mutation {
        kernel: "attend_keys_64",
        source: "attend.cu",
        from: "u32 key = warp * 16 + t * 8 + lane % 4 * 2;",
        to: "u32 key = warp * 16 + t * 8 + lane % 4;",
        check: narrow_heads,
    },
    Mutation {
        kernel: "attend_keys_128",
        source: "attend.cu",
        from: "attend_write<COLUMNS / 8>(a, query, running, out, warp * COLUMNS);",
        to: "attend_write<COLUMNS / 8>(a, query, running, out, 0);",
        check: wide_heads,
    },
    Mutation {
        kernel: "attend_keys_64",
        source: "attend.cu",
        from: "if (first + CHUNK <= least_read) {",
        to: "if (first < least_read) {",
        check: narrow_heads,
    },
    Mutation {
        kernel: "attend_keys_64",
        source: "attend.cu",
        from: "p[step + 1][0] = two[2], p[step + 1][2] = two[3];",
        to: "p[step + 1][0] = two[3], p[step + 1][2] = two[2];",
        check: narrow_heads,
    },
    Mutation {
        kernel: "attend_keys_128",
        source: "attend.cu",
        from: "running.sum = fmaf(sum, now, running.sum * before);",
        to: "running.sum = sum;",
        check: wide_heads,
    },
    Mutation {
        kernel: "attend_rows_64",
        source: "attend.cu",
        from: "u32 part = blockIdx.x % a.group,",
        to: "u32 part = 0 * blockIdx.x,",
        check: variants,
    },
    Mutation {
        kernel: "attend_rows_64",
        source: "attend.cu",
        from: "apart < -reach ? 0 :",
        to: "apart < -reach ? 1 :",
        check: variants,
    },
    Mutation {
        kernel: "attend_rows_128",
        source: "attend.cu",
        from: "for (u32 column = 0; column < DIM; column += 32) {",
        to: "for (u32 column = 0; column < DIM - 32; column += 32) {",
        check: wide_heads,
    },
    Mutation {
        kernel: "attend_rows_128",
        source: "attend.cu",
        from: "if (first < warp_reads) {",
        to: "if (first + CHUNK < warp_reads) {",
        check: wide_heads,
    },
    Mutation {
        kernel: "attend_rows_128",
        source: "attend.cu",
        from: "if (key >= query.reads) return -INFINITE;",
        to: "if (key > query.reads) return -INFINITE;",
        check: wide_heads,
    },
    Mutation {
        kernel: "attend_rows_128",
        source: "attend.cu",
        from: "if (m.reads) out[t][i]",
        to: "out[t][i]",
        check: unread,
    },
    Mutation {
        kernel: "attend_plain_f32",
        source: "attend_plain.cu",
        from: "float before = exponential(top - largest);",
        to: "float before = 1.f;",
        check: f32_heads,
    },
    Mutation {
        kernel: "attend_plain_f32",
        source: "attend_plain.cu",
        from: "own_q[i] = i < head_dim ? plain_number(from + i) : 0.f;",
        to: "own_q[i] = i + 1 < head_dim ? plain_number(from + i) : 0.f;",
        check: f32_heads,
    },
    Mutation {
        kernel: "attend_plain_bf16",
        source: "attend_plain.cu",
        from: "widened((u16)(words[i] >> 16))",
        to: "widened((u16)words[i])",
        check: other_heads,
    },
    Mutation {
        kernel: "attend_plain_bf16",
        source: "attend_plain.cu",
        from: "u32 kv_head = head / group;",
        to: "u32 kv_head = head % kv_heads;",
        check: grouped_without_tiles,
    },
];
