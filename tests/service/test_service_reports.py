"""The pages of reports, as a trial office uses them."""

import csv
import html
import io
import re
from urllib.parse import quote, urlencode

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.ledger import Client, ConflictError, ExpiredError, Ledger, LedgerError, ReportWarning
from lowswitch.service.pasting import names_in
from lowswitch.service.reports import looked_for
from served import Served

WARD = {
    "algorithm": ls.psrl(schedule="asked"),
    "horizon": 3,
    "states": ["well", "ill"],
    "actions": ["watch", "drug"],
    "steps": ["week 0", "week 4", "week 12"],
    "words": {
        "episode": "patient",
        "step": "visit",
        "state": "finding",
        "action": "treatment",
        "reward": "good weeks",
    },
    "policy": np.zeros((3, 2), dtype=int),
    "rewards": (0, 4),
    "episodes": 900,
}
ILL = {"states": ["ill"] * 3, "actions": ["drug"] * 3, "rewards": [1, 2, 3]}
SURE = {"sure": "1", "confirming": "1"}


@pytest.fixture
def ward(tmp_path):
    with Served(tmp_path, **WARD, quorum=2) as served:
        yield served


def told(served, name="p1", site="north", **report):
    """The ticket of a patient whose report came."""
    ticket = served.ledger.ask(site, name).ticket
    served.ledger.tell(ticket, **ILL | report)
    return ticket


def lost(served, name="p1", site="north"):
    """The ticket of a patient who was declared missing, and whose report came after that."""
    ticket = served.ledger.ask(site, name).ticket
    served.ledger.missing(ticket, "moved abroad", by="office")
    with pytest.raises(ExpiredError):
        served.ledger.tell(ticket, **ILL)
    return ticket


def typed(states=("ill",) * 3, actions=("drug",) * 3, rewards=("1", "2", "3"), ended="whole"):
    """The fields of the form, one for each visit."""
    columns = {"state": states, "action": actions, "reward": rewards}
    return {name: list(values) for name, values in columns.items()} | {"ended": ended}


def alert(text):
    return re.search(r'<p class="wrong" role="alert" id="wrong">(.*?)</p>', text)[1].replace(
        "&#39;", "'"
    )


# ---- corrections ---------------------------------------------------------------------------------


def test_a_correction_is_told_by_visit_in_the_words_of_the_run(ward):
    session, ticket = ward.login("operator"), told(ward)
    right = typed(states=("ill", "ill", "well"), rewards=("1", "2.0", "4"))
    sheet = ward.post("/amend", session, ticket=ticket, **right)[2].decode()
    assert "Correct the report of north, p1?" in sheet
    assert "<li>Week 12, finding: ill → well.</li>" in sheet
    assert "<li>Week 12, good weeks: 3 → 4.</li>" in sheet
    assert "week 4" not in sheet.lower()  # 2 and 2.0 are the same
    sheet = ward.post("/amend", session, ticket=ticket, **typed(ended="truncated"))[2].decode()
    assert "How it ended: it was seen to its end → it was not seen to its end." in sheet
    ward.post("/amend", session, ticket=ticket, **right, reason="typing error", **SURE)
    assert "The report of north, p1 is corrected." in ward.page("/tickets", session)[1]
    assert ward.ledger.newest(1, kind="amended")[0].payload["rewards"] == [1, 2, 4]


def test_a_treatment_that_its_version_gives_to_nobody_is_pointed_out(ward):
    session, ticket = ward.login("operator"), told(ward, actions=["watch"] * 3)
    slip = typed(states=("Ill",) * 3, actions=("WATCH", "watch", "Drug"))
    sheet = ward.post("/amend", session, ticket=ticket, **slip)[2].decode()
    assert "Week 12: version 1 gives watch for ill, and you filled in drug. Is it a" in sheet
    assert "week 0" not in sheet.lower()  # capitals are no change
    ward.post("/amend", session, ticket=ticket, **slip, reason="seen", **SURE)
    assert ward.ledger.newest(1, kind="amended")[0].payload["actions"] == [0, 0, 1]


