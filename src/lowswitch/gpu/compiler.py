"""Compile the kernels, and cache the machine code until source, constants or GPU change.

The compiler, NVRTC, is an NVIDIA library. `pip install 'lowswitch[gpu]'` installs it; a copy from a
CUDA toolkit or another package works too.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lowswitch.gpu.driver import ON_CPU, GpuError
from lowswitch.io import storage

TEXT = Path(__file__).with_name("kernel.cu")
KERNELS = ("begin", "play", "evaluate", "settle", "count_triggers")
# fusing a multiplication and an addition into one rounding would change the last bits
_OPTIONS = ("--std=c++17", "-fmad=false")


def compiled(constants: dict[str, int], architecture: int, source: Path = TEXT) -> bytes:
    """The kernels of a file, compiled to machine code for these constants and this GPU."""
    text = source.read_text(encoding="utf-8")
    nvrtc = _Nvrtc()
    options = [f"-D{name}={value}" for name, value in sorted(constants.items())]
    options += [*_OPTIONS, nvrtc.target(architecture)]
    key = "\0".join([text, nvrtc.version, *options])
    path = cache_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"
    try:
        return path.read_bytes()
    except OSError:
        image = nvrtc.compile(text, options)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with storage.replacing(path) as file:
            file.write(image)
    except (OSError, ValueError):
        pass  # it is compiled again next time
    return image


def cache_folder() -> Path:
    """The folder of cached machine code: LOWSWITCH_CACHE_DIR, or the user's cache folder."""
    if named := os.environ.get("LOWSWITCH_CACHE_DIR"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "lowswitch"


class _Nvrtc:
    """The compiler's library."""

    def __init__(self) -> None:
        self._library = _load()
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def target(self, architecture: int) -> str:
        """Machine code for the GPU, or for the newest one known, which the driver translates."""
        size = ctypes.c_int()
        self._library.nvrtcGetNumSupportedArchs(ctypes.byref(size))
        known = (ctypes.c_int * size.value)()
        self._library.nvrtcGetSupportedArchs(known)
        if architecture in known:
            return f"-arch=sm_{architecture}"
        older = [each for each in known if each < architecture]
        if not older:
            raise GpuError(
                f"NVRTC {self.version} compiles for compute capability {min(known) / 10} "
                f"or later, but this GPU has {architecture / 10}; install an older "
                f"nvidia-cuda-nvrtc, or {ON_CPU}"
            )
        return f"-arch=compute_{max(older)}"

    def compile(self, text: str, options: list[str]) -> bytes:
        program, library = ctypes.c_void_p(), self._library
        name = b"kernel.cu"
        library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name, 0, None, None)
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = library.nvrtcCompileProgram(program, len(options), words)
        if status != 0:
            raise GpuError(
                f"NVRTC {self.version} cannot compile the kernels:\n{self._log(program)}"
            )
        machine_code = any(option.startswith("-arch=sm_") for option in options)
        kind = "CUBIN" if machine_code else "PTX"
        size = ctypes.c_size_t()
        getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{kind}")(program, image)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        return image.raw

    def _log(self, program: ctypes.c_void_p) -> str:
        size = ctypes.c_size_t()
        self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self._library.nvrtcGetProgramLog(program, log)
        return log.value.decode(errors="replace")


@functools.cache
def _load() -> Any:
    for name in _candidates():
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise GpuError(
        "the compiler for GPUs is not installed (NVRTC is not found); "
        f"pip install 'lowswitch[gpu]', or {ON_CPU}"
    )


def _candidates() -> Iterator[str]:
    """Where NVRTC may be: in NVIDIA's packages, the newest first, or in the library folders."""
    pattern = "nvrtc64_*.dll" if sys.platform == "win32" else "libnvrtc.so*"
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations or () if package else ():
        found = [path for path in Path(folder).rglob(pattern) if "alt" not in path.name]
        yield from map(str, sorted(found, reverse=True))
    if found_by_system := ctypes.util.find_library("nvrtc"):
        yield found_by_system
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    yield from map(str, sorted(toolkit.glob(f"lib*/{pattern}"), reverse=True))
