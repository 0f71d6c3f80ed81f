"""The exact price of few changes: one level of the recursion over all beliefs.

A belief about Bernoulli arms is the successes and failures of each arm. At level t, after t pulls,
the failures of the last arm follow from the rest, so a belief is a point of a simplex of 2 A - 1
coordinates, which `exact/simplex.py` numbers. The coordinates before the last one are a *lead*; the
beliefs of a lead lie side by side.

Values have an entry for each number of changes left. One more entry, the last, lets every episode
change for free.
"""

from __future__ import annotations

from lowswitch.kernels.compile import entry, inline


@inline
def best_of(values, left, place):
    """The best choice's value at a belief; values [N + 2, choices, beliefs]."""
    best = values[left, 0, place]
    for choice in range(1, values.shape[1]):
        best = max(best, values[left, choice, place])
    return best


@inline
def go_on(values, left, choice, place):
    """The value of keeping a choice, or of changing it if that is still allowed."""
    if left == values.shape[0] - 1:
        return best_of(values, left, place)
    stay = values[left, choice, place]
    return stay if left == 0 else max(stay, best_of(values, left - 1, place))


@entry
def pull_level(t, leads, bases, further, prior, later, now):
    """The values of all beliefs after t pulls from the values after t + 1 pulls.

    leads [L, 2 A - 2]; bases [L], the place of each lead's first belief; further [L, 2 A - 2], the
    base after one more of a coordinate; prior [A, 2]. later, now [N + 2, A, beliefs]: the expected
    further reward if an arm is pulled next.
    """
    A = now.shape[1]
    for lead in range(len(leads)):
        rest = t
        for i in range(leads.shape[1]):
            rest -= leads[lead, i]
        for z in range(rest + 1):
            place = bases[lead] + z
            for a in range(A):
                if a < A - 1:
                    won, lost = leads[lead, 2 * a], leads[lead, 2 * a + 1]
                    up, down = further[lead, 2 * a] + z, further[lead, 2 * a + 1] + z
                else:
                    won, lost, up, down = z, rest - z, place + 1, place
                p = (prior[a, 0] + won) / (prior[a, 0] + prior[a, 1] + (won + lost))
                for left in range(now.shape[0]):
                    good, bad = go_on(later, left, a, up), go_on(later, left, a, down)
                    now[left, a, place] = p * (1.0 + good) + (1.0 - p) * bad


@entry
def step_back(t, pulls, leads, bases, further, prior, expected):
    """Replace `expected` by what each belief after t pulls expects after the batch, from one level
    later.

    Two arms. expected [pulls + 1, beliefs], changed in place: the value at the end of the batch if
    `first` of its pulls play the first arm.
    """
    for first in range(pulls, -1, -1):
        for lead in range(len(leads)):
            won, lost = leads[lead, 0], leads[lead, 1]
            rest = t - won - lost
            for z in range(rest + 1):
                place = bases[lead] + z
                if first > 0:
                    p = (prior[0, 0] + won) / (prior[0, 0] + prior[0, 1] + (won + lost))
                    good = expected[first - 1, further[lead, 0] + z]
                    bad = expected[first - 1, further[lead, 1] + z]
                else:
                    p = (prior[1, 0] + z) / (prior[1, 0] + prior[1, 1] + rest)
                    good, bad = expected[0, place + 1], expected[0, place]
                expected[first, place] = p * good + (1.0 - p) * bad


@entry
def choose_batch(t, pulls, leads, bases, prior, expected, weights, best):
    """Raise `best` [beliefs] to the value of the best batch that begins at level t.

    weights [choices, pulls + 1]: the probability of each number of pulls of the first arm.
    """
    for lead in range(len(leads)):
        won, lost = leads[lead, 0], leads[lead, 1]
        rest = t - won - lost
        mean = (prior[0, 0] + won) / (prior[0, 0] + prior[0, 1] + (won + lost))
        for z in range(rest + 1):
            place = bases[lead] + z
            other = (prior[1, 0] + z) / (prior[1, 0] + prior[1, 1] + rest)
            for choice in range(len(weights)):
                value = 0.0
                for first in range(pulls + 1):
                    if weights[choice, first] > 0.0:
                        paid = first * mean + (pulls - first) * other
                        value += weights[choice, first] * (paid + expected[first, place])
                best[place] = max(best[place], value)


# ---- small MDPs: a belief is a code, the counts of all transitions side by side ------------------


@inline
def find(code, codes):
    """The place of a code among sorted codes."""
    low, high = 0, len(codes)
    while high - low > 1:
        middle = (low + high) // 2
        if codes[middle] <= code:
            low = middle
        else:
            high = middle
    return low


@inline
def path_probability(code, path, paths, prior, bits):
    """The predictive probability of a path; each of its steps updates the belief for the next.

    paths [J, H, 2] has the row (state and action) and the successor of each step; prior [rows, S].
    """
    probability, S = 1.0, prior.shape[1]
    for h in range(paths.shape[1]):
        row, successor = paths[path, h, 0], paths[path, h, 1]
        total, hits = 0.0, 0.0
        for x in range(S):
            seen = prior[row, x] + ((code >> ((row * S + x) * bits)) & ((1 << bits) - 1))
            for earlier in range(h):
                if paths[path, earlier, 0] == row and paths[path, earlier, 1] == x:
                    seen += 1.0
            total += seen
            if x == successor:
                hits = seen
        probability *= hits / total
    return probability


@entry
def episode_level(codes, later_codes, steps, paths, paid, followers, prior, bits, later, now):
    """The values of all beliefs before an episode from the values after it.

    codes, later_codes: sorted. steps [J]: what a path adds to a code. paid [J]: its return.
    followers [J, n]: the policies that may take it. later, now [N + 2, policies, beliefs]; `now` is
    zero at first.
    """
    for place in range(len(codes)):
        for path in range(len(paths)):
            p = path_probability(codes[place], path, paths, prior, bits)
            after = find(codes[place] + steps[path], later_codes)
            for i in range(followers.shape[1]):
                policy = followers[path, i]
                for left in range(now.shape[0]):
                    value = paid[path] + go_on(later, left, policy, after)
                    now[left, policy, place] += p * value


@entry
def batch_level(codes, later_codes, steps, paths, followers, prior, bits, later, now):
    """The expectation after one more episode by each policy: later, now [policies, beliefs]."""
    for place in range(len(codes)):
        for path in range(len(paths)):
            p = path_probability(codes[place], path, paths, prior, bits)
            after = find(codes[place] + steps[path], later_codes)
            for i in range(followers.shape[1]):
                policy = followers[path, i]
                now[policy, place] += p * later[policy, after]
