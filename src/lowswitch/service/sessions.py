"""Sessions, kept in memory, so that a restart logs everybody out.

The cookie is a random number without meaning. A session lasts as long as its token works, at most
`MOST_SECONDS`. Every form contains the session's form token.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
import zlib
from dataclasses import dataclass, field

MOST_SESSIONS = 1000
MOST_SECONDS = 12 * 3600
IDLE_SECONDS = 3600
MOST_PAGES = 20  # that a form led to, and that a session keeps


@dataclass
class Session:
    """A person who has logged in with a token."""

    token: str  # its id
    begun: float
    used: float
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    said: str = ""  # what the next page says first
    heed: bool = False  # whether that is a warning, and not something that was done
    pages: dict[str, tuple[bytes, int]] = field(default_factory=dict)  # see `keep`

    def keep(self, page: bytes, status: int) -> str:
        """Store a page that a form led to under a new name, and return the name."""
        name = secrets.token_urlsafe(12)
        self.pages[name] = zlib.compress(page), status
        while len(self.pages) > MOST_PAGES:
            del self.pages[next(iter(self.pages))]
        return name

    def kept(self, name: str) -> tuple[bytes, int] | None:
        """A page and its status; None if it is no longer stored."""
        found = self.pages.get(name)
        return None if found is None else (zlib.decompress(found[0]), found[1])


class Sessions:
    """The sessions of a server."""

    def __init__(self) -> None:
        self._open: dict[bytes, Session] = {}

    def begin(self, token: str) -> str:
        """Log somebody in; return the value of the cookie."""
        cookie, now = secrets.token_urlsafe(32), _now()
        self._open[_key(cookie)] = Session(token, now, now)
        while len(self._open) > MOST_SESSIONS:
            del self._open[min(self._open, key=lambda key: self._open[key].used)]
        return cookie

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie, if it is not too old."""
        found, now = self._open.get(_key(cookie)), _now()
        if found is None:
            return None
        if now - found.begun > MOST_SECONDS or now - found.used > IDLE_SECONDS:
            self.end(cookie)
            return None
        found.used = now
        return found

    def end(self, cookie: str) -> None:
        """Log somebody out."""
        self._open.pop(_key(cookie), None)


def same(given: str, expected: str) -> bool:
    """Whether two secrets are equal, in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _now() -> float:
    return time.monotonic()


def _key(cookie: str) -> bytes:
    """The key of a session, a hash, so that the time of a look-up reveals nothing."""
    return hashlib.sha256(cookie.encode(errors="replace")).digest()
