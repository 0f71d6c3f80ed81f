"""The families of problems that `evidence.py` runs ledgers on, in six sets.

`FIRST` are those on which rule 4 of the evidence was chosen. `SECOND` were written down after that,
before anything had been run on them. Rule 4 failed there, so rule 5 was chosen on both. `REPORTED`
were written down before rule 5 had been run on them, and nothing was chosen on them: they say how
far it holds elsewhere. `FOURTH` were written to break rule 5, and rules 6 and 7 were chosen on
them. Each of these sets has other generators, sizes, laws of rewards, numbers of patients and
dates, and kinds that the sets before it do not have. `FIFTH` are problems of the third set in which
the policy in use is good; they were written down before rule 7 had been run on them, and nothing
was chosen on them. Rule 8 was chosen on the fourth set and on `SIXTH`: problems of the first two
sets in which the policy in use is good, and two kinds more, in which an action matters by where it
leads.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import lowswitch as ls

EQUAL = "all equal"  # how the name of a family begins whose treatments do not differ


def yes_or_no(mean, uniform):
    """A reward of 0 or 1."""
    return float(uniform < mean)


def exact(mean, uniform):
    """The mean reward itself."""
    return float(mean)


def spread(mean, uniform):
    """A reward as far around its mean as 0 and 1 allow."""
    return float(mean + (2 * uniform - 1) * min(mean, 1 - mean))


def heavy_tailed(mean, uniform):
    """A reward that is mostly near 0, and sometimes near 1."""
    return float(uniform ** ((1 - mean) / mean))


class Family(NamedTuple):
    """Problems that are drawn, how their rewards are, and who comes before each meeting.

    usual: the policy in use before the run. "drawn" is a random one, in every second run; "best",
    "nearly" (the best one, with random actions in 15 % of the rows) and "lowest" (the first action
    everywhere) are there in all runs.
    """

    make: Callable
    patients: tuple[int, ...] = (100,) * 6  # before each meeting
    members: int = 16
    reward: Callable = yes_or_no
    usual: str = "drawn"


def problem(laws, means, start, horizon):
    """A problem whose rewards a `Family` draws."""
    return ls.TabularMDP(laws, means, start=start, horizon=horizon, reward_law="bernoulli")


def uniform_start(S):
    """Any state, with the same probability."""
    return np.full(S, 1 / S)


def tables(mdp):
    """The laws [H, S, A, S] and the mean rewards [H, S, A] of a problem."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    rows = np.zeros((len(mdp.offsets) - 1, S))
    for row in range(len(rows)):
        span = slice(mdp.offsets[row], mdp.offsets[row + 1])
        rows[row, mdp.successors[span]] = mdp.probabilities[span]
    laws = np.broadcast_to(rows.reshape(-1, S, A, S), (H, S, A, S))
    return laws, np.broadcast_to(mdp.rewards.reshape(-1, S, A), (H, S, A))


# ---- the first set -------------------------------------------------------------------------------


def clinic(generator, S=8, A=3, H=4, *, steps=1, at_the_end=False, equal=False):
    """States of health: a treatment moves a patient up or down, and further up is better."""
    laws, means = np.zeros((steps, S, A, S)), np.tile((np.arange(S) / (S - 1))[:, None], A)
    for law in laws:
        helps = generator.random((S, 1 if equal else A)) * np.ones(A)
        up, down = 0.15 + 0.5 * helps, (0.6 - 0.5 * helps) * (0.85 - 0.5 * helps)
        for x in range(S):
            for move, chance in ((1, up[x]), (-1, down[x]), (0, 1 - up[x] - down[x])):
                law[x, :, min(S - 1, max(0, x + move))] += chance
    rewards = np.stack([means * (h == H - 1) for h in range(H)]) if at_the_end else means
    return problem(laws if steps > 1 else laws[0], rewards, uniform_start(S), H)


