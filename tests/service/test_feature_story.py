"""An engineer with five sensors and four settings: from the creation of a ledger to its audit."""

import contextlib
import json
import re
import types

import numpy as np
import pytest

import browser
import lowswitch as ls
from lowswitch.ledger import Client, Feature, Ledger, LedgerError
from lowswitch.ledger.client import Spooled
from lowswitch.ledger.text import moved, percent
from lowswitch.policy.shape import Shape
from lowswitch.service import effects, phrases, vectors
from served import Served

chromium = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))
WORTHS = ("change", "protocol")  # what a board compares first
SENSORS = [
    Feature("temperature", 20, 90, "°C"),
    Feature("pressure", 0, 12, "bar"),
    Feature("speed", 0, 300, "mm/s"),
    Feature("humidity", 0, 100, "%"),
    Feature("wear", 0, 1),
]
MIDDLE, SPREAD = np.array([55, 6, 150, 50, 0.5]), np.array([8, 1.5, 30, 12, 0.12])
EFFECTS = np.random.default_rng(5).normal(scale=0.6, size=(4, 6))
SETTINGS = ["slow", "usual", "fast", "cooled"]
PARTS = 120
DECLARED = {
    "algorithm": ls.few(deployments=6),
    "horizon": 1,
    "features": SENSORS,
    "actions": SETTINGS,
    "episodes": PARTS,
    "rewards": (-20, 20),
    "seed": 4,
    "name": "Line 7",
    "words": {"episode": "part", "action": "setting", "reward": "yield"},
}
SIZE = {"features": 5, "actions": 4, "episodes": PARTS, "seed": 4}


def part(number):
    """The sensors of a part, and what each setting would yield."""
    generator = np.random.default_rng([9, number])
    z = generator.normal(size=5).clip(-3, 3)
    x = (MIDDLE + SPREAD * z).round(3)
    return x, EFFECTS @ np.append(z, 1.0) + 0.3 * generator.normal(size=4)


def created(path):
    options = dict(DECLARED)
    Ledger.create(path, options.pop("algorithm"), **options, by="quality office").close()


def make(site, first, parts, learner=None):
    """Parts of a shift: ask, set, tell; a learner outside is told the same."""
    for number in range(first, first + parts):
        issued = site.ask(f"part {number}")
        x, yields = part(number)
        choice = issued.act(x)
        site.tell(issued.ticket, x, SETTINGS[choice.action], yields[choice.action])
        if learner is not None:
            learner.tell(x, choice.action, yields[choice.action], off_policy=True)


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    folder = tmp_path_factory.mktemp("line")
    created(folder / "run.db")
    with Served(folder) as served:
        yield served


@pytest.fixture
def fresh(tmp_path):
    created(tmp_path / "run.db")
    with Served(tmp_path) as served:
        yield served


@contextlib.contextmanager
def clients(served):
    """The people of a line: a site, a reviewer and an operator."""
    with contextlib.ExitStack() as stack:
        roles = ("site", "reviewer", "operator")
        yield [stack.enter_context(Client(served.url, served.tokens[role])) for role in roles]


def test_a_line_from_its_first_part_to_its_audit_over_http(fresh, tmp_path):
    """A plain learner outside that is told the same parts agrees to the bit."""
    with clients(fresh) as people:
        told = follow(fresh, *people, tmp_path / "all.jsonl")
    assert set(told[0]) == {"number", "states", "actions", "rewards", "ended", "propensities"}
    assert all(0 < one["propensities"][0] <= 1 for one in told)
    assert fresh.ledger.terms.to_payload()["about"][0] == [20, 90, "°C"]


