"""Plays the rounds of a run until it ends, and saves what was reached, whatever is learned."""

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
_PARTS = ("start", "play", "learn", "save")  # of the seconds that a run takes


def fresh_seconds() -> dict[str, float]:
    """The seconds of a run that has not begun."""
    return dict.fromkeys(_PARTS, 0.0)


class RoundDriver(ABC):
    """A run in rounds; each kind of problem says how a round is played, learned and saved."""

    state: Any  # how far it is: `learned` episodes, `played_rounds`, and `seconds` of each part
    bar: Progress
    checkpoint: str | os.PathLike[str] | None
    save_every: float

    def drive(
        self, bar: Progress, checkpoint: str | os.PathLike[str] | None, save_every: float
    ) -> None:
        """Play to the end, from the checkpoint on where there is one."""
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

    # ---- what differs ----------------------------------------------------------------------------

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What a checkpoint must have in common with the run that goes on from it, as JSON."""

    @abstractmethod
    def start(self, checkpoint: str | os.PathLike[str] | None) -> None:
        """Begin, or go on from a checkpoint of this very setting."""

    @abstractmethod
    def play(self) -> None:
        """Play rounds until the run ends, and look up after each or after some of them."""

    @abstractmethod
    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint whole or not at all."""

    @abstractmethod
    def result(self) -> ConcurrentRun:
        """What the run returns."""

    # ---- what all have in common -----------------------------------------------------------------

    def look_up(self) -> None:
        """Draw the progress and write the checkpoint if it is time to."""
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
        """Save what was reached before an error or an interrupt, and note in it what was saved."""
        if self.checkpoint is None:
            return
        try:
            self._save()
        except Exception as failure:
            error.add_note(f"what was reached since the last checkpoint is lost: {failure}")
        if Path(self.checkpoint).exists():
            error.add_note(
                f"the checkpoint {str(self.checkpoint)!r} is kept; the same call goes on from there"
            )

    def _save_at_the_end(self) -> None:
        """Write the checkpoint; a full disk must not cost the result, so it is only a warning."""
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
