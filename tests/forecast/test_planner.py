"""The planner: problems that it draws, what it forecasts, and that it goes on where it was."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.cli import commands
from lowswitch.forecast import forecasts
from lowswitch.forecast import page as forecast_page
from lowswitch.forecast.draws import (
    Logged,
    ProblemPosterior,
    Size,
    _reached,
    problem_of_size,
    problem_with_present,
)
from lowswitch.reproduce.pseudocode import play_episode

SIZE = (3, 4, 2)
DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def plan():
    return ls.plan(SIZE, episodes=300, deployments=3, problems=6, progress=False)


def logged(mdp, episodes):
    generator = np.random.default_rng(0)
    shape = episodes, mdp.horizon, mdp.states
    played = [
        play_episode(mdp, policy, 0, k)
        for k, policy in enumerate(generator.integers(0, mdp.actions, shape))
    ]
    return tuple(np.stack(part) for part in zip(*played, strict=True))


def test_values_are_those_of_what_each_date_deploys(plan):
    """Problem 2 of the plan, run again: the exact value of the first and of the last policy."""
    mdp = problem_of_size(Size(*SIZE), 2)
    runs = ls.simulate(mdp, ls.few(deployments=3), episodes=300, seeds=[2])
    found = plan.default
    size = {"horizon": 3, "states": 4, "actions": 2, "episodes": 300}
    assert found.dates.tolist() == list(ls.few(deployments=3).schedule.grid_for(**size))
    assert found.values.shape == (6, 4)
    assert found.values[2, 0] == pytest.approx(mdp.evaluate(runs.initial))
    assert found.values[2, -1] == pytest.approx(mdp.evaluate(runs.policy[0][0]))
    assert found.regret[2] == runs.regret[0]
    assert found.optimal[2] == mdp.optimal_value()


def test_intervals_and_when_it_is_sure_by_hand(plan):
    values = np.array([[1.0, 0.5, 2.0], [1.0, 2.0, 3.0]] + [[1.0, 2.0, 2.0]] * 8)
    sizes = {"dates": np.array([7, 9]), "values": values}
    one = forecasts.Forecast(
        algorithm=plan.default.algorithm, optimal=np.ones(10), regret=np.ones(10), **sizes
    )
    assert one.better.tolist() == [0.9, 1.0]
    assert one.sure_after == 9
    assert one.interval()[:, 0].tolist() == [1, 1, 1]
    # the 1.1th, 5.5th and 9.9th of ten values
    assert one.interval()[:, 2] == pytest.approx([2, 2, 2.9])


def test_the_page_says_what_to_run_and_what_to_expect(plan, tmp_path):
    page, answer = plan.page(), plan.to_dict()["answer"]
    assert answer["use"] in page
    assert len(answer["value"]["median"]) == 4
    for words in (
        "With one more deployment, an episode would earn",
        "In a run of 1,000 more episodes",
        "than the first one",
        "lost per episode",
        "at best",
        "play the first allowed action everywhere",
    ):
        assert words in " ".join(page.split())
    assert "is the present one" not in page  # nobody said which one that is
    assert answer["logs_can_tell"]
    best = answer["best_value"]
    assert best["median"] == pytest.approx(np.median(plan.default.optimal))
    assert best["median"] >= answer["value"]["median"][-1]
    plan.plot(tmp_path / "plan.png")
    plan.save(tmp_path / "plan.json")
    saved = json.loads((tmp_path / "plan.json").read_text())
    assert saved["answer"] == answer
    lines = [tuple(line) for line in saved["expected"]]  # which a ledger shows beside what happens
    assert lines == plan.expected()
    assert [after for after, *_ in lines] == [0, *plan.default.dates.tolist()]
    assert [middle for _, _, middle, _ in lines] == answer["value"]["median"]


@pytest.mark.parametrize(
    ("spread", "verdict"),
    [
        ([0.3, 0.5], "learning earns more \\(by \\+0.2000 ± "),
        ([0.9, 1.1], "changing nothing earns more \\(by -0.4000 ± "),
        ([0.2, 1.0], "no difference is seen between learning and changing nothing"),
    ],
)
def test_whether_to_learn_at_all_by_hand(plan, spread, verdict):
    """The first policy loses 0.6; what learning loses lies around the mean of `spread`."""
    regret = 100 * np.tile(spread, 3)
    values = np.tile([0.4, 0.9], (6, 1))
    found = forecasts.Forecast(
        algorithm=plan.default.algorithm,
        dates=np.array([50]),
        values=values,
        optimal=np.ones(6),
        regret=regret,
    )
    for first in ("given", "usual"):
        known = replace(plan, episodes=100, default=found, rivals=(), first=first)
        page = " ".join(known.page().split())
        assert re.search(verdict, page), page
        assert ("most often in the logged episodes" in page) == (first == "usual")
    unknown = replace(plan, episodes=100, default=found, rivals=(), first="lowest")
    assert "A policy that earns more than" in " ".join(unknown.page().split())


def test_one_deployment_more_is_one_more_of_the_budget():
    few = ls.few(deployments_at=(30, 60, 90), deployments=1, gap=20)
    more = forecasts._one_more(few, (30, 60, 90), 20, 100)
    assert more == ls.few(deployments_at=(15, 30, 60, 90), deployments=2)


def test_a_plan_goes_on_where_it_was(tmp_path, monkeypatch):
    """The second call finds every run, and simulates nothing."""
    options = {"episodes": 100, "deployments_at": (20, 50), "problems": 2, "progress": False}
    first = ls.plan(SIZE, folder=tmp_path, **options)
    assert first.default.dates.tolist() == [20, 50]
    assert first.one_more.dates.tolist() == [20, 50, 75]
    asked = first.rivals[-1]  # a board that asks when it meets, on the same dates
    assert str(asked.algorithm) == "psrl:schedule=asked/20-50,deployments=2"
    assert (asked.dates.tolist(), asked.values.shape) == ([20, 50], (2, 3))
    monkeypatch.delattr(forecasts, "simulate")
    again = ls.plan(SIZE, folder=tmp_path, **options)
    assert again.to_dict() == first.to_dict()


def test_problems_of_logged_episodes_are_near_the_true_one():
    """2,000 episodes of random actions: the values of the optimal policy in 20 problems of the
    posterior lie around the true one, whose standard error is about 0.02.
    """
    mdp = ls.TabularMDP(
        np.random.default_rng(1).dirichlet(np.ones(4), (4, 2)),
        np.random.default_rng(2).random((4, 2)),
        horizon=3,
        reward_law="bernoulli",
    )
    posterior = ProblemPosterior(Logged(*logged(mdp, 2000)), Size(3, 4, 2))
    problems = [posterior.problem(number) for number in range(20)]
    values = [problem.evaluate(mdp.optimal_policy) for problem in problems]
    assert np.mean(values) == pytest.approx(mdp.optimal_value(), abs=0.1)
    assert all(problem.reward_law == "bernoulli" for problem in problems)
    assert posterior.usual_policy().shape == (3, 4)
    same = posterior.problem(3)
    assert (same.probabilities == problems[3].probabilities).all()


def test_a_plan_from_logged_episodes_begins_with_what_was_played():
    mdp = ls.envs.riverswim(states=4, horizon=3)
    states, actions, rewards = logged(mdp, 60)
    plan = ls.plan((states, actions, rewards), episodes=100, deployments=2, problems=3)
    assert plan.source == "60 logged episodes"
    assert plan.size == (3, int(states.max()) + 1, 2)
    assert "Logged episodes would narrow" not in plan.page()


def fixed_policy(mdp, episodes):
    policy = np.zeros((mdp.horizon, mdp.states), dtype=int)
    played = [play_episode(mdp, policy, 0, k) for k in range(episodes)]
    return tuple(np.stack(part) for part in zip(*played, strict=True))


def test_logs_of_one_policy_promise_little_and_the_plan_says_so():
    """Two actions, of which only the first was logged; it pays 0.2 in every state. In some of the
    problems that could have been logged the other action never pays more, in some it does.
    """
    mdp = ls.TabularMDP(
        np.full((4, 2, 4), 0.25), np.tile([0.2, 0.1], (4, 1)), horizon=3, reward_law="bernoulli"
    )
    logs = fixed_policy(mdp, 100)
    posterior = ProblemPosterior(Logged(*logs), Size(3, 4, 2))
    assert posterior.compared() == 0
    problems = [posterior.problem(number) for number in range(40)]
    first = np.zeros((3, 4), dtype=int)
    assert np.mean([one.evaluate(first) for one in problems]) == pytest.approx(0.6, abs=0.15)
    gains = np.array([one.optimal_value() - one.evaluate(first) for one in problems])
    assert 5 <= (gains < 1e-9).sum() <= 35
    assert gains.max() > 0.3
    plan = ls.plan(logs, size=(3, 4, 2), episodes=60, deployments=2, problems=2, progress=False)
    assert "These logs cannot tell what other actions would earn: only 0%" in plan.page(2000)
    assert not plan.to_dict()["answer"]["logs_can_tell"]
    assert ProblemPosterior(Logged(*logged(mdp, 100)), Size(3, 4, 2)).compared() == 1


def test_logs_without_a_reward_cannot_tell_and_the_plan_says_so():
    mdp = ls.TabularMDP(np.full((4, 2, 4), 0.25), np.zeros((4, 2)), horizon=3)
    plan = ls.plan(logged(mdp, 100), episodes=60, deployments=2, problems=2, progress=False)
    assert plan.compared == 1
    assert "No reward was logged" in plan.page(2000)
    assert not plan.to_dict()["answer"]["logs_can_tell"]


@pytest.mark.parametrize("reward", [0.0, 0.4, 1.5, 2.9, 3.0])
def test_problems_agree_with_what_the_present_policy_earns(reward):
    for number in range(5):
        mdp, policy = problem_with_present(Size(*SIZE), reward, number)
        assert mdp.evaluate(policy) == pytest.approx(reward, abs=1e-9)


def test_who_earns_nothing_may_miss_what_is_paid_elsewhere():
    """Not all of these problems pay nothing, as they did when all rewards were made smaller."""
    some = [problem_with_present(Size(4, 8, 2), 0.0, number).mdp for number in range(20)]
    assert 4 <= sum(mdp.optimal_value() > 0.05 for mdp in some) <= 16  # it was 2


def test_the_rewards_that_a_policy_can_get_by_hand():
    """From the first of two states, action 1 leads to the other one, where action 0 is played."""
    laws = np.zeros((2, 2, 2))
    laws[:, 0, 0] = laws[:, 1, 1] = 1.0
    parts = {"transitions": laws, "rewards": np.ones((2, 2)), "start": np.array([1.0, 0.0])}
    policy = np.array([[1, 1], [0, 0]])
    assert _reached(parts, policy).tolist() == [[False, True], [True, False]]
    by_step = parts | {"rewards": np.ones((2, 2, 2)), "transitions": np.stack([laws, laws])}
    assert np.argwhere(_reached(by_step, policy)).tolist() == [[0, 0, 1], [1, 1, 0]]


def test_a_plan_knows_what_the_present_policy_earns():
    options = {"episodes": 60, "deployments": 2, "problems": 3, "progress": False}
    plan = ls.plan(SIZE, present_reward=1.25, **options)
    assert plan.default.values[:, 0] == pytest.approx(1.25)
    assert plan.source == "its size and the present policy's reward"
    assert "earns just that" in plan.page(2000)
    for reward in (-0.1, 3.1, float("nan"), "much"):
        with pytest.raises(ValueError, match="present_reward must be a number from 0 to 3"):
            ls.plan(SIZE, present_reward=reward, **options)
    mdp = ls.envs.riverswim(states=4, horizon=3)
    for known in (mdp, logged(mdp, 20)):
        with pytest.raises(ValueError, match="leave present_reward out"):
            ls.plan(known, present_reward=1.0, **options)


def test_bad_input():
    with pytest.raises(ValueError, match="a plan needs a TabularMDP, a size"):
        ls.plan(7, episodes=9, deployments=1)
    with pytest.raises(ValueError, match="states must be"):
        ls.plan((3, 0, 2), episodes=9, deployments=1)
    with pytest.raises(ValueError, match="few needs a budget"):
        ls.plan(SIZE, episodes=9)
    with pytest.raises(ValueError, match=r"shape \[episodes, H\] each"):
        ls.plan(([0, 1], [0, 1], [0.0, 1.0]), episodes=9, deployments=1)


def test_a_plan_with_features(tmp_path, capsys):
    """The values lie between the first policy's and the best, and rise to it."""
    size, options = {"features": 3, "actions": 2}, {"episodes": 400, "deployments": 3}
    found = ls.plan(size, **options, problems=6, progress=False)
    values, optimal = found.default.values, found.default.optimal
    assert values.shape == (6, 4)
    assert (values <= optimal[:, None] + 1e-12).all()
    gaps = (optimal[:, None] - values).mean(axis=0)
    assert gaps[-1] < gaps[0] / 4
    lost = (optimal[:, None] - values) * np.diff([0, *found.default.dates, 400])
    assert lost.sum(axis=1) == pytest.approx(found.default.regret)
    assert "3 features and 2 actions, from its size alone; 6 problems" in found.page(200)
    weights = np.array([[1.0, 0, 0], [-1, 0, 0]])
    problem = ls.features.problems.LinearBandit(weights, actions=2, shared=True, noise=1.0)
    best = ls.LinearPolicy(problem.shape, weights.T[None, :, :, None], np.uint64(0))
    given = ls.plan(problem, **options, problems=2, initial=best, progress=False)
    assert given.first == "given"
    assert given.default.values[:, 0] == pytest.approx(given.default.optimal)
    best.save(tmp_path / "policy.npz")
    command = ["plan", "--features", "3,2", "--initial", str(tmp_path / "policy.npz"), "--json"]
    command += f"--episodes 50 --deployments 2 --problems 1 --out {tmp_path / 'out'}".split()
    assert commands.main(command) == 0
    assert json.loads(capsys.readouterr().out)["features"] == 3


