"""MBIE against its formulas, a linear program, a plain-Python twin, and the truth."""

import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

import lowswitch as ls
from conftest import PROBLEMS, random_tables
from lowswitch import storage
from lowswitch.history import deployment_gaps
from lowswitch.kernels import 
from lowswitch.kernels.arrays import Intervals
from lowswitch.kernels.streams import stream_key
from lowswitch.machines.mbie import (
    MbieRun,
    compile_intervals,
    fresh_tables,
    interval_delta,
    mbie,
    transition_log,
)
from lowswitch.machines.mistakes import mistakes, suboptimal_actions
from lowswitch.progress import PieceSize, Progress
from lowswitch.reproduce.plain import sample, start

# ---- formulas by hand ----------------------------------------------------------------------------


def intervals(c=1.0, reward_log=8.0, transition_log=18.0):
    return Intervals(1, 3, 1, c, reward_log, transition_log, 10, np.ones((1, 3, 1), dtype=bool))


def test_widths_by_hand():
    """With ln(2 / delta_R) = 8 the reward's width is sqrt(4 / n); with ln(2^S - 2) - ln delta_T =
    18 the law's is sqrt(36 / n).
    """
    assert [kernels.reward_width(intervals(), n) for n in (1, 4, 16)] == [2, 1, 0.5]
    assert [kernels.transition_width(intervals(), n) for n in (1, 9, 36)] == [6, 2, 1]
    assert kernels.reward_width(intervals(c=0.05), 4) == 0.05
    assert kernels.transition_width(intervals(c=0.05), 36) == 0.05


def test_the_intervals_share_p_by_a_union_bound():
    """2 intervals for each of H S A = 24 entries after each of up to 5 visits."""
    assert interval_delta(H=2, S=3, A=4, m=5, p=0.24) == pytest.approx(0.001, rel=1e-15)
    mdp = ls.TabularMDP(*random_tables(3, 4, 0), horizon=2)
    rule = compile_intervals(mdp, episodes=100, c=0.5, p=0.24, most_visits=5)
    assert (rule.c, rule.most_visits) == (0.5, 5)
    assert rule.reward_log == pytest.approx(math.log(2000), rel=1e-14)
    assert rule.transition_log == pytest.approx(math.log(6000), rel=1e-14)
    assert compile_intervals(mdp, episodes=100, c=1, p=0.24, most_visits=None).most_visits == 100
    assert compile_intervals(mdp, episodes=100, c=1, p=0.24, most_visits=1000).most_visits == 100


def test_the_number_of_sets_of_states_by_hand():
    delta = 1e-3
    assert transition_log(1, delta) == 0  # the successor is known
    for S, sets in [(2, 2), (3, 6), (4, 14), (30, 2**30 - 2)]:
        assert transition_log(S, delta) == pytest.approx(math.log(sets / delta), rel=1e-14)
    assert transition_log(5000, delta) == pytest.approx(
        5000 * math.log(2) - math.log(delta), rel=1e-14
    )  # 2^5000 is no float


def best_law(successors, values, width):
    counts = np.array(successors, dtype=np.int32)
    order, law = np.arange(len(counts)), np.zeros(len(counts))
    kernels.sort_states(order, np.array(values, dtype=float))
    kernels.optimistic_law(counts, counts.sum(), order, width, law)
    assert counts.tolist() == list(successors)  # the observed model is not bent
    return law


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


def test_a_state_that_was_never_seen_may_be_the_best():
    np.testing.assert_allclose(best_law([0, 4, 0, 0], [1, 2, 2.5, 5], 0.5), [0, 0.75, 0, 0.25])
    np.testing.assert_allclose(best_law([4], [1], 0.0), [1])


def test_states_are_sorted_by_falling_value_and_equals_by_index():
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        order = np.array(order)
        kernels.sort_states(order, np.array([2.0, 3.0, 3.0, 2.0, 7.0]))
        assert order.tolist() == [4, 1, 2, 0, 3]
    np.testing.assert_allclose(
        best_law([1, 1, 1, 1], [2, 3, 3, 2], 0.2), [0.25, 0.35, 0.25, 0.15]
    )  # state 1 from state 3
    np.testing.assert_allclose(
        best_law([1, 1, 2], [1, 1, 1], 0.5), [0.5, 0.25, 0.25]
    )  # worth the same


