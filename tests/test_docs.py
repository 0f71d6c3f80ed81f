"""Documentation that fails when it lies: its code runs and prints what the pages say, and whatever
it names exists.
"""

import ast
import contextlib
import functools
import importlib
import importlib.util
import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import lowswitch
from lowswitch import bandits, envs
from lowswitch.algorithms import recipes as algorithms
from lowswitch.cli import commands
from lowswitch.reproduce import CLAIMS, Finding
from lowswitch.reproduce.grades import MEANINGS
from lowswitch.reproduce.page import words as page_words
from lowswitch.reproduce.section import Section
from lowswitch.reproduce.statements import STATEMENTS, findings_of
from lowswitch.show import progress
from lowswitch.theory.orders import PUBLISHED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))
publish, reproduction, notebooks, measured = map(
    importlib.import_module, ("publish", "reproduction", "notebooks", "measured")
)


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text):
    """The fenced blocks of a page in order, each with its language."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def normal(text):
    """Words and numbers, without spacing, rules of tables, speeds, times and what workers send
    while they wait for each other.
    """
    for measured in (
        r"-{3,}",
        r"[\d.,]+ (?:[kM]|seconds)\b",
        r"\(\d+ s\)",
        r"(?<=^wall time ).*",
        r"(?<=^workers ).*",
    ):
        text = re.sub(measured, "", text, flags=re.MULTILINE)
    return text.split()


def assert_prints(printed, shown):
    """The same words, and numbers within 2 %; a page may end its output with three dots."""
    said, claimed = normal(printed), normal(shown)
    if claimed[-1:] == ["..."]:
        claimed.pop()
        said = said[: len(claimed)]
    assert len(said) == len(claimed), f"printed {printed!r}, the page shows {shown!r}"
    number = r"-?\d[\d,]*(?:\.\d+)?"
    for word, claim in zip(said, claimed, strict=True):
        assert re.sub(number, "#", word) == re.sub(number, "#", claim)
        values, claims = (
            [float(part.replace(",", "")) for part in re.findall(number, text)]
            for text in (word, claim)
        )
        assert values == pytest.approx(claims, rel=0.02)


PROGRAMS = [
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            *("index", "process", "research", "gymnasium", "sb3", "tutorial", "few", "ledger"),
            *("features", "features-board", "evaluation", "concurrent", "choosing", "adding"),
            *("bounds", "problems", "howto", "choose-n", "cluster"),
        )
    ),
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_python_of_a_page_runs_and_prints_what_it_shows(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace, printed = {"__name__": name}, None
    for language, text in blocks(page(name)):
        if language == "python" and "__main__" in text:
            printed = run_script(text)
        elif language == "python":
            exec(compile(text, name, "exec"), namespace)
            printed = capsys.readouterr().out
        elif language == "sh":
            run_shell(text)
        elif language == "text" and printed:
            assert_prints(printed, text)
            printed = None


def test_the_gallery_has_every_figure_of_the_pages_and_a_command_that_exists():
    gallery = page("docs/gallery.md")
    shown = {
        name
        for path in DOCS.glob("*.md")
        for name in re.findall(r"!\[[^]]*\]\((.+?)\)", page(path))
    }
    larger = {"frontier/random-20.png"}  # like its neighbour, which links to it
    assert shown - larger == set(re.findall(r"!\[[^]]*\]\((.+?)\)", gallery))
    assert all((DOCS / name).exists() for name in shown)
    assert all(
        (DOCS.parent / name).exists() for name in re.findall(r"python (docs/\w+\.py)", gallery)
    )


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_runs_and_shows_what_it_keeps(name, tmp_path, monkeypatch):
    if name == "trial" and importlib.util.find_spec("lifelines") is None:
        pytest.skip("the data come with lifelines: pip install --no-deps lifelines==0.30.3")
    monkeypatch.chdir(tmp_path)
    notebook = notebooks.load(name)
    kept = [cell["outputs"] for cell in notebooks.code_cells(notebook)]
    for shown, claimed in zip(notebooks.run(notebook), kept, strict=True):
        assert [output["output_type"] for output in shown] == [
            output["output_type"] for output in claimed
        ]
        for one, other in zip(shown, claimed, strict=True):
            assert one.get("data", {}).keys() == other.get("data", {}).keys()
            said, wanted = (
                "".join(output.get("text") or output["data"]["text/plain"])
                for output in (one, other)
            )
            assert_prints(said, wanted)


def run_script(text):
    """What a block prints that is a script of its own: processes import it."""
    Path("script.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, check=True
    ).stdout


def run_shell(text):
    """Run the commands of a block with the `lowswitch` of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(["bash", "-euc", text], env={**os.environ, "PATH": path}, check=True)


