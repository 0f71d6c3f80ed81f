"""Tasks of a Ray cluster carry out units of work, such as the runs of a sweep."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from lowswitch.concurrent.fleets import FleetError
from lowswitch.runs.units import Unit

Result = TypeVar("Result")

_RETRIES = 3  # of a unit whose worker is lost
_WAITING = 2  # units for each worker, so that none is idle while a result travels
_PLAIN = int, float, str, bool, type(None)


class Head(Protocol):
    """The head of the cluster."""

    gone: bool
    patience: float  # seconds until it should be looked at again

    def answers(self) -> bool:
        """Whether it was looked at just now and answered; an error if it is lost."""


class RayCrew:
    """The tasks of a cluster to which this process is connected.

    Ray starts a unit again, on another node if need be, when its worker is lost.
    """

    def __init__(self, ray: Any, workers: int | None, head: Head) -> None:
        self.ray, self.head = ray, head
        self.follows = workers is None  # the size of the cluster
        self.size = self._size() if workers is None else workers  # units under way at once

    def each(
        self, work: Callable[..., Result], units: Sequence[Unit]
    ) -> Iterator[tuple[int, Result]]:
        """As in `runs.units.Crew`; what several units share is sent once."""
        ray, sent = self.ray, dict[int, Any]()
        task = ray.remote(num_cpus=1, max_retries=_RETRIES)(carry_out)

        def put(part: Any) -> Any:
            if isinstance(part, _PLAIN):
                return part
            if id(part) not in sent:  # in `units`, so that nothing else gets the same id
                sent[id(part)] = ray.put(_packed(part, ray.cloudpickle.dumps))
            return sent[id(part)]

        coming, places = enumerate(units), dict[Any, int]()
        try:
            while True:
                if self.head.answers() and self.follows:
                    self.size = self._size()  # which would wait for a head that is lost
                room = self.size - len(places)
                for place, unit in (next(coming, (None, ())) for _ in range(room)):
                    if place is not None:
                        places[task.remote(*map(put, (work, *unit)))] = place
                if not places:
                    return
                ready, _ = ray.wait(list(places), num_returns=1, timeout=self.head.patience)
                for reply in ready:
                    result = self._result(reply)
                    yield places.pop(reply), result
        finally:
            self._cancel(list(places))

    def _size(self) -> int:
        return _WAITING * max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def _result(self, reply: Any) -> Any:
        errors = self.ray.exceptions
        try:
            return pickle.loads(self.ray.get(reply))
        except errors.RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from error
            raise FleetError(f"a unit of work failed: {error}") from error
        except errors.RayError as error:
            raise FleetError(
                f"a unit of work lost its worker {_RETRIES + 1} times ({error}); check the memory"
                " of the nodes, and repeat this call, which resumes from its folder"
            ) from error

    def _cancel(self, replies: list[Any]) -> None:
        if not self.head.gone:  # else every call would wait for it
            for reply in replies:
                self.ray.cancel(reply, force=True)


def _packed(part: Any, dumps: Callable[..., bytes]) -> bytes:
    try:
        return dumps(part, protocol=5)
    except Exception as error:  # Pickling raises whatever the object's methods raise.
        raise ValueError(
            f"{type(part).__name__} cannot be sent to another machine ({error}); build it from"
            " functions and classes at the top level of a module, or leave fleet out"
        ) from error


def carry_out(*parts: Any) -> bytes:
    """Call the first of the parts with the others; on a worker.

    Everything travels as bytes, because arrays that Ray delivers cannot be written to, and a kernel
    would be compiled again for these. Every unit has its own copies, so that it depends on no
    other.
    """
    work, *unit = (pickle.loads(part) if isinstance(part, bytes) else part for part in parts)
    return pickle.dumps(work(*unit), protocol=5)