def test_the_optimistic_law_solves_the_linear_program():
    """maximise V p over p >= 0, sum p = 1, p - q <= u, q - p <= u, sum u <= width."""
    generator = np.random.default_rng(0)
    for _ in range(40):
        S = int(generator.integers(2, 7))
        counts, values = generator.integers(0, 5, S), generator.random(S).round(1)  # with ties
        counts[generator.integers(S)] += 1
        width, q, one = generator.choice([0.05, 0.3, 1.0, 3.0]), counts / counts.sum(), np.eye(S)
        program = linprog(
            np.append(-values, np.zeros(S)),
            A_ub=np.block([[one, -one], [-one, -one], [np.zeros(S), np.ones(S)]]),
            b_ub=np.concatenate([q, -q, [width]]),
            A_eq=[np.append(np.ones(S), np.zeros(S))],
            b_eq=[1],
        )
        law = best_law(counts.tolist(), values, width)
        assert law.min() >= 0
        assert law.sum() == pytest.approx(1, abs=1e-14)
        assert np.abs(law - q).sum() <= width + 1e-14
        assert law @ values == pytest.approx(-program.fun, abs=1e-9)


def test_one_entry_by_hand():
    """Two visits paid 1 and 0 and led to states 0 and 1; widths 0.1 and 0.4: 0.5 + 0.1 + 0.7 * 0.5
    + 0.3 * 0.25.
    """
    mdp = ls.TabularMDP(np.full((2, 1, 2), 0.5), np.full((2, 1), 0.5), horizon=2)
    rule = compile_intervals(mdp, episodes=9, c=1.0, p=0.05, most_visits=None)._replace(
        reward_log=0.04, transition_log=0.16
    )
    tables = fresh_tables(rule)
    tables.v[1] = 0.5, 0.25
    for reward, y in [(1.0, 0), (0.0, 1)]:
        kernels.observe(rule, tables, 0, 0, 0, reward, y)
    assert kernels.optimistic_q(rule, tables, 0, 0, 0) == pytest.approx(
        0.6 + 0.7 * 0.5 + 0.3 * 0.25, rel=1e-15
    )
    assert (
        kernels.optimistic_q(rule, tables, 0, 1, 0) == 2
    )  # never visited: all that two steps can pay
    assert kernels.optimistic_q(rule._replace(reward_log=100.0), tables, 0, 0, 0) == 2


# ---- the whole algorithm, in plain Python --------------------------------------------------------


class PlainMbie:
    """Everything planned from scratch each time; `share` says when machines that go in step pool
    their data.
    """

    def __init__(self, mdp, rule, seed, machines, share="round"):
        self.mdp, self.rule, self.seed, self.machines, self.share = mdp, rule, seed, machines, share
        H, S, A = mdp.horizon, mdp.states, mdp.actions
        self.data = {
            (h, x, a): []
            for h in range(H)
            for x in range(S)
            for a in range(A)
            if mdp.actions_allowed[h, x, a]
        }
        self.q = {(h, x, a): float(H - h) for h, x, a in self.data}
        self.policy = mdp.actions_allowed.argmax(axis=-1)
        self.plays = np.zeros((H, S, A), dtype=int)
        self.changes = []

    def plan(self):
        V = [0.0] * self.mdp.states
        for h in reversed(range(self.mdp.horizon)):
            order = sorted(range(self.mdp.states), key=lambda y, V=V: (-V[y], y))
            for entry in self.data:
                if entry[0] == h:
                    self.q[entry] = self.value(entry, V, order)
            V = [
                max(q for entry, q in self.q.items() if entry[:2] == (h, x))
                for x in range(self.mdp.states)
            ]

    def value(self, entry, V, order):
        data, cap, rule = self.data[entry], float(self.mdp.horizon - entry[0]), self.rule
        n = len(data)
        if n == 0:
            return cap
        law = [sum(y == z for _, z in data) / n for y in range(self.mdp.states)]
        moved = min(rule.c * math.sqrt(2 * rule.transition_log / n) / 2, 1 - law[order[0]])
        law[order[0]] += moved
        for y in order[:0:-1]:
            taken = min(moved, law[y])
            law[y], moved = law[y] - taken, moved - taken
        paid = 0.0
        for reward, _ in data:
            paid += reward  # sum() of later Pythons rounds otherwise
        value = paid / n + rule.c * math.sqrt(rule.reward_log / (2 * n))
        for y in range(self.mdp.states):
            value += law[y] * V[y]
        return min(cap, value)

    def choose(self, first_step=0):
        """The incumbent if it is among the best, else the lowest index."""
        for h in range(first_step, self.mdp.horizon):
            for x in range(self.mdp.states):
                row = {a: q for (g, z, a), q in self.q.items() if (g, z) == (h, x)}
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
                if len(self.data[entry]) < self.rule.most_visits:
                    self.data[entry].append((reward, states[m]))
            if self.share == "step":
                self.plan()
                self.choose(h + 1)  # for the steps that are still to come
        self.plan()
        self.choose()
        self.changes += [
            (episodes[-1], h, x, self.policy[h, x]) for h, x in np.argwhere(self.policy != before)
        ]


