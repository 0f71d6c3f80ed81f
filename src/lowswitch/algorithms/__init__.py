"""An algorithm is estimator x bonus x schedule.

Here are its parts, its schedules, the published recipes and their text form.
"""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """The recipes, which scripts once found here."""
    return getattr(importlib.import_module("lowswitch.algorithms.recipes"), name)
