"""The default for a budget of deployments, its calendar, and what a run may begin with."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowswitch as ls
from conftest import PROBLEMS, learner_for, random_tables
from lowswitch.algorithms.calendars import explored_dates, last_date, late_dates, spaced
from lowswitch.algorithms.parts import Calendar, Late
from lowswitch.reproduce.pseudocode import play_episode
from lowswitch.table_learner import TableLearner

pytestmark = pytest.mark.filterwarnings("ignore::lowswitch.runs.simulate.NothingLearnedWarning")

# ---- what is played ------------------------------------------------------------------------------


def test_one_of_the_deployed_policies_is_drawn_for_each_episode_and_the_pages_say_so():
    mdp = ls.envs.riverswim(states=4, horizon=4)
    learner = learner_for(mdp, ls.few(deployments=3), 300)
    assert len(learner.mixture) == 64
    other = 0  # episodes after which nothing was deployed, and another policy plays the next one
    for k in range(200):
        before = learner.policy
        switch = learner.tell(*play_episode(mdp, before, 0, k))
        assert (learner.mixture == learner.policy).all(axis=(1, 2)).any()
        other += switch is None and (learner.policy != before).any()
    assert other > 0
    root = Path(__file__).parents[2]
    said = [(root / "README.md").read_text(), TableLearner.policy.__doc__]
    assert all("draws one of them for each episode" in " ".join(text.split()) for text in said)
    said += [path.read_text() for path in (root / "docs").glob("*.md")]
    assert not any("changes only where `tell`" in " ".join(text.split()) for text in said)


# ---- dates ---------------------------------------------------------------------------------------


def test_late_dates_written_out():
    assert late_dates(1, 1000) == [1000]
    assert late_dates(2, 1000) == [2, 1000]
    assert late_dates(3, 1000) == [2, 16, 1000]
    # 16 (1000 / 16)^(i / 3): the third roots of 256,000 and 16,000,000
    assert late_dates(5, 1000) == [2, 16, 63, 251, 1000]
    assert late_dates(4, 20) == [2, 4, 9, 20]  # 2 10^(i / 3)
    assert late_dates(3, 2) == [1, 1, 2]  # which `spaced` moves apart


@pytest.mark.parametrize(
    ("deployments", "size", "episodes", "last"),
    [
        (10, (5, 5, 3), 100_000, 10_000),  # K / 10
        (10, (10, 6, 2), 3000, 500),  # 200 x 12 / 10 = 240 visits are less than 500 episodes
        (10, (12, 10, 10), 10_000, 1666),  # 200 x 100 / 12
        (10, (20, 716, 25), 10_000, 2500),  # K / 4, before there are 200 visits
        (7, (12, 10, 10), 3000, 300),  # too few deployments to wait
        (8, (12, 10, 10), 3000, 750),
        (10, (6, 12, 4), 30, 7),
        (10, (6, 12, 4), 1, 1),
    ],
)
def test_the_last_date_waits_until_enough_is_known(deployments, size, episodes, last):
    horizon, states, actions = size
    facts = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
    assert last_date(deployments, **facts) == last


def test_dates_are_moved_apart():
    assert spaced([1, 1, 2], 1, 20) == (1, 2, 3)
    assert spaced([2, 16, 63, 251], 50, 1000) == (50, 100, 150, 251)
    assert spaced([2, 16, 63, 251], 100, 300) == (100, 200)
    assert Late(3, 100).grid(10_000) == (100, 200, 1000)
    size = {"horizon": 6, "states": 12, "actions": 4}
    assert Late(5).grid_for(**size, episodes=3000) == (2, 16, 42, 112, 300)
    assert Late(8).grid_for(**size, episodes=30) == (1, 2, 3, 4, 5, 6, 7, 8)


def test_dates_after_policies_that_explore_written_out():
    """Each date is at most three times the one before, and the first one from 16 on."""
    assert explored_dates(1, 250) == [250]
    assert explored_dates(2, 250) == [83, 250]
    assert explored_dates(3, 250) == [27, 82, 250]  # the root of 27 x 250 is 82.2
    assert explored_dates(5, 250) == [16, 31, 63, 125, 250]  # 16 (250 / 16)^(i / 4)
    assert explored_dates(2, 50) == [16, 50]
    assert explored_dates(3, 40) == [5, 14, 40]  # an eighth of 40, the root of 5 x 40
    size = {"horizon": 6, "states": 12, "actions": 4, "episodes": 3000}
    assert Late(1, explored=True).grid_for(**size) == (
        300,
    )  # 15 x 48 / 6 = 120 are less than K / 10
    assert Late(2, explored=True).grid_for(**size) == (250, 750)  # K / 4 before 200 x 48 / 6
    assert ls.few(deployments=2).schedule.schedule == Late(2, explored=True)
    before = ls.few(deployments=2, rule=1)
    assert before.schedule.schedule == ls.few(deployments=2, members=1).schedule.schedule == Late(2)
    assert str(before) == "few:first=lowest,rule=1,deployments=2"
    assert ls.Algorithm.from_text(str(before)) == before


def test_a_calendar_refuses_what_it_cannot_keep():
    assert Calendar((300, 600)).grid(1000) == (300, 600)
    with pytest.raises(ValueError, match="has 600, but the run ends after 600 episodes"):
        Calendar((300, 600)).grid(600)
    with pytest.raises(ValueError, match="has 600 only 200 episodes after 400, but gap is 300"):
        Calendar((400, 600, 1200), 300)
    with pytest.raises(ValueError, match="increas"):
        Calendar((600, 300))


@pytest.mark.parametrize(
    "text",
    [
        "few:deployments=10",
        "few:deployments=7,gap=20,members=1",
        "few:deployments=7,rows=5",
        "few:deployments=7,asked=True",
        "few:deployments_at=300-600,deployments=2",
        "few:deployments=3,rewards=mean,pooled=True,mass=2.0",
        "psrl:mass=1.0,members=8,schedule=calendar/300-600/1",
        "psrl:mass=learned,rewards=seen,pooled=tested,schedule=late/5/10,deployments=5,last=exploit",
    ],
)
def test_texts_come_back(text):
    algorithm = ls.Algorithm.from_text(text)
    again = ls.Algorithm.from_dict(algorithm.to_dict())
    assert again == algorithm == ls.Algorithm.from_text(str(algorithm))
    assert str(again).split(":")[0] == text.split(":")[0]


def test_dates_may_be_given_in_any_way():
    dates = ls.few(deployments_at=(300, 600))
    assert dates == ls.few(deployments_at="300-600") == ls.few(deployments_at=np.array([300, 600]))
    assert dates.schedule.deployments == 2
    assert ls.few(deployments_at=(300, 600), deployments=1).schedule.deployments == 1
    assert ls.few(deployments_at=300).schedule.schedule == Calendar((300,))


class Silent:
    """What cannot be shown."""

    def __repr__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ls.few(), "few needs a budget: give deployments=10, or the dates"),
        (
            lambda: ls.few(deployments_at=(300, 600), deployments=10),
            "deployments=10 is more than the 2 dates of deployments_at",
        ),
        (lambda: ls.few(deployments_at=(3, 6), asked=True), "there are no dates to give"),
        (lambda: ls.few(deployments=3, asked="yes"), "asked must be True or False"),
        (lambda: ls.few(asked=True), "few needs a budget"),
        (lambda: ls.few(deployments=0), "deployments must be a whole number from 1"),
        (lambda: ls.few(deployments_at="soon"), "deployments_at must be numbers of episodes"),
        (lambda: ls.few(deployments_at=Silent()), "numbers of episodes .*, not a Silent"),
        (
            lambda: ls.few(deployments=3, mass=-1),
            'mass must be a positive number, not -1.*"learned"',
        ),
        (lambda: ls.psrl(pooled="tested"), "pooled=tested and reward_weight need mass=M"),
        (
            lambda: ls.psrl(mass=1, rewards="known"),
            'rewards must be "seen", "bootstrap" or "mean"',
        ),
        (lambda: ls.q_hoeffding(deployments=3, last="exploit"), 'last="exploit" needs estimates'),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_board_that_asks_on_the_dates_has_the_learner_with_these_dates():
    """So what a plan forecasts for dates holds for a board that meets then, and each time proposes.

    A meeting that proposes nothing spends nothing, while a date that passes is gone; then they
    differ.
    """
    size = {"horizon": 2, "states": 3, "actions": 2, "episodes": 30}
    dated = ls.Learner(ls.few(deployments_at=(5, 12), members=3), **size)
    asked = ls.Learner(ls.few(deployments=2, members=3, asked=True), **size)
    generator = np.random.default_rng(0)
    for k in range(30):
        states, actions = generator.integers(0, 3, 2), generator.integers(0, 2, 2)
        for learner in (dated, asked):
            learner.tell(states, actions, actions * 1.0, off_policy=True)
        if k + 1 in (5, 12):
            asked.propose()
        assert np.array_equal(dated.mixture, asked.mixture), k
    assert dated.deployments == asked.deployments == 2
    with pytest.raises(ValueError, match="for few deployments_at="):
        ls.simulate(ls.envs.riverswim(), ls.few(deployments=2, asked=True), episodes=9, seeds=1)


def test_the_last_of_two_dates_says_that_it_exploits_if_the_first_was_spent_in_vain():
    """Asked before the first date, it spends one of two; the last one then keeps the policy."""
    learner = ls.Learner(
        ls.few(deployments_at=(3, 6)), horizon=2, states=3, actions=2, episodes=9, gate="review"
    )
    learner.reject(learner.propose())
    for k in range(7):
        learner.tell([k % 3, 0], [0, 0], [0.0, 1.0])
    assert learner.proposal() is None
    assert learner.why_nothing() == (
        "the next deployment is the last one, which plays the best known policy, and after 6"
        " episodes no policy was known to be better than the deployed one"
    )
    assert learner.propose() is None


# ---- what every run keeps to ---------------------------------------------------------------------


@st.composite
def settings_of_a_run(draw):
    episodes = draw(st.integers(1, 400))
    dates = sorted(draw(st.sets(st.integers(1, 399), min_size=1, max_size=6)))
    options = {"members": draw(st.integers(1, 4)), "gap": draw(st.integers(1, 60))}
    if draw(st.booleans()) and dates[-1] < episodes:
        gaps = np.diff([0, *dates]).min()
        options |= {"deployments_at": tuple(dates), "gap": int(min(gaps, options["gap"]))}
    else:
        options["deployments"] = draw(st.integers(1, 12))
    return episodes, options, draw(st.sampled_from(list(PROBLEMS))), draw(st.integers(0, 99))


@settings(max_examples=30, deadline=None)
@given(settings_of_a_run())
def test_dates_gap_budget_and_the_last_table(given_run):
    """Dates are kept exactly, the gap and the budget never broken; in the end there is one table,
    and no action in it that was never tried in a state where another one was.
    """
    episodes, options, problem, seed = given_run
    mdp, algorithm = PROBLEMS[problem](), ls.few(**options)
    runs = ls.simulate(mdp, algorithm, episodes=episodes, seeds=[seed], history=True)
    changed = np.unique(runs.history[0].episode) + 1
    dates = np.array(algorithm.schedule.grid_for(**mdp.size, episodes=episodes), dtype=int)
    assert set(changed) <= set(dates.tolist())
    assert (np.diff(dates, prepend=0) >= options["gap"]).all()
    assert runs.deployments[0] == len(changed) <= algorithm.schedule.deployments
    if not len(dates):
        return
    tables = runs.policy[0].reshape(-1, mdp.horizon, mdp.states)
    assert (tables == tables[0]).all()
    visits = visits_until(mdp, runs, dates[-1], seed)
    tried = np.broadcast_to(visits.sum(axis=0), visits.shape)  # where steps are held for alike
    chosen = np.take_along_axis(tried, tables[0][..., None], axis=-1)[..., 0]
    lowest = mdp.actions_allowed.argmax(axis=-1)
    assert (chosen[visits.any(axis=-1)] > 0).all() or (tables[0] == lowest).all()


def visits_until(mdp, runs, episode, seed):  # [H, S, A]
    """How often each action was played before a date, from the noise of the run itself."""
    visits = np.zeros(mdp.actions_allowed.shape, dtype=int)
    learner = ls.Learner(
        runs.algorithm,
        horizon=mdp.horizon,
        states=mdp.states,
        actions=mdp.actions,
        episodes=runs.episodes,
        actions_allowed=mdp.actions_allowed,
        seed=seed,
    )
    for k in range(episode):
        states, actions, rewards = play_episode(mdp, learner.policy, seed, k)
        visits[np.arange(mdp.horizon), states, actions] += 1
        learner.tell(states, actions, rewards)
    assert (learner.visits == visits).all()
    return visits


def test_few_learns_with_few_deployments():
    """RiverSwim, where a policy that does not explore loses all: the median of 15 seeds loses less
    than 5 % of K V* with ten deployments. About one seed in 16 never sees the reward and loses all.
    """
    mdp = ls.envs.riverswim(states=6, horizon=10)
    runs = ls.simulate(mdp, ls.few(deployments=10), episodes=3000, seeds=15)
    assert np.median(runs.regret) < 0.05 * 3000 * mdp.optimal_value()
    assert (runs.deployments <= 10).all()


# ---- what a run begins with ----------------------------------------------------------------------


def test_a_run_begins_with_the_policy_given(mdp):
    first = mdp.optimal_policy
    for algorithm in (ls.few(deployments=2, members=2), ls.q_hoeffding(c=1e-4)):
        runs = ls.simulate(mdp, algorithm, episodes=1, seeds=1, initial=first)
        assert runs.regret[0] == pytest.approx(0, abs=1e-9)
        assert (runs.initial == first).all()
        learner = ls.Learner(
            algorithm,
            horizon=mdp.horizon,
            states=mdp.states,
            actions=mdp.actions,
            episodes=9,
            actions_allowed=mdp.actions_allowed,
            initial=first,
        )
        assert (learner.mixture == first).all()


def test_a_chosen_first_policy_is_kept_where_nothing_clearly_beats_it():
    """Both actions pay 1/2: the first policy stays in most of 20 seeds. Another one looks better by
    two standard errors in about one of forty, and by halves of the data about as rarely.
    """
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.full((1, 2), 0.5), horizon=1, reward_law="bernoulli")
    kept = [
        ls.simulate(mdp, ls.few(deployments=3), episodes=200, seeds=[seed], initial=[[1]]).policy
        for seed in range(20)
    ]
    assert np.mean([(policy == 1).all() for policy in kept]) >= 0.8
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.array([[0.9, 0.1]]), horizon=1)
    runs = ls.simulate(mdp, ls.few(deployments=3), episodes=200, seeds=8, initial=[[1]])
    assert (runs.policy == 0).all()


@pytest.mark.parametrize(
    ("first", "pays", "last"), [(None, 0.3, 1), ([[2]], 0.3, 2), ([[2]], 0.8, 1)]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_chosen_first_policy_counts_as_tried(first, pays, last, seed):
    """Actions 0 and 1 were tried and pay nothing and `pays`, 2 was not. It stays only if it was
    chosen as the first one, and another is not much better than the mean.
    """
    learner = ls.Learner(
        ls.few(deployments=1), horizon=1, states=1, actions=3, episodes=50, initial=first, seed=seed
    )
    learner.warm_start(
        [[0]] * 40, [[k % 2] for k in range(40)], [[k % 2 * pays] for k in range(40)]
    )
    while learner.deployments == 0 and learner.told < 50:
        learner.tell([0], [0], [0.0], off_policy=True)
    assert (learner.mixture == last).all()


def test_earlier_data_do_not_spend_the_budget():
    mdp = ls.TabularMDP(*random_tables(4, 3, 1), horizon=3)
    generator, policies = np.random.default_rng(0), (300, 3, 4)
    played = [play_episode(mdp, p, 0, k) for k, p in enumerate(generator.integers(0, 3, policies))]
    data = tuple(np.stack(part) for part in zip(*played, strict=True))
    learner = learner_for(mdp, ls.few(deployments=1), 100)
    learner.warm_start(*data)
    assert (learner.told, learner.deployments, learner.visits.sum()) == (0, 0, 900)
    warm = ls.simulate(mdp, ls.few(deployments=1), episodes=100, seeds=4, warm_start=data)
    cold = ls.simulate(mdp, ls.few(deployments=1), episodes=100, seeds=4)
    assert warm.regret.max() < cold.regret.min()
    learner.tell(*play_episode(mdp, learner.policy, 0, 0))
    with pytest.raises(ValueError, match="has been told 1 episodes already"):
        learner.warm_start(*data)
    with pytest.raises(
        ValueError, match="only learners that plan from counts can use earlier data"
    ):
        learner_for(mdp, ls.ucb_hoeffding(), 9).warm_start(*data)


def test_earlier_data_move_the_next_growth_of_counts_on():
    learner = ls.Learner(ls.ucrl2(c=0.01), horizon=1, states=1, actions=2, episodes=99)
    learner.warm_start([[0]] * 8, [[0]] * 8, [[0.5]] * 8)
    for k in range(8):
        before = learner._knowledge.triggers()
        learner.tell([0], learner.policy[0], [0.5])
        assert (learner._knowledge.triggers() > before) == (k == 7 or learner.visits[0, 0, 1] == 1)
        if learner.visits[0, 0, 1]:
            break


def test_confidence_in_a_policy():
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.array([[0.2, 0.8]]), horizon=1)
    learner = learner_for(mdp, ls.few(deployments=3, members=16), 100)
    for k in range(60):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
    found = learner.confidence()  # against the first mixture, half of which plays each arm
    assert found.better == 1
    assert (found.value, found.other) == pytest.approx((0.8, 0.5))
    assert learner.confidence(than=[[0]]).other == pytest.approx(0.2)
    assert learner.confidence([[0]], [[0]]).better == 0.5
    with pytest.raises(ValueError, match="have a posterior"):
        learner_for(mdp, ls.ucb_hoeffding(), 9).confidence([[0]], [[0]])


def test_a_saved_learner_goes_on(tmp_path):
    mdp = PROBLEMS["dense"]()
    learner, path = learner_for(mdp, ls.few(deployments=4, members=3), 100), tmp_path / "learner"
    generator = np.random.default_rng(0)
    earlier = [play_episode(mdp, p, 1, 0) for p in generator.integers(0, 3, (20, 3, 4))]
    learner.warm_start(*(np.stack(part) for part in zip(*earlier, strict=True)))
    for k in range(10):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
    learner.save(path)
    again = ls.Learner.load(path)
    for k in range(10, 100):
        played = play_episode(mdp, learner.policy, 0, k)
        learner.tell(*played)
        again.tell(*played)
    assert again.deployed.identity == learner.deployed.identity


# ---- what was mended -----------------------------------------------------------------------------


def test_members_that_trade_places_are_no_deployment():
    @dataclasses.dataclass(frozen=True)
    class Trade(ls.parts.FromCounts):
        members: int = 2

        def plan(self, counts):
            other = np.zeros((2, 1, 1), dtype=int)
            other[counts.episodes % 2] = 1
            return other

    algorithm = ls.Algorithm(
        estimator=Trade(), bonus=ls.parts.NoBonus(), schedule=ls.parts.EveryEpisodes(1)
    )
    learner = ls.Learner(algorithm, horizon=1, states=1, actions=2, episodes=9)
    for k in range(6):
        switch = learner.tell([0], learner.policy[0], [0.5])
        assert (switch is not None) == (k == 0)
    assert (learner.deployments, learner.local_switches) == (1, 1)


def test_switches_told_are_changes_of_the_law():
    """One told batch, whose first change of a row trades places of members and changes no law."""
    before = np.array([[[0]], [[1]]])
    changes = np.array([[3, 0, 0, 1, 0], [4, 0, 0, 1, 1]])
    assert ls.History(changes, before).local_switches == 1
    assert ls.History(changes).local_switches == 2
    mdp = PROBLEMS["dense"]()
    learner, total = learner_for(mdp, ls.psrl(members=3, schedule="growth/2"), 200), 0
    for k in range(200):
        switch = learner.tell(*play_episode(mdp, learner.policy, 0, k))
        total += switch.local_switches if switch else 0
    assert total == learner.local_switches


def test_ucrl2_keeps_the_deployed_action_among_equals():
    """At the provable scale all mass goes to the best state, so that estimates are equal to the
    bit, and the budget is not spent on roundings.
    """
    mdp = PROBLEMS["dense"]()
    learner = learner_for(mdp, ls.ucrl2(c=1.0), 300)
    for k in range(300):
        switch, q = learner.tell(*play_episode(mdp, learner.policy, 0, k)), learner.q
        for _, h, x, _a in switch.changes if switch else ():
            best, second = np.sort(q[h, x])[-1:-3:-1]
            assert not 0 < best - second < 1e-12


# ---- for reviewers -------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 4])
def test_a_deployment_differs_in_few_rows_where_that_is_asked_for(most):
    mdp = ls.envs.random_mdp(states=6, actions=3, horizon=4)
    algorithm = ls.few(deployments=6, rows=most)
    runs = ls.simulate(mdp, algorithm, episodes=400, seeds=3, history=True, progress=False)
    free = ls.simulate(
        mdp, ls.few(deployments=6), episodes=400, seeds=3, history=True, progress=False
    )
    for limited, usual in zip(runs.history, free.history, strict=True):
        *early, _ = rows_changed(limited)
        assert max(early) == most
        assert max(rows_changed(usual)[:-1]) > 4
    assert all((mixture == mixture[0]).all() for mixture in runs.policy)  # one table in the end


def rows_changed(history):
    """In how many rows each deployment differs from the one before."""
    rows = np.stack([history.episode, history.step, history.state], axis=1)
    distinct = np.unique(rows, axis=0)
    return np.unique(distinct[:, 0], return_counts=True)[1].tolist()


def test_those_rows_change_that_most_members_want_and_most_episodes_visit():
    learner = ls.Learner(
        ls.few(deployments=2, members=2, rows=1), horizon=2, states=2, actions=2, episodes=40
    )
    knowledge = learner._knowledge
    knowledge.tables.policy[:] = 0
    knowledge.tables.wanted.reshape(2, 4)[:] = [[1, 1, 0, 0], [0, 1, 0, 1]]
    knowledge.tables.visits.reshape(4, 2)[:] = [[4, 0], [1, 1], [5, 5], [0, 9]]
    knowledge._settle_law(knowledge.estimator, 20)  # 1 x 5, 2 x 3, 0, 1 x 10
    assert knowledge.tables.wanted.reshape(2, 4).tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]
