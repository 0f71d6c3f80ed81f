"""How pages are made: templates that escape every value, and the parts that pages share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lowswitch.ledger.events import canonical
from lowswitch.ledger.views import while_paused
from lowswitch.service import display, phrases
from lowswitch.service.app import Call, Service, attempt
from lowswitch.service.bodies import RefusedError
from lowswitch.show.templates import templates as made
from lowswitch.show.text import age, counted, plural

_BY_ENTER = (
    "Nothing was done yet: the Enter key alone does nothing here. What you filled in is kept; press"
    " the button for what you want."
)
HERE = Path(__file__).parent
_CATCH_UP = 2.0  # seconds that a page waits for the journal


@functools.cache
def templates() -> jinja2.Environment:
    """The templates of the console."""
    filters: dict[str, Callable[..., Any]] = {"clock": display.clock, "age": age}
    filters |= {"counted": counted, "plural": plural, "text": canonical}
    filters |= {
        "everybody": display.who,
        "kind": display.kind_word,
        "begin": display.sentence,
        "said": display.whole_sentence,
        "numbers": display.numbers,
    }
    filters |= {"while_paused": while_paused}
    filters |= {"label": phrases.LABELS.get, "meaning": phrases.meaning, "per": phrases.per}
    return made(HERE / "templates", filters)


class Draft(NamedTuple):
    """The fields that somebody has filled in on a page that is shown again."""

    action: str  # of the form
    fields: list[tuple[str, str]]

    def values(self, action: str, name: str) -> list[str]:
        """The values of a field, if this is the form."""
        return [value for key, value in self.fields if (self.action, key) == (action, name)]

    def has(self, action: str, name: str) -> bool:
        """Whether a field of a form was sent, possibly empty."""
        return bool(self.values(action, name))

    def value(self, action: str, name: str) -> str:
        """The first value; empty if there is none."""
        return next(iter(self.values(action, name)), "")


def is_by_enter(call: Call) -> bool:
    """Whether a form was sent with the Enter key instead of a button; the page then says so.

    A browser then uses the first button of the form, which decides nothing.
    """
    if not call.field("enter"):
        return False
    assert call.session is not None
    call.session.said, call.session.heed = _BY_ENTER, True
    return True


async def show(call: Call, name: str, here: str, status: int = 200, **facts: Any) -> Response:
    """A page for a logged-in person."""
    service, session = call.service, call.session
    assert session is not None
    if "run" not in facts:
        facts["run"] = await service.engine.call(service.ledger.status)
    said, heed = session.said, session.heed
    session.said, session.heed = "", False
    html = (
        templates()
        .get_template(name)
        .render(
            here=here,
            token=call.token,
            form=session.form,
            said=said,
            heed=heed,
            draft=Draft(call.endpoint.path, call.fields),
            note=service.note,
            time=service.now().isoformat(),
            terms=service.ledger.terms,
            behind=facts["run"].events - service.journal.seq,
            **facts,
        )
    )
    return HTMLResponse(html, status)


def refused(service: Service, request: Request, error: RefusedError) -> Response:
    """A page that says why a request was refused, with a link to log in if needed."""
    if error.status == 401 and request.method == "GET":
        was = request.cookies.get(service.cookie)  # somebody's who had logged in
        return RedirectResponse("/login?ended=1" if was else "/login", 303)
    html = templates().get_template("refused.html").render(error=error, note=service.note)
    return HTMLResponse(html, error.status)


def after(call: Call, where: str, said: str, *, heed: bool = False) -> Response:
    """Go to a page that says what was done, or with `heed`, what a person should know."""
    assert call.session is not None
    call.session.said, call.session.heed = said, heed
    return RedirectResponse(where, 303)


async def catch_up(call: Call) -> None:
    """Let the journal read new events, if that is quick."""
    await attempt(lambda: call.service.journal.catch_up(1), _CATCH_UP)


def filled_in(call: Call, *names: str) -> dict[str, Any]:
    """The values of some fields of a form, each once."""
    pairs = [(name, value) for name, value in call.fields if name in names]
    if len(dict(pairs)) < len(pairs):
        raise RefusedError(400, "a field of the form is there twice")
    return dict(pairs)
