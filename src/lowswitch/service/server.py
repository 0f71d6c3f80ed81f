"""The server: one process, one socket, and time limits for slow connections."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lowswitch.io.files import owning
from lowswitch.ledger import Ledger, LedgerError
from lowswitch.ledger.address import file_of, is_postgres
from lowswitch.service.access import Access
from lowswitch.service.app import Service, is_loopback, make_app
from lowswitch.service.log import JsonLog
from lowswitch.service.moving import move_file

PORT = 8642
MOST_CONNECTIONS = 400  # that are silent
MOST_AT_ONCE = 1400  # connections in all, each with a body of at most 1 MiB; more get a 503
# Many fewer than may be silent: the first words of each are read before it can be the oldest.
_ACCEPTED_AT_ONCE = 50
_MOST_UNACCEPTED = 1024  # connections that wait for that
_MOST_HEAD = 1 << 16  # bytes of the head of a request
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n"
MOST_PIPELINED = 16  # requests of a connection that wait for their answers
_HEADER_SECONDS = 10.0  # for the head of a request to come
_SWITCH_SECONDS = 0.001  # so that requests are read while the ledger's thread computes
_IDLE_SECONDS = 30  # between two requests of a connection


class HttpConnection(HttpToolsProtocol):
    """A connection that must send its request within seconds.

    When there are too many, the one that has been silent longest is closed. Silent connections
    therefore cannot keep others out.
    """

    silent: ClassVar[dict[HttpConnection, None]] = {}  # those without a request, the oldest first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._head = 0  # bytes of a request whose head is not there yet
        self._deadline = self.loop.call_later(_HEADER_SECONDS, self._too_slow)
        self.silent[self] = None
        while len(self.silent) > MOST_CONNECTIONS:
            oldest = next(iter(self.silent))
            del self.silent[oldest]
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self in self.silent:
            self._head += len(data)
            if self._head > _MOST_HEAD and b"\r\n\r\n" not in data:
                self._refuse_head()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._fields = 0  # bytes of the address and the headers of a request
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._fields += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += len(name) + len(value)
        if self._fields > _MOST_HEAD:
            self._refuse_head()
            raise ValueError("a head that is too long")  # so that the rest is not even parsed
        super().on_header(name, value)

    def _refuse_head(self) -> None:
        """Refuse a request whose head is too long, and end the connection."""
        if not self.transport.is_closing():
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._deadline.cancel()
        self._head = 0
        self.silent.pop(self, None)
        if len(self.pipeline) >= MOST_PIPELINED:
            self.transport.abort()
            raise ValueError("too many requests at once")  # so that the rest is not even parsed
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._deadline.cancel()
        if not self.transport.is_closing():
            self._deadline = self.loop.call_later(_IDLE_SECONDS + _HEADER_SECONDS, self._too_slow)
            self.silent[self] = None
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self.silent.pop(self, None)
        super().connection_lost(exc)

    def _too_slow(self) -> None:
        self.transport.abort()


@dataclass(frozen=True)
class Place:
    """The address that a service listens on."""

    host: str
    port: int
    behind_tls: bool
    origin: str | None

    def __post_init__(self) -> None:
        if not (self.behind_tls or is_loopback(self.host)):
            raise LedgerError(
                f"--host {self.host} can be reached from other machines, and tokens would travel"
                " unencrypted; put a reverse proxy with TLS in front of it and say --behind-tls, or"
                " listen on 127.0.0.1"
            )
        if self.behind_tls and self.origin is None:
            raise LedgerError(
                "--behind-tls needs --origin, the address as browsers see it, such as"
                " --origin https://ledger.example.org; requests for other names are refused"
            )
        if self.origin is not None and not self.origin.startswith("https://"):
            raise LedgerError(f"--origin begins with https://, not {self.origin!r}")

    def listen(self) -> socket.socket:
        """A listening socket.

        It names its protocol: asyncio sends answers without delay only if the socket says TCP.
        Otherwise the second part of each answer waits 40 ms for the client to acknowledge the
        first.
        """
        kind = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.host, self.port))
        except OSError as error:
            listening.close()
            raise LedgerError(
                f"cannot listen on {self.host} port {self.port} ({error.strerror}); choose another"
                " --port, or 0 for any that is free"
            ) from None
        listening.listen(_MOST_UNACCEPTED)
        return listening

    def url(self, listening: socket.socket) -> str:
        """The address for a browser."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return self.origin or f"http://{name}:{listening.getsockname()[1]}"


@contextlib.contextmanager
def opened(
    address: str,
    place: Place,
    *,
    note: str = "",
    log: JsonLog | None = None,
    most_open: int | None = None,
    old_tokens: Path | None = None,
    key_file: Path | None = None,
) -> Iterator[Service]:
    """The service of a ledger. A file has one server at a time, a PostgreSQL any number.

    most_open: how many open tickets a site may have. old_tokens: a token file of an older version,
    which is moved into the ledger. key_file: the key that signs anchors.
    """
    owned = owning(None if is_postgres(address) else file_of(address))
    with owned, Ledger.open(address) as ledger:
        move_file(address, old_tokens)
        ledger.most_open = fair_share(ledger) if most_open is None else most_open
        with contextlib.closing(Access(address)) as tokens:
            names = place.behind_tls, place.origin, note
            made = Service(
                ledger, address, tokens, *names, key_file=key_file, log=log or JsonLog("off")
            )
            with contextlib.closing(made):
                yield made


def fair_share(ledger: Ledger) -> int:
    """How many open tickets a site may have by default: a tenth of the run, within limits."""
    return min(max(ledger.terms.episodes // 10, 100), 10_000)


def warm_up(ledger: Ledger) -> None:
    """Load the state; compile the learner and its planning, so that no report or meeting waits."""
    learner = ledger.terms.learner()
    learner.learn_checked(*ledger.terms.usual_batch())
    learner.propose()
    ledger.status()


def serve(service: Service, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal arrives; running work is finished first."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # what is loaded stays, and need not be looked through again and again
    asyncio.run(Server(service, ready).serve(sockets=[listening]))


class Server(uvicorn.Server):
    """A server that reports when it is ready."""

    def __init__(self, service: Service, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            make_app(service),
            http=HttpConnection,
            ws="none",
            lifespan="on",
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            limit_concurrency=MOST_AT_ONCE,
            timeout_keep_alive=_IDLE_SECONDS,
            backlog=_ACCEPTED_AT_ONCE,
            timeout_graceful_shutdown=10,
        )
        super().__init__(config)
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal, then let the program end as usual, because there is work to finish."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_MOST_UNACCEPTED)  # asyncio set it to what is accepted at once
        self._ready()
