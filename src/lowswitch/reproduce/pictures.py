"""Figures as a page shows them: panel by panel, so that a narrow screen stacks what a wide one has
side by side, with a legend of real text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARGIN = 0.04  # inches around a panel


@dataclass(frozen=True)
class Line:
    """A line of the legend."""

    label: str
    colour: str
    dashes: str  # as in SVG; empty for a whole line
    width: float
    alpha: float


@dataclass(frozen=True)
class Layout:
    """Where the panels of a figure lie, in inches from its upper left corner."""

    size: Sequence[float]  # width, height
    panels: Sequence[Sequence[float]]  # x, y, width, height
    names: Sequence[str]  # of the panels
    legend: Sequence[Line]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Layout:
        return cls(**{**data, "legend": [Line(**line) for line in data["legend"]]})


@dataclass(frozen=True)
class Picture:
    """A figure as it was written, and where its panels are."""

    png: bytes
    layout: Layout


def layout(figure: Figure) -> Layout:
    """Where the panels of a figure lie, and what its legend says."""
    figure.draw_without_rendering()  # lets it make room for its labels first
    width, height = (float(length) for length in figure.get_size_inches())
    return Layout(
        size=(width, height),
        panels=[_place(axes, width, height) for axes in figure.axes],
        names=[axes.get_title() or axes.get_ylabel() for axes in figure.axes],
        legend=_legend(figure),
    )


def _place(axes: Axes, width: float, height: float) -> tuple[float, ...]:
    """A panel with all its labels, in whole hundredths of an inch."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    box = axes.get_tightbbox()
    assert box is not None
    left, right = (x / figure.dpi for x in (box.x0, box.x1))
    low, high = (y / figure.dpi for y in (box.y0, box.y1))
    left, top = max(0.0, left - MARGIN), max(0.0, height - high - MARGIN)
    right, bottom = min(width, right + MARGIN), min(height, height - low + MARGIN)
    return tuple(round(length, 2) for length in (left, top, right - left, bottom - top))


def _legend(figure: Figure) -> list[Line]:
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D

    lines = []
    for legend in figure.legends:
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            if isinstance(handle, Line2D):
                dashes = {"--": "6 3", "-.": "6 3 1 3", ":": "1.5 3"}.get(
                    str(handle.get_linestyle()), ""
                )
                alpha = handle.get_alpha()
                lines.append(
                    Line(
                        text.get_text(),
                        to_hex(handle.get_color()),
                        dashes,
                        round(float(handle.get_linewidth()), 1),
                        1.0 if alpha is None else float(alpha),
                    )
                )
    return lines
