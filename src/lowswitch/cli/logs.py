"""Logged episodes on the command line, from a ledger or from a CSV file."""

from __future__ import annotations

import argparse

from lowswitch.envs.files import policy_from_file
from lowswitch.evaluation import Episodes


def policy_and_log(options: argparse.Namespace) -> tuple[list[list[int]], Episodes]:
    """The policy of a file, and the episodes of a ledger or of a CSV file."""
    from lowswitch.ledger import Ledger, logged_csv, logged_episodes

    if options.ledger is not None:
        with Ledger.open(options.ledger, read_only=True) as ledger:
            terms = ledger.tables()
            labels = terms.labels["action"]
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
