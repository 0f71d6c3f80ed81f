"""What can be done both by JSON and on a page has the same outcome, or the same refusal."""

import contextlib
import html
import itertools

import pytest

import lowswitch as ls
from ledgers import clock, play
from lowswitch.service.roles import API, PAGES
from served import Served

NUMBERS = itertools.count()
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
            one.sessions = {role: one.login(role) for role in ("reviewer", "operator", "auditor")}
            made.append(one)
        yield made


# ---- both doors ----------------------------------------------------------------------------------


def by_json(served, role, action, body):
    """The status and the words of a refusal; 200 and nothing where it is done."""
    path = next(one.path for one in API if one.handler == action)
    status, said = served.json("POST", path, body, role=role)
    return (status, "" if status == 200 else said["says"])


def by_page(served, role, action, body):
    """The same by the form of a page."""
    fields, path = dict(body), f"/{action}"
    if action == "revoke":
        path = "/tokens/revoke"
    if action in ("approve", "reject"):
        path, rows = "/decide", fields.pop("rows", None)
        fields["row"] = [f"{step}:{state}" for step, state in rows or []]
        approval = "approve all" if rows is None else "approve"
        refusal = "never" if fields.pop("forever", False) else "not now"
        fields["decision"] = approval if action == "approve" else refusal
    status, _, text = served.post(path, served.sessions[role], **fields)
    if status == 303:
        return (200, "")
    return (status, html.unescape(text.decode().partition("<p>")[2].partition("</p>")[0]))


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
        return {"ticket": served.ledger.ask("here", f"r{number}").ticket, **REASON, **more}

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


DONE = {
    "approve all rows": ("approve", decision()),
    "approve one row": ("approve", decision(1)),
    "reject one row": ("reject", decision(1)),
    "reject one row for ever": ("reject", decision(1, forever=True)),
    "propose": ("propose", {}),
    "declare missing": ("missing", ticket()),
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
    "no ticket": ("missing", REASON, 400, "lacks the field `ticket`"),
    "another ticket": ("missing", {"ticket": "?", **REASON}, 404, "no ticket '?'"),
    "one's own token": (
        "revoke",
        lambda served: {"id": served.tokens["operator"].partition(".")[0]},
        422,
        "this is your own token; another operator can revoke it",
    ),
    "no token": ("revoke", {}, 400, "lacks the field `id`"),
    "another token": ("revoke", {"id": "nobody"}, 422, "there is no token 'its id'"),
    "a token twice": ("revoke", revoked, 422, "is revoked already"),
    "run on": ("thaw", REASON, 422, "the run is thawed already"),
} | {
    f"{name} reason to {action}": (action, body, 400, "reason must be a text")
    for name, reason in TEXTS.items()
    for action, body in {
        "approve": decision(reason=reason),
        "reject": decision(1, reason=reason),
        "freeze": {"reason": reason},
        "rollback": {"version": 1, "reason": reason},
        "missing": ticket(reason=reason),
    }.items()
}


def role_of(action):
    return "reviewer" if action in ("approve", "reject") else "operator"


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
    for action in ("propose", "missing"):
        body = {} if action == "propose" else {"ticket": "t1", **REASON}
        assert done_twice(doors, "operator", action, body)[0] == 423
    decided = {"proposal": "0" * 64, "rows": [[0, 0]], **REASON}
    for action in ("approve", "reject"):
        assert done_twice(doors, "reviewer", action, decided)[0] == 423
    assert done_twice(doors, "operator", "thaw", REASON) == (200, "", True)


@pytest.mark.parametrize("action", ["propose", "freeze", "thaw", "rollback", "missing", "revoke"])
def test_a_role_that_may_not_is_told_the_same(doors, action):
    found = done_twice(doors, "auditor", action, {})
    assert (found[0], found[2]) == (403, False)


def test_every_action_of_the_pages_sits_this_exam():
    alone = {"verify", "login", "logout"}  # these change no event and no token
    posts = {one.handler for one in PAGES if one.method == "POST"} - alone
    tried = {action for action, *_ in (*DONE.values(), *REFUSED.values())}
    assert posts - {"decide"} | {"approve", "reject"} == tried