def test_the_commands_print_what_their_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("_LINE_SECONDS", "_SILENT_SECONDS"):  # how far it is, where it takes long
        monkeypatch.setattr(progress, name, math.inf)
    monkeypatch.delenv("COLUMNS", raising=False)  # which other tests may have left
    printed, commands = "", 0
    for language, text in blocks(page("docs/cli.md")):
        if language == "console":
            command, _, shown = text.partition("\n")
            printed, commands = run(command, capsys), commands + 1
            if shown:
                assert_prints(printed, shown)
        elif language == "json":
            assert_same_object(json.loads(printed), json.loads(text))
    assert commands >= 8


def run(command, capsys):
    """What a command line prints, to either stream."""
    prompt, program, *arguments = shlex.split(command)
    assert (prompt, program) == ("$", "lowswitch")
    with contextlib.suppress(SystemExit):  # --version
        commands.main(arguments)
    return "".join(capsys.readouterr())


def assert_same_object(said, claimed):
    assert list(said) == list(claimed)
    for key, value in claimed.items():
        if isinstance(value, dict):
            assert_same_object(said[key], value)
        elif key != "steps_per_second":
            assert said[key] == (
                value if isinstance(value, str) else pytest.approx(value, rel=0.02)
            )


# ---- whatever there is, is on its page -----------------------------------------------------------


@pytest.mark.parametrize("name", [*algorithms.RECIPES, *bandits.RECIPES])
def test_every_algorithm_has_a_section(name):
    headings = [line for line in page("docs/algorithms.md").splitlines() if line.startswith("### ")]
    assert any(f"`{name}`" in heading for heading in headings)


@pytest.mark.parametrize("name", envs.PROBLEMS)
def test_every_problem_has_a_section_with_its_defaults_and_value(name, capsys):
    text = page("docs/problems.md")
    assert f"\n### `{name}`\n\n`{name}:" in text
    commands.main(["envs"])
    listed = next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{name}:")
    )
    assert f"`{listed.lower()}`" in text.lower()
    mdp = envs.make(name)
    row = next(line for line in text.splitlines() if line.startswith(f"| [`{name}`]"))
    assert f"| {mdp.states}, {mdp.actions}, {mdp.horizon} | {mdp.optimal_value():.4f} |" in row


def test_every_command_has_a_section(capsys):
    with pytest.raises(SystemExit):
        commands.main(["--help"])
    listed = re.findall(r"^ {4}(\w+)(?: |$)", capsys.readouterr().out, re.MULTILINE)
    assert {"run", "compare", "demo"} <= set(listed)
    for command in listed:
        assert f"## `lowswitch {command}` " in page("docs/cli.md")


def test_every_option_is_on_the_page(capsys):
    for command in ("run", "compare", "plot", "concurrent", "serve", "demo", "reproduce"):
        with pytest.raises(SystemExit):
            commands.main([command, "--help"])
        options = set(re.findall(r"(?<!\w)--[a-z-]+", capsys.readouterr().out)) - {"--help"}
        assert len(options) >= 3
        for option in options:
            assert f"| `{option}" in page("docs/cli.md")


@pytest.mark.parametrize("command", ["ledger", "token"])
def test_every_command_below_another_is_in_its_table_with_its_options(command):
    section = page("docs/cli.md").partition(f"## `lowswitch {command}` ")[2].partition("\n## ")[0]
    rows = {
        name: line
        for line in section.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)[^`]*`", line.split("|")[1])
    }
    everywhere = section.partition("| command |")[0] + section.rpartition("|\n")[2]
    below = commands.COMMANDS[command].below
    assert set(rows) == set(below)
    for name, one in below.items():
        options = {given.name for given in one.arguments if given.name.startswith("--")}
        like = [rows[other] for other in re.findall(r"the options of `(\w+)`", rows[name])]
        own = section.partition(f"### `lowswitch {command} {name}` ")[2]
        said = set(re.findall(r"--[a-z-]+", "".join([rows[name], *like, own, everywhere])))
        assert options <= said, (name, options - said)


