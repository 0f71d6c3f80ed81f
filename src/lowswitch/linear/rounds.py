"""Rounds of many machines on a problem with features: M episodes by one policy, learned in order.

Episodes after the cut of a round are thrown away and played again, so that the run equals the
sequential one to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.asked import require_dates
from lowswitch.checks import require_count, require_seed, require_word
from lowswitch.linear.learner import LinearLearner
from lowswitch.linear.problem import FeatureProblem, require_problem
from lowswitch.linear.runs import Account, learner_for
from lowswitch.progress import Progress

Rule = Literal["trigger", "switch"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearRounds:
    """A run in rounds: what it cost, and its learner at the end."""

    algorithm: Algorithm
    machines: int
    rule: str
    rounds: int
    discarded: int  # episodes that were played and thrown away
    regret: float  # of the episodes that were learned
    earned: float
    deployments: int
    curve: np.ndarray  # [C]  regret at about 200 log-spaced numbers of episodes
    learner: LinearLearner

    def __repr__(self) -> str:
        return (
            f"LinearRounds({self.algorithm}, {self.machines} machines, {self.rounds:,} rounds,"
            f" {self.discarded:,} episodes discarded, {self.deployments} deployments,"
            f" regret {self.regret:.4g})"
        )


def run_rounds(
    problem: FeatureProblem,
    algorithm: Algorithm,
    episodes: int,
    *,
    machines: int,
    rule: str = "switch",
    seed: int = 0,
    progress: bool | None = None,
) -> LinearRounds:
    """Run an algorithm in rounds of `machines` episodes, all of them by one policy.

    rule: where a round is cut. "trigger" cuts it after the first episode after which a policy may
    be made, "switch" after the first one that changed it.
    """
    require_problem(problem)
    require_word("rule", rule, get_args(Rule))
    require_dates(require_algorithm(algorithm).schedule)
    episodes, machines = require_count("episodes", episodes), require_count("machines", machines)
    learner = learner_for(problem, algorithm, episodes, require_seed(seed))
    account, rounds, discarded, earned = Account(episodes), 0, 0, 0.0
    with Progress(episodes, unit="episodes", show=progress, label=str(algorithm)) as bar:
        while learner.told < episodes:
            first = learner.told
            last = min(episodes, first + machines)
            played = problem.play(learner.policy, seed, first, last)
            learned = _learn_round(learner, played, rule, account)
            earned += float(played.rewards[:learned].sum())
            discarded += last - first - learned
            rounds += 1
            bar.update(learner.told)
    return LinearRounds(
        algorithm=learner.algorithm,
        machines=machines,
        rule=rule,
        rounds=rounds,
        discarded=discarded,
        regret=account.total,
        earned=earned,
        deployments=learner.deployments,
        curve=account.regret,
        learner=learner,
    )


def _learn_round(learner: LinearLearner, played: Any, rule: str, account: Account) -> int:
    """Learn the episodes of a round in order up to its cut, and return how many."""
    done, size = 0, len(played.x)
    while done < size:
        policy, before = learner.policy, learner.deployments
        until = done + learner.next_stop(size - done)
        piece = type(played)(*(array[done:until] for array in played))
        learned = learner.learn_piece(piece.x, piece.actions, piece.rewards)
        account.charge(piece, learned, before, learner.deployments)
        triggered = learned < until - done or learner.may_change
        done += learned
        if learner.policy is not policy or (rule == "trigger" and triggered):
            break
    return done
