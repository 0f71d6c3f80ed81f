"""What learners that propose whole policies have in common: planners, and mixtures of
Q-learners.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowswitch.kernels.arrays import PYTHONS_TURN
from lowswitch.learners import take_over


class Proposing:
    """The learners of `take_in` and `make_proposal`."""

    rule: Any
    tables: Any
    members: int

    def kernel(self) -> Any:
        from lowswitch.kernels import core as kernels

        return kernels.simulate_proposed

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
        from lowswitch.kernels import core as kernels

        done = first
        while done < last:
            self._make_room()
            done = int(
                self.kernel()(
                    self.rule, self.tables, model, evaluation, log, account, key, done, last
                )
            )
            if self.tables.clock[PYTHONS_TURN]:
                self._propose(done)
                kernels.carry_out_simulated(
                    self.rule, self.tables, model, evaluation, log, account, done - 1
                )
                break  # so that an interrupt is heard between two plans
            if log.keep:
                break
        return done

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
        from lowswitch.kernels import core as kernels

        used = done = 0
        while True:
            self._make_room()
            rest, proposals = (
                (states[done:], actions[done:], rewards[done:]),
                int(self.tables.clock[3]),
            )
            logged, learned, step = kernels.propose_batch(
                self.rule, self.tables, *rest, off_policy, cut, first + done, changes[used:]
            )
            done += learned
            if self.tables.clock[PYTHONS_TURN]:
                self._propose(first + done)
                self.tables.clock[PYTHONS_TURN] = 0
                logged += kernels.carry_out(
                    self.rule, self.tables, changes[used:], logged, first + done - 1
                )[0]
            used += logged
            if (
                step >= 0
                or done == len(states)
                or kernels.is_cut(cut, self.tables.clock[3] > proposals, logged)
            ):
                return used, done, step

    def _make_room(self) -> None:
        """Let tables grow that the next episode might fill."""

    def _propose(self, episodes: int) -> None:
        """Write down what to deploy after so many episodes, where it is not compiled."""
        raise NotImplementedError

    def undo(self, states: np.ndarray, actions: np.ndarray) -> Callable[[], None]:
        before = type(self.tables)(*(array.copy() for array in self.tables))

        def put_back() -> None:
            self.tables = before

        return put_back

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        take_over(self.tables, arrays)

    def policies(self) -> np.ndarray:
        policies: np.ndarray = self.tables.policy.reshape(
            self.members, self.rule.H, self.rule.S
        ).copy()
        return policies

    def drawn(self, episodes: np.ndarray) -> np.ndarray:
        from lowswitch.kernels import core as kernels

        members = np.zeros(len(episodes), dtype=np.int64)
        if self.members > 1:
            kernels.fill_members(self.rule, self.tables, episodes, members)
        return members
