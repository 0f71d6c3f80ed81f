"""The lemmas behind the theorems; most of them are watched along runs of the library's learner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch import theory
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import Bernstein, Hoeffding
from lowswitch.algorithms.recipes import ucb2_bernstein, ucb2_hoeffding
from lowswitch.algorithms.schedules import UCB2
from lowswitch.envs.mdp import TabularMDP
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.pseudocode import play_episode
from lowswitch.reproduce.section import PageTable, Section
from lowswitch.show import report
from lowswitch.table_learner import TableLearner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEM = "random-mdp:states=4,actions=3,horizon=4,seed=1"
ROUNDING = 1e-9
PROVABLE = {
    "UCB2-H, c = 1": ucb2_hoeffding(),
    "UCB2-B, c1 = 1, c2 = 2": ucb2_bernstein(c1=1.0, c2=2.0),
}
PRACTICAL = {
    "UCB2-H, c = 0.05": ucb2_hoeffding(c=0.05),
    "UCB2-B, c = 0.05": ucb2_bernstein(c=0.05),
    # c1 is so small that the part with the variance decides
    "UCB2-B, c1 = 0.002, c2 = 1": ucb2_bernstein(c1=0.002, c2=1.0),
    "UCB2-H, c = 0.05, eta = 1/2, r* = 1": ucb2_hoeffding(c=0.05, eta=0.5, r_star=1),
}
HORIZONS = (2, 3, 5, 10, 20)


@dataclass
class Violations:
    """How often something happened that the proofs exclude, and out of how many times."""

    steps: int = 0
    triggers: int = 0
    switches: int = 0
    max_error: int = 0
    ties: int = 0
    foreign: int = 0
    wrong_bonus: int = 0
    pessimistic: int = 0
    estimates: int = 0
    bad_runs: int = 0  # with a pessimistic estimate


class Watch:
    """A learner that is told one episode after the other.

    What the proofs say about it is checked from outside at every step.
    """

    def __init__(self, mdp: TabularMDP, algorithm: Algorithm, episodes: int) -> None:
        self.mdp, self.algorithm, self.episodes = mdp, algorithm, episodes
        size = {
            "horizon": mdp.horizon,
            "states": mdp.states,
            "actions": mdp.actions,
            "episodes": episodes,
        }
        self.learner = TableLearner(
            algorithm,
            horizon=mdp.horizon,
            states=mdp.states,
            actions=mdp.actions,
            episodes=episodes,
            actions_allowed=mdp.actions_allowed,
        )
        triggers = algorithm.schedule.triggers(horizon=mdp.horizon, limit=episodes)
        self.triggers = set(range(1, triggers.every_until + 1)) | set(triggers.later)
        self.iota = algorithm.iota(**size)
        self.refreshed = self.learner.q  # each row as it was when it was last refreshed
        self.seen: dict[tuple[int, int, int], list[float]] = {}  # next values of each (h, x, a)
        self.width: dict[tuple[int, int, int], float] = {}  # twice the weighted bonuses so far
        self.count = Violations()

    def play(self, seed: int) -> Violations:
        """Play all episodes with the noise of a seed, and count what the proofs exclude."""
        for k in range(self.episodes):
            before = self.learner.q, self.learner.values, self.learner.policy, self.learner.visits
            states, actions, rewards = play_episode(self.mdp, self.learner.policy, seed, k)
            self.learner.tell(states, actions, rewards)
            self._check_policy(states, actions, *before)
            self._check_updates(states, actions, rewards, *before)
            self.count.pessimistic += int((self.learner.q < self.mdp.optimal_q - ROUNDING).sum())
            self.count.estimates += self.learner.q.size
        return self.count

    def _check_policy(
        self,
        states: list[int],
        actions: list[int],
        q: np.ndarray,
        values: np.ndarray,
        policy: np.ndarray,
        visits: np.ndarray,
    ) -> None:
        """Check the lemma "max error", and that a row changes only at its own trigger and to its
        best action.
        """
        count, after = self.count, self.learner.q
        for h, (x, a) in enumerate(zip(states, actions, strict=True)):
            count.max_error += values[h, x] > max(q[h, x, a], self.refreshed[h, x, a]) + ROUNDING
            count.steps += 1
            if visits[h, x, a] + 1 in self.triggers:
                self.refreshed[h, x] = after[h, x]
                count.triggers += 1
                incumbent_stays = after[h, x, a] == after[h, x].max()
                count.ties += self.learner.policy[h, x] != (
                    a if incumbent_stays else after[h, x].argmax()
                )
        changed = np.argwhere(self.learner.policy != policy)
        count.switches += len(changed)
        rows = {
            (h, x)
            for h, (x, a) in enumerate(zip(states, actions, strict=True))
            if visits[h, x, a] + 1 in self.triggers
        }
        count.foreign += sum((h, x) not in rows for h, x in map(tuple, changed))

    def _check_updates(
        self,
        states: list[int],
        actions: list[int],
        rewards: list[float],
        q: np.ndarray,
        values: np.ndarray,
        policy: np.ndarray,
        visits: np.ndarray,
    ) -> None:
        """Work out the bonus inside each update, from the estimate before and after it, and compare
        it with its formula.
        """
        H = self.mdp.horizon
        for h, here in enumerate((h, states[h], actions[h]) for h in range(H)):
            t = int(visits[here]) + 1
            alpha = (H + 1) / (H + t)
            following = float(values[h + 1, states[h + 1]]) if h + 1 < H else 0.0
            weighted = (
                self.learner.q[here] - (1 - alpha) * q[here] - alpha * (rewards[h] + following)
            )
            self.seen.setdefault(here, []).append(following)
            self.width[here] = (1 - alpha) * self.width.get(here, 0.0) + 2 * weighted
            self.count.wrong_bonus += (
                abs(self.width[here] - self._expected_width(here, t)) > ROUNDING * H * t
            )

    def _expected_width(self, here: tuple[int, int, int], t: int) -> float:
        """beta_t = 2 sum_i alpha_t^i b_i, with W_t the variance of the next values: Jin et al.
        2018, eq. (C.1).
        """
        H, S, A, bonus = self.mdp.horizon, self.mdp.states, self.mdp.actions, self.algorithm.bonus
        if isinstance(bonus, Bernstein):
            spread = (
                math.sqrt(H / t * (float(np.var(self.seen[here])) + H) * self.iota)
                + math.sqrt(H**7 * S * A) * self.iota / t
            )
            return min(bonus.c1 * spread, bonus.c2 * math.sqrt(H**3 * self.iota / t))
        if not isinstance(bonus, Hoeffding):
            raise ValueError(f"{self.algorithm} is not one of the paper's")
        alpha = theory.learning_weights(t, H)
        return float(2 * alpha @ (bonus.c * np.sqrt(H**3 * self.iota / np.arange(1, t + 1))))


def lemmas(lab: Lab) -> Section:
    """The lemmas, measured."""
    counts = {label: _watch(lab, algorithm) for label, algorithm in (PROVABLE | PRACTICAL).items()}
    worst = {r_star: _accumulation(lab, r_star) for r_star in ("theory", "1")}
    return Section(
        name="lemmas",
        title="Lemmas: learning rate, error accumulation, optimism, max error",
        claim=(
            r"The proof rests on the weights $\alpha_t^i$, on optimism ($\tilde{Q} \ge Q^*$ with"
            r" probability $1 - p$), on the max-error lemma ($\tilde{V}$ is at most the larger of"
            r" $\tilde{Q}$ now and $\tilde{Q}$ when the row was refreshed, at the action played),"
            r" and on the error-accumulation lemma $\tilde{S}_i \le 1 + 3/H$."
        ),
        method=(
            f"The library's learner on {PROBLEM}, {lab.effort.plain_episodes:,} episodes,"
            f" {lab.effort.plain_seeds} seeds, watched from outside through ask and tell: the bonus"
            " of each update is worked out from the estimates before and after it."
        ),
        findings=[
            _weight_finding(),
            _accumulation_finding(worst),
            *_watch_findings(lab, counts),
        ],
        tables=[_table(lab, counts)],
        figures={"lemmas": _figure(worst)},
        captions={
            "lemmas": (
                "The largest S~_i over i up to 30 H^2, for the paper's r* and for r* = 1 (pure"
                " UCB2); they coincide."
            )
        },
        remarks=[
            "Stage I, the eager first $10 H^2$ visits, is not needed for the error-accumulation"
            " lemma: $r^*$ = 1 keeps it."
        ],
        numbers={
            "counts": {label: vars(count) for label, count in counts.items()},
            "accumulation": {key: values.tolist() for key, values in worst.items()},
        },
        folded=True,
    )


def _watch(lab: Lab, algorithm: Algorithm) -> Violations:
    episodes, seeds = lab.effort.plain_episodes, lab.effort.plain_seeds

    def compute() -> Violations:
        mdp = lab.make(PROBLEM)
        runs = [vars(Watch(mdp, algorithm, episodes).play(seed)) for seed in range(seeds)]
        total = Violations(**{name: int(sum(run[name] for run in runs)) for name in runs[0]})
        total.bad_runs = sum(run["pessimistic"] > 0 for run in runs)
        return total

    configuration = [lab.text(PROBLEM), algorithm.facts(), episodes, seeds]
    return lab.measure("watch", configuration, compute, Violations)


def _weight_finding() -> Finding:
    worst = 0.0
    for H in HORIZONS:
        for t in (1, 2, 3, 10, 100, 1000):
            alpha = theory.learning_weights(t, H)
            root = float((alpha / np.sqrt(np.arange(1, t + 1))).sum()) * math.sqrt(t)
            worst = max(
                worst,
                abs(alpha.sum() - 1),
                1 - root,
                root - 2,
                alpha.max() - 2 * H / t,
                (alpha**2).sum() - 2 * H / t,
                total_weight_error(H, t),
            )
    return Finding(
        says=r"the weights $\alpha_t^i$ of the learning rate",
        scale="any c",
        length="t up to 1,000",
        problems=f"H = {_some_horizons()}",
        proved=True,
        found=f"broken by at most {worst:.1g}, which is rounding",
        checks=[
            Check.at_most(
                r"they sum to 1 over i and to $1 + 1 / H$ over t, keep $1 / \sqrt{t} \le \sum_i"
                r" \alpha_t^i / \sqrt{i} \le 2 / \sqrt{t}$, and both bounds by $2 H / t$",
                worst,
                1e-12,
                "broken by at most {:.1g}",
                always=True,
                consistency=True,
            )
        ],
    )


def total_weight_error(H: int, i: int, limit: int = 2_000) -> float:
    """How far the sum of alpha_t^i over all t >= i is from 1 + 1 / H: Jin et al. 2018, Lemma 4.1.

    The terms after t add up to alpha_t^i t / H, because 1 - alpha_t = (t - 1) / (H + t).
    """
    t = np.arange(i + 1, limit + 1)
    weights = (H + 1) / (H + i) * np.append(1.0, np.cumprod((t - 1) / (H + t)))
    return float(abs(weights.sum() + weights[-1] * max(i, limit) / H - (1 + 1 / H)))


def _some_horizons() -> str:
    return ", ".join(str(H) for H in HORIZONS)


def _accumulation(lab: Lab, r_star: str) -> np.ndarray:  # [horizons]
    schedule = UCB2() if r_star == "theory" else UCB2(r_star=int(r_star))

    def worst(H: int, limit: int = 40_000) -> float:
        places = range(1, min(limit // 8, 30 * H * H), max(1, H * H // 12))
        return max(theory.error_accumulation(i, H, schedule, limit) for i in places)

    def compute() -> dict[str, np.ndarray]:
        return {"worst": np.array([worst(H) for H in HORIZONS])}

    found = lab.measure("accumulation", [r_star, HORIZONS], compute, dict[str, np.ndarray])
    return found["worst"]


def _accumulation_finding(worst: dict[str, np.ndarray]) -> Finding:
    shares = [values / (1 + 3 / np.array(HORIZONS)) for values in worst.values()]
    return Finding(
        says=r"error accumulation: $\tilde{S}_i \le 1 + 3 / H$",
        scale="any c",
        length="t up to 40,000",
        problems=f"H = {_some_horizons()}",
        proved=True,
        found=f"at most {np.max(shares):.2f} of the bound, with either $r^*$",
        checks=[
            Check(
                rf"$\tilde{{S}}_i \le 1 + 3 / H$ for every H, $r^*$ = {r_star}",
                ", ".join(f"{value:.3f}" for value in values),
                bool((values <= 1 + 3 / np.array(HORIZONS)).all()),
                always=True,
            )
            for r_star, values in worst.items()
        ],
    )


def _largest_share(bad: int, runs: int) -> float:
    """The largest share of bad runs that so few of them do not exclude, at a level of 95 %."""
    from scipy.special import betaincinv

    return float(betaincinv(bad + 1, runs - bad, 0.95)) if bad < runs else 1.0


def _watch_findings(lab: Lab, counts: dict[str, Violations]) -> list[Finding]:
    """Optimism and the max-error lemma along real runs.

    That the learner does what its formulas say is a matter of the tests, not of these rules.
    """
    p = ucb2_hoeffding().p
    bad = sum(counts[label].bad_runs for label in PROVABLE)
    runs = len(PROVABLE) * lab.effort.plain_seeds
    broken, steps = (
        sum(getattr(count, key) for count in counts.values()) for key in ("max_error", "steps")
    )
    scope: dict[str, Any] = {
        "length": f"K = {lab.effort.plain_episodes:,}",
        "problems": "random (4, 3, 4)",
        "proved": True,
    }
    return [
        Finding(
            **scope,
            says=r"optimism: $\tilde{Q} \ge Q^*$ with probability $1 - p$",
            scale="c = 1; c1 = 1, c2 = 2",
            found=(
                f"{bad} of {runs} runs had an estimate below: excludes shares above"
                f" {_largest_share(bad, runs):.1%} only"
            ),
            checks=[
                Check(
                    rf"at most a share p = {p} of the runs has an estimate below $Q^*$",
                    f"{bad} of {runs}",
                    bad <= p * runs,
                    always=True,
                    consistency=True,  # a twentieth of the scale keeps it too
                )
            ],
        ),
        Finding(
            **scope,
            says=r"max error: $\tilde{V}$ is at most a refreshed or a present $\tilde{Q}$",
            scale="c = 1 and 0.05",
            found=f"broken at {broken:,} of {steps:,} steps",
            checks=[
                Check(
                    r"$\tilde{V}$ is at most the larger of $\tilde{Q}$ now and $\tilde{Q}$ when the"
                    " row was refreshed, at every step",
                    f"broken at {broken:,} of {steps:,}",
                    broken == 0,
                    always=True,
                    consistency=True,
                )
            ],
        ),
    ]


def _table(lab: Lab, counts: dict[str, Violations]) -> PageTable:
    rows = [
        {
            "learner": label,
            "share of (h, x, a, k) with Q~ < Q*": f"{count.pessimistic / count.estimates:.4%}",
            "runs with any": f"{count.bad_runs} of {lab.effort.plain_seeds}",
            "triggers": f"{count.triggers:,}",
            "switches": f"{count.switches:,}",
        }
        for label, count in counts.items()
    ]
    return PageTable.of("Optimism, and triggers against real switches", rows)


def _figure(worst: dict[str, np.ndarray]) -> Figure:
    figure = report.blank_figure(6.5, 3.8)
    axes = figure.subplots()
    axes.plot(HORIZONS, 1 + 3 / np.array(HORIZONS), "k:", label="bound 1 + 3/H")
    axes.plot(HORIZONS, 1 + 1 / np.array(HORIZONS), color="0.6", label="every visit, 1 + 1/H")
    for i, (r_star, values) in enumerate(worst.items()):
        style: dict[str, Any] = {
            "marker": "os"[i],
            "markersize": (11, 5)[i],
            "fillstyle": ("none", "full")[i],
            "color": report.COLOURS[i],
        }
        axes.plot(HORIZONS, values, label=f"largest S~_i, r* = {r_star}", **style)
    report.dress(axes, log="x")
    axes.set_xticks(HORIZONS, [str(H) for H in HORIZONS])
    axes.minorticks_off()
    axes.set_xlabel("horizon H (steps)")
    axes.set_ylabel("times an error is counted")
    report.legend_below(figure, axes, columns=2)
    return figure
