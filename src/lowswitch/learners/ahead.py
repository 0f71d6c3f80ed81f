"""Compile the planning of `few` in a second process, while this one compiles what plays.

Both halves take about ten seconds, once: the compiled code is kept on disk, where this process then
finds it. What the other process is compiling, this one waits for; whatever goes wrong there is
compiled here.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from lowswitch.show.progress import cores

HELPER = "LOWSWITCH_COMPILES_AHEAD"  # set in the second process, which begins no third one
_SOURCE = Path(__file__).parents[2]


@functools.cache
def compile_ahead() -> subprocess.Popen[bytes] | None:
    """Begin the second process, at most once.

    There is none if everything is compiled already or cannot be kept, or on a single core.
    """
    from lowswitch.kernels.compile import is_missing
    from lowswitch.kernels.exploitation import exploit

    if HELPER in os.environ or cores() < 2 or not sys.executable or not is_missing(exploit):
        return None
    path = os.pathsep.join([str(_SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    code = "from lowswitch.learners.ahead import plan_once; plan_once()"
    try:
        helper = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code],
            env=os.environ | {HELPER: "1", "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError):  # no interpreter of its own, or no room for another process
        return None
    atexit.register(helper.kill)
    return helper


def plan_once() -> None:
    """Plan and exploit for two states without data, which compiles both for every problem."""
    from lowswitch.algorithms.recipes import few
    from lowswitch.learners.knowledge import ProblemSize
    from lowswitch.learners.planners import PlannerKnowledge

    size, allowed = ProblemSize(2, 2, 2, 10), np.ones((2, 2, 2), dtype=bool)
    knowledge = PlannerKnowledge.of(few(deployments=2), size, allowed).fresh(0)
    knowledge.plan(1)
    knowledge.exploiting()
