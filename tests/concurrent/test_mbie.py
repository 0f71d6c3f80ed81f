"""MBIE and CMBIE by hand, against a linear program, a plain Python twin, and the truth."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

import lowswitch as ls
from conftest import PROBLEMS, learner_for, random_tables
from lowswitch.concurrent import mbie
from lowswitch.concurrent.mistakes import mistakes, suboptimal_actions
from lowswitch.concurrent.sources import Tabular
from lowswitch.kernels import counts, planning
from lowswitch.learners import ProblemSize
from lowswitch.learners.plan_spec import fresh_plan_tables, interval_log, plan_spec
from lowswitch.reproduce.pseudocode import sample, start

# ---- formulas by hand ----------------------------------------------------------------------------


def spec_of(mdp, algorithm, episodes):
    size = ProblemSize(mdp.horizon, mdp.states, mdp.actions, episodes)
    return plan_spec(algorithm, size, mdp.actions_allowed)


def one_action(S, **options):
    """The kernel's view of a problem with H = 2 and one action, with nothing seen."""
    mdp = ls.TabularMDP(np.full((S, 1, S), 1 / S), np.full((S, 1), 0.5), horizon=2)
    spec = spec_of(mdp, ls.mbie(), 99)._replace(**options)
    return spec, fresh_plan_tables(spec, mdp.actions_allowed, 0)


def test_widths_by_hand():
    """ln(2 / delta_R) = 8 gives sqrt(4 / n), and ln(2^S - 2) - ln delta_T = 18 sqrt(36 / n)."""
    assert [planning.interval_reward_width(8.0, n) for n in (1, 4, 16)] == [2, 1, 0.5]
    assert [planning.interval_width(18.0, n) for n in (1, 9, 36)] == [6, 2, 1]
    spec, _ = one_action(3, log=8.0, law_log=18.0)
    assert planning.l1_optimum(spec, 0.5, 1.0, 4, 36) == (1.5, 1)  # a mean reward may exceed 1
    assert planning.l1_optimum(spec, 0.5, 0.05, 4, 36) == (0.55, 0.05)


def test_the_intervals_share_p_by_a_union_bound():
    """There are 2 intervals for each of H S A = 24 entries after each of up to 5 visits."""
    bonus = ls.parts.ConfidenceIntervals(most_visits=5)
    assert bonus.delta(H=2, S=3, A=4, limit=100, p=0.24) == pytest.approx(0.001, rel=1e-15)
    mdp = ls.TabularMDP(*random_tables(3, 4, 0), horizon=2)
    spec = spec_of(mdp, ls.mbie(c=0.5, p=0.24, most_visits=5), 100)
    assert (spec.kind, spec.c, spec.most_visits) == (planning.INTERVALS, 0.5, 5)
    assert spec.log == pytest.approx(math.log(2000), rel=1e-14)
    assert spec.law_log == pytest.approx(math.log(6000), rel=1e-14)
    for most in (None, 1000):  # an (h, x, a) has at most one visit an episode
        assert spec_of(mdp, ls.mbie(most_visits=most), 100).most_visits == 100
    pooled = dataclasses.replace(ls.mbie(), estimator=ls.Planning(pooled=True))
    assert spec_of(mdp, pooled, 100).most_visits == 200  # or one a step


def test_the_number_of_sets_of_states_by_hand():
    delta = 1e-3
    assert interval_log(1, delta) == 0  # the successor is known
    for S, sets in [(2, 2), (3, 6), (4, 14), (30, 2**30 - 2)]:
        assert interval_log(S, delta) == pytest.approx(math.log(sets / delta), rel=1e-14)
    many = 5000 * math.log(2) - math.log(delta)  # 2^5000 is no float
    assert interval_log(5000, delta) == pytest.approx(many, rel=1e-14)


