"""Bandits: many runs of Bernoulli arms, by an index or in batches."""

import math

import numpy as np

from lowswitch.kernels.compile import entry, inline, part
from lowswitch.kernels.noise import gamma_trial, noise, normal, uniform
from lowswitch.kernels.schedule import next_trigger

UCB1, UCB2, BASE, EXPLORE_THEN_COMMIT, LOG_LOG, BATCHED_THOMPSON = range(6)
PATIENCE = (
    32  # pulls for which a bound on the other arms stays valid; any number gives the same results
)
_0, _1, _2, _3 = (np.uint64(i) for i in range(4))


@inline
def ucb1_width(n, pulls):
    """sqrt(2 ln n / n_j): Auer, Cesa-Bianchi, Fischer 2002, Figure 1."""
    return math.sqrt(2.0 * math.log(n) / pulls)


@inline
def ucb2_width(n, tau, alpha):
    """a_{n,r} = sqrt((1 + alpha) ln(e n / tau(r)) / (2 tau(r))): Auer, Cesa-Bianchi, Fischer 2002,
    eq. (3).
    """
    return math.sqrt((1.0 + alpha) * math.log(math.e * n / tau) / (2.0 * tau))


@inline
def arm_index(bandit, n, pulls, wins):
    """The mean plus the width of an arm, after n pulls of all arms.

    When the next arm is chosen, the number of pulls of each arm is its tau(r).
    """
    width = ucb1_width(n, pulls) if bandit.kind == UCB1 else ucb2_width(n, pulls, bandit.constant)
    return wins / pulls + width


@inline
def best_arm(bandit, n, pulls, wins, incumbent):
    """The arm with the largest index; ties go to the incumbent, then to the lowest arm."""
    arm, best = incumbent, arm_index(bandit, n, pulls[incumbent], wins[incumbent])
    for a in range(len(pulls)):
        index = arm_index(bandit, n, pulls[a], wins[a])
        if index > best:
            arm, best = a, index
    return arm


@inline
def best_other_index(bandit, n, pulls, wins, arm):
    """The largest index of the other arms after n pulls in total.

    It grows with n while they are not played.
    """
    best = -np.inf
    for a in range(len(pulls)):
        if a != arm:
            best = max(best, arm_index(bandit, n, pulls[a], wins[a]))
    return best


@inline
def pull_arm(key, first, last, mean):
    """Play pulls first .. last - 1 with one arm; return the number of rewards that are 1.

    The noise of pull t is number t of the run's stream.
    """
    wins = 0
    for t in range(first, last):
        wins += uniform(noise(key, np.uint64(t))) < mean
    return wins


@inline
def total_gap(gaps, pulls):
    """sum_j n_j (mu* - mu_j), the regret of these pulls: Auer, Cesa-Bianchi, Fischer 2002, section
    1.
    """
    regret = 0.0
    for a in range(len(gaps)):
        regret += gaps[a] * pulls[a]
    return regret


@part
def next_mark(bandit, t):
    """The first checkpoint after t pulls."""
    mark = 0
    while mark < len(bandit.curve_points) and bandit.curve_points[mark] <= t:
        mark += 1
    return mark


@inline
def write_costs(bandit, tables, run, mark, switched, begun):
    """Write the point of each curve at a checkpoint."""
    tables.regret[run, mark] = total_gap(bandit.gaps, tables.pulls[run])
    tables.switches[run, mark] = switched
    tables.batches[run, mark] = begun


@inline
def play_by_index(bandit, tables, run, first, last):
    """Play pulls first .. last - 1 of one run: Auer, Cesa-Bianchi, Fischer 2002, Figures 1 and 2.

    An epoch of UCB2 that ends where it begins, tau(r + 1) = tau(r), leaves every index unchanged,
    so the same arm is chosen again. Only the distinct values of tau matter, and they are the
    triggers of the arm's pulls. All arms are examined only when the played arm falls below the
    bound that the others can reach by pull `bound_until`, or at that pull.
    """
    pulls, wins = tables.pulls[run], tables.wins[run]
    arm, due, switched, begun, t = (
        tables.arm[run],
        tables.due[run],
        tables.switched[run],
        tables.begun[run],
        first,
    )
    mark = next_mark(bandit, first)
    bound, bound_until = np.inf, first
    while t < last:
        if pulls[arm] == due:
            begun += t == 0 or t >= len(pulls)  # the first round is one batch
            if t >= bound_until or arm_index(bandit, t, pulls[arm], wins[arm]) < bound:
                incumbent = arm
                if t < len(pulls):
                    arm = t
                else:
                    arm = best_arm(bandit, t, pulls, wins, incumbent)
                    bound_until = t + PATIENCE
                    bound = best_other_index(bandit, bound_until, pulls, wins, arm)
                switched += arm != incumbent
            due = next_trigger(bandit, pulls[arm])
        stop = min(last, bandit.curve_points[mark], t + due - pulls[arm])
        wins[arm] += pull_arm(tables.keys[run], t, stop, bandit.means[arm])
        pulls[arm] += stop - t
        t = stop
        if t == bandit.curve_points[mark]:
            write_costs(bandit, tables, run, mark, switched, begun)
            mark += 1
    tables.arm[run], tables.due[run], tables.switched[run], tables.begun[run] = (
        arm,
        due,
        switched,
        begun,
    )


