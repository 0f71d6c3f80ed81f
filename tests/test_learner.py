"""Ask and tell: the same history as the simulator, nothing lost on bad input, resumed bit for
bit.
"""

import math
import tracemalloc
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
import lowswitch.table_learner as learner_module
from conftest import FEATURE_PAIRS, PAIRS, learner_for, setting
from lowswitch import checks
from lowswitch.feature_learner import FeatureLearner
from lowswitch.features import FeatureProblem
from lowswitch.reproduce.pseudocode import PlainLearner, play_episode

EPISODES, HALF = 200, 90


def state_of(learner):
    if isinstance(learner, FeatureLearner):
        return [learner.told, learner.digest()]
    tables = learner._knowledge.tables._asdict()
    if "pool" in tables:
        used = tables["clock"][0]["pool"]
        tables["pool"] = tables["pool"][:used]  # the room beyond may differ
    deployed = [learner.policy.tolist(), learner.mixture.tolist()]
    return [learner.told, *deployed, *(array.tobytes() for array in tables.values())]


def changes_of(told):
    """What a learner deployed when it was told something: its row changes, or its policies."""
    if isinstance(told, tuple):
        return [(made.episode, made.policy.identity) for made in told]
    return [] if told is None else told.changes.tolist()


def played(problem, learner, k):
    """States or features, actions and rewards of an episode that the deployed policy plays."""
    if isinstance(problem, ls.TabularMDP):
        return play_episode(problem, learner.policy, 0, k)
    x, actions, rewards, _ = (part[0] for part in problem.play(learner.policy, 0, k, k + 1))
    x = x[:, 0] if problem.shape.shared else x
    assert [learner.act(x[h], h).action for h in range(len(x))] == actions.tolist()
    return x, actions, rewards


# ---- one conversation, about which every question is asked ---------------------------------------


@dataclass
class Conversation:
    """Episodes played and told one by one; after 90 of them the learner was saved."""

    problem: ls.TabularMDP | FeatureProblem
    algorithm: ls.Algorithm
    learner: ls.Learner
    saved: Path
    episodes: list = field(default_factory=list)  # (states, actions, rewards) of each
    changes: list = field(default_factory=list)
    spent: list = field(default_factory=list)  # (deployments, local switches, frozen) after each
    half: list = field(default_factory=list)  # what was saved

    def tell(self, learner, first, last):
        """Tell another learner a batch of these episodes; return what it changes."""
        told = self.episodes[first:last]
        return changes_of(learner.tell(*(np.array(arrays) for arrays in zip(*told, strict=True))))

    def costs(self, ends):
        """Deployments and local switches of the first changes up to each end."""
        if isinstance(self.learner, FeatureLearner):
            return {end: (end, end) for end in ends}
        changes = np.array(self.changes).reshape(-1, 3 + len(self.learner.mixture))
        began = learner_for(self.problem, self.algorithm, EPISODES).mixture
        histories = {end: ls.History(changes[:end], before=began) for end in ends}
        return {end: (one.deployments, one.local_switches) for end, one in histories.items()}


@pytest.fixture(scope="module", params=PAIRS + FEATURE_PAIRS, ids="-".join)
def talk(request, tmp_path_factory):
    problem, algorithm = setting(request.param)
    saved = tmp_path_factory.mktemp("half") / "npz"
    learner = learner_for(problem, algorithm, EPISODES)
    talk = Conversation(problem, algorithm, learner, saved)
    for k in range(EPISODES):
        if k == HALF:
            learner.save(saved)
            talk.half = state_of(learner)
        talk.episodes.append(played(problem, learner, k))
        talk.changes += changes_of(learner.tell(*talk.episodes[-1]))
        switches = getattr(learner, "local_switches", learner.deployments)
        talk.spent.append((learner.deployments, switches, learner.budget_spent))
    return talk


def test_ask_and_tell_is_the_simulator(talk):
    tables = isinstance(talk.problem, ls.TabularMDP)
    options = {"history": True} if tables else {}
    runs = ls.simulate(talk.problem, talk.algorithm, episodes=EPISODES, seeds=[0], **options)
    reached = [talk.spent[k - 1][0] for k in runs.curves.episodes]
    assert runs.curves.deployments[0].tolist() == reached
    if tables:
        assert talk.changes == runs.history[0].changes.tolist()
        assert (talk.learner.mixture == runs.policy[0]).all()
        assert talk.learner.loud_share == runs.loud_share[0]
        assert talk.learner.visits.sum() == EPISODES * talk.problem.horizon
    else:
        paid = math.fsum(float(rewards.sum()) for _, _, rewards in talk.episodes)
        assert runs.earned[0] == pytest.approx(paid, rel=1e-12)


