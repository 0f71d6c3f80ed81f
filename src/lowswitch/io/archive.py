"""Facts and arrays as bytes that are either complete or refused.

The bytes are an npz archive: the arrays are its members, and one JSON text beside them holds the
facts. The text comes last. It also lists the arrays and their sizes, the version of the library
that wrote them, and the SHA-256 of itself and the packed arrays before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from typing import Any, NamedTuple

import numpy as np

FORMAT = 3
SEMANTICS = 2  # of the kernels: grows when any history changes; see tests/test_digests.py
# which algorithms each change of semantics affects, by a part of their JSON; empty means all
CHANGED = {2: '"pooled": true'}
_BEFORE = 2  # the format without a digest, which can still be read
_HEADER = "lowswitch"
_OWN = ("version", "kind", "library", "semantics", "arrays", "sha256")  # fields that are not facts
_MOST_FACTS = 2**26  # bytes
_DEFLATED = 1032  # the most bytes that deflate can unpack from one byte
_END = 22  # bytes of the record at the end of an archive


class FileKind(NamedTuple):
    """A kind of file: what reads it, and how it resumes.

    Results can be read for ever. A file with `anew` must resume exactly, so it is refused if the
    semantics of the kernels differ for its algorithm; `anew` then says how to start again.
    """

    reader: str
    anew: str = ""


_ANEW = "give another file and start again"
_TELL_ANEW = "tell the episodes to a new learner"
KINDS = {
    "runs": FileKind("lowswitch.load"),
    "sweep": FileKind("lowswitch.Sweep.load"),
    "environment run": FileKind("lowswitch.envs.gymnasium.EnvironmentRun.load", _TELL_ANEW),
    "concurrent run": FileKind("lowswitch.concurrent.load"),
    "bandit runs": FileKind("lowswitch.bandits.load"),
    "frontier": FileKind("lowswitch.Frontier.load"),
    "pac policy": FileKind("lowswitch.PacPolicy.load"),
    "linear policy": FileKind("lowswitch.LinearPolicy.load"),
    "finished work": FileKind("the call that wrote it"),
    "learner": FileKind("lowswitch.Learner.load", _TELL_ANEW),
    "linear learner": FileKind("lowswitch.Learner.load", _TELL_ANEW),
    "concurrent checkpoint": FileKind("lowswitch.concurrent.run", _ANEW),
    "linear rounds checkpoint": FileKind("lowswitch.concurrent.run", _ANEW),
    "gpu state": FileKind("lowswitch.sweep", _ANEW),
}
_FORMER = {"linear runs": "runs"}  # kinds in files of earlier versions


class RefusedFileError(ValueError):
    """These bytes are incomplete, or another program wrote them."""


class UnknownPartError(ValueError):
    """These bytes are complete, but name a class that is unknown here or that has changed."""


# ---- writing -------------------------------------------------------------------------------------


def to_bytes(kind: str, facts: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """Pack facts, which JSON must be able to store, and arrays into bytes; `from_bytes` reads them.

    The kind is one of `KINDS`.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of file; add it to KINDS")
    tables = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, table in tables.items():
        if table.dtype.hasobject:
            raise TypeError(f"{name} holds Python objects, which a file cannot store")
    header: dict[str, Any] = {
        "version": FORMAT,
        "kind": kind,
        "library": library_version(),
        "semantics": SEMANTICS,
    }
    header |= facts | {"arrays": {name: _layout(table) for name, table in tables.items()}}
    header = json.loads(json.dumps(header))  # as it will be read
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, table in tables.items():
            _add(archive, name, table)
        header["sha256"] = _digest_of_bytes(header, buffer.getbuffer())
        _add(archive, _HEADER, np.array(json.dumps(header)))
    return buffer.getvalue()


