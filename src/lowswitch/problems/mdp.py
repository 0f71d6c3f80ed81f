"""TabularMDP: a finite-horizon problem, validated once at the door, with exact values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from lowswitch.algorithms.schedules import is_number
from lowswitch.kernels.arrays import COLUMN, LANES, Model

RewardLaw = Literal["deterministic", "bernoulli"]
ROW_SUM_TOLERANCE = 1e-8


@dataclass(frozen=True)
class Scale:
    """The user's reward units: a reward of 0 inside is `low` outside, 1 is `high`."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (
            is_number(self.low) and is_number(self.high) and -np.inf < self.low < self.high < np.inf
        ):
            raise ValueError(
                f"a reward range needs finite low < high, not [{self.low}, {self.high}]"
            )
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    def to_unit(self, rewards: Any) -> np.ndarray:
        """Rewards in [0, 1]; one outside the range is an error."""
        given: np.ndarray = np.asarray(rewards, dtype=float)
        if given.size and not (given.min() >= self.low and given.max() <= self.high):
            raise ValueError(
                f"rewards must lie in [{self.low:g}, {self.high:g}], not [{given.min():g},"
                f" {given.max():g}]; give the true range"
            )
        return (given - self.low) / (self.high - self.low)

    def to_value(self, value: Any, steps: Any) -> Any:
        """A value summed over so many steps, in the user's units."""
        return value * (self.high - self.low) + steps * self.low

    def to_regret(self, regret: Any) -> Any:
        """A difference of values, in the user's units."""
        return regret * (self.high - self.low)


@dataclass(frozen=True)
class Rescaled:
    """Rewards mapped to [0, 1], with the way back."""

    rewards: np.ndarray
    scale: Scale


def rescale(rewards: Any, *, low: float | None = None, high: float | None = None) -> Rescaled:
    """Map rewards of a known range to [0, 1]; a TabularMDP made of the result reports values and
    regret in the original units.

    The range defaults to that of the rewards given.
    """
    rewards = np.asarray(rewards, dtype=float)
    if not (rewards.size and np.isfinite(rewards).all()):
        raise ValueError(
            "rewards must be finite numbers; NaN, infinite or no rewards cannot be rescaled"
        )
    scale = Scale(
        float(rewards.min() if low is None else low), float(rewards.max() if high is None else high)
    )
    return Rescaled(scale.to_unit(rewards), scale)