def best_law(successors, values, width):
    """The optimistic law of an (h, x, a), whose probability of y is the mean of the value 1_y."""
    S = len(successors)
    spec, tables = one_action(S)
    for y in np.repeat(np.arange(S), successors):
        counts.note_visit(spec, tables, 0, 0, 0, 0, 0.0, y)
    following = tables.values[S : 2 * S]
    following[:] = values
    planning.order_by_value(spec, tables, S)
    law = []
    for y in range(S):
        following[:] = np.arange(S) == y
        law.append(planning.add_optimistic_law(spec, tables, tables.records[0], S, width, 0.0))
    return np.array(law)


@pytest.mark.parametrize(
    ("width", "law"),
    [
        (0.0, [0.2, 0.5, 0.3]),
        (0.2, [0.1, 0.6, 0.3]),  # state 1 is best, state 0 worst
        (0.4, [0.0, 0.7, 0.3]),
        (0.6, [0.0, 0.8, 0.2]),  # state 0 has no more to give, state 2 follows
        (1.0, [0.0, 1.0, 0.0]),
        (2.5, [0.0, 1.0, 0.0]),  # wider than the simplex
    ],
)
def test_the_optimistic_law_by_hand(width, law):
    np.testing.assert_allclose(best_law([2, 5, 3], [1, 3, 2], width), law, rtol=0, atol=1e-15)


def test_unseen_states_may_be_the_best_and_of_equals_the_lowest_is():
    np.testing.assert_allclose(best_law([0, 4, 0, 0], [1, 2, 2.5, 5], 0.5), [0, 0.75, 0, 0.25])
    np.testing.assert_allclose(best_law([4], [1], 0.0), [1])
    np.testing.assert_allclose(best_law([1, 1, 1, 1], [2, 3, 3, 2], 0.2), [0.25, 0.35, 0.25, 0.15])
    np.testing.assert_allclose(best_law([1, 1, 2], [1, 1, 1], 0.5), [0.5, 0.25, 0.25])


def test_the_optimistic_law_solves_the_linear_program():
    """maximise V p over p >= 0, sum p = 1, p - q <= u, q - p <= u, sum u <= width."""
    generator = np.random.default_rng(0)
    for _ in range(40):
        S = int(generator.integers(2, 7))
        seen, values = generator.integers(0, 5, S), generator.random(S).round(1)  # with ties
        seen[generator.integers(S)] += 1
        width, q, one = generator.choice([0.05, 0.3, 1.0, 3.0]), seen / seen.sum(), np.eye(S)
        program = linprog(
            np.append(-values, np.zeros(S)),
            A_ub=np.block([[one, -one], [-one, -one], [np.zeros(S), np.ones(S)]]),
            b_ub=np.concatenate([q, -q, [width]]),
            A_eq=[np.append(np.ones(S), np.zeros(S))],
            b_eq=[1],
        )
        law = best_law(seen, values, width)
        assert law.min() >= 0
        assert law.sum() == pytest.approx(1, abs=1e-14)
        assert np.abs(law - q).sum() <= width + 1e-14
        assert law @ values == pytest.approx(-program.fun, abs=1e-9)


def test_one_entry_by_hand():
    """Two visits paid 1 and 0 and led to the states 0 and 1; the widths are 0.1 and 0.4."""
    spec, tables = one_action(2, log=0.04, law_log=0.16)
    for reward, y in [(1.0, 0), (0.0, 1)]:
        counts.note_visit(spec, tables, 0, 0, 0, 0, reward, y)
    tables.values[2:4] = 0.5, 0.25
    planning.order_by_value(spec, tables, 2)

    def value(spec, x):
        return planning.optimistic(spec, tables, 1.0, False, 0, x, 2)[0]

    assert value(spec, 0) == pytest.approx(0.5 + 0.1 + 0.7 * 0.5 + 0.3 * 0.25, rel=1e-15)
    assert value(spec, 1) == 2  # never visited: all that two steps can pay
    assert value(spec._replace(log=100.0), 0) == 2  # no more than that


