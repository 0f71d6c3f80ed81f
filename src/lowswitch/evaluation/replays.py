"""A learner replayed on a randomised log: it meets only those samples whose action it chooses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from lowswitch.evaluation.contexts import Log, checked_log

if TYPE_CHECKING:
    from lowswitch.feature_learner import FeatureLearner

_ROUNDING = 1e-9


def replay(learner: FeatureLearner, log: Log) -> Iterator[int]:
    """Tell a learner the samples of a log whose action its policy chooses, one by one, in order.

    Li, Chu, Langford, Wang 2011, Algorithm 2. The log must have chosen all actions with the same
    probability. Then the learner sees data with the law of a real run, which ends when its episodes
    are told or the log is over. On average one sample in A is told, and the others are skipped.
    After each told sample this yields its place in the log, so that you can look at the learner and
    decide on its proposals.

    Parameters
    ----------
    learner
        A learner with features.
    log
        The `Log`.
    """
    shape = learner.shape
    if shape.horizon != 1:
        raise ValueError(f"a log of contexts has one step, and this learner has {shape.horizon}")
    x, actions, rewards, logged = checked_log(shape, log)
    uneven = np.flatnonzero(np.abs(logged * shape.actions - 1) > _ROUNDING)
    if len(uneven):
        raise ValueError(
            f"a replay needs a log that chose each of {shape.actions} actions with probability"
            f" {1 / shape.actions:g}, not {logged[uneven[0]]:g} (sample {uneven[0]}); to evaluate a"
            " policy by another log use ls.evaluate"
        )
    for place, (context, action) in enumerate(zip(x, actions, strict=True)):
        if learner.told >= learner.episodes:
            return
        context = context[0] if shape.shared else context
        if learner.act(context).action == action:
            learner.tell(context, int(action), float(rewards[place]))
            yield place
