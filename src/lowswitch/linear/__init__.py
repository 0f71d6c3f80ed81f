"""Problems whose states are known by features: ridge regression, and few deployments of it."""

from lowswitch.algorithms.recipes import linear, linucb
from lowswitch.linear.control import DynamicsLearner
from lowswitch.linear.dynamics import Dynamics, GridPolicy, dynamics
from lowswitch.linear.evaluate import Estimate, Evaluation, Log, evaluate
from lowswitch.linear.gate import Deployment, LinearProposal
from lowswitch.linear.learner import LinearLearner
from lowswitch.linear.policy import Choice, LinearPolicy
from lowswitch.linear.problem import FeatureProblem
from lowswitch.linear.runs import LinearRuns

__all__ = [
    "Choice",
    "Deployment",
    "Dynamics",
    "DynamicsLearner",
    "Estimate",
    "Evaluation",
    "FeatureProblem",
    "GridPolicy",
    "LinearLearner",
    "LinearPolicy",
    "LinearProposal",
    "LinearRuns",
    "Log",
    "dynamics",
    "evaluate",
    "linear",
    "linucb",
]
