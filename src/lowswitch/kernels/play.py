"""Drivers: play episodes of a known problem, or learn told episodes, one after the other."""

import numpy as np

from lowswitch.kernels.arrays import OPEN
from lowswitch.kernels.compile import NOT_YET, NOTHING, entry, inline, part
from lowswitch.kernels.deploy import (
    deploy_plan,
    deployed_action,
    end_episode,
    lacks_room,
    member_for,
    skip_step,
    take_step,
)
from lowswitch.kernels.noise import draw, episode_address, noise, uniform
from lowswitch.kernels.schedule import is_date
from lowswitch.kernels.values import settle

DONE, LACKS_ROOM, AWAITS_PLAN = 0, 1, 2  # why a driver returned
PROPOSES = 4  # `learn_batch` returned because rows wait at the gate; 3 is used by rounds

_1 = np.uint64(1)


# ---- one episode ---------------------------------------------------------------------------------


@inline
def start_state(model, H, key, k):
    """The start of episode k: from the start sequence, or drawn from the start law."""
    if len(model.starts) > 0:
        x = np.int64(model.starts[k])
    else:
        start = noise(key, episode_address(k, H))
        x = draw(model.heads, model.columns, len(model.heads) - 1, start)
    return x


@inline
def outcome_of(model, key, k, H, A, h, x, a):
    """The reward and the successor of action a at step h of episode k in state x."""
    sa = x * A + a
    step = episode_address(k, H) + np.uint64(1 + 2 * h)
    y = draw(model.heads, model.columns, h * model.stride + sa, noise(key, step))
    reward = model.rewards[np.uint64(h * model.reward_stride + sa)]
    if model.bernoulli:
        reward = 1.0 if uniform(noise(key, step + _1)) < reward else 0.0
    return reward, y


@inline
def close_episode(tables, log, k, changed, mark):
    """Count the row changes of episode k, and fill in the checkpoint `mark` if it is reached.

    Return the next checkpoint.
    """
    log.logged[0] += changed
    if log.curve_points[mark] == k + 1:
        log.switches[mark] = tables.clock[0]["switches"]
        log.deployments[mark] = tables.clock[0]["deployments"]
        mark += 1
    return mark


@part
def points_until(points, k):
    """The number of sorted points that are at most k."""
    low, high = NOTHING, len(points)
    while low < high:
        middle = (low + high) // 2
        if points[middle] <= k:
            low = middle + 1
        else:
            high = middle
    return low


# ---- many episodes of a known problem ------------------------------------------------------------


@part
def play(spec, tables, model, log, key, first, last):
    """Play episodes first .. last - 1, or as many as log and pool have room for; return the next.

    Also stops when Python must plan.
    """
    mark = points_until(log.curve_points, first)
    for k in range(first, last):
        if log.logged[0] + spec.timing.room > len(log.changes) or lacks_room(spec, tables):
            return k
        x, changed, triggered = start_state(model, spec.H, key, k), NOTHING, NOT_YET
        member = member_for(spec, tables, k)
        for h in range(spec.H):
            a = deployed_action(spec, tables, member, h, x)
            reward, y = outcome_of(model, key, k, spec.H, spec.A, h, x, a)
            logged = log.logged[0] + changed
            trigger, switched = take_step(
                spec, tables, log.changes, logged, k, h, x, a, a, reward, y
            )
            changed, triggered, x = changed + switched, triggered or trigger, y
        changed, _ = end_episode(spec, tables, log.changes, log.logged[0], k, changed, triggered)
        if tables.clock[0]["awaits_plan"] > 0:
            return k + 1
        mark = close_episode(tables, log, k, changed, mark)
    return last


@part
def deploy_awaited(spec, tables, log, first):
    """Deploy the plan that Python made after the episode before `first`, if it had to."""
    if tables.clock[0]["awaits_plan"] > 0:
        k = first - 1
        changed = deploy_plan(spec, tables, log.changes, log.logged[0], k)
        mark = points_until(log.curve_points, k)
        close_episode(tables, log, k, changed, mark)


@part
def charge_until(spec, tables, model, evaluation, log, account, first, last):
    """Charge the episodes before `first`; return whether the run may go on here up to `last`."""
    if evaluation.wanted:
        settle(model, evaluation, account, log.changes, log.logged[0], first)
    if not log.keep:
        log.logged[0] = 0
    stops = log.keep or lacks_room(spec, tables) or tables.clock[0]["awaits_plan"] > 0
    return first < last and not stops


@entry
def simulate(spec, tables, model, evaluation, log, account, key, first, last):
    """Play episodes first .. last - 1 and charge them; return the next episode.

    It is earlier than `last` if a kept log or the pool is full, or if Python must plan. The next
    call then deploys that plan first.
    """
    deploy_awaited(spec, tables, log, first)
    going = True
    while going:
        first = play(spec, tables, model, log, key, first, last)
        going = charge_until(spec, tables, model, evaluation, log, account, first, last)
    return first


