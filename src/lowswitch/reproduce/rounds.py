"""Theorem 5: how many rounds M machines need that play one policy a round; the rounds are really run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch import concurrent, envs, report, theory
from lowswitch.algorithms import Algorithm, ucb2_bernstein, ucb2_hoeffding, ucb_hoeffding
from lowswitch.concurrent.runner import RoundRule
from lowswitch.history import History
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.qlearning import PROBLEMS, SCALE
from lowswitch.reproduce.section import Check, Section, Table
from lowswitch.reproduce.traffic import Traffic, measure_traffic, same_path
from lowswitch.simulate import Runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MACHINES = (1, 2, 5, 10, 20, 50, 100)
EVEN_MORE = {"random (5, 3, 5)": (1000,)}  # elsewhere they would play hundreds of episodes in vain for each one kept
MANY = 100  # machines at which the rules are compared
RULES: tuple[RoundRule, ...] = ("trigger", "switch", "speculate")
LEARNERS: dict[str, Callable[..., Algorithm]] = {"UCB2-H": ucb2_hoeffding, "UCB2-B": ucb2_bernstein}
BASELINE, BASELINE_MACHINES = "UCB-H", (1, 10, MANY)
LEAST_GAIN: dict[RoundRule, float] = {"switch": 1.25, "speculate": 1.4}  # episodes a round over those of "trigger"; set for K = 10^6
NEARLY_LINEAR = 0.8  # of M, the least speed-up at M = 2
SHARES = (0.5, 0.2, 0.1, 0.05)  # eps over V*


class Case(NamedTuple):
    problem: str
    learner: str
    rule: RoundRule
    machines: int
    seed: int = 0


class Played(NamedTuple):
    """What the rounds of one case came to."""

    rounds: int
    same: bool  # as the sequential run: first policy and every change
    curve: np.ndarray  # [C]  rounds, at the episodes of the sequential run's curves


Sequential = Mapping[tuple[str, str], Runs]  # by problem and learner, with histories


def rounds(lab: Lab) -> Section:
    sequential = _sequential(lab)
    episodes = next(iter(sequential.values())).episodes
    played = _play(lab, episodes, sequential)
    reached = _reached(sequential, played)
    traffic = measure_traffic(lab, PROBLEMS[next(reversed(PROBLEMS))], ucb2_hoeffding(c=SCALE), machines=MANY)
    return Section(
        name="rounds",
        title="Between switches M machines play in parallel (Theorem 5)",
        claim="On M machines that play one policy a round, an eps-optimal policy is found in O~(H^3 S A + H^5 S A / (eps^2 M)) rounds "
        "(H^4 with Bernstein): a nearly linear speed-up for small M, since the path is that of the sequential run.",
        method=f"{len(played)} concurrent runs of K = {episodes:,} kept episodes, c = {SCALE}, in this process: every round is played on M "
        'machines, and what its rule throws away is played as well. "trigger" cuts a round at the first trigger, as the paper does; '
        '"switch" where the policy really changed; "speculate" keeps later episodes that the change does not touch, which only a simulator allows. '
        f"Seed 0; at M = {MANY} {_seeds(lab)} seeds. {BASELINE} on one problem. Then one run with real worker processes.",
        checks=[
            *_exact_checks(sequential, played, traffic),
            *_rule_checks(played),
            *_speed_checks(sequential, played),
            *_reached_checks(reached),
            traffic.check(),
        ],
        tables=[_speed_table(episodes, played), _bound_table(sequential, played), _reached_table(reached), traffic.table()],
        figures={"rounds": _figure(sequential, played), "rounds-to-eps": _reached_figure(reached)},
        captions={
            "rounds": "Speed-up, episodes kept a round, against the number of machines. Dotted: linear. Level: K / (N_gl + 1), which no M "
            'can pass under "switch".',
            "rounds-to-eps": "Rounds until the mixture of all policies played is within eps of the optimum, against the number of "
            'machines, under "switch". Dotted: in proportion to 1 / M.',
        },
        remarks=_REMARKS,
        numbers=_numbers(episodes, played, reached, traffic),
    )


def count_rounds(history: History, episodes: int, machines: int) -> int:
    """Rounds in which M machines play these episodes, thrown away past a deployment: the sum over deployments of ceil(L / M).

    The machines' trajectories are fed in order and cut where the policy changed, so the path is that of the sequential run, and the
    L episodes between two deployments take ceil(L / M) rounds: Bai et al. 2019, proof of Theorem 5, with real changes for triggers.
    """
    ends = np.append(np.unique(history.episode) + 1, episodes)
    lengths = np.diff(ends, prepend=0)
    return int(np.ceil(lengths / machines).sum())


# ---- the runs --------------------------------------------------------------------------------------------------------


def sequential_runs(lab: Lab, problem: str, algorithm: Algorithm) -> Runs:
    """The runs that many machines must repeat."""
    seeds = max(1, lab.size.seeds // 8)
    return lab.runs(problem, algorithm, episodes=lab.size.episodes // 10, seeds=seeds, history=True)


def _sequential(lab: Lab) -> Sequential:
    first = next(iter(PROBLEMS))
    pairs = [(problem, learner) for problem in PROBLEMS for learner in LEARNERS] + [(first, BASELINE)]
    return {(problem, learner): sequential_runs(lab, PROBLEMS[problem], (LEARNERS | BASELINES)[learner](c=SCALE)) for problem, learner in pairs}


def _cases(seeds: int) -> Iterator[Case]:
    for problem in PROBLEMS:
        for learner in LEARNERS:
            for rule in RULES:
                for M in (*MACHINES, *EVEN_MORE.get(problem, ())):
                    yield from (Case(problem, learner, rule, M, seed) for seed in range(seeds if M == MANY else 1))
    yield from (Case(next(iter(PROBLEMS)), BASELINE, "switch", M) for M in BASELINE_MACHINES)


def _play(lab: Lab, episodes: int, sequential: Sequential) -> dict[Case, Played]:
    cases = list(_cases())
    algorithms = [sequential[case.problem, case.learner].algorithm for case in cases]

    def compute(place: int) -> dict[str, np.ndarray]:
        case = cases[place]
        run = concurrent.run(
            envs.make(PROBLEMS[case.problem]),
            algorithms[place],
            episodes,
            machines=case.machines,
            rule=case.rule,
            seed=case.seed,
            regret=False,
            progress=False,
        )
        same = same_path(run, sequential[case.problem, case.learner], case.seed)
        return {"rounds": np.array(run.rounds), "same": np.array(same), "curve": run.rounds_curve}

    configurations = [
        [PROBLEMS[case.problem], algorithm.to_dict(), episodes, case.machines, case.rule, case.seed]
        for case, algorithm in zip(cases, algorithms, strict=True)
    ]
    found = lab.each("rounds", configurations, compute, episodes=episodes)
    return {case: Played(int(arrays["rounds"]), bool(arrays["same"]), arrays["curve"]) for case, arrays in zip(cases, found, strict=True)}


# ---- the rules -------------------------------------------------------------------------------------------------------


def _exact_checks(sequential: Sequential, played: Mapping[Case, Played], traffic: Traffic) -> list[Check]:
    """What must be so to the last round."""
    same = [outcome.same for outcome in played.values()] + [traffic.same]
    shares, off = [], 0
    for case, outcome in played.items():
        if case.rule == "switch":
            runs = sequential[case.problem, case.learner]
            bound = theory.rounds_bound(K=runs.episodes, M=case.machines, deployments=int(runs.deployments[case.seed]))
            shares.append(outcome.rounds / bound)
            history = (runs.history or ())[case.seed]
            off = max(off, abs(outcome.rounds - count_rounds(history, runs.episodes, case.machines)))
    return [
        Check(
            "every policy change of every run is that of the sequential run, after the same episode",
            f"{sum(same)} of {len(same)}",
            all(same),
        ),
        Check('"switch": rounds at most N_gl + 1 + K / M, every run', f"at most {max(shares):.3f} of it", max(shares) <= 1),
        Check(
            '"switch": rounds are the sum of ceil(L / M) over the deployments of the sequential history, L episodes apart',
            f"off by at most {off}",
            off == 0,
        ),
    ]


def _rule_checks(played: Mapping[Case, Played]) -> list[Check]:
    """How the three rules compare, and more machines with fewer."""
    checks = []
    for problem in PROBLEMS:
        gains = {
            rule: min(_gain(played, Case(problem, learner, rule, MANY, seed)) for learner in LEARNERS for seed in range(SEEDS))
            for rule in LEAST_GAIN
        }
        checks.append(
            Check(
                f"{problem}: with {MANY} machines "
                + " and ".join(f'"{rule}" keeps at least {least} times as many episodes a round' for rule, least in LEAST_GAIN.items())
                + ' as "trigger", every learner and seed',
                ", ".join(f"{gain:.2f} x" for gain in gains.values()),
                all(gains[rule] >= least for rule, least in LEAST_GAIN.items()),
            )
        )
    ordered = [played[case].rounds <= played[case._replace(rule=before)].rounds for case, before in _with_rule_before(played)]
    slower = sum(int((np.diff(counts) > 0).sum()) for counts in _rounds_by_machines(played))
    return [
        *checks,
        Check(
            'never more rounds under "speculate" than under "switch", nor under "switch" than under "trigger"',
            f"{sum(ordered)} of {len(ordered)}",
            all(ordered),
        ),
        Check("more machines never need more rounds", f"{slower} exceptions", slower == 0),
    ]


def _gain(played: Mapping[Case, Played], case: Case) -> float:
    """Episodes kept a round over those of the paper's rule."""
    return played[case._replace(rule="trigger")].rounds / played[case].rounds


