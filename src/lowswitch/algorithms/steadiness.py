"""Whether a function of the user's could give another result when it is called again."""

from __future__ import annotations

import dis
import enum
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from lowswitch.io.archive import UnknownPartError

PLAIN = bool | int | float | complex | str | bytes | enum.Enum | np.generic | None
# modules whose functions return something else at each call, or on each machine
_UNSTEADY = {"datetime", "numpy.random", "os", "random", "secrets", "time", "uuid"}
_UNSTEADY_ROOTS = tuple(f"{name}." for name in _UNSTEADY)
_HIDDEN = {"__import__", "eval", "exec"}  # builtins that read what cannot be seen
_FILES = {"input", "open"}
FROM_ARGUMENTS = "compute the result from the arguments alone"
BARE_CALL = "()"  # at the end of a path of attributes: called without arguments


def require_steady(reader: str, name: str, owner: Any) -> None:
    """Refuse a method of an object, and a module whose functions are not steady."""
    is_module = owner is None or isinstance(owner, ModuleType)
    if not is_module or getattr(owner, "__name__", "") in _UNSTEADY:
        raise _unsteady(reader, name, FROM_ARGUMENTS)


def require_repeatable_use(
    function: Any, name: str, value: Any, uses: set[tuple[str, ...]], way_out: str
) -> None:
    """Refuse what differs from call to call; a generator that is made with a seed does not."""
    for path in sorted(uses):
        found, used, rest, place = value, name, list(path), ""
        while rest and isinstance(found, ModuleType):
            place, used = found.__name__, f"{used}.{rest[0]}"
            found = getattr(found, rest.pop(0), None)
        places = place, getattr(found, "__module__", ""), _kind_module(found)
        is_maker = isinstance(found, type) or used.endswith("default_rng")
        is_steady = isinstance(found, PLAIN) or (is_maker and not rest)
        if not is_steady and any(f"{one}.".startswith(_UNSTEADY_ROOTS) for one in places):
            raise _unsteady(function.__qualname__, used, way_out)


def require_seen(function: FunctionType, *, is_once: bool) -> None:
    """Refuse what a function takes from where it cannot be seen.

    is_once: whether no import and no file is allowed at all; otherwise only those imports are
    refused that bring random numbers, a clock or the environment.
    """
    for code in _codes_in(function.__code__):
        for name in _imported(code):
            if is_once or f"{name}.".startswith(_UNSTEADY_ROOTS):
                raise UnknownPartError(
                    f"{function.__qualname__} imports {name} inside of the function, where"
                    " nobody sees what it takes from it; import it at the top of the file"
                )
    hidden = _HIDDEN | _FILES if is_once else _HIDDEN
    for name in sorted((hidden & names_read(function.__code__).keys()) - set(function.__globals__)):
        raise _unsteady(function.__qualname__, f"through {name}", FROM_ARGUMENTS)


def _imported(code: CodeType) -> Iterator[str]:
    """What a code imports: of `import numpy as np` numpy, and numpy.random where it reads that."""
    module, aliases, last = "", {}, ""
    for one in dis.get_instructions(code):
        name = str(one.argval)
        if one.opname == "IMPORT_NAME":
            module = name
            yield name
        elif one.opname == "IMPORT_FROM":
            yield f"{module}.{name}"
        elif one.opname in {"STORE_FAST", "STORE_DEREF"}:
            aliases[name] = module
            module = ""
        elif one.opname in {"LOAD_ATTR", "LOAD_METHOD"} and aliases.get(last):
            yield f"{aliases[last]}.{name}"
        last = name if one.opname in {"LOAD_FAST", "LOAD_DEREF"} else ""


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object, and the code objects of the functions inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes_in(inner)


def _kind_module(value: Any) -> str:
    """The module of the class of an object, or of the object that a method belongs to."""
    return type(getattr(value, "__self__", value)).__module__


def _unsteady(reader: str, name: str, way_out: str) -> UnknownPartError:
    return UnknownPartError(
        f"{reader} reads {name}, which can differ from call to call, so no run could be repeated;"
        f" {way_out}"
    )


def names_read(code: CodeType) -> dict[str, set[tuple[str, ...]]]:
    """The global and outer names that a function reads, functions inside of it included.

    For each name it has the attributes that are read of it: {("random", "normal")} for
    `np.random.normal`, and {("random", "default_rng", "()")} for `np.random.default_rng()`.
    """
    names: dict[str, set[tuple[str, ...]]] = {}
    path: list[str] = []
    for one in (*dis.get_instructions(code), None):
        if one and path and one.opname in {"LOAD_ATTR", "LOAD_METHOD"}:
            path.append(str(one.argval))
            continue
        if one and one.opname in {"PRECALL", "PUSH_NULL"}:
            continue
        if path and one and one.opname == "CALL" and one.arg == 0:
            path.append(BARE_CALL)
        if path:
            names.setdefault(path[0], set()).add(tuple(path[1:]))
        is_name = one and one.opname in {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"}
        path = [str(one.argval)] if one and is_name else []
    for inner in (one for one in code.co_consts if isinstance(one, CodeType)):
        for name, uses in names_read(inner).items():
            names[name] = names.get(name, set()) | uses
    return names
