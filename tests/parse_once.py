"""Workers of pytest-xdist in a fresh environment parse every file once, and not once each."""

import contextlib
import fcntl
import hashlib
import os
import sys
from importlib import util
from importlib.machinery import SourceFileLoader
from pathlib import Path

from _pytest.assertion import rewrite


def share_parsing():
    """Lock each file while it is parsed, so that the others wait and find the bytecode.

    A file is one byte of a common file. A lock is never held while a module is executed.
    """
    folder = Path(__file__).parent / "__pycache__"
    if sys.dont_write_bytecode or not os.access(folder.parent, os.W_OK):
        return
    folder.mkdir(exist_ok=True)
    common = os.open(folder / "parsing.lock", os.O_RDWR | os.O_CREAT)

    def locked(path, how):
        byte = int.from_bytes(hashlib.sha256(str(path).encode()).digest()[:5])
        fcntl.lockf(common, how, 1, byte)

    parse_alone = SourceFileLoader.get_code

    def parse_once(loader, name):
        path = loader.get_filename(name)
        if os.path.exists(util.cache_from_source(path)):
            return parse_alone(loader, name)
        locked(path, fcntl.LOCK_EX)
        try:
            return parse_alone(loader, name)
        finally:
            locked(path, fcntl.LOCK_UN)

    SourceFileLoader.get_code = parse_once
    # pytest reads what it rewrote, or rewrites a test and writes it, and then executes it
    with contextlib.suppress(AttributeError):
        _share_rewriting(locked, rewrite._read_pyc, rewrite._write_pyc)


def _share_rewriting(locked, read_alone, write_alone):
    held, execute = set(), rewrite.AssertionRewritingHook.exec_module

    def release():
        while held:
            locked(held.pop(), fcntl.LOCK_UN)

    def read(source, pyc, *trace):
        found = read_alone(source, pyc, *trace)
        if found is None:
            held.add(pyc)
            locked(pyc, fcntl.LOCK_EX)
            found = read_alone(source, pyc, *trace)
            if found is not None:
                release()
        return found

    def write(*given):
        try:
            return write_alone(*given)
        finally:
            release()

    def execute_module(hook, module):
        try:
            execute(hook, module)
        finally:
            release()

    rewrite._read_pyc, rewrite._write_pyc = read, write
    rewrite.AssertionRewritingHook.exec_module = execute_module
