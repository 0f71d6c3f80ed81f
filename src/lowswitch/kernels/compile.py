"""How kernels are compiled, and kept on disk as machine code until a kernel file they need changes.

Numba's own cache looks only at the file of the function itself: after an edit in a callee of
another file it goes on with the old callee, silently. Here the stamp of a cached function is a hash
of its file and of all kernel files that it imports, directly or through others.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import jit, njit
from numba.core.options import DefaultOptions
from numba.core.registry import CPUDispatcher

from lowswitch.kernels.linking import KernelCompiler, kernel_libraries

# Nobody gives a kernel to a kernel as a value, so none needs an entrance for that.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "pipeline_class": KernelCompiler,
}
if hasattr(DefaultOptions, "_nrt"):
    # Without this numba counts the references of every array that a kernel looks at, with atomic
    # operations: that took nine tenths of the time of a planner. Kernels make no arrays, but for
    # those that are `allocating`, and the caller holds those that it gives them, so that there is
    # nothing to count.
    OPTIONS["_nrt"] = False
# A literal 0 or False is a type of its own to numba: what begins with one and is an argument later
# would let the function be compiled twice.
NOTHING, NOT_YET = np.int64(0), np.bool_(False)
# The entrance for Python takes every array out of the tuples of tables, which for a short kernel is
# most of what there is to compile. Kernels that kernels call have none.
INNER: dict[str, Any] = {"no_cpython_wrapper": True}
INLINED: dict[str, Any] = {**OPTIONS, **INNER, "forceinline": True}
# said and not left out: a callee inherits what its caller was compiled with
COUNTED: dict[str, Any] = {**OPTIONS, **({"_nrt": True} if "_nrt" in OPTIONS else {})}


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return _keep(njit(**OPTIONS)(function))


def part(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call too rarely for it to be inlined."""
    return _inner(njit(**OPTIONS, **INNER)(function))


def inline(function: Callable[..., Any]) -> Any:
    """Compile a function that is part of a hot loop."""
    return _inner(njit(**INLINED)(function))


def pasted(function: Callable[..., Any]) -> Any:
    """Compile a short loop as if it were written where it is called.

    What is `inline` is optimized before it gets there, and such a loop then takes half as long
    again.
    """
    return _inner(njit(**OPTIONS, **INNER, inline="always")(function))


def allocating(function: Callable[..., Any]) -> Any:
    """Compile a function that makes arrays, whose references are then counted.

    It is for plans that are made a few times in a run, and never for a part of a hot loop.
    """
    return _keep(njit(**COUNTED)(function))


def allocating_part(function: Callable[..., Any]) -> Any:
    """Compile a function that makes arrays and that kernels call."""
    return _inner(njit(**COUNTED, **INNER)(function))


def _call_twin(kernel: Any, *arguments: Any, **named: Any) -> Any:
    """Call a kernel from Python, which plain learners and tests do, though it has no entrance.

    What is called is a twin that has one; it is compiled at the first call, and kept.
    """
    if kernel.twin is None:
        options = {name: kernel.targetoptions[name] for name in kernel.targetoptions.keys() - INNER}
        twin = _keep(jit(**options, pipeline_class=KernelCompiler)(kernel.py_func))
        twin._cache.entrance = True
        kernel.twin = twin
    return kernel.twin(*arguments, **named)


InnerKernel = type("InnerKernel", (CPUDispatcher,), {"twin": None, "__call__": _call_twin})


def _inner(dispatcher: Any) -> Any:
    """Let Python call a kernel that has no entrance for it; where nothing is compiled it can."""
    if isinstance(dispatcher, CPUDispatcher):
        dispatcher.__class__ = InnerKernel
    return _keep(dispatcher)


# `from lowswitch.kernels.NAME import ...`, and `from lowswitch.kernels import NAMES`
IMPORT = re.compile(
    r"^\s*from lowswitch\.kernels(?:\.(\w+) import|\s+import\s+([^()\n]+|\([^)]*\)))", re.MULTILINE
)


@functools.cache
def kernel_stamp(file: str) -> str:
    """A hash of the kernel files that the functions of a file depend on.

    They are the file itself, this one, and every kernel file that one of them imports. A function
    from elsewhere depends on its own file and on all kernel files.
    """
    texts = _kernel_texts()
    name = Path(file).stem
    is_kernel = name in texts and Path(file).parent == Path(__file__).parent
    found, waiting = set(), {"compile", name} if is_kernel else set(texts)
    while waiting:
        found |= waiting
        waiting = set().union(*(_imported_kernels(one) for one in waiting)) - found
    total = hashlib.sha256(b"" if is_kernel else Path(file).read_bytes())
    for one in sorted(found):
        total.update(one.encode() + b"\0" + texts[one].encode() + b"\0")
    return total.hexdigest()


