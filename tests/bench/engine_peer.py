"""Times vectors of sentences and hidden states behind a shared prefix against sentence-transformers and transformers, in turns and in one run.

    python tests/bench/engine_peer.py embed  THROUGHPUT --model MINILM --texts FILE [--count 10000] [--repeat 3]
    python tests/bench/engine_peer.py hidden THROUGHPUT --model LM --texts FILE [--demos 8] [--count 2000] [--repeat 3]

THROUGHPUT is the program that `cargo bench -p proofmill-engine --bench throughput --no-run` names. FILE has a text a line. For `hidden` its first lines
are the demonstrations, and the hidden state at the last token is asked of each further line behind all of them: of transformers once with a pass of its own for each
prompt (batches sorted by length, padded on the left), once with the keys and values of the prefix computed before and given to each batch. The threads are two. Needs torch, transformers and sentence-transformers.
"""
import argparse
import copy
import json
import subprocess
import tempfile
import time

import torch

THREADS = 2
BATCH = 32


def ours(args, texts, *options):
    """Seconds, and all that the program says."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as prompts:
        prompts.write("\n".join(texts) + "\n")
        prompts.flush()
        command = [args.program, args.task, "--model", args.model, "--prompts", prompts.name, "--workers", str(THREADS), "--repeat", "1", *options]
        said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return said["wall_s"], said


def timed(run):
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def turns(args, systems):
    """The best time of each system."""
    best = {}
    for _ in range(args.repeat):
        for name, run in systems.items():
            seconds = run()
            best[name] = min(seconds, best.get(name, seconds))
            print(f"{name:<44}{seconds:>9.2f} s", flush=True)
    return best


def table(best, peer, count):
    print(f"\n{'best of all turns':<44}{'seconds':>9}{'texts/s':>10}{'peer/this':>11}")
    for name, seconds in best.items():
        print(f"{name:<44}{seconds:>9.2f}{count / seconds:>10.0f}{best[peer] / seconds:>11.2f}")


def embed(args, texts):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(args.model, device="cpu")
    peer = "sentence-transformers f32, batches of 32"
    systems = {
        peer: lambda: timed(lambda: model.encode(texts, batch_size=BATCH, normalize_embeddings=True)),
        "sentence-transformers f32, batches of 128": lambda: timed(lambda: model.encode(texts, batch_size=128, normalize_embeddings=True)),
        "ours f32": lambda: ours(args, texts)[0],
        "ours int8": lambda: ours(args, texts, "--dtype", "int8")[0],
    }
    best = turns(args, systems)
    peer = min((name for name in best if name != "ours f32" and name != "ours int8"), key=best.get)
    table(best, peer, len(texts))


def hidden(args, lines):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prefix, texts = " ".join(lines[: args.demos]) + " ", lines[args.demos :]
    tokenizer = AutoTokenizer.from_pretrained(args.model, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    full = [tokenizer(prefix + text)["input_ids"] for text in texts]
    shared = 0
    while all(len(ids) > shared + 1 and ids[shared] == full[0][shared] for ids in full):
        shared += 1
    order = sorted(range(len(full)), key=lambda i: len(full[i]))

    def padded(rows):
        width = max(map(len, rows))
        ids = torch.full((len(rows), width), tokenizer.pad_token_id)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, width - len(row) :] = torch.tensor(row)
            mask[i, width - len(row) :] = 1
        return ids, mask

    @torch.no_grad()
    def alone():
        found = {}
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            ids, mask = padded([full[i] for i in batch])
            states = model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state[:, -1]
            found.update(zip(batch, states))
        return found

    @torch.no_grad()
    def cached():
        found = {}
        cache = model.base_model(input_ids=torch.tensor([full[0][:shared]]), use_cache=True).past_key_values
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            ids, mask = padded([full[i][shared:] for i in batch])
            mask = torch.cat([torch.ones((len(batch), shared), dtype=torch.long), mask], 1)
            past = copy.deepcopy(cache)
            past.batch_repeat_interleave(len(batch))
            states = model.base_model(input_ids=ids, attention_mask=mask, past_key_values=past).last_hidden_state[:, -1]
            found.update(zip(batch, states))
        return found

    one, two = alone(), cached()
    apart = max((one[i] - two[i]).abs().max().item() for i in one)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(prefix)
        file.flush()
        options = ("--prefix", file.name)
        said = ours(args, texts, *options)[1]
        all_tokens, computed = said["tokens_of_one_pass_each"], said["tokens_computed"]
        print(f"{len(texts)} prompts of {len(full[order[0]])} to {len(full[order[-1]])} tokens, {shared} shared; largest difference of transformers' two ways {apart:.1e}")
        print(f"tokens: {all_tokens} with a pass for each prompt, {computed} computed by ours ({all_tokens / computed:.1f} times fewer)")
        peer = "transformers f32, a pass for each prompt"
        best = turns(args, {
            peer: lambda: timed(alone),
            "transformers f32, the prefix's cache shared": lambda: timed(cached),
            "ours f32": lambda: ours(args, texts, *options)[0],
            "ours int8": lambda: ours(args, texts, *options, "--dtype", "int8")[0],
        })
    table(best, peer, len(texts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["embed", "hidden"])
    parser.add_argument("program")
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--demos", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    with open(args.texts, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    if args.task == "embed":
        embed(args, lines[: args.count])
    else:
        hidden(args, lines[: args.demos + args.count])


if __name__ == "__main__":
    main()
