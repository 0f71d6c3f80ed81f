"""Where numbers stand on the pages, and how results are written there.

A number, a phrase or a table that comes from a result file stands between two comments, which
neither GitHub nor MkDocs shows: <!-- SOURCE/NAME --> and <!-- / -->.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).parents[1]
_DOCS = (
    "index",
    "process",
    "tutorial",
    "few",
    "few-measured",
    "features",
    "features-board",
    "trial",
    "evaluation",
    "choosing",
    "adding",
    "algorithms",
    "bench",
    "ledger",
    "review",
    "evidence",
    "evidence-measured",
    "record",
    "bounds",
    "price",
    "choose-n",
    "service",
    "service-measured",
    "security",
    "concurrent",
    "cluster",
    "gymnasium",
    "sb3",
    "cli",
    "gpu",
    "orders",
    "switching",
    "reproduction",
    "research",
)
PAGES = (
    *("README.md", "benchmarks/README.md", "paper/paper.md"),
    *(f"docs/{page}.md" for page in _DOCS),
)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text of a page with each value between its comments: a table as a paragraph with the
    margin of its comment, all else within a line.
    """

    def put(place: re.Match[str]) -> str:
        name, before = place[1], text[: place.start()].rpartition("\n")[2]
        if name not in values:
            raise ValueError(f"no value is called {name!r}; there are {', '.join(sorted(values))}")
        value, margin = values[name], before if before.isspace() else ""
        if value.startswith("|"):
            value = indent(f"\n\n{value}\n\n", margin) + margin
        elif before.strip() == "":
            raise ValueError(f"{name} begins a line, where GitHub shows the Markdown after it raw")
        return f"<!-- {name} -->{value}<!-- / -->"

    return re.sub(r"<!-- (\w+/[\w-]+) -->.*?<!-- / -->", put, text, flags=re.DOTALL)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> str:
    """A table in Markdown whose first columns are text and whose others are numbers."""
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, rule, *rows])


def listed(numbers: Iterable[float], form: str) -> str:
    """Some numbers in order, as in "21, 3.8 and 12"."""
    *first, last = (f"{number:{form}}" for number in numbers)
    return f"{', '.join(first)} and {last}"
