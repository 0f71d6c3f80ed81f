"""The paper, claim by claim: what it says, what was measured, and a grade by stated rules."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lowswitch import report, storage
from lowswitch.algorithms.text import nearest
from lowswitch.progress import say, waiting
from lowswitch.reproduce import page, pictures
from lowswitch.reproduce.bandit_claim import ucb2
from lowswitch.reproduce.errata import errata
from lowswitch.reproduce.grades import Finding, Grade, tally
from lowswitch.reproduce.headline import headline
from lowswitch.reproduce.lab import FULL, QUICK, Effort, Lab
from lowswitch.reproduce.lemmas import lemmas
from lowswitch.reproduce.lower_bound import lower_bound
from lowswitch.reproduce.mistakes import mistakes
from lowswitch.reproduce.open_questions import open_questions
from lowswitch.reproduce.origin import describe_origin
from lowswitch.reproduce.pac_claim import pac
from lowswitch.reproduce.pictures import Picture
from lowswitch.reproduce.qlearning import bernstein, hoeffding
from lowswitch.reproduce.rounds import rounds
from lowswitch.reproduce.section import Section

CLAIMS: dict[str, Callable[[Lab], Section]] = {
    "bandits": ucb2,
    "ucb2-h": hoeffding,
    "ucb2-b": bernstein,
    "pac": pac,
    "rounds": rounds,
    "mistakes": mistakes,
    "lower-bound": lower_bound,
    "lemmas": lemmas,
    "open": open_questions,
    "errata": errata,
}
PAGE = "index.html"


def reproduce(
    folder: str | os.PathLike[str],
    *,
    effort: Effort = QUICK,
    only: Sequence[str] = (),
    progress: bool | None = None,
) -> Iterator[Section]:
    """Measure the claims and yield their sections one by one; then write the page, its figures and
    its numbers into a folder.

    Every finished experiment is kept in the folder, so that a second call goes on where the first
    was interrupted.
    """
    for name in only:
        if name not in CLAIMS:
            raise ValueError(f"unknown claim {name!r}; {nearest(name, CLAIMS)}")
    out = Path(folder)
    lab = Lab(out, effort, progress=progress)
    sections: list[Section] = []
    drawn: dict[str, Picture] = {}
    for name in only or CLAIMS:
        sections.append(CLAIMS[name](lab))
        with waiting(f"{name}: drawing ...", show=progress):
            drawn |= _draw(out, sections[-1])
        yield sections[-1]
    opening = None if only else headline(lab)
    if opening:
        with waiting("page: drawing ...", show=progress):
            drawn |= _draw(out, opening)
    foot = describe_origin()
    text = page.render(sections, drawn, opening=opening, mode=effort.name, origin=foot)
    numbers = {
        "origin": foot,
        "size": vars(effort),
        "opening": opening and opening.to_dict(),
        "claims": {section.name: section.to_dict() for section in sections},
        "layouts": {name: picture.layout.to_dict() for name, picture in drawn.items()},
    }
    file = out / page_name(only)
    storage.write_text(file, text)
    storage.write_text(file.with_suffix(".json"), json.dumps(numbers, indent=1) + "\n")
    say(lab.kept.note, show=progress)


def page_name(only: Sequence[str]) -> str:
    """The name of the page; one with some claims has its own, and leaves the whole page alone."""
    return f"{'-'.join(only)}.html" if only else PAGE


def _draw(out: Path, section: Section) -> dict[str, Picture]:
    """Write the figures as PNG and SVG; return the pictures for the page."""
    for name, figure in section.figures.items():
        for ending in ("png", "svg"):
            report.save_figure(figure, out / f"{name}.{ending}")
    return {
        name: Picture((out / f"{name}.png").read_bytes(), pictures.layout(figure))
        for name, figure in section.figures.items()
    }


__all__ = [
    "CLAIMS",
    "FULL",
    "PAGE",
    "QUICK",
    "Effort",
    "Finding",
    "Grade",
    "Section",
    "page_name",
    "reproduce",
    "tally",
]
