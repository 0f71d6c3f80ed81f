"""The evidence of a proposal: what is known of what a row plays now, and of what it would play.

The estimate of an action is its value in the empirical model of all steps that were learned, if the
row plays it and all later steps play what is deployed. Steps are used one by one, whichever version
played them. The width is Hoeffding's at 95 %, (H - h) sqrt(log(2 / 0.05) / (2 n)), for the sampling
at this row; the values of later steps are taken as they are estimated.

The verdict on a row is IMPROVE or EXPLORE, by a rule whose version the proposal records.

Rule 2: a row is IMPROVE if each of its proposed actions was tried there, at this step in this
state, and if the learner's posterior says with a probability of 95 % or more that the deployed
policy gets better when this row alone changes (`learners/posterior.py`). A proposal has many rows,
so the probability that is asked for grows with their number (`improved`). A learner without a
posterior never says IMPROVE.

Rule 1: a row is IMPROVE if the lower end of what is proposed is above the estimate of what it plays
now. This rule ignores how uncertain that estimate is, and takes the trials of one action of a
mixture for trials of all. Proposals that record no rule were made by it, and are replayed by it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from lowswitch.ledger.tally import Model, Tally
from lowswitch.review.proposals import Proposal, ProposedRow

LEVEL = 0.05
IMPROVE, EXPLORE = "IMPROVE", "EXPLORE"
BY_INTERVAL, BY_MODEL = 1, 2  # versions of the rule
Row = tuple[int, int]  # step and state


def width(n: int, span: float) -> float:
    """The half of Hoeffding's interval for the mean of n numbers in [0, span]; at most span.

    Hoeffding 1963, Theorem 2.
    """
    return span if n == 0 else min(span, span * math.sqrt(math.log(2 / LEVEL) / (2 * n)))


def action_values(model: Model, policies: np.ndarray) -> np.ndarray:  # [H, S, A]
    """The value of each action if later steps play the policies [L, H, S] in equal shares.

    What was never seen is worth half of what it could be at most.
    """
    H, S, A = model.visits.shape
    L, values, best = len(policies), np.zeros((H + 1, S)), np.zeros((H, S, A))
    steps = model.cells // (S * A)
    for h in range(H - 1, -1, -1):
        total = model.rewards[h].reshape(-1).copy()
        here = steps == h
        cells = model.cells[here] - h * S * A
        np.add.at(total, cells, model.counts[here] * values[h + 1][model.successors[here]])
        n = model.visits[h].reshape(-1)
        best[h] = np.where(n > 0, total / np.maximum(n, 1), (H - h) / 2).reshape(S, A)
        for m in range(L):
            values[h] += best[h][np.arange(S), policies[m, h]] / L
    return best


def verdict(now: float, proposed: float, n: int, span: float) -> str:
    """Whether the lower end of what is proposed is above the estimate of what is played now."""
    return IMPROVE if proposed - width(n, span) > now else EXPLORE


def improved(chances: Mapping[Row, float], models: int) -> set[Row]:
    """The rows that are IMPROVE, of those whose actions were tried, by their probabilities.

    Benjamini and Hochberg 1995: of m rows the k most probable ones, for the largest k for which the
    k-th has a probability of at least 1 - 0.05 k / m. A probability comes from some models, so it
    counts as if one more model had said otherwise.
    """
    ordered = sorted(chances.values(), reverse=True)
    m, share = len(ordered), models / (models + 1)
    passed = [k for k, p in enumerate(ordered, 1) if share * p >= 1 - LEVEL * k / m]
    if not passed:
        return set()
    least = ordered[passed[-1] - 1]
    return {row for row, p in chances.items() if p >= least}


class Evidence:
    """The evidence for the rows of one proposal."""

    def __init__(self, tally: Tally, policies: np.ndarray, learned: int) -> None:
        self.tally, self.policies, self.learned = tally, policies, learned
        self.everything = self._known(())
        self.sites = [site for site in sorted(tally.visits) if len(tally.visits) > 1]
        self.without = {site: self._known((site,)) for site in self.sites}

    def _known(self, without: tuple[str, ...]) -> tuple[Model, np.ndarray]:
        model = self.tally.model(without)
        return model, action_values(model, self.policies)

    def row(
        self, row: ProposedRow, unsettled: Counter[int], versions: list[np.ndarray]
    ) -> dict[str, Any]:
        """What a reviewer should know of a row, but for the verdict.

        unsettled: how many tickets of each version are open or missing; each of them may have
        visited the row once, with any outcome, and so bounds what is known.
        """
        now, proposed = (
            self._side(row, law, unsettled, versions) for law in (row.law_now, row.law_proposed)
        )
        reached = int(self.everything[0].visits[row.step, row.state].sum())
        return {
            "step": row.step,
            "state": row.state,
            "now": now,
            "proposed": proposed,
            "never_tried": proposed["visits"] == 0,
            "reach": _rounded(reached / max(1, self.learned)),
        }

    def _side(
        self,
        row: ProposedRow,
        law: dict[int, float],
        unsettled: Counter[int],
        versions: list[np.ndarray],
    ) -> dict[str, Any]:
        """What is known of the actions that a row plays in these shares."""
        (model, values), span = self.everything, self._span(row)
        n = sum(int(model.visits[row.step, row.state, a]) for a in law)
        estimate = _mean(law, values[row.step, row.state])
        more = sum(
            count
            for version, count in unsettled.items()
            if set(versions[version - 1][:, row.step, row.state].tolist()) & law.keys()
        )
        bounds = [estimate, estimate]
        if more:
            bounds = [n * estimate / (n + more), (n * estimate + more * span) / (n + more)]
        return {
            "law": {str(action): _rounded(share) for action, share in law.items()},
            "visits": n,
            "estimate": _rounded(estimate),
            "width": _rounded(width(n, span)),
            "unsettled": more,
            "bounds": [_rounded(bound) for bound in bounds],
        }

    def _span(self, row: ProposedRow) -> float:
        """What the steps from a row on can be worth at most."""
        return float(self.policies.shape[1] - row.step)

    # ---- rule 2 ----------------------------------------------------------------------------------

    def untried(self, row: ProposedRow) -> list[int]:
        """The proposed actions that were never tried in a row."""
        return _untried(row, self.everything[0])

    def by_model(
        self,
        row: ProposedRow,
        facts: dict[str, Any],
        probability: float | None,
        *,
        improves: bool,
    ) -> dict[str, Any]:
        """The verdict on a row, of which `row` gave the facts.

        probability: that the row alone makes the policy better; None if an action was never tried
        there, or if the learner has no posterior. improves: whether it is among the `improved`.

        IMPROVE hangs on a site if without its reports an action was never tried, or what is
        proposed is not estimated to be better any more. It hangs on open and missing reports if the
        worst that these can say takes its lead away. The posterior without them is not computed.
        """
        now, new = facts["now"], facts["proposed"]
        lead_at_worst = new["bounds"][0] - now["bounds"][1]
        sites = [site for site in self.sites if improves and self._hangs_on(row, site)]
        return {
            "verdict": IMPROVE if improves else EXPLORE,
            "probability": probability,
            "untried": self.untried(row),
            "hangs_on_sites": sites,
            "hangs_on_unsettled": improves
            and now["unsettled"] + new["unsettled"] > 0
            and lead_at_worst <= 0,
        }

    def _hangs_on(self, row: ProposedRow, site: str) -> bool:
        model, values = self.without[site]
        if _untried(row, model):
            return True
        return _lead(row, self.everything[1]) > 0 >= _lead(row, values)

    # ---- rule 1 ----------------------------------------------------------------------------------

    def by_interval(self, row: ProposedRow, facts: dict[str, Any]) -> dict[str, Any]:
        """The verdict on a row by the older rule, of which `row` gave the facts."""
        now, new, span = facts["now"], facts["proposed"], self._span(row)
        found = verdict(now["estimate"], new["estimate"], new["visits"], span)
        worst = verdict(now["bounds"][1], new["bounds"][0], new["visits"], span)
        best = verdict(now["bounds"][0], new["bounds"][1], new["visits"], span)
        hangs_on = [
            site
            for site, (other, others) in self.without.items()
            if self._verdict(row, other, others, span) != found
        ]
        return {
            "verdict": found,
            "hangs_on_sites": hangs_on,
            "hangs_on_unsettled": worst != best,
        }

    def _verdict(self, row: ProposedRow, model: Model, values: np.ndarray, span: float) -> str:
        now, new = (
            _mean(law, values[row.step, row.state]) for law in (row.law_now, row.law_proposed)
        )
        n = sum(int(model.visits[row.step, row.state, a]) for a in row.law_proposed)
        return verdict(now, new, n, span)


def what_is_left(last: dict[str, Any] | None, made: Proposal) -> dict[str, Any] | None:
    """The evidence of a proposal that is what a decision left of the last one, which it keeps.

    None if it is another one, or if the last one does not say how many reports it is of.
    """
    if last is None or "learned" not in last or last["told"] != made.told:
        return None
    rows = {(row["step"], row["state"]): row for row in last["rows"]}
    kept = [rows.get(row.row) for row in made.rows]
    for row, old in zip(made.rows, kept, strict=True):
        if old is None or (old["from"], old["to"]) != (list(row.now), list(row.proposed)):
            return None
    if made.number != last["raised"] + 1 or len(kept) == len(rows):
        return None
    names = ("through", "open", "unsettled", "learned", "rule")
    return {name: last[name] for name in names if name in last} | {"rows": kept}


def _untried(row: ProposedRow, model: Model) -> list[int]:
    """The proposed actions of a row of which a model has no visit there."""
    return [a for a in row.law_proposed if model.visits[row.step, row.state, a] == 0]


def _lead(row: ProposedRow, values: np.ndarray) -> float:
    """How much better what is proposed is than what is played now, by values [H, S, A]."""
    here = values[row.step, row.state]
    return _mean(row.law_proposed, here) - _mean(row.law_now, here)


def _mean(law: dict[int, float], values: np.ndarray) -> float:
    return float(sum(share * values[action] for action, share in law.items()))


def _rounded(value: float) -> float:
    """Nine digits, which the order of a sum does not reach."""
    return round(float(value), 9)
