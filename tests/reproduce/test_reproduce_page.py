"""The page of the reproduction: formulas, figures panel by panel, what is folded, and its foot."""

import json
import re
import runpy
import subprocess
import sys
from importlib import resources

import matplotlib.pyplot as plt
import pytest

from lowswitch.reproduce import origin, page, pictures, reproduce
from lowswitch.reproduce.formulas import plain, typeset
from lowswitch.reproduce.grades import Grade
from lowswitch.reproduce.lab import Effort
from lowswitch.reproduce.section import Section
from lowswitch.show import templates

# ---- formulas ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mathml", "words"),
    [
        ("a < b", "a &lt; b", "a < b"),
        (
            "$H^3$",
            "<math><msup><mrow><mi>H</mi></mrow><mrow><mn>3</mn></mrow></msup></math>",
            "H^3",
        ),
        (
            r"is $\sqrt{K}$.",
            "is <math><msqrt><mi>K</mi></msqrt></math>.",
            "is sqrt(K).",
        ),
        (
            r"$\frac{1}{2}$",
            "<math><mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac></math>",
            "1 / 2",
        ),
        (
            r"$\alpha_t^i$",
            "<math><msubsup><mrow><mi>&alpha;</mi></mrow><mrow><mi>t</mi></mrow>"
            "<mrow><mi>i</mi></mrow></msubsup></math>",
            "alpha_t^i",
        ),
        (
            r"$\tilde{O}(\eps)$",
            "<math><mover><mrow><mi>O</mi></mrow><mo stretchy='false'>~</mo></mover>"
            "<mo stretchy='false'>(</mo><mi>&epsilon;</mi><mo stretchy='false'>)</mo></math>",
            "O~(eps)",
        ),
        (
            "$K^{-1/2}$",
            "<math><msup><mrow><mi>K</mi></mrow><mrow><mo>&minus;</mo><mn>1</mn><mo>/</mo>"
            "<mn>2</mn></mrow></msup></math>",
            "K^(-1/2)",
        ),
        (
            r"$N_{\text{sw}} \le \lceil \hat{p} \rceil$",
            "<math><msub><mrow><mi>N</mi></mrow><mrow><mtext>sw</mtext></mrow></msub>"
            "<mspace width='0.17em'/><mo>&le;</mo><mspace width='0.17em'/>"
            "<mo stretchy='false'>&lceil;</mo><mspace width='0.17em'/>"
            "<mover><mrow><mi>p</mi></mrow><mo stretchy='false'>^</mo></mover>"
            "<mspace width='0.17em'/><mo stretchy='false'>&rceil;</mo></math>",
            "N_sw <= ceil( p_hat )",
        ),
    ],
)
def test_a_formula_is_typeset_and_has_plain_words(text, mathml, words):
    assert typeset(text) == mathml
    assert plain(text) == words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("costs 5 $", "not closed"),
        (r"$\nonsense$", r"unknown command \\nonsense"),
        (r"$\sqrt$", "ends too early"),
        ("$K}$", "a brace too many"),
        ("${K$", "ends too early"),
    ],
)
def test_a_wrong_formula_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        typeset(text)


# ---- figures -------------------------------------------------------------------------------------


def test_the_panels_of_a_figure_lie_in_it_and_apart():
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for one, title in zip(axes, ("left", "right"), strict=True):
        one.plot([1, 2], [3, 4], "--", color="#0072B2", label="UCB2")
        one.set_title(title)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center")
    found = pictures.layout(figure)
    plt.close(figure)
    (x0, y0, w0, h0), (x1, y1, w1, h1) = found.panels
    assert 0 <= x0 < x0 + w0 <= x1 < x1 + w1 <= 8
    assert all(0 <= y < y + h <= 3 for y, h in ((y0, h0), (y1, h1)))
    assert min(w0, w1) > 3
    assert found.names == ["left", "right"]
    assert [(line.label, line.colour, line.dashes) for line in found.legend] == [
        ("UCB2", "#0072b2", "6 3")
    ]
    data = json.loads(json.dumps(found.to_dict()))
    assert pictures.Layout.from_dict(data).to_dict() == data


# ---- the page ------------------------------------------------------------------------------------


TINY = Effort(
    name="tiny",
    episodes=1,
    seeds=1,
    pulls=5_000,
    bandit_runs=20,
    plain_episodes=1,
    plain_seeds=1,
)


