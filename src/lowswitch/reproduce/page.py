"""One HTML page of all sections, which holds its figures, fits a phone and can be printed."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from lowswitch.reproduce.section import Section, Table

STYLE = Path(__file__).with_name("page.css").read_text()

Pictures = Mapping[str, bytes]  # PNG by figure name


def render(
    sections: Sequence[Section],
    pictures: Pictures,
    *,
    opening: Section | None,
    mode: str,
    version: str,
) -> str:
    """The whole page: the verdicts, the opening picture, then each claim."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Q-learning with low switching cost, claim by claim</title><style>{STYLE}</style></head><body>
<h1>Provably Efficient Q-Learning with Low Switching Cost, claim by claim</h1>
<p>Bai, Xie, Jiang, Wang, NeurIPS 2019, measured with lowswitch {html.escape(version)},
{html.escape(mode)} mode. For each claim: what the paper says, what was run, the rules that decide,
and what they found. A section holds if each of its rules holds. The paper has no experiments, so
nothing here is compared with published numbers.</p>
<p class="soft">Regret is exact, switches are counted one by one; H steps, S states, A actions,
K episodes, T = K H. A bound without a constant in the paper is compared in shape, not in
height.</p>
{_summary(sections)}
{_section(opening, pictures) if opening else ""}
{"".join(_section(section, pictures) for section in sections)}
</body></html>
"""


def _summary(sections: Sequence[Section]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{section.name}">{html.escape(section.title)}</a></td>'
        f"<td>{_badge(section)}</td><td class='short'>"
        f"{sum(check.holds for check in section.checks)} of {len(section.checks)}</td></tr>"
        for section in sections
    )
    return _grid("<th>claim</th><th>verdict</th><th>rules kept</th>", rows, "words")


def _grid(head: str, rows: str, kind: str) -> str:
    """A table, which scrolls on its own where the page is narrow."""
    body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{body}</table></div>'


def _badge(section: Section) -> str:
    kind = "holds" if section.holds else "fails"
    return f'<span class="verdict {kind}">{html.escape(section.verdict)}</span>'


def _section(section: Section, pictures: Pictures) -> str:
    verdicts = [
        [check.rule, check.measured, "holds" if check.holds else "FAILS"]
        for check in section.checks
    ]
    checks = Table("The rules, and what was measured", ("rule", "measured", "verdict"), verdicts)
    remarks = "".join(f"<li>{html.escape(remark)}</li>" for remark in section.remarks)
    kind = "words" if section.name == "errata" else "numbers"
    parts = [
        f'<h2 id="{section.name}">{html.escape(section.title)}</h2>',
        f"<p>{_badge(section)}</p>" if section.checks else "",
        f"<p><b>The paper says.</b> {html.escape(section.claim)}</p>",
        f"<p><b>What was run.</b> {html.escape(section.method)}</p>",
        *(_figure(pictures[name], caption) for name, caption in section.captions.items()),
        _table(checks, "words") if section.checks else "",
        *(_table(table, kind) for table in section.tables),
        f"<ul>{remarks}</ul>" if remarks else "",
    ]
    return "\n".join(filter(None, parts)) + "\n"


def _table(table: Table, kind: str) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return f"<h3>{html.escape(table.title)}</h3>{_grid(head, rows, kind)}"


def _figure(picture: bytes, caption: str) -> str:
    source = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    words = html.escape(caption)
    image = f'<img alt="{words}" src="{source}">'
    return f"<figure>{image}<figcaption>{words}</figcaption></figure>"
