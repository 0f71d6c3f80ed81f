"""Q-EarlySettled-Advantage: upper and lower estimates, and references that settle between them."""

import math

import numpy as np
import pytest

import lowswitch as ls
from conftest import PROBLEMS, learner_for
from lowswitch.kernels import settled
from lowswitch.kernels.arrays import SETTLED_ROW
from lowswitch.reproduce.pseudocode import play_episode

EPISODES = 3_000
WITHOUT_TIES = ("dense", "per-step", "masked-sequence", "reward-by-step")


# ---- formulas ------------------------------------------------------------------------------------


def test_the_spread_of_weighted_means():
    assert settled.spread(3.0, 25.0) == 4
    assert settled.spread(1.0, 1.0 - 1e-17) == 0


def test_the_width_and_the_bonus_by_hand():
    assert settled.settled_width(4, 9.0, 16, 1.0, 2.0) == 3 / 4 * (1 + 2 * 2)
    # B = 5 after 3, alpha = 1/4: 5 + 3 * 2, and c H^2 iota / n^(3/4) = 0.5 * 4 * 8 / 8
    assert settled.settled_bonus(2, 8.0, 0.5, 16, 0.25, 5.0, 3.0) == 5 + 6 + 2


def test_a_reference_follows_the_value_until_it_settles():
    row = np.zeros(1, dtype=SETTLED_ROW)[0]
    for value, lower, reference, done in (
        (5.0, 0.0, 5.0, 0),
        (4.0, 2.5, 4.0, 0),
        (3.5, 2.5, 3.5, 1),  # 1 apart: settled
        (3.0, 2.5, 3.5, 1),
        (4.0, 0.0, 3.5, 1),  # and it stays so
    ):
        row["value"], row["lower"] = value, lower
        settled.settle_reference(row, 1.0)
        assert (row["reference"], row["settled"]) == (reference, done)


def test_two_visits_by_hand():
    """H = 1 without next values: all targets are the reward, and alpha_2 is 2/3."""
    learner = ls.Learner(ls.early_settled(c=0.01), horizon=1, states=1, actions=2, episodes=10)
    iota = math.log(2 * 10 / 0.05)
    plain, rest = 0.01 * math.sqrt(iota), 0.01 * iota
    learner.tell([0], [0], [0.3])
    assert learner.q[0, 0, 0] == pytest.approx(0.3 + min(plain, rest))
    cell = learner._knowledge.tables.cells[0]
    assert cell["lower"] == pytest.approx(0.3 - plain)
    learner.tell([0], [1], [0.9])
    learner.tell([0], [1], [0.6])
    one, other = plain, plain / math.sqrt(2)
    upper = 0.9 / 3 + 0.6 * 2 / 3 + one / 3 + other * 2 / 3
    assert learner._knowledge.tables.cells[1]["upper"] == pytest.approx(upper)
    assert learner._knowledge.tables.rows[0]["settled"] == 1


# ---- the paper in plain Python -------------------------------------------------------------------


