"""Numbers, times and lines as people read them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

# ---- numbers -------------------------------------------------------------------------------------


def counted(n: int, what: str, does: str = "", do: str = "") -> str:
    """A number of things, and what one of them does or several do: 1 row waits, 2 rows wait."""
    return f"{n:,} {what if n == 1 else plural(what)} {does if n == 1 else do}".rstrip()


def plural(word: str) -> str:
    """Several of a thing, as English says it: rows, children, biopsies, boxes."""
    for one, several in _IRREGULAR.items():
        if word == one or word.endswith(f" {one}"):
            return word.removesuffix(one) + several
    if re.search("[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search("(s|x|z|ch|sh)$", word) else f"{word}s"


_IRREGULAR = {
    "child": "children",
    "person": "people",
    "man": "men",
    "woman": "women",
    "mouse": "mice",
    "foot": "feet",
    "tooth": "teeth",
    "half": "halves",
    "series": "series",
    "diagnosis": "diagnoses",
    "analysis": "analyses",
    "crisis": "crises",
}


def short(rate: float) -> str:
    """A rate, to two or three digits."""
    if rate < 100:
        return f"{rate:.1f}"
    return f"{rate / 1e6:.1f} M" if rate >= 1e6 else f"{rate / 1e3:.1f} k"


def span(values: Iterable[float], form: str = ".2f") -> str:
    """The least and the largest of some numbers, such as `0.12 to 0.31`; or the only one."""
    ordered = sorted(values)
    words = [f"{value:{form}}" for value in (ordered[0], ordered[-1])]
    return words[0] if words[0] == words[1] else " to ".join(words)


# ---- times ---------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """A time, in the unit that suits it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def age(time: str, now: datetime | None = None) -> str:
    """How long ago something was, in one unit."""
    seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(time)).total_seconds()
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size or (seconds >= size and unit != "day"):
            return f"{counted(int(seconds // size), unit)} ago"
    return "just now" if seconds < 10 else f"{int(seconds)} seconds ago"


# ---- lines ---------------------------------------------------------------------------------------


def wrapped(text: str, width: int | None) -> str:
    """A text whose lines are broken at spaces to at most `width` characters.

    A hyphen is no place to break at: options and dates that have some are there to be copied.
    """
    if width is None:
        return text
    lines = text.splitlines()
    return "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in lines)


def wrapped_label(text: str, width: int) -> str:
    """A label of a figure on lines of at most `width` characters.

    Lines are broken after commas and spaces, or anywhere in a longer word.
    """
    lines = [""]
    for piece in re.findall(rf"[^, ]{{1,{width}}}[, ]*|[, ]+", text):
        if len(lines[-1]) + len(piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
