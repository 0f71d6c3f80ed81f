"""The console, as its pages are sent and as a real Chromium shows them."""

import dataclasses
import html
import itertools
import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

import browser
import lowswitch as ls
from ledgers import FOLDER, made, play, stored_again
from lowswitch.ledger import Ledger, views
from lowswitch.ledger.responses import Chart
from lowswitch.ledger.text import law
from lowswitch.service import demo, display, figures, meeting
from lowswitch.service import journal as journal_of
from lowswitch.service.display import codes, map_rows, short, whole_sentence
from lowswitch.service.figures import Interval
from lowswitch.service.journal import Journal, Returns
from lowswitch.service.proposals import why_now
from lowswitch.show.text import age
from served import Served, wait_for

MARKUP = "<script>alert(1)</script>"
NASTY = {
    "states": [MARKUP, '"><img src=x onerror=alert(2)>', "=cmd|x", "' & ünï ‮abc"],
    "actions": ["<b>left</b>", "right{{7*7}}"],
    "steps": ["<i>one</i>", "javascript:alert(3)", "&lt;three&gt;"],
}
PAGES = (
    *("/", "/proposal", "/map", "/row?step=0&state=0", "/timeline", "/audit", "/roles"),
    *("/tickets", "/tickets?status=learned", "/audit?search=version+2"),
)
SURE = {"sure": "1", "confirming": "1"}


def filled(folder, rows=3):
    """A ledger with labels of markup, a second version and a proposal of so many rows."""
    algorithm = ls.q_hoeffding(c=0.05, schedule="asked")
    ledger, generator = made(folder / "run.db", algorithm, **NASTY), np.random.default_rng(0)
    for number in range(60):
        issued = ledger.ask("<u>site</u>", f"r{number}")
        states, actions = generator.integers(0, 4, 3), generator.integers(0, 2, 3)
        rewards = np.where(actions == 1, 0.9, 0.1)  # the second action is the better one
        ledger.tell(issued.ticket, states, actions, rewards)
    proposal = ledger.propose(by="<em>secretary</em>")
    found = [(row["step"], row["state"]) for row in proposal.rows]
    ledger.approve(proposal, rows=found[:1], by="board", reason="<s>yes</s>")
    more = found[rows + 1 :]
    ledger.reject(ledger.proposal(), rows=more, by="board", reason="</td>not now")
    assert len(ledger.proposal().rows) == rows
    ledger.close()


# ---- words and figures ---------------------------------------------------------------------------


def test_words_for_people():
    now = datetime(2026, 1, 10, tzinfo=UTC)
    for seconds, words in ((3, "just now"), (59, "59 seconds ago"), (60, "1 minute ago")):
        assert age((now - timedelta(seconds=seconds)).isoformat(), now) == words
    for hours, words in ((1, "1 hour ago"), (47, "47 hours ago"), (48, "2 days ago")):
        assert age((now - timedelta(hours=hours)).isoformat(), now) == words
    assert [whole_sentence(said) for said in ("no row", "Why?")] == ["No row.", "Why?"]
    assert law({"left": 1.0}) == "left"
    assert law({"left": 0.25, "right": 0.75}) == "left 25 %, right 75 %"
    assert codes(["wait", "drug A", "drug B", "both"]) == ["w", "dA", "dB", "b"]
    assert codes(["up", "us"]) == ["1", "2"]
    assert [short(n) for n in (999, 1000, 12345, 2_500_000)] == ["999", "1.0k", "12k", "2.5M"]


def test_an_interval_is_drawn_to_scale_and_said_in_words():
    drawn = str(figures.intervals(0, 2, [Interval("now", 1, 0.5), Interval("new", 0, 2, False)]))
    assert 'aria-label="now 1.00 ± 0.50; new never seen"' in drawn
    ends = re.findall(r'x1="([\d.]+)" y1="8.5" x2="([\d.]+)"', drawn)[0]
    assert ends == ("57.0", "163.0")  # a quarter and three quarters between 4 and 216
    assert "<script" not in str(figures.intervals(0, 1, [Interval(MARKUP, 0.5, 0.1)]))


def test_the_interval_of_returns_is_that_of_the_normal_law():
    returns = Returns()
    for value in (0.0, 1.0, 2.0, 5.0):
        returns.add(value)
    returns.add(5.0, -1)
    assert (returns.count, returns.mean) == (3, 1.0)
    assert returns.half_width == pytest.approx(1.96 * np.std([0, 1, 2], ddof=1) / np.sqrt(3))


