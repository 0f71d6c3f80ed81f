"""Machines that send sums: a machine adds up what it saw in a round, and FedQ learns from the sums.

All values are fixed during a round. So a machine can add up the values of the states that followed
each row, and nobody needs to know its episodes.
"""

from lowswitch.kernels.arrays import FederatedSettledSpec, FederatedSpec, FederatedStageSpec
from lowswitch.kernels.compile import entry, inline, part
from lowswitch.kernels.deploy import end_episode
from lowswitch.kernels.federated import (
    count_round_visit,
    count_settled_visit,
    gathered,
    learns_in_order,
)
from lowswitch.kernels.kinds import by_kind
from lowswitch.kernels.qlearning import HOEFFDING
from lowswitch.kernels.rounds import last_episode, note_learned
from lowswitch.kernels.values import settle

# the sums of a row, of visits with reward r whose successor has value V, lower value L, reference R
REWARD_AND_VALUE, REWARD, REWARD_AND_LOWER, REFERENCE, REFERENCE_SQUARES = 0, 1, 2, 3, 4
GAIN, GAIN_SQUARES, VALUE, VALUE_SQUARES, SUMS = 5, 6, 7, 8, 9  # gain: V - R

# ---- on a machine --------------------------------------------------------------------------------


@entry
def first_full_turn(states, due, seen):
    """The number of turns [T, b, H] after which a machine has visited a row `due` [H, S] times.

    0 if there is no such turn. `seen` [b, H, S] is work space of zeros.
    """
    for t in range(states.shape[0]):
        full = False
        for m in range(states.shape[1]):
            for h in range(states.shape[2]):
                x = states[t, m, h]
                seen[m, h, x] += 1
                full = full or seen[m, h, x] == due[h, x]
        if full:
            return t + 1
    return 0


@entry
def sum_turns(states, rewards, values, lowers, references, first, last, counts, sums):
    """Add up turns first .. last - 1 of every machine, states and rewards [T, b, H].

    Values, lower values and references are [H, S]; writes counts [b, H, S] and sums [b, H, S, 9].
    """
    H = states.shape[2]
    for t in range(first, last):
        for m in range(states.shape[1]):
            for h in range(H):
                x, reward, value, lower, reference = (
                    states[t, m, h],
                    rewards[t, m, h],
                    0.0,
                    0.0,
                    0.0,
                )
                if h + 1 < H:
                    y = states[t, m, h + 1]
                    value, lower = values[h + 1, y], lowers[h + 1, y]
                    reference = references[h + 1, y]
                counts[m, h, x] += 1
                row, gain = sums[m, h, x], value - reference
                row[REWARD_AND_VALUE] += reward + value
                row[REWARD] += reward
                row[REWARD_AND_LOWER] += reward + lower
                row[REFERENCE] += reference
                row[REFERENCE_SQUARES] += reference * reference
                row[GAIN] += gain
                row[GAIN_SQUARES] += gain * gain
                row[VALUE] += value
                row[VALUE_SQUARES] += value * value


# ---- in the learner ------------------------------------------------------------------------------


@part
def take_round_sums(spec, tables, i, count, sums):
    """`note_round_visit` for all visits of a machine to cell i in a round."""
    cell, alpha = tables.cells[i], 0.0
    for _ in range(count):
        alpha = count_round_visit(spec, cell)
    in_order = learns_in_order(cell["round"], spec.machines, spec.H)
    cell["total"] = gathered(in_order, alpha, cell["total"], sums[REWARD_AND_VALUE])
    if spec.bonus != HOEFFDING:
        moments = tables.moments[i]
        moments["total"] = moments["total"] + sums[VALUE]
        moments["squares"] = moments["squares"] + sums[VALUE_SQUARES]


@part
def take_stage_sums(spec, tables, i, count, sums):
    """`note_stage_visit` for all visits of a machine to cell i in a round."""
    cell = tables.cells[i]
    cell["visits"] = cell["visits"] + count
    cell["total"] = cell["total"] + sums[REWARD_AND_VALUE]
    cell["reward"] = cell["reward"] + sums[REWARD]
    cell["lower_total"] = cell["lower_total"] + sums[REWARD_AND_LOWER]
    cell["reference"] = cell["reference"] + sums[REFERENCE]
    cell["reference_squares"] = cell["reference_squares"] + sums[REFERENCE_SQUARES]
    cell["advantage"] = cell["advantage"] + sums[GAIN]
    cell["advantage_squares"] = cell["advantage_squares"] + sums[GAIN_SQUARES]


