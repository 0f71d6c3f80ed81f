"""Play the runs of a call on a GPU, piece by piece, so that it can stop and resume later."""

from __future__ import annotations

import ctypes
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.envs.mdp import TabularMDP
from lowswitch.gpu import compiler, driver
from lowswitch.gpu.encode import (
    CHANGE,
    CLOCK,
    RunKind,
    Work,
    encoded_problems,
    encoded_runs,
    encoded_specs,
    kind_of,
)
from lowswitch.gpu.layout import lay_out
from lowswitch.history import History, RunCosts
from lowswitch.io import storage
from lowswitch.learners import Knowledge
from lowswitch.show.text import duration

_PIECE_SECONDS = 0.1
_WATCH_SECONDS, _LONG_SECONDS = 3, 120  # when to report the cost of regret, and for which runs
_KEPT_SECONDS = 300  # between two checkpoints of unfinished runs
# The structure `Arguments` of kernel.cu, in its order.
_PROBLEMS = (
    "columns", "start_columns", "heads", "first_columns", "offsets", "first_nonzeros",
    "successors", "starts", "probabilities", "rewards", "outflow", "start_laws", "optimal",
    "best", "first_gaps", "allowed",
)  # fmt: skip
_RUNS = (
    "problems", "settings", "grid", "later", "marks", "specs", "keys",
)  # fmt: skip
_TABLES = (
    "blocks", "actions", "evaluated", "next", "logged", "clocks", "balances",
    "changes", "curve_switches", "curve_deployments", "triggers", "curve_regret", "masses", "gaps",
)  # fmt: skip
_NUMBERS = ("last", "log_size", "marks_size", "start", "start_size", "unused")
_STATE = (
    "blocks", "actions", "evaluated", "next", "clocks", "balances",
    "curve_switches", "curve_deployments", "curve_regret",
)  # fmt: skip


