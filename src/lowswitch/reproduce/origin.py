"""Where numbers come from: the version, the commit if it is known, the day and the machine."""

from __future__ import annotations

import datetime
import platform
import subprocess
from pathlib import Path

import lowswitch
from lowswitch.show.progress import cores

PAPER = (
    "Yu Bai, Tengyang Xie, Nan Jiang, Yu-Xiang Wang: Provably Efficient Q-Learning with Low"
    " Switching Cost, NeurIPS 2019, arXiv 1905.12849"
)


def describe_origin() -> dict[str, str]:
    """What stands at the foot of a page."""
    return {
        "version": lowswitch.__version__,
        "commit": commit(Path(lowswitch.__file__).parent),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{cores()} cores, {processor()}",
    }


def commit(package: Path) -> str:
    """The commit whose files these are, or "unknown".

    A package that is installed below a clone counts as the clone's only if its code is the same.
    """
    root = _git(package, "rev-parse", "--show-toplevel")
    if not root:
        return "unknown"
    source = Path(root) / "src" / package.name
    if not (source / "__init__.py").exists() or not _same_code(package, source):
        return "unknown"
    changed = _git(source, "status", "--porcelain", "--", ".")
    return _git(source, "rev-parse", "--short=10", "HEAD") + (" and later changes" * bool(changed))


def _same_code(one: Path, other: Path) -> bool:
    def code(folder: Path) -> dict[str, bytes]:
        return {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.py")
        }

    return one == other or code(one) == code(other)


def _git(folder: Path, *arguments: str) -> str:
    """What git says of a folder, or nothing where there is no git or no clone."""
    try:
        said = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip()


def processor() -> str:
    """The name of the processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
