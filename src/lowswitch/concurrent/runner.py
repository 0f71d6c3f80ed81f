"""A run on M machines, which all play the same policy in a round.

Their episodes are learned in the order of the machines, so the run equals the sequential run bit
for bit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import singledispatch
from typing import Any, Literal, get_args

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.meetings import require_dates
from lowswitch.checks import (
    is_number,
    require_count,
    require_seed,
    require_truth,
    require_word,
    shown,
)
from lowswitch.concurrent.feature_rounds import FeatureRounds
from lowswitch.concurrent.fleets import Fleet
from lowswitch.concurrent.results import ConcurrentRun
from lowswitch.concurrent.round_driver import RoundDriver
from lowswitch.concurrent.sources import source_of
from lowswitch.concurrent.state import RoundSetting
from lowswitch.concurrent.table_rounds import TableRounds
from lowswitch.features.problem import FeatureProblem
from lowswitch.io import storage
from lowswitch.io.files import owning
from lowswitch.runs.stopping import Stop
from lowswitch.show.progress import Progress
from lowswitch.table_learner import warn_if_drowned

RoundRule = Literal["trigger", "switch", "speculate"]
Send = Literal["episodes", "sums"]


def run(
    source: Any,
    algorithm: Algorithm,
    episodes: int,
    *,
    machines: int,
    rule: RoundRule = "switch",
    fleet: Fleet | None = None,
    seed: int = 0,
    stop: Stop | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    save_every: float = 60.0,
    regret: bool = True,
    progress: bool | None = None,
    delay: int | Sequence[int] = 0,
    send: Send = "episodes",
) -> ConcurrentRun:
    """Run an algorithm on M machines, which all play the same policy in a round.

    With a simulated source, the policy history equals the history of the sequential run, for all
    machines, rules and fleets.

    Parameters
    ----------
    source
        The problem to play: a TabularMDP, a `Gymnasium` or a `System`; or a problem with features
        (`lowswitch.features.problems`, or `Environment` of `lowswitch.envs.gymnasium`). This
        process plays problems with features itself, to the last episode, and only by the rules
        "trigger" and "switch".
    algorithm
        The algorithm to run.
    episodes
        The number of episodes to learn from.
    machines
        M, the number of episodes in a round. It may exceed the number of the fleet's workers.
    rule
        Where a round is cut. Episodes after the cut are discarded and played again. "trigger" cuts
        after the first episode with a trigger, as in the paper; a planner's triggers are the
        episodes after which it plans. "switch" cuts after the first episode that changed the
        policy. "speculate" discards only the episodes that the new policy would have played
        differently; it needs a source that can be replayed.
    fleet
        Who plays; by default this process.
    seed
        The seed of the run.
    stop
        When to end before the last episode.
    checkpoint
        A file that is written every `save_every` seconds, at the end, and when something goes
        wrong. If it exists, the run resumes from it. Only one run can use it at a time; a second
        run is refused with the process number of the first.
    save_every
        The seconds between two checkpoints.
    regret
        False omits the regret even if it can be computed.
    progress
        Whether to show progress, as in `lowswitch.simulate`.
    delay
        D: the outcome of an episode is learned after D more episodes, as in `lowswitch.simulate`.
        Or one D for each machine, where machines return when they like: number k % M is the delay
        of episode k. Not for problems with features.
    send
        What workers send back. "sums" is for learners by rounds (`ls.fedq_hoeffding` and the other
        three) with as many machines: in long rounds machines send sums over their episodes, which
        are fewer bytes. Then estimates equal the sequential run's up to rounding, and machines may
        play some turns that the round does not need.

    Returns
    -------
    ConcurrentRun
        The episodes played and kept, the deployments, and their costs.
    """
    require_word("send", send, get_args(Send))
    setting = _checked_setting(
        source, algorithm, episodes, machines, rule, seed, regret, delay, send
    )
    driver = driver_of(setting.source, setting, stop, fleet)
    if not (is_number(save_every) and save_every >= 0):
        raise ValueError(
            f"save_every must be a number of seconds, 0 or more, not {shown(save_every)}"
        )
    if checkpoint is not None:
        storage.require_writable(checkpoint)
        driver.facts()  # fails now rather than after hours if it cannot be saved
    label = f"{setting.algorithm}  {setting.machines} machines"
    with (
        owning(checkpoint),
        Progress(setting.episodes, unit="episodes", show=progress, label=label) as bar,
    ):
        driver.drive(bar, checkpoint, save_every)
    result = driver.result()
    warn_if_drowned(float(result.drowned_share.mean()), algorithm)
    return result


def _checked_setting(
    source: Any,
    algorithm: Algorithm,
    episodes: int,
    machines: int,
    rule: str,
    seed: int,
    regret: bool,
    delay: int | Sequence[int],
    send: str,
) -> RoundSetting:
    given = source_of(source)
    require_word("rule", rule, get_args(RoundRule))
    require_dates(require_algorithm(algorithm).schedule)
    return RoundSetting(
        source=given,
        algorithm=algorithm,
        episodes=require_count("episodes", episodes),
        machines=require_count("machines", machines),
        rule=rule,
        seed=require_seed(seed),
        regret=require_truth("regret", regret),
        delay=_checked_delay(delay, machines),
        send=send,
    )


def _checked_delay(delay: Any, machines: int) -> tuple[int, ...]:
    """One delay for all episodes, or one for each machine."""
    given = delay.tolist() if isinstance(delay, np.ndarray) else delay
    each = tuple(given) if isinstance(given, Sequence) else (given,)
    if len(each) != 1 and len(each) != machines:
        raise ValueError(
            f"delay has {len(each)} numbers for {machines} machines; give one for each machine, or"
            " a single number for all"
        )
    return tuple(require_count("delay", one, least=0) for one in each)


@singledispatch
def driver_of(source: Any, *given: Any) -> RoundDriver:
    """The driver that plays the rounds of this source, for a setting, a stopping rule and a
    fleet.
    """
    return TableRounds(*given)


@driver_of.register
def _(source: FeatureProblem, *given: Any) -> RoundDriver:
    return FeatureRounds(*given)
