"""The features of a run: a name each, the range in which its values lie, and its unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lowswitch.checks import is_integer, is_number, require_count
from lowswitch.ledger.errors import LedgerError

_AS_TEXT = "write it as name, name:low..high or name:low..high:unit, such as age:18..90:years"


@dataclass(frozen=True)
class Feature:
    """A number that describes a case.

    Parameters
    ----------
    name
        Its name.
    low, high
        Its range: values outside are refused; None means no limit.
    unit
        Its unit.
    """

    name: str
    low: float | None = None
    high: float | None = None
    unit: str = ""

    @classmethod
    def from_text(cls, text: str) -> Feature:
        """A feature in the notation of the command line, such as age:18..90:years."""
        name, _, rest = text.partition(":")
        span, _, unit = rest.partition(":")
        ends = span.split("..") if span.strip() else ["", ""]
        try:
            low, high = (float(end) if end.strip() else None for end in ends)
        except ValueError:
            raise LedgerError(f"{text!r} is not a feature; {_AS_TEXT}") from None
        return cls(name.strip(), low, high, unit.strip())

    def require(self, value: float) -> None:
        """Check that the value lies in the range; the error names both."""
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not low <= value <= high:
            raise LedgerError(
                f"{self.name} is {self.amount(value)}, outside of the declared range {self.range};"
                " nothing was recorded. Correct the value, and send it again"
            )

    @property
    def range(self) -> str:
        """The range in words; empty without a range."""
        if self.low is None and self.high is None:
            return ""
        low, high = ("" if end is None else f"{end:g}" for end in (self.low, self.high))
        return f"{low or '-∞'} to {high or '∞'}" + (f" {self.unit}" if self.unit else "")

    def amount(self, value: float) -> str:
        """A value with its unit."""
        return f"{value:.4g}" + (f" {self.unit}" if self.unit else "")

    def limit(self, value: float) -> str:
        """A limit between kinds of cases with its unit: the same digits on both sides of it."""
        return f"{value:.7g}" + (f" {self.unit}" if self.unit else "")


def checked_features(given: int | Sequence[Any]) -> tuple[Feature, ...]:
    """The declared features: a number of them, their names, or `Feature` objects."""
    if is_integer(given):
        assert isinstance(given, int)
        return tuple(Feature(str(i)) for i in range(require_count("features", given)))
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise LedgerError(f"features must be a number or a list of names, not {given!r}")
    found = tuple(one if isinstance(one, Feature) else Feature(one) for one in given)
    names = [one.name for one in found]
    texts = all(isinstance(name, str) and name.strip() for name in names)
    if not (found and texts and len(set(names)) == len(names)):
        raise LedgerError(f"features must be different texts that are not empty, not {names!r}")
    for one in found:
        _require_range(one)
    return found


def _require_range(one: Feature) -> None:
    ends = [end for end in (one.low, one.high) if end is not None]
    if not all(is_number(end) for end in ends) or (len(ends) == 2 and not ends[0] < ends[1]):
        raise LedgerError(
            f"the range of {one.name} must be two numbers, the smaller one first, not"
            f" {one.low!r} to {one.high!r}"
        )
    if not isinstance(one.unit, str):
        raise LedgerError(f"the unit of {one.name} must be a text, not {one.unit!r}")
