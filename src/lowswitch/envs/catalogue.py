"""The literature's benchmark problems as exact tables.

In the chains action 0 is left and action 1 is right.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from lowswitch.algorithms.text import build
from lowswitch.checks import (
    is_number,
    require_count,
    require_memory,
    require_seed,
    require_truth,
    shown,
)
from lowswitch.envs.mdp import RewardLaw, TabularMDP, rescale

if TYPE_CHECKING:
    from scipy.sparse import coo_matrix

Options = ParamSpec("Options")


def _named(function: Callable[Options, TabularMDP]) -> Callable[Options, TabularMDP]:
    """Let a problem have the name by which `make` makes it, with the options that were given."""

    @functools.wraps(function)
    def made(*none: Options.args, **options: Options.kwargs) -> TabularMDP:
        mdp = function(*none, **options)
        words = ",".join(f"{key}={_word(value)}" for key, value in options.items())
        mdp.name = f"{function.__name__.replace('_', '-')}:{words}".rstrip(":")
        return mdp

    return made


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---- rivers --------------------------------------------------------------------------------------


@_named
def riverswim(
    *, states: int = 6, horizon: int = 20, reward_law: RewardLaw = "deterministic"
) -> TabularMDP:
    """RiverSwim, a chain with a current: Osband, Russo, Van Roy 2013 and TabulaRL.

    Left drifts down for sure and pays 0.005 at the bank, state 0. Right swims against the current:
    0.4 stay and 0.6 up in the first state; 0.05 down, 0.6 stay, 0.35 up between; 0.4 down, 0.6 stay
    in the last, where it pays 1. Every episode starts in state 0. As published: 6 states, 20 steps;
    larger ones in the literature are (30, 120) and (40, 160).

    Parameters
    ----------
    states
        The length of the chain.
    horizon
        H.
    reward_law
        "deterministic" pays mean rewards; "bernoulli" pays 0 or 1 with these means.
    """
    S = require_count("states", states, least=2)
    rewards = np.zeros((S, 2))
    rewards[0, 0], rewards[-1, 1] = 0.005, 1
    transitions = _river(S, first_up=0.6, down=0.05, up=0.35, last_down=0.4)
    return TabularMDP(transitions, rewards, start=0, horizon=horizon, reward_law=reward_law)


@_named
def riverswim_strehl(
    *, states: int = 6, horizon: int = 20, reward_law: RewardLaw = "deterministic"
) -> TabularMDP:
    """RiverSwim as in Strehl and Littman 2008: a stronger current, and rewards divided by 10000.

    Right: 0.7 stay and 0.3 up in the first state; 0.1 down, 0.6 stay, 0.3 up between; 0.7 down, 0.3
    stay in the last. Published rewards are 5 for left in state 0, and 10000 for right in the last
    state if it stays there: a mean of 0.3 here, for which "bernoulli" pays 0 or 1. An episode
    starts in state 1 or 2 with probability 1/2 each. The publication is discounted; the 20 steps
    are ours.

    Parameters
    ----------
    states
        The length of the chain.
    horizon
        H.
    reward_law
        As in `riverswim`.
    """
    S = require_count("states", states, least=3)
    rewards = np.zeros((S, 2))
    rewards[0, 0], rewards[-1, 1] = 5 / 10_000, 0.3
    start = np.zeros(S)
    start[1:3] = 0.5
    transitions = _river(S, first_up=0.3, down=0.1, up=0.3, last_down=0.7)
    return TabularMDP(transitions, rewards, start=start, horizon=horizon, reward_law=reward_law)


def _river(
    S: int, *, first_up: float, down: float, up: float, last_down: float
) -> coo_matrix:  # [S * A, S]
    _require_table(S, 2, 4)
    downs, ups = np.full(S, down), np.full(S, up)
    downs[[0, -1]], ups[[0, -1]] = (0, last_down), (first_up, 0)
    x = np.arange(S)
    left, right = 2 * x, 2 * x + 1
    return _sparse(
        (2 * S, S),
        (left, np.maximum(x - 1, 0), np.ones(S)),
        (right, x, 1 - downs - ups),
        (right[1:], x[:-1], downs[1:]),
        (right[:-1], x[1:], ups[:-1]),
    )


# ---- chains --------------------------------------------------------------------------------------


@_named
def chain(*, states: int = 10, horizon: int = 10) -> TabularMDP:
    """TabulaRL's deterministic chain: only right at the far end pays, a mean of 1.

    Published rewards are N(0, 1) for left in state 0 and N(1, 1) for right in the last state; here
    they are the means, 0 and 1, without noise, which would leave [0, 1]. TabulaRL runs it with H =
    N. V* = H - N + 1.

    Parameters
    ----------
    states
        N, the length of the chain.
    horizon
        H.
    """
    S = require_count("states", states, least=2)
    if require_count("horizon", horizon) < S:
        raise ValueError(
            f"horizon must be at least states = {S} to reach the reward, not {horizon}; pass"
            f" horizon={S} or more"
        )
    return TabularMDP(_walk(S, left_up=0, right_up=1), _ends(S, 0.0), start=0, horizon=horizon)


@_named
def stochastic_chain(*, states: int = 10) -> TabularMDP:
    """TabulaRL's stochastic chain, H = N, with the rewards of `chain`.

    Right moves up with probability 1 - 1/N and else down. A single failure puts the reward out of
    reach. V* = (1 - 1/N)^(N - 1).

    Parameters
    ----------
    states
        N, the length of the chain.
    """
    S = require_count("states", states, least=2)
    return TabularMDP(_walk(S, left_up=0, right_up=1 - 1 / S), _ends(S, 0.0), start=0, horizon=S)


@_named
def chain_rlberry(
    *,
    states: int = 5,
    horizon: int = 20,
    fail: float = 0.1,
    reward_law: RewardLaw = "deterministic",
) -> TabularMDP:
    """rlberry's Chain: a move goes the other way with probability `fail`.

    State 0 pays 0.05 and the last state 1, for every action. rlberry fixes no horizon; the 20 steps
    are ours.

    Parameters
    ----------
    states
        The length of the chain.
    horizon
        H.
    fail
        The probability that a move goes the other way.
    reward_law
        As in `riverswim`.
    """
    S = require_count("states", states, least=2)
    if not (is_number(fail) and 0 <= fail <= 1):
        raise ValueError(
            f"fail must be a probability from 0 to 1, not {shown(fail)}; rlberry's own is 0.1"
        )
    rewards = np.zeros((S, 2))
    rewards[0], rewards[-1] = 0.05, 1
    transitions = _walk(S, left_up=fail, right_up=1 - fail)
    return TabularMDP(transitions, rewards, start=0, horizon=horizon, reward_law=reward_law)


@_named
def chain_bootdqn(
    *, states: int = 6, horizon: int = 15, reward_law: RewardLaw = "deterministic"
) -> TabularMDP:
    """The chain of Bootstrapped DQN (Osband et al. 2016) as TabulaRL codes it.

    Right moves up or down with probability 1/2 each. Left in state 0 pays a mean of 0.01 and right
    in the last state 1; TabulaRL adds N(0, 1) to both, here there is no such noise.

    Parameters
    ----------
    states
        The length of the chain.
    horizon
        H.
    reward_law
        As in `riverswim`.
    """
    S = require_count("states", states, least=2)
    transitions, rewards = _walk(S, left_up=0, right_up=0.5), _ends(S, 0.01)
    return TabularMDP(transitions, rewards, start=0, horizon=horizon, reward_law=reward_law)


def _walk(S: int, *, left_up: float, right_up: float) -> coo_matrix:  # [S * A, S]
    """One up with the action's probability and else one down; the ends hold."""
    _require_table(S, 2, 4)
    x = np.arange(S)
    moves = []
    for a, up in enumerate((left_up, right_up)):
        moves.append((2 * x + a, np.minimum(x + 1, S - 1), np.full(S, up)))
        moves.append((2 * x + a, np.maximum(x - 1, 0), np.full(S, 1 - up)))
    return _sparse((2 * S, S), *moves)


