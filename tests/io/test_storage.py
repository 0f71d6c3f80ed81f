"""A file is whole and ours, or an error that says so; a failed write leaves what was there; records
come back as they were, and finished work is done once.
"""

import dataclasses
import json
import os
from typing import NamedTuple

import numpy as np
import pytest

import lowswitch as ls
from conftest import random_tables
from lowswitch.io import archive, storage


@pytest.fixture
def learner():
    return ls.Learner(ls.ucb2_bernstein(), horizon=2, states=3, actions=2, episodes=10)


def test_a_truncated_file_is_refused(learner, tmp_path):
    path = tmp_path / "learner.npz"
    learner.save(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="not a lowswitch file, or is damaged"):
        ls.Learner.load(path)


def test_a_flipped_byte_is_refused(learner, tmp_path):
    path = tmp_path / "learner.npz"
    learner.save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match="learner.npz' is"):
        ls.Learner.load(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04"])
def test_a_foreign_file_is_refused(content, tmp_path):
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"foreign.npz' is not a lowswitch file"):
        ls.Learner.load(path)


def test_a_foreign_npz_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("other.npz", "array.npy"):
        with pytest.raises(ValueError, match="not a lowswitch file"):
            ls.load(tmp_path / name)


def test_a_file_of_another_kind_is_refused(learner, tmp_path):
    learner.save(tmp_path / "learner.npz")
    message = r"is of the kind 'learner', not 'runs'; read it with lowswitch\.Learner\.load"
    with pytest.raises(ValueError, match=message):
        ls.load(tmp_path / "learner.npz")


def test_a_file_of_a_later_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "FORMAT", 99)
    storage.write(tmp_path / "late.npz", "runs", {}, {})
    monkeypatch.undo()
    with pytest.raises(
        ValueError, match="has format 99; this version of lowswitch reads formats 2 and 3"
    ):
        ls.load(tmp_path / "late.npz")


def test_a_file_without_its_arrays_is_refused(tmp_path):
    facts = {
        "algorithm": ls.ucb_hoeffding().to_dict(),
        "size": {"horizon": 1, "states": 1, "actions": 1, "episodes": 1},
        "told": 0,
    }
    storage.write(
        tmp_path / "part.npz", "learner", facts, {"allowed": np.ones((1, 1, 1), dtype=bool)}
    )
    with pytest.raises(ValueError, match="no complete learner"):
        ls.Learner.load(tmp_path / "part.npz")
    storage.write(tmp_path / "runs.npz", "runs", {}, {})
    with pytest.raises(ValueError, match="no complete runs"):
        ls.load(tmp_path / "runs.npz")


class Curve(NamedTuple):
    times: np.ndarray
    costs: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Record:
    algorithm: ls.Algorithm
    curve: Curve
    history: tuple[ls.History, ...] | None
    seconds: dict[str, float]
    machines: tuple[int, ...]
    values: np.ndarray
    name: str = "none"


def record(**changes):
    history = [ls.History(np.arange(4 * n).reshape(n, 4)) for n in (2, 0, 1)]  # ragged
    given = {
        "algorithm": ls.ucb2_bernstein(c=0.1),
        "curve": Curve(np.array([1, 10]), np.array([0.5, 0.25])),
        "history": tuple(history),
        "seconds": {"play": 0.5},
        "machines": (1, 2),
        "values": np.zeros((2, 0), dtype=np.int32),
    }
    return Record(**given | changes)


def assert_same(found, given):
    assert (found.algorithm, found.machines) == (given.algorithm, given.machines)
    assert (found.seconds, found.name) == (given.seconds, given.name)
    for one, other in zip(
        [*found.curve, *(part.changes for part in found.history)],
        [*given.curve, *(part.changes for part in given.history)],
        strict=True,
    ):
        assert one.tolist() == other.tolist()


def test_a_record_comes_back_as_it_was(tmp_path):
    storage.save(tmp_path / "record.npz", "runs", record(name="one"))
    found = storage.load(tmp_path / "record.npz", "runs", Record)
    assert_same(found, record(name="one"))
    assert (found.values.dtype, found.values.shape) == (np.int32, (2, 0))
    storage.save(tmp_path / "record.npz", "runs", record(history=None))
    assert storage.load(tmp_path / "record.npz", "runs", Record).history is None


