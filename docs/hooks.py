"""Long names in tables may break at underscores and colons, and nowhere else."""

import re
from typing import Any


def on_page_content(html: str, **_: Any) -> str:
    return re.sub(
        r"(?<=<td>).*?(?=</td>)",
        lambda cell: re.sub(r"<code>.*?</code>", breakable, cell[0]),
        html,
        flags=re.DOTALL,
    )


def breakable(code: re.Match[str]) -> str:
    return re.sub(r"(::|_)(?=\w)", r"\1<wbr>", code[0])
