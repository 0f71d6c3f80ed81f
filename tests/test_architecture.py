"""The page on how the code is built is right: its layers are those of the imports, its walks those
of the calls, and its files exist.
"""

import ast
import functools
import importlib
import inspect
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import lowswitch as ls
from traces import package_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lowswitch"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FILES = {
    "/".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
}


@functools.cache
def tree_of(file):
    """The syntax tree of a file."""
    return ast.parse(FILES[file].read_text(encoding="utf-8"))


# ---- layers --------------------------------------------------------------------------------------


def rows(block, folder=""):
    """The row of each file and folder of a diagram."""
    found = re.findall(r"^ *(\d+)  +(\S.*?)(?:   .*)?$", block, re.MULTILINE)
    return {folder + name.rstrip("/"): int(row) for row, names in found for name in names.split()}


def row_of(file, layers):
    """The row of a file, or else of its folder."""
    while file and file not in layers:
        file = file.rpartition("/")[0]
    return layers[file]


def file_of(module, name=""):
    """The file that `from module import name` loads."""
    place = module.removeprefix("lowswitch").lstrip(".").replace(".", "/")
    for file in (f"{place}/{name}", f"{place}/{name}/__init__", place, f"{place}/__init__"):
        if file.lstrip("/") in FILES:
            return file.lstrip("/")
    raise ValueError(f"{module} is no module of lowswitch")


STATEMENTS = ast.stmt, ast.excepthandler, ast.match_case  # an import is in no expression


@functools.cache
def imports(file):
    """What a file imports from the library, and when: loaded, typed or deferred."""
    found = set()

    def visit(node, when):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lowswitch"):
            found.update((file_of(node.module, alias.name), when) for alias in node.names)
        if isinstance(node, ast.FunctionDef):
            when = "deferred"
        for name, value in ast.iter_fields(node):
            typed = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            for child in value if isinstance(value, list) else []:
                if isinstance(child, STATEMENTS):
                    visit(child, "typed" if typed and name == "body" else when)

    visit(tree_of(file), "loaded")
    return found - {(file, when) for when in ("loaded", "typed", "deferred")}


LAYERS, KERNELS = rows(BLOCKS[0]), rows(BLOCKS[1], "kernels/")


def test_every_file_has_a_row():
    assert all(row_of(file, LAYERS) for file in FILES)
    kernels = {file for file in FILES if file.startswith("kernels/")}
    assert kernels == {*KERNELS, "kernels/__init__"}


def test_imports_point_upwards_but_for_the_four_that_the_page_names():
    downwards = {
        (file, other, when)
        for file in FILES
        for other, when in imports(file)
        if row_of(other, LAYERS) > row_of(file, LAYERS)
    }
    assert downwards == {
        ("runs/results", "show/plotting", "deferred"),
        ("ledger/ledger", "__init__", "deferred"),
        ("runs/results", "show/report", "deferred"),
        ("io/archive", "__init__", "deferred"),
    }


def test_kernels_import_from_the_rows_above_theirs():
    for file in KERNELS:
        assert all(KERNELS[other] < KERNELS[file] for other, _ in imports(file))


ORDERS = {
    package: [part.split() for part in files.split("|")]
    for package, files in re.findall(r"^(\w+)/: ((?:.|\n(?=    ))*)", BLOCKS[2], re.MULTILINE)
}


def test_large_packages_have_an_order():
    large = {file.split("/")[0] for file in FILES if "/" in file}
    size = {name: sum(file.startswith(f"{name}/") for file in FILES) for name in large}
    assert {name for name in large if size[name] > 12} - {"kernels"} == set(ORDERS)


@pytest.mark.parametrize("package", ORDERS)
def test_files_of_a_package_import_from_those_before_them(package):
    place = {f"{package}/{name}": i for i, names in enumerate(ORDERS[package]) for name in names}
    here = {file for file in FILES if re.fullmatch(rf"{package}/(?!__init__)\w+", file)}
    assert place.keys() == here
    for file in here:
        for other, when in imports(file):
            if when == "loaded" and other in here:
                assert place[other] < place[file], (file, other)


