"""Decisions: what reviewers approve, reject, forbid and allow again, and how many must agree.

If the quorum of a run is above 1, a decision starts as a request, which is an event of its own. It
takes effect once `quorum` reviewers have agreed, each person counted once. Operators ask for a
rollback or a resumption, and need the same number of reviewers. One person alone can postpone a
change, pause the run or make a trial smaller.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from lowswitch.checks import require_count, require_word
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.events import KINDS, OPERATOR, REVIEWER, needs_quorum
from lowswitch.ledger.reading import Reading
from lowswitch.ledger.requests import Request
from lowswitch.ledger.responses import MotionView, ProposalView
from lowswitch.ledger.state import Motion, State
from lowswitch.ledger.views import event_of
from lowswitch.ledger.writer import Writer, chosen_of, require_thawed, text
from lowswitch.policy.members import Part

_MOST = 1000  # events that are searched for the event that carried out a motion

Result = TypeVar("Result")
Given = ParamSpec("Given")
Book = TypeVar("Book", bound="Deciding")


class MovedOnError(Exception):
    """Somebody else wrote during the computation, so it is repeated."""


def planned_first(
    method: Callable[Concatenate[Book, Given], Result],
) -> Callable[Concatenate[Book, Given], Result]:
    """Let a method that may plan compute everything before its transaction begins.

    So others can write meanwhile. If they did, the computation is repeated, and this time nobody
    else can write.
    """

    @functools.wraps(method)
    def run(ledger: Book, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        with ledger._lock:
            try:
                ledger._hold = method.__name__ == "tell_many" and ledger._is_quiet()
                return method(ledger, *args, **kwargs)
            except MovedOnError:
                ledger._hold = True
                return method(ledger, *args, **kwargs)
            finally:
                ledger._hold = True

    return run


class Deciding(Reading):
    """The part of a ledger that makes decisions."""

    _hold = True  # whether a transaction begins before something is worked out

    def _writing(self, request: Request | None = None) -> AbstractContextManager[Writer]:
        """One transaction: the given events, and the events that follow from them."""
        raise NotImplementedError

    def _is_quiet(self) -> bool:
        """Whether no report can make the learner plan."""
        return self._state is not None and self._state.lessons.quiet

    def _named(
        self, kind: str, by: str, request: str | None, asked: dict[str, Any], also: str = ""
    ) -> Request:
        """A request, after the names in it are checked."""
        name = None if request is None else text("request", request)
        return Request(kind, text("by", by), name, asked, also)

    def _asked(
        self,
        kind: str,
        by: str,
        request: str | None,
        asked: dict[str, Any],
        *,
        forever: bool = True,
    ) -> AbstractContextManager[Writer]:
        """The transaction of a decision. If several must agree, it starts as a motion."""
        first = self._ready().quorum > 1 and needs_quorum(kind, {"forever": forever})
        kinds = ("requested", kind) if first else (kind, "requested")
        return self._writing(self._named(kinds[0], by, request, asked, also=kinds[1]))

    def _before(self, writer: Writer) -> tuple[MotionView | None, int]:
        """What the same request led to before: the motion if it still waits, and the version."""
        assert writer.done is not None
        state, done = writer.state, writer.done
        if done.kind == "requested":
            return self._outcome(writer, done.seq, done.payload["kind"])
        return None, int(done.payload.get("version", state.version))

    def _outcome(self, writer: Writer, number: int, kind: str) -> tuple[MotionView | None, int]:
        """What became of a motion: it still waits or was carried out; otherwise this raises an
        error.
        """
        state = writer.state
        waiting = state.motions.get(number)
        if waiting is not None and not state.lapsed(waiting):
            return _view(waiting, state.quorum), state.version
        for row in writer.store.newest(_MOST, kind=kind, part=f'"motion":{number},'):
            made = event_of(*row)
            if made.payload.get("motion") == number:
                return None, int(made.payload.get("version", state.version))
        raise LedgerError(
            f"request {number} was declined or has lapsed; ask again under a new name"
        )

    # ---- proposals -------------------------------------------------------------------------------

    @planned_first
    def approve(
        self,
        proposal: ProposalView | str,
        *,
        rows: Sequence[tuple[Any, Any]] | None = None,
        part: Part | None = None,
        share: float | None = None,
        by: str,
        reason: str,
        request: str | None = None,
    ) -> int | MotionView:
        """Deploy the pending proposal, or some of its rows.

        If what is approved would earn less than the `floor` of the algorithm allows, nothing is
        decided, and the error says what would keep it.

        Parameters
        ----------
        proposal
            The proposal that was examined, or its hash; the first 8 characters are enough. If
            another one is pending by now, nothing is decided.
        rows
            The rows (step, state) to deploy, by default all.
        part
            "protocol" or "trial" to change only that part.
        share
            The largest share of cases in the trial.
        by
            The reviewer.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.

        Returns
        -------
        int or MotionView
            The new version, or the motion that waits for other reviewers.

        Raises
        ------
        SupersededError
            If the proposal is no longer pending.
        """
        limits = {
            name: value for name, value in (("part", part), ("share", share)) if value is not None
        }
        asked = {"proposal": proposal, "rows": rows, "reason": reason} | limits
        with self._asked("approved", by, request, asked) as writer:
            if writer.done is not None:
                motion, version = self._before(writer)
                return motion or version
            payload = writer.decision(proposal, rows, reason) | limits
            payload["version"] = writer.state.version + 1
            writer.require_floor(payload)
            return self._decide(writer, by, REVIEWER, "approved", payload)

    @planned_first
    def reject(
        self,
        proposal: ProposalView | str,
        *,
        rows: Sequence[tuple[Any, Any]] | None = None,
        by: str,
        reason: str,
        forever: bool = False,
        visits: int | None = None,
        actions: Sequence[Any] | None = None,
        request: str | None = None,
    ) -> MotionView | None:
        """Leave the rows of the pending proposal as they are, by default all of them.

        Without `forever`, the rows are held until their next trigger, or for `visits` visits. Where
        rows have no trigger, they are held until the next date, or else for half of the average
        distance between two proposals. `holds()` says when each hold ends.

        Parameters
        ----------
        proposal
            The proposal that was examined, or its hash.
        rows
            The rows (step, state) to leave, by default all.
        by
            The reviewer.
        reason
            The reason, for the record.
        forever
            Forbid the newly proposed actions in these rows until the veto is lifted.
        visits
            For how many visits the rows are held.
        actions
            With `forever`, which of the new actions to forbid; needed if a row has several.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        if actions is not None and not forever:
            raise LedgerError("actions are those to forbid: say forever=True, or leave them out")
        how = {"forever": bool(forever), "visits": visits}
        asked = {"proposal": proposal, "rows": rows, "reason": reason} | how
        asked |= {} if actions is None else {"actions": list(actions)}
        with self._asked("rejected", by, request, asked, forever=forever) as writer:
            if writer.done is not None:
                return self._before(writer)[0]
            payload = writer.decision(proposal, rows, reason)
            named = None if actions is None else self._actions(actions)
            writer.require_rejection(payload["rows"], forever, visits, named)
            payload |= how | {"visits": None if visits is None else int(visits)}
            payload |= {} if named is None else {"actions": named}
            if not forever and visits is None:
                held = self.terms.proposals.keys(payload["rows"])
                payload |= {} if held is None else writer.state.held_until(held)
            answer = self._decide(writer, by, REVIEWER, "rejected", payload)
            return answer if isinstance(answer, MotionView) else None

    def require_decision(
        self, proposal: ProposalView | str, rows: Sequence[tuple[Any, Any]] | None = None
    ) -> None:
        """Check that rows (step, state) of a proposal can be decided on: it is pending and has
        them.
        """
        with self._lock:
            state = self._ready()
            require_thawed(state, self.store)
            chosen_of(state, self.store, proposal, rows)

    # ---- vetoes ----------------------------------------------------------------------------------

    @planned_first
    def forbid(
        self,
        rows: Sequence[tuple[Any, Any]] | None,
        actions: Sequence[Any],
        *,
        instead: Any = None,
        base: int | None = None,
        by: str,
        reason: str,
        request: str | None = None,
    ) -> int | MotionView:
        """Forbid actions in rows permanently; return the deployed version.

        A pending proposal is made again without these actions, which does not use the budget. This
        also works while the run is paused. `lift` allows the actions again.

        Parameters
        ----------
        rows
            The rows (step, state). With features there are no rows: give None for all cases; a
            deployed policy then plays its next best action.
        actions
            The actions to forbid.
        instead
            The action for a row whose protocol plays a forbidden one; refused if none does.
        base
            The version that was examined. If another one is deployed by now, nothing is decided.
        by
            The reviewer.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        text("reason", reason)
        asked = {"rows": rows, "actions": actions, "instead": instead, "reason": reason}
        with self._asked("vetoed", by, request, asked) as writer:
            if writer.done is not None:
                motion, version = self._before(writer)
                return motion or version
            writer.require_going_on()
            _require_base(writer.state, base)
            payload = self.veto(rows, actions) | {"reason": reason, "instead": None}
            if instead is not None:
                payload["instead"] = self.terms.index("action", instead)
            self._require_vetoable(writer.state, payload)
            return self._decide(writer, by, REVIEWER, "vetoed", payload)

    @planned_first
    def lift(
        self,
        rows: Sequence[tuple[Any, Any]] | None,
        actions: Sequence[Any],
        *,
        by: str,
        reason: str,
        request: str | None = None,
    ) -> MotionView | None:
        """Allow forbidden actions again in rows (step, state).

        Nothing is deployed: the learner may use them from its next proposal on. Actions that were
        forbidden when the ledger was created stay forbidden.

        Parameters
        ----------
        rows
            The rows (step, state), or None with features.
        actions
            The actions to allow.
        by
            The reviewer.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        text("reason", reason)
        asked = {"rows": rows, "actions": actions, "reason": reason}
        with self._asked("lifted", by, request, asked) as writer:
            if writer.done is not None:
                return self._before(writer)[0]
            writer.require_thawed()
            writer.require_going_on()
            payload = self.veto(rows, actions) | {"reason": reason}
            self._require_liftable(writer.state, payload)
            answer = self._decide(writer, by, REVIEWER, "lifted", payload)
            return answer if isinstance(answer, MotionView) else None

    def _actions(self, actions: Sequence[Any]) -> list[int]:
        """The positions of actions, each once."""
        found = list(dict.fromkeys(self.terms.index("action", action) for action in actions))
        if not found:
            raise LedgerError("no action is named; name those that you mean")
        return sorted(found)

    def veto(
        self, rows: Sequence[tuple[Any, Any]] | None, actions: Sequence[Any]
    ) -> dict[str, Any]:
        """The rows and actions of a veto, after they are checked."""
        return self.terms.proposals.veto(rows, self._actions(actions))

    def require_vetoable(self, payload: dict[str, Any]) -> None:
        """Check that every row keeps an allowed action and has a replacement for a deployed one."""
        with self._lock:
            self._require_vetoable(self._ready(), payload)

    def _require_vetoable(self, state: State, payload: dict[str, Any]) -> None:
        if self.terms.gate != "review":
            raise LedgerError("this ledger has an open gate; only one in review can forbid actions")
        self.terms.proposals.require_vetoable(state, payload)

    def _require_liftable(self, state: State, payload: dict[str, Any]) -> None:
        """Check that every row forbids all of the actions."""
        allowed, names = state.learner.actions_allowed, self.terms.labels["action"]
        for row in payload["rows"]:
            if self.terms.proposals.allowed_in(allowed, row)[payload["actions"]].any():
                name = self.terms.proposals.row_name(row)
                given = ", ".join(names[a] for a in payload["actions"])
                raise LedgerError(f"{name} does not forbid all of: {given}")

    # ---- operators -------------------------------------------------------------------------------

    @planned_first
    def thaw(self, *, by: str, reason: str, request: str | None = None) -> MotionView | None:
        """Resume the run after `freeze`.

        Parameters
        ----------
        by
            Who resumes it.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        with self._asked("thawed", by, request, {"reason": reason}) as writer:
            if writer.done is not None:
                return self._before(writer)[0]
            writer.require_going_on()
            if not writer.state.frozen:
                raise LedgerError("the run is not paused")
            payload = {"reason": text("reason", reason)}
            answer = self._decide(writer, by, OPERATOR, "thawed", payload)
            return answer if isinstance(answer, MotionView) else None

    @planned_first
    def rollback(
        self, version: int, *, by: str, reason: str, request: str | None = None
    ) -> int | MotionView:
        """Deploy an earlier version again, as a new version; return its number.

        The learner keeps everything it has learned. The rows that change are held, as after
        `reject`. A rollback lifts no veto: in a row where the earlier version gives an action that
        was forbidden since, the action of the present protocol stays, and the event names the row.
        With features such a version is refused.

        Parameters
        ----------
        version
            The number of the earlier version.
        by
            Who rolls back.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        text("reason", reason)
        asked = {"version": version, "reason": reason}
        with self._asked("rolled_back", by, request, asked) as writer:
            if writer.done is not None:
                motion, made = self._before(writer)
                return motion or made
            state = writer.state
            writer.require_going_on()
            if self.terms.gate != "review":
                raise LedgerError("this ledger has an open gate; only one in review is rolled back")
            _require_version(state, version)
            payload = {"to": version, "version": state.version + 1, "reason": reason}
            payload |= self._rollback(state, version)
            return self._decide(writer, by, OPERATOR, "rolled_back", payload)

    def rollback_to(self, version: int) -> dict[str, Any]:
        """What a rollback to a version would keep and hold; an error if it would change nothing."""
        with self._lock:
            return self._rollback(self._ready(), version)

    def floor_warning(self, version: int | None = None) -> str | None:
        """What today's reports say against the `floor` of the algorithm; None if it is kept.

        Approvals below the floor are refused. Rollbacks and vetoes are not, because they must
        always be possible: ask this before a rollback, or after either of them, and make the trial
        smaller with `cap_trial` if that keeps the floor.

        Parameters
        ----------
        version
            An earlier version that might be deployed again, by default the deployed one.
        """
        with self._lock:
            state = self._ready()
            policy = None
            if version is not None:
                _require_version(state, version)
                self._require_allowed(state, version)
                policy, _ = state.restored(version)
            found: str | None = state.learner.floor_warning(policy)
            return found

    def _rollback(self, state: State, version: int) -> dict[str, Any]:
        """The part of a rollback's payload that follows from the version and from the vetoes."""
        self._require_allowed(state, version)
        policy, kept = state.restored(version)
        shown, now = (self.terms.shown(one) for one in (policy, state.versions[-1]))
        if policy.identity == state.versions[-1].identity:
            but = ", except for what was forbidden since" if kept else ""
            raise LedgerError(f"version {version} is already deployed{but}")
        if not self.terms.has_rows:
            return {}
        rows = [(h, x) for h, x in np.argwhere((shown != now).any(axis=0)).tolist()]
        return ({"kept": kept} if kept else {}) | state.held_until(rows)

    def _require_allowed(self, state: State, version: int) -> None:
        """Check that a version on features plays nothing that was forbidden since."""
        terms, learner = self.terms, state.learner
        if terms.has_rows or not terms.is_forbidden(state.versions[version - 1], learner):
            return
        which = terms.forbidden_words(state.versions[version - 1], learner)
        others = [
            str(number)
            for number, one in enumerate(state.versions, start=1)
            if not terms.is_forbidden(one, learner) and one.identity != state.versions[-1].identity
        ]
        *most, last = others or [""]
        named = f"Versions {', '.join(most)} and {last} have" if most else f"Version {last} has"
        way = f"{named} nothing forbidden" if last else "No earlier version is without one"
        raise LedgerError(
            f"version {version} gives actions that were forbidden since{which}. {way}; or lift the"
            " veto first"
        )

    # ---- several reviewers -----------------------------------------------------------------------

    @property
    def quorum(self) -> int:
        """How many reviewers must agree on a decision."""
        return self._ready().quorum

    def motions(self) -> list[MotionView]:
        """The motions that wait until enough reviewers agree."""
        with self._lock:
            state = self._ready()
            waiting = [one for one in state.motions.values() if not state.lapsed(one)]
            return [_view(one, state.quorum) for one in waiting]

    def lapsed_motions(self) -> list[MotionView]:
        """The motions that can no longer be carried out, with the reason."""
        with self._lock:
            state, found = self._ready(), list[MotionView]()
            for one in state.motions.values():
                if (why := state.why_lapsed(one)) is not None:
                    found.append(dataclasses.replace(_view(one, state.quorum), lapsed=why))
            return found

    @planned_first
    def confirm(
        self,
        motion: int,
        *,
        base: int | None = None,
        by: str,
        reason: str,
        request: str | None = None,
    ) -> int | MotionView:
        """Agree, as a reviewer, to the motion of another person.

        The last agreement that is needed carries it out. Nobody counts twice.

        Parameters
        ----------
        motion
            The number of the motion.
        base
            The version that was examined. If another one is deployed by now, nothing is decided.
        by
            The reviewer.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.

        Returns
        -------
        int or MotionView
            The deployed version once it is carried out; until then the motion.
        """
        asked = {"motion": motion, "reason": text("reason", reason)}
        with self._writing(self._named("seconded", by, request, asked)) as writer:
            if writer.done is not None:
                asked_for = event_of(*writer.store.event(motion)).payload["kind"]
                waiting, version = self._outcome(writer, motion, asked_for)
                return waiting or version
            known = self._motion(writer.state, motion)
            if known.agrees(by):
                raise LedgerError(f"{by} has asked for this or agreed already; another must")
            self._require_possible(writer, known)
            _require_base(writer.state, base)
            writer.add(by, REVIEWER, "seconded", dict(asked))
            return self._carry_out(writer, known)

    def decline(
        self,
        motion: int,
        *,
        by: str,
        reason: str,
        request: str | None = None,
        role: str = REVIEWER,
    ) -> None:
        """Decline a motion, which is then not carried out.

        Parameters
        ----------
        motion
            The number of the motion.
        by
            Who declines it.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        role
            "reviewer" or "operator", for the record. Operators withdraw only their own motions.
        """
        asked = {"motion": motion, "reason": text("reason", reason)}
        require_word("role", role, (REVIEWER, OPERATOR))
        with self._writing(self._named("declined", by, request, asked)) as writer:
            if writer.done is None:
                known = self._motion(writer.state, motion)
                if role == OPERATOR and (known.by, known.role) != (by, role):
                    raise LedgerError(
                        f"{known.by} asked for this; an operator can withdraw only their own"
                        " requests, and a reviewer can turn down any"
                    )
                writer.add(by, role, "declined", dict(asked))

    @planned_first
    def set_quorum(
        self, quorum: int, *, by: str, reason: str, request: str | None = None
    ) -> MotionView | None:
        """Change how many reviewers must agree; as many as before must agree to this.

        Parameters
        ----------
        quorum
            The new number.
        by
            Who asks for it.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        with self._asked("quorum", by, request, {"quorum": quorum, "reason": reason}) as writer:
            if writer.done is not None:
                return self._before(writer)[0]
            if require_count("quorum", quorum) == writer.state.quorum:
                raise LedgerError(f"the quorum is {quorum} already")
            payload = {"quorum": int(quorum), "reason": text("reason", reason)}
            answer = self._decide(writer, by, REVIEWER, "quorum", payload)
            return answer if isinstance(answer, MotionView) else None

    def motion(self, number: int) -> MotionView:
        """The pending motion with this number; otherwise an error that says why it is not pending.

        Parameters
        ----------
        number
            The number of the motion.
        """
        with self._lock:
            state = self._ready()
            return _view(self._motion(state, number), state.quorum)

    def _motion(self, state: State, number: Any) -> Motion:
        """The pending motion with this number, or an error."""
        known = state.motions.get(number)
        if known is None:
            raise LedgerError(
                f"no request {number!r} waits for reviewers; perhaps it was carried out or turned"
                " down"
            )
        if (why := state.why_lapsed(known)) is not None:
            raise LedgerError(f"this request has lapsed: {why}; ask for the decision again")
        return known

    def _require_possible(self, writer: Writer, motion: Motion) -> None:
        """Check that a motion can still be carried out."""
        kind, decision = motion.kind, motion.decision
        if "proposal" in decision or kind == "lifted":
            writer.require_thawed()
        if kind == "approved":
            writer.require_floor(decision)
        elif kind == "vetoed":
            self._require_vetoable(writer.state, decision)
        elif kind == "lifted":
            self._require_liftable(writer.state, decision)
        elif kind == "rolled_back":
            now = self._rollback(writer.state, decision["to"]).get("kept", [])
            if now != decision.get("kept", []):
                raise LedgerError(
                    "another action was forbidden or allowed since this rollback was asked for; ask"
                    " for it again"
                )

    def _decide(
        self, writer: Writer, by: str, role: str, kind: str, payload: dict[str, Any]
    ) -> int | MotionView:
        """Carry out a decision, or ask other reviewers first; return the version or the motion."""
        actor, state = by, writer.state
        if state.quorum == 1 or not needs_quorum(kind, payload):
            return self._record(writer, actor, role, kind, payload)
        if KINDS[kind].of_version:
            payload["base"] = state.version
        made = writer.add(actor, role, "requested", {"kind": kind, "decision": payload})
        return _view(state.motions[made.seq], state.quorum)

    def _carry_out(self, writer: Writer, motion: Motion) -> int | MotionView:
        """Carry out a motion if enough reviewers agree."""
        state = writer.state
        if len(motion.confirmed) < state.quorum:
            return _view(motion, state.quorum)
        agreed = {"motion": motion.event, "confirmed": list(motion.confirmed)}
        payload = dict(motion.decision) | agreed
        if "version" in payload:
            payload["version"] = state.version + 1
        return self._record(writer, motion.by, motion.role, motion.kind, payload)

    def _record(
        self, writer: Writer, by: str, role: str, kind: str, payload: dict[str, Any]
    ) -> int:
        """Write a decision."""
        state = writer.state
        if kind == "vetoed" and self.terms.proposals.plays(state.versions[-1], payload):
            payload["version"] = state.version + 1
        writer.add(by, role, kind, payload)
        if "proposal" in payload:
            writer.make_up_for_late_date()
        return state.version


def _require_version(state: State, version: Any) -> None:
    """Check that there is a version with this number."""
    if not (isinstance(version, int) and 1 <= version <= state.version):
        raise LedgerError(f"there is no version {version!r}; they are 1 to {state.version}")


def _require_base(state: State, base: int | None) -> None:
    """Check that the version somebody looked at is still deployed."""
    if base is not None and base != state.version:
        raise LedgerError(
            f"you looked at version {base}, and version {state.version} replaced it meanwhile; look"
            " at what the decision would change now, and decide again"
        )


def _view(motion: Motion, quorum: int) -> MotionView:
    return MotionView(
        number=motion.event,
        time=motion.time,
        by=motion.by,
        role=motion.role,
        kind=motion.kind,
        decision=motion.decision,
        confirmed=list(motion.confirmed),
        needed=max(0, quorum - len(motion.confirmed)),
    )
