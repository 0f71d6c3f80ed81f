"""Estimators of one's own: the library's planners written anew in plain numpy give the same
histories; bad plans lose nothing.
"""

import functools
import itertools
import json
import math
import threading
from dataclasses import dataclass

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS, Shy, learner_for
from exam import RULES, same_rounds, same_run, sequential
from lowswitch.algorithms.parts import ByVisits, FromCounts, Triggers, Whole
from lowswitch.cli import commands
from lowswitch.reproduce.pseudocode import play_episode
from lowswitch.runs.jobs import Options
from lowswitch.runs.simulate import job_of

EPISODES = 150


@dataclass(frozen=True)
class PlainPlanner(FromCounts):
    """Optimistic backward induction as the papers print it, with everything worked out at each
    plan.
    """

    kind: str
    c: float
    p: float = 0.05

    def plan(self, counts):
        H, S, A = counts.visits.shape
        T = EPISODES * H
        q, value = np.zeros((H, S, A)), np.zeros(S)
        for h in reversed(range(H)):
            for x in range(S):
                for a in range(A):
                    q[h, x, a] = self.estimate(counts, h, x, a, value, S, A, H, T)
            value = np.minimum(H - h, np.where(counts.allowed[h], q[h], -np.inf).max(axis=-1))
        return counts.greedy(q)

    def estimate(self, counts, h, x, a, value, S, A, H, T):
        n, last = counts.visits[h, x, a], h + 1 == H
        if n == 0 or (self.kind == "rmax" and n < 5):
            return H - h
        mean_reward, law = counts.rewards[h, x, a] / n, counts.successors[h, x, a] / n
        mean = 0.0 if last else law @ value
        spread = 0.0 if last else max(0.0, law @ value**2 - mean**2)
        if self.kind == "rmax":
            return min(H - h, mean_reward + mean)
        if self.kind == "ucrl2":
            reward = min(
                1, mean_reward + self.c * math.sqrt(7 * math.log(2 * S * A * T / self.p) / (2 * n))
            )
            width = self.c * math.sqrt(14 * S * math.log(2 * A * T / self.p) / n)
            return min(H - h, reward + (0.0 if last else self.most(law, value, width)))
        L = math.log(5 * S * A * T / self.p)
        if self.kind == "ucbvi":
            bonus = 7 * H * L / math.sqrt(n)
        elif self.kind == "ucbvi-bf":
            seen = counts.visits[h + 1].sum(axis=-1) if not last else np.zeros(S)
            doubt = np.minimum(100**2 * H**3 * S**2 * A * L**2 / np.maximum(seen, 1e-9), H**2)
            bonus = (
                math.sqrt(8 * L * spread / n)
                + 14 * H * L / (3 * n)
                + (0.0 if last else math.sqrt(8 * (law @ doubt) / n))
            )
        else:
            log = math.log(200 * S * A * H**2 * EPISODES**2 / self.p)
            reward_spread = max(0.0, counts.squares[h, x, a] / n - mean_reward**2)
            bonus = (
                460 / 9 * math.sqrt(spread * log / n)
                + 2 * math.sqrt(2 * reward_spread * log / n)
                + 544 / 9 * H * log / n
            )
        return min(H - h, mean_reward + mean + self.c * bonus)

    @staticmethod
    def most(law, value, width):
        """The largest mean of the next value within an L1 distance: mass moves from the worst
        states to the best one.
        """
        law, best = law.copy(), value.argmax()
        law[best] = min(1, law[best] + width / 2)
        for y in value.argsort(kind="stable"):
            if y != best:
                law[y] = max(0, law[y] - max(0, law.sum() - 1))
        return law @ value


BONUSES = {
    "ucbvi": ls.parts.ChernoffHoeffding(c=0.01),
    "ucbvi-bf": ls.parts.BernsteinFreedman(c=0.01),
    "mvp": ls.parts.MonotonicBernstein(c=0.001),
    "ucrl2": ls.parts.L1Ball(c=0.01),
    "rmax": ls.parts.Unknown(known=5),
}


