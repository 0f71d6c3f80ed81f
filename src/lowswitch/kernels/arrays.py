"""The layout of every array that kernels read and write."""

from typing import Any, NamedTuple

import numpy as np

LANES = 8  # float64 in a cache line
NEVER = 2**31 - 1  # a visit count that no run reaches
UNLIMITED = NEVER * NEVER  # a budget that no run spends
OPEN, REVIEW, WAITING = 0, 1, 2  # a gate: deploy at once; propose; or wait, with a proposal pending
EPISODE, STEP, STATE, ACTION = 0, 1, 2, 3  # columns of a row change; more members follow ACTION

# ---- Q-learners ----------------------------------------------------------------------------------

ROW = np.dtype(
    [
        ("value", "f8"),  # optimistic value of the state
        ("best_other", "f8"),  # best running estimate among the other actions of the row
        ("action", "i8"),  # the deployed action; in a mixture, the action its member would play
    ]
)
CELL = np.dtype(
    [
        ("q", "f8"),  # running estimate; -inf if the action is forbidden
        ("visits", "i4"),
        ("due", "i4"),  # the visit count that is the next trigger
    ]
)
MOMENTS = np.dtype(
    [
        ("total", "f8"),  # sum of the next values seen
        ("squares", "f8"),  # sum of their squares
        ("width", "f8"),  # beta after the last visit
    ]
)
STAGE_ROW = np.dtype(
    [
        *ROW.descr,
        ("reference", "f8"),  # the value that successors' values are compared with
        ("visits", "i8"),  # counted only with a reference, which they may fix
    ]
)
STAGE_CELL = np.dtype(
    [
        *CELL.descr,
        ("total", "f8"),  # sum of reward and next value over the stage
        ("begin", "i8"),  # visits before the stage
        ("reward", "f8"),  # sum over all visits; this and the rest only with a reference
        ("reference", "f8"),  # sum of the reference values of the successors, over all visits
        ("reference_squares", "f8"),
        ("advantage", "f8"),  # sum of (value - reference) of the successors, over the stage
        ("advantage_squares", "f8"),
    ]
)
SETTLING_STAGE_ROW = np.dtype(
    [
        *STAGE_ROW.descr,
        ("lower", "f8"),  # pessimistic value of the state
        ("settled", "i8"),  # whether the reference stays as it is
    ]
)
SETTLING_STAGE_CELL = np.dtype(
    [
        *STAGE_CELL.descr,
        ("lower", "f8"),  # pessimistic estimate
        ("lower_total", "f8"),  # sum of reward and pessimistic next value over the stage
    ]
)
SETTLED_ROW = np.dtype(
    [
        *ROW.descr,
        ("lower", "f8"),  # pessimistic value of the state
        ("reference", "f8"),  # the value that successors' values are compared with
        ("settled", "i8"),  # whether the reference stays as it is
    ]
)
SETTLED_CELL = np.dtype(
    [
        *CELL.descr,  # q: the least of all upper estimates so far
        ("upper", "f8"),  # optimistic Q-learning
        ("lower", "f8"),  # pessimistic Q-learning
        ("by_reference", "f8"),  # the estimate from references and advantages
        ("reference", "f8"),  # mean of the reference values of the successors
        ("reference_squares", "f8"),
        ("advantage", "f8"),  # of (value - reference), with the weights of Q-learning
        ("advantage_squares", "f8"),
        ("width", "f8"),  # B after the last visit
    ]
)
RANDOMIZED_CELL = np.dtype([*CELL.descr, ("begin", "i8")])  # begin: visits before the stage
ROUND = [
    ("round", "i8"),  # visits before the round
]
SUMS = [
    *ROUND,
    ("kept", "f8"),  # weight of the estimate before the round
    ("total", "f8"),  # sum of reward and next value over the round
    ("bonus", "f8"),  # sum of the Hoeffding bonuses over the round, with the weights of Q-learning
]
# of machines, in which `due` is the number of visits of one machine that end a round
FEDERATED_CELL = np.dtype([*CELL.descr, *SUMS])
FEDERATED_STAGE_CELL = np.dtype(
    [
        *SETTLING_STAGE_CELL.descr,
        *ROUND,
        ("before", "i8"),  # visits in the stage before this one
    ]
)
FEDERATED_SETTLED_CELL = np.dtype(
    [
        *SETTLED_CELL.descr,  # of which reference and reference_squares are sums
        *SUMS,
        ("reward", "f8"),  # sums over the round, of rewards,
        ("lower_total", "f8"),  # of reward and pessimistic next value,
        ("gain", "f8"),  # of (value - reference) of the successors,
        ("gain_squares", "f8"),  # of its squares,
        ("rest", "f8"),  # and of 1 / n^(3/4), with the weights of Q-learning
    ]
)
TURN = np.dtype(
    [
        ("machine", "i8"),  # which plays the next episode
        ("ends", "i8"),  # whether the round ends once the last machine has played its episode
    ]
)
STEP_PLAYED = np.dtype([("state", "i8"), ("action", "i8"), ("reward", "f8")])

