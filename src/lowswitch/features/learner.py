"""LinearLearner: ask for the policy, tell what happened, in terms of features."""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import require_count, require_seed, require_truth, require_word
from lowswitch.features.gate import Deployment, LinearGate
from lowswitch.features.gated import RECENT, LinearGated
from lowswitch.features.ridge import Episodes, Knowledge, Sums
from lowswitch.features.spec import linear_form, spec_of
from lowswitch.io import archive, storage
from lowswitch.kernels.streams import MEMBERS, learner_stream
from lowswitch.policy.linear import Choice, LinearPolicy, allowed_actions
from lowswitch.policy.shape import Shape

_KIND = "linear learner"  # of its files


class _Wrong(NamedTuple):
    """A step that was not played by the deployed policy."""

    episode: int  # of the batch
    step: int
    played: int
    planned: int

    def refuse(self, first: int) -> None:
        """Say so; the policy has played from episode `first` of the batch on."""
        hint = f"; the policy changed after episode {first - 1} of this batch" if first else ""
        raise ValueError(
            f"episode {self.episode} of the batch plays action {self.played} at step {self.step}"
            f" where the policy plays {self.planned}{hint}; pass off_policy=True to learn from"
            " other actions"
        )


class LinearLearner(LinearGated):
    """A learner for a problem whose states are known by their features.

    algorithm: `ls.linear`, `ls.linucb` or `ls.few`. features: how many numbers describe a context.
    shared: whether they describe the context for all actions, each of which then has weights of its
    own; False says that each action has a feature vector of its own in every context. An episode
    has `horizon` steps: 1 is a contextual bandit. A constant feature is the intercept; there is
    none unless you give it. Rewards may be any finite numbers.

    The learner can be told `episodes` episodes, and their number enters the schedule. The seed is
    that of posterior samples and of the draws from a deployed mixture. initial: a LinearPolicy that
    is deployed at the beginning; by default the one that the algorithm makes without data.

    gate: as for `Learner`. With "review" what is wanted becomes a proposal, and only `approve`
    changes what is deployed.
    """

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
    ) -> None:
        self.shape = Shape.of(horizon, features, actions, shared)
        self.episodes = require_count("episodes", episodes)
        self.seed = require_seed(seed)
        require_word("gate", gate, ("open", "review"))
        self.gate = gate
        self.algorithm = linear_form(algorithm, self.episodes)
        self.told = 0
        self._spent = 0  # of a budget: what was deployed, or proposed where the gate is in review
        self._prepare()
        self._deployed = self._knowledge.plan(0, greedy=False) if initial is None else initial
        self._require_mine(self._deployed)

    def _prepare(self) -> None:
        """Everything but what was learned and deployed."""
        self._spec = spec_of(self.algorithm, self.shape, self.episodes)
        key = learner_stream(self.seed, MEMBERS)
        self._knowledge = Knowledge(self.shape, self._spec, self.seed, key)
        self._gate = LinearGate()
        self._recent = np.zeros((0, self.shape.rows, self.shape.features))
        self._telling = threading.Lock()

    def __repr__(self) -> str:
        return (
            f"LinearLearner({self.algorithm}, {self.shape}, told {self.told:,} of"
            f" {self.episodes:,} episodes, {self.deployments:,} deployments)"
        )

    # ---- what is deployed and known --------------------------------------------------------------

    @property
    def policy(self) -> LinearPolicy:
        """What is deployed: it acts, is compared, saved and evaluated without the learner."""
        return self._deployed

    def act(self, x: Any, step: int = 0) -> Choice:
        """The action that must be played in a context of the next episode, and its propensity."""
        return self._deployed.act(x, self.told, step)

    @property
    def deployments(self) -> int:
        """How often the policy has changed."""
        return self._gate.applied

    @property
    def proposed(self) -> int:
        """How many policies were deployed or proposed, approved or not; a budget counts these."""
        return self._spent

    @property
    def weights(self) -> np.ndarray:  # [H, B, d]
        """The ridge estimates of all that was told; B = A weight vectors if features are shared.

        Of more than one step they say how far values are from the `offsets`.
        """
        return self._knowledge.estimates(self.told)[0]

    @property
    def offsets(self) -> np.ndarray:  # [H]
        """The mean value of each step, which the weights add to; 0 of a contextual bandit."""
        return self._knowledge.estimates(self.told)[1]

    @property
    def precision(self) -> np.ndarray:  # [H, B, d, d]
        """V = ridge I + sum x x' of each step and weight vector."""
        factor = self._knowledge.sums.factor
        product: np.ndarray = factor.transpose(0, 1, 3, 2) @ factor
        return product

    # ---- telling ---------------------------------------------------------------------------------

    def tell(
        self, x: Any, actions: Any, rewards: Any, *, off_policy: bool = False
    ) -> tuple[Deployment, ...] | None:
        """Learn one episode or a batch of them in order; return what was deployed, or None.

        x: the features of each step, [d] of one step or [H, d]; where each action has its own, a
        vector [A, d] in place of [d]. Of a batch all arrays have one axis more in front. From the
        step on at which an episode was over, its actions are -1. Each episode must have been played
        by the policy deployed before it is learned, unless `off_policy` says that other actions are
        meant. A call that fails changes nothing.
        """
        require_truth("off_policy", off_policy)
        batch = self.shape.episodes(x, actions, rewards)
        with self._alone("tell"):
            self._require_room(len(batch[0]))
            return self._or_undo(lambda: self._tell(*batch, off_policy=off_policy))

    def _tell(
        self, x: np.ndarray, actions: np.ndarray, rewards: np.ndarray, *, off_policy: bool
    ) -> tuple[Deployment, ...] | None:
        made, done = [], 0
        while done < len(x):
            until = self.next_stop(len(x) - done) + done
            wrong = None if off_policy else self._first_wrong(x, actions, done, until)
            before = self._deployed
            learned = self.learn_piece(x[done:until], actions[done:until], rewards[done:until])
            if wrong is not None and wrong.episode < done + learned:
                wrong.refuse(done)
            done += learned
            if self._deployed is not before:
                made.append(Deployment(self.told - 1, self._deployed))
        return tuple(made) or None

    @property
    def may_change(self) -> bool:
        """Whether the schedule lets a policy be made after the last episode that was told."""
        return self.told > 0 and self._spec.on_date(self.told)

    def next_stop(self, most: int) -> int:
        """How many episodes can be learned before a date, if so many are there."""
        return min(most, self._spec.next_date(self.told) - self.told) if most else 0

    def learn_piece(self, x: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> int:
        """Learn checked episodes [n, H, R, d] in order until a policy is due; return how many.

        It is for drivers whose episodes the deployed policy has played, and which give no more of
        them than `next_stop` says.
        """
        batch = x, actions, rewards, self.told
        learned, grown = self._knowledge.learn(*batch, watch=not self.frozen)
        self._remember(x[:learned, 0])
        self.told += learned
        if grown or self._spec.on_date(self.told):
            self._due()
        return learned

    def _remember(self, contexts: np.ndarray) -> None:
        """Keep the newest contexts of a bandit, for what a proposal would change."""
        if self.shape.horizon == 1:
            recent = np.concatenate([self._recent, contexts[-RECENT:]])
            self._recent = recent[-RECENT:]

    def _require_room(self, episodes: int) -> None:
        if self.told + episodes > self.episodes:
            raise ValueError(
                f"this learner was made for {self.episodes} episodes and has been told {self.told};"
                " make one with more episodes"
            )

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

    # ---- keeping ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on bit for bit."""
        with self._alone("save"):
            storage.write(path, _KIND, *self._state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearLearner:
        """A learner that goes on where the saved one stopped."""
        with storage.reading(path, _KIND) as (facts, arrays):
            return cls._from_state(facts, arrays)

    def to_bytes(self) -> bytes:
        """What `save` writes, for a database or a message; `from_bytes` checks and reads it."""
        with self._alone("save"):
            return archive.to_bytes(_KIND, *self._state())

    @classmethod
    def from_bytes(cls, data: bytes) -> LinearLearner:
        """A learner that goes on where the one stopped that `to_bytes` wrote."""
        try:
            facts, arrays = archive.from_bytes(data, _KIND)
        except archive.RefusedError as error:
            raise ValueError(f"what was given {error}") from error
        with storage.whole("the bytes hold", _KIND):
            return cls._from_state(facts, arrays)

    def digest(self) -> str:
        """The SHA-256 over everything that learning goes on from, the same for equal learners."""
        with self._alone("digest"):
            return archive.digest(*self._state())

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts, as JSON can hold them, and arrays: all that is saved."""
        knowledge, pending = self._knowledge, self._gate.pending
        policies = {"deployed": self._deployed}
        if pending is not None:
            policies["proposed"] = pending.policy
        facts: dict[str, Any] = {
            "algorithm": self.algorithm.to_dict(),
            "shape": self.shape._asdict(),
            "episodes": self.episodes,
            "seed": self.seed,
            "told": self.told,
            "spent": self._spent,
            "gate": self.gate,
            "decisions": self._gate.to_dict(),
        }
        arrays = {**knowledge.sums._asdict(), "base": knowledge.base, "recent": self._recent}
        if not knowledge.allowed.all():
            arrays["allowed"] = knowledge.allowed
        if self.shape.horizon > 1:
            arrays |= {f"kept.{k}": v[: self.told] for k, v in knowledge.kept._asdict().items()}
        for name, policy in policies.items():
            facts[name], tables = policy.state()
            arrays |= {f"{name}.{part}": array for part, array in tables.items()}
        return facts, arrays

    @classmethod
    def _from_state(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> LinearLearner:
        """The learner of a state, or an error that says what is wrong with it."""
        learner = cls.__new__(cls)
        learner.shape = Shape.of(**facts["shape"])
        learner.episodes = require_count("episodes", facts["episodes"])
        learner.algorithm = Algorithm.from_dict(facts["algorithm"])
        learner.seed = require_seed(facts["seed"])
        require_word("gate", facts["gate"], ("open", "review"))
        learner.gate = facts["gate"]
        learner.told = require_count("told", facts["told"], least=0, most=learner.episodes)
        learner._spent = require_count("spent", facts["spent"], least=0)
        learner._prepare()
        learner._restore(arrays)
        policies = {
            name: LinearPolicy.from_state(
                facts[name],
                {
                    part.removeprefix(f"{name}."): array
                    for part, array in arrays.items()
                    if part.startswith(f"{name}.")
                },
            )
            for name in ("deployed", "proposed")
            if name in facts
        }
        for policy in policies.values():
            learner._require_mine(policy)
        learner._deployed = policies["deployed"]
        learner._gate = LinearGate.from_dict(facts["decisions"], policies.get("proposed"))
        return learner

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over saved sums and episodes, once their shapes and numbers are right."""
        knowledge = self._knowledge
        fresh = knowledge.sums._asdict() | {"base": knowledge.base}
        for name, array in fresh.items():
            found = arrays[name]
            if (found.shape, found.dtype) != (array.shape, array.dtype):
                raise ValueError(f"{name} is {found.dtype} of {found.shape}, not {array.shape}")
            if not np.isfinite(found).all():
                raise ValueError(f"{name} has entries that are no numbers")
        if not (np.diagonal(arrays["factor"], axis1=-2, axis2=-1) > 0).all():
            raise ValueError("its factor is that of no positive matrix")
        knowledge.sums = Sums(**{name: arrays[name].copy() for name in Sums._fields})
        knowledge.base = arrays["base"].copy()
        knowledge.allowed = allowed_actions(self.shape, arrays.get("allowed"))
        self._recent = self.shape.contexts(arrays["recent"])
        if self.shape.horizon > 1:
            kept = (arrays[f"kept.{name}"] for name in Episodes._fields)
            given, actions, rewards = kept
            shape = (self.told, self.shape.horizon, self.shape.rows, self.shape.features)
            if given.shape != shape:
                raise ValueError(f"its episodes have the shape {given.shape}, not {shape}")
            if self.shape.shared:
                given = given[:, :, 0]
            knowledge.kept = Episodes(*self.shape.episodes(given, actions, rewards))
