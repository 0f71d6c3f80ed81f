"""Checks of saved tables before compiled code, which checks nothing, may read them.

Each function raises a ValueError that names the problem. `told` is the number of episodes that were
told. It is None if the tables may hold more than schedule and episodes imply: the learner was told
single steps or history, or decisions have changed its policy and its mask. Then only the facts on
which compiled code relies are checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.kernels.arrays import NEVER, is_spent


def require(holds: Any, what: str) -> None:
    """Raise a ValueError with this message unless everything holds."""
    if not np.all(holds):
        raise ValueError(what)


def require_finite(name: str, *arrays: np.ndarray) -> None:
    require(all(np.isfinite(array).all() for array in arrays), f"{name} must be finite numbers")


def require_actions(
    name: str, actions: np.ndarray, allowed: np.ndarray, told: int | None = 0
) -> None:
    """Actions [..., H, S] are there and allowed by a mask [H, S, A]."""
    H, S, A = allowed.shape
    require((actions >= 0) & (actions < A), f"{name} has actions outside 0 to {A - 1}")
    if told is None:
        return
    steps, states = np.arange(H)[:, None], np.arange(S)
    require(allowed[steps, states, actions], f"{name} has actions that are not allowed")


def require_visits(visits: np.ndarray, allowed: np.ndarray, told: int | None) -> None:
    """Visits [..., H, S, A] of `told` episodes: each visits every step once."""
    require(visits >= 0, "visits are negative")
    if told is None:
        return
    require(visits.sum(axis=(-2, -1)) == told, f"visits do not match {told} episodes")
    require(visits[..., ~allowed] == 0, "forbidden actions have visits")


def require_estimates(
    q: np.ndarray, values: np.ndarray, caps: np.ndarray, allowed: Any, told: int | None
) -> None:
    """Estimates [..., H, S, A] and values [..., H + 1, S]."""
    if told is None:
        require(q < np.inf, "estimates must be numbers")  # NaN is refused
    elif allowed.all():
        require_finite("estimates", q)
    else:
        require_finite("estimates", q[..., allowed])
        require(q[..., ~allowed] == -np.inf, "forbidden actions have estimates")
    require_finite("values", values)
    require(values[..., :-1, :] <= caps[:, None], "values are larger than values can be")
    require(values[..., -1, :] == 0, "values after the last step are not zero")


def require_due(spec: Any, cells: np.ndarray, frozen: bool) -> None:
    """The next trigger of every cell follows from its schedule; a frozen cell has no trigger."""
    visits, due = cells["visits"], cells["due"]
    if frozen:
        require(due == NEVER, "there are triggers after the end of a budget")
    elif spec.timing.factor > 0:
        least, grown = spec.timing.least, np.ceil(spec.timing.factor * visits)
        most = np.maximum(visits + least, grown)
        reached = grown <= NEVER  # what lies beyond is never reached, and kept as any number
        fits = (due > visits) & (due >= least) & (due <= most)
        require(fits[reached], "triggers do not match the schedule")
    else:
        require(due == next_triggers(spec, visits), "triggers do not match the schedule")


def next_triggers(spec: Any, visits: np.ndarray) -> np.ndarray:
    """The smallest trigger above each number of visits."""
    most = int(visits.max(initial=0))
    if most >= visits.size:
        counts, place = np.unique(visits, return_inverse=True)
    else:  # few counts that many share are looked up once each
        counts, place = np.arange(most + 1), visits
    later = spec.later[np.searchsorted(spec.later, counts, side="right") % len(spec.later)]
    following: np.ndarray = np.where(counts < spec.every_until, counts + 1, later)
    return following[place].reshape(visits.shape)


def require_clock(spec: Any, clock: np.ndarray, told: int | None, members: int) -> None:
    """Counts that `told` episodes can have, within the budget, at the right place of the grid."""
    now, timing = clock[0], spec.timing
    most_told = NEVER if told is None else told
    limits = {
        "deployments": min(most_told, timing.deployments),
        "switches": min(most_told * timing.room, timing.switches),
        "refreshes": most_told,
        "drowned": most_told * spec.H,
        "batch": len(timing.grid) - 1,
        "awaits_plan": 0,
    }
    for name, most in limits.items():
        require(0 <= now[name] <= most, f"its clock counts {now[name]} {name}, not 0 to {most}")
    if told is None:
        return
    if members == 1:
        require(now["deployments"] <= now["switches"], "there are more deployments than switches")
    if not is_frozen(spec, clock):
        passed = int(np.searchsorted(timing.grid, told, side="right"))
        require(now["batch"] == passed, f"its grid is at {now['batch']}, not at {passed}")


def is_frozen(spec: Any, clock: np.ndarray) -> bool:
    """Whether a budget is spent."""
    return bool(is_spent(clock[0], spec.timing))


def require_rows(
    spec: Any, rows: np.ndarray, cells: np.ndarray, allowed: np.ndarray, told: int | None
) -> None:
    """Rows [..., H + 1, S] and cells [..., H, S, A] of Q-learners."""
    require_actions("the policy", rows["action"][..., :-1, :], allowed, told)
    require_visits(cells["visits"], allowed, told)
    require_estimates(cells["q"], rows["value"], spec.caps, allowed, told)
    if told is None:
        return
    own = np.arange(spec.A) == rows["action"][..., :-1, :, None]
    others = np.where(own, -np.inf, cells["q"]).max(axis=-1)
    require(rows["best_other"][..., :-1, :] == others, "rows do not know their best estimates")


def require_begins(cells: np.ndarray) -> None:
    """Stages begin at a visit that has been."""
    begin = cells["begin"]
    require((begin >= 0) & (begin <= cells["visits"]), "stages begin outside of their visits")


def require_stages(spec: Any, rows: np.ndarray, cells: np.ndarray) -> None:
    """What stage-based learners have on top: rows [..., H + 1, S], cells [..., H, S, A]."""
    require_begins(cells)
    names = ("total", "reward", "reference", "reference_squares", "advantage", "advantage_squares")
    require_finite("sums", *(cells[name] for name in names), rows["reference"])
    if spec.reference == 0:
        require_finite("lower values", cells["lower"], cells["lower_total"], rows["lower"])
    counted = cells["visits"].sum(axis=-1) if spec.reference >= 0 else 0
    require(rows["visits"][..., :-1, :] == counted, "visits of rows do not match their cells")


def require_moments(moments: np.ndarray) -> None:
    require_finite("moments", *(moments[name] for name in ("total", "squares", "width")))
    require(moments["squares"] >= 0, "sums of squares are negative")


def require_blocks(
    records: np.ndarray, pool: np.ndarray, used: int, states: int, most: np.ndarray
) -> None:
    """Records of counts, with their lists of successors in blocks of a pool; `most` visits each."""
    require(0 <= used <= len(pool), "its successors lie outside their pool")
    n, followed, size, room = (records[name] for name in ("n", "followed", "size", "room"))
    require((n >= 0) & (n <= most) & (followed >= 0) & (followed <= n), "counts are not of visits")
    total, squares = records["total"], records["squares"]
    require((total >= 0) & (total <= n), "sums of rewards do not match their visits")
    require((squares >= 0) & (squares <= n), "sums of squares do not match their visits")
    fits = (size >= 0) & (size <= room) & (size <= states) & (records["start"] >= 0)
    ends = records["start"] + room
    require(fits & (room <= used) & (ends <= used), "its successors lie outside their pool")
    blocks = np.flatnonzero(room > 0)
    order = blocks[np.argsort(records["start"][blocks], kind="stable")]
    require(ends[order][:-1] <= records["start"][order][1:], "lists of successors overlap")
    owner = np.repeat(np.arange(len(records)), size)
    place = np.arange(len(owner)) + np.repeat(records["start"] - (np.cumsum(size) - size), size)
    listed = pool[place]
    require((listed["state"] >= 0) & (listed["state"] < states), "successors are not states")
    require(listed["count"] > 0, "successors were never seen")
    sums = np.bincount(owner, listed["count"], minlength=len(records))
    require(sums == followed, "successors do not match their visits")
    pairs = owner * states + listed["state"]
    require(len(np.unique(pairs)) == len(pairs), "successors are listed twice")
