"""Kinds of events: one table says what is true of each."""

import ast
from pathlib import Path

import pytest

import lowswitch
from lowswitch.ledger.events import KINDS
from lowswitch.ledger.state import State

SOURCE = Path(lowswitch.__file__).parent
FILES = [file for part in ("ledger", "service", "cli") for file in (SOURCE / part).glob("*.py")]


def listed(node):
    """The texts that a tuple, a list or a set lists, or that are the keys of a dictionary."""
    nodes = getattr(node, "keys" if isinstance(node, ast.Dict) else "elts", [])
    return [one.value for one in nodes if isinstance(one, ast.Constant)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_kinds_are_listed_in_one_table(file):
    lists = [listed(node) for node in ast.walk(ast.parse(file.read_text()))]
    found = [one for one in lists if len(one) > 1 and set(one) <= set(KINDS)]
    assert found == ([list(KINDS)] if file.name == "events.py" else [])


def test_a_state_takes_in_every_kind_but_the_first_event():
    assert [kind for kind in KINDS if not hasattr(State, f"_{kind}")] == ["created"]
