"""Compiled kernels are kept on disk, and an edit in any kernel file that they need is seen."""

import ast
import collections
import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core import caching

import lowswitch
from lowswitch.kernels import compile as kernel_compile

ASK = """
from lowswitch.kernels.qlearning import learning_rate
from lowswitch.kernels.stages import end_stage
from lowswitch.kernels.compile import entry
from lowswitch.kernels.caller import ask
print(ask(2, 2), learning_rate(2, 2))
for kernel in (ask, learning_rate.twin, learning_rate):
    print(sum(kernel.stats.cache_hits.values()))
"""
CALLER = """
from lowswitch.kernels.arrays import NEVER
from lowswitch.kernels.compile import entry
from lowswitch.kernels.qlearning import learning_rate


@entry
def ask(n, H):
    return NEVER * learning_rate(n, H)
"""


@pytest.fixture
def copied(tmp_path):
    """A copy of the library with one kernel more, and a cache of its own."""
    package = tmp_path / "lowswitch"
    shutil.copytree(Path(lowswitch.__file__).parent, package)
    (package / "kernels" / "caller.py").write_text(CALLER)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "c")}

    def ask(processes=1):
        command = [sys.executable, "-W", "error", "-c", ASK]
        running = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(processes)
        ]
        said = sorted(tuple(map(float, one.communicate()[0].split())) for one in running)
        assert not any(one.returncode for one in running)
        return said if processes > 1 else said[0]

    return package / "kernels", ask


def test_an_edit_in_a_callee_of_another_file_is_seen(copied):
    kernels, ask = copied
    alpha = 2**31 - 1
    assert ask() == (alpha * 3 / 4, 3 / 4, 0, 0, 0)
    assert ask() == (alpha * 3 / 4, 3 / 4, 1, 1, 0)  # kept
    callee = kernels / "qlearning.py"
    callee.write_text(callee.read_text().replace("(H + 1) / (H + n)", "(H + 2) / (H + n)"))
    assert ask() == (alpha * 4 / 4, 1, 0, 0, 0)  # compiled anew
    constants = kernels / "arrays.py"
    constants.write_text(constants.read_text().replace("NEVER = 2**31 - 1", "NEVER = 2**30"))
    assert ask() == (2**30 * 4 / 4, 1, 0, 0, 0)
    unneeded = kernels / "rounds.py"
    unneeded.write_text(unneeded.read_text() + "\nNEVER = 1\n")
    assert ask() == (2**30 * 4 / 4, 1, 1, 1, 0)  # kept, for neither of them imports it


def test_a_part_is_loaded_without_machine_code_and_linked(copied):
    kernels, ask = copied
    assert ask()[2:] == (0, 0, 0)
    for kept in kernels.parent.parent.glob("c/*/caller.ask*"):
        kept.unlink()
    assert ask()[2:] == (0, 1, 1)  # `ask` is compiled anew from the part that was kept


def test_processes_that_need_a_kernel_at_the_same_time_compile_it_once(copied):
    _, ask = copied
    assert [counts[2:4] for counts in ask(processes=2)] == [(0, 0), (1, 1)]


