"""What logged data say: values of other policies, a policy that they vouch for, pairs of arms."""

from lowswitch.evaluation.batches import Batches, Contrast, compare_arms
from lowswitch.evaluation.contexts import Log
from lowswitch.evaluation.episodes import Episodes, mixture_propensities
from lowswitch.evaluation.estimates import Estimate, Evaluation
from lowswitch.evaluation.offpolicy import evaluate
from lowswitch.evaluation.pessimism import Pessimistic, vi_lcb
from lowswitch.evaluation.replays import replay

__all__ = [
    "Batches",
    "Contrast",
    "Episodes",
    "Estimate",
    "Evaluation",
    "Log",
    "Pessimistic",
    "compare_arms",
    "evaluate",
    "mixture_propensities",
    "replay",
    "vi_lcb",
]
