"""Theorem 1: UCB2 for bandits, logarithmic regret with logarithmically many switches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch import bandits
from lowswitch.bandits import BanditAlgorithm, BanditRuns, IndexPolicy, UCB2Policy
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.section import PageTable, Section, exponent_of
from lowswitch.show import report
from lowswitch.show.text import span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETTINGS: dict[str, tuple[float, ...]] = {  # means of the arms: Auer et al. 2002, Figure 5
    "1": (0.9, 0.6),
    "2": (0.9, 0.8),
    "3": (0.55, 0.45),
    "11": (0.9, *[0.6] * 9),
    "12": (0.9, *[0.8] * 3, *[0.7] * 3, *[0.6] * 3),
    "13": (0.9, *[0.8] * 9),
    "14": (0.55, *[0.45] * 9),
}
FINE = bandits.ucb2(alpha=0.001)  # the choice of Auer et al.'s experiments
COARSE = bandits.ucb2(alpha=0.09)  # the theorem's proof needs alpha < 1/10
BOTH = FINE_LABEL, COARSE_LABEL = "UCB2(0.001)", "UCB2(0.09)"
LEARNERS: dict[str, IndexPolicy] = {"UCB1": bandits.ucb1(), FINE_LABEL: FINE, COARSE_LABEL: COARSE}
MOST_REGRET_EXPONENT = 0.3  # over the last decade of T; sqrt(T) has 0.5
MOST_SWITCH_EXPONENT = 0.3

Results = Mapping[str, Mapping[str, BanditRuns]]  # by setting and learner


def ucb2(lab: Lab) -> Section:
    """Theorem 1, measured."""
    results = {
        setting: {label: lab.bandit(means, algorithm) for label, algorithm in LEARNERS.items()}
        for setting, means in SETTINGS.items()
    }
    some = results["1"]["UCB1"]
    return Section(
        name="bandits",
        title="Theorem 1: UCB2 for bandits has logarithmic regret and few switches",
        claim=(
            r"From $T = \max_i 1 / (2 \Delta_i^2)$ pulls on, the expected regret of UCB2 is"
            r" $O(\log T \sum_i 1 / \Delta_i)$, and its switching cost is"
            r" $O(A \log(T / A) / \alpha)$; its epochs grow by $1 + \alpha$, for which the paper"
            r" writes $\eta$."
        ),
        method=(
            f"UCB1 and UCB2 with alpha = {FINE.alpha} and {COARSE.alpha} on the seven Bernoulli"
            f" bandits of Auer et al. 2002, Figure 5, T = {some.pulls:,} pulls, {len(some.seeds):,}"
            " runs each. Regret is exact. An exponent is the slope of log cost against log T over"
            " the last decade of T; a cost that grows like log T has an exponent that falls"
            " towards 0. Each rule is for all seven settings and reports the worst."
        ),
        findings=[_regret_finding(results), _switch_finding(results)],
        tables=[_regret_table(results), _switch_table(results)],
        figures={"bandits": draw(results)},
        captions={
            "bandits": (
                "Costs on three of the seven bandits: mean, and a band from the 10 % to the 90 %"
                r" quantile of the runs. For regret a straight line is $\log T$. Dotted, what the"
                r" theorem allows $\alpha$ = 0.09: for the regret its leading term alone, for the"
                r" switches $A + A \log(T / A) / \log(1 + \alpha)$."
            )
        },
        remarks=_remarks(results),
        numbers={
            setting: {label: _numbers(runs) for label, runs in row.items()}
            for setting, row in results.items()
        },
    )


# ---- formulas ------------------------------------------------------------------------------------


def leading_term(means: Any, *, alpha: float, pulls: int) -> float:
    """sum_i (1 + alpha)(1 + 4 alpha) ln(2 e Delta_i^2 n) / (2 Delta_i): Auer et al. 2002, Theorem
    2, without its c_alpha / Delta_i.
    """
    gaps = _gaps(means)
    return float(
        np.sum((1 + alpha) * (1 + 4 * alpha) * np.log(2 * math.e * gaps**2 * pulls) / (2 * gaps))
    )


def switch_order(*, A: int, T: int, alpha: float) -> float:
    """A + A ln(T / A) / ln(1 + alpha), the A log(T / A) / alpha of Theorem 1 with its constants.

    A - 1 switches in the first round, then one for each epoch. All epochs but the last are whole,
    so sum_j (1 + alpha)^r_j <= T, and Jensen's inequality gives sum_j r_j <= A ln(T / A) / ln(1 +
    alpha): the argument of Bai et al. 2019 below Theorem 1.
    """
    return A + A * math.log(T / A) / math.log1p(alpha)


def _gaps(means: Any) -> np.ndarray:
    """The best mean minus the mean of each worse arm."""
    gaps: np.ndarray = np.max(means) - np.asarray(means)
    return gaps[gaps > 0]


def _alpha(algorithm: BanditAlgorithm) -> float:
    if not isinstance(algorithm, UCB2Policy):
        raise ValueError(f"only UCB2 has an alpha, not {algorithm}")
    return algorithm.alpha


def _theorem(runs: BanditRuns) -> float:
    if not isinstance(runs.algorithm, IndexPolicy):
        raise ValueError(
            f"only UCB1 and UCB2 have a bound with all its constants, not {runs.algorithm}"
        )
    return runs.algorithm.regret_bound(runs.means, pulls=runs.pulls)


def _leading(runs: BanditRuns) -> float:
    return leading_term(runs.means, alpha=_alpha(runs.algorithm), pulls=runs.pulls)


def _order(runs: BanditRuns) -> float:
    return switch_order(A=len(runs.means), T=runs.pulls, alpha=_alpha(runs.algorithm))


def _switch_bound(runs: BanditRuns) -> int:
    return runs.algorithm.switch_bound(len(runs.means), runs.pulls)


def _most_to_lose(runs: BanditRuns) -> float:
    """T times the largest gap, the regret of always playing the worst arm."""
    return float(runs.pulls * _gaps(runs.means).max())


def _telling(results: Results) -> int:
    """In how many settings the theorem's bound is below the most that there is to lose."""
    return sum(
        _theorem(row[COARSE_LABEL]) < _most_to_lose(row[COARSE_LABEL]) for row in results.values()
    )


