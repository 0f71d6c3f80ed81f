"""Runs the notebooks in docs/notebooks, and writes into them what their cells print and show.

    python docs/notebooks.py

The tests run them too, and compare. Cells run in one namespace in this process, as in a kernel; the
value of a last line is shown as a notebook would show it.
"""

import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "notebooks"
NAMES = ("first-look", "your-own-problem", "few-deployments", "vectors", "trial")


def load(name: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads((HERE / f"{name}.ipynb").read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What each code cell prints and shows, in the form in which a notebook keeps it."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [
        _outputs("".join(cell["source"]), namespace, number)
        for number, cell in enumerate(code_cells(notebook), 1)
    ]


def _outputs(source: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        shown = {"data": _shown(value), "metadata": {}}
        kind = {"execution_count": number, "output_type": "execute_result"}
        outputs.append(shown | kind)
    return outputs


def _shown(value: Any) -> dict[str, Any]:
    """A value in every form that it has."""
    forms: dict[str, Any] = {"text/plain": _lines(repr(value))}
    if hasattr(value, "_repr_png_"):
        forms = {"text/plain": ["<Figure>"]}
        forms["image/png"] = base64.b64encode(value._repr_png_()).decode()
    elif hasattr(value, "_repr_html_"):
        forms["text/html"] = _lines(value._repr_html_())
    return forms


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    for name in NAMES:
        notebook, before = load(name), Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                results = run(notebook)
            finally:
                os.chdir(before)
        for number, (cell, outputs) in enumerate(
            zip(code_cells(notebook), results, strict=True), 1
        ):
            cell["execution_count"], cell["outputs"] = number, outputs
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        (HERE / f"{name}.ipynb").write_text(f"{text}\n", encoding="utf-8")
        print(f"{name}: {len(results)} cells")


if __name__ == "__main__":
    main()
