"""Counts, bonuses, plans and posterior samples, each formula worked out by hand."""

import math

import numpy as np
import pytest
from scipy import stats

import lowswitch as ls
from conftest import PROBLEMS, learner_for, random_tables
from exam import RULES, same_run, sequential
from lowswitch import checks
from lowswitch.io import storage
from lowswitch.kernels import counts, planning, posterior, stages
from lowswitch.kernels.streams import MEMBERS, SAMPLES, learner_stream, stream_key
from lowswitch.learners import ProblemSize
from lowswitch.learners.plan_spec import fresh_plan_tables, plan_spec
from lowswitch.learners.planners import PlannerKnowledge
from lowswitch.reproduce.pseudocode import play_episode


def family(algorithm, H=2, S=3, A=2, K=100, seed=0):
    allowed = np.ones((H, S, A), dtype=bool)
    spec = plan_spec(algorithm, ProblemSize(H, S, A, K), allowed)
    tables = fresh_plan_tables(spec, allowed, seed)
    return spec, tables._replace(pool=np.zeros(1000, dtype=tables.pool.dtype))


def note(spec, tables, *transitions):
    for transition in transitions:
        h, x, a, reward, y = transition
        counts.note_visit(spec, tables, h, x, a, a, reward, y)


def counted(tables, i, records="records"):
    record = getattr(tables, records)[i]
    block = tables.pool[record["start"] : record["start"] + record["size"]]
    return {int(y): int(n) for y, n in zip(block["state"], block["count"], strict=True)}


# ---- formulas ------------------------------------------------------------------------------------


def test_bonuses_by_hand():
    assert planning.chernoff_bonus(3, 2.0, 4) == 7 * 3 * 2 / 2
    assert planning.freedman_bonus(3, 2.0, 4, 9.0, 2.0) == pytest.approx(
        math.sqrt(8 * 2 * 9 / 4) + 14 * 3 * 2 / 12 + math.sqrt(8 * 2 / 4)
    )
    assert planning.monotonic_bonus(3, 2.0, 4, 8.0, 2.0) == pytest.approx(
        460 / 9 * 2 + 2 * math.sqrt(2) * 1 + 544 / 9 * 3 * 2 / 4
    )
    # n = e^e: ln ln n = 1; 0.52 (1.4 + 0.6) / n
    n = math.e**math.e
    assert planning.certified_width(0.6, n) == pytest.approx(math.sqrt(0.52 * 2 / n))
    assert planning.certified_width(0.13, 52.0 / 48) == pytest.approx(math.sqrt(0.48 * 0.13))
    assert planning.certified_width(9.0, 1.0) == 1
    # (1 + 6) / 10 + 45 2 9 / 100 + 6 / 3
    assert planning.certified_bonus(3.0, 2, 0.1, 3.0, 6.0) == pytest.approx(0.7 + 8.1 + 2)
    assert planning.l1_reward_width(8.0, 7) == 2
    assert planning.l1_width(2, 8.0, 14) == 4
    assert stages.stage_bonus(3, 4.0, 16) == 2 * 3 * 0.5
    # iota = 16: n = 16, m = 1: 2 sqrt(4 * 1) + 2 sqrt(1 * 16) + 5 H (1 + 16 + 1 + 8)
    assert stages.advantage_bonus(2, 16.0, 16, 1, 4.0, 1.0) == pytest.approx(4 + 8 + 10 * 26)


def test_doubt_of_a_next_value():
    spec, _ = family(ls.ucbvi_bernstein())
    assert planning.next_doubt(spec, 0.5, 0) == 4
    assert planning.next_doubt(spec, 0.5, 10**9) == pytest.approx(1e4 * 8 * 9 * 2 * 0.25 / 10**9)
    assert planning.next_doubt(spec, 0.5, 1) == 4


