"""A run on M machines, which all play the same policy in a round.

What they play is learned in the order of the machines, so the run equals the sequential one to the
bit.
"""

from __future__ import annotations

import os
from functools import singledispatch
from typing import Any, Literal, get_args

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
) -> ConcurrentRun:
    """Run an algorithm for `episodes` episodes; in each round M machines play one episode each, all
    by the same policy.

    source: what is played: a TabularMDP, a `Gymnasium` or a `System`; or a problem with features
    (`lowswitch.features.problems`, or `Environment` of `lowswitch.envs.gymnasium`), which this
    process plays to its last episode, by the rules "trigger" and "switch".
    machines: M, the number of episodes in a round. It may exceed the number of the fleet's workers.
    rule: where a round is cut. The episodes after the cut are thrown away and played again.
    "trigger" cuts after the first episode with a trigger, as in the paper; a planner's triggers are
    the episodes after which it plans. "switch" cuts after the first episode that changed the
    policy. "speculate" throws away only those episodes that the new policy would have played
    otherwise; it needs a source that can be replayed.
    fleet: who plays; by default this process.
    stop: when to end before the last episode.
    checkpoint: a file that is written every `save_every` seconds, at the end, and when something
    goes wrong. Where it exists, the run goes on from it. One run owns it at a time: a second one is
    refused with the process of the first.
    regret: False leaves the regret out where it could be known.

    For a simulated source the policy history is that of the sequential run, whatever the machines,
    the rule and the fleet are.
    """
    setting = _checked_setting(source, algorithm, episodes, machines, rule, seed, regret)
    driver = driver_of(setting.source, setting, stop, fleet)
    if not (is_number(save_every) and save_every >= 0):
        raise ValueError(
            f"save_every must be a number of seconds, 0 or more, not {shown(save_every)}"
        )
    if checkpoint is not None:
        storage.require_writable(checkpoint)
        driver.facts()  # which fails here, and not after hours, if it cannot be saved
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
    )


@singledispatch
def driver_of(source: Any, *given: Any) -> RoundDriver:
    """What plays the rounds of this source: given the setting, when to stop, and the fleet."""
    return TableRounds(*given)


@driver_of.register
def _(source: FeatureProblem, *given: Any) -> RoundDriver:
    return FeatureRounds(*given)