# ---- planners ------------------------------------------------------------------------------------

PLANNED = np.dtype([("visits", "i8"), ("due", "i8")])  # of (h, x, a), or of (x, a) if pooled
RECORD = np.dtype(
    [
        ("n", "i8"),  # recorded visits
        ("followed", "i8"),  # of these, visits whose successor is: all but those at the last step
        ("total", "f8"),  # sum of the rewards
        ("squares", "f8"),  # sum of their squares
        ("start", "i8"),  # where the list of successors begins in the pool
        ("size", "i8"),  # how many there are
        ("room", "i8"),  # for how many there is room
    ]
)
SUCCESSOR = np.dtype([("state", "i4"), ("count", "i4")])

# ---- all learners --------------------------------------------------------------------------------

CLOCK = np.dtype(
    [
        ("deployments", "i8"),  # so far
        ("switches", "i8"),  # local switches so far
        ("batch", "i8"),  # the next point of the grid
        ("refreshes", "i8"),  # how often all rows could change, or plans were made
        ("drowned", "i8"),  # visits with a bonus above H (in a mixture, the first member's bonus)
        ("pool", "i8"),  # the used part of the pool of successors
        ("awaits_plan", "i8"),  # 1 while a user's planner, in Python, must plan
    ]
)
KEYS = np.dtype([("samples", "u8"), ("members", "u8")])  # a learner's own noise streams


class Timing(NamedTuple):
    """The rules of a schedule and a budget for all rows at once."""

    factor: float  # all rows may change when a count has grown by this factor; 0: no such rule
    least: int  # and by this many visits
    grid: np.ndarray  # [n]  all rows may change after these episodes, sorted; the last is NEVER
    deployments: int  # the policy stays after this many deployments
    switches: int  # the policy stays after this many local switches
    room: int  # row changes that one episode may make
    greedy_last: bool  # the last deployment is planned without a bonus
    exploit_last: bool  # it is one policy that plays only tried actions
    asked: bool  # only dates cause changes, visits do not
    episodes: int  # in the run
    gate: int  # OPEN, REVIEW or WAITING


def is_spent(clock: Any, timing: Timing) -> Any:
    """Whether the budget is spent; `schedule` compiles this for kernels."""
    return clock["switches"] >= timing.switches or clock["deployments"] >= timing.deployments


class RowSpec(NamedTuple):
    """A Q-learner's numbers for one problem size."""

    H: int
    S: int
    A: int
    caps: np.ndarray  # [H]  largest possible value of step h
    bonus: int  # HOEFFDING or BERNSTEIN
    c1: float  # scale of the variance part (Bernstein)
    c2: float  # scale of the Hoeffding part
    variance_scale: float  # H iota
    lower_order: float  # sqrt(H^7 S A) iota
    hoeffding_scale: float  # H^3 iota
    every_until: int  # every visit count up to here is a trigger
    later: np.ndarray  # [n]  the triggers after that, sorted; the last is NEVER
    timing: Timing