def test_the_journal_counts_what_the_events_say(tmp_path):
    filled(tmp_path)
    ledger = Ledger.open(tmp_path / "run.db")
    first = ledger.ask("late", "x")
    ledger.tell(first.ticket, [0, 0, 0], None, [1, 1, 1])
    ledger.amend(first.ticket, [0, 0, 0], None, [0, 0, 0.5], by="me", reason="wrong")
    lost = ledger.ask("late", "y")
    ledger.missing(lost.ticket, "lost", by="me")
    ledger.amend(lost.ticket, [0, 0, 0], None, [0.5, 0, 0], by="me", reason="found")
    journal = Journal(Ledger.open(tmp_path / "run.db", read_only=True))
    assert journal.catch_up()
    expected = {}
    versions = {t.number: t.version for t in ledger.store.all_tickets()}
    reports = {}
    for event in ledger.events():
        if event.kind in ("told", "amended"):
            reports[event.payload["number"]] = sum(event.payload["rewards"])
    for number, total in reports.items():
        expected.setdefault(versions[number], []).append(total)
    found = {version: (one.count, one.mean) for version, one in journal.returns.items()}
    assert found == {
        version: (len(totals), pytest.approx(np.mean(totals)))
        for version, totals in expected.items()
    }
    assert [mark.seq for mark in journal.versions()] == [one.event for one in ledger.versions()]
    assert journal.sites["late"].reports == 2  # one of them late
    proposed = ledger.proposals()[0]
    assert why_now(journal, proposed, ledger.terms) != ""
    assert why_now(Journal(journal.reader), proposed, ledger.terms) == ""  # nothing read yet
    with journal._lock:  # somebody else reads for long
        assert not journal.catch_up()
    journal.reader.close()


def test_a_page_does_not_wait_for_a_journal_that_lags(served, monkeypatch):
    monkeypatch.setattr(journal_of, "_PATIENCE", 0.01)
    session, journal = served.login("auditor"), served.service.journal
    with journal._lock:  # another thread reads for long, and has not come to the last version
        marks = list(journal.marks)
        journal.marks[:] = [mark for mark in marks if mark.kind == "created"]
        status, text = served.page("/", session)
        assert (status, "Version 2" in text, "by board" in text) == (200, True, False)
        journal.marks[:] = marks
    wait_for(lambda: "by board: &lt;s&gt;yes&lt;/s&gt;" in served.page("/", session)[1])


def test_a_mistake_of_the_server_is_a_page_in_a_browser_and_json_elsewhere(served, monkeypatch):
    def broken():
        raise KeyError("to")

    session = served.login("auditor")
    monkeypatch.setattr(served.service.ledger, "status", broken)
    status, text = served.page("/", session)
    assert (status, "<h1>Not done</h1>" in text) == (500, True)
    assert "This is a mistake of the server" in text
    assert "Your click changed nothing" not in text
    status, answer = served.json("GET", "/api/status", role="auditor")
    assert (status, answer["error"]) == (500, "Fault")


def test_versions_are_those_of_the_state_while_another_process_decides(tmp_path):
    filled(tmp_path)
    writer, reader = (Ledger.open(tmp_path / "run.db", read_only=only) for only in (False, True))
    assert reader.version == 2
    events = reader.events

    def decided_meanwhile():
        writer.approve(writer.proposal(), by="board", reason="now")
        yield from events()

    reader.events = decided_meanwhile
    assert [one.number for one in views.versions(reader)] == [1, 2]
    assert writer.version == 3
    for one in (writer, reader):
        one.close()


def test_the_map_shades_changes_by_the_largest_of_them():
    terms = SimpleNamespace(
        horizon=2,
        allowed=np.ones((2, 3, 2), dtype=bool),
        labels={"state": "xyz", "action": ("wait", "treat")},
    )
    chart = Chart(
        version=1,
        policy=np.zeros((1, 2, 3), dtype=int),
        visits=np.full((2, 3, 2), 10**6),  # which have nothing to do with it
        waiting=np.zeros((2, 3, 2), dtype=int),
        allowed=terms.allowed,
        changes=np.array([[0, 1, 3], [7, 0, 0]]),
        held=[],
        pending=[],
    )
    rows = map_rows(terms, chart, "changes", range(3))
    # log(1 + n) / log(8) of 1, 3 and 7 is 1/3, 2/3 and 1; four times that, rounded, and 1
    assert [[(cell["text"], cell["css"]) for cell in row["cells"]] for row in rows] == [
        [("0", "shade0"), ("7", "shade5")],
        [("1", "shade2"), ("0", "shade0")],
        [("3", "shade4"), ("0", "shade0")],
    ]


def test_the_demo_shows_every_kind_of_decision(tmp_path):
    ledger = demo.fill(tmp_path / "clinic.db")
    status = ledger.status()
    assert (bool(status.pending), status.balanced, status.quorum) == (True, True, 2)
    assert (status.waiting > 0, status.missing > 0, status.open > 0) == (True, True, True)
    kinds = {event.kind for event in ledger.events()}
    assert {"vetoed", "lifted", "rejected", "rolled_back", "frozen", "thawed", "approved"} <= kinds
    assert ledger.verify().whole
    chart = ledger.chart()
    view = ledger.proposal()
    pending = [(r["step"], r["state"]) for r in view.rows if r["from"][0] != r["to"][0]]
    rows = display.map_rows(ledger.terms, chart, "action", range(8), pending)
    # surgery is forbidden for one finding at all visits, and by a veto at one more
    assert sum(cell["forbidden"] for row in rows for cell in row["cells"]) == demo.H + 1
    assert sum(cell["pending"] for row in rows for cell in row["cells"]) == len(pending)
    assert 0 < len(pending) < len(chart.pending)  # the others change the trial alone
    assert ledger.terms.forecast[0].after == 0
    deployed, protocol = ledger.deployed()
    assert (protocol, deployed.shape) == (True, (32, demo.H, demo.S))
    ledger.close()


