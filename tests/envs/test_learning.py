"""`learn` as people from Gymnasium use it: it goes on, calls back, plays vectors; what came out."""

from __future__ import annotations

import csv
import struct
import sys
import time
import types

import gymnasium
import numba
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import lowswitch as ls
from lowswitch.envs.gymnasium import (
    Callback,
    Checkpoint,
    CsvLogger,
    EnvironmentRun,
    TensorBoardLogger,
    WandbLogger,
    evaluate_policy,
    learn,
    learner_for,
    record,
)
from lowswitch.envs.gymnasium.rollouts import exact_share
from lowswitch.envs.gymnasium.spaces import numbering_of

ALGORITHM = ls.ucb2_bernstein(c=0.005)
MIXTURE = ls.psrl(members=3, schedule="growth/2")
H = 8


def lake(**options):
    return gymnasium.make("FrozenLake-v1", **options)


def slippery(num_envs):
    return gymnasium.make_vec("FrozenLake-v1", num_envs=num_envs, vectorization_mode="sync")


@pytest.fixture(scope="module")
def played():
    return learn(lake(is_slippery=False), ALGORITHM, horizon=H, episodes=60)


# ---- a learner goes on ---------------------------------------------------------------------------


@pytest.mark.parametrize("reseed", [False, True])
def test_two_parts_are_the_whole(reseed):
    whole = learn(lake(), MIXTURE, horizon=H, episodes=40, seed=3, reseed=reseed)
    env = lake()
    learner = learner_for(env, MIXTURE, horizon=H, episodes=40, seed=3)
    first = learn(env, learner, episodes=15, seed=3, reseed=reseed)
    env = lake() if reseed else env  # an addressed episode is the same in another environment
    second = learn(env, learner, episodes=25, reseed=reseed)
    assert second.learner is learner
    assert second.first == 15
    assert second.episodes.tolist() == list(range(15, 40))
    np.testing.assert_array_equal(np.append(first.returns, second.returns), whole.returns)
    changes = np.concatenate([first.history.changes, second.history.changes])
    np.testing.assert_array_equal(changes, whole.history.changes)
    assert learner.digest() == whole.learner.digest()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 6}, "room for 5 more episodes, not 6: it was made for 5"),
        ({"episodes": 1, "horizon": 9}, "made for horizon=8, not 9; leave horizon out"),
        ({"env": "Taxi-v4", "episodes": 1}, r"17 states and 4 actions, and the environment 501 "),
    ],
)
def test_a_learner_that_does_not_fit_is_refused(options, message):
    learner = learner_for(lake(), ALGORITHM, horizon=H, episodes=5)
    with pytest.raises(ValueError, match=message):
        learn(options.pop("env", lake()), learner, **options)
    assert learner.told == 0


def test_a_learner_in_review_has_nobody_to_approve():
    learner = ls.Learner(ALGORITHM, horizon=H, states=17, actions=4, episodes=9, gate="review")
    with pytest.raises(ValueError, match="is in review"):
        learn(lake(), learner, episodes=1)


def test_a_run_goes_on_as_a_learner_does():
    learner = learner_for(lake(), ALGORITHM, horizon=H, episodes=20)
    first = learn(lake(), learner, episodes=5)
    second = learn(lake(), first, episodes=15)
    assert second.learner is learner
    assert second.episodes[0] == 5


def test_a_new_learner_is_played_by_its_own_seed():
    """The same as `learn(..., seed=5)`, and the same each time."""
    whole = learn(lake(), MIXTURE, horizon=H, episodes=30, seed=5)
    for _ in range(2):
        fresh = learner_for(lake(), MIXTURE, horizon=H, episodes=30, seed=5)
        np.testing.assert_array_equal(learn(lake(), fresh, episodes=30).returns, whole.returns)


def test_a_learner_keeps_to_its_range_of_rewards(tmp_path):
    learner = learner_for("CliffWalking-v1", ALGORITHM, horizon=H, episodes=9)
    learn("CliffWalking-v1", learner, episodes=2, reward_range=(-100, 0))
    learner.save(tmp_path / "learner.npz")
    for one in (learner, ls.Learner.load(tmp_path / "learner.npz")):
        with pytest.raises(
            ValueError, match=r"learned with reward_range=\(-100, 0\), .* \(-200, 0"
        ):
            learn("CliffWalking-v1", one, episodes=2, reward_range=(-200, 0))
        assert learn("CliffWalking-v1", one, episodes=2).returns.min() >= -800
    said = learner_for("CliffWalking-v1", ALGORITHM, horizon=H, episodes=9, reward_range=(-100, 0))
    assert learn("CliffWalking-v1", said, episodes=2).learner.spaces.rewards.low == -100


