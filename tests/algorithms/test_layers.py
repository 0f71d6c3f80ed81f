"""LARFE and multi-batch learning: mixtures explore one step after the other."""

import itertools
import math

import numpy as np
import pytest

import lowswitch as ls
from conftest import PROBLEMS, random_tables
from lowswitch.algorithms.calendars import batches_of
from lowswitch.algorithms.custom import Counts
from lowswitch.algorithms.layers import best_by_counts, known_laws, reach, survivors
from lowswitch.algorithms.parts import GrowingBatches
from lowswitch.kernels.streams import MEMBERS, SAMPLES, drawn_member, learner_stream
from lowswitch.reproduce.pseudocode import play_episode
from lowswitch.runs.simulate import what_may_help

EPISODES = 3_000
WITHOUT_TIES = ("dense", "per-step", "masked-sequence", "reward-by-step")


def counts_of(successors, visits=None, rewards=None, episodes=0, allowed=None):
    """Counts as a planner reads them; without visits these are the successors."""
    successors = np.asarray(successors)
    H, S, A, _ = successors.shape
    visits = successors.sum(axis=-1) if visits is None else np.asarray(visits)
    return Counts(
        visits=visits,
        rewards=np.zeros((H, S, A)) if rewards is None else np.asarray(rewards, dtype=float),
        squares=np.zeros((H, S, A)),
        successors=successors,
        allowed=np.ones((H, S, A), dtype=bool) if allowed is None else allowed,
        deployed=np.zeros((1, H, S), dtype=int),
        episodes=episodes,
        last=False,
        generator=np.random.default_rng(0),
    )


# ---- formulas ------------------------------------------------------------------------------------


def test_rarely_seen_successors_lose_their_mass():
    model = known_laws(counts_of([[[[7, 2, 1]]]]), threshold=2)
    assert model[0, 0, 0] == pytest.approx([0.7, 0.2, 0])
    assert known_laws(counts_of([[[[0, 0, 0]]]]), threshold=1).sum() == 0


def test_the_way_to_a_pair_by_hand():
    """Action 1 leads to state 1 more often; there action 0 is wanted, elsewhere the largest
    number.
    """
    model = np.zeros((2, 2, 2, 2))
    model[0, 0] = [[0.6, 0.4], [0.3, 0.7]]
    anything = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.4], [0.1, 0.2]]])
    counts = counts_of(np.zeros((2, 2, 2, 2), dtype=int))
    policy = reach(counts, model, step=1, state=1, action=0, anything=anything)
    assert policy.tolist() == [[1, 1], [1, 0]]  # from state 1 nothing leads there
    only = np.ones((2, 2, 2), dtype=bool)
    only[0, 0, 1] = False  # forbidden
    counts = counts_of(np.zeros((2, 2, 2, 2), dtype=int), allowed=only)
    assert reach(counts, model, 1, 1, 0, anything)[0, 0] == 0


def test_no_policy_visits_a_pair_more_often():
    """Against all 64 policies of a random model with two states, two actions and three steps."""
    laws = np.random.default_rng(2).dirichlet([1, 1, 1], size=(3, 2, 2))[..., :2]  # loses mass
    counts = counts_of(np.zeros((3, 2, 2, 2), dtype=int))

    def visits(policy, state, action):
        law = np.array([1.0, 0.0])
        for h in range(2):
            law = sum(law[x] * laws[h, x, policy[h][x]] for x in range(2))
        return law[state] * (policy[2][state] == action)

    for state, action in np.ndindex(2, 2):
        found = reach(counts, laws, 2, state, action, np.zeros((3, 2, 2)))
        every = [
            visits(np.reshape(one, (3, 2)), state, action)
            for one in itertools.product((0, 1), repeat=6)
        ]
        assert visits(found, state, action) == pytest.approx(max(every))


