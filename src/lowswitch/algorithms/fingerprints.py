"""Hashes of code that is not the library's: of its text, and of everything that it reads.

Results are found again by them, and files refuse to go on with another code.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import inspect
import itertools
import platform
import sys
import textwrap
import tokenize
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from lowswitch.algorithms.steadiness import (
    BARE_CALL,
    PLAIN,
    names_read,
    require_repeatable_use,
    require_seen,
    require_steady,
)

_INSTALLED = {"site-packages", "dist-packages"}  # folders of packages that are not the user's
_LOGGING = {("append",), ("extend",), ("add",)}  # what a function that only keeps a log does
# the texts of functions as they were when they were first read: the file may change after that
_REMEMBERED: weakref.WeakKeyDictionary[FunctionType, str] = weakref.WeakKeyDictionary()


def fingerprint_of(code: Any, *, strict: bool = True) -> str:
    """A hash of a function, a class or a callable object.

    Global values, other functions and own modules that it reads are part of it. strict: refuse code
    that reads what cannot be hashed; otherwise such values enter by their type alone.
    """
    return hash_of(_Reader(strict, _home(code)).code(code))


def hash_of(texts: Iterator[str]) -> str:
    """One hash of several texts."""
    total = hashlib.sha256()
    for text in texts:
        total.update(text.encode() + b"\0")
    return total.hexdigest()


def function_texts(functions: tuple[Callable[..., Any], ...]) -> Iterator[str]:
    """The text of functions that are compiled once, and of everything that they read.

    So they must not read what may change, such as a list, a clock or random numbers. Their own text
    is the one of the first time; everything else is as it is now.
    """
    reader = _Reader(strict=True, home=_home(functions[0]), is_once=True)
    for one in functions:
        yield from reader.function(one)


def require_repeatable(code: Any, way_out: str) -> None:
    """Refuse code that reads a clock, the environment, or random numbers without a seed."""
    for _ in _Reader(strict=False, home=_home(code), repeatable=way_out).code(code):
        pass


@contextmanager
def unchanged(part: Any, way_out: str) -> Iterator[None]:
    """Refuse an object whose methods change themselves or what they read.

    Later results could depend on earlier calls. A list that they only add to is a log, and may
    change.
    """
    before = _state_of(part)
    yield
    now = _state_of(part)
    if now != before:
        raise ValueError(
            f"{type(part).__name__} changes {first_difference(before, now)}, so its results could"
            f" depend on earlier calls, which no run could repeat; {way_out}"
        )


def _state_of(part: Any) -> tuple[str, ...]:
    reader = _Reader(strict=False, home=_home(type(part)), is_state=True)
    return (*reader.type(type(part)), *reader.attributes(part))


def first_difference(before: Sequence[str], now: Sequence[str]) -> str:
    """The first name whose value differs between two texts of code."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    same = len(list(pairs))
    names = [text for text in max(now, before, key=len)[: same + 1] if text.endswith(" = ")]
    return names[-1].removesuffix(" = ")


def remember(kind: type) -> None:
    """Keep the texts of the methods of a class that is being defined."""
    if is_own(kind):
        for value in vars(kind).values():
            for function in _functions_in(value):
                _REMEMBERED[function] = _source_text(function)


def is_own(kind: type) -> bool:
    """Whether a class is not one of the library."""
    return not kind.__module__.startswith("lowswitch.")


