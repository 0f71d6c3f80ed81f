"""The counts of planners: visits, rewards, and successors in blocks of one growing pool."""

from lowswitch.kernels.compile import entry, inline, part
from lowswitch.kernels.qlearning import QUIET, TRIGGERED
from lowswitch.kernels.schedule import is_spent, next_growth, next_trigger

# when plans use the data of an (h, x, a): see `Planning.data`
CURRENT, ALL, NEWEST = 0, 1, 2


@part
def move_block(tables, record, room):
    """Give a record a larger block at the end of the pool."""
    start = tables.clock[0]["pool"]
    for j in range(record["size"]):
        tables.pool[start + j] = tables.pool[record["start"] + j]
    tables.clock[0]["pool"] = start + room
    record["start"] = start
    record["room"] = room


@inline
def pool_is_full(spec, tables):
    """Whether the pool may lack room for the successors of one more episode."""
    return tables.clock[0]["pool"] + spec.spare > len(tables.pool)


@inline
def count_successor(spec, tables, record, y, count):
    """Add `count` transitions to state y; the pool has room for them."""
    size = record["size"]
    found = False
    for j in range(record["start"], record["start"] + size):
        if tables.pool[j]["state"] == y:
            tables.pool[j]["count"] += count
            found = True
            break
    if not found:
        if size == record["room"]:
            move_block(tables, record, min(spec.S, max(2, 2 * size)))
        tables.pool[record["start"] + size]["state"] = y
        tables.pool[record["start"] + size]["count"] = count
        record["size"] = size + 1
    record["followed"] += count


@part
def take_over(spec, tables, i):
    """Move the fresh data of a cell into the data of its plans: MVP, at its triggers."""
    fresh, record = tables.fresh[i], tables.records[i]
    if spec.data == NEWEST:
        record["n"] = record["followed"] = record["size"] = 0
        record["total"] = record["squares"] = 0.0
    for j in range(fresh["start"], fresh["start"] + fresh["size"]):
        count_successor(spec, tables, record, tables.pool[j]["state"], tables.pool[j]["count"])
    record["n"] += fresh["n"]
    record["total"] += fresh["total"]
    record["squares"] += fresh["squares"]
    fresh["n"] = fresh["followed"] = fresh["size"] = 0
    fresh["total"] = fresh["squares"] = 0.0
    tables.dirty[i] = True


@inline
def note_visit(spec, tables, h, x, a, action, reward, y):
    """Count one transition (the last step has no successor); return whether it was a trigger."""
    i = h * spec.stride + x * spec.A + a
    place = (h * spec.S + x) * spec.A + a
    cell = tables.cells[i]
    tables.visits[place] += 1
    tables.clock[0]["drowned"] += tables.drowned[place]
    n = cell["visits"] + 1
    cell["visits"] = n
    late = law_is_late(spec, tables, i, h, n)
    if is_data(spec, tables, i, h, n):
        add_visit(spec, tables, i, h, reward, y)
    if n != cell["due"] and not late:
        return QUIET
    cell["due"] = next_trigger(spec, n)
    if spec.data != CURRENT:
        take_over(spec, tables, i)
    return TRIGGERED


@inline
def followed(spec, tables, i):
    """The number of recorded visits of a cell that have a successor."""
    planned = tables.records[i]["followed"]
    return planned if spec.data == CURRENT else planned + tables.fresh[i]["followed"]


@inline
def law_is_late(spec, tables, i, h, n):
    """Whether visit n of a cell, at step h, is its first with a successor and follows a trigger.

    With pooled counts, visits at the last step may use up every trigger before the law is known.
    """
    if not spec.waits_for_law or h + 1 == spec.H or followed(spec, tables, i) > 0:
        return False
    return n > next_trigger(spec, 0) and not is_spent(tables.clock[0], spec.timing)


@inline
def is_data(spec, tables, i, h, n):
    """Whether visit n of a cell at step h is data: one of its first `most_visits` visits.

    With pooled counts, the first `most_visits` visits that have a successor are data too.
    """
    if n <= spec.most_visits:
        return True
    has_successor = spec.waits_for_law and h + 1 < spec.H
    return has_successor and followed(spec, tables, i) < spec.most_visits


@inline
def add_visit(spec, tables, i, h, reward, y):
    """Record one transition of cell i."""
    record = tables.records[i] if spec.data == CURRENT else tables.fresh[i]
    record["n"] += 1
    record["total"] += reward
    record["squares"] += reward * reward
    if h + 1 < spec.H:
        count_successor(spec, tables, record, y, 1)
    if spec.data == CURRENT:
        tables.dirty[i] = True


@entry
def note_batch(spec, tables, states, actions, rewards, first):
    """Count episodes [B, H] from number `first` on, without deploying anything.

    Return the first episode for which the pool may lack room, or B.
    """
    b = first
    while b < states.shape[0] and not pool_is_full(spec, tables):
        for h in range(spec.H):
            y = states[b, h + 1] if h + 1 < spec.H else 0
            a = actions[b, h]
            note_visit(spec, tables, h, states[b, h], a, a, rewards[b, h], y)
        tables.earlier[0] += 1
        b += 1
    if spec.timing.factor > 0:
        for i in range(len(tables.cells)):
            tables.cells[i]["due"] = next_growth(spec.timing, tables.cells[i]["visits"])
    return b


@entry
def spread_successors(spec, tables, successors):
    """Write how often each state followed into successors [cells, S]."""
    for i in range(len(tables.records)):
        record = tables.records[i]
        for j in range(record["start"], record["start"] + record["size"]):
            successors[i, tables.pool[j]["state"]] = tables.pool[j]["count"]