# ---- outcomes that arrive late -------------------------------------------------------------------


@part
def play_unlearned(spec, tables, model, late, key, k):
    """Play episode k and store it, without learning from it."""
    x, slot = start_state(model, spec.H, key, k), k % len(late.states)
    member = member_for(spec, tables, k)
    for h in range(spec.H):
        a = deployed_action(spec, tables, member, h, x)
        reward, y = outcome_of(model, key, k, spec.H, spec.A, h, x, a)
        late.states[slot, h], late.actions[slot, h], late.rewards[slot, h] = x, a, reward
        x = y


@inline
def learn_arrived(spec, tables, changes, logged, held, k, arrived):
    """Learn episode `arrived`, whose outcome arrives after episode k, by the policy deployed now.

    Return how many rows changed, and whether there was a trigger.
    """
    changed, triggered, slot = NOTHING, NOT_YET, arrived % len(held.states)
    member = member_for(spec, tables, arrived)
    for h in range(spec.H):
        x, a = np.int64(held.states[slot, h]), np.int64(held.actions[slot, h])
        y = np.int64(held.states[slot, h + 1]) if h + 1 < spec.H else 0
        action = deployed_action(spec, tables, member, h, x)
        reward, here = held.rewards[slot, h], logged + changed
        trigger, switched = take_step(spec, tables, changes, here, k, h, x, a, action, reward, y)
        changed, triggered = changed + switched, triggered or trigger
    return changed, triggered


@part
def learn_nothing(spec, tables):
    """Leave out all steps: a date comes before the first outcome."""
    for h in range(spec.H):
        skip_step(spec, tables, h, 0)


@part
def play_late(spec, tables, model, log, late, key, first, last):
    """`play`, but the outcome of an episode is learned D episodes later."""
    mark = points_until(log.curve_points, first)
    for k in range(first, last):
        if log.logged[0] + spec.timing.room > len(log.changes) or lacks_room(spec, tables):
            return k
        play_unlearned(spec, tables, model, late, key, k)
        changed, triggered, logged = NOTHING, NOT_YET, log.logged[0]
        arrived = k + 1 - len(late.states)
        if arrived >= 0:
            changed, triggered = learn_arrived(spec, tables, log.changes, logged, late, k, arrived)
        elif is_date(spec, tables, k):
            learn_nothing(spec, tables)
        if arrived >= 0 or is_date(spec, tables, k):
            changed, _ = end_episode(spec, tables, log.changes, logged, k, changed, triggered)
        if tables.clock[0]["awaits_plan"] > 0:
            return k + 1
        mark = close_episode(tables, log, k, changed, mark)
    return last


@entry
def simulate_late(spec, tables, model, evaluation, log, account, late, key, first, last):
    """`simulate`, but the outcome of an episode is learned D episodes later."""
    deploy_awaited(spec, tables, log, first)
    going = True
    while going:
        first = play_late(spec, tables, model, log, late, key, first, last)
        going = charge_until(spec, tables, model, evaluation, log, account, first, last)
    return first


# ---- episodes that are told ----------------------------------------------------------------------


@entry
def learn_batch(spec, tables, states, actions, rewards, off_policy, first, changes):
    """Learn episodes [B, H] in order; a step whose action is -1 is left out.

    Return the number of row changes, the number of episodes learned, the step of an off-policy
    action or -1, and why it ends. If Python must plan, the next call deploys that plan first.
    Behind a gate, the row changes are the changes of one episode, and nothing is deployed.
    """
    logged, gated = NOTHING, spec.timing.gate != OPEN
    if tables.clock[0]["awaits_plan"] > 0:
        logged = deploy_plan(spec, tables, changes, logged, first - 1)
        if gated and logged > 0:
            return logged, 0, -1, PROPOSES
    for b in range(states.shape[0]):
        if lacks_room(spec, tables):
            return logged, b, -1, LACKS_ROOM
        k = first + b
        member = member_for(spec, tables, k)
        for h in range(spec.H):
            action = deployed_action(spec, tables, member, h, states[b, h])
            if not off_policy and actions[b, h] != action and actions[b, h] >= 0:
                return logged, b, h, DONE
        changed, triggered = NOTHING, NOT_YET
        for h in range(spec.H):
            x, a = states[b, h], actions[b, h]
            if a < 0:
                skip_step(spec, tables, h, x)
                continue
            y = states[b, h + 1] if h + 1 < spec.H else 0
            action = deployed_action(spec, tables, member, h, x)
            trigger, switched = take_step(
                spec, tables, changes, logged + changed, k, h, x, a, action, rewards[b, h], y
            )
            changed, triggered = changed + switched, triggered or trigger
        changed, _ = end_episode(spec, tables, changes, logged, k, changed, triggered)
        logged += changed
        if tables.clock[0]["awaits_plan"] > 0:
            return logged, b + 1, -1, AWAITS_PLAN
        if gated and changed > 0:
            return logged, b + 1, -1, PROPOSES
    return logged, states.shape[0], -1, DONE