@functools.cache
def _kernel_texts() -> dict[str, str]:
    return {path.stem: path.read_text() for path in Path(__file__).parent.glob("*.py")}


@functools.cache
def _imported_kernels(name: str) -> set[str]:
    """The names of the kernel files that one of them imports."""
    texts = _kernel_texts()
    words = " ".join(itertools.chain(*IMPORT.findall(texts[name])))
    return set(re.findall(r"\w+", words)) & set(texts)


def _keep(dispatcher: Any) -> Any:
    """Let a function keep its machine code on disk; where nothing is compiled there is none."""
    if hasattr(dispatcher, "py_func"):
        cache = _cache_class()
        if cache is not None:
            try:
                dispatcher._cache = cache(dispatcher.py_func)
            except (OSError, RuntimeError) as error:
                _warn_uncached(str(error))
    return dispatcher


@functools.cache
def _warn_uncached(reason: str, files: str = "kept") -> None:
    """Say once for each reason that compiled kernels are not kept, or not read."""
    warnings.warn(
        f"compiled kernels cannot be {files} ({reason}), so they are compiled anew, which takes"
        " some seconds; name a writable folder in the environment variable NUMBA_CACHE_DIR",
        RuntimeWarning,
        stacklevel=3,
    )


def _load(cache: Any, load: Callable[..., Any], *arguments: Any) -> Any:
    """What the cache holds; nothing, and an empty cache, where its files are damaged.

    Where another version of the library wrote them, they may name a class that is no more.
    """
    try:
        return load(cache, *arguments)
    except Exception as error:  # A damaged pickle raises almost anything.
        if not isinstance(error, AttributeError | ImportError):
            _warn_uncached(f"{type(error).__name__} in {cache.cache_path}", "read")
        try:
            cache.flush()
        except Exception:
            cache.disable()
        return None


def _save(cache: Any, save: Callable[..., Any], *arguments: Any) -> None:
    """Keep machine code, if the disk has room for it and it does not call Python."""
    types = getattr(arguments[0], "args", arguments[0])
    if any(getattr(getattr(one, "instance_class", None), "is_plain", False) for one in types):
        return
    try:
        save(cache, *arguments)
    except Exception as error:
        _warn_uncached(f"{error} in {cache.cache_path}")
        cache.disable()


@functools.cache
def _cache_class() -> type[Any] | None:
    """Numba's cache of functions with stamps of ours; None, with a warning, if numba has changed.

    These are internals of numba. `tests/kernels/test_compile.py` proves that an edit in a callee is
    noticed.
    """
    try:
        from numba.core.caching import CompileResultCacheImpl, FunctionCache

        def stamped(locator: type[Any]) -> type[Any]:
            if not callable(getattr(locator, "get_source_stamp", None)):
                raise TypeError(f"{locator.__name__} has no get_source_stamp")
            stamps = {"get_source_stamp": lambda self: kernel_stamp(self._py_file)}
            return type(f"Stamped{locator.__name__}", (locator,), stamps)

        locators = [stamped(locator) for locator in CompileResultCacheImpl._locator_classes]

        def rebuild(self: Any, context: Any, payload: Any) -> Any:
            with kernel_libraries(context):
                return CompileResultCacheImpl.rebuild(self, context, payload)

        parts = {"_locator_classes": locators, "rebuild": rebuild}
        implementation = type("KernelCacheImpl", (CompileResultCacheImpl,), parts)
        methods: dict[str, Any] = {
            "_impl_class": implementation,
            # a twin that Python calls is kept beside the kernel that has no entrance for it
            "_index_key": lambda self, *given: (
                *FunctionCache._index_key(self, *given),
                getattr(self, "entrance", False),
            ),
            "load_overload": lambda self, *given: _load(self, FunctionCache.load_overload, *given),
            "save_overload": lambda self, *given: _save(self, FunctionCache.save_overload, *given),
        }
        cache = type("KernelCache", (FunctionCache,), methods)
        if cache(_keep)._impl.locator.get_source_stamp() != kernel_stamp(__file__):
            raise TypeError("its stamps are not asked for")
    except RuntimeError:
        warnings.warn(
            "no folder is writable in which compiled kernels could be kept, so they are compiled "
            "in every process anew; name one in the environment variable NUMBA_CACHE_DIR",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    except (ImportError, AttributeError, TypeError) as error:
        warnings.warn(
            f"this version of numba caches in another way ({error}), so kernels are compiled in "
            "every process anew, which takes some seconds; another version may spare that",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return cache
