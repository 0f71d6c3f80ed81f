"""The proposals of a run with features: a policy, and its changes in recent contexts.

A policy on features has no rows. If it has a protocol and a trial, either one may be approved
alone. The record contains the full policy. For each step it states how often the deployed and the
proposed policy play each action in the newest contexts, what the learner expects of both, and how
often each action was learned from. The learner made the policy from these estimates, so they
flatter it.

Rule 2 judges a run of one step by the cases themselves: the worth of the whole policy, of kinds of
cases, and of single cases (`feature_evidence`). Rule 1 uses the estimates alone and never says
IMPROVE. It applies to runs with several steps and to ledgers that keep no cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch.learners.ridge_posterior import RidgePosterior
from lowswitch.learners.trials import limited_policy
from lowswitch.ledger.cases import CaseTally
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.feature_evidence import judged_cases
from lowswitch.policy.linear import LinearPolicy
from lowswitch.review.proposals import WHOLE, LinearProposal

if TYPE_CHECKING:
    from lowswitch.ledger.feature_terms import FeatureTerms
    from lowswitch.ledger.state import State
    from lowswitch.ledger.terms import Known

BY_ESTIMATES, BY_CASES, BY_TRIAL = 1, 2, 3  # versions of the rule


class FeatureProposals:
    """See `terms.Proposals`."""

    def __init__(self, terms: FeatureTerms) -> None:
        self.terms = terms
        self.rules: tuple[int, ...] = (BY_ESTIMATES,)
        if terms.keeps_cases:
            self.rules = (BY_ESTIMATES, BY_CASES, BY_TRIAL)

    def judged(self, state: State, made: LinearProposal, known: Known, rule: int) -> dict[str, Any]:
        believed: RidgePosterior = state.lessons.posterior_of(made)
        visits = known.tally.model().visits[:, 0]  # [H, A]
        sides = state.learner.deployed, made.policy
        step, whole = WHOLE
        rows = [
            {
                "step": step,
                "state": whole,
                "policy": made.policy.to_dict(),
                "identity": made.policy.identity,
                "changed": made.changed,
                "last": made.last,
                "new_actions": [list(pair) for pair in made.new_actions],
                "steps": [
                    _evidence(h, believed, sides, visits[h]) for h in range(self.terms.horizon)
                ],
                "before": list(state.decisions.get(WHOLE, [])),  # which goes on growing
            }
        ]
        rows[0] |= {"drift": made.drift} if made.drift else {}
        if rule == BY_ESTIMATES:
            return {"rows": rows}
        still_open = sum(state.open_reports().values())
        settled = sum(n for n in state.unsettled.values() if n > 0)
        key = f"{made.hash} {rule}"
        found = state.lessons.once(key, lambda: self._by_cases(state, made, known, rule))
        top = {name: found[name] for name in ("worth", "models", "expected_false")}
        rows[0] |= {name: fact for name, fact in found.items() if name not in top}
        return top | {"unsettled": still_open, "missing": settled - still_open, "rows": rows}

    def _by_cases(
        self, state: State, made: LinearProposal, known: Known, rule: int
    ) -> dict[str, Any]:
        assert isinstance(known.tally, CaseTally)
        policies = state.learner.deployed, made.policy, state.versions[0]
        return judged_cases(
            known.tally.cases,
            policies,
            self.terms.thresholds,
            seed=self.terms.seed,
            told=made.told,
            by_trial=rule >= BY_TRIAL,
        )

    def in_units(self, worth: dict[str, Any] | None) -> dict[str, Any] | None:
        return worth

    def left(self, last: dict[str, Any] | None, made: LinearProposal) -> None:
        """A decision on a policy leaves nothing of it."""

    def read(self, payload: dict[str, Any]) -> LinearProposal:
        (row,) = payload["rows"]
        names = ("changed", "last", "new_actions", "drift")
        facts = {name: row[name] for name in names if name in row}
        facts |= {"number": payload["raised"], "told": payload["told"], "base": payload["base"]}
        return LinearProposal.from_facts(facts, LinearPolicy.from_dict(row["policy"]))

    # ---- decisions -------------------------------------------------------------------------------

    def keys(self, rows: list[list[int]]) -> None:
        """A learner with features takes no rows."""
        if rows != [list(WHOLE)]:
            raise ValueError(f"a policy on features has no rows {rows}")

    def chosen(self, pending: dict[str, Any], rows: Sequence[Any] | None) -> list[list[int]]:
        if rows is not None:
            raise LedgerError("a policy on features is decided on as a whole; leave rows out")
        return [list(WHOLE)]

    def require_rejection(
        self,
        pending: dict[str, Any],
        rows: list[list[int]],
        forever: bool,
        visits: Any,
        actions: list[int] | None,
    ) -> None:
        if visits is not None:
            raise LedgerError(
                f"visits={visits!r} says how long a row of a table is held, and a policy on"
                " features has no rows; leave visits out"
            )
        if forever and actions is None and not pending["rows"][0]["new_actions"]:
            raise LedgerError(
                "the proposal plays the same actions as the deployed policy in other contexts, so"
                " there is no new action to forbid; name the actions, or reject it for now"
            )

    # ---- vetoes ----------------------------------------------------------------------------------

    def veto(self, rows: Sequence[tuple[Any, Any]] | None, actions: list[int]) -> dict[str, Any]:
        if rows:
            raise LedgerError("a policy on features has no rows; forbid actions everywhere")
        return {"rows": [list(WHOLE)], "actions": actions}

    def require_vetoable(self, state: State, payload: dict[str, Any]) -> None:
        if payload.get("instead") is not None:
            raise LedgerError(
                "a policy on features plays its next best action instead; leave instead out"
            )
        deployed: LinearPolicy = state.versions[-1]
        for what, mask in (
            ("the run", state.learner.actions_allowed),
            *(("the deployed policy", one) for one in deployed.masks),
        ):
            left = np.delete(mask, payload["actions"], axis=1)
            if not left.any(axis=1).all():
                raise LedgerError(
                    f"{what} would have no action left; leave it at least one, or deploy another"
                    " policy first"
                )

    def allowed_in(self, allowed: np.ndarray, row: list[int]) -> np.ndarray:  # [A]
        return np.asarray(allowed.all(axis=0))

    def row_name(self, row: list[int]) -> str:
        return "the run"

    def plays(self, policy: LinearPolicy, payload: dict[str, Any]) -> bool:
        return bool(policy.allowed[:, payload["actions"]].any())

    def others(
        self, state: State, changes: Sequence[tuple[int, int, int]]
    ) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        return [], None  # there are no rows

    def replaced(self, policy: LinearPolicy, payload: dict[str, Any]) -> list[Any]:
        return [self.plays(policy, payload)]

    def effect(self, state: State, kind: str, decision: dict[str, Any]) -> dict[str, Any]:
        """The changes that a decision would make, by kinds of cases, in the form of a proposal's
        row.

        It is judged by the cases learned so far. `identity` names the policy that the decision
        deploys. If the ledger keeps no cases, that is the only entry.
        """
        after, found = self._after(state, kind, decision), dict[str, Any]()
        if isinstance(state.tally, CaseTally):
            policies = state.versions[-1], after, state.versions[0]
            found = judged_cases(
                state.tally.cases,
                policies,
                self.terms.thresholds,
                seed=self.terms.seed,
                told=state.learner.told,
            )
        return self._named(found) | {"identity": after.identity}

    def _after(self, state: State, kind: str, decision: dict[str, Any]) -> LinearPolicy:
        """The policy that a decision deploys, by the kind of its event."""
        now: LinearPolicy = state.versions[-1]
        if kind == "vetoed":
            return now.without(decision["actions"])
        if kind == "rolled_back":
            earlier: LinearPolicy = state.versions[decision["to"] - 1]
            return earlier
        if kind == "capped":
            return limited_policy(now, now, None, decision["share"])
        made = state.learner.proposal()
        new: LinearPolicy = now if made is None else made.policy
        if new.protocol is None:
            return new
        return limited_policy(now, new, decision.get("part"), decision.get("share"))

    # ---- reading ---------------------------------------------------------------------------------

    def labelled(self, row: dict[str, Any]) -> dict[str, Any]:
        """The recorded row without the policy, which `identity` names and the event contains."""
        steps, actions = self.terms.labels["step"], self.terms.labels["action"]
        found = {name: fact for name, fact in row.items() if name != "policy"} | {
            "new_actions": [[steps[h], actions[a]] for h, a in row["new_actions"]],
            "steps": [
                one
                | {
                    "step_label": steps[one["step"]],
                    "visits": dict(zip(actions, one["visits"], strict=True)),
                    "now": one["now"] | {"law": self._law(one["now"]["law"])},
                    "proposed": one["proposed"] | {"law": self._law(one["proposed"]["law"])},
                }
                for one in row["steps"]
            ],
        }
        return self._named(found)

    def _named(self, found: dict[str, Any]) -> dict[str, Any]:
        """The findings of `judged_cases` with labels."""
        named = dict[str, Any]()
        if "trial" in found:
            named["trial"] = found["trial"] | {"law": self._law(found["trial"]["law"])}
        if "regions" in found:
            named["regions"] = [self.region(one) for one in found["regions"]]
            named["affected"] = [self._case(one) for one in found["affected"]]
        return found | named

    def _law(self, law: dict[str, float]) -> dict[str, float]:
        return {self.terms.labels["action"][int(a)]: share for a, share in law.items()}

    def region(self, one: dict[str, Any]) -> dict[str, Any]:
        """A recorded kind of cases with labels."""
        actions = self.terms.labels["action"]
        return (
            one
            | {
                "where": self.terms.where(one["where"]),
                "usual": None if one["usual"] is None else [actions[a] for a in one["usual"]],
                "now": self._law(one["now"]),
                "proposed": self._law(one["proposed"]),
                "tries": dict(zip(actions, one["tries"], strict=True)),
                "untried": [actions[a] for a in one["untried"]],
            }
            | ({"alternatives": self._law(one["alternatives"])} if "alternatives" in one else {})
        )

    def _case(self, one: dict[str, Any]) -> dict[str, Any]:
        return one | {
            "context": self.terms.described(one["context"]),
            "played": self.terms.labels["action"][one["played"]],
            "now": self._law(one["now"]),
            "proposed": self._law(one["proposed"]),
        }


def _evidence(
    step: int,
    believed: RidgePosterior,
    policies: tuple[LinearPolicy, LinearPolicy],
    visits: np.ndarray,
) -> dict[str, Any]:
    """The actions of a step now and as proposed, in the newest contexts; visits: of each action
    [A].
    """
    contexts, means = believed.contexts[step], believed.means(step)  # [n, R, d] and [n, A]
    now, new = (policy.propensities(contexts, step) for policy in policies)  # [n, A]
    changed = 0.5 * np.abs(now - new).sum(axis=1)
    return {
        "step": step,
        "contexts": len(contexts),
        "changed": _mean(changed),
        "visits": visits.tolist(),
        "now": _side(now, means),
        "proposed": _side(new, means),
    }


def _side(shares: np.ndarray, means: np.ndarray) -> dict[str, Any]:
    """How often each action is played, and its expected reward, by contexts [n, A]."""
    law = {str(a): _mean(shares[:, a]) for a in range(shares.shape[1]) if shares[:, a].any()}
    return {"law": law, "estimate": _mean((shares * means).sum(axis=1))}


def _mean(values: np.ndarray) -> float | None:
    """The mean in nine digits, whatever the order of the sum; None without contexts."""
    return round(float(values.mean()), 9) if len(values) else None
