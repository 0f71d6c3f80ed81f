"""The client: the ledger's own methods, and nothing lost while the server is away."""

import contextlib
import dataclasses
import socket
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

from attacks import soak
from ledgers import MDP, H, S, episode
from lowswitch.ledger import (
    AccessError,
    Client,
    ConflictError,
    FrozenError,
    Ledger,
    LedgerError,
    Spooled,
    StorageError,
    SupersededError,
    Told,
    UnknownTicketError,
    UnreachableError,
    connection,
)
from lowswitch.ledger.spool import Spool
from lowswitch.ledger.writer import Writer
from served import Served

AWAY = "http://127.0.0.1:9"  # nobody listens there
FALLBACK = np.ones((H, S), dtype=int)


@pytest.fixture
def served(tmp_path):
    with Served(tmp_path) as running:
        running.clients = []
        yield running
        for one in running.clients:
            one.close()


def client(served, role="site", *, url=None, **options):
    """A client that is closed with the server."""
    made = Client(url or served.url, served.tokens[role], **options)
    served.clients.append(made)
    return made


def told(issued):
    return issued.ticket, *episode(issued.policy, max(1, issued.number))


def test_the_client_answers_what_the_ledger_answers(served, tmp_path):
    site, reader = client(served), client(served, "reviewer")
    issued = site.ask("a")
    assert issued == site.ask("a") == served.ledger.ask("the site", "a")
    answer = site.tell(*told(issued))
    assert answer == site.tell(*told(issued))
    assert answer == Told(issued.ticket, 1, 3, served.ledger.store.event(3)[2])
    with pytest.raises(ConflictError, match="another report"):
        site.tell(issued.ticket, [0, 0, 0], [1, 1, 1], [0, 0, 0])
    with pytest.raises(UnknownTicketError):
        site.tell("no such", [0, 0, 0], None, [0, 0, 0])
    with pytest.raises(LedgerError, match="outside of the declared range"):
        site.tell(site.ask("b").ticket, np.array([0, 0, 0]), None, np.array([0.0, 0.0, 2.0]))
    with pytest.raises(LedgerError, match="must be finite"):
        site.tell(site.ask("b").ticket, [0, 0, 0], None, [0, 0, float("nan")])
    assert reader.status() == served.ledger.status()
    assert reader.versions() == served.ledger.versions()
    assert reader.version == 1
    assert (reader.policy == served.ledger.policy).all()
    assert [one["seq"] for one in reader.events(2)] == list(range(2, reader.status().events + 1))
    assert [one["number"] for one in reader.tickets("open")] == [2]
    reader.export(tmp_path / "events.jsonl")
    served.ledger.export(tmp_path / "same.jsonl")
    assert (tmp_path / "events.jsonl").read_bytes() == (tmp_path / "same.jsonl").read_bytes()
    assert reader.verify()["whole"]


def test_a_ledger_that_cannot_be_opened_any_more_is_not_whole(served):
    auditor = client(served, "auditor")
    found = [auditor.verify() for _ in range(3)]  # within a second, and told apart
    assert all(one["whole"] for one in found)
    with contextlib.closing(sqlite3.connect(served.address)) as database, database:
        database.execute("UPDATE events SET hash = 'x' WHERE seq = 1")
    with pytest.raises(LedgerError, match="event 1"):
        Ledger.open(served.address, read_only=True)
    bad = auditor.verify()
    assert (bad["whole"], bad["first_bad"], bad["events"]) == (False, 1, 0)
    assert "lowswitch_verified 0" in served.request("GET", "/metrics", role="auditor")[2].decode()
    browser = served.login("auditor")
    _, headers, _ = served.post("/verify", browser)
    assert "The ledger is damaged: event 1" in served.page(headers["location"], browser)[1]


