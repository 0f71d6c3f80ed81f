"""What one claim comes to: the words, the checks that can fail, the tables and figures, the
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Check:
    """A rule that the numbers keep or break."""

    rule: str  # what must be so, with its threshold
    measured: str
    holds: bool


@dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A claim of the paper, measured."""

    name: str  # on the command line
    title: str
    claim: str  # what the paper says
    method: str  # what was run
    checks: Sequence[Check]
    tables: Sequence[Table] = ()
    figures: dict[str, Figure] = field(default_factory=dict)  # by file name
    captions: dict[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    numbers: dict[str, Any] = field(default_factory=dict)  # JSON-able

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    @property
    def verdict(self) -> str:
        """In plain words, from the checks alone."""
        broken = sum(not check.holds for check in self.checks)
        if not broken:
            return "holds"
        return f"does not hold: {broken} of {len(self.checks)} checks fail"

    def to_dict(self) -> dict[str, Any]:
        """All that a page shows but the figures, which are files of their own, and the numbers."""
        return {
            "name": self.name,
            "title": self.title,
            "claim": self.claim,
            "method": self.method,
            "verdict": self.verdict,
            "checks": [asdict(check) for check in self.checks],
            "tables": [asdict(table) for table in self.tables],
            "captions": self.captions,
            "remarks": list(self.remarks),
            "numbers": self.numbers,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Section:
        """The section that `to_dict` wrote down, without its figures."""
        words = {name: value for name, value in data.items() if name != "verdict"}
        return cls(
            **words
            | {
                "checks": [Check(**check) for check in data["checks"]],
                "tables": [Table(**table) for table in data["tables"]],
            }
        )