# ---- the whole algorithm, in plain Python --------------------------------------------------------


class PlainMbie:
    """Everything is planned from scratch after each round, or, where machines share, each step."""

    def __init__(self, mdp, spec, seed, machines, share="round"):
        self.mdp, self.spec, self.seed, self.machines, self.share = mdp, spec, seed, machines, share
        self.data = {tuple(entry): [] for entry in np.argwhere(mdp.actions_allowed).tolist()}
        self.q = {entry: float(mdp.horizon - entry[0]) for entry in self.data}
        self.policy = mdp.actions_allowed.argmax(axis=-1)
        self.plays = np.zeros(mdp.actions_allowed.shape, dtype=int)
        self.changes = []

    def plan(self):
        V = [0.0] * self.mdp.states
        for h in reversed(range(self.mdp.horizon)):
            order = sorted(range(self.mdp.states), key=lambda y, V=V: (-V[y], y))
            for entry in self.data:
                if entry[0] == h:
                    self.q[entry] = self.value(entry, V, order)
            V = [max(self.row(h, x).values()) for x in range(self.mdp.states)]

    def value(self, entry, V, order):
        data, cap, spec = self.data[entry], float(self.mdp.horizon - entry[0]), self.spec
        n = len(data)
        if n == 0:
            return cap
        law = [sum(y == z for _, z in data) / n for y in range(self.mdp.states)]
        moved = min(spec.c * math.sqrt(2 * spec.law_log / n) / 2, 1 - law[order[0]])
        law[order[0]] += moved
        for y in order[:0:-1]:
            taken = min(moved, law[y])
            law[y], moved = law[y] - taken, moved - taken
        paid = 0.0
        for reward, _ in data:
            paid += reward  # sum() of later Pythons rounds otherwise
        value = paid / n + spec.c * math.sqrt(spec.log / (2 * n))
        for y in range(self.mdp.states):
            value += law[y] * V[y]
        return min(cap, value)

    def row(self, h, x):
        return {a: q for (g, z, a), q in self.q.items() if (g, z) == (h, x)}

    def choose(self, first_step=0):
        """The incumbent if it is among the best, else the lowest index."""
        for h in range(first_step, self.mdp.horizon):
            for x in range(self.mdp.states):
                row = self.row(h, x)
                if row[self.policy[h, x]] < max(row.values()):
                    self.policy[h, x] = min(a for a in row if row[a] == max(row.values()))

    def play_round(self, r):
        before = self.policy.copy()
        episodes = range(r * self.machines, (r + 1) * self.machines)
        states = [start(self.mdp, self.seed, k) for k in episodes]
        for h in range(self.mdp.horizon):
            for m, k in enumerate(episodes):
                entry = h, states[m], int(self.policy[h, states[m]])
                reward, states[m] = sample(self.mdp, self.seed, k, *entry)
                self.plays[entry] += 1
                if len(self.data[entry]) < self.spec.most_visits:
                    self.data[entry].append((reward, states[m]))
            if self.share == "step":
                self.plan()
                self.choose(h + 1)  # for the steps that are still to come
        self.plan()
        self.choose()
        changed = np.argwhere(self.policy != before)
        self.changes += [(episodes[-1], h, x, self.policy[h, x]) for h, x in changed]


def assert_twins(mdp, machines, rounds, seed, share="round", **options):
    run = mbie(mdp, episodes=rounds * machines, machines=machines, seed=seed, **options)
    plain = PlainMbie(mdp, spec_of(mdp, run.algorithm, run.episodes), seed, machines, share)
    learner = learner_for(mdp, run.algorithm, run.episodes)
    for r in range(rounds):
        told = played(mdp, learner, seed, machines)
        learner.tell(*told)
        plain.play_round(r)
        assert all(learner.q[entry] == q for entry, q in plain.q.items())
    assert run.history[0].changes.tolist() == np.array(plain.changes).reshape(-1, 4).tolist()
    assert (run.plays == plain.plays).all()
    assert (run.policy[0] == plain.policy).all()
    return run