def test_people_decide_and_operate_by_the_client(served):
    site = client(served)
    reviewer, operator = client(served, "reviewer"), client(served, "operator")
    number = 0
    while (proposal := reviewer.proposal()) is None:
        number += 1
        site.tell(*told(site.ask(f"r{number}")))
    assert proposal == served.ledger.proposal()
    row = (proposal.rows[0]["step"], proposal.rows[0]["state"])
    assert reviewer.approve(proposal, rows=[row], reason="seen") == 2
    with pytest.raises(SupersededError):
        reviewer.reject(proposal, reason="too late")
    with pytest.raises(AccessError, match=r"\(reviewer\) cannot resume the run; an operator can"):
        reviewer.thaw(reason="over")
    with pytest.raises(AccessError, match=r"cannot deploy rows .*; a reviewer can"):
        operator.approve(proposal, reason="seen")
    assert operator.rollback(1, reason="no") == 3
    lost = site.ask("lost")
    operator.missing(lost.ticket, "lost", states=[0], actions=[], rewards=[])
    operator.amend(lost.ticket, [0, 0, 0], None, [0, 0, 0], reason="found")
    reviewer.freeze(reason="alarm")
    with pytest.raises(FrozenError):
        site.ask("frozen")
    operator.thaw(reason="over")
    rest = operator.propose()
    assert rest is None or reviewer.reject(rest, reason="no", forever=True) is None
    assert len(reviewer.proposals()) >= 1


def test_a_token_goes_nowhere_in_the_open():
    with pytest.raises(LedgerError, match="unencrypted; use https"):
        Client("http://ledger.example.org", "a.b")
    with pytest.raises(LedgerError, match="url must be"):
        Client("ftp://127.0.0.1", "a.b")
    with pytest.raises(LedgerError, match="token must be"):
        Client("http://127.0.0.1:1", "ab")


def test_without_a_spool_a_server_that_is_away_is_an_error(served):
    with Client(AWAY, "a.b") as lonely:
        for call in (lambda: lonely.ask("a"), lambda: lonely.tell("t", [0], None, [0])):
            with pytest.raises(UnreachableError, match="cannot be reached"):
                call()
    with (
        Client(served.url, "a.b") as stranger,
        pytest.raises(AccessError, match="unknown or revoked"),
    ):
        stranger.ask("a")


def test_the_client_names_its_trouble_until_it_is_over(served, tmp_path):
    spool = tmp_path / "spool"
    with Client(served.url, served.tokens["site"], spool=spool) as site:
        issued = site.ask("p1")
    with Client(AWAY, served.tokens["site"], spool=spool) as away:
        assert isinstance(away.tell(*told(issued)), Spooled)
    with Client(AWAY, served.tokens["site"], spool=spool) as away:
        with pytest.raises(UnreachableError):
            away.flush()
        assert "cannot be reached" in away.trouble
    with Client(served.url, "abc.def", spool=spool) as stranger:
        with pytest.raises(AccessError):
            stranger.flush()
        assert "unknown or revoked" in stranger.trouble
    with Client(served.url, served.tokens["site"], spool=spool) as site:
        site.flush()
        assert (site.trouble, site.waiting) == (None, 0)


def test_reports_wait_on_the_disk_and_go_out_in_order(served, tmp_path):
    spool = tmp_path / "site.spool"
    site = client(served, spool=spool)
    first = site.ask("a")
    away = client(served, url=AWAY, spool=tmp_path / "other.spool", fallback=FALLBACK)
    assert away.tell(*told(first)) == Spooled(first.ticket)
    promised = [away.ask(f"later {i}") for i in range(3)]
    assert [one.ticket for one in promised] == ["later:later 0", "later:later 1", "later:later 2"]
    for one in reversed(promised):  # the last report comes first
        assert away.tell(*told(one)) == Spooled(one.ticket)
    assert away.waiting == 4
    away.close()
    back = client(served, spool=tmp_path / "other.spool")
    assert len(back.flush()) == 4
    assert (back.waiting, back.refused()) == (0, [])
    numbers = {t.request: t.number for t in served.ledger.store.all_tickets()}
    assert numbers == {"a": 1, "later 0": 2, "later 1": 3, "later 2": 4}  # as they were played
    assert served.ledger.status().learned == 4
    assert served.ledger.verify().whole


def other(report):
    """Another report of the same ticket."""
    ticket, states, actions, rewards = report
    return ticket, states, actions, [0.5 - reward / 2 for reward in rewards]


def last(served, kind):
    """The payload of the newest event of a kind."""
    return served.ledger.newest(1, kind=kind)[0].payload