def _with_rule_before(played: Mapping[Case, Played]) -> Iterator[tuple[Case, RoundRule]]:
    before = dict(zip(RULES[1:], RULES, strict=False))
    for case in played:
        if case.rule in before and case.learner in LEARNERS:
            yield case, before[case.rule]


def _rounds_by_machines(played: Mapping[Case, Played]) -> Iterator[list[int]]:
    for case in played:
        if case.machines == 1:
            yield [outcome.rounds for other, outcome in played.items() if other._replace(machines=1) == case]


def _speed_checks(sequential: Sequential, played: Mapping[Case, Played]) -> list[Check]:
    """The speed-up in the regime of the theorem, and that of the learner without delayed updates."""
    inside, outside = {}, []
    for problem in PROBLEMS:
        for learner in LEARNERS:
            runs = sequential[problem, learner]
            if runs.deployments[0] <= runs.episodes / 2:
                inside[f"{problem} {learner}"] = runs.episodes / played[Case(problem, learner, "switch", 2)].rounds
            else:
                outside.append(f"{problem} {learner}")
    first = next(iter(PROBLEMS))
    baseline = played[Case(first, BASELINE, "switch", 1)].rounds / played[Case(first, BASELINE, "switch", MANY)].rounds
    two = played[Case(first, "UCB2-H", "switch", 1)].rounds / played[Case(first, "UCB2-H", "switch", 2)].rounds
    return [
        Check(
            f'"switch": two machines are at least {2 * NEARLY_LINEAR:.1f} times as fast wherever N_gl <= K / M, so that K / M leads',
            ", ".join(f"{name} {speed:.2f} x" for name, speed in inside.items())
            + (f"; K is too small for {', '.join(outside)}" if outside else ""),
            bool(inside) and all(speed >= 2 * NEARLY_LINEAR for speed in inside.values()),
        ),
        Check(
            f'{first}, "switch": {MANY} machines help {BASELINE}, which may change a row at every visit, less than two help UCB2-H',
            f"{baseline:.2f} x and {two:.2f} x",
            baseline < two,
        ),
    ]


