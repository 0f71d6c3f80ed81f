"""What a proposal and its rows are worth: by hand, and against exact values of drawn models."""

import numpy as np
import pytest
from test_posterior import drawn_tables, exact_value, learned, problem, told_rewards

import lowswitch as ls
from lowswitch.kernels import gains as kernels
from lowswitch.kernels.model_draws import fresh_drawn, model_key
from lowswitch.learners.judgement import Gain, Judgement, Law
from lowswitch.review.proposals import ProposedRow


def laws(actions, shape, seed, weights):
    """Two random laws with these weights."""
    now, new = np.random.default_rng(seed).integers(0, actions, (2, len(weights), *shape))
    return Law(now, np.array(weights)), Law(new, np.array(weights))


PROBLEMS = {
    "steps alike": lambda: problem(4, 3, 1),
    "steps apart": lambda: problem(4, 3, 2, 3),
    "many states": lambda: problem(40, 2, 3),
}


def values(posterior, law, number):
    """The exact value of each policy of a law in a model."""
    belief = posterior.hypotheses.beliefs[posterior.hypotheses.chosen(posterior.stream, 9)[number]]
    tables = drawn_tables(posterior, number, belief)
    starts = drawn_starts(posterior, number)
    return np.array([exact_value(tables, starts, policy) for policy in law.policies])


def drawn_starts(posterior, number):
    from lowswitch.kernels.gains import draw_starts

    key, found = np.uint64(model_key(posterior.stream, number)), np.zeros(len(posterior.starts))
    counter = np.zeros(1, np.uint64)
    draw_starts(posterior.starts, posterior.episodes, key, counter, found)
    return found


