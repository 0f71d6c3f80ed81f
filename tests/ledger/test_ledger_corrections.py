"""The replay that an amendment needs is the same as one event by event from the start."""

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lowswitch as ls
from ledgers import A, H, S, approve, episode, made, play, steady
from lowswitch.ledger import Ledger, LedgerError, corrections, snapshot
from lowswitch.ledger.events import KINDS
from lowswitch.ledger.state import Replay, State

WHO = {"by": "office", "reason": "a wrong file"}


def slowly(events, amendment, terms):
    """What is learned before an amendment, by taking in each event from the first one on."""
    before = [one for one in events if one.seq < amendment.seq]
    right = {one.payload["number"]: one for one in [*before, amendment] if one.kind == "amended"}
    state, forced = State.of(terms, before[0]), Replay(forced=True)
    for one in before[1:]:
        if one.kind == "proposed":
            state.learn()
            made = terms.proposals.read(one.payload)
            state.learner.force_proposal(made, tuple(one.payload["put"]))
        elif one.kind != "amended":
            if KINDS[one.kind].has_report:
                one = one._replace(payload=right.get(one.payload["number"], one).payload)
            state.apply(one, forced)
    state.learn()
    return state.lessons


def known(lessons):
    """Everything that was learned, to the bit."""
    return lessons.learner.digest(), lessons.tally.to_bytes(), lessons.deployed


@pytest.fixture
def compared(monkeypatch):
    """Compare each replay with the slow one; the list has the events at which that was done."""
    rebuilt, done = corrections.Corrections.rebuilt, []

    def both(self, event, terms):
        events = {one.seq: one for one in [*self.read(1), *self.unwritten]}
        found = rebuilt(self, event, terms)
        assert known(found) == known(slowly(events.values(), event, terms))
        done.append(event.seq)
        return found

    monkeypatch.setattr(corrections.Corrections, "rebuilt", both)
    monkeypatch.setattr(corrections, "_EVERY", 3)
    monkeypatch.setattr(corrections, "_MOST", 5)
    return done


RUNS = {
    "row by row": {"algorithm": ls.ucb2_hoeffding(c=0.05)},
    "hold": {"algorithm": ls.q_hoeffding(c=0.05), "missing": "hold"},
    "optimistic": {"algorithm": ls.q_hoeffding(c=0.05), "missing": "optimistic"},
    "open": {"algorithm": ls.q_hoeffding(c=0.05), "gate": "open"},
    "dates": {"algorithm": ls.few(deployments=12, members=4), "missing": "optimistic"},
    "asked": {"algorithm": ls.psrl(members=2, schedule="asked", deployments=50)},
}


def amend(ledger, which, generator):
    gone = [one.ticket for status in ("learned", "waiting") for one in ledger.tickets(status)]
    gone += [one.ticket for one in ledger.tickets("missing")]
    right = generator.integers(0, (S, A, 2), (H, 3)).T.tolist()
    if gone:
        ledger.amend(gone[which % len(gone)], *right, **WHO)


def ask(ledger, which, generator):
    ledger.ask("ab"[which % 2], f"r{ledger.status().issued + 1}")


def tell(ledger, which, generator):
    left = list(ledger.tickets("open"))
    if left:
        one = left[which % len(left)]
        issued = ledger.ask(one.site, one.request)
        ledger.tell(issued.ticket, *episode(issued.policy, issued.number))


def lose(ledger, which, generator):
    left = list(ledger.tickets("open"))
    if left:
        ledger.missing(left[which % len(left)].ticket, "lost", [1], None, [], by="office")


def decide(ledger, which, generator):
    proposal = ledger.proposal()
    if proposal is None:
        ledger.propose(by="office", early=True)
    elif which % 3:
        approve(ledger, proposal)
    else:
        rows = [(row["step"], row["state"]) for row in proposal.rows][:1]
        forever = proposal.rows[0].get("untried") is not None and which % 2 == 0
        ledger.reject(proposal, rows=rows, forever=forever, by="board", reason="no")


def pause(ledger, which, generator):
    (ledger.thaw if ledger.status().frozen else ledger.freeze)(by="operator", reason="an alarm")


def go_back(ledger, which, generator):
    ledger.rollback(1 + which % ledger.version, by="chief", reason="no")


def forbid(ledger, which, generator):
    row, action = (which % H, which % S), which % A
    ledger.forbid([row], [action], instead=1 - action, by="board", reason="never")


def several(ledger, which, generator):
    play(ledger, 1 + which % 5)


ACTS = [several, several, amend, amend, amend, ask, tell, lose, decide, decide, pause, go_back]
STEPS = st.lists(st.tuples(st.sampled_from([*ACTS, forbid]), st.integers(0, 99)), max_size=40)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_whatever_happens_the_replay_is_that_of_every_event_in_turn(compared, monkeypatch, run):
    monkeypatch.setattr(snapshot, "_EVERY", 25)
    kept = []

    @settings(
        max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(steps=STEPS, seed=st.integers(0, 99))
    def happen(steps, seed):
        generator, before = np.random.default_rng(seed), len(compared)
        with tempfile.TemporaryDirectory() as folder:
            ledger = made(Path(folder) / "a.db", **run)
            play(ledger, 6)
            for act, which in [*steps, (amend, 3), (several, 9), (amend, 5)]:
                with contextlib.suppress(LedgerError):
                    act(ledger, which, generator)
                if which % 20 == 19:
                    ledger.close()
                    ledger = steady(Ledger.open(Path(folder) / "a.db"))
            verdict = ledger.verify()
            assert verdict.whole, verdict.what
            ledger.close()
        kept.append(len(compared) - before)

    happen()
    assert sum(kept) > 10


def test_a_run_with_features_is_replayed_to_the_same_bit(compared, tmp_path):
    problem = ls.features.problems.linear_bandit(features=3, actions=4, shared=True, seed=1)
    size = problem.shape._asdict() | {"episodes": 60, "rewards": (-9, 9)}
    ledger = steady(Ledger.create(tmp_path / "a.db", ls.few(deployments=9), **size))
    for number in range(1, 25):
        issued = ledger.ask("ab"[number % 2], f"r{number}")
        found = problem.play(issued.policy, 0, number - 1, number)
        ledger.tell(issued.ticket, found.x[0, :, 0], found.actions[0], found.rewards[0])
        if number % 9 == 0 and (proposal := ledger.proposal()) is not None:
            approve(ledger, proposal)
        if number % 4 == 0:
            wrong = (f"t{number // 2}", found.x[0, :, 0], found.actions[0], [0.5])
            ledger.amend(*wrong, propensities=[0.25], **WHO)
    assert ledger.verify().whole
    assert len(compared) > 8


def test_verify_reads_no_event_more_than_twice_however_many_amendments_there_are(tmp_path):
    ledger = made(tmp_path / "a.db")
    play(ledger, 20)
    for number in range(2, 14):
        ledger.amend(f"t{number}", [0, 1, number % S], [0, 1, 0], [0, 0, 1], **WHO)
    assert sum(one.kind == "proposed" for one in ledger.events()) > 3
    read, rows = ledger.store.read, []
    ledger.store.read = lambda first: (rows.append(row) or row for row in read(first))
    assert ledger.verify().whole
    assert len(rows) <= 2 * ledger.status().events