# ---- Theorem 5 in its own terms: rounds until a policy is eps-optimal --------------------------------------------------


class Reached(NamedTuple):
    """When the mixture of all policies played came within eps of the optimum."""

    episodes: int
    rounds: np.ndarray  # [machines]


def _reached(sequential: Sequential, played: Mapping[Case, Played]) -> dict[tuple[str, float], Reached]:
    """By learner and eps / V*, where it was reached; on the first problem, to the nearest point of the curves."""
    problem, found = next(iter(PROBLEMS)), {}
    for learner in LEARNERS:
        runs = sequential[problem, learner]
        mixture = runs.curves.regret[0] / runs.curves.episodes
        for share in SHARES:
            good = np.flatnonzero(mixture <= share * runs.optimal_value)
            if len(good):
                curves = [played[Case(problem, learner, "switch", M)].curve for M in MACHINES]
                found[learner, share] = Reached(int(runs.curves.episodes[good[0]]), np.array([curve[good[0]] for curve in curves]))
    return found


def _reached_checks(reached: Mapping[tuple[str, float], Reached]) -> list[Check]:
    checks = []
    for learner in LEARNERS:
        speeds = {share: at.episodes / at.rounds for (name, share), at in reached.items() if name == learner}
        two = [float(speed[MACHINES.index(2)]) for speed in speeds.values()]
        last = f"{min(speeds, default=np.nan)} V*"
        checks.append(
            Check(
                f"{learner}: the smaller eps, the greater the speed-up until the mixture is eps-optimal, for every M > 1; and at the "
                f"smallest eps reached, {last}, two machines are at least {2 * NEARLY_LINEAR:.1f} times as fast",
                "M = 2: " + ", ".join(f"{speed:.2f} x" for speed in two),
                len(two) > 1 and two[-1] >= 2 * NEARLY_LINEAR and all(bool((b > a)[1:].all()) for a, b in pairwise(speeds.values())),
            )
        )
    return checks


