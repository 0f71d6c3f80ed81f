"""The one place where the deployed policy changes: `switch_row` deploys a change of the log.

A learner wants one policy while another is deployed. A schedule says when a row, or all rows, may
change. Then the change is logged, as far as the budget allows, and meets the gate, which counts it.
If the gate is open, the change is deployed. In review it is proposed to a board, and the approved
changes come back through an open gate with `pass_rows`. The kind of learner makes no difference
here, except in the short functions that are chosen `by_kind`.
"""

import numpy as np

from lowswitch.kernels.arrays import (
    ACTION,
    EPISODE,
    OPEN,
    STATE,
    STEP,
    WAITING,
    FederatedSettledSpec,
    FederatedSpec,
    FederatedStageSpec,
    MixtureSpec,
    PlanSpec,
    RandomizedSpec,
    RowSpec,
    SettledSpec,
    SettlingStageSpec,
    StageSpec,
)
from lowswitch.kernels.compile import NOTHING, entry, inline, part
from lowswitch.kernels.counts import note_visit, pool_is_full
from lowswitch.kernels.federated import (
    end_turn,
    note_round_visit,
    note_settled_visit,
    note_stage_visit,
)
from lowswitch.kernels.kinds import always, by_kind, never, of_rows
from lowswitch.kernels.mixtures import learn_together, note_gap, note_step
from lowswitch.kernels.noise import noise, uniform
from lowswitch.kernels.qlearning import DUE, QUIET, digest_visit, own_best, set_own
from lowswitch.kernels.randomized import digest_randomized
from lowswitch.kernels.schedule import freeze_if_spent, next_growth, refresh_is_due
from lowswitch.kernels.settled import digest_settled
from lowswitch.kernels.stages import digest_stage
from lowswitch.kernels.targets import differs, make_wanted, states_at_stake

# ---- the deployed policy -------------------------------------------------------------------------


@inline
def row_action(spec, tables, member, h, x):
    return tables.rows[np.uint64(h * spec.S + x)]["action"]


@inline
def policy_action(spec, tables, member, h, x):
    return tables.policy[(member * spec.H + h) * spec.S + x]


deployed_action = of_rows("deployed_action", row_action, policy_action)


@inline
def only_member(spec, tables, k):
    return 0


@inline
def drawn_member(spec, tables, k):
    """Which of the deployed policies plays episode k: number k of the stream of members."""
    if spec.members == 1:
        return 0
    return np.int64(uniform(noise(tables.keys[0]["members"], np.uint64(k))) * spec.members)


member_for = of_rows("member_for", only_member, drawn_member)


# ---- learning ------------------------------------------------------------------------------------


@inline
def digest_row(spec, tables, h, x, a, action, reward, y):
    return digest_visit(spec, tables, 1.0, 0, h, x, a, action, reward, y)


@inline
def digest_stage_row(spec, tables, h, x, a, action, reward, y):
    return digest_stage(spec, tables, 1.0, 0, h, x, a, action, reward, y)


# learn one transition, where `action` is the deployed one; return QUIET, TRIGGERED or DUE
learn_step = by_kind(
    "learn_step",
    {
        RowSpec: digest_row,
        StageSpec: digest_stage_row,
        SettlingStageSpec: digest_stage_row,
        SettledSpec: digest_settled,
        RandomizedSpec: digest_randomized,
        FederatedSpec: note_round_visit,
        FederatedStageSpec: note_stage_visit,
        FederatedSettledSpec: note_settled_visit,
        PlanSpec: note_visit,
        MixtureSpec: note_step,
    },
)


@inline
def pass_over(spec, tables, h, x):
    """Do nothing for a step that is not learned."""


# leave out step h, in state x
skip_step = by_kind(
    "skip_step",
    {RowSpec: pass_over, StageSpec: pass_over, PlanSpec: pass_over, MixtureSpec: note_gap},
)


@inline
def all_members_learn(spec, tables):
    return learn_together(spec, tables)