WRONG = {
    "a gap": ({"states": ("ill", "", "ill"), "actions": ("drug", "", "drug"),
               "rewards": ("1", "", "3")}, "Week 12 is filled in, but week 4 is not complete"),
    "no treatment": ({"actions": ("drug", "", "drug")}, "Week 4 has no treatment"),
    "a comma": ({"rewards": ("1,5", "2", "3")}, "Week 0: '1,5' is not a number"),
    "too much": ({"rewards": ("40", "2", "3")}, "Week 0: good weeks must lie between 0 and 4"),
    "another finding": ({"states": ("il", "ill", "ill")}, "'il'"),
    "a part": ({"states": ("ill", "", ""), "actions": ("drug", "", ""),
                "rewards": ("1", "", "")}, "Only 1 of 3 visits are filled in"),
    "nothing new": ({}, "This is the report of north, p1 as it is on record"),
    "another end": ({"ended": "never"}, "Choose how it ended"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_correction_stays_in_its_form(ward, name):
    session, ticket, (fields, says) = ward.login("operator"), told(ward), WRONG[name]
    status, _, body = ward.post("/amend", session, ticket=ticket, **typed(**fields))
    text = body.decode()
    assert status == 422
    assert says in alert(text)
    shown = re.findall(r'name="reward" value="([^"]*)"', text)
    assert shown == list(fields.get("rewards", ("1", "2", "3")))


def test_a_state_after_the_last_visit_survives_a_correction(ward):
    session, ticket = ward.login("operator"), told(ward, states=["ill", "ill", "ill", "well"])
    form = ward.page(f"/amend?ticket={ticket}", session)[1]
    assert "after week 12" in form
    right = typed(states=("ill", "ill", "ill", "well"), rewards=("1", "2", "4"))
    ward.post("/amend", session, ticket=ticket, **right, reason="typing error", **SURE)
    (event,) = ward.ledger.newest(1, kind="amended")
    assert (event.payload["states"], event.payload["rewards"]) == ([1, 1, 1, 0], [1, 2, 4])


def test_a_correction_is_bound_to_the_report_that_was_read(ward):
    session, ticket = ward.login("operator"), told(ward)
    fields = typed(rewards=("1", "2", "4")) | {"ticket": ticket, "reason": "typing error"}
    page = ward.post("/amend", session, **fields)[2].decode()
    read = re.search(r'name="read" value="(\w+)"', page)[1]
    ward.ledger.amend(ticket, **ILL | {"rewards": [0, 0, 0]}, by="another", reason="seen")
    status, _, body = ward.post("/amend", session, **fields, **SURE, read=read)
    assert (status, "no longer what you read" in body.decode()) == (409, True)


def test_a_correction_ends_requests_on_the_proposal_and_says_so(ward):
    ledger, session = ward.ledger, ward.login("operator")
    generator = np.random.default_rng(0)
    for number in range(40):
        rewards = 4.0 * generator.random(3)
        ticket = told(ward, f"p{number}", rewards=rewards.tolist())
    view = ledger.propose(by="office")
    ledger.approve(view, by="Dr Vega", reason="minutes 7")
    right = typed(rewards=("4", "4", "4")) | {"ticket": ticket}
    sheet = ward.post("/amend", session, **right)[2].decode()
    assert "The pending proposal is computed again" in sheet
    assert re.search(r"Dr Vega(&#39;|')s request \(approve .*\) falls away", sheet)
    ward.post("/amend", session, **right, reason="typing error", **SURE)
    assert ledger.motions() == []
    ledger.propose(by="somebody else")
    for path in ("/", "/proposal"):
        text = ward.page(path, ward.login("reviewer"))[1]
        assert "when the operator corrected a report" in text
        assert "somebody else asked for a new proposal" not in text


def test_a_proposal_says_that_corrections_changed_the_data(ward):
    ledger, generator = ward.ledger, np.random.default_rng(0)
    reviewer, tickets = ward.login("reviewer"), list[str]()
    for number in range(40):
        actions = [["watch", "drug"][i] for i in generator.integers(2, size=3)]
        rewards = [4.0 if action == "drug" else 0.5 for action in actions]
        tickets.append(told(ward, f"p{number}", actions=actions, rewards=rewards))
    late = lost(ward, "late")
    ledger.propose(by="office")
    ward.page("/proposal", reviewer)
    right = ILL | {"actions": ["watch"] * 3, "rewards": [1.0, 1.0, 1.0]}
    reports = [right | {"ticket": ticket} for ticket in [*tickets[:7], late]]
    ledger.amend_many(reports, reason="query 41", by="Ms Okafor")
    page = html.unescape(ward.page("/proposal", reviewer)[1])
    assert re.search(
        r"7 reports were corrected by Ms Okafor on [^<:]*:\d\d UTC: that changed the data", page
    )
    assert "1 report was entered after being declared missing by Ms Okafor on" in page
    assert "corrected a report" not in page
    assert "The learner made it again after Ms Okafor corrected 8 reports." in page
    assert "the data are the same" not in page
    assert "No new data led to that" not in page


# ---- reports that came too late ------------------------------------------------------------------


def test_a_late_report_is_shown_as_it_came(ward):
    session, ticket = ward.login("operator"), lost(ward)
    status = ward.page("/", session)[1]
    assert "1 report came after being declared missing." in status
    sheet = ward.post("/propose", session)[2].decode()
    assert "1 report came after being declared missing. " in sheet
    text = ward.page("/tickets?status=refused", session)[1]
    assert "by office: moved abroad" in text
    form = ward.page(f"/amend?ticket={ticket}", session)[1]
    assert "Enter the report of north, p1" in form
    assert "north sent this report after it was declared missing" in form
    assert re.findall(r'name="reward" value="([^"]*)"', form) == ["1", "2", "3"]
    other = typed(rewards=("4", "4", "4"))
    again = ward.post("/amend", session, ticket=ticket, **other | {"state": ["", "ill", "ill"]})
    assert "<h2>north sent this</h2>" in again[2].decode()  # beside what somebody typed instead


def test_late_reports_are_taken_in_together(ward):
    session = ward.login("operator")
    tickets = [lost(ward, f"p{number}") for number in range(3)]
    sheet = ward.post("/late", session, ticket=tickets)[2].decode()
    assert "Take in 3 late reports?" in sheet
    assert "North, p2: week 0 ill, drug, 1; week 4 ill, drug, 2; week 12 ill, drug, 3." in sheet
    ward.post("/late", session, ticket=tickets, reason="they came", **SURE)
    run = ward.ledger.status()
    assert (run.learned, run.refused, run.missing) == (3, 0, 0)
    events = ward.ledger.newest(3, kind="amended")
    assert [event.payload["rewards"] for event in events] == [[1, 2, 3]] * 3
    assert ward.post("/late", session)[0] == 422
    refused = ward.post("/late", session, ticket=tickets[:1])
    assert (refused[0], "no late report of north, p0" in refused[2].decode().lower()) == (422, True)


def test_a_contradicting_report_is_shown_where_it_is_corrected(ward):
    session, ticket = ward.login("operator"), told(ward)
    with pytest.raises(ConflictError):
        ward.ledger.tell(ticket, **ILL | {"rewards": [4, 4, 4]})
    form = ward.page(f"/amend?ticket={ticket}", session)[1]
    assert "<h2>north sent this</h2>" in form
    (event,) = ward.ledger.newest(1, kind="conflict")
    form = ward.page(f"/amend?ticket={ticket}&event={event.seq}", session)[1]
    assert re.findall(r'name="reward" value="([^"]*)"', form) == ["4", "4", "4"]


def test_contradicted_reports_are_listed_until_they_are_corrected(ward):
    session, ticket = ward.login("operator"), told(ward)
    assert "Contradicting reports" not in ward.page("/tickets", session)[1]
    other = ILL | {"rewards": [4, 4, 4]}
    with pytest.raises(ConflictError):
        ward.ledger.tell(ticket, **other)
    page = ward.page("/tickets", session)[1]
    assert "<h2>Contradicting reports</h2>" in page
    assert f'href="/amend?ticket={ticket}">Compare and correct…</a>' in page
    page = ward.page("/tickets", ward.login("auditor"))[1]
    assert f'<a href="/audit?search={ticket}">p1</a>' in page
    assert 'action="/dismiss"' not in page
    ward.ledger.amend(ticket, **other, reason="query 17", by="office")
    assert "Contradicting reports" not in ward.page("/tickets", session)[1]


def contradict(served, ticket, *rewards):
    with pytest.raises(ConflictError):
        served.ledger.tell(ticket, **ILL | {"rewards": list(rewards)})


def test_a_contradiction_is_dismissed_with_a_reason_and_comes_back_with_another_report(ward):
    session, ticket = ward.login("operator"), told(ward)
    refused = ward.post("/dismiss", session, ticket=ticket, reason="no", **SURE)
    assert "No report waits that contradicts" in refused[2].decode()
    contradict(ward, ticket, 4, 4, 4)
    status = ward.page("/", session)[1]
    assert "1 report was contradicted by a later one." in status
    assert "1 site report contradicts what is counted." in ward.page("/", ward.login("auditor"))[1]
    sheet = html.unescape(ward.post("/dismiss", session, ticket=ticket)[2].decode())
    assert "Keep the report of north, p1 as it is?" in sheet
    assert "stays: week 0 ill, drug, 1; week 4 ill, drug, 2; week 12 ill, drug, 3." in sheet
    assert re.search("North sent on .*: week 0 ill, drug, 4; week 4 ill, drug, 4;", sheet)
    ward.post("/dismiss", session, ticket=ticket, reason="confirmed by telephone", **SURE)
    page = ward.page("/tickets", session)[1]
    assert "The report of north, p1 stays as it is." in page
    assert "Contradicting reports" not in page
    assert "contradict" not in ward.page("/", session)[1]
    (event,) = ward.ledger.newest(1, kind="dismissed")
    assert event.payload == {"number": 1, "reason": "confirmed by telephone"}
    audit = said(ward.page("/audit?kind=dismissed", session)[1])
    assert audit == ["patient 1: north, p1; reason: confirmed by telephone"]
    contradict(ward, ticket, 4, 4, 4)  # known, and dismissed
    assert "Contradicting reports" not in ward.page("/tickets", session)[1]
    contradict(ward, ticket, 0, 0, 0)
    assert "Contradicting reports" in ward.page("/tickets", session)[1]
    with Client(ward.url, ward.tokens["operator"]) as client:
        for _ in range(2):
            client.dismiss(ticket, "asked again", request="once")
    assert len(ward.ledger.newest(9, kind="dismissed")) == 2
    assert ward.ledger.verify(progress=False).whole


def test_every_different_late_report_is_recorded_and_the_newest_taken_in(ward):
    session, ticket = ward.login("operator"), lost(ward)
    for rewards in ([0, 0, 0], [0, 0, 0], [4, 4, 4]):
        with pytest.raises(ExpiredError):
            ward.ledger.tell(ticket, **ILL | {"rewards": rewards})
    kept = [one.payload["rewards"] for one in ward.ledger.newest(9, kind="refused")]
    assert kept == [[4, 4, 4], [0, 0, 0], [1, 2, 3]]
    assert ward.ledger.status().refused == 1
    sheet = ward.post("/late", session, ticket=ticket)[2].decode()
    assert "Take in 1 late report?" in sheet
    assert "North, p1: week 0 ill, drug, 4;" in sheet
    assert "This is the newest of 3 different reports that north sent of p1." in sheet
    assert "Before it came: week 0 ill, drug, 0;" in sheet
    form = ward.page(f"/amend?ticket={ticket}", session)[1]
    assert "north sent 3 different reports after it was declared missing" in form
    assert form.count("<h2>north also sent this</h2>") == 2
    assert re.findall(r'name="reward" value="([^"]*)"', form) == ["4", "4", "4"]
    sheet = ward.post("/amend", session, ticket=ticket, **typed(rewards=("0",) * 3))[2].decode()
    assert "North sent 3 different reports. This one counts, the others do not." in sheet
    assert ward.ledger.verify(progress=False).whole


def test_a_report_that_the_server_refuses_is_shown_to_the_office(ward):
    session, site = ward.login("operator"), ward.tokens["site"]
    with Client(ward.url, site) as client:
        ticket = client.ask("p1").ticket
        with pytest.raises(LedgerError, match="outside"):
            client.tell(ticket, **ILL | {"rewards": [1, 2, 7]})
        page = ward.page("/tickets", session)[1]
        assert "<h2>Reports that cannot be right</h2>" in page
        assert "Good weeks: 7 is outside of the declared range [0, 4]" in page
        assert "1 report cannot be right, and no other came since." in ward.page("/", session)[1]
        client.tell(ticket, **ILL)
    assert "Reports that cannot be right" not in ward.page("/tickets", session)[1]
    assert "cannot be right" not in ward.page("/", session)[1]


def test_an_unlikely_report_is_learned_and_the_site_and_the_office_are_warned(ward):
    session, site, ledger = ward.login("operator"), ward.tokens["site"], ward.ledger
    journal = ward.service.journal
    with Client(ward.url, site) as client:
        usual = ILL | {"rewards": [1, 1.1, 1.2]}
        ledger.tell_many([{"ticket": client.ask(f"u{i}").ticket} | usual for i in range(70)])
        journal.catch_up()
        far = ILL | {"rewards": [1, 3.5, 1]}
        ticket = client.ask("p1").ticket
        with pytest.warns(ReportWarning, match="the trial office is told that it is unlikely"):
            told = client.tell(ticket, **far)
        journal.catch_up()
        assert len(told.doubts) == 1, told  # too few successors were seen to doubt one
        assert "week 4" in told.doubts[0]
        assert "3.5; all 210 reported before lie between 1 and 1.2" in told.doubts[0]
        ledger.tell_many([{"ticket": client.ask(f"v{i}").ticket} | usual for i in range(40)])
        journal.catch_up()
        second = client.ask("p2").ticket
        with pytest.warns(ReportWarning, match="never happened in"):
            client.tell(second, **usual | {"states": ["ill", "well", "ill"]})
        journal.catch_up()
    assert ledger.report_of(ticket)[0].status in ("waiting", "learned")  # never refused
    page = ward.page("/tickets", session)[1]
    assert "<h2>Unlikely reports</h2>" in page
    assert page.count("It is right…") == 2
    assert "2 reports are unlikely or not as planned." in ward.page("/", session)[1]
    sheet = ward.post("/dismiss", session, ticket=ticket, unlikely="1")[2].decode()
    assert "all 210 reported before" in sheet
    given = {"ticket": ticket, "unlikely": "1", "reason": "looked up"}
    assert ward.post("/dismiss", session, **given, **SURE)[0] == 303
    ward.ledger.amend(second, **usual, reason="typing error", by="office")
    journal.catch_up()
    assert "Unlikely reports" not in ward.page("/tickets", session)[1]
    assert journal.seen.high == 3.5
    assert ledger.verify(progress=False).whole


def test_a_correction_of_something_else_leaves_a_contradiction_and_a_doubt_open(ward):
    session, ticket = ward.login("operator"), told(ward)
    contradict(ward, ticket, 4, 2, 3)
    ward.ledger.dismiss(ticket, "looked up", by="office", unlikely=True)  # of something else
    right = typed(rewards=("1", "2", "0"))
    sheet = html.unescape(ward.post("/amend", session, ticket=ticket, **right)[2].decode())
    stays = "The report of north, p1 stays in the list of contradicting reports: the other one that"
    assert f"<li>{stays}" in sheet
    ward.post("/amend", session, ticket=ticket, **right, reason="typing error", **SURE)
    page = html.unescape(ward.page("/tickets", session)[1])
    assert f"The report of north, p1 is corrected. {stays}" in page
    assert "Contradicting reports" in page
    table = "patient,visit,good weeks\np1,week 4,0"
    assert stays in html.unescape(ward.post("/corrections", session, pasted=table)[2].decode())
    same = typed(rewards=("4", "2", "3"))
    sheet = ward.post("/amend", session, ticket=ticket, **same)[2].decode()
    assert "This is what north sent later, so nothing contradicts it." in sheet
    ward.ledger.dismiss(ticket, "settled by telephone", by="office")
    assert "Contradicting reports" not in ward.page("/tickets", session)[1]
    contradict(ward, ticket, 4, 4, 4)
    ward.ledger.amend(ticket, **ILL | {"rewards": [4, 4, 4]}, reason="query 9", by="office")
    assert "Contradicting reports" not in ward.page("/tickets", session)[1]
    with pytest.raises(LedgerError, match="no report waits that contradicts"):
        ward.ledger.dismiss(ticket, "again", by="office")


def test_a_contradicting_report_says_how_it_ended_and_where_it_differs(ward):
    session, ticket = ward.login("operator"), told(ward)
    with pytest.raises(ConflictError):
        ward.ledger.tell(ticket, **ILL, ended="truncated")
    form = ward.page(f"/amend?ticket={ticket}", session)[1]
    assert "<li>How it ended: it was not seen to its end</li>" in form
    assert (
        "<strong>How it ended: it was seen to its end → it was not seen to its end.</strong>"
    ) in form
    assert "The form is filled in" not in form
    (event,) = ward.ledger.newest(1, kind="conflict")
    form = ward.page(f"/amend?ticket={ticket}&event={event.seq}", session)[1]
    assert "The form is filled in with the report that north sent on 20" in form
    assert "It is not counted in; nothing changes before you confirm it" in form
    assert '<p class="warn small">on record: it was seen to its end</p>' in form


PLANNED = {"actions": ["watch"] * 3, "rewards": [1, 1, 1]}


def test_a_treatment_that_was_not_planned_is_doubted(ward):
    ledger, journal = ward.ledger, ward.service.journal
    session, odd = ward.login("operator"), PLANNED | {"actions": ["watch", "drug", "watch"]}
    with Client(ward.url, ward.tokens["site"]) as client:
        first = client.ask("first").ticket
        journal.catch_up()
        assert client.tell(first, **ILL | odd).doubts == ()  # too little was reported
        reports = [{"ticket": client.ask(f"u{i}").ticket} | ILL | PLANNED for i in range(67)]
        ledger.tell_many(reports)
        journal.catch_up()
        tickets = [client.ask(name).ticket for name in ("p1", "p2", "p3")]
        journal.catch_up()
        for ticket in tickets[:2]:
            with pytest.warns(ReportWarning):
                doubts = client.tell(ticket, **ILL | odd).doubts
            assert doubts == ("week 4: drug for ill, where version 1 gives watch",)
            journal.catch_up()
        page = ward.page("/tickets", session)[1]
        assert page.count("Week 4: drug for ill, where version 1 gives watch.") == 2
        ledger.dismiss(tickets[0], "asked the site", by="office", unlikely=True)
        journal.catch_up()
        assert client.tell(tickets[2], **ILL | odd).doubts == ()


def test_a_forbidden_treatment_in_a_report_is_doubted_at_once(ward):
    ledger, journal, session = ward.ledger, ward.service.journal, ward.login("operator")
    asked = ledger.forbid([("week 0", "ill")], ["drug"], by="Dr Vega", reason="interaction")
    ledger.confirm(asked.number, by="Dr Roth", reason="agreed")
    says = "week 0: drug for ill, which is forbidden there; version 1 gives watch"
    with Client(ward.url, ward.tokens["site"]) as client:
        ticket = client.ask("p1").ticket
        with pytest.warns(ReportWarning, match=says):
            client.tell(ticket, **ILL)
    assert says.capitalize() in ward.page("/tickets", session)[1]
    planned = told(ward, "p2", **PLANNED)
    table = "patient,visit,treatment\np2,week 0,drug"
    for sheet in (
        ward.post("/amend", session, ticket=planned, **typed()),
        ward.post("/corrections", session, pasted=table),
    ):
        assert "you filled in drug, which is forbidden there. Is it a" in sheet[2].decode()
    late = lost(ward, "p3")
    assert f"Unlikely: north, p3, {says}." in ward.post("/late", session, ticket=late)[2].decode()
    right = typed(actions=("drug",) * 3, rewards=("0", "2", "3"))
    sheet = ward.post("/amend", session, ticket=ticket, **right)[2].decode()
    assert "The report of the site, p1 stays in the list of unlikely reports." in sheet
    ward.post("/amend", session, ticket=ticket, **right, reason="typing error", **SURE)
    journal.catch_up()
    assert 1 in journal.doubted
    right = PLANNED | {"states": ["ill"] * 3}
    ledger.amend(ticket, **right, reason="typing error", by="office")
    journal.catch_up()
    assert 1 not in journal.doubted


def test_an_unlikely_successor_is_doubted_again_until_somebody_settles_it(ward):
    ledger, journal = ward.ledger, ward.service.journal
    ledger.tell_many([ask | ILL for ask in tickets_of(ward, "u", 101)])
    journal.catch_up()
    odd = ILL | {"states": ["ill", "well", "ill"]}
    several = tickets_of(ward, "p", 3)
    for ask in several[:2]:
        ledger.tell_many([ask | odd])
    journal.catch_up()
    first, second = (journal.doubted[number][1] for number in (102, 103))
    assert first == ["week 4: well after ill, which never happened in 202 cases of ill before"]
    assert second == [first[0] + ", except in 1 report that nobody settled yet"]
    ledger.dismiss(several[0]["ticket"], "looked up", by="office", unlikely=True)
    ledger.tell_many([several[2] | odd])
    journal.catch_up()
    assert sorted(journal.doubted) == [103]


def tickets_of(served, name, count):
    """Tickets of new patients, each as the beginning of a report."""
    issued = served.ledger.ask_many("north", [f"{name}{i}" for i in range(count)])
    return [{"ticket": one.ticket} for one in issued]


def test_an_entered_report_had_no_end_before(ward):
    session, ticket = ward.login("operator"), lost(ward)
    first = typed(("ill", "", ""), ("drug", "", ""), ("1", "", ""), "truncated")
    sheet = ward.post("/amend", session, ticket=ticket, **first)[2].decode()
    assert "How it ended: it was not seen to its end." in sheet


def test_a_client_corrects_many_reports_at_once(ward):
    tickets = [told(ward, f"p{number}") for number in range(2)]
    reports = [{"ticket": one, **ILL, "rewards": [4, 4, 4]} for one in tickets]
    with Client(ward.url, ward.tokens["operator"]) as client:
        done = client.amend_many(reports, reason="checked", request="once")
        assert client.amend_many(reports, reason="checked", request="once") == done
    assert [one.ticket for one in done] == tickets
    assert ward.ledger.status().events == done[-1].event


# ---- lists ---------------------------------------------------------------------------------------


def test_every_report_can_be_found_and_listed(ward):
    session = ward.login("operator")
    for number in range(205):
        told(ward, f"p{number:03}")
    first = ward.page("/tickets?status=learned", session)[1]
    assert first.count("<strong>p") == 200
    (last,) = re.findall(r'after=(\d+)"', first)
    second = ward.page(f"/tickets?status=learned&after={last}", session)[1]
    assert re.findall(r"<strong>(p\d+)", second) == [f"p{n}" for n in range(200, 205)]
    found = ward.page("/tickets?search=P203", session)[1]
    assert re.findall(r"<strong>(p\d+)", found) == ["p203"]
    assert ">correct</a>" in found
    assert re.findall(r"<strong>(p\d+)", ward.page("/tickets?search=204", session)[1]) == [
        "p203",  # by its number
        "p204",
    ]
    (ticket,) = re.findall(r'href="/audit\?search=(\w+)">history', found)
    assert "patient 204: north, p203" in ward.page(f"/audit?search={ticket}", session)[1]
    page = ward.page("/tickets?status=learned&site=north&days=1", session)[1]
    assert "Only site north, patients enrolled 1 day ago or earlier." in page
    assert "No patient fits." in ward.page("/tickets?search=%25", session)[1]
    told(ward, "=1+1", site="south")
    _, headers, body = ward.request(
        "GET", "/tickets.csv?status=learned", headers={"Cookie": session[0]}
    )
    rows = list(csv.reader(io.StringIO(body.decode())))
    assert headers["content-disposition"] == 'attachment; filename="reports-learned.csv"'
    assert rows[0][:6] == ["ticket", "number", "site", "patient", "enrolled", "status"]
    assert rows[0][6:] == ["declared missing", "by", "reason", "version"]
    assert (len(rows), rows[-1][2:4]) == (207, ["south", "'=1+1"])
    assert ward.page("/tickets.csv?status=none", session)[0] == 400


def test_a_list_says_who_declared_reports_missing_and_why(ward):
    session = ward.login("auditor")
    told(ward, "p1")
    lost(ward, "p12")
    told(ward, "q1")
    assert "/tickets.csv?search=p1" in ward.page("/tickets?search=p1", session)[1]
    rows = list(csv.reader(io.StringIO(ward.page("/tickets.csv?search=p1", session)[1])))[1:]
    assert [row[3] for row in rows] == ["p1", "p12"]
    assert rows[0][6:] == ["", "", "", "1"]
    assert rows[1][7:] == ["office", "moved abroad", "1"]


def test_the_next_tickets_are_selected_with_the_first_ones(ward):
    session = ward.login("operator")
    tickets = [one.ticket for one in ward.ledger.ask_many("north", [f"p{n}" for n in range(201)])]
    page = ward.post("/missing", session, show="select=all")[2].decode()
    assert page.count(" checked") == 200
    page = ward.post("/missing", session, ticket=tickets[:200], show="after=200")[2].decode()
    assert page.count('type="hidden" name="ticket"') == 200
    assert f'type="checkbox" name="ticket" value="{tickets[200]}"' in page


def test_names_that_look_the_same_are_pointed_out(ward):
    session = ward.login("operator")
    ward.ledger.ask_many("north", ["p1", "p2", "late-1"])
    ward.ledger.ask("south", "Late-1")  # at another site it is another patient
    assert "Names that look the same" not in ward.page("/tickets", session)[1]
    ward.ledger.ask_many("north", ["late-1 ", "Late-1"])
    page = ward.page("/tickets", session)[1]
    card = re.search('id="alike">.*?</section>', page)[0]
    assert re.findall("“(.*?)”</a> .number (.*?).(?:,|<)", card) == [
        ("late-1", "3"),
        ("late-1 ", "5"),
        ("Late-1", "6"),
    ]
    assert "south" not in card


def test_open_reports_are_counted_for_each_site(ward):
    session = ward.login("operator")
    ward.ledger.ask_many("north", ["p1", "p2"])
    ward.ledger.ask("south", "p3")
    text = ward.page("/tickets", session)[1]
    owing = re.findall(r'">(\w+)</a></th><td class="n">(\d+)</td>', text)
    assert owing == [("north", "2"), ("south", "1")]


TABLE = "ticket,ward\np1,north\n\n p 2 ;south\np3\t1\n" + '"p,4",x\np3\n'
PASTED = {  # what is pasted, who is meant, and how many cells are no names
    "lines": ("p1\np3", [1, 3], 0),
    "commas": ("p1, p3,p1", [1, 3], 0),
    "tabs": ("p1\tp3", [1, 3], 0),
    "spaces, as a field of one line makes of lines": ("p1 p3", [1, 3], 0),
    "a name with a space": ("p 2", [2], 0),
    "commas in lines": ("p1, p3\np5,p6", [1, 3, 5, 6], 0),
    "numbers": ("1,002\n3\npatient 5", [3, 5, 1002], 0),
    "numbers with commas": ("3, 5, 6", [3, 5, 6], 0),
    "numbers as our pages write them": ("1,002, 3, 999", [3, 999, 1002], 0),
    "a table": (TABLE, [1, 2, 3, 4], 4),
    "a table with ages": ("patient;age\np1;6\np3;5", [1, 3], 2),
    "a table with facts that are no names": ("p1,6.5\np3,male", [1, 3], 2),
    "a site that fits": ("patient,site\np1,north\np3,North", [1, 3], 0),
    "names and numbers that agree": ("Number,Patient,Site\n3,p3,north\n1,,north", [1, 3], 0),
    "a name with a comma, in quotes": ('patient,site\n"p,4",north', [4], 0),
    "a name that a spreadsheet would run": ("patient\n'=1+1\np3", [3, 1003], 0),
    "a name with a semicolon": ("patient,site\nO'Neil; Ann,north", [1004], 0),
    "our own page": ("\tNumber\tSite\tPatient\tTicket\n\t3\tnorth\tp3\thistory 12", [3], 1),
    "our own page without its heading": ("\t3\tnorth\tp3\thistory 12", [3], 3),
}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    with Ledger.create(folder / "run.db", **WARD | {"episodes": 1004}) as ledger:
        names = ["p1", "p 2", "p3", "p,4", *(f"p{number}" for number in range(5, 1003))]
        names += ["=1+1", "O'Neil; Ann"]
        for first in range(0, len(names), 500):
            ledger.ask_many("north", names[first : first + 500])
        yield ledger


@pytest.mark.parametrize("name", PASTED)
def test_the_names_in_what_is_pasted(many, name):
    text, numbers, ignored = PASTED[name]
    found = names_in(many, text)
    assert (found.numbers, found.unknown, len(found.ignored)) == (numbers, [], ignored)
    assert not found.wrong


TWICE = {  # lists that can be read in two ways, or contradict themselves, and what is said of them
    "p1,6\np3,5": "'6' stands beside 'p1', and is a patient, too (north, p6). If you mean both",
    "1,6\n3,5": "'6' stands beside '1', and is a patient, too (north, p6)",
    "p1\t1002": "'1002' stands beside 'p1', and is a patient, too (north, p1002)",
    "p1,1,157": "'157' stands beside 'p1', and is a patient, too (north, p157)",
    "1001,p6\n1002,p7": "'p6' stands beside '1001', and is a patient, too (north, p6)",
    "patient,site\np3,west": "line 2: 'p3' is north, p3, and not of the site west",
    "ticket,patient\n{0},p3": "line 2: 'p3' is north, p3, and not '{0}'",
    "number,patient\n\n7,p3": "line 3: 'p3' is north, p3, and not '7'",
    "patient,age\n,6": "line 2 names no patient",
}


@pytest.mark.parametrize("text", TWICE)
def test_a_list_that_can_be_read_in_two_ways_is_refused(many, text):
    ticket = many.list_tickets(among=[1])[0].ticket
    found = names_in(many, text.format(ticket))
    assert found.wrong
    assert found.wrong[0].startswith(TWICE[text].format(ticket))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("patient,Patient\np1,p3", "the heading “patient” is there twice"),
        ("patient,site\nMüller, Anna,north", "line 2 has 3 cells, and only 2 headings are above"),
    ],
)
def test_a_table_whose_columns_are_unclear_is_refused(many, text, says):
    with pytest.raises(LedgerError, match=re.escape(says)):
        names_in(many, text)


