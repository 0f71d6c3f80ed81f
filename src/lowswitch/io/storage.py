"""Save records as files and load them; a folder of finished work; the fingerprint of a problem.

A record is a dataclass or a NamedTuple. Its file is an `archive` of its arrays and its other
fields.
"""

from __future__ import annotations

import hashlib
import json
import os
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from lowswitch.io import archive
from lowswitch.io.dependencies import code_stamp
from lowswitch.io.files import make_folder, read_bytes, replacing, require_writable, write_text
from lowswitch.show.text import counted

__all__ = [
    "Kept",
    "load",
    "make_folder",
    "pack",
    "read",
    "reading",
    "replacing",
    "require_writable",
    "save",
    "short_fingerprint",
    "unpack",
    "write",
    "write_text",
]

Value = TypeVar("Value")


# ---- facts and arrays in one file ----------------------------------------------------------------


def write(
    path: str | os.PathLike[str], kind: str, facts: dict[str, Any], arrays: dict[str, Any]
) -> None:
    """Write facts, which JSON must be able to store, and arrays as one file."""
    require_writable(path)
    data = archive.to_bytes(kind, facts, arrays)
    with replacing(path) as file:
        file.write(data)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the facts and the arrays of a file that was written as this kind."""
    data = read_bytes(path)
    try:
        return archive.from_bytes(data, kind)
    except archive.RefusedFileError as error:
        raise ValueError(f"{str(path)!r} {error}") from error


@contextmanager
def reading(
    path: str | os.PathLike[str], kind: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Read facts and arrays and build an object from them; the error names the file if something is
    missing.
    """
    facts, arrays = read(path, kind)
    with whole(f"{str(path)!r} holds", kind):
        yield facts, arrays


@contextmanager
def whole(where: str, kind: str) -> Iterator[None]:
    """Report any failure to build an object from saved data as incomplete data.

    Code that is missing or has changed is not a fault of the data.
    """
    try:
        yield
    except archive.UnknownPartError as error:
        message = f"{where} a {kind} that cannot go on here: {error}"
        raise archive.UnknownPartError(message) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        missing = f"no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{where} no complete {kind} ({missing}); write it again") from error


# ---- records -------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], kind: str, value: Any) -> None:
    """Write a record, or a dictionary of values that a record can hold; `load` reads it."""
    arrays: dict[str, np.ndarray] = {}
    write(path, kind, pack(value, arrays), arrays)


def load(path: str | os.PathLike[str], kind: str, wanted: type[Value]) -> Value:
    """Read a file that `save` wrote as this kind, as a value of this type."""
    with reading(path, kind) as (facts, arrays):
        found: Value = unpack(wanted, facts, arrays)
        if hasattr(found, "require_whole"):
            found.require_whole()
        return found


def pack(value: Any, arrays: dict[str, np.ndarray] | None = None, place: str = "") -> Any:
    """The value as JSON can store it.

    Arrays become lists. If `arrays` is given, they go there instead, under the names of the fields
    that lead to them, and leave a null behind.
    """
    if isinstance(value, np.ndarray):
        if arrays is None:
            return value.tolist()
        arrays[place] = value
        return None
    if hasattr(value, "from_dict"):
        return value.to_dict()
    if _is_record(type(value)):
        value = {name: getattr(value, name) for name in get_type_hints(type(value))}
    if isinstance(value, dict):
        return {name: pack(part, arrays, _under(place, name)) for name, part in value.items()}
    if isinstance(value, tuple):
        return [pack(part, arrays, _under(place, i)) for i, part in enumerate(value)]
    return value


def unpack(
    wanted: Any, data: Any, arrays: dict[str, np.ndarray] | None = None, place: str = ""
) -> Any:
    """Rebuild the value of the wanted type from data that `pack` made."""
    if types.NoneType in get_args(wanted):  # as in `History | None`
        if data is None and (arrays is None or place not in arrays):
            return None
        wanted = get_args(wanted)[0]
    if wanted is np.ndarray:
        return np.array(data) if arrays is None else arrays[place]
    if hasattr(wanted, "from_dict"):
        return data if hasattr(data, "from_dict") else wanted.from_dict(data)  # already built
    if _is_record(wanted):
        fields = {
            name: unpack(hint, data[name], arrays, _under(place, name))
            for name, hint in get_type_hints(wanted).items()
            if name in data  # others have a default, or the record reports them
        }
        return wanted(**fields)
    if wanted in _PLAIN and not _PLAIN[wanted](data):
        raise ValueError(f"{place} is {data!r}")
    if get_origin(wanted) is dict:
        hint = get_args(wanted)[1]
        return {
            name: unpack(hint, part, arrays, _under(place, name)) for name, part in data.items()
        }
    if get_origin(wanted) is tuple:
        hint = get_args(wanted)[0]
        return tuple(unpack(hint, part, arrays, _under(place, i)) for i, part in enumerate(data))
    return data


_PLAIN: dict[Any, Callable[[Any], bool]] = {
    bool: lambda data: isinstance(data, bool),
    int: lambda data: isinstance(data, int) and not isinstance(data, bool),
    float: lambda data: isinstance(data, float | int) and not isinstance(data, bool),
    str: lambda data: isinstance(data, str),
}


def _is_record(kind: type) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_asdict")


def _under(place: str, name: str | int) -> str:
    return f"{place}.{name}" if place else str(name)


# ---- finished work -------------------------------------------------------------------------------

_FINISHED = "finished work"  # in its files


class Kept:
    """A folder of finished work, so that an interrupted call resumes where it stopped.

    Each piece of work is stored under its kind, its configuration and the code that it depends on.
    Without a folder nothing is stored.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.found = 0  # pieces of work found finished
        if folder is not None:
            make_folder(folder)

    def get(
        self, kind: str, configuration: Any, compute: Callable[[], Value], wanted: type[Value]
    ) -> Value:
        """The result for a configuration, computed now or earlier.

        A file that cannot be read is computed again. A result that cannot be written is returned
        without storing it.
        """
        function = compute.func if isinstance(compute, partial) else compute
        module = function.__module__
        try:
            return self.find(kind, configuration, module, wanted)
        except LookupError:
            value = compute()
        self.add(kind, configuration, module, value)
        return value

    def find(self, kind: str, configuration: Any, module: str, wanted: type[Value]) -> Value:
        """The result that a module computed earlier; a LookupError if there is none."""
        path = self.place(kind, configuration, module)
        if path is None:
            raise LookupError(kind)
        try:
            value = load(path, _FINISHED, wanted)
        except ValueError as error:
            raise LookupError(kind) from error
        self.found += 1
        return value

    def add(self, kind: str, configuration: Any, module: str, value: Any) -> None:
        """Store a result, or warn that it cannot be written."""
        path = self.place(kind, configuration, module)
        try:
            if path is not None:
                save(path, _FINISHED, value)
        except ValueError as error:  # The work of hours must not be lost to a full disk.
            warnings.warn(f"a result is not saved: {error}", RuntimeWarning, stacklevel=3)

    def place(self, kind: str, configuration: Any, module: str) -> Path | None:
        """The file for work of a kind that a module does, named by everything it depends on."""
        if self.folder is None:
            return None
        code = [archive.library_version(), code_stamp(module)]
        text = json.dumps([*code, kind, configuration], sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"

    @property
    def note(self) -> str:
        """A line that says how much was already computed; empty if nothing was."""
        found = counted(self.found, "result", "was found", "were found")
        return f"{found} in {self.folder}" if self.found else ""


def short_fingerprint(facts: dict[str, Any]) -> str:
    """16 characters that distinguish a problem from others, for people to compare."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
