"""The commands of a ledger: parse, call one of its methods, print."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowswitch.cli.syntax import Argument, Command, command
from lowswitch.ledger.errors import DamagedError, LedgerError

if TYPE_CHECKING:
    from lowswitch.ledger import Ledger

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "address": {"help": "A file, or postgresql://...#name (without #name: #ledger)."},
    "csv": {"help": "A CSV file with one line a step."},
    "--algorithm": {
        "help": "The algorithm, such as few:deployments=10,asked=true.",
        "required": True,
    },
    "--horizon": {
        "help": "The number of steps per episode (default: %(default)s).",
        "type": int,
        "default": 1,
    },
    "--states": {"help": "How many states there are, or their labels: well,ill."},
    "--features": {
        "help": "In the place of states, the numbers that describe a case: how many there are, or"
        " each with its name, range and unit: age:18..90:years,weight:30..200:kg."
    },
    "--actions": {"help": "How many actions there are, or their labels.", "required": True},
    "--steps": {"help": "The labels of the steps: visit 1,visit 2."},
    "--episodes": {
        "help": "The number of tickets that may be issued.",
        "type": int,
        "required": True,
    },
    "--policy": {
        "help": "A file with the policy in use: a line for each step, an action for each state,"
        " with commas between them. With features, one action, or a file of LinearPolicy.save.",
        "metavar": "FILE",
    },
    "--reward-range": {"help": "The range of the rewards (default: 0,1).", "default": "0,1"},
    "--missing-means": {
        "help": "How to treat a report that never comes (default: %(default)s).",
        "choices": ("drop", "optimistic", "hold"),
        "default": "drop",
    },
    "--patience": {"help": "A ticket expires after this many later tickets.", "type": int},
    "--patience-days": {"help": "A ticket expires after this many days.", "type": float},
    "--forecast": {
        "help": "The plan.json of `lowswitch plan`: the console shows it beside what happens.",
        "metavar": "FILE",
    },
    "--absorbing": {"help": "The state in which a terminated episode stays, unpaid."},
    "--thresholds": {
        "help": "The thresholds of IMPROVE, LIKELY and WORSE (default: improve=0.05,likely=0.8,"
        "worse=0.2)."
    },
    "--status": {
        "help": "Where the tickets are (default: %(default)s).",
        "choices": ("open", "waiting", "learned", "missing", "refused"),
        "default": "open",
    },
    "--site?": {"help": "Only tickets of this site."},  # where it may be left out
    "--site": {"help": "Who plays the episode.", "required": True},
    "--request": {"help": "A name of the episode that the site keeps.", "required": True},
    "--request?": {"help": "A name for this that you keep; sent again, it is done once."},
    "--ticket": {"help": "The ticket that ask printed.", "required": True},
    "--state": {
        "help": "The states, in order: well,ill,well. With features the vector of each step, with"
        " spaces between its numbers and commas between steps: '37.5 120 80'."
    },
    "--propensity": {
        "help": "With features, how probable the actions were, if another policy chose them."
    },
    "--context": {
        "help": "The features of a case, with spaces between the numbers; its action is printed."
    },
    "--action": {"help": "The actions (default: the actions of the ticket's policy)."},
    "--reward": {"help": "The rewards: 0,0.5,1."},
    "--ended": {
        "help": "How the episode ended (default: %(default)s).",
        "choices": ("whole", "truncated", "terminated"),
        "default": "whole",
    },
    "--by": {"help": "Who does this.", "required": True},
    "--reason": {"help": "Why.", "required": True},
    "--proposal": {
        "help": "The hash of the proposal that was looked at, or its first 8 characters or more.",
        "required": True,
    },
    "--rows": {"help": "Rows as step:state, with commas between them (default: all)."},
    "--part": {
        "help": "Change the protocol or the trial alone.",
        "choices": ("protocol", "trial"),
    },
    "--share?": {"help": "Let at most this share of the cases enter the trial.", "type": float},
    "--share": {
        "help": "The largest share of the cases that enters the trial; 0 ends it.",
        "type": float,
        "required": True,
    },
    "--forever": {"help": "Never deploy these actions there.", "action": "store_true"},
    "--forbid?": {
        "help": "With --forever, the new actions to forbid, with commas between them (default: the"
        " only new one)."
    },
    "--forbid": {
        "help": "The actions to forbid, with commas between them.",
        "required": True,
    },
    "--allow": {
        "help": "The actions to allow again, with commas between them.",
        "required": True,
    },
    "--rows!": {
        "help": "Rows as step:state, with commas between them; not for runs with features."
    },
    "--instead": {"help": "What a row plays instead, if it plays one of them now."},
    "--never": {
        "help": "Actions that may never be deployed, as step:state:action with commas between them;"
        " * stands for every step or state: *:ill:surgery."
    },
    "--name": {"help": "The name of the run.", "default": ""},
    "--words": {
        "help": "The words of the run: episode=patient,step=visit,state=finding,"
        "action=treatment,reward=good outcomes."
    },
    "--quorum?": {
        "help": "How many reviewers must agree on a decision (default: %(default)s).",
        "type": int,
        "default": 1,
    },
    "--quorum": {
        "help": "How many reviewers must agree from now on.",
        "type": int,
        "required": True,
    },
    "--number": {"help": "The number of the motion.", "type": int, "required": True},
    "--visits": {"help": "Keep the rows as they are for this many visits.", "type": int},
    "--early": {
        "help": "Propose before the next date, too; this spends one of the budget.",
        "action": "store_true",
    },
    "--held": {
        "help": "Let postponed and rolled-back rows be proposed again now.",
        "action": "store_true",
    },
    "--version": {"help": "The version to go back to.", "type": int, "required": True},
    "--kind": {
        "help": "What to write (default: %(default)s).",
        "choices": ("jsonl", "csv"),
        "default": "jsonl",
    },
    "--out": {"help": "The file to write.", "required": True},
    "--out/": {
        "help": "The file to write, or a folder for a file named after the ledger and the time.",
        "required": True,
        "metavar": "PATH",
    },
    "--keep": {
        "help": "Keep the newest N backups of this run in the folder, 1 or more (default: all).",
        "type": int,
        "metavar": "N",
    },
    "--to": {"help": "Where to: a file, or postgresql://...#name.", "required": True},
    "--move": {
        "help": "If the copy is whole, rename the original to end in .moved, so that nobody goes on"
        " with it. A ledger that is being served is refused.",
        "action": "store_true",
    },
    "--backup": {
        "help": "A backup of the ledger; needed if an event is bad, or if the ledger is lost.",
        "metavar": "FILE",
    },
    "--more": {"help": "How many more tickets may be issued.", "type": int, "required": True},
    "--out?": {"help": "Append it to this file.", "type": Path, "metavar": "FILE"},
    "--post": {"help": "Send it to this address.", "metavar": "URL"},
    "--key-file": {
        "help": "The file of the signing key, made if it is missing (default: beside the ledger,"
        " ending in .key).",
        "type": Path,
        "metavar": "FILE",
    },
    "--expect": {
        "help": "A hash that must be on record, such as the head of another day, or what tell"
        " returned; may be repeated.",
        "action": "append",
        "metavar": "HASH",
    },
    "--anchors": {
        "help": "A file of anchors, which must all be on record; - is standard input.",
        "type": Path,
        "metavar": "FILE",
    },
    "--as-backup": {
        "help": "Leave out what anchors say of later events than the last one: this is a backup.",
        "action": "store_true",
    },
    "--key": {"help": "The public key that must have signed them (default: the first one's)."},
    "--most": {
        "help": "How many visits of each row's action count.",
        "type": int,
        "required": True,
    },
    "--attested": {"help": "Why these episodes may be learned from.", "required": True},
    "--within": {"help": "How near to the best policy is near enough to stop.", "type": float},
    "--probability": {
        "help": "How often the bounds may fail (default: %(default)s).",
        "type": float,
        "default": 0.05,
    },
    "--cost": {"help": "What a deployment costs, in the units of the rewards.", "type": float},
    "--json": {"help": "Print one JSON object.", "action": "store_true"},
}


_WHO = ("--by", "--reason", "--request?")
_REPORT = ("--ticket", "--state", "--action", "--reward", "--ended", "--propensity")
_DECISION = ("--proposal", "--rows", *_WHO)


def _command(*names: str) -> Callable[[Callable[..., Any]], Command]:
    """A command on a ledger, with these of `_ARGUMENTS`."""
    known = ((name, _ARGUMENTS[name]) for name in ("address", *names, "--json"))
    return command(*(Argument(name.rstrip("?!/"), facts) for name, facts in known))


# ---- commands ------------------------------------------------------------------------------------


@_command(
    *("--algorithm", "--horizon", "--states", "--features", "--actions", "--steps", "--episodes"),
    *("--policy", "--reward-range", "--missing-means", "--patience", "--patience-days"),
    *("--absorbing", "--forecast", "--thresholds", "--never", "--name", "--words", "--quorum?"),
    "--by",
)
def create(options: argparse.Namespace) -> Any:
    """Create a ledger."""
    from lowswitch.algorithms.algorithm import Algorithm
    from lowswitch.envs.files import allowed_actions
    from lowswitch.ledger import Ledger

    low, high = _list(options.reward_range, float)
    if (options.states is None) == (options.features is None):
        raise ValueError("give --states for a table, or --features for cases that are vectors")
    actions = _count_or_labels(options.actions)
    states = None if options.states is None else _count_or_labels(options.states)
    steps = None if options.steps is None else _labels(options.steps)
    ledger = Ledger.create(
        options.address,
        Algorithm.from_text(options.algorithm),
        horizon=options.horizon,
        states=states,
        features=_features(options.features),
        actions=actions,
        steps=steps,
        episodes=options.episodes,
        rewards=(low, high),
        policy=_first_policy(options, states, actions),
        actions_allowed=None
        if options.never is None
        else allowed_actions(_list(options.never), steps or options.horizon, states or 1, actions),
        missing=options.missing_means,
        patience=options.patience,
        patience_days=options.patience_days,
        forecast=None if options.forecast is None else _SavedPlan(options.forecast),
        absorbing=options.absorbing,
        thresholds={name: float(value) for name, value in _pairs(options.thresholds).items()},
        name=options.name,
        words=_pairs(options.words),
        quorum=options.quorum,
        by=options.by,
    )
    return ledger.status()


class _SavedPlan:
    """A plan that `lowswitch plan` wrote."""

    def __init__(self, path: str) -> None:
        self.path = path

    def expected(self) -> list[list[float]]:
        """See `Plan.expected`."""
        facts = json.loads(Path(self.path).read_text(encoding="utf-8"))
        if "expected" not in facts:
            raise ValueError(
                f"{self.path} is not a plan.json of this version; run lowswitch plan again"
            )
        lines: list[list[float]] = facts["expected"]
        return lines


def _features(given: str | None) -> Any:
    """How many features there are, or what they are."""
    from lowswitch.ledger import Feature

    if given is None or given.isdecimal():
        return None if given is None else int(given)
    return [Feature.from_text(part) for part in given.split(",")]


def _first_policy(options: argparse.Namespace, states: Any, actions: Any) -> Any:
    """The policy in use: a table in a text file, or with features see `logs.linear_policy`."""
    from lowswitch.envs.files import policy_from_file

    if options.policy is None:
        return None
    if states is None:
        given = _features(options.features)
        features = given if isinstance(given, int) else len(given or ())
        size = {"features": features, "horizon": options.horizon}
        from lowswitch.cli.logs import linear_policy

        return linear_policy(options.policy, actions, **size)
    count = states if isinstance(states, int) else len(states)
    return policy_from_file(options.policy, actions, horizon=options.horizon, states=count)


def _pairs(given: str | None) -> dict[str, str]:
    """Values as name=value, with commas between them."""
    pairs = [part.partition("=") for part in (given or "").split(",") if part]
    return {name.strip(): value.strip() for name, _, value in pairs}


@_command()
def status(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Say where the run stands."""
    return _standing(ledger)


