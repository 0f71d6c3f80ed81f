"""One file format: arrays in an npz, and beside them one JSON text that says what they are."""

from __future__ import annotations

import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_HEADER = "lowswitch"
_VERSION = 1


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write that takes its place whole or not at all: a failure leaves what was there
    before.
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
    """The path, if a file can be put there."""
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
    """Make a folder with its parents, or say that it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"cannot make the folder {str(path)!r}: {error.strerror}; name another"
        ) from None


def write(
    path: str | os.PathLike[str], kind: str, facts: dict[str, Any], arrays: dict[str, Any]
) -> None:
    """Write facts and arrays as one file."""
    members = arrays | {_HEADER: np.array(json.dumps({"version": _VERSION, "kind": kind, **facts}))}
    with replacing(path) as file:
        np.savez_compressed(file, **members)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts and the arrays of a file written as this kind."""
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
    if facts.get("version") != _VERSION:
        raise ValueError(
            f"{str(path)!r} has format {facts.get('version')!r}; this version of lowswitch reads"
            f" format {_VERSION}"
        )
    if facts.get("kind") != kind:
        raise ValueError(
            f"{str(path)!r} holds a {facts.get('kind')!r}, not a {kind!r}; load it with the class"
            " that saved it"
        )
    return facts, arrays


@contextmanager
def reading(
    path: str | os.PathLike[str], kind: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The facts and the arrays of a file to make its object of; what they lack is an error that
    names the file.
    """
    facts, arrays = read(path, kind)
    try:
        yield facts, arrays
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} holds no whole {kind} ({error}); write it again"
        ) from error