# ---- checks --------------------------------------------------------------------------------------


def _worst(
    results: Results, labels: Sequence[str], measure: Callable[[BanditRuns, BanditRuns], float]
) -> tuple[float, str]:
    """The largest measure over these learners and all settings, and where it was found.

    The measure takes the runs of the learner and the runs of UCB1. NaN counts as the largest.
    """
    found = [
        (measure(row[label], row["UCB1"]), f"{label}, setting {setting}")
        for setting, row in results.items()
        for label in labels
    ]
    return max(found, key=lambda pair: math.inf if math.isnan(pair[0]) else pair[0])


def _upper_mean(runs: BanditRuns) -> float:
    """The upper end of the 95 % interval of the mean regret.

    A bound on an expectation is met only if this end is below it.
    """
    return float(runs.regret.mean()) + report.half_width(runs.regret)


def _at_most(
    rule: str,
    limit: float,
    worst: tuple[float, str],
    form: str = "{:.2f}",
    *,
    always: bool = False,
    consistency: bool = False,
) -> Check:
    value, where = worst
    words = f"{form} ({where})"
    return Check.at_most(rule, value, limit, words, always=always, consistency=consistency)


def _scope(results: Results) -> dict[str, Any]:
    """Where the theorem was looked at; its proof covers every alpha below 1/10."""
    return {
        "scale": rf"$\alpha$ = {FINE.alpha}, {COARSE.alpha}",
        "length": f"T = {results['1']['UCB1'].pulls:,}",
        "problems": f"{len(results)} bandits of Auer et al. 2002",
        "proved": COARSE.alpha < 1 / 10,
    }


