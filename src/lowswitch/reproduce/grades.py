"""What was found of a claim, and how far it reaches: a grade, from rules that the runs keep or
break.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


class Grade(enum.StrEnum):
    """How far a claim was seen where somebody looked."""

    SEEN = "seen"
    OPEN = "seen, constants unknown"
    PRACTICAL = "seen at a practical scale"
    BLUNT = "kept by the baseline too"
    HIDDEN = "not visible at this K"
    CONSISTENT = "consistency check"
    REVERSED = "counts go the other way"
    PROOF = "the printed proof fails"
    CONTRADICTED = "contradicted in practice"


MEANINGS = {
    Grade.SEEN: "every rule is kept, with the constants for which the claim is proved",
    Grade.OPEN: "every rule is kept at the scale of the proof, of which a constant is not known",
    Grade.PRACTICAL: "every rule is kept, with a bonus too small for any proof",
    Grade.BLUNT: "every rule is kept, but the every-visit learner keeps that about switches too",
    Grade.HIDDEN: "a rule about growth is broken, which the claim allows in short runs",
    Grade.CONSISTENT: "every rule is kept, and only a bug could break one: no evidence",
    Grade.REVERSED: "the claim compares worst-case bounds; the counts here compare otherwise",
    Grade.PROOF: "the problems of the printed proof do not show the claim; others might",
    Grade.CONTRADICTED: "a rule is broken that the printed claim states for every run",
}


@dataclass(frozen=True)
class Check:
    """A rule that the numbers keep or break."""

    rule: str  # what must be so, with its threshold
    measured: str
    holds: bool
    always: bool = False  # the claim says it of runs of any length, so a break contradicts it
    consistency: bool = False  # it follows from the definitions: a break is a bug, or an erratum
    sharpness: bool = False  # it says whether another rule could have been broken by a baseline

    @classmethod
    def at_most(
        cls,
        rule: str,
        value: float,
        limit: float,
        words: str = "{:.2f}",
        *,
        always: bool = False,
        consistency: bool = False,
    ) -> Check:
        """The rule that a value, which these words report, does not exceed a limit."""
        return cls(rule, words.format(value), bool(value <= limit), always, consistency)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What some runs show of a claim."""

    says: str  # the part of the claim that is looked at
    scale: str  # of the bonus
    length: str  # how many episodes
    problems: str
    proved: bool  # whether the claim is proved at this scale
    found: str  # in a few words and numbers
    checks: Sequence[Check]
    refuted: str = Grade.CONTRADICTED  # the grade if a rule is broken that holds for every run
    constants_known: bool = True  # whether numbers are known for all constants of the claim

    @property
    def grade(self) -> Grade:
        """The grade by the rules alone."""
        broken = [check for check in self.checks if not check.holds]
        if any(check.consistency for check in broken):
            return Grade.CONTRADICTED
        if any(check.always for check in broken):
            return Grade(self.refuted)
        if not self.checks or not all(check.sharpness for check in broken):
            return Grade.HIDDEN
        if broken:
            return Grade.BLUNT
        if all(check.consistency for check in self.checks):
            return Grade.CONSISTENT
        if not self.proved:
            return Grade.PRACTICAL
        return Grade.SEEN if self.constants_known else Grade.OPEN

    @property
    def scope(self) -> str:
        """Where somebody looked, in one line."""
        return f"{self.scale}, {self.length}, {self.problems}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"grade": str(self.grade)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        """The finding that `to_dict` wrote down; its grade follows from its rules."""
        words = {name: value for name, value in data.items() if name != "grade"}
        return cls(**words | {"checks": [Check(**check) for check in data["checks"]]})


def tally(findings: Sequence[Finding]) -> str:
    """How many findings have each grade, such as `3 seen, 1 not visible at this K`."""
    counts = Counter(finding.grade for finding in findings)
    return ", ".join(f"{counts[grade]} {grade}" for grade in Grade if counts[grade])
