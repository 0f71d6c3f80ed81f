"""A part of an algorithm as JSON can hold it: its kind by name, and its fields."""

from __future__ import annotations

import dataclasses
from typing import Any

from lowswitch.algorithms.text import nearest
from lowswitch.checks import shown


class UnknownPartError(ValueError):
    """A part of an algorithm is of a class that is not known here, or that would not be used."""


def part_to_dict(part: Any) -> dict[str, Any]:
    """The kind and the fields of a frozen dataclass."""
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    for name, value in fields.items():
        if not _fits_json(value):
            raise ValueError(
                f"{name}={shown(value)} of {type(part).__name__} cannot be saved; use numbers,"
                " texts, or tuples of them"
            )
    source = getattr(part, "source", "")
    kind = {"kind": _kind_name(type(part))} | ({"source": source} if source else {})
    return kind | {
        name: part_to_dict(value) if dataclasses.is_dataclass(value) else value
        for name, value in fields.items()
    }


def part_from_dict(name: str, data: dict[str, Any], bases: tuple[type, ...]) -> Any:
    """What `part_to_dict` wrote of an estimator, a bonus or a schedule derived from these bases."""
    kinds = {_kind_name(kind): kind for kind in _with_derived(bases)}
    fields = {
        key: part_from_dict(name, value, bases) if isinstance(value, dict) else _from_json(value)
        for key, value in data.items()
    }
    kind = fields.pop("kind")
    if kind not in kinds:
        module = kind.rpartition(".")[0]
        hint = f"import {module} first" if module else nearest(kind, kinds)
        if module == "__main__":
            hint = (
                "it was defined in a script; define it in a module that both who saves and who"
                " loads import"
            )
        raise UnknownPartError(f"unknown {name} {shown(kind)}; {hint}")
    _require_source(kind, kinds[kind], fields.pop("source", ""))
    return kinds[kind](**fields)


def _require_source(name: str, kind: type, saved: str) -> None:
    """Refuse a function of the user's that has changed since it was saved."""
    source = getattr(kind, "source", "")
    if source != saved:
        raise UnknownPartError(
            f"the source of {name} has changed since this was saved (its hash was"
            f" {saved[:12] or 'none'} and is {source[:12] or 'none'} now), so nothing can be"
            " replayed with it; restore the function as it was, and give the new one another name"
        )


def is_own(kind: type) -> bool:
    """Whether a class is not one of the library."""
    return not kind.__module__.startswith("lowswitch.")


def _kind_name(kind: type) -> str:
    """The name of a class, with its module if it is not one of the library."""
    return f"{kind.__module__}.{kind.__qualname__}" if is_own(kind) else kind.__name__


def _with_derived(kinds: tuple[type, ...]) -> list[type]:
    """The classes and all derived from them: one of your own once its module is imported."""
    return [
        other for kind in kinds for other in (kind, *_with_derived(tuple(kind.__subclasses__())))
    ]


def _fits_json(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_fits_json, value))
    plain = value is None or isinstance(value, str | int | float | bool)
    return plain or dataclasses.is_dataclass(value)


def _from_json(value: Any) -> Any:
    """JSON has lists for tuples."""
    return tuple(map(_from_json, value)) if isinstance(value, list) else value
