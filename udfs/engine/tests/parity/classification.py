"""Goldens of models that tell the class of a text, or of a pair of texts."""

import torch
from transformers import AutoModelForSequenceClassification, pipeline

import texts
from reference import short, true_double

CUTS = (None, 24, 7)  # most tokens, special ones included


def make(folder, tokenizer, seed):
    """All goldens of a checkpoint: what goes into JSON, and no tensors."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    prompts = texts.prompts(seed)
    pairs = [None, *reversed(prompts)]
    asked = [(text, pair, cut) for text in prompts[1:] for pair in pairs for cut in CUTS]
    read = [encode(tokenizer, *one) for one in asked]
    logits = [model(**one).logits[0] for one in read]
    told = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None, device=-1)
    records = []
    for (text, pair, cut), one, values in zip(asked, read, logits):
        record = dict(text=text, pair=pair, truncate=cut, ids=one["input_ids"][0].tolist(),
                      logits=[short(value, 9) for value in values])
        if cut is None:
            given = dict(text=text) if pair is None else dict(text=text, text_pair=pair)
            scores = {entry["label"]: entry["score"] for entry in told(given)}
            record["probabilities"] = [
                short(scores[model.config.id2label[i]], 9) for i in range(len(scores))]
        records.append(record)
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
    model.double()
    with true_double():
        truth = torch.stack([model(**one).logits[0] for one in read])
    error = (torch.stack(logits).double() - truth).norm() / truth.norm()
    listed = [dict(text=text, ids=tokenizer(text)["input_ids"]) for text in prompts]
    return dict(kind="classifier", f32_error=short(error, 2), labels=labels, texts=listed,
                classes=records), {}


def encode(tokenizer, text, pair, cut):
    """Tokens and token types as a caller of transformers gets them by `truncation=True`."""
    limits = {} if cut is None else dict(truncation="longest_first", max_length=cut)
    return tokenizer(text, pair, return_tensors="pt", **limits)