class PlainEarlySettled:
    """Li et al. 2021, Algorithm 1 with all its subroutines, line by line; a row is deployed at its
    triggers.
    """

    def __init__(self, mdp, algorithm, episodes):
        self.H, self.S, self.A = H, S, A = mdp.horizon, mdp.states, mdp.actions
        self.c, self.settle = algorithm.bonus.c, algorithm.estimator.settle
        self.log = algorithm.iota(horizon=H, states=S, actions=A, episodes=episodes)
        triggers = algorithm.schedule.triggers(horizon=H, limit=episodes)
        self.triggers = set(range(1, triggers.every_until + 1)) | set(triggers.later)
        caps = algorithm.estimator.caps(H)
        self.Q = np.where(mdp.actions_allowed, caps[:, None, None], -np.inf)
        self.Qucb = np.broadcast_to(caps[:, None, None], (H, S, A)).copy()
        self.Qref, self.Qlcb = self.Qucb.copy(), np.zeros((H, S, A))
        self.V = np.vstack([np.repeat(caps[:, None], S, axis=1), np.zeros(S)])
        self.Vref, self.Vlcb = self.V.copy(), np.zeros((H + 1, S))
        self.u_ref = np.ones((H, S), dtype=bool)
        self.N = np.zeros((H, S, A), dtype=int)
        self.mu_ref, self.sigma_ref, self.mu_adv, self.sigma_adv, self.B = np.zeros((5, H, S, A))
        self.policy = mdp.actions_allowed.argmax(axis=-1)

    def digest(self, h, x, a, r, y):
        here, H = (h, x, a), self.H
        self.N[here] += 1
        n = self.N[here]
        eta = (H + 1) / (H + n)
        V, Vref, Vlcb = self.V[h + 1, y], self.Vref[h + 1, y], self.Vlcb[h + 1, y]
        b = self.c * math.sqrt(H**3 * self.log / n)
        self.Qucb[here] = (1 - eta) * self.Qucb[here] + eta * (r + V + b)
        self.Qlcb[here] = (1 - eta) * self.Qlcb[here] + eta * (r + Vlcb - b)
        self.mu_ref[here] = (1 - 1 / n) * self.mu_ref[here] + Vref / n
        self.sigma_ref[here] = (1 - 1 / n) * self.sigma_ref[here] + Vref**2 / n
        self.mu_adv[here] = (1 - eta) * self.mu_adv[here] + eta * (V - Vref)
        self.sigma_adv[here] = (1 - eta) * self.sigma_adv[here] + eta * (V - Vref) ** 2
        var_ref = max(0.0, self.sigma_ref[here] - self.mu_ref[here] ** 2)
        var_adv = max(0.0, self.sigma_adv[here] - self.mu_adv[here] ** 2)
        B = self.c * math.sqrt(self.log / n) * (math.sqrt(var_ref) + math.sqrt(H * var_adv))
        delta, self.B[here] = B - self.B[here], B
        b = B + (1 - eta) * delta / eta + self.c * H**2 * self.log / n**0.75
        target = r + V - Vref + self.mu_ref[here] + b
        self.Qref[here] = (1 - eta) * self.Qref[here] + eta * target
        self.Q[here] = min(self.Qref[here], self.Qucb[here], self.Q[here])
        self.V[h, x] = self.Q[h, x].max()
        self.Vlcb[h, x] = max(self.Qlcb[h, x].max(), self.Vlcb[h, x])
        if self.V[h, x] - self.Vlcb[h, x] > self.settle and self.u_ref[h, x]:
            self.Vref[h, x] = self.V[h, x]
        elif self.u_ref[h, x]:
            self.Vref[h, x], self.u_ref[h, x] = self.V[h, x], False
        if n in self.triggers and self.Q[h, x, self.policy[h, x]] < self.V[h, x]:
            self.policy[h, x] = self.Q[h, x].argmax()


def play(learner, mdp):
    """The plain learner after its episodes, and its row changes."""
    changes = []
    for k in range(EPISODES):
        before = learner.policy.copy()
        states, actions, rewards = play_episode(mdp, before, 0, k)
        for h in range(mdp.horizon):
            y = states[h + 1] if h + 1 < mdp.horizon else 0
            learner.digest(h, states[h], actions[h], rewards[h], y)
        changed = np.argwhere(learner.policy != before).tolist()
        changes += [[k, h, x, int(learner.policy[h, x])] for h, x in changed]
    return learner, changes


RECIPES = {
    "as-published": ls.early_settled(c=0.01),
    "large": ls.early_settled(c=0.05, settle=0.5),
    "doubling": ls.early_settled(c=0.002, clip="remaining", schedule="growth/1.5"),
}


@pytest.mark.parametrize("problem", WITHOUT_TIES)
@pytest.mark.parametrize("name", RECIPES)
def test_the_library_s_learner_is_the_paper_s(name, problem):
    """The same row changes after the same episodes; powers and sums may round differently."""
    mdp = PROBLEMS[problem]()
    _, changes = play(PlainEarlySettled(mdp, RECIPES[name], EPISODES), mdp)
    runs = ls.simulate(
        mdp, RECIPES[name], episodes=EPISODES, seeds=[0], history=True, progress=False
    )
    assert runs.history[0].changes.tolist() == changes
    assert len(changes) > 10


def test_references_settle_and_stay():
    """Most references settle; both kinds of estimates are the smaller one somewhere."""
    mdp, algorithm = PROBLEMS["dense"](), ls.early_settled(c=0.002)
    plain, _ = play(PlainEarlySettled(mdp, algorithm, EPISODES), mdp)
    assert 0.5 < 1 - plain.u_ref.mean() <= 1
    seen = plain.N > 10
    assert 0 < (plain.Qref < plain.Qucb)[seen].mean() < 1


