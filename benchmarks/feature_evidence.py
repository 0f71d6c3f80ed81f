"""How far the evidence of a ledger with features holds: its words, probabilities and intervals.

Whole ledgers: 60 cases of three sites before each of six meetings, at which `few` proposes. The
problem and its cases are drawn anew for each seed, from ten families: rewards that are linear in
five features, of which only the levels of the actions differ, with a constant feature, with yes or
no as the reward, with a kink that no linear model has, with features of each action, and actions
that are all exactly equal; and three that served for no choice, with skewed features, with
correlated ones, and with noise of heavy tails. In every second run one action is the policy at the
beginning, so that a deployment is a protocol and a trial. In every second pair of runs reports are
late and missing, and proposals rejected, vetoed and rolled back, as in `evidence.py`, whose tables
these are.

A region is truly better if the expected reward grows when the policy changes there alone, of a
protocol and a trial the protocol; that is computed on 20,000 fresh cases.

    python benchmarks/feature_evidence.py [--runs 4] [--first 0] [--family linear] [--kept FOLDER]
        [--json docs/numbers/feature_evidence.json]
"""

import contextlib

import numpy as np

import evidence
import lowswitch as ls
from evidence import SITES
from lowswitch.ledger import Ledger, LedgerError
from lowswitch.policy.shape import Shape

MEETINGS, CASES, FEATURES, ACTIONS, FRESH = 6, 60, 5, 4, 20_000


class Problem:
    """Contexts and the mean rewards of actions in them."""

    def __init__(self, generator, *, levels=0.3, slopes=0.3, kink=0.0, **options):
        self.shared, self.constant = options.get("shared", True), options.get("constant", False)
        self.law, self.tails = options.get("law", "normal"), options.get("tails", False)
        self.binary, self.noise = options.get("binary", False), generator.uniform(0.3, 1.5)
        size = (ACTIONS, FEATURES) if self.shared else (1, FEATURES)
        self.common = generator.normal(scale=0.5, size=FEATURES) if self.shared else 0.0
        self.slopes = generator.normal(scale=slopes, size=size)
        self.levels = generator.normal(scale=levels, size=ACTIONS) * self.shared
        self.kinks = generator.normal(scale=1.0, size=ACTIONS) * kink
        self.base = generator.normal(scale=2.0)

    @property
    def shape(self):
        return Shape.of(1, FEATURES, ACTIONS, self.shared)

    def contexts(self, generator, n):
        """Contexts [n, d], or [n, A, d]."""
        x = generator.normal(size=(n, FEATURES) if self.shared else (n, ACTIONS, FEATURES))
        if self.law == "skewed":
            x = (np.exp(x) - np.exp(0.5)) / 2.16  # of mean 0 and variance 1
        if self.law == "correlated":
            x = np.sqrt(0.8) * x[..., :1] + np.sqrt(0.2) * x
        if self.constant:
            x[..., 0] = 1.0
        return x

    def means(self, x):  # [n, A]
        """The mean reward of each action."""
        if not self.shared:
            return self.base + x @ self.slopes[0]
        found = self.base + (x @ self.common)[:, None] + self.levels + x @ self.slopes.T
        found = found + self.kinks * (x[:, 1:2] > 0.5)
        return 1 / (1 + np.exp(-(found - self.base))) if self.binary else found

    def paid(self, mean, generator):
        """A reward with this mean."""
        if self.binary:
            return float(generator.random() < mean)
        error = generator.standard_t(3) / np.sqrt(3) if self.tails else generator.normal()
        return float(np.clip(mean + self.noise * error, -49, 49))


FAMILIES = {
    "linear": Problem,
    "levels alone": lambda generator: Problem(generator, slopes=0.0),
    "a constant feature": lambda generator: Problem(generator, constant=True),
    "yes or no": lambda generator: Problem(generator, levels=0.6, slopes=0.6, binary=True),
    "a kink": lambda generator: Problem(generator, kink=0.6),
    "features of actions": lambda generator: Problem(generator, shared=False),
    "skewed features": lambda generator: Problem(generator, law="skewed"),
    "correlated features": lambda generator: Problem(generator, law="correlated"),
    "heavy tails": lambda generator: Problem(generator, tails=True),
    "all equal": lambda generator: Problem(generator, levels=0.0, slopes=0.0),
}