def test_a_learner_says_what_is_spent_of_its_budget(talk):
    schedule = talk.learner.algorithm.schedule
    budget = schedule if isinstance(schedule, ls.parts.Budget) else None
    episodes = np.array([change[0] for change in talk.changes])
    ends = np.searchsorted(episodes, np.arange(EPISODES), side="right")
    costs = talk.costs(set(ends.tolist()))
    for end, (deployments, switches, frozen) in zip(ends.tolist(), talk.spent, strict=True):
        assert (deployments, switches) == costs[end]
        assert frozen == (
            budget is not None
            and (budget.deployments == deployments or budget.switches == switches)
        )
    assert f"{deployments} deployments)" in repr(talk.learner)


def test_one_by_one_is_in_batches(talk):
    batched, changes = learner_for(talk.problem, talk.algorithm, EPISODES), []
    for first, last in pairwise((0, 1, 2, 9, 100, 101, 170, EPISODES)):
        changes += talk.tell(batched, first, last)
    assert changes == talk.changes
    assert state_of(batched) == state_of(talk.learner)


def test_a_batch_is_learned_in_pieces(talk, monkeypatch):
    monkeypatch.setattr(learner_module, "_LOG_BYTES", 20_000)  # an episode or some of them
    pieces = learner_for(talk.problem, talk.algorithm, EPISODES)
    assert talk.tell(pieces, 0, EPISODES) == talk.changes
    assert state_of(pieces) == state_of(talk.learner)


def test_stop_save_load_go_on(talk):
    resumed = ls.Learner.load(talk.saved)
    assert resumed.algorithm == talk.learner.algorithm
    assert state_of(resumed) == talk.half
    changes = talk.tell(resumed, HALF, EPISODES)
    assert changes == [change for change in talk.changes if change[0] >= HALF]
    assert state_of(resumed) == state_of(talk.learner)


# ---- one learner ---------------------------------------------------------------------------------


def small(recipe=ls.ucb2_hoeffding, c=0.1, episodes=10, **options):
    return ls.Learner(recipe(c=c), horizon=2, states=3, actions=2, episodes=episodes, **options)


def test_the_policy_is_read_only_and_a_snapshot():
    learner = small()
    before = learner.policy
    with pytest.raises(ValueError, match="read-only"):
        before[0, 0] = 1
    switch = learner.tell([0, 0], [0, 0], [0.0, 0.0])
    assert switch.changes.tolist() == [
        [0, 1, 0, 1]
    ]  # bonus 0.75: at step 0 the estimate is 2.75, at step 1 it falls below 2
    assert (switch.local_switches, switch.deployments) == (1, 1)
    assert before.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert learner.policy.tolist() == [[0, 0, 0], [1, 0, 0]]


def test_the_state_after_the_last_step_may_be_told_and_does_not_matter():
    one, two = small(), small()
    one.tell([0, 1], [0, 0], [0.5, 0.5])
    two.tell([0, 1, 2], [0, 0], [0.5, 0.5])
    assert state_of(one) == state_of(two)


def test_no_change_is_none_and_an_empty_batch_too():
    learner = small()
    assert learner.tell(np.zeros((0, 2), int), np.zeros((0, 2), int), np.zeros((0, 2))) is None
    assert small(episodes=10**9).tell([0, 0], [0, 0], [1.0, 1.0]) is None


def test_off_policy_actions_are_learned_when_meant():
    learner = small()
    learner.tell([0, 1], [1, 1], [1.0, 0.0], off_policy=True)
    assert learner.visits[0, 0].tolist() == [0, 1]
    plain = ls.Learner(ls.ucb_hoeffding(c=0.1), horizon=1, states=1, actions=3, episodes=100)
    for a, reward in ((0, 0.0), (1, 1.0), (2, 0.4), (1, 0.9), (0, 0.1), (2, 0.5)):
        plain.tell([0], [a], [reward], off_policy=True)
        assert (
            plain.policy[0, 0] == plain.q[0, 0].argmax()
        )  # every visit is a trigger: greedy throughout
        assert plain.values[0, 0] == min(1.0, plain.q[0, 0].max())


