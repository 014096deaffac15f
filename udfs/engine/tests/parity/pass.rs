//! One text through a network alone, on any device: no scheduling.

use proofmill_engine::backend::{
    AttentionMetadata, BLOCK_SLOTS, Backend, BlockRef, CacheShape, DeviceError, Input, RowSampling,
    SamplerOutput, SamplingMetadata, SamplingMethod,
};
use proofmill_engine::network::{Network, RequestedRows, Stack, Transformer, Workspace};

/// Most tokens of a text.
pub const ROWS: usize = 256;

/// Tokens in blocks of their own, from block `first` on.
fn place(tokens: &[u32], first: usize) -> (Input, AttentionMetadata) {
    let (mut input, mut metadata) = (Input::default(), AttentionMetadata::default());
    for (index, &token) in tokens.iter().enumerate() {
        input.push(token, index as u32, (first * BLOCK_SLOTS + index) as u32);
    }
    let blocks = tokens
        .chunks(BLOCK_SLOTS)
        .enumerate()
        .map(|(index, slots)| BlockRef { block: (first + index) as u32, used: slots.len() as u32 });
    metadata.push(tokens.len(), blocks);
    (input, metadata)
}

/// Lists that were brought to the device.
fn brought<B: Backend>(
    backend: &mut B,
    input: &Input,
    metadata: &AttentionMetadata,
) -> Result<(B::Input, B::Metadata), DeviceError> {
    let (mut rows, mut keys) = (B::Input::default(), B::Metadata::default());
    backend.upload_input(input, None, &mut rows)?;
    backend.upload_metadata(metadata, &mut keys)?;
    Ok((rows, keys))
}

fn cache<B: Backend>(
    backend: &B,
    network: &Network<B>,
    stack: &Stack<B>,
) -> Result<B::Cache, DeviceError> {
    backend.cache(CacheShape {
        layers: stack.blocks.len(),
        blocks: 2 * ROWS / BLOCK_SLOTS,
        kv_heads: stack.heads.kv_heads,
        head_dim: stack.heads.head_dim,
        precision: network.precision,
    })
}

/// A pass over a stack that has no encoder beside it, and all that it read: a device may not have run
/// it yet.
struct Encoded<B: Backend> {
    work: Workspace<B>,
    _read: (B::Input, B::Metadata, B::Cache),
}

/// Passes `tokens` through a stack; all final rows are chosen.
fn encode<B: Backend>(
    backend: &mut B,
    network: &Network<B>,
    stack: &Stack<B>,
    tokens: &[u32],
) -> Result<Encoded<B>, DeviceError> {
    encode_typed(backend, network, stack, (tokens, 0))
}

/// The same with `offset` added to the positions of the second half.
fn encode_typed<B: Backend>(
    backend: &mut B,
    network: &Network<B>,
    stack: &Stack<B>,
    (tokens, offset): (&[u32], u32),
) -> Result<Encoded<B>, DeviceError> {
    let mut work = Workspace::new(backend, stack, ROWS)?;
    let mut keys = cache(backend, network, stack)?;
    let (mut input, metadata) = place(tokens, 0);
    input.positions.iter_mut().skip(tokens.len() / 2).for_each(|position| *position += offset);
    let (input, metadata) = brought(backend, &input, &metadata)?;
    stack.forward(backend, &input, &metadata, &mut keys, None, RequestedRows::All, &mut work)?;
    stack.finish(backend, &mut work)?;
    Ok(Encoded { work, _read: (input, metadata, keys) })
}

/// Log-probabilities of the whole vocabulary after each of the last `rows` tokens of `written`.
pub fn logprobs<B: Backend>(
    backend: &mut B,
    network: &Network<B>,
    read: &[u32],
    written: &[u32],
    rows: usize,
) -> Result<Vec<Vec<f32>>, DeviceError> {
    let (decoder, encoder) = match &network.transformer {
        Transformer::Encoder(_) => panic!("an encoder writes nothing"),
        Transformer::Decoder(decoder) => (decoder, None),
        Transformer::EncoderDecoder { encoder, decoder } => (decoder, Some(encoder)),
    };
    let mut keys = cache(backend, network, decoder)?;
    let (mut source, mut read_before) = (None, None);
    if let Some(encoder) = encoder {
        let encoded = encode(backend, network, encoder, read)?;
        let (input, own) = place(read, ROWS / BLOCK_SLOTS);
        let mut metadata = AttentionMetadata::default();
        metadata.push(written.len(), own.blocks);
        let (input, metadata) = brought(backend, &input, &metadata)?;
        let mut kv = backend.tensor(ROWS, decoder.blocks[0].cross_kv_width())?;
        decoder.write_cross_kv(
            backend,
            encoder.selected(&encoded.work),
            &input,
            &mut keys,
            &mut kv,
        )?;
        source = Some(metadata);
        read_before = Some((encoded, input, kv));
    }
    let mut work = Workspace::new(backend, decoder, ROWS)?;
    let (input, metadata) = place(written, 0);
    let (input, metadata) = brought(backend, &input, &metadata)?;
    let first = (written.len() - rows) as u32;
    let requested: Vec<u32> = (first..written.len() as u32).collect();
    let requested = RequestedRows::Some { rows: &requested, of: written.len() };
    decoder.forward(
        backend,
        &input,
        &metadata,
        &mut keys,
        source.as_ref(),
        requested,
        &mut work,
    )?;
    decoder.finish(backend, &mut work)?;
    let head = network.head.as_ref().expect("what writes has a head");
    let count = head.linear.outputs as u32;
    let pick = RowSampling::new(SamplingMethod::TopK { count });
    let sampling = SamplingMetadata { rows: vec![pick; rows], ..SamplingMetadata::default() };
    let mut output = SamplerOutput::default();
    let sampled = head.sample(backend, decoder.selected(&work), &sampling, None)?;
    backend.read_sampled(sampled, &mut output)?;
    drop(read_before);
    let row = |index| {
        let mut row = vec![0.0; head.linear.outputs];
        output.of(index).iter().for_each(|token| row[token.id as usize] = token.logprob);
        row
    };
    Ok((0..rows).map(row).collect())
}

/// What the head of an encoder says of a text; if it is `typed`, its second half has the last token type.
pub fn classes<B: Backend>(
    backend: &mut B,
    network: &Network<B>,
    read: &[u32],
    typed: bool,
) -> Result<Vec<f32>, DeviceError> {
    let (Transformer::Encoder(encoder), Some(head)) = (&network.transformer, &network.classifier)
    else {
        panic!("there is no head");
    };
    let offset = head.type_offsets.last().copied().filter(|_| typed).unwrap_or(0);
    let encoded = encode_typed(backend, network, encoder, (read, offset))?;
    let (mut first, mut dense) =
        (backend.tensor(1, encoder.width)?, backend.tensor(1, encoder.width)?);
    let mut out = backend.tensor(1, head.labels.names.len())?;
    let (rows, metadata) = (encoder.selected(&encoded.work), &encoded._read.1);
    head.classify(backend, rows, metadata, (&mut first, &mut dense), &mut out)?;
    let mut classes = Vec::new();
    backend.download(&out, &mut classes)?;
    Ok(classes)
}

/// The final rows of an encoder, one after the other.
pub fn states<B: Backend>(
    backend: &mut B,
    network: &Network<B>,
    read: &[u32],
) -> Result<Vec<f32>, DeviceError> {
    let (Transformer::Encoder(encoder) | Transformer::EncoderDecoder { encoder, .. }) =
        &network.transformer
    else {
        panic!("there is no encoder");
    };
    let encoded = encode(backend, network, encoder, read)?;
    let mut states = Vec::new();
    backend.download(encoder.selected(&encoded.work), &mut states)?;
    Ok(states)
}
