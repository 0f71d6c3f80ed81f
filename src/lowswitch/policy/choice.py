"""The answer of every policy: an action and its probability."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """A chosen action and its probability."""

    action: int
    propensity: float  # the share of the members that choose it, at this step alone
