"""What somebody who can edit the database does beside the events: snapshots and tickets."""

import contextlib
import itertools

import pytest

import faults
from ledgers import approve, episode, made, play, rewritten, steady, tables
from lowswitch.ledger import Ledger, StorageError, snapshot
from lowswitch.ledger.snapshot import snapshot_of, state_of
from lowswitch.policy.tables import TablePolicy
from served import Served


def facts(ledger):
    return [ledger.status(), tables(ledger), ledger.policy.tolist()]


def edit(address, sql, *values):
    """Change the database behind the ledger's back."""
    with contextlib.closing(Ledger.open(address)) as editor, editor.store.transaction():
        editor.store.execute(sql, *values)


def forge(address):
    """Let the newest snapshot deploy other actions, and give it the hash of that."""
    with contextlib.closing(Ledger.open(address)) as editor:
        found = editor.store.snapshots()[0]
        state = state_of(found, editor.terms)
        newest = state.versions[-1]
        state.versions[-1] = TablePolicy(1 - newest.actions, newest.key)
        with editor.store.transaction():
            editor.store.add_snapshot(snapshot_of(state))
    return found.seq


@pytest.mark.parametrize(
    ("name", "says"), [("states", "and there are 4"), ("actions", "and there are 2")]
)
def test_a_report_of_what_does_not_exist_is_named_also_if_all_hashes_are_made_anew(
    tmp_path, name, says
):
    ledger = made(tmp_path / "a.db")
    play(ledger, 3)
    told = [one.seq for one in ledger.events() if one.kind == "told"][1]
    rewritten(tmp_path / "a.db", told, lambda payload: payload.update({name: [0, 99, 0]}))
    found = Ledger.open(tmp_path / "a.db", read_only=True).verify()
    assert (found.whole, found.first_bad) == (False, told)
    assert f"its {name} are 0 to 99" in found.what
    assert says in found.what


@pytest.fixture
def often(monkeypatch):
    """A snapshot every seven events."""
    monkeypatch.setattr(snapshot, "_EVERY", 7)


def with_snapshot(address):
    ledger = made(address)
    play(ledger, 20, decide=approve)
    ledger.save_snapshot()
    play(ledger, 3)
    return ledger


# ---- snapshots -----------------------------------------------------------------------------------


def test_a_forged_snapshot_is_named_and_nobody_acts_on_it(address):
    ledger = with_snapshot(address)
    before = facts(ledger)
    seq = forge(address)
    with contextlib.closing(Ledger.open(address, read_only=True)) as reader:
        assert facts(reader) == before
        verdict = reader.verify()
    assert (verdict.whole, verdict.first_bad) == (False, seq)
    assert "the snapshot after it differs from the state that the events lead to" in verdict.what
    opened = steady(Ledger.open(address))
    assert opened.ask("here", "next").policy == ledger.policy[0].tolist()
    for _ in range(2):
        opened.save_snapshot()  # the two newest ones are kept
    assert opened.verify().whole


def test_a_served_ledger_follows_no_forged_snapshot(tmp_path):
    address = tmp_path / "run.db"
    true = with_snapshot(address).policy[0].tolist()
    forge(address)
    with Served(tmp_path) as served:
        assert served_policy(served, "first") == true
        served.ledger.save_snapshot()
        forge(address)
        with contextlib.suppress(RuntimeError), served.ledger._writing() as writer:
            writer.ask("here", "never")
            raise RuntimeError  # what is in memory is given up, and loaded again
        assert served_policy(served, "second") == true
        verdict = served.ledger.verify()
    assert not verdict.whole


def served_policy(served, request):
    """What a site is to play that asks over HTTP."""
    _, said = served.json("POST", "/api/ask", {"requests": [request]}, role="site")
    return said["answers"][0]["policy"]


def test_a_snapshot_that_is_bound_is_used(address):
    ledger = with_snapshot(address)
    (found,) = ledger.store.snapshots()
    opened, firsts = Ledger.open(address), []
    read = opened.store.read
    opened.store.read = lambda first: firsts.append(first) or read(first)
    assert facts(opened) == facts(ledger)
    assert (opened.is_bound(found), firsts) == (True, [found.seq + 1])


def test_a_ledger_with_unbound_snapshots_is_replayed_and_gets_a_bound_one(address, monkeypatch):
    """As an earlier version left it: no event says the hash of the snapshot."""
    ledger = made(address)
    play(ledger, 20, decide=approve)
    with ledger.store.transaction():
        ledger.store.add_snapshot(snapshot_of(ledger._ready()))
    before, verdict = facts(ledger), ledger.verify()
    assert verdict.whole
    assert "is not bound to the chain, and the events are replayed instead of it" in verdict.what
    with contextlib.closing(Ledger.open(address, read_only=True)) as reader:
        assert facts(reader) == before
    monkeypatch.setattr(snapshot, "_EVERY", 7)
    opened = steady(Ledger.open(address))
    assert facts(opened) == before
    play(opened, 1)
    newest, old = opened.store.snapshots()
    assert (opened.is_bound(newest), opened.is_bound(old)) == (True, False)
    assert opened.verify().whole


EDITED_SNAPSHOTS = {
    "of an event to come": ("seq = ?", 10**6),
    "of another event": ("seq = seq - 1",),
    "of the last event": ("seq = (SELECT MAX(seq) FROM events)",),
    "of no event": ("seq = ?", -1),
    "of the largest number": ("seq = ?", 2**63 - 1),
    "without facts": ("facts = ?", "{}"),
    "with another hash": ("hash = ?", "0" * 64),
    "without a learner": ("learner = ?", b""),
}
ODD_SNAPSHOTS = {  # as only SQLite stores them
    "numbered by a word": ("seq = ?", "first"),
    "with a number for a learner": ("learner = ?", 10**15),
    "with facts that are no text": ("facts = CAST(x'ff' AS TEXT)",),
}