# learn at the end of an episode; return whether it had a trigger
learn_rest = by_kind(
    "learn_rest",
    {
        RowSpec: never,
        StageSpec: never,
        FederatedSpec: end_turn,
        FederatedStageSpec: end_turn,
        FederatedSettledSpec: end_turn,
        PlanSpec: never,
        MixtureSpec: all_members_learn,
    },
)
# whether an episode may lack room for its successors
lacks_room = by_kind(
    "lacks_room", {RowSpec: never, StageSpec: never, PlanSpec: pool_is_full, MixtureSpec: never}
)
# whether a trigger lets all rows change, not only its own
wants_anew = by_kind(
    "wants_anew",
    {
        RowSpec: never,
        FederatedSpec: always,
        FederatedStageSpec: always,
        FederatedSettledSpec: always,
        PlanSpec: always,
        MixtureSpec: always,
    },
)


# ---- the switch ----------------------------------------------------------------------------------


@inline
def every_change(spec, tables, here, changes, i):
    return True


@inline
def law_differs(spec, tables, here, changes, i):
    """Whether change i changes how many members play some action of row `here`."""
    rows = spec.H * spec.S
    for m in range(spec.members):
        tables.tally[tables.policy[m * rows + here]] += 1
        tables.tally[changes[i, ACTION + m]] -= 1
    same = True
    for a in range(spec.A):
        same = same and tables.tally[a] == 0
        tables.tally[a] = 0
    return not same


@part
def times_among(spec, tables, m, policies):
    """How often the deployed policy of member m is among policies [L * H * S]."""
    rows, times = spec.H * spec.S, 0
    for other in range(spec.members):
        here = 0
        while here < rows and tables.policy[m * rows + here] == policies[other * rows + here]:
            here += 1
        times += here == rows
    return times


@part
def same_mixture(spec, tables):
    """Whether the wanted and the deployed policies are equal up to the order of the members."""
    same, m = True, NOTHING
    while same and m < spec.members:
        wanted = times_among(spec, tables, m, tables.wanted)
        same = wanted == times_among(spec, tables, m, tables.policy)
        m += 1
    return same


@inline
def members_traded(spec, tables):
    return spec.members > 1 and same_mixture(spec, tables)


@inline
def whole_traded(spec, tables):
    return spec.whole and same_mixture(spec, tables)


# whether the members of a mixture would only trade places, which is not a change; if rows change
# one by one, rows that traded and rows that did not would no longer belong together
only_traded = by_kind(
    "only_traded",
    {RowSpec: never, StageSpec: never, PlanSpec: members_traded, MixtureSpec: whole_traded},
)

# whether a change is a switch: in a mixture, if the frequency of some action changes
is_switch = of_rows("is_switch", every_change, law_differs)


@inline
def may_switch(spec, tables, here, changes, i):
    """Whether the budget has a switch left for change i, or change i is not a switch."""
    left = tables.clock[0]["switches"] < spec.timing.switches
    return left or not is_switch(spec, tables, here, changes, i)


@inline
def write_best(spec, tables, here, changes, i):
    changes[i, ACTION] = own_best(spec, tables, here)


@inline
def write_policies(spec, tables, here, changes, i):
    for m in range(spec.members):
        changes[i, ACTION + m] = tables.wanted[m * spec.H * spec.S + here]


# write the wanted actions of a row into change i
write_wanted = of_rows("write_wanted", write_best, write_policies)


@inline
def log_row(spec, tables, changes, i, k, h, x):
    """Write the wanted actions of row (h, x) after episode k into change i, without deploying
    them.
    """
    changes[i, EPISODE], changes[i, STEP], changes[i, STATE] = k, h, x
    write_wanted(spec, tables, h * spec.S + x, changes, i)


@part
def was_due(spec, changes, i, k, h, x):
    """Whether row (h, x) was logged at its trigger in episode k before i, and not deployed."""
    found, j = False, i - 1 if spec.timing.gate != OPEN else -1
    while not found and j >= 0 and changes[j, EPISODE] == k:
        found = changes[j, STEP] == h and changes[j, STATE] == x
        j -= 1
    return found


@inline
def switch_own(spec, tables, here, changes, i):
    set_own(spec, tables, here, changes[i, ACTION])


@inline
def switch_policies(spec, tables, here, changes, i):
    for m in range(spec.members):
        tables.policy[m * spec.H * spec.S + here] = changes[i, ACTION + m]


# deploy change i of the log; nothing else changes the deployed policy
switch_row = of_rows("switch_row", switch_own, switch_policies)


