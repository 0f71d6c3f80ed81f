"""The return of a policy in an environment, by playing it, and a picture of one episode."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lowswitch.checks import require_count, require_fraction, require_seed, shown
from lowswitch.envs.gymnasium.factory import environment
from lowswitch.envs.gymnasium.playing import (
    Episode,
    Playing,
    features_of,
    play,
    player_of,
    require_single,
    reset_seed,
    script_of,
)
from lowswitch.envs.gymnasium.spaces import gymnasium, spaces_of
from lowswitch.envs.mdp import Scale
from lowswitch.io import storage
from lowswitch.show.report import half_width


class Rollouts(NamedTuple):
    """The returns of a policy in some episodes: a Monte-Carlo estimate of its value."""

    returns: np.ndarray  # [episodes]  in the environment's units
    lengths: np.ndarray  # [episodes]  steps until an episode was over
    confidence: float
    return_range: tuple[float, float] | None = None  # of every return, by the range of rewards

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(self.returns.mean())

    @property
    def sd(self) -> float:
        """The standard deviation of the returns, NaN of a single one."""
        return float(self.returns.std(ddof=1)) if len(self.returns) > 1 else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """A confidence interval for the value.

        If all returns are 0 or 1 it is Clopper and Pearson's, which is right for any number of
        episodes; else it is Student's. A single return, and returns that are all equal, do not say
        how much they vary: then it is Hoeffding's, from the range of rewards, or NaN without one.
        """
        if np.isin(self.returns, (0.0, 1.0)).all():
            return exact_share(int(self.returns.sum()), len(self.returns), self.confidence)
        if (self.returns != self.returns[0]).any():
            half = half_width(self.returns, self.confidence)
            return self.mean - half, self.mean + half
        if self.return_range is None:
            return math.nan, math.nan
        return hoeffding(self.mean, len(self.returns), self.return_range, self.confidence)

    def __repr__(self) -> str:
        low, high = self.interval
        interval = f"{self.confidence:.0%} interval {low:.4g} to {high:.4g}"
        if math.isnan(low):
            interval = (
                "no interval, because equal returns do not say how much they vary; play more"
                " episodes or give reward_range"
            )
        count = len(self.returns)
        episodes = f"{count:,} episode{'s' * (count != 1)}"
        return f"Rollouts(mean return {self.mean:.4g}, {interval}, {episodes})"


def hoeffding(
    mean: float, size: int, reach: tuple[float, float], confidence: float
) -> tuple[float, float]:
    """Hoeffding's interval for the mean of numbers that lie in a range (JASA 1963, Theorem 2)."""
    low, high = reach
    half = (high - low) * math.sqrt(math.log(2 / (1 - confidence)) / (2 * size))
    return max(low, mean - half), min(high, mean + half)


