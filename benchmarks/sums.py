"""How many bytes workers send if machines send sums in place of their episodes.

    python benchmarks/sums.py [--json docs/numbers/sums.json]

Ten machines on two processes, with the learners by rounds. Bytes are those of all messages of the
run, both ways. The histories must be equal; the estimates are, up to rounding.
"""

import warnings

import bench
import lowswitch as ls
from lowswitch import concurrent, envs

EPISODES, MACHINES = (20_000, 200_000), 10
PROBLEMS = {
    "random (5, 3, 5)": "random-mdp:states=5,actions=3,horizon=5,seed=3",
    "RiverSwim (5, 2, 8)": "riverswim:states=5,horizon=8",
}
LEARNERS = (
    "fedq-h:c=0.05,machines=10",
    "fedq-b:c=0.05,machines=10",
    "fedq-advantage:c=0.01,machines=10",
    "fedq-early-settled:c=0.005,machines=10",
)


def measured(mdp, name, episodes):
    """The bytes of both ways to send, and what machines played in vain."""
    found, histories = {}, []
    for send in ("episodes", "sums"):
        run = concurrent.run(
            mdp,
            ls.Algorithm.from_text(name),
            episodes,
            machines=MACHINES,
            send=send,
            fleet=concurrent.Processes(workers=2),
            progress=False,
        )
        histories.append(run.history[0].changes.tolist())
        found[send] = run.bytes_sent + run.bytes_received
        found["thrown away"] = run.thrown_away
    assert histories[0] == histories[1]
    return found | {"turns": episodes // MACHINES, "rounds": int(run.triggers[0])}


def main():
    options = bench.parser(__doc__).parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for problem, text in PROBLEMS.items():
        for name in LEARNERS:
            rows = results.setdefault(problem, {})[name] = {}
            for episodes in EPISODES:
                rows[str(episodes)] = measured(envs.make(text), name, episodes)
            print(f"{problem:20} {name:40} {rows}", flush=True)
    setting = {"episodes": EPISODES, "machines": MACHINES}
    bench.write(options.json, {"run": bench.described(), "setting": setting, "results": results})


if __name__ == "__main__":
    main()
