"""Move tokens from the file that older versions kept beside a ledger into the ledger itself."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from lowswitch.ledger import LedgerError, Verdict
from lowswitch.ledger.address import file_of, is_postgres
from lowswitch.service.access import Access, Token

_COLUMNS = "id, name, role, hash, created, expires, revoked, revoked_by"


def move_file(address: str, given: Path | None) -> None:
    """Move the tokens of a file into the ledger once, and then rename the file.

    given: the file, by default the one beside the ledger, if it exists.
    """
    path = given or (None if is_postgres(address) else Path(f"{file_of(address)}.access"))
    if path is None or not path.exists():
        if given is not None and not Path(f"{given}.moved").exists():
            raise LedgerError(f"there is no file of tokens {str(given)!r}")
        return
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as old:
            tokens = [Token(*row) for row in old.execute(f"SELECT {_COLUMNS} FROM tokens")]
            verdicts = old.execute("SELECT by, whole, events, first_bad, what, head FROM verdicts")
            last = verdicts.fetchall()[-1:]
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"{str(path)!r} is not a file of tokens ({error})") from error
    with closing(Access(address)) as access:
        access.adopt(tokens, by=f"moved from {path.name}")
        for by, whole, *rest in last:
            access.keep(Verdict(bool(whole), *rest), by=by)
    os.replace(path, f"{path}.moved")
