"""Theorem 5: how many rounds M machines need that play one policy a round, counted on deployment histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lowswitch import report, theory
from lowswitch.algorithms import ucb2_bernstein, ucb2_hoeffding, ucb_hoeffding
from lowswitch.history import History
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.pac_claim import PROBLEM, SEEDS
from lowswitch.reproduce.qlearning import SCALE
from lowswitch.reproduce.section import Check, Section, Table
from lowswitch.simulate import Runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINES = (1, 2, 5, 10, 20, 50, 100, 1000)
NEARLY_LINEAR = 0.8  # of M, the least speed-up at M = 2


def count_rounds(history: History, episodes: int, machines: int) -> int:
    """Rounds in which M machines play these episodes, thrown away past a deployment: the sum over deployments of ceil(L / M).

    The machines' trajectories are fed in order and cut where the policy changed, so the path is that of the sequential run, and the
    L episodes between two deployments take ceil(L / M) rounds: Bai et al. 2019, proof of Theorem 5, with real changes for triggers.
    """
    ends = np.append(np.unique(history.episode) + 1, episodes)
    lengths = np.diff(ends, prepend=0)
    return int(np.ceil(lengths / machines).sum())


def rounds(lab: Lab) -> Section:
    episodes = lab.size.episodes // 4
    results = {
        label: lab.runs(PROBLEM, recipe(c=SCALE), episodes=episodes, seeds=SEEDS, history=True)
        for label, recipe in (("UCB2-H", ucb2_hoeffding), ("UCB2-B", ucb2_bernstein), ("UCB-H", ucb_hoeffding))
    }
    counts = {label: _counts(runs) for label, runs in results.items()}
    speed_up = {label: episodes / count.mean(axis=0) for label, count in counts.items()}
    rows = [[f"{M:,}", *(f"{speed_up[label][i]:.1f}" for label in results)] for i, M in enumerate(MACHINES)]
    most = {label: episodes / (runs.deployments.mean() + 1) for label, runs in results.items()}
    return Section(
        name="rounds",
        title="Between switches M machines play in parallel (Theorem 5)",
        claim="On M machines that play one policy a round, an eps-optimal policy is found in O~(H^3 S A + H^5 S A / (eps^2 M)) rounds "
        "(H^4 with Bernstein): a nearly linear speed-up, since the path is that of the sequential run.",
        method=f"Counted on the deployment histories of sequential runs, {PROBLEM}, c = {SCALE}, K = {episodes:,}, {SEEDS} seeds: the "
        "episodes between two deployments, L of them, take ceil(L / M) rounds. No machines were run.",
        checks=[*_bound_checks(results, counts), *_speed_checks(speed_up)],
        tables=[Table("Speed-up: sequential episodes over rounds, means over the seeds", ("M", *results), rows)],
        figures={"rounds": _figure(speed_up, most)},
        captions={"rounds": "Speed-up against the number of machines. Level lines: K / (deployments + 1), which no M can pass."},
        remarks=[
            "The paper's bound N_sw + K / M forgets the last, unfinished phase and counts local switches where deployments are enough: "
            "N_gl + 1 + K / M.",
            "The every-visit learner deploys after most episodes, so that machines hardly help it.",
        ],
        numbers={"machines": MACHINES, "speed_up": {label: values.tolist() for label, values in speed_up.items()}},
    )


def _counts(runs: Runs) -> np.ndarray:  # [seeds, machines]
    return np.array([[count_rounds(history, runs.episodes, M) for M in MACHINES] for history in runs.history or ()])


def _bound_checks(results: dict[str, Runs], counts: dict[str, np.ndarray]) -> list[Check]:
    checks = []
    for label, runs in results.items():
        bounds = np.array([[theory.rounds_bound(K=runs.episodes, M=M, deployments=int(n)) for M in MACHINES] for n in runs.deployments])
        share = float((counts[label] / bounds).max())
        checks.append(Check(f"{label}: rounds at most N_gl + 1 + K / M, every seed and M", f"at most {share:.3f} of it", share <= 1))
    return checks


def _speed_checks(speed_up: dict[str, np.ndarray]) -> list[Check]:
    two = MACHINES.index(2)
    return [
        Check(
            f"{label}: two machines are at least {2 * NEARLY_LINEAR:.1f} times as fast, and more machines never slower",
            f"{speed_up[label][two]:.2f} x",
            bool(speed_up[label][two] >= 2 * NEARLY_LINEAR and (np.diff(speed_up[label]) >= 0).all()),
        )
        for label in ("UCB2-H", "UCB2-B")
    ]


def _figure(speed_up: dict[str, np.ndarray], most: dict[str, float]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(MACHINES[:6], MACHINES[:6], ":", color="0.4", label="linear")
    for i, (label, values) in enumerate(speed_up.items()):
        axes.plot(MACHINES, values, "os^"[i] + report.DASHES[i], color=report.COLOURS[i], label=label)
        axes.axhline(most[label], linewidth=0.8, color=report.COLOURS[i])
    report.dress(axes, log="xy")
    axes.set_xlabel("machines M")
    axes.set_ylabel("speed-up (episodes a round)")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure
