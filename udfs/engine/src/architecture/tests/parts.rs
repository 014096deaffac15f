//! Which tensor goes where.

use serde_json::json;

use super::configs::{self, Tiny};
use super::plain::{Matrix, Plain};
use crate::architecture::load;
use crate::backend::{Activation, NormKind, Pool, Precision};
use crate::checkpoint::tests::made::numbers;
use crate::checkpoint::{VectorMode, VectorSettings};
use crate::network::{Network, Stack, Transformer};

/// Loads a model for texts of up to 100 tokens.
fn loaded(tiny: &Tiny) -> Network<Plain> {
    let made = tiny.make();
    let network = load(&made.open().unwrap(), &Plain, Precision::F32, 100);
    network.unwrap_or_else(|error| panic!("{error}"))
}

fn stack(network: &Network<Plain>) -> &Stack<Plain> {
    match &network.transformer {
        Transformer::Encoder(stack) | Transformer::Decoder(stack) => stack,
        Transformer::EncoderDecoder { decoder, .. } => decoder,
    }
}

/// The numbers of several tensors of the same size, one after the other.
fn several(names: &[&str], count: usize) -> Vec<f32> {
    names.iter().flat_map(|name| numbers(name, count)).collect()
}

fn assert_matrix(matrix: &Matrix, outputs: usize, inputs: usize, values: &[f32]) {
    assert_eq!((matrix.outputs, matrix.inputs), (outputs, inputs));
    assert_eq!(matrix.values, values);
}

#[test]
fn every_family_loads_under_its_usual_names() {
    let all = [
        (configs::t5(false), None),
        (configs::t5(true), None),
        (configs::bart(), Some(8)),
        (configs::bert(), Some(8)),
        (configs::bert2bert(), Some(8)),
        (configs::dpr("question_encoder.bert_model.", "DPRQuestionEncoder"), Some(8)),
        (configs::dpr("ctx_encoder.bert_model.", "DPRContextEncoder"), Some(8)),
        (configs::roberta(), Some(6)),
        (
            configs::roberta()
                .with("model_type", json!("xlm-roberta"))
                .with("architectures", json!(["XLMRobertaModel"])),
            Some(6),
        ),
        (configs::bert_classifier(), Some(8)),
        (configs::roberta_classifier(), Some(6)),
        (configs::opt(4), Some(8)),
        (configs::opt(2), Some(8)),
        (configs::gpt2(), Some(8)),
        (configs::llama(), Some(16)),
        (configs::mistral(), Some(16)),
        (configs::qwen2(), Some(16)),
        (configs::qwen3(), Some(16)),
    ];
    for (tiny, positions) in all {
        assert_eq!(loaded(&tiny).positions, positions, "{}", tiny.config);
    }
}

#[test]
fn a_head_has_its_classes_and_a_part_of_the_positions_for_each_type() {
    let network = loaded(&configs::bert_classifier());
    let head = network.classifier.as_ref().unwrap();
    assert_eq!(
        (head.out.outputs, head.labels.names.len(), &head.type_offsets[..]),
        (3, 3, &[0, 8][..])
    );
    let Some((table, 0)) = &stack(&network).embedding.positions else { panic!("positions") };
    assert!(stack(&network).embedding.kind.is_none());
    let [places, types] =
        ["position", "token_type"].map(|name| format!("bert.embeddings.{name}_embeddings.weight"));
    let (places, types) = (numbers(&places, 32), numbers(&types, 8));
    let expected: Vec<f32> = types
        .chunks(4)
        .flat_map(|kind| {
            places.chunks(4).flat_map(move |row| row.iter().zip(kind).map(|(a, b)| a + b))
        })
        .collect();
    assert_eq!((table.rows(), table.values()), (16, expected));
    let network = loaded(&configs::roberta_classifier());
    let head = network.classifier.as_ref().unwrap();
    assert_eq!(
        (head.out.outputs, &head.labels.names[..], &head.type_offsets[..]),
        (1, &["fits".to_owned()][..], &[0][..])
    );
    assert!(loaded(&configs::bert()).classifier.is_none());
}

