"""Every recipe is cited by the papers of its parts, in BibTeX that says what literature.md says."""

import dataclasses
import re
from pathlib import Path

import pytest

import lowswitch as ls
from conftest import ALGORITHMS
from lowswitch.algorithms.citations import PAPERS, library_entry
from lowswitch.algorithms.recipes import RECIPES

ROOT = Path(__file__).parents[2]
GIVEN = {"few": {"deployments": 3}}
CITED = {
    "ucb-h": ["jin2018q"],
    "ucb-b": ["jin2018q"],
    "ucb2-h": ["bai2019provably", "jin2018q"],
    "ucb2-b": ["bai2019provably", "jin2018q"],
    "q-h": ["jin2018q"],
    "q-b": ["jin2018q"],
    "stage-q": ["zhang2020almost"],
    "ucb-advantage": ["zhang2020almost"],
    "early-settled": ["li2021breaking"],
    "staged-randql": ["zhang2020almost", "tiapkin2023model"],
    "fedq-h": ["zheng2024federated"],
    "fedq-b": ["zheng2024federated"],
    "fedq-advantage": ["zheng2025federated"],
    "fedq-early-settled": ["zhang2025regret", "li2021breaking"],
    "ucbvi": ["azar2017minimax"],
    "ucbvi-bf": ["azar2017minimax"],
    "mvp": ["zhang2024settling"],
    "orlc": ["dann2019policy"],
    "larfe": ["qiao2022sample"],
    "multi-batch": ["zhang2022near"],
    "few": ["lowswitch", "osband2013more"],
    "psrl": ["osband2013more"],
    "ucrl2": ["jaksch2010near"],
    "rmax": ["brafman2002rmax"],
    "mbie": ["strehl2008analysis"],
    "linear": ["lowswitch", "osband2016generalization"],
    "linucb": [
        *("li2010contextual", "abbasi2011improved", "jin2020provably", "gao2021provably"),
    ],
}


def keys(text):
    return re.findall(r"^@\w+\{(\w+),$", text, re.MULTILINE)


def test_every_recipe_has_its_papers():
    found = {name: keys(make(**GIVEN.get(name, {})).cite()) for name, make in RECIPES.items()}
    assert found == CITED
    assert {key for some in found.values() for key in some} <= {*PAPERS, "lowswitch"}


@pytest.mark.parametrize(
    ("algorithm", "cited"),
    [
        (ls.ucb2_hoeffding(deployments=5), ["bai2019provably", "jin2018q"]),
        (ls.mvp(data="all"), ["zhang2021reinforcement", "zhang2024settling"]),
        (ls.ucb_advantage(reference="settled"), ["zhang2020almost", "li2021breaking"]),
        (ls.mbie(schedule="episodes/10"), ["strehl2008analysis", "guo2015concurrent"]),
        (ls.q_hoeffding(schedule=ls.parts.UCB2()), ["bai2019provably", "jin2018q"]),
    ],
)
def test_parts_are_cited_wherever_they_occur(algorithm, cited):
    assert keys(algorithm.cite()) == cited
    assert keys(dataclasses.replace(algorithm, recipe=None).cite()) == cited


def test_years_authors_and_preprints_are_those_of_the_recipes():
    """A recipe's docstring names authors and year; an entry must have them."""
    for name, make in RECIPES.items():
        text = make.__doc__
        for key in set(CITED[name]) - {"lowswitch"}:
            paper = PAPERS[key]
            first = re.sub(r"\W", "", paper.author.split(",")[0].lower())
            said = re.sub(r"[^a-z]", "", text.lower())
            if name not in ("few", "ucb2-h", "ucb2-b"):
                assert first in said, (name, key)
                assert str(paper.year) in text, (name, key)
    page = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    printed = set(re.findall(r"arXiv (\d{4}\.\d{5})", page))
    assert {PAPERS[key].eprint for key in ("jin2018q", "bai2019provably", "zhang2020almost")} <= (
        printed
    )
    assert {PAPERS[key].eprint for key in ("azar2017minimax", "zhang2024settling")} <= printed


def test_the_page_of_algorithms_lists_every_paper_and_all_of_its_authors():
    page = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    rows = page.split("## The papers")[1].splitlines()
    for key, paper in PAPERS.items():
        families = [one.split(",")[0] for one in paper.author.split(" and ")]
        families = [re.sub(r"\{\\.\w\}", ".", name) for name in families]  # {\'e} is any letter
        named = [row for row in rows if all(re.search(name, row) for name in families)]
        assert any(str(paper.year) in row for row in named), key


@pytest.mark.parametrize("key", PAPERS)
def test_an_entry_is_whole(key):
    entry, paper = PAPERS[key].entry(key), PAPERS[key]
    assert entry.count("{") == entry.count("}")
    assert re.fullmatch(r"(\d{4}\.\d{4,5})?", paper.eprint)
    assert bool(paper.booktitle) + bool(paper.journal) + (paper.kind == "misc") == 1
    assert str(paper.year) in key


def test_the_page_shows_what_the_library_cites():
    page = (ROOT / "docs" / "research.md").read_text(encoding="utf-8")
    assert library_entry() in page
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {ls.__version__}" in cff
    assert "http" not in library_entry()  # no address is known


def test_all_algorithms_of_the_exam_can_be_cited():
    for algorithm in ALGORITHMS.values():
        assert algorithm.cite().startswith("@")


def test_schedules_and_parts_of_ones_own_are_cited(monkeypatch):
    grid = ls.q_hoeffding(schedule=ls.parts.Grid("minimax", 5))
    for algorithm, key in (
        (grid, "gao2019batched"),
        (ls.q_hoeffding(schedule=ls.parts.WholePolicy(2)), "jaksch2010near"),
        (ls.q_hoeffding(schedule=ls.parts.Stages()), "zhang2020almost"),
    ):
        assert f"{{{key}," in algorithm.cite()

    class Mine(ls.parts.ByVisits):
        citation = "@misc{mine2026, title = {Mine}}"

        def triggers(self, *, horizon, limit):
            return ls.parts.Triggers(limit, ())

    algorithm = ls.q_hoeffding(schedule=Mine())
    assert algorithm.cite().endswith("@misc{mine2026, title = {Mine}}")
    facts = algorithm.facts()
    monkeypatch.setattr(Mine, "citation", "@misc{other}")
    assert algorithm.facts() == facts  # words about it are no part of the code