def test_every_number_of_a_concurrent_run_is_on_the_page(capsys):
    command = "concurrent --env riverswim --algorithm ucb2-h --episodes 10 --machines 2 --json"
    commands.main(command.split())
    fields = {
        name
        for line in page("docs/cli.md").splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line)
    }
    assert set(json.loads(capsys.readouterr().out)) <= fields


def test_every_public_name_is_on_an_api_page():
    pages = "".join(map(page, sorted((DOCS / "api").glob("*.md"))))
    named, rendered = (
        set(re.findall(pattern, pages))
        for pattern in (r"`(\w+)`", r"::: lowswitch\.(?:\w+\.)*(\w+)")
    )
    assert set(lowswitch.__all__) <= named
    assert {
        name
        for name in lowswitch.__all__
        if name
        not in (
            *("algorithms", "bandits", "concurrent", "envs", "evaluation", "exact"),
            *("features", "ledger", "parts"),
            *("LinearLearner", "from_gymnasium", "plot"),
        )
    } <= rendered


PUBLIC = [
    *(
        "lowswitch",
        "lowswitch.algorithms.parts",
        "lowswitch.ledger",
        "lowswitch.envs",
        "lowswitch.bandits",
    ),
    *("lowswitch.concurrent", "lowswitch.races", "lowswitch.forecast", "lowswitch.features"),
    *("lowswitch.evaluation", "lowswitch.features.problems", "lowswitch.envs.gymnasium"),
]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_of_a_public_module_is_explained_on_an_api_page(name):
    importlib.import_module("lowswitch.envs.gymnasium")
    pages = "".join(map(page, sorted((DOCS / "api").glob("*.md"))))
    explained = set(re.findall(r"::: (lowswitch[\w.]*)", pages))
    last = {whole.rpartition(".")[2] for whole in explained}
    members = {
        word.strip() for some in re.findall(r"members: \[(.*)\]", pages) for word in some.split(",")
    }
    whole = [sys.modules[one] for one in explained if one in sys.modules]
    defined = {
        one
        for module in whole
        for one, thing in vars(module).items()
        if getattr(thing, "__module__", None) == module.__name__
    }
    module = importlib.import_module(name)
    missing = []
    for public in module.__all__:
        thing = getattr(module, public)
        names = {public, getattr(thing, "__name__", public)}  # a former name has none of its own
        on_page = names & (last | members | defined)
        # an error has one sentence for all, and neither a constant nor a module has a docstring
        simple = not callable(thing) or (isinstance(thing, type) and issubclass(thing, Exception))
        if not (on_page or (simple and f"`{public}`" in pages)):
            missing.append(public)
    assert not missing


def test_the_installation_is_that_of_the_readme():
    readme, index = (
        [text for _, text in blocks(page(name)) if text.startswith("python3 -m venv")]
        for name in ("README.md", "docs/index.md")
    )
    assert len(readme) == 3
    assert index == readme[:1]


# ---- whatever is named, exists -------------------------------------------------------------------

NAMED = [
    (path.name, name)
    for path in sorted(DOCS.glob("*.md"))
    for name in re.findall(r"`([\w/]+\.py::[\w.]+)`", page(path))
]


def test_every_formula_has_a_function_and_a_test():
    rows = [
        line
        for line in page("docs/formulas.md").splitlines()
        if line.startswith("|") and ".py::" in line
    ]
    assert len(rows) >= 90
    for row in rows:
        function, test = row.split(" | ")[-2:]
        assert re.search(r"`(?!test_)[\w/]+\.py::", function)
        assert "`test_" in test


