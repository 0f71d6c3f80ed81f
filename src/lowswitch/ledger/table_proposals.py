"""The proposals of a run with states: rows of a table, each with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lowswitch.checks import require_count
from lowswitch.learners.posterior import models_for
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.evidence import BY_INTERVAL, BY_MODEL, Evidence, improved, what_is_left
from lowswitch.review.proposals import Proposal, ProposedRow

if TYPE_CHECKING:
    from lowswitch.ledger.state import State
    from lowswitch.ledger.table_terms import TableTerms
    from lowswitch.ledger.terms import Known


class TableProposals:
    """See `terms.Proposals`."""

    rules: tuple[int, ...] = (BY_INTERVAL, BY_MODEL)

    def __init__(self, terms: TableTerms) -> None:
        self.terms = terms

    def rows(self, state: State, made: Proposal, known: Known, rule: int) -> list[dict[str, Any]]:
        mixture = state.learner.deployed.actions
        evidence = Evidence(known.tally, mixture, known.learned)
        versions = [version.actions for version in state.versions]
        facts = [
            evidence.row(row, known.unsettled, versions)
            | {
                "from": list(row.now),
                "to": list(row.proposed),
                "before": list(state.decisions.get(row.row, [])),  # which goes on growing
            }
            for row in made.rows
        ]
        rows = list(zip(made.rows, facts, strict=True))
        if rule == BY_INTERVAL:
            return [facts | evidence.by_interval(row, facts) for row, facts in rows]
        tried = [row for row in made.rows if not evidence.untried(row)]
        chances = state.lessons.probabilities(made, tried)
        better = improved(chances, models_for(mixture, len(tried)))
        return [
            facts | evidence.by_model(row, facts, chances.get(row.row), improves=row.row in better)
            for row, facts in rows
        ]

    def left(self, last: dict[str, Any] | None, made: Proposal) -> dict[str, Any] | None:
        return what_is_left(last, made)

    def read(self, payload: dict[str, Any]) -> Proposal:
        rows = tuple(
            ProposedRow(row["step"], row["state"], tuple(row["from"]), tuple(row["to"]))
            for row in payload["rows"]
        )
        return Proposal(payload["raised"], payload["told"], payload["base"], rows)

    # ---- decisions -------------------------------------------------------------------------------

    def keys(self, rows: list[list[int]]) -> list[tuple[int, int]]:
        return [(step, state) for step, state in rows]

    def chosen(self, pending: dict[str, Any], rows: Sequence[Any] | None) -> list[list[int]]:
        proposed = [[row["step"], row["state"]] for row in pending["rows"]]
        if rows is None:
            return proposed
        index = self.terms.index
        chosen = [[index("step", step), index("state", state)] for step, state in rows]
        for step, state in chosen:
            if [step, state] not in proposed:
                raise LedgerError(f"row {self.terms.row_name(step, state)} is not proposed")
        if not chosen:
            raise LedgerError("no row is chosen; choose those that you decide on")
        if len({tuple(row) for row in chosen}) < len(chosen):
            raise LedgerError("a row is chosen twice; name each one once")
        return chosen

    def require_rejection(
        self, pending: dict[str, Any], rows: list[list[int]], forever: bool, visits: Any
    ) -> None:
        for row in pending["rows"] if forever else []:
            if [row["step"], row["state"]] in rows and not {*row["to"]} - {*row["from"]}:
                name = self.terms.row_name(row["step"], row["state"])
                raise LedgerError(
                    f"row {name} would play the same actions in other shares, so there is no action"
                    " to forbid; reject it for now"
                )
        if visits is not None:
            require_count("visits", visits)
            if forever:
                raise LedgerError(
                    "what is rejected for ever is not held for so many visits; leave one out"
                )

    # ---- reading ---------------------------------------------------------------------------------

    def labelled(self, row: dict[str, Any]) -> dict[str, Any]:
        labels, names = self.terms.labels, self.terms.labels["action"]
        labelled = row | {
            "step_label": labels["step"][row["step"]],
            "state_label": labels["state"][row["state"]],
            "now": self._side(row, row["now"]),
            "proposed": self._side(row, row["proposed"]),
        }
        if "untried" in row:  # which an older rule did not record
            labelled["untried"] = [names[action] for action in row["untried"]]
        return labelled

    def _side(self, row: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
        """What is known of one side of a row, in the run's words and units."""
        terms, names = self.terms, self.terms.labels["action"]
        law = {names[int(action)]: share for action, share in known["law"].items()}
        low = terms.rewards[0] * (terms.horizon - row["step"])
        bounds = known["bounds"]
        if not known["visits"] + known["unsettled"]:  # it may be worth anything
            bounds = [0.0, terms.horizon - row["step"]]
        amounts = {
            "estimate": low + terms.amount(known["estimate"]),
            "width": terms.amount(known["width"]),
            "bounds": [low + terms.amount(bound) for bound in bounds],
        }
        return known | {"law": law} | amounts
