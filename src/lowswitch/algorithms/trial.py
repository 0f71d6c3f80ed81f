"""How many of the cases explore beside a protocol, and what limits them."""

from __future__ import annotations

from typing import Any, Literal

from lowswitch.checks import require_fraction, require_share, require_word

Trial = float | Literal["auto", "falling"]


def check_trial(estimator: Any) -> None:
    """A share is from 0 to 1, and a floor needs a trial that it can limit."""
    trial, floor = estimator.trial, estimator.floor
    if isinstance(trial, str):
        require_word("trial", trial, ("auto", "falling"))
    elif trial is not None:
        way_out = 'it is a share of the cases; or give "auto" or "falling"'
        object.__setattr__(estimator, "trial", require_share("trial", trial, way_out))
    if trial not in (None, "auto") and estimator.members == 1:
        raise ValueError(
            "a protocol and a trial are several policies, so members must be 2 or more, such as"
            " 64; one policy at a time has trial=None"
        )
    if floor is not None:
        way_out = "it is a share of the initial policy's value, such as 0.9"
        object.__setattr__(estimator, "floor", require_fraction("floor", floor, way_out))
        if trial is None:
            raise ValueError(
                "floor limits the share of the cases that explore, and with trial=None all do;"
                " leave floor out, or give a trial"
            )
