"""Play the rounds of a run until it ends, and save its progress, for every kind of learner."""

from __future__ import annotations

import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lowswitch.concurrent.results import ConcurrentRun
from lowswitch.show.progress import Progress

_REDRAW_SECONDS = 0.1
_PARTS = ("start", "play", "learn", "save")  # the parts of a run's wall time


def fresh_seconds() -> dict[str, float]:
    """The seconds of a run that has not started."""
    return dict.fromkeys(_PARTS, 0.0)


class RoundDriver(ABC):
    """A run in rounds; a subclass for each kind of problem plays, learns and saves a round."""

    state: Any  # progress: `learned` episodes, `played_rounds`, and `seconds` of each part
    bar: Progress
    checkpoint: str | os.PathLike[str] | None
    save_every: float

    def drive(
        self, bar: Progress, checkpoint: str | os.PathLike[str] | None, save_every: float
    ) -> None:
        """Play until the end, resuming from the checkpoint if it exists."""
        self.bar, self.checkpoint, self.save_every = bar, checkpoint, save_every
        there = checkpoint is not None and Path(checkpoint).exists()
        self.start(checkpoint if there else None)
        self.began = self.saved = self.drawn = time.perf_counter()
        self.saved_at = -1  # the round after which the checkpoint was last written
        try:
            self.play()
        except BaseException as error:
            self._keep(error)
            raise
        self._save_at_the_end()

    # ---- what differs between kinds of problems --------------------------------------------------

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """The facts that a checkpoint must share with the run that resumes from it, as JSON."""

    @abstractmethod
    def start(self, checkpoint: str | os.PathLike[str] | None) -> None:
        """Start, or resume from a checkpoint of exactly this setting."""

    @abstractmethod
    def play(self) -> None:
        """Play rounds until the run ends, and call `look_up` after each round or after several."""

    @abstractmethod
    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint atomically."""

    @abstractmethod
    def result(self) -> ConcurrentRun:
        """The result of the run."""

    # ---- what all have in common -----------------------------------------------------------------

    def look_up(self) -> None:
        """Draw the progress, and write the checkpoint if it is due."""
        now, state = time.perf_counter(), self.state
        if now - self.drawn > _REDRAW_SECONDS:
            self.drawn, rounds = now, state.played_rounds
            note = f"  {rounds:,} rounds  speed-up {state.learned / rounds:.1f}"
            self.bar.update(state.learned, note)
        if self.checkpoint is not None and now - self.saved >= self.save_every:
            self._save()

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.state.seconds[part] += time.perf_counter() - begin

    def _keep(self, error: BaseException) -> None:
        """Save the progress before an error or an interrupt leaves the run, and note this in the
        error.
        """
        if self.checkpoint is None:
            return
        try:
            self._save()
        except Exception as failure:
            error.add_note(f"the progress since the last checkpoint is lost: {failure}")
        if Path(self.checkpoint).exists():
            error.add_note(
                f"the checkpoint {str(self.checkpoint)!r} is saved; repeat this call to "
                "resume from it"
            )

    def _save_at_the_end(self) -> None:
        """Write the checkpoint; a full disk only causes a warning, because it must not cost the
        result.
        """
        try:
            self._save()
        except Exception as failure:
            warnings.warn(
                f"the last checkpoint was not written: {failure}", RuntimeWarning, stacklevel=4
            )

    def _save(self) -> None:
        if self.checkpoint is not None and self.saved_at != self.state.played_rounds:
            self.bar.note("saving the checkpoint ...")
            with self.timed("save"):
                self.write(self.checkpoint)
            self.saved, self.saved_at = time.perf_counter(), self.state.played_rounds