@inline
def pass_gate(spec, tables, here, changes, i):
    """Count change i, and deploy it if the gate is open.

    A proposed change is counted whatever the board decides. A change that must wait is not counted.
    """
    switch = is_switch(spec, tables, here, changes, i)
    if spec.timing.gate == OPEN:
        switch_row(spec, tables, here, changes, i)
    if spec.timing.gate != WAITING:
        tables.clock[0]["switches"] += switch


@inline
def take_step(spec, tables, changes, i, k, h, x, a, action, reward, y):
    """Learn one transition of episode k; a row that is due meets the gate, as change i of the log.

    Return whether it was a trigger, and how many rows changed or were proposed.
    """
    outcome = learn_step(spec, tables, h, x, a, action, reward, y)
    if outcome != DUE:
        return outcome != QUIET, 0
    log_row(spec, tables, changes, i, k, h, x)
    pass_gate(spec, tables, h * spec.S + x, changes, i)
    freeze_if_spent(spec, tables)
    return True, 1


@part
def switch_all(spec, tables, changes, logged, k):
    """Let the rows that may change and differ from the wanted policy pass the gate, within the
    budget.

    Return how many did.
    """
    changed = 0
    tables.clock[0]["refreshes"] += 1
    steps = 0 if only_traded(spec, tables) else spec.H
    for h in range(steps):
        first, last = states_at_stake(spec, tables, h)
        for x in range(first, last):
            here, i = h * spec.S + x, logged + changed
            if differs(spec, tables, here) and not was_due(spec, changes, i, k, h, x):
                log_row(spec, tables, changes, i, k, h, x)
                if may_switch(spec, tables, here, changes, i):
                    pass_gate(spec, tables, here, changes, i)
                    changed += 1
    if spec.timing.factor > 0:
        for i in range(len(tables.cells)):
            tables.cells[i]["due"] = next_growth(spec.timing, tables.cells[i]["visits"])
    return changed


@inline
def close_deployment(spec, tables, changed):
    """If any row passed the gate, count one deployment or proposal, and freeze if the budget is
    spent.
    """
    if changed > 0 and spec.timing.gate != WAITING:
        tables.clock[0]["deployments"] += 1
        freeze_if_spent(spec, tables)


@entry
def pass_rows(spec, tables, changes):
    """Let changes that Python logged pass the gate, as one deployment or one proposal.

    Move the changes that passed to the front, and return their number.
    """
    passed = NOTHING
    for i in range(len(changes)):
        here = changes[i, STEP] * spec.S + changes[i, STATE]
        if may_switch(spec, tables, here, changes, i):
            pass_gate(spec, tables, here, changes, i)
            for j in range(changes.shape[1]):
                changes[passed, j] = changes[i, j]
            passed += 1
    close_deployment(spec, tables, passed)
    return passed


@part
def deploy_plan(spec, tables, changes, logged, k):
    """Deploy the plan that Python made after episode k; return how many rows changed."""
    tables.clock[0]["awaits_plan"] = 0
    changed = switch_all(spec, tables, changes, logged, k)
    close_deployment(spec, tables, changed)
    return changed


@part
def refresh(spec, tables, changes, logged, k, changed):
    """Compute the wanted policy after episode k and switch to it; return the total of rows changed.

    If Python makes the plan, the clock marks it.
    """
    if not make_wanted(spec, tables):
        tables.clock[0]["awaits_plan"] = 1
        return changed
    changed += switch_all(spec, tables, changes, logged + changed, k)
    close_deployment(spec, tables, changed)
    return changed


@inline
def end_episode(spec, tables, changes, logged, k, changed, triggered):
    """Follow schedule and budget after episode k, in which `changed` rows have already changed.

    Return how many rows changed in total, and whether the learner had a trigger. If Python makes
    the plan, the clock marks it, and the caller stops.
    """
    triggered |= learn_rest(spec, tables)
    anew = wants_anew(spec, tables)
    by_visits = triggered and anew and not spec.timing.asked
    due = refresh_is_due(spec, tables, triggered, k) or by_visits
    if due:
        changed = refresh(spec, tables, changes, logged, k, changed)
    elif changed > 0:
        close_deployment(spec, tables, changed)
    return changed, triggered or changed > 0 or (due and anew)