def test_numbers_that_can_be_read_in_two_ways_are_refused(many):
    with pytest.raises(LedgerError, match="1,001,1,002 can be 2 or 4 numbers; write one number"):
        names_in(many, "1,001,1,002")
    assert names_in(many, "101,102,103,104").numbers == [101, 102, 103, 104]


def test_a_list_in_the_field_of_the_search_finds_everybody_in_it(ward):
    session = ward.login("operator")
    ward.ledger.ask_many("north", ["p1", "p2", "p3"])
    told(ward, "p4")
    page = ward.page("/tickets?search=p1%2C+p4%2C+p9", session)[1]
    assert re.findall(r"<strong>(p\d+)", page) == ["p1", "p4"]
    assert "2 patients of the 3 in your list. " in page
    assert "Nobody is called p9." in page
    rows = ward.page("/tickets.csv?search=p1%2C+p4%2C+p9", session)[1].splitlines()
    assert [row.split(",")[3] for row in rows] == ["patient", "p1", "p4"]


@pytest.mark.parametrize("asked", ["1,002, zz", "1,002 zz", "zz, 1,002", "zz; p1002"])
def test_an_unknown_name_in_a_search_does_not_hide_the_known_one(many, asked):
    listed, found = looked_for(many, None, None, 9, 0, asked)
    assert [one.number for one in listed] == [1002]
    assert (found.numbers, found.unknown) == ([1002], ["zz"])