def test_logarithms_by_hand():
    size = {"H": 2, "S": 3, "A": 2, "K": 100}
    assert family(ls.ucbvi(p=0.1), **size)[0].log == math.log(5 * 3 * 2 * 200 / 0.1)
    assert family(ls.mvp(p=0.1), **size)[0].log == math.log(200 * 3 * 2 * 4 * 100**2 / 0.1)
    assert family(ls.orlc(p=0.1), **size)[0].log == math.log(26 * 12 * 5 / 0.1)
    pooled = family(ls.orlc(p=0.1, pooled=True), **size)[0]
    assert pooled.log == math.log(26 * 6 * (2 + 1 + 3) / 0.1)
    spec = family(ls.ucrl2(p=0.1), **size)[0]
    assert (spec.log, spec.law_log) == (
        math.log(2 * 3 * 2 * 200 / 0.1),
        math.log(2 * 2 * 200 / 0.1),
    )


# ---- counts --------------------------------------------------------------------------------------


def test_transitions_are_counted_where_they_were_seen():
    spec, tables = family(ls.ucbvi(), S=5)
    note(spec, tables, (0, 1, 1, 0.5, 4), (0, 1, 1, 0.0, 2), (0, 1, 1, 1.0, 4), (1, 4, 0, 1.0, 0))
    assert counted(tables, 1 * 2 + 1) == {4: 2, 2: 1}
    assert tables.records[3].tolist()[:4] == (3, 3, 1.5, 1.25)
    assert tables.records[5 * 2 + 4 * 2].tolist()[:4] == (
        1,
        0,
        1.0,
        1.0,
    )  # the last step has no successor
    assert tables.visits.sum() == 4


def test_a_block_grows_and_keeps_what_it_held():
    spec, tables = family(ls.ucbvi(), S=7)
    for n, y in enumerate([3, 1, 6, 0, 2, 4, 5, 3, 3]):
        note(spec, tables, (0, 0, 0, 0.0, y))
        assert sum(counted(tables, 0).values()) == n + 1
    assert counted(tables, 0) == {3: 3, 1: 1, 6: 1, 0: 1, 2: 1, 4: 1, 5: 1}
    assert tables.records[0]["room"] == 7


def test_pooled_counts_belong_to_all_steps():
    spec, tables = family(ls.ucbvi(pooled=True), H=3)
    note(spec, tables, (0, 1, 0, 0.0, 2), (1, 1, 0, 1.0, 2), (2, 1, 0, 0.5, 0))
    assert counted(tables, 1 * 2) == {2: 2}
    assert tables.records[2].tolist()[:3] == (3, 2, 1.5)
    assert len(tables.cells) == 6


@pytest.mark.parametrize(("data", "kept"), [("newest", {0: 2}), ("all", {1: 1, 2: 1, 0: 2})])
def test_mvp_takes_the_newest_half_over_or_all(data, kept):
    spec, tables = family(ls.mvp(data=data))
    note(spec, tables, (0, 0, 0, 0.0, 1))  # visit 1: a trigger
    assert counted(tables, 0) == {1: 1}
    note(spec, tables, (0, 0, 0, 0.0, 2), (0, 0, 0, 1.0, 0))  # visit 2 is one, visit 3 is none
    assert counted(tables, 0) == ({2: 1} if data == "newest" else {1: 1, 2: 1})
    assert counted(tables, 0, "fresh") == {0: 1}
    note(spec, tables, (0, 0, 0, 1.0, 0))  # visit 4
    assert counted(tables, 0) == kept
    assert tables.records[0]["total"] == 2
    assert tables.records[0]["n"] == sum(kept.values())


# ---- plans ---------------------------------------------------------------------------------------


