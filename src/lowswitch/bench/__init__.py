"""A fixed set of problems and budgets by which algorithms are compared: `lowswitch bench`."""

from lowswitch.bench.cards import Card, known, score_card, standings
from lowswitch.bench.entries import Entry, merge, read_entries, read_entry, write_entries
from lowswitch.bench.measuring import measure

__all__ = [
    "Card",
    "Entry",
    "known",
    "measure",
    "merge",
    "read_entries",
    "read_entry",
    "score_card",
    "standings",
    "write_entries",
]
