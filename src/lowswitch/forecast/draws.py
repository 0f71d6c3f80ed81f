"""Problems to plan on: drawn from a size alone, or from the posterior after logged episodes."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.recipes import few
from lowswitch.checks import checked_batch, checked_mask, require_count
from lowswitch.envs.mdp import RewardLaw, TabularMDP
from lowswitch.kernels.arrays import Belief, Rewards
from lowswitch.learners.hypotheses import BY_WORTH, reward_priors
from lowswitch.learners.samples import drawn_model
from lowswitch.table_learner import TableLearner

CERTAIN = 50.0  # rewards of 0 and 1 that are worth one reward that never varies
CANDIDATES = 16  # problems, the best of which fits the earnings of the present policy
UNTRIED = 3  # an action with fewer visits counts as untried
TRIED = 5  # an action with this many visits in a state counts as tried there


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
    """Draw a problem from the planner's prior over problems of a size: see `_parts`.

    Parameters
    ----------
    size
        (H, S, A).
    seed
        The seed.
    allowed
        A mask [H, S, A] of the allowed actions, by default all of them.
    """
    return TabularMDP(**_parts(size, seed), actions_allowed=allowed)


def _parts(size: Size, seed: int) -> dict[str, Any]:
    """The parts of a problem of a size.

    Transition laws are Dirichlet(mass / S, ...) with a mass between 0.3 and S, uniform in its
    logarithm. All, a third or a tenth of the actions pay; their pay is uniform on [0, 1]. In an
    eighth of the problems all rewards are near 0, in an eighth near 1: the distances are 0.05 to 1
    times as large, uniform in the logarithm. In one of eight problems only the last step pays. Both
    reward laws are equally likely. All steps are alike in three of four problems. Episodes begin in
    one of three states.
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
    smaller, level = float(np.exp(generator.uniform(np.log(0.05), 0.0))), generator.random()
    if level < 1 / 8:
        rewards = smaller * rewards
    elif level < 1 / 4:
        rewards = 1.0 - smaller * (1.0 - rewards)
    if generator.random() < 1 / 8:
        rewards = np.concatenate([np.zeros((H - 1, S, A)), rewards[-1:]])
    laws = laws[0] if steps == (1,) else laws
    rewards = rewards[0] if len(rewards) == 1 else rewards
    return {
        "transitions": laws,
        "rewards": rewards,
        "start": start,
        "horizon": H,
        "reward_law": law,
    }


class PresentProblem(NamedTuple):
    """A problem and the policy in use."""

    mdp: TabularMDP
    policy: np.ndarray  # [H, S]


def problem_with_present(size: Size, reward: float, seed: int) -> PresentProblem:
    """Draw a problem of a size, with a policy in use that earns `reward` per episode.

    Any share of the policy's rows is right; the others play random actions. Among several problems
    from the prior, the one whose policy earns nearly `reward` is taken. Its rewards are then
    scaled, towards 0 or towards 1, until the policy earns exactly that. Who earns little does so
    because little is paid, or because more is paid elsewhere: in half of the problems only the
    rewards that the policy can reach are made smaller, and in all if it earns nothing.
    """
    some = [_present(size, seed * CANDIDATES + i) for i in range(CANDIDATES)]
    parts, policy, earned = min(some, key=lambda one: abs(one[2] - reward))
    rewards, most = parts["rewards"], float(size.horizon)
    if reward < earned:
        elsewhere = reward == 0.0 or np.random.default_rng([seed, 2**25]).random() < 0.5
        smaller = _reached(parts, policy) if elsewhere else np.ones(rewards.shape, dtype=bool)
        rewards = np.where(smaller, rewards * (reward / earned), rewards)
    else:
        rewards = 1.0 - (1.0 - rewards) * ((most - reward) / max(1e-12, most - earned))
    return PresentProblem(TabularMDP(**parts | {"rewards": np.clip(rewards, 0.0, 1.0)}), policy)


def _reached(parts: dict[str, Any], policy: np.ndarray) -> np.ndarray:  # [S, A] or [H, S, A]
    """The rewards of a problem that a policy [H, S] can get."""
    rewards, laws = parts["rewards"], parts["transitions"]
    found, here = np.zeros(rewards.shape, dtype=bool), parts["start"] > 0.0
    for h in range(len(policy)):
        cells = np.flatnonzero(here), policy[h, here]
        (found if rewards.ndim == 2 else found[h])[cells] = True
        here = ((laws if laws.ndim == 3 else laws[h])[cells] > 0.0).any(axis=0)
    return found


def _present(size: Size, seed: int) -> tuple[dict[str, Any], np.ndarray, float]:
    """The parts of a problem, a policy in use, and its earnings."""
    parts, generator = _parts(size, seed), np.random.default_rng([seed, 2**29])
    mdp = TabularMDP(**parts)
    other = generator.integers(0, size.actions, (size.horizon, size.states))
    right = generator.random(other.shape) < generator.random()
    policy = np.where(right, mdp.optimal_policy, other)
    return parts, policy, mdp.evaluate(policy)


