"""Learner: ask for the policy, tell what happened. The caller owns the loop."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from lowswitch import archive, storage
from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.checks import (
    checked_batch,
    checked_mask,
    checked_policy,
    require_count,
    require_memory,
    require_seed,
    require_truth,
    require_word,
)
from lowswitch.history import History
from lowswitch.kernels.arrays import CELL, ROW
from lowswitch.learners import Knowledge, ProblemSize, knowledge_of, whole
from lowswitch.learners.gate import Gate
from lowswitch.learners.gated import Gated
from lowswitch.learners.numbers import spec_numbers
from lowswitch.policy import TablePolicy

_KIND = "learner"  # of its files
_MOST_VISITS = 0.5  # the share of visits from which a run says so
_LOG_BYTES = 2**25  # of the row changes that a batch is learned with at once


class BonusWarning(UserWarning):
    """Most visits had a bonus above H, so the run explored blindly throughout."""


class Confidence(NamedTuple):
    """What a posterior says of a policy against another one."""

    better: float  # the probability that its value is larger
    value: float  # its mean value
    other: float  # that of the other one
    difference: tuple[float, float]  # of the values: 80 % lie between


class Learner(Gated):
    """A learner for a problem of known size and unknown tables.

    It can be told `episodes` episodes. Their number enters the bonus (iota) and the schedule, so it
    is fixed in advance. Rewards lie in [0, 1]. The seed is that of posterior samples and of the
    draws from a deployed mixture; the other learners use no noise of their own. initial: the policy
    [H, S] that is deployed at the beginning, such as the present protocol; by default it plays the
    lowest allowed action everywhere.

    gate: "open" deploys what the learner wants as soon as its schedule allows it. With "review" it
    becomes a proposal, and only `approve` changes what is deployed. A budget then counts what is
    proposed, approved or not, while `deployments` counts what was deployed.

    numbers: the constants of the algorithm as `numbers()` of another learner gave them, for a
    replay on another machine, where the last bit of a logarithm may differ.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        horizon: int,
        states: int,
        actions: int,
        episodes: int,
        actions_allowed: Any = None,
        seed: int = 0,
        initial: Any = None,
        gate: str = "open",
        numbers: dict[str, Any] | None = None,
    ) -> None:
        self.algorithm = require_algorithm(algorithm)
        self.horizon = require_count("horizon", horizon)
        self.states = require_count("states", states)
        self.actions = require_count("actions", actions)
        self.episodes = require_count("episodes", episodes)
        self.seed = require_seed(seed)
        self.told = 0
        self._require_memory()
        self._allowed = checked_mask(actions_allowed, self.horizon, self.states, self.actions)
        require_word("gate", gate, ("open", "review"))
        self.gate = gate
        self._knowledge = self._size(numbers).fresh(self.seed)
        self._knowledge.spec = self._knowledge.copied_spec()
        self._gate = Gate()
        # whether all it knows are whole episodes, and its schedule alone changed what is deployed
        self._plain = gate == "open"
        if gate == "review":
            self._gate.set_mode(self._knowledge)
        if initial is not None:
            self._knowledge.begin_with(checked_policy(initial, self._allowed))
        self._deployed = self._knowledge.policy()
        self._telling = threading.Lock()

    def _require_memory(self) -> None:
        """Say before anything is built that not even the smallest tables fit."""
        H, S, A = self.horizon, self.states, self.actions
        need = H * S * (ROW.itemsize + A * CELL.itemsize)
        require_memory(need, f"tables of H = {H:,}, S = {S:,}, A = {A:,}", "use a smaller problem")

    def _size(self, numbers: dict[str, Any] | None) -> Knowledge:
        """The algorithm worked out for the size of the problem, without tables.

        Its mask is a copy: behind a gate it may shrink.
        """
        size = ProblemSize(self.horizon, self.states, self.actions, self.episodes)
        plain = knowledge_of(self.algorithm, size, self._allowed.copy())
        if numbers is not None:
            plain.set_numbers(numbers)
        return plain

    def __repr__(self) -> str:
        size = f"horizon={self.horizon}, states={self.states}, actions={self.actions}"
        return (
            f"Learner({self.algorithm}, {size}, told {self.told:,} of {self.episodes:,} episodes,"
            f" {self.deployments:,} deployments)"
        )

    @property
    def policy(self) -> np.ndarray:
        """The policy [H, S] that must play the next episode, read-only.

        If one policy is deployed, it is the same until the next deployment. `few` deploys several
        policies, as all mixtures do, and draws one of them for each episode, so read this before
        every episode.
        """
        return self.policy_for(self.told)

    def policy_for(self, episode: int) -> np.ndarray:
        """The policy [H, S] that must play an episode, if nothing is deployed until then."""
        return self._deployed.table(require_count("episode", episode, least=0))

    @property
    def deployed(self) -> TablePolicy:
        """What is deployed, as an object: it acts, is compared with others, has an identity."""
        return self._deployed

    @property
    def mixture(self) -> np.ndarray:
        """All deployed policies [members, H, S], read-only, of which each episode plays one.

        Most algorithms have one member.
        """
        return self._deployed.actions

    @property
    def q(self) -> np.ndarray:
        """The running estimates [H, S, A], a copy; -inf where an action is forbidden."""
        return self._knowledge.q()

    @property
    def values(self) -> np.ndarray:
        """The optimistic values [H + 1, S], a copy; the last row is zero."""
        return self._knowledge.values()

    @property
    def visits(self) -> np.ndarray:
        """How often each (h, x, a) was visited [H, S, A], a copy."""
        return self._knowledge.visits()

    @property
    def deployments(self) -> int:
        """How often the policy has changed; where no gate is in between, of a budget the part that
        is spent.
        """
        return self._gate.applied if self.gate == "review" else self._knowledge.deployments

    @property
    def local_switches(self) -> int:
        """In how many rows the policy has changed, summed over all deployments."""
        if self.gate == "review":
            return self._gate.applied_rows
        return self._knowledge.local_switches

    @property
    def proposed(self) -> int:
        """How many proposals were put to the board, approved or not; a budget counts these."""
        return self._knowledge.deployments

    @property
    def actions_allowed(self) -> np.ndarray:
        """What may be deployed [H, S, A], a copy; it shrinks when an action is forbidden."""
        return self._knowledge.allowed.copy()

    @property
    def frozen(self) -> bool:
        """Whether a budget is spent, so that the policy stays as it is for good."""
        return self._knowledge.frozen

    @property
    def drowned_share(self) -> float:
        """The share of visits so far whose bonus was above H.

        Near 1 the bonus drowns every reward: c is too large.
        """
        return self._knowledge.drowned / max(1, self.told * self.horizon)

    @property
    def loud_share(self) -> float:
        """The former name of `drowned_share`."""
        return self.drowned_share

    def numbers(self) -> dict[str, Any]:
        """The constants that the algorithm was worked out to, as JSON can hold them."""
        return spec_numbers(self._knowledge.spec)

    def tell(
        self, states: Any, actions: Any, rewards: Any, *, off_policy: bool = False
    ) -> History | None:
        """Learn one episode, arrays [H], or a batch [B, H] in order.

        Return the rows that changed, or None if none did.

        `states` may also have the state after the last step, which is ignored. Each episode must
        have been played by the policy deployed before it is learned, unless `off_policy` says that
        other actions are meant. A call that fails changes nothing. A learner belongs to one thread
        at a time: a second one that tells it meanwhile gets an error.
        """
        require_truth("off_policy", off_policy)
        states, actions, rewards = checked_batch(states, actions, rewards, self._allowed)
        with self._alone("tell"):
            self._require_room(len(states))
            return self._learn_or_undo(states, actions, rewards, off_policy)

    def tell_steps(self, states: Any, actions: Any, rewards: Any) -> History | None:
        """Learn episodes of which some steps are unknown, or are not to be learned from.

        As `tell` with `off_policy`, but the action of such a step is -1, and nothing is learned
        from it; what its state and its reward say does not matter. A step that is learned needs the
        state that follows it.
        """
        actions = np.atleast_2d(np.asarray(actions))
        states, rewards = np.atleast_2d(states), np.atleast_2d(np.asarray(rewards, dtype=float))
        if not (len(states) == len(actions) and actions.shape == rewards.shape):
            raise ValueError(
                f"states, actions and rewards of shapes {states.shape}, {actions.shape} and"
                f" {rewards.shape} do not go together"
            )
        known = actions != -1
        needed = known.copy()
        needed[:, 1:] |= known[:, :-1]
        states = np.where(needed, states[:, : actions.shape[1]], 0)
        lowest = self._allowed.argmax(axis=-1)[np.arange(actions.shape[1]), states]
        states, actions, rewards = checked_batch(
            states, np.where(known, actions, lowest), np.where(known, rewards, 0.0), self._allowed
        )
        return self.learn_checked(states, np.where(known, actions, -1), rewards)

    def learn_checked(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        *,
        until_proposed: bool = False,
    ) -> History | None:
        """As `tell_steps`, for arrays [B, H] of int64, int64 and float64 that are known to fit.

        until_proposed: stop after the episode in which a proposal is made; `told` then says how
        many episodes were learned.
        """
        with self._alone("tell"):
            self._require_room(len(states))
            self._plain = self._plain and bool((actions >= 0).all())
            return self._learn_or_undo(states, actions, rewards, True, until_proposed)

    def _learn_or_undo(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        off_policy: bool,
        until_proposed: bool = False,
    ) -> History | None:
        """Learn checked episodes; a failure, or an interrupt, changes nothing."""
        told, deployed, knowledge = self.told, self._deployed, self._knowledge
        switch, learned = None, len(states)
        if self._gate.holds:  # the end of a hold reaches everywhere
            undo = Knowledge.undo(knowledge, states, actions)
        else:
            undo = knowledge.undo(states, actions)
        undo_gate = self._gate.undo(knowledge) if self.gate == "review" else None
        try:
            if self.gate == "open":
                switch = self._learn(states, actions, rewards, off_policy)
            else:
                batch = states, actions, rewards
                learned = self._learn_behind_gate(*batch, off_policy, until_proposed)
            new = deployed if switch is None else knowledge.policy()
            self.told, self._deployed = told + learned, new
        except BaseException:  # an interrupt too
            undo()
            if undo_gate is not None:
                undo_gate()
            self.told, self._deployed = told, deployed
            raise
        return switch

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Refuse a second thread while a first one is learning or saving."""
        self._enter(what)
        try:
            yield
        finally:
            self._telling.release()

    def _enter(self, what: str) -> None:
        if not self._telling.acquire(blocking=False):
            raise ValueError(
                f"another thread is telling or saving this learner, so that this {what} is refused"
                " and changes nothing; let one thread own a learner, or guard it with a lock"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_telling"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _telling=threading.Lock())

    def warm_start(self, states: Any, actions: Any, rewards: Any) -> None:
        """Learn from episodes [B, H] that were played before this learner is told any.

        They may have been played by any policy, such as the present protocol. They count neither as
        episodes of this learner nor against its budget, and nothing is deployed because of them
        alone: the first plan uses them. Only learners that plan from counts can use such episodes.
        """
        if self.told:
            raise ValueError(
                f"this learner has been told {self.told} episodes already; give earlier data first,"
                " or tell them with off_policy=True"
            )
        states, actions, rewards = checked_batch(states, actions, rewards, self._allowed)
        with self._alone("warm start"):
            undo = self._knowledge.undo(states, actions)
            try:
                self._knowledge.count(states, actions, rewards)
            except BaseException:  # an interrupt too
                undo()
                raise

    def confidence(self, policy: Any = None, than: Any = None, *, models: int = 400) -> Confidence:
        """What the posterior says of the value of a policy against that of another one.

        policy: [H, S], by default what is deployed, a mixture by the mean of its members. than:
        [H, S], by default the policy that was deployed at the beginning. Values are means over the
        states in which the episodes so far began, in so many models drawn from the posterior with a
        learned prior, of which an action that was never tried has the prior alone.
        """
        models = require_count("models", models, least=2)
        tables = self.mixture if policy is None else self._checked(policy)
        first = self._knowledge.initial() if than is None else self._checked(than)[0]
        values = self._knowledge.values_on_models(np.concatenate([tables, first[None]]), models)
        mine, other = values[:-1].mean(axis=0), values[-1]
        low, high = np.quantile(mine - other, (0.1, 0.9))
        return Confidence(
            better=float((mine > other).mean() + 0.5 * (mine == other).mean()),
            value=float(mine.mean()),
            other=float(other.mean()),
            difference=(float(low), float(high)),
        )

    def _checked(self, policy: Any) -> np.ndarray:  # [1, H, S]
        return checked_policy(policy, self._allowed)[None]

    def _learn(
        self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, off_policy: bool
    ) -> History | None:
        """Learn in pieces, because the log must have room for all rows in every episode."""
        knowledge, done, found = self._knowledge, 0, list[np.ndarray]()
        room, columns = knowledge.spec.timing.room, 3 + knowledge.members
        at_once = min(len(states), max(1, _LOG_BYTES // (8 * room * columns)))
        changes = np.zeros((at_once * room, columns), dtype=np.int64)
        while done < len(states):
            last = done + at_once
            piece = states[done:last], actions[done:last], rewards[done:last]
            used, learned, step = knowledge.learn(*piece, off_policy, self.told + done, changes)
            if used:
                found.append(changes[:used].copy())
            done += learned
            if step >= 0:
                hint = ""
                if found:
                    changed = found[0][0, 0] - self.told
                    hint = f"; the policy changed after episode {changed} of this batch, "
                    hint += "tell it up to there"
                self._refuse(done, step, states, actions, hint)
        return History(np.concatenate(found), self._deployed.actions) if found else None

    def _learn_behind_gate(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        off_policy: bool,
        until_proposed: bool,
    ) -> int:
        """Learn episodes and return how many: all, or those until a proposal is made."""
        knowledge, gate, done = self._knowledge, self._gate, 0
        before = gate.pending
        if not knowledge.learns_forbidden:
            still = knowledge.allowed[np.arange(self.horizon), states, actions]
            actions = np.where(still, actions, -1)
        changes = np.zeros((knowledge.spec.timing.room, 3 + knowledge.members), dtype=np.int64)
        dates = knowledge.dates
        while done < len(states):
            last = done + gate.at_once(len(states) - done)
            gate.before_episode(knowledge, self.told + done)
            piece = states[done:last], actions[done:last], rewards[done:last]
            used, learned, step = knowledge.learn(*piece, off_policy, self.told + done, changes)
            done += learned
            if step >= 0:
                self._refuse(done, step, states, actions, "")
            gate.after_episode(knowledge, changes[:used], self.told + done)
            if until_proposed and gate.pending is not before:
                break
        if passed := len(dates) - len(knowledge.dates):
            gate.after_date(int(dates[passed - 1]))
        return done

    def _require_room(self, episodes: int) -> None:
        if self.told + episodes > self.episodes:
            raise ValueError(
                f"this learner was made for {self.episodes} episodes and has been told {self.told};"
                " make one with more episodes"
            )

    def _refuse(
        self, episode: int, step: int, states: np.ndarray, actions: np.ndarray, hint: str
    ) -> None:
        state, action = states[episode, step], actions[episode, step]
        planned = self._knowledge.policy().act(step, state, self.told + episode)
        raise ValueError(
            f"episode {episode} of the batch plays action {action} at step {step} in state "
            f"{state} where the policy plays {planned}{hint}; pass off_policy=True to learn "
            "from other actions"
        )

    # ---- keeping ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on bit for bit."""
        with self._alone("save"):
            storage.write(path, _KIND, *self._state())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, numbers: dict[str, Any] | None = None
    ) -> Learner:
        """A learner that goes on where the saved one stopped; `numbers` as in the constructor."""
        with storage.reading(path, _KIND) as (facts, arrays):
            return cls._from_state(facts, arrays, numbers)

    def to_bytes(self) -> bytes:
        """What `save` writes, for a database or a message; `from_bytes` checks and reads it."""
        with self._alone("save"):
            return archive.to_bytes(_KIND, *self._state())

    @classmethod
    def from_bytes(cls, data: bytes, *, numbers: dict[str, Any] | None = None) -> Learner:
        """A learner that goes on where the one stopped that `to_bytes` wrote."""
        try:
            facts, arrays = archive.from_bytes(data, _KIND)
        except archive.RefusedError as error:
            raise ValueError(f"what was given {error}") from error
        with storage.whole("the bytes hold", _KIND):
            return cls._from_state(facts, arrays, numbers)

    def digest(self) -> str:
        """The SHA-256 over everything that learning goes on from, the same for equal learners."""
        with self._alone("digest"):
            return archive.digest(*self._state())

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts, as JSON can hold them, and arrays: all that is saved."""
        facts = {
            "algorithm": self.algorithm.to_dict(),
            "size": {
                name: getattr(self, name) for name in ("horizon", "states", "actions", "episodes")
            },
            "told": self.told,
            "seed": self.seed,
        }
        arrays = {"allowed": self._allowed} | self._knowledge.tables._asdict()
        if self.gate == "review":
            arrays["allowed_now"] = self._knowledge.allowed
            facts["gate"] = self._gate.to_dict()
        if not self._plain:
            facts["plain"] = False
        return facts, arrays

    @classmethod
    def _from_state(
        cls,
        facts: dict[str, Any],
        arrays: dict[str, np.ndarray],
        numbers: dict[str, Any] | None,
    ) -> Learner:
        """The learner of a state, or an error that says what is wrong with it."""
        learner = cls.__new__(cls)
        learner.algorithm = Algorithm.from_dict(facts["algorithm"])
        for name in ("horizon", "states", "actions", "episodes"):
            setattr(learner, name, require_count(name, facts["size"][name]))
        learner.seed = require_seed(facts.get("seed", 0))
        learner.told = require_count("told", facts["told"], least=0, most=learner.episodes)
        sizes = learner.horizon, learner.states, learner.actions
        allowed = arrays["allowed"]
        if allowed.shape != sizes:
            raise ValueError(f"its mask has the shape {allowed.shape}, not {sizes}")
        learner._allowed = checked_mask(allowed, *sizes)
        learner.gate = "review" if "gate" in facts else "open"
        learner._plain = learner.gate == "open" and facts.get("plain", True) is True
        told = learner.told if learner._plain else None
        learner._knowledge = learner._size(numbers).restored(learner.seed, arrays, told)
        learner._knowledge.spec = learner._knowledge.copied_spec()
        learner._gate = Gate()
        if learner.gate == "review":
            learner._restore_gate(Gate.from_dict(facts["gate"]), arrays["allowed_now"])
        learner._deployed = learner._knowledge.policy()
        learner._telling = threading.Lock()
        return learner

    def _restore_gate(self, gate: Gate, allowed: np.ndarray) -> None:
        """Take over a saved gate, once the tables are in place."""
        knowledge = self._knowledge
        knowledge.allowed[...] = checked_mask(allowed, *knowledge.allowed.shape)
        whole.require_actions("the policy", knowledge.policy().actions, knowledge.allowed)
        knowledge.restore_mask(gate.holds)
        self._gate = gate
        gate.set_mode(knowledge)


def warn_if_drowned(share: float, algorithm: Algorithm) -> None:
    """Say in one line, with the remedy, that the bonus drowned everything.

    The warning points to the caller of the library.
    """
    if share > _MOST_VISITS:
        scale = "0.001 and 0.01" if algorithm.replans else "0.01 and 0.1"
        warnings.warn(
            f"{share:.0%} of the visits had a bonus above the horizon, so next to nothing was"
            f" learned from them; c = 1 is the provable scale, use c between {scale} or many more"
            f" episodes ({algorithm})",
            BonusWarning,
            stacklevel=3,
        )