@pytest.mark.parametrize("recipe", [ls.ucb2_hoeffding, ls.ucb2_bernstein])
def test_off_policy_is_the_papers_pseudo_code(recipe, mdp):
    """Half the episodes play at random; triggers are few, so most visits must leave the policy
    alone whoever's action they took.
    """
    algorithm, generator = recipe(c=0.05, eta=0.3, r_star=1), np.random.default_rng(0)
    learner, paper = learner_for(mdp, algorithm, EPISODES), PlainLearner(algorithm, mdp, EPISODES)
    for k in range(EPISODES):
        wild = np.where(
            mdp.actions_allowed, generator.random(mdp.actions_allowed.shape), -1.0
        ).argmax(axis=-1)
        states, actions, rewards = play_episode(
            mdp, wild if generator.random() < 0.5 else learner.policy, 0, k
        )
        learner.tell(states, actions, rewards, off_policy=True)
        for h in range(mdp.horizon):
            paper.digest(
                h, states[h], actions[h], rewards[h], states[h + 1] if h + 1 < mdp.horizon else 0
            )
        assert (learner.q == paper.running).all()
        assert (learner.values == paper.V).all()
        assert (learner.visits == paper.N).all()
        assert (learner.policy == paper.policy).all()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            ([0], [0], [0.0]),
            (
                r"an episode is 2 states, actions and rewards .* not arrays of shapes \(1,\),"
                r" \(1,\) and \(1,\)"
            ),
        ),
        (([0, 0, 0, 0], [0, 0], [0.0, 0.0]), r"shapes \(4,\)"),
        (([0, 0], [0, 0], [0.0]), r"shapes \(2,\), \(2,\) and \(1,\)"),
        (([0, 3], [0, 0], [0.0, 0.0]), "states must be 0 to 2, not 0 to 3"),
        (([-1, 0], [0, 0], [0.0, 0.0]), "states must be 0 to 2, not -1 to 0"),
        (([0, 0], [0, 2], [0.0, 0.0]), "actions must be 0 to 1, not 0 to 2"),
        (([0.5, 0.0], [0, 0], [0.0, 0.0]), "states must be integers, not float64"),
        (([0, 0], [0, 0], [0.0, 1.5]), r"rewards must lie in \[0, 1\], not \[0, 1.5\]"),
        (([0, 0], [0, 0], [0.0, np.nan]), r"rewards must lie in \[0, 1\]"),
        (
            ([0, 0], [0, 1], [0.0, 0.0]),
            "plays action 1 at step 1 in state 0 where the policy plays 0.*off_policy=True",
        ),
        (
            ([[0, 0]] * 11, [[0, 0]] * 11, [[0.0, 0.0]] * 11),
            "made for 10 episodes and has been told 0",
        ),
    ],
)
def test_a_failed_tell_changes_nothing(told, message):
    learner = small()
    before = state_of(learner)
    with pytest.raises(ValueError, match=message):
        learner.tell(*told)
    assert state_of(learner) == before


@pytest.mark.parametrize("log_bytes", [1, 2**25])
def test_a_batch_that_goes_off_policy_in_the_middle_changes_nothing(log_bytes, monkeypatch):
    monkeypatch.setattr(learner_module, "_LOG_BYTES", log_bytes)
    learner = small()
    before = state_of(learner)
    with pytest.raises(
        ValueError,
        match="episode 2 of the batch .* the policy changed after episode 0 of this batch",
    ):
        learner.tell([[0, 0], [1, 1], [0, 0]], [[0, 0]] * 3, [[0.0, 0.0]] * 3)
    assert state_of(learner) == before


