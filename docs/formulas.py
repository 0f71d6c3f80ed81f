"""Makes the page of all formulas, docs/formulas.md, from docs/formulas.toml.

A formula has one source, one or more functions and one or more tests; the page shows them section
by section, and then file by file.
"""

import tomllib
from pathlib import Path
from typing import Any

from pages import table

HERE = Path(__file__).parent
PAGE = HERE / "formulas.md"


def load() -> dict[str, Any]:
    """What the page says: its introduction, its sections with their rows, and its end."""
    return tomllib.loads((HERE / "formulas.toml").read_text(encoding="utf-8"))


def render() -> str:
    """The whole page."""
    found = load()
    parts = [f"# {found['title']}\n\n{found['introduction']}"]
    for section in found["section"]:
        parts.append(f"## {section['title']}\n")
        if "note" in section:
            parts.append(f"{section['note']}\n")
        header = ["what", section.get("column", "formula"), "source", "function", "test"]
        rows = [
            [row["what"], row["formula"], row.get("source", ""), *map(_names, _places(row))]
            for row in section["row"]
        ]
        parts.append(table(header, rows, left=len(header)) + "\n")
    return "\n".join([*parts, found["statistics"], "## File by file\n", by_file(found)])


def _places(row: dict[str, Any]) -> tuple[list[str], list[str]]:
    return row["functions"], row["tests"]


def _names(names: list[str]) -> str:
    return "<br>".join(f"`{name}`" for name in names)


def by_file(found: dict[str, Any]) -> str:
    """The functions of each file, with what they compute."""
    files: dict[str, dict[str, list[str]]] = {}
    for section in found["section"]:
        for row in section["row"]:
            for name in row["functions"]:
                file, _, function = name.partition("::")
                files.setdefault(file, {}).setdefault(function, []).append(row["what"])
    rows = [
        [f"`{file}`" if not i else "", f"`{function}`", ", ".join(dict.fromkeys(whats))]
        for file in sorted(files)
        for i, (function, whats) in enumerate(sorted(files[file].items()))
    ]
    return table(["file", "function", "computes"], rows, left=3) + "\n"
