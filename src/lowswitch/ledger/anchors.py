"""Signed heads of a ledger, stored where nobody who can write to the database can write.

A chain of hashes reveals a partial change. Somebody who can rewrite the whole record can compute
all hashes again, truncate it, or replace it by an older copy. They cannot change the notes that
others made before: the number and the hash of an event, with the server's signature.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lowswitch.io.files import read_bytes, write_new
from lowswitch.ledger.address import file_of, is_postgres, printable
from lowswitch.ledger.chain import ACCESS, Chain
from lowswitch.ledger.errors import DamagedError, LedgerError, StorageError
from lowswitch.ledger.events import canonical
from lowswitch.ledger.store import Store

_HASH = re.compile(r"[0-9a-f]{64}")
_SECONDS = 30  # for a post


class Known(NamedTuple):
    """A fact about the record that somebody outside has noted."""

    seq: int | None  # the number of the event, if it is known
    hash: str
    source: str  # who says so, in words
    is_access: bool = False  # of the chain of access


class Anchor(NamedTuple):
    """The heads of a ledger at one time, signed."""

    run: str  # the hash of its first event
    seq: int
    head: str
    access: list[Any]  # the number and the hash of the last event about access
    time: str
    key: str  # the public key, in hex
    signature: str = ""  # of the text of all of the above, in hex

    @property
    def text(self) -> bytes:
        """The text that is signed."""
        return canonical(self._replace(signature="")._asdict()).encode()

    def known(self) -> list[Known]:
        """The facts that must be on record if this anchor is genuine."""
        source = f"the anchor of {self.time}"
        found = [Known(1, self.run, source), Known(self.seq, self.head, source)]
        seq, head = self.access
        if seq:
            found.append(Known(seq, head, source, is_access=True))
        return found


# ---- signing -------------------------------------------------------------------------------------


def key_beside(address: str | Path) -> Path:
    """The file of the key of a ledger that is a file."""
    if is_postgres(address):
        raise LedgerError("a ledger in PostgreSQL needs --key-file FILE for its key")
    return Path(f"{file_of(address)}.key")


def signing_key(path: Path) -> Any:
    """Read the key in a file. A missing key is created, readable by its owner only."""
    serialization, ed25519 = _cryptography()
    if not path.exists():
        made = ed25519.Ed25519PrivateKey.generate()
        private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        try:
            write_new(path, made.private_bytes(serialization.Encoding.PEM, *private))
        except FileExistsError:
            pass  # somebody else was faster
        except (OSError, ValueError) as error:
            raise LedgerError(f"no key can be made: {error}") from None
    try:
        key = serialization.load_pem_private_key(read_bytes(path), password=None)
    except (TypeError, ValueError) as error:
        raise LedgerError(f"{str(path)!r} holds no key that can be read ({error})") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise LedgerError(f"{str(path)!r} holds a key of another kind than Ed25519")
    return key


def anchored(store: Store, key: Any) -> Anchor:
    """The current heads of a ledger, signed."""
    public = key.public_key().public_bytes_raw().hex()
    seq, head = store.head()
    time = datetime.now(UTC).isoformat(timespec="seconds")
    made = Anchor(store.event(1)[2], seq, head, list(Chain(store).head()), time, public)
    return made._replace(signature=key.sign(made.text).hex())


def is_signed(anchor: Anchor) -> bool:
    """Whether an anchor was signed with the key it names."""
    _, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(anchor.key))
        key.verify(bytes.fromhex(anchor.signature), anchor.text)
    except (InvalidSignature, ValueError):
        return False
    return True


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise LedgerError("anchors need cryptography; install lowswitch[anchor]") from None
    return serialization, ed25519


# ---- keeping -------------------------------------------------------------------------------------


def line_of(anchor: Anchor) -> str:
    """An anchor as a line of a file."""
    return json.dumps(anchor._asdict()) + "\n"


def append(path: Path, anchor: Anchor, store: Store) -> None:
    """Append an anchor to a file and flush it to the disk.

    Nothing is appended if the ledger contradicts the file, or if another key signed the earlier
    anchors.
    """
    if path.exists():
        for before in read_anchors(path):
            if before.key != anchor.key:
                raise DamagedError(
                    f"the anchors in {str(path)!r} are signed with the key {before.key}, and this"
                    f" one with {anchor.key}; begin another file if the key was changed on purpose"
                )
            _require_on_record(before, store)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _write_whole(descriptor, line_of(anchor).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(f"cannot write {str(path)!r}: {error.strerror}") from error


def _write_whole(descriptor: int, line: bytes) -> None:
    """Append a line, or nothing if the disk has no room for all of it."""
    size = os.fstat(descriptor).st_size
    if os.write(descriptor, line) < len(line):
        os.ftruncate(descriptor, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _require_on_record(before: Anchor, store: Store) -> None:
    """Check, without a replay, that the events of an earlier anchor are unchanged."""
    for one in before.known():
        table, kind = (ACCESS, " about access") if one.is_access else (store.events, "")
        if store.execute(f"SELECT hash FROM {table} WHERE seq = ?", one.seq) != [(one.hash,)]:
            raise DamagedError(
                f"this ledger contradicts {one.source} (event {one.seq:,}{kind}); nothing was"
                " added; 'lowswitch ledger verify' with --anchors says more"
            )


def post(url: str, anchor: Anchor) -> None:
    """Send an anchor to an address, as JSON."""
    import urllib.error
    import urllib.request

    if not url.startswith(("https://", "http://")):
        raise LedgerError(f"an address to post to begins with https://, not {printable(url)!r}")
    asked = urllib.request.Request(
        url, line_of(anchor).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(asked, timeout=_SECONDS):
            pass
    except (OSError, urllib.error.URLError) as error:
        raise LedgerError(f"{printable(url)} did not take the anchor ({error})") from None


def read_anchors(path: Path) -> Iterator[Anchor]:
    """The anchors of a file, in their order; the file "-" is standard input."""
    data = sys.stdin.buffer.read() if str(path) == "-" else read_bytes(path)
    for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
        try:
            found = Anchor(**json.loads(line))
            seq, head = found.access
            whole = isinstance(found.seq, int) and isinstance(seq, int) and isinstance(head, str)
            if not (whole and all(map(_HASH.fullmatch, (found.run, found.head, found.key)))):
                raise ValueError
        except (TypeError, ValueError):
            raise LedgerError(
                f"{str(path)!r}, line {number}: this is not an anchor; if it was cut off, remove it"
            ) from None
        yield found


def trusted(path: str | Path, key: str | None = None) -> list[Known]:
    """The facts in a file of anchors, if one key signed all of them.

    key: the public key in hex; by default the key that the first anchor names.
    """
    found = list[Known]()
    for number, anchor in enumerate(read_anchors(Path(path)), start=1):
        key = anchor.key if key is None else key
        if anchor.key != key or not is_signed(anchor):
            why = f"with the key {anchor.key}, not {key}" if anchor.key != key else "by nobody"
            raise DamagedError(f"{str(path)!r}, line {number}: this anchor is signed {why}")
        found += anchor.known()
    if not found:
        raise LedgerError(
            f"{str(path)!r} has no anchors, so there is nothing to compare with; find out who"
            " emptied it, or verify without --anchors"
        )
    return found


def within(known: Iterable[Known], store: Store) -> list[Known]:
    """The facts among these that a backup can know, since its end is not before them."""
    last = {False: store.head()[0], True: Chain(store).head()[0] if store.found >= 3 else 0}
    return [one for one in known if one.seq is None or one.seq <= last[one.is_access]]


def expected(head: str) -> Known:
    """A hash that must be on record."""
    if not _HASH.fullmatch(head):
        raise LedgerError(f"a hash has 64 characters of 0-9 and a-f, not {head!r}")
    return Known(None, head, "the expected hash")
