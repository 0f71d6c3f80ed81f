"""The reference is whole: every parameter of a public name is documented, and examples run."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

MODULES = [
    *("lowswitch", "lowswitch.algorithms", "lowswitch.algorithms.parts", "lowswitch.bandits"),
    *("lowswitch.concurrent", "lowswitch.envs", "lowswitch.envs.gymnasium"),
    *("lowswitch.evaluation", "lowswitch.exact"),
    *("lowswitch.features", "lowswitch.features.problems", "lowswitch.forecast"),
    *("lowswitch.ledger", "lowswitch.races"),
]
API = Path(__file__).parents[1] / "docs" / "api"


def public(name):
    """The callables of a public module, by their names; an error has one sentence for all."""
    module = importlib.import_module(name)
    things = {one: getattr(module, one) for one in getattr(module, "__all__", vars(module))}
    return {
        one: thing
        for one, thing in things.items()
        if callable(thing)
        and not one.startswith("_")
        and str(getattr(thing, "__module__", "")).startswith("lowswitch")
        and not (isinstance(thing, type) and issubclass(thing, Exception))
    }


def text_of(thing):
    return inspect.getdoc(thing) or ""


def documented(thing):
    """The names in the section of parameters."""
    sections = re.findall(
        r"^(?:Other )?Parameters\n-+\n((?:\S.*(?:\n    .*|\n(?=\n    ))+\n?)+)",
        text_of(thing),
        re.M,
    )
    lines = re.findall(r"^(\w.*|\*.*)$", "".join(sections), re.MULTILINE)
    return [name.strip(" *") for line in lines for name in line.partition(" : ")[0].split(",")]


def parameters(thing):
    return [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]


def is_record(thing):
    """Whether comments beside its fields describe them, as those of results do."""
    return isinstance(thing, type) and (
        hasattr(thing, "__dataclass_fields__") or issubclass(thing, tuple)
    )


@pytest.mark.parametrize("name", MODULES)
def test_the_parameters_of_a_public_name_are_those_of_its_docstring(name):
    wrong = {}
    for one, thing in public(name).items():
        said = documented(thing)
        if (said or not is_record(thing)) and sorted(said) != sorted(parameters(thing)):
            wrong[one] = set(said) ^ set(parameters(thing))
    assert not wrong


def methods_of_the_ledger():
    """The methods that the page of the ledger lists, each with its class."""
    listed = re.findall(
        r"^::: (\S+)\n    options:\n      members: \[(.+)\]", (API / "ledger.md").read_text(), re.M
    )
    return [f"{owner}.{name.strip()}" for owner, names in listed for name in names.split(",")]


@pytest.mark.parametrize("name", methods_of_the_ledger())
def test_the_parameters_of_a_method_are_those_of_its_docstring(name):
    owner, _, last = name.rpartition(".")
    module, _, kind = owner.rpartition(".")
    method = inspect.getattr_static(pkgutil.resolve_name(f"{module}:{kind}"), last)
    if not isinstance(method, property):
        method = getattr(method, "__func__", method)
        assert sorted(documented(method)) == sorted(parameters(method))


def with_examples():
    found = {
        f"{name}.{one}": thing
        for name in MODULES
        for one, thing in public(name).items()
        if ">>> " in text_of(thing)
    }
    return [pytest.param(thing, id=name) for name, thing in found.items()]


@pytest.mark.parametrize("thing", with_examples())
def test_the_example_of_a_docstring_prints_what_it_shows(thing):
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder(recurse=False).find(thing, "example"):
        runner.run(example)
    assert runner.tries > 0
    assert runner.failures == 0
