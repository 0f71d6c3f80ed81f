"""The evidence of a proposal: which reports it is of, what is IMPROVE, and its replay."""

import json

import numpy as np
import pytest

import lowswitch as ls
from ledgers import FOLDER, clock, episode, made, play, steady, stored_again
from lowswitch.learners.judgement import Gain, RowWorth
from lowswitch.ledger import Ledger, intake, text
from lowswitch.ledger.evidence import Evidence, expected_false, improved, words
from lowswitch.ledger.state import State
from lowswitch.ledger.tally import Tally
from lowswitch.review.proposals import ProposedRow

DATED = ls.psrl(members=16, schedule="calendar/3-6-9", deployments=3)  # changes every row


def held_back(ledger, episodes):
    """Let so many reports wait for the first ticket, which is told last."""
    first = ledger.ask("here", "first")
    play(ledger, episodes - 1)
    ledger.tell(first.ticket, *episode(first.policy, first.number))


def visits_of(proposal, step=0):
    """Visits of what is played now and proposed, of all rows of a step."""
    return sum(
        max(row["now"]["visits"], row["proposed"]["visits"])
        for row in proposal.rows
        if row["step"] == step
    )


def test_evidence_is_of_the_reports_learned_when_the_proposal_became_due(tmp_path):
    late = made(tmp_path / "late.db", DATED)
    held_back(late, 5)  # all five are learned at once, and the date is after three of them
    steady_one = made(tmp_path / "steady.db", DATED)
    play(steady_one, 3)
    proposal, expected = late.proposal(), steady_one.proposal()
    assert (proposal.told, proposal.learned, proposal.through) == (3, 3, 3)
    assert proposal.rows == expected.rows
    assert proposal.basis == "3 learned episodes"
    assert visits_of(proposal) == 3
    assert late.verify().whole
    late.close()
    assert Ledger.open(tmp_path / "late.db").proposal() == proposal


def test_rows_that_are_left_keep_their_evidence(tmp_path):
    ledger = made(tmp_path / "run.db", DATED)
    play(ledger, 5)
    before = ledger.proposal()
    first = (before.rows[0]["step"], before.rows[0]["state"])
    ledger.save_snapshot()
    ledger = steady(Ledger.open(tmp_path / "run.db"))
    ledger.reject(before, rows=[first], by="board", reason="no")
    left = ledger.proposal()
    assert (left.told, left.learned) == (3, 3)
    assert left.rows == before.rows[1:]
    assert ledger.verify().whole


def test_a_proposal_of_an_older_ledger_says_that_its_evidence_may_be_newer(tmp_path, monkeypatch):
    ledger = made(tmp_path / "run.db", DATED)
    newer = State.proposal_payload
    monkeypatch.setattr(
        State, "proposal_payload", lambda self, **_: newer(self, as_due=False, rule=1)
    )
    held_back(ledger, 5)
    proposal = ledger.proposal()
    assert (proposal.told, proposal.learned, visits_of(proposal)) == (3, None, 5)
    assert "when it became due, with evidence of all that were" in proposal.basis
    monkeypatch.undo()
    assert ledger.verify().whole  # it is replayed as it was written
    first = (proposal.rows[0]["step"], proposal.rows[0]["state"])
    ledger.reject(proposal, rows=[first], by="board", reason="no")
    left = ledger.proposal()
    assert (left.told, left.learned) == (3, 5)
    assert "with evidence of all 5 that were learned" in left.basis
    assert ledger.verify().whole


# ---- what is IMPROVE -----------------------------------------------------------------------------

WARD = {"states": ["well", "ill"], "actions": ["watch", "drug A", "surgery"]}
CARE = ls.few(deployments=10, asked=True, trial=None)


def ward(address, algorithm=CARE, **options):
    """A ledger of a ward with two visits."""
    size = {"horizon": 2, "episodes": 500}
    return steady(Ledger.create(address, algorithm, **WARD | size | options, clock=clock))


def treated(ledger, rewards, patients=60, most=60):
    """Patients before the run, as many of each treatment that `rewards` names."""
    generator = np.random.default_rng(0)
    states, actions, paid = [], [], []
    for treatment, chance in rewards.items():
        for _ in range(patients):
            states.append(generator.integers(0, 2, 2).tolist())
            actions.append([treatment] * 2)
            paid.append((generator.random(2) < chance).astype(float).tolist())
    attested = "by finding alone"
    return ledger.add_history(
        states, actions, paid, source="ward", most=most, by="office", attested=attested
    )