class RowTables(NamedTuple):
    """The knowledge of one Q-learner; `rows` also holds its deployed policy."""

    rows: np.ndarray  # [(H + 1) * S]  ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  CELL
    moments: np.ndarray  # [H * S * A]  MOMENTS, or [0] if no bonus reads them
    clock: np.ndarray  # [1]  CLOCK


class OwnSpec(NamedTuple):
    """The numbers of a Q-learner with a user's function, for one problem size.

    Each pair of functions has a class derived from this one: see `own.py`.
    """

    H: int
    S: int
    A: int
    caps: np.ndarray  # [H]  largest possible value of step h
    initial: np.ndarray  # [H]  the first estimate
    iota: float
    bonus: int  # HOEFFDING or BERNSTEIN for the library's bonus, else HOEFFDING
    bonus_options: np.ndarray  # [n]  the numbers passed last to the bonus
    update_options: np.ndarray  # [n]  and to the update
    width: int  # how many numbers an (h, x, a) stores
    bonus_width: int  # how many of them, the first ones, are the bonus's
    usual: RowSpec  # the library's learner with the same schedule
    every_until: int  # every visit count up to here is a trigger
    later: np.ndarray  # [n]  the triggers after that, sorted; the last is NEVER
    timing: Timing


class OwnTables(NamedTuple):
    """The knowledge of such a Q-learner; `rows` also holds its deployed policy."""

    rows: np.ndarray  # [(H + 1) * S]  ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  CELL
    moments: np.ndarray  # [H * S * A]  MOMENTS, or [0] if no bonus reads them
    memory: np.ndarray  # [H * S * A * width]  the functions' memory; NaN at the beginning
    # [1]  where an estimate was first no finite number: 1 + i + H S A (2 n + b) for visit n of
    # (h, x, a) number i; b is 1 if its bonus was none either
    faults: np.ndarray
    clock: np.ndarray  # [1]  CLOCK


class StageSpec(NamedTuple):
    """The numbers of a stage-based Q-learner for one problem size."""

    H: int
    S: int
    A: int
    caps: np.ndarray  # [H]  largest possible value of step h
    c: float  # scale of the bonus
    iota: float
    reference: int  # visits to a row after which its reference value is fixed; -1: no reference
    every_until: int  # every visit count up to here ends a stage
    later: np.ndarray  # [n]  and these after that, sorted; the last is NEVER
    timing: Timing


class SettlingStageSpec(NamedTuple):
    """The numbers of UCB-Advantage with references that settle, for one problem size."""

    H: int
    S: int
    A: int
    caps: np.ndarray  # [H]  largest possible value of step h
    c: float  # scale of the bonus
    iota: float
    reference: int  # 0: no number of visits fixes a reference value
    settle: float  # the distance of upper and lower value at which it settles
    every_until: int  # every visit count up to here ends a stage
    later: np.ndarray  # [n]  and these after that, sorted; the last is NEVER
    timing: Timing


class StageTables(NamedTuple):
    """The knowledge of one stage-based learner; `rows` also holds its deployed policy."""

    rows: np.ndarray  # [(H + 1) * S]  STAGE_ROW, or SETTLING_STAGE_ROW; the last S are zero
    cells: np.ndarray  # [H * S * A]  STAGE_CELL, or SETTLING_STAGE_CELL
    clock: np.ndarray  # [1]  CLOCK


