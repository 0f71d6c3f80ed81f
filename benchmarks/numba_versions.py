"""Tries every minor version of numba that pyproject.toml allows, each in an environment of its own.

`lowswitch.kernels.compile` rests on internals of numba's cache, so a new version may break it. Of
each minor version the newest patch is installed, with the numpy that fits. Then
`tests/kernels/test_compile.py` shows whether kernels are cached, and whether an edit is noticed.
With `--exam` three learners must also have the histories of `tests/digests.json`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("numpy", "scipy", "pytest", "pytest-xdist", "hypothesis")  # what the tests need
CACHED = "test_this_version_of_numba_is_cached"
EDITED = "test_an_edit_in_a_callee_of_another_file_is_seen"
LEARNERS = ("ucb2-b", "ucrl2", "psrl")


def allowed_versions() -> list[str]:
    """The newest patch of each minor version from the lower bound of pyproject.toml on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [bound] = [text for text in project["dependencies"] if text.startswith("numba>=")]
    lowest = numbers(bound.removeprefix("numba>="))
    command = [sys.executable, "-m", "pip", "index", "versions", "numba"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [line] = re.findall("Available versions: (.*)", listed)
    newest: dict[tuple[int, ...], str] = {}
    for version in sorted(line.split(", "), key=numbers):
        if numbers(version) >= lowest:
            newest[numbers(version)[:2]] = version
    return list(newest.values())


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def try_version(version: str, folder: Path, exam: bool) -> tuple[str, ...]:
    """The line of the table for one version."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    installed = attempt([python, "-m", "pip", "install", "--quiet", f"numba=={version}", *BESIDE])
    if installed.returncode:
        return version, "", "no", "no", "no"
    numpy = attempt([python, "-c", "import numpy; print(numpy.__version__)"]).stdout.strip()
    tests = ["tests/kernels/test_compile.py"]
    if exam:
        tests += [f"tests/test_digests.py::test_histories_are_kept[{name}]" for name in LEARNERS]
    # a version may warn of what a later one will do, and still work
    tested = attempt([python, "-m", "pytest", "-rA", "-W", "default", *tests], folder / "cache")
    passed = [
        f"PASSED tests/kernels/test_compile.py::{name}" in tested.stdout
        for name in (CACHED, EDITED)
    ]
    answers = [tested.returncode == 0, *passed]
    return version, numpy, *("yes" if answer else "no" for answer in answers)


def attempt(command: list[str | Path], cache: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command in this repository, and show what it printed if it fails."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exam", action="store_true", help=f"also play {', '.join(LEARNERS)}")
    parser.add_argument("versions", nargs="*", help="by default all that pyproject.toml allows")
    given = parser.parse_args()
    print(
        "| numba | numpy | works | cached | edit seen |", "| --- " * 5 + "|", sep="\n", flush=True
    )
    for version in given.versions or allowed_versions():
        with tempfile.TemporaryDirectory() as folder:
            line = try_version(version, Path(folder), given.exam)
        print(f"| {' | '.join(line)} |", flush=True)


if __name__ == "__main__":
    main()
