"""Files that a server keeps on its own disk, safe from an outage of the database."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lowswitch.io.files import replacing
from lowswitch.ledger import StorageError
from lowswitch.ledger.address import file_of, is_postgres, printable
from lowswitch.service.access import Access, Token

_BYTES = 1 << 14  # of a note: more than the longest reason with its names
_BLANK = b" " * _BYTES


def place_of(address: str, key_file: Path | None, end: str) -> Path:
    """The path of a server's file: beside its ledger, beside its key, or in the state folder."""
    if not is_postgres(address):
        return Path(f"{file_of(address)}{end}")
    name = printable(address).rpartition("#")[2] or "ledger"
    if key_file is not None:
        return key_file.with_name(f"{name}{end}")
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = os.environ.get("STATE_DIRECTORY") or Path(home) / "lowswitch"
    return Path(folder) / f"{name}{end}"


class Revoked:
    """The ids of all tokens that a server knows to be revoked.

    A restored backup does not know which tokens were revoked after it was made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids = set(path.read_text(encoding="utf-8").split()) if path.exists() else set[str]()

    def again(self, access: Access) -> list[Token]:
        """Revoke the tokens that a restored ledger considers valid; return them."""
        found = [one for one in access.tokens() if one.id in self.ids and one.revoked is None]
        for token in found:
            access.revoke(token.id, by="lowswitch serve")
        return found

    def keep(self, access: Access) -> None:
        """Write down newly revoked tokens."""
        known = self.ids | {one.id for one in access.tokens() if one.revoked is not None}
        if known != self.ids:
            with replacing(self.path, private=True) as file:
                file.write("".join(f"{one}\n" for one in sorted(known)).encode())
            self.ids = known


class Note:
    """A small file with one note, or none.

    Its blocks are written when it is created, so that a full disk has room for a later note.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def reserve(self) -> None:
        """Create the file if it is missing."""
        if not self.path.exists():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._put(_BLANK)

    def read(self) -> dict[str, Any] | None:
        """The note; an empty dictionary if it cannot be understood."""
        try:
            text = self.path.read_bytes().strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {str(self.path)!r}: {error.strerror}") from error
        try:
            found = json.loads(text) if text else None
        except ValueError:
            return {}
        return found if found is None or isinstance(found, dict) else {}

    def write(self, facts: dict[str, Any] | None) -> None:
        """Replace the note, and flush it to the disk."""
        text = b"" if facts is None else json.dumps(facts, ensure_ascii=False).encode()
        self._put(text.ljust(_BYTES))

    def _put(self, data: bytes) -> None:
        descriptor = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.pwrite(descriptor, data, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
