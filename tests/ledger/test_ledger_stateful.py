"""The whole interface in any order: the version changes if and only if there is a decision."""

import contextlib
import dataclasses
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import lowswitch as ls
from ledgers import MDP, A, S, episode, made, steady
from lowswitch.ledger import Ledger, LedgerError

ROWS = st.integers(1, 3)


class Board(RuleBasedStateMachine):
    """Sites, reviewers and operators that do whatever they can."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.address = self.folder / "run.db"
        self.ledger = made(self.address, ls.ucb2_hoeffding(c=0.05), patience=5, episodes=500)
        self.version, self.asked, self.forbidden = 1, 0, set()

    def teardown(self):
        verdict = self.ledger.verify()
        self.ledger.close()
        shutil.rmtree(self.folder)
        assert verdict.whole, verdict.what

    @rule(site=st.sampled_from("ab"), count=st.integers(1, 6))
    def ask_and_tell(self, site, count):
        for _ in range(count):
            if not self.ledger.status().frozen:
                self.asked += 1
                issued = self.ledger.ask(site, f"r{self.asked}")
                self.ledger.tell(issued.ticket, *episode(issued.policy, issued.number))

    @rule(site=st.sampled_from("ab"))
    def ask_alone(self, site):
        if not self.ledger.status().frozen:
            self.asked += 1
            assert self.ledger.ask(site, f"r{self.asked}") == self.ledger.ask(
                site, f"r{self.asked}"
            )

    @rule(
        which=st.integers(0, 9),
        rewards=st.lists(st.sampled_from([0, 0.5, 1]), min_size=3, max_size=3),
    )
    def tell_some_ticket(self, which, rewards):
        if self.asked:
            ticket = f"t{1 + which % self.asked}"
            with contextlib.suppress(LedgerError):
                self.ledger.tell(ticket, [0, 1, 2], None, rewards)

    @rule(which=st.integers(0, 9))
    def lose(self, which):
        left = list(self.ledger.tickets("open"))
        if left and not self.ledger.status().frozen:
            self.ledger.missing(left[which % len(left)].ticket, "lost", by="nurse")

    @rule(which=st.integers(0, 9))
    def amend(self, which):
        known = [*self.ledger.tickets("missing"), *self.ledger.tickets("learned")]
        if known and not self.ledger.status().frozen:
            ticket = known[which % len(known)].ticket
            self.ledger.amend(ticket, [0, 0, 1], None, [0, 0, 0.5], by="nurse", reason="late")

    @precondition(lambda self: self.ledger.proposal() is not None)
    @rule(first=ROWS, approves=st.booleans(), forever=st.booleans())
    def decide(self, first, approves, forever):
        if self.ledger.status().frozen:
            return
        proposal = self.ledger.proposal()
        rows = [(row["step"], row["state"]) for row in proposal.rows][:first]
        who = {"rows": rows, "by": "board", "reason": "seen"}
        if approves:
            self.ledger.approve(proposal, **who)
            self.version += 1
            return
        self.ledger.reject(proposal, **who, forever=forever)
        if forever:
            for row in proposal.rows[:first]:
                self.forbidden |= {(row["step"], row["state"], action) for action in row["to"]}

    @rule(reason=st.sampled_from(["", " "]))
    def decide_badly(self, reason):
        for call in (self.ledger.approve, self.ledger.reject):
            with pytest.raises(LedgerError):
                call("0" * 64, by="nobody", reason=reason or "no such proposal")

    @rule()
    def freeze_or_thaw(self):
        frozen = self.ledger.status().frozen
        (self.ledger.thaw if frozen else self.ledger.freeze)(by="operator", reason="an alarm")

    @rule(which=st.integers(1, 9))
    def roll_back(self, which):
        version = 1 + which % self.ledger.version
        why = ""
        try:
            self.ledger.rollback(version, by="chief", reason="no")
        except LedgerError as error:
            why = str(error)
        assert why == "" or "already deployed" in why or "forbidden" in why
        self.version += why == ""

    @rule(snapshot=st.booleans())
    def restart(self, snapshot):
        if snapshot:
            self.ledger.save_snapshot()
        before = self.ledger.status()
        self.ledger.close()  # which may add an event for a snapshot
        self.ledger = steady(Ledger.open(self.address))
        after = self.ledger.status()
        assert after == dataclasses.replace(before, events=after.events, head=after.head)

    @invariant()
    def the_version_changes_by_decisions_alone(self):
        assert self.ledger.version == self.version

    @invariant()
    def every_ticket_is_somewhere(self):
        status = self.ledger.status()
        assert status.balanced
        assert status.issued == self.asked

    @invariant()
    def nothing_forbidden_is_deployed(self):
        policy = self.ledger.policy[0]
        assert all(policy[step, state] != action for step, state, action in self.forbidden)
        assert policy.shape == (MDP.horizon, S)
        assert np.isin(policy, range(A)).all()


Board.TestCase.settings = settings(
    max_examples=8,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestBoard = Board.TestCase
