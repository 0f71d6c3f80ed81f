"""A batch of reports writes what the same reports write one by one, byte for byte."""

import copy

import numpy as np
import pytest

import lowswitch as ls
from ledgers import A, H, S, clock, made, steady
from lowswitch.ledger import Ledger, LedgerError
from lowswitch.ledger.events import canonical, event, events
from lowswitch.ledger.tally import Tally
from lowswitch.ledger.terms import Report
from lowswitch.ledger.writer import Writer

STATES, ACTIONS = "wxyz", ("wait", "drug")


def oddities(ticket, states, actions, rewards):
    """Reports that are no plain list of positions, right or wrong."""
    plain = {"ticket": ticket, "states": states, "actions": actions, "rewards": rewards}
    return [
        plain | {"states": [STATES[x] for x in states]},
        plain | {"actions": None},
        plain | {"actions": [ACTIONS[a] for a in actions]},
        plain | {"states": np.array(states), "rewards": tuple(rewards)},
        plain | {"states": [*states, 0]},
        plain
        | {"states": states[:2], "actions": actions[:1], "rewards": rewards[:1]}
        | {"ended": "truncated"},
        plain
        | {"states": states[:1], "actions": actions[:1], "rewards": rewards[:1]}
        | {"ended": "terminated"},
        plain | {"rewards": [1, 0, True]},
        plain | {"rewards": [0.0, -0.0, 1.0]},
        plain | {"rewards": [0.5, float("nan"), 0.5]},
        plain | {"rewards": [0.5, 1.5, 0.5]},
        plain | {"states": [S, 0, 0]},
        plain | {"states": [-1, 0, 0]},
        plain | {"states": [True, 0, 0]},
        plain | {"states": states[:2]},
        plain | {"ended": "never"},
        plain | {"site": "elsewhere"},
        plain | {"site": "north"},
        plain | {"propensities": [0.5] * H},
        plain | {"ticket": "nobody's"},
        plain | {"ticket": 7},
    ]


def plain_reports(tickets, seed):
    generator = np.random.default_rng(seed)
    size = (len(tickets), H)
    return [
        {"ticket": ticket, "states": states, "actions": actions, "rewards": rewards}
        for ticket, states, actions, rewards in zip(
            tickets,
            generator.integers(0, S, size).tolist(),
            generator.integers(0, A, size).tolist(),
            generator.random(size).round(3).tolist(),
            strict=True,
        )
    ]


def batches(tickets, seed):
    """Plain batches, batches with some odd reports, and batches that repeat and contradict."""
    generator, reports = np.random.default_rng(seed), plain_reports(tickets, seed)
    yield reports[:40]
    mixed = reports[40:90]
    for place in generator.choice(50, 22, replace=False):
        odd = oddities(*mixed[place].values())
        mixed[place] = odd[generator.integers(len(odd))]
    yield mixed
    again = copy.deepcopy([reports[i] for i in generator.integers(0, 95, 30)])
    for report in again[::3]:
        report["rewards"][0] = 0.25
    yield reports[90:95] + again
    yield []


def filled(address, algorithm, seed, **options):
    """A ledger to which the batches were told, and the answers."""
    labels = {"states": list(STATES), "actions": list(ACTIONS)}
    ledger = made(address, algorithm, **labels, **options)
    pairs = [(("north", "south")[i % 2], f"r{i}") for i in range(100)]
    tickets = [issued.ticket for issued in ledger.ask_each(pairs)]
    ledger.missing(tickets[93], "lost", by="office")
    answers = []
    for batch in batches(tickets, seed):
        answers += ledger.tell_many(batch)
    return ledger, [str(one) if isinstance(one, LedgerError) else one for one in answers]


def stored(ledger):
    rows = ledger.store.execute("SELECT seq, body, hash FROM events ORDER BY seq")
    return [*map(tuple, rows)], list(ledger.store.all_tickets())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "algorithm",
    [ls.q_hoeffding(c=0.05), ls.q_hoeffding(c=0.05, schedule="asked")],
    ids=["any time", "asked"],
)
def test_a_batch_writes_what_its_reports_write_one_by_one(address, tmp_path, algorithm, seed):
    ledger, answers = filled(address, algorithm, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "_plain", lambda writer, reports: None)
        other, others = filled(tmp_path / "other.db", algorithm, seed)
    assert answers == others
    assert stored(ledger) == stored(other)
    assert any(isinstance(one, str) for one in answers)
    assert ledger.verify().whole
    ledger.close()
    reopened = steady(Ledger.open(address, read_only=True))
    assert reopened.verify().whole
    assert (reopened.policy == other.policy).all()


def test_forbidden_actions_are_refused_in_a_batch(tmp_path):
    allowed = np.ones((H, S, A), dtype=bool)
    allowed[:, 1, 1] = False
    ledger = made(tmp_path / "run.db", actions_allowed=allowed)
    tickets = [issued.ticket for issued in ledger.ask_many("here", ["a", "b"])]
    good, bad = plain_reports(tickets, 0)
    good |= {"states": [0, 0, 0]}
    bad |= {"states": [0, 1, 0], "actions": [0, 1, 0]}
    told, refused = ledger.tell_many([good, bad])
    assert told.number == 1
    assert "is not allowed at step" in str(refused)