def test_what_nobody_ever_received_is_not_an_improvement(tmp_path):
    """Sixty patients were watched, and none got better. The mixture is mostly of other treatments,
    and the visits of what was watched say nothing of those.
    """
    ledger = ward(tmp_path / "run.db")
    for number in range(60):
        ticket = ledger.ask("north", f"p{number}").ticket
        ledger.tell(ticket, [number % 2, number % 3 % 2], None, [0.0, 0.0])
    proposal = ledger.propose(by="secretary")
    mixed = [row for row in proposal.rows if 0 < row["proposed"]["law"].get("watch", 0) < 0.2]
    assert mixed
    assert {row["verdict"] for row in proposal.rows} == {"UNTRIED"}
    for row in proposal.rows:
        assert 0 <= row["probability"] <= 1
        assert row["untried"] == [name for name in row["proposed"]["law"] if name != "watch"]
        assert row["tries"]["watch"]["here"] == row["now"]["visits"] > 0
        assert all(row["tries"][name] == {"here": 0, "elsewhere": 0} for name in row["untried"])
    assert all("never tried: drug A" in line for line in lines_of(proposal, mixed))
    assert proposal.expected_false is None
    assert ledger.verify().whole


def lines_of(proposal, rows):
    """The lines of a printed proposal that are about these rows."""
    lines = text.proposal_table(proposal).splitlines()
    names = [f"{row['step_label']}     {row['state_label']}" for row in rows]
    return [line for line in lines if line.startswith(tuple(names))]


def test_what_was_tried_and_is_clearly_better_improves_by_95_percent_of_the_model(tmp_path):
    ledger = ward(tmp_path / "run.db", ls.few(deployments=2, asked=True, members=4, trial=None))
    proposal = treated(ledger, {0: 0.1, 1: 0.6, 2: 0.1})
    assert proposal.by_model
    found = [row for row in proposal.rows if row["verdict"] == "IMPROVE"]
    assert found
    for row in proposal.rows:
        assert row["untried"] == []
        assert row["verdict"] != "IMPROVE" or row["probability"] >= 0.95
        low, high = row["gain"]["within_80"]
        assert low <= row["gain"]["mean"] <= high
    gains = [row["gain"]["mean"] for row in proposal.rows]
    assert gains == sorted(gains, reverse=True)
    doubts = [1 - row["probability"] for row in found]
    assert proposal.expected_false == pytest.approx(np.mean(doubts), abs=1e-9)
    (event,) = ledger.newest(1, kind="proposed")
    assert event.payload["rule"] == 8
    printed = text.proposal_table(proposal)
    assert "known" not in printed
    assert "> 99 %  IMPROVE" in printed
    assert "of the IMPROVE rows to be false" in printed


def test_probabilities_are_rounded_down():
    cases = {
        0.0: "< 1 %",
        0.009: "< 1 %",
        0.5: "50 %",
        0.94875: "94 %",
        0.95: "95 %",
        1.0: "> 99 %",
    }
    assert {given: text.percent(given) for given in cases} == cases


@pytest.mark.parametrize(
    "algorithm", [ls.q_hoeffding(c=0.02, schedule="asked"), ls.stage_q(c=0.02)]
)
def test_a_q_learner_has_no_model_and_never_says_improve(tmp_path, algorithm):
    ledger = ward(tmp_path / "run.db", algorithm)
    proposal = treated(ledger, {0: 0.0, 1: 1.0, 2: 0.0}, patients=200, most=200)
    assert {row["verdict"] for row in proposal.rows} == {"UNSURE"}
    for row in proposal.rows:
        assert (row["probability"], row["gain"], row["untried"]) == (None, None, [])
        assert row["tries"]["drug A"]["here"] > 0
    assert (proposal.worth, ledger.worth()) == (None, None)
    assert "UNSURE" in text.proposal_table(proposal)
    assert ledger.verify().whole


