"""States that are known by their features: feature maps, learners, policies and problems."""

from lowswitch.features import problems
from lowswitch.features.evaluation import Estimate, Evaluation, Log, evaluate
from lowswitch.features.gate import Deployment, LinearProposal
from lowswitch.features.learner import LinearLearner
from lowswitch.features.maps import Features, fourier, one_hot, own, polynomial, standardised
from lowswitch.features.problem import FeatureProblem
from lowswitch.features.runs import LinearRuns
from lowswitch.policy.linear import Choice, LinearPolicy

__all__ = [
    "Choice",
    "Deployment",
    "Estimate",
    "Evaluation",
    "FeatureProblem",
    "Features",
    "LinearLearner",
    "LinearPolicy",
    "LinearProposal",
    "LinearRuns",
    "Log",
    "evaluate",
    "fourier",
    "one_hot",
    "own",
    "polynomial",
    "problems",
    "standardised",
]
