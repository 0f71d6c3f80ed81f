"""Problems whose states are known by features: ridge regression, and few deployments of it."""

from lowswitch.algorithms.recipes import linear, linucb
from lowswitch.linear.evaluate import Estimate, Evaluation, Log, evaluate
from lowswitch.linear.gate import LinearProposal
from lowswitch.linear.learner import Deployment, LinearLearner
from lowswitch.linear.policy import Choice, LinearPolicy
from lowswitch.linear.problem import FeatureProblem
from lowswitch.linear.runs import LinearRuns

__all__ = [
    "Choice",
    "Deployment",
    "Estimate",
    "Evaluation",
    "FeatureProblem",
    "LinearLearner",
    "LinearPolicy",
    "LinearProposal",
    "LinearRuns",
    "Log",
    "evaluate",
    "linear",
    "linucb",
]
