"""FedQ: M machines play one policy in a round, and its end teaches what all of them saw."""

import copy
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
EARLY = 600
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


def test_the_visits_of_one_machine_that_end_a_round_of_a_stage():
    """M = 2, H = 3, after a stage of 12 visits: half of what is missing up to 8, then 12 / 6."""
    counts = [0, 1, 7, 8, 9, 15]
    assert [federated.stage_quota(12, m, 2, 3) for m in counts] == [6, 6, 3, 2, 2, 2]
    assert federated.stage_quota(0, 5, 2, 3) == 1


def test_stages_of_all_machines_grow_by_one_over_h():
    """M = 2, H = 3: 6 visits at first, and at least 8 after a stage of 6."""
    assert [federated.stage_is_over(0, m, 2, 3) for m in (5, 6)] == [False, True]
    assert [federated.stage_is_over(6, m, 2, 3) for m in (7, 8)] == [False, True]
    assert [federated.stage_is_over(7, m, 2, 3) for m in (9, 10)] == [False, True]


def test_sums_in_order_and_sums_of_many():
    """Weights of 1/4 and 1/2 after each other, or of (1 - 3/8) / 2 each."""
    in_order = federated.gathered(True, 0.5, federated.gathered(True, 0.25, 0.0, 8.0), 4.0)
    assert in_order == 8 / 4 / 2 + 4 / 2 == federated.weighted_sum(True, 3 / 8, 2, in_order)
    total = federated.gathered(False, 0.5, federated.gathered(False, 0.25, 0.0, 8.0), 4.0)
    assert federated.weighted_sum(False, 3 / 8, 2, total) == (1 - 3 / 8) * 6


def test_early_settling_in_rounds_by_hand():
    """H = M = 1: the first round is one visit, in which nothing varies. Then the upper estimate is
    r + c sqrt(iota), the estimate by references r + c iota, and the lower one r - c sqrt(iota).
    """
    learner = ls.Learner(ls.fedq_early_settled(c=0.01), horizon=1, states=1, actions=2, episodes=10)
    learner.tell([0], [0], [0.3])
    iota, cell = math.log(2 * 10 / 0.05), learner._knowledge.tables.cells[0]
    assert cell["upper"] == pytest.approx(0.3 + 0.01 * math.sqrt(iota))
    assert cell["by_reference"] == pytest.approx(0.3 + 0.01 * iota)
    assert cell["lower"] == pytest.approx(0.3 - 0.01 * math.sqrt(iota))
    assert learner.q[0, 0, 0] == cell["upper"]