def test_reports_are_pasted_by_the_names_that_people_see(ward):
    session = ward.login("operator")
    issued = ward.ledger.ask_many("north", ["patient 1", "patient 2", "patient 3"])
    pasted = f"ticket,site\n{issued[0].ticket[:12]},north\nPatient 2\n{issued[2].ticket}\n"
    sheet = ward.post("/missing", session, pasted=pasted)[2].decode()
    assert "Declare 3 reports missing?" in sheet
    assert "North: patient 1, patient 2, patient 3." in sheet
    assert "The newest of them was enrolled" in sheet
    ward.ledger.ask("south", "patient 1")
    told(ward, "patient 4")
    for name, says in (
        ("patient 9", "No patient and no ticket is called 'patient 9'"),
        ("patient 1", "several patients (north, patient 1: number 1; south, patient 1: number 4)"),
        ("patient 4", "the report of north, patient 4 is not open, but waiting"),
        (issued[0].ticket[:4], "No patient and no ticket"),
        ("PATIENT 4", "the report of north, patient 4 is not open, but waiting"),
    ):
        status, _, body = ward.post("/missing", session, pasted=f"{name}\n")
        assert status in (404, 422)
        assert says.lower() in alert(body.decode()).lower()
        assert f'rows="4">{name}' in body.decode()


def test_names_that_differ_in_capitals_alone_are_told_apart(ward):
    session = ward.login("operator")
    ward.ledger.ask_many("north", ["p1", "P1", "q1"])
    assert "North: P1." in ward.post("/missing", session, pasted="P1\n")[2].decode()
    assert "North: q1." in ward.post("/missing", session, pasted="Q1\n")[2].decode()


def test_an_open_report_that_was_found_is_settled_from_there(ward):
    session, ticket = ward.login("operator"), ward.ledger.ask("north", "p17").ticket
    told(ward, "p171")
    page = ward.page("/tickets?search=p17", session)[1]
    assert re.findall(r'type="checkbox" name="ticket" value="(\w+)"', page) == [ticket]
    page = ward.post("/missing", session, search="p17", show="select=all")[2].decode()
    assert page.count(" checked") == 1
    assert "All reports of patients whose name contains “p17”" in page
    sheet = ward.post("/missing", session, search="p17", ticket=ticket)[2].decode()
    assert "North: p17." in sheet
    assert 'type="checkbox"' not in ward.page("/tickets?search=p171", session)[1]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/missing", {"pasted": "p9"}),
        ("/missing", {}),
        ("/corrections", {"pasted": "p9"}),
        ("/amend", typed(rewards=("x", "2", "3"))),
        ("/freeze", {"reason": ""}),
    ],
)
def test_a_refused_form_leads_to_what_is_wrong_with_it(ward, path, fields):
    (cookie, form), ticket = ward.login("operator"), told(ward)
    body = urlencode({"form": form, "ticket": ticket} | fields, doseq=True).encode()
    place = ward.request("POST", path, body, headers=ward.form_headers(cookie))[1]["location"]
    assert place.endswith("#wrong")
    text = ward.page(place.partition("#")[0], (cookie, form))[1]
    assert text.count('id="wrong"') == 1


def test_a_list_that_is_settled_by_now_is_not_offered_again(ward):
    session = ward.login("operator")
    tickets = [one.ticket for one in ward.ledger.ask_many("north", ["p1", "p2"])]
    page = ward.post("/missing", session, ticket=tickets)[2].decode()
    read = re.search(r'name="read" value="(\w+)"', page)[1]
    fields = {"ticket": tickets, "reason": "lost", "read": read, **SURE}
    assert ward.post("/missing", session, **fields)[0] == 303
    assert "2 reports are recorded as missing." in ward.page("/tickets", session)[1]
    for again in (fields, {**fields, "sure": ""}):  # sent again after going back
        status, headers, _ = ward.post("/missing", session, **again)
        assert (status, headers["location"]) == (303, "/tickets")
        page = ward.page("/tickets", session)[1]
        assert "Nothing was done: the report of north, p1 is not open, but missing, and" in page
    assert ward.ledger.status().missing == 2


def test_a_preview_for_one_report_speaks_of_one(ward):
    session = ward.login("operator")
    ward.ledger.ask_many("north", ["p1", "Müller, Anna", "O'Neil; Ann"])
    page = html.unescape(ward.post("/missing", session, pasted="p1")[2].decode())
    for says in ("It was enrolled ", "It was enrolled within the last day,", "without it."):
        assert says in page
    page = html.unescape(ward.post("/missing", session, pasted="1\n2\n3")[2].decode())
    assert "North: p1, “Müller, Anna”, “O'Neil; Ann”." in page
    refused = ward.post("/missing", session, pasted="late-99\nlte-9")[2].decode()
    assert "called 'late-99' or 'lte-9'; nothing was selected" in alert(refused)


def test_a_correction_asks_about_an_outcome_that_never_was_and_shows_it_plainly(ward):
    session, ticket = ward.login("operator"), told(ward)
    ward.ledger.tell_many([one | ILL for one in tickets_of(ward, "u", 40)])
    ward.service.journal.catch_up()
    right = typed(rewards=("1e-3", "2", "3"))
    sheet = ward.post("/amend", session, ticket=ticket, **right)[2].decode()
    assert "Week 0, good weeks: 1 → 0.001." in sheet
    says = "good weeks 0.001; all 123 reported before are whole numbers. Is it a typing error?"
    assert f"Week 0: {says}" in sheet
    table = "patient,visit,good weeks\np1,week 0,0.001"
    assert says in ward.post("/corrections", session, pasted=table)[2].decode()


def test_all_errors_of_a_table_come_together_with_their_lines(ward):
    session, _ = ward.login("operator"), told(ward)
    told(ward, "p2")
    table = "patient,visit,treatment,good weeks\np1,week 0,drog,1\n\np2,week 4,drug,0,5\n"
    assert "Line 4 has 5 cells" in alert(
        ward.post("/corrections", session, pasted=table)[2].decode()
    )
    text = alert(ward.post("/corrections", session, pasted=table.replace("0,5", "7"))[2].decode())
    assert "Line 2: there is no treatment 'drog'" in text
    assert "line 4: good weeks must lie between 0 and 4, and 7 does not" in text


# ---- tokens --------------------------------------------------------------------------------------


def test_a_token_is_revoked_by_its_id_and_with_what_follows(ward):
    session = ward.login("operator")
    only = ward.tokens["site"].partition(".")[0]
    sheet = ward.post("/tokens/revoke", session, id=only)[2].decode()
    assert f"Revoke the token {only} of the site (site)?" in sheet
    assert "never used" in sheet
    assert "The site has no other token that works. It can neither enrol nor report" in sheet
    ward.access.rotate(only, days=90, by="office")
    sheet = ward.post("/tokens/revoke", session, id=only)[2].decode()
    assert "The site has 1 other token that works." in sheet
    page = ward.page("/tokens", session)[1]
    assert "replaced, still works" in page
    ward.post("/tokens/revoke", session, id=only, **SURE)
    page = ward.page("/tokens", session)[1]
    assert re.search(r"revoked on \d{4}-\d\d-\d\d \d\d:\d\d UTC by the operator", page)


# ---- the audit -----------------------------------------------------------------------------------


def said(page):
    """What the audit says of each of its events."""
    lines = (re.findall(r'<div class="small">(.*?)</div>', one) for one in page.split("<tr>")[2:])
    return ["; ".join(html.unescape(line) for line in one) for one in lines]


def test_the_audit_says_who_made_and_revoked_tokens(ward):
    session, only = ward.login("operator"), ward.tokens["site"].partition(".")[0]
    ward.post("/tokens/revoke", session, id=only, **SURE)
    words = f"token {only} of the site (site)"
    page = html.unescape(ward.page("/audit", ward.login("auditor"))[1])
    assert "<h2>Tokens made and revoked</h2>" in page
    assert f'<td class="small">{words}</td>' in page
    assert f"{words}, until " in page
    everything = html.unescape(ward.page("/audit?kind=access", session)[1])
    assert "<strong>login</strong>" in everything
    assert "<strong>enrolled</strong>" not in everything
    assert "Only events that fit: access." in everything
    found = ward.page("/audit?kind=access&person=the+operator&search=revoked", session)[1]
    assert found.count("<strong>token revoked</strong>") == 1
    assert "No event fits." in ward.page("/audit?kind=access&until=2020-01-01", session)[1]
    reviewer = ward.login("reviewer")
    assert only not in ward.page("/audit", reviewer)[1]
    assert ward.page("/audit?kind=access", reviewer)[0] == 400


def test_a_correction_says_from_what_to_what_and_of_whom(ward):
    session, ticket = ward.login("auditor"), told(ward)
    ward.ledger.amend(
        ticket,
        states=["ill", "ill"],
        actions=["drug", "watch"],
        rewards=[1, 4],
        ended="truncated",
        reason="query 17",
        by="office",
    )
    (correction,) = said(ward.page("/audit?kind=amended", session)[1])
    assert correction == (
        "patient 1: north, p1; findings: ill, ill, ill → ill, ill;"
        " treatments: drug, drug, drug → drug, watch; good weeks: 1, 2, 3 → 1, 4;"
        " how it ended: it was seen to its end → it was not seen to its end; reason: query 17"
    )
    late = lost(ward, "p2")
    ward.ledger.amend(late, **ILL, reason="by post", by="office")
    taken, _ = said(ward.page("/audit?kind=amended", session)[1])
    assert "findings: nothing → ill, ill, ill" in taken
    assert "how it ended: no report came → it was seen to its end" in taken


@pytest.mark.parametrize("name", ["p1", "patient 1", "Patient 1", "{ticket}", "{ticket:.12}"])
def test_the_audit_finds_all_that_happened_to_a_patient(ward, name):
    session, ticket = ward.login("auditor"), told(ward)
    told(ward, "p11")
    with pytest.raises(ConflictError):
        ward.ledger.tell(ticket, **ILL | {"rewards": [4, 4, 4]})
    ward.ledger.amend(ticket, **ILL | {"rewards": [4, 4, 4]}, reason="query 17", by="office")
    words = quote(name.format(ticket=ticket))
    found = said(ward.page(f"/audit?search={words}", session)[1])
    assert sum(one.startswith("patient 1: ") for one in found) == 4
    assert not any("patient 2: north" in one for one in found)  # which is p11
    assert len(said(ward.page(f"/audit?search={words}&kind=conflict", session)[1])) == 1


def test_a_filtered_audit_says_so_on_paper(ward):
    session = ward.login("auditor")
    told(ward)
    assert "Only events that fit" not in ward.page("/audit", session)[1]
    page = ward.page("/audit?kind=told&person=north&search=p1&since=2026-01-01&before=9", session)
    assert (
        "<p>Only events that fit: reported; by north; containing “p1”; from 2026-01-01;"
        " before event 9.</p>"
    ) in page[1]


def test_the_list_of_the_audit_is_downloaded_in_its_words(ward):
    session, ticket = ward.login("auditor"), told(ward, "=p1")
    late = lost(ward, "p2")
    asked = ward.ledger.forbid([(0, 0)], ["drug"], by="Dr Vega", reason="harm")
    ward.ledger.decline(asked.number, by="Dr Vega", reason="a mistake")
    asked = ward.ledger.forbid([(0, 1)], ["drug"], by="Dr Vega", reason="harm")
    ward.ledger.decline(asked.number, by="Dr Roth", reason="no")

    def table(query):
        status, text = ward.page(f"/audit.csv?{query}", session)
        assert status == 200
        return list(csv.DictReader(io.StringIO(text)))

    first = table("kind=told")[0]
    assert (first["who"], first["kind"], first["number"]) == ("north", "reported", "3")
    assert first["what"].startswith("patient 1: north, =p1; findings: ill, ill, ill; treatments:")
    assert first["hash"] == ward.ledger.store.event(3)[2]
    assert [one["kind"] for one in table("kind=declined")] == [
        "request turned down",
        "request withdrawn",
    ]
    page = html.unescape(ward.page("/audit?kind=declined", session)[1])
    assert "<strong>request withdrawn</strong>" in page
    assert "declined a request" not in page
    assert 'href="/audit.csv?kind=declined"' in page
    assert [one["kind"] for one in table("kind=refused")] == ["report came too late"]
    assert [one["who"] for one in table("person=office&since=2026-01-01")] == ["office"]
    assert len(table("")) == ward.ledger.status().events
    assert {"login", "token made"} <= {one["kind"] for one in table("kind=access")}
    assert "lowswitch ledger verify events.jsonl" in ward.page("/audit", session)[1]
    assert ward.page("/audit.csv?since=yesterday", session)[0] == 422
    assert ward.page("/audit.csv?kind=access", ward.login("reviewer"))[0] == 400
    rows = ward.page("/tickets.csv?status=refused", session)[1]
    assert f"{late},2,north,p2," in rows
    assert ",came too late," in rows
    assert ticket not in rows


def test_no_page_says_childs(tmp_path):
    ward = WARD | {"words": WARD["words"] | {"episode": "child", "state": "diagnosis"}}
    with Served(tmp_path, **ward) as served:
        session, ticket = served.login("operator"), told(served)
        for number in range(2, 5):
            told(served, f"p{number}")
        served.ledger.propose(by="office")
        paths = ("/", "/proposal", "/map", "/timeline", "/tickets", "/roles", "/row?step=0&state=1")
        pages = [served.page(path, session)[1] for path in paths]
        pages.append(served.post("/missing", session, ticket=ticket)[2].decode())
        assert not [path for path, page in zip(paths, pages, strict=False) if "childs" in page]
        assert not [path for path, page in zip(paths, pages, strict=False) if "diagnosiss" in page]
        assert "4 children enrolled" in pages[0]


# ---- a batch, while reports come -----------------------------------------------------------------


def test_a_report_that_comes_meanwhile_does_not_stop_a_batch(ward):
    session = ward.login("operator")
    tickets = [one.ticket for one in ward.ledger.ask_many("north", [f"p{n}" for n in range(223)])]
    page = ward.post("/missing", session, ticket=tickets)[2].decode()
    read = re.search(r'name="read" value="(\w+)"', page)[1]
    ward.ledger.tell(tickets[7], **ILL)
    fields = {"ticket": tickets, "reason": "lost to follow-up", **SURE}
    assert ward.post("/missing", session, **fields, read=read)[0] == 303
    page = ward.page("/tickets", session)[1]
    assert "222 reports are recorded as missing." in page
    assert "1 other was settled before, and left out: north, p7." in page
    assert (ward.ledger.status().missing, ward.ledger.status().open) == (222, 0)
    assert "is not open, but waiting" not in page


def test_a_batch_with_settled_reports_says_beforehand_that_they_are_left_out(ward):
    session, ticket = ward.login("operator"), told(ward, "p2")
    first = ward.ledger.ask("north", "p1").ticket
    page = ward.post("/missing", session, pasted=f"p1\n{ticket}")[2].decode()
    assert "Declare 1 report missing?" in page
    assert "1 selected report is settled already, and left out: north, p2 (learned)." in page
    with Client(ward.url, ward.tokens["operator"]) as client:
        left_out = client.missing_many([first, ticket], "lost", still_open=True, request="once")
        assert left_out == [ticket]
        again = client.missing_many([first, ticket], "lost", still_open=True, request="once")
        assert again == [ticket]


def test_a_refused_report_is_shown_before_its_ticket_is_declared_missing(ward):
    session = ward.login("operator")
    with Client(ward.url, ward.tokens["site"]) as client:
        ticket, other = client.ask("p1").ticket, client.ask("p2").ticket
        page = ward.post("/missing", session, ticket=[ticket, other])[2].decode()
        assert "did send" not in page
        read = re.search(r'name="read" value="(\w+)"', page)[1]
        with pytest.raises(LedgerError, match="outside"):
            client.tell(ticket, states=[1, 0, 1], actions=["drug"] * 3, rewards=[1, 2, 7])
    fields = {"ticket": [ticket, other], "reason": "lost", **SURE}
    status, _, body = ward.post("/missing", session, **fields, read=read)
    page = html.unescape(body.decode())
    assert (status, "no longer what you read" in page) == (409, True)
    assert "The site did send a report of p1, on 20" in page
    assert "It cannot be right: Good weeks: 7 is outside of the declared range [0, 4]" in page
    assert (
        "That report said: week 0 ill, drug, 1; week 4 well, drug, 2; week 12 ill, drug, 7." in page
    )
    assert "It said: week 0 ill, drug, 1;" in ward.page("/tickets", session)[1]


# ---- a report that changed after its form was opened ---------------------------------------------


def test_a_correction_of_a_report_that_changed_meanwhile_shows_both(ward):
    session, ticket = ward.login("operator"), told(ward)
    form = ward.page(f"/amend?ticket={ticket}", session)[1]
    seen = re.search(r'name="seen" value="(\d+)"', form)[1]
    ward.ledger.amend(ticket, **ILL | {"rewards": [0, 2, 3]}, by="Ms Okafor", reason="query 4")
    fields = typed(rewards=("1", "2", "4")) | {"ticket": ticket}
    status, _, body = ward.post("/amend", session, **fields, seen=seen)
    page = html.unescape(body.decode())
    assert (status, "somebody changed this report after you opened" in page) == (409, True)
    assert page.count("on record: ") == 2
    assert "on record: 0</span>" in page
    assert "on record: 3</span>" in page
    assert "Report corrected by Ms Okafor (“query 4”) on 20" in page
    assert ": week 0, good weeks: 1 → 0." in page
    assert re.findall(r'name="reward" value="([^"]*)"', page) == ["1", "2", "4"]
    now = re.search(r'name="seen" value="(\d+)"', page)[1]
    sheet = ward.post("/amend", session, **fields, seen=now)[2].decode()
    assert "Week 0, good weeks: 0 → 1." in sheet
    assert "Week 12, good weeks: 3 → 4." in sheet
    assert "you opened the form" not in sheet
    read = re.search(r'name="read" value="(\w+)"', sheet)[1]
    ward.ledger.amend(ticket, **ILL | {"rewards": [0, 0, 3]}, by="Ms Okafor", reason="query 5")
    sure = {"seen": now, "read": read, "reason": "typing error", **SURE}
    status, _, body = ward.post("/amend", session, **fields, **sure)
    assert status == 409
    assert "After you opened the form: report corrected by Ms Okafor (“query 5”)" in body.decode()
    assert ward.ledger.newest(1, kind="amended")[0].payload["rewards"] == [0, 0, 3]


