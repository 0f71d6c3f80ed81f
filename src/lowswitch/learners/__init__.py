"""The knowledge and deployed policy of a learner: Q-learners, stages, planners and mixtures.

Each kind has its own file. `knowledge_of` finds the class for an algorithm. All classes have the
interface of `Knowledge`, and no other module asks which kind of learner it has.
"""

from __future__ import annotations

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import EarlySettled, QLearning, RandomizedStages
from lowswitch.algorithms.ridge import Ridge
from lowswitch.learners.knowledge import Knowledge, ProblemSize
from lowswitch.show.progress import say_when_compiling

__all__ = ["Knowledge", "ProblemSize", "knowledge_of"]


def knowledge_of(algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Knowledge:
    """The spec of an algorithm for one problem size; `fresh` gives it tables."""
    from lowswitch.learners import (
        federated,
        mixtures,
        own,
        planners,
        randomized,
        rows,
        settled,
        stages,
    )

    say_when_compiling()
    kind: type[Knowledge]
    if isinstance(algorithm.estimator, Ridge):
        raise ValueError(
            f"{algorithm} learns from features, but a table of states has no features; use"
            " ls.Learner with features, such as ls.features.one_hot"
        )
    if algorithm.replans:
        kind = planners.PlannerKnowledge
    elif own.has_functions(algorithm):
        kind = own.OwnKnowledge
    elif type(algorithm.estimator) in federated.KINDS:
        kind = federated.KINDS[type(algorithm.estimator)]
    elif isinstance(algorithm.estimator, EarlySettled):
        kind = settled.SettledKnowledge
    elif isinstance(algorithm.estimator, RandomizedStages):
        kind = randomized.RandomizedKnowledge
    elif algorithm.members > 1:
        kind = mixtures.MixtureKnowledge
    else:
        by_visits = isinstance(algorithm.estimator, QLearning)
        kind = rows.RowKnowledge if by_visits else stages.StageKnowledge
    return kind.of(algorithm, size, allowed)
