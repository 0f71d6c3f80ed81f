"""Find the algorithm with the least regret for each number of deployments.

A race over a portfolio of algorithms gives a table and a figure.
"""

from lowswitch.races.race import frontier
from lowswitch.races.standings import Costs, Frontier, Point

__all__ = ["Costs", "Frontier", "Point", "frontier"]
