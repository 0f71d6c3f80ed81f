"""The command line: parse, call one library function, print."""

from __future__ import annotations

import argparse
import inspect
import io
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import numpy as np

import lowswitch
from lowswitch import envs
from lowswitch.algorithms.recipes import RECIPES, Shared, assemble
from lowswitch.algorithms.text import build
from lowswitch.cli import runs, syntax
from lowswitch.cli.bench import bench
from lowswitch.cli.ledger import ledger
from lowswitch.cli.serve import serve, token
from lowswitch.cli.syntax import OneOf, argument, arguments, command, problem
from lowswitch.concurrent import FleetError, PlayError
from lowswitch.concurrent.runner import RoundRule
from lowswitch.envs.files import allowed_actions, policy_from_file
from lowswitch.gpu.driver import GpuError
from lowswitch.io import storage
from lowswitch.io.files import OwnedError
from lowswitch.ledger.errors import BrokenError, DamagedError, StorageError, UnreachableError
from lowswitch.show import report
from lowswitch.show.text import counted, wrapped


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    with _streams():
        try:
            code = _run(arguments)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of the output has gone
            return _without_output(1)
        except OSError as error:
            if error.filename is not None:  # the output has no name
                _say(f"lowswitch: cannot use {str(error.filename)!r}: {error.strerror}")
                return 2
            _say(f"lowswitch: cannot write the output: {error.strerror}")
            return _without_output(1)
        except SystemExit:
            try:
                sys.stdout.flush()
            except OSError:
                return _without_output(1)
            raise
        return code


def _run(arguments: list[str] | None) -> int:
    parser = syntax.parser(COMMANDS)
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(syntax.with_joined_ranges(arguments))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", lowswitch.BonusWarning)
            warnings.simplefilter("always", lowswitch.NothingLearnedWarning)
            warnings.showwarning = lambda text, *_, **__: _say(
                f"note: {_COLOURS.sub('', str(text))}"
            )
            COMMANDS[options.command].run(options)
    except _EXPECTED as error:
        text, code = _explained(error, options)
        if not getattr(options, "is_logged", False):  # of a server whose log says it
            _say(f"lowswitch: {text}")
        return code
    return 0


@contextmanager
def _streams() -> Iterator[None]:
    """Allow streams that are closed or ASCII-only: characters that cannot be shown are escaped or
    dropped.
    """
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout, sys.stderr = (
            nowhere if stream is None or stream.closed else stream for stream in before
        )
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def _say(text: str) -> None:
    """Write a line for the user to stderr, if that can be written."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _without_output(code: int) -> int:
    """The exit code, with the rest of the output dropped, because Python would fail to flush it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return code


_COLOURS = re.compile(r"\x1b\[[\d;]*m")  # Gymnasium's warnings contain them

_EXPECTED = (
    *(ValueError, FleetError, GpuError, PlayError, OwnedError),
    *(ModuleNotFoundError, MemoryError, KeyboardInterrupt),
)


def _explained(error: BaseException, options: argparse.Namespace) -> tuple[str, int]:
    """The message about an error for the user, and the exit code."""
    match error:
        case FleetError() | GpuError() | PlayError() | OwnedError():
            return str(error), 1
        case BrokenError() | DamagedError():
            return str(error), 3
        case StorageError() | UnreachableError():
            return str(error), 4
        case ModuleNotFoundError():
            needs = f"this needs {error.name}, which is not installed"
            return f"{needs}; pip install 'lowswitch[all]'", 2
        case MemoryError():
            return f"the problem does not fit into memory ({error}); make it smaller", 2
        case KeyboardInterrupt():
            checkpoint = getattr(options, "checkpoint", None)
            kept = f"; repeat this command to resume from {checkpoint}" if checkpoint else ""
            return f"interrupted; no file is half written{kept}", 130
    return str(error), 2


# ---- commands ------------------------------------------------------------------------------------