@pytest.mark.filterwarnings("error::lowswitch.NothingLearnedWarning")
def test_a_run_that_goes_on_is_compared_with_the_first_policy(tmp_path):
    """After its last deployment a learner stays where it is, which is far above its beginning."""
    learner = learner_for(lake(), ls.few(deployments=10), horizon=20, episodes=2_000)
    learn(lake(), learner, episodes=1_990)
    learner.save(tmp_path / "learner.npz")
    mdp = ls.from_gymnasium(lake(), horizon=20)
    before = mdp.evaluate(learner)
    assert mdp.evaluate(learner.first_mixture) < 0.1 < before < mdp.optimal_value() - 1e-6
    for one in (learner, ls.Learner.load(tmp_path / "learner.npz")):
        learn(lake(), one, episodes=5)
        assert mdp.evaluate(one) == before


def test_a_q_learner_keeps_its_first_policy_in_its_file(tmp_path):
    learner = learner_for(lake(), ALGORITHM, horizon=H, episodes=60)
    learn(lake(), learner, episodes=50)
    learner.save(tmp_path / "learner.npz")
    first = ls.Learner.load(tmp_path / "learner.npz").first_mixture
    np.testing.assert_array_equal(first, np.zeros((1, H, 17)))


# ---- the mixture that few draws from -------------------------------------------------------------


def test_members_1_of_few_changes_the_policy_only_by_deployments():
    """What README.md and docs/few.md say of `learner.policy`, for both."""
    changed = {}
    for members in (64, 1):
        learner = ls.Learner(
            ls.few(deployments=3, members=members), horizon=2, states=2, actions=2, episodes=200
        )
        silent = 0
        for k in range(200):
            before = learner.policy
            reward = [float(k % 3 == 0), 1.0]
            switch = learner.tell([0, 1], [before[0, 0], before[1, 1]], reward)
            silent += switch is None and not np.array_equal(before, learner.policy)
        changed[members] = silent
    assert changed[1] == 0
    assert changed[64] > 20


def test_a_learner_made_by_hand_with_a_mask_plays_no_forbidden_action():
    """It may play any action after the end, and learn judges it by the tables all the same."""
    allowed = np.ones((17, 4), dtype=bool)
    allowed[:16, 0] = False
    learner = ls.Learner(
        ALGORITHM, horizon=H, states=17, actions=4, episodes=60, actions_allowed=allowed
    )
    learn(lake(), learner, episodes=60)
    assert learner.deployments > 0
    assert (learner.policy[:, :16] > 0).all()
    assert (learner.policy[:, 16] > 0).any()


# ---- callbacks -----------------------------------------------------------------------------------


class Notes(Callback):
    def __init__(self, stop_after=10**9):
        self.notes, self.stop_after = [], stop_after

    def on_start(self, learner):
        self.notes.append(("start", learner.told))

    def on_deployment(self, end):
        self.notes.append(("deployment", end.episode))

    def on_episode(self, end):
        self.notes.append(("episode", end.episode))
        return end.episode + 1 < self.stop_after

    def on_end(self, run):
        self.notes.append(("end", len(run.returns)))

    def close(self):
        self.notes.append(("close",))


def test_the_moments_come_in_their_order_and_change_nothing(played):
    notes, seen = Notes(), []
    run = learn(
        lake(is_slippery=False), ALGORITHM, horizon=H, episodes=60, callbacks=[notes, seen.append]
    )
    assert run.learner.digest() == played.learner.digest()
    deployed = [k for name, *k in notes.notes if name == "deployment"]
    assert np.ravel(deployed).tolist() == sorted(set(run.history.episode.tolist()))
    expected = [("start", 0)]
    for k in range(60):
        expected += [("deployment", k)] * (k in run.history.episode) + [("episode", k)]
    assert notes.notes == [*expected, ("end", 60), ("close",)]
    assert [end.earned for end in seen] == run.returns.tolist()
    assert [end.length for end in seen] == run.lengths.tolist()
    assert seen[-1].learner is run.learner


