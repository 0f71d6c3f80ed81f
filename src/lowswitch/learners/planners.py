"""Planners: counts of everything seen, and backward induction on them or on posterior samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.custom import Counts, FromCounts
from lowswitch.algorithms.estimators import Estimator, LearnedPosterior
from lowswitch.algorithms.fingerprints import unchanged
from lowswitch.checks import has_integers, require_memory
from lowswitch.kernels.arrays import (
    CLOCK,
    KEYS,
    NEVER,
    OPEN,
    PLANNED,
    RECORD,
    SUCCESSOR,
    PlanSpec,
    PlanTables,
)
from lowswitch.learners import integrity
from lowswitch.learners.ahead import compile_ahead
from lowswitch.learners.beginnings import exploring_policies
from lowswitch.learners.bounds import CellBounds
from lowswitch.learners.hypotheses import Seen
from lowswitch.learners.knowledge import Knowledge, ProblemSize
from lowswitch.learners.mixtures import deployed_mixture
from lowswitch.learners.plan_spec import (
    SMALLER,
    estimating_members,
    fresh_plan_tables,
    lower_values,
    plan_sizes,
    plan_spec,
    require_feasible,
)
from lowswitch.learners.posterior import ModelPosterior
from lowswitch.learners.trials import (
    NOTHING,
    AtFloor,
    Found,
    Moment,
    members_in_trial,
    moment_of,
    most_in_trial,
    trial_share,
)
from lowswitch.policy.tables import TablePolicy, departing
from lowswitch.review.proposals import Key, ProposedRow
from lowswitch.show.progress import cores

_LARGE = 10**5  # cells of a model whose plan is worth a thread
_DRAW_SECONDS = 1.6e-7  # for a cell of a model: benchmarks/large.py
_DRAWN_BYTES = 500  # for a cell of one step of a model
_COUNTED_BYTES = 150  # for a cell of what was counted, by row and by state
_CLEAR = 2.5  # standard deviations by which a last policy must gain
_CLEAR_FOR_NOW = 2.0  # the same for a protocol
_COSTED = 16  # policies of a trial that are enough to say what it costs


class PlannerKnowledge(Knowledge):
    """The learners of `note_visit` and `plan_all`, and those that plan in Python."""

    tables: PlanTables

    def __init__(self, estimator: Estimator, spec: PlanSpec, allowed: np.ndarray) -> None:
        self.estimator, self.spec, self.allowed = estimator, spec, allowed
        self.members = spec.members

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        spec = plan_spec(algorithm, size, allowed)
        require_feasible(spec)
        return cls(algorithm.estimator, spec, allowed)

    def set_numbers(self, numbers: dict[str, Any]) -> None:
        """Take over the numbers of a spec; numbers that an older run lacks get their old values."""
        super().set_numbers({"waits_for_law": False, "rule": 1} | numbers)

    def fresh(self, seed: int) -> Self:
        self.require_room()
        other = type(self)(self.estimator, self.spec, self.allowed)
        other.tables = fresh_plan_tables(self.spec, self.allowed, seed)
        if isinstance(self.estimator, LearnedPosterior):
            compile_ahead()
        return other

    def begin_with(self, policy: np.ndarray) -> None:
        self.tables.initial[:] = policy.reshape(-1)
        self.tables.chosen[0] = True
        first = np.repeat(policy[None], self.members, axis=0)
        if isinstance(self.estimator, LearnedPosterior) and self.estimator.first == "explore":
            self._add_first_trial(self.estimator, first)
        self._deploy_first(first)

    def _add_first_trial(self, estimator: LearnedPosterior, first: np.ndarray) -> None:
        """Let the last ones of policies [members, H, S] explore from the first episode on."""
        L, H, S = first.shape
        exploring = L
        if self.has_protocol:
            exploring = members_in_trial(trial_share(estimator.trial, self._moment(0), NOTHING), L)
        if estimator.floor is not None:
            exploring = min(exploring, most_in_trial(estimator.floor, L, np.ones(1), np.ones(1)))
        trial = exploring_policies(self.allowed, exploring).reshape(exploring, -1)
        kept = first[L - exploring :].reshape(exploring, -1)
        self._keep_all_but(estimator.rows, trial, kept)
        first[L - exploring :] = trial.reshape(exploring, H, S)

    def begin_without(self) -> None:
        floor = getattr(self.estimator, "floor", None)
        if floor is not None:
            raise ValueError(
                f"floor={floor:g} is a share of the initial policy's value; give the policy that is"
                " played today as initial=, or leave floor out"
            )
        if self._explores_first():
            self._deploy_first(exploring_policies(self.allowed, self.members))

    def _explores_first(self) -> bool:
        """Whether policies that nobody chose may explore: behind a gate only if it was declared."""
        first = getattr(self.estimator, "first", "lowest") if self.members > 1 else "lowest"
        return bool(first == "explore" or (first == "auto" and self.spec.timing.gate == OPEN))

    def _deploy_first(self, policies: np.ndarray) -> None:
        """Deploy policies [members, H, S] before anything is learned."""
        for deployed in (self.tables.policy, self.tables.wanted):
            deployed[:] = policies.reshape(-1)

    keeps_initial = True

    def initial(self) -> np.ndarray:
        if not self.tables.chosen[0] and self._explores_first():
            return exploring_policies(self.allowed, self.members)
        return self.tables.initial.reshape(1, *self.allowed.shape[:2]).copy()

    def count(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        from lowswitch.kernels.counts import note_batch

        done = 0
        while done < len(states):
            self.make_room()
            done = note_batch(self.spec, self.tables, states, actions, rewards, done)

    def values_on_models(self, policies: np.ndarray, models: int) -> np.ndarray:
        from lowswitch.kernels.evidence import believe
        from lowswitch.kernels.exploitation import values_on_draws

        found = np.zeros((len(policies), models))
        rows = np.ascontiguousarray(policies, dtype=np.int64).reshape(len(policies), -1)
        values_on_draws(self.spec, self.tables, believe(self.spec, self.tables), rows, found)
        return found

    def posterior(self) -> ModelPosterior:
        from lowswitch.kernels.evidence import APART, TESTED, TOGETHER, believe, gather_laws

        spec, tables, began = self.spec, self.tables, self.visits()[0].sum(axis=-1).astype(float)
        if not began.any():
            began[:] = 1.0
        tested = spec.pooling == TESTED and spec.stride > 0
        together = gather_laws(spec, tables, TOGETHER) if tested else None
        chosen = self.initial()[0] if tables.chosen[0] else None
        seen = Seen(believe(spec, tables), gather_laws(spec, tables, APART), together, chosen)
        stream = tables.keys[0]["samples"]
        return ModelPosterior(spec, seen, stream, began / began.sum(), began.sum())

    def exploiting(self) -> np.ndarray:
        H, S, _ = self.allowed.shape
        other = type(self)(self.estimator, self.spec, self.allowed)
        other.tables = type(self.tables)(*(array.copy() for array in self.tables))
        other._exploit(_CLEAR)
        wanted: np.ndarray = other.tables.wanted[: H * S].reshape(H, S)
        return wanted

    def require_bounds(self) -> None:
        from lowswitch.kernels.counts import NEWEST

        if self.spec.data == NEWEST:
            raise ValueError(
                'bounds need all visits, and data="newest" plans from the newest ones alone; use'
                ' mvp(data="all")'
            )

    def cell_bounds(self, probability: float, starts: np.ndarray | None = None) -> CellBounds:
        return CellBounds(self.spec, self.tables, probability, starts)

    def learn_at_once(self, most: int) -> None:
        super().learn_at_once(most)
        self.spec = self.spec._replace(spare=self.spec.spare * most)

    def make_room(self) -> None:
        """Let the pool grow by half where it might not hold the successors of an episode more."""
        pool, used = self.tables.pool, int(self.tables.clock[0]["pool"])
        need = used + self.spec.spare
        if need > len(pool):
            larger = max(need, len(pool) * 3 // 2)
            what = f"the {used:,} successors counted so far, and room for the next episodes"
            require_memory(larger * SUCCESSOR.itemsize, what, SMALLER)
            grown = np.zeros(larger, dtype=SUCCESSOR)
            grown[:used] = pool[:used]
            self.tables = self.tables._replace(pool=grown)

    @property
    def stops_midway(self) -> bool:
        return True

    def plan(self, episodes: int) -> None:
        from lowswitch.kernels.schedule import is_last

        if isinstance(self.estimator, FromCounts):
            self._plan_in_python(self.estimator, episodes)
        elif self.spec.timing.exploit_last and is_last(self.spec, self.tables):
            self._exploit(_CLEAR)
        else:
            self._plan_on_draws()
            if isinstance(self.estimator, LearnedPosterior):
                self._settle_law(self.estimator, max(1, episodes))

    def _plan_in_python(self, estimator: FromCounts, episodes: int) -> None:
        """Let the user's planner plan; at plans 1, 2, 4, 8, ... see that it keeps no state."""
        number = 1 + int(self.tables.clock[0]["refreshes"])
        is_watched = number & (number - 1) == 0
        way_out = "let plan depend on counts alone"
        with unchanged(estimator, way_out) if is_watched else nullcontext():
            policies = estimator.plan(self._counts(episodes))
        wanted = checked_policies(policies, self.members, self._planned_from)
        self.tables.wanted[:] = wanted.reshape(-1)

    @property
    def has_protocol(self) -> bool:
        """Whether the first member is the protocol, which those outside of the trial follow."""
        if not isinstance(self.estimator, LearnedPosterior) or self.members == 1:
            return False
        trial = self.estimator.trial
        return bool(self.tables.chosen[0]) if trial == "auto" else trial is not None

    def _exploit(self, clear: float) -> tuple[float, float, np.ndarray]:
        """Let all members want the policy that exploits.

        If a user chose the first policy, the new one leaves it only as far as halves of the data
        show a gain. Return its gain over the first policy, the ratio of a gain to its standard
        deviation, and the values [2, models] of both policies.
        """
        from lowswitch.kernels.crossfit import learned_caution
        from lowswitch.kernels.evidence import believe
        from lowswitch.kernels.exploitation import COMPARED, exploit

        values, belief = np.zeros((2, COMPARED)), believe(self.spec, self.tables)
        caution, gain, ratio = -1.0, 0.0, 0.0
        if self.tables.chosen[0]:
            caution, gain, ratio = learned_caution(self.spec, self.tables, belief, clear)
        exploit(self.spec, self.tables, belief, caution, values)
        return max(gain, float(values[0].mean() - values[1].mean())), ratio, values

    def _settle_law(self, estimator: LearnedPosterior, episodes: int) -> None:
        """Let members want a protocol, if there is one, within the limits on rows and shares.

        The draws for the last members are the trial.
        """
        wanted = self.tables.wanted.reshape(self.members, -1)
        deployed = self.tables.policy.reshape(self.members, -1)
        if not self.has_protocol:
            self._keep_all_but(estimator.rows, wanted, deployed)
            return
        drawn = wanted.copy()
        exploring = self._plan_protocol(estimator, drawn, self._moment(episodes))
        trial = slice(self.members - exploring, self.members)
        self._keep_all_but(estimator.rows, wanted[:1], deployed[:1])
        wanted[1:] = wanted[0]
        self._keep_all_but(estimator.rows, drawn[trial], wanted[trial])
        wanted[trial] = drawn[trial]

    def _moment(self, episodes: int) -> Moment:
        """The deployment after `episodes` episodes; requested ones count as evenly spaced."""
        timing, number = self.spec.timing, int(self.tables.clock[0]["deployments"]) + 1
        evenly = timing.asked or len(timing.grid) == 1
        return moment_of(
            number,
            episodes,
            () if evenly else timing.grid.tolist(),
            episodes=timing.episodes,
            deployments=timing.deployments,
            rule=self.spec.rule,
            begins=getattr(self.estimator, "first", "lowest") == "explore",
        )

    def _plan_protocol(self, estimator: LearnedPosterior, drawn: np.ndarray, moment: Moment) -> int:
        """Let all members want the protocol; return how many are to explore.

        A later deployment can correct a protocol, so it need not be as certain as the last one. It
        is what vetoes left of the initial policy if another one would be below the floor.
        """
        H, S, L = self.spec.H, self.spec.S, self.members
        gain, ratio, values = self._exploit(_CLEAR_FOR_NOW)
        some = self.values_on_models(drawn[:_COSTED].reshape(-1, H, S), values.shape[1])
        cost, paid = float(values[0].mean() - some.mean()), bool(self.tables.records["total"].any())
        found = Found(gain, ratio, cost, paid)
        exploring = members_in_trial(trial_share(estimator.trial, moment, found), L)
        if estimator.floor is None:
            return exploring
        most = most_in_trial(estimator.floor, L, *values)
        if most < 0:
            self.tables.wanted[:] = np.tile(self._initial_left().reshape(-1), L)
            most = most_in_trial(estimator.floor, L, values[1], values[1])
        return min(exploring, most)

    def _initial_left(self) -> np.ndarray:  # [H, S]
        """The initial policy; where its action was forbidden since, the deployed protocol."""
        initial = self.tables.initial.reshape(self.spec.H, self.spec.S)
        left = np.take_along_axis(self.allowed, initial[..., None], axis=-1)[..., 0]
        return np.where(left, initial, self.policy().actions[0])

    @property
    def floor(self) -> float | None:
        found: float | None = getattr(self.estimator, "floor", None)
        return found if self.has_protocol else None

    def at_floor(self, rows: Mapping[Key, ProposedRow], floor: float, told: int) -> AtFloor:
        from lowswitch.kernels.exploitation import COMPARED

        law = self.policy().actions.copy()
        for (h, x), row in rows.items():
            law[:, h, x] = row.proposed
        both = np.stack([law[0], self._initial_left()])
        values = self.values_on_models(both, COMPARED)
        return AtFloor.of(floor, int(departing(law).sum()), len(law), *values)

    def _plan_on_draws(self) -> None:
        """Let every member want the best policy of its own model; large models run in parallel."""
        from lowswitch.kernels.evidence import believe
        from lowswitch.kernels.model_draws import curious, plan_on_draw

        belief = curious(self.spec, believe(self.spec, self.tables))
        work, members = len(belief.laws.n) + self.allowed.size, range(self.members)
        with ThreadPoolExecutor(self._at_once(work)) as threads:
            made = threads.map(lambda m: plan_on_draw(self.spec, self.tables, belief, m), members)
            for number, _ in enumerate(made, 1):
                self.pace.share = number / self.members

    def _at_once(self, work: int) -> int:
        """How many members plan at once on a model with so many cells, its own and the mask's."""
        return min(self.members, cores()) if work > _LARGE else 1

    def plans_until(self, episodes: int) -> int:
        from lowswitch.kernels.planning import LEARNED

        timing = self.spec.timing
        by_visits = timing.factor > 0 or self.spec.every_until > 0 or len(self.spec.later) > 1
        if self.spec.kind != LEARNED or (by_visits and not timing.asked):
            return 0
        return int(min((timing.grid <= episodes).sum(), timing.deployments))

    @property
    def plan_seconds(self) -> float:
        entries, cells, _ = plan_sizes(self.spec)
        return _DRAW_SECONDS * self.members * cells / self._at_once(cells + entries)

    @property
    def plan_bytes(self) -> int:
        from lowswitch.kernels.planning import LEARNED

        entries, cells, _ = plan_sizes(self.spec)
        step = self.spec.S * self.spec.A
        drawn = _DRAWN_BYTES * step * self._at_once(cells + entries)
        return drawn + _COUNTED_BYTES * cells if self.spec.kind == LEARNED else 0

    def _keep_all_but(self, most: int | None, wanted: np.ndarray, kept: np.ndarray) -> None:
        """Let policies [n, H * S] differ from the kept ones in at most `most` rows.

        Rows are ranked by the number of policies that differ there, times their visits. Among
        equals the first rows may differ.
        """
        if most is None:
            return
        H, S, A = self.allowed.shape
        visits = self.tables.visits.reshape(H * S, A).sum(axis=1)
        worth = (kept != wanted).sum(axis=0) * (visits + 1)
        rows = np.argsort(-worth, kind="stable")[most:]
        wanted[:, rows] = kept[:, rows]

    @property
    def _planned_from(self) -> np.ndarray:  # [H, S, A]
        """The mask without the actions to which held rows may not change."""
        mask: np.ndarray = self.spec.allowed.reshape(self.allowed.shape)
        return mask

    def _counts(self, episodes: int) -> Counts:
        """The counts so far, for a planner of the user's own."""
        from lowswitch.kernels.counts import spread_successors
        from lowswitch.kernels.schedule import is_last

        H, S, A = self.allowed.shape
        records, clock = self.tables.records.reshape(H, S, A), self.tables.clock
        successors = np.zeros((H * S * A, S), dtype=np.int64)
        spread_successors(self.spec, self.tables, successors)
        stream = int(self.tables.keys[0]["samples"])
        return Counts(
            visits=records["n"].copy(),
            rewards=records["total"].copy(),
            squares=records["squares"].copy(),
            successors=successors.reshape(H, S, A, S),
            allowed=_read_only(self._planned_from),
            deployed=self.policy().actions,
            episodes=episodes,
            last=bool(is_last(self.spec, self.tables)),
            generator=np.random.default_rng([stream, int(clock[0]["refreshes"])]),
        )

    def layout(self) -> dict[str, tuple[int, Any]]:
        spec, L = self.spec, self.spec.members
        entries, cells, late = plan_sizes(spec)
        rows = spec.H * spec.S
        return {
            **dict.fromkeys(("policy", "wanted"), (L * rows, np.int64)),
            "initial": (rows, np.int64),
            "chosen": (1, bool),
            "earlier": (1, np.int64),
            "q": (estimating_members(spec) * entries, float),
            "values": (estimating_members(spec) * (rows + spec.S) + lower_values(spec), float),
            "visits": (entries, np.int64),
            "drowned": (entries, bool),
            "cells": (cells, PLANNED),
            "records": (cells, RECORD),
            "fresh": (late, RECORD),
            "dirty": (cells, bool),
            "pool": (spec.spare, SUCCESSOR),
            "clock": (1, CLOCK),
            "keys": (1, KEYS),
            "counter": (1, np.uint64),
            "order": (spec.S, np.int64),
            "scratch": (spec.S, float),
            "tally": (spec.A, np.int64),
        }

    def restored(self, seed: int, arrays: dict[str, np.ndarray], told: int | None) -> Self:
        if "chosen" not in arrays and "caution" in arrays:  # a number above 0 once said the same
            arrays = arrays | {"chosen": arrays["caution"] > 0}
        return super().restored(seed, arrays, told)

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.estimator, self.spec, self.allowed)
        other.tables = PlanTables(**arrays)
        return other

    def require_whole(self, told: int | None) -> None:
        (H, S, A), L, tables = self.allowed.shape, self.members, self.tables
        integrity.require_clock(self.spec, tables.clock, told, L)
        for name in ("policy", "wanted"):
            policies = getattr(tables, name).reshape(L, H, S)
            integrity.require_actions(name, policies, self.allowed, told)
        integrity.require_actions("initial", tables.initial.reshape(1, H, S), self.allowed, told)
        visits = tables.visits.reshape(H, S, A)
        integrity.require(tables.earlier >= 0, "its number of earlier episodes is negative")
        episodes = None if told is None else told + int(tables.earlier[0])
        integrity.require_visits(visits, self.allowed, episodes)
        if not isinstance(self.estimator, FromCounts):
            q, values = tables.q.reshape(-1, H, S, A), tables.values.reshape(-1, H + 1, S)
            integrity.require_estimates(q, values, self.spec.caps, self.allowed, told)
        counted = visits.reshape(-1) if self.spec.stride else visits.sum(axis=0).reshape(-1)
        integrity.require(
            tables.cells["visits"] == counted, "visits of cells do not match the counts"
        )
        if told is not None:
            frozen = integrity.is_frozen(self.spec, tables.clock)
            integrity.require_due(self.spec, tables.cells, frozen)
        most = self.spec.most_visits * (2 if self.spec.waits_for_law else 1)
        self._require_records(np.minimum(counted, most))
        integrity.require(
            np.sort(tables.order) == np.arange(S), "its order of states is not a permutation"
        )
        scratch = (tables.scratch == 0).all() and (tables.tally == 0).all()
        integrity.require(scratch, "its scratch memory is not zero")

    def _require_records(self, most: np.ndarray) -> None:
        tables = self.tables
        records = np.concatenate([tables.records, tables.fresh])
        limits = np.tile(most, 2)[: len(records)]
        used = int(tables.clock[0]["pool"])
        integrity.require_blocks(records, tables.pool, used, self.spec.S, limits)

    # ---- the gate --------------------------------------------------------------------------------

    def want(self, step: int, state: int, actions: Sequence[int]) -> None:
        wanted = self.tables.wanted.reshape(self.members, self.spec.H, self.spec.S)
        wanted[:, step, state] = actions

    def forbid(self, step: int, state: int, action: int) -> None:
        self.allowed[step, state, action] = False
        self.want(step, state, self.policy().actions[:, step, state].tolist())
        self._allow(step, state, self.spec.allowed.reshape(self.allowed.shape)[step, state])

    def permit(self, step: int, state: int, action: int) -> None:
        self.allowed[step, state, action] = True
        self.release(step, state)

    def hold(self, step: int, state: int) -> None:
        played = np.zeros(self.spec.A, dtype=bool)
        played[self.policy().actions[:, step, state]] = True
        self._allow(step, state, played)

    def release(self, step: int, state: int) -> None:
        self._allow(step, state, np.ones(self.spec.A, dtype=bool))

    def _allow(self, step: int, state: int, allowed: np.ndarray) -> None:
        """Plan from now on with this mask [A] of a row, as far as nothing in it is forbidden."""
        spec = self.spec
        mask = spec.allowed.reshape(self.allowed.shape)[step, state]
        wanted = allowed & self.allowed[step, state]
        # of a learned posterior only the first member has estimates
        estimates = self.tables.q.reshape(-1, spec.H, spec.S, spec.A)[:, step, state]
        if (mask == wanted).all() and (estimates[:, ~wanted] == -np.inf).all():
            return
        hope = np.nan if np.isnan(self.tables.values[0]) else spec.caps[step]
        estimates[:, wanted & ~mask] = hope
        estimates[:, ~wanted] = -np.inf
        mask[:] = wanted
        best = np.minimum(spec.caps[step], estimates.max(axis=-1))
        upper = self.tables.values.reshape(-1, spec.H + 1, spec.S)[: len(best)]
        upper[:, step, state] = best
        self.tables.dirty[:] = True

    def restore_mask(self, held: Iterable[tuple[int, int]]) -> None:
        mask = self.spec.allowed.reshape(self.allowed.shape)
        mask[...] = self.allowed
        for step, state in held:
            mask[step, state] = False
            mask[step, state, self.policy().actions[:, step, state]] = True

    def next_trigger(self, step: int, state: int) -> int | None:
        if self.spec.timing.asked:
            return None
        own = self.policy().actions[:, step, state]
        cells = self.tables.cells[step * self.spec.stride + state * self.spec.A + own]
        due = cells["due"] != NEVER
        return int((cells["due"] - cells["visits"])[due].min()) if due.any() else None

    def recheck(
        self, rows: Sequence[tuple[int, int]], told: int, *, free: bool = False
    ) -> np.ndarray:
        return self.wanted(told)

    def copied_spec(self) -> Any:
        return self.spec._replace(allowed=self.spec.allowed.copy())

    @property
    def learns_forbidden(self) -> bool:
        return True

    def row_visits(self, step: int, state: int) -> int:
        return int(self.tables.visits.reshape(self.allowed.shape)[step, state].sum())

    # ---- knowledge -------------------------------------------------------------------------------

    def policy(self) -> TablePolicy:
        return deployed_mixture(self)

    def q(self) -> np.ndarray:
        H, S, A = self.allowed.shape
        return self.tables.q[: H * S * A].reshape(H, S, A).copy()

    def values(self) -> np.ndarray:
        H, S, _ = self.allowed.shape
        return self.tables.values[: (H + 1) * S].reshape(H + 1, S).copy()

    def visits(self) -> np.ndarray:
        return self.tables.visits.reshape(self.allowed.shape).copy()

    def triggers(self) -> int:
        """How many plans were made."""
        return int(self.tables.clock[0]["refreshes"])


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def checked_policies(policies: Any, members: int, allowed: np.ndarray) -> np.ndarray:
    """The answer of a planner of the user's own, [members, H, S], or an error."""
    H, S, _ = allowed.shape
    actions = np.asarray(policies)
    if members == 1 and actions.shape == (H, S):
        actions = actions[None]
    if actions.shape != (members, H, S) or not has_integers(actions):
        kind = f"{actions.dtype} of {np.shape(policies)}"
        shape = (H, S) if members == 1 else (members, H, S)
        raise ValueError(
            f"plan must give a whole number for each of {shape} rows, not {kind};"
            " counts.greedy(q) makes them of estimates"
        )
    known = (actions >= 0) & (actions < allowed.shape[2])
    within = np.where(known, actions, 0)
    wrong = np.argwhere(~known | ~allowed[np.arange(H)[:, None], np.arange(S), within])
    if len(wrong):
        m, h, x = wrong[0]
        raise ValueError(
            f"plan gives action {actions[m, h, x]} at step {h} in state {x}, which is not allowed; "
            "see counts.allowed"
        )
    return actions
