"""What a learner with features knows, and the policies that it makes of it.

The state is the Cholesky factor of V = ridge I + sum x x' and the sum of rewards times features,
for each step and vector of weights, in the order of the episodes. With more than one step the
episodes themselves are kept as well, because the targets of a regression are the values of the step
after it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lowswitch.checks import require_memory
from lowswitch.linear.noise import DRAWS, normals, purpose_key
from lowswitch.linear.policy import LinearPolicy
from lowswitch.linear.shape import Shape
from lowswitch.linear.spec import Spec

_FIRST_ROOM = 64  # episodes


class Sums(NamedTuple):
    """What is summed over the episodes, in their order."""

    factor: np.ndarray  # [H, B, d, d]  U, upper triangular, with V = U'U
    moment: np.ndarray  # [H, B, d]  sum of reward times features
    squares: np.ndarray  # [H]  sum of squared rewards
    counts: np.ndarray  # [H]  steps


class Episodes(NamedTuple):
    """The episodes themselves, of which the first `told` are known; none where H is 1."""

    x: np.ndarray  # [room, H, R, d]
    actions: np.ndarray  # [room, H]  -1 after the end of an episode
    rewards: np.ndarray  # [room, H]


class Knowledge:
    """Sums, and episodes where they are needed, of one learner."""

    def __init__(self, shape: Shape, spec: Spec, seed: int, member_key: np.uint64) -> None:
        self.shape, self.spec = shape, spec
        self.key, self.member_key = purpose_key(seed, DRAWS), member_key
        H, B, d = shape.horizon, shape.blocks, shape.features
        need = 8 * H * B * d * (3 * d + 4 * spec.members)
        require_memory(need, f"a ridge of {shape}", "use fewer features")
        eye = np.eye(d) * math.sqrt(spec.ridge)
        self.sums = Sums(
            factor=np.broadcast_to(eye, (H, B, d, d)).copy(),
            moment=np.zeros((H, B, d)),
            squares=np.zeros(H),
            counts=np.zeros(H, dtype=np.int64),
        )
        self.kept = self._room(_FIRST_ROOM if H > 1 else 0)
        self.base = self.log_determinants()  # [H]  when the policy was made

    def _room(self, episodes: int) -> Episodes:
        H, R, d = self.shape.horizon, self.shape.rows, self.shape.features
        need = 8 * episodes * H * (R * d + 2)
        require_memory(
            need, f"{episodes:,} episodes of {self.shape}", "use fewer features or steps"
        )
        return Episodes(
            x=np.zeros((episodes, H, R, d)),
            actions=np.zeros((episodes, H), dtype=np.int64),
            rewards=np.zeros((episodes, H)),
        )

    def log_determinants(self) -> np.ndarray:  # [H]
        """ln det V of each step, over all vectors of weights."""
        diagonals = np.diagonal(self.sums.factor, axis1=-2, axis2=-1)
        logs: np.ndarray = 2.0 * np.log(diagonals).sum(axis=-1).sum(axis=-1)
        return logs

    # ---- learning --------------------------------------------------------------------------------

    def learn(
        self, x: np.ndarray, actions: np.ndarray, rewards: np.ndarray, told: int
    ) -> tuple[int, bool]:
        """Learn episodes until the determinant rule asks for a policy.

        Return how many are learned, and whether it does. So many were told before this batch.
        """
        from lowswitch.linear.kernels.ridge import learn

        scratch = np.empty(self.shape.features)
        learned, grown = learn(
            x, actions, rewards, 0, self.sums, self.base, self.spec.log_factor, scratch
        )
        if self.shape.horizon > 1:
            self._keep(x[:learned], actions[:learned], rewards[:learned], told)
        return learned, grown

    def _keep(self, x: np.ndarray, actions: np.ndarray, rewards: np.ndarray, told: int) -> None:
        last = told + len(x)
        if last > len(self.kept.x):
            larger = self._room(max(last, 2 * len(self.kept.x)))
            for new, old in zip(larger, self.kept, strict=True):
                new[:told] = old[:told]
            self.kept = larger
        for array, given in zip(self.kept, (x, actions, rewards), strict=True):
            array[told:last] = given

    # ---- policies --------------------------------------------------------------------------------

    def plan(self, told: int, *, greedy: bool) -> LinearPolicy:
        """The policy for what is known after so many episodes; a greedy one explores nothing.

        Its noise depends on the seed and this number alone.
        """
        self.base = self.log_determinants()
        if self.spec.sampled and not greedy:
            weights = self._drawn(told)
            return LinearPolicy(self.shape, weights, self.member_key)
        weights, widths = self._means(told, 0.0 if greedy else self.spec.c)
        if greedy:
            return LinearPolicy(self.shape, weights, self.member_key)
        return LinearPolicy(self.shape, weights, self.member_key, roots=self._roots(), width=widths)

    def _drawn(self, told: int) -> np.ndarray:  # [H, d, B, members]
        """Weights drawn from the posterior, backwards: each member has values of its own to go."""
        H, L = self.shape.horizon, self.spec.members
        drawn = self._fresh_weights(1 + L)  # the first one is the mean
        for h in reversed(range(H)):
            mean, sigma = self._regression(h, drawn, told, None)
            spread = self._spread(h, told)  # [d, B, L]
            drawn[h] = mean
            drawn[h, :, :, 1:] += self.spec.c * sigma * spread
        return drawn[..., 1:]

    def _means(self, told: int, c: float) -> tuple[np.ndarray, np.ndarray]:
        """The ridge estimates [H, d, B, 1] and the width of the ellipsoid of each step [H]."""
        H = self.shape.horizon
        weights, widths = self._fresh_weights(1), np.zeros(H)
        roots = self._roots() if c else None
        for h in reversed(range(H)):
            ahead = None if roots is None else (roots, widths)
            weights[h], sigma = self._regression(h, weights, told, ahead)
            widths[h] = c * self._unit_width(h, sigma)
        return weights, widths

    def _fresh_weights(self, columns: int) -> np.ndarray:
        H, d, B = self.shape.horizon, self.shape.features, self.shape.blocks
        return np.zeros((H, d, B, columns))

    def _regression(
        self,
        h: int,
        weights: np.ndarray,
        told: int,
        ahead: tuple[np.ndarray, np.ndarray] | None,
    ) -> tuple[np.ndarray, float]:
        """The ridge estimates [d, B, C] of a step, given the weights of the steps after it, and the
        estimated noise of the first column.

        sigma^2 = (y'y - b' V^-1 b) / n, which is what is left of the targets y and the penalty of
        the weights together.
        """
        from lowswitch.linear.kernels.ridge import add_targets, backward, forward

        sums, last = self.sums, self.shape.horizon - 1
        if h == last:
            columns = weights.shape[-1]
            moment = np.repeat(sums.moment[h][..., None], columns, axis=-1)  # [B, d, C]
            total = float(sums.squares[h])
        else:
            x, actions = self.kept.x[:told, h], self.kept.actions[:told, h]
            targets = self._targets(h, weights, told, ahead)
            moment = np.zeros((self.shape.blocks, self.shape.features, targets.shape[1]))
            add_targets(x, actions, targets, moment)
            played = targets[actions >= 0, 0]
            total = float(np.add.reduce(played * played))
        explained = 0.0
        for factor, b in zip(sums.factor[h], moment, strict=True):
            forward(factor, b)
            explained += float(b[:, 0] @ b[:, 0])
            backward(factor, b)
        n = int(sums.counts[h])
        sigma = math.sqrt(max(0.0, total - explained) / n) if n else 1.0
        return moment.transpose(1, 0, 2), sigma

    def _targets(
        self,
        h: int,
        weights: np.ndarray,
        told: int,
        ahead: tuple[np.ndarray, np.ndarray] | None,
    ) -> np.ndarray:  # [told, C]
        """What was paid at a step and the value of the context after it.

        Values lie within what the steps left could pay, at the least and at the largest reward that
        was seen.
        """
        kept, after = self.kept, self.kept.actions[:told, h + 1] >= 0
        targets = np.repeat(kept.rewards[:told, h, None], weights.shape[-1], axis=1)
        if after.any():
            if ahead is None:
                policy = LinearPolicy(self.shape, weights, self.member_key)
            else:
                roots, widths = ahead
                policy = LinearPolicy(
                    self.shape, weights, self.member_key, roots=roots, width=widths
                )
            steps = self.shape.horizon - h - 1
            paid = kept.rewards[:told][kept.actions[:told] >= 0]
            low, high = steps * min(0.0, paid.min()), steps * max(0.0, paid.max())
            values = policy.values(kept.x[:told, h + 1][after], h + 1)
            targets[after] += np.clip(values, low, high)
        return targets

    def _spread(self, h: int, told: int) -> np.ndarray:  # [d, B, L]
        """U^-1 z for standard normal z, so that its covariance is V^-1."""
        from lowswitch.linear.kernels.ridge import backward

        B, d, L = self.shape.blocks, self.shape.features, self.spec.members
        size = B * d * L
        z = normals(self.key, (told * self.shape.horizon + h) * size, size).reshape(B, d, L)
        for factor, block in zip(self.sums.factor[h], z, strict=True):
            backward(factor, block)
        return z.transpose(1, 0, 2)

    def _roots(self) -> np.ndarray:  # [H, d, d, B]
        """The inverses of the factors: x' V^-1 x is the squared length of x turned by them."""
        from lowswitch.linear.kernels.ridge import backward

        H, B, d = self.shape.horizon, self.shape.blocks, self.shape.features
        inverse = np.broadcast_to(np.eye(d), (H, B, d, d)).copy()
        for h in range(H):
            for b in range(B):
                backward(self.sums.factor[h, b], inverse[h, b])
        return np.ascontiguousarray(inverse.transpose(0, 2, 3, 1))

    def _unit_width(self, h: int, sigma: float) -> float:
        """The width of the ellipsoid at c = 1."""
        if self.spec.width == "noise":
            return sigma
        if self.spec.width == "unit":
            return 1.0
        grown = float(self.log_determinants()[h]) - self.shape.weights * math.log(self.spec.ridge)
        return proof_width(self.shape, self.spec, grown)


def proof_width(shape: Shape, spec: Spec, grown: float) -> float:
    """The width of the proofs, for rewards in [0, 1] and features and weights of norm at most 1.

    One step: sqrt(beta) = R sqrt(2 ln(det(V)^(1/2) det(ridge I)^(-1/2) / p)) + sqrt(ridge) S with
    R = 1/2 and S = 1 (Abbasi-Yadkori, Pal, Szepesvari 2011, Theorem 2); grown is the logarithm of
    det V / det(ridge I). More steps: d H sqrt(ln(2 d T / p)) (Jin et al. 2020, Theorem 3.1).
    """
    if shape.horizon == 1:
        return 0.5 * math.sqrt(grown - 2.0 * math.log(spec.p)) + math.sqrt(spec.ridge)
    steps = spec.episodes * shape.horizon
    iota = math.log(2 * shape.weights * steps / spec.p)
    return shape.weights * shape.horizon * math.sqrt(iota)
