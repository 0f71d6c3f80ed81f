"""Makes the result of a run from the state in which it ended."""

from __future__ import annotations

import numpy as np

from lowswitch.history import History
from lowswitch.kernels.arrays import Account
from lowswitch.machines.results import ConcurrentRun
from lowswitch.machines.sources import Tabular
from lowswitch.machines.state import Plan, State
from lowswitch.simulate import Curves, optimal_value_of


def gather(plan: Plan, state: State, reason: str) -> ConcurrentRun:
    """What the run returns; `reason` is what ended it."""
    source, told = plan.source, state.told
    H, S, A = source.horizon, source.states, source.actions
    history = History(state.changes.copy())
    # A deployment is counted where its first row change is.
    first = np.flatnonzero(np.diff(history.episode, prepend=-1))
    stamps = state.rounds.stamps[first]
    curves, rounds_curve, earned_curve = _curves(plan, state, history)
    steps = told * H
    return ConcurrentRun(
        algorithm=plan.algorithm,
        horizon=H,
        states=S,
        actions=A,
        episodes=told,
        seeds=np.array([plan.seed], dtype=np.int64),
        optimal_value=optimal_value_of(source.mdp, told) if isinstance(source, Tabular) else np.nan,
        regret=(
            curves.regret[:, -1] if told else np.where(state.evaluation.wanted, np.zeros(1), np.nan)
        ),
        local_switches=np.array([history.local_switches]),
        deployments=state.log.counts[1:2].copy(),
        triggers=np.array([state.family.triggers()]),
        loud_share=np.array([float(state.tables.loud[0]) / max(1, steps)]),
        curves=curves,
        initial=state.initial,
        policy=state.policy()[None],
        history=(history,),
        seconds=max(sum(state.seconds.values()), 1e-9),
        machines=plan.machines,
        rule=plan.rule,
        planned=plan.episodes,
        stopped=reason,
        rounds=int(state.rounds.counts[0]),
        played=int(state.rounds.counts[1]),
        earned=float(source.scale.to_value(state.rounds.earned[0], steps)),
        parts=dict(state.seconds),
        plays=state.rounds.plays.reshape(H, S, A).copy(),
        rounds_at=stamps[:, 0],
        played_at=stamps[:, 1],
        rounds_curve=rounds_curve,
        earned_curve=earned_curve,
        **state.traffic,
    )


def _curves(plan: Plan, state: State, history: History) -> tuple[Curves, np.ndarray, np.ndarray]:
    """The curves as far as the run came, with a last point where it ended.

    The other two are the curves of the rounds and of the rewards.
    """
    told, source, log, rounds = state.told, plan.source, state.log, state.rounds
    reached = log.checkpoints <= told
    at_the_end = told and told not in log.checkpoints
    ended = np.array([told] if at_the_end else [], dtype=np.int64)
    here = slice(0, len(ended))
    marks = np.append(log.checkpoints[reached], ended)
    regret = np.append(state.account.curve[reached], _final_regret(state, ended))
    curves = Curves(
        marks,
        source.scale.to_regret(regret)[None],
        np.searchsorted(history.episode[history.switched], marks)[None],
        np.searchsorted(np.unique(history.episode), marks)[None],
    )
    earned = np.append(rounds.earned_curve[reached], rounds.earned[here])
    return (
        curves,
        np.append(rounds.curve[reached], rounds.counts[0:1][here]),
        source.scale.to_value(earned, marks * source.horizon),
    )


def _final_regret(state: State, ended: np.ndarray) -> np.ndarray:
    """The regret at the end of the run, if that is no point of the curves by itself."""
    from lowswitch.kernels import core as kernels

    account = state.account
    final = Account(
        account.regret.copy(),
        np.array([account.position[0], 0]),
        ended,
        np.full(len(ended), account.regret[0]),
    )
    if not state.evaluation.wanted:
        final.curve[:] = np.nan
    elif len(ended):
        kernels.settle(state.model, state.evaluation, final, state.changes[:0], 0, int(ended[0]))
    return final.curve
