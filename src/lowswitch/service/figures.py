"""Figures as SVG, made by the server: shapes and words, no script, no meaning in colour alone.

Every figure has a text alternative and stands beside a table with its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

_LETTER = 9.0  # width of a letter
_HIGH = 13.0  # height of a line of letters
_LINES = 8  # of letters
_WIDE = 640.0  # width of a story


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
    """Intervals below one another on a common scale from low to high."""
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
    """A bar divided into parts, each with its own pattern."""
    total, x, found = sum(count for _, count in parts) or 1, 0.0, []
    for i, (_, count) in enumerate(parts):
        wide = 600 * count / total
        if count:
            shape = f'width="{wide:.2f}" height="16" class="part part{i}"'
            found.append(f'<rect x="{x:.2f}" y="0" {shape}/>')
        x += wide
    return _svg(600, 16, ", ".join(f"{name} {count:,}" for name, count in parts), found, "shares")


def gauge(left: int, total: int) -> Markup:
    """The remaining budget, one box per unit."""
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


class Span(NamedTuple):
    """The cases of one version, and their results."""

    first: int
    last: int
    interval: Interval
    back: bool  # whether it is a rollback
    number: int = 0  # of the version


class Planned(NamedTuple):
    """The expected result of the cases from one to another."""

    first: int
    last: int
    low: float
    middle: float
    high: float


def _stacked(
    signs: Sequence[tuple[float, str]], at: Callable[[float], float]
) -> list[tuple[float, int, str]]:
    """Letters with their places and lines; one that would cover another is on the line below.

    Where more come together than there are lines, the last line counts those that are left: +3.
    """
    found, last = list[tuple[float, int, str]](), [-math.inf] * _LINES
    more = dict[float, int]()  # letters without a line of their own, by the place of the last line
    for case, letter in signs:
        x = min(at(case), _WIDE - _LETTER)  # so that no letter is cut off
        line = next((i for i in range(_LINES) if x - last[i] >= 1.5 * _LETTER), None)
        if line is not None:
            last[line] = x
            found.append((x, line, letter))
        else:
            more[last[-1]] = more.get(last[-1], 1) + 1
    return [
        (x, line, f"+{more[x]}" if line == _LINES - 1 and x in more else letter)
        for x, line, letter in found
    ]


def story(
    spans: Sequence[Span],
    signs: Sequence[tuple[float, str]],
    issued: int,
    forecast: Sequence[Planned] = (),
) -> Markup:
    """The mean return of each version over the cases it treated; hollow marks are rollbacks.

    The dashed line is the mean of the first version. signs: letters at a case.
    """
    if not spans:
        return Markup("")
    ends = [s.interval.estimate + sign * s.interval.width for s in spans for sign in (-1, 1)]
    ends += [end for one in forecast for end in (one.low, one.high)]
    axes = _Axes(min(ends), max(ends), 1)
    begin, total = spans[0].first - 1, max(1, issued - spans[0].first + 1)

    def at(case: float) -> float:
        return axes.left + (axes.right - axes.left) * min(1.0, max(0.0, (case - begin) / total))

    letters = _stacked(signs, at)
    lower = _HIGH * max((line for _, line, _ in letters), default=0)
    axes.top, axes.bottom = axes.top + lower, axes.bottom + lower
    found = axes.frame([], "")
    for tick in _ticks(begin, issued):
        found.append(_text(at(tick), axes.bottom + 15, f"{tick:,.0f}", "scale", "middle"))
    for part in forecast:
        x1, x2, high, low = at(part.first), at(part.last), axes.y(part.high), axes.y(part.low)
        found.append(
            f'<rect x="{x1:.1f}" y="{high:.1f}" width="{max(1.0, x2 - x1):.1f}"'
            f' height="{max(1.0, low - high):.1f}" class="expected"/>'
        )
        found.append(_line(x1, axes.y(part.middle), x2, axes.y(part.middle), "planned"))
    first = axes.y(spans[0].interval.estimate)
    found.append(_line(axes.left, first, axes.right, first, "initial"))
    for one in spans:
        x1, x2 = at(one.first - 1), at(one.last)
        low, high = (axes.y(one.interval.estimate + s * one.interval.width) for s in (-1, 1))
        y, middle = axes.y(one.interval.estimate), (x1 + x2) / 2
        found.append(
            f'<rect x="{x1:.1f}" y="{high:.1f}" width="{max(1.0, x2 - x1 - 1):.1f}"'
            f' height="{max(1.0, low - high):.1f}" class="band"/>'
        )
        found.append(_line(x1, y, x2 - 1, y, "bar bar1"))
        css = "dot hollow" if one.back else "dot dot0"
        found.append(f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="3.6" class="{css}"/>')
        if one.number:
            found.append(_text(middle, y - 7, one.number, "scale number", "middle"))
    found += [_text(x, 12 + _HIGH * line, one, "sign", "middle") for x, line, one in letters]
    said = [
        f"{s.interval.name} cases: {s.interval.estimate:.2f} ± {s.interval.width:.2f}"
        for s in spans
    ]
    said += [f"forecast from case {p.first:,} on: {p.middle:.2f}" for p in forecast]
    return _svg(_WIDE, axes.bottom + 20, "; ".join(said), found, "chart")
