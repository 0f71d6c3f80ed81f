"""The value of policies and of single rows, in models drawn from the posterior."""

from typing import NamedTuple

import numpy as np

from lowswitch.kernels.compile import allocating, allocating_part, inline, part
from lowswitch.kernels.evidence import typical_reward
from lowswitch.kernels.model_draws import (
    draw_cell_law,
    draw_cell_reward,
    draws_laws,
    draws_rewards,
    model_key,
    room_for,
)
from lowswitch.kernels.noise import noise
from lowswitch.kernels.posterior import gamma
from lowswitch.kernels.sums import weighted_sum

_STARTS = np.uint64(2**60)
_SEVERAL = 4  # numbers that a processor takes at once, about
_KEPT = 50_000  # laws of all steps; if there are more, each step is drawn again


@part
def draw_starts(starts, episodes, key, counter, drawn):
    """Draw the shares of the states in which episodes begin, with a Dirichlet prior of mass 1.

    `starts` [S] are their shares among `episodes` episodes. If `episodes` is 0, the shares are used
    unchanged.
    """
    counter[0], total, stream, S = 0, 0.0, noise(key, _STARTS), len(starts)
    for x in range(S):
        drawn[x] = starts[x]
        if episodes > 0.0:
            drawn[x] = gamma(episodes * starts[x] + 1.0 / S, stream, counter)
        total += drawn[x]
    if episodes > 0.0:
        for x in range(S):
            drawn[x] /= total


@part
def draw_laws(spec, belief, h, key, needed, drawn, counter, seen):
    """Draw the transition laws of step h for the needed cells [H + 1, S * A]."""
    step = h if belief.laws.stride > 0 else spec.H
    for i in range(spec.S * spec.A):
        if needed[step, i]:
            draw_cell_law(spec, belief, h, i, key, drawn, counter, seen)


@part
def draw_rewards(spec, belief, h, key, needed, drawn, counter):
    """Draw the rewards of step h for the needed cells [H + 1, S * A]."""
    typical = typical_reward(belief.rewards)
    step = h if belief.rewards.stride > 0 else spec.H
    for i in range(spec.S * spec.A):
        if needed[step, i]:
            draw_cell_reward(spec, belief, h, i, key, drawn, counter, typical)


class Room(NamedTuple):
    """Room for what a sweep computes of the U policies in one state."""

    found: np.ndarray  # [A, U]  the values of its actions
    lengths: np.ndarray  # [A]  how many policies are listed for an action
    listed: np.ndarray  # [A, U]  which ones
    spread: np.ndarray  # [U]  what goes to all successors alike
    mass: np.ndarray  # [U]  how probable the state is under those that play an action


@allocating_part
def room_of(spec, U):
    """Room for U policies."""
    listed, count = np.zeros((spec.A, U), dtype=np.int64), np.zeros(spec.A, dtype=np.int64)
    return Room(np.zeros((spec.A, U)), count, listed, np.zeros(U), np.zeros(U))


@allocating
def drawn_for(spec, belief):
    """Memory for a model: for the laws of every step, unless these are alike or too many."""
    rows = len(belief.laws.n)
    return room_for(spec, belief.laws, rows if rows <= _KEPT else spec.S * spec.A)


@inline
def first_law(spec, drawn, h):
    """Where the laws of step h begin in a drawn model, which stores one step or every step."""
    return h * spec.S * spec.A % len(drawn.sizes)


@part
def value_all(drawn, last, i, law, values, means, found):
    """Write Q_h(x, a), of cell i and its law, of each policy into found [U].

    The next values [S, U] have the means `means` [U]. The inner loop runs over policies, because
    all of them read the same successors, and because a processor then computes several at once.
    """
    for m in range(len(found)):
        found[m] = drawn.rewards[i] if last else drawn.rewards[i] + drawn.rest[law] * means[m]
    if not last:
        for j in range(drawn.starts[law], drawn.starts[law] + drawn.sizes[law]):
            weight, following = drawn.weights[j], values[drawn.states[j]]
            for m in range(len(found)):
                found[m] += weight * following[m]


