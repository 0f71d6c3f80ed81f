"""Access control: tokens, recorded in a chain of events in the ledger's own database.

A token is `id.secret`. The secret has 256 random bits and is shown once. Only its hash is stored; a
fast hash is enough for a secret that nobody can guess. The tokens are a replay of the chain, so a
token exists only if an event says who created it. The chain also records logins and failed logins.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lowswitch.checks import require_count, require_word
from lowswitch.ledger import LedgerError, Verdict
from lowswitch.ledger.address import store_at
from lowswitch.ledger.chain import RESTORED, Chain
from lowswitch.ledger.errors import BrokenError, DamagedError
from lowswitch.ledger.events import OPERATOR, Event
from lowswitch.service.roles import ROLES

MOST_NAME = 80  # characters of a name
SOON = timedelta(days=14)  # before its end a token is said to expire
_WATCHED = timedelta(days=30)  # after its end a monitor still hears of a token
OVERLAP = 7  # days for which a rotated token works on
_MOST_DAYS = 3660
COPIED = BACKED_UP, ANCHORED = ("backed_up", "anchored")  # kinds of events
_MOST_LOGINS = 1000  # that wait to be recorded while the database is away
_PATIENCE = 0.5  # seconds to wait for another thread that writes
_MOST_SOURCES = 20  # addresses of failed logins that are recorded one by one
_NOBODY = hashlib.sha256(b"").hexdigest()  # of an id that is not known; no secret is empty


@dataclass(frozen=True)
class Token:
    """The stored facts about a token."""

    id: str
    name: str  # who has it; of a site, its name in the ledger
    role: str
    hash: str
    created: str
    expires: str
    revoked: str | None = None
    revoked_by: str | None = None
    used: str | None = None  # when it was last used, to the minute
    rotated: bool = False  # whether another one took its place

    def works(self, now: datetime) -> bool:
        """Whether the token is neither revoked nor expired."""
        return self.revoked is None and now < datetime.fromisoformat(self.expires)

    def expires_soon(self, now: datetime) -> bool:
        """Whether the token works but should be replaced: for a short life, in its second half."""
        end, begin = map(datetime.fromisoformat, (self.expires, self.created))
        return self.works(now) and now + min(SOON, (end - begin) / 2) > end

    def is_watched(self, now: datetime) -> bool:
        """Whether a monitor should watch the expiry: until it is replaced, revoked or old."""
        end = datetime.fromisoformat(self.expires)
        return self.revoked is None and not self.rotated and now < end + _WATCHED

    def state(self, now: datetime) -> str:
        """The state in one word, for people."""
        if self.revoked is not None:
            return "revoked"
        if self.rotated and self.works(now):
            return "superseded"
        if self.expires_soon(now):
            return "expires soon"
        return "works" if self.works(now) else "expired"

    def shown(self, now: datetime) -> dict[str, Any]:
        """The facts that may be shown."""
        names = ("id", "name", "role", "created", "expires", "used", "revoked", "revoked_by")
        return {name: getattr(self, name) for name in names} | {"state": self.state(now)}


@dataclass
class _Noted:
    """Events that are not recorded yet."""

    logins: list[tuple[Token, str]] = field(default_factory=list)  # with their times
    failed: Counter[tuple[str, str | None]] = field(default_factory=Counter)  # failed logins
    used: dict[str, str] = field(default_factory=dict)  # when tokens were last used

    def __bool__(self) -> bool:
        return bool(self.logins or self.failed or self.used)

    def and_then(self, later: _Noted) -> _Noted:
        """Both, in order."""
        logins = (self.logins + later.logins)[:_MOST_LOGINS]
        return _Noted(logins, self.failed + later.failed, self.used | later.used)


class Access:
    """The tokens of a ledger; several processes may use them at once.

    Requests are checked from memory, even while the database is away. `refresh` reads new events
    and writes the noted ones. A server calls it every second; a failed write waits for the next
    call.
    """

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        self._store = store_at(address, read_only=read_only)
        self._lock = threading.RLock()
        self._chain = Chain(self._store)
        self._known: dict[str, Token] = {}
        self._seq = 0  # the last event of the chain that was taken in
        self._last: dict[str, str] = {}  # when each token was last used
        self._noted, self._noting = _Noted(), threading.Lock()
        self._verdict: dict[str, Any] | None = None
        self._done: dict[str, str] = {}  # when each of COPIED was last done
        try:
            if self._store.found >= 3:  # an older ledger that is only read has no tokens
                self._take_in()
                self._last |= dict(self._store.execute("SELECT id, used FROM token_uses"))
        except BaseException as error:
            self._store.close()
            if isinstance(error, BrokenError):
                what = f"the record of access is damaged at its {error}; restore a backup"
                raise DamagedError(what) from error
            raise

    def close(self) -> None:
        """Write the noted events and close the database."""
        try:
            self.settle()
        finally:
            self._store.close()

    # ---- tokens ----------------------------------------------------------------------------------

    def create(self, *, name: str, role: str, days: int, by: str = "command line") -> str:
        """Create a token. This is the only time it is shown."""
        require_word("role", role, ROLES)
        if not (isinstance(name, str) and name.isprintable() and name.strip() == name != ""):
            raise LedgerError(f"name must be a text that can be printed, not {name!r}")
        if len(name) > MOST_NAME:
            raise LedgerError(f"name may have {MOST_NAME} characters, not {len(name)}")
        expires = _now() + _days("days", days)
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        facts = {"id": identity, "name": name, "role": role, "hash": _hash(secret)}
        self._record(by, "token_created", facts | {"expires": _text(expires)})
        return f"{identity}.{secret}"

    def rotate(self, identity: str, *, days: int, overlap: int = OVERLAP, by: str) -> str:
        """Create a token to replace another one, which keeps working for some days."""
        old = self.token(identity)
        if old is None or old.revoked is not None:
            raise LedgerError(f"there is no token {identity!r} to rotate; {_LIST}")
        end = min(_text(_now() + _days("overlap", overlap, least=0)), old.expires)
        made = self.create(name=old.name, role=old.role, days=days, by=by)
        self._record(by, "token_expires", {"id": identity, "expires": end})
        return made

    def revocable(self, identity: str) -> Token:
        """The token, if it can be revoked; otherwise an error."""
        found = self.token(identity)
        if found is None or found.revoked is not None:
            what = f"there is no token {identity!r}"
            if found is not None:
                what = f"the token {identity!r} is revoked already"
            raise LedgerError(f"{what}; {_LIST}")
        return found

    def revoke(self, identity: str, *, by: str) -> Token:
        """Revoke a token."""
        self.revocable(identity)
        self._record(by, "token_revoked", {"id": identity})
        return self._known[identity]

    def adopt(self, tokens: list[Token], *, by: str) -> None:
        """Import tokens that were stored elsewhere, with their hashes and dates."""
        for token in tokens:
            if token.id not in self._known:
                names = ("id", "name", "role", "hash", "created", "expires")
                facts = {name: getattr(token, name) for name in names}
                self._record(by, "token_created", facts)
                if token.revoked is not None:
                    self._record(token.revoked_by or by, "token_revoked", {"id": token.id})

    def tokens(self) -> list[Token]:
        """All tokens ever created, newest first."""
        known = [replace(one, used=self._last.get(one.id)) for one in list(self._known.values())]
        return sorted(known, key=lambda token: token.created, reverse=True)

    def token(self, identity: str) -> Token | None:
        """A token by its id, whether it works or not."""
        return self._known.get(identity)

    def check(self, text: str) -> Token | None:
        """The token with this secret, if it works now."""
        found = self._owned(text)
        if found is None or not found.works(_now()):
            return None
        self.note_use(found)
        return found

    def note_use(self, token: Token) -> None:
        """Note that a token was used, for a request or by somebody who logged in with it."""
        minute = _now().isoformat(timespec="minutes")
        if self._last.get(token.id) != minute:
            with self._noting:
                self._last[token.id] = self._noted.used[token.id] = minute

    def expired(self, text: str) -> Token | None:
        """The token with this secret, if its only fault is that it has expired."""
        found = self._owned(text)
        late = found is not None and found.revoked is None and not found.works(_now())
        return found if late else None

    def _owned(self, text: str) -> Token | None:
        identity, _, secret = text.partition(".")
        found = self._known.get(identity)
        stored = _NOBODY if found is None else found.hash
        same = hmac.compare_digest(_hash(secret).encode(), stored.encode())
        return found if same else None

    def newest(self, count: int) -> list[Event]:
        """The last events of the chain, the newest first."""
        with self._lock:
            return self._chain.newest(count)

    # ---- the chain -------------------------------------------------------------------------------

    def note_login(self, token: Token) -> None:
        """Note a login to the pages; `refresh` records it with the current time."""
        with self._noting:
            if len(self._noted.logins) < _MOST_LOGINS:
                self._noted.logins.append((token, _text(_now())))

    def note_failure(self, address: str, identity: str | None) -> None:
        """Note a failed login; `refresh` records how many there were."""
        with self._noting:
            failed = self._noted.failed
            if (address, identity) not in failed and len(failed) >= _MOST_SOURCES:
                address, identity = "elsewhere", None
            failed[address, identity] += 1

    def settle(self) -> int:
        """Record the noted events or drop them; return how many logins were not recorded."""
        with suppress(LedgerError):
            if self._noted:
                self.refresh()
        noted, self._noted = self._noted, _Noted()
        return len(noted.logins) + noted.failed.total()

    def refresh(self) -> None:
        """Read the events of others and record the noted ones.

        It gives up if another thread holds the lock for long, so that no threads pile up behind a
        database that does not answer.
        """
        if not self._lock.acquire(timeout=_PATIENCE):
            return
        try:
            with self._noting:
                noted, self._noted = self._noted, _Noted()
            try:
                self._write(noted)
            except BaseException:
                with self._noting:
                    self._noted = noted.and_then(self._noted)
                raise
            self._take_in()
        finally:
            self._lock.release()

    def _write(self, noted: _Noted) -> None:
        """Record the noted events, all or none."""
        if not noted:
            return
        with self._store.transaction():
            for token, when in noted.logins:
                who = token.name, token.role
                self._chain.record(*who, "login", {"id": token.id, "at": when})
            for (address, identity), count in noted.failed.items():
                facts = {"from": address, "id": identity, "count": count}
                self._chain.record("nobody", "nobody", "login_failed", facts)
            self._store.execute_many(
                "INSERT INTO token_uses (id, used) VALUES (?, ?)"
                " ON CONFLICT (id) DO UPDATE SET used = excluded.used",
                list(noted.used.items()),
            )

    def _record(self, by: str, kind: str, payload: dict[str, Any], role: str = OPERATOR) -> None:
        """Record an event."""
        with self._lock:
            with self._store.transaction():
                self._chain.record(by, role, kind, payload)
            self._take_in()

    def _take_in(self) -> None:
        """Apply new events."""
        with self._lock:
            if self._chain.head()[0] > self._seq:
                for event in self._chain.events(self._seq + 1):
                    self._apply(event)
                    self._seq = event.seq

    def _apply(self, event: Event) -> None:
        facts, known = event.payload, self._known
        if event.kind == "token_created":
            known[facts["id"]] = Token(**{"created": _second(event.time)} | facts)
        elif event.kind == "token_expires":
            known[facts["id"]] = replace(known[facts["id"]], expires=facts["expires"], rotated=True)
        elif event.kind == "token_revoked":
            when, by = _second(event.time), event.actor
            known[facts["id"]] = replace(known[facts["id"]], revoked=when, revoked_by=by)
        elif event.kind in COPIED:
            self._done[event.kind] = event.time
        elif event.kind == "verified":
            self._verdict = {"time": event.time, "by": event.actor} | facts
        elif event.kind == RESTORED:
            self._verdict = None  # which was about the damaged ledger

    # ---- backups, anchors and verdicts -----------------------------------------------------------

    def copied(self, kind: str, *, by: str, role: str = OPERATOR, **facts: Any) -> None:
        """Record that a copy of the data, or of the head, was taken."""
        require_word("kind", kind, COPIED)
        self._record(by, kind, facts, role)

    def last_copied(self, kind: str) -> str | None:
        """When such a copy was last taken."""
        return self._done.get(kind)

    def keep(self, verdict: Verdict, *, by: str, role: str = OPERATOR) -> None:
        """Record the result of `verify`."""
        names = ("whole", "events", "first_bad", "what", "head")
        self._record(by, "verified", {name: getattr(verdict, name) for name in names}, role)

    def last_verdict(self) -> dict[str, Any] | None:
        """The result of the last `verify`, with its time and who asked for it."""
        return self._verdict


_LIST = "'lowswitch token list' shows all"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def _second(time: str) -> str:
    return _text(datetime.fromisoformat(time))


def _days(name: str, days: int, least: int = 1) -> timedelta:
    if require_count(name, days, least=least) > _MOST_DAYS:
        raise LedgerError(f"{name} may be at most {_MOST_DAYS}, not {days}")
    return timedelta(days=days)