def _digest_of_bytes(header: dict[str, Any], arrays: memoryview) -> str:
    """The SHA-256 of the header and the packed arrays."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    total.update(arrays)
    return total.hexdigest()


def library_version() -> str:
    """The version of lowswitch, which every file states."""
    from lowswitch import __version__

    return __version__


def digest(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """The SHA-256 of facts, as JSON can store them, and arrays, however they are packed."""
    total = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(json.dumps([name, *_layout(array)]).encode())
        total.update(_raw(array))
    return total.hexdigest()


def _layout(array: np.ndarray) -> list[Any]:
    """The type of an array's entries, and its shape, as JSON returns them."""
    described = np.lib.format.dtype_to_descr(array.dtype)
    return [json.loads(json.dumps(described)), list(array.shape)]


def _add(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        member.write(head.getvalue())
        member.write(_raw(array))


def _raw(array: np.ndarray) -> memoryview:
    """The bytes of an array, without a copy if it is contiguous."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


# ---- reading -------------------------------------------------------------------------------------


def from_bytes(data: bytes, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts and arrays that `to_bytes` wrote as this kind; otherwise a RefusedFileError."""
    header, tables, packed = _opened(data)
    version, found = header.get("version"), str(header.get("kind"))
    found = _FORMER.get(found, found)
    if version not in (FORMAT, _BEFORE):
        raise RefusedFileError(
            f"has format {version!r}; this version of lowswitch reads formats {_BEFORE} and"
            f" {FORMAT}: use the version that wrote it, or make it again"
        )
    if found != kind:
        reader = KINDS.get(found, FileKind("the program that saved it")).reader
        raise RefusedFileError(f"is of the kind {found!r}, not {kind!r}; read it with {reader}")
    if version == FORMAT:
        _require_digest(header, tables, packed)
    elif header.keys() & {"sha256", "arrays", "library", "semantics"}:
        raise _damaged("its format differs from its header")
    semantics = header.get("semantics", 1)  # format 2 does not state it
    if KINDS[kind].anew and _differs(semantics, header):
        raise RefusedFileError(
            f"was written by kernels of semantics {semantics}, but this version of "
            f"lowswitch has semantics {SEMANTICS}, so it would not resume as it began; "
            "use the version that wrote it "
            f"({header.get('library', 'older than format 3')}), or {KINDS[kind].anew}"
        )
    return {name: fact for name, fact in header.items() if name not in _OWN}, tables


def _differs(semantics: int, header: dict[str, Any]) -> bool:
    """Whether kernels of these semantics learn the contents of a file differently."""
    if semantics > SEMANTICS:
        return True
    text = json.dumps(header)
    return any(CHANGED[later] in text for later in range(semantics + 1, SEMANTICS + 1))


def kind_of(data: bytes) -> str:
    """The kind that these bytes declare; empty if they are not an archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            header = json.loads(str(_member(archive, archive.getinfo(f"{_HEADER}.npy"))[()]))
        return str(header["kind"])
    except Exception:  # Damaged bytes make zipfile and numpy raise almost anything.
        return ""


def _opened(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray], memoryview]:
    """The header and arrays of an archive with nothing missing and nothing left over.

    The last result is the bytes before the header.
    """
    try:
        begins, ends = data[:4] == b"PK\x03\x04", data[-_END : -_END + 4] == b"PK\x05\x06"
        if not begins and not ends and data:
            raise _foreign("it neither begins nor ends as an archive does")
        if not (begins and ends):
            raise _damaged("it does not begin and end as an archive does")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: info for info in archive.infolist()}
            if len(members) < len(archive.infolist()):
                raise _damaged("two of its parts have one name")
            sizes = sum(info.compress_size for info in members.values())
            if sizes > len(data):
                raise _damaged("its parts overlap")
            first = members.pop(f"{_HEADER}.npy", None)
            if first is None and members and all(name.endswith(".npy") for name in members):
                found = ", ".join(name.removesuffix(".npy") for name in members)
                raise _foreign(f"it has the arrays {found[:60]} and no header")
            if first is None or first.file_size > _MOST_FACTS:
                raise _damaged("it has no header")
            header = json.loads(str(_member(archive, first)[()]))
            if not isinstance(header, dict):
                raise _damaged("its header is not an object")
            tables = {
                name.removesuffix(".npy"): _member(archive, info) for name, info in members.items()
            }
    except RefusedFileError:
        raise
    except Exception as error:  # Damaged bytes make zipfile and numpy raise almost anything.
        raise _damaged(f"{type(error).__name__}: {error}") from error
    return header, tables, memoryview(data)[: first.header_offset]


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """An array, read completely so that its checksum is verified."""
    size = info.file_size
    if not (info.filename.endswith(".npy") and size <= _DEFLATED * (info.compress_size + 1)):
        raise _damaged(f"{info.filename} cannot be as large as it says")
    with archive.open(info) as member:
        content = member.read(size)
    head = io.BytesIO(content[: 2**16])
    if np.lib.format.read_magic(head) != (1, 0):
        raise _damaged(f"{info.filename} is of another form")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    if dtype.hasobject:
        raise _damaged(f"{info.filename} holds Python objects")
    begin = head.tell()
    if len(content) != size or size - begin != math.prod(shape) * dtype.itemsize:
        raise _damaged(f"{info.filename} has too few or too many bytes")
    array = np.frombuffer(bytearray(content), dtype, offset=begin) if size > begin else None
    table = np.zeros(shape, dtype) if array is None else array
    table = table.reshape(shape, order="F" if fortran else "C")
    if dtype.kind == "b" and (table.view(np.uint8) > 1).any():
        raise _damaged(f"{info.filename} has booleans that are neither true nor false")
    return table


def _require_digest(
    header: dict[str, Any], tables: dict[str, np.ndarray], packed: memoryview
) -> None:
    found = header.pop("sha256", None)
    layouts = {name: _layout(table) for name, table in tables.items()}
    if header.get("arrays") != layouts:
        raise _damaged("its arrays differ from its header")
    if found != _digest_of_bytes(header, packed):
        raise _damaged("its digest does not match its contents")


def _foreign(reason: str) -> RefusedFileError:
    return RefusedFileError(
        f"is not a lowswitch file ({reason}); give one that a `save` or `--save` of it wrote"
    )


def _damaged(reason: str) -> RefusedFileError:
    return RefusedFileError(f"is not a lowswitch file, or is damaged ({reason}); save it again")


# ---- JSON ----------------------------------------------------------------------------------------


def to_text(kind: str, facts: dict[str, Any]) -> str:
    """Facts as a JSON text with the library's version and a digest; `from_text` reads it."""
    text: dict[str, Any] = {"format": FORMAT, "kind": kind, "library": library_version()} | facts
    text = json.loads(json.dumps(text))  # as it will be read
    return json.dumps(text | {"sha256": digest(text, {})})


def from_text(text: str, kind: str, known: frozenset[str]) -> dict[str, Any]:
    """The facts that `to_text` wrote as this kind; the error is a RefusedFileError.

    A text from before there were digests contains only the known facts.
    """
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(str(error)) from None
    if not isinstance(facts, dict):
        raise _damaged("it holds no object")
    own = {"format", "kind", "library", "sha256"}
    if not facts.keys() <= known:
        if not own <= facts.keys() <= known | own:
            unknown = ", ".join(sorted(facts.keys() - known - own)) or "not all that it should"
            raise _damaged(f"it has {unknown}")
        if facts.pop("sha256") != digest(facts, {}):
            raise _damaged("its digest does not match its contents")
        if (facts["format"], facts["kind"]) != (FORMAT, kind):
            raise RefusedFileError(
                f"holds a {facts['kind']!r} of format {facts['format']!r}, not a {kind}"
            )
    return {name: fact for name, fact in facts.items() if name in known}
