"""States that are known by their features: feature maps, learners, policies and problems."""

from lowswitch.evaluation import Estimate, Evaluation, Log, evaluate
from lowswitch.feature_learner import ContextDriftWarning, FeatureLearner
from lowswitch.feature_learner import FeatureLearner as LinearLearner
from lowswitch.features import problems
from lowswitch.features.maps import Features, fourier, one_hot, own, polynomial, standardised
from lowswitch.features.problem import FeatureProblem
from lowswitch.learners.drift import ContextDrift
from lowswitch.learners.ridge import Deployment
from lowswitch.policy.choice import Choice
from lowswitch.policy.linear import LinearPolicy
from lowswitch.review.proposals import LinearProposal
from lowswitch.runs.results import Runs as LinearRuns

__all__ = [
    "Choice",
    "ContextDrift",
    "ContextDriftWarning",
    "Deployment",
    "Estimate",
    "Evaluation",
    "FeatureLearner",
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