def test_a_plan_by_hand():
    spec, tables = family(ls.ucbvi(clip="remaining"))
    spec = spec._replace(log=0.01, c=0.5)
    note(
        spec,
        tables,
        (1, 2, 0, 0.5, 0),
        (1, 2, 1, 0.0, 0),
        (0, 0, 0, 0.25, 2),
        (0, 0, 0, 0.25, 2),
        (0, 0, 0, 0.25, 1),
        (0, 0, 0, 0.25, 2),
    )
    planning.plan(spec, tables, 0, 1.0, False)
    q = tables.q.reshape(2, 3, 2)
    bonus = 0.5 * 7 * 2 * 0.01
    assert q[1, 2].tolist() == pytest.approx([0.5 + bonus, bonus])
    assert q[1, 0].tolist() == [1, 1]  # never seen
    assert tables.values[3 + 2] == pytest.approx(0.5 + bonus)
    assert q[0, 0, 0] == pytest.approx(0.25 + 0.75 * (0.5 + bonus) + 0.25 * 1 + bonus / 2)
    assert tables.values[0] == 2  # of the other action


def test_upper_and_lower_values_of_orlc_by_hand():
    spec, tables = family(ls.orlc(c=1e-9))
    note(spec, tables, *[(1, 2, 0, 0.5, 0)] * 2, (0, 0, 0, 0.25, 2), (0, 0, 0, 0.25, 1))
    planning.plan(spec, tables, 0, 1.0, False)
    upper, lower = tables.values.reshape(2, 3, 3)
    # of state 2 one action is known and the other is not, so that it is the better one
    assert upper[1].tolist() == [1, 1, 1]
    assert lower[1].tolist() == [0, 0, 0]
    # the doubt is 1, and half of it a bonus
    assert tables.q[0] == pytest.approx(0.25 + 1 + 0.5, abs=1e-6)
    note(spec, tables, (1, 2, 1, 0.0, 0), (0, 0, 1, 0.0, 2))
    planning.plan(spec, tables, 0, 1.0, False)
    assert (upper[1, 2], lower[1, 2]) == pytest.approx((0.5, 0.5), abs=1e-6)
    # of two successors one is doubtful: 1/4 + (1 + 1/2) / 2 + 1/2 / 2
    assert tables.q[0] == pytest.approx(0.25 + 0.75 + 0.25, abs=1e-6)
    assert tables.q[1] == pytest.approx(0.5, abs=1e-6)
    # the lower value of the better action, 1/4 + 1/2 / 2 - 1/4
    assert (upper[0, 0], lower[0, 0]) == pytest.approx((1.25, 0.25), abs=1e-6)


def test_estimates_never_grow_where_they_are_monotone():
    spec, tables = family(ls.ucbvi())
    note(spec, tables, (1, 0, 0, 0.0, 0))
    planning.plan(spec._replace(c=1e-9), tables, 0, 1.0, False)
    assert tables.q[6] < 1e-6
    note(spec, tables, (1, 0, 0, 1.0, 0))
    planning.plan(spec._replace(c=1e-9), tables, 0, 1.0, False)
    assert tables.q[6] < 1e-6
    tables.dirty[:] = True
    planning.plan(spec._replace(c=1e-9, monotone=False), tables, 0, 1.0, False)
    assert tables.q[6] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(
    "algorithm",
    [
        ls.ucbvi_bernstein(c=0.01),
        ls.mvp(c=0.001),
        ls.ucrl2(c=0.05),
        ls.ucbvi(c=0.01, pooled=True),
        ls.orlc(c=0.03),
    ],
)
def test_replanning_what_changed_is_replanning_everything(algorithm):
    """A plan from scratch, all cells dirty, gives the same bits as the one that works out what
    changed.
    """
    mdp = PROBLEMS["per-step"]()
    learner = learner_for(mdp, algorithm, 200)
    for k in range(200):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
        if learner._knowledge.tables.dirty.any():
            continue
        spec, tables = (
            learner._knowledge.spec,
            type(learner._knowledge.tables)(*(a.copy() for a in learner._knowledge.tables)),
        )
        tables.dirty[:] = True
        planning.plan(spec, tables, 0, 1.0, False)
        assert tables.q.tobytes() == learner._knowledge.tables.q.tobytes()
        assert tables.values.tobytes() == learner._knowledge.tables.values.tobytes()


