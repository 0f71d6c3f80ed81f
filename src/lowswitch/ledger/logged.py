"""The data that a ledger or a CSV file logged, for `lowswitch.evaluate` and `compare_arms`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.algorithms.recipes import few
from lowswitch.evaluation import Batches, Episodes, Log, mixture_propensities
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.events import KINDS
from lowswitch.ledger.imports import Step, read_episodes
from lowswitch.ledger.reading import Reading
from lowswitch.ledger.table_terms import TableTerms


def logged_episodes(ledger: Reading, *, after: int = 0) -> Episodes:
    """The reported episodes of a ledger in the order of their tickets, with exact propensities.

    A version is a mixture, and one of its policies plays each episode; `mixture_propensities`
    computes the propensities. Missing and truncated reports are left out and counted, as are
    reports of actions that the ticket's version does not play. Imported history has no propensities
    and is left out.

    Parameters
    ----------
    ledger
        The ledger.
    after
        Only tickets with a larger number. To evaluate a proposal, use `proposal.through`, because a
        policy must not be evaluated on the data it was learned from.

    See Also
    --------
    evaluate
    """
    if not isinstance(ledger.terms, TableTerms):
        raise LedgerError("this ledger is of a run with features; logged_cases reads its reports")
    rows, left_out = _reports(ledger, after)
    if not rows:
        raise LedgerError("there are no whole reports to evaluate a policy on")
    versions, states, actions, rewards = (np.array(part) for part in zip(*rows, strict=True))
    propensities = np.zeros(states.shape)
    for version in np.unique(versions):
        mine = versions == version
        tables = ledger.policy_of(int(version))
        propensities[mine] = mixture_propensities(tables, states[mine], actions[mine])
    kept = (propensities > 0).all(axis=1)
    left_out += int((~kept).sum())
    return Episodes(states[kept], actions[kept], rewards[kept], propensities[kept], left_out)


def logged_cases(ledger: Reading, *, after: int = 0) -> Log:
    """The reported cases of a one-step ledger with features, in the order of their tickets.

    The propensities are the recorded ones. Left out and counted are, as in `logged_episodes`,
    reports of actions that the ticket's version never plays in such a case.

    Parameters
    ----------
    ledger
        The ledger.
    after
        Only tickets with a larger number; see `logged_episodes`.
    """
    terms = ledger.vectors()
    if terms.horizon != 1:
        raise LedgerError(f"a log of cases has one step, and these episodes have {terms.horizon}")
    found, left_out = _whole_reports(ledger, after)
    if not found:
        raise LedgerError("there are no whole reports to evaluate a policy on")
    if any(payload.get("propensities") is None for _, payload in found):
        raise LedgerError("this ledger was written before reports held propensities")
    x, actions, rewards, propensities = (
        np.array([payload[name][0] for _, payload in found])
        for name in ("states", "actions", "rewards", "propensities")
    )
    kept = propensities > 0
    if not kept.any():
        raise LedgerError("every report is of an action that its ticket did not give")
    left_out += int((~kept).sum())
    return Log(x[kept], actions[kept], rewards[kept], propensities[kept], left_out)


def logged_batches(ledger: Reading) -> Batches:
    """The cases of a one-step ledger in batches by version, for `compare_arms`.

    Parameters
    ----------
    ledger
        The ledger.
    """
    if ledger.terms.horizon != 1:
        raise LedgerError(
            f"episodes of this ledger have {ledger.terms.horizon} steps; pairs of arms are compared"
            " where there is one step"
        )
    rows, _ = _reports(ledger, 0)
    if not rows:
        raise LedgerError("there are no whole reports to compare arms by")
    rows.sort(key=lambda row: row[0])
    versions, states, actions, rewards = (np.array(part) for part in zip(*rows, strict=True))
    numbers, batches = np.unique(versions, return_inverse=True)
    arms = np.eye(ledger.terms.actions)
    laws = np.stack([arms[ledger.policy_of(int(one))[:, 0]].mean(axis=0) for one in numbers])
    played = laws[batches, states[:, 0], actions[:, 0]] > 0
    return Batches(actions[played, 0], rewards[played, 0], batches[played], laws, states[played, 0])


def logged_csv(
    path: str | Path,
    *,
    horizon: int,
    states: int | Sequence[str],
    actions: int | Sequence[str],
    rewards: tuple[float, float] = (0.0, 1.0),
    columns: dict[str, str] | None = None,
) -> Episodes:
    """The episodes of a CSV file with one line per step; see `import_csv` for its columns.

    A column `propensity` has the probability of each action, given the episode up to it. Without
    it, evaluate with `behaviour="estimated"`.

    Parameters
    ----------
    path
        The CSV file.
    horizon
        H, the number of steps per episode.
    states, actions
        How many there are, or their labels.
    rewards
        The smallest and the largest reward.
    columns
        The file's names for the columns.
    """
    terms = _terms_of(horizon, states, actions, rewards)
    found = read_episodes(Path(path), terms, columns or {}, None)
    given = _column(found, "propensity")
    return Episodes(
        _column(found, "state").astype(np.int64),
        _column(found, "action").astype(np.int64),
        _column(found, "reward"),
        None if np.isnan(given).any() else given,  # a column has no empty cells
    )


def _column(episodes: list[list[Step]], name: str) -> np.ndarray:  # [n, H]
    return np.array([[float(getattr(step, name)) for step in one] for one in episodes])


def _terms_of(
    horizon: int,
    states: int | Sequence[str],
    actions: int | Sequence[str],
    rewards: tuple[float, float],
) -> TableTerms:
    """Terms that only provide names; no run uses them."""
    return TableTerms.declared(
        few(deployments=1),
        horizon=horizon,
        states=states,
        actions=actions,
        episodes=1,
        steps=None,
        rewards=rewards,
        actions_allowed=None,
        policy=None,
        missing="drop",
        gate="review",
        patience=None,
        absorbing=None,
        seed=0,
    )


def _reports(
    ledger: Reading, after: int
) -> tuple[list[tuple[int, list[int], list[int], list[float]]], int]:
    """Version, states, actions and rewards of each usable report, and the number of the others.

    The action is -1 after the end of a terminated episode.
    """
    H, found = ledger.terms.horizon, list[tuple[int, list[int], list[int], list[float]]]()
    reports, left_out = _whole_reports(ledger, after)
    for version, payload in reports:
        n = len(payload["actions"])
        rest = H - n
        states = [*payload["states"][:n], *[0] * rest]
        actions, rewards = [*payload["actions"], *[-1] * rest], [*payload["rewards"], *[0.0] * rest]
        found.append((version, states, actions, rewards))
    return found, left_out


def _whole_reports(ledger: Reading, after: int) -> tuple[list[tuple[int, dict[str, Any]]], int]:
    """The version and the payload of each usable report, and the number of the others.

    A corrected report counts as corrected.
    """
    versions, found = dict[int, int](), dict[int, tuple[int, dict[str, Any]] | None]()
    for event in ledger.events():
        payload = event.payload
        if event.kind == "asked":
            versions[payload["number"]] = payload["version"]
        elif KINDS[event.kind].has_report and payload["number"] > after:
            number, is_whole = payload["number"], payload["ended"] in ("whole", "terminated")
            found[number] = None
            if is_whole and payload["actions"]:
                found[number] = versions[number], payload
    rows = [found[number] for number in sorted(found)]
    return [row for row in rows if row is not None], rows.count(None)
