"""The command line: parse, call one library function, print."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import lowswitch
from lowswitch import envs, report, storage
from lowswitch.algorithms.recipes import RECIPES, Shared, assemble
from lowswitch.algorithms.text import build, options_of
from lowswitch.concurrent import FleetError, PlayError
from lowswitch.machines.runner import RoundRule

if TYPE_CHECKING:
    from lowswitch.simulate import Runs


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", lowswitch.BonusWarning)
            warnings.showwarning = lambda message, *_, **__: print(
                f"note: {message}", file=sys.stderr
            )
            options.command(options)
    except ValueError as error:
        print(f"lowswitch: {error}", file=sys.stderr)
        return 2
    except (FleetError, PlayError) as error:
        print(f"lowswitch: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(
            f"lowswitch: this needs {error.name}, which is not installed; pip install"
            " 'lowswitch[all]'",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        kept = (
            f"; the same command goes on from {options.checkpoint}"
            if getattr(options, "checkpoint", None)
            else ""
        )
        print(f"lowswitch: interrupted, no file is half written{kept}", file=sys.stderr)
        return 130
    except MemoryError as error:
        print(
            f"lowswitch: the problem does not fit into memory ({error}); make it smaller",
            file=sys.stderr,
        )
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lowswitch", description=lowswitch.__doc__)
    parser.add_argument("--version", action="version", version=f"lowswitch {lowswitch.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    one = commands.add_parser("run", help="one algorithm on one problem")
    one.add_argument(
        "--algorithm", required=True, help="such as ucb2-b:c=0.05; see 'lowswitch algorithms'"
    )
    one.add_argument("--save", metavar="FILE", help="write the results, for lowswitch.load")
    one.set_defaults(command=run)

    many = commands.add_parser("compare", help="several algorithms on one problem")
    many.add_argument("--algorithm", required=True, action="append", help="give it several times")
    many.set_defaults(command=compare)

    for command in (one, many):
        command.add_argument(
            "--env",
            required=True,
            help="such as riverswim:states=6,horizon=20; see 'lowswitch envs'",
        )
        command.add_argument(
            "--episodes", required=True, type=_whole, help="episodes a seed; an episode is H steps"
        )
        command.add_argument("--seeds", type=_whole, default=16, help="how many (default 16)")
        command.add_argument("--threads", type=_whole, help="default: all cores")
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.add_argument(
            "--plot", metavar="FILE", help="draw regret and switching costs (PNG, SVG or PDF)"
        )

    fleet = commands.add_parser(
        "concurrent", help="M machines that play one policy a round, equal to the sequential run"
    )
    problem = fleet.add_mutually_exclusive_group(required=True)
    problem.add_argument(
        "--env", help="such as riverswim:states=6,horizon=20; see 'lowswitch envs'"
    )
    problem.add_argument(
        "--gymnasium",
        metavar="NAME",
        help="such as FrozenLake-v1:is_slippery=false; needs --horizon",
    )
    fleet.add_argument(
        "--horizon", type=_whole, help="steps of an episode of the Gymnasium environment"
    )
    fleet.add_argument(
        "--reward-range",
        type=_pair,
        metavar="LOW,HIGH",
        help="of its rewards (default 0,1); write --reward-range=-1,1",
    )
    fleet.add_argument(
        "--algorithm", required=True, help="such as ucb2-b:c=0.05; see 'lowswitch algorithms'"
    )
    fleet.add_argument("--episodes", required=True, type=_whole, help="an episode is H steps")
    fleet.add_argument(
        "--machines",
        required=True,
        type=_whole,
        help="episodes a round; may exceed the workers of the fleet",
    )
    fleet.add_argument(
        "--rule",
        default="switch",
        choices=get_args(RoundRule),
        help="where rounds are cut (default switch)",
    )
    fleet.add_argument(
        "--fleet",
        default="in-process",
        help="in-process (default), processes:workers=4 or ray:address=...,workers=4",
    )
    fleet.add_argument("--seed", type=_whole, default=0, help="default 0")
    fleet.add_argument(
        "--stop-policy",
        type=float,
        metavar="EPS",
        help="stop when the deployed policy is so close to the optimum",
    )
    fleet.add_argument(
        "--stop-mixture",
        type=float,
        metavar="EPS",
        help="stop when the mixture of all policies so far is",
    )
    fleet.add_argument("--max-rounds", type=_whole, help="stop after so many rounds")
    fleet.add_argument("--max-seconds", type=float, help="stop after so many seconds")
    fleet.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="go on from this file if it exists, and keep it up to date",
    )
    fleet.add_argument(
        "--save", metavar="FILE", help="write the result, for lowswitch.concurrent.load"
    )
    fleet.add_argument("--json", action="store_true", help="print one JSON object")
    fleet.set_defaults(command=concurrent)

    race = commands.add_parser(
        "frontier",
        help="which algorithm has the least regret for how many deployments: a table and a figure",
    )
    race.add_argument(
        "--env", required=True, help="such as riverswim:states=6,horizon=10; see 'lowswitch envs'"
    )
    race.add_argument(
        "--episodes", required=True, type=_whole, help="episodes a seed; an episode is H steps"
    )
    race.add_argument(
        "--seeds",
        type=_whole,
        default=8,
        help="how many fresh ones the finalists are reported on (default 8)",
    )
    race.add_argument(
        "--budget", type=_whole, metavar="N", help="no algorithm may deploy more often"
    )
    race.add_argument(
        "--stationary",
        action="store_true",
        help="learners of models may know that all steps are alike",
    )
    race.add_argument(
        "--algorithm",
        action="append",
        help="race these instead of the portfolio; give it several times",
    )
    race.add_argument("--threads", type=_whole, help="default: all cores")
    race.add_argument(
        "--out",
        default="lowswitch-frontier",
        metavar="DIR",
        help="the folder (default lowswitch-frontier)",
    )
    race.add_argument("--json", action="store_true", help="print one JSON object")
    race.set_defaults(command=frontier)

    for name, what in (("envs", "the named problems"), ("algorithms", "the named algorithms")):
        listing = commands.add_parser(name, help=what)
        listing.set_defaults(command=list_envs if name == "envs" else list_algorithms)

    show = commands.add_parser(
        "demo", help="the paper's learners beside their every-visit baselines: a table and a figure"
    )
    show.add_argument("--episodes", type=_whole, default=10**6, help="default 1000000")
    show.add_argument("--seeds", type=_whole, default=16, help="default 16")
    show.add_argument(
        "--out",
        default="lowswitch-demo.png",
        metavar="FILE",
        help="the figure (default lowswitch-demo.png)",
    )
    show.set_defaults(command=demo)

    paper = commands.add_parser(
        "reproduce", help="the paper claim by claim: one page with figures, numbers and verdicts"
    )
    sizes = paper.add_mutually_exclusive_group()
    sizes.add_argument(
        "--quick", action="store_true", help="about two minutes on two cores (default)"
    )
    sizes.add_argument("--full", action="store_true", help="about twelve minutes on two cores")
    paper.add_argument(
        "--out",
        default="lowswitch-reproduce",
        metavar="DIR",
        help="the folder (default lowswitch-reproduce)",
    )
    paper.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CLAIM",
        help="one claim; may be given several times",
    )
    paper.set_defaults(command=reproduce)
    return parser


def _whole(text: str) -> int:
    """A whole number, also as 100_000 or 1e5."""
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number != int(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(number)


def _pair(text: str) -> tuple[float, float]:
    """Two numbers with a comma between them."""
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not two numbers such as -1,1") from None
    return low, high


def run(options: argparse.Namespace) -> None:
    if options.save:
        storage.require_writable(options.save)
    results = _simulate(options, [options.algorithm])
    if options.save:
        next(iter(results.values())).save(options.save)
    _show(options, results)


def compare(options: argparse.Namespace) -> None:
    _show(options, _simulate(options, options.algorithm))


def _simulate(options: argparse.Namespace, texts: list[str]) -> dict[str, Runs]:
    if options.plot:
        report.require_figure_path(options.plot)
    mdp = envs.make(options.env)
    learners = {
        str(learner): learner for learner in (build(text, RECIPES, "algorithm") for text in texts)
    }
    if len(learners) < len(texts):
        raise ValueError(
            f"two of these algorithms are the same: {', '.join(texts)}; give each once"
        )
    return {
        label: lowswitch.simulate(
            mdp, learner, episodes=options.episodes, seeds=options.seeds, threads=options.threads
        )
        for label, learner in learners.items()
    }


def _show(options: argparse.Namespace, results: dict[str, Runs]) -> None:
    if options.plot:
        report.plot(results, path=options.plot, title=options.env)
    if options.json:
        objects = [{"env": options.env} | runs.to_dict() for runs in results.values()]
        print(
            json.dumps(
                objects[0] if options.command is run else {"env": options.env, "runs": objects}
            )
        )
    else:
        print(f"{options.env}: {report.summary(results)}")
        if options.plot:
            print(f"\nfigure: {options.plot}")


def _source(options: argparse.Namespace) -> Any:
    """The problem that `concurrent` plays."""
    from lowswitch.concurrent import Gymnasium

    if options.env:
        if options.horizon is not None or options.reward_range is not None:
            raise ValueError(
                "--horizon and --reward-range are for --gymnasium; a named problem has them as"
                " options: riverswim:horizon=20"
            )
        return envs.make(options.env)
    if options.horizon is None:
        raise ValueError("a Gymnasium environment has no horizon of its own here; give --horizon")
    name, colon, rest = options.gymnasium.rpartition(":")
    if "/" in rest or not colon:  # the colon of a module's name, or none
        name, rest = options.gymnasium, ""
    settings = options_of(rest, name, "environment")
    clash = settings.keys() & {"horizon", "reward_range"}
    if clash:
        raise ValueError(
            f"{clash.pop()} is no option of the environment here; give --horizon and --reward-range"
        )
    return Gymnasium(
        name, horizon=options.horizon, reward_range=options.reward_range or (0.0, 1.0), **settings
    )


def concurrent(options: argparse.Namespace) -> None:
    from lowswitch import concurrent as many

    if options.save:
        storage.require_writable(options.save)
    result = many.run(
        _source(options),
        build(options.algorithm, RECIPES, "algorithm"),
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
        ),
        checkpoint=options.checkpoint,
    )
    if options.save:
        result.save(options.save)
    if options.json:
        print(
            json.dumps(
                {"env": options.env or options.gymnasium} | result.to_dict(), allow_nan=False
            )
        )
    else:
        result.summary()


def frontier(options: argparse.Namespace) -> None:
    folder, mdp = Path(options.out), envs.make(options.env)
    storage.make_folder(folder)
    report.require_figure_path(folder / "frontier.png")
    result = lowswitch.frontier(
        mdp,
        episodes=options.episodes,
        seeds=options.seeds,
        portfolio=(
            [build(text, RECIPES, "algorithm") for text in options.algorithm]
            if options.algorithm
            else None
        ),
        stationary=options.stationary,
        budget=options.budget,
        folder=folder,
        threads=options.threads,
        name=options.env,
    )
    for ending in ("png", "svg"):
        result.plot(folder / f"frontier.{ending}")
    result.save(folder / "frontier.json")
    print(
        json.dumps(result.to_dict())
        if options.json
        else f"{options.env}: {result.table()}\n\nfigure: {folder / 'frontier.png'}"
    )


def list_envs(_: argparse.Namespace) -> None:
    print(_listing(envs.PROBLEMS))


def list_algorithms(_: argparse.Namespace) -> None:
    print(_listing(RECIPES, hidden=Shared.__annotations__))
    print(f"every algorithm: {_options(assemble, Shared.__annotations__)}")
    print(
        "    p: the failure probability; a budget of deployments or switches, and its last"
        " deployment: usual or greedy;"
    )
    print("    scales: those of the bonus in a mixture, such as 1/0.3/0.1 (of psrl: members).")
    print(
        "schedules: every, ucb2, growth/2, stages, visits/1-5-25, whole/2/10, grid/geometric/30,"
        " grid/10-100-1000"
    )


def _listing(known: Mapping[str, Callable[..., Any]], hidden: Collection[str] = ()) -> str:
    """Each name with its options but the hidden ones, and the first paragraph of its docstring."""
    lines = []
    for name, function in known.items():
        shown = inspect.signature(function).parameters.keys() - hidden
        words = (inspect.getdoc(function) or "").partition("\n\n")[0].split()
        lines += [f"{name}:{_options(function, shown)}", f"    {' '.join(words)}"]
    return "\n".join(lines)


def _options(function: Callable[..., Any], shown: Collection[str]) -> str:
    """The options of a function, with their defaults where these say something."""
    texts = {inspect.Parameter.empty: "", None: "=..."}
    parameters = {
        key: parameter.default
        for key, parameter in inspect.signature(function).parameters.items()
        if key in shown
    }
    return ",".join(
        f"{key}{texts.get(default, f'={default}')}" for key, default in parameters.items()
    )


DEMO_PROBLEMS = {
    "RiverSwim": "riverswim:states=6,horizon=10",
    "random MDP": "random-mdp:states=5,actions=3,horizon=5",
}
DEMO_ALGORITHMS = ("ucb-h:c=0.05", "ucb2-h:c=0.05", "ucb-b:c=0.05", "ucb2-b:c=0.05")


def demo(options: argparse.Namespace) -> None:
    report.require_figure_path(options.out)
    results: dict[str, dict[str, Runs]] = {}
    for title, env in DEMO_PROBLEMS.items():
        mdp = envs.make(env)
        learners = [build(text, RECIPES, "algorithm") for text in DEMO_ALGORITHMS]
        runs = {
            str(learner).partition(":")[0]: lowswitch.simulate(
                mdp, learner, episodes=options.episodes, seeds=options.seeds
            )
            for learner in learners
        }
        results[title] = runs
        print(f"{title} ({env}), c = 0.05\n{report.heading(runs['ucb-h'])}\n")
        print(report.versus(runs, {"ucb2-h": "ucb-h", "ucb2-b": "ucb-b"}), end="\n\n", flush=True)
    report.plot_grid(results, path=options.out)
    print(f"figure: {options.out}")


def reproduce(options: argparse.Namespace) -> None:
    from lowswitch import reproduce as claims

    begin = before = time.perf_counter()
    sections = []
    for section in claims.reproduce(
        options.out, size=claims.FULL if options.full else claims.QUICK, only=options.only
    ):
        sections.append(section)
        now = time.perf_counter()
        print(f"{section.name:12} {section.verdict}  ({now - before:.0f} s)", flush=True)
        before = now
        for check in section.checks:
            if not check.holds:
                print(f"    fails: {check.rule}: {check.measured}")
    checks = [check for section in sections for check in section.checks]
    print(
        f"\n{sum(check.holds for check in checks)} of {len(checks)} rules kept "
        f" ({time.perf_counter() - begin:.0f} s)"
    )
    print(f"page: {options.out}/{claims.page_name(options.only)}")
