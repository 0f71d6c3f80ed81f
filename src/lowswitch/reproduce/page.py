"""One HTML page of all claims: the result first, the rest folded claim by claim.

It fetches nothing, fits a phone and can be printed.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowswitch.reproduce.formulas import typeset
from lowswitch.reproduce.grades import MEANINGS, tally
from lowswitch.reproduce.origin import PAPER
from lowswitch.reproduce.pictures import Picture
from lowswitch.reproduce.section import Section
from lowswitch.show.templates import Markup, templates

HERE = Path(__file__).parent
TITLE = "Q-learning with low switching cost, claim by claim"


def render(
    sections: Sequence[Section],
    pictures: Mapping[str, Picture],  # by figure name
    *,
    opening: Section | None,
    mode: str,
    origin: Mapping[str, str],
) -> str:
    """The whole page: the result, its figure, the grades, then each claim folded."""
    findings = [finding for section in sections for finding in section.findings]
    given = {finding.grade for finding in findings}
    facts: dict[str, Any] = {
        "title": TITLE,
        "paper": PAPER,
        "style": (HERE / "page.css").read_text(encoding="utf-8"),
        "findings": findings,
        "meanings": {grade: said for grade, said in MEANINGS.items() if grade in given},
    }
    filters = {
        "typeset": lambda text: Markup(typeset(text)),
        "base64": lambda data: base64.b64encode(data).decode(),
        "tally": tally,
    }
    page = templates(HERE, filters).get_template("page.html")
    text = page.render(
        facts, sections=sections, pictures=pictures, opening=opening, mode=mode, origin=origin
    )
    return f"{text}\n"


# ---- how much there is to read -------------------------------------------------------------------


def words(text: str) -> int:
    """How many words a page shows before anything is unfolded."""
    shown = re.sub(r"<style>.*?</style>|<head>.*?</head>", " ", text, flags=re.DOTALL)
    shown = re.sub(
        r"<details[^>]*>\s*(<summary>.*?</summary>).*?</details>", r"\1", shown, flags=re.DOTALL
    )
    shown = re.sub(r"<math>.*?</math>", " formula ", shown, flags=re.DOTALL)
    return len(re.findall(r"\w[\w.,'-]*", html.unescape(re.sub(r"<[^>]+>", " ", shown))))
