"""Which algorithm has the least regret for how many deployments: a race over a portfolio, its table
and its figure.
"""

from lowswitch.races.race import frontier
from lowswitch.races.standings import Costs, Frontier, Point

__all__ = ["Costs", "Frontier", "Point", "frontier"]
