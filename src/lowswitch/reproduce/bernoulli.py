"""The claims that are graded with fixed rewards, measured once more with drawn ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lowswitch.reproduce.grades import Finding, tally
from lowswitch.reproduce.lab import Effort, Lab
from lowswitch.reproduce.lemmas import lemmas
from lowswitch.reproduce.mistakes import mistakes
from lowswitch.reproduce.pac_claim import pac
from lowswitch.reproduce.proof import proof
from lowswitch.reproduce.qlearning import bernstein, hoeffding
from lowswitch.reproduce.reach import reach
from lowswitch.reproduce.rounds import rounds
from lowswitch.reproduce.section import PageTable, Section

CLAIMS: tuple[Callable[[Lab], Section], ...] = (
    *(hoeffding, bernstein, pac, rounds, mistakes, reach, lemmas, proof),
)


def bernoulli(lab: Lab) -> Section:
    """The claims with Bernoulli rewards, measured."""
    effort = shorter(lab.effort)
    sections = [claim(lab.with_rewards("bernoulli", effort)) for claim in CLAIMS]
    findings = {section.title: _drawn(section) for section in sections}
    return Section(
        name="bernoulli",
        title="Footnote of section 2: the same claims with Bernoulli rewards",
        claim=(
            "The paper has fixed rewards, and says that its results extend to stochastic ones"
            " straightforwardly."
        ),
        method=(
            "Each claim that is graded with fixed rewards is measured once more with rewards of 0"
            " and 1 of the same means, on a quarter of the episodes. Problems of one state have"
            " such rewards anyway and are left out. So is Theorem 6, whose proof is about fixed"
            " rewards."
        ),
        findings=[finding for each in findings.values() for finding in each],
        tables=[
            PageTable.of(
                "Grades with Bernoulli rewards, by claim",
                [
                    {"claim": title, "grades": tally(each)}
                    for title, each in findings.items()
                    if each
                ],
            )
        ],
        remarks=[
            "With drawn rewards the noise of the proof has one term more, the reward less its mean."
            " Its range is still at most H, so no bonus has to grow."
        ],
        numbers={"effort": vars(effort)},
        folded=True,
    )


def shorter(effort: Effort) -> Effort:
    """A quarter of the episodes."""
    return replace(
        effort,
        episodes=max(1, effort.episodes // 4),
        proof_episodes=max(1, effort.proof_episodes // 4),
        plain_episodes=max(1, effort.plain_episodes // 4),
    )


def _drawn(section: Section) -> list[Finding]:
    """The findings of a section that depend on the law of rewards, with the claim they are of."""
    claim = section.title.partition(":")[0]
    return [
        replace(
            finding,
            says=f"{claim}: {finding.says}",
            problems=f"{finding.problems}, Bernoulli rewards",
        )
        for finding in section.findings
        if finding.scale != "any c" and not finding.problems.startswith("one state")
    ]
