"""What one changed row of the deployed policies is worth, in models drawn from the posterior."""

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


@part
def draw_laws(spec, belief, h, key, needed, drawn, counter, seen):
    """Draw the laws of step h of the cells that are needed [H, S * A]."""
    for i in range(spec.S * spec.A):
        if needed[h, i]:
            draw_cell_law(spec, belief, h, i, key, drawn, counter, seen)


@part
def draw_rewards(spec, belief, h, key, needed, drawn, counter):
    """Draw the rewards of step h of the cells that are needed [H, S * A]."""
    typical = typical_reward(belief.rewards)
    for i in range(spec.S * spec.A):
        if needed[h, i]:
            draw_cell_reward(spec, belief, h, i, key, drawn, counter, typical)


@part
def estimate_step(spec, drawn, h, played, values, means, found):
    """Write Q_h(x, a) of what each member plays at step h into found [L, S].

    The next values [L, S] have these means. States are the outer loop, because the members read
    the laws of the same few cells there.
    """
    for x in range(spec.S):
        for m in range(len(values)):
            i = x * spec.A + played[h * spec.S + x, m]
            found[m, x] = drawn_estimate(drawn, h + 1 == spec.H, i, values[m], means[m])


@part
def estimate_changes(spec, drawn, h, changes, values, means, now, differences):
    """Write Q_h(x, new) - Q_h(x, now) of the changed rows of step h into differences [R, L]."""
    here = h * spec.S
    for r in range(len(changes.rows)):
        if here <= changes.rows[r] < here + spec.S:
            for m in range(len(values)):
                x, a = changes.rows[r] - here, changes.proposed[r, m]
                differences[r, m] = 0.0
                if a != changes.played[here + x, m]:
                    i, last = x * spec.A + a, h + 1 == spec.H
                    q = drawn_estimate(drawn, last, i, values[m], means[m])
                    differences[r, m] = q - now[m, x]


@part
def push(spec, drawn, h, played, reach, following, spread):
    """Push each member's law of the state at step h, reach [L, S], on to the next step.

    `spread` [L] is zero, before and after.
    """
    following[:] = 0.0
    for x in range(spec.S):
        for m in range(len(reach)):
            i, mass = x * spec.A + played[h * spec.S + x, m], reach[m, x]
            spread[m] += mass * drawn.rest[i]
            for j in range(drawn.starts[i], drawn.starts[i] + drawn.sizes[i]):
                following[m, drawn.states[j]] += mass * drawn.weights[j]
    for m in range(len(reach)):
        for y in range(spec.S):
            following[m, y] += spread[m] / spec.S
        spread[m] = 0.0


@allocating_part
def sweep_back(spec, belief, key, changes, drawn, counter, seen, differences):
    """Write Q_h(x, new) - Q_h(x, now) of each changed row and member, by backward induction."""
    L = changes.played.shape[1]
    values, new, means = np.zeros((L, spec.S)), np.zeros((L, spec.S)), np.zeros(L)
    for h in range(spec.H - 1, changes.rows[0] // spec.S - 1, -1):
        if draws_laws(spec, belief, h):
            draw_laws(spec, belief, h, key, changes.laws, drawn, counter, seen)
        if draws_rewards(spec, belief, h):
            draw_rewards(spec, belief, h, key, changes.rewards, drawn, counter)
        estimate_step(spec, drawn, h, changes.played, values, means, new)
        estimate_changes(spec, drawn, h, changes, values, means, new, differences)
        values, new = new, values
        for m in range(L):
            means[m] = values[m].mean()


@allocating_part
def sweep_forth(spec, belief, key, starts, changes, drawn, counter, seen, differences, found):
    """Write the mean over members of reach(h, x) times the difference, for each changed row."""
    L, last = changes.played.shape[1], changes.rows[-1] // spec.S
    reach, following, spread = np.zeros((L, spec.S)), np.zeros((L, spec.S)), np.zeros(L)
    reach[:] = starts
    for h in range(last + 1):
        for r in range(len(changes.rows)):
            x = changes.rows[r] - h * spec.S
            if 0 <= x < spec.S:
                found[r] = (reach[:, x] * differences[r]).sum() / L
        if h < last:
            if h == 0 or belief.laws.stride > 0:  # else the steps are alike
                draw_laws(spec, belief, h, key, changes.laws, drawn, counter, seen)
            push(spec, drawn, h, changes.played, reach, following, spread)
            reach, following = following, reach


@allocating
def row_gains(spec, belief, stream, starts, changes, first, found):
    """What each changed row alone adds to the value of the policies, into found [models, R].

    The models are those of `values_on_draws` from number `first` on. `starts` [S] are the shares of
    the states in which episodes began.

    If row (h, x) alone changes, the value of a policy grows by reach(h, x) times
    Q(h, x, new) - Q(h, x, now), exactly: what comes before the row and after it stays. In a mixture
    the row of each member becomes what that member would play, and the gain is the mean.
    """
    drawn, counter = fresh_drawn(spec, belief.laws), np.zeros(1, dtype=np.uint64)
    seen, differences = np.zeros(spec.S), np.zeros(changes.proposed.shape)
    for sample in range(len(found)):
        key = model_key(stream, first + sample)
        sweep_back(spec, belief, key, changes, drawn, counter, seen, differences)
        sweep_forth(
            spec, belief, key, starts, changes, drawn, counter, seen, differences, found[sample]
        )
