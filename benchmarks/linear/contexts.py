"""Contextual bandits to compare learners on: data sets turned bandit, clicks, contexts that drift.

Each is made whole for a seed: contexts, mean rewards and drawn rewards of all rounds and actions,
so that every learner meets the same rounds. `best_every_round` is the rival: LinUCB and linear
Thompson sampling that learn after every round, tuned on the very problem they are measured on.
"""

import functools
import itertools
import math

import numpy as np
from numba import njit

from lowswitch.features.problem import FeatureProblem, PlayedEpisodes
from lowswitch.policy.shape import Shape

ALPHAS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0)  # of LinUCB
SCALES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # of Thompson sampling


class Rounds(FeatureProblem):
    """Rounds that are known in advance: contexts [K, d], means [K, A] and rewards [K, A]."""

    def __init__(self, name, contexts, means, rewards, *, constant):
        K = len(contexts)
        if constant:
            contexts = np.column_stack([np.ones(K), contexts])
        self.name = f"{name}, {'with' if constant else 'without'} a constant feature"
        self.contexts, self.means = np.ascontiguousarray(contexts), means
        self.rewards = np.ascontiguousarray(np.broadcast_to(rewards, means.shape), dtype=float)
        self.shape = Shape.of(1, contexts.shape[1], means.shape[1], True)

    def play(self, policy, seed, first, last):
        x, means = self.contexts[first:last, None], self.means[first:last]
        actions, every = policy.actions(x, np.arange(first, last)), np.arange(last - first)
        rewards = self.rewards[first:last][every, actions]
        regret = means.max(axis=1) - means[every, actions]
        return PlayedEpisodes(x[:, None], actions[:, None], rewards[:, None], regret)


# ---- problems ------------------------------------------------------------------------------------


@functools.cache
def data_set(name):
    """Examples with columns of unit variance, and labels; of digits 20 principal components."""
    from sklearn import datasets

    examples, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    examples = examples - examples.mean(axis=0)
    if name == "digits":
        *_, directions = np.linalg.svd(examples, full_matrices=False)
        examples = examples @ directions[:20].T
    return examples / examples.std(axis=0), labels


def classes(name, rounds, generator):
    """An example is drawn, a class is guessed, and 1 is paid if it is right."""
    examples, labels = data_set(name)
    drawn = generator.integers(len(examples), size=rounds)
    paid = np.eye(labels.max() + 1)[labels[drawn]]
    return examples[drawn], paid, paid


def _bernoulli(x, odds, generator):
    means = 1 / (1 + np.exp(-odds))
    return x, means, generator.random((len(x), 1)) < means


def logistic(rounds, generator, *, d=5, A=4):
    """Normal contexts; the log-odds of a reward are linear, with an intercept for each action."""
    weights, middle = generator.normal(size=(A, d)), generator.normal(size=A)
    x = generator.normal(size=(rounds, d))
    return _bernoulli(x, x @ weights.T + middle, generator)


def clicks(rounds, generator, *, d=8, A=10, rate=-3.5):
    """Sparse contexts of zeros and ones, and rewards that are rarely 1."""
    weights = 0.5 * generator.normal(size=(A, d))
    middle = 0.5 * generator.normal(size=A) + rate
    x = (generator.random((rounds, d)) < 0.3).astype(float)
    return _bernoulli(x, x @ weights.T + middle, generator)


def gaussian(rounds, generator, *, d=10, A=5):
    """Normal contexts and rewards, linear with an intercept for each action."""
    weights = generator.normal(size=(A, d)) / math.sqrt(d)
    x = generator.normal(size=(rounds, d))
    means = x @ weights.T + 0.5 * generator.normal(size=A)
    return x, means, means + 0.5 * generator.normal(size=(rounds, 1))


def moving(rounds, generator, *, d=5, A=4):
    """`logistic` whose contexts move steadily by six standard deviations in one direction."""
    weights, middle = generator.normal(size=(A, d)), generator.normal(size=A)
    direction = generator.normal(size=d)
    direction /= np.linalg.norm(direction)
    x = generator.normal(size=(rounds, d)) + np.linspace(-3, 3, rounds)[:, None] * direction
    return _bernoulli(x, x @ weights.T + middle, generator)


def turning(rounds, generator, *, d=6, A=4):
    """Linear rewards with normal noise; the middle of the contexts goes once around a circle."""
    weights, middle = generator.normal(size=(A, d)), 0.5 * generator.normal(size=A)
    angle = np.linspace(0, 2 * np.pi, rounds)
    x = 0.7 * generator.normal(size=(rounds, d))
    x[:, :2] += 2.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    means = x @ weights.T + middle
    return x, means, means + generator.normal(size=(rounds, 1))


PROBLEMS = {
    "logistic": logistic,
    "cancer": functools.partial(classes, "breast_cancer"),
    "wine": functools.partial(classes, "wine"),
    "digits": functools.partial(classes, "digits"),
    "clicks": clicks,
    "drift, logistic": moving,
    "drift, linear": turning,
    # no choice was made on these
    "iris": functools.partial(classes, "iris"),
    "logistic, d = 10, A = 6": functools.partial(logistic, d=10, A=6),
    "rarer clicks, d = 12, A = 5": functools.partial(clicks, d=12, A=5, rate=-4.5),
    "linear with normal noise": gaussian,
}


