r"""Formulas inside texts: `$\sqrt{H^3 S A T}$` is MathML on a page, and plain text elsewhere."""

from __future__ import annotations

import html
import re
from typing import NamedTuple

LETTERS = (
    *(
        "alpha",
        "beta",
        "delta",
        "Delta",
        "ell",
        "eps",
        "epsilon",
        "eta",
        "gamma",
        "Gamma",
        "iota",
        "kappa",
    ),
    *("lambda", "mu", "nu", "Omega", "phi", "pi", "psi", "sigma", "tau", "theta", "xi", "zeta"),
)
FUNCTIONS = ("cos", "det", "exp", "ln", "log", "max", "min")
SIGNS = {  # in plain letters
    "le": "<=",
    "ge": ">=",
    "sim": "~",
    "pm": "+-",
    "leftarrow": "<-",
    "cup": "or",
    "sum": "sum",
    "prod": "prod",
    "cdot": ".",
    "times": "x",
    "ldots": "...",
    "star": "*",
    "prime": "'",
    "Vert": "|",
    "lceil": "ceil(",
    "rceil": ")",
    "lfloor": "floor(",
    "rfloor": ")",
    "{": "{",
    "}": "}",
}
ACCENTS = {"tilde": "~", "hat": "^", "bar": "&macr;"}
_ENTITIES = {  # in HTML, of other names
    "eps": "epsilon",
    "-": "minus",
    "<": "lt",
    ">": "gt",
    "pm": "plusmn",
    "leftarrow": "larr",
    "cdot": "sdot",
    "ldots": "hellip",
    "star": "Star",
    "{": "lbrace",
    "}": "rbrace",
}
_BRACKETS = ("(", ")", "[", "]", "{", "}", "lceil", "rceil", "lfloor", "rfloor", "Vert")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\[{}]|[A-Za-z]|\d+(?:[.,]\d+)*|\s+|.")


class Written(NamedTuple):
    """A piece of a formula in both forms."""

    mathml: str
    plain: str


def typeset(text: str) -> str:
    """The HTML of a text, its formulas as MathML."""
    return "".join(
        f"<math>{_written(part).mathml}</math>" if is_formula else html.escape(part)
        for part, is_formula in _parts(text)
    )


def plain(text: str) -> str:
    """The text with its formulas in plain letters, for a terminal."""
    return "".join(
        _written(part).plain if is_formula else part for part, is_formula in _parts(text)
    )


def _parts(text: str) -> list[tuple[str, bool]]:
    """The parts of a text, and which of them are formulas: those between dollar signs."""
    parts = text.split("$")
    if len(parts) % 2 == 0:
        raise ValueError(f"a formula is not closed by a dollar sign: {text!r}")
    return [(part, i % 2 == 1) for i, part in enumerate(parts) if part]


def _written(formula: str) -> Written:
    reader = _Reader(formula)
    row = reader.row()
    if reader.tokens:
        raise ValueError(f"a brace too many in the formula {formula!r}")
    return row


class _Reader:
    """Reads a formula from the left, and removes the tokens that it has read."""

    def __init__(self, formula: str) -> None:
        self.formula = formula
        self.tokens: list[str] = _TOKEN.findall(formula)

    def row(self) -> Written:
        """Pieces side by side, up to a closing brace or the end."""
        pieces: list[Written] = []
        while self.tokens and self.tokens[0] != "}":
            piece = self.piece()
            if self.tokens and self.tokens[0] in ("^", "_"):
                piece = self.with_scripts(piece)
            pieces.append(piece)
        return Written(*("".join(parts) for parts in zip(*pieces, strict=True)))

    def with_scripts(self, base: Written) -> Written:
        """A base with what stands below and above it."""
        scripts: dict[str, Written] = {}
        while self.tokens and self.tokens[0] in ("^", "_"):
            sign = self.tokens.pop(0)
            scripts[sign] = self.piece()
        tag = {"^": "msup", "_": "msub", "^_": "msubsup"}["".join(sorted(scripts))]
        below_first = [scripts[sign] for sign in ("_", "^") if sign in scripts]
        inner = "".join(f"<mrow>{script.mathml}</mrow>" for script in below_first)
        words = "".join(
            f"{sign}{_bracketed(scripts[sign].plain)}" for sign in ("_", "^") if sign in scripts
        )
        return Written(f"<{tag}><mrow>{base.mathml}</mrow>{inner}</{tag}>", base.plain + words)

    def piece(self) -> Written:
        """A letter, a number, a sign, a group in braces, or what a command writes."""
        token = self.next()
        if token == "{":
            row = self.row()
            self.next()
            return row
        if token.startswith("\\"):
            return self.command(token[1:])
        if token.isalpha():
            return Written(f"<mi>{token}</mi>", token)
        if token[0].isdigit():
            return Written(f"<mn>{token}</mn>", token)
        if token.isspace():
            return Written("<mspace width='0.17em'/>", " ")
        sign = f"&{_ENTITIES[token]};" if token in _ENTITIES else html.escape(token)
        return Written(f"<mo{_fixed(token)}>{sign}</mo>", token)

    def command(self, name: str) -> Written:
        if name == "sqrt":
            inner = self.piece()
            return Written(f"<msqrt>{inner.mathml}</msqrt>", f"sqrt({inner.plain})")
        if name == "frac":
            above, below = self.piece(), self.piece()
            return Written(
                f"<mfrac><mrow>{above.mathml}</mrow><mrow>{below.mathml}</mrow></mfrac>",
                f"{_bracketed(above.plain)} / {_bracketed(below.plain)}",
            )
        if name == "text":
            words = self.words()
            return Written(f"<mtext>{html.escape(words)}</mtext>", words)
        if name == "underline":
            inner = self.piece()
            under = f"<munder><mrow>{inner.mathml}</mrow><mo>_</mo></munder>"
            return Written(under, f"{inner.plain}_")
        if name in ACCENTS:
            inner, accent = self.piece(), f"<mo stretchy='false'>{ACCENTS[name]}</mo>"
            over = f"<mover><mrow>{inner.mathml}</mrow>{accent}</mover>"
            return Written(over, f"{inner.plain}~" if name == "tilde" else f"{inner.plain}_{name}")
        if name in FUNCTIONS:
            return Written(f"<mi>{name}</mi><mspace width='0.17em'/>", name)
        if name in LETTERS:
            return Written(f"<mi>&{_ENTITIES.get(name, name)};</mi>", name)
        if name in SIGNS:
            sign = _ENTITIES.get(name, name)
            return Written(f"<mo{_fixed(name)}>&{sign};</mo>", SIGNS[name])
        raise ValueError(f"unknown command \\{name} in the formula {self.formula!r}")

    def words(self) -> str:
        """What stands between the next braces, as it is."""
        self.next()
        end = self.tokens.index("}")
        words = "".join(self.tokens[:end])
        del self.tokens[: end + 1]
        return words

    def next(self) -> str:
        if not self.tokens:
            raise ValueError(f"the formula {self.formula!r} ends too early")
        return self.tokens.pop(0)


def _fixed(sign: str) -> str:
    """Brackets do not grow with what they hold, as in a line of text."""
    return " stretchy='false'" if sign in _BRACKETS else ""


def _bracketed(text: str) -> str:
    """The text in brackets, unless it is a single letter, word or number."""
    return text if re.fullmatch(r"[\w.,*]+", text) else f"({text})"
