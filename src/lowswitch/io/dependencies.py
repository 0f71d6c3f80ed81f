"""The files that results depend on, so that finished work stays valid until one of them changes."""

from __future__ import annotations

import ast
import functools
import hashlib
import threading
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
_SHOWN = ("show/", "races/report.py", "forecast/page.py")  # only print and draw results


@functools.cache
def code_stamp(module: str) -> str:
    """A hash of all files that the results of a module depend on."""
    total = hashlib.sha256()
    for path in sources(module):
        name = path.relative_to(PACKAGE).as_posix()
        total.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def sources(module: str) -> list[Path]:
    """The files of a module and of everything it imports, immediately or later, with GPU kernels.

    Files that only show results are left out. A module outside the library may use everything that
    `lowswitch` exports.
    """
    found, open_ends = set[Path](), [_file(module) or PACKAGE / "__init__.py"]
    while open_ends:
        path = open_ends.pop()
        if path not in found and not path.relative_to(PACKAGE).as_posix().startswith(_SHOWN):
            found |= {path, *path.parent.glob("*.cu")}
            open_ends += _imports(path)
    return sorted(found)


_PARSING = threading.Lock()  # Python 3.11 fails if two threads parse at once


@functools.cache
def _imports(path: Path) -> list[Path]:
    """The files of the library that a file imports, except for names that `lowswitch` exports."""
    with _PARSING:
        tree = ast.parse(path.read_bytes())
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names = [(node.module or "", alias.name) for node in froms for alias in node.names]
    files = [_file(f"{module}.{name}") or _file(module) for module, name in names]
    return [file for file in files if file and file != PACKAGE / "__init__.py"]


def _file(module: str) -> Path | None:
    """The file of a module of the library."""
    root, *parts = module.split(".")
    place = PACKAGE.joinpath(*parts)
    files = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in files if root == PACKAGE.name and file.exists()), None)