@inline
def base_width(tau, T, A, gamma):
    """sqrt(gamma ln(T A) / tau), the distance from the best at which an arm is dropped: Gao et al.
    2019, Algorithm 1.
    """
    return math.sqrt(gamma * math.log(T * A) / tau)


@inline
def commit_width(s, T, c):
    """B_s = 2 sqrt(2 ln(2 T / s) / s), scaled by c: Perchet et al. 2016, section 3."""
    return c * 2.0 * math.sqrt(2.0 * math.log(2.0 * T / s) / s)


@inline
def phase_width(n, A, phases, p):
    """sqrt(ln(2 A I / p) / (2 n)): Hoeffding 1963, for A arms in I phases simultaneously."""
    return math.sqrt(math.log(2.0 * A * phases / p) / (2.0 * n))


@inline
def falls_behind(bandit, gap, n):
    """Whether to drop an arm whose mean is `gap` below the best.

    `n` is the smallest number of pulls among the remaining arms.
    """
    T, A = bandit.grid[-1], len(bandit.means)
    if bandit.kind == BASE:
        return gap >= base_width(n, T, A, bandit.constant)
    if bandit.kind == EXPLORE_THEN_COMMIT:
        return gap > 2.0 * commit_width(n, T, bandit.constant)
    return gap > 2.0 * phase_width(n, A, len(bandit.grid), bandit.constant)


@inline
def seen_mean(tables, run, a):
    """The mean reward of an arm; in LOG_LOG only over this phase."""
    return (tables.wins[run, a] - tables.old_wins[run, a]) / (
        tables.pulls[run, a] - tables.old_pulls[run, a]
    )


@inline
def leading_arm(tables, run):
    """The active arm with the largest mean.

    Ties go to the incumbent, then to the lowest arm.
    """
    arm = tables.arm[run]
    best = seen_mean(tables, run, arm) if tables.active[run, arm] else -np.inf
    for a in range(tables.active.shape[1]):
        if tables.active[run, a] and seen_mean(tables, run, a) > best:
            arm, best = a, seen_mean(tables, run, a)
    return arm


@part
def eliminate(bandit, tables, run):
    """Drop the arms that fall behind, and return how many remain.

    No arm is dropped while some remaining arm has no data.
    """
    active, fewest, count = tables.active[run], bandit.grid[-1], 0
    for a in range(len(active)):
        if active[a]:
            fewest = min(fewest, tables.pulls[run, a] - tables.old_pulls[run, a])
            count += 1
    if fewest > 0:
        best = seen_mean(tables, run, leading_arm(tables, run))
        for a in range(len(active)):
            if active[a] and falls_behind(bandit, best - seen_mean(tables, run, a), fewest):
                active[a] = False
                count -= 1
    return count


