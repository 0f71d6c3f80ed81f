"""Workers of pytest-xdist with an empty cache compile every kernel once, and not once each."""

import fcntl
import hashlib
import os

from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from lowswitch.kernels import compile as kernel_compile


def share_compilation():
    """Lock each kernel while it is compiled, so that the others wait and find it in the cache.

    A kernel is one byte of a common file. Nobody waits in a circle, because kernels call each other
    in one direction only, and the locks of a process that dies are free.
    """
    cache = kernel_compile._cache_class()
    if cache is None:
        return
    folder = cache(share_compilation).cache_path
    os.makedirs(folder, exist_ok=True)
    file = os.open(os.path.join(folder, "compiling.lock"), os.O_RDWR | os.O_CREAT)
    compile_alone = Dispatcher.compile

    def compile_once(dispatcher, signature):
        if isinstance(dispatcher._cache, NullCache):  # what is not kept, nobody else can load
            return compile_alone(dispatcher, signature)
        key = f"{dispatcher.py_func.__module__} {dispatcher.py_func.__qualname__} {signature}"
        byte = int.from_bytes(hashlib.sha256(key.encode()).digest()[:5])
        with global_compiler_lock:  # the threads of a process have its file locks in common
            fcntl.lockf(file, fcntl.LOCK_EX, 1, byte)
            try:
                return compile_alone(dispatcher, signature)
            finally:
                fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)

    Dispatcher.compile = compile_once