def _ends(S: int, near: float) -> np.ndarray:  # [S, A]
    rewards = np.zeros((S, 2))
    rewards[0, 0], rewards[-1, 1] = near, 1
    return rewards


# ---- deep exploration ----------------------------------------------------------------------------


@_named
def deep_sea(*, size: int = 10, stochastic: bool = False, seed: int = 0) -> TabularMDP:
    """DeepSea of bsuite (Osband et al. 2020): N steps down an N x N grid.

    Only right at every step finds the treasure. The row is the step, so a state is a column and the
    tables differ by step: S = H = N, which is equivalent to N^2 cells for a learner with one table
    per step. Which action is right in a cell is drawn as by bsuite's `mapping_seed`. Moving right
    costs 0.01/N, and right in the last column pays 1. All rewards are shifted by 0.01/N to lie in
    [0, 1], but values and regret are in bsuite's units. `stochastic`: right fails, and stays in its
    column, with probability 1/N; bsuite's additional N(0, 1) on two rewards is left out.

    V* = 0.99; stochastic, with q = 1 - 1/N, V* = q^(N - 1) - 0.01 (1 - q^N). bsuite's optimal
    return, q^(N - 1) - 0.01, is the value of always moving right, which pays for moves even when
    the treasure is out of reach.

    Parameters
    ----------
    size
        N, the number of rows and columns.
    stochastic
        Whether a move to the right fails with probability 1/N.
    seed
        The seed of the meaning of the actions.
    """
    N = require_count("size", size, least=2)
    require_truth("stochastic", stochastic)
    _require_table(N, N, 2, 4)
    generator = np.random.RandomState(require_seed(seed, bits=32))
    right = generator.binomial(1, 0.5, (N, N))  # bsuite's own draw
    h, x = np.indices((N, N))
    success = 1 - 1 / N if stochastic else 1.0
    row = 2 * (N * h + x)
    transitions = _sparse(
        (2 * N * N, N),
        (row + 1 - right, np.maximum(x - 1, 0), np.ones((N, N))),
        (row + right, np.minimum(x + 1, N - 1), np.full((N, N), success)),
        (row + right, x, np.full((N, N), 1 - success)),
    )
    rewards = np.zeros((N, N, 2))
    rewards[h, x, right] = (x == N - 1) - 0.01 / N
    return TabularMDP(
        transitions, rescale(rewards, low=-0.01 / N, high=1 - 0.01 / N), start=0, horizon=N
    )


