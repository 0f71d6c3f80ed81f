"""Mixtures of Q-learners: all learn from every episode, whoever played it."""

from lowswitch.kernels.arrays import RowSpec, StageSpec
from lowswitch.kernels.compile import inline, part
from lowswitch.kernels.kinds import by_kind
from lowswitch.kernels.qlearning import DUE, QUIET, digest_visit, own_best, set_own
from lowswitch.kernels.stages import digest_stage

digest = by_kind("digest", {RowSpec: digest_visit, StageSpec: digest_stage})


@inline
def note_step(spec, tables, h, x, a, action, reward, y):
    """Write one transition down: nothing is learned before the episode is over."""
    step = tables.path[h]
    step["state"], step["action"], step["reward"] = x, a, reward
    return QUIET


@inline
def note_gap(spec, tables, h, x):
    """Write down that the step in state x is not to be learned."""
    tables.path[h]["state"], tables.path[h]["action"] = x, -1


@part
def learn_path(spec, tables, scale, base):
    """Let the member whose rows begin at `base` learn the episode that was written down.

    Return whether it had a trigger.
    """
    triggered = False
    for h in range(spec.H):
        x, a, reward = tables.path[h]["state"], tables.path[h]["action"], tables.path[h]["reward"]
        if a < 0:
            continue
        y = tables.path[h + 1]["state"] if h + 1 < spec.H else 0
        here = base + h * spec.S + x
        action = tables.rows[here]["action"]
        outcome = digest(spec, tables, scale, base, h, x, a, action, reward, y)
        triggered |= outcome != QUIET
        if outcome == DUE:
            set_own(spec, tables, here, own_best(spec, tables, here))
    return triggered


@part
def learn_together(spec, tables):
    """Let every member learn the episode; return whether it had a trigger. All count the same."""
    triggered = False
    for m in range(spec.members):
        triggered |= learn_path(spec.each, tables, spec.scales[m], m * (spec.H + 1) * spec.S)
    return triggered
