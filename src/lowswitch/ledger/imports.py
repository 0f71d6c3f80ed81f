"""Import the history of an old protocol from a CSV file: one line per step, with labels."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.responses import ProposalView
from lowswitch.ledger.table_terms import TableTerms
from lowswitch.show.progress import Progress

if TYPE_CHECKING:
    from lowswitch.ledger.ledger import Ledger

COLUMNS = ("episode", "step", "state", "action", "reward")
OPTIONAL = ("date", "propensity")  # columns that a file may have


@dataclass(frozen=True)
class Step:
    """One line of the file."""

    line: int
    episode: str
    step: int
    state: int
    action: int
    reward: float
    date: str = ""
    propensity: float = math.nan


def import_csv(
    ledger: Ledger,
    path: str | Path,
    *,
    most: int,
    by: str,
    attested: str,
    source: str | None = None,
    columns: dict[str, str] | None = None,
    progress: bool | None = None,
) -> ProposalView | None:
    """Learn the history in a CSV file before the first ticket; return the first proposal.

    The file has a header and one line per step: an identifier of the episode, the step, the state,
    the action and the reward, and optionally a date. Episodes are learned in the order of their
    dates, or else of their first lines. Every episode must be complete. Nothing is imported unless
    everything can be.

    Parameters
    ----------
    ledger
        The ledger, before its first ticket.
    path
        The CSV file.
    most
        How many visits of each (step, state, action) count at most.
    by
        Who imports it.
    attested
        A statement that the old protocol chose actions by the state alone.
    source
        Where the data come from, by default the name of the file.
    columns
        The file's names for the columns, such as {"episode": "patient"}.
    progress
        A function that is told how far the import is.

    See Also
    --------
    Ledger.add_history
    """
    place = Path(path)
    terms = ledger.tables()
    episodes = read_episodes(place, terms, columns or {}, progress)
    states, actions = (terms.labels[kind] for kind in ("state", "action"))
    return ledger.add_history(
        [[states[step.state] for step in one] for one in episodes],
        [[actions[step.action] for step in one] for one in episodes],
        [[step.reward for step in one] for one in episodes],
        source=source or place.name,
        most=most,
        by=by,
        attested=attested,
    )


def read_episodes(
    path: Path, terms: TableTerms, columns: dict[str, str], progress: bool | None
) -> list[list[Step]]:
    """The episodes of a file in order; an error names the line and the column."""
    unknown = columns.keys() - {*COLUMNS, *OPTIONAL}
    if unknown:
        raise LedgerError(f"there is no column {sorted(unknown)[0]!r} to name; they are {COLUMNS}")
    try:
        size = path.stat().st_size
        with (
            open(path, encoding="utf-8-sig", newline="") as file,
            Progress(max(1, size), unit="bytes", show=progress, label=f"import {path.name}") as bar,
        ):
            found: dict[str, list[Step]] = {}
            for count, step in enumerate(_steps(csv.reader(file), terms, columns, path)):
                found.setdefault(step.episode, []).append(step)
                if count % 1000 == 0:
                    bar.update(min(size, count * 40))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LedgerError(f"cannot read {str(path)!r}: {error}") from error
    if not found:
        raise LedgerError(f"{str(path)!r} has no line below its header")
    episodes = [_whole(steps, terms, path) for steps in found.values()]
    return sorted(episodes, key=lambda steps: (steps[0].date, steps[0].line))


def _steps(lines: Any, terms: TableTerms, columns: dict[str, str], path: Path) -> Iterator[Step]:
    header: list[str] = next(lines, [])
    places = {}
    for name in (*COLUMNS, *OPTIONAL):
        wanted = columns.get(name, name)
        if wanted in header:
            places[name] = header.index(wanted)
        elif name not in OPTIONAL or name in columns:
            raise LedgerError(
                f"{str(path)!r}, line 1: there is no column {wanted!r}, but {', '.join(header)};"
                " name it with columns="
            )
    for row in lines:
        number = lines.line_num
        if not row:
            continue
        if len(row) != len(header):
            raise LedgerError(
                f"{str(path)!r}, line {number}: {len(row)} cells under {len(header)} columns"
            )
        cells = {name: row[place].strip() for name, place in places.items()}
        yield _step(number, cells, terms, path)


def _step(number: int, cells: dict[str, str], terms: TableTerms, path: Path) -> Step:
    values: dict[str, Any] = {}
    for name, cell in cells.items():
        try:
            values[name] = _value(name, cell, terms)
        except ValueError as error:
            raise LedgerError(f"{str(path)!r}, line {number}, column {name}: {error}") from None
    return Step(number, **values)


def _value(name: str, cell: str, terms: TableTerms) -> Any:
    if not cell:
        raise LedgerError("it is empty")
    if name in ("reward", "propensity"):
        try:
            number = float(cell)
        except ValueError:
            raise LedgerError(f"{cell!r} is not a number") from None
        return terms.reward(number) if name == "reward" else number
    if name in terms.labels:
        return terms.index(name, cell)
    if name == "date":
        return datetime.fromisoformat(cell).isoformat()
    return cell


def _whole(steps: list[Step], terms: TableTerms, path: Path) -> list[Step]:
    """The steps of one episode in order, if none is missing."""
    ordered = sorted(steps, key=lambda step: step.step)
    for wanted, step in enumerate(ordered):
        if step.step != wanted:
            what = "twice" if wanted and step.step == ordered[wanted - 1].step else "too early"
            raise LedgerError(
                f"{str(path)!r}, line {step.line}, column step: episode {step.episode!r} has step"
                f" {terms.labels['step'][step.step]} {what}"
            )
        if not terms.allowed[step.step, step.state, step.action]:
            raise LedgerError(
                f"{str(path)!r}, line {step.line}, column action: it is not allowed there"
            )
    if len(ordered) != terms.horizon:
        raise LedgerError(
            f"{str(path)!r}, line {ordered[-1].line}, column step: episode {ordered[0].episode!r}"
            f" has {len(ordered)} of {terms.horizon} steps"
        )
    return ordered