@command(
    *problem(),
    *arguments("--algorithm", "--episodes", "--machines", required=True),
    argument("--rule", default="switch", choices=get_args(RoundRule)),
    argument("--fleet", default="in-process"),
    argument("--seed", default=0),
    *arguments("--stop-policy", "--stop-mixture", "--stop-within", "--max-rounds", "--max-seconds"),
    *arguments("--checkpoint", "--json"),
    argument("--save", help="Write the result to a file that lowswitch.concurrent.load reads."),
)
def concurrent(options: argparse.Namespace) -> None:
    """Let M machines play one policy a round, with the results of the sequential run."""
    from lowswitch import concurrent as many

    if options.save:
        storage.require_writable(options.save)
    result = many.run(
        runs.source_of(options),
        runs.algorithm_of(options.algorithm),
        options.episodes,
        machines=options.machines,
        rule=options.rule,
        fleet=build(options.fleet, many.FLEETS, "fleet"),
        seed=options.seed,
        stop=many.Stop(
            policy=options.stop_policy,
            mixture=options.stop_mixture,
            rounds=options.max_rounds,
            seconds=options.max_seconds,
            within=options.stop_within,
        ),
        checkpoint=options.checkpoint,
    )
    if options.save:
        result.save(options.save)
    if options.json:
        facts = {"env": result.problem} | result.to_dict()
        print(json.dumps(facts, allow_nan=False))
    else:
        print(result.summary().text(runs.columns()))


@command(
    *problem(),
    argument("--episodes", required=True),
    argument(
        "--seeds",
        default=8,
        help="On how many fresh seeds the finalists are reported (default: %(default)s).",
    ),
    argument("--confirm", default=32),
    argument(
        "--algorithm",
        action="append",
        help="Race this algorithm instead of the portfolio; may be given several times.",
    ),
    *arguments("--budget", "--stationary", "--threads", "--json"),
    argument("--fleet", help=runs.FLEET),
    argument("--out", default="lowswitch-frontier", metavar="DIR"),
)
def frontier(options: argparse.Namespace) -> None:
    """Find which algorithm has the least regret for how many deployments: a table, a figure."""
    folder, mdp, texts = Path(options.out), runs.problem_of(options), options.algorithm
    storage.make_folder(folder)
    report.require_figure_path(folder / "frontier.png")
    result = lowswitch.frontier(
        mdp,
        episodes=options.episodes,
        seeds=options.seeds,
        confirm=options.confirm,
        portfolio=[runs.algorithm_of(text) for text in texts] if texts else None,
        stationary=options.stationary,
        budget=options.budget,
        folder=folder,
        threads=options.threads,
        name=mdp.name,
        fleet=runs.fleet_of(options),
    )
    for ending in ("png", "svg"):
        result.plot(folder / f"frontier.{ending}")
    result.save(folder / "frontier.json")
    if options.json:
        print(json.dumps(result.to_dict()))
        return
    width = runs.columns()
    heading, _, rest = result.table(width).partition("\n\n")
    print(wrapped(f"{mdp.name}: {' '.join(heading.split())}", width))
    print(f"\n{rest}\n\nfigure: {folder / 'frontier.png'}")


@command(
    *problem("--size", "--data", "--features"),
    argument("--episodes", required=True, help="The number of episodes."),
    OneOf(arguments("--deployments", "--deployments-at")),
    argument("--gap", default=1),
    *arguments("--initial", "--actions", "--never", "--present-reward"),
    argument("--problems", default=40),
    argument("--json"),
    argument("--fleet", help=runs.FLEET),
    argument("--out", default="lowswitch-plan", metavar="DIR"),
)
def plan(options: argparse.Namespace) -> None:
    """Say what to run for N deployments and what to expect: a page, a figure, JSON."""
    folder = Path(options.out)
    storage.make_folder(folder)
    report.require_figure_path(folder / "plan.png")
    problem = options.size or options.features
    if options.data:
        problem = _logged(options.data)
    elif not problem:
        problem = runs.problem_of(options)
    result = lowswitch.plan(
        problem,
        episodes=options.episodes,
        deployments=options.deployments,
        deployments_at=options.deployments_at,
        gap=options.gap,
        initial=_initial(options),
        actions_allowed=_allowed(options),
        present_reward=options.present_reward,
        problems=options.problems,
        folder=folder,
        fleet=runs.fleet_of(options),
    )
    result.plot(folder / "plan.png")
    result.save(folder / "plan.json")
    page = f"{result.page(runs.columns())}\n\nfigure: {folder / 'plan.png'}"
    print(json.dumps(result.to_dict()) if options.json else page)


