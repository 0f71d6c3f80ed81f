"""The evidence of a proposal: facts about the current and the proposed action of each row.

The estimate of an action is its value in the empirical model of all learned steps, if the row plays
it and all later steps follow the deployed policy. Steps are used one by one, whichever version
played them. The width is Hoeffding's at 95 %, (H - h) sqrt(log(2 / 0.05) / (2 n)), for the sampling
at this row; the values of later steps are taken as they are estimated.

The verdict on a row is a word, by a rule whose version the proposal records.

Rule 8: as rule 7, but where somebody chose the first policy, the actions that it does not play may
also lead to worse or better states (`learners/hypotheses.py::pulled_laws`).

Rule 7: as rule 6, but where somebody chose the first policy, the usual actions are those that it
plays, and they may be better or worse by more (`learners/hypotheses.py::reward_priors`).

Rule 6: as rule 5, but the usual action of a state, the one tried most, may be better or worse than
its other actions, because somebody may have chosen it (`learners/hypotheses.py::reward_priors`);
and before the data say so, it is less likely that actions hardly differ.

Rule 5: as rule 4, with three faults mended (`learners/hypotheses.py`). No hypothesis about the
prior is left out because there are many others (`weighed`). Rewards that vary little say more about
how far actions differ, not less (`said_by_reward`). And if few actions were tried, all untried ones
may be better or worse than expected together (`shared_doubts`).

Rule 4: as rule 3, but untried actions may all be better or worse than expected together
(`learners/hypotheses.py::shared_doubts`), so the intervals of a proposal that rests on them are
wider.

Rule 3: the learner's posterior estimates the worth of the whole proposal and of each row
(`learners/judgement.py`); `words` says what follows. A row with an action that was never tried
there is UNTRIED, whatever the posterior says. A learner without a posterior calls all others
UNSURE. Where there is a trial, a verdict is on the protocol, and a row in which only the trial
changes is TRIAL.

Rule 2: a row is IMPROVE if each of its proposed actions was tried there, at this step in this
state, and if the learner's posterior says with a probability of 95 % or more that the deployed
policy gets better when this row alone changes (`learners/posterior.py`). A proposal has many rows,
so the required probability grows with their number (`improved`). All other rows are EXPLORE. A
learner without a posterior never says IMPROVE.

Rule 1: a row is IMPROVE if the lower end of the proposed action's interval is above the estimate of
the current action. This rule ignores how uncertain that estimate is, and counts the trials of one
action of a mixture as trials of all. Proposals without a recorded rule were made by this rule and
are replayed by it.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from lowswitch.learners import hypotheses
from lowswitch.learners.judgement import RowWorth
from lowswitch.ledger.tally import Model, Tally
from lowswitch.review.proposals import Proposal, ProposedRow

LEVEL = 0.05
IMPROVE, EXPLORE = "IMPROVE", "EXPLORE"
LIKELY, UNSURE, WORSE, UNTRIED, TRIAL = "LIKELY", "UNSURE", "WORSE", "UNTRIED", "TRIAL"
BY_INTERVAL, BY_MODEL, BY_WORTH = 1, 2, hypotheses.BY_WORTH
RULES = (  # its versions
    *(BY_INTERVAL, BY_MODEL, BY_WORTH),
    *(hypotheses.BY_DOUBT, hypotheses.BY_ALL, hypotheses.BY_LIFT, hypotheses.BY_CHOICE),
    hypotheses.BY_PLACE,
)
Row = tuple[int, int]  # step and state


def width(n: int, span: float) -> float:
    """Half the width of Hoeffding's interval for the mean of n numbers in [0, span]; at most span.

    Hoeffding 1963, Theorem 2.
    """
    return span if n == 0 else min(span, span * math.sqrt(math.log(2 / LEVEL) / (2 * n)))


def action_values(model: Model, policies: np.ndarray) -> np.ndarray:  # [H, S, A]
    """The value of each action if later steps play the policies [L, H, S] in equal shares.

    Anything that was never seen is worth half of its maximum.
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
    """Whether the lower end of the proposed action is above the estimate of the current one."""
    return IMPROVE if proposed - width(n, span) > now else EXPLORE


