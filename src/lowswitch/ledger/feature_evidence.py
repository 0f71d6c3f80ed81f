"""The evidence of a proposal on features: the whole, kinds of cases, and single cases.

A case's *usual* action is the one that a policy plays most often there. Regions are fitted to how
usual actions change: on every second case, so that the other half can judge how well they describe
the change and what it is worth. Regions chosen and judged on the same cases would promise too much.
In each region the whole law of actions counts. The words follow the rule for tables
(`evidence.words`), with a region in place of a row. A region is UNTRIED if some action would be
played more often there although no logged case in it received that action.

Where a deployment is a protocol and a trial, regions, words and single cases are about the change
of the protocol, and the trial is described separately: who receives what in it, and what it costs.
If the protocol stays, regions are fitted to what the trial gives most often in its place; the rule
before did not, and described such a trial for all cases together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from lowswitch.kernels.streams import JUDGED, purpose_key
from lowswitch.learners.case_posterior import MODELS, CasePosterior
from lowswitch.learners.judgement import Gain, RowWorth
from lowswitch.ledger.cases import Cases
from lowswitch.ledger.evidence import UNTRIED, expected_false, words
from lowswitch.ledger.regions import Region, described, fidelity, placed, regions_of
from lowswitch.policy.linear import LinearPolicy

_STAYS = -1  # the label of cases whose usual action stays
_MORE = 0.01  # a share must grow by so much to count as new
_OFTEN = 0.25  # of a trial's members: what this share gives to a case can make it one of a kind
_MOST_CASES = 5  # that are named
_FEW = 40  # cases, fewer than which are not halved


class Laws(NamedTuple):
    """The probability of each action in each case under three policies [n, A]."""

    now: np.ndarray
    proposed: np.ndarray
    initial: np.ndarray

    @property
    def change(self) -> np.ndarray:  # [n, A]
        return np.asarray(self.proposed - self.now)

    @property
    def since(self) -> np.ndarray:  # [n, A]
        """The change since the beginning."""
        return np.asarray(self.proposed - self.initial)

    @classmethod
    def of(cls, policies: Iterable[LinearPolicy], cases: Cases) -> Laws:
        """The laws of policies in logged cases."""
        return cls(*(policy.propensities(cases.contexts) for policy in policies))


class TrialLaw(NamedTuple):
    """What the proposed trial gives to each case, and how large the trial is."""

    now: float  # the share of the cases that are in the trial
    proposed: float
    members: int  # of the policy, each with the same share of the cases
    law: np.ndarray  # [n, A]  of a case in the trial; nothing if nobody is
    instead: np.ndarray  # [n, A]  the part of it that is not what the protocol gives

    @classmethod
    def of(cls, now: LinearPolicy, new: LinearPolicy, cases: Cases) -> TrialLaw | None:
        """The trial of a policy in logged cases; None if there is no protocol."""
        if new.share is None:
            return None
        actions = np.arange(new.shape.actions)
        given = new.choices(cases.contexts)[:, new.in_trial, None] == actions  # [n, k, A]
        law = given.sum(axis=1) / max(1, given.shape[1])
        assert new.protocol is not None
        followed = new.protocol.choices(cases.contexts) == actions  # [n, A]
        instead = np.where(followed, 0.0, law)
        return cls(now.share or 0.0, new.share, new.members, law, instead)

    def labels(self) -> np.ndarray:  # [n]
        """What the trial gives most often instead of the protocol, if it does so often."""
        return np.where(self.instead.max(axis=1) >= _OFTEN, self.instead.argmax(axis=1), _STAYS)

    def facts(self) -> dict[str, Any]:
        """The recorded facts about the trial."""
        return {
            "now": self.now,
            "proposed": self.proposed,
            "members": self.members,
            "departs": _rounded(self.instead.sum(axis=1).mean()),
            "law": _law(self.law),
        }


def judged_cases(
    cases: Cases,
    policies: tuple[LinearPolicy, LinearPolicy, LinearPolicy],
    thresholds: dict[str, float],
    *,
    seed: int,
    told: int,
    by_trial: bool = True,
) -> dict[str, Any]:
    """The recorded evidence of a proposal; policies: deployed, proposed, and initial.

    There are no regions before the first case is learned. by_trial: fit them to the trial if the
    protocol stays.
    """
    known: dict[str, Any] = {"worth": None, "models": 0, "expected_false": None}
    if not len(cases.actions):
        return known
    shape = policies[0].shape
    whole = Laws.of(policies, cases)
    trial = TrialLaw.of(policies[0], policies[1], cases)
    laws = whole
    if trial is not None:
        laws = Laws.of((policy.protocol or policy for policy in policies), cases)
    usual = laws.now.argmax(axis=1), laws.proposed.argmax(axis=1)
    labels = np.where(usual[0] == usual[1], _STAYS, usual[0] * shape.actions + usual[1])
    values, (choosing, judging) = cases.contexts.reshape(len(labels), -1), _halves(len(labels))
    only_trial = by_trial and trial is not None and bool((labels == _STAYS).all())
    kinds = trial.labels() if trial is not None and only_trial else labels
    chosen = regions_of(values[choosing], kinds[choosing], _STAYS)
    if only_trial:
        chosen = [one._replace(label=_STAYS) for one in chosen]
    found = [placed(one, values) for one in chosen]
    facts = [_facts(cases, laws, one, shape.actions) for one in found]
    for fact, one in zip(facts, found, strict=True):
        held_out = _held_out(one, judging)
        fact["usual_share"] = _rounded((labels[held_out] == one.label).mean())
        if trial is not None:
            fact["alternatives"] = _law(trial.instead[one.cases])
    affected = list[dict[str, Any]]()
    if CasePosterior.can(shape, cases.rewards):
        posterior = CasePosterior(shape, *cases[:3], key=purpose_key(seed, JUDGED), told=told)
        changes = {"change": whole.change, "against_initial": whole.since}
        if trial is not None:
            changes["protocol"] = laws.change
            changes |= {"trial": trial.law - laws.proposed} if trial.proposed else {}
        worth = _worth(posterior, changes)
        known, affected = _judged(posterior, cases, laws, found, facts, thresholds)
        known["worth"] = worth
    facts.sort(key=lambda one: -one["gain"]["mean"] if one["gain"] else 0.0)
    beside = {} if trial is None else {"trial": trial.facts()}
    return known | {
        **beside,
        "regions": facts,
        "fidelity": fidelity(found, labels, _STAYS, judging),
        "usual_changes": _rounded((labels != _STAYS).mean()),
        "affected": affected,
    }


def kinds_of(cases: Cases, before: LinearPolicy | None, after: LinearPolicy) -> dict[str, Any]:
    """What a policy gives to which kinds of cases, or in which kinds two policies differ."""
    values, A = cases.contexts.reshape(len(cases.actions), -1), after.shape.actions
    new = after.propensities(cases.contexts)
    now = new if before is None else before.propensities(cases.contexts)
    usual = now.argmax(axis=1), new.argmax(axis=1)
    labels = np.where(usual[0] == usual[1], _STAYS, usual[0] * A + usual[1])
    if before is None:
        labels = usual[1] * A + usual[1]
    found = regions_of(values, labels, _STAYS)
    facts = [_facts(cases, Laws(now, new, now), one, A) for one in found]
    right = sum(int((labels[one.cases] == one.label).sum()) for one in found)
    return {
        "cases": len(labels),
        "regions": facts,
        "fidelity": right / len(labels),
        "changed": float((usual[0] != usual[1]).mean()),
    }


def _halves(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The cases that choose regions and those that judge them; with few cases, all do both."""
    everything = np.arange(n)
    return (everything, everything) if n < _FEW else (everything[::2], everything[1::2])


