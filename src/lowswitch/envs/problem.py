"""What drivers ask of a problem, whether it has a table of states or features."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from lowswitch.checks import shown


@runtime_checkable
class Problem(Protocol):
    """A simulated problem: a TabularMDP, a Simulator, or a FeatureProblem."""

    name: str
    knows_regret: bool  # whether it knows what each episode loses

    @property
    def measure(self) -> str:
        """The name of the loss in results: "regret" if it is exact, else how it is measured."""

    @property
    def size(self) -> dict[str, int]:
        """Its horizon, its states or its features, and its actions, by these names."""

    @property
    def steps_alike(self) -> bool:
        """Whether the steps of an episode are known to be alike, so that they can be pooled."""

    def optimal_value(self, episodes: int = 0) -> float:
        """The value of an optimal policy per episode; NaN if unknown.

        If start states are given, it is the mean over the first `episodes` of them.
        """

    def facts(self) -> dict[str, Any]:
        """What tells it from every other problem, as JSON can hold it."""


def require_problem(problem: Any) -> Problem:
    """The problem, or an error that lists the possible ones."""
    if not isinstance(problem, Problem):
        raise ValueError(
            "the problem must be a TabularMDP such as lowswitch.envs.riverswim(), a step function"
            " in lowswitch.envs.Simulator(step, ...), or a problem of lowswitch.features.problems,"
            f" not {shown(problem)}; a system that plays whole"
            " episodes runs in lowswitch.concurrent.run, as lowswitch.concurrent.System(play, ...)"
        )
    return problem
