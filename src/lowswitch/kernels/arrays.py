"""What the kernels read and write: the layout of every array that crosses into compiled code."""

from typing import Any, NamedTuple

import numpy as np

LANES = 8  # float64 in a cache line
NEVER = 2**31 - 1  # a visit count that no run reaches
UNLIMITED = NEVER * NEVER  # a budget that no run spends
OPEN, REVIEW, WAITING = 0, 1, 2  # a gate: deploy at once; propose; propose once this is decided
EPISODE, STEP, STATE, ACTION = 0, 1, 2, 3  # columns of a row change; further members follow ACTION

# ---- Q-learners ----------------------------------------------------------------------------------

ROW = np.dtype(
    [
        ("value", "f8"),  # optimistic value of the state
        ("best_other", "f8"),  # best running estimate among the other actions of the row
        ("action", "i8"),  # the deployed action; in a mixture, the one that its member would play
    ]
)
CELL = np.dtype(
    [
        ("q", "f8"),  # running estimate; -inf where the action is forbidden
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
        ("reference", "f8"),  # the value that those of successors are compared with
        ("visits", "i8"),  # counted only where there is a reference, which is fixed by them
    ]
)
STAGE_CELL = np.dtype(
    [
        *CELL.descr,
        ("total", "f8"),  # sum of reward and next value over the stage
        ("begin", "i8"),  # visits before the stage
        ("reward", "f8"),  # sum over all visits; this and what follows only with a reference
        ("reference", "f8"),  # sum of the reference values of the successors, over all visits
        ("reference_squares", "f8"),
        ("advantage", "f8"),  # sum of value less reference of the successors, over the stage
        ("advantage_squares", "f8"),
    ]
)
STEP_PLAYED = np.dtype([("state", "i8"), ("action", "i8"), ("reward", "f8")])

# ---- planners ------------------------------------------------------------------------------------

PLANNED = np.dtype([("visits", "i8"), ("due", "i8")])  # of (h, x, a); of (x, a) in pooled counts
RECORD = np.dtype(
    [
        ("n", "i8"),  # visits on record
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
        ("refreshes", "i8"),  # how often all rows might change, or plans were made
        ("drowned", "i8"),  # visits whose bonus was above H, in a mixture that of the first member
        ("pool", "i8"),  # the used part of the pool of successors
        ("awaits_plan", "i8"),  # 1 while a planner of the user's own, in Python, must plan
    ]
)
KEYS = np.dtype([("samples", "u8"), ("members", "u8")])  # noise streams of a learner's own


class Timing(NamedTuple):
    """What a schedule and a budget say about all rows at once."""

    factor: float  # all rows may change when a count has grown by this factor; 0: no such rule
    least: int  # and by so many visits
    grid: np.ndarray  # [n]  all rows may change after so many episodes, sorted; the last is NEVER
    deployments: int  # after so many deployments the policy stays
    switches: int  # after so many local switches the policy stays
    room: int  # row changes that one episode may make
    greedy_last: bool  # the last deployment is planned without a bonus
    exploit_last: bool  # it is one policy, of actions that were tried
    asked: bool  # visits are no reason to change anything, only dates are
    episodes: int  # of the run
    gate: int  # OPEN, REVIEW or WAITING


def is_spent(clock: Any, timing: Timing) -> Any:
    """Whether nothing is left of the budget; kernels have it compiled, from `schedule`."""
    return clock["switches"] >= timing.switches or clock["deployments"] >= timing.deployments


class RowSpec(NamedTuple):
    """A Q-learner worked out for one problem size."""

    H: int
    S: int
    A: int
    caps: np.ndarray  # [H]  largest value that step h can have
    bonus: int  # HOEFFDING or BERNSTEIN
    c1: float  # scale of the variance part (Bernstein)
    c2: float  # scale of the Hoeffding part
    variance_scale: float  # H iota
    lower_order: float  # sqrt(H^7 S A) iota
    hoeffding_scale: float  # H^3 iota
    every_until: int  # each visit count up to here is a trigger
    later: np.ndarray  # [n]  the triggers after that, sorted; the last is NEVER
    timing: Timing


class RowTables(NamedTuple):
    """What one Q-learner knows, and in `rows` what it has deployed."""

    rows: np.ndarray  # [(H + 1) * S]  ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  CELL
    moments: np.ndarray  # [H * S * A]  MOMENTS, or [0] where no bonus reads them
    clock: np.ndarray  # [1]  CLOCK


