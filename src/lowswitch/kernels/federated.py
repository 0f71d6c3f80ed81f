"""FedQ: M machines play one policy in a round, and its end teaches the sums of what all saw.

Episode k is played by machine k mod M. A round consists of whole turns, in which every machine
plays one episode, and ends by the visits of one machine. All values are fixed during a round. So
the sums of the machines can be added up as their visits come, in the order of the episodes.

FederatedSpec is FedQ-Hoeffding and FedQ-Bernstein, FederatedStageSpec is FedQ-Advantage, and
FederatedSettledSpec has the estimates of Q-EarlySettled-Advantage.
"""

import numpy as np

from lowswitch.kernels.arrays import NEVER, FederatedSettledSpec, FederatedSpec, FederatedStageSpec
from lowswitch.kernels.compile import inline, part
from lowswitch.kernels.kinds import by_kind
from lowswitch.kernels.qlearning import (
    HOEFFDING,
    QUIET,
    bernstein_width,
    best_of_others,
    hoeffding_width,
    learning_rate,
    variance,
)
from lowswitch.kernels.settled import settle_reference, settled_width, spread
from lowswitch.kernels.stages import end_stage, note_advantage

# ---- rounds --------------------------------------------------------------------------------------


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
def gathered(in_order, alpha, total, new):
    """The sum over a round with one visit more: with the weights of Q-learning, or a plain sum."""
    return (1 - alpha) * total + alpha * new if in_order else total + new


@inline
def weighted_sum(in_order, kept, count, total):
    """The sum of weights times visits: with many visits, each has the same weight, so machines need
    to send only sums: Zheng et al. 2024, Algorithm 1.
    """
    return total if in_order else (1 - kept) * (total / count)


@inline
def fill_quota(spec, tables, i):
    """Count a visit of the machine that plays; the round ends after this turn if that is enough."""
    mine = np.uint64(i * spec.machines + tables.turn[0]["machine"])
    tables.seen[mine] += 1
    if tables.seen[mine] == tables.cells[np.uint64(i)]["due"]:
        tables.turn[0]["ends"] = 1


@inline
def end_turn(spec, tables):
    """Let the next machine play; return whether the round ends, which the last machine decides."""
    turn = tables.turn[0]
    turn["machine"] = (turn["machine"] + 1) % spec.machines
    return turn["machine"] == 0 and turn["ends"] > 0


# ---- FedQ-Hoeffding and FedQ-Bernstein -----------------------------------------------------------


@inline
def count_round_visit(spec, cell):
    """Count a visit, with all that does not depend on its outcome; return its learning rate."""
    n = cell["visits"] + 1
    alpha = learning_rate(n, spec.H)
    cell["visits"] = n
    cell["kept"] = (1 - alpha) * cell["kept"]
    if spec.bonus == HOEFFDING:
        width = hoeffding_width(1.0 / n, spec.c2, spec.hoeffding_scale)
        cell["bonus"] = gathered(True, alpha, cell["bonus"], width)
    return alpha


@inline
def note_round_visit(spec, tables, h, x, a, action, reward, y):
    """Add a visit to the sums of the round: Zheng et al. 2024, Algorithm 2."""
    here = h * spec.S + x
    i = here * spec.A + a
    cell = tables.cells[np.uint64(i)]
    next_value = tables.rows[np.uint64(here - x + spec.S + y)]["value"]
    alpha = count_round_visit(spec, cell)
    in_order = learns_in_order(cell["round"], spec.machines, spec.H)
    cell["total"] = gathered(in_order, alpha, cell["total"], reward + next_value)
    if spec.bonus != HOEFFDING:
        moments = tables.moments[np.uint64(i)]
        moments["total"] = moments["total"] + next_value
        moments["squares"] = moments["squares"] + next_value * next_value
    fill_quota(spec, tables, i)
    return QUIET


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
def learn_sums(spec, tables, i):
    """Estimate cell i from the sums of a round: Zheng et al. 2024, Algorithm 1."""
    cell = tables.cells[i]
    count, kept, bonus = cell["visits"] - cell["round"], cell["kept"], round_bonus(spec, tables, i)
    in_order = learns_in_order(cell["round"], spec.machines, spec.H)
    cell["q"] = kept * cell["q"] + weighted_sum(in_order, kept, count, cell["total"]) + bonus
    tables.clock[0]["drowned"] += count * (bonus > (1 - kept) * spec.H)
    cell["kept"] = 1.0
    cell["total"] = cell["bonus"] = 0.0
    return round_quota(cell["visits"], spec.machines, spec.H)


