"""The reproduction: resumable, whole, and its grades turn when the learner is broken on purpose."""

import json
import sys
import types

import numpy as np
import pytest

import lowswitch
from lowswitch import envs
from lowswitch import reproduce as claims
from lowswitch.cli.commands import main
from lowswitch.kernels.compile import inline
from lowswitch.reproduce import CLAIMS, lemmas, qlearning
from lowswitch.reproduce.grades import Check, Finding, Grade
from lowswitch.reproduce.lab import Effort, Lab
from lowswitch.reproduce.lemmas import PRACTICAL, PROVABLE, Watch
from lowswitch.reproduce.machines import count_rounds
from lowswitch.reproduce.open_questions import COARSE
from lowswitch.reproduce.pseudocode import play_plain
from lowswitch.reproduce.section import Section
from lowswitch.runs.results import Curves

TINY = Effort(
    name="tiny",
    episodes=100_000,
    seeds=2,
    pulls=5_000,
    bandit_runs=20,
    plain_episodes=150,
    plain_seeds=2,
    proof_episodes=100_000,
    proof_seeds=2,
)
RIVER = {"RiverSwim": "riverswim:states=4,horizon=4"}
ARMS = {  # 0.175 apart, so that fewer episodes are enough at c = 1
    f"one state, H = {H}": f"random-mdp:states=1,actions=2,horizon={H},seed=9,reward_law=bernoulli"
    for H in (1, 2)
}
LONGER_RIVER = {"RiverSwim": "riverswim:states=5,horizon=6"}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A small laboratory that knows one river."""
    for module in ("qlearning", "open_questions", "machines", "rounds"):
        monkeypatch.setattr(sys.modules[f"lowswitch.reproduce.{module}"], "PROBLEMS", RIVER)
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.mistakes"], "PROBLEMS", LONGER_RIVER)
    for module in ("qlearning", "pac_claim", "machines"):
        monkeypatch.setattr(sys.modules[f"lowswitch.reproduce.{module}"], "ONE_STATE", ARMS)
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.gain"], "HORIZONS", (3, 5))
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.pac_claim"], "PROBLEM", RIVER["RiverSwim"])
    return Lab(tmp_path, TINY)


def grades(section):
    return [str(finding.grade) for finding in section.findings]


SEEN, OPEN, PRACTICALLY, BLUNT, HIDDEN, CONSISTENT, REVERSED, PROOF, CONTRADICTED = map(str, Grade)
EXPECTED = {
    # one state at c = 1, where both learners have learned all so soon that neither switches more; a
    # small river at c = 1, where even this is little; the river at c = 0.05
    "ucb2-h": [BLUNT, HIDDEN, PRACTICALLY],
    "ucb2-b": [BLUNT, HIDDEN, PRACTICALLY, HIDDEN],  # and the gain of sqrt(H)
    "pac": [OPEN, PRACTICALLY],
    "rounds": [OPEN, HIDDEN],  # in so few episodes ten machines gain little
    # in so few episodes the counts still grow
    "mistakes": [HIDDEN, REVERSED, REVERSED, CONTRADICTED],
    "lemmas": [CONSISTENT, SEEN, CONSISTENT, CONSISTENT],
    "proof": [
        *(CONSISTENT, SEEN, OPEN),  # the definition, accuracy with both bonuses
        *(SEEN, CONSISTENT, OPEN, OPEN),  # perturbation with both, the variance
        *(CONSISTENT, SEEN),  # propagation, the schedule
    ],
    "open": [],
    "errata": [],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_grades_of_the_sound_learner(lab, name):
    section = CLAIMS[name](lab)
    assert section.name == name
    assert grades(section) == EXPECTED[name], [vars(check) for check in section.checks]
    data = json.loads(json.dumps(section.to_dict()))
    assert Section.from_dict(data).to_dict() == data


def test_every_claim_has_expected_grades():
    own = {"bandits", "lower-bound", "reach", "bernoulli"}  # these have their own tests
    assert set(CLAIMS) == set(EXPECTED) | own


def finding(*checks, proved=True, **options):
    return Finding(
        **options,
        says="it grows",
        scale="c = 1",
        length="K = 10",
        problems="one",
        proved=proved,
        found="",
        checks=checks,
    )


KEPT, BROKEN = Check("a", "1", True), Check("b", "2", False)
DULL = Check("e", "5", False, sharpness=True)
REFUTED = Check("c", "3", False, always=True)
SURE, BUG = (Check("d", "4", holds, always=True, consistency=True) for holds in (True, False))


def test_a_grade_follows_from_the_rules():
    assert finding(KEPT).grade == "seen"
    assert finding(KEPT, proved=False).grade == "seen at a practical scale"
    assert finding(KEPT, BROKEN).grade == "not visible at this K"
    assert finding(BROKEN, proved=False).grade == "not visible at this K"
    assert finding(KEPT, BROKEN, REFUTED, proved=False).grade == "contradicted in practice"
    assert finding().grade == "not visible at this K"  # nothing was looked at
    assert finding(SURE).grade == CONSISTENT
    assert finding(SURE, KEPT).grade == "seen"
    assert finding(SURE, BROKEN).grade == "not visible at this K"
    assert finding(KEPT, constants_known=False).grade == "seen, constants unknown"
    assert finding(KEPT, proved=False, constants_known=False).grade == "seen at a practical scale"
    assert finding(KEPT, DULL).grade == "kept by the baseline too"
    assert finding(KEPT, DULL, proved=False).grade == "kept by the baseline too"
    assert finding(DULL, BROKEN).grade == "not visible at this K"
    assert finding(REFUTED, refuted=Grade.PROOF).grade == PROOF
    assert finding(BUG, REFUTED, refuted=Grade.PROOF).grade == "contradicted in practice"


def grown(power, size=1e4):
    """Runs on one state and two actions whose switches grow like this power of K, or like log K."""
    episodes = np.unique(np.geomspace(1, 10**6, 200).round())
    switches = np.log(episodes + 2) if power is None else episodes**power
    zeros = np.zeros((1, len(episodes)))
    curves = Curves(episodes, zeros, size * switches[None], zeros)
    return types.SimpleNamespace(curves=curves, actions=2)


def test_the_rule_about_switches_tells_a_logarithm_from_a_power():
    slack = qlearning.SWITCH_SLACK
    assert qlearning._switch_excess(grown(None)) == pytest.approx(-slack, abs=0.01)
    assert qlearning._switch_excess(grown(0.1)) < 0
    assert qlearning._switch_excess(grown(0.25)) > 0  # it passed a rule of 0.3


def test_no_bad_run_of_32_excludes_only_shares_above_9_per_cent():
    assert (1 - lemmas._largest_share(0, 32)) ** 32 == pytest.approx(0.05)
    assert lemmas._largest_share(32, 32) == 1


def test_the_weights_of_a_visit_by_hand():
    assert lemmas.total_weight_error(1, 1, limit=1) == 0  # 1, and 1 + 1 / H - 1 afterwards
    assert lemmas.total_weight_error(1, 1, limit=3) == pytest.approx(0)  # 1, 1/3, 1/6; then 1/2
    assert lemmas.total_weight_error(2, 5, limit=40) == pytest.approx(0, abs=1e-12)


def test_a_value_that_is_no_number_breaks_its_rule():
    assert not Check.at_most("rule", float("nan"), 1).holds


def test_rounds_by_hand():
    history = lowswitch.History(
        np.array([[2, 0, 0, 1], [2, 1, 0, 1], [3, 0, 0, 0], [9, 0, 0, 1]])
    )  # phases of 3, 1, 6 and 2 episodes
    assert [count_rounds(history, 12, M) for M in (1, 2, 3, 100)] == [
        12,
        2 + 1 + 3 + 1,
        1 + 1 + 2 + 1,
        4,
    ]


def break_qlearning(fresh, name):
    """Make the Q-learning of fresh kernels wrong in one way."""
    kernels = fresh("qlearning")
    for part, function in BREAKS[name](kernels).items():
        setattr(kernels, part, inline(function))


def swapped_alpha(right):
    return {"learning_rate": lambda n, H: (n - 1) / (H + n)}


def misprinted_variance(right):
    return {"variance": lambda total, squares, share: max(0.0, (squares - total * total) * share)}


def whole_table_copy(right):
    set_own, own_best = right.set_own, right.own_best

    def set_own_everywhere(spec, tables, here, action):
        first = here // spec.S * spec.S
        for other in range(first, first + spec.S):
            set_own(spec, tables, other, own_best(spec, tables, other))

    return {"set_own": set_own_everywhere}


def ties_away_from_the_incumbent(right):
    digest_visit, DUE, TRIGGERED = right.digest_visit, right.DUE, right.TRIGGERED

    def last_best(spec, tables, here):
        action, best = 0, -np.inf
        for a in range(spec.A):
            q = tables.cells[here * spec.A + a]["q"]
            action = a if q >= best else action
            best = max(best, q)
        return action

    def digest_ties(spec, tables, scale, base, h, x, a, action, reward, y):
        said = digest_visit(spec, tables, scale, base, h, x, a, action, reward, y)
        here = base + h * spec.S + x
        q = tables.cells[here * spec.A + action]["q"]
        return DUE if said == TRIGGERED and q == tables.rows[here]["best_other"] else said

    return {"own_best": last_best, "digest_visit": digest_ties}


BREAKS = {
    "swapped alpha": swapped_alpha,
    "misprinted W_t": misprinted_variance,
    "whole-table copy": whole_table_copy,
    "ties away from the incumbent": ties_away_from_the_incumbent,
}


WATCHED = "random-mdp:states=4,actions=3,horizon=4,seed=1"
LIBRARY = ("wrong_bonus", "foreign", "ties")  # what a learner does by its formulas, or is broken


def watched(episodes=50):
    """What the proofs exclude, and what the formulas exclude, over short runs of each learner."""
    mdp = envs.make(WATCHED)
    every = [
        Watch(mdp, algorithm, episodes).play(0) for algorithm in (PROVABLE | PRACTICAL).values()
    ]
    return {name: sum(getattr(count, name) for count in every) for name in vars(every[0])}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of 64-bit noise
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("swapped alpha", "wrong_bonus"),
        ("misprinted W_t", "wrong_bonus"),
        ("whole-table copy", "foreign"),
        ("ties away from the incumbent", "ties"),
    ],
)
def test_a_broken_learner_is_found_out_by_watching_it(interpreted_kernels, name, count):
    break_qlearning(interpreted_kernels, name)
    assert watched()[count] > 0


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_the_sound_learner_does_what_its_formulas_say(interpreted_kernels):
    """Each update's bonus is its formula's with W_t a variance, a row changes only at a trigger of
    its own, and the incumbent stays if it is among the best.
    """
    counts = watched()
    assert counts["steps"] > counts["triggers"] > counts["switches"] > 0
    assert {name: counts[name] for name in LIBRARY} == dict.fromkeys(LIBRARY, 0)


def test_copies_and_ties_of_the_pseudo_code():
    """A copy of the single entry makes exactly the switches of a row copy; ties broken at random
    make more than twice as many.
    """
    mdp = envs.make("riverswim:states=5,horizon=6")

    def switches(copy, ties):
        return [len(play_plain(mdp, COARSE, 150, seed, copy, ties)[1]) for seed in range(2)]

    rows = switches("row", "incumbent")
    assert switches("entry", "incumbent") == rows
    assert sum(switches("row", "random")) > 2 * sum(rows)


def test_w_t_as_printed_is_no_variance():
    """(sigma - mu^2) / t under a root is below -H for every H up to 100: the errata."""
    values = np.linspace(2, 5, 50)
    assert ((values**2).sum() - values.sum() ** 2) / 50 < -100
    assert np.var(values) > 0


def test_the_mixture_is_worth_the_average(lab):
    """The PAC policy's exact value is V* - regret / K."""
    mdp = envs.make(RIVER["RiverSwim"])
    runs = lowswitch.simulate(
        mdp, lowswitch.ucb2_hoeffding(c=0.05), episodes=2000, seeds=1, history=True
    )
    worth = runs.pac_policy(0).evaluate(mdp)
    assert abs(mdp.optimal_value() - worth - runs.regret[0] / 2000) < 1e-9


