"""Problems and policies whose tables are in a file."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.checks import shown
from lowswitch.envs.mdp import Rescaled, TabularMDP, rescale
from lowswitch.envs.validation import warn_if_ambiguous

_REQUIRED = ("transitions", "rewards")
_OPTIONAL = ("horizon", "start", "actions_allowed", "reward_law")


def from_file(
    path: str | os.PathLike[str],
    *,
    horizon: int | None = None,
    reward_range: tuple[float, float] | None = None,
) -> TabularMDP:
    """Read a problem from the arrays of a numpy .npz file.

    The arrays have the names and shapes of `TabularMDP`: `transitions` and `rewards`, and
    optionally `horizon`, `start`, `actions_allowed` and `reward_law`.

    Parameters
    ----------
    path
        The file.
    horizon
        The number of steps; by default the one in the file.
    reward_range
        The smallest and largest possible reward, if it is not [0, 1]. Values and regret are
        then in these units.
    """
    arrays = _arrays(path)
    rewards: Any = arrays.pop("rewards")
    if reward_range is not None:
        low, high = reward_range
        rewards = rescale(rewards, low=low, high=high)
    elif rewards.size and (rewards.min() < 0 or rewards.max() > 1):
        raise ValueError(
            f"the rewards in {str(path)!r} lie in [{rewards.min():g}, {rewards.max():g}] and not in"
            " [0, 1]; give the least and the largest reward there can be, as reward_range=(low,"
            " high) or --reward-range=LOW,HIGH"
        )
    given: Any = arrays.pop("horizon", None) if horizon is None else horizon
    arrays.pop("horizon", None)
    if given is None:
        raise ValueError(
            f"{str(path)!r} does not say how many steps an episode has; give the horizon, or write"
            " an array of that name into the file"
        )
    more: dict[str, Any] = {name: _plain(array) for name, array in arrays.items()}
    plain = rewards.rewards if isinstance(rewards, Rescaled) else rewards
    warn_if_ambiguous(plain, more.get("transitions"), _plain(given), stacklevel=2)
    return TabularMDP(rewards=rewards, horizon=_plain(given), name=Path(path).stem, **more)


def policy_from_file(
    path: str | os.PathLike[str],
    actions: int | Sequence[str] | None = None,
    *,
    horizon: int | None = None,
    states: int | None = None,
) -> list[list[int]]:  # [H][S]
    """Read a table of actions from a text file, such as the present protocol.

    It has one line for each step with one action for each state, separated by commas. An action is
    a label, or a number from 0 on. If any label looks like a number, only labels are accepted.

    Parameters
    ----------
    path
        The file.
    actions
        The number of actions, or their labels.
    horizon
        The number of steps, if known; it is checked.
    states
        The number of states, if known; it is checked.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"cannot read a table of actions from {str(path)!r} ({error})") from None
    table = list[list[int]]()
    for i, line in enumerate(lines, start=1):
        where, entries = f"line {i} of {str(path)!r}", states or len(lines[0])
        if len(line) != entries:
            raise ValueError(
                f"{where} has {len(line)} entries, not {entries}: a table of actions has an entry"
                " for each state in every line"
            )
        table.append(
            [
                _action(cell.strip(), actions, f"entry {j} in {where}")
                for j, cell in enumerate(line, start=1)
            ]
        )
    if not table or len(table) != (horizon or len(table)):
        wanted = "a line" if horizon is None else f"{horizon} lines, one"
        raise ValueError(
            f"{str(path)!r} has {len(table)} lines; a table of actions has {wanted} for each step"
        )
    return table


def allowed_actions(
    rules: Sequence[str],
    steps: int | Sequence[str],
    states: int | Sequence[str],
    actions: int | Sequence[str],
) -> np.ndarray:  # [H, S, A]
    """The mask without the actions that rules forbid, each as step:state:action.

    Names are labels, or numbers from 0 on where there are no labels; * stands for all of a kind.
    """
    kinds = {"step": steps, "state": states, "action": actions}
    names = {
        kind: [str(i) for i in range(given)] if isinstance(given, int) else list(given)
        for kind, given in kinds.items()
    }
    mask = np.ones([len(found) for found in names.values()], dtype=bool)
    for rule in rules:
        parts = [part.strip() for part in rule.split(":")]
        if len(parts) != 3:
            raise ValueError(f"{rule!r} is not step:state:action, such as *:ill:surgery")
        places = list[list[int]]()
        for (kind, found), part in zip(names.items(), parts, strict=True):
            if part != "*" and part not in found:
                raise ValueError(f"there is no {kind} {part!r}; they are {', '.join(found[:8])}")
            places.append([i for i in range(len(found)) if part in ("*", found[i])])
        mask[np.ix_(*places)] = False
    return mask


def _action(cell: str, actions: int | Sequence[str] | None, where: str) -> int:
    """The number of an action, from its label or its number."""
    labels = [] if actions is None or isinstance(actions, int) else [one.strip() for one in actions]
    most = actions if isinstance(actions, int) else len(labels) or math.inf
    if cell in labels:
        return labels.index(cell)
    ways, numbered = [", ".join(labels)] * bool(labels), not any(map(str.isdecimal, labels))
    if numbered and cell.isascii() and cell.isdecimal() and int(cell) < most:
        return int(cell)
    if numbered:
        ways.append("numbers from 0 on" if most == math.inf else f"numbers from 0 to {most - 1}")
    raise ValueError(
        f"{where} is {cell!r}, which is not an action; actions are {', or '.join(ways)}"
    )


def _plain(value: Any) -> Any:
    """The number or the word that an array without axes stands for."""
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of the file, if they describe a problem."""
    way_out = "write it with numpy.savez(path, transitions=..., rewards=..., horizon=...)"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"cannot read tables from {str(path)!r} ({error}); {way_out}") from None
    missing = [name for name in _REQUIRED if name not in arrays]
    unknown = [name for name in arrays if name not in _REQUIRED + _OPTIONAL]
    if missing or unknown:
        what = (
            f"no {missing[0]}" if missing else f"{shown(unknown[0])}, which does not belong there"
        )
        raise ValueError(f"the problem in {str(path)!r} has {what}; {way_out}")
    return arrays
