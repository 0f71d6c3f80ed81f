"""Problems and policies whose tables are in a file."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.checks import shown
from lowswitch.problems.mdp import TabularMDP, rescale

_REQUIRED = ("transitions", "rewards")
_OPTIONAL = ("horizon", "start", "actions_allowed", "reward_law")


def from_file(
    path: str | os.PathLike[str],
    *,
    horizon: int | None = None,
    reward_range: tuple[float, float] | None = None,
) -> TabularMDP:
    """The problem whose tables an .npz file of numpy holds.

    The arrays have the names and the shapes of `TabularMDP`: transitions and rewards, and where
    they are wanted horizon, start, actions_allowed and reward_law. horizon: that of the file by
    default. reward_range: the least and the largest reward, where they do not lie in [0, 1]; values
    and regret come out in these units.
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
    return TabularMDP(rewards=rewards, horizon=_plain(given), name=Path(path).stem, **more)


def policy_from_file(
    path: str | os.PathLike[str], labels: Sequence[str] = ()
) -> list[list[int]]:  # [H][S]
    """The table of actions in a text file, such as a protocol that is in use.

    It has a line for each step, and in it an action for each state, with commas between them: a
    number from 0 on, or one of the labels.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"cannot read a table of actions from {str(path)!r} ({error})") from None
    numbers = {label: number for number, label in enumerate(labels)}
    table = list[list[int]]()
    for i, line in enumerate(lines, start=1):
        table.append([])
        for j, cell in enumerate(map(str.strip, line), start=1):
            if cell not in numbers and not (cell.isascii() and cell.isdecimal()):
                known = f", or {', '.join(labels)}" if labels else ""
                raise ValueError(
                    f"entry {j} of line {i} in {str(path)!r} is {cell!r}, which is no action;"
                    f" actions are numbers from 0 on{known}"
                )
            table[-1].append(numbers[cell] if cell in numbers else int(cell))
    if not table or len({len(line) for line in table}) > 1:
        raise ValueError(
            f"{str(path)!r} has lines of {sorted({len(line) for line in table})} entries; a table"
            " of actions has a line for each step, and an entry for each state in every line"
        )
    return table


def _plain(value: Any) -> Any:
    """The number or the word that an array without axes stands for."""
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of the file, if they are those of a problem."""
    way_out = "write it with numpy.savez(path, transitions=..., rewards=..., horizon=...)"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"cannot read tables from {str(path)!r} ({error}); {way_out}") from None
    missing = [name for name in _REQUIRED if name not in arrays]
    unknown = [name for name in arrays if name not in _REQUIRED + _OPTIONAL]
    if missing or unknown:
        what = f"no {missing[0]}" if missing else f"{shown(unknown[0])}, which is no part of it"
        raise ValueError(f"the problem in {str(path)!r} has {what}; {way_out}")
    return arrays
