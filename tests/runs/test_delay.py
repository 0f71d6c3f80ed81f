"""Outcomes that arrive late: what is learned when, and what that costs."""

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS, learner_for
from lowswitch.history import exact_regret
from lowswitch.kernels.streams import MEMBERS, drawn_member, learner_stream
from lowswitch.reproduce.pseudocode import play_episode

EPISODES = 400
BY_VISITS = [  # a learner of each kind, and a delay
    ("ucb2-b", 1),
    ("ucb2-b", 30),
    ("staged-randql", 30),
    ("fedq-h", 30),
    ("mvp", 1),
    ("mixture-budget", 30),
    ("mixed-stages", 7),
]


@pytest.mark.parametrize(("name", "delay"), BY_VISITS)
def test_late_outcomes_are_learned_as_if_they_were_told_late(name, delay):
    """The same row changes as with ask and tell, where somebody tells each episode D later, by
    whatever policy is deployed then.
    """
    mdp, algorithm = PROBLEMS["per-step"](), ALGORITHMS[name]
    learner, told, changes = learner_for(mdp, algorithm, EPISODES), [], []
    key, members = np.uint64(learner_stream(0, MEMBERS)), algorithm.members
    for k in range(EPISODES):
        policy = learner.mixture[drawn_member(key, members, k)]
        told.append(play_episode(mdp, policy, 0, k))
        if k >= delay:
            said = learner.tell(*told[k - delay], off_policy=True)
            if said is not None:
                later = said.changes.copy()
                later[:, 0] += delay
                changes += later.tolist()
    runs = ls.simulate(
        mdp, algorithm, episodes=EPISODES, seeds=[0], delay=delay, history=True, progress=False
    )
    assert runs.history[0].changes.tolist() == changes
    assert len(changes) > 2
    expected = exact_regret(mdp, runs.history[0], episodes=EPISODES, initial=runs.initial)
    assert runs.regret[0] == pytest.approx(expected)


def test_outcomes_that_never_arrive_teach_nothing():
    mdp = PROBLEMS["dense"]()
    for delay, changes in ((EPISODES - 1, True), (EPISODES, False)):  # one arrives, none does
        runs = ls.simulate(
            mdp,
            ls.ucb2_hoeffding(c=1e-9, r_star=1),
            episodes=EPISODES,
            seeds=20,
            delay=delay,
            progress=False,
        )
        assert (runs.local_switches.max() > 0) == changes
        assert runs.delay == delay


@pytest.mark.filterwarnings("ignore::lowswitch.runs.simulate.NothingLearnedWarning")
def test_dates_count_episodes_that_were_played():
    """A board that meets after 100, 200 and 300 episodes knows 90 fewer outcomes each time."""
    mdp = PROBLEMS["dense"]()
    algorithm = ls.psrl(schedule="grid/equal/4")
    runs = ls.simulate(
        mdp, algorithm, episodes=EPISODES, seeds=2, delay=90, history=True, progress=False
    )
    for history in runs.history:
        assert set(history.episode) <= {99, 199, 299}
        assert len(history)


def test_the_delay_is_saved(tmp_path):
    runs = ls.simulate(
        PROBLEMS["dense"](), ls.mvp(c=1e-4), episodes=200, seeds=1, delay=3, progress=False
    )
    runs.save(tmp_path / "late.npz")
    assert ls.load(tmp_path / "late.npz").delay == 3


def test_where_there_are_no_delays_they_are_refused():
    mdp, algorithm = PROBLEMS["dense"](), ls.ucb2_hoeffding()
    for options, message in (
        ({"delay": -1}, "delay must be a whole number from 0"),
        ({"delay": 2.5}, "delay must be a whole number"),
        ({"delay": 2, "device": "gpu"}, "a GPU plays without delays"),
    ):
        with pytest.raises(ValueError, match=message):
            ls.simulate(mdp, algorithm, episodes=9, seeds=1, progress=False, **options)
    walk = ls.envs.Simulator(lambda h, x, a, rng: (x, 0.0), horizon=2, states=2, actions=2)
    with pytest.raises(ValueError, match="no delay"):
        ls.simulate(walk, algorithm, episodes=9, seeds=1, delay=1, progress=False)
    arms = ls.features.problems.fixed_arms(arms=3, features=2)
    with pytest.raises(ValueError, match="stop or delay"):
        ls.simulate(arms, ls.linear(), episodes=9, seeds=1, delay=1, progress=False)