@inline
def close_row(spec, tables, here):
    """Do nothing more for a row without a reference."""


# ---- FedQ-Advantage ------------------------------------------------------------------------------


@inline
def stage_quota(before, count, machines, H):
    """The visits of one machine that end a round, if its stage had `count` visits before the round
    and the stage before it had `before`: after Zheng, Zhang, Xue 2025.

    1 in the first stage; then ceil((before - count) / M) as long as count <= (1 - 1/H) before, and
    floor(before / (M H)) after that.
    """
    if before == 0:
        return 1
    if count * H <= (H - 1) * before:
        return (before - count + machines - 1) // machines
    return before // (machines * H)


@inline
def stage_is_over(before, count, machines, H):
    """Whether a stage has M H visits, the first one, or 1 + 1/H times as many as the stage before:
    after Zheng, Zhang, Xue 2025.
    """
    return count >= machines * H if before == 0 else count * H >= (H + 1) * before


@inline
def note_stage_visit(spec, tables, h, x, a, action, reward, y):
    """Add a visit to the sums of its stage: after Zheng, Zhang, Xue 2025."""
    here = h * spec.S + x
    i, there = here * spec.A + a, here - x + spec.S + y
    cell, next_value = tables.cells[np.uint64(i)], tables.rows[np.uint64(there)]["value"]
    cell["visits"] = cell["visits"] + 1
    cell["total"] = cell["total"] + (reward + next_value)
    note_advantage(spec, tables, i, there, reward, next_value)
    fill_quota(spec, tables, i)
    return QUIET


@part
def learn_stage(spec, tables, i):
    """End the stage of cell i if it has enough visits: after Zheng, Zhang, Xue 2025."""
    cell = tables.cells[i]
    n, M, H = cell["visits"], spec.machines, spec.H
    count = n - cell["begin"]
    if stage_is_over(cell["before"], count, M, H):
        end_stage(spec, tables, 1.0, 0, i, n)
        cell["before"], count = count, 0
    return stage_quota(cell["before"], count, M, H)


@part
def close_stage_row(spec, tables, here):
    """Update the lower value and the reference of a row, which stays once enough is known."""
    row, visits = tables.rows[here], 0
    for a in range(spec.A):
        cell = tables.cells[here * spec.A + a]
        visits, row["lower"] = visits + cell["visits"], max(row["lower"], cell["lower"])
    row["visits"] = visits
    if spec.reference == 0:
        settle_reference(row, spec.settle)
    elif row["settled"] == 0 and visits >= spec.reference:
        row["reference"], row["settled"] = row["value"], 1


# ---- Q-EarlySettled-Advantage in rounds ----------------------------------------------------------


@inline
def count_settled_visit(spec, cell):
    """Count a visit, with all that does not depend on its outcome; return its learning rate."""
    n = cell["visits"] + 1
    alpha = learning_rate(n, spec.H)
    cell["visits"] = n
    cell["kept"] = (1 - alpha) * cell["kept"]
    width = hoeffding_width(1.0 / n, spec.c, spec.hoeffding_scale)
    cell["bonus"] = gathered(True, alpha, cell["bonus"], width)
    cell["rest"] = gathered(True, alpha, cell["rest"], 1.0 / n**0.75)
    return alpha


@inline
def note_settled_visit(spec, tables, h, x, a, action, reward, y):
    """Add a visit to the sums of the round, for upper and lower values, references and advantages.

    The sum of the rests has the weights of Q-learning: sum of theta_t / t^(3/4).
    """
    here = h * spec.S + x
    i = here * spec.A + a
    cell = tables.cells[np.uint64(i)]
    following = tables.rows[np.uint64(here - x + spec.S + y)]
    alpha, reference = count_settled_visit(spec, cell), following["reference"]
    advantage = following["value"] - reference
    in_order = learns_in_order(cell["round"], spec.machines, spec.H)
    cell["reference"] = cell["reference"] + reference
    cell["reference_squares"] = cell["reference_squares"] + reference * reference
    cell["total"] = gathered(in_order, alpha, cell["total"], reward + following["value"])
    cell["reward"] = gathered(in_order, alpha, cell["reward"], reward)
    lower = reward + following["lower"]
    cell["lower_total"] = gathered(in_order, alpha, cell["lower_total"], lower)
    cell["gain"] = gathered(in_order, alpha, cell["gain"], advantage)
    cell["gain_squares"] = gathered(in_order, alpha, cell["gain_squares"], advantage * advantage)
    fill_quota(spec, tables, i)
    return QUIET