def test_the_last_policy_plays_the_best_tried_actions_by_hand():
    """Step 0: action 0 pays 0.2 and leads to state 0, action 1 pays 0 and leads to state 1; there
    action 1 pays 0.5, action 0 was not tried.
    """
    successors = np.zeros((2, 2, 2, 2), dtype=int)
    successors[0, 0, 0] = [4, 0]
    successors[0, 0, 1] = [0, 4]
    visits = np.zeros((2, 2, 2), dtype=int)
    visits[0, 0], visits[1, 0, 0], visits[1, 1, 1] = 4, 4, 4
    rewards = np.zeros((2, 2, 2))
    rewards[0, 0, 0], rewards[1, 1, 1] = 0.8, 2.0
    policy = best_by_counts(counts_of(successors, visits, rewards))
    assert policy[0, 0] == 1
    assert policy[1].tolist() == [0, 1]


def test_an_action_is_dropped_if_another_one_is_surely_better_by_hand():
    """One state and two steps, widths 0.4 / 2 and 0.2 / 2. Step 1: 0.9 and 0.5 are 0.1 wide each,
    so action 1 is dropped. Step 0: 0.5 + [0.8, 1] beside 0.2 + [0.8, 1], 0.2 wide each, overlap;
    the third action was never tried.
    """
    visits = np.array([[[4, 4, 0]], [[4, 4, 4]]])
    rewards = np.array([[[2.0, 0.8, 0]], [[3.6, 2.0, 0]]])
    successors = np.zeros((2, 1, 3, 1), dtype=int)
    successors[0, 0, :, 0] = [4, 4, 0]
    upper, surviving = survivors(counts_of(successors, visits, rewards), c=0.2)
    assert surviving.tolist() == [[[True, True, True]], [[True, False, False]]]
    assert upper[1, 0] == pytest.approx([1.0, 0.6, 0.1])
    assert upper[0, 0] == pytest.approx([1.7, 1.4, 2.0])
    _, sure = survivors(counts_of(successors, 100 * visits, 100 * rewards), c=0.2)
    assert sure[0].tolist() == [[True, False, True]]
    only = np.array([[[True, True, False]], [[False, True, True]]])
    _, left = survivors(counts_of(successors, 100 * visits, 100 * rewards, allowed=only), c=0.2)
    assert left.tolist() == [[[True, False, False]], [[False, True, False]]]


@pytest.mark.parametrize(
    ("episodes", "batches"), [(1, 1), (4, 1), (5, 2), (16, 2), (17, 3), (256, 3), (65_536, 4)]
)
def test_the_number_of_long_batches(episodes, batches):
    assert batches_of(episodes) == batches
    if episodes > 2:
        assert batches == max(1, math.ceil(math.log2(math.log2(episodes))))


def test_dates_of_batches_by_hand():
    """K = 256: 16 and then 64 episodes; the third batch would have 128, and ends with the run."""
    size = {"horizon": 3, "states": 1, "actions": 1}
    schedule = GrowingBatches(10)
    assert schedule.grid_for(**size, episodes=256) == (1, 11, 21, 31, 47, 111)
    assert schedule.refresh_bound(**size, episodes=256) == 6 == 3 + batches_of(256)
    assert schedule.grid_for(**size, episodes=40) == (1, 11, 21, 31, 37)
    assert schedule.grid(256) == (1, 11, 27, 91)
    with pytest.raises(ValueError, match="phase must be"):
        GrowingBatches(0)


# ---- in plain Python -----------------------------------------------------------------------------