def played(mdp, learner, seed, machines):
    """The next round of a learner: states, actions and rewards of an episode on each machine."""
    episodes = np.arange(learner.told, learner.told + machines)
    states, rewards = Tabular(mdp).player(seed).play(learner.policy, episodes)[:2]
    return states, learner.policy[np.arange(mdp.horizon), states], rewards


@pytest.mark.parametrize(
    ("machines", "rounds", "c"), [(1, 250, 0.05), (1, 60, 0.3), (7, 40, 0.05), (50, 12, 0.2)]
)
def test_the_planner_is_its_plain_twin(mdp, machines, rounds, c):
    """In its whole history, and in every estimate to the bit after each round."""
    assert assert_twins(mdp, machines, rounds, 3, c=c).deployments[0] > 1


@pytest.mark.parametrize("problem", ["dense", "per-step", "masked-sequence"])
def test_sharing_after_each_step_is_sharing_after_each_round(problem):
    assert_twins(PROBLEMS[problem](), 5, 30, 1, share="step", c=0.05)


def test_data_beyond_most_visits_are_ignored(mdp):
    few = assert_twins(mdp, 3, 30, 2, c=0.05, most_visits=4)
    assert few.plays.sum() == few.episodes * mdp.horizon


# ---- promises ------------------------------------------------------------------------------------


def slack_of_every_plan(mdp, c, seed, machines=100, rounds=200):
    """The smallest Q~ - Q* after each round, and the largest H - h - Q~ at the end."""
    algorithm = ls.mbie(c=c, p=0.001, schedule=ls.EveryEpisodes(machines))
    learner = learner_for(mdp, algorithm, rounds * machines)
    allowed, slack = mdp.actions_allowed, math.inf
    caps = learner.q[allowed]
    for _ in range(rounds):
        learner.tell(*played(mdp, learner, seed, machines))
        slack = min(slack, (learner.q[allowed] - mdp.optimal_q[allowed]).min())
    return slack, (caps - learner.q[allowed]).max()


@pytest.mark.parametrize(
    "problem", ["dense", "per-step", "masked-sequence", "reward-by-step", "transitions-by-step"]
)
def test_the_provable_scale_is_optimistic(problem):
    """Q~ >= Q* for every (h, x, a) after each of 200 rounds at c = 1.

    p = 0.001 in each of 15 runs: seeds drawn anew would raise a false alarm with probability 0.015
    at most. At c = 0.02 the test fails.
    """
    mdp = PROBLEMS[problem]()
    machines = len(mdp.start_sequence) // 200 or 100
    for seed in range(3):
        slack, learned = slack_of_every_plan(mdp, 1.0, seed, machines)
        assert slack >= -1e-9
        assert learned > 0.25
    assert min(slack_of_every_plan(mdp, 0.02, seed, machines)[0] for seed in range(3)) < -0.01


