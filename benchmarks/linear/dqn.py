"""The rival of the learned motion: DQN of Stable-Baselines3 on CartPole, deployments counted.

    pip install stable-baselines3
    python benchmarks/linear/dqn.py --steps 50000 --seeds 5 --json docs/numbers/linear_dqn.json

A deployment is a change of the network that acts: DQN trains it every `train_freq` steps, so each
such time counts. The settings are those that RL Baselines3 Zoo tuned for CartPole. Seeds that the
file has are kept, and those that are missing are run.
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import gymnasium
import numpy as np

import bench


def run(seed, steps):
    from stable_baselines3 import DQN
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    env = Monitor(gymnasium.make("CartPole-v1"))
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1000,
        gamma=0.99,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        device="cpu",
    )
    model.learn(steps)
    mean, _ = evaluate_policy(model, gymnasium.make("CartPole-v1"), n_eval_episodes=10, warn=False)
    deployments = max(0, (steps - 1000) // 256)
    return {
        "return": float(mean),
        "deployments": deployments,
        "episodes": len(env.get_episode_rewards()),
        "steps": steps,
    }


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    rows = known(options.json, options.steps)
    while len(rows) < options.seeds:
        rows.append(run(len(rows), options.steps))
        print(f"seed {len(rows) - 1}: {rows[-1]}", flush=True)
        bench.write(options.json, summary(rows))
    print(json.dumps(summary(rows), indent=1))


def known(path, steps):
    """The seeds that a file has, from 0 on, if they are of so many steps."""
    rows = bench.read(path).get("rows", [])
    return rows if all(row["steps"] == steps for row in rows) else []


def summary(rows):
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return {"rows": rows, **means}


if __name__ == "__main__":
    main()
