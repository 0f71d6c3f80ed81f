"""How mkdocstrings reads this code: a trailing comment documents a field, and `name: ...` in a
docstring a parameter.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Found by mkdocs.yml; works on a whole package once it is read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        walk(pkg)


def walk(parent: griffe.Object) -> None:
    for member in parent.members.values():
        if not isinstance(member, griffe.Alias):
            if member.docstring is not None:
                member.docstring.value = list_parameters(
                    member.docstring.value, parameters_of(member)
                ) + list_fields(member)
            walk(member)


def parameters_of(member: griffe.Object) -> list[str]:
    function = member.members.get("__init__") if isinstance(member, griffe.Class) else member
    return (
        [parameter.name for parameter in function.parameters]
        if isinstance(function, griffe.Function)
        else []
    )


def list_parameters(text: str, names: list[str]) -> str:
    """Turn `name: ...` at the beginning of a line or a sentence into a list item."""
    if not names:
        return text
    items = re.sub(rf"(?:^|(?<=\. ))({'|'.join(names)}): ", r"\n- `\1`: ", text, flags=re.MULTILINE)
    return items.replace("\n- `", "\n\n- `", 1)


def list_fields(member: griffe.Object) -> str:
    """A class's fields that have a comment: a shape, words, or both with two spaces between."""
    items = []
    for field in member.members.values() if isinstance(member, griffe.Class) else ():
        comment = (
            "".join(field.lines).partition("  # ")[2].strip()
            if isinstance(field, griffe.Attribute)
            else ""
        )
        if comment and not field.name.startswith("_") and "property" not in field.labels:
            shape, words = re.fullmatch(r"(\[[^]]*\])?(.*)", comment, re.DOTALL).groups()
            items.append(
                f"- `{field.name}`"
                + (f" `{shape}`" if shape else "")
                + (f": {words.strip()}" if words.strip() else "")
            )
    return "\n\n" + "\n".join(items) if items else ""
