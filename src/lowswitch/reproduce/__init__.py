"""The paper, claim by claim: what it says, what was measured, and a verdict by a stated rule."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lowswitch
from lowswitch import report, storage
from lowswitch.algorithms.text import nearest
from lowswitch.progress import waiting
from lowswitch.reproduce import page
from lowswitch.reproduce.bandit_claim import ucb2
from lowswitch.reproduce.errata import errata
from lowswitch.reproduce.lab import FULL, QUICK, Lab, Size
from lowswitch.reproduce.lemmas import lemmas
from lowswitch.reproduce.lower_bound import lower_bound
from lowswitch.reproduce.mistakes import mistakes
from lowswitch.reproduce.open_questions import open_questions
from lowswitch.reproduce.pac_claim import pac
from lowswitch.reproduce.qlearning import bernstein, headline, hoeffding
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
    size: Size = QUICK,
    only: Sequence[str] = (),
    progress: bool | None = None,
) -> Iterator[Section]:
    """Measure the claims one by one, yielding each section; then write the page, its figures and
    its numbers into a folder.

    Every finished experiment is kept in the folder, so that a second call goes on where the first
    was interrupted.
    """
    for name in only:
        if name not in CLAIMS:
            raise ValueError(f"unknown claim {name!r}; {nearest(name, CLAIMS)}")
    out = Path(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"cannot write into {str(out)!r}: {error.strerror}; choose another folder"
        ) from error
    lab = Lab(out, size, progress=progress)
    sections: list[Section] = []
    pictures: dict[str, bytes] = {}
    for name in only or CLAIMS:
        sections.append(CLAIMS[name](lab))
        with waiting(f"{name}: drawing ...", show=progress):
            pictures |= _draw(out, sections[-1])
        yield sections[-1]
    opening = None if only else headline(lab)
    if opening:
        with waiting("page: drawing ...", show=progress):
            pictures |= _draw(out, opening)
    text = page.render(
        sections, pictures, opening=opening, mode=size.name, version=lowswitch.__version__
    )
    _write_text(out / page_name(only), text)
    _write_text(
        (out / page_name(only)).with_suffix(".json"),
        json.dumps(_numbers(sections, opening, size), indent=1) + "\n",
    )


def page_name(only: Sequence[str]) -> str:
    """The file of the whole page, or of one with some claims, which leaves the whole one alone."""
    return f"{'-'.join(only)}.html" if only else PAGE


def _draw(out: Path, section: Section) -> dict[str, bytes]:
    """Write the figures as PNG and SVG; return the PNGs for the page."""
    for name, figure in section.figures.items():
        for ending in ("png", "svg"):
            report.save_figure(figure, out / f"{name}.{ending}")
    return {name: (out / f"{name}.png").read_bytes() for name in section.figures}


def _numbers(sections: Sequence[Section], opening: Section | None, size: Size) -> dict[str, Any]:
    return {
        "version": lowswitch.__version__,
        "size": vars(size),
        "opening": opening and opening.to_dict(),
        "claims": {section.name: section.to_dict() for section in sections},
    }


def _write_text(path: Path, text: str) -> None:
    with storage.replacing(path) as file:
        file.write(text.encode())


__all__ = ["CLAIMS", "FULL", "PAGE", "QUICK", "Section", "Size", "page_name", "reproduce"]
