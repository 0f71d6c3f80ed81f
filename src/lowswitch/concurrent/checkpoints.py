"""Checkpoints of a run on many machines: everything that is needed to resume the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import is_integer, is_number
from lowswitch.concurrent.integrity import require_whole
from lowswitch.concurrent.sources import Tabular
from lowswitch.concurrent.state import GROWING, RoundSetting, RoundState, fresh_state, longer
from lowswitch.history import evaluation_of
from lowswitch.io import storage
from lowswitch.learners.integrity import require
from lowswitch.runs.stopping import Stop

_KIND = "concurrent checkpoint"
_TABLES = "tables_"


def save_state(
    path: str | os.PathLike[str], setting: RoundSetting, stop: Stop, state: RoundState
) -> None:
    """Write a checkpoint atomically."""
    facts = {
        "setting": setting.facts(),
        "stop": vars(stop),
        "seconds": state.seconds,
        "network": state.network,
    }
    storage.write(path, _KIND, facts, state.arrays())


def load_state(path: str | os.PathLike[str], setting: RoundSetting, stop: Stop) -> RoundState:
    """Load the state from a checkpoint of exactly this setting.

    A checkpoint of another setting is an error that names the differences.
    """
    facts, arrays = storage.read(path, _KIND)
    state = fresh_state(setting, stop)
    try:
        for name, usual in (("delay", [0]), ("send", "episodes")):  # older files lack them
            facts["setting"].setdefault(name, usual)
        differs = _difference(facts["setting"], setting.facts())
        if not differs:
            _take_over(state, setting, arrays)
            _take_over_facts(state, facts)
            same_stop = _decides(Stop(**facts["stop"])) == _decides(stop)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} is not a complete checkpoint ({error}); delete it to start again"
        ) from error
    if differs:
        raise ValueError(f"the checkpoint {str(path)!r} is of {differs}")
    if state.evaluation.wanted and isinstance(setting.source, Tabular):
        policies = state.knowledge.policy().actions
        state.evaluation, _ = evaluation_of(setting.source.mdp, policies)
    until = stop.next_look(max(1, state.learned), setting.episodes)
    if same_stop:
        state.rounds = state.rounds._replace(episodes=until)
    else:
        state.go_on_until(until)
    return state


def _decides(stop: Stop) -> tuple[Any, ...]:
    """The options that decide after which episode a run ends."""
    return stop.policy, stop.mixture, stop.within, stop.probability


def _take_over_facts(state: RoundState, facts: dict[str, Any]) -> None:
    """Restore the seconds and the traffic of the earlier calls."""
    for mine, name, kind in (
        (state.seconds, "seconds", is_number),
        (state.network, "network", is_integer),
    ):
        saved = facts[name]
        fits = mine.keys() == saved.keys() and all(kind(n) and n >= 0 for n in saved.values())
        require(fits, f"its {name} are {saved!r}")
    state.seconds, state.network = facts["seconds"], facts["network"]


def _take_over(state: RoundState, setting: RoundSetting, arrays: dict[str, np.ndarray]) -> None:
    """Fill a fresh state with the arrays of a checkpoint, or raise a ValueError."""
    used = int(arrays["log_logged"].reshape(-1)[0])
    own = {name: array for name, array in state.arrays().items() if not name.startswith(_TABLES)}
    for name, array in own.items():
        shape = (used, *array.shape[1:]) if name in GROWING else array.shape
        if arrays[name].shape != shape or arrays[name].dtype != array.dtype:
            raise ValueError(f"{name} is {arrays[name].dtype} of {arrays[name].shape}")
    room = len(state.rounds.stamps)
    stamps = longer(arrays["rounds_stamps"], used + room)
    state.rounds = state.rounds._replace(stamps=stamps)
    state.log = state.log._replace(changes=longer(arrays["log_changes"], used + room))
    tables = {
        name.removeprefix(_TABLES): table
        for name, table in arrays.items()
        if name.startswith(_TABLES)
    }
    for name, array in own.items():
        if name not in GROWING:
            array[...] = arrays[name]
    told = None if any(setting.delay) else state.learned
    state.knowledge = state.knowledge.restored(setting.seed, tables, told)
    require_whole(state, setting)


def _recipe(data: dict[str, Any]) -> str:
    try:
        return str(Algorithm.from_dict(data))
    except ValueError as error:
        return f"an algorithm that this program does not know ({error})"


# the kind of a source, its first fact
_KINDS = {
    "tables": "tables",
    "environment": "a Gymnasium environment",
    "system": "a System",
}
_DIGESTS = {
    "tables": "tables (transitions, rewards, starts or allowed actions)",
    "allowed": "allowed actions",
}
# the facts of a setting, in the order in which messages name them
_WORDS: dict[str, Callable[[Any], str]] = {
    "environment": "the environment {}".format,
    "options": "the options {}".format,
    "system": "the function {}".format,
    "size": "H = {0[0]}, S = {0[1]}, A = {0[2]}".format,
    "reward law": "{} rewards".format,
    "rewards": "rewards from {0[0]:g} to {0[1]:g}".format,
    "algorithm": _recipe,
    "episodes": "{:,} episodes".format,
    "machines": "{:,} machines".format,
    "rule": 'rule "{}"'.format,
    "seed": "seed {}".format,
    "regret": "regret={}".format,
    "delay": "delay={}".format,
    "send": "send={!r}".format,
}


def _difference(saved: dict[str, Any], asked: dict[str, Any]) -> str:
    """How two settings differ and what to do about it, in words; empty if they are equal."""
    if all(saved[name] == value for name, value in asked.items()):
        return ""
    kinds = [_KINDS[next(iter(setting["source"]), "nothing")] for setting in (saved, asked)]
    if kinds[0] != kinds[1]:
        return f"{kinds[0]}, this run has {kinds[1]}; give another file or the same source"
    was, now = saved | saved["source"], asked | asked["source"]
    names = [name for name in _WORDS if name in now and was[name] != now[name]]
    said = [f"{_WORDS[name](was[name])}, this run has {_WORDS[name](now[name])}" for name in names]
    digests = [
        name for name in _DIGESTS if name in now and was[name] != now[name] and "size" not in names
    ]
    said += [f"other {_DIGESTS[name]} than this run" for name in digests]
    return f"{'; of '.join(said)}; give another file or the same {' and '.join(names + digests)}"