def test_false_ends_the_run_and_none_does_not():
    notes = Notes(stop_after=7)
    run = learn(lake(), ALGORITHM, horizon=H, episodes=60, callbacks=[notes, lambda end: None])
    assert len(run.returns) == run.learner.told == 7
    assert notes.notes[-2:] == [("end", 7), ("close",)]


def test_a_false_of_numpy_ends_the_run_and_a_zero_does_not():
    stop = lambda end: np.float64(end.episode) < 3  # noqa: E731
    run = learn(lake(), ALGORITHM, horizon=H, episodes=60, callbacks=[stop, lambda end: 0])
    assert len(run.returns) == 4


def test_callbacks_are_closed_after_an_error():
    def fails(end):
        raise RuntimeError("enough")

    notes = Notes()
    with pytest.raises(RuntimeError, match="enough"):
        learn(lake(), ALGORITHM, horizon=H, episodes=2, callbacks=[notes, fails])
    assert notes.notes[-1] == ("close",)
    assert ("end", 2) not in notes.notes


@pytest.mark.parametrize("given", [3, Callback, ["x"]])
def test_what_is_no_callback_is_refused(given):
    with pytest.raises(ValueError, match="a callback is a Callback of"):
        learn(lake(), ALGORITHM, horizon=H, episodes=2, callbacks=given)


@pytest.mark.parametrize("name", ["on_step", "_on_step", "on_episode_end"])
def test_a_hook_that_nothing_calls_is_refused(name):
    watch = type("Watch", (Callback,), {name: lambda self: True})()
    with pytest.raises(ValueError, match=f"Watch defines {name}, which learn would never call"):
        learn(lake(), ALGORITHM, horizon=H, episodes=2, callbacks=watch)


def test_a_csv_has_a_line_for_each_episode(tmp_path):
    run = learn(lake(), ALGORITHM, horizon=H, episodes=9, callbacks=CsvLogger(tmp_path / "log.csv"))
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["return"]) for row in rows] == run.returns.tolist()
    assert [int(row["length"]) for row in rows] == run.lengths.tolist()
    assert [int(row["episode"]) for row in rows] == list(range(9))
    assert int(rows[-1]["deployments"]) == run.learner.deployments
    assert int(rows[-1]["local_switches"]) == run.learner.local_switches


def test_a_csv_has_all_parts_of_a_run_and_a_new_run_begins_anew(tmp_path):
    path, learner = tmp_path / "log.csv", learner_for(lake(), ALGORITHM, horizon=H, episodes=9)
    for episodes in (4, 5):
        learn(lake(), learner, episodes=episodes, callbacks=CsvLogger(path))
    numbers = [line.split(",")[0] for line in path.read_text().splitlines()]
    assert numbers == ["episode", *map(str, range(9))]
    learn(lake(), ALGORITHM, horizon=H, episodes=2, callbacks=CsvLogger(path))
    assert len(path.read_text().splitlines()) == 3


def test_a_csv_has_no_episode_twice_after_a_crash(tmp_path):
    path, saved, episodes = tmp_path / "log.csv", tmp_path / "learner.npz", 9

    def crash(end):
        if end.episode == 6:
            raise RuntimeError

    whole = learn(lake(), ALGORITHM, horizon=H, episodes=episodes, reseed=True)
    callbacks = [CsvLogger(path), Checkpoint(saved, every=4), crash]
    with pytest.raises(RuntimeError):
        learn(lake(), ALGORITHM, horizon=H, episodes=episodes, reseed=True, callbacks=callbacks)
    path.write_text(path.read_text() + "7,0.")  # and a line that was cut off
    learner = ls.Learner.load(saved)
    assert learner.told == 4
    learn(lake(), learner, episodes=5, reseed=True, callbacks=CsvLogger(path))
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [int(row["episode"]) for row in rows] == list(range(episodes))
    assert [float(row["return"]) for row in rows] == whole.returns.tolist()


