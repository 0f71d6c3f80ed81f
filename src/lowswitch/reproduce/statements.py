"""The numbered statements of the paper, appendix included, and the findings that measure each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lowswitch.reproduce.grades import Finding


class Statement(NamedTuple):
    """A statement, its label in the TeX of the paper, and where it is measured."""

    words: str
    label: str
    # the claim of `lowswitch reproduce`, and how the words of its findings begin ("" for all)
    measured: tuple[tuple[str, str], ...]


STATEMENTS = (
    Statement("Definition: switching cost", "section:switching-cost", (("proof", "switching"),)),
    Statement(
        "Section 2, footnote: stochastic rewards",
        "section:problem-setup",
        (("bernoulli", ""),),
    ),
    Statement("Theorem 1: UCB2 for bandits", "theorem:ucb2", (("bandits", ""),)),
    Statement("Theorem 2: UCB2-H", "theorem:ql-ucb2", (("ucb2-h", ""),)),
    Statement(
        "Theorem 3: UCB2-B",
        "theorem:ql-ucb2-Bernstein",
        (("ucb2-b", ""), ("reach", "burn-in")),
    ),
    Statement("Corollary 4: PAC", "corollary:pac-bound", (("pac", ""),)),
    Statement("Theorem 5: concurrent rounds", "theorem:concurrent", (("rounds", ""),)),
    Statement(
        "Section 4: speed-up linear as long as M is of the order H^2 / eps^2, or H / eps^2",
        "section:concurrent",
        (("reach", "the speed-up"),),
    ),
    Statement(
        "Section 4: mistakes better than CMBIE's by 1 / eps",
        "section:concurrent",
        (("reach", "mistakes better"),),
    ),
    Statement(
        "Section 4 and appendix: mistakes",
        "appendix:concurrent-mistake-bound",
        (("mistakes", ""),),
    ),
    Statement("Theorem 6: lower bound", "theorem:lower-bound", (("lower-bound", ""),)),
    Statement("Appendix A: learning rates", "lemma:alphati", (("lemmas", "the weights"),)),
    Statement(
        "Appendix A: optimistic and accurate",
        "lemma:optimistic-and-accurate",
        (("lemmas", "optimism"), ("proof", "accuracy with Hoeffding")),
    ),
    Statement("Appendix A: max error", "lemma:max-error", (("lemmas", "max error"),)),
    Statement(
        "Appendix A: perturbation bound",
        "lemma:perturbation-bound",
        (("proof", "perturbation with Hoeffding"),),
    ),
    Statement(
        "Appendix A: error accumulation",
        "lemma:double-counting",
        (("lemmas", "error accumulation"), ("proof", "schedule")),
    ),
    Statement(
        "Appendix A: propagation of error, in the proof of Theorem 2",
        "equation:one-step-error",
        (("proof", "propagation"),),
    ),
    Statement(
        "Appendix B: optimistic and accurate",
        "lemma:optimistic-and-accurate-Bernst",
        (("lemmas", "optimism"), ("proof", "accuracy with Bernstein")),
    ),
    Statement("Appendix B: max error", "lemma:max-error-Bernst", (("lemmas", "max error"),)),
    Statement(
        "Appendix B: perturbation bound",
        "lemma:perturbation-bound-Bernst",
        (("proof", "perturbation with Bernstein"),),
    ),
    Statement(
        "Appendix B: variance",
        "lemma:variance-bound-Bernst",
        (("proof", "variance"), ("proof", "$W_t$")),
    ),
)


def findings_of(
    statement: Statement, findings: Mapping[str, Iterable[Finding]]
) -> list[tuple[str, Finding]]:
    """The findings about a statement, each with its claim; `findings` are listed by claim."""
    return [
        (claim, finding)
        for claim, beginning in statement.measured
        for finding in findings[claim]
        if finding.says.startswith(beginning)
    ]
