"""Theorem 6: how many switches a learner needs to avoid linear regret, on its proof's problems."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch import theory
from lowswitch.algorithms.recipes import ucb2_hoeffding
from lowswitch.reproduce.grades import Check, Finding, Grade
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.qlearning import SCALE
from lowswitch.reproduce.section import PageTable, Section, exponent_of
from lowswitch.runs.results import Runs
from lowswitch.show import report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = ((10, 5, 4), (10, 20, 4), (10, 100, 4), (10, 100, 8), (10, 1000, 8))  # H, S, A
ROWS_PER_STUDY = 10**6  # runs of a study times H S, at most
SLACK = 3.0  # standard errors of a mean over the runs
LINEAR = 0.25  # of H, per episode: the theorem's K H / 4


def lower_bound(lab: Lab) -> Section:
    """Theorem 6, measured."""
    studies = [study(lab, learner, *size) for size in SIZES for learner in LEARNERS]
    runs, real = [len(one.regret) for one in studies], real_learners(lab)
    return Section(
        name="lower-bound",
        title="Theorem 6: without about H S A switches regret is linear",
        claim=(
            r"For $A \ge 4$, a learner with at most $H S A / 2$ local switches has regret at least"
            r" $K H / 4$ on some MDP. The printed proof averages over the family $M_{a^*}$: uniform"
            r" transitions, reward 1 for the one action $a^*(h, x)$ and 0 for the others."
            r" Corrected, for this family: at most $H S (3 (A + 1) / 8 - 1)$ switches imply regret"
            r" at least $K H / 4$ in the mean over $a^*$."
        ),
        method=(
            "A learner tries the actions of each (h, x) in random order, keeps the first that"
            " pays, and makes no further switch when N are made: either wherever a visit fails, or"
            " one (h, x) after the other. Its regret per episode once it has settled, by the"
            f" number N allowed, in the mean over random a*, {min(runs):,} to {max(runs):,} runs."
            f" Then UCB2-H, c = {SCALE}, on {len(real)} problems of the family, K ="
            f" {real[0].episodes:,}, {len(real[0].seeds)} seeds each."
        ),
        findings=_findings(studies),
        tables=[_family_table(studies), _real_table(real)],
        figures={"lower-bound": draw(studies)},
        captions={"lower-bound": _CAPTION},
        remarks=_REMARKS,
        numbers={
            "family": [one.to_dict() for one in studies],
            "UCB2-H": [one.to_dict() for one in real],
        },
    )


_CAPTION = (
    "Regret per episode of the two learners that stop on success, once settled, as a share of H,"
    " against the switches allowed. Lines that fall straight: the corrected bound, which no learner"
    " can get below, and the one in the printed proof, which both learners do get below. Upright"
    " lines: the number of switches up to which regret is said to be at least H / 4 (level line),"
    " corrected and printed."
)
_REMARKS = (
    (
        "The printed proof takes the chance that the j-th action tried is $a^*$ as $1 / A$ given"
        " that j actions are tried. That condition is informative: a learner that stops on success"
        " tries further actions only where it has not succeeded. So the printed proof's family"
        " does not witness the printed theorem: with $H S A / 2$ switches these learners have no"
        " regret left on it. This refutes the constant $1/2$ for this family, not for the class of"
        " all MDPs, where another family might still show it. The order $H S A$ stands."
    ),
    (
        "One (h, x) after the other is the best that switches can buy: a row costs $(A - 1) / 2$ of"
        " them in the mean and gains $1 - 1 / A$, so the regret per episode is"
        " $H (1 - 1 / A - 2 N / (H S A))$ until nothing is left. The printed proof has the"
        " same line with half the slope."
    ),
    (
        "The bound is a mean over $a^*$: on a single $a^*$ a learner may be lucky, so UCB2-H runs"
        " on several."
    ),
)


# ---- learners that stop on success ---------------------------------------------------------------
# A learner is given how many switches each (h, x) needs, [H, S]: the place of a*, counted from 0,
# in the order in which it tries the actions. It returns, for each switch that it makes without a
# limit, whether that switch found a*. A budget of N switches cuts this list after N.

Learner = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def where_visited(need: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A switch at every visit that fails; x is uniform at every step of every episode."""
    need = need.astype(np.int64)
    visits = visited_rows(need, generator)
    counts = np.bincount(visits, minlength=need.size)
    # the times of the visits to the first row, then of those to the second, ...
    order = np.argsort(visits, kind="stable")
    wanted = need.ravel()
    # 0 to need - 1 for each row
    nth = np.arange(wanted.sum()) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    times = order[np.repeat(np.cumsum(counts) - counts, wanted) + nth]
    found: np.ndarray = nth == np.repeat(wanted, wanted) - 1
    return found[np.argsort(times)]


