"""The bandit algorithms in plain Python, written from their papers: one pull at a time, counts in
lists.
"""

import functools
import math

from lowswitch.kernels.streams import stream_key


@functools.cache
def powers(alpha, size):
    """tau(0) .. tau(size - 1) in integers: alpha is a fraction whose denominator is a power of
    two.
    """
    numerator, denominator = alpha.as_integer_ratio()
    bits, power = denominator.bit_length() - 1, 1
    taus = []
    for r in range(size):
        taus.append(-(-power >> (bits * r)))
        power *= numerator + denominator
    return taus


class Stream:
    """SplitMix64 in whole numbers; a number of a stream may be the key of another."""

    def __init__(self, key):
        self.key = int(key)

    def bits(self, i):
        z = (self.key + i * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    def uniform(self, i):
        return (self.bits(i) >> 11) / 2**53

    def stream(self, i):
        return Stream(self.bits(i))


class Book:
    """Arms that write down what is played, with the noise of one seed, and when a batch begins."""

    def __init__(self, means, pulls, seed):
        self.means, self.left, self.noise = means, pulls, Stream(stream_key(seed))
        self.played, self.begins = [], []
        self.count, self.total = [0] * len(means), [0] * len(means)

    def play(self, j):
        self.total[j] += self.noise.uniform(len(self.played)) < self.means[j]
        self.count[j] += 1
        self.played.append(j)
        self.left -= 1

    def begin(self):
        self.begins.append(len(self.played))

    def play_blocks(self, quotas):
        """Each arm in one block, the one played last first."""
        for j in sorted(range(len(quotas)), key=lambda j: (self.played[-1:] != [j], j)):
            for _ in range(quotas[j]):
                self.play(j)

    def best(self, values):
        """The arm with the largest value: the incumbent if it is among the best, else the
        lowest.
        """
        incumbent, most = self.played[-1], max(values.values())
        return (
            incumbent
            if values.get(incumbent) == most
            else min(j for j, value in values.items() if value == most)
        )

    def best_index(self, widths):
        return self.best(
            {j: self.total[j] / self.count[j] + width for j, width in enumerate(widths)}
        )


def ucb1_by_the_book(means, pulls, seed):
    book = Book(means, pulls, seed)
    book.begin()
    for j in range(len(means)):
        book.play(j)
    while book.left:
        n = len(book.played)
        book.begin()
        book.play(book.best_index([math.sqrt(2 * math.log(n) / n_j) for n_j in book.count]))
    return book


def ucb2_by_the_book(means, pulls, seed, alpha):
    tau, book, r = (
        powers(alpha, 8000 if alpha < 0.01 else 80),
        Book(means, pulls, seed),
        [0] * len(means),
    )
    book.begin()
    for j in range(len(means)):
        book.play(j)
    while book.left:
        n = len(book.played)
        j = book.best_index(
            [math.sqrt((1 + alpha) * math.log(math.e * n / tau[r_j]) / (2 * tau[r_j])) for r_j in r]
        )
        length = min(book.left, tau[r[j] + 1] - tau[r[j]])  # often none at all
        if length:
            book.begin()
        for _ in range(length):
            book.play(j)
        r[j] += 1
    return book


def equal_quotas(count, active, size):
    """Pulls one by one to the active arm that has the fewest."""
    quotas = [0] * len(count)
    for _ in range(size):
        quotas[min(active, key=lambda j: (count[j] + quotas[j], j))] += 1
    return quotas


def on_a_grid_by_the_book(means, pulls, seed, ends, dropped):
    """Gao et al. 2019, Algorithm 1, with any rule for which of the active arms are dropped, given
    means and fewest pulls.
    """
    book, active = Book(means, pulls, seed), list(range(len(means)))
    for end in ends[:-1]:
        book.begin()
        book.play_blocks(equal_quotas(book.count, active, end - len(book.played)))
        fewest = min(book.count[j] for j in active)
        if fewest:
            means_seen = {j: book.total[j] / book.count[j] for j in active}
            active = [
                j for j in active if not dropped(max(means_seen.values()) - means_seen[j], fewest)
            ]
        if len(active) == 1:
            break
    book.begin()
    best = book.best({j: book.total[j] / book.count[j] for j in active})
    while book.left:
        book.play(best)
    return book


def base_by_the_book(means, pulls, seed, ends, gamma):
    def dropped(gap, tau):
        return gap >= math.sqrt(gamma * math.log(pulls * len(means)) / tau)

    return on_a_grid_by_the_book(means, pulls, seed, ends, dropped)


def commit_by_the_book(means, pulls, seed, ends, c):
    def dropped(gap, s):
        width = c * 2 * math.sqrt(2 * math.log(2 * pulls / s) / s)
        return gap > 2 * width

    return on_a_grid_by_the_book(means, pulls, seed, ends, dropped)


def log_log_by_the_book(means, pulls, seed, ends, p):
    book, active = Book(means, pulls, seed), list(range(len(means)))
    for end in ends:
        book.begin()
        if len(active) == 1:
            end = pulls
        quotas = equal_quotas([0] * len(means), active, end - len(book.played))
        before = book.total.copy()
        book.play_blocks(quotas)
        if end == pulls:
            break
        fewest = min(quotas[j] for j in active)
        if fewest:
            seen = {j: (book.total[j] - before[j]) / quotas[j] for j in active}
            width = math.sqrt(math.log(2 * len(means) * len(ends) / p) / (2 * fewest))
            active = [j for j in active if not max(seen.values()) - seen[j] > 2 * width]
    return book


def gamma(shape, stream):
    """Marsaglia, Tsang 2000, section 3: (1) x normal, (2) v = (1 + c x)^3, (3) accept or try
    again.
    """
    d = shape - 1 / 3
    c, i = 1 / math.sqrt(9 * d), 0
    while True:
        x = math.sqrt(-2 * math.log(1 - stream.uniform(i))) * math.cos(
            2 * math.pi * stream.uniform(i + 1)
        )
        v, u = (1 + c * x) * (1 + c * x) * (1 + c * x), 1 - stream.uniform(i + 2)
        if v > 0 and math.log(u) < x * x / 2 + d - d * v + d * math.log(v):
            return d * v
        i += 3


def beta(x, y, stream):
    first = gamma(x, stream.stream(0))
    return first / (first + gamma(y, stream.stream(1)))


def thompson_by_the_book(means, pulls, seed):
    """Karbasi et al. 2021, Algorithm 1, its batch a list; the posterior is that of the last
    query.
    """
    book, arms, exponent = Book(means, pulls, seed), range(len(means)), [0] * len(means)
    draws, t = Stream(stream_key(seed + 2**63)), 0
    while t < pulls:
        book.begin()
        quotas, full = [0] * len(means), False
        while t < pulls and not full:
            samples = [
                beta(
                    1 + book.total[j],
                    1 + book.count[j] - book.total[j],
                    draws.stream(t * len(means) + j),
                )
                for j in arms
            ]
            arm = samples.index(max(samples))
            quotas[arm] += 1
            t += 1
            full = book.count[arm] + quotas[arm] == 2 ** exponent[arm]
        exponent[arm] += full
        book.play_blocks(quotas)
    return book


def by_the_book(algorithm, means, pulls, seed):
    ends = algorithm.ends(len(means), pulls)
    match algorithm.name:
        case "ucb1":
            return ucb1_by_the_book(means, pulls, seed)
        case "ucb2":
            return ucb2_by_the_book(means, pulls, seed, algorithm.alpha)
        case "base":
            return base_by_the_book(means, pulls, seed, ends, algorithm.gamma)
        case "explore-then-commit":
            return commit_by_the_book(means, pulls, seed, ends, algorithm.c)
        case "log-log":
            return log_log_by_the_book(means, pulls, seed, ends, algorithm.p)
        case "batched-thompson":
            return thompson_by_the_book(means, pulls, seed)
