"""The exact price of few changes on a GPU: its time, and whether the CPU finds the same bits.

    python benchmarks/price.py [--json docs/numbers/price.json]

Small problems are worked out on both; the large ones on the GPU alone. Without a GPU it says so.
"""

import bench
from lowswitch.exact import Arms, SmallMDP, price

THREE = Arms(((1.0, 1.0),) * 3)
PROBLEMS = {  # problem, episodes, changes, whether the CPU works it out too
    "two arms, 30 pulls": (Arms(), 30, 5, True),
    "two arms, 100 pulls": (Arms(), 100, 5, True),
    "two arms, 200 pulls": (Arms(), 200, 5, True),
    "two arms, 1,000 pulls": (Arms(), 1000, 5, False),
    "three arms, 30 pulls": (THREE, 30, 5, True),
    "three arms, 100 pulls": (THREE, 100, 5, False),
    "small MDP, 10 episodes": (SmallMDP(), 10, 5, True),
    "small MDP, 14 episodes": (SmallMDP(), 14, 5, True),
    "small MDP, 20 episodes": (SmallMDP(), 20, 5, False),
}


def measured(problem, episodes, changes, on_cpu):
    """Regrets, seconds on each device, and whether both agree to the bit."""
    found = {}

    def work(device):
        given = {"episodes": episodes, "changes": changes, "progress": False}
        found[device] = price(problem, device=device, **given)

    took = {"gpu": round(bench.seconds(lambda: work("gpu")), 2)}
    there = found["gpu"]
    row = {"regret": there.regret.round(4).tolist(), "seconds": took}
    row["unlimited"] = round(there.known - there.unlimited, 4)
    if on_cpu:
        took["cpu"] = round(bench.seconds(lambda: work("cpu")), 2)
        here = found["cpu"]
        row["equal"] = here.values.tobytes() == there.values.tobytes()
    return row


def main():
    results = bench.Results(bench.parser(__doc__).parse_args().json)
    price(Arms(), episodes=2, changes=1, device="gpu", progress=False)  # compiles
    results.keep("run", bench.described())
    for name, given in PROBLEMS.items():
        results.keep(name, measured(*given))


if __name__ == "__main__":
    main()
