"""A report as a form has it: a text for each step, in the words of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lowswitch.ledger.terms import Terms
from lowswitch.service import display
from lowswitch.service.app import Call
from lowswitch.service.bodies import RefusedError
from lowswitch.show.text import counted

COLUMNS = ("state", "action", "reward")  # of a report


class Entry(NamedTuple):
    """A report as a form: a text for each step, or none."""

    states: list[str]
    actions: list[str]
    rewards: list[str]
    ended: str

    @classmethod
    def of(cls, report: dict[str, Any], steps: int) -> Entry:
        """The report with these labels and rewards."""
        rewards = [f"{one:.15g}" for one in report["rewards"]]
        ended = report["ended"] if report["ended"] in display.ENDINGS else "whole"
        states, actions, paid = (
            [*values, *[""] * (steps - len(values))]
            for values in (report["states"], report["actions"], rewards)
        )
        return cls(states, actions, paid, ended)

    def copied(self) -> Entry:
        """A copy with lists of its own."""
        return Entry([*self.states], [*self.actions], [*self.rewards], self.ended)

    @classmethod
    def typed(cls, call: Call) -> Entry:
        """The values in the fields of a form."""
        terms = call.service.ledger.terms
        states, actions, rewards = (
            [spelled(terms, one, value.strip()) for key, value in call.fields if key == one]
            for one in COLUMNS
        )
        return cls(states, actions, rewards, call.field("ended") or "whole")

    def lines(self, steps: Sequence[str]) -> list[dict[str, str]]:
        """A line of the form for each step, and one for a state that was seen after the last."""
        names = [*steps, f"after {steps[-1]}"]
        shown = max(len(steps), len(self.states))
        return [
            {"step": name} | {one: _at(self[i], h) for i, one in enumerate(COLUMNS)}
            for h, name in enumerate(names[:shown])
        ]

    def said(self, steps: Sequence[str]) -> str:
        """The report in one line, step by step, and how it ended if that is unusual."""
        shown = [
            f"{line['step']} {', '.join(line[one] for one in COLUMNS if line[one])}"
            for line in self.lines(steps)
            if line["state"]
        ]
        return "; ".join([*shown, *[display.ENDINGS[self.ended]] * (self.ended != "whole")])

    def given(self, terms: Terms) -> dict[str, Any]:
        """The arguments of `amend`; an invalid report is refused in the words of the form."""
        if wrong := self._wrong(terms):
            raise RefusedError(422, wrong)
        return {
            "states": [terms.read_state(one) for one in self.states if one],
            "actions": [one for one in self.actions if one],
            "rewards": [float(one) for one in self.rewards if one],
            "ended": self.ended,
        }

    def _wrong(self, terms: Terms) -> str:
        """The error in the fields, at the first step that has one."""
        steps, words = terms.labels["step"], [terms.word(name) for name in COLUMNS]
        lines, is_over = self.lines(steps), False
        for h, line in enumerate(lines):
            filled = [bool(line[name]) for name in COLUMNS]
            if is_over and any(filled):
                before = lines[h - 1]["step"]
                return f"{line['step']} is filled in, but {before} is not complete before it"
            if any(filled[1:]) and not all(filled):
                lacks = words[filled.index(False)]
                return f"{line['step']} has no {lacks}; fill in the whole line, or none of it"
            is_over = not all(filled)
            if filled[2] and (why := reward_error(terms, line["reward"])):
                return f"{line['step']}: {why}"
        if self.ended not in display.ENDINGS:
            return f"choose how it ended: {', '.join(display.ENDINGS)}"
        seen = sum(map(bool, self.rewards))
        if seen < len(steps) and self.ended == "whole":
            case, visits = terms.word("episode"), counted(len(steps), terms.word("step"))
            return (
                f"only {seen} of {visits} are filled in; if this {case} was not seen to the end,"
                " say so below"
            )
        return ""

    def differences(self, old: Entry, terms: Terms, *, is_new: bool) -> list[str]:
        """The changes from another report to this one, step by step, in the run's words.

        is_new: nothing but a loss was reported before, which did not end.
        """
        steps, found = terms.labels["step"], list[str]()
        for h, step in enumerate([*steps, f"after {steps[-1]}"]):
            for name, values, olds in zip(COLUMNS, self[:3], old[:3], strict=True):
                new, before = _at(values, h), _at(olds, h)
                if new != before and not _same_number(new, before):
                    found.append(
                        f"{step}, {terms.word(name)}: {_plain(name, before)} → {_plain(name, new)}."
                    )
        before = "" if is_new else f"{display.ENDINGS[old.ended]} → "
        if is_new or self.ended != old.ended:
            found.append(f"How it ended: {before}{display.ENDINGS[self.ended]}.")
        return found


def reward_error(terms: Terms, text: str) -> str:
    """Why a text cannot be what a site reports after a step; empty if it can."""
    if not _is_number(text):
        return f"{text!r} is not a number; write a point before decimals, such as 1.5"
    low, high = terms.rewards
    if not low <= float(text) <= high:
        return f"{terms.word('reward')} must lie between {low:g} and {high:g}, and {text} does not"
    return ""


def spelled(terms: Terms, column: str, text: str) -> str:
    """A label as the run spells it, whatever the capitals; another text stays as it is."""
    labels = terms.labels.get(column, ())
    found = [one for one in labels if one.casefold() == text.casefold()]
    return found[0] if len(found) == 1 else text


def _plain(column: str, text: str) -> str:
    """A value in words; a number has no exponent, such as 0.001 for 1e-3."""
    if column == "reward" and _is_number(text):
        return np.format_float_positional(float(text), trim="-")
    return text or "nothing"


def _at(values: Sequence[str], h: int) -> str:
    return values[h] if h < len(values) else ""


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _same_number(first: str, second: str) -> bool:
    """Whether two texts are the same number, such as 4 and 4.0."""
    return _is_number(first) and _is_number(second) and float(first) == float(second)
