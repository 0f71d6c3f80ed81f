"""The console, as its pages are sent and as a real Chromium shows them."""

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
from lowswitch.service import demo, display, figures, pages
from lowswitch.service import journal as journal_of
from lowswitch.service.display import codes, map_rows, short, why_now
from lowswitch.service.figures import Interval
from lowswitch.service.journal import Journal, Returns
from lowswitch.show.text import age
from served import Served, wait_for

MARKUP = "<script>alert(1)</script>"
NASTY = {
    "states": [MARKUP, '"><img src=x onerror=alert(2)>', "=cmd|x", "' & ünï ‮abc"],
    "actions": ["<b>left</b>", "right{{7*7}}"],
    "steps": ["<i>one</i>", "javascript:alert(3)", "&lt;three&gt;"],
}
PAGES = ("/", "/proposal", "/map", "/row?step=0&state=0", "/timeline", "/audit", "/roles")


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
    assert law({"left": 1.0}) == "left"
    assert law({"left": 0.25, "right": 0.75}) == "left 25%, right 75%"
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
    assert journal.sites["late"].reports == 1
    proposed = ledger.proposals()[0]
    assert why_now(journal, proposed) != ""
    assert why_now(Journal(journal.reader), proposed) == ""  # nothing was read yet
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


def test_the_demo_is_whole_and_leaves_a_proposal(tmp_path):
    ledger = demo.fill(tmp_path / "clinic.db")
    status = ledger.status()
    assert status.pending
    assert status.balanced
    assert (status.waiting > 0, status.missing > 0, status.open > 0) == (True, True, True)
    kinds = {version.kind for version in ledger.versions()}
    assert kinds == {"created", "approved", "rolled_back"}
    verdicts = {row["verdict"] for row in ledger.proposal().rows}
    assert verdicts == {"UNSURE", "UNTRIED"}  # its learner has no posterior
    assert ledger.verify().whole
    chart = ledger.chart()
    rows = display.map_rows(ledger.terms, chart, "action", range(8))
    assert sum(cell["forbidden"] for row in rows for cell in row["cells"]) == 1
    assert sum(cell["pending"] for row in rows for cell in row["cells"]) == len(chart.pending)
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
    for path in (*PAGES, "/tokens", "/difference?from=1&to=2", "/map?view=width"):
        status, text = served.page(path, session)
        assert status == 200, path
        tags = Tags(text)
        assert tags.names.isdisjoint({"script", "img", "u", "s", "i", "iframe", "style"}), path
        assert not any(name.startswith("on") or name == "style" for name, _ in tags.values), path
        addresses = {value for name, value in tags.values if name in ("href", "src", "action")}
        assert all(value.startswith(("/", "#main")) for value in addresses), path
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
    for fields, status in (
        ({"proposal": "0" * 64, "row": key, "reason": "r", "decision": "approve"}, 409),
        ({"proposal": before.pending, "row": key, "reason": " ", "decision": "approve"}, 400),
        ({"proposal": before.pending, "reason": "r", "decision": "approve"}, 422),
        ({"proposal": before.pending, "row": "9:9", "reason": "r", "decision": "approve"}, 422),
        ({"proposal": before.pending, "row": "x", "reason": "r", "decision": "approve"}, 400),
        ({"proposal": before.pending, "row": key, "reason": "r", "decision": "maybe"}, 400),
    ):
        assert served.post("/decide", session, **fields)[0] == status, fields
    assert served.ledger.status() == before


def test_what_operators_and_auditors_do_by_forms(tmp_path):
    filled(tmp_path)
    with Served(tmp_path) as served:
        ledger, operator, auditor = served.ledger, served.login("operator"), served.login("auditor")
        lost = ledger.ask("north", "lost")
        for path, fields, said in (
            ("/missing", {"ticket": lost.ticket, "reason": "gone"}, "is declared missing"),
            ("/freeze", {"reason": "alarm"}, "The run is frozen"),
            ("/thaw", {"reason": "over"}, "The run goes on"),
            ("/propose", {}, "would change"),
            ("/rollback", {"version": 1, "reason": "no"}, "it plays what version 1 did"),
        ):
            status, headers, _ = served.post(path, operator, **fields)
            assert status == 303, path
            assert said in served.page(headers["location"], operator)[1], path
            assert said not in served.page("/roles", operator)[1]  # it is said once
        kinds = [event.kind for event in ledger.newest(99) if event.actor == "the operator"]
        assert kinds == ["rolled_back", "met", "thawed", "frozen", "missing"]
        refused = served.post("/rollback", operator, version=99, reason="no")
        assert (refused[0], "there is no version 99" in refused[2].decode()) == (422, True)
        assert served.post("/missing", operator, ticket="none", reason="x")[0] == 404
        own, other = served.tokens["operator"].split(".")[0], served.tokens["site"].split(".")[0]
        assert served.post("/tokens/revoke", operator, id=own)[0] == 422
        assert served.post("/tokens/revoke", operator, id=other)[0] == 303
        assert "revoked by the operator" in served.page("/tokens", auditor)[1]
        status, text = served.page("/export?kind=jsonl", auditor)
        assert len(text.splitlines()) == ledger.status().events
        assert served.post("/verify", auditor)[0] == 303
        assert "are whole" in served.page("/", auditor)[1]
        assert ledger.verify().whole


