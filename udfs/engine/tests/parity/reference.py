"""One way to ask every text-writing model of transformers: ids in; logits, answers out.

Texts go through one at a time, so there is no padding anywhere.
"""

import contextlib
from unittest import mock

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, LogitsProcessor
from transformers.modeling_outputs import BaseModelOutput

NEW_TOKENS = 16
LAYERS_OF = 2  # the text whose states are kept of every layer
NO_GAP = 1e9  # where there is only one choice


class Jitter(LogitsProcessor):
    """Moves every score by a little; an answer that survives it hangs on no near-tie."""

    def __init__(self, seed, size=1e-4):
        self.generator, self.size = torch.Generator().manual_seed(seed), size

    def __call__(self, input_ids, scores):
        draw = torch.rand(scores.shape[1], generator=self.generator)
        return scores + (draw - 0.5) * 2 * self.size


@contextlib.contextmanager
def true_double():
    """Makes the places that insist on f32 (norms, softmax, rotary angles) work in f64."""
    with (
        mock.patch.object(torch, "float", torch.float64),
        mock.patch.object(torch, "float32", torch.float64),
        mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
    ):
        yield


class Reference:
    """A model of transformers in f32."""

    def __init__(self, folder):
        self.config = AutoConfig.from_pretrained(folder)
        self.is_seq2seq = bool(self.config.is_encoder_decoder)
        kind = AutoModelForSeq2SeqLM if self.is_seq2seq else AutoModelForCausalLM
        self.model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        ends = self.model.generation_config.eos_token_id
        self.ends = ends if isinstance(ends, list) else [ends]
        pad = self.model.generation_config.pad_token_id
        self.pad = self.ends[0] if pad is None else pad
        self.start = [self.config.decoder_start_token_id] if self.is_seq2seq else []

    def encode(self, passages):
        """The encoder's states of passages read one by one, end to end."""
        return torch.cat([self.model.get_encoder()(ids(p)).last_hidden_state for p in passages], 1)

    def logits(self, passages, forced):
        """Logits of the token after the prompt and after each forced token."""
        if self.is_seq2seq:
            encoded = BaseModelOutput(self.encode(passages))
            given = dict(encoder_outputs=encoded, decoder_input_ids=ids(self.start + forced))
            return self.model(**given, use_cache=False).logits[0]
        (prompt,) = passages
        return self.model(ids(prompt + forced), use_cache=False).logits[0, len(prompt) - 1:]

    def logprobs(self, passages, tokens, forced=()):
        """Natural log-probabilities of tokens after the forced ones."""
        forced = list(forced)
        logits = self.logits(passages, forced + tokens)[len(forced):-1].double()
        return logits.log_softmax(-1).gather(-1, torch.tensor(tokens)[:, None])[:, 0]

    def hidden(self, prompt):
        """The final state of the last token, after the final norm."""
        return self.model.base_model(ids(prompt), use_cache=False).last_hidden_state[0, -1]

    def layers(self, prompt):
        """The hidden states of all layers of what reads texts, the embedding first."""
        reader = self.model.get_encoder() if self.is_seq2seq else self.model.base_model
        more = {} if self.is_seq2seq else dict(use_cache=False)
        return reader(ids(prompt), output_hidden_states=True, **more).hidden_states

    def generate(self, passages, forced=(), **settings):
        """Raw answers of `generate`, and where their new tokens begin."""
        if self.is_seq2seq:
            states = self.encode(passages)
            # generate() changes what it is given, so every call gets its own.
            given = dict(encoder_outputs=BaseModelOutput(states),
                         attention_mask=torch.ones(states.shape[:2], dtype=torch.long),
                         decoder_input_ids=ids(self.start + list(forced)))
            first = given["decoder_input_ids"].shape[1]
        else:
            (prompt,) = passages
            read = ids(prompt + list(forced))
            given = dict(input_ids=read, attention_mask=torch.ones_like(read))
            first = read.shape[1]
        answer = self.model.generate(
            **given, **dict(num_beams=1) | settings, do_sample=False, pad_token_id=self.pad,
            max_new_tokens=NEW_TOKENS, return_dict_in_generate=True, output_scores=True)
        return answer, first

    def answer(self, passages, forced=(), **settings):
        """One answer: tokens, gaps between the best two choices, log-probability."""
        answer, first = self.generate(passages, forced, **settings)
        tokens = self.cut(answer.sequences[0, first:].tolist())
        best = torch.cat(answer.scores).double().topk(2, -1).values
        gaps = (best[:, 0] - best[:, 1]).clamp(max=NO_GAP).tolist()
        logprobs = self.logprobs(passages, tokens, forced)
        return dict(tokens=tokens, gaps=[short(gap) for gap in gaps[:len(tokens)]],
                    logprob=short(logprobs.sum(), 10),
                    logprobs=[short(one, 9) for one in logprobs])

    def cut(self, tokens):
        """Nothing after the first end."""
        for at, token in enumerate(tokens):
            if token in self.ends:
                return tokens[:at + 1]
        return tokens


def ids(tokens):
    """A batch of one."""
    return torch.tensor([tokens])


def short(number, digits=6):
    """A number with few digits, for JSON."""
    return float(f"{float(number):.{digits}g}")
