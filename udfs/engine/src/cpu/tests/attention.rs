//! Keys, values and attention.

use proptest::prelude::*;

use super::given::{assert_close, bits, devices, empty, input, numbers, tensor, vector};
use crate::backend::{
    Attend, AttentionMetadata, BLOCK_SLOTS, Backend, BlockRef, CacheShape, KvWrite, Precision,
    RelativeBias,
};
use crate::cpu::{Cache, Cpu, Tensor};

/// One text: keys and values of its tokens, and queries of its last rows.
#[derive(Clone, Debug)]
struct Text {
    keys: usize,
    rows: usize,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Model {
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    causal: bool,
    reach: Option<usize>,
}

const SCALE: f32 = 0.3;

impl Model {
    fn heads(self) -> usize {
        self.kv_heads * self.group
    }

    fn append(self) -> KvWrite<'static, Cpu> {
        let Self { kv_heads, head_dim, .. } = self;
        KvWrite { heads: 0, kv_heads, head_dim, norms: None, rope: None }
    }

    fn bias(self, seed: u64) -> Vec<f32> {
        numbers(seed, self.heads() * (2 * self.reach.unwrap_or(0) + 1))
    }
}

impl Text {
    fn kv(&self, model: Model) -> Vec<f32> {
        numbers(self.seed, self.keys * 2 * model.kv_heads * model.head_dim)
    }

    fn q(&self, model: Model) -> Vec<f32> {
        numbers(self.seed ^ 99, self.rows * model.heads() * model.head_dim)
    }
}

/// Where the keys of a text lie: how much of each block is used, decided by `seed`.
fn place(texts: &[Text], seed: u64) -> (AttentionMetadata, Vec<u32>, usize) {
    let mut metadata = AttentionMetadata::default();
    let mut slots = Vec::new();
    let lengths: Vec<usize> = numbers(seed, 400)
        .iter()
        .map(|x| if seed == 0 { BLOCK_SLOTS } else { 1 + (x.abs() * 15.99) as usize })
        .collect();
    let mut blocks = 0;
    for text in texts {
        let mut own = Vec::new();
        let mut left = text.keys;
        while left > 0 {
            let used = lengths[blocks % lengths.len()].min(left);
            // Blocks are taken from the end, so that their order is not that of the text.
            let block = 400 - blocks;
            own.push(BlockRef { block: block as u32, used: used as u32 });
            slots.extend((0..used).map(|slot| (block * BLOCK_SLOTS + slot) as u32));
            left -= used;
            blocks += 1;
        }
        metadata.push(text.rows, own);
    }
    (metadata, slots, 401)
}

/// How keys and values are kept, and whether they are rounded to 16 bits before.
#[derive(Clone, Copy)]
struct Kept {
    precision: Precision,
    rounded: bool,
}

const EXACT: Kept = Kept { precision: Precision::F32, rounded: false };

fn filled(
    cpu: &mut Cpu,
    model: Model,
    texts: &[Text],
    slots: &[u32],
    blocks: usize,
    kept: Kept,
) -> Cache {
    let Model { kv_heads, head_dim, .. } = model;
    let precision = kept.precision;
    let mut cache =
        cpu.cache(CacheShape { layers: 2, blocks, kv_heads, head_dim, precision }).unwrap();
    let mut kv: Vec<f32> = texts.iter().flat_map(|text| text.kv(model)).collect();
    if kept.rounded {
        kv.iter_mut().for_each(|x| *x = half::bf16::from_f32(*x).to_f32());
    }
    let mut kv = tensor(&kv, 2 * kv_heads * head_dim);
    cpu.write_kv(&mut kv, &input(&[], &[], slots), &model.append(), &mut cache, 1).unwrap();
    cache
}

fn attended(cpu: &mut Cpu, model: Model, texts: &[Text], seed: u64) -> Tensor {
    attended_over(cpu, model, texts, seed, EXACT)
}

