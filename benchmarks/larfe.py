"""How good LARFE's last policy is after phases of a given length, and what other learners lose.

    python benchmarks/larfe.py [--json docs/numbers/larfe.json]

The theorem: after 2 H deployments, any reward can be planned for with an error that falls like one
over the root of the number of episodes. So each problem is played with several rewards, drawn
anew, on the same transition laws. A rival has as many episodes and a budget of as many deployments.
"""

import numpy as np

import bench
import lowswitch as ls
from lowswitch import envs

SEEDS, REWARDS = 8, 4
PHASES = (10, 30, 100, 300, 1_000)
PROBLEMS = {
    "random (8, 3, 5)": "random-mdp:states=8,actions=3,horizon=5,seed=815",
    "Garnet (10, 3, 6)": "garnet:states=10,actions=3,horizon=6,branching=2,seed=816",
}
MEMBERS = 30
RIVALS = ("psrl:members=30,schedule=grid/equal/{N+1}", "mvp:c=0.0001,schedule=growth/2")


def with_rewards(text):
    """A problem with its own rewards and with others: 1 in one of ten pairs, else 0."""
    mdp = envs.make(text)
    generator = np.random.default_rng(17)
    yield mdp
    for _ in range(REWARDS - 1):
        rewards = (generator.random((mdp.states, mdp.actions)) < 0.1).astype(float)
        yield ls.TabularMDP(mdp.transitions, rewards, horizon=mdp.horizon, start=mdp.start_law)


def lost(mdp, algorithm, episodes):
    """The share of the optimal value that the last policy loses, averaged over the runs."""
    runs = ls.simulate(mdp, algorithm, episodes=episodes, seeds=SEEDS, progress=False)
    members = [policy.reshape(-1, mdp.horizon, mdp.states) for policy in runs.policy]
    worth = np.mean([mdp.evaluate(one) for policies in members for one in policies])
    assert runs.deployments.max() <= 2 * mdp.horizon + 1
    return 1 - float(worth) / mdp.optimal_value()


def measured(text, phase):
    """What LARFE and its rivals lose on the problems of one transition law."""
    found = {}
    for mdp in with_rewards(text):
        most = 2 * mdp.horizon + 1
        learners = [f"larfe:phase={phase},members={MEMBERS}"]
        for rival in RIVALS:
            dates = rival.replace("{N+1}", str(most + 1))
            learners.append(f"{dates},deployments={most},last=exploit")
        for one in learners:
            algorithm = ls.Algorithm.from_text(one)
            loss = lost(mdp, algorithm, phase * (2 * mdp.horizon + 2))
            found.setdefault(one.partition(":")[0], []).append(loss)
    return {name: float(np.mean(losses)) for name, losses in found.items()}


def main():
    options = bench.parser(__doc__).parse_args()
    results = {}
    for name, text in PROBLEMS.items():
        rows = {str(phase): measured(text, phase) for phase in PHASES}
        for phase, row in rows.items():
            print(f"{name:18} {phase:>6}" + "".join(f"{v:9.4f}" for v in row.values()), flush=True)
        results[name] = {"deployments": 2 * envs.make(text).horizon + 1, "phases": rows}
    setting = {"seeds": SEEDS, "rewards": REWARDS}
    bench.write(options.json, {"run": bench.described(), "setting": setting, "results": results})


if __name__ == "__main__":
    main()
