"""FedQ: M machines play one policy in a round, and its end teaches what all of them saw."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

import lowswitch as ls
from conftest import PROBLEMS, learner_for
from lowswitch.concurrent import Processes
from lowswitch.kernels import federated
from lowswitch.kernels.arrays import NEVER
from lowswitch.reproduce.pseudocode import play_episode

EPISODES = 3_000
WITHOUT_TIES = ("dense", "per-step", "masked-sequence", "reward-by-step")


# ---- formulas ------------------------------------------------------------------------------------


def test_the_visits_of_one_machine_that_end_a_round():
    """M H (H + 1) = 12: before 24 visits one is enough, then a twelfth of all visits."""
    visits = [0, 12, 23, 24, 35, 36, 120]
    assert [federated.round_quota(n, 2, 2) for n in visits] == [1, 1, 1, 2, 2, 3, 10]


def test_while_one_visit_ends_a_round_visits_count_in_order():
    assert [federated.learns_in_order(n, 2, 2) for n in (0, 23, 24)] == [True, True, False]
    for n in range(200):
        assert federated.learns_in_order(n, 3, 2) == (federated.round_quota(n, 3, 2) == 1)


def test_a_round_of_two_machines_by_hand():
    """H = 1: alpha_1 = 1 and alpha_2 = 2/3, so the weights are 1/3 and 2/3."""
    learner = ls.Learner(
        ls.fedq_hoeffding(c=0.1, machines=2), horizon=1, states=1, actions=2, episodes=10
    )
    assert learner.tell([0], [0], [0.3]) is None  # the round ends when both have played
    assert learner.q.tolist() == [[[1, 1]]]
    learner.tell([0], [0], [0.6])
    iota = math.log(2 * 10 / 0.05)
    bonus = 0.1 * (math.sqrt(iota) / 3 + math.sqrt(iota / 2) * 2 / 3)
    assert learner.q[0, 0, 0] == pytest.approx(0.3 / 3 + 0.6 * 2 / 3 + bonus)
    assert learner.q[0, 0, 1] == 1


def test_the_bernstein_bonus_of_a_round_by_hand():
    """M = H = 1, so next values are 0: beta_t = min{c1 (sqrt(iota / t) + 2 sqrt(S A) iota / t),
    c2 sqrt(iota / t)}, and the bonus is (beta_2 - beta_1 / 3) / 2 after the second visit.
    """
    learner = ls.Learner(
        ls.fedq_bernstein(c1=0.1, c2=0.2), horizon=1, states=1, actions=1, episodes=20
    )
    iota = math.log(20 / 0.05)
    first, second = (
        min(0.1 * (math.sqrt(iota / t) + 2 * iota / t), 0.2 * math.sqrt(iota / t)) for t in (1, 2)
    )
    learner.tell([0], [0], [0.5])
    assert learner.q[0, 0, 0] == pytest.approx(0.5 + first / 2)
    learner.tell([0], [0], [0.2])
    before = 0.5 + first / 2
    assert learner.q[0, 0, 0] == pytest.approx(before / 3 + 0.2 * 2 / 3 + (second - first / 3) / 2)


def test_many_visits_count_alike():
    """H = M = 1: from 4 visits on a round has several, and the order of its rewards is lost."""

    def told(*rewards):
        learner = ls.Learner(
            ls.fedq_hoeffding(c=1e-12), horizon=1, states=1, actions=1, episodes=100
        )
        for reward in rewards:
            learner.tell([0], [0], [reward])
        return learner.q[0, 0, 0]

    early = (0.1, 0.9, 0.4, 0.6)  # each ends a round
    assert told(*early, 0.0, 1.0) == told(*early, 1.0, 0.0)
    assert told(0.9, 0.1, 0.4, 0.6) < told(*early) - 0.01
    kept = (4 / 6) * (5 / 7)  # alpha_5 = 2/6, alpha_6 = 2/7
    assert told(*early, 0.0, 1.0) == pytest.approx(kept * told(*early) + (1 - kept) * 0.5)


def test_the_bound_on_rounds():
    """M = H = 1, so i_0 = 4: rounds that end at 1, 2, 3, 4, 6, 9, 13, 19, ... visits."""
    bound = ls.parts.Rounds().refresh_bound
    size = {"horizon": 1, "states": 1, "actions": 1}
    assert bound(**size, episodes=4) == 4
    for episodes in (10, 1_000, 10**6):
        ends, n = 0, 0
        while (n := n + max(1, n // 2)) <= episodes:
            ends += 1
        assert ends <= bound(**size, episodes=episodes) <= ends * 2.1
    assert ls.parts.Rounds(10).refresh_bound(**size, episodes=35) == 3


# ---- the paper in plain Python -------------------------------------------------------------------


class PlainFedQ:
    """Zheng et al. 2024, Algorithms 1 to 3, with every weight worked out from its definition."""

    def __init__(self, mdp, algorithm, episodes):
        self.H, self.S, self.A = H, S, A = mdp.horizon, mdp.states, mdp.actions
        self.M, self.bonus = algorithm.schedule.machines, algorithm.bonus
        self.iota = algorithm.iota(horizon=H, states=S, actions=A, episodes=episodes)
        self.caps = algorithm.estimator.caps(H)
        self.q = np.where(mdp.actions_allowed, self.caps[:, None, None], -np.inf)
        self.v = np.vstack([np.repeat(self.caps[:, None], S, axis=1), np.zeros(S)])
        self.n = np.zeros((H, S, A), dtype=int)
        self.next_values = defaultdict(list)
        self.beta = np.zeros((H, S, A))
        self.policy = mdp.actions_allowed.argmax(axis=-1)
        self.rounds = 0
        self.clear()

    def clear(self):
        self.targets = defaultdict(list)  # (h, x, a) -> (turn, machine, reward + next value)
        self.counts = np.zeros((self.M, self.H, self.S, self.A), dtype=int)

    def alpha(self, t):
        return (self.H + 1) / (self.H + t)

    def theta(self, i, t):
        """alpha_i prod_{j = i + 1}^t (1 - alpha_j)."""
        return self.alpha(i) * math.prod(1 - self.alpha(j) for j in range(i + 1, t + 1))

    def see(self, turn, machine, h, x, a, reward, y):
        self.counts[machine, h, x, a] += 1
        self.targets[h, x, a].append((turn, machine, reward + self.v[h + 1, y]))
        self.next_values[h, x, a].append(self.v[h + 1, y])

    def is_over(self):
        quota = np.maximum(1, self.n // (self.M * self.H * (self.H + 1)))
        return (self.counts >= quota).any()

    def aggregate(self):
        for here, seen in self.targets.items():
            t0, t1 = self.n[here], self.n[here] + len(seen)
            kept = math.prod(1 - self.alpha(t) for t in range(t0 + 1, t1 + 1))
            weights = [self.theta(t, t1) for t in range(t0 + 1, t1 + 1)]
            values = [value for *_, value in sorted(seen)]
            if t0 < 2 * self.M * self.H * (self.H + 1):
                assert len({(turn, machine) for turn, machine, _ in seen}) == len(seen)
                learned = sum(w * value for w, value in zip(weights, values, strict=True))
            else:
                learned = (1 - kept) * (sum(values) / len(values))
            self.q[here] = kept * self.q[here] + learned + self.bonus_of(here, t0, t1, weights)
            self.n[here] = t1
        for h, x in itertools.product(range(self.H), range(self.S)):
            self.v[h, x] = min(self.caps[h], self.q[h, x].max())
            if self.q[h, x, self.policy[h, x]] < self.q[h, x].max():
                self.policy[h, x] = self.q[h, x].argmax()
        self.rounds += 1
        self.clear()

    def bonus_of(self, here, t0, t1, weights):
        H, S, A, M, iota = self.H, self.S, self.A, self.M, self.iota
        if isinstance(self.bonus, ls.parts.Hoeffding):
            widths = [self.bonus.c * math.sqrt(H**3 * iota / t) for t in range(t0 + 1, t1 + 1)]
            return sum(w * width for w, width in zip(weights, widths, strict=True))
        W = max(0.0, float(np.var(self.next_values[here])))
        lower = iota * (math.sqrt(H**7 * S * A) + math.sqrt(M * S * A * H**6)) / t1
        spread = math.sqrt(H * iota / t1 * (W + H)) + lower
        beta = min(self.bonus.c1 * spread, self.bonus.c2 * math.sqrt(H**3 * iota / t1))
        kept = math.prod(1 - self.alpha(t) for t in range(t0 + 1, t1 + 1))
        before, self.beta[here] = self.beta[here], beta
        return (beta - kept * before) / 2


def play_plain(mdp, algorithm, episodes, seed=0):
    """The plain learner after its episodes, and its row changes."""
    learner, changes = PlainFedQ(mdp, algorithm, episodes), []
    for k in range(episodes):
        turn, machine = divmod(k, learner.M)
        states, actions, rewards = play_episode(mdp, learner.policy, seed, k)
        for h in range(mdp.horizon):
            y = states[h + 1] if h + 1 < mdp.horizon else 0
            learner.see(turn, machine, h, states[h], actions[h], rewards[h], y)
        if machine == learner.M - 1 and learner.is_over():
            before = learner.policy.copy()
            learner.aggregate()
            changed = np.argwhere(learner.policy != before).tolist()
            changes += [[k, h, x, int(learner.policy[h, x])] for h, x in changed]
    return learner, changes


RECIPES = {
    "fedq-h": ls.fedq_hoeffding(c=0.05, machines=3),
    "fedq-b": ls.fedq_bernstein(c=0.02, machines=3, clip="remaining"),
    "fedq-h-alone": ls.fedq_hoeffding(c=0.05, clip="remaining"),
}


@pytest.mark.parametrize("problem", WITHOUT_TIES)
@pytest.mark.parametrize("name", RECIPES)
def test_the_library_s_fedq_is_the_paper_s(name, problem):
    """The same row changes after the same episodes; sums are in another order, so estimates agree
    up to rounding.
    """
    mdp = PROBLEMS[problem]()
    plain, changes = play_plain(mdp, RECIPES[name], EPISODES)
    runs = ls.simulate(
        mdp, RECIPES[name], episodes=EPISODES, seeds=[0], history=True, progress=False
    )
    assert runs.history[0].changes.tolist() == changes
    assert runs.triggers[0] == plain.rounds
    assert len(changes) > 10


# ---- machines ------------------------------------------------------------------------------------


def test_machines_throw_nothing_away():
    """The policy changes only when every machine has played its episode, whoever plays."""
    mdp, algorithm = PROBLEMS["dense"](), ls.fedq_bernstein(c=0.02, machines=4)
    alone = ls.simulate(mdp, algorithm, episodes=400, seeds=[0], history=True, progress=False)
    for rule, fleet in (("switch", None), ("trigger", None), ("switch", Processes(workers=2))):
        run = ls.concurrent.run(
            mdp, algorithm, 400, machines=4, rule=rule, fleet=fleet, progress=False
        )
        assert run.history[0].changes.tolist() == alone.history[0].changes.tolist()
        assert run.played == run.episodes == 400
        assert run.rounds == 100


def test_a_budget_ends_rounds():
    mdp, algorithm = PROBLEMS["dense"](), ls.fedq_hoeffding(c=0.05, machines=3, deployments=4)
    runs = ls.simulate(mdp, algorithm, episodes=600, seeds=4, progress=False)
    assert (runs.deployments == 4).all()
    learner = learner_for(mdp, algorithm, 600)
    while learner.deployments < 4:
        learner.tell(*play_episode(mdp, learner.policy, 0, learner.told))
    assert (learner._knowledge.tables.cells["due"] == NEVER).all()
    assert learner._knowledge.next_trigger(0, 0) is None


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: ls.fedq_hoeffding(machines=0), "machines must be"),
        (lambda: ls.fedq_hoeffding(scales=(1, 0.1)), "leave scales out"),
        (lambda: ls.q_hoeffding(schedule="rounds/3"), "FederatedQ and the schedule Rounds"),
        (
            lambda: ls.Algorithm(
                estimator=ls.parts.FederatedQ(),
                bonus=ls.parts.Hoeffding(),
                schedule=ls.parts.Growth(2),
            ),
            "FederatedQ and the schedule Rounds",
        ),
    ],
)
def test_what_does_not_fit_is_refused(made, words):
    with pytest.raises(ValueError, match=words):
        made()
