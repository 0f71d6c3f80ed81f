"""Logged episodes on the command line, from a ledger or from a CSV file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from lowswitch.envs.files import policy_from_file
from lowswitch.evaluation import Episodes, Log
from lowswitch.policy.linear import LinearPolicy


def linear_policy(
    path: str, actions: int | Sequence[str], *, features: int, horizon: int = 1
) -> LinearPolicy:
    """A policy on features: a file of `LinearPolicy.save`, or text that names one action a step."""
    if path.endswith(".npz"):
        return LinearPolicy.load(path)
    table = policy_from_file(path, actions, horizon=horizon, states=1)
    many = actions if isinstance(actions, int) else len(actions)
    played = [row[0] for row in table]
    return LinearPolicy.always(played, features=features, actions=many, horizon=horizon)


def policy_and_log(
    options: argparse.Namespace,
) -> tuple[list[list[int]] | LinearPolicy, Episodes | Log]:
    """The policy of a file, and what a ledger or a CSV file logged."""
    from lowswitch.ledger import Ledger, logged_cases, logged_csv, logged_episodes
    from lowswitch.ledger.feature_terms import FeatureTerms

    if options.ledger is not None:
        with Ledger.open(options.ledger, read_only=True) as ledger:
            terms = ledger.terms
            labels = terms.labels["action"]
            if isinstance(terms, FeatureTerms):
                linear = linear_policy(options.policy, labels, features=terms.features)
                return linear, logged_cases(ledger, after=options.after)
            terms = ledger.tables()
            policy = policy_from_file(
                options.policy, labels, horizon=terms.horizon, states=terms.states
            )
            return policy, logged_episodes(ledger, after=options.after)
    for name in ("horizon", "states", "actions"):
        if getattr(options, name) is None:
            raise ValueError(f"--{name} is missing: a CSV file does not contain it; a ledger does")
    states, actions = (_count_or_labels(text) for text in (options.states, options.actions))
    many = states if isinstance(states, int) else len(states)
    policy = policy_from_file(options.policy, actions, horizon=options.horizon, states=many)
    log = logged_csv(
        options.csv,
        horizon=options.horizon,
        states=states,
        actions=actions,
        rewards=options.reward_range or (0.0, 1.0),
    )
    return policy, log


def _count_or_labels(text: str) -> int | list[str]:
    return int(text) if text.isdecimal() else [label.strip() for label in text.split(",")]
