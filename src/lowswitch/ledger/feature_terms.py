"""The terms of a run whose states are vectors: reports contain them, policies are functions of
them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import is_number, require_count
from lowswitch.feature_learner import FeatureLearner
from lowswitch.learner import Batch, Learner
from lowswitch.learners.ridge import Deployment
from lowswitch.learners.ridge_spec import linear_form
from lowswitch.ledger.cases import CaseTally
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.feature import Feature, checked_features
from lowswitch.ledger.feature_evidence import kinds_of
from lowswitch.ledger.feature_proposals import FeatureProposals
from lowswitch.ledger.responses import FeatureIssued, Issued
from lowswitch.ledger.tally import Tally
from lowswitch.ledger.terms import Report, Steps, Terms, checked_parts, count_of, items
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape
from lowswitch.show.text import counted, plural

if TYPE_CHECKING:
    from lowswitch.ledger.state import State
    from lowswitch.ledger.store import StoredTicket


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureTerms(Terms):
    """The declaration of a run whose contexts are vectors of numbers.

    Rewards are learned in the units of the run, as `FeatureLearner` expects.
    """

    features: int
    shared: bool  # whether all actions have the same features
    policy: dict[str, Any] | None  # deployed first, by its `to_dict`; None as the algorithm begins
    # ranges and units. Ledgers that were made before there were any keep no cases either, and judge
    # proposals by estimates
    about: tuple[Feature, ...] | None

    @classmethod
    def declared(
        cls,
        algorithm: Algorithm,
        *,
        features: int | Sequence[str | Feature],
        shared: bool,
        policy: LinearPolicy | None,
        **others: Any,
    ) -> Self:
        """The terms of a run; the error names what does not fit. Other options: `checked_parts`."""
        if policy is not None and not isinstance(policy, LinearPolicy):
            raise LedgerError(
                f"policy= of a ledger with features is a LinearPolicy, not {type(policy).__name__}"
            )
        if others["missing"] == "optimistic":
            raise LedgerError(
                'missing="optimistic" hopes for the best state of a table, which features do not'
                ' have; declare "drop" or "hold"'
            )
        if hasattr(others.get("forecast"), "expected"):
            raise LedgerError(
                "a plan with features has its own units of reward, in which noise is 1; give the"
                " forecast as lines (episodes, low, middle, high) in yours, or leave it out"
            )
        episodes = require_count("episodes", others["episodes"])
        about = checked_features(features)
        size = {
            "horizon": others["horizon"],
            "features": len(about),
            "actions": count_of("actions", others["actions"]),
            "shared": shared,
        }
        FeatureLearner(algorithm, **size, episodes=episodes, initial=policy)  # or an error
        algorithm = linear_form(algorithm, episodes, policy)
        parts = checked_parts(**others)
        parts["labels"]["feature"] = tuple(one.name for one in about)
        facts = None if policy is None else policy.to_dict()
        return cls(algorithm=algorithm, policy=facts, about=about, **parts | size)

    def to_payload(self) -> dict[str, Any]:
        payload = super().to_payload()
        if self.about is None:
            return {name: value for name, value in payload.items() if name != "about"}
        return payload | {"about": [[one.low, one.high, one.unit] for one in self.about]}

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        about = payload.get("about")
        if about is not None:
            names = payload["labels"]["feature"]
            about = tuple(Feature(name, *one) for name, one in zip(names, about, strict=True))
        return super().from_payload(payload | {"about": about})

    @functools.cached_property
    def shape(self) -> Shape:
        """The sizes that the learner needs."""
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
            lowest=self.rewards[0] if self._has_floor else 0.0,
        )

    @property
    def _has_floor(self) -> bool:
        return getattr(self.algorithm.estimator, "floor", None) is not None

    def restored(self, data: bytes) -> FeatureLearner:
        return FeatureLearner.from_bytes(data)

    @property
    def keeps_cases(self) -> bool:
        """Whether the newest cases are stored, so that a model of them judges a proposal."""
        return self.about is not None and self.horizon == 1

    def tally(self, data: bytes | None = None) -> Tally:
        if self.keeps_cases:
            made = CaseTally(self.actions, (self.shape.rows, self.features))
            return made if data is None else made.restore(data)
        shape = self.horizon, 1, self.actions
        return Tally(shape) if data is None else Tally.from_bytes(shape, data)

    @functools.cached_property
    def proposals(self) -> FeatureProposals:
        return FeatureProposals(self)

    # ---- reports ---------------------------------------------------------------------------------

    def report(
        self,
        number: int,
        policy: LinearPolicy,
        states: Any,
        actions: Any,
        rewards: Any,
        ended: str,
        propensities: Any = None,
    ) -> Report:
        """In a one-step run, an episode may be a context, an action and a reward."""
        if self.horizon == 1 and not isinstance(rewards, Sequence | np.ndarray):
            states, rewards = [states], [rewards]
            actions = None if actions is None else [actions]
            propensities = None if propensities is None else [propensities]
        paid = self.paid(items("rewards", rewards))
        contexts = items("contexts", states)
        played = None if actions is None else self.indices("action", items("actions", actions))
        self._require_lengths(len(contexts), len(paid if played is None else played), paid, ended)
        vectors = [self.vectors(h, context) for h, context in enumerate(contexts)]
        if played is None:
            chosen = (policy.act(x, number - 1, h) for h, x in enumerate(vectors))
            played = tuple(choice.action for choice in chosen)
        chances = None
        if self.about is not None:
            chances = self._propensities(policy, vectors, played, propensities)
        found = tuple(x.tolist() for x in vectors)
        return Report(number, found, played, paid, ended, chances)

    def _propensities(
        self, policy: LinearPolicy, vectors: list[np.ndarray], played: Sequence[int], given: Any
    ) -> tuple[float, ...]:
        """The probability of each action: as the site reports it, or by its ticket's policy."""
        if given is None:
            laws = (policy.propensities(x[None], h)[0] for h, x in enumerate(vectors))
            return tuple(float(law[a]) for law, a in zip(laws, played, strict=True))
        said = items("propensities", given)
        if len(said) != len(played) or not all(is_number(one) and 0 < one <= 1 for one in said):
            raise LedgerError(
                f"propensities must be a number above 0 and at most 1 for each action, not"
                f" {given!r}; leave them out if the policy of the ticket chose the actions"
            )
        return tuple(map(float, said))

    def vectors(self, step: int, context: Any) -> np.ndarray:  # [d], or [A, d]
        """The features of a step; the error names the first wrong one."""
        try:
            rows = self.shape.context(context)
        except (TypeError, ValueError) as error:
            where = "" if self.horizon == 1 else f"at step {self.labels['step'][step]}, "
            raise LedgerError(f"{where}{self._with_names(str(error))}") from None
        for i, feature in enumerate(self.about or ()):
            for value in rows[:, i].tolist():
                feature.require(value)
        return rows[0] if self.shared else rows

    def _with_names(self, says: str) -> str:
        """An error about a feature by its number, with its name."""
        for i, feature in enumerate(self.about or ()):
            if says.startswith(f"feature {i} "):
                return says.replace(f"feature {i}", f"feature {feature.name}", 1)
        return says

    def act(self, policy: LinearPolicy, number: int, context: Any, step: Any = 0) -> dict[str, Any]:
        h = self.index("step", step)
        choice = policy.act(self.vectors(h, context), number - 1, h)
        action = self.labels["action"][choice.action]
        return {"action": action, "propensity": choice.propensity}

    def _require_lengths(self, contexts: int, n: int, paid: Sequence[float], ended: str) -> None:
        H = self.horizon
        least = {"whole": H, "terminated": 1, "truncated": 0}[ended]
        most = 0 if ended == "truncated" else H
        if not (contexts == n == len(paid) and n <= H):
            raise LedgerError(
                f"{contexts} contexts, {n} actions and {len(paid)} rewards are not an episode of"
                f" {H} steps: there is one context, one action and one reward for each step"
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

    def places(self, batch: Batch) -> np.ndarray:  # [B, H], or the contexts [B, 1, R, d]
        return batch[0] if self.keeps_cases else np.zeros_like(batch[1])

    # ---- words -----------------------------------------------------------------------------------

    @property
    def sizes(self) -> str:
        features, actions = (
            counted(self.features, "feature"),
            counted(self.actions, self.word("action")),
        )
        steps = "" if self.horizon == 1 else f", {counted(self.horizon, self.word('step'))}"
        return f"{features} and {actions}{steps} per {self.word('episode')}"

    @functools.cached_property
    def columns(self) -> tuple[Feature, ...]:
        """The numbers of a context as one list; if actions have their own features, for each
        action.
        """
        named = self.about or tuple(map(Feature, self.labels["feature"]))
        if self.shared:
            return named
        return tuple(
            dataclasses.replace(one, name=f"{one.name} of {action}")
            for action in self.labels["action"]
            for one in named
        )

    def where(self, ranges: list[list[Any]]) -> str:
        """A kind of cases in words, from the range of each feature that is limited."""
        found = list[str]()
        for column, low, high in ranges:
            one = self.columns[column]
            if low is None:
                found.append(f"{one.name} up to {one.limit(high)}")
            elif high is None:
                found.append(f"{one.name} above {one.limit(low)}")
            else:
                found.append(f"{one.name} above {low:.7g} up to {one.limit(high)}")
        return " and ".join(found) or f"all {plural(self.word('episode'))}"

    def state_names(self, states: Sequence[Any]) -> list[str]:
        return [" ".join(map(repr, np.asarray(one).reshape(-1).tolist())) for one in states]

    def states_shown(self, states: Sequence[Any]) -> str:
        shown = (
            ", ".join(f"{name} {value}" for name, value in self.described(one).items())
            for one in states
        )
        return "; ".join(shown)

    def read_state(self, text: str) -> Any:
        try:
            values = [float(part) for part in text.split()]
        except ValueError:
            raise LedgerError(f"{text!r} is not numbers with spaces between them") from None
        if self.shared or len(values) != self.actions * self.features:
            return values
        return np.array(values).reshape(self.actions, self.features).tolist()

    def described(self, context: Any) -> dict[str, str]:
        """A context by the names of its features, with units."""
        values = np.asarray(context, dtype=float).reshape(-1).tolist()
        return {
            one.name: one.amount(value) for one, value in zip(self.columns, values, strict=True)
        }

    # ---- policies --------------------------------------------------------------------------------

    def to_facts(self, policy: LinearPolicy) -> Any:
        return policy.to_dict()

    def from_facts(self, facts: Any, learner: Learner) -> LinearPolicy:
        return LinearPolicy.from_dict(facts)

    def issued(self, ticket: StoredTicket, policy: LinearPolicy, *, whole: bool = True) -> Issued:
        number, name, site, request, version = ticket[:5]
        part, own = policy.part(number - 1), policy if whole else None
        return FeatureIssued(name, number, site, request, version, own, part)

    def share(self, policy: LinearPolicy) -> float | None:
        return policy.share

    def law(self, policy: LinearPolicy, context: Any, step: Any = 0) -> dict[str, float]:
        """The probability of each action in a context."""
        h = self.index("step", step)
        shares = policy.propensities(self.vectors(h, context)[None], h)[0].tolist()
        return dict(zip(self.labels["action"], shares, strict=True))

    def kinds(
        self, state: State, before: LinearPolicy | None, after: LinearPolicy
    ) -> dict[str, Any]:
        """What a policy gives to which kinds of the newest cases, or how two policies differ.

        If the run has a trial, this describes the protocol, and `trial` has the shares of the
        trial's cases.
        """
        tally, names = state.tally, self.labels["action"]
        gone = np.flatnonzero(~state.learner.actions_allowed.all(axis=0)).tolist()
        found: dict[str, Any] = {"cases": 0, "regions": [], "fidelity": None, "changed": None}
        if isinstance(tally, CaseTally) and len(tally.cases.actions):
            old = before and (before.protocol or before)
            found = kinds_of(tally.cases, old, after.protocol or after)
            found["regions"] = [self.proposals.region(one) for one in found["regions"]]
        shares = [before and before.share, after.share]
        return found | {"forbidden": [names[a] for a in gone], "trial": shares}

    @property
    def cells(self) -> int:
        return self.shape.weights * (self.algorithm.members or 1)

    def to_json(self, policy: LinearPolicy, member: int | None) -> dict[str, Any]:
        if member is not None:
            raise LedgerError("a policy on features comes whole; leave member out")
        return {"members": policy.members, "policy": policy.to_dict()}

    def shown(self, policy: LinearPolicy) -> LinearPolicy:
        return policy

    def changed_rows(self, before: LinearPolicy, after: LinearPolicy) -> int:
        return int(before.identity != after.identity)

    def usual_batch(self) -> Batch:
        nothing = np.zeros((1, self.horizon, self.shape.rows, self.features))
        first = self.learner().actions_allowed.argmax(axis=1)[None]
        return nothing, first, np.zeros((1, self.horizon))

    def is_forbidden(self, policy: LinearPolicy, learner: Learner) -> bool:
        return bool((policy.playable & ~learner.actions_allowed).any())

    def deployed(self, switch: Sequence[Deployment]) -> list[Any]:
        return [[one.episode, one.policy.identity] for one in switch]

    def difference(self, before: LinearPolicy, after: LinearPolicy, told: int) -> list[Any]:
        return [] if before.identity == after.identity else [[told - 1, after.identity]]