fn attended_over(cpu: &mut Cpu, model: Model, texts: &[Text], seed: u64, kept: Kept) -> Tensor {
    let (metadata, slots, blocks) = place(texts, seed);
    let cache = filled(cpu, model, texts, &slots, blocks, kept);
    let bias =
        RelativeBias::<Cpu> { weights: vector(&model.bias(7)), reach: model.reach.unwrap_or(0) };
    let attend = Attend {
        heads: model.heads(),
        kv_heads: model.kv_heads,
        head_dim: model.head_dim,
        scale: SCALE,
        causal: model.causal,
        bias: model.reach.map(|_| &bias),
    };
    let width = model.heads() * model.head_dim;
    let q: Vec<f32> = texts.iter().flat_map(|text| text.q(model)).collect();
    let q = tensor(&q, width);
    let mut out = empty(q.rows(), width);
    cpu.attend(&q, &metadata, &attend, &cache, 1, &mut out).unwrap();
    out
}

/// One text in f64.
fn exact(model: Model, text: &Text) -> Vec<f64> {
    let Model { kv_heads, group, head_dim: dim, causal, reach } = model;
    let (kv, q, bias) = (text.kv(model), text.q(model), model.bias(7));
    let mut out = Vec::new();
    for row in 0..text.rows {
        let query_place = (text.keys + row).saturating_sub(text.rows);
        let keys = if causal { query_place + 1 } else { text.keys };
        for head in 0..kv_heads * group {
            let q = &q[(row * kv_heads * group + head) * dim..][..dim];
            let k = |key: usize| &kv[(key * 2 * kv_heads + head / group) * dim..][..dim];
            let v = |key: usize| &kv[(key * 2 * kv_heads + kv_heads + head / group) * dim..][..dim];
            let logit = |key: usize| {
                let dot: f64 =
                    q.iter().zip(k(key)).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
                let bias = reach.map_or(0.0, |reach| {
                    let far = reach as isize;
                    let distance = (key as isize - query_place as isize).clamp(-far, far);
                    bias[head * (2 * reach + 1) + (distance + far) as usize]
                });
                dot * f64::from(SCALE) + f64::from(bias)
            };
            let weights: Vec<f64> = (0..keys).map(|key| logit(key).exp()).collect();
            let total: f64 = weights.iter().sum();
            for d in 0..dim {
                let sum: f64 = (0..keys).map(|key| weights[key] * f64::from(v(key)[d])).sum();
                out.push(sum / total);
            }
        }
    }
    out
}

prop_compose! {
    fn model()(
        kv_heads in 1..4_usize,
        group in 1..5_usize,
        head_dim in prop_oneof![1..40_usize, Just(64), Just(80)],
        causal: bool,
        reach in prop::option::of(0..20_usize),
    ) -> Model {
        Model { kv_heads, group, head_dim, causal, reach }
    }
}

