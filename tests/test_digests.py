"""Every history is what it was: those of all learners, of rounds and of bandits, as digests."""

import json

import pytest

from conftest import ALGORITHMS
from digests import FILE, MACHINES, in_rounds, of_bandits, of_mbie, simulated
from lowswitch import bandits

KEPT = json.loads(FILE.read_text())


def close(found, kept):
    """The same histories; regrets may differ in the last digits where a machine adds otherwise."""
    digest, regret, *rounds = found
    return [digest, *rounds] == [kept[0], *kept[2:]] and regret == pytest.approx(kept[1], rel=1e-8)


def test_nothing_is_forgotten():
    assert list(KEPT["simulate"]) == list(KEPT["rounds"]) == list(ALGORITHMS)
    assert list(KEPT["mbie"]) == list(MACHINES)
    assert list(KEPT["bandits"]) == list(bandits.RECIPES)


@pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_histories_are_kept(name):
    assert close(simulated(ALGORITHMS[name], exact=False), KEPT["simulate"][name])


@pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_rounds_are_kept(name):
    assert close(in_rounds(ALGORITHMS[name], exact=False), KEPT["rounds"][name])


@pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")
@pytest.mark.parametrize("machines", MACHINES)
def test_mbie_is_kept(machines):
    assert close(of_mbie(machines), KEPT["mbie"][machines])


@pytest.mark.parametrize("name", bandits.RECIPES)
def test_bandits_are_kept(name):
    assert close(of_bandits(bandits.RECIPES[name]()), KEPT["bandits"][name])
