"""The exact price of N changes: the best that any learner could do, on small problems."""

from lowswitch.exact.arms import Arms
from lowswitch.exact.notions import Price, price, value_on_dates
from lowswitch.exact.small_mdp import SmallMDP

__all__ = ["Arms", "Price", "SmallMDP", "price", "value_on_dates"]
