"""Pause the run at once, even if the ledger is busy, its disk is full or its database is away.

The server stops in memory first: from then on nothing is issued, learned or decided. It notes this
on its own disk, so that a restart does not forget it, and then records the event. If the disk has
no room for that, a small reserve file beside the ledger is deleted.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowswitch.ledger import LedgerError, StorageError
from lowswitch.ledger.address import file_of, is_postgres
from lowswitch.service.beside import Note, place_of
from lowswitch.service.bodies import RefusedError

if TYPE_CHECKING:
    from lowswitch.service.app import Service

_BYTES = 1 << 20  # kept free
_SECONDS = 10.0  # that an operator waits for the record of a FREEZE
_UNREADABLE = {  # what is recorded for a note that was torn: to stop is the safe side
    "by": "lowswitch",
    "reason": "a pause was asked for before the last stop of the server; its note is damaged",
}


@dataclass
class Emergency:
    """Carries a pause from the request to its event."""

    service: Service
    reserve: Path | None  # None where the database is elsewhere
    note: Note
    pending: dict[str, Any] | None = None  # who, and why, if that is not on record yet
    kept: bool = False  # whether a restart would find what is pending
    warned: bool = False  # that there is no room for a reserve
    new_name: Callable[[], str] = lambda: secrets.token_hex(8)

    @classmethod
    def of(cls, service: Service) -> Emergency:
        """An emergency with a reserve beside a ledger file, and an earlier server's note."""
        address = service.address
        reserve = None if is_postgres(address) else Path(f"{file_of(address)}.reserve")
        made = cls(service, reserve, Note(place_of(address, service.key_file, ".freeze")))
        if (noted := made.note.read()) is not None:
            made.kept = True
            made._stop(noted or _UNREADABLE)
            says = f"a FREEZE that was not recorded before the last stop is taken up ({made._who})"
            service.log.write("error", "frozen", says=says)
        made.keep_reserve()
        return made

    @property
    def _who(self) -> str:
        return "" if self.pending is None else f"by {self.pending['by']}: {self.pending['reason']}"

    def _stop(self, pending: dict[str, Any]) -> None:
        self.pending = pending
        says = f"{pending['by']} paused the run, and nothing is changed until it resumes"
        self.service.engine.stopped = says

    def keep_reserve(self) -> None:
        """Keep files for a pause on a full disk, if there is room for them."""
        try:
            self.note.reserve()
            if self.reserve is not None and not self.reserve.exists():
                self._allocate(self.reserve)
        except OSError as error:
            if not self.warned:
                says = f"no room is kept for a FREEZE on a full disk ({error.strerror})"
                self.service.log.write("warning", "no reserve", says=says)
            self.warned = True

    def _allocate(self, reserve: Path) -> None:
        descriptor = os.open(reserve, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _BYTES)
        except OSError:
            reserve.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)

    async def freeze(self, *, by: str, **given: Any) -> bool:
        """Pause; return whether this is recorded. If not, it is tried again every second."""
        if self.service.engine.stopped:
            raise LedgerError("the run is paused already")
        # under a name, so that what was recorded after all is not recorded again
        given["request"] = given.get("request") or f"freeze {self.new_name()}"
        self._stop({"by": by} | given)
        self.kept = await asyncio.to_thread(self._keep)
        if self.pending is None:  # the server's own round recorded it meanwhile
            await self._go_on()
            return True
        try:
            async with asyncio.timeout(_SECONDS):
                await self._freeze("freeze the run")
        except StorageError:
            self._release()
            return await self.record()
        except LedgerError:  # such as a reason that is empty: there is nothing to stop
            await self._go_on()
            raise
        except (RefusedError, TimeoutError):  # what was begun is done, and the rest tried again
            return False
        await self._go_on()
        return True

    async def _freeze(self, what: str) -> None:
        assert self.pending is not None
        given, ledger = self.pending, self.service.ledger
        await self.service.engine.call(lambda: ledger.freeze(**given), what)

    def _keep(self) -> bool:
        """Note the pending pause, using the reserve if needed; return whether this succeeded."""
        for last in (False, True):
            try:
                self.note.reserve()
                self.note.write(self.pending)
                return True
            except OSError as error:
                if last:
                    says = f"a restart would forget this FREEZE: {error}"
                    self.service.log.write("error", "freeze not kept", says=says)
                self._release()
        return False

    def _release(self) -> None:
        """Delete the reserve, so that the disk has some room."""
        if self.reserve is not None:
            with suppress(OSError):
                self.reserve.unlink()

    async def record(self) -> bool:
        """Try to record the pending pause; return whether nothing is left to record."""
        if self.pending is None:
            return True
        try:
            await self._freeze("record a FREEZE")
        except (StorageError, RefusedError):
            return False
        except LedgerError:  # it was frozen meanwhile
            pass
        await self._go_on()
        self.service.log.write("warning", "freeze recorded")
        return True

    async def thaw(self) -> bool:
        """Resume after an unrecorded pause; return whether there was one."""
        was = self.pending is not None
        await self._go_on()
        return was

    async def _go_on(self) -> None:
        """Let the ledger's own state decide again."""
        self.pending = None
        try:
            await asyncio.to_thread(self.note.write, None)
        except OSError as error:
            says = f"the note of a FREEZE cannot be removed: {error}"
            self.service.log.write("error", "freeze kept", says=says)
        self.service.engine.stopped = ""

    def end(self) -> None:
        """Say that the server stops before a pause is recorded."""
        if self.pending is not None:
            then = "the next start of this server takes it up" if self.kept else "it is LOST"
            says = f"the server stops before a FREEZE is recorded ({self._who}); {then}"
            facts = {"file": str(self.note.path)} if self.kept else {}
            self.service.log.write("error", "freeze not recorded", says=says, **facts)
