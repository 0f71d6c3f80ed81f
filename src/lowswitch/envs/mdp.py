"""TabularMDP: a finite-horizon problem, validated once at the door, with exact values."""

from __future__ import annotations

import hashlib
import math
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from lowswitch.checks import (
    checked_mask,
    checked_policy,
    is_number,
    numbers,
    require_count,
    require_within,
    require_word,
    shown,
)
from lowswitch.envs.validation import (
    checked_rewards,
    checked_start,
    checked_transitions,
    depends_on_successor,
    mean_rewards,
    warn_if_ambiguous,
)
from lowswitch.kernels.arrays import COLUMN, LANES, Model

RewardLaw = Literal["deterministic", "bernoulli"]


@dataclass(frozen=True)
class Scale:
    """The user's reward units: a reward of 0 inside is `low` outside, 1 is `high`."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.low) and is_number(self.high) and self.low < self.high):
            raise ValueError(
                "a reward range needs finite low < high, not"
                f" [{shown(self.low)}, {shown(self.high)}]"
            )
        if not is_number(float(self.high) - float(self.low)):
            raise ValueError(
                f"the reward range from {self.low!r} to {self.high!r} is infinitely wide"
            )
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    @classmethod
    def of(cls, reward_range: Any) -> Scale:
        """The scale of a range (low, high)."""
        if not (isinstance(reward_range, tuple | list) and len(reward_range) == 2):
            raise ValueError(
                f"reward_range must be two numbers (low, high), not {shown(reward_range)}"
            )
        return cls(*reward_range)

    def to_unit(self, rewards: Any) -> np.ndarray:
        """Rewards in [0, 1]; one outside the range is an error."""
        given = numbers("rewards", rewards)
        require_within("rewards", given, self.low, self.high, "give the true range")
        return (given - self.low) / (self.high - self.low)

    def to_value(self, value: Any, steps: Any) -> Any:
        """A value summed over this many steps, in the user's units."""
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
    """Map rewards of a known range to [0, 1].

    A TabularMDP made of the result reports values and regret in the original units.

    Parameters
    ----------
    rewards
        The rewards, an array.
    low, high
        Their range; by default the range of the given rewards.

    Examples
    --------
    >>> import lowswitch as ls
    >>> ls.rescale([[0.0, 5.0], [10.0, 5.0]]).rewards.tolist()
    [[0.0, 0.5], [1.0, 0.5]]
    """
    rewards = numbers("rewards", rewards)
    if not (rewards.size and np.isfinite(rewards).all()):
        raise ValueError(
            "rewards must be finite numbers; NaN, infinite or no rewards cannot be rescaled"
        )
    least = rewards.min() if low is None else low
    scale = Scale(least, rewards.max() if high is None else high)
    return Rescaled(scale.to_unit(rewards), scale)


