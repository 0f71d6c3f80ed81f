"""`lowswitch bench`: score cards on the suite, and the table of all entries."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from lowswitch.cli import runs
from lowswitch.cli.syntax import OneOf, argument, command
from lowswitch.io import storage
from lowswitch.show import report

_CELLS = 10  # that are measured again, of all problems and budgets


@command(
    OneOf(
        (
            argument(
                "--algorithm",
                help="Measure this: a text such as few:deployments={N}, where N is the budget, or a"
                " function module:name that makes an algorithm or a learner.",
            ),
            argument(
                "--recipes",
                action="store_true",
                help="Measure every recipe of the library, and what learns nothing: some minutes of"
                " one core.",
            ),
            argument("--check", metavar="FILE", help="Check a submission, and measure it in part."),
            argument(
                "--merge",
                metavar="FILE",
                help="Check a submission, and add it to the table of --into.",
            ),
        ),
        required=False,
    ),
    argument("--name", default="", help="The name of the entry (default: its first word)."),
    argument("--source", default="", help="A reference that describes the algorithm."),
    argument("--into", metavar="FILE", help="The table that --recipes and --merge write."),
    argument(
        "--cells",
        type=int,
        default=_CELLS,
        help="The number of results that --check and --merge measure again, drawn by a hash of"
        " the file.",
    ),
    argument("--out", default="lowswitch-bench", metavar="DIR"),
    argument("--json"),
)
def bench(options: argparse.Namespace) -> None:
    """Compare an algorithm with the best known on a fixed set of problems: a score card."""
    from lowswitch import bench as suite

    if options.check:
        print(_check(suite.read_entry(options.check), options.check, options.cells))
    elif options.merge or options.recipes:
        if not options.into:
            raise ValueError("--merge and --recipes write a table; name it with --into FILE")
        there = suite.read_entries(options.into) if Path(options.into).exists() else []
        new = _recipes() if options.recipes else [suite.read_entry(options.merge)]
        if options.merge:
            _check(new[0], options.merge, options.cells)
        entries = suite.merge(there, new)
        suite.write_entries(options.into, entries)
        print(suite.standings(entries).text(runs.columns()))
    elif options.algorithm:
        _measure(options)
    else:
        print(suite.standings().text(runs.columns()))


def _measure(options: argparse.Namespace) -> None:
    from lowswitch import bench as suite

    folder = Path(options.out)
    storage.make_folder(folder)
    report.require_figure_path(folder / "card.png")
    entry = suite.measure(options.algorithm, name=options.name, source=options.source)
    card = suite.score_card(entry)
    entry.save(folder / "entry.json")
    card.plot(folder / "card.png")
    if options.json:
        print(json.dumps(card.to_dict()))
        return
    print(card.table().text(runs.columns()))
    print(f"\nfigure: {folder / 'card.png'}; submission: {folder / 'entry.json'}")


def _recipes() -> list[Any]:
    from lowswitch import bench as suite
    from lowswitch.bench.suite import BASELINES, ENTRIES

    return [suite.measure(text, name=name) for name, text in (ENTRIES | BASELINES).items()]


def _check(entry: Any, path: str, cells: int) -> str:
    """Measure a part of a submission again, and refuse it if anything differs."""
    from lowswitch.bench.measuring import differing

    if cells < 1:
        raise ValueError(f"--cells must be 1 or more, not {cells}")
    drawn = entry.drawn_cells(cells)
    if why := differing(entry, drawn):
        raise ValueError(
            f"{path!r} does not match what {entry.algorithm} does: {why}; measure it again with"
            " this version of the library"
        )
    places = ", ".join(f"{place} with N = {budget}" for place, budget in drawn)
    return f"{entry.name} is whole, and these results come out the same: {places}"
