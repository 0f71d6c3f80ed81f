"""A million tries at doors, files, texts and command lines: `python benchmarks/fuzz.py`.

Each family of `tests/fuzz` runs in processes of its own, so that a crash is seen as one. A family
of files ends when every bit was flipped, or every field edited; the others take turns until there
are enough. `--tries 1000000 --json FILE` says how many, and where the counts go.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import bench

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
CHILD = """
import json, sys
import fuzz

family, seed, most, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), open(sys.argv[4], "w")

def note(what):
    last.seek(0)
    last.truncate()
    last.write(what)
    last.flush()

print(json.dumps(fuzz.tries(family, seed, most, note=note)))
"""
PIECE = {"fleets": 5_000, "learners": 10_000, "command lines": 5_000}
SECONDS = 3600  # of one process, after which it counts as hung


def piece(family, seed, most, folder):
    """Tries of one family in a process of its own: how many, how many refused, what went wrong."""
    last = Path(folder) / "last-try"
    paths = [str(TESTS), str(HERE.parent / "src")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", CHILD, family, str(seed), str(most), str(last)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return 0, 0, [f"hung: {last.read_text()}"]
    if done.returncode:
        return 0, 0, [f"exit code {done.returncode} at {last.read_text()}: {done.stderr[-500:]}"]
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--tries", type=int, default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("files", "calls"), help="half of the families")
    parser.add_argument("--folder", type=Path, default=Path("."))
    asked = parser.parse_args()
    sys.path.insert(0, str(TESTS))  # whose fuzz is meant
    from fuzz import FAMILIES

    counts, begin = {family: [0, 0, []] for family in FAMILIES}, time.time()

    def add(family, seed, most):
        for i, value in enumerate(piece(family, seed, most, asked.folder)):
            counts[family][i] += value
        made, refused, wrong = counts[family]
        print(f"{family:20} {made:9,} tries, {refused:9,} refused, {len(wrong)} wrong", flush=True)
        for line in wrong[-3:]:
            print(f"    {line[:300]}", flush=True)
        facts = {"seed": asked.seed, "seconds": round(time.time() - begin), "families": counts}
        bench.write(asked.json, facts)

    endless = [family for family in FAMILIES if " " not in family or family == "command lines"]
    for family in FAMILIES:
        if family not in endless and asked.only != "calls":
            add(family, asked.seed, 10**9)
    seed = asked.seed
    while asked.only != "files" and sum(made for made, _, _ in counts.values()) < asked.tries:
        for family in endless:
            seed += 1
            add(family, seed, PIECE.get(family, 50_000))
    total = sum(made for made, _, _ in counts.values())
    wrong = sum(len(wrong) for _, _, wrong in counts.values())
    print(f"{total:,} tries, {wrong} wrong, {time.time() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
