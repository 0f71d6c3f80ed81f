"""Pages from templates in which every value is escaped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    import jinja2
    from markupsafe import Markup
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "pages need jinja2; install it with: pip install 'lowswitch[reproduce]'", name="jinja2"
    ) from error

__all__ = ["Markup", "templates"]


def templates(folder: Path, filters: dict[str, Callable[..., Any]]) -> jinja2.Environment:
    """The templates of a folder; a value that is missing is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= filters
    return made
