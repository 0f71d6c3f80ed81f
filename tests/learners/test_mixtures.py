"""Mixtures of members that differ in the scale of their bonus, and the last deployment of a
budget.
"""

import dataclasses

import numpy as np
import pytest

import lowswitch as ls
from conftest import PROBLEMS, learner_for, random_tables
from exam import in_turn
from lowswitch.reproduce.pseudocode import play_episode

SCALES = (1.0, 0.5, 0.125)  # powers of two, by which every rounding is the same
RECIPES = {
    "ucb-h": ls.ucb_hoeffding(c=0.125),
    "ucb2-b": ls.ucb2_bernstein(c=0.125),
    "doubling-q": ls.q_hoeffding(c=0.125),
    "whole-q": ls.q_bernstein(c=0.125, schedule="whole/1.5"),
    "grid-q": ls.q_hoeffding(c=0.125, schedule="grid/geometric/9"),
    "stage-q": ls.stage_q(c=0.125),
    "ucb-advantage": ls.ucb_advantage(
        c=2**-10, reference=9
    ),  # so small that the second estimate is often the smaller one
    "ucbvi": ls.ucbvi(c=0.0625, schedule="growth/1.5"),
    "ucbvi-bf": ls.ucbvi_bernstein(c=0.0625),
    "mvp": ls.mvp(c=0.0078125),
    "ucrl2": ls.ucrl2(c=0.125),
    "rmax": ls.rmax(known=8),
}


def scaled(algorithm, scale):
    """The same algorithm with a bonus so many times as large."""
    fields = {
        field.name: getattr(algorithm.bonus, field.name) * scale
        for field in dataclasses.fields(algorithm.bonus)
    }
    return dataclasses.replace(algorithm, bonus=type(algorithm.bonus)(**fields))


@pytest.mark.parametrize(
    ("recipe", "problem"), in_turn(RECIPES, PROBLEMS) + in_turn(RECIPES, [*PROBLEMS][3:])
)
def test_a_member_is_the_learner_of_its_scale(recipe, problem):
    """Told the same episodes, each member has the policies of an unmixed learner, and the first its
    estimates, to the bit.
    """
    mdp, algorithm, episodes = PROBLEMS[problem](), RECIPES[recipe], 250
    mixture, reverse = (
        learner_for(mdp, dataclasses.replace(algorithm, scales=scales), episodes)
        for scales in (SCALES, SCALES[::-1])
    )
    alone = [learner_for(mdp, scaled(algorithm, scale), episodes) for scale in SCALES]
    for k in range(episodes):
        played = play_episode(mdp, mixture.policy_for(k), 0, k)
        mixture.tell(*played)
        for learner in (*alone, reverse):
            learner.tell(*played, off_policy=True)
        deployed = mixture.mixture.tolist()
        if mixture.algorithm.schedule.by_row and not mixture.algorithm.replans:
            assert deployed == [learner.policy.tolist() for learner in alone]
        else:  # members that only traded places stay as they are
            assert sorted(deployed) == sorted(learner.policy.tolist() for learner in alone)
    for several, first in ((mixture, alone[0]), (reverse, alone[-1])):
        assert several.q.tobytes() == first.q.tobytes()
        assert several.values.tobytes() == first.values.tobytes()
        assert (several.visits == first.visits).all()
        assert several.loud_share == first.loud_share


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "rmax"])
def test_a_bonus_is_loud_if_that_of_the_first_member_is(recipe):
    mdp = PROBLEMS["dense"]()
    quiet, loud = (
        learner_for(mdp, dataclasses.replace(scaled(RECIPES[recipe], 512), scales=scales), 50)
        for scales in ((0, 1), (1, 0))
    )
    for k in range(50):
        played = play_episode(mdp, quiet.policy_for(k), 0, k)
        quiet.tell(*played)
        loud.tell(*played, off_policy=True)
    assert quiet.loud_share == 0 < loud.loud_share


def test_members_of_different_scales_differ():
    """Otherwise the test above says little."""
    mdp = PROBLEMS["dense"]()
    for algorithm in RECIPES.values():
        runs = ls.simulate(
            mdp,
            dataclasses.replace(algorithm, scales=(1.0, 0.001)),
            episodes=500,
            seeds=4,
            history=True,
        )
        assert any(
            (history.changes[:, 3] != history.changes[:, 4]).any() for history in runs.history
        ), algorithm