def improved(chances: Mapping[Row, float], models: int, level: float = LEVEL) -> set[Row]:
    """The rows that are IMPROVE, among those whose actions were tried, given their probabilities.

    Benjamini and Hochberg 1995: of m rows the k most probable ones, for the largest k for which the
    k-th has a probability of at least 1 - level k / m. A probability comes from some models, so it
    counts as if one more model had said otherwise.
    """
    ordered = sorted(chances.values(), reverse=True)
    m, share = len(ordered), models / (models + 1)
    passed = [k for k, p in enumerate(ordered, 1) if share * p >= 1 - level * k / m]
    if not passed:
        return set()
    least = ordered[passed[-1] - 1]
    return {row for row, p in chances.items() if p >= least}


def words(
    worths: Collection[RowWorth], models: int, thresholds: Mapping[str, float]
) -> dict[Row, str]:
    """The words for rows whose actions were all tried, given their worth.

    IMPROVE: see `improved`. LIKELY: other rows that are better with the required probability.
    WORSE: a row that is hardly better, and without which the proposal is likely to be better; a row
    may be worse alone but needed with others. UNSURE: all others.
    """
    chances = {one.row: one.better for one in worths}
    better = improved(chances, models, thresholds["improve"])

    def word(one: RowWorth) -> str:
        if one.row in better:
            return IMPROVE
        if one.better >= thresholds["likely"]:
            return LIKELY
        helps = one.removal.better >= 1 - thresholds["worse"]
        return WORSE if one.better <= thresholds["worse"] and helps else UNSURE

    return {one.row: word(one) for one in worths}


def expected_false(rows: Collection[Mapping[str, Any]]) -> float | None:
    """The share of IMPROVE rows that the posterior expects not to be better.

    It is the mean of one minus their probabilities; None if there are no such rows.
    """
    doubts = [1 - row["probability"] for row in rows if row["verdict"] == IMPROVE]
    return _rounded(sum(doubts) / len(doubts)) if doubts else None


class Evidence:
    """The evidence for the rows of one proposal.

    protocol: whether the first policy is a protocol, which the verdicts are about.
    """

    def __init__(
        self, tally: Tally, policies: np.ndarray, learned: int, *, protocol: bool = False
    ) -> None:
        self.tally, self.policies, self.learned = tally, policies, learned
        self.protocol = protocol
        self.everything = self._known(())
        self.sites = [site for site in sorted(tally.visits) if len(tally.visits) > 1]
        self.without = {site: self._known((site,)) for site in self.sites}

    def _known(self, without: tuple[str, ...]) -> tuple[Model, np.ndarray]:
        model = self.tally.model(without)
        return model, action_values(model, self.policies)

    def row(
        self, row: ProposedRow, unsettled: Counter[int], versions: list[np.ndarray]
    ) -> dict[str, Any]:
        """The facts about a row that a reviewer needs, without the verdict.

        unsettled: how many tickets of each version are open or missing. Each of them may have
        visited the row once, with any outcome, and so limits what is known.
        """
        row = self.judged(row)
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
        """The facts about the actions that a row plays with these shares."""
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
        """The largest possible value of the steps from a row on."""
        return float(self.policies.shape[1] - row.step)

    def judged(self, row: ProposedRow) -> ProposedRow:
        """The part of a row that the verdict is about: its protocol alone, if there is one."""
        if not self.protocol:
            return row
        return dataclasses.replace(row, now=row.now[:1], proposed=row.proposed[:1])

    # ---- rule 3 ----------------------------------------------------------------------------------

    def tries(self, row: ProposedRow) -> dict[str, dict[str, int]]:
        """How often each action that a row plays or would play was tried, here and at other steps.

        The actions of the trial are included.
        """
        visits = self.everything[0].visits[:, row.state]
        found = {}
        for action in sorted({*row.now, *row.proposed}):
            here = int(visits[row.step, action])
            found[str(action)] = {"here": here, "elsewhere": int(visits[:, action].sum()) - here}
        return found

    def by_worth(
        self, row: ProposedRow, facts: dict[str, Any], worth: RowWorth | None, word: str
    ) -> dict[str, Any]:
        """The posterior's judgement on a row, with its word and what the word depends on.

        facts: the result of `row`.
        """
        one, good = self.judged(row), word in (IMPROVE, LIKELY)
        known: dict[str, Any] = dict.fromkeys(("probability", "gain", "removal"))
        if worth is not None:
            gains = {"gain": worth.gain.facts(), "removal": worth.removal.facts()}
            known = {"probability": _rounded(worth.better)} | gains
        return known | {
            "verdict": word,
            "needed_with": [list(other) for other in worth.partners] if worth else [],
            "untried": self.untried(row),
            "tries": self.tries(row),
            "hangs_on_sites": [site for site in self.sites if good and self._hangs_on(one, site)],
            "hangs_on_unsettled": good and may_turn(facts),
        }

    # ---- rule 2 ----------------------------------------------------------------------------------

    def untried(self, row: ProposedRow) -> list[int]:
        """The proposed actions that were never tried in a row."""
        return _untried(self.judged(row), self.everything[0])

    def by_model(
        self,
        row: ProposedRow,
        facts: dict[str, Any],
        probability: float | None,
        *,
        improves: bool,
    ) -> dict[str, Any]:
        """The verdict on a row by the posterior; facts: the result of `row`.

        probability: that the row alone makes the policy better; None if an action was never tried
        there, or if the learner has no posterior. improves: whether it is among the `improved`.

        IMPROVE depends on a site if, without its reports, an action was never tried or the proposed
        action is no longer estimated to be better. It depends on open and missing reports if their
        worst outcome removes the lead. The posterior without them is not computed.
        """
        sites = [site for site in self.sites if improves and self._hangs_on(row, site)]
        return {
            "verdict": IMPROVE if improves else EXPLORE,
            "probability": probability,
            "untried": self.untried(row),
            "hangs_on_sites": sites,
            "hangs_on_unsettled": improves and may_turn(facts),
        }

    def _hangs_on(self, row: ProposedRow, site: str) -> bool:
        model, values = self.without[site]
        if _untried(row, model):
            return True
        return _lead(row, self.everything[1]) > 0 >= _lead(row, values)

    # ---- rule 1 ----------------------------------------------------------------------------------

    def by_interval(self, row: ProposedRow, facts: dict[str, Any]) -> dict[str, Any]:
        """The verdict on a row by the oldest rule; facts: the result of `row`."""
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


