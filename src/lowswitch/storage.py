"""From a record to a file and back; finished work that is kept; the fingerprint of a problem.

A record is a dataclass or a NamedTuple. Its file is an npz: the arrays are its members, and one
JSON text beside them holds the rest.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import types
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

if TYPE_CHECKING:
    from lowswitch.problems.mdp import TabularMDP

_HEADER = "lowswitch"
_VERSION = 2

Value = TypeVar("Value")


# ---- files that are whole ------------------------------------------------------------------------


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write that takes its place whole or not at all.

    A failure leaves what was there before.
    """
    target = require_writable(path)
    temporary = target.with_name(f".lowswitch-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ValueError(f"cannot write {str(target)!r}: {error.strerror}") from error
        raise


def require_writable(path: str | os.PathLike[str]) -> Path:
    """Return the resolved path, if a file can be put there."""
    try:
        target = Path(path).resolve()  # a link stays a link
        fits = (
            target.parent.is_dir()
            and os.access(target.parent, os.W_OK)
            and (target.is_file() or not target.exists())
        )
    except (OSError, TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            f"cannot write {str(path)!r}; choose a file in a folder that exists and is writable"
        )
    return target


def make_folder(path: Path) -> None:
    """Make a folder with its parents, or say why it cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"cannot make the folder {str(path)!r}: {error.strerror}; choose another folder"
        ) from None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text, whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())


# ---- facts and arrays in one file ----------------------------------------------------------------


def write(
    path: str | os.PathLike[str], kind: str, facts: dict[str, Any], arrays: dict[str, Any]
) -> None:
    """Write facts, which JSON must be able to hold, and arrays as one file."""
    members = arrays | {_HEADER: np.array(json.dumps({"version": _VERSION, "kind": kind, **facts}))}
    with replacing(path) as file:
        np.savez_compressed(file, **members)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the facts and the arrays of a file that was written as this kind."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        facts = json.loads(str(arrays.pop(_HEADER)[()]))
        if not isinstance(facts, dict):
            raise TypeError("its header is no object")
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(path)!r}") from None
    except (PermissionError, IsADirectoryError) as error:
        raise ValueError(
            f"cannot read {str(path)!r}: {error.strerror}; name a file that is readable"
        ) from None
    except (
        OSError,
        EOFError,
        KeyError,
        ValueError,
        AttributeError,
        TypeError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ValueError(
            f"{str(path)!r} is not a lowswitch file, or is damaged ({error}); save it again"
        ) from error
    version, found = facts.pop("version", None), facts.pop("kind", None)
    if version != _VERSION:
        raise ValueError(
            f"{str(path)!r} has format {version!r}; this version of lowswitch reads format "
            f"{_VERSION}: use the version that wrote it, or make it again"
        )
    if found != kind:
        raise ValueError(
            f"{str(path)!r} holds a {found!r}, not a {kind!r}; load it with the class that saved it"
        )
    return facts, arrays


@contextmanager
def reading(
    path: str | os.PathLike[str], kind: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Read facts and arrays and make an object of them; the error names the file if they lack
    something.
    """
    facts, arrays = read(path, kind)
    try:
        yield facts, arrays
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} holds no whole {kind} ({error}); write it again"
        ) from error


# ---- records -------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], kind: str, value: Any) -> None:
    """Write a record, or a dictionary of what a record can hold; `load` reads it back."""
    arrays: dict[str, np.ndarray] = {}
    write(path, kind, pack(value, arrays), arrays)


def load(path: str | os.PathLike[str], kind: str, wanted: type[Value]) -> Value:
    """Read what `save` wrote as this kind, as a value of this type."""
    with reading(path, kind) as (facts, arrays):
        found: Value = unpack(wanted, facts, arrays)
        return found


def pack(value: Any, arrays: dict[str, np.ndarray] | None = None, place: str = "") -> Any:
    """The value as JSON can hold it.

    Arrays become lists; where `arrays` is given they go there, under the names of the fields that
    lead to them, and leave a null behind.
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
    """The value of the wanted type that `pack` turned into this data."""
    if types.NoneType in get_args(wanted):  # as in `History | None`
        if data is None:
            return None
        wanted = get_args(wanted)[0]
    if wanted is np.ndarray:
        return np.array(data) if arrays is None else arrays[place]
    if hasattr(wanted, "from_dict"):
        return wanted.from_dict(data)
    if _is_record(wanted):
        fields = {
            name: unpack(hint, data[name], arrays, _under(place, name))
            for name, hint in get_type_hints(wanted).items()
            if name in data  # another one has its default, or is missed by the record itself
        }
        return wanted(**fields)
    if get_origin(wanted) is dict:
        hint = get_args(wanted)[1]
        return {
            name: unpack(hint, part, arrays, _under(place, name)) for name, part in data.items()
        }
    if get_origin(wanted) is tuple:
        hint = get_args(wanted)[0]
        return tuple(unpack(hint, part, arrays, _under(place, i)) for i, part in enumerate(data))
    return data


def _is_record(kind: type) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_asdict")


def _under(place: str, name: str | int) -> str:
    return f"{place}.{name}" if place else str(name)


# ---- finished work -------------------------------------------------------------------------------


class Kept:
    """A folder of finished work, so that what was interrupted goes on where it was.

    Each piece of work is kept under the version of lowswitch, its kind and its configuration.
    Without a folder nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            make_folder(folder)

    def get(
        self, kind: str, configuration: Any, compute: Callable[[], Value], wanted: type[Value]
    ) -> Value:
        """What was computed for a configuration, now or before.

        A file that cannot be read is computed again.
        """
        if self.folder is None:
            return compute()
        from lowswitch import __version__

        text = json.dumps([__version__, kind, configuration], sort_keys=True)
        path = self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"
        try:
            return load(path, kind, wanted)
        except ValueError:
            value = compute()
        save(path, kind, value)
        return value


def fingerprint(mdp: TabularMDP) -> dict[str, Any]:
    """What tells a problem from every other one, as JSON can hold it."""
    digest = hashlib.sha256()
    for array in (
        mdp.offsets,
        mdp.successors,
        mdp.probabilities,
        mdp.rewards,
        mdp.start_law,
        mdp.start_sequence,
        mdp.actions_allowed,  # [H, S, A], so that the horizon counts as well
    ):
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "tables": digest.hexdigest(),
        "reward law": mdp.reward_law,
        "rewards": [mdp.scale.low, mdp.scale.high],
    }