def test_the_most_favourable_law_by_hand():
    spec, tables = family(ls.ucrl2())
    note(spec, tables, (0, 0, 0, 0.0, 0), (0, 0, 0, 0.0, 1), (0, 0, 0, 0.0, 1), (0, 0, 0, 0.0, 2))
    tables.values[3:6] = 0.0, 2.0, 1.0
    planning.order_by_value(spec, tables, 3)
    assert tables.order.tolist() == [0, 2, 1]
    # 1/4, 1/2, 1/4 on values 0, 2, 1: a distance of 0.6 moves 0.3, a quarter from state 0 and 0.05
    # from state 2
    assert planning.favourable(spec, tables, tables.records[0], 3, 0.6) == pytest.approx(
        0.8 * 2 + 0.2 * 1
    )
    assert planning.favourable(spec, tables, tables.records[0], 3, 9.0) == pytest.approx(2.0)
    assert planning.favourable(spec, tables, tables.records[0], 3, 0.0) == pytest.approx(1.25)
    assert not tables.scratch.any()


def test_rmax_knows_what_it_has_seen_often_enough():
    spec, tables = family(ls.rmax(known=2))
    note(spec, tables, (1, 0, 0, 0.25, 0))
    planning.plan(spec, tables, 0, 1.0, False)
    assert tables.q[6] == 1
    note(spec, tables, (1, 0, 0, 0.75, 0))
    planning.plan(spec, tables, 0, 1.0, False)
    assert tables.q[6] == 0.5


# ---- stages --------------------------------------------------------------------------------------


def test_a_stage_by_hand():
    learner = ls.Learner(ls.stage_q(c=0.01), horizon=1, states=1, actions=2, episodes=100)
    iota = learner.algorithm.iota(horizon=1, states=1, actions=2, episodes=100)
    learner.tell([0], [0], [0.25])  # the first stage of H = 1 visits
    assert learner.q[0, 0, 0] == 0.25 + 0.01 * 2 * math.sqrt(iota)
    assert learner.policy[0, 0] == 1
    learner.tell([[0], [0]], [[0], [0]], [[0.0], [0.125]], off_policy=True)  # the second, of two
    assert learner.q[0, 0, 0] == 0.0625 + 0.01 * 2 * math.sqrt(iota / 2)
    learner.tell([[0]] * 4, [[0]] * 4, [[1.0]] * 4, off_policy=True)
    assert learner.q[0, 0, 0] == 0.0625 + 0.01 * 2 * math.sqrt(iota / 2)  # never grows


def test_a_reference_by_hand():
    """Two steps, one state, one action: stages of 2 and 3 visits, the reference fixed at the third
    visit.
    """
    learner = ls.Learner(
        ls.ucb_advantage(c=1e-6, reference=3), horizon=2, states=1, actions=1, episodes=10
    )
    rows, cells = learner._knowledge.tables.rows, learner._knowledge.tables.cells
    assert rows["reference"].tolist() == [2, 2, 0]
    learner.tell([[0, 0]] * 2, [[0, 0]] * 2, [[0.5, 0.25]] * 2)
    assert learner.values[:, 0] == pytest.approx(
        [0.5 + 1, 0.25, 0], abs=1e-3
    )  # step 0 has seen the value 1 of step 1 twice
    learner.tell([0, 0], [0, 0], [0.5, 0.25])
    assert rows["reference"] == pytest.approx([1.5, 0.25, 0], abs=1e-3)
    learner.tell([[0, 0]] * 2, [[0, 0]] * 2, [[0.5, 0.25]] * 2)
    assert cells["reference"][0] == pytest.approx(3 * 2 + 2 * 0.25, abs=1e-3)
    assert learner.values[:, 0] == pytest.approx([0.75, 0.25, 0], abs=1e-3)
    assert rows["reference"] == pytest.approx([1.5, 0.25, 0], abs=1e-3)  # fixed for good