def _standing(ledger: Ledger) -> Any:
    """The status of a run, after a note if its deployment lies below the floor."""
    if (warning := ledger.floor_warning()) is not None:
        print(f"note: by today's reports {warning}", file=sys.stderr)
    return ledger.status()


@_command("--within", "--probability", "--cost")
def certificate(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Say how good the deployed policy is for certain, and whether the run may stop."""
    return ledger.certificate(options.within, probability=options.probability, cost=options.cost)


@_command("--status", "--site?")
def tickets(ledger: Ledger, options: argparse.Namespace) -> Any:
    """List the tickets that are open, or in another place, with the time when they were issued."""
    from lowswitch.ledger.text import ticket_table

    found = ledger.list_tickets(options.status, site=options.site)
    if options.json:
        return [dataclasses.asdict(one) for one in found]
    behind = ledger.status().behind
    return ticket_table(found, options.status) + (f"\n{behind}" if behind else "")


@_command("--site", "--request", "--context")
def ask(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Get a ticket to play one episode, with its policy, or with its action in a context."""
    from lowswitch.ledger.text import issued_text

    issued, choice = ledger.ask(options.site, options.request), None
    if options.context is not None:
        choice = ledger.act(issued.ticket, ledger.terms.read_state(options.context))
    if not options.json:
        return issued_text(issued, ledger.terms, choice)
    labels = {f"{kind}s": list(names) for kind, names in ledger.terms.labels.items()}
    return issued.facts() | {"labels": labels} | ({"choice": choice} if choice else {})


@_command(*_REPORT)
def tell(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Report what came of a ticket."""
    seen, how = _report(ledger, options)
    return ledger.tell(options.ticket, *seen, **how)


@_command(*_REPORT, *_WHO)
def amend(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Correct the report of a ticket."""
    seen, how = _report(ledger, options)
    return ledger.amend(options.ticket, *seen, **how | _who(options))


@_command("--ticket", *_WHO)
def missing(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Declare that no report will come."""
    ledger.missing(options.ticket, **_who(options))
    return ledger.status()


@_command("--ticket", *_WHO)
def dismiss(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Leave a report as it is, although its site sent a contradicting one."""
    ledger.dismiss(options.ticket, **_who(options))
    return ledger.status()


@_command("--by", "--early", "--held", "--request?")
def propose(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Let the learner propose what it would change now; this replaces what waits."""
    from lowswitch.ledger.text import replaced, withdrawn

    before = ledger.proposal()
    more = {"early": options.early, "held": options.held, "request": options.request}
    made = ledger.propose(by=options.by, **more)
    if before is None or options.json:
        return made or _nothing(ledger, options)
    return replaced(made, before) if made else withdrawn(_nothing(ledger, options), before)


@_command("--rows")
def proposal(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Show what waits for a decision, with its evidence; with --rows what these rows are worth."""
    from lowswitch.ledger.text import worth_lines
    from lowswitch.show.text import columns

    found = ledger.proposal()
    if found is None or options.rows is None:
        return found or _nothing(ledger, options)
    worth = ledger.worth(_rows(options.rows))
    if worth is None or options.json:
        return worth or "this learner keeps no model, so it cannot say what rows are worth"
    head = ("by the learner's model", "mean", "80 % interval", "95 % interval", "better")
    return columns([head, *worth_lines(worth)])


def _nothing(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Why there is no proposal."""
    status = ledger.status()
    if options.json:
        return {"proposal": None, "nothing_because": status.nothing_because}
    soon = f"\nnext date: {status.next_date}" if status.next_date else ""
    return f"nothing to propose: {status.nothing_because}{soon}"


@_command(*_DECISION, "--part", "--share?")
def approve(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Deploy rows of the pending proposal."""
    before = ledger.status()
    limits = {"part": options.part, "share": options.share}
    ledger.approve(options.proposal, rows=_rows(options.rows), **limits, **_who(options))
    return _decided(ledger, options, before)


@_command(*_DECISION, "--forever", "--forbid?", "--visits")
def reject(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Let rows of the pending proposal stay as they are."""
    before = ledger.status()
    ledger.reject(
        options.proposal,
        rows=_rows(options.rows),
        **_who(options),
        forever=options.forever,
        visits=options.visits,
        actions=None if options.forbid is None else _labels(options.forbid),
    )
    return _decided(ledger, options, before)


def _decided(ledger: Ledger, options: argparse.Namespace, before: Any) -> Any:
    """What a decision led to, in a line for people."""
    from lowswitch.ledger.text import decided

    after, (event,) = ledger.status(), ledger.newest(1)
    if event.kind == "requested":
        return after if options.json else _waits(ledger)
    (event,) = ledger.newest(1, kind="approved" if options.ledger == "approve" else "rejected")
    return after if options.json else decided(event, before, after, ledger.proposal())


def _waits(ledger: Ledger) -> str:
    """That a decision waits for other reviewers."""
    motion = ledger.motions()[-1]
    return (
        f"motion {motion.number} waits until {motion.needed} more reviewers agree; they run"
        f" lowswitch ledger confirm --number {motion.number}"
    )


@_command("--rows!", "--forbid", "--instead", *_WHO)
def forbid(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Forbid actions in rows, deployed or not, until the veto is lifted."""
    rows, actions = _rows(options.rows), _labels(options.forbid)
    made = ledger.forbid(rows, actions, instead=options.instead, **_who(options))
    return _standing(ledger) if isinstance(made, int) or options.json else _waits(ledger)


@_command("--rows!", "--allow", *_WHO)
def lift(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Allow actions again that were forbidden in rows."""
    waits = ledger.lift(_rows(options.rows), _labels(options.allow), **_who(options))
    return ledger.status() if waits is None or options.json else _waits(ledger)


@_command()
def motions(ledger: Ledger, options: argparse.Namespace) -> Any:
    """List the decisions that wait until enough reviewers agree."""
    from lowswitch.ledger.text import motion_table

    found = ledger.motions()
    if options.json:
        return [dataclasses.asdict(one) for one in found]
    return motion_table(found)


@_command("--number", *_WHO)
def confirm(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Agree, as a reviewer, to what another person asks for."""
    ledger.confirm(options.number, **_who(options))
    return _standing(ledger)


@_command("--number", *_WHO)
def decline(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Turn down what another person asks for."""
    ledger.decline(options.number, **_who(options))
    return ledger.status()


@_command("--quorum", *_WHO)
def quorum(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Change how many reviewers must agree on a decision."""
    ledger.set_quorum(options.quorum, **_who(options))
    return ledger.status()


@_command(*_WHO)
def freeze(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Pause the run."""
    ledger.freeze(**_who(options))
    return ledger.status()


@_command(*_WHO)
def thaw(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Resume the run."""
    ledger.thaw(**_who(options))
    return ledger.status()


@_command("--version", *_WHO)
def rollback(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Deploy an earlier version again."""
    ledger.rollback(options.version, **_who(options))
    return _standing(ledger)


@_command("--share", *_WHO)
def cap(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Let a smaller share of the cases enter the trial."""
    ledger.cap_trial(options.share, **_who(options))
    return ledger.status()


@_command("--expect", "--anchors", "--as-backup", "--key")
def verify(options: argparse.Namespace) -> Any:
    """Replay a ledger or an exported file from the start, and name the first bad event."""
    from lowswitch.ledger import Ledger
    from lowswitch.ledger.anchors import within
    from lowswitch.ledger.audit import verify_export
    from lowswitch.ledger.exports import is_export

    known, progress = _known(options), False if options.json else None
    if is_export(options.address):
        if options.as_backup:
            raise ValueError("--as-backup is for a backup, and this is an export")
        verdict = verify_export(options.address, known=known, progress=progress)
    else:
        with Ledger.open(options.address, read_only=True) as opened:
            if options.as_backup:
                known = within(known, opened.store)
            verdict = opened.verify(known=known, progress=progress)
    return verdict


def _known(options: argparse.Namespace) -> list[Any]:
    """Hashes and anchors that were kept outside of a ledger."""
    from lowswitch.ledger.anchors import expected, trusted

    if options.as_backup and options.anchors is None:
        raise ValueError("--as-backup leaves out some of the anchors; give these with --anchors")
    if options.key is not None and options.anchors is None:
        raise ValueError("--key says who signed the anchors; give these with --anchors")
    found = [expected(head) for head in options.expect or ()]
    if options.anchors is not None:
        found += trusted(options.anchors, options.key)
    return found


@_command("--key-file", "--out?", "--post")
def anchor(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Sign the head of the chain, and keep that outside: in a file, or at an address."""
    from lowswitch.ledger import anchors
    from lowswitch.ledger.chain import ACCESS, Chain

    for table in ("events", ACCESS):
        Chain(ledger.store, table).require_whole("nothing was signed")
    key = anchors.signing_key(options.key_file or anchors.key_beside(options.address))
    made = anchors.anchored(ledger.store, key)
    if options.out is not None:
        anchors.append(options.out, made, ledger.store)
    if options.post is not None:
        anchors.post(options.post, made)
    _record_copy(ledger, options, "anchored", events=made.seq)
    return made._asdict()


def _record_copy(ledger: Ledger, options: argparse.Namespace, kind: str, **facts: Any) -> None:
    """Let the record of access say that a copy went elsewhere: the metrics tell of the last one.

    A ledger that is not in use, such as a backup, stays as it is.
    """
    from lowswitch.service.access import Access

    if not ledger.store.in_use():
        return
    try:
        with closing(Access(options.address)) as access:
            access.copied(kind, by="command line", **facts)
    except LedgerError as error:
        warnings.warn(f"this is done, but could not be recorded: {error}", stacklevel=2)


@_command("--out", "--kind")
def export(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Write all events to a file."""
    ledger.export(options.out, kind=options.kind)
    return {"file": options.out}


@_command("--out/", "--keep")
def backup(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Copy the ledger into a file or folder while it is used, and verify the copy."""
    from lowswitch.ledger.copies import backup_path, prune
    from lowswitch.ledger.sqlite import rename

    path = backup_path(options.address, options.out, options.keep)
    ledger.backup(path)
    verdict = _verified(path, options)
    gone = prune(path, options.keep) if options.keep and verdict.whole else []
    if not verdict.whole and path.parent == Path(options.out):  # nobody takes it for the newest
        path = Path(rename(path, path.with_suffix(".damaged")))
    if verdict.whole:
        _record_copy(ledger, options, "backed_up", events=verdict.events, file=path.name)
    return {"file": str(path), "whole": verdict.whole, "verdict": verdict.what, "removed": gone}


@_command("--to", "--move")
def copy(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Copy the ledger into another database, such as from a file to PostgreSQL, and verify."""
    from lowswitch.ledger.address import printable
    from lowswitch.ledger.copies import copy as copied
    from lowswitch.ledger.copies import moving

    with moving(options.address) if options.move else nullcontext() as rename:
        copied(ledger.store, options.to)
        verdict = _verified(options.to, options)
        left = rename() if rename and verdict.whole else None
    original = f"the original is now {left!r}"
    if left is None:
        original = f"{printable(options.address)} is as it was; use only one of the two from now on"
    found = {"whole": verdict.whole, "verdict": verdict.what, "head": verdict.head}
    return found | {"original": original}


def _verified(address: Any, options: argparse.Namespace) -> Any:
    """What `verify` says of a copy."""
    from lowswitch.ledger import Ledger

    with Ledger.open(address, read_only=True) as copied:
        return copied.verify(progress=False if options.json else None)


@_command("--backup", "--by")
def restore(options: argparse.Namespace) -> Any:
    """Mend a damaged ledger from its own events, or from a backup; stop its servers first."""
    from lowswitch.ledger.restores import restore as restored

    return restored(options.address, options.backup, by=options.by)


@_command("--more", *_WHO)
def extend(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Let more tickets be issued than were declared; they follow the deployed policy."""
    ledger.extend(options.more, **_who(options))
    return ledger.status()


@_command(*_WHO)
def close(ledger: Ledger, options: argparse.Namespace) -> Any:
    """End the run: no more tickets, proposals and decisions; open tickets can still be settled."""
    ledger.end(**_who(options))
    return ledger.status()


@_command("csv", "--most", "--by", "--attested")
def import_history(ledger: Ledger, options: argparse.Namespace) -> Any:
    """Learn the history of an old protocol from a CSV file."""
    from lowswitch.ledger import import_csv

    made = import_csv(
        ledger, options.csv, most=options.most, by=options.by, attested=options.attested
    )
    return made or _nothing(ledger, options)


COMMANDS = {
    "create": create,
    "status": status,
    "certificate": certificate,
    "tickets": tickets,
    "ask": ask,
    "tell": tell,
    "amend": amend,
    "dismiss": dismiss,
    "missing": missing,
    "propose": propose,
    "proposal": proposal,
    "approve": approve,
    "reject": reject,
    "forbid": forbid,
    "lift": lift,
    "motions": motions,
    "confirm": confirm,
    "decline": decline,
    "quorum": quorum,
    "freeze": freeze,
    "thaw": thaw,
    "rollback": rollback,
    "cap": cap,
    "verify": verify,
    "anchor": anchor,
    "export": export,
    "backup": backup,
    "copy": copy,
    "restore": restore,
    "extend": extend,
    "close": close,
    "import": import_history,
}
TABLES = ("import",)  # these need states
ALONE = ("create", "restore", "verify")  # these open a ledger themselves, or need none
READERS = (
    *("status", "certificate", "tickets", "proposal", "motions", "anchor", "export", "backup"),
    "copy",
)


@command(below=COMMANDS)
def ledger(options: argparse.Namespace) -> None:
    """Keep a learner behind a board: tickets, reports, proposals and decisions in a database."""
    from lowswitch.ledger import Ledger

    function = COMMANDS[options.ledger].run
    if options.ledger in ALONE:
        answer = function(options)
    else:
        with Ledger.open(options.address, read_only=options.ledger in READERS) as opened:
            if options.ledger in TABLES:
                opened.tables()
            answer = function(opened, options)
    is_record = dataclasses.is_dataclass(answer) and not isinstance(answer, type)
    facts = dataclasses.asdict(answer) if is_record else answer
    if options.json:
        print(json.dumps(facts, allow_nan=False))
    else:
        from lowswitch.ledger.text import readable

        print(readable(answer, facts))
    if isinstance(facts, dict) and facts.get("whole") is False:
        raise DamagedError(f"this ledger is damaged: {facts.get('verdict', facts.get('what'))}")


# ---- reading and printing ------------------------------------------------------------------------


def _who(options: argparse.Namespace) -> dict[str, Any]:
    """Who does something, why, and under which name."""
    return {name: getattr(options, name) for name in ("by", "reason", "request")}


def _list(text: str, kind: Callable[[str], Any] = str) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")] if text else []
    except ValueError:
        raise ValueError(f"{text!r} is not numbers with commas between them") from None


def _count_or_labels(text: str) -> int | list[str]:
    return int(text) if text.isdecimal() else _labels(text)


def _labels(text: str) -> list[str]:
    return [label.strip() for label in text.split(",")]


def _report(
    ledger: Ledger, options: argparse.Namespace
) -> tuple[tuple[list[Any], list[Any] | None, list[Any]], dict[str, Any]]:
    """States, actions and rewards, and how the episode ended and was played."""
    if options.ended == "whole":
        for name, given in (("--state", options.state), ("--reward", options.reward)):
            if given is None:
                raise ValueError(
                    f"{name} is missing: give one for each step, with commas between them, or say"
                    " --ended truncated for an episode that was not seen to its end"
                )
    actions = None if options.action is None else _list(options.action)
    states = [ledger.terms.read_state(one) for one in _list(options.state or "")]
    chances = None if options.propensity is None else _list(options.propensity, float)
    how = {"ended": options.ended, "propensities": chances}
    return (states, actions, _list(options.reward or "", float)), how


def _rows(text: str | None) -> list[tuple[str, str]] | None:
    if text is None:
        return None
    pairs = [part.split(":") for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"rows are step:state with commas between them, not {text!r}")
    return [(step, state) for step, state in pairs]