class TabularMDP:
    """An episodic MDP of H steps with known tables.

    Its tables are `transitions`, `rewards` (in [0, 1], also if they were rescaled), `start_law` and
    `actions_allowed`.

    Parameters
    ----------
    transitions
        [S, A, S], or [H, S, A, S] if they differ by step; or a scipy.sparse matrix of the shape
        [S * A, S] or [H * S * A, S].
    rewards
        Means in [0, 1] of the shape [S, A] or [H, S, A], or the result of `rescale`. If they
        depend on the next state, [S, A, S] or [H, S, A, S], their mean under the transitions is
        used: values and regret do not depend on the rest. Three axes of one size H = S = A are
        taken for [H, S, A], with a warning.
    start
        A state; a law of S floats; or the start state of each episode, integers that are chosen
        in advance (the oblivious adversary). An integer array is always such a sequence: a law
        that puts all mass on state 0 of 3 is [1.0, 0.0, 0.0], or simply 0.
    horizon
        H, the number of steps.
    reward_law
        "deterministic" pays the mean itself, "bernoulli" pays 1 with that probability and else
        0.
    actions_allowed
        A mask [S, A] or [H, S, A].
    name
        The name of the problem in results and figures.
    """

    knows_regret = True
    measure = "regret"

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        *,
        start: Any = 0,
        horizon: int,
        reward_law: RewardLaw = "deterministic",
        actions_allowed: Any = None,
        name: str = "",
    ) -> None:
        self.name = str(name)
        self.horizon = require_count("horizon", horizon)
        given = rewards if isinstance(rewards, Rescaled) else Rescaled(rewards, Scale())
        self.scale, table = given.scale, given.rewards
        # the library means its own tables as they are
        if not sys._getframe(1).f_globals["__name__"].startswith("lowswitch."):
            warn_if_ambiguous(table, transitions, self.horizon, stacklevel=2)
        if depends_on_successor(table, transitions, self.horizon):
            table = mean_rewards(table, transitions, self.horizon)
        self.rewards = checked_rewards(table, self.horizon)
        self.states, self.actions = int(self.rewards.shape[-2]), int(self.rewards.shape[-1])
        require_word("reward_law", reward_law, get_args(RewardLaw))
        self.reward_law = reward_law
        size = self.horizon, self.states, self.actions
        self.offsets, self.successors, self.probabilities = checked_transitions(transitions, *size)
        self.start_law, self.start_sequence = checked_start(start, self.states)
        self.actions_allowed = checked_mask(actions_allowed, *size)
        self._freeze()

    @property
    def size(self) -> dict[str, int]:
        """Its horizon, states and actions, by these names."""
        return {"horizon": self.horizon, "states": self.states, "actions": self.actions}

    def _freeze(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # since values are worked out once

    def __getstate__(self) -> dict[str, Any]:
        worked_out = ("model", "_outflow", "_optimum")
        return {name: value for name, value in vars(self).items() if name not in worked_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # a pickle forgets it

    @property
    def transitions(self) -> np.ndarray:
        """The transition probabilities [S, A, S], or [H, S, A, S] if they differ by step."""
        dense = np.zeros((len(self.offsets) - 1, self.states))
        dense[self._rows, self.successors] = self.probabilities
        shape = self.states, self.actions, self.states
        return dense.reshape(shape if self.stationary else (self.horizon, *shape))

    @property
    def _rows(self) -> np.ndarray:
        """The row of each nonzero."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def stationary(self) -> bool:
        """Whether the transitions are the same at all steps; the rewards may differ by step."""
        return len(self.offsets) - 1 == self.states * self.actions

    @property
    def steps_alike(self) -> bool:
        """Whether neither the transitions nor the rewards differ by step."""
        return self.stationary and self.rewards.ndim == 2

    def facts(self) -> dict[str, Any]:
        """What tells it from every other problem, as JSON can hold it."""
        digest = hashlib.sha256()
        for array in (
            self.offsets,
            self.successors,
            self.probabilities,
            self.rewards,
            self.start_law,
            self.start_sequence,
            self.actions_allowed,  # [H, S, A], so that the horizon counts as well
        ):
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return {
            "tables": digest.hexdigest(),
            "reward law": self.reward_law,
            "rewards": [self.scale.low, self.scale.high],
        }

    def __repr__(self) -> str:
        alike = self.stationary, self.rewards.ndim == 2
        kinds = ["stationary" if same else "per-step" for same in alike]
        kind = kinds[0] if len(set(kinds)) == 1 else "{} transitions, {} rewards".format(*kinds)
        return (
            f"TabularMDP(states={self.states}, actions={self.actions}, horizon={self.horizon},"
            f" {kind}, {len(self.successors)} nonzeros)"
        )

    # ---- exact values, in the user's units -------------------------------------------------------

    def optimal_value(self, episodes: int = 0) -> float:
        """V*_1 under the start law, or its mean over the first `episodes` given start states."""
        return self.at_start(self.optimal_values[0], episodes)

    def evaluate(self, policy: Any) -> float:
        """V^pi_1 under the start law of a policy [H, S], or of a mixture [members, H, S].

        Of a learner, and of what `learn` returns, it is the deployed policy, a mixture by the mean
        of its members.
        """
        policy = getattr(policy, "learner", policy)
        return self.at_start(self.policy_values(getattr(policy, "mixture", policy))[0])

    def uniform_value(self) -> float:
        """The value under the start law of playing all allowed actions equally often."""
        return self.at_start(self.uniform_values[0])

    def constant_value(self, episodes: int = 0) -> float:
        """The value of the best single action, played at every step.

        Where it is not allowed, the lowest allowed action replaces it.
        """
        lowest = self.actions_allowed.argmax(axis=-1)  # [H, S]
        policies = (np.where(self.actions_allowed[..., a], a, lowest) for a in range(self.actions))
        return max(self.at_start(self.policy_values(one)[0], episodes) for one in policies)

    def at_start(self, values: np.ndarray, episodes: int = 0) -> float:
        """The mean of values [S] under the start law, or over the first `episodes` start states.

        Under the law it is the exact sum of the products, rounded once, because the last bit of a
        BLAS sum depends on the machine and its number of threads.
        """
        starts = self.start_sequence[:episodes]
        if len(starts):
            return float(values[starts].mean())
        return math.fsum((self.start_law * values).tolist())

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
        optimum = self._optimum[0]
        q = np.stack([self._lookahead(h, optimum[h + 1]) for h in range(self.horizon)])
        steps_left = np.arange(self.horizon, 0, -1)[:, None, None]
        return np.where(self.actions_allowed, self.scale.to_value(q, steps_left), -np.inf)

    def _lookahead(self, h: int, following: np.ndarray) -> np.ndarray:  # [S, A]
        """The value of each action at step h if the next states have the values `following` [S]."""
        first = 0 if self.stationary else h * self.states * self.actions
        offsets = self.offsets[first : first + self.states * self.actions + 1]
        span = slice(offsets[0], offsets[-1])
        terms = self.probabilities[span] * following[self.successors[span]]
        rewards = self.rewards if self.rewards.ndim == 2 else self.rewards[h]
        means = np.add.reduceat(terms, offsets[:-1] - offsets[0])
        return np.asarray(rewards + means.reshape(self.states, self.actions))

    def policy_values(self, policy: Any) -> np.ndarray:
        """V^pi as [H + 1, S]; the last row is zero.

        For a mixture [members, H, S], of which one is drawn before each episode, it is the average
        over its members.
        """
        from lowswitch.kernels.values import policy_values

        given = np.asarray(policy)
        if given.ndim == 3 and len(given):
            members, counts = np.unique(given, axis=0, return_counts=True)
            return np.average([self.policy_values(one) for one in members], axis=0, weights=counts)
        policy = self.checked_policy(policy)
        values = np.zeros((self.horizon + 1, self.states))
        policy_values(self.model, policy, self.actions, values.reshape(-1))
        return self._in_units(values)

    @property
    def uniform_values(self) -> np.ndarray:
        """The values [H + 1, S] of playing all allowed actions equally often."""
        values = np.zeros((self.horizon + 1, self.states))
        for h in range(self.horizon - 1, -1, -1):
            allowed = self.actions_allowed[h]
            earned = np.where(allowed, self._lookahead(h, values[h + 1]), 0.0)
            values[h] = earned.sum(axis=-1) / allowed.sum(axis=-1)
        return self._in_units(values)

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        steps_left = np.arange(self.horizon, -1, -1)[:, None]
        return np.asarray(self.scale.to_value(values, steps_left))

    def checked_policy(self, policy: Any) -> np.ndarray:
        """A policy [H, S] of this problem, or an error."""
        return checked_policy(policy, self.actions_allowed)

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
        """Each row's successor law as a dense vector with the reward behind it.

        There are no rows where the lists of nonzeros are better.
        """
        rows, width = len(self.offsets) - 1, -(-(self.states + 1) // LANES) * LANES
        reward_differs_more = self.stationary and self.rewards.ndim == 3
        if reward_differs_more or rows * width > LANES * len(self.successors):
            return np.zeros((0, width))
        outflow = aligned_zeros(rows * width).reshape(rows, width)
        outflow[self._rows, self.successors] = self.probabilities
        outflow[:, self.states] = np.resize(self.rewards, rows)
        return outflow


def require_mdp(mdp: Any) -> TabularMDP:
    if not isinstance(mdp, TabularMDP):
        raise ValueError(
            f"the problem must be a TabularMDP such as lowswitch.envs.riverswim(), not {shown(mdp)}"
        )
    return mdp


def aligned_zeros(size: int) -> np.ndarray:
    """Zeros that begin on a cache line, so that no vector of lanes straddles two."""
    raw = np.zeros(size + LANES)
    skip = -raw.ctypes.data // raw.itemsize % LANES
    return raw[skip : skip + size]


def _alias_tables(
    offsets: np.ndarray, successors: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """An alias table for each row, to draw from it in constant time.

    The columns of a row are a power of two, at most twice its nonzeros.
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
