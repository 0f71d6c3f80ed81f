"""Files are whole or refused, keep their mode, leave nothing behind, and have one owner."""

import io
import json
import os
import re
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from fuzz.files import KINDS, LEARNERS, MDP, taught
from lowswitch import concurrent
from lowswitch.io import archive, files, storage
from lowswitch.io.files import OwnedError

# ---- whole or refused ----------------------------------------------------------------------------


def rewritten(data, change):
    """The archive with its members changed, and right checksums of its own."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data + b"x", "does not begin and end as an archive does"),
        (lambda data: b"x" + data, "does not begin and end as an archive does"),
        (
            lambda data: rewritten(data, lambda name, part: part + b"\0" * (name == "cells.npy")),
            "cells.npy has too few or too many bytes",
        ),
        (
            lambda data: rewritten(data, lambda name, part: part[: -(name == "cells.npy") or None]),
            "cells.npy has too few or too many bytes",
        ),
        (
            lambda data: rewritten(data, lambda _, part: part.replace(b"\x01", b"\x02")),
            "damaged",
        ),
        (lambda data: data[:100], "does not begin and end as an archive does"),
        (lambda data: b"a,b\n1,2\n", "give one that a `save` or `--save`"),
        (lambda data: b"", "does not begin and end as an archive does"),
    ],
)
def test_nothing_is_missing_and_nothing_is_left_over(change, reason):
    data = taught("rows").to_bytes()
    assert ls.Learner.from_bytes(data).told == 25
    with pytest.raises(ValueError, match=f"data is not a lowswitch file.*{reason}"):
        ls.Learner.from_bytes(change(data))


def test_a_member_that_claims_to_be_huge_is_refused_before_it_is_allocated():
    head = io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
    np.lib.format.write_array_header_1_0(head, facts)

    def claim(name, part):
        return head.getvalue() if name == "cells.npy" else part

    with pytest.raises(ValueError, match="cells.npy has too few or too many bytes"):
        ls.Learner.from_bytes(rewritten(taught("rows").to_bytes(), claim))


def test_a_foreign_file_with_objects_gets_no_advice_to_unpickle_it(tmp_path):
    np.savez(tmp_path / "foreign.npz", lowswitch=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="is not a lowswitch file, or is damaged") as refused:
        ls.load(tmp_path / "foreign.npz")
    assert "allow_pickle" not in str(refused.value)


@pytest.mark.parametrize("name", ["rows", "frontier"])
def test_every_file_says_its_version_and_its_digest(name, tmp_path):
    KINDS[name].make(tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    if name == "frontier":
        facts = json.loads(data)
    else:
        with np.load(tmp_path / "file") as file:
            facts = json.loads(str(file["lowswitch"]))
        assert facts["semantics"] == archive.SEMANTICS
    assert facts["library"] == ls.__version__
    assert len(facts["sha256"]) == 64


def before_digests(path, kind):
    """The file as the format before this one had it."""
    facts, arrays = storage.read(path, kind)
    text = json.dumps({"version": 2, "kind": kind, **facts})
    np.savez_compressed(path, **arrays, lowswitch=np.array(text))
    os.replace(f"{path}.npz", path)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "frontier"])
def test_files_of_the_format_before_are_still_read(name, tmp_path):
    path = tmp_path / "file"
    KINDS[name].make(path)
    before_digests(path, KINDS[name].name)
    KINDS[name].use(path)


def test_frontiers_from_before_there_were_digests_are_still_read(tmp_path):
    path = tmp_path / "frontier.json"
    KINDS["frontier"].make(path)
    facts = ls.Frontier.load(path).to_dict()
    path.write_text(json.dumps(facts))
    assert ls.Frontier.load(path).to_dict() == facts
    path.write_text(json.dumps(facts | {"sha257": ""}))
    with pytest.raises(ValueError, match="damaged .it has sha257"):
        ls.Frontier.load(path)


OTHER = archive.SEMANTICS + 1


@pytest.mark.parametrize("kind", archive.KINDS)
def test_a_file_of_other_semantics_is_refused_if_a_run_goes_on_from_it(kind, monkeypatch):
    anew = archive.KINDS[kind].anew
    assert bool(anew) == kind.endswith(("learner", "checkpoint", "gpu state", "environment run"))
    with monkeypatch.context() as patch:
        patch.setattr(archive, "SEMANTICS", OTHER)
        data = archive.to_bytes(kind, {"told": 1}, {})
    if not anew:
        assert archive.from_bytes(data, kind) == ({"told": 1}, {})
        return
    says = f"semantics {OTHER}, .* semantics {archive.SEMANTICS}, .* use the version .* or {anew}"
    with pytest.raises(archive.RefusedFileError, match=says):
        archive.from_bytes(data, kind)


@pytest.mark.parametrize("name", ["rows", "checkpoint"])
def test_a_learner_and_a_checkpoint_of_other_kernels_are_not_resumed(name, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    with monkeypatch.context() as patch:
        patch.setattr(archive, "SEMANTICS", OTHER)
        KINDS[name].make(path)
    with pytest.raises(ValueError, match=f"semantics {OTHER}, but this version of lowswitch has"):
        KINDS[name].use(path)


def test_a_file_of_the_format_before_has_the_first_semantics(tmp_path, monkeypatch):
    path = tmp_path / "file"
    KINDS["rows"].make(path)
    before_digests(path, "learner")
    KINDS["rows"].use(path)  # which no change has concerned so far
    monkeypatch.setitem(archive.CHANGED, archive.SEMANTICS, "")
    with pytest.raises(ValueError, match=f"semantics 1, .* semantics {archive.SEMANTICS}"):
        KINDS["rows"].use(path)


def test_a_learner_of_earlier_semantics_is_refused_if_its_algorithm_changed(monkeypatch):
    size = {"horizon": 2, "states": 2, "actions": 2, "episodes": 9}
    with monkeypatch.context() as patch:
        patch.setattr(archive, "SEMANTICS", 1)
        pooled, other = (
            ls.Learner(ls.rmax(known=1, pooled=pooled), **size).to_bytes()
            for pooled in (True, False)
        )
    assert ls.Learner.from_bytes(other).told == 0
    with pytest.raises(ValueError, match="semantics 1, .* semantics 2"):
        ls.Learner.from_bytes(pooled)


def test_the_page_on_files_has_every_kind_and_how_it_resumes():
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z ]+)` \|.*\| (.*?) \|$", page, re.MULTILINE))
    assert rows.keys() == archive.KINDS.keys()
    for name, kind in archive.KINDS.items():
        assert rows[name].startswith("is refused" if kind.anew else "is read"), name


def test_a_kind_of_file_says_how_it_resumes_before_one_is_written():
    with pytest.raises(ValueError, match="'curve' is not a kind of file; add it to KINDS"):
        archive.to_bytes("curve", {}, {})


@pytest.mark.parametrize("name", LEARNERS)
def test_a_kept_learner_is_loaded_to_what_it_was(name):
    """Its file was written before UCB-Advantage had references that settle."""
    kept = ls.Learner.load(Path(__file__).parents[1] / "learners_kept" / f"{name}.npz")
    assert kept.digest() == taught(name).digest()


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_goes_through_bytes_as_it_is(name):
    learner = taught(name)
    again = ls.Learner.from_bytes(learner.to_bytes())
    assert again.digest() == learner.digest()
    assert again.to_bytes() == learner.to_bytes()
    learner.tell([0, 0], [0, 0], [0.5, 0.5], off_policy=True)
    assert again.digest() != learner.digest()


@pytest.mark.parametrize(
    ("name", "array", "field", "value", "reason"),
    [
        ("rows", "rows", "action", -7, "the policy has actions outside 0 to 1"),
        ("rows", "rows", "action", 1, "has actions that are not allowed"),
        ("rows", "cells", "visits", -3, "visits are negative"),
        ("rows", "cells", "visits", 9, "visits do not match 25 episodes"),
        ("rows", "cells", "q", np.nan, "estimates must be finite numbers"),
        ("rows", "cells", "due", 2, "triggers do not match the schedule"),
        ("rows", "clock", "batch", 10**9, "its clock counts 1000000000 batch"),
        ("rows", "clock", "deployments", -1, "its clock counts -1 deployments"),
        ("stages", "cells", "begin", 10**6, "stages begin outside of their visits"),
        ("mixture", "policy", None, 2, "policy has actions outside 0 to 1"),
        ("mixture", "keys", "members", 5, "its noise does not match seed 0"),
        ("planner", "records", "start", 2**40, "its successors lie outside their pool"),
        ("planner", "records", "size", 10**6, "its successors lie outside their pool"),
        ("planner", "pool", "state", 77, "successors are not states"),
        ("planner", "clock", "pool", 10**9, "its successors lie outside their pool"),
        ("posterior", "order", None, 0, "its order of states is not a permutation"),
    ],
)
def test_what_compiled_code_would_trust_is_checked(name, array, field, value, reason):
    facts, arrays = archive.from_bytes(taught(name).to_bytes(), "learner")
    edited = arrays[array].copy()
    (edited if field is None else edited[field])[:] = value
    data = archive.to_bytes("learner", facts, arrays | {array: edited})
    with pytest.raises(ValueError, match=f"the bytes hold no complete learner .*{reason}"):
        ls.Learner.from_bytes(data)


@pytest.mark.parametrize(
    ("array", "field", "value", "reason"),
    [
        ("rounds_totals", "last", 10**9, "it learned"),
        ("rounds_totals", "learned", 0, "its clock counts 11 deployments, not 0 to 0"),
        ("rounds_totals", "passed", 10**6, "it passed 1000000 points"),
        ("rounds_plays", None, -1, "its plays are not counts"),
        ("log_changes", None, 7, "its changes are not in the order|must be 0 to"),
        ("window_actions", None, 9, "actions of episodes played ahead must be 0 to 1"),
        ("window_rewards", None, np.nan, "rewards of episodes played ahead lie outside"),
        ("account_balance", "passed", 10**6, "it charged 1000000 points"),
        ("account_balance", "regret", np.nan, "regret must be finite numbers"),
    ],
)
def test_what_a_run_would_trust_is_checked(array, field, value, reason, tmp_path):
    path = tmp_path / "run.npz"
    KINDS["speculation"].make(path)
    facts, arrays = storage.read(path, "concurrent checkpoint")
    edited = arrays[array].copy()
    (edited if field is None else edited[field])[:] = value
    storage.write(path, "concurrent checkpoint", facts, arrays | {array: edited})
    with pytest.raises(ValueError, match=f"is not a complete checkpoint .*({reason})"):
        KINDS["speculation"].use(path)


# ---- saving --------------------------------------------------------------------------------------


def test_a_file_keeps_its_mode(tmp_path):
    path = tmp_path / "text"
    for mode in (0o600, 0o644, 0o664):
        path.write_text("before")
        path.chmod(mode)
        files.write_text(path, "after")
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("after", mode)


def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "learner.npz"
    path.write_text("mine")
    path.chmod(0o444)
    with pytest.raises(ValueError, match="which is read-only; make it writable or choose another"):
        taught("rows").save(path)
    assert path.read_text() == "mine"


def test_what_a_killed_process_left_is_collected_and_what_another_writes_is_not(tmp_path):
    path, stale = tmp_path / "text", tmp_path / ".lowswitch-0123456789abcdef"
    stale.write_text("half of a file")
    with files.replacing(tmp_path / "other") as slow:  # a writer that is not finished
        slow.write(b"other")
        files.write_text(path, "mine")
        assert not stale.exists()
    assert (tmp_path / "other").read_text() == "other"
    assert sorted(os.listdir(tmp_path)) == ["other", "text"]


def test_a_file_that_another_thread_takes_for_left_is_begun_again(tmp_path, monkeypatch):
    """Between its creation and its lock an unfinished file looks like one that was left."""
    real, begun = files._lock, []

    def lock(file):
        if not begun:
            begun.append(file.name)
            files._collect_stale(tmp_path)  # another thread, in just that moment
        real(file)

    monkeypatch.setattr(files, "_lock", lock)
    storage.write_text(tmp_path / "text", "whole")
    assert (tmp_path / "text").read_text() == "whole"
    assert os.listdir(tmp_path) == ["text"]
    assert not os.path.exists(begun[0])


def test_the_folder_is_synced_after_the_file(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda place: synced.append(stat.S_ISDIR(os.fstat(place).st_mode))
    )
    files.write_text(tmp_path / "text", "mine")
    assert synced == [False, True]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk to offer")
def test_a_full_disk_is_an_error_that_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_text("before")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match="cannot write .*No space left on device"):
        files.write_text(path, "after")
    assert (path.read_text(), os.listdir(tmp_path)) == ("before", ["text"])


def test_kept_work_that_cannot_be_written_is_not_lost(tmp_path, monkeypatch):
    kept = storage.Kept(tmp_path / "folder")

    def full(*_):
        raise ValueError("cannot write: No space left on device")

    monkeypatch.setattr(storage, "save", full)
    with pytest.warns(RuntimeWarning, match="a result is not saved: .*No space left"):
        assert kept.get("curve", [1], lambda: {"a": np.ones(1)}, dict[str, np.ndarray])["a"] == 1


def test_kept_work_is_that_of_this_code_and_says_that_it_was_kept(tmp_path, monkeypatch):
    kept, done = storage.Kept(tmp_path), []

    def compute():
        done.append(1)
        return {"a": np.ones(1)}

    for _ in range(2):
        kept.get("curve", [1], compute, dict[str, np.ndarray])
    assert (len(done), kept.note) == (1, f"1 result was found in {tmp_path}")
    monkeypatch.setattr(storage, "code_stamp", lambda module: "an edit of a kernel")
    kept.get("curve", [1], compute, dict[str, np.ndarray])
    assert len(done) == 2


# ---- one owner -----------------------------------------------------------------------------------

OWNER = """
import sys
from lowswitch.io.files import owning
with owning(sys.argv[1]):
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_a_second_driver_is_refused_with_the_first_ones_process(tmp_path):
    path = tmp_path / "run.npz"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout.readline() == "mine\n"
        with pytest.raises(OwnedError, match=f"run.npz' is in use by process {owner.pid} on"):
            KINDS["checkpoint"].make(path)
        assert not path.exists()
        owner.kill()
        owner.wait()
    KINDS["checkpoint"].make(path)  # a lock ends with its owner, even if that is killed
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_run_within_a_run_is_refused_too(tmp_path):
    path = tmp_path / "run.npz"
    refused = []

    def play(policy, episodes):
        with pytest.raises(OwnedError, match=f"in use by process {os.getpid()}") as error:
            concurrent.run(MDP, LEARNERS["rows"], 9, machines=1, checkpoint=path)
        refused.append(error)
        states = np.zeros((len(episodes), 2), dtype=int)
        return states, policy[np.arange(2), states], np.zeros(states.shape)

    source = concurrent.System(play, horizon=2, states=3, actions=2)
    concurrent.run(source, LEARNERS["rows"], 3, machines=1, checkpoint=path, progress=False)
    assert len(refused) == 3


class Waits(ls.parts.FromCounts):
    """A planner that meets another thread while it plans."""

    inside, go_on = threading.Event(), threading.Event()

    def plan(self, counts):
        self.inside.set()
        assert self.go_on.wait(30)
        return counts.deployed[0]


def test_a_second_thread_is_refused_while_one_tells():
    algorithm = ls.Algorithm(
        estimator=Waits(), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2)
    )
    learner = ls.Learner(algorithm, horizon=1, states=1, actions=2, episodes=9)
    first = threading.Thread(target=learner.tell, args=([0], [0], [0.5]))
    first.start()
    assert Waits.inside.wait(30)
    for call in (lambda: learner.tell([0], [0], [0.5]), learner.to_bytes):
        with pytest.raises(ValueError, match="another thread is telling or saving this learner"):
            call()
    Waits.go_on.set()
    first.join()
    assert (learner.told, learner.visits.sum()) == (1, 1)
    learner.tell([0], [0], [0.5])
