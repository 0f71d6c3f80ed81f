"""Figures as SVG, made by the server: shapes and words, no script, and no colour that says alone.

Every figure has a text for those who cannot see it, and stands beside a table with its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape


class Interval(NamedTuple):
    """An estimate with its interval."""

    name: str
    estimate: float
    width: float  # to both sides
    known: bool = True  # otherwise nothing was seen, and the interval is all that is possible


def _svg(width: float, height: float, title: str, parts: Sequence[str], css: str) -> Markup:
    return Markup(
        f'<svg class="{css}" viewBox="0 0 {width:g} {height:g}" role="img"'
        f' aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: object, css: str = "", anchor: str = "start") -> str:
    said = escape(str(text))
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{said}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"/>'


def intervals(low: float, high: float, rows: Sequence[Interval]) -> Markup:
    """One interval under the other on a common scale from low to high."""
    left, right, step = 4.0, 216.0, 15.0

    def at(value: float) -> float:
        inside = min(max(value, low), high)
        return left + (right - left) * (inside - low) / ((high - low) or 1.0)

    base = step * len(rows) + 5
    parts = [_line(left, base, right, base, "axis")]
    for value, anchor in ((low, "start"), (high, "end")):
        parts.append(_text(at(value), base + 11, f"{value:g}", "scale", anchor))
        parts.append(_line(at(value), base - 2, at(value), base + 2, "axis"))
    said = []
    for i, row in enumerate(rows):
        y, css = step * i + step / 2 + 1, f"bar bar{i}" + ("" if row.known else " unseen")
        ends = at(row.estimate - row.width), at(row.estimate + row.width)
        parts.append(_line(ends[0], y, ends[1], y, css))
        parts += [_line(end, y - 3, end, y + 3, f"end bar{i}") for end in ends]
        x = at(row.estimate)
        if row.known:
            shape = (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" class="dot dot{i}"/>'
                if i == 0
                else f'<rect x="{x - 3.2:.1f}" y="{y - 3.2:.1f}" width="6.4" height="6.4"'
                f' class="dot dot{i}"/>'
            )
            parts.append(shape)
        words = f"{row.estimate:.2f} ± {row.width:.2f}" if row.known else "never seen"
        said.append(f"{row.name} {words}")
    return _svg(220, base + 14, "; ".join(said), parts, "intervals")


def shares(parts: Sequence[tuple[str, int]]) -> Markup:
    """A bar that is divided into parts, each with its own pattern of ink."""
    total, x, found = sum(count for _, count in parts) or 1, 0.0, []
    for i, (_, count) in enumerate(parts):
        wide = 600 * count / total
        if count:
            shape = f'width="{wide:.2f}" height="16" class="part part{i}"'
            found.append(f'<rect x="{x:.2f}" y="0" {shape}/>')
        x += wide
    return _svg(600, 16, ", ".join(f"{name} {count:,}" for name, count in parts), found, "shares")


def gauge(left: int, total: int) -> Markup:
    """What is left of a budget, a box for each."""
    if total > 60:
        return shares([("left", left), ("spent", total - left)])
    wide = min(26.0, 600 / total)
    found = [
        f'<rect x="{i * wide + 1:.1f}" y="1" width="{wide - 3:.1f}" height="14"'
        f' class="{"left" if i < left else "spent"}"/>'
        for i in range(total)
    ]
    return _svg(wide * total, 16, f"{left} of {total} proposals are left", found, "gauge")


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends."""
    rough = (high - low) / 4 or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= rough)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


class _Axes:
    """A frame with numbers at its left."""

    def __init__(self, low: float, high: float, count: int) -> None:
        margin = 0.08 * ((high - low) or 1.0)
        self.low, self.high, self.count = low - margin, high + margin, count
        self.left, self.right, self.top, self.bottom = 44.0, 632.0, 10.0, 186.0

    def x(self, i: float) -> float:
        return self.left + (self.right - self.left) * (i + 0.5) / self.count

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.bottom - (self.bottom - self.top) * share

    def frame(self, names: Sequence[str], below: str) -> list[str]:
        found = [_line(self.left, self.bottom, self.right, self.bottom, "axis")]
        for tick in _ticks(self.low, self.high):
            found.append(_line(self.left, self.y(tick), self.right, self.y(tick), "grid"))
            found.append(_text(self.left - 6, self.y(tick) + 4, f"{tick:g}", "scale", "end"))
        every = max(1, math.ceil(len(names) / 22))
        found += [
            _text(self.x(i), self.bottom + 15, names[i], "scale", "middle")
            for i in range(0, len(names), every)
        ]
        found.append(
            _text((self.left + self.right) / 2, self.bottom + 31, below, "scale", "middle")
        )
        return found


def returns(versions: Sequence[tuple[int, Interval | None, bool]]) -> Markup:
    """The mean return under each version with its interval; hollow marks are rollbacks."""
    seen = [(i, n, one, back) for i, (n, one, back) in enumerate(versions) if one is not None]
    if not seen:
        return Markup("")
    ends = [one.estimate + sign * one.width for _, _, one, _ in seen for sign in (-1, 1)]
    axes = _Axes(min(ends), max(ends), len(versions))
    found = axes.frame([str(n) for n, _, _ in versions], "version")
    for i, _, one, back in seen:
        x, y = axes.x(i), axes.y(one.estimate)
        low, high = axes.y(one.estimate - one.width), axes.y(one.estimate + one.width)
        found += [_line(x, low, x, high, "bar bar1")]
        found += [_line(x - 3, end, x + 3, end, "end bar1") for end in (low, high)]
        css = "dot hollow" if back else "dot dot0"
        found.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{css}"/>')
    title = "mean return of an episode under each version, with 95 % intervals"
    return _svg(640, 222, title, found, "chart")
