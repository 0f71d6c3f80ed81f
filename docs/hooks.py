"""What MkDocs does beyond its plugins: it makes the report of the reproduction from the committed
numbers, typesets formulas, and lets long names in tables break at underscores and colons only.
"""

import html
import re
from typing import Any

import reproduction
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from lowswitch.reproduce.formulas import typeset


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "reproduction/report.html", content=reproduction.report()))
    return files


def on_page_content(content: str, **_: Any) -> str:
    typed = re.sub(r'<span class="arithmatex">\\\((.*?)\\\)</span>', mathml, content)
    return re.sub(
        r"(?<=<td>).*?(?=</td>)",
        lambda cell: re.sub(r"<code>.*?</code>", breakable, cell[0]),
        typed,
        flags=re.DOTALL,
    )


def mathml(formula: re.Match[str]) -> str:
    """A formula between dollar signs, which browsers show without any script."""
    return typeset(f"${html.unescape(formula[1])}$")


def breakable(code: re.Match[str]) -> str:
    return re.sub(r"(::|_)(?=\w)", r"\1<wbr>", code[0])
