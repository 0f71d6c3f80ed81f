"""One connection to a served ledger: JSON both ways, and errors raised under their own names."""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import ssl
from typing import Any
from urllib.parse import urlencode, urlsplit

from lowswitch.ledger import errors
from lowswitch.ledger.address import is_readable, printable
from lowswitch.ledger.errors import LedgerError, UnreachableError

_KNOWN: dict[str, type[LedgerError]] = {
    kind.__name__: kind
    for kind in (
        errors.UnknownTicketError,
        errors.ConflictError,
        errors.QuotaError,
        errors.ExpiredError,
        errors.FrozenError,
        errors.SupersededError,
    )
}
MOST_TEXT = 2000  # characters of a text
CONTROL = re.compile(r"[\x00-\x1f\x7f\x80-\x9f\u2028\u2029\ud800-\udfff]")
EXPIRES = "Lowswitch-Token-Expires"  # a header of answers to a token that expires soon
_AWAY = (408, 429, 500, 502, 503, 504)  # send it again later


class Connection:
    """Keeps a connection open while it works, and reconnects when it fails."""

    def __init__(self, url: str, token: str, timeout: float) -> None:
        parts = urlsplit(url if is_readable(url) else "")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise LedgerError(
                f"url must be such as https://ledger.example.org, not {printable(url)!r}"
            )
        if parts.scheme == "http" and not _is_here(parts.hostname):
            raise LedgerError(
                f"the token would travel to {parts.hostname} unencrypted; use https://"
            )
        if not (token.isascii() and token.isprintable() and "." in token):
            raise LedgerError("token must be id.secret, as 'lowswitch token create' printed it")
        self.url, self.timeout, self._parts = url, timeout, parts
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._open: http.client.HTTPConnection | None = None
        self.expires: str | None = None  # when the token expires, if the server says: soon

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def get(self, path: str, **query: Any) -> Any:
        """Fetch an address."""
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        return self._json(self._answer("GET", f"{path}?{asked}" if asked else path, None))

    def post(self, path: str, **body: Any) -> Any:
        """Send a command. It may arrive twice; every command here allows that."""
        text = json.dumps(body, allow_nan=False).encode()
        return self._json(self._answer("POST", path, text))

    def read(self, path: str, **query: Any) -> http.client.HTTPResponse:
        """A long answer, read in pieces."""
        answer, _ = self._answer("GET", f"{path}?{urlencode(query)}", None, whole=False)
        return answer

    def _answer(
        self, method: str, path: str, body: bytes | None, *, whole: bool = True
    ) -> tuple[http.client.HTTPResponse, bytes]:
        for attempt in (1, 2):
            kept_open = self._open is not None
            try:
                connection = self._open = self._open or self._connect()
                connection.request(method, self._parts.path + path, body, self._headers)
                answer = connection.getresponse()
                self.expires = answer.getheader(EXPIRES)
                text = b"" if (whole is False and answer.status == 200) else answer.read()
                if answer.status != 200 and answer.status != 202:
                    _raise(answer.status, text)
                return answer, text
            except (OSError, http.client.HTTPException) as error:
                self.close()
                idle = kept_open and attempt == 1 and not isinstance(error, TimeoutError)
                if not idle:  # else it was closed meanwhile, and a new one may work
                    raise UnreachableError(
                        f"{printable(self.url)} cannot be reached ({error!r})"
                    ) from error
        raise AssertionError

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self.timeout)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=self.timeout, context=context)

    def _json(self, answer: tuple[Any, bytes]) -> Any:
        try:
            return json.loads(answer[1])
        except ValueError:
            self.close()
            raise UnreachableError(f"{printable(self.url)} does not answer like a ledger") from None


def _raise(status: int, body: bytes) -> None:
    """Raise the error that an answer describes."""
    try:
        said = json.loads(body)
        raise error_of(said["error"], said["says"], status)
    except (ValueError, KeyError, TypeError) as unreadable:
        if isinstance(unreadable, LedgerError):
            raise
        if status == 413:  # of a proxy; send less at once
            raise LedgerError("the proxy of the server says that this is too large") from None
        raise UnreachableError(f"the server answers {status}") from None


def error_of(kind: str, says: str, status: int = 422) -> LedgerError:
    """The error that the server's ledger raised."""
    if status in _AWAY or kind in ("StorageError", "UnreadableError"):
        return UnreachableError(f"the server cannot do it now: {says}")
    if kind == "WrongHost" or (status in (404, 405) and kind == "Refused"):
        return UnreachableError(f"no ledger is served under this url: {says}")
    if kind == "Expired":
        return errors.TokenExpiredError(says)
    if kind == "Unauthorized":
        return errors.AccessError(says)
    if kind == "Forbidden":
        return errors.AccessError(says)
    return _KNOWN.get(kind, LedgerError)(says)


def why_no_text(name: str, value: Any) -> str | None:
    """Why a value cannot be sent as a text that people read, or None."""
    if not isinstance(value, str) or not value.strip():
        return f"{name} must be a text that is not empty"
    if len(value) > MOST_TEXT:
        return f"{name} may have {MOST_TEXT:,} characters, not {len(value):,}"
    if CONTROL.search(value):
        return f"{name} has a control character, such as a line break"
    return None


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
