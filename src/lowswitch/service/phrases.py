"""Gains, changes and trials in the words of a run: one wording for all pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lowswitch.ledger.terms import Terms
from lowswitch.ledger.text import law as law_words
from lowswitch.ledger.text import percent
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.tables import departing
from lowswitch.review.proposals import WHOLE
from lowswitch.show.text import counted, plural

_MOST_STATES = 12  # that a sentence names
_MANY = 100  # cases for which a gain is told where rewards are small
_FEW_PLACES = 12  # in which the alternatives of a trial differ, so that they are named
_LEAST_SHOWN = 0.05  # percent of all cases; what fewer are given is not listed
_SMALL = 10.0  # the widest range of rewards that counts as small
LABELS = {  # what the pages call a verdict; exports and programs use its name
    "IMPROVE": "better",
    "LIKELY": "likely better",
    "UNSURE": "unsure",
    "WORSE": "likely worse",
    "UNTRIED": "never tried",
    "TRIAL": "trial only",
    "EXPLORE": "worth a trial",
}
MEANINGS = {
    "IMPROVE": "The data so far say so for this change and the others with this word together.",
    "LIKELY": "Probably better, but not certain.",
    "UNSURE": "The data cannot tell yet whether this is better or worse.",
    "WORSE": "Probably worse. The other changes do better without it.",
    "UNTRIED": "Nobody learned so far was given this here, so nothing is known of it.",
    "TRIAL": "Only the trial changes here, in order to learn.",
    "EXPLORE": "Worth a trial; nobody knows yet whether it is better.",
}


def meaning(word: str, terms: Terms) -> str:
    """The meaning of a verdict; for the strongest, also how many are expected to be wrong."""
    said = MEANINGS[word]
    if word != "IMPROVE":
        return said
    wrong = 100 * terms.thresholds["improve"]
    return (
        f"{said} Among 100 changes with this word, the model expects at most {wrong:g} to be wrong."
        " The word depends on the number of changes judged together, and “how sure” on the version"
        " in use. So both can change without new data."
    )


# ---- words ---------------------------------------------------------------------------------------


def several(names: Sequence[str], word: str = "and") -> str:
    """Names as a list within a sentence; empty if there are none."""
    *most, last = names or [""]
    return f"{', '.join(most)} {word} {last}" if most else last


def place(terms: Terms, h: int, x: int) -> str:
    """A row by its labels: finding 3, visit 2; a policy on features is for all cases."""
    if (h, x) == WHOLE:
        return f"all {plural(terms.word('episode'))}"
    return f"{terms.labels['state'][x]}, {terms.labels['step'][h]}"


def steps_words(terms: Terms, steps: Sequence[int]) -> str:
    """Several steps by their labels, or all of them in two words."""
    if len(steps) == terms.horizon > 1:
        return f"every {terms.word('step')}"
    names, word = [terms.labels["step"][h] for h in steps], terms.word("step")
    if len(names) > 1 and all(name.startswith(f"{word} ") for name in names):
        return f"{plural(word)} {several([name.removeprefix(word).strip() for name in names])}"
    return several(names)


def places_list(
    terms: Terms, rows: Sequence[Sequence[int]], form: str = "{state}, {steps}"
) -> list[str]:
    """Several rows by their labels, one item for each state: ill, visits 1 and 2."""
    if [tuple(row) for row in rows] == [WHOLE]:
        return [place(terms, *WHOLE)]
    found = dict[int, list[int]]()
    for h, x in rows:
        found.setdefault(x, []).append(h)
    if len({(h, x) for h, x in rows}) == terms.horizon * terms.size("state") > terms.horizon:
        every = f"every {terms.word('state')}"
        return [form.format(state=every, steps=steps_words(terms, range(terms.horizon)))]
    return [
        form.format(state=terms.labels["state"][x], steps=steps_words(terms, sorted(steps)))
        for x, steps in found.items()
    ]


def places_words(terms: Terms, rows: Sequence[Sequence[int]]) -> str:
    """The same in a sentence: ill, every visit; or ill (visits 1 and 2) and well (visit 1)."""
    found = places_list(terms, rows)
    return several(found if len(found) < 2 else places_list(terms, rows, "{state} ({steps})"))


def few_places_words(terms: Terms, rows: Sequence[Sequence[int]]) -> str:
    """The same, or only their number if they have many states."""
    if len(places_list(terms, rows)) > _MOST_STATES:
        return counted(len(rows), "place")
    return places_words(terms, rows)


def plays_words(names: Sequence[str], *, protocol: bool) -> str:
    """The actions of a version's members in a row; the first member may be the protocol."""
    others = sorted({*names} - {names[0]})
    if protocol and others:
        return f"{names[0]}; in the trial also {several(others, 'or')}"
    return several(sorted({*names}))


