"""The bridge to Gymnasium.

It makes exact tables of an environment, an environment of a problem, and lets a learner play any
discrete environment. Importing this module registers every named problem:
`gymnasium.make("lowswitch.envs.gymnasium:lowswitch/DeepSea-v0", size=20)`.

A Gymnasium episode may end early, an episode here has H steps. So a problem of S states has one
more here, number S, where a terminated episode stays and is paid 0 for the steps that are left.
Only action 0 is allowed there: a choice would only add switches that mean nothing.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import checked_mask, require_count, shown
from lowswitch.history import History
from lowswitch.learner import Learner, warn_if_drowned
from lowswitch.problems.mdp import Scale, TabularMDP, rescale
from lowswitch.problems.named import PROBLEMS
from lowswitch.progress import Progress

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'Gymnasium is not installed; install it with: pip install "lowswitch[gymnasium]"'
    ) from error

_REDRAW_SECONDS = 0.1


# ---- tables of an environment --------------------------------------------------------------------


def from_gymnasium(env: gymnasium.Env[Any, Any], *, horizon: int) -> TabularMDP:
    """The exact tables of an environment that publishes them as `env.unwrapped.P`.

    FrozenLake, CliffWalking, Taxi and their like do. The result has S + 1 states (see above).
    Rewards are the expected ones; if any lies outside [0, 1] they are rescaled, and values and
    regret come out in the environment's own units. The environment's TimeLimit is not part of its
    tables: `horizon` takes its place.
    """
    from scipy.sparse import coo_matrix

    require_count("horizon", horizon)
    S, A, _, _ = _numbers(env)
    rows, probabilities, successors, paid = _outcomes(env)
    absorbing = np.arange(S * A, (S + 1) * A)
    places = np.append(rows, absorbing), np.append(successors, np.full(A, S))
    # a successor that is listed several times is added up
    transitions = coo_matrix(
        (np.append(probabilities, np.ones(A)), places), shape=((S + 1) * A, S + 1)
    )
    low, high = min(0.0, float(paid.min())), max(0.0, float(paid.max()))
    rewards = np.bincount(rows, probabilities * paid, minlength=(S + 1) * A).reshape(S + 1, A)
    rewards = np.clip(rewards, low, high)  # a mean may be rounded out of its range
    return TabularMDP(
        transitions,
        rewards if low == 0 and high <= 1 else rescale(rewards, low=low, high=high),
        start=np.append(_published(env, "initial_state_distrib"), 0.0),
        horizon=horizon,
        actions_allowed=_allowed(S, A),
    )


def _outcomes(env: gymnasium.Env[Any, Any]) -> tuple[np.ndarray, ...]:
    """What P lists, as four columns.

    They are the row x A + a, the probability, the successor (S where the episode ends), the reward.
    """
    S, A, first_state, first_action = _numbers(env)
    table = _published(env, "P")
    try:
        listed = [
            (x * A + a, chance, S if ends else successor - first_state, reward, ends)
            for x in range(S)
            for a in range(A)
            for chance, successor, reward, ends in table[first_state + x][first_action + a]
            if chance != 0
        ]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"{env.unwrapped}.P is no table of (probability, successor, reward, terminated) lists"
            f" ({error!r})"
        ) from error
    rows, probabilities, successors, paid, ends = (
        np.array(column) for column in zip(*listed, strict=True)
    )
    if not ((successors >= 0) & ((successors < S) | ends)).all():
        raise ValueError(f"{env.unwrapped}.P leads to a state outside of its {S}; correct it")
    return rows, probabilities, successors, paid


def _published(env: gymnasium.Env[Any, Any], name: str) -> Any:
    """`P` or `initial_state_distrib` of the innermost environment."""
    ways_out = {
        "P": "has no tables P; let a learner play it instead, with lowswitch.envs.gymnasium.learn",
        "initial_state_distrib": (
            "does not say where it starts; set env.unwrapped.initial_state_distrib to the law of"
            " its first state"
        ),
    }
    if not hasattr(env.unwrapped, name):
        raise ValueError(f"{env.unwrapped} {ways_out[name]}")
    return getattr(env.unwrapped, name)


# ---- a problem as an environment -----------------------------------------------------------------


class TabularEnv(gymnasium.Env[Any, Any]):
    """A TabularMDP as an environment, with rewards in the problem's own units.

    An episode is truncated after H steps. `info["step"]` is the step about to be played, from 0:
    where tables differ by step, a policy needs it beside the state. A start sequence is followed
    from its beginning after each `reset(seed=...)`.
    """

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        self.observation_space = gymnasium.spaces.Discrete(mdp.states)
        self.action_space = gymnasium.spaces.Discrete(mdp.actions)
        self._state, self._step, self._episode = 0, mdp.horizon, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode = 0 if seed is not None else self._episode
        self._state, self._step = self._first_state(), 0
        self._episode += 1
        return self._state, {"step": 0}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        mdp, h, x = self.mdp, self._step, self._state
        if h == mdp.horizon:
            raise gymnasium.error.ResetNeeded(
                f"the episode is over after {h} steps or has not begun; call reset first"
            )
        if not (0 <= action < mdp.actions and mdp.actions_allowed[h, x, action]):
            allowed = np.flatnonzero(mdp.actions_allowed[h, x]).tolist()
            raise ValueError(
                f"action {action} is not allowed at step {h} in state {x}; choose among {allowed}"
            )
        rewards = mdp.rewards if mdp.rewards.ndim == 2 else mdp.rewards[h]
        reward = float(rewards[x, action])
        if mdp.reward_law == "bernoulli":
            reward = float(self.np_random.random() < reward)
        row = ((0 if mdp.stationary else h) * mdp.states + x) * mdp.actions + int(action)
        nonzeros = slice(mdp.offsets[row], mdp.offsets[row + 1])
        self._state = int(mdp.successors[nonzeros][self._draw(mdp.probabilities[nonzeros])])
        self._step += 1
        paid, over = float(mdp.scale.to_value(reward, 1)), self._step == mdp.horizon
        return self._state, paid, False, over, {"step": self._step}

    def _first_state(self) -> int:
        starts = self.mdp.start_sequence
        if not len(starts):
            return self._draw(self.mdp.start_law)
        if self._episode == len(starts):
            raise ValueError(
                f"the start sequence ends after {len(starts)} episodes; lengthen it, or begin again"
                " with reset(seed=...)"
            )
        return int(starts[self._episode])

    def _draw(self, law: np.ndarray) -> int:
        cumulated = np.cumsum(law)
        drawn = self.np_random.random() * cumulated[-1]
        return int(np.searchsorted(cumulated, drawn, side="right"))


def problem_env(problem: str, **options: Any) -> TabularEnv:
    """A named problem with these options as an environment; what `gymnasium.make` calls."""
    return TabularEnv(PROBLEMS[problem](**options))


def _register() -> None:
    for problem in PROBLEMS:
        name = "".join(word.capitalize() for word in problem.split("-"))
        if f"lowswitch/{name}-v0" not in gymnasium.registry:
            gymnasium.register(
                f"lowswitch/{name}-v0",
                entry_point=f"{__name__}:problem_env",
                kwargs={"problem": problem},
            )


_register()


# ---- a learner on an environment -----------------------------------------------------------------


class Episode(NamedTuple):
    """One episode as `Learner.tell` takes it, but with rewards in the environment's units."""

    states: np.ndarray  # [H]
    actions: np.ndarray  # [H]
    rewards: np.ndarray  # [H]