# ---- pages ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    filled(folder)
    with Served(folder) as running:
        yield running


class Tags(HTMLParser):
    """The names of the tags of a page, and their attributes."""

    def __init__(self, text):
        super().__init__()
        self.names, self.values = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.values.update(attrs)


def test_no_page_has_a_script_a_style_or_a_foreign_address(served):
    session = served.login("operator")
    for path in (*PAGES, "/tokens", "/corrections", "/difference?from=1&to=2", "/map?view=width"):
        status, text = served.page(path, session)
        assert status == 200, path
        tags = Tags(text)
        assert tags.names.isdisjoint({"script", "img", "u", "s", "i", "iframe", "style"}), path
        assert not any(name.startswith("on") or name == "style" for name, _ in tags.values), path
        addresses = {value for name, value in tags.values if name in ("href", "src", "action")}
        assert all(value.startswith(("/", "#main", "#words", "#settle")) for value in addresses), (
            path
        )
        assert "right49" not in text, path
        assert text.count("<form") == text.count('method="post"') + text.count('method="get"')
        for form in re.findall(r'<form[^>]*method="post".*?</form>', text, re.DOTALL):
            assert 'name="form"' in form, path
    assert "&lt;script&gt;alert(1)" in served.page("/map", session)[1]


def test_a_decision_on_an_old_page_does_nothing(served):
    session = served.login("reviewer")
    before = served.ledger.status()
    row = served.ledger.proposal().rows[0]
    key = f"{row['step']}:{row['state']}"
    chosen = {"proposal": before.pending, "row": key, "reason": "r", "decision": "approve selected"}
    for change, status in (
        ({"proposal": "0" * 64}, 409),
        ({"reason": " "}, 400),
        ({"row": []}, 422),
        ({"row": "9:9"}, 422),
        ({"row": "x"}, 400),
        ({"decision": "maybe"}, 400),
        ({"sure": ""}, 200),  # the page on which it is confirmed
    ):
        fields = chosen | SURE | change
        assert served.post("/decide", session, **fields)[0] == status, change
    assert served.ledger.status() == before


def test_a_decision_is_confirmed_on_a_page_that_says_what_changes(served):
    session, before = served.login("reviewer"), served.ledger.status()
    row = served.ledger.proposal().rows[0]
    chosen = {"proposal": before.pending, "row": f"{row['step']}:{row['state']}"}
    text = served.post("/decide", session, **chosen, decision="approve selected")[2].decode()
    assert "Approve 1 change?" in text
    assert "Nothing has happened yet" in text
    assert "&lt;b&gt;left&lt;/b&gt; → <b>right{{7*7}}</b>" in text
    assert f"Version {before.version + 1} replaces version {before.version}" in text
    assert ">Approve 1 change</button>" in text
    wrong = chosen | {"decision": "approve selected", "reason": "<b>" + "x" * 3000} | SURE
    status, _, body = served.post("/decide", session, **wrong)
    text = body.decode()
    assert (status, text.count('class="wrong"'), text.count("x" * 3000)) == (400, 1, 1)
    assert 'aria-invalid="true"' in text
    assert served.ledger.status() == before


def test_what_operators_and_auditors_do_by_forms(tmp_path):
    filled(tmp_path)
    with Served(tmp_path) as served:
        ledger, operator, auditor = served.ledger, served.login("operator"), served.login("auditor")
        lost = ledger.ask("north", "lost")
        for path, fields, said in (
            ("/missing", {"ticket": lost.ticket, "reason": "gone"}, "is recorded as missing"),
            ("/freeze", {"reason": "alarm"}, "The run is paused."),
            ("/thaw", {"reason": "over"}, "The run is resumed."),
            ("/propose", {}, "would change"),
            ("/rollback", {"version": 1, "reason": "no"}, "It does what version 1 did"),
        ):
            head = ledger.status().head
            if path != "/freeze":  # everything else is shown first, and then confirmed
                assert served.post(path, operator, **fields)[0] == 200
                assert ledger.status().head == head
            status, headers, _ = served.post(path, operator, **fields, **SURE)
            assert status == 303, path
            assert said in served.page(headers["location"], operator)[1], path
            assert said not in served.page("/roles", operator)[1]  # it is said once
        kinds = [event.kind for event in ledger.newest(99) if event.actor == "the operator"]
        assert kinds == ["rolled_back", "met", "thawed", "frozen", "missing"]
        refused = served.post("/rollback", operator, version=99, reason="no", **SURE)
        assert (refused[0], "here is no version 99" in refused[2].decode()) == (422, True)
        assert served.post("/missing", operator, ticket="none", reason="x", **SURE)[0] == 404
        own, other = served.tokens["operator"].split(".")[0], served.tokens["site"].split(".")[0]
        assert served.post("/tokens/revoke", operator, id=own, **SURE)[0] == 422
        assert served.post("/tokens/revoke", operator, id=other)[0] == 200
        assert served.post("/tokens/revoke", operator, id=other, **SURE)[0] == 303
        assert "UTC by the operator" in served.page("/tokens", auditor)[1]
        status, text = served.page("/export?kind=jsonl", auditor)
        assert len(text.splitlines()) == ledger.status().events
        assert served.post("/verify", auditor)[0] == 303
        assert "Nothing was altered" in served.page("/", auditor)[1]
        assert ledger.verify().whole