def damage(address, change, *values):
    """Edit the snapshot of a ledger: it opens to the same state, and `verify` says so."""
    before = facts(with_snapshot(address))
    edit(address, f"UPDATE snapshots SET {change}", *values)
    opened = Ledger.open(address)
    assert facts(opened) == before
    assert not opened.verify().whole


@pytest.mark.parametrize("what", EDITED_SNAPSHOTS)
def test_no_snapshot_keeps_a_ledger_from_being_opened(address, what):
    damage(address, *EDITED_SNAPSHOTS[what])


@pytest.mark.parametrize("what", ODD_SNAPSHOTS)
def test_nor_does_one_of_other_types(tmp_path, what):
    damage(tmp_path / "run.db", *ODD_SNAPSHOTS[what])


# ---- when snapshots are taken --------------------------------------------------------------------


def test_a_snapshot_that_is_not_stored_leaves_the_chain_as_it_is(address, tmp_path, often):
    """The event of a snapshot depends on those before it alone, and not on who writes when."""
    expected = faults.undisturbed(tmp_path, 30)
    ledger = made(address, episodes=30)
    for number in range(1, 31):
        if number % 4 == 0:
            ledger.close()
            ledger = steady(Ledger.open(address))
        if number % 5 == 0:
            edit(address, "DELETE FROM snapshots")
        if number % 3 == 0:
            ledger.store.add_snapshot = refuse
        faults.told(ledger, number)
    assert sum(event.kind == "snapshot" for event in ledger.events()) > 5
    assert (ledger.status().head, tables(ledger)) == expected
    assert ledger.verify().whole


def refuse(_):
    raise StorageError("no room")


def test_kills_do_not_move_the_snapshots(tmp_path, often):
    assert faults.kills(tmp_path, episodes=60, most_kills=4, seed=1)["kills"] == 4


def test_two_writers_take_their_snapshots_in_turn(address, often):
    first = made(address)
    writers = first, steady(Ledger.open(address))
    for number in range(1, 31):
        faults.told(writers[number % 2], number)
    assert writers[0].verify() == writers[1].verify()
    assert writers[0].verify().whole
    assert all(first.is_bound(found) for found in first.store.snapshots())
    numbers = [event.seq for event in first.events() if event.kind == "snapshot"]
    assert min(after - before for before, after in itertools.pairwise(numbers)) >= 7


# ---- tickets -------------------------------------------------------------------------------------

SOME = "3 ('t3')"
EDITED_TICKETS = {
    "number": "UPDATE tickets SET number = 99 WHERE number = 3",
    "swapped numbers": "UPDATE tickets SET number = CASE number WHEN 3 THEN -4 ELSE -3 END"
    " WHERE number IN (3, 4); UPDATE tickets SET number = -number WHERE number < 0",
    "ticket": "UPDATE tickets SET ticket = 'forged' WHERE number = 3",
    "site": "UPDATE tickets SET site = 'there' WHERE number = 3",
    "request": "UPDATE tickets SET request = 'another' WHERE number = 3",
    "version": "UPDATE tickets SET version = 2 WHERE number = 3",
    "status": "UPDATE tickets SET status = 'open' WHERE number = 3",
    "asked": "UPDATE tickets SET asked = asked + 1 WHERE number = 3",
    "report": "UPDATE tickets SET report = report + 1 WHERE number = 3",
    "no report": "UPDATE tickets SET report = NULL WHERE number = 3",
    "a row removed": "DELETE FROM tickets WHERE number = 3",
    "the last row removed": "DELETE FROM tickets WHERE number = 12",
    "a row added": "INSERT INTO tickets VALUES (13, 't13', 'here', 'r13', 1, 'open', 2, NULL)",
}
NAMED = {"the last row removed": "12 ('t12')", "a row added": "13 ('t13')"}


@pytest.mark.parametrize("what", EDITED_TICKETS)
def test_every_column_of_every_ticket_is_verified(address, what):
    ledger = made(address)
    play(ledger, 12)
    assert ledger.verify().whole
    for statement in EDITED_TICKETS[what].split("; "):
        edit(address, statement)
    verdict = ledger.verify()
    assert not verdict.whole
    assert f"ticket {NAMED.get(what, SOME)}" in verdict.what


def test_a_patient_who_is_learned_twice_is_seen(address):
    ledger = made(address)
    report = episode(ledger.ask("here", "patient 7").policy, 1)
    ledger.tell("t1", *report)
    edit(address, "UPDATE tickets SET request = 'nobody'")
    ledger.tell(ledger.ask("here", "patient 7").ticket, *report)
    verdict = ledger.verify()
    assert (verdict.whole, verdict.first_bad) == (False, 5)
    assert "its ticket 't2' or its request is taken" in verdict.what


@pytest.mark.parametrize("edited", [False, True])
def test_tickets_are_verified_while_others_go_on(address, edited):
    ledger, reader = made(address), Ledger.open(address, read_only=True)
    play(ledger, 12)
    ledger.ask("here", "late")
    stored = reader.store.all_tickets

    def meanwhile():
        ledger.tell("t13", *episode(ledger.policy[0], 13))
        play(ledger, 1)
        return stored()

    reader.store.all_tickets = meanwhile
    if edited:
        edit(address, "UPDATE tickets SET site = 'there' WHERE number = 3")
    verdict = reader.verify()
    assert verdict.whole is not edited
    assert (SOME in verdict.what) is edited
