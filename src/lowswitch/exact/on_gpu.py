"""The recursions of `kernels/beliefs.py` on a GPU, with the values of the CPU bit for bit."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.exact.simplex import Simplex
from lowswitch.gpu import compiler, driver
from lowswitch.show.progress import Progress

TEXT = Path(compiler.__file__).with_name("beliefs.cu")
_POINTERS = (
    *("leads", "bases", "further", "prior", "later", "now"),
    *("codes", "later_codes", "added", "paths", "paid", "followers"),
)
_NUMBERS = (
    *("t", "width", "choices", "layers", "now_size", "later_size"),
    *("beliefs", "later_beliefs", "J", "H", "S", "followed", "bits"),
)
_THREADS = 128


class Arguments(ctypes.Structure):
    """The argument of the kernels."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _NUMBERS),
    )


class Levels:
    """A GPU that computes one level after the other."""

    def __init__(self, gpu: Any, kernel: str, **numbers: int) -> None:
        self.gpu, self.arguments = gpu, Arguments(**numbers)
        image = compiler.compiled({}, gpu.facts.architecture, TEXT)
        self._function = gpu.load(image, (kernel,))[kernel]

    def upload(self, **arrays: np.ndarray) -> None:
        """Copy arrays to where the kernel reads them."""
        for name, array in arrays.items():
            address = self.gpu.allocate(array.nbytes)
            self.gpu.upload(address, array)
            setattr(self.arguments, name, address)

    def launch(self, blocks: int, **values: int) -> None:
        """Compute a level."""
        for name, value in values.items():
            setattr(self.arguments, name, value)
        if blocks:
            self.gpu.launch(self._function, blocks, _THREADS, 0, self.arguments)


def pull_levels(
    simplex: Simplex, prior: np.ndarray, episodes: int, shape: tuple[int, ...], bar: Progress
) -> np.ndarray:  # [N + 2]
    """`ArmSolver.switches` on a GPU, with values of a shape [N + 2, A, beliefs]."""
    layers, A, size = shape
    with driver.Gpu() as gpu:
        sizes = {"width": 2 * A - 2, "choices": A, "layers": layers}
        levels = Levels(gpu, "pull_level", **sizes, now_size=size, later_size=size)
        order = np.argsort(simplex.leads.sum(axis=1), kind="stable")  # a level needs the first ones
        totals = simplex.leads.sum(axis=1)[order]
        leads = {"leads": simplex.leads, "bases": simplex.bases, "further": simplex.further}
        levels.upload(prior=prior, **{name: array[order] for name, array in leads.items()})
        room = layers * A * size * 8
        now, later = gpu.allocate(room), gpu.allocate(room)
        gpu.clear(later, room)
        for t in reversed(range(episodes)):
            blocks = int(np.searchsorted(totals, t, side="right"))
            levels.launch(blocks, t=t, now=now, later=later)
            now, later = later, now
            bar.update(episodes - t)
        first = [gpu.download(later + 8 * i * size, 1, float)[0] for i in range(layers * A)]
    return np.asarray(np.reshape(first, (layers, A)).max(axis=1))


def episode_levels(
    levels: list[np.ndarray], fixed: dict[str, np.ndarray], numbers: dict[str, int], bar: Progress
) -> np.ndarray:  # [N + 2]
    """`MdpSolver.switches` on a GPU."""
    layers, policies = numbers["layers"], numbers["choices"]
    with driver.Gpu() as gpu:
        each = Levels(gpu, "episode_level", **numbers)
        each.upload(**fixed)
        room = layers * policies * max(map(len, levels)) * 8
        now, later = gpu.allocate(room), gpu.allocate(room)
        codes, later_codes = (gpu.allocate(8 * max(map(len, levels))) for _ in range(2))
        gpu.clear(later, room)
        gpu.upload(later_codes, levels[-1])
        for k in reversed(range(len(levels) - 1)):
            here, there = len(levels[k]), len(levels[k + 1])
            gpu.upload(codes, levels[k])
            places = {"codes": codes, "later_codes": later_codes, "now": now, "later": later}
            sizes = {"beliefs": here, "later_beliefs": there, "now_size": here, "later_size": there}
            each.launch(-(-here // _THREADS), **places, **sizes)
            now, later, codes, later_codes = later, now, later_codes, codes
            bar.update(len(levels) - 1 - k)
        first = gpu.download(later, (layers, policies), float)
    return np.asarray(first.max(axis=1))
