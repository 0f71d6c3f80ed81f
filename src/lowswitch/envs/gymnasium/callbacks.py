"""Callbacks of `learn`: your own code, loggers, and saved learners."""

from __future__ import annotations

import csv
import importlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch.checks import call_it, require_count, shown
from lowswitch.io.storage import require_writable
from lowswitch.learner import Learner

if TYPE_CHECKING:
    from lowswitch.envs.gymnasium.environment_run import EnvironmentRun


class EpisodeEnd(NamedTuple):
    """The facts that a callback gets after an episode."""

    learner: Learner
    episode: int  # its number, from 0
    earned: float  # the sum of its rewards, in the environment's units
    length: int  # steps until it was over
    switch: Any  # the deployment after it, a History or, with features, Deployments; or None

    def numbers(self) -> dict[str, float]:
        """The numbers that the loggers write."""
        return {
            "return": self.earned,
            "length": self.length,
            "deployments": self.learner.deployments,
            "local_switches": self.learner.local_switches,
        }


class Callback:
    """Five moments of `learn`; define those that you need."""

    def on_start(self, learner: Learner) -> None:
        """Before the first episode."""

    def on_episode(self, end: EpisodeEnd) -> bool | None:
        """After each episode, once the learner knows it; False ends the run."""

    def on_deployment(self, end: EpisodeEnd) -> None:
        """After an episode that changed the deployed policy, before `on_episode`."""

    def on_end(self, run: EnvironmentRun) -> None:
        """After the last episode."""

    def close(self) -> None:
        """Always called last, after an error too."""


class _Function(Callback):
    """A plain function, called after each episode."""

    def __init__(self, function: Callable[[EpisodeEnd], bool | None]) -> None:
        self.function = function

    def on_episode(self, end: EpisodeEnd) -> bool | None:
        return self.function(end)


class Callbacks(Callback):
    """Several callbacks as one, in their order."""

    def __init__(self, given: Any) -> None:
        several = given if isinstance(given, Iterable) else [given]
        self.all = [_callback(one) for one in several]

    def on_start(self, learner: Learner) -> None:
        for one in self.all:
            one.on_start(learner)

    def on_episode(self, end: EpisodeEnd) -> bool:
        if end.switch is not None:
            self.on_deployment(end)
        answers = [one.on_episode(end) for one in self.all]  # all of them hear of it
        return not any(isinstance(answer, bool | np.bool) and not answer for answer in answers)

    def on_deployment(self, end: EpisodeEnd) -> None:
        for one in self.all:
            one.on_deployment(end)

    def on_end(self, run: EnvironmentRun) -> None:
        for one in self.all:
            one.on_end(run)

    def close(self) -> None:
        for one in self.all:
            one.close()


def _require_known_hooks(given: Callback) -> None:
    """Refuse a method with the name of a hook that does not exist: nothing would call it."""
    hooks = [name for name in vars(Callback) if not name.startswith("_")]
    for name in dir(given):
        if name.startswith(("on_", "_on_")) and name not in hooks:
            raise ValueError(
                f"{type(given).__name__} defines {name}, which learn would never call; the methods"
                f" of a callback are {', '.join(hooks)}. If it is your own helper, rename it"
            )


def _callback(given: Any) -> Callback:
    if isinstance(given, Callback):
        _require_known_hooks(given)
        return given
    if callable(given) and not isinstance(given, type):
        return _Function(given)
    raise ValueError(
        "a callback is a Callback of lowswitch.envs.gymnasium, or a function that is called after"
        f" each episode, not {shown(given)}{call_it(given)}"
    )


class Checkpoint(Callback):
    """Saves the learner regularly and at the end; `ls.Learner.load` reads it.

    Parameters
    ----------
    path
        The file.
    every
        After how many episodes it is saved again.
    """

    def __init__(self, path: str | os.PathLike[str], *, every: int = 1_000) -> None:
        require_writable(path)
        self.path, self.every = path, require_count("every", every)

    def on_episode(self, end: EpisodeEnd) -> None:
        if (end.episode + 1) % self.every == 0:
            end.learner.save(self.path)

    def on_end(self, run: EnvironmentRun) -> None:
        run.learner.save(self.path)


_HEADER = ("episode", "return", "length", "deployments", "local_switches")  # of a CSV


class CsvLogger(Callback):
    """Writes a line for each episode: its number, return and length, and the switches so far.

    A new learner starts the file again. A learner that continues also continues the file: lines of
    episodes after its last checkpoint are removed, because these episodes are played again.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        require_writable(path)
        self.path, self._file = path, None

    _file: Any

    def on_start(self, learner: Learner) -> None:
        kept = self._kept(learner.told)
        self._file = open(self.path, "a", newline="", encoding="utf-8")  # noqa: SIM115
        self._file.truncate(kept)
        self._writer = csv.writer(self._file, lineterminator="\n")
        if not kept:
            self._writer.writerow(_HEADER)

    def _kept(self, told: int) -> int:
        """How many bytes of the file earlier parts of this run wrote, up to episode `told`."""
        path = Path(self.path)
        if not told or not path.exists():
            return 0
        with path.open("rb") as file:
            header = file.readline()
            if header.strip() != ",".join(_HEADER).encode():
                return 0
            kept = len(header)
            for line in file:
                number = line.partition(b",")[0]
                whole = line.endswith(b"\n") and number.isdigit()
                if not whole or int(number) >= told:
                    break
                kept += len(line)
        return kept

    def on_episode(self, end: EpisodeEnd) -> None:
        self._writer.writerow([end.episode, *end.numbers().values()])
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class TensorBoardLogger(Callback):
    """Writes scalars for TensorBoard into a folder: the return and length of each episode, and the
    deployments and local switches so far. It needs the extra `log`.

    Parameters
    ----------
    folder
        The folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        board = _package("tensorboardX", "pip install 'lowswitch[log]'")
        self._writer = board.SummaryWriter(os.fspath(folder))

    def on_start(self, learner: Learner) -> None:
        self._writer.add_text("algorithm", str(learner.algorithm), learner.told)

    def on_episode(self, end: EpisodeEnd) -> None:
        for name, value in end.numbers().items():
            self._writer.add_scalar(f"episode/{name}", value, end.episode)

    def close(self) -> None:
        self._writer.close()


class WandbLogger(Callback):
    """Logs the same numbers to a run of Weights & Biases, which must be installed.

    Parameters
    ----------
    run
        The result of `wandb.init`; by default it is called when learning starts.
    **options
        Options for `wandb.init`.
    """

    def __init__(self, run: Any = None, **options: Any) -> None:
        self._run, self._options, self._own = run, options, run is None
        if run is None:
            self._wandb = _package("wandb", "pip install wandb")

    def on_start(self, learner: Learner) -> None:
        if self._run is None:
            config = {"algorithm": str(learner.algorithm), "episodes": learner.episodes}
            self._run = self._wandb.init(config=config, **self._options)

    def on_episode(self, end: EpisodeEnd) -> None:
        named = {f"episode/{name}": value for name, value in end.numbers().items()}
        self._run.log(named, step=end.episode)

    def close(self) -> None:
        if self._own and self._run is not None:
            self._run.finish()


def _package(name: str, remedy: str) -> Any:
    """A package that is not needed by anything else, or how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{name} is not installed; {remedy}", name=name) from error
