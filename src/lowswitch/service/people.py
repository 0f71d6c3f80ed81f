"""Who can act as a reviewer, and what it means if there are too few."""

from __future__ import annotations

from datetime import datetime

from lowswitch.service.access import Access
from lowswitch.service.phrases import several
from lowswitch.service.roles import REVIEWER
from lowswitch.show.text import counted


def reviewers(access: Access, time: datetime, without: str = "") -> list[str]:
    """The people with a working reviewer's token; without: a token that is not counted."""
    names = {
        one.name
        for one in access.tokens()
        if one.role == REVIEWER and one.works(time) and one.id != without
    }
    return sorted(names)


def too_few(names: list[str], quorum: int) -> str:
    """How many reviewers have a token and how many must agree; empty if there are enough."""
    if len(names) >= quorum:
        return ""
    needs = counted(quorum, "reviewer", "must agree", "must agree")
    if not names:
        return f"{needs} in this run, and none has a working token"
    has = counted(len(names), "reviewer", "has", "have")
    return f"{needs} in this run, and only {has} a working token ({several(names)})"


def stuck(access: Access, time: datetime, quorum: int) -> str:
    """The same where what one person asks for can never happen; empty if one decides alone."""
    return "" if quorum < 2 else too_few(reviewers(access, time), quorum)


def stuck_words(episode: str) -> str:
    """What cannot be done while there are too few reviewers."""
    return (
        "Until another reviewer has a token, nothing can be approved, forbidden or allowed again,"
        " no version can be put back, a paused run cannot resume, and the number of reviewers who"
        f" must agree cannot be lowered. Every {episode} is treated as now. Pausing the run and"
        " ending the trial still take one person."
    )
