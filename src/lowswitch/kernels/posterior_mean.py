"""Plans on the posterior mean that use only tried actions."""

import math

import numpy as np

from lowswitch.kernels.compile import allocating_part, inline, part
from lowswitch.kernels.evidence import others_reward, row_prior, typical_reward
from lowswitch.kernels.qlearning import best_action
from lowswitch.kernels.sums import mean_of, sum_of, weighted_sum


@inline
def expected_reward(spec, belief, row, typical):
    """The posterior mean of a reward; for a row never visited, the mean of all rewards."""
    rewards, n = belief.rewards, belief.rewards.n[row]
    if n == 0.0:
        return typical
    if not belief.noisy:
        return rewards.total[row] / n
    prior = others_reward(rewards, row, spec.A, typical) if belief.by_state else 0.5
    return (belief.reward_mass * prior + rewards.total[row]) / (belief.reward_mass + n)


@inline
def sum_of_all(laws, group, values):
    """The sum of the next values seen in a state, over all of its actions."""
    total = 0.0
    for j in range(laws.all_offsets[group], laws.all_offsets[group + 1]):
        total += laws.all_counts[j] * values[laws.all_states[j]]
    return total


@inline
def expected_next(spec, belief, row, values, mean, of_all):
    """The posterior mean of the next value; `of_all` is the sum over the row's state."""
    laws, seen = belief.laws, 0.0
    for j in range(laws.offsets[row], laws.offsets[row + 1]):
        seen += laws.counts[j] * values[laws.states[j]]
    each, share = row_prior(spec, laws, row, belief.mass, belief.alike)
    others = laws.all_n[row // spec.A] - laws.n[row]
    n = each * spec.S + share * others + laws.n[row]
    return (each * spec.S * mean + share * (of_all - seen) + seen) / n


@inline
def was_tried(spec, tables, h, x, a, anywhere):
    """Whether an action was ever played in a row, or in its state if steps are pooled."""
    i = x * spec.A + a
    if spec.stride == 0:
        return tables.cells[i]["visits"] > 0
    if not anywhere:
        return tables.visits[h * spec.stride + i] > 0
    tried = False
    for other in range(spec.H):
        tried = tried or tables.visits[other * spec.stride + i] > 0
    return tried


@part
def may_exploit(spec, tables, belief, h, x, choices):
    """Mark the actions that the last policy may play in a row; return whether there are any.

    These are the actions tried in the row. In a row that was never visited, or if steps count as
    alike and nobody chose the initial policy, they are the actions tried in its state at any step.
    """
    alike = spec.rule > 1 and belief.laws.stride == 0 and belief.rewards.stride == 0
    alike = alike and not tables.chosen[0]
    for look in range(2):
        found, anywhere = False, alike or look == 1
        for a in range(spec.A):
            allowed = spec.allowed[(h * spec.S + x) * spec.A + a]
            choices[a] = allowed and was_tried(spec, tables, h, x, a, anywhere)
            found = found or choices[a]
        if found:
            return True
    return False


@inline
def expected_value(spec, belief, h, i, ahead, means, of_all, typical):
    """The posterior mean of the value of cell i at step h, and its squared standard error.

    `ahead` are the next values and their squares, `means` the means of both over all states, and
    `of_all` their sums over the successors of the cell's state.
    """
    row = h * belief.rewards.stride + i
    q, n = expected_reward(spec, belief, row, typical), belief.rewards.n[row]
    error = belief.share * q * (1.0 - q) / (1.0 + n) if belief.noisy else 0.0
    if h + 1 < spec.H:
        row = h * belief.laws.stride + i
        mean = expected_next(spec, belief, row, ahead[0], means[0], of_all[0])
        squares = expected_next(spec, belief, row, ahead[1], means[1], of_all[1])
        error += max(0.0, squares - mean * mean) / (1.0 + belief.laws.n[row])
        q += mean
    return q, error


@inline
def first_action(spec, tables, here):
    """The initial policy's action in a row, or the deployed one if that was forbidden since."""
    action = tables.initial[here]
    return action if spec.allowed[here * spec.A + action] else tables.policy[here]


@inline
def best_known(spec, choices, q, error, start, deployed, caution):
    """The best action that may be chosen, and its value; other estimates become -inf.

    With a `caution` of at least 0, the action of the initial policy stays unless another one is
    better by `caution` standard errors. The incumbent is the deployed action of the first member.
    """
    kept = caution >= 0.0 and choices[start]
    for a in range(spec.A):
        needed = -np.inf
        if choices[a] and kept and a != start:
            needed = q[start] + caution * math.sqrt(error[a] + error[start])
        if not (choices[a] and q[a] > needed):
            q[a] = -np.inf
    action = best_action(q, 0, spec.A, deployed)
    return action, q[action]


@inline
def sums_of_state(spec, belief, h, x, ahead, of_all):
    """Write the sums of a state's next values and of their squares, over all its actions."""
    if belief.alike > 0.0 and h + 1 < spec.H:
        group = h * belief.laws.stride // spec.A + x
        for moment in range(2):
            of_all[moment] = sum_of_all(belief.laws, group, ahead[moment])


@part
def start_counts(spec, tables, weights):
    """Write how often each state began an episode; without episodes, all states count alike."""
    for x in range(spec.S):
        for a in range(spec.A):
            weights[x] += tables.visits[x * spec.A + a]
    if sum_of(weights) == 0.0:
        weights[:] = 1.0


@allocating_part
def plan_on_mean(spec, tables, belief, caution, last, first):
    """Write the best policy for the posterior mean among tried actions into `last`.

    If nothing was tried, it is the initial policy. If a user chose the initial policy, its actions
    count as tried, because it was played before the run, and `caution` is at least 0. `first`
    receives the policy to compare with: the initial policy, except in rows where its action was
    never tried and another one was. There nothing is known about its action, and `first` equals
    `last`.
    """
    typical, ahead = typical_reward(belief.rewards), np.zeros((2, spec.S))  # values, squares
    choices, q, error = np.zeros(spec.A, dtype=np.bool_), np.zeros(spec.A), np.zeros(spec.A)
    for h in range(spec.H - 1, -1, -1):
        new, means, of_all = np.zeros((2, spec.S)), np.zeros(2), np.zeros(2)
        for moment in range(2):
            means[moment] = mean_of(ahead[moment])
        for x in range(spec.S):
            here, start = h * spec.S + x, first_action(spec, tables, h * spec.S + x)
            tried = may_exploit(spec, tables, belief, h, x, choices)
            if not tried or caution >= 0.0:
                choices[start] = True
            sums_of_state(spec, belief, h, x, ahead, of_all)
            for a in range(spec.A):
                if choices[a]:
                    i = x * spec.A + a
                    found = expected_value(spec, belief, h, i, ahead, means, of_all, typical)
                    q[a], error[a] = found
            deployed = tables.policy[here]
            last[here], best = best_known(spec, choices, q, error, start, deployed, caution)
            first[here] = start if choices[start] else last[here]
            new[0, x], new[1, x] = best, best * best
        ahead = new


@allocating_part
def value_on_mean(spec, tables, belief, policy):
    """The value of a policy for the posterior mean, over the states in which episodes began."""
    typical, ahead = typical_reward(belief.rewards), np.zeros((2, spec.S))  # values, squares
    for h in range(spec.H - 1, -1, -1):
        new, means, of_all = np.zeros((2, spec.S)), np.zeros(2), np.zeros(2)
        for moment in range(2):
            means[moment] = mean_of(ahead[moment])
        for x in range(spec.S):
            sums_of_state(spec, belief, h, x, ahead, of_all)
            i = x * spec.A + policy[h * spec.S + x]
            q, _ = expected_value(spec, belief, h, i, ahead, means, of_all, typical)
            new[0, x], new[1, x] = q, q * q
        ahead = new
    weights = np.zeros(spec.S)
    start_counts(spec, tables, weights)
    return weighted_sum(weights, ahead[0]) / sum_of(weights)