prop_compose! {
    fn text()(keys in 1..90_usize, share in 0.0..1.0_f64, seed: u64) -> Text {
        Text { keys, rows: 1 + (share * (keys - 1) as f64) as usize, seed }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn attention_is_right_and_the_same_everywhere(
        model in model(),
        texts in prop::collection::vec(text(), 1..4),
        seed: u64,
    ) {
        let wanted: Vec<f64> = texts.iter().flat_map(|text| exact(model, text)).collect();
        let mut first = None;
        for mut cpu in devices() {
            let out = attended(&mut cpu, model, &texts, seed);
            assert_close(out.data(), &wanted, 1e-6);
            prop_assert_eq!(first.get_or_insert(bits(&out)), &bits(&out), "{:?}", cpu.isa());
        }
    }

    #[test]
    fn where_keys_lie_and_who_is_beside_does_not_show(
        model in model(),
        texts in prop::collection::vec(text(), 2..4),
        seed: u64,
    ) {
        for mut cpu in devices() {
            let whole = attended(&mut cpu, model, &texts, 0);
            let scattered = attended(&mut cpu, model, &texts, seed | 1);
            prop_assert_eq!(bits(&whole), bits(&scattered));
            let alone: Vec<u32> = texts
                .iter()
                .flat_map(|text| bits(&attended(&mut cpu, model, std::slice::from_ref(text), 0)))
                .collect();
            prop_assert_eq!(bits(&whole), alone);
        }
    }

    #[test]
    fn sixteen_bits_hold_what_is_rounded_to_them(
        model in model(),
        texts in prop::collection::vec(text(), 1..4),
        seed: u64,
    ) {
        for mut cpu in devices() {
            let wide = Kept { precision: Precision::F32, rounded: true };
            let narrow = Kept { precision: Precision::Int8, rounded: false };
            let wide = attended_over(&mut cpu, model, &texts, seed, wide);
            let narrow = attended_over(&mut cpu, model, &texts, seed, narrow);
            prop_assert_eq!(bits(&wide), bits(&narrow), "{:?}", cpu.isa());
        }
    }

    #[test]
    fn a_prompt_in_one_pass_or_row_by_row(model in model(), text in text(), seed: u64) {
        let model = Model { causal: true, ..model };
        let mut cpu = Cpu::default();
        let text = Text { rows: text.keys, ..text };
        let whole = attended(&mut cpu, model, std::slice::from_ref(&text), seed);
        // The last row alone: a step of a generation.
        let (metadata, slots, blocks) = place(std::slice::from_ref(&text), seed);
        let cache = filled(&mut cpu, model, std::slice::from_ref(&text), &slots, blocks, EXACT);
        let mut step = AttentionMetadata::default();
        step.push(1, metadata.blocks.iter().copied());
        let bias = RelativeBias::<Cpu> {
            weights: vector(&model.bias(7)),
            reach: model.reach.unwrap_or(0),
        };
        let attend = Attend {
            heads: model.heads(),
            kv_heads: model.kv_heads,
            head_dim: model.head_dim,
            scale: SCALE,
            causal: true,
            bias: model.reach.map(|_| &bias),
        };
        let width = model.heads() * model.head_dim;
        let q = tensor(&text.q(model)[(text.rows - 1) * width..], width);
        let mut out = empty(1, width);
        cpu.attend(&q, &step, &attend, &cache, 1, &mut out).unwrap();
        prop_assert_eq!(out.row(0), whole.row(text.rows - 1));
    }
}

#[test]
fn later_keys_cannot_spoil_earlier_rows() {
    let model = Model { kv_heads: 1, group: 1, head_dim: 8, causal: true, reach: None };
    let text = Text { keys: 20, rows: 20, seed: 1 };
    for mut cpu in devices() {
        let (metadata, slots, blocks) = place(std::slice::from_ref(&text), 0);
        let good = filled(&mut cpu, model, std::slice::from_ref(&text), &slots, blocks, EXACT);
        let mut bad = filled(&mut cpu, model, std::slice::from_ref(&text), &slots, blocks, EXACT);
        let mut kv = tensor(&[f32::NAN; 16], 16);
        let last = input(&[], &[], &slots[19..]);
        cpu.write_kv(&mut kv, &last, &model.append(), &mut bad, 1).unwrap();
        let attend =
            Attend { heads: 1, kv_heads: 1, head_dim: 8, scale: 1.0, causal: true, bias: None };
        let q = tensor(&text.q(model), 8);
        let (mut a, mut b) = (empty(20, 8), empty(20, 8));
        cpu.attend(&q, &metadata, &attend, &good, 1, &mut a).unwrap();
        cpu.attend(&q, &metadata, &attend, &bad, 1, &mut b).unwrap();
        assert_eq!(bits(&a)[..19 * 8], bits(&b)[..19 * 8]);
        assert!(b.row(19).iter().all(|x| x.is_nan()));
    }
}

#[test]
fn copied_blocks_hold_the_same() {
    let model = Model { kv_heads: 2, group: 1, head_dim: 8, causal: false, reach: None };
    let text = Text { keys: 20, rows: 3, seed: 5 };
    let mut cpu = Cpu::default();
    let mut cache = filled(
        &mut cpu,
        model,
        std::slice::from_ref(&text),
        &(0..20).collect::<Vec<_>>(),
        8,
        EXACT,
    );
    cpu.copy_blocks(&mut cache, &[(0, 5), (1, 2)]).unwrap();
    let attend =
        Attend { heads: 2, kv_heads: 2, head_dim: 8, scale: SCALE, causal: false, bias: None };
    let q = tensor(&text.q(model), 16);
    let mut outs = [[0, 1], [5, 2]].map(|blocks| {
        let mut metadata = AttentionMetadata::default();
        let used = [16, 4];
        metadata.push(3, (0..2).map(|i| BlockRef { block: blocks[i], used: used[i] }));
        let mut out = empty(3, 16);
        cpu.attend(&q, &metadata, &attend, &cache, 1, &mut out).unwrap();
        out
    });
    assert_eq!(bits(&outs[0]), bits(&outs[1]));
    assert_close(outs[0].data_mut(), &exact(model, &text), 1e-6);
}