class Played(NamedTuple):
    """What came out of `learn`."""

    learner: Learner
    returns: np.ndarray  # [K]  sums of rewards in the environment's units
    history: History


def learn(
    env: gymnasium.Env[Any, Any],
    algorithm: Algorithm,
    *,
    horizon: int,
    episodes: int,
    seed: int = 0,
    reward_range: tuple[float, float] = (0.0, 1.0),
    progress: bool | None = None,
) -> Played:
    """Let a new learner play `episodes` episodes of an environment whose tables are unknown.

    Its states and actions must be discrete. `reward_range` is the least and the largest reward the
    environment can pay, 0 included. The first reset gets the seed. The policy has the shape [H, S +
    1] and fits the tables of `from_gymnasium`. An environment that truncates before the horizon is
    an error: whether it would have gone on is not known.
    """
    scale = reward_scale(reward_range)
    learner = learner_for(env, algorithm, horizon=horizon, episodes=episodes)
    returns, parts = np.zeros(episodes), [np.zeros((0, 4), dtype=np.int64)]
    drawn = time.perf_counter()
    with Progress(episodes * horizon, unit="steps", show=progress, label=str(algorithm)) as bar:
        for k in range(episodes):
            episode = play_episode(env, learner.policy, seed=seed if k == 0 else None)
            switch = learner.tell(episode.states, episode.actions, scale.to_unit(episode.rewards))
            returns[k] = episode.rewards.sum()
            if switch is not None:
                parts.append(switch.changes)
            if time.perf_counter() - drawn > _REDRAW_SECONDS or k + 1 == episodes:
                drawn = time.perf_counter()
                bar.update((k + 1) * horizon)
    warn_if_drowned(learner.drowned_share, algorithm)
    return Played(learner, returns, History(np.concatenate(parts)))


