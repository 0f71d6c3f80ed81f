"""The published reproductions: their words, tables and figures in docs/reproduction, and what the
pages say of them.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pages import table

from lowswitch.reproduce import CLAIMS, page
from lowswitch.reproduce.formulas import plain
from lowswitch.reproduce.grades import Finding, Grade
from lowswitch.reproduce.pictures import Layout, Picture
from lowswitch.reproduce.section import Section
from lowswitch.reproduce.statements import STATEMENTS, findings_of
from lowswitch.show.report import COLOURS
from lowswitch.show.text import span

if TYPE_CHECKING:
    from PIL.Image import Image

TARGET = Path(__file__).parent / "reproduction"
PAIRS = {"ucb2-h": ("UCB-H", "UCB2-H"), "ucb2-b": ("UCB-B", "UCB2-B")}


def keep(folder: Path) -> None:
    """Take over what `lowswitch reproduce --out FOLDER` wrote.

    Of the quick run the pages show the comparison of the learners and its figure; of the full one
    the documentation has the whole report. A run with `--only` replaces the claims it measured.
    """
    if not (folder / "index.json").exists():
        keep_part(folder)
        return
    found = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    size, opening = found["size"]["name"], found["opening"]
    claims: Collection[str] = CLAIMS if size == "full" else PAIRS
    kept = [opening, *(found["claims"][name] for name in claims)]
    for section in kept:
        section["numbers"] = {}  # the tables have what is shown of them
    target = TARGET / size
    target.mkdir(parents=True, exist_ok=True)
    names = [name for section in kept_figures(size, kept) for name in section["captions"]]
    found["layouts"] = {name: found["layouts"][name] for name in names}
    write(size, found | {"claims": {section["name"]: section for section in kept[1:]}})
    for name in names:
        smaller(folder / f"{name}.png").save(target / f"{name}.png", optimize=True)


def keep_part(folder: Path) -> None:
    """Take over the claims of a full run with `--only`, and say when each was measured."""
    (file,) = folder.glob("*.json")
    part = json.loads(file.read_text(encoding="utf-8"))
    found = load(part["size"]["name"])
    for name, section in part["claims"].items():
        found["claims"][name] = section | {"numbers": {}}
        found.setdefault("later", {})[name] = part["origin"]
    found["claims"] = {name: found["claims"][name] for name in CLAIMS if name in found["claims"]}
    found["layouts"] |= part["layouts"]
    write(part["size"]["name"], found)
    for name in part["layouts"]:
        picture = smaller(folder / f"{name}.png")
        picture.save(TARGET / part["size"]["name"] / f"{name}.png", optimize=True)


def write(size: str, found: dict[str, Any]) -> None:
    text = json.dumps(found).replace('{"name"', '\n{"name"')
    (TARGET / size / "numbers.json").write_text(f"{text}\n", "utf-8")


def kept_figures(size: str, kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Whose figures are kept: all of the full run, that of the opening of the quick one."""
    return kept if size == "full" else kept[:1]


