"""The notebook on features runs from its first cell to its last."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "notebooks" / "features.ipynb").read_text(encoding="utf-8"))
    namespace = {"__name__": "notebook"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
    printed = capsys.readouterr().out
    assert "best" in printed
    assert 1 <= namespace["learner"].deployments <= 10
