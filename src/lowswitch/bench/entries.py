"""What one algorithm cost on the suite: a JSON file, its checks, and the table that it joins."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lowswitch.bench.suite import BUDGETS, EPISODES, PROBLEMS, SEEDS, VERSION, problem
from lowswitch.checks import is_integer, is_number, shown
from lowswitch.io.files import read_bytes
from lowswitch.io.storage import write_text

_TOLD = ("made_with", "source", "code", "commit", "date")  # texts that may be empty
_NAME = re.compile(r"[\w.+-][\w .+-]{0,39}")


class Cell(NamedTuple):
    """What it cost on one problem with one budget."""

    regret: list[float]  # [seeds]  exact
    deployments: list[int]  # [seeds]
    local_switches: list[int]  # [seeds]
    seconds: float  # of all seeds together

    @property
    def mean(self) -> float:
        """The mean regret."""
        return sum(self.regret) / len(self.regret)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What one algorithm cost on the suite."""

    name: str
    algorithm: str  # its text, in which {N} stands for the budget, or the function that makes it
    results: dict[str, dict[int, Cell]]  # by problem and budget
    made_with: str = ""
    source: str = ""  # where it is described, if it is not the library's
    code: str = ""  # a hash of the function that makes it, if it is not the library's
    commit: str = ""  # of the code, if it lies in a repository
    date: str = ""  # when it was measured
    version: int = VERSION

    @property
    def seconds(self) -> float:
        """How long the whole suite took."""
        return sum(cell.seconds for cells in self.results.values() for cell in cells.values())

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON can hold it."""
        results = {
            name: {str(budget): cell._asdict() for budget, cell in cells.items()}
            for name, cells in self.results.items()
        }
        return asdict(self) | {"results": results}

    @classmethod
    def from_dict(cls, data: Any) -> Entry:
        """The entry that `to_dict` wrote, once it is known to be whole."""
        if not isinstance(data, dict):
            raise ValueError(f"an entry is an object, not {shown(data)}")
        if data.get("version") != VERSION:
            raise ValueError(
                f"it was measured with version {shown(data.get('version'))} of the suite, but"
                f" this library has version {VERSION}; measure it again with lowswitch bench"
                " --algorithm"
            )
        for name in ("name", "algorithm"):
            if not (isinstance(data.get(name), str) and data[name].strip()):
                raise ValueError(f"its {name} must be a text, not {shown(data.get(name))}")
        if not _NAME.fullmatch(data["name"]):
            raise ValueError(
                f"its name {shown(data['name'])} must have at most 40 letters, digits, blanks and"
                " . + -"
            )
        told: dict[str, Any] = {name: str(data.get(name, "")) for name in _TOLD}
        return cls(
            name=data["name"],
            algorithm=data["algorithm"],
            results=_results(data.get("results")),
            **told,
        )

    def drawn_cells(self, size: int) -> list[tuple[str, int]]:
        """Cells to measure again, drawn by a hash of the whole entry."""
        digest = hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()
        cells = [(name, budget) for name in PROBLEMS for budget in BUDGETS]
        return random.Random(digest).sample(cells, min(size, len(cells)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a submission."""
        write_text(path, json.dumps(self.to_dict(), indent=1) + "\n")


def _results(data: Any) -> dict[str, dict[int, Cell]]:
    """All cells, each of which is checked."""
    found: dict[str, dict[int, Cell]] = {}
    for name in PROBLEMS:
        found[name] = {}
        for budget in BUDGETS:
            try:
                given = data[name][str(budget)]
                cell = Cell(**given)
            except (KeyError, TypeError):
                raise ValueError(
                    f"its results on {name} with N = {budget} are incomplete; an entry has all of"
                    f" {', '.join(PROBLEMS)} with N = {', '.join(map(str, BUDGETS))}"
                ) from None
            why = _why_impossible(name, budget, cell)
            if why:
                raise ValueError(f"its results on {name} with N = {budget} are impossible: {why}")
            found[name][budget] = cell
    return found


def _why_impossible(name: str, budget: int, cell: Cell) -> str:
    """The fault of a cell; empty if it could be true."""
    mdp = problem(name)
    most = EPISODES * (mdp.optimal_value() - lowest_value(name)) * (1 + 1e-9) + 1e-6
    rows = mdp.horizon * mdp.states
    for what, values in (
        ("regret", cell.regret),
        ("deployments", cell.deployments),
        ("local_switches", cell.local_switches),
    ):
        if not (isinstance(values, list) and len(values) == SEEDS):
            return f"{what} must be {SEEDS} numbers, one for each seed"
    if not all(is_number(one) and -1e-6 <= one <= most for one in cell.regret):
        return f"regret lies from 0 to {most:.6g}, not {shown(cell.regret)}"
    if not all(is_integer(one) and 0 <= one <= budget for one in cell.deployments):
        return f"deployments are whole numbers up to {budget}, not {shown(cell.deployments)}"
    for switches, deployments in zip(cell.local_switches, cell.deployments, strict=True):
        if not (is_integer(switches) and deployments <= switches <= deployments * rows):
            return f"{shown(switches)} rows cannot have switched in {deployments} deployments"
    if not (is_number(cell.seconds) and 0 < cell.seconds < math.inf):
        return f"seconds must be a positive number, not {shown(cell.seconds)}"
    return ""


def lowest_value(name: str) -> float:
    """Below what no policy earns: the least reward at every step."""
    mdp = problem(name)
    return float(mdp.scale.to_value(0.0, mdp.horizon))


# ---- files ---------------------------------------------------------------------------------------


def read_entry(path: str | os.PathLike[str]) -> Entry:
    """A submission, or an error that names its fault."""
    try:
        return Entry.from_dict(json.loads(read_bytes(path)))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{str(path)!r} is no JSON file ({error})") from None
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is not an entry of the suite: {error}") from None


def read_entries(path: str | os.PathLike[str]) -> list[Entry]:
    """The entries of a table, or an error that names its fault."""
    try:
        found = json.loads(read_bytes(path))
        return [Entry.from_dict(one) for one in found]
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{str(path)!r} is no JSON file ({error})") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is not a table of entries: {error}") from None


def write_entries(path: str | os.PathLike[str], entries: Sequence[Entry]) -> None:
    """Write a table, a line for each problem of an entry."""
    lines = json.dumps([entry.to_dict() for entry in entries], separators=(",", ":"))
    write_text(path, re.sub(r'(\},)(?="[\w-]+":\{"1":)|(?<=\})(,)(?=\{"name")', r"\1\2\n", lines))


def merge(entries: Sequence[Entry], new: Sequence[Entry]) -> list[Entry]:
    """The table with new entries; an algorithm that is there already is replaced."""
    table = {entry.name: entry for entry in entries}
    for entry in new:
        if table.get(entry.name, entry).algorithm != entry.algorithm:
            raise ValueError(
                f"there is an entry {entry.name!r} already, of {table[entry.name].algorithm}; give"
                " yours another name"
            )
        table[entry.name] = entry
    return list(table.values())


KNOWN = Path(__file__).parent / "known.json"