def test_a_batch_on_many_rows_takes_no_more_memory_than_an_episode():
    """200 episodes of 14,320 rows and 64 policies: a log for all of them at once has 1.4 GiB."""
    H, S, A, B = 20, 716, 25, 200
    algorithm, generator = ls.few(deployments=5, asked=True), np.random.default_rng(0)
    learner = ls.Learner(algorithm, horizon=H, states=S, actions=A, episodes=10**4)
    batch = *(generator.integers(0, size, (B, H)) for size in (S, A)), generator.random((B, H))
    learner.tell(*(part[0] for part in batch), off_policy=True)  # compiles
    tracemalloc.start()
    learner.tell(*batch, off_policy=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**28  # the tables, a copy of them for a failure, and a piece of the log


def test_moments_and_the_count_of_loud_bonuses_are_taken_back_too():
    learner, other = (small(ls.ucb2_bernstein, c=10) for _ in range(2))
    other.tell([[0, 0]] * 2, [[0, 0]] * 2, [[0.0, 0.0]] * 2)
    assert other.loud_share > 0
    assert other._knowledge.tables.moments["total"].any()
    before = state_of(learner)
    with pytest.raises(ValueError, match="episode 2 of the batch plays action 1 at step 0"):
        learner.tell([[0, 0]] * 3, [[0, 0], [0, 0], [1, 0]], [[0.0, 0.0]] * 3)
    assert state_of(learner) == before


def test_an_interrupted_tell_changes_nothing(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    learner = small()
    before = state_of(learner)
    monkeypatch.setattr(learner._knowledge, "policy", interrupt)  # after the tables have changed
    with pytest.raises(KeyboardInterrupt):
        learner.tell([0, 0], [0, 0], [0.0, 0.0])
    assert state_of(learner) == before


def test_forbidden_actions_cannot_be_told(tmp_path):
    fresh = small(actions_allowed=np.array([[True, False], [True, True], [True, True]]))
    fresh.save(tmp_path / "fresh.npz")
    for learner in (fresh, ls.Learner.load(tmp_path / "fresh.npz")):
        with pytest.raises(ValueError, match="action 1 is not allowed at step 1 in state 0"):
            learner.tell([1, 0], [0, 1], [0.0, 0.0], off_policy=True)


@pytest.mark.parametrize("name", ["horizon", "states", "actions", "episodes"])
def test_sizes_below_one_are_refused(name):
    sizes = {"horizon": 2, "states": 3, "actions": 2, "episodes": 10} | {name: 0}
    with pytest.raises(ValueError, match=f"{name} must be a whole number from 1"):
        ls.Learner(ls.ucb_hoeffding(), **sizes)


def test_a_size_that_does_not_fit_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(checks, "free_memory", lambda: 2**30)
    size = {"horizon": 1, "states": 1, "actions": 10**8}
    tracemalloc.start()
    with pytest.raises(
        ValueError, match=r"A = 100,000,000 need 1.5 GiB, and this .* 1.0 free; use a smaller"
    ):
        ls.Learner(ls.ucb_hoeffding(), episodes=10, **size)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
    with pytest.raises(ValueError, match="H = 1,000,000,000, S = 4, A = 2 need 208.6 GiB"):
        ls.Learner(ls.ucb_hoeffding(), horizon=10**9, states=4, actions=2, episodes=10)


def test_loud_share():
    learner = ls.Learner(ls.ucb_hoeffding(c=10), horizon=1, states=1, actions=1, episodes=10)
    assert learner.loud_share == 0
    learner.tell([0], [0], [0.0])
    assert learner.loud_share == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give states=S for tables, or features=d"),
        ({"states": 3, "features": 2}, "give states=S for tables, or features=d"),
        (
            {"states": 3, "actions": 2},
            "missing a required (keyword-only )?argument: 'horizon'; .* give horizon",
        ),
        ({"states": 3, "shared": True}, "TableLearner: .*like actions_allowed, seed, initial"),
        ({"features": 3, "actions": 2}, "FeatureLearner: missing .* 'episodes'; .* give features"),
        ({"features": 3, "numbers": {}}, "FeatureLearner: .*if you like horizon, shared, seed"),
    ],
)
def test_a_learner_says_what_it_is_made_of(options, message):
    with pytest.raises(ValueError, match=message):
        ls.Learner(ls.few(deployments=2), **options)


def test_the_former_name_of_a_spent_budget_says_the_new_one():
    learner = ls.Learner(ls.few(deployments=2), horizon=1, states=1, actions=2, episodes=3)
    with pytest.warns(DeprecationWarning, match="was renamed to budget_spent"):
        assert learner.frozen is learner.budget_spent is False