@pytest.mark.parametrize("protocol", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_gains_and_values_are_those_of_exact_evaluations(name, protocol):
    mdp = PROBLEMS[name]()
    posterior = learned(mdp, ls.few(deployments=3, asked=True, members=3), 120).posterior()
    shape, weights = (mdp.horizon, mdp.states), [0.7, 0.15, 0.15] if protocol else [1 / 3] * 3
    now, new = laws(mdp.actions, shape, 5, weights)
    judgement = Judgement(posterior, now, new, now.policies[:1], protocol=protocol)
    rows, only = judgement.rows(), slice(0, 1) if protocol else slice(None)
    changes = judgement._row_changes(rows)
    gains, _ = posterior.judged(changes, 2, 3)
    shared = posterior.shared(changes, np.arange(len(rows)), 3)
    share = np.array(weights[only]) / sum(weights[only])
    for number in range(3):
        before, after = (values(posterior, law, number)[only] @ share for law in (now, new))
        for r in range(0, len(rows), 3):
            h, x = rows[r]
            alone, without = now.policies.copy(), new.policies.copy()
            alone[:, h, x], without[:, h, x] = new.policies[:, h, x], now.policies[:, h, x]
            one = values(posterior, Law(alone, now.weights), number)[only] @ share
            rest = values(posterior, Law(without, now.weights), number)[only] @ share
            assert gains[number, 0, r] == pytest.approx(one - before, abs=1e-12)
            assert gains[number, 1, r] == pytest.approx(rest - after, abs=1e-12)
            assert shared[number, r].sum() == pytest.approx(after - rest, abs=1e-12)


def test_laws_that_are_drawn_anew_are_those_that_were_kept(monkeypatch):
    """So many laws that their steps are not kept give the same gains, to the bit."""
    posterior = learned(
        PROBLEMS["steps apart"](), ls.few(deployments=3, asked=True), 90
    ).posterior()
    now, new = laws(3, (3, 4), 5, [0.5, 0.5])
    judgement = Judgement(posterior, now, new, now.policies[:1], protocol=False)
    belief = next(one for one in posterior.hypotheses.beliefs if one.laws.stride)
    changes, numbers = judgement._row_changes(judgement.rows()), np.arange(3)

    def gains(law_gains):
        found, values = np.zeros((3, 2, len(changes.rows))), np.zeros((3, 4))
        law_gains(*posterior._known(belief), numbers, changes, found, values)
        return found

    kept = gains(kernels.law_gains)
    monkeypatch.setattr(kernels, "model_key", lambda *given: np.uint64(model_key(*given)))
    monkeypatch.setattr(kernels, "drawn_for", lambda spec, one: fresh_drawn(spec, one.laws))
    assert (gains(kernels.law_gains.py_func) == kept).all()
    assert np.abs(kept).max() > 0.01


def test_the_worth_of_a_protocol_and_a_trial_by_hand():
    """Rewards that never vary are known: 0.25, 0.75 and 0.5 of three actions.

    The protocol changes from the first to the second. The trial has 20 % of the episodes, half of
    them with the first action and half with the third, as before. So the protocol gains 0.5, the
    trial loses 0.75 - 0.375, and all episodes together gain 0.8 times 0.5.
    """
    posterior = told_rewards([0.25] * 2, [0.75] * 2, [0.5] * 2).posterior()
    weights = np.array([0.8, 0.1, 0.1])
    now = Law(np.array([0, 0, 2]).reshape(3, 1, 1), weights)
    new = now.with_rows([ProposedRow(0, 0, (0, 0, 2), (1, 0, 2))])
    judgement = Judgement(posterior, now, new, np.array([[[2]]]), protocol=True)
    worth = judgement.worth()
    assert worth.protocol == Gain(0.5, 1.0, (0.5, 0.5), (0.5, 0.5))
    assert worth.trial.mean == pytest.approx(-0.375)
    assert (worth.change.mean, worth.change.better) == (pytest.approx(0.4), 1.0)
    assert worth.against_initial.mean == pytest.approx(0.8 * 0.75 + 0.1 * 0.25 + 0.1 * 0.5 - 0.5)
    nothing = judgement.worth(rows=[])
    assert nothing.change == Gain(0.0, 0.5, (0.0, 0.0), (0.0, 0.0))
    (row,) = judgement.row_worths(tried=1, worse=0.2)
    assert (row.row, row.better, row.gain.mean, row.removal.mean) == ((0, 0), 1.0, 0.5, -0.5)


def test_the_interval_of_draws_by_hand():
    """Of 0, 1, ..., 100 four fifths lie between 10 and 90, and 95 % between 2.5 and 97.5."""
    gain = Gain.of(np.arange(101.0) - 50)
    assert gain.mean == 0
    assert gain.within_80 == pytest.approx((-40, 40))
    assert gain.within_95 == pytest.approx((-47.5, 47.5))
    assert gain.better == pytest.approx(50.5 / 101)
    assert Gain.of(np.array([1e-10, -1e-10])).better == 0.5


def test_rows_that_pay_only_together_by_hand():
    """Two steps: to go right (1) costs 0.2 at once, and leads to a state where going right again
    pays 1; now it is not played there, and pays 0.

    The first row alone loses 0.2 - what it earns now. With the second it pays. The second row alone
    is not reached, so it gains nothing. Without either one the proposal is worse.
    """
    size = {"horizon": 2, "states": 2, "actions": 2, "episodes": 500}
    learner = ls.Learner(ls.few(deployments=2, asked=True, members=1), **size, gate="review")
    played = {(0, 0): (0.2, 0, 0.1), (1, 0): (0.0, 1, 0.1), (1, 1): (0.0, 1, 1.0)}
    for (first, second), (reward, state, last) in played.items():
        for _ in range(60):
            learner.tell([0, state], [first, second], [reward, last], off_policy=True)
    now = np.zeros((1, 2, 2), dtype=np.int64)
    new = Law.equal(now).with_rows([ProposedRow(0, 0, (0,), (1,)), ProposedRow(1, 1, (0,), (1,))])
    judgement = Judgement(learner.posterior(), Law.equal(now), new, now, protocol=True)
    first, second = judgement.row_worths(tried=2, worse=0.2)
    assert (first.row, first.better, first.partners) == ((0, 0), 0.0, ((1, 1),))
    assert first.gain.mean == pytest.approx(-0.2, abs=0.05)
    assert first.removal.mean == pytest.approx(-0.7, abs=0.05)
    assert first.removal.better == 0.0
    assert second.partners == ()
    assert judgement.worth().protocol.better == 1.0
    assert judgement.worth(rows=[(0, 0)]).protocol.better == 0.0


def test_equal_policies_are_evaluated_once(monkeypatch):
    posterior = told_rewards([0.25] * 2, [0.75] * 2).posterior()
    many = Law.equal(np.repeat([0, 1], 32).reshape(64, 1, 1))
    new = many.with_rows([ProposedRow(0, 0, (0,) * 32 + (1,) * 32, (1,) * 64)])
    judgement = Judgement(posterior, many, new, np.zeros((1, 1, 1), int), protocol=False)
    assert judgement._row_changes([(0, 0)]).played.tolist() == [[0, 1, 1, 1]]
    before = judgement.worth()
    (row,) = judgement.row_worths(tried=1, worse=0.2)
    assert (row.gain.mean, row.removal.mean) == (0.25, -0.25)
    monkeypatch.setattr(type(posterior), "judged", None)
    assert judgement.worth() == before  # all policies are known
    assert before.change.mean == 0.25