# ---- private names -------------------------------------------------------------------------------

OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}


def private_names(tree):
    """The private functions, classes, attributes and fields that a file defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_nobody_uses_a_private_name_of_another_package():
    trees = {file: tree_of(file) for file in FILES}
    homes = {}
    for file, tree in trees.items():
        for name in private_names(tree):
            homes.setdefault(name, set()).add(package_of(file))
    reached = {
        (file, ast.unparse(node))
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.match(r"_[a-z]", node.attr)
        and node.attr not in OF_TUPLES
        and ast.unparse(node.value) not in ("self", "cls")
        and package_of(file) not in homes.get(node.attr, {package_of(file)})
    }
    assert reached == set()


def test_no_driver_asks_which_kind_of_problem_it_has():
    """What differs between tables and features is chosen by the type of the problem, in one place
    for each driver; only `require_mdp` asks, for what is about tables alone.
    """
    asked = [
        (file, ast.unparse(node.args[1]))
        for file in FILES
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass")
    ]
    kinds = {"TabularMDP", "FeatureProblem"}
    forks = [(file, kind) for file, kind in asked if kinds & set(re.findall(r"\w+", kind))]
    assert forks == [("envs/mdp", "TabularMDP")]


# ---- public names --------------------------------------------------------------------------------

DOCUMENTED = [
    name.removeprefix("lowswitch.").split(".")
    for page in sorted((ROOT / "docs" / "api").glob("*.md"))
    for name in re.findall(r"^::: (lowswitch\S*)", page.read_text(encoding="utf-8"), re.MULTILINE)
]
PUBLIC = ("", "algorithms", "bandits", "concurrent", "envs", "envs.gymnasium", "features", "ledger")


def exported():
    """The classes and the modules among the names of the public packages."""
    packages = [importlib.import_module(f"lowswitch.{name}".rstrip(".")) for name in PUBLIC]
    found = [(name, getattr(package, name)) for package in packages for name in package.__all__]
    found += [(name, getattr(ls.parts, name)) for name in ls.parts.__all__]
    return found


def test_no_public_class_shares_its_name_with_another_class():
    homes = Counter(
        node.name for file in FILES for node in tree_of(file).body if isinstance(node, ast.ClassDef)
    )
    public = {name for name, value in exported() if isinstance(value, type)}
    public |= {parts[-1] for parts in DOCUMENTED}
    assert len(public) > 100
    assert {name for name in public if homes[name] > 1} == set()


def test_no_public_module_shares_its_name_with_another_module():
    """A command has the name of what it is about, and `ledger.ledger` holds the `Ledger`."""
    modules = [file.removesuffix("/__init__") for file in FILES if not file.startswith("cli/")]
    homes = Counter(module.split("/")[-1] for module in modules if module != "ledger/ledger")
    public = {name for name, value in exported() if inspect.ismodule(value)}
    public |= {parts[-1] for parts in DOCUMENTED if "/".join(parts) in modules}
    assert {"bandits", "features", "orders", "bridge", "maps"} <= public
    assert {name for name in public if homes[name] > 1} == set()


def test_former_names_are_found():
    assert ls.envs.gymnasium.Played is ls.envs.gymnasium.EnvironmentRun
    assert ls.LinearLearner is ls.features.FeatureLearner


# ---- walks ---------------------------------------------------------------------------------------

WALKS = {
    title: re.findall(r"^( *)([\w.]+) +(\S.*)$", block, re.MULTILINE)
    for title, block in re.findall(
        r"^\*\*([^*]+)\*\*.*\n\n```text\n((?:.+\n)*)", PAGE, re.MULTILINE
    )
}
# what a walk says of a line whose name does not occur in the line above it
INDIRECT = ("called back:", "by message:", "by its name:")


def located(name):
    """The file and the syntax tree of the function, class or table that a walk names."""
    parts = name.split(".")
    size = max(i for i in range(len(parts)) if "/".join(parts[:i]) in {*FILES, *FOLDERS})
    file = "/".join(parts[:size])
    file = file if file in FILES else f"{file}/__init__"
    node = tree_of(file)
    for part in parts[size:]:
        # the last one: those before it are overloads, which have no body
        *_, node = (child for child in node.body if part in bound(child))
    return file, node


FOLDERS = {file.removesuffix("/__init__") for file in FILES if file.endswith("/__init__")}


def bound(node):
    """The names that a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return {target.id for target in targets if isinstance(target, ast.Name)}