WARD = {
    "states": [f"finding {x + 1} of the ward" for x in range(4)],
    "actions": ["watch and wait", "the first drug"],
    "steps": ["visit 1", "visit 2", "visit 3"],
    "algorithm": ls.psrl(members=16, schedule="asked", deployments=9),  # changes every row
}


def test_all_rows_are_approved_at_once_and_never_names_its_action(tmp_path):
    with Served(tmp_path, **WARD) as served:
        play(served.ledger, 5, site="north")
        proposal = served.ledger.propose(by="secretary")
        session = served.login("reviewer")
        text = served.page("/proposal", session)[1]
        assert ">Never the first drug in the ticked rows</button>" in text
        assert text.count("new here: the first drug</span>") == len(proposal.rows)
        assert f">Approve all {len(proposal.rows)} rows</button>" in text
        assert "from 5 learned episodes." in text
        given = {"proposal": proposal.hash, "reason": "minutes", "decision": "approve all"}
        status, headers, _ = served.post("/decide", session, **given)
        assert status == 303
        said = served.page(headers["location"], session)[1]
        assert "Version 2 is deployed: all rows approved" in said
        (event,) = served.ledger.newest(1, kind="approved")
        assert len(event.payload["rows"]) == len(proposal.rows)
        play(served.ledger, 5, site="north")
        again = served.ledger.propose(by="secretary")
        row = next(row for row in again.rows if not {*row["to"]} - {*row["from"]})
        key = f"{row['step']}:{row['state']}"
        veto = {"proposal": again.hash, "row": key, "reason": "no", "decision": "never"}
        status, _, body = served.post("/decide", session, **veto)
        name = f"row {row['step_label']}:{row['state_label']} would play the same actions"
        assert (status, name in body.decode()) == (422, True)


def test_the_page_says_how_probable_an_improvement_is_by_the_model(tmp_path):
    few = ls.few(deployments=9, asked=True, members=2, trial=None)
    with Served(tmp_path, **WARD | {"algorithm": few}) as served:
        generator = np.random.default_rng(0)
        states, actions = generator.integers(0, 4, (300, 3)), generator.integers(0, 2, (300, 3))
        rewards = np.where(actions == 1, 0.9, 0.1)
        how = {"source": "ward", "most": 300, "by": "office", "attested": "by finding alone"}
        view = served.ledger.add_history(states.tolist(), actions.tolist(), rewards.tolist(), **how)
        assert {row["verdict"] for row in view.rows} == {"IMPROVE"}
        session = served.login("reviewer")
        text = served.page("/proposal", session)[1]
        said = "&gt; 99 % by the learner's model</span>"
        assert text.replace("&#39;", "'").count(said) == len(view.rows)
        assert "What approving all rows is worth" in text
        assert "All episodes gain" in text
        assert text.count("per episode</span>") == len(view.rows)
        assert "so certain that few such rows are false" in text
        said = f"{len(view.rows)} improve (95 % by the learner's model)"
        assert said in served.page("/", session)[1]


def test_a_proposal_of_the_older_rule_is_not_called_known(tmp_path):
    *events, _ = map(json.loads, (FOLDER / "interval-rule.jsonl").read_text().splitlines())
    stored_again(tmp_path / "run.db", events).close()
    with Served(tmp_path) as served:
        text = served.page("/proposal", served.login("reviewer"))[1]
        assert ">IMPROVE</span>" in text
        assert "known" not in text
        assert "by an older rule" in text
        assert "learner's model" not in text


