"""Problems with features for a plan, and the run of an algorithm on one of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import require_count
from lowswitch.feature_learner import FeatureLearner
from lowswitch.features.problem import FeatureProblem
from lowswitch.features.problems import LinearBandit
from lowswitch.policy.linear import LinearPolicy

_SIZES = (0.1, 0.3, 1.0)  # of effects, in deviations of the noise; all equally likely


class Followed(NamedTuple):
    """The run of one algorithm on one problem with features."""

    dates: np.ndarray  # [n]
    values: np.ndarray  # [n + 1]  of the policy deployed initially, and after each date
    optimal: float
    regret: float


def checked_features_size(given: dict[str, Any]) -> tuple[int, int]:
    """The numbers of features and actions in a size such as {"features": 5, "actions": 4}."""
    if given.keys() != {"features", "actions"}:
        raise ValueError(
            f'the size of a problem with features is {{"features": 5, "actions": 4}}, not {given!r}'
        )
    return require_count("features", given["features"]), require_count("actions", given["actions"])


def drawn_bandit(features: int, actions: int, number: int) -> FeatureProblem:
    """Draw a problem of this size.

    Features, effects and noise are normal with deviation 1, except that the size of the effects
    varies.
    """
    generator = np.random.default_rng([number, features, actions])
    size = float(generator.choice(_SIZES))
    weights = size * generator.normal(size=(actions, features))
    name = f"linear bandit, d = {features}, A = {actions}"
    return LinearBandit(
        weights * np.sqrt(features), actions=actions, shared=True, noise=1.0, name=name
    )


def followed(
    problem: FeatureProblem,
    algorithm: Algorithm,
    episodes: int,
    seed: int,
    initial: LinearPolicy | None,
) -> Followed:
    """Run an algorithm for all episodes of a problem; values are averages between its dates."""
    size = problem.shape._asdict()
    learner = FeatureLearner(algorithm, **size, episodes=episodes, seed=seed, initial=initial)
    dates = learner.dates[learner.dates < episodes]
    regret, best = np.zeros(episodes), np.zeros(episodes)
    while learner.told < episodes:
        first = learner.told
        piece = problem.play(
            learner.policy, seed, first, first + learner.next_stop(episodes - first)
        )
        learned = learner.learn_piece(piece.x, piece.actions, piece.rewards)
        span = slice(first, first + learned)
        regret[span] = piece.regret[:learned]
        best[span] = piece.rewards[:learned].sum(axis=1) + piece.regret[:learned]
    optimal = float(best.mean())
    parts = np.split(regret, dates)
    values = np.array([optimal - part.mean() for part in parts])
    return Followed(dates, values, optimal, float(regret.sum()))
