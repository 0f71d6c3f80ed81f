"""NVIDIA's driver, called directly: memory, modules and launches of one GPU.

The driver library comes with the graphics card, so no package is needed for it.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

import numpy as np

_LIBRARIES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
_OLDEST = 12_000  # the CUDA version of the oldest driver that runs the compiled kernels
_OUT_OF_MEMORY, _NO_DEVICE = 2, 100
_CANNOT_LOAD = (200, 209, 218, 222, 223)  # images that this driver or this GPU does not know
_MULTIPROCESSORS, _SHARED_MEMORY, _MAJOR, _MINOR = 16, 97, 75, 76  # attributes of a device
_DYNAMIC_SHARED_MEMORY = 8  # an attribute of a function

ON_CPU = 'leave out device="gpu" to run on the CPU, with the same results'


class GpuError(RuntimeError):
    """There is no GPU to run on, or it failed; nothing was written."""


class DeviceFacts(NamedTuple):
    """The properties of a GPU."""

    name: str
    architecture: int  # 90 is compute capability 9.0
    multiprocessors: int
    shared_memory: int  # bytes available to one block
    memory: int  # bytes
    driver: int  # the newest CUDA version the driver supports; 12040 is 12.4


class Gpu:
    """The first GPU of this machine; a context manager that frees its memory."""

    def __init__(self) -> None:
        self._cuda = _library()
        self._arrays: list[ctypes.c_uint64] = []
        self._modules: list[ctypes.c_void_p] = []
        if (status := self._cuda.cuInit(0)) != 0:
            raise GpuError(f"the CUDA driver finds no GPU ({self._words(status)}); {ON_CPU}")
        count, self._device = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        if count.value == 0:
            raise GpuError(f"the CUDA driver finds no GPU; {ON_CPU}")
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        self._open()
        self.facts = self._facts()
        if self.facts.driver < _OLDEST:
            version = f"{self.facts.driver // 1000}.{self.facts.driver % 1000 // 10}"
            self.close()
            raise GpuError(
                f"the driver of this GPU supports CUDA up to {version}, but 12.0 is "
                f"needed; install a newer driver, or {ON_CPU}"
            )

    def _open(self) -> None:
        """Make the GPU the current one, which needs some free memory."""
        context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        status = (
            self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), self._device)
            or self._cuda.cuCtxSetCurrent(context)
            or self._cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        )
        if status != 0:
            raise GpuError(
                f"the GPU cannot be opened ({self._words(status)}), most likely because "
                "other processes hold all of its memory (nvidia-smi lists them); wait "
                f"until they end, or {ON_CPU}"
            )

    def __enter__(self) -> Gpu:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the allocated memory, if the GPU still answers."""
        for module in self._modules:
            self._cuda.cuModuleUnload(module)
        self.free_all()
        self._cuda.cuDevicePrimaryCtxRelease_v2(self._device)

    def _facts(self) -> DeviceFacts:
        name, driver = ctypes.create_string_buffer(100), ctypes.c_int()
        self._call("cuDeviceGetName", name, 100, self._device)
        self._call("cuDriverGetVersion", ctypes.byref(driver))
        return DeviceFacts(
            name=name.value.decode(),
            architecture=10 * self._attribute(_MAJOR) + self._attribute(_MINOR),
            multiprocessors=self._attribute(_MULTIPROCESSORS),
            shared_memory=self._attribute(_SHARED_MEMORY),
            memory=self.free_memory()[1],
            driver=driver.value,
        )

    def _attribute(self, which: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), which, self._device)
        return value.value

    # ---- memory ----------------------------------------------------------------------------------

    def free_memory(self) -> tuple[int, int]:
        """The number of free bytes, and of all bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes and return their address; `free_all` and `close` free them."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, size)))
        self._arrays.append(address)
        return address.value

    def free_all(self) -> None:
        for address in self._arrays:
            self._cuda.cuMemFree_v2(address)
        self._arrays.clear()

    def upload(self, address: int, array: np.ndarray) -> None:
        """Copy an array to the GPU."""
        flat = np.ascontiguousarray(array)
        if flat.nbytes:
            target, size = ctypes.c_uint64(address), ctypes.c_size_t(flat.nbytes)
            self._call("cuMemcpyHtoD_v2", target, ctypes.c_void_p(flat.ctypes.data), size)

    def clear(self, address: int, size: int) -> None:
        """Set bytes on the GPU to zero."""
        self._call(
            "cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size)
        )

    def download(self, address: int, shape: Any, dtype: Any) -> np.ndarray:
        """Copy an array from the GPU."""
        array = np.empty(shape, dtype=dtype)
        if array.nbytes:
            source, size = ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes)
            self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), source, size)
        return array

    # ---- kernels ---------------------------------------------------------------------------------

    def load(self, image: bytes, names: tuple[str, ...]) -> dict[str, ctypes.c_void_p]:
        """Load the kernels of these names from a compiled image."""
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), image)
        self._modules.append(module)
        functions = {}
        for name in names:
            function = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            functions[name] = function
        return functions

    def launch(
        self, function: ctypes.c_void_p, blocks: int, threads: int, shared: int, arguments: Any
    ) -> None:
        """Run a kernel, whose only argument is a structure, and wait until it ends."""
        self._call("cuFuncSetAttribute", function, _DYNAMIC_SHARED_MEMORY, shared)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        grid, block = (blocks, 1, 1), (threads, 1, 1)
        self._call("cuLaunchKernel", function, *grid, *block, shared, None, parameters, None)
        self._call("cuCtxSynchronize")

    # ---- errors ----------------------------------------------------------------------------------

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status == 0:
            return
        words = self._words(status)
        if status == _OUT_OF_MEMORY:
            free, total = self.free_memory()
            raise GpuError(
                f"the GPU is full: {free / 2**30:,.1f} of {total / 2**30:,.1f} GiB are "
                f"free; end other programs on it, use fewer seeds or settings, or {ON_CPU}"
            )
        if status == _NO_DEVICE:
            raise GpuError(f"the CUDA driver finds no GPU ({words}); {ON_CPU}")
        if status in _CANNOT_LOAD:
            raise GpuError(
                f"the driver of this GPU cannot load the compiled kernels ({words}); install a "
                f"newer driver, or {ON_CPU}"
            )
        raise GpuError(
            f"the GPU failed in {name} ({words}), and the results of this call are lost; "
            f"call it again (a sweep with a folder resumes where it stopped), or {ON_CPU}"
        )

    def _words(self, status: int) -> str:
        name = ctypes.c_char_p()
        known = self._cuda.cuGetErrorName(status, ctypes.byref(name)) == 0 and name.value
        return name.value.decode() if known and name.value else f"error {status}"


def _library() -> Any:
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise GpuError(
        f"there is no NVIDIA driver on this machine ({_LIBRARIES[0]} is not found); install one, "
        f"or {ON_CPU}"
    )
