"""The log: one line of JSON for each event that concerns an operator, without secrets.

A separate thread writes the lines, so that a full pipe or disk delays no request. Lines that cannot
be written in time are dropped and counted in the metrics.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

LEVELS = ("debug", "info", "warning", "error", "off")
_MOST_WAITING = 10_000  # lines
_AT_ONCE = 1000  # lines that are written together
_GATHER = 0.01  # seconds for which the first of them waits for others, as a line alone costs more


class JsonLog:
    """Lines of JSON on a stream, from a level on."""

    def __init__(self, level: str = "info", stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.dropped = 0  # lines
        self._least = LEVELS.index(level)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, level: str, event: str, **facts: Any) -> bool:
        """Write a line, unless the level is too low; facts that are None are left out."""
        if LEVELS.index(level) < self._least:
            return False
        if self._lines.qsize() > _MOST_WAITING:
            self.dropped += 1
            return False
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        said = {name: value for name, value in facts.items() if value is not None}
        self._lines.put(json.dumps({"time": now, "level": level, "event": event} | said))
        return True

    def close(self, seconds: float = 2.0) -> None:
        """Write the waiting lines, unless that takes too long."""
        self._lines.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        going = True
        while going:
            lines = [self._lines.get()]
            time.sleep(_GATHER if lines[0] is not None else 0)
            with suppress(queue.Empty):
                while len(lines) < _AT_ONCE:
                    lines.append(self._lines.get_nowait())
            going = None not in lines
            with suppress(OSError, ValueError):  # nobody reads it, or it is closed
                self.stream.write("".join(f"{line}\n" for line in lines if line is not None))
                self.stream.flush()