@pytest.mark.parametrize(
    "problem", ["dense", "per-step", "masked-sequence", "reward-by-step", "transitions-by-step"]
)
@pytest.mark.parametrize("kind", BONUSES)
def test_the_library_s_planners_are_the_papers_in_plain_numpy(kind, problem):
    """The same row changes after the same episodes, on problems without ties: they sum in another
    order, which would break some.
    """
    mdp = PROBLEMS[problem]()
    schedule = ls.parts.WholePolicy(1.5) if kind != "rmax" else ls.parts.Visits((5,))
    built_in = ls.Algorithm(
        estimator=ls.parts.Planning(clip="remaining"), bonus=BONUSES[kind], schedule=schedule
    )
    own = ls.Algorithm(
        estimator=PlainPlanner(kind, c=getattr(BONUSES[kind], "c", 1.0)),
        bonus=ls.parts.NoBonus(),
        schedule=schedule,
    )
    one, other = (
        ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[0], history=True)
        for algorithm in (built_in, own)
    )
    assert one.history[0].changes.tolist() == other.history[0].changes.tolist()
    assert len(one.history[0]) > 0


@pytest.mark.parametrize("name", ["own", "own-mixture-budget"])
@pytest.mark.parametrize("rule", RULES)
def test_own_estimators_on_many_machines(name, rule, mdp):
    alone = sequential(mdp, ALGORITHMS[name], EPISODES)
    for machines in (1, 7):
        same_run(
            ls.concurrent.run(
                mdp, ALGORITHMS[name], episodes=EPISODES, machines=machines, rule=rule, seed=0
            ),
            alone,
        )


def test_counts_are_what_was_told():
    seen = []

    @dataclass(frozen=True)
    class Spy(FromCounts):
        def plan(self, counts):
            seen.append(counts)
            return counts.deployed

    algorithm = ls.Algorithm(
        estimator=Spy(),
        bonus=ls.parts.NoBonus(),
        schedule=ls.parts.Budget(schedule=ls.parts.Grid((2, 3, 9)), deployments=9),
    )
    learner = ls.Learner(algorithm, horizon=2, states=3, actions=2, episodes=9)
    for states, rewards in (([0, 2], [0.5, 1.0]), ([0, 1], [0.25, 0.0]), ([1, 1], [0.0, 0.0])):
        learner.tell(states, [0, 0], rewards)
    first, second = seen
    assert (first.episodes, first.last, second.episodes, second.last) == (2, False, 3, True)
    assert first.visits[0].tolist() == [[2, 0], [0, 0], [0, 0]]
    assert (first.rewards[0, 0, 0], first.squares[0, 0, 0]) == (0.75, 0.3125)
    assert first.successors[0, 0, 0].tolist() == [0, 1, 1]
    assert first.successors[1].sum() == 0
    assert second.visits[0].tolist() == [[2, 0], [1, 0], [0, 0]]
    draws = [counts.generator.random() for counts in seen]
    again = ls.Learner(algorithm, horizon=2, states=3, actions=2, episodes=9)
    again.tell([[0, 2], [0, 1], [1, 1]], [[0, 0]] * 3, [[0.5, 1.0], [0.25, 0.0], [0.0, 0.0]])
    assert [counts.generator.random() for counts in seen[2:]] == draws
    assert draws[0] != draws[1]


def test_the_last_deployment_is_announced_until_it_is_made():
    """Plans change something after episodes 1, 2 and 5; a plan that changes nothing is no
    deployment.
    """
    announced = []

    @dataclass(frozen=True)
    class Spy(FromCounts):
        def plan(self, counts):
            announced.append(counts.last)
            return 1 - counts.deployed if counts.episodes in (1, 2, 5) else counts.deployed

    algorithm = ls.Algorithm(
        estimator=Spy(),
        bonus=ls.parts.NoBonus(),
        schedule=ls.parts.Budget(schedule=ls.parts.EveryVisit(), deployments=3),
    )
    learner = ls.Learner(algorithm, horizon=1, states=1, actions=2, episodes=9)
    for _ in range(9):
        learner.tell([0], learner.policy[:, 0], [0.0])
    assert announced == [False, False, True, True, True]