def test_the_open_tickets_are_listed_and_the_one_that_blocks_is_named(tmp_path, monkeypatch):
    with Served(tmp_path, **WARD) as served:
        operator = served.login("operator")
        assert "No ticket is open." in served.page("/", operator)[1]
        first = served.ledger.ask("<u>north</u>", "p2")
        served.ledger.ask("south", "p3")
        play(served.ledger, 1, site="south")
        text = served.page("/", operator)[1]
        assert "<h2>Declare a ticket missing</h2>" in text
        options = re.findall(r'<option value="(\w+)">(.*?), asked just now', text)
        assert options[0] == (first.ticket, "&lt;u&gt;north&lt;/u&gt;, p2")
        assert len(options) == 2
        assert f"1 report waits behind ticket {first.ticket[:12]}… (&lt;u&gt;north" in text
        assert "1 report</td>" in text
        assert "4 states, 2 actions, 3 steps an episode; 200 episodes declared." in text
        assert "<option" not in served.page("/", served.login("auditor"))[1]
        monkeypatch.setattr(pages, "_OPEN_TICKETS", 1)
        text = served.page("/", operator)[1]
        assert ('list="open"' in text, text.count("<option")) == (True, 1)
        status, _, _ = served.post("/missing", operator, ticket=first.ticket, reason="lost")
        assert (status, served.ledger.status().missing) == (303, 1)


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
        assert served.page("/audit?search=%25", session)[1].count("No event is like this") == 1


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
        tried = set()
        for frozen in (False, True):
            if frozen:
                ledger.freeze(by="me", reason="alarm")
            before = ledger.status()
            for role, path in itertools.product(sessions, (*PAGES, "/tokens")):
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
                    assert 'name="reason" value="&lt;b&gt;why&lt;/b&gt;"' in text, action
        assert tried == {"/decide", "/freeze", "/thaw", "/missing", "/rollback"}


def test_ticks_are_kept_for_the_proposal_that_they_are_about(tmp_path):
    filled(tmp_path)
    with Served(tmp_path) as served:
        session, pending = served.login("reviewer"), served.ledger.proposal()
        rows = [f"{row['step']}:{row['state']}" for row in pending.rows]
        given = {"enter": "1", "row": rows[:2], "reason": "r"}
        for shown, ticks in ((pending.hash, 2), ("0" * 64, 0)):
            text = served.post("/decide", session, **given, proposal=shown)[2].decode()
            assert (text.count(" checked"), 'value="r"' in text) == (ticks, True)
        assert " checked" not in served.page("/proposal", session)[1]


# ---- a real browser ------------------------------------------------------------------------------

chromium = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))


@pytest.fixture
def tab(served):
    with browser.Browser() as opened:
        opened.base = served.url
        yield opened


def log_in(tab, served, role):
    tab.open(f"{tab.base}/login")
    tab.type("#token", served.tokens[role])
    tab.click("main button", leaves=True)
    assert tab.address == "/"


@chromium
def test_the_whole_story_in_a_browser(tmp_path):
    filled(tmp_path)
    with Served(tmp_path) as served, browser.Browser() as tab:
        tab.base = served.url
        version = served.ledger.version
        tab.open(f"{tab.base}/proposal")
        assert tab.address == "/login"  # nobody reads without a token
        tab.type("#token", "wrong.token")
        tab.key("Enter", code=13, text="\r", leaves=True)
        assert "unknown or revoked" in tab.text

        log_in(tab, served, "reviewer")
        assert "3 rows" in tab.text
        assert "FREEZE" not in tab.text  # a reviewer cannot
        tab.click("a.button[href='/proposal']", leaves=True)
        assert "3 rows would change" in tab.text
        signed = served.ledger.proposal().hash
        assert signed in tab.text
        tab.click("button[value=approve]")  # without a reason the browser itself says no
        assert tab.address == "/proposal"
        for i in (1, 2):
            tab.click(f"tbody tr:nth-child({i}) input[type=checkbox]")
        tab.type("input[name=reason]", "minutes of 3 May")
        tab.click("button[value=approve]", leaves=True)
        assert f"Version {version + 1} is deployed: 2 rows approved" in tab.text
        event = served.ledger.newest(1, kind="approved")[0]
        assert (event.actor, event.payload["reason"]) == ("the reviewer", "minutes of 3 May")
        assert (event.payload["proposal"], len(event.payload["rows"])) == (signed, 2)
        tab.click("header nav a[href='/timeline']", leaves=True)
        assert "minutes of 3 May" in tab.text
        tab.click("header button", leaves=True)
        assert tab.address == "/login"

        log_in(tab, served, "operator")
        assert f"Version {version + 1}" in tab.text
        tab.open(f"{tab.base}/timeline")
        row = f"tr:has(input[name=version][value='{version}'])"
        tab.click(f"{row} summary")
        tab.type(f"{row} input[name=reason]", "adverse events")
        tab.click(f"{row} button.stop", leaves=True)
        assert f"Version {version + 2} is deployed; it plays what version {version} did" in tab.text
        assert (served.ledger.policy == served.ledger.policy_of(version)).all()
        tab.click("header nav a[href='/']", leaves=True)
        tab.type("form[action='/freeze'] input[name=reason]", "an alarm")
        tab.click("form[action='/freeze'] button.stop", leaves=True)
        assert "FROZEN" in tab.text
        assert served.ledger.status().frozen
        tab.click("form[action='/verify'] button", leaves=True)
        assert tab.address == "/audit"
        assert "are whole and lead to this state" in tab.text
        tab.click("header button", leaves=True)
        tab.open(f"{tab.base}/")
        assert tab.address == "/login"
        assert served.ledger.verify().whole


