"""The steps of the proof of Theorems 2 and 3, each watched along runs or worked out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lowswitch import theory
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import ucb2_bernstein, ucb2_hoeffding
from lowswitch.algorithms.schedules import UCB2
from lowswitch.envs.mdp import TabularMDP
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.section import PageTable, Section
from lowswitch.reproduce.trails import (
    Terms,
    Trail,
    Values,
    next_errors,
    record,
    terms_of,
    values_of,
)

PROBLEM = "random-mdp:states=3,actions=2,horizon=3,seed=1"
NAME = "random (3, 2, 3)"
PROVED = {"H": "UCB2-H, c = 1", "B": "UCB2-B, c1 = 1, c2 = 2"}
PRACTICAL = {"H": "UCB2-H, c = 0.05", "B": "UCB2-B, c = 0.05"}
LEARNERS = {
    PROVED["H"]: ucb2_hoeffding(),
    PROVED["B"]: ucb2_bernstein(c1=1.0, c2=2.0),
    PRACTICAL["H"]: ucb2_hoeffding(c=0.05),
    PRACTICAL["B"]: ucb2_bernstein(c=0.05),
}
HORIZONS = (2, 3, 5, 10, 20)
LIMIT = 40_000  # visits
ROUNDING = 1e-9

Shares = dict[str, np.ndarray]  # by the name of a bound, what each run used of it: [runs]


def proof(lab: Lab) -> Section:
    """The steps of the proof, measured."""
    found = {label: _measured(lab, label) for label in LEARNERS}
    return Section(
        name="proof",
        title="Steps of the proof: accuracy, perturbation, variance, propagation of error",
        claim=(
            r"$\tilde{Q}$ is accurate as well as optimistic; delayed updates add a perturbation of"
            r" at most $\beta_t$, later errors and noise; the variance estimate $W_t$ is close to"
            r" the true variance; and so the errors of step h are at most $1 + 3 / H$ times those"
            r" of step h + 1, plus bounded terms."
        ),
        method=(
            f"The library's learner on {PROBLEM}, {_episodes(lab):,} episodes, {_seeds(lab)} seeds,"
            " recorded through ask and tell. Laws and values are exact. The statements are the"
            " corrected ones of the errata."
        ),
        findings=[
            _definition_finding(lab, found),
            *(_accuracy_finding(lab, found, bonus) for bonus in PROVED),
            *(_perturbation_finding(lab, found, bonus) for bonus in PROVED),
            *_variance_findings(lab, found),
            _propagation_finding(lab, found),
            _schedule_finding(),
        ],
        tables=[_table(found)],
        remarks=[
            "A rule that holds at a twentieth of the proved scale too is a consistency check.",
            r"At the scale of the proofs, noise moves $\tilde{Q} - Q^*$ from the middle of"
            r" $[0, \beta_t]$ by a few per cent of $\beta_t$: the bonus could be much smaller.",
        ],
        numbers={label: {k: v.tolist() for k, v in used.items()} for label, used in found.items()},
        folded=True,
    )


# ---- what is measured ----------------------------------------------------------------------------


def _episodes(lab: Lab) -> int:
    return 10 * lab.effort.plain_episodes


def _seeds(lab: Lab) -> int:
    return max(1, lab.effort.plain_seeds // 2)


def _measured(lab: Lab, label: str) -> Shares:
    episodes, seeds, algorithm = _episodes(lab), _seeds(lab), LEARNERS[label]

    def compute() -> Shares:
        mdp = lab.make(PROBLEM)
        runs = [
            shares(record(mdp, algorithm, episodes, seed), mdp, algorithm) for seed in range(seeds)
        ]
        return {name: np.array([run[name] for run in runs]) for name in runs[0]}

    configuration = [lab.text(PROBLEM), algorithm.facts(), episodes, seeds]
    return lab.measure("proof", configuration, compute, Shares)


def shares(trail: Trail, mdp: TabularMDP, algorithm: Algorithm) -> dict[str, float]:
    """The largest share that a run uses of each bound: at most 1 where the bound holds.

    "identity" is the largest error of an identity. The constants are those that a bound without a
    given constant needs.
    """
    episodes = len(trail.state)
    iota = algorithm.iota(**mdp.size | {"episodes": episodes})
    terms, values = terms_of(trail, mdp, algorithm), values_of(trail, mdp)
    changes = (trail.policies[1:] != trail.policies[:-1]).sum(axis=(1, 2))
    return {
        "deployments": len(changes) / max(1, changes.sum()),
        "switches": changes.sum() / theory.trivial_switch_bound(H=mdp.horizon, K=episodes),
        **_estimate_shares(terms, mdp, iota),
        **_variance_constants(terms, values, mdp, iota),
        **_propagation_shares(terms, values, next_errors(trail, mdp), mdp),
    }


def _estimate_shares(terms: Terms, mdp: TabularMDP, iota: float) -> dict[str, float]:
    """The upper half of "optimistic and accurate", and the perturbation lemma."""
    seen, late = terms.t > 0, terms.t > terms.last
    beta, width = terms.beta, np.sqrt(mdp.horizon**3 * iota / np.maximum(terms.t, 1))
    identity = terms.excess - (terms.errors + terms.noise + beta / 2)
    noise = np.abs(terms.late_noise)
    left = terms.rise - terms.late_errors - noise
    return {
        "identity": float(np.abs(identity[seen]).max()),
        "accurate": float(((terms.excess - terms.errors)[seen] / beta[seen]).max()),
        "perturbation": float((left[late] / beta[late]).max(initial=0.0)),
        "rise": float((terms.rise[late] / beta[late]).max(initial=0.0)),
        "noise": float((noise[late] / width[late]).max(initial=0.0)),
    }


def _variance_constants(
    terms: Terms, values: Values, mdp: TabularMDP, iota: float
) -> dict[str, float]:
    """The constants that the two halves of the variance lemma need: appendix B."""
    H, SA, steps = mdp.horizon, mdp.states * mdp.actions, values.variance.size
    t = terms.t[terms.t > 0]
    above = terms.variance - values.variance - 2 * H * (values.next_delta + values.xi)
    allowed = SA * math.sqrt(H**7 * iota) / t + np.sqrt(SA * H**7 * iota / t)
    return {
        "variance": float(values.variance.sum() / (H * steps + H**3 * iota)),
        "estimate": max(0.0, float((above[terms.t > 0] / allowed).max())),
    }


def _propagation_shares(
    terms: Terms, values: Values, errors: np.ndarray, mdp: TabularMDP
) -> dict[str, float]:
    """How much of the bound on the error of step h is used, at every h and after 10, 100, ...
    episodes; and by how much errors of the next step are multiplied.
    """
    H, SA = mdp.horizon, mdp.states * mdp.actions
    free = terms.last_beta + terms.beta + np.abs(terms.late_noise)
    left = values.delta - (1 + 3 / H) * values.next_delta - values.xi
    ends = [10**power for power in range(1, 8) if 10**power < len(free)] + [len(free)]
    used = [left[:end].sum(axis=0) / (SA * H + free[:end].sum(axis=0)) for end in ends]
    counted = (terms.last_errors + terms.late_errors)[:, :-1].sum(axis=0)
    factor = counted / errors[:, :-1].sum(axis=0)
    return {"propagation": float(np.max(used)), "factor": float(factor.max() / (1 + 3 / H))}


# ---- what is found -------------------------------------------------------------------------------


def _scope(lab: Lab) -> dict[str, Any]:
    return {"length": f"K = {_episodes(lab):,}", "problems": NAME, "proved": True}


def _most(found: Mapping[str, Shares], name: str, labels: Mapping[str, str] = PROVED) -> float:
    return max(float(found[label][name].max()) for label in labels.values())


def _in_most_runs(
    found: Mapping[str, Shares], name: str, bonus: str, rule: str, *, any_scale: bool = False
) -> Check:
    """The rule that at most a share p of the runs uses more than the whole bound."""
    used, p = found[PROVED[bonus]][name], LEARNERS[PROVED[bonus]].p
    kept = bool((found[PRACTICAL[bonus]][name] <= 1).all())
    return Check(
        f"{rule}, in all but a share p = {p} of the runs",
        f"broken in {(used > 1).sum()} of {len(used)} runs; at most {used.max():.3f} of it used",
        bool((used > 1).mean() <= p),
        always=True,
        consistency=kept and not any_scale,
    )


def _definition_finding(lab: Lab, found: Mapping[str, Shares]) -> Finding:
    every = PROVED | {f"practical {bonus}": label for bonus, label in PRACTICAL.items()}
    least, most = (_most(found, name, every) for name in ("deployments", "switches"))
    return Finding(
        **_scope(lab),
        says=r"switching costs: $N_{gl} \le N_{sw} \le H (K - 1)$",
        scale="c = 1 and 0.05",
        found=(
            rf"$N_{{gl}}$ is at most {least:.2f} of $N_{{sw}}$, $N_{{sw}}$ at most {most:.3f} of"
            " $H (K - 1)$"
        ),
        checks=[
            Check.at_most(rule, value, 1, "{:.3f} of it", always=True, consistency=True)
            for rule, value in (
                (r"$N_{gl} \le N_{sw}$, in every run", least),
                (r"$N_{sw} \le H (K - 1)$, in every run", most),
            )
        ],
    )


def _scale(bonus: str) -> str:
    return PROVED[bonus].partition(", ")[2]


def _accuracy_finding(lab: Lab, found: Mapping[str, Shares], bonus: str) -> Finding:
    used, small = (found[labels[bonus]]["accurate"].max() for labels in (PROVED, PRACTICAL))
    return Finding(
        **_scope(lab),
        says=rf"accuracy with {_word(bonus)}: $\tilde{{Q}} - Q^* \le$ next errors $+ \beta_t$",
        scale=_scale(bonus),
        constants_known=bonus == "H",
        found=rf"at most {used:.3f} of $\beta_t$ is used; at c = 0.05, {small:.3f} of it",
        checks=[
            _in_most_runs(
                found,
                "accurate",
                bonus,
                r"$\tilde{Q} - Q^* \le \alpha_t^0 H + \sum_i \alpha_t^i (\tilde{V} - V^*) +"
                r" \beta_t$ at every visit",
            ),
            Check.at_most(
                r"the sum for $\tilde{Q} - Q^*$, without the printed $r_h(x, a)$, is exact",
                float(found[PROVED[bonus]]["identity"].max()),
                ROUNDING,
                "off by at most {:.1g}",
                always=True,
                consistency=True,
            ),
        ],
    )


def _word(bonus: str) -> str:
    return {"H": "Hoeffding", "B": "Bernstein"}[bonus]


def _perturbation_finding(lab: Lab, found: Mapping[str, Shares], bonus: str) -> Finding:
    used = found[PROVED[bonus]]
    checks = [
        Check.at_most(
            r"$[\tilde{Q}^k - \tilde{Q}^{k'}]_+ \le \beta_t + \sum_i \alpha_t^i \tilde{\phi}_{h+1}"
            r" + \bar{\zeta}$ over the visits i since the last trigger",
            float(used["perturbation"].max()),
            1,
            "at most {:.3f} of beta_t used",
            always=True,
            consistency=True,  # it follows from optimism
        )
    ]
    if bonus == "H":
        rule = r"$\bar{\zeta} \le \sqrt{H^3 \iota / t}$ at every visit"
        checks.append(_in_most_runs(found, "noise", bonus, rule, any_scale=True))
    return Finding(
        **_scope(lab),
        says=(
            rf"perturbation with {_word(bonus)}: $[\tilde{{Q}}^k - \tilde{{Q}}^{{k'}}]_+$ is"
            " bounded"
        ),
        scale=_scale(bonus),
        found=(
            rf"the rise is at most {used['rise'].max():.3f} of $\beta_t$; without errors and"
            f" noise, {used['perturbation'].max():.3f}"
        ),
        checks=checks,
    )


def _variance_findings(lab: Lab, found: Mapping[str, Shares]) -> list[Finding]:
    """The two halves of the lemma of appendix B, whose constant the paper does not give."""
    halves = {
        "variance": (
            r"variance: the sum of $V_h V_{h+1}^\pi$ is at most $c (H T + H^3 \iota)$",
            r"the sum over all steps is at most $H T + H^3 \iota$",
        ),
        "estimate": (
            r"$W_t$ is at most the variance of $V^\pi$ and errors that vanish",
            r"$W_t \le V_h V_{h+1}^\pi + 2 H (\tilde{\delta}_{h+1} + \xi_{h+1}) +"
            r" S A \sqrt{H^7 \iota} / t + \sqrt{S A H^7 \iota / t}$ at every visit",
        ),
    }
    return [
        Finding(
            **_scope(lab),
            says=says,
            scale=_scale("B"),
            constants_known=False,
            found=(
                f"a constant of {found[PROVED['B']][name].max():.4f} is enough; at c = 0.05,"
                f" {found[PRACTICAL['B']][name].max():.4f}"
            ),
            checks=[
                Check.at_most(
                    f"{rule}: c = 1 is enough",
                    float(found[PROVED["B"]][name].max()),
                    1,
                    "{:.4f} of it",
                )
            ],
        )
        for name, (says, rule) in halves.items()
    ]


def _propagation_finding(lab: Lab, found: Mapping[str, Shares]) -> Finding:
    used, factor = (_most(found, name) for name in ("propagation", "factor"))
    rule = (
        r"$\sum_k \tilde{\delta}_h \le (1 + 3 / H) \sum_k \tilde{\delta}_{h+1} + S A H + \sum_k"
        r" (\beta_s + \beta_t + \bar{\zeta} + \xi_{h+1})$ at every h, with s the last trigger"
    )
    weights = r"errors of step h + 1 are counted at most $1 + 3 / H$ times"
    return Finding(
        **_scope(lab),
        says=r"propagation: $\sum_k \tilde{\delta}_h \le (1 + 3 / H) \sum_k \tilde{\delta}_{h+1}$ +"
        " bounded terms",
        scale=f"{_scale('H')}; {_scale('B')}",
        found=(
            f"at most {used:.2f} of the bounded terms is used; the factor is at most"
            f" {factor:.2f} of 1 + 3/H"
        ),
        checks=[
            Check.at_most(text, value, 1, words, always=True, consistency=True)
            for text, value, words in (
                (rule, used, "{:.2f} of the bounded terms"),
                (weights, factor, "{:.2f} of it"),
            )
        ],
    )


# ---- the schedule --------------------------------------------------------------------------------


def schedule_ratios(H: int, limit: int) -> dict[str, float]:
    """How close the schedule of Theorem 2 comes to what the proof says of it: at most 1 each.

    s is the last trigger up to t. beta_t is that of Hoeffding's bonus.
    """
    schedule = UCB2()
    eta = schedule.eta_value(H)
    triggers = schedule.triggers(horizon=H, limit=limit)
    marks = np.array([*range(1, triggers.every_until + 1), *triggers.later])
    t = np.arange(1, limit + 1)
    last = marks[np.searchsorted(marks, t, side="right") - 1]
    beta = _unit_widths(H, limit)
    root = np.sqrt(t) * beta
    return {
        "last": float((t / ((1 + eta) * last)).max()),
        "width": float((beta[last - 1] / (math.sqrt(1 + eta) * beta)).max()),
        "below": float((2 / root).max()),
        "above": float((root / 4).max()),
    }


def _unit_widths(H: int, limit: int) -> np.ndarray:  # [limit]
    """beta_t = 2 sum_i alpha_t^i / sqrt(i), in units of c sqrt(H^3 iota)."""
    widths = np.zeros(limit)
    width = 0.0
    for t in range(1, limit + 1):
        alpha = (H + 1) / (H + t)
        width = (1 - alpha) * width + 2 * alpha / math.sqrt(t)
        widths[t - 1] = width
    return widths


def stage_one_ratio(H: int) -> float:
    """r* / (8 H^2 log(10 H^2)), which the paper says is at most 1."""
    return UCB2().stage_one_exponent(H) / (8 * H**2 * math.log(10 * H**2))


def _schedule_finding() -> Finding:
    ratios = [schedule_ratios(H, LIMIT) for H in HORIZONS]
    worst = {name: max(ratio[name] for ratio in ratios) for name in ratios[0]}
    stage_one = max(stage_one_ratio(H) for H in range(1, 1001))
    rules = (
        (r"$\tau_{last}(t) \ge t / (1 + \eta)$", worst["last"]),
        (r"$\beta_s \le \sqrt{1 + \eta} \beta_t$ for the last trigger s up to t", worst["width"]),
        (r"$2 c \sqrt{H^3 \iota / t} \le \beta_t$, where the paper leaves out c", worst["below"]),
        (r"$\beta_t \le 4 c \sqrt{H^3 \iota / t}$", worst["above"]),
        (r"$r^* \le 8 H^2 \log(10 H^2)$ for H = 1 to 1,000", stage_one),
    )
    return Finding(
        says=r"schedule: $\tau_{last}(t) \ge t / (1 + \eta)$, $\beta$ there, and $r^*$",
        scale="any c",
        length=f"t up to {LIMIT:,}",
        problems=f"H = {', '.join(map(str, HORIZONS))}",
        proved=True,
        found=(
            rf"$t / \tau_{{last}}(t)$ is at most {worst['last']:.4f} of $1 + \eta$, $r^*$ at most"
            f" {stage_one:.2f} of its bound"
        ),
        checks=[
            Check.at_most(rule, ratio, 1 + ROUNDING, "{:.4f} of it", always=True)
            for rule, ratio in rules
        ],
    )


def _table(found: Mapping[str, Shares]) -> PageTable:
    columns = {
        "accurate": "accuracy, of beta_t",
        "rise": "rise, of beta_t",
        "noise": "noise, of sqrt(H^3 iota / t)",
        "variance": "constant of the variance",
        "estimate": "constant of W_t",
        "propagation": "propagation, of its bound",
        "factor": "factor, of 1 + 3/H",
    }
    rows = [
        {"learner": label} | {words: f"{used[name].max():.4f}" for name, words in columns.items()}
        for label, used in found.items()
    ]
    return PageTable.of("The largest share of each bound that a run used", rows)