class OwnSpec(NamedTuple):
    """A Q-learner with a function of the user's, worked out for one problem size.

    Each pair of functions has a class that derives from this one: see `own.py`.
    """

    H: int
    S: int
    A: int
    caps: np.ndarray  # [H]  largest value that step h can have
    initial: np.ndarray  # [H]  the first estimate
    iota: float
    bonus: int  # HOEFFDING or BERNSTEIN where the library's bonus is used, else HOEFFDING
    bonus_options: np.ndarray  # [n]  the numbers that the bonus gets last
    update_options: np.ndarray  # [n]  likewise the update
    width: int  # how many numbers an (h, x, a) remembers
    usual: RowSpec  # the library's learner with the same schedule
    every_until: int  # each visit count up to here is a trigger
    later: np.ndarray  # [n]  the triggers after that, sorted; the last is NEVER
    timing: Timing


class OwnTables(NamedTuple):
    """What such a Q-learner knows, and in `rows` what it has deployed."""

    rows: np.ndarray  # [(H + 1) * S]  ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  CELL
    moments: np.ndarray  # [H * S * A]  MOMENTS, or [0] where no bonus reads them
    memory: np.ndarray  # [H * S * A * width]  what the functions remember; NaN at the beginning
    faults: np.ndarray  # [1]  one more than the last (h, x, a) whose estimate was no finite number
    clock: np.ndarray  # [1]  CLOCK


class StageSpec(NamedTuple):
    """A stage-based Q-learner worked out for one problem size."""

    H: int
    S: int
    A: int
    caps: np.ndarray  # [H]  largest value that step h can have
    c: float  # scale of the bonus
    iota: float
    reference: int  # visits to a row after which its reference value is fixed; -1: there is none
    every_until: int  # each visit count up to here ends a stage
    later: np.ndarray  # [n]  and these after that, sorted; the last is NEVER
    timing: Timing


class StageTables(NamedTuple):
    """What one stage-based learner knows, and in `rows` what it has deployed."""

    rows: np.ndarray  # [(H + 1) * S]  STAGE_ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  STAGE_CELL
    clock: np.ndarray  # [1]  CLOCK


class PlanSpec(NamedTuple):
    """A planner worked out for one problem size."""

    H: int
    S: int
    A: int
    stride: int  # cells from one step to the next: 0 if the counts of all steps are pooled
    waits_for_law: bool  # a cell's first successor is a trigger if it comes after a trigger
    allowed: np.ndarray  # [H * S * A]
    caps: np.ndarray  # [H]  largest value that step h can have
    kind: int  # how it explores, a number in `planning.py`
    data: int  # CURRENT, ALL or NEWEST: when the data of an (h, x, a) are planned from
    monotone: bool  # estimates never grow
    c: float  # scale of the bonus
    log: float  # the bonus' logarithm
    law_log: float  # that of the width of an L1 ball
    known: int  # visits from which a cell is known
    most_visits: int  # later visits of a cell are no data; of pooled counts see `counts.is_data`
    prior: float  # of each successor
    rewards_known: bool  # the mean reward of a cell is taken as known from its first visit on
    mass: float  # of the prior of a law, over all successors; 0: it is learned
    reward_weight: float  # Beta(weight, weight) is the prior of a mean reward
    reward_mode: int  # BOOTSTRAP, MEAN or SEEN: whether rewards vary
    pooling: int  # AS_COUNTED or TESTED: whether the steps are alike
    rule: int  # by which version of its rules a learned posterior decides
    members: int  # L, policies in a deployed mixture
    scales: np.ndarray  # [L]  of the bonus, on top of c
    spare: int  # entries of the pool that one episode may need
    every_until: int  # each visit count up to here is a trigger
    later: np.ndarray  # [n]  the triggers after that, sorted; the last is NEVER
    timing: Timing


class PlanTables(NamedTuple):
    """What one planner has counted, and in `policy` what it has deployed."""

    policy: np.ndarray  # [L * H * S]
    initial: np.ndarray  # [H * S]  deployed at the beginning
    chosen: np.ndarray  # [1]  whether somebody chose it: the last policy then leaves it with care
    earlier: np.ndarray  # [1]  episodes counted before the first one
    wanted: np.ndarray  # [L * H * S]  the policies of the newest plan
    # of a learned posterior, q and values are those of the first member only
    q: np.ndarray  # [L * H * S * A]  -inf where the action is forbidden
    # [L * (H + 1) * S]  the last S of each member are zero; lower values follow where there are any
    values: np.ndarray
    visits: np.ndarray  # [H * S * A]
    drowned: (
        np.ndarray
    )  # [H * S * A]  whether the first member's bonus was above H in the last plan
    cells: np.ndarray  # [cells]  PLANNED
    records: np.ndarray  # [cells]  RECORD, what plans are made from
    fresh: np.ndarray  # [cells]  RECORD not planned from yet, or [0] where all are at once
    dirty: np.ndarray  # [cells]  whether the record changed since the last plan
    pool: np.ndarray  # [n]  SUCCESSOR, the blocks of all records
    clock: np.ndarray  # [1]  CLOCK
    keys: np.ndarray  # [1]  KEYS
    counter: np.ndarray  # [1]  position in the stream of a posterior sample
    order: np.ndarray  # [S]  the states by their next value
    scratch: np.ndarray  # [S]  zero between calls
    tally: np.ndarray  # [A]  zero between calls