@pytest.mark.slow
def test_a_swapped_learning_rate_breaks_the_theorems(fresh_kernels, lab):
    break_qlearning(fresh_kernels, "swapped alpha")
    for name in ("ucb2-h", "pac"):
        assert not {SEEN, PRACTICALLY} & set(grades(CLAIMS[name](lab)))


def test_a_finished_part_is_not_run_again(lab, tmp_path, monkeypatch):
    first = CLAIMS["pac"](lab)
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.lab"], "simulate", None)
    again = CLAIMS["pac"](Lab(tmp_path, TINY))
    assert again.to_dict() == first.to_dict()


def test_a_damaged_part_is_run_again(lab, tmp_path):
    before = CLAIMS["pac"](lab).to_dict()["findings"]
    for path in (tmp_path / "cache").iterdir():
        path.write_bytes(b"half a file")
    assert CLAIMS["pac"](lab).to_dict()["findings"] == before


def test_each_section_has_its_own_seconds(tmp_path, capsys, monkeypatch):
    now = [0.0]

    def two_claims(*_, measured, **__):
        sections = []
        for name, took in (("first", 10), ("second", 20), ("third", 1)):
            now[0] += took
            sections.append(
                Section(
                    name=name,
                    title="",
                    claim="",
                    method="",
                    findings=[finding(KEPT), finding(BROKEN)],
                    folded=name == "third",
                )
            )
            measured(sections[-1])
        now[0] += 5
        return sections

    monkeypatch.setattr(sys.modules["lowswitch.cli.commands"].time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(sys.modules["lowswitch.reproduce"], "reproduce", two_claims)
    assert main(["reproduce", "--full", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("it grows") == 6  # nothing is folded
    now[0] = 0.0
    assert main(["reproduce", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:10] == [
        "first  (10 s)",
        "    seen                       it grows; c = 1, K = 10, one",
        "    not visible at this K      it grows; c = 1, K = 10, one",
        "second  (20 s)",
        "    seen                       it grows; c = 1, K = 10, one",
        "    not visible at this K      it grows; c = 1, K = 10, one",
        "third  (1 s)  1 seen, 1 not visible at this K",
        "",
        "3 seen, 3 not visible at this K  (36 s)",
        f"page: {tmp_path}/index.html",
    ]


def test_a_bad_claim_is_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match="unknown claim 'pacs'"):
        claims.reproduce(tmp_path / "out", only=["pacs"])
    assert not (tmp_path / "out").exists()


def test_the_command_line(lab, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["lowswitch.reproduce"], "QUICK", TINY)
    assert main(["reproduce", "--only", "errata", "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("errata  (")
    assert "no claims looked at" in text
    assert (tmp_path / "out" / "errata.html").exists()
    assert main(["reproduce", "--only", "lemas"]) == 2
    assert "unknown claim 'lemas'; did you mean 'lemmas'?" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "--only", "errata", "--out", str(tmp_path / "file")]) == 2
    assert "choose another folder" in capsys.readouterr().err
