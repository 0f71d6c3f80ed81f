"""What comes in: bodies that are read whole within limits, and JSON that says one thing only.

`json.loads` takes NaN, infinities, numbers that overflow to them, duplicate keys and lone halves of
surrogate pairs without a word. Here each of them is refused, and so is every field that is not
expected, before anything is looked up or changed.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from lowswitch.ledger.connection import why_no_text

MOST_BYTES = 1 << 20  # of a body
_MOST_DROPPED = 8 << 20  # bytes that are read only to say that they are too many
MOST_SECONDS = 10.0  # for a body to come
MOST_DIGITS = 18  # of a whole number
_LARGE = 10**MOST_DIGITS
_MOST_FIELDS = 5000  # of a form


class RefusedError(Exception):
    """A request that is not carried out, with its status code and why."""

    def __init__(self, status: int, says: str, kind: str = "Refused") -> None:
        super().__init__(says)
        self.status, self.says, self.kind = status, says, kind


async def body_of(request: Request) -> bytes:
    """The whole body, if it is small, plain and soon there."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError(415, "compressed bodies are not taken; send it as it is")
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced[:20]) > _MOST_DROPPED:
        raise _too_large()
    try:
        async with asyncio.timeout(MOST_SECONDS):
            return await _read(request)
    except TimeoutError:
        raise RefusedError(408, f"the body took longer than {MOST_SECONDS:g} seconds") from None
    except ClientDisconnect:
        raise RefusedError(400, "the connection broke before the body was there") from None


async def _read(request: Request) -> bytes:
    """The body; one that is a bit too large is read and dropped, so that its sender hears why."""
    pieces, size = list[bytes](), 0
    async for piece in request.stream():
        size += len(piece)
        if size > _MOST_DROPPED:
            raise _too_large()
        if size <= MOST_BYTES:
            pieces.append(piece)
        else:
            pieces.clear()
    if size > MOST_BYTES:
        raise _too_large()
    return b"".join(pieces)


def _too_large() -> RefusedError:
    return RefusedError(413, f"a body may have {MOST_BYTES:,} bytes; send fewer reports at once")


# ---- JSON ----------------------------------------------------------------------------------------


def parsed(body: bytes) -> Any:
    """The value of a JSON text that leaves nothing open."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except RecursionError:
        raise RefusedError(400, "the JSON is nested too deeply") from None
    except ValueError as error:
        raise RefusedError(400, f"the body is no JSON that is taken here: {error}") from None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)

Check = Callable[[str, Any], Any]


def fields(value: Any, checks: dict[str, Check], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object with these fields and no others, each checked."""
    if not isinstance(value, dict):
        raise RefusedError(400, f"an object with {', '.join(checks)} is expected")
    if not value.keys() <= checks.keys():
        name = min(value.keys() - checks.keys())
        raise RefusedError(400, f"there is no field {name[:80]!r}; there are {', '.join(checks)}")
    for name in checks:
        if name not in value and name not in optional:
            raise RefusedError(400, f"the field {name!r} is missing")
    return {name: checks[name](name, given) for name, given in value.items()}


def text(name: str, value: Any) -> str:
    """A text that can be shown, and is not empty."""
    if (why := why_no_text(name, value)) is not None:
        raise RefusedError(400, why)
    found: str = value
    return found


def label(name: str, value: Any) -> int | str:
    """A label or a position of a state, an action or a step."""
    return whole(name, value) if type(value) is int else text(name, value)


def number(name: str, value: Any) -> int | float:
    """A number that is finite; a truth value is none."""
    if type(value) is int:
        return whole(name, value)
    if type(value) is not float or not math.isfinite(value):
        raise RefusedError(400, f"{name} must be a number")
    found: float = value
    return found


def whole(name: str, value: Any) -> int:
    """A whole number that fits into 64 bits; a truth value is none."""
    if type(value) is not int or not -_LARGE < value < _LARGE:
        raise RefusedError(400, f"{name} must be a whole number of at most {MOST_DIGITS} digits")
    found: int = value
    return found


def labels(name: str, value: Any) -> list[Any]:
    """Labels or positions; a list of small numbers, the usual case, is seen at one glance."""
    if type(value) is list and {*map(type, value)} == {int} and -1 < min(value) <= max(value) < 999:
        return list(value)
    checked: list[Any] = many(label)(name, value)
    return checked


def numbers(name: str, value: Any) -> list[Any]:
    """Numbers; a list of finite floats, the usual case, is seen at one glance."""
    if type(value) is list and {*map(type, value)} == {float} and all(map(math.isfinite, value)):
        return list(value)
    checked: list[Any] = many(number)(name, value)
    return checked


def truth(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise RefusedError(400, f"{name} must be true or false")
    found: bool = value
    return found


def many(check: Check) -> Check:
    """A list of things that are checked one by one."""

    def checked(name: str, value: Any) -> list[Any]:
        if type(value) is not list:
            raise RefusedError(400, f"{name} must be a list")
        return [check(name, one) for one in value]

    return checked


def maybe(check: Check) -> Check:
    """A thing, or null."""
    return lambda name, value: None if value is None else check(name, value)


def row(name: str, value: Any) -> tuple[int | str, int | str]:
    """A row of the policy: step and state."""
    if type(value) is not list or len(value) != 2:
        raise RefusedError(400, f"{name} must be pairs [step, state]")
    return label(name, value[0]), label(name, value[1])


# ---- forms and addresses -------------------------------------------------------------------------


def form(body: bytes, content_type: str) -> list[tuple[str, str]]:
    """The fields of a form as a browser sends it."""
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise RefusedError(415, "a form is sent as application/x-www-form-urlencoded")
    return _fields(body, 400)


def query(request: Request, *names: str) -> dict[str, str]:
    """The fields of an address, each once, and no others."""
    pairs = _fields(request.scope["query_string"], 400)
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedError(400, "a field of the address is there twice")
    for name in found.keys() - set(names):
        known = f"; there are {', '.join(names)}" if names else ""
        raise RefusedError(400, f"there is no field {name[:80]!r} of this address{known}")
    return {name: text(name, value) for name, value in found.items() if value}


def _fields(data: bytes, status: int) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            data.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(data),
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise RefusedError(status, "the fields cannot be read") from None


def count(fields: dict[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 0 on in the fields of an address."""
    value = fields.get(name, str(default))
    if not (value.isascii() and value.isdecimal() and len(value) <= MOST_DIGITS):
        raise RefusedError(400, f"{name} must be a whole number")
    if int(value) > most:
        raise RefusedError(400, f"{name} may be at most {most:,}")
    return int(value)