@chromium
def test_enter_decides_nothing_in_a_browser(tmp_path):
    filled(tmp_path)
    with Served(tmp_path) as served, browser.Browser() as tab:
        tab.base, ledger = served.url, served.ledger
        ledger.ask("north", "lost")
        before = ledger.status()

        def enter(selector, reason):
            tab.evaluate(f"document.querySelector({selector!r}).focus()")
            tab.key("Enter", code=13, text="\r", leaves=True)
            assert "Nothing was done yet" in tab.text
            assert ledger.status() == before
            filled_in = "[...document.querySelectorAll('input[name=reason]')].map(e => e.value)"
            assert reason in tab.evaluate(filled_in)

        log_in(tab, served, "reviewer")
        tab.open(f"{tab.base}/proposal")
        tick = "tbody tr:nth-child(2) input[type=checkbox]"
        tab.click(tick)
        tab.type("input[name=reason]", "minutes of 3 May")
        enter("input[name=reason]", "minutes of 3 May")
        enter(tick, "minutes of 3 May")  # from a tick the key sends a form as well
        assert tab.evaluate("document.querySelectorAll(':checked').length") == 1
        tab.click("button[value=approve]", leaves=True)  # with what is kept
        assert f"Version {before.version + 1} is deployed: 1 row approved" in tab.text
        tab.click("header button", leaves=True)

        before = ledger.status()
        log_in(tab, served, "operator")
        tab.type("form[action='/freeze'] input[name=reason]", "an alarm")
        enter("form[action='/freeze'] input[name=reason]", "an alarm")
        tab.type("form[action='/missing'] input[name=reason]", "moved away")
        enter("form[action='/missing'] input[name=reason]", "moved away")
        tab.open(f"{tab.base}/timeline")
        row = "tr:has(input[name=version][value='1'])"
        tab.click(f"{row} summary")
        tab.type(f"{row} input[name=reason]", "adverse events")
        enter(f"{row} input[name=reason]", "adverse events")
        tab.click(f"{row} button.stop", leaves=True)  # it is open still
        assert "it plays what version 1 did" in tab.text


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
    for path in PAGES:
        for width in (360, 1200):
            tab.size(width, 800)
            tab.open(f"{tab.base}{path}")
            assert tab.overflow() <= 0, (path, width)
    tab.open(f"{tab.base}/")
    reached = []
    for _ in range(25):
        tab.key("Tab", code=9)
        reached.append(
            tab.evaluate("document.activeElement.innerText || document.activeElement.name")
        )
    for name in ("To the content", "Status", "Log out", "Verify now", "reason", "FREEZE"):
        assert name in reached
    tab.print(tmp_path / "status.pdf")
    assert (tmp_path / "status.pdf").read_bytes().startswith(b"%PDF")


@chromium
def test_the_laws_of_a_mixture_stay_inside_of_their_card(tmp_path):
    with Served(tmp_path, **WARD) as served, browser.Browser() as tab:
        tab.base = served.url
        play(served.ledger, 5, site="north")
        served.ledger.approve(served.ledger.propose(by="secretary"), by="board", reason="yes")
        play(served.ledger, 5, site="north")
        served.ledger.propose(by="secretary")
        log_in(tab, served, "reviewer")
        for width in (760, 1000, 1200):
            tab.size(width, 900)
            tab.open(f"{tab.base}/proposal")
            ends = "[...document.querySelectorAll('.proposal tr > *')].map(right)"
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
