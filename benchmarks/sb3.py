"""How often DQN of Stable-Baselines3 changes its policy, and lowswitch on the same tasks.

    python benchmarks/sb3.py [--json FILE]

It needs the extra `sb3` and takes some minutes. A deployment is counted in the same way for both:
an episode after which the action changed in some state. DQN has no rows by step, so its table has
one action for each state, and the actions that it draws at random to explore do not count. Its
settings are written below; they were not tuned to the tasks, and neither was `few`. The script of
the page has other settings and fewer steps, so it has a row of its own. Another row is DQN with a
budget: it trains only after each tenth of a run, so its policy changes at most ten times. The value
of the last policy is exact, from the tables of the tasks. What an episode earned on average is what
was played, random actions included. Results in FILE are not computed again.
"""

import time
import warnings
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

import bench
import lowswitch as ls
from lowswitch.envs.gymnasium import TabularEnv, learn

SEEDS = 3
MORE, LONGER = 10, ("FrozenLake",)  # where DQN is also given more episodes
LEARNERS = [ls.few(deployments=10), ls.few(deployments=10, members=1)]
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "learning_starts": 200,
    "target_update_interval": 250,
    "exploration_fraction": 0.3,
    "policy_kwargs": {"net_arch": [64, 64]},
}
# the script of docs/sb3.md, on this task: everything else as Stable-Baselines3 has it
SCRIPT: dict[str, Any] = {"learning_starts": 200, "exploration_fraction": 0.3}
SCRIPT_STEPS, SCRIPT_TASK = 4_000, "FrozenLake"
# DQN that trains after each tenth of a run, and explores less and less all the time
BLOCKS = 10
BLOCKED: dict[str, Any] = {
    "exploration_fraction": 1.0,
    "exploration_final_eps": 0.1,
    "gradient_steps": 1_500,
}


class Task(NamedTuple):
    """An environment that is played for H steps an episode, with its tables."""

    name: str
    env: Any
    mdp: ls.TabularMDP
    states: int  # that are observed
    episodes: int
    reward_range: tuple[float, float] = (0.0, 1.0)


def tasks() -> list[Task]:
    river = ls.envs.riverswim(states=6, horizon=20)
    found = [Task("RiverSwim, 6 states", TabularEnv(river), river, 6, 1_000)]
    for name, slippery, horizon, episodes in (
        ("FrozenLake", False, 8, 1_000),
        ("FrozenLake, slippery", True, 20, 2_000),
    ):
        env = gymnasium.make("FrozenLake-v1", is_slippery=slippery, max_episode_steps=horizon)
        mdp = ls.from_gymnasium(env, horizon=horizon)
        found.append(Task(name, env, mdp, 16, episodes))
    return found


class Counted(BaseCallback):
    """Counts the episodes after which the greedy action changed in some state."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task, self.played, self.deployments, self.earned = task, 0, 0, 0.0
        self.table: np.ndarray | None = None

    def _on_step(self) -> bool:
        if self.locals["dones"][0]:
            self.played += 1
            self.earned += self.locals["infos"][0]["episode"]["r"]
            table = greedy(self.model, self.task.states)
            self.deployments += self.table is not None and not np.array_equal(table, self.table)
            self.table = table
        return self.played < self.task.episodes


def greedy(model: DQN, states: int) -> np.ndarray:  # [states]
    """The greedy action in each state."""
    actions, _ = model.predict(np.arange(states), deterministic=True)
    return np.asarray(actions)


def play_dqn(
    task: Task, seed: int, settings: dict[str, Any] = SETTINGS, steps: int | None = None
) -> dict[str, float]:
    begin, counted = time.process_time(), Counted(task)
    model = DQN("MlpPolicy", task.env, seed=seed, device="cpu", **settings)
    model.learn(steps or task.episodes * task.mdp.horizon, callback=counted)
    table = np.zeros(task.mdp.states, dtype=np.int64)
    table[: task.states] = greedy(model, task.states)
    value = task.mdp.evaluate(np.repeat(table[None], task.mdp.horizon, axis=0))
    return {
        "episodes": counted.played,
        "deployments": int(counted.deployments),
        "updates": int(model._n_updates),
        "last": float(value),
        "earned": counted.earned / counted.played,
        "seconds": time.process_time() - begin,
    }


def play_ours(task: Task, algorithm: ls.Algorithm, seed: int) -> dict[str, float]:
    begin = time.process_time()
    played = learn(
        task.env,
        algorithm,
        horizon=task.mdp.horizon,
        episodes=task.episodes,
        seed=seed,
        reward_range=task.reward_range,
    )
    policies = played.learner.mixture[..., : task.mdp.states]
    return {
        "episodes": len(played.returns),
        "deployments": played.learner.deployments,
        "updates": 0,
        "last": float(task.mdp.evaluate(policies)),
        "earned": float(played.returns.mean()),
        "seconds": time.process_time() - begin,
    }


def main() -> None:
    options = bench.parser(__doc__).parse_args()
    results = bench.Results(options.json)
    torch.set_num_threads(1)
    results.keep("settings", SETTINGS)
    results.keep("blocks", BLOCKED)
    for task in tasks():
        longer = task._replace(episodes=MORE * task.episodes)
        learners = {f"`{one}`": partial(play_ours, task, one) for one in LEARNERS}
        learners["DQN"] = partial(play_dqn, task)
        after = {"train_freq": (task.episodes // BLOCKS, "episode")}
        rarely = partial(play_dqn, settings=SETTINGS | BLOCKED | after)
        learners["DQN, trained after each tenth of the run"] = partial(rarely, task)
        if task.name in LONGER:
            learners[f"DQN, {MORE} times as many episodes"] = partial(play_dqn, longer)
        if task.name == SCRIPT_TASK:
            script = partial(play_dqn, settings=SCRIPT, steps=SCRIPT_STEPS)
            learners["DQN as in the script above"] = partial(script, task)
        for name, play in learners.items():
            key = f"{task.name}, H = {task.mdp.horizon}: {name}"
            if key not in results.found:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of runs that learn nothing
                    runs = [play(seed) for seed in range(SEEDS)]
                results.keep(key, {"optimal": task.mdp.optimal_value(), "runs": runs})


if __name__ == "__main__":
    main()