def test_the_deployed_action_stays_among_equals():
    counts = learner_for(PROBLEMS["dense"](), ALGORITHMS["own"], 10)._knowledge._counts(0)
    q = np.zeros(counts.visits.shape)
    assert (counts.greedy(q) == 0).all()
    q[..., 1:] = 1.0
    assert (counts.greedy(q) == 1).all()
    deployed = counts._replace(deployed=np.full(counts.deployed.shape, 2))
    assert (deployed.greedy(q) == 2).all()


@dataclass(frozen=True)
class Traders(FromCounts):
    """Two members that differ after the first episode, then trade places, but for a first row that
    `levels` after the second.
    """

    levels: bool
    members: int = 2

    def plan(self, counts):
        if counts.episodes == 1:
            return np.array([[[0, 0]], [[1, 1]]])
        traded = counts.deployed[::-1].copy()
        if self.levels and counts.episodes == 2:
            traded[:, 0, 0] = 1
        return traded


@pytest.mark.parametrize(
    ("levels", "budget", "switches", "deployments"),
    [
        (False, {"deployments": 3}, 2, 1),
        (False, {"switches": 9}, 2, 1),
        (True, {"switches": 3}, 3, 2),
    ],
)
def test_members_that_only_trade_places_are_no_deployment(levels, budget, switches, deployments):
    """Beside the last switch of a budget they may: the law of another row changes with it."""
    mdp = ls.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), horizon=1)
    schedule = ls.parts.Budget(schedule=ls.parts.EveryVisit(), **budget)
    algorithm = ls.Algorithm(estimator=Traders(levels), bonus=ls.parts.NoBonus(), schedule=schedule)
    runs = ls.simulate(mdp, algorithm, episodes=6, seeds=[0], history=True)
    assert (runs.local_switches[0], runs.deployments[0]) == (switches, deployments)
    assert runs.history[0].episode.tolist() == [k for k in range(deployments) for _ in range(2)]
    if levels:
        assert runs.policy[0].tolist() == [[[1, 1]], [[1, 0]]]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            lambda counts: counts.deployed[0] + 0.5,
            r"plan must give a whole number for each of \(2, 3\) rows, not float64 of \(2, 3\)",
        ),
        (
            lambda counts: counts.deployed[0, 0],
            r"plan must give a whole number for each of \(2, 3\) rows, not int64 of \(3,\)",
        ),
        (
            lambda counts: counts.deployed[0] + 7,
            "plan gives action 7 at step 0 in state 0, which is not allowed; see counts.allowed",
        ),
        (
            lambda counts: counts.deployed[0] + 1,
            "plan gives action 1 at step 1 in state 2, which is not allowed; see counts.allowed",
        ),
        (lambda counts: 1 / 0, "division by zero"),
    ],
)
def test_a_bad_plan_loses_nothing(plan, message):
    @dataclass(frozen=True)
    class Bad(FromCounts):
        def plan(self, counts):
            return plan(counts) if counts.episodes == 2 else counts.deployed

    allowed = np.ones((2, 3, 2), dtype=bool)
    allowed[1, 2, 1] = False
    algorithm = ls.Algorithm(
        estimator=Bad(), bonus=ls.parts.NoBonus(), schedule=ls.parts.EveryVisit()
    )
    learner = ls.Learner(
        algorithm, horizon=2, states=3, actions=2, episodes=9, actions_allowed=allowed
    )
    learner.tell([0, 0], [0, 0], [0.0, 0.0])
    before = learner.visits.copy()
    with pytest.raises((ValueError, ZeroDivisionError), match=message):
        learner.tell([1, 1], [0, 0], [0.0, 0.0])
    assert learner.told == 1
    assert (learner.visits == before).all()
    with pytest.raises((ValueError, ZeroDivisionError), match=message):
        ls.simulate(
            PROBLEMS["dense"]() if "3, 2" in message else mdp_of(allowed),
            algorithm,
            episodes=9,
            seeds=2,
        )


