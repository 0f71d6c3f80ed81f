"""The interface of all kinds of learners, and their common parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import has_integers, require_indices, require_memory
from lowswitch.history import History
from lowswitch.kernels.arrays import CLOCK, KEYS, OPEN, REVIEW, UNLIMITED, WAITING
from lowswitch.kernels.streams import MEMBERS, SAMPLES, learner_stream
from lowswitch.learners import integrity
from lowswitch.learners.numbers import with_numbers
from lowswitch.learners.trials import AtFloor, limited_law, needs_protocol
from lowswitch.policy.members import Part
from lowswitch.policy.tables import TablePolicy, without_actions
from lowswitch.review.proposals import Key, Proposal, ProposedRow
from lowswitch.show.progress import Pace

if TYPE_CHECKING:
    from lowswitch.learners.bounds import CellBounds
    from lowswitch.learners.posterior import ModelPosterior


class ProblemSize(NamedTuple):
    """The size of a problem."""

    horizon: int
    states: int
    actions: int
    episodes: int


class Knowledge(ABC):
    """One run of one algorithm: its spec, its tables, and the kernels that read both.

    The spec is the algorithm for one problem size, and all runs share it. The tables hold the
    knowledge and the deployed policy of one run; nothing else must be saved.
    """

    spec: Any  # a NamedTuple of numbers and arrays, with H, S, A and timing
    tables: Any  # a NamedTuple of arrays, with clock
    allowed: np.ndarray  # [H, S, A]
    members = 1  # policies in a deployed mixture
    has_protocol: Any = False  # whether the first of them is the protocol; the others are a trial
    holds_rows = True
    pace = Pace()  # of its plans; a run that shows its progress has its own

    # ---- what each kind gives --------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        """The spec for one problem size, and no tables yet."""

    @abstractmethod
    def fresh(self, seed: int) -> Self:
        """The same spec with tables that know nothing."""

    @abstractmethod
    def policy(self) -> TablePolicy:
        """A copy of the deployed policy."""

    @abstractmethod
    def q(self) -> np.ndarray:  # [H, S, A]
        """The running estimates, of the first member for a mixture; -inf if forbidden."""

    @abstractmethod
    def values(self) -> np.ndarray:  # [H + 1, S]
        """The running values, of the first member for a mixture."""

    @abstractmethod
    def visits(self) -> np.ndarray:  # [H, S, A]
        """How often each (h, x, a) was visited."""

    @abstractmethod
    def triggers(self) -> int:
        """How often something might have changed."""

    @abstractmethod
    def layout(self) -> dict[str, tuple[int, Any]]:
        """How many entries of which kind each table has at the beginning."""

    @property
    def nbytes(self) -> int:
        """How many bytes the tables of one run take at the beginning."""
        return sum(size * np.dtype(kind).itemsize for size, kind in self.layout().values())

    def require_room(self) -> None:
        """Say before they are allocated that the tables do not fit."""
        H, S, A = self.spec.H, self.spec.S, self.spec.A
        what = f"tables of H = {H}, S = {S}, A = {A} for {self.members:,} policies"
        way_out = "use a smaller problem, fewer policies, or of the library's planners pooled=True"
        require_memory(self.nbytes, what, f"{way_out} where all steps are alike")

    @abstractmethod
    def require_whole(self, told: int | None) -> None:
        """Raise a ValueError if `told` episodes cannot have left such tables.

        Compiled code trusts them: an action out of range would crash it.
        """

    def learn_at_once(self, most: int) -> None:
        """Let up to `most` episodes be learned between two checks of how much room is left."""
        timing = self.spec.timing
        self.spec = self.spec._replace(timing=timing._replace(room=timing.room * most))

    def make_room(self) -> None:  # noqa: B027
        """Let tables grow that the next episode might fill; most kinds have no such tables."""

    def plan(self, episodes: int) -> None:
        """Compute in Python the wanted policy after `episodes` episodes, if no kernel does."""
        raise NotImplementedError(f"{type(self).__name__} plans in compiled code")

    def plans_until(self, episodes: int) -> int:
        """How many plans Python makes in so many episodes, if that is known; else 0."""
        return 0

    @property
    def plan_seconds(self) -> float:
        """About how long Python takes for a plan, on a machine of 2026."""
        return 0.0

    @property
    def plan_bytes(self) -> int:
        """About how many bytes a plan takes while it is made."""
        return 0

    @property
    def stops_midway(self) -> bool:
        """Whether kernels may have to stop for more room, or for `plan`, before a round is over."""
        return False

    def begin(self, policy: np.ndarray | None) -> None:
        """Deploy a policy [H, S] before anything is learned, or what goes without one."""
        if policy is None:
            self.begin_without()
        else:
            self.begin_with(policy)

    def begin_with(self, policy: np.ndarray) -> None:
        """Deploy a policy [H, S] before anything is learned."""
        raise NotImplementedError(f"{type(self).__name__} begins with the lowest allowed actions")

    def begin_without(self) -> None:  # noqa: B027
        """Begin with the lowest allowed actions, or raise an error that a policy is needed."""

    keeps_initial = False  # whether it knows the policy that was deployed at the beginning

    def initial(self) -> np.ndarray:  # [n, H, S]
        """The policy that was deployed at the beginning, or the policies of a first mixture."""
        raise ValueError(
            f"{type(self).__name__} does not keep its initial policy; name it in than="
        )

    def count(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Learn episodes [B, H] after which nothing is deployed."""
        raise ValueError(
            "only learners that plan from counts can use earlier data, such as few, psrl and ucbvi;"
            " tell a Q-learner with off_policy=True"
        )

    def values_on_models(self, policies: np.ndarray, models: int) -> np.ndarray:  # [P, models]
        """The values of policies [P, H, S] in models that are drawn from the posterior."""
        raise ValueError(
            "only learners that plan from counts have a posterior, such as few, psrl and ucbvi"
        )

    def posterior(self) -> ModelPosterior | None:
        """The present posterior; None if it does not plan from counts."""
        return None

    def exploiting(self) -> np.ndarray:  # [H, S]
        """The policy that would be deployed now if it were the last one."""
        raise ValueError(
            "only learners that plan from counts have a posterior, such as few, psrl and ucbvi"
        )

    def model(self, number: int) -> Any:
        """A model that is drawn from the posterior."""
        raise ValueError(
            "only learners that plan from counts have a posterior, such as few, psrl and ucbvi"
        )

    def require_bounds(self) -> None:
        """Raise a ValueError if values cannot be bounded from its tables."""
        raise ValueError(
            "bounds need the counts of all transitions, and a Q-learner keeps none; use a learner"
            " that plans from counts, such as few, orlc and ucbvi"
        )

    def cell_bounds(self, probability: float, starts: np.ndarray | None = None) -> CellBounds:
        """Bounds of every cell that hold with probability 1 - `probability` at all times."""
        raise NotImplementedError(f"{type(self).__name__} keeps no counts")

    def optimality_gap(self, probability: float) -> float:
        """By how much an optimal policy may be better than the deployed one, by `cell_bounds`."""
        self.require_bounds()
        cells = self.cell_bounds(probability)
        return cells.gap(self.policy().actions, cells.best(self.allowed, chosen=False))

    # ---- the gate --------------------------------------------------------------------------------

    @abstractmethod
    def want(self, step: int, state: int, actions: Sequence[int]) -> None:
        """Let the members want these actions in a row, which is no longer held."""

    @abstractmethod
    def forbid(self, step: int, state: int, action: int) -> None:
        """Forbid an action that is not deployed; the members then want the deployed ones."""

    @abstractmethod
    def permit(self, step: int, state: int, action: int) -> None:
        """Put an action that was forbidden back on the mask; hope for the best from it."""

    @abstractmethod
    def hold(self, step: int, state: int) -> None:
        """Keep the action of a row.

        Its value becomes the value of that action, and it causes no change until `release`.
        """

    @abstractmethod
    def release(self, step: int, state: int) -> None:
        """End a hold."""

    @abstractmethod
    def next_trigger(self, step: int, state: int) -> int | None:
        """The number of visits until the deployed action of a row has a trigger, if it has one."""

    @abstractmethod
    def recheck(
        self, rows: Sequence[tuple[int, int]], told: int, *, free: bool = False
    ) -> np.ndarray:
        """Row changes [n, 3 + members] that are wanted now, if these rows became due earlier."""

    def wanted(self, told: int, *, free: bool = False) -> np.ndarray:  # [n, 3 + members]
        """Row changes that are wanted after `told` episodes; nothing is deployed or counted.

        Whether they are free makes no difference to the plan, as in the replay of every ledger.
        """
        from lowswitch.kernels.deploy import deploy_plan, refresh

        spec, rows = self.whole_spec, self.spec.H * self.spec.S
        changes = np.zeros((rows, 3 + self.members), dtype=np.int64)
        used = refresh(spec, self.tables, changes, 0, told - 1, 0)
        if self.tables.clock[0]["awaits_plan"]:
            self.plan(told)
            used = deploy_plan(spec, self.tables, changes, 0, told - 1)
        return changes[:used]

    def put(self, changes: np.ndarray) -> np.ndarray:  # [n, 3 + members]
        """Count the proposed row changes; return those for which the budget has switches left.

        These are the first ones, in the order of step and state.
        """
        return changes[: self._pass_rows(changes, self.tables, gate=REVIEW)]

    def _pass_rows(self, changes: np.ndarray, tables: Any, **timing: int) -> int:
        """Let row changes pass a gate; return how many did, which are the first ones then."""
        from lowswitch.kernels.deploy import pass_rows

        spec = self.spec._replace(timing=self.spec.timing._replace(**timing))
        return int(pass_rows(spec, tables, changes))

    def keys(self, changes: np.ndarray) -> list[Key]:
        """The rows of logged changes, in order."""
        return [(int(h), int(x)) for h, x in changes[:, 1:3]]

    def proposal(self, number: int, told: int, changes: np.ndarray) -> Proposal:
        """The proposal of these row changes."""
        deployed = self.policy()
        rows = tuple(
            ProposedRow(h, x, tuple(deployed.actions[:, h, x].tolist()), tuple(wanted))
            for _, h, x, *wanted in changes.tolist()
        )
        return Proposal(number, told, deployed.identity, rows)

    def parts_to(self, policies: np.ndarray) -> dict[Key, ProposedRow]:
        """The rows in which policies [members, H, S] differ from the deployed ones."""
        now = self.policy().actions
        found = np.argwhere((now != policies).any(axis=0)).tolist()
        rows = [
            ProposedRow(h, x, tuple(now[:, h, x].tolist()), tuple(policies[:, h, x].tolist()))
            for h, x in found
        ]
        return {row.row: row for row in rows}

    def limited(
        self, rows: Mapping[Key, ProposedRow], *, part: Part | None, share: float | None
    ) -> dict[Key, ProposedRow]:
        """The rows that change if only a part of a proposal is approved, or a smaller trial."""
        if not self.has_protocol:
            raise ValueError(needs_protocol(part, share))
        now, new = self.policy().actions, self.policy().actions.copy()
        for (h, x), row in rows.items():
            new[:, h, x] = row.proposed
        return self.parts_to(limited_law(now, new, part, share))

    @property
    def floor(self) -> float | None:
        """The share of the initial policy's value that every deployment must keep, if any."""
        return None

    def at_floor(self, rows: Mapping[Key, ProposedRow], floor: float, told: int) -> AtFloor:
        """Whether the policies that these rows lead to keep to a floor."""
        raise NotImplementedError(f"{type(self).__name__} has no floor")

    def deploy(self, rows: Iterable[ProposedRow], told: int) -> tuple[History, int]:
        """Deploy rows of a proposal through an open gate; return them and how many are switches.

        The clock still counts the proposal, whatever the board decided.
        """
        changes = [(told - 1, row.step, row.state, *row.proposed) for row in rows]
        made, clock = History(np.array(changes, dtype=np.int64)), fresh_clock()
        for _, h, x, *actions in changes:
            self.want(h, x, actions)
        tables = self.tables._replace(clock=clock)
        limits = {"deployments": UNLIMITED, "switches": UNLIMITED}
        self._pass_rows(made.changes, tables, gate=OPEN, **limits)
        return made, int(clock[0]["switches"])

    def forbid_new(self, rows: Iterable[ProposedRow], actions: Iterable[int] | None) -> None:
        """Forbid the newly proposed actions of rows, or those among them that are named."""
        named = None if actions is None else checked_actions(actions, self.spec.A)
        forbidden = [
            (row, [action for action in row.new_actions if named is None or action in named])
            for row in rows
        ]
        for row, new in forbidden:
            if not row.new_actions:
                raise ValueError(
                    f"row {row.row} would play the same actions with other probabilities, so"
                    " there is no action to forbid; reject it for now"
                )
            if named is not None and set(new) != named:
                raise ValueError(
                    f"row {row.row} would newly play the actions {list(row.new_actions)}, and"
                    f" {sorted(named)} are to be forbidden; name actions that every row would newly"
                    " play, or reject rows one by one"
                )
        for row, new in forbidden:
            for action in new:
                self.forbid(row.step, row.state, action)

    def rows_without(
        self, rows: Iterable[Key], actions: Iterable[int], instead: int | None
    ) -> dict[Key, ProposedRow]:
        """The row changes that remove these actions from the deployed policy in the rows.

        If the first member plays one of them, it plays `instead`; other members follow it.
        """
        named, keys = sorted(checked_actions(actions, self.spec.A)), list(rows)
        policies = self.policy().actions
        for h, x in keys:
            left = self.allowed[h, x].copy()
            left[named] = False
            gone = np.isin(policies[:, h, x], named)
            if not left.any():
                raise ValueError(f"row {(h, x)} would have no action left; leave it at least one")
            if gone[0] and (instead is None or not left[instead]):
                raise ValueError(
                    f"row {(h, x)} plays action {policies[0, h, x]} now; say with instead= which of"
                    f" {np.flatnonzero(left).tolist()} it shall play"
                )
        return self.parts_to(without_actions(policies, keys, named, instead))

    @property
    def whole_spec(self) -> Any:
        """The spec by which all rows may change at once."""
        return self.spec

    def set_numbers(self, numbers: dict[str, Any]) -> None:
        """Take over the numbers of a spec, before there are tables."""
        self.spec = with_numbers(self.spec, numbers)

    def set_gate(self, gate: int) -> None:
        """Let the kernels deploy, propose, or only report rows that wait."""
        if self.spec.timing.gate != gate:
            self.spec = self.spec._replace(timing=self.spec.timing._replace(gate=gate))

    def set_review(self, free: bool) -> None:
        """Let the kernels propose rows that are due, or only report that they wait."""
        self.set_gate(REVIEW if free else WAITING)

    @property
    def has_put(self) -> bool:
        """Whether the kernels count logged rows as proposed."""
        return bool(self.spec.timing.gate == REVIEW)

    def open_gate(self) -> None:
        """Let the kernels deploy rows that are due."""
        self.set_gate(OPEN)

    def undo_review(self) -> Callable[[], None]:
        """Remember the spec, of which a gate may change parts; the result puts it back."""
        spec = self.copied_spec()

        def put_back() -> None:
            self.spec = spec

        return put_back

    def copied_spec(self) -> Any:
        """The spec, with a copy of the parts that a gate may change."""
        return self.spec

    def restore_mask(self, held: Iterable[tuple[int, int]]) -> None:  # noqa: B027
        """Recompute everything that depends on the mask and the held rows, after a restore."""

    def on_grid(self, episodes: int) -> bool:
        """Whether all rows may change after `episodes` episodes."""
        timing = self.spec.timing
        return bool(timing.grid[self.tables.clock[0]["batch"]] == episodes)

    @property
    def dates(self) -> np.ndarray:
        """The future dates: numbers of episodes after which all rows may change."""
        timing, batch = self.spec.timing, self.tables.clock[0]["batch"]
        to_come: np.ndarray = timing.grid[batch:-1]
        return to_come

    def dates_between(self, since: int, until: int) -> np.ndarray:
        """The dates after `since` episodes, up to `until`; the end of the grid is not a date."""
        grid: np.ndarray = self.spec.timing.grid
        return grid[(grid > since) & (grid <= until)]

    @property
    def exploits_next(self) -> bool:
        """Whether the next deployment is the last one, and exploits."""
        from lowswitch.kernels.schedule import is_last

        return bool(self.spec.timing.exploit_last and is_last(self.spec, self.tables))

    def row_visits(self, step: int, state: int) -> int:
        """How often a row was visited."""
        return int(self.visits()[step, state].sum())

    @property
    def learns_forbidden(self) -> bool:
        """Whether steps with an action that was forbidden later may be learned."""
        return False

    # ---- costs -----------------------------------------------------------------------------------

    @property
    def deployments(self) -> int:
        return int(self.tables.clock[0]["deployments"])

    @property
    def local_switches(self) -> int:
        return int(self.tables.clock[0]["switches"])

    @property
    def spent(self) -> tuple[int, int]:
        """The deployments and switches that a budget counts."""
        return self.deployments, self.local_switches

    @spent.setter
    def spent(self, spent: tuple[int, int]) -> None:
        clock = self.tables.clock[0]
        clock["deployments"], clock["switches"] = spent

    @property
    def drowned(self) -> int:
        """How many visits had a bonus above H."""
        return int(self.tables.clock[0]["drowned"])

    @property
    def frozen(self) -> bool:
        """Whether a budget is spent."""
        return integrity.is_frozen(self.spec, self.tables.clock)

    # ---- learning --------------------------------------------------------------------------------

    def play(
        self,
        model: Any,
        evaluation: Any,
        log: Any,
        account: Any,
        key: np.uint64,
        first: int,
        last: int,
        late: Any = None,
    ) -> int:
        """Play, learn and charge episodes first .. last - 1; return the next one.

        late: the books of outcomes that arrive late, if they do. It stops before `last` if a log is
        full, or after Python planned, so that an interrupt takes effect between two plans.
        """
        from lowswitch.kernels.play import simulate, simulate_late

        def go(first: int, last: int) -> int:
            run = self.spec, self.tables, model, evaluation, log, account
            if late is not None:
                return int(simulate_late(*run, late, key, first, last))
            return int(simulate(*run, key, first, last))

        done = first
        while done < last:
            self.make_room()
            done = go(done, last)
            if self.tables.clock[0]["awaits_plan"]:
                with self.pace:
                    self.plan(done)
                    return go(done, done)
            if log.keep:
                break
        return done

    def learn(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        off_policy: bool,
        first: int,
        changes: np.ndarray,
    ) -> tuple[int, int, int]:
        """Learn episodes [B, H] in order; return row changes, episodes learned, and a step or -1.

        Behind a gate it ends after the first episode in which rows became due.

        If `off_policy` is False, it also ends before an episode with an action that the deployed
        policy would not have played, and returns the step of this action.
        """
        from lowswitch.kernels.play import learn_batch

        used = done = 0
        while True:
            rest = states[done:], actions[done:], rewards[done:], off_policy
            logged, learned, step, status = learn_batch(
                self.spec, self.tables, *rest, first + done, changes[used:]
            )
            used, done = used + logged, done + learned
            if not self.attend(status, first + done):
                return used, done, step

    def attend(self, status: int, episodes: int) -> bool:
        """Do what a kernel stopped for; return whether it has to continue."""
        from lowswitch.kernels.play import AWAITS_PLAN, LACKS_ROOM

        if status == LACKS_ROOM:
            self.make_room()
        elif status == AWAITS_PLAN:
            self.plan(episodes)
        return status in (LACKS_ROOM, AWAITS_PLAN)

    # ---- keeping ---------------------------------------------------------------------------------

    def undo(self, states: np.ndarray, actions: np.ndarray) -> Callable[[], None]:
        """Remember everything that learning these episodes can touch; the result puts it back."""
        return self.undo_all()

    def undo_all(self) -> Callable[[], None]:
        """Remember all tables and the mask; the result puts them back."""
        before = type(self.tables)(*(array.copy() for array in self.tables))
        allowed = self.allowed.copy()

        def put_back() -> None:
            self.tables = before
            self.allowed[...] = allowed

        return put_back

    def restored(self, seed: int, arrays: dict[str, np.ndarray], told: int | None) -> Self:
        """The same spec with the tables that were saved after `told` episodes.

        A ValueError says where they do not fit. `told` is None if the learner was told more than
        whole episodes, or if decisions were made: see `learners.integrity`.
        """
        for name, (size, kind) in self.layout().items():
            array = arrays[name]
            grows = name == "pool" and array.ndim == 1
            if array.dtype != kind or not (array.shape == (size,) or grows):
                raise ValueError(f"{name} is {array.dtype} of {array.shape}")
        if "keys" in arrays and learner_keys(seed).tobytes() != arrays["keys"].tobytes():
            raise ValueError(f"its noise does not match seed {seed}")
        other = self._with({name: arrays[name] for name in self.layout()})
        other.require_whole(told)
        return other

    @abstractmethod
    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        """The same spec with these tables."""


def checked_actions(actions: Iterable[int], A: int) -> set[int]:
    """The actions to forbid, or an error."""
    named = np.asarray(list(actions))
    if not len(named) or not has_integers(named):
        raise ValueError(f"actions must be whole numbers, at least one, not {actions!r}")
    require_indices("actions", named, A)
    return set(named.tolist())


def fresh_clock() -> np.ndarray:
    return np.zeros(1, dtype=CLOCK)


def learner_keys(seed: int) -> np.ndarray:
    """The noise streams of a learner's own draws."""
    return np.array([(learner_stream(seed, SAMPLES), learner_stream(seed, MEMBERS))], dtype=KEYS)
