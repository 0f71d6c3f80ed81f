"""The errata of the paper, as a table; the errata page of the documentation has the reasons."""

from __future__ import annotations

from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.section import PageTable, Section

ROWS = (
    (
        "Algorithm UCB2B, $W_t$",
        r"$(\sigma - \mu^2) / t$ with running sums",
        r"$\sigma / t - (\mu / t)^2$, the variance that the proof uses",
    ),
    (
        "Algorithm UCB2B, input",
        r"$\mu$, $\sigma$, $\beta_0$ not initialised; only c",
        "all start at 0; constants c1 and c2",
    ),
    (
        "Algorithm 4 (concurrent)",
        "a switch copies the whole table of a step",
        "the row alone, or the path is not the sequential one",
    ),
    (
        "Algorithm 4 (concurrent)",
        "cut where a trigger fires",
        "cut where the argmax really changed: exact, fewer rounds",
    ),
    (
        "Theorem 5, rounds",
        "$N_{sw} + K / M$",
        "$N_{gl} + 1 + K / M$: the last phase counts, and the global cost is enough",
    ),
    (
        "Appendix, mistake bound",
        r"an $\eps$-optimal policy makes no mistake",
        "by episodes; by actions it may, in states that it hardly meets",
    ),
    (
        "Theorem 6 (lower bound)",
        "$H S A / 2$ switches force regret $K H / 4$",
        "proof fails on its own family; shown up to $H S (3 (A + 1) / 8 - 1)$",
    ),
    (
        "After Theorem 2",
        "UCB may switch $H S (K - 1)$ times",
        "at most $H (K - 1)$: only visited rows change",
    ),
    ("Proof of Theorem 2", "sum of visits at most $K + H$", "$K + A$"),
    (
        "Theorems 2 and 3",
        r"$r^* = \log(10 H^2) / \log(1 + \eta)$, rounded up",
        "sufficient, not needed: $r^* = 1$ keeps both and switches less",
    ),
    (
        "Corollary 4",
        "Markov's inequality gives high probability",
        "the mixture's value is the average itself; no Markov step",
    ),
    (
        "Section 2, UCB2",
        r"$\tau(r)$ an integer, $t \le T$, the last epoch overshoots",
        "rounded up, exactly T pulls, the last epoch cut",
    ),
    ("Abstract and theorems", r"$\log K$, $\log(K / A)$", r"$\log((K + A) / A)$"),
)


def errata(lab: Lab) -> Section:
    """The errata: corrections, not claims."""
    return Section(
        name="errata",
        title=f"Errata: {len(ROWS)} places where the printed text and the proofs disagree",
        claim="Where the printed text and the proofs disagree, the library follows the proofs.",
        method=(
            "They were found by reading the paper against its sources, and by the claims above. The"
            " errata page of the documentation gives each reason."
        ),
        tables=[PageTable("Printed and implemented", ("where", "printed", "here"), ROWS)],
    )
