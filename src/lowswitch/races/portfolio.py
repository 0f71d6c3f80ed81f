"""The algorithms that race in `frontier`, as data.

They combine estimators, schedules and scales, written as patterns: {a|b} stands for a and for b.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.algorithms.text import build

_WHOLE = "whole/1.5|whole/2|whole/4|whole/2/3|whole/2/10|whole/4/10|whole/4/30"
_GRIDS = "grid/geometric/11|grid/geometric/31|grid/geometric/101"
_OTHER_GRIDS = (
    "grid/geometric/6|grid/minimax/6|grid/minimax/11|grid/equal/11|grid/equal/31|grid/equal/101"
)
_MIXED = f"whole/2/3|whole/2/10|whole/4/10|whole/4/30|{_GRIDS}"

# learners that change row by row, and model-based learners that replan all the time
ROWS = (
    "{ucb2-b|ucb2-h|ucb-b|ucb-h}:c={1|0.1|0.01|0.001}",
    "{q-b|q-h}:c={1|0.1}",
    "{q-b|q-h}:c={0.01|0.001},schedule={growth/1.5|growth/2|growth/4|whole/2|grid/geometric/101}",
    "{stage-q|ucb-advantage}:c={1|0.1|0.01|0.001}",
    "{early-settled|fedq-early-settled|fedq-advantage}:c={0.01|0.001}",
    "{fedq-h|fedq-b}:c={0.1|0.01|0.001}",
    "staged-randql:kappa={1|0.1}",
    "mvp:c={1|0.1|0.01|0.001|0.0001|0.00001}",
    "mvp:data=all,c={0.0001|0.00001},schedule=growth/{1.5|2|4}",
    "{ucb2-b:c=0.01|q-b:c=0.01|stage-q:c=0.01|mvp:c=0.0001},scales=1/0.3/0.1",
    "{ucbvi:c=0.0003|ucbvi-bf:c=0.001|psrl:rewards=bootstrap|psrl:rewards=mean}",
)
# model-based learners that replan rarely; they may pool the steps of a stationary problem
MODELS = (
    "{ucbvi|ucbvi-bf|ucrl2}:c={1|0.1|0.01},schedule=growth/2",
    "{ucbvi:c=0.0003|ucbvi-bf:c=0.001|ucrl2:c=0.003},schedule=growth/{1.5|2|4}",
    f"{{ucbvi|ucbvi-bf}}:c={{0.001|0.0003}},schedule={{{_WHOLE}|{_GRIDS}}}",
    f"ucrl2:c={{0.03|0.01|0.003|0.001}},schedule={{{_WHOLE}|{_GRIDS}}}",
    f"ucbvi-bf:c=0.001,schedule={{{_OTHER_GRIDS}}}",
    "{ucbvi-bf:c=0.0003|ucrl2:c=0.01|ucrl2:c=0.003},schedule=whole/2,deployments={10|30|100}",
    "rmax:known={1|3|10|30}",
    f"psrl:{{prior=1|rewards=mean|rewards=mean,prior=0.1|rewards=mean,prior=0.02}},schedule={{growth/2|{_WHOLE}}}",
    f"psrl:{{prior=1|rewards=mean|rewards=mean,prior=0.1}},members={{8|32}},schedule={{{_MIXED}}}",
    "psrl:rewards=mean,prior=0.02,members={8|32},schedule={whole/2/10|whole/4/10|grid/geometric/31}",
    "psrl:rewards=mean,members={8|32},schedule=whole/2",
    f"psrl:rewards=mean,members=32,schedule={{{_OTHER_GRIDS}}}",
    "psrl:rewards=mean,prior={1|0.1},members=128,schedule={grid/geometric/11|grid/geometric/31}",
    "psrl:rewards=mean,members={1|32},schedule=whole/2/3,deployments={10|30|100}",
    "{ucbvi:c=0.001|ucbvi-bf:c=0.003|ucrl2:c=0.003},scales=1/0.3/0.1,schedule={whole/2/3|whole/4/10|grid/geometric/31}",
    "psrl:rewards=mean,prior={1|0.1},members={32|128},schedule={whole/4/10|grid/geometric/11},deployments=10,last=greedy",
    "psrl:rewards=mean,prior={1|0.1},members={32|128},schedule={whole/4/3|whole/4/10|grid/geometric/31},deployments=30,last=greedy",
    "psrl:rewards=mean,members=32,schedule={whole/2/3|grid/geometric/101},deployments=100,last=greedy",
    "ucrl2:c={0.003|0.001},schedule={whole/4/3|whole/4/10},deployments={10|30},last=greedy",
)


# the library's default, which takes part in every race
DEFAULT = "few:deployments={5|10|30|100}"
# added for a budget of N deployments: the default for it, and grids of N + 1 batches
_BUDGET = (
    "few:deployments=N",
    "psrl:{prior=1|prior=0.1|mass=1},members=32,schedule=grid/{geometric|minimax}/M,deployments=N,last=greedy",
    "ucrl2:c={0.01|0.003},schedule=grid/geometric/M,deployments=N,last=greedy",
)


# explorers by layers, with a member for each of P pairs (x, a), and batches that fit the run
EXPLORERS = ("larfe:members=P,phase={T}", "multi-batch:members=P,phase={T},c={0.1|0.01}")
_MOST_PAIRS = 256


# learners with features, and learners with features for a budget of N deployments
FEATURES = (
    "linear:c={0.25|0.5|1},members={1|8|32},deployments={5|10|20|50}",
    "linear:c={0.25|0.5|1},schedule={determinant/2|determinant/1.2}",
    "linucb:c={0.3|1|3},schedule={every|determinant/2|determinant/4}",
    "linucb:c={0.3|1|3},schedule=spread/1,deployments={5|10|20|50},last=greedy",
)
_FEATURES_BUDGET = (
    "linear:c={0.25|0.5|1},members={1|8|32},deployments=N",
    "linear:schedule=determinant/budget,deployments=N",
    "linucb:c={0.3|1|3},schedule={spread/1|determinant/budget},deployments=N,last=greedy",
)


def portfolio(
    *,
    stationary: bool = False,
    budget: int | None = None,
    features: bool = False,
    size: Mapping[str, int] | None = None,
) -> list[Algorithm]:
    """The default algorithms of `frontier`.

    Parameters
    ----------
    stationary
        Whether the problem is known to be stationary. Then algorithms that pool the counts of all
        steps are added.
    budget
        The greatest number of deployments of any algorithm. Then algorithms made for exactly this
        number are added.
    features
        Whether the problem has features instead of a table. A budget then leaves only the
        algorithms made for it.
    size
        The horizon, states, actions and episodes. Then algorithms are added whose batches and
        members must fit them.
    """
    patterns = [*FEATURES] if features else [*ROWS, *MODELS, DEFAULT]
    if size is not None and not features:
        patterns += explorers(**size)
    if stationary:
        patterns += [f"{pattern},pooled=true" for pattern in (*MODELS, DEFAULT)]
    if budget is not None:
        patterns = [one for one in patterns if not (features or one.startswith("few"))]
        numbers = {"deployments=N": f"deployments={budget}", "/M": f"/{budget + 1}"}
        for pattern in _FEATURES_BUDGET if features else _BUDGET:
            for letter, number in numbers.items():
                pattern = pattern.replace(letter, number)
            patterns.append(pattern)
    texts = [text for pattern in patterns for text in alternatives(pattern)]
    return list(dict.fromkeys(build(text, RECIPES, "algorithm") for text in texts))


def explorers(*, horizon: int, states: int, actions: int, episodes: int) -> list[str]:
    """Patterns of LARFE and multi-batch learning: batches of sqrt(K) / 4 and sqrt(K) episodes, if
    they leave half of the run to exploit, and not too many members.
    """
    pairs, most = states * actions, episodes // (2 * (2 * horizon + 1))
    root = math.isqrt(episodes)
    phases = [str(phase) for phase in (root // 4, root) if 1 <= phase <= most]
    if pairs > _MOST_PAIRS or not phases:
        return []
    fits = {"=P": f"={pairs}", "{T}": f"{{{'|'.join(phases)}}}"}
    return [one.replace("=P", fits["=P"]).replace("{T}", fits["{T}"]) for one in EXPLORERS]


def alternatives(pattern: str) -> list[str]:
    """Every text that a pattern such as {a|b}:c={1|2} stands for; the last brace varies fastest."""
    pieces = re.split(r"[{}]", pattern)
    choices = [piece.split("|") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    return ["".join(choice) for choice in itertools.product(*choices)]
