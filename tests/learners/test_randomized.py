"""Staged-RandQL: random learning rates, samples of each estimate, and stages that take the best."""

import math

import numpy as np
import pytest
from scipy import stats

import lowswitch as ls
from conftest import PROBLEMS
from lowswitch.kernels.noise import noise
from lowswitch.kernels.randomized import beta
from lowswitch.kernels.streams import SAMPLES, learner_stream
from lowswitch.reproduce.pseudocode import play_episode

EPISODES = 3_000
WITHOUT_TIES = ("dense", "per-step", "masked-sequence", "reward-by-step")
MASK = 2**64 - 1


# ---- the paper in plain Python -------------------------------------------------------------------


def splitmix(key, address):
    """SplitMix64 with whole numbers: Steele, Lea, Flood 2014."""
    z = (key + address * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Draws:
    """A stream of random numbers, used up one after the other."""

    def __init__(self, key):
        self.key, self.used = key, 0

    def uniform(self):
        self.used += 1
        return ((splitmix(self.key, self.used) >> 11) + 0.5) * 2.0**-53

    def gamma(self, shape):
        """Marsaglia, Tsang 2000; below 1 the draw for shape + 1, times u^(1 / shape)."""
        if shape == 1:
            return -math.log(self.uniform())
        if shape < 1:
            power = self.uniform() ** (1 / shape)
            return power * self.gamma(shape + 1)
        d = shape - 1 / 3
        while True:
            x = math.sqrt(-2 * math.log(self.uniform())) * math.cos(2 * math.pi * self.uniform())
            v, u = (1 + x / math.sqrt(9 * d)) ** 3, self.uniform()
            if v > 0 and math.log(u) < x * x / 2 + d - d * v + d * math.log(v):
                return d * v

    def beta(self, one, other):
        if one == 1:  # the inverse of its distribution function
            return 1 - self.uniform() ** (1 / other)
        first = self.gamma(one)
        return first / (first + self.gamma(other))


class PlainStagedRandQL:
    """Tiapkin et al. 2023, Staged-RandQL, line by line; rows change at ends of stages."""

    def __init__(self, mdp, algorithm, episodes, seed=0):
        H, S, A = self.shape = mdp.horizon, mdp.states, mdp.actions
        self.chosen, self.stream = algorithm.estimator, int(learner_stream(seed, SAMPLES))
        self.n0 = 1 / S if self.chosen.prior == "states" else self.chosen.prior
        ends = algorithm.schedule.triggers(horizon=H, limit=episodes)
        self.ends = set(range(1, ends.every_until + 1)) | set(ends.later)
        self.caps = self.chosen.caps(H)
        self.Qbar = np.where(mdp.actions_allowed, self.caps[:, None, None], -np.inf)
        self.V = np.vstack([np.repeat(self.caps[:, None], S, axis=1), np.zeros(S)])
        self.Qtilde = {}  # (h, x, a) -> J samples
        self.N = np.zeros((H, S, A), dtype=int)
        self.stage = np.zeros((H, S, A), dtype=int)  # visits in the stage
        self.policy = mdp.actions_allowed.argmax(axis=-1)

    def digest(self, h, x, a, r, y):
        here, kappa = (h, x, a), self.chosen.kappa
        self.N[here] += 1
        samples = self.Qtilde.setdefault(here, [self.caps[h]] * self.chosen.samples)
        cell = (h * self.shape[1] + x) * self.shape[2] + a
        draws = Draws(splitmix(splitmix(self.stream, cell), int(self.N[here])))
        for j in range(len(samples)):
            w = draws.beta(1 / kappa, (self.stage[here] + self.n0) / kappa)
            samples[j] = (1 - w) * samples[j] + w * (r + self.V[h + 1, y])
        self.stage[here] += 1
        if self.N[here] in self.ends:
            self.Qbar[here] = min(self.Qbar[here], max(samples))
            self.V[h, x] = min(self.caps[h], self.Qbar[h, x].max())
            del self.Qtilde[here]
            self.stage[here] = 0
            if self.Qbar[h, x, self.policy[h, x]] < self.Qbar[h, x].max():
                self.policy[h, x] = self.Qbar[h, x].argmax()


RECIPES = {
    "as-published": ls.staged_randql(),
    "inflated": ls.staged_randql(
        kappa=3, prior=2.5, samples=5, clip="horizon", schedule="growth/1.5"
    ),
}


@pytest.mark.parametrize("problem", WITHOUT_TIES)
@pytest.mark.parametrize("name", RECIPES)
def test_the_library_s_learner_is_the_paper_s(name, problem):
    """The same row changes after the same episodes."""
    mdp, changes = PROBLEMS[problem](), []
    learner = PlainStagedRandQL(mdp, RECIPES[name], EPISODES)
    for k in range(EPISODES):
        before = learner.policy.copy()
        states, actions, rewards = play_episode(mdp, before, 0, k)
        for h in range(mdp.horizon):
            y = states[h + 1] if h + 1 < mdp.horizon else 0
            learner.digest(h, states[h], actions[h], rewards[h], y)
        changed = np.argwhere(learner.policy != before).tolist()
        changes += [[k, h, x, int(learner.policy[h, x])] for h, x in changed]
    runs = ls.simulate(
        mdp, RECIPES[name], episodes=EPISODES, seeds=[0], history=True, progress=False
    )
    assert runs.history[0].changes.tolist() == changes
    assert len(changes) > 10


# ---- formulas ------------------------------------------------------------------------------------


def draws_of(one, other, count, seed):
    counter, key = np.zeros(1, dtype=np.uint64), np.uint64(seed)
    draw = getattr(beta, "py_func", beta)
    return np.array([draw(one, other, key, counter) for _ in range(count)])


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of 64-bit noise
@pytest.mark.parametrize(("one", "other"), [(1.0, 0.2), (1.0, 7.5), (0.4, 0.2), (0.4, 3.0)])
def test_rates_have_the_beta_law(one, other):
    """Kolmogorov and Smirnov, 1,000 draws, seed 5: four tests, false alarms in 0.04 % of seeds."""
    found = stats.kstest(draws_of(one, other, 1_000, seed=5), stats.beta(one, other).cdf)
    assert found.pvalue > 1e-4


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_tiny_shapes_have_the_limit_of_the_beta_law():
    """Both gamma draws underflow, so the rate is 0 or 1: 1 with probability 1/4 in 400 draws."""
    found = draws_of(1e-6, 3e-6, 400, seed=1)
    assert set(found) == {0.0, 1.0}
    assert abs(found.mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 400)


def test_a_stage_by_hand():
    """H = 2: the first stage has two visits. All samples begin at 1 in the last step; the stage's
    end takes the largest of three, and the next stage begins at 1 again.
    """
    learner = ls.Learner(
        ls.staged_randql(samples=3, prior=0.5), horizon=2, states=1, actions=2, episodes=10
    )
    learner.tell([0, 0], [0, 0], [0.0, 0.25])
    tables = learner._knowledge.tables
    cell = 2  # step 1, state 0, action 0
    key = splitmix(splitmix(int(learner_stream(0, SAMPLES)), cell), 1)
    kept = [Draws(key) for _ in range(3)]
    for j, draws in enumerate(kept):
        draws.used = j
    shares = [draws.uniform() ** (1 / 0.5) for draws in kept]  # 1 - w for w from Beta(1, n_0)
    expected = [0.25 + share * (1 - 0.25) for share in shares]
    assert tables.samples[6:9] == pytest.approx(expected)
    assert learner.q[1, 0].tolist() == [1, 1]
    learner.tell([0, 0], [0, 0], [0.0, 0.25])
    assert 0.25 < learner.q[1, 0, 0] < max(expected)
    assert tables.samples[6:9].tolist() == [1, 1, 1]
    assert tables.cells["begin"].tolist() == [2, 0, 2, 0]
    assert learner.policy.tolist() == [[1], [1]]


def test_noise_of_a_visit_depends_on_cell_and_visit_alone():
    with np.errstate(over="ignore"):
        assert int(noise(np.uint64(3), np.uint64(7))) == splitmix(3, 7)


def test_bad_options_are_refused():
    for options, message in (
        ({"samples": 0}, "samples must be"),
        ({"kappa": 0}, "kappa must be"),
        ({"prior": -1}, "prior must be"),
        ({"scales": (1, 0.5)}, "leave scales out"),
        ({"schedule": "grid/equal/3"}, "stages end at visit counts"),
    ):
        with pytest.raises(ValueError, match=message):
            ls.staged_randql(**options)