@pytest.mark.parametrize("name", sorted({name for _, name in NAMED}))
def test_what_the_pages_name_exists(name):
    file, _, path = name.partition("::")
    top, *members = path.split(".")
    if file.startswith("test_"):
        (found,) = (ROOT / "tests").rglob(file)
        assert top in defined(found)
    else:
        assert top in defined(ROOT / "src" / "lowswitch" / file)
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        thing = getattr(importlib.import_module(f"lowswitch.{module}"), top)
        for member in members:
            thing = getattr(thing, member)


@functools.cache
def defined(path):
    """The names that a file defines itself, and does not only import."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


# ---- numbers come from result files --------------------------------------------------------------


@pytest.fixture(scope="module")
def published():
    return publish.values()


@pytest.mark.parametrize("name", publish.PAGES)
def test_the_numbers_of_a_page_are_those_of_the_result_files(name, published):
    assert publish.fill(page(name), published) == page(name)


def test_the_page_of_formulas_is_that_of_its_file():
    for path, text in publish.generated().items():
        assert path.read_text(encoding="utf-8") == text


def test_every_result_is_on_a_page(published):
    shown = {name for text in map(page, publish.PAGES) for name in NAMES.findall(text)}
    assert shown == set(published)


NAMES = re.compile(r"<!-- (\w+/[\w-]+) -->")
# Python's version, what was set and not measured, and a number that test_bandit_algorithms checks
CHOSEN = {"3.11", "1.25", "1,400", "1,903", "10,000", "20,000", "30,000", "100,000"}


@pytest.mark.parametrize("name", sorted({*publish.PAGES} - {"docs/concurrent.md"}))
def test_a_long_number_in_the_text_comes_from_a_file_or_from_what_the_page_prints(name):
    fenced = r"^```.*?^```$"
    shown = "".join(re.findall(fenced, page(name), re.DOTALL | re.MULTILINE)).replace("_", "")
    text = re.sub(fenced, "", page(name), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!-- \w+/[\w-]+ -->.*?<!-- / -->|`[^`\n]*`", "", text, flags=re.DOTALL)
    text = re.sub(r"arXiv \d+\.\d+", "", text)
    numbers = re.findall(r"(?<![\w./])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+)(?!\w)", text)
    long = {number for number in numbers if len(re.sub(r"^0\.0*|\D", "", number)) >= 3}
    shown = shown.replace(",", "")
    assert {number for number in long - CHOSEN if number.replace(",", "") not in shown} == set()


def test_values_go_between_their_comments():
    values = {"a/one": "1", "a/two": "| t |\n| - |"}
    text = "There is <!-- a/one -->7<!-- / -->.\n\n<!-- a/two --><!-- / -->\n"
    filled = publish.fill(text, values)
    assert filled == (
        "There is <!-- a/one -->1<!-- / -->.\n\n<!-- a/two -->\n\n| t |\n| - |\n\n<!-- / -->\n"
    )
    assert publish.fill(filled, values) == filled
    with pytest.raises(ValueError, match="no value is called 'a/three'; there are a/one, a/two"):
        publish.fill("<!-- a/three --><!-- / -->", values)
    with pytest.raises(ValueError, match="a/one begins a line"):
        publish.fill("There is\n<!-- a/one -->1<!-- / -->.", values)


def test_a_table_in_a_folded_note_has_the_margin_of_the_note():
    text, values = "??? note\n\n    <!-- a/two --><!-- / -->\n", {"a/two": "| t |\n| - |"}
    filled = publish.fill(text, values)
    assert filled == ("??? note\n\n    <!-- a/two -->\n\n    | t |\n    | - |\n\n    <!-- / -->\n")
    assert publish.fill(filled, values) == filled


def test_a_page_that_differs_is_found(tmp_path, monkeypatch, capsys, published):
    monkeypatch.setattr(publish, "values", lambda: published)
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    monkeypatch.setattr(publish, "PAGES", ["page.md"])
    (tmp_path / "page.md").write_text("Found: <!-- full/tally -->99 seen<!-- / -->.")
    for arguments, status, said in (
        (["--check"], 1, "page.md differs\n"),
        ([], 0, "page.md changed\n"),
        (["--check"], 0, ""),
    ):
        monkeypatch.setattr(sys, "argv", ["publish.py", *arguments])
        assert publish.main() == status
        assert capsys.readouterr().out == said


def test_the_published_report_is_of_a_full_run():
    report = reproduction.report()
    assert "full mode" in report
    assert all(f'<details id="{claim}">' in report for claim in CLAIMS)
    figures = len(list((DOCS / "reproduction" / "full").glob("*.png")))
    assert report.count("data:image/png;base64,") == figures


def test_the_report_is_short_whole_and_fetches_nothing():
    report = reproduction.report()
    assert 500 < page_words(report) <= 1500
    assert "<math>" in report
    assert "$" not in report
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", report)
    assert "http" not in report
    assert "@import" not in report
    for fact in ("1905.12849", "lowswitch ", "commit ", " cores, "):
        assert fact in report[report.index("<footer>") :]


def test_the_grades_of_the_report_follow_from_its_rules():
    """The published grade of each finding is that which its own rules give."""
    claims = reproduction.load("full")["claims"]
    findings = [finding for claim in claims.values() for finding in claim["findings"]]
    assert len(findings) > 20
    for finding in findings:
        assert finding["grade"] == str(Finding.from_dict(finding).grade)
    given = {finding["grade"] for finding in findings}
    assert len(given) > 5
    report = reproduction.report()
    assert {str(grade) for grade, said in MEANINGS.items() if f" {said}</li>" in report} == given
    assert not claims["errata"]["findings"]
    assert not claims["open"]["findings"]


NUMBERED = """
    theorem:ucb2 theorem:ql-ucb2 theorem:ql-ucb2-Bernstein corollary:pac-bound theorem:concurrent
    theorem:lower-bound lemma:alphati lemma:optimistic-and-accurate lemma:max-error
    lemma:perturbation-bound lemma:double-counting lemma:optimistic-and-accurate-Bernst
    lemma:max-error-Bernst lemma:perturbation-bound-Bernst lemma:variance-bound-Bernst
