"""FeatureLearner: a learner for contexts that are vectors, which deploys functions of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import require_count
from lowswitch.kernels.streams import MEMBERS, learner_stream
from lowswitch.learner import Batch, Learner, refuse_action
from lowswitch.learners.drift import ContextDrift
from lowswitch.learners.knowledge import checked_actions
from lowswitch.learners.ridge import Deployment, RidgeKnowledge
from lowswitch.learners.ridge_posterior import RidgePosterior
from lowswitch.learners.ridge_spec import linear_form, spec_of
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape
from lowswitch.review.gate import Gate
from lowswitch.review.proposals import WHOLE, Key, LinearProposal


class ContextDriftWarning(UserWarning):
    """The contexts of a run have moved, so lessons from earlier ones may no longer hold."""


class _Wrong(NamedTuple):
    """A step that was not played by the deployed policy."""

    episode: int  # of the batch
    step: int
    played: int
    planned: int


class FeatureLearner(Learner):
    """A learner for a problem whose states are known by their features.

    Rewards may be any finite numbers. `few` adds an intercept itself; for the others a constant
    feature is the intercept.

    Parameters
    ----------
    algorithm
        `ls.linear`, `ls.linucb` or `ls.few`.
    horizon
        The number of steps per episode; 1 is a contextual bandit.
    features
        How many numbers describe a context.
    actions
        A, the number of actions.
    episodes
        K, how many episodes the learner can be told.
    shared
        Whether the features describe the context for all actions, each of which then has its own
        weights. With False, each action has its own feature vector in every context.
    seed
        Determines the drawn weights and the draws from a deployed mixture.
    initial
        A LinearPolicy, deployed at the beginning; by default the one that the algorithm makes
        without data. If it is one function and episodes have one step, it is a protocol, and `few`
        adds a trial.
    gate
        As in `TableLearner`.
    lowest
        The smallest reward, which a floor is measured from.
    """

    kind = "linear learner"
    _knowledge: RidgeKnowledge
    _deployed: LinearPolicy

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        horizon: int = 1,
        features: int,
        actions: int,
        episodes: int,
        shared: bool = True,
        seed: int = 0,
        initial: LinearPolicy | None = None,
        gate: str = "open",
        lowest: float = 0.0,
    ) -> None:
        self._take(Shape.of(horizon, features, actions, shared))
        self.lowest = float(lowest)
        if initial is not None:
            self._checked_policy(initial)
        form = linear_form(algorithm, require_count("episodes", episodes), initial)
        self._begin(form, episodes, seed, gate)
        self._knowledge = self._fresh()
        self._knowledge.begin_with(initial)
        self._deployed = self._knowledge.policy()

    def _take(self, shape: Shape) -> None:
        self.shape, self.horizon, self.actions = shape, shape.horizon, shape.actions

    def _fresh(self) -> RidgeKnowledge:
        spec = spec_of(self.algorithm, self.shape, self.episodes)
        members = learner_stream(self.seed, MEMBERS)
        return RidgeKnowledge(self.shape, spec, self.seed, members, self.lowest)

    def __repr__(self) -> str:
        return (
            f"FeatureLearner({self.algorithm}, {self.shape}, told {self.told:,} of"
            f" {self.episodes:,} episodes, {self.deployments:,} deployments)"
        )

    # ---- the deployed policy and the knowledge ---------------------------------------------------

    @property
    def _observation_axes(self) -> int:
        return 1 if self.shape.shared else 2

    @property
    def policy(self) -> LinearPolicy:
        """The deployed policy: it acts, is compared, saved and evaluated without the learner."""
        return self._deployed

    @property
    def local_switches(self) -> int:
        """The deployments: a policy on features changes as a whole."""
        return self.deployments

    @property
    def actions_allowed(self) -> np.ndarray:  # [H, A]
        """The actions that policies to come may play at each step, read-only."""
        return self._knowledge.allowed

    @property
    def weights(self) -> np.ndarray:  # [H, B, d]
        """The estimates of all that was told; B = A weight vectors if features are shared.

        With more than one step they say how far values are from the `offsets`.
        """
        return self._knowledge.estimates(self.told)[0]

    @property
    def offsets(self) -> np.ndarray:  # [H]
        """The mean value of each step, which the weights add to.

        It is 0 for a contextual bandit without an intercept of the algorithm's own.
        """
        return self._knowledge.estimates(self.told)[1]

    @property
    def intercepts(self) -> np.ndarray:  # [H, B]
        """The weights of the constant feature that the algorithm adds; 0 if it adds none."""
        return self._knowledge.estimates(self.told)[2]

    @property
    def log_odds(self) -> bool:
        """Whether weights, intercepts and offsets say log-odds of a reward of 1."""
        return self._knowledge.odds and self.told > 0

    @property
    def drift(self) -> ContextDrift | None:
        """When the contexts were found to move, and in which feature; None if they were not."""
        return self._knowledge.seen.found

    @property
    def precision(self) -> np.ndarray:  # [H, B, d, d]
        """V = ridge I + sum x x' of each step and weight vector; a constant feature comes last."""
        factor = self._knowledge.sums.factor
        product: np.ndarray = factor.transpose(0, 1, 3, 2) @ factor
        return product

    def posterior(self) -> RidgePosterior:
        return self._knowledge.posterior(self.told)

    # ---- telling ---------------------------------------------------------------------------------

    def tell(self, states: Any, actions: Any, rewards: Any, *, off_policy: bool = False) -> Any:
        """As `Learner.tell`; a `ContextDriftWarning` says once that the contexts have moved.

        Parameters
        ----------
        states, actions, rewards, off_policy
            As in `Learner.tell`.
        """
        before = self.drift
        made = super().tell(states, actions, rewards, off_policy=off_policy)
        if self.drift is not None and before is None:
            left = sum(date > self.drift.told for date in self._knowledge.dates)
            ahead = f"the learner may still deploy {left} times and explores more until then"
            way_out = ahead if left else "no deployment is left, so this policy stays"
            warnings.warn(f"{self.drift}; {way_out}", ContextDriftWarning, stacklevel=2)
        return made

    def _checked_batch(self, states: Any, actions: Any, rewards: Any) -> Batch:
        """x: the features of each step, [d] of one step or [H, d]; where each action has its own,
        a vector [A, d] in place of [d]. From the step on at which an episode was over, its actions
        are -1.
        """
        return self.shape.episodes(states, actions, rewards)

    def _learn(
        self, batch: Batch, off_policy: bool, until_proposed: bool
    ) -> tuple[tuple[Deployment, ...] | None, int]:
        x, actions, rewards = batch
        first, done, before_all = self.told, 0, self._gate.pending
        made = list[Deployment]()
        while done < len(x) and not (until_proposed and self._gate.pending is not before_all):
            until = self.next_stop(len(x) - done) + done
            wrong = None if off_policy else self._first_wrong(x, actions, done, until)
            before = self._deployed
            learned = self.learn_piece(x[done:until], actions[done:until], rewards[done:until])
            if wrong is not None and wrong.episode < done + learned:
                hint = ""
                if made:
                    changed = made[-1].episode - first
                    hint = f"; the policy changed after episode {changed} of this batch"
                refuse_action(wrong.episode, wrong.step, "", wrong.played, wrong.planned, hint)
            done += learned
            if self._deployed is not before:
                made.append(Deployment(self.told - 1, self._deployed))
        self.told = first
        return tuple(made) or None, done

    @property
    def may_change(self) -> bool:
        """Whether the schedule lets a policy be made after the last episode that was told."""
        return self.told > 0 and self._knowledge.on_grid(self.told)

    def next_stop(self, most: int) -> int:
        """How many of `most` episodes can be learned before a date or a test of drift.

        Parameters
        ----------
        most
            The number of episodes at hand.
        """
        return min(most, self._knowledge.next_stop(self.told) - self.told) if most else 0

    def learn_piece(self, x: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> int:
        """Learn checked episodes in order until a policy is due; return how many.

        It is for drivers whose episodes the deployed policy has played, and which give no more of
        them than `next_stop` says.

        Parameters
        ----------
        x
            [n, H, R, d].
        actions, rewards
            [n, H].
        """
        knowledge = self._knowledge
        batch = x, actions, rewards, self.told
        learned, grown = knowledge.learn(*batch, watching=not self.budget_spent)
        self.told += learned
        if grown or knowledge.on_grid(self.told):
            self._due()
        return learned

    def _due(self) -> None:
        """Deploy, or propose, the wanted policy."""
        knowledge = self._knowledge
        if self.gate == "review":
            self._gate.waiting.add(WHOLE)
            self._gate.look_again(knowledge, self.told)
            self._gate.after_date(self.told)
        elif not knowledge.frozen and (wanted := knowledge.put(knowledge.wanted(self.told))):
            knowledge.deploy(wanted, self.told)
            self._deployed = knowledge.policy()

    def _first_wrong(
        self, x: np.ndarray, actions: np.ndarray, first: int, last: int
    ) -> _Wrong | None:
        """The first step of these episodes that the deployed policy plays otherwise."""
        episodes, found = self.told + np.arange(last - first), []
        for h in range(self.shape.horizon):
            played = actions[first:last, h]
            planned = self._deployed.actions(x[first:last, h], episodes, h)
            wrong = np.flatnonzero((played >= 0) & (planned != played))
            if len(wrong):
                b = int(wrong[0])
                found.append(_Wrong(first + b, h, int(played[b]), int(planned[b])))
        return min(found, default=None)

    # ---- the board -------------------------------------------------------------------------------

    def proposal(self) -> LinearProposal | None:
        """The proposal that waits for a decision, or None."""
        pending: LinearProposal | None = self._gate.pending
        return pending

    def _checked_veto(
        self, rows: Iterable[Key], actions: Iterable[int], more: Sequence[int]
    ) -> tuple[list[Key], list[int]]:
        """There are no rows: a veto is about all contexts, which [WHOLE] or nothing stands for."""
        if {*rows} - {WHOLE}:
            raise ValueError("a policy on features has no rows; name the actions alone")
        named = sorted(checked_actions([*actions], self.shape.actions))
        checked_actions([*named, *more], self.shape.actions)
        return [WHOLE], named

    def _allowed_in(self, step: int, state: int) -> np.ndarray:  # [A]
        return np.asarray(self._knowledge.allowed.all(axis=0))

    def _checked_policy(self, policy: Any) -> LinearPolicy:
        if not isinstance(policy, LinearPolicy) or policy.shape != self.shape:
            raise ValueError(f"a policy for this learner is a LinearPolicy of {self.shape}")
        return policy

    # ---- keeping ---------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        pending, policies = self._gate.pending, {"deployed": self._deployed}
        if pending is not None:
            policies["proposed"] = pending.policy
        if self._knowledge.initial is not None:
            policies["initial"] = self._knowledge.initial
        facts: dict[str, Any] = {
            "algorithm": self.algorithm.to_dict(),
            "shape": self.shape._asdict(),
            "episodes": self.episodes,
            "seed": self.seed,
            "told": self.told,
            "spent": self.proposed,
            "gate": self.gate,
            "decisions": self._gate.to_dict(),
        }
        if self.lowest:
            facts["lowest"] = self.lowest
        arrays = self._knowledge.arrays(self.told)
        for name, policy in policies.items():
            facts[name], tables = policy.state()
            arrays |= {f"{name}.{part}": array for part, array in tables.items()}
        return facts, arrays

    @classmethod
    def _observations(cls, data: dict[str, Any]) -> Any:
        from lowswitch.features.maps import features_from_dict

        return features_from_dict(data)

    @classmethod
    def _from_state(
        cls, facts: dict[str, Any], arrays: dict[str, np.ndarray], numbers: dict[str, Any] | None
    ) -> Self:
        if numbers is not None:
            raise ValueError("numbers are for tables; a learner with features needs none")
        learner = object.__new__(cls)
        learner._take(Shape.of(**facts["shape"]))
        learner.lowest = facts.get("lowest", 0.0)
        algorithm = Algorithm.from_dict(facts["algorithm"])
        learner._begin(algorithm, facts["episodes"], facts["seed"], facts["gate"])
        learner.told = require_count("told", facts["told"], least=0, most=learner.episodes)
        knowledge = learner._knowledge = learner._fresh()
        knowledge.deployments = require_count("spent", facts["spent"], least=0)
        knowledge.restore(arrays, learner.told)
        knowledge.deployed = learner._saved_policy("deployed", facts, arrays)
        if "initial" in facts:
            knowledge.initial = learner._saved_policy("initial", facts, arrays)
        learner._deployed = knowledge.policy()
        decisions = facts["decisions"]
        if (decisions["pending"] is None) != ("proposed" not in facts):
            raise ValueError("a proposal without its policy, or a policy without its proposal")
        made = None
        if decisions["pending"] is not None:
            proposed = learner._saved_policy("proposed", facts, arrays)
            made = LinearProposal.from_facts(decisions["pending"], proposed)
        if isinstance(decisions["waiting"], bool):  # as files of earlier versions say it
            waiting = [WHOLE] if decisions["waiting"] else []
            decisions = decisions | {"waiting": waiting, "holds": []}
        learner._gate = Gate.from_dict(decisions, made)
        return learner

    def _saved_policy(
        self, name: str, facts: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> LinearPolicy:
        """The policy that was saved under a name."""
        own = {
            part.removeprefix(f"{name}."): array
            for part, array in arrays.items()
            if part.startswith(f"{name}.")
        }
        return self._checked_policy(LinearPolicy.from_state(facts[name], own))
