"""One tiny random model for every family, and for every way its checkpoints differ from each other.

Widths are deliberately no multiples of a vector register or of each other: where two sizes could be
mixed up, they are different.
"""

from dataclasses import dataclass, field
from typing import Callable

import torch
from transformers import (
    BartConfig, BartForConditionalGeneration, BertConfig, BertForSequenceClassification, BertModel,
    DPRConfig, DPRQuestionEncoder, EncoderDecoderConfig, EncoderDecoderModel, GPT2Config, GPT2LMHeadModel,
    LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, OPTConfig, OPTForCausalLM, Qwen2Config, Qwen2ForCausalLM,
    Qwen3Config, Qwen3ForCausalLM, RobertaConfig, RobertaForSequenceClassification, RobertaModel,
    T5Config, T5ForConditionalGeneration, XLMRobertaConfig, XLMRobertaModel,
)

import rewrites
import vocabularies

ROWS = 500  # rows of the embedding: more than the tokenizer has tokens


@dataclass
class Family:
    """How a checkpoint is made."""

    model: Callable  # scale -> model with untouched weights
    vocabulary: Callable
    dtype: torch.dtype = torch.bfloat16
    generation: dict = field(default_factory=dict)  # put into generation_config.json
    rewrites: list = field(default_factory=list)  # done to the written folder, in order
    shard: str = "1GB"
    end_gain: float = 1.8  # makes the end likely enough for answers to end now and then


def t5(scale):
    return T5ForConditionalGeneration(T5Config(
        vocab_size=ROWS, d_model=48 * scale, d_kv=8 * scale, d_ff=64 * scale, num_layers=2,
        num_heads=4, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1))


def flan_t5(scale):
    return T5ForConditionalGeneration(T5Config(
        vocab_size=ROWS, d_model=24 * scale, d_kv=8 * scale, d_ff=40 * scale, num_layers=3,
        num_decoder_layers=2, num_heads=4, relative_attention_num_buckets=8,
        relative_attention_max_distance=20, feed_forward_proj="gated-gelu",
        tie_word_embeddings=False, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1))


def bart(scale, **more):
    return BartForConditionalGeneration(BartConfig(
        vocab_size=ROWS, d_model=32 * scale, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=4, encoder_ffn_dim=64 * scale,
        decoder_ffn_dim=56 * scale, max_position_embeddings=112, bos_token_id=0, pad_token_id=1,
        eos_token_id=2, decoder_start_token_id=2, **more))


def bert(scale, model=BertModel, config=BertConfig, **more):
    """BERT and its relatives."""
    return model(config(**(dict(
        vocab_size=ROWS, hidden_size=40 * scale, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=72 * scale, max_position_embeddings=96) | more)))


def roberta(scale, model=RobertaModel, **more):
    """One vector for all token types, positions behind the padding's, an epsilon of its own."""
    return bert(scale, model, RobertaConfig, type_vocab_size=1, layer_norm_eps=1e-5,
                pad_token_id=1, bos_token_id=0, eos_token_id=2, **more)


def xlm_roberta(scale):
    return bert(scale, XLMRobertaModel, XLMRobertaConfig, type_vocab_size=1, layer_norm_eps=1e-5,
                pad_token_id=0, bos_token_id=1, eos_token_id=1)


def bert2bert(scale, **more):
    width = 40 * scale
    sides = [BertConfig(**(dict(
        vocab_size=ROWS, hidden_size=width, max_position_embeddings=112, intermediate_size=72 * scale,
        num_attention_heads=4, num_hidden_layers=1) | side)) for side in (
            {}, dict(num_hidden_layers=2, num_attention_heads=2, intermediate_size=56 * scale,
                     hidden_act="gelu_new", layer_norm_eps=1e-5) | more)]
    return EncoderDecoderModel(EncoderDecoderConfig.from_encoder_decoder_configs(
        *sides, decoder_start_token_id=2, eos_token_id=3, pad_token_id=0))


def opt(scale, **more):
    width = 40 * scale
    return OPTForCausalLM(OPTConfig(**(dict(
        vocab_size=ROWS, hidden_size=width, ffn_dim=72 * scale, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=112, word_embed_proj_dim=width,
        bos_token_id=2, eos_token_id=2, pad_token_id=1) | more)))


def gpt2(scale):
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=ROWS, n_embd=32 * scale, n_layer=2, n_head=4, n_positions=112, bos_token_id=479,
        eos_token_id=479))


def rope_family(model, config, scale, **more):
    """Llama and its relatives."""
    return model(config(**(dict(
        vocab_size=ROWS, hidden_size=48 * scale, intermediate_size=72 * scale, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=256) | more)))


def llama(scale):
    rope = dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0,
                high_freq_factor=4.0, original_max_position_embeddings=32)
    return rope_family(LlamaForCausalLM, LlamaConfig, scale, rope_parameters=rope,
                       bos_token_id=477, eos_token_id=479)