def _reached_table(reached: Mapping[tuple[str, float], Reached]) -> Table:
    rows = [
        [learner, f"{share} V*", f"{at.episodes:,}", *(f"{count:,} ({at.episodes / count:.1f} x)" for count in at.rounds)]
        for (learner, share), at in reached.items()
    ]
    title = f'{next(iter(PROBLEMS))}, "switch": rounds until the mixture of all policies played is eps-optimal, and the speed-up'
    return Table(title, ("learner", "eps", "episodes", *(f"M = {M}" for M in MACHINES)), rows)


# ---- tables and figures ----------------------------------------------------------------------------------------------

_REMARKS = (
    "The paper's bound N_sw + K / M forgets the last, unfinished phase and counts local switches where deployments are enough: "
    "N_gl + 1 + K / M.",
    "How nearly linear the speed-up is depends on K: what is kept a round tends to M only once K / M is large against N_gl, which grows "
    "like log K. Early on most episodes change the policy, and machines hardly help.",
    f"{BASELINE} deploys after most episodes, so that machines hardly help it however large K is.",
    '"speculate" is beyond the paper: an episode that was played by the old policy and meets no changed row is, under the same noise, the '
    "episode of the new policy.",
)


def _speed_table(episodes: int, played: Mapping[Case, Played]) -> Table:
    every = (*MACHINES, *(M for more in EVEN_MORE.values() for M in more))
    rows = [
        [
            case.problem,
            case.learner,
            case.rule,
            *(f"{episodes / played[there].rounds:.2f}" if (there := case._replace(machines=M)) in played else "-" for M in every),
        ]
        for case in played
        if case.machines == 1
    ]
    return Table(f"Episodes kept a round, K = {episodes:,}, seed 0", ("problem", "learner", "rule", *(f"M = {M:,}" for M in every)), rows)


