"""Learner: ask for the policy, tell what happened. The caller owns the loop."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from lowswitch import storage
from lowswitch.algorithms import Algorithm, Bernstein
from lowswitch.arrays import CELL, MOMENTS, NEVER, ROW, Rule, Tables
from lowswitch.history import History
from lowswitch.mdp import checked_mask, require_count

_LOUD = 0.5  # the share of visits from which a run says so


class BonusWarning(UserWarning):
    """Most visits had a bonus above H, so the run explored blindly throughout."""


class Learner:
    """A learner for a problem of known size and unknown tables, to be told at most `episodes` episodes.

    The number of episodes enters the bonus (iota) and the schedule, so it is fixed in advance. Rewards lie in [0, 1].
    """

    def __init__(
        self, algorithm: Algorithm, *, horizon: int, states: int, actions: int, episodes: int, actions_allowed: Any = None
    ) -> None:
        self.algorithm = require_algorithm(algorithm)
        self.horizon = require_count("horizon", horizon)
        self.states = require_count("states", states)
        self.actions = require_count("actions", actions)
        self.episodes = require_count("episodes", episodes)
        self.told = 0
        self._allowed = checked_mask(actions_allowed, self.horizon, self.states, self.actions)
        size = {"horizon": self.horizon, "states": self.states, "actions": self.actions, "episodes": self.episodes}
        self._rule = compile_rule(algorithm, **size)
        self._tables = fresh_tables(self._rule, self._allowed)
        self._policy = self._read_policy()

    def __repr__(self) -> str:
        size = f"horizon={self.horizon}, states={self.states}, actions={self.actions}"
        return f"Learner({self.algorithm}, {size}, told {self.told:,} of {self.episodes:,} episodes)"

    @property
    def policy(self) -> np.ndarray:
        """The deployed policy [H, S], read-only; it changes only where `tell` says so."""
        return self._policy

    @property
    def q(self) -> np.ndarray:
        """The running estimates [H, S, A], a copy; -inf where an action is forbidden."""
        return self._tables.cells["q"].reshape(self.horizon, self.states, self.actions).copy()

    @property
    def values(self) -> np.ndarray:
        """The optimistic values [H + 1, S], a copy; the last row is zero."""
        return self._tables.rows["value"].reshape(self.horizon + 1, self.states).copy()

    @property
    def visits(self) -> np.ndarray:
        """How often each (h, x, a) was visited [H, S, A], a copy."""
        return self._tables.cells["visits"].reshape(self.horizon, self.states, self.actions).copy()

    @property
    def loud_share(self) -> float:
        """The share of visits so far whose bonus was above H; near 1 the bonus drowns everything and c is too large."""
        return float(self._tables.loud[0]) / max(1, self.told * self.horizon)

    def tell(self, states: Any, actions: Any, rewards: Any, *, off_policy: bool = False) -> History | None:
        """Learn one episode, arrays [H], or a batch [B, H] in order; return the rows that changed, or None.

        `states` may also have the state after the last step, which is ignored. Each episode must have been played by the policy deployed
        before it is learned, unless `off_policy` says that other actions are meant. A call that fails changes nothing.
        """
        if not isinstance(off_policy, bool):
            raise ValueError(f"off_policy must be True or False, not {off_policy!r}")
        states, actions, rewards = checked_batch(states, actions, rewards, self._allowed)
        if self.told + len(states) > self.episodes:
            raise ValueError(
                f"this learner was made for {self.episodes} episodes and has been told {self.told}; make one with more episodes"
            )
        undo = self._undo(states, actions)
        try:
            switch = self._learn(states, actions, rewards, off_policy)
            policy = self._policy if switch is None else self._read_policy()
            self.told, self._policy = self.told + len(states), policy
        except BaseException:  # an interrupt too
            undo()
            raise
        return switch

    def _learn(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, off_policy: bool) -> History | None:
        from lowswitch import kernels

        changes = np.zeros((states.size, 4), dtype=np.int64)
        used, episode, step = kernels.digest_batch(self._rule, self._tables, states, actions, rewards, off_policy, self.told, changes)
        if episode >= 0:
            state, action = states[episode, step], actions[episode, step]
            planned = self._tables.rows["action"][step * self.states + state]
            hint = f"; the policy changed after episode {changes[0, 0] - self.told} of this batch, tell it up to there" if used else ""
            raise ValueError(
                f"episode {episode} of the batch plays action {action} at step {step} in state {state} where the policy plays {planned}"
                f"{hint}; pass off_policy=True to learn from other actions"
            )
        return History(changes[:used].copy()) if used else None

    def _undo(self, states: np.ndarray, actions: np.ndarray) -> Callable[[], None]:
        """Remember everything that a batch can touch; the result puts it back."""
        visited = np.arange(self.horizon) * self.states + states
        rows, cells = np.unique(visited), np.unique(visited * self.actions + actions)
        tables, told, policy = self._tables, self.told, self._policy
        moments = cells[: len(tables.moments)]  # none where no bonus reads them
        before = tables.rows[rows], tables.cells[cells], tables.moments[moments], tables.loud.copy()

        def undo() -> None:
            tables.rows[rows], tables.cells[cells], tables.moments[moments], tables.loud[:] = before
            self.told, self._policy = told, policy

        return undo

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on bit for bit."""
        facts = {
            "algorithm": self.algorithm.to_dict(),
            "size": {name: getattr(self, name) for name in ("horizon", "states", "actions", "episodes")},
            "told": self.told,
        }
        storage.write(path, "learner", facts, {"allowed": self._allowed, **self._tables._asdict()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Learner:
        """A learner that goes on where the saved one stopped."""
        facts, arrays = storage.read(path, "learner")
        try:
            learner = cls(Algorithm.from_dict(facts["algorithm"]), **facts["size"], actions_allowed=arrays["allowed"])
            learner.told = facts["told"]
            if not (isinstance(learner.told, int) and 0 <= learner.told <= learner.episodes):
                raise ValueError(f"told {learner.told!r} of {learner.episodes} episodes")
            for name, array in learner._tables._asdict().items():
                if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
                    raise ValueError(f"{name} is {arrays[name].dtype} of {arrays[name].shape}")
                array[...] = arrays[name]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{str(path)!r} is no whole learner ({error}); save it again") from error
        learner._policy = learner._read_policy()
        return learner

    def _read_policy(self) -> np.ndarray:
        rows = self._tables.rows[: self.horizon * self.states]
        policy = rows["action"].reshape(self.horizon, self.states).copy()
        policy.flags.writeable = False
        return policy


def checked_batch(states: Any, actions: Any, rewards: Any, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One episode or a batch as contiguous [B, H] arrays in range of a mask [H, S, A]."""
    horizon, *sizes = allowed.shape
    states, actions, rewards = np.asarray(states), np.asarray(actions), np.asarray(rewards, dtype=float)
    if states.ndim in (1, 2) and states.shape[-1] == horizon + 1:
        states = states[..., :-1]
    if not states.shape == actions.shape == rewards.shape or states.ndim not in (1, 2) or states.shape[-1] != horizon:
        raise ValueError(
            f"an episode is {horizon} states, actions and rewards (or a batch of such rows), "
            f"not arrays of shapes {states.shape}, {actions.shape} and {rewards.shape}"
        )
    states, actions, rewards = (np.atleast_2d(array) for array in (states, actions, rewards))
    for name, array, size in zip(("states", "actions"), (states, actions), sizes, strict=True):
        if not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"{name} must be integers, not {array.dtype}")
        if array.size and not (array.min() >= 0 and array.max() < size):
            raise ValueError(f"{name} must be 0 to {size - 1}, not {array.min()} to {array.max()}")
    if rewards.size and not (rewards.min() >= 0 and rewards.max() <= 1):
        raise ValueError(f"rewards must lie in [0, 1], not [{rewards.min():g}, {rewards.max():g}]; map them with ls.rescale's scale")
    forbidden = np.argwhere(~allowed[np.arange(horizon), states, actions])
    if len(forbidden):
        episode, step = forbidden[0]
        raise ValueError(f"action {actions[episode, step]} is not allowed at step {step} in state {states[episode, step]}")
    return np.array(states, np.int64, order="C"), np.array(actions, np.int64, order="C"), np.array(rewards, order="C")


def require_algorithm(algorithm: Any) -> Algorithm:
    if not isinstance(algorithm, Algorithm):
        raise ValueError(f"algorithm must be an Algorithm such as lowswitch.ucb2_bernstein(c=0.05), not {algorithm!r}")
    return algorithm


def warn_if_loud(share: float, algorithm: Algorithm) -> None:
    """Say in one line that the bonus drowned everything, with the remedy; the caller's caller is to blame."""
    if share > _LOUD:
        warnings.warn(
            f"{share:.0%} of the visits had a bonus above the horizon, so next to nothing was learned from them; "
            f"c = 1 is the provable scale, use c between 0.01 and 0.1 or many more episodes ({algorithm})",
            BonusWarning,
            stacklevel=3,
        )


def compile_rule(algorithm: Algorithm, *, horizon: int, states: int, actions: int, episodes: int) -> Rule:
    """The algorithm's numbers for one problem size."""
    from lowswitch import kernels

    iota = algorithm.iota(horizon=horizon, states=states, actions=actions, episodes=episodes)
    bonus = algorithm.bonus
    bernstein = isinstance(bonus, Bernstein)
    triggers = algorithm.schedule.triggers(horizon=horizon, limit=episodes)
    return Rule(
        H=horizon,
        S=states,
        A=actions,
        caps=algorithm.estimator.caps(horizon),
        bonus=kernels.BERNSTEIN if bernstein else kernels.HOEFFDING,
        c1=float(bonus.c1) if isinstance(bonus, Bernstein) else 0.0,
        c2=float(bonus.c2) if isinstance(bonus, Bernstein) else float(bonus.c),
        variance_scale=horizon * iota,
        lower_order=float(horizon**7 * states * actions) ** 0.5 * iota,
        hoeffding_scale=horizon**3 * iota,
        every_until=triggers.every_until,
        later=np.array([*triggers.later, NEVER], dtype=np.int64),
    )


def fresh_tables(rule: Rule, allowed: np.ndarray) -> Tables:
    """Optimism everywhere, and the lowest allowed action deployed."""
    from lowswitch import kernels

    H, S, A = allowed.shape
    caps = np.broadcast_to(rule.caps[:, None, None], (H, S, A))
    cells = np.zeros(H * S * A, dtype=CELL)
    cells["q"] = np.where(allowed, caps, -np.inf).reshape(-1)
    cells["due"] = 1
    rows = np.zeros((H + 1) * S, dtype=ROW)
    deployed = rows[: H * S]
    deployed["value"] = caps[..., 0].reshape(-1)
    deployed["rival"] = np.where(allowed.sum(axis=-1) > 1, caps[..., 0], -np.inf).reshape(-1)
    deployed["action"] = allowed.argmax(axis=-1).reshape(-1)
    moments = np.zeros(H * S * A if rule.bonus == kernels.BERNSTEIN else 0, dtype=MOMENTS)
    return Tables(rows, cells, moments, np.zeros(1, dtype=np.int64))
