"""What may befall a ledger, in small numbers; `benchmarks/ledger_faults.py` has the large ones."""

import shutil

import pytest

import faults


def test_kills_lose_nothing_and_double_nothing(tmp_path):
    assert faults.kills(tmp_path, episodes=60, most_kills=4, seed=0)["kills"] == 4


def test_a_torn_log_opens_at_a_commit(tmp_path):
    assert faults.torn_logs(tmp_path, trials=12, seed=0)["different commits"] > 5


def test_verify_names_the_first_bad_event(tmp_path):
    faults.tampered(tmp_path, trials=15, seed=0)


def test_a_full_disk_acknowledges_nothing_and_changes_nothing(tmp_path):
    assert faults.full_disk(tmp_path, points=4, seed=0)["refused"] == 4


def test_a_server_that_stops_at_once_loses_nothing(postgres, tmp_path):
    address = f"{postgres.get_uri()}#stopped"
    assert faults.stops(postgres, address, tmp_path, times=2, episodes=20)["stops"] == 2


def test_no_harmful_flip_of_a_file_is_silent(tmp_path):
    found = faults.flips(tmp_path, trials=25, seed=1)
    assert (found["silent"], found["found by verify"] > 3) == (0, True)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(("synchronous", "lost"), [("FULL", False), ("OFF", True)])
def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path, synchronous, lost):
    """Without syncs it does, and the test sees that."""
    found = faults.power_cuts(tmp_path, episodes=8, trials=8, seed=0, synchronous=synchronous)
    assert (found["lost"] + found["not whole"] > 0) is lost
