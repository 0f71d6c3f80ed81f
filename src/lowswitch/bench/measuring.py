"""Measuring an algorithm on the suite: one of the library, or any learner that can be told."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.fingerprints import fingerprint_of
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.algorithms.text import build
from lowswitch.bench.entries import Cell, Entry
from lowswitch.bench.suite import BUDGETS, EPISODES, PROBLEMS, SEEDS, problem
from lowswitch.checks import checked_policy, shown
from lowswitch.concurrent.sources import TabularPlayer
from lowswitch.envs.mdp import TabularMDP
from lowswitch.io.archive import library_version
from lowswitch.io.setting import commit_of
from lowswitch.runs.simulate import simulate
from lowswitch.show.progress import Progress

Maker = Callable[..., Any]  # of (horizon, states, actions, episodes, deployments, seed)
_DIGITS = 6  # of a regret in a file


def measure(
    algorithm: str | Maker, *, name: str = "", source: str = "", progress: bool | None = None
) -> Entry:
    """Run an algorithm on the whole suite.

    algorithm: a text of the library, in which {N} stands for the budget and {N+1} for one more; or
    a function that is called with `deployments`, `horizon`, `states`, `actions`, `episodes` and
    `seed`, by these names. It returns an `Algorithm`, or a learner: an object with `policy` [H, S]
    and `tell(states, actions, rewards)`. What a learner changes beyond its budget is not deployed.
    On the command line a function is written as module:name.
    """
    make = _maker(algorithm) if isinstance(algorithm, str) else _checked_maker(algorithm)
    text = algorithm if isinstance(algorithm, str) else _name_of(algorithm)
    results: dict[str, dict[int, Cell]] = {}
    total = len(PROBLEMS) * len(BUDGETS)
    with Progress(total, unit="cells", show=progress, label=text) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bar.start()
        _load(make)
        for place in PROBLEMS:
            results[place] = {}
            for budget in BUDGETS:
                results[place][budget] = measure_cell(make, place, budget)
                bar.update(sum(map(len, results.values())))
    return Entry(
        name=name or text[:40].split(":")[0],
        algorithm=text,
        results=results,
        made_with=f"lowswitch {library_version()}",
        source=source,
        code=_code(algorithm),
        commit=commit_of(_folder(make)),
        date=datetime.now(UTC).date().isoformat(),
    )


def _code(algorithm: str | Maker) -> str:
    """A hash of the function that makes an algorithm; empty for an algorithm of the library."""
    if isinstance(algorithm, str) and algorithm.split(":")[0] in RECIPES:
        return ""
    make = _maker(algorithm) if isinstance(algorithm, str) else algorithm
    return fingerprint_of(make, strict=False)


def _folder(make: Maker) -> Path:
    """Where a function is written."""
    file = getattr(sys.modules.get(getattr(make, "__module__", "")), "__file__", None)
    return Path(file).parent if file else Path.cwd()


def _load(make: Maker) -> None:
    """Compile what the algorithm needs before the clock runs, on a few episodes."""
    mdp = problem(next(iter(PROBLEMS)))
    first = make(**mdp.size, episodes=50, deployments=max(BUDGETS), seed=0)
    if isinstance(first, Algorithm):
        simulate(mdp, first, episodes=50, seeds=1, threads=1, progress=False)
    elif not (hasattr(first, "policy") and callable(getattr(first, "tell", None))):
        raise ValueError(
            f"{_name_of(make)} must return an Algorithm, or a learner with an array `policy` and a"
            f" method `tell`, not {shown(first)}"
        )


def measure_cell(make: Maker, place: str, budget: int) -> Cell:
    """What it costs on one problem with one budget."""
    mdp = problem(place)
    given = {**mdp.size, "episodes": EPISODES, "deployments": budget}
    first = make(**given, seed=0)
    begin = time.process_time()
    if isinstance(first, Algorithm):
        runs = simulate(mdp, first, episodes=EPISODES, seeds=SEEDS, threads=1, progress=False)
        costs = np.array([runs.regret, runs.deployments, runs.local_switches]).T.tolist()
    else:
        learners = [first, *(make(**given, seed=seed) for seed in range(1, SEEDS))]
        costs = [_play(mdp, one, budget, seed) for seed, one in enumerate(learners)]
    seconds = time.process_time() - begin
    regret, deployments, switches = zip(*costs, strict=True)
    if max(deployments) > budget:
        raise ValueError(
            f"it deployed {int(max(deployments))} times on {place} with N = {budget}; give it the"
            " budget: deployments={N} in a text, deployments=deployments in a function"
        )
    return Cell(
        regret=[round(float(one), _DIGITS) for one in regret],
        deployments=[int(one) for one in deployments],
        local_switches=[int(one) for one in switches],
        seconds=round(max(seconds, 1e-3), 3),
    )


def _play(mdp: TabularMDP, learner: Any, budget: int, seed: int) -> tuple[float, int, int]:
    """Regret, deployments and local switches of a learner that is told every episode."""
    player, deployments, switches, regret = TabularPlayer(mdp, seed), 0, 0, 0.0
    deployed = checked_policy(learner.policy, mdp.actions_allowed).copy()
    gap = mdp.optimal_value() - mdp.evaluate(deployed)
    steps = np.arange(mdp.horizon)
    for k in range(EPISODES):
        regret += gap
        states, rewards = (part[0] for part in player.play(deployed, np.array([k])))
        learner.tell(states.astype(np.int64), deployed[steps, states], rewards)
        wanted = checked_policy(learner.policy, mdp.actions_allowed)
        changed = int((wanted != deployed).sum())
        if changed and deployments < budget:
            deployed, deployments, switches = wanted.copy(), deployments + 1, switches + changed
            gap = mdp.optimal_value() - mdp.evaluate(deployed)
    return regret, deployments, switches


# ---- algorithms by text --------------------------------------------------------------------------


def _maker(text: str) -> Maker:
    """What makes the algorithm of a text, or the function that it names."""
    if text.split(":")[0] in RECIPES:
        return lambda deployments, **_: _recipe(text, deployments)
    module, _, name = text.partition(":")
    if not name:
        raise ValueError(
            f"{shown(text)} is neither an algorithm such as few:deployments={{N}} nor a function"
            " such as mymodule:make"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return _checked_maker(getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError) as error:
        is_elsewhere = isinstance(error, ModuleNotFoundError) and error.name == module
        hint = f"; run this in the folder of {module}.py" if is_elsewhere else ""
        raise ValueError(f"there is no function {text} ({error}){hint}") from None


def _checked_maker(make: Any) -> Maker:
    """A function that takes what the suite gives, or an error that says what that is."""
    given = ("deployments", "horizon", "states", "actions", "episodes", "seed")
    if not callable(make):
        raise ValueError(
            f"the suite needs a function that makes an algorithm for each budget, not {shown(make)}"
        )
    try:
        inspect.signature(make).bind(**dict.fromkeys(given))
    except TypeError as error:
        raise ValueError(
            f"{_name_of(make)} is called with the keyword arguments {', '.join(given)}, and does"
            f" not take them ({error}); add **rest for those that it does not need"
        ) from None
    function: Maker = make
    return function


def _recipe(text: str, budget: int) -> Algorithm:
    filled = text.replace("{N+1}", str(budget + 1)).replace("{N}", str(budget))
    if "{" in filled:
        raise ValueError(f"{text!r} has another name in braces than {{N}} and {{N+1}}")
    made: Algorithm = build(filled, RECIPES, "algorithm")
    return made


def _name_of(make: Maker) -> str:
    return f"{make.__module__}:{getattr(make, '__qualname__', type(make).__name__)}"


def differing(entry: Entry, cells: Sequence[tuple[str, int]]) -> str:
    """The differences between an entry and new measurements of some of its cells, if any."""
    code = _code(entry.algorithm)
    if code != entry.code:
        return (
            f"the code of {entry.algorithm} is another one here (its hash is {code[:12] or 'none'},"
            f" and the entry says {entry.code[:12] or 'none'})"
        )
    for place, budget in cells:
        if not _again(entry, place, budget):
            return f"{place} with N = {budget} comes out otherwise here"
    return ""


def _again(entry: Entry, place: str, budget: int) -> bool:
    """Whether a cell of an entry comes out the same when it is measured again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh = measure_cell(_maker(entry.algorithm), place, budget)
    kept = entry.results[place][budget]
    close = np.allclose(fresh.regret, kept.regret, rtol=1e-6, atol=1e-5)
    counts = fresh.deployments, fresh.local_switches
    return bool(close) and counts == (list(kept.deployments), list(kept.local_switches))
