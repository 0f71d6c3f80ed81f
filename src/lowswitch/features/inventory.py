"""An inventory with continuous stock, and the exact value of policies for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.checks import require_count
from lowswitch.features.problem import FeatureProblem, PlayedEpisodes
from lowswitch.kernels.streams import START, purpose_key, uniforms
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape

CAPACITY, ORDERS, MEAN_DEMAND = 10.0, 6, 3.0
PRICE, COST, HOLDING = 1.0, 0.5, 0.1
_SIZES = np.linspace(0.0, CAPACITY, ORDERS)
_POINTS = 201  # of the grid of stocks on which values are exact


class Inventory(FeatureProblem):
    """A shop with room for 10 that may order 0, 2, 4, 6, 8 or 10 in each of H periods.

    Orders arrive immediately, up to the room there is. Demand is exponential with mean 3, and unmet
    demand is lost. A sale earns 1, an ordered unit costs 0.5, and a unit left over costs 0.1. The
    features of an order are hats around `knots` equally spaced levels of the stock after it, and
    the size of the order: up to interpolation, rewards and values to go are linear in them. Regret
    is relative to the best policy that knows the demand. Values are exact for values to go that are
    linear between 201 stocks; integrals over the demand are in closed form.

    Parameters
    ----------
    horizon
        H, the number of periods.
    knots
        The number of levels at which the features have their hats.
    """

    def __init__(self, *, horizon: int = 10, knots: int = 34) -> None:
        require_count("knots", knots, least=2)
        self.shape = Shape.of(horizon, knots + 1, ORDERS, False)
        self.name = f"inventory, H = {horizon}"
        self.stocks = np.linspace(0.0, CAPACITY, _POINTS)
        shift = (_POINTS - 1) // (ORDERS - 1)
        filled = np.minimum(np.arange(_POINTS)[:, None] + shift * np.arange(ORDERS), _POINTS - 1)
        self.filled = filled  # [points, orders]: the stock after the order, as a point of the grid
        self.ahead = _expectations(self.stocks)  # [points, points]
        level = self.stocks[filled]
        sold = MEAN_DEMAND * (1 - np.exp(-level / MEAN_DEMAND))
        ordered = level - self.stocks[:, None]
        self.paid = PRICE * sold - COST * ordered - HOLDING * (level - sold)  # [points, orders]
        self.best = self._optimal()
        self._known: tuple[str, float] = ("", 0.0)

    def features(self, stocks: np.ndarray) -> np.ndarray:  # [n, orders, knots + 1]
        """Hats of the level after each order, as in linear interpolation, and the order's size."""
        knots = self.shape.features - 1
        level = np.minimum(stocks[:, None] + _SIZES, CAPACITY)  # [n, orders]
        place = level / CAPACITY * (knots - 1)
        hats = np.maximum(0.0, 1.0 - np.abs(place[..., None] - np.arange(knots)))
        sizes = (level - stocks[:, None]) / CAPACITY
        return np.concatenate([hats, sizes[..., None]], axis=-1)

    def play(self, policy: LinearPolicy, seed: int, first: int, last: int) -> PlayedEpisodes:
        H, n = self.shape.horizon, last - first
        noise = uniforms(purpose_key(seed, START), first * H, n * H).reshape(n, H)
        demand = -MEAN_DEMAND * np.log(noise)
        x = np.empty((n, H, ORDERS, self.shape.features))
        actions, rewards = np.empty((n, H), dtype=np.int64), np.empty((n, H))
        stock, episodes = np.zeros(n), np.arange(first, last)
        for h in range(H):
            x[:, h] = self.features(stock)
            actions[:, h] = policy.actions(x[:, h], episodes, h)
            level = np.minimum(stock + _SIZES[actions[:, h]], CAPACITY)
            sold = np.minimum(level, demand[:, h])
            rewards[:, h] = PRICE * sold - COST * (level - stock) - HOLDING * (level - sold)
            stock = level - sold
        return PlayedEpisodes(x, actions, rewards, np.full(n, self.best - self.value(policy)))

    def value(self, policy: LinearPolicy) -> float:
        """The value of a policy from an empty shop, averaged over its members."""
        known, identity = self._known, policy.identity
        if known[0] != identity:
            contexts = self.features(self.stocks)
            rows = np.arange(_POINTS)[:, None]
            value = np.zeros((_POINTS, policy.members))
            for h in reversed(range(self.shape.horizon)):
                actions = policy.choices(contexts, h)
                later = self.ahead @ value
                value = self.paid[rows, actions] + np.take_along_axis(
                    later, self.filled[rows, actions], axis=0
                )
            known = identity, float(value[0].mean())
            self._known = known  # whole at once: threads share it
        return known[1]

    def _optimal(self) -> float:
        value = np.zeros(_POINTS)
        for _ in range(self.shape.horizon):
            value = (self.paid + (self.ahead @ value)[self.filled]).max(axis=1)
        return float(value[0])

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"horizon": self.shape.horizon, "knots": self.shape.features - 1}


def _expectations(stocks: np.ndarray) -> np.ndarray:  # [points, points]
    """The weights of V(stocks) in E V(max(0, y - D)) for y in stocks and D exponential.

    V is linear between two stocks a < b. With the density f of s = y - D, the weight of a is the
    integral of (b - s) f / (b - a), and b gets the rest of the integral of f.
    """
    points, step = len(stocks), stocks[1] - stocks[0]
    weights = np.zeros((points, points))
    m = MEAN_DEMAND
    for i, y in enumerate(stocks):
        weights[i, 0] = np.exp(-y / m)  # everything is sold
        low, high = stocks[:i], stocks[1 : i + 1]
        mass = np.exp(-(y - high) / m) - np.exp(-(y - low) / m)
        # the integral of (s - low) exp(-(y - s) / m) / m over s from low to high
        first = step * np.exp(-(y - high) / m) - m * mass
        weights[i, 1 : i + 1] += first / step
        weights[i, :i] += mass - first / step
    return weights