def follow(fresh, site, reviewer, operator, export):
    """The story; the reports in the export at its end."""
    outside = ls.Learner(ls.few(deployments=6), **SIZE, gate="review")
    number = 1
    for made in range(4):
        while reviewer.proposal() is None:
            make(site, number, 1, outside)
            number += 1
        proposal = reviewer.proposal()
        assert proposal.rows[0]["identity"] == outside.proposal().policy.identity
        if made == 1:
            reviewer.reject(proposal, reason="the minutes are not signed yet")
            outside.reject()
            continue
        assert reviewer.approve(proposal, reason=f"meeting {made + 1}") == fresh.ledger.version
        outside.approve()
        assert site.policy.identity == outside.policy.identity
    assert fresh.ledger._ready().learner.digest() == outside.digest()
    issued = site.ask("too hot")
    x, _ = part(999)
    hot = [95.0, *x[1:].tolist()]
    with pytest.raises(LedgerError, match="temperature is 95 °C, outside of the declared range 20"):
        site.tell(issued.ticket, hot, 0, 1.0)
    assert site.act(issued.ticket, x) == issued.act(x)
    with pytest.raises(LedgerError, match="pressure is 13 bar"):
        site.act(issued.ticket, [*x[:1], 13.0, *x[2:]])
    operator.missing(issued.ticket, "scrapped")
    operator.freeze(reason="spindle alarm")
    with pytest.raises(LedgerError, match="the operator paused this run"):
        site.ask("while paused")
    operator.thaw(reason="replaced")
    version = reviewer.forbid(None, ["fast"], reason="spindle limit")
    assert version == fresh.ledger.version == 5
    assert site.ask("after the veto").act(x).action != SETTINGS.index("fast")
    assert not site.policy.allowed[:, 2].any()
    with pytest.raises(LedgerError, match="version 4 gives actions that were forbidden since"):
        operator.rollback(4, reason="back")
    reviewer.lift(None, ["fast"], reason="new spindle")
    assert operator.rollback(3, reason="yield fell") == 6
    assert operator.verify()["whole"]
    operator.export(export)
    events = [json.loads(line) for line in export.read_text().splitlines()]
    return [one["payload"] for one in events if one["kind"] == "told"]


def test_a_site_goes_on_while_the_server_is_away(tmp_path):
    created(tmp_path / "run.db")
    with Served(tmp_path) as served:
        site = Client(served.url, served.tokens["site"], spool=tmp_path / "site.spool")
        make(site, 1, 2)
    issued = [site.ask(f"away {i}") for i in range(40)]
    assert {one.number for one in issued} == {0}
    x, yields = part(3)
    choices = [one.act(x) for one in issued]
    assert len({choice.action for choice in choices}) > 1  # each part draws a member of its own
    with pytest.raises(LedgerError, match="give the actions that were played, and with features"):
        site.tell(issued[0].ticket, x, choices[0].action, 1.0)
    for one, choice in zip(issued, choices, strict=True):
        action, chance = choice
        told = site.tell(one.ticket, x, action, yields[action], propensities=chance)
        assert isinstance(told, Spooled)
    site.close()
    with Served(tmp_path) as served:
        again = Client(served.url, served.tokens["site"], spool=tmp_path / "site.spool")
        again.flush()
        told = [one.payload for one in served.ledger.events() if one.kind == "told"][2:]
        assert [one["propensities"] for one in told] == [[c.propensity] for c in choices]
        assert [one["actions"] for one in told] == [[c.action] for c in choices]
        again.close()


def test_reports_that_no_vector_can_be_are_refused(line):
    with clients(line) as (site, *_):
        ticket = site.ask("bad ones").ticket
    x = part(1)[0].tolist()
    for report, code in (
        ({"states": [x[:4]], "actions": [0], "rewards": [1.0]}, 200),
        ({"states": [[*x[:4], "a"]], "actions": [0], "rewards": [1.0]}, 400),
        ({"states": [[*x[:4], True]], "actions": [0], "rewards": [1.0]}, 400),
        ({"states": [x], "actions": [0], "rewards": [1.0], "propensities": [2]}, 400),
        ({"states": [x], "actions": [0], "rewards": [1.0], "propensities": [0]}, 200),
        ({"states": ["well"], "actions": [0], "rewards": [1.0]}, 200),
    ):
        body = {"reports": [report | {"ticket": ticket}]}
        status, found = line.json("POST", "/api/tell", body, role="site")
        assert status == code, found
        assert code == 400 or "error" in found["answers"][0]
    assert line.ledger.list_tickets(most=1)[0].request == "bad ones"
    schema = line.json("GET", "/api/openapi.json", role="site")[1]["components"]["schemas"]
    assert "propensities" in schema["Report"]["properties"]
    assert "Act" in schema