class Laws(NamedTuple):
    """Which successors were seen how often; a row is one (h, x, a), or one (x, a)."""

    stride: int  # rows from one step to the next: 0 if all steps are taken together
    offsets: np.ndarray  # [rows + 1]  where the successors of each row begin
    states: np.ndarray  # [n]
    counts: np.ndarray  # [n]
    n: np.ndarray  # [rows]  their sum
    # the same of all actions of a row's state together
    all_offsets: np.ndarray  # [rows / A + 1]
    all_states: np.ndarray  # [m]
    all_counts: np.ndarray  # [m]
    all_n: np.ndarray  # [rows / A]


class Rewards(NamedTuple):
    """Which rewards were seen; a row is one (h, x, a), or one (x, a)."""

    stride: int  # rows from one step to the next: 0 if all steps are taken together
    n: np.ndarray  # [rows]
    total: np.ndarray  # [rows]
    squares: np.ndarray  # [rows]
    all_n: np.ndarray  # [rows / A]  of all actions of a row's state together
    all_total: np.ndarray  # [rows / A]


class Belief(NamedTuple):
    """A posterior over models, with the prior that was learned from the same data."""

    laws: Laws
    rewards: Rewards
    mass: float  # of the prior of a law, over all successors
    alike: float  # that of a row among alike actions, whose mean is that of the others; or 0
    noisy: bool  # whether rewards vary
    share: float  # their variance, as a share of that of rewards 0 and 1
    reward_mass: float  # of the prior of a mean reward
    by_state: bool  # whether that is on the mean of the other actions of the state, or on 1/2
    hopeful: bool  # whether a reward that was never seen is as likely 1 as 0, so that it is tried
    # of a law that is like no other: how many successors it may have, by the logarithms of their
    # probabilities (see `SIZES`), and what the prior has for each of them; without sizes `mass`
    sizes: np.ndarray  # [rows, n], or [0, 0]
    each: float
    # how far the rewards of all cells of an action that nobody tried may be off together; the
    # steps are those of `rewards`
    doubts: np.ndarray  # [steps A], or [0]


class Drawn(NamedTuple):
    """One step of a model that was drawn from a belief; a row is one (x, a)."""

    starts: np.ndarray  # [S * A + 1]  where the successors of each row begin
    sizes: np.ndarray  # [S * A]  how many there are
    states: np.ndarray  # [n]
    weights: np.ndarray  # [n]  their probabilities
    rest: np.ndarray  # [S * A]  the probability that is spread over all states
    rewards: np.ndarray  # [S * A]


class Changes(NamedTuple):
    """Rows (h, x) in which policies might play something else, each row alone."""

    played: np.ndarray  # [H * S, U]  what each policy plays
    rows: np.ndarray  # [R]  h S + x, ascending
    steps: np.ndarray  # [H + 1]  where the rows of each step begin
    others: np.ndarray  # [R, U]  what each policy might play there
    groups: np.ndarray  # [U]  the sum that a policy belongs to
    weights: np.ndarray  # [U]  its weight there
    needed: np.ndarray  # [H + 1, S * A]  the cells that are needed, at last those of any step


class MixtureSpec(NamedTuple):
    """A mixture of Q-learners that differ in the scale of their bonus."""

    H: int
    S: int
    A: int
    members: int  # L
    scales: np.ndarray  # [L]  of the bonus, on top of c
    whole: bool  # all rows may change, and not only those that had a trigger
    each: RowSpec | StageSpec  # of every member
    timing: Timing


class MixtureTables(NamedTuple):
    """What the members of a mixture know, each for itself, and in `policy` what is deployed."""

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
        ("gap", "f8"),  # of the deployed policy, an episode
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
    starts: np.ndarray  # [n]  start state of each episode, or [0] where the start law decides
    width: int  # S + 1 rounded up to whole lanes
    outflow: np.ndarray  # [rows * width]  successor probabilities, then the reward; or [0]


