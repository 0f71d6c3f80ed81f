"""What can be done both by JSON and on a page has the same outcome, or the same refusal."""

import contextlib
import html
import itertools
import re

import pytest

import lowswitch as ls
from ledgers import clock, play
from lowswitch.ledger import ConflictError, ExpiredError
from lowswitch.service.roles import API, PAGES
from served import Served

NUMBERS = itertools.count()
PATHS = {
    "approve": "/decide",
    "reject": "/decide",
    "revoke": "/tokens/revoke",
    "missing_many": "/missing",
    "amend_many": "/late",
    "set_quorum": "/quorum",
    "cap_trial": "/cap",
}
REASON = {"reason": "to try it"}


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    """Two ledgers of equal events: the first is used by JSON, the second by the pages."""
    with contextlib.ExitStack() as stack:
        made = []
        for name in ("json", "pages"):
            folder = tmp_path_factory.mktemp(name)
            one = stack.enter_context(Served(folder, algorithm=ls.psrl(schedule="asked")))
            one.ledger.clock, one.ledger.new_ticket = clock, "t{}".format
            names = itertools.count()
            one.service.emergency.new_name = lambda names=names: str(next(names))
            one.sessions = {role: one.login(role) for role in ("reviewer", "operator", "auditor")}
            made.append(one)
        yield made


# ---- both doors ----------------------------------------------------------------------------------


def by_json(served, role, action, body):
    """The status and the words of a refusal; 200 and nothing where it is done."""
    path = next(one.path for one in API if one.handler == action)
    status, said = served.json("POST", path, body, role=role)
    says = "" if status == 200 else said["says"]
    return (status, says[:1].lower() + says[1:])


def by_page(served, role, action, body):
    """The same by the form of a page, in the step that confirms it."""
    fields, path = dict(body), PATHS.get(action, f"/{action}")
    if "rows" in fields or path == "/decide":
        rows = fields.pop("rows", None)
        fields["row"] = [f"{step}:{state}" for step, state in rows or []]
    if path == "/decide":
        verb = "approve" if action == "approve" else "postpone"
        fields["decision"] = f"{verb} {'all' if rows is None else 'selected'}"
    if action == "amend":
        fields |= {name: fields.pop(f"{name}s") for name in ("state", "reward")}
    if action == "amend_many":
        fields["ticket"] = [one["ticket"] for one in fields.pop("reports")]
    if "share" in fields:
        fields["share"] = 100 * fields["share"]
    for names, name in (("actions", "action"), ("tickets", "ticket")):
        if names in fields:
            fields[name] = fields.pop(names)
    sure = {} if action == "freeze" else {"sure": "1", "confirming": "1", "consent": "1"}
    status, _, text = served.post(path, served.sessions[role], **fields, **sure)
    if status == 303:
        return (200, "")
    said = re.search(r'<p( class="wrong" role="alert")?>(.*?)</p>', text.decode(), re.DOTALL)
    wrong = re.search(
        r'<p class="wrong" role="alert" id="wrong">(.*?)</p>', text.decode(), re.DOTALL
    )
    words = html.unescape(wrong[1] if wrong else said[2])
    return (status, words[:1].lower() + words[1:].removesuffix("."))  # a page has whole sentences


def everything(served):
    """All that an action can change: the chain of events, and the tokens."""
    tokens = [(one.name, one.revoked_by) for one in served.access.tokens()]
    return served.ledger.status().head, sorted(tokens, key=str)


def done_twice(doors, role, action, body):
    """Do something by JSON and on a page; the outcome of both, and whether it changed anything."""
    bodies = [body(one) if callable(body) else body for one in doors]
    before = everything(doors[0])
    assert everything(doors[1]) == before
    outcomes = (
        by_json(doors[0], role, action, bodies[0]),
        by_page(doors[1], role, action, bodies[1]),
    )
    if "id" in bodies[0]:  # which is random
        outcomes = [
            (status, says.replace(one["id"], "its id"))
            for (status, says), one in zip(outcomes, bodies, strict=True)
        ]
    assert outcomes[0] == outcomes[1]
    assert everything(doors[0]) == everything(doors[1])
    return *outcomes[0], everything(doors[0]) != before


# ---- what is asked for ---------------------------------------------------------------------------


def waiting(served):
    """A proposal that waits for a decision."""
    while served.ledger.proposal() is None:
        play(served.ledger, 1)
        served.ledger.propose(by="board")
    return served.ledger.proposal()


