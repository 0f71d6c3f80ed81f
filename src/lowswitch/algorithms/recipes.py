"""The published algorithms: each is a single expression with its citation and its name in text."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast

from lowswitch.algorithms.algorithm import Algorithm, checked_scales
from lowswitch.algorithms.calendars import Calendar, GrowingBatches, Late
from lowswitch.algorithms.estimators import (
    RULE,
    Advantage,
    AdvantageBonus,
    Bernstein,
    BernsteinFreedman,
    Bonus,
    Certificates,
    ChernoffHoeffding,
    Clip,
    ConfidenceIntervals,
    EarlySettled,
    EarlySettledBonus,
    Estimator,
    FederatedAdvantage,
    FederatedQ,
    FederatedSettled,
    First,
    Hoeffding,
    L1Ball,
    Learned,
    LearnedPosterior,
    MonotonicBernstein,
    NoBonus,
    Planning,
    Posterior,
    QLearning,
    RandomizedStages,
    SeenRewards,
    Settled,
    StageQLearning,
    States,
    Tested,
    Unknown,
)
from lowswitch.algorithms.layers import LayerByLayer, MultiBatch
from lowswitch.algorithms.meetings import Asked
from lowswitch.algorithms.ridge import Draws, Drift, Ellipsoid, Link, Ridge, Sampled, Width
from lowswitch.algorithms.schedules import (
    UCB2,
    EveryEpisodes,
    EveryVisit,
    Last,
    StageRounds,
    VisitRounds,
    Visits,
)
from lowswitch.algorithms.text import (
    AnyScales,
    AnySchedule,
    as_dates,
    as_scales,
    as_schedule,
    no_option,
)
from lowswitch.algorithms.trial import Trial
from lowswitch.checks import require_count, require_scale, require_truth, shown

# ---- what every recipe shares --------------------------------------------------------------------


class Shared(TypedDict, total=False):
    """Options that every recipe takes.

    Other Parameters
    ----------------
    p : float
        The failure probability.
    deployments : int | None
        The greatest number of deployments, a hard limit. None sets no limit.
    switches : int | None
        The greatest number of local switches, a hard limit. None sets no limit.
    last : str
        The kind of the budget's last deployment: "usual", "greedy" (without exploration) or
        "exploit" (one policy that plays only actions that were tried, wherever there are any).
    scales : str | float | Sequence[float]
        The scales of the bonus in a mixture, one for each member, such as (1, 0.3, 0.1) or
        "1/0.3/0.1".
    """

    p: float
    deployments: int | None
    switches: int | None
    last: Last
    scales: AnyScales


def assemble(
    estimator: Estimator,
    bonus: Bonus,
    schedule: AnySchedule,
    *,
    p: float = 0.05,
    deployments: int | None = None,
    switches: int | None = None,
    last: Last = "usual",
    scales: AnyScales = "1.0",
) -> Algorithm:
    """Make an algorithm from its parts."""
    when = as_schedule(schedule, deployments, switches, last)
    return Algorithm(estimator=estimator, bonus=bonus, schedule=when, p=p, scales=as_scales(scales))


Recipe = TypeVar("Recipe", bound=Callable[..., Algorithm])
RECIPES: dict[str, Callable[..., Algorithm]] = {}


def recipe(name: str) -> Callable[[Recipe], Recipe]:
    """Register a function in RECIPES under its name in text; its algorithms remember this name.

    If the function takes the shared options, they are added to its signature and docstring, which
    `help` and the command line show.
    """

    def entered(function: Recipe) -> Recipe:
        own, shared = inspect.signature(function), inspect.signature(assemble)
        parameters = [one for one in own.parameters.values() if one.name != "shared"]
        if "shared" in own.parameters:
            parameters += [shared.parameters[one] for one in Shared.__annotations__]
        signature = inspect.Signature(parameters, return_annotation="Algorithm")

        @functools.wraps(function)
        def made(*given: Any, **options: Any) -> Algorithm:
            if given:
                raise TypeError(
                    f"{function.__name__} takes its options by name, as in"
                    f" {function.__name__}({parameters[0].name}={shown(given[0])})"
                )
            for key in options.keys() - signature.parameters.keys():
                functions = {one.__name__: one for one in RECIPES.values()}
                raise TypeError(no_option(function.__name__, key, functions))
            return dataclasses.replace(function(**options), recipe=name)

        if "shared" in own.parameters:
            made.__doc__ = f"{inspect.getdoc(function)}\n\n{inspect.getdoc(Shared)}"
        vars(made)["__signature__"] = signature
        RECIPES[name] = made
        return cast(Recipe, made)

    return entered


# ---- Q-learning ----------------------------------------------------------------------------------

Theory = Literal["theory"]


@recipe("ucb-h")
def ucb_hoeffding(*, c: float = 1.0, clip: Clip = "horizon", **shared: Unpack[Shared]) -> Algorithm:
    """Q-learning with UCB-Hoeffding: Jin, Allen-Zhu, Bubeck, Jordan 2018, Algorithm 1.

    Parameters
    ----------
    c
        The scale of the bonus; 1 is the scale of the proof.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    """
    return assemble(QLearning(clip=clip), Hoeffding(c=c), EveryVisit(), **shared)


@recipe("ucb-b")
def ucb_bernstein(
    *,
    c: float = 1.0,
    c1: float | None = None,
    c2: float | None = None,
    clip: Clip = "horizon",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with UCB-Bernstein: Jin et al. 2018, Algorithm 2.

    W_n is a variance, as their eq. (C.1) says.

    Parameters
    ----------
    c
        The scale of the bonus: the value of both `c1` and `c2` where these are not given.
    c1
        The scale of the variance term.
    c2
        The scale of the Hoeffding width that caps it.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    """
    return assemble(QLearning(clip=clip), _bernstein(c, c1, c2), EveryVisit(), **shared)