WARD = {
    "states": [f"finding {x + 1} of the ward" for x in range(4)],
    "actions": ["watch and wait", "the first drug"],
    "steps": ["visit 1", "visit 2", "visit 3"],
    "algorithm": ls.psrl(members=16, schedule="asked", deployments=9),  # changes every row
}


CLINIC = {
    "algorithm": ls.few(deployments=9, asked=True, trial=0.25, members=16),
    "states": ["well", "ill", "bad", "worse"],
    "actions": ["watch", "surgery"],
    "steps": ["visit 1", "visit 2", "visit 3"],
    "words": {"episode": "patient", "step": "visit", "state": "finding", "action": "treatment"},
    "name": "Ward 3",
    "policy": np.zeros((3, 4), dtype=int),
}


def learned(ledger, episodes=300):
    """A proposal from records in which surgery is better for everybody."""
    generator = np.random.default_rng(0)
    states, actions = (generator.integers(0, n, (episodes, 3)) for n in (4, 2))
    rewards = np.where(actions == 1, 0.9, 0.1)
    how = {"source": "ward", "most": episodes, "by": "office", "attested": "by finding alone"}
    return ledger.add_history(states.tolist(), actions.tolist(), rewards.tolist(), **how)


def test_a_proposal_answers_on_one_screen_and_its_parts_are_approved_alone(tmp_path):
    with Served(tmp_path, **CLINIC) as served:
        view, session = learned(served.ledger), served.login("reviewer")
        text = served.page("/proposal", session)[1]
        assert "<h1>12 changes of the protocol" in text
        assert re.search(r"All 12 together: <strong>[\d.]+ more reward per 100 patients<", text)
        assert "<b>ill</b>, every visit: <b>surgery</b> instead of watch" in text
        assert text.count('<span class="tag IMPROVE">better</span>') >= 12
        assert ("Ward 3" in text, "episode" in text) == (True, False)
        one = next(row for row in view.rows)
        given = {"proposal": view.hash, "row": f"{one['step']}:{one['state']}"}
        some = served.page("/proposal?select=IMPROVE", session)[1]
        assert some.count(" checked") == 12
        assert served.page("/proposal?word=WORSE", session)[1].count('name="row"') == 0
        assert served.page("/proposal?search=bad", session)[1].count('name="row"') == 3
        sheet = served.post("/decide", session, **given, decision="approve protocol")[2].decode()
        assert "Approve 12 changes?" in sheet
        assert "No trial is running, and none begins." in sheet
        sheet = served.post("/decide", session, **given, decision="approve selected")[2].decode()
        assert "11 other changes stay undecided" in sheet
        sure = {"decision": "approve protocol", "reason": "minutes", **SURE}
        assert served.post("/decide", session, **given, **sure)[0] == 303
        (event,) = served.ledger.newest(1, kind="approved")
        assert event.payload["part"] == "protocol"
        assert (served.ledger.policy == 1).all()
        assert served.ledger.verify().whole


def test_a_treatment_is_forbidden_everywhere_at_once(tmp_path):
    with Served(tmp_path, **CLINIC) as served:
        ledger, session = served.ledger, served.login("reviewer")
        ledger.forbid([(1, 1)], ["surgery"], by="board", reason="a first harm")
        assert 'href="/forbid?rows=all"' in served.page("/map", session)[1]
        assert 'href="/forbid?rows=all"' in served.page("/forbid?rows=0:1", session)[1]
        every = "For every finding, every visit."
        assert every in served.page("/forbid?rows=all", session)[1]
        both = {"row": "all", "action": ["watch", "surgery"]}
        status, _, body = served.post("/forbid", session, **both)
        assert (status, "everywhere in one step" in body.decode()) == (422, True)
        recall = {"row": "all", "action": "surgery", "reason": "recall", **SURE}
        assert served.post("/forbid", session, **recall)[0] == 303
        assert not ledger.actions_allowed[:, :, 1].any()
        (event,) = ledger.newest(1, kind="vetoed")
        assert [1, 1] not in event.payload["rows"]  # which keeps its own reason
        status, _, body = served.post("/forbid", session, row="all", action="surgery")
        assert (status, "urgery: forbidden everywhere already" in body.decode()) == (422, True)


