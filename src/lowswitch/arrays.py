"""What the kernels read and write: the layout of every array that crosses into compiled code."""

from typing import NamedTuple

import numpy as np

LANES = 8  # float64 in a cache line
NEVER = 2**31 - 1  # a visit count that no run reaches

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
COLUMN = np.dtype([("threshold", "i8"), ("own", "i4"), ("other", "i4")])  # of an alias table


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


class Tables(NamedTuple):
    """What one learner knows, and in `rows` what it has deployed."""

    rows: np.ndarray  # [(H + 1) * S]  ROW; the last S are the zero after the last step
    cells: np.ndarray  # [H * S * A]  CELL
    moments: np.ndarray  # [H * S * A]  MOMENTS, or [0] where no bonus reads them
    loud: np.ndarray  # [1]  visits whose bonus was above H


class Model(NamedTuple):
    """A tabular MDP laid out for sampling and for exact values; a row is one (x, a), or one (h, x, a)."""

    stride: int  # rows from one step to the next: 0 if stationary
    reward_stride: int  # likewise for the rewards
    offsets: np.ndarray  # [rows + 1]  where each row's successors begin
    successors: np.ndarray  # [nonzeros]  ascending in each row
    probabilities: np.ndarray  # [nonzeros]
    heads: np.ndarray  # [rows + 1]  alias table of each row, and last that of the start law: first column << 6 | log2(columns)
    columns: np.ndarray  # [columns]  COLUMN
    rewards: np.ndarray  # [S * A] or [H * S * A]
    bernoulli: bool  # the reward is 0 or 1 with the given mean
    starts: np.ndarray  # [n]  start state of each episode, or [0] where the start law decides
    width: int  # S + 1 rounded up to whole lanes
    outflow: np.ndarray  # [rows * width]  successor probabilities, then the reward, of each row; or [0] where the lists serve


class Evaluation(NamedTuple):
    """The exact value of the deployed policy, from the law of the state at each step."""

    wanted: bool
    H: int
    S: int
    A: int
    best: float  # value of an optimal policy under the start law
    optimal: np.ndarray  # [S]  optimal values of step 0
    policy: np.ndarray  # [H * S]
    origins: np.ndarray  # [H * S]  where the deployed action's row begins in `outflow`
    mass: np.ndarray  # [H * width]  at (h, x) the probability of x at step h; at (h, S) the mean reward of all steps before


class Log(NamedTuple):
    """What the policy of one run did: its row changes since the log was last emptied, and how many there were at each checkpoint."""

    keep: bool  # the caller takes the changes; else they are dropped once their regret is known
    counts: np.ndarray  # [3]  local switches, deployments, changes in the log
    changes: np.ndarray  # [n, 4]  (episode, step, state, action)
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
    counts: np.ndarray  # [4]  rounds, episodes played, episodes learned, episodes at which the run ends
    earned: np.ndarray  # [1]  rewards of the episodes learned
    plays: np.ndarray  # [H * S * A]  how often machines played each action, episodes thrown away included
    stamps: np.ndarray  # [n, 2]  beside each row change in the log: rounds and episodes played so far
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
    due: np.ndarray  # [runs]  pulls of that arm at which the next is chosen, in the policies with an index
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