def treat(ledger, problem, meeting, generator, disturbed):
    """Let the cases before a meeting be treated; return the reports that come after it."""
    pairs = [(SITES[i % len(SITES)], f"case {meeting * CASES + i}") for i in range(CASES)]
    contexts, reports, late = problem.contexts(generator, CASES), [], []
    means = problem.means(contexts)
    for i, issued in enumerate(ledger.ask_each(pairs)):
        choice = issued.act(contexts[i])
        paid = problem.paid(means[i, choice.action], generator)
        given = {"states": contexts[i], "actions": choice.action, "rewards": paid}
        dice = generator.random() if disturbed else 1.0
        if dice < 0.03:
            ledger.missing(issued.ticket, "lost", by="office")
        else:
            slow = dice < 0.5 and i >= 0.85 * CASES
            (late if slow else reports).append(given | {"ticket": issued.ticket})
    answers = ledger.tell_many(reports)
    assert not any(isinstance(one, Exception) for one in answers), answers
    return late


def inside(x, where):
    """Which contexts [n, ...] are in a region."""
    flat, found = x.reshape(len(x), -1), np.ones(len(x), dtype=bool)
    for column, low, high in where:
        found &= (low is None or flat[:, column] > low) & (high is None or flat[:, column] <= high)
    return found


def judged(ledger, problem, generator):
    """What the pending proposal says, beside the truth: of the whole, and of tried regions."""
    state = ledger._ready()
    payload, fresh = state.pending, problem.contexts(generator, FRESH)
    now, new = state.learner.deployed, state.learner.proposal().policy
    means = problem.means(fresh)
    gains = ((new.propensities(fresh) - now.propensities(fresh)) * means).sum(axis=1)
    change, stated = float(gains.mean()), payload["worth"]["change"]
    whole, rows = covered(change, stated), []
    if new.has_protocol:
        old, better = (one.protocol.propensities(fresh) for one in (now, new))
        gains = ((better - old) * means).sum(axis=1)
    for one in payload["rows"][0]["regions"]:
        if one["verdict"] in (None, "UNTRIED"):
            continue
        true, stated = float((gains * inside(fresh, one["where"])).mean()), one["gain"]
        within = covered(true, stated)
        rows.append([one["probability"], true, *within, one["verdict"] == "IMPROVE", 0, 0])
    return {"change": change, "within": whole, "rows": rows}


def covered(true, stated):
    """Whether the stated intervals of 80 and 95 % cover the truth."""
    return [low <= true <= high for low, high in (stated["within_80"], stated["within_95"])]


def decided(ledger, proposal, meeting, disturbed):
    """What the board does with a proposal."""
    if disturbed and meeting == 1:
        ledger.reject(proposal, by="board", reason="more data first")
    elif disturbed and meeting == 2:
        ledger.reject(proposal, by="board", reason="interaction", forever=True, actions=[3])
    else:
        ledger.approve(proposal, by="board", reason=f"meeting {meeting + 1}")
    if disturbed and meeting == 4 and ledger.version > 1:
        with contextlib.suppress(LedgerError):  # it may play what is forbidden since
            ledger.rollback(ledger.version - 1, by="office", reason="adverse events")


def always(shape, action):
    """A policy that plays one action."""
    weights = np.zeros((1, shape.features, shape.blocks, 1))
    allowed = np.arange(shape.actions)[None] == action
    return ls.LinearPolicy(shape, weights, np.uint64(0), allowed=allowed)


def followed(address, name, seed):
    """All proposals of one run."""
    generator = np.random.default_rng([seed, 7])
    problem, disturbed, found = FAMILIES[name](np.random.default_rng([seed, 6])), seed % 4 >= 2, []
    shape = problem.shape
    policy = always(shape, 0) if seed % 2 else None
    algorithm = ls.few(deployments=MEETINGS + 3, asked=True)
    rewards = (0, 1) if problem.binary else (-50, 50)
    size = shape._asdict() | {"episodes": MEETINGS * CASES, "rewards": rewards, "policy": policy}
    late = []
    with Ledger.create(address, algorithm, **size, seed=seed) as ledger:
        for meeting in range(MEETINGS):
            ledger.tell_many(late)
            late = treat(ledger, problem, meeting, generator, disturbed)
            proposal = ledger.propose(by="secretary")
            if proposal is not None and proposal.worth is not None:
                facts = {"meeting": meeting, "disturbed": disturbed, "protocol": seed % 2}
                found.append(facts | judged(ledger, problem, generator))
                decided(ledger, proposal, meeting, disturbed)
        if seed % 20 == 0:
            assert ledger.verify(progress=False).whole
    return found


if __name__ == "__main__":
    given = evidence.parser(__doc__, FAMILIES).parse_args()
    setting = {"meetings": MEETINGS, "patients": MEETINGS * CASES}
    evidence.told(FAMILIES, followed, ("recorded",), given, setting)