#[test]
fn positions_of_roberta_begin_behind_the_padding() {
    let first = |tiny: &Tiny| stack(&loaded(tiny)).embedding.positions.as_ref().unwrap().1;
    assert_eq!(first(&configs::roberta()), 2);
    assert_eq!(first(&configs::roberta().with("pad_token_id", json!(4))), 5);
    assert_eq!(first(&configs::bert()), 0);
}

#[test]
fn every_missing_tensor_is_found_out() {
    let all = [
        configs::bert_classifier(),
        configs::roberta_classifier(),
        configs::t5(true),
        configs::bart().without("final_logits_bias"),
        configs::bert(),
        configs::bert2bert(),
        configs::opt(4),
        configs::opt(2),
        configs::gpt2(),
        configs::llama(),
        configs::qwen2(),
        configs::qwen3(),
    ];
    for tiny in all {
        let names: Vec<String> = tiny.tensors.iter().map(|(name, _)| name.clone()).collect();
        for name in names.iter().filter(|name| !name.starts_with("pooler.")) {
            let less = Tiny { config: tiny.config.clone(), tensors: tiny.tensors.clone() };
            let made = less.without(name).make();
            let network = load(&made.open().unwrap(), &Plain, Precision::F32, 100);
            let why = made.why(network);
            let start = format!("./model.safetensors: no tensor `{name}`");
            assert!(why.starts_with(&start), "{name}: {why}");
        }
    }
}

#[test]
fn other_prefixes_are_found_out() {
    loaded(&configs::bart().renamed("model.", ""));
    loaded(&configs::bert().renamed("", "bert."));
    loaded(&configs::opt(4).renamed("model.", ""));
    loaded(&configs::gpt2().renamed("transformer.", ""));
    let bare = configs::llama().renamed("model.", "").without("lm_head.weight");
    let bare = bare.with("architectures", json!(["LlamaModel"]));
    assert!(loaded(&bare).head.is_none());
}

#[test]
fn t5_is_read_as_it_is_meant() {
    let network = loaded(&configs::t5(true));
    let Transformer::EncoderDecoder { encoder, decoder } = &network.transformer else { panic!() };
    assert!(!encoder.causal && decoder.causal && encoder.norm_first);
    assert_eq!(decoder.heads.scale, 1.0);
    assert_eq!(encoder.embedding.tokens.values(), numbers("shared.weight", 28));
    let block = &decoder.blocks[0];
    let at = "decoder.block.0.layer";
    let names = ["q", "k", "v"].map(|name| format!("{at}.0.SelfAttention.{name}.weight"));
    let [q, k, v] = names.each_ref().map(String::as_str);
    assert_matrix(&block.attention.qkv.matrix, 18, 4, &several(&[q, k, v], 24));
    let cross = block.cross.as_ref().unwrap();
    let names = ["k", "v"].map(|name| format!("{at}.1.EncDecAttention.{name}.weight"));
    let [k, v] = names.each_ref().map(String::as_str);
    assert_matrix(&cross.kv.matrix, 12, 4, &several(&[k, v], 24));
    let names = ["wi_0", "wi_1"].map(|name| format!("{at}.2.DenseReluDense.{name}.weight"));
    let [gate, up] = names.each_ref().map(String::as_str);
    assert_matrix(&block.mlp.up.matrix, 10, 4, &several(&[gate, up], 20));
    assert!(block.mlp.gated);
    assert_eq!(block.mlp.activation, Activation::GeluTanh);
    assert_eq!(block.mlp.norm.weight, numbers(&format!("{at}.2.layer_norm.weight"), 4));
    assert_eq!(block.mlp.norm.kind, NormKind::Rms);
    assert_eq!(stack(&loaded(&configs::t5(false))).blocks[0].mlp.activation, Activation::Relu);
}