def test_a_veto_is_chosen_confirmed_and_lifted_on_pages(tmp_path, monkeypatch):
    with Served(tmp_path, **CLINIC) as served:
        ledger, session = served.ledger, served.login("reviewer")
        view = learned(ledger)
        chosen = {"proposal": view.hash, "row": ["0:1", "1:1"], "decision": "forbid selected"}
        status, headers, _ = served.post("/decide", session, **chosen)
        assert (status, headers["location"]) == (303, "/forbid?rows=0:1,1:1")
        with monkeypatch.context() as patch:
            patch.setattr(meeting, "_MOST_ROWS", 1)  # none is left out in silence
            status, _, body = served.post("/decide", session, **chosen)
        assert (status, "2 changes are selected, and one veto" in body.decode()) == (422, True)
        text = served.page(headers["location"], session)[1]
        assert "For ill, visits 1 and 2." in text
        assert ("so it is ticked" in text, "checked" in text) == (True, True)
        assert "checked" not in served.page("/forbid?rows=all", session)[1]
        veto = {"row": ["0:1", "1:1"], "action": "watch"}
        status, _, body = served.post("/forbid", session, **veto)
        said = "atch is given for ill, visit 1 now; choose what to give instead"
        assert (status, said in body.decode(), "checked" in body.decode()) == (422, True, True)
        sheet = served.post("/forbid", session, **veto, instead="surgery")[2].decode()
        assert "Forbid watch for ill, visits 1 and 2, and give surgery instead?" in sheet
        assert "watch → <b>surgery</b>" in sheet
        sure = {"instead": "surgery", "reason": "harm", **SURE}
        assert served.post("/forbid", session, **veto, **sure)[0] == 303
        assert ledger.policy[:, :2, 1].tolist() == [[1, 1]] * 16
        assert "Treatments are forbidden in 2 places" in served.page("/map", session)[1]
        row = served.page("/row?step=0&state=1", session)[1]
        assert ("Allow again…" in row, "forbade watch" in row) == (True, True)
        assert "Forbade watch" in served.page("/timeline", session)[1]
        lift = {"row": "0:1", "action": "watch"}
        assert (
            "Allow watch again for ill, visit 1?"
            in served.post("/lift", session, **lift)[2].decode()
        )
        assert served.post("/lift", session, **lift, reason="new data", **SURE)[0] == 303
        assert ledger.actions_allowed[0, 1].all()


def test_two_reviewers_agree_on_pages(tmp_path):
    with Served(tmp_path, **CLINIC, quorum=2) as served:
        view = learned(served.ledger)
        first = served.login("reviewer")
        served.tokens["second"] = served.access.create(name="Dr Roth", role="reviewer", days=1)
        second, operator = served.login("second"), served.login("operator")
        given = {"proposal": view.hash, "decision": "approve all", "reason": "minutes"}
        served.post("/decide", first, **given, **SURE)
        assert served.ledger.version == 1
        text = served.page("/", first)[1]
        assert "Approve 12 changes" in text
        assert "You agree already" in text
        (number,) = (one.number for one in served.ledger.motions())
        twice = served.post("/confirm", first, motion=number, reason="again", **SURE)
        assert (twice[0], "another must" in twice[2].decode()) == (422, True)
        sheet = served.post("/confirm", second, motion=number)[2].decode()
        assert "With your agreement it takes effect at once" in sheet
        assert ">Agree: approve 12 changes" in sheet
        served.post("/confirm", second, motion=number, reason="yes", **SURE)
        assert served.ledger.version == 2
        served.post("/freeze", operator, reason="alarm")
        assert served.ledger.status().frozen  # one person is enough
        served.post("/thaw", operator, reason="over", **SURE)
        assert served.ledger.status().frozen
        text = served.page("/", second)[1]
        assert "PAUSED by the operator" in text
        assert "Resume the run" in text
        (number,) = (one.number for one in served.ledger.motions())
        served.post("/decline", second, motion=number, reason="no", **SURE)
        assert served.ledger.motions() == []
        assert served.ledger.verify().whole


def test_a_proposal_of_the_older_rule_is_not_called_known(tmp_path):
    *events, _ = map(json.loads, (FOLDER / "interval-rule.jsonl").read_text().splitlines())
    stored_again(tmp_path / "run.db", events).close()
    with Served(tmp_path) as served:
        text = served.page("/proposal", served.login("reviewer"))[1]
        assert '<span class="tag IMPROVE">better</span>' in text
        assert "known" not in text
        assert "By an older rule" in text
        assert "learner's model" not in text