@part
def value_some(some, drawn, last, i, law, values, means, found):
    """Do what `value_all` does, to the bit, but only for some policies."""
    for m in some:
        found[m] = drawn.rewards[i] if last else drawn.rewards[i] + drawn.rest[law] * means[m]
    if not last:
        for j in range(drawn.starts[law], drawn.starts[law] + drawn.sizes[law]):
            weight, following = drawn.weights[j], values[drawn.states[j]]
            for m in some:
                found[m] += weight * following[m]


@inline
def are_few(some, U):
    """Whether to take some of U policies one by one: a processor takes several at once if it takes
    all of them.
    """
    return len(some) * _SEVERAL < U


@inline
def list_policy(room, m, a):
    """Add a policy to the list of an action."""
    room.listed[a, room.lengths[a]] = m
    room.lengths[a] += 1


@part
def value_step(spec, drawn, h, changes, values, means, new, differences, room):
    """Write the values of step h into new [S, U], and Q_h(x, other) - Q_h(x, now) of its rows into
    differences [R, U].
    """
    r, laws, found, U = changes.steps[h], first_law(spec, drawn, h), room.found, len(means)
    for x in range(spec.S):
        played = changes.played[h * spec.S + x]
        here = r < changes.steps[h + 1] and changes.rows[r] == h * spec.S + x
        room.lengths[:] = 0
        for m in range(U):
            list_policy(room, m, played[m])
            if here and changes.others[r, m] != played[m]:
                list_policy(room, m, changes.others[r, m])
        for a in range(spec.A):
            i, some = x * spec.A + a, room.listed[a, : room.lengths[a]]
            if are_few(some, U):
                value_some(some, drawn, h + 1 == spec.H, i, laws + i, values, means, found[a])
            else:
                value_all(drawn, h + 1 == spec.H, i, laws + i, values, means, found[a])
        for m in range(U):
            new[x, m] = found[played[m], m]
        if here:
            for m in range(U):
                differences[r, m] = found[changes.others[r, m], m] - new[x, m]
            r += 1


@part
def push_all(drawn, law, mass, following, spread):
    """Push the mass [U] that policies have in a state on to the next step, by a drawn law."""
    for m in range(len(mass)):
        spread[m] += mass[m] * drawn.rest[law]
    for j in range(drawn.starts[law], drawn.starts[law] + drawn.sizes[law]):
        weight, there = drawn.weights[j], following[drawn.states[j]]
        for m in range(len(mass)):
            there[m] += mass[m] * weight


@part
def push_some(some, drawn, law, mass, following, spread):
    """Do what `push_all` does, to the bit, but only for some policies."""
    for m in some:
        spread[m] += mass[m] * drawn.rest[law]
    for j in range(drawn.starts[law], drawn.starts[law] + drawn.sizes[law]):
        weight, there = drawn.weights[j], following[drawn.states[j]]
        for m in some:
            there[m] += mass[m] * weight


@part
def push(spec, drawn, h, played, reach, following, room):
    """Push each policy's law of the state at step h, reach [S, U], on to the next step.

    `played` [H * S, U] is what they play.
    """
    spread = room.spread
    following[:], spread[:] = 0.0, 0.0
    for x in range(spec.S):
        laws, mass = first_law(spec, drawn, h) + x * spec.A, reach[x]
        room.lengths[:] = 0
        for m in range(len(mass)):
            if mass[m] != 0.0:
                list_policy(room, m, played[h * spec.S + x, m])
        for a in range(spec.A):
            some = room.listed[a, : room.lengths[a]]
            if are_few(some, len(mass)):
                push_some(some, drawn, laws + a, mass, following, spread)
            else:
                room.mass[:] = 0.0
                for m in some:
                    room.mass[m] = mass[m]
                push_all(drawn, laws + a, room.mass, following, spread)
    for y in range(spec.S):
        for m in range(len(spread)):
            following[y, m] += spread[m] / spec.S


