"""The wanted policy of each kind of learner: which rows it covers, and whether it is deployed."""

from lowswitch.kernels.arrays import (
    FederatedSettledSpec,
    FederatedSpec,
    FederatedStageSpec,
    MixtureSpec,
    PlanSpec,
    RowSpec,
    StageSpec,
)
from lowswitch.kernels.compile import inline, part
from lowswitch.kernels.federated import end_round
from lowswitch.kernels.kinds import always, by_kind, of_rows
from lowswitch.kernels.planning import LEARNED, OWN, SAMPLED, plan
from lowswitch.kernels.posterior import sample_plan
from lowswitch.kernels.qlearning import best_action, is_beaten, own_best, set_own
from lowswitch.kernels.schedule import is_last


@inline
def all_states(spec, tables, h):
    return 0, spec.S


@inline
def states_of_mixture(spec, tables, h):
    if spec.whole:
        return 0, spec.S
    return tables.path[h]["state"], tables.path[h]["state"] + 1


# the states [first, last) whose rows at step h may change: all, or the triggered one
states_at_stake = by_kind(
    "states_at_stake",
    {
        RowSpec: all_states,
        StageSpec: all_states,
        PlanSpec: all_states,
        MixtureSpec: states_of_mixture,
    },
)


@part
def want_best(spec, tables, m):
    """Make member m want its best actions."""
    for here in range(spec.H * spec.S):
        place = m * spec.H * spec.S + here
        tables.wanted[place] = best_action(tables.q, place * spec.A, spec.A, tables.policy[place])


@part
def plan_all(spec, tables):
    """Plan for every member; return whether the plan was made here, not by `Knowledge.plan`.

    If the last deployment is greedy, it is planned with neither bonus nor sample. Plans on a
    posterior with a learned prior, and a last plan that exploits, are made a few times in a run.
    They are left to Python, so they are compiled only for the learners that use them.
    """
    last = is_last(spec, tables)
    if spec.kind == OWN or spec.kind == LEARNED or (last and spec.timing.exploit_last):
        return False
    greedy = spec.timing.greedy_last and last
    if greedy:
        tables.dirty[:] = True
    for m in range(spec.members):
        if spec.kind == SAMPLED:
            sample_plan(spec, tables, m, greedy)
        else:
            plan(spec, tables, m, 0.0 if greedy else spec.scales[m], greedy)
        want_best(spec, tables, m)
    tables.dirty[:] = False
    return True


@part
def gather_rows(spec, tables):
    """Write the wanted action of every member in the rows that may change; return True."""
    rows = spec.H * spec.S
    for h in range(spec.H):
        first, last = states_of_mixture(spec, tables, h)
        for here in range(h * spec.S + first, h * spec.S + last):
            for m in range(spec.members):
                mine = m * (rows + spec.S) + here
                if spec.whole and is_beaten(spec, tables, mine):
                    set_own(spec, tables, mine, own_best(spec, tables, mine))
                tables.wanted[m * rows + here] = tables.rows[mine]["action"]
    return True


# compute the wanted policy; return whether it is known now, not left to a planner in Python
make_wanted = by_kind(
    "make_wanted",
    {
        RowSpec: always,
        StageSpec: always,
        FederatedSpec: end_round,
        FederatedStageSpec: end_round,
        FederatedSettledSpec: end_round,
        PlanSpec: plan_all,
        MixtureSpec: gather_rows,
    },
)


@inline
def policy_differs(spec, tables, here):
    differs = False
    for m in range(spec.members):
        place = m * spec.H * spec.S + here
        differs = differs or tables.policy[place] != tables.wanted[place]
    return differs


# whether the wanted action of a row differs from the deployed one
differs = of_rows("differs", is_beaten, policy_differs)
