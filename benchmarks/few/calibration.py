"""Whether the planner's 80 % intervals hold, on problems that are not drawn from its prior.

    python benchmarks/few/calibration.py [--problems 100] [--only LOGS ...] [--workers W]
                                         [--json FILE]

A forecast is made for H = 5, S = 6, A = 3, 400 episodes and 4 deployments, and compared with what
`few` really reaches. The problems are of ten kinds. Forecasts are made from the size alone, with
and without the present policy's reward, and from 100 logged episodes of five kinds: of the present
policy alone, of the same with 5 % or 20 % of the actions at random, of uniformly random actions,
and of four policies near the present one, one for each episode. A present policy is random, or
right in half or in 85 % of the rows and random elsewhere.
"""

import functools
import sys
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from kinds import outcome_at_the_end, random_laws, rebuilt

import bench
from lowswitch import TabularMDP, envs, few
from lowswitch.forecast.draws import Size
from lowswitch.forecast.forecasts import INTERVAL, Forecast, _forecasts, _outcome, _source
from lowswitch.io import storage
from lowswitch.reproduce.pseudocode import play_episode
from lowswitch.runs.units import Threads
from lowswitch.show.progress import Progress, cores

SIZE, EPISODES, DEPLOYMENTS, LOGGED, DRAWN = Size(5, 6, 3), 400, 4, 100, 24
ALGORITHM = few(deployments=DEPLOYMENTS)
FIRST = 9_000  # seed of problems; the rules were chosen on those from 500 on
RIGHT = (0.0, 0.5, 0.85)  # shares of the rows in which a present policy is right
RANDOM = {"fixed policy": 0.0, "5 % random": 0.05, "20 % random": 0.2, "uniform": 1.0}


# ---- the problems, all of one size ---------------------------------------------------------------


def garnet(seed: int, low: float = 0.0, high: float = 1.0, law: str = "bernoulli") -> TabularMDP:
    H, S, A = SIZE
    mdp = envs.garnet(states=S, actions=A, branching=2, horizon=H, seed=seed, reward_law=law)
    return rebuilt(mdp, rewards=low + (high - low) * mdp.rewards)


def health(seed: int) -> TabularMDP:
    """Each treatment helps in some states; the state alone decides what is paid."""
    (H, S, A), generator = SIZE, np.random.default_rng([seed, 41])
    laws, helps = np.zeros((S, A, S)), generator.random((S, A))
    for x in range(S):
        for a in range(A):
            up, down = 0.1 + 0.6 * helps[x, a], 0.5 * (1 - helps[x, a])
            for move, chance in ((1, up), (-1, down * (1 - up)), (0, (1 - down) * (1 - up))):
                laws[x, a, min(S - 1, max(0, x + move))] += chance
    rewards = np.repeat((np.arange(S) / (S - 1))[:, None], A, axis=1)
    return TabularMDP(laws, rewards, start=2, horizon=H, reward_law="bernoulli")


def walk(seed: int) -> TabularMDP:
    """A grid of two rows with a goal in the far corner; moves slip."""
    (H, S, A), generator = SIZE, np.random.default_rng([seed, 42])
    slip, laws, rewards = generator.uniform(0, 0.4), np.zeros((S, A, S)), np.zeros((S, A))
    for x in range(S):
        row, column = divmod(x, 3)
        targets = [row * 3 + min(2, column + 1), row * 3 + max(0, column - 1), 3 + column]
        for a in range(A):
            laws[x, a, targets[a]] += 1 - slip
            laws[x, a, x] += slip
    rewards[S - 1] = generator.uniform(0.3, 1.0)
    return TabularMDP(laws, rewards, horizon=H, reward_law="bernoulli")


def queue(seed: int) -> TabularMDP:
    """Choose the speed of a server: a faster one costs, and so does every customer who waits."""
    (H, S, A), generator = SIZE, np.random.default_rng([seed, 43])
    serve, cost = np.sort(generator.random(A)), np.sort(0.5 * generator.random(A))
    arrive, wait = generator.uniform(0.2, 0.8), generator.uniform(0.02, 0.1)
    laws, rewards = np.zeros((S, A, S)), np.zeros((S, A))
    for x in range(S):
        for a in range(A):
            for come, p in ((1, arrive), (0, 1 - arrive)):
                for gone, q in ((1, serve[a]), (0, 1 - serve[a])):
                    laws[x, a, min(S - 1, max(0, x + come - gone))] += p * q
            rewards[x, a] = 1.0 - cost[a] - wait * x
    return TabularMDP(laws, rewards, start=2, horizon=H)


def decoys(seed: int) -> TabularMDP:
    """Staying pays a little; walking to the far end, where nothing is certain, pays more."""
    (H, S, A), generator = SIZE, np.random.default_rng([seed, 44])
    laws, rewards = np.zeros((S, A, S)), np.zeros((S, A))
    order = np.array([generator.permutation(A) for _ in range(S)])
    for x in range(S):
        stay, back, on = order[x]
        laws[x, stay, x] = laws[x, back, max(0, x - 1)] = 1.0
        laws[x, on, min(S - 1, x + 1)] += 0.9
        laws[x, on, x] += 0.1
        rewards[x, stay] = 0.2
    rewards[S - 3 :] = generator.uniform(0.5, 1.0)
    return TabularMDP(laws, rewards, horizon=H, reward_law="bernoulli")