def test_a_visit_is_drowned_where_both_bonuses_are_above_h():
    """One visit and iota = 1e-6: 2 c / 1000, and 5 c (2e-6 + 2e-4.5) = 3.26e-4 c."""
    for c, drowned in ((1000, 0), (4000, 1)):
        algorithm = ls.ucb_advantage(c=c, reference=3)
        learner = ls.Learner(algorithm, horizon=1, states=1, actions=1, episodes=10)
        learner._knowledge.spec = learner._knowledge.spec._replace(iota=1e-6)
        learner.tell([0], [0], [0.5])
        assert learner._knowledge.drowned == drowned


def test_visits_to_the_successors_alone_lower_an_estimate():
    """The value of step 1 is capped at 1 and stays; the doubt about it falls with its visits."""
    spec, tables = family(ls.ucbvi_bernstein(clip="remaining"), S=1, A=1)
    spec, estimates = spec._replace(log=1e-3), []
    note(spec, tables, (0, 0, 0, 0.0, 0))
    for _ in range(2):
        note(spec, tables, (1, 0, 0, 1.0, 0))
        planning.plan(spec, tables, 0, 1.0, False)
        tables.dirty[:] = False
        estimates.append(tables.q[0])
    assert tables.values.tolist()[1:] == [1, 0]
    assert estimates[1] < estimates[0] < 2


def test_pooled_counts_have_triggers_beyond_the_number_of_episodes():
    """One state and action, H = 16: visits 1 to 16, 32 and 64 fall into the episodes 0, 1 and 3."""
    mdp = ls.TabularMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), horizon=16)
    pooled = ls.ucbvi(c=1e-3, pooled=True, schedule="growth/2")
    assert ls.simulate(mdp, pooled, episodes=4, seeds=1).triggers.tolist() == [3]


# ---- pooled counts and the last step, which has no successor -------------------------------------


def triggers(spec, tables, *steps):
    """Which visits of one cell, at these steps, are triggers."""
    return [bool(counts.note_visit(spec, tables, h, 0, 0, 0, 0.5, 1)) for h in steps]


@pytest.mark.parametrize("data", ["current", "all", "newest"])
def test_the_first_successor_is_a_trigger_after_a_trigger_at_the_last_step(data):
    algorithm = ls.Algorithm(
        estimator=ls.parts.Planning(data=data, pooled=True),
        bonus=ls.parts.Unknown(known=1),
        schedule=ls.parts.Visits((1, 5)),
    )
    # visit 1 is a trigger at the last step, visit 4 has the first successor, visit 5 is a trigger
    found = triggers(*family(algorithm), 1, 1, 1, 0, 0, 0)
    assert found == [True, False, False, True, True, False]


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (ls.rmax(known=1, pooled=True), [True, False, True, False]),
        (ls.rmax(known=2, pooled=True), [False, True, True, False]),
        (ls.rmax(known=3, pooled=True), [False, False, True, False]),  # which is a trigger anyway
        (ls.rmax(known=4, pooled=True), [False, False, False, True]),
        (ls.ucbvi(pooled=True, schedule="grid/equal/3"), [False] * 4),
    ],
)
def test_the_first_successor_is_no_trigger_unless_one_was_used_up(algorithm, expected):
    assert triggers(*family(algorithm), 1, 1, 0, 0) == expected


def test_a_spent_budget_has_no_trigger_at_the_first_successor():
    spec, tables = family(ls.rmax(known=1, pooled=True, deployments=1))
    assert triggers(spec, tables, 1) == [True]
    tables.clock[0]["deployments"] = 1
    assert triggers(spec, tables, 0) == [False]


def certain_problem(seed, S=8, A=2, H=6):
    """Moves and rewards are certain."""
    generator = np.random.default_rng(seed)
    transitions = np.eye(S)[generator.integers(S, size=(S, A))]
    return ls.TabularMDP(transitions, generator.random((S, A)), horizon=H)


