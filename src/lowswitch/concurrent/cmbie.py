"""MBIE and CMBIE, the model-based algorithms that the paper compares with, on many machines."""

from __future__ import annotations

from lowswitch.algorithms.recipes import mbie as recipe
from lowswitch.checks import require_count
from lowswitch.concurrent.results import ConcurrentRun
from lowswitch.concurrent.runner import run
from lowswitch.envs.mdp import TabularMDP, require_mdp


def mbie(
    mdp: TabularMDP,
    *,
    episodes: int,
    machines: int = 1,
    seed: int = 0,
    c: float = 1.0,
    p: float = 0.05,
    most_visits: int | None = None,
    progress: bool | None = None,
) -> ConcurrentRun:
    """Run MBIE (Strehl and Littman 2008), or on several machines CMBIE (Guo and Brunskill 2015).

    In a round, each machine plays one episode by the same policy; then all data are pooled and the
    policy is replanned. CMBIE pools after each time step. Here that would make no difference: data
    of step h affect only the values of steps up to h, which every machine of the round has already
    passed.

    Parameters
    ----------
    mdp
        The problem.
    episodes
        The number of episodes of all machines together, rounded up to whole rounds.
    machines
        The number of machines.
    seed
        The seed of the run.
    c
        The scale of both confidence widths; 1 is the scale of the proof, 0.05 a practical one.
    p
        The probability with which some interval may fail.
    most_visits
        The m of MBIE: the number of visits after which the data of an (h, x, a) are ignored. By
        default all are used.
    progress
        Whether to show progress, as in `lowswitch.simulate`.

    Returns
    -------
    ConcurrentRun
        The result of the run.
    """
    require_mdp(mdp)
    machines = require_count("machines", machines)
    rounds = -(-require_count("episodes", episodes) // machines)
    schedule = "every" if machines == 1 else f"episodes/{machines}"
    algorithm = recipe(c=c, p=p, most_visits=most_visits, schedule=schedule)
    whole = require_count("rounds * machines", rounds * machines)
    return run(mdp, algorithm, whole, machines=machines, seed=seed, progress=progress)