def learner_for(
    env: gymnasium.Env[Any, Any], algorithm: Algorithm, *, horizon: int, episodes: int
) -> Learner:
    """A learner of the right size for an environment, with S + 1 states.

    Drive it with `play_episode` and `tell`.
    """
    states, actions, allowed = spaces_of(env, require_count("horizon", horizon))
    return Learner(
        algorithm,
        horizon=horizon,
        states=states,
        actions=actions,
        episodes=episodes,
        actions_allowed=allowed,
    )


class Spaces(NamedTuple):
    """The states and actions of an environment as a learner has them."""

    states: int  # S + 1
    actions: int
    actions_allowed: np.ndarray  # [H, S + 1, A]


def spaces_of(env: gymnasium.Env[Any, Any], horizon: int) -> Spaces:
    """The states and actions of an environment that can be played for so many steps."""
    S, A, _, _ = _numbers(env)
    limit = env.spec.max_episode_steps if env.spec is not None else None
    if limit is not None and limit < horizon:
        raise ValueError(
            f"the environment truncates after {limit} steps, {_way_out(limit, horizon)}"
        )
    return Spaces(S + 1, A, checked_mask(_allowed(S, A), horizon, S + 1, A))


def reward_scale(reward_range: tuple[float, float]) -> Scale:
    """The scale from the least to the largest reward an environment can pay, 0 included."""
    scale = Scale.of(reward_range)
    low, high = scale.low, scale.high
    if not low <= 0 <= high:
        raise ValueError(
            f"reward_range must contain 0, which the steps after termination pay, not [{low:g},"
            f" {high:g}]; widen it"
        )
    return scale


class StepCounter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Knows how many steps the current episode has had, and nothing before its reset."""

    count: int | None = None

    def reset(self, **options: Any) -> Any:
        self.count = None
        answer = self.env.reset(**options)
        self.count = 0
        return answer

    def step(self, action: Any) -> Any:
        answer = self.env.step(action)
        self.count = (self.count or 0) + 1
        return answer


def play_episode(
    env: gymnasium.Env[Any, Any], policy: np.ndarray, *, seed: int | None = None
) -> Episode:
    """Play one episode by a policy [H, S + 1]; after termination the state is S, the reward 0."""
    S, _, first_state, first_action = _numbers(env)
    H = len(policy)
    if policy.shape != (H, S + 1):
        raise ValueError(
            f"a policy for this environment has the shape [H, S + 1] = [H, {S + 1}], not"
            f" {policy.shape}; make it with learner_for"
        )
    states, rewards = np.full(H, S), np.zeros(H)
    observation, _ = env.reset(seed=seed)
    for h in range(H):
        if not (isinstance(observation, int | np.integer) and 0 <= observation - first_state < S):
            last = first_state + S - 1
            raise ValueError(
                f"the environment observes {observation!r} at step {h}, outside of its states"
                f" {first_state} to {last}"
            )
        states[h] = observation - first_state
        observation, reward, terminated, truncated, _ = env.step(
            int(policy[h, states[h]]) + first_action
        )
        rewards[h] = reward
        if terminated:
            break
        if truncated and h + 1 < H:
            raise ValueError(
                f"the environment truncated the episode after {h + 1} steps, {_way_out(h + 1, H)}"
            )
    return Episode(states, policy[np.arange(H), states], rewards)


class _Numbers(NamedTuple):
    S: int
    A: int
    first_state: int  # the environment's number for it, mostly 0
    first_action: int


def _numbers(env: Any) -> _Numbers:
    """How an environment numbers its states and actions, or why it does not."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise ValueError(
            "a vector environment mixes episodes and resets itself between them; pass a single"
            " environment"
        )
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        hint = f"; make it with gymnasium.make({env!r})" if isinstance(env, str) else ""
        raise ValueError(f"env must be a Gymnasium environment, not {shown(env)}{hint}")
    states, actions = env.observation_space, env.action_space
    for what, space in (("observations", states), ("actions", actions)):
        if not isinstance(space, gymnasium.spaces.Discrete):
            raise ValueError(
                f"{what} must be Discrete, not {space}; wrap the environment in one that numbers"
                f" its {what}"
            )
    return _Numbers(int(states.n), int(actions.n), int(states.start), int(actions.start))


def _allowed(S: int, A: int) -> np.ndarray:  # [S + 1, A]
    mask = np.ones((S + 1, A), dtype=bool)
    mask[S, 1:] = False
    return mask


def _way_out(limit: int, horizon: int) -> str:
    return (
        f"before the horizon {horizon}; ask for horizon={limit} or less, or make it with"
        f" max_episode_steps={horizon}"
    )
