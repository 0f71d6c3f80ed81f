"""A ledger to look at: a clinic with four sites that play for a year, and a proposal that waits.

It is the worked case of docs/ledger.md, smaller, so that it is there in seconds. The clinic is made
up, and so are its numbers; the learner, the ledger and the decisions are real.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.algorithms.recipes import q_hoeffding
from lowswitch.ledger import Ledger, ProposalView
from lowswitch.service.access import Access
from lowswitch.service.roles import AUDITOR, OPERATOR, REVIEWER, SITE

H, S, A = 4, 8, 4
SITES = ("north", "south", "east", "west")
TREATMENTS = ("wait", "drug A", "drug B", "both")
PEOPLE = {"Dr Vega": REVIEWER, "Ms Okafor": OPERATOR, "Mr Lind": AUDITOR}
_WEEKS, _PATIENTS = 52, 30  # of each site in a week
_MEETINGS = range(5, 50, 5)  # in which weeks the board meets


@dataclass
class Clinic:
    """The truth that nobody in the clinic knows."""

    generator: np.random.Generator

    def __post_init__(self) -> None:
        self.moves = self.generator.dirichlet(np.full(S, 0.2), (S, A)).cumsum(axis=-1)
        self.means = 0.6 * self.generator.random((S, A)) ** 2

    def treat(self, policy: list[list[int]]) -> dict[str, Any]:
        """The findings, treatments and outcomes of one patient."""
        states, actions, rewards = [int(self.generator.integers(S))], list[int](), list[float]()
        for h in range(H):
            x, a = states[-1], policy[h][states[-1]]
            actions.append(a)
            rewards.append(float(self.generator.random() < self.means[x, a]))
            states.append(int(min(S - 1, self.moves[x, a].searchsorted(self.generator.random()))))
        return {"states": states[:H], "actions": actions, "rewards": rewards}


class _Dates:
    """Times of the events of a year that ends now."""

    def __init__(self) -> None:
        self.week, self.begin = 0.0, datetime.now(UTC) - timedelta(weeks=_WEEKS, minutes=20)

    def __call__(self, seq: int) -> str:
        time = self.begin + timedelta(weeks=self.week, milliseconds=40 * seq)
        if self.week == _WEEKS:  # the last meeting is now
            time = datetime.now(UTC)
        return time.isoformat(timespec="microseconds")


def fill(address: Path, seed: int = 2) -> Ledger:
    """A year of the clinic in a new ledger."""
    generator, dates = np.random.default_rng(seed), _Dates()
    ledger = Ledger.create(
        address,
        q_hoeffding(c=0.02, schedule="asked", deployments=16),
        horizon=H,
        states=[f"finding {x + 1}" for x in range(S)],
        actions=TREATMENTS,
        steps=[f"visit {h + 1}" for h in range(H)],
        episodes=2 * _WEEKS * _PATIENTS * len(SITES),
        policy=np.zeros((H, S), dtype=int),
        by="trial office",
        clock=dates,
    )
    clinic, late = Clinic(generator), dict[int, list[dict[str, Any]]]()
    for week in range(_WEEKS):
        dates.week = week
        _week(ledger, clinic, generator, week, late)
        if week in _MEETINGS:
            _settle(ledger, week)
            _meet(ledger, _MEETINGS.index(week) + 1)
    dates.week = _WEEKS
    _settle(ledger, _WEEKS)
    ledger.propose(by="Ms Okafor")
    ledger.save_snapshot()
    return ledger


def _week(
    ledger: Ledger,
    clinic: Clinic,
    generator: np.random.Generator,
    week: int,
    late: dict[int, list[dict[str, Any]]],
) -> None:
    """Most reports come at once, some weeks later, some never."""
    for site in SITES:
        for issued in ledger.ask_many(site, [f"{site}-{week}-{i}" for i in range(_PATIENTS)]):
            report = {"ticket": issued.ticket} | clinic.treat(issued.policy)
            dice = generator.random()
            if dice < 0.98:
                arrives = week if dice < 0.9 else week + int(generator.integers(1, 4))
                late.setdefault(arrives, []).append(report)
    ledger.tell_many(late.pop(week, []))


def _settle(ledger: Ledger, week: int) -> None:
    for ticket in list(ledger.tickets("open")):
        if int(ticket.request.split("-")[1]) < week - 4:
            ledger.missing(ticket.ticket, "lost to follow-up", by="Ms Okafor")


def _meet(ledger: Ledger, number: int) -> None:
    """What the board decides at a meeting."""
    view = ledger.propose(by="Ms Okafor")
    if view is None:
        return
    if number == 3:  # a veto
        row = _rows(view)[:1]
        ledger.reject(view, rows=row, by="Dr Vega", reason="interaction", forever=True)
        view = ledger.proposal()
    if number == 4 and view is not None:
        row = _rows(view)[:1]
        ledger.reject(view, rows=row, by="Dr Vega", reason="more data first")
        view = ledger.proposal()
    if view is not None:
        ledger.approve(view, by="Dr Vega", reason=f"minutes of meeting {number}")
    if number == 5:
        ledger.rollback(ledger.version - 1, by="Ms Okafor", reason="a cluster of adverse events")


def _rows(view: ProposalView) -> list[tuple[int, int]]:
    return [(row["step"], row["state"]) for row in view.rows]


def tokens(access: Access) -> dict[str, str]:
    """A token for each person of the demo and for its first site, by role."""
    names = PEOPLE | {SITES[0]: SITE}
    return {role: access.create(name=name, role=role, days=1) for name, role in names.items()}