def test_the_page_figures_and_numbers_are_written(tmp_path):
    told = []
    sections = reproduce(tmp_path, effort=TINY, only=["bandits", "errata"], measured=told.append)
    assert told == sections
    text = (tmp_path / "bandits-errata.html").read_text(encoding="utf-8")
    for section in sections:
        assert f'<details id="{section.name}">' in text
        assert all(typeset(check.measured) in text for check in section.checks)
    assert text.count("data:image/png;base64,") == 1
    assert text.count('<use href="#picture-bandits"/>') == 6  # two costs on three bandits
    assert {path.name for path in tmp_path.iterdir()} == {
        "cache",
        "bandits-errata.html",
        "bandits-errata.json",
        "bandits.png",
        "bandits.svg",
    }
    numbers = json.loads((tmp_path / "bandits-errata.json").read_text(encoding="utf-8"))
    assert numbers["size"]["pulls"] == TINY.pulls
    assert set(numbers["layouts"]) == {"bandits"}
    graded = [found["grade"] for found in numbers["claims"]["bandits"]["findings"]]
    assert graded == [str(found.grade) for found in sections[0].findings]


def render(**changes):
    section = Section(
        name="x", title="Theorem 9: it is so", claim="one two $K$", method="three", **changes
    )
    where = {"version": "1.2.3", "commit": "abc", "date": "2026-01-02", "machine": "2 cores, Zeta"}
    return page.render([section], {}, opening=None, mode="quick", origin=where)


def test_the_foot_says_where_the_numbers_come_from():
    text = render()
    foot = text[text.index("<footer>") :]
    for fact in ("NeurIPS 2019", "lowswitch 1.2.3", "abc", "2026-01-02", "2 cores, Zeta", "quick"):
        assert fact in foot


def test_words_that_are_folded_do_not_count():
    assert page.words(render(remarks=["a thousand words"] * 1000)) == page.words(render())
    assert page.words("<body><p>Two words.</p><details><summary>one</summary>no</details>") == 3


def contrast(colour):
    """The contrast of a colour to white: WCAG 2.2, relative luminance."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 1.05 / (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)


def test_all_text_can_be_read():
    assert contrast("#000000") == 21
    assert contrast("#777777") == pytest.approx(4.48, abs=0.01)
    css = resources.files("lowswitch.reproduce").joinpath("page.css").read_text("utf-8")
    named = dict(re.findall(r"--(\w+): (#\w{6})", css))
    of_text = re.findall(r"(?<![-\w])color: (?:var\(--(\w+)\)|(#\w{6}))", css)
    assert len(of_text) > 5
    assert min(contrast(colour or named[name]) for name, colour in of_text) >= 4.5


def test_what_is_no_claim_has_no_grade():
    text = render()
    assert "Not a claim." in text
    assert not any(f'class="grade {grade.name.lower()}"' in text for grade in Grade)


def test_values_are_escaped():
    assert "<li>a &lt; b</li>" in render(remarks=["a < b"])
    where = dict.fromkeys(("version", "commit", "date", "machine"), "<b>")
    assert "lowswitch &lt;b&gt;," in page.render([], {}, opening=None, mode="", origin=where)


def test_without_jinja2_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError, match=r"pages need jinja2; .*lowswitch\[reproduce\]"):
        runpy.run_path(templates.__file__)


# ---- where numbers come from ---------------------------------------------------------------------


def git(folder, *arguments):
    names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True)


def test_a_commit_is_known_only_where_the_code_is_that_of_the_clone(tmp_path):
    package = tmp_path / "src" / "lowswitch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("1")
    assert origin.commit(package) == "unknown"
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    assert re.fullmatch(r"[0-9a-f]{10}", origin.commit(package))
    installed = tmp_path / "venv" / "lowswitch"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("1")
    assert origin.commit(installed) == origin.commit(package)
    (installed / "__init__.py").write_text("2")
    assert origin.commit(installed) == "unknown"
    (package / "__init__.py").write_text("3")
    assert origin.commit(package).endswith(" and later changes")


def test_the_machine_is_told_without_its_name():
    found = origin.describe_origin()
    assert re.fullmatch(r"\d+ cores, \S.*", found["machine"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert list(found) == ["version", "commit", "date", "machine"]