def smaller(path: Path) -> "Image":
    """A figure two thirds as wide, in the colours of figures and tints of them: still legible, and
    a fifth of the bytes.
    """
    from PIL import Image, ImageColor  # not needed where the documentation is only built

    picture = Image.open(path)
    wide, high = (2 * length // 3 for length in picture.size)
    tints = Image.new("P", (1, 1))
    colours = [ImageColor.getrgb(colour) for colour in COLOURS]
    shares = [share / 12 for share in range(13)]  # 0 is white
    tints.putpalette(
        [round(255 + share * (part - 255)) for c in colours for share in shares for part in c]
    )
    resized = picture.convert("RGB").resize((wide, high), Image.Resampling.BOX)
    return resized.quantize(palette=tints, dither=Image.Dither.NONE)


def load(size: str) -> dict[str, Any]:
    return json.loads((TARGET / size / "numbers.json").read_text(encoding="utf-8"))


def report() -> str:
    """The page of the full run, as `lowswitch reproduce` wrote it."""
    found = load("full")
    opening = Section.from_dict(found["opening"])
    sections = [Section.from_dict(section) for section in found["claims"].values()]
    names = [name for section in (opening, *sections) for name in section.captions]
    return page.render(
        sections,
        {
            name: Picture(
                (TARGET / "full" / f"{name}.png").read_bytes(),
                Layout.from_dict(found["layouts"][name]),
            )
            for name in names
        },
        opening=opening,
        mode=found["size"]["name"],
        origin=found["origin"],
    )


# ---- what the pages say of it --------------------------------------------------------------------


def values() -> dict[str, str]:
    quick, full = load("quick"), load("full")
    return (
        compared("quick", quick)
        | compared("full", full)
        | tuned(full["opening"]["tables"][1])
        | graded(full["claims"])
        | stated(full["claims"])
        | {"full/later": later(full)}
        | of_claims(full["claims"])
    )


def compared(size: str, found: dict[str, Any]) -> dict[str, str]:
    """UCB2 against the learners that may change a row at every visit, on all problems."""
    problems: dict[str, list[list[str]]] = {}
    fewer, more = [], []
    for claim, (base, label) in PAIRS.items():
        costs = rows_of(found["claims"][claim]["tables"][0])
        for one, other in zip(costs[::2], costs[1::2], strict=True):
            assert (one["learner"], other["learner"]) == (base, label)
            switches, deployments = (
                number(one[cost]) / number(other[cost])
                for cost in ("local switches", "deployments")
            )
            more.append(float(other["more"].removesuffix("%")))
            fewer.append(switches)
            problems.setdefault(other["problem"], []).append(
                [
                    other["problem"],
                    label,
                    other["regret"],
                    f"{more[-1]:+.1f} %",
                    f"{mean(other['local switches'])} ({switches:.1f} times fewer)",
                    f"{mean(other['deployments'])} ({deployments:.1f} times fewer)",
                ]
            )
    rows = [row for pair in problems.values() for row in pair]
    header = ["problem", "learner", "regret", "against every visit", "local switches"]
    return {
        f"{size}/compared": table([*header, "deployments"], rows, left=2),
        f"{size}/fewer": span(fewer, ".1f"),
        f"{size}/more": span(more, ".1f"),
        f"{size}/episodes": f"{found['size']['episodes']:,}",
        f"{size}/seeds": f"{found['size']['seeds']}",
    }


def tuned(kept: dict[str, Any]) -> dict[str, str]:
    """The same at the scale that suits the learners that may change a row at every visit."""
    fewer = [float(row["fewer"].removesuffix(" x")) for row in rows_of(kept)]
    (episodes,) = re.findall(r"K = ([\d,]+\d)", kept["title"])
    return {
        "full/tuned": table(kept["header"], kept["rows"], left=2),
        "full/tuned-fewer": span(fewer, ".1f"),
        "full/tuned-episodes": episodes,
    }


def graded(claims: dict[str, Any]) -> dict[str, str]:
    """Every finding of the full run with its grade."""
    sections = [Section.from_dict(claim) for claim in claims.values()]
    rows = [
        [
            section.title.partition(":")[0] if i == 0 else "",
            markdown(finding.says),
            markdown(finding.scope),
            f"*{finding.grade}*",
            markdown(finding.found),
        ]
        for section in sections
        for i, finding in enumerate(section.findings)
    ]
    header = ["claim", "says", "looked at", "grade", "found"]
    findings = [finding for section in sections for finding in section.findings]
    return {"full/grades": table(header, rows, left=5), "full/tally": counted(findings)}


def stated(claims: dict[str, Any]) -> dict[str, str]:
    """Every numbered statement of the paper with the findings that measure it."""
    findings = {name: Section.from_dict(claim).findings for name, claim in claims.items()}
    rows = []
    for statement in STATEMENTS:
        measured = findings_of(statement, findings)
        names = dict.fromkeys(f"`{claim}`" for claim, _ in measured)
        rows.append(
            [statement.words, ", ".join(names), counted([finding for _, finding in measured])]
        )
    return {"full/statements": table(["statement", "measured by", "grades"], rows, left=3)}


def counted(findings: Sequence[Finding]) -> str:
    """How many findings have each grade, in the notation of the page: names contain commas."""
    counts = Counter(finding.grade for finding in findings)
    return "; ".join(f"{counts[grade]} *{grade}*" for grade in Grade if counts[grade])


def later(found: dict[str, Any]) -> str:
    """Which claims were measured after the others, and when."""
    dates = {name: origin["date"] for name, origin in found.get("later", {}).items()}
    return ", ".join(f"`{name}` ({date})" for name, date in dates.items()) or "none"


def markdown(text: str) -> str:
    """A text with formulas in plain letters, as Markdown shows it."""
    return plain(text).replace("*", "\\*").replace("|", "\\|")


def of_claims(claims: dict[str, Any]) -> dict[str, str]:
    """What many machines gain and lose in the full run."""
    speed_ups, rounds = claims["rounds"]["tables"][:2]
    problems = {
        row["problem"]: [row["problem"], row["N_gl"]]
        for row in rows_of(rounds)
        if row["learner"] == "UCB2-H"
    }
    for row in rows_of(speed_ups):
        if row["learner"] == "UCB2-H":
            problems[row["problem"]].append(f"{float(row['M = 100']):.1f}")
    header = ["problem", "deployments", '`"trigger"`', '`"switch"`', '`"speculate"`']
    (episodes,) = re.findall(r"K = ([\d,]+\d)", speed_ups["title"])
    (fewer,) = (
        finding["found"]
        for finding in claims["mistakes"]["findings"]
        if finding["found"].startswith("by counts, CMBIE makes ") and finding["scale"] == "c = 0.05"
    )
    factors = re.findall(r"[\d,.]*\d", fewer)
    return {
        "full/rounds": table(header, problems.values(), left=1),
        "full/rounds-episodes": episodes,
        "full/mistakes": span(map(number, factors), ",.0f"),
    }


def rows_of(kept: dict[str, Any]) -> list[dict[str, str]]:
    """The rows of a table, each cell by the name of its column."""
    return [dict(zip(kept["header"], row, strict=True)) for row in kept["rows"]]


def mean(cell: str) -> str:
    """The mean of a cell such as "20,317 ± 56"."""
    return cell.partition(" ")[0]


def number(cell: str) -> float:
    return float(mean(cell).replace(",", ""))
