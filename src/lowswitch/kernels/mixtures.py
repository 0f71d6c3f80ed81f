"""Mixtures of Q-learners: all members learn from every episode, no matter which one played it."""

from lowswitch.kernels.arrays import RowSpec, SettlingStageSpec, StageSpec
from lowswitch.kernels.compile import inline, part
from lowswitch.kernels.kinds import by_kind
from lowswitch.kernels.qlearning import DUE, QUIET, digest_visit, own_best, set_own
from lowswitch.kernels.stages import digest_stage

digest = by_kind(
    "digest",
    {RowSpec: digest_visit, StageSpec: digest_stage, SettlingStageSpec: digest_stage},
)


@inline
def note_step(spec, tables, h, x, a, action, reward, y):
    """Record one transition; learning waits for the end of the episode."""
    step = tables.path[h]
    step["state"], step["action"], step["reward"] = x, a, reward
    return QUIET


@inline
def note_gap(spec, tables, h, x):
    """Record that the step in state x is not learned."""
    tables.path[h]["state"], tables.path[h]["action"] = x, -1


@part
def learn_path(spec, tables, scale, base):
    """Let the member whose rows begin at `base` learn from the recorded episode.

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
    """Let every member learn the episode; return whether there was a trigger. All count alike."""
    triggered = False
    for m in range(spec.members):
        triggered |= learn_path(spec.each, tables, spec.scales[m], m * (spec.H + 1) * spec.S)
    return triggered