class SettledSpec(NamedTuple):
    """The numbers of Q-EarlySettled-Advantage for one problem size."""

    H: int
    S: int
    A: int
    caps: np.ndarray  # [H]  largest possible value of step h
    c: float  # scale of the bonuses
    iota: float
    hoeffding_scale: float  # H^3 iota
    settle: float  # the distance of upper and lower value at which a reference settles
    every_until: int  # every visit count up to here is a trigger
    later: np.ndarray  # [n]  the triggers after that, sorted; the last is NEVER
    timing: Timing


class SettledTables(NamedTuple):
    """The knowledge of such a learner; `rows` also holds its deployed policy."""

    rows: np.ndarray  # [(H + 1) * S]  SETTLED_ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  SETTLED_CELL
    clock: np.ndarray  # [1]  CLOCK


class RandomizedSpec(NamedTuple):
    """The numbers of Staged-RandQL for one problem size."""

    H: int
    S: int
    A: int
    caps: np.ndarray  # [H]  largest possible value of step h
    samples: int  # J, of each estimate
    kappa: float  # the larger, the more the learning rates vary
    prior: float  # n_0, how many prior transitions a stage begins with
    every_until: int  # every visit count up to here ends a stage
    later: np.ndarray  # [n]  and these after that, sorted; the last is NEVER
    timing: Timing


class RandomizedTables(NamedTuple):
    """The knowledge of Staged-RandQL; `rows` also holds its deployed policy."""

    rows: np.ndarray  # [(H + 1) * S]  ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  RANDOMIZED_CELL
    samples: np.ndarray  # [H * S * A * J]  the samples of each estimate in this stage
    keys: np.ndarray  # [1]  KEYS
    counter: np.ndarray  # [1]  how many numbers of a stream are used
    clock: np.ndarray  # [1]  CLOCK


class FederatedSpec(NamedTuple):
    """The numbers of FedQ for one problem size."""

    H: int
    S: int
    A: int
    machines: int  # M
    caps: np.ndarray  # [H]  largest possible value of step h
    bonus: int  # HOEFFDING or BERNSTEIN
    c1: float  # scale of the variance part (Bernstein)
    c2: float  # scale of the Hoeffding part
    variance_scale: float  # H iota
    lower_order: float  # (sqrt(H^7 S A) + sqrt(M H^6 S A)) iota
    hoeffding_scale: float  # H^3 iota
    timing: Timing


class FederatedTables(NamedTuple):
    """The knowledge of FedQ; `rows` also holds its deployed policy."""

    rows: np.ndarray  # [(H + 1) * S]  ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  FEDERATED_CELL
    moments: np.ndarray  # [H * S * A]  MOMENTS, or [0] if no bonus reads them
    seen: np.ndarray  # [H * S * A * M]  visits of each machine in the round
    turn: np.ndarray  # [1]  TURN
    clock: np.ndarray  # [1]  CLOCK


class FederatedStageSpec(NamedTuple):
    """The numbers of FedQ-Advantage for one problem size."""

    H: int
    S: int
    A: int
    machines: int  # M
    caps: np.ndarray  # [H]  largest possible value of step h
    c: float  # scale of the bonuses
    iota: float
    reference: int  # visits to a row after which its reference value is fixed; 0: it settles
    settle: float  # the distance of upper and lower value at which it settles
    timing: Timing


class FederatedSettledSpec(NamedTuple):
    """The numbers of Q-EarlySettled-Advantage in rounds for one problem size."""

    H: int
    S: int
    A: int
    machines: int  # M
    caps: np.ndarray  # [H]  largest possible value of step h
    c: float  # scale of the bonuses
    iota: float
    hoeffding_scale: float  # H^3 iota
    settle: float  # the distance of upper and lower value at which a reference settles
    timing: Timing


class FederatedReferenceTables(NamedTuple):
    """The knowledge of both; `rows` also holds the deployed policy."""

    rows: np.ndarray  # [(H + 1) * S]  SETTLING_STAGE_ROW or SETTLED_ROW; the last S are zero
    cells: np.ndarray  # [H * S * A]  FEDERATED_STAGE_CELL or FEDERATED_SETTLED_CELL
    seen: np.ndarray  # [H * S * A * M]  visits of each machine in the round
    turn: np.ndarray  # [1]  TURN
    clock: np.ndarray  # [1]  CLOCK


