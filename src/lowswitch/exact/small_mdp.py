"""The most that any learner with few changes can earn on a small MDP with Dirichlet priors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from lowswitch.checks import require_count, require_memory
from lowswitch.exact import on_gpu
from lowswitch.kernels import beliefs as kernels
from lowswitch.runs.jobs import Device
from lowswitch.show.progress import Progress, cores

_SOBOL = 16  # 2^16 models give the value of an optimal policy


@dataclass(frozen=True)
class SmallMDP:
    """An MDP whose transition laws are unknown and the same at all steps.

    Parameters
    ----------
    states, actions, horizon
        S, A and H.
    rewards
        A step that ends in state x earns rewards[x].
    start
        The start state.
    mass
        Each row (state and action) has the same Dirichlet prior, with this mass for each successor;
        1 is uniform.
    """

    states: int = 2
    actions: int = 2
    horizon: int = 2
    rewards: tuple[float, ...] = (0.0, 1.0)
    start: int = 0
    mass: float = 1.0

    def __post_init__(self) -> None:
        for name in ("states", "actions", "horizon"):
            require_count(name, getattr(self, name))
        if len(self.rewards) != self.states:
            raise ValueError(
                f"rewards must have one number for each of {self.states} states, "
                f"not {len(self.rewards)}"
            )

    @cached_property
    def policies(self) -> np.ndarray:  # [P, H, S]
        """All policies that differ in some place that an episode can reach."""
        H, S = self.horizon, self.states
        rows = [(0, self.start), *itertools.product(range(1, H), range(S))]
        found = np.zeros((self.actions ** len(rows), H, S), dtype=np.int64)
        for policy, actions in zip(
            found, itertools.product(range(self.actions), repeat=len(rows)), strict=True
        ):
            policy[tuple(np.transpose(rows))] = actions
        return found

    @cached_property
    def paths(self) -> Paths:
        """All possible courses of an episode."""
        H, S, A = self.horizon, self.states, self.actions
        found, paid, followers = [], [], []
        for actions, after in itertools.product(
            itertools.product(range(A), repeat=H), itertools.product(range(S), repeat=H)
        ):
            visited = [self.start, *after[:-1]]
            rows = [x * A + a for x, a in zip(visited, actions, strict=True)]
            taken = self.policies[:, np.arange(H), visited]
            found.append(list(zip(rows, after, strict=True)))
            paid.append(sum(self.rewards[x] for x in after))
            followers.append(np.flatnonzero((taken == actions).all(axis=1)))
        return Paths(np.array(found), np.array(paid, dtype=float), np.array(followers))

    def best(self) -> float:
        """The expected value of an optimal policy if all laws are known.

        It is an average over quasi-random models; its error is about 1e-4.
        """
        from scipy.stats import gamma, qmc

        S, A = self.states, self.actions
        uniform = qmc.Sobol(S * A * S, scramble=True, seed=0).random_base2(_SOBOL)
        laws = gamma.ppf(uniform, self.mass).reshape(-1, S, A, S)
        laws /= laws.sum(axis=-1, keepdims=True)
        value = np.zeros((len(laws), S))
        for _ in range(self.horizon):
            gained = (laws * (np.array(self.rewards) + value[:, None, None, :])).sum(axis=-1)
            value = gained.max(axis=-1)
        return float(value[:, self.start].mean())


class Paths(NamedTuple):
    """The J possible courses of an episode."""

    steps: np.ndarray  # [J, H, 2]  the row (state and action) and the successor of each step
    paid: np.ndarray  # [J]  the return
    followers: np.ndarray  # [J, n]  the policies under which it may happen


class Beliefs:
    """All possible beliefs after each episode, as codes of the transition counts."""

    def __init__(self, mdp: SmallMDP, episodes: int) -> None:
        cells = mdp.states * mdp.actions * mdp.states
        self.bits = int(episodes * mdp.horizon).bit_length()
        if cells * self.bits > 63:
            raise ValueError(
                f"{cells} kinds of transitions and {episodes} episodes of {mdp.horizon} steps are "
                "too many to be enumerated; use fewer states, actions or episodes"
            )
        paths = mdp.paths.steps
        self.added = (1 << ((paths[..., 0] * mdp.states + paths[..., 1]) * self.bits)).sum(axis=1)
        self.levels = [np.zeros(1, dtype=np.int64)]
        added = np.unique(self.added)
        for _ in range(episodes):
            need = 3 * 8 * len(self.levels[-1]) * len(added)
            require_memory(need, f"{len(self.levels[-1]):,} beliefs", "use fewer episodes")
            self.levels.append(np.unique(self.levels[-1][:, None] + added))

    def __len__(self) -> int:
        return sum(map(len, self.levels))


class MdpSolver:
    """Values of a small MDP, level by level over beliefs."""

    def __init__(self, mdp: SmallMDP, episodes: int) -> None:
        self.episodes, self.beliefs = episodes, Beliefs(mdp, episodes)
        self._paths, self._policies = mdp.paths, len(mdp.policies)
        self._prior = np.full((mdp.states * mdp.actions, mdp.states), float(mdp.mass))
        self._fixed = {
            "steps": self.beliefs.added,
            "paths": self._paths.steps,
            "followers": self._paths.followers,
            "prior": self._prior,
            "bits": self.beliefs.bits,
        }
        self._kept_returns: dict[int, np.ndarray] = {}

    # ---- a policy may change after any episode ---------------------------------------------------

    def switches(self, changes: int, bar: Progress, device: Device) -> np.ndarray:  # [N + 2]
        """Values if the policy may change after any episode; the last entry has unlimited
        changes.
        """
        levels, layers = self.beliefs.levels, changes + 2
        if device == "gpu":
            return self._switches_on_gpu(layers, bar)
        later = np.zeros((layers, self._policies, len(levels[-1])))
        for k in reversed(range(self.episodes)):
            now = np.zeros((layers, self._policies, len(levels[k])))
            self._each_piece(kernels.episode_level, k, {"paid": self._paths.paid}, later, now)
            later = now
            bar.update(self.episodes - k)
        return np.asarray(later[:, :, 0].max(axis=1))

    def _switches_on_gpu(self, layers: int, bar: Progress) -> np.ndarray:
        (J, H, _), S = self._paths.steps.shape, self._prior.shape[1]
        numbers = {"choices": self._policies, "layers": layers, "J": J, "H": H, "S": S}
        numbers |= {"followed": self._paths.followers.shape[1], "bits": self.beliefs.bits}
        fixed = {"prior": self._prior, "added": self.beliefs.added, "paths": self._paths.steps}
        fixed |= {"paid": self._paths.paid, "followers": self._paths.followers}
        return on_gpu.episode_levels(self.beliefs.levels, fixed, numbers, bar)

    def _each_piece(
        self, kernel: Any, k: int, given: dict[str, Any], later: np.ndarray, now: np.ndarray
    ) -> None:
        """Call a kernel for the beliefs of a level, one part per core."""
        codes, later_codes = self.beliefs.levels[k], self.beliefs.levels[k + 1]
        bounds = np.linspace(0, len(codes), cores() + 1).astype(int)
        level = partial(kernel, later_codes=later_codes, later=later, **given, **self._fixed)
        spans = [slice(*pair) for pair in itertools.pairwise(bounds)]
        with ThreadPoolExecutor(cores()) as pool:
            list(pool.map(lambda span: level(codes=codes[span], now=now[..., span]), spans))

    # ---- a policy is chosen for a batch of episodes ----------------------------------------------

    def none_left(self, level: int) -> np.ndarray:
        """The reward after the last episode."""
        return np.zeros(len(self.beliefs.levels[level]))

    def batches(self, values: np.ndarray, end: int, until: int) -> Iterator[tuple[int, np.ndarray]]:
        """The levels at which a batch that ends at `end` may begin, with the best values there."""
        expected = np.tile(values, (self._policies, 1))
        for begin in range(end - 1, until - 1, -1):
            now = np.zeros((self._policies, len(self.beliefs.levels[begin])))
            self._each_piece(kernels.batch_level, begin, {}, expected, now)
            expected = now
            yield begin, (expected + (end - begin) * self._returns(begin)).max(axis=0)

    def _returns(self, k: int) -> np.ndarray:  # [policies, beliefs]
        """The expected reward of each policy in the next episode."""
        if k not in self._kept_returns:
            now = np.zeros((1, self._policies, len(self.beliefs.levels[k])))
            later = np.zeros((1, self._policies, len(self.beliefs.levels[k + 1])))
            self._each_piece(kernels.episode_level, k, {"paid": self._paths.paid}, later, now)
            self._kept_returns[k] = now[0]
        return self._kept_returns[k]