def calls(walk):
    """Each line of a walk but the first with the line that calls it, and what is said of it."""
    stack = []
    for indent, name, said in walk:
        del stack[len(indent) // 2 :]
        if stack:
            yield stack[-1], name, said
        stack.append(name)


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_a_walk_goes_from_caller_to_callee(walk):
    for caller, name, said in calls(walk):
        if not any(mark in said for mark in INDIRECT):
            assert name.rpartition(".")[2] in ast.unparse(located(caller)[1]), (caller, name)
        located(name)


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_a_walk_turns_back_once_at_most_and_says_so(walk):
    files = list(dict.fromkeys(located(name)[0] for _, name, _ in walk))
    turns = [
        (caller, name)
        for caller, name, _ in calls(walk)
        if files.index(located(name)[0]) < files.index(located(caller)[0])
    ]
    assert turns == [(caller, name) for caller, name, said in calls(walk) if said[0] == "↩"]
    assert len(turns) <= 1


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """For each walk the stacks of packages that were entered when it was played."""
    command = [sys.executable, ROOT / "tests" / "traces.py", tmp_path_factory.mktemp("traces")]
    played = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(played.stdout)


def stacks(walk):
    """The packages on the way to each line, those of one thread or process together.

    A line that is called by a message begins another sequence.
    """
    sequences, open_lines = [[]], []
    for indent, name, said in walk:
        del open_lines[len(indent) // 2 :]
        base, sequence = open_lines[-1] if open_lines else ((), sequences[0])
        if "by message:" in said:
            base, sequence = (), []
            sequences.append(sequence)
        package = package_of(located(name)[0])
        stack = base if base[-1:] == (package,) else (*base, package)
        open_lines.append((stack, sequence))
        sequence.append(list(stack))
    return sequences


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_goes_through_the_packages_that_a_recorded_call_goes_through(title, recorded):
    """Every line has its stack of packages in the record, and they come in the order of the lines:
    nothing that the walk leaves out lies between two packages of a stack.
    """
    for sequence in stacks(WALKS[title]):
        assert any(_in_order(sequence, record) for record in recorded[title]), sequence


def _in_order(sequence, record):
    entries = iter(record)
    return all(any(entry == stack for entry in entries) for stack, _ in itertools.groupby(sequence))


def test_a_walk_in_another_order_of_packages_is_not_in_the_record(recorded):
    (lines,) = stacks(WALKS["Approve"])
    changed = [["ledger", "learners"] if "learners" in stack else stack for stack in lines]
    for wrong in (changed, [*lines, max(lines, key=len)], [["review"], *lines]):
        assert not any(_in_order(wrong, record) for record in recorded["Approve"])


def test_there_are_the_nine_walks():
    assert [*WALKS] == [
        "Simulate",
        "Tell",
        "`few`",
        "Features",
        "A speculative round",
        "Frontier",
        "Reproduce",
        "Approve",
        "Report",
    ]


# ---- changes -------------------------------------------------------------------------------------


CHANGES = re.findall(r"^\| (.*?) \| (`.*?`) \| (`.*?`) \| .* \|$", PAGE, re.MULTILINE)


def test_there_are_the_twelve_changes():
    assert len(CHANGES) == 12
    assert {"a route of the service", "an event of the ledger"} <= {
        change for change, *_ in CHANGES
    }


@pytest.mark.parametrize(("change", "example", "files"), CHANGES, ids=[row[0] for row in CHANGES])
def test_a_change_touches_the_files_in_which_its_example_occurs(change, example, files):
    names = re.compile(rf"\b({'|'.join(re.findall(r'`(.*?)`', example))})\b")
    occurs = {file for file, path in FILES.items() if names.search(path.read_text("utf-8"))}
    assert {name.removesuffix(".py") for name in re.findall(r"`(.*?)`", files)} == occurs, change
