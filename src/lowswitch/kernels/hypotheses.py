"""Hypotheses about the prior, each with its evidence, for the models that judge a proposal.

A plan needs one prior, and `evidence.believe` takes the best one. A judgement must not treat that
prior as known. It must also doubt what a plan may hope for: that all steps are alike, that a law
seen twice is known, and that a reward never seen is large.
"""

import math

import numpy as np

from lowswitch.kernels.compile import allocating, inline, part
from lowswitch.kernels.evidence import (
    beta_evidence,
    is_usual,
    lifted,
    listed_laws,
    log_rising,
    others_reward,
    pulled_mass,
    row_prior,
    size_at,
    size_evidence,
    typical_reward,
)
from lowswitch.kernels.posterior_mean import expected_next, expected_reward, sum_of_all

_ROUNDS = 12  # of the EM algorithm
_HALVINGS = 40  # of an interval in which a number is searched


@part
def kinship(kin, others):
    """The weight of a visit at another step, if there are `others` such visits.

    kin / (kin + others): the prior of a law is centred on the other steps. Its mass is at most
    `kin`, and at most their number (a power prior: Ibrahim, Chen 2000).
    """
    return 1.0 if kin == np.inf else kin / (kin + others + 1e-300)


@allocating
def kindred_laws(spec, apart, together, kin):
    """The laws of each step, in which visits at the other steps count in part."""
    cells, rows, used = spec.S * spec.A, len(apart.n), 0
    sizes = together.offsets[1:] - together.offsets[:-1]
    offsets, n, own = np.zeros(rows + 1, dtype=np.int64), apart.n.copy(), np.zeros(spec.S)
    room = sizes.sum() * (rows // cells)
    states, counts = np.zeros(room, dtype=np.int64), np.zeros(room)
    for row in range(rows):
        cell = row % cells
        share = kinship(kin, together.n[cell] - apart.n[row])
        for j in range(apart.offsets[row], apart.offsets[row + 1]):
            own[apart.states[j]] = apart.counts[j]
        for j in range(together.offsets[cell], together.offsets[cell + 1]):
            y = together.states[j]
            states[used], counts[used] = y, own[y] + share * (together.counts[j] - own[y])
            own[y] = 0.0
            used += 1
        n[row] += share * (together.n[cell] - apart.n[row])
        offsets[row + 1] = used
    return listed_laws(spec, apart.stride, offsets, states, counts, n)


@allocating
def kindred_evidence(spec, apart, kindred, mass, alike):
    """The log probability of each step's data, predicted from other steps and other actions.

    The prior of a law contains what `kindred` adds to the counts of its own step, and what
    `row_prior` says about the other actions of its state. It is a pseudo-likelihood (Besag 1975),
    since the others are predicted from this law too.
    """
    evidence, own, together = 0.0, np.zeros(spec.S), np.zeros(spec.S)
    for row in range(len(apart.n)):
        if apart.n[row] > 0.0:
            group = row // spec.A
            each, share = row_prior(spec, kindred, row, mass, alike)
            for j in range(kindred.all_offsets[group], kindred.all_offsets[group + 1]):
                together[kindred.all_states[j]] = kindred.all_counts[j]
            for j in range(kindred.offsets[row], kindred.offsets[row + 1]):
                own[kindred.states[j]] = kindred.counts[j]
            prior = each * spec.S + share * (kindred.all_n[group] - kindred.n[row])
            evidence -= log_rising(prior + kindred.n[row] - apart.n[row], apart.n[row])
            for j in range(apart.offsets[row], apart.offsets[row + 1]):
                y, count = apart.states[j], apart.counts[j]
                prior = each + share * (together[y] - own[y]) + own[y] - count
                evidence += log_rising(prior, count)
    return evidence


@allocating
def learned_sizes(spec, laws, each):
    """How many successors a law may have, as log probabilities, and the evidence with them.

    The EM algorithm learns them (Dempster, Laird, Rubin 1977). Each size starts with one extra row
    and keeps it.
    """
    tried = 1
    while size_at(spec.S, tried - 1) < spec.S:
        tried += 1
    shares, counted = np.full(tried, 1.0 / tried), np.zeros(tried)
    scores, evidence = np.zeros(tried), 0.0
    for _ in range(_ROUNDS):
        counted[:], evidence = 1.0 / tried, 0.0
        for row in range(len(laws.n)):
            n, listed = laws.n[row], laws.offsets[row + 1] - laws.offsets[row]
            if n > 0.0:
                for i in range(tried):
                    likely = size_evidence(spec.S, size_at(spec.S, i), each, listed, n)
                    scores[i] = math.log(shares[i]) + likely
                most = scores.max()
                total = np.exp(scores - most).sum()
                evidence += most + math.log(total)
                counted += np.exp(scores - most) / total
        shares = counted / counted.sum()
    for row in range(len(laws.n)):
        for j in range(laws.offsets[row], laws.offsets[row + 1]):
            evidence += log_rising(each, laws.counts[j])
    return np.log(shares), evidence


@allocating
def sizes_by_row(spec, laws, shares, each):
    """How many successors each law may have given its data, as log probabilities [rows, n] up to a
    constant; `shares` [n] apply to any law.
    """
    found = np.zeros((len(laws.n), len(shares)))
    for row in range(len(laws.n)):
        listed = laws.offsets[row + 1] - laws.offsets[row]
        for i in range(len(shares)):
            likely = size_evidence(spec.S, size_at(spec.S, i), each, listed, laws.n[row])
            found[row, i] = shares[i] + likely
    return found


@allocating
def values_of(spec, belief, policy):
    """The values [H, S] of a policy [H, S] in the mean model of a belief."""
    values = np.zeros((spec.H + 1, spec.S))
    typical = typical_reward(belief.rewards)
    for h in range(spec.H - 1, -1, -1):
        mean = values[h + 1].mean()
        for x in range(spec.S):
            i = x * spec.A + policy[h, x]
            q = expected_reward(spec, belief, h * belief.rewards.stride + i, typical)
            if h + 1 < spec.H:
                row = h * belief.laws.stride + i
                of_all = sum_of_all(belief.laws, row // spec.A, values[h + 1])
                q += expected_next(spec, belief, row, values[h + 1], mean, of_all)
            values[h, x] = q
    return values[: spec.H]


@allocating
def likelier(S, pull, sizes):
    """How much likelier each state is among the successors of a law with a pull [steps, S], as
    logarithms [steps, sizes, S], if there are as many successors as `size_at` says.

    A state is one of them with a probability of c pull / (1 + c pull), where c is such that these
    probabilities add up to the number of successors (Hajek 1964).
    """
    found = np.zeros((len(pull), sizes, S))
    for step in range(len(pull)):
        for i in range(sizes):
            size, low, high = size_at(S, i), -30.0, 30.0
            if size < S:
                for _ in range(_HALVINGS):
                    middle, total = (low + high) / 2.0, 0.0
                    for y in range(S):
                        odds = math.exp(middle) * pull[step, y]
                        total += odds / (1.0 + odds)
                    low, high = (low, middle) if total > size else (middle, high)
                for y in range(S):
                    odds = math.exp(low) * pull[step, y]
                    found[step, i, y] = math.log(odds / (1.0 + odds) * S / size)
    return found


@inline
def log_sum(a, b):
    """The logarithm of exp(a) + exp(b)."""
    most = max(a, b)
    return most + math.log(math.exp(a - most) + math.exp(b - most)) if most > -np.inf else most


@part
def pulled_size_evidence(belief, row, table):
    """The log probability of a row's successors with a pull, over the probability without it."""
    laws, pulled, plain = belief.laws, -np.inf, -np.inf
    for i in range(belief.sizes.shape[1]):
        score = belief.sizes[row, i]
        if score > -np.inf:
            plain = log_sum(plain, score)
            for j in range(laws.offsets[row], laws.offsets[row + 1]):
                score += table[i, laws.states[j]]
            pulled = log_sum(pulled, score)
    return pulled - plain


@part
def pulled_alike_evidence(spec, belief, row, pull, counted):
    """The same for a row whose prior is that of its state; `counted` [S] is room."""
    laws, group, found = belief.laws, row // spec.A, 0.0
    each, share = row_prior(spec, laws, row, belief.mass, belief.alike)
    if share == 0.0:
        return found
    scale = belief.alike / pulled_mass(spec, laws, row, each, share, pull)
    for j in range(laws.all_offsets[group], laws.all_offsets[group + 1]):
        counted[laws.all_states[j]] = laws.all_counts[j]
    for j in range(laws.offsets[row], laws.offsets[row + 1]):
        y, n = laws.states[j], laws.counts[j]
        prior = each + share * (counted[y] - n)
        found += log_rising(scale * pull[y] * prior, n) - log_rising(prior, n)
    return found


@allocating
def pull_evidence(spec, belief, own, table):
    """How much more probable the laws of a belief are with its pull than without, as a logarithm.

    own: how many visits [rows] belong to a row itself. If visits at other steps count, too, these
    say the same there, so each row counts by the share of its own ones. table: from `likelier`.
    """
    laws, evidence, counted = belief.laws, 0.0, np.zeros(spec.S)
    for row in range(len(laws.n)):
        if own[row] > 0.0 and not belief.led[row]:
            step = row // (spec.S * spec.A)
            if belief.alike > 0.0:
                pull = belief.pull[step]
                found = pulled_alike_evidence(spec, belief, row, pull, counted)
            else:
                found = pulled_size_evidence(belief, row, table[step])
            evidence += found * min(1.0, own[row] / laws.n[row])
    return evidence


@inline
def doubted_mass(rewards, row, A, mass):
    """The prior mass of a row, centred on the mean of other rewards, and at most their number.

    The mean is not known better than that. 1 / (1 / mass + 1 / others): the variance of the row
    around the mean and the variance of the mean add up.
    """
    others = rewards.all_n[row // A] - rewards.n[row] + 1.0
    return mass * others / (mass + others)


@allocating
def doubted_reward_evidence(rewards, A, mass, counts, lift):
    """The log probability of rewards that vary: `noisy_reward_evidence` with doubted masses.

    counts: as how many rewards of 0 and 1 each of them counts. lift: the log odds by which a
    state's other actions are predicted above its usual one.
    """
    evidence, typical = 0.0, typical_reward(rewards)
    for row in range(len(rewards.n)):
        n = rewards.n[row]
        if n > 0.0:
            seen = min(1.0, max(0.0, rewards.total[row] / n))
            prior = doubted_mass(rewards, row, A, mass)
            mean = others_reward(rewards, row, A, typical)
            if lift != 0.0 and rewards.all_n[row // A] > n:
                mean = lifted(mean, -lift if is_usual(rewards, row, A) else lift)
            evidence += beta_evidence(prior, mean, counts * n * seen, counts * n * (1.0 - seen))
    return evidence


@allocating
def chosen_reward_evidence(rewards, chosen, A, mass, counts, lift):
    """The same, if somebody chose the usual actions, of which a state may have several.

    The others are predicted above all of them, and so the mean that predicts a row is one of usual
    actions, to which each other action of the state adds its own mean, lowered by the lift.
    """
    evidence, typical = 0.0, typical_reward(rewards)
    for row in range(len(rewards.n)):
        n = rewards.n[row]
        if n > 0.0:
            seen, total, others, first = rewards.total[row] / n, typical, 1.0, row - row % A
            for other in range(first, first + A):
                m = rewards.n[other]
                if other != row and m > 0.0:
                    mean = min(1.0, max(0.0, rewards.total[other] / m))
                    total += m * (mean if chosen[other] else lifted(mean, -lift))
                    others += m
            mean = min(0.999, max(0.001, total / others))
            if not chosen[row]:
                mean = lifted(mean, lift)
            prior, seen = doubted_mass(rewards, row, A, mass), min(1.0, max(0.0, seen))
            evidence += beta_evidence(prior, mean, counts * n * seen, counts * n * (1.0 - seen))
    return evidence
