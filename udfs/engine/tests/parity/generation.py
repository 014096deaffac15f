"""Goldens of models that write text."""

import random

import torch
from transformers import (
    LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper,
)

import texts
from noise import GumbelNoise
from reference import LAYERS_OF, Jitter, Reference, short, true_double

FORWARD_ROWS = 2  # logits kept per text, to keep the files small
SEED = 7
SAMPLES = 2
SCORED = (0, 1, 3)  # texts that continuations are scored behind


def make(folder, tokenizer, seed):
    """All goldens of a checkpoint: what goes into JSON, and tensors."""
    reference = Reference(folder)
    prompts = texts.prompts(seed)
    read = [tokenizer(text)["input_ids"] for text in prompts]

    def plain(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    forward, tensors, error = forwards(reference, read, seed)
    record = dict(
        kind="seq2seq" if reference.is_seq2seq else "causal",
        ends=reference.ends,
        f32_error=short(error, 2),
        texts=[dict(text=text, ids=tokens) for text, tokens in zip(prompts, read)],
        forward=forward,
        greedy=greedy(reference, tokenizer, read),
        prefixed=prefixed(reference, read, seed, plain),
        beam=[beam(reference, read, 1.0, False), beam(reference, read, 0.6, True)],
        sampled=[sampled(reference, read, 0.8, 50, 0.9), sampled(reference, read, 1.0, 0, 1.0)],
        scores=scores(reference, tokenizer, prompts, read, seed, plain),
    )
    for layer, states in enumerate(reference.layers(read[LAYERS_OF])):
        tensors[f"layer.{layer}"] = states[0].clone()
    if reference.is_seq2seq:
        record["fusion"], more = fusions(reference, tokenizer, seed)
        tensors |= more
    return record, tensors


def forwards(reference, read, seed):
    """Teacher-forced logits, states, and how far f32 is from f64."""
    rng = random.Random(f"forward {seed}")
    records, tensors, found = [], {}, []
    for number, tokens in enumerate(read):
        forced = []
        if reference.is_seq2seq:
            forced = [rng.randrange(4, 470) for _ in range(5)]
            if number < 3:
                tensors[f"encoder.{number}"] = reference.encode([tokens])[0]
            passages, after, logits = [tokens], forced, reference.logits([tokens], forced)
        else:
            tensors[f"hidden.{number}"] = reference.hidden(tokens)
            passages, after = [tokens[:1]], tokens[1:]
            logits = reference.logits(passages, after)
        first = max(0, len(logits) - FORWARD_ROWS)
        tensors[f"logits.{number}"] = logits[first:].clone()
        records.append(dict(text=number, forced=forced, first=first))
        found.append((passages, after, logits))
    reference.model.double()
    with true_double():
        truth = torch.cat([reference.logits(p, a) for p, a, _ in found])
    reference.model.float()
    f32 = torch.cat([logits for _, _, logits in found]).double()
    return records, tensors, (f32 - truth).norm() / truth.norm()


def greedy(reference, tokenizer, read):
    """The likeliest token at every step."""
    runs = []
    for number, tokens in enumerate(read):
        run = reference.answer([tokens])
        decoded = tokenizer.backend_tokenizer.decode(run["tokens"], skip_special_tokens=True)
        runs.append(dict(text=number, decoded=decoded, **run))
    return runs


def prefixed(reference, read, seed, plain):
    """Greedy answers that are made to begin with a text."""
    if forces_tokens(reference):
        return []  # transformers forces the first token only where nothing is given
    runs = []
    for number, prefix in zip((1, 2), texts.continuations(seed)):
        forced = plain(prefix)
        run = reference.answer([read[number]], forced)
        runs.append(dict(text=number, prefix=prefix, forced=forced, **run))
    return runs


def forces_tokens(reference):
    """Whether generate() forces a token, as BART's configuration says."""
    config = reference.model.generation_config
    return config.forced_bos_token_id is not None or config.forced_eos_token_id is not None


def beam(reference, read, length_penalty, early_stopping):
    """The best two of four beams."""
    settings = dict(num_beams=4, num_return_sequences=2, length_penalty=length_penalty,
                    early_stopping=early_stopping)

    def search(tokens, **more):
        answer, first = reference.generate([tokens], **settings, **more)
        found = [reference.cut(row[first:].tolist()) for row in answer.sequences]
        return found, answer.sequences_scores.tolist()

    runs = []
    for number, tokens in enumerate(read):
        found, values = search(tokens)
        shaken = [search(tokens, logits_processor=LogitsProcessorList([Jitter(seed)]))[0]
                  for seed in range(3)]
        answers = [
            dict(tokens=answer, score=short(value, 9),
                 logprob=short(reference.logprobs([tokens], answer).sum(), 10))
            for answer, value in zip(found, values)
        ]
        runs.append(dict(text=number, stable=shaken == [found] * 3, answers=answers))
    return dict(beams=4, answers=2, length_penalty=length_penalty, early_stopping=early_stopping,
                runs=runs)


def sampled(reference, read, temperature, top_k, top_p):
    """Samples by our noise, after the warpers of transformers."""
    warpers = []
    if temperature != 1.0:
        warpers.append(TemperatureLogitsWarper(temperature))
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        warpers.append(TopPLogitsWarper(top_p))
    runs = []
    for number, tokens in enumerate(read):
        for sample in range(SAMPLES):
            first = 1 if reference.is_seq2seq else len(tokens)
            noise = GumbelNoise(SEED, number, sample, first)
            chain = LogitsProcessorList([*warpers, noise])
            run = reference.answer([tokens], logits_processor=chain)
            runs.append(dict(text=number, row=number, sample=sample, **run))
    return dict(temperature=temperature, top_k=top_k, top_p=top_p, seed=SEED, runs=runs)


def scores(reference, tokenizer, prompts, read, seed, plain):
    """Log-probabilities of several continuations behind one prompt."""
    records = []
    for number in SCORED:
        given = texts.continuations(seed)
        likely = likely_continuation(reference, tokenizer, prompts[number], read[number], plain)
        rows = []
        for text in given + likely:
            tokens = plain(text)
            joined = tokenizer(prompts[number] + text)["input_ids"]
            assert reference.is_seq2seq or joined == read[number] + tokens, text
            logits = reference.logits([read[number]], tokens).double()
            logprobs = logits.log_softmax(-1)
            chosen = logprobs[:-1].gather(-1, torch.tensor(tokens)[:, None])
            best = logits[:-1].topk(2, -1).values
            rows.append(dict(
                text=text, tokens=tokens, logprob=short(chosen.sum(), 10),
                logprobs=[short(one, 9) for one in chosen[:, 0]],
                end_logprob=short(logprobs[-1, reference.ends[0]], 10),
                is_greedy=logits[:-1].argmax(-1).tolist() == tokens,
                gap=short((best[:, 0] - best[:, 1]).min())))
        prompt_logprobs = [] if reference.is_seq2seq else [
            short(one, 9) for one in reference.logprobs([read[number][:1]], read[number][1:])]
        records.append(dict(
            text=number, prompt_logprobs=prompt_logprobs, continuations=rows))
    return records


def likely_continuation(reference, tokenizer, prompt, read, plain):
    """What greedy decoding would say, as a text, where text and tokens can stand for each other."""
    tokens = reference.answer([read])["tokens"]
    for count in (3, 2, 1):
        text = tokenizer.backend_tokenizer.decode(tokens[:count], skip_special_tokens=True)
        joined = tokenizer(prompt + text)["input_ids"]
        if plain(text) == tokens[:count] and (
            reference.is_seq2seq or joined == read + tokens[:count]
        ):
            return [text]
    return []


def fusions(reference, tokenizer, seed):
    """Several passages encoded each alone and read together by the decoder."""
    records, tensors = [], {}
    for number, passages in enumerate(texts.passages(seed)):
        read = [tokenizer(text)["input_ids"] for text in passages]
        run = reference.answer(read)
        logits = reference.logits(read, run["tokens"])
        tensors[f"fusion.{number}"] = logits[:FORWARD_ROWS].clone()
        records.append(dict(passages=passages, ids=read, **run))
    return records, tensors
