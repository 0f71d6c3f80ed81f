"""Build the result of a run from its final state."""

from __future__ import annotations

import numpy as np

from lowswitch.concurrent.results import ConcurrentRun
from lowswitch.concurrent.sources import Source, Steps, Tabular
from lowswitch.concurrent.state import RoundSetting, RoundState
from lowswitch.envs.problem import Problem
from lowswitch.history import History
from lowswitch.kernels.arrays import Account
from lowswitch.runs.results import Curves, origin


def gather(setting: RoundSetting, state: RoundState, reason: str) -> ConcurrentRun:
    """The result of the run; `reason` says what ended it."""
    source, learned = setting.source, state.learned
    H, S, A = source.horizon, source.states, source.actions
    before = state.initial if state.initial.ndim == 3 else None
    history = History(state.changes.copy(), before=before)
    # A deployment is counted at its first row change.
    first = np.flatnonzero(np.diff(history.episode, prepend=-1))
    stamps = state.rounds.stamps[first]
    curves, rounds_curve, earned_curve = _curves(setting, state, history)
    steps, policies = learned * H, state.knowledge.policy().actions
    totals, without = state.rounds.totals[0], np.where(state.evaluation.wanted, np.zeros(1), np.nan)
    return ConcurrentRun(
        algorithm=setting.algorithm,
        horizon=H,
        states=S,
        actions=A,
        episodes=learned,
        seeds=np.array([setting.seed], dtype=np.int64),
        optimal_value=_optimal_value(source, learned),
        regret=curves.regret[:, -1] if learned else without,
        local_switches=np.array([history.local_switches]),
        deployments=np.array([state.knowledge.deployments]),
        triggers=np.array([state.knowledge.triggers()]),
        drowned_share=np.array([state.knowledge.drowned / max(1, steps)]),
        curves=curves,
        initial=state.initial,
        policy=policies[None] if len(policies) > 1 else policies,
        history=(history,),
        seconds=max(sum(state.seconds.values()), 1e-9),
        machines=setting.machines,
        rule=setting.rule,
        delay=max(setting.delay),
        planned=setting.episodes,
        stopped=reason,
        rounds=int(totals["rounds"]),
        played=int(totals["played"]),
        earned=float(source.scale.to_value(totals["earned"], steps)),
        parts=dict(state.seconds),
        plays=state.rounds.plays.reshape(H, S, A).copy(),
        rounds_at=stamps["rounds"],
        played_at=stamps["played"],
        rounds_curve=rounds_curve,
        earned_curve=earned_curve,
        lost=state.network["lost"],
        bytes_sent=state.network["bytes_sent"],
        bytes_received=state.network["bytes_received"],
        measure=source.problem.measure if isinstance(source, Steps) else "regret",
        **origin(_problem(source), _name(source)),
    )


def _problem(source: Source) -> Problem | None:
    """The problem behind a source, if there is one."""
    if isinstance(source, Tabular):
        return source.mdp
    return source.problem if isinstance(source, Steps) else None


def _name(source: Source) -> str:
    """The name of a Gymnasium environment; other sources without tables have no name."""
    name = getattr(source, "environment", "")
    return name if isinstance(name, str) else ""


def _optimal_value(source: Source, episodes: int) -> float:
    """The optimal value over the episodes learned; NaN where nothing is known of the source."""
    problem = _problem(source)
    return np.nan if problem is None else problem.optimal_value(episodes)


def _curves(
    setting: RoundSetting, state: RoundState, history: History
) -> tuple[Curves, np.ndarray, np.ndarray]:
    """The curves as far as the run came, with a last point where it ended.

    Also returns the curves of the rounds and of the rewards.
    """
    learned, source, log, rounds = state.learned, setting.source, state.log, state.rounds
    reached = log.curve_points <= learned
    at_the_end = learned and learned not in log.curve_points
    ended = np.array([learned] if at_the_end else [], dtype=np.int64)
    here = slice(0, len(ended))
    marks = np.append(log.curve_points[reached], ended)
    regret = np.append(state.account.curve[reached], _final_regret(state, ended))
    curves = Curves(
        marks,
        source.scale.to_regret(regret)[None],
        np.searchsorted(history.episode[history.switched], marks)[None],
        np.searchsorted(np.unique(history.episode), marks)[None],
    )
    unit = np.append(rounds.earned_curve[reached], rounds.totals["earned"][here])
    earned = source.scale.to_value(unit, marks * source.horizon)
    if isinstance(source, Steps) and setting.regret:
        curves = curves._replace(regret=(marks * source.problem.reference - earned)[None])
    return curves, np.append(rounds.curve[reached], rounds.totals["rounds"][here]), earned


def _final_regret(state: RoundState, ended: np.ndarray) -> np.ndarray:
    """The regret at the end of the run, if the end is not already a point of the curves."""
    from lowswitch.kernels.values import settle

    account = state.account
    regret = np.full(len(ended), account.balance[0]["regret"])
    final = Account(account.balance.copy(), ended, regret)
    final.balance[0]["passed"] = 0
    if not state.evaluation.wanted:
        final.curve[:] = np.nan
    elif len(ended):
        settle(state.model, state.evaluation, final, state.changes[:0], 0, int(ended[0]))
    return final.curve