def test_the_bound_on_rounds():
    """M = H = 1, so i_0 = 4: rounds that end at 1, 2, 3, 4, 6, 9, 13, 19, ... visits."""
    bound = ls.parts.VisitRounds().refresh_bound
    size = {"horizon": 1, "states": 1, "actions": 1}
    assert bound(**size, episodes=4) == 4
    for episodes in (10, 1_000, 10**6):
        ends, n = 0, 0
        while (n := n + max(1, n // 2)) <= episodes:
            ends += 1
        assert ends <= bound(**size, episodes=episodes) <= ends * 2.1
    assert ls.parts.VisitRounds(10).refresh_bound(**size, episodes=35) == 3


# ---- the paper in plain Python -------------------------------------------------------------------


class PlainRounds:
    """What all plain versions share: rounds of whole turns, and a deployed policy."""

    def __init__(self, mdp, algorithm, episodes):
        self.H, self.S, self.A = H, S, A = mdp.horizon, mdp.states, mdp.actions
        self.M, self.bonus = algorithm.schedule.machines, algorithm.bonus
        self.settle = getattr(algorithm.estimator, "settle", None)
        self.iota = algorithm.iota(horizon=H, states=S, actions=A, episodes=episodes)
        self.caps = algorithm.estimator.caps(H)
        self.q = np.where(mdp.actions_allowed, self.caps[:, None, None], -np.inf)
        self.v = np.vstack([np.repeat(self.caps[:, None], S, axis=1), np.zeros(S)])
        self.lower, self.reference = np.zeros((H + 1, S)), self.v.copy()
        self.settled = np.zeros((H, S), dtype=bool)
        self.n = np.zeros((H, S, A), dtype=int)
        self.all = defaultdict(list)  # (h, x, a) -> (reward, value, reference, lower) of all visits
        self.policy = mdp.actions_allowed.argmax(axis=-1)
        self.rounds = 0
        self.clear()

    def clear(self):
        self.counts = np.zeros((self.M, self.H, self.S, self.A), dtype=int)

    def see(self, machine, h, x, a, reward, y):
        self.counts[machine, h, x, a] += 1
        values = (table[h + 1, y] for table in (self.v, self.reference, self.lower))
        self.all[h, x, a].append((reward, *values))

    def is_over(self):
        return (self.counts >= self.quota()).any()

    def quota(self):
        return np.maximum(1, self.n // (self.M * self.H * (self.H + 1)))

    def aggregate(self):
        for here in zip(*np.nonzero(self.counts.sum(axis=0)), strict=True):
            t0, self.n[here] = self.n[here], len(self.all[here])
            self.learn(here, t0, self.n[here])
        for h, x in zip(*np.nonzero(self.counts.sum(axis=(0, 3))), strict=True):
            self.v[h, x] = min(self.caps[h], self.q[h, x].max())
            self.refer(h, x)
            if self.q[h, x, self.policy[h, x]] < self.q[h, x].max():
                self.policy[h, x] = self.q[h, x].argmax()
        self.rounds += 1
        self.clear()

    def refer(self, h, x):
        """Let the reference of a state follow its value until it settles."""
        if not self.settled[h, x]:
            self.reference[h, x] = self.v[h, x]
            self.settled[h, x] = self.v[h, x] - self.lower[h, x] <= self.settle

    # ---- weights ---------------------------------------------------------------------------------

    def alpha(self, t):
        return (self.H + 1) / (self.H + t)

    def kept(self, t0, t1):
        return math.prod(1 - self.alpha(t) for t in range(t0 + 1, t1 + 1))

    def thetas(self, t0, t1):
        """theta_t = alpha_t prod_{j = t + 1}^{t1} (1 - alpha_j) for t0 < t <= t1."""
        return np.array([self.alpha(t) * self.kept(t, t1) for t in range(t0 + 1, t1 + 1)])

    def weights(self, t0, t1):
        """The weights of the visits of a round: theta, or with many visits all the same."""
        if t0 < 2 * self.M * self.H * (self.H + 1):
            return self.thetas(t0, t1)
        return np.full(t1 - t0, (1 - self.kept(t0, t1)) / (t1 - t0))

    def hoeffding(self, c, t0, t1):
        widths = [c * math.sqrt(self.H**3 * self.iota / t) for t in range(t0 + 1, t1 + 1)]
        return self.thetas(t0, t1) @ widths


class PlainFedQ(PlainRounds):
    """Zheng et al. 2024, Algorithms 1 to 3, with every weight worked out from its definition."""

    def __init__(self, *given):
        super().__init__(*given)
        self.beta = np.zeros((self.H, self.S, self.A))

    def refer(self, h, x):
        pass

    def learn(self, here, t0, t1):
        rewards, values, *_ = np.array(self.all[here]).T
        learned = self.weights(t0, t1) @ (rewards + values)[t0:]
        self.q[here] = self.kept(t0, t1) * self.q[here] + learned + self.bonus_of(here, t0, t1)

    def bonus_of(self, here, t0, t1):
        H, S, A, M, iota = self.H, self.S, self.A, self.M, self.iota
        if isinstance(self.bonus, ls.parts.Hoeffding):
            return self.hoeffding(self.bonus.c, t0, t1)
        W = np.var([value for _, value, *_ in self.all[here]])
        lower = iota * (math.sqrt(H**7 * S * A) + math.sqrt(M * S * A * H**6)) / t1
        spread = math.sqrt(H * iota / t1 * (W + H)) + lower
        beta = min(self.bonus.c1 * spread, self.bonus.c2 * math.sqrt(H**3 * iota / t1))
        before, self.beta[here] = self.beta[here], beta
        return (beta - self.kept(t0, t1) * before) / 2


class PlainFedAdvantage(PlainRounds):
    """Zheng, Zhang, Xue 2025, with the bonuses of Zhang, Zhou, Ji 2020."""

    def __init__(self, mdp, algorithm, episodes):
        super().__init__(mdp, algorithm, episodes)
        self.fixed_at = algorithm.estimator.reference
        if self.fixed_at != "settled":
            self.reference[:-1] = self.H
        self.begin, self.before = np.zeros((2, self.H, self.S, self.A), dtype=int)

    def quota(self):
        m, n, M, H = self.n - self.begin, self.before, self.M, self.H
        later = np.where(m * H <= (H - 1) * n, -((m - n) // M), n // (M * H))
        return np.where(n == 0, 1, later)

    def learn(self, here, _, n):
        begin, before, H, c, i = (
            self.begin[here],
            self.before[here],
            self.H,
            self.bonus.c,
            self.iota,
        )
        m = n - begin
        if m < (self.M * H if before == 0 else math.ceil((H + 1) * before / H)):
            return
        reward, value, reference, lower = np.array(self.all[here]).T
        advantage = (value - reference)[begin:]
        width = c * 2 * math.sqrt(H * H * i / m)
        rest = i / n + i / m + (i / n) ** 0.75 + (i / m) ** 0.75
        roots = 2 * math.sqrt(np.var(reference) * i / n) + 2 * math.sqrt(np.var(advantage) * i / m)
        second = reward.mean() + reference.mean() + advantage.mean() + c * (roots + 5 * H * rest)
        self.q[here] = min(self.q[here], (reward + value)[begin:].mean() + width, second)
        h, x, _ = here
        self.lower[h, x] = max(self.lower[h, x], (reward + lower)[begin:].mean() - width)
        self.begin[here], self.before[here] = n, m

    def refer(self, h, x):
        if self.fixed_at == "settled":
            super().refer(h, x)
        elif not self.settled[h, x] and self.n[h, x].sum() >= self.fixed_at:
            self.reference[h, x], self.settled[h, x] = self.v[h, x], True


class PlainFedEarlySettled(PlainRounds):
    """Li et al. 2021, Algorithm 1, with the rounds and weights of Zheng et al. 2024."""

    def __init__(self, *given):
        super().__init__(*given)
        shape = self.H, self.S, self.A
        self.upper = np.broadcast_to(self.caps[:, None, None], shape).copy()
        self.by_reference = self.upper.copy()
        self.low, self.mean, self.squares, self.width = np.zeros((4, *shape))

    def learn(self, here, t0, t1):
        reward, value, reference, lower = np.array(self.all[here]).T
        kept, weights, c, H = self.kept(t0, t1), self.weights(t0, t1), self.bonus.c, self.H
        advantage, width = (value - reference)[t0:], self.hoeffding(c, t0, t1)
        self.upper[here] = kept * self.upper[here] + weights @ (reward + value)[t0:] + width
        self.low[here] = kept * self.low[here] + weights @ (reward + lower)[t0:] - width
        self.mean[here] = kept * self.mean[here] + weights @ advantage
        self.squares[here] = kept * self.squares[here] + weights @ advantage**2
        var_advantage = max(0.0, self.squares[here] - self.mean[here] ** 2)
        roots = math.sqrt(np.var(reference)) + math.sqrt(H * var_advantage)
        B = c * math.sqrt(self.iota / t1) * roots
        rest = self.thetas(t0, t1) @ [c * H**2 * self.iota / t**0.75 for t in range(t0 + 1, t1 + 1)]
        targets = reward[t0:] + advantage + reference.mean()
        learned = weights @ targets + B - kept * self.width[here] + rest
        self.by_reference[here] = kept * self.by_reference[here] + learned
        self.width[here] = B
        self.q[here] = min(self.q[here], self.upper[here], self.by_reference[here])
        h, x, _ = here
        self.lower[h, x] = max(self.lower[h, x], self.low[here])


def play_plain(mdp, algorithm):
    """The plain learner as it was early and after its episodes, and its row changes."""
    learner, changes, early = PLAIN[type(algorithm.estimator)](mdp, algorithm, EPISODES), [], None
    for k in range(EPISODES):
        if k == EARLY:
            early = copy.deepcopy(learner)
        machine = k % learner.M
        states, actions, rewards = play_episode(mdp, learner.policy, 0, k)
        for h in range(mdp.horizon):
            y = states[h + 1] if h + 1 < mdp.horizon else 0
            learner.see(machine, h, states[h], actions[h], rewards[h], y)
        if machine == learner.M - 1 and learner.is_over():
            before = learner.policy.copy()
            learner.aggregate()
            changed = np.argwhere(learner.policy != before).tolist()
            changes += [[k, h, x, int(learner.policy[h, x])] for h, x in changed]
    return early, learner, changes


PLAIN = {
    ls.parts.FederatedQ: PlainFedQ,
    ls.parts.FederatedAdvantage: PlainFedAdvantage,
    ls.parts.FederatedSettled: PlainFedEarlySettled,
}
RECIPES = {
    "fedq-h": ls.fedq_hoeffding(c=0.05, machines=3),
    "fedq-b": ls.fedq_bernstein(c=0.02, machines=3, clip="remaining"),
    "fedq-h-alone": ls.fedq_hoeffding(c=0.05, clip="remaining"),
    "fedq-advantage": ls.fedq_advantage(c=0.004, reference=30, machines=3),
    "fedq-advantage-settled": ls.fedq_advantage(
        c=0.002, reference="settled", settle=0.5, machines=2, clip="horizon"
    ),
    "fedq-early-settled": ls.fedq_early_settled(c=0.005, machines=3),
    "early-settled-low-cost": ls.fedq_early_settled(c=0.01, settle=0.5, clip="remaining"),
}


@pytest.mark.parametrize("problem", WITHOUT_TIES)
@pytest.mark.parametrize("name", RECIPES)
def test_the_library_s_rounds_are_the_papers(name, problem):
    """The same row changes after the same episodes, and the same values up to rounding: sums are
    in another order.
    """
    mdp, algorithm = PROBLEMS[problem](), RECIPES[name]
    early, plain, changes = play_plain(mdp, algorithm)
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[0], history=True, progress=False)
    assert runs.history[0].changes.tolist() == changes
    assert runs.triggers[0] == plain.rounds
    assert len(changes) > 5
    learner = learner_for(mdp, algorithm, EPISODES)
    for k in range(EARLY):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
    assert learner.q == pytest.approx(early.q)
    rows = learner._knowledge.tables.rows.reshape(mdp.horizon + 1, mdp.states)
    if early.settle is not None:
        assert rows["lower"] == pytest.approx(early.lower)
        assert rows["reference"] == pytest.approx(early.reference)
        assert (rows["settled"][:-1] == early.settled).all()


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


@pytest.mark.parametrize("text", ["fedq-b:c=0.05", "fedq-advantage:c=0.01"])
def test_regret_and_rounds_grow_like_a_logarithm(text):
    """The problem of `benchmarks/federated.py`, whose gap is large, with ten machines and four
    seeds: ten times as many episodes cost less than 1.3 times the regret, where a root of K would
    cost 3.2 times, and add no more than half of the rounds.
    """
    generator = np.random.default_rng(0)
    laws, rewards = generator.dirichlet(np.ones(3), (5, 3, 2)), generator.random((5, 3, 2))
    mdp = ls.TabularMDP(laws, rewards, horizon=5, start=np.full(3, 1 / 3))
    short, long = (
        ls.simulate(
            mdp,
            ls.Algorithm.from_text(f"{text},machines=10"),
            episodes=episodes,
            seeds=4,
            progress=False,
        )
        for episodes in (10**5, 10**6)
    )
    assert long.regret.mean() < 1.3 * short.regret.mean()
    assert (long.triggers < 1.5 * short.triggers).all()


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
        (lambda: ls.q_hoeffding(schedule="rounds/3"), "is for FederatedQ or"),
        (
            lambda: ls.Algorithm(
                estimator=ls.parts.FederatedQ(),
                bonus=ls.parts.Hoeffding(),
                schedule=ls.parts.Growth(2),
            ),
            r"its schedule must be VisitRounds\(machines\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(made, words):
    with pytest.raises(ValueError, match=words):
        made()
