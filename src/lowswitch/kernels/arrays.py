"""What the kernels read and write: the layout of every array that crosses into compiled code."""

from typing import NamedTuple

import numpy as np

LANES = 8  # float64 in a cache line
NEVER = 2**31 - 1  # a visit count that no run reaches
PYTHONS_TURN = 5  # the place in a clock that says that a planner of one's own must plan now

ROW = np.dtype(
    [
        ("value", "f8"),  # optimistic value of the state
        ("rival", "f8"),  # best running estimate among the actions that are not deployed
        ("action", "i8"),  # the deployed action
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
        ("value", "f8"),  # these as in ROW
        ("rival", "f8"),
        ("action", "i8"),
        ("reference", "f8"),  # value that those of successors are compared with
        ("visits", "i8"),  # up to which it is fixed; counted only where there is a reference
    ]
)
STAGE_CELL = np.dtype(
    [
        ("q", "f8"),  # these as in CELL
        ("visits", "i4"),
        ("due", "i4"),
        ("total", "f8"),  # sum of reward and next value over the stage
        ("begin", "i8"),  # visits before the stage
        ("reward", "f8"),  # the rest only where there is a reference: sum over all visits
        ("reference", "f8"),  # sum of the reference values of the successors, over all visits
        ("reference_squares", "f8"),
        ("advantage", "f8"),  # sum of value less reference of the successors, over the stage
        ("advantage_squares", "f8"),
    ]
)
PLANNED = np.dtype(
    [("visits", "i8"), ("due", "i8")]
)  # of a cell: (h, x, a), or (x, a) where the counts of all steps are pooled
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
STEP = np.dtype([("state", "i8"), ("action", "i8"), ("reward", "f8")])  # of an episode
COLUMN = np.dtype([("threshold", "i8"), ("own", "i4"), ("other", "i4")])  # of an alias table


class Pace(NamedTuple):
    """What a schedule and a budget say about all rows at once."""

    # all rows may change when a count has grown by this factor since they last might; 0: no such
    # rule
    factor: float
    least: int  # and by so many visits
    grid: np.ndarray  # [n]  all rows may change after so many episodes, sorted; the last is NEVER
    deployments: int  # after so many deployments the policy stays
    switches: int  # after so many local switches the policy stays
    room: int  # row changes that one episode may make
    watched: bool  # there is more to do at the end of an episode than what triggers did
    greedy_last: bool  # the last deployment is planned without a bonus


class Rule(NamedTuple):
    """An algorithm worked out for one problem size."""

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
    pace: Pace  # the rest of the schedule


class Tables(NamedTuple):
    """What one learner knows, and in `rows` what it has deployed."""

    rows: np.ndarray  # [(H + 1) * S]  ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  CELL
    moments: np.ndarray  # [H * S * A]  MOMENTS, or [0] where no bonus reads them
    loud: np.ndarray  # [1]  visits whose bonus was above H
    # [4]  deployments and local switches so far, the next point of the grid, refreshes of all rows
    clock: np.ndarray


class StageRule(NamedTuple):
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
    pace: Pace


class StageTables(NamedTuple):
    """What one stage-based learner knows, and in `rows` what it has deployed."""

    rows: np.ndarray  # [(H + 1) * S]  STAGE_ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  STAGE_CELL
    loud: np.ndarray  # [1]  visits of stages whose bonus was above H
    clock: np.ndarray  # [4]  deployments and local switches so far; the rest is zero


class PlanRule(NamedTuple):
    """A planner worked out for one problem size."""

    H: int
    S: int
    A: int
    stride: int  # cells from one step to the next: 0 if the counts of all steps are pooled
    allowed: np.ndarray  # [H * S * A]
    caps: np.ndarray  # [H]  largest value that step h can have
    kind: int  # CHERNOFF, FREEDMAN, MONOTONIC, L1_BALL, UNKNOWN, SAMPLED or OWN
    data: int  # CURRENT, ALL or NEWEST
    monotone: bool  # estimates never grow
    c: float  # scale of the bonus
    log: float  # the bonus' logarithm
    law_log: float  # that of the width of an L1 ball
    known: int  # visits from which a cell is known
    prior: float  # of each successor
    told: bool  # the mean reward of a cell is known from its first visit on
    members: int  # L, policies in a deployed mixture
    scales: np.ndarray  # [L]  of the bonus, on top of c
    spare: int  # entries of the pool that one episode may need
    every_until: int  # each visit count up to here is a trigger
    later: np.ndarray  # [n]  the triggers after that, sorted; the last is NEVER
    pace: Pace  # the rest of the schedule


