"""Tries as an outsider would make them: at every door, with every file, text and command line.

A try may be refused by a ValueError, a TypeError or an OSError, and else must do what it says. It
must not end the process, hang, raise anything else, or change anything when it fails. Each family
gives an endless stream of tries for a seed; `tests/test_fuzz.py` makes some thousands of them, and
`benchmarks/fuzz.py` a million.
"""

import contextlib
import tempfile
from functools import partial

from fuzz.attempts import WrongError, attempt
from fuzz.doors import at_doors, at_fleets, at_learners
from fuzz.files import KINDS, edits, flips
from fuzz.texts import at_command_lines, at_texts

FAMILIES = {
    "doors": at_doors,
    "fleets": at_fleets,
    "learners": at_learners,
    "texts": at_texts,
    "command lines": at_command_lines,
    **{f"flips {name}": partial(flips, name) for name in KINDS},
    **{f"edits {name}": partial(edits, name) for name in KINDS},
}


def tries(family, seed, most, until=lambda: False, note=lambda what: None):
    """Make up to so many tries of a family; return how many, how many were refused, what failed.

    `until` says when to stop before; `note` is told of each try before it is made.
    """
    made = refused = 0
    wrong = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for what, call in FAMILIES[family](folder, seed):
            if made == most or until():
                break
            note(what)
            made += 1
            try:
                refused += attempt(what, call)
            except WrongError as error:
                wrong.append(str(error))
    return made, refused, wrong