#[test]
fn t5_scales_its_logits_only_where_it_should() {
    let scale = |tiny: &Tiny| loaded(tiny).head.unwrap().scale;
    assert_eq!(scale(&configs::t5(false)), 0.5);
    let untied = configs::t5(true).with("tie_word_embeddings", json!(false));
    assert_eq!(scale(&untied), 1.0);
    let new = configs::t5(true).with("tie_word_embeddings", json!(true));
    assert_eq!(scale(&new.with("scale_decoder_outputs", json!(false))), 1.0);
    let mut own = configs::t5(false);
    own.add("lm_head.weight", &[7, 4]);
    let head = loaded(&own).head.unwrap();
    assert_matrix(&head.linear.matrix, 7, 4, &numbers("lm_head.weight", 28));
    assert_eq!(head.scale, 0.5);
}

#[test]
fn t5_distances_have_the_numbers_of_their_buckets() {
    let network = loaded(&configs::t5(false));
    let Transformer::EncoderDecoder { encoder, decoder } = &network.transformer else { panic!() };
    let name = |stack: &str| {
        format!("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    };
    // Four buckets: at the same place, before by any distance, (0 again), after by any distance.
    let both = encoder.relative.as_ref().unwrap();
    let values = numbers(&name("encoder"), 8);
    let of = |head: usize, buckets: &[usize]| -> Vec<f32> {
        buckets.iter().map(|bucket| values[bucket * 2 + head]).collect()
    };
    assert_eq!(both.reach, 1);
    assert_eq!(both.weights, [of(0, &[1, 0, 3]), of(1, &[1, 0, 3])].concat());
    // All four for what comes before; the last from a distance of 4 on.
    let before = decoder.relative.as_ref().unwrap();
    let values = numbers(&name("decoder"), 8);
    let of =
        |head: usize| [3, 2, 2, 1, 0, 0, 0, 0, 0].map(|bucket: usize| values[bucket * 2 + head]);
    assert_eq!(before.reach, 4);
    assert_eq!(before.weights, [of(0), of(1)].concat());
}

#[test]
fn bart_is_read_as_it_is_meant() {
    let network = loaded(&configs::bart());
    let stack = stack(&network);
    assert!(!stack.norm_first && stack.causal && stack.final_norm.is_none());
    assert_eq!(stack.embedding.scale, 2.0);
    let (table, first) = stack.embedding.positions.as_ref().unwrap();
    assert_eq!(*first, 2);
    assert_eq!(table.values(), numbers("model.decoder.embed_positions.weight", 40));
    let norm = stack.embedding_norm.as_ref().unwrap();
    assert_eq!(norm.weight, numbers("model.decoder.layernorm_embedding.weight", 4));
    let at = "model.decoder.layers.0.encoder_attn";
    let cross = stack.blocks[0].cross.as_ref().unwrap();
    let biases = [format!("{at}.k_proj.bias"), format!("{at}.v_proj.bias")];
    assert_eq!(cross.kv.bias, Some(several(&[&biases[0], &biases[1]], 4)));
    assert_eq!(cross.norm.bias, Some(numbers(&format!("{at}_layer_norm.bias"), 4)));
    assert_eq!(stack.blocks[0].mlp.activation, Activation::Gelu);
    let head = network.head.as_ref().unwrap();
    assert_eq!(head.linear.bias, Some(numbers("final_logits_bias", 7)));
    assert_matrix(&head.linear.matrix, 7, 4, &numbers("model.shared.weight", 28));
    assert!(
        loaded(&configs::bart().without("final_logits_bias")).head.unwrap().linear.bias.is_none()
    );
}

#[test]
fn bert_is_read_as_it_is_meant() {
    let network = loaded(&configs::bert());
    let stack = stack(&network);
    assert!(!stack.norm_first && !stack.causal && network.head.is_none());
    let kinds = numbers("embeddings.token_type_embeddings.weight", 8);
    assert_eq!(stack.embedding.kind.as_deref(), Some(&kinds[..4]));
    assert_eq!(stack.embedding.positions.as_ref().unwrap().1, 0);
    assert_eq!(stack.embedding_norm.as_ref().unwrap().eps, 1e-12);
    let pooling = network.pooling.as_ref().unwrap();
    assert_eq!((pooling.pool, pooling.normalize), (Pool::Mean, false));
    assert!(pooling.pooler.is_none());
    let old = configs::bert().renamed("embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma");
    let old = loaded(&old.renamed("embeddings.LayerNorm.bias", "embeddings.LayerNorm.beta"));
    let norm = self::stack(&old).embedding_norm.as_ref().unwrap();
    assert_eq!(norm.bias, Some(numbers("embeddings.LayerNorm.beta", 4)));
}

#[test]
fn two_berts_are_read_as_they_are_meant() {
    let network = loaded(&configs::bert2bert());
    let Transformer::EncoderDecoder { encoder, decoder } = &network.transformer else { panic!() };
    assert!(!encoder.causal && encoder.project_out.is_none() && encoder.blocks[0].cross.is_none());
    assert!(decoder.causal && !decoder.norm_first && decoder.final_norm.is_none());
    let at = "decoder.bert.encoder.layer.0.crossattention";
    let cross = decoder.blocks[0].cross.as_ref().unwrap();
    let biases = ["key", "value"].map(|part| format!("{at}.self.{part}.bias"));
    assert_eq!(cross.kv.bias, Some(several(&[&biases[0], &biases[1]], 4)));
    assert_eq!(cross.norm.bias, Some(numbers(&format!("{at}.output.LayerNorm.bias"), 4)));
    let at = "decoder.cls.predictions";
    let out = decoder.project_out.as_ref().unwrap();
    assert_eq!(out.activation, Activation::Gelu);
    let dense = format!("{at}.transform.dense.weight");
    assert_matrix(&out.linear.matrix, 4, 4, &numbers(&dense, 16));
    let norm = format!("{at}.transform.LayerNorm.weight");
    assert_eq!(out.norm.as_ref().unwrap().weight, numbers(&norm, 4));
    // The decoder's own words, not the encoder's, and not those of a matrix that is not there.
    let head = &network.head.as_ref().unwrap().linear;
    let words = "decoder.bert.embeddings.word_embeddings.weight";
    assert_matrix(&head.matrix, 7, 4, &numbers(words, 28));
    assert_eq!(head.bias, Some(numbers(&format!("{at}.bias"), 7)));
    let mut own = configs::bert2bert();
    own.config["decoder"]["tie_word_embeddings"] = json!(false);
    own.add(format!("{at}.decoder.weight"), &[7, 4]);
    own.add(format!("{at}.decoder.bias"), &[7]);
    let head = loaded(&own).head.unwrap().linear;
    assert_matrix(&head.matrix, 7, 4, &numbers(&format!("{at}.decoder.weight"), 28));
    assert_eq!(head.bias, Some(numbers(&format!("{at}.decoder.bias"), 7)));
}

#[test]
fn two_berts_that_are_one_are_stored_once() {
    let made = |prefix: &str, flag: bool| {
        let mut tiny = configs::bert2bert().with("tie_encoder_decoder", json!(flag));
        tiny.tensors.retain(|(name, _)| {
            !name.starts_with(prefix) || name.contains("crossattention") || name.contains("cls")
        });
        tiny
    };
    for (gone, kept) in [("encoder.", "decoder.bert."), ("decoder.bert.", "encoder.")] {
        let network = loaded(&made(gone, true));
        let Transformer::EncoderDecoder { encoder, decoder } = &network.transformer else {
            panic!()
        };
        let name = format!("{kept}encoder.layer.0.output.dense.weight");
        for stack in [encoder, decoder] {
            assert_matrix(&stack.blocks[0].mlp.down.matrix, 4, 5, &numbers(&name, 20));
        }
        let made = made(gone, false).make();
        let why = made.why(load(&made.open().unwrap(), &Plain, Precision::F32, 100));
        assert!(why.starts_with(&format!("./model.safetensors: no tensor `{gone}")), "{why}");
    }
}

#[test]
fn the_pooler_is_read_where_it_is_asked_for() {
    let pooler = VectorSettings { mode: VectorMode::Pooler, normalize: true };
    let made = configs::bert().make();
    let folder = made.open().unwrap().with_vector(pooler);
    let pooling = load(&folder, &Plain, Precision::F32, 100).unwrap().pooling.unwrap();
    assert_eq!((pooling.pool, pooling.normalize), (Pool::First, true));
    let matrix = pooling.pooler.unwrap().matrix;
    assert_matrix(&matrix, 4, 4, &numbers("pooler.dense.weight", 16));
    let made = configs::bert().without("pooler.dense.weight").make();
    let folder = made.open().unwrap().with_vector(pooler);
    assert_eq!(
        made.why(load(&folder, &Plain, Precision::F32, 100)),
        "./model.safetensors: no tensor `pooler.dense.weight`"
    );
    let made = configs::llama().make();
    let folder = made.open().unwrap().with_vector(pooler);
    assert_eq!(
        made.why(load(&folder, &Plain, Precision::F32, 100)),
        "./config.json: no tensor `pooler.dense.weight`"
    );
}

#[test]
fn opt_is_read_as_it_is_meant() {
    let network = loaded(&configs::opt(4));
    let stack = stack(&network);
    assert!(stack.norm_first && stack.final_norm.is_some() && stack.project_out.is_none());
    assert_eq!(stack.embedding.positions.as_ref().unwrap().1, 2);
    let early = configs::opt(4).with("_remove_final_layer_norm", json!(true));
    assert!(self::stack(&loaded(&early)).final_norm.is_none());
    let plain = configs::opt(4).with("layer_norm_elementwise_affine", json!(false));
    let plain = loaded(&plain.with("enable_bias", json!(false)));
    let block = &self::stack(&plain).blocks[0];
    assert_eq!(block.mlp.norm.weight, [1.0; 4]);
    assert!(block.mlp.norm.bias.is_none() && block.attention.qkv.bias.is_none());
}

#[test]
fn a_narrow_embedding_is_widened_once() {
    let network = loaded(&configs::opt(2));
    let stack = stack(&network);
    assert!(!stack.norm_first && stack.final_norm.is_none());
    assert_eq!((stack.embedding.width, stack.width), (4, 4));
    let tokens = numbers("model.decoder.embed_tokens.weight", 14);
    let project = numbers("model.decoder.project_in.weight", 8);
    let expected = tokens
        .chunks_exact(2)
        .flat_map(|token| project.chunks_exact(2).map(|row| token[0] * row[0] + token[1] * row[1]));
    assert_eq!(stack.embedding.tokens.values(), expected.collect::<Vec<_>>());
    let out = stack.project_out.as_ref().unwrap();
    assert_matrix(&out.linear.matrix, 2, 4, &numbers("model.decoder.project_out.weight", 8));
    assert_matrix(&network.head.as_ref().unwrap().linear.matrix, 7, 2, &tokens);
}

#[test]
fn gpt2_is_turned_round() {
    let network = loaded(&configs::gpt2());
    let stack = stack(&network);
    let stored = numbers("transformer.h.0.attn.c_attn.weight", 48);
    let turned: Vec<f32> = (0..12)
        .flat_map(|output| (0..4).map(move |input| (input, output)))
        .map(|(input, output)| stored[input * 12 + output])
        .collect();
    let attention = &stack.blocks[0].attention;
    assert_matrix(&attention.qkv.matrix, 12, 4, &turned);
    assert_eq!(attention.qkv.bias, Some(numbers("transformer.h.0.attn.c_attn.bias", 12)));
    assert_eq!(stack.mlp_width, 16);
    assert_eq!(stack.blocks[0].mlp.activation, Activation::GeluTanh);
    let unscaled = configs::gpt2().with("scale_attn_weights", json!(false));
    assert_eq!(self::stack(&loaded(&unscaled)).heads.scale, 1.0);
}

#[test]
fn llama_and_its_relatives_are_told_apart() {
    let at = "model.layers.0";
    let network = loaded(&configs::llama());
    let block = &stack(&network).blocks[0];
    let parts = [("q", 64), ("k", 32), ("v", 32)]
        .map(|(part, count)| numbers(&format!("{at}.self_attn.{part}_proj.weight"), count));
    assert_matrix(&block.attention.qkv.matrix, 16, 8, &parts.concat());
    let parts = ["gate", "up"].map(|part| numbers(&format!("{at}.mlp.{part}_proj.weight"), 40));
    assert_matrix(&block.mlp.up.matrix, 10, 8, &parts.concat());
    assert!(block.mlp.gated && block.attention.qkv.bias.is_none());
    assert_matrix(
        &network.head.as_ref().unwrap().linear.matrix,
        7,
        8,
        &numbers("lm_head.weight", 56),
    );
    let tied = configs::llama().without("lm_head.weight").with("tie_word_embeddings", json!(true));
    let head = loaded(&tied).head.unwrap();
    assert_matrix(&head.linear.matrix, 7, 8, &numbers("model.embed_tokens.weight", 56));

    let network = loaded(&configs::qwen2());
    let attention = &stack(&network).blocks[0].attention;
    let parts = [("q", 8), ("k", 4), ("v", 4)]
        .map(|(part, count)| numbers(&format!("{at}.self_attn.{part}_proj.bias"), count));
    assert_eq!(attention.qkv.bias, Some(parts.concat()));
    assert!(attention.out.bias.is_none() && attention.qk_norms.is_none());

    let network = loaded(&configs::qwen3());
    let (q, k) = stack(&network).blocks[0].attention.qk_norms.as_ref().unwrap();
    assert_eq!(q.weight, numbers(&format!("{at}.self_attn.q_norm.weight"), 4));
    assert_eq!(k.weight, numbers(&format!("{at}.self_attn.k_norm.weight"), 4));
}

#[test]
fn settings_of_old_and_new_versions_turn_alike() {
    let angles = |tiny: &Tiny, limit: usize| {
        let made = tiny.make();
        let network = load(&made.open().unwrap(), &Plain, Precision::F32, limit).unwrap();
        let rope = stack(&network).rope.as_ref().unwrap();
        assert_eq!((rope.positions, rope.cos.len(), rope.sin.len()), (limit, 2 * limit, 2 * limit));
        (rope.cos.clone(), rope.sin.clone())
    };
    let old = configs::llama().with("rope_theta", json!(5e5));
    let new = configs::llama().with("rope_parameters", json!({"rope_theta": 5e5}));
    assert_eq!(angles(&old, 9), angles(&new, 9));
    let linear = json!({"type": "linear", "factor": 2.0});
    let slow = configs::llama().with("rope_scaling", linear);
    // Half as fast: twice as far is the same angle.
    let (plain, slow) = (angles(&configs::llama(), 5), angles(&slow, 9));
    for position in 0..5 {
        assert_eq!(plain.0[2 * position..][..2], slow.0[4 * position..][..2]);
    }
    assert_eq!(plain.0[..2], [1.0, 1.0]);
    assert_eq!(plain.1[2], 1_f32.sin());
}

#[test]
fn the_context_is_the_least_of_all_limits() {
    let made = configs::bert().make();
    let positions =
        |limit| load(&made.open().unwrap(), &Plain, Precision::F32, limit).unwrap().positions;
    assert_eq!((positions(5), positions(50)), (Some(5), Some(8)));
}