def by_step(seed: int) -> TabularMDP:
    (H, S, A), generator = SIZE, np.random.default_rng([seed, 45])
    laws = random_laws(generator, H, S, A, S)
    return TabularMDP(laws, generator.random((H, S, A)), horizon=H, reward_law="bernoulli")


KINDS: dict[str, Callable[[int], TabularMDP]] = {
    "garnet": garnet,
    "garnet, certain rewards": lambda seed: garnet(seed, law="deterministic"),
    "near 0": lambda seed: garnet(seed, 0.0, 0.1),
    "near 1": lambda seed: garnet(seed, 0.8, 1.0),
    "health": health,
    "walk": walk,
    "queue": queue,
    "decoys": decoys,
    "by step": by_step,
    "outcome at the end": lambda seed: outcome_at_the_end(seed, SIZE.states, SIZE.horizon, 1.0),
}


def problem(number: int) -> TabularMDP:
    makers = [*KINDS.values()]
    return makers[number % len(makers)](FIRST + number // len(makers))


def present_policy(mdp: TabularMDP, number: int) -> np.ndarray:  # [H, S]
    return changed(mdp.optimal_policy, RIGHT[number % len(RIGHT)], number)


def changed(policy: np.ndarray, right: float, seed: int) -> np.ndarray:  # [H, S]
    """A policy with a share of its rows, and random actions elsewhere."""
    generator = np.random.default_rng([seed, 46])
    other = generator.integers(0, SIZE.actions, policy.shape)
    return np.where(generator.random(policy.shape) < right, policy, other)


# ---- what was logged, what was forecast and what came --------------------------------------------


def logged(mdp: TabularMDP, present: np.ndarray, kind: str, number: int) -> tuple[np.ndarray, ...]:
    """Episodes of a kind."""
    generator, played = np.random.default_rng([number, 47]), []
    near = [changed(present, 0.8, 1_000 * number + i) for i in range(4)]
    for k in range(LOGGED):
        base = near[generator.integers(4)] if kind == "mixture" else present
        some = generator.random(present.shape) < RANDOM.get(kind, 0.0)
        random = generator.integers(0, mdp.actions, present.shape)
        played.append(play_episode(mdp, np.where(some, random, base), number, k))
    return tuple(np.stack(part) for part in zip(*played, strict=True))


def forecast(source: Any, problems: int) -> Forecast:
    tried, kept = [(ALGORITHM, EPISODES)], storage.Kept(None)
    with Progress(problems, unit="runs", show=False) as bar:
        return _forecasts(source, tried, problems, kept, Threads(), bar)[0]


def reached(mdp: TabularMDP, number: int, source: Any) -> float:
    """The value in the end of what the default does on a problem, begun as the source says."""
    source = source._replace(problem=lambda _: mdp, initial_of=None)
    return float(_outcome(source, ALGORITHM, EPISODES, number).values[-1])


Hit = tuple[bool, float, bool, bool]


def hit(mdp: TabularMDP, made: Forecast, value: float) -> Hit:
    """Whether an interval held, its width, whether no policy reaches its lower end, and whether
    the value lies above it.
    """
    low, _, high = made.interval()[:, -1]
    within = low - 1e-9 <= value <= high + 1e-9
    return bool(within), float(high - low), bool(low > mdp.optimal_value() + 1e-9), value > high


def from_size(number: int) -> Hit:
    """From the size alone: all problems have the same forecast."""
    mdp, source = problem(number), _source(SIZE, None, None, None)
    return hit(mdp, of_size(), reached(mdp, number, source))


@functools.cache
def of_size() -> Forecast:
    return forecast(_source(SIZE, None, None, None), 4 * DRAWN)


def from_reward(number: int) -> Hit:
    """From the size and from what the present policy earns."""
    mdp = problem(number)
    present = present_policy(mdp, number)
    source = _source(SIZE, None, None, mdp.evaluate(present))
    value = reached(mdp, number, source._replace(initial=present))
    return hit(mdp, forecast(source, DRAWN), value)


def from_logs(kind: str, number: int) -> Hit:
    mdp = problem(number)
    source = _source(logged(mdp, present_policy(mdp, number), kind, number), SIZE, None, None)
    return hit(mdp, forecast(source, DRAWN), reached(mdp, number, source))


MEASURES: dict[str, Callable[[int], Hit]] = {
    "size": from_size,
    "size and present reward": from_reward,
    **{kind: functools.partial(from_logs, kind) for kind in (*RANDOM, "mixture")},
}


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=[*MEASURES])
    parser.add_argument("--workers", type=int, default=cores())
    options = parser.parse_args()
    results = bench.Results(options.json)
    results.keep("setting", {"interval": INTERVAL, "draws": DRAWN})
    of_size()  # compiles, too, before the processes begin
    with get_context("fork").Pool(options.workers) as pool:
        for name in options.only:
            found = pool.map(MEASURES[name], range(options.problems), chunksize=1)
            means = (float(np.mean(part)) for part in zip(*found, strict=True))
            names = ("covered", "width", "impossible", "above")
            results.keep(
                name, {"problems": options.problems} | dict(zip(names, means, strict=True))
            )


if __name__ == "__main__":
    main()
