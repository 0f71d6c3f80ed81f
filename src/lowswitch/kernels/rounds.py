"""Many machines, one policy per round: their episodes are learned in order, or late."""

import math

import numpy as np

from lowswitch.kernels.compile import NOT_YET, NOTHING, entry, inline, part
from lowswitch.kernels.deploy import (
    deploy_plan,
    deployed_action,
    end_episode,
    lacks_room,
    learn_rest,
    member_for,
)
from lowswitch.kernels.play import (
    AWAITS_PLAN,
    DONE,
    LACKS_ROOM,
    learn_arrived,
    learn_nothing,
    outcome_of,
    start_state,
)
from lowswitch.kernels.schedule import is_date
from lowswitch.kernels.values import settle

AT_TRIGGER, AT_SWITCH, AT_MISMATCH = 0, 1, 2  # where a round is cut
PAUSED = 3  # there is more to learn: the policy changed, or a round was played

# ---- playing -------------------------------------------------------------------------------------


@entry
def play_out(model, policy, A, key, episodes, states, rewards):
    """Play these episodes [n] by a policy [H, S]."""
    H = len(policy)
    for i in range(len(episodes)):
        x = start_state(model, H, key, episodes[i])
        for h in range(H):
            states[i, h] = x
            rewards[i, h], x = outcome_of(model, key, episodes[i], H, A, h, x, policy[h, x])


@inline
def play_ahead(spec, tables, model, window, rounds, key, k):
    """Play episode k by the deployed policy, into its slot of the window."""
    slot, member = k % len(window.ready), member_for(spec, tables, k)
    x = start_state(model, spec.H, key, k)
    for h in range(spec.H):
        a = deployed_action(spec, tables, member, h, x)
        window.states[slot, h], window.actions[slot, h] = x, a
        rounds.plays[(h * spec.S + x) * spec.A + a] += 1
        window.rewards[slot, h], x = outcome_of(model, key, k, spec.H, spec.A, h, x, a)
    window.ready[slot] = True


@part
def next_episodes(window, rounds, episodes):
    """Write the episodes of the next round: the first ones not played yet, one per machine.

    Return how many there are.
    """
    learned, last, count = rounds.totals[0]["learned"], rounds.totals[0]["last"], 0
    for k in range(learned, min(last, learned + window.ahead)):
        if not window.ready[k % len(window.ready)]:
            if count == len(episodes):
                break
            episodes[count] = k
            count += 1
    return count


@inline
def play_round(spec, tables, model, window, rounds, key, episodes):
    """Play the episodes of the next round here; `episodes` is work space."""
    count = next_episodes(window, rounds, episodes)
    for i in range(count):
        play_ahead(spec, tables, model, window, rounds, key, episodes[i])
    rounds.totals[0]["rounds"] += 1
    rounds.totals[0]["played"] += count


@part
def receive_round(spec, tables, window, rounds, episodes, states, rewards):
    """Take in the episodes [n] of a round as machines played them, states and rewards [n, H]."""
    for i in range(len(episodes)):
        slot, member = episodes[i] % len(window.ready), member_for(spec, tables, episodes[i])
        for h in range(spec.H):
            x = np.int64(states[i, h])
            a = deployed_action(spec, tables, member, h, x)
            window.states[slot, h], window.actions[slot, h] = x, a
            window.rewards[slot, h] = rewards[i, h]
            rounds.plays[(h * spec.S + x) * spec.A + a] += 1
        window.ready[slot] = True
    rounds.totals[0]["rounds"] += 1
    rounds.totals[0]["played"] += len(episodes)


# ---- learning ------------------------------------------------------------------------------------


@inline
def follows_policy(spec, tables, window, k):
    """Whether the deployed policy would have played the actions of episode k, which is ready."""
    slot, member, same = k % len(window.ready), member_for(spec, tables, k), True
    for h in range(spec.H):
        action = deployed_action(spec, tables, member, h, np.int64(window.states[slot, h]))
        same &= window.actions[slot, h] == action
    return same


@inline
def learn_slot(spec, tables, log, rounds, window, k):
    """Close episode k, and learn the outcomes that arrive after it: its own, or late ones.

    Return how many rows changed, and whether there was a trigger.
    """
    changed, triggered, slot = NOTHING, NOT_YET, k % len(window.ready)
    for h in range(spec.H):
        rounds.totals[0]["earned"] += window.rewards[slot, h]
    before, arrivals, machines = log.logged[0], 0, len(window.delays)
    for m in range(machines):
        arrived = k - window.delays[m]
        if arrived >= 0 and arrived % machines == m:
            if arrivals > 0:
                triggered |= learn_rest(spec, tables)
            switched, trigger = learn_arrived(
                spec, tables, log.changes, before + changed, window, k, arrived
            )
            changed, triggered, arrivals = changed + switched, triggered or trigger, arrivals + 1
    if arrivals == 0:
        if not is_date(spec, tables, k):
            return changed, triggered
        learn_nothing(spec, tables)
    return end_episode(spec, tables, log.changes, before, k, changed, triggered)