HOLD = """
import sys
from types import SimpleNamespace
from lowswitch.kernels import compile
kernel = SimpleNamespace(py_func=len, _cache=SimpleNamespace(cache_path=sys.argv[1]))
with compile._alone(kernel, "int"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_nobody_waits_for_ever_for_what_another_process_compiles(tmp_path, monkeypatch):
    kernel = SimpleNamespace(py_func=len, _cache=SimpleNamespace(cache_path=str(tmp_path)))

    def waited():
        begin = time.monotonic()
        with kernel_compile._alone(kernel, "int"):
            return time.monotonic() - begin

    monkeypatch.setattr(kernel_compile, "_LONGEST", 0.5)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **streams) as other:
        assert other.stdout.readline() == b"held\n"
        assert waited() >= 0.5
        other.stdin.close()
    monkeypatch.setattr(kernel_compile, "_LONGEST", 60)
    assert waited() < 30
    kernel._cache.cache_path = str(tmp_path / "missing")
    assert waited() < 30


@kernel_compile.part
def one_more(n):
    return n + 1


@kernel_compile.entry
def twice_one_more(n):
    return 2 * one_more(n)


def test_python_may_call_a_kernel_that_has_no_entrance_for_it():
    def has_entrance(kernel):
        [result] = kernel.overloads.values()
        name = result.fndesc.llvm_cpython_wrapper_name
        return result.library.get_pointer_to_function(name) != 0

    assert twice_one_more(3) == 8
    assert one_more(3) == 4
    one_more.compile((numba.types.int64,))  # which is not loaded if its caller was compiled before
    assert [has_entrance(one) for one in (twice_one_more, one_more, one_more.twin)] == [1, 0, 1]


def kernel_modules():
    package = importlib.import_module("lowswitch.kernels")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return {name: importlib.import_module(f"lowswitch.kernels.{name}") for name in names}


def test_a_stamp_covers_every_kernel_file_whose_objects_a_file_uses():
    modules = kernel_modules()
    assert {"arrays", "deploy", "compile", "play"} <= set(modules)
    for name, module in modules.items():
        covered, waiting = {name}, [name]
        while waiting:
            new = kernel_compile._imported_kernels(waiting.pop()) - covered
            covered |= new
            waiting += new
        text = Path(module.__file__).read_text()
        imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        used = {alias.name for node in imports for alias in node.names}
        used |= {node.module.rpartition(".")[2] for node in imports if node.module}
        objects = [getattr(module, one, None) for one in used]
        used |= {getattr(one, "__module__", "").rpartition(".")[2] for one in objects}
        assert used & set(modules) <= covered, name
        assert "import lowswitch" not in text, name
        assert "from ." not in text, name


def test_a_stamp_changes_with_the_files_that_are_imported_and_no_others(monkeypatch):
    def stamps():
        kernel_compile.kernel_stamp.cache_clear()
        return {
            name: kernel_compile.kernel_stamp(module.__file__)
            for name, module in kernel_modules().items()
        }

    texts, before = kernel_compile._kernel_texts(), stamps()

    def changed_by(name):
        with monkeypatch.context() as edited:
            edited.setitem(texts, name, texts[name] + "# edited")
            after = stamps()
        return {one for one in after if after[one] != before[one]}

    try:
        assert changed_by("compile") == set(before)
        assert changed_by("arrays") >= {"deploy", "play", "rounds", "exploitation"}
        assert changed_by("turns") == {"turns"}
        assert changed_by("deploy") == {"deploy", "play", "rounds", "turns"}
        assert changed_by("gains") == {"gains"}
        assert kernel_compile.kernel_stamp(__file__) not in before.values()
    finally:
        kernel_compile.kernel_stamp.cache_clear()


@pytest.mark.parametrize("change", ["gone", "unasked"])
def test_where_numba_differs_there_is_no_cache_and_a_warning(monkeypatch, change):
    with monkeypatch.context() as other:
        if change == "gone":
            other.delattr(caching, "FunctionCache")
        else:  # another way to find out whether a file has changed
            other.setattr(caching.CompileResultCacheImpl, "locator", None)
        with pytest.warns(RuntimeWarning, match="caches differently"):
            assert kernel_compile._cache_class.__wrapped__() is None
    monkeypatch.setattr(kernel_compile, "_cache_class", lambda: None)
    assert kernel_compile.entry(lambda n: n + 1)(2) == 3


def test_where_nothing_can_be_kept_the_way_out_is_said(monkeypatch):
    for locator in caching.CompileResultCacheImpl._locator_classes:
        monkeypatch.setattr(locator, "from_function", lambda *_: None)
    with pytest.warns(RuntimeWarning, match="in the environment variable NUMBA_CACHE_DIR"):
        assert kernel_compile._cache_class.__wrapped__() is None


def test_this_version_of_numba_is_cached():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernel_compile._cache_class.__wrapped__() is not None, numba.__version__


def test_kernels_count_no_references():
    pair = collections.namedtuple("pair", "first second")

    def largest(arrays):
        best = 0.0
        for i in range(len(arrays.first)):
            best = max(best, arrays.first[i] if arrays.second[i] else arrays.second[0])
        return best

    compiled = kernel_compile.entry(largest)
    assert compiled(pair(np.arange(3.0), np.ones(3))) == 2.0
    [text] = compiled.inspect_llvm().values()
    assert "NRT_incref" not in text


def test_parts_stay_functions_of_their_own_in_the_kernel_they_are_in():
    """Also with one caller, which is `inline` itself and would hand that down."""
    names = ("rarely", "always")
    rarely = kernel_compile.part(lambda n: 3 * n)
    always = kernel_compile.inline(lambda n: rarely(n) + 1)
    for name, kernel in zip(names, (rarely, always), strict=True):
        kernel.py_func.__name__ = kernel.py_func.__qualname__ = name
    asked = kernel_compile.entry(lambda n: always(n))
    assert asked(5) == 16
    [text] = asked.inspect_llvm().values()
    defined = [line for line in text.splitlines() if line.startswith("define")]
    assert [any(name in line for line in defined) for name in names] == [True, False]
