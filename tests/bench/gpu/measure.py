#!/usr/bin/env python3
"""Parity and speed of proofmill's engine on a GPU, beside transformers. See README.md."""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import torch
import transformers

import models
import roofline

HERE = pathlib.Path(__file__).resolve().parent
NEW_TOKENS = 32
BATCHES = (1, 64, 256)
MODELS = ("t5-base", "t5-large", "opt-1.3b", "llama-3.2-1b")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-results"))
    parser.add_argument("--minutes", type=float, default=9.0, help="no cell is begun after these")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--only", choices=("parity", "speed"))
    parser.add_argument("--quick", action="store_true", help="tiny models only")
    return parser.parse_args()


def ceilings(device: str) -> tuple[float, float]:
    """Bytes a second of a large copy (read and written), operations a second of a large bf16 product."""
    if not device.startswith("cuda"):
        return 30e9, 200e9

    def best(run, count: int) -> float:
        run()
        times = []
        for _ in range(count):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        return sorted(times)[len(times) // 2]

    source = torch.randn(1 << 29, device=device)
    target = torch.empty_like(source)
    bandwidth = 2 * source.nbytes / best(lambda: target.copy_(source), 10)
    del source, target
    a, b = (torch.randn(8192, 8192, device=device, dtype=torch.bfloat16) for _ in range(2))
    rate = 2 * 8192**3 / best(lambda: a @ b, 20)
    return bandwidth, rate


def parity(options) -> bool:
    """All tests of kernels and whole models, on the device instead of the emulator."""
    environment = {
        **os.environ, "PROOFMILL_KERNELS_ON": options.device,
        "PROOFMILL_PARITY_DATA": str(HERE / "parity" / "data"),
    }
    command = [str(HERE / "kernels"), "--nocapture", "--test-threads=1", "--skip", "mutation",
               "--skip", "trials", "--skip", "watched"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    (options.out / "parity.txt").write_text(done.stdout + done.stderr)
    lines = [line for line in (done.stdout + done.stderr).splitlines()
             if line.startswith(("F32:", "Bf16:", "Int8:", "test result")) or "FAILED" in line]
    print("\n".join(lines), flush=True)
    return done.returncode == 0


def ours(folder: pathlib.Path, prompts: list[list[int]], batch: int, options) -> dict:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(models.text(prompt) for prompt in prompts))
        file.flush()
        command = [
            str(HERE / "throughput"), "generate", "--model", str(folder), "--prompts", file.name,
            "--device", options.device, "--dtype", options.dtype, "--new-tokens", str(NEW_TOKENS),
            "--max-num-seqs", str(batch), "--max-batch-tokens", "16384", "--repeat", "2",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1:] or ["no message"]}
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {"tokens_per_s": said["tokens_out_per_s"], "wall_s": said["wall_s"], "raw": said}


