"""Every decision is bound to what was read, and the pages say the same of it everywhere."""

import itertools
import re
import urllib.parse
from types import SimpleNamespace

import numpy as np
import pytest
from test_service_console import SURE, TRIAL, WARD, enrol, key, plain, records

from lowswitch.ledger.events import KINDS
from lowswitch.policy.tables import departing
from lowswitch.service import (
    approvals,
    demo,
    display,
    effects,
    figures,
    phrases,
    proposals,
    reversals,
)
from served import Served


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The file of the demo, to be copied."""
    path = tmp_path_factory.mktemp("demo") / "run.db"
    demo.fill(path).close()
    return path


@pytest.fixture
def clinic(filled, tmp_path):
    """A copy of the demo with its two reviewers."""
    (tmp_path / "run.db").write_bytes(filled.read_bytes())
    with Served(tmp_path) as served:
        for name in ("Dr Vega", "Dr Roth"):
            served.tokens[name] = served.access.create(name=name, role="reviewer", days=1)
        yield served


def changes_of(view):
    return [row for row in view.rows if row["from"][0] != row["to"][0]]


def hidden(page, name):
    return re.search(rf'name="{name}" value="([^"]*)"', page)[1]


# ---- what was read is what happens ---------------------------------------------------------------


def test_an_agreement_on_an_old_page_is_not_taken(clinic):
    """A veto, an approval of what it forbids, and then the old page of the veto."""
    ledger, vega, roth = clinic.ledger, clinic.login("Dr Vega"), clinic.login("Dr Roth")
    view = ledger.proposal()
    row = next(row for row in changes_of(view) if row["to"][0] == 3)  # surgery
    veto = {"row": [key(row)], "action": "surgery"}
    unneeded = clinic.post("/forbid", vega, **veto, instead="drug A")
    assert unneeded[0] == 422
    assert "Surgery is not given there now, so drug A would replace nothing" in plain(unneeded[2])
    clinic.post("/forbid", vega, **veto, reason="interaction", **SURE)
    (motion,) = ledger.motions()
    old = clinic.post("/confirm", roth, motion=motion.number)[2].decode()
    asked = ledger.approve(view, by="the office's reviewer", reason="minutes")
    ledger.confirm(asked.number, by="Dr Vega", reason="yes")
    version = ledger.version
    assert ledger.policy[0, row["step"], row["state"]] == 3
    late = clinic.post(
        "/confirm", roth, motion=motion.number, reason="yes", read=hidden(old, "read"), **SURE
    )
    assert late[0] == 422
    assert "This request does not wait any more. It lapsed on" in plain(late[2])
    assert ledger.version == version


@pytest.mark.parametrize("quorum", [1, 2])
def test_a_page_that_was_overtaken_is_read_again(quorum, tmp_path):
    with Served(tmp_path, **WARD, quorum=quorum) as served:
        ledger, session = served.ledger, served.login("reviewer")
        veto = {"row": ["0:1"], "action": "watch", "instead": "drug"}
        old = served.post("/forbid", session, **veto)[2].decode()
        assert "watch → <b>drug</b>" in old
        ledger.forbid([(1, 1)], ["watch"], instead="surgery", by="Dr Vega", reason="harm")
        if quorum == 2:
            ledger.confirm(ledger.motions()[0].number, by="Dr Roth", reason="yes")
        assert ledger.version == 2
        before = ledger.status().events
        sent = {**veto, "reason": "harm", "consent": "1", **SURE}
        status, _, body = served.post("/forbid", session, **sent, read=hidden(old, "read"))
        assert status == 409
        assert "Nothing was done: this is no longer what you read" in plain(body)
        assert ledger.status().events == before
        assert served.post("/forbid", session, **sent, read="")[0] == 409  # nothing was read
        assert served.post("/forbid", session, **sent)[0] == 303


def test_a_veto_that_brings_something_never_given_is_ticked_and_has_its_evidence(clinic):
    ledger, vega = clinic.ledger, clinic.login("Dr Vega")
    now, visits = ledger.policy[0], ledger.chart().visits
    h, x, new = next(
        (h, x, a)
        for h, x, a in np.argwhere((visits == 0) & ledger.actions_allowed).tolist()
        if now[h, x] != a
    )
    names = ledger.terms.labels["action"]
    veto = {"row": [f"{h}:{x}"], "action": names[now[h, x]], "instead": names[new]}
    page = clinic.post("/forbid", vega, **veto)[2].decode()
    text = plain(page)
    assert f"{names[now[h, x]]} → {names[new]}" in text
    assert 'name="consent"' in page
    assert "that no patient learned so far was given there" in text
    (row,), worth = ledger.other_changes([(h, x, new)])
    assert f"Expected outside the trial: {phrases.gain_words(worth['protocol'], ledger.terms)}" in (
        text
    )
    gain = phrases.amount(row["gain"]["mean"], ledger.terms)
    assert all(column in text for column in ("Gain per 100 patients", "How sure", gain))
    assert f"{visits[h, x, now[h, x]]:,} → 0" in text
    sent = clinic.post("/forbid", vega, **veto, reason="harm", **SURE)
    assert (sent[0], "Tick the box" in plain(sent[2])) == (422, True)
    assert ledger.motions() == []


def test_a_veto_that_changes_the_protocol_says_so_on_the_timeline(clinic):
    ledger = clinic.ledger
    h, x = 0, 1
    names, old = ledger.terms.labels["action"], int(ledger.policy[0, h, x])
    new = next(a for a in range(3) if a != old and ledger.actions_allowed[h, x, a])
    asked = ledger.forbid([(h, x)], [old], instead=new, by="Dr Vega", reason="harm")
    ledger.confirm(asked.number, by="Dr Roth", reason="yes")
    decisions = plain(clinic.page("/timeline", clinic.login("Dr Vega"))[1]).partition("Decisions")[
        2
    ]
    assert f"Forbade {names[old]} and replaced it by {names[new]}" in decisions
    assert f"finding 2 (visit 1): {names[old]} → {names[new]}" in decisions
    asked = f"Forbid {names[old]} for finding 2, visit 1, and give {names[new]} instead"
    audit = plain(clinic.page("/audit?kind=decisions", clinic.login("Dr Vega"))[1])
    assert f"asked for this: {asked}" in audit


# ---- requests beside each other ------------------------------------------------------------------


def test_a_request_takes_the_place_of_an_earlier_one_that_it_contradicts(clinic):
    ledger, vega, roth = clinic.ledger, clinic.login("Dr Vega"), clinic.login("Dr Roth")
    view = ledger.proposal()
    rows = changes_of(view)
    some = {"proposal": view.hash, "row": [key(rows[0])], "decision": "approve selected"}
    clinic.post("/decide", vega, **some, reason="minutes 1", **SURE)
    (first,) = ledger.motions()
    everything = {"proposal": view.hash, "decision": "approve all"}
    page = plain(clinic.post("/decide", vega, **everything)[2])
    assert "You already asked for this: approve 1 change (minutes 1). Both cannot stand." in page
    theirs = plain(clinic.post("/decide", roth, **everything)[2])
    assert "Dr Vega also asks for something that contradicts this: approve 1 change." in theirs
    clinic.post("/decide", vega, **everything, reason="minutes 2", consent="1", **SURE)
    (second,) = ledger.motions()
    assert second.number != first.number
    assert second.decision["reason"] == "minutes 2"


def test_the_same_request_is_not_called_a_contradiction(clinic):
    ledger, vega, roth = clinic.ledger, clinic.login("Dr Vega"), clinic.login("Dr Roth")
    given = {"proposal": ledger.proposal().hash, "decision": "approve all"}
    clinic.post("/decide", vega, **given, reason="minutes 1", consent="1", **SURE)
    page = plain(clinic.post("/decide", vega, **given)[2])
    assert "You already asked for exactly this (minutes 1)" in page
    assert "cannot stand" not in page
    theirs = plain(clinic.post("/decide", roth, **given)[2])
    assert "Dr Vega already asks for exactly this. Go back and agree to that request" in theirs
    assert "contradicts" not in theirs


@pytest.mark.parametrize("same", [True, False])
def test_a_request_that_came_while_somebody_read_is_shown_first(clinic, same):
    ledger, vega, roth = clinic.ledger, clinic.login("Dr Vega"), clinic.login("Dr Roth")
    view = ledger.proposal()
    row = changes_of(view)[0]
    given = {"proposal": view.hash, "row": [key(row)], "decision": "approve selected"}
    read = hidden(clinic.post("/decide", roth, **given)[2].decode(), "read")
    if same:
        clinic.post("/decide", vega, **given, reason="mine", **SURE)
    else:
        veto = [(row["step_label"], row["state_label"])], list(row["proposed"]["law"])[:1]
        ledger.forbid(*veto, by="Dr Vega", reason="two deaths")
    sent = clinic.post("/decide", roth, **given, reason="minutes", **SURE | {"read": read})
    assert sent[0] == 409
    assert "something else was decided or asked for meanwhile" in plain(sent[2])
    assert [one.by for one in ledger.motions()] == ["Dr Vega"]
    clinic.post("/decide", roth, **given, reason="minutes", **SURE)
    assert len(ledger.motions()) == 2
    page = plain(clinic.page("/", vega)[1])
    assert ("Is the same as" if same else "Contradicts") + " Dr Roth's request: approve 1" in page
    assert "Waiting for reviewers" in page  # one of the two requests is her own
    assert "You agree already; 1 more reviewer must agree, too." in page


def test_a_late_agreement_says_what_became_of_the_request(clinic):
    ledger, vega, roth = clinic.ledger, clinic.login("Dr Vega"), clinic.login("Dr Roth")
    given = {"proposal": ledger.proposal().hash, "decision": "approve LIKELY"}
    clinic.post("/decide", vega, **given, reason="minutes 1", **SURE)
    (asked,) = ledger.motions()
    page = clinic.post("/confirm", roth, motion=asked.number)[2].decode()
    assert 'formaction="/decline"' in page  # who disagrees need not go back
    clinic.post("/confirm", roth, motion=asked.number, reason="yes", **SURE)
    late = plain(clinic.post("/confirm", roth, motion=asked.number, reason="again", **SURE)[2])
    assert "This request was carried out on" in late
    assert "Dr Vega and Dr Roth approved 9 changes" in late
    old = plain(clinic.post("/decide", vega, **given, reason="again", **SURE)[2])
    assert "Meanwhile you and Dr Roth approved 9 changes" in old
    assert given["proposal"][:8] not in old
    assert "again" in old  # what was typed is not lost
    sent = ledger.forbid([(0, 0)], ["drug B"], by="Dr Vega", reason="harm")
    clinic.post("/decline", roth, motion=sent.number, reason="no harm", **SURE)
    assert "You turned down this request: forbid drug B for" in plain(clinic.page("/", roth)[1])
    late = plain(clinic.post("/confirm", roth, motion=sent.number, reason="yes", **SURE)[2])
    assert "Dr Roth turned it down on" in late


def test_the_audit_says_of_a_part_with_the_trial_that_it_is_a_part(clinic):
    ledger, vega = clinic.ledger, clinic.login("Dr Vega")
    view = ledger.proposal()
    row = changes_of(view)[0]
    given = {"proposal": view.hash, "row": [key(row)], "decision": "approve both", "share": "10"}
    clinic.post("/decide", vega, **given, reason="minutes 1", **SURE)
    audit = plain(clinic.page("/audit?kind=decisions", vega)[1])
    where = f"{row['state_label']}, {row['step_label']}"
    assert (
        f"asked for this: Approve changes of the protocol for {where}, with the proposed trial for"
        " at most 10 % of new patients"
    ) in audit
    page = clinic.page("/audit?kind=decisions", vega)[1]
    shown = set(re.findall(r"<strong>([a-z ]+)</strong>", page))
    assert {"request", "approved", "rolled back"} <= shown
    assert not shown & {"reported", "enrolled", "declared missing", "proposal"}


def test_a_trial_that_was_ended_is_not_begun_again_unnoticed(clinic):
    ledger, vega = clinic.ledger, clinic.login("Dr Vega")
    okafor = clinic.login("operator")
    sent = clinic.post("/cap", okafor, share="0", reason="drug supply", **SURE)
    assert sent[0] == 303
    page = plain(clinic.page("/timeline", okafor)[1])
    assert "Done: end the trial. Version 9 is in use for new patients." in page
    page = plain(clinic.page("/proposal", vega)[1])
    assert "The learner made it again after the operator ended the trial." in page
    assert re.search(r"The operator ended the trial on [-\d: ]+ UTC \(“drug supply”\)\.", page)
    assert "No report was learned since: the data are the same." in page
    assert "To approve the trial is to begin one again." in page
    given = {"proposal": ledger.proposal().hash}
    begins = "This begins a trial again: the operator ended the trial on"
    assert begins in plain(clinic.post("/decide", vega, **given, decision="approve all")[2])
    page = plain(clinic.post("/decide", vega, **given, decision="approve protocol")[2])
    assert begins not in page
    assert "No trial is running, and none begins." in page


def test_a_reviewer_ends_the_trial_by_its_name(clinic):
    ledger, vega = clinic.ledger, clinic.login("Dr Vega")
    page = plain(clinic.page("/proposal", vega)[1])
    assert "End the trial, keep the present protocol" in page
    given = {"proposal": ledger.proposal().hash, "decision": "approve end"}
    page = clinic.post("/decide", vega, **given)[2].decode()
    assert "<h1>End the trial?</h1>" in page
    assert "To end it at once, without a second reviewer, use the status page." in page
    assert "The list of the trial differs" not in page
    clinic.post("/decide", vega, **given, reason="harm", **SURE)
    (asked,) = ledger.motions()
    assert (asked.decision["part"], asked.decision["share"]) == ("trial", 0.0)


def test_a_reviewer_ends_the_trial_of_a_paused_run(clinic):
    """Otherwise new patients would enter it between the resuming and the ending."""
    ledger, vega = clinic.ledger, clinic.login("Dr Vega")
    clinic.post("/freeze", vega, reason="harm")
    page = plain(clinic.page("/", vega)[1])
    assert "End the trial…" in page
    assert "You can end the trial without anybody's agreement." in page
    clinic.post("/cap", vega, share="0", reason="harm", **SURE)
    assert departing(ledger.deployed()[0]).mean() == 0
    assert "End the trial…" not in clinic.page("/", vega)[1]


def test_postponing_promises_no_trial_where_none_runs(clinic):
    ledger, vega = clinic.ledger, clinic.login("Dr Vega")

    def sheet():
        given = {"proposal": ledger.proposal().hash, "decision": "postpone all"}
        return clinic.post("/decide", vega, **given)[2].decode()

    assert "not adopted; the present trial goes on as it is." in sheet()
    clinic.post("/cap", vega, share="0", reason="harm", **SURE)
    assert "not adopted; no trial is running." in sheet()


def test_a_rollback_to_a_version_without_a_trial_says_so(clinic):
    sheet = clinic.post("/rollback", clinic.login("operator"), version=1)[2].decode()
    assert "Version 1 has no trial, so none runs." in sheet
    assert "runs again" not in sheet


def test_a_withdrawn_request_is_not_called_turned_down(clinic):
    ledger, vega, roth = clinic.ledger, clinic.login("Dr Vega"), clinic.login("Dr Roth")
    asked = ledger.approve(ledger.proposal(), by="Dr Vega", reason="minutes")
    clinic.post("/decline", vega, motion=asked.number, reason="wrong limit", **SURE)
    answer = clinic.post("/confirm", roth, motion=asked.number, reason="yes", **SURE)[2].decode()
    assert "Dr Vega withdrew it on" in answer
    assert "turned it down" not in answer


def test_a_reviewer_stops_the_trial_and_the_run_alone(clinic):
    """Two reviewers must agree on decisions here; whoever sees a danger need not wait for that."""
    ledger, vega = clinic.ledger, clinic.login("Dr Vega")
    page = plain(clinic.page("/", vega)[1])
    assert "Pause the run now" in page
    assert "End the trial…" in page
    assert (
        "You can pause the run and end the trial without anybody's agreement. Forbid a treatment ,"
        " to which 2 reviewers must agree"
    ) in page
    clinic.post("/cap", vega, share="0", reason="harm", **SURE)
    assert departing(ledger.deployed()[0]).mean() == 0
    clinic.post("/freeze", vega, reason="more harm")
    assert ledger.status().frozen
    stops = [one for one in ledger.events() if one.actor == "Dr Vega"][-2:]
    assert [(one.kind, one.role) for one in stops] == [
        ("capped", "reviewer"),
        ("frozen", "reviewer"),
    ]
    page = plain(clinic.page("/", vega)[1])
    assert "Only an operator can ask to resume it; your role is reviewer." in page
    assert "Ms Okafor acted last as an operator." in page
    assert clinic.post("/thaw", vega, reason="over", **SURE)[0] == 403
    page = plain(clinic.page("/", clinic.login("auditor"))[1])
    assert "Pause the run now" not in page


def test_a_rollback_that_begins_an_ended_trial_says_so(clinic):
    ledger, okafor = clinic.ledger, clinic.login("operator")
    before = ledger.version
    clinic.post("/cap", okafor, share="0", reason="drug supply", **SURE)
    page = plain(clinic.post("/rollback", okafor, version=str(before))[2])
    assert "This begins a trial again: the operator ended the trial on" in page
    page = plain(clinic.post("/rollback", okafor, version="1")[2])
    assert "begins a trial" not in page


def test_a_rollback_says_what_the_trial_newly_gives(clinic):
    """On the page of the person who asks, and on the card of those who must agree."""
    ledger, okafor = clinic.ledger, clinic.login("operator")
    (new,) = phrases.trial_lines(ledger.terms, ledger.deployed()[0], ledger.policy_of(7))
    assert new in plain(clinic.post("/rollback", okafor, version="7")[2]).replace("The t", "the t")
    clinic.post("/rollback", okafor, version="7", reason="harm", **SURE)
    lines = phrases.law_lines(
        ledger.terms, ledger.deployed()[0], ledger.policy_of(7), protocol=True
    )
    page = plain(clinic.page("/", clinic.login("Dr Vega"))[1])
    assert new in lines
    assert all(line in page for line in lines)


def test_a_change_that_is_postponed_says_what_the_trial_still_gives(clinic):
    ledger, vega = clinic.ledger, clinic.login("Dr Vega")
    given = phrases.given_in_trial(ledger.deployed()[0])
    view = ledger.proposal()
    row = next(
        row for row in changes_of(view) if (row["step"], row["state"], row["to"][0]) in given
    )
    here = {one for one in given if one[:2] == (row["step"], row["state"])}
    sent = {"proposal": view.hash, "decision": "postpone selected", "row": [key(row)]}
    page = plain(clinic.post("/decide", vega, **sent)[2])
    still = phrases.actions_words(ledger.terms, here)
    assert f"The present trial goes on as it is and still gives {still}." in page


def test_a_rollback_says_what_it_is_expected_to_cost(clinic):
    ledger = clinic.ledger
    okafor = clinic.login("operator")
    page = plain(clinic.post("/rollback", okafor, version="4")[2])
    now, then = ledger.deployed()[0][0], ledger.policy_of(4)[0]
    changes = [(h, x, int(then[h, x])) for h, x in np.argwhere(now != then).tolist()]
    rows, worth = ledger.other_changes(changes)
    gain = phrases.gain_words(worth["protocol"], ledger.terms)
    assert f"Expected outside the trial: {gain}." in page
    assert worth["protocol"]["mean"] < max(row["gain"]["mean"] for row in rows)
    assert "Pays only with" not in page
    assert "The trial gives for the first time:" in page


def test_a_trial_that_goes_on_gives_nothing_for_the_first_time(clinic):
    vega = clinic.login("Dr Vega")
    given = {"proposal": clinic.ledger.proposal().hash, "decision": "approve protocol"}
    page = plain(clinic.post("/decide", vega, **given)[2])
    assert "The trial stays as it is" in page
    assert "first time" not in page


def test_better_changes_go_with_those_that_are_likely_better():
    known = SimpleNamespace(
        protocol=False, terms=SimpleNamespace(word=lambda name: {"action": "treatment"}[name])
    )
    counts = dict.fromkeys(phrases.LABELS, 0) | {"IMPROVE": 4, "LIKELY": 7, "UNSURE": 4}
    options = dict(proposals._options(known, 15, counts, None))
    assert options["approve IMPROVE"] == "Approve only the 4 marked “better”"
    assert options["approve LIKELY"] == "Approve only the 11 marked “better” or “likely better”"


def test_resuming_says_which_version_goes_on(clinic):
    okafor = clinic.login("operator")
    clinic.post("/freeze", okafor, reason="infections")
    page = plain(clinic.post("/thaw", okafor)[2])
    assert "New patients follow version 8. 16 % of new patients enter its trial." in page


def test_an_approval_of_what_a_veto_forbids_is_warned_of(clinic):
    ledger, vega, roth = clinic.ledger, clinic.login("Dr Vega"), clinic.login("Dr Roth")
    view = ledger.proposal()
    row = next(row for row in changes_of(view) if row["to"][0] == 3)
    place = (row["step_label"], row["state_label"])
    ledger.forbid([place], ["surgery"], by="Dr Vega", reason="interaction")
    everything = {"proposal": view.hash, "decision": "approve all"}
    forbids = f"forbid surgery for {row['state_label']}, {row['step_label']}"
    page = plain(clinic.post("/decide", vega, **everything)[2])
    assert f"You already asked for this: {forbids} (interaction)." in page
    other = next(one for one in changes_of(view) if one["state"] != row["state"])
    some = {"proposal": view.hash, "row": [key(other)], "decision": "approve selected"}
    assert "You already asked" not in plain(clinic.post("/decide", vega, **some)[2])
    asked = ledger.approve(view, by="the reviewer", reason="minutes")
    agree = plain(clinic.post("/confirm", roth, motion=asked.number)[2])
    assert f"Dr Vega also asks for something that contradicts this: {forbids}." in agree
    assert "If you confirm, that request falls away." in agree
    ledger.confirm(asked.number, by="Dr Roth", reason="yes")
    assert ledger.motions() == []


def test_a_request_says_which_changes_and_is_withdrawn_by_its_own_person(clinic):
    ledger, vega, roth = clinic.ledger, clinic.login("Dr Vega"), clinic.login("Dr Roth")
    view = ledger.proposal()
    row = changes_of(view)[0]
    place = (row["step_label"], row["state_label"])
    asked = ledger.approve(view, rows=[place], part="protocol", by="Dr Vega", reason="minutes 1")
    names = ledger.terms.labels["action"]
    line = (
        f"{row['state_label']} ({row['step_label']}): {names[row['from'][0]]} →"
        f" {names[row['to'][0]]}"
    )
    card = plain(clinic.page("/", roth)[1])
    assert line in card
    assert "Turn down…" in card
    mine = clinic.page("/", vega)[1]
    assert "Withdraw…" in mine
    assert "Turn down…" not in mine
    sheet = plain(clinic.post("/decline", vega, motion=asked.number)[2])
    assert "Withdraw: Approve 1 change?" in sheet
    assert line[1:] in sheet
    clinic.post("/decline", roth, motion=asked.number, reason="not yet", **SURE)
    for path in ("/", "/proposal"):
        said = plain(clinic.page(path, vega)[1])
        assert "Approve 1 change" in said
        assert re.search(
            r"You asked for it .* \(minutes 1\)\. Dr Roth turned it down .*: not yet", said
        )
    ledger.approve(view, by="Dr Vega", reason="minutes 2")
    assert "turned it down" not in plain(clinic.page("/", vega)[1])  # she has gone on


def test_an_operator_withdraws_what_she_asked_for_and_nothing_else(clinic):
    ledger, okafor, vega = clinic.ledger, clinic.login("operator"), clinic.login("Dr Vega")
    asked = ledger.approve(ledger.proposal(), by="Dr Vega", reason="minutes 1")
    clinic.post("/rollback", okafor, version="7", reason="harm", **SURE)
    mine = next(one for one in ledger.motions() if one.by == "the operator")
    card = clinic.page("/", okafor)[1]
    assert card.count('action="/decline"') == 1
    sheet = clinic.post("/decline", okafor, motion=mine.number)[2].decode()
    assert "Withdraw: Roll back to version 7?" in sheet
    refused = clinic.post("/decline", okafor, motion=asked.number, reason="no", **SURE)
    assert refused[0] == 422
    assert "an operator can withdraw only their own requests" in plain(refused[2])
    clinic.post("/decline", okafor, motion=mine.number, reason="a mistake", **SURE)
    assert [one.number for one in ledger.motions()] == [asked.number]
    (event,) = ledger.newest(1, kind="declined")
    assert (event.actor, event.role) == ("the operator", "operator")
    page = plain(clinic.page("/timeline", vega)[1])
    assert "Withdrew the request: Roll back to version 7" in page
    assert ledger.verify(progress=False).whole


def test_who_asked_to_resume_is_not_told_to_resume(clinic):
    okafor = clinic.login("operator")
    clinic.post("/freeze", okafor, reason="two adverse events")
    page = plain(clinic.page("/", okafor)[1])
    assert "The run is paused. Resume it" in page
    assert "Nobody is enrolled while the run is paused. After that 16 % of new patients" in page
    clinic.post("/thaw", okafor, reason="cleared", **SURE)
    page = clinic.page("/", okafor)[1]
    assert "You asked to resume it, and 2 reviewers must agree." in page
    assert "Resume the run…" not in page
    assert "Resume it" not in page


def test_an_ended_trial_is_not_ended_again(clinic):
    okafor = clinic.login("operator")
    clinic.post("/cap", okafor, share="0", reason="drug supply", **SURE)
    status, _, body = clinic.post("/cap", okafor, share="0")
    assert status == 422
    said = "No trial is running: the operator ended the trial on"
    assert said in plain(body)
    assert "End the trial?" not in plain(body)


def test_a_treatment_that_is_ticked_beforehand_says_why(clinic):
    vega, row = clinic.login("Dr Vega"), changes_of(clinic.ledger.proposal())[0]
    name = clinic.ledger.terms.labels["action"][row["to"][0]]
    page = plain(clinic.page(f"/forbid?rows={key(row)}", vega)[1])
    given = r"(\(given now in the trial to \d+ % of new patients\) )?"
    assert re.search(rf"{name} {given}\(proposed here, so it is ticked\)", page)
    rest = {"row": [key(row)], "enter": "1"}
    again = plain(clinic.post("/forbid", vega, **rest)[2])
    assert re.search(rf"{name} {given}\(proposed here\)", again)


def test_an_agreement_says_what_took_effect_and_everybody_who_decided(clinic):
    ledger, roth = clinic.ledger, clinic.login("Dr Roth")
    asked = ledger.approve(ledger.proposal(), part="protocol", by="Dr Vega", reason="minutes")
    status, headers, _ = clinic.post("/confirm", roth, motion=asked.number, reason="yes", **SURE)
    assert status == 303
    page = plain(clinic.page(headers["location"], roth)[1])
    assert "You agreed, and it took effect: approve 16 changes. Version 9 is in use." in page
    assert re.search(r"by Dr Vega and Dr Roth: minutes", page)
    assert "with Dr Roth" in plain(clinic.page("/audit?kind=approved", roth)[1])


# ---- a trial that ends, and one that is not the one on the card ----------------------------------


def test_the_end_of_a_trial_is_called_so_before_it_is_chosen():
    for changes, trial, title in (
        (1, {"new": 0.0, "now": 0.1}, "1 change of the protocol, and the end of the trial"),
        (0, {"new": 0.0, "now": 0.1}, "The end of the trial"),
        (2, {"new": 0.1, "now": 0.1}, "2 changes of the protocol and a trial"),
        (2, None, "2 changes of the protocol"),
    ):
        assert proposals.title(changes, trial) == title


def test_options_say_what_becomes_of_the_trial(clinic):
    known = known_of(clinic)
    counts = dict.fromkeys(phrases.LABELS, 0) | {"LIKELY": 1}
    ends = dict(proposals._options(known, 2, counts, {"new": 0.0, "now": 0.16}))
    assert ends["approve all"] == "Approve 2 changes and end the trial"
    assert ends["approve trial"] == "End the trial, keep the present protocol"
    assert ends["approve both"] == "Approve the selected changes and end the trial"
    goes_on = dict(proposals._options(known, 2, counts, {"new": 0.1, "now": 0.16}))
    assert goes_on["approve LIKELY"].endswith("marked “likely better”, keep the present trial")
    assert goes_on["approve both"] == "Approve the selected changes and the proposed trial"


def known_of(served):
    ledger = served.ledger
    policies, protocol = ledger.deployed()
    return effects.Known(
        ledger.terms, ledger.status(), ledger.proposal(), policies, protocol, ledger.chart().visits
    )


def test_the_trial_alone_says_how_it_differs_from_the_proposal_page(clinic):
    session, known = clinic.login("Dr Vega"), known_of(clinic)
    whole = effects.whole(known.view)
    here, there = (
        phrases.given_in_trial(effects.law_after(known, whole | part))
        for part in ({"part": "trial"}, {})
    )
    assert here != there
    given = {"proposal": known.view.hash, "decision": "approve trial"}
    page = plain(clinic.post("/decide", session, **given)[2])
    assert "differs from the proposal page, because the protocol stays" in page
    assert f"Only here: {phrases.actions_words(known.terms, here - there)}." in page
    both = plain(clinic.page("/proposal", session)[1])
    assert "If you approve the trial and keep the present protocol, the list is another one" in both


def test_a_part_of_the_changes_says_how_its_trial_differs_from_the_proposal_page(clinic):
    known = known_of(clinic)
    some = {"rows": effects.whole(known.view)["rows"][:1]}
    here, there = (
        phrases.given_in_trial(effects.law_after(known, one))
        for one in (some, effects.whole(known.view))
    )
    assert here != there
    said, *sides = approvals._other_trial(known, some)
    assert "some changes stay undecided, where the present trial goes on" in said
    assert [one.partition(":")[0] for one in sides] == ["Only here", "Only on the proposal page"]
    assert approvals._other_trial(known, effects.whole(known.view)) == []


def test_a_veto_says_what_the_trial_still_gives(clinic):
    known = known_of(clinic)
    given = phrases.given_in_trial(known.policies)
    h, x = next((h, x) for h, x, _ in sorted(given) if sum(one[:2] == (h, x) for one in given) > 1)
    actions = sorted(one[2] for one in given if one[:2] == (h, x))
    sheet = reversals.vetoed(known, {"rows": [[h, x]], "actions": actions[:1]})
    assert any(line.startswith("In these places the trial still gives ") for line in sheet.lines)
    every = reversals.vetoed(known, {"rows": [[h, x]], "actions": actions})
    assert not any("the trial still gives " in line for line in every.lines)


def test_a_veto_of_the_protocol_says_what_the_trial_still_gives_there(clinic):
    known = known_of(clinic)
    h, x, tried = sorted(phrases.given_in_trial(known.policies))[0]
    old = int(known.policies[0, h, x])
    new = next(a for a in range(4) if a not in (old, tried))
    veto = {"rows": [[h, x]], "actions": [old], "instead": new}
    sheet = reversals.vetoed(known, veto)
    name = known.terms.labels["action"][tried]
    said = f"In these places the trial still gives {name} for"
    assert any(line.startswith(said) for line in sheet.lines)
    assert any(line.endswith(". Elsewhere it goes on as it is.") for line in sheet.lines)


def test_a_trial_with_the_same_alternatives_is_not_called_another_one(clinic):
    known = known_of(clinic)
    before = known.policies
    h, x = np.argwhere((before == before[0]).all(axis=0))[0]
    after = before.copy()
    after[:, h, x] = (before[0, h, x] + 1) % 4
    (said,) = phrases.trial_lines(known.terms, before, after)
    assert said.endswith("% of new patients as before, with the same alternatives")


def test_selected_changes_go_with_the_proposed_trial(clinic):
    ledger, session, known = clinic.ledger, clinic.login("Dr Vega"), known_of(clinic)
    view, row = known.view, changes_of(known.view)[0]
    given = {"proposal": view.hash, "row": [key(row)], "decision": "approve both"}
    page = plain(clinic.post("/decide", session, **given)[2])
    assert "Approve 1 change and the trial" in page
    clinic.post("/decide", session, **given, reason="minutes", consent="1", **SURE)
    ledger.confirm(ledger.motions()[0].number, by="Dr Roth", reason="yes")
    law, whole = ledger.policy, effects.law_after(known, effects.whole(view))
    assert np.argwhere(law[0] != known.policies[0]).tolist() == [[row["step"], row["state"]]]
    assert departing(law).mean() <= departing(whole).mean()
    same = [one for one in view.rows if one["from"][0] == one["to"][0]]
    in_trial = departing(law) & departing(whole)
    assert in_trial.any()
    assert all(
        (
            law[in_trial, one["step"], one["state"]] == whole[in_trial, one["step"], one["state"]]
        ).all()
        for one in same
    )


def test_a_smaller_trial_says_which_alternatives_stop(clinic):
    session, known = clinic.login("Dr Vega"), known_of(clinic)
    row = changes_of(known.view)[0]
    given = {"proposal": known.view.hash, "row": [key(row)], "decision": "approve selected"}
    page = plain(clinic.post("/decide", session, **given, share="5")[2])
    decision = {"rows": [[row["step"], row["state"]]], "part": "protocol"}
    gone = effects.stopped(known.policies, effects.law_after(known, decision | {"share": 0.05}))
    assert gone
    words = phrases.actions_words(known.terms, gone)
    assert "% leaves room for 1; the other 4 stop." in page
    assert f"The trial of today gives this, and nobody will: {words}." in page
    assert "otherwise as it is" not in page


def test_a_limit_of_the_board_is_filled_in_and_kept(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        ledger, session = served.ledger, served.login("reviewer")
        ledger.approve(records(ledger), share=0.07, by="Dr Vega", reason="minutes")
        generator = np.random.default_rng(5)
        for _ in range(60):
            number = ledger.status().issued + 1
            issued = ledger.ask("north", f"p {number}")
            states = generator.integers(0, 3, 2).tolist()
            actions = [issued.policy[h][states[h]] for h in range(2)]
            ledger.tell(issued.ticket, states, actions, (generator.random(2) < 0.5).astype(float))
        view = ledger.propose(by="office")
        page = served.page("/proposal", session)[1]
        assert "Dr Vega limited the trial to at most 7 %" in page
        assert hidden(page, "kept_share") == "7"
        assert re.search(r'name="share"[^>]* value="7"', page)
        given = {"proposal": view.hash, "decision": "postpone all", "kept_share": "7"}
        assert served.post("/decide", session, **given, share="7")[0] == 200  # nobody typed it
        assert served.post("/decide", session, **given, share="8")[0] == 422
        again = served.post("/decide", session, **given, share="", show="group=step")[2].decode()
        assert re.search(r'name="share"[^>]* value=""', again)  # it was emptied


# ---- one account of the evidence -----------------------------------------------------------------


def test_the_page_of_a_place_has_the_numbers_of_the_proposal(clinic):
    session = clinic.login("Dr Vega")
    row = changes_of(clinic.ledger.proposal())[0]
    page = plain(clinic.page(f"/row?step={row['step']}&state={row['state']}", session)[1])
    gain = phrases.amount(row["gain"]["mean"], clinic.ledger.terms)
    first = page.partition("What was seen in this very place")[0]
    assert "What the pending proposal says of this place" in first
    assert gain in first
    assert f"{row['now']['visits']:,} → {row['proposed']['visits']:,}" in first
    assert "Each line uses only the patients who were given that very treatment" in page


def test_a_word_that_changed_without_data_says_why(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    view = ledger.proposal()
    row = changes_of(view)[0]
    ledger.reject(view, rows=[(row["step_label"], row["state_label"])], by="Dr Vega", reason="no")
    ledger.reject(ledger.proposal(), by="Dr Vega", reason="later")
    assert ledger.propose(by="Ms Okafor") is None  # everything is held
    again = ledger.propose(by="Ms Okafor", held=True)
    assert again.told == view.told
    text = plain(clinic.page("/proposal", session)[1])
    card = text.partition("New since the proposal before")[2]
    assert "Ms Okafor asked for a proposal also for" in card
    assert "No report was learned since: the data are the same." in card
    old = {(one["step"], one["state"]): one for one in ledger.proposal_of(view.hash).rows}
    judged = [
        one
        for one in changes_of(again)
        if (one["step"], one["state"]) in old
        and old[one["step"], one["state"]]["verdict"] != one["verdict"]
    ]
    for one in judged:
        assert "No new data led to that" in card, one
    assert "Almost certainly" not in text
    meaning = phrases.meaning("IMPROVE", ledger.terms)
    assert "Among 100 changes with this word, the model expects at most 5 to be wrong." in meaning


def test_few_patients_are_marked(clinic):
    session = clinic.login("Dr Vega")
    page = plain(clinic.page("/proposal", session)[1])
    rows = changes_of(clinic.ledger.proposal())
    few = [row for row in rows if 0 < row["proposed"]["visits"] < 20]
    assert few
    assert page.count("only ") >= len(few)
    for row in few:
        assert f"→ {row['proposed']['visits']} only {row['proposed']['visits']} patient" in page


def test_a_row_says_who_chose_what_it_plays_now(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        ledger, session = served.ledger, served.login("reviewer")
        ledger.approve(records(ledger), by="Dr Vega", reason="minutes")
        given = int(ledger.policy[0, 0, 1])
        assert given == 2
        enrol(ledger, 90)  # and nobody fares well any more
        view = ledger.propose(by="office")
        row = next(one for one in changes_of(view) if (one["step"], one["state"]) == (0, 1))
        page = plain(served.page("/proposal", session)[1])
        assert "Dr Vega chose surgery instead of watch here on" in page
        back = "This change takes that back." in page
        assert back == any(one["to"][0] == 0 and one["from"][0] == 2 for one in changes_of(view))
        assert row["from"][0] == 2


def test_the_map_counts_changes_of_the_protocol_and_names_its_numbers(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    tables = [ledger.policy_of(version)[0] for version in range(1, ledger.version + 1)]
    changed = sum((a != b).astype(int) for a, b in itertools.pairwise(tables))
    assert (ledger.chart().changes == changed).all()
    assert "Half of the 95 % interval" in plain(clinic.page("/map?view=width", session)[1])


# ---- the same numbers, and pages that can be left and come back to -------------------------------


def test_the_confirmation_counts_in_the_same_patients_as_the_proposal(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        ledger, session = served.ledger, served.login("reviewer")
        view = records(ledger)
        ledger.ask("north", "open")
        enrol(ledger, 3)
        assert "4 patients of 4" in plain(served.page("/proposal", session)[1])
        page = plain(served.post("/decide", session, proposal=view.hash, decision="approve all")[2])
        assert (
            "4 patients are not counted in: 1 report is open and 3 wait behind an open one." in page
        )


def test_ticks_that_a_decision_ignores_are_said(clinic):
    session, view = clinic.login("Dr Vega"), clinic.ledger.proposal()
    given = {"proposal": view.hash, "row": [key(changes_of(view)[0])], "decision": "approve all"}
    page = plain(clinic.post("/decide", session, **given)[2])
    assert "You ticked 1 change. This decision ignores the ticks." in page


def test_a_form_leads_to_a_page_with_an_address(clinic):
    cookie, form = clinic.login("Dr Vega")
    view = clinic.ledger.proposal()

    def sent(**fields):
        body = urllib.parse.urlencode({"form": form, "proposal": view.hash, **fields}, doseq=True)
        headers = clinic.form_headers(cookie)
        return clinic.request("POST", "/decide", body.encode(), headers=headers)

    status, headers, _ = sent(decision="approve all")
    assert status == 303
    for _ in range(2):  # going back to it sends nothing
        page = clinic.page(headers["location"], (cookie, form))[1]
        assert "Nothing has happened yet" in page
    status, headers, _ = sent(decision="", show="group=step")
    assert (status, headers["location"].endswith("#changes")) == (303, True)
    status, headers, _ = sent(decision="approve selected")
    assert status == 303
    assert clinic.page(headers["location"], (cookie, form))[0] == 422
    gone = clinic.request("GET", "/shown?page=none", headers={"Cookie": cookie})
    assert (gone[0], gone[1]["location"]) == (303, "/")
    assert "no longer kept" in plain(clinic.page("/", (cookie, form))[1])
    other = clinic.login("Dr Roth")
    stranger = clinic.request("GET", headers["location"], headers={"Cookie": other[0]})
    assert stranger[0] == 303  # a page is its person's own


def test_enter_in_the_search_searches(clinic):
    session, view = clinic.login("Dr Vega"), clinic.ledger.proposal()
    sent = {"proposal": view.hash, "enter": "1", "search": "finding 5", "searched": ""}
    page = clinic.post("/decide", session, **sent)[2].decode()
    found = sum(row["state_label"] == "finding 5" for row in changes_of(view))
    assert len(re.findall(r'type="checkbox" name="row"', page)) == found
    assert "Nothing was done yet" not in page
    again = clinic.post("/decide", session, **sent | {"searched": "finding 5"})[2].decode()
    assert "Nothing was done yet" in again


def test_an_old_form_says_what_happened_meanwhile(clinic):
    ledger, session = clinic.ledger, clinic.login("Dr Vega")
    view = ledger.proposal()
    given = {"proposal": view.hash, "row": [key(changes_of(view)[0])]}
    ledger.reject(view, by="Dr Roth", reason="more data first")
    page = clinic.post("/decide", session, **given, decision="approve selected")[2].decode()
    assert "No proposal is pending" in page
    assert "so your form was not used. Meanwhile Dr Roth postponed on" in plain(page)


def test_a_lifting_says_who_forbade_it_and_why(clinic):
    session = clinic.login("Dr Vega")
    page = plain(clinic.post("/lift", session, row="0:2", action="surgery")[2])
    assert re.search(r"Dr Vega and Dr Roth forbade it on [\d-]+: interaction\.", page)


# ---- words ---------------------------------------------------------------------------------------


def test_every_kind_of_event_has_a_word_for_people():
    words = [display.kind_word(kind) for kind in KINDS]
    assert all(words)
    assert len({*words}) == len(words)


def test_an_interval_of_a_loss_is_said_without_signs():
    terms = type("Terms", (), {"rewards": (0, 1), "word": lambda _, kind: "good outcomes"})()
    for ends, said in (
        ([-0.062, 0.0], "between 0.0 and 6.2 fewer"),
        ([-0.062, -0.01], "between 1.0 and 6.2 fewer"),
        ([0.0, 0.02], "between 0.0 and 2.0 more"),
        ([-0.01, 0.02], "between 1.0 fewer and 2.0 more"),
    ):
        assert phrases.between({"within_80": ends}, terms) == f"80 % interval: {said}"


def test_a_loss_is_said_to_be_sure_and_not_a_gain_to_be_unsure(clinic):
    gain = {"mean": -0.05, "within_80": [-0.08, -0.01], "better": 0.03}
    said = phrases.gain_words(gain, clinic.ledger.terms)
    assert said.endswith("the learner's model is 97 % sure that this is not an improvement")
    said = phrases.gain_words(gain | {"better": 0.5}, clinic.ledger.terms)
    assert said.endswith("50 % sure that this is an improvement")


def test_letters_of_a_figure_stand_apart_and_inside():
    spans = [figures.Span(1, 100, figures.Interval("version 1", 1.0, 0.1), False, 1)]
    signs = [(20, "A"), (98, "A"), (99, "V"), (100, "L")]
    drawn = str(figures.story(spans, signs, 100))
    pattern = r'<text x="([\d.]+)" y="([\d.]+)" class="sign"[^>]*>(.)<'
    found = [(float(x), float(y), one) for x, y, one in re.findall(pattern, drawn)]
    assert [one for _, _, one in found] == ["A", "A", "V", "L"]
    assert [y for _, y, _ in found] == [12, 12, 25, 38]  # those that are close, one below the other
    assert max(x for x, _, _ in found) <= 640 - 4.5
    assert ">1</text>" in drawn
    crowd = [(100, letter) for letter in "AVLPREAVLA"]
    drawn = str(figures.story(spans, crowd, 100))
    assert [one[2] for one in re.findall(pattern, drawn)] == list("AVLPREA")
    assert drawn.count('class="sign"') == 8
    assert ">+3</text>" in drawn
