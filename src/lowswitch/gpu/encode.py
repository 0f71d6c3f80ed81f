"""Encode a call for the kernels on a GPU: problems, settings and runs as flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.envs.mdp import TabularMDP
from lowswitch.gpu.driver import ON_CPU
from lowswitch.history import evaluation_of
from lowswitch.kernels.arrays import NEVER, Model, RowSpec, Timing
from lowswitch.kernels.streams import stream_key
from lowswitch.learners import Knowledge

FIXED, DRAWN, SEQUENCE = 0, 1, 2  # how episodes start
COLUMN = np.dtype([("threshold", "u8"), ("own", "u4"), ("other", "u4")])
CHANGE = np.dtype([("episode", "u4"), ("cell", "u4")])
CLOCK = np.dtype(
    [(name, "i8") for name in ("deployments", "switches", "refreshes", "drowned")]
    + [(name, "i4") for name in ("batch", "mark", "frozen", "unused")]
)
BALANCE = np.dtype([("regret", "f8"), ("gap", "f8"), ("charged", "i4"), ("passed", "i4")])
SPEC = np.dtype(
    [
        (name, "f8")
        for name in ("c1", "c2", "variance_scale", "lower_order", "hoeffding_scale", "factor")
    ]
    + [(name, "i8") for name in ("deployments", "switches")]
    + [
        (name, "i4")
        for name in ("every_until", "later", "later_size", "grid", "least", "remaining")
    ]
)
_MOST_ACTIONS, _MOST_CELLS = 256, 2**31


class Work(NamedTuple):
    """Runs that one kernel plays: problems of one size, and learners with one kind of bonus."""

    mdps: tuple[TabularMDP, ...]
    specs: tuple[RowSpec, ...]
    problems: np.ndarray  # [runs]  runs of one problem lie side by side
    settings: np.ndarray  # [runs]
    seeds: np.ndarray  # [runs]
    episodes: int
    regret: bool
    history: bool

    def part(self, first: int, last: int) -> Work:
        """Some of the runs."""
        problems, settings, seeds = (
            array[first:last] for array in (self.problems, self.settings, self.seeds)
        )
        return self._replace(problems=problems, settings=settings, seeds=seeds)


class RunKind(NamedTuple):
    """What problems and settings must share to use the same kernel."""

    H: int
    S: int
    A: int
    STRIDE: int
    REWARD_STRIDE: int
    BERNOULLI: bool
    SEQUENCED: bool
    DENSE: bool
    BERNSTEIN: bool
    WATCHED: bool
    GROWING: bool


def kind_of(mdp: TabularMDP, algorithm: Algorithm, knowledge: Knowledge) -> RunKind:
    """The kind of kernel for an algorithm on a problem, or an error that points to the CPU."""
    spec = knowledge.spec
    if not isinstance(spec, RowSpec):
        raise ValueError(
            "a GPU runs Q-learners such as ucb2-h and ucb2-b, but not planners, "
            "posterior samples, stages, mixtures or functions of your own, so it cannot "
            f"run {algorithm}; {ON_CPU}"
        )
    usual = np.full(spec.H, float(spec.H)), np.arange(spec.H, 0.0, -1.0)
    if not any(np.array_equal(spec.caps, caps) for caps in usual):
        raise ValueError(f"a GPU supports the caps H and H - h + 1, not {spec.caps}; {ON_CPU}")
    if spec.A > _MOST_ACTIONS or spec.H * spec.S * spec.A >= _MOST_CELLS:
        raise ValueError(
            f"a GPU runs problems of up to {_MOST_ACTIONS} actions and {_MOST_CELLS:,} triples "
            f"(h, x, a), not of H = {spec.H}, S = {spec.S}, A = {spec.A}; {ON_CPU}"
        )
    model = mdp.model
    return RunKind(
        H=spec.H,
        S=spec.S,
        A=spec.A,
        STRIDE=model.stride,
        REWARD_STRIDE=model.reward_stride,
        BERNOULLI=model.bernoulli,
        SEQUENCED=len(model.starts) > 0,
        DENSE=len(model.outflow) > 0,
        BERNSTEIN=bool(spec.bonus),
        WATCHED=_is_watched(spec.timing),
        GROWING=spec.timing.factor > 0,
    )


def _is_watched(timing: Timing) -> bool:
    """Whether an episode ends with more work than its triggers: a grid, or a budget."""
    limited = min(timing.deployments, timing.switches) < NEVER
    return bool(limited or timing.factor > 0 or len(timing.grid) > 1)


# ---- settings ------------------------------------------------------------------------------------


def encoded_specs(specs: tuple[RowSpec, ...]) -> dict[str, np.ndarray]:
    """The numbers of every setting, and the lists of triggers and grids that they refer to."""
    table = np.zeros(len(specs), dtype=SPEC)
    later, grid = _Lists(), _Lists()
    for row, spec in zip(table, specs, strict=True):
        for name in ("c1", "c2", "variance_scale", "lower_order", "hoeffding_scale", "every_until"):
            row[name] = getattr(spec, name)
        for name in ("factor", "least", "deployments", "switches"):
            row[name] = getattr(spec.timing, name)
        row["later"], row["later_size"] = later.place(spec.later), len(spec.later)
        row["grid"] = grid.place(spec.timing.grid)
        row["remaining"] = spec.caps[-1] != spec.H
    return {"specs": table, "later": later.joined(), "grid": grid.joined()}


class _Lists:
    """Concatenated lists; equal lists are stored once."""

    def __init__(self) -> None:
        self.places: dict[bytes, int] = {}
        self.lists: list[np.ndarray] = []
        self.size = 0

    def place(self, numbers: np.ndarray) -> int:
        key = numbers.tobytes()
        if key not in self.places:
            self.places[key] = self.size
            self.lists.append(numbers.astype(np.int32))
            self.size += len(numbers)
        return self.places[key]

    def joined(self) -> np.ndarray:
        return np.concatenate(self.lists)


# ---- problems ------------------------------------------------------------------------------------


def log_columns(models: list[Model]) -> tuple[int, int]:
    """log2 of the columns of the widest alias table: over all laws, and over the start laws."""
    laws = max(int((model.heads[:-1] & 63).max()) for model in models)
    return laws, max(int(model.heads[-1] & 63) for model in models)


def padded_columns(heads: np.ndarray, columns: np.ndarray, log: int) -> np.ndarray:
    """The alias tables of all rows with 2^log columns each [rows, 2^log], and the same draws.

    A column that is split into 2^d pieces gets thresholds such that the same bits fall on its own
    side: for piece number e, bits / 2^d < T - e 2^(63 - d).
    """
    pieces = np.arange(1 << log, dtype=np.uint64)
    d = np.uint64(log) - (heads & 63).astype(np.uint64)[:, None]  # [rows, 1]
    first = (heads >> 6).astype(np.uint64)[:, None]
    found = columns[first + (pieces >> d)]  # [rows, 2^log]
    threshold = found["threshold"].astype(np.uint64)
    before = (pieces & ((np.uint64(1) << d) - np.uint64(1))) << (np.uint64(63) - d)
    left = np.where(threshold > before, threshold - before, np.uint64(0))
    whole = left >= np.uint64(1) << (np.uint64(63) - d)
    most = np.uint64(2**63 - 1)
    table = np.zeros(found.shape, dtype=COLUMN)
    table["threshold"] = np.where(whole & (d > 0), most, left << d) << np.uint64(1)
    table["own"], table["other"] = found["own"], found["other"]
    return table


def plain_columns(columns: np.ndarray) -> np.ndarray:
    """The alias tables without padding."""
    table = np.zeros(len(columns), dtype=COLUMN)
    table["threshold"] = columns["threshold"].astype(np.uint64) << np.uint64(1)
    table["own"], table["other"] = columns["own"], columns["other"]
    return table


def encoded_problems(
    mdps: tuple[TabularMDP, ...], constants: dict[str, int], regret: bool, episodes: int
) -> dict[str, np.ndarray]:
    """The tables of all problems, one after the other."""
    models = [mdp.model for mdp in mdps]
    arrays = _sampling_tables(models, constants)
    arrays["rewards"] = np.concatenate([model.rewards for model in models])
    arrays["allowed"] = np.concatenate([mdp.actions_allowed.reshape(-1) for mdp in mdps])
    arrays["starts"] = np.concatenate([model.starts[:episodes] for model in models])
    gaps = np.zeros((len(mdps), 2))
    if regret:
        arrays |= _value_tables(mdps, models, constants)
        for i, mdp in enumerate(mdps):
            evaluation, gap = evaluation_of(mdp, mdp.actions_allowed.argmax(axis=-1)[None])
            gaps[i] = evaluation.best, gap
    arrays["best"], arrays["first_gaps"] = gaps[:, 0].copy(), gaps[:, 1].copy()
    return arrays


def _sampling_tables(models: list[Model], constants: dict[str, int]) -> dict[str, np.ndarray]:
    """Alias tables of all laws and of the starts."""
    starts = [
        padded_columns(model.heads[-1:], model.columns, constants["START_LOG"]) for model in models
    ]
    if constants["PADDED"]:
        log = constants["LOG_COLUMNS"]
        laws = [padded_columns(model.heads[:-1], model.columns, log) for model in models]
    else:
        laws = [plain_columns(model.columns) for model in models]
    ends = np.cumsum([table.size for table in laws])
    return {
        "columns": np.concatenate([table.reshape(-1) for table in laws]),
        "first_columns": np.append(0, ends[:-1]),
        "heads": np.concatenate([model.heads for model in models]),
        "start_columns": np.concatenate([table.reshape(-1) for table in starts]),
    }


def _value_tables(
    mdps: tuple[TabularMDP, ...], models: list[Model], constants: dict[str, int]
) -> dict[str, np.ndarray]:
    """The tables from which exact values are computed."""
    arrays = {
        "start_laws": np.concatenate([mdp.start_law for mdp in mdps]),
        "optimal": np.concatenate([mdp.unit_optimal_values[0] for mdp in mdps]),
    }
    if constants["DENSE"]:
        laws, wide, S = constants["LAWS"], constants["WIDE"], constants["S"]
        outflow = np.zeros((len(models), laws, wide))
        for table, model in zip(outflow, models, strict=True):
            table[:, : S + 1] = model.outflow.reshape(laws, model.width)[:, : S + 1]
        arrays["outflow"] = outflow.reshape(-1)
    else:
        ends = np.cumsum([len(model.successors) for model in models])
        arrays["first_nonzeros"] = np.append(0, ends[:-1])
        for name in ("offsets", "successors", "probabilities"):
            arrays[name] = np.concatenate([getattr(model, name) for model in models])
    return arrays


# ---- runs ----------------------------------------------------------------------------------------


def encoded_runs(work: Work, runs_per_block: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The data of each run, in whole blocks of one problem each, and the places [runs] of the
    runs.
    """
    sizes = np.unique_counts(work.problems).counts
    blocks = -(-sizes // runs_per_block)
    firsts = np.append(0, np.cumsum(blocks)[:-1]) * runs_per_block
    places = np.concatenate(
        [first + np.arange(size) for first, size in zip(firsts, sizes, strict=True)]
    )
    settings = np.full(blocks.sum() * runs_per_block, -1, dtype=np.int32)
    keys = np.zeros(len(settings), dtype=np.uint64)
    settings[places] = work.settings
    seeds, which = np.unique(work.seeds, return_inverse=True)
    keys[places] = np.array([stream_key(seed) for seed in seeds.tolist()], dtype=np.uint64)[which]
    problems = np.repeat(np.unique(work.problems), blocks).astype(np.int32)
    return {"problems": problems, "settings": settings, "keys": keys}, places