def test_open_reports_are_settled_before_a_proposal(tmp_path):
    with Served(tmp_path, **CLINIC) as served:
        operator, ledger = served.login("operator"), served.ledger
        assert "No report is open." in served.page("/tickets", operator)[1]
        first = ledger.ask("<u>north</u>", "p2")
        second = ledger.ask("south", "p3")
        play(ledger, 2, site="south")
        text = served.page("/tickets", operator)[1]
        assert text.count('name="ticket"') == 2
        assert "<strong>p2</strong>" in text
        waits = f"2 reports wait behind ticket {first.ticket[:12]}… (&lt;u&gt;north"
        assert waits in text
        assert served.page("/tickets?site=south", operator)[1].count('name="ticket"') == 1
        assert served.page("/tickets?days=2", operator)[1].count('name="ticket"') == 0
        assert served.page("/tickets?select=all", operator)[1].count(" checked") == 2
        assert 'name="ticket"' not in served.page("/tickets", served.login("auditor"))[1]
        sheet = served.post("/propose", operator)[2].decode()
        assert "Ask for a proposal without 4 reports?" in sheet
        assert waits in sheet
        assert ">Settle open reports first</a>" in sheet
        pasted = f"{first.ticket},north,lost\n{second.ticket};south\n"
        sheet = served.post("/missing", operator, pasted=pasted)[2].decode()
        assert "Declare 2 reports missing?" in sheet
        served.post("/missing", operator, pasted=pasted, reason="lost", **SURE)
        status = ledger.status()
        assert (status.missing, status.waiting, status.learned) == (2, 0, 2)
        ticket = ledger.list_tickets("learned")[0].ticket
        form = served.page(f"/amend?ticket={ticket}", operator)[1]
        assert form.count('name="reward"') == 3
        right = {"state": ["ill"] * 3, "action": ["watch"] * 3, "reward": ["1", "0.5", "0"]}
        sheet = served.post("/amend", operator, ticket=ticket, **right)[2].decode()
        assert "Visit 2, reward: " in sheet
        served.post("/amend", operator, ticket=ticket, reason="typing error", **right, **SURE)
        (event,) = ledger.newest(1, kind="amended")
        assert event.payload["rewards"] == [1.0, 0.5, 0.0]
        text = served.page("/audit?kind=amended", operator)[1]
        assert "→ ill, ill, ill</div>" in text
        assert "→ 1, 0.5, 0</div>" in text


def test_the_audit_is_filtered_by_person_and_day(served):
    session = served.login("auditor")
    for query, found in (("person=secretary", True), ("person=nobody", False)):
        text = served.page(f"/audit?{query}", session)[1]
        assert ("<strong>proposal asked for</strong>" in text, "No event fits." in text) == (
            found,
            not found,
        )
    assert "No event fits." in served.page("/audit?since=2099-01-01", session)[1]
    assert "No event fits." not in served.page("/audit?until=2099-01-01", session)[1]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("since=01.10.2026", "From day: '01.10.2026' is not a day; write year, month and day"),
        ("until=19.11.2026", "To day: '19.11.2026' is not a day"),
        ("since=yesterday", "From day: 'yesterday' is not a day"),
        ("until=2026-13-45", "To day: '2026-13-45' is not a day"),
        ("until=2026-02-29&kind=access", "To day: '2026-02-29' is not a day"),
        ("since=2026-02-02&until=2026-02-01", "From day: 2026-02-02 is after 2026-02-01"),
    ],
)
def test_a_day_that_cannot_be_read_is_refused(served, query, says):
    status, text = served.page(f"/audit?{query}", served.login("auditor"))
    text = html.unescape(text)
    assert (status, f'id="wrong">{says}' in text) == (422, True)
    assert "<strong>proposal asked for</strong>" not in text
    assert "No event fits." not in text
    assert f'value="{query.partition("=")[2].partition("&")[0]}"' in text


def test_a_day_may_lack_its_zeros(served):
    session = served.login("auditor")
    page = served.page("/audit?since=2000-1-2&until=2099-8-27", session)[1]
    assert "<p>Only events that fit: from 2000-01-02; to 2099-08-27.</p>" in page
    assert "<strong>proposal asked for</strong>" in page
    assert "No event fits." in served.page("/audit?until=2000-8-3", session)[1]


def test_a_filter_that_stops_early_says_so(served, monkeypatch):
    monkeypatch.setattr(display, "_PIECE", 2)
    monkeypatch.setattr(display, "_MOST_PIECES", 1)
    page = served.page("/audit?person=nobody", served.login("auditor"))[1]
    assert "on were looked through. <a" in page
    assert "No event fits." not in page