@part
def take_settled_sums(spec, tables, i, count, sums):
    """`note_settled_visit` for all visits of a machine to cell i in a round."""
    cell, alpha = tables.cells[i], 0.0
    for _ in range(count):
        alpha = count_settled_visit(spec, cell)
    in_order = learns_in_order(cell["round"], spec.machines, spec.H)
    cell["reference"] = cell["reference"] + sums[REFERENCE]
    cell["reference_squares"] = cell["reference_squares"] + sums[REFERENCE_SQUARES]
    cell["total"] = gathered(in_order, alpha, cell["total"], sums[REWARD_AND_VALUE])
    cell["reward"] = gathered(in_order, alpha, cell["reward"], sums[REWARD])
    cell["lower_total"] = gathered(in_order, alpha, cell["lower_total"], sums[REWARD_AND_LOWER])
    cell["gain"] = gathered(in_order, alpha, cell["gain"], sums[GAIN])
    cell["gain_squares"] = gathered(in_order, alpha, cell["gain_squares"], sums[GAIN_SQUARES])


# take in what a machine saw of a cell
take_cell = by_kind(
    "take_cell",
    {
        FederatedSpec: take_round_sums,
        FederatedStageSpec: take_stage_sums,
        FederatedSettledSpec: take_settled_sums,
    },
)


@inline
def take_machine(spec, tables, rounds, m, rows, counts, sums):
    """Take in the sums [n, 9] of machine m about rows [n] with so many visits [n]."""
    for j in range(len(rows)):
        i = rows[j] * spec.A + tables.rows[rows[j]]["action"]
        take_cell(spec, tables, i, counts[j], sums[j])
        seen = i * spec.machines + m
        tables.seen[seen] += counts[j]
        if tables.seen[seen] >= tables.cells[i]["due"]:
            tables.turn[0]["ends"] = 1


@inline
def pass_marks(log, rounds, first, played, turn, machines, earned):
    """Fill in the checkpoints before the last episode, from the rewards earned until each."""
    totals, j = rounds.totals[0], 0
    while log.curve_points[totals["passed"]] < first + turn * machines:
        mark = totals["passed"]
        rounds.curve[mark] = played + (log.curve_points[mark] - 1 - first) // machines + 1
        rounds.earned_curve[mark] = totals["earned"] + earned[j]
        totals["passed"], j = mark + 1, j + 1


@entry
def take_sums(
    spec,
    tables,
    model,
    evaluation,
    log,
    account,
    window,
    rounds,
    turns,
    spent,
    starts,
    rows,
    counts,
    sums,
    earned,
):
    """Learn `turns` turns of all machines from their sums, and end the round if it is over.

    Machine m sent rows, counts and sums from starts[m] to starts[m + 1]. `earned` has the rewards
    until each checkpoint on the way, and in total; `spent` is how many turns were played.
    """
    totals, before = rounds.totals[0], log.logged[0]
    first, played = totals["learned"], totals["rounds"]
    for m in range(spec.machines):
        a, b = starts[m], starts[m + 1]
        take_machine(spec, tables, rounds, m, rows[a:b], counts[a:b], sums[a:b])
    pass_marks(log, rounds, first, played, turns, spec.machines, earned)
    totals["earned"] += earned[-1]
    totals["rounds"] += spent
    tables.turn[0]["machine"] = spec.machines - 1  # the turn of the last one ends
    k = first + turns * spec.machines - 1
    changed, triggered = end_episode(spec, tables, log.changes, before, k, 0, False)
    note_learned(log, rounds, window, k, changed, triggered)
    if evaluation.wanted:
        settle(model, evaluation, account, log.changes[before : before + changed], changed, k + 1)
    if rounds.pause and changed > 0:
        totals["last"] = last_episode(account, rounds)
