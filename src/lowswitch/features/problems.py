"""Problems with features, each a documented function of its sizes, with exact regret."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.checks import has_integers, numbers, require_count, require_positive, require_seed
from lowswitch.envs.mdp import TabularMDP, require_mdp
from lowswitch.features.inventory import Inventory
from lowswitch.features.problem import FeatureProblem, PlayedEpisodes
from lowswitch.kernels.streams import CONTEXTS, REWARDS, START, normals, purpose_key, uniforms
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape

__all__ = [
    "Classification",
    "FeatureProblem",
    "Inventory",
    "LinearBandit",
    "LinearMDP",
    "classification",
    "fixed_arms",
    "inventory",
    "linear_bandit",
    "linear_mdp",
    "one_hot",
]


# ---- bandits -------------------------------------------------------------------------------------


class LinearBandit(FeatureProblem):
    """Rewards theta.x and normal noise.

    Regret is the difference of mean rewards to the best action in the same context.

    Parameters
    ----------
    weights
        [B, d]: a vector for each action if features are shared, else one for all.
    actions
        The number of actions.
    shared
        Whether all actions share the features of a context.
    noise
        The standard deviation of the noise.
    arms
        Features [R, d] that are the same in every round. Without them, the features of each round
        are new normal numbers of mean square 1 / d.
    name
        The name of the problem.
    """

    def __init__(
        self,
        weights: np.ndarray,
        *,
        actions: int,
        shared: bool,
        noise: float,
        arms: np.ndarray | None = None,
        name: str = "linear bandit",
    ) -> None:
        self.name, self.noise = name, float(noise)
        self.weights = numbers("weights", weights)
        self.shape = Shape.of(1, self.weights.shape[-1], actions, shared)
        self.arms = np.zeros((0, self.shape.features)) if arms is None else numbers("arms", arms)
        wanted = (self.shape.blocks, self.shape.features)
        if self.weights.shape != wanted:
            raise ValueError(f"weights must have the shape {wanted}, not {self.weights.shape}")
        if len(self.arms) and self.arms.shape != (self.shape.rows, self.shape.features):
            raise ValueError(f"arms must be [A, d], not {self.arms.shape}")

    def contexts(self, seed: int, first: int, last: int) -> np.ndarray:  # [n, R, d]
        """The features of some rounds."""
        R, d, n = self.shape.rows, self.shape.features, last - first
        if len(self.arms):
            return np.broadcast_to(self.arms, (n, R, d))
        fresh = normals(purpose_key(seed, CONTEXTS), first * R * d, n * R * d)
        scaled: np.ndarray = fresh.reshape(n, R, d) / np.sqrt(d)
        return scaled

    def play(self, policy: LinearPolicy, seed: int, first: int, last: int) -> PlayedEpisodes:
        x, n = self.contexts(seed, first, last), last - first
        actions = policy.actions(x, np.arange(first, last))
        means = x[:, 0] @ self.weights.T if self.shape.shared else x @ self.weights[0]
        earned = means[np.arange(n), actions]
        noise = self.noise * normals(purpose_key(seed, REWARDS), first, n)
        return PlayedEpisodes(
            x=np.array(x[:, None], order="C"),
            actions=actions[:, None],
            rewards=(earned + noise)[:, None],
            regret=means.max(axis=1) - earned,
        )


def linear_bandit(
    *,
    features: int = 10,
    actions: int = 10,
    noise: float = 0.5,
    shared: bool = False,
    seed: int = 0,
) -> LinearBandit:
    """Fresh contexts in every round, and vectors of weights of norm 1.

    Parameters
    ----------
    features
        d, the number of features.
    actions
        The number of actions.
    noise
        The standard deviation of the noise.
    shared
        Whether all actions share the features of a context.
    seed
        The seed of the weights.
    """
    shape = Shape.of(1, features, actions, shared)
    generator = np.random.default_rng(require_seed(seed))
    weights = generator.normal(size=(shape.blocks, shape.features))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    noise = require_positive("noise", noise, "it is the standard deviation of a reward")
    name = f"linear bandit, d = {features}, A = {actions}"
    return LinearBandit(weights, actions=actions, shared=shared, noise=noise, name=name)


def fixed_arms(
    *, arms: int = 50, features: int = 10, noise: float = 0.5, seed: int = 0
) -> LinearBandit:
    """`arms` arms whose features are the same in every round, unit vectors like the weights.

    Parameters
    ----------
    arms
        The number of arms.
    features
        d, the number of features.
    noise
        The standard deviation of the noise.
    seed
        The seed of features and weights.
    """
    shape = Shape.of(1, features, arms, False)
    generator = np.random.default_rng(require_seed(seed))
    rows = generator.normal(size=(1 + shape.actions, shape.features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    noise = require_positive("noise", noise, "it is the standard deviation of a reward")
    name = f"{arms} fixed arms, d = {features}"
    return LinearBandit(rows[:1], actions=arms, shared=False, noise=noise, arms=rows[1:], name=name)


class Classification(FeatureProblem):
    """A data set turned into a bandit: an example is drawn, a class is guessed, and a right guess
    earns 1.

    Regret is the number of wrong guesses: it is measured against always guessing right, which no
    policy on these features may be able to do.

    Parameters
    ----------
    examples
        [n, d].
    labels
        [n], whole numbers from 0.
    name
        The name of the problem.
    """

    def __init__(self, examples: Any, labels: Any, *, name: str = "classification") -> None:
        self.name = name
        self.examples, self.labels = numbers("examples", examples), np.asarray(labels)
        if self.examples.ndim != 2 or self.labels.shape != self.examples.shape[:1]:
            raise ValueError(
                "there must be a label for each example [n, d], not arrays of shapes"
                f" {self.examples.shape} and {self.labels.shape}"
            )
        if not (has_integers(self.labels) and self.labels.min() >= 0):
            raise ValueError("labels must be whole numbers from 0 on")
        self.shape = Shape.of(1, self.examples.shape[1], int(self.labels.max()) + 1, True)
        self.shape.contexts(self.examples)

    def play(self, policy: LinearPolicy, seed: int, first: int, last: int) -> PlayedEpisodes:
        drawn = uniforms(purpose_key(seed, CONTEXTS), first, last - first) * len(self.labels)
        which = drawn.astype(np.int64)
        x = self.examples[which][:, None]
        actions = policy.actions(x, np.arange(first, last))
        right = (actions == self.labels[which]).astype(float)
        return PlayedEpisodes(x[:, None], actions[:, None], right[:, None], 1.0 - right)


def classification(examples: Any, labels: Any, *, name: str = "classification") -> Classification:
    """Examples and labels as a bandit with one arm per label.

    Parameters
    ----------
    examples
        [n, d].
    labels
        [n], whole numbers from 0.
    name
        The name of the problem.
    """
    return Classification(examples, labels, name=name)


def inventory(*, horizon: int = 10, knots: int = 34) -> Inventory:
    """Continuous stock that is ordered for; see `Inventory`.

    Parameters
    ----------
    horizon
        The number of periods.
    knots
        The number of levels of the stock at which the features have their hats.
    """
    return Inventory(horizon=horizon, knots=knots)


# ---- MDPs ----------------------------------------------------------------------------------------


class LinearMDP(FeatureProblem):
    """A TabularMDP whose learner sees features.

    Regret is exact: the optimal value minus the value of the deployed mixture, under the start law.

    Parameters
    ----------
    mdp
        The problem.
    features
        [S, A, d], or [S, d] if all actions share them.
    name
        The name of the problem.
    """

    def __init__(self, mdp: TabularMDP, features: Any, *, name: str = "linear MDP") -> None:
        self.mdp, self.name = require_mdp(mdp), name
        table = numbers("features", features)
        if not (table.ndim in (2, 3) and table.shape[0] == mdp.states):
            raise ValueError(f"features must be [S, d] or [S, A, d], not {table.shape}")
        if not mdp.actions_allowed.all() or len(mdp.start_sequence):
            raise ValueError("a problem with features has a start law, and all actions are allowed")
        self.table = table[:, None] if table.ndim == 2 else table  # [S, R, d]
        self.shape = Shape.of(mdp.horizon, table.shape[-1], mdp.actions, table.ndim == 2)
        self.shape.contexts(self.table)
        shape = -1, mdp.states, mdp.actions, mdp.states
        self.laws = mdp.transitions.reshape(shape).cumsum(axis=-1)  # [H or 1, S, A, S]
        self.start = mdp.start_law.cumsum()
        self._known: tuple[str, float] = ("", 0.0)

    def play(self, policy: LinearPolicy, seed: int, first: int, last: int) -> PlayedEpisodes:
        mdp, H, n = self.mdp, self.shape.horizon, last - first
        noise = uniforms(purpose_key(seed, START), first * (2 * H + 1), n * (2 * H + 1))
        noise = noise.reshape(n, 2 * H + 1)
        states = _drawn(np.broadcast_to(self.start, (n, mdp.states)), noise[:, 0])
        x = np.empty((n, H, self.shape.rows, self.shape.features))
        actions, rewards = np.empty((n, H), dtype=np.int64), np.empty((n, H))
        episodes = np.arange(first, last)
        for h in range(H):
            x[:, h] = self.table[states]
            actions[:, h] = policy.actions(x[:, h], episodes, h)
            paid = mdp.rewards if mdp.rewards.ndim == 2 else mdp.rewards[h]
            means = paid[states, actions[:, h]]
            if mdp.reward_law == "bernoulli":
                means = (noise[:, 2 * h + 1] < means).astype(float)
            rewards[:, h] = means
            law = self.laws[h % len(self.laws)][states, actions[:, h]]
            states = _drawn(law, noise[:, 2 * h + 2])
        loss = self.mdp.optimal_value() - self.value(policy)
        return PlayedEpisodes(x, actions, rewards, np.full(n, loss))

    def value(self, policy: LinearPolicy) -> float:
        """The exact value of a policy under the start law, averaged over its members."""
        known, identity = self._known, policy.identity
        if known[0] != identity:
            steps = [policy.choices(self.table, h) for h in range(self.shape.horizon)]
            tables = np.ascontiguousarray(np.stack(steps).transpose(2, 0, 1))  # [members, H, S]
            known = identity, float(np.mean([self.mdp.evaluate(one) for one in tables]))
            self._known = known  # whole at once: threads share it
        return known[1]

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"mdp": self.mdp.facts()}


def linear_mdp(
    *, features: int = 5, states: int = 20, actions: int = 4, horizon: int = 5, seed: int = 0
) -> LinearMDP:
    """Laws and rewards that are linear in features on the simplex: Jin et al. 2020, Example 2.2.

    P(y | x, a) = sum_j phi_j(x, a) mu_j(y), r(x, a) = phi(x, a).w, rewards are 0 or 1.

    Parameters
    ----------
    features
        d, the number of features.
    states
        S.
    actions
        A.
    horizon
        H.
    seed
        The seed of the laws and rewards.
    """
    given = {"features": features, "states": states, "actions": actions}
    features, states, actions = (require_count(name, count) for name, count in given.items())
    generator = np.random.default_rng(require_seed(seed))
    phi = generator.dirichlet(np.full(features, 0.3), (states, actions))
    mu = generator.dirichlet(np.full(states, 0.2), features)
    rewards = np.clip(phi @ generator.random(features), 0, 1)
    laws = phi @ mu
    laws /= laws.sum(axis=-1, keepdims=True)
    start = np.full(states, 1 / states)
    mdp = TabularMDP(laws, rewards, start=start, horizon=horizon, reward_law="bernoulli")
    return LinearMDP(mdp, phi, name=f"linear MDP, d = {features}, H = {horizon}")


def one_hot(mdp: TabularMDP, *, name: str = "one-hot") -> LinearMDP:
    """A table as features: a vector for each state with a single 1, which all actions share.

    Parameters
    ----------
    mdp
        The problem.
    name
        The name of the problem.
    """
    return LinearMDP(mdp, np.eye(require_mdp(mdp).states), name=name)


def _drawn(cumulative: np.ndarray, noise: np.ndarray) -> np.ndarray:  # [n]
    """An index from each row [n, S] of cumulated probabilities."""
    drawn: np.ndarray = (cumulative < noise[:, None] * cumulative[:, -1:]).sum(axis=1)
    return drawn
