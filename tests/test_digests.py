"""Every history is what it was: those of all learners, of rounds and of bandits, as digests."""

import hashlib
import json

import pytest

from conftest import ALGORITHMS
from digests import FILE, MACHINES, in_rounds, of_bandits, of_mbie, simulated
from lowswitch import archive, bandits

KEPT = json.loads(FILE.read_text())


def close(found, kept):
    """The same histories; regrets may differ in the last digits where a machine adds otherwise."""
    digest, regret, *rounds = found
    return [digest, *rounds] == [kept[0], *kept[2:]] and regret == pytest.approx(kept[1], rel=1e-8)


# of the histories of these learners, by the semantics of the kernels; when a history changes,
# raise archive.SEMANTICS and write down the new digest, so that old checkpoints are not resumed
SEMANTICS = {2: "c15669353a21da31"}  # 2: pooled planners, which are not among these
WATCHED = ("ucb-h", "ucb-b", "ucb2-b", "stage-q", "ucb-advantage", "ucbvi-bf", "mvp-all", "psrl")


def test_checkpoints_are_resumed_by_the_semantics_that_wrote_them():
    histories = [KEPT[part][name][0] for part in ("simulate", "rounds") for name in WATCHED]
    found = hashlib.sha256(" ".join(histories).encode()).hexdigest()[:16]
    assert {archive.SEMANTICS: found} == SEMANTICS


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