def mdp_of(allowed):
    H, S, A = allowed.shape
    return ls.TabularMDP(
        np.full((S, A, S), 1 / S), np.zeros((S, A)), horizon=H, actions_allowed=allowed
    )


def test_an_own_estimator_goes_through_a_file(tmp_path):
    mdp, algorithm = (
        PROBLEMS["dense"](),
        ls.Algorithm(estimator=Shy(0.5), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(3)),
    )
    learner = learner_for(mdp, algorithm, 50)
    learner.tell(*play_episode(mdp, learner.policy, 0, 0))
    learner.save(tmp_path / "learner.npz")
    assert ls.Learner.load(tmp_path / "learner.npz").algorithm == algorithm
    runs = ls.simulate(mdp, algorithm, episodes=50, seeds=2)
    runs.save(tmp_path / "runs.npz")
    assert ls.load(tmp_path / "runs.npz").algorithm == algorithm


@pytest.mark.parametrize("members", [0, -1, 2.5, "a", None, True])
def test_members_are_counted_in_whole_numbers(members):
    @dataclass(frozen=True)
    class Crowd(FromCounts):
        members: int

    with pytest.raises(
        ValueError, match=f"members must be a whole number from 1 to .*, not {members!r}"
    ):
        ls.Algorithm(
            estimator=Crowd(members), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2)
        )


def test_estimates_that_are_no_numbers_choose_nothing():
    counts = learner_for(PROBLEMS["dense"](), ALGORITHMS["own"], 10)._knowledge._counts(0)
    with pytest.raises(
        ValueError, match=r"estimates must be numbers of shape \(3, 4, 3\), but some are NaN"
    ):
        counts.greedy(np.full((3, 4, 3), np.nan))
    with pytest.raises(ValueError, match=r"of shape \(3, 4, 3\), but they are \(4, 3\)"):
        counts.greedy(np.zeros((4, 3)))


def test_what_one_s_own_class_lacks_is_named():
    @dataclass(frozen=True)
    class Nothing(FromCounts):
        pass

    @dataclass(frozen=True)
    class Never(ByVisits):
        pass

    mdp = PROBLEMS["dense"]()
    with pytest.raises(NotImplementedError, match=r"Nothing must define plan\(self, counts\)"):
        ls.simulate(
            mdp,
            ls.Algorithm(
                estimator=Nothing(), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2)
            ),
            episodes=9,
            seeds=1,
        )
    with pytest.raises(
        NotImplementedError, match=r"Never must define triggers\(self, \*, horizon, limit\)"
    ):
        ls.simulate(mdp, ls.q_hoeffding(schedule=Never()), episodes=9, seeds=1)


@pytest.mark.parametrize("grid", [(30, 10, 40), (0, 10), (10.5,), ("a",)])
def test_a_grid_of_one_s_own_is_checked(grid):
    @dataclass(frozen=True)
    class Own(Whole):
        def grid(self, episodes):
            return grid

        def refresh_bound(self, **size):
            return len(grid)

    with pytest.raises(ValueError, match="the grid of .*Own.* must (increase|be a whole number)"):
        learner_for(PROBLEMS["dense"](), ls.ucbvi(schedule=Own()), 50)


@pytest.mark.parametrize("triggers", [[1, 2], Triggers(0, (1.5, 2.0))])
def test_triggers_of_one_s_own_are_checked(triggers):
    @dataclass(frozen=True)
    class Own(ByVisits):
        def triggers(self, *, horizon, limit):
            return triggers

    with pytest.raises(
        ValueError,
        match=(
            r"a schedule gives its triggers as Triggers\(every_until, later\), all whole"
            r" numbers, not"
        ),
    ):
        learner_for(PROBLEMS["dense"](), ls.ucbvi(schedule=Own()), 50)


