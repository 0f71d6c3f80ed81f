"""What a proposal on features says: kinds of cases, probabilities, and what was never tried."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.kernels.streams import JUDGED, purpose_key
from lowswitch.learners.case_posterior import MODELS, CasePosterior
from lowswitch.ledger import Feature, Ledger, LedgerError
from lowswitch.ledger.cases import Cases, CaseTally
from lowswitch.ledger.feature_evidence import judged_cases, kinds_of
from lowswitch.ledger.feature_terms import FeatureTerms
from lowswitch.ledger.regions import described, fidelity, placed, regions_of
from lowswitch.ledger.tally import Tally
from lowswitch.ledger.terms import THRESHOLDS
from lowswitch.policy.shape import Shape

SHAPE = Shape.of(1, 2, 3, True)


# ---- kinds of cases ------------------------------------------------------------------------------


def test_a_planted_corner_is_found_with_a_short_limit():
    values = np.random.default_rng(0).uniform(0, 10, size=(400, 3)).round(2)
    labels = np.where((values[:, 1] > 7) & (values[:, 2] <= 4), 5, -1)
    found = regions_of(values, labels, stays=-1)
    (corner,) = [one for one in found if one.label == 5]
    (_, low, high), (_, below, above) = described(corner.conditions)
    assert (round(low), high, below, round(above)) == (7, None, None, 4)
    assert len(str(low)) <= 4  # of all limits that split alike, one with few digits
    assert fidelity(found, labels, -1, np.arange(400)) == 1.0
    assert sorted(np.concatenate([one.cases for one in found]).tolist()) == list(range(400))
    for one in found:
        assert placed(one, values).cases.tolist() == one.cases.tolist()


def test_halves_with_one_label_stay_together_and_a_flat_change_has_one_kind():
    values = np.random.default_rng(0).normal(size=(100, 2))
    (everything,) = regions_of(values, np.full(100, 7), stays=-1)
    assert (everything.conditions, everything.label) == ((), 7)
    assert fidelity([everything], np.full(100, -1), -1, np.arange(100)) is None
    place = np.arange(100)  # a cut in the middle makes the right half pure, and 7 is usual in both
    labels = np.where((place < 50) & (place % 5 >= 3), 8, 7)
    assert [one.label for one in regions_of(place[:, None] * 1.0, labels, stays=-1)] == [7]


# ---- the posterior -------------------------------------------------------------------------------


def cases_of(n, truth, seed=0, noise=0.5, actions=3):
    """Logged cases of two features with random actions; truth: intercept and slopes [A, 3]."""
    generator = np.random.default_rng(seed)
    x, played = generator.normal(size=(n, 1, 2)), generator.integers(0, actions, n)
    means = truth[:, 0] + x[:, 0] @ truth[:, 1:].T  # [n, A]
    paid = means[np.arange(n), played] + noise * generator.normal(size=n)
    return Cases(x, played, paid, np.array(["north", "south"])[np.arange(n) % 2])


def posterior_of(cases, told=9, seed=1):
    return CasePosterior(SHAPE, *cases[:3], key=purpose_key(seed, JUDGED), told=told)


def test_a_fit_is_the_normal_law_of_all_rewards_together():
    """Evidence and mean by the covariance [n, n] of the rewards, without any shortcut."""
    cases = cases_of(30, np.random.default_rng(3).normal(size=(3, 3)))
    posterior = posterior_of(cases)
    design, paid, n = posterior._design, posterior._paid, 30
    fits = {}
    for level, slope in ((0.1, 0.4), (1.6, 0.03)):
        prior = np.diag(np.array([5.0, level, slope])[posterior._kinds] ** 2)
        covariance = np.eye(n) + design @ prior @ design.T
        scatter = 0.25 * paid @ paid / n + 0.5 * paid @ np.linalg.solve(covariance, paid)
        evidence = -0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * (1 + n) * np.log(scatter)
        mean = prior @ design.T @ np.linalg.solve(covariance, paid)
        gram = design.T @ design, design.T @ paid
        fit = posterior._fit(*gram, float(paid @ paid), n, level, slope)
        assert fit.evidence == pytest.approx(evidence)
        assert fit.scatter == pytest.approx(scatter)
        assert fit.mean == pytest.approx(mean, abs=1e-9)
        root = fit.turned(np.eye(12))
        fits[level] = root @ root.T
        inner = prior - prior @ design.T @ np.linalg.solve(covariance, design @ prior)
        assert fits[level] == pytest.approx(inner, abs=1e-9)


def test_draws_are_a_function_of_the_seed_and_the_number_of_episodes():
    cases = cases_of(40, np.eye(3))
    first, again, later = (posterior_of(cases, told).weights() for told in (40, 40, 41))
    assert first.shape == (MODELS, 12)
    assert (first == again).all()
    assert (first != later).any()


def test_a_part_and_the_rest_add_up_to_the_whole_on_average():
    cases = cases_of(200, np.random.default_rng(3).normal(size=(3, 3)))
    posterior = posterior_of(cases)
    weights, everything = posterior.weights(), np.arange(200)
    shares = np.tile([-1.0, 0.5, 0.5], (200, 1))
    combined = posterior.combined(shares)
    parts = [
        posterior.gains(weights, combined, part, everything) for part in np.split(everything, 2)
    ]
    whole = posterior.gains(weights, combined, everything, everything)
    assert sum(parts).mean() == pytest.approx(whole.mean(), abs=0.02)
    assert sum(part.var() for part in parts) > whole.var() / 4


def test_an_interval_of_few_cases_is_as_wide_as_students():
    """The effects are known here, and of the cases only twelve."""
    cases = cases_of(200, np.array([[0.0, 0, 0], [0, 3, 0], [0, 0, 0]]), noise=0.01)
    posterior, part = posterior_of(cases), np.arange(12)
    weights, combined = posterior.weights(), posterior.combined(np.tile([-1.0, 1, 0], (200, 1)))
    found = posterior.gains(weights, combined, part, part).std()
    usual = (3 * cases.contexts[part, 0, 0]).std(ddof=1) / np.sqrt(12)
    assert found > 1.05 * usual  # the bootstrap alone gives 0.92 of it
    assert found < 1.5 * usual


# ---- words ---------------------------------------------------------------------------------------


def always(action, allowed=None):
    mask = np.arange(3)[None] == action if allowed is None else allowed
    return ls.LinearPolicy(SHAPE, np.zeros((1, 2, 3, 1)), np.uint64(0), allowed=mask)


def by_first_feature():
    """Action 1 where the first feature is above 0, else action 0."""
    weights = np.zeros((1, 2, 3, 1))
    weights[0, 0, 1, 0] = 1.0
    return ls.LinearPolicy(SHAPE, weights, np.uint64(0), allowed=np.array([[True, True, False]]))


def judged(cases, now, proposed):
    policies = now, proposed, always(0)
    return judged_cases(cases, policies, THRESHOLDS, seed=1, told=len(cases.actions))


def test_a_real_improvement_is_named_with_where_and_what():
    truth = np.array([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]])
    found = judged(cases_of(300, truth), always(0), by_first_feature())
    better, same = found["regions"]
    assert (better["usual"], better["verdict"]) == ([0, 1], "IMPROVE")
    assert better["where"][0][0] == 0
    assert abs(better["where"][0][1]) < 0.05
    assert (same["usual"], same["gain"]) == (None, None)
    low, high = found["worth"]["change"]["within_95"]
    assert low < 1 / np.sqrt(2 * np.pi) < high  # the mean of the positive part of a normal number
    assert found["fidelity"] > 0.97
    assert found["affected"][0]["gain"]["mean"] > 1.5
    assert better["hangs_on_sites"] == []


def test_a_trial_beside_an_unchanged_protocol_has_kinds_of_its_own():
    """Two of three members explore, and give action 1 above 0; the rule before had one kind."""
    cases = cases_of(300, np.zeros((3, 3)))
    drawn = ls.LinearPolicy(SHAPE, np.repeat(by_first_feature().weights, 2, axis=-1), np.uint64(0))
    policies = always(0), drawn.beside(always(0), 3), always(0)
    found, before = (
        judged_cases(cases, policies, THRESHOLDS, seed=1, told=300, by_trial=new)
        for new in (True, False)
    )
    assert [one["where"] for one in before["regions"]] == [[]]
    ((feature, low, high),) = found["regions"][0]["where"]
    assert (feature, low) == (0, None)
    assert abs(high) < 0.05
    assert [max(one["alternatives"].values(), default=0) > 0.95 for one in found["regions"]] == [
        False,
        True,
    ]
    assert all(one["usual"] is one["verdict"] is None for one in found["regions"])
    same = ("worth", "usual_changes", "trial", "fidelity", "expected_false")
    assert [found[name] for name in same] == [before[name] for name in same]


def test_a_proposal_by_the_rule_before_is_verified_by_it(tmp_path, monkeypatch):
    size = {"horizon": 1, "features": 2, "actions": 3, "episodes": 90, "rewards": (-9, 9)}
    size["policy"] = ls.LinearPolicy.always(0, features=2, actions=3)
    algorithm = ls.few(deployments_at=(60, 80), trial=0.25)
    with Ledger.create(tmp_path / "a.db", algorithm, **size, by="office") as ledger:
        generator = np.random.default_rng(1)
        monkeypatch.setattr(ledger.terms.proposals, "rules", ledger.terms.proposals.rules[:2])
        for part in range(60):
            issued = ledger.ask("here", f"part {part}")
            x = generator.normal(size=2)
            ledger.tell(issued.ticket, x, issued.act(x).action, generator.normal())
        proposal = ledger.proposal()
        assert (proposal.rule, len(proposal.rows[0]["regions"])) == (2, 1)
    with Ledger.open(tmp_path / "a.db") as ledger:
        assert ledger.verify().whole
        again = ledger.effect("approved", {"rows": [[-1, -1]]})
        assert len(again["regions"]) > 1  # by the rule in use


def test_equal_actions_are_not_called_better():
    for seed in range(8):
        cases = cases_of(120, np.tile([0.3, 0.8, -0.5], (3, 1)), seed=seed)
        found = judged(cases, always(seed % 3), by_first_feature())
        assert "IMPROVE" not in [one["verdict"] for one in found["regions"]], seed


def test_what_was_never_given_to_such_cases_is_untried_whatever_the_model_says():
    cases = cases_of(200, np.array([[0.0, 0, 0], [0, 3, 0], [0, 0, 0]]))
    swap = (cases.actions == 1) & (cases.contexts[:, 0, 0] > -0.2)
    cases = cases._replace(actions=np.where(swap, 0, cases.actions))
    found = judged(cases, always(0), by_first_feature())
    (region,) = [one for one in found["regions"] if one["usual"]]
    assert (region["verdict"], region["untried"], region["tries"][1]) == ("UNTRIED", [1], 0)
    assert found["expected_false"] is None


def test_a_gain_that_hangs_on_one_site_says_so():
    cases = cases_of(300, np.array([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]]))
    other = cases.sites == "north"
    cases = cases._replace(actions=np.where(other & (cases.actions == 1), 2, cases.actions))
    region, _ = judged(cases, always(0), by_first_feature())["regions"]
    assert region["hangs_on_sites"] == ["south"]


def test_rewards_that_never_differ_say_nothing():
    cases = cases_of(50, np.zeros((3, 3)), noise=0.0)
    found = judged(cases, always(0), by_first_feature())
    assert (found["worth"], found["models"]) == (None, 0)
    assert {one["verdict"] for one in found["regions"]} == {None}


def test_a_policy_by_kinds_of_cases():
    found = kinds_of(cases_of(200, np.eye(3)), None, by_first_feature())
    assert [one["now"] for one in found["regions"]] == [{"0": 1.0}, {"1": 1.0}]
    assert (found["fidelity"], found["changed"]) == (1.0, 0.0)


# ---- what is kept --------------------------------------------------------------------------------


def test_cases_are_the_same_however_they_come(monkeypatch):
    cases = cases_of(20, np.eye(3))
    monkeypatch.setattr("lowswitch.ledger.cases._MOST", 15)
    tallies = [CaseTally(3, (1, 2)) for _ in range(2)]
    for tally, size in zip(tallies, (1, 7), strict=True):
        for first in range(0, 20, size):
            part = slice(first, first + size)
            batch = cases.contexts[part, None], cases.actions[part, None], cases.rewards[part, None]
            tally.add(cases.sites[part].tolist(), *batch)
    one, other = tallies
    assert one.to_bytes() == other.to_bytes()
    assert one.cases.rewards.tolist() == cases.rewards[5:].tolist()
    again = CaseTally(3, (1, 2)).restore(one.to_bytes())
    assert again.to_bytes() == one.copy().to_bytes() == one.to_bytes()
    assert again.model().visits.sum() == 20


def test_a_ledger_of_before_goes_on_without_cases(tmp_path):
    """It declared no ranges: its reports, tally and rule stay what they were."""
    size = {"horizon": 1, "features": ["age", "dose"], "actions": 3, "episodes": 50}
    with Ledger.create(tmp_path / "a.db", ls.few(deployments=4), **size) as ledger:
        payload = ledger.terms.to_payload()
    assert payload.pop("about") == [[None, None, ""]] * 2
    terms = FeatureTerms.from_payload(payload)
    assert terms.to_payload() == payload
    assert (terms.proposals.rules, type(terms.tally())) == ((1,), Tally)
    report = terms.report(1, terms.learner().policy, [0.1, 0.2], 1, 0.5, "whole")
    assert "propensities" not in report.to_payload()


# ---- features ------------------------------------------------------------------------------------

TEXTS = {
    "age": Feature("age"),
    "age:18..90": Feature("age", 18, 90),
    "age:18..90:years": Feature("age", 18, 90, "years"),
    " dose :0..: mg/kg ": Feature("dose", 0, None, "mg/kg"),
    "t::°C": Feature("t", None, None, "°C"),
}


@pytest.mark.parametrize(("text", "feature"), TEXTS.items(), ids=TEXTS)
def test_a_feature_as_text(text, feature):
    assert Feature.from_text(text) == feature


@pytest.mark.parametrize("text", ["age:18-90", "age:a..b", "age:1..2..3"])
def test_a_bad_feature_names_the_way_out(text):
    with pytest.raises(LedgerError, match="write it as name, name:low..high"):
        Feature.from_text(text)


BAD = [
    ([Feature("a", 2, 1)], "the range of a must be two numbers, the smaller one first"),
    ([Feature("a", "x", 1)], "the range of a must be two numbers"),
    ([Feature("a"), "a"], "features must be different texts"),
    ([3], "features must be different texts"),
    ("age", "features must be a number or a list of names"),
]


@pytest.mark.parametrize(("features", "says"), BAD, ids=[says for _, says in BAD])
def test_a_bad_declaration_is_refused(features, says, tmp_path):
    with pytest.raises(LedgerError, match=says):
        Ledger.create(
            tmp_path / "a.db",
            ls.few(deployments=2),
            horizon=1,
            features=features,
            actions=2,
            episodes=9,
        )


def test_a_value_at_its_limit_is_taken_and_beyond_it_refused(tmp_path):
    features = [Feature("age", 18, 90, "years"), Feature("dose", 0)]
    size = {"horizon": 1, "features": features, "actions": 2, "episodes": 9}
    with Ledger.create(tmp_path / "a.db", ls.few(deployments=2), **size) as ledger:
        ticket = ledger.ask("here", "r1").ticket
        for bad, says in (([90.5, 1.0], "age is 90.5 years"), ([50, -0.1], "dose is -0.1")):
            with pytest.raises(LedgerError, match=f"{says}.*nothing was recorded"):
                ledger.tell(ticket, bad, 0, 1.0)
        with pytest.raises(LedgerError, match="^feature dose is NaN"):
            ledger.tell(ticket, [50, float("nan")], 0, 1.0)
        with pytest.raises(LedgerError, match="propensities must be a number above 0"):
            ledger.tell(ticket, [90.0, 0.0], 0, 1.0, propensities=0.0)
        ledger.tell(ticket, [90.0, 0.0], 0, 1.0, propensities=0.25)
        (told,) = [one.payload for one in ledger.events() if one.kind == "told"]
        assert told["propensities"] == [0.25]
