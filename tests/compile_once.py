"""Workers of pytest-xdist with an empty cache compile every kernel once, and not once each."""

import fcntl
import hashlib
import os

from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

import lowswitch as ls
from lowswitch import concurrent
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


def compile_all(worker, workers):
    """Compile every driver for every kind of learner, beginning elsewhere than the other workers.

    So nobody waits for a lock until all is compiled, and no test pays for it.
    """
    works = [(drive, one) for one in KINDS for drive in (simulate, tell, in_stretches, by_rounds)]
    first = len(works) * worker // workers
    for drive, algorithm in works[first:] + works[:first]:
        drive(algorithm)


KINDS = (
    ls.ucb2_hoeffding(c=0.1),
    ls.stage_q(c=0.1),
    ls.ucbvi(c=0.1),
    ls.ucb2_hoeffding(c=0.1, scales=(1, 0.1)),
    ls.stage_q(c=0.1, scales=(1, 0.1)),
)


def river():
    return ls.envs.riverswim(states=2, horizon=2)


def simulate(algorithm):
    ls.simulate(river(), algorithm, episodes=2, seeds=1)


def tell(algorithm):
    learner = ls.Learner(algorithm, horizon=2, states=2, actions=2, episodes=1)
    learner.tell([0, 0], learner.policy[:, 0], [0.0, 0.0])


def in_stretches(algorithm):
    concurrent.run(river(), algorithm, 2, machines=1)


def by_rounds(algorithm):
    concurrent.run(river(), algorithm, 2, machines=1, fleet=RoundByRound())


class RoundByRound:
    """In this process, but with a call for each round, as every other fleet has it."""

    def open(self, source, seed, policy):
        return concurrent.InProcess().open(source, seed, policy)