def test_a_plan_with_features_refuses_what_it_cannot_use():
    options = {"episodes": 50, "deployments": 2, "problems": 1}
    with pytest.raises(ValueError, match="the size of a problem with features is"):
        ls.plan({"features": 3}, **options)
    with pytest.raises(ValueError, match="features must be"):
        ls.plan({"features": 0, "actions": 2}, **options)
    with pytest.raises(ValueError, match="present_reward= works only with tables so far"):
        ls.plan({"features": 3, "actions": 2}, **options, present_reward=0.5)
    steps = ls.features.problems.linear_mdp(features=3, states=6, actions=3, horizon=3, seed=1)
    with pytest.raises(ValueError, match="supports only one step so far"):
        ls.plan(steps, **options)
    with pytest.raises(ValueError, match="actions_allowed= is for a plan from a size"):
        ls.plan({"features": 3, "actions": 2}, **options, actions_allowed=np.ones((1, 1, 2), bool))


def test_the_command(tmp_path, capsys):
    mdp, data = ls.envs.riverswim(states=4, horizon=3), tmp_path / "log.npz"
    states, actions, rewards = logged(mdp, 30)
    np.savez(data, states=states, actions=actions, rewards=rewards)
    options = f"--episodes 50 --deployments 2 --problems 2 --out {tmp_path / 'out'}"
    assert commands.main(f"plan --data {data} {options} --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["source"] == "30 logged episodes"
    assert (tmp_path / "out" / "plan.png").exists()
    (tmp_path / "right.csv").write_text("1,1,1,1\n" * 3)
    first = f"plan --env riverswim:states=4,horizon=3 --initial {tmp_path / 'right.csv'}"
    assert commands.main(f"{first} {options} --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    right = mdp.evaluate(np.ones((3, 4), dtype=int))
    assert found["answer"]["value"]["median"][0] == pytest.approx(right)
    (tmp_path / "left.csv").write_text("left,left\n" * 2)
    labelled = ["--initial", str(tmp_path / "left.csv"), "--actions", "left, right"]
    assert commands.main(["plan", "--size", "2,2,2", *labelled, *options.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["first"] == "given"
    reward = ["--present-reward", "0.7"]
    assert commands.main(["plan", "--size", "2,2,2", *reward, *options.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["first"] == "drawn"
    assert commands.main(["plan", "--size", "2,3,2", *labelled, *options.split()]) == 2
    assert "has 2 entries, not 3" in capsys.readouterr().err
    assert commands.main(f"plan --data {tmp_path / 'none'} {options}".split()) == 2
    assert "cannot read logged episodes" in capsys.readouterr().err


def test_the_rule_of_thumb_is_what_was_measured(plan):
    facts = json.loads((DOCS / "numbers" / "meetings.json").read_text(encoding="utf-8"))
    needed = [row["needed"] for row in facts["rows"] if not row["which"].isdigit()]
    assert len(needed) == forecast_page.PROBLEMS
    for changes, share in forecast_page.CLOSE.items():
        close = sum(n is not None and n <= changes for n in needed)
        assert round(100 * close / len(needed)) == share
    words = f"with 3 changes, few ended within 5 % of the best policy in {forecast_page.CLOSE[3]} %"
    assert words in " ".join(plan.page().split())