def _initial(options: argparse.Namespace) -> Any:
    """The policy in use, if there is a file of it."""
    if options.initial is None:
        return None
    labels = None if options.actions is None else options.actions.split(",")
    if options.features:
        from lowswitch.cli.logs import linear_policy

        size = options.features
        return linear_policy(options.initial, labels or size["actions"], features=size["features"])
    H, S, A = options.size or (None, None, None)
    return policy_from_file(options.initial, labels or A, horizon=H, states=S)


def _allowed(options: argparse.Namespace) -> np.ndarray | None:
    """The mask of allowed actions, without the actions of --never."""
    if options.never is None:
        return None
    if not options.size:
        raise ValueError("--never needs --size, because it names steps and states by their numbers")
    H, S, A = options.size
    labels = A if options.actions is None else options.actions.split(",")
    return allowed_actions(options.never.split(","), H, S, labels)


def _logged(path: str) -> tuple[Any, Any, Any]:
    """Logged episodes from a file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return file["states"], file["actions"], file["rewards"]
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(
            f"cannot read logged episodes from {path!r} ({error}); write them with"
            " numpy.savez(path, states=..., actions=..., rewards=...)"
        ) from None


@command(
    argument("--policy", required=True),
    OneOf(arguments("--ledger", "--csv")),
    argument("--after", type=int, default=0, help="Only tickets of the ledger after this one."),
    argument("--horizon", help="The number of steps per episode in the CSV file."),
    argument("--states"),
    argument("--actions", help="How many actions there are, or their labels: wait,drug A."),
    argument("--reward-range"),
    argument("--behaviour", default="logged"),
    argument("--confidence", default=0.95),
    argument("--json"),
)
def evaluate(options: argparse.Namespace) -> None:
    """Estimate what a policy would earn from episodes that other policies logged."""
    from lowswitch.cli import logs

    policy, log = logs.policy_and_log(options)
    found = lowswitch.evaluate(
        policy, log, confidence=options.confidence, behaviour=options.behaviour
    )
    if options.json:
        print(json.dumps(found.to_dict() | {"left_out": log.left_out}, allow_nan=False))
        return
    print(found)
    if log.left_out:
        print(
            f"{counted(log.left_out, 'report')} left out: missing, truncated or not of the policy"
        )


@command(
    argument("--arms", type=int, default=2, help="How many Bernoulli arms: 2 (the default) or 3."),
    argument(
        "--mdp",
        action="store_true",
        help="Instead of arms, a small MDP: two states, actions and steps; state 1 pays.",
    ),
    argument("--episodes", required=True, help="How many episodes, or pulls, there are."),
    argument("--changes", type=int, default=5, help="At most N changes (default: %(default)s)."),
    argument(
        "--notion", default="switches", help="What may change: switches, batches, pulls or draws."
    ),
    argument("--dates", action="store_true", help="Fix the dates of changes beforehand."),
    argument("--device", default="cpu", help="cpu (the default), or gpu for switches."),
    argument("--json"),
)
def price(options: argparse.Namespace) -> None:
    """Work out exactly what the best of all learners loses by changing at most N times."""
    arms = lowswitch.exact.Arms(((1.0, 1.0),) * options.arms)
    found = lowswitch.price(
        lowswitch.exact.SmallMDP() if options.mdp else arms,
        episodes=options.episodes,
        changes=options.changes,
        notion=options.notion,
        dates=options.dates,
        device=options.device,
    )
    print(json.dumps(found.to_dict()) if options.json else found)


@command()
def list_envs(_: argparse.Namespace) -> None:
    """List the named problems."""
    print(_listing(envs.PROBLEMS))


@command()
def list_algorithms(_: argparse.Namespace) -> None:
    """List the named algorithms."""
    print(_listing(RECIPES, hidden=Shared.__annotations__))
    print(f"every algorithm but few and linear: {_options(assemble, Shared.__annotations__)}")
    print(_SHARED)


_SHARED = """\
    p: the failure probability; a budget of deployments or switches, and its last deployment:\
 usual, greedy or exploit;
    scales: the scales of the bonus in a mixture, such as 1/0.3/0.1 (for psrl: members).