def decision(first=None, *, times=1, **more):
    """A body that decides on the first rows of the proposal, or on all."""

    def body(served):
        view = waiting(served)
        chosen = [[row["step"], row["state"]] for row in view.rows][:first]
        named = {} if first is None else {"rows": chosen * times}
        return {"proposal": view.hash, **REASON, **named, **more}

    return body


def ticket(**more):
    """A body about a ticket that is open."""

    def body(served):
        number = served.ledger.status().issued + 1
        return {"tickets": [served.ledger.ask("here", f"r{number}").ticket], **REASON, **more}

    return body


def stranger(served):
    token = served.access.create(name=f"stranger {next(NUMBERS) // 2}", role="auditor", days=1)
    return {"id": token.partition(".")[0]}


def revoked(served):
    body = stranger(served)
    served.access.revoke(body["id"], by="me")
    return body


def second_version(served):
    while served.ledger.version < 3:
        served.ledger.approve(waiting(served), by="board", reason="seen")
    return {"version": 1, **REASON}


VETO = {"rows": [["0", "1"]], "actions": ["1"], "instead": "0", **REASON}


def vetoed(served):
    if served.ledger.actions_allowed[0, 1, 1]:
        served.ledger.forbid([(0, 1)], [1], instead=0, by="board", reason="seen")
    return {"rows": [["0", "1"]], "actions": ["1"], **REASON}


def told_ticket(served):
    """A ticket whose report is learned, with another report."""
    play(served.ledger, 1)
    name = served.ledger.list_tickets("learned")[-1].ticket
    return {"ticket": name, **STEPS, "rewards": [0.5, 0.0, 0.0], **REASON}


def late_ticket(served):
    """A ticket that was declared missing, with the report that came after that."""
    name = served.ledger.ask("here", f"late {served.ledger.status().events}").ticket
    served.ledger.missing(name, "lost", by="me")
    with pytest.raises(ExpiredError):
        served.ledger.tell(name, *STEPS.values())
    return {"reports": [{"ticket": name, **STEPS}], **REASON}


def contradicted(served):
    """A ticket of which a site sent a second report."""
    body = told_ticket(served)
    name = body["ticket"]
    with pytest.raises(ConflictError):
        served.ledger.tell(name, STEPS["states"], STEPS["actions"], [0.25, 0.0, 0.0])
    return {"ticket": name, **REASON}


def reported(served):
    """A body that asks for a proposal after another report."""
    play(served.ledger, 1)
    return {}


VETO_LIFTED = {"rows": [["1", "1"]], "actions": ["1"], **REASON}
STEPS = {"states": ["0"] * 3, "actions": ["0"] * 3, "rewards": [0.0] * 3}
DONE = {
    "approve all rows": ("approve", decision()),
    "approve one row": ("approve", decision(1)),
    "reject one row": ("reject", decision(1)),
    "forbid": ("forbid", VETO),
    "lift": ("lift", vetoed),
    "correct a report": ("amend", told_ticket),
    "dismiss a contradiction": ("dismiss", contradicted),
    "take in a late report": ("amend_many", late_ticket),
    "propose": ("propose", reported),
    "declare missing": ("missing_many", ticket()),
    "revoke": ("revoke", stranger),
    "roll back": ("rollback", second_version),
}
TEXTS = {"an empty": "", "a blank": " ", "a long": "x" * 2001, "two lines of": "a\nb"}
REFUSED = {
    "no row": ("approve", decision(0), 422, "no row is chosen"),
    "no row to reject": ("reject", decision(0), 422, "no row is chosen"),
    "a row twice": ("approve", decision(1, times=2), 422, "a row is chosen twice"),
    "a row that is not there": ("approve", decision(rows=[[99, 0]]), 422, "99"),
    "a state that is not there": ("reject", decision(rows=[[0, 99]]), 422, "99"),
    "a row in words": ("approve", decision(rows=[["a", "b"]]), 422, "a"),
    "half of a row": ("approve", decision(rows=[["0", ""]]), 400, "rows[0][1] must be"),
    "another proposal": ("approve", decision(proposal="0" * 64), 409, "never was a proposal"),
    "no proposal": ("reject", {"rows": [[0, 0]], **REASON}, 400, "lacks the field `proposal`"),
    "a proposal without a name": ("approve", decision(proposal="  "), 400, "proposal must be"),
    "no version": ("rollback", REASON, 400, "lacks the field `version`"),
    "version 99": ("rollback", {"version": 99, **REASON}, 422, "there is no version 99"),
    "version -1": ("rollback", {"version": -1, **REASON}, 422, "there is no version -1"),
    "a version in words": ("rollback", {"version": "x", **REASON}, 400, "must be a whole number"),
    "no ticket": ("missing_many", {"tickets": [], **REASON}, 422, "no ticket is selected"),
    "another ticket": ("missing_many", {"tickets": ["?"], **REASON}, 404, "no ticket '?'"),
    "an action that is not there": ("forbid", VETO | {"actions": ["9"]}, 422, "no action '9'"),
    "no action": ("forbid", VETO | {"actions": []}, 422, "no action is named"),
    "nothing to lift": ("lift", VETO_LIFTED, 422, "does not forbid all of"),
    "no request": ("confirm", {"motion": 1, **REASON}, 422, "no request 1 waits"),
    "nothing to decline": ("decline", {"motion": 1, **REASON}, 422, "no request 1 waits"),
    "no quorum": ("set_quorum", {"quorum": 0, **REASON}, 400, "must be"),
    "too large a quorum": ("set_quorum", {"quorum": 9, **REASON}, 422, "could never agree"),
    "the same quorum": ("set_quorum", {"quorum": 1, **REASON}, 422, "the quorum is 1 already"),
    "no trial": ("cap_trial", {"share": 0.1, **REASON}, 422, "there is no trial"),
    "a report of nothing": ("amend", {"ticket": "?", **STEPS, **REASON}, 404, "no ticket '?'"),
    "no contradiction": ("dismiss", {"ticket": "?", **REASON}, 404, "no ticket '?'"),
    "one's own token": (
        "revoke",
        lambda served: {"id": served.tokens["operator"].partition(".")[0]},
        422,
        "this is your own token; another operator can revoke it",
    ),
    "no token": ("revoke", {}, 400, "lacks the field `id`"),
    "another token": ("revoke", {"id": "nobody"}, 422, "there is no token 'its id'"),
    "a token twice": ("revoke", revoked, 422, "is revoked already"),
    "run on": ("thaw", REASON, 422, "the run is not paused"),
} | {
    f"{name} reason to {action}": (action, body, 400, "reason must be a text")
    for name, reason in TEXTS.items()
    for action, body in {
        "approve": decision(reason=reason),
        "reject": decision(1, reason=reason),
        "freeze": {"reason": reason},
        "rollback": {"version": 1, "reason": reason},
        "missing_many": ticket(reason=reason),
        "forbid": VETO | {"reason": reason},
    }.items()
}


def role_of(action):
    path = next(one for one in API if one.handler == action)
    return path.roles[0]


@pytest.mark.parametrize("name", DONE)
def test_what_is_done_by_json_is_done_by_a_page(doors, name):
    action, body = DONE[name]
    assert done_twice(doors, role_of(action), action, body) == (200, "", True)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_by_json_is_refused_by_a_page_in_the_same_words(doors, name):
    action, body, status, says = REFUSED[name]
    found = done_twice(doors, role_of(action), action, body)
    assert (found[0], says in found[1], found[2]) == (status, True, False), found


def test_a_run_is_stopped_and_goes_on_by_both(doors):
    assert done_twice(doors, "operator", "freeze", REASON) == (200, "", True)
    assert done_twice(doors, "operator", "freeze", REASON)[0] == 422
    for action in ("propose", "missing_many"):
        body = {} if action == "propose" else {"tickets": ["t1"], **REASON}
        assert done_twice(doors, "operator", action, body)[0] == 423
    decided = {"proposal": "0" * 64, "rows": [[0, 0]], **REASON}
    for action in ("approve", "reject"):
        assert done_twice(doors, "reviewer", action, decided)[0] == 423
    assert done_twice(doors, "operator", "thaw", REASON) == (200, "", True)


FORMS = ["propose", "freeze", "thaw", "rollback", "missing_many", "revoke"]


@pytest.mark.parametrize("action", FORMS)
def test_a_role_that_may_not_is_told_the_same(doors, action):
    found = done_twice(doors, "auditor", action, {})
    assert (found[0], found[2]) == (403, False)


def test_every_action_of_the_pages_sits_this_exam():
    alone = {"verify", "login", "logout"}  # these change no event and no token
    alone |= {"corrections"}  # which sends what "late" sends
    posts = {one.handler for one in PAGES if one.method == "POST"} - alone
    tried = {action for action, *_ in (*DONE.values(), *REFUSED.values())}
    pages = {path.rpartition("/")[2] for path in (PATHS.get(one, one) for one in tried)}
    assert posts == pages
