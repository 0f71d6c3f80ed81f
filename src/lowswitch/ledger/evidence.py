"""The evidence of a proposal: what is known of what a row plays now, and of what it would play.

The estimate of an action is its value in the empirical model of all steps that were learned, if the
row plays it and all later steps play what is deployed. Steps are used one by one, whichever version
played them. The width is Hoeffding's at 95 %, (H - h) sqrt(log(2 / 0.05) / (2 n)), for the sampling
at this row; the values of later steps are taken as they are estimated. A row is IMPROVE if the
lower end of what is proposed is above the estimate of what it plays now, and else it is EXPLORE.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from lowswitch.ledger.tally import Model, Tally
from lowswitch.review.proposals import Proposal, ProposedRow

LEVEL = 0.05
IMPROVE, EXPLORE = "IMPROVE", "EXPLORE"


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
    """Whether what is proposed is already known to be better."""
    return IMPROVE if proposed - width(n, span) > now else EXPLORE


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
        """What a reviewer should know of a row.

        unsettled: how many tickets of each version are open or missing; each of them may have
        visited the row once, with any outcome, and so bounds what is known.
        """
        H = self.policies.shape[1]
        span = float(H - row.step)
        model, _ = self.everything
        now, proposed = (
            self._side(row, law, unsettled, versions, span)
            for law in (row.law_now, row.law_proposed)
        )
        found = verdict(now["estimate"], proposed["estimate"], proposed["visits"], span)
        worst = verdict(now["bounds"][1], proposed["bounds"][0], proposed["visits"], span)
        best = verdict(now["bounds"][0], proposed["bounds"][1], proposed["visits"], span)
        hangs_on = [
            site
            for site, (other, others) in self.without.items()
            if self._verdict(row, other, others, span) != found
        ]
        reached = int(model.visits[row.step, row.state].sum())
        return {
            "step": row.step,
            "state": row.state,
            "now": now,
            "proposed": proposed,
            "verdict": found,
            "never_tried": proposed["visits"] == 0,
            "reach": _rounded(reached / max(1, self.learned)),
            "hangs_on_sites": hangs_on,
            "hangs_on_unsettled": worst != best,
        }

    def _verdict(self, row: ProposedRow, model: Model, values: np.ndarray, span: float) -> str:
        now, new = (
            _mean(law, values[row.step, row.state]) for law in (row.law_now, row.law_proposed)
        )
        n = sum(int(model.visits[row.step, row.state, a]) for a in row.law_proposed)
        return verdict(now, new, n, span)

    def _side(
        self,
        row: ProposedRow,
        law: dict[int, float],
        unsettled: Counter[int],
        versions: list[np.ndarray],
        span: float,
    ) -> dict[str, Any]:
        """What is known of the actions that a row plays in these shares."""
        model, values = self.everything
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
    return {name: last[name] for name in ("through", "open", "unsettled", "learned")} | {
        "rows": kept
    }


def _mean(law: dict[int, float], values: np.ndarray) -> float:
    return float(sum(share * values[action] for action, share in law.items()))


def _rounded(value: float) -> float:
    """Nine digits, which the order of a sum does not reach."""
    return round(float(value), 9)