def test_tensorboard_reads_what_was_logged(tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto import event_pb2

    run = learn(
        lake(), ALGORITHM, horizon=H, episodes=5, callbacks=TensorBoardLogger(tmp_path / "board")
    )
    [path] = (tmp_path / "board").iterdir()
    found, data = {}, path.read_bytes()
    while data:  # a record is its length and a checksum, the event, and a checksum
        [size] = struct.unpack("<Q", data[:8])
        event = event_pb2.Event.FromString(data[12 : 12 + size])
        for value in event.summary.value:
            found.setdefault(value.tag, {})[event.step] = value.simple_value
        data = data[16 + size :]
    assert list(found["episode/return"].values()) == run.returns.tolist()
    assert list(found["episode/length"]) == list(range(5))
    assert found["episode/deployments"][4] == run.learner.deployments


def test_wandb_gets_the_same_numbers(monkeypatch):
    logged, ended = [], []

    def init(**options):
        log = lambda numbers, step: logged.append((step, numbers["episode/return"]))  # noqa: E731
        return types.SimpleNamespace(
            log=log, finish=lambda: ended.append(options["config"]["algorithm"])
        )

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    run = learn(lake(), ALGORITHM, horizon=H, episodes=4, callbacks=WandbLogger(project="lake"))
    assert logged == list(enumerate(run.returns.tolist()))
    assert ended == [str(ALGORITHM)]


def test_a_package_that_is_missing_is_named(monkeypatch, tmp_path):
    for name, make in (
        ("wandb", WandbLogger),
        ("tensorboardX", lambda: TensorBoardLogger(tmp_path)),
    ):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ModuleNotFoundError, match=f"{name} is not installed; pip install"):
            make()


def test_a_checkpoint_is_the_learner_every_so_often(tmp_path):
    path, told = tmp_path / "learner.npz", []
    watch = lambda end: told.append(ls.Learner.load(path).told if path.exists() else 0)  # noqa: E731
    learn(lake(), ALGORITHM, horizon=H, episodes=7, callbacks=[Checkpoint(path, every=3), watch])
    assert told == [0, 0, 3, 3, 3, 6, 6]
    assert ls.Learner.load(path).told == 7


# ---- what a policy earns -------------------------------------------------------------------------


def test_the_exact_interval_of_a_share_by_hand():
    # 0 of 10: the upper end solves (1 - p)^10 = 0.025
    assert exact_share(0, 10, 0.95) == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    assert exact_share(10, 10, 0.95) == (pytest.approx(0.025 ** (1 / 10)), 1.0)
    # 1 of 2: both ends solve a quadratic, 1 - (1 - p)^2 = 0.025 and p^2 = 0.025 mirrored
    low = 1 - 0.975**0.5
    assert exact_share(1, 2, 0.95) == (pytest.approx(low), pytest.approx(1 - low))


def test_an_evaluation_has_the_value_of_the_tables_in_its_interval():
    # slippery; 400 episodes, one interval of 99.9 %
    mdp = ls.from_gymnasium("FrozenLake-v1", horizon=20)
    found = evaluate_policy(lake(), mdp.optimal_policy, episodes=400, seed=1, confidence=0.999)
    low, high = found.interval
    assert low < mdp.optimal_value() < high
    assert high - low < 0.2
    assert found.mean == found.returns.mean()
    assert "99.9" not in repr(found)
    assert f"mean return {found.mean:.4g}" in repr(found)