def _regret_finding(results: Results) -> Finding:
    exponents = [
        exponent_of(row[label].curves, "regret") for row in results.values() for label in BOTH
    ]
    less = [row["UCB1"].regret.mean() / row[COARSE_LABEL].regret.mean() for row in results.values()]
    theorem = _at_most(
        r"$\alpha$ = 0.09: mean regret (upper end of its 95 % interval) at most the theorem's bound"
        " with all its constants",
        1,
        _worst(results, [COARSE_LABEL], lambda runs, _: _upper_mean(runs) / _theorem(runs)),
        f"{{:.2g}} of it, a bound that can be broken in {_telling(results)} of {len(results)}"
        " settings",
        always=True,
    )
    return Finding(
        **_scope(results),
        says=r"regret grows at most like $\log T$",
        found=(
            f"exponents {span(exponents)}; {span(less, '.1f')} times less regret than UCB1"
            rf" ($\alpha$ = {COARSE.alpha})"
        ),
        checks=[
            *([theorem] if _telling(results) else []),  # a rule that no run can break is none
            _at_most(
                r"$\alpha$ = 0.09: mean regret (upper end of its 95 % interval) at most the bound's"
                r" leading term, $c_\alpha / \Delta_i$ left out",
                1,
                _worst(results, [COARSE_LABEL], lambda runs, _: _upper_mean(runs) / _leading(runs)),
                "{:.2f} of it",
            ),
            _at_most(
                r"regret grows at most like $\log T$, not like a power: an exponent of at most"
                f" {MOST_REGRET_EXPONENT}",
                MOST_REGRET_EXPONENT,
                _worst(results, BOTH, lambda runs, _: exponent_of(runs.curves, "regret")),
            ),
        ],
    )


def _switch_finding(results: Results) -> Finding:
    exponents = [
        exponent_of(row[label].curves, "switches") for row in results.values() for label in BOTH
    ]
    fewer = [
        row["UCB1"].switches.mean() / row[COARSE_LABEL].switches.mean() for row in results.values()
    ]
    shares = {
        setting: float(row["UCB1"].switches.mean() / _order(row[COARSE_LABEL]))
        for setting, row in results.items()
    }
    return Finding(
        **_scope(results),
        says=r"switches grow at most like $A \log(T / A) / \alpha$",
        found=(
            f"exponents {span(exponents)}; {span(fewer, '.1f')} times fewer switches than UCB1"
            rf" ($\alpha$ = {COARSE.alpha})"
        ),
        checks=[
            _at_most(
                "no run has more switches than the theorem's order with its constants,"
                r" $A + A \log(T / A) / \log(1 + \alpha)$",
                1,
                _worst(results, BOTH, lambda runs, _: runs.switches.max() / _order(runs)),
                "{:.2f} of it",
                always=True,
                consistency=True,
            ),
            Check(
                rf"UCB1 has more switches than that at $\alpha$ = {COARSE.alpha} in some setting;"
                " its mean switches over that number",
                "; ".join(f"{setting}: {share:.2f}" for setting, share in shares.items()),
                max(shares.values()) > 1,
                sharpness=True,
            ),
            _at_most(
                f"switches grow with an exponent of at most {MOST_SWITCH_EXPONENT}",
                MOST_SWITCH_EXPONENT,
                _worst(results, BOTH, lambda runs, _: exponent_of(runs.curves, "switches")),
            ),
        ],
    )


# ---- what is shown -------------------------------------------------------------------------------


def _words(means: Sequence[float]) -> str:
    """The arms with how often each occurs: `0.9, 9 x 0.6`."""
    distinct = list(dict.fromkeys(means))
    return ", ".join(
        f"{mean:g}" if means.count(mean) == 1 else f"{means.count(mean)} x {mean:g}"
        for mean in distinct
    )


def _regret_table(results: Results) -> PageTable:
    rows = []
    for setting, row in results.items():
        coarse = row[COARSE_LABEL]
        exponents = {label: exponent_of(row[label].curves, "regret") for label in BOTH}
        rows.append(
            {
                "setting": f"{setting}: {_words(SETTINGS[setting])}",
                **{label: report.mean_and_interval(row[label].regret) for label in LEARNERS},
                **{f"exponent {label}": f"{value:.2f}" for label, value in exponents.items()},
                "leading term (0.09)": f"{_leading(coarse):,.0f}",
                "theorem's bound (0.09)": f"{_theorem(coarse):,.0f}",
                "most T pulls can lose": f"{_most_to_lose(coarse):,.0f}",
            }
        )
    return PageTable.of(f"Regret {_AFTER}", rows)


