"""The priors that the data support, with their weights; the models that judge a proposal use all.

A prior has three parts: how far the steps of an episode differ (`kin`); whether the laws of a
state's actions resemble each other (`alike`) or are unrelated, with a few successors each (`sizes`,
`each`), and whether actions that nobody chose lead to worse or better states (`pull`); and how much
the rewards of a state's actions differ (`reward_mass`), and by how much those of its usual actions
are lower or higher than the others (`lift`): those that somebody chose, or the one tried most.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowswitch.kernels.arrays import Belief, Laws, PlanSpec, Rewards
from lowswitch.kernels.streams import splitmix, uniforms

_KIN = (0.0, 3.0, 10.0, 30.0, 100.0, np.inf)
_EACH = (0.1, 0.3, 1.0, 3.0)
_ALIKE = (1.0, 3.0, 10.0, 30.0, 100.0)
_REWARD_MASSES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4, 1e5)
_FALLING = 0.7  # each mass is this many times as likely beforehand as the mass before it
_LIFTS = {-3.0: 1, -2.0: 2, -1.0: 3, 0.0: 4, 1.0: 3, 2.0: 2, 3.0: 1}  # with their weights
_LIFTS_OF_CHOICE = dict.fromkeys((-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0), 1)
# how far actions that nobody chose may lead to better places than chosen ones, with the weights of
# these hypotheses: people choose well more often than badly
_PULLS = {-4.0: 3, -2.0: 3, -1.0: 3, 0.0: 2, 1.0: 1, 2.0: 1, 4.0: 1}
_SAME = 1e-9  # values that differ less are equal
_FAR = 2.5  # standard deviations; a value that is farther off counts as this far
_LEAST = 0.01  # of the weight; what has less is left out
_MOST_SAID = 20.0  # as much as this many rewards of 0 and 1 is said by one that varies less
# rules of the evidence, see `ledger/evidence.py`
BY_WORTH, BY_DOUBT, BY_ALL, BY_LIFT, BY_CHOICE, BY_PLACE = 3, 4, 5, 6, 7, 8
LARGE = 50_000  # cells (h, x, a) from which on only the heaviest of a few hypotheses is kept
_FEW_KIN = (0.0, 30.0, np.inf)
_DOUBT = 0.6  # between values tried on first meetings of runs in benchmarks/evidence.py
_DOUBTFUL = 0.05  # the weight from which on the steps of a large problem are taken for alike
_CHOOSING = np.array([2**59], dtype=np.uint64)


class Seen(NamedTuple):
    """The counts of a learner at one moment, which later learning does not change."""

    belief: Belief  # that it plans with, without its hope
    apart: Laws  # by step
    together: Laws | None  # of all steps; None if they are counted as one, or told apart by decree
    chosen: np.ndarray | None  # [H, S]  the policy that somebody chose, if somebody did


class Weighed(NamedTuple):
    """Hypotheses and the probability of each."""

    beliefs: list[Belief]
    shares: np.ndarray  # [n]

    def chosen(self, stream: np.uint64, models: int) -> np.ndarray:  # [models]
        """The hypothesis that each model is drawn from, by its number."""
        key = splitmix(np.array([stream]), _CHOOSING)[0]
        return np.searchsorted(np.cumsum(self.shares[:-1]), uniforms(key, 0, models))


def weighed(spec: PlanSpec, seen: Seen, rule: int) -> Weighed:
    """The hypotheses that the data support, by a rule of the evidence.

    From rule 4 on the unseen rewards of an action may all be off together: see `shared_doubts`.
    From rule 5 on every pair of a hypothesis about laws and one about rewards is kept. Earlier
    rules dropped pairs with a small weight. If there were many laws, each pair was light, so all
    hypotheses about rewards except one were dropped, however likely they were. Rules 6 and 7 have
    other hypotheses about rewards: see `reward_priors`. From rule 8 on there are also hypotheses
    about where unusual actions lead, except in large problems: see `pulled_laws`.
    """
    plain = seen.belief._replace(hopeful=False)
    if rule >= BY_DOUBT:
        plain = plain._replace(doubts=shared_doubts(spec, plain.rewards, rule))
    if rule >= BY_CHOICE and seen.chosen is not None:
        plain = plain._replace(chosen=chosen_rows(spec, plain.rewards, seen.chosen))
    if spec.mass > 0.0:  # the prior was given
        return Weighed([plain], np.ones(1))
    if seen.together is not None:
        laws = _by_step(spec, seen.apart, seen.together, plain)
    else:
        laws = _by_law(spec, _sized(spec, plain))
    if rule >= BY_PLACE and spec.H > 1 and len(seen.apart.n) < LARGE:
        laws = pulled_laws(spec, seen, plain, laws)
    rewards = reward_priors(spec, plain, said_by_reward(plain, rule), rule)
    if len(seen.apart.n) >= LARGE:
        laws, rewards = _heaviest(laws), rewards if rule >= BY_ALL else _heaviest(rewards)
    both = [
        (belief._replace(reward_mass=mass, lift=lift), share * part)
        for belief, share in laws
        for (mass, lift), part in rewards
    ]
    beliefs, shares = zip(*(both if rule >= BY_ALL else _kept(both)), strict=True)
    return Weighed(list(beliefs), np.array(shares))


def chosen_rows(spec: PlanSpec, rewards: Rewards, policy: np.ndarray) -> np.ndarray:
    """Whether a policy [H, S] plays the action of a row of rewards: at any step, if all are one."""
    played = policy[..., None] == np.arange(spec.A)
    found = played.any(axis=0) if len(rewards.n) == spec.S * spec.A else played
    return np.ascontiguousarray(found.reshape(-1))


def good_places(spec: PlanSpec, belief: Belief, chosen: np.ndarray) -> np.ndarray:  # [H, S]
    """How good it is for a policy [H, S] to be in a state after each step, compared with the other
    states: its value there in the mean model, in standard deviations of these values.
    """
    from lowswitch.kernels.hypotheses import values_of

    ahead, found = values_of(spec, belief, chosen)[1:], np.zeros((spec.H, spec.S))
    spread, lead = ahead.std(axis=1, keepdims=True), ahead - ahead.mean(axis=1, keepdims=True)
    found[:-1] = np.clip(lead / np.where(spread > _SAME, spread, np.inf), -_FAR, _FAR)
    return found


def pulled_laws(
    spec: PlanSpec, seen: Seen, plain: Belief, laws: list[tuple[Belief, float]]
) -> list[tuple[Belief, float]]:
    """Hypotheses about laws in which actions that nobody chose lead to better or worse places.

    After such an action, a state that is z standard deviations better (`good_places`) is exp(pull
    z) times as likely as with a pull of 0. Chosen actions are not pulled. While few other actions
    were tried, the pull is hardly known, so an untried action may well lead to worse places than
    the usual one, or to better ones. If the laws of all steps are one, a place is as good as on
    average over the steps, and an action is chosen if it is at any step that has a successor.
    """
    from lowswitch.kernels.hypotheses import likelier, pull_evidence

    if seen.chosen is None:
        return laws
    good = good_places(spec, plain, seen.chosen)
    chosen = seen.chosen[..., None] == np.arange(spec.A)
    found, weights, evidence = list[Belief](), list[float](), list[float]()
    for together in sorted({belief.laws.stride == 0 for belief, _ in laws}):
        some = [(belief, share) for belief, share in laws if (belief.laws.stride == 0) == together]
        places, led = good, chosen
        if together:
            places, led = good[:-1].mean(axis=0, keepdims=True), chosen[:-1].any(axis=0)
        for tilt, weight in _PULLS.items():
            pull = np.exp(tilt * places)
            pull /= pull.mean(axis=1, keepdims=True)
            table = likelier(spec.S, pull, some[0][0].sizes.shape[1])
            for belief, share in some:
                own = belief.laws.n if together else seen.apart.n
                pulled = belief._replace(pull=pull, led=led.reshape(-1)) if tilt else belief
                found.append(pulled)
                weights.append(share * weight)
                evidence.append(pull_evidence(spec, pulled, own, table) if tilt else 0.0)
    shares = _halved(np.array(evidence) + 2.0 * np.log(weights))  # the weights are not halved
    return _kept(zip(found, shares, strict=True), _LEAST / len(_PULLS))


def _by_step(
    spec: PlanSpec, apart: Laws, together: Laws, plain: Belief
) -> list[tuple[Belief, float]]:
    """Beliefs in which other steps and other actions say more or less of a law.

    Both say it together, so they are weighed together. If the steps do not differ at all, the laws
    of all steps are one, and its actions are weighed by themselves.
    """
    from lowswitch.kernels.evidence import learned_mass
    from lowswitch.kernels.hypotheses import kindred_evidence, kindred_laws

    kins = _KIN if len(apart.n) < LARGE else _FEW_KIN
    mass, _ = learned_mass(spec, together)
    evidence = np.zeros((len(kins), 1 + len(_ALIKE)))
    for i, kin in enumerate(kins):
        laws = kindred_laws(spec, apart, together, kin)
        for j, alike in enumerate((0.0, *_ALIKE)):
            evidence[i, j] = kindred_evidence(spec, apart, laws, mass, alike)
    found, made = list[tuple[Belief, float]](), _sized(spec, plain._replace(laws=together))
    best = max(made, key=lambda one: one.evidence)
    weights = _halved(evidence)
    if len(apart.n) >= LARGE and weights[-1].sum() >= _DOUBTFUL:
        weights[:-1] = 0.0  # laws by step take as many times longer to draw as there are steps
    for kin, shares in zip(kins, weights, strict=True):
        if kin == np.inf:
            found += [(one, share * shares.sum()) for one, share in _by_law(spec, made)]
        elif shares.max() >= _LEAST:
            sized = best.of(spec, kindred_laws(spec, apart, together, kin))
            pairs = zip((0.0, *_ALIKE), shares.tolist(), strict=True)
            found += [(sized._replace(alike=alike), share) for alike, share in pairs]
    return _kept(found)


def shared_doubts(spec: PlanSpec, rewards: Rewards, rule: int) -> np.ndarray:  # see `Belief`
    """How far the unseen rewards of each action may be off, all of them in the same direction.

    Before an action was tried anywhere, nothing says whether it is better or worse than the others
    on the whole. Independent draws for each state would average that out, and many untried actions
    together would look well known. So each model shifts all unseen rewards of an action by one
    number, uniform with the standard deviation `_DOUBT` times the spread of the mean rewards of the
    tried cells. An action that was tried in m states has shown its effect m times, which leaves 1 /
    sqrt(1 + m) of the deviation.

    Observed rewards depend on the tried actions, which may be unusual themselves. So from rule 5 on
    the unseen rewards of all actions may be off together, too. The effects of actions that were
    tried in m_a of M states average out to sqrt(sum of (m_a / M)^2) of the deviation: to all of it
    if only one action was ever tried.
    """
    n = rewards.n.reshape(-1, spec.S, spec.A)
    tried = n > 0
    means = rewards.total.reshape(n.shape) / np.maximum(n, 1.0)
    spreads = [
        here[seen].std() if seen.any() else 0.0 for here, seen in zip(means, tried, strict=True)
    ]
    states, deviation = tried.sum(axis=1), _DOUBT * np.array(spreads)
    each = (deviation[:, None] / np.sqrt(1 + states)).reshape(-1)
    if rule >= BY_ALL:
        parts = states / np.maximum(states.sum(axis=1, keepdims=True), 1)
        each = np.concatenate([each, deviation * np.sqrt((parts**2).sum(axis=1))])
    found: np.ndarray = np.sqrt(3.0) * each  # half the width of a uniform law
    return found


class Sized(NamedTuple):
    """A belief in which each law has a few successors, with its evidence."""

    belief: Belief
    shares: np.ndarray  # [n]  how many they are, as log probabilities
    evidence: float

    def of(self, spec: PlanSpec, laws: Laws) -> Belief:
        """The belief with these laws."""
        from lowswitch.kernels.hypotheses import sizes_by_row

        sizes = sizes_by_row(spec, laws, self.shares, self.belief.each)
        return self.belief._replace(laws=laws, sizes=sizes)


def _by_law(spec: PlanSpec, made: list[Sized]) -> list[tuple[Belief, float]]:
    """Beliefs whose laws have sizes, and beliefs whose actions are alike."""
    from lowswitch.kernels.evidence import ODDS, alike_evidence

    best = max(made, key=lambda one: one.evidence)
    sized = best.of(spec, best.belief.laws)
    alike_ones = [
        (sized._replace(alike=alike), alike_evidence(spec, sized.laws, sized.mass, alike) - ODDS)
        for alike in _ALIKE
    ]
    sized_ones = [(one.of(spec, one.belief.laws), one.evidence) for one in made]
    beliefs, evidence = zip(*sized_ones, *alike_ones, strict=True)
    return _kept(zip(beliefs, _halved(np.array(evidence)), strict=True))


def _sized(spec: PlanSpec, belief: Belief) -> list[Sized]:
    """Beliefs whose laws have a few successors each."""
    from lowswitch.kernels.evidence import learned_mass
    from lowswitch.kernels.hypotheses import learned_sizes

    mass, _ = learned_mass(spec, belief.laws)
    alone, found = belief._replace(mass=mass, alike=0.0), list[Sized]()
    for each in _EACH:
        shares, evidence = learned_sizes(spec, belief.laws, each)
        found.append(Sized(alone._replace(each=each), shares, evidence))
    return found


def said_by_reward(belief: Belief, rule: int) -> float:
    """The number of rewards of 0 and 1 for which each reward counts in the test of equal actions.

    A reward with a share of the variance of such 0-1 rewards says as much about the mean as one
    over this share of them. Rules 3 and 4 counted it as less than one, so actions that clearly pay
    differently could be taken for equal.
    """
    return belief.share if rule < BY_ALL else min(_MOST_SAID, 1.0 / belief.share)


def reward_priors(
    spec: PlanSpec, belief: Belief, counts: float, rule: int
) -> list[tuple[tuple[float, float], float]]:
    """Priors of a mean reward, each a mass and a lift (see `Belief`), with their probabilities.

    counts: as how many rewards of 0 and 1 each reward counts.

    Until other actions were tried, nothing says how far they differ from the usual one of their
    state. Rules 3 to 5 take all masses as equally likely beforehand, so half of the prior says that
    actions hardly differ, and they know no lift: they expect as much of other actions as of the
    usual one, though somebody may have chosen it because it is good. From rule 7 on the usual
    actions are those of the policy that somebody chose, at whatever step, and all lifts are equally
    likely beforehand. Rule 6 takes one of them for an unusual one where that policy plays several
    in a state, and these are good, too; so it learned that unusual actions are as good.
    """
    from lowswitch.kernels.hypotheses import chosen_reward_evidence, doubted_reward_evidence

    rewards, chosen, A = belief.rewards, belief.chosen, spec.A
    masses = _REWARD_MASSES if belief.noisy else (belief.reward_mass,)
    falling, lifts = (_FALLING, _LIFTS) if rule >= BY_LIFT else (1.0, {0.0: 1})
    if len(chosen):
        lifts = _LIFTS_OF_CHOICE
    priors = [(mass, lift) for mass in masses for lift in lifts]
    weights = np.outer(falling ** np.arange(len(masses)), [*lifts.values()]).reshape(-1)
    evidence = [
        chosen_reward_evidence(rewards, chosen, A, mass, counts, lift)
        if len(chosen)
        else doubted_reward_evidence(rewards, A, mass, counts, lift)
        for mass, lift in priors
    ]
    shares = _halved(np.array(evidence) + 2.0 * np.log(weights))  # the weights are not halved
    return _kept(zip(priors, shares, strict=True), _LEAST / len(lifts))


def _halved(evidence: np.ndarray) -> np.ndarray:
    """Probabilities by evidence that is a pseudo-likelihood, which counts each pair twice."""
    shares = np.exp((evidence - evidence.max()) / 2.0)
    found: np.ndarray = shares / shares.sum()
    return found


def _heaviest(weighted: list[Any]) -> list[Any]:
    """Only the hypothesis with the most weight."""
    return [(max(weighted, key=lambda one: one[1])[0], 1.0)]


def _kept(weighted: Any, least: float = _LEAST) -> list[Any]:
    """The hypotheses with enough weight, with weights that sum to one."""
    kept = [(one, float(share)) for one, share in weighted]
    least = min(least, max(share for _, share in kept))
    kept = [(one, share) for one, share in kept if share >= least]
    total = sum(share for _, share in kept)
    return [(one, share / total) for one, share in kept]
