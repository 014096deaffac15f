"""Checkpoints of known shapes with random weights, and prompts for them."""

import json
import pathlib
import random

import torch
import transformers

WORDS = 4096

CONFIGS = {
    "t5-base": lambda: transformers.T5Config(
        vocab_size=32128, d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12,
        decoder_start_token_id=0, dropout_rate=0.0),
    "t5-large": lambda: transformers.T5Config(
        vocab_size=32128, d_model=1024, d_kv=64, d_ff=4096, num_layers=24, num_heads=16,
        decoder_start_token_id=0, dropout_rate=0.0),
    "opt-1.3b": lambda: transformers.OPTConfig(
        vocab_size=50272, hidden_size=2048, word_embed_proj_dim=2048, ffn_dim=8192,
        num_hidden_layers=24, num_attention_heads=32, max_position_embeddings=2048,
        pad_token_id=0, bos_token_id=1, eos_token_id=1, dropout=0.0),
    "llama-3.2-1b": lambda: transformers.LlamaConfig(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
        num_attention_heads=32, num_key_value_heads=8, head_dim=64, max_position_embeddings=4096,
        tie_word_embeddings=True, pad_token_id=0, bos_token_id=1, eos_token_id=1),
    # For a quick look, and for machines without a GPU.
    "t5-tiny": lambda: transformers.T5Config(
        vocab_size=WORDS, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4,
        decoder_start_token_id=0, dropout_rate=0.0),
    "llama-tiny": lambda: transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=4096,
        tie_word_embeddings=True, pad_token_id=0, bos_token_id=1, eos_token_id=1),
}


def make(name: str, folder: pathlib.Path, device: str):
    """Writes the checkpoint in bf16; returns the model and its configuration."""
    config = CONFIGS[name]()
    torch.manual_seed(0)
    with torch.device(device):
        kind = transformers.T5ForConditionalGeneration if config.model_type == "t5" else None
        model = kind(config) if kind else transformers.AutoModelForCausalLM.from_config(config)
    model = model.to(torch.bfloat16).eval()
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "unk_token": "w2",
                  "vocab": {f"w{i}": i for i in range(WORDS)}},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return model, config


def prompts(count: int, shortest: int, longest: int) -> list[list[int]]:
    """Random words; the same list on every machine."""
    draw = random.Random(0)
    lengths = [draw.randint(shortest, longest) for _ in range(count)]
    return [[draw.randrange(3, WORDS) for _ in range(length)] for length in lengths]


def text(tokens: list[int]) -> str:
    return " ".join(f"w{token}" for token in tokens)
