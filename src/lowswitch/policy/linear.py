"""A deployed policy on features: frozen, saved without its learner, and served with numpy alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lowswitch.checks import require_count, require_indices
from lowswitch.io import storage
from lowswitch.kernels.streams import drawn_member
from lowswitch.policy.choice import Choice
from lowswitch.policy.members import Members
from lowswitch.policy.scripts import LinearScript
from lowswitch.policy.shape import Shape

_KIND = "linear policy"  # of its files
_PROTOCOL = "protocol."  # before the names of its protocol's arrays
_AT_ONCE = 2**21  # numbers of scratch space that a batch of contexts may need


class LinearPolicy(Members):
    """One or more functions of features, of which each episode plays one.

    A member plays the action with the largest score, the lowest index among equals. The score of an
    action is the product of its features and its weights. d is the number of features, and B the
    number of weight vectors (see `Shape`). With d + 1 in place of d, the last one is for a constant
    feature, which the policy adds to every context.

    Parameters
    ----------
    shape
        The sizes.
    weights
        [H, d, B, members].
    key
        The noise stream. With the episode's number it determines which member plays.
    floor
        For optimistic draws, the weights before the noise, [H, d, B, members] or [H, d, B, 1]: a
        score is at least the product with them.
    roots
        [H, d, d, B], by which the length of the features is measured.
    width
        An optimistic policy adds `width` times that length; a negative width is pessimistic.
    allowed
        A mask [H, A] of the actions that it may play at each step, by default all.
    protocol
        A policy of one member. The members with weights are then the trial, and there may be no
        such members.
    followers
        How many members play the protocol; they come first.
    """

    def __init__(
        self,
        shape: Shape,
        weights: np.ndarray,
        key: np.uint64,
        *,
        floor: np.ndarray | None = None,
        roots: np.ndarray | None = None,
        width: np.ndarray | None = None,
        allowed: np.ndarray | None = None,
        protocol: LinearPolicy | None = None,
        followers: int = 0,
    ) -> None:
        self.shape, self.key = shape, np.uint64(key)
        self._mask = allowed_actions(shape, allowed)
        self._forbids = not self._mask.all()
        self.weights = _frozen(weights)
        self.floor = None if floor is None else _frozen(floor)
        self.roots = None if roots is None else _frozen(roots)
        self.width = None if width is None else _frozen(width)
        H, d, B = shape.horizon, shape.features, shape.blocks
        self._constant = self.weights.shape[1:2] == (d + 1,)
        d += self._constant
        if self.weights.shape[:3] != (H, d, B) or self.weights.ndim != 4:
            raise ValueError(f"its weights have the shape {self.weights.shape}, not {(H, d, B)}")
        self.protocol, self.followers, self.has_protocol = protocol, followers, protocol is not None
        self._require_protocol()
        self._drawn = self.weights.shape[-1]
        self.members = self.followers + self._drawn
        if self.floor is not None and self.floor.shape not in (
            (H, d, B, 1),
            self.weights.shape,
        ):
            raise ValueError(f"its floor has the shape {self.floor.shape}, not {(H, d, B, 1)}")
        if self.roots is not None and self.roots.shape != (H, d, d, B):
            raise ValueError(f"its roots have the shape {self.roots.shape}, not {(H, d, d, B)}")
        if (self.roots is None) != (self.width is None):
            raise ValueError("an optimistic policy has roots and a width")
        require_count("the number of members", self.members)
        if self.width is not None and self.width.shape != (H,):
            raise ValueError(f"its width has the shape {self.width.shape}, not {(H,)}")
        for name, array in self._arrays().items():
            if not np.isfinite(array).all():
                raise ValueError(f"its {name} must be finite numbers")
        self._columns = self.weights
        if self.floor is not None:  # in one array with the members, so that one product serves both
            self._columns = np.concatenate([self.weights, self.floor], axis=-1)

    @classmethod
    def always(
        cls, action: int | Sequence[int], *, features: int, actions: int, horizon: int = 1
    ) -> LinearPolicy:
        """The policy that plays one action in every context, or one at each step."""
        weights = np.zeros((horizon, features + 1, actions, 1))
        played = np.array(action)
        require_indices("action", played, actions)
        weights[np.arange(horizon), -1, np.broadcast_to(played, horizon)] = 1.0
        return cls(Shape.of(horizon, features, actions), weights, np.uint64(0))

    def _require_protocol(self) -> None:
        """A protocol is one function of the same features, and somebody follows it."""
        require_count("followers", self.followers, least=0)
        if self.protocol is None and self.followers:
            raise ValueError("there is no protocol for members to follow; give one")
        if self.protocol is not None and (
            self.protocol.members > 1 or self.protocol.shape != self.shape
        ):
            raise ValueError(f"a protocol is one function of {self.shape}, not {self.protocol}")

    @property
    def in_trial(self) -> np.ndarray:  # [members]
        """Which members are drawn beside a protocol; none where there is no protocol."""
        return np.arange(self.members) >= (self.followers if self.has_protocol else self.members)

    @property
    def masks(self) -> list[np.ndarray]:  # [H, A] each
        """The actions that each part may play: the protocol, and the drawn members."""
        drawn = [self._mask] if self._drawn else []
        return drawn if self.protocol is None else [self.protocol.allowed, *drawn]

    @property
    def allowed(self) -> np.ndarray:  # [H, A]
        """The actions that any member may play at each step, read-only."""
        return allowed_actions(self.shape, np.logical_or.reduce(self.masks))

    @property
    def playable(self) -> np.ndarray:  # [H, A]
        """The allowed actions, or fewer where members ignore the features, read-only.

        Such a member plays one action in every context, as `always` makes it.
        """
        found = [] if self.protocol is None else [self.protocol.playable]
        if self._drawn:
            found.append(self._constants() if self._ignores_features else self._mask)
        return allowed_actions(self.shape, np.logical_or.reduce(found))

    @property
    def _ignores_features(self) -> bool:
        plain = self.roots is None and self.floor is None and self.shape.shared
        return plain and self._constant and not self.weights[:, :-1].any()

    def _constants(self) -> np.ndarray:  # [H, A]
        """The actions with the largest constant of a member."""
        scores = np.where(self._mask[..., None], self.weights[:, -1], -np.inf)  # [H, A, members]
        best = scores.argmax(axis=1)  # [H, members]
        return np.asarray((best[:, None] == np.arange(self.shape.actions)[:, None]).any(axis=-1))

    # ---- acting ----------------------------------------------------------------------------------

    def act(self, x: Any, episode: int, step: int = 0) -> Choice:
        """The action in a context at a step of an episode, and its exact propensity.

        Parameters
        ----------
        x
            Features [d] that all actions share, or [A, d] with a vector for each action.
        episode
            The number of the episode.
        step
            The step, from 0.
        """
        if step not in range(self.shape.horizon):
            raise ValueError(f"there is no step {step}: steps are 0 to {self.shape.horizon - 1}")
        best = self._best(self.shape.context(x)[None], step)[0]
        if self.members == 1:
            return Choice(int(best[0]), 1.0)
        action = int(best[drawn_member(self.key, self.members, episode)])
        return Choice(action, int(np.count_nonzero(best == action)) / self.members)

    def script(self, episode: int) -> LinearScript:
        """How an episode is played."""
        return LinearScript(self, episode)

    def actions(self, x: np.ndarray, episodes: np.ndarray, step: int = 0) -> np.ndarray:  # [n]
        """The actions in contexts [n, R, d], each of the episode of this number [n]."""
        members = self.member_for(episodes) - self.followers
        if self.protocol is None:
            return self._played(x, members, step)
        chosen, follows = np.empty(len(x), dtype=np.int64), members < 0
        nobody = np.zeros(int(follows.sum()), dtype=np.int64)
        chosen[follows] = self.protocol._played(x[follows], nobody, step)
        chosen[~follows] = self._played(x[~follows], members[~follows], step)
        return chosen

    def _played(self, x: np.ndarray, members: np.ndarray, step: int) -> np.ndarray:  # [n]
        """The actions in contexts [n, R, d], each by the drawn member of this number [n]."""
        chosen = np.empty(len(x), dtype=np.int64)
        for first in range(0, len(x), self._batch):
            piece = slice(first, first + self._batch)
            rows = self._whole(x[piece])
            scores = _own_scores(rows, self.weights[step], members[piece])
            if self.floor is not None:
                lowest = _own_scores(rows, self.floor[step], members[piece])
                scores = np.maximum(scores, lowest)
            if self.roots is not None:
                scores = scores + self._bonus(rows, step)
            if self._forbids:
                scores[:, ~self._mask[step]] = -np.inf
            chosen[piece] = scores.argmax(axis=1)
        return chosen

    def choices(self, x: np.ndarray, step: int = 0) -> np.ndarray:  # [n, members]
        """The action of each member in contexts [n, R, d]."""
        size = max(1, self._batch // self.members)
        parts = [self._best(x[first : first + size], step) for first in range(0, len(x), size)]
        return np.concatenate([np.zeros((0, self.members), dtype=np.int64), *parts])

    def _best(self, x: np.ndarray, step: int) -> np.ndarray:  # [n, members]
        """The action with the largest score of each member, in a few contexts [n, R, d]."""
        drawn: np.ndarray = self.scores(x, step).argmax(axis=1)
        if self.protocol is None:
            return drawn
        followed = np.repeat(self.protocol._best(x, step), self.followers, axis=1)
        return np.concatenate([followed, drawn], axis=1)

    def values(self, x: np.ndarray, step: int = 0) -> np.ndarray:  # [n, members]
        """The largest score of each member in contexts [n, R, d]."""
        size = max(1, self._batch // self.members)
        parts = [
            self.scores(x[first : first + size], step).max(axis=1)
            for first in range(0, len(x), size)
        ]
        return np.concatenate([np.zeros((0, self.members)), *parts])

    def propensities(self, contexts: Any, step: int = 0) -> np.ndarray:  # [n, A]
        """The probability of each action in each of the contexts [n, d] or [n, A, d]."""
        choices = self.choices(self.shape.contexts(contexts), step)
        return np.stack(
            [(choices == a).sum(axis=1) for a in range(self.shape.actions)], axis=1
        ) / float(self.members)

    @property
    def _batch(self) -> int:
        """How many contexts of one member are scored at once."""
        return max(1, _AT_ONCE // (self.shape.features * self.shape.actions))

    def scores(self, x: np.ndarray, step: int = 0) -> np.ndarray:  # [n, A, members]
        """The scores of all members with weights in contexts [n, R, d].

        They are summed over the features in a fixed order, so one context at a time gives the same
        bits as many.
        """
        x = self._whole(x)
        rows = x.transpose(2, 0, 1)[..., None]  # [d, n, R, 1]
        products = np.multiply(rows, self._columns[step][:, None], order="C")
        scores: np.ndarray = np.add.reduce(products, axis=0)
        if self.floor is not None:
            scores = np.maximum(scores[..., : self._drawn], scores[..., self._drawn :])
        if self.roots is not None:
            scores = scores + self._bonus(x, step)[..., None]
        if self._forbids:
            scores[:, ~self._mask[step]] = -np.inf
        return scores

    def _whole(self, x: np.ndarray) -> np.ndarray:  # [n, R, d] or [n, R, d + 1]
        """Contexts with the constant feature, if the policy has weights for one."""
        if not self._constant:
            return x
        whole = np.ones((*x.shape[:-1], x.shape[-1] + 1))
        whole[..., :-1] = x
        return whole

    def _bonus(self, x: np.ndarray, step: int) -> np.ndarray:  # [n, A]
        """The width times the length of each action's features."""
        assert self.roots is not None
        assert self.width is not None
        rows = x.transpose(2, 0, 1)[:, None]  # [d, 1, n, R]
        turned = np.add.reduce(np.multiply(rows, self.roots[step][:, :, None], order="C"), axis=0)
        length: np.ndarray = np.sqrt(np.add.reduce(turned * turned, axis=0))  # [n, A]
        bonus: np.ndarray = self.width[step] * length
        return bonus

    def without(self, actions: Iterable[int]) -> LinearPolicy:
        """The policy that plays its next best action in the place of these."""
        gone, mask = list(actions), self._mask.copy()
        mask[:, gone] = False
        if self.protocol is None:
            return self._changed(allowed=mask)
        kept = mask if self._drawn else None  # of nobody
        return self._changed(allowed=kept, protocol=self.protocol.without(gone))

    def beside(self, protocol: LinearPolicy, members: int, most: int | None = None) -> LinearPolicy:
        """At most `most` of the last drawn members, as a trial beside a protocol.

        Parameters
        ----------
        protocol
            The protocol.
        members
            How many members there are, including the followers of the protocol.
        most
            The largest number of members in the trial.
        """
        kept = self._drawn if most is None else min(most, self._drawn)
        columns = slice(self._drawn - kept, None)
        parts: dict[str, Any] = {"weights": self.weights[..., columns]}
        if self.floor is not None:
            parts["floor"] = self.floor if self.floor.shape[-1] == 1 else self.floor[..., columns]
        return self._changed(**parts, protocol=protocol, followers=members - kept)

    def _changed(self, **parts: Any) -> LinearPolicy:
        """The same policy with other parts."""
        own: dict[str, Any] = self._arrays() | {
            "allowed": self._mask,
            "protocol": self.protocol,
            "followers": self.followers,
        }
        return LinearPolicy(self.shape, key=self.key, **own | parts)

    # ---- comparing -------------------------------------------------------------------------------

    def difference(self, other: LinearPolicy, contexts: Any, step: int = 0) -> float:
        """The share of these contexts whose action changes, with the best matching of members.

        For mixtures it is the average total variation between the action frequencies.
        """
        if self.shape != other.shape:
            raise ValueError(
                f"policies of {self.shape} and {other.shape} share no contexts in which "
                "to compare them"
            )
        mine, others = self.propensities(contexts, step), other.propensities(contexts, step)
        if not len(mine):
            raise ValueError(
                "there are no contexts in which to compare the policies; give at least one"
            )
        return float(0.5 * np.abs(mine - others).sum(axis=1).mean())

    @property
    def identity(self) -> str:
        """A digest that two policies share only if they play the same."""
        facts = f"linear {self.shape} {int(self.key) if self.members > 1 else 0}"
        total = hashlib.sha256(facts.encode())
        for name, array in self._arrays().items():
            total.update(b"floor" if name == "floor" else b"")  # and not one member more
            total.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        if self._forbids:
            total.update(self._mask.tobytes())
        if self.protocol is not None:
            total.update(f"{self.followers} {self.protocol.identity}".encode())
        return total.hexdigest()

    @property
    def trial_identity(self) -> str:
        """The identity of the members beside the protocol; the same without such members."""
        drawn = self._changed(protocol=None, followers=0) if self._drawn else None
        return "" if drawn is None else f"{self.members} {drawn.identity}"

    def __repr__(self) -> str:
        return f"LinearPolicy({self.members} members, {self.shape}, {self.identity[:12]})"

    # ---- saving ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy alone; loading it does not need the learner."""
        storage.write(path, _KIND, *self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearPolicy:
        """Read a policy that `save` wrote."""
        with storage.reading(path, _KIND) as (facts, arrays):
            return cls.from_state(facts, arrays)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts, as JSON can hold them, and arrays."""
        arrays = self._arrays() | ({"allowed": self._mask} if self._forbids else {})
        facts: dict[str, Any] = {"shape": self.shape._asdict(), "key": str(int(self.key))}
        if self.protocol is not None:
            facts["followers"], (facts["protocol"], own) = self.followers, self.protocol.state()
            arrays |= {f"{_PROTOCOL}{name}": array for name, array in own.items()}
        return facts, arrays

    @classmethod
    def from_state(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> LinearPolicy:
        """Restore a policy from its state."""
        key = require_count("its key", int(facts["key"]), least=0, most=2**64 - 1)
        protocol = None
        if "protocol" in facts:
            whose = {
                name.removeprefix(_PROTOCOL): array
                for name, array in arrays.items()
                if name.startswith(_PROTOCOL)
            }
            protocol = cls.from_state(facts["protocol"], whose)
        return cls(
            Shape.of(**facts["shape"]),
            arrays["weights"],
            np.uint64(key),
            floor=arrays.get("floor"),
            roots=arrays.get("roots"),
            width=arrays.get("width"),
            allowed=arrays.get("allowed"),
            protocol=protocol,
            followers=facts.get("followers", 0),
        )

    def to_dict(self) -> dict[str, Any]:
        """The policy as JSON can store it, exact to the bit."""
        facts, arrays = self.state()
        return facts | {"arrays": {name: array.tolist() for name, array in arrays.items()}}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> LinearPolicy:
        """Read a policy that `to_dict` wrote."""
        return cls.from_state(
            facts, {name: np.array(array) for name, array in facts["arrays"].items()}
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {
            "weights": self.weights,
            "floor": self.floor,
            "roots": self.roots,
            "width": self.width,
        }
        return {name: array for name, array in arrays.items() if array is not None}


def _own_scores(x: np.ndarray, weights: np.ndarray, members: np.ndarray) -> np.ndarray:  # [n, A]
    """The scores in contexts [n, R, d], each for one member [n] of weights [d, B, members or 1]."""
    rows = x.transpose(2, 0, 1)  # [d, n, R]
    if weights.shape[-1] == 1:
        own = weights.transpose(0, 2, 1)  # [d, 1, B]
    else:
        own = weights[:, :, members].transpose(0, 2, 1)  # [d, n, B]
    scores: np.ndarray = np.add.reduce(np.multiply(rows, own, order="C"), axis=0)
    return scores


def allowed_actions(shape: Shape, allowed: Any) -> np.ndarray:  # [H, A]
    """The actions allowed at each step, read-only; None allows all of them."""
    if allowed is None:
        allowed = np.ones((shape.horizon, shape.actions), dtype=bool)
    mask = np.array(allowed)
    if mask.dtype != bool or mask.shape != (shape.horizon, shape.actions):
        raise ValueError(
            f"allowed actions must be True or False for each of {shape.horizon} steps and"
            f" {shape.actions} actions, not {mask.dtype} of {mask.shape}"
        )
    if not mask.any(axis=1).all():
        step = int(np.flatnonzero(~mask.any(axis=1))[0])
        raise ValueError(f"step {step} has no action left; allow at least one")
    mask.flags.writeable = False
    return mask


def _frozen(array: np.ndarray) -> np.ndarray:
    """A copy that nobody can change."""
    kept: np.ndarray = np.array(array, dtype=float, order="C")
    kept.flags.writeable = False
    return kept
