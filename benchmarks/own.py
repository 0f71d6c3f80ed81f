"""How fast a bonus and an update of your own are, beside those of the library.

    python benchmarks/own.py [--json docs/numbers/own.json]

All play RiverSwim with exact regret left out, one seed on one thread, in turn. The functions are
those of docs/adding.md. `twin` has the library's formula as a function of your own.
"""

import math
import tempfile
import time
import warnings

import numpy as np
from numba import config

import bench
import lowswitch as ls

ROUNDS, STEPS = 7, 4_000_000
MDP = ls.envs.riverswim(states=6, horizon=10)


@ls.parts.bonus
def twin(n, H, iota, *, c=0.05):
    """The Hoeffding bonus, c sqrt(H^3 iota / n)."""
    return c * math.sqrt(H * H * H * iota * (1.0 / n))


@ls.parts.bonus
def logarithmic(n, H, *, c=0.05):
    return c * H * math.sqrt(math.log(1 + n) / n)


@ls.parts.bonus
def in_python(n, H, *, c=0.05):
    """What numba does not compile."""
    return c * H * math.sqrt(n.bit_length() / n)


@ls.parts.update(memory="states")
def speedy(n, y, q, reward, values, bonus, memory):
    """Azar, Munos, Ghavamzadeh, Kappen 2011, Algorithm 1."""
    rate = 1 / n
    before = values[y] if n == 1 else memory[y]
    for state in range(len(values)):
        memory[state] = values[state]
    return q + rate * (reward + before - q) + (1 - rate) * (values[y] - before) + rate * bonus


def learner(bonus, estimator=None):
    return ls.Algorithm(
        estimator=estimator or ls.parts.QLearning(), bonus=bonus, schedule=ls.parts.UCB2()
    )


LEARNERS = {
    "Hoeffding bonus of the library": learner(ls.parts.Hoeffding(c=0.05)),
    "Bernstein bonus of the library": learner(ls.parts.Bernstein(c1=0.05, c2=0.05)),
    "Hoeffding bonus as a function": learner(twin()),
    "logarithmic bonus": learner(logarithmic()),
    "Speedy Q-learning, Hoeffding bonus": learner(ls.parts.Hoeffding(c=0.05), speedy()),
    "a bonus that does not compile": learner(in_python()),
}


def play(algorithm, steps, **more):
    episodes = steps // MDP.horizon
    given = {"episodes": episodes, "seeds": [0], "threads": 1, "regret": False, "progress": False}
    return ls.simulate(MDP, algorithm, **given | more)


def main():
    options = bench.parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as empty, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual, config.CACHE_DIR = config.CACHE_DIR, empty
        play(LEARNERS["Hoeffding bonus of the library"], 10)
        begin = time.process_time()
        play(learner(logarithmic(c=1.0)), 10)  # nothing is on disk: this compiles
        compiling = time.process_time() - begin
        config.CACHE_DIR = usual
    seconds = {name: [] for name in LEARNERS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(ROUNDS + 1):
            for name, algorithm in LEARNERS.items():
                steps = STEPS // 40 if "not compile" in name else STEPS
                begin = time.process_time()
                play(algorithm, steps)
                seconds[name].append((time.process_time() - begin) / steps)
        pair = [play(LEARNERS[name], 200_000, regret=True) for name in list(LEARNERS)[:3:2]]
    speed = {name: 1 / float(np.median(took[1:])) for name, took in seconds.items()}
    first = speed["Hoeffding bonus of the library"]
    results = {
        "run": bench.described(),
        "compile_seconds": round(compiling, 1),
        "equal": bool(np.array_equal(pair[0].regret, pair[1].regret)),
        "rows": [
            {"learner": name, "steps_per_second": round(one), "of_hoeffding": one / first}
            for name, one in speed.items()
        ],
    }
    for row in results["rows"]:
        print(f"{row['steps_per_second']:>12,}  {row['of_hoeffding']:.2f}  {row['learner']}")
    print(f"compiling a kind: {compiling:.1f} s; the twin is equal to the bit: {results['equal']}")
    bench.write(options.json, results)


if __name__ == "__main__":
    main()