def test_the_first_of_two_reports_is_kept_while_the_server_is_away(served, tmp_path):
    report = told(client(served).ask("a"))
    for _ in range(2):  # the second time after a restart of the client
        with client(served, url=AWAY, spool=tmp_path / "s") as away:
            assert away.tell(*report) == Spooled(report[0])
            assert away.tell(*report) == Spooled(report[0])  # the same one again
            with pytest.raises(ConflictError, match=f"ticket {report[0]} waits in the spool"):
                away.tell(*other(report))
            one = dict(zip(("ticket", "states", "actions", "rewards"), report, strict=True))
            again = one | {"rewards": np.array(report[3])}  # and "whole" is what it is by itself
            same, conflict = away.tell_many([again, one | {"ended": "truncated"}])
            assert (same, type(conflict)) == (Spooled(report[0]), ConflictError)
            assert away.waiting == 1
    with client(served, spool=tmp_path / "s") as back:
        (answer,) = back.flush().values()
        assert answer == Told(report[0], 1, 3, served.ledger.store.event(3)[2])
        assert last(served, "told")["rewards"] == report[3]
        assert back.tell(*report) == answer
        with pytest.raises(ConflictError, match="is on record"):
            back.tell(*other(report))


def test_more_episodes_than_open_tickets_are_allowed_wait_for_their_turn(served, tmp_path):
    served.ledger.most_open = 2
    with client(served, url=AWAY, spool=tmp_path / "s", fallback=FALLBACK) as away:
        began = [away.ask(f"p{i}") for i in range(7)]
        for issued in [began[6], *began[:5]]:  # of p5 nothing is known yet
            away.tell(*told(issued))
    with client(served, spool=tmp_path / "s") as back:
        assert len(back.flush()) == 6
        assert (back.waiting, back.refused()) == (0, [])
    asked = [one.payload["request"] for one in served.ledger.events() if one.kind == "asked"]
    assert asked == [f"p{i}" for i in range(7)]  # whatever was reported first


def test_a_server_that_is_back_judges_the_second_of_two_reports(served, tmp_path):
    report = told(client(served).ask("a"))
    with client(served, url=AWAY, spool=tmp_path / "s") as away:
        away.tell(*report)
    with client(served, spool=tmp_path / "s") as back:
        with pytest.raises(ConflictError, match="is on record"):
            back.tell(*other(report))  # the first one goes out before it
        assert last(served, "told")["rewards"] == report[3]
        assert last(served, "conflict")["rewards"] == other(report)[3]
        ((kept, why),) = back.refused()
        assert (kept["rewards"], "is on record" in why) == (other(report)[3], True)
        second = told(back.ask("b"))
        names = ("ticket", "states", "actions", "rewards")
        both = [dict(zip(names, one, strict=True)) for one in (second, other(second))]
        answers = back.tell_many(both)
        assert [type(one) for one in answers] == [Told, ConflictError]
        assert last(served, "told")["rewards"] == second[3]


def test_a_site_whose_token_has_expired_hears_of_the_conflict(served, tmp_path):
    report = told(client(served).ask("a"))
    with Client(served.url, "a.b", spool=tmp_path / "s") as stranger:
        with pytest.raises(AccessError):
            stranger.tell(*report)
        assert stranger.waiting == 1
        with pytest.raises(ConflictError, match="waits in the spool"):
            stranger.tell(*other(report))


@pytest.mark.parametrize("first", ["ticket", "promise"])
def test_reports_of_one_episode_under_two_names_are_both_sent(served, tmp_path, first, monkeypatch):
    ticket = client(served).ask("a").ticket
    with client(served, url=AWAY, spool=tmp_path / "s", fallback=FALLBACK) as away:
        promise = away.ask("a").ticket  # the same episode, asked for again
        names = [ticket, promise] if first == "ticket" else [promise, ticket]
        for name, reward in zip(names, (0.25, 0.75), strict=True):
            assert away.tell(name, [0] * H, [1] * H, [reward] * H) == Spooled(name)
    monkeypatch.setattr("lowswitch.ledger.client._AT_ONCE", 1)  # not in one request
    with client(served, spool=tmp_path / "s") as back:
        found = list(back.flush().values())
        assert [type(one) for one in found] == [Told, ConflictError]
        assert last(served, "told")["rewards"] == [0.25] * H
        ((kept, _),) = back.refused()
        assert kept["rewards"] == [0.75] * H


