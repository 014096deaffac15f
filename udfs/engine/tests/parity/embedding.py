"""Goldens of models that turn a text into vectors."""

import torch
from transformers import AutoModel

import texts
from reference import LAYERS_OF, ids, short, true_double


def make(folder, tokenizer, seed):
    """All goldens of a checkpoint: what goes into JSON, and tensors."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    prompts = texts.prompts(seed)
    read = [tokenizer(text)["input_ids"] for text in prompts]
    outputs = [model(ids(tokens), output_hidden_states=True) for tokens in read]
    hidden = [output.hidden_states[-1][0] for output in outputs]
    tensors = {f"hidden.{number}": states for number, states in enumerate(hidden)}
    for layer, states in enumerate(outputs[LAYERS_OF].hidden_states):
        tensors[f"layer.{layer}"] = states[0].clone()
    tensors["mean"] = torch.stack([mean_normalised(states) for states in hidden])
    tensors["cls"] = torch.stack([states[0] for states in hidden]).clone()
    tensors["pooler"] = torch.cat([output.pooler_output for output in outputs])
    model.double()
    with true_double():
        truth = torch.cat([
            model(ids(tokens), output_hidden_states=True).hidden_states[-1][0] for tokens in read])
    error = (torch.cat(hidden).double() - truth).norm() / truth.norm()
    listed = [dict(text=text, ids=tokens) for text, tokens in zip(prompts, read)]
    return dict(kind="encoder", f32_error=short(error, 2), texts=listed), tensors


def mean_normalised(states):
    """The mean over all tokens, special ones included, at length 1."""
    return torch.nn.functional.normalize(states.mean(0), dim=-1)
