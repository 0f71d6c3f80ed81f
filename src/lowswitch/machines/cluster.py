"""Workers that are actors of a Ray cluster."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from lowswitch.checks import require_count
from lowswitch.machines.crew import Team, WorkerLostError
from lowswitch.machines.fleets import FleetError
from lowswitch.machines.processes import require_patience
from lowswitch.machines.sources import Source
from lowswitch.machines.station import Answer, Failure, Order, Station

_REACHING_SECONDS = 5.0  # to open a connection to a cluster
_HEALTH_SECONDS = (
    15.0  # for it to say that it is a cluster, and of the same version; importing Ray included
)
_CLOSING_SECONDS = 3.0  # for players to close what they have open


@dataclass(frozen=True)
class Ray:
    """Actors of a Ray cluster, one player and one CPU each; `workers` is the number of the
    cluster's CPUs unless given.

    `address` is the head's "host:port", "auto" for the cluster that runs on this machine, or
    "local" for one of its own that ends with the crew. Without it: the cluster that this process is
    connected to (it stays so), or that RAY_ADDRESS names, or one of its own. Every node must be
    able to import lowswitch and what the source needs. A worker that does not answer within
    `patience` seconds counts as hung: it is killed and its episodes are played elsewhere.
    """

    address: str | None = None
    _: KW_ONLY
    workers: int | None = None
    patience: float = 60.0

    def __post_init__(self) -> None:
        if self.address is not None:
            _require_address(self.address)
        if self.workers is not None:
            require_count("workers", self.workers)
        require_patience(self.patience)

    def open(self, source: Source, seed: int, policy: np.ndarray) -> Team[RayWorker]:
        ray = _ray()
        try:
            pickled = ray.cloudpickle.dumps((source, seed), protocol=5)
        except Exception as error:  # pickle raises what the object's own methods raise
            raise ValueError(
                f"{type(source).__name__} cannot be sent to another machine ({error}); build it"
                " from functions and classes at the top level of a module, or play with"
                " InProcess()"
            ) from error
        engine = RayEngine(pickled, self.patience, ours=_connect(self.address))
        workers = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        team = Team(engine, policy, workers=workers, patience=self.patience)
        team.muster()
        return team


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
            f'address must be "host:port", "auto" or "local", not {address!r}; for two workers'
            " write Ray(workers=2)"
        )
    if address.startswith("ray://"):
        raise ValueError(
            f"address {address!r} is one of the Ray Client, which cannot carry a crew; run on a"
            ' node of the cluster and give the head\'s "host:port", or submit the script as a'
            " Ray job"
        )
    match = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):(\d{1,5})", address)
    if address not in ("auto", "local") and not (match and 0 < int(match[2]) < 2**16):
        raise ValueError(f'address must be "host:port", "auto" or "local", not {address!r}')


def _connect(address: str | None) -> bool:
    """Be connected; whether that was done here, so that it is undone here."""
    ray = _ray()
    if ray.is_initialized():
        connected = ray.get_runtime_context().gcs_address
        if address not in (None, "auto") and not _same_place(str(address), connected):
            raise FleetError(
                f"this process is connected to the Ray cluster at {connected}, not to {address!r}; "
                "leave the address out, or call ray.shutdown() before"
            )
        return False
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    local = {"include_dashboard": False} if address == "local" else {}
    if address != "local":
        _require_address(address)
        _require_cluster(address)
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise FleetError(f"Ray cannot connect to {address!r}: {error}") from error
    return True


def _same_place(address: str, connected: str) -> bool:
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
    """Find out in bounded time whether a cluster is there: `ray.init` would try for more than ten
    minutes.
    """
    advice = (
        "check the address, and that `ray status` works there, or leave the address out to use this"
        " machine alone"
    )
    if address != "auto":
        host, port = address.rsplit(":", 1)
        try:
            socket.create_connection(
                (host.strip("[]"), int(port)), timeout=_REACHING_SECONDS
            ).close()
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


# ---- workers -------------------------------------------------------------------------------------


class RayEngine:
    """Starts actors; what a cluster has no room for waits until it has."""

    advice = (
        "see with `ray status` whether the cluster has free CPUs, and make sure that its nodes can"
        " import lowswitch and the source"
    )

    def __init__(self, source: bytes, patience: float, *, ours: bool) -> None:
        self.patience, self.ours, self.size = patience, ours, len(source)
        self.source = _ray().put(source)  # once, however many workers fetch it
        self.station = _ray().remote(num_cpus=1, max_restarts=0, max_task_retries=0)(
            Station
        )  # a restarted one would have lost the policy

    def start(self) -> tuple[RayWorker, int]:
        return RayWorker(self.station.remote(self.source), self.patience), self.size

    def wait(self, workers: Sequence[RayWorker], seconds: float) -> list[RayWorker]:
        by_answer = {worker.answer: worker for worker in workers}
        ready, _ = _ray().wait(list(by_answer), num_returns=1, timeout=seconds)
        return [by_answer[answer] for answer in ready]

    def close(self, workers: Sequence[RayWorker]) -> None:
        ray = _ray()
        if ray.is_initialized():
            try:
                closing = [worker.actor.close.remote() for worker in workers if worker.up]
                if closing:
                    ray.wait(closing, num_returns=len(closing), timeout=_CLOSING_SECONDS)
            finally:  # also when a second Ctrl-C cuts the waiting short
                self._end(workers)
        self.ours = False

    def _end(self, workers: Sequence[RayWorker]) -> None:
        try:
            for worker in workers:
                worker.kill()
        finally:
            if self.ours:
                _ray().shutdown()


class RayWorker:
    """The driver's handle of an actor."""

    def __init__(self, actor: Any, patience: float) -> None:
        self.actor, self.patience, self.up = actor, patience, False
        self.answer = actor.__ray_ready__.remote()

    def hand(self, order: Order) -> int:
        self.answer = self.actor.play.remote(order)  # that of a dead actor says so
        return sum(
            array.nbytes
            for array in (order.policy, order.changes, order.episodes)
            if array is not None
        )

    def take(self) -> tuple[Answer | Failure | None, int]:
        ray = _ray()
        try:
            answer = ray.get(self.answer, timeout=self.patience)
        except (
            ray.exceptions.RayError
        ) as error:  # the actor or its node is gone, or the answer with the node
            raise WorkerLostError(
                re.sub(r"\x1b\[\d+m", "", str(error))
            ) from error  # less its colours
        if not self.up:
            self.up = True
            return None, 0
        return answer, (
            answer.states.nbytes + answer.rewards.nbytes if isinstance(answer, Answer) else 0
        )

    def kill(self) -> None:
        with suppress(_ray().exceptions.RayError):
            _ray().kill(self.actor)
