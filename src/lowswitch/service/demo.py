"""A ledger to explore: a clinic with four sites in its sixth month, with a pending proposal.

The clinic and its numbers are invented; the learner, the ledger and the decisions are real.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.algorithms.recipes import few
from lowswitch.ledger import Ledger, ProposalView
from lowswitch.ledger.responses import MotionView
from lowswitch.service.access import Access
from lowswitch.service.roles import AUDITOR, OPERATOR, REVIEWER, SITE

H, S, A = 4, 8, 4
SITES = ("north", "south", "east", "west")
TREATMENTS = ("wait", "drug A", "drug B", "surgery")
PEOPLE = (
    ("Dr Vega", REVIEWER),
    ("Dr Roth", REVIEWER),
    ("Ms Okafor", OPERATOR),
    ("Mr Lind", AUDITOR),
)
_WEEKS, _PATIENTS = 24, 12  # of each site in a week
_MEETINGS = range(4, 24, 4)  # in which weeks the board meets
# lowswitch plan --size 4,8,4 --episodes 2304 --problems 8 with these meetings and a present reward
# of 1: patients, 10 %, half and 90 % of the drawn problems
_FORECAST = (
    (0, 1.0, 1.0, 1.0),
    (240, 0.80, 0.93, 1.12),
    (432, 0.96, 1.29, 2.06),
    (624, 0.99, 1.41, 2.10),
    (816, 1.00, 1.42, 2.09),
    (1008, 1.00, 1.43, 2.10),
    (1200, 1.00, 1.43, 2.10),
    (1392, 1.00, 1.43, 2.11),
)
_RARE = 7  # the finding for which surgery is never allowed


@dataclass
class Clinic:
    """The true behaviour of the clinic, which nobody in it knows."""

    generator: np.random.Generator

    def __post_init__(self) -> None:
        self.moves = self.generator.dirichlet(np.full(S, 0.3), (S, A)).cumsum(axis=-1)
        self.means = 0.5 * self.generator.random((S, A)) ** 2

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
    """Times for the events of half a year that ends now."""

    def __init__(self) -> None:
        self.week, self.begin = 0.0, datetime.now(UTC) - timedelta(weeks=_WEEKS, minutes=20)

    def __call__(self, seq: int) -> str:
        time = self.begin + timedelta(weeks=self.week, milliseconds=40 * seq)
        if self.week == _WEEKS:  # the last meeting is now
            time = datetime.now(UTC)
        return time.isoformat(timespec="microseconds")


def fill(address: Path, seed: int = 2) -> Ledger:
    """Half a year of the clinic in a new ledger."""
    generator, dates = np.random.default_rng(seed), _Dates()
    allowed = np.ones((H, S, A), dtype=bool)
    allowed[:, _RARE, 3] = False
    ledger = Ledger.create(
        address,
        few(deployments=10, asked=True, trial=0.15, members=32),
        horizon=H,
        states=[f"finding {x + 1}" for x in range(S)],
        actions=TREATMENTS,
        steps=[f"visit {h + 1}" for h in range(H)],
        episodes=2 * _WEEKS * _PATIENTS * len(SITES),
        policy=generator.integers(0, 3, (1, S)).repeat(H, axis=0),
        actions_allowed=allowed,
        name="Clinic trial 7",
        words={
            "episode": "patient",
            "step": "visit",
            "state": "finding",
            "action": "treatment",
            "reward": "good outcomes",
        },
        quorum=2,
        forecast=_FORECAST,
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
    """One week of reports: most come at once, some weeks later, some never."""
    for site in SITES:
        for issued in ledger.ask_many(site, [f"{site}-{week}-{i}" for i in range(_PATIENTS)]):
            report = {"ticket": issued.ticket} | clinic.treat(issued.policy)
            dice = generator.random()
            if dice < 0.98:
                arrives = week if dice < 0.9 else week + int(generator.integers(1, 4))
                late.setdefault(arrives, []).append(report)
    ledger.tell_many(late.pop(week, []))


def _settle(ledger: Ledger, week: int) -> None:
    lost = [
        ticket.ticket
        for ticket in list(ledger.tickets("open"))
        if int(ticket.request.split("-")[1]) < week - 3
    ]
    if lost:
        ledger.missing_many(lost, "lost to follow-up", by="Ms Okafor")


def _meet(ledger: Ledger, number: int) -> None:
    """The board's decisions at a meeting: Dr Vega asks, and Dr Roth agrees."""
    ledger.propose(by="Ms Okafor")
    minutes, vega = f"minutes of meeting {number}", "Dr Vega"
    if number == 2:  # a veto that names its treatment
        rows = [(0, 2), (1, 2)]
        _agree(ledger, ledger.forbid(rows, ["surgery"], by=vega, reason="interaction"))
    if number == 4:  # and its lifting
        _agree(ledger, ledger.lift([(1, 2)], ["surgery"], by=vega, reason="new evidence"))
    view = ledger.proposal()
    if number == 3 and view is not None:
        ledger.reject(view, rows=_rows(view)[:1], by="Dr Roth", reason="more data first")
        view = ledger.proposal()
    if view is not None:
        _agree(ledger, ledger.approve(view, by=vega, reason=minutes))
    if number == 3:
        _alarm(ledger)


def _alarm(ledger: Ledger) -> None:
    """Two adverse events: the run is paused, rolled back and resumed."""
    who = {"by": "Ms Okafor", "reason": "a cluster of adverse events"}
    ledger.freeze(**who)
    asked = ledger.rollback(ledger.version - 1, **who)
    _agree(ledger, asked, "Dr Vega", "Dr Roth")
    resumed = ledger.thaw(by="Ms Okafor", reason="unrelated to the trial")
    _agree(ledger, resumed, "Dr Vega", "Dr Roth")


def _agree(ledger: Ledger, request: MotionView | int | None, *names: str) -> None:
    assert isinstance(request, MotionView)
    for name in names or ("Dr Roth",):
        ledger.confirm(request.number, by=name, reason="agreed in the meeting")


def _rows(view: ProposalView) -> list[tuple[int, int]]:
    return [(row["step"], row["state"]) for row in view.rows]


def tokens(access: Access) -> list[tuple[str, str, str]]:
    """A token for each person of the demo and for its first site: role, name and token.

    The other sites have tokens, too, which nobody is told.
    """
    for site in SITES[1:]:
        access.create(name=site, role=SITE, days=1)
    people = (*PEOPLE, (SITES[0], SITE))
    return [(role, name, access.create(name=name, role=role, days=1)) for name, role in people]