def test_a_problem_too_large_for_its_plans_is_refused_at_once():
    large = {"horizon": 10, "states": 20_000, "actions": 4, "episodes": 100}
    with pytest.raises(
        ValueError,
        match=(
            r"4 samples of a posterior with H = 10, S = 20000, A = 4 are 64,000,000,000 draws for"
            r" each"
        ),
    ):
        ls.Learner(ls.psrl(members=4), **large)
    with pytest.raises(
        ValueError,
        match=(
            r"the transitions of H = 10, S = 200000, A = 4 in one table, which plan is given, need"
            r" [\d,.]+ GiB"
        ),
    ):
        ls.Learner(ALGORITHMS["own"], **large | {"states": 200_000})


def test_a_class_of_a_script_is_not_to_be_imported(tmp_path):
    data = ls.Algorithm(
        estimator=Shy(), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2)
    ).to_dict()
    data["estimator"]["kind"] = "__main__.Shy"
    with pytest.raises(
        ValueError,
        match=(
            r"unknown estimator '__main__.Shy'; it was defined in a script; move it to a module"
        ),
    ):
        ls.Algorithm.from_dict(data)


@dataclass(frozen=True)
class Fragile(FromCounts):
    """Fails once, when it is told to."""

    def plan(self, counts):
        if counts.episodes == FAULTY["episode"]:
            FAULTY["episode"] = -1
            raise RuntimeError("the solver did not answer")
        return counts.greedy(-counts.visits)


FAULTY = {"episode": -1}


@pytest.mark.parametrize("rule", RULES)
def test_a_plan_that_fails_on_many_machines_costs_one_round(tmp_path, rule):
    mdp, algorithm = (
        PROBLEMS["dense"](),
        ls.Algorithm(estimator=Fragile(), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(1.5)),
    )
    alone = sequential(mdp, algorithm, EPISODES)
    FAULTY["episode"] = int(alone.history[0].episode[-1]) + 1
    run = {
        "episodes": EPISODES,
        "machines": 7,
        "rule": rule,
        "seed": 0,
        "checkpoint": tmp_path / "run.npz",
        "save_every": 60.0,
    }
    with pytest.raises(RuntimeError, match="the solver did not answer") as caught:
        ls.concurrent.run(mdp, algorithm, **run)
    assert "repeat this call to resume from it" in caught.value.__notes__[-1]
    resumed = ls.concurrent.run(mdp, algorithm, **run)
    same_run(resumed, alone)
    same_rounds(resumed, ls.concurrent.run(mdp, algorithm, **run | {"checkpoint": None}))


def test_a_run_is_heard_between_two_plans():
    stop = threading.Event()

    @dataclass(frozen=True)
    class Stopper(FromCounts):
        def plan(self, counts):
            stop.set()
            return counts.deployed

    mdp, episodes = PROBLEMS["dense"](), 1000
    algorithm = ls.Algorithm(
        estimator=Stopper(), bonus=ls.parts.NoBonus(), schedule=ls.parts.Grid((3, 5, 1000))
    )
    run = job_of(mdp, algorithm, episodes, [0], Options()).begin(0, episodes)
    run.play(stop)
    assert run.done == 3


CALLS = {"number": 0}
COUNTER = itertools.count()
LOG = []


@dataclass(frozen=True)
class OfGlobal(FromCounts):
    def plan(self, counts):
        CALLS["number"] += 1
        return np.full_like(counts.deployed, CALLS["number"] % 2)


@dataclass(frozen=True)
class OfCounter(FromCounts):
    def plan(self, counts):
        return np.full_like(counts.deployed, next(COUNTER) % 2)


@dataclass(frozen=True)
class OfDefault(FromCounts):
    def plan(self, counts, calls=[]):  # noqa: B006
        calls.append(1)
        return np.full_like(counts.deployed, len(calls) % 2)


