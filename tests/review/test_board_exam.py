"""One exam for the board: what it decides means the same for every kind of policy.

All learners meet the board on the same dates, after 5, 20 and 60 episodes, and see noise for
rewards, so that they want another policy on each of them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.policy.shape import Shape
from lowswitch.policy.tables import TablePolicy

DATES, EPISODES = (5, 20, 60), 100
TABLE = {"horizon": 2, "states": 3, "actions": 3}
FEATURES = {"horizon": 2, "features": 2, "actions": 3}
ZERO = ls.LinearPolicy(Shape.of(*FEATURES.values()), np.zeros((2, 2, 3, 1)), np.uint64(0))


@dataclass(frozen=True)
class Kind:
    recipe: Any
    size: dict
    options: dict
    has_rows: bool = True

    def learner(self, schedule="asked/5-20-60", gate="review", **options):
        algorithm = self.recipe(**self.options, schedule=schedule, **options)
        return ls.Learner(algorithm, **self.size, episodes=EPISODES, gate=gate)

    def context(self, generator, told):
        """Features, or a state; the last state is not seen before the first date."""
        if self.has_rows:
            return int(generator.integers(2 if told < DATES[0] else 3))
        return generator.normal(size=2)


KINDS = {
    "a table of a Q-learner": Kind(ls.q_hoeffding, TABLE, {"c": 0.1}),
    "a table of a planner": Kind(ls.ucbvi, TABLE, {"c": 0.001}),
    "a mixture of a Q-learner": Kind(ls.q_hoeffding, TABLE, {"c": 0.3, "scales": (1, 0.3, 0)}),
    "a mixture of a planner": Kind(ls.ucbvi, TABLE, {"c": 0.01, "scales": (1, 0.3, 0)}),
    "features": Kind(ls.linear, FEATURES | {"initial": ZERO}, {"members": 3}, has_rows=False),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


def played(kind, learner):
    """The next episode, by the deployed policy; its rewards are noise."""
    generator = np.random.default_rng(learner.told)
    contexts = [kind.context(generator, learner.told) for _ in range(2)]
    actions = [learner.act(x, h).action for h, x in enumerate(contexts)]
    return contexts, actions, generator.random(2)


def tell(kind, learner, until):
    """Play and tell episodes until so many are told."""
    while learner.told < until:
        learner.tell(*played(kind, learner))
    return learner


def pending(kind, **options):
    """A learner whose first proposal waits."""
    learner = tell(kind, kind.learner(**options), 5)
    assert learner.proposal() is not None
    return learner


# ---- proposals -----------------------------------------------------------------------------------


def test_nothing_is_deployed_before_it_is_approved(kind):
    learner = kind.learner()
    first = learner.deployed.identity
    assert learner.dates.tolist() == [*DATES]
    assert learner.why_nothing() == "nothing is due, and nobody has asked"
    tell(kind, learner, 7)
    proposal = learner.proposal()
    assert (proposal.number, proposal.told, proposal.base) == (1, 5, first)
    assert (learner.deployed.identity, learner.deployments, learner.proposed) == (first, 0, 1)
    assert (learner.why_nothing(), learner.dates.tolist()) == (None, [20, 60])
    assert learner.approve(proposal) is not None
    assert (learner.deployments, learner.proposed, learner.proposal()) == (1, 1, None)
    assert learner.deployed.identity != first


def test_what_becomes_due_meanwhile_waits_and_is_made_of_all_data(kind):
    learner = tell(kind, pending(kind), 25)
    first = learner.proposal()
    assert (first.told, learner.proposed) == (5, 1)
    learner.approve(first.hash)
    second = learner.proposal()
    assert (second.number, second.told, learner.proposed) == (2, 25, 2)
    assert second.base == learner.deployed.identity
    with pytest.raises(ValueError, match="is no longer pending; the pending one is"):
        learner.approve(first)


def test_a_proposal_that_is_replaced_costs_nothing(kind):
    learner = pending(kind, deployments=2)
    first = learner.proposal()
    second = tell(kind, learner, 10) and learner.propose()
    assert (second.number, second.told, learner.proposed) == (2, 10, 1)
    assert second.hash != first.hash
    learner.approve(second)
    assert (learner.deployments, learner.proposed) == (1, 1)


def test_an_open_gate_deploys_at_once_and_has_nothing_to_decide(kind):
    learner = kind.learner(schedule="asked", gate="open")
    tell(kind, learner, 8)
    before = learner.deployed.identity
    made = learner.propose()
    assert (made.number, made.told, made.base) == (1, 8, before)
    assert (learner.deployments, learner.proposal()) == (1, None)
    assert learner.deployed.identity != before
    assert "the gate is open" in learner.why_nothing()
    for decide in (learner.approve, learner.reject, learner.freeze, learner.thaw):
        with pytest.raises(ValueError, match='make it with gate="review"'):
            decide()


# ---- decisions -----------------------------------------------------------------------------------


def test_a_part_is_approved_where_a_policy_has_parts(kind):
    learner = pending(kind)
    proposal, before = learner.proposal(), learner.deployed
    if not kind.has_rows:
        with pytest.raises(ValueError, match="decided on as a whole"):
            learner.approve(rows=[(0, 0)])
        assert (learner.proposal(), learner.deployed) == (proposal, before)
        return
    first, *others = [row.row for row in proposal.rows]
    learner.approve(rows=[first])
    assert learner.deployed.difference(before).tolist() == [list(first)]
    assert [row.row for row in learner.proposal().rows] == others
    assert (learner.proposal().number, learner.deployments, learner.proposed) == (2, 1, 1)


def test_what_is_rejected_for_now_comes_again_on_the_next_date(kind):
    learner = pending(kind)
    before = learner.deployed.identity
    learner.reject(learner.proposal())
    assert (learner.deployed.identity, learner.deployments) == (before, 0)
    assert bool(learner.held) == kind.has_rows
    tell(kind, learner, 19)
    assert learner.proposal() is None
    assert ("postponed" in learner.why_nothing()) == kind.has_rows
    tell(kind, learner, 20)
    assert (learner.proposal().number, learner.proposed, learner.held) == (2, 2, [])


def test_what_is_rejected_for_ever_is_never_deployed(kind):
    learner = pending(kind)
    proposal, before = learner.proposal(), learner.deployed.identity
    if kind.has_rows:
        new = [row for row in proposal.rows if row.new_actions]
        vetoed = {(*row.row, action) for row in new for action in row.new_actions}
        learner.reject(rows=[row.row for row in new], forever=True)
    else:
        vetoed = set(proposal.new_actions)
        learner.reject(forever=True)
    assert vetoed
    assert {(*place,) for place in np.argwhere(~learner.actions_allowed).tolist()} == vetoed
    assert learner.deployed.identity == before
    for k in range(5, EPISODES):
        contexts, actions, rewards = played(kind, learner)
        places = zip(range(2), contexts, actions, strict=True)
        assert not {place if kind.has_rows else place[::2] for place in places} & vetoed
        learner.tell(contexts, actions, rewards)
        if learner.proposal() is not None:
            learner.approve()
        assert k != 60 or learner.deployments > 0


def test_a_frozen_learner_learns_and_proposes_when_it_is_thawed(kind):
    learner = pending(kind)
    learner.freeze()
    for decide in (learner.approve, learner.propose):
        with pytest.raises(ValueError, match="while the learner is frozen; call thaw first"):
            decide()
    learner.reject()
    tell(kind, learner, 30)
    assert (learner.paused, learner.proposal(), learner.told) == (True, None, 30)
    assert learner.why_nothing() == "the learner is frozen"
    learner.thaw()
    assert (learner.paused, learner.proposal().told) == (False, 30)


def test_a_rollback_deploys_an_earlier_policy_and_holds_what_it_changes(kind):
    learner = pending(kind)
    first = learner.deployed
    assert learner.install(as_given(first)) is None
    assert (learner.deployments, learner.proposal().number) == (0, 1)
    learner.approve()
    second = learner.deployed
    assert learner.install(as_given(first)) is not None
    assert (learner.deployed.identity, learner.deployments) == (first.identity, 2)
    assert learner.held == (
        [tuple(row) for row in first.difference(second)] if kind.has_rows else []
    )
    assert learner.proposed == 1


def as_given(policy):
    """A deployed policy as `install` takes it: tables as an array."""
    return policy.actions if isinstance(policy, TablePolicy) else policy


def other_policy(kind, deployed):
    """A policy that plays another action in one row, or in all contexts."""
    if kind.has_rows:
        actions = deployed.actions.copy()
        actions[:, 1, 2] = (actions[:, 1, 2] + 1) % 3
        return actions
    weights = np.zeros((2, 2, 3, 1))
    weights[:, :, 1] = 1.0
    return ls.LinearPolicy(ZERO.shape, weights, np.uint64(0))


def test_a_budget_counts_what_is_proposed(kind):
    learner = pending(kind, deployments=2)
    learner.reject()
    tell(kind, learner, 20)
    assert (learner.proposed, learner.budget_spent) == (2, True)
    learner.approve()
    tell(kind, learner, EPISODES)
    assert (learner.proposal(), learner.deployments, learner.dates.tolist()) == (None, 1, [])
    assert learner.why_nothing() == "the budget is spent, and the deployed policy stays"
    with pytest.raises(ValueError, match="the budget is spent"):
        learner.propose()


def test_an_install_withdraws_a_proposal_and_leaves_its_budget_to_the_next_one(kind):
    learner = pending(kind, deployments=1)
    first = learner.proposal()
    assert learner.budget_spent
    learner.install(other_policy(kind, learner.deployed))
    with pytest.raises(ValueError, match="is no longer pending|nothing is proposed"):
        learner.approve(first)
    made = learner.proposal() or learner.propose()  # rows that did not change wait no longer
    assert (made.number, made.base, learner.proposed) == (2, learner.deployed.identity, 1)
    learner.approve()
    assert (learner.deployments, learner.budget_spent) == (2, True)


# ---- all or nothing ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (lambda one: one.approve("0" * 64), "the proposal 000000000000 is no longer pending"),
        (lambda one: one.approve(rows=[(9, 9)]), "is not proposed|decided on as a whole"),
        (lambda one: one.approve(rows=[]), "at least one|decided on as a whole"),
        (lambda one: one.reject(visits=0), "visits must be a whole number from 1|leave it out"),
        (
            lambda one: one.reject(visits=3, forever=True),
            "a forbidden action is not held; leave it out",
        ),
        (lambda one: one.reject(forever="yes"), "forever must be True or False"),
        (lambda one: one.reject(actions=[1]), "add forever=True, or leave it out"),
        (lambda one: one.reject(forever=True, actions=[9]), "actions must be 0 to"),
        (lambda one: one.reject(forever=True, actions=[]), "at least one"),
        (lambda one: one.install([[7]]), "polic(y|ies)"),
    ],
)
def test_a_decision_that_is_refused_changes_nothing(kind, decide, message):
    learner = pending(kind)
    before, proposal = learner.digest(), learner.proposal()
    with pytest.raises(ValueError, match=message):
        decide(learner)
    assert (learner.digest(), learner.proposal()) == (before, proposal)


def test_nothing_can_be_decided_twice(kind):
    learner = pending(kind)
    learner.approve()
    for decide in (learner.approve, learner.reject):
        with pytest.raises(ValueError, match="nothing is proposed; there is nothing to decide"):
            decide()


def test_a_report_that_is_refused_undoes_the_proposal_that_it_led_to(kind):
    """The batch passes a date, and its last episode plays what the policy does not."""
    learner = tell(kind, kind.learner(), 3)
    before, deployed = learner.digest(), learner.deployed
    twin = tell(kind, kind.learner(), 3)
    told = []
    for _ in range(4):
        told.append(played(kind, twin))
        twin.tell(*told[-1])
    assert twin.proposal() is not None
    contexts, actions, rewards = (np.array(part) for part in zip(*told, strict=True))
    actions[-1, -1] = (actions[-1, -1] + 1) % 3
    with pytest.raises(ValueError, match="episode 3 of the batch plays action"):
        learner.tell(contexts, actions, rewards)
    assert (learner.digest(), learner.told, learner.proposal()) == (before, 3, None)
    assert learner.deployed is deployed
    rewards[-1, -1] = np.nan
    with pytest.raises(ValueError, match="reward"):
        learner.tell(contexts, actions, rewards)
    assert learner.digest() == before


@pytest.mark.parametrize("way", ["file", "bytes"])
def test_a_learner_goes_on_from_the_middle_of_everything(kind, way, tmp_path):
    """Saved with a proposal that waits, another one due, and rows held or actions forbidden."""
    learner = tell(kind, pending(kind), 25)
    if kind.has_rows:
        learner.reject(rows=[learner.proposal().rows[0].row])
        learner.reject(rows=[row.row for row in learner.proposal().rows[:1]], visits=40)
    else:
        learner.reject(forever=True, actions=[learner.proposal().new_actions[0][1]])
    learner.propose()
    if way == "file":
        learner.save(tmp_path / "learner.npz")
        back = ls.Learner.load(tmp_path / "learner.npz")
    else:
        back = ls.Learner.from_bytes(learner.to_bytes())
        with pytest.raises(ValueError, match="data is not a lowswitch file"):
            ls.Learner.from_bytes(learner.to_bytes()[:-9])
    assert (back.digest(), back.proposal().hash) == (learner.digest(), learner.proposal().hash)
    for one in (learner, back):
        tell(kind, one, 62)
        one.approve()
        tell(kind, one, EPISODES)
    assert back.digest() == learner.digest()
    assert (back.deployments, back.proposed) == (learner.deployments, learner.proposed)
