"""What is changed in a written checkpoint, to look like the ones that older versions wrote."""

import json
import zlib

import torch
from safetensors.torch import load_file, save_file


def edit_config(folder, change, name="config.json"):
    """Changes one JSON file in place."""
    path = folder / name
    config = json.loads(path.read_text(encoding="utf-8"))
    change(config)
    path.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def edit_weights(folder, change):
    """Replaces the weights by what `change` makes of them."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def without_scaling_keys(folder):
    """T5 as first published: neither key is there."""
    def change(config):
        config.pop("tie_word_embeddings", None)
        config.pop("scale_decoder_outputs", None)

    edit_config(folder, change)


def own_output_matrix(folder):
    """Gives T5 an output matrix that differs from the embedding."""
    def change(weights):
        shared = weights["shared.weight"]
        seed = zlib.crc32(shared.view(torch.uint8).numpy().tobytes())
        generator = torch.Generator().manual_seed(seed)
        matrix = torch.randn(shared.shape, generator=generator) / shared.shape[1] ** 0.5
        matrix[1] *= 2.5  # the end and the rows without a token, much as in make.py
        matrix[480:] /= 4
        weights["lm_head.weight"] = matrix.to(shared.dtype)
        return weights

    edit_weights(folder, change)


def untied_without_scaling_key(folder):
    """T5 1.1 and Flan as first published."""
    def change(config):
        config["tie_word_embeddings"] = False
        config.pop("scale_decoder_outputs", None)

    edit_config(folder, change)


def no_forced_tokens(folder):
    """Nulls in the configuration too, where older versions look."""
    def change(config):
        config["forced_bos_token_id"] = None
        config["forced_eos_token_id"] = None

    edit_config(folder, change)


def old_rope(folder):
    """Rotary settings where they were before transformers 5, and no width of a head."""
    def change(config):
        del config["head_dim"]
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = rope

    edit_config(folder, change)


def prefixed(prefix):
    """Puts a prefix before every weight's name."""
    return lambda folder: edit_weights(
        folder, lambda weights: {prefix + name: value for name, value in weights.items()})


def unprefixed(prefix):
    """Takes a prefix off every weight's name."""
    return lambda folder: edit_weights(
        folder,
        lambda weights: {name.removeprefix(prefix): value for name, value in weights.items()})


def sentence_transformers(folder):
    """The files around a sentence encoder, with mean pooling and normalisation.

    The tokenizer file keeps the truncation and padding of somebody's last call, as real ones do.
    Nobody may obey them.
    """
    width = json.loads((folder / "config.json").read_text(encoding="utf-8"))["hidden_size"]
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    pooling = {"word_embedding_dimension": width, "pooling_mode_cls_token": False,
               "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False,
               "pooling_mode_mean_sqrt_len_tokens": False}
    limits = {"max_seq_length": 64, "do_lower_case": False}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    written = [("modules.json", modules), ("1_Pooling/config.json", pooling),
               ("sentence_bert_config.json", limits)]
    for name, value in written:
        (folder / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    def change(tokenizer):
        tokenizer["truncation"] = {"direction": "Right", "max_length": 8,
                                   "strategy": "LongestFirst", "stride": 0}
        tokenizer["padding"] = {"strategy": {"Fixed": 24}, "direction": "Right",
                                "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
                                "pad_token": "[PAD]"}

    edit_config(folder, change, "tokenizer.json")
