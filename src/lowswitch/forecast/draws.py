"""Problems to plan on: of a size alone, or such as logged episodes could have come from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.recipes import few
from lowswitch.checks import checked_batch, checked_mask, require_count
from lowswitch.envs.mdp import RewardLaw, TabularMDP
from lowswitch.table_learner import TableLearner


class Size(NamedTuple):
    """The size of a problem: steps of an episode, states, actions."""

    horizon: int
    states: int
    actions: int


class Logged(NamedTuple):
    """Episodes [B, H] that were played before, all of one size."""

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray


def problem_of_size(size: Size, seed: int, allowed: np.ndarray | None = None) -> TabularMDP:
    """A problem from the planner's prior over problems of a size; allowed: a mask [H, S, A].

    Laws are Dirichlet(mass / S, ...) with a mass between 0.3 and S, uniform in its logarithm. All,
    a third or a tenth of the rewards are not 0; these are uniform on [0, 1], and each of the two
    reward laws is as likely. All steps are alike in three of four problems. Episodes begin in one
    of three states.
    """
    generator, (H, S, A) = np.random.default_rng([seed, 2**31]), size
    steps = (1,) if generator.random() < 0.75 else (H,)
    mass = float(np.exp(generator.uniform(np.log(0.3), np.log(max(S, 1)))))
    laws = generator.gamma(mass / S, size=(*steps, S, A, S)) + 1e-12
    laws[laws < 1e-6 * laws.sum(axis=-1, keepdims=True)] = 0.0
    laws /= laws.sum(axis=-1, keepdims=True)
    paying = generator.random((*steps, S, A)) < generator.choice((1.0, 0.3, 0.1))
    rewards = np.where(paying, generator.random((*steps, S, A)), 0.0)
    start = np.bincount(generator.integers(0, S, 3), minlength=S) / 3
    law: RewardLaw = "bernoulli" if generator.random() < 0.5 else "deterministic"
    if steps == (1,):
        laws, rewards = laws[0], rewards[0]
    return TabularMDP(
        laws, rewards, start=start, horizon=H, reward_law=law, actions_allowed=allowed
    )


class ProblemPosterior:
    """The posterior over problems, with a learned prior, after logged episodes."""

    def __init__(self, logged: Logged, size: Size) -> None:
        H, S, A = size
        self.size, self.first = size, np.bincount(logged.states[:, 0], minlength=S)
        default, episodes = few(deployments=1, members=1), len(logged.states)
        self.learner = TableLearner(default, horizon=H, states=S, actions=A, episodes=episodes)
        self.learner.warm_start(*logged)

    def problem(self, number: int) -> TabularMDP:
        """Problem `number` of the posterior: always the same one for the same data."""
        from scipy import sparse

        (H, S, A), model = self.size, self.learner.drawn_model(number)
        laws = sparse.csr_array(
            (model.weights, (model.rows, model.successors)), shape=(model.steps * S * A, S)
        )
        start = np.random.default_rng([number, 2**30]).dirichlet(self.first + 1e-3)
        law: RewardLaw = "bernoulli" if model.noisy else "deterministic"
        rewards = model.rewards[0] if len(model.rewards) == 1 else model.rewards
        return TabularMDP(laws, rewards, start=start, horizon=H, reward_law=law)

    def usual_policy(self) -> np.ndarray:  # [H, S]
        """What was played most often; in a row that was never visited, in its state at any step."""
        visits = self.learner.visits
        often = np.where(visits.sum(axis=-1, keepdims=True) > 0, visits, visits.sum(axis=0)[None])
        return np.asarray(often.argmax(axis=-1))


def checked_size(size: Any) -> Size:
    """Three whole numbers as a size."""
    names = Size._fields
    return Size(*(require_count(name, value) for name, value in zip(names, size, strict=True)))


def checked_logs(logged: Any, size: Any) -> tuple[Logged, Size]:
    """Logged episodes and their size, by default the least that they fit into."""
    states, actions, rewards = (np.asarray(part) for part in logged)
    if states.ndim != 2 or not len(states):
        raise ValueError(
            "logged episodes are states, actions and rewards of shape [episodes, H] each, not"
            f" arrays of shapes {states.shape}, {actions.shape} and {rewards.shape}"
        )
    if size is None:
        size = rewards.shape[-1], int(states.max()) + 1, int(actions.max()) + 1
    checked = checked_size(size)
    return Logged(*checked_batch(states, actions, rewards, checked_mask(None, *checked))), checked
