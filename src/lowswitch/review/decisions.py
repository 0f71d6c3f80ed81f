"""Checks for every decision of a board, whether on rows of a table or on a whole policy."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from lowswitch.checks import shown


class Pending(Protocol):
    """A proposal; a decision refers to its hash."""

    @property
    def hash(self) -> str: ...


Proposed = TypeVar("Proposed", bound=Pending)


def require_review(gate: str) -> None:
    """Check that a board decides."""
    if gate != "review":
        raise ValueError(
            "this learner deploys every change at once, so there is nothing to decide; "
            'make it with gate="review"'
        )


def require_pending(pending: Proposed | None, meant: Any) -> Proposed:
    """The pending proposal, if a decision refers to it or to its hash."""
    if pending is None:
        raise ValueError("nothing is proposed; there is nothing to decide")
    wanted = meant.hash if isinstance(meant, type(pending)) else meant
    if wanted is not None and wanted != pending.hash:
        name = wanted[:12] if isinstance(wanted, str) else shown(wanted)
        raise ValueError(
            f"the proposal {name} is no longer pending; the pending one is "
            f"{pending.hash[:12]}: look at it, and decide on that one"
        )
    return pending


def require_thawed(paused: bool, what: str) -> None:
    """Check that the learner is not frozen; `what` names what cannot happen while it is."""
    if paused:
        raise ValueError(f"nothing is {what} while the learner is frozen; call thaw first")


def require_budget(spent: bool) -> None:
    """Check that the budget allows one more proposal."""
    if spent:
        raise ValueError(
            "the budget is spent, so nothing more can be proposed; the deployed policy stays"
        )