class ProblemPosterior:
    """The posterior over problems after logged episodes, with priors that the data support.

    Each problem is drawn from its own hypothesis. The similarity of a state's actions, in their
    laws and in their rewards, decides what untried actions may earn.
    """

    def __init__(self, logged: Logged, size: Size) -> None:
        H, S, A = size
        self.size, self.first = size, np.bincount(logged.states[:, 0], minlength=S)
        default, episodes = few(deployments=1, members=1), len(logged.states)
        self.learner = TableLearner(default, horizon=H, states=S, actions=A, episodes=episodes)
        self.learner.warm_start(*logged)
        posterior = self.learner.posterior()
        assert posterior is not None
        self.posterior = posterior

    def problem(self, number: int) -> TabularMDP:
        """Problem `number` of the posterior: always the same for the same data."""
        from scipy import sparse

        (H, S, A), known = self.size, self.posterior
        chosen = int(known.hypotheses.chosen(known.stream, number + 1)[number])
        belief = self._with_reward_mass(known.hypotheses.beliefs[chosen], number)
        model = drawn_model(known.spec, belief, known.stream, number)
        laws = sparse.csr_array(
            (model.weights, (model.rows, model.successors)), shape=(model.steps * S * A, S)
        )
        start = np.random.default_rng([number, 2**30]).dirichlet(self.first + 1e-3)
        law: RewardLaw = "bernoulli" if model.noisy else "deterministic"
        places, _ = self._like_usual(model.steps, number)
        rewards = self._rewards(model.rewards, number)
        return TabularMDP(laws[places], rewards, start=start, horizon=H, reward_law=law)

    def _rewards(self, drawn: np.ndarray, number: int) -> np.ndarray:  # [S, A] or [H, S, A]
        """Drawn rewards; rewards of untried actions are smaller where the usual action is right."""
        places, untried = self._like_usual(len(drawn), number)
        smaller = np.random.default_rng([number, 2**26]).random(drawn.shape[1:])
        paid = drawn.reshape(-1)[places].reshape(drawn.shape)
        paid = np.where(untried, smaller * paid, paid)
        return np.asarray(paid[0] if len(paid) == 1 else paid)

    def _like_usual(self, steps: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The position of the law of each of [steps S A] rows, and which [steps, S, A] are untried
        in states where the usual action is right.

        The logged policy may have been chosen well. Where it is right, untried actions are like
        the usual one and pay less. It is right in all states, in none, or in any share of them: the
        logs cannot tell.
        """
        (_, S, A), generator = self.size, np.random.default_rng([number, 2**27])
        share = generator.choice((0.0, 1.0, 1.0, generator.random()))
        right = generator.random(S) < share
        visits, usual = self._visits(steps), self._usual(steps)[..., None]
        untried = (visits < UNTRIED) & right[:, None] & (usual != np.arange(A))
        rows = np.arange(visits.size).reshape(visits.shape)
        return np.where(untried, np.take_along_axis(rows, usual, axis=-1), rows).ravel(), untried

    def _visits(self, steps: int) -> np.ndarray:  # [steps, S, A]
        visits = self.learner.visits
        return visits.sum(axis=0)[None] if steps == 1 else visits

    def _usual(self, steps: int) -> np.ndarray:  # [steps, S]
        """The most frequent action; in a row that was never visited, of its state at any step."""
        visits, of_all = self._visits(steps), self._visits(1)
        often = np.where(visits.sum(axis=-1, keepdims=True) > 0, visits, of_all)
        return np.asarray(often.argmax(axis=-1))

    def _with_reward_mass(self, belief: Belief, number: int) -> Belief:
        """A belief with a drawn similarity of the rewards of a state's actions."""
        masses, shares = self._reward_masses
        generator = np.random.default_rng([number, 2**28])
        return belief._replace(reward_mass=float(generator.choice(masses, p=shares)))

    @functools.cached_property
    def _reward_masses(self) -> tuple[np.ndarray, np.ndarray]:
        """How alike the rewards of a state's actions are, from states in which several were tried.

        Differences between states say nothing about their actions. A reward that never varies
        counts as `CERTAIN` rewards of 0 and 1.
        """
        known, A = self.posterior, self.size.actions
        belief = known.seen.belief
        paid = belief.rewards
        several = (paid.n.reshape(-1, A) > 0).sum(axis=-1) >= 2
        n = np.where(np.repeat(several, A), paid.n, 0.0)
        if not belief.noisy:
            n, belief = CERTAIN * (n > 0), belief._replace(noisy=True, share=1.0)
        total = n * np.clip(paid.total / np.maximum(paid.n, 1.0), 0.0, 1.0)
        all_n, all_total = (one.reshape(-1, A).sum(axis=-1) for one in (n, total))
        counted = Rewards(paid.stride, n, total, total, all_n, all_total)
        belief = belief._replace(rewards=counted)
        priors, shares = zip(
            *reward_priors(known.spec, belief, belief.share, BY_WORTH), strict=True
        )
        return np.array([mass for mass, _ in priors]), np.array(shares)

    def usual_policy(self) -> np.ndarray:  # [H, S]
        """The policy of the most frequent logged actions."""
        return self._usual(self.size.horizon)

    def compared(self) -> float:
        """The share of visits in states where at least two actions were tried `TRIED` times."""
        visits = self.learner.visits.sum(axis=0)  # [S, A]
        several = (visits >= TRIED).sum(axis=-1) >= 2
        return float(visits[several].sum() / visits.sum())


def checked_size(size: Any) -> Size:
    """Check three whole numbers, and return them as a size."""
    names = Size._fields
    return Size(*(require_count(name, value) for name, value in zip(names, size, strict=True)))


def checked_logs(logged: Any, size: Any) -> tuple[Logged, Size]:
    """Logged episodes and their size, by default the smallest that fits them."""
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