@dataclass(frozen=True)
class OfItself(FromCounts):
    def plan(self, counts):
        object.__setattr__(self, "calls", getattr(self, "calls", 0) + 1)
        return np.full_like(counts.deployed, self.calls % 2)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(OfGlobal, "CALLS"), (OfCounter, "COUNTER"), (OfDefault, "calls"), (OfItself, "self.calls")],
)
def test_a_planner_that_depends_on_earlier_calls_is_refused(kind, name):
    """Its numbers would depend on which seeds ran before, and on the threads."""
    planner = ls.Algorithm(
        estimator=kind(), bonus=ls.parts.NoBonus(), schedule=ls.parts.WholePolicy(2)
    )
    with pytest.raises(ValueError, match=f"{kind.__name__} changes {name}, so its results could"):
        ls.simulate(PROBLEMS["dense"](), planner, episodes=40, seeds=1, progress=False)


@dataclass(frozen=True)
class Inside(FromCounts):
    def plan(self, counts):
        from random import randrange

        return np.full_like(counts.deployed, randrange(2))


@dataclass(frozen=True)
class Hidden(FromCounts):
    def plan(self, counts):
        return np.full_like(counts.deployed, __import__("time").time_ns() % 2)


@dataclass(frozen=True)
class Within(FromCounts):
    def plan(self, counts):
        import numpy as again

        return again.random.default_rng().integers(2, size=counts.deployed.shape)


@dataclass(frozen=True)
class Harmless(FromCounts):
    def plan(self, counts):
        import numpy as again

        return counts.greedy(again.round(counts.generator.random(counts.visits.shape)))


def test_a_planner_may_import_what_gives_the_same_each_time():
    ls.Algorithm(estimator=Harmless(), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Inside, "imports random inside of the function"),
        (Within, "imports numpy.random inside of the function"),
        (Hidden, "reads through __import__"),
    ],
)
def test_a_planner_that_takes_noise_from_where_it_cannot_be_seen_is_refused(kind, message):
    with pytest.raises(ValueError, match=f"{kind.__name__}.plan {message}"):
        ls.Algorithm(estimator=kind(), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2))


def test_a_schedule_that_depends_on_earlier_calls_is_refused():
    counts = [1]

    @dataclass(frozen=True)
    class Later(ByVisits):
        def triggers(self, *, horizon, limit):
            counts.append(counts[-1] + 1)
            return Triggers(0, tuple(counts))

    with pytest.raises(ValueError, match="Later changes counts, so its results could depend"):
        learner_for(PROBLEMS["dense"](), ls.ucbvi(schedule=Later()), 50)


def test_a_planner_may_keep_a_log_and_what_it_has_worked_out():
    @dataclass(frozen=True)
    class Logs(FromCounts):
        @functools.cached_property
        def weight(self):
            return 2.0

        def plan(self, counts):
            LOG.append(counts.episodes)
            return counts.greedy(self.weight * counts.rewards)

    planner = ls.Algorithm(
        estimator=Logs(), bonus=ls.parts.NoBonus(), schedule=ls.parts.WholePolicy(2)
    )
    ls.simulate(PROBLEMS["dense"](), planner, episodes=40, seeds=1, progress=False)
    assert len(LOG) > 3


def test_a_plan_cannot_change_what_is_allowed():
    counts = learner_for(PROBLEMS["dense"](), ALGORITHMS["own"], 10)._knowledge._counts(0)
    with pytest.raises(ValueError, match="read-only"):
        counts.allowed[0, 0, 0] = False


def test_an_own_estimator_may_have_any_fields():
    @dataclass(frozen=True)
    class Odd(FromCounts):
        c1: float = 0.5
        c: tuple[float, ...] = (1.0, 2.0)

    assert "Odd" in str(
        ls.Algorithm(estimator=Odd(), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2))
    )


