"""A console on which nothing is decided by mistake, overlooked or lost."""

import re
import threading
from asyncio import run_coroutine_threadsafe
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest

import browser
import lowswitch as ls
from lowswitch.policy.tables import departing
from lowswitch.service import demo, display, phrases, proposals
from lowswitch.service.precedents import Precedents
from lowswitch.service.steps import proposed_of
from served import Served, wait_for

SURE = {"sure": "1", "confirming": "1"}
WARD = {
    "algorithm": ls.psrl(schedule="asked"),
    "horizon": 2,
    "states": ["well", "ill", "bad"],
    "actions": ["watch", "drug", "surgery"],
    "steps": ["visit 1", "visit 2"],
    "words": {"episode": "patient", "step": "visit", "state": "finding", "action": "treatment"},
    "policy": np.zeros((2, 3), dtype=int),
    "episodes": 500,
}
WHICH = ("protocol", "change")  # gains: outside the trial, and over all cases
TRIAL = WARD | {"algorithm": ls.few(deployments=10, asked=True, trial=0.25, members=16)}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """The demo, which nobody here decides on."""
    folder = tmp_path_factory.mktemp("clinic")
    demo.fill(folder / "run.db").close()
    with Served(folder) as served:
        yield served


def enrol(ledger, patients, reward=0.0, actions=None):
    """Patients of a site, all of whom fare alike."""
    for _ in range(patients):
        number = ledger.status().issued + 1
        issued = ledger.ask("north", f"patient {number}")
        given = None if actions is None else [actions] * 2
        ledger.tell(issued.ticket, [number % 3] * 2, given, [reward] * 2)


def records(ledger, patients=40):
    """A proposal from records in which surgery is better for everybody, with a trial."""
    generator = np.random.default_rng(0)
    states, actions = (generator.integers(0, 3, (patients, 2)) for _ in range(2))
    rewards = np.where(actions == 2, 0.9, 0.1)
    how = {"source": "records", "most": patients, "by": "office", "attested": "by finding alone"}
    return ledger.add_history(states.tolist(), actions.tolist(), rewards.tolist(), **how)


def plain(body):
    """The words of a page."""
    text = body if isinstance(body, str) else body.decode()
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", text.partition("<main")[2])))


def key(row):
    return f"{row['step']}:{row['state']}"


def in_trial(ledger):
    return float(departing(ledger.deployed()[0]).mean())


def expected_gain(sheet):
    return re.search(r"<li>Expected outside the trial: (.*?)</li>", sheet)[1]


# ---- nothing by mistake --------------------------------------------------------------------------


def test_what_was_never_given_is_confirmed_by_itself(tmp_path):
    with Served(tmp_path, **WARD) as served:
        ledger, session = served.ledger, served.login("reviewer")
        enrol(ledger, 12)  # everybody is watched, and nobody fares well
        view = ledger.propose(by="office")
        new = [row for row in view.rows if row["untried"]]
        assert new
        page = served.page("/proposal", session)[1]
        assert "something that no patient learned so far was given there" in page
        given = {"proposal": view.hash, "row": [key(new[0])], "decision": "approve selected"}
        sheet = served.post("/decide", session, **given)[2].decode()
        name, where = next(iter(new[0]["untried"])), new[0]["state_label"]
        assert f"{name} instead of watch for {where} ({new[0]['step_label']})" in sheet
        assert 'name="consent"' in sheet
        status, _, body = served.post("/decide", session, **given, reason="minutes", **SURE)
        assert (status, "Tick the box" in body.decode()) == (422, True)
        assert 'value="minutes"' in body.decode()
        assert ledger.version == 1
        sure = {"reason": "minutes", "consent": "1", **SURE}
        assert served.post("/decide", session, **given, **sure)[0] == 303
        assert ledger.version == 2