@part
def learn_settled(spec, tables, i):
    """Update all three estimates of cell i from the sums of a round.

    Li et al. 2021, Algorithm 1, with the weights of Zheng et al. 2024, Algorithm 1. The bonuses of
    the estimate by references sum up to B_t1 - kept B_t0 and their rests.
    """
    cell = tables.cells[i]
    n, kept = cell["visits"], cell["kept"]
    count, share, new = n - cell["round"], 1.0 / n, 1 - kept
    in_order = learns_in_order(cell["round"], spec.machines, spec.H)
    gain = weighted_sum(in_order, kept, count, cell["gain"])
    gain_squares = weighted_sum(in_order, kept, count, cell["gain_squares"])
    total = weighted_sum(in_order, kept, count, cell["total"])
    lower = weighted_sum(in_order, kept, count, cell["lower_total"])
    cell["upper"] = kept * cell["upper"] + total + cell["bonus"]
    cell["lower"] = kept * cell["lower"] + lower - cell["bonus"]
    cell["advantage"] = kept * cell["advantage"] + gain
    cell["advantage_squares"] = kept * cell["advantage_squares"] + gain_squares
    mean = cell["reference"] * share
    of_reference = spread(mean, cell["reference_squares"] * share)
    of_advantage = spread(cell["advantage"], cell["advantage_squares"])
    width = spec.c * settled_width(spec.H, spec.iota, n, of_reference, of_advantage)
    bonus = width - kept * cell["width"] + spec.c * spec.H * spec.H * spec.iota * cell["rest"]
    reward = weighted_sum(in_order, kept, count, cell["reward"])
    learned = reward + gain + new * mean + bonus
    cell["by_reference"] = kept * cell["by_reference"] + learned
    cell["q"] = min(cell["q"], min(cell["upper"], cell["by_reference"]))
    tables.clock[0]["drowned"] += count * (min(cell["bonus"], bonus) > new * spec.H)
    cell["width"], cell["kept"] = width, 1.0
    cell["total"] = cell["lower_total"] = cell["gain"] = cell["gain_squares"] = 0.0
    cell["bonus"] = cell["rest"] = cell["reward"] = 0.0
    return round_quota(n, spec.machines, spec.H)


@part
def close_settled_row(spec, tables, here):
    """Update the lower value and the reference of a row."""
    row = tables.rows[here]
    for a in range(spec.A):
        row["lower"] = max(row["lower"], tables.cells[here * spec.A + a]["lower"])
    settle_reference(row, spec.settle)


# ---- the end of a round --------------------------------------------------------------------------

# learn the sums of a cell; return the visits of one machine that end the next round
learn_cell = by_kind(
    "learn_cell",
    {
        FederatedSpec: learn_sums,
        FederatedStageSpec: learn_stage,
        FederatedSettledSpec: learn_settled,
    },
)
# what a row learns beside its value
close_visited = by_kind(
    "close_visited",
    {
        FederatedSpec: close_row,
        FederatedStageSpec: close_stage_row,
        FederatedSettledSpec: close_settled_row,
    },
)


@part
def learn_row(spec, tables, here):
    """Learn the visits of a round to a row; a row without visits stays as it is."""
    row, own, others = tables.rows[here], False, False
    for a in range(spec.A):
        i = here * spec.A + a
        cell = tables.cells[i]
        if cell["visits"] > cell["round"]:
            quota = learn_cell(spec, tables, i)
            cell["round"] = cell["visits"]
            if cell["due"] != NEVER:
                cell["due"] = quota
            tables.seen[i * spec.machines : (i + 1) * spec.machines] = 0
            own, others = own or a == row["action"], others or a != row["action"]
    if others:  # told off-policy
        row["best_other"] = best_of_others(spec, tables, here, row["action"])
    if own or others:
        q = tables.cells[here * spec.A + row["action"]]["q"]
        row["value"] = min(spec.caps[here // spec.S], max(q, row["best_other"]))
        close_visited(spec, tables, here)


@part
def end_round(spec, tables):
    """Learn all sums of the round; return True, because the wanted policy is known now."""
    for here in range(spec.H * spec.S):
        learn_row(spec, tables, here)
    tables.turn[0]["ends"] = 0
    return True