# ---- a reviewer who is needed --------------------------------------------------------------------


def test_a_person_whose_token_is_revoked_is_told_and_a_silent_site_is_named(ward):
    session, reviewer = ward.login("operator"), ward.login("reviewer")
    identity = ward.tokens["reviewer"].partition(".")[0]
    ward.access.revoke(identity, by="office")
    status, headers, _ = ward.request("GET", "/", headers={"Cookie": reviewer[0]})
    assert (status, headers["location"]) == (303, "/login?ended=1")
    page = ward.page("/login?ended=1", reviewer)[1]
    assert "or your token expired or was revoked. Log in again" in page
    assert ward.request("GET", "/")[1]["location"] == "/login"
    assert (
        "log in with your own"
        in ward.post("/login", ("", ""), token=ward.tokens["site"])[2].decode()
    )
    assert "<p>There is no such page.</p>" in ward.page("/nowhere", session)[1]
    with Client(ward.url, ward.tokens["site"]) as client:
        client.ask("p1")
    assert "no working token to send" not in ward.page("/", session)[1]
    ward.ledger.ask_many("north", ["p2", "p3"])
    page = ward.page("/", session)[1]
    assert "north owes 2 reports and has no working token to send them with." in page
    assert "no working token to send" not in ward.page("/", ward.login("auditor"))[1]


def test_pages_count_as_use_of_a_token(ward, monkeypatch):
    session = ward.login("operator")
    identity = ward.tokens["operator"].partition(".")[0]
    ward.access._last[identity] = "2026-01-01T00:00+00:00"
    ward.page("/roles", session)
    (mine,) = [one for one in ward.access.tokens() if one.id == identity]
    assert mine.used > "2026-01-01T00:00+00:00"


def test_a_lapsed_request_is_shown_though_an_older_one_of_the_same_person_took_effect(ward):
    ledger, session = ward.ledger, ward.login("operator")
    for number in range(2):
        told(ward, f"p{number}", actions=["drug"] * 3)
        view = ledger.propose(by="the operator")
        asked = ledger.approve(view, by="Dr Vega", reason="yes")
        ledger.confirm(asked.number, by="Dr Roth", reason="yes")
    ledger.freeze(by="the operator", reason="an alarm")
    resume = ledger.thaw(by="the operator", reason="over")
    ledger.rollback(1, by="the operator", reason="an alarm")
    asked = ledger.rollback(2, by="Ms Okafor", reason="an alarm")
    ledger.confirm(asked.number, by="Dr Vega", reason="agreed")
    ledger.confirm(asked.number, by="Dr Roth", reason="agreed")
    assert "Asked for, and not carried out" in ward.page("/", session)[1]
    ledger.confirm(resume.number, by="Dr Vega", reason="agreed")
    ledger.confirm(resume.number, by="Dr Roth", reason="agreed")
    assert "Asked for, and not carried out" in ward.page("/", session)[1]


def test_the_open_reports_of_a_paused_run_are_counted_as_open(ward):
    session = ward.login("operator")
    ward.ledger.ask_many("north", ["p1", "p2"])
    ward.ledger.freeze(by="office", reason="an alarm")
    page = ward.page("/", session)[1]
    assert re.search(r'>open</th><td class="n">2</td>', html.unescape(page).replace("</span>", ">"))
    assert "✓ These counts add up to the 2 patients enrolled" in page


def test_what_follows_from_revoking_a_needed_reviewer_is_said_before(ward):
    session = ward.login("operator")
    assert "in this run, and only 1 reviewer has a working token" in ward.page("/", session)[1]
    ward.access.create(name="Dr Roth", role="reviewer", days=1)
    assert "so nothing can be decided" not in ward.page("/", session)[1]
    identity = ward.tokens["reviewer"].partition(".")[0]
    sheet = ward.post("/tokens/revoke", session, id=identity)[2].decode()
    says = "2 reviewers must agree in this run, and only 1 reviewer has a working token (Dr Roth)."
    assert f"After this, {says}" in sheet
    assert "a paused run cannot resume" in sheet
    status, _, body = ward.post("/tokens/revoke", session, id=identity, **SURE)
    assert (status, "Tick the box below" in body.decode()) == (422, True)
    assert ward.post("/tokens/revoke", session, id=identity, **SURE, consent="1")[0] == 303
    assert says[:-1] in ward.page("/", session)[1]
    third = ward.access.create(name="Dr Vega", role="reviewer", days=1).partition(".")[0]
    ward.access.create(name="Dr Lind", role="reviewer", days=1)
    assert "After this" not in ward.post("/tokens/revoke", session, id=third)[2].decode()


def test_a_pause_says_what_it_stops_and_that_it_cannot_be_undone(ward):
    session, ledger = ward.login("operator"), ward.ledger
    stops = (
        "no patient can be enrolled, no report can be sent, settled or corrected, and no change"
        " can be approved, postponed or allowed again"
    )
    says = "2 reviewers must agree in this run, and only 1 reviewer has a working token"
    for path in ("/", "/freeze"):
        page = html.unescape(ward.page(path, session)[1])
        assert f"Until the run resumes, {stops}" in page
        assert f'<p class="warn">{says}' in page
        assert "back to an earlier version" not in page
        assert "put an earlier version back" not in page
    told(ward, actions=["drug"] * 3)
    page = html.unescape(ward.page("/", ward.login("auditor"))[1])
    assert "A reviewer or an operator can pause it; your role is auditor." in page
    ward.post("/freeze", session, reason="an alarm")
    page = html.unescape(ward.page("/", session)[1])
    assert f"Until the run resumes, {stops}." in page
    with pytest.raises(LedgerError, match=stops):
        ledger.ask("north", "p2")
    sheet = html.unescape(ward.post("/thaw", session)[2].decode())
    assert "So this cannot take effect until another reviewer has one." in sheet
    assert ">Ask to resume the run</button>" in sheet
    ward.access.create(name="Dr Roth", role="reviewer", days=1)
    sheet = html.unescape(ward.post("/thaw", session)[2].decode())
    assert "cannot take effect" not in sheet
    assert says not in html.unescape(ward.page("/", session)[1])


def test_the_reports_of_sites_add_up_to_those_learned(ward):
    session = ward.login("operator")
    told(ward, "p1")
    late, never = lost(ward, "p2"), ward.ledger.ask("south", "p3").ticket
    ward.ledger.missing(never, "moved", by="office")
    ward.post("/late", session, ticket=late, reason="they came", **SURE)
    ward.ledger.amend(never, **ILL, reason="by post", by="office")
    ward.ledger.amend(never, **ILL | {"rewards": [0, 0, 0]}, reason="typing error", by="office")
    page = ward.page("/", session)[1]
    sites = re.findall(r'<th scope="row">(\w+)</th><td class="n">(\d+)</td>', page)
    assert [one for one in sites if one[0] in ("north", "south")] == [
        ("north", "2"),
        ("south", "1"),
    ]
    assert ward.ledger.status().learned == 3


# ---- asking again --------------------------------------------------------------------------------


def test_asking_again_finds_the_same_until_something_is_new(tmp_path):
    options = WARD | {"algorithm": ls.few(deployments=4, asked=True, trial=0.2, members=16)}
    with Served(tmp_path, **options) as served:
        session, ledger = served.login("operator"), served.ledger
        for number in range(12):
            told(served, f"p{number}", rewards=[number % 4, 2, 3])
        before = ledger.propose(by="office")
        ledger.ask("north", "new")
        assert served.post("/propose", session)[0] == 303
        page = served.page("/proposal", session)[1]
        assert "Nothing was reported, corrected or decided since this proposal was made." in page
        served.post("/propose", session, **SURE)
        assert ledger.proposal() == before
        told(served, "q")
        sheet = served.post("/propose", session)[2].decode()
        assert "Ask for another proposal without 2 reports?" in sheet
        assert "not settled. What was reported first counts." not in sheet
        contradict(served, served.ledger.list_tickets(None)[0].ticket, 0, 0, 0)
        lost(served, "late")
        sheet = served.post("/propose", session)[2].decode()
        assert "Ask for another proposal without 3 reports?" in sheet
        assert "1 report is contradicted by a later one, unlikely or not as planned" in sheet
        assert "No report was learned since the pending proposal." in sheet
        assert "The trial will be another one even where the reports are the same" in sheet
        served.post("/propose", session, **SURE)
        assert ledger.proposal().event > before.event


# ---- the versions in the audit -------------------------------------------------------------------


def test_the_audit_finds_a_version(tmp_path):
    with Served(tmp_path, **WARD) as served:
        session, ledger = served.login("auditor"), served.ledger
        for number in range(4):
            told(served, f"p{number}", actions=["drug", "watch", "drug"])
            view = ledger.propose(by="office")
            assert view is not None
            ledger.approve(view, by="board", reason=f"meeting {number}")
        ledger.rollback(2, by="office", reason="an alarm")
        page = served.page("/audit?search=Version+2", session)[1]
        kinds = re.findall(r"<strong>([a-z ]+)</strong></td><td>", page)
        assert kinds == ["rolled back", "approved", "proposal"]
        assert 'href="/difference?from=1&amp;to=2"' in page
        assert "version 22" not in page
        assert "No event fits." in served.page("/audit?search=version+9", session)[1]


