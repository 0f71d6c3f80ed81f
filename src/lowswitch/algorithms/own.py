"""A bonus or an update of your own: a function, which becomes a part of an algorithm."""

from __future__ import annotations

import ast
import dataclasses
import dis
import hashlib
import inspect
import platform
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from lowswitch.algorithms.estimators import Memory, OwnBonus, OwnUpdate
from lowswitch.checks import require_count, shown

Function = Callable[..., Any]

# what a function may ask for, by the names of its arguments
FOR_INITIAL = ("h", "H", "S", "A", "K", "iota")
_OF_VISITS = ("n", "y", "alpha", "q", "reward", "value", "values", "memory")
FOR_BONUS = (*FOR_INITIAL, *_OF_VISITS)
FOR_UPDATE = (*FOR_BONUS, "bonus")


def bonus(function: Function | None = None, *, memory: Memory = 0) -> Any:
    """Make a bonus of a function, which is compiled where that is possible.

    Put `@bonus` above a function that returns b_n, the bonus of visit n. The names of its arguments
    say what it is told: `n` (this visit included), `h` (from 0), `H`, `S`, `A`, `K` (episodes of
    the run), `iota` (log(S A T / p)), `alpha` (the learning rate), `q` (the estimate so far),
    `reward`, `y` (the next state; 0 at the last step), `value` (its value), `values` (the values of
    all next states [S], which it must not change) and `memory`. Keyword-only arguments are options
    with a default, and are floats. The result is a class: `mine(c=0.1)` is a bonus for `QLearning`
    or for an update of your own.

    memory: how many numbers of its own each (h, x, a) has, or "states" for one for each state. They
    begin as NaN, and the function may write them.
    """
    if function is None:
        return lambda given: bonus(given, memory=memory)
    return _part(function, OwnBonus, FOR_BONUS, memory, None)


def update(
    function: Function | None = None, *, memory: Memory = 0, initial: Function | None = None
) -> Any:
    """Make an update of a function, which is compiled where that is possible.

    Put `@update` above a function that returns the new estimate of an (h, x, a). It asks for what
    it needs as a `bonus` does, and can also ask for `bonus`, the value of the algorithm's bonus.
    Everything else is as in `QLearning`, and `clip` is an option too.

    initial: a function of any of `h`, `H`, `S`, `A`, `K` and `iota`, and of the same options, that
    returns the first estimate; by default it is the largest value that step h can have.
    """
    if function is None:
        return lambda given: update(given, memory=memory, initial=initial)
    return _part(function, OwnUpdate, FOR_UPDATE, memory, initial)


def initial_estimates(part: OwnUpdate, given: dict[str, Any]) -> list[float] | None:
    """The first estimate of each step, if a function says so."""
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


def _part(
    function: Function, base: type, known: tuple[str, ...], memory: Memory, initial: Any
) -> type:
    """The class of a function, whose fields are the options of the function."""
    _require_function(function, known)
    if memory != "states":
        require_count("memory", memory, least=0)
    if ("memory" in _arguments(function)) != (memory != 0):
        raise ValueError(
            f"{function.__qualname__} must ask for `memory` if it has any: give memory=1 or more,"
            ' or memory="states", and an argument called memory; or leave out both'
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
    taken = [field.name for field in dataclasses.fields(base) if field.name in options]
    if taken:
        raise ValueError(f"the option {taken[0]} is there already; give yours another name")
    attributes = {
        "function": staticmethod(function),
        "memory": memory,
        "source": fingerprint(function, initial, memory),
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
    """A plain function whose arguments are known, or an error that lists these."""
    if not isinstance(function, FunctionType):
        raise ValueError(f"@bonus and @update stand above a function, not {shown(function)}")
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
                f"{function.__qualname__} asks for {parameter.name}, which is not there; it may ask"
                f" for {', '.join(known)}, and have options with a default after a *"
            )


# ---- the source ----------------------------------------------------------------------------------


def fingerprint(function: Function, initial: Function | None, memory: Memory) -> str:
    """A hash of the text of a function, and of everything that it reads outside of itself."""
    total = hashlib.sha256(f"memory {memory}\0".encode())
    seen: set[int] = set()
    for one in (function, initial):
        for text in () if one is None else _texts(one, seen):
            total.update(text.encode() + b"\0")
    return total.hexdigest()


def _texts(function: Any, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    yield _source_text(function)
    closure = inspect.getclosurevars(function).nonlocals
    for name in sorted(_names_read(function.__code__)):
        if name in closure or name in function.__globals__:
            value = closure[name] if name in closure else function.__globals__[name]
            yield f"{name} = "
            yield from _value_texts(function, name, value, seen)


def _value_texts(function: Any, name: str, value: Any, seen: set[int]) -> Iterator[str]:
    """What a function reads: a number, a module, or another function."""
    inner = getattr(value, "py_func", value)
    if isinstance(inner, FunctionType):
        yield from _texts(inner, seen)
    elif isinstance(value, ModuleType):
        yield value.__name__
    elif value is None or isinstance(value, bool | int | float | str):
        yield repr(value)
    elif isinstance(value, BuiltinFunctionType) or type(value).__name__ == "ufunc":
        yield value.__name__
    else:
        raise ValueError(
            f"{function.__qualname__} reads {name}, a {type(value).__name__}, which could change"
            " without a trace; let it read numbers and functions only, or give it an option"
        )


def _names_read(code: CodeType) -> set[str]:
    """The global and outer names that a function reads, functions inside of it included."""
    read = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"}
    names = {str(one.argval) for one in dis.get_instructions(code) if one.opname in read}
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return names.union(*map(_names_read, inner))


def _source_text(function: Any) -> str:
    """The text of a function from `def` on; its bytecode where there is no text."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
        (node,) = ast.parse(text).body
        is_there = isinstance(node, ast.FunctionDef) and node.name == function.__name__
    except (OSError, TypeError, ValueError, SyntaxError, tokenize.TokenError):
        is_there = False
    if is_there:
        lines = text.splitlines()[node.lineno - 1 :]
        return "\n".join(line.rstrip() for line in lines).strip()
    code = function.__code__
    constants = [one for one in code.co_consts if not isinstance(one, CodeType)]
    facts = platform.python_version_tuple()[:2], code.co_code.hex(), code.co_names
    return repr((facts, code.co_varnames, constants[1:], function.__kwdefaults__))