@inline
def is_cut(cut, triggered, changed):
    """Whether the episodes after this one wait for the next round."""
    return (cut == AT_TRIGGER and triggered) or (cut == AT_SWITCH and changed > 0)


@inline
def note_learned(log, rounds, window, k, changed, triggered):
    """Stamp the row changes of episode k, fill in a checkpoint, and cut the round if due."""
    totals = rounds.totals[0]
    for i in range(log.logged[0], log.logged[0] + changed):
        rounds.stamps[i]["rounds"] = totals["rounds"]
        rounds.stamps[i]["played"] = totals["played"]
    log.logged[0] += changed
    totals["learned"] = k + 1
    mark = totals["passed"]
    if log.curve_points[mark] == k + 1:
        rounds.curve[mark] = totals["rounds"]
        rounds.earned_curve[mark] = totals["earned"]
        totals["passed"] = mark + 1
    if is_cut(rounds.cut, triggered, changed):
        window.ready[:] = False


@part
def learn_ready(spec, tables, log, window, rounds):
    """Learn the ready episodes in order, up to the cut of the round; return why it ends."""
    totals, status = rounds.totals[0], DONE
    if tables.clock[0]["awaits_plan"] > 0:  # it has been made by now
        k = totals["learned"]
        changed = deploy_plan(spec, tables, log.changes, log.logged[0], k)
        note_learned(log, rounds, window, k, changed, True)
        status = PAUSED if rounds.pause and changed > 0 else DONE
    while status == DONE and totals["learned"] < totals["last"]:
        k = totals["learned"]
        slot = k % len(window.ready)
        if not window.ready[slot] or not follows_policy(spec, tables, window, k):
            break
        full = log.logged[0] + spec.timing.room > len(log.changes)
        if full or lacks_room(spec, tables):
            status = LACKS_ROOM
            break
        window.ready[slot] = False
        changed, triggered = learn_slot(spec, tables, log, rounds, window, k)
        if tables.clock[0]["awaits_plan"] > 0:
            status = AWAITS_PLAN
            break
        note_learned(log, rounds, window, k, changed, triggered)
        if rounds.pause and changed > 0:
            status = PAUSED
    return status


@part
def forget_stale(spec, tables, window, rounds):
    """Drop the episodes that the deployed policy would play differently."""
    learned = rounds.totals[0]["learned"]
    for k in range(learned, learned + len(window.ready)):
        slot = k % len(window.ready)
        if window.ready[slot]:
            window.ready[slot] = follows_policy(spec, tables, window, k)


@part
def last_episode(account, rounds):
    """The number of episodes the run will have under the deployed policy, unless it changes again.

    All of them, or fewer if the policy or the mixture so far is good enough. The mixture's gap
    after t episodes is regret(t) / t, and regret grows by the policy's gap per episode. Call this
    at a deployment, when every episode so far is charged: then the answer does not depend on
    rounds.
    """
    balance = account.balance[0]
    regret, gap, learned = balance["regret"], balance["gap"], balance["charged"]
    last = rounds.episodes
    if gap <= rounds.policy_gap or (learned > 0 and regret <= rounds.mixture_gap * learned):
        last = learned
    elif gap < rounds.mixture_gap:
        more = (regret - rounds.mixture_gap * learned) / (rounds.mixture_gap - gap)
        if more < last - learned:  # otherwise it may exceed the range of integers
            last = learned + max(1, np.int64(math.ceil(more)))
    return last


@entry
def advance(
    spec,
    tables,
    model,
    evaluation,
    log,
    account,
    window,
    rounds,
    key,
    episodes,
    states,
    rewards,
    most,
):
    """Take in and learn a round that machines played, then play and learn up to `most` rounds.

    Machines played the first `episodes`, states and rewards [n, H], or nothing. It plays as many
    rounds as the log has room for, and `episodes` is work space. Learned episodes are charged, and
    at every policy change it checks whether enough is known.

    Return DONE, LACKS_ROOM or AWAITS_PLAN. After the last two, fix the cause and call again with
    nothing played and no rounds to play. Nothing interrupts a call.
    """
    if len(states) > 0:
        receive_round(spec, tables, window, rounds, episodes, states, rewards)
    totals, left, status = rounds.totals[0], most, PAUSED
    while status == PAUSED:
        before = log.logged[0]
        status = learn_ready(spec, tables, log, window, rounds)
        used, learned = log.logged[0], totals["learned"]
        if evaluation.wanted:
            settle(model, evaluation, account, log.changes[before:used], used - before, learned)
        if status == PAUSED:
            totals["last"] = last_episode(account, rounds)
        elif status == DONE:
            if rounds.cut == AT_MISMATCH:
                forget_stale(spec, tables, window, rounds)
            if left > 0 and learned < totals["last"] and used + rounds.room <= len(log.changes):
                play_round(spec, tables, model, window, rounds, key, episodes)
                left, status = left - 1, PAUSED
    return status