def _switch_table(results: Results) -> PageTable:
    rows = []
    for setting, row in results.items():
        coarse = row[COARSE_LABEL]
        fewer = row["UCB1"].switches.mean() / coarse.switches.mean()
        rows.append(
            {
                "setting": f"{setting}: {_words(SETTINGS[setting])}",
                **{label: report.mean_and_interval(row[label].switches) for label in LEARNERS},
                "fewer (0.09)": f"{fewer:.1f} x",
                "most in a run (0.09)": f"{coarse.switches.max():,}",
                "switch_bound (0.09)": f"{_switch_bound(coarse):,}",
                "A + A log(T / A) / log(1 + alpha)": f"{_order(coarse):,.0f}",
            }
        )
    return PageTable.of(f"Switches {_AFTER}", rows)


_AFTER = "after all pulls, means over the runs with 95 % intervals, and what the theorem allows"


def _remarks(results: Results) -> list[str]:
    pulls = results["1"][COARSE_LABEL].pulls
    return [
        (
            f"The theorem's bound with its constants is below what {pulls:,} pulls can lose at all"
            f" in {_telling(results)} of {len(results)} settings; elsewhere it says nothing yet,"
            rf" because $c_\alpha$ is {COARSE.lower_order:,.0f} at $\alpha$ = {COARSE.alpha} and"
            rf" {FINE.lower_order:.1g} at $\alpha$ = {FINE.alpha}. The rule with the"
            " leading term alone is stronger than the theorem and can fail."
        ),
        (
            r"UCB1's switches also grow like $\log T$ on a fixed bandit, since a switch needs a"
            r" pull of a worse arm; but they grow like $\sum_i 1 / \Delta_i^2$ as the gaps close,"
            " where the number of UCB2's epochs is bounded for all gaps alike."
        ),
    ]


def _numbers(runs: BanditRuns) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "algorithm": str(runs.algorithm),
        "pulls": runs.pulls,
        "runs": len(runs.seeds),
    }
    for name in ("regret", "switches"):
        values = getattr(runs, name)
        numbers[name] = {
            "mean": float(values.mean()),
            "half_width": report.half_width(values),
            "largest": float(values.max()),
            "exponent": exponent_of(runs.curves, name),
        }
    numbers["regret"]["bound"] = _theorem(runs)
    numbers["switches"]["bound"] = _switch_bound(runs)
    return numbers


DRAWN = ("1", "3", "14")


def draw(results: Results) -> Figure:
    """Draw regret above switches, a column for each of a few settings."""
    figure = report.blank_figure(11, 7)
    grid = figure.subplots(2, len(DRAWN))
    for (above, below), setting in zip(grid.T, DRAWN, strict=True):
        row, means = results[setting], SETTINGS[setting]
        pulls = row[COARSE_LABEL].curves.pulls
        pulls = pulls[pulls >= 50]  # from which the theorem holds: the smallest gap is 0.1
        alpha, A = COARSE.alpha, len(means)
        terms = [leading_term(means, alpha=alpha, pulls=int(T)) for T in pulls]
        orders = [switch_order(A=A, T=int(T), alpha=alpha) for T in pulls]
        _draw_panel(above, row, "regret", pulls, terms)
        _draw_panel(below, row, "switches", pulls, orders)
        below.set_yscale("log")
        for axes, label in (
            (above, "regret (reward lost so far)"),
            (below, "switches (arm changes so far)"),
        ):
            axes.set_title(f"setting {setting}: {_words(means)}", fontsize=11)
            axes.set_xlabel("pulls T")
            axes.set_ylabel(label)
    report.legend_below(figure, grid[0][0], columns=2)
    return figure


def _draw_panel(
    axes: Axes,
    row: Mapping[str, BanditRuns],
    name: str,
    pulls: np.ndarray,
    allowed: Sequence[float],
) -> None:
    for i, (label, runs) in enumerate(row.items()):
        late = runs.curves.pulls >= len(runs.means)  # after the first round
        curves = getattr(runs.curves, name)[:, late]
        report.draw_band(axes, runs.curves.pulls[late], curves, i, label)
    words = "allowed to UCB2(0.09) (see caption)"
    axes.plot(pulls, allowed, ":", color="black", linewidth=1.6, label=words)
    report.dress(axes, log="x")