def llama_tied(scale):
    return rope_family(LlamaForCausalLM, LlamaConfig, scale, tie_word_embeddings=True,
                       bos_token_id=477, eos_token_id=479)


def mistral(scale):
    return rope_family(MistralForCausalLM, MistralConfig, scale, head_dim=12 * scale,
                       sliding_window=None, bos_token_id=477, eos_token_id=479)


def qwen2(scale):
    return rope_family(Qwen2ForCausalLM, Qwen2Config, scale, tie_word_embeddings=True,
                       rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
                       bos_token_id=477, eos_token_id=479)


def qwen3(scale):
    return rope_family(Qwen3ForCausalLM, Qwen3Config, scale, head_dim=12 * scale,
                       hidden_size=40 * scale, tie_word_embeddings=True,
                       rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
                       bos_token_id=477, eos_token_id=479)


NAMES = {0: "contradiction", 1: "entailment", 2: "neutral"}
TWO_ENDS = dict(eos_token_id=[479, 478], pad_token_id=478)
QWEN_ENDS = dict(eos_token_id=[479, 477], pad_token_id=477)

FAMILIES = {
    # Old configurations say nothing of scaling: tied, and the logits are scaled.
    "t5": Family(
        t5, vocabularies.t5, rewrites=[rewrites.without_scaling_keys], end_gain=3.5),
    # As transformers 5 writes it: "tied" is always true, another key says "not scaled", and the
    # file has an output matrix of its own.
    "flan-t5": Family(flan_t5, vocabularies.t5, rewrites=[rewrites.own_output_matrix]),
    # The same as older versions wrote it: not tied, no other key.
    "flan-t5-old": Family(
        flan_t5, vocabularies.t5,
        rewrites=[rewrites.own_output_matrix, rewrites.untied_without_scaling_key]),
    "bart": Family(
        bart, vocabularies.bart,
        generation=dict(forced_bos_token_id=None, forced_eos_token_id=None),
        rewrites=[rewrites.no_forced_tokens], end_gain=3.0),
    "bart-forced": Family(
        lambda scale: bart(scale, scale_embedding=True), vocabularies.bart, torch.float16,
        generation=dict(forced_bos_token_id=0, forced_eos_token_id=2), end_gain=3.0),
    # Weight names as in a file written by a model with a head, and as in one without.
    "bert": Family(bert, vocabularies.bert, rewrites=[rewrites.prefixed("bert.")]),
    "bert-sentence": Family(bert, vocabularies.bert, rewrites=[rewrites.sentence_transformers]),
    # The end and the start are those of the tokenizer; the decoder's head is its own words or a matrix.
    "bert2bert": Family(bert2bert, vocabularies.bert, end_gain=3.0),
    "bert2bert-untied": Family(
        lambda scale: bert2bert(scale, tie_word_embeddings=False), vocabularies.bert, torch.float16,
        end_gain=3.0),
    "roberta": Family(roberta, vocabularies.bart),
    # Another row of padding, so that positions begin elsewhere.
    "xlm-roberta": Family(xlm_roberta, vocabularies.t5),
    "dpr": Family(lambda scale: bert(scale, DPRQuestionEncoder, DPRConfig), vocabularies.bert),
    # Three classes, of which one is told; one number; classes that do not exclude each other.
    "bert-classifier": Family(
        lambda scale: bert(scale, BertForSequenceClassification, id2label=NAMES,
                           label2id={name: i for i, name in NAMES.items()}),
        vocabularies.bert_typed_pairs),
    "bert-reranker": Family(
        lambda scale: bert(scale, BertForSequenceClassification, num_labels=1),
        vocabularies.bert_pairs),
    "roberta-classifier": Family(
        lambda scale: roberta(scale, RobertaForSequenceClassification, num_labels=2,
                              max_position_embeddings=162,
                              problem_type="multi_label_classification"),
        vocabularies.bart),
    "opt": Family(opt, vocabularies.opt, end_gain=4.0),
    "opt-post-norm": Family(
        lambda scale: opt(scale, do_layer_norm_before=False, word_embed_proj_dim=24 * scale),
        vocabularies.opt, torch.float16, end_gain=3.0),
    "gpt2": Family(gpt2, vocabularies.gpt2, torch.float32,
                   rewrites=[rewrites.unprefixed("transformer.")]),
    "llama": Family(llama, vocabularies.llama, generation=TWO_ENDS,
                    rewrites=[rewrites.old_rope], shard="60KB"),
    "llama-tied": Family(llama_tied, vocabularies.llama, torch.float16, generation=TWO_ENDS),
    "mistral": Family(mistral, vocabularies.llama, generation=TWO_ENDS),
    "qwen2": Family(qwen2, vocabularies.qwen, generation=QWEN_ENDS),
    "qwen3": Family(qwen3, vocabularies.qwen, generation=QWEN_ENDS),
}