@allocating_part
def sweep_back(spec, belief, key, last, changes, drawn, counter, seen, differences):
    """Write Q_h(x, other) - Q_h(x, now) of each row and policy, by backward induction.

    Return the values [S, U] of all policies at the last step visited.
    """
    U = changes.played.shape[1]
    values, new, means = np.zeros((spec.S, U)), np.zeros((spec.S, U)), np.zeros(U)
    room = room_of(spec, U)
    for h in range(spec.H - 1, last - 1, -1):
        if draws_laws(spec, belief, h):
            draw_laws(spec, belief, h, key, changes.needed, drawn, counter, seen)
        if draws_rewards(spec, belief, h):
            draw_rewards(spec, belief, h, key, changes.needed, drawn, counter)
        value_step(spec, drawn, h, changes, values, means, new, differences, room)
        values, new = new, values
        means[:] = 0.0
        for x in range(spec.S):
            means += values[x]
        means /= spec.S
    return values


@inline
def draws_again(spec, belief, drawn, h, last):
    """Whether the forward sweep must draw the laws of step h again, because the backward sweep to
    step `last` did not store them.
    """
    if belief.laws.stride == 0:
        return h == 0 and last > spec.H - 2
    return h < last or len(drawn.sizes) < len(belief.laws.n)


@allocating_part
def sweep_forth(spec, belief, key, starts, changes, last, drawn, counter, seen, gaps, found):
    """Write into found [G, R] the weighted sums of reach(h, x) times the differences `gaps`.

    last: the step that the backward sweep has reached.
    """
    U, until = changes.played.shape[1], changes.rows[-1] // spec.S
    reach, following = np.zeros((spec.S, U)), np.zeros((spec.S, U))
    room = room_of(spec, U)
    for x in range(spec.S):
        reach[x] = starts[x]
    found[:] = 0.0
    for h in range(until + 1):
        for r in range(changes.steps[h], changes.steps[h + 1]):
            x = changes.rows[r] - h * spec.S
            for m in range(U):
                found[changes.groups[m], r] += changes.weights[m] * (reach[x, m] * gaps[r, m])
        if h < until:
            if draws_again(spec, belief, drawn, h, last):
                draw_laws(spec, belief, h, key, changes.needed, drawn, counter, seen)
            push(spec, drawn, h, changes.played, reach, following, room)
            reach, following = following, reach


@allocating
def law_gains(spec, belief, stream, starts, episodes, numbers, changes, found, values):
    """The value of other actions in single rows, and of whole policies, in some models.

    If a policy plays another action in row (h, x) alone, its value grows by exactly reach(h, x)
    times Q(h, x, other) - Q(h, x, now), because everything before and after the row stays the same.
    The sums of these over the judged policies go into found [models, G, R]. The values of all
    policies go into values [models, U], unless that is empty.

    The models are the models of `values_on_draws` with these numbers. `starts` [S] and `episodes`
    are as in `draw_starts`.
    """
    drawn, counter = drawn_for(spec, belief), np.zeros(1, dtype=np.uint64)
    seen, gaps = np.zeros(spec.S), np.zeros(changes.others.shape)
    begin, last = np.zeros(spec.S), 0
    if values.shape[1] == 0:
        last = changes.rows[0] // spec.S
    for sample in range(len(numbers)):
        key = model_key(stream, numbers[sample])
        draw_starts(starts, episodes, key, counter, begin)
        ahead = sweep_back(spec, belief, key, last, changes, drawn, counter, seen, gaps)
        for m in range(values.shape[1]):
            values[sample, m] = weighted_sum(begin, ahead[:, m])
        if len(changes.rows) > 0:
            here = found[sample]
            sweep_forth(spec, belief, key, begin, changes, last, drawn, counter, seen, gaps, here)


# ---- rows that pay together ----------------------------------------------------------------------


