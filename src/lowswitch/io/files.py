"""Files that are either complete or absent, and locks that give a file one owner."""

from __future__ import annotations

import errno
import importlib
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from lowswitch.checks import shown

fcntl: Any = None
with suppress(ModuleNotFoundError):  # without such locks on a system, nothing is locked
    fcntl = importlib.import_module("fcntl")

_TEMPORARY = ".lowswitch-"  # the prefix of unfinished files


class OwnedError(OSError):
    """Another process owns the file."""


# ---- writing -------------------------------------------------------------------------------------


@contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing; it replaces the target atomically and keeps its mode.

    A failure leaves the old file. Unfinished files of killed processes in the folder are removed.
    private: only the owner can read a new file.
    """
    target = require_writable(path)
    temporary = None
    try:
        _collect_stale(target.parent)
        temporary, unfinished = _begin(target)
        with unfinished as file:
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            elif private:
                os.chmod(temporary, 0o600)
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, target)
        sync_folder(target.parent)
    except BaseException as error:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ValueError(f"cannot write {str(target)!r}: {error.strerror}") from error
        raise


def _begin(target: Path) -> tuple[Path, BinaryIO]:
    """Create an unfinished file beside the target, and lock it.

    Between its creation and its lock, another thread that writes into the same folder may remove
    the file as left behind. Then another one is created.
    """
    while True:
        temporary = target.with_name(f"{_TEMPORARY}{secrets.token_hex(8)}")
        file = open(temporary, "xb")  # noqa: SIM115
        try:
            _lock(file)
            if temporary.exists():
                return temporary, file
        except BlockingIOError:
            pass
        except BaseException:
            file.close()
            temporary.unlink(missing_ok=True)
            raise
        file.close()


def require_writable(path: str | os.PathLike[str]) -> Path:
    """The resolved path, after checking that a file can be written there."""
    _require_path(path, "write")
    try:
        target = Path(path).resolve()  # a link stays a link
        exists = target.exists()
        read_only = exists and not target.stat().st_mode & 0o222  # also for root, who may write all
        fits = (
            target.parent.is_dir()
            and os.access(target.parent, os.W_OK)
            and (target.is_file() or not exists)
        )
    except (OSError, TypeError, ValueError, RuntimeError):  # a RuntimeError for a loop of links
        fits = read_only = False
    if fits and (read_only or (exists and not os.access(target, os.W_OK))):
        raise ValueError(
            f"cannot write {str(path)!r}, which is read-only; make it writable or choose another"
            " file"
        )
    if not fits:
        raise ValueError(
            f"cannot write {str(path)!r}; choose a file in a folder that exists and is writable"
        )
    return target


def write_new(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a new file atomically, readable only by its owner.

    If the file already exists, a FileExistsError is raised, and that file stays.
    """
    target = require_writable(path)
    _collect_stale(target.parent)
    temporary, unfinished = _begin(target)
    try:
        with unfinished as file:
            os.chmod(temporary, 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.link(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it already exists."""
    os.close(_private(path, os.O_CREAT | os.O_WRONLY))


def _private(path: str | Path, flags: int) -> int:
    """Open a file; a new one is readable only by its owner."""
    return os.open(path, flags, 0o600)


def make_folder(path: Path) -> None:
    """Make a folder and its parents, or explain why that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"cannot make the folder {str(path)!r}: {reason}; choose another folder"
        ) from None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text atomically."""
    with replacing(path) as file:
        file.write(text.encode())


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The contents of a file, or an error that explains why it cannot be read."""
    _require_path(path, "read")
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(path)!r}") from None
    except (OSError, TypeError, ValueError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot read {str(path)!r}: {reason}; name a readable file") from None


def _require_path(path: Any, what: str) -> None:
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"cannot {what} {shown(path)}; give the file name as a string or a Path")


def _collect_stale(folder: Path) -> None:
    """Remove unfinished files that nobody has locked."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_TEMPORARY) and entry.is_file(follow_symlinks=False):
                with suppress(OSError), open(entry.path, "rb") as file:
                    _lock(file)
                    os.unlink(entry.path)


def _lock(file: BinaryIO) -> None:
    """Lock a file for this process, or raise an OSError if another process holds it."""
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def sync_file(path: Path) -> None:
    """Let a file that others wrote survive a power cut, with its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Let the new name survive a power cut; some file systems cannot sync a folder."""
    if os.name != "posix":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- one owner -----------------------------------------------------------------------------------


@contextmanager
def owning(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Own a file while the context is open; a second owner is refused, and the error names the
    first.

    The lock is a file beside it. The system releases it even when the process is killed. Without a
    path there is nothing to own.
    """
    if path is None or fcntl is None:
        yield
        return
    target = require_writable(path)
    beside = target.with_name(f".{target.name}.lock")
    file = _take(beside, path)
    try:
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        file.flush()
        yield
    finally:
        with suppress(OSError):
            beside.unlink()  # while still locked, so that no other owner's file is removed
        with suppress(OSError):
            file.close()


def _take(beside: Path, path: str | os.PathLike[str]) -> BinaryIO:
    """Lock the file beside; the error names its owner."""
    while True:
        try:
            file = open(beside, "a+b", opener=_private)  # noqa: SIM115  as long as it is locked
        except OSError as error:
            raise ValueError(f"cannot lock {str(path)!r}: {error.strerror}") from error
        try:
            _lock(file)
        except OSError as error:
            file.seek(0)
            owner = file.read(200).decode(errors="replace") or "another process"
            file.close()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise ValueError(f"cannot lock {str(path)!r}: {error.strerror}") from error
            raise OwnedError(
                f"{str(path)!r} is in use by {owner}; wait until it has ended, or give another file"
            ) from None
        try:
            if os.path.samestat(os.fstat(file.fileno()), os.stat(beside)):
                return file
        except FileNotFoundError:
            pass
        file.close()  # its owner removed it between our open and our lock: try again
