"""What policies and single rows of them are worth, in models drawn from the posterior."""

import numpy as np

from lowswitch.kernels.compile import allocating, allocating_part, part
from lowswitch.kernels.evidence import typical_reward
from lowswitch.kernels.model_draws import (
    draw_cell_law,
    draw_cell_reward,
    drawn_estimate,
    draws_laws,
    draws_rewards,
    fresh_drawn,
    model_key,
)
from lowswitch.kernels.noise import noise
from lowswitch.kernels.posterior import gamma

_STARTS = np.uint64(2**60)


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


@part
def estimate_step(spec, drawn, h, played, values, means, found):
    """Write Q_h(x, a) of what each policy plays at step h into found [U, S].

    The next values [U, S] have these means. States are the outer loop, because the policies read
    the laws of the same few cells there.
    """
    for x in range(spec.S):
        for m in range(len(values)):
            i = x * spec.A + played[h * spec.S + x, m]
            found[m, x] = drawn_estimate(drawn, h + 1 == spec.H, i, values[m], means[m])


@part
def estimate_changes(spec, drawn, h, changes, values, means, now, differences):
    """Write Q_h(x, other) - Q_h(x, now) of the rows of step h into differences [R, J]."""
    here = h * spec.S
    for r in range(len(changes.rows)):
        if here <= changes.rows[r] < here + spec.S:
            for m in range(changes.others.shape[1]):
                x, a = changes.rows[r] - here, changes.others[r, m]
                differences[r, m] = 0.0
                if a != changes.played[here + x, m]:
                    i, last = x * spec.A + a, h + 1 == spec.H
                    q = drawn_estimate(drawn, last, i, values[m], means[m])
                    differences[r, m] = q - now[m, x]


@part
def push(spec, drawn, h, played, reach, following, spread):
    """Push each policy's law of the state at step h, reach [J, S], on to the next step.

    `spread` [J] is zero, before and after.
    """
    following[:] = 0.0
    for x in range(spec.S):
        for m in range(len(reach)):
            i, mass = x * spec.A + played[h * spec.S + x, m], reach[m, x]
            if mass > 0.0:
                spread[m] += mass * drawn.rest[i]
                for j in range(drawn.starts[i], drawn.starts[i] + drawn.sizes[i]):
                    following[m, drawn.states[j]] += mass * drawn.weights[j]
    for m in range(len(reach)):
        for y in range(spec.S):
            following[m, y] += spread[m] / spec.S
        spread[m] = 0.0


@allocating_part
def sweep_back(spec, belief, key, last, changes, drawn, counter, seen, differences):
    """Write Q_h(x, other) - Q_h(x, now) of each row and judged policy, by backward induction.

    Return the values [U, S] of all policies at the last step that is looked at.
    """
    U = changes.played.shape[1]
    values, new, means = np.zeros((U, spec.S)), np.zeros((U, spec.S)), np.zeros(U)
    for h in range(spec.H - 1, last - 1, -1):
        if draws_laws(spec, belief, h):
            draw_laws(spec, belief, h, key, changes.needed, drawn, counter, seen)
        if draws_rewards(spec, belief, h):
            draw_rewards(spec, belief, h, key, changes.needed, drawn, counter)
        estimate_step(spec, drawn, h, changes.played, values, means, new)
        estimate_changes(spec, drawn, h, changes, values, means, new, differences)
        values, new = new, values
        for m in range(U):
            means[m] = values[m].mean()
    return values


