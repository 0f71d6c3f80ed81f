"""Workers that are actors of a Ray cluster."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, cast

import numpy as np

from lowswitch.checks import shown
from lowswitch.concurrent.fleets import FleetError
from lowswitch.concurrent.scheduler import (
    CLOSING_SECONDS,
    Scheduler,
    Worker,
    WorkerLostError,
    checked_settings,
)
from lowswitch.concurrent.sources import Source
from lowswitch.concurrent.units import RayCrew
from lowswitch.concurrent.worker import Assignment, PiecePlayer, PlayedPiece, Reply, pickled

_REACHING_SECONDS = 5.0  # to open a connection to a cluster
_HEALTH_SECONDS = 15.0  # for the cluster to confirm that it is one, with this version of Ray
_LOOK_SECONDS = 2.0  # between two checks that the head is alive
_LOST_SECONDS = 10.0  # without an answer until the head counts as lost; Ray waits for 60


@dataclass(frozen=True)
class Ray:
    """Actors of a Ray cluster play, or its tasks carry out the runs of a sweep.

    Every node must be able to import lowswitch and the modules of the source. There are never more
    workers than machines. If the head of the cluster is lost, the run ends with a FleetError, and
    the checkpoint keeps its progress. A private cluster listens only on this machine.

    Parameters
    ----------
    address
        The head's "host:port", or "auto" for the cluster that runs on this machine, or "local" for
        a private cluster that ends with the fleet. Without an address, the fleet uses the cluster
        that this process is connected to (and leaves the connection open), or the one that
        RAY_ADDRESS names, or a private one.
    workers
        How many actors or tasks at once; by default as many as the cluster has CPUs.
    patience
        A worker that does not answer within this many seconds counts as hung: it is killed, and
        other workers play its episodes.
    most
        The limit on workers if `workers` is not given.
    """

    address: str | None = None
    _: KW_ONLY
    workers: int | None = None
    patience: float = 60.0
    most: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.address is not None:
            _require_address(self.address)
        object.__setattr__(self, "workers", checked_settings(self.workers, self.patience))

    def at_most(self, machines: int) -> Ray:
        """The same fleet with no more workers than machines."""
        return replace(self, most=machines)

    def open(self, source: Source, seed: int, policy: np.ndarray) -> OpenRay:
        ray = _ray()
        packed = pickled(source, seed, ray.cloudpickle.dumps, "machine")
        ours = _connect(self.address)
        size = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        size = min(size, self.most or size)
        return OpenRay(packed, policy, size=size, patience=self.patience, ours=ours).start()

    @contextmanager
    def crew(self) -> Iterator[RayCrew]:
        """Workers for units of work, as in `runs.units.Fleet`; each unit takes one CPU.

        A unit may take any time, so `patience` does not apply.
        """
        ray, ours = _ray(), _connect(self.address)
        head = _Head()
        try:
            yield RayCrew(ray, self.workers, head)
        finally:
            if ours or head.gone:
                ray.shutdown()


# ---- reaching a cluster --------------------------------------------------------------------------


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Ray is not installed; install it with: pip install "lowswitch[ray]"'
        ) from error
    return ray


def _require_address(address: str) -> None:
    if not isinstance(address, str):
        raise ValueError(
            f'address must be "host:port", "auto" or "local", not {shown(address)}; for '
            "two workers write Ray(workers=2)"
        )
    if address.startswith("ray://"):
        raise ValueError(
            f"address {shown(address)} is one of the Ray Client, which cannot carry a fleet; run on"
            ' a node of the cluster and give the head\'s "host:port", or submit the script as a'
            " Ray job"
        )
    match = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):(\d{1,5})", address)
    if address not in ("auto", "local") and not (match and 0 < int(match[2]) < 2**16):
        raise ValueError(f'address must be "host:port", "auto" or "local", not {shown(address)}')


def _connect(address: str | None) -> bool:
    """Connect to a cluster; return whether this fleet made the connection and so must close it."""
    ray = _ray()
    if ray.is_initialized():
        connected = ray.get_runtime_context().gcs_address
        if address not in (None, "auto") and not _same_place(str(address), connected):
            raise FleetError(
                f"this process is already connected to the Ray cluster at {connected}, "
                f"not to {address!r}; leave the address out, or call ray.shutdown() first"
            )
        return False
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    local = {"include_dashboard": False} if address == "local" else {}
    if address != "local":
        _require_address(address)
        _show_the_token()
        _require_cluster(address)
    try:
        with _on_loopback() if local else nullcontext():
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise FleetError(f"Ray cannot connect to {address!r}: {error}") from error
    return True


def _show_the_token() -> None:
    """Make Ray present this machine's token, if it has one and starts clusters with it.

    A driver does not do so by itself. Versions of Ray without tokens have no such function.
    """
    with suppress(ImportError):
        from ray._private.authentication import authentication_token_setup as tokens

        quiet = logging.getLogger(tokens.__name__)
        before = quiet.level
        quiet.setLevel(logging.ERROR)  # Otherwise it logs that it does as asked.
        try:
            tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
        finally:
            quiet.setLevel(before)


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Make a cluster that starts inside this context listen only on this machine.

    Ray does so on systems where it does not support clusters of several machines, so this context
    tells Ray that it runs on one of them.
    """
    from ray._private import ray_constants

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _same_place(address: str, connected: str) -> bool:
    """Whether `address` is the cluster to which this process is connected."""
    if address == "local":
        return False
    host, port = address.rsplit(":", 1)
    its_host, its_port = connected.rsplit(":", 1)
    try:
        here = socket.gethostbyname(host)
    except OSError:
        return False
    return port == its_port and (
        here == its_host
        or (here.startswith("127.") and its_host == _ray().util.get_node_ip_address())
    )