class _Reader:
    """Reads code, each function, class and module once.

    home: the package of the code, which is read even if it is installed. is_once: whether nothing
    may be read that can change later. is_state: whether to read mutable defaults too, and to leave
    out what is only added to. repeatable: the way out for code that could not be repeated; if
    empty, such code is read like any other.
    """

    def __init__(
        self,
        strict: bool,
        home: str,
        *,
        is_once: bool = False,
        is_state: bool = False,
        repeatable: str = "",
    ) -> None:
        self.strict, self.home, self.is_once = strict, home, is_once
        self.is_state, self.repeatable = is_state, repeatable
        self.seen: set[int] = set()

    def code(self, code: Any) -> Iterator[str]:
        """The texts of a function, a class or a callable object."""
        is_function = isinstance(code, FunctionType)
        return self.function(code) if is_function else self.value("", "", code)

    def function(self, function: Any) -> Iterator[str]:
        """The text of a function, and the values of the names that it reads."""
        if self._is_seen(function):
            return
        text = _REMEMBERED.get(function) or _source_text(function)
        if self.is_once:
            _REMEMBERED[function] = text
        yield text
        closure = inspect.getclosurevars(function).nonlocals
        if self.is_state:
            yield from self._defaults(function)
        if self.is_once or self.repeatable:
            require_seen(function, is_once=self.is_once)
        for name, uses in sorted(names_read(function.__code__).items()):
            if self.is_state and uses <= _LOGGING:
                continue
            if name in closure or name in function.__globals__:
                value = closure[name] if name in closure else function.__globals__[name]
                yield f"{name} = "
                if self.is_once and isinstance(value, ModuleType):
                    yield from self._uses(function.__qualname__, name, value, uses)
                else:
                    if self.repeatable:
                        require_repeatable_use(function, name, value, uses, self.repeatable)
                    yield from self.value(function.__qualname__, name, value)

    def _defaults(self, function: FunctionType) -> Iterator[str]:
        """The default values that a function can change."""
        for name, given in inspect.signature(function).parameters.items():
            if isinstance(given.default, list | dict | set):
                yield f"{name} = "
                yield from self.value(function.__qualname__, name, given.default)

    def attributes(self, part: Any) -> Iterator[str]:
        """The attributes of an object without its cached results."""
        for name, value in sorted(getattr(part, "__dict__", {}).items()):
            kept = inspect.getattr_static(type(part), name, None)
            if not isinstance(kept, functools.cached_property):
                yield f"self.{name} = "
                yield from self.value(type(part).__qualname__, name, value)

    def type(self, kind: type) -> Iterator[str]:
        """The methods and the values of a class; its fields are values of its objects."""
        yield f"{kind.__module__}.{kind.__qualname__}"
        if not self._is_read(kind.__module__) or self._is_seen(kind):
            return
        fields = {*getattr(kind, "__dataclass_fields__", ()), *getattr(kind, "_fields", ())}
        fields.add("citation")  # words about it
        for base in kind.__bases__:
            yield from self.type(base)
        for name, value in sorted(vars(kind).items()):
            functions = _functions_in(value)
            if name.startswith("__"):  # most of these are made by Python or by `dataclass`
                functions = [one for one in functions if one in _REMEMBERED]
            for one in functions:
                yield from self.function(one)
            if not (functions or name.startswith(("__", "_abc_")) or name in fields):
                yield f"{name} = "
                yield from self.value(kind.__qualname__, name, value)

    def value(self, reader: str, name: str, value: Any) -> Iterator[str]:
        """What a name stands for."""
        inner = value if isinstance(value, FunctionType) else _unwrapped(value)
        if isinstance(inner, FunctionType):
            yield from self._function_or_name(inner)
        elif isinstance(value, ModuleType):
            yield from self._module(value)
        elif isinstance(value, type):
            yield from self.type(value)
        elif isinstance(value, PLAIN):
            yield repr(value)
        elif isinstance(value, BuiltinFunctionType) or type(value).__name__ == "ufunc":
            if self.is_once:
                require_steady(reader, name, getattr(value, "__self__", None))
            yield value.__name__
        elif isinstance(value, np.ndarray) and not (value.dtype.hasobject or self.is_once):
            yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
        elif (parts := self._parts(value)) is not None:
            yield type(value).__qualname__
            for part in parts:
                yield from self.value(reader, name, part)
        elif self.is_state and hasattr(value, "__next__"):
            yield repr(value)
        elif self.strict:
            raise ValueError(
                f"{reader} reads {name}, a {type(value).__name__}, which could change without a"
                " trace; let it read numbers and functions only, or give it an option"
            )
        else:
            yield f"{type(value).__module__}.{type(value).__qualname__}"

    def _parts(self, value: Any) -> list[Any] | None:
        """The parts of a value that has some, in an order of their own."""
        if isinstance(value, tuple):
            return list(value)
        if self.is_once:
            return None
        if isinstance(value, list):
            return value
        if isinstance(value, set | frozenset):
            return sorted(value, key=repr)
        if isinstance(value, dict):
            return [part for item in sorted(value.items(), key=repr) for part in item]
        if isinstance(value, functools.partial):
            return [value.func, value.args, value.keywords]
        if isinstance(value, MethodType):
            return [value.__func__, value.__self__]
        is_frozen = dataclasses.is_dataclass(value) and type(value).__hash__ is not None
        if is_frozen or (not self.strict and self._is_read(type(value).__module__)):
            if self._is_seen(value):
                return []
            return [type(value), {} if not hasattr(value, "__dict__") else dict(vars(value))]
        return None

    def _function_or_name(self, function: FunctionType) -> Iterator[str]:
        """The text of a function, or the name of a function of another library."""
        if self._is_read(function.__module__):
            yield from self.function(function)
        else:
            yield f"{function.__module__}.{function.__qualname__}"

    def _module(self, module: ModuleType) -> Iterator[str]:
        """The name of a module, and the text of an own one; what it imports is not followed."""
        yield module.__name__
        file = getattr(module, "__file__", None)
        if file and self._is_read(module.__name__, file) and not self._is_seen(module):
            try:
                yield Path(file).read_text(encoding="utf-8", errors="replace")
            except OSError:
                return

    def _uses(
        self, reader: str, name: str, module: ModuleType, uses: set[tuple[str, ...]]
    ) -> Iterator[str]:
        """The name of a module, and the values in an own one that a function reads."""
        yield module.__name__
        for path in sorted({tuple(one for one in path if one != BARE_CALL) for path in uses}):
            value: Any = module
            used = name
            for one in path:
                require_steady(reader, used, value)
                value, used = getattr(value, one, None), f"{used}.{one}"
                if not isinstance(value, ModuleType):
                    break
            if self._is_read(module.__name__):
                yield f"{used} = "
                yield from self.value(reader, used, value)
            elif isinstance(value, BuiltinFunctionType | ModuleType):
                require_steady(reader, used, getattr(value, "__self__", value))

    def _is_read(self, name: str | None, file: str | None = None) -> bool:
        """Whether a module is the user's: not this library, not Python's, and not installed."""
        name = name or ""
        root = name.partition(".")[0]
        if root in {"lowswitch", "builtins", *sys.stdlib_module_names}:
            return False
        file = file or getattr(sys.modules.get(name), "__file__", None)
        return root == self.home or file is None or not _INSTALLED & set(Path(file).parts)

    def _is_seen(self, value: Any) -> bool:
        known = id(value) in self.seen
        self.seen.add(id(value))
        return known


