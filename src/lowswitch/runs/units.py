"""Units of work that do not depend on each other, such as the seeds of a run.

Threads of this process carry them out, or the workers of a fleet on many machines. This is the one
place that says which, so the results of both are the same, and finished units are kept in the same
way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from lowswitch.checks import shown
from lowswitch.io.storage import Kept

Result = TypeVar("Result")
Unit = tuple[Any, ...]


class Crew(Protocol):
    """Workers that carry out units of work."""

    def each(
        self, work: Callable[..., Result], units: Sequence[Unit]
    ) -> Iterator[tuple[int, Result]]:
        """Call `work` with the parts of every unit.

        The places and results of the units come in the order in which they are finished.
        """


class Fleet(Protocol):
    """A fleet whose workers can be a crew, such as `concurrent.Ray`."""

    def crew(self) -> AbstractContextManager[Crew]:
        """Connect to the workers, and leave nothing behind in the end."""


@dataclass(frozen=True)
class Threads:
    """Threads of this process are the crew; a single one takes the units in their order."""

    workers: int = 1

    def each(
        self, work: Callable[..., Result], units: Sequence[Unit]
    ) -> Iterator[tuple[int, Result]]:
        if min(self.workers, len(units)) <= 1:
            yield from ((place, work(*unit)) for place, unit in enumerate(units))
            return
        with ThreadPoolExecutor(min(self.workers, len(units))) as pool:
            places = {pool.submit(work, *unit): place for place, unit in enumerate(units)}
            try:
                for future in as_completed(places):
                    yield places[future], future.result()
            finally:
                for future in places:
                    future.cancel()


def crew_of(fleet: Fleet | None) -> AbstractContextManager[Crew | None]:
    """The crew of a fleet, or None where threads of this process do the work."""
    if fleet is None:
        return nullcontext()
    if not hasattr(fleet, "crew"):
        raise ValueError(
            f"{shown(fleet)} cannot play whole runs; leave fleet out for threads of this"
            " process, or give concurrent.Ray()"
        )
    return fleet.crew()


@dataclass(frozen=True)
class Keep(Generic[Result]):
    """Where finished units are kept: under their kind, and what tells each from the others."""

    kept: Kept
    kind: str
    wanted: type[Result]


def each(
    crew: Crew,
    work: Callable[..., Result],
    units: Sequence[Unit],
    facts: Sequence[Any],
    keep: Keep[Result],
) -> Iterator[tuple[int, Result]]:
    """Hand out the place and the result of every unit, those that were kept first.

    A unit is kept as soon as it is finished. facts: of each unit, as JSON can hold them.
    """
    left = list[int]()
    for place, known in enumerate(facts):
        try:
            found = keep.kept.find(keep.kind, known, work.__module__, keep.wanted)
        except LookupError:
            left.append(place)
        else:
            yield place, found
    for i, result in crew.each(work, [units[place] for place in left]):
        keep.kept.add(keep.kind, facts[left[i]], work.__module__, result)
        yield left[i], result