@pytest.mark.parametrize(("machines", "rounds"), [(1, 601), (6, 101)])
def test_rounds_are_whole(mdp, machines, rounds):
    """601 episodes are rounded up, and each round is one episode on each machine."""
    run = mbie(mdp, episodes=601, machines=machines, c=0.05)
    assert (run.rounds, run.episodes, run.played) == (rounds, *[rounds * machines] * 2)
    assert (run.played_under % machines == 0).all()
    assert ((run.history[0].episode + 1) % machines == 0).all()
    assert run.rounds_at.tolist() == (np.unique(run.history[0].episode + 1) // machines).tolist()
    alone = ls.simulate(mdp, run.algorithm, episodes=run.episodes, seeds=1, history=True)
    assert alone.history[0].changes.tolist() == run.history[0].changes.tolist()


def test_it_learns_and_more_machines_need_fewer_rounds():
    mdp = ls.envs.riverswim(states=6, horizon=10)
    eps, rounds = 0.1 * mdp.optimal_value(), []
    for machines in (1, 10, 100):
        run = mbie(mdp, episodes=20_000, machines=machines, c=0.05)
        assert mdp.evaluate(run.policy[0]) > mdp.optimal_value() - eps
        assert run.mistakes(mdp, eps) < 0.2 * run.episodes * mdp.horizon
        assert run.mistakes(mdp, eps) % (machines * mdp.horizon) == 0
        rounds.append(run.mistakes(mdp, eps) / machines)
    assert rounds[0] > 5 * rounds[1] > 25 * rounds[2]


# ---- its schedule and its text -------------------------------------------------------------------


def test_the_policy_changes_only_after_so_many_episodes():
    mdp = PROBLEMS["dense"]()
    options = {"episodes": 399, "seeds": 2, "history": True}
    for make in (ls.q_hoeffding, ls.mbie):
        free, few = (
            ls.simulate(mdp, make(c=0.05, schedule="episodes/7", deployments=most), **options)
            for most in (None, 5)
        )
        for long, short in zip(free.history, few.history, strict=True):
            assert ((long.episode + 1) % 7 == 0).all()
            assert long.deployments <= 399 // 7
            assert short.deployments == 5  # the first five, and nothing after
            assert short.changes.tolist() == long.changes[: len(short.changes)].tolist()


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        ("mbie", ls.mbie()),
        ("mbie:c=0.05,most_visits=20,schedule=episodes/7",
         ls.mbie(c=0.05, most_visits=20, schedule=ls.EveryEpisodes(7))),
        ("mbie:clip=horizon,p=0.01,scales=1.0/0.1,deployments=3",
         ls.mbie(clip="horizon", p=0.01, scales=(1, 0.1), deployments=3)),
    ],
)  # fmt: skip
def test_texts_read_back(text, algorithm):
    assert str(algorithm) == text
    assert ls.Algorithm.from_text(text) == algorithm
    assert ls.Algorithm.from_dict(algorithm.to_dict()) == algorithm


# ---- mistakes ------------------------------------------------------------------------------------

INITIAL = np.zeros((2, 2), dtype=int)
HISTORY = ls.History(np.array([[9, 0, 0, 1], [9, 1, 1, 1], [14, 1, 1, 0]]))
PLAYED_UNDER = [10, 5, 85]
PLAYS = np.array([[[10, 90], [0, 0]], [[7, 3], [85, 5]]])


def two_steps(low=0.0, high=1.0):
    """Action a leads to state a for certain; pays 0.1, 0 in state 0 and 1, 0.2 in state 1."""
    transitions = np.zeros((2, 2, 2))
    transitions[:, 0, 0] = transitions[:, 1, 1] = 1
    rewards = low + (high - low) * np.array([[0.1, 0.0], [1.0, 0.2]])
    return ls.TabularMDP(transitions, ls.rescale(rewards, low=low, high=high), horizon=2)


def test_mistakes_by_hand():
    """V* = 1 by action 1, then 0. Always 0 and always 1 are worth 0.2; the last is optimal."""
    mdp = two_steps()
    assert ls.deployment_gaps(mdp, HISTORY, initial=INITIAL) == pytest.approx([0.8, 0.8, 0])
    assert mistakes(mdp, HISTORY, INITIAL, PLAYED_UNDER, 0.5) == 2 * 15
    assert mistakes(mdp, HISTORY, INITIAL, PLAYED_UNDER, 0.9) == 0
    # V* - Q*: step 0 state 0: 0.8, 0; step 1 state 0: 0, 0.1; step 1 state 1: 0, 0.8
    assert suboptimal_actions(mdp, PLAYS, 0.5) == 10 + 5
    assert suboptimal_actions(mdp, PLAYS, 0.05) == 10 + 3 + 5
    assert suboptimal_actions(mdp, PLAYS, 0.9) == 0


