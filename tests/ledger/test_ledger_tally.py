"""What the evidence of a proposal is counted from."""

import numpy as np

from lowswitch.ledger.tally import Tally


def test_steps_are_counted_by_hand_and_those_not_learned_are_left_out():
    """Two steps, three states, two actions; the last step of the second episode was not seen."""
    tally = Tally((2, 3, 2))
    tally.add(
        ["east", "west", "east"],
        np.array([[0, 2], [0, 1], [0, 2]]),
        np.array([[1, 0], [1, -1], [1, 1]]),
        np.array([[0.5, 1.0], [0.25, 9.0], [0.5, 0.0]]),
    )
    all_sites, east = tally.model(), tally.model(without=["west"])
    visits, rewards = np.zeros((2, 3, 2)), np.zeros((2, 3, 2))
    visits[0, 0, 1], visits[1, 2, 0], visits[1, 2, 1] = 3, 1, 1
    rewards[0, 0, 1], rewards[1, 2, 0] = 1.25, 1.0
    assert (all_sites.visits == visits).all()
    assert (all_sites.rewards == rewards).all()
    # cell (0, 0, 1) is number 1; it led to state 1 once and to state 2 twice
    found = (all_sites.cells.tolist(), all_sites.successors.tolist(), all_sites.counts.tolist())
    assert found == ([1, 1], [1, 2], [1, 2])
    assert (east.visits[0, 0, 1], east.rewards[0, 0, 1], east.counts.tolist()) == (2, 1.0, [2])
    again = Tally.from_bytes((2, 3, 2), tally.to_bytes()).model()
    assert all((one == other).all() for one, other in zip(again, all_sites, strict=True))
