"""Learner: ask for the policy, tell what happened. The caller owns the loop."""

from __future__ import annotations

import inspect
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import (
    has_integers,
    require_count,
    require_seed,
    require_truth,
    require_word,
    shown,
)
from lowswitch.io import archive, storage
from lowswitch.io.files import read_bytes
from lowswitch.policy.choice import Choice
from lowswitch.policy.spaces import Spaces
from lowswitch.review.board import Reviewed
from lowswitch.review.gate import Gate

if TYPE_CHECKING:
    from lowswitch.feature_learner import FeatureLearner
    from lowswitch.table_learner import TableLearner

Batch = tuple[np.ndarray, np.ndarray, np.ndarray]  # states or features, actions, rewards


class Learner(Reviewed):
    """A learner for a problem of known size and unknown laws. The caller owns the loop.

    With states=S it learns tables: see `TableLearner` for the options. With features=d it learns a
    function of d numbers that describe a context: see `FeatureLearner`. Ask for the action with
    `act`, and report each episode with `tell`.

    Parameters
    ----------
    *given
        The algorithm, as the first argument.
    **options
        `horizon`, `states` or `features`, `actions`, `episodes` and others; see `TableLearner` and
        `FeatureLearner`.

    See Also
    --------
    TableLearner, FeatureLearner

    Examples
    --------
    >>> import lowswitch as ls
    >>> learner = ls.Learner(ls.few(deployments=3), horizon=1, states=2, actions=2, episodes=100)
    >>> learner.deployments
    0
    """

    kind: str  # of its files
    algorithm: Algorithm
    horizon: int
    actions: int
    episodes: int
    seed: int
    spaces: Spaces | None = None  # of the environment that it plays; saved with it

    @overload
    def __new__(cls, algorithm: Algorithm, *, states: int, **options: Any) -> TableLearner: ...
    @overload
    def __new__(cls, algorithm: Algorithm, *, features: int, **options: Any) -> FeatureLearner: ...
    def __new__(cls, *given: Any, **options: Any) -> Any:
        """The learner for states or for features."""
        family: type[Any] = cls
        if cls is Learner:
            if ("states" in options) == ("features" in options):
                raise ValueError(
                    "give states=S for tables, or features=d for contexts of d numbers"
                )
            family = _families()["features" in options]
        if given or options:  # a copy is made without any
            _require_fitting(family, given, options)
        return super().__new__(family)

    def _begin(self, algorithm: Algorithm, episodes: int, seed: int, gate: str) -> None:
        """What every learner begins with, its knowledge excepted."""
        self.algorithm = algorithm
        self.episodes, self.seed = require_count("episodes", episodes), require_seed(seed)
        require_word("gate", gate, ("open", "review"))
        self.gate, self.told = gate, 0
        self._gate, self._plain = Gate(), gate == "open"
        self._telling = threading.Lock()

    @property
    def deployed(self) -> Any:
        """The deployed policy: an object that acts, compares with others and has an identity."""
        return self._deployed

    @property
    def actions_allowed(self) -> np.ndarray:
        """The actions that may be deployed; forbidding an action removes it."""
        raise NotImplementedError

    def posterior(self) -> Any:
        """The present posterior, which later learning does not change; None without a model."""
        raise NotImplementedError

    # ---- costs -----------------------------------------------------------------------------------

    @property
    def deployments(self) -> int:
        """The number of deployments so far.

        Without a gate this is also the spent part of the budget.
        """
        return self._gate.applied if self.gate == "review" else self.proposed

    @property
    def local_switches(self) -> int:
        """The parts of the policy that have changed, summed over all deployments."""
        raise NotImplementedError

    @property
    def proposed(self) -> int:
        """The number of proposals so far, approved or not; a budget counts these."""
        return int(self._knowledge.deployments)

    @property
    def budget_spent(self) -> bool:
        """Whether the budget is spent, so that the policy never changes again.

        It is not spent while a free proposal may still replace one that was withdrawn.
        """
        return bool(self._knowledge.frozen) and not self._gate.replaces

    @property
    def frozen(self) -> bool:
        """The former name of `budget_spent`."""
        warnings.warn(
            "Learner.frozen was renamed to budget_spent; paused says whether freeze() was called",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.budget_spent

    # ---- asking and telling ----------------------------------------------------------------------

    def evidence(
        self, proposal: Any = None, posterior: Any = None, *, rule: int | None = None
    ) -> Any:
        """The posterior's judgement of a proposal; None if it cannot judge one.

        Parameters
        ----------
        proposal
            The proposal, by default the pending one.
        posterior
            The posterior, by default the current one.
        rule
            The version of the rule, by default the current one.
        """

    def act(self, context: Any, step: int = 0) -> Choice:
        """The action that the next episode must play, and its propensity.

        Parameters
        ----------
        context
            A state, or the features of a context.
        step
            The step, from 0.
        """
        choice: Choice = self._deployed.act(context, self.told, step)
        return choice

    def predict(self, observations: Any, step: int | None = None) -> Any:
        """The action for an observation in the next episode, or the actions for several.

        A learner that was made for an environment, by `learn` or `learner_for`, takes observations
        and returns actions of the environment: see `spaces`. Every other learner takes a state, or
        with features a vector [d] ([A, d] if each action has its own features), and returns the
        number of an action. A deployed mixture plays one of its policies for the whole episode, so
        tell the episode before you predict for the next one.

        Parameters
        ----------
        observations
            One observation, or an array of several with one more axis.
        step
            How many steps the episode has had. It may be left out only if episodes have one step,
            because the policy may differ by step.
        """
        h, spaces = self._checked_step(step), self.spaces
        contexts, single = (
            self._plain_contexts(observations) if spaces is None else spaces.contexts(observations)
        )
        actions: list[Any] = [self.act(one, h).action for one in contexts]
        if spaces is not None:
            actions = [spaces.action(number) for number in actions]
        if single:
            return actions[0]
        return np.array(actions, dtype=np.int64) if spaces is None else spaces.stacked(actions)

    def _plain_contexts(self, observations: Any) -> tuple[Any, bool]:
        """The contexts of one observation or of several, and whether it is one."""
        axes = self._observation_axes
        if axes == 0 and isinstance(observations, tuple | dict):
            raise ValueError(
                f"{shown(observations)} has several parts, and this learner knows states by their"
                " numbers, because it does not know the spaces of an environment; make it with"
                " learn or learner_for of lowswitch.envs.gymnasium, or set learner.spaces ="
                " spaces_of(env)"
            )
        given = np.asarray(observations)
        if axes == 0 and not has_integers(given):
            raise ValueError(f"a state is a whole number, not {shown(observations)}")
        single = given.ndim == axes
        if not single and given.ndim != axes + 1:
            raise ValueError(
                f"one observation has {axes} axes and several have one more, not {given.ndim}"
            )
        return given[None] if single else given, single

    def _checked_step(self, step: int | None) -> int:
        H = self.horizon
        if step is None and H > 1:
            raise ValueError(
                f"step is missing: an episode has {H} steps, and the policy may play something else"
                " at each; give step=h, how many steps the episode has had, from 0"
            )
        return require_count("step", step or 0, least=0, most=H - 1)

    @property
    def _observation_axes(self) -> int:
        """How many axes one observation has."""
        raise NotImplementedError

    def tell(self, states: Any, actions: Any, rewards: Any, *, off_policy: bool = False) -> Any:
        """Learn one episode, or a batch of them in order; return the deployment, or None.

        A call that fails changes nothing. A learner belongs to one thread at a time: if a second
        thread calls `tell` meanwhile, it gets an error.

        Parameters
        ----------
        states
            [H]. The state after the last step may follow, and is ignored. With features, the
            vectors of each step, [H, d], or [d] if there is one step; if each action has its
            own features, [A, d] replaces [d]. A batch has one more axis in front.
        actions
            [H]. With features, an episode that ended early has the action -1 from then on.
        rewards
            [H].
        off_policy
            Whether other policies may have played the episodes. Otherwise each episode must
            have been played by the policy that was deployed before it is learned.
        """
        require_truth("off_policy", off_policy)
        batch = self._checked_batch(states, actions, rewards)
        with self._alone("tell"):
            self._require_room(len(batch[0]))
            return self._learn_or_undo(batch, off_policy)

    def learn_checked(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        *,
        until_proposed: bool = False,
    ) -> Any:
        """As `tell` with `off_policy`, for a batch of arrays that are known to fit.

        Parameters
        ----------
        states, actions, rewards
            The episodes. With tables, nothing is learned from a step whose action is -1.
        until_proposed
            Stop after the episode in which a proposal is made; `told` then says how many episodes
            were learned.
        """
        with self._alone("tell"):
            self._require_room(len(states))
            self._plain = self._plain and bool((actions >= 0).all())
            return self._learn_or_undo(
                (states, actions, rewards), True, until_proposed=until_proposed
            )

    def _checked_batch(self, states: Any, actions: Any, rewards: Any) -> Batch:
        """The checked episodes as arrays with one axis for the episodes, or an error."""
        raise NotImplementedError

    def _learn(self, batch: Batch, off_policy: bool, until_proposed: bool) -> tuple[Any, int]:
        """Learn checked episodes; return the deployment, or None, and how many were learned.

        until_proposed: stop after the episode in which a proposal is made.
        """
        raise NotImplementedError

    def _learn_or_undo(
        self, batch: Batch, off_policy: bool, *, until_proposed: bool = False
    ) -> Any:
        """Learn checked episodes; a failure, or an interrupt, changes nothing."""
        told, deployed, knowledge = self.told, self._deployed, self._knowledge
        # the end of a hold reaches everywhere
        undo = knowledge.undo_all() if self._gate.holds else knowledge.undo(*batch[:2])
        undo_gate = self._gate.undo(knowledge) if self.gate == "review" else None
        try:
            switch, learned = self._learn(batch, off_policy, until_proposed)
            new = deployed if switch is None else knowledge.policy()
            self.told, self._deployed = told + learned, new
        except BaseException:  # an interrupt too
            undo()
            if undo_gate is not None:
                undo_gate()
            self.told, self._deployed = told, deployed
            raise
        return switch

    def _require_room(self, episodes: int) -> None:
        if self.told + episodes > self.episodes:
            raise ValueError(
                f"this learner was made for {self.episodes} episodes and has been told {self.told};"
                " make one with more episodes"
            )

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Refuse a second thread while a first one is learning or saving."""
        if not self._telling.acquire(blocking=False):
            raise ValueError(
                f"another thread is telling or saving this learner, so that this {what} is refused"
                " and changes nothing; let one thread own a learner, or guard it with a lock"
            )
        try:
            yield
        finally:
            self._telling.release()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_telling"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _telling=threading.Lock())

    # ---- keeping ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that is needed to continue bit for bit.

        Parameters
        ----------
        path
            The file.
        """
        with self._alone("save"):
            storage.write(path, self.kind, *self._saved())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, numbers: dict[str, Any] | None = None) -> Self:
        """A learner that continues where the saved one stopped.

        Parameters
        ----------
        path
            The file that `save` wrote.
        numbers
            As in the constructor.
        """
        family = cls._family_of(read_bytes(path))
        with storage.reading(path, family.kind) as (facts, arrays):
            return family._restored(facts, arrays, numbers)

    def to_bytes(self) -> bytes:
        """What `save` writes, for a database or a message; `from_bytes` checks and reads it."""
        with self._alone("save"):
            return archive.to_bytes(self.kind, *self._saved())

    @classmethod
    def from_bytes(cls, data: bytes, *, numbers: dict[str, Any] | None = None) -> Self:
        """A learner that continues from the bytes that `to_bytes` wrote.

        Parameters
        ----------
        data
            The bytes.
        numbers
            As in the constructor.
        """
        family = cls._family_of(data)
        try:
            facts, arrays = archive.from_bytes(data, family.kind)
        except archive.RefusedFileError as error:
            raise ValueError(f"data {error}") from error
        with storage.whole("the bytes hold", family.kind):
            return family._restored(facts, arrays, numbers)

    @classmethod
    def _family_of(cls, data: bytes) -> type[Self]:
        """The class that reads these bytes; `Learner` itself reads both families."""
        if cls is not Learner:
            return cls
        kind = archive.kind_of(data)
        tables, features = _families()
        family: type[Any] = features if kind == features.kind else tables
        return family

    def digest(self) -> str:
        """The SHA-256 over the complete state of the learner; equal learners have the same."""
        with self._alone("digest"):
            return archive.digest(*self._state())

    def _saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that is saved: the state of the learner, and its spaces if there are any."""
        facts, arrays = self._state()
        if self.spaces is None:
            return facts, arrays
        return facts | {"spaces": self.spaces.to_dict()}, arrays | self._beginning()

    def _beginning(self) -> dict[str, np.ndarray]:
        """The initial policy as arrays, if nothing else stores it."""
        return {}

    @classmethod
    def _restored(
        cls, facts: dict[str, Any], arrays: dict[str, np.ndarray], numbers: dict[str, Any] | None
    ) -> Self:
        """The learner that `_saved` wrote."""
        learner = cls._from_state(facts, arrays, numbers)
        if "spaces" in facts:
            learner.spaces = Spaces.from_dict(facts["spaces"], cls._observations)
        return learner

    @classmethod
    def _observations(cls, data: dict[str, Any]) -> Any:
        """How a saved learner translates observations."""
        raise NotImplementedError

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The complete state: facts, as JSON can hold them, and arrays."""
        raise NotImplementedError

    @classmethod
    def _from_state(
        cls, facts: dict[str, Any], arrays: dict[str, np.ndarray], numbers: dict[str, Any] | None
    ) -> Self:
        """The learner of a saved state, or an error that names the problem."""
        raise NotImplementedError


def refuse_action(
    episode: int, step: int, where: str, played: int, planned: int, hint: str
) -> NoReturn:
    """Say that an episode of a batch was not played by the deployed policy."""
    raise ValueError(
        f"episode {episode} of the batch plays action {played} at step {step}{where} where the"
        f" policy plays {planned}{hint}; pass off_policy=True to learn from other actions"
    )


def _require_fitting(family: type[Any], given: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Raise an error that says how a learner of this family is made, if the argument is wrong."""
    signature = inspect.signature(family.__init__)
    try:
        signature.bind(None, *given, **options)
    except TypeError as error:
        parameters = [*signature.parameters.values()][2:]
        needed = [one.name for one in parameters if one.default is one.empty]
        others = [one.name for one in parameters if one.default is not one.empty]
        raise ValueError(
            f"{family.__name__}: {error}; after the algorithm, give {', '.join(needed)} by"
            f" name, and if you like {', '.join(others)}"
        ) from None


def _families() -> tuple[type[TableLearner], type[FeatureLearner]]:
    from lowswitch.feature_learner import FeatureLearner
    from lowswitch.table_learner import TableLearner

    return TableLearner, FeatureLearner
