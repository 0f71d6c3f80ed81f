"""Compile kernels, and cache their machine code until a kernel file that they need changes.

Numba's own cache checks only the file of the function itself: after an edit to a callee in another
file it silently uses the old callee. Here the stamp of a cached function is a hash of its file and
of all kernel files that it imports, directly or indirectly.

Processes that need the same kernel at the same time compile it once: the others wait and load it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

with contextlib.suppress(ImportError):  # Windows has no such locks
    import fcntl

import numpy as np
from numba import jit, njit
from numba.core import sigutils
from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.options import DefaultOptions
from numba.core.registry import CPUDispatcher
from numba.core.types import BooleanLiteral, IntegerLiteral, unliteral

from lowswitch.kernels.linking import KernelCompiler, kernel_libraries

# No kernel is passed to another kernel as a value, so none needs an entry point for that. Functions
# that are not inlined say so, because a callee inherits the options of its caller.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "forceinline": False,
    "pipeline_class": KernelCompiler,
}
if hasattr(DefaultOptions, "_nrt"):
    # Without this, numba counts the references to every array that a kernel uses, with atomic
    # operations, which took nine tenths of a planner's time. Only `allocating` kernels make arrays,
    # and the caller holds the arrays it passes, so there is nothing to count.
    OPTIONS["_nrt"] = False
# To numba a literal 0 or False has its own type: if a variable starts as one and is an argument
# later, the function would be compiled twice.
NOTHING, NOT_YET = np.int64(0), np.bool_(False)
_LONGEST = 120.0  # seconds that a process waits for what another one compiles
# The entry point for Python unpacks every array from the tuples of tables, which for a short kernel
# is most of the work of compiling. Kernels that only kernels call have none.
INNER: dict[str, Any] = {"no_cpython_wrapper": True}
INLINED: dict[str, Any] = {**OPTIONS, **INNER, "forceinline": True}
COUNTED: dict[str, Any] = {**OPTIONS, **({"_nrt": True} if "_nrt" in OPTIONS else {})}


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return _keep(njit(**OPTIONS)(function))


def part(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call too rarely to inline it."""
    return _inner(njit(**OPTIONS, **INNER)(function))


def inline(function: Callable[..., Any]) -> Any:
    """Compile a function that is part of a hot loop."""
    return _inner(njit(**INLINED)(function))


def pasted(function: Callable[..., Any]) -> Any:
    """Compile a short loop as if it were written where it is called.

    An `inline` function is optimized before it gets there, and such a loop then takes 1.5 times as
    long.
    """
    return _inner(njit(**OPTIONS, **INNER, inline="always")(function))


def allocating(function: Callable[..., Any]) -> Any:
    """Compile a function that makes arrays, whose references are then counted.

    Use it for plans that are made a few times in a run, and never in a hot loop.
    """
    return _keep(njit(**COUNTED)(function))


def allocating_part(function: Callable[..., Any]) -> Any:
    """Compile a function that makes arrays and that kernels call."""
    return _inner(njit(**COUNTED, **INNER)(function))


def _call_twin(kernel: Any, *arguments: Any, **named: Any) -> Any:
    """Call a kernel without an entry point from Python, as plain learners and tests do.

    The call goes to a twin with an entry point, which is compiled at the first call and cached.
    """
    if kernel.twin is None:
        options = {name: kernel.targetoptions[name] for name in kernel.targetoptions.keys() - INNER}
        twin = _keep(jit(**options, pipeline_class=KernelCompiler)(kernel.py_func))
        twin._cache.entrance = True
        kernel.twin = twin
    return kernel.twin(*arguments, **named)


def _call_type(kernel: Any, arguments: Any, named: Any) -> Any:
    """The type of a call by another kernel.

    To numba a literal 0 or False has a type of its own. As a number it does not cause a second
    compilation.
    """
    plain = [_plain_type(one) for one in arguments]
    names = {name: _plain_type(one) for name, one in named.items()}
    return CPUDispatcher.get_call_template(kernel, plain, names)


def _plain_type(one: Any) -> Any:
    return unliteral(one) if isinstance(one, IntegerLiteral | BooleanLiteral) else one


