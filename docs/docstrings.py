"""How mkdocstrings reads this code: the trailing comments of fields describe attributes."""

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
                member.docstring.value += attributes(member)
            walk(member)


def attributes(member: griffe.Object) -> str:
    """A numpydoc section with the fields of a class that have a comment and no text yet.

    A comment is a shape, words, or both with two spaces between.
    """
    items = []
    entries = re.findall(r"(?m)^[\w, ]+$(?=\n    )", member.docstring.value)
    documented = {name.strip() for entry in entries for name in entry.split(",")}
    for field in member.members.values() if isinstance(member, griffe.Class) else ():
        is_field = isinstance(field, griffe.Attribute) and "property" not in field.labels
        comment = "".join(field.lines).partition("  # ")[2].strip() if is_field else ""
        if comment and field.name not in documented and not field.name.startswith("_"):
            shape, words = re.fullmatch(r"(\[[^]]*\])?(.*)", comment, re.DOTALL).groups()
            text = f"`{shape}` {words.strip()}" if shape else words
            items.append(f"{field.name}\n    {text.strip()}")
    return "\n\nAttributes\n----------\n" + "\n".join(items) if items else ""