@pytest.mark.parametrize("recipe", ["stage-q", "ucb-advantage", "ucb2-b", "whole-q"])
def test_values_are_the_maxima_of_their_rows_whoever_played(recipe, mdp):
    """Episodes of random allowed actions, told off-policy; by rows the deployed action of a row
    that was due is one of the best.
    """
    learner, generator = learner_for(mdp, RECIPES[recipe], 200), np.random.default_rng(3)
    caps = RECIPES[recipe].estimator.caps(mdp.horizon)[:, None]
    for k in range(200):
        noise = generator.random(mdp.actions_allowed.shape)
        policy = np.where(mdp.actions_allowed, noise, -1).argmax(axis=-1)
        learner.tell(*play_episode(mdp, policy, 0, k), off_policy=True)
        assert (learner.values[:-1] == np.minimum(learner.q.max(axis=-1), caps)).all()


def test_a_switch_is_a_change_of_the_law_of_actions():
    mdp = ls.TabularMDP(*random_tables(4, 3, 1), horizon=3)
    runs = ls.simulate(
        mdp, ls.ucb_hoeffding(c=0.05, scales=(1, 0.5, 0)), episodes=500, seeds=[0], history=True
    )
    policy, switches = np.zeros((3, 3, 4), dtype=int), 0
    for _, h, x, *actions in runs.history[0].changes:
        switches += sorted(policy[:, h, x]) != sorted(actions)
        policy[:, h, x] = actions
    assert 0 < switches == runs.local_switches[0] < len(runs.history[0].changes)


def test_the_deployed_action_stays_among_equals():
    """Action 0 disappoints and action 1 is deployed; then it disappoints as much."""
    learner = ls.Learner(
        ls.q_hoeffding(c=0.125, scales=(1, 0.5), schedule="grid/1-2-9"),
        horizon=1,
        states=1,
        actions=2,
        episodes=9,
    )
    learner.tell([0], [0], [0.0])
    assert learner.mixture.tolist() == [[[1]], [[1]]]
    assert learner.tell([0], [1], [0.0]) is None
    assert learner.q[0, 0, 0] == learner.q[0, 0, 1]
    assert learner.mixture.tolist() == [[[1]], [[1]]]


def test_members_are_samples_of_their_own():
    learner = ls.Learner(ls.psrl(members=8), horizon=3, states=4, actions=3, episodes=9)
    learner.tell([0, 1, 2], [0, 0, 0], [0.0, 0.5, 1.0])
    assert len({policy.tobytes() for policy in learner.mixture}) == 8


# ---- the last deployment -------------------------------------------------------------------------


def model_of(history_of_episodes, H, S, A):
    """Counts, summed rewards and transitions of told episodes, by plain loops."""
    n, total, moves = np.zeros((H, S, A)), np.zeros((H, S, A)), np.zeros((H, S, A, S))
    for states, actions, rewards in history_of_episodes:
        for h in range(H):
            n[h, states[h], actions[h]] += 1
            total[h, states[h], actions[h]] += rewards[h]
            if h + 1 < H:
                moves[h, states[h], actions[h], states[h + 1]] += 1
    return n, total, moves


def best_values(rewards, laws):
    """Q-values of a model by plain backward induction; no law follows the last step."""
    q, value = np.zeros(rewards.shape), np.zeros(rewards.shape[1])
    for h in range(len(rewards) - 1, -1, -1):
        q[h] = rewards[h] + (laws[h] @ value if h + 1 < len(rewards) else 0)
        value = q[h].max(axis=-1)
    return q


def empirical(n, total, moves):
    """Means of what was seen; what was not is worth nothing."""
    return best_values(total / np.maximum(n, 1), moves / np.maximum(n, 1)[..., None])


def posterior_mean(n, total, moves):
    """Under Beta(1, 1) and Dirichlet(1/2, ..., 1/2)."""
    return best_values(
        (1 + total) / (2 + n), (moves + 0.5) / (n[..., None] + 0.5 * moves.shape[-1])
    )


def mean_with_known_rewards(n, total, moves):
    """The same laws, and the mean reward where there is one."""
    return best_values(
        np.where(n > 0, total / np.maximum(n, 1), 0.5),
        (moves + 0.5) / (n[..., None] + 0.5 * moves.shape[-1]),
    )


def pooled_mean(n, total, moves):
    """The posterior mean from the counts of all steps together; the last has no moves."""
    seen, paid, moved = (
        np.broadcast_to(part.sum(axis=0), part.shape) for part in (n, total, moves)
    )
    return best_values(
        (1 + paid) / (2 + seen),
        (moved + 0.5) / (moved.sum(axis=-1, keepdims=True) + 0.5 * moves.shape[-1]),
    )


