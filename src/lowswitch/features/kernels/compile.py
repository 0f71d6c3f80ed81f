"""How the kernels of this folder are compiled and kept: as those of `lowswitch.kernels`, under a
stamp of their own, so that an edit here leaves those as they are.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

from lowswitch.kernels import compile as shared


@functools.cache
def stamp() -> str:
    """A hash of every file of this folder, and of all that they may call."""
    total = hashlib.sha256(shared.kernel_stamp().encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function, and keep its machine code on disk until a file of this folder changes."""
    dispatcher = njit(**shared.OPTIONS)(function)
    cache = _cache_class()
    if hasattr(dispatcher, "py_func") and cache is not None:
        try:
            dispatcher._cache = cache(dispatcher.py_func)
        except (OSError, RuntimeError) as error:
            shared._warn_uncached(str(error))
    return dispatcher


@functools.cache
def _cache_class() -> type[Any] | None:
    """The cache of `lowswitch.kernels` with the stamp of this folder."""
    base = shared._cache_class()
    if base is None:
        return None
    locators = [
        type(f"Linear{locator.__name__}", (locator,), {"get_source_stamp": lambda self: stamp()})
        for locator in base._impl_class._locator_classes
    ]
    kept = type("LinearCacheImpl", (base._impl_class,), {"_locator_classes": locators})
    return type("LinearCache", (base,), {"_impl_class": kept})
