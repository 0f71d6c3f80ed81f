"""What an adversary costs who chooses the start of each episode, and why rounds are no defence.

    python benchmarks/adversary.py [--json docs/numbers/adversary.json]

The theorems allow an adversary who knows the algorithm. This one sees the deployed policy and the
estimates before every episode. "regret" starts where the deployed policy loses most, by the true
values; "estimates" where the learner's optimistic value is furthest above the true value of what
is deployed. Both are compared with starts drawn in advance.

The second part plays the same learner in rounds of ten machines: the starts of a round are chosen
before it, because its episodes run at the same time. Episodes after a change of the policy are
discarded and played again. With starts drawn in advance the row changes are those of the sequential
run. An adversary who sees the estimates chooses other starts, so they are not.
"""

import numpy as np

import bench
import lowswitch as ls
from lowswitch import envs
from lowswitch.reproduce.pseudocode import play_episode, start

EPISODES, SEEDS, MACHINES = 10_000, 3, 10
PROBLEMS = {
    "random (5, 3, 5)": "random-mdp:states=5,actions=3,horizon=5,seed=0",
    "random (12, 3, 4)": "random-mdp:states=12,actions=3,horizon=4,seed=99",
}
LEARNERS = {
    "ucb2-h": ls.ucb2_hoeffding(c=0.05),
    "ucb2-b": ls.ucb2_bernstein(c=0.05),
    "mvp": ls.mvp(c=0.0001),
}


class Game:
    """A learner whose starts somebody chooses."""

    def __init__(self, mdp, algorithm, chooser, seed, episodes):
        self.mdp, self.chooser, self.seed = mdp, chooser, seed
        size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
        self.learner = ls.Learner(algorithm, **size, episodes=episodes)
        self.regret, self.changes = 0.0, []
        self.look()

    def look(self):
        """Evaluate what is deployed now."""
        self.policy = self.learner.policy
        self.worth = self.mdp.policy_values(self.policy)[0]
        self.lost = self.mdp.optimal_values[0] - self.worth

    def choose(self, k):
        """The start of episode k, by what is known now."""
        if self.chooser == "drawn":
            return start(self.mdp, self.seed, k)
        if self.chooser == "regret":
            return int(self.lost.argmax())
        return int((self.learner.values[0] - self.worth).argmax())

    def play(self, k, first):
        """Play an episode and learn it; return whether the policy changed."""
        self.regret += self.lost[first]
        said = self.learner.tell(*play_episode(self.mdp, self.policy, self.seed, k, first))
        if said is not None:
            self.changes += said.changes.tolist()
            self.look()
        return said is not None


def one_by_one(mdp, algorithm, chooser, seed, episodes):
    """The starts are chosen before every episode."""
    game = Game(mdp, algorithm, chooser, seed, episodes)
    for k in range(episodes):
        game.play(k, game.choose(k))
    return game


def in_rounds(mdp, algorithm, chooser, seed, episodes):
    """The starts of a round are chosen before it; what follows a change is discarded."""
    game, k = Game(mdp, algorithm, chooser, seed, episodes), 0
    while k < episodes:
        starts = [game.choose(one) for one in range(k, min(k + MACHINES, episodes))]
        for first in starts:
            k += 1
            if game.play(k - 1, first):
                break
    return game


def first_difference(one, other, episodes):
    """The episode after which two lists of changes differ for the first time."""
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            return min(mine[0], yours[0])
    if len(one) == len(other):
        return episodes
    return max(one, other, key=len)[min(len(one), len(other))][0]


def measured(mdp, algorithm, chooser):
    """Costs with a chooser of starts, and how long rounds follow the sequential run."""
    rows = []
    for seed in range(SEEDS):
        game = one_by_one(mdp, algorithm, chooser, seed, EPISODES)
        other = in_rounds(mdp, algorithm, chooser, seed, EPISODES)
        rows.append(
            {
                "regret": game.regret,
                "switches": game.learner.local_switches,
                "deployments": game.learner.deployments,
                "in_rounds": other.regret,
                "alike": first_difference(game.changes, other.changes, EPISODES),
            }
        )
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def main():
    options = bench.parser(__doc__).parse_args()
    results = {}
    for problem, text in PROBLEMS.items():
        mdp = envs.make(text)
        for name, algorithm in LEARNERS.items():
            for chooser in ("drawn", "regret", "estimates"):
                found = measured(mdp, algorithm, chooser)
                results.setdefault(problem, {}).setdefault(name, {})[chooser] = found
                numbers = "".join(f"{value:12,.1f}" for value in found.values())
                print(f"{problem:18} {name:8} {chooser:10}{numbers}", flush=True)
    setting = {"episodes": EPISODES, "seeds": SEEDS, "machines": MACHINES}
    bench.write(options.json, {"run": bench.described(), "setting": setting, "results": results})


if __name__ == "__main__":
    main()
