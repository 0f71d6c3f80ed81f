"""A site that plays: a Gymnasium environment against a served ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lowswitch.ledger.errors import LedgerError

if TYPE_CHECKING:
    from lowswitch.ledger.client import Client, Played


def play(
    client: Client,
    env: Any,
    episodes: int,
    *,
    name: str,
    seed: int | None,
    state: Callable[[Any], int],
) -> Played:
    """Play `episodes` episodes of a series, continuing where it stopped."""
    from lowswitch.ledger.client import Played, Spooled

    terms, spool = client.terms(), client._spool
    mark = f"series {name}"
    done = (spool.get(mark) or 0) if spool is not None else 0
    told, spooled, total = 0, 0, 0.0
    for number in range(done + 1, episodes + 1):
        issued = client.ask(f"{name}-{number}")
        report = episode(env, issued.policy, terms, None if seed is None else seed + number, state)
        total += sum(report["rewards"])
        facts = {} if spool is None else {mark: number}  # with the report, in one transaction
        labelled = _labelled(report, terms["labels"])
        (answer,) = client._tell([labelled | {"ticket": issued.ticket}], **facts)
        if isinstance(answer, LedgerError):
            raise answer
        spooled += isinstance(answer, Spooled)
        told += not isinstance(answer, Spooled)
    return Played(max(0, episodes - done), told, spooled, total)


def _labelled(report: dict[str, Any], labels: dict[str, list[str]]) -> dict[str, Any]:
    """A report with labels, which are unambiguous even if they look like numbers."""
    found = dict(report)
    for name, kind in (("states", "state"), ("actions", "action")):
        names = labels[kind]
        found[name] = [names[i] if 0 <= i < len(names) else i for i in report[name]]
    return found


def episode(
    env: Any,
    policy: list[list[int]],
    terms: dict[str, Any],
    seed: int | None,
    state: Callable[[Any], int],
) -> dict[str, Any]:
    """Play one episode; a report without its ticket."""
    H = terms["horizon"]
    seen, _ = env.reset(seed=seed)
    states, actions, rewards = [state(seen)], list[int](), list[float]()
    ended = "whole"
    for h in range(H):
        action = int(policy[h][states[-1]])
        seen, reward, terminated, truncated, _ = env.step(action)
        actions.append(action)
        rewards.append(float(reward))
        states.append(state(seen))
        if terminated and h + 1 < H:
            if terms["absorbing"] is None:
                raise LedgerError(
                    "the environment terminated an episode, and this run has no absorbing state;"
                    " create the ledger with absorbing="
                )
            ended = "terminated"
            break
        if truncated and h + 1 < H:
            ended = "truncated"
            break
    return {"states": states, "actions": actions, "rewards": rewards, "ended": ended}
