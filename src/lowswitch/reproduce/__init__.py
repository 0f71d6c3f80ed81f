"""The paper, claim by claim: the claim, the measurement, and a grade by stated rules."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from lowswitch.algorithms.text import nearest
from lowswitch.io import storage
from lowswitch.reproduce import (
    bandit_claim,
    bernoulli,
    errata,
    headline,
    lemmas,
    lower_bound,
    mistakes,
    open_questions,
    pac_claim,
    page,
    pictures,
    proof,
    qlearning,
    reach,
    rounds,
)
from lowswitch.reproduce.grades import Finding, Grade, tally
from lowswitch.reproduce.lab import FULL, QUICK, Effort, Lab
from lowswitch.reproduce.origin import describe_origin
from lowswitch.reproduce.pictures import Picture
from lowswitch.reproduce.section import Section
from lowswitch.runs.units import Fleet, crew_of
from lowswitch.show import report
from lowswitch.show.progress import say, waiting

CLAIMS: dict[str, Callable[[Lab], Section]] = {
    "bandits": bandit_claim.ucb2,
    "ucb2-h": qlearning.hoeffding,
    "ucb2-b": qlearning.bernstein,
    "pac": pac_claim.pac,
    "rounds": rounds.rounds,
    "mistakes": mistakes.mistakes,
    "reach": reach.reach,
    "lower-bound": lower_bound.lower_bound,
    "lemmas": lemmas.lemmas,
    "proof": proof.proof,
    "bernoulli": bernoulli.bernoulli,
    "open": open_questions.open_questions,
    "errata": errata.errata,
}
PAGE = "index.html"


def reproduce(
    folder: str | os.PathLike[str],
    *,
    effort: Effort = QUICK,
    only: Sequence[str] = (),
    progress: bool | None = None,
    measured: Callable[[Section], None] | None = None,
    fleet: Fleet | None = None,
) -> list[Section]:
    """Measure the claims, write the page with its figures and numbers into a folder, and return
    the sections of the page.

    Every finished experiment is cached in the folder, so a second call resumes where the first was
    interrupted. measured: called with each section as soon as its claim has been measured. fleet:
    `concurrent.Ray` shares the runs of a claim among the nodes of a cluster; each is kept as soon
    as it is finished.
    """
    for name in only:
        if name not in CLAIMS:
            raise ValueError(f"unknown claim {name!r}; {nearest(name, CLAIMS)}")
    out = Path(folder)
    with crew_of(fleet) as crew:
        lab = Lab(out, effort, progress=progress, crew=crew)
        return _reproduced(lab, out, only, measured)


def _reproduced(
    lab: Lab, out: Path, only: Sequence[str], measured: Callable[[Section], None] | None
) -> list[Section]:
    """Measure the claims in a laboratory, and write the page."""
    progress, effort = lab.progress, lab.effort
    sections: list[Section] = []
    drawn: dict[str, Picture] = {}
    for name in only or CLAIMS:
        sections.append(CLAIMS[name](lab))
        with waiting(f"{name}: drawing ...", show=progress):
            drawn |= _draw(out, sections[-1])
        if measured is not None:
            measured(sections[-1])
    opening = None if only else headline.headline(lab)
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
    return sections


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
