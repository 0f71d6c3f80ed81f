"""The terms of a run whose states are vectors, which reports hold and policies are functions of."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import require_count
from lowswitch.feature_learner import FeatureLearner
from lowswitch.learner import Batch, Learner
from lowswitch.learners.ridge import Deployment
from lowswitch.learners.ridge_spec import linear_form
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.feature_proposals import FeatureProposals
from lowswitch.ledger.responses import FeatureIssued, Issued
from lowswitch.ledger.terms import (
    Report,
    Steps,
    Terms,
    checked_labels,
    checked_parts,
    count_of,
    items,
)
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape

if TYPE_CHECKING:
    from lowswitch.ledger.store import StoredTicket


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureTerms(Terms):
    """The declaration of a run whose contexts are vectors of numbers.

    Rewards are learned in the units of the run, as a `FeatureLearner` takes them.
    """

    features: int
    shared: bool  # whether all actions have the same features
    policy: dict[str, Any] | None  # deployed first, by its `to_dict`; None as the algorithm begins

    @classmethod
    def declared(
        cls,
        algorithm: Algorithm,
        *,
        features: int | Sequence[str],
        shared: bool,
        policy: LinearPolicy | None,
        **others: Any,
    ) -> Self:
        """The terms of a run, or an error that names what does not fit; others: `checked_parts`."""
        if policy is not None and not isinstance(policy, LinearPolicy):
            raise LedgerError(
                f"policy= of a ledger with features is a LinearPolicy, not {type(policy).__name__}"
            )
        if others["missing"] == "optimistic":
            raise LedgerError(
                'missing="optimistic" hopes for the best state of a table, which features do not'
                ' have; declare "drop" or "hold"'
            )
        episodes = require_count("episodes", others["episodes"])
        size = {
            "horizon": others["horizon"],
            "features": count_of("features", features),
            "actions": count_of("actions", others["actions"]),
            "shared": shared,
        }
        algorithm = linear_form(algorithm, episodes)
        FeatureLearner(algorithm, **size, episodes=episodes, initial=policy)  # or an error
        parts = checked_parts(**others)
        parts["labels"]["feature"] = checked_labels("features", features)
        facts = None if policy is None else policy.to_dict()
        return cls(algorithm=algorithm, policy=facts, **parts | size)

    @functools.cached_property
    def shape(self) -> Shape:
        """The sizes of what the learner learns."""
        return Shape.of(self.horizon, self.features, self.actions, self.shared)

    # ---- the learner -----------------------------------------------------------------------------

    def learner(self) -> FeatureLearner:
        return FeatureLearner(
            self.algorithm,
            **self.shape._asdict(),
            episodes=self.episodes,
            seed=self.seed,
            gate=self.gate,
            initial=None if self.policy is None else LinearPolicy.from_dict(self.policy),
        )

    def restored(self, data: bytes) -> FeatureLearner:
        return FeatureLearner.from_bytes(data)

    @property
    def tally_shape(self) -> tuple[int, int, int]:
        return self.horizon, 1, self.actions

    @functools.cached_property
    def proposals(self) -> FeatureProposals:
        return FeatureProposals(self)

    # ---- reports ---------------------------------------------------------------------------------

    def report(
        self, number: int, policy: LinearPolicy, states: Any, actions: Any, rewards: Any, ended: str
    ) -> Report:
        """Of one step, an episode may be a context, an action and a reward."""
        if self.horizon == 1 and not isinstance(rewards, Sequence | np.ndarray):
            states, rewards = [states], [rewards]
            actions = None if actions is None else [actions]
        paid = self.paid(items("rewards", rewards))
        contexts = items("contexts", states)
        played = None if actions is None else self.indices("action", items("actions", actions))
        self._require_lengths(len(contexts), len(paid if played is None else played), paid, ended)
        vectors = [self._vectors(h, context) for h, context in enumerate(contexts)]
        if played is None:
            chosen = (policy.act(x, number - 1, h) for h, x in enumerate(vectors))
            played = tuple(choice.action for choice in chosen)
        return Report(number, tuple(x.tolist() for x in vectors), played, paid, ended)

    def _vectors(self, step: int, context: Any) -> np.ndarray:  # [d], or [A, d]
        """The features of a step, or an error that names the first wrong one."""
        try:
            rows = self.shape.context(context)
        except (TypeError, ValueError) as error:
            raise LedgerError(f"at step {self.labels['step'][step]}, {error}") from None
        return rows[0] if self.shared else rows

    def _require_lengths(self, contexts: int, n: int, paid: Sequence[float], ended: str) -> None:
        H = self.horizon
        least = {"whole": H, "terminated": 1, "truncated": 0}[ended]
        most = 0 if ended == "truncated" else H
        if not (contexts == n == len(paid) and n <= H):
            raise LedgerError(
                f"{contexts} contexts, {n} actions and {len(paid)} rewards are no episode of {H}"
                " steps: there is one context, one action and one reward for each step"
            )
        if n > most:
            raise LedgerError(
                f"an episode of which {n} of {H} steps were seen cannot be learned with features,"
                " because the value of what follows is unknown; declare its ticket missing, or say"
                " ended='terminated' if nothing followed"
            )
        if n < least:
            raise LedgerError(
                f"{n} steps are no {ended} episode of {H}; say ended='terminated' for one that was"
                " over early, at its first step or later"
            )

    def steps(self, report: Report, learner: Any = None, policy: Any = None) -> Steps | None:
        n = len(report.actions)
        if not n:
            return None
        left = self.horizon - n
        nothing = np.zeros(self._wanted).tolist()
        return (
            [*report.states, *[nothing] * left],
            [*report.actions, *[-1] * left],
            [*report.rewards, *[0.0] * left],
        )

    @property
    def _wanted(self) -> tuple[int, ...]:
        """The shape of the features of a step."""
        return (self.features,) if self.shared else (self.actions, self.features)

    def batch(self, steps: Sequence[Steps]) -> Batch:
        contexts, actions, rewards = (np.array(part) for part in zip(*steps, strict=True))
        return self.shape.episodes(contexts, actions, rewards)

    def require_learnable(self, report: Report) -> None:
        steps = self.steps(report)
        if steps is not None:
            self.batch([steps])

    def places(self, batch: Batch) -> np.ndarray:  # [B, H]
        return np.zeros_like(batch[1])

    # ---- policies --------------------------------------------------------------------------------

    def to_facts(self, policy: LinearPolicy) -> Any:
        return policy.to_dict()

    def from_facts(self, facts: Any, learner: Learner) -> LinearPolicy:
        return LinearPolicy.from_dict(facts)

    def issued(self, ticket: StoredTicket, policy: LinearPolicy, *, whole: bool = True) -> Issued:
        number, name, site, request, version = ticket[:5]
        return FeatureIssued(name, number, site, request, version, policy)

    def shown(self, policy: LinearPolicy) -> LinearPolicy:
        return policy

    def changed_rows(self, before: LinearPolicy, after: LinearPolicy) -> int:
        return int(before.identity != after.identity)

    def is_forbidden(self, policy: LinearPolicy, learner: Learner) -> bool:
        return bool((policy.allowed & ~learner.actions_allowed).any())

    def deployed(self, switch: Sequence[Deployment]) -> list[Any]:
        return [[one.episode, one.policy.identity] for one in switch]

    def difference(self, before: LinearPolicy, after: LinearPolicy, told: int) -> list[Any]:
        return [] if before.identity == after.identity else [[told - 1, after.identity]]
