"""The least time that generating takes: bytes over bandwidth, or operations over rate."""

from dataclasses import dataclass


@dataclass
class Shape:
    """Sizes of a transformer, in numbers of parameters and of bytes in bf16."""

    decode_weights: int  # parameters that one step of the decoder reads
    encode_weights: int  # parameters that a token of the prompt passes through
    kv_bytes_own: int  # bytes of keys and values per token that the decoder wrote or read
    kv_bytes_source: int  # bytes of cross keys and values per token of the encoder; 0 without one

    @staticmethod
    def of(config) -> "Shape":
        """From a configuration of transformers: T5, OPT or Llama."""
        kind = config.model_type
        if kind == "t5":
            inner = config.num_heads * config.d_kv
            attention = 4 * config.d_model * inner
            feed = (3 if config.is_gated_act else 2) * config.d_model * config.d_ff
            head = config.vocab_size * config.d_model
            layers = config.num_decoder_layers
            kv = layers * 2 * inner * 2
            # Keys and values of the source are made once per text, not once per step.
            step = layers * (attention + 2 * config.d_model * inner + feed) + head
            source = layers * 2 * config.d_model * inner
            return Shape(step, config.num_layers * (attention + feed) + source, kv, kv)
        hidden, layers = config.hidden_size, config.num_hidden_layers
        heads = config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", heads)
        width = getattr(config, "head_dim", None) or hidden // heads
        gated = kind != "opt"
        inside = config.intermediate_size if gated else config.ffn_dim
        attention = hidden * width * (2 * heads + 2 * kv_heads)
        block = attention + (3 if gated else 2) * hidden * inside
        head = config.vocab_size * hidden
        return Shape(layers * block + head, layers * block, layers * 2 * kv_heads * width * 2, 0)


def seconds(shape: Shape, prompts: list[int], new: int, batch: int, bandwidth: float, rate: float):
    """Reading all prompts, then `new` steps for each group of `batch` answers."""
    total = max(2 * shape.encode_weights * sum(prompts) / rate, 2 * shape.encode_weights / bandwidth)
    for start in range(0, len(prompts), batch):
        group = prompts[start : start + batch]
        for step in range(new):
            if shape.kv_bytes_source:
                kv = sum(shape.kv_bytes_source * length + shape.kv_bytes_own * step for length in group)
            else:
                kv = sum(shape.kv_bytes_own * (length + step) for length in group)
            moved = 2 * shape.decode_weights + kv
            total += max(moved / bandwidth, 2 * shape.decode_weights * len(group) / rate)
    return total