def assert_twins(mdp, machines, rounds, seed, share="round", **options):
    run = mbie(mdp, episodes=rounds * machines, machines=machines, seed=seed, **options)
    rule = compile_intervals(
        mdp, episodes=run.episodes, c=run.c, p=run.p, most_visits=run.most_visits
    )
    plain = PlainMbie(mdp, rule, seed, machines, share)
    for r in range(rounds):
        plain.play_round(r)
    assert run.history.changes.tolist() == np.array(plain.changes).reshape(-1, 4).tolist()
    assert (run.plays == plain.plays).all()
    assert (run.policy == plain.policy).all()
    return run


@pytest.mark.parametrize(
    ("machines", "rounds", "c"), [(1, 250, 0.05), (1, 60, 0.3), (7, 40, 0.05), (50, 12, 0.2)]
)
def test_the_kernel_is_its_plain_twin(mdp, machines, rounds, c):
    run = assert_twins(mdp, machines, rounds, 3, c=c)
    assert run.deployments > 1


def test_the_kernel_s_values_are_its_twin_s_to_the_bit(mdp):
    rule = compile_intervals(mdp, episodes=300, c=0.1, p=0.05, most_visits=None)
    plain, tables = PlainMbie(mdp, rule, 5, 10), fresh_tables(rule)
    changes = np.zeros((mdp.horizon * mdp.states, 4), dtype=np.int64)
    for r in range(15):
        plain.play_round(r)
        kernels.explore(rule, tables, mdp.model, changes, stream_key(5), 10, 10 * r, 10 * r + 10)
        assert all(tables.q[entry] == q for entry, q in plain.q.items())
        assert (tables.q[~mdp.actions_allowed] == -np.inf).all()


@pytest.mark.parametrize("problem", ["dense", "per-step", "masked-sequence"])
def test_sharing_after_each_step_is_sharing_after_each_round(problem):
    assert_twins(PROBLEMS[problem](), 5, 30, 1, share="step", c=0.05)


def test_data_beyond_most_visits_are_ignored(mdp):
    few = assert_twins(mdp, 3, 30, 2, c=0.05, most_visits=4)
    assert few.plays.sum() == few.episodes * mdp.horizon


# ---- promises ------------------------------------------------------------------------------------


def slack_of_every_plan(mdp, c, seed, machines=100, rounds=200):
    """The smallest Q~ - Q* over all (h, x, a) after each round, and the largest H - h - Q~ at the
    end.
    """
    rule = compile_intervals(mdp, episodes=rounds * machines, c=c, p=0.001, most_visits=None)
    tables, changes = fresh_tables(rule), np.zeros((mdp.horizon * mdp.states, 4), dtype=np.int64)
    allowed = mdp.actions_allowed
    truth, slack = mdp.optimal_q[allowed], np.zeros(rounds)
    caps = tables.q[allowed].copy()
    for r in range(rounds):
        kernels.explore(
            rule,
            tables,
            mdp.model,
            changes,
            stream_key(seed),
            machines,
            r * machines,
            (r + 1) * machines,
        )
        slack[r] = (tables.q[allowed] - truth).min()
    return slack.min(), (caps - tables.q[allowed]).max()