def may_turn(facts: Mapping[str, Any]) -> bool:
    """Whether open reports could, at worst, remove the lead of the proposed action in a row."""
    now, new = facts["now"], facts["proposed"]
    open_ones = now["unsettled"] + new["unsettled"]
    return bool(open_ones > 0 and new["bounds"][0] - now["bounds"][1] <= 0)


def what_is_left(last: dict[str, Any] | None, made: Proposal) -> dict[str, Any] | None:
    """The evidence kept by a proposal that is the remainder of the last one after a decision.

    None if it is a different proposal, or if the last one does not say how many reports it used.
    """
    if last is None or "learned" not in last or last["told"] != made.told:
        return None
    rows = {(row["step"], row["state"]): row for row in last["rows"]}
    kept = list[dict[str, Any]]()
    for row in made.rows:
        old = rows.get(row.row)
        if old is None or (old["from"], old["to"]) != (list(row.now), list(row.proposed)):
            return None
        kept.append(old)
    if made.number != last["raised"] + 1 or len(kept) == len(rows):
        return None
    names = ("through", "open", "unsettled", "missing", "learned", "rule")
    left = {name: last[name] for name in names if name in last} | {"rows": kept}
    if last.get("rule", BY_INTERVAL) >= BY_WORTH:  # its worth was computed for more rows
        left |= {"worth": None, "expected_false": expected_false(kept), "models": last["models"]}
    return left


def _untried(row: ProposedRow, model: Model) -> list[int]:
    """The proposed actions of a row that a model has never seen there."""
    return [a for a in row.law_proposed if model.visits[row.step, row.state, a] == 0]


def _lead(row: ProposedRow, values: np.ndarray) -> float:
    """How much better the proposed action is than the current one, by values [H, S, A]."""
    here = values[row.step, row.state]
    return _mean(row.law_proposed, here) - _mean(row.law_now, here)


def _mean(law: dict[int, float], values: np.ndarray) -> float:
    return float(sum(share * values[action] for action, share in law.items()))


def _rounded(value: float) -> float:
    """Nine digits, so that the order of a sum does not matter."""
    return round(float(value), 9)
