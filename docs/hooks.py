"""What MkDocs does beyond its plugins: it makes the report of the reproduction from the committed
numbers, and lets long names in tables break at underscores and colons, and nowhere else.
"""

import re
from typing import Any

import reproduction
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "reproduction/report.html", content=reproduction.report()))
    return files


def on_page_content(html: str, **_: Any) -> str:
    return re.sub(
        r"(?<=<td>).*?(?=</td>)",
        lambda cell: re.sub(r"<code>.*?</code>", breakable, cell[0]),
        html,
        flags=re.DOTALL,
    )


def breakable(code: re.Match[str]) -> str:
    return re.sub(r"(::|_)(?=\w)", r"\1<wbr>", code[0])
