"""Learner: ask for the policy, tell what happened. The caller owns the loop."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from lowswitch import storage
from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.checks import (
    checked_batch,
    checked_mask,
    checked_policy,
    require_count,
    require_seed,
    require_truth,
    require_word,
)
from lowswitch.history import History
from lowswitch.kernels.arrays import OPEN, WAITING
from lowswitch.learners import Knowledge, ProblemSize, knowledge_of
from lowswitch.learners.gate import Gate, Proposal
from lowswitch.learners.numbers import spec_numbers
from lowswitch.policy import TablePolicy

_BEFORE = -(10**9)  # the number of an episode of history: no grid has it
_MOST_VISITS = 0.5  # the share of visits from which a run says so


Result = TypeVar("Result")


class BonusWarning(UserWarning):
    """Most visits had a bonus above H, so the run explored blindly throughout."""


class Learner:
    """A learner for a problem of known size and unknown tables.

    It can be told `episodes` episodes. Their number enters the bonus (iota) and the schedule, so it
    is fixed in advance. Rewards lie in [0, 1]. The seed is that of posterior samples and of the
    draws from a deployed mixture; the other learners use no noise of their own. `policy` is what is
    deployed first, [H, S]; by default it is the lowest allowed action everywhere.

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
        gate: str = "open",
        policy: Any = None,
        numbers: dict[str, Any] | None = None,
    ) -> None:
        self.algorithm = require_algorithm(algorithm)
        self.horizon = require_count("horizon", horizon)
        self.states = require_count("states", states)
        self.actions = require_count("actions", actions)
        self.episodes = require_count("episodes", episodes)
        self.seed = require_seed(seed)
        self.told = 0
        self._allowed = checked_mask(actions_allowed, self.horizon, self.states, self.actions)
        size = ProblemSize(self.horizon, self.states, self.actions, self.episodes)
        require_word("gate", gate, ("open", "review"))
        self.gate = gate
        # the learner's own mask may shrink, and planners have that of held rows beside it
        plain = knowledge_of(algorithm, size, self._allowed.copy())
        if numbers is not None:
            plain.set_numbers(numbers)
        self._knowledge = plain.fresh(self.seed)
        self._knowledge.spec = self._knowledge.copied_spec()
        self._gate = Gate()
        if gate == "review":
            self._gate.set_mode(self._knowledge)
        if policy is not None:
            first = checked_policy(policy, self._allowed)
            for h, x in np.ndindex(first.shape):
                own = (int(first[h, x]),) * self._knowledge.members
                self._knowledge.install(h, x, own)
        self._deployed = self._knowledge.policy()

    def __repr__(self) -> str:
        size = f"horizon={self.horizon}, states={self.states}, actions={self.actions}"
        return (
            f"Learner({self.algorithm}, {size}, told {self.told:,} of {self.episodes:,} episodes,"
            f" {self.deployments:,} deployments)"
        )

    @property
    def policy(self) -> np.ndarray:
        """The policy [H, S] that must play the next episode, read-only.

        It changes only where `tell` says so; of a deployed mixture it is the member drawn for the
        next episode, so that it may differ from episode to episode while the mixture stays.
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
        other actions are meant. A call that fails changes nothing.
        """
        require_truth("off_policy", off_policy)
        states, actions, rewards = checked_batch(states, actions, rewards, self._allowed)
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
        self._require_room(len(states))
        return self.learn_checked(states, np.where(known, actions, -1), rewards)

    def learn_checked(
        self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray
    ) -> History | None:
        """As `tell_steps`, for arrays [B, H] of int64, int64 and float64 that are known to fit."""
        return self._learn_or_undo(states, actions, rewards, True)

    def _learn_or_undo(
        self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, off_policy: bool
    ) -> History | None:
        """Learn checked episodes; a failure, or an interrupt, changes nothing."""
        told, deployed, knowledge = self.told, self._deployed, self._knowledge
        if self._gate.holds:  # the end of a hold reaches everywhere
            undo = Knowledge.undo(knowledge, states, actions)
        else:
            undo = knowledge.undo(states, actions)
        undo_gate = self._gate.undo(knowledge) if self.gate == "review" else None
        try:
            if self.gate == "open":
                switch = self._learn(states, actions, rewards, off_policy)
            else:
                switch = self._learn_behind_gate(states, actions, rewards, off_policy)
            new = deployed if switch is None else knowledge.policy()
            self.told, self._deployed = told + len(states), new
        except BaseException:  # an interrupt too
            undo()
            if undo_gate is not None:
                undo_gate()
            self.told, self._deployed = told, deployed
            raise
        return switch

    def _learn(
        self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, off_policy: bool
    ) -> History | None:
        knowledge = self._knowledge
        room = len(states) * knowledge.spec.timing.room
        changes = np.zeros((room, 3 + knowledge.members), dtype=np.int64)
        used, episode, step = knowledge.learn(
            states, actions, rewards, off_policy, self.told, changes
        )
        if step >= 0:
            hint = ""
            if used:
                changed = changes[0, 0] - self.told
                hint = f"; the policy changed after episode {changed} of this batch, "
                hint += "tell it up to there"
            self._refuse(episode, step, states, actions, hint)
        return History(changes[:used].copy()) if used else None

    def _learn_behind_gate(
        self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, off_policy: bool
    ) -> History | None:
        knowledge, gate, done = self._knowledge, self._gate, 0
        if not knowledge.learns_forbidden:
            still = knowledge.allowed[np.arange(self.horizon), states, actions]
            actions = np.where(still, actions, -1)
        changes = np.zeros((knowledge.spec.timing.room, 3 + knowledge.members), dtype=np.int64)
        while done < len(states):
            last = done + gate.at_once(len(states) - done)
            gate.before_episode(knowledge, self.told + done)
            piece = states[done:last], actions[done:last], rewards[done:last]
            used, learned, step = knowledge.learn(*piece, off_policy, self.told + done, changes)
            done += learned
            if step >= 0:
                self._refuse(done, step, states, actions, "")
            gate.after_episode(knowledge, changes[:used], self.told + done)
        return None

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

    # ---- the gate --------------------------------------------------------------------------------

    def proposal(self) -> Proposal | None:
        """What waits for a decision, or None."""
        return self._gate.pending

    def propose(self) -> Proposal | None:
        """Propose every row that the learner would change now, and return that, or None.

        This is what the schedule "asked" waits for; with any other one it comes on top. What was
        pending is replaced, and the budget counts the two as one. Where the gate is open, what is
        wanted is deployed at once.
        """
        made = self._decide(lambda gate, knowledge: gate.propose(knowledge, self.told))
        if made is not None and self.gate == "open":
            self._decide(lambda gate, knowledge: gate.approve(knowledge, made.rows, self.told))
        return made

    def approve(
        self,
        proposal: Proposal | str | None = None,
        *,
        rows: Iterable[tuple[int, int]] | None = None,
    ) -> History:
        """Deploy the rows (step, state) of the pending proposal, by default all of them.

        proposal: the one that was looked at, or its hash; if another one is pending by now, nothing
        is deployed. Return the rows that changed.
        """
        self._require_review()
        _, chosen = self._gate.chosen(proposal, rows)
        return self._decide(lambda gate, knowledge: gate.approve(knowledge, chosen, self.told))

    def reject(
        self,
        proposal: Proposal | str | None = None,
        *,
        rows: Iterable[tuple[int, int]] | None = None,
        forever: bool = False,
        visits: int | None = None,
    ) -> None:
        """Let rows (step, state) of the pending proposal stay as they are, by default all of them.

        Not now: a row is held until its next trigger, or until it was visited so many times more.
        forever: the actions that it would newly play are never deployed there, and nothing is hoped
        for from them any more.
        """
        self._require_review()
        require_truth("forever", forever)
        _, chosen = self._gate.chosen(proposal, rows)
        self._decide(
            lambda gate, knowledge: gate.reject(
                knowledge, chosen, self.told, forever=forever, visits=visits
            )
        )

    def freeze(self) -> None:
        """Let nothing be proposed or approved until `thaw`; what is told is still learned."""
        self._require_review()
        self._decide(lambda gate, knowledge: gate.freeze(knowledge))

    def thaw(self) -> None:
        """Go on after `freeze`: what became due meanwhile is proposed."""
        self._require_review()
        self._decide(lambda gate, knowledge: gate.thaw(knowledge, self.told))

    @property
    def paused(self) -> bool:
        """Whether `freeze` was called, and `thaw` not yet."""
        return self._gate.paused

    @property
    def held(self) -> list[tuple[int, int]]:
        """The rows (step, state) that are held at what they play."""
        return sorted(self._gate.holds)

    def install(self, policies: Any, *, hold: bool = True) -> History | None:
        """Deploy policies [H, S] or [members, H, S] by hand, as a rollback does.

        Nothing that was learned changes. What was pending is withdrawn. hold: the rows that change
        are held, because otherwise the learner might propose the same change back at once.
        """
        self._require_review()
        tables = np.asarray(policies)
        tables = np.repeat(tables[None], len(self.mixture), axis=0) if tables.ndim == 2 else tables
        if tables.shape != self.mixture.shape:
            raise ValueError(
                f"policies must have the shape {self.mixture.shape}, not {tables.shape}"
            )
        checked = np.stack([checked_policy(one, self._knowledge.allowed) for one in tables])
        return self._decide(
            lambda gate, knowledge: gate.install(knowledge, checked, self.told, hold=hold)
        )

    def learn_history(self, states: Any, actions: Any, rewards: Any, *, most: int) -> np.ndarray:
        """Learn episodes that an earlier protocol played, at most so many visits of each (h, x, a).

        They must have been played by a policy that looked at the state alone. They do not count as
        told. Nothing is proposed; `propose` then makes the first proposal. Return the actions
        [B, H] with -1 at the steps beyond that number.
        """
        self._require_review()
        most = require_count("most", most)
        if self.told:
            raise ValueError(
                f"history comes before the first episode, and {self.told} have been told"
            )
        states, actions, rewards = checked_batch(states, actions, rewards, self._allowed)
        kept = np.where(_first_visits(states, actions, self._knowledge.visits(), most), actions, -1)

        def learn(gate: Gate, knowledge: Knowledge) -> None:
            knowledge.set_gate(WAITING)
            changes = np.zeros((knowledge.spec.timing.room, 3 + knowledge.members), dtype=np.int64)
            done = 0
            while done < len(states):
                piece = states[done:], kept[done:], rewards[done:]
                _, learned, _ = knowledge.learn(*piece, True, _BEFORE, changes)
                done += learned

        self._decide(learn)
        return kept

    def _require_review(self) -> None:
        if self.gate != "review":
            raise ValueError(
                "this learner deploys what it wants at once, and so nothing is decided; make it"
                ' with gate="review"'
            )

    def _decide(self, decide: Callable[[Gate, Knowledge], Result]) -> Result:
        """Carry out a decision; one that fails changes nothing."""
        knowledge, gate = self._knowledge, self._gate
        none = np.zeros((0, self.horizon), dtype=np.int64)
        allowed, undo, undo_gate = (
            knowledge.allowed.copy(),
            Knowledge.undo(knowledge, none, none),
            gate.undo(knowledge),
        )
        try:
            result = decide(gate, knowledge)
            if self.gate == "review":
                gate.set_mode(knowledge)
            else:
                knowledge.set_gate(OPEN)
            self._deployed = knowledge.policy()
        except BaseException:
            undo()
            undo_gate()
            knowledge.allowed[...] = allowed
            raise
        return result

    # ---- keeping ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on bit for bit."""
        facts = {
            "algorithm": self.algorithm.to_dict(),
            "size": {
                name: getattr(self, name) for name in ("horizon", "states", "actions", "episodes")
            },
            "told": self.told,
            "seed": self.seed,
        }
        arrays = {"allowed": self._allowed, **self._knowledge.tables._asdict()}
        if self.gate == "review":
            facts["gate"] = self._gate.to_dict()
            arrays["allowed_now"] = self._knowledge.allowed
        storage.write(path, "learner", facts, arrays)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, numbers: dict[str, Any] | None = None
    ) -> Learner:
        """A learner that goes on where the saved one stopped; `numbers` as in the constructor."""
        facts, arrays = storage.read(path, "learner")
        try:
            seed, allowed = facts.get("seed", 0), arrays["allowed"]
            learner = cls(
                Algorithm.from_dict(facts["algorithm"]),
                **facts["size"],
                actions_allowed=allowed,
                seed=seed,
                gate="review" if "gate" in facts else "open",
                numbers=numbers,
            )
            learner.told = facts["told"]
            if not (isinstance(learner.told, int) and 0 <= learner.told <= learner.episodes):
                raise ValueError(f"told {learner.told!r} of {learner.episodes} episodes")
            learner._knowledge.restore(arrays)
            if "gate" in facts:
                learner._restore_gate(Gate.from_dict(facts["gate"]), arrays["allowed_now"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{str(path)!r} is no whole learner ({error}); save it again"
            ) from error
        learner._deployed = learner._knowledge.policy()
        return learner

    def _restore_gate(self, gate: Gate, allowed: np.ndarray) -> None:
        """Take over a saved gate, once the tables are in place."""
        knowledge = self._knowledge
        knowledge.allowed[...] = checked_mask(allowed, *knowledge.allowed.shape)
        knowledge.restore_mask(gate.holds)
        self._gate = gate
        gate.set_mode(knowledge)


def _first_visits(
    states: np.ndarray, actions: np.ndarray, visits: np.ndarray, most: int
) -> np.ndarray:  # [B, H]
    """Which steps are among the first `most` visits of their (h, x, a), counted from `visits`.

    What decides is their place in the order, and not what came of them.
    """
    H, kept, seen = states.shape[1], np.zeros(states.shape, dtype=bool), visits.copy()
    for b in range(len(states)):
        cells = np.arange(H), states[b], actions[b]
        kept[b] = seen[cells] < most
        seen[cells] += 1
    return kept


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
