//! Logits, against transformers, through the network alone: no scheduling.

use proofmill_engine::backend::{
    BLOCK_SLOTS, Backend, BlockRef, CacheShape, How, Input, Layout, Pick, Picked, Picks, Precision,
};
use proofmill_engine::checkpoint::{Family, Folder, Special};
use proofmill_engine::cpu::Cpu;
use proofmill_engine::family;
use proofmill_engine::network::{Network, Reader, Stack, Workspace};

use crate::golden::{self, Forward, Kind, Writer};
use crate::near::relative_error;

const ROWS: usize = 256;

/// Tokens in blocks of their own, from block `first` on.
fn place(tokens: &[u32], first: usize) -> (Input, Layout) {
    let (mut input, mut layout) = (Input::default(), Layout::default());
    for (index, &token) in tokens.iter().enumerate() {
        input.push(token, index as u32, (first * BLOCK_SLOTS + index) as u32);
    }
    let blocks = tokens
        .chunks(BLOCK_SLOTS)
        .enumerate()
        .map(|(index, slots)| BlockRef { block: (first + index) as u32, used: slots.len() as u32 });
    layout.push(tokens.len(), blocks);
    (input, layout)
}

fn cache(backend: &Cpu, stack: &Stack<Cpu>) -> <Cpu as Backend>::Cache {
    let shape = CacheShape {
        layers: stack.blocks.len(),
        blocks: 2 * ROWS / BLOCK_SLOTS,
        kv_heads: stack.heads.kv_heads,
        head_dim: stack.heads.head_dim,
        precision: Precision::F32,
    };
    backend.cache(shape).unwrap()
}

/// Log-probabilities of the whole vocabulary after each of the last `rows` tokens.
fn logprobs(network: &Network<Cpu>, read: &[u32], written: &[u32], rows: usize) -> Vec<Vec<f32>> {
    let mut cpu = Cpu::default();
    let (decoder, source) = match &network.reader {
        Reader::Encoder(_) => panic!("an encoder writes nothing"),
        Reader::Decoder(decoder) => (decoder, None),
        Reader::EncoderDecoder { encoder, decoder } => (decoder, Some(encoder)),
    };
    let mut keys = cache(&cpu, decoder);
    let mut device_layout = Layout::default();
    if let Some(encoder) = source {
        let mut work = Workspace::new(&cpu, encoder, ROWS).unwrap();
        let (input, layout) = place(read, ROWS / BLOCK_SLOTS);
        let (own_input, own_layout) = place(read, 0);
        let mut own = cache(&cpu, encoder);
        encoder.forward(&mut cpu, &own_input, &own_layout, &mut own, None, &mut work).unwrap();
        encoder.choose(&mut cpu, None, &mut work).unwrap();
        let mut kv = cpu.tensor(ROWS, decoder.blocks[0].remembered_width()).unwrap();
        let encoded = encoder.chosen(&work);
        decoder.remember(&mut cpu, encoded, &input, &mut keys, &mut kv).unwrap();
        device_layout = Layout::default();
        device_layout.push(written.len(), layout.blocks);
    }
    let mut work = Workspace::new(&cpu, decoder, ROWS).unwrap();
    let (input, layout) = place(written, 0);
    let source = source.map(|_| &device_layout);
    decoder.forward(&mut cpu, &input, &layout, &mut keys, source, &mut work).unwrap();
    let first = (written.len() - rows) as u32;
    let asked: Vec<u32> = (first..written.len() as u32).collect();
    decoder.choose(&mut cpu, Some(&asked), &mut work).unwrap();
    let head = network.head.as_ref().unwrap();
    let count = head.linear.outputs as u32;
    let pick = Pick { how: How::Top { count }, first_banned: 0, banned: 0 };
    let picks = Picks { picks: vec![pick; rows], tokens: Vec::new() };
    let mut picked = Picked::default();
    head.pick(&mut cpu, decoder.chosen(&work), &picks, &mut picked).unwrap();
    let row = |index| {
        let mut row = vec![0.0; head.linear.outputs];
        picked.of(index).iter().for_each(|token| row[token.id as usize] = token.logprob);
        row
    };
    (0..rows).map(row).collect()
}

/// Logits to log-probabilities, which is all that the engine gives away.
fn normalized(logits: &[f32]) -> Vec<f32> {
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    logits.iter().map(|&logit| (f64::from(logit) - sum.ln()) as f32).collect()
}

fn written(writer: &Writer, special: &Special, it: &Forward) -> (Vec<u32>, Vec<u32>) {
    let read = writer.texts[it.text].ids.clone();
    match writer.kind {
        Kind::Seq2seq => (read, [&[special.start.unwrap()], &it.forced[..]].concat()),
        Kind::Causal | Kind::Encoder => (Vec::new(), read),
    }
}

#[test]
fn logits_are_those_of_transformers() {
    let mut worst = Vec::new();
    for path in golden::checkpoints() {
        if golden::kind(&path) == Kind::Encoder {
            continue;
        }
        let (writer, tensors) = golden::writer(&path);
        let folder = Folder::open(&path).unwrap();
        let special = Special::read(&folder).unwrap();
        let network = family::load(&folder, &Cpu::default(), Precision::F32, ROWS).unwrap();
        let tolerance = if folder.family() == Family::T5 { 3e-5 } else { 1e-5 };
        let mut largest: f64 = 0.0;
        for (number, it) in writer.forward.iter().enumerate() {
            let theirs = tensors.logits(number);
            let (read, written) = written(&writer, &special, it);
            let rows = theirs.rows().len();
            assert_eq!(it.first + rows, written.len());
            for (ours, theirs) in
                logprobs(&network, &read, &written, rows).iter().zip(theirs.rows())
            {
                let error = relative_error(ours, &normalized(theirs));
                assert!(error < tolerance, "{path:?} text {}: {error:e}", it.text);
                largest = largest.max(error);
            }
        }
        worst.push(format!("{} {largest:.1e}", path.file_name().unwrap().display()));
    }
    // Seen with `--nocapture`; `compare.md` quotes it.
    println!("largest relative errors: {}", worst.join(", "));
}
