"""FREEZE at once, also while the ledger is busy and when its disk is full.

The server stops in memory first: from then on nothing is issued, learned or decided. Then it puts
the event on record. A small file beside the ledger is given up if the disk has no room for that.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowswitch.ledger import LedgerError, StorageError
from lowswitch.ledger.address import file_of, is_postgres
from lowswitch.service.bodies import RefusedError

if TYPE_CHECKING:
    from lowswitch.service.app import Service

_BYTES = 1 << 20  # kept free


@dataclass
class Emergency:
    """The way from FREEZE to its event."""

    service: Service
    reserve: Path | None  # None where the database is elsewhere
    pending: dict[str, Any] | None = None  # who, and why, if that is not on record yet
    warned: bool = False  # that there is no room for a reserve

    @classmethod
    def of(cls, service: Service) -> Emergency:
        """With a reserve beside a ledger that is a file."""
        address = service.address
        reserve = None if is_postgres(address) else Path(f"{file_of(address)}.reserve")
        made = cls(service, reserve)
        made.keep_reserve()
        return made

    def keep_reserve(self) -> None:
        """Keep a file that can be given up, if there is room for it."""
        if self.reserve is None or self.reserve.exists():
            return
        try:
            descriptor = os.open(self.reserve, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, _BYTES)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.reserve.unlink(missing_ok=True)
            if not self.warned:
                says = f"no room is kept for a FREEZE on a full disk ({error.strerror})"
                self.service.log.write("warning", "no reserve", says=says)
            self.warned = True

    async def freeze(self, *, by: str, **given: Any) -> bool:
        """Stop; return whether that is on record. It is tried again every second if it is not."""
        engine, ledger = self.service.engine, self.service.ledger
        if engine.stopped:
            raise LedgerError("the run is paused already")
        engine.stopped = f"{by} paused the run, and nothing is changed until it resumes"
        self.pending = {"by": by} | given
        try:
            await engine.call(lambda: ledger.freeze(by=by, **given), "freeze the run")
        except StorageError:
            if self.reserve is not None:
                with suppress(OSError):
                    self.reserve.unlink()
            return await self.record()
        except LedgerError:  # such as a reason that is empty: there is nothing to stop
            self._go_on()
            raise
        except RefusedError:  # the ledger is busy; what was begun is done, and the rest tried again
            return False
        self._go_on()
        return True

    async def record(self) -> bool:
        """Try to put on record what is pending; whether nothing is left to record."""
        if self.pending is None:
            return True
        given, ledger = self.pending, self.service.ledger
        try:
            await self.service.engine.call(lambda: ledger.freeze(**given))
        except (StorageError, RefusedError):
            return False
        except LedgerError:  # it was frozen meanwhile
            pass
        self._go_on()
        return True

    def thaw(self) -> bool:
        """Go on after a FREEZE that is not on record; whether there was one."""
        was = self.pending is not None
        self._go_on()
        return was

    def _go_on(self) -> None:
        """Let the ledger's own state decide again."""
        self.pending, self.service.engine.stopped = None, ""
