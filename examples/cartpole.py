"""CartPole in three deployments: play at random, learn the motion, plan.

    python examples/cartpole.py

It needs Gymnasium (`pip install "lowswitch[gymnasium]"`). Equal seeds print equal numbers.
"""

import argparse
import itertools

import gymnasium
import numpy as np

from learned_motion import Act, Grid, Problem, learn

HIGH = np.array([2.4, 3.0, 0.2095, 3.5])  # position, speed, angle, speed of the angle
EPISODES, DEPLOYMENTS_AT = 30, (7, 15, 22)


def cart_pole() -> Problem:
    """The reward, the end and the bounds of CartPole; the speeds have plausible bounds."""
    return Problem(
        reward=lambda states, action, nexts: np.ones(len(states)),
        ends=lambda nexts: (np.abs(nexts[:, 0]) > 2.4) | (np.abs(nexts[:, 2]) > 0.2095),
        grid=Grid(np.column_stack([-HIGH, HIGH]), (9, 11, 17, 15)),
        actions=2,
    )


def uniform(actions: int, seed: list[int]) -> Act:
    """Play all actions equally often."""
    generator = np.random.default_rng(seed)
    return lambda state: int(generator.integers(actions))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="CartPole in three deployments")
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args(arguments).seed
    _, told = learn(
        gymnasium.make("CartPole-v1"),
        cart_pole(),
        resets=range(EPISODES * seed, EPISODES * (seed + 1)),
        deployments_at=DEPLOYMENTS_AT,
        explore=lambda k: uniform(2, [seed, k]),
    )
    print(f"{len(DEPLOYMENTS_AT)} deployments in {EPISODES} episodes; the mean return was")
    for i, (first, last) in enumerate(itertools.pairwise([0, *DEPLOYMENTS_AT, EPISODES])):
        mean = np.mean([episode.paid for episode in told[first:last]])
        policy = f"after deployment {i}" if i else "at random"
        print(f"{mean:5.0f} in episodes {first + 1} to {last}, {policy}")


if __name__ == "__main__":
    main()