class Arguments(ctypes.Structure):
    """The argument of every kernel."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in (*_PROBLEMS, *_RUNS, *_TABLES)),
        ("runs", ctypes.c_uint64),
        *((name, ctypes.c_int) for name in _NUMBERS),
    )


Setting = tuple[TabularMDP, Algorithm, Knowledge]


def player_for(
    settings: Sequence[Setting],
    *,
    episodes: int,
    seeds: list[int],
    regret: bool,
    history: bool,
    marks: np.ndarray,
    checkpoint: Path | None,
) -> GpuPlayer:
    """The player of these settings under all seeds, or an error that points to the CPU."""
    groups: dict[RunKind, list[int]] = {}
    for i, (mdp, algorithm, knowledge) in enumerate(settings):
        groups.setdefault(kind_of(mdp, algorithm, knowledge), []).append(i)
    works = []
    for members in groups.values():
        mdps = {id(settings[i][0]): settings[i][0] for i in members}
        numbers = {key: number for number, key in enumerate(mdps)}
        members.sort(key=lambda i: numbers[id(settings[i][0])])
        work = Work(
            mdps=tuple(mdps.values()),
            specs=tuple(settings[i][2].spec for i in members),
            problems=np.repeat([numbers[id(settings[i][0])] for i in members], len(seeds)),
            settings=np.repeat(np.arange(len(members)), len(seeds)),
            seeds=np.tile(np.array(seeds, dtype=np.int64), len(members)),
            episodes=episodes,
            regret=regret,
            history=history,
        )
        works.append(work)
    return GpuPlayer(list(groups), works, list(groups.values()), marks, checkpoint)


class GpuPlayer:
    """Plays the settings of one call on its own thread, and reports its progress."""

    def __init__(
        self,
        kinds: list[RunKind],
        works: list[Work],
        members: list[list[int]],
        marks: np.ndarray,
        checkpoint: Path | None,
    ) -> None:
        self.kinds, self.works, self.members = kinds, works, members
        self.marks, self.checkpoint = marks, checkpoint
        self.done = 0  # steps, over all runs
        self.seconds = 0.0  # without compilation
        self.costs: list[RunCosts] = []  # of each kind, once played

    def play(self, stop: threading.Event) -> None:
        """Play all runs, in as many launches as kinds and memory require."""
        with driver.Gpu() as gpu:
            for number, (kind, work) in enumerate(zip(self.kinds, self.works, strict=True)):
                place = self.checkpoint and self.checkpoint.with_name(
                    f"{self.checkpoint.name}-{number}"
                )
                parts, first = [], 0
                while first < len(work.seeds) and not stop.is_set():
                    launch = _Launch(gpu, kind, work, first, self.marks, place)
                    if self._play(launch, stop):
                        parts.append(launch.costs())
                        launch.forget()
                    gpu.free_all()
                    first = launch.last
                if not stop.is_set():
                    self.costs.append(RunCosts.joined(parts))

    def _play(self, launch: _Launch, stop: threading.Event) -> bool:
        before, begin = self.done, time.perf_counter()

        def count(done: int) -> None:
            self.done = before + done * launch.kind.H

        finished = launch.play(stop, count)
        self.seconds += time.perf_counter() - begin
        return finished

    def by_job(self) -> list[RunCosts]:
        """The costs of each setting, in the given order."""
        found: dict[int, RunCosts] = {}
        for costs, members in zip(self.costs, self.members, strict=True):
            seeds = len(costs.triggers) // len(members)
            for place, i in enumerate(members):
                found[i] = costs.part(place * seeds, (place + 1) * seeds)
        return [found[i] for i in sorted(found)]


class _Launch:
    """As many runs as fit on the GPU, starting with the first unplayed one."""

    def __init__(
        self,
        gpu: driver.Gpu,
        kind: RunKind,
        work: Work,
        first: int,
        marks: np.ndarray,
        checkpoint: Path | None,
    ) -> None:
        self.gpu, self.kind, self.marks = gpu, kind, marks
        models = [mdp.model for mdp in work.mdps]
        left = np.unique_counts(work.problems[first:]).counts
        layout = lay_out(
            kind,
            models,
            gpu.facts,
            left,
            regret=work.regret,
            history=work.history,
            curve_points=len(marks),
        )
        tables = encoded_problems(work.mdps, layout.constants, work.regret, work.episodes)
        tables |= encoded_specs(work.specs) | {"marks": marks.astype(np.int32)}
        capacity = layout.capacity(gpu.free_memory()[0], sum(a.nbytes for a in tables.values()))
        self.last = first + _fitting(work.problems[first:], layout.runs, capacity)
        self.work, self.layout = work.part(first, self.last), layout
        runs, self.places = encoded_runs(self.work, layout.runs)
        self.blocks, self.slots = len(runs["problems"]), len(runs["settings"])
        self.arguments = self._upload(tables | runs)
        image = compiler.compiled(layout.constants, gpu.facts.architecture)
        self.functions = gpu.load(image, compiler.KERNELS)
        self.checkpoint = checkpoint and checkpoint.with_name(f"{checkpoint.name}-{first}.npz")
        self.changes: list[tuple[np.ndarray, np.ndarray]] = []
        self.regret_seconds = 0.0

    def _upload(self, arrays: dict[str, np.ndarray]) -> Arguments:
        arguments = Arguments(
            runs=self.slots,
            log_size=self.layout.log_size,
            marks_size=len(self.marks),
            start=int(self.work.mdps[0].start_law.argmax()),
            start_size=self.work.episodes if self.kind.SEQUENCED else 0,
        )
        for name, array in arrays.items():
            address = self.gpu.allocate(array.nbytes)
            self.gpu.upload(address, array)
            setattr(arguments, name, address)
        for name, (entries, dtype) in self.layout.sizes.items():
            size = entries * dtype.itemsize * self.slots
            setattr(arguments, name, self.gpu.allocate(size))
        return arguments

    # ---- playing ---------------------------------------------------------------------------------

    def play(self, stop: threading.Event, count: Callable[[int], None]) -> bool:
        """Play until the last episode or until `stop`; return whether everything is played."""
        episodes, growth = self.work.episodes, 2.0
        done, size = self._start(), max(1, 10**5 // self.kind.H)
        kept, watch = time.monotonic(), _Watch(episodes - done)
        while done < episodes and not stop.is_set():
            begin, last = time.perf_counter(), min(episodes, done + size)
            reached = self._piece(last)
            if reached < last:  # some log was full
                size, growth = max(1, reached - done), 1.1
            elif time.perf_counter() - begin < _PIECE_SECONDS / 2:
                size = max(size + 1, int(size * growth))
            watch.look(reached - done, self.regret_seconds)
            done = reached
            count(done * len(self.places))
            if self.checkpoint and time.monotonic() - kept > _KEPT_SECONDS:
                self._keep()
                kept = time.monotonic()
        if done < episodes and self.checkpoint:
            self._keep()
        return done >= episodes

    def _start(self) -> int:
        """Start, or resume from a checkpoint; return the number of episodes that all runs have
        played.
        """
        if self.checkpoint and self.checkpoint.exists() and not self.work.history:
            return self._restore()
        self._launch("begin", self.blocks, self.layout.runs, 0)
        return 0

    def _piece(self, last: int) -> int:
        """Play up to an episode, and charge it; return the episode that all runs have reached."""
        self.arguments.last = last
        self._launch("play", self.blocks, self.layout.play_threads, self.layout.play_shared)
        if self.work.history:
            self._take_changes()
        if self.work.regret:
            begin = time.perf_counter()
            for name in ("settle",) if self.kind.SEQUENCED else ("evaluate", "settle"):
                blocks = self.blocks * self.layout.settle_split
                self._launch(name, blocks, self.layout.settle_threads, self.layout.settle_shared)
            self.regret_seconds += time.perf_counter() - begin
        elif self.work.history:
            self.gpu.upload(self.arguments.logged, np.zeros(self.slots, dtype=np.int32))
        return int(self._download("next", (self.slots,), np.int32)[self.places].min())

    def _launch(self, name: str, blocks: int, threads: int, shared: int) -> None:
        self.gpu.launch(self.functions[name], blocks, threads, shared, self.arguments)

    def _download(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return self.gpu.download(getattr(self.arguments, name), shape, dtype)

    def _take_changes(self) -> None:
        """Copy the logged row changes of every run."""
        logged = self._download("logged", (self.slots,), np.int32)[self.places]
        changes = self._download("changes", (int(logged.max(initial=0)), self.slots), CHANGE)
        self.changes.append((logged, changes[:, self.places]))

    # ---- results ---------------------------------------------------------------------------------

    def costs(self) -> RunCosts:
        """The costs of the runs, once everything is played."""
        H, S, C = self.kind.H, self.kind.S, len(self.marks)
        self._launch("count_triggers", self.blocks, self.layout.runs, 0)
        clocks = self._download("clocks", (self.slots,), CLOCK)[self.places]
        regret = np.full((len(self.places), C), np.nan)
        if self.work.regret:
            regret = self._by_run("curve_regret", C, float)
        policy = self._by_run("actions", H * S, np.uint8).astype(np.int64)
        return RunCosts(
            regret=regret,
            local_switches=self._by_run("curve_switches", C, np.int64),
            deployments=self._by_run("curve_deployments", C, np.int64),
            triggers=self._by_run("triggers", 1, np.int64)[:, 0],
            drowned=clocks["drowned"].copy(),
            policy=policy.reshape(-1, H, S),
            histories=tuple(self._histories()) if self.work.history else None,
        )

    def _by_run(self, name: str, entries: int, dtype: Any) -> np.ndarray:  # [runs, entries]
        table = self._download(name, (entries, self.slots), dtype)
        return np.ascontiguousarray(table[:, self.places].T)

    def _histories(self) -> list[History]:
        A, S = self.kind.A, self.kind.S
        histories = []
        for run in range(len(self.places)):
            pieces = [changes[: logged[run], run] for logged, changes in self.changes]
            found = np.concatenate(pieces)
            cell = found["cell"].astype(np.int64)
            columns = found["episode"].astype(np.int64), cell // (S * A), cell // A % S, cell % A
            histories.append(History(np.stack(columns, axis=1)))
        return histories

    # ---- resuming later --------------------------------------------------------------------------

    def _keep(self) -> None:
        """Save the complete state of the runs."""
        arrays = {
            name: self._download(name, (entries * self.slots,), dtype)
            for name, (entries, dtype) in self.layout.sizes.items()
            if name in _STATE
        }
        assert self.checkpoint is not None
        storage.write(self.checkpoint, "gpu state", {"runs": self.layout.runs}, arrays)

    def _restore(self) -> int:
        """Restore the saved state; return the number of episodes that all runs have played."""
        assert self.checkpoint is not None
        self._launch("begin", self.blocks, self.layout.runs, 0)  # for all that is not restored
        try:
            facts, arrays = storage.read(self.checkpoint, "gpu state")
        except ValueError:
            return 0
        sizes = {
            name: entries * self.slots
            for name, (entries, _) in self.layout.sizes.items()
            if name in _STATE
        }
        fits = (
            facts == {"runs": self.layout.runs}
            and {name: array.size for name, array in arrays.items()} == sizes
        )
        if not fits:  # from a GPU with another layout
            return 0
        for name, array in arrays.items():
            self.gpu.upload(getattr(self.arguments, name), array)
        return int(arrays["next"][self.places].min())

    def forget(self) -> None:
        """Remove the checkpoint of finished runs."""
        if self.checkpoint:
            self.checkpoint.unlink(missing_ok=True)


class _Watch:
    """Warns once, soon after the start of a long run, that its regret takes most of the time."""

    def __init__(self, left: int) -> None:
        self.begin, self.left, self.played, self.said = time.perf_counter(), left, 0, False

    def look(self, played: int, regret_seconds: float) -> None:
        self.played += played
        elapsed = time.perf_counter() - self.begin
        if self.said or elapsed < _WATCH_SECONDS or not self.played:
            return
        self.said = True
        whole = elapsed * self.left / self.played
        share = regret_seconds / elapsed
        if whole > _LONG_SECONDS and share > 0.5:
            warnings.warn(
                f"at this pace, exact regret takes {duration(whole * share)} of the "
                f"{duration(whole)} that these runs need; regret=False leaves it out",
                RuntimeWarning,
                stacklevel=2,
            )


def _fitting(problems: np.ndarray, runs_per_block: int, capacity: int) -> int:
    """How many of these runs fit into `capacity` places, in whole blocks of one problem each."""
    used = 0
    for size in np.unique_counts(problems).counts.tolist():
        left = capacity // runs_per_block * runs_per_block
        if size > left:
            return used + left
        capacity = left - -(-size // runs_per_block) * runs_per_block
        used += size
    return used
