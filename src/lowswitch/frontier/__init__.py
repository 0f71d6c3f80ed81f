"""Which algorithm has the least regret for how many deployments: a race over a portfolio, its table
and its figure.
"""

from lowswitch.frontier.race import Frontier, Point, frontier

__all__ = ["Frontier", "Point", "frontier"]