def test_on_which_site_an_improvement_hangs(tmp_path):
    """East alone tried the drug, and west alone saw that watching is worse."""
    tally, reports = Tally((1, 1, 2)), np.zeros((30, 1), dtype=np.int64)
    tally.add(["east"] * 30, reports, reports + 1, np.full((30, 1), 0.5))
    tally.add(["east"] * 30, reports, reports, np.full((30, 1), 0.6))
    tally.add(["west"] * 30, reports, reports, np.full((30, 1), 0.1))
    row = ProposedRow(0, 0, (0,), (1,))
    policies = np.zeros((1, 1, 1), dtype=np.int64)
    evidence = Evidence(tally, policies, 90)
    facts = evidence.row(row, {}, [policies])
    found = evidence.by_model(row, facts, 0.97, improves=True)
    assert found["hangs_on_sites"] == ["east", "west"]
    assert not found["hangs_on_unsettled"]
    assert evidence.by_model(row, facts, 0.94, improves=False)["hangs_on_sites"] == []
    # of 60 and 30 + 40 visits the estimates are 0.35 and 0.5, at worst 0.61 and 0.21
    late = evidence.row(row, {1: 40}, [policies])
    assert evidence.by_model(row, late, 0.97, improves=True)["hangs_on_unsettled"]
    assert not evidence.by_model(row, late, 0.94, improves=False)["hangs_on_unsettled"]


# ---- the words of the newest rule ----------------------------------------------------------------

USUAL = {"improve": 0.05, "likely": 0.8, "worse": 0.2}


def worth_of(state, better, removal_helps=0.0):
    """A row of which the posterior says these two probabilities."""
    gain, removal = (
        Gain(0.1, chance, (0.0, 0.2), (0.0, 0.3)) for chance in (better, removal_helps)
    )
    return RowWorth((0, state), gain, removal)


def test_the_words_of_rows_by_hand():
    """Of five rows, IMPROVE alone takes 1 - 0.05 / 5 = 0.99."""
    rows = [
        worth_of(0, 0.995),
        worth_of(1, 0.93),  # the second needs 0.98
        worth_of(2, 0.5),
        worth_of(3, 0.2, removal_helps=0.8),
        worth_of(4, 0.1, removal_helps=0.79),  # it may be needed with others
    ]
    found = words(rows, 10**9, USUAL)
    expected = ["IMPROVE", "LIKELY", "UNSURE", "WORSE", "UNSURE"]
    assert [found[row.row] for row in rows] == expected
    strict = words(rows, 10**9, USUAL | {"improve": 0.01, "likely": 0.95})
    assert [strict[row.row] for row in rows] == ["LIKELY", "UNSURE", "UNSURE", "WORSE", "UNSURE"]


def test_the_expected_share_of_false_rows_by_hand():
    rows = [("IMPROVE", 0.99), ("IMPROVE", 0.97), ("LIKELY", 0.85)]
    assert expected_false([{"verdict": v, "probability": p} for v, p in rows]) == 0.02
    assert expected_false([{"verdict": "LIKELY", "probability": 0.9}]) is None


def test_the_protocol_has_the_verdict_and_not_the_trial():
    """Only the trial plays action 1, which was never tried."""
    tally = Tally((1, 1, 3))
    tally.add(["here"] * 4, *(np.full((4, 1), value) for value in (0, 0)), np.ones((4, 1)))
    policies = np.zeros((2, 1, 1), dtype=np.int64)
    row = ProposedRow(0, 0, (0, 0), (0, 1))
    assert Evidence(tally, policies, 4).untried(row) == [1]
    protocol = Evidence(tally, policies, 4, protocol=True)
    assert protocol.untried(row) == []
    assert protocol.tries(row) == {
        "0": {"here": 4, "elsewhere": 0},
        "1": {"here": 0, "elsewhere": 0},
    }


def test_thresholds_are_declared_and_change_the_words(tmp_path):
    rewards = {0: 0.1, 1: 0.6, 2: 0.1}
    careful = {"improve": 0.0001, "likely": 0.9999, "worse": 0.1}
    usual, strict = (
        treated(ward(tmp_path / f"{name}.db", CARE, thresholds=given), rewards)
        for name, given in (("usual", None), ("strict", careful))
    )
    assert [row["probability"] for row in usual.rows] == [row["probability"] for row in strict.rows]
    assert {"IMPROVE", "LIKELY"} & {row["verdict"] for row in usual.rows}
    assert "IMPROVE" not in {row["verdict"] for row in strict.rows}
    with pytest.raises(ValueError, match="threshold likely must lie between 0 and 1, not 8"):
        ward(tmp_path / "bad.db", thresholds={"likely": 8})
    with pytest.raises(ValueError, match=r"thresholds must rise from worse \(0.9\)"):
        ward(tmp_path / "bad.db", thresholds={"worse": 0.9})
    with pytest.raises(ValueError, match="maybe"):
        ward(tmp_path / "bad.db", thresholds={"maybe": 0.5})


