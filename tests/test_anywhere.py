"""The library runs where nothing can be kept, nothing can be shown, and nobody reads."""

import os
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import lowswitch as ls
from lowswitch.cli.commands import COMMANDS, main
from lowswitch.cli.syntax import parser
from lowswitch.kernels import compile as kernel_compile
from lowswitch.show.progress import Progress

SOURCE = str(Path(ls.__file__).parents[1])
LIST = [sys.executable, "-m", "lowswitch", "algorithms"]
SMALL = "run --env chain:states=3,horizon=3 --algorithm ucb2-h:c=0.05 --episodes 9 --seeds 1"
KERNEL = """
import sys, warnings
from lowswitch.kernels.schedule import next_growth
from lowswitch.kernels.compile import entry

def doubled(n):
    return 2 * n

print(entry(doubled)(21))
"""


# ---- compiled code -------------------------------------------------------------------------------


def compiled(**environment):
    """What a process prints that compiles one function, and what it warns of."""
    environment = os.environ | {"PYTHONPATH": SOURCE} | environment
    command = [sys.executable, "-c", KERNEL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr


@pytest.fixture
def no_space(tmp_path, monkeypatch):
    """A cache whose files cannot be written."""
    cache = kernel_compile._cache_class()
    kernel_compile._warn_uncached.cache_clear()
    monkeypatch.setattr(
        "numba.core.caching.IndexDataCacheFile._open_for_write",
        lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")),
    )
    yield cache
    kernel_compile._warn_uncached.cache_clear()


def test_without_a_folder_for_compiled_code_one_line_says_so(tmp_path):
    """A file stands where the folder should be: not even root can write there."""
    (tmp_path / "file").write_text("")
    package = tmp_path / "lowswitch"
    shutil.copytree(Path(ls.__file__).parent, package)
    shutil.rmtree(package / "kernels" / "__pycache__", ignore_errors=True)
    (package / "kernels" / "__pycache__").write_text("")
    nowhere = str(tmp_path / "file" / "folder")
    answer, said = compiled(
        PYTHONPATH=str(tmp_path), NUMBA_CACHE_DIR=nowhere, HOME=nowhere, XDG_CACHE_HOME=nowhere
    )
    assert answer == "42"
    assert said.count("RuntimeWarning") == 1
    assert "name a writable folder in the environment variable NUMBA_CACHE_DIR" in said


def test_a_full_disk_costs_the_cache_and_nothing_else(no_space):
    with pytest.warns(RuntimeWarning, match="cannot be kept .*No space left on device"):
        assert kernel_compile.entry(lambda n: n + 3)(2) == 5
    assert kernel_compile.entry(lambda n: n + 4)(2) == 6  # said once


def doubled(n):
    return 2 * n


def test_truncated_files_of_the_cache_are_compiled_anew(tmp_path, monkeypatch):
    """What a new process finds, a new dispatcher finds in this one."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    kernel_compile._warn_uncached.cache_clear()

    def hits():
        kernel = kernel_compile.entry(doubled)
        assert kernel(21) == 42
        return sum(kernel.stats.cache_hits.values())

    assert (hits(), hits()) == (0, 1)
    kept = list(tmp_path.rglob("*doubled*.nb[ic]"))
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.warns(RuntimeWarning, match="compiled kernels cannot be read") as said:
            assert hits() == 0
        assert len(said) == 1
        kernel_compile._warn_uncached.cache_clear()
        assert hits() == 1  # and kept again
    (index,) = tmp_path.rglob("*doubled*.nbi")
    with index.open("rb") as file:
        version = pickle.dumps(pickle.load(file))
    for gone in (b"clowswitch.kernels.arrays\nGone\n.", b"clowswitch.kernels.gone\nGone\n."):
        index.write_bytes(version + gone)  # as another version of the library may have left it
        assert (hits(), hits()) == (0, 1)


# ---- streams -------------------------------------------------------------------------------------


def shell(command, **environment):
    environment = os.environ | {"PYTHONPATH": SOURCE} | environment
    line = command.format(list=" ".join(LIST))
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("{list} | head -c 1 > /dev/null", 1, ""),
        ("{list} --help | head -c 1 > /dev/null", 0, ""),
        ("{list} > /dev/full", 1, "lowswitch: cannot write the output: No space left on device"),
        ("{list} >&-", 0, ""),
        ("{list} >&- 2>&-", 0, ""),
        ("{list} 2> /dev/full > /dev/full", 1, ""),
    ],
)
def test_streams_that_are_closed_full_or_left(command, code, said):
    done = shell(command)
    assert done.returncode in (code, 0 if "head" in command else code)
    assert done.stderr.strip() == said


def test_a_terminal_that_knows_ascii_only():
    done = shell("{list} --nöthing", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert done.returncode == 2
    assert "unrecognized arguments: --n" in done.stderr
    done = shell(
        "{list} && " + " ".join(LIST[:-1]) + " run --env 'café' --algorithm ucb2-b --episodes 1",
        PYTHONIOENCODING="ascii",
    )
    assert "unknown problem 'caf\\xe9'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("stream", [None, "closed"])
def test_progress_where_there_is_no_stderr(stream, monkeypatch):
    given = None if stream is None else open(os.devnull, "w")  # noqa: SIM115
    if given is not None:
        given.close()
    monkeypatch.setattr(sys, "stderr", given)
    with Progress(2, unit="steps") as bar:
        assert not bar.show
    with Progress(2, unit="steps", show=True) as bar:
        bar.update(1)
        assert not bar.show


def test_whole_numbers_are_exact(capsys):
    required = ["--env", "x", "--algorithm", "y", "--episodes", "1e3", "--machines", "1_0"]
    given = parser(COMMANDS).parse_args(["concurrent", *required, "--seed", "9007199254740993"])
    assert (given.seed, given.episodes, given.machines) == (9007199254740993, 1000, 10)
    for text in ("1.5", "nan", "inf", "1e400", "1e9999999999999", "x", "9" * 5000, ""):
        with pytest.raises(SystemExit):
            parser(COMMANDS).parse_args(["concurrent", *required, "--seed", text])
        assert "is not a whole number" in capsys.readouterr().err


def test_an_owned_checkpoint_is_one_line(tmp_path, capsys):
    from lowswitch.io.files import owning

    path = tmp_path / "run.npz"
    command = "concurrent --env chain:states=3,horizon=3 --algorithm ucb2-h --episodes 9"
    with owning(path):
        assert main([*command.split(), "--machines", "2", "--checkpoint", str(path)]) == 1
    assert f"run.npz' is in use by process {os.getpid()}" in capsys.readouterr().err


def test_warnings_are_notes(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(SMALL.split()) == 0
    assert "chain:states=3,horizon=3" in capsys.readouterr().out
