"""Where a run on many machines stands between two rounds: everything a checkpoint holds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowswitch import storage
from lowswitch.algorithms.parts import Algorithm
from lowswitch.checks import is_number
from lowswitch.history import evaluation_of, fresh_account
from lowswitch.kernels.arrays import Account, Evaluation, Log, Model, Rounds, Rule, Window
from lowswitch.learners import Family, Size, family_of
from lowswitch.machines.sources import Source, Tabular
from lowswitch.problems.mdp import TabularMDP
from lowswitch.simulate import checkpoints

AHEAD = 2  # rounds of M episodes that "speculate" may be ahead of what is learned
_CHANGES = 2**12


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When a run ends before its last episode; what is not given does not end it.

    policy: as soon as the deployed policy is within so much of the optimum under the start law.
    mixture: as soon as the PAC policy, the uniform mixture of all policies so far, is. Both need a
    source with tables. rounds: when so many were played, by resumed calls too. seconds: when so
    many have passed in this call.
    """

    policy: float | None = None
    mixture: float | None = None
    rounds: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None:
                continue
            if not is_number(value) or not value > 0 or (name == "rounds" and value != int(value)):
                what = "a whole number" if name == "rounds" else "a number"
                raise ValueError(
                    f"stop: {name} must be {what} above 0, not {value!r}; leave it out if it should"
                    " not end the run"
                )
            object.__setattr__(self, name, int(value) if name == "rounds" else float(value))

    @property
    def looks_at_values(self) -> bool:
        return self.policy is not None or self.mixture is not None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be run: two runs with equal plans have equal results, whatever their fleets."""

    source: Source
    algorithm: Algorithm
    episodes: int
    machines: int
    rule: str
    seed: int
    regret: bool

    def facts(self) -> dict[str, Any]:
        """The plan as JSON gives it back, which has no tuples."""
        source = self.source
        facts = {
            "source": source.facts(),
            "size": [source.horizon, source.states, source.actions],
            "algorithm": self.algorithm.to_dict(),
            **{
                name: getattr(self, name)
                for name in ("episodes", "machines", "rule", "seed", "regret")
            },
        }
        return dict(json.loads(json.dumps(facts)))


@dataclass
class State:
    """A run between two rounds. The kernels write into its arrays."""

    family: Family  # what learns
    model: Model
    evaluation: Evaluation
    log: Log
    account: Account
    window: Window
    rounds: Rounds
    initial: np.ndarray  # [H, S]
    seconds: dict[str, float] = field(
        default_factory=lambda: {"start": 0.0, "play": 0.0, "learn": 0.0, "save": 0.0}
    )
    traffic: dict[str, int] = field(
        default_factory=lambda: {"lost": 0, "bytes_sent": 0, "bytes_received": 0}
    )

    @property
    def rule(self) -> Any:
        return self.family.rule

    @property
    def tables(self) -> Any:
        return self.family.tables

    @property
    def compiled(self) -> bool:
        """Whether kernels play and learn whole rounds, as they do of Q-learning; other families are
        told of them.
        """
        return isinstance(self.family.rule, Rule)

    @property
    def told(self) -> int:
        return int(self.rounds.counts[2])

    @property
    def last(self) -> int:
        """The episodes at which the run ends as things stand."""
        return int(self.rounds.counts[3])

    @property
    def changes(self) -> np.ndarray:  # [n, 3 + members]
        return self.log.changes[: self.log.counts[2]]

    def policy(self) -> np.ndarray:  # [H, S], or [members, H, S]
        policies = self.family.policies()
        return policies if self.family.members > 1 else policies[0]

    def make_room(self) -> None:
        """Let the log hold what one more round may change."""
        size = len(self.log.changes)
        if self.log.counts[2] + self.rounds.room > size:
            used, more = int(self.log.counts[2]), size + max(size, self.rounds.room)
            self.rounds = self.rounds._replace(stamps=_longer(self.rounds.stamps[:used], more))
            self.log = self.log._replace(changes=_longer(self.log.changes[:used], more))

    def arrays(self) -> dict[str, np.ndarray]:
        """What changes as the run goes on, by name."""
        members = {
            "tables": self.tables._asdict(),
            "log": self.log._asdict(),
            "account": self.account._asdict(),
            "window": self.window._asdict(),
            "rounds": self.rounds._asdict(),
        }
        return {
            f"{part}_{name}": value
            for part, values in members.items()
            for name, value in values.items()
            if isinstance(value, np.ndarray)
        }

    def undo(self) -> Callable[[], None]:
        """Remember everything that learning a round can touch; the result puts it back. What lies
        beyond the counts of the log is free.
        """
        tables = type(self.tables)(*(array.copy() for array in self.tables))
        parts = [
            array
            for name, array in self.arrays().items()
            if name not in _GROWING and not name.startswith("tables_")
        ]
        before = [array.copy() for array in parts]

        def put_back() -> None:
            self.family.tables = tables
            for array, old in zip(parts, before, strict=True):
                array[...] = old

        return put_back


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    """The array at the beginning of a longer one; pages that are not touched cost nothing."""
    longer = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def fresh_state(plan: Plan, stop: Stop) -> State:
    """The state before the first round."""
    from lowswitch.kernels import core as kernels

    source = plan.source
    H, S, A = source.horizon, source.states, source.actions
    family = family_of(plan.algorithm, Size(H, S, A, plan.episodes), source.actions_allowed).fresh(
        plan.seed
    )
    initial = source.actions_allowed.argmax(axis=-1)
    wanted = plan.regret and isinstance(source, Tabular)
    mdp = source.mdp if isinstance(source, Tabular) else _no_tables()
    evaluation, gap = evaluation_of(mdp, family.policies(), wanted=wanted)
    marks = checkpoints(plan.episodes)
    cut = {
        "trigger": kernels.AT_TRIGGER,
        "switch": kernels.AT_SWITCH,
        "speculate": kernels.AT_MISMATCH,
    }[plan.rule]
    slots = min(plan.episodes, plan.machines * (AHEAD if plan.rule == "speculate" else 1))
    room = family.rule.pace.room * (
        slots if plan.rule == "speculate" and isinstance(family.rule, Rule) else 1
    )
    rounds = Rounds(
        episodes=plan.episodes,
        cut=cut,
        pause=stop.looks_at_values,
        policy_gap=_unit_gap(mdp, stop.policy),
        mixture_gap=_unit_gap(mdp, stop.mixture),
        room=room,
        counts=np.array([0, 0, 0, plan.episodes]),
        earned=np.zeros(1),
        plays=np.zeros(H * S * A, dtype=np.int64),
        stamps=np.zeros((max(_CHANGES, room), 2), dtype=np.int64),
        curve=np.zeros(len(marks), dtype=np.int64),
        earned_curve=np.zeros(len(marks)),
    )
    log = Log(
        keep=True,
        counts=np.zeros(3, dtype=np.int64),
        changes=np.zeros((max(_CHANGES, room), 3 + family.members), dtype=np.int64),
        checkpoints=marks,
        switches=np.zeros(0, dtype=np.int64),  # the changes say it
        deployments=np.zeros(0, dtype=np.int64),
    )
    window = Window(
        ready=np.zeros(slots, dtype=np.bool_),
        states=np.zeros((slots, H), dtype=np.int32),
        actions=np.zeros((slots, H), dtype=np.int32),
        rewards=np.zeros((slots, H)),
    )
    state = State(
        family, mdp.model, evaluation, log, fresh_account(gap, marks), window, rounds, initial
    )
    if rounds.pause:
        rounds.counts[3] = kernels.last_episode(state.account, rounds)
    return state


def _no_tables() -> TabularMDP:
    """A problem that stands in where nothing is known; nobody plays it."""
    return TabularMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), horizon=1)


def _unit_gap(mdp: TabularMDP, eps: float | None) -> float:
    """A gap in the problem's units as the kernels see it; -1 stands for none."""
    return -1.0 if eps is None else eps / float(mdp.scale.to_regret(1.0))


