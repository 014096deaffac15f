"""The Gumbel noise of sampling: a pure function of seed, row, sample, step and token.

    python noise.py data/noise.json

writes draws that the Rust side must reproduce: the uniform to the bit, the Gumbel up to the last
place of the logarithm.
"""

import json
import sys

import numpy as np
import torch
from transformers import LogitsProcessor

U64 = np.uint64


def mix(value):
    """The finaliser of splitmix64 over arrays of 64-bit numbers."""
    with np.errstate(over="ignore"):
        z = U64(value) + U64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
    return z ^ (z >> U64(31))


def uniform(seed, row, sample, step, token):
    """Draws in (0, 1) with 53 random bits; `token` may be an array."""
    h = mix(mix(mix(mix(mix(seed) ^ U64(row)) ^ U64(sample)) ^ U64(step)) ^ U64(token))
    return ((h >> U64(11)).astype(np.float64) + 0.5) / 2.0**53


def gumbel(seed, row, sample, step, token):
    """Gumbel noise; the argmax of logits plus noise is an exact sample of their softmax."""
    return -np.log(-np.log(uniform(seed, row, sample, step, token)))


class GumbelNoise(LogitsProcessor):
    """Adds the noise of one row and sample to warped logits, in f64."""

    def __init__(self, seed, row, sample, first):
        self.seed, self.row, self.sample, self.first = seed, row, sample, first

    def __call__(self, input_ids, scores):
        step = input_ids.shape[1] - self.first
        token = np.arange(scores.shape[1], dtype=np.uint64)
        noise = gumbel(self.seed, self.row, self.sample, step, token)
        return scores.double() + torch.from_numpy(noise)[None]


def main():
    largest = 2**64 - 1
    keys = [(7, 0, 0, 0, 0), (7, 3, 0, 15, 511), (7, 1, 2, 3, 4), (0, 2**40, 1, 1000, 128255)]
    keys += [(largest, largest, 4294967295, 4294967295, 4294967295)]
    draws = []
    for key in keys:
        token = np.array([key[4]], dtype=np.uint64)
        u, g = uniform(*key[:4], token)[0], gumbel(*key[:4], token)[0]
        names = ("seed", "row", "sample", "step", "token")
        draws.append(dict(zip(names, key)) | dict(uniform=float(u), gumbel=float(g)))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(draw) for draw in draws) + "\n]\n")


if __name__ == "__main__":
    main()
