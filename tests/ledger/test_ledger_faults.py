"""What may befall a ledger, in small numbers; `benchmarks/ledger_faults.py` has the large ones."""

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
