"""Tables of texts, as they print, as a notebook shows them, and as LaTeX has them."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lowswitch.checks import require_word
from lowswitch.show.text import wrapped

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "±": r"$\pm$",
}


_OF_THE_MACHINE = ("steps/s", "pulls/s")  # columns that say nothing of an algorithm


def chosen_names(known: Iterable[str], columns: Sequence[str] | None) -> list[str]:
    """The names of the wanted columns, by default all. The words of a name may be joined by an
    underscore or a space.
    """
    names = list(known)
    if columns is None:
        return names
    by_words = {name.replace("_", " "): name for name in names}
    wanted = [columns] if isinstance(columns, str) else list(columns)
    for column in wanted:
        require_word("columns", column.replace("_", " "), tuple(by_words))
    return [by_words[column.replace("_", " ")] for column in wanted]


class Summary(ABC):
    """What a result has to say: prints as text, and shows as HTML in a notebook."""

    @abstractmethod
    def text(self, width: int | None = None) -> str:
        """The text, with lines of at most `width` characters as far as that is possible."""

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    @abstractmethod
    def _repr_html_(self) -> str: ...


@dataclass(frozen=True, repr=False)
class Table(Summary):
    """A table of texts."""

    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_chosen: bool = False  # whether somebody named the columns

    def text(self, width: int | None = None) -> str:
        """Aligned columns.

        If these are wider than `width` characters, rows and columns are exchanged. If that is
        still too wide, each cell has its own line.
        """
        columns = tuple(zip(self.header, *self.rows, strict=True))
        bodies = (
            aligned(self.header, self.rows),
            aligned(columns[0], columns[1:]),
            stacked(self.header, self.rows),
        )
        body = next((body for body in bodies if fits(body, width)), bodies[-1])
        return f"{wrapped(self.heading, width)}\n\n{body}" if self.heading else body

    def chosen(self, columns: Sequence[str] | None) -> Table:
        """The same table with the columns of these names, in their order; with all by default."""
        if columns is None:
            return self
        at = [self.header.index(name) for name in chosen_names(self.header, columns)]
        return replace(self._only(at), is_chosen=True)

    def _only(self, at: list[int]) -> Table:
        """The same table with the columns at these places."""
        header, *rows = (tuple(row[i] for i in at) for row in (self.header, *self.rows))
        return replace(self, header=header, rows=tuple(rows))

    def without_speed(self) -> Table:
        """The same table without the speed of the machine."""
        names = enumerate(self.header)
        return self._only([i for i, name in names if name not in _OF_THE_MACHINE])

    def titled(self, heading: str) -> Table:
        """The same table under another heading."""
        return replace(self, heading=heading)

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

    def to_latex(self, columns: Sequence[str] | None = None) -> str:
        """A tabular with the rules of the package booktabs, below a comment with the heading.

        Parameters
        ----------
        columns
            The columns in this order; by default those that were chosen before, or all except the
            speed of the machine.
        """
        table = self.chosen(columns)
        table = table if table.is_chosen else table.without_speed()
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in (table.header, *table.rows)]
        return "\n".join(
            [
                *(f"% {line}" for line in self.heading.splitlines()),
                rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )


@dataclass(frozen=True, repr=False)
class Tables(Summary):
    """Several tables, each under its own heading."""

    tables: tuple[Table, ...]

    def text(self, width: int | None = None) -> str:
        """The tables below each other, each as it prints alone."""
        return "\n\n".join(table.text(width) for table in self.tables)

    def without_speed(self) -> Tables:
        """The same tables without the speed of the machine."""
        return Tables(tuple(table.without_speed() for table in self.tables))

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self.tables)

    def to_latex(self, columns: Sequence[str] | None = None) -> str:
        """A tabular for each table."""
        return "\n\n".join(table.to_latex(columns) for table in self.tables)


@dataclass(frozen=True, repr=False)
class Facts(Summary):
    """Named facts, a line each."""

    facts: Mapping[str, str]

    def chosen(self, columns: Sequence[str] | None) -> Facts:
        """Only the facts of these names, in their order; all by default."""
        return Facts({name: self.facts[name] for name in chosen_names(self.facts, columns)})

    def text(self, width: int | None = None) -> str:
        """A line for each fact; one longer than `width` characters goes on below its beginning."""
        first = 2 + max(map(len, self.facts))
        room = None if width is None else max(20, width - first)
        lines = [
            f"{name:{first}}{wrapped(text, room)}".replace("\n", "\n" + " " * first)
            for name, text in self.facts.items()
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in self.facts.items()
        )
        return f"<table>{rows}</table>"


def page(parts: Iterable[str | Summary], width: int | None = None) -> str:
    """Paragraphs and tables with an empty line between them, within `width` characters."""
    texts = (part if isinstance(part, str) else part.text(width) for part in parts)
    return "\n\n".join(text if fits(text, width) else wrapped(text, width) for text in texts)


def fits(text: str, width: int | None) -> bool:
    """Whether no line of a text is longer than `width` characters."""
    return width is None or max(map(len, text.splitlines()), default=0) <= width


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
        lines += [f"  {name:{width}}  {cell}".rstrip() for name, cell in pairs]
    return "\n".join(lines)


def _latex(text: str) -> str:
    """A text as LaTeX prints it, with commas in numbers that leave no gap."""
    escaped = "".join(_LATEX.get(sign, sign) for sign in text)
    return re.sub(r"(?<=\d),(?=\d{3})", "{,}", escaped)