def test_numbers_that_are_labels_of_other_positions_are_refused_in_a_batch(tmp_path):
    ledger = made(tmp_path / "run.db", states=["1", "0", "x", "y"])
    tickets = [issued.ticket for issued in ledger.ask_many("here", ["a", "b"])]
    good, bad = plain_reports(tickets, 0)
    good |= {"states": [2, 3, 2]}
    bad |= {"states": [2, 1, 2]}
    told, refused = ledger.tell_many([good, bad])
    assert told.number == 1
    assert "could mean the label '1'" in str(refused)


def test_a_batch_of_contexts_writes_what_its_reports_write_one_by_one(tmp_path):
    def contexts(name):
        size = {"horizon": 1, "features": 3, "actions": 2, "episodes": 200}
        ledger = steady(Ledger.create(tmp_path / name, ls.few(deployments=3), **size, clock=clock))
        pairs = [("here", f"r{i}") for i in range(60)]
        tickets = [issued.ticket for issued in ledger.ask_each(pairs)]
        generator = np.random.default_rng(0)
        reports = [
            {
                "ticket": ticket,
                "states": [generator.normal(size=3).round(2).tolist()],
                "actions": [int(generator.integers(2))],
                "rewards": [round(generator.random(), 2)],
            }
            for ticket in tickets
        ]
        reports[7]["states"] = [[1.0, 2.0]]
        reports[20]["actions"] = None
        answers = ledger.tell_many(reports)
        return ledger, [str(one) if isinstance(one, LedgerError) else one for one in answers]

    ledger, answers = contexts("batch.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "_plain", lambda writer, reports: None)
        other, others = contexts("each.db")
    assert answers == others
    assert stored(ledger) == stored(other)
    assert isinstance(answers[7], str)
    assert ledger.verify().whole


def test_a_batch_is_all_or_nothing_if_the_database_fails(tmp_path, monkeypatch):
    ledger = made(tmp_path / "run.db")
    tickets = [issued.ticket for issued in ledger.ask_many("here", ["a", "b", "c"])]
    reports, before = plain_reports(tickets, 0), stored(ledger)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="no room"):
        patch.setattr(ledger.store, "set_tickets", fail)
        ledger.tell_many(reports)
    assert stored(ledger) == before
    assert [told.number for told in ledger.tell_many(reports)] == [1, 2, 3]
    assert ledger.verify().whole


def fail(rows):
    raise RuntimeError("no room")


def test_another_process_may_tell_a_ticket_that_this_one_issued(address):
    ledger, other = made(address), steady(Ledger.open(address))
    tickets = [issued.ticket for issued in ledger.ask_many("here", ["a", "b", "c"])]
    reports = plain_reports(tickets, 0)
    first = other.tell_many(reports[:2])
    assert ledger.tell_many(reports[:2]) == first
    contradicting = reports[1] | {"rewards": [0.125] * H}
    refused, told = ledger.tell_many([contradicting, reports[2]])
    assert "another report of ticket" in str(refused)
    assert told.number == 3
    assert other.verify().whole


def test_tickets_are_found_however_many_were_issued_since(tmp_path, monkeypatch):
    monkeypatch.setattr("lowswitch.ledger.ledger._MOST_RECENT", 3)
    ledger = made(tmp_path / "run.db")
    tickets = [ledger.ask("here", f"r{i}").ticket for i in range(12)]
    assert [one.number for one in ledger.tell_many(plain_reports(tickets, 0))] == [*range(1, 13)]


# ---- parts ---------------------------------------------------------------------------------------


def test_events_in_one_go_are_the_events_one_by_one():
    """Whatever the time, the site and the numbers are."""
    names = ["here", 'quo"te', "back\\slash", ',""],[', "ümlaut", "line\nend", ""]
    rows = []
    for seq, name in enumerate(names, 5):
        report = Report(
            seq, ([0.1, -2.0], [1e300, 5e-324]), (1, 0), (-0.0, 0.1), "whole", (1.0, 0.5)
        )
        rows.append([seq, f"time {name}", name, "site", "told", report.to_payload(), ""])
    previous, expected = "0" * 64, []
    for row in rows:
        expected.append(event(*row[:-1], previous))
        previous = expected[-1].hash
    made_at_once = events(rows, "0" * 64)
    assert made_at_once == expected
    assert all(canonical([*one[:6], one.previous]) == one.body for one in made_at_once)


def test_steps_that_wait_are_counted_as_if_they_had_not_waited(monkeypatch):
    generator = np.random.default_rng(0)
    sizes = (H, S, A)
    patient, prompt = Tally(sizes), Tally(sizes)
    for _ in range(30):
        count = int(generator.integers(1, 20))
        sites = [("a", "b", "c")[i] for i in generator.integers(0, 3, count)]
        states, actions = (generator.integers(0, n, (count, H)) for n in (S, A))
        actions[generator.random((count, H)) < 0.2] = -1
        part = sites, states, actions, generator.random((count, H))
        patient.add(*part)
        prompt.add(*part)
        assert prompt.visits
    assert patient.to_bytes() == prompt.to_bytes()
    for without in ((), ("b",)):
        pairs = zip(patient.model(without), prompt.model(without), strict=True)
        assert all((one == other).all() for one, other in pairs)
    monkeypatch.setattr("lowswitch.ledger.tally._MOST", 10)
    hurried = patient.copy()
    for tally in (patient, hurried):
        tally.add(["a"] * 5, *(np.ones((5, H), dtype=np.int64),) * 2, np.ones((5, H)))
    assert patient.to_bytes() == hurried.to_bytes()
