"""What `few` is compared with: settings without a limit that have won races, and one change.

The settings are those that came first on at least two problems when all 326 algorithms of
`frontier` raced, and some of every other kind. Patterns: {a|b} stands for a and for b.
"""

import numpy as np

from lowswitch import TabularMDP
from lowswitch.races.portfolio import alternatives

ROWS = (
    "{ucb-b|ucb2-b}:c={0.01|0.001}",
    "q-b:c=0.01,schedule=growth/2",
    "stage-q:c={0.01|0.001}",
    "mvp:data=all,c={0.0001|0.00001},schedule=growth/1.5",
    "ucbvi-bf:c=0.001",
)
MODELS = (
    "ucbvi-bf:c=0.001,schedule=growth/{1.5|2}",
    "ucbvi-bf:c=0.0003,schedule=whole/{1.5|2}",
    "ucbvi:c=0.0003,schedule=growth/1.5",
    "ucrl2:c=0.1,schedule=growth/2",
    "ucrl2:c={0.03|0.01|0.003|0.001},schedule={growth/2|whole/1.5|whole/2/10}",
    "ucrl2:c={0.003|0.001},schedule={growth/4|grid/geometric/101}",
    "rmax:known={1|3|10}",
    "psrl:schedule=whole/1.5",
    "psrl:rewards=mean,schedule={whole/1.5|whole/4}",
    "psrl:rewards=mean,prior={0.1|0.02},schedule={whole/1.5|whole/4}",
    "psrl:rewards=mean,members=8,schedule={whole/2|whole/2/10}",
)
ONE_CHANGE = ("one-change", "one-change:pooled=true")


def settings(alike: bool) -> list[str]:
    """All settings; where steps are alike also those that are told so."""
    patterns = [*ROWS, *MODELS]
    if alike:
        patterns += [f"{pattern},pooled=true" for pattern in MODELS]
    return [text for pattern in patterns for text in alternatives(pattern)]


def is_told(text: str) -> bool:
    """Whether an algorithm is told that all steps are alike."""
    return "pooled=true" in text


# ---- explore uniformly for a tenth, plan once, commit --------------------------------------------


def one_change(mdp: TabularMDP, episodes: int, seed: int, pooled: bool) -> float:
    """The regret of uniform play for a tenth of the run, and of one plan on its counts after it.

    pooled: whether the counts of all steps are added up.
    """
    first = max(1, episodes // 10)
    policy = planned(mdp, *counted(mdp, first, np.random.default_rng([seed, 31])), pooled)
    best, starts = mdp.optimal_values[0], mdp.start_sequence
    gaps = [best - mdp.uniform_values[0], best - mdp.policy_values(policy)[0]]
    if len(starts):
        return float(gaps[0][starts[:first]].sum() + gaps[1][starts[first:episodes]].sum())
    return first * mdp.at_start(gaps[0]) + (episodes - first) * mdp.at_start(gaps[1])


def counted(
    mdp: TabularMDP, episodes: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:  # [H, S, A, S] and [H, S, A]
    """How often each successor followed, and the rewards in all, while play was uniform."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    followed, paid = np.zeros((H, S, A, S)), np.zeros((H, S, A))
    states = generator.choice(S, episodes, p=mdp.start_law)
    if len(mdp.start_sequence):
        states = mdp.start_sequence[:episodes]
    for h in range(H):
        chance = mdp.actions_allowed[h] / mdp.actions_allowed[h].sum(axis=-1, keepdims=True)
        actions = drawn(chance[states], generator)
        rows = states * A + actions + (0 if mdp.stationary else h * S * A)
        rewards = np.resize(mdp.rewards, (H, S, A))[h, states, actions]
        if mdp.reward_law == "bernoulli":
            rewards = generator.random(episodes) < rewards
        after = successors(mdp, rows, generator)
        np.add.at(followed, (h, states, actions, after), 1.0)
        np.add.at(paid, (h, states, actions), rewards)
        states = after
    return followed, paid


def drawn(chances: np.ndarray, generator: np.random.Generator) -> np.ndarray:  # [n]
    """A number from each law [n, A]."""
    above = generator.random((len(chances), 1)) >= chances.cumsum(axis=-1)
    return np.minimum(above.sum(axis=-1), chances.shape[-1] - 1)


def successors(mdp: TabularMDP, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The next state after each row (h, x, a)."""
    # the laws of all rows one after the other, each as long as 1
    ends = np.cumsum(mdp.probabilities)
    begin = np.where(mdp.offsets[rows] > 0, ends[mdp.offsets[rows] - 1], 0.0)
    place = np.searchsorted(ends, begin + generator.random(len(rows)), side="right")
    return mdp.successors[np.clip(place, mdp.offsets[rows], mdp.offsets[rows + 1] - 1)]


def planned(
    mdp: TabularMDP, followed: np.ndarray, paid: np.ndarray, pooled: bool
) -> np.ndarray:  # [H, S]
    """The best policy for what was counted; an action without a count is worth nothing."""
    if pooled:
        followed, paid = (np.broadcast_to(one.sum(axis=0), one.shape) for one in (followed, paid))
    n = followed.sum(axis=-1)
    values, policy = np.zeros(mdp.states), np.zeros((mdp.horizon, mdp.states), dtype=np.int64)
    for h in range(mdp.horizon - 1, -1, -1):
        q = (paid[h] + followed[h] @ values) / np.maximum(n[h], 1.0)
        q = np.where(mdp.actions_allowed[h], np.where(n[h] > 0, q, -1e-9), -np.inf)
        policy[h], values = q.argmax(axis=-1), np.maximum(0.0, q.max(axis=-1))
    return policy
