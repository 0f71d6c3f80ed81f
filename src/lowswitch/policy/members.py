"""The two parts of a deployment: a protocol, which most cases follow, and a trial."""

from __future__ import annotations

from typing import Literal

import numpy as np

from lowswitch.kernels.streams import drawn_members

Part = Literal["protocol", "trial"]


class Members:
    """Several policies, of which each episode plays one; some of them may be a trial.

    Which member plays an episode is drawn from the noise stream `key` and the episode's number.
    """

    key: np.uint64
    members: int
    has_protocol: bool  # whether those outside of the trial all play one policy, the protocol

    @property
    def in_trial(self) -> np.ndarray:  # [members]
        """Which members are the trial; none where there is no protocol."""
        raise NotImplementedError

    @property
    def share(self) -> float | None:
        """The share of the cases that enter the trial; None where there is no protocol."""
        return float(self.in_trial.mean()) if self.has_protocol else None

    def part(self, episode: int) -> Part | None:
        """Whether an episode is in the trial or follows the protocol; None if there is neither."""
        if not self.has_protocol:
            return None
        return "trial" if self.in_trial[self.member_for(np.array([episode]))[0]] else "protocol"

    def member_for(self, episodes: np.ndarray) -> np.ndarray:  # [n]
        """Which member plays each of these episodes [n]."""
        return drawn_members(self.key, self.members, np.asarray(episodes))
