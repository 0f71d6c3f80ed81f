"""Subclasses of the library's parts: refused where compiled code would run in their place, and
otherwise used.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.algorithms import parts
from lowswitch.io import storage
from lowswitch.learners.ridge_spec import linear_form

BASES = (parts.FromCounts, parts.OwnUpdate, parts.OwnBonus)  # which are there to be derived from
PAIRS = [
    (estimator, bonus)
    for estimator, kinds in parts.BONUSES.items()
    for bonus in kinds
    if not {estimator, bonus} & {*BASES}
]


@dataclass(frozen=True, kw_only=True)
class LogBonus(parts.Hoeffding):
    """What somebody might write to try another bonus."""

    def width(self, n):
        return self.c * np.log(n)


def derived(kind):
    return type(f"My{kind.__name__}", (kind,), {})


def algorithm_of(estimator, bonus):
    """With these parts, and a schedule that goes with them."""
    schedule = parts.Growth(2)
    if isinstance(estimator, parts.Ridge):
        schedule = parts.Grid("equal", 3)
    elif isinstance(estimator, parts.FederatedAdvantage):
        schedule = parts.StageRounds(machines=2)
    elif isinstance(estimator, parts.FederatedQ | parts.FederatedSettled):
        schedule = parts.VisitRounds(machines=2)
    return ls.Algorithm(estimator=estimator, bonus=bonus, schedule=schedule)


def made(kind):
    return kind(members=1) if issubclass(kind, parts.Ridge) else kind()


@pytest.mark.parametrize(("estimator", "bonus"), PAIRS)
def test_a_subclass_of_a_compiled_estimator_or_bonus_is_refused(estimator, bonus):
    algorithm_of(made(estimator), bonus())
    for changed, message in (
        ((derived(estimator), bonus), f"estimator My{estimator.__name__} is a subclass of"),
        ((estimator, derived(bonus)), f"bonus My{bonus.__name__} is a subclass of"),
    ):
        with pytest.raises(ValueError, match=message):
            algorithm_of(made(changed[0]), changed[1]())


def test_the_refusal_names_the_class_and_the_way_out():
    message = (
        "bonus LogBonus is a subclass of Hoeffding, whose compiled code would run instead of yours;"
        " put @ls.parts.bonus above a function of your own, or derive an estimator in Python from"
        r" FromCounts \(docs/adding.md shows both\)"
    )
    with pytest.raises(ValueError, match=message):
        algorithm_of(parts.QLearning(), LogBonus(c=0.05))
    with pytest.raises(ValueError, match=message):
        replace(ls.q_hoeffding(), bonus=LogBonus())


def test_a_saved_subclass_is_refused_and_saved_results_of_one_are_read(tmp_path):
    """Results that an earlier version saved under the name of a subclass keep its text only."""
    algorithm = ls.q_hoeffding(c=0.05)
    data = algorithm.to_dict()
    data["bonus"]["kind"] = f"{__name__}.LogBonus"
    with pytest.raises(ValueError, match="bonus LogBonus is a subclass of Hoeffding"):
        ls.Algorithm.from_dict(data)
    mdp = ls.envs.riverswim(states=3, horizon=3)
    runs = ls.simulate(mdp, algorithm, episodes=20, seeds=2)
    runs.save(tmp_path / "runs.npz")
    facts, arrays = storage.read(tmp_path / "runs.npz", "runs")
    storage.write(tmp_path / "old.npz", "runs", facts | {"algorithm": data}, arrays)
    with pytest.warns(UserWarning, match="LogBonus is a subclass of Hoeffding"):
        read = ls.load(tmp_path / "old.npz")
    assert read.regret.tolist() == runs.regret.tolist()


def test_a_class_of_both_kinds_is_refused():
    @dataclass(frozen=True, kw_only=True)
    class Both(parts.FromCounts, parts.Planning):
        pass

    with pytest.raises(ValueError, match="estimator Both is a subclass of Planning"):
        algorithm_of(Both(), parts.NoBonus())


# ---- schedules -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "base"),
    [
        (derived(parts.Budget)(schedule=parts.Growth(2), deployments=3), "Budget"),
        (derived(parts.WholePolicy)(2.0), "WholePolicy"),
        (parts.Budget(schedule=derived(parts.WholePolicy)(2.0), deployments=3), "WholePolicy"),
    ],
)
def test_a_subclass_of_a_compiled_schedule_is_refused(schedule, base):
    message = f"schedule My{base} is a subclass of {base}, .* derive a schedule from ByVisits or Wh"
    with pytest.raises(ValueError, match=message):
        ls.q_hoeffding(schedule=schedule)


@dataclass(frozen=True)
class Thirds(parts.Growth):
    def triggers(self, *, horizon, limit):
        return parts.Triggers(0, tuple(range(3, limit + 1, 3)))


@dataclass(frozen=True)
class Fortnights(parts.Grid):
    def grid(self, episodes):
        return tuple(range(14, episodes, 14))


@dataclass(frozen=True)
class Sooner(parts.Late):
    def grid_for(self, **size):
        return (3, 9)


@pytest.mark.parametrize("algorithm", [ls.q_hoeffding(c=0.01), ls.ucbvi(c=0.001), ls.psrl()])
@pytest.mark.parametrize(
    ("own", "same"),
    [
        (Thirds(), parts.Visits(tuple(range(3, 61, 3)))),
        (Fortnights("equal", 2), parts.EveryEpisodes(14)),
        (Sooner(2), parts.Calendar((3, 9))),
    ],
)
def test_the_methods_of_other_schedules_may_be_overridden(algorithm, own, same):
    mdp = ls.envs.riverswim(states=4, horizon=3)
    one, other = (
        ls.simulate(mdp, replace(algorithm, schedule=schedule), episodes=60, seeds=2, history=True)
        for schedule in (own, same)
    )
    assert one.deployments.sum() > 0
    for mine, theirs in zip(one.history, other.history, strict=True):
        assert mine.changes.tolist() == theirs.changes.tolist()


def test_learners_of_features_ignore_no_subclass_of_a_schedule():
    with pytest.raises(ValueError, match="counts visits to states"):
        ls.linucb(schedule=derived(parts.EveryVisit)())
    few = ls.few(deployments=2)
    own = replace(few, schedule=replace(few.schedule, schedule=Sooner(2)))
    assert linear_form(own, 100).schedule.schedule == Sooner(2)
