//! What does not fit is refused with its numbers.

use super::given::{empty, input, linear, numbers, refusal, stored, tensor};
use crate::backend::{
    Activation, Attend, AttentionMetadata, Backend, BlockRef, CacheShape, Embedding, KvWrite,
    Precision, SamplingMethod, Segment, Write,
};
use crate::cpu::Cpu;
use crate::cpu::tests::sampling::sampling;

#[test]
fn tensors() {
    let mut cpu = Cpu::default();
    let x = tensor(&numbers(1, 12), 4);
    let square = linear(&numbers(2, 16), 4, None, Precision::F32);
    let mut linear_to =
        |x, out: &mut _, write| refusal(cpu.linear(x, &square, Activation::None, write, out));
    assert!(linear_to(&x, &mut empty(2, 4), Write::Store).contains("at most 2 rows"));
    assert!(linear_to(&x, &mut empty(3, 5), Write::Store).contains("width 4, found 5"));
    assert!(linear_to(&x, &mut empty(3, 4), Write::Add).contains("rows to add to"));
    assert!(linear_to(&tensor(&[0.0; 3], 3), &mut empty(3, 4), Write::Store).contains("found 3"));
    assert!(
        refusal(cpu.index_select(&x, &[3], &mut empty(3, 4))).contains("rows below 3, found 3")
    );
    assert!(refusal(cpu.glu(&x, Activation::Silu, &mut empty(3, 4))).contains("width 8, found 4"));
}

#[test]
fn tokens() {
    let mut cpu = Cpu::default();
    let embedding = Embedding::<Cpu> {
        tokens: stored(&numbers(1, 20), 4),
        scale: 1.0,
        positions: Some((stored(&numbers(1, 12), 4), 2)),
        kind: None,
        width: 4,
    };
    let mut embed = |tokens: &[u32], positions: &[u32]| {
        refusal(cpu.embed(&input(tokens, positions, &[]), &embedding, &mut empty(1, 4)))
    };
    assert!(embed(&[5], &[0]).contains("tokens below 5, found 5"));
    assert!(embed(&[4], &[1]).contains("positions below 1, found 1"));
    assert!(embed(&[4], &[]).contains("1 positions, one per row, found 0"));
}

#[test]
fn caches() {
    let mut cpu = Cpu::default();
    let mut cache = cpu
        .cache(CacheShape {
            layers: 1,
            blocks: 2,
            kv_heads: 1,
            head_dim: 4,
            precision: Precision::F32,
        })
        .unwrap();
    let kv_write = KvWrite { heads: 0, kv_heads: 1, head_dim: 4, norms: None, rope: None };
    let mut kv = tensor(&numbers(1, 8), 8);
    let slots = input(&[], &[], &[32]);
    assert!(
        refusal(cpu.write_kv(&mut kv, &slots, &kv_write, &mut cache, 0))
            .contains("slots below 32, found 32")
    );
    assert!(refusal(cpu.write_kv(&mut kv, &slots, &kv_write, &mut cache, 1)).contains("layer 1"));
    assert!(refusal(cpu.copy_blocks(&mut cache, &[(0, 2)])).contains("blocks below 2, found 2"));

    let attend =
        Attend { heads: 1, kv_heads: 1, head_dim: 4, scale: 1.0, causal: true, bias: None };
    let mut attend_to = |segment: Segment, block: BlockRef| {
        let metadata = AttentionMetadata { segments: vec![segment], blocks: vec![block] };
        let q = tensor(&numbers(1, 8), 4);
        refusal(cpu.attend(&q, &metadata, &attend, &cache, 0, &mut empty(2, 4)))
    };
    let segment = Segment { first_row: 0, rows: 2, first_block: 0, blocks: 1, keys: 3 };
    let block = BlockRef { block: 1, used: 3 };
    assert!(attend_to(segment, BlockRef { block: 2, ..block }).contains("there is no"));
    assert!(attend_to(segment, BlockRef { used: 17, ..block }).contains("there is no"));
    assert!(attend_to(Segment { keys: 4, ..segment }, block).contains("do not fit"));
    assert!(attend_to(Segment { blocks: 2, ..segment }, block).contains("do not fit"));
    assert!(attend_to(Segment { rows: 1, ..segment }, block).contains("of 2 rows, found 1"));
    assert!(
        attend_to(Segment { keys: 1, ..segment }, BlockRef { used: 1, ..block })
            .contains("the last of its keys")
    );
}

#[test]
fn choices() {
    let mut cpu = Cpu::default();
    let head = linear(&numbers(1, 20), 4, None, Precision::F32);
    let mut choose = |hows: &[SamplingMethod]| {
        let x = tensor(&numbers(1, 4), 4);
        refusal(cpu.sample(&x, &head, 1.0, &sampling(hows), None).map(drop))
    };
    assert!(choose(&[]).contains("1 rows to sample, one per row, found 0"));
    assert!(choose(&[SamplingMethod::TopK { count: 0 }]).contains("does not fit"));
    assert!(choose(&[SamplingMethod::Score { token: 5 }]).contains("5 tokens"));
    assert!(choose(&[SamplingMethod::Choices { first: 0, tokens: 1, count: 1 }]).contains("lists"));
}
