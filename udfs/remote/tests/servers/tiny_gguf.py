"""Writes a tiny llama with random weights as GGUF. How to serve it: README.md."""

import sys

import numpy as np
from gguf import GGUFWriter, PoolingType, TokenType

WIDTH, HEADS, LAYERS, INNER, CONTEXT = 64, 4, 2, 128, 512

SPECIAL = [("<unk>", TokenType.UNKNOWN), ("<s>", TokenType.CONTROL), ("</s>", TokenType.CONTROL)]
BYTES = [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = ["\u2581"] + list(LETTERS) + [f"\u2581{letter}" for letter in LETTERS] + list(".,:?!")
VOCABULARY = SPECIAL + BYTES + [(piece, TokenType.NORMAL) for piece in PIECES]


def main(path):
    rng = np.random.default_rng(7)
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_pooling_type(PoolingType.MEAN)
    writer.add_vocab_size(len(VOCABULARY))

    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in VOCABULARY])
    # Scores rank merges: longer pieces first.
    writer.add_token_scores([float(len(text)) for text, _ in VOCABULARY])
    writer.add_token_types([int(kind) for _, kind in VOCABULARY])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def tensor(name, *shape, faint=slice(0)):
        if len(shape) == 1:
            values = 1.0 + rng.standard_normal(shape) * 0.1
        else:
            values = rng.standard_normal(shape) * 2.0 / np.sqrt(shape[1])
        values[faint] *= 0.1
        writer.add_tensor(name, values.astype(np.float32))

    tensor("token_embd.weight", len(VOCABULARY), WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        tensor(f"{block}.attn_norm.weight", WIDTH)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"{block}.{part}.weight", WIDTH, WIDTH)
        tensor(f"{block}.ffn_norm.weight", WIDTH)
        tensor(f"{block}.ffn_gate.weight", INNER, WIDTH)
        tensor(f"{block}.ffn_up.weight", INNER, WIDTH)
        tensor(f"{block}.ffn_down.weight", WIDTH, INNER)
    tensor("output_norm.weight", WIDTH)
    # Single bytes seldom win: half characters are no text to compare.
    tensor("output.weight", len(VOCABULARY), WIDTH, faint=slice(len(SPECIAL), len(SPECIAL) + 256))

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1])
