"""One HTML page of all claims: the result first, the rest folded claim by claim.

It fetches nothing, fits a phone and can be printed.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from lowswitch.reproduce.formulas import typeset
from lowswitch.reproduce.grades import MEANINGS, Finding, Grade, tally
from lowswitch.reproduce.origin import PAPER
from lowswitch.reproduce.pictures import Line, Picture
from lowswitch.reproduce.section import Section, Table

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
TITLE = "Q-learning with low switching cost, claim by claim"

Pictures = Mapping[str, Picture]  # by figure name


def render(
    sections: Sequence[Section],
    pictures: Pictures,
    *,
    opening: Section | None,
    mode: str,
    origin: Mapping[str, str],
) -> str:
    """The whole page: the result, its figure, the grades, then each claim folded."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title><style>{STYLE}</style></head><body>
{_images(pictures)}
<h1>{TITLE}</h1>
{_opening(opening, pictures) if opening else ""}
{_verdicts(sections)}
{"".join(_section(section, pictures) for section in sections)}
{_foot(mode, origin)}
</body></html>
"""


def _opening(opening: Section, pictures: Pictures) -> str:
    return f'<p class="result">{typeset(opening.claim)}</p>' + "".join(
        _figure(name, pictures[name], caption) for name, caption in opening.captions.items()
    )


def _verdicts(sections: Sequence[Section]) -> str:
    """Every finding with its grade and how far it reaches, and what the grades mean."""
    findings = [finding for section in sections for finding in section.findings]
    if not findings:
        return ""
    rows = "".join(
        _verdict(section, finding, before)
        for section in sections
        for before, finding in pairwise([None, *section.findings])
        if finding
    )
    meanings = "".join(
        f"<li>{_badge(grade)} {html.escape(meaning)}</li>" for grade, meaning in MEANINGS.items()
    )
    names = ("claim", "scale", "length", "problems", "grade", "found")
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        f"<h2>What was found of each claim</h2><p>The paper has no experiments. Of"
        f" {len(findings)} statements looked at: {tally(findings)}. c is the scale of the bonus,"
        " and 1 is that of the proofs.</p>"
        f'{_grid(head, rows, "words verdicts")}<ul class="meanings">{meanings}</ul>'
    )


def _verdict(section: Section, finding: Finding, before: Finding | None) -> str:
    """A line of the table; what it shares with the line before is dimmed."""
    name = html.escape(section.title.partition(":")[0])
    link = "" if before else f'<a href="#{section.name}">{name}</a>: '
    again = " again" if before and before.says == finding.says else ""
    return (
        f'<tr class="{"more" if before else "first"}{again}"><td>{link}{typeset(finding.says)}</td>'
        f"<td>{typeset(finding.scale)}</td><td>{typeset(finding.length)}</td>"
        f"<td>{typeset(finding.problems)}</td><td>{_badge(finding.grade)}</td>"
        f"<td>{typeset(finding.found)}</td></tr>"
    )


def _badge(grade: Grade) -> str:
    return f'<span class="grade {grade.name.lower()}">{grade}</span>'


def _section(section: Section, pictures: Pictures) -> str:
    """A claim, folded: only its title and its grades are seen."""
    grades = " ".join(map(_badge, dict.fromkeys(finding.grade for finding in section.findings)))
    remarks = "".join(f"<li>{typeset(remark)}</li>" for remark in section.remarks)
    kind = "words" if section.name == "errata" else "numbers"
    parts = [
        f"<summary><h2>{typeset(section.title)}</h2> {grades}</summary>",
        f"<p><b>{'The paper says.' if section.findings else 'Not a claim.'}</b>"
        f" {typeset(section.claim)}</p>",
        f"<p><b>What was run.</b> {typeset(section.method)}</p>",
        *(_figure(name, pictures[name], caption) for name, caption in section.captions.items()),
        *(_rules(finding) for finding in section.findings),
        *(_table(table, kind) for table in section.tables),
        f"<ul>{remarks}</ul>" if remarks else "",
    ]
    body = "\n".join(filter(None, parts))
    return f'<details id="{section.name}">{body}</details>\n'


def _rules(finding: Finding) -> str:
    rows = [
        [
            check.rule,
            check.measured,
            "kept" if check.holds else "broken: contradicts" if check.always else "broken",
        ]
        for check in finding.checks
    ]
    table = Table("", ("rule", "measured", ""), rows)
    return (
        f"<h3>{_badge(finding.grade)} {typeset(finding.says)}</h3>"
        f'<p class="soft">{typeset(finding.scope)}: {typeset(finding.found)}</p>'
        f"{_table(table, 'words')}"
    )


def _table(table: Table, kind: str) -> str:
    head = "".join(f"<th>{typeset(cell)}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{typeset(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    title = f"<h3>{typeset(table.title)}</h3>" if table.title else ""
    return f"{title}{_grid(head, rows, kind)}"


def _grid(head: str, rows: str, kind: str) -> str:
    """A table, which scrolls on its own where the page is narrow."""
    body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{body}</table></div>'


def _foot(mode: str, origin: Mapping[str, str]) -> str:
    facts = {
        "Paper": PAPER,
        "Measured with": (
            f"lowswitch {origin['version']}, commit {origin['commit']}, {mode} mode, on"
            f" {origin['date']}, {origin['machine']}"
        ),
    }
    lines = "<br>".join(f"{name}: {html.escape(fact)}." for name, fact in facts.items())
    return (
        f"<footer><p>{lines}</p><p>Regret is exact, switches are counted one by one; H steps, S"
        " states, A actions, K episodes, T = K H. A bound without a constant in the paper is"
        " compared in shape, not in height.</p></footer>"
    )


# ---- figures: one picture each, shown panel by panel -------------------------------------------


def _images(pictures: Pictures) -> str:
    """All pictures once; the panels of a figure are windows onto its picture."""
    images = "".join(
        f'<image id="picture-{name}" width="{picture.layout.size[0]}"'
        f' height="{picture.layout.size[1]}" href="data:image/png;base64,'
        f'{base64.b64encode(picture.png).decode()}"/>'
        for name, picture in pictures.items()
    )
    return f'<svg class="store" aria-hidden="true"><defs>{images}</defs></svg>'


def _figure(name: str, picture: Picture, caption: str) -> str:
    layout = picture.layout
    panels = "".join(
        f'<svg role="img" aria-label="{html.escape(title)}" viewBox="{x} {y} {w} {h}"'
        f' style="aspect-ratio: {w} / {h}"><use href="#picture-{name}"/></svg>'
        for (x, y, w, h), title in zip(layout.panels, layout.names, strict=True)
    )
    many = {1: "one", 2: "two", 4: "two"}.get(len(layout.panels), "many")
    return (
        f'<figure><div class="panels {many}">{panels}</div>{_legend(layout.legend)}'
        f"<figcaption>{typeset(caption)}</figcaption></figure>"
    )


def _legend(lines: Iterable[Line]) -> str:
    entries = "".join(
        '<li><svg class="key" viewBox="0 0 28 10"><line x1="1" y1="5" x2="27" y2="5"'
        f' stroke="{line.colour}" stroke-width="{max(2.0, line.width)}"'
        f' stroke-opacity="{line.alpha}"'
        f' stroke-dasharray="{line.dashes}"/></svg>{html.escape(line.label)}</li>'
        for line in lines
    )
    return f'<ul class="legend">{entries}</ul>' if entries else ""


# ---- how much there is to read -------------------------------------------------------------------


def words(text: str) -> int:
    """How many words a page shows before anything is unfolded."""
    shown = re.sub(r"<style>.*?</style>|<head>.*?</head>", " ", text, flags=re.DOTALL)
    shown = re.sub(
        r"<details[^>]*>\s*(<summary>.*?</summary>).*?</details>", r"\1", shown, flags=re.DOTALL
    )
    shown = re.sub(r"<math>.*?</math>", " formula ", shown, flags=re.DOTALL)
    return len(re.findall(r"\w[\w.,'-]*", html.unescape(re.sub(r"<[^>]+>", " ", shown))))
