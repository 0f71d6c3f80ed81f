"""Classic control as the library and its rival see it: CartPole, MountainCar, Acrobot."""

import numpy as np
from gymnasium import ObservationWrapper, make

import lowswitch as ls

CART = np.array([2.4, 3.0, 0.2095, 3.5])


class Shaken(ObservationWrapper):
    """CartPole whose state is shaken after every step, by a share of the range of each number."""

    def __init__(self, share, seed):
        super().__init__(make("CartPole-v1"))
        self.share, self.generator = share, np.random.default_rng(seed)

    def observation(self, observation):
        inner = self.env.unwrapped
        if inner.steps_beyond_terminated is None:
            noise = self.generator.normal(size=4) * self.share * 2 * CART
            inner.state = np.asarray(inner.state) + noise
        return np.array(inner.state, dtype=np.float32)


def cart_pole():
    return ls.dynamics(
        reward=lambda states, action, nexts: np.ones(len(states)),
        ends=lambda nexts: (np.abs(nexts[:, 0]) > 2.4) | (np.abs(nexts[:, 2]) > 0.2095),
        bounds=np.column_stack([-CART, CART]),
        actions=2,
        points=(9, 11, 17, 15),
    )


def mountain_car():
    return ls.dynamics(
        reward=lambda states, action, nexts: -np.ones(len(states)),
        ends=lambda nexts: nexts[:, 0] >= 0.5,
        bounds=[(-1.2, 0.6), (-0.07, 0.07)],
        actions=3,
        points=61,
    )


def acrobot():
    """Bounds on the speeds are half of what the simulator allows, so that the grid is finer where
    episodes are; faster states are taken at the edge.
    """
    return ls.dynamics(
        reward=lambda states, action, nexts: -np.ones(len(states)),
        ends=lambda nexts: -np.cos(nexts[:, 0]) - np.cos(nexts[:, 0] + nexts[:, 1]) > 1,
        bounds=np.pi * np.array([(-1, 1), (-1, 1), (-2, 2), (-4.5, 4.5)]),
        actions=3,
        points=(16, 16, 15, 15),
        periodic=(True, True, False, False),
    )


def angles(seen):
    """Acrobot shows sines and cosines of its two angles."""
    return np.array([np.arctan2(seen[1], seen[0]), np.arctan2(seen[3], seen[2]), seen[4], seen[5]])


PROBLEMS = {
    "CartPole": (lambda seed: make("CartPole-v1"), cart_pole, None),
    "CartPole, noise 0.5 %": (lambda seed: Shaken(0.005, seed), cart_pole, None),
    "MountainCar": (lambda seed: make("MountainCar-v0"), mountain_car, None),
    "Acrobot": (lambda seed: make("Acrobot-v1"), acrobot, angles),
}