def grid(generator, rows=3, columns=3, H=5):
    """Steps slip, and two fields pay."""
    S, slip, moves = rows * columns, generator.uniform(0.1, 0.3), ((0, 1), (0, -1), (1, 0), (-1, 0))
    laws, means = np.zeros((S, 4, S)), np.zeros((S, 4))
    for x in range(S):
        for a in range(4):
            for m, (down, right) in enumerate(moves):
                r = min(rows - 1, max(0, x // columns + down))
                c = min(columns - 1, max(0, x % columns + right))
                laws[x, a, r * columns + c] += slip / 4 + (1 - slip) * (m == a)
    means[generator.choice(S, 2, replace=False)] = generator.random((2, 1))
    return problem(laws, means, 0, H)


def garnet(generator, S=9, A=3, H=4, branching=3):
    """Archibald, McKinnon, Thomas 1995: a few random successors of each state and action."""
    laws = np.zeros((S, A, S))
    for x in range(S):
        for a in range(A):
            chosen = generator.choice(S, branching, replace=False)
            laws[x, a, chosen] = generator.dirichlet(np.ones(branching))
    return problem(laws, generator.random((S, A)), uniform_start(S), H)


FIRST = {
    "clinics": Family(clinic),
    "laws by step": Family(lambda generator: clinic(generator, S=6, steps=4)),
    "paid at the end": Family(lambda generator: clinic(generator, S=7, at_the_end=True)),
    "Garnets": Family(garnet),
    "grids": Family(grid),
    EQUAL: Family(lambda generator: clinic(generator, equal=True)),
}


# ---- the second set ------------------------------------------------------------------------------


def cures(generator, S=6, A=4, H=3):
    """A treatment may cure at once or be fatal; both are final. The rest drift to and fro."""
    well, dead = S - 1, 0
    laws, means = np.zeros((S, A, S)), np.zeros((S, A))
    laws[[well, dead], :, [well, dead]] = 1.0
    cure, harm = 0.5 * generator.random((S, A)) ** 2, 0.2 * generator.random((S, A))
    for x in range(1, well):
        for a in range(A):
            stays = generator.dirichlet(np.ones(S - 2)) * (1 - cure[x, a] - harm[x, a])
            laws[x, a, 1:well] += stays
            laws[x, a, well] += cure[x, a]
            laws[x, a, dead] += harm[x, a]
    means[1:well], means[well] = generator.uniform(0.2, 0.7, (S - 2, 1)), 0.95
    start = np.zeros(S)
    start[1:well] = 1 / (S - 2)
    return problem(laws, means, start, H)


def seasons(generator, S=5, A=2, H=6):
    """Every step has laws and rewards of its own, with all states as successors."""
    laws = generator.dirichlet(np.full(S, 0.6), size=(H, S, A))
    return problem(laws, generator.beta(2.0, 2.0, (H, S, A)), uniform_start(S), H)


def verdicts(generator, S=7, A=3, H=5):
    """Nothing is paid before the last step; then each state pays by a rate of its own."""
    laws, means = generator.dirichlet(np.full(S, 0.4), size=(S, A)), np.zeros((H, S, A))
    means[-1] = generator.random((S, 1))
    return problem(laws, means, 0, H)


def sparse_garnet(generator, S=14, A=5, H=3):
    """One or two successors each, one likelier than the other; a third of the cells pay."""
    laws = np.zeros((S, A, S))
    for x in range(S):
        for a in range(A):
            first, second = generator.choice(S, 2, replace=False)
            likely = generator.choice((1.0, generator.uniform(0.5, 0.95)))
            laws[x, a, first], laws[x, a, second] = likely, 1 - likely
    means = generator.random((S, A)) * (generator.random((S, A)) < 1 / 3)
    return problem(laws, means, uniform_start(S), H)


def maze(generator, rows=3, columns=4, H=7):
    """Moves never slip; some fields are walls, and every field pays a little, one of them much."""
    S, moves = rows * columns, ((0, 1), (1, 0), (0, -1), (-1, 0))
    wall = generator.random(S) < 0.15
    wall[0] = False
    laws, means = np.zeros((S, 4, S)), 0.3 * generator.random((S, 1)) * np.ones(4)
    means[generator.integers(S // 2, S)] = 0.9
    for x in range(S):
        for a, (down, right) in enumerate(moves):
            r, c = x // columns + down, x % columns + right
            free = 0 <= r < rows and 0 <= c < columns and not wall[r * columns + c]
            laws[x, a, r * columns + c if free else x] = 1.0
    return problem(laws, means, 0, H)


def bandit(generator, S=15, A=6, H=1):
    """One step: contexts of unequal frequency, and levels that actions share across them."""
    odds = generator.normal(scale=0.7, size=A) + generator.normal(scale=0.7, size=(S, A))
    laws = np.broadcast_to(generator.dirichlet(np.ones(S)), (S, A, S))
    return problem(laws, 1 / (1 + np.exp(-odds)), generator.dirichlet(np.full(S, 3.0)), H)


def inventory(generator, capacity=5, H=7):
    """Order up to a capacity; sales pay, orders and stock cost, demand is Poisson."""
    S, rate = capacity + 1, generator.uniform(1.0, 3.5)
    price, cost, hold = 1.0, generator.uniform(0.2, 0.8), generator.uniform(0.02, 0.3)
    demand = rate ** np.arange(30) / np.cumprod(np.maximum(np.arange(30), 1))
    demand /= demand.sum()
    laws, means = np.zeros((S, S, S)), np.zeros((S, S))
    for x in range(S):
        for a in range(S):
            stock = min(capacity, x + a)
            for wanted, chance in enumerate(demand):
                sold = min(stock, wanted)
                laws[x, a, stock - sold] += chance
                means[x, a] += chance * (price * sold - cost * (stock - x) - hold * (stock - sold))
    low, high = -(cost + hold) * capacity, price * capacity
    return problem(laws, (means - low) / (high - low), 0, H)


def river(generator, S=6, H=9):
    """Swim up a river with effort, or drift; a little is paid at the mouth, much at the source."""
    up, down = generator.uniform(0.35, 0.8), generator.uniform(0.02, 0.15)
    laws, means = np.zeros((S, 2, S)), np.zeros((S, 2))
    for x in range(S):
        laws[x, 0, max(0, x - 1)] = 1.0
        for move, chance in ((1, up), (-1, down), (0, 1 - up - down)):
            laws[x, 1, min(S - 1, max(0, x + move))] += chance
    means[0, 0], means[-1, 1] = generator.uniform(0.02, 0.3), generator.uniform(0.5, 1.0)
    return problem(laws, means, uniform_start(S), H)


def queue(generator, length=9, H=6):
    """Three speeds of a server: a faster one costs, and so does everybody who waits."""
    S, comes = length + 1, generator.uniform(0.3, 0.7)
    serves, costs = np.sort(generator.random(3)), np.sort(0.35 * generator.random(3))
    laws, means = np.zeros((S, 3, S)), np.zeros((S, 3))
    for x in range(S):
        for a in range(3):
            for arrived, p in ((1, comes), (0, 1 - comes)):
                for served, q in ((1, serves[a]), (0, 1 - serves[a])):
                    laws[x, a, min(length, max(0, x + arrived - served))] += p * q
        means[x] = 1 - costs - 0.6 * x / length
    return problem(laws, means, length // 2, H)


def rates(generator, low, high, S=8, A=3, H=3):
    """All mean rewards lie between two numbers; five successors each."""
    laws = np.zeros((S, A, S))
    for cell in laws.reshape(-1, S):
        cell[generator.choice(S, 5, replace=False)] = generator.dirichlet(np.ones(5))
    return problem(laws, generator.uniform(low, high, (S, A)), uniform_start(S), H)


def equal_actions(make):
    """Problems of a kind in which all actions are as good as their first one."""

    def made(generator):
        mdp = make(generator)
        laws, means = (np.repeat(of[:, :, :1], mdp.actions, axis=2) for of in tables(mdp))
        return problem(laws, means, mdp.start_law, mdp.horizon)

    return made


SECOND = {
    "cures": Family(cures, (60,) * 7, 16),
    "seasons": Family(seasons, (150,) * 5, 8),
    "verdicts": Family(verdicts, (80,) * 6, 32),
    "sparse Garnets": Family(sparse_garnet, (40, 80, 120, 160, 200, 240), 16, spread),
    "mazes": Family(maze, (50,) * 6, 16, exact),
    "bandits": Family(bandit, (200, 150, 100, 100, 50, 50, 50), 16),
    "inventories": Family(inventory, (30,) * 8, 8, spread),
    "rivers": Family(river, (70,) * 5, 16),
    "queues": Family(queue, (120, 60, 60, 60, 60), 32, exact),
    "near one": Family(lambda generator: rates(generator, 0.9, 1.0), (200,) * 6, 16),
    "near zero": Family(lambda generator: rates(generator, 0.0, 0.1, A=4, H=2), (250,) * 6, 16),
    f"{EQUAL}, bandits": Family(equal_actions(bandit), (100,) * 7, 16),
    f"{EQUAL}, sparse Garnets": Family(equal_actions(sparse_garnet), (80,) * 6, 16),
    f"{EQUAL}, seasons": Family(equal_actions(seasons), (150,) * 5, 8),
    f"{EQUAL}, verdicts": Family(equal_actions(verdicts), (60,) * 6, 32),
}


# ---- on which nothing was chosen -----------------------------------------------------------------


def wards(generator, levels=3, A=3, H=5):
    """Illness and side effects of three levels each; a treatment trades one for the other."""
    S = levels * levels
    laws, means = np.zeros((S, A, S)), np.zeros((S, A))
    better, worse = generator.uniform(0.1, 0.8, (levels, A)), generator.uniform(0.0, 0.6, (A,))
    for x in range(S):
        ill, effect = divmod(x, levels)
        for a in range(A):
            for step, p in ((-1, better[ill, a]), (1, 0.15 * (1 - better[ill, a]))):
                for more, q in ((1, worse[a]), (-1, 0.5 * (1 - worse[a]))):
                    y, z = np.clip((ill + step, effect + more), 0, levels - 1)
                    laws[x, a, y * levels + z] += p * q
            laws[x, a, x] += 1 - laws[x, a].sum()
        means[x] = 0.95 - 0.3 * ill - 0.12 * effect
    start = np.zeros(S)
    start[levels:] = 1 / (S - levels)
    return problem(laws, means, start, H)


def timetable(generator, S=6, A=3, H=4):
    """What an action does turns around from step to step, and every second step pays."""
    once = generator.dirichlet(np.full(S, 0.3), size=(S, A))
    laws = np.stack([np.roll(once, h, axis=1) for h in range(H)])
    means = np.stack([generator.random((S, A)) * (h % 2) for h in range(H)])
    return problem(laws, means, uniform_start(S), H)


def exams(generator, S=6, A=3, H=6):
    """Ways of learning raise a skill at different speeds; only the exam at the end counts."""
    gains, laws, means = (
        generator.uniform(0.05, 0.7, (S, A)),
        np.zeros((S, A, S)),
        np.zeros((H, S, A)),
    )
    for x in range(S):
        for a in range(A):
            laws[x, a, min(S - 1, x + 1)] += gains[x, a]
            laws[x, a, max(0, x - 1)] += 0.1 * (1 - gains[x, a])
            laws[x, a, x] += 0.9 * (1 - gains[x, a])
    means[-1] = np.sort(generator.random(S))[:, None]
    start = np.zeros(S)
    start[:3] = 1 / 3
    return problem(laws, means, start, H)


def extreme_garnet(generator, S=20, A=2, H=4):
    """Four successors each, and rewards that are mostly near 0 or near 1."""
    laws = np.zeros((S, A, S))
    for cell in laws.reshape(-1, S):
        cell[generator.choice(S, 4, replace=False)] = generator.dirichlet(np.full(4, 2.0))
    start = np.zeros(S)
    start[:8] = 1 / 8
    return problem(laws, generator.beta(0.5, 0.5, (S, A)), start, H)


def ice(generator, rows=3, columns=5, H=7):
    """Moves slide aside; holes end the walk, and so does the goal, which pays at every step."""
    S, slide, moves = (
        rows * columns,
        generator.uniform(0.0, 0.4),
        ((0, 1), (1, 0), (0, -1), (-1, 0)),
    )
    ends = generator.random(S) < 0.12
    goal = int(generator.integers(S // 3, S))
    ends[0], ends[goal] = False, True
    laws, means = np.zeros((S, 4, S)), np.full((S, 4), 0.1)
    for x in range(S):
        for a in range(4):
            for turn, chance in ((0, 1 - slide), (1, slide / 2), (3, slide / 2)):
                down, right = (0, 0) if ends[x] else moves[(a + turn) % 4]
                r = min(rows - 1, max(0, x // columns + down))
                c = min(columns - 1, max(0, x % columns + right))
                laws[x, a, r * columns + c] += chance
    means[ends], means[goal] = 0.02, 0.8
    return problem(laws, means, 0, H)


def advertisements(generator, S=8, A=9, H=1):
    """One step, many actions, low rates: a few actions are good everywhere, some by context."""
    rates = 0.05 + 0.1 * generator.random(A) + 0.3 * generator.random((S, A)) ** 3
    laws = np.full((S, A, S), 1 / S)
    return problem(laws, rates, generator.dirichlet(np.full(S, 2.0)), H)


def prices(generator, stock=6, H=6):
    """Sell a stock until the end at one of four prices; a higher one sells less often."""
    S, A = stock + 1, 4
    asked = np.sort(generator.uniform(0.2, 1.0, A))
    sells = np.sort(generator.uniform(0.1, 0.95, A))[::-1]
    laws, means = np.zeros((S, A, S)), np.zeros((S, A))
    for x in range(S):
        for a in range(A):
            laws[x, a, max(0, x - 1)] += sells[a]
            laws[x, a, x] += 1 - sells[a]
            means[x, a] = asked[a] * sells[a] if x else 0.0
    start = np.zeros(S)
    start[stock // 2 :] = 1 / (S - stock // 2)
    return problem(laws, means, start, H)


def ladder(generator, S=7, A=3, H=7):
    """In each state one action climbs, one waits, and one falls to the ground; which, is drawn."""
    laws, means = np.zeros((S, A, S)), np.zeros((S, A))
    slip = generator.uniform(0.0, 0.3)
    for x in range(S):
        for a, y in zip(generator.permutation(A), (min(S - 1, x + 1), x, 0), strict=True):
            laws[x, a, y] += 1 - slip
            laws[x, a, max(0, x - 1)] += slip
    means[:] = (np.arange(S)[:, None] / (S - 1)) ** 2
    return problem(laws, means, uniform_start(S), H)


def machines(generator, ages=7, H=8):
    """Run, repair or replace a machine that wears out; all of it costs, more or less."""
    wear, repair, price = (
        generator.uniform(0.2, 0.8),
        generator.uniform(0.2, 0.6),
        generator.random(),
    )
    laws, means = np.zeros((ages, 3, ages)), np.zeros((ages, 3))
    for x in range(ages):
        laws[x, 0, min(ages - 1, x + 1)] += wear
        laws[x, 0, x] += 1 - wear
        laws[x, 1, max(0, x - 2)] = 1.0
        laws[x, 2, 0] = 1.0
        works = 1.0 - 0.12 * x
        means[x] = works, max(0.0, works - repair), 0.4 * (1 - price)
    return problem(laws, means, 0, H)


def roads(generator, width=3, H=5):
    """A network in layers: each crossing has three roads on, whose tolls differ; nothing slips."""
    S = width * H
    laws, means = np.zeros((S, 3, S)), 1 - 0.9 * generator.random((S, 3))
    for x in range(S):
        layer = min(H - 1, x // width + 1)
        for a in range(3):
            laws[x, a, layer * width + generator.integers(width)] = 1.0
    start = np.zeros(S)
    start[:width] = 1 / width
    return problem(laws, means, start, H)


def doses(generator, S=5, A=6, H=2):
    """Ordered doses with one best dose in each state, around which the effect falls smoothly."""
    best, width = generator.uniform(0, A - 1, S), generator.uniform(1.0, 3.0)
    means = 0.15 + 0.75 * np.exp(-0.5 * ((np.arange(A) - best[:, None]) / width) ** 2)
    laws = np.full((S, A, S), 0.4 / S)
    for x in range(S):
        for a in range(A):
            laws[x, a, min(S - 1, x + 1)] += 0.6 * means[x, a]
            laws[x, a, max(0, x - 1)] += 0.6 * (1 - means[x, a])
    return problem(laws, means, uniform_start(S), H)


def rare_faults(generator, S=6, A=4, H=4):
    """Almost every step goes well; in a third of the states the actions differ."""
    laws = generator.dirichlet(np.ones(S), size=(S, A))
    faults = 0.25 * generator.random((S, 1)) * np.ones((S, A))
    differ = generator.random(S) < 1 / 3
    faults[differ] = 0.25 * generator.random((int(differ.sum()), A))
    return problem(laws, 1 - faults, uniform_start(S), H)


REPORTED = {
    "wards": Family(wards, (90,) * 6, 16),
    "timetables": Family(timetable, (110,) * 5, 16),
    "exams": Family(exams, (60, 60, 90, 90, 120, 120), 16),
    "extreme Garnets": Family(extreme_garnet, (75,) * 6, 32),
    "ice": Family(ice, (65,) * 7, 16),
    "advertisements": Family(advertisements, (300, 200, 150, 150, 150, 150), 16),
    "prices": Family(prices, (40,) * 7, 16, spread),
    "ladders": Family(ladder, (45,) * 6, 8),
    "machines": Family(machines, (35,) * 6, 16, exact),
    "roads": Family(roads, (55,) * 6, 16, spread),
    "doses": Family(doses, (130,) * 6, 16),
    "rare faults": Family(rare_faults, (140,) * 5, 16),
    f"{EQUAL}, wards": Family(equal_actions(wards), (90,) * 6, 16),
    f"{EQUAL}, timetables": Family(equal_actions(timetable), (110,) * 5, 16),
    f"{EQUAL}, advertisements": Family(equal_actions(advertisements), (150,) * 7, 16),
    f"{EQUAL}, roads": Family(equal_actions(roads), (55,) * 6, 16, spread),
}


# ---- on which rule 6 was chosen ------------------------------------------------------------------


def skewed(generator, S=5, A=3, H=3):
    """Small mean rewards, which `heavy_tailed` draws."""
    laws = generator.dirichlet(np.full(S, 0.5), size=(S, A))
    return problem(laws, 0.02 + 0.25 * generator.random((S, A)) ** 2, uniform_start(S), H)


def rare_outcomes(generator, S=4, A=3, H=2):
    """Between 1 in 2,000 and 1 in 30 visits pays."""
    laws = generator.dirichlet(np.full(S, 0.5), size=(S, A))
    return problem(laws, 10 ** generator.uniform(-3.3, -1.5, (S, A)), uniform_start(S), H)


def needle(generator, S=4, A=12, H=1):
    """In each state one of many actions is far better than the others, which hardly differ."""
    means = np.clip(0.3 + 0.04 * generator.normal(size=(S, A)), 0.0, 1.0)
    means[np.arange(S), generator.integers(0, A, S)] = 0.9
    return problem(np.full((S, A, S), 1 / S), means, uniform_start(S), H)


def arms(generator, A=3, H=1):
    """One state."""
    return problem(np.ones((1, A, 1)), generator.random((1, A)), 0, H)


def ordinary(generator, S=6, A=3, H=4):
    """Random laws and rewards."""
    laws = generator.dirichlet(np.full(S, 0.5), size=(S, A))
    return problem(laws, generator.random((S, A)), uniform_start(S), H)


def standard(generator, low, high, S=8, A=4):
    """One step; mean rewards of the first action lie within `low`, of the others within `high`."""
    means = generator.uniform(*high, (S, A))
    means[:, 0] = generator.uniform(*low, S)
    return problem(np.full((S, A, S), 1 / S), means, uniform_start(S), 1)


def good_standard(generator):
    """The first action is better than all others almost everywhere."""
    return standard(generator, (0.6, 0.95), (0.3, 0.6))


def poor_standard(generator):
    """The first action is worse than all others everywhere."""
    return standard(generator, (0.05, 0.45), (0.5, 0.95))


FOURTH = {
    "heavy tails": Family(skewed, (80,) * 5, 16, heavy_tailed),
    "rare outcomes": Family(rare_outcomes, (250,) * 5),
    "needles": Family(needle, (100,) * 6),
    "arms": Family(arms, (20,) * 6),
    "repeated arms": Family(lambda generator: arms(generator, 4, 5), (10,) * 6),
    "optimal protocols": Family(ordinary, (80,) * 5, usual="best"),
    "good standards": Family(good_standard, (120,) * 5, usual="lowest"),
    "poor standards": Family(poor_standard, (120,) * 5, usual="lowest"),
    f"{EQUAL}, arms": Family(equal_actions(arms), (20,) * 6),
    f"{EQUAL}, rare outcomes": Family(equal_actions(rare_outcomes), (250,) * 5),
    f"{EQUAL}, heavy tails": Family(equal_actions(skewed), (80,) * 5, 16, heavy_tailed),
}

# ---- policies that are already good --------------------------------------------------------------

FIFTH = {
    "wards, best": Family(wards, (90,) * 5, 16, usual="best"),
    "timetables, best": Family(timetable, (110,) * 5, 16, usual="best"),
    "extreme Garnets, best": Family(extreme_garnet, (75,) * 5, 32, usual="best"),
    "advertisements, best": Family(advertisements, (200,) * 5, 16, usual="best"),
    "roads, best": Family(roads, (55,) * 5, 16, spread, usual="best"),
    "rare faults, best": Family(rare_faults, (140,) * 5, 16, usual="best"),
    "exams, nearly best": Family(exams, (90,) * 5, 16, usual="nearly"),
    "ice, nearly best": Family(ice, (65,) * 5, 16, usual="nearly"),
    "prices, nearly best": Family(prices, (40,) * 5, 16, spread, usual="nearly"),
    "ladders, nearly best": Family(ladder, (45,) * 5, 8, usual="nearly"),
    "machines, nearly best": Family(machines, (35,) * 5, 16, exact, usual="nearly"),
    "doses, nearly best": Family(doses, (130,) * 5, 16, usual="nearly"),
}

# ---- on which rule 8 was chosen ------------------------------------------------------------------


def stairs(generator, S=8, A=4, H=6):
    """In each state one action often climbs; the others rarely do, and fall one to three steps."""
    laws, means = np.zeros((S, A, S)), np.zeros((S, A))
    for x in range(S):
        for i, a in enumerate(generator.permutation(A)):
            up = generator.uniform(0.0, 0.3) if i else generator.uniform(0.4, 0.9)
            back = max(0, x - int(generator.integers(1, 4)))
            for y, chance in ((min(S - 1, x + 1), up), (back, (1 - up) / 2), (x, (1 - up) / 2)):
                laws[x, a, y] += chance
        means[x] = generator.uniform(0.8, 1.0) * x / (S - 1)
    return problem(laws, means, uniform_start(S), H)


def traps(generator, S=10, A=3, H=8):
    """A walk on a random graph, where one state is a trap and another one pays."""
    laws, means = np.zeros((S, A, S)), np.full((S, A), 0.2)
    for x in range(S):
        for a, y in enumerate(generator.choice(S, A, replace=False)):
            slip = generator.uniform(0.0, 0.3)
            laws[x, a, y] += 1 - slip
            laws[x, a, x] += slip
    laws[1], means[1], means[S - 1] = np.eye(S)[1], 0.0, 0.9
    return problem(laws, means, 0, H)


_BEST = "clinics", "paid at the end", "cures", "seasons", "inventories", "rivers", "bandits"
_NEARLY = (
    *("laws by step", "Garnets", "grids", "verdicts", "sparse Garnets", "mazes", "queues"),
    "near one",
)
SIXTH = {
    f"{name}, {word}": (FIRST | SECOND)[name]._replace(usual=usual)
    for names, usual, word in ((_BEST, "best", "best"), (_NEARLY, "nearly", "nearly best"))
    for name in names
} | {
    "stairs, nearly best": Family(stairs, (60,) * 5, usual="nearly"),
    "stairs, best": Family(stairs, (60,) * 5, usual="best"),
    "traps, nearly best": Family(traps, (50,) * 5, usual="nearly"),
}
SETS = {
    "first": FIRST,
    "second": SECOND,
    "reported": REPORTED,
    "fourth": FOURTH,
    "fifth": FIFTH,
    "sixth": SIXTH,
}