def test_a_change_that_was_tried_needs_no_box(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        view, session = records(served.ledger), served.login("reviewer")
        assert not any(row["untried"] for row in view.rows)
        given = {"proposal": view.hash, "decision": "approve all"}
        assert 'name="consent"' not in served.post("/decide", session, **given)[2].decode()


def test_a_confirmation_says_what_the_trial_gives_to_whom(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        view, session = records(served.ledger), served.login("reviewer")
        row, others = next(
            (row, {*row["to"]} - {row["to"][0]}) for row in view.rows if len({*row["to"]}) > 1
        )
        given = {"proposal": view.hash, "decision": "approve all"}
        for said in (
            served.page("/proposal", session)[1],
            served.post("/decide", session, **given)[2].decode(),
        ):
            assert "Who gets what in the trial" in said
            table = said.partition("Who gets what in the trial")[2]
            assert row["state_label"] in table
            for action in others:
                assert f"<b>{WARD['actions'][action]}</b>" in table
        given["decision"] = "approve protocol"
        assert "Who gets what" not in served.post("/decide", session, **given)[2].decode()
        given |= {"decision": "approve trial", "share": "7"}
        sheet = served.post("/decide", session, **given)[2].decode()
        assert "6 % of new patients, drawn by lot, enter the trial" in sheet  # one of 16 tables


# ---- the limit of a trial ------------------------------------------------------------------------


def limited(served, session, view, decision, share, **more):
    """The page on which a decision with a limit is confirmed."""
    given = {"proposal": view.hash, "decision": decision, "share": share, **more}
    status, _, body = served.post("/decide", session, **given)
    return status, body.decode(), given


def test_a_limit_of_nothing_ends_the_trial_and_is_called_so_everywhere(tmp_path):
    with Served(tmp_path, **TRIAL, quorum=2) as served:
        ledger, session = served.ledger, served.login("reviewer")
        view = records(ledger)
        ledger.approve(view, by="the reviewer", reason="begin")
        ledger.confirm(ledger.motions()[0].number, by="Dr Roth", reason="yes")
        assert ledger.status().version == 2
        enrol(ledger, 12, reward=0.9)
        view = ledger.propose(by="office")
        status, text, given = limited(served, session, view, "approve trial", "0")
        assert status == 200
        assert "<h1>End the trial?</h1>" in text
        assert "Approve the trial" not in text
        served.post("/decide", session, **given, reason="minutes", **SURE)
        (motion,) = ledger.motions()
        served.tokens["second"] = served.access.create(name="Dr Roth", role="reviewer", days=1)
        second = served.login("second")
        assert "<strong>End the trial</strong>" in served.page("/proposal", second)[1]
        sheet = served.post("/confirm", second, motion=motion.number)[2].decode()
        assert "Agree: end the trial" in sheet
        assert "asked for this: End the trial" in served.page("/audit?kind=requested", second)[1]
        served.post("/confirm", second, motion=motion.number, reason="yes", **SURE)
        for path in ("/timeline", "/audit?kind=approved"):
            assert "nded the trial" in served.page(path, second)[1]
        assert in_trial(ledger) == 0


def test_a_limit_that_cannot_be_met_is_said_before_confirming(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        view, session = records(served.ledger), served.login("reviewer")
        text = limited(served, session, view, "approve all", "10")[1]
        assert (
            "The proposed trial has 4 groups, each with 6.2 % of new patients. The limit of 10 %"
            " leaves room for 1; the other 3 do not begin." in text
        )
        assert re.search(
            r"<h1>Approve \d changes and the trial for 6 % of new patients\?</h1>", text
        )
        assert "The limit" not in limited(served, session, view, "approve all", "")[1]
        assert (
            "changes nothing: the trial has 25 %"
            in limited(served, session, view, "approve all", "40")[1]
        )
        status, text, _ = limited(served, session, view, "approve trial", "5")
        assert status == 422
        assert "A limit of 5 % would leave nobody in the trial" in text
        assert "Type at least 6.3, or type 0 to end the trial" in text
        assert 'value="5"' in text


def test_a_limit_beside_every_choice_is_used_or_refused(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        ledger, session = served.ledger, served.login("reviewer")
        view = records(ledger)
        for decision in ("postpone all", "postpone selected", "forbid selected", "approve end"):
            row = key(view.rows[0])
            status, text, _ = limited(served, session, view, decision, "7", row=[row])
            assert (status, "Your limit of 7 for the trial goes with" in text) == (422, True)
        ledger.approve(view, part="trial", by="board", reason="a trial first")
        assert in_trial(ledger) == 0.25
        enrol(ledger, 12, reward=0.9)
        view = ledger.propose(by="office")
        row = next(row for row in view.rows if row["from"][0] != row["to"][0])
        status, text, given = limited(
            served, session, view, "approve selected", "7", row=[key(row)]
        )
        assert "Approve 1 change and limit the trial to 6 % of new patients?" in text
        assert "6 % of new patients enter the present trial (now 25 %)" in text
        status, _, body = served.post(
            "/decide", session, **given, reason="minutes", consent="1", **SURE
        )
        assert status == 303, body
        assert in_trial(ledger) == 1 / 16
        assert ledger.policy_of(3)[0, row["step"], row["state"]] == row["to"][0]


# ---- rollback ------------------------------------------------------------------------------------


def test_a_rollback_keeps_what_a_veto_forbids_out_and_restores_the_rest(tmp_path):
    with Served(tmp_path, **WARD) as served:
        ledger, session = served.ledger, served.login("operator")
        view = records(ledger)
        ledger.approve(view, by="board", reason="yes")
        h, x = view.rows[0]["step"], view.rows[0]["state"]
        given = int(ledger.policy_of(2)[0, h, x])
        ledger.forbid([(h, x)], [given], instead=1, by="board", reason="harm")
        text = plain(served.post("/rollback", session, version=2)[2])  # but for the veto, it is 3
        assert "Version 2 is already deployed, except for what was forbidden since." in text
        ledger.rollback(1, by="office", reason="an alarm")
        served.post("/freeze", session, reason="an alarm")
        assert "It is still possible to forbid treatments, to put an earlier version back" in plain(
            served.page("/", session)[1].encode()
        )
        place = f"{WARD['states'][x]}, {WARD['steps'][h]}"
        text = plain(served.post("/rollback", session, version=2)[2])
        assert "Roll back to version 2, except in 1 place?" in text
        now = WARD["actions"][int(ledger.policy[0, h, x])]
        assert f"so the protocol gives there: {now} for {place}. Everything else is" in text
        before = ledger.policy.copy()
        status = served.post("/rollback", session, version=2, reason="now", **SURE)[0]
        assert status == 303
        after, wanted = ledger.policy, ledger.policy_of(2).copy()
        wanted[:, h, x] = before[:, h, x]
        assert (after == wanted).all()
        assert (after != before).any()
        (event,) = ledger.newest(1, kind="rolled_back")
        assert event.payload["kept"] == [[h, x]]
        assert ledger.verify(progress=False).whole


# ---- what a decision leaves out ------------------------------------------------------------------


def test_the_trial_alone_says_what_becomes_of_the_changes(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        view, session = records(served.ledger), served.login("reviewer")
        n = sum(row["from"][0] != row["to"][0] for row in view.rows)
        text = limited(served, session, view, "approve trial", "")[1]
        assert (
            f"The {n} proposed changes of the protocol are not adopted and no longer wait" in text
        )
        assert "which uses one of the 9 proposals left" in text
        assert "no longer wait" not in limited(served, session, view, "approve all", "")[1]


def test_what_was_postponed_is_counted_alike_and_not_called_rejected(tmp_path):
    demo.fill(tmp_path / "run.db").close()
    with Served(tmp_path) as served:
        ledger, session = served.ledger, served.login("reviewer")
        view = ledger.proposal()
        changes = [row for row in view.rows if row["from"][0] != row["to"][0]]
        assert len(changes) < len(view.rows)
        _, text, given = limited(served, session, view, "postpone all", "")
        assert "The proposed trial is not adopted" in text
        assert "After that a proposal can contain the same changes again" in text
        assert "by your decision alone: a reviewer may postpone" in text  # two approve
        served.post("/decide", session, **given, reason="minutes 9", **SURE)
        assert ledger.proposal() is None
        assert served.page("/map", session)[1].count("<sup>H</sup>") == len(view.rows) + 1
        audit = served.page("/audit?kind=rejected&search=minutes 9".replace(" ", "+"), session)[1]
        (said,) = re.findall(r'<div class="small">(finding.*?)</div>', audit)
        assert said.endswith("the proposed trial")
        assert said.count("finding") == len({row["state"] for row in changes})
        for path in ("/", "/proposal", "/timeline"):
            page = served.page(path, session)[1]
            assert f"{len(view.rows)} rows" not in page
            assert "reject" not in page.partition("<main")[2]
        late = served.post("/decide", session, **given, reason="again", **SURE)[2].decode()
        assert "Meanwhile you postponed on" in late


def test_the_cost_of_a_trial_is_told_against_the_protocol_after_the_decision(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        view, session = records(served.ledger), served.login("reviewer")
        text = limited(served, session, view, "approve all", "")[1]
        assert "compared with the protocol after this decision" in text
        terms, part = served.ledger.terms, {"part": "trial"}
        for decision, share, limits in (
            ("approve trial", "", part),
            ("approve all", "7", {"share": 0.07}),
            ("approve protocol", "", {"part": "protocol"}),
        ):
            text = limited(served, session, view, decision, share)[1]
            worth = served.ledger.worth(**limits)
            assert ("trial" in worth) == (decision != "approve protocol")  # none runs so far
            if "trial" in worth:
                cost = phrases.more(worth["trial"]["mean"], terms)
                said = plain(text)
                assert f"{cost} in it, compared with the protocol after this decision" in said
                assert f"those in the trial: {phrases.gain_words(worth['change'], terms)}" in said
        page = served.page("/proposal", session)[1]
        assert "compared with the proposed protocol" in page
        known = served.ledger.worth()
        both = [phrases.more(known[name]["mean"], served.ledger.terms) for name in WHICH]
        status = plain(served.page("/", session)[1])
        assert f"for patients outside the trial: {both[0]}" in status
        assert f"With the proposed trial, over all patients: {both[1]}." in status
        assert "no report can be sent, settled or corrected" in status
        assert "Sites keep their reports and send them later." in status
        assert f"together: {both[0]}" in plain(page)
        assert f"with the proposed trial, and compared with version 1: {both[1]}" in plain(page)
        for column in ("Gain per 100", "interval", "How sure"):  # by the newest rule
            assert column in page[page.index("<thead>") : page.index("</thead>")]


def test_a_proposal_that_is_made_again_says_what_is_new_and_why(tmp_path):
    demo.fill(tmp_path / "run.db").close()
    with Served(tmp_path) as served:
        ledger, session = served.ledger, served.login("reviewer")
        view = ledger.proposal()
        assert "New since the proposal before" not in served.page("/proposal", session)[1]
        row = next(row for row in view.rows if row["from"][0] != row["to"][0])
        h, x, new = row["step"], row["state"], row["to"][0]
        asked = ledger.forbid([(h, x)], [new], by="Dr Vega", reason="harm")
        ledger.confirm(asked.number, by="Dr Roth", reason="yes")
        names, place = ledger.terms.labels, f"{row['state_label']}, {row['step_label']}"
        text = served.page("/proposal", session)[1]
        card = text.partition("New since you read the proposal of")[2].partition("</section>")[0]
        said = f"Dr Vega and Dr Roth forbade {names['action'][new]} for {place} on"
        assert said in card
        assert "(“harm”)" in card
        again = {(r["step"], r["state"]): r for r in ledger.proposal().rows}
        told = {(r["step"], r["state"]): r for r in view.rows}
        judged = [
            k
            for k in again
            if k in told
            and again[k]["to"][0] == told[k]["to"][0] != again[k]["from"][0]
            and again[k]["verdict"] != told[k]["verdict"]
        ]
        assert card.count("→") == len(judged)
        came = [k for k in again if k not in told or again[k]["to"][0] != told[k]["to"][0]]
        came = [k for k in came if again[k]["to"][0] != again[k]["from"][0]]
        assert card.count("Newly proposed") == len(came)
        assert "<li>" in card


def test_reviewers_are_told_of_requests_limits_and_weak_changes(tmp_path):
    with Served(tmp_path, **TRIAL, quorum=2) as served:
        ledger, session = served.ledger, served.login("reviewer")
        view = records(ledger)
        asked = ledger.approve(view, share=0.07, by="Dr Vega", reason="minutes 7")
        page = served.page("/", session)[1]
        assert "1 request needs your agreement." in page
        assert "Read it and decide" in page
        served.post("/confirm", session, motion=asked.number, reason="my own words", **SURE)
        assert in_trial(ledger) == 1 / 16
        timeline = served.page("/timeline", session)[1]
        assert "the reviewer (my own words)" in timeline
        assert "the trial: 0 % → 6 % of new patients" in timeline
        enrol(ledger, 12)
        view = ledger.propose(by="office")
        journal = served.service.journal
        known = SimpleNamespace(precedents=Precedents(), cases="patients")
        for share, is_said in ((0.25, True), (0.0625, False)):
            said = proposals.reminder(known, journal, {"new": share})
            limit = "Dr Vega and the reviewer limited the trial to at most 7 % of new patients"
            assert (limit in said.get("said", "")) == is_said
            assert said.get("share") == ("7" if is_said else None)
        given = {"proposal": view.hash, "decision": "approve all"}
        served.post("/decide", session, **given, reason="first", consent="1", **SURE)
        (mine,) = ledger.motions()
        assert "You decided on the pending proposal" in served.page("/", session)[1]
        ledger.decline(mine.number, by="Dr Roth", reason="no")
        text = served.page("/timeline", session)[1]
        assert "Turned down a request: Approve the proposal" in text
        again = served.post("/decide", session, **given, reason="kept words", show="back=1")[2]
        assert 'name="reason" value="kept words"' in again.decode()
        given["proposal"] = "0" * 64
        late = served.post("/decide", session, **given, reason="typed in vain", **SURE)[2].decode()
        assert "typed in vain" in late


def test_a_veto_in_several_places_is_lifted_at_once(tmp_path):
    with Served(tmp_path, **WARD) as served:
        ledger, session = served.ledger, served.login("reviewer")
        ledger.forbid([(0, 0), (1, 0), (1, 2)], ["surgery"], by="board", reason="harm")
        page = served.page("/map", session)[1]
        assert "Allow surgery again for well (every visit) and bad (visit 2)" in page
        assert page.count("harm") == 1  # the reason, once
        rows = re.findall(r'name="row" value="([\d:]+)"', page)
        sheet = served.post("/lift", session, row=rows, action="surgery")[2].decode()
        assert "well (every visit) and bad (visit 2)" in sheet


def test_a_list_of_treatments_says_which_place_belongs_to_which(tmp_path):
    with Served(tmp_path, **WARD) as served:
        terms = served.ledger.terms
    given = {(0, 0, 0), (1, 1, 0), (0, 2, 1), (1, 2, 1)}
    assert phrases.actions_words(terms, given) == (
        "watch for well (visit 1) and ill (visit 2); drug for bad, every visit"
    )


def test_versions_that_look_alike_in_a_place_do_not_differ_there():
    terms = type(
        "Terms", (), {"labels": {"step": ["1"], "state": ["a", "b"], "action": ["x", "y"]}}
    )()
    before = np.array([[[0, 0]], [[0, 0]], [[1, 0]]])
    after = np.array([[[0, 0]], [[1, 1]], [[0, 0]]])
    (row,) = display.difference(terms, before, after)
    assert (row["state"], row["old"], row["new"]) == ("b", "x", "x 67 %, y 33 %")


# ---- one number ----------------------------------------------------------------------------------


def test_changes_are_counted_alike_on_every_page(clinic):
    ledger, session = clinic.ledger, clinic.login("reviewer")
    view = ledger.proposal()
    n = sum(row["from"][0] != row["to"][0] for row in view.rows)
    assert 0 < n < len(view.rows)  # in the others only the trial changes
    words = f"{n} changes"
    assert words in clinic.page("/", session)[1]
    page = clinic.page("/proposal", session)[1]
    assert f"<h1>{words} of the protocol" in page
    assert page.count('name="row"') == n
    assert clinic.page("/map", session)[1].count("<sup>P</sup>") == n + 1  # and the legend
    assert f"proposed {words}" in clinic.page("/audit?kind=proposed", session)[1]
    given = {"proposal": view.hash, "decision": "approve all"}
    sheet = clinic.post("/decide", session, **given)[2].decode()
    assert f"Approve {words} and the trial?" in sheet
    assert f"<h2>{words} of the protocol</h2>" in sheet
    before, after = (ledger.policy_of(version) for version in (6, 7))
    changed = int((before[0] != after[0]).sum())
    assert 0 < changed < int((before != after).any(axis=0).sum())
    assert f"Approved {changed} changes and a trial" in clinic.page("/timeline", session)[1]
    assert (
        f"{changed} changes of the protocol" in clinic.page("/difference?from=6&to=7", session)[1]
    )
    assert f"made version 7: {changed} changes" in clinic.page("/audit?kind=approved", session)[1]


def test_gains_are_told_for_a_hundred_cases_where_rewards_are_small():
    terms = type("Terms", (), {"rewards": (0, 1), "word": lambda _, kind: WORDS[kind]})()
    assert phrases.more(0.188, terms) == "18.8 more good outcomes per 100 patients"
    assert phrases.more(-0.032, terms) == "3.2 fewer good outcomes per 100 patients"
    assert phrases.more(0.0001, terms) == "no change in good outcomes"
    terms.rewards = (0, 50_000)
    assert phrases.amount(1234.5, terms) == "+1,234.50"
    assert phrases.per(terms) == "per patient"


WORDS = {"episode": "patient", "reward": "good outcomes"}


@pytest.mark.parametrize(
    ("mean", "most", "never_tried", "small"),
    [
        (0.09, 1.0, [], True),
        (-0.09, 1.0, [], True),
        (0.11, 1.0, [], False),
        (-0.11, 1.0, [], False),  # what loses much must be seen
        (-0.01, -0.01, [], False),  # all changes lose
        (0.0, 1.0, ["surgery"], False),
    ],
)
def test_only_changes_that_gain_and_lose_little_are_folded_away(mean, most, never_tried, small):
    row = {"gain": {"mean": mean}, "never_tried": never_tried}
    assert proposals.is_small(row, most) == small


# ---- what was asked for is not lost --------------------------------------------------------------


def test_a_selection_survives_errors_filters_and_pages(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        view, session = records(served.ledger), served.login("reviewer")
        rows = [key(row) for row in view.rows if row["from"][0] != row["to"][0]]
        chosen = {"proposal": view.hash, "row": rows[:2], "decision": "approve trial"}

        def kept(**more):
            status, _, body = served.post("/decide", session, **chosen, **more)
            text = body.decode()
            ticked = re.findall(r'name="row" value="([\d:]+)" checked', text)
            hidden = re.findall(r'type="hidden" name="row" value="([\d:]+)"', text)
            return status, sorted(ticked), sorted(hidden), text

        status, ticked, hidden, text = kept(share="lots")
        assert (status, ticked, hidden) == (400, sorted(rows[:2]), [])
        assert "must be between 0 and 100 percent" in text
        assert '<option value="approve trial" selected>' in text
        assert kept(show="group=step")[1:3] == (sorted(rows[:2]), [])
        state = view.rows[0]["state_label"]
        status, ticked, hidden, text = kept(show="search=nowhere")
        assert (ticked, hidden) == ([], sorted(rows[:2]))
        assert "2 selected changes are not shown here, and stay selected" in text
        assert kept(show="select=all")[1] == sorted(rows)
        assert kept(show="word=", word="WORSE")[1:3] == (
            sorted(rows[:2]),
            [],
        )  # all are shown again
        assert kept(show="page=", search="nowhere")[2] == sorted(rows[:2])
        assert kept(show="select=none")[1] == []
        sheet = served.post("/decide", session, **chosen | {"decision": "approve selected"})
        assert "Back, and keep the selection" in sheet[2].decode()
        assert kept(show="back=1", confirming="1")[1] == sorted(rows[:2])
        chosen["decision"] = "approve selected"
        chosen["row"] = []
        status, _, _, text = kept()
        assert (status, "tick at least one" in text) == (422, True)
        assert state in text


def test_selected_reports_survive_a_filter(tmp_path):
    with Served(tmp_path, **WARD) as served:
        session = served.login("operator")
        first, second = (served.ledger.ask(site, "p1").ticket for site in ("north", "south"))
        page = served.post("/missing", session, ticket=[first], show="select=all", site="south")[2]
        text = page.decode()
        assert f'type="hidden" name="ticket" value="{first}"' in text
        assert f'name="ticket" value="{second}" checked' in text
        sheet = served.post("/missing", session, ticket=[first, second])[2].decode()
        assert "Declare 2 reports missing?" in sheet


def test_a_request_that_lapsed_says_why(tmp_path):
    with Served(tmp_path, **TRIAL, quorum=2) as served:
        ledger, session = served.ledger, served.login("reviewer")
        view = records(ledger)
        asked = ledger.approve(view, by="Dr Vega", reason="minutes 7")
        row = view.rows[0]
        given = {"proposal": view.hash, "row": [key(row)], "decision": "postpone selected"}
        sheet = served.post("/decide", session, **given)[2].decode()
        asked_for = re.search(
            r"Dr Vega also asks for something that contradicts this: (.*?)\.", sheet
        )
        assert re.fullmatch(r"approve \d changes and the trial", asked_for[1])
        assert "If you confirm, that request falls away." in sheet
        served.post("/decide", session, **given, reason="later", **SURE)
        assert ledger.motions() == []
        for path in ("/", "/proposal"):
            text = served.page(path, session)[1]
            assert "Asked for, and not carried out" in text
            assert "when the reviewer postponed" in text
            assert "minutes 7" in text
            assert f"<strong>A{asked_for[1][1:]}</strong>" in text  # its title is what it was
        late = served.post("/confirm", session, motion=asked.number, reason="yes", **SURE)
        assert (late[0], "It lapsed on" in late[2].decode()) == (422, True)


def test_the_second_reviewer_sees_the_gain_that_the_first_one_saw(tmp_path):
    with Served(tmp_path, **TRIAL, quorum=2) as served:
        view, first = records(served.ledger), served.login("reviewer")
        served.tokens["second"] = served.access.create(name="Dr Roth", role="reviewer", days=1)
        second = served.login("second")
        changes = [row for row in view.rows if row["from"][0] != row["to"][0]]
        some = {"proposal": view.hash, "row": [key(changes[0])], "decision": "approve selected"}
        all_of_it = {"proposal": view.hash, "decision": "approve protocol"}
        seen = expected_gain(served.post("/decide", first, **some)[2].decode())
        whole = expected_gain(served.post("/decide", first, **all_of_it)[2].decode())
        served.post("/decide", first, **some, reason="minutes", **SURE)
        (motion,) = served.ledger.motions()
        sheet = served.post("/confirm", second, motion=motion.number)[2].decode()
        assert expected_gain(sheet) == seen
        assert seen != whole


def test_a_selection_has_its_gain_after_a_restart_and_after_a_decision(clinic):
    session, view = clinic.login("reviewer"), clinic.ledger.proposal()  # opened from a snapshot
    given = {"proposal": view.hash, "decision": "approve LIKELY"}
    sheet = clinic.post("/decide", session, **given)[2].decode()
    named = [
        (row["step_label"], row["state_label"]) for row in view.rows if row["verdict"] == "LIKELY"
    ]
    worth = clinic.ledger.worth(named)["protocol"]
    assert expected_gain(sheet).startswith(phrases.more(worth["mean"], clinic.ledger.terms))


def test_the_rest_of_a_proposal_has_its_gain(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        view, session = records(served.ledger), served.login("reviewer")
        row = (view.rows[0]["step_label"], view.rows[0]["state_label"])
        served.ledger.reject(view, rows=[row], by="board", reason="later")
        assert served.ledger.proposal().worth is None
        text = served.page("/proposal", session)[1]
        assert "is not computed" not in text
        assert re.search(r"All 5 together: <strong>[\d.]+ more reward per 100 patients<", text)


# ---- FREEZE --------------------------------------------------------------------------------------


def test_a_pause_stops_a_request_that_waits_for_reviewers(tmp_path):
    with Served(tmp_path, **TRIAL, quorum=2) as served:
        ledger, session = served.ledger, served.login("reviewer")
        asked = ledger.approve(records(ledger), by="Dr Vega", reason="minutes")
        served.post("/freeze", served.login("operator"), reason="two adverse events")
        refused = served.post("/confirm", session, motion=asked.number, reason="yes", **SURE)
        assert refused[0] == 423
        assert "two adverse events" in refused[2].decode()
        assert ledger.version == 1
        resumed = ledger.thaw(by="the operator", reason="over")
        for name in ("Dr Vega", "Dr Roth"):
            ledger.confirm(resumed.number, by=name, reason="yes")
        assert served.post("/confirm", session, motion=asked.number, reason="y", **SURE)[0] == 303
        assert ledger.version == 2


def test_a_pause_overtakes_a_decision_that_waits_for_the_ledger(tmp_path):
    with Served(tmp_path, **TRIAL) as served:
        view, engine = records(served.ledger), served.service.engine
        held, free = threading.Event(), threading.Event()

        def hold():
            held.set()
            free.wait(20)

        busy = run_coroutine_threadsafe(engine.call(hold), served.server.servers[0].get_loop())
        assert held.wait(20)
        answers = {}

        def send(name, role, body):
            answers[name] = served.json("POST", f"/api/{name}", body, role=role)

        bodies = {
            "approve": ("reviewer", {"proposal": view.hash, "reason": "minutes"}),
            "freeze": ("operator", {"reason": "an alarm"}),
        }
        threads = []
        for name, (role, body) in bodies.items():
            threads.append(threading.Thread(target=send, args=(name, role, body)))
            threads[-1].start()
            wait_for(lambda: engine.waiting == len(threads))
        free.set()
        for thread in threads:
            thread.join()
        busy.result(20)
        assert answers["approve"][1]["error"] == "FrozenError"
        assert answers["freeze"][0] == 200
        assert (served.ledger.version, served.ledger.status().frozen) == (1, True)


# ---- size ----------------------------------------------------------------------------------------


class Counted(int):
    """A number that counts how often it is compared."""

    compared = 0
    __hash__ = int.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return int(self) == int(other)


def test_rows_are_looked_up_in_one_pass():
    n = 2000
    rows = [(Counted(h), Counted(1)) for h in range(n)]
    proposed = [{"step": h, "state": 1} for h in range(0, n, 2)]
    assert len(proposed_of(proposed, rows)) == n // 2
    assert Counted.compared < 10 * n


# ---- the story -----------------------------------------------------------------------------------


def test_the_forecast_stands_beside_what_happened(tmp_path):
    forecast = [(0, 0.5, 1.0, 1.5), (6, 0.8, 1.2, 1.9), (100, 1, 1, 1)]
    with Served(tmp_path, **WARD, forecast=forecast) as served:
        enrol(served.ledger, 6, reward=0.5)
        view = served.ledger.propose(by="office")
        served.ledger.approve(view, by="board", reason="yes")
        enrol(served.ledger, 6, reward=1.0)
        session = served.login("auditor")
        assert served.ledger.terms.forecast[1] == (6, 0.8, 1.2, 1.9)
        text = served.page("/timeline", session)[1]
        assert "The plan's forecast beside what happened" in text.replace("&#39;", "'")
        cells = re.findall(r'data-name="(?:Forecast|What happened)">([^<]+)<', text)
        assert cells == ["1.00", "1.00 ± 0.00", "1.20", "2.00 ± 0.00"]
        assert served.page("/", session)[1].count('class="planned"') == 2


# ---- people who do not see well ------------------------------------------------------------------

chromium = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))
PAGES = {
    "reviewer": (
        *("/", "/proposal", "/map", "/map?view=visits", "/row?step=0&state=2", "/timeline"),
        *("/audit?kind=approved", "/roles", "/forbid?rows=0:1,1:1", "/difference?from=3&to=4"),
    ),
    "operator": ("/", "/proposal", "/tickets", "/tokens", "/timeline", "/corrections"),
}


@chromium
def test_axe_finds_nothing_serious_on_any_page_in_light_and_dark(clinic):
    with browser.Browser() as tab:
        served, found = clinic, {}

        def look(name):
            tab.look()
            found[name, "light"] = tab.faults() | found.get((name, "light"), {})
            tab.look(dark=True)
            found[name, "dark"] = tab.faults("color-contrast")

        tab.open(f"{served.url}/login")
        look("login")
        for role, paths in PAGES.items():
            tab.send("Network.clearBrowserCookies")
            tab.open(f"{served.url}/login")
            tab.type("#token", served.tokens[role])
            tab.click("main button", leaves=True)
            for path in paths:
                tab.open(f"{served.url}{path}")
                look(path)
            if role == "reviewer":
                tab.open(f"{served.url}/proposal")
                tab.evaluate("document.querySelector('[name=decision]').value = 'approve all'")
                tab.click(".bar button", leaves=True)
                assert "Nothing has happened yet" in tab.text
                look("confirm")
        assert {name: faults for name, faults in found.items() if faults} == {}
        assert len(found) == 2 * (1 + len({*PAGES["reviewer"], *PAGES["operator"]}) + 1)


@chromium
def test_the_printed_status_cuts_no_table_off(clinic, tab):
    tab.open(f"{clinic.url}/login")
    tab.type("#token", clinic.tokens["reviewer"])
    tab.click("main button", leaves=True)
    tab.size(695, 1000)  # A4 without its margins
    tab.look(prints=True)
    right = tab.evaluate(
        "(right => Math.max(...[...document.querySelectorAll('section.card table')].map("
        "e => right(e) - right(e.closest('section')))))(e => e.getBoundingClientRect().right)"
    )
    tab.look()
    assert right <= 0
