"""The PAC corollary: the mixture of all deployed policies is near-optimal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lowswitch.algorithms.recipes import ucb2_bernstein, ucb2_hoeffding
from lowswitch.envs.mdp import TabularMDP
from lowswitch.history import deployment_gaps
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.qlearning import ONE_STATE, SCALE, problem_list, runs_of
from lowswitch.reproduce.section import PageTable, Section, exponent
from lowswitch.runs.results import Runs
from lowswitch.show import report
from lowswitch.show.progress import waiting
from lowswitch.show.text import span

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEM = "riverswim:states=6,horizon=10"
SEEDS = 4
LARGEST_EXPONENT = -0.4  # the corollary's is -1/2


def pac(lab: Lab) -> Section:
    """Corollary 4, measured."""
    mdp, episodes = lab.make(PROBLEM), lab.effort.episodes // 4
    results = {
        label: lab.runs(PROBLEM, recipe(c=SCALE), episodes=episodes, seeds=SEEDS, history=True)
        for label, recipe in (("UCB2-H", ucb2_hoeffding), ("UCB2-B", ucb2_bernstein))
    }
    with waiting("values of the mixtures ...", show=lab.progress):
        curves = {label: _curves(mdp, runs) for label, runs in results.items()}
    rows, numbers = [], {}
    for label, runs in results.items():
        mixture, last, best = (curve.mean(axis=0) for curve in curves[label].values())
        slope = exponent(runs.curves.episodes, mixture)
        rows.append(
            {
                "learner": label,
                "mixture": f"{mixture[-1]:.4f}",
                "last policy": f"{last[-1]:.4f}",
                "best policy": f"{best[-1]:.4f}",
                "exponent": f"{slope:.2f}",
                "policies in the mixture (seed 0)": (
                    f"{len(runs.pac_policy(int(runs.seeds[0])).weights):,}"
                ),
            }
        )
        numbers[label] = {
            "exponent": slope,
            "mixture": mixture.tolist(),
            "last": last.tolist(),
            "best": best.tolist(),
        }
    return Section(
        name="pac",
        title="Corollary 4: the mixture of all deployed policies is near-optimal",
        claim=(
            r"After $K = \tilde{O}(H^5 S A / \eps^2)$ episodes ($H^4$ with Bernstein) a stochastic"
            r" policy is $\eps$-optimal with high probability: the uniform mixture of all policies"
            " played. So its suboptimality falls like $K^{-1/2}$."
        ),
        method=(
            f"UCB2-H and UCB2-B with c = {SCALE} on {PROBLEM}, K = {episodes:,}, {SEEDS} seeds,"
            " with the whole deployment history; each deployed policy is evaluated exactly. At the"
            " scale of the proof, the runs of Theorem 2 on one state: the mixture's suboptimality"
            " is regret / K."
        ),
        findings=[
            _finding(
                {
                    f"{label}, {problem}": runs
                    for label in ("UCB2-H", "UCB2-B")
                    for problem, runs in runs_of(lab, label, "one state").items()
                },
                scale="c = 1; c1 = 1, c2 = 2",
                problems=problem_list(ONE_STATE),
                proved=True,
            ),
            _finding(results, scale=f"c = {SCALE}", problems="RiverSwim", proved=False),
        ],
        tables=[PageTable.of("V* - V after all episodes, means over the seeds", rows)],
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


def _finding(results: Mapping[str, Runs], *, scale: str, problems: str, proved: bool) -> Finding:
    slopes = {
        label: exponent(
            runs.curves.episodes, runs.curves.regret.mean(axis=0) / runs.curves.episodes
        )
        for label, runs in results.items()
    }
    return Finding(
        says="suboptimality of the mixture falls at least like $K^{-1/2}$",
        scale=scale,
        length=f"K = {next(iter(results.values())).episodes:,}",
        problems=problems,
        proved=proved,
        constants_known=False,  # half of the runs have Bernstein's bonus
        found=f"exponents {span(slopes.values())}",
        checks=[
            Check(
                f"suboptimality has an exponent of at most {LARGEST_EXPONENT}; $K^{{-1/2}}$ has"
                " -0.5",
                "; ".join(f"{label}: {slope:.2f}" for label, slope in slopes.items()),
                max(slopes.values()) <= LARGEST_EXPONENT,
            )
        ],
    )


def _curves(mdp: TabularMDP, runs: Runs) -> dict[str, np.ndarray]:
    """How far the mixture, the last and the best policy are below the optimum at each checkpoint,
    [seeds, C].
    """
    last, best = np.empty((2, *runs.curves.regret.shape))
    for i, history in enumerate(runs.history or ()):
        gaps = deployment_gaps(mdp, history, initial=runs.initial)
        # the deployments before the last of so many episodes
        deployed = np.searchsorted(np.unique(history.episode), runs.curves.episodes - 1)
        last[i], best[i] = gaps[deployed], np.minimum.accumulate(gaps)[deployed]
    return {"mixture": runs.curves.regret / runs.curves.episodes, "last": last, "best": best}


def _figure(results: dict[str, Runs], curves: dict[str, dict[str, np.ndarray]]) -> Figure:
    figure = report.blank_figure(9, 4.2)
    panels = figure.subplots(1, len(results), squeeze=False)[0]
    for axes, (label, runs) in zip(panels, results.items(), strict=True):
        episodes = runs.curves.episodes
        for i, (name, curve) in enumerate(curves[label].items()):
            mean = curve.mean(axis=0)
            axes.plot(episodes, report.positive(mean), label=name, **report.line_style(i))
        mixture = curves[label]["mixture"].mean(axis=0)
        late = episodes[-60:]
        half = mixture[-1] * (late / late[-1]) ** -0.5
        axes.plot(late, half, ":", color="0.4", label="slope -1/2")
        report.dress(axes, log="xy")
        axes.set_title(label, fontsize=10)
        axes.set_xlabel("episodes K")
        axes.set_ylabel("V* - V (reward an episode)")
    report.legend_below(figure, panels[0], columns=4)
    return figure
