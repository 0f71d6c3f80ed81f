"""A learner behind a board: tickets, reports, proposals and decisions, in a database.

Make a ledger with `Ledger.create`, open it with `Ledger.open`.
"""

from lowswitch.ledger.answers import Issued, ProposalView, Status, Told, Verdict, Version
from lowswitch.ledger.errors import (
    BrokenError,
    ConflictError,
    ExpiredError,
    FrozenError,
    LedgerError,
    NotALedgerError,
    ReadOnlyError,
    StorageError,
    SupersededError,
    UnknownTicketError,
)
from lowswitch.ledger.imports import import_csv
from lowswitch.ledger.ledger import Ledger

__all__ = [
    "BrokenError",
    "ConflictError",
    "ExpiredError",
    "FrozenError",
    "Issued",
    "Ledger",
    "LedgerError",
    "NotALedgerError",
    "ProposalView",
    "ReadOnlyError",
    "Status",
    "StorageError",
    "SupersededError",
    "Told",
    "UnknownTicketError",
    "Verdict",
    "Version",
    "import_csv",
]