@allocating_part
def sweep_forth(spec, belief, key, starts, changes, drawn, counter, seen, differences, found):
    """Write into found [G, R] the weighted sums of reach(h, x) times the difference."""
    J, last = changes.others.shape[1], changes.rows[-1] // spec.S
    reach, following, spread = np.zeros((J, spec.S)), np.zeros((J, spec.S)), np.zeros(J)
    reach[:] = starts
    found[:] = 0.0
    for h in range(last + 1):
        for r in range(len(changes.rows)):
            x = changes.rows[r] - h * spec.S
            if 0 <= x < spec.S:
                for m in range(J):
                    gain = changes.weights[m] * (reach[m, x] * differences[r, m])
                    found[changes.groups[m], r] += gain
        if h < last:
            if h == 0 or belief.laws.stride > 0:  # else the steps are alike
                draw_laws(spec, belief, h, key, changes.needed, drawn, counter, seen)
            push(spec, drawn, h, changes.played, reach, following, spread)
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
    drawn, counter = fresh_drawn(spec, belief.laws), np.zeros(1, dtype=np.uint64)
    seen, differences = np.zeros(spec.S), np.zeros(changes.others.shape)
    begin, last = np.zeros(spec.S), 0
    if values.shape[1] == 0:
        last = changes.rows[0] // spec.S
    for sample in range(len(numbers)):
        key = model_key(stream, numbers[sample])
        draw_starts(starts, episodes, key, counter, begin)
        ahead = sweep_back(spec, belief, key, last, changes, drawn, counter, seen, differences)
        for m in range(values.shape[1]):
            values[sample, m] = (begin * ahead[m]).sum()
        if len(changes.rows) > 0:
            sweep_forth(
                spec, belief, key, begin, changes, drawn, counter, seen, differences, found[sample]
            )


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
def push_on(spec, drawn, h, played, m, reach, following):
    """Push differences of probabilities, reach [S], on to the next step by policy m."""
    following[:] = 0.0
    spread = 0.0
    for x in range(spec.S):
        if reach[x] != 0.0:
            i = x * spec.A + played[h * spec.S + x, m]
            spread += reach[x] * drawn.rest[i]
            for j in range(drawn.starts[i], drawn.starts[i] + drawn.sizes[i]):
                following[drawn.states[j]] += reach[x] * drawn.weights[j]
    for y in range(spec.S):
        following[y] += spread / spec.S


@allocating_part
def sweep_together(spec, belief, key, begin, changes, m, asked, drawn, counter, seen, gaps, found):
    """Add to found [asked, R] what each row of policy m adds to the rows that are asked about.

    Policy m plays what is deployed, and policy m + J / 2 what is proposed.
    """
    J, S = changes.others.shape[1], spec.S
    new, weight = m + J // 2, changes.weights[m]
    reach, following = begin.copy(), np.zeros(S)
    apart, ahead = np.zeros((len(asked), S)), np.zeros(S)
    for h in range(spec.H):
        if h == 0 or belief.laws.stride > 0:
            draw_laws(spec, belief, h, key, changes.needed, drawn, counter, seen)
        for k in range(len(asked)):
            at = changes.rows[asked[k]]
            for r in range(len(changes.rows)):
                if changes.rows[r] // S == h and at // S < h:
                    found[k, r] += weight * apart[k, changes.rows[r] % S] * gaps[r, m]
            if h + 1 < spec.H and at // S == h:
                x = at % S
                cells = x * spec.A + changes.played[at]
                found[k, asked[k]] += weight * reach[x] * gaps[asked[k], m]
                spread_apart(spec, drawn, cells[m], cells[new], reach[x], apart[k])
            elif at // S == h:
                found[k, asked[k]] += weight * reach[at % S] * gaps[asked[k], m]
            elif h + 1 < spec.H and at // S < h:
                push_on(spec, drawn, h, changes.played, new, apart[k], ahead)
                apart[k] = ahead
        if h + 1 < spec.H:
            push_on(spec, drawn, h, changes.played, new, reach, following)
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
    drawn, counter = fresh_drawn(spec, belief.laws), np.zeros(1, dtype=np.uint64)
    seen, gaps, begin = np.zeros(spec.S), np.zeros(changes.others.shape), np.zeros(spec.S)
    found[:] = 0.0
    for sample in range(len(numbers)):
        key = model_key(stream, numbers[sample])
        draw_starts(starts, episodes, key, counter, begin)
        sweep_back(spec, belief, key, 0, changes, drawn, counter, seen, gaps)
        here = found[sample]
        for m in range(changes.others.shape[1] // 2):
            sweep_together(
                spec, belief, key, begin, changes, m, asked, drawn, counter, seen, gaps, here
            )