@pytest.mark.parametrize(
    "problem", ["dense", "per-step", "masked-sequence", "reward-by-step", "transitions-by-step"]
)
def test_the_provable_scale_is_optimistic(problem):
    """Q~ >= Q* for every (h, x, a) after each of 200 rounds at c = 1.

    p = 0.001 in each of 15 runs: seeds drawn anew would raise a false alarm with probability 0.015
    at most. At c = 0.02 the test fails.
    """
    mdp = PROBLEMS[problem]()
    machines = 100 if not len(mdp.start_sequence) else len(mdp.start_sequence) // 200
    for seed in range(3):
        slack, learned = slack_of_every_plan(mdp, 1.0, seed, machines)
        assert slack >= -1e-9
        assert learned > 0.25
    assert min(slack_of_every_plan(mdp, 0.02, seed, machines)[0] for seed in range(3)) < -0.01


@pytest.mark.parametrize("machines", [1, 6])
def test_a_run_adds_up(mdp, machines):
    run = mbie(mdp, episodes=601, machines=machines, c=0.05)
    assert (run.rounds, run.episodes) == ((601, 601) if machines == 1 else (101, 606))
    assert run.played_under.sum() == run.episodes
    assert len(run.played_under) == run.deployments + 1 == run.history.deployments + 1
    assert (run.played_under[:-1] > 0).all()
    assert (run.played_under % machines == 0).all()
    assert ((run.history.episode + 1) % machines == 0).all()
    assert (run.plays.sum(axis=(1, 2)) == run.episodes).all()
    assert (run.plays[~mdp.actions_allowed] == 0).all()
    assert run.steps_per_second > 0
    policy = run.initial.copy()
    for _, h, x, a in run.history.changes:
        assert policy[h, x] != a
        policy[h, x] = a
    assert (policy == run.policy).all()
    mdp.checked_policy(policy)
    if not len(mdp.start_sequence):
        gaps = deployment_gaps(mdp, run.history, initial=run.initial)
        assert run.regret == pytest.approx(gaps @ run.played_under, rel=1e-9)
    assert run.regret == ls.exact_regret(
        mdp, run.history, episodes=run.episodes, initial=run.initial
    )


def test_the_pieces_of_a_run_do_not_matter(mdp, monkeypatch):
    whole = mbie(mdp, episodes=300, machines=4, c=0.05, seed=7)
    monkeypatch.setattr(PieceSize, "__init__", lambda pace, _: setattr(pace, "size", 7))
    monkeypatch.setattr(PieceSize, "__exit__", lambda *_: None)
    monkeypatch.setattr(sys.modules["lowswitch.machines.mbie"], "_KEPT_CHANGES", 1)
    pieces = mbie(mdp, episodes=300, machines=4, c=0.05, seed=7)
    assert whole.history.changes.tobytes() == pieces.history.changes.tobytes()
    assert (whole.plays == pieces.plays).all()
    assert whole.regret == pieces.regret
    assert (
        mbie(mdp, episodes=300, machines=4, c=0.05, seed=8).plays.tolist() != whole.plays.tolist()
    )


def test_it_learns_and_more_machines_need_fewer_rounds():
    mdp = ls.envs.riverswim(states=6, horizon=10)
    eps = 0.1 * mdp.optimal_value()
    runs = {
        machines: mbie(mdp, episodes=20_000, machines=machines, c=0.05) for machines in (1, 10, 100)
    }
    for machines, run in runs.items():
        assert mdp.evaluate(run.policy) > mdp.optimal_value() - eps
        assert run.mistakes(mdp, eps) < 0.2 * run.episodes * mdp.horizon
        assert run.mistakes(mdp, eps) % (machines * mdp.horizon) == 0
    rounds = [run.mistakes(mdp, eps) / machines for machines, run in runs.items()]
    assert rounds[0] > 5 * rounds[1] > 25 * rounds[2]