# ---- checkpoints ---------------------------------------------------------------------------------

_KIND = "concurrent checkpoint"
_GROWING = {"log_changes", "rounds_stamps"}  # written as far as they are used


def save_state(path: str | os.PathLike[str], plan: Plan, stop: Stop, state: State) -> None:
    """Write a checkpoint whole or not at all."""
    used = int(state.log.counts[2])
    arrays = state.arrays()
    arrays |= {
        "log_changes": arrays["log_changes"][:used],
        "rounds_stamps": arrays["rounds_stamps"][:used],
    }
    facts = {
        "plan": plan.facts(),
        "stop": vars(stop),
        "seconds": state.seconds,
        "traffic": state.traffic,
    }
    storage.write(path, _KIND, facts, arrays)


def load_state(path: str | os.PathLike[str], plan: Plan, stop: Stop) -> State:
    """The state that a checkpoint of this very plan holds; another plan's is an error that says
    what differs.
    """
    from lowswitch.kernels import core as kernels

    facts, arrays = storage.read(path, _KIND)
    state = fresh_state(plan, stop)
    try:
        differs = _difference(facts["plan"], plan.facts())
        if not differs:
            used = int(arrays["log_counts"][2])
            for name, array in state.arrays().items():
                if name.startswith("tables_"):
                    continue
                shape = (used, *array.shape[1:]) if name in _GROWING else array.shape
                if arrays[name].shape != shape or arrays[name].dtype != array.dtype:
                    raise ValueError(f"{name} is {arrays[name].dtype} of {arrays[name].shape}")
            state.rounds = state.rounds._replace(
                stamps=_longer(arrays["rounds_stamps"], used + len(state.rounds.stamps))
            )
            state.log = state.log._replace(
                changes=_longer(arrays["log_changes"], used + len(state.log.changes))
            )
            state.family.restore(
                {
                    name.removeprefix("tables_"): array
                    for name, array in arrays.items()
                    if name.startswith("tables_")
                }
            )
            for name, array in state.arrays().items():
                if name not in _GROWING and not name.startswith("tables_"):
                    array[...] = arrays[name]
            _require_in_range(state)
            state.seconds, state.traffic = facts["seconds"], facts["traffic"]
            same_stop = all(
                facts["stop"][name] == getattr(stop, name) for name in ("policy", "mixture")
            )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} is no whole checkpoint ({error}); delete it to begin anew"
        ) from error
    if differs:
        raise ValueError(f"the checkpoint {str(path)!r} is of {differs}")
    if state.evaluation.wanted and isinstance(plan.source, Tabular):
        state.evaluation, _ = evaluation_of(plan.source.mdp, state.family.policies())
    if not same_stop:
        last = (
            kernels.last_episode(state.account, state.rounds)
            if stop.looks_at_values
            else plan.episodes
        )
        state.rounds.counts[3] = max(last, state.told)
    return state


