"""One file format: arrays in an npz, and beside them one JSON text that says what they are."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

_HEADER = "lowswitch"
_VERSION = 1


def write(path: str | os.PathLike[str], kind: str, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write whole or not at all: a reader never meets half a file, and a failure leaves what was there before."""
    target = Path(path)
    header = np.array(json.dumps({"version": _VERSION, "kind": kind, **facts}))
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise ValueError(f"cannot write {str(target)!r}: {error.strerror}; choose a folder that exists and is writable") from error
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **{_HEADER: header}, **arrays)
        os.replace(name, target)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError):
            raise ValueError(f"cannot write {str(target)!r}: {error.strerror}") from error
        raise


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts and the arrays of a file written as this kind."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        facts = json.loads(str(arrays.pop(_HEADER)[()]))
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(path)!r}") from None
    except (OSError, EOFError, KeyError, ValueError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{str(path)!r} is not a lowswitch file, or is damaged ({error}); save it again") from error
    if facts.get("version") != _VERSION:
        raise ValueError(f"{str(path)!r} has format {facts.get('version')!r}; this version of lowswitch reads format {_VERSION}")
    if facts.get("kind") != kind:
        raise ValueError(f"{str(path)!r} holds a {facts.get('kind')!r}, not a {kind!r}; load it with the class that saved it")
    return facts, arrays
