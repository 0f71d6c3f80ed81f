"""The setting in which results are made: the code, Python, the packages and the processor."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

_PATIENCE = 5.0  # seconds for git
_PACKAGES = ("numpy", "numba", "scipy")


def setting() -> dict[str, str]:
    """How a result was made, as far as that is known.

    `commit` is the commit of the repository around the working folder, and `lowswitch commit` the
    commit of the library if it runs from a clone; "-dirty" means that files differed from it.
    """
    here, library = commit_of(Path.cwd()), commit_of(Path(__file__).parent)
    commits = {"commit": here, "lowswitch commit": library}
    return {name: commit for name, commit in commits.items() if commit} | _machine()


def with_commit(version: str) -> str:
    """A version of the library with its commit, if it runs from a clone or was built in one."""
    here = Path(__file__).parents[1]
    built, clone = here / "commit.txt", here.parents[1] / "pyproject.toml"
    if built.exists():
        commit = built.read_text(encoding="utf-8").strip()
    else:  # a clone, and not some repository that an installed package lies in
        commit = commit_of(here) if (here.parent.name, clone.exists()) == ("src", True) else ""
    short = commit[:12] + "-dirty" * commit.endswith("-dirty")
    return f"{version} ({short})" if commit else version


@functools.cache
def commit_of(folder: Path) -> str:
    """The commit of the repository around a folder, found once per process; empty without one."""
    command = ["git", "-C", os.fspath(folder), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        ran = subprocess.run(
            [*command, "--abbrev=40"], capture_output=True, text=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


@functools.cache
def _machine() -> dict[str, str]:
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    cores = f"{os.cpu_count()} cores"
    return {"Python": platform.python_version(), **versions, "CPU": f"{_processor()}, {cores}"}


def _processor() -> str:
    """The name of the processor, or else of its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine()