def theirs(model, prompts: list[list[int]], batch: int, device: str) -> dict:
    """`generate` in batches of texts that are sorted by length and padded."""
    decoder = not model.config.is_encoder_decoder
    ordered = sorted(prompts, key=len)

    def once():
        for start in range(0, len(ordered), batch):
            group = ordered[start : start + batch]
            longest = max(map(len, group))
            ids = torch.zeros(len(group), longest, dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, prompt in enumerate(group):
                place = slice(longest - len(prompt), None) if decoder else slice(0, len(prompt))
                ids[row, place] = torch.tensor(prompt)
                mask[row, place] = 1
            model.generate(
                input_ids=ids.to(device), attention_mask=mask.to(device), do_sample=False,
                min_new_tokens=NEW_TOKENS, max_new_tokens=NEW_TOKENS, num_beams=1)
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    return timed(once, len(prompts), device)


def theirs_continuous(model, prompts: list[list[int]], device: str) -> dict:
    """`generate_batch`: continuous batching, where transformers has it."""
    if model.config.is_encoder_decoder or not hasattr(model, "generate_batch"):
        return {"error": "not offered"}
    config = transformers.GenerationConfig(
        max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False,
        pad_token_id=0, eos_token_id=1)

    def once():
        answers = model.generate_batch(inputs=prompts, generation_config=config, progress_bar=False)
        # A request that fails is only logged, and is very fast.
        whole = [len(answer.generated_tokens) == NEW_TOKENS for answer in answers.values()]
        if len(whole) != len(prompts) or not all(whole):
            raise RuntimeError(f"{sum(whole)} of {len(prompts)} answers are whole")

    # It computes in a thread of its own, which is not in the inference mode of this one.
    return timed(once, len(prompts), device, torch.no_grad)


def timed(once, rows: int, device: str, mode=torch.inference_mode) -> dict:
    try:
        with mode():
            if device.startswith("cuda"):
                torch.cuda.reset_peak_memory_stats()
            once()
            start = time.perf_counter()
            once()
            wall = time.perf_counter() - start
    except Exception as error:  # noqa: BLE001: whatever a peer raises is its result
        return {"error": [f"{type(error).__name__}: {error}"[:200]]}
    peak = torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else None
    return {"tokens_per_s": rows * NEW_TOKENS / wall, "wall_s": wall, "peak_gib": peak}


def speed(options, started: float) -> None:
    bandwidth, rate = ceilings(options.device)
    print(f"ceilings: {bandwidth / 1e9:.0f} GB/s, {rate / 1e12:.0f} TFLOP/s in bf16", flush=True)
    print(f"{'model':14}{'batch':>6}{'prompts':>9}{'proofmill':>11}{'roofline':>10}{'generate':>10}"
          f"{'ratio':>7}{'batched':>10}{'ratio':>7}", flush=True)
    names = ("t5-tiny", "llama-tiny") if options.quick else MODELS
    raw = (options.out / "speed.jsonl").open("w")
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            folder = pathlib.Path(scratch) / name
            model, config = models.make(name, folder, options.device)
            shape = roofline.Shape.of(config)
            for batch in BATCHES:
                if time.monotonic() - started > options.minutes * 60:
                    print(f"{name:14}{batch:6}  left out: no time", flush=True)
                    continue
                count = 4 if batch == 1 else 2 * batch
                prompts = models.prompts(count, 64, 512)
                # One after the other: they share the GPU.
                hf = theirs(model, prompts, batch, options.device)
                many = theirs_continuous(model, prompts, options.device) if batch > 1 else {}
                own = ours(folder, prompts, batch, options)
                least = roofline.seconds(
                    shape, sorted(map(len, prompts)), NEW_TOKENS, batch, bandwidth, rate)
                line = {
                    "model": name, "batch": batch, "prompts": count, "new_tokens": NEW_TOKENS,
                    "dtype": options.dtype, "proofmill": own, "generate": hf,
                    "generate_batch": many, "roofline_s": least,
                    "bandwidth": bandwidth, "rate": rate,
                }
                print(json.dumps(line), file=raw, flush=True)
                print(row(line), flush=True)
            del model
            if options.device.startswith("cuda"):
                torch.cuda.empty_cache()


def row(line: dict) -> str:
    def rate(of: str) -> str:
        value = line[of].get("tokens_per_s")
        return f"{value:.0f}" if value else "-"

    def ratio(of: str) -> str:
        own, other = (line[name].get("tokens_per_s") for name in ("proofmill", of))
        return f"{own / other:.1f}x" if own and other else "-"

    wall = line["proofmill"].get("wall_s")
    share = f"{100 * line['roofline_s'] / wall:.0f} %" if wall else "-"
    return (f"{line['model']:14}{line['batch']:6}{line['prompts']:9}{rate('proofmill'):>11}{share:>10}"
            f"{rate('generate'):>10}{ratio('generate'):>7}{rate('generate_batch'):>10}"
            f"{ratio('generate_batch'):>7}")


def main() -> int:
    options = arguments()
    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    on_gpu = options.device.startswith("cuda")
    machine = {
        "gpu": torch.cuda.get_device_name() if on_gpu else None, "torch": torch.__version__,
        "transformers": transformers.__version__, "python": platform.python_version(),
        "driver": subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True, text=True).stdout.strip() if on_gpu else None,
    }
    (options.out / "machine.json").write_text(json.dumps(machine, indent=1))
    print(machine, flush=True)
    sound = options.only == "speed" or parity(options)
    if options.only != "parity":
        speed(options, started)
    print(f"{time.monotonic() - started:.0f} s; raw results in {options.out}")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
