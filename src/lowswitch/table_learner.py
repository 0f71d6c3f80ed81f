"""TableLearner: a learner for a finite number of states, which deploys tables of actions."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.checks import (
    checked_batch,
    checked_mask,
    checked_policy,
    require_count,
    require_memory,
)
from lowswitch.history import History
from lowswitch.kernels.arrays import CELL, ROW, WAITING
from lowswitch.learner import Batch, Learner, refuse_action
from lowswitch.learners import Knowledge, ProblemSize, integrity, knowledge_of
from lowswitch.learners.bounds import Bounds, checked_probability, checked_starts
from lowswitch.learners.hypotheses import BY_PLACE
from lowswitch.learners.judgement import Judgement, Law
from lowswitch.learners.knowledge import checked_actions
from lowswitch.learners.numbers import spec_numbers
from lowswitch.learners.posterior import ModelPosterior
from lowswitch.policy.spaces import Numbering
from lowswitch.policy.tables import TablePolicy
from lowswitch.review.decisions import require_review
from lowswitch.review.gate import Gate
from lowswitch.review.proposals import Key, Proposal

_MOST_VISITS = 0.5  # the share of visits from which a run says so
_LOG_BYTES = 2**25  # of the row changes that a batch is learned with at once
_BEFORE = -(10**9)  # the number of an episode of history: no grid has it
_SIZES = ("horizon", "states", "actions", "episodes")


class BonusWarning(UserWarning):
    """Most visits had a bonus above H, so the run explored blindly throughout."""


class Confidence(NamedTuple):
    """The comparison of two policies by a posterior."""

    better: float  # the probability that its value is larger
    value: float  # its mean value
    other: float  # the mean value of the other policy
    difference: tuple[float, float]  # of the values: 80 % lie between


class TableLearner(Learner):
    """A learner for a problem with S states, which deploys a table [H, S] or a mixture of tables.

    Rewards lie in [0, 1].

    Parameters
    ----------
    algorithm
        The algorithm.
    horizon, states, actions
        H, S and A.
    episodes
        K, how many episodes the learner can be told. It enters the bonus and the schedule, so it is
        fixed in advance.
    actions_allowed
        A mask [S, A] or [H, S, A].
    seed
        Determines posterior samples and the draws from a deployed mixture.
    initial
        The initial policy [H, S], such as the present protocol. By default it plays the lowest
        allowed action everywhere, and `few` explores.
    gate
        "open" deploys a change as soon as the schedule allows it. With "review" the change becomes
        a proposal, and only `approve` changes the deployed policy. A budget then counts proposals,
        approved or not, while `deployments` counts deployments.
    numbers
        The constants of the algorithm, as `numbers()` of another learner gave them. They are for a
        replay on another machine, where the last bit of a logarithm may differ.
    """

    kind = "learner"
    # what it began with [members, H, S], if its knowledge and earlier files do not have that
    _first: np.ndarray | None = None
    _knowledge: Knowledge
    _deployed: TablePolicy

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
        self._begin(require_algorithm(algorithm), episodes, seed, gate)
        self.horizon = require_count("horizon", horizon)
        self.states = require_count("states", states)
        self.actions = require_count("actions", actions)
        self._require_memory()
        self._allowed = checked_mask(actions_allowed, self.horizon, self.states, self.actions)
        self._knowledge = self._size(numbers).fresh(self.seed)
        self._knowledge.spec = self._knowledge.copied_spec()
        self._keep_to(numbers)
        if gate == "review":
            self._gate.set_mode(self._knowledge)
        given = None if initial is None else checked_policy(initial, self._allowed)
        self._knowledge.begin(given)
        self._deployed = self._knowledge.policy()
        if not self._knowledge.keeps_initial:
            self._first = self.mixture.copy()

    def _require_memory(self) -> None:
        """Say before anything is built that not even the smallest tables fit."""
        H, S, A = self.horizon, self.states, self.actions
        need = H * S * (ROW.itemsize + A * CELL.itemsize)
        require_memory(need, f"tables of H = {H:,}, S = {S:,}, A = {A:,}", "use a smaller problem")

    def _size(self, numbers: dict[str, Any] | None) -> Knowledge:
        """The spec of the algorithm for the size of the problem, without tables.

        Its mask is a copy: behind a gate it may shrink.
        """
        size = ProblemSize(self.horizon, self.states, self.actions, self.episodes)
        plain = knowledge_of(self.algorithm, size, self._allowed.copy())
        if numbers is not None:
            plain.set_numbers(numbers)
        return plain

    def _keep_to(self, numbers: dict[str, Any] | None) -> None:
        """Let the gate count as it did in the run that these numbers are of."""
        if numbers is not None:
            self._gate.stays_free = numbers.get("stays_free", False)

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

    @property
    def _observation_axes(self) -> int:
        return 0

    def policy_for(self, episode: int) -> np.ndarray:
        """The policy [H, S] that must play an episode, if nothing is deployed until then.

        Parameters
        ----------
        episode
            The number of the episode.
        """
        return self._deployed.table(require_count("episode", episode, least=0))

    @property
    def mixture(self) -> np.ndarray:
        """All deployed policies [members, H, S], read-only, of which each episode plays one.

        Most algorithms have one member.
        """
        return self._deployed.actions

    @property
    def first_mixture(self) -> np.ndarray | None:
        """The initial mixture [n, H, S]; None in files of earlier versions."""
        return self._knowledge.initial() if self._knowledge.keeps_initial else self._first

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
    def local_switches(self) -> int:
        """In how many rows the policy has changed, summed over all deployments."""
        if self.gate == "review":
            return self._gate.applied_rows
        return self._knowledge.local_switches

    @property
    def actions_allowed(self) -> np.ndarray:
        """The actions that may be deployed [H, S, A], a copy; forbidding an action removes it."""
        return self._knowledge.allowed.copy()

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
        """The constants of the algorithm for this problem size, as JSON can hold them."""
        return spec_numbers(self._knowledge.spec) | {"stays_free": self._gate.stays_free}

    def tell_steps(self, states: Any, actions: Any, rewards: Any) -> History | None:
        """Learn episodes of which some steps are unknown or must be ignored.

        As `tell` with `off_policy`, except for the action -1. A step that is learned needs the
        state that follows it.

        Parameters
        ----------
        states, rewards
            [B, H].
        actions
            [B, H]. -1 marks a step from which nothing is learned, whatever its state and reward.
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
        switch: History | None = self.learn_checked(states, np.where(known, actions, -1), rewards)
        return switch

    def _checked_batch(self, states: Any, actions: Any, rewards: Any) -> Batch:
        return checked_batch(states, actions, rewards, self._allowed)

    def warm_start(self, states: Any, actions: Any, rewards: Any) -> None:
        """Learn from episodes that were played before this learner is told any.

        They may have been played by any policy, such as the present protocol. They count neither as
        episodes of this learner nor against its budget, and nothing is deployed because of them
        alone: the first plan uses them. Only learners that plan from counts can use such episodes.

        Parameters
        ----------
        states, actions, rewards
            [B, H].
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
        """Compare the values of two policies by the posterior.

        Values are averages over the states in which the episodes so far began. The models are drawn
        from the posterior with a learned prior; an action that was never tried has only the prior.

        Parameters
        ----------
        policy
            [H, S], by default the deployed policy. For a mixture, the average of its members.
        than
            [H, S], by default the initial policy.
        models
            The number of models.
        """
        first = self._knowledge.initial() if than is None else self._checked(than)
        return self._compared(self._tables_of(policy), first, models)

    def one_more(self, *, models: int = 400) -> Confidence:
        """Estimate the gain of one more deployment by the posterior.

        It compares the deployed policy with the one that exploits all current knowledge, as a last
        deployment does. That is the immediate loss of stopping; the value of new data comes on top.

        Parameters
        ----------
        models
            How many models are drawn from the posterior.
        """
        return self._compared(self._knowledge.exploiting()[None], self.mixture, models)

    def _compared(self, policies: np.ndarray, others: np.ndarray, models: int) -> Confidence:
        """Compare the mean value of policies [P, H, S] with the mean value of others [O, H, S]."""
        models = require_count("models", models, least=2)
        values = self._knowledge.values_on_models(np.concatenate([policies, others]), models)
        mine, other = values[: len(policies)].mean(axis=0), values[len(policies) :].mean(axis=0)
        low, high = np.quantile(mine - other, (0.1, 0.9))
        return Confidence(
            better=float((mine > other).mean() + 0.5 * (mine == other).mean()),
            value=float(mine.mean()),
            other=float(other.mean()),
            difference=(float(low), float(high)),
        )

    def bounds(
        self, policy: Any = None, *, probability: float = 0.05, starts: Any = None
    ) -> Bounds:
        """Lower and upper values without a prior, all of which hold with 1 - `probability`.

        They hold together, at all times and for all policies, however often you look; see
        `learners/bounds.py` for the theorem. The price is width: a useful bound takes thousands of
        episodes, as the page on bounds shows. Steps that are missing because of their outcome are
        not covered. Only learners that plan from counts have bounds.

        Parameters
        ----------
        policy
            [H, S], by default the deployed policy. For a mixture, the average of its members.
        probability
            The probability with which any of the bounds may fail.
        starts
            The law [S] of the first state, if it is known. Otherwise it is bounded from the
            episodes so far.
        """
        probability = checked_probability(probability)
        self._knowledge.require_bounds()
        cells = self._knowledge.cell_bounds(probability, checked_starts(starts, self.states))
        allowed, tables = self._knowledge.allowed, self._tables_of(policy)
        best = cells.best(allowed, chosen=not np.array_equal(allowed, self._allowed))
        most, pending = cells.at_start(best), self._gate.pending
        low, high = cells.interval(tables)
        proposed = None
        if pending is not None:
            least, largest = cells.interval(pending.put_into(self.mixture))
            proposed = least, min(largest, most)
        return Bounds((low, min(high, most)), proposed, most, cells.gap(tables, best), probability)

    def _tables_of(self, policy: Any) -> np.ndarray:  # [members, H, S]
        """The policy in question as tables, by default the deployed one."""
        return self.mixture if policy is None else self._checked(policy)

    def _checked(self, policy: Any) -> np.ndarray:  # [1, H, S]
        return checked_policy(policy, self._allowed)[None]

    def posterior(self) -> ModelPosterior | None:
        return self._knowledge.posterior()

    def evidence(
        self,
        proposal: Proposal | None = None,
        posterior: ModelPosterior | None = None,
        *,
        rule: int | None = None,
    ) -> Judgement | None:
        """Judge a proposal, by default the pending one, by the posterior.

        `worth()` of the result compares the proposed law with the deployed one, `worth(rows=...)`
        does so if only some rows change, and `row_worths` judges single rows. The result is None if
        nothing is proposed, or the learner has no model.

        Parameters
        ----------
        proposal
            The proposal.
        posterior
            The posterior of an earlier moment, by default the present one.
        rule
            The version of the rules of evidence, by default the newest one; older records have
            3 to 7.
        """
        proposal = proposal or self.proposal()
        posterior = posterior or self.posterior()
        if proposal is None or posterior is None:
            return None
        now, protocol = Law.equal(self.mixture), self._deployed.has_protocol
        new, initial = now.with_rows(proposal.rows), self._knowledge.initial()
        posterior = dataclasses.replace(posterior, rule=rule or BY_PLACE)
        return Judgement(posterior, now, new, initial, protocol=protocol)

    def _learn(
        self, batch: Batch, off_policy: bool, until_proposed: bool
    ) -> tuple[History | None, int]:
        if self.gate == "review":
            return None, self._learn_behind_gate(*batch, off_policy, until_proposed)
        return self._learn_in_pieces(*batch, off_policy), len(batch[0])

    def _learn_in_pieces(
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

    def _refuse(
        self, episode: int, step: int, states: np.ndarray, actions: np.ndarray, hint: str
    ) -> None:
        state, action = states[episode, step], actions[episode, step]
        planned = self._knowledge.policy().act(state, self.told + episode, step).action
        refuse_action(episode, step, f" in state {state}", action, planned, hint)

    # ---- the board -------------------------------------------------------------------------------

    def proposal(self) -> Proposal | None:
        """The proposal that waits for a decision, or None."""
        pending: Proposal | None = self._gate.pending
        return pending

    def _checked_policy(self, policy: Any) -> np.ndarray:  # [members, H, S]
        tables = np.asarray(policy.actions if isinstance(policy, TablePolicy) else policy)
        tables = np.repeat(tables[None], len(self.mixture), axis=0) if tables.ndim == 2 else tables
        if tables.shape != self.mixture.shape:
            raise ValueError(
                f"policies must have the shape {self.mixture.shape}, not {tables.shape}"
            )
        return np.stack([checked_policy(one, self._knowledge.allowed) for one in tables])

    def _checked_veto(
        self, rows: Iterable[Key], actions: Iterable[int], more: Sequence[int]
    ) -> tuple[list[Key], list[int]]:
        keys = list(dict.fromkeys((int(step), int(state)) for step, state in rows))
        named = sorted(checked_actions([*actions], self.actions))
        checked_actions([*named, *more], self.actions)
        for h, x in keys:
            if not (0 <= h < self.horizon and 0 <= x < self.states):
                raise ValueError(f"there is no row {(h, x)}")
            if not self._allowed[h, x, named].all():
                raise ValueError(f"row {(h, x)} never allowed all of the actions {named}")
        if not keys:
            raise ValueError("name at least one row (step, state)")
        return keys, named

    def learn_history(self, states: Any, actions: Any, rewards: Any, *, most: int) -> np.ndarray:
        """Learn episodes of an earlier protocol, before the first proposal.

        The protocol must have chosen actions by the state alone. The episodes do not count as told.
        Nothing is proposed; `propose` then makes the first proposal.

        Parameters
        ----------
        states, actions, rewards
            [B, H].
        most
            How many visits of each (h, x, a) are learned at most.

        Returns
        -------
        array
            The actions [B, H], with -1 at the steps that were not learned.
        """
        require_review(self.gate)
        most = require_count("most", most)
        if self.told:
            raise ValueError(
                f"history must come before the first episode, but {self.told} have been told"
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

    # ---- keeping ---------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts, as JSON can hold them, and arrays: all that is saved."""
        facts = {
            "algorithm": self.algorithm.to_dict(),
            "size": {name: getattr(self, name) for name in _SIZES},
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

    def _beginning(self) -> dict[str, np.ndarray]:
        return {} if self._first is None else {"first": self._first}

    @classmethod
    def _observations(cls, data: dict[str, Any]) -> Numbering:
        return Numbering.from_dict(data)

    @classmethod
    def _from_state(
        cls, facts: dict[str, Any], arrays: dict[str, np.ndarray], numbers: dict[str, Any] | None
    ) -> Self:
        learner, size = object.__new__(cls), facts["size"]
        gate = "review" if "gate" in facts else "open"
        algorithm = Algorithm.from_dict(facts["algorithm"])
        learner._begin(algorithm, size["episodes"], facts.get("seed", 0), gate)
        for name in _SIZES[:3]:
            setattr(learner, name, require_count(name, size[name]))
        learner.told = require_count("told", facts["told"], least=0, most=learner.episodes)
        sizes = learner.horizon, learner.states, learner.actions
        allowed = arrays["allowed"]
        if allowed.shape != sizes:
            raise ValueError(f"its mask has the shape {allowed.shape}, not {sizes}")
        learner._allowed = checked_mask(allowed, *sizes)
        learner._plain = gate == "open" and facts.get("plain", True) is True
        told = learner.told if learner._plain else None
        learner._knowledge = learner._size(numbers).restored(learner.seed, arrays, told)
        learner._knowledge.spec = learner._knowledge.copied_spec()
        if gate == "review":
            learner._restore_gate(facts["gate"], arrays["allowed_now"])
            learner._keep_to(numbers)
        learner._deployed = learner._knowledge.policy()
        if "first" in arrays:
            learner._first = learner._checked_policy(arrays["first"])
        return learner

    def _restore_gate(self, facts: dict[str, Any], allowed: np.ndarray) -> None:
        """Take over a saved gate, once the tables are in place."""
        knowledge, pending = self._knowledge, facts["pending"]
        made = None if pending is None else Proposal.from_facts(pending)
        self._gate = Gate.from_dict(facts, made)
        knowledge.allowed[...] = checked_mask(allowed, *knowledge.allowed.shape)
        integrity.require_actions("the policy", knowledge.policy().actions, knowledge.allowed)
        knowledge.restore_mask(self._gate.holds)
        self._gate.set_mode(knowledge)


def warn_if_drowned(share: float, algorithm: Algorithm, stacklevel: int = 3) -> None:
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
            stacklevel=stacklevel,
        )


def _first_visits(
    states: np.ndarray, actions: np.ndarray, visits: np.ndarray, most: int
) -> np.ndarray:  # [B, H]
    """Which steps are among the first `most` visits of their (h, x, a), counted from `visits`.

    Only their place in the order decides, not their outcome.
    """
    H, kept, seen = states.shape[1], np.zeros(states.shape, dtype=bool), visits.copy()
    for b in range(len(states)):
        cells = np.arange(H), states[b], actions[b]
        kept[b] = seen[cells] < most
        seen[cells] += 1
    return kept
