"""The application: routes made from the table of roles, and one entrance for all requests."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from lowswitch.ledger import Ledger, LedgerError, Verdict, errors
from lowswitch.ledger.address import printable_text
from lowswitch.ledger.connection import EXPIRES
from lowswitch.service.access import Access, Token
from lowswitch.service.beside import Revoked, place_of
from lowswitch.service.bodies import RefusedError, body_of, form
from lowswitch.service.emergency import Emergency
from lowswitch.service.engine import Engine
from lowswitch.service.journal import Journal
from lowswitch.service.limits import MOST_LOGINS, MOST_REQUESTS, Failures
from lowswitch.service.log import JsonLog
from lowswitch.service.metrics import Meter
from lowswitch.service.refusals import Refusals
from lowswitch.service.roles import ANYBODY, ENDPOINTS, PROBES, Endpoint
from lowswitch.service.sessions import Session, Sessions, same

_STATUS: dict[type[LedgerError], int] = {
    errors.UnknownTicketError: 404,
    errors.ConflictError: 409,
    errors.SupersededError: 409,
    errors.ExpiredError: 410,
    errors.QuotaError: 429,
    errors.FrozenError: 423,
    errors.StorageError: 503,
    errors.UnreadableError: 503,
    errors.ReadOnlyError: 503,
    errors.BrokenError: 503,
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self';"
        " frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HOST = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_LOOK_AGAIN = 1.0  # seconds
RECORD_SECONDS = 2.0  # that somebody who logs in waits for the record of it
_CALM = 2.0  # seconds without a failure after which an outage may be over
_TOKEN = "lowswitch.token"  # who makes a request, in its scope
_NEW_TOKEN = "ask the administrator of this service for a new one"
_ALARMS = (401, 403, 429)  # answers that are logged as warnings


@dataclass
class Service:
    """The objects that all requests share."""

    ledger: Ledger
    address: str = field(repr=False)  # a password may be in it
    access: Access
    behind_tls: bool = False
    origin: str | None = None  # as browsers see it, such as https://ledger.example.org
    note: str = ""  # what every page says at its top
    key_file: Path | None = None  # of the key that signs anchors; by default beside the ledger
    log: JsonLog = field(default_factory=lambda: JsonLog("off"))
    engine: Engine = field(init=False)
    emergency: Emergency = field(init=False)
    journal: Journal = field(init=False)
    revoked: Revoked = field(init=False)
    sessions: Sessions = field(default_factory=Sessions)
    meter: Meter = field(default_factory=Meter)
    failed_logins: Failures = field(default_factory=lambda: Failures(MOST_LOGINS))
    failed_requests: Failures = field(default_factory=lambda: Failures(MOST_REQUESTS))
    refusals: Refusals = field(default_factory=Refusals)
    # the events of the proposal that each person saw last, and of the one before it
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    alike: tuple[int, list[Any]] = (0, [])  # tickets so far, and those with nearly the same names
    verifying: asyncio.Task[Any] | None = None

    def __post_init__(self) -> None:
        self.engine = Engine(self.ledger, self.noticed)
        self.emergency = Emergency.of(self)
        self.journal = Journal(Ledger.open(self.address, read_only=True), self.ledger.policy_of)
        self.revoked = Revoked(place_of(self.address, self.key_file, ".revoked"))
        self._revoke_again()

    def _revoke_again(self) -> None:
        """Revoke tokens that a restored backup has brought back."""
        says, names = "this ledger was restored: revoked tokens are revoked again", list[str]()
        try:
            names = [one.id for one in self.revoked.again(self.access)]
        except LedgerError as error:
            says = f"this ledger was restored, and revoked tokens work again: {error}"
            self.log.write("error", "restored", says=says)
        if names:
            self.log.write("warning", "restored", says=says, tokens=names)

    def close(self) -> None:
        """Finish running work and close everything except the ledger."""
        self.engine.stop()
        self.emergency.end()
        if lost := self.access.settle():
            says = f"{lost} logins and failed logins are in this log and not on record"
            self.log.write("error", "logins not recorded", says=says)
        self.journal.reader.close()

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC)

    def noticed(self, error: LedgerError | None) -> None:
        """Log once when the database fails, and once when it works again."""
        if error is not None:
            self.meter.failed_at = time.monotonic()
        if (error is not None) == self.meter.is_out:
            return
        self.meter.is_out = error is not None
        if error is not None:
            self.meter.outages += 1
            self.log.write("error", "outage", says=printable_text(str(error)))
        else:
            self.log.write("warning", "recovered")

    @contextmanager
    def reading(self) -> Iterator[Ledger]:
        """A read-only ledger for a long read that blocks nobody."""
        with Ledger.open(self.address, read_only=True) as reader:
            yield reader

    @property
    def cookie(self) -> str:
        """The name of the cookie; behind TLS, one that browsers bind to this host."""
        return "__Host-lowswitch" if self.behind_tls else "lowswitch"

    async def verify(self, by: Token) -> None:
        """Start to verify, unless a verify is running."""
        if self.verifying is None or self.verifying.done():
            self.verifying = asyncio.create_task(asyncio.to_thread(self._verify, by))

    def _verify(self, by: Token) -> None:
        try:
            with self.reading() as reader:
                verdict = reader.verify(progress=False)
        except LedgerError as error:  # it cannot even be opened, which is a verdict, too
            bad = error.seq if isinstance(error, errors.BrokenError) else None
            verdict = Verdict(False, 0 if bad is None else bad - 1, bad, str(error), "")
        self.access.keep(verdict, by=by.name, role=by.role)
        level = "info" if verdict.whole else "error"
        self.log.write(level, "verified", by=by.name, whole=verdict.whole, says=verdict.what)

    async def record_access(self) -> None:
        """Record logins now if the database answers soon; otherwise `keep_up` does so later."""
        error = await attempt(self.access.refresh, RECORD_SECONDS)
        if isinstance(error, LedgerError):
            self.noticed(error)

    async def keep_up(self) -> None:
        """Read new events and tokens from time to time, for ever."""
        while True:
            head = self.journal.reader.store.grown_head
            for refresh in (head, self.journal.catch_up, self.access.refresh):
                try:
                    await asyncio.to_thread(refresh)
                except LedgerError as error:
                    self.noticed(error)
            with suppress(ValueError):  # no room; the next time
                self.revoked.keep(self.access)
            await self.emergency.record()
            await self._try_again()
            if not self.meter.is_out:
                self.emergency.keep_reserve()
            await asyncio.sleep(_LOOK_AGAIN)

    async def _try_again(self) -> None:
        """End an outage when the database accepts a write, even if nobody sends one."""
        if not self.meter.is_out or time.monotonic() - self.meter.failed_at < _CALM:
            return
        with suppress(LedgerError, RefusedError):
            for trial in (self.ledger.store.write_nothing, self.ledger.store.grown_head):
                await self.engine.call(trial, "try the database")
            self.noticed(None)


async def attempt(function: Callable[[], Any], seconds: float) -> BaseException | None:
    """Run a function in a thread and wait up to `seconds` for it; return its error, if any by then.

    Unfinished work continues, and its error is ignored: it will be repeated anyway.
    """
    task = asyncio.create_task(asyncio.to_thread(function))
    task.add_done_callback(lambda done: done.exception())
    await asyncio.wait([task], timeout=seconds)
    return task.exception() if task.done() else None


@dataclass
class Call:
    """One admitted request."""

    service: Service
    endpoint: Endpoint
    request: Request
    token: Token | None  # None where anybody may come
    session: Session | None  # of a page
    body: bytes = b""
    fields: list[tuple[str, str]] = field(default_factory=list)  # of a form

    @property
    def who(self) -> str:
        """The caller's name, as events record it."""
        assert self.token is not None
        return self.token.name

    def field(self, name: str) -> str:
        """A field of the form; empty if it is missing."""
        return next((value for key, value in self.fields if key == name), "")


