"""FedQ: M machines play one policy in a round, and its end teaches the sums of what all saw.

Zheng, Gao, Xue, Yang 2024, Algorithms 1 and 2. Episode k is played by machine k mod M, and a round
consists of whole turns, in which every machine plays one episode. Values are fixed during a round.
So the sums of the machines can be added up as their visits come, in the order of the episodes.
"""

import numpy as np

from lowswitch.kernels.arrays import NEVER
from lowswitch.kernels.compile import inline, part
from lowswitch.kernels.qlearning import (
    HOEFFDING,
    QUIET,
    bernstein_width,
    best_of_others,
    hoeffding_width,
    learning_rate,
    variance,
)


@inline
def round_quota(n, machines, H):
    """max{1, floor(N / (M H (H + 1)))}: the visits of one machine that end a round, if all machines
    had N before it: Zheng et al. 2024, Algorithm 2.
    """
    return max(1, n // (machines * H * (H + 1)))


@inline
def learns_in_order(n, machines, H):
    """N < i_0 = 2 M H (H + 1): the round has at most one visit of each machine, and the visits have
    the weights of Q-learning: Zheng et al. 2024, Algorithm 1, case 1.
    """
    return n < 2 * machines * H * (H + 1)


@inline
def note_round_visit(spec, tables, h, x, a, action, reward, y):
    """Add a visit to the sums of the round, and end the round after this turn if it fills a quota.

    The sum of the bonuses has the weights theta of Q-learning in both cases.
    """
    here = h * spec.S + x
    i = here * spec.A + a
    cell = tables.cells[np.uint64(i)]
    n = cell["visits"] + 1
    next_value = tables.rows[np.uint64(here - x + spec.S + y)]["value"]
    alpha, share, target = learning_rate(n, spec.H), 1.0 / n, reward + next_value
    cell["visits"] = n
    cell["kept"] = (1 - alpha) * cell["kept"]
    cell["total"] = cell["total"] + target
    cell["weighted"] = (1 - alpha) * cell["weighted"] + alpha * target
    if spec.bonus == HOEFFDING:
        width = hoeffding_width(share, spec.c2, spec.hoeffding_scale)
        cell["bonus"] = (1 - alpha) * cell["bonus"] + alpha * width
    else:
        moments = tables.moments[np.uint64(i)]
        moments["total"] = moments["total"] + next_value
        moments["squares"] = moments["squares"] + next_value * next_value
    mine = np.uint64(i * spec.machines + tables.turn[0]["machine"])
    tables.seen[mine] += 1
    if tables.seen[mine] == cell["due"]:
        tables.turn[0]["ends"] = 1
    return QUIET


@inline
def end_turn(spec, tables):
    """Let the next machine play; return whether the round ends, which the last machine decides."""
    turn = tables.turn[0]
    turn["machine"] = (turn["machine"] + 1) % spec.machines
    return turn["machine"] == 0 and turn["ends"] > 0


@inline
def round_bonus(spec, tables, i):
    """The bonus of the visits of a round: Zheng et al. 2024, eq. (3) and Algorithm 3.

    Hoeffding: sum of theta_t b_t over its visits. Bernstein: (beta_t1 - kept beta_t0) / 2.
    """
    cell = tables.cells[i]
    if spec.bonus == HOEFFDING:
        return cell["bonus"]
    moments, share = tables.moments[i], 1.0 / cell["visits"]
    width = bernstein_width(spec, share, variance(moments["total"], moments["squares"], share))
    bonus = 0.5 * (width - cell["kept"] * moments["width"])
    moments["width"] = width
    return bonus


@part
def learn_round(spec, tables, i):
    """Estimate cell i from the sums of a round, and begin the next one.

    Zheng et al. 2024, Algorithm 1, cases 1 and 2. With many visits each of them has the same
    weight, so machines need to send only sums.
    """
    cell = tables.cells[i]
    count, kept, bonus = cell["visits"] - cell["begin"], cell["kept"], round_bonus(spec, tables, i)
    if learns_in_order(cell["begin"], spec.machines, spec.H):
        learned = cell["weighted"]
    else:
        learned = (1 - kept) * (cell["total"] / count)
    cell["q"] = kept * cell["q"] + learned + bonus
    tables.clock[0]["drowned"] += count * (bonus > (1 - kept) * spec.H)
    cell["begin"], cell["kept"] = cell["visits"], 1.0
    cell["total"] = cell["weighted"] = cell["bonus"] = 0.0
    if cell["due"] != NEVER:
        cell["due"] = round_quota(cell["visits"], spec.machines, spec.H)
    tables.seen[i * spec.machines : (i + 1) * spec.machines] = 0


@part
def end_round(spec, tables):
    """Learn all sums of the round; return True, because the wanted policy is known now."""
    for here in range(spec.H * spec.S):
        row, own, others = tables.rows[here], False, False
        for a in range(spec.A):
            i = here * spec.A + a
            if tables.cells[i]["visits"] > tables.cells[i]["begin"]:
                learn_round(spec, tables, i)
                own, others = own or a == row["action"], others or a != row["action"]
        if others:  # told off-policy
            row["best_other"] = best_of_others(spec, tables, here, row["action"])
        if own or others:
            q = tables.cells[here * spec.A + row["action"]]["q"]
            row["value"] = min(spec.caps[here // spec.S], max(q, row["best_other"]))
    tables.turn[0]["ends"] = 0
    return True
