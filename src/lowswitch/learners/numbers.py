"""The numbers of a spec as JSON can hold them, to the bit.

`log` and `pow` may differ in the last bit between machines. Who must replay a run elsewhere keeps
the numbers that it began with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_LEFT_OUT = ("allowed", "gate")  # they belong to a run, and not to the algorithm


def spec_numbers(spec: Any) -> dict[str, Any]:
    """Every number of a spec: floats in hexadecimal, arrays as lists."""
    return {name: _packed(value) for name, value in spec._asdict().items() if name not in _LEFT_OUT}


def with_numbers(spec: Any, numbers: dict[str, Any]) -> Any:
    """The same spec with the numbers that `spec_numbers` wrote.

    Numbers that an earlier version did not write are computed as now.
    """
    given = {
        name: _unpacked(getattr(spec, name), numbers[name])
        for name in spec._fields
        if name not in _LEFT_OUT and name in numbers
    }
    return spec._replace(**given)


def _packed(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return spec_numbers(value)
    if isinstance(value, np.ndarray):
        return [_packed(item) for item in value.tolist()]
    if isinstance(value, float | np.floating):
        return float(value).hex()
    return bool(value) if isinstance(value, bool | np.bool) else int(value)


def _unpacked(present: Any, value: Any) -> Any:
    if hasattr(present, "_asdict"):
        return with_numbers(present, value)
    if isinstance(present, np.ndarray):
        floats = np.issubdtype(present.dtype, np.floating)
        items = [float.fromhex(item) for item in value] if floats else value
        return np.array(items, dtype=present.dtype)
    if isinstance(present, float | np.floating):
        return float.fromhex(value)
    return type(present)(value)