def _held_out(region: Region, judging: np.ndarray) -> np.ndarray:
    """The cases of a region that judge it."""
    held_out = np.intersect1d(region.cases, judging)
    return held_out if len(held_out) else region.cases


def _facts(cases: Cases, laws: Laws, region: Region, A: int) -> dict[str, Any]:
    """The counts in a region."""
    now, new = laws.now[region.cases], laws.proposed[region.cases]
    tries = np.bincount(cases.actions[region.cases], minlength=A)
    more = np.flatnonzero((new - now).mean(axis=0) >= _MORE)
    changes = None if region.label == _STAYS else list(divmod(region.label, A))
    return {
        "where": described(region.conditions),
        "cases": len(region.cases),
        "share": _rounded(len(region.cases) / len(cases.actions)),
        "usual": changes,
        "changed": _rounded(0.5 * np.abs(new - now).sum(axis=1).mean()),
        "now": _law(now),
        "proposed": _law(new),
        "tries": tries.tolist(),
        "untried": [int(a) for a in more if tries[a] == 0],
        **dict.fromkeys(("gain", "probability", "verdict")),
        "hangs_on_sites": [],
    }


def _worth(posterior: CasePosterior, changes: dict[str, np.ndarray]) -> dict[str, Any]:
    """The worth of changes of the law of actions [n, A], by name."""
    weights, everything = posterior.weights(), np.arange(len(posterior.contexts))
    combined = {name: posterior.combined(change) for name, change in changes.items()}
    return {
        name: Gain.of(posterior.gains(weights, one, everything, everything)).facts()
        for name, one in combined.items()
    }