def test_mixtures_and_settling_at_no_distance_are_refused():
    with pytest.raises(ValueError, match="leave scales out"):
        ls.early_settled(scales=(1, 0.1))
    with pytest.raises(ValueError, match="settle must be"):
        ls.early_settled(settle=0)


# ---- in place of a number of visits in UCB-Advantage ---------------------------------------------


class PlainSettledStages:
    """Zhang, Zhou, Ji 2020, Algorithm 1, with the settling rule of Li et al. 2021 for references.

    The lower estimate of a stage is its mean of reward and next lower value, minus the stage's
    bonus, and never falls.
    """

    def __init__(self, mdp, algorithm, episodes):
        self.H, self.S, self.A = H, S, A = mdp.horizon, mdp.states, mdp.actions
        self.c, self.settle = algorithm.bonus.c, algorithm.estimator.settle
        self.iota = algorithm.iota(horizon=H, states=S, actions=A, episodes=episodes)
        self.ends = set(algorithm.schedule.triggers(horizon=H, limit=episodes).later)
        caps = algorithm.estimator.caps(H)
        self.Q = np.where(mdp.actions_allowed, caps[:, None, None], -np.inf)
        self.V = np.vstack([np.repeat(caps[:, None], S, axis=1), np.zeros(S)])
        self.Vref, self.Vlow = self.V.copy(), np.zeros((H + 1, S))
        self.open = np.ones((H, S), dtype=bool)
        self.seen = {}  # (h, x, a) -> all visits as (reward, value, reference, lower value)
        self.begun = {}  # (h, x, a) -> visits before the stage
        self.policy = mdp.actions_allowed.argmax(axis=-1)

    def digest(self, h, x, a, r, y):
        here = (h, x, a)
        seen = self.seen.setdefault(here, [])
        seen.append((r, self.V[h + 1, y], self.Vref[h + 1, y], self.Vlow[h + 1, y]))
        if len(seen) in self.ends:
            self.end_stage(h, x, here, np.array(seen))

    def end_stage(self, h, x, here, seen):
        n, stage = len(seen), seen[self.begun.get(here, 0) :]
        m, i, H = len(stage), self.iota, self.H
        self.begun[here] = n
        reward, value, reference, lower = stage.T
        width = self.c * 2 * math.sqrt(H * H * i / m)
        first = np.mean(reward + value) + width
        nu_ref, nu = np.var(seen[:, 2]), np.var(value - reference)
        rest = i / n + i / m + (i / n) ** 0.75 + (i / m) ** 0.75
        b = self.c * (2 * math.sqrt(nu_ref * i / n) + 2 * math.sqrt(nu * i / m) + 5 * H * rest)
        second = seen[:, 0].mean() + seen[:, 2].mean() + np.mean(value - reference) + b
        self.Q[here] = min(self.Q[here], first, second)
        self.V[h, x] = self.Q[h, x].max()
        self.Vlow[h, x] = max(self.Vlow[h, x], np.mean(reward + lower) - width)
        if self.open[h, x]:
            self.Vref[h, x] = self.V[h, x]
            self.open[h, x] = self.V[h, x] - self.Vlow[h, x] > self.settle
        if self.Q[h, x, self.policy[h, x]] < self.V[h, x]:
            self.policy[h, x] = self.Q[h, x].argmax()


@pytest.mark.parametrize("problem", WITHOUT_TIES)
def test_references_of_ucb_advantage_may_settle_early(problem):
    mdp = PROBLEMS[problem]()
    algorithm = ls.ucb_advantage(c=0.004, reference="settled", settle=0.5)
    plain, changes = play(PlainSettledStages(mdp, algorithm, EPISODES), mdp)
    learner, told = learner_for(mdp, algorithm, EPISODES), []
    for k in range(EPISODES):
        switch = learner.tell(*play_episode(mdp, learner.policy, 0, k))
        told += [] if switch is None else switch.changes.tolist()
    assert told == changes
    rows = learner._knowledge.tables.rows.reshape(mdp.horizon + 1, mdp.states)
    for name, expected in (("value", plain.V), ("lower", plain.Vlow), ("reference", plain.Vref)):
        assert rows[name] == pytest.approx(expected)
    assert (rows["settled"][:-1] == 1 - plain.open).all()
    assert plain.Vlow.max() > 0
    assert not plain.open.all()