def visited_rows(need: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The rows h S + x that are visited in one episode after the other.

    They suffice for each row to fail as often as it must.
    """
    H, S = need.shape
    episodes = math.ceil(S * (need.max() + 2 * math.log(H * S) + 2))
    visits = np.empty(0, dtype=np.uint16)  # so small that they are sorted by counting
    while (np.bincount(visits, minlength=H * S) < need.ravel()).any():
        states = generator.integers(S, size=(episodes, H), dtype=np.uint16)
        visits = np.append(visits, states + np.arange(H, dtype=np.uint16) * np.uint16(S))
    return visits


def row_by_row(need: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Switches at one (h, x) until it pays, then at the next."""
    wanted = need[need > 0].astype(np.int64)
    found = np.zeros(wanted.sum(), dtype=bool)
    found[np.cumsum(wanted) - 1] = True
    return found


LEARNERS: dict[str, Learner] = {"where a visit fails": where_visited, "row by row": row_by_row}


# ---- what they come to ---------------------------------------------------------------------------


class Study(NamedTuple):
    """A learner on the family, for many budgets at once."""

    learner: str
    H: int
    S: int
    A: int
    budgets: np.ndarray  # [N]     switches allowed
    regret: np.ndarray  # [runs, N]  per episode, once the learner has settled

    @property
    def corrected(self) -> int:
        """The most switches at which the corrected bound says H / 4."""
        return math.floor(theory.corrected_switch_threshold(H=self.H, S=self.S, A=self.A))

    @property
    def printed(self) -> int:
        """The most switches at which the printed theorem says H / 4."""
        return math.floor(theory.printed_switch_threshold(H=self.H, S=self.S, A=self.A))

    @property
    def bound(self) -> np.ndarray:  # [N]
        """The corrected bound on the regret per episode."""
        size = {"H": self.H, "S": self.S, "A": self.A, "K": 1}
        return np.array(
            [theory.lower_bound_regret(**size, switches=float(N)) for N in self.budgets]
        )

    @property
    def mean(self) -> np.ndarray:  # [N]
        return np.asarray(self.regret.mean(axis=0))

    @property
    def slack(self) -> np.ndarray:  # [N]
        return np.asarray(SLACK * self.regret.std(axis=0, ddof=1) / math.sqrt(len(self.regret)))

    def at(self, budget: int) -> int:
        """Where this budget stands among the budgets."""
        return int(np.flatnonzero(self.budgets == budget)[0])

    @property
    def name(self) -> str:
        return f"{self.learner}, HS = {self.H * self.S:,}, A = {self.A}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "learner": self.learner,
            "H": self.H,
            "S": self.S,
            "A": self.A,
            "runs": len(self.regret),
            "budgets": self.budgets.tolist(),
            "regret": self.mean.tolist(),
            "bound": self.bound.tolist(),
        }