def posterior_mean_told(n, total, moves):
    """The same where the mean reward seen is taken for the true one."""
    rewards = np.where(n > 0, total / np.maximum(n, 1), 0.5)
    return best_values(rewards, (moves + 0.5) / (n[..., None] + 0.5 * moves.shape[-1]))


@pytest.mark.parametrize(
    ("algorithm", "estimates"),
    [
        (ls.ucbvi(c=0.05, schedule="grid/equal/5", deployments=4, last="greedy"), empirical),
        (ls.ucbvi_bernstein(c=0.05, deployments=4, last="greedy", scales=(1, 0.3)), empirical),
        (ls.ucrl2(c=0.5, deployments=4, last="greedy"), empirical),
        (
            ls.psrl(prior=0.5, members=3, schedule="grid/equal/5", deployments=9, last="greedy"),
            posterior_mean,
        ),
        (
            ls.psrl(
                prior=0.5, rewards="mean", schedule="grid/equal/5", deployments=9, last="greedy"
            ),
            posterior_mean_told,
        ),
        (
            ls.psrl(
                prior=0.5, rewards="mean", schedule="grid/equal/40", deployments=1, last="greedy"
            ),
            mean_with_known_rewards,
        ),
        (
            ls.psrl(prior=0.5, pooled=True, schedule="grid/equal/40", deployments=1, last="greedy"),
            pooled_mean,
        ),
    ],
)
def test_a_greedy_last_deployment_by_plain_loops(algorithm, estimates):
    """No bonus and no sample: every member plays the best policy of the plain estimates, at the
    last of the budget or of the grid.
    """
    assert_greedy_at_last(
        ls.TabularMDP(*random_tables(4, 3, 1), horizon=3, reward_law="bernoulli"),
        algorithm,
        estimates,
    )


def assert_greedy_at_last(mdp, algorithm, estimates):
    """What is deployed in the end is best for the plain estimates of what was told up to the last
    plan, in every visited row.
    """
    learner, told, last = learner_for(mdp, algorithm, 400), [], None
    for k in range(400):
        told.append(play_episode(mdp, learner.policy_for(k), 0, k))
        plans = learner._knowledge.triggers()
        learner.tell(*told[-1])
        if learner._knowledge.triggers() > plans:
            last = len(told)
    on_a_grid = isinstance(algorithm.schedule.schedule, ls.Grid)
    assert (
        on_a_grid or learner.deployments >= algorithm.schedule.deployments - 1
    )  # else no plan was the last
    q = estimates(*model_of(told[:last], 3, 4, 3))
    visited = np.zeros((3, 4), dtype=bool)
    for states, _, _ in told[:last]:
        visited[np.arange(3), states] = True
    for policy in learner.mixture:
        chosen = np.take_along_axis(q, policy[..., None], axis=-1)[..., 0]
        assert chosen[visited] == pytest.approx(q.max(axis=-1)[visited])