@part
def spread_apart(spec, drawn, now, other, mass, following):
    """Write into following [S] how much likelier each successor is after `other` than after `now`,
    times `mass`.

    Both are cells of a drawn step.
    """
    following[:] = mass * (drawn.rest[other] - drawn.rest[now]) / spec.S
    for j in range(drawn.starts[other], drawn.starts[other] + drawn.sizes[other]):
        following[drawn.states[j]] += mass * drawn.weights[j]
    for j in range(drawn.starts[now], drawn.starts[now] + drawn.sizes[now]):
        following[drawn.states[j]] -= mass * drawn.weights[j]


@part
def share_row(spec, drawn, h, changes, asked, reach, apart, gaps, found):
    """Add to found [R] the contributions of the rows of step h to the row `asked`.

    reach [S, M] belongs to the proposed policies. apart [S, M] is how much likelier each state
    becomes if the asked row changes; it is written at the step of that row.
    """
    at, M = changes.rows[asked], reach.shape[1]
    x, weights, first = at - h * spec.S, changes.weights, first_law(spec, drawn, h)
    if 0 <= x < spec.S:
        for m in range(M):
            found[asked] += weights[m] * reach[x, m] * gaps[asked, m]
            if h + 1 < spec.H:
                now, new = changes.played[at, m], changes.played[at, M + m]
                laws, mass = first + x * spec.A, reach[x, m]
                spread_apart(spec, drawn, laws + now, laws + new, mass, apart[:, m])
    elif x < 0:
        for r in range(changes.steps[h], changes.steps[h + 1]):
            for m in range(M):
                found[r] += weights[m] * apart[changes.rows[r] - h * spec.S, m] * gaps[r, m]


@allocating_part
def sweep_together(spec, belief, key, begin, changes, asked, drawn, counter, seen, gaps, found):
    """Add to found [asked, R] the contribution of each row to the rows `asked`.

    The first half of the policies play the deployed actions, the others the proposed ones.
    """
    M = changes.played.shape[1] // 2
    proposed, room = changes.played[:, M:].copy(), room_of(spec, M)
    reach, following = np.zeros((spec.S, M)), np.zeros((spec.S, M))
    apart, ahead = np.zeros((len(asked), spec.S, M)), np.zeros((spec.S, M))
    for x in range(spec.S):
        reach[x] = begin[x]
    for h in range(spec.H):
        if h + 1 < spec.H and draws_again(spec, belief, drawn, h, 0):
            draw_laws(spec, belief, h, key, changes.needed, drawn, counter, seen)
        for k in range(len(asked)):
            share_row(spec, drawn, h, changes, asked[k], reach, apart[k], gaps, found[k])
            if changes.rows[asked[k]] < h * spec.S and h + 1 < spec.H:
                push(spec, drawn, h, proposed, apart[k], ahead, room)
                apart[k] = ahead
        if h + 1 < spec.H:
            push(spec, drawn, h, proposed, reach, following, room)
            reach, following = following, reach


@allocating
def shared_gains(spec, belief, stream, starts, episodes, numbers, changes, asked, found):
    """The value of rows [asked] within a proposal, split by the rows that cause it.

    The result goes into found [models, asked, R]. The value that a proposal loses without row r =
    (h, x) is reach'(r) (Q'(r, new) - Q'(r, now)), for the proposed policy. By the difference of two
    policies (Kakade, Langford 2002, Lemma 6.1) this is a sum of two parts. The first is reach'(r)
    (Q(r, new) - Q(r, now)), for the deployed policy, entered at r. The second is the sum over later
    rows s of reach'(r) (P'(s | r, new) - P'(s | r, now)) (Q(s, new) - Q(s, now)), entered at s.
    """
    drawn, counter = drawn_for(spec, belief), np.zeros(1, dtype=np.uint64)
    seen, gaps, begin = np.zeros(spec.S), np.zeros(changes.others.shape), np.zeros(spec.S)
    found[:] = 0.0
    for sample in range(len(numbers)):
        key = model_key(stream, numbers[sample])
        draw_starts(starts, episodes, key, counter, begin)
        sweep_back(spec, belief, key, 0, changes, drawn, counter, seen, gaps)
        here = found[sample]
        sweep_together(spec, belief, key, begin, changes, asked, drawn, counter, seen, gaps, here)
