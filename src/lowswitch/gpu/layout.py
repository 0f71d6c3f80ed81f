"""The memory layout on a GPU, computed before anything is launched."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lowswitch.gpu.driver import ON_CPU, DeviceFacts, GpuError
from lowswitch.gpu.encode import (
    BALANCE,
    CHANGE,
    CLOCK,
    COLUMN,
    DRAWN,
    FIXED,
    SEQUENCE,
    RunKind,
    log_columns,
)
from lowswitch.kernels.arrays import Model

_LEAST_RUNS = 16  # per multiprocessor, from which rows lie in its shared memory
_MOST_RUNS = 512  # per block
_LOGGED_CHANGES = 2**12
_REGISTER_STATES = 31  # up to this many, the state law fits a thread's registers
_OUTFLOW_BYTES = 96 * 1024  # of shared memory for the laws of the next state
# alias tables are padded up to this many bytes, or up to this multiple of their size
_PADDED_BYTES, _PADDED_TIMES = 2**22, 4
_CHUNK = 10  # steps that are learned side by side
_SETTLE_THREADS = 64
_HELPED_THREADS = 320  # per multiprocessor; this many evaluate policies at once
_SHARE_OF_MEMORY = 0.9  # of the free memory
_WARPS = 8  # per block
_TEAM_RUNS, _TEAM_WARPS = 96, 12  # up to this many runs per block, several lanes share a run
_FEW_RUNS = 48  # with so few runs, more warps would idle
_MOST_TEAM = 8
_GLOBAL_RUNS, _GLOBAL_TEAM = 64, 4  # per block whose rows lie in global memory
_NEAR = 16  # up to this many actions, all cells of a row are fetched at once,
_BATCH, _SMALL_BATCH = 4, 2  # and the cells of this many rows; fewer for teams and many actions


class MemoryLayout(NamedTuple):
    """The memory layout of one kind of runs."""

    constants: dict[str, int]  # compile-time constants of the kernels
    runs: int  # per block
    play_threads: int
    play_shared: int  # bytes per block
    settle_threads: int
    settle_shared: int
    settle_split: int  # blocks that settle the runs of one playing block
    log_size: int  # row changes that a run can log
    bytes_per_run: int
    sizes: dict[str, tuple[int, np.dtype]]  # entries of each array per run, and their type

    def capacity(self, free: int, tables: int) -> int:
        """How many runs fit into the memory beside the problems' tables, in whole blocks."""
        room = int(free * _SHARE_OF_MEMORY) - tables
        blocks = room // (self.bytes_per_run * self.runs)
        if blocks < 1:
            need = tables + self.bytes_per_run * self.runs
            raise GpuError(
                f"this problem needs {need:,} bytes on the GPU for {self.runs} runs at "
                f"once, but {free:,} are free; leave out its regret, use a smaller "
                f"problem, or {ON_CPU}"
            )
        return blocks * self.runs


