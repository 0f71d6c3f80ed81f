"""Make the published frontiers anew: docs/frontier/*.json and *.png, and check what they say on further seeds.

A folder given as argument keeps what is finished.
"""

import sys
import tempfile
from pathlib import Path

from lowswitch import envs, frontier

TARGET = Path(__file__).parent / "frontier"
SEEDS = 16
PROBLEMS = {
    "riverswim": ("riverswim:states=6,horizon=10", 100_000),
    "random-5": ("random-mdp:states=5,actions=3,horizon=5", 100_000),
    "random-20": ("random-mdp:states=20,actions=4,horizon=10", 30_000),
}


def main(folder: Path) -> None:
    for file, (env, episodes) in PROBLEMS.items():
        for stationary in (False, True):
            result = frontier(envs.make(env), episodes=episodes, seeds=SEEDS, stationary=stationary, folder=folder, name=env)
            name = f"{file}-stationary" if stationary else file
            result.save(TARGET / f"{name}.json")
            result.plot(TARGET / f"{name}.png")
            print(f"{name}\n{result.table()}\n", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