def study(lab: Lab, learner: str, H: int, S: int, A: int) -> Study:
    """A learner on random problems of one size.

    The budgets are every 1 % of H S A switches, and both thresholds.
    """
    runs = min(lab.effort.bandit_runs, ROWS_PER_STUDY // (H * S))
    blank = Study(learner, H, S, A, np.empty(0), np.empty((0, 0)))
    budgets = np.unique([*(np.arange(61) * H * S * A // 100), blank.corrected, blank.printed])

    def compute() -> Study:
        regret = settled_regret(LEARNERS[learner], H=H, S=S, A=A, budgets=budgets, runs=runs)
        return blank._replace(budgets=budgets, regret=regret)

    configuration = [learner, H, S, A, runs, budgets.tolist()]
    return lab.measure("switch-budgets", configuration, compute, Study)


def settled_regret(
    learner: Learner, *, H: int, S: int, A: int, budgets: np.ndarray, runs: int
) -> np.ndarray:  # [runs, N]
    """H - #{(h, x): pi_h(x) = a*(h, x)} / S, the paper's value on M_{a*}, when each budget is spent
    or nothing is left to find.

    a* and the order of trial are uniform, and so is the place of a* in that order. Run i has the
    same a* for all learners.
    """
    regret = np.empty((runs, len(budgets)))
    for run, generator in enumerate(np.random.default_rng([H, S, A]).spawn(runs)):
        need = generator.integers(A, size=(H, S))
        found = np.concatenate([[0], np.cumsum(learner(need, generator))])
        right = (need == 0).sum() + found[np.minimum(budgets, len(found) - 1)]
        regret[run] = H - right / S
    return regret


def printed_proof_regret(share: Any, A: int) -> Any:
    """1 - 1 / A - N / (H S A) of H, with N = share H S A switches: the regret by the printed proof
    of Bai et al. 2019, Theorem 6.
    """
    return 1 - 1 / A - np.asarray(share)


# ---- checks --------------------------------------------------------------------------------------


def _findings(studies: Sequence[Study]) -> list[Finding]:
    """The corrected bound, and the printed constant, on the family of the proof."""
    sizes = sorted({one.H * one.S for one in studies})
    scope: dict[str, Any] = {
        "length": "once settled",
        "problems": f"the proof's own family, H S = {sizes[0]:,} to {sizes[-1]:,}, A = 4, 8",
        "proved": True,
    }
    printed = [(_share(one, one.printed, 1), one.name) for one in studies]
    corrected = min((_share(one, one.corrected, -1), one.name) for one in studies)
    return [
        Finding(
            **scope,
            scale="two learners that stop on success",
            says="$H S A / 2$ switches force a regret of $K H / 4$, as printed",
            found=(
                f"with this many switches, at most {max(printed)[0]:.4f} H is lost per episode on"
                " the proof's family"
            ),
            refuted=Grade.PROOF,
            checks=[
                _check(
                    f"with the budget $H S A / 2$ mean regret plus {SLACK:g} standard errors is at"
                    " least $H / 4$ an episode",
                    "{:.4f} H where it is smallest ({})",
                    min(printed),
                    lambda share: share >= LINEAR,
                )
            ],
        ),
        Finding(
            **scope,
            scale="two learners that stop on success",
            says="$H S (3 (A + 1) / 8 - 1)$ switches do, as corrected",
            found=(
                f"with this many switches, at least {corrected[0]:.3f} H is lost per episode; for"
                " other learners the errata prove it"
            ),
            checks=[
                _check(
                    f"for every budget N the mean regret plus {SLACK:g} standard errors is at least"
                    " $H - 2 (H + N / S) / (A + 1)$",
                    "{:.4f} H above it at the closest ({}), among budgets with a positive bound",
                    min((_margin(one), one.name) for one in studies),
                    lambda margin: margin >= 0,
                ),
                _check(
                    f"with the corrected budget the mean regret less {SLACK:g} standard errors is"
                    " at least $H / 4$",
                    "at least {:.3f} H ({})",
                    corrected,
                    lambda share: share >= LINEAR,
                ),
            ],
        ),
    ]


def _check(
    rule: str, words: str, worst: tuple[float, str], keeps: Callable[[float], bool]
) -> Check:
    return Check(rule, words.format(*worst), keeps(worst[0]), always=True)


def _margin(one: Study) -> float:
    """How far the regret stays above the bound, of H."""
    return float(((one.mean + one.slack - one.bound) / one.H)[one.bound > 0].min())


def _share(one: Study, budget: int, sign: int) -> float:
    """The regret with a budget, of H, the slack added or taken off."""
    return float((one.mean + sign * one.slack)[one.at(budget)] / one.H)


INSTANCES = 4  # draws of a*


def real_learners(lab: Lab) -> list[Runs]:
    """UCB2-H on some problems of the family."""
    problems = [
        f"switching-lower-bound:states=5,actions=4,horizon=4,seed={seed}"
        for seed in range(INSTANCES)
    ]
    return [
        lab.runs(problem, ucb2_hoeffding(c=SCALE), episodes=max(1, lab.effort.episodes // 10))
        for problem in problems
    ]


def _thresholds(runs: Runs) -> tuple[float, float]:
    sizes = {"H": runs.horizon, "S": runs.states, "A": runs.actions}
    return theory.corrected_switch_threshold(**sizes), theory.printed_switch_threshold(**sizes)


# ---- what is shown -------------------------------------------------------------------------------


def _family_table(studies: Sequence[Study]) -> PageTable:
    rows = []
    for one in studies:
        volume, regret = one.H * one.S * one.A, one.mean / one.H
        rows.append(
            {
                "switches": one.learner,
                "HS": f"{one.H * one.S:,}",
                "A": f"{one.A}",
                "runs": f"{len(one.regret):,}",
                "corrected threshold / HSA": f"{one.corrected / volume:.3f}",
                "regret / H there": f"{regret[one.at(one.corrected)]:.3f}",
                "last N / HSA with regret >= H / 4": (
                    f"{one.budgets[one.mean >= LINEAR * one.H].max() / volume:.2f}"
                ),
                "regret / H at N = HSA / 2": f"{regret[one.at(one.printed)]:.4f}",
            }
        )
    return PageTable.of("Regret per episode once settled, by the switches allowed", rows)


def _real_table(real: Sequence[Runs]) -> PageTable:
    rows = []
    for seed, runs in enumerate(real):
        volume = runs.horizon * runs.states * runs.actions
        corrected, printed = _thresholds(runs)
        rows.append(
            {
                "a*": f"{seed}",
                "local switches": report.mean_and_interval(runs.local_switches),
                "switches / HSA": f"{runs.local_switches.mean() / volume:.1f}",
                "corrected threshold": f"{corrected:g}",
                "printed threshold": f"{printed:g}",
                "regret": report.mean_and_interval(runs.regret),
                "regret / KH": f"{runs.regret.mean() / runs.episodes / runs.horizon:.5f}",
                "exponent": f"{exponent_of(runs.curves, 'regret'):.2f}",
            }
        )
    title = "UCB2-H on problems of the family, H = 4, S = 5, A = 4, means over the seeds with 95 %"
    return PageTable.of(f"{title} intervals", rows)


def draw(studies: Sequence[Study]) -> Figure:
    """Draw a panel for each A, at the largest size studied with it."""
    figure = report.blank_figure(10, 5.6)
    actions = sorted({one.A for one in studies})
    panels = figure.subplots(1, len(actions), squeeze=False)[0]
    for axes, A in zip(panels, actions, strict=True):
        largest = max(one.H * one.S for one in studies if one.A == A)
        _draw_panel(axes, [one for one in studies if one.A == A and largest == one.H * one.S])
        axes.set_ylabel("regret per episode / H")
    report.legend_below(figure, panels[0], columns=2)
    return figure


def _draw_panel(axes: Axes, studies: Sequence[Study]) -> None:
    some = studies[0]
    volume = some.H * some.S * some.A
    share = some.budgets / volume
    for i, one in enumerate(studies):
        label = f"stops on success, {one.learner}"
        axes.plot(share, one.mean / one.H, linewidth=2, label=label, **report.line_style(i))
    black: dict[str, Any] = {"color": "black"}
    axes.plot(share, some.bound / some.H, "-", linewidth=1, label="corrected bound", **black)
    printed = np.maximum(0, printed_proof_regret(share, some.A))
    axes.plot(share, printed, ":", linewidth=1.6, label="bound in the printed proof", **black)
    for i, place, dashes, label in (
        (2, some.corrected / volume, "-", "corrected threshold"),
        (3, 0.5, "--", "printed threshold HSA / 2"),
    ):
        colour = report.COLOURS[i]
        axes.axvline(place, linestyle=dashes, color=colour, linewidth=1.2, label=label)
    axes.axhline(LINEAR, linestyle="-.", color="grey", linewidth=1, label="H / 4")
    axes.set_title(f"HS = {some.H * some.S:,}, A = {some.A}", fontsize=11)
    axes.set_xlabel("switches allowed / (HSA)")
    axes.set_ylim(0, 1)
    report.dress(axes)