class PlanSpec(NamedTuple):
    """A planner's numbers for one problem size."""

    H: int
    S: int
    A: int
    stride: int  # cells from one step to the next: 0 if all steps are pooled
    waits_for_law: bool  # a cell's first successor is a trigger if it comes after a trigger
    allowed: np.ndarray  # [H * S * A]
    caps: np.ndarray  # [H]  largest possible value of step h
    kind: int  # how it explores, a number in `planning.py`
    data: int  # CURRENT, ALL or NEWEST: when plans use the data of an (h, x, a)
    monotone: bool  # estimates never grow
    c: float  # scale of the bonus
    log: float  # logarithm of the bonus
    law_log: float  # logarithm of the width of an L1 ball
    known: int  # visits after which a cell is known
    most_visits: int  # later visits of a cell are not data; if pooled, see `counts.is_data`
    prior: float  # of each successor
    rewards_known: bool  # the mean reward of a cell counts as known from its first visit on
    mass: float  # of the prior of a law, over all successors; 0: learned
    reward_weight: float  # Beta(weight, weight) is the prior of a mean reward
    reward_mode: int  # BOOTSTRAP, MEAN or SEEN: whether rewards vary
    pooling: int  # AS_COUNTED or TESTED: whether the steps are alike
    rule: int  # the version of the rules of a learned posterior
    members: int  # L, number of policies in a deployed mixture
    scales: np.ndarray  # [L]  of the bonus, on top of c
    spare: int  # pool entries that one episode may need
    every_until: int  # every visit count up to here is a trigger
    later: np.ndarray  # [n]  the triggers after that, sorted; the last is NEVER
    timing: Timing


class PlanTables(NamedTuple):
    """The counts of one planner; `policy` holds its deployed policy."""

    policy: np.ndarray  # [L * H * S]
    initial: np.ndarray  # [H * S]  initially deployed
    chosen: np.ndarray  # [1]  whether a user chose it: then the last policy leaves it with care
    earlier: np.ndarray  # [1]  episodes counted before the first one
    wanted: np.ndarray  # [L * H * S]  the policies of the newest plan
    # for a learned posterior, q and values are of the first member only
    q: np.ndarray  # [L * H * S * A]  -inf if the action is forbidden
    # [L * (H + 1) * S]  the last S of each member are zero; lower values follow if there are any
    values: np.ndarray
    visits: np.ndarray  # [H * S * A]
    drowned: (
        np.ndarray
    )  # [H * S * A]  whether the first member's bonus was above H in the last plan
    cells: np.ndarray  # [cells]  PLANNED
    records: np.ndarray  # [cells]  RECORD, the data of plans
    fresh: np.ndarray  # [cells]  RECORD not yet used by plans, or [0] if all are used at once
    dirty: np.ndarray  # [cells]  whether the record changed since the last plan
    pool: np.ndarray  # [n]  SUCCESSOR, the blocks of all records
    clock: np.ndarray  # [1]  CLOCK
    keys: np.ndarray  # [1]  KEYS
    counter: np.ndarray  # [1]  position in the stream of a posterior sample
    order: np.ndarray  # [S]  the states by their next value
    scratch: np.ndarray  # [S]  zero between calls
    tally: np.ndarray  # [A]  zero between calls


class Laws(NamedTuple):
    """How often each successor was seen; a row is one (h, x, a), or one (x, a)."""

    stride: int  # rows from one step to the next: 0 if all steps are pooled
    offsets: np.ndarray  # [rows + 1]  where the successors of each row begin
    states: np.ndarray  # [n]
    counts: np.ndarray  # [n]
    n: np.ndarray  # [rows]  their sum
    # the same for all actions of a row's state together
    all_offsets: np.ndarray  # [rows / A + 1]
    all_states: np.ndarray  # [m]
    all_counts: np.ndarray  # [m]
    all_n: np.ndarray  # [rows / A]