def test_the_last_policy_is_followed_until_it_is_too_old(served, tmp_path):
    with client(served, spool=tmp_path / "s", most_age=60, fallback=FALLBACK) as site:
        known = site.ask("a")
        assert site.terms()["horizon"] == H
    served.__exit__()
    away = Client(
        served.url, served.tokens["site"], spool=tmp_path / "s", most_age=60, fallback=FALLBACK
    )
    now = away.clock()
    away.clock = lambda: now + 50
    cached = away.ask("b")
    assert (cached.version, cached.policy) == (known.version, known.policy)
    away.clock = lambda: now + 70
    assert away.ask("c").version == 0
    assert away.ask("c").policy == FALLBACK.tolist()
    away.close()
    without = Client(served.url, served.tokens["site"], spool=tmp_path / "s", most_age=0)
    assert without.ask("d").policy == served.ledger.terms.policy.tolist()  # deployed first
    without.close()
    empty = client(served, spool=tmp_path / "empty")
    with pytest.raises(UnreachableError, match="there is no fallback"):
        empty.ask("e")
    served.__enter__()


def test_a_busy_site_comes_back_to_a_server_that_is_back(served, tmp_path):
    site = client(served, spool=tmp_path / "s", fallback=FALLBACK)
    site._away()  # a moment ago nobody was there
    until, number = time.monotonic() + 3, 0
    while site.ask(f"r{number}").ticket.startswith("later:"):
        assert time.monotonic() < until, "it never tried again"
        number += 1
        time.sleep(0.01)
    assert number > 0


def test_an_episode_without_a_ticket_is_told_with_its_actions(served, tmp_path):
    away = client(served, url=AWAY, spool=tmp_path / "s", fallback=FALLBACK)
    promised = away.ask("a")
    with pytest.raises(LedgerError, match="give the actions that were played"):
        away.tell(promised.ticket, [0, 0, 0], None, [0, 0, 0])
    assert away.waiting == 0
    bare = {"ticket": promised.ticket, "states": [0, 0, 0], "actions": None, "rewards": [0, 0, 0]}
    refused, spooled = away.tell_many([bare, bare | {"ticket": "later:b", "actions": [1, 1, 1]}])
    assert isinstance(refused, LedgerError)
    assert spooled == Spooled("later:b")


def test_an_old_ticket_does_not_bring_back_an_old_policy(served, tmp_path):
    site = client(served, spool=tmp_path / "s")
    old = site.ask("a")
    site._remember([dataclasses.replace(old, version=2)])
    site.clock = lambda: time.time() + 10
    assert site.ask("a").version == 1
    assert site._spool.get("policy")["version"] == 2


def test_what_the_server_will_not_have_is_kept_and_does_not_block_the_rest(served, tmp_path):
    site = client(served, spool=tmp_path / "s")
    good, bad = site.ask("good"), site.ask("bad")
    site._spool.add(
        [
            {"ticket": bad.ticket, "states": [0, 0, 0], "actions": None, "rewards": [0, 0, 5]},
            {"ticket": "a\nb", "states": [0], "actions": None, "rewards": [0]},
        ]
    )
    assert isinstance(site.tell(*told(good)), Told)
    refused = site.refused()
    assert [report["ticket"] for report, _ in refused] == [bad.ticket, "a\nb"]
    assert "outside of the declared range" in refused[0][1]
    site.tell(*told(bad))  # corrected
    assert [report["ticket"] for report, _ in site.refused()] == ["a\nb"]


def test_while_it_is_frozen_reports_wait_and_nobody_plays(served, tmp_path):
    site = client(served, spool=tmp_path / "s")
    issued = site.ask("a")
    served.ledger.freeze(by="me", reason="alarm")
    assert site.tell(*told(issued)) == Spooled(issued.ticket)
    with pytest.raises(FrozenError):
        site.ask("b")
    assert (site.waiting, site.refused()) == (1, [])
    served.ledger.thaw(by="me", reason="over")
    (answer,) = site.flush().values()
    assert answer == Told(issued.ticket, 1, 5, served.ledger.store.event(5)[2])