def _judged(
    posterior: CasePosterior,
    cases: Cases,
    laws: Laws,
    regions: list[Region],
    facts: list[dict[str, Any]],
    thresholds: dict[str, float],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How certain the gain is, and which cases gain or lose most; adds the word of each region."""
    weights, change = posterior.weights(), posterior.combined(laws.change)  # [n, p]
    judging = _halves(len(cases.actions))[1]
    parts = [
        posterior.gains(weights, change, np.intersect1d(one.cases, judging), judging)
        for one in regions
    ]
    worths = [
        RowWorth((0, i), Gain.of(part), Gain.of(-part))
        for i, part in enumerate(parts)
        if facts[i]["changed"] > 0
    ]
    tried = [one for one in worths if not facts[one.row[1]]["untried"]]
    said = words(tried, MODELS, thresholds)
    for one in worths:
        i = one.row[1]
        facts[i] |= {
            "gain": one.gain.facts(),
            "probability": _rounded(one.better),
            "verdict": said.get(one.row, UNTRIED),
        }
    _note_sites(posterior, cases, laws, regions, facts)
    judged = [one for one in facts if one["verdict"]]
    known = {"models": MODELS, "expected_false": expected_false(judged)}
    return known, _affected(cases, laws, change @ weights.T)


def _note_sites(
    posterior: CasePosterior,
    cases: Cases,
    laws: Laws,
    regions: list[Region],
    facts: list[dict[str, Any]],
) -> None:
    """Name the sites without whose reports a region would not be called better."""
    names = np.unique(cases.sites)
    good = [i for i, one in enumerate(facts) if one["verdict"] in ("IMPROVE", "LIKELY")]
    if len(names) < 2 or not good:
        return
    change = posterior.combined(laws.change)
    for site in names.tolist():
        others = np.flatnonzero(cases.sites != site)
        weights = posterior.expected(others)
        for i in good:
            inside = np.intersect1d(others, regions[i].cases)
            tried = np.bincount(cases.actions[inside], minlength=laws.now.shape[1])
            rises = (laws.change[regions[i].cases].mean(axis=0) >= _MORE) & (tried == 0)
            if rises.any() or float(change[regions[i].cases].mean(axis=0) @ weights) <= 0:
                facts[i]["hangs_on_sites"].append(site)


def _affected(cases: Cases, laws: Laws, draws: np.ndarray) -> list[dict[str, Any]]:
    """The logged cases expected to change most; draws: the gain of each [n, MODELS]."""
    expected = np.abs(draws.mean(axis=1))
    chosen = [int(i) for i in np.argsort(-expected, kind="stable")[:_MOST_CASES] if expected[i] > 0]
    return [
        {
            "context": cases.contexts[i].tolist(),
            "played": int(cases.actions[i]),
            "paid": float(cases.rewards[i]),
            "now": _law(laws.now[i : i + 1]),
            "proposed": _law(laws.proposed[i : i + 1]),
            "gain": Gain.of(draws[i]).facts(),
        }
        for i in chosen
    ]


def _law(shares: np.ndarray) -> dict[str, float]:
    """How often each action is played on average; rare ones are left out."""
    means = shares.mean(axis=0)
    return {str(a): _rounded(mean) for a, mean in enumerate(means.tolist()) if mean > 0}


def _rounded(value: float) -> float:
    """Nine digits, so that the order of a sum does not matter."""
    return round(float(value), 9)