class Rewards(NamedTuple):
    """The rewards seen; a row is one (h, x, a), or one (x, a)."""

    stride: int  # rows from one step to the next: 0 if all steps are pooled
    n: np.ndarray  # [rows]
    total: np.ndarray  # [rows]
    squares: np.ndarray  # [rows]
    all_n: np.ndarray  # [rows / A]  for all actions of a row's state together
    all_total: np.ndarray  # [rows / A]


class Belief(NamedTuple):
    """A posterior over models; its prior was learned from the same data."""

    laws: Laws
    rewards: Rewards
    mass: float  # of the prior of a law, over all successors
    alike: float  # mass of a prior centred on the other actions of the state, if alike; or 0
    noisy: bool  # whether rewards vary
    share: float  # their variance, as a share of the variance of rewards 0 and 1
    reward_mass: float  # of the prior of a mean reward
    by_state: bool  # whether that prior is centred on the state's other actions, or on 1/2
    hopeful: bool  # whether an unseen reward is as likely 1 as 0, so that it is tried
    # for a law unlike any other: how many successors it may have, by the logarithms of their
    # probabilities (see `SIZES`), and the prior of each successor; without sizes, `mass`
    sizes: np.ndarray  # [rows, n], or [0, 0]
    each: float
    # how far the rewards of all cells of an action that nobody tried may be off together; by the
    # steps of `rewards`
    doubts: np.ndarray  # [steps A], perhaps with [steps] of all actions after them; or [0]
    # the log odds by which the rewards of a state's other actions lie above those of its usual ones
    lift: float
    # whether somebody chose the action of each row of rewards; or [0], and the one tried most is
    # the usual one
    chosen: np.ndarray
    # how likely each state is beforehand to follow an action that nobody chose, compared with the
    # others, by the steps of `laws`; or [0, 0], and all are alike
    pull: np.ndarray  # [steps, S]
    led: np.ndarray  # [rows of laws]  whether somebody chose the action, so that nothing pulls it


class Drawn(NamedTuple):
    """One step of a model drawn from a belief; a row is one (x, a)."""

    starts: np.ndarray  # [S * A + 1]  where the successors of each row begin
    sizes: np.ndarray  # [S * A]  how many there are
    states: np.ndarray  # [n]
    weights: np.ndarray  # [n]  their probabilities
    rest: np.ndarray  # [S * A]  the probability spread over all states
    rewards: np.ndarray  # [S * A]


class Changes(NamedTuple):
    """Rows (h, x) in which policies might play another action, each row by itself."""

    played: np.ndarray  # [H * S, U]  the action of each policy
    rows: np.ndarray  # [R]  h S + x, ascending
    steps: np.ndarray  # [H + 1]  where the rows of each step begin
    others: np.ndarray  # [R, U]  the other action of each policy there
    groups: np.ndarray  # [U]  the sum that a policy belongs to
    weights: np.ndarray  # [U]  its weight there
    needed: np.ndarray  # [H + 1, S * A]  the cells needed; the last row is for any step


class MixtureSpec(NamedTuple):
    """A mixture of Q-learners that differ in the scale of their bonus."""

    H: int
    S: int
    A: int
    members: int  # L
    scales: np.ndarray  # [L]  of the bonus, on top of c
    whole: bool  # all rows may change, not only triggered ones
    each: RowSpec | StageSpec  # for every member
    timing: Timing


