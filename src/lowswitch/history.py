"""The deployment history: the list of row changes that determines everything about a run.

Its switching costs, its exact regret and the PAC policy (the mixture of all policies of a run) are
functions of this list.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lowswitch.checks import has_integers, require_count, shown
from lowswitch.envs.mdp import TabularMDP, aligned_zeros, require_mdp
from lowswitch.io import storage
from lowswitch.kernels.arrays import BALANCE, Account, ManyValueTables, ValueTables
from lowswitch.policy.tables import change_rows

_AHEAD = 8  # policies that are valued side by side
_CACHE = 2**16  # bytes


@dataclass(frozen=True, eq=False)
class History:
    """Row changes in order: after `episode` (counted from 0), row (`step`, `state`) plays `action`.

    A mixture of policies has an action for each of its `members` in every row. Its row is listed if
    any of these actions changed. `before` is the mixture before the first change; if it is not
    given, all members played the same.
    """

    changes: np.ndarray  # [n, 3 + members]  episode, step, state, action of each member
    before: np.ndarray | None = None  # [members, H, S]

    def __post_init__(self) -> None:
        try:
            changes = np.asarray(self.changes)
        except ValueError:  # rows of different lengths
            changes = np.zeros(0, dtype=object)
        if changes.size == 0 and changes.dtype == np.float64:  # an empty list has no type
            shape = changes.shape if changes.ndim == 2 and changes.shape[1] else (0, 4)
            changes = np.zeros(shape, dtype=np.int64)
        if changes.ndim != 2 or changes.shape[1] < 4 or not has_integers(changes):
            raise ValueError(
                "a history is integers [n, 4] (episode, step, state, action), with one "
                f"more action for each further member of a mixture, not {changes.dtype} "
                f"of {changes.shape}"
            )
        object.__setattr__(self, "changes", changes)

    @property
    def members(self) -> int:
        return int(self.changes.shape[1]) - 3

    @property
    def episode(self) -> np.ndarray:
        return self.changes[:, 0]

    @property
    def step(self) -> np.ndarray:
        return self.changes[:, 1]

    @property
    def state(self) -> np.ndarray:
        return self.changes[:, 2]

    @property
    def action(self) -> np.ndarray:
        """The actions [n]; for mixtures [n, members]."""
        return self.changes[:, 3] if self.members == 1 else self.changes[:, 3:]

    @property
    def local_switches(self) -> int:
        """N_sw: the number of row changes.

        A row of a mixture counts if the share of some action changed.
        """
        return int(np.count_nonzero(self.switched))

    @property
    def switched(self) -> np.ndarray:  # [n]
        """Which row changes are local switches."""
        if self.members == 1:
            return np.ones(len(self.changes), dtype=bool)
        # sorted, they say how many members play each action, but not which
        laws = np.sort(self.changes[:, 3:], axis=1)
        order = np.lexsort((np.arange(len(laws)), self.state, self.step))
        rows, laws = self.changes[order, 1:3], laws[order]
        switched = np.ones(len(rows), dtype=bool)
        first = np.ones(len(rows), dtype=bool)  # change of its row
        first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        same_law = (laws[1:] == laws[:-1]).all(axis=1)
        switched[order[1:]] = first[1:] | ~same_law
        if self.before is not None:
            steps, states = rows[first].T
            began = np.sort(self.before[:, steps, states].T, axis=1)
            switched[order[first]] = (laws[first] != began).any(axis=1)
        return switched

    @property
    def deployments(self) -> int:
        """N_gl: the number of episodes after which the policy changed."""
        return int(np.count_nonzero(np.diff(self.episode, prepend=-1)))

    def __len__(self) -> int:
        return len(self.changes)

    def __repr__(self) -> str:
        return f"History({self.local_switches} switches, {self.deployments} deployments)"


def all_members(initial: np.ndarray, members: int) -> np.ndarray:  # [members, H, S]
    """A copy of the policy of each member, from one policy for all [H, S] or from a mixture."""
    return initial.copy() if initial.ndim == 3 else np.repeat(initial[None], members, axis=0)


def first_of(policies: np.ndarray) -> np.ndarray:  # [H, S], or [members, H, S]
    """The initial policy of a run: one policy if its policies [members, H, S] were all equal."""
    return policies[0] if (policies == policies[0]).all() else policies


_NOTHING = np.zeros(0)


class RunCosts(NamedTuple):
    """The costs of some runs along the way, and their final policies.

    Fields that a kind of problem does not have are empty.
    """

    regret: np.ndarray  # [runs, C]  for tables, with rewards in [0, 1]; NaN if not asked for
    local_switches: np.ndarray  # [runs, C]
    deployments: np.ndarray  # [runs, C]
    triggers: np.ndarray = _NOTHING  # [runs]
    drowned: np.ndarray = _NOTHING  # [runs]  visits with a bonus above H
    policy: np.ndarray = _NOTHING  # [runs, H, S]; for mixtures [runs, members, H, S]
    earned: np.ndarray = _NOTHING  # [runs]  the sum of all rewards
    ended: np.ndarray = _NOTHING  # [runs]  episodes played, if a run may stop early
    histories: tuple[History, ...] | None = None

    def part(self, first: int, last: int) -> RunCosts:
        """The costs of some of the runs."""
        return RunCosts._make(None if part is None else part[first:last] for part in self)

    @classmethod
    def joined(cls, runs: Sequence[RunCosts]) -> RunCosts:
        """The costs of all these runs."""
        *arrays, histories = zip(*runs, strict=True)
        kept = tuple(history for some in histories for history in some or ())
        return cls._make([*map(np.concatenate, arrays), kept or None])


# ---- exact regret --------------------------------------------------------------------------------


def evaluation_of(
    mdp: TabularMDP, policies: np.ndarray, *, wanted: bool = True
) -> tuple[ValueTables | ManyValueTables, float]:
    """The exact values of the policies [members, H, S] of a mixture, ready to follow their changes,
    and how far the mixture is below the optimum under the start law.
    """
    from lowswitch.kernels.values import value_policies

    members, H, S = policies.shape
    width = H * mdp.model.width
    mass = aligned_zeros(members * width if wanted else 0)
    for m in range(members if wanted else 0):
        mass[m * width : m * width + S] = mdp.start_law
    one = ValueTables(
        wanted=wanted,
        H=H,
        S=S,
        A=mdp.actions,
        members=members,
        best=0.0,
        optimal=mdp.unit_optimal_values[0] if wanted else np.zeros(0),
        policy=np.zeros(policies.size if wanted else 0, dtype=np.int64),
        origins=np.zeros(policies.size if wanted else 0, dtype=np.uint64),
        mass=mass,
        firsts=np.zeros(1, dtype=np.int64),
    )
    if not wanted:
        return one, 0.0
    together = members == 1 and _are_many_rows(mdp)
    evaluation = _side_by_side(one, width) if together else one
    optimal = np.repeat(mdp.optimal_policy[None], members, axis=0)
    evaluation = evaluation._replace(best=value_policies(mdp.model, evaluation, optimal))
    # a writable copy: for a read-only array the kernel would be compiled once more
    given = np.array(policies, dtype=np.int64)
    return evaluation, evaluation.best - value_policies(mdp.model, evaluation, given)


def _side_by_side(evaluation: ValueTables, width: int) -> ManyValueTables:
    """Let the next policies be valued together; `width` is the size of the laws of one policy."""
    ahead = {"firsts": _AHEAD, "begins": _AHEAD}
    return ManyValueTables(
        **evaluation._asdict()
        | {name: np.zeros(size, dtype=np.int64) for name, size in ahead.items()},
        next_origins=np.zeros(_AHEAD * len(evaluation.origins), dtype=np.uint64),
        next_mass=aligned_zeros(_AHEAD * width),
    )


def _are_many_rows(mdp: TabularMDP) -> bool:
    """Whether the dense rows are too many for the fastest cache, so that it pays to read them once
    for several policies.
    """
    return mdp.model.outflow.nbytes > _CACHE and not len(mdp.start_sequence)


def exact_regret(mdp: TabularMDP, history: History, *, episodes: int, initial: Any) -> float:
    """The exact regret of a run, from its initial policy and its history.

    Parameters
    ----------
    mdp
        The problem.
    history
        The policy changes of the run.
    episodes
        The number of episodes.
    initial
        The initial policy [H, S], or a mixture [members, H, S].
    """
    from lowswitch.kernels.values import settle

    require_mdp(mdp)
    episodes = require_count("episodes", episodes)
    first = _first_law(mdp, history, initial)
    changes = checked_changes(mdp, history, first)
    if len(changes) and changes[-1, 0] >= episodes:
        raise ValueError(
            f"the history changes the policy after episode {changes[-1, 0]}, beyond the {episodes}"
            " episodes given"
        )
    require_starts(mdp, episodes)
    evaluation, gap = evaluation_of(mdp, first)
    account = fresh_account(gap, np.array([episodes]))
    settle(mdp.model, evaluation, account, changes, len(changes), episodes)
    return float(mdp.scale.to_regret(account.balance[0]["regret"]))


def deployment_gaps(mdp: TabularMDP, history: History, *, initial: Any) -> np.ndarray:
    """How far each deployed policy is below the optimum under the start law: [deployments + 1].

    Parameters
    ----------
    mdp
        The problem.
    history
        The policy changes of the run.
    initial
        The initial policy [H, S], or a mixture [members, H, S]. It is the first entry of the
        result; the others follow the deployments.
    """
    from lowswitch.kernels.values import fill_gaps

    first = _first_law(require_mdp(mdp), history, initial)
    changes = checked_changes(mdp, history, first)
    evaluation, _ = evaluation_of(mdp, first)
    gaps = np.zeros(history.deployments + 1)
    fill_gaps(mdp.model, evaluation, changes, gaps)
    return np.asarray(mdp.scale.to_regret(gaps))


def _first_law(mdp: TabularMDP, history: Any, initial: Any) -> np.ndarray:  # [members, H, S]
    """The policy of all members before the first change, after checking that it fits the
    problem.
    """
    if not isinstance(history, History):
        raise ValueError(f"a history is a lowswitch.History(changes), not {shown(history)}")
    if np.ndim(initial) != 3:
        return np.repeat(mdp.checked_policy(initial)[None], history.members, axis=0)
    if len(initial) != history.members:
        raise ValueError(
            f"the initial mixture has {len(initial)} members, but the history has {history.members}"
        )
    return np.stack([mdp.checked_policy(one) for one in initial])


def fresh_account(gap: float, curve_points: np.ndarray) -> Account:
    """An account without episodes, for an initial policy that is `gap` below the optimum."""
    return Account(
        balance=np.array([(0.0, gap, 0, 0)], dtype=BALANCE),
        curve_points=curve_points,
        curve=np.full(len(curve_points), np.nan),
    )


def checked_changes(
    mdp: TabularMDP, history: History, first: np.ndarray
) -> np.ndarray:  # [n, 3 + members]
    """The row changes of a history, after checking that they are in order, fit the problem, and
    change something in policies that begin as `first` [members, H, S].
    """
    changes = history.changes
    if len(changes) and (changes[0, 0] < 0 or (np.diff(changes[:, 0]) < 0).any()):
        raise ValueError("the episodes of a history must not decrease, from 0 on; sort its changes")
    columns = {
        "step": (changes[:, 1], mdp.horizon),
        "state": (changes[:, 2], mdp.states),
        "action": (changes[:, 3:], mdp.actions),
    }
    for name, (values, size) in columns.items():
        if len(values) and not (values.min() >= 0 and values.max() < size):
            raise ValueError(
                f"the {name}s of a history must be 0 to {size - 1}, not {values.min()} to"
                f" {values.max()}"
            )
    _require_changes(changes, first)
    return np.array(changes, dtype=np.int64, order="C")


def _require_changes(changes: np.ndarray, began: np.ndarray) -> None:
    """Check that every change of a row changes its action; otherwise it would not be a switch."""
    if not len(changes):
        return
    order = np.lexsort((np.arange(len(changes)), changes[:, 2], changes[:, 1]))
    rows, actions = changes[order, 1:3], changes[order, 3:]
    before = np.roll(actions, 1, axis=0)
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    before[first] = began[:, rows[first, 0], rows[first, 1]].T
    same = order[(actions == before).all(axis=1)]
    if len(same):
        episode, step, state, *_ = changes[same.min()].tolist()
        raise ValueError(
            f"the change of step {step} in state {state} after episode {episode} changes nothing;"
            " leave it out, because it would count as a switch"
        )


def require_starts(mdp: TabularMDP, episodes: int) -> None:
    """Refuse a start sequence that ends before the last episode."""
    if 0 < len(mdp.start_sequence) < episodes:
        raise ValueError(
            f"the start sequence has {len(mdp.start_sequence)} states for {episodes} episodes;"
            " lengthen it, for instance with numpy.resize, or play fewer episodes"
        )


# ---- the PAC policy ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class PacPolicy:
    """The uniform mixture of all policies of a run: Bai et al. 2019, Corollary 4.

    To play it, draw one of the policies of the `episodes` episodes, each with the same probability.
    Its value is the average of their values, so under a start law it is regret / K below the
    optimum. It stores the initial policy and the row changes: its memory grows with the switches,
    not with K.
    """

    initial: np.ndarray  # [H, S], or [members, H, S]
    history: History
    episodes: int

    @property
    def weights(self) -> np.ndarray:  # [deployments + 1]
        """The probability of the initial policy and of the policy after each deployment."""
        ends = np.append(np.unique(self.history.episode) + 1, self.episodes)
        return np.diff(ends, prepend=0) / self.episodes

    def policy(self, episode: int) -> np.ndarray:  # [H, S], or [members, H, S]
        """The policy, or the mixture of policies, that was deployed in an episode."""
        episode = require_count("episode", episode, least=0, most=self.episodes - 1)
        mixture = all_members(self.initial, self.history.members)
        change_rows(mixture, self.history.changes[self.history.episode < episode, 1:])
        return mixture[0] if self.history.members == 1 else mixture

    def sample(self, generator: np.random.Generator) -> np.ndarray:  # [H, S]
        """A policy to play for one episode."""
        policy = self.policy(int(generator.integers(self.episodes)))
        return policy if policy.ndim == 2 else np.asarray(policy[generator.integers(len(policy))])

    def evaluate(self, mdp: TabularMDP) -> float:
        """The exact value under the start law."""
        gaps = deployment_gaps(mdp, self.history, initial=self.initial)
        return mdp.optimal_value() - math.fsum((self.weights * gaps).tolist())

    def require_whole(self) -> None:
        """Raise a ValueError if the parts do not fit together."""
        require_count("episodes", self.episodes)
        changes, initial = self.history.changes, self.initial
        shape = initial.shape[-2:]
        mixed = len(shape) == 2 and initial.shape == (self.history.members, *shape)
        fits = initial.ndim == 2 or mixed
        if not fits or not has_integers(initial) or (initial < 0).any():
            raise ValueError("its initial policy is not a policy")
        inside = (changes >= 0).all() and (changes[:, 1:3] < shape).all()
        if not (inside and (changes[:, 0] < self.episodes).all()):
            raise ValueError("its changes lie outside its policy or its episodes")
        if (np.diff(changes[:, 0]) < 0).any():
            raise ValueError("its changes are not in order")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mixture; `PacPolicy.load` reads it."""
        storage.save(path, "pac policy", self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PacPolicy:
        """Read a mixture that `save` wrote."""
        return storage.load(path, "pac policy", cls)

    def __repr__(self) -> str:
        return (
            f"PacPolicy(of {self.episodes:,} episodes, {self.history.deployments + 1:,} policies)"
        )