Handler = Callable[[Call], Awaitable[Response]]


def make_app(service: Service) -> Door:
    """The application of a service."""
    from lowswitch.service import api, pages

    def route(endpoint: Endpoint) -> Route:
        handler: Handler = getattr(api if endpoint.is_api else pages, endpoint.handler)

        async def run(request: Request) -> Response:
            try:
                call = await _admit(service, endpoint, request)
            except (RefusedError, LedgerError) as error:
                return _refused(service, endpoint.is_api, request, error)
            try:
                return _by_get(call, await handler(call))
            except (RefusedError, LedgerError) as error:
                return _by_get(call, _refused(service, endpoint.is_api, request, error))

        return Route(endpoint.path, run, methods=[endpoint.method], name=_name(endpoint))

    async def not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        is_api = request.url.path.startswith("/api")
        says = (
            f"there is no {request.method} of this address" if is_api else "there is no such page"
        )
        refusal = RefusedError(error.status_code, says)
        return _refused(service, is_api, request, refusal, error.headers)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(service.keep_up())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    app = Starlette(
        routes=[route(endpoint) for endpoint in ENDPOINTS],
        exception_handlers={404: not_found, 405: not_found},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return Door(app, service)


def _by_get(call: Call, answer: Response) -> Response:
    """Give the page that a form leads to an address of its own.

    So going back or reloading does not send a form twice.
    """
    if call.session is None or not call.endpoint.is_form or not isinstance(answer, HTMLResponse):
        return answer
    name = call.session.keep(bytes(answer.body), answer.status_code)
    place = "#changes" if call.field("show") else ""  # which the person was looking at
    if answer.status_code >= 400 and b'id="wrong"' in answer.body:
        place = "#wrong"  # or it may be far below what a screen shows
    return RedirectResponse(f"/shown?page={name}{place}", 303)


def _name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


# ---- the door ------------------------------------------------------------------------------------


async def _admit(service: Service, endpoint: Endpoint, request: Request) -> Call:
    """Admit a request or refuse it: by its token, its role and its origin."""
    token, session = None, None
    if endpoint.is_api:
        token = _by_header(service, request) if endpoint.roles != ANYBODY else None
    else:
        if request.method == "POST":
            _require_own_origin(service, request)
        token, session = _by_cookie(service, request)
    request.scope[_TOKEN] = token
    if endpoint.roles != ANYBODY:
        if token is None:
            raise _unauthorized(service, endpoint, request)
        if token.role not in endpoint.roles:
            says = f"your role ({token.role}) cannot {endpoint.what}; {_who(endpoint)} can"
            raise RefusedError(403, says, "Forbidden")
    call = Call(service, endpoint, request, token, session)
    if request.method == "POST":
        call.body = await body_of(request)
        if not endpoint.is_api:
            call.fields = form(call.body, request.headers.get("content-type", ""))
            if endpoint.roles != ANYBODY:
                assert session is not None
                if not same(call.field("form"), session.form):
                    raise RefusedError(403, "this form is not of this session; open the page again")
    return call


def _unauthorized(service: Service, endpoint: Endpoint, request: Request) -> RefusedError:
    """The refusal of a request without a valid token; a wrong token is a failed login."""
    shown = request.headers.get("authorization", "")
    if not (endpoint.is_api and shown):
        return RefusedError(401, "a token is needed that works", "Unauthorized")
    address = address_of(service, request)
    shown = shown.partition(" ")[2].strip()
    return failed_login(service, service.failed_requests, address, shown)


def failed_login(service: Service, before: Failures, address: str, shown: str) -> RefusedError:
    """Note a failed login; only a caller with the right secret is told that the token expired.

    before: earlier failures of the same kind. They do not delay callers with a valid token.
    """
    waits = before.wait(address)
    before.add(address)
    service.meter.failed_logins += 1
    expired = service.access.expired(shown)
    identity = shown.partition(".")[0] if service.access.token(shown.partition(".")[0]) else None
    service.log.write("warning", "login failed", address=address, token=identity)
    service.access.note_failure(address, identity)
    if expired is not None:
        says = f"this token expired at {expired.expires}; {_NEW_TOKEN}"
        return RefusedError(401, says, "Expired")
    if waits:
        says = f"too many tokens that do not work came from here; wait {waits} s"
        return RefusedError(429, says, "TooMany", wait=waits)
    says = f"this token is unknown or revoked; {_NEW_TOKEN}"
    return RefusedError(401, says, "Unauthorized")


def _who(endpoint: Endpoint) -> str:
    """Whom to ask instead, in words."""
    *most, last = (f"an {role}" if role[0] in "ao" else f"a {role}" for role in endpoint.roles)
    return f"{', '.join(most)} or {last}" if most else last


def _by_header(service: Service, request: Request) -> Token | None:
    kind, _, shown = request.headers.get("authorization", "").partition(" ")
    return service.access.check(shown.strip()) if kind.lower() == "bearer" else None


def _by_cookie(service: Service, request: Request) -> tuple[Token | None, Session | None]:
    session = service.sessions.find(request.cookies.get(service.cookie, ""))
    if session is None:
        return None, None
    token = service.access.token(session.token)
    if token is None or not token.works(now()):
        return None, None
    service.access.note_use(token)
    return token, session


def now() -> datetime:
    return datetime.now(UTC)


def address_of(service: Service, request: Request) -> str:
    """The address that a request comes from; behind TLS, as the proxy states it."""
    forwarded = request.headers.get("x-forwarded-for", "") if service.behind_tls else ""
    return forwarded.rpartition(",")[2].strip()[:80] or str((request.scope.get("client") or "?")[0])


def _require_own_origin(service: Service, request: Request) -> None:
    """Check that a form was sent from a page of this service."""
    scheme = "https" if service.behind_tls else "http"
    own = service.origin or f"{scheme}://{request.headers.get('host', '')}"
    if request.headers.get("origin", "") != own:
        raise RefusedError(403, "this form was not sent from a page of this service")


def _require_own_host(service: Service, scope: Scope) -> None:
    """Refuse a host name that is not ours, since an attacker may have pointed it here."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    host = hosts[0].decode("latin-1") if len(hosts) == 1 else ""
    if not _HOST.fullmatch(host):
        raise RefusedError(400, "the Host header cannot be read", "WrongHost")
    is_here = is_loopback(re.sub(r":\d+$", "", host).strip("[]"))
    if service.origin is not None:
        own = service.origin.partition("://")[2]
        if host != own and not (is_here and _is_local(scope)):
            raise RefusedError(400, f"this service has another name, {own}", "WrongHost")
    elif not service.behind_tls and not is_here:
        raise RefusedError(400, "this service is for this machine alone", "WrongHost")


def _is_local(scope: Scope) -> bool:
    """Whether a program on this machine calls the API directly, not through the proxy.

    Pages are excluded: their cookies need TLS, and browsers can be misled by host names.
    """
    is_program = scope["path"] == "/metrics" or scope["path"].startswith("/api/")
    forwarded = any(name.startswith(b"x-forwarded-") for name, _ in scope["headers"])
    return is_program and not forwarded and is_loopback(str((scope.get("client") or "?")[0]))


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def as_refusal(error: RefusedError | LedgerError) -> RefusedError:
    """An error of the ledger with its status code."""
    if isinstance(error, RefusedError):
        return error
    return RefusedError(_STATUS.get(type(error), 422), str(error), type(error).__name__)


def _refused(
    service: Service,
    is_api: bool,
    request: Request,
    error: RefusedError | LedgerError,
    headers: Any = None,
) -> Response:
    """The refusal of a request, for a program or for a person."""
    from lowswitch.service.render import refused

    error = as_refusal(error)
    if is_api:
        said = {"error": error.kind, "says": error.says}
        response: Response = JSONResponse(said, error.status, headers)
        if error.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
    else:
        response = refused(service, request, error)
    # of 408 and 413 the rest of the body is not read; strangers get one answer for a connection
    if error.status in (401, 408, 413, 429):
        response.headers["Connection"] = "close"
    if error.wait or error.status == 503:
        response.headers["Retry-After"] = str(error.wait or 2)
    return response


class Door:
    """Adds headers to every answer, and refuses foreign host names."""

    def __init__(self, app: Starlette, service: Service) -> None:
        self.app, self.service = app, service
        # every address is a fixed text, so that one look finds its route
        routes = [route for route in app.routes if isinstance(route, Route)]
        self._direct = {
            (method, route.path): route.app for route in routes for method in route.methods or ()
        }
        fixed = dict(_HEADERS)
        if service.behind_tls:
            fixed["Strict-Transport-Security"] = "max-age=31536000"
        self._fixed = [(name.lower().encode(), value.encode()) for name, value in fixed.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                more = [pair for pair in self._fixed if pair[0] not in given]
                token: Token | None = scope.get(_TOKEN)
                if token is not None and token.expires_soon(now()):
                    more.append((EXPIRES.lower().encode(), token.expires.encode()))
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            await self._answer(scope, receive, send_with_headers)
        except Exception as error:
            self._fault(error)
            fault = RefusedError(500, "this is a mistake of the server; its log says more", "Fault")
            is_api = scope["path"].startswith("/api") or scope["path"] in PROBES
            answer = _refused(self.service, is_api, Request(scope), fault)
            with suppress(RuntimeError):  # it had begun to answer
                await answer(scope, receive, send_with_headers)
        finally:
            self._note(scope, status, time.perf_counter() - begin)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] not in PROBES:
                _require_own_host(self.service, scope)
        except RefusedError as error:
            said = {"error": error.kind, "says": error.says}
            await JSONResponse(said, error.status)(scope, receive, send)
            return
        await self._direct.get((scope["method"], scope["path"]), self.app)(scope, receive, send)

    def _fault(self, error: Exception) -> None:
        """Log a bug in this program, with its location."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{one.filename}:{one.lineno}" for one in frames]
        says = printable_text(f"{type(error).__name__}: {error}")[:1000]
        self.service.log.write("error", "fault", says=says, where=where[-6:])

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log a request, with its address but without its fields, which may contain
        anything.
        """
        method, path = scope["method"], scope["path"]
        seen = (method, path) if (method, path) in self._direct else ("other", "other")
        self.service.meter.saw(seen, status, seconds)
        token: Token | None = scope.get(_TOKEN)
        level = "error" if status >= 500 else "warning" if status in _ALARMS else "info"
        self.service.log.write(
            level,
            "request",
            method=method[:20],
            path=path[:200],
            status=status,
            ms=round(1000 * seconds, 2),
            address=address_of(self.service, Request(scope)),
            who=token and token.name,
            role=token and token.role,
        )