@recipe("ucb2-h")
def ucb2_hoeffding(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    eta: float | Theory = "theory",
    r_star: int | Theory = "theory",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with UCB2-Hoeffding: Bai, Xie, Jiang, Wang 2019, Algorithm 2.

    Parameters
    ----------
    c
        The scale of the bonus; 1 is the scale of the proof.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    eta
        The growth of the visit counts at which a row may change, or "theory" for the value of the
        proof; see `UCB2`.
    r_star
        The exponent up to which every visit is a trigger, or "theory" for the value of the proof;
        see `UCB2`.
    """
    return assemble(QLearning(clip=clip), Hoeffding(c=c), UCB2(eta=eta, r_star=r_star), **shared)


@recipe("ucb2-b")
def ucb2_bernstein(
    *,
    c: float = 1.0,
    c1: float | None = None,
    c2: float | None = None,
    clip: Clip = "horizon",
    eta: float | Theory = "theory",
    r_star: int | Theory = "theory",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with UCB2-Bernstein: Bai et al. 2019, Algorithm UCB2B.

    W_n is a variance.

    Parameters
    ----------
    c
        The scale of the bonus: the value of both `c1` and `c2` where these are not given.
    c1
        The scale of the variance term.
    c2
        The scale of the Hoeffding width that caps it.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    eta
        The growth of the visit counts at which a row may change, or "theory" for the value of the
        proof; see `UCB2`.
    r_star
        The exponent up to which every visit is a trigger, or "theory" for the value of the proof;
        see `UCB2`.
    """
    when = UCB2(eta=eta, r_star=r_star)
    return assemble(QLearning(clip=clip), _bernstein(c, c1, c2), when, **shared)


def _bernstein(c: float, c1: float | None, c2: float | None) -> Bernstein:
    require_scale("c", c)
    return Bernstein(c1=c if c1 is None else c1, c2=c if c2 is None else c2)


@recipe("q-h")
def q_hoeffding(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    schedule: AnySchedule = "growth/2.0",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with the Hoeffding bonus of Jin et al. 2018, Algorithm 1, under any schedule.

    Parameters
    ----------
    c
        The scale of the bonus; 1 is the scale of the proof.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    schedule
        A schedule or its text; see `as_schedule`. By default counts double.
    """
    return assemble(QLearning(clip=clip), Hoeffding(c=c), schedule, **shared)


@recipe("q-b")
def q_bernstein(
    *,
    c: float = 1.0,
    c1: float | None = None,
    c2: float | None = None,
    clip: Clip = "horizon",
    schedule: AnySchedule = "growth/2.0",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with the Bernstein bonus of Jin et al. 2018, Algorithm 2, under any schedule.

    Parameters
    ----------
    c
        The scale of the bonus: the value of both `c1` and `c2` where these are not given.
    c1
        The scale of the variance term.
    c2
        The scale of the Hoeffding width that caps it.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    schedule
        A schedule or its text; see `as_schedule`. By default counts double.
    """
    return assemble(QLearning(clip=clip), _bernstein(c, c1, c2), schedule, **shared)


@recipe("stage-q")
def stage_q(
    *,
    c: float = 1.0,
    clip: Clip = "remaining",
    schedule: AnySchedule = "stages",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Stage-based Q-learning: Zhang, Zhou, Ji 2020, Algorithm 1, without its reference part.

    Parameters
    ----------
    c
        The scale of the bonus 2 sqrt(H^2 iota / n).
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    schedule
        A schedule by visit counts, or its text; see `as_schedule`.
    """
    return assemble(StageQLearning(clip=clip), Hoeffding(c=c), schedule, **shared)


@recipe("ucb-advantage")
def ucb_advantage(
    *,
    c: float = 1.0,
    clip: Clip = "remaining",
    reference: int | Settled = 100,
    settle: float = 1.0,
    schedule: AnySchedule = "stages",
    **shared: Unpack[Shared],
) -> Algorithm:
    """UCB-Advantage: Zhang, Zhou, Ji 2020, Algorithm 1.

    Parameters
    ----------
    c
        The scale of both bonuses.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    reference
        The number of visits after which the reference value of a state is fixed. With "settled" it
        follows the value of the state until this is at most `settle` above a lower value, the early
        settling of Li, Shi, Chen, Gu, Chi 2021.
    settle
        This distance, which matters only for "settled".
    schedule
        A schedule by visit counts, or its text; see `as_schedule`.
    """
    advantage = Advantage(clip=clip, reference=reference, settle=settle)
    return assemble(advantage, AdvantageBonus(c=c), schedule, **shared)


@recipe("early-settled")
def early_settled(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    settle: float = 1.0,
    schedule: AnySchedule = "every",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-EarlySettled-Advantage: Li, Shi, Chen, Gu, Chi 2021, Algorithm 1.

    Parameters
    ----------
    c
        The scale c_b of all bonuses. The paper says only that a constant suffices.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    settle
        The distance of upper and lower value at which the reference value of a state settles.
    schedule
        A schedule or its text; see `as_schedule`. As published, a row may change at every visit.
    """
    return assemble(
        EarlySettled(clip=clip, settle=settle), EarlySettledBonus(c=c), schedule, **shared
    )


@recipe("staged-randql")
def staged_randql(
    *,
    samples: int = 10,
    kappa: float = 1.0,
    prior: float | States = "states",
    clip: Clip = "remaining",
    schedule: AnySchedule = "stages",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Staged-RandQL: Tiapkin et al. 2023, with the stages of Zhang, Zhou, Ji 2020.

    Several samples of each estimate learn with random learning rates, and the largest one becomes
    the estimate when a stage of its (h, x, a) ends. There is no bonus. The defaults come
    from the code of the authors' experiments; the theorem needs a larger `kappa`, `samples` and
    `prior`, which grow with log K.

    Parameters
    ----------
    samples
        J, the number of samples of each estimate.
    kappa
        The inflation of the posterior: a larger one makes learning rates vary more.
    prior
        n_0, how many prior transitions to the best value a stage begins with. "states" is 1 / S.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    schedule
        A schedule by visit counts, or its text; see `as_schedule`.
    """
    estimator = RandomizedStages(clip=clip, samples=samples, kappa=kappa, prior=prior)
    return assemble(estimator, NoBonus(), schedule, **shared)


@recipe("fedq-h")
def fedq_hoeffding(
    *, c: float = 1.0, clip: Clip = "horizon", machines: int = 1, **shared: Unpack[Shared]
) -> Algorithm:
    """FedQ-Hoeffding: Zheng, Gao, Xue, Yang 2024, Algorithms 1 and 2.

    iota is log(S A T / p), as for all learners here; the paper's is larger by a factor that `c`
    can absorb.

    Parameters
    ----------
    c
        The scale of the bonus sqrt(H^3 iota / n); 1 is the scale of the proof.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    machines
        M, the number of machines. `episodes` counts the episodes of all of them together.
    """
    return assemble(FederatedQ(clip=clip), Hoeffding(c=c), VisitRounds(machines), **shared)


@recipe("fedq-b")
def fedq_bernstein(
    *,
    c: float = 1.0,
    c1: float | None = None,
    c2: float | None = None,
    clip: Clip = "horizon",
    machines: int = 1,
    **shared: Unpack[Shared],
) -> Algorithm:
    """FedQ-Bernstein: Zheng, Gao, Xue, Yang 2024, Algorithms 1 to 3.

    W + H stands inside the root, as in the bonus of Jin et al. 2018. iota is log(S A T / p).

    Parameters
    ----------
    c
        The scale of the bonus: the value of both `c1` and `c2` where these are not given.
    c1
        The scale of the variance term.
    c2
        The scale of the Hoeffding width that caps it.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    machines
        M, the number of machines. `episodes` counts the episodes of all of them together.
    """
    return assemble(FederatedQ(clip=clip), _bernstein(c, c1, c2), VisitRounds(machines), **shared)


@recipe("fedq-advantage")
def fedq_advantage(
    *,
    c: float = 1.0,
    clip: Clip = "remaining",
    reference: int | Settled = 100,
    settle: float = 1.0,
    machines: int = 1,
    **shared: Unpack[Shared],
) -> Algorithm:
    """FedQ-Advantage: after Zheng, Zhang, Xue 2025.

    The rounds and stages are the paper's. The constants of its bonus are not, because we could not
    read them. Both bonuses come from UCB-Advantage (Zhang, Zhou, Ji 2020), computed from the visits
    of all machines, as in public code.

    Parameters
    ----------
    c
        The scale of both bonuses.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    reference
        The number of visits of all machines after which the reference value of a state is fixed, or
        "settled"; see `ucb_advantage`.
    settle
        The distance of upper and lower value at which a reference settles, which matters only for
        "settled".
    machines
        M, the number of machines. `episodes` counts the episodes of all of them together.
    """
    estimator = FederatedAdvantage(clip=clip, reference=reference, settle=settle)
    return assemble(estimator, AdvantageBonus(c=c), StageRounds(machines), **shared)


@recipe("fedq-early-settled")
def fedq_early_settled(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    settle: float = 1.0,
    machines: int = 1,
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-EarlySettled-Advantage with few changes, after Zhang, Zheng, Xue 2025.

    Of that paper we could read the abstract and what machines are sent: policy, visits, upper and
    lower values and references. So this variant combines the estimates of Li, Shi, Chen, Gu, Chi
    2021, Algorithm 1, with the rounds and weights of FedQ (Zheng, Gao, Xue, Yang 2024); references
    settle at the end of a round. It may differ from the paper's in details. No regret is proved for
    this variant.

    Parameters
    ----------
    c
        The scale c_b of all bonuses.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    settle
        The distance of upper and lower value at which the reference value of a state settles.
    machines
        M, the number of machines. `episodes` counts the episodes of all of them together. One
        machine is the form for a single agent.
    """
    estimator = FederatedSettled(clip=clip, settle=settle)
    return assemble(estimator, EarlySettledBonus(c=c), VisitRounds(machines), **shared)


# ---- planning ------------------------------------------------------------------------------------


@recipe("ucbvi")
def ucbvi(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    pooled: bool = False,
    schedule: AnySchedule = "every",
    **shared: Unpack[Shared],
) -> Algorithm:
    """UCBVI-CH: Azar, Osband, Munos 2017, Algorithms 1 to 3.

    Unlike the paper, it has separate counts for each step (unless `pooled`) and estimates the mean
    rewards, which the paper assumes known.

    Parameters
    ----------
    c
        The scale of the bonus.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    pooled
        Whether all steps share one set of counts, for problems that are known to be stationary.
    schedule
        A schedule or its text; see `as_schedule`.
    """
    planning = Planning(clip=clip, monotone=True, pooled=pooled)
    return assemble(planning, ChernoffHoeffding(c=c), schedule, **shared)


@recipe("ucbvi-bf")
def ucbvi_bernstein(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    pooled: bool = False,
    schedule: AnySchedule = "every",
    **shared: Unpack[Shared],
) -> Algorithm:
    """UCBVI-BF: Azar et al. 2017, Algorithms 1, 2 and 4.

    Unlike the paper, it has separate counts for each step (unless `pooled`) and estimates the mean
    rewards, which the paper assumes known.

    Parameters
    ----------
    c
        The scale of the bonus.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    pooled
        Whether all steps share one set of counts, for problems that are known to be stationary.
    schedule
        A schedule or its text; see `as_schedule`.
    """
    planning = Planning(clip=clip, monotone=True, pooled=pooled)
    return assemble(planning, BernsteinFreedman(c=c), schedule, **shared)


@recipe("mvp")
def mvp(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    data: Literal["newest", "all"] = "newest",
    schedule: AnySchedule = "growth/2.0",
    **shared: Unpack[Shared],
) -> Algorithm:
    """MVP: Zhang, Chen, Lee, Du 2024, Algorithm 1; with data="all" as in Zhang, Ji, Du 2021.

    Parameters
    ----------
    c
        The scale of the bonus, constants included.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    data
        The visits that a plan uses: "newest" or "all"; see `Planning`.
    schedule
        A schedule by visit counts, or its text; see `as_schedule`.
    """
    return assemble(Planning(clip=clip, data=data), MonotonicBernstein(c=c), schedule, **shared)


@recipe("orlc")
def orlc(
    *,
    c: float = 1.0,
    clip: Clip = "remaining",
    pooled: bool = False,
    schedule: AnySchedule = "every",
    **shared: Unpack[Shared],
) -> Algorithm:
    """ORLC, optimistic learning with certificates: Dann, Li, Wei, Brunskill 2019.

    It plans with upper and lower values, and explores where they are far apart. `Learner.bounds`
    gives narrower certificates, for this recipe and for any planner.

    Parameters
    ----------
    c
        The scale of the width phi. 1 is the scale of the proof; 0.01 learns in a realistic time.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    pooled
        Whether all steps share one set of counts. True is the setting of the paper, where all steps
        are alike. Separate counts for each step are H times as many, which enters the logarithm.
    schedule
        A schedule or its text; see `as_schedule`.
    """
    return assemble(Planning(clip=clip, pooled=pooled), Certificates(c=c), schedule, **shared)


@recipe("larfe")
def larfe(
    *, phase: int = 1000, members: int = 64, threshold: int = 3, **shared: Unpack[Shared]
) -> Algorithm:
    """LARFE, reward-free exploration with 2 H + 1 deployments: Qiao, Yin, Min, Wang 2022.

    It explores one step after the other, and earns nothing on purpose until its last deployment.
    The paper leaves out successors seen up to 6 H^2 iota times, far more than realistic runs have,
    and plans on the second half of the data; here all data count. No proof covers this variant.

    Parameters
    ----------
    phase
        The number of episodes of each deployment. A run needs (2 H + 2) times as many.
    members
        How many policies are deployed together: at least as many as there are pairs (x, a). Each
        episode plays one.
    threshold
        A successor that was seen less often is left out of the model.
    """
    estimator = LayerByLayer(phase=phase, members=members, threshold=threshold)
    return assemble(estimator, NoBonus(), EveryEpisodes(phase), **shared)


@recipe("multi-batch")
def multi_batch(
    *,
    phase: int = 300,
    members: int = 64,
    threshold: int = 3,
    c: float = 0.1,
    **shared: Unpack[Shared],
) -> Algorithm:
    """Learning in H + log log K batches: after Zhang, Jiang, Zhou, Ji 2022.

    H short batches explore one step each. In ceil(log2 log2 K) longer ones, mixtures visit what may
    still be optimal, and the last one exploits. We could read the structure of the paper and not
    its constants: here actions are dropped by intervals of a simple width, the mixtures go to the
    (h, x, a) with the fewest visits instead of following the paper's design, and the last batch
    plays one policy. No proof covers this variant.

    Parameters
    ----------
    phase
        The number of episodes of each of the first H batches. About the root of K is a good choice.
    members
        How many policies are deployed together: at least as many as there are pairs (x, a). Each
        episode plays one.
    threshold
        A successor that was seen less often is left out of the model of the ways.
    c
        The scale of the width c (H - h + 1) / sqrt(n) of an estimate from n visits.
    """
    estimator = MultiBatch(phase=phase, members=members, threshold=threshold, c=c)
    return assemble(estimator, NoBonus(), GrowingBatches(phase), **shared)


@recipe("few")
def few(
    *,
    deployments: int | None = None,
    deployments_at: str | int | Sequence[int] | None = None,
    asked: bool = False,
    gap: int = 1,
    members: int = 64,
    mass: float | Learned = "learned",
    rewards: SeenRewards = "seen",
    pooled: bool | Tested = "tested",
    rows: int | None = None,
    trial: Trial | None = "auto",
    floor: float | None = None,
    first: First = "auto",
    last: Last = "exploit",
    rule: int = RULE,
) -> Algorithm:
    """The library's own algorithm for a budget of N deployments, with nothing to tune.

    It deploys mixtures of policies, each optimal for a model drawn from the posterior, and at the
    end one policy that exploits. Each episode draws its policy from the deployed mixture, so
    `learner.policy` may change between two episodes without a deployment. With `members=1` it
    changes only by deployments, and less is learned. From the data it learns how far transition
    laws spread, whether rewards vary and whether all steps are alike.

    If an initial policy is given, a deployment consists of a protocol and a trial: most cases
    follow one table, which exploits current knowledge at each date, and the rest explore.

    Parameters
    ----------
    deployments
        How often the policy may change.
    deployments_at
        The numbers of episodes after which it may change, such as (300, 600, 900) or "300-600-900".
        By default the library chooses them. If `deployments` is given too, there may be more dates
        than deployments: the first dates that change something count.
    asked
        Whether the policy may change when somebody calls `propose`, and at no other time, for a
        board without fixed dates. The last of the `deployments` changes exploits.
    gap
        The least number of episodes between two deployments.
    members
        How many policies are deployed together; 1 deploys one policy at a time.
    mass, rewards, pooled
        Prior knowledge that then need not be learned; see `LearnedPosterior`.
    rows
        For reviewers, the greatest number of rows in which a deployment other than the last differs
        from the deployed policy. With a protocol and a trial, it limits the rows in which the
        protocol changes, and the rows in which the trial departs from the protocol.
    trial
        The share of the cases that explore. "auto" lets the data choose it, "falling" is one over
        the number of the deployment, and with None all cases explore.
    floor
        The share of the initial policy's value below which the average over all cases of a
        deployment may fall with a probability of at most 10 %.
    first
        The policy before the first change. "auto" explores unless there is an initial policy or a
        board. "explore" explores behind a board too, and with an initial policy by a trial.
        "lowest" plays the initial policy, or else the lowest actions.
    last
        The kind of the last deployment: "exploit", "greedy" or "usual"; see `Budget`.
    rule
        The version of the decision rules; 1 decides as before 18 November 2026.
    """
    dates = None if deployments_at is None else as_dates(deployments_at)
    most = len(dates or ()) if deployments is None else deployments
    begin: First = "lowest" if rule == 1 else first
    schedule = _few_dates(deployments, dates, most, gap, asked)
    if isinstance(schedule, Late) and begin != "lowest" and members != 1:
        schedule = dataclasses.replace(schedule, explored=True)
    posterior = LearnedPosterior(
        mass=mass,
        rewards=rewards,
        members=members,
        pooled=pooled,
        rows=rows,
        trial=trial,
        floor=floor,
        first=begin,
        rule=rule,
    )
    return assemble(posterior, NoBonus(), schedule, deployments=most, last=last)


def _few_dates(
    deployments: int | None, dates: tuple[int, ...] | None, most: int, gap: int, asked: bool
) -> Late | Calendar | Asked:
    """The schedule of `few`: when it is asked, on given dates, or on dates it chooses itself."""
    require_truth("asked", asked)
    if deployments is None and dates is None:
        raise ValueError(
            "few needs a budget: give deployments=10, or the dates as deployments_at=300-600-900"
        )
    if asked and (dates is not None or gap != 1):
        raise ValueError(
            "with asked=True the policy changes when a board asks, so there are no "
            "dates to give and no gap to keep; leave out deployments_at and gap, or asked"
        )
    if dates is not None and require_count("deployments", most) > len(dates):
        raise ValueError(
            f"deployments={most} is more than the {len(dates)} dates of deployments_at, "
            "and the policy may change only on these; leave deployments out, or give "
            "more dates"
        )
    if asked:
        return Asked()
    return Late(most, gap) if dates is None else Calendar(dates, gap)


@recipe("psrl")
def psrl(
    *,
    prior: float = 1.0,
    mass: float | Learned | None = None,
    rewards: SeenRewards = "bootstrap",
    reward_weight: float = 1.0,
    members: int = 1,
    pooled: bool | Tested = False,
    schedule: AnySchedule = "every",
    **shared: Unpack[Shared],
) -> Algorithm:
    """PSRL: Osband, Russo, Van Roy 2013, Algorithm 1.

    A schedule makes it lazy, and more than one member makes it a mixture of samples.

    Parameters
    ----------
    prior
        The Dirichlet prior of a transition law, for each successor.
    mass
        The prior for all successors together, which describes it better if there are many states.
        "learned" learns it from the data.
    rewards
        "bootstrap" or "mean", as for `Posterior`. With `mass`, "seen" lets the data say whether
        rewards vary.
    reward_weight
        With `mass`, mean rewards have the prior Beta(reward_weight, reward_weight); 1 is uniform.
    members
        How many policies are deployed together.
    pooled
        Whether all steps are alike. With `mass`, "tested" lets the data decide.
    schedule
        A schedule or its text; see `as_schedule`.
    """
    posterior: Estimator
    if mass is not None:
        posterior = LearnedPosterior(
            mass=mass, rewards=rewards, reward_weight=reward_weight, members=members, pooled=pooled
        )
    elif rewards == "seen" or pooled == "tested" or reward_weight != 1:
        raise ValueError(
            "rewards=seen, pooled=tested and reward_weight need mass=M, the prior mass "
            "over all successors; mass=learned learns it"
        )
    else:
        posterior = Posterior(prior=prior, rewards=rewards, members=members, pooled=pooled)
    return assemble(posterior, NoBonus(), schedule, **shared)


@recipe("ucrl2")
def ucrl2(
    *,
    c: float = 1.0,
    clip: Clip = "remaining",
    pooled: bool = False,
    schedule: AnySchedule = "whole/2.0/1",
    **shared: Unpack[Shared],
) -> Algorithm:
    """UCRL2 for a finite horizon: Jaksch, Ortner, Auer 2010, Figure 1, with backward induction.

    Parameters
    ----------
    c
        The scale of both confidence widths.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    pooled
        Whether all steps share one set of counts, for problems that are known to be stationary.
    schedule
        A schedule or its text; see `as_schedule`.
    """
    return assemble(Planning(clip=clip, pooled=pooled), L1Ball(c=c), schedule, **shared)


@recipe("rmax")
def rmax(
    *, known: int = 10, clip: Clip = "remaining", pooled: bool = False, **shared: Unpack[Shared]
) -> Algorithm:
    """R-max for a finite horizon: Brafman, Tennenholtz 2002.

    Parameters
    ----------
    known
        The number of visits after which an (h, x, a) is known. Then everything is planned anew.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    pooled
        Whether all steps share one set of counts, for problems that are known to be stationary.
    """
    unknown = Unknown(known=known)
    scales = checked_scales(as_scales(shared.get("scales", 1.0)), unknown)
    counts = sorted({max(1, math.ceil(scale * known)) for scale in scales})
    return assemble(Planning(clip=clip, pooled=pooled), unknown, Visits(tuple(counts)), **shared)


@recipe("mbie")
def mbie(
    *,
    c: float = 1.0,
    clip: Clip = "remaining",
    most_visits: int | None = None,
    schedule: AnySchedule = "every",
    **shared: Unpack[Shared],
) -> Algorithm:
    """MBIE for a finite horizon: Strehl, Littman 2008; CMBIE with schedule="episodes/M".

    CMBIE (Guo, Brunskill 2015) plans after every round, in which M machines play one episode each.

    Parameters
    ----------
    c
        The scale of the confidence intervals.
    clip
        The cap on values: "horizon" is H at every step, "remaining" is H - h + 1.
    most_visits
        The number of visits of an (h, x, a) that count as data; later visits do not. None counts
        all.
    schedule
        A schedule or its text; see `as_schedule`.
    """
    intervals = ConfidenceIntervals(c=c, most_visits=most_visits)
    return assemble(Planning(clip=clip), intervals, schedule, **shared)


# ---- features ------------------------------------------------------------------------------------


@recipe("linear")
def linear(
    *,
    members: int = 32,
    c: float = 0.5,
    ridge: float = 1.0,
    schedule: AnySchedule = "spread/1",
    deployments: int | None = None,
    last: Last = "greedy",
    draws: Draws = "optimistic",
    intercept: bool = False,
    link: Link = "linear",
    drift: Drift = "ignore",
    trial: Trial | None = None,
    floor: float | None = None,
    rule: int = 1,
) -> Algorithm:
    """Mixtures of posterior samples of ridge regression on features, for a `LinearLearner`.

    It deploys `members` functions of the features, each optimal for weights drawn from the
    posterior, and each episode plays one of them. With one step this is a contextual bandit. With
    more it is randomised least-squares value iteration (Osband, Van Roy, Wen 2016, Algorithm 1),
    deployed rarely.

    Parameters
    ----------
    members
        How many functions are deployed together.
    c
        The spread of the draws in units of the estimated noise.
    ridge
        The penalty on the weights; see `Ridge`.
    schedule
        A schedule or its text; see `as_schedule`.
    deployments
        How often the policy may change; the dates are then spread geometrically.
    last
        The kind of the last deployment: "greedy", without exploration, or "usual", like the others.
    draws
        "optimistic" draws explore much at first and then less and less; "plain" draws are samples
        of the posterior with the same `c` throughout. See `Sampled`.
    intercept, link, drift
        See `Ridge`; `few` uses intercept=True, link="auto" and drift="watch".
    trial, floor
        As in `few`.
    rule
        The version of the rules, see `Ridge`; `few` uses 3.
    """
    final = "usual" if deployments is None else last
    ridges = Ridge(
        members=members,
        ridge=ridge,
        intercept=intercept,
        link=link,
        drift=drift,
        trial=trial,
        floor=floor,
        rule=rule,
    )
    return assemble(
        ridges, Sampled(c=c, draws=draws), schedule, deployments=deployments, last=final
    )


@recipe("linucb")
def linucb(
    *,
    c: float = 1.0,
    width: Width = "noise",
    ridge: float = 1.0,
    schedule: AnySchedule = "determinant/2.0/1.0",
    **shared: Unpack[Shared],
) -> Algorithm:
    """One optimistic policy on features, changed when a determinant has grown.

    With one step it is LinUCB (Li, Chu, Langford, Schapire 2010) with the rare switching of OFUL
    (Abbasi-Yadkori, Pal, Szepesvari 2011, Figure 3). With more it is LSVI-UCB (Jin, Yang, Wang,
    Jordan 2020, Algorithm 1) with the rare switching of Gao, Xie, Du, Yang 2021.

    Parameters
    ----------
    c
        The scale of the width.
    width
        "noise", "unit" or "proof"; see `Ellipsoid`. The proof needs width="proof" and c=1.
    ridge
        The penalty on the weights; see `Ridge`.
    schedule
        A schedule or its text; see `as_schedule`.
    """
    estimator = Ridge(members=1, ridge=ridge)
    return assemble(estimator, Ellipsoid(c=c, width=width), schedule, **shared)