def test_what_cannot_be_saved_is_said_by_name(tmp_path):
    @dataclass(frozen=True)
    class Heavy(FromCounts):
        weights: object

        def plan(self, counts):
            return counts.deployed

    mdp = PROBLEMS["dense"]()
    heavy = ls.Algorithm(
        estimator=Heavy(np.ones(2)), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2)
    )
    assert ls.simulate(mdp, heavy, episodes=20, seeds=1).deployments[0] == 0
    for save in (
        lambda: learner_for(mdp, heavy, 20).save(tmp_path / "learner.npz"),
        lambda: ls.concurrent.run(
            mdp, heavy, episodes=20, machines=2, checkpoint=tmp_path / "run.npz"
        ),
    ):
        with pytest.raises(
            ValueError,
            match=(
                r"weights=array\(\[1., 1.\]\) of Heavy cannot be saved; use numbers, texts, or"
                r" tuples of them"
            ),
        ):
            save()
    assert not list(tmp_path.iterdir())
    light = ls.Algorithm(
        estimator=Heavy((1.0, (2, 3))), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2)
    )
    assert ls.Algorithm.from_dict(json.loads(json.dumps(light.to_dict()))) == light


@dataclass(frozen=True)
class Weekly(ls.parts.Whole):
    """A schedule of one's own that promises too little."""

    promised: int

    def grid(self, episodes):
        return tuple(range(7, episodes, 7))

    def refresh_bound(self, **size):
        return self.promised


@dataclass(frozen=True)
class Often(ls.parts.ByVisits):
    """Every visit, and a promise that is not kept."""

    def triggers(self, *, horizon, limit):
        return ls.parts.Triggers(limit, ())

    def refresh_bound(self, **size):
        return 3


def test_a_bound_of_ones_own_that_is_exceeded_is_named():
    mdp = PROBLEMS["dense"]()
    broken = ls.q_hoeffding(c=0.1, schedule=Weekly(2))
    message = r"Weekly\(promised=2\) says by refresh_bound .* at most 2 .* grid has 14 dates"
    with pytest.raises(ValueError, match=message):
        ls.simulate(mdp, broken, episodes=100, seeds=2)
    ls.simulate(mdp, ls.q_hoeffding(c=0.1, schedule=Weekly(14)), episodes=100, seeds=2)
    with pytest.warns(RuntimeWarning, match=r"more than the 3 that refresh_bound of Often\(\)"):
        ls.simulate(mdp, ls.q_hoeffding(c=0.1, schedule=Often()), episodes=100, seeds=2)


def test_runs_with_a_class_that_is_not_known_are_loaded_with_its_text(
    tmp_path, monkeypatch, capsys
):
    mdp = ls.envs.riverswim(states=3, horizon=3)

    @dataclass(frozen=True)
    class Thirds(ls.parts.ByVisits):
        def triggers(self, *, horizon, limit):
            return ls.parts.Triggers(0, tuple(range(3, limit, 3)))

    algorithm = ls.q_hoeffding(c=0.05, schedule=Thirds(), deployments=5)
    runs = ls.simulate(mdp, algorithm, episodes=50, seeds=2)
    monkeypatch.setattr(Thirds, "__module__", "__main__")
    with pytest.warns(UserWarning, match=r"Thirds is defined in the script itself, so '.*' stores"):
        runs.save(tmp_path / "runs.npz")
    monkeypatch.setattr(Thirds, "__module__", "elsewhere")
    for name in ("runs.npz", "again.npz"):
        with pytest.warns(
            UserWarning, match="the results in .* are complete, .*: unknown schedule '__main__"
        ):
            read = ls.load(tmp_path / name)
        assert str(read.algorithm) == str(algorithm)
        np.testing.assert_array_equal(read.regret, runs.regret)
        assert len(read.plot().axes) == 3
        read.save(tmp_path / "again.npz")
    assert "text" not in algorithm.facts()
    parts = ls.Algorithm(
        estimator=ls.parts.Planning(), bonus=ls.parts.BernsteinFreedman(c=0.01), schedule=Thirds()
    )
    assert parts.to_dict()["text"] == parts.label
    capsys.readouterr()  # that kernels are compiled
    assert (
        commands.main(["plot", str(tmp_path / "runs.npz"), "--out", str(tmp_path / "runs.svg")])
        == 0
    )
    captured = capsys.readouterr()
    assert captured.err == ""  # nothing can be imported there, and nothing has to be
    assert "Thirds()" in "".join(captured.out.split())
