"""What a learner knows and how it learns, one family of estimators a file; `family_of` finds the
one for an algorithm.

A family is a rule (the algorithm worked out for one problem size, shared by all runs) and tables
(what one run knows). The drivers know nothing of either: they let the family play, tell it
episodes, and read its deployed policies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from lowswitch.algorithms.parts import Algorithm


class Size(NamedTuple):
    """The size of a problem."""

    horizon: int
    states: int
    actions: int
    episodes: int


class Family(Protocol):
    """One run of one algorithm: the rule, the tables, and the kernels that read both."""

    rule: Any  # with H, S, A and pace
    tables: Any  # a NamedTuple of arrays, which is all that must be saved
    members: int  # policies in a deployed mixture

    @classmethod
    def of(cls, algorithm: Algorithm, size: Size, allowed: np.ndarray) -> Family:
        """The rule for one problem size, and no tables yet."""

    def fresh(self, seed: int) -> Family:
        """The same rule with tables that know nothing."""

    def kernel(self) -> Any:
        """The compiled function behind `play`."""

    def play(
        self,
        model: Any,
        evaluation: Any,
        log: Any,
        account: Any,
        key: np.uint64,
        first: int,
        last: int,
    ) -> int:
        """Play, learn and charge episodes first .. last - 1; return the next one, before `last`
        where a log is full or Python plans.
        """

    def learn(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        off_policy: bool,
        cut: int,
        first: int,
        changes: np.ndarray,
    ) -> tuple[int, int, int]:
        """Learn episodes [B, H] in order up to the cut; return row changes, episodes learned, and
        the step of an off-policy action or -1.

        cut: AT_TRIGGER, AT_SWITCH or AT_MISMATCH of `kernels.py`.
        """

    def undo(self, states: np.ndarray, actions: np.ndarray) -> Callable[[], None]:
        """Remember everything that a batch can touch; the result puts it back."""

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over saved tables, or raise a ValueError where they do not fit."""

    def policies(self) -> np.ndarray:  # [members, H, S]
        """What is deployed."""

    def drawn(self, episodes: np.ndarray) -> np.ndarray:  # [B]
        """Which of the deployed policies play these episodes [B]."""

    def q(self) -> np.ndarray:  # [H, S, A]
        """The running estimates, of a mixture those of its first member; -inf where an action is
        forbidden.
        """

    def values(self) -> np.ndarray:  # [H + 1, S]
        """The running values, of a mixture those of its first member."""

    def visits(self) -> np.ndarray:  # [H, S, A]
        """How often each (h, x, a) was visited."""

    def triggers(self) -> int:
        """How often something might have changed."""


def family_of(algorithm: Algorithm, size: Size, allowed: np.ndarray) -> Family:
    """The rule of an algorithm for one problem size; `fresh` gives it tables."""
    from lowswitch.algorithms.parts import QLearning
    from lowswitch.learners import mixtures, planners, rows, stages

    family: type[Family]
    if algorithm.replans:
        family = planners.Planner
    elif algorithm.members > 1:
        family = mixtures.MixedRows
    else:
        family = rows.Rows if isinstance(algorithm.estimator, QLearning) else stages.StagedRows
    return family.of(algorithm, size, allowed)


def take_over(tables: Any, arrays: dict[str, np.ndarray]) -> None:
    """Fill tables with saved arrays of the same names, shapes and kinds."""
    for name, array in tables._asdict().items():
        if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
            raise ValueError(f"{name} is {arrays[name].dtype} of {arrays[name].shape}")
        array[...] = arrays[name]