def lay_out(kind: RunKind, models: list[Model], facts: DeviceFacts, runs: np.ndarray, *,
            regret: bool, history: bool, curve_points: int) -> MemoryLayout:  # fmt: skip
    """The layout for runs of one kind; `runs` counts them per problem."""
    constants = {name: int(value) for name, value in kind._asdict().items()}
    del constants["SEQUENCED"]
    constants |= _tables(kind, models) | _values(kind, facts, regret)
    constants |= {
        "LOGGED": int(regret or history),
        "ROOM": kind.H * (kind.S if kind.WATCHED else 1),
        "CHUNK": -(-kind.H // -(-kind.H // _CHUNK)),
    }
    constants |= _rows(constants, facts, runs)
    per_block = constants["RUNS"]
    groups = constants["SETTLE_THREADS"] // constants["GROUP"]
    split = -(-per_block * constants["HELPERS"] // groups)
    constants |= {"SETTLE_SPLIT": split}
    log_size = max(_LOGGED_CHANGES, 2 * constants["ROOM"]) if constants["LOGGED"] else 0
    sizes = _sizes(constants, regret, curve_points, log_size)
    return MemoryLayout(
        constants=constants,
        runs=per_block,
        play_threads=constants["THREADS"],
        play_shared=_play_shared(constants, per_block),
        settle_threads=constants["SETTLE_THREADS"],
        settle_shared=_settle_shared(constants),
        settle_split=split,
        log_size=log_size,
        bytes_per_run=sum(entries * dtype.itemsize for entries, dtype in sizes.values()),
        sizes=sizes,
    )


def _tables(kind: RunKind, models: list[Model]) -> dict[str, int]:
    """How draws from the transition laws are made."""
    laws = kind.S * kind.A * (kind.H if kind.STRIDE else 1)
    log, start_log = log_columns(models)
    padded = laws << log
    given = max(len(model.columns) for model in models)
    small = padded * COLUMN.itemsize <= _PADDED_BYTES or padded <= _PADDED_TIMES * given
    fixed = {np.flatnonzero(model_starts(model)).tobytes() for model in models}
    start = FIXED if start_log == 0 and len(fixed) == 1 else DRAWN
    return {
        "LAWS": laws,
        "LOG_COLUMNS": log if small else 0,
        "START_LOG": start_log,
        "PADDED": int(small),
        "COLUMNS": padded if small else 0,
        "REWARDS": kind.S * kind.A * (kind.H if kind.REWARD_STRIDE else 1),
        "START": SEQUENCE if kind.SEQUENCED else start,
    }


def model_starts(model: Model) -> np.ndarray:
    """The states in which the start law may begin, as a mask."""
    head = int(model.heads[-1])
    columns = model.columns[head >> 6 : (head >> 6) + (1 << (head & 63))]
    mask = np.zeros(model.width, dtype=bool)
    mask[columns["own"]] = mask[columns["other"]] = True
    return mask


def _values(kind: RunKind, facts: DeviceFacts, regret: bool) -> dict[str, int]:
    """How exact values are computed."""
    laws = kind.S * kind.A * (kind.H if kind.STRIDE else 1)
    in_registers = kind.DENSE and kind.S <= _REGISTER_STATES
    wide = kind.S + 1
    while wide % 4 != (2 if in_registers else 0):  # so that few accesses share a memory bank
        wide += 1
    group = 32 if kind.DENSE and not in_registers else 1
    outflow_room = min(_OUTFLOW_BYTES, facts.shared_memory)
    constants = {
        "S": kind.S,
        "DENSE": int(kind.DENSE),
        "IN_REGISTERS": int(in_registers),
        "WIDE": wide,
        "MOST_WIDE": wide if in_registers else 2,
        "GROUP": group,
        "LAWS": laws,
        "OUTFLOW_SHARED": int(in_registers and laws * wide * 8 <= outflow_room),
        "SETTLE_THREADS": _SETTLE_THREADS,
    }
    if regret and kind.DENSE and laws * wide >= 2**32:
        raise GpuError(
            f"exact regret needs {laws * wide * 8:,} bytes for the laws of the next "
            f"state, but a GPU addresses up to {2**35:,}; use regret=False, or {ON_CPU}"
        )
    while regret and _settle_shared(constants) > facts.shared_memory:
        constants["SETTLE_THREADS"] //= 2
        if constants["SETTLE_THREADS"] < group:
            raise GpuError(
                f"exact regret with {kind.S:,} states needs {_settle_shared(constants):,} "
                f"bytes of shared memory, but this GPU has {facts.shared_memory:,}; use "
                f"regret=False, or {ON_CPU}"
            )
    return constants


def _settle_shared(constants: dict[str, int]) -> int:
    """Bytes of shared memory that a block needs to settle."""
    S = constants["S"]
    groups = constants["SETTLE_THREADS"] // constants["GROUP"]
    outflow = constants["LAWS"] * constants["WIDE"] * constants["OUTFLOW_SHARED"]
    masses = groups * (2 * (S + 1) + (S + 1) // 2) if constants["GROUP"] > 1 else 0
    return 8 * (outflow + masses)


# ---- rows ----------------------------------------------------------------------------------------


def _rows(constants: dict[str, int], facts: DeviceFacts, runs: np.ndarray) -> dict[str, int]:
    """Where rows lie: in shared memory if enough runs fit, else only their actions, else
    nothing.
    """
    table_choices = (1, 0) if constants["PADDED"] and constants["S"] < 2**16 else (0,)
    choices = [(1, 1, tables) for tables in table_choices] + [(0, 1, 0), (0, 0, 0)]
    best: dict[str, int] = {}
    for rows_shared, actions_shared, tables_shared in choices:
        made = {
            "ROWS_SHARED": rows_shared,
            "ACTIONS_SHARED": actions_shared,
            "TABLES_SHARED": tables_shared,
        }
        most = _most_runs(constants | made, facts)
        if best and best["ROWS_SHARED"] and (not rows_shared or most * 3 < best["RUNS"] * 4):
            break  # tables in shared memory are worth a quarter of the runs
        if most >= _LEAST_RUNS:
            best = made | {"RUNS": most}
            if not rows_shared:
                break
    most, multiprocessors, total = best["RUNS"], facts.multiprocessors, int(runs.sum())
    waves = -(-total // (most * multiprocessors))
    even = min(-(-total // (waves * multiprocessors)), int(runs.max()))
    best["RUNS"] = min(most, -(-even // 4) * 4)
    blocks = int((-(-runs // best["RUNS"])).sum())
    resident = min(most, best["RUNS"] * -(-blocks // multiprocessors))
    warps = _warps(constants, best, resident)
    return best | warps | _block(constants, best, warps["TEAM"])


def _block(constants: dict[str, int], rows: dict[str, int], team: int) -> dict[str, int]:
    """How many pairs of numbers each row has in global memory, and how many of its cells, of how
    many rows, are fetched at once at a switch.
    """
    A, bernstein = constants["A"], constants["BERNSTEIN"]
    row = 0 if rows["ROWS_SHARED"] else 4 if bernstein else 2
    near = 4 if A <= 4 else _NEAR if A <= _NEAR else 1
    batch = _BATCH if A <= 4 and team == 1 else _SMALL_BATCH
    return {
        "BLOCK": row + A * (3 if bernstein else 1),
        "ROW": row,
        "NEAR": near,
        "MOST_NEAR": near,
        "BATCH": batch,
        "MOST_BATCH": batch,
    }


def _warps(constants: dict[str, int], rows: dict[str, int], resident: int) -> dict[str, int]:
    """How many runs a warp has, and how many lanes each run, with `resident` runs on a
    multiprocessor.

    Lanes that no run needs learn steps side by side. Runs that watch a budget go step by step.
    """
    in_global = not rows["ROWS_SHARED"]
    alone = constants["WATCHED"] or (resident > _TEAM_RUNS and not in_global)
    warps = _WARPS if alone or in_global or resident <= _FEW_RUNS else _TEAM_WARPS
    lanes = min(32, rows["RUNS"], max(1, -(-resident // warps)))
    most = _GLOBAL_TEAM if in_global else _MOST_TEAM
    team = 1 if alone else max(1, min(32 // lanes, constants["CHUNK"], most))
    lone = constants["GROUP"] > 1 or constants["START"] == SEQUENCE or not constants["DENSE"]
    return {
        "LANES": lanes,
        "TEAM": team,
        "THREADS": -(-rows["RUNS"] // lanes) * 32,
        "HELPERS": 1 if lone else max(1, _HELPED_THREADS // resident),
    }


def _most_runs(constants: dict[str, int], facts: DeviceFacts) -> int:
    """How many runs of a block fit its shared memory."""
    fixed = _play_shared(constants, 0)
    each = _play_shared(constants, 1) - fixed
    room = facts.shared_memory - fixed
    most = _MOST_RUNS if constants["ROWS_SHARED"] else _GLOBAL_RUNS
    return min(most, max(0, room) // each // 4 * 4) if each else most


def _play_shared(constants: dict[str, int], runs: int) -> int:
    """Bytes of shared memory that a block needs to play `runs` runs."""
    rows = constants["H"] * constants["S"] * runs
    reals = 5 if constants["BERNSTEIN"] else 2
    size = rows * (8 * reals + 8) * constants["ROWS_SHARED"] + rows * constants["ACTIONS_SHARED"]
    tables = constants["COLUMNS"] * 12 + constants["REWARDS"] * 8
    return size + tables * constants["TABLES_SHARED"]


def _sizes(
    constants: dict[str, int], regret: bool, curve_points: int, log_size: int
) -> dict[str, tuple[int, np.dtype]]:
    """The arrays that runs have in global memory: entries for each run, and their type."""
    rows = constants["H"] * constants["S"]
    masses = 2 * (constants["S"] + 1) if regret and not constants["DENSE"] else 0
    real, whole, byte, count = (np.dtype(name) for name in ("f8", "i8", "u1", "i4"))
    return {
        "blocks": (2 * constants["BLOCK"] * rows, real),
        "actions": (rows, byte),
        "evaluated": (rows * constants["LOGGED"] * constants["HELPERS"], byte),
        "next": (1, count),
        "logged": (1, count),
        "clocks": (1, CLOCK),
        "balances": (1, BALANCE),
        "changes": (log_size, CHANGE),
        "curve_switches": (curve_points, whole),
        "curve_deployments": (curve_points, whole),
        "triggers": (1, whole),
        "curve_regret": (curve_points * regret, real),
        "masses": (masses, real),
        "gaps": (log_size * regret, real),
    }
