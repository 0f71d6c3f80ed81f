"""Draw the README's figure, docs/images/riverswim.png: the paper's learners beside their every-visit baselines on RiverSwim."""

from pathlib import Path

import lowswitch as ls

EPISODES, SEEDS, SCALE = 1_000_000, 16, 0.05
LEARNERS = {
    "UCB-H, every visit": ls.ucb_hoeffding(c=SCALE),
    "UCB2-H": ls.ucb2_hoeffding(c=SCALE),
    "UCB-B, every visit": ls.ucb_bernstein(c=SCALE),
    "UCB2-B": ls.ucb2_bernstein(c=SCALE),
}


def main() -> None:
    mdp = ls.envs.riverswim(states=6, horizon=10)
    runs = {label: ls.simulate(mdp, learner, episodes=EPISODES, seeds=SEEDS) for label, learner in LEARNERS.items()}
    path = Path(__file__).parent / "images" / "riverswim.png"
    ls.plot(runs, title="RiverSwim", path=path)
    print(path)


if __name__ == "__main__":
    main()