def _functions_in(value: Any) -> list[FunctionType]:
    """The functions behind an entry of a class: of a method, a property or a static method."""
    names = ("__func__", "fget", "fset", "func")
    given = [value, *(getattr(value, name, None) for name in names)]
    is_wrapper = isinstance(
        value, staticmethod | classmethod | property | functools.cached_property
    )
    return [one for one in (given if is_wrapper else given[:1]) if isinstance(one, FunctionType)]


def _home(code: Any) -> str:
    """The package that a function, a class or an object comes from."""
    return (getattr(code, "__module__", None) or "").partition(".")[0]


def _unwrapped(value: Any) -> Any:
    """The function inside of one that numba compiled or that is cached."""
    return getattr(value, "py_func", getattr(value, "__wrapped__", value))


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
    facts, names, constants = _bytecode(function.__code__)
    return repr((facts, names, constants[1:], function.__kwdefaults__))  # without the docstring


def _bytecode(code: CodeType) -> tuple[Any, Any, list[Any]]:
    """What a code does; functions inside of it are constants."""
    constants = [one for one in code.co_consts if not isinstance(one, CodeType)]
    inner = [_bytecode(one) for one in code.co_consts if isinstance(one, CodeType)]
    facts = platform.python_version_tuple()[:2], code.co_code.hex(), code.co_names
    return facts, code.co_varnames, constants + inner