def problem(name, rounds, seed, *, constant):
    """A problem of this name; the same rounds for the same seed, with a constant or without."""
    drawn = PROBLEMS[name](rounds, np.random.default_rng([seed, 77]))
    return Rounds(name, *drawn, constant=constant)


# ---- rivals --------------------------------------------------------------------------------------


@njit(cache=True)
def every_round(x, means, rewards, alpha, noise, dates):
    """The regret of LinUCB or of linear Thompson sampling that learns after every round.

    noise: [K, A], all 1 for LinUCB, and normal numbers for Thompson sampling.

    The second number is the regret of a policy that only waits: it has the estimates of this very
    learner, but takes them over on these dates alone, plays them without exploring, and plays at
    random before the first.
    """
    K, d = x.shape
    A = means.shape[1]
    inverse, moment = np.zeros((A, d, d)), np.zeros((A, d))
    theta, frozen = np.zeros((A, d)), np.zeros((A, d))
    for a in range(A):
        for i in range(d):
            inverse[a, i, i] = 1.0
    regret, waited, passed = 0.0, 0.0, 0
    for t in range(K):
        if passed < len(dates) and t == dates[passed]:
            frozen[:] = theta
            passed += 1
        best = means[t].max()
        chosen, score = 0, -np.inf
        for a in range(A):
            length = math.sqrt(max(0.0, np.dot(inverse[a] @ x[t], x[t])))
            found = np.dot(theta[a], x[t]) + alpha * length * noise[t, a]
            if found > score:
                chosen, score = a, found
        regret += best - means[t, chosen]
        waited += best - (means[t, (frozen @ x[t]).argmax()] if passed else means[t].mean())
        turned = inverse[chosen] @ x[t]
        inverse[chosen] -= np.outer(turned, turned) / (1.0 + np.dot(turned, x[t]))
        moment[chosen] += rewards[t, chosen] * x[t]
        theta[chosen] = inverse[chosen] @ moment[chosen]
    return regret, waited


def rivals():
    """The names of all LinUCB and Thompson sampling, each with its scale."""
    pairs = [("LinUCB", ALPHAS), ("Thompson sampling", SCALES)]
    return {f"{kind}, {scale:g}": scale for kind, scales in pairs for scale in scales}


def runs_of(rival, made, seeds, dates):  # [seeds, 2]
    """The regret of a rival on these problems, and of the policy that only waits."""
    found = []
    for one, seed in zip(made, seeds, strict=True):
        noise = np.ones(one.means.shape)
        if rival.startswith("Thompson"):
            noise = np.random.default_rng([seed, 78]).normal(size=one.means.shape)
        facts = one.contexts, one.means, one.rewards
        found.append(every_round(*facts, rivals()[rival], noise, dates))
    return np.array(found)


def best_every_round(made, seeds, dates):
    """The best of all LinUCB and Thompson sampling on these problems, and what waiting costs it."""
    found = {rival: runs_of(rival, made, seeds, dates) for rival in rivals()}
    best = min(found, key=lambda name: found[name][:, 0].mean())
    return best, found[best][:, 0], found[best][:, 1]


def full_information(one, dates):
    """The regret of ridge regression that is told the rewards of all actions in every round.

    It takes its estimates over on these dates alone, plays them without exploring, and plays at
    random before the first.
    """
    x, means, first = one.contexts, one.means, dates[0]
    lost = [means[:first].max(axis=1) - means[:first].mean(axis=1)]
    for begin, end in itertools.pairwise([*dates, len(x)]):
        seen, now = x[:begin], slice(begin, end)
        weights = np.linalg.solve(seen.T @ seen + np.eye(x.shape[1]), seen.T @ one.rewards[:begin])
        chosen = (x[now] @ weights).argmax(axis=1)
        lost.append(means[now].max(axis=1) - means[now][np.arange(end - begin), chosen])
    return float(np.concatenate(lost).sum())


def in_raw_units(one, seed):
    """The same rounds with features in other units: 0.03 to 1,000 for 1, and up to 20 from 0."""
    generator = np.random.default_rng([seed, 81])
    d = one.contexts.shape[1]
    units = 10 ** generator.uniform(-1.5, 3, d)
    moved = units * (one.contexts + generator.uniform(-20, 20, d))
    return Rounds(one.name, moved, one.means, one.rewards, constant=False)


def with_squares(one):
    """The same rounds with the squares and products of the features, of mean 0 and deviation 1."""
    x = one.contexts
    i, j = np.triu_indices(x.shape[1])
    products = x[:, i] * x[:, j]
    products = (products - products.mean(axis=0)) / (products.std(axis=0) + 1e-9)
    return Rounds(one.name, np.column_stack([x, products]), one.means, one.rewards, constant=False)
