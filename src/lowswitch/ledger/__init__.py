"""A learner behind a board: tickets, reports, proposals and decisions, in a database.

Create a ledger with `Ledger.create` and open it with `Ledger.open`. `Client` talks to a ledger that
another machine serves.
"""

from lowswitch.ledger.client import Client, Played, Spooled
from lowswitch.ledger.errors import (
    AccessError,
    BrokenError,
    ConflictError,
    ExpiredError,
    FrozenError,
    LedgerError,
    NotALedgerError,
    QuotaError,
    ReadOnlyError,
    ReportWarning,
    StorageError,
    SupersededError,
    TokenExpiredError,
    TokenWarning,
    UnknownTicketError,
    UnreachableError,
    UnreadableError,
)
from lowswitch.ledger.feature import Feature
from lowswitch.ledger.imports import import_csv
from lowswitch.ledger.ledger import Ledger
from lowswitch.ledger.logged import logged_batches, logged_cases, logged_csv, logged_episodes
from lowswitch.ledger.responses import (
    Certificate,
    FeatureIssued,
    Issued,
    ProposalView,
    Status,
    TicketView,
    Told,
    Verdict,
    Version,
)

__all__ = [
    "AccessError",
    "BrokenError",
    "Certificate",
    "Client",
    "ConflictError",
    "ExpiredError",
    "Feature",
    "FeatureIssued",
    "FrozenError",
    "Issued",
    "Ledger",
    "LedgerError",
    "NotALedgerError",
    "Played",
    "ProposalView",
    "QuotaError",
    "ReadOnlyError",
    "ReportWarning",
    "Spooled",
    "Status",
    "StorageError",
    "SupersededError",
    "TicketView",
    "TokenExpiredError",
    "TokenWarning",
    "Told",
    "UnknownTicketError",
    "UnreachableError",
    "UnreadableError",
    "Verdict",
    "Version",
    "import_csv",
    "logged_batches",
    "logged_cases",
    "logged_csv",
    "logged_episodes",
]