@chromium
def test_a_board_reads_decides_and_audits_in_chromium(fresh, tmp_path):
    """What the pages say is what the ledger recorded, in the words of the line."""
    with clients(fresh) as (site, *_):
        make(site, 1, 60)
    with browser.Browser() as tab:

        def be(role):
            tab.send("Network.clearBrowserCookies")
            tab.open(f"{fresh.url}/login")
            tab.type("#token", fresh.tokens[role])
            tab.click("main button", leaves=True)

        be("reviewer")
        assert "5 features and 4 settings per part" in tab.text
        for meeting in (1, 2):
            tab.open(f"{fresh.url}/proposal")
            row = fresh.ledger.proposal().rows[0]
            for region in row["regions"]:
                assert region["where"] in tab.text
            assert f"{100 * row['usual_changes']:.0f} %" in tab.text
            tab.evaluate("document.querySelector('select[name=decision]').value = 'approve all'")
            tab.click(".bar button.go", leaves=True)
            assert "Nothing has happened yet" in tab.text
            untried = any(region["untried"] for region in row["regions"])
            consent = "I know that no part of these kinds learned so far was given this"
            assert (consent in tab.text) == untried
            if untried:
                tab.click(".consent input")
            tab.type(".sign input[name=reason]", f"meeting {meeting}")
            tab.click(".sign button[name=sure]", leaves=True)
            assert fresh.ledger.version == meeting + 1
        tab.open(f"{fresh.url}/map")
        assert "What would this part get?" in tab.text
        x = part(7)[0]
        for i, value in enumerate(x):
            tab.type(f"input[name=x{i}]", str(value))
        tab.click("form[action='/map'] button", leaves=True)
        law = fresh.ledger.law(x)
        for name, share in law.items():
            assert f"{name}\t{100 * share:.1f} %" in tab.text
        tab.size(360, 800)
        for page in ("/", "/proposal", "/map", "/timeline", "/audit", "/difference?from=1&to=2"):
            tab.open(f"{fresh.url}{page}")
            assert tab.overflow() == 0, page
        tab.size(1200, 900)
        tab.open(f"{fresh.url}/forbid")
        tab.click("input[value=fast]")
        tab.click("main form button.stop", leaves=True)
        assert "Forbid fast for all parts?" in tab.text
        tab.type(".sign input[name=reason]", "spindle limit")
        tab.click(".sign button[name=sure]", leaves=True)
        assert not fresh.ledger.policy.allowed[:, 2].any()
        be("auditor")
        tab.open(f"{fresh.url}/audit?kind=told")
        assert "temperature" in tab.text
        assert "propensities" in tab.text
        tab.open(f"{fresh.url}/timeline")
        assert "meeting 2" in tab.text
        tab.open(f"{fresh.url}/audit")
        tab.click("form[action='/verify'] button", leaves=True)
        assert "Checked: all" in tab.text


# ---- a protocol and a trial ----------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path):
    """A line that is run by one setting so far, and proposes a trial of a quarter of the parts."""
    size = Shape.of(1, 5, 4)
    allowed = np.arange(4)[None] == SETTINGS.index("usual")
    usual = ls.LinearPolicy(size, np.zeros((1, 5, 4, 1)), np.uint64(0), allowed=allowed)
    options = DECLARED | {"episodes": 1_000, "policy": usual}
    algorithm = ls.few(deployments_at=(20, 60, 120, 200), trial=0.25)
    Ledger.create(tmp_path / "run.db", **options | {"algorithm": algorithm}, by="office").close()
    with Served(tmp_path) as served:
        yield served


def test_parts_are_decided_over_http_and_tickets_say_theirs(guarded):
    with clients(guarded) as (site, reviewer, operator):
        make(site, 1, 20)
        proposal = reviewer.proposal()
        assert proposal.rows[0]["trial"]["proposed"] == 0.25
        assert reviewer.approve(proposal, reason="minutes", share=0.125) == 2
        parts = [site.ask(f"later {i}").part for i in range(40)]
        assert {*parts} == {"protocol", "trial"}
        assert guarded.ledger.policy.share == 0.125
        assert operator.cap_trial(0.0, reason="spindle alarm") == 3
        assert site.ask("after the cap").part == "protocol"
        assert operator.rollback(2, reason="mended") == 4
        assert guarded.ledger.policy.share == 0.125
        assert operator.verify()["whole"]