# ---- many corrections at once --------------------------------------------------------------------


def test_many_reports_are_corrected_from_the_table_that_was_downloaded(ward):
    session = ward.login("operator")
    tickets = [told(ward, f"p{number}") for number in range(3)]
    table = ward.page("/reports.csv?search=p0+p1+p2", session)[1].replace("\r", "")
    lines = table.splitlines()
    assert lines[0] == (
        "ticket,site,patient,visit,finding,treatment,good weeks,how it ended,report"
    )
    assert (len(lines), lines[9].split(",")[1:7]) == (
        10,
        ["north", "p2", "week 12", "ill", "drug", "3"],
    )
    ward.ledger.amend(tickets[1], **ILL | {"rewards": [0, 2, 3]}, by="Ms Okafor", reason="query 4")
    ward.ledger.amend(tickets[2], **ILL | {"rewards": [0, 2, 3]}, by="Ms Okafor", reason="query 5")
    wrong = "\n".join([*lines[:3], lines[3].replace("drug,3", "drug,4"), *lines[4:]])
    wrong = wrong.replace("p2,week 4,ill,drug,2", "p2,week 4,well,drug,2")
    page = ward.post("/corrections", session, pasted=wrong)[2].decode()
    page = html.unescape(page)
    assert "Correct 1 report?" in page
    assert "<li>North, p0: week 12, good weeks: 3 → 4.</li>" in page
    assert "North, p2 is left out, because its report changed after your table was made." in page
    assert "report corrected by Ms Okafor (“query 5”)" in page
    assert "query 4" not in page  # its report was not touched in the table
    done = ward.post("/corrections", session, pasted=wrong, reason="checked", **SURE)
    assert done[0] == 303
    assert (
        "1 report is corrected. 1 other was left out, because of a change after your table was"
        " made: north, p2."
    ) in ward.page("/tickets", session)[1]
    rewards = [ward.ledger.report_of(one)[1]["rewards"] for one in tickets]
    assert rewards == [[1, 2, 4], [0, 2, 3], [0, 2, 3]]
    assert ward.ledger.newest(1, kind="amended")[0].payload["reason"] == "checked"


def test_empty_cells_of_a_table_stay_as_they_are(ward):
    session, _, _ = ward.login("operator"), told(ward), told(ward, "p1", site="south")
    pasted = "Patient\tSite\tVisit\tFinding\tGood weeks\tHow it ended\n"
    pasted += "p1\tsouth\tweek 4\tWell\t\t\np1\tsouth\tWeek 12\t\t0\t\n"
    page = html.unescape(ward.post("/corrections", session, pasted=pasted)[2].decode())
    assert "South, p1: week 4, finding: ill → well; week 12, good weeks: 3 → 0." in page
    back = ward.post("/corrections", session, pasted=pasted, confirming="1", show="back=1")
    assert "p1\tsouth\tweek 4\tWell" in html.unescape(back[2].decode())


BAD = {
    "": "Paste a table with a line of headings",
    "patient,visit,colour\np1,week 0,red": "There is no column 'colour'; the headings are ticket,",
    "visit,finding\nweek 0,ill": "The table has no column 'patient'",
    "patient,finding\np1,well": "The table has no column 'visit'",
    "patient,visit,finding\np9,week 0,ill\np1,week 1,ill": (
        "Line 2: 'p9' is no patient of this run; line 3: there is no visit 'week 1'"
    ),
    "patient,visit,finding\nopen,week 0,ill": "Line 2: the report of open is open",
    "patient,visit,finding\np1,week 0,il": "Line 2: there is no finding 'il'",
    "patient,visit,finding\np1,week 0,ill": "Your table changes no report",
    "patient,visit,good weeks\np1,week 0,40": "Line 2: good weeks must lie between 0 and 4",
    "patient,visit,treatment,good weeks\np1,week 0,drog,1\np2,week 4,drug,1.5x": (
        "there is no treatment 'drog'"
    ),
    "patient,visit,finding,treatment,good weeks\np1,week 4,,,0\np1,week 0,,,x": (
        "Line 3: 'x' is not a number"
    ),
    "patient,how it ended\np1,never": "Line 2: how it ended must be one of: it was seen",
    "patient,finding,visit\np1,well,": "Line 2 has no visit",
    "patient,visit,good weeks\np1,week 0,1\np1,week 0,2": (
        "Line 3: good weeks of week 0 of p1 is '2', but '1' in line 2"
    ),
    "ticket;patient;visit;finding\n{ticket};p2;week 0;well": (
        "Line 2: '{ticket}' is north, p1, and not 'p2'"
    ),
    "ticket,site,visit,finding\n{ticket},west,week 0,well": (
        "Line 2: '{ticket}' is north, p1, and not of the site west"
    ),
    "patient,visit,good weeks\n\np1,week 0,0,5": (
        "Line 3 has 4 cells, and only 3 headings are above it: '5' is too much. If a comma belongs"
    ),
    "patient;visit;good weeks;Good weeks\np1;week 0;0;1": "The heading “good weeks” is there twice",
    "patient,visit,good weeks\n,week 0,1": "Line 2: it names no patient",
    "patient,how it ended\np1,it was seen to its end\np1,it was not seen to its end": (
        "Line 3: how it ended of p1 is 'it was not seen to its end', but"
    ),
}


def test_corrections_say_how_much_is_taken_at_once(ward):
    page = ward.page("/corrections", ward.login("operator"))[1]
    assert "At once you can paste 100,000 characters, which is about 1,000 lines" in page


def test_a_wrong_table_stays_in_its_form_and_changes_nothing(ward):
    session, ticket = ward.login("operator"), told(ward)
    told(ward, "p2")
    ward.ledger.ask("north", "open")
    before, long = ward.ledger.status().events, "patient,visit,finding\n" + 50_000 * "p1"
    bad = BAD | {long: "has 100,022 characters, and 100,000 are taken"}
    for pasted, says in bad.items():
        pasted, says = (one.replace("{ticket}", ticket) for one in (pasted, says))
        status, _, body = ward.post("/corrections", session, pasted=pasted)
        text = html.unescape(body.decode())
        assert (status, says in alert(text)) == (422, True), (pasted, alert(text))
        assert f'spellcheck="false">{pasted}</textarea>' in text
    assert ward.ledger.status().events == before


def test_a_table_names_its_cases_by_ticket_and_name_together(ward):
    session, first = ward.login("operator"), told(ward, "O'Neil; Ann")
    told(ward, "=1+1")
    table = ward.page("/reports.csv", session)[1]
    pasted = table.replace("week 0,ill,drug,1", "week 0,ill,drug,4")
    page = html.unescape(ward.post("/corrections", session, pasted=pasted)[2].decode())
    assert "Correct 2 reports?" in page
    assert "North, =1+1: week 0, good weeks: 1 → 4." in page
    pasted = f"ticket,site,patient,visit,good weeks,,\n{first},NORTH,o'neil; ann,week 4,0,,\n"
    page = html.unescape(ward.post("/corrections", session, pasted=pasted)[2].decode())
    assert "North, O'Neil; Ann: week 4, good weeks: 2 → 0." in page


def test_a_pasted_list_is_counted_and_what_is_not_read_is_named(ward):
    session = ward.login("operator")
    ward.ledger.ask_many("north", ["p1", "p2", "late-2"])
    ward.ledger.ask("west", "late-2")
    page = ward.post("/missing", session, pasted="p1,male\np2,67.5\np1,male\n")[2].decode()
    page = html.unescape(page)
    assert "<li>Your list has 3 entries and names 2 patients; 1 entry is double.</li>" in page
    assert "<li>Not read, because it stands beside the patients: 'male'; '67.5'.</li>" in page
    page = ward.post("/missing", session, pasted="patient,site\nlate-2,west")[2].decode()
    assert "<li>Your list has 1 entry and names 1 patient.</li>" in page
    assert "<li>West: late-2.</li>" in page
    assert "Not read" not in page
    for pasted, says in (
        ("late-2", "4); add a column “site”, or give the ticket"),
        ("p1,2", "'2' stands beside 'p1', and is a patient, too (north, p2). If you mean both"),
    ):
        status, _, body = ward.post("/missing", session, pasted=pasted)
        assert status == 422
        assert says in alert(body.decode())


def test_a_late_report_that_was_taken_in_meanwhile_does_not_stop_the_others(ward):
    session, first, second = ward.login("operator"), lost(ward, "p1"), lost(ward, "p2")
    page = ward.post("/late", session, ticket=[first, second])[2].decode()
    read = re.search(r'name="read" value="(\w+)"', page)[1]
    ward.ledger.amend(first, **ILL, by="Ms Okafor", reason="by post")
    fields = {"ticket": [first, second], "reason": "late", **SURE}
    status, _, body = ward.post("/late", session, **fields, read=read)
    assert (status, "No late report waits any more of: north, p1." in body.decode()) == (409, True)
    assert "Take in 1 late report?" in body.decode()
    read = re.search(r'name="read" value="(\w+)"', body.decode())[1]
    assert ward.post("/late", session, **fields, read=read)[0] == 303
    assert ward.ledger.status().refused == 0