def test_a_report_that_is_declared_missing_is_not_open(tmp_path):
    """It counts as decided, is said once, and bounds no row; a report that is held back does."""

    def asked(name, **options):
        ledger = ward(tmp_path / name, **options)
        treated(ledger, {0: 0.1, 1: 0.6, 2: 0.1})
        for number in range(200):
            ledger.missing(ledger.ask("north", f"p{number}").ticket, "lost", by="office")
        ledger.ask("north", "open")
        return ledger.propose(by="secretary")

    dropped, held = asked("drop.db"), asked("hold.db", missing="hold")
    assert (dropped.unsettled, dropped.missing) == (1, 200)
    assert (held.unsettled, held.missing) == (201, 0)
    assert "1 report is open, 200 declared missing" in text.proposal_table(dropped)
    assert {row["now"]["unsettled"] for row in dropped.rows} <= {0, 1}
    assert not any(row["hangs_on_unsettled"] for row in dropped.rows)
    assert any(row["hangs_on_unsettled"] for row in held.rows)


def test_the_worth_follows_the_rows_that_are_selected(tmp_path):
    ledger = ward(tmp_path / "run.db", ls.few(deployments=2, asked=True, members=4, trial=None))
    proposal = treated(ledger, {0: 0.1, 1: 0.6, 2: 0.1})
    assert ledger.worth() == proposal.worth
    assert ledger.worth([])["change"]["mean"] == 0.0
    best = proposal.rows[0]
    one = ledger.worth([(best["step"], best["state"])])["change"]["mean"]
    assert one == pytest.approx(best["gain"]["mean"], rel=0.1)
    assert 0 < one < proposal.worth["change"]["mean"]
    ledger.save_snapshot()
    reopened = steady(Ledger.open(tmp_path / "run.db"))
    assert reopened.worth([(best["step"], best["state"])])["change"]["mean"] == one
    with pytest.raises(ValueError, match="row 1:9 is not proposed|there is no state"):
        reopened.worth([(1, 9)])
    rows = [(row["step"], row["state"]) for row in proposal.rows]
    reopened.approve(proposal, rows=rows[:1], by="board", reason="the clear one")
    left = reopened.proposal()
    assert (left.numbers, left.worth) == ("again", reopened.worth())
    assert reopened.worth()["change"]["mean"] > 0
    assert reopened.verify().whole


# ---- replay --------------------------------------------------------------------------------------

MEETINGS = ls.few(deployments_at=(40, 80), members=4, trial=None)


def probabilities(proposal):
    return [row["probability"] for row in proposal.rows]


def test_probabilities_are_of_what_was_learned_when_the_proposal_became_due(tmp_path):
    late, in_time = (made(tmp_path / name, MEETINGS) for name in ("late.db", "in_time.db"))
    for ledger in (late, in_time):
        play(ledger, 45)
        ledger.approve(ledger.proposal(), by="board", reason="seen")
    held_back(late, 60)  # all are learned at once, and the date is after 35 of them
    play(in_time, 35)
    expected = in_time.proposal()
    play(in_time, 25)
    assert in_time.proposal() == expected
    assert late.proposal().rows == expected.rows
    assert any(chance is not None for chance in probabilities(expected))
    for ledger in (late, in_time):
        assert ledger.verify().whole


