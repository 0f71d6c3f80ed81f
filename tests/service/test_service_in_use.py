"""What a board reads holds for the version in use, and every page says the same of it."""

import html
import re
import time

import numpy as np
import pytest
from test_service_console import SURE, TRIAL, key, plain, records

from lowswitch.ledger import Ledger, reading
from lowswitch.ledger.text import percent
from lowswitch.policy.tables import departing
from lowswitch.service import demo, effects, holds, meeting, phrases
from lowswitch.service.sheets import WITHDRAWN_WORDS
from served import Served

H, S = demo.H, demo.S


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The file of the demo, to be copied."""
    path = tmp_path_factory.mktemp("demo") / "run.db"
    demo.fill(path).close()
    return path


@pytest.fixture
def clinic(filled, tmp_path):
    """A copy of the demo with its people."""
    (tmp_path / "run.db").write_bytes(filled.read_bytes())
    with Served(tmp_path) as served:
        for name, role in demo.PEOPLE:
            served.tokens[name] = served.access.create(name=name, role=role, days=1)
        yield served


def changes_of(view):
    return [row for row in view.rows if row["from"][0] != row["to"][0]]


def named(rows):
    return [(row["step_label"], row["state_label"]) for row in rows]


def agree(ledger, motion=None):
    motion = motion or ledger.motions()[0]
    return ledger.confirm(motion.number, by="Dr Roth", reason="agreed")


def approve_better(ledger):
    """Approve the changes that are likely better, and return what is left."""
    view = ledger.proposal()
    better = [row for row in changes_of(view) if row["verdict"] in ("IMPROVE", "LIKELY")]
    asked = ledger.approve(view, rows=named(better), part="protocol", by="Dr Vega", reason="better")
    agree(ledger, asked)
    return ledger.proposal()


def sheet_of(served, session, decision, **fields):
    given = {"proposal": served.ledger.proposal().hash, "decision": decision} | fields
    return plain(served.post("/decide", session, **given)[2])


def known_of(served):
    ledger = served.ledger
    policies, protocol = ledger.deployed()
    return effects.Known(
        ledger.terms, ledger.status(), ledger.proposal(), policies, protocol, ledger.chart().visits
    )


# ---- what is left after a part was approved ------------------------------------------------------


def test_what_is_left_is_judged_against_the_version_in_use(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    left = approve_better(ledger)
    assert left.numbers == "again"
    (event,) = ledger.newest(1, kind="proposed")
    recorded = {(row["step"], row["state"]): row for row in event.payload["rows"]}
    moved = 0
    for row in changes_of(left):
        alone = ledger.worth(named([row]), part="protocol")["protocol"]
        assert row["probability"] == pytest.approx(alone["better"], abs=0.03)
        assert row["gain"]["mean"] == pytest.approx(alone["mean"], abs=0.003)
        moved += row["probability"] != recorded[row["step"], row["state"]]["probability"]
    assert moved == len(changes_of(left))
    assert left.worth == ledger.worth()
    page = plain(clinic.page("/proposal", session)[1])
    assert "were computed again for what is left, and compare it with version 9" in page
    with Ledger.open(clinic.address, read_only=True) as again:
        assert again.proposal().rows == left.rows  # by a replay
    assert ledger.verify(progress=False).whole


def test_a_confirmation_has_one_number_for_one_change(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    for left in (False, True):
        view = approve_better(ledger) if left else ledger.proposal()
        row = changes_of(view)[-1]
        page = sheet_of(clinic, session, "approve selected", row=[key(row)])
        more = phrases.more(row["gain"]["mean"], ledger.terms)
        said = page.partition("Expected outside the trial: ")[2].partition("improvement")[0]
        assert said.startswith(more)
        table = page.partition("1 change of the protocol")[2]
        sure = row["probability"]
        assert f"{percent(max(sure, 1 - sure))} sure" in said
        assert phrases.amount(row["gain"]["mean"], ledger.terms) in table
        assert percent(sure) in table


def test_a_postponed_part_leaves_the_recorded_numbers(clinic):
    ledger, view = clinic.ledger, clinic.ledger.proposal()
    rows = changes_of(view)
    ledger.reject(view, rows=named(rows[:1]), by="Dr Vega", reason="later")
    left, old = ledger.proposal(), {(row["step"], row["state"]): row for row in view.rows}
    assert left.numbers == "recorded"
    for row in left.rows:
        assert row["probability"] == old[row["step"], row["state"]]["probability"]


def test_numbers_that_take_a_long_replay_are_withdrawn(filled, tmp_path, monkeypatch):
    (tmp_path / "run.db").write_bytes(filled.read_bytes())
    with Ledger.open(tmp_path / "run.db") as ledger:
        approve_better(ledger)
    monkeypatch.setattr(reading, "_QUICK", 0)
    with Served(tmp_path) as served:
        session, left = served.login("reviewer"), served.ledger.proposal()
        assert left.numbers == "withdrawn"
        assert {row["verdict"] for row in changes_of(left)} == {""}
        assert all(row["probability"] is None for row in changes_of(left))
        text = served.page("/proposal", session)[1]
        page = plain(text)
        assert html.escape(WITHDRAWN_WORDS) in text
        assert "sure to be an improvement" not in page
        assert "likely better" not in page
        sheet = sheet_of(served, session, "approve all")
        assert "What to expect of this is not known." in sheet
        assert "sure that this is" not in sheet
        served.ledger.propose(by="Ms Okafor")
        assert served.ledger.proposal().numbers == "recorded"


def test_a_verdict_that_changed_says_with_which_version_it_compares(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    view, left = ledger.proposal(), approve_better(ledger)
    old = {(row["step"], row["state"]): row for row in view.rows}
    page = plain(clinic.page("/proposal", session)[1])
    judged = [
        row
        for row in changes_of(left)
        if row["verdict"] != old[row["step"], row["state"]]["verdict"]
    ]
    assert judged
    why = "That one compared it with version 8; this one compares it with version 9."
    assert page.count(why) == len(judged)
    assert "“how sure” does not" not in page
    ledger.propose(by="Ms Okafor")  # by the same data and the same version
    card = plain(clinic.page("/proposal", session)[1]).partition("New since you read")[2]
    assert "No report was learned since" in card
    assert "the verdict is" not in card.partition("1. What changes")[0]


def test_news_are_told_after_a_page_without_a_proposal(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    clinic.page("/proposal", session)
    ledger.reject(ledger.proposal(), by="Dr Vega", reason="later")
    assert "No proposal is pending" in clinic.page("/proposal", session)[1]
    ledger.propose(by="Dr Vega", held=True)
    for _ in range(2):
        page = plain(clinic.page("/proposal", session)[1])
        card = page.partition("New since you read the proposal of")[2].partition("1. What")[0]
        assert "Dr Vega postponed 16 changes and the trial on" in card
        assert "The trial now" not in card


# ---- held places ---------------------------------------------------------------------------------


def test_held_places_are_the_same_on_every_page(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    view = ledger.proposal()
    n, only = len(view.rows), len(view.rows) - len(changes_of(view))
    assert only > 0
    sheet = sheet_of(clinic, session, "postpone all")
    assert f"of the trial in {n} places, where you postpone the changes and the trial" in sheet
    assert f"In {only} of them only the trial differs." in sheet
    assert f"Held back are 0 of {H * S} places now, and {n} after this." in sheet
    given = {"proposal": view.hash, "decision": "postpone all", "reason": "open reports"}
    clinic.post("/decide", session, **given, **SURE)
    held = ledger.holds()
    assert len(held) == n
    assert f"{n} places held back" in plain(clinic.page("/", session)[1])
    page = plain(clinic.page("/proposal", session)[1])
    assert f"Held back for now: {n} places" in page
    assert f"Only the trial was to change in {only} of them" in page
    assert "proposes nothing there, neither for the protocol nor for the trial" in page
    assert "trial alone" not in page
    assert clinic.page("/map", session)[1].count("<sup>H</sup>") == n + 1  # and the legend
    rows = [
        (h, x)
        for h in range(H)
        for x in range(S)
        if "No change is proposed here" in clinic.page(f"/row?step={h}&state={x}", session)[1]
    ]
    assert rows == sorted(held)
    asks = plain(clinic.post("/propose", session)[2])
    assert f"{n} of {H * S} places are left out" in asks
    assert f"The learner looks only at the other {H * S - n}." in asks
    _, headers, _ = clinic.post("/propose", session, **SURE)
    assert headers["location"].startswith("/proposal")
    said = plain(clinic.page("/proposal", session)[1])
    assert f"{n} places are held back and were not looked at." in said


def test_many_places_are_counted_and_not_listed(clinic, monkeypatch):
    session = clinic.login("Dr Vega")
    first = "finding 1 (visits 1, 2 and 3), finding 2"
    assert first in sheet_of(clinic, session, "postpone all")
    monkeypatch.setattr(holds, "MOST_LINES", 2)
    page = sheet_of(clinic, session, "postpone all")
    assert first not in page
    assert "(afterwards marked H on the page of the protocol)." in page


def test_a_postponement_is_still_named_after_a_rollback_held_its_place(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    differ = (ledger.policy_of(7) != ledger.policy).any(axis=0)
    row = next(one for one in ledger.proposal().rows if differ[one["step"], one["state"]])
    place = [(row["step_label"], row["state_label"])]
    ledger.reject(ledger.proposal(), rows=place, by="Dr Vega", reason="two open reports")
    asked = ledger.rollback(7, by="Ms Okafor", reason="too soon")
    for name in ("Dr Vega", "Dr Roth"):
        ledger.confirm(asked.number, by=name, reason="yes")
    asks = plain(clinic.post("/propose", session)[2])
    page = plain(clinic.page("/proposal", session)[1])
    assert "Nothing is proposed there, neither for the protocol nor for the trial." in asks
    where = phrases.place(ledger.terms, row["step"], row["state"])
    for text in (page, asks):
        line = text.partition(f"{where[1:]}: until")[2].partition("too soon”)")[2]
        said = ". The rollback changed only the trial there"
        assert line.startswith(f"{said}. Before that, Dr Vega postponed on")
        assert "(“two open reports”)" in line
        assert text.count("The rollback changed only the trial") > 1
        assert "trial alone" not in text


def test_a_rollback_says_which_places_it_holds(clinic):
    ledger = clinic.ledger
    approve_better(ledger)
    operator = clinic.login("Ms Okafor")
    page = plain(clinic.post("/rollback", operator, version="8")[2])
    differ = (ledger.policy_of(8) != ledger.policy).any(axis=0)
    n, changed = int(differ.sum()), int((ledger.policy_of(8)[0] != ledger.policy[0]).sum())
    assert f"of the trial in {n} places, where the two versions differ" in page
    assert (f"In {n - changed} of them only the trial differs." in page) == (n > changed)
    assert f"Held back are 0 of {H * S} places now, and {n} after this." in page
    asked = ledger.rollback(8, by="Ms Okafor", reason="too soon")
    for name in ("Dr Vega", "Dr Roth"):
        ledger.confirm(asked.number, by=name, reason="yes")
    assert len(ledger.holds()) == n


def test_the_status_remembers_where_the_learner_did_not_look(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    view = ledger.proposal()
    ledger.reject(view, by="Dr Vega", reason="later")
    assert ledger.propose(by="Dr Vega") is None
    left = H * S - len(view.rows)
    said = f"the learner looked at {left} of {H * S} places and would have changed nothing there"
    page = plain(clinic.page("/", session)[1])
    assert said in page
    assert "waiting reports will count, too" in page
    open_ones = [ticket.ticket for ticket in ledger.tickets("open")]
    ledger.missing_many(open_ones, "lost", by="Ms Okafor")
    assert not ledger.holds()
    page = plain(clinic.page("/", session)[1])
    assert said in page
    assert "deployed policy" not in page


# ---- vetoes that were lifted ---------------------------------------------------------------------


def test_a_lifted_veto_is_named_as_lifted_and_the_proposal_as_older(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    row = next(row for row in changes_of(ledger.proposal()) if row["to"][0] == 3)
    place = named([row])
    approve_better(ledger)
    assert ledger.policy[0, row["step"], row["state"]] == 3
    veto = ledger.forbid(place, ["surgery"], instead="drug B", by="Dr Vega", reason="infections")
    agree(ledger, veto)
    operator, back = clinic.login("Ms Okafor"), ledger.version - 1
    given = {"row": [key(row)], "action": "surgery"}
    lifting = plain(clinic.post("/lift", session, **given)[2])
    assert "The pending proposal stays as it is, and was made without this." in lifting
    assert "made before" not in plain(clinic.page("/proposal", session)[1])
    agree(ledger, ledger.lift(place, ["surgery"], by="Dr Vega", reason="a wrong report"))
    undone = plain(clinic.post("/rollback", operator, version=str(back))[2])
    assert "That veto stays." not in undone
    assert "That veto was lifted: Dr Vega and Dr Roth lifted it on" in undone
    older = "This proposal was made before Dr Vega and Dr Roth allowed surgery again"
    assert older in plain(clinic.page("/proposal", session)[1])
    assert older in sheet_of(clinic, session, "approve all")
    ledger.propose(by="Ms Okafor")
    page = plain(clinic.page("/proposal", session)[1])
    assert older not in page
    assert "Surgery was allowed again here on" not in page or "by Dr Vega and Dr Roth." in page
    agree(ledger, ledger.forbid(place, ["surgery"], by="Dr Vega", reason="infections again"))
    undone = plain(clinic.post("/rollback", operator, version=str(back - 1))[2])
    assert undone.count("That veto stays.") == 1  # it stands again, by another decision


# ---- trials --------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [5, 10])
def test_a_limited_trial_is_compared_with_today(clinic, share):
    known, session = known_of(clinic), clinic.login("Dr Vega")
    part = effects.whole(known.view) | {"part": "trial"}
    after = effects.law_after(known, part | {"share": share / 100})
    page = sheet_of(clinic, session, "approve trial", share=str(share))
    gone = effects.stopped(known.policies, after)
    words = phrases.actions_words(known.terms, gone)
    assert f"The trial of today gives this, and nobody will: {words}." in page
    proposed = round(5 * 32 * departing(effects.law_after(known, part)).mean() / 5)
    left = proposed - int(departing(after).sum())
    assert f"; the other {left} do not begin." in page
    given = phrases.given_in_trial(after)
    here = given - phrases.given_in_trial(effects.law_after(known, effects.whole(known.view)))
    assert f"Only here: {phrases.actions_words(known.terms, here)}." in page
    assert "because the protocol stays and your limit leaves out a part of it" in page


def test_the_trial_that_goes_on_has_a_cost_and_the_whole_a_gain(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    view = ledger.proposal()
    rows = [row for row in changes_of(view) if row["verdict"] in ("IMPROVE", "LIKELY")]
    worth, terms = ledger.worth(named(rows), part="protocol"), ledger.terms
    page = sheet_of(clinic, session, "approve LIKELY")
    assert f"What the trial costs: {phrases.more(worth['trial']['mean'], terms)} in it" in page
    both = f"with those in the trial: {phrases.gain_words(worth['change'], terms)}."
    assert f"{both} This compares with version 8 and its trial." in page


def test_the_numbers_of_a_proposal_add_up(clinic):
    """Over all patients: the protocol, and what the new trial costs and the present one gained."""
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    known, view, now = known_of(clinic), ledger.proposal(), ledger.worth([])["trial"]["mean"]
    before = phrases.share_of(known.policies)
    after = phrases.share_of(effects.law_after(known, effects.whole(view)))
    worth = {name: view.worth[name]["mean"] for name in ("change", "protocol", "trial")}
    assert worth["change"] == pytest.approx(
        worth["protocol"] + after * worth["trial"] - before * now, abs=1e-8
    )
    page = plain(clinic.page("/proposal", session)[1])
    assert f"The present trial: {phrases.more(now, ledger.terms)} in it" in page
    assert "compared with version 8 and its present trial" in page


def test_the_timeline_and_a_place_say_what_an_approval_of_a_trial_changed(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    before, after = ledger.policy_of(7), ledger.policy_of(8)
    n = phrases.trial_places(before, after)
    assert n > 0
    assert not (before[0] != after[0]).any()
    assert f"0 + {n} places of the trial" in plain(clinic.page("/timeline", session)[1])
    other = plain(clinic.page("/difference?from=7&to=8", session)[1])
    assert f"in the trial, {n} other places differ" in other
    view = ledger.proposal()
    ledger.approve(view, part="trial", share=0.1, by="Dr Vega", reason="smaller")
    agree(ledger)
    n = phrases.trial_places(after, ledger.policy)
    assert f"the trial: 16 % → 9 % of new patients, with other alternatives or shares in {n}" in (
        plain(clinic.page("/timeline", session)[1])
    )
    h, x = np.argwhere((np.sort(before, axis=0) != np.sort(after, axis=0)).any(axis=0))[0]
    page = plain(clinic.page(f"/row?step={h}&state={x}", session)[1])
    said = page.partition("Decisions")[2]
    assert re.search(r"approved: .+ → .+in the trial also", said)
    assert "Decide by them" not in page


# ---- what a proposal costs -----------------------------------------------------------------------


def test_asking_says_what_it_uses_of_the_budget(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    ledger.reject(ledger.proposal(), by="Dr Vega", reason="later")
    left = ledger.status().budget_left
    page = plain(clinic.post("/propose", session)[2])
    assert f"If the learner proposes something, this uses one of the {left} proposals" in page
    assert "If it would change nothing, this uses none." in page
    assert ledger.propose(by="Dr Vega") is None
    assert ledger.status().budget_left == left


def test_a_proposal_in_the_place_of_a_withdrawn_one_is_free(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        ledger = served.ledger
        ledger.approve(records(ledger), by="Dr Vega", reason="minutes")
        assert not ledger.status().next_is_free
        assert "one of the" in meeting._cost_words(ledger.status(), None)
        ledger.rollback(1, by="Ms Okafor", reason="too soon")
        view = ledger.propose(by="Ms Okafor", held=True)
        assert view is not None
        ledger.rollback(2, by="Ms Okafor", reason="not too soon")
        run = ledger.status()
        assert (run.pending, run.next_is_free) == (None, True)
        assert "uses up none of the proposals left" in meeting._cost_words(run, None)
        ledger.propose(by="Ms Okafor", held=True)
        assert ledger.status().budget_left == run.budget_left


# ---- small words ---------------------------------------------------------------------------------


def test_small_words_of_the_console(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    view = ledger.proposal()
    given = {"proposal": view.hash, "show": "page=", "search": "surgry", "searched": ""}
    assert "No change fits “surgry”." in plain(clinic.post("/decide", session, **given)[2])
    alone = next(row for row in view.rows if row["from"][0] == row["to"][0])
    page = plain(clinic.page(f"/row?step={alone['step']}&state={alone['state']}", session)[1])
    assert "changes only the trial here" in page
    everything = {"row": ["all"], "action": ["drug A", "surgery"], "reason": "x"}
    wrong = plain(clinic.post("/forbid", session, **everything)[2])
    assert "cannot be forbidden everywhere in one step, because" in wrong
    ledger.set_quorum(1, by="Dr Vega", reason="small board")
    assert "Let 1 reviewer decide" in plain(clinic.page("/audit?kind=requested", session)[1])
    asked = ledger.approve(view, by="Dr Roth", reason="all")
    assert asked.number
    given = {"proposal": view.hash, "decision": "postpone all", "reason": "open reports"}
    clinic.post("/decide", session, **given, **SURE)
    said = plain(clinic.page("/proposal", session)[1])
    assert "Done: postpone everything. 1 request about this proposal fell away." in said


def test_the_check_says_how_many_events_came_later(clinic):
    session = clinic.login("Dr Vega")
    clinic.post("/verify", session)
    end, ledger = time.monotonic() + 60, clinic.ledger
    while (verdict := clinic.access.last_verdict()) is None and time.monotonic() < end:
        time.sleep(0.1)
    ledger.reject(ledger.proposal(), by="Dr Vega", reason="later")
    later = ledger.status().events - verdict["events"]
    assert later > 0
    said = f"{later} event came later." if later == 1 else f"{later} events came later."
    for path in ("/", "/audit"):
        assert said in plain(clinic.page(path, session)[1])


def test_a_limit_that_a_rollback_took_back_is_not_filled_in(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    asked = ledger.approve(
        ledger.proposal(), part="trial", share=0.1, by="Dr Vega", reason="smaller"
    )
    agree(ledger, asked)
    ledger.propose(by="Ms Okafor")
    assert re.search(r'name="share"[^>]* value="10"', clinic.page("/proposal", session)[1])
    asked = ledger.rollback(8, by="Ms Okafor", reason="too small")
    for name in ("Dr Vega", "Dr Roth"):
        ledger.confirm(asked.number, by=name, reason="yes")
    if ledger.proposal() is None:
        ledger.propose(by="Ms Okafor", held=True)
    assert re.search(r'name="share"[^>]* value=""', clinic.page("/proposal", session)[1])


def test_a_hold_says_that_waiting_reports_count(clinic):
    ledger = clinic.ledger
    ledger.reject(ledger.proposal(), by="Dr Vega", reason="later")
    known = known_of(clinic)._replace(holds=ledger.holds())
    (until,) = {holds.end_words(known, hold) for hold in known.holds.values()}
    assert until.endswith("133 waiting reports will count, too)")


# ---- what was given, and not learned yet ---------------------------------------------------------


def waiting_only(served):
    """A place and an action that only waiting reports have, and how many these are."""
    chart = served.ledger.chart()
    places = (chart.visits == 0) & (chart.waiting > 0) & chart.allowed
    assert places.any()
    h, x, a = next(
        one for one in np.argwhere(places).tolist() if chart.policy[0, one[0], one[1]] != one[2]
    )
    return h, x, a, int(chart.waiting[h, x, a])


def test_reports_that_wait_are_counted_beside_those_learned(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    chart, run = ledger.chart(), ledger.status()
    waiting = list(ledger.tickets("waiting"))
    counts = np.zeros_like(chart.waiting)
    for one in waiting:
        report = ledger.report_of(one.ticket)[1]
        states, actions = (ledger.terms.labels[kind] for kind in ("state", "action"))
        given = zip(report["states"], report["actions"], strict=False)
        for h, (x, a) in enumerate(given):
            counts[h, states.index(x), actions.index(a)] += 1
    assert len(waiting) == run.waiting > 0
    assert (chart.waiting == counts).all()
    h, x, a, n = waiting_only(clinic)
    assert ledger.row(h, x).actions[a]["waiting"] == n
    page = plain(clinic.page(f"/row?step={h}&state={x}", session)[1])
    assert f"Counted are the {run.told:,} patients learned so far." in page
    assert f"{run.waiting} more reports wait behind an open one and are not counted" in page
    assert f"0 and {n} report{'s wait' if n > 1 else ' waits'} not yet learned from" in page
    assert "never given" not in page
    text = clinic.page("/map?view=visits", session)[1]
    assert f"How many of the {run.told:,} patients learned so far were given" in plain(text)
    now = chart.policy[0]
    total = int(np.take_along_axis(chart.waiting, now[:, :, None], axis=2).sum())
    said = re.findall(r", and ([0-9,]+) times in reports that wait", text)
    assert sum(int(one.replace(",", "")) for one in said) == total


def test_nobody_consents_to_never_what_waiting_reports_have(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    h, x, a, n = waiting_only(clinic)
    names, now = ledger.terms.labels["action"], ledger.policy[0, h, x]
    veto = {"row": [f"{h}:{x}"], "action": names[now], "instead": names[a]}
    body = clinic.post("/forbid", session, **veto)[2].decode()
    page = plain(body)
    whose = "whose reports wait" if n > 1 else "whose report waits"
    given = f"given to {n} patient{'s' if n > 1 else ''} {whose}"
    where = phrases.place(ledger.terms, h, x)
    assert page.count(f"Not yet learned from: {names[a]} for {where}, {given}") == 2
    assert f"Not yet learned from; {given}" in page
    assert 'class="tag UNTRIED">not yet learned from<' in body
    assert "I know that no patient learned so far was given this there" in page
    assert "was ever given" not in page
    assert "ever tried" not in page


def test_a_trial_gives_for_the_first_time_only_what_no_report_has(clinic):
    ledger, terms = clinic.ledger, clinic.ledger.terms
    h, x, a, n = waiting_only(clinic)
    chart = ledger.chart()
    deployed = np.repeat(chart.policy[:1], len(chart.policy), axis=0)
    law = deployed.copy()
    law[1:, h, x] = a  # the trial gives this one alternative
    none = np.zeros_like(chart.waiting)
    for waits, first in ((none, terms.labels["step"][h]), (chart.waiting, "")):
        (one,) = phrases.alternatives(terms, law, chart.visits, deployed, waits)
        assert one["first"] == first
    assert one["given"] == f"0, and {n} more report{'s wait' if n > 1 else ' waits'}"


# ---- what is forbidden ---------------------------------------------------------------------------


def test_forbidding_says_where_protocol_and_trial_give_it_now(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    law, names = ledger.policy_of(8), ledger.terms.labels["action"]
    everywhere = plain(clinic.page("/forbid?rows=all", session)[1])
    for a, name in enumerate(names):
        own = law[0] == a
        tried = ((law == a) & ~own).any(axis=0)
        for said, n in (("by the protocol", int(own.sum())), ("in the trial", int(tried.sum()))):
            option = everywhere.partition(f"{name} (given now")[2].partition(")")[0]
            assert (f"{said} in {n} of {H * S} places" in option) == (n > 0)
    h, x = np.argwhere((law[1:] != law[0]).any(axis=0))[0].tolist()
    page = plain(clinic.page(f"/forbid?rows={h}:{x}", session)[1])
    assert f"{names[law[0, h, x]]} (given now by the protocol)" in page
    for a in {*law[:, h, x].tolist()} - {int(law[0, h, x])}:
        share = f"{100 * (law[:, h, x] == a).mean():.0f} % of new patients"
        assert f"{names[a]} (given now in the trial to {share})" in page


# ---- what was decided about a place --------------------------------------------------------------


def test_a_place_lists_every_decision_that_changed_it(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    law = ledger.policy_of(8)
    h, x = np.argwhere((law[1:] != law[0]).any(axis=0))[0].tolist()
    names = ledger.terms.labels["action"]
    now = phrases.plays_words([names[a] for a in law[:, h, x]], protocol=True)
    ledger.cap_trial(0, by="Dr Vega", reason="costs too much")
    asked = ledger.rollback(8, by="Ms Okafor", reason="too soon")
    for name in ("Dr Vega", "Dr Roth"):
        ledger.confirm(asked.number, by=name, reason="yes")
    page = plain(clinic.page(f"/row?step={h}&state={x}", session)[1]).partition("Decisions")[2]
    alone = names[law[0, h, x]]
    assert f"rolled back to version 8: {alone} → {now} Ms Okafor, Dr Vega and Dr Roth" in page
    assert f"ended the trial: {now} → {alone} Dr Vega" in page
    for number, _ in ledger.row(h, x).versions[1:]:
        assert page.count(clinic.service.journal.versions()[number - 1].facts["reason"]) > 0


def test_a_rollback_names_the_places_that_it_left_out(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    row = next(row for row in changes_of(ledger.proposal()) if row["to"][0] == 3)
    place = named([row])
    approve_better(ledger)
    back = ledger.version
    agree(ledger, ledger.forbid(place, ["surgery"], instead="drug B", by="Dr Vega", reason="harm"))
    ledger.cap_trial(0, by="Dr Vega", reason="costs too much")
    asked = ledger.rollback(back, by="Ms Okafor", reason="too soon")
    assert asked.decision["kept"] == [[row["step"], row["state"]]]
    for name in ("Dr Vega", "Dr Roth"):
        ledger.confirm(asked.number, by=name, reason="yes")
    where = phrases.place(ledger.terms, row["step"], row["state"])
    said = f"olled back to version {back}, except for {where}"
    for path in ("/timeline", "/audit", "/audit?kind=rolled_back"):
        assert said in plain(clinic.page(path, session)[1])
    wish = f"Roll back to version {back}, except for {where}"
    assert wish in plain(clinic.page("/audit?kind=seconded", session)[1])


# ---- small truths of the confirmations -----------------------------------------------------------


def all_agree(ledger, motion):
    for name in ("Dr Vega", "Dr Roth"):
        ledger.confirm(motion.number, by=name, reason="yes")


def test_ending_the_trial_in_a_pause_says_when_the_proposal_comes_again(clinic):
    ledger, vega, operator = clinic.ledger, clinic.login("Dr Vega"), clinic.login("Ms Okafor")
    assert "withdrawn and made again. That" in plain(clinic.post("/cap", vega, share="0")[2])
    ledger.freeze(by="Ms Okafor", reason="an alarm")
    resumes = plain(clinic.post("/thaw", operator)[2])
    assert "made again" not in resumes
    page = plain(clinic.post("/cap", vega, share="0")[2])
    assert "withdrawn and made again, once the run resumes. That" in page
    ledger.cap_trial(0, by="Dr Vega", reason="costs too much")
    assert ledger.proposal() is None
    page = plain(clinic.post("/thaw", operator)[2])
    said = "The proposal that was withdrawn in the pause is made again: Dr Vega ended the trial"
    assert said in page
    all_agree(ledger, ledger.thaw(by="Ms Okafor", reason="all is well"))
    assert ledger.proposal() is not None


def test_a_veto_that_was_lifted_is_no_longer_told_as_one(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    rows = [row for row in changes_of(ledger.proposal()) if row["to"][0] != 3]
    other = rows[-1]
    agree(ledger, ledger.forbid(named([other]), ["surgery"], by="Dr Vega", reason="harm"))
    told = f"Surgery was forbidden here on {time.strftime('%Y-%m-%d', time.gmtime())} by Dr Vega"
    page = plain(clinic.page("/proposal", session)[1])
    assert f"{told} and Dr Roth." in page
    assert "Allowed again since" not in page
    agree(ledger, ledger.lift(named([other]), ["surgery"], by="Dr Vega", reason="a wrong report"))
    page = plain(clinic.page("/proposal", session)[1])
    assert re.search(rf"{told} and Dr Roth\. Allowed again since, on [\d-]+, by Dr Vega", page)


def test_allowing_again_says_that_the_place_is_held(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    row, other = (changes_of(ledger.proposal())[i] for i in (0, -1))
    ledger.reject(ledger.proposal(), rows=named([row]), by="Dr Vega", reason="later")
    given = {int(ledger.policy[0, one["step"], one["state"]]) for one in (row, other)}
    name = next(name for a, name in enumerate(ledger.terms.labels["action"]) if a not in given)
    agree(ledger, ledger.forbid(named([row, other]), [name], by="Dr Vega", reason="harm"))
    page = plain(clinic.post("/lift", session, row=[key(row), key(other)], action=name)[2])
    where = phrases.place(ledger.terms, row["step"], row["state"])
    held = page.partition("Held back, so that nothing is proposed there until")[2]
    assert f"133 waiting reports will count, too): {where}." in held
    page = plain(clinic.post("/lift", session, row=[key(other)], action=name)[2])
    assert "Held back" not in page


def test_a_rollback_says_what_stays_allowed_and_how_much_is_held(clinic):
    ledger, operator = clinic.ledger, clinic.login("Ms Okafor")
    row = next(row for row in changes_of(ledger.proposal()) if row["to"][0] == 3)
    place, where = named([row]), phrases.place(ledger.terms, row["step"], row["state"])
    rows = ledger.proposal().rows
    differ = (ledger.policy_of(5) != ledger.policy).any(axis=0)
    n = sum(bool(differ[one["step"], one["state"]]) for one in rows)
    page = plain(clinic.post("/rollback", operator, version="5")[2])
    assert 1 < n < len(rows)
    assert f"{n} of its {len(rows)} places are held back after this. What it proposed else" in page
    approve_better(ledger)
    veto = ledger.forbid(place, ["surgery"], instead="drug B", by="Dr Vega", reason="infections")
    agree(ledger, veto)
    banned = ledger.version
    agree(ledger, ledger.lift(place, ["surgery"], by="Dr Vega", reason="a wrong report"))
    ledger.cap_trial(0, by="Dr Vega", reason="costs too much")
    said = f"Forbidden in version {banned}, and allowed since: surgery for {where}."
    page = plain(clinic.post("/rollback", operator, version=str(banned))[2])
    assert f"A rollback forbids nothing again. {said}" in page
    assert "allowed since" not in plain(clinic.post("/rollback", operator, version="9")[2])
    page = plain(clinic.post("/rollback", operator, version="8")[2])
    assert "All of its places are held back after this. The next proposal uses" in page
    all_agree(ledger, ledger.rollback(8, by="Ms Okafor", reason="too soon"))
    assert ledger.proposal() is None
    page = plain(clinic.page("/", operator)[1])
    assert "The pending proposal was withdrawn: Ms Okafor" in page
    assert "othing is due" not in page


def test_a_limit_is_remembered_after_the_trial_ended(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    asked = ledger.approve(
        ledger.proposal(), part="trial", share=0.05, by="Dr Vega", reason="smaller"
    )
    agree(ledger, asked)
    ledger.cap_trial(0, by="Dr Vega", reason="costs too much")
    if ledger.proposal() is None:
        ledger.propose(by="Ms Okafor", held=True)
    text = clinic.page("/proposal", session)[1]
    assert re.search(r'name="share"[^>]* value="5"', text)
    page = plain(text)
    assert "To approve the trial is to begin one again." in page
    assert "limited the trial to at most 5 % of new patients." in page
    assert "the numbers of the proposal, also on the status page, are those without it" in page


def test_decisions_about_other_places_do_not_contradict(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Roth")
    view = ledger.proposal()
    first, second, *_ = changes_of(view)
    ledger.approve(view, rows=named([first]), part="protocol", by="Dr Vega", reason="minutes 1")
    page = sheet_of(clinic, session, "postpone selected", row=[key(second)])
    assert "contradicts" not in page
    assert "If you confirm, Dr Vega's other request (approve 1 change" in page
    page = sheet_of(clinic, session, "postpone selected", row=[key(first)])
    assert "Dr Vega also asks for something that contradicts this" in page


def test_an_old_page_calls_its_reader_you(clinic):
    ledger, view = clinic.ledger, clinic.ledger.proposal()
    vega, roth = clinic.login("Dr Vega"), clinic.login("Dr Roth")
    given = {"proposal": view.hash, "decision": "approve all"}
    ledger.reject(view, by="Dr Roth", reason="later")
    assert "Meanwhile you postponed on" in plain(clinic.post("/decide", roth, **given)[2])
    assert "Meanwhile Dr Roth postponed on" in plain(clinic.post("/decide", vega, **given)[2])
