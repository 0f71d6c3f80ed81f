"""What every decision of a board asks for, whatever it decides on: rows of a table, or a policy."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from lowswitch.checks import shown


class Pending(Protocol):
    """A proposal: its hash is what a decision is bound to."""

    @property
    def hash(self) -> str: ...


Proposed = TypeVar("Proposed", bound=Pending)


def require_review(gate: str) -> None:
    """There is a board that decides."""
    if gate != "review":
        raise ValueError(
            "this learner deploys what it wants at once, and so nothing is decided; make it with"
            ' gate="review"'
        )


def require_pending(pending: Proposed | None, meant: Any) -> Proposed:
    """The pending proposal, if it is the one, or has the hash, that a decision is about."""
    if pending is None:
        raise ValueError("nothing is proposed; there is nothing to decide")
    wanted = meant.hash if isinstance(meant, type(pending)) else meant
    if wanted is not None and wanted != pending.hash:
        name = wanted[:12] if isinstance(wanted, str) else shown(wanted)
        raise ValueError(
            f"the proposal {name} is not pending any more; the one that is now has"
            f" {pending.hash[:12]}: look at it, and decide on that"
        )
    return pending


def require_thawed(paused: bool, what: str) -> None:
    """The board has not frozen the learner; `what` says what does not happen while it has."""
    if paused:
        raise ValueError(f"nothing is {what} while the learner is frozen; thaw it first")


def require_budget(spent: bool) -> None:
    """There is budget left for one more proposal."""
    if spent:
        raise ValueError(
            "the budget is spent, so that nothing can be proposed any more; the deployed policy"
            " stays"
        )
