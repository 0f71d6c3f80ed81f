"""The script in the words of Stable-Baselines3 on docs/sb3.md runs, where that is installed.

`tests/test_docs.py` runs the same script in the words of this library.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "sb3.md").read_text(encoding="utf-8")
ALONE = os.environ | {"OMP_NUM_THREADS": "1"}  # threads of torch would wait for each other


def scripts(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_there_is_one_script_in_either_words():
    assert (len(scripts("py")), len(scripts("python"))) == (1, 1)


def test_the_script_in_the_words_of_stable_baselines3_runs(tmp_path):
    pytest.importorskip("stable_baselines3", reason="needs the extra sb3")
    [script] = scripts("py")
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, env=ALONE
    )
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(
        r"\d+ episodes, mean return [01]\.\d\d, standard deviation 0\.\d\d\n", ran.stdout
    )
    assert (tmp_path / "lake.zip").exists()