# ---- gains ---------------------------------------------------------------------------------------


def cases(terms: Terms) -> int:
    """For how many cases a gain is stated: one, or many if rewards are small numbers."""
    return _MANY if terms.rewards[1] - terms.rewards[0] <= _SMALL else 1


def per(terms: Terms) -> str:
    """The same in words: per 100 patients."""
    n, word = cases(terms), terms.word("episode")
    return f"per {word}" if n == 1 else f"per {n} {plural(word)}"


def per_such(terms: Terms) -> str:
    """For how many cases of one kind a gain is stated: per 100 such patients."""
    n, word = cases(terms), terms.word("episode")
    return f"per such {word}" if n == 1 else f"per {n} such {plural(word)}"


def among_these(region: Mapping[str, Any], terms: Terms) -> str:
    """The gain of a kind of cases for one of these, where `gain` spreads it over all cases."""
    mean = region["gain"]["mean"] / region["share"]
    return f"{amount(mean, terms)} {per_such(terms)}"


def amount(value: float, terms: Terms) -> str:
    """A gain with its sign, for as many cases as `per` says."""
    shown = f"{cases(terms) * value:+,.{_digits(terms)}f}"
    return shown[1:] if float(shown.replace(",", "")) == 0 else shown


def _digits(terms: Terms) -> int:
    """Digits after the decimal point: a gain per case needs more than one per 100 cases."""
    return 2 if cases(terms) == 1 else 1


def more(value: float, terms: Terms) -> str:
    """A gain or a loss in words: 18.8 more good outcomes per 100 patients."""
    word, shown = terms.word("reward"), amount(value, terms)
    if shown[0] not in "+-":
        return f"no change in {word}"
    fewer = "fewer" if word.endswith("s") else "less"
    return f"{shown[1:]} {'more' if shown[0] == '+' else fewer} {word} {per(terms)}"


def level(mean: float, terms: Terms) -> str:
    """An average in words: 122.0 good outcomes per 100 patients."""
    return f"{cases(terms) * mean:,.{_digits(terms)}f} {terms.word('reward')} {per(terms)}"


def within(gain: dict[str, Any], terms: Terms) -> str:
    """The ends of the 80 % interval of a gain."""
    low, high = gain["within_80"]
    return f"{amount(low, terms)} to {amount(high, terms)}"


def between(gain: dict[str, Any], terms: Terms) -> str:
    """The same in words: between 0 and 6.2 fewer, or between 1.0 fewer and 2.0 more."""
    fewer = "fewer" if terms.word("reward").endswith("s") else "less"
    ends = [amount(end, terms) for end in gain["within_80"]]
    sizes = [end.lstrip("+-") for end in ends]
    sides = ["" if end == "0.0" else "more" if end[0] == "+" else fewer for end in ends]
    if sides == [fewer, fewer] or sides == [fewer, ""]:
        return f"80 % interval: between {sizes[1]} and {sizes[0]} {fewer}"
    if sides[0] in ("", "more"):
        return f"80 % interval: between {sizes[0]} and {sizes[1]} more"
    return f"80 % interval: between {sizes[0]} {fewer} and {sizes[1]} more"


def gain_words(gain: dict[str, Any], terms: Terms) -> str:
    """A gain with its interval, and the probability of an improvement, or that there is no gain."""
    sure = f"{percent(gain['better'])} sure that this is an improvement"
    if gain["better"] < 0.5:
        sure = f"{percent(1 - gain['better'])} sure that this is not an improvement"
    return f"{more(gain['mean'], terms)} ({between(gain, terms)}); the learner's model is {sure}"


def drift_words(after: int, terms: Terms) -> str:
    """The warning that the newest cases have other features than the earlier ones."""
    word = terms.word("episode")
    return (
        f"The {plural(word)} have changed: after {counted(after, word)} the features of the newest"
        " ones differed from the earlier ones, so earlier results may no longer hold."
    )


# ---- changes of the protocol ---------------------------------------------------------------------


class Change(NamedTuple):
    """A row of the protocol whose action changes."""

    step: int
    state: int
    old: str
    new: str


def changed(before: np.ndarray, after: np.ndarray, *, protocol: bool) -> np.ndarray:  # [H, S]
    """The rows in which two laws [members, H, S] differ, as a person counts changes.

    If there is a protocol, a row counts if its protocol changes. Other differences belong to the
    trial.
    """
    found: np.ndarray = before[0] != after[0] if protocol else (before != after).any(axis=0)
    return found