def exact_share(hits: int, size: int, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's interval for a probability (Biometrika 1934)."""
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = float(betaincinv(hits, size - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, size - hits, 1 - tail)) if hits < size else 1.0
    return low, high


def evaluate_policy(
    env: gymnasium.Env[Any, Any] | str,
    policy: Any,
    *,
    episodes: int = 100,
    seed: int = 0,
    confidence: float = 0.95,
    features: Any = None,
    reward_range: tuple[float, float] | None = None,
    **options: Any,
) -> Rollouts:
    """Play a policy and report its returns; nothing is learned.

    Each episode is reset with a number made of the seed and its own number, so a vector environment
    gives the same returns. If the environment publishes its tables,
    `ls.from_gymnasium(...).evaluate(policy)` is exact.

    Parameters
    ----------
    env
        An environment, a vector of them, or a name for `gymnasium.make`.
    policy
        A learner or the result of `learn`, whose deployed policy is played, a mixture by drawing a
        member for each episode; or a table [H, S + 1], or a LinearPolicy with its `features`.
    episodes
        How many episodes are played.
    seed
        The seed of the episodes.
    confidence
        The confidence of the interval.
    features
        A map of `ls.features`, with a LinearPolicy.
    reward_range
        The smallest and the largest reward, by default the range of the learner; needed if returns
        do not vary.
    **options
        Options for `gymnasium.make`.
    """
    env, episodes = (
        environment(env, evaluate_policy, **options),
        require_count("episodes", episodes),
    )
    confidence = require_fraction("confidence", confidence, "such as 0.95")
    spaces = spaces_of(env, features_of(policy, features), reward_range)
    player = player_of(env, spaces, first_seed=None, episode_seed=require_seed(seed))
    played = list[Playing]()
    while len(played) < episodes:
        size = min(player.size, episodes - len(played))
        scripts = [script_of(policy, len(played) + i) for i in range(size)]
        played += player.play(scripts, len(played))
    returns = np.array([one.rewards.sum() for one in played])
    lengths = np.array([one.length for one in played])
    reach = _return_range(spaces.rewards or _range_of(policy), played[0].script.horizon)
    return Rollouts(returns, lengths, confidence, reach)


def _range_of(policy: Any) -> Scale | None:
    """The range of rewards that a learner learned with, if it says so."""
    spaces = getattr(getattr(policy, "learner", policy), "spaces", None)
    return None if spaces is None else spaces.rewards


def _return_range(rewards: Scale | None, horizon: int) -> tuple[float, float] | None:
    """The least and the largest return of an episode; the steps after its end pay 0."""
    return None if rewards is None else (rewards.low * horizon, rewards.high * horizon)


class _Camera(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps a picture of the beginning and of every step."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.frames: list[np.ndarray] = []

    def reset(self, **options: Any) -> Any:
        answer = self.env.reset(**options)
        self.frames = [self._picture()]
        return answer

    def step(self, action: Any) -> Any:
        answer = self.env.step(action)
        self.frames.append(self._picture())
        return answer

    def _picture(self) -> np.ndarray:
        frame = np.asarray(self.env.render())
        if frame.ndim != 3 or frame.dtype != np.uint8:
            raise ValueError(
                f"the environment renders {frame.dtype} of shape {frame.shape}, which is not a"
                " picture of [height, width, 3] bytes"
            )
        return frame


def record(
    env: gymnasium.Env[Any, Any] | str,
    policy: Any,
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    frames_per_second: float = 4.0,
    features: Any = None,
    **options: Any,
) -> Episode:
    """Play one episode by a policy and write it as a moving GIF.

    It needs Pillow, which comes with matplotlib; Gymnasium draws most environments with pygame.

    Parameters
    ----------
    env
        An environment that was made with render_mode="rgb_array", or a name.
    policy
        As in `evaluate_policy`.
    path
        The GIF file.
    seed
        The seed of the episode.
    frames_per_second
        The speed.
    features
        A map of `ls.features`, with a LinearPolicy.
    **options
        Options for `gymnasium.make`.
    """
    if Path(path).suffix.lower() != ".gif":
        raise ValueError(f"a recording is a GIF, so its name must end in .gif, not {str(path)!r}")
    if not frames_per_second > 0:
        raise ValueError(f"frames_per_second must be above 0, not {shown(frames_per_second)}")
    storage.require_writable(path)
    if isinstance(env, str):
        options.setdefault("render_mode", "rgb_array")
    env = environment(env, record, **options)
    require_single(env)
    if getattr(env, "render_mode", None) != "rgb_array":
        raise ValueError(
            f"the environment was made with render_mode={env.render_mode!r}; make it with"
            ' render_mode="rgb_array"'
        )
    camera = _Camera(env)
    spaces = spaces_of(env, features_of(policy, features))
    playing = play(camera, spaces, script_of(policy), reset_seed(seed, 0))
    _write_gif(camera.frames, path, frames_per_second)
    return playing.episode


def _write_gif(frames: list[np.ndarray], path: str | os.PathLike[str], rate: float) -> None:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a GIF needs Pillow; pip install pillow", name="PIL") from error
    first, *others = [Image.fromarray(frame) for frame in frames]
    with storage.replacing(path) as file:
        first.save(file, "GIF", save_all=True, append_images=others, duration=1000 / rate, loop=0)
