"""Makes tiny random checkpoints of every model family, in the layout of Hugging Face.

    python make.py --out data
    python make.py --out elsewhere --seed 3 --scale 2 --families t5,llama

Nothing is downloaded. The same seed and package versions give the same bytes.
"""

import argparse
import json
import pathlib
import zlib

import torch
from transformers import PreTrainedTokenizerFast

from families import FAMILIES
from vocabularies import TOKENS


def draw_weights(model, seed):
    """Draws all weights so that every matrix has about unit gain.

    The usual initialisation gives nearly flat logits; with this one the best token stands out, so
    that answers can be compared token by token.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(like):
        return torch.randn(like.shape, generator=generator)

    with torch.no_grad():
        for name, weight in [*model.named_parameters(), *model.named_buffers()]:
            if name == "final_logits_bias":
                weight.copy_(0.5 * normal(weight))
            elif weight.dim() == 2:
                weight.copy_(normal(weight) / weight.shape[1] ** 0.5)
            elif weight.dim() == 1 and name.endswith("weight"):
                weight.copy_(1 + 0.1 * normal(weight))
            elif weight.dim() == 1 and name.endswith("bias"):
                weight.copy_(0.05 * normal(weight))


def settle(model, end_gain):
    """What the families need beyond unit gain."""
    config = model.config
    if config.model_type == "gpt2":
        # Its matrices lie the other way round.
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and name.split(".")[-2].startswith("c_"):
                weight.mul_((weight.shape[1] / weight.shape[0]) ** 0.5)
    if config.model_type == "bart" or not getattr(config, "do_layer_norm_before", True):
        # Norms after the sums keep the input token too strong: it would be said again and again.
        for name, weight in model.named_parameters():
            if name.endswith("fc2.weight"):
                weight.mul_(4)
    if config.model_type == "t5":
        # Attention is not scaled, so the queries are.
        for name, weight in model.named_parameters():
            if name.endswith(".q.weight"):
                weight.mul_(config.d_kv**-0.5)
        # Scaled logits would be nearly flat.
        if config.scale_decoder_outputs:
            model.decoder.final_layer_norm.weight.mul_(config.d_model**0.5)
    for name, weight in model.named_parameters():
        # Positions that matter: otherwise models without rotation say one thing again and again.
        if name.endswith(("embed_positions.weight", "wpe.weight", "position_embeddings.weight")):
            weight.mul_(4)
    if model.get_output_embeddings() is not None:
        ends = model.generation_config.eos_token_id
        output = model.get_output_embeddings().weight
        output[ends if isinstance(ends, list) else [ends]] *= end_gain
        output[TOKENS:] /= 4  # rows without a token are rarely chosen


def write(name, out, seed, scale):
    """Writes one checkpoint."""
    family, folder = FAMILIES[name], out / name
    # The two ways of writing a Flan-T5 have the same weights.
    seed = zlib.crc32(f"{seed} {name.removesuffix('-old')}".encode())
    model = family.model(scale)
    draw_weights(model, seed)
    if family.generation:
        for key, value in family.generation.items():
            setattr(model.generation_config, key, value)
    with torch.no_grad():
        settle(model, family.end_gain)
    folder.mkdir(parents=True, exist_ok=True)
    model.to(family.dtype).save_pretrained(folder, max_shard_size=family.shard)
    tokenizer, specials = family.vocabulary()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials).save_pretrained(folder)
    compact = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(compact, encoding="utf-8")
    for rewrite in family.rewrites:
        rewrite(folder)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{name}: {sum(p.numel() for p in model.parameters()):,} weights, {size:,} bytes")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the checkpoints")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=int, default=1, help="multiplies widths, not head counts")
    parser.add_argument("--families", default=",".join(FAMILIES), help="comma-separated")
    arguments = parser.parse_args()
    for name in arguments.families.split(","):
        write(name, arguments.out, arguments.seed, arguments.scale)


if __name__ == "__main__":
    main()
