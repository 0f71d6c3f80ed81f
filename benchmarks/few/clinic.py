"""A clinic whose board meets on ten dates: what `few` does there, and what was forecast.

    python benchmarks/few/clinic.py [--seeds 16] [--json FILE]

Twelve states, four treatments, six visits, 3,000 patients; survival varies from patient to patient.
The present protocol is one treatment for all. Beside the calendar there are the dates that the
library would choose, one policy at a time instead of a mixture, and mixtures that differ in few
rows. The forecast is that of `ls.plan` from the size alone.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from problems import clinic

import bench
from lowswitch import Algorithm, few, plan, simulate
from lowswitch.history import deployment_gaps

PATIENTS = 3_000
MEETINGS = tuple(range(270, 2_701, 270))
RUN: dict[str, Algorithm] = {
    "ten meetings": few(deployments_at=MEETINGS),
    "ten meetings, one policy at a time": few(deployments_at=MEETINGS, members=1),
    "ten meetings, at most 12 rows each": few(deployments_at=MEETINGS, rows=12),
    "ten meetings, at most 4 rows each": few(deployments_at=MEETINGS, rows=4),
    "ten changes at any time": few(deployments=10),
}


def followed(algorithm: Algorithm, seeds: int) -> dict[str, Any]:
    """What an algorithm loses, and the value of what is deployed after each date."""
    mdp = clinic("bernoulli")
    present = np.zeros((mdp.horizon, mdp.states), dtype=int)
    runs = simulate(
        mdp,
        algorithm,
        episodes=PATIENTS,
        seeds=seeds,
        history=True,
        initial=present,
        progress=False,
    )
    size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    dates = np.array(algorithm.schedule.grid_for(**size, episodes=PATIENTS))
    values = []
    for history in runs.history or ():
        gaps = deployment_gaps(mdp, history, initial=runs.initial)
        after = np.searchsorted(np.unique(history.episode) + 1, dates, side="right")
        values.append(mdp.optimal_value() - np.concatenate([gaps[:1], gaps[after]]))
    best = mdp.optimal_value()
    return {
        "dates": dates.tolist(),
        "lost_percent": (100 * runs.regret / (PATIENTS * best)).tolist(),
        "value": np.mean(values, axis=0).tolist(),
        "last": [float(each[-1]) for each in values],
        "first": mdp.evaluate(present),
        "optimal": best,
    }


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=16)
    options = parser.parse_args()
    facts: dict[str, Any] = {"seeds": options.seeds, "patients": PATIENTS}
    facts["runs"] = {name: followed(one, options.seeds) for name, one in RUN.items()}
    for name, run in facts["runs"].items():
        print(f"{name:36} {np.mean(run['lost_percent']):6.2f} % {np.mean(run['last']):.4f}")
    asked = plan((6, 12, 4), episodes=PATIENTS, deployments_at=MEETINGS)
    print(asked.page())
    low, half, high = asked.default.interval()
    facts["forecast"] = {"low": low.tolist(), "median": half.tolist(), "high": high.tolist()}
    bench.write(options.json, facts)


if __name__ == "__main__":
    main()