def test_one_state_and_one_step():
    """A bandit with Bernoulli arms."""
    mdp = ls.TabularMDP(np.ones((1, 3, 1)), [[0.1, 0.9, 0.5]], horizon=1, reward_law="bernoulli")
    run = mbie(mdp, episodes=2000, c=1.0)
    assert run.policy.tolist() == [[1]]
    assert run.plays[0, 0].argmax() == 1


def test_nothing_recompiles():
    for make in PROBLEMS.values():
        mbie(make(), episodes=10, machines=3)
        mbie(make(), episodes=10, c=1, most_visits=2)
    assert len(kernels.explore.signatures) == 1


# ---- results -------------------------------------------------------------------------------------


def test_a_result_is_saved_whole(tmp_path):
    file, run = (
        tmp_path / "run.npz",
        mbie(two_steps(-5.0, 15.0), episodes=500, machines=10, c=0.1, most_visits=40, seed=3),
    )
    run.save(file)
    back = MbieRun.load(file)
    assert back.to_dict() == run.to_dict()
    assert back.history.changes.tobytes() == run.history.changes.tobytes()
    for name in ("plays", "initial", "policy", "played_under"):
        assert getattr(back, name).tolist() == getattr(run, name).tolist()
    with pytest.raises(ValueError, match="holds a 'MBIE run', not a 'concurrent run'"):
        ls.concurrent.load(file)
    facts, arrays = storage.read(file, "MBIE run")
    storage.write(
        file, "MBIE run", {name: fact for name, fact in facts.items() if name != "regret"}, arrays
    )
    with pytest.raises(ValueError, match="no whole MBIE run .'regret'"):
        MbieRun.load(file)


def test_a_result_says_in_a_few_lines_what_it_is(capsys):
    run = mbie(two_steps(), episodes=1000, machines=10, c=0.1)
    assert (
        repr(run)
        == f"MbieRun(cmbie:c=0.1, 10 machines, 1,000 episodes in 100 rounds, {run.deployments}"
        " deployments)"
    )
    assert repr(mbie(two_steps(), episodes=10)).startswith(
        "MbieRun(mbie:c=1, 1 machine, 10 episodes in 10 rounds, "
    )
    assert json.loads(json.dumps(run.to_dict()))["regret"] == run.regret
    run.summary()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "problem    S = 2, A = 2, H = 2, optimal value 1.0000",
        "algorithm  cmbie:c=0.1, seed 0",
    ]
    assert f"regret     {run.regret:,.2f}" in lines


# ---- mistakes ------------------------------------------------------------------------------------


def two_steps(low=0.0, high=1.0):
    """From state 0 action a leads to state a for certain; a step pays 0.1, 0 in state 0 and 1, 0.2
    in state 1, or that rescaled.
    """
    transitions = np.zeros((2, 2, 2))
    transitions[:, 0, 0] = transitions[:, 1, 1] = 1
    rewards = low + (high - low) * np.array([[0.1, 0.0], [1.0, 0.2]])
    return ls.TabularMDP(transitions, ls.rescale(rewards, low=low, high=high), horizon=2)


def test_mistakes_by_hand():
    """V* = 1 by action 1, then 0. The first policy, always 0, is worth 0.2; always 1 is worth 0.2;
    the last one is optimal.
    """
    mdp, initial = two_steps(), np.zeros((2, 2), dtype=int)
    history = ls.History(np.array([[9, 0, 0, 1], [9, 1, 1, 1], [14, 1, 1, 0]]))
    assert deployment_gaps(mdp, history, initial=initial) == pytest.approx([0.8, 0.8, 0])
    assert mistakes(mdp, history, initial, [10, 5, 85], 0.5) == 2 * 15
    assert mistakes(mdp, history, initial, [10, 5, 85], 0.9) == 0
    plays = np.array([[[10, 90], [0, 0]], [[7, 3], [85, 5]]])
    # V* - Q*: step 0 state 0: 0.8, 0; step 1 state 0: 0, 0.1; step 1 state 1: 0, 0.8
    assert suboptimal_actions(mdp, plays, 0.5) == 10 + 5
    assert suboptimal_actions(mdp, plays, 0.05) == 10 + 3 + 5
    assert suboptimal_actions(mdp, plays, 0.9) == 0


