"""Which algorithm has the least regret for how many deployments: a race over a portfolio, its table
and its figure.
"""

from lowswitch.races.race import Costs, Frontier, Point, frontier

__all__ = ["Costs", "Frontier", "Point", "frontier"]