def change_lines(terms: Terms, changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Changes in few lines: the same change at several steps is one line."""
    found = dict[tuple[int, str, str], list[int]]()
    for one in changes:
        found.setdefault((one.state, one.old, one.new), []).append(one.step)
    return [
        {
            "where": terms.labels["state"][x],
            "steps": steps_words(terms, sorted(steps)),
            "old": old,
            "new": new,
            "count": len(steps),
        }
        for (x, old, new), steps in found.items()
    ]


def law_lines(terms: Terms, before: np.ndarray, after: np.ndarray, *, protocol: bool) -> list[str]:
    """How two laws [members, H, S] differ, in few lines: first the protocol, then the trial."""
    names, some = terms.labels["action"], slice(0, 1) if protocol else slice(None)
    changes = list[Change]()
    for h, x in np.argwhere(changed(before, after, protocol=protocol)).tolist():
        old, new = (shares(names, one[some, h, x].tolist()) for one in (before, after))
        if old != new:  # otherwise other members of a mixture play the same
            changes.append(Change(h, x, law_words(old), law_words(new)))
    found = [
        f"{one['where']} ({one['steps']}): {one['old']} → {one['new']}"
        for one in change_lines(terms, changes)
    ]
    return found + (trial_lines(terms, before, after) if protocol else [])


def shares(names: Sequence[str], actions: Sequence[int]) -> dict[str, float]:
    """How often each action is played by members with these actions."""
    return {names[a]: actions.count(a) / len(actions) for a in sorted({*actions})}


# ---- the trial -----------------------------------------------------------------------------------

Place = tuple[int, int, int]  # step, state, action


def given_in_trial(law: np.ndarray) -> set[Place]:
    """What the trial of a law [members, H, S] gives instead of its protocol."""
    found = set[Place]()
    for table in law[departing(law)]:
        for h, x in np.argwhere(table != law[0]).tolist():
            found.add((h, x, int(table[h, x])))
    return found


def actions_words(terms: Terms, some: Iterable[Place]) -> str:
    """Actions and where they are given, each action once: drug A for ill, visits 1 and 2."""
    rows = dict[int, list[tuple[int, int]]]()
    for h, x, a in sorted(some, key=lambda one: (one[2], one[1], one[0])):
        rows.setdefault(a, []).append((h, x))
    names = terms.labels["action"]
    return "; ".join(f"{names[a]} for {places_words(terms, keys)}" for a, keys in rows.items())


def trial_lines(
    terms: Terms, before: np.ndarray | LinearPolicy, after: np.ndarray | LinearPolicy
) -> list[str]:
    """How the trials of two laws differ; empty if they do not."""
    if same_trial(before, after):
        return []
    first, then = (f"{100 * share_of(one):.0f} %" for one in (before, after))
    cases = f"of new {plural(terms.word('episode'))}"
    other = _other_alternatives(terms, before, after)
    if share_of(before) == 0 or share_of(after) == 0:
        return [f"the trial: {first} → {then} {cases}"]
    if first != then:
        return [f"the trial: {first} → {then} {cases}, {other}"]
    return [f"the trial: {then} {cases} as before, {other}"]


def _other_alternatives(
    terms: Terms, before: np.ndarray | LinearPolicy, after: np.ndarray | LinearPolicy
) -> str:
    """What two trials of the same share give differently, if it is short."""
    vague = "with other alternatives"
    if isinstance(before, LinearPolicy) or isinstance(after, LinearPolicy):
        return vague
    gives = [given_in_trial(law) for law in (before, after)]
    came, gone = gives[1] - gives[0], gives[0] - gives[1]
    if not came and not gone:
        return "with the same alternatives"
    said = [
        f"{words} {actions_words(terms, some)}"
        for words, some in (("newly", came), ("no longer", gone))
        if 0 < len(some) <= _FEW_PLACES
    ]
    if len(said) < bool(came) + bool(gone):
        return f"{vague} or shares in {counted(trial_places(before, after), 'place')}"
    return "; ".join(said)


def trial_places(before: np.ndarray, after: np.ndarray) -> int:
    """In how many rows two laws [members, H, S] differ that have the same protocol there."""
    same, names = before[0] == after[0], [str(a) for a in range(1 + max(before.max(), after.max()))]
    places = np.argwhere(same & (before != after).any(axis=0)).tolist()
    return sum(
        shares(names, before[:, h, x].tolist()) != shares(names, after[:, h, x].tolist())
        for h, x in places
    )


def share_words(share: float, case: str) -> str:
    """A share of the cases in whole percent: 16 % of new patients."""
    return f"no new {case}" if share == 0 else f"{100 * share:.0f} % of new {plural(case)}"


def share_of(law: np.ndarray | LinearPolicy) -> float:
    """The share of the cases in the trial of a law: tables [members, H, S], or of features."""
    return law.share or 0.0 if isinstance(law, LinearPolicy) else float(departing(law).mean())


def same_trial(before: np.ndarray | LinearPolicy, after: np.ndarray | LinearPolicy) -> bool:
    """Whether two laws have the same trial, of the same share."""
    if isinstance(before, LinearPolicy) and isinstance(after, LinearPolicy):
        return before.trial_identity == after.trial_identity
    old, new = (np.asarray(one)[departing(np.asarray(one))] for one in (before, after))
    return old.shape == new.shape and bool((old == new).all())


def alternatives(
    terms: Terms,
    law: np.ndarray,
    visits: np.ndarray,
    deployed: np.ndarray,
    waits: np.ndarray | None = None,
) -> list[dict[str, Any]]:  # a line each
    """What the trial of a law [members, H, S] gives in place of its protocol.

    visits [H, S, A]: how often each action was given in each row so far. waits: the same, of the
    reports that wait behind an open one. deployed [members, H, S]: an action that it already gives
    is not new, even if no report mentions it yet.
    """
    waits = np.zeros_like(visits) if waits is None else waits
    names, exploring = terms.labels["action"], law[departing(law)]
    lines = list[dict[str, Any]]()
    found = dict[tuple[int, int, int], list[tuple[int, float]]]()
    for a in range(terms.actions):
        count = ((exploring == a) & (law[0] != a)).sum(axis=0)
        for h, x in np.argwhere(count > 0).tolist():
            key = x, int(law[0, h, x]), a
            found.setdefault(key, []).append((h, float(count[h, x]) / len(law)))
    for (x, old, new), steps in sorted(found.items()):
        shares = [share for _, share in steps]
        first = [h for h, _ in steps if is_new(visits, waits, deployed, h, x, new)]
        lines.append(
            {
                "where": terms.labels["state"][x],
                "steps": steps_words(terms, [h for h, _ in steps]),
                "old": names[old],
                "new": names[new],
                "share": _span(shares),
                "given": _counts([int(visits[h, x, new]) for h, _ in steps], terms)
                + _also_waiting(sum(int(waits[h, x, new]) for h, _ in steps)),
                "first": steps_words(terms, first) if first else "",
            }
        )
    return lines


def is_new(
    visits: np.ndarray, waits: np.ndarray, deployed: np.ndarray, h: int, x: int, a: int
) -> bool:
    """Whether no report, learned or waiting, has an action in a row, and no version in use."""
    return not (visits[h, x, a] or waits[h, x, a] or a in deployed[:, h, x])


def _also_waiting(wait: int) -> str:
    """How many more reports of something wait, after the number of those that were learned."""
    return f", and {wait:,} more {'report waits' if wait == 1 else 'reports wait'}" if wait else ""


def kinds_in_trial(terms: Terms, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same for a policy on features: a line for each kind of cases and action; see
    `FeatureProposals.labelled`.
    """
    share, lines = row["trial"]["proposed"], list[dict[str, Any]]()
    for one in row.get("regions", []):
        usual = one["usual"][1] if one["usual"] else max(one["proposed"], key=one["proposed"].get)
        for name, part in sorted(one["alternatives"].items(), key=lambda pair: -pair[1]):
            given, of_all = one["tries"][name], 100 * share * part * one["share"]
            if of_all < _LEAST_SHOWN:
                continue
            lines.append(
                {
                    "where": one["where"],
                    "steps": steps_words(terms, [0]),
                    "old": usual if usual != name else f"another {terms.word('action')}",
                    "new": name,
                    "share": f"{of_all:.1f} %",
                    "given": given,
                    "first": "" if given else "these",
                }
            )
    return lines


def _span(shares: Sequence[float]) -> str:
    """Shares in percent: the smallest and the largest, or the only one."""
    low, high = (f"{100 * end:.0f}" for end in (min(shares), max(shares)))
    return low if low == high else f"{low} to {high}"


def _counts(given: Sequence[int], terms: Terms) -> str:
    """How often an action was given at each of several steps: the smallest and the largest."""
    low, high = min(given), max(given)
    each = f" at each {terms.word('step')}" if len(given) > 1 else ""
    return f"{low:,}{each}" if low == high else f"{low:,} to {high:,}{each}"


def by_state(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of `alternatives` in one line per state, without the steps."""
    found = dict[str, dict[str, Any]]()
    for line in lines:
        one = found.setdefault(line["where"], {"where": line["where"], "new": [], "first": []})
        for name in ("new", "first") if line["first"] else ("new",):
            if line["new"] not in one[name]:
                one[name].append(line["new"])
    return [one | {"new": several(one["new"], "or")} for one in found.values()]
