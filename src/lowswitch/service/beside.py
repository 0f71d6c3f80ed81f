"""What a server keeps on its own disk, where no outage of the database can take it away."""

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
    """The file of a server: beside its ledger, or else beside its key, or in the state folder."""
    if not is_postgres(address):
        return Path(f"{file_of(address)}{end}")
    name = printable(address).rpartition("#")[2] or "ledger"
    if key_file is not None:
        return key_file.with_name(f"{name}{end}")
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = os.environ.get("STATE_DIRECTORY") or Path(home) / "lowswitch"
    return Path(folder) / f"{name}{end}"


class Revoked:
    """The ids of all tokens that a server has known to be revoked.

    A backup that is restored knows nothing of what was revoked after it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids = set(path.read_text(encoding="utf-8").split()) if path.exists() else set[str]()

    def again(self, access: Access) -> list[Token]:
        """Revoke the tokens that a restored ledger takes for good ones; return them."""
        found = [one for one in access.tokens() if one.id in self.ids and one.revoked is None]
        for token in found:
            access.revoke(token.id, by="lowswitch serve")
        return found

    def keep(self, access: Access) -> None:
        """Write down what is new."""
        known = self.ids | {one.id for one in access.tokens() if one.revoked is not None}
        if known != self.ids:
            with replacing(self.path, private=True) as file:
                file.write("".join(f"{one}\n" for one in sorted(known)).encode())
            self.ids = known


class Note:
    """A small file that says one thing or nothing.

    Its blocks are written when it is made, so that a full disk has room for what is noted later.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def reserve(self) -> None:
        """Make the file, if there is none."""
        if not self.path.exists():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._put(_BLANK)

    def read(self) -> dict[str, Any] | None:
        """What is noted; an empty dictionary if that cannot be understood."""
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
        """Note something in place of what was there, on the disk when this returns."""
        text = b"" if facts is None else json.dumps(facts, ensure_ascii=False).encode()
        self._put(text.ljust(_BYTES))

    def _put(self, data: bytes) -> None:
        descriptor = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.pwrite(descriptor, data, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
