"""What a policy earns in an environment, by playing it, and a picture of one episode."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lowswitch.checks import require_count, require_fraction, require_seed, shown
from lowswitch.envs.gymnasium.bridge import (
    Episode,
    environment,
    numbers_of,
    play_episode,
    require_single,
    reset_seed,
)
from lowswitch.envs.gymnasium.environment_run import EnvironmentRun
from lowswitch.envs.gymnasium.spaces import gymnasium
from lowswitch.envs.gymnasium.vectors import player_of
from lowswitch.io import storage
from lowswitch.show.report import half_width
from lowswitch.table_learner import TableLearner


class Rollouts(NamedTuple):
    """What a policy earned in some episodes: a Monte-Carlo estimate of its value."""

    returns: np.ndarray  # [episodes]  in the environment's units
    lengths: np.ndarray  # [episodes]  steps until an episode was over
    confidence: float

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
        episodes; else it is Student's, and NaN for a single episode.
        """
        if np.isin(self.returns, (0.0, 1.0)).all():
            return exact_share(int(self.returns.sum()), len(self.returns), self.confidence)
        half = half_width(self.returns, self.confidence)
        return self.mean - half, self.mean + half

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"Rollouts(mean return {self.mean:.4g}, {self.confidence:.0%} interval {low:.4g} to"
            f" {high:.4g}, {len(self.returns):,} episodes)"
        )


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
    **options: Any,
) -> Rollouts:
    """Play a policy and report what it earns; nothing is learned.

    policy: a learner or the result of `learn`, whose deployed policy is played, a mixture by
    drawing a member for each episode; or a table [H, S + 1]. env: an environment, a vector of them,
    or a name for `gymnasium.make`. Each episode is reset with a number made of the seed and its own
    number, so a vector gives the same returns. Where the environment publishes its tables,
    `ls.from_gymnasium(...).evaluate(policy)` is exact.
    """
    env, episodes = environment(env, **options), require_count("episodes", episodes)
    confidence = require_fraction("confidence", confidence, "such as 0.95")
    player = player_of(env, first_seed=None, episode_seed=require_seed(seed))
    over, played = numbers_of(env).states.size, list[Episode]()
    while len(played) < episodes:
        size = min(player.size, episodes - len(played))
        tables = [table_for(policy, len(played) + i) for i in range(size)]
        played += player.play(tables, len(played))
    returns = np.array([episode.rewards.sum() for episode in played])
    lengths = np.array([np.count_nonzero(episode.states != over) for episode in played])
    return Rollouts(returns, lengths, confidence)


def table_for(policy: Any, ahead: int) -> np.ndarray:  # [H, S + 1]
    """The table that plays an episode: of a learner, the episode so many ahead of the next one."""
    if isinstance(policy, EnvironmentRun):
        policy = policy.learner
    if isinstance(policy, TableLearner):
        return policy.policy_for(policy.told + ahead)
    table = np.asarray(policy)
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise ValueError(
            "policy must be a learner, the result of learn, or a table [H, S + 1] of actions, not"
            f" {shown(policy)}"
        )
    return table


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
                f"the environment renders {frame.dtype} of shape {frame.shape}, which is no picture"
                " of [height, width, 3] bytes"
            )
        return frame


def record(
    env: gymnasium.Env[Any, Any] | str,
    policy: Any,
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    frames_per_second: float = 4.0,
    **options: Any,
) -> Episode:
    """Play one episode by a policy, as `evaluate_policy` takes it, and write it as a moving GIF.

    env: an environment that was made with render_mode="rgb_array", or a name. It needs Pillow,
    which comes with matplotlib; Gymnasium draws most environments with pygame.
    """
    if Path(path).suffix.lower() != ".gif":
        raise ValueError(f"a recording is a GIF, so its name must end in .gif, not {str(path)!r}")
    if not frames_per_second > 0:
        raise ValueError(f"frames_per_second must be above 0, not {shown(frames_per_second)}")
    storage.require_writable(path)
    if isinstance(env, str):
        options.setdefault("render_mode", "rgb_array")
    env = environment(env, **options)
    require_single(env)
    if getattr(env, "render_mode", None) != "rgb_array":
        raise ValueError(
            f"the environment was made with render_mode={env.render_mode!r}; make it with"
            ' render_mode="rgb_array"'
        )
    camera = _Camera(env)
    episode = play_episode(camera, table_for(policy, 0), seed=reset_seed(seed, 0))
    _write_gif(camera.frames, path, frames_per_second)
    return episode


def _write_gif(frames: list[np.ndarray], path: str | os.PathLike[str], rate: float) -> None:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a GIF needs Pillow; pip install pillow", name="PIL") from error
    first, *others = [Image.fromarray(frame) for frame in frames]
    with storage.replacing(path) as file:
        first.save(file, "GIF", save_all=True, append_images=others, duration=1000 / rate, loop=0)