def test_episodes_without_a_ticket_wait_for_a_thaw_and_are_refused_when_none_is_left(tmp_path):
    with Served(tmp_path, episodes=2) as served:
        options = {"spool": tmp_path / "s", "fallback": FALLBACK}
        with Client(AWAY, served.tokens["site"], **options) as away:
            for i in range(3):
                away.tell(*told(away.ask(f"r{i}")))
        served.ledger.freeze(by="me", reason="alarm")
        with Client(served.url, served.tokens["site"], **options) as back:
            with pytest.raises(FrozenError):
                back.flush()
            assert (back.waiting, back.refused()) == (3, [])
            served.ledger.thaw(by="me", reason="over")
            assert len(back.flush()) == 2
            ((report, why),) = back.refused()
        assert (report["ticket"], "all tickets are issued" in why) == ("later:r2", True)
        assert served.ledger.status().learned == 2


def test_a_series_goes_on_after_a_crash(served, tmp_path):
    environments = pytest.importorskip("lowswitch.envs.gymnasium")
    env = environments.TabularEnv(MDP)
    with client(served, spool=tmp_path / "s") as site:
        played = site.play(env, 5, seed=1)
        assert (played.episodes, played.told, played.spooled) == (5, 5, 0)
    with client(served, spool=tmp_path / "s") as site:  # as if it had been killed
        assert site.play(env, 8, seed=1).episodes == 3
        assert site.play(env, 2, name="another", seed=1).episodes == 2
    assert served.ledger.status().learned == 10
    assert client(served).play(env, 1, name="no spool").told == 1


class Ends:
    """An environment that ends after two steps."""

    def __init__(self, how):
        self.how = how

    def reset(self, seed=None):
        self.steps = 0
        return 1, {}

    def step(self, action):
        self.steps += 1
        over = self.steps == 2
        return 2, 0.5, over and self.how == "terminated", over and self.how == "truncated", {}


def test_an_episode_that_ends_early_is_told_as_such(tmp_path):
    with (
        Served(tmp_path, absorbing=0) as served,
        Client(served.url, served.tokens["site"]) as site,
    ):
        site.play(Ends("truncated"), 1, name="a")
        site.play(Ends("terminated"), 1, name="b")
        reports = [event.payload for event in served.ledger.events() if event.kind == "told"]
    assert [(one["ended"], one["states"]) for one in reports] == [
        ("truncated", [1, 2, 2]),
        ("terminated", [1, 2, 2]),
    ]


def test_a_termination_that_was_not_declared_is_an_error(served):
    with pytest.raises(LedgerError, match="no absorbing state"):
        client(served).play(Ends("terminated"), 1)


def test_a_spool_survives_its_own_death(tmp_path):
    spool = Spool(tmp_path / "s")
    spool.add([{"ticket": "a", "x": 1}, {"ticket": "b", "x": 2}], number=2)
    spool.done([1])
    spool._db.close()  # killed before it was taken out
    spool._owned.close()
    again = Spool(tmp_path / "s")
    assert [one.report["ticket"] for one in again.waiting()] == ["a", "b"]  # a goes out twice
    assert again.get("number") == 2
    again.done([1])
    again.close()
    last = Spool(tmp_path / "s")
    assert [one.report["ticket"] for one in last.waiting()] == ["b"]
    last.close()


def test_what_the_server_has_leaves_the_spool_also_after_a_write_that_failed(tmp_path):
    with contextlib.closing(Spool(tmp_path / "site.spool")) as spool:
        sent, _ = spool.add([{"ticket": "a"}, {"ticket": "b"}])
        spool.done([sent])
        with pytest.raises(ValueError, match="not JSON compliant"):
            spool.put(policy=float("nan"))  # the write that would have taken it out
        assert [one.report["ticket"] for one in spool.waiting()] == ["b"]


def test_a_spool_gives_no_number_twice_and_has_one_owner(tmp_path):
    spool = Spool(tmp_path / "s")
    (first,) = spool.add([{"ticket": "a"}])
    spool.done([first])
    assert spool.waiting() == []
    assert spool.add([{"ticket": "b"}]) == [first + 1]
    with pytest.raises(StorageError, match="is in use by process"):
        Spool(tmp_path / "s")
    spool.close()
    Spool(tmp_path / "s").close()
    with pytest.raises(StorageError, match="choose a file in a folder that exists"):
        Spool(tmp_path / "no such folder" / "s")


