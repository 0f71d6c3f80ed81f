"""A file is whole and ours, or an error that says so; a failed write leaves what was there."""

import os

import numpy as np
import pytest

import lowswitch as ls
from lowswitch import storage


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
    with pytest.raises(ValueError, match="holds a 'learner', not a 'runs'"):
        ls.load(tmp_path / "learner.npz")


def test_a_file_of_a_later_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_VERSION", 99)
    storage.write(tmp_path / "late.npz", "runs", {}, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="has format 99; this version of lowswitch reads format 1"):
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
    with pytest.raises(ValueError, match="no whole learner"):
        ls.Learner.load(tmp_path / "part.npz")
    storage.write(tmp_path / "runs.npz", "runs", {}, {})
    with pytest.raises(ValueError, match="no whole runs"):
        ls.load(tmp_path / "runs.npz")


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