def _require_cluster(address: str) -> None:
    """Check in bounded time that a cluster is there; `ray.init` would try for ten minutes."""
    advice = (
        "check the address, and that `ray status` works there, or leave the address out to use this"
        " machine alone"
    )
    if address != "auto":
        host, port = address.rsplit(":", 1)
        place = host.strip("[]"), int(port)
        try:
            socket.create_connection(place, timeout=_REACHING_SECONDS).close()
        except OSError as error:
            raise FleetError(f"nothing answers at {address!r} ({error}); {advice}") from error
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        check = subprocess.run(
            command, capture_output=True, text=True, timeout=_HEALTH_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FleetError(
            f"no Ray cluster answers at {address!r} within {_HEALTH_SECONDS:g} s; {advice}"
        ) from error
    if check.returncode:
        reason = (check.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise FleetError(f"no Ray cluster is ready at {address!r} ({reason}); {advice}")


class _Head:
    """The head of the cluster to which this process is connected.

    Workers continue without the head for a while. After that, Ray would end this process silently.
    """

    patience = _LOOK_SECONDS

    def __init__(self) -> None:
        self.address = str(_ray().get_runtime_context().gcs_address)
        self.looked = self.seen = time.monotonic()  # when it was last asked, and answered
        self.gone = False

    def answers(self) -> bool:
        """Whether it was looked at just now and answered; an error if it has been unreachable for
        some time.
        """
        if time.monotonic() - self.looked < _LOOK_SECONDS:
            return False
        self.looked = time.monotonic()
        host, port = self.address.rsplit(":", 1)
        try:
            socket.create_connection((host.strip("[]"), int(port)), _LOOK_SECONDS).close()
        except OSError as error:
            if time.monotonic() - self.seen > _LOST_SECONDS:
                self.gone = True
                raise FleetError(
                    f"the head of the Ray cluster at {self.address} is lost ({error}), and "
                    "with it the cluster; restart the cluster and repeat this call, "
                    "which resumes from what is kept"
                ) from None
            return False
        self.seen = time.monotonic()
        return True


# ---- workers -------------------------------------------------------------------------------------


class RayWorker(Worker):
    """The driver's handle on an actor."""

    def __init__(self, actor: Any, patience: float) -> None:
        super().__init__()
        self.actor, self.patience = actor, patience
        self.reply = actor.__ray_ready__.remote()  # arrives when the actor is up

    def send(self, asked: Assignment) -> int:
        self.reply = self.actor.play.remote(asked)  # If the actor is dead, the reply says so.
        return sum(array.nbytes for array in asked[1:] if array is not None)

    def receive(self) -> tuple[Reply | None, int]:
        ray = _ray()
        try:
            reply = ray.get(self.reply, timeout=self.patience)
        except ray.exceptions.RayError as error:
            # The actor or its node is gone, or the node that held the reply.
            without_colours = re.sub(r"\x1b\[\d+m", "", str(error))
            raise WorkerLostError(without_colours) from error
        if not self.up:
            self.up = True
            return None, 0
        played = isinstance(reply, PlayedPiece)
        return cast(Reply, reply), reply.states.nbytes + reply.rewards.nbytes if played else 0

    def kill(self) -> None:
        with suppress(_ray().exceptions.RayError):
            _ray().kill(self.actor)


class OpenRay(Scheduler[RayWorker]):
    """The open fleet of actors. An actor waits until the cluster has room for it."""

    advice = (
        "check with `ray status` whether the cluster has free CPUs, and make sure that "
        "its nodes can import lowswitch and the source"
    )

    def __init__(
        self, source: bytes, policy: np.ndarray, *, size: int, patience: float, ours: bool
    ) -> None:
        super().__init__(source, policy, size=size, patience=patience)
        self.ours = ours  # The connection to the cluster ends with this fleet.
        self.head = _Head()
        self.shared = _ray().put(source)  # sent once, no matter how many workers fetch it
        # Ray must not restart an actor: a new one would not know the policy.
        settings = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
        self.actor = _ray().remote(**settings)(PiecePlayer)

    def _start_worker(self) -> RayWorker:
        return RayWorker(self.actor.remote(self.shared), self.patience)

    def _wait(self, workers: Sequence[RayWorker], seconds: float) -> list[RayWorker]:
        by_reply = {worker.reply: worker for worker in workers}
        deadline = time.monotonic() + seconds
        while True:
            self.head.answers()
            rest = max(0.0, deadline - time.monotonic())
            ready, _ = _ray().wait(list(by_reply), num_returns=1, timeout=min(rest, _LOOK_SECONDS))
            if ready or time.monotonic() >= deadline:
                return [by_reply[reply] for reply in ready]

    def _end_workers(self) -> None:
        ray = _ray()
        if self.head.gone:
            # All calls would wait for the head. A connection without a head ends the process, so it
            # is closed even if this fleet did not open it.
            ray.shutdown()
        elif ray.is_initialized():
            try:
                closing = [worker.actor.close.remote() for worker in self.workers if worker.up]
                if closing:
                    ray.wait(closing, num_returns=len(closing), timeout=CLOSING_SECONDS)
            finally:  # also when a second Ctrl-C interrupts the wait
                self._kill_workers()
        self.ours = False

    def _kill_workers(self) -> None:
        try:
            for worker in self.workers:
                worker.kill()
        finally:
            if self.ours:
                _ray().shutdown()