def test_a_full_disk_there_condemns_no_report_here(served, tmp_path, monkeypatch):
    site = client(served, spool=tmp_path / "s")
    issued = site.ask("a")

    def full(*_, **__):
        raise StorageError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(Writer, "tell_many", full)
        with pytest.raises(StorageError):  # one answer would let the others be acknowledged
            served.ledger.tell_many([{"ticket": issued.ticket}])
        broken.setattr(Writer, "ask", full)
        with pytest.raises(StorageError):
            served.ledger.ask_each([("the site", "b")])
        assert site.tell(*told(issued)) == Spooled(issued.ticket)
    waiting = site._spool.waiting()
    answers = {one.id: UnreachableError("the disk is full") for one in waiting}
    assert site._sort_out(site._spool, answers)  # an answer among others says the same
    assert (site.waiting, site.refused()) == (1, [])
    assert len(site.flush()) == 1
    assert site.waiting == 0


def test_a_request_that_cannot_be_read_does_not_hold_up_the_others(served, tmp_path):
    away = client(served, url=AWAY, spool=tmp_path / "s", fallback=FALLBACK)
    for bad in ("", "a\nb", "x" * 3000, 7):
        with pytest.raises(LedgerError, match="request "):
            away.ask(bad)
    for request in ("a", "b\nc", "d"):
        away._spool.promise(request)  # as if an older version had let it pass
        away.tell(f"later:{request}", [0, 0, 0], [1, 1, 1], [0, 0, 0])
    away.close()
    back = client(served, spool=tmp_path / "s")
    assert len(back.flush()) == 2
    ((report, why),) = back.refused()
    assert (report["ticket"], "control character" in why) == ("later:b\nc", True)


def test_another_address_condemns_no_report(served, tmp_path):
    issued = client(served).ask("a")
    for name, path, host in (("a", "/nowhere", "127.0.0.1"), ("b", "", "elsewhere.example.org")):
        site = client(served, url=served.url + path, spool=tmp_path / name)
        site._connection._headers["Host"] = host
        assert site.tell(*told(issued)) == Spooled(issued.ticket)
        assert (site.waiting, site.refused()) == (1, [])


def test_a_proxy_that_finds_it_too_large_gets_less_at_once():
    with pytest.raises(LedgerError, match="too large") as caught:
        connection._raise(413, b"<html>Request Entity Too Large</html>")
    assert not isinstance(caught.value, UnreachableError)
    with pytest.raises(UnreachableError):
        connection._raise(404, b"<html>Not Found</html>")


def test_the_first_ticket_brings_the_fallback(served, tmp_path):
    with client(served, spool=tmp_path / "s") as site:
        site.ask("a")
    away = client(served, url=AWAY, spool=tmp_path / "s", most_age=0)
    away.clock = lambda: time.time() + 10
    issued = away.ask("b")
    assert (issued.version, issued.policy) == (0, served.ledger.terms.policy.tolist())


def test_what_took_too_long_is_not_done_twice():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        made = connection.Connection(f"http://127.0.0.1:{silent.getsockname()[1]}", "a.b", 0.2)
        made._open = made._connect()  # as if it had been used before
        began = time.monotonic()
        with pytest.raises(UnreachableError):
            made.get("/api/terms")
        assert time.monotonic() - began < 0.35


def test_clients_lose_nothing_while_the_server_is_killed_and_the_network_drops(tmp_path):
    found = soak(tmp_path, clients=2, episodes=50, kills=1, cut_share=0.02, seed=0)
    assert (found["reports"], found["kills"]) == (100, 1)
    assert found["cuts"] > 0


def test_a_client_that_nobody_closes_leaves_nothing_behind(tmp_path):
    program = """
import sys
from lowswitch.ledger import Client
client = Client("http://127.0.0.1:9", "id.secret", spool=sys.argv[1], fallback=[[0]])
client.ask("patient 17")
"""
    line = [sys.executable, "-c", program, str(tmp_path / "spool")]
    ran = subprocess.run(line, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not (tmp_path / ".spool.lock").exists()