def test_the_pages_say_both_parts_and_the_confirmation_what_becomes_of_each(guarded):
    proposal, session = learned(guarded), guarded.login("reviewer")
    row = proposal.rows[0]
    assert row["usual_changes"] > 0
    page = guarded.page("/proposal", session)[1]
    assert "1. What changes for whom" in page
    assert "<strong>25 % of new parts</strong>, drawn by lot, enter the trial" in page
    left = guarded.ledger.terms.episodes - guarded.ledger.status().issued
    assert f"{left} parts are still to come" in page
    for region in row["regions"]:
        assert region["where"] in page
        if region["usual"] is not None:  # as many as the frequencies beside it say
            old, new = region["usual"]
            more = region["proposed"][new] - region["now"].get(new, 0.0)
            assert f"for {100 * min(more, region['now'][old]):.0f} % of them" in page
    for decision, title, trial, said in (
        ("approve all", "Approve the new protocol and the trial?", "", "new protocol takes effect"),
        ("approve protocol", "Approve the new protocol?", "", "The trial stays as it is: 25 %"),
        (
            "approve trial",
            "Approve the trial, keep the present protocol?",
            "",
            "The protocol stays as it is.",
        ),
        ("approve all", "and the trial for 9 % of new parts?", "10", "% leaves room for"),
        ("approve all", "Approve the new protocol and end the trial?", "0", "The trial ends"),
    ):
        given = {"proposal": proposal.hash, "decision": decision, "share": trial}
        shown = guarded.post("/decide", session, **given)[2].decode()
        assert title in shown, decision
        assert said in shown, decision


def test_the_status_says_the_gain_of_everything_together(guarded):
    worth, session = learned(guarded).worth, guarded.login("reviewer")
    said = [phrases.more(worth[name]["mean"], guarded.ledger.terms) for name in WORTHS]
    assert said[0] != said[1]
    assert f"All together: {said[0]}," in guarded.page("/", session)[1]
    page = guarded.page("/proposal", session)[1]
    assert all(one in page for one in said)


def test_a_gain_is_stated_for_all_parts_and_for_the_parts_of_a_kind(guarded):
    proposal, session = learned(guarded), guarded.login("reviewer")
    page = guarded.page("/proposal", session)[1]
    shown = guarded.post("/decide", session, proposal=proposal.hash, decision="approve all")
    for one in proposal.rows[0]["regions"]:
        if one["gain"] is not None:
            mean = one["gain"]["mean"] / one["share"]
            for text in (page, shown[2].decode()):
                assert f"{phrases.amount(mean, guarded.ledger.terms)} per such part" in text
    assert "Gain per such part" in page.partition("The most affected parts")[2]


def test_a_first_trial_is_a_guess_until_its_last_page(guarded):
    with clients(guarded) as (site, reviewer, _):
        make(site, 1, 20)
        proposal = reviewer.proposal()
    session = guarded.login("reviewer")
    page = guarded.page("/proposal", session)[1]
    shown = guarded.post("/decide", session, proposal=proposal.hash, decision="approve all")
    for text in (page, shown[2].decode()):
        assert "A guess: nothing is known of " in text
    trial = proposal.rows[0]["trial"]
    share = 100 * trial["proposed"] * trial["departs"]
    assert f"{share:.1f} % of all parts would get, in the trial" in page


def learned(guarded):
    """The same line after a trial, with a proposal that changes protocol and trial."""
    with clients(guarded) as (site, reviewer, _):
        make(site, 1, 20)
        reviewer.approve(reviewer.proposal(), reason="minutes")
        make(site, 21, 40)
        return reviewer.proposal()


def of_all_parts(page):
    """The shares of all parts that a page lists under the trial, in percent, added up."""
    table = page.partition("Who gets what in the trial")[2].partition("</table>")[0]
    return sum(float(one) for one in re.findall(r'data-name="Share">([\d.]+) %', table))


def test_a_limited_trial_is_confirmed_with_what_is_left_of_it(guarded):
    proposal, session = learned(guarded), guarded.login("reviewer")
    given = {"proposal": proposal.hash, "decision": "approve all"}
    whole, limited = (
        guarded.post("/decide", session, **given, share=share)[2].decode() for share in ("", "7")
    )
    departs = proposal.rows[0]["trial"]["departs"]
    assert abs(of_all_parts(whole) - 25 * departs) < 0.3
    assert of_all_parts(limited) <= 6.3  # two of 32 alternatives
    assert "What the trial costs" in limited
    assert "is not known" not in limited


def test_a_confirmation_says_how_often_each_setting_is_given_to_a_kind(guarded):
    proposal, session = learned(guarded), guarded.login("reviewer")
    shown = guarded.post("/decide", session, proposal=proposal.hash, decision="approve all")
    page = shown[2].decode()
    for one in proposal.rows[0]["regions"]:
        old, new = moved(one).split(" → ")
        assert old == new or f"{old} → <b>{new}</b>" in page
    assert "of the changes correctly" in page


