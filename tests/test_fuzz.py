"""A fixed number of tries of each family, made in a process of their own: none crashes, hangs,
raises what it should not, or changes anything in silence.

`benchmarks/fuzz.py` makes a million. Seeds are fixed, so the same tries are made each time.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import FAMILIES

TESTS = Path(__file__).parent
SCRIPT = """
import faulthandler, json, sys
import fuzz
faulthandler.enable()
last = open(sys.argv[1], "w")

def note(what):
    last.seek(0)
    last.truncate()
    last.write(what)
    last.flush()

counts = {
    family: fuzz.tries(family, seed=7, most=int(most), note=note)
    for family, most in json.loads(sys.argv[2]).items()
}
print(json.dumps(counts))
"""
MOST = {"doors": 2000, "fleets": 100, "learners": 200, "texts": 1500, "command lines": 60}
FLIPS, EDITS = 120, 25
GROUPS = {
    "doors": list(MOST),
    "flips": [family for family in FAMILIES if family.startswith("flips")],
    "edits": [family for family in FAMILIES if family.startswith("edits")],
}


@pytest.mark.parametrize("group", GROUPS)
def test_no_try_breaks_anything(group, tmp_path):
    sizes = {"flips": FLIPS, "edits": EDITS}
    asked = {family: MOST.get(family, sizes.get(group)) for family in GROUPS[group]}
    last = tmp_path / "last"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(last), json.dumps(asked)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{last.read_text()}\n{done.stderr[-3000:]}"
    for family, (made, refused, wrong) in json.loads(done.stdout.splitlines()[-1]).items():
        assert wrong == [], family
        assert made > 0.5 * asked[family] or family.startswith("edits")
        assert refused > 0 or family == "command lines"