class TabularMDP:
    """An episodic MDP of H steps with known tables.

    transitions: [S, A, S], or [H, S, A, S] where they differ by step; or a scipy.sparse matrix [S *
    A, S] or [H * S * A, S]. rewards: means in [0, 1], [S, A] or [H, S, A], or what `rescale`
    returns. start: a state; a law, S floats; or the start state of each episode, integers (chosen
    in advance, the oblivious adversary). An integer array is always such a sequence: a law that
    puts all mass on state 0 of 3 is [1.0, 0.0, 0.0] or simply 0. reward_law: "deterministic" pays
    the mean itself, "bernoulli" 1 with that probability and else 0. actions_allowed: a mask [S, A]
    or [H, S, A].
    """

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        *,
        start: Any = 0,
        horizon: int,
        reward_law: RewardLaw = "deterministic",
        actions_allowed: Any = None,
    ) -> None:
        self.horizon = require_count("horizon", horizon)
        self.scale = rewards.scale if isinstance(rewards, Rescaled) else Scale()
        self.rewards = _checked_rewards(
            rewards.rewards if isinstance(rewards, Rescaled) else rewards, self.horizon
        )
        self.states, self.actions = int(self.rewards.shape[-2]), int(self.rewards.shape[-1])
        if reward_law not in ("deterministic", "bernoulli"):
            raise ValueError(
                f'reward_law must be "deterministic" or "bernoulli", not {reward_law!r}'
            )
        self.reward_law = reward_law
        self.offsets, self.successors, self.probabilities = _checked_transitions(
            transitions, self.horizon, self.states, self.actions
        )
        self.start_law, self.start_sequence = _checked_start(start, self.states)
        self.actions_allowed = checked_mask(
            actions_allowed, self.horizon, self.states, self.actions
        )
        self._freeze()

    def _freeze(self) -> None:
        for name in (
            "rewards",
            "offsets",
            "successors",
            "probabilities",
            "start_law",
            "start_sequence",
            "actions_allowed",
        ):
            getattr(self, name).flags.writeable = False  # values are worked out once

    def __getstate__(self) -> dict[str, Any]:
        worked_out = ("model", "_outflow", "_optimum")
        return {name: value for name, value in vars(self).items() if name not in worked_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # a pickle forgets it

    @property
    def stationary(self) -> bool:
        return len(self.offsets) - 1 == self.states * self.actions

    def __repr__(self) -> str:
        kind = "stationary" if self.stationary else "per-step"
        return (
            f"TabularMDP(states={self.states}, actions={self.actions}, horizon={self.horizon},"
            f" {kind}, {len(self.successors)} nonzeros)"
        )

    # ---- exact values, in the user's units -------------------------------------------------------

    def optimal_value(self) -> float:
        """V*_1 under the start law."""
        return float(self.start_law @ self.optimal_values[0])

    def evaluate(self, policy: Any) -> float:
        """V^pi_1 under the start law of a policy [H, S]."""
        return float(self.start_law @ self.policy_values(policy)[0])

    @property
    def optimal_values(self) -> np.ndarray:
        """V* as [H + 1, S]; the last row is zero."""
        return self._in_units(self._optimum[0])

    @property
    def optimal_policy(self) -> np.ndarray:
        """An optimal policy [H, S], the lowest index among equals."""
        return self._optimum[1].copy()

    @property
    def optimal_q(self) -> np.ndarray:
        """Q* as [H, S, A]; -inf where an action is not allowed."""
        q = np.empty((self.horizon, self.states, self.actions))
        for h in range(self.horizon):
            first = 0 if self.stationary else h * self.states * self.actions
            offsets = self.offsets[first : first + self.states * self.actions + 1]
            span = slice(offsets[0], offsets[-1])
            terms = self.probabilities[span] * self._optimum[0][h + 1, self.successors[span]]
            rewards = self.rewards if self.rewards.ndim == 2 else self.rewards[h]
            q[h] = rewards + np.add.reduceat(terms, offsets[:-1] - offsets[0]).reshape(
                self.states, self.actions
            )
        return np.where(
            self.actions_allowed,
            self.scale.to_value(q, np.arange(self.horizon, 0, -1)[:, None, None]),
            -np.inf,
        )

    def policy_values(self, policy: Any) -> np.ndarray:
        """V^pi as [H + 1, S]; the last row is zero."""
        from lowswitch.kernels.values import policy_values

        policy = self.checked_policy(policy)
        values = np.zeros((self.horizon + 1, self.states))
        policy_values(self.model, policy, self.actions, values.reshape(-1))
        return self._in_units(values)

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        steps_left = np.arange(self.horizon, -1, -1)[:, None]
        return np.asarray(self.scale.to_value(values, steps_left))

    def checked_policy(self, policy: Any) -> np.ndarray:
        """A policy as integers [H, S] in range, or an error."""
        policy = np.asarray(policy)
        if policy.shape != (self.horizon, self.states) or not np.issubdtype(
            policy.dtype, np.integer
        ):
            raise ValueError(
                f"a policy must be integers of shape [H, S] = ({self.horizon}, {self.states}), not"
                f" {policy.dtype} of {policy.shape}"
            )
        if not (policy.min() >= 0 and policy.max() < self.actions):
            raise ValueError(
                f"a policy's actions must be 0 to {self.actions - 1}, not {policy.min()} to"
                f" {policy.max()}"
            )
        steps, states = np.indices(policy.shape)
        forbidden = np.argwhere(~self.actions_allowed[steps, states, policy])
        if len(forbidden):
            h, x = forbidden[0]
            raise ValueError(
                f"the policy plays action {policy[h, x]} at step {h} in state {x}, where it is not"
                " allowed"
            )
        return np.ascontiguousarray(policy, dtype=np.int64)

    @cached_property
    def _optimum(self) -> tuple[np.ndarray, np.ndarray]:
        from lowswitch.kernels.values import optimal_values

        values = np.zeros((self.horizon + 1, self.states))
        policy = np.zeros((self.horizon, self.states), dtype=np.int64)
        optimal_values(self.model, self.actions_allowed, values.reshape(-1), policy)
        return values, policy

    @property
    def unit_optimal_values(self) -> np.ndarray:
        """V* as [H + 1, S] for rewards in [0, 1], as the kernels see it."""
        return self._optimum[0]

    @cached_property
    def model(self) -> Model:
        """The tables as the kernels read them."""
        rows = self.states * self.actions
        support = np.flatnonzero(self.start_law)
        heads, columns = _alias_tables(
            np.append(self.offsets, self.offsets[-1] + len(support)),
            np.append(self.successors, support.astype(np.int32)),
            np.append(self.probabilities, self.start_law[support]),
        )
        return Model(
            stride=0 if self.stationary else rows,
            reward_stride=0 if self.rewards.ndim == 2 else rows,
            offsets=self.offsets,
            successors=self.successors,
            probabilities=self.probabilities,
            heads=heads,
            columns=columns,
            rewards=self.rewards.reshape(-1),
            bernoulli=self.reward_law == "bernoulli",
            starts=self.start_sequence,
            width=self._outflow.shape[1],
            outflow=self._outflow.reshape(-1),
        )

    @cached_property
    def _outflow(self) -> np.ndarray:
        """Each row's successor law as a dense vector with the reward behind it, or no rows where
        the lists of nonzeros are better.
        """
        rows, width = len(self.offsets) - 1, -(-(self.states + 1) // LANES) * LANES
        reward_differs_more = self.stationary and self.rewards.ndim == 3
        if reward_differs_more or rows * width > LANES * len(self.successors):
            return np.zeros((0, width))
        outflow = aligned_zeros(rows * width).reshape(rows, width)
        outflow[np.repeat(np.arange(rows), np.diff(self.offsets)), self.successors] = (
            self.probabilities
        )
        outflow[:, self.states] = np.resize(self.rewards, rows)
        return outflow


def require_count(name: str, value: Any, *, most: int = 2**31 - 2) -> int:
    """A whole number from 1 to what the counters hold."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
        raise ValueError(f"{name} must be a whole number from 1 to {most:,}, not {value!r}")
    return int(value)


def checked_mask(mask: Any, horizon: int, states: int, actions: int) -> np.ndarray:
    """A mask [H, S, A] in which every row allows something."""
    if mask is None:
        mask = np.ones((states, actions), dtype=bool)
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape not in ((states, actions), (horizon, states, actions)):
        raise ValueError(
            f"actions_allowed must be booleans of shape [S, A] = ({states}, {actions}) or [H, S, A]"
            f" = ({horizon}, {states}, {actions}), not {mask.dtype} of {mask.shape}"
        )
    empty = np.argwhere(~mask.any(axis=-1))
    if len(empty):
        raise ValueError(
            f"no action is allowed in (step, state) or (state,) = {tuple(map(int, empty[0]))};"
            " allow at least one"
        )
    return np.array(np.broadcast_to(mask, (horizon, states, actions)), order="C")


def _checked_rewards(rewards: Any, horizon: int) -> np.ndarray:
    table: np.ndarray = np.array(rewards, dtype=float, order="C")
    if table.ndim not in (2, 3) or 0 in table.shape or (table.ndim == 3 and len(table) != horizon):
        raise ValueError(
            f"rewards must have shape [S, A] or [H, S, A] with H = {horizon}, not {table.shape}"
        )
    if not (table.min() >= 0 and table.max() <= 1):
        raise ValueError(
            f"rewards must lie in [0, 1], not [{table.min():g}, {table.max():g}]; rescale them with"
            " ls.rescale"
        )
    return table


def _checked_transitions(
    transitions: Any, horizon: int, states: int, actions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nonzeros row by row: offsets [rows + 1], successors and probabilities [nonzeros]."""
    shapes = (
        f"[S, A, S] = ({states}, {actions}, {states})",
        f"[H, S, A, S] = ({horizon}, {states}, {actions}, {states})",
    )
    if hasattr(transitions, "tocsr"):
        matrix = transitions.tocsr(copy=True)
        if matrix.shape not in ((states * actions, states), (horizon * states * actions, states)):
            raise ValueError(
                f"sparse transitions must have one row for each (x, a) or (h, x, a), {states}"
                f" columns, not {matrix.shape}"
            )
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        offsets, successors, probabilities = (
            matrix.indptr,
            matrix.indices,
            np.asarray(matrix.data, dtype=float),
        )
    else:
        table = np.asarray(transitions, dtype=float)
        if table.shape not in ((states, actions, states), (horizon, states, actions, states)):
            raise ValueError(
                f"transitions must have shape {shapes[0]} or {shapes[1]} to agree with the rewards,"
                f" not {table.shape}"
            )
        rows, successors = np.nonzero(table.reshape(-1, states))
        probabilities = table.reshape(-1, states)[rows, successors]
        offsets = np.searchsorted(rows, np.arange(table.size // states + 1))
    _check_laws(offsets, probabilities, states, actions)
    return offsets.astype(np.int64), successors.astype(np.int32), probabilities


def _check_laws(offsets: np.ndarray, probabilities: np.ndarray, states: int, actions: int) -> None:
    def place(row: int) -> str:
        step, rest = divmod(int(row), states * actions)
        where = f"state {rest // actions}, action {rest % actions}"
        return where if len(offsets) - 1 == states * actions else f"step {step}, {where}"

    bad = np.flatnonzero(~(probabilities >= 0))
    if len(bad):
        row = np.searchsorted(offsets, bad[0], side="right") - 1
        raise ValueError(
            f"transition probabilities must be at least 0, not {probabilities[bad[0]]:g}"
            f" ({place(row)})"
        )
    sums = np.bincount(
        np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)),
        probabilities,
        minlength=len(offsets) - 1,
    )
    off = np.flatnonzero(~(np.abs(sums - 1) <= ROW_SUM_TOLERANCE))
    if len(off):
        raise ValueError(
            f"transition probabilities must sum to 1, not {sums[off[0]]:.10g} ({place(off[0])});"
            " normalise that row"
        )


def _checked_start(start: Any, states: int) -> tuple[np.ndarray, np.ndarray]:
    """The start law [S], and the start sequence [n] or [0] where the law decides."""
    start = np.asarray(start)
    if np.issubdtype(start.dtype, np.integer) and start.ndim <= 1 and start.size > 0:
        if not (start.min() >= 0 and start.max() < states):
            raise ValueError(
                f"start states must be 0 to {states - 1}, not {start.min()} to {start.max()}"
            )
        law = np.bincount(start.reshape(-1), minlength=states) / start.size
        return law, (start if start.ndim else start[None][:0]).astype(np.int32)
    if not (np.issubdtype(start.dtype, np.floating) and start.shape == (states,)):
        raise ValueError(
            f"start must be a state, {states} probabilities, or a sequence of states, not"
            f" {start.dtype} of {start.shape}"
        )
    if not ((start >= 0).all() and abs(start.sum() - 1) <= ROW_SUM_TOLERANCE):
        raise ValueError(
            f"a start law must be at least 0 and sum to 1, not from {start.min():g} with sum"
            f" {start.sum():.10g}"
        )
    return start.astype(float), np.zeros(0, dtype=np.int32)


def aligned_zeros(size: int) -> np.ndarray:
    """Zeros that begin on a cache line, so that no vector of lanes straddles two."""
    raw = np.zeros(size + LANES)
    skip = -raw.ctypes.data // raw.itemsize % LANES
    return raw[skip : skip + size]


def _alias_tables(
    offsets: np.ndarray, successors: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """An alias table for each row, its columns a power of two: O(1) sampling, at most twice the
    nonzeros.
    """
    from lowswitch.kernels.noise import fill_aliases

    log_columns = np.ceil(np.log2(np.diff(offsets))).astype(np.int64)
    ends = np.cumsum(1 << log_columns)
    heads = (ends - (1 << log_columns)) << 6 | log_columns
    columns = np.zeros(ends[-1], dtype=COLUMN)
    widest = int(1 << log_columns.max())
    scratch, stack = np.zeros(widest), np.zeros(widest, dtype=np.int64)
    fill_aliases(offsets, successors, probabilities, heads, columns, scratch, stack)
    return heads, columns