def test_a_record_goes_through_json():
    data = json.loads(json.dumps(storage.pack(record())))
    assert_same(storage.unpack(Record, data), record())
    del data["name"]  # files from before there was this field
    assert storage.unpack(Record, data).name == "none"


def test_a_record_without_a_field_is_refused(tmp_path):
    storage.save(tmp_path / "record.npz", "runs", record())
    facts, arrays = storage.read(tmp_path / "record.npz", "runs")
    for missing in ("algorithm", "curve", "history"):
        rest = {name: fact for name, fact in facts.items() if name != missing}
        storage.write(tmp_path / "record.npz", "runs", rest, arrays)
        with pytest.raises(ValueError, match=f"no complete runs .*{missing}.*write it again"):
            storage.load(tmp_path / "record.npz", "runs", Record)
    for missing in ("values", "curve.times", "history.2.changes"):
        rest = {name: array for name, array in arrays.items() if name != missing}
        storage.write(tmp_path / "record.npz", "runs", facts, rest)
        with pytest.raises(ValueError, match=f"no complete runs .*{missing}.*write it again"):
            storage.load(tmp_path / "record.npz", "runs", Record)


def test_finished_work_is_done_once(tmp_path):
    done = []

    def compute():
        done.append(1)
        return Curve(np.arange(2), np.zeros(2))

    kept = storage.Kept(tmp_path / "folder")
    for kind, configuration, times in (
        ("curve", [1], 1),
        ("curve", [1], 1),
        ("curve", [2], 2),
        ("other", [1], 3),
    ):
        assert kept.get(kind, configuration, compute, Curve).times.tolist() == [0, 1]
        assert len(done) == times
    for path in kept.folder.iterdir():
        path.write_bytes(b"half a file")
    assert kept.get("curve", [1], compute, Curve).costs.tolist() == [0, 0]
    assert len(done) == 4
    storage.Kept(None).get("curve", [1], compute, Curve)
    assert len(done) == 5
    assert len(list(kept.folder.iterdir())) == 3


def test_finished_work_of_another_version_is_done_again(tmp_path, monkeypatch):
    kept = storage.Kept(tmp_path)
    kept.get("curve", [], lambda: Curve(np.zeros(1), np.zeros(1)), Curve)
    monkeypatch.setattr(ls, "__version__", "another")
    found = kept.get("curve", [], lambda: Curve(np.ones(1), np.zeros(1)), Curve)
    assert found.times.tolist() == [1]


def test_a_fingerprint_tells_problems_apart():
    tables = random_tables(2, 2, 0)
    problems = [
        ls.envs.riverswim(states=3, horizon=4),
        ls.envs.riverswim(states=3, horizon=5),
        ls.envs.riverswim(states=4, horizon=4),
        ls.envs.riverswim(states=3, horizon=4, reward_law="bernoulli"),
        *(ls.TabularMDP(*tables, horizon=2, start=start) for start in ([0, 1, 0], [1, 0, 0])),
    ]
    prints = [json.dumps(mdp.facts()) for mdp in problems]
    assert len(set(prints)) == len(problems)
    again = ls.envs.riverswim(states=3, horizon=4)
    assert json.dumps(again.facts()) == prints[0]


def test_a_missing_file():
    with pytest.raises(ValueError, match="there is no file 'nowhere.npz'"):
        ls.load("nowhere.npz")


def test_an_unwritable_path_is_refused(learner, tmp_path):
    for path in (tmp_path / "no" / "such" / "folder.npz", tmp_path):
        with pytest.raises(
            ValueError, match="cannot write .* choose a file in a folder that exists"
        ):
            learner.save(path)


def test_a_write_that_fails_leaves_the_old_file(learner, tmp_path):
    path = tmp_path / "learner.npz"
    learner.save(path)
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="power cut"), storage.replacing(path) as file:
        file.write(b"half")
        raise RuntimeError("power cut")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["learner.npz"]
