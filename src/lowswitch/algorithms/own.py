"""Turn a function of your own into a bonus or an update, as a part of an algorithm."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from lowswitch.algorithms.estimators import Memory, OwnBonus, OwnUpdate
from lowswitch.algorithms.fingerprints import first_difference, function_texts, hash_of
from lowswitch.checks import require_count, shown

Function = Callable[..., Any]

# the arguments that a function may ask for, by name
FOR_INITIAL = ("h", "H", "S", "A", "K", "iota")
_OF_VISITS = ("n", "y", "alpha", "q", "reward", "value", "values", "memory")
FOR_BONUS = (*FOR_INITIAL, *_OF_VISITS)
FOR_UPDATE = (*FOR_BONUS, "bonus")


def bonus(function: Function | None = None, *, memory: Memory = 0) -> Any:
    """Turn a function into a bonus, and compile it if possible.

    Put `@bonus` above a function that returns b_n, the bonus of visit n. The function receives what
    its argument names ask for: `n` (this visit included), `h` (from 0), `H`, `S`, `A`, `K`
    (episodes of the run), `iota` (log(S A T / p)), `alpha` (the learning rate), `q` (the estimate
    so far), `reward`, `y` (the next state; 0 at the last step), `value` (its value), `values` (the
    values of all next states [S], which it must not change) and `memory`. Keyword-only arguments
    are options; they need a default and are floats. The result is a class: `mine(c=0.1)` is a bonus
    for `QLearning` or for an update of your own.

    Parameters
    ----------
    function
        The function; without it, a decorator with this option is returned.
    memory
        How many numbers the function can store for each (h, x, a), or "states" for one number per
        state. They start as NaN, and the function may write them.
    """
    if function is None:
        return lambda given: bonus(given, memory=memory)
    return _part(function, OwnBonus, FOR_BONUS, memory, None)


def update(
    function: Function | None = None, *, memory: Memory = 0, initial: Function | None = None
) -> Any:
    """Turn a function into an update, and compile it if possible.

    Put `@update` above a function that returns the new estimate of an (h, x, a). It asks for its
    arguments by name as a `bonus` does, and can also ask for `bonus`, the value of the algorithm's
    bonus. An update that does not ask for it needs `NoBonus`. Everything else is as in
    `QLearning`, including the option `clip`.

    Parameters
    ----------
    function
        The function; without it, a decorator with these options is returned.
    memory
        How many numbers the function can store for each (h, x, a), as for `bonus`.
    initial
        A function of any of `h`, `H`, `S`, `A`, `K` and `iota`, and of the same options, that
        returns the first estimate. By default it is the largest value possible at step h.
    """
    if function is None:
        return lambda given: update(given, memory=memory, initial=initial)
    made = _part(function, OwnUpdate, FOR_UPDATE, memory, initial)
    made.reads_bonus = "bonus" in _arguments(function)
    return made


def initial_estimates(part: OwnUpdate, given: dict[str, Any]) -> list[float] | None:
    """The first estimate of each step, if the part has a function for it."""
    function = part.initial
    if function is None:
        return None
    options = {name: getattr(part, name) for name in function.__kwdefaults__ or {}}
    names = _arguments(function)
    found = [
        float(function(*({**given, "h": h}[name] for name in names), **options))
        for h in range(given["H"])
    ]
    if not all(abs(one) < float("inf") for one in found):
        raise ValueError(
            f"the first estimates of {type(part).__name__} must be finite numbers, not {found}"
        )
    return found


def require_unchanged(part: OwnBonus | OwnUpdate) -> None:
    """Refuse a function if something that it reads has changed since it was defined.

    It was compiled with the values of that time, and its hash is of them.
    """
    now = tuple(function_texts(_functions(part.function, getattr(part, "initial", None))))
    if now != part.texts:
        name = first_difference(part.texts, now)
        raise ValueError(
            f"{type(part).__name__} reads {name}, which has changed since {type(part).__name__} was"
            f" defined; define it again, or make {name} an option"
        )


def _functions(function: Any, initial: Any) -> tuple[Function, ...]:
    return (function,) if initial is None else (function, initial)


def _part(
    function: Function, base: type, known: tuple[str, ...], memory: Memory, initial: Any
) -> Any:
    """Make a class from a function; its fields are the options of the function."""
    _require_function(function, known)
    if memory != "states":
        require_count("memory", memory, least=0)
    if ("memory" in _arguments(function)) != (memory != 0):
        raise ValueError(
            f"{function.__qualname__} must ask for `memory` to have any: give memory=1 or "
            'more, or memory="states", and an argument called memory; or leave out both'
        )
    options = dict(function.__kwdefaults__ or {})
    if initial is not None:
        _require_function(initial, FOR_INITIAL)
        unknown = set(initial.__kwdefaults__ or {}) - options.keys()
        if unknown:
            raise ValueError(
                f"{initial.__qualname__} has the option {sorted(unknown)[0]}, which"
                f" {function.__qualname__} does not have; give it to both"
            )
    fields = [field.name for field in dataclasses.fields(base)]
    taken = [name for name in (*fields, *FOR_UPDATE) if name in options]
    if taken:
        raise ValueError(f"the option name {taken[0]} is taken; choose another name for yours")
    texts = tuple(function_texts(_functions(function, initial)))
    attributes = {
        "function": staticmethod(function),
        "memory": memory,
        "texts": texts,
        "source": hash_of(iter([f"memory {memory}", *texts])),
        "__doc__": function.__doc__,
        **({} if initial is None else {"initial": staticmethod(initial)}),
    }
    made = dataclasses.make_dataclass(
        function.__name__,
        [(name, float, value) for name, value in options.items()],
        bases=(base,),
        namespace=attributes,
        frozen=True,
        kw_only=True,
    )
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def _arguments(function: Function) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def _require_function(function: Any, known: tuple[str, ...]) -> None:
    """Check that this is a plain function with known arguments; otherwise raise an error that lists
    them.
    """
    if not isinstance(function, FunctionType):
        raise ValueError(f"@bonus and @update go above a function, not {shown(function)}")
    for parameter in inspect.signature(function).parameters.values():
        is_option = parameter.kind is parameter.KEYWORD_ONLY
        if is_option and parameter.default is parameter.empty:
            raise ValueError(
                f"the option {parameter.name} of {function.__qualname__} needs a default"
            )
        if not is_option and (
            parameter.name not in known or parameter.default is not parameter.empty
        ):
            raise ValueError(
                f"{function.__qualname__} asks for {parameter.name}, which does not "
                f"exist; it may ask for {', '.join(known)}, and have options with a "
                "default after a *"
            )