def test_probabilities_are_replayed_to_the_bit(tmp_path, monkeypatch):
    """By another process, from a snapshot, after an amendment, and from other pieces."""
    ledger = made(tmp_path / "run.db", MEETINGS)
    play(ledger, 45)
    first = ledger.proposal()
    ledger.approve(first, by="board", reason="seen")
    play(ledger, 20)
    ledger.save_snapshot()
    play(ledger, 20)
    second = ledger.proposal()
    assert any(chance is not None for chance in probabilities(second))
    reopened = steady(Ledger.open(tmp_path / "run.db"))
    assert reopened.proposal() == second
    monkeypatch.setattr(intake, "_MOST", 7)
    assert reopened.verify().whole
    monkeypatch.undo()
    reopened.amend("t3", [0, 1, 2], [1, 1, 1], [0, 0, 1], by="nurse", reason="a wrong file")
    amended = reopened.proposal()
    assert probabilities(amended) != probabilities(second)
    assert reopened.verify().whole
    assert Ledger.open(tmp_path / "run.db").proposals()[-1] == amended


def test_a_learner_stops_at_its_proposal_if_it_is_told_to():
    """Which is when the ledger notes what the learner believed."""
    learner = ls.Learner(MEETINGS, horizon=3, states=4, actions=2, episodes=200, gate="review")
    policy = learner.policy
    played = [episode(policy, number) for number in range(1, 101)]
    batch = [np.array(part) for part in zip(*played, strict=True)]
    batch[2] = batch[2].astype(float)
    learner.learn_checked(*batch, until_proposed=True)
    assert (learner.told, learner.proposal().told) == (40, 40)
    learner.learn_checked(*(part[40:] for part in batch), until_proposed=True)
    assert learner.told == 100


# ---- proposals of the older rule -----------------------------------------------------------------


def kept(folder):
    """A ledger of the version that called a row known to be better which nobody had tried."""
    *events, _ = map(json.loads, (FOLDER / "interval-rule.jsonl").read_text().splitlines())
    return stored_again(folder / "kept.db", events)


def test_an_older_proposal_is_verified_by_the_older_rule_and_shown_without_known(tmp_path):
    ledger = kept(tmp_path)
    assert "is missing from the table of tickets" in ledger.verify().what  # all else is whole
    proposal = ledger.proposal()
    assert {row["verdict"] for row in proposal.rows} == {"IMPROVE", "EXPLORE"}
    printed = text.proposal_table(proposal)
    assert "known" not in printed
    assert "by an older rule" in printed
    assert not proposal.by_model


def test_what_a_decision_leaves_of_an_older_proposal_keeps_its_rule(tmp_path, monkeypatch):
    ledger = ward(tmp_path / "run.db")
    newer = State.proposal_payload
    monkeypatch.setattr(State, "proposal_payload", lambda self, **_: newer(self, rule=1))
    proposal = treated(ledger, {0: 0.0})
    assert not proposal.by_model
    monkeypatch.undo()
    rows = [(proposal.rows[0]["step"], proposal.rows[0]["state"])]
    ledger.reject(proposal, rows=rows, by="board", reason="no")
    left = ledger.proposal()
    assert left.rows == proposal.rows[1:]
    assert not left.by_model
    assert ledger.propose(by="secretary").by_model
    assert ledger.verify().whole


def test_a_rule_of_a_later_version_is_named(tmp_path, monkeypatch):
    ledger = ward(tmp_path / "run.db")
    newer = State.proposal_payload
    monkeypatch.setattr(State, "proposal_payload", lambda self, **_: newer(self) | {"rule": 9})
    monkeypatch.setattr(State, "_proposal_like", lambda self, payload: payload)
    treated(ledger, {0: 0.0})
    monkeypatch.undo()
    assert "follows rule 9, which this version of lowswitch lacks" in ledger.verify().what


def test_which_rows_improve_by_hand():
    """Of four rows the k-th must reach 1 - 0.05 k / 4: 0.9875, 0.975, 0.9625, 0.95."""
    rows = [(0, x) for x in range(4)]

    def among(*chances, models=10**9):
        found = improved(dict(zip(rows, chances, strict=True)), models)
        return [row[1] for row in sorted(found)]

    assert among(0.98, 0.98, 0.5, 0.5) == [0, 1]
    assert among(0.98, 0.5, 0.5, 0.5) == []
    assert among(0.96, 0.951, 0.9626, 0.99) == [0, 1, 2, 3]  # the last one carries the others
    assert among(0.94, 0.99, 0.1, 0.1) == [1]
    assert among(1.0, 0.5, 0.5, 0.5, models=80) == [0]
    assert among(1.0, 0.5, 0.5, 0.5, models=70) == []  # one model more would make it 70 / 71
    assert improved({}, 400) == set()
