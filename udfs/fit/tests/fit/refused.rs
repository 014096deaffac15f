//! What cannot be fitted is refused with what to do.

use std::path::Path;

use proofmill_fit::{Pair, Start, Tokens};
use proofmill_settings::fit::{
    Activation, Architecture, Decay, DecoderSizes, Objective, Sizes, Training,
};

use crate::made::{pairs, run, scratch, settings, sizes};

fn refusal(settings: &Training, start: &Start, train: &[Pair], dev: &[Pair]) -> String {
    run(settings, start, (train, dev), (1, None), &mut |_, _| ()).unwrap_err().to_string()
}

#[test]
fn bad_pairs() {
    let (base, start) = (settings(1), scratch(Activation::Relu));
    let good = || Pair::new("a hook", "steel");
    let refused = |train: &[Pair]| refusal(&base, &start, train, &[]);
    assert_eq!(refused(&[]), "expected at least one training pair, found none");
    let empty = "training pair 1 has an empty output; leave the pair out";
    assert_eq!(refused(&[good(), Pair::new("a", " ")]), empty);
    assert!(refused(&[Pair::new("", "a")]).contains("training pair 0 has an empty input"));
    let weight = Pair { weight: 0.0, ..good() };
    assert!(refused(&[weight]).contains("training pair 0 has weight 0, expected a number above 0"));
    let dev = refusal(&base, &start, &[good()], &[Pair::new("a", "")]);
    assert!(dev.contains("dev pair 0 has an empty output"), "{dev}");
    let short = Training { input_tokens: 2, ..base.clone() };
    let expected = "the input of training pair 0 has 3 tokens, and `input_tokens` allows 2; shorten \
                    or leave out the pair, or raise `input_tokens`";
    assert_eq!(refusal(&short, &start, &[good()], &[]), expected);
    let patient = Training { patience: Some(2), ..base.clone() };
    let expected =
        "`patience` is 2, but there are no dev pairs; give some, or leave `patience` out";
    assert_eq!(refusal(&patient, &start, &[good()], &[]), expected);
    let back = refused(&[Pair::new("a </s>", "b")]);
    assert!(back.starts_with(r#"word tokenizer: "a </s>" decodes to "a""#), "{back}");
}

#[test]
fn bad_settings_sizes_and_tokenizers() {
    let base = settings(1);
    let train = [Pair::new("a", "b")];
    let wrong = Training { batch: 0, ..base.clone() };
    let start = scratch(Activation::Relu);
    assert!(refusal(&wrong, &start, &train, &[]).starts_with("`batch` is 0, expected"));
    let tokens = Tokens::Words { also: Vec::new() };
    let start = Start::Scratch { sizes: Sizes { heads: 0, ..sizes() }, tokens };
    let expected = "`heads` is 0, expected a whole number from 1 to 256";
    assert_eq!(refusal(&base, &start, &train, &[]), expected);
    let start = Start::Scratch { sizes: sizes(), tokens: Tokens::Json(b"{}".to_vec()) };
    assert!(refusal(&base, &start, &train, &[]).starts_with("tokenizer: "));
}

#[test]
fn weights_that_run_away() {
    let train = pairs();
    let wild = Training {
        learning_rate: 1.0,
        warmup: 0,
        clip: None,
        decay: Decay::Constant,
        weight_decay: 1.0,
        beta2: 0.0,
        epsilon: 1e-300,
        ..settings(100)
    };
    let message = refusal(&wild, &scratch(Activation::Relu), &train, &[]);
    assert!(
        message.contains(" at step ") && message.contains("lower `learning_rate`"),
        "{message}"
    );
}

#[test]
fn bad_checkpoints() {
    let (base, train) = (settings(1), [Pair::new("ba be", "bi")]);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/parity/data");
    let start = |name| Start::Checkpoint { folder: data.join(name), digested: None };
    let message = refusal(&base, &start("gpt2"), &train, &[]);
    let expected = "gpt2: GPT2LMHeadModel cannot be trained; give a T5, two BERTs or an OPT";
    assert!(message.ends_with(expected), "{message}");
    let message = refusal(&base, &start("none"), &train, &[]);
    assert!(message.contains("config.json: not found"), "{message}");
}

#[test]
fn objectives_that_a_model_cannot_have() {
    let train = [Pair::new("ba be", "bi"), Pair::new("ba", "bo")];
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/parity/data");
    let checkpoint = |name| Start::Checkpoint { folder: data.join(name), digested: None };
    let with_decoder =
        |name, decoder| Start::WithDecoder { folder: data.join(name), digested: None, decoder };
    let decoder = DecoderSizes { layers: 1, heads: None, d_ff: None };
    let words = || Tokens::Words { also: Vec::new() };
    let of = |sizes| Start::Scratch { sizes, tokens: words() };
    let (generation, similarity, contrastive) =
        (Objective::Generation, Objective::Similarity, Objective::Contrastive);
    let cases = [
        (
            generation,
            checkpoint("bert"),
            "bert: BertModel writes nothing; give the sizes of a `decoder`, or the objective `similarity` or \
             `contrastive`",
        ),
        (
            contrastive,
            checkpoint("bert-classifier"),
            "bert-classifier: BertForSequenceClassification would lose its head; give one of BertModel, \
             BertForMaskedLM, BertForPreTraining",
        ),
        (
            similarity,
            checkpoint("t5"),
            "t5: T5ForConditionalGeneration cannot be trained by the objective `similarity`; give a BERT",
        ),
        (
            similarity,
            scratch(Activation::Relu),
            "`objective` is similarity, expected generation or contrastive: vectors of outputs need a `checkpoint`",
        ),
        (
            contrastive,
            scratch(Activation::GatedGelu),
            "`activation` is gated_gelu, expected relu, of a BERT from nothing",
        ),
        (
            contrastive,
            of(Sizes { d_kv: 16, ..sizes() }),
            "`d_kv` is 16, expected `d_model` over `heads`, as the heads of a BERT share its width",
        ),
        (
            contrastive,
            of(Sizes { decoder_layers: Some(1), ..sizes() }),
            "`decoder_layers` is 1, expected none: a BERT has one stack of `layers`",
        ),
        (
            contrastive,
            of(Sizes { matching_heads: Some(1), ..sizes() }),
            "`matching_heads` is 1, expected 0: heads of a BERT begin by chance",
        ),
        (
            contrastive,
            of(Sizes { architecture: Some(Architecture::Opt), ..sizes() }),
            "`objective` is contrastive, expected generation: a decoder-only model, `opt`, has no vectors to train",
        ),
        (
            generation,
            of(Sizes { architecture: Some(Architecture::Opt), d_kv: 16, ..sizes() }),
            "`d_kv` is 16, expected `d_model` over `heads`, as the heads of an OPT share its width",
        ),
        (
            generation,
            checkpoint("opt-post-norm"),
            "config.json: `do_layer_norm_before` is false, expected true: the other is not supported",
        ),
        (
            generation,
            with_decoder("t5", decoder),
            "t5: T5ForConditionalGeneration gets no new decoder; give a BERT, or leave out `decoder`",
        ),
        (
            similarity,
            with_decoder("bert", decoder),
            "bert: a new `decoder` is trained by the objective `generation`, not `similarity`",
        ),
        (
            generation,
            with_decoder("bert", DecoderSizes { heads: Some(3), ..decoder }),
            "`heads` is 3, expected a divisor of the width 40",
        ),
        (
            generation,
            with_decoder("bert", DecoderSizes { layers: 0, ..decoder }),
            "`layers` is 0, expected a whole number from 1 to 96",
        ),
    ];
    for (objective, start, expected) in cases {
        let message = refusal(&Training { objective, ..settings(1) }, &start, &train, &[]);
        assert!(message.ends_with(expected), "{message}");
    }
    let settings = Training { objective: similarity, ..settings(1) };
    let expected = "expected at least two dev pairs, which `similarity` compares, found one";
    assert_eq!(refusal(&settings, &checkpoint("bert"), &train, &train[..1]), expected);
    let long = [Pair::new(["ba"; 70].join(" "), "bi"), Pair::new("ba", "bo")];
    let expected = "the input of training pair 0 has 72 tokens, and the model reads at most 64; shorten or leave out \
                    the pair";
    assert_eq!(refusal(&settings, &checkpoint("bert-sentence"), &long, &[]), expected);
}