def _compile_once(kernel: Any, signature: Any) -> Any:
    """Compile a kernel, or load what this or another process has compiled."""
    arguments, _ = sigutils.normalize_signature(signature)
    if tuple(arguments) in kernel.overloads or isinstance(kernel._cache, NullCache):
        return CPUDispatcher.compile(kernel, signature)
    with global_compiler_lock, _alone(kernel, signature):
        return CPUDispatcher.compile(kernel, signature)


@contextlib.contextmanager
def _alone(kernel: Any, signature: Any) -> Iterator[None]:
    """Hold the lock of a kernel: one byte of a common file.

    Nobody waits in a circle, because kernels call each other in one direction only. The locks of a
    process that dies are free. After two minutes, or without locks, everyone compiles alone.
    """
    file = _lock_file(kernel._cache.cache_path, os.getpid())
    text = f"{kernel.py_func.__module__} {kernel.py_func.__qualname__} {signature}"
    place = 1, int.from_bytes(hashlib.sha256(text.encode()).digest()[:5])
    until, is_held = time.monotonic() + _LONGEST, False
    while file is not None and not is_held and time.monotonic() < until:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *place)
            is_held = True
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:  # some network drives have no locks
            break
    try:
        yield
    finally:
        if file is not None and is_held:
            fcntl.lockf(file, fcntl.LOCK_UN, *place)


@functools.cache
def _lock_file(folder: str, process: int) -> int | None:
    """The file of locks beside the cached kernels, which stays open."""
    if "fcntl" not in globals():
        return None
    try:
        return os.open(os.path.join(folder, "compiling.lock"), os.O_RDWR | os.O_CREAT)
    except OSError:
        return None


_INNER = {"twin": None, "__call__": _call_twin, "get_call_template": _call_type}
KeptKernel = type("KeptKernel", (CPUDispatcher,), {"compile": _compile_once})
InnerKernel = type("InnerKernel", (KeptKernel,), _INNER)


def _inner(dispatcher: Any) -> Any:
    """Let Python call a kernel that has no entry point; without compilation it already can."""
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

    These are the file itself, this one, and every kernel file that one of them imports. A function
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
    """The names of the kernel files that a kernel file imports."""
    texts = _kernel_texts()
    words = " ".join(itertools.chain(*IMPORT.findall(texts[name])))
    return set(re.findall(r"\w+", words)) & set(texts)


def _keep(dispatcher: Any) -> Any:
    """Let a function cache its machine code; without compilation there is none."""
    if hasattr(dispatcher, "py_func"):
        cache = _cache_class()
        if cache is not None:
            try:
                dispatcher._cache = cache(dispatcher.py_func)
                if type(dispatcher) is CPUDispatcher:
                    dispatcher.__class__ = KeptKernel
            except (OSError, RuntimeError) as error:
                _warn_uncached(str(error))
    return dispatcher


def is_missing(kernel: Any) -> bool:
    """Whether a kernel must be compiled at its first call, and will then be kept."""
    if not hasattr(kernel, "overloads") or isinstance(kernel._cache, NullCache):
        return False
    return not (kernel.overloads or kernel._cache._cache_file._load_index())


@functools.cache
def _warn_uncached(reason: str, files: str = "kept") -> None:
    """Warn once for each reason why compiled kernels are not cached, or not read."""
    warnings.warn(
        f"compiled kernels cannot be {files} ({reason}), so they are compiled again, which takes"
        " some seconds; name a writable folder in the environment variable NUMBA_CACHE_DIR",
        RuntimeWarning,
        stacklevel=3,
    )


def _load(cache: Any, load: Callable[..., Any], *arguments: Any) -> Any:
    """The cache entry; if its files are damaged, nothing, and the cache is emptied.

    Files that another version of the library wrote may name a class that no longer exists.
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
    """Cache machine code, if the disk has room for it and it does not call Python."""
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
    """Numba's function cache with our stamps; None, with a warning, if numba has changed.

    This uses numba's internals. `tests/kernels/test_compile.py` proves that an edit to a callee is
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
            # a twin that Python calls is cached beside its kernel without an entry point
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
            "no folder for compiled kernels is writable, so every process compiles them "
            "again; name a writable folder in the environment variable NUMBA_CACHE_DIR",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    except (ImportError, AttributeError, TypeError) as error:
        warnings.warn(
            f"this version of numba caches differently ({error}), so every process "
            "compiles the kernels again, which takes some seconds; another version of "
            "numba may avoid that",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return cache
