"""What policies and single rows of them are worth, in models drawn from the posterior."""

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

_STARTS = np.uint64(2**60)
_KEPT = 50_000  # laws of all steps; if there are more, each step is drawn anew


@part
def draw_starts(starts, episodes, key, counter, drawn):
    """Draw the shares of the states in which episodes begin, by a Dirichlet prior of mass 1.

    `starts` [S] are their shares in so many episodes, which are taken as they are if these are 0.
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
    """Draw the laws of step h of the cells that are needed [H + 1, S * A]."""
    step = h if belief.laws.stride > 0 else spec.H
    for i in range(spec.S * spec.A):
        if needed[step, i]:
            draw_cell_law(spec, belief, h, i, key, drawn, counter, seen)


@part
def draw_rewards(spec, belief, h, key, needed, drawn, counter):
    """Draw the rewards of step h of the cells that are needed [H + 1, S * A]."""
    typical = typical_reward(belief.rewards)
    step = h if belief.rewards.stride > 0 else spec.H
    for i in range(spec.S * spec.A):
        if needed[step, i]:
            draw_cell_reward(spec, belief, h, i, key, drawn, counter, typical)


@allocating
def drawn_for(spec, belief):
    """Room for a model: for the laws of every step, unless these are alike or very many."""
    rows = len(belief.laws.n)
    return room_for(spec, belief.laws, rows if rows <= _KEPT else spec.S * spec.A)


@inline
def first_law(spec, drawn, h):
    """Where the laws of step h begin in a drawn model, which keeps one step or every step."""
    return h * spec.S * spec.A % len(drawn.sizes)


@part
def value_cell(drawn, last, i, law, values, means, found):
    """Write Q_h(x, a), of cell i and its law, of each policy into found [U].

    The next values [S, U] have these means [U]. Policies are the inner loop, because all of them
    read the same successors, and because a processor then takes several at once.
    """
    for m in range(len(found)):
        found[m] = drawn.rewards[i] if last else drawn.rewards[i] + drawn.rest[law] * means[m]
    if not last:
        for j in range(drawn.starts[law], drawn.starts[law] + drawn.sizes[law]):
            weight, following = drawn.weights[j], values[drawn.states[j]]
            for m in range(len(found)):
                found[m] += weight * following[m]


@part
def value_step(spec, drawn, h, changes, values, means, new, differences, found):
    """Write the values of step h into new [S, U], and Q_h(x, other) - Q_h(x, now) of its rows into
    differences [R, U].

    found [A, U] is for the values of the actions of a state, of which some are needed.
    """
    r, laws = changes.steps[h], first_law(spec, drawn, h)
    for x in range(spec.S):
        for a in range(spec.A):
            i = x * spec.A + a
            if changes.needed[h, i]:
                value_cell(drawn, h + 1 == spec.H, i, laws + i, values, means, found[a])
        played = changes.played[h * spec.S + x]
        for m in range(len(played)):
            new[x, m] = found[played[m], m]
        if r < changes.steps[h + 1] and changes.rows[r] == h * spec.S + x:
            for m in range(len(played)):
                differences[r, m] = found[changes.others[r, m], m] - new[x, m]
            r += 1


@part
def push(spec, drawn, h, played, reach, following, spread, mass):
    """Push each policy's law of the state at step h, reach [S, U], on to the next step.

    `played` [H * S, U] is what they play. `spread` [U] is zero, before and after; mass [U] is for
    the policies that play the same.
    """
    following[:] = 0.0
    for x in range(spec.S):
        laws, actions = first_law(spec, drawn, h) + x * spec.A, played[h * spec.S + x]
        for a in range(spec.A):
            law, some = laws + a, False
            for m in range(len(mass)):
                mass[m] = reach[x, m] if actions[m] == a else 0.0
                some |= mass[m] != 0.0
            if some:
                for m in range(len(mass)):
                    spread[m] += mass[m] * drawn.rest[law]
                for j in range(drawn.starts[law], drawn.starts[law] + drawn.sizes[law]):
                    weight, there = drawn.weights[j], following[drawn.states[j]]
                    for m in range(len(mass)):
                        there[m] += mass[m] * weight
    for y in range(spec.S):
        for m in range(len(spread)):
            following[y, m] += spread[m] / spec.S
    spread[:] = 0.0


@allocating_part
def sweep_back(spec, belief, key, last, changes, drawn, counter, seen, differences):
    """Write Q_h(x, other) - Q_h(x, now) of each row and policy, by backward induction.

    Return the values [S, U] of all policies at the last step that is looked at.
    """
    U = changes.played.shape[1]
    values, new, means = np.zeros((spec.S, U)), np.zeros((spec.S, U)), np.zeros(U)
    found = np.zeros((spec.A, U))
    for h in range(spec.H - 1, last - 1, -1):
        if draws_laws(spec, belief, h):
            draw_laws(spec, belief, h, key, changes.needed, drawn, counter, seen)
        if draws_rewards(spec, belief, h):
            draw_rewards(spec, belief, h, key, changes.needed, drawn, counter)
        value_step(spec, drawn, h, changes, values, means, new, differences, found)
        values, new = new, values
        means[:] = 0.0
        for x in range(spec.S):
            means += values[x]
        means /= spec.S
    return values


@inline
def draws_again(spec, belief, drawn, h, last):
    """Whether the laws of step h are drawn in a sweep forth, since the sweep back to the step
    `last` has not kept them.
    """
    if belief.laws.stride == 0:
        return h == 0 and last > spec.H - 2
    return h < last or len(drawn.sizes) < len(belief.laws.n)


@allocating_part
def sweep_forth(spec, belief, key, starts, changes, last, drawn, counter, seen, gaps, found):
    """Write into found [G, R] the weighted sums of reach(h, x) times the differences `gaps`.

    last: the step that the sweep back has reached.
    """
    U, until = changes.played.shape[1], changes.rows[-1] // spec.S
    reach, following = np.zeros((spec.S, U)), np.zeros((spec.S, U))
    spread, mass = np.zeros(U), np.zeros(U)
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
            push(spec, drawn, h, changes.played, reach, following, spread, mass)
            reach, following = following, reach


@allocating
def law_gains(spec, belief, stream, starts, episodes, numbers, changes, found, values):
    """What other actions in single rows, and whole policies, are worth in some models.

    If a policy plays another action in row (h, x) alone, its value grows by reach(h, x) times
    Q(h, x, other) - Q(h, x, now), exactly: what comes before the row and after it stays. The sums
    of these over judged policies go into found [models, G, R], and the values of all policies into
    values [models, U], unless that is empty.

    The models are those of `values_on_draws` with these numbers. `starts` [S] and `episodes` are as
    in `draw_starts`.
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
            values[sample, m] = (begin * ahead[:, m]).sum()
        if len(changes.rows) > 0:
            here = found[sample]
            sweep_forth(spec, belief, key, begin, changes, last, drawn, counter, seen, gaps, here)


