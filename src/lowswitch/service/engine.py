"""The one thread that uses the ledger, and the commit that many requests share.

When the thread is free, it handles everything that waits: all ticket requests in one transaction,
then all reports in another. Each request is answered when its transaction is on the disk.
"""

from __future__ import annotations

import asyncio
import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from lowswitch.ledger import FrozenError, Issued, Ledger, LedgerError, StorageError, Told
from lowswitch.service.bodies import RefusedError

MOST_AT_ONCE = 512  # reports or tickets in one transaction
MOST_WAITING = 4000  # requests
MOST_INLINE = 4096  # rows of a policy that comes with its ticket; a larger one is fetched once
MOST_SECONDS = 60.0  # that a request waits for its answer
_ENOUGH = 32  # requests that share the cost of a commit well enough
_GAP = 0.003  # seconds within which the next request of a group follows

Result = TypeVar("Result")
_ASK, _TELL, _CALL = "ask", "tell", "call"


@dataclass(slots=True)
class _Job:
    kind: str
    work: Any  # pairs, reports, or a function
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    what: str  # in words
    begun: bool = False


class Engine:
    """Owns a ledger while it runs."""

    def __init__(
        self, ledger: Ledger, noticed: Callable[[LedgerError | None], None] = lambda _: None
    ) -> None:
        self.ledger, self._noticed = ledger, noticed
        self.transactions = 0
        self.stopped = ""  # why nothing is issued, learned or decided, also where no event says so
        self._doing: tuple[str, float] | None = None  # what the thread does, and since when
        self._last = 0  # the size of the last group
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish running work and release the ledger."""
        self._jobs.put(None)
        self._thread.join()

    @property
    def waiting(self) -> int:
        """How many requests wait for the thread."""
        return self._jobs.qsize()

    @property
    def busy_seconds(self) -> float:
        """How long the current work has taken so far."""
        doing = self._doing
        return 0.0 if doing is None else time.monotonic() - doing[1]

    async def ask(self, pairs: Sequence[tuple[str, str]]) -> list[Issued | LedgerError]:
        """A ticket for each (site, request), or why it is refused."""
        answers: list[Issued | LedgerError] = await self._put(_ASK, pairs)
        return answers

    async def tell(self, reports: Sequence[dict[str, Any]]) -> list[Told | LedgerError]:
        """Record reports: for each the answer, or why it is refused."""
        answers: list[Told | LedgerError] = await self._put(_TELL, reports)
        return answers

    async def call(self, function: Callable[[], Result], what: str = "answer a request") -> Result:
        """Run anything else that needs the ledger; what: a description for those who wait."""
        result: Result = await self._put(_CALL, function, what)
        return result

    async def _put(self, kind: str, work: Any, what: str = "write reports") -> Any:
        """Wait for the answer, with a limit; work that has not begun by then is dropped."""
        if self.waiting > MOST_WAITING:
            raise RefusedError(503, "too many requests wait; send it again in a while", "Busy")
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        job = _Job(kind, work, future, loop, what)
        self._jobs.put(job)
        try:
            async with asyncio.timeout(MOST_SECONDS):
                return await future
        except TimeoutError:
            raise RefusedError(503, self._why_late(job), "Busy", wait=10) from None

    def _why_late(self, job: _Job) -> str:
        """What takes so long, and what became of a request that waited for it."""
        if job.begun:
            done = f"the ledger goes on to {job.what}; look at the status before you send it again"
        else:
            done = "nothing was done for this request; send it again in a while"
        doing = self._doing
        if doing is None or doing[0] == job.what:
            return f"it took longer than {MOST_SECONDS:g} seconds, and {done}"
        return f"the ledger has been busy for {self.busy_seconds:.0f} s to {doing[0]}; {done}"

    # ---- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while (jobs := self._collected()) is not None:
            self._do(jobs)

    def _collected(self) -> list[_Job] | None:
        """The next group of work, or None if nothing more will come.

        Under load, the rest of a group is on its way when its first request arrives, because all of
        them were answered together. So the thread waits as long as one follows another.
        """
        jobs, size = list[_Job](), 0
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            size += 1 if job.kind == _CALL else len(job.work)
            if size >= MOST_AT_ONCE:
                break
            gap = _GAP if job.kind != _CALL and size < min(self._last, _ENOUGH) else 0.0
            try:
                job = self._jobs.get(timeout=gap) if gap else self._jobs.get_nowait()
            except queue.Empty:
                break
        if job is None:
            if not jobs:
                return None
            self._jobs.put(None)  # these first, and then no more
        self._last = max(size, self._last * 3 // 4)
        return jobs

    def _do(self, jobs: list[_Job]) -> None:
        """Do the waiting work: tickets, reports, then the rest in order."""
        ask = functools.partial(self.ledger.ask_each, whole=self.ledger.terms.cells <= MOST_INLINE)
        for kind, function in ((_ASK, ask), (_TELL, self.ledger.tell_many)):
            group = [job for job in jobs if job.kind == kind and not job.future.cancelled()]
            with self._at_work(group):
                _deliver(self._group(group, function))
        for job in jobs:
            if job.kind == _CALL and not job.future.cancelled():
                with self._at_work([job]):
                    _deliver([(job, self._outcome(job.work, wrote=False))])

    @contextmanager
    def _at_work(self, jobs: list[_Job]) -> Iterator[None]:
        for job in jobs:
            self._doing = job.what, time.monotonic()
            job.begun = True
        try:
            yield
        finally:
            self._doing = None

    def _group(self, jobs: list[_Job], function: Callable[[Any], list[Any]]) -> Any:
        """The answers to several requests from one transaction."""
        if not jobs:
            return []
        if self.stopped:
            return [(job, FrozenError(self.stopped)) for job in jobs]
        self.transactions += 1
        together = [one for job in jobs for one in job.work]
        found = self._outcome(lambda: function(together), wrote=True)
        if isinstance(found, Exception):
            return [(job, found) for job in jobs]
        answers, first = [], 0
        for job in jobs:
            answers.append((job, found[first : first + len(job.work)]))
            first += len(job.work)
        return answers

    def _outcome(self, function: Callable[[], Any], *, wrote: bool) -> Any:
        """The result of a function or its error; a write shows that the database works again."""
        try:
            found = function()
        except StorageError as error:
            self._noticed(error)
            return error
        except Exception as error:  # the client gets it as its answer
            return error
        if wrote:
            self._noticed(None)
        return found


def _deliver(answers: list[tuple[_Job, Any]]) -> None:
    """Hand answers to the event loops that wait for them; closed loops get none."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for job, answer in answers:
        loops.setdefault(job.loop, []).append((job.future, answer))
    for loop, pairs in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_set, pairs)


def _set(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in pairs:
        if not future.done():
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
