"""Limits by address: how many failed logins are allowed before an address must wait."""

from __future__ import annotations

import time
from collections import OrderedDict

MOST_LOGINS = 10  # that may fail within the window
MOST_REQUESTS = 100  # with a wrong token, within the window
WINDOW = 300.0  # seconds
_MOST_ADDRESSES = 10_000  # that are remembered; the oldest is forgotten first


class Failures:
    """The failed logins of the last minutes, by the address that they came from."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[str, list[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """Count a failure."""
        times = [*self._recent(address), _now()][-self.most :]
        self._known[address] = times
        self._known.move_to_end(address)
        while len(self._known) > _MOST_ADDRESSES:
            self._known.popitem(last=False)

    def wait(self, address: str) -> int:
        """For how many seconds logins from an address are refused; 0 if they are allowed."""
        times = self._recent(address)
        return 1 + int(times[0] + WINDOW - _now()) if len(times) == self.most else 0

    def _recent(self, address: str) -> list[float]:
        since = _now() - WINDOW
        return [one for one in self._known.get(address, ()) if one > since]


def _now() -> float:
    return time.monotonic()