@part
def share(tables, run, size):
    """Divide a batch so that the active arms have equally many pulls after it.

    If they cannot, arms with a lower index get one more. The counts also differ by at most one
    before the batch, because all active arms have always been active.
    """
    left, total, count = tables.left[run], size, 0
    for a in range(len(left)):
        if tables.active[run, a]:
            total += tables.pulls[run, a] - tables.old_pulls[run, a]
            count += 1
    for a in range(len(left)):
        if tables.active[run, a]:
            left[a] = max(0, total // count - (tables.pulls[run, a] - tables.old_pulls[run, a]))
            size -= left[a]
    for a in range(len(left)):
        level = tables.pulls[run, a] - tables.old_pulls[run, a] + left[a] == total // count
        if tables.active[run, a] and level and size > 0:
            left[a] += 1
            size -= 1


@part
def plan_by_elimination(bandit, tables, run, t):
    """Plan the batch that begins after t pulls: Gao et al. 2019, Algorithm 1, Perchet et al. 2016,
    Cesa-Bianchi et al. 2013.

    A single remaining arm is played to the end. The last batch of a grid plays the best arm.
    LOG_LOG has no such batch: it divides its last phase too, and starts each phase with new
    estimates.
    """
    begun, T = tables.begun[run], bandit.grid[-1]
    count = eliminate(bandit, tables, run) if begun > 0 else len(bandit.means)
    last = bandit.kind != LOG_LOG and begun == len(bandit.grid) - 1
    if count == 1 or last:
        tables.left[run, leading_arm(tables, run)] = T - t
        return
    if bandit.kind == LOG_LOG:
        for a in range(len(bandit.means)):
            tables.old_pulls[run, a] = tables.pulls[run, a]
            tables.old_wins[run, a] = tables.wins[run, a]
    share(tables, run, bandit.grid[begun] - t)


@inline
def gamma_draw(key, shape):
    """Draw a Gamma(shape, 1) number from its own stream; `shape` is at least 1."""
    address = _0
    while True:
        first = 1.0 - uniform(noise(key, address))
        x = normal(first, uniform(noise(key, address + _1)))
        sample = gamma_trial(shape, x, 1.0 - uniform(noise(key, address + _2)))
        if sample >= 0.0:
            return sample
        address += _3


@inline
def beta_draw(key, x, y):
    """Draw a Beta(x, y) number: Gamma(x) / (Gamma(x) + Gamma(y)).

    The keys of their two streams are numbers 0 and 1 of the given one.
    """
    first = gamma_draw(noise(key, _0), x)
    return first / (first + gamma_draw(noise(key, _1), y))


@inline
def sampled_arm(key, t, pulls, wins):
    """The arm with the largest draw from its posterior Beta(1 + wins, 1 + losses): Thompson 1933.

    Arm a at pull t draws from its own stream, whose key is number t A + a of the run's posterior
    stream.
    """
    arm, best = 0, -1.0
    for a in range(len(pulls)):
        stream = noise(key, np.uint64(t * len(pulls) + a))
        sample = beta_draw(stream, 1.0 + wins[a], 1.0 + pulls[a] - wins[a])
        if sample > best:
            arm, best = a, sample
    return arm


@part
def plan_by_sampling(bandit, tables, run, t):
    """Plan the pulls up to the first after which an arm's count is a power of two: Karbasi,
    Mirrokni, Shadravan 2021, Algorithm 1.

    No reward is seen before the batch ends. So the number of pulls of each arm is known when the
    batch begins, and their order is free.
    """
    pulls, left = tables.pulls[run], tables.left[run]
    for i in range(t, bandit.grid[-1]):
        arm = sampled_arm(tables.posterior_keys[run], i, pulls, tables.wins[run])
        left[arm] += 1
        if next_trigger(bandit, pulls[arm] + left[arm] - 1) == pulls[arm] + left[arm]:
            break


@inline
def lowest_left(left):
    """The lowest arm that has pulls left in this batch, or -1."""
    for a in range(len(left)):
        if left[a] > 0:
            return a
    return -1


@part
def play_in_batches(bandit, tables, run, first, last):
    """Play pulls first .. last - 1 of one run, batch by batch.

    Each arm of a batch is played in one block: first the arm played last, then by index.
    """
    pulls, wins, left, switched, t = (
        tables.pulls[run],
        tables.wins[run],
        tables.left[run],
        tables.switched[run],
        first,
    )
    mark = next_mark(bandit, first)
    while t < last:
        arm = tables.arm[run]
        if left[arm] == 0:
            if lowest_left(left) < 0:
                if bandit.kind == BATCHED_THOMPSON:
                    plan_by_sampling(bandit, tables, run, t)
                else:
                    plan_by_elimination(bandit, tables, run, t)
                tables.begun[run] += 1
            if left[arm] == 0:
                switched += t > 0
                arm = lowest_left(left)
        stop = min(last, bandit.curve_points[mark], t + left[arm])
        wins[arm] += pull_arm(tables.keys[run], t, stop, bandit.means[arm])
        pulls[arm] += stop - t
        left[arm] -= stop - t
        tables.arm[run] = arm
        t = stop
        if t == bandit.curve_points[mark]:
            write_costs(bandit, tables, run, mark, switched, tables.begun[run])
            mark += 1
    tables.switched[run] = switched


@entry
def play_bandits(bandit, tables, first_run, last_run, first, last):
    """Play pulls first .. last - 1 of each of these runs."""
    for run in range(first_run, last_run):
        if bandit.kind == UCB1 or bandit.kind == UCB2:
            play_by_index(bandit, tables, run, first, last)
        else:
            play_in_batches(bandit, tables, run, first, last)