class PlainLarfe:
    """Qiao, Yin, Min, Wang 2022, the exploration of LARFE, in loops; all data count."""

    def __init__(self, mdp, estimator, seed=0):
        self.H, self.S, self.A = mdp.horizon, mdp.states, mdp.actions
        self.allowed, self.chosen = mdp.actions_allowed, estimator
        self.stream = int(learner_stream(seed, SAMPLES))
        self.N = np.zeros((self.H, self.S, self.A, self.S), dtype=int)
        self.n, self.R = np.zeros((2, self.H, self.S, self.A))
        first = self.allowed.argmax(axis=-1)
        self.mixture = np.repeat(first[None], estimator.members, axis=0)

    def digest(self, states, actions, rewards):
        for h in range(self.H):
            here = h, states[h], actions[h]
            self.n[here] += 1
            self.R[here] += rewards[h]
            if h + 1 < self.H:
                self.N[(*here, states[h + 1])] += 1

    def plan(self, number, last=False):
        if number == 2 * self.H + 1:
            self.mixture[:] = self.best()
        elif number <= 2 * self.H:
            random = np.random.default_rng([self.stream, number - 1])
            anything = random.random((self.H, self.S, self.A))
            step, pairs = (number - 1) % self.H, []
            for x in range(self.S):
                pairs += [(x, a) for a in range(self.A) if self.allowed[step, x, a]]
            every = [self.way(step, x, a, anything) for x, a in pairs]
            for m in range(self.chosen.members):
                self.mixture[m] = every[m % len(every)]

    def chance(self, h, x, a, y):
        seen = self.N[h, x, a, y]
        return seen / self.n[h, x, a] if seen >= self.chosen.threshold else 0.0

    def way(self, step, state, action, anything):
        policy = np.zeros((self.H, self.S), dtype=int)
        chances = [float(y == state) for y in range(self.S)]
        for h in range(self.H - 1, step - 1, -1):
            for x in range(self.S):
                policy[h, x] = max(self.actions(h, x), key=lambda a, h=h, x=x: anything[h, x, a])
        policy[step, state] = action
        for h in range(step - 1, -1, -1):
            before = []
            for x in range(self.S):
                arrives = {
                    a: sum(self.chance(h, x, a, y) * chances[y] for y in range(self.S))
                    for a in self.actions(h, x)
                }
                before.append(max(arrives.values()))
                score = arrives if before[-1] > 0 else dict(enumerate(anything[h, x]))
                policy[h, x] = max(arrives, key=lambda a, score=score: score[a])
            chances = before
        return policy

    def actions(self, h, x):
        return [a for a in range(self.A) if self.allowed[h, x, a]]

    def best(self):
        policy, values = self.mixture[0].copy(), [0.0] * self.S
        for h in range(self.H - 1, -1, -1):
            after = values
            values = [0.0] * self.S
            for x in range(self.S):
                q = {}
                for a in self.actions(h, x):
                    if self.n[h, x, a]:
                        total = self.R[h, x, a] + sum(
                            self.N[h, x, a, y] * after[y] for y in range(self.S)
                        )
                        q[a] = total / self.n[h, x, a]
                if q:
                    values[x] = max(q.values())
                    policy[h, x] = max(q, key=q.get)
        return policy