class ValueTables(NamedTuple):
    """The exact value of the deployed policies, of a mixture the mean of its L members."""

    wanted: bool
    H: int
    S: int
    A: int
    members: int  # L
    best: float  # value of an optimal policy under the start law
    optimal: np.ndarray  # [S]  optimal values of step 0
    policy: np.ndarray  # [L * H * S]
    origins: np.ndarray  # [L * H * S]  where the deployed action's row begins in `outflow`
    mass: np.ndarray  # [L * H * width]  the law of the state at step h; at S the mean reward before


class ChangeLog(NamedTuple):
    """The newest row changes of one run, and its costs at each checkpoint."""

    keep: bool  # the caller takes the changes; else they are dropped once their regret is known
    logged: np.ndarray  # [1]  row changes that lie in the log
    changes: np.ndarray  # [n, 3 + L]  (episode, step, state, action of each member)
    curve_points: np.ndarray  # [C]  episodes after which the curves have a point
    switches: np.ndarray  # [C]  local switches
    deployments: np.ndarray  # [C]


class Account(NamedTuple):
    """What the episodes of one run cost."""

    balance: np.ndarray  # [1]  BALANCE
    curve_points: np.ndarray  # [C]
    curve: np.ndarray  # [C]  regret


# ---- many machines -------------------------------------------------------------------------------

STAMP = np.dtype([("rounds", "i8"), ("played", "i8")])  # when a row changed
ROUND_TOTALS = np.dtype(
    [
        ("rounds", "i8"),
        ("played", "i8"),  # episodes, those thrown away included
        ("learned", "i8"),  # episodes
        ("last", "i8"),  # the number of episodes at which the run ends, as things stand
        ("passed", "i8"),  # points of the curve
        ("earned", "f8"),  # rewards of the episodes learned
    ]
)


class Window(NamedTuple):
    """Episodes that were played ahead of what is learned; episode k lies in slot k % W."""

    ready: np.ndarray  # [W]  whether the slot holds an episode that the deployed policy played
    states: np.ndarray  # [W, H]
    actions: np.ndarray  # [W, H]
    rewards: np.ndarray  # [W, H]


class Rounds(NamedTuple):
    """How M machines play one run, and how far they are."""

    episodes: int  # up to the next look at the bounds, or in all, unless it is stopped before
    cut: int  # AT_TRIGGER, AT_SWITCH or AT_MISMATCH
    pause: bool  # look at each deployment whether the run can stop
    policy_gap: float  # stop when the deployed policy is so close to the optimum; below 0: never
    mixture_gap: float  # likewise for the mixture of all policies so far
    room: int  # row changes that a round may make
    totals: np.ndarray  # [1]  ROUND_TOTALS
    plays: np.ndarray  # [H * S * A]  how often machines played each action
    stamps: np.ndarray  # [n]  STAMP of each row change in the log
    curve: np.ndarray  # [C]  rounds at each checkpoint
    earned_curve: np.ndarray  # [C]


# ---- bandits -------------------------------------------------------------------------------------


class Bandit(NamedTuple):
    """A problem with Bernoulli arms, and an algorithm worked out for one number of pulls."""

    means: np.ndarray  # [A]
    gaps: np.ndarray  # [A]  the best mean less this one
    kind: int  # which algorithm, a number in `arms.py`
    constant: float  # in its confidence width: alpha, gamma, c or p
    every_until: int  # a batch ends at each pull count of an arm up to here
    later: np.ndarray  # [n]  and at these after that, sorted; the last is NEVER
    grid: np.ndarray  # [M]  and at these numbers of all pulls, sorted; the last is T
    curve_points: np.ndarray  # [C]  pulls after which the curves have a point


class BanditTables(NamedTuple):
    """What every run knows, did and paid."""

    keys: np.ndarray  # [runs]  noise stream
    posterior_keys: np.ndarray  # [runs]  the stream of Thompson sampling's own draws
    pulls: np.ndarray  # [runs, A]
    wins: np.ndarray  # [runs, A]  rewards of 1
    arm: np.ndarray  # [runs]  played last
    due: np.ndarray  # [runs]  pulls of that arm at which the next is chosen, with an index
    left: np.ndarray  # [runs, A]  pulls still to play in this batch, in the others
    active: np.ndarray  # [runs, A]  not yet given up
    old_pulls: np.ndarray  # [runs, A]  of earlier phases, whose rewards no longer count
    old_wins: np.ndarray  # [runs, A]
    switched: np.ndarray  # [runs]  switches so far
    begun: np.ndarray  # [runs]  batches so far
    regret: np.ndarray  # [runs, C]
    switches: np.ndarray  # [runs, C]
    batches: np.ndarray  # [runs, C]
