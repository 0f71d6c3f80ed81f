"""Whether the planner's 80 % intervals hold: on problems from its prior, and on others.

    python benchmarks/few/calibration.py [--problems 100] [--json FILE]

A forecast is made for H = 4, S = 5, A = 3, 400 episodes and 4 deployments, and compared with what
fresh problems do: from the size alone, on problems of the planner's prior and on Garnets of the
same size, which are not from it; and from 100 logged episodes of each of these problems.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np

import bench
from lowswitch import TabularMDP, envs, few
from lowswitch.forecast.draws import Size, problem_of_size
from lowswitch.forecast.forecasts import INTERVAL, Outcome, _source, _Track
from lowswitch.reproduce.pseudocode import play_episode
from lowswitch.show.progress import Progress

SIZE, EPISODES, DEPLOYMENTS, LOGGED, DRAWN = Size(4, 5, 3), 400, 4, 100, 24
ALGORITHM = few(deployments=DEPLOYMENTS)


def garnet(number: int) -> TabularMDP:
    law = ("deterministic", "bernoulli")[number % 2]
    return envs.garnet(states=5, actions=3, branching=2, horizon=4, seed=number, reward_law=law)


def done(mdp: TabularMDP, number: int, source: Any) -> Outcome:
    """What the default does on a problem, begun as the source says."""
    track = _Track(source._replace(problem=lambda _: mdp), 1, None)
    return track._outcome(ALGORITHM, EPISODES, number)


def interval(source: Any, problems: int) -> np.ndarray:  # [3, dates + 1]
    with Progress(problems, unit="runs", show=False) as bar:
        return _Track(source, problems, None).forecast(ALGORITHM, EPISODES, bar).interval()


def logged(mdp: TabularMDP, number: int) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(number)
    shape = LOGGED, mdp.horizon, mdp.states
    played = [
        play_episode(mdp, policy, number, k)
        for k, policy in enumerate(generator.integers(0, mdp.actions, shape))
    ]
    return tuple(np.stack(part) for part in zip(*played, strict=True))


def covered(make: Callable[[int], TabularMDP], problems: int) -> dict[str, float]:
    """The share of problems whose value in the end lies in the interval of each forecast."""
    size_source = _source(SIZE, None, None)
    of_size = interval(size_source, 10 * DRAWN)
    hits: dict[str, list[bool]] = {"size": [], "logged": []}
    for number in range(10_000, 10_000 + problems):
        mdp = make(number)
        value = done(mdp, number, size_source).values[-1]
        hits["size"].append(bool(of_size[0, -1] <= value <= of_size[2, -1]))
        source = _source(logged(mdp, number), SIZE, None)
        of_logs, value = interval(source, DRAWN), done(mdp, number, source).values[-1]
        hits["logged"].append(bool(of_logs[0, -1] <= value <= of_logs[2, -1]))
    return {name: float(np.mean(found)) for name, found in hits.items()}


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--problems", type=int, default=100)
    options = parser.parse_args()
    facts: dict[str, Any] = {"problems": options.problems, "interval": INTERVAL}
    for name, make in (("prior", lambda i: problem_of_size(SIZE, i)), ("garnets", garnet)):
        facts[name] = covered(make, options.problems)
        print(name, facts[name], flush=True)
    bench.write(options.json, facts)


if __name__ == "__main__":
    main()