def test_eps_is_in_the_users_units():
    plain, scaled, initial = two_steps(), two_steps(-5.0, 15.0), np.zeros((2, 2), dtype=int)
    history = ls.History(np.array([[9, 0, 0, 1], [9, 1, 1, 1], [14, 1, 1, 0]]))
    plays = np.array([[[10, 90], [0, 0]], [[7, 3], [85, 5]]])
    for eps in (0.05, 0.5, 0.9):
        assert mistakes(scaled, history, initial, [10, 5, 85], 20 * eps) == mistakes(
            plain, history, initial, [10, 5, 85], eps
        )
        assert suboptimal_actions(scaled, plays, 20 * eps) == suboptimal_actions(plain, plays, eps)
    runs = [mbie(mdp, episodes=500, c=0.1) for mdp in (plain, scaled)]
    assert runs[1].regret == pytest.approx(20 * runs[0].regret)
    assert runs[1].mistakes(scaled, 10.0) == runs[0].mistakes(plain, 0.5) > 0
    assert runs[1].suboptimal_actions(scaled, 10.0) == runs[0].suboptimal_actions(plain, 0.5) > 0


def test_a_forbidden_action_is_no_mistake():
    mdp = PROBLEMS["masked-sequence"]()
    run = mbie(mdp, episodes=100, c=0.05)
    assert suboptimal_actions(mdp, run.plays, 100.0) == 0


# ---- doors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"machines": 0}, "machines must be a whole number from 1"),
        ({"machines": 2.0}, "machines must be a whole number from 1"),
        ({"episodes": 0}, "episodes must be a whole number from 1"),
        ({"episodes": 2**31 - 2, "machines": 1000}, r"rounds \* machines must be a whole number"),
        ({"seed": -1}, "seed must be a whole number from 0, not -1"),
        ({"c": 0.0}, "c must be a positive number, not 0.0"),
        ({"c": float("nan")}, "c must be a positive number"),
        ({"c": "1"}, "c must be a positive number"),
        ({"p": 0.0}, "p must lie strictly between 0 and 1, not 0.0"),
        ({"p": 1}, "p must lie strictly between 0 and 1, not 1"),
        ({"p": float("nan")}, "p must lie strictly between 0 and 1"),
        ({"most_visits": 0}, "most_visits must be a whole number from 1"),
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
    with pytest.raises(
        ValueError, match="the start sequence has 4 states for 6 episodes; lengthen it"
    ):
        mbie(sequence, episodes=4, machines=3)


def test_absurd_memory_is_refused_before_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(sys.modules["lowswitch.machines.mbie"], "_MOST_BYTES", 100)
    with pytest.raises(
        ValueError,
        match=(
            r"H = 2, S = 2, A = 2 would need .* GiB, more than .*; use a smaller problem, or a"
            r" Q-learner"
        ),
    ):
        mbie(two_steps(), episodes=10)


@pytest.mark.parametrize("eps", [0, -1.0, float("nan"), float("inf")])
def test_bad_eps(eps):
    mdp = two_steps()
    run = mbie(mdp, episodes=10)
    for count in (run.mistakes, run.suboptimal_actions):
        with pytest.raises(ValueError, match="eps must be a positive number"):
            count(mdp, eps)


def test_counts_of_another_problem():
    mdp, other = two_steps(), ls.TabularMDP(*random_tables(3, 2, 0), horizon=2)
    run = mbie(mdp, episodes=10)
    with pytest.raises(
        ValueError,
        match=r"plays must be integers \[H, S, A\] = \(2, 3, 2\), not int64 of \(2, 2, 2\)",
    ):
        run.suboptimal_actions(other, 0.1)
    with pytest.raises(ValueError, match=r"played_under must be integers \[deployments \+ 1\]"):
        mistakes(mdp, run.history, run.initial, [10] * 99, 0.1)


def test_a_terminal_sees_progress_and_an_interrupt_is_heard(capsys, monkeypatch):
    mbie(two_steps(), episodes=1000, machines=10, progress=True)
    assert "cmbie:c=1,machines=10" in capsys.readouterr().err

    def interrupt(bar, done):
        if done > 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        mbie(two_steps(), episodes=10**9)