class MixtureTables(NamedTuple):
    """The knowledge of each member of a mixture; `policy` holds the deployed mixture."""

    policy: np.ndarray  # [L * H * S]
    wanted: np.ndarray  # [L * H * S]  the policies that the members would play
    rows: np.ndarray  # [L * (H + 1) * S]  ROW or STAGE_ROW
    cells: np.ndarray  # [L * (H + 1) * S * A]  CELL or STAGE_CELL; a member's last S * A are unused
    moments: np.ndarray  # [L * (H + 1) * S * A]  MOMENTS, or [0]
    path: np.ndarray  # [H]  STEP_PLAYED of the episode that is being played
    clock: np.ndarray  # [1]  CLOCK
    keys: np.ndarray  # [1]  KEYS
    tally: np.ndarray  # [A]  zero between calls


# ---- problems, and what a run costs --------------------------------------------------------------

COLUMN = np.dtype([("threshold", "i8"), ("own", "i4"), ("other", "i4")])  # of an alias table
BALANCE = np.dtype(
    [
        ("regret", "f8"),  # of the episodes charged
        ("gap", "f8"),  # of the deployed policy, per episode
        ("charged", "i8"),  # episodes
        ("passed", "i8"),  # points of the curve
    ]
)


class Model(NamedTuple):
    """A tabular MDP for sampling and for exact values; a row is one (x, a), or one (h, x, a)."""

    stride: int  # rows from one step to the next: 0 if stationary
    reward_stride: int  # likewise for the rewards
    offsets: np.ndarray  # [rows + 1]  where each row's successors begin
    successors: np.ndarray  # [nonzeros]  ascending in each row
    probabilities: np.ndarray  # [nonzeros]
    heads: (
        np.ndarray
    )  # [rows + 1]  alias tables: first column << 6 | log2(columns); last, the start's
    columns: np.ndarray  # [columns]  COLUMN
    rewards: np.ndarray  # [S * A] or [H * S * A]
    bernoulli: bool  # the reward is 0 or 1 with the given mean
    starts: np.ndarray  # [n]  start state of each episode, or [0] if the start law decides
    width: int  # S + 1 rounded up to whole lanes
    outflow: np.ndarray  # [rows * width]  successor probabilities, then the reward; or [0]


class ValueTables(NamedTuple):
    """The exact value of the deployed policy; for a mixture, the average of its L members."""

    wanted: bool
    H: int
    S: int
    A: int
    members: int  # L
    best: float  # value of an optimal policy under the start law
    optimal: np.ndarray  # [S]  optimal values of step 0
    policy: np.ndarray  # [L * H * S]
    origins: np.ndarray  # [L * H * S]  where the deployed action's row begins in `outflow`
    mass: np.ndarray  # [L * H * width]  state law at step h; at S the mean reward before
    firsts: np.ndarray  # [1]  zero: all steps are of this policy


class ManyValueTables(NamedTuple):
    """The same for one policy at a time, and for the next B policies, valued side by side."""

    wanted: bool
    H: int
    S: int
    A: int
    members: int  # 1
    best: float
    optimal: np.ndarray  # [S]
    policy: np.ndarray  # [H * S]
    origins: np.ndarray  # [H * S]
    mass: np.ndarray  # [H * width]
    firsts: np.ndarray  # [B]  the first step that changed, of each of the next policies
    begins: np.ndarray  # [B]  the first change of each in the log
    next_origins: np.ndarray  # [B * H * S]
    next_mass: np.ndarray  # [B * H * width]


class ChangeLog(NamedTuple):
    """The newest row changes of one run, and its costs at each checkpoint."""

    keep: bool  # the caller takes the changes; else they are dropped once charged
    logged: np.ndarray  # [1]  row changes in the log
    changes: np.ndarray  # [n, 3 + L]  (episode, step, state, action of each member)
    curve_points: np.ndarray  # [C]  episodes after which the curves have a point
    switches: np.ndarray  # [C]  local switches
    deployments: np.ndarray  # [C]


