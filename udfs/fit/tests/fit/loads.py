"""What transformers and sentence-transformers make of a fitted folder; used by `transformers.rs`.

    python loads.py FOLDER < texts.json

Reads a list of texts, or of lists of passages; writes a list of vectors of an encoder, or of greedy answers of a model
that writes.
"""

import json
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.modeling_outputs import BaseModelOutput


def vectors(folder, texts):
    """By sentence-transformers, as its files say."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    return [[float(x) for x in vector] for vector in model.encode(texts)]


def answers(folder, texts, alone):
    """Greedy, one at a time; passages apart."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    kind = AutoModelForCausalLM if alone else AutoModelForSeq2SeqLM
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    model.eval()
    found = []
    for text in texts:
        reads = [tokenizer(it, return_tensors="pt")["input_ids"] for it in ([text] if isinstance(text, str) else text)]
        settings = {"do_sample": False, "num_beams": 1, "max_new_tokens": 32}
        if alone:
            tokens = model.generate(reads[0], **settings)[0, reads[0].shape[1] :]
        else:
            states = [model.get_encoder()(it).last_hidden_state for it in reads]
            states = BaseModelOutput(last_hidden_state=torch.cat(states, dim=1))
            tokens = model.generate(encoder_outputs=states, **settings)[0, 1:]
        found.append(tokenizer.decode(tokens, skip_special_tokens=True).strip())
    return found


def main():
    folder, texts = sys.argv[1], json.load(sys.stdin)
    torch.set_num_threads(1)
    config = AutoConfig.from_pretrained(folder)
    alone = config.model_type == "opt"
    writes = config.is_encoder_decoder or alone
    json.dump(answers(folder, texts, alone) if writes else vectors(folder, texts), sys.stdout)


if __name__ == "__main__":
    main()