def _bound_table(sequential: Sequential, played: Mapping[Case, Played]) -> Table:
    some = (10, MANY)
    rows = []
    for (problem, learner), runs in sequential.items():
        row = [problem, learner, f"{runs.deployments[0]:,}"]
        for M in some:
            bound = theory.rounds_bound(K=runs.episodes, M=M, deployments=int(runs.deployments[0]))
            row += [f"{played[Case(problem, learner, 'switch', M)].rounds:,}", f"{bound:,.0f}"]
        rows.append(row)
    header = ("problem", "learner", "N_gl", *(text for M in some for text in (f"rounds, M = {M}", "N_gl + 1 + K / M")))
    return Table('Rounds under "switch" and their bound, seed 0', header, rows)


def _numbers(
    episodes: int, played: Mapping[Case, Played], reached: Mapping[tuple[str, float], Reached], traffic: Traffic
) -> dict[str, Any]:
    return {
        "episodes": episodes,
        "rounds": [case._asdict() | {"rounds": outcome.rounds} for case, outcome in played.items()],
        "reached": [
            {"learner": learner, "share": share, "episodes": at.episodes, "machines": MACHINES, "rounds": at.rounds.tolist()}
            for (learner, share), at in reached.items()
        ],
        "traffic": traffic._asdict(),
    }


def _figure(sequential: Sequential, played: Mapping[Case, Played]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.2), layout="constrained")
    panels = figure.subplots(len(LEARNERS), len(PROBLEMS), sharex=True, sharey=True, squeeze=False)
    for row, learner in zip(panels, LEARNERS, strict=True):
        for axes, problem in zip(row, PROBLEMS, strict=True):
            axes.plot((1, MANY), (1, MANY), ":", color="0.4", label="linear")
            for i, rule in enumerate(RULES):
                _draw_speed(axes, sequential, played, Case(problem, learner, rule, 1), i)
            axes.axhline(_most(sequential[problem, learner]), linewidth=0.8, color=report.COLOURS[RULES.index("switch")])
            if (problem, BASELINE) in sequential:
                _draw_speed(axes, sequential, played, Case(problem, BASELINE, "switch", 1), len(RULES), f"{BASELINE}, switch")
            report.dress(axes, log="xy")
            axes.set_title(f"{problem}, {learner}", fontsize=10)
        row[0].set_ylabel("episodes kept a round")
    for axes in panels[-1]:
        axes.set_xlabel("machines M")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _draw_speed(axes: Axes, sequential: Sequential, played: Mapping[Case, Played], case: Case, i: int, label: str = "") -> None:
    runs = sequential[case.problem, case.learner]
    machines = [other.machines for other in played if other._replace(machines=1) == case]
    speed = [runs.episodes / played[case._replace(machines=M)].rounds for M in machines]
    axes.plot(machines, speed, "os^v"[i] + report.DASHES[i], color=report.COLOURS[i], markersize=4, label=label or case.rule)


def _most(runs: Runs) -> float:
    """The speed-up that no number of machines passes, if a round ends where the policy changes."""
    return float(runs.episodes / (runs.deployments[0] + 1))


def _reached_figure(reached: Mapping[tuple[str, float], Reached]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, len(LEARNERS), sharex=True, sharey=True, squeeze=False)[0]
    for axes, learner in zip(panels, LEARNERS, strict=True):
        for i, share in enumerate(SHARES):
            if (learner, share) in reached:
                at = reached[learner, share]
                axes.plot(MACHINES, at.rounds, "os^v"[i] + report.DASHES[i], color=report.COLOURS[i], label=f"eps = {share} V*")
                axes.plot(MACHINES, at.episodes / np.array(MACHINES), ":", linewidth=0.8, color=report.COLOURS[i])
        report.dress(axes, log="xy")
        axes.set_title(f"{next(iter(PROBLEMS))}, {learner}", fontsize=10)
        axes.set_xlabel("machines M")
    panels[0].set_ylabel("rounds")
    handles = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    return figure
