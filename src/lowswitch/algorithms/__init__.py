"""Algorithms: the published recipes, each of which is estimator x bonus x schedule.

The parts that they are made of are in `lowswitch.algorithms.parts`.
"""

from lowswitch.algorithms.recipes import (
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