def test_no_page_of_a_large_run_is_large(tmp_path, monkeypatch):
    H, S = 20, 1000
    size = {"horizon": H, "states": S, "actions": 3, "episodes": 10}
    size |= {"algorithm": ls.q_hoeffding(c=0.05, schedule="asked")}
    with Served(tmp_path, **size, policy=np.zeros((H, S), dtype=int)) as served:
        ledger, sizes = served.ledger, {}

        def look(path, session):
            status, text = served.page(path, session)
            assert status == 200, path
            sizes[path] = max(len(text), sizes.get(path, 0))

        issued = ledger.ask("north", "p1")
        ledger.tell(issued.ticket, [1] * H, None, [0.0] * H)
        view = ledger.propose(by="office")
        # to judge every row takes minutes, so one row stands for all
        rows = [
            view.rows[0] | {"step": h, "state": x, "step_label": str(h), "state_label": str(x)}
            for h, x in itertools.product(range(H), range(S))
        ]
        large = dataclasses.replace(view, rows=rows)
        tables = [np.full((1, H, S), number) for number in (0, 1)]
        monkeypatch.setattr(ledger, "proposal", lambda: large)
        sessions = {role: served.login(role) for role in ("reviewer", "operator")}
        for session in sessions.values():
            for path in (*PAGES, "/map?view=visits", "/proposal?page=2"):
                look(path, session)
        reviewer, given = sessions["reviewer"], {"proposal": view.hash, "decision": "approve all"}
        sizes["confirm"] = len(served.post("/decide", reviewer, **given)[2])
        ledger.approve(view, by="board", reason="minutes")
        monkeypatch.setattr(ledger, "policy_of", lambda version: tables[version - 1])
        for path in ("/timeline", "/audit", "/difference?from=1&to=2", "/row?step=0&state=1"):
            look(path, reviewer)
        assert min(sizes["confirm"], sizes["/difference?from=1&to=2"]) > 20_000
        assert max(sizes.values()) < 300_000, sizes


def test_the_map_has_pages_and_a_search_past_a_hundred_states(tmp_path):
    made(tmp_path / "run.db", states=[f"place {i}" for i in range(230)], episodes=10).close()
    with Served(tmp_path) as served:
        session = served.login("auditor")
        text = served.page("/map", session)[1]
        assert text.count('scope="row"') == 100
        assert "Page 1 of 3" in text
        assert served.page("/map?page=3", session)[1].count('scope="row"') == 30
        found = served.page("/map?search=place+22", session)[1]
        assert found.count('scope="row"') == 11  # 22 and 220 to 229
        assert "No state has this name" in served.page("/map?search=nowhere", session)[1]
        assert served.page("/audit?search=%25", session)[1].count("No event fits") == 1


def test_a_cell_of_the_csv_is_no_formula(served):
    table = served.request("GET", "/api/export?kind=csv", role="auditor")[2].decode()
    assert not re.search(r"""(?m)(^|,)"?[=+@-]""", table)


# ---- the Enter key -------------------------------------------------------------------------------


class Forms(HTMLParser):
    """The forms of a page: their actions, and their fields and buttons in order."""

    def __init__(self, text):
        super().__init__()
        self.found, self.inside = [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "form":
            self.found.append((dict(attrs)["action"], []))
            self.inside = True
        elif self.inside and tag in ("input", "select", "textarea", "button"):
            self.found[-1][1].append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "form"


def sent_by_enter(fields):
    """What a browser sends for Enter in a field: all that is filled in, and the first button."""
    first = next(facts for tag, facts in fields if tag == "button")
    filled = {facts["name"]: facts.get("value", "x") for tag, facts in fields if tag != "button"}
    return filled | ({first["name"]: first.get("value", "")} if "name" in first else {})


def heeds_enter(fields):
    """Whether a form that does something has a field in which Enter presses one of its buttons."""
    kinds = [facts.get("type", tag) for tag, facts in fields]
    names = [facts.get("name") for _, facts in fields]
    return "button" in kinds and "form" in names and {*kinds} > {"hidden", "button"}


def test_enter_in_a_field_decides_nothing_and_keeps_what_is_filled_in(tmp_path):
    filled(tmp_path)
    with Served(tmp_path) as served:
        ledger = served.ledger
        lost = ledger.ask("north", "lost")
        sessions = {role: served.login(role) for role in ("operator", "reviewer", "auditor")}
        pages = (*PAGES, "/tokens", "/corrections", "/forbid?rows=0:0")
        before, tried = ledger.status(), set()
        for role, path in itertools.product(sessions, pages):
            session = sessions[role]
            for action, fields in Forms(served.page(path, session)[1]).found:
                if not heeds_enter(fields):
                    continue  # a search, or buttons alone
                tried.add(action)
                given = sent_by_enter(fields) | {"form": session[1], "reason": "<b>why</b>"}
                given |= {"ticket": lost.ticket} if "ticket" in given else {}
                status, _, body = served.post(action, session, **given)
                text = body.decode()
                assert (status, "Nothing was done yet" in text) == (200, True), action
                assert ledger.status() == before, action
                if "reason" in [facts.get("name") for _, facts in fields]:
                    assert 'name="reason" value="&lt;b&gt;why&lt;/b&gt;"' in text, action
        assert tried == {"/decide", "/freeze", "/missing", "/quorum", "/forbid", "/corrections"}


def test_enter_confirms_nothing(tmp_path):
    filled(tmp_path)
    with Served(tmp_path) as served:
        session, before = served.login("operator"), served.ledger.status()
        for path, fields in (("/rollback", {"version": "1"}), ("/propose", {})):
            page = served.post(path, session, **fields)[2].decode()
            (form,) = (found for action, found in Forms(page).found if action == path)
            given = sent_by_enter(form) | {"reason": "<b>why</b>"}
            if path == "/propose":
                assert "enter" not in given  # it has no field in which Enter could be pressed
                continue
            text = served.post(path, session, **given | {"form": session[1]})[2].decode()
            assert "Nothing was done yet" in text
            assert 'value="&lt;b&gt;why&lt;/b&gt;"' in text
        assert served.ledger.status() == before


def test_ticks_are_kept(tmp_path):
    filled(tmp_path)
    with Served(tmp_path) as served:
        session, pending = served.login("reviewer"), served.ledger.proposal()
        rows = [f"{row['step']}:{row['state']}" for row in pending.rows]
        given = {"enter": "1", "row": rows[:2], "decision": "postpone selected"}
        text = served.post("/decide", session, **given, proposal=pending.hash)[2].decode()
        assert text.count(" checked") == 2
        assert '<option value="postpone selected" selected>' in text
        assert " checked" not in served.page("/proposal", session)[1]


# ---- a real browser ------------------------------------------------------------------------------

chromium = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))