FIRST_VISITS = {
    "rmax": ls.rmax(known=1, pooled=True),
    "rmax-by-step": ls.rmax(known=1),
    "mbie": ls.Algorithm(
        estimator=ls.parts.Planning(clip="remaining", pooled=True),
        bonus=ls.parts.ConfidenceIntervals(c=1e-6, most_visits=1),
        schedule=ls.parts.EveryVisit(),
    ),
}


@pytest.mark.parametrize("name", FIRST_VISITS)
def test_a_learner_of_first_visits_finds_the_best_policy_where_all_is_certain(name):
    """60 problems; some first visits to a state and action are at the last step."""
    algorithm, stuck = FIRST_VISITS[name], []
    for seed in range(60):
        mdp = certain_problem(seed)
        runs = ls.simulate(mdp, algorithm, episodes=200, seeds=1)
        size = {"horizon": 6, "states": 8, "actions": 2, "episodes": 200}
        assert runs.deployments[0] <= algorithm.deployment_bound(**size)
        if mdp.evaluate(runs.policy[0]) < mdp.optimal_value() - 1e-9:
            stuck.append(seed)
    assert stuck == []


@pytest.mark.parametrize("horizon", [20, 21, 22])
def test_rmax_finds_the_way_along_the_cliff(horizon):
    mdp = ls.from_gymnasium("CliffWalking-v1", horizon=horizon)
    runs = ls.simulate(mdp, FIRST_VISITS["rmax"], episodes=300, seeds=1)
    assert mdp.evaluate(runs.policy[0]) == pytest.approx(-13)


def test_every_driver_has_the_trigger_of_the_first_successor():
    mdp, algorithm = certain_problem(7), FIRST_VISITS["rmax"]  # whose first visits matter
    alone = sequential(mdp, algorithm, 100)
    learner = learner_for(mdp, algorithm, 100)
    told = [learner.tell(*play_episode(mdp, learner.policy, 0, k)) for k in range(100)]
    changes = [row for switch in told if switch is not None for row in switch.changes.tolist()]
    assert changes == alone.history[0].changes.tolist()
    for rule in RULES:
        same_run(ls.concurrent.run(mdp, algorithm, 100, machines=7, rule=rule), alone)


def test_pooled_data_beyond_the_first_visits_are_the_first_with_a_successor(tmp_path):
    """most_visits = 2: three visits at the last step, then three with a successor."""
    algorithm = ls.Algorithm(
        estimator=ls.parts.Planning(pooled=True),
        bonus=ls.parts.ConfidenceIntervals(most_visits=2),
        schedule=ls.parts.EveryVisit(),
    )
    learner = ls.Learner(algorithm, horizon=2, states=2, actions=1, episodes=10)
    learner.tell([[0, 1]] * 3, [[0, 0]] * 3, [[0.0, 0.5]] * 3)
    learner.tell([[1, 0]] * 3, [[0, 0]] * 3, [[1.0, 0.0]] * 3)
    record = learner._knowledge.tables.records[1]
    assert (record["n"], record["followed"], record["total"]) == (4, 2, 0.5 + 0.5 + 1 + 1)
    learner.save(tmp_path / "learner.npz")
    assert ls.Learner.load(tmp_path / "learner.npz").q.tolist() == learner.q.tolist()


# ---- files ---------------------------------------------------------------------------------------


def test_a_saved_pool_that_is_too_short_is_refused(tmp_path):
    learner = ls.Learner(ls.ucbvi(c=0.01), horizon=2, states=3, actions=2, episodes=10)
    learner.tell([0, 1], [0, 0], [0.5, 0.5])
    learner.save(tmp_path / "learner.npz")
    facts, arrays = storage.read(tmp_path / "learner.npz", "learner")
    for name in ("start", "room"):
        records = arrays["records"].copy()
        records[name] += len(arrays["pool"])
        storage.write(tmp_path / "bad.npz", "learner", facts, arrays | {"records": records})
        with pytest.raises(ValueError, match="its successors lie outside their pool"):
            ls.Learner.load(tmp_path / "bad.npz")


