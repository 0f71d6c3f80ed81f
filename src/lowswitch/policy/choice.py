"""What every policy answers: an action, and how likely it was."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """What is played, and how probable that was."""

    action: int
    propensity: float  # the share of the members that choose it, at this step alone
