"""Who was given access, who used it and who tried to: the second chain of a ledger, in words."""

from __future__ import annotations

from typing import Any, NamedTuple

from lowswitch.ledger.events import Event
from lowswitch.service import display
from lowswitch.service.access import Access, Token
from lowswitch.show.text import counted

OF_TOKENS = ("token_created", "token_expires", "token_revoked")
_WORDS = {
    "token_created": "token made",
    "token_expires": "token replaced",
    "token_revoked": "token revoked",
    "login": "login",
    "login_failed": "failed login",
    "verified": "integrity check",
    "backed_up": "backup",
    "anchored": "anchor",
}
_READ, _LISTED, _FEW = 2000, 50, 10  # events that are looked through and listed


class Line(NamedTuple):
    """An event of access as the audit shows it."""

    event: Event
    word: str  # its kind
    said: str


def lines(
    access: Access, wanted: display.Wanted, words: str, *, whole: bool, most: int = 0
) -> list[Line]:
    """The newest events that fit; whole: not only those about tokens. most: or up to this many."""
    tokens = {one.id: one for one in access.tokens()}
    found = list[Line]()
    for event in access.newest(most or _READ):
        line = Line(event, _WORDS.get(event.kind, event.kind), _said(event, tokens))
        text = f"{line.word} {line.said} {event.actor}".lower()
        if wanted.fits(event) and words.lower() in text and (whole or event.kind in OF_TOKENS):
            found.append(line)
    return found[: most or (_LISTED if whole else _FEW)]


def _said(event: Event, tokens: dict[str, Token]) -> str:
    """What an event of access says."""
    facts = event.payload
    token = tokens.get(facts.get("id") or "")
    whose = "" if token is None else f"token {token.id} of {token.name} ({token.role})"
    if event.kind == "token_created":
        return f"{whose}, until {display.clock(facts['expires'])}"
    if event.kind == "token_expires":
        return f"{whose} works until {display.clock(facts['expires'])}"
    if event.kind == "login_failed":
        known = f" with {whose}" if whose else ""
        return f"{counted(facts['count'], 'time')} from {facts['from']}{known}"
    if event.kind == "verified":
        return facts["what"] if facts["whole"] else f"damaged: {facts['what']}"
    return whose or "; ".join(_pair(*one) for one in facts.items())


def _pair(name: str, value: Any) -> str:
    return f"{name.replace('_', ' ')}: {value}"