@pytest.mark.parametrize("pending", [True, False])
def test_a_veto_is_confirmed_with_what_each_kind_gets_instead(guarded, pending):
    proposal, session = learned(guarded), guarded.login("reviewer")
    if not pending:
        with clients(guarded) as (_, reviewer, _):
            reviewer.approve(proposal, reason="minutes")
    status, page = guarded.page("/forbid", session)
    assert status == 200
    assert "Which setting must not be given?" in page
    given = {name for one in guarded.ledger.kinds()["regions"] for name in one["now"]}
    assert {*re.findall(r'(\w+) <span class="warn">\(given now\)', page)} == given
    assert len(given) < len(SETTINGS) or not pending
    played = max(guarded.ledger.kinds()["regions"], key=lambda one: one["share"])["now"]
    setting = max(played, key=played.get)
    status, _, answer = guarded.post("/forbid", session, row="-1:-1", action=setting)
    assert (status == 422) == pending  # the protocol at the beginning plays nothing else
    if pending:
        assert "would have no action left" in answer.decode()
        return
    page, effect = answer.decode(), guarded.ledger.effect("vetoed", veto(setting))
    assert effect["usual_changes"] > 0.2
    assert f"{percent(effect['usual_changes'])} of new parts outside the trial get" in page
    assert "Expected: " in page
    for one in effect["regions"]:
        assert one["where"] in page
        assert setting not in one["proposed"]


def veto(setting):
    return {"rows": [[-1, -1]], "actions": [SETTINGS.index(setting)]}


def test_a_rollback_is_confirmed_with_what_changes_for_whom(guarded):
    proposal, session = learned(guarded), guarded.login("operator")
    with clients(guarded) as (site, reviewer, _):
        reviewer.approve(proposal, reason="minutes")
        reviewer.forbid(None, ["cooled"], reason="coolant")
        shown = guarded.post("/rollback", session, version="1")[2].decode()
        assert "It replaces version 4: the reviewer" in shown
        assert "That veto stays." in shown
        assert "It takes back version 3: the reviewer" in shown
        effect = guarded.ledger.effect("rolled_back", {"to": 1})
        assert effect["regions"]
        assert all(one["where"] in shown for one in effect["regions"] if one["changed"])
        assert "of new parts outside the trial get another setting" in shown
        read = re.search(r'name="read" value="(\w+)"', shown).group(1)
        make(site, 200, 5)  # reports shift the shares of kinds, and not the decision
        given = {"version": "1", "confirming": "1", "read": read, "consent": "1", "sure": "1"}
        assert guarded.post("/rollback", session, **given, reason="alarm")[0] == 303
    assert guarded.ledger.policy.share == 0


def test_a_limit_that_the_board_set_is_recalled_in_words(guarded):
    with clients(guarded) as (site, reviewer, _):
        make(site, 1, 20)
        reviewer.approve(reviewer.proposal(), reason="minutes", share=0.1)
        make(site, 21, 40)
    page = guarded.page("/proposal", guarded.login("reviewer"))[1]
    assert "limited the trial to at most 10 % of new parts." in page
    assert "{&#39;" not in page
    assert 'name="share" inputmode="decimal" maxlength="6" autocomplete="off" value="10"' in page


def test_the_choice_that_ends_a_trial_says_so():
    terms = types.SimpleNamespace(word=str)
    known = types.SimpleNamespace(terms=terms, cases="parts", protocol=True)
    row = {"usual_changes": 0, "trial": {"proposed": 0.0}}
    assert ("approve all", "End the trial") in vectors._options(known, row)
    assert effects.proposal_title(known, row) == "The end of the trial"
    begins = {"usual_changes": 0, "trial": {"proposed": 0.1}}
    assert effects.proposal_title(known, begins) == "A trial"


@chromium
def test_pages_with_kinds_of_cases_are_as_wide_as_the_window(guarded):
    proposal = learned(guarded)
    with browser.Browser() as tab:
        tab.open(f"{guarded.url}/login")
        tab.type("#token", guarded.tokens["reviewer"])
        tab.click("main button", leaves=True)
        for width in (1200, 360):
            tab.size(width, 900)
            tab.open(f"{guarded.url}/proposal")
            assert tab.overflow() == 0
            tab.evaluate("document.querySelector('select[name=decision]').value = 'approve all'")
            tab.click(".bar button.go", leaves=True)
            assert proposal.rows[0]["regions"][0]["where"] in tab.text
            assert tab.overflow() == 0
