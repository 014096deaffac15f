#!/usr/bin/env bash
# Puts together what `measure.py` needs on a machine with a GPU. Usage: kit.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/../../.."
out="${1:?usage: kit.sh FOLDER}"
mkdir -p "$out"

# The last artifact of a cargo command that is a program.
built() {
    cargo "$@" --message-format=json |
        python3 -c 'import json,sys
found = [m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable")]
print(found[-1])'
}

throughput="$(built bench -p proofmill-engine --bench throughput --no-run)"
kernels="$(built test --release -p proofmill-engine --test kernels --no-run)"
install "$throughput" "$out/throughput"
install "$kernels" "$out/kernels"
strip "$out/throughput" "$out/kernels"
cp tests/bench/gpu/*.py "$out/"
# The tests name their data by its place in the tree; on the other machine they are told this one.
mkdir -p "$out/parity"
cp -r udfs/engine/tests/parity/data "$out/parity/"
du -sh "$out"
