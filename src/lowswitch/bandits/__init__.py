"""The one-state, one-step case: algorithms with few switches or batches, run thousands of times."""

from lowswitch.bandits.policies import (
    RECIPES,
    BanditAlgorithm,
    BaSEPolicy,
    BatchedThompsonPolicy,
    ExploreThenCommitPolicy,
    GridPolicy,
    IndexPolicy,
    LogLogPolicy,
    UCB1Policy,
    UCB2Policy,
    base,
    batched_thompson,
    explore_then_commit,
    log_log,
    ucb1,
    ucb2,
)
from lowswitch.bandits.runs import BanditCurves, BanditRuns, load, simulate

__all__ = [
    "RECIPES",
    "BaSEPolicy",
    "BanditAlgorithm",
    "BanditCurves",
    "BanditRuns",
    "BatchedThompsonPolicy",
    "ExploreThenCommitPolicy",
    "GridPolicy",
    "IndexPolicy",
    "LogLogPolicy",
    "UCB1Policy",
    "UCB2Policy",
    "base",
    "batched_thompson",
    "explore_then_commit",
    "load",
    "log_log",
    "simulate",
    "ucb1",
    "ucb2",
]
