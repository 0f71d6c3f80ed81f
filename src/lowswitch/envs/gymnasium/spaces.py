"""The spaces of a Gymnasium environment as a learner carries them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowswitch.checks import shown
from lowswitch.envs.mdp import Scale
from lowswitch.features.maps import Features
from lowswitch.policy.spaces import ArraySpace, Form, GroupSpace, Numbering, Spaces, WholeSpace

try:
    import gymnasium as gymnasium
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'Gymnasium is not installed; install it with: pip install "lowswitch[gymnasium]"'
    ) from error


def spaces_of(
    env: Any,
    features: Features | None = None,
    reward_range: tuple[float, float] | None = None,
) -> Spaces:
    """How a learner sees an environment, or a vector of them: `learner.spaces` of a new learner.

    Actions are checked first, because no map helps there.

    Parameters
    ----------
    env
        The environment.
    features
        A map of `ls.features` for observations that are vectors. Without one, observations must be
        discrete, and are numbered.
    reward_range
        The smallest and the largest reward of a step.
    """
    observed, taken = _both(env)
    actions = numbering_of(taken, "actions")
    rewards = None if reward_range is None else reward_scale(reward_range)
    if features is None:
        return Spaces(numbering_of(observed, "observations"), actions, rewards)
    return Spaces(_fitting(features, observed), actions, rewards)


def _both(env: Any) -> tuple[Any, Any]:
    """The spaces of observations and of actions, or which of them is missing."""
    names = ("observation_space", "action_space")
    if isinstance(env, gymnasium.vector.VectorEnv):
        names = ("single_observation_space", "single_action_space")
    missing = [name for name in names if getattr(env, name, None) is None]
    if len(missing) == 2 and not hasattr(env, "step"):
        raise ValueError(f"env must be a Gymnasium environment or its name, not {shown(env)}")
    if missing:
        example = "gymnasium.spaces.Discrete(16)"
        raise ValueError(
            f"the environment {shown(env)} has no {missing[0]}; set it in its __init__, as in"
            f" self.{missing[0]} = {example}"
        )
    return getattr(env, names[0]), getattr(env, names[1])


def _fitting(features: Any, observed: Any) -> Features:
    """The features, if they are a map for observations of such a space."""
    if not isinstance(features, Features):
        raise ValueError(
            "features must be made by lowswitch.features, such as standardised, or own for a"
            f" function of yours, not {shown(features)}"
        )
    if isinstance(observed, spaces.Box):
        size = math.prod(observed.shape)
        if features.inputs is not None and size != features.inputs:
            raise ValueError(
                f"{features.name} are of {features.inputs} numbers, and the environment observes"
                f" {size}, {observed}"
            )
    return features


def reward_scale(reward_range: tuple[float, float]) -> Scale:
    """The scale from the least to the largest reward an environment can pay, 0 included."""
    scale = Scale.of(reward_range)
    low, high = scale.low, scale.high
    if not low <= 0 <= high:
        raise ValueError(
            f"reward_range must contain 0, which the steps after termination pay, not [{low:g},"
            f" {high:g}]; widen it"
        )
    return scale


def numbering_of(space: Any, what: str) -> Numbering:
    """The elements of a space, numbered from 0, or why they have no numbers."""
    form = _form(space)
    if form is None:
        raise ValueError(_refusal(space, what))
    return Numbering(form, what)


def _form(space: Any) -> Form | None:
    """The form of the elements of a space; None if it is not discrete."""
    if isinstance(space, spaces.Discrete):
        return WholeSpace(int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        first, sizes = (tuple(map(int, np.ravel(part))) for part in (space.start, space.nvec))
        return ArraySpace(first, sizes, tuple(space.shape), str(space.dtype))
    if isinstance(space, spaces.MultiBinary):
        size = math.prod(space.shape)
        return ArraySpace((0,) * size, (2,) * size, tuple(space.shape), str(space.dtype))
    if isinstance(space, spaces.Tuple | spaces.Dict):
        keys = tuple(space.spaces) if isinstance(space, spaces.Dict) else None
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        parts = [_form(part) for part in inner]
        found = tuple(part for part in parts if part is not None)
        if found and len(found) == len(parts):
            return GroupSpace(found, keys)
    return None


def _refusal(space: Any, what: str) -> str:
    """Why the elements of a space have no numbers, and what to do about it."""
    if what == "actions" and isinstance(space, spaces.Box):
        return (
            f"the actions are continuous, {space}, and a learner here chooses among finitely many;"
            " cut them into levels, as gymnasium.wrappers.DiscretizeAction(env, bins=5) does"
        )
    refused = (
        f"{what} must be Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of these, not"
        f" {space}"
    )
    wrap = f"wrap the environment in one that numbers its {what}"
    if what == "actions" or not isinstance(space, spaces.Box):
        return f"{refused}; {wrap}"
    if space.is_bounded():
        wrap += ", as gymnasium.wrappers.DiscretizeObservation(env, bins=10) does"
    return (
        f"{refused}; give learn features=ls.features.standardised(examples) to see them as vectors,"
        f" or {wrap}; if you know the reward, examples/cartpole.py in the repository shows another"
        " way"
    )