def _recipe(data: dict[str, Any]) -> str:
    try:
        return str(Algorithm.from_dict(data))
    except ValueError:
        return "an algorithm that this program does not know"


_KINDS = {
    "tables": "tables",
    "environment": "a Gymnasium environment",
    "system": "a System",
}  # the first fact of a source
_DIGESTS = {
    "tables": "tables (transitions, rewards, starts or allowed actions)",
    "allowed": "allowed actions",
}
_WORDS: dict[
    str, Callable[[Any], str]
] = {  # of what a plan's facts hold, in the order in which they are told
    "environment": "the environment {}".format,
    "options": "the options {}".format,
    "system": "the function {}".format,
    "size": "H = {0[0]}, S = {0[1]}, A = {0[2]}".format,
    "reward law": "{} rewards".format,
    "rewards": "rewards from {0[0]:g} to {0[1]:g}".format,
    "algorithm": _recipe,
    "episodes": "{:,} episodes".format,
    "machines": "{:,} machines".format,
    "rule": 'rule "{}"'.format,
    "seed": "seed {}".format,
    "regret": "regret={}".format,
}


def _difference(saved: dict[str, Any], asked: dict[str, Any]) -> str:
    """What tells two plans apart, in words, and what to do about it; nothing if nothing does."""
    if all(saved[name] == value for name, value in asked.items()):
        return ""
    kinds = [_KINDS[next(iter(plan["source"]))] for plan in (saved, asked)]
    if kinds[0] != kinds[1]:
        return f"{kinds[0]}, this run has {kinds[1]}; give another file or the same source"
    was, now = saved | saved["source"], asked | asked["source"]
    names = [name for name in _WORDS if name in now and was[name] != now[name]]
    told = [f"{_WORDS[name](was[name])}, this run has {_WORDS[name](now[name])}" for name in names]
    digests = [
        name for name in _DIGESTS if name in now and was[name] != now[name] and "size" not in names
    ]
    told += [f"other {_DIGESTS[name]} than this run" for name in digests]
    return f"{'; of '.join(told)}; give another file or the same {' and '.join(names + digests)}"


def _require_in_range(state: State) -> None:
    """The kernels trust states and actions."""
    for name, array, size in (
        ("states", state.window.states, state.rule.S),
        ("actions", state.window.actions, state.rule.A),
    ):
        if array.size and not (array.min() >= 0 and array.max() < size):
            raise ValueError(f"{name} from {array.min()} to {array.max()}")
