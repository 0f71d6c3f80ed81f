"""Tables of texts, as they print, as a notebook shows them, and as LaTeX has them."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "±": r"$\pm$",
}


class Summary(ABC):
    """What a result has to say: prints as text, and shows as HTML in a notebook."""

    @abstractmethod
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return str(self)

    @abstractmethod
    def _repr_html_(self) -> str: ...


@dataclass(frozen=True, repr=False)
class Table(Summary):
    """A table of texts."""

    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """Aligned columns; where these are wider than `width`, a line for each cell."""
        body = aligned(self.header, self.rows)
        if width is not None and max(map(len, body.splitlines())) > width:
            body = stacked(self.header, self.rows)
        return f"{self.heading}\n\n{body}" if self.heading else body

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        return (
            f"<table><caption>{html.escape(self.heading)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def to_latex(self) -> str:
        """A tabular with the rules of the package booktabs."""
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in (self.header, *self.rows)]
        return "\n".join(
            [
                rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )


@dataclass(frozen=True, repr=False)
class Facts(Summary):
    """Named facts, a line each."""

    facts: Mapping[str, str]

    def __str__(self) -> str:
        width = 1 + max(map(len, self.facts))
        return "\n".join(f"{name:{width}} {text}" for name, text in self.facts.items())

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in self.facts.items()
        )
        return f"<table>{rows}</table>"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *others = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        return "  ".join([cells[0].ljust(len(first)), *others]).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def stacked(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Each row as a block: its first cell, then each other cell on a line after its title."""
    width = max(map(len, header[1:]), default=0)
    lines = []
    for row in rows:
        lines.append(row[0])
        pairs = zip(header[1:], row[1:], strict=True)
        lines += [f"  {name:{width}}  {cell}" for name, cell in pairs]
    return "\n".join(lines)


def _latex(text: str) -> str:
    """A text as LaTeX prints it, with commas in numbers that leave no gap."""
    escaped = "".join(_LATEX.get(sign, sign) for sign in text)
    return re.sub(r"(?<=\d),(?=\d{3})", "{,}", escaped)
