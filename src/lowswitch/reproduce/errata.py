"""The errata of the paper, as a table; the errata page of the documentation has the reasons."""

from __future__ import annotations

import numpy as np

from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.section import Check, Section, Table

ROWS = (
    (
        "Algorithm UCB2B, W_t",
        "(sigma - mu^2) / t with running sums",
        "sigma / t - (mu / t)^2, the variance that the proof uses",
    ),
    (
        "Algorithm UCB2B, input",
        "mu, sigma, beta_0 not initialised; only c",
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
        "N_sw + K / M",
        "N_gl + 1 + K / M: the last phase counts, and the global cost is enough",
    ),
    (
        "Appendix, mistake bound",
        "an eps-optimal policy makes no mistake",
        "by episodes; by actions it may, in states that it hardly meets",
    ),
    (
        "Theorem 6 (lower bound)",
        "HSA / 2 switches force regret KH / 4",
        "proof fails on its own family; shown up to HS(3(A + 1)/8 - 1)",
    ),
    (
        "After Theorem 2",
        "UCB may switch HS(K - 1) times",
        "at most H(K - 1): only visited rows change",
    ),
    ("Proof of Theorem 2", "sum of visits at most K + H", "K + A"),
    (
        "Theorems 2 and 3",
        "r* = ceil(log(10 H^2) / log(1 + eta))",
        "sufficient, not needed: r* = 1 keeps both and switches less",
    ),
    (
        "Corollary 4",
        "Markov's inequality gives high probability",
        "the mixture's value is the average itself; no Markov step",
    ),
    (
        "Section 2, UCB2",
        "tau(r) an integer, t <= T, the last epoch overshoots",
        "rounded up, exactly T pulls, the last epoch cut",
    ),
    ("Abstract and theorems", "log K, log(K / A)", "log((K + A) / A)"),
)


def errata(lab: Lab) -> Section:
    """The errata, and the one that a number shows."""
    values = np.linspace(2, 5, 50)
    printed, variance = (np.sum(values**2) - np.sum(values) ** 2) / 50, float(np.var(values))
    return Section(
        name="errata",
        title="Errata of the paper",
        claim="Where the printed text and the proofs disagree, the library follows the proofs.",
        method=(
            "One rule below; the others were found by reading the paper against its sources, and by"
            " the other sections. The errata page of the documentation gives each reason."
        ),
        checks=[
            Check(
                "W_t as printed is no variance: for 50 values spread over [2, 5] it is below -H,"
                " under a root, for every H up to 100",
                f"{printed:.0f}, where the variance is {variance:.2f}",
                bool(printed < -100) and variance > 0,
            )
        ],
        tables=[Table("Printed and implemented", ("where", "printed", "here"), ROWS)],
        numbers={"printed": float(printed), "variance": variance},
    )
