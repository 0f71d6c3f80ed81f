"""Machines that send sums: FedQ learns the same from them, up to rounding, whoever plays."""

import pickle

import numpy as np
import pytest

import lowswitch as ls
from conftest import PROBLEMS
from exam import RULES, RoundByRound, same_rounds, same_run, system_of
from lowswitch import concurrent
from lowswitch.concurrent import InProcess, Processes, Stop
from lowswitch.concurrent.sources import Tabular
from lowswitch.concurrent.sums import Summing, Turns, Wanted
from lowswitch.concurrent.worker import Assignment, PiecePlayer, pickled
from lowswitch.io import storage
from lowswitch.kernels.turns import SUMS, first_full_turn, sum_turns

EPISODES, MACHINES = 4_000, 3
LEARNERS = {
    "fedq-h": ls.fedq_hoeffding(c=0.05, machines=MACHINES),
    "fedq-b": ls.fedq_bernstein(c=0.05, machines=MACHINES, clip="remaining"),
    "fedq-advantage": ls.fedq_advantage(c=0.01, machines=MACHINES, reference=30),
    "fedq-early-settled": ls.fedq_early_settled(c=0.005, machines=MACHINES, deployments=300),
}
FOUR = ("dense", "per-step", "masked-sequence", "reward-by-step")

pytestmark = pytest.mark.filterwarnings(
    "ignore::lowswitch.BonusWarning", "ignore::lowswitch.runs.simulate.NothingLearnedWarning"
)


def run(mdp, algorithm, episodes=EPISODES, machines=MACHINES, send="sums", **options):
    return concurrent.run(mdp, algorithm, episodes, machines=machines, send=send, **options)


# ---- what is learned -----------------------------------------------------------------------------


@pytest.mark.parametrize("problem", FOUR)
@pytest.mark.parametrize("name", LEARNERS)
def test_sums_teach_what_episodes_teach(problem, name, tmp_path):
    """The same row changes, and estimates up to rounding: sums of machines are added in another
    order than the episodes of all of them.
    """
    mdp, algorithm = PROBLEMS[problem](), LEARNERS[name]
    by_sums = run(mdp, algorithm, checkpoint=tmp_path / "sums.npz")
    by_episodes = run(mdp, algorithm, send="episodes", checkpoint=tmp_path / "episodes.npz")
    same_run(by_sums, by_episodes)
    tables = [
        storage.read(tmp_path / f"{send}.npz", "concurrent checkpoint")[1]
        for send in ("sums", "episodes")
    ]
    for table in ("tables_cells", "tables_rows", *({"tables_moments"} & tables[0].keys())):
        for field in tables[0][table].dtype.names:
            one, other = (each[table][field] for each in tables)
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=field)
    np.testing.assert_allclose(by_sums.earned_curve, by_episodes.earned_curve, rtol=1e-12)
    assert len(by_sums.history[0]) > 10
    assert by_sums.kept + by_sums.thrown_away == by_sums.played == by_sums.played_under.sum()
    assert by_sums.plays.sum() == by_sums.played * mdp.horizon
    assert by_sums.rounds_curve[-1] == by_sums.rounds >= by_episodes.rounds
    assert by_sums.played > by_sums.kept  # long rounds were played by guesses


def test_every_rule_is_the_same():
    """No episode but the last of a round changes the policy, so no rule cuts one."""
    mdp, algorithm = PROBLEMS["dense"](), LEARNERS["fedq-b"]
    first, *others = (run(mdp, algorithm, rule=rule) for rule in RULES)
    for other in others:
        same_rounds(first, other)


def test_a_run_that_ends_by_itself_ends_at_the_same_episode():
    mdp, algorithm = PROBLEMS["dense"](), LEARNERS["fedq-early-settled"]
    stop = Stop(mixture=0.15)
    by_sums = run(mdp, algorithm, 60_000, stop=stop)
    by_episodes = run(mdp, algorithm, 60_000, stop=stop, send="episodes")
    assert by_sums.stopped == by_episodes.stopped == "mixture"
    same_run(by_sums, by_episodes)


# ---- who plays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fedq-b", "fedq-advantage"])
def test_processes_send_the_same_sums_in_fewer_bytes(name):
    mdp, algorithm = PROBLEMS["dense"](), LEARNERS[name]
    fleet = Processes(workers=2)
    by_sums = run(mdp, algorithm, fleet=fleet)
    here = run(mdp, algorithm)
    same_run(by_sums, here)  # bit for bit, because sums of machines are added in their order
    assert by_sums.earned == here.earned
    by_episodes = run(mdp, algorithm, fleet=fleet, send="episodes")
    bytes_of = [one.bytes_sent + one.bytes_received for one in (by_sums, by_episodes)]
    assert bytes_of[0] < 0.8 * bytes_of[1]