"""
UNNUMBERED = """
    section:problem-setup section:switching-cost section:concurrent section:concurrent
    appendix:concurrent-mistake-bound equation:one-step-error
"""


def test_every_numbered_statement_of_the_paper_is_measured():
    """The labels of theorems, corollary and lemmas in the TeX of arXiv 1905.12849, and what has no
    number of its own: stochastic rewards, the definition, what section 4 says of the speed-up and
    of CMBIE, the mistake bound, the propagation of error. Each has a finding, and each finding
    belongs to a statement.
    """
    claims = reproduction.load("full")["claims"]
    findings = {name: Section.from_dict(claim).findings for name, claim in claims.items()}
    assert sorted(one.label for one in STATEMENTS) == sorted((NUMBERED + UNNUMBERED).split())
    used = set()
    for statement in STATEMENTS:
        for claim, beginning in statement.measured:
            found = findings_of(statement._replace(measured=((claim, beginning),)), findings)
            assert found, (statement.words, beginning)
            used |= {(name, finding.says) for name, finding in found}
    assert used == {(name, one.says) for name, every in findings.items() for one in every}
    table = page("docs/reproduction.md").partition("<!-- full/statements -->")[2]
    rows = table.partition("<!-- / -->")[0].strip().splitlines()[2:]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [one.words for one in STATEMENTS]
    assert all(cell for row in rows for cell in row.strip("| ").split(" | "))


@pytest.mark.parametrize(
    ("exponent", "below", "reached"),
    [(0.3, True, False), (0.41, True, True), (0.7, False, True)],
)
def test_exponents_are_compared_by_their_interval(exponent, below, reached):
    row = {"low": exponent - 0.1, "high": exponent + 0.1, "order": 0.5}
    assert measured.keeps_order(row | {"cost": "regret"}) is below
    assert measured.keeps_order(row | {"cost": "machines"}) is reached


def test_claims_that_were_measured_again_replace_the_old_ones(tmp_path, monkeypatch):
    """A run with --only keeps all else, and the page says which claims came later."""
    out, kept = tmp_path / "out", tmp_path / "kept"
    out.mkdir()
    before = reproduction.load("full")
    (kept / "full").mkdir(parents=True)
    monkeypatch.setattr(reproduction, "TARGET", kept)
    reproduction.write("full", before)
    again = before["claims"]["proof"] | {"title": "Again", "numbers": {"long": [1.0]}}
    part = {
        "size": {"name": "full"},
        "origin": {"date": "2030-01-01"},
        "claims": {"proof": again},
        "layouts": {},
    }
    (out / "proof.json").write_text(json.dumps(part), encoding="utf-8")
    reproduction.keep(out)
    after = reproduction.load("full")
    assert after["claims"] == before["claims"] | {"proof": again | {"numbers": {}}}
    assert list(after["claims"]) == list(before["claims"])
    assert "`proof` (2030-01-01)" in reproduction.later(after)


def test_a_reproduction_is_kept_small(tmp_path, monkeypatch):
    out, kept = tmp_path / "out", tmp_path / "kept"
    out.mkdir()
    found = reproduction.load("quick")
    found["opening"]["numbers"] = {"curve": [1.0] * 1000}
    (out / "index.json").write_text(json.dumps(found), encoding="utf-8")
    Image.new("RGB", (300, 150), "white").save(out / "headline.png")
    monkeypatch.setattr(reproduction, "TARGET", kept)
    reproduction.keep(out)
    assert sorted(path.name for path in kept.rglob("*.*")) == ["headline.png", "numbers.json"]
    with Image.open(kept / "quick" / "headline.png") as picture:
        assert picture.size == (200, 100)
    assert reproduction.load("quick") == found | {"opening": found["opening"] | {"numbers": {}}}


def test_what_is_published_of_the_reproduction_is_small():
    files = [path for path in (DOCS / "reproduction").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 600_000


# ---- the frontiers -------------------------------------------------------------------------------

FRONTIERS = ["riverswim", "random-5", "random-20"]


@pytest.mark.parametrize("name", FRONTIERS)
def test_few_deployments_cost_little_regret(name):
    result = lowswitch.Frontier.load(DOCS / "frontier" / f"{name}.json")
    assert min(len(point.costs.seeds) for point in result.finalists) >= 8
    most = {10: 3.0, 30: 10.0, 100: 2.0} if name.startswith("random") else {30: 10.0, 100: 2.0}
    check = json.loads((DOCS / "frontier" / "check.json").read_text(encoding="utf-8"))[name]
    for limit, times in most.items():
        assert result.best(deployments=limit).mean("regret") <= times * result.best().mean("regret")
        assert check[str(limit)]["regret"] <= times * check["none"]["regret"]


def test_no_recipe_is_called_missing():
    """By the name that begins the sentence."""
    text = page("docs/research.md")
    missing = re.findall(r"([A-Z][\w-]+)(?:, [^\n]*?,)? is missing", text)
    assert missing == ["APEVE"]
    assert not {name.lower() for name in missing} & set(algorithms.RECIPES)


# ---- the orders ----------------------------------------------------------------------------------


def test_the_orders_are_measured_for_every_recipe_on_every_problem():
    script = importlib.import_module("orders")
    keys = ("recipe", "scale", "algorithm", "episodes")
    for problem in script.PROBLEMS:
        measured = script.load(problem)
        assert measured["problem"] == script.PROBLEMS[problem]
        expected = [
            (name, scale, str(algorithm), K)
            for name in PUBLISHED
            for scale, algorithm in script.scales(name).items()
            for K in script.episodes(problem, name)
        ]
        assert [tuple(cell[key] for key in keys) for cell in measured["runs"]] == expected
        for cell in measured["runs"]:
            for cost in ("regret", "local_switches", "deployments"):
                assert len(cell[cost]) == len(script.SEEDS)
            assert script.of_bound(measured, cell, "local_switches") <= 1
            assert script.of_bound(measured, cell, "deployments") <= 1


def test_the_exceptions_that_the_orders_page_names_are_all():
    script = importlib.import_module("orders")
    fast = [
        (name, problem)
        for problem in script.PROBLEMS
        for (name, scale), cells in script.lines(script.load(problem)).items()
        if scale == "practical" and script.exponents(cells)[-1] > 0.5
    ]
    larger = ("riverswim", "random-20", "deep-sea")
    named = {(name, problem) for name in ("q-h", "stage-q") for problem in larger}
    assert set(fast) == named | {("q-b", "riverswim")}