schedules: every, ucb2, growth/2, stages, visits/1-5-25, whole/2/10, grid/geometric/30,\
 grid/10-100-1000, episodes/10,
    calendar/300-600-900, late/10, asked/100-200-300; with features spread, determinant/2"""


def _listing(known: Mapping[str, Callable[..., Any]], hidden: Collection[str] = ()) -> str:
    """For each name, its options and the first paragraph of its docstring.

    Options in `hidden` are left out if the function has all of them.
    """
    lines = []
    for name, function in known.items():
        options = inspect.signature(function).parameters.keys()
        shown = options - hidden if options >= set(hidden) else options
        paragraph, *_ = (inspect.getdoc(function) or "").split("\n\n")
        lines += [f"{name}:{_options(function, shown)}", f"    {' '.join(paragraph.split())}"]
    return "\n".join(lines)


def _options(function: Callable[..., Any], shown: Collection[str]) -> str:
    """The options of a function, with informative defaults."""
    texts = {inspect.Parameter.empty: "", None: "=..."}
    defaults = {key: each.default for key, each in inspect.signature(function).parameters.items()}
    return ",".join(
        f"{key}{texts.get(default, f'={default}')}"
        for key, default in defaults.items()
        if key in shown
    )


@command(
    OneOf(arguments("--quick", "--full"), required=False),
    argument("--out", default="lowswitch-reproduce", metavar="DIR"),
    argument("--only", action="append", default=[]),
    argument("--fleet", help=runs.FLEET),
)
def reproduce(options: argparse.Namespace) -> None:
    """Measure the paper claim by claim: one page with figures, numbers and verdicts."""
    from lowswitch import reproduce as claims
    from lowswitch.reproduce.formulas import plain

    begin = before = time.perf_counter()

    def report_section(section: claims.Section) -> None:
        nonlocal before
        now = time.perf_counter()
        folded = section.folded and not (options.full or options.only)
        grades = f"  {claims.tally(section.findings)}" if folded else ""
        print(f"{section.name}  ({now - before:.0f} s){grades}", flush=True)
        before = now
        if folded:
            return
        for finding in section.findings:
            print(f"    {finding.grade:26} {plain(finding.says)}; {plain(finding.scope)}")

    sections = claims.reproduce(
        options.out,
        effort=claims.FULL if options.full else claims.QUICK,
        only=options.only,
        measured=report_section,
        fleet=runs.fleet_of(options),
    )
    findings = [finding for section in sections for finding in section.findings]
    took = time.perf_counter() - begin
    print(f"\n{claims.tally(findings) or 'no claims looked at'}  ({took:.0f} s)")
    print(f"page: {options.out}/{claims.page_name(options.only)}")


COMMANDS = {
    "run": runs.run,
    "compare": runs.compare,
    "plot": runs.plot,
    "concurrent": concurrent,
    "frontier": frontier,
    "bench": bench,
    "ledger": ledger,
    "serve": serve,
    "token": token,
    "plan": plan,
    "price": price,
    "evaluate": evaluate,
    "envs": list_envs,
    "algorithms": list_algorithms,
    "demo": runs.demo,
    "reproduce": reproduce,
}