def test_a_worker_that_knows_nothing_sends_the_same_sums():
    """As the successor of one that was lost; and a worker that has them plays nothing again."""
    mdp = PROBLEMS["dense"]()
    policy, due = mdp.actions_allowed.argmax(axis=-1), np.full((mdp.horizon, mdp.states), 40)
    packed = pickled(Tabular(mdp), 5, pickle.dumps, "process")
    none, machines = np.empty((0, 3), dtype=int), np.array([1, 2])
    wanted = Wanted(np.arange(SUMS), np.ones((3, mdp.horizon, mdp.states)), np.array([50, 70]))
    scout = Turns(30, 60, 4, due)
    last = Turns(30, 25, 4, None, wanted)
    old, new = PiecePlayer(packed), PiecePlayer(packed)
    said = old.play(Assignment((1, 1), policy, none, machines, scout))
    assert 0 < said.full <= 60 == said.played
    parts = [player.play(Assignment((2, 1), policy, none, machines, last)) for player in (old, new)]
    assert [one.played for one in parts] == [60, 25]
    for name in ("starts", "rows", "counts", "sums", "earned"):
        one, other = (getattr(part, name) for part in parts)
        assert one.tolist() == other.tolist()
    assert parts[0].surplus.sum() == 2 * 35 * mdp.horizon
    assert parts[1].surplus.size == 0
    assert parts[0].counts.sum() == 2 * 25 * mdp.horizon


@pytest.mark.parametrize("name", ["fedq-h", "fedq-early-settled"])
def test_a_run_in_pieces_is_the_whole_run(name, tmp_path):
    mdp, algorithm, file = PROBLEMS["per-step"](), LEARNERS[name], tmp_path / "run.npz"
    whole = run(mdp, algorithm)
    for rounds in (3, 700, 1_100, 10**6):
        piece = run(mdp, algorithm, checkpoint=file, stop=Stop(rounds=rounds))
    same_run(piece, whole)
    same_rounds(piece, whole)
    with pytest.raises(ValueError, match="send='sums', this run has send='episodes'"):
        run(mdp, algorithm, checkpoint=file, send="episodes")


def test_an_environment_that_fails_is_named():
    mdp = PROBLEMS["dense"]()
    source = system_of(mdp, replayable=True)
    plays = source.play

    def fails(policy, episodes):
        if (episodes == 3_001).any():
            raise concurrent.PlayError("broken", 3_001)
        return plays(policy, episodes)

    source.play = fails
    with pytest.raises(concurrent.PlayError, match="broken") as caught:
        run(source, LEARNERS["fedq-b"])
    assert (caught.value.episode, caught.value.machine) == (3_001, 3_001 % MACHINES)


# ---- by hand -------------------------------------------------------------------------------------


def test_a_quota_is_filled_by_one_machine_by_hand():
    """Two machines, H = 2: machine 1 is in state 1 at step 0 for the second time in turn 3."""
    states = np.array([[[0, 0], [1, 0]], [[1, 0], [0, 0]], [[0, 0], [1, 1]]], dtype=np.int32)
    due = np.array([[9, 2], [9, 9]])
    seen = np.zeros((2, 2, 2), dtype=np.int64)
    assert first_full_turn(states, due, seen) == 3
    assert first_full_turn(states[:2], due, np.zeros_like(seen)) == 0
    assert first_full_turn(states, due - 1, np.zeros_like(seen)) == 1


def test_sums_by_hand():
    """V = 2, lower value 1, reference 0.5 in state 1 at step 1; rewards 0.25 and 1."""
    states, rewards = np.array([[[0, 1]]], dtype=np.int32), np.array([[[0.25, 1.0]]])
    values, lowers, references = np.zeros((3, 2, 2))
    values[1, 1], lowers[1, 1], references[1, 1] = 2, 1, 0.5
    counts, sums = np.zeros((1, 2, 2), dtype=np.int64), np.zeros((1, 2, 2, SUMS))
    sum_turns(states, rewards, values, lowers, references, 0, 1, counts, sums)
    assert counts[0].tolist() == [[1, 0], [0, 1]]
    assert sums[0, 0, 0].tolist() == [2.25, 0.25, 1.25, 0.5, 0.25, 1.5, 2.25, 2, 4]
    assert sums[0, 1, 1].tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0]  # nothing follows the last step
    assert not Summing(2).of


def test_where_there_are_no_sums_they_are_refused():
    mdp, fedq = PROBLEMS["dense"](), LEARNERS["fedq-h"]
    live = system_of(mdp)
    for source, algorithm, options, message in (
        (mdp, fedq, {"send": "totals"}, "send must be"),
        (mdp, fedq, {"machines": 4}, r"take ls.fedq_hoeffding\(machines=4\)"),
        (mdp, ls.ucb2_hoeffding(), {}, r"take ls.fedq_hoeffding\(machines=3\)"),
        (live, fedq, {}, "needs a source that can be replayed"),
        (mdp, fedq, {"delay": 2}, "outcomes without delay"),
        (mdp, fedq, {"fleet": RoundByRound()}, "a RoundByRound cannot make sums"),
        (ls.features.problems.fixed_arms(arms=3, features=2), ls.linear(), {}, "and send out"),
    ):
        with pytest.raises(ValueError, match=message):
            run(source, algorithm, 9, **options)
    assert run(mdp, fedq, 9, fleet=InProcess()).rounds == 3