@pytest.mark.parametrize(("options", "best"), [({}, 1), ({"deployments": 9, "last": "greedy"}, 0)])
def test_a_greedy_last_deployment_is_not_held_down_by_earlier_values(options, best):
    """Action 0 pays 0 ten times and then 1: values that never rise hold it below the 0.3 of 1."""
    algorithm = ls.ucbvi(c=1e-9, schedule=ls.parts.Grid((20, 120, 130)), **options)
    learner = ls.Learner(algorithm, horizon=1, states=1, actions=2, episodes=130)
    for k in range(120):
        action = k % 2 if k < 20 else 0
        learner.tell([0], [action], [0.3 if action else float(k >= 20)], off_policy=True)
    assert learner.policy.tolist() == [[best]]


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "grid/geometric/11", "deployments": 10},
        {"schedule": "grid/geometric/11", "deployments": 30},
        {"schedule": "growth/2", "deployments": 10},
        {"schedule": "whole/2/3", "deployments": 10},
    ],
)
def test_the_last_deployment_is_the_only_one_that_is_greedy(options):
    mdp = ls.envs.riverswim(states=6, horizon=10)
    usual, greedy = (
        ls.simulate(
            mdp, ls.psrl(members=8, **options, last=last), episodes=3000, seeds=4, history=True
        )
        for last in ("usual", "greedy")
    )
    assert (usual.deployments == 10).all()
    assert (greedy.deployments == 10).all()
    for one, other in zip(usual.history, greedy.history, strict=True):
        before = [
            history.changes[history.episode < history.episode[-1]].tolist()
            for history in (one, other)
        ]
        assert before[0] == before[1]
        assert one.episode[-1] == other.episode[-1]
        assert one.changes.tolist() != other.changes.tolist()


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ls.ucbvi(scales=()),
            r"scales must be numbers of at least 0, one for each member of the mixture, not \(\)",
        ),
        (
            lambda: ls.ucbvi(scales=(1, -0.5)),
            r"scales must be numbers of at least 0.*not \(1, -0.5\)",
        ),
        (lambda: ls.ucbvi(scales="1/x"), "scales must be numbers of at least 0.*'x'"),
        (
            lambda: ls.ucbvi(scales=0.5),
            "a single scale must be 1, not 0.5; to scale the bonus, set c",
        ),
        (
            lambda: ls.psrl(scales=(1, 0.5)),
            "there is no bonus to scale; for a mixture of posterior samples give members=L",
        ),
        (
            lambda: ls.ucbvi(deployments=3, last="best"),
            'last must be "usual", "greedy" or "exploit", not \'best\'',
        ),
        (
            lambda: ls.ucbvi(switches=3, last="greedy"),
            'last="greedy" needs a number of deployments',
        ),
        (
            lambda: ls.ucbvi(last="greedy"),
            (
                r"last='greedy' needs a budget: give deployments=N too \(a grid of N \+ 1"
                r" batches has N\)"
            ),
        ),
        (
            lambda: ls.stage_q(deployments=3, last="greedy"),
            'last="greedy" needs estimates without a bonus.*use a planner or psrl',
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_rmax_replans_at_the_counts_of_every_member():
    assert ls.rmax(known=6, scales=(1, 0.5, 0)).schedule == ls.Visits((1, 3, 6))
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.array([[0.2, 0.9]]), horizon=1)
    runs = ls.simulate(mdp, ls.rmax(known=6, scales=(2, 2)), episodes=200, seeds=1)
    assert runs.policy[0].tolist() == [[[1]], [[1]]]
    assert runs.regret[0] == pytest.approx(12 * 0.7)


@pytest.mark.parametrize("c", [0.001, 0.0001])
@pytest.mark.parametrize("schedule", ["every", "growth/1.5", "grid/equal/5"])
def test_a_greedy_plan_is_not_held_down_by_older_ones(c, schedule):
    """Estimates that never grow must not bind the last plan: on three problems it is that of the
    plain estimates in every visited row.
    """
    for seed in range(3):
        mdp = ls.TabularMDP(*random_tables(4, 3, seed), horizon=3, reward_law="bernoulli")
        algorithm = ls.ucbvi(c=c, schedule=schedule, deployments=4, last="greedy")
        assert_greedy_at_last(mdp, algorithm, empirical)


def test_what_a_pooled_member_without_a_bonus_saw_last_it_may_see_earlier():
    """Action 1 is first seen at the last step: with a scale of 0, too, it is not held for worthless
    one step earlier.
    """
    learner = ls.Learner(
        ls.ucbvi(c=1e-9, pooled=True, scales=(0, 1)), horizon=2, states=1, actions=2, episodes=50
    )
    learner.tell([0, 0], [0, 1], [0.0, 1.0], off_policy=True)
    for _ in range(20):
        learner.tell([0, 0], [1, 1], [1.0, 1.0], off_policy=True)
    assert learner.q[0, 0, 1] == pytest.approx(2, abs=1e-6)
    assert learner.mixture[0].tolist() == [[1], [1]]


@pytest.mark.parametrize("scales", [None, b"1/2", {1.0, 0.5}, 3 + 1j])
def test_scales_of_another_kind(scales):
    with pytest.raises(ValueError, match="scales must be numbers"):
        ls.ucbvi(scales=scales)


def test_scales_may_be_numpy_s():
    assert ls.ucbvi(scales=np.array([1, 0.5])).scales == (1.0, 0.5)
    assert ls.ucbvi(scales=np.float32(1)) == ls.ucbvi(scales=np.array(1.0)) == ls.ucbvi()


def test_a_greedy_pooled_plan_knows_the_reward_of_what_it_saw_at_the_last_step():
    algorithm = ls.ucbvi(c=0.001, pooled=True, deployments=1, last="greedy")
    learner = ls.Learner(algorithm, horizon=2, states=1, actions=2, episodes=100)
    learner.tell([0, 0], [0, 1], [0.125, 1.0], off_policy=True)
    assert learner.q.tolist() == [[[1.125, 1.0]], [[0.125, 1.0]]]