class LateEpisodes(NamedTuple):
    """The newest D + 1 episodes of a run whose outcomes arrive D episodes late.

    Episode k lies in slot k modulo D + 1.
    """

    states: np.ndarray  # [D + 1, H]
    actions: np.ndarray  # [D + 1, H]
    rewards: np.ndarray  # [D + 1, H]


class Account(NamedTuple):
    """The costs of the episodes of one run."""

    balance: np.ndarray  # [1]  BALANCE
    curve_points: np.ndarray  # [C]
    curve: np.ndarray  # [C]  regret


# ---- many machines -------------------------------------------------------------------------------

STAMP = np.dtype([("rounds", "i8"), ("played", "i8")])  # when a row changed
ROUND_TOTALS = np.dtype(
    [
        ("rounds", "i8"),
        ("played", "i8"),  # episodes, including discarded ones
        ("learned", "i8"),  # episodes
        ("last", "i8"),  # the number of episodes after which the run ends, as known so far
        ("passed", "i8"),  # points of the curve
        ("earned", "f8"),  # rewards of the episodes learned
    ]
)


class Window(NamedTuple):
    """Episodes played ahead of the learner; episode k lies in slot k % W."""

    ready: np.ndarray  # [W]  whether the slot holds an episode that the deployed policy played
    states: np.ndarray  # [W, H]
    actions: np.ndarray  # [W, H]
    rewards: np.ndarray  # [W, H]


class Rounds(NamedTuple):
    """How M machines play one run, and their progress."""

    episodes: int  # until the next check of the bounds, or in total unless stopped earlier
    cut: int  # AT_TRIGGER, AT_SWITCH or AT_MISMATCH
    pause: bool  # check at each deployment whether the run can stop
    policy_gap: float  # stop when the deployed policy is this close to optimal; below 0: never
    mixture_gap: float  # the same for the mixture of all policies so far
    room: int  # row changes that a round may make
    totals: np.ndarray  # [1]  ROUND_TOTALS
    plays: np.ndarray  # [H * S * A]  how often machines played each action
    stamps: np.ndarray  # [n]  STAMP of each row change in the log
    curve: np.ndarray  # [C]  rounds at each checkpoint
    earned_curve: np.ndarray  # [C]


# ---- bandits -------------------------------------------------------------------------------------


class Bandit(NamedTuple):
    """A problem with Bernoulli arms, and an algorithm's numbers for one number of pulls."""

    means: np.ndarray  # [A]
    gaps: np.ndarray  # [A]  the best mean minus this one
    kind: int  # which algorithm, a number in `arms.py`
    constant: float  # in its confidence width: alpha, gamma, c or p
    every_until: int  # a batch ends at every pull count of an arm up to here
    later: np.ndarray  # [n]  and at these after that, sorted; the last is NEVER
    grid: np.ndarray  # [M]  and at these numbers of all pulls, sorted; the last is T
    curve_points: np.ndarray  # [C]  pulls after which the curves have a point


class BanditTables(NamedTuple):
    """The knowledge, the plays and the costs of every run."""

    keys: np.ndarray  # [runs]  noise stream
    posterior_keys: np.ndarray  # [runs]  the stream of Thompson sampling's own draws
    pulls: np.ndarray  # [runs, A]
    wins: np.ndarray  # [runs, A]  rewards of 1
    arm: np.ndarray  # [runs]  played last
    due: np.ndarray  # [runs]  index: pulls of that arm at which the next is chosen
    left: np.ndarray  # [runs, A]  batches: pulls still to play in this batch
    active: np.ndarray  # [runs, A]  not yet dropped
    old_pulls: np.ndarray  # [runs, A]  of earlier phases, whose rewards no longer count
    old_wins: np.ndarray  # [runs, A]
    switched: np.ndarray  # [runs]  switches so far
    begun: np.ndarray  # [runs]  batches so far
    regret: np.ndarray  # [runs, C]
    switches: np.ndarray  # [runs, C]
    batches: np.ndarray  # [runs, C]