# ---- rows that pay together ----------------------------------------------------------------------


@part
def spread_apart(spec, drawn, now, other, mass, following):
    """Write into following [S] how much likelier each successor is after `other` than after `now`,
    two cells of a drawn step, times `mass`.
    """
    following[:] = mass * (drawn.rest[other] - drawn.rest[now]) / spec.S
    for j in range(drawn.starts[other], drawn.starts[other] + drawn.sizes[other]):
        following[drawn.states[j]] += mass * drawn.weights[j]
    for j in range(drawn.starts[now], drawn.starts[now] + drawn.sizes[now]):
        following[drawn.states[j]] -= mass * drawn.weights[j]


@part
def share_row(spec, drawn, h, changes, asked, reach, apart, gaps, found):
    """Add to found [R] what the rows of step h add to the row `asked`.

    reach [S, M] is of the proposed policies; apart [S, M] is how much likelier the asked row makes
    each state if it changes, and is written once its step has come.
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
    """Add to found [asked, R] what each row adds to the rows that are asked about.

    The first half of the policies play what is deployed, and the others what is proposed.
    """
    M = changes.played.shape[1] // 2
    proposed, spread, mass = changes.played[:, M:].copy(), np.zeros(M), np.zeros(M)
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
                push(spec, drawn, h, proposed, apart[k], ahead, spread, mass)
                apart[k] = ahead
        if h + 1 < spec.H:
            push(spec, drawn, h, proposed, reach, following, spread, mass)
            reach, following = following, reach


@allocating
def shared_gains(spec, belief, stream, starts, episodes, numbers, changes, asked, found):
    """What rows [asked] of a proposal are worth within it, by the rows that it is due to.

    Into found [models, asked, R]. The value that a proposal loses without row r = (h, x) is
    reach'(r) (Q'(r, new) - Q'(r, now)), of the proposed policy. By the difference of two policies
    (Kakade, Langford 2002, Lemma 6.1) this is the sum of reach'(r) (Q(r, new) - Q(r, now)), of the
    deployed one, which stands at r, and over later rows s of
    reach'(r) (P'(s | r, new) - P'(s | r, now)) (Q(s, new) - Q(s, now)), which stand at s.
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