class Paid(gymnasium.Env):
    """Pays the number of the action."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, float(action), False, False, {}


def test_an_evaluation_draws_from_what_is_deployed_and_teaches_nothing():
    learner = learner_for(Paid(), ls.few(deployments=2), horizon=1, episodes=50)
    run = learn(Paid(), learner, episodes=5)
    digest = learner.digest()
    drawn = [int(learner.policy_for(5 + i)[0, 0]) for i in range(30)]
    assert set(drawn) == {0, 1}
    assert evaluate_policy(Paid(), run, episodes=30).returns.tolist() == drawn
    assert evaluate_policy(Paid(), learner, episodes=30).returns.tolist() == drawn
    assert learner.digest() == digest


def test_returns_that_are_no_shares_have_students_interval():
    policy = np.ones((6, 49), dtype=int)
    found = evaluate_policy("CliffWalkingSlippery-v1", policy, episodes=20)
    half = ls.summary.__globals__["report"].half_width(found.returns)
    assert found.interval == (found.mean - half, found.mean + half)
    assert found.sd == found.returns.std(ddof=1)


class Losing(Paid):
    """Always pays -1, and is over then."""

    def step(self, action):
        return 0, -1.0, True, False, {}


def test_equal_returns_have_the_interval_of_the_range_or_none():
    policy = np.zeros((4, 2), dtype=int)
    found = evaluate_policy(Losing(), policy, episodes=3)
    assert np.isnan(found.interval).all()
    assert "no interval, because equal returns do not say how much they vary" in repr(found)
    assert "1 episode)" in repr(evaluate_policy(Losing(), policy, episodes=1))
    # Hoeffding: 1 - exp(-2 n (half / 8)^2) = 0.975 on either side, cut at -4
    found = evaluate_policy(Losing(), policy, episodes=200, reward_range=(-1, 1))
    half = 8 * np.sqrt(np.log(2 / 0.05) / 400)
    assert found.interval == (pytest.approx(-1 - half), pytest.approx(-1 + half))
    learner = learner_for(Losing(), ALGORITHM, horizon=4, episodes=9, reward_range=(-1, 1))
    assert evaluate_policy(Losing(), learner, episodes=1).interval == (-4, 4)


@pytest.mark.parametrize("policy", ["greedy", np.zeros((2, 17)), np.zeros((3, 2, 17), dtype=int)])
def test_what_is_no_policy_is_not_evaluated(policy):
    with pytest.raises(ValueError, match=r"policy must be a learner, the result of learn, a table"):
        evaluate_policy(lake(), policy)


# ---- vector environments -------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [ALGORITHM, MIXTURE, ls.psrl(schedule="episodes/7")])
def test_a_vector_environment_learns_what_one_learns_alone(algorithm):
    alone = learn(lake(), algorithm, horizon=H, episodes=50, seed=2, reseed=True)
    vector = slippery(8)
    together = learn(vector, algorithm, horizon=H, episodes=50, seed=2)
    np.testing.assert_array_equal(together.returns, alone.returns)
    np.testing.assert_array_equal(together.history.changes, alone.history.changes)
    assert together.learner.digest() == alone.learner.digest()
    assert together.thrown_away > 0
    assert alone.thrown_away == 0
    vector.close()


def test_a_vector_environment_evaluates_what_one_evaluates():
    policy = np.ones((20, 17), dtype=int)
    vector = slippery(3)
    together = evaluate_policy(vector, policy, episodes=10, seed=4)
    alone = evaluate_policy(lake(), policy, episodes=10, seed=4)
    np.testing.assert_array_equal(together.returns, alone.returns)
    np.testing.assert_array_equal(together.lengths, alone.lengths)
    assert len(set(alone.lengths)) > 1
    vector.close()


class Paying(gymnasium.Env):
    """Pays 1 a step, and ends after one to four steps by chance."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 5))
        return 0, {}

    def step(self, action):
        self.left -= 1
        return 0, 1.0, self.left == 0, False, {}


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_what_a_part_earns_after_its_episode_is_no_data(mode):
    mode = gymnasium.vector.AutoresetMode[mode]
    vector = gymnasium.vector.SyncVectorEnv([Paying] * 3, autoreset_mode=mode)
    found = evaluate_policy(vector, np.zeros((6, 2), dtype=int), episodes=12)
    assert set(found.lengths) == {1, 2, 3, 4}
    assert found.returns.tolist() == found.lengths.tolist()


def test_parts_of_several_parts_are_played_as_a_vector():
    options = {"horizon": 4, "episodes": 30, "reward_range": (-1, 1), "seed": 1}
    vector = gymnasium.make_vec("Blackjack-v1", num_envs=4, vectorization_mode="sync")
    together = learn(vector, ALGORITHM, **options)
    alone = learn("Blackjack-v1", ALGORITHM, reseed=True, **options)
    np.testing.assert_array_equal(together.returns, alone.returns)
    vector.close()


def test_a_vector_environment_that_does_not_reset_itself_is_refused():
    off = gymnasium.vector.AutoresetMode.DISABLED
    vector = gymnasium.vector.SyncVectorEnv([lake] * 2, autoreset_mode=off)
    with pytest.raises(ValueError, match=r"does not reset its parts.*AutoresetMode.NEXT_STEP"):
        learn(vector, ALGORITHM, horizon=H, episodes=2)
    vector.close()


# ---- spaces of several parts ---------------------------------------------------------------------