@pytest.fixture
def tab(tab, served):
    tab.base = served.url
    return tab


def log_in(tab, served, role):
    tab.open(f"{tab.base}/login")
    tab.type("#token", served.tokens[role])
    tab.click("main button", leaves=True)
    assert tab.address == "/"


@chromium
def test_labels_with_markup_are_shown_and_not_run(tab, served):
    log_in(tab, served, "auditor")
    for path in PAGES:
        tab.open(f"{tab.base}{path}")
        assert tab.evaluate("document.scripts.length") == 0
        assert tab.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
    tab.open(f"{tab.base}/map")
    for label in (*NASTY["states"][:3], NASTY["actions"][0], *NASTY["steps"]):
        assert label in tab.text
    assert tab.dialogs == []
    assert all(url.startswith(served.url) for url in tab.requests)


@chromium
def test_every_page_fits_a_narrow_screen_and_a_keyboard(tab, served, tmp_path):
    log_in(tab, served, "operator")
    for path in (*PAGES, "/corrections"):
        for width in (360, 1200):
            tab.size(width, 800)
            tab.open(f"{tab.base}{path}")
            assert tab.overflow() <= 0, (path, width)
    tab.open(f"{tab.base}/")
    reached = []
    for _ in range(30):
        tab.key("Tab", code=9)
        reached.append(
            tab.evaluate("document.activeElement.innerText || document.activeElement.name")
        )
    for name in ("To the content", "Status", "Log out", "Check now", "reason", "Pause the run now"):
        assert name in reached
    tab.print(tmp_path / "status.pdf")
    assert (tmp_path / "status.pdf").read_bytes().startswith(b"%PDF")


@chromium
def test_the_laws_of_a_mixture_stay_inside_of_their_card(tab, tmp_path):
    with Served(tmp_path, **WARD) as served:
        tab.base = served.url
        play(served.ledger, 5, site="north")
        served.ledger.approve(served.ledger.propose(by="secretary"), by="board", reason="yes")
        play(served.ledger, 5, site="north")
        served.ledger.propose(by="secretary")
        log_in(tab, served, "reviewer")
        for width in (760, 1000, 1200):
            tab.size(width, 900)
            tab.open(f"{tab.base}/proposal")
            ends = "[...document.querySelectorAll('.changes tr > *')].map(right)"
            script = "(() => { const right = one => one.getBoundingClientRect().right; "
            inside = f"return right(document.querySelector('.card.long')) - Math.max(...{ends})"
            assert tab.evaluate(f"{script}{inside} }})()") >= 0, width
            assert tab.overflow() <= 0, width


@chromium
def test_a_page_elsewhere_cannot_send_forms_here(tab, served, tmp_path):
    log_in(tab, served, "operator")
    form = tab.evaluate("document.querySelector('input[name=form]').value")
    evil = tmp_path / "evil.html"
    fields = f'<input name=form value="{form}"><input name=reason value=evil>'
    evil.write_text(
        f"<form method=post action='{served.url}/freeze'>{fields}<button>x</button></form>"
    )
    tab.open(evil.as_uri())
    tab.click("button", leaves=True)
    assert not served.ledger.status().frozen
    tab.open(f"{tab.base}/")
    assert tab.address == "/"  # still logged in