@pytest.mark.filterwarnings("ignore::lowswitch.runs.simulate.NothingLearnedWarning")
@pytest.mark.parametrize("problem", WITHOUT_TIES)
def test_the_library_s_larfe_is_the_plain_one(problem):
    """The same mixtures after the same episodes, and as many deployments as the paper says."""
    mdp = PROBLEMS[problem]()
    algorithm = ls.algorithms.larfe(phase=EPISODES // (2 * mdp.horizon + 3), members=18)
    plain, mixtures = PlainLarfe(mdp, algorithm.estimator), []
    key, phase = np.uint64(learner_stream(0, MEMBERS)), algorithm.estimator.phase
    for k in range(EPISODES):
        member = drawn_member(key, 18, k)
        plain.digest(*play_episode(mdp, plain.mixture[member], 0, k))
        if (k + 1) % phase == 0:
            plain.plan((k + 1) // phase)
            mixtures.append((k, plain.mixture.copy()))
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[0], history=True, progress=False)
    history, deployed = runs.history[0], np.repeat(runs.initial[None], 18, axis=0)
    for k, wanted in mixtures:
        for row in history.changes[history.episode == k]:
            deployed[:, row[1], row[2]] = row[3:]
        assert (deployed == wanted).all(), k
    assert runs.deployments.tolist() == [2 * mdp.horizon + 1]
    assert (np.unique(history.episode) + 1 == phase * np.arange(1, 2 * mdp.horizon + 2)).all()


class PlainMultiBatch(PlainLarfe):
    """After Zhang, Jiang, Zhou, Ji 2022, in loops: H steps, then what may still be optimal."""

    def plan(self, number, last):
        if last:
            self.mixture[:] = self.best()
        elif number <= self.H:
            super().plan(number, last)
        else:
            upper, survives = self.bounds()
            rows = [(h, x) for h in range(self.H) for x in range(self.S)]
            left = [(*row, a) for row in rows for a in survives[row]]
            left.sort(key=lambda place: self.n[place])
            every = [self.way(*place, upper, survives) for place in left[: self.chosen.members]]
            for m in range(self.chosen.members):
                self.mixture[m] = every[m % len(every)]

    def bounds(self):
        upper, survives = np.zeros((self.H, self.S, self.A)), {}
        above, below = [0.0] * self.S, [0.0] * self.S
        for h in range(self.H - 1, -1, -1):
            tops, bottoms = [0.0] * self.S, [0.0] * self.S
            for x in range(self.S):
                for a in range(self.A):
                    upper[h, x, a] = self.H - h
                    n = self.n[h, x, a]
                    if n:
                        law, mean = self.N[h, x, a] / n, self.R[h, x, a] / n
                        width = self.chosen.c * (self.H - h) / n**0.5
                        upper[h, x, a] = min(self.H - h, mean + law @ above + width)
                        if self.allowed[h, x, a]:
                            bottoms[x] = max(bottoms[x], mean + law @ below - width)
                good = [a for a in self.actions(h, x) if upper[h, x, a] >= bottoms[x]]
                survives[h, x], tops[x] = good, max(upper[h, x, a] for a in good)
            above, below = tops, bottoms
        return upper, survives

    def way(self, step, state, action, anything, survives=None):
        if survives is None:
            return super().way(step, state, action, anything)
        whole, self.actions = self.actions, lambda h, x: survives[h, x]
        try:
            return super().way(step, state, action, anything)
        finally:
            self.actions = whole


@pytest.mark.filterwarnings("ignore::lowswitch.runs.simulate.NothingLearnedWarning")
@pytest.mark.parametrize("problem", WITHOUT_TIES)
def test_the_library_s_batches_are_the_plain_ones(problem):
    """The same mixtures after the same episodes, and H + log2 log2 K deployments at most."""
    mdp = PROBLEMS[problem]()
    algorithm = ls.algorithms.multi_batch(phase=60, members=24, threshold=2, c=0.02)
    plain, mixtures = PlainMultiBatch(mdp, algorithm.estimator), []
    key, dates = (
        np.uint64(learner_stream(0, MEMBERS)),
        GrowingBatches(60).grid_for(**mdp.size, episodes=EPISODES),
    )
    for k in range(EPISODES):
        plain.digest(*play_episode(mdp, plain.mixture[drawn_member(key, 24, k)], 0, k))
        if k + 1 in dates:
            plain.plan(dates.index(k + 1) + 1, k + 1 == dates[-1])
            mixtures.append((k, plain.mixture.copy()))
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[0], history=True, progress=False)
    history, deployed = runs.history[0], np.repeat(runs.initial[None], 24, axis=0)
    for k, wanted in mixtures:
        for row in history.changes[history.episode == k]:
            deployed[:, row[1], row[2]] = row[3:]
        assert (deployed == wanted).all(), k
    most = mdp.horizon + math.ceil(math.log2(math.log2(EPISODES)))
    assert len(dates) == most >= runs.deployments[0] > mdp.horizon
    assert set(history.episode) <= {date - 1 for date in dates}
    _, survives = plain.bounds()
    assert min(map(len, survives.values())) < mdp.actions  # something was dropped


# ---- what the papers promise ---------------------------------------------------------------------


