"""The value of a policy, estimated from data that other policies have logged."""

from __future__ import annotations

from typing import Any

from lowswitch.checks import require_fraction, require_positive, require_word
from lowswitch.evaluation import contexts, episodes
from lowswitch.evaluation.contexts import Log
from lowswitch.evaluation.episodes import Episodes
from lowswitch.evaluation.estimates import Evaluation
from lowswitch.policy.linear import LinearPolicy


def evaluate(
    policy: Any,
    log: Log | Episodes,
    *,
    confidence: float = 0.95,
    ridge: float = 1.0,
    behaviour: str = "logged",
) -> Evaluation:
    """The value of a policy per episode, from a log of any other policies.

    The policy must not have been learned from this log: for a proposal, use the episodes after
    `proposal.told`. Then, and if the log has propensities above 0 wherever this policy plays, `ips`
    and `dr` are without bias. `reliable` says whether to trust the intervals.

    Parameters
    ----------
    policy
        With a `Log` of contexts, a `LinearPolicy` of one step. With `Episodes`, a table of actions
        [H, S], a mixture [members, H, S] of which each episode plays one, or probabilities [H, S,
        A].
    log
        A `Log` or `Episodes`.
    confidence
        The confidence of the intervals.
    ridge
        How strongly the model of rewards is drawn to the mean of the log; only `dr` and `model` use
        it.
    behaviour
        "logged" takes the propensities of the log; "estimated" counts how often each action was
        logged in its row, for episodes with unknown propensities.

    Returns
    -------
    Evaluation
        Four estimates with intervals.

    See Also
    --------
    logged_episodes
    """
    level = require_fraction("confidence", confidence, "0.95 is usual")
    ridge = require_positive("ridge", ridge, "1 is usual")
    require_word("behaviour", behaviour, ("logged", "estimated"))
    if isinstance(log, Episodes):
        made = episodes.samples_of(policy, log, ridge, behaviour)
    elif not isinstance(log, Log):
        raise ValueError(
            "log must be a lowswitch.features.Log of contexts, actions, rewards and propensities,"
            " or lowswitch.evaluation.Episodes of states, actions and rewards"
        )
    elif not isinstance(policy, LinearPolicy):
        raise ValueError(
            "a log of contexts is for a LinearPolicy of one step; give tables Episodes of states"
        )
    elif behaviour != "logged":
        raise ValueError("a log of contexts has its propensities; behaviour must be 'logged'")
    else:
        made = contexts.samples_of(policy, log, ridge)
    return Evaluation.of(made, level, behaviour)
