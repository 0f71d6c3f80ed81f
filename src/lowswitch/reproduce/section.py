"""The parts of a measured claim: its words, its findings, its tables, its figures, its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch.reproduce.grades import Check, Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PageTable:
    """Rows of texts under a title and a header."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, title: str, rows: Sequence[Mapping[str, str]]) -> PageTable:
        """A table whose rows, at least one, say which column each of their cells is in."""
        return cls(title, list(rows[0]), [list(row.values()) for row in rows])


@dataclass(frozen=True, kw_only=True)
class Section:
    """A claim of the paper, measured; or a subject without a claim, which has no findings."""

    name: str  # on the command line
    title: str
    claim: str  # what the paper says
    method: str  # what was run
    findings: Sequence[Finding] = ()
    tables: Sequence[PageTable] = ()
    figures: dict[str, Figure] = field(default_factory=dict)  # by file name
    captions: dict[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    numbers: dict[str, Any] = field(default_factory=dict)  # JSON-able
    folded: bool = False  # a summary counts its findings instead of listing them

    @property
    def checks(self) -> list[Check]:
        """The rules of all findings."""
        return [check for finding in self.findings for check in finding.checks]

    def to_dict(self) -> dict[str, Any]:
        """All that a page shows but the figures, which are files of their own, and the numbers."""
        return {
            "name": self.name,
            "title": self.title,
            "claim": self.claim,
            "method": self.method,
            "findings": [finding.to_dict() for finding in self.findings],
            "tables": [asdict(table) for table in self.tables],
            "captions": self.captions,
            "remarks": list(self.remarks),
            "numbers": self.numbers,
            "folded": self.folded,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Section:
        """The section that `to_dict` wrote down, without its figures."""
        findings = [Finding.from_dict(finding) for finding in data["findings"]]
        tables = [PageTable(**table) for table in data["tables"]]
        return cls(**data | {"findings": findings, "tables": tables})


def exponent(times: np.ndarray, costs: np.ndarray) -> float:
    """The slope of log cost against log time over the last decade of time."""
    late = times >= times[-1] / 10
    return float(np.polyfit(np.log(times[late]), np.log(costs[late]), 1)[0])


def exponent_of(curves: Any, name: str) -> float:
    """The exponent with which a cost grows, averaged over the runs."""
    return exponent(curves[0], getattr(curves, name).mean(axis=0))
