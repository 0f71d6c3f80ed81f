"""Named things asked for in text: `name:key=value,key=value`, and what to say when there is no such
name.
"""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def nearest(name: str, known: Iterable[str]) -> str:
    """The way out of an unknown name, in words."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(names))}"


def build(text: str, known: Mapping[str, Callable[..., Any]], what: str) -> Any:
    """Call the function named by `name:key=value,...` with these keywords."""
    if not isinstance(text, str):
        raise ValueError(f"a {what} is named by a text such as name:key=value, not {text!r}")
    name, _, rest = text.partition(":")
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}; {nearest(name, known)}")
    parameters = inspect.signature(known[name]).parameters
    options = options_of(rest, name, what)
    for key in options:
        if key not in parameters:
            raise ValueError(f"{name} has no option {key!r}; {nearest(key, parameters)}")
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty and key not in options
    ]
    if missing:
        raise ValueError(
            f"{name} needs {', '.join(missing)}; write"
            f" {name}:{','.join(f'{key}=...' for key in missing)}"
        )
    return known[name](**options)


def options_of(text: str, name: str, what: str) -> dict[str, Any]:
    """What `key=value,key=value` says of a thing of this name."""
    options: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(
                f"{what} option {part!r} is not of the form key=value; write"
                f" {name}:key=value,key=value"
            )
        if key in options:
            raise ValueError(f"{name} has its option {key!r} twice; give it once")
        options[key] = literal(value)
    return options


def literal(text: str) -> Any:
    """A number or a boolean where it reads as one, else the text itself."""
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError):
        return text