def test_eps_is_in_the_users_units():
    plain, scaled = two_steps(), two_steps(-5.0, 15.0)
    for eps in (0.05, 0.5, 0.9):
        few, many = (
            mistakes(mdp, HISTORY, INITIAL, PLAYED_UNDER, unit * eps)
            for mdp, unit in ((plain, 1), (scaled, 20))
        )
        assert few == many
        assert suboptimal_actions(scaled, PLAYS, 20 * eps) == suboptimal_actions(plain, PLAYS, eps)
    runs = [mbie(mdp, episodes=500, c=0.1) for mdp in (plain, scaled)]
    assert runs[1].regret == pytest.approx(20 * runs[0].regret)
    assert runs[1].mistakes(scaled, 10.0) == runs[0].mistakes(plain, 0.5) > 0
    assert runs[1].suboptimal_actions(scaled, 10.0) == runs[0].suboptimal_actions(plain, 0.5) > 0


def test_a_forbidden_action_is_no_mistake():
    mdp = PROBLEMS["masked-sequence"]()
    run = mbie(mdp, episodes=100, c=0.05)
    assert (run.plays[~mdp.actions_allowed] == 0).all()
    assert suboptimal_actions(mdp, run.plays, 100.0) == 0


# ---- doors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"machines": 0}, "machines must be a whole number from 1 .*, not 0"),
        ({"machines": 2.5}, r"machines must be a whole number from 1 .*, not 2\.5"),
        ({"episodes": 0}, "episodes must be a whole number from 1"),
        ({"episodes": 2**31 - 2, "machines": 1000}, r"rounds \* machines must be a whole number"),
        ({"seed": -1}, "seed must be a whole number from 0 .*, not -1"),
        ({"c": 0.0}, r"c must be a positive number, not 0\.0; 1 is the provable scale"),
        ({"c": float("nan")}, "c must be a positive number"),
        ({"c": "1"}, "c must be a positive number"),
        ({"p": 0.0}, r"p must lie strictly between 0 and 1, not 0\.0"),
        ({"p": float("nan")}, "p must lie strictly between 0 and 1"),
        ({"most_visits": 0}, "most_visits must be a whole number from 1 .*, not 0"),
        ({"most_visits": "x"}, "most_visits must be a whole number from 1 .*, not 'x'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        mbie(two_steps(), **({"episodes": 10} | options))


def test_bad_problems():
    with pytest.raises(ValueError, match="must be a TabularMDP"):
        mbie(SimpleNamespace(horizon=3), episodes=10)
    sequence = ls.TabularMDP(*random_tables(3, 2, 0), horizon=2, start=[0, 1, 2, 0])
    mbie(sequence, episodes=4, machines=2)
    with pytest.raises(ValueError, match="has 4 states for 6 episodes; lengthen it"):
        mbie(sequence, episodes=4, machines=3)


@pytest.mark.parametrize("eps", [0, -1.0, float("nan"), float("inf")])
def test_bad_eps(eps):
    with pytest.raises(ValueError, match="eps must be a positive number"):
        mistakes(two_steps(), HISTORY, INITIAL, PLAYED_UNDER, eps)
    with pytest.raises(ValueError, match="eps must be a positive number"):
        suboptimal_actions(two_steps(), PLAYS, eps)


def test_counts_of_another_problem():
    other = ls.TabularMDP(*random_tables(3, 2, 0), horizon=2)
    with pytest.raises(ValueError, match=r"plays must be .* = \(2, 3, 2\), not int64 of \(2, 2, 2"):
        suboptimal_actions(other, PLAYS, 0.1)
    with pytest.raises(ValueError, match=r"played_under must be integers \[deployments \+ 1\]"):
        mistakes(two_steps(), HISTORY, INITIAL, [10] * 99, 0.1)
