"""Times the exact search over vectors against faiss's IndexFlatIP, in turns and in one run.

    python tests/bench/dense_peer.py BENCH [--entries 200000] [--queries 2000] [--dimensions 384] [--threads 2] [--repeat 3]

BENCH is the program that `cargo bench -p proofmill-retrieval --bench dense --no-run` names. Both search the same vectors,
which both draw from the same seeds, and the hits of both are compared. Needs numpy and faiss-cpu.
"""
import argparse
import re
import resource
import subprocess
import tempfile
import time

import faiss
import numpy as np

GAMMA = 0x9E3779B97F4A7C15


def vectors(seed, count, dimensions, first=0):
    """Those of `Random` in dense.rs from vector `first` on: SplitMix64, numbers from -1 to 1."""
    begin = first * dimensions
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(begin + 1, begin + count * dimensions + 1, dtype=np.uint64) * np.uint64(GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = (z ^ (z >> np.uint64(31))) >> np.uint64(40)
    numbers = z.astype(np.float32) / np.float32(1 << 24) * np.float32(2) - np.float32(1)
    return numbers.reshape(count, dimensions)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    sizes = [str(n) for n in (args.entries, args.queries, args.dimensions, args.threads)]
    faiss.omp_set_num_threads(args.threads)
    queries = vectors(42, args.queries, args.dimensions)
    index = faiss.IndexFlatIP(args.dimensions)
    for first in range(0, args.entries, 50_000):
        index.add(vectors(7, min(50_000, args.entries - first), args.dimensions, first))
    ours, theirs = [], []
    for _ in range(args.repeat):
        with tempfile.NamedTemporaryFile() as hits:
            done = subprocess.run([args.bench, *sizes, hits.name], check=True, capture_output=True, text=True)
            found = np.loadtxt(hits.name, dtype=np.int64)
        ours.append(float(re.search(r"search.* ([0-9.]+) s$", done.stdout, re.MULTILINE).group(1)))
        peak = re.search(r"memory +([0-9]+) MB", done.stdout).group(1)
        started = time.perf_counter()
        scores, wanted = index.search(queries, found.shape[1])
        theirs.append(time.perf_counter() - started)
        print(f"ours {ours[-1]:.2f} s, peak {peak} MB; faiss {faiss.__version__} {theirs[-1]:.2f} s; ", end="")
        same = sum(len(set(a) & set(b)) for a, b in zip(found, wanted))
        print(f"{same} of {found.size} hits are the same, {(found == wanted).sum()} in the same place", flush=True)
    faiss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    print(f"best: ours {min(ours):.2f} s, faiss {min(theirs):.2f} s, {min(theirs) / min(ours):.2f} times; faiss's process {faiss_mb} MB")


if __name__ == "__main__":
    main()
