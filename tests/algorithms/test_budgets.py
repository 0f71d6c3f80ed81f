"""A budget is never exceeded, on any problem, by any estimator, schedule and driver."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import lowswitch as ls
from conftest import learner_for, random_tables
from lowswitch.reproduce.pseudocode import play_episode

PLAIN = st.one_of(
    st.just(ls.parts.EveryVisit()),
    st.just(ls.parts.UCB2(r_star=1)),
    st.sampled_from([1.1, 2, 5]).map(ls.parts.Growth),
    st.just(ls.parts.Stages()),
    st.just(ls.parts.Visits((1, 3, 4))),
)
WHOLE = st.one_of(
    st.builds(ls.parts.WholePolicy, st.sampled_from([1.01, 1.5, 3]), least=st.integers(1, 4)),
    st.builds(
        ls.parts.Grid, st.sampled_from(["equal", "geometric", "minimax"]), st.integers(1, 60)
    ),
    st.just(ls.parts.Grid((1, 2, 3, 5, 8, 13, 1000))),
    st.integers(1, 40).map(ls.parts.EveryEpisodes),
)
PARTS = [
    (ls.parts.QLearning(), ls.parts.Hoeffding(c=0.05), True),
    (ls.parts.QLearning(clip="remaining"), ls.parts.Bernstein(c1=0.01, c2=0.05), True),
    (ls.parts.StageQLearning(), ls.parts.Hoeffding(c=0.02), False),
    (ls.parts.Advantage(reference=5), ls.parts.AdvantageBonus(c=0.01), False),
    (ls.parts.Planning(monotone=True), ls.parts.ChernoffHoeffding(c=0.001), True),
    (ls.parts.Planning(pooled=True), ls.parts.BernsteinFreedman(c=0.001), True),
    (ls.parts.Planning(data="newest"), ls.parts.MonotonicBernstein(c=0.0005), False),
    (ls.parts.Planning(clip="remaining"), ls.parts.L1Ball(c=0.02), True),
    (ls.parts.Planning(), ls.parts.ConfidenceIntervals(c=0.02, most_visits=9), True),
    (ls.parts.Planning(), ls.parts.Unknown(known=2), True),
    (ls.parts.Posterior(), ls.parts.NoBonus(), True),
    (ls.parts.Posterior(members=4, prior=0.1), ls.parts.NoBonus(), True),
]


@st.composite
def budgeted(draw):
    estimator, bonus, any_schedule = draw(st.sampled_from(PARTS))
    plain = draw(st.one_of(PLAIN, WHOLE) if any_schedule else PLAIN)
    limits = draw(st.sampled_from([("deployments",), ("switches",), ("deployments", "switches")]))
    plans = isinstance(estimator, ls.parts.Planning | ls.parts.Posterior)
    last = (
        draw(st.sampled_from(["usual", "greedy"])) if plans and "deployments" in limits else "usual"
    )
    budget = ls.parts.Budget(
        schedule=plain, **{name: draw(st.integers(1, 12)) for name in limits}, last=last
    )
    scales = (
        (1.0,)
        if isinstance(bonus, ls.parts.NoBonus)
        else draw(st.sampled_from([(1.0,), (1.0, 0.3), (0.5, 0.1, 0.0)]))
    )
    return ls.Algorithm(estimator=estimator, bonus=bonus, schedule=budget, scales=scales)


@st.composite
def problems(draw):
    H, S, A, seed = (
        draw(st.integers(1, 4)),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 4)),
        draw(st.integers(0, 10**6)),
    )
    steps = draw(st.sampled_from([(), (H,)]))
    generator = np.random.default_rng(seed)
    allowed = generator.random((H, S, A)) < 0.8
    allowed[..., 0] = True
    law = draw(st.sampled_from(["bernoulli", "deterministic"]))
    return ls.TabularMDP(
        *random_tables(S, A, seed, *steps), horizon=H, reward_law=law, actions_allowed=allowed
    )


def within(history, budget):
    assert budget.deployments is None or history.deployments <= budget.deployments
    assert budget.switches is None or history.local_switches <= budget.switches


@settings(max_examples=80, deadline=None)
@given(problems(), budgeted(), st.integers(1, 300), st.integers(0, 300))
def test_a_budget_is_never_exceeded(tmp_path_factory, mdp, algorithm, episodes, stop):
    """Simulated, told, and told with a stop in between, all with the same history."""
    budget = algorithm.schedule
    runs = ls.simulate(mdp, algorithm, episodes=episodes, seeds=[0, 7], history=True, threads=1)
    for i, history in enumerate(runs.history):
        within(history, budget)
        assert history.local_switches == runs.local_switches[i]
        assert history.deployments == runs.deployments[i]
    learner, parts = learner_for(mdp, algorithm, episodes), []
    for k in range(episodes):
        if k == stop:
            path = tmp_path_factory.mktemp("stop") / "learner.npz"
            learner.save(path)
            learner = ls.Learner.load(path)
        switch = learner.tell(*play_episode(mdp, learner.policy, 0, k))
        parts += [] if switch is None else [switch.changes]
    told = (
        np.concatenate(parts)
        if parts
        else np.zeros((0, runs.history[0].changes.shape[1]), dtype=np.int64)
    )
    assert told.tolist() == runs.history[0].changes.tolist()


def test_an_eager_schedule_spends_its_budget_and_then_keeps_its_policy():
    mdp = ls.TabularMDP(*random_tables(4, 3, 1), horizon=3)
    runs = ls.simulate(
        mdp, ls.ucb_hoeffding(c=0.1, deployments=5), episodes=2000, seeds=4, history=True
    )
    assert runs.deployments.tolist() == [5] * 4
    free = ls.simulate(mdp, ls.ucb_hoeffding(c=0.1), episodes=2000, seeds=4, history=True)
    for mine, other in zip(runs.history, free.history, strict=True):
        last = mine.episode[-1]
        assert (
            mine.changes.tolist() == other.changes[other.episode <= last].tolist()
        )  # up to there the budget changes nothing


def test_switches_are_spent_row_by_row():
    mdp = ls.TabularMDP(*random_tables(4, 3, 1), horizon=3)
    algorithm = ls.ucbvi(c=0.001, schedule=ls.parts.Grid((50, 500)), switches=3)
    runs = ls.simulate(mdp, algorithm, episodes=500, seeds=1, history=True)
    free = ls.simulate(
        mdp,
        ls.ucbvi(c=0.001, schedule=ls.parts.Grid((50, 500))),
        episodes=500,
        seeds=1,
        history=True,
    )
    assert free.local_switches[0] > 3
    assert runs.history[0].changes.tolist() == free.history[0].changes[:3].tolist()


def test_the_concurrent_runner_keeps_budgets_too():
    mdp = ls.TabularMDP(*random_tables(4, 3, 1), horizon=3)
    for algorithm in (
        ls.ucb_hoeffding(c=0.1, deployments=5),
        ls.q_hoeffding(c=0.05, schedule="whole/1.3", switches=20),
    ):
        alone = ls.simulate(mdp, algorithm, episodes=500, seeds=[0], history=True)
        for rule in ("trigger", "switch", "speculate"):
            run = ls.concurrent.run(mdp, algorithm, episodes=500, machines=8, rule=rule, seed=0)
            assert run.history[0].changes.tolist() == alone.history[0].changes.tolist()
            within(run.history[0], algorithm.schedule)


def test_the_bound_of_pooled_counts_by_hand():
    """With two steps a state and action is visited twice in one episode: a stage of two visits
    ends in it, though K is 1.
    """
    size = {"horizon": 2, "states": 1, "actions": 2, "episodes": 1}
    pooled = ls.ucbvi(c=0.001, schedule="stages", pooled=True)
    assert ls.ucbvi(c=0.001, schedule="stages").deployment_bound(**size) == 0
    assert pooled.deployment_bound(**size) == 1
    assert ls.rmax(known=10, pooled=True).deployment_bound(**size | {"episodes": 20}) > 0
    budget = ls.rmax(known=1, pooled=True, deployments=3)
    assert budget.deployment_bound(**size | {"episodes": 100}) == 3