# ---- posterior samples ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 1.5, 40.0])
def test_gamma_variates_follow_their_law(shape):
    """Kolmogorov and Smirnov, 20,000 draws of one stream, false-alarm rate 10^-4 for each shape."""
    counter = np.zeros(1, dtype=np.uint64)
    draws = [posterior.gamma(shape, np.uint64(17), counter) for _ in range(20_000)]
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-4


def test_a_gamma_variate_of_a_shape_below_one_is_made_of_one_above():
    drawn, counter = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    for shape in (0.3, 0.5, 0.9):
        power = math.exp(-posterior.exponential(np.uint64(3), counter) / shape)
        product = power * posterior.gamma_of_one_or_more(shape + 1, np.uint64(3), counter)
        assert posterior.gamma(shape, np.uint64(3), drawn) == product


def test_sampled_laws_have_the_posterior_mean_and_variance():
    """Dirichlet(1 + 3, 1 + 1, 1): 4,000 samples, five standard errors."""
    spec, tables = family(ls.psrl())
    note(spec, tables, *[(0, 0, 0, 0.0, 0)] * 3, (0, 0, 0, 0.0, 1))
    tables.values[3:6] = 1.0, 0.0, 0.0
    draws = []
    for i in range(4000):
        tables.counter[0] = 0
        draws.append(
            posterior.sampled_mean(spec, tables, tables.records[0], 3, np.uint64(i), tables.counter)
        )
    law = stats.beta(4, 3)
    assert np.mean(draws) == pytest.approx(law.mean(), abs=5 * law.std() / math.sqrt(4000))
    assert np.std(draws) == pytest.approx(law.std(), rel=0.08)


def test_sampled_rewards_are_as_spread_as_the_rewards():
    """Rewards 0 and 1 have the posterior Beta(1 + 3, 1 + 5): Kolmogorov and Smirnov, false-alarm
    rate 10^-4; equal ones stay near.
    """
    spec, tables = family(ls.psrl())
    note(
        spec,
        tables,
        *[(1, 0, 0, 1.0, 0)] * 3,
        *[(1, 0, 0, 0.0, 0)] * 5,
        *[(1, 1, 0, 0.3, 0)] * 1000,
    )

    def draws(record):
        return [
            posterior.sampled_reward(record, np.uint64(i), np.zeros(1, dtype=np.uint64))
            for i in range(3000)
        ]

    assert stats.kstest(draws(tables.records[6]), stats.beta(4, 6).cdf).pvalue > 1e-4
    equal = draws(tables.records[8])
    assert np.mean(equal) == pytest.approx(0.3, abs=2e-3)
    assert np.std(equal) < 2e-3  # of a Beta posterior it would be 0.0145
    unseen = draws(tables.records[0])
    assert stats.kstest(unseen, stats.uniform().cdf).pvalue > 1e-4


def test_a_tiny_prior_puts_all_mass_on_one_state():
    spec, tables = family(ls.psrl(prior=1e-300))
    tables.values[3:6] = 5.0, 6.0, 7.0
    tables.counter[0] = 0
    assert posterior.sampled_mean(
        spec, tables, tables.records[0], 3, np.uint64(3), tables.counter
    ) in (5.0, 6.0, 7.0)


def test_streams_of_a_learner_are_its_own():
    own = {
        int(learner_stream(seed, purpose)) for seed in range(300) for purpose in (SAMPLES, MEMBERS)
    }
    assert len(own | {int(stream_key(seed)) for seed in range(300)}) == 900


# ---- mixtures ------------------------------------------------------------------------------------


def test_rows_switch_when_the_law_of_their_actions_changes():
    changes = np.array(
        [[0, 0, 0, 1, 0, 0], [3, 0, 0, 0, 1, 0], [4, 0, 0, 0, 1, 1], [4, 1, 0, 2, 2, 2]]
    )
    history = ls.History(changes)
    assert (history.members, history.local_switches, history.deployments) == (
        3,
        3,
        3,
    )  # after episode 3 two members traded places


