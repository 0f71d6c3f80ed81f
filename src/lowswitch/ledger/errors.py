"""The errors of a ledger. Each says why something is refused; nothing has changed when it is
raised.
"""

from __future__ import annotations


class TokenWarning(UserWarning):
    """A token expires soon, or has expired."""


class ReportWarning(UserWarning):
    """A report was stored, and something in it is unlikely."""


class LedgerError(ValueError):
    """The base class of all errors of a ledger."""


class NotALedgerError(LedgerError):
    """The address holds no ledger, or one of another format."""


class StorageError(LedgerError):
    """The database could not be used, so nothing was saved; try again later."""


class ReadOnlyError(LedgerError):
    """The ledger was opened for reading."""


class UnknownTicketError(LedgerError):
    """No such ticket was issued, or it belongs to another site."""


class QuotaError(LedgerError):
    """The site has too many open tickets."""


class ConflictError(LedgerError):
    """Another report of the same ticket is on record."""


class ExpiredError(LedgerError):
    """The ticket was declared missing before its report came."""


class FrozenError(LedgerError):
    """The run is frozen."""


class EndedError(LedgerError):
    """The run has ended."""


class SupersededError(LedgerError):
    """The proposal is not the one that waits for a decision."""


class AccessError(LedgerError):
    """The token is unknown, expired or revoked, or its role may not do this."""


class TokenExpiredError(AccessError):
    """The token has expired; everything else about it is right."""


class UnreachableError(LedgerError):
    """The server cannot be reached or cannot do this now; try again later."""


class DamagedError(LedgerError):
    """`verify` found damage."""


class UnreadableError(NotALedgerError, StorageError, DamagedError):
    """The database cannot be read: it is damaged, or something else than a ledger."""


class BrokenError(LedgerError):
    """An event contradicts the events before it."""

    def __init__(self, seq: int, what: str) -> None:
        super().__init__(f"event {seq}: {what}")
        self.seq, self.what = seq, what


class ContradictedError(BrokenError):
    """The events contradict a fact that is known outside."""
