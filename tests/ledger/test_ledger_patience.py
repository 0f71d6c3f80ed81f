"""Tickets that expire: after so many days, not counting a pause, and the same in every replay."""

from datetime import UTC, datetime, timedelta

import pytest

from ledgers import made
from lowswitch.ledger import Ledger, LedgerError

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Days:
    """A clock that stands at a day of the run."""

    day = 0.0

    def __call__(self, seq):
        return (BEGIN + timedelta(days=self.day)).isoformat()


def waiting(tmp_path, **options):
    """A ledger with an open ticket and one that waits behind it, and its clock."""
    ledger, days = made(tmp_path / "run.db", patience_days=10, **options), Days()
    ledger.clock = days
    ledger.ask("north", "lost")
    told = ledger.ask("north", "told")
    ledger.tell(told.ticket, [0] * 3, None, [1.0] * 3)
    assert ledger.status().waiting == 1
    return ledger, days


def test_a_ticket_expires_after_days(tmp_path):
    ledger, days = waiting(tmp_path)
    days.day = 9.9
    ledger.ask("north", "p3")
    assert (ledger.status().missing, ledger.status().waiting) == (0, 1)
    days.day = 10.1
    ledger.ask("north", "p4")
    assert (ledger.status().missing, ledger.status().waiting) == (1, 0)
    (event,) = ledger.newest(1, kind="missing")
    assert event.payload["reason"] == "no report came within 10 days"
    assert (event.actor, event.payload["number"]) == ("ledger", 1)
    assert ledger.verify().whole


def test_a_pause_does_not_count(tmp_path):
    ledger, days = waiting(tmp_path)
    days.day = 5
    ledger.freeze(by="office", reason="alarm")
    days.day = 20
    ledger.forbid([(0, 3)], [1], by="board", reason="harm")  # no report can come meanwhile
    assert ledger.status().frozen_out == 1
    days.day = 30
    ledger.thaw(by="office", reason="over")
    days.day = 39
    ledger.ask("north", "p3")
    assert ledger.status().missing == 0
    ledger.save_snapshot()
    ledger.close()
    again = Ledger.open(tmp_path / "run.db")  # from the snapshot, which has both times
    again.clock = days
    days.day = 40
    again.ask("north", "p4")
    assert again.status().missing == 1
    assert again.verify().whole


@pytest.mark.parametrize("days", [0, -1, "10", 10**9])
def test_what_is_no_number_of_days_is_refused(tmp_path, days):
    with pytest.raises(LedgerError, match="patience_days must be a number of days above 0"):
        made(tmp_path / "run.db", patience_days=days)


def test_a_forecast_is_recorded_in_the_units_of_the_run(tmp_path):
    class Plan:
        def expected(self):
            return [(0, 0.5, 1.0, 1.5), (50, 1.0, 1.5, 2.0)]

    ledger = made(tmp_path / "run.db", rewards=(-1, 3), forecast=Plan())
    assert ledger.terms.forecast == ((0, -1.0, 1.0, 3.0), (50, 1.0, 3.0, 5.0))
    ledger.close()
    assert Ledger.open(tmp_path / "run.db").terms.forecast[1].middle == 3.0
    with pytest.raises(LedgerError, match="forecast must be a Plan"):
        made(tmp_path / "other.db", forecast=[(0, 2.0, 1.0, 3.0)])
