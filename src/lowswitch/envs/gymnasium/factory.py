"""Environments that Gymnasium makes of a name and options, or why it makes none."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.text import nearest, options_of
from lowswitch.checks import shown
from lowswitch.envs.gymnasium.spaces import gymnasium
from lowswitch.learner import Learner

# options of gymnasium.make itself
_OF_MAKE = ("max_episode_steps", "disable_env_checker", "render_mode")


# what Stable-Baselines3 calls the options of learn and evaluate_policy
_OF_OTHERS = {
    "callback": "callbacks",
    "n_eval_episodes": "episodes",
    "n_episodes": "episodes",
    "total_timesteps": "episodes",
    "progress_bar": "progress",
}
# and its options that have no like here, with what there is instead
_NOT_HERE = {
    "deterministic": "a deployed policy plays no random actions, so leave it out",
    "eval_env": "call evaluate_policy(env, learner) in a callback",
    "gamma": "returns are sums over the horizon, without a discount, so leave it out",
    "reset_num_timesteps": "a learner always continues, so leave it out",
    "tensorboard_log": "give callbacks=TensorBoardLogger(folder)",
}


def environment(
    env: gymnasium.Env[Any, Any] | str, caller: Callable[..., Any] | None = None, /, **options: Any
) -> gymnasium.Env[Any, Any]:
    """The environment itself, or the one that Gymnasium makes of a name and options.

    caller: the function that got these options among its own.
    """
    if caller is not None:
        _require_meant_for_env(options, caller)
    if isinstance(env, str):
        return _made(*read_name(env, options))
    if options:
        raise ValueError(
            f"{', '.join(options)} would be given to gymnasium.make, but {env} is made already;"
            " pass its name instead"
        )
    _require_environment(env)
    return env


def _require_environment(env: Any) -> None:
    """Refuse what is no environment of Gymnasium, and say what it is."""
    if isinstance(env, type) or not hasattr(env, "step"):
        way_out = ""
        if isinstance(env, type):
            way_out = f"; that is a class: make one with {env.__name__}()"
        elif isinstance(getattr(env, "learner", env), Algorithm | Learner):
            way_out = "; the environment comes first"
        raise ValueError(
            f"env must be a Gymnasium environment or its name, not {shown(env)}{way_out}"
        )
    if hasattr(env, "step_async") and not isinstance(env, gymnasium.vector.VectorEnv):
        raise ValueError(
            f"{type(env).__name__} is a vector environment of Stable-Baselines3; make one"
            " of Gymnasium with gymnasium.make_vec(name, num_envs=...), or pass a single"
            " environment"
        )


def _require_meant_for_env(options: Mapping[str, Any], caller: Callable[..., Any]) -> None:
    """Refuse an option that is an option of the caller, written in another way."""
    own = [name for name in inspect.signature(caller).parameters if name != "options"]
    for key in options:
        if key in _NOT_HERE:
            raise ValueError(f"{caller.__name__} has no option {key!r}: {_NOT_HERE[key]}")
        meant = [_OF_OTHERS[key]] if key in _OF_OTHERS else []
        meant = meant or difflib.get_close_matches(key, own, n=1, cutoff=0.85)
        if meant and meant[0] in own:
            raise ValueError(f"{caller.__name__} has no option {key!r}; did you mean {meant[0]!r}?")


def read_name(text: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and all options of a text such as FrozenLake-v1:is_slippery=false.

    Without options, the part before a colon is a module: package.module:Name-v0.
    """
    name, _, rest = text.rpartition(":")
    if not ("=" in rest or re.search(r"-v\d+$", name)):
        return text, dict(options)
    written = options_of(rest, name, "environment")
    for twice in written.keys() & options.keys():
        raise ValueError(f"{name} has its option {twice!r} twice; give it once")
    return name, {**written, **options}


def _made(name: str, options: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    try:
        return gymnasium.make(name, **options)
    except gymnasium.error.Error as error:
        raise ValueError(f"Gymnasium makes no environment of {name!r}: {error}") from error
    except ModuleNotFoundError as error:
        module, colon, _ = name.partition(":")
        if not colon:
            raise  # a package that the environment needs
        raise ValueError(
            f"Gymnasium makes no environment of {name!r}: there is no module {module!r}"
        ) from error
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            _no_option(name, options)
            or f"Gymnasium makes no environment of {name!r} with the options {options}"
            f" ({type(error).__name__}: {error})"
        ) from error


def _no_option(name: str, options: Mapping[str, Any]) -> str:
    """Which option an environment does not have, in words; empty where it takes all of them."""
    entry: Any = gymnasium.spec(name).entry_point
    if isinstance(entry, str):
        entry = gymnasium.envs.registration.load_env_creator(entry)
    parameters = inspect.signature(entry).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return ""
    for key in options:
        if key not in (*parameters, *_OF_MAKE):
            return f"{name} has no option {key!r}; {nearest(key, parameters)}"
    return ""
