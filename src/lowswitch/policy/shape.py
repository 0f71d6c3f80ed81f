"""The size of a problem with features, and checks of the data given for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowswitch.checks import has_integers, numbers, require_count, require_truth, shown

LARGEST_FEATURE = 1e50  # so that its square does not overflow


class Shape(NamedTuple):
    """H steps, d features, A actions, and whether all actions share the features of a context.

    If they do, each action has its own weights: a context is R = 1 vector, and there are B = A
    weight vectors. If not, a context is R = A vectors, and all actions have the same weights.
    """

    horizon: int
    features: int
    actions: int
    shared: bool

    @classmethod
    def of(cls, horizon: Any, features: Any, actions: Any, shared: Any = True) -> Shape:
        """The shape, after checking that its numbers are counts."""
        return cls(
            require_count("horizon", horizon),
            require_count("features", features, way_out="it is the length of a feature vector"),
            require_count("actions", actions),
            require_truth("shared", shared),
        )

    def __repr__(self) -> str:
        kind = "shared features" if self.shared else "features an action"
        return f"{self.horizon} x {self.features} {kind} x {self.actions} actions"

    @property
    def rows(self) -> int:
        """R, the number of vectors in a context."""
        return 1 if self.shared else self.actions

    @property
    def blocks(self) -> int:
        """B, the number of weight vectors."""
        return self.actions if self.shared else 1

    @property
    def weights(self) -> int:
        """The number of all weights of a step."""
        return self.blocks * self.features

    def context(self, x: Any) -> np.ndarray:  # [R, d]
        """One context, [d] or [A, d], as its vectors."""
        rows: np.ndarray = x if type(x) is np.ndarray else _features(x)
        wanted = (self.features,) if self.shared else (self.actions, self.features)
        if rows.shape != wanted:
            raise ValueError(
                f"the features of a context must be {self._wanted()}, not {rows.shape}"
            )
        if rows.dtype != np.float64:
            rows = numbers("features", rows)
        if not np.abs(rows).max() <= LARGEST_FEATURE:
            _refuse(rows[None] if self.shared else rows, "action")
        return rows[None] if self.shared else rows

    def contexts(self, x: Any) -> np.ndarray:  # [n, R, d]
        """Contexts [n, d] or [n, A, d], or [n, R, d] with the vectors of each."""
        given = _features(x)
        wanted = (self.features,) if self.shared else (self.actions, self.features)
        if given.ndim == 3 and given.shape[1:] == (self.rows, self.features):
            rows = given
        elif given.ndim == 1 + len(wanted) and given.shape[1:] == wanted:
            rows = given.reshape(len(given), self.rows, self.features)
        else:
            raise ValueError(f"contexts must be [n, ...] of {self._wanted()}, not {given.shape}")
        if rows.size and not np.abs(rows).max() <= LARGEST_FEATURE:
            _refuse(rows, "context", "action")
        return rows

    def episodes(
        self, x: Any, actions: Any, rewards: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One episode or a batch, as [n, H, R, d], [n, H] and [n, H].

        With one step, an episode is a context, an action and a reward.
        """
        given, played = _features(x), np.asarray(actions)
        paid = numbers("rewards", rewards)
        if played.shape != paid.shape:
            raise ValueError(
                f"there must be a reward for each action, not actions of shape {played.shape} and"
                f" rewards of {paid.shape}"
            )
        if played.size and not has_integers(played):
            raise ValueError(f"actions must be integers, not {played.dtype}")
        H, one = self.horizon, (self.features,) if self.shared else (self.actions, self.features)
        if H == 1 and given.shape[-len(one) - 1 : -len(one)] != (1,):
            played, paid, given = played[..., None], paid[..., None], _stepped(given, len(one))
        if played.ndim == 1:
            played, paid, given = played[None], paid[None], given[None]
        if given.ndim == 2 + len(one) and given.shape[1] == H + 1 > 2:
            given = given[:, :H]  # the state after the last step, from which nothing is learned
        n = len(played)
        if played.shape != (n, H) or given.shape != (n, H, *one):
            raise ValueError(
                f"an episode has {H} step{'s' * (H > 1)}, each with features of {self._wanted()},"
                f" an action and a reward (or a batch of such), not arrays of shapes"
                f" {np.shape(x)}, {np.shape(actions)} and {np.shape(rewards)}"
            )
        given = given.reshape(n, H, self.rows, self.features)
        if given.size and not np.abs(given).max() <= LARGEST_FEATURE:
            _refuse(given, "episode", "step", "action")
        _require_played(played, paid, self.actions)
        return (
            np.ascontiguousarray(given),
            np.ascontiguousarray(played, dtype=np.int64),
            np.ascontiguousarray(paid),
        )

    def _wanted(self) -> str:
        if self.shared:
            return f"a vector of {self.features} numbers"
        return f"{self.actions} vectors of {self.features} numbers, one for each action"


def _stepped(given: np.ndarray, last: int) -> np.ndarray:
    """Add an axis for the single step of an episode before the features."""
    return given.reshape(*given.shape[: given.ndim - last], 1, *given.shape[given.ndim - last :])


def _features(x: Any) -> np.ndarray:
    """Numbers in vectors of one length."""
    try:
        return numbers("features", x)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError("all feature vectors must have the same length; these differ") from None


def _refuse(rows: np.ndarray, *axes: str) -> None:
    """Explain which features are not finite, reasonable numbers.

    axes: what the axes of the array count, except the last one.
    """
    place = tuple(map(int, np.argwhere(~(np.abs(rows) <= LARGEST_FEATURE))[0]))
    value = rows[place]
    where = "".join(
        f" of {axis} {i}"
        for axis, i, n in reversed(list(zip(axes, place, rows.shape, strict=False)))
        if n > 1
    )
    if np.isnan(value):
        raise ValueError(f"feature {place[-1]}{where} is NaN; fill in missing features first")
    raise ValueError(
        f"feature {place[-1]}{where} is {value:g}; it must be finite and at most "
        f"{LARGEST_FEATURE:g}: standardise the features with ls.features.standardised"
    )


def _require_played(actions: np.ndarray, rewards: np.ndarray, A: int) -> None:
    """Check that actions are 0 to A - 1, or -1 once an episode is over."""
    if actions.size and not (actions.min() >= -1 and actions.max() < A):
        raise ValueError(
            f"actions must be 0 to {A - 1}, or -1 after the end of an episode, not"
            f" {actions.min()} to {actions.max()}"
        )
    over = actions < 0
    if (over[:, :-1] & ~over[:, 1:]).any() or over[:, :1].any():
        raise ValueError(
            "after an episode is over (action -1) no action can follow, and its first action "
            "cannot be -1"
        )
    paid = rewards[~over]
    if paid.size and not np.abs(paid).max() <= LARGEST_FEATURE:
        wrong = paid[~(np.abs(paid) <= LARGEST_FEATURE)][0]
        raise ValueError(f"rewards must be finite numbers, not {shown(float(wrong))}")
