"""Q-learners with a user's own bonus or update: each pair of functions is a kind.

A driver is compiled once for every kind, so a user's function is compiled into its own copy of the
drivers and costs other learners nothing. The kind is a class whose name contains the hash of both
sources. Cached kernels refer to it by that name, so only the same source finds them again.
"""

import re
import time
import warnings
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit, objmode, typeof, types
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from lowswitch.kernels.arrays import OwnSpec
from lowswitch.kernels.compile import COUNTED, INLINED, INNER
from lowswitch.kernels.qlearning import learning_rate, mixed, plain_bonus

KINDS: dict[str, type] = {}
_NAME = re.compile(r"Own_[0-9a-f]{64}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NOISE = ("Failed in", "During", "File", "- Resolution")
_CALLS = 2_000  # that measure the speed of a function that does not compile


def _read_only(array):
    """A view of an array that nobody can write to."""
    view = array.view()
    view.flags.writeable = False
    return view


@intrinsic
def _compiled_read_only(context, array):
    """The same array, of a type that a function which writes to it does not compile for."""

    def lowered(target, builder, signature, values):
        return impl_ret_borrowed(target, builder, signature.return_type, values[0])

    return array.copy(readonly=True)(array), lowered


# for each argument that a function may ask for: the expression that provides it, and an example
GIVEN = {
    "n": ("np.int64(n)", 1),
    "h": ("np.int64(h)", 0),
    # drivers that are told episodes do not know the successor of the last step
    "y": ("np.int64(y if h + 1 < spec.H else 0)", 0),
    "H": ("spec.H", 1),
    "S": ("spec.S", 1),
    "A": ("spec.A", 1),
    "K": ("spec.timing.episodes", 1),
    "iota": ("spec.iota", 1.0),
    "alpha": ("alpha", 1.0),
    "q": ("q", 1.0),
    "reward": ("reward", 0.0),
    "value": ("value", 1.0),
    "bonus": ("bonus", 1.0),
    "values": (
        'read_only(tables.rows["value"][(h + 1) * spec.S : (h + 2) * spec.S])',
        _read_only(np.zeros((2, 2))[:, 0]),
    ),
    "memory": ("tables.memory[{first} : {last}]", np.zeros(2)),
}
# the part of an (h, x, a)'s memory that belongs to each function
_MEMORY = {
    "bonus": {"first": "i * spec.width", "last": "i * spec.width + spec.bonus_width"},
    "update": {"first": "i * spec.width + spec.bonus_width", "last": "(i + 1) * spec.width"},
}
_LEARN = """
def updated(spec, tables, scale, base, h, i, n, reward, value, y):
    q, alpha = tables.cells[np.uint64(i)]["q"], learning_rate(n, spec.H)
    bonus = {bonus}
    if bonus > spec.H:
        tables.clock[0]["drowned"] += 1
    new = {update}
    if not abs(new) < np.inf and tables.faults[0] == 0:
        by_bonus = 0 if abs(bonus) < np.inf else 1
        tables.faults[0] = 1 + i + spec.H * spec.S * spec.A * (2 * n + by_bonus)
    return new
"""


class PlainPythonWarning(UserWarning):
    """A user's function does not compile, so it runs as plain Python."""


def __getattr__(name):
    """The kind that a cached kernel was compiled for, before anybody has given its functions."""
    if _NAME.fullmatch(name):
        return _kind(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _kind(name):
    parts = {"__module__": __name__, "__slots__": (), "kernels": {}, "is_plain": False}
    return KINDS.setdefault(name, type(name, (OwnSpec,), parts))


def own_kind(digest: str, functions: Sequence[Any], usual: bool) -> Any:
    """The kind of learner with a bonus and an update, each a function or None.

    digest: the hash of their sources.
    usual: whether the library's own bonus is used if none is given.
    """
    kind = _kind(f"Own_{digest}")
    if kind.kernels:
        return kind
    is_compiled = not isinstance(learning_rate, FunctionType)
    named = {
        "np": np,
        "learning_rate": learning_rate,
        "mixed": mixed,
        "plain_bonus": plain_bonus,
        "read_only": _compiled_read_only if is_compiled else _read_only,
    }
    calls = {
        "bonus": "plain_bonus(spec.usual, tables, i, n, alpha, value)" if usual else "0.0",
        "update": "mixed(alpha, q, reward, value, alpha * bonus)",
    }
    for name, function in zip(_MEMORY, functions, strict=True):
        if function is not None:
            named[f"own_{name}"], is_plain = _callable(function)
            kind.is_plain = kind.is_plain or is_plain
            calls[name] = _call(name, function)
    exec(_LEARN.format(**calls), named)
    kind.kernels = {"updated": named["updated"]}
    return kind


def _call(name, function):
    """The source text that calls the bonus or the update: first its arguments, then its options."""
    given = [GIVEN[argument][0].format(**_MEMORY[name]) for argument in _arguments(function)]
    more = function.__kwdefaults__ or {}
    given += [f"spec.{name}_options[{number}]" for number in range(len(more))]
    return f"np.float64(own_{name}({', '.join(given)}))"


def _arguments(function):
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def _positional(function):
    """The function with its options in order, as compiled code calls it."""
    code = function.__code__.replace(
        co_argcount=function.__code__.co_argcount + function.__code__.co_kwonlyargcount,
        co_kwonlyargcount=0,
    )
    made = type(function)(code, function.__globals__, function.__name__, None, function.__closure__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def _callable(function):
    """A function that kernels can call, and whether it is plain Python."""
    plain = _positional(function)
    example = [GIVEN[name][1] for name in _arguments(function)]
    example += [0.5] * len(function.__kwdefaults__ or {})
    reason = ""
    for options in (INLINED, {**COUNTED, **INNER}):  # the second for what makes lists and the like
        compiled = njit(**options, boundscheck=True)(plain)
        if compiled is plain:  # nothing is compiled
            return plain, False
        signature = tuple(map(typeof, example))
        try:
            compiled.compile(signature)
        except (NumbaError, UnsupportedBytecodeError) as error:
            reason = _reason(error)
            continue
        _require_number(function, compiled.overloads[signature].signature.return_type)
        return compiled, False
    way_out = "write it with numbers, the functions of math and functions under numba.njit"
    if {"memory", "values"} & set(_arguments(function)):
        raise ValueError(
            f"{function.__qualname__} does not compile ({reason}), but a function that "
            f"uses memory or values must; {way_out}, and do not write to values"
        )
    leave = _in_python(plain, len(example))
    warnings.warn(
        f"{function.__qualname__} does not compile ({reason}), so it runs as plain Python, about"
        f" {_calls_per_second(leave, example):,} times per second; {way_out}",
        PlainPythonWarning,
        stacklevel=2,
    )
    return leave, True


def _require_number(function, found):
    """Refuse a function that returns something else than a number, on any path."""
    if not isinstance(found, types.Integer | types.Float | types.Boolean):
        raise ValueError(
            f"{function.__qualname__} returns {found}, which is not always a number; let every path"
            " return one"
        )


def _reason(error):
    """Numba's explanation in one line, without colours and advice."""
    lines = [_COLOUR.sub("", line).strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(_NOISE)]
    return (said or [type(error).__name__])[0].rstrip(".:")


def _calls_per_second(leave, example):
    """How often compiled code can call it per second, to one digit."""

    def call_often(times):
        for _ in range(times):
            leave(*given)

    given = tuple(example)
    compiled = njit(**COUNTED | {"nogil": False})(call_often)
    compiled(1)
    begin = time.perf_counter()
    compiled(_CALLS)
    return int(float(f"{_CALLS / (time.perf_counter() - begin):.0e}"))


def _in_python(plain, size):
    """A compiled function that calls back into Python."""
    names = ", ".join(f"v{number}" for number in range(size))
    text = f"""
def leave({names}):
    with objmode(result="float64"):
        result = float(plain({names}))
    return result
"""
    named = {"objmode": objmode, "plain": plain}
    exec(text, named)
    return njit(**COUNTED | {"nogil": False}, **INNER)(named["leave"])