NAMED = gymnasium.spaces.Dict(
    {
        "place": gymnasium.spaces.Tuple(
            (gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2, start=1))
        ),
        "flags": gymnasium.spaces.MultiBinary(2),
    }
)


def test_a_dict_is_numbered_by_the_order_of_its_space():
    numbering = numbering_of(NAMED, "observations")
    assert numbering.size == 24
    keys = list(NAMED.spaces)
    element = {"flags": np.array([0, 1]), "place": (2, 1)}
    by_hand = 1 * 6 + 2 * 2 + 0 if keys == ["flags", "place"] else (2 * 2 + 0) * 4 + 1
    assert numbering.number(element) == by_hand
    assert numbering.number(dict(reversed(element.items()))) == by_hand
    for number in range(24):
        made = numbering.element(number)
        assert NAMED.contains(made)
        assert numbering.number(made) == number


@pytest.mark.parametrize(
    "element",
    [
        {"flags": np.array([0, 1])},
        {"flags": np.array([0, 1]), "other": (2, 1)},
        {"flags": np.array([0, 1]), "place": (2,)},
        (np.array([0, 1]), (2, 1)),
        3,
    ],
)
def test_what_is_no_element_of_a_dict_has_no_number(element):
    with pytest.raises(ValueError, match="is outside of its observations"):
        numbering_of(NAMED, "observations").number(element)


