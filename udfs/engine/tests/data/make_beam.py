"""Beam searches of transformers over a table of log-probabilities, for the Rust side to repeat.

    python make_beam.py beam.json

The next token depends on the last one and on the step: with the last token alone, the same moves
in another order would have equal sums, and which of them is taken is nobody's promise. Tables are
wide enough for every step to have all the candidates it wants. Needs the packages of
`../parity/requirements.txt`.
"""

import itertools
import json
import random
import sys

import numpy as np
import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

STEPS, WORDS = 8, 16
PAD = WORDS  # Never said.
START = 0
CASES = 96


class TableModel(PreTrainedModel, GenerationMixin):
    """A language model that looks its logits up by step and last token."""

    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, table):
        super().__init__(PretrainedConfig(vocab_size=WORDS))
        self.table = torch.nn.Parameter(table, requires_grad=False)

    def forward(self, input_ids, **_):
        return CausalLMOutput(logits=self.table[input_ids.shape[1] - 1, input_ids[:, -1:]])


def draw_table():
    """Logits in which tokens 1 to 3, the possible ends, are likely now and then."""
    generator = torch.Generator().manual_seed(20)
    table = 1.5 * torch.randn((STEPS, WORDS, WORDS), generator=generator)
    table[:, :, 1:4] += 0.5
    return table


def draw_cases():
    """Settings in which a table of this width offers enough candidates."""
    grid = itertools.product(
        [2, 3, 4, 5],  # beams
        [-1.0, -0.5, 0.0, 0.625, 1.0, 2.0],  # length penalty, exact in f32
        [False, True],  # early stopping
        [1, 2, 4, 8],  # most tokens
        [[], [1], [1, 2], [1, 2, 3]],  # ends
    )
    wide = [case for case in grid if max(2, 1 + len(case[4])) * case[0] <= WORDS]
    draw = random.Random(20)
    # Searches that may be long and may end say most.
    weights = [case[3] * (1 + len(case[4])) for case in wide]
    for beams, penalty, early, most, ends in draw.choices(wide, weights, k=CASES):
        yield {
            "beams": beams,
            "answers": draw.choice([1, beams, beams]),
            "length_penalty": penalty,
            "early_stopping": early,
            "max_tokens": most,
            "ends": ends,
        }


def search(model, case):
    """What transformers answers: tokens and score of each sequence, best first."""
    out = model.generate(
        torch.tensor([[START]]),
        attention_mask=torch.ones((1, 1), dtype=torch.long),
        do_sample=False,
        use_cache=False,
        num_beams=case["beams"],
        num_return_sequences=case["answers"],
        length_penalty=case["length_penalty"],
        early_stopping=case["early_stopping"],
        max_new_tokens=case["max_tokens"],
        eos_token_id=case["ends"] or None,
        pad_token_id=PAD,
        return_dict_in_generate=True,
        output_scores=True,
    )
    rows = zip(out.sequences[:, 1:].tolist(), shortest(out.sequences_scores))
    return [[[token for token in row if token != PAD], score] for row, score in rows]


def shortest(values):
    """f32 as the shortest decimals that mean them."""
    return [float(str(value)) for value in values.numpy().astype(np.float32)]


def main(path):
    table = draw_table()
    model = TableModel(table).eval()
    golden = {
        "words": WORDS,
        "start": START,
        "logprobs": shortest(torch.log_softmax(table, dim=-1).flatten()),
        "cases": [{**case, "found": search(model, case)} for case in draw_cases()],
    }
    with open(path, "w") as file:
        json.dump(golden, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
