"""Scripts that no test runs: what they import exists."""

import ast
import importlib
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(
    path for folder in ("benchmarks", "docs", "examples") for path in (TOP / folder).rglob("*.py")
)


def imports(path):
    """Pairs of a module and a name that a script takes from it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def names_in(path):
    """The names that a script defines at its top level, imports among them."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        else:
            stored = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            yield from (name.id for name in stored if isinstance(name.ctx, ast.Store))


def exists(module, name, script):
    """Whether a module of the library, or a script in the same folders, has this name."""
    if module.partition(".")[0] == "lowswitch":
        found = importlib.import_module(module)
        return hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}") is not None
    beside = [folder / f"{module}.py" for folder in (script.parent, script.parent.parent)]
    return all(name in names_in(path) for path in beside if path.exists() and path != script)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(TOP)))
def test_what_a_script_imports_exists(script):
    missing = [f"{m}.{name}" for m, name in imports(script) if not exists(m, name, script)]
    assert not missing