class Named(gymnasium.Env):
    """Pays 1 for the action that names what is observed."""

    observation_space = gymnasium.spaces.Dict(
        {"a": gymnasium.spaces.Discrete(2), "b": gymnasium.spaces.MultiDiscrete([2, 2])}
    )
    action_space = gymnasium.spaces.Dict(
        {"x": gymnasium.spaces.Discrete(2), "y": gymnasium.spaces.Discrete(2)}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = {"a": self.np_random.integers(2), "b": self.np_random.integers(2, size=2)}
        return self.seen, {}

    def step(self, action):
        right = action["x"] == self.seen["a"] and action["y"] == self.seen["b"][0]
        return self.reset()[0], float(right), False, False, {}


def test_spaces_of_named_parts_are_learned():
    run = learn(Named(), ALGORITHM, horizon=1, episodes=400)
    assert (run.learner.states, run.learner.actions) == (9, 4)
    assert run.returns[-50:].mean() == 1


# ---- predictions ---------------------------------------------------------------------------------


def test_a_prediction_is_what_the_next_episode_plays(played):
    learner = played.learner
    assert learner.predict(3, 2) == learner.policy[2, 3]
    assert learner.predict([0, 5, 15], step=7).tolist() == learner.policy[7, [0, 5, 15]].tolist()
    with pytest.raises(ValueError, match=r"step is missing: an episode has 8 steps.*give step=h"):
        learner.predict(3)
    for step in (8, -1):
        with pytest.raises(ValueError, match="step must be a whole number from 0 to 7"):
            learner.predict(3, step)
    for outside in (16, [0, 16], [[1]], 0.0, "a", (0, 1), {"x": 0}):
        with pytest.raises(ValueError, match=r"outside of its observations, Discrete\(16\)"):
            learner.predict(outside, 0)
    plain = ls.Learner(ALGORITHM, horizon=H, states=17, actions=4, episodes=9)
    assert plain.predict([0, 16], 0).tolist() == [0, 0]
    with pytest.raises(ValueError, match="there is no step 0 with state 17"):
        plain.predict(17, 0)
    with pytest.raises(ValueError, match="one observation has 0 axes and several have one more"):
        plain.predict([[1]], 0)
    for wrong in (0.0, "a"):
        with pytest.raises(ValueError, match="a state is a whole number, not"):
            plain.predict(wrong, 0)
    for parts in ((11, 10, 0), {"place": 3}):
        with pytest.raises(ValueError, match=r"has several parts, .* learner.spaces = spaces_of"):
            plain.predict(parts, 0)


def test_vectors_are_predicted_for():
    learner = ls.Learner(ls.few(deployments=2), features=3, actions=4, episodes=10)
    x = np.array([[1.0, 0.0, 2.0], [0.5, 1.0, 0.0]])
    wanted = [learner.act(one).action for one in x]
    assert learner.predict(x).tolist() == wanted
    assert learner.predict(x[1]) == wanted[1]


def test_predictions_play_the_episode_that_learn_plays():
    env = lake()
    learner = learner_for(env, MIXTURE, horizon=H, episodes=5)
    x, _ = env.reset(seed=0)
    earned, over = 0.0, False
    for h in range(H):
        if not over:
            x, reward, over, _, _ = env.step(learner.predict(x, h))
            earned += reward
    assert earned == learn(lake(), learner, episodes=1, seed=0).returns[0]


# ---- what came out -------------------------------------------------------------------------------


def test_a_run_is_a_frame_a_table_and_a_file(played, tmp_path):
    learner, returns, history = played
    assert (learner, history) == (played.learner, played.history)
    frame = played.to_dataframe("pandas")
    assert list(frame.columns) == [
        *("algorithm", "seed", "episode", "return", "length", "local_switches", "deployments")
    ]
    assert frame["return"].tolist() == returns.tolist()
    assert frame["deployments"].iloc[-1] == history.deployments == learner.deployments
    assert frame["local_switches"].iloc[-1] == history.local_switches == learner.local_switches
    played.to_csv(tmp_path / "run.csv", columns=("episode", "return"))
    assert (tmp_path / "run.csv").read_text().splitlines()[:2] == ["episode,return", "0,0.0"]
    assert "FrozenLake-v1: S = 16 + 1, A = 4, H = 8; mean return per episode" in str(
        played.summary()
    )
    assert "steps/s" not in played.to_latex()
    played.save(tmp_path / "run.npz")
    found = EnvironmentRun.load(tmp_path / "run.npz")
    assert found.learner.digest() == learner.digest()
    assert str(found.summary()) == str(played.summary())
    assert found.made_on == played.made_on
    np.testing.assert_array_equal(found.history.changes, history.changes)
    with pytest.raises(ValueError, match=r"read it with lowswitch.envs.gymnasium.EnvironmentRun"):
        ls.load(tmp_path / "run.npz")


def test_the_seconds_of_a_run_are_without_compiling():
    class Compiles(Callback):
        def on_start(self, learner):
            self.begun = time.perf_counter()

        def on_episode(self, end):
            if end.episode == 0:
                begun = time.perf_counter()
                numba.njit(lambda x: x + 1)(1.0)
                self.compiled = time.perf_counter() - begun

    callback = Compiles()
    run = learn(lake(), ALGORITHM, horizon=H, episodes=3, callbacks=callback)
    assert run.seconds < time.perf_counter() - callback.begun - callback.compiled / 2


def test_a_mixture_that_began_as_one_counts_as_its_learner_does(tmp_path):
    algorithm = ls.few(deployments=2)
    run = learn(lake(), algorithm, horizon=4, episodes=60)
    began = learner_for(lake(), algorithm, horizon=4, episodes=60).mixture
    np.testing.assert_array_equal(run.history.before, began)
    assert (began != began[0]).any()
    assert run.history.local_switches == run.learner.local_switches
    assert run.history.deployments == run.learner.deployments == 2
    run.save(tmp_path / "run.npz")
    found = EnvironmentRun.load(tmp_path / "run.npz").history
    assert found.local_switches == run.history.local_switches
    np.testing.assert_array_equal(found.before, began)


def test_a_run_is_drawn(played, tmp_path):
    figure = played.plot(tmp_path / "run.png")
    left, right = figure.axes
    assert left.get_legend_handles_labels()[1] == ["mean over 3 episodes"]
    line = left.get_lines()[0]
    assert line.get_ydata()[-1] == pytest.approx(played.returns[-3:].mean())
    assert line.get_xdata()[-1] == 60
    assert right.get_lines()[0].get_ydata()[-1] == played.learner.deployments
    mine = Figure().subplots()
    assert played.plot(ax=mine, what="deployments") is mine.figure
    assert mine.get_ylabel() == "policy changes so far"
    [alone] = played.plot(what="deployments").axes
    assert alone.get_ylabel() == "policy changes so far"


@pytest.mark.parametrize(
    "options",
    [
        {"ratio_to": "a"},
        {"guides": "sqrt"},
        {"band": "interval"},
        {"x": "steps"},
        {"scale": "logx"},
    ],
)
def test_an_option_that_the_figure_of_a_run_does_not_have_is_refused(played, options):
    [name] = options
    with pytest.raises(ValueError, match=f"{name}=.* is for runs of simulate"):
        ls.plot({"a": played}, **options)
    ls.plot({"a": played}, scale="linear")


def test_without_a_number_of_episodes_the_error_says_how_to_choose_it():
    with pytest.raises(ValueError, match=r"episodes is missing.*as in episodes=1_000"):
        learn(lake(), ALGORITHM, horizon=H)
    learner = learner_for(lake(), ALGORITHM, horizon=H, episodes=40)
    learn(lake(), learner, episodes=10)
    with pytest.raises(ValueError, match="as in episodes=30; this learner has room for 30 more"):
        learn(lake(), learner)
    with pytest.raises(ValueError, match="no option 'total_timesteps'; did you mean 'episodes'"):
        learn(lake(), ALGORITHM, horizon=H, total_timesteps=1_000)
    with pytest.raises(ValueError, match=r"write CsvLogger\(\.\.\.\)"):
        learn(lake(), ALGORITHM, horizon=H, episodes=5, callbacks=[CsvLogger])


def test_runs_of_learn_and_of_simulate_are_not_mixed(played):
    simulated = ls.simulate(ls.envs.riverswim(), ALGORITHM, episodes=20, seeds=1, progress=False)
    for show in (ls.summary, ls.plot):
        with pytest.raises(ValueError, match="'mine' is a run of learn, which has returns"):
            show({"mine": played, "other": simulated})


def test_several_runs_are_a_table_and_a_figure(played, tmp_path):
    other = learn(lake(is_slippery=False), MIXTURE, horizon=H, episodes=30)
    text = str(ls.summary([played, other], columns=("algorithm", "episodes")))
    assert [line.split() for line in text.splitlines()[-2:]] == [
        [str(ALGORITHM), "60"],
        [str(MIXTURE), "30"],
    ]
    assert "mine" in str(ls.summary({"mine": played}))
    elsewhere = learn(Paying(), ALGORITHM, horizon=3, episodes=4)
    assert len(ls.summary([played, elsewhere]).tables) == 2
    left, right = ls.plot([played, other], path=tmp_path / "runs.png").axes
    assert left.get_legend_handles_labels()[1][0].startswith(f"{ALGORITHM}, mean over")
    assert [line.get_ydata()[-1] for line in right.get_lines()] == [
        played.learner.deployments,
        other.learner.deployments,
    ]


def test_the_share_of_episodes_that_the_horizon_ended(tmp_path):
    run = learn(Paying(), ALGORITHM, horizon=3, episodes=40)
    over = np.array([length == 3 for length in run.lengths])
    assert 0 < run.cut.mean() < 1
    assert not run.cut[~over].any()
    assert f"{run.cut.mean():.0%}" in str(run.summary(("cut by the horizon",)))
    run.save(tmp_path / "run.npz")
    assert (EnvironmentRun.load(tmp_path / "run.npz").cut == run.cut).all()


# ---- recordings ----------------------------------------------------------------------------------


class Drawn(gymnasium.Env):
    """Walks to the right, and is drawn as a white pixel."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode="rgb_array"):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place += action
        return self.place, 0.0, self.place == 3, False, {}

    def render(self):
        frame = np.zeros((2, 4, 3), dtype=np.uint8)
        frame[:, self.place] = 255
        return frame


def test_a_recording_shows_each_step(tmp_path):
    episode = record(Drawn(), np.ones((5, 5), dtype=int), tmp_path / "walk.gif")
    assert episode.states.tolist() == [0, 1, 2, 4, 4]
    with Image.open(tmp_path / "walk.gif") as film:
        places = []
        for i in range(film.n_frames):
            film.seek(i)
            places.append(int(np.asarray(film.convert("L"))[0].argmax()))
        assert film.info["duration"] == 250
    assert places == [0, 1, 2, 3]


def test_what_cannot_be_recorded_is_refused(tmp_path):
    policy = np.ones((5, 5), dtype=int)
    with pytest.raises(ValueError, match=r"must end in .gif, not 'walk.mp4'"):
        record(Drawn(), policy, "walk.mp4")
    with pytest.raises(ValueError, match=r"made with render_mode=None; make it with render_mode="):
        record(Drawn(None), policy, tmp_path / "walk.gif")
    with pytest.raises(ValueError, match="frames_per_second must be above 0, not 0"):
        record(Drawn(), policy, tmp_path / "walk.gif", frames_per_second=0)
    assert not list(tmp_path.iterdir())
