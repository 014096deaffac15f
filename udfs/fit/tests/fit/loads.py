"""What transformers and sentence-transformers make of a fitted folder; used by `transformers.rs`.

    python loads.py FOLDER < texts.json

Reads a list of texts; writes a list of vectors of an encoder, or of greedy answers (tokens and text) of a model that
writes.
"""

import json
import sys

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer


def vectors(folder, texts):
    """By sentence-transformers, as its files say."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    return [[float(x) for x in vector] for vector in model.encode(texts)]


def answers(folder, texts):
    """Greedy, one at a time."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model, report = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    found = []
    for text in texts:
        read = tokenizer(text, return_tensors="pt")["input_ids"]
        tokens = model.eval().generate(read, do_sample=False, num_beams=1, max_new_tokens=32)[0, 1:]
        found.append(tokenizer.decode(tokens, skip_special_tokens=True))
    return found


def main():
    folder, texts = sys.argv[1], json.load(sys.stdin)
    torch.set_num_threads(1)
    writes = AutoConfig.from_pretrained(folder).is_encoder_decoder
    json.dump((answers if writes else vectors)(folder, texts), sys.stdout)


if __name__ == "__main__":
    main()