@_named
def combination_lock(*, states: int = 5, actions: int = 3, horizon: int = 10) -> TabularMDP:
    """The combination lock of Jin et al. 2018, Appendix A, after Koenig and Simmons.

    A wrong action in the first half loses everything. For h <= H/2 the action a* keeps s*, anything
    else leads uniformly to the other states, from which there is no way back. For h > H/2 the state
    is frozen and r_h(s*, a*) = 1, for each such h (the paper prints r_H). s* is state 0, where
    every episode starts. a* is the last action, as ties go to the first. V* = H/2, rounded up.

    Parameters
    ----------
    states
        S.
    actions
        A.
    horizon
        H.
    """
    S, A = require_count("states", states, least=2), require_count("actions", actions, least=2)
    H = require_count("horizon", horizon, least=2)
    transitions = _table(H, S, A, S)
    locked = transitions[: H // 2]
    locked[..., 1:] = 1 / (S - 1)
    locked[:, 0, -1] = np.eye(S)[0]
    transitions[H // 2 :] = np.eye(S)[:, None]
    rewards = np.zeros((H, S, A))
    rewards[H // 2 :, 0, -1] = 1
    return TabularMDP(transitions, rewards, start=0, horizon=H)


@_named
def homogeneous_lock(
    *, length: int = 6, actions: int = 2, horizon: int = 9, seed: int = 0
) -> TabularMDP:
    """A combination lock that is the same at every step.

    L right actions in a row open it, and a wrong one pays 0.05 and starts again. States 0 to L.
    Which action is right in a state is drawn by `seed`. State L is absorbing and pays 1 a step. V*
    = max(H - L, 0.05 H).

    Parameters
    ----------
    length
        L, how many right actions open the lock.
    actions
        A.
    horizon
        H.
    seed
        The seed of the right actions.
    """
    L, A = require_count("length", length), require_count("actions", actions, least=2)
    if require_count("horizon", horizon) <= L:
        raise ValueError(
            f"horizon must be above length = {L} for the lock to pay, not {horizon}; pass"
            f" horizon={L + 1} or more"
        )
    _require_table(L + 1, A, 4)
    x = np.arange(L)
    right = np.random.default_rng(require_seed(seed, bits=32)).integers(A, size=L)
    successors = np.zeros((L + 1, A), dtype=np.int64)
    successors[x, right] = x + 1
    successors[L] = L
    rows = (L + 1) * A
    transitions = _sparse((rows, L + 1), (np.arange(rows), successors.ravel(), np.ones(rows)))
    rewards = np.full((L + 1, A), 0.05)
    rewards[x, right] = 0
    rewards[L] = 1
    return TabularMDP(transitions, rewards, start=0, horizon=horizon)


# ---- random problems -----------------------------------------------------------------------------


@_named
def random_mdp(
    *,
    states: int = 5,
    actions: int = 3,
    horizon: int = 5,
    seed: int = 0,
    per_step: bool = False,
    reward_law: RewardLaw = "deterministic",
) -> TabularMDP:
    """A dense random problem.

    Rows of transitions are uniform on the simplex (Dirichlet(1)), mean rewards are uniform on [0,
    1], x_1 is uniform. `per_step` draws new tables for each step, as in the synthetic problems of
    Zheng et al. 2024 (FedQ); otherwise all steps share them.

    Parameters
    ----------
    states
        S.
    actions
        A.
    horizon
        H.
    seed
        The seed of the tables.
    per_step
        Whether each step has its own tables.
    reward_law
        As in `riverswim`.
    """
    S, A = require_count("states", states), require_count("actions", actions)
    H = require_count("horizon", horizon)
    shape = (H, S, A) if require_truth("per_step", per_step) else (S, A)
    _require_table(*shape, S)
    generator = np.random.default_rng(require_seed(seed, bits=32))
    transitions = generator.dirichlet(np.ones(S), size=shape)
    rewards, start = generator.random(shape), np.full(S, 1 / S)
    return TabularMDP(transitions, rewards, start=start, horizon=H, reward_law=reward_law)


@_named
def garnet(
    *,
    states: int = 20,
    actions: int = 4,
    branching: int = 3,
    horizon: int = 10,
    seed: int = 0,
    reward_law: RewardLaw = "deterministic",
) -> TabularMDP:
    """Garnet (Archibald, McKinnon, Thomas 1995): each (x, a) leads to `branching` distinct states.

    These are drawn with the seed. Their probabilities are the spacings of uniform cuts of [0, 1],
    mean rewards are uniform on [0, 1], x_1 is uniform. The tables are sparse.

    Parameters
    ----------
    states
        S.
    actions
        A.
    branching
        How many states an (x, a) can lead to.
    horizon
        H.
    seed
        The seed of the tables.
    reward_law
        As in `riverswim`.
    """
    from scipy.sparse import csr_matrix

    S, A = require_count("states", states), require_count("actions", actions)
    b = require_count("branching", branching)
    if b > S:
        raise ValueError(
            f"branching must be at most states = {S}, not {b}; pass branching={S} or less"
        )
    _require_table(S, A, 2 * b)
    generator = np.random.default_rng(require_seed(seed, bits=32))
    successors = np.stack([generator.choice(S, b, replace=False) for _ in range(S * A)])
    weights = np.diff(np.sort(generator.random((S * A, b - 1))), prepend=0, append=1)
    transitions = csr_matrix(
        (weights.reshape(-1), successors.reshape(-1), np.arange(0, S * A * b + 1, b)),
        shape=(S * A, S),
    )
    rewards, start = generator.random((S, A)), np.full(S, 1 / S)
    return TabularMDP(transitions, rewards, start=start, horizon=horizon, reward_law=reward_law)


@_named
def switching_lower_bound(
    *, states: int = 5, actions: int = 3, horizon: int = 5, seed: int = 0
) -> TabularMDP:
    """The family M_{a*} of Bai et al. 2019's lower bound on switching.

    x is uniform at every step, and r_h(x, a) = 1 for a = a*(h, x) and else 0. a* is uniform, drawn
    with the seed; it is `optimal_policy`. V* = H, and V^pi = #{(h, x): pi_h(x) = a*(h, x)} / S. For
    A >= 4, at most HSA/8 switches imply regret of at least KH/4 on average over a* (the paper says
    HSA/2, which this family does not show).

    Parameters
    ----------
    states
        S.
    actions
        A.
    horizon
        H.
    seed
        The seed of a*.
    """
    S, A = require_count("states", states), require_count("actions", actions, least=2)
    H = require_count("horizon", horizon)
    _require_table(S, A, S)
    _require_table(H, S, A)
    best = np.random.default_rng(require_seed(seed, bits=32)).integers(A, size=(H, S))
    rewards = (np.arange(A) == best[..., None]).astype(float)
    return TabularMDP(np.full((S, A, S), 1 / S), rewards, start=np.full(S, 1 / S), horizon=H)


# ---- tables --------------------------------------------------------------------------------------


def _table(*shape: int) -> np.ndarray:
    """A table of zeros, if it fits into memory."""
    _require_table(*shape)
    return np.zeros(shape)


def _sparse(
    shape: tuple[int, int], *moves: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> coo_matrix:
    """The laws of rows that lead to few states: moves are rows, successors and probabilities.

    Probabilities of the same row and successor are added up.
    """
    from scipy.sparse import coo_matrix

    rows, successors, probabilities = (
        np.concatenate([column.ravel() for column in columns])
        for columns in zip(*moves, strict=True)
    )
    return coo_matrix((probabilities, (rows, successors)), shape=shape)


def _require_table(*shape: int) -> None:
    """Say before it is allocated that a table does not fit, with all that is made from it."""
    sizes = " x ".join(f"{size:,}" for size in shape)
    way_out = "use fewer states, or sparse tables of your own"
    require_memory(32 * math.prod(shape), f"tables of {sizes} numbers", way_out)


# ---- by name ------------------------------------------------------------------------------------

PROBLEMS: dict[str, Callable[..., TabularMDP]] = {
    "riverswim": riverswim,
    "riverswim-strehl": riverswim_strehl,
    "deep-sea": deep_sea,
    "combination-lock": combination_lock,
    "homogeneous-lock": homogeneous_lock,
    "chain": chain,
    "stochastic-chain": stochastic_chain,
    "chain-rlberry": chain_rlberry,
    "chain-bootdqn": chain_bootdqn,
    "garnet": garnet,
    "random-mdp": random_mdp,
    "switching-lower-bound": switching_lower_bound,
}


def make(text: str) -> TabularMDP:
    """The problem that a text names.

    Parameters
    ----------
    text
        A name and options, such as `riverswim:states=6,horizon=20`.

    Examples
    --------
    >>> import lowswitch as ls
    >>> ls.envs.make("chain:states=4,horizon=6").optimal_value()
    3.0
    """
    problem: TabularMDP = build(text, PROBLEMS, "problem")
    return problem
