"""Classic control for the example of a learned motion: CartPole, MountainCar, Acrobot."""

import itertools
import sys
from pathlib import Path

import numpy as np
from gymnasium import ObservationWrapper, make

from lowswitch.envs.gymnasium.feature_env import reset_seed
from lowswitch.kernels.streams import DRAWS, bits, purpose_key

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from cartpole import DEPLOYMENTS_AT, EPISODES, HIGH, cart_pole
from learned_motion import Grid, Problem, learn, play


class Shaken(ObservationWrapper):
    """CartPole whose state is shaken after every step, by a share of the range of each number."""

    def __init__(self, share, seed):
        super().__init__(make("CartPole-v1"))
        self.share, self.generator = share, np.random.default_rng(seed)

    def observation(self, observation):
        inner = self.env.unwrapped
        if inner.steps_beyond_terminated is None:
            noise = self.generator.normal(size=4) * self.share * 2 * HIGH
            inner.state = np.asarray(inner.state) + noise
        return np.array(inner.state, dtype=np.float32)


def mountain_car():
    return Problem(
        reward=lambda states, action, nexts: -np.ones(len(states)),
        ends=lambda nexts: nexts[:, 0] >= 0.5,
        grid=Grid(np.array([(-1.2, 0.6), (-0.07, 0.07)]), (61, 61)),
        actions=3,
    )


def acrobot():
    """Bounds on the speeds are half of what the simulator allows, so that the grid is finer where
    episodes are; faster states are taken at the edge.
    """
    bounds = np.pi * np.array([(-1, 1), (-1, 1), (-2, 2), (-4.5, 4.5)])
    return Problem(
        reward=lambda states, action, nexts: -np.ones(len(states)),
        ends=lambda nexts: -np.cos(nexts[:, 0]) - np.cos(nexts[:, 0] + nexts[:, 1]) > 1,
        grid=Grid(bounds, (16, 16, 15, 15), angles=(0, 1)),
        actions=3,
    )


class Angles(ObservationWrapper):
    """Acrobot with its two angles, of which it shows sines and cosines."""

    def observation(self, observation):
        seen = np.asarray(observation, dtype=float)
        angles = np.arctan2(seen[1], seen[0]), np.arctan2(seen[3], seen[2])
        return np.array([*angles, seen[4], seen[5]])


PROBLEMS = {
    "CartPole": (lambda seed: make("CartPole-v1"), cart_pole),
    "CartPole, noise 0.5 %": (lambda seed: Shaken(0.005, seed), cart_pole),
    "MountainCar": (lambda seed: make("MountainCar-v0"), mountain_car),
    "Acrobot": (lambda seed: Angles(make("Acrobot-v1")), acrobot),
}


def steer(name, seed):
    """The mean return of ten episodes after the last deployment, and the steps until then."""
    environment, known = PROBLEMS[name]
    env, problem, key = environment(seed), known(), purpose_key(seed, DRAWS)

    def explore(episode):
        places = itertools.count(episode * 2**20)
        return lambda state: int(bits(key, next(places), 1)[0]) % problem.actions

    policy, told = learn(
        env,
        problem,
        resets=[reset_seed(seed, k) for k in range(EPISODES)],
        deployments_at=DEPLOYMENTS_AT,
        explore=explore,
    )
    tested = [play(env, policy.act, reset_seed(seed, 10**6 + k)).paid for k in range(10)]
    return float(np.mean(tested)), sum(len(episode.actions) for episode in told)
