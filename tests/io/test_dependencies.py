"""Finished work is kept until a file that it depends on changes, and no longer."""

import ast
import shutil
from functools import partial

import numpy as np
import pytest

from lowswitch.io import dependencies, storage
from lowswitch.runs import simulate

PACKAGE = dependencies.PACKAGE
COMPUTING = [
    "runs.sweep",
    "races.race",
    "forecast.forecasts",
    "reproduce.lab",
    "reproduce.mistakes",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where a copy of the library lies."""
    place = tmp_path_factory.mktemp("copy") / "lowswitch"
    shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("__pycache__"))
    return place


parse_imports = dependencies._imports.__wrapped__
_imports = {}  # of a file with this text


def imports_now(path):
    """What a file imports as it is now; each text is parsed once."""
    key = path, path.read_bytes()
    if key not in _imports:
        _imports[key] = parse_imports(path)
    return _imports[key]


@pytest.fixture
def copy(place, monkeypatch):
    """A copy of the library whose files can be edited, and are put back."""
    monkeypatch.setattr(dependencies, "PACKAGE", place)
    monkeypatch.setattr(dependencies, "_imports", imports_now)
    files = {path: path.read_bytes() for path in place.rglob("*.*")}
    yield place
    for path, text in files.items():
        path.write_bytes(text)


def stamps():
    return [dependencies.code_stamp.__wrapped__(f"lowswitch.{module}") for module in COMPUTING]


def edit(path):
    path.write_bytes(path.read_bytes() + b"\n# edited\n")


def test_editing_a_page_the_ledger_or_the_command_line_throws_nothing_away(copy):
    before = stamps()
    for folder in ("service", "ledger", "cli", "show"):
        for path in copy.glob(f"{folder}/**/*.*"):
            edit(path)
    for file in ("races/report.py", "forecast/page.py", "reproduce/page.html", "__init__.py"):
        edit(copy / file)
    assert stamps() == before


@pytest.mark.parametrize(
    "file", ["kernels/noise.py", "algorithms/recipes.py", "envs/mdp.py", "gpu/kernel.cu"]
)
def test_editing_code_that_results_depend_on_does(copy, file):
    before = stamps()
    edit(copy / file)
    assert not set(before) & set(stamps())


def test_all_kernels_and_learners_are_code_that_results_depend_on():
    found = {path.relative_to(PACKAGE).as_posix() for path in _sources(COMPUTING)}
    for folder in ("kernels", "learners", "algorithms", "theory"):
        files = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob(f"{folder}/*.py")}
        names_only = {f"{folder}/__init__.py", "algorithms/parts.py", "theory/orders.py"}
        names_only |= {"kernels/beliefs.py"}  # nobody keeps a price
        names_only |= {"learners/case_posterior.py"}  # nor the judgement of a proposal
        assert files - names_only <= found
    assert {"envs/catalogue.py", "bandits/policies.py", "concurrent/runner.py"} <= found


def _sources(modules):
    return {path for module in modules for path in dependencies.sources(f"lowswitch.{module}")}


def test_files_that_only_show_results_exist():
    assert all((PACKAGE / name).exists() for name in dependencies._SHOWN)


def test_imports_name_the_module_so_that_they_can_be_followed():
    """Only the command line, which computes nothing, takes a function from the package itself."""
    for path in _sources(COMPUTING):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    assert not any(alias.name.startswith("lowswitch") for alias in node.names)
                if isinstance(node, ast.ImportFrom) and node.module == "lowswitch":
                    for alias in node.names:
                        module = dependencies._file(f"lowswitch.{alias.name}")
                        assert module or alias.name == "__version__", path


def test_kept_work_is_that_of_the_module_that_computes_it(tmp_path, monkeypatch):
    kept, asked = storage.Kept(tmp_path), []
    monkeypatch.setattr(storage, "code_stamp", lambda module: asked.append(module) or module)
    value = {"a": np.ones(1)}
    for compute in (lambda: value, partial(lambda found: found, value)):
        kept.get("curve", [1], compute, dict[str, np.ndarray])
    assert (set(asked), kept.found) == ({__name__}, 1)
    assert kept.place("curve", [1], simulate.__name__) != kept.place("curve", [1], __name__)


def test_a_program_of_ones_own_may_use_all_that_the_library_exports():
    assert set(dependencies.sources("__main__")) >= _sources(["runs.sweep", "races.race"])
