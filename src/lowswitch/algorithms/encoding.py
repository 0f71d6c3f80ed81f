"""A part of an algorithm as JSON can store it: the name of its class, and its fields."""

from __future__ import annotations

import dataclasses
from typing import Any

from lowswitch.algorithms.fingerprints import fingerprint_of, is_own
from lowswitch.algorithms.text import nearest
from lowswitch.checks import shown
from lowswitch.io.archive import UnknownPartError


def part_to_dict(part: Any) -> dict[str, Any]:
    """The class name and the fields of a frozen dataclass."""
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    for name, value in fields.items():
        if not _fits_json(value):
            raise ValueError(
                f"{name}={shown(value)} of {type(part).__name__} cannot be saved; use numbers,"
                " texts, or tuples of them"
            )
    source = _source_of(type(part))
    kind = {"kind": _kind_name(type(part))} | ({"source": source} if source else {})
    return kind | {
        name: part_to_dict(value) if dataclasses.is_dataclass(value) else value
        for name, value in fields.items()
    }


def part_from_dict(name: str, data: dict[str, Any], bases: tuple[type, ...]) -> Any:
    """Read an estimator, bonus or schedule that `part_to_dict` wrote; its class must derive from
    `bases`.
    """
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
                "it was defined in a script; move it to a module that both the saving "
                "and the loading program import"
            )
        raise UnknownPartError(f"unknown {name} {shown(kind)}; {hint}")
    _require_source(kind, kinds[kind], fields.pop("source", ""))
    return kinds[kind](**fields)


def _source_of(kind: type) -> str:
    """A hash of the code of a part of the user's; empty for one of the library."""
    source = str(getattr(kind, "source", ""))  # of one that was made of a function
    return source or (fingerprint_of(kind) if is_own(kind) else "")


def _require_source(name: str, kind: type, saved: str) -> None:
    """Refuse code of the user's that has changed since it was saved.

    Files from before classes were hashed say nothing of their code, and are trusted.
    """
    source = _source_of(kind)
    if source != saved and (saved or hasattr(kind, "source")):
        raise UnknownPartError(
            f"the source of {name} has changed since this was saved (its hash was"
            f" {saved[:12] or 'none'} and is {source[:12] or 'none'} now), so nothing can be"
            " replayed with it; restore it, with everything that it reads, as it was, and give the"
            " new one another name"
        )


def _kind_name(kind: type) -> str:
    """The name of a class, with its module if the class was defined outside the library."""
    return f"{kind.__module__}.{kind.__qualname__}" if is_own(kind) else kind.__name__


def _with_derived(kinds: tuple[type, ...]) -> list[type]:
    """The classes and all derived ones; yours appear once their module is imported."""
    return [
        other for kind in kinds for other in (kind, *_with_derived(tuple(kind.__subclasses__())))
    ]


def _fits_json(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_fits_json, value))
    plain = value is None or isinstance(value, str | int | float | bool)
    return plain or dataclasses.is_dataclass(value)


def _from_json(value: Any) -> Any:
    """Turn the lists that JSON stores back into tuples."""
    return tuple(map(_from_json, value)) if isinstance(value, list) else value