def test_each_episode_plays_a_member_of_the_mixture():
    mdp = ls.TabularMDP(*random_tables(4, 3, 1), horizon=3)
    algorithm = ls.psrl(members=4, schedule=ls.Grid((10, 2000)))
    learner, played = learner_for(mdp, algorithm, 2000), []
    for k in range(300):
        assert (learner.policy == learner.policy_for(k)).all()
        played.append(int(learner.deployed.member_for(np.array([k]))[0]))
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
    assert learner.mixture.shape == (4, 3, 4)
    assert np.bincount(played, minlength=4).min() > 40  # 75 are expected of each
    gap = np.mean([mdp.optimal_value() - mdp.evaluate(policy) for policy in learner.mixture])
    runs = ls.simulate(mdp, algorithm, episodes=2000, seeds=[0], history=True)
    assert (runs.policy[0] == learner.mixture).all()
    assert ls.deployment_gaps(mdp, runs.history[0], initial=runs.initial)[-1] == pytest.approx(gap)
    mixed = runs.pac_policy(0)
    assert (mixed.policy(1999) == learner.mixture).all()
    assert mixed.sample(np.random.default_rng(0)).shape == (3, 4)
    assert mdp.optimal_value() - mixed.evaluate(mdp) == pytest.approx(runs.regret[0] / 2000)


def test_a_model_too_large_is_refused_before_it_is_made(monkeypatch):
    with pytest.raises(
        ValueError,
        match=r"tables of H = 1000, S = 100000, A = 1000 for 1 policies need [\d,.]+ GiB, and this",
    ):
        family(ls.ucbvi(), H=1, S=1, A=1)
        spec = plan_spec(ls.ucbvi(), ProblemSize(1, 1, 1, 10), np.ones((1, 1, 1), dtype=bool))
        huge = spec._replace(H=1000, S=100_000, A=1000)
        PlannerKnowledge(ls.ucbvi().estimator, huge, np.ones((1, 1, 1), dtype=bool)).fresh(0)
    learner = ls.Learner(ls.ucbvi(), horizon=2, states=3, actions=2, episodes=100)
    monkeypatch.setattr(checks, "free_memory", lambda: 1)
    learner.tell([0, 0], [0, 0], [0.0, 0.0])
    with pytest.raises(ValueError, match="successors counted so far"):
        for y in (1, 2, 0) * 5:
            learner.tell([0, y], [0, 0], [0.0, 0.0], off_policy=True)


def test_pooled_counts_that_would_overflow_are_refused():
    with pytest.raises(ValueError, match="pooled counts hold fewer than 2,147,483,648 steps"):
        ls.Learner(ls.ucbvi(pooled=True), horizon=10, states=3, actions=2, episodes=10**9)


def test_a_block_has_room_for_no_more_successors_than_there_are_states():
    spec, tables = family(ls.ucbvi())
    rooms = []
    for y in range(3):
        note(spec, tables, (0, 0, 0, 0.0, y))
        rooms.append(int(tables.records[0]["room"]))
    assert rooms == [2, 2, 3]


def test_a_bonus_falls_with_the_visits_to_successors_though_their_values_stay():
    """UCBVI-BF adds what is doubtful about the next values: Azar et al. 2017, Algorithm 4."""
    algorithm = ls.ucbvi_bernstein(c=0.01, clip="remaining", schedule="episodes/1")
    learner = ls.Learner(algorithm, horizon=2, states=1, actions=2, episodes=100)

    def tell(first):
        learner.tell([0, 0], [first, 0], [0.0, 0.0], off_policy=True)
        return learner._knowledge.tables.q[0]

    for _ in range(20):
        before = tell(0)
    assert 1 < before < 2
    assert tell(1) == before
    learner._knowledge.tables.visits[2] = 10**9  # of action 0 at the second step; 1 is unknown
    assert 1 < tell(1) < before
