"""The knowledge of a learner with features, and the policies that it makes from it.

The state is the Cholesky factor of V = ridge I + sum x x' and the sum of rewards times features,
for each step and vector of weights, in the order of the episodes. With more than one step the
episodes themselves are stored, too, because the targets of a regression are the values of the next
step. With one step they are stored as long as log-odds are fitted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.ridge import Sampled
from lowswitch.checks import require_memory
from lowswitch.kernels.streams import DRAWS, SAMPLES, normals, purpose_key
from lowswitch.learners.case_posterior import CasePosterior
from lowswitch.learners.drift import (
    Lost,
    checks,
    next_check,
    next_estimate,
    nothing_seen,
    restored_contexts,
    restored_loss,
    watch,
)
from lowswitch.learners.knowledge import checked_actions
from lowswitch.learners.log_odds import (
    HALF,
    binary,
    fitted_log_odds,
    likeliest_log_odds,
)
from lowswitch.learners.ridge_posterior import RidgePosterior
from lowswitch.learners.ridge_protocol import (
    MOST_CASES,
    WIDTHS,
    Believed,
    Candidate,
    exploiting,
    gain_and_ratio,
    judged,
)
from lowswitch.learners.ridge_spec import Spec, can_be_protocol
from lowswitch.learners.scales import LEAST_CONTEXTS, Scales, upper_factors
from lowswitch.learners.trials import (
    NOTHING,
    AtFloor,
    Found,
    limited_policy,
    members_in_trial,
    moment_of,
    most_in_trial,
    needs_protocol,
    possible_cases,
    trial_share,
)
from lowswitch.policy.linear import LinearPolicy, allowed_actions
from lowswitch.policy.members import Part
from lowswitch.policy.shape import Shape
from lowswitch.review.proposals import WHOLE, Key, LinearProposal
from lowswitch.show.progress import say_when_compiling

_FIRST_ROOM = 64  # episodes
_RECENT = 200  # episodes whose contexts say how much a proposal would change
_COSTED = 16  # policies of a trial that are enough to say what it costs
_TABLES = 2  # the rule of tables by which the share of a trial is chosen, see `trials`


class Deployment(NamedTuple):
    """After `episode`, counted from 0, this policy is deployed."""

    episode: int
    policy: LinearPolicy


class Wanted(NamedTuple):
    """A policy that is wanted, and whether no other one can follow it."""

    policy: LinearPolicy
    last: bool


class Sums(NamedTuple):
    """The sums over the episodes, in their order."""

    factor: np.ndarray  # [H, B, d, d]  U, upper triangular, with V = U'U
    moment: np.ndarray  # [H, B, d]  sum of reward times features
    squares: np.ndarray  # [H]  sum of squared rewards
    counts: np.ndarray  # [H]  steps


class FeatureEpisodes(NamedTuple):
    """Stored episodes; if all are stored, the first `told` are known.

    If H is 1, all are stored only while log-odds are fitted, with only the features of the played
    action for each context, so R is 1.
    """

    x: np.ndarray  # [room, H, R, d]
    actions: np.ndarray  # [room, H]  -1 after the end of an episode
    rewards: np.ndarray  # [room, H]


class _Values(NamedTuple):
    """Values of every step, for some columns: members, or a mean."""

    weights: np.ndarray  # [H, D, B, C]  D: the features, and the constant if there is one
    offsets: np.ndarray  # [H, C]  what all actions of a step have in common
    roots: np.ndarray | None  # [H, D, D, B]  of an ellipsoid
    widths: np.ndarray  # [H]
    floors: np.ndarray | None = None  # [H, D, B, C]  of optimistic draws: weights before the noise


class _Fit(NamedTuple):
    """The uncertainty of fitted weights: their covariance is sigma^2 (U'U)^-1."""

    sigma: float
    factor: np.ndarray  # [B, D, D]  U of each weight vector


class RidgeKnowledge:
    """Sums, episodes where they are needed, and the deployed policy of one learner.

    It answers the gate as the knowledge of tables does; the one part of a proposal is the policy.
    """

    holds_rows = False
    has_put = False  # the gate computes the change that is due
    learns_forbidden = True

    deployed: LinearPolicy
    initial: LinearPolicy | None = None  # where it is the protocol at first

    def __init__(
        self, shape: Shape, spec: Spec, seed: int, member_key: np.uint64, lowest: float = 0.0
    ) -> None:
        say_when_compiling()
        self.shape, self.spec, self.lowest = shape, spec, lowest
        self.model_key = purpose_key(seed, SAMPLES)
        self.deployments = 0  # what a budget counts: deployments, or proposals in review
        self.key, self.member_key = purpose_key(seed, DRAWS), member_key
        self.allowed = allowed_actions(shape, None)  # [H, A]  a board may forbid some
        self.inner = spec.inner(shape)  # with the constant feature, if there is one
        H, B, d = self.inner.horizon, self.inner.blocks, self.inner.features
        need = 8 * H * B * d * (3 * d + 6 * spec.members)
        way_out = "use fewer features" + " or steps" * (H > 1)
        require_memory(need, f"the sums of a ridge of {shape}", way_out)
        eye = np.eye(d) * math.sqrt(spec.ridge)
        self.sums = Sums(
            factor=np.broadcast_to(eye, (H, B, d, d)).copy(),
            moment=np.zeros((H, B, d)),
            squares=np.zeros(H),
            counts=np.zeros(H, dtype=np.int64),
        )
        self.odds = H == 1 and spec.odds  # whether all rewards so far were 0 or 1
        self.kept = self._room(_FIRST_ROOM if self.keeps else 0)
        # the newest episodes of a bandit, with the whole of each context; more beside a protocol
        self.recent = FeatureEpisodes(
            x=np.zeros((0, 1, shape.rows, shape.features)),
            actions=np.zeros((0, 1), dtype=np.int64),
            rewards=np.zeros((0, 1)),
        )
        self.seen = nothing_seen(shape.features)
        self.checks = checks(spec.dates, spec.episodes) if spec.watches else ()
        self.lost = Lost()
        self.base = self.log_determinants()  # [H]  when the policy was made

    @property
    def keeps(self) -> bool:
        """Whether the episodes themselves are needed."""
        return self.shape.horizon > 1 or self.odds

    def _room(self, episodes: int) -> FeatureEpisodes:
        H, d = self.shape.horizon, self.shape.features
        R = self.shape.rows if H > 1 else 1
        need = 8 * episodes * H * (R * d + 2)
        require_memory(
            need, f"{episodes:,} episodes of {self.shape}", "use fewer features or steps"
        )
        return FeatureEpisodes(
            x=np.zeros((episodes, H, R, d)),
            actions=np.zeros((episodes, H), dtype=np.int64),
            rewards=np.zeros((episodes, H)),
        )

    def log_determinants(self) -> np.ndarray:  # [H]
        """ln det V of each step, over all vectors of weights."""
        diagonals = np.diagonal(self.sums.factor, axis1=-2, axis2=-1)
        logs: np.ndarray = 2.0 * np.log(diagonals).sum(axis=-1).sum(axis=-1)
        return logs

    # ---- learning --------------------------------------------------------------------------------

    def learn(
        self, x: np.ndarray, actions: np.ndarray, rewards: np.ndarray, told: int, *, watching: bool
    ) -> tuple[int, bool]:
        """Learn episodes until the determinant rule, if it is watched, asks for a policy.

        Return how many were learned, and whether the rule asks. `told` episodes came before this
        batch.
        """
        from lowswitch.kernels.ridge import learn

        scratch = np.empty(self.inner.features)
        log_factor = self.spec.log_factor if watching else math.inf
        learned, grown = learn(
            self._with_constant(x), actions, rewards, 0, self.sums, self.base, log_factor, scratch
        )
        x, actions, rewards = x[:learned], actions[:learned], rewards[:learned]
        if self.odds and not binary(rewards):  # linear from now on
            self.odds, self.kept = False, self._room(0)
        if self.shape.horizon > 1:
            self._keep(x, actions, rewards, told)
        else:
            most = _RECENT if self.initial is None else MOST_CASES
            both = zip(self.recent, (x, actions, rewards), strict=True)
            self.recent = FeatureEpisodes(
                *(np.concatenate([old, new[-most:]])[-most:] for old, new in both)
            )
            if self.odds:
                played = np.minimum(actions[:, 0], self.shape.rows - 1)
                self._keep(x[np.arange(learned), :, played][:, :, None], actions, rewards, told)
        self._watch(x[:, 0].mean(axis=1), told + learned)
        if self._is_estimate(told + learned):
            self._estimate_loss(told + learned)
        return learned, grown

    def _with_constant(self, x: np.ndarray) -> np.ndarray:  # [..., D]
        """Contexts with the constant feature behind the others, if there is one."""
        if not self.spec.intercept:
            return x
        return np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)

    def _watch(self, contexts: np.ndarray, told: int) -> None:
        """Test whether the contexts move; if they do, move the dates that are ahead."""
        if not self.spec.watches or self.seen.found is not None:
            return
        self.seen = watch(self.seen, contexts, told, self.checks)
        if self.seen.found is not None:
            self.spec = self.spec.moved(told, self.deployments)

    def next_stop(self, told: int) -> int:
        """The next number of episodes at which learning must stop: a date, or a test of drift."""
        date = self.spec.next_date(told)
        if self.spec.watches and self.seen.found is None:
            return min(date, next_check(self.checks, told, self.spec.episodes))
        return min(date, next_estimate(told, self.spec.episodes)) if self._comes_early else date

    @property
    def _comes_early(self) -> bool:
        """Whether a date can come early once the contexts have moved."""
        usual = self.spec.rule > 3 and self.spec.watches and self.spec.spread is not None
        return usual and self.shape.horizon == 1 and self.initial is None and not self.frozen

    def _is_estimate(self, told: int) -> bool:
        """Whether losses are estimated after this number of episodes, which learning stops at.

        Log-odds are too uncertain in new contexts: with many features dates came early in vain.
        """
        if self.odds or not self._comes_early:
            return False
        if self.seen.found is None or self.seen.found.told == told:
            return told in self.checks
        return self.spec.on_date(told) or next_estimate(told - 1, self.spec.episodes) == told

    def _estimate_loss(self, told: int) -> None:
        """Estimate what the deployed policy lost lately; put a date here if that is much."""
        newest = min(_RECENT, told - self.lost.told)
        posterior = self.posterior(told)
        contexts, means = posterior.contexts[0][-newest:], posterior.means(0)[-newest:]
        best = np.where(self.allowed[0], means, -np.inf).max(axis=1)
        earned = (self.deployed.propensities(contexts) * means).sum(axis=1)
        self.lost = self.lost.after(told, float((best - earned).mean()))
        due = not self.spec.on_date(told) and self.lost.is_much(self.deployments)
        if due and self.seen.found is not None:
            self.spec = self.spec.early(told, self.deployments)
        if self.spec.on_date(told):
            self.lost = self.lost._replace(newest=0.0)

    def _keep(self, x: np.ndarray, actions: np.ndarray, rewards: np.ndarray, told: int) -> None:
        last = told + len(x)
        if last > len(self.kept.x):
            larger = self._room(max(last, 2 * len(self.kept.x)))
            for new, old in zip(larger, self.kept, strict=True):
                new[:told] = old[:told]
            self.kept = larger
        for array, given in zip(self.kept, (x, actions, rewards), strict=True):
            array[told:last] = given

    # ---- the gate --------------------------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        """Whether a budget is spent."""
        return self.spec.budget is not None and self.deployments >= self.spec.budget

    @property
    def spent(self) -> tuple[int, int]:
        """The deployments and switches that a budget counts; each deployment is one switch."""
        return self.deployments, self.deployments

    @spent.setter
    def spent(self, spent: tuple[int, int]) -> None:
        self.deployments = spent[0]

    @property
    def dates(self) -> np.ndarray:
        """The numbers of episodes after which a policy may be made; none if the budget is spent."""
        return np.array(() if self.frozen else self.spec.dates, dtype=np.int64)

    def dates_between(self, since: int, until: int) -> np.ndarray:
        """The dates after `since` episodes, up to `until`."""
        dates = np.array(self.spec.dates, dtype=np.int64)
        between: np.ndarray = dates[(dates > since) & (dates <= until)]
        return between

    @property
    def exploits_next(self) -> bool:
        """Whether the next deployment is the last one, and exploits."""
        last = self.spec.budget is not None and self.deployments + 1 >= self.spec.budget
        return last and self.spec.greedy_last

    def policy(self) -> LinearPolicy:
        """The deployed policy, which nobody can change."""
        return self.deployed

    def set_review(self, free: bool) -> None:
        """Do nothing: the gate computes the change that is due."""

    def open_gate(self) -> None:
        """Do nothing: the gate computes the change that is due."""

    def on_grid(self, episodes: int) -> bool:
        """Whether a policy may be made after this number of episodes."""
        return self.spec.on_date(episodes)

    def keys(self, changes: Sequence[Wanted]) -> list[Key]:
        return [WHOLE for _ in changes]

    def wanted(self, told: int, *, free: bool = False) -> list[Wanted]:
        """The policy that is wanted after `told` episodes, unless it is deployed already."""
        last = self.spec.is_last(self.deployments - free, told)
        greedy = last and self.spec.greedy_last
        if self.initial is None:
            policy = self.plan(told, greedy=greedy)
        else:
            policy = self._law(self.initial, told, self.deployments - free + 1, alone=greedy)
        return [] if policy.identity == self.deployed.identity else [Wanted(policy, last)]

    def recheck(self, rows: Sequence[Key], told: int, *, free: bool = False) -> list[Wanted]:
        return self.wanted(told, free=free)

    def put(self, changes: list[Wanted]) -> list[Wanted]:
        """Count a deployment or a proposal."""
        self.deployments += len(changes)
        return changes

    def proposal(self, number: int, told: int, changes: Sequence[Wanted]) -> LinearProposal:
        """The wanted policy as a board sees it, compared with the deployed policy."""
        ((policy, last),) = changes
        base, contexts = self.deployed, self._recent_contexts(told)
        seen, changed = sum(map(len, contexts)), 0.0
        new: list[tuple[int, int]] = []
        for h, x in enumerate(contexts):
            if len(x):
                changed += len(x) / seen * policy.difference(base, x, h)
                played, before = (one.propensities(x, h).any(axis=0) for one in (policy, base))
                new += [(h, int(a)) for a in np.flatnonzero(played & ~before)]
        share = changed if seen else 1.0
        drift = self.seen.found.told if self.seen.found else 0
        return LinearProposal(number, told, base.identity, policy, share, last, tuple(new), drift)

    def _recent_contexts(self, told: int) -> list[np.ndarray]:  # for each step [n, R, d]
        """The newest contexts of each step; none for an episode that was over."""
        if self.shape.horizon == 1:
            return [self.recent.x[-_RECENT:, 0]]
        newest = slice(max(0, told - _RECENT), told)
        x, seen = self.kept.x[newest], self.kept.actions[newest] >= 0
        return [x[seen[:, h], h] for h in range(self.shape.horizon)]

    def parts_to(self, policy: LinearPolicy) -> dict[Key, LinearProposal]:
        """The part of a proposal by which a policy would be deployed, if it is another one."""
        if policy.identity == self.deployed.identity:
            return {}
        forbidden = np.argwhere(policy.playable & ~self.allowed)
        if len(forbidden):
            h, a = map(int, forbidden[0])
            raise ValueError(
                f"the policy may play action {a} at step {h}, which was rejected for ever; install"
                " one that was made after that"
            )
        by_hand = LinearProposal(0, 0, self.deployed.identity, policy, 1.0, last=False)
        return {WHOLE: by_hand}

    def limited(
        self, parts: Mapping[Key, LinearProposal], *, part: Part | None, share: float | None
    ) -> Mapping[Key, LinearProposal]:
        """The part that is deployed if one part is approved, or a smaller trial."""
        new = parts[WHOLE].policy if parts else self.deployed
        if not (self.deployed.has_protocol and new.has_protocol):
            raise ValueError(needs_protocol(part, share))
        return self.parts_to(limited_policy(self.deployed, new, part, share))

    @property
    def floor(self) -> float | None:
        return self.spec.floor

    def at_floor(
        self, parts: Mapping[Key, LinearProposal], floor: float, told: int
    ) -> AtFloor | None:
        """Whether a policy keeps to a floor, by the newest cases; None if it has no protocol.

        They judge the policy itself; at its proposal each half judges what the other half made.
        """
        law, initial = parts[WHOLE].policy if parts else self.deployed, self.initial
        if law.protocol is None:
            return None
        assert initial is not None
        worth = first = np.ones(1)
        judges = [one for half in range(2) if (one := self._half(half).judge(told)) is not None]
        if len(judges) == 2:
            worth = judged(judges, Candidate.fixed(law.protocol)) - self.lowest
            first = judged(judges, Candidate.fixed(initial)) - self.lowest
        return AtFloor.of(floor, int(law.in_trial.sum()), law.members, worth, first)

    def deploy(self, parts: Iterable[LinearProposal | Wanted], told: int) -> tuple[Deployment, int]:
        """The one place that changes the deployed policy of a learner with features.

        There are no rows, so each deployment is one switch.
        """
        (part,) = parts
        self.deployed = part.policy
        return Deployment(told - 1, part.policy), 1

    def forbid_new(self, parts: Iterable[LinearProposal], actions: Iterable[int] | None) -> None:
        """Take actions out of the mask: named ones at all steps, or the new ones of a proposal
        where it would play them.
        """
        (proposal,) = parts
        mask = self.allowed.copy()
        if actions is not None:
            mask[:, sorted(checked_actions(actions, self.shape.actions))] = False
        elif proposal.new_actions:
            mask[tuple(np.array(proposal.new_actions).T)] = False
        else:
            raise ValueError(
                "the proposal plays the same actions as the deployed policy in other contexts, so"
                " there is no new action to forbid; name some, as in actions=[2], or reject it for"
                " now"
            )
        self.allowed = allowed_actions(self.shape, mask)

    def rows_without(
        self, rows: Iterable[Key], actions: Iterable[int], instead: int | None
    ) -> dict[Key, LinearProposal]:
        """The deployed policy without some actions, if it may play any of them."""
        if instead is not None:
            raise ValueError("a policy on features plays its next best action; leave instead out")
        named = sorted(checked_actions(actions, self.shape.actions))
        self._masked(named, False)  # or an error
        if not self.deployed.allowed[:, named].any():
            return {}
        return self.parts_to(self.deployed.without(named))

    def _masked(self, actions: Sequence[int], allowed: bool) -> np.ndarray:  # [H, A]
        """The mask once some actions are forbidden, or allowed, at all steps."""
        mask = self.allowed.copy()
        mask[:, list(actions)] = allowed
        return allowed_actions(self.shape, mask)

    def forbid(self, step: int, state: int, action: int) -> None:
        self.allowed = self._masked([action], False)

    def permit(self, step: int, state: int, action: int) -> None:
        self.allowed = self._masked([action], True)

    def hold(self, step: int, state: int) -> None:
        raise NotImplementedError("features have no rows to hold")

    release = hold

    def next_trigger(self, step: int, state: int) -> int | None:
        raise NotImplementedError("features have no rows")

    def row_visits(self, step: int, state: int) -> int:
        raise NotImplementedError("features have no rows")

    # ---- keeping ---------------------------------------------------------------------------------

    def undo(self, x: np.ndarray, actions: np.ndarray) -> Callable[[], None]:
        """Remember everything; the result puts it back."""
        return self.undo_all()

    def undo_all(self) -> Callable[[], None]:
        """Remember everything; the result puts it back."""
        before = dict(vars(self))  # other arrays than the sums are replaced, or grow beyond `told`
        sums = Sums(*(array.copy() for array in self.sums))

        def put_back() -> None:
            self.__dict__.update(before, sums=sums)

        return put_back

    def undo_review(self) -> Callable[[], None]:
        return lambda: None

    def begin_with(self, policy: LinearPolicy | None) -> None:
        """Deploy a policy before anything is learned, by default the wanted one."""
        if self.spec.trial is not None and self.spec.members > 1 and can_be_protocol(policy):
            self.initial = policy
        if policy is None:
            self.deployed = self.plan(0, greedy=False)
        elif self.initial is None:
            self.deployed = policy
        else:
            anybody = self._policy(np.zeros((1, self.inner.features, self.inner.blocks, 1)))
            self.deployed = anybody.beside(policy, self.spec.members, most=0)

    def arrays(self, told: int) -> dict[str, np.ndarray]:
        """Everything that was learned from `told` episodes, by name."""
        arrays = {**self.sums._asdict(), "base": self.base, "recent": self.recent.x[:, 0]}
        if self.initial is not None:
            arrays |= {"actions": self.recent.actions, "rewards": self.recent.rewards}
        if not self.allowed.all():
            arrays["allowed"] = self.allowed
        if self.keeps:
            arrays |= {f"kept.{k}": v[:told] for k, v in self.kept._asdict().items()}
        if self.spec.watches:
            arrays |= {"seen.counts": self.seen.counts, "seen.powers": self.seen.powers}
            if self.seen.found is not None:
                arrays["seen.found"] = np.array(self.seen.found, dtype=float)
                arrays["dates"] = np.array(self.spec.dates, dtype=np.int64)
        if self.spec.rule > 3:
            arrays["lost"] = np.array(self.lost)
        return arrays

    def restore(self, arrays: dict[str, np.ndarray], told: int) -> None:
        """Take over saved arrays, once their shapes and numbers are right."""
        fresh = self.sums._asdict() | {"base": self.base}
        for name, array in fresh.items():
            found = arrays[name]
            if (found.shape, found.dtype) != (array.shape, array.dtype):
                raise ValueError(f"{name} is {found.dtype} of {found.shape}, not {array.shape}")
            if not np.isfinite(found).all():
                raise ValueError(f"{name} has entries that are not numbers")
        if not (np.diagonal(arrays["factor"], axis1=-2, axis2=-1) > 0).all():
            raise ValueError("its factor does not belong to a positive matrix")
        self.sums = Sums(**{name: arrays[name].copy() for name in Sums._fields})
        self.base = arrays["base"].copy()
        self.allowed = allowed_actions(self.shape, arrays.get("allowed"))
        contexts = self.shape.contexts(arrays["recent"])[:, None]
        nothing = np.zeros((len(contexts), 1))
        self.recent = FeatureEpisodes(
            contexts, arrays.get("actions", nothing.astype(int)), arrays.get("rewards", nothing)
        )
        self.odds = self.odds and "kept.x" in arrays
        self.kept = self._restored_episodes(arrays, told) if self.keeps else self._room(0)
        if self.spec.watches:
            self.seen, dates = restored_contexts(arrays, self.shape.features)
            self.spec = dataclasses.replace(self.spec, dates=dates or self.spec.dates)
        if self.spec.rule > 3:
            self.lost = restored_loss(arrays)

    def _restored_episodes(self, arrays: dict[str, np.ndarray], told: int) -> FeatureEpisodes:
        given, actions, rewards = (arrays[f"kept.{name}"] for name in FeatureEpisodes._fields)
        stored = self.shape if self.shape.horizon > 1 else self.shape._replace(shared=True)
        shape = (told, stored.horizon, stored.rows, stored.features)
        if given.shape != shape:
            raise ValueError(f"its episodes have the shape {given.shape}, not {shape}")
        if self.odds and not binary(rewards):
            raise ValueError("its episodes have rewards other than 0 and 1")
        if stored.shared:
            given = given[:, :, 0]
        return FeatureEpisodes(*stored.episodes(given, actions, rewards))

    # ---- policies --------------------------------------------------------------------------------

    def plan(self, told: int, *, greedy: bool) -> LinearPolicy:
        """The policy for the knowledge after `told` episodes; a greedy one does not explore.

        Its noise depends only on the seed and this number.
        """
        self.base = self.log_determinants()
        if self.spec.sampled is not None and not greedy:
            return self._drawn(told, self.spec.sampled, self.spec.members)
        return self._policy_of(self._means(told, 0.0 if greedy else self.spec.c))

    def _policy(self, weights: np.ndarray, **optimism: Any) -> LinearPolicy:
        key, allowed = self.member_key, self.allowed
        return LinearPolicy(self.shape, weights, key, **optimism, allowed=allowed)

    def _policy_of(self, values: _Values) -> LinearPolicy:
        """The policy of these values; what all actions have in common does not matter to it."""
        if values.roots is None:
            return self._policy(values.weights, floor=values.floors)
        return self._policy(values.weights, roots=values.roots, width=values.widths)

    def _law(self, initial: LinearPolicy, told: int, number: int, *, alone: bool) -> LinearPolicy:
        """The protocol and the trial of the deployment of this number; alone: without a trial."""
        self.base, sampled = self.log_determinants(), self.spec.sampled
        protocol, L, found, most = self.deployed.protocol or initial, self.spec.members, NOTHING, 0
        assert sampled is not None
        halves = [self._half(first) for first in range(2)]
        judges = [one for half in halves if (one := half.judge(told)) is not None]
        if len(judges) == len(halves):
            found, protocol, most = self._exploited(told, judges, halves, protocol, initial)
        elif self.spec.floor is not None:
            most = most_in_trial(self.spec.floor, L, np.ones(1), np.ones(1))
        moment = moment_of(
            number,
            told,
            self.spec.dates,
            episodes=self.spec.episodes,
            deployments=self.spec.budget or self.spec.episodes,
            rule=_TABLES,
        )
        cases = self.cases(told) if self.spec.rule > 1 and self.spec.trial == "auto" else None
        foreseen = None if cases is None else cases.foreseen(protocol, possible_cases(moment))
        exploring = members_in_trial(trial_share(self.spec.trial, moment, found, foreseen), L)
        if self.spec.floor is not None:
            exploring = min(exploring, most)
        exploring = 0 if alone else exploring
        return self._drawn(told, sampled, max(1, exploring)).beside(protocol, L, exploring)

    def _above_floor(
        self,
        protocol: LinearPolicy,
        initial: LinearPolicy,
        worth: np.ndarray,
        first: np.ndarray,
    ) -> tuple[LinearPolicy, int]:
        """The protocol, and how many members may explore beside it for the floor.

        worth, first: the values of the protocol and of the initial policy [models]. If the protocol
        is below the floor, the initial policy, or the rest of it that a board left, replaces it.
        """
        if self.spec.floor is None:
            return protocol, self.spec.members
        values = worth - self.lowest, first - self.lowest
        most = most_in_trial(self.spec.floor, self.spec.members, *values)
        if most >= 0:
            return protocol, most
        if not (initial.allowed & ~self.allowed).any():
            protocol = initial
        return protocol, most_in_trial(self.spec.floor, self.spec.members, values[1], values[1])

    def _half(self, first: int) -> RidgeKnowledge:
        """What every second one of the newest cases says by itself."""
        spec = dataclasses.replace(self.spec, watches=False, trial=None)
        half = RidgeKnowledge(self.shape, spec, 0, self.member_key)
        half.allowed, half.model_key = self.allowed, np.uint64(self.model_key + np.uint64(first))
        x, actions, rewards = (np.ascontiguousarray(array[first::2]) for array in self.recent)
        half.initial = self.initial  # so that all cases are kept
        half.learn(x, actions, rewards, 0, watching=False)
        return half

    def judge(self, told: int) -> Believed | None:
        """Models of the newest cases; None if there is not enough to learn them from."""
        cases = self.cases(told)
        return None if cases is None else Believed.of(cases)

    def cases(self, told: int) -> CasePosterior | None:
        """A posterior by the newest cases; None if there is not enough to learn it from."""
        x, actions, rewards = (array[:, 0] for array in self.recent)
        if not CasePosterior.can(self.shape, rewards):
            return None
        return CasePosterior(self.shape, x, actions, rewards, key=self.model_key, told=told)

    def _exploited(
        self,
        told: int,
        judges: Sequence[Believed],
        halves: Sequence[RidgeKnowledge],
        now: LinearPolicy,
        initial: LinearPolicy,
    ) -> tuple[Found, LinearPolicy, int]:
        """The findings so far, the protocol, and how many members may explore beside it."""
        made = (self, halves[1], halves[0])  # each half judges what the other one made
        counts = (told, *(len(half.recent.actions) for half in made[1:]))
        each = [one.pessimists(n) for one, n in zip(made, counts, strict=True)]
        candidates = [Candidate(whole, pair) for whole, *pair in zip(*each, strict=True)]
        chosen = exploiting(judges, Candidate.fixed(now), candidates)
        first, worth = (judged(judges, one) for one in (Candidate.fixed(initial), chosen))
        assert self.spec.sampled is not None
        some = Candidate.fixed(self._drawn(told, self.spec.sampled, _COSTED))
        cost = float((worth - judged(judges, some)).mean())
        found = Found(*gain_and_ratio(worth - first), cost, paid=True)
        return found, *self._above_floor(chosen.policy, initial, worth, first)

    def pessimists(self, told: int) -> list[LinearPolicy]:
        """The policies that may become the protocol."""
        values = self._fresh_values(1)
        fit = self._regress(0, values, told)
        sigma = 1.0 if self.odds else fit.sigma  # a draw of log-odds spreads less than this
        roots = self._roots(fit.factor[None])
        return [
            self._policy(values.weights, roots=roots, width=np.array([-width * sigma]))
            for width in WIDTHS
        ]

    def _drawn(self, told: int, how: Sampled, members: int) -> LinearPolicy:
        """Weights drawn from the posterior, backwards: each member has its own values to go."""
        H, scale = self.shape.horizon, how.scale(told, self.spec.episodes)
        if self.seen.found is not None:  # new contexts are worth exploring until the end
            scale = max(scale, how.c)
        values = self._fresh_values(1 + members)  # the first column is the mean
        if how.draws == "optimistic" and told:  # nothing is known at first, so nothing is a floor
            values = values._replace(floors=np.zeros(values.weights.shape))
        for h in reversed(range(H)):
            fit = self._regress(h, values, told)
            if values.floors is not None:
                values.floors[h] = values.weights[h]
            spread = self._spread(h, told, fit.factor, members)
            values.weights[h, :, :, 1:] += scale * fit.sigma * spread
            if self.spec.intercept and not self.shape.shared:  # it is the same for all actions
                values.weights[h, -1] = values.weights[h, -1, :, :1]
        # of one step all members have the same targets, and so the same floor
        floor = None if values.floors is None else values.floors[..., 1 : 2 if H == 1 else None]
        return self._policy(values.weights[..., 1:], floor=floor)

    def _means(self, told: int, c: float) -> _Values:
        """The ridge estimates, and the ellipsoid around them."""
        values = self._fresh_values(1, self._roots(self.sums.factor) if c else None)
        for h in reversed(range(self.shape.horizon)):
            fit = self._regress(h, values, told)
            values.widths[h] = c * self._unit_width(h, fit.sigma)
        return values

    def estimates(self, told: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The estimated weights [H, B, d], the offset of each step [H], and intercepts [H, B]."""
        values, d = self._means(told, 0.0), self.shape.features
        weights = values.weights[..., 0].transpose(0, 2, 1)  # [H, B, D]
        constant = weights[..., d] if self.spec.intercept else np.zeros(weights.shape[:2])
        return weights[..., :d].copy(), values.offsets[:, 0].copy(), constant.copy()

    def posterior(self, told: int) -> RidgePosterior:
        """The posterior after `told` episodes, which later learning does not change."""
        weights, offsets, intercepts = self.estimates(told)
        contexts, odds = self._recent_contexts(told), self.odds and told > 0
        return RidgePosterior(weights, offsets, contexts, intercepts, odds)

    def _fresh_values(self, columns: int, roots: np.ndarray | None = None) -> _Values:
        H, d, B = self.inner.horizon, self.inner.features, self.inner.blocks
        weights, offsets = np.zeros((H, d, B, columns)), np.zeros((H, columns))
        return _Values(weights, offsets, roots, np.zeros(H))

    def _regress(self, h: int, values: _Values, told: int) -> _Fit:
        """Fit the values of a step, given the values of later steps; return how sure they are.

        sigma^2 = (1 + y'y - b' V^-1 b) / (1 + n): the unexplained part of the targets y and the
        penalty of the weights together, and one observation of variance 1 for the prior. With more
        than one step, or with an intercept, the targets are relative to their mean, so an action
        that was never tried has the usual value there instead of zero.
        """
        from lowswitch.kernels.ridge import backward, forward

        if self.odds and told:
            return self._fit_odds(values, told)
        moment, total = self._moments(h, values, told)
        factors, explained = self._factors(h), 0.0
        for factor, b in zip(factors, moment, strict=True):
            forward(factor, b)
            explained += float(np.add.reduce(b[:, 0] ** 2))
            backward(factor, b)
        values.weights[h] = moment.transpose(1, 0, 2)
        left = 1.0 + max(0.0, total - explained)
        return _Fit(math.sqrt(left / (1.0 + int(self.sums.counts[h]))), factors)

    def _fit_odds(self, values: _Values, told: int) -> _Fit:
        """Fit log-odds to rewards that are 0 or 1; a draw spreads half as far as the posterior."""
        kept, scales = FeatureEpisodes(*(array[:told, 0] for array in self.kept)), self._scales(0)
        blocks = np.minimum(kept.actions, self.inner.blocks - 1)
        x = kept.x[:, 0] if scales is None else scales.standardised(kept.x[:, 0])
        fitted = likeliest_log_odds if self.spec.rule > 2 else fitted_log_odds
        offset, weights, factor = fitted(
            self._with_constant(x), blocks, kept.rewards, self.spec.ridge, self.inner.blocks
        )
        if scales is not None:
            weights, factor = scales.weights(weights), scales.factors(factor)
        values.offsets[0], values.weights[0] = offset, weights.T[..., None]
        return _Fit(HALF, factor)

    def _scales(self, h: int) -> Scales | None:
        """The means and deviations of the features at a step; None if they are not to be used."""
        n = int(self.sums.counts[h])
        if self.spec.rule == 1 or not self.spec.intercept or n < LEAST_CONTEXTS:
            return None
        return Scales.of(self._squares(h).sum(axis=0), n)

    def _squares(self, h: int) -> np.ndarray:  # [B, D, D]
        """sum x x' of each weight vector."""
        factors = self.sums.factor[h]
        return np.asarray(
            factors.transpose(0, 2, 1) @ factors - self.spec.ridge * np.eye(factors.shape[-1])
        )

    def _factors(self, h: int) -> np.ndarray:  # [B, D, D]
        """U of each weight vector, with the penalty of standardised features where there is one."""
        scales = self._scales(h)
        if scales is None:
            unscaled: np.ndarray = self.sums.factor[h]
            return unscaled
        return upper_factors(self._squares(h) + self.spec.ridge * scales.penalty)

    def _moments(self, h: int, values: _Values, told: int) -> tuple[np.ndarray, float]:
        """The sums [B, D, C] of target times features, and the sum of squared targets."""
        from lowswitch.kernels.ridge import add_targets

        sums, columns = self.sums, values.weights.shape[-1]
        if self.shape.horizon == 1:
            moment, total = sums.moment[h], float(sums.squares[h])
            if self.spec.intercept and sums.counts[h]:
                mean = float(moment[:, -1].sum()) / int(sums.counts[h])
                values.offsets[h] = mean
                moment = moment - mean * self._feature_sums(h)
                total -= int(sums.counts[h]) * mean**2
            return np.repeat(moment[..., None], columns, axis=-1), total
        x, actions = self.kept.x[:told, h], self.kept.actions[:told, h]
        targets, played = self._targets(h, values, told), actions >= 0
        if played.any():
            values.offsets[h] = np.add.reduce(targets[played], axis=0) / played.sum()
        targets -= values.offsets[h]
        moment = np.zeros((self.inner.blocks, self.inner.features, columns))
        add_targets(self._with_constant(x), actions, targets, moment)
        return moment, float(np.add.reduce(targets[played, 0] ** 2))

    def _feature_sums(self, h: int) -> np.ndarray:  # [B, D]
        """The sum of the features of each weight vector: the column of V for the constant."""
        factors = self.sums.factor[h]
        column: np.ndarray = np.add.reduce(factors * factors[..., -1:], axis=1)
        column[:, -1] -= self.spec.ridge
        return column

    def _targets(self, h: int, values: _Values, told: int) -> np.ndarray:  # [told, C]
        """The reward at a step plus the value of the next context.

        Values are limited to what the remaining steps could pay, with the smallest and largest
        rewards seen so far. While all rewards were the same, the limits widen by [-1, 1], so that
        optimism reaches earlier steps before anything is paid. The proofs are for rewards in [0,
        1].
        """
        kept, left = self.kept, self.shape.horizon - h - 1
        targets = np.repeat(kept.rewards[:told, h, None], values.weights.shape[-1], axis=1)
        after = kept.actions[:told, h + 1] >= 0 if left else np.zeros(told, dtype=bool)
        if after.any():
            policy = self._policy_of(values)
            paid = kept.rewards[:told][kept.actions[:told] >= 0]
            low, high = min(0.0, paid.min()), max(0.0, paid.max())
            if self.spec.width == "proof":
                low, high = 0.0, 1.0
            elif paid.min() == paid.max():
                low, high = min(-1.0, low), max(1.0, high)
            ahead = policy.values(kept.x[:told, h + 1][after], h + 1) + values.offsets[h + 1]
            targets[after] += np.clip(ahead, left * low, left * high)
        return targets

    def _spread(self, h: int, told: int, factors: np.ndarray, L: int) -> np.ndarray:  # [D, B, L]
        """U^-1 z for standard normal z; its covariance is V^-1.

        The second half of the members has the z of the first half with the other sign. A few draws
        then lie on both sides of the estimate in every direction, so fewer runs miss a good action
        (on 50 fixed arms the mean regret fell from 152 to 87, the worst from 1,730 to 441).
        """
        from lowswitch.kernels.ridge import backward

        B, d = self.inner.blocks, self.inner.features
        half = (L + 1) // 2
        size = B * d * half
        z = normals(self.key, (told * self.shape.horizon + h) * size, size).reshape(B, d, half)
        z = np.concatenate([z, -z[..., : L - half]], axis=-1)
        for factor, block in zip(factors, z, strict=True):
            backward(factor, block)
        return z.transpose(1, 0, 2)

    def _roots(self, factors: np.ndarray) -> np.ndarray:  # [H, d, d, B]
        """The inverses of factors: x' V^-1 x is the squared length of x turned by them."""
        from lowswitch.kernels.ridge import backward

        H, B, d = self.inner.horizon, self.inner.blocks, self.inner.features
        inverse = np.broadcast_to(np.eye(d), (H, B, d, d)).copy()
        for h in range(H):
            for b in range(B):
                backward(factors[h, b], inverse[h, b])
        return np.ascontiguousarray(inverse.transpose(0, 2, 3, 1))

    def _unit_width(self, h: int, sigma: float) -> float:
        """The width of the ellipsoid at c = 1."""
        if self.spec.width == "noise":
            return sigma
        if self.spec.width == "unit":
            return 1.0
        grown = float(self.log_determinants()[h]) - self.inner.weights * math.log(self.spec.ridge)
        return proof_width(self.inner, self.spec, grown)


def proof_width(shape: Shape, spec: Spec, grown: float) -> float:
    """The width of the proofs, for rewards in [0, 1] and features and weights of norm at most 1.

    One step: sqrt(beta) = R sqrt(2 ln(det(V)^(1/2) det(ridge I)^(-1/2) / p)) + sqrt(ridge) S with
    R = 1/2 and S = 1 (Abbasi-Yadkori, Pal, Szepesvari 2011, Theorem 2); grown is the logarithm of
    det V / det(ridge I). More steps: d H sqrt(ln(2 d T / p)) (Jin et al. 2020, Theorem 3.1).
    """
    if shape.horizon == 1:
        return 0.5 * math.sqrt(grown - 2.0 * math.log(spec.p)) + math.sqrt(spec.ridge)
    steps = spec.episodes * shape.horizon
    iota = math.log(2 * shape.weights * steps / spec.p)
    return shape.weights * shape.horizon * math.sqrt(iota)
