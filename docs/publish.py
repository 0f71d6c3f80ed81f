"""Put the published numbers on the pages: README.md, benchmarks/README.md and docs/*.md.

    python docs/publish.py               from the committed result files
    python docs/publish.py FOLDER ...    after taking over what `lowswitch reproduce` and
                                         `lowswitch reproduce --full` wrote into their folders
    python docs/publish.py --check       say which pages differ from the files, and change nothing

The other result files are written by docs/frontier.py, docs/orders.py, docs/coarser.py,
docs/effect.py, docs/episodes.py, docs/scales.py, docs/sweeps.py, docs/switching.py and
docs/longer.py, and with --json docs/numbers/NAME.json by speed.py, machines.py, cluster.py, gpu.py,
few/run.py, few/optimum.py, few/meetings.py, linear/run.py, linear/trial.py, ledger.py,
ledger_faults.py, evidence.py, feature_evidence.py, evaluation.py, own.py, federated.py, randql.py,
larfe.py, dimensions.py, knee.py, adversary.py, delays.py, cold.py and service.py of benchmarks/.
"""

import argparse
import sys
from pathlib import Path

import budgets
import coarser
import effect
import episodes
import formulas
import frontier
import longer
import measured
import meetings
import optimum
import orders
import reproduction
import scales
import sweeps
import switching
import trials
import vectors
from pages import PAGES, ROOT, fill


def values() -> dict[str, str]:
    """All that is published, in Markdown, by the name that stands before it on the pages."""
    sources = (
        *(reproduction, frontier, orders, measured, coarser, episodes, scales),
        *(sweeps, switching, longer, budgets, vectors, trials, effect),
        *(optimum, meetings),
    )
    return {name: value for source in sources for name, value in source.values().items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for folder in options.folders:
        reproduction.keep(folder)
    published, different = values(), False
    wanted = {ROOT / name: fill((ROOT / name).read_text("utf-8"), published) for name in PAGES}
    for path, text in (wanted | generated()).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            different = True
            print(f"{path.relative_to(ROOT)} {'differs' if options.check else 'changed'}")
            if not options.check:
                path.write_text(text, encoding="utf-8")
    return int(different and options.check)


def generated() -> dict[Path, str]:
    """The pages that are made as a whole."""
    return {formulas.PAGE: formulas.render()}


if __name__ == "__main__":
    sys.exit(main())