def test_rewards_do_not_change_what_is_explored():
    laws = random_tables(4, 2, 5)[0]
    histories = []
    for seed in (1, 2):
        rewards = np.random.default_rng(seed).random((4, 2))
        mdp = ls.TabularMDP(laws, rewards, horizon=3, start=np.full(4, 1 / 4))
        algorithm = ls.algorithms.larfe(phase=50, members=8)
        runs = ls.simulate(mdp, algorithm, episodes=400, seeds=[0], history=True, progress=False)
        changes = runs.history[0].changes
        histories.append(changes[changes[:, 0] < 7 * 50 - 1].tolist())
    assert histories[0] == histories[1]
    assert len(histories[0]) > 10


def test_seventeen_deployments_open_a_lock():
    """Each of 8 seeds finds the treasure of a lock that random play finds once in 81 episodes."""
    lock = ls.envs.combination_lock(states=4, actions=3, horizon=8)
    algorithm = ls.algorithms.larfe(phase=100, members=12)
    runs = ls.simulate(lock, algorithm, episodes=1_800, seeds=8, progress=False)
    worth = [lock.evaluate(policy) for policy in runs.policy]
    assert worth == pytest.approx([lock.optimal_value()] * 8)
    assert runs.deployments.tolist() == [17] * 8


def test_eleven_deployments_open_the_lock():
    """The treasure of the lock above, on each of 8 seeds; the fourth long batch is not reached."""
    lock = ls.envs.combination_lock(states=4, actions=3, horizon=8)
    algorithm = ls.algorithms.multi_batch(phase=100, members=12)
    runs = ls.simulate(lock, algorithm, episodes=1_800, seeds=8, progress=False)
    assert runs.last_value == pytest.approx([lock.optimal_value()] * 8)
    assert runs.deployments.max() <= 11 == algorithm.deployment_bound(**lock.size, episodes=1_800)


@pytest.mark.parametrize("exponent", [3, 4, 5, 6])
def test_deployments_are_the_horizon_and_a_double_logarithm(exponent):
    """On a problem with noise every date changes something: H + ceil(log2 log2 K) deployments."""
    mdp, episodes = PROBLEMS["sparse-bernoulli"](), 10**exponent
    algorithm = ls.algorithms.multi_batch(phase=30, members=mdp.states * mdp.actions)
    runs = ls.simulate(mdp, algorithm, episodes=episodes, seeds=2, regret=False, progress=False)
    bound = mdp.horizon + math.ceil(math.log2(math.log2(episodes)))
    assert algorithm.deployment_bound(**mdp.size, episodes=episodes) == bound
    assert (runs.deployments <= bound).all()
    assert (runs.deployments >= bound - 1).all()  # the last two may be the same policy


def test_a_run_that_ends_while_it_explores_says_how_long_it_explores():
    """H = 5: eleven phases explore, so 110 episodes never play the plan, and one more does."""
    mdp, algorithm = ls.envs.random_mdp(states=4, seed=0), ls.algorithms.larfe(phase=10)
    explores = r"explores for 2H \+ 1 phases of 10, which is 110 episodes; .* \(larfe:phase=10\)"
    with pytest.warns(ls.NothingLearnedWarning, match=explores):
        ls.simulate(mdp, algorithm, episodes=20, seeds=2, progress=False)
    assert "a smaller phase" in what_may_help(algorithm, horizon=5, episodes=110)
    assert "a smaller phase" not in what_may_help(algorithm, horizon=5, episodes=111)


def test_too_few_members_and_bad_options_are_refused():
    mdp = PROBLEMS["dense"]()
    with pytest.raises(ValueError, match=f"members={mdp.states * mdp.actions}"):
        ls.simulate(
            mdp, ls.algorithms.larfe(phase=5, members=2), episodes=10, seeds=1, progress=False
        )
    for option in ("phase", "members", "threshold"):
        for recipe in (ls.algorithms.larfe, ls.algorithms.multi_batch):
            with pytest.raises(ValueError, match=f"{option} must be"):
                recipe(**{option: 0})
    with pytest.raises(ValueError, match="c must be a positive number"):
        ls.algorithms.multi_batch(c=0)
