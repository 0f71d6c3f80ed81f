"""Whether a run may stop: the bounds of its learner in the units of the run, and in words."""

import json

import numpy as np
import pytest

import lowswitch as ls
from ledgers import MDP, approve, made, play
from lowswitch.cli.commands import main
from lowswitch.ledger import Client, LedgerError
from served import Served

SHIFTED = (-1.0, 3.0)  # 0 and 1 are rewards of this range, too


def clinic(path, **options):
    ledger = made(path, ls.few(deployments=3, members=4), episodes=120, **options)
    play(ledger, 80, decide=approve)
    return ledger


def test_a_certificate_is_what_the_learner_says(tmp_path):
    with clinic(tmp_path / "run.db") as ledger:
        learner = ledger._ready().learner
        found, bounds, more = ledger.certificate(2.9), learner.bounds(), learner.one_more()
        assert (found.learned, found.left, found.probability) == (80, 40, 0.05)
        assert (found.value, found.best, found.gap) == (bounds.value, bounds.best, bounds.gap)
        assert found.gain == pytest.approx(more.value - more.other)
        assert found.gain_interval == pytest.approx(more.difference)
        low, high = found.value
        true = np.mean([MDP.evaluate(table) for table in ledger.policy])
        assert low <= true <= high
        assert ledger.certificate(2.9, probability=0.5).gap < found.gap


def test_units_are_those_of_the_run(tmp_path):
    with (
        clinic(tmp_path / "unit.db") as unit,
        clinic(tmp_path / "wide.db", rewards=SHIFTED) as wide,
    ):
        learner = wide._ready().learner
        bounds, found = learner.bounds(), wide.certificate()
        assert found.gap == pytest.approx(4 * bounds.gap)
        assert found.best == pytest.approx(4 * bounds.best - 3)  # three steps from -1 on
        assert found.value == pytest.approx(tuple(4 * end - 3 for end in bounds.value))
        assert unit.certificate().may_stop is None


def test_it_says_whether_to_stop_and_whether_a_deployment_pays(tmp_path):
    with clinic(tmp_path / "run.db") as ledger:
        gap = ledger.certificate().gap
        enough = ledger.certificate(gap * 1.01, cost=1e6)
        assert (enough.may_stop, enough.pays) == (True, False)
        assert f"You may stop: the deployed policy is within {gap * 1.01:g} of" in enough.words
        assert "of the best with 95 % confidence." in enough.words
        assert "it costs 1e+06, so it does not pay." in enough.words
        short = ledger.certificate(gap * 0.99)
        assert (short.may_stop, short.pays) == (False, None)
        assert "go on" in short.words


def test_a_certificate_by_the_command_line(tmp_path, capsys):
    path = str(tmp_path / "run.db")
    clinic(path).close()
    assert main(["ledger", "certificate", path, "--within", "3", "--cost", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["may_stop"], found["cost"], found["learned"]) == (True, 2.0, 80)
    assert main(["ledger", "certificate", path, "--within", "3"]) == 0
    assert capsys.readouterr().out.strip() == found["words"].rpartition(";")[0] + "."


def test_nothing_is_changed_by_looking(tmp_path):
    with clinic(tmp_path / "run.db") as ledger:
        digest = ledger._ready().learner.digest()
        ledger.certificate(0.1)
        assert ledger._ready().learner.digest() == digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"within": 0}, "within must be a positive number"),
        ({"cost": -1}, "cost must be a positive"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, options, message):
    with clinic(tmp_path / "run.db") as ledger, pytest.raises(ValueError, match=message):
        ledger.certificate(**options)


def test_who_has_no_certificate_says_so(tmp_path):
    with made(tmp_path / "q.db") as ledger, pytest.raises(ValueError, match="a Q-learner keeps"):
        ledger.certificate()
    hopeful = made(tmp_path / "o.db", ls.few(deployments=3, members=4), missing="optimistic")
    with hopeful, pytest.raises(LedgerError, match='missing="drop"'):
        hopeful.certificate()


def test_a_certificate_over_http(tmp_path):
    """A client reads what the ledger says; what cannot be asked is refused in words."""
    with clinic(tmp_path / "run.db") as ledger:
        expected = ledger.certificate(2.9, cost=5.0)
    with Served(tmp_path) as served, Client(served.url, served.tokens["auditor"]) as client:
        assert client.certificate(2.9, cost=5.0) == expected
        for asked, says in (
            ("within=near", "within must be numbers"),
            ("within=-1", "within must be"),
            ("probability=2", "probability must"),
            ("until=3", "no field 'until'"),
        ):
            status, answer = served.json("GET", f"/api/certificate?{asked}", role="auditor")
            assert status in (400, 422)
            assert says in answer["says"]
