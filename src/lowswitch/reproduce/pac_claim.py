"""The PAC corollary: the mixture of all deployed policies is near-optimal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lowswitch import envs, report
from lowswitch.algorithms.recipes import ucb2_bernstein, ucb2_hoeffding
from lowswitch.history import deployment_gaps
from lowswitch.problems.mdp import TabularMDP
from lowswitch.progress import waiting
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.qlearning import SCALE, exponent
from lowswitch.reproduce.section import Check, Section, Table
from lowswitch.simulate import Runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEM = "riverswim:states=6,horizon=10"
SEEDS = 4
LARGEST_EXPONENT = -0.4  # the corollary's is -1/2
ROUNDING = 1e-9


def pac(lab: Lab) -> Section:
    mdp, episodes = envs.make(PROBLEM), lab.size.episodes // 4
    results = {
        label: lab.runs(PROBLEM, recipe(c=SCALE), episodes=episodes, seeds=SEEDS, history=True)
        for label, recipe in (("UCB2-H", ucb2_hoeffding), ("UCB2-B", ucb2_bernstein))
    }
    with waiting("values of the mixtures ...", show=lab.progress):
        curves = {label: _curves(mdp, runs) for label, runs in results.items()}
    checks, rows, numbers = [], [], {}
    for label, runs in results.items():
        mixture, last, best = (curve.mean(axis=0) for curve in curves[label].values())
        slope = exponent(runs.curves.episodes, mixture)
        policy = runs.pac_policy(int(runs.seeds[0]))
        off = abs(mdp.optimal_value() - policy.evaluate(mdp) - runs.regret[0] / episodes)
        checks += [
            Check(
                f"{label}: the mixture's suboptimality has an exponent of at most"
                f" {LARGEST_EXPONENT}",
                f"{slope:.2f}",
                slope <= LARGEST_EXPONENT,
            ),
            Check(
                f"{label}: the mixture's exact value is V* - regret / K",
                f"off by {off:.1g}",
                bool(off <= ROUNDING),
            ),
        ]
        rows.append(
            [
                label,
                *(f"{curve[-1]:.4f}" for curve in (mixture, last, best)),
                f"{slope:.2f}",
                f"{len(policy.weights):,}",
            ]
        )
        numbers[label] = {
            "exponent": slope,
            "mixture": mixture.tolist(),
            "last": last.tolist(),
            "best": best.tolist(),
        }
    header = (
        "learner",
        "mixture",
        "last policy",
        "best policy",
        "exponent",
        "policies in the mixture (seed 0)",
    )
    return Section(
        name="pac",
        title="The mixture of all deployed policies is near-optimal (Corollary 4)",
        claim=(
            "After K = O~(H^5 S A / eps^2) episodes (H^4 with Bernstein) a stochastic policy is"
            " eps-optimal with high probability: the uniform mixture of all policies played. So its"
            " suboptimality falls like K^(-1/2)."
        ),
        method=(
            f"UCB2-H and UCB2-B with c = {SCALE} on {PROBLEM}, K = {episodes:,}, {SEEDS} seeds,"
            " with the whole deployment history; each deployed policy is evaluated exactly."
        ),
        checks=checks,
        tables=[Table("V* - V after all episodes, means over the seeds", header, rows)],
        figures={"pac": _figure(results, curves)},
        captions={
            "pac": (
                "Suboptimality of the mixture, of the policy deployed last and of the best one so"
                " far, until it is exactly optimal in every seed; mean over the seeds."
            )
        },
        remarks=[
            (
                "The mixture's value is the average of the policies' values, so no Markov"
                " inequality is needed and nothing is lost to it."
            ),
            "Stored is one entry for each row change, not one policy for each episode.",
        ],
        numbers=numbers,
    )


def _curves(mdp: TabularMDP, runs: Runs) -> dict[str, np.ndarray]:
    """Suboptimality [seeds, C] of the mixture, of the last and of the best policy at each
    checkpoint.
    """
    last, best = np.empty((2, *runs.curves.regret.shape))
    for i, history in enumerate(runs.history or ()):
        gaps = deployment_gaps(mdp, history, initial=runs.initial)
        deployed = np.searchsorted(
            np.unique(history.episode), runs.curves.episodes - 1
        )  # deployments before the last episode
        last[i], best[i] = gaps[deployed], np.minimum.accumulate(gaps)[deployed]
    return {"mixture": runs.curves.regret / runs.curves.episodes, "last": last, "best": best}


def _figure(results: dict[str, Runs], curves: dict[str, dict[str, np.ndarray]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for axes, (label, runs) in zip(panels, results.items(), strict=True):
        episodes = runs.curves.episodes
        for i, (name, curve) in enumerate(curves[label].items()):
            mean = curve.mean(axis=0)
            axes.plot(
                episodes,
                np.where(mean > 0, mean, np.nan),
                report.DASHES[i],
                color=report.COLOURS[i],
                label=name,
            )
        mixture = curves[label]["mixture"].mean(axis=0)
        axes.plot(
            episodes[-60:],
            mixture[-1] * (episodes[-60:] / episodes[-1]) ** -0.5,
            ":",
            color="0.4",
            label="slope -1/2",
        )
        report.dress(axes, log="xy")
        axes.set_title(label, fontsize=10)
        axes.set_xlabel("episodes K")
    panels[0].set_ylabel("V* - V (reward an episode)")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    return figure