class PlanTables(NamedTuple):
    """What one planner has counted, and in `policy` what it has deployed."""

    policy: np.ndarray  # [L * H * S]
    q: np.ndarray  # [L * H * S * A]  -inf where the action is forbidden
    values: (
        np.ndarray
    )  # [L * (H + 1) * S]  the last S of each member are the zero after the last step
    visits: np.ndarray  # [H * S * A]
    drowned: (
        np.ndarray
    )  # [H * S * A]  whether the first member's bonus was above H when it was last worked out
    cells: np.ndarray  # [cells]  PLANNED
    records: np.ndarray  # [cells]  RECORD, what plans are made from
    fresh: np.ndarray  # [cells]  RECORD not taken over yet, or [0] where all are taken over at once
    dirty: np.ndarray  # [cells]  whether the record changed since the last plan
    pool: np.ndarray  # [n]  SUCCESSOR, the blocks of all records
    loud: np.ndarray  # [1]  visits whose bonus was above H
    # [6]  deployments, local switches, the next point of the grid, plans made, used part of the
    # pool, Python's turn
    clock: np.ndarray
    keys: np.ndarray  # [2]  noise streams of posterior samples and of the members that play
    counter: np.ndarray  # [1]  position in the stream of a posterior sample
    proposal: np.ndarray  # [L * H * S]  the policies about to be deployed
    order: np.ndarray  # [S]  the states by their next value
    scratch: np.ndarray  # [S]  zero between calls
    tally: np.ndarray  # [A]  zero between calls


class MixtureRule(NamedTuple):
    """A mixture of Q-learners that differ in the scale of their bonus."""

    H: int
    S: int
    A: int
    members: int  # L
    scales: np.ndarray  # [L]  of the bonus, on top of c
    whole: bool  # all rows may change, and not only those that had a trigger
    each: Rule | StageRule  # of every member
    pace: Pace


class MixtureTables(NamedTuple):
    """What a mixture of Q-learners knows, each member for itself, and in `policy` what it has
    deployed.
    """

    policy: np.ndarray  # [L * H * S]
    proposal: np.ndarray  # [L * H * S]  the policies about to be deployed
    rows: (
        np.ndarray
    )  # [L * (H + 1) * S]  ROW or STAGE_ROW, with the action that each member would play
    cells: (
        np.ndarray
    )  # [L * (H + 1) * S * A]  CELL or STAGE_CELL; the last S * A of each member are not used
    moments: np.ndarray  # [L * (H + 1) * S * A]  MOMENTS, or [0]
    loud: np.ndarray  # [1]  visits whose bonus was above H for the first member
    path: np.ndarray  # [H]  STEP of the episode that is being played
    clock: np.ndarray  # [6]  as in PlanTables
    keys: np.ndarray  # [2]  as in PlanTables
    tally: np.ndarray  # [A]  zero between calls


class Model(NamedTuple):
    """A tabular MDP laid out for sampling and for exact values; a row is one (x, a), or one (h, x,
    a).
    """

    stride: int  # rows from one step to the next: 0 if stationary
    reward_stride: int  # likewise for the rewards
    offsets: np.ndarray  # [rows + 1]  where each row's successors begin
    successors: np.ndarray  # [nonzeros]  ascending in each row
    probabilities: np.ndarray  # [nonzeros]
    # [rows + 1]  alias table of each row, and last that of the start law: first column << 6 |
    # log2(columns)
    heads: np.ndarray
    columns: np.ndarray  # [columns]  COLUMN
    rewards: np.ndarray  # [S * A] or [H * S * A]
    bernoulli: bool  # the reward is 0 or 1 with the given mean
    starts: np.ndarray  # [n]  start state of each episode, or [0] where the start law decides
    width: int  # S + 1 rounded up to whole lanes
    # [rows * width]  successor probabilities, then the reward, of each row; or [0] where the lists
    # serve
    outflow: np.ndarray


class Evaluation(NamedTuple):
    """The exact value of the deployed policies, from the law of the state at each step; of a
    mixture the mean of its L members.
    """

    wanted: bool
    H: int
    S: int
    A: int
    members: int  # L
    best: float  # value of an optimal policy under the start law
    optimal: np.ndarray  # [S]  optimal values of step 0
    policy: np.ndarray  # [L * H * S]
    origins: np.ndarray  # [L * H * S]  where the deployed action's row begins in `outflow`
    # [L * H * width]  at (h, x) the probability of x at step h; at (h, S) the mean reward of all
    # steps before
    mass: np.ndarray


class Log(NamedTuple):
    """What the policy of one run did: its row changes since the log was last emptied, and how many
    there were at each checkpoint.
    """

    keep: bool  # the caller takes the changes; else they are dropped once their regret is known
    counts: np.ndarray  # [3]  local switches, deployments, changes in the log
    changes: np.ndarray  # [n, 3 + L]  (episode, step, state, action of each member)
    checkpoints: np.ndarray  # [C]  episodes after which the curves have a point
    switches: np.ndarray  # [C]
    deployments: np.ndarray  # [C]


class Account(NamedTuple):
    """What the episodes of one run cost."""

    regret: np.ndarray  # [2]  regret so far, gap of the deployed policy
    position: np.ndarray  # [2]  episodes charged, checkpoints passed
    checkpoints: np.ndarray  # [C]
    curve: np.ndarray  # [C]  regret


class Window(NamedTuple):
    """Episodes that were played ahead of what is learned; episode k lies in slot k % W."""

    ready: np.ndarray  # [W]  whether the slot holds an episode that the deployed policy played
    states: np.ndarray  # [W, H]
    actions: np.ndarray  # [W, H]
    rewards: np.ndarray  # [W, H]


class Rounds(NamedTuple):
    """How M machines play one run, and how far they are."""

    episodes: int  # in all, unless the run is stopped before
    cut: int  # AT_TRIGGER, AT_SWITCH or AT_MISMATCH
    pause: bool  # look at each deployment whether the run can stop
    policy_gap: float  # stop when the deployed policy is so close to the optimum; below 0: never
    mixture_gap: float  # likewise for the mixture of all policies so far
    room: int  # row changes that a round may make
    counts: (
        np.ndarray
    )  # [4]  rounds, episodes played, episodes learned, episodes at which the run ends
    earned: np.ndarray  # [1]  rewards of the episodes learned
    plays: (
        np.ndarray
    )  # [H * S * A]  how often machines played each action, episodes thrown away included
    stamps: (
        np.ndarray
    )  # [n, 2]  beside each row change in the log: rounds and episodes played so far
    curve: np.ndarray  # [C]  rounds at each checkpoint
    earned_curve: np.ndarray  # [C]


class Bandit(NamedTuple):
    """A problem with Bernoulli arms, and an algorithm worked out for one number of pulls."""

    means: np.ndarray  # [A]
    gaps: np.ndarray  # [A]  the best mean less this one
    kind: int  # which algorithm, a number in `kernels.py`
    constant: float  # in its confidence width: alpha, gamma, c or p
    every_until: int  # a batch ends at each pull count of an arm up to here
    later: np.ndarray  # [n]  and at these after that, sorted; the last is NEVER
    grid: np.ndarray  # [M]  and at these numbers of all pulls, sorted; the last is T
    checkpoints: np.ndarray  # [C]  pulls after which the curves have a point


class BanditTables(NamedTuple):
    """What every run knows, did and paid."""

    keys: np.ndarray  # [runs]  noise stream
    posterior_keys: np.ndarray  # [runs]  the stream of Thompson sampling's own draws
    pulls: np.ndarray  # [runs, A]
    wins: np.ndarray  # [runs, A]  rewards of 1
    arm: np.ndarray  # [runs]  played last
    due: (
        np.ndarray
    )  # [runs]  pulls of that arm at which the next is chosen, in the policies with an index
    left: np.ndarray  # [runs, A]  pulls still to play in this batch, in the others
    active: np.ndarray  # [runs, A]  not yet given up
    old_pulls: np.ndarray  # [runs, A]  of earlier phases, whose rewards no longer count
    old_wins: np.ndarray  # [runs, A]
    switched: np.ndarray  # [runs]  switches so far
    begun: np.ndarray  # [runs]  batches so far
    regret: np.ndarray  # [runs, C]
    switches: np.ndarray  # [runs, C]
    batches: np.ndarray  # [runs, C]


class Intervals(NamedTuple):
    """MBIE worked out for one problem size."""

    H: int
    S: int
    A: int
    c: float  # scale of both widths
    reward_log: float  # ln(2 / delta_R)
    transition_log: float  # ln(2^S - 2) - ln delta_T, or 0 where there is one state
    most_visits: int  # later visits of an (h, x, a) are no data
    allowed: np.ndarray  # [H, S, A]


class IntervalTables(NamedTuple):
    """What MBIE has seen, what it makes of that, and in `policy` what it has deployed."""

    visits: np.ndarray  # [H, S, A]  that are data
    payments: np.ndarray  # [H, S, A]  sum of their rewards
    successors: np.ndarray  # [H, S, A, S]  how often each state came next
    plays: np.ndarray  # [H, S, A]  all visits
    stale: np.ndarray  # [H, S, A]  data were added since q was worked out
    q: np.ndarray  # [H, S, A]  optimistic; -inf where the action is forbidden
    v: np.ndarray  # [H + 1, S]  their maxima; the last row is zero
    order: np.ndarray  # [H, S]  the states of step h + 1 by falling value
    law: np.ndarray  # [S]  scratch: one optimistic law, so that no count is overwritten
    policy: np.ndarray  # [H, S]
