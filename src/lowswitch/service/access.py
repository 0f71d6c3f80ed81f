"""Who has access: tokens, in a file of their own beside the ledger.

A token is `id.secret`. The secret has 256 random bits, is shown once, and only its hash is kept; a
fast hash is enough for what nobody can guess. The file also keeps what `verify` found last.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lowswitch.checks import require_count, require_word
from lowswitch.ledger import LedgerError, Verdict
from lowswitch.ledger.address import file_of, is_postgres
from lowswitch.service.roles import ROLES

MOST_NAME = 80  # characters of a name
_MOST_DAYS = 3660
_NOBODY = hashlib.sha256(b"").hexdigest()  # of an id that is not known; no secret is empty
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL,
 hash TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL, revoked TEXT, revoked_by TEXT);
CREATE TABLE IF NOT EXISTS verdicts (time TEXT NOT NULL, by TEXT NOT NULL, whole INTEGER NOT NULL,
 events INTEGER NOT NULL, first_bad INTEGER, what TEXT NOT NULL, head TEXT NOT NULL);
"""
_COLUMNS = "id, name, role, hash, created, expires, revoked, revoked_by"


@dataclass(frozen=True)
class Token:
    """What is kept of a token."""

    id: str
    name: str  # who has it; of a site, its name in the ledger
    role: str
    hash: str
    created: str
    expires: str
    revoked: str | None
    revoked_by: str | None

    def works(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked is None and now < datetime.fromisoformat(self.expires)

    def state(self, now: datetime) -> str:
        """In a word, for people."""
        if self.revoked is not None:
            return "revoked"
        return "works" if self.works(now) else "expired"

    def shown(self, now: datetime) -> dict[str, Any]:
        """What may be shown of it."""
        facts = {name: getattr(self, name) for name in ("id", "name", "role", "created", "expires")}
        return facts | {
            "state": self.state(now),
            "revoked": self.revoked,
            "revoked_by": self.revoked_by,
        }


class Access:
    """The file of tokens; several processes may use it at once."""

    def __init__(self, path: str | Path) -> None:
        self.path = file_of(path)
        self._lock = threading.Lock()
        if not self.path.parent.is_dir():
            raise LedgerError(
                f"cannot write {str(self.path)!r}; choose a file in a folder that exists"
            )
        with self._errors():
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=30
            )
            self._db.executescript(_SCHEMA)
        self._known: dict[str, Token] = {}
        self._seen: int | None = None  # SQLite's count of changes by others

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # ---- tokens ----------------------------------------------------------------------------------

    def create(self, *, name: str, role: str, days: int) -> str:
        """Make a token; this is the only time that it is shown."""
        require_word("role", role, ROLES)
        if not (isinstance(name, str) and name.isprintable() and name.strip() == name != ""):
            raise LedgerError(f"name must be a text that can be printed, not {name!r}")
        if len(name) > MOST_NAME:
            raise LedgerError(f"name may have {MOST_NAME} characters, not {len(name)}")
        if require_count("days", days) > _MOST_DAYS:
            raise LedgerError(f"days may be at most {_MOST_DAYS}, not {days}")
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        begin = _now()
        row = (identity, name, role, _hash(secret), _text(begin), _text(begin + _days(days)))
        with self._errors(), self._lock:
            self._db.execute(
                "INSERT INTO tokens (id, name, role, hash, created, expires)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
            self._seen = None
        return f"{identity}.{secret}"

    def revoke(self, identity: str, *, by: str) -> Token:
        """Let a token work no more."""
        with self._errors(), self._lock:
            done = self._db.execute(
                "UPDATE tokens SET revoked = ?, revoked_by = ? WHERE id = ? AND revoked IS NULL",
                (_text(_now()), by, identity),
            ).rowcount
            self._seen = None
        found = self.token(identity)
        if found is None or not done:
            what = f"there is no token {identity!r}"
            if found is not None:
                what = f"the token {identity!r} is revoked already"
            raise LedgerError(f"{what}; 'lowswitch token list' shows all")
        return found

    def tokens(self) -> list[Token]:
        """All tokens ever made, the newest first."""
        return sorted(self._all().values(), key=lambda token: token.created, reverse=True)

    def token(self, identity: str) -> Token | None:
        """A token by its id, whether it works or not."""
        return self._all().get(identity)

    def check(self, text: str) -> Token | None:
        """The token whose secret somebody has shown, if it works now."""
        identity, _, secret = text.partition(".")
        found = self._all().get(identity)
        stored = _NOBODY if found is None else found.hash
        same = hmac.compare_digest(_hash(secret).encode(), stored.encode())
        return found if found is not None and same and found.works(_now()) else None

    def _all(self) -> dict[str, Token]:
        """The tokens, read again when another process has changed them."""
        with self._errors(), self._lock:
            (seen,) = self._db.execute("PRAGMA data_version").fetchone()
            if seen != self._seen:
                rows = self._db.execute(f"SELECT {_COLUMNS} FROM tokens").fetchall()
                self._known, self._seen = {row[0]: Token(*row) for row in rows}, seen
            return self._known

    # ---- verdicts --------------------------------------------------------------------------------

    def keep(self, verdict: Verdict, *, by: str) -> None:
        """Keep what `verify` found."""
        facts = (verdict.whole, verdict.events, verdict.first_bad, verdict.what, verdict.head)
        time = _now().isoformat(timespec="microseconds")  # two within a second are told apart
        with self._errors(), self._lock:
            self._db.execute(
                "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?)", (time, by, *facts)
            )

    def heads(self) -> list[tuple[int, str]]:
        """The number of events and the head of each time that `verify` found a whole ledger."""
        with self._errors(), self._lock:
            rows = self._db.execute("SELECT events, head FROM verdicts WHERE whole").fetchall()
        return [(events, head) for events, head in rows]

    def last_verdict(self) -> dict[str, Any] | None:
        """What the last `verify` found, with when and for whom."""
        with self._errors(), self._lock:
            row = self._db.execute(
                "SELECT time, by, whole, events, first_bad, what, head FROM verdicts"
                " ORDER BY rowid DESC LIMIT 1"
            ).fetchone()
        if row is None:
            return None
        names = ("time", "by", "whole", "events", "first_bad", "what", "head")
        return dict(zip(names, row, strict=True)) | {"whole": bool(row[2])}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            raise LedgerError(f"{str(self.path)!r} could not be used ({error})") from error


def beside(address: str) -> Path:
    """The file of tokens of a ledger that is a file."""
    if is_postgres(address):
        raise LedgerError("a ledger in PostgreSQL needs --access FILE for its tokens")
    return Path(f"{file_of(address)}.access")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def _days(days: int) -> timedelta:
    return timedelta(days=days)
