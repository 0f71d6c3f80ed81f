"""The published recipes. Each recipe combines an estimator, a bonus and a schedule.

These parts are in `lowswitch.algorithms.parts`.
"""

from lowswitch.algorithms.recipes import (
    early_settled,
    fedq_bernstein,
    fedq_hoeffding,
    few,
    linear,
    linucb,
    mbie,
    mvp,
    orlc,
    psrl,
    q_bernstein,
    q_hoeffding,
    rmax,
    stage_q,
    ucb2_bernstein,
    ucb2_hoeffding,
    ucb_advantage,
    ucb_bernstein,
    ucb_hoeffding,
    ucbvi,
    ucbvi_bernstein,
    ucrl2,
)

__all__ = [
    "early_settled",
    "fedq_bernstein",
    "fedq_hoeffding",
    "few",
    "linear",
    "linucb",
    "mbie",
    "mvp",
    "orlc",
    "psrl",
    "q_bernstein",
    "q_hoeffding",
    "rmax",
    "stage_q",
    "ucb2_bernstein",
    "ucb2_hoeffding",
    "ucb_advantage",
    "ucb_bernstein",
    "ucb_hoeffding",
    "ucbvi",
    "ucbvi_bernstein",
    "ucrl2",
]
