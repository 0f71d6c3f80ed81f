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
        """What results call the loss: "regret" where it is exact, else by what it is."""

    @property
    def size(self) -> dict[str, int]:
        """Its horizon, its states or its features, and its actions, by these names."""

    @property
    def steps_alike(self) -> bool:
        """Whether the steps of an episode are known to be alike, so that they can be pooled."""

    def optimal_value(self, episodes: int = 0) -> float:
        """What an optimal policy earns per episode, in the first `episodes` episodes where start
        states are given; NaN if nobody knows.
        """

    def facts(self) -> dict[str, Any]:
        """What tells it from every other problem, as JSON can hold it."""


def require_problem(problem: Any) -> Problem:
    """The problem, or an error that says which ones there are."""
    if not isinstance(problem, Problem):
        raise ValueError(
            "the problem must be a TabularMDP such as lowswitch.envs.riverswim(), a step function"
            " in lowswitch.envs.Simulator(step, ...), or one with features such as those of"
            f" lowswitch.features.problems, not {shown(problem)}; a system that plays whole"
            " episodes runs in lowswitch.concurrent.run, as lowswitch.concurrent.System(play, ...)"
        )
    return problem
