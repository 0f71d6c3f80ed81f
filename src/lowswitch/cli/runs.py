"""The commands that run learners on a problem and show the results.

It also has what all commands share: the problem, the algorithm, and the width of the terminal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import lowswitch
from lowswitch import envs
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.algorithms.text import build
from lowswitch.cli.syntax import KNOWN, argument, arguments, command, problem
from lowswitch.envs.mdp import TabularMDP
from lowswitch.io import storage
from lowswitch.runs.jobs import Device
from lowswitch.runs.results import AlgorithmTextWarning
from lowswitch.show import plotting, report
from lowswitch.show.bands import Band
from lowswitch.show.panels import Against, Cost, Guide, Scale

if TYPE_CHECKING:
    from lowswitch.algorithms.algorithm import Algorithm
    from lowswitch.runs.results import Runs

_LONGEST_NAME = 80  # characters of a file name that describe the algorithm


# ---- reading the options -------------------------------------------------------------------------


def algorithm_of(text: str) -> Algorithm:
    """The algorithm that a text names."""
    algorithm: Algorithm = build(text, RECIPES, "algorithm")
    return algorithm


def problem_of(options: argparse.Namespace) -> TabularMDP:
    """The problem with tables that --env, --gymnasium or --tables names."""
    if options.env:
        _refuse_for_env(options)
        if re.search(r"-v\d+(:|$)", options.env):
            raise ValueError(
                f"{options.env!r} looks like a Gymnasium environment; write --gymnasium "
                f"{options.env} --horizon H"
            )
        return envs.make(options.env)
    if options.tables:
        return envs.from_file(
            options.tables, horizon=options.horizon, reward_range=options.reward_range
        )
    if options.reward_range is not None:
        raise ValueError(
            "the tables of a Gymnasium environment contain its rewards; leave --reward-range out"
        )
    name, settings = _gymnasium(options)
    mdp = lowswitch.from_gymnasium(name, horizon=options.horizon, **settings)
    mdp.name = options.gymnasium
    return mdp


def source_of(options: argparse.Namespace) -> Any:
    """The problem that `concurrent` plays, whose tables may be unknown."""
    from lowswitch.concurrent import Gymnasium

    if options.env or options.tables:
        return problem_of(options)
    name, settings = _gymnasium(options)
    rewards = options.reward_range or (0.0, 1.0)
    return Gymnasium(name, horizon=options.horizon, reward_range=rewards, **settings)


def _refuse_for_env(options: argparse.Namespace) -> None:
    if options.horizon is not None or options.reward_range is not None:
        raise ValueError(
            "--horizon and --reward-range apply to --gymnasium and --tables; the horizon "
            "of a named problem is an option: riverswim:horizon=20"
        )


def _gymnasium(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The name of the environment and its options."""
    if options.horizon is None:
        raise ValueError("a Gymnasium environment needs a horizon; give --horizon")
    from lowswitch.envs.gymnasium.factory import read_name

    name, settings = read_name(options.gymnasium, {})
    for clash in settings.keys() & {"horizon", "reward_range"}:
        raise ValueError(
            f"{clash} cannot be an option of the environment; give --horizon and --reward-range"
        )
    return name, settings


def columns() -> int | None:
    """How many characters fit on a line of the terminal; None if the output goes elsewhere."""
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


# ---- run and compare -----------------------------------------------------------------------------


FLEET = (
    "Where all runs are played: ray, or ray:address=first:6379 for a cluster; by default on threads"
    " of this machine."
)
_SEVERAL = f"{KNOWN['--algorithm']['help']} Give it several times."
_FOLDER = "Write a file for each algorithm into this folder, for lowswitch plot and lowswitch.load."
_SIMULATED = (
    *problem(),
    argument("--episodes", required=True),
    argument("--seeds", default=16),
    argument("--device", default="cpu", choices=get_args(Device)),
    *arguments("--threads", "--json", "--plot"),
    argument("--fleet", help=FLEET),
)


def fleet_of(options: argparse.Namespace) -> Any:
    """The fleet that plays all runs, or None for threads of this process."""
    if options.fleet is None:
        return None
    from lowswitch.concurrent import FLEETS

    return build(options.fleet, FLEETS, "fleet")


@command(argument("--algorithm", required=True), argument("--save"), *_SIMULATED)
def run(options: argparse.Namespace) -> None:
    """Run one algorithm on one problem."""
    if options.save:
        storage.require_writable(options.save)
    mdp, results = _simulate(options, [options.algorithm])
    [only] = results.values()
    if options.save:
        only.save(options.save)
    if options.json:
        print(json.dumps({"env": mdp.name} | only.to_dict()))
    else:
        _show(options, mdp.name, results)


@command(
    argument("--algorithm", required=True, action="append", help=_SEVERAL),
    argument("--save", metavar="DIR", help=_FOLDER),
    *_SIMULATED,
)
def compare(options: argparse.Namespace) -> None:
    """Run several algorithms on one problem."""
    before = Path(options.save).exists() if options.save else True
    if options.save:
        storage.make_folder(Path(options.save))  # now, so that nothing is run that cannot be saved
    try:
        mdp, results = _simulate(options, options.algorithm)
    except BaseException:
        if not before:
            Path(options.save).rmdir()
        raise
    saved = _save_all(results, Path(options.save)) if options.save else []
    if options.json:
        objects = [{"env": mdp.name} | runs.to_dict() for runs in results.values()]
        print(json.dumps({"env": mdp.name, "runs": objects}))
        return
    _show(options, mdp.name, results)
    if saved:
        print(f"\nsaved: {len(saved)} files in {options.save}; lowswitch plot {options.save}")


def _simulate(options: argparse.Namespace, texts: list[str]) -> tuple[TabularMDP, dict[str, Runs]]:
    if options.plot:
        report.require_figure_path(options.plot)
    mdp = problem_of(options)
    learners = {str(learner): learner for learner in map(algorithm_of, texts)}
    if len(learners) < len(texts):
        names = ", ".join(texts)
        raise ValueError(f"two of these algorithms are the same: {names}; give each once")
    shared = ("episodes", "seeds", "threads", "device")
    sizes = {name: getattr(options, name) for name in shared}
    fleet = fleet_of(options)
    results = {
        label: lowswitch.simulate(mdp, learner, **sizes, fleet=fleet)
        for label, learner in learners.items()
    }
    if options.plot:
        plotting.plot(results, path=options.plot, title=mdp.name)
    return mdp, results


def _save_all(results: Mapping[str, Runs], folder: Path) -> list[Path]:
    """Write a file for each algorithm, numbered in their order."""
    paths = []
    for i, (label, runs) in enumerate(results.items(), 1):
        name = re.sub(r"[^\w.=-]+", "-", label)[:_LONGEST_NAME]
        paths.append(folder / f"{i:02}-{name}.npz")
        runs.save(paths[-1])
    return paths


def _show(options: argparse.Namespace, name: str, results: Mapping[str, Runs]) -> None:
    print(report.named_summary(name, results).text(columns()))
    if options.plot:
        print(f"\nfigure: {options.plot}")


# ---- plot ----------------------------------------------------------------------------------------


@command(
    argument(
        "files", nargs="+", metavar="FILE", help="Files that --save wrote, or folders of them."
    ),
    argument("--out", default="lowswitch-plot.png", metavar="FILE"),
    argument("--what", action="append", choices=get_args(Cost)),
    argument("--x", default="episodes", choices=get_args(Against)),
    argument("--scale", default="log", choices=get_args(Scale)),
    argument("--band", default="quantiles", choices=get_args(Band)),
    argument("--guides", action="append", choices=get_args(Guide)),
    argument("--ratio-to", metavar="LABEL"),
    argument("--label", action="append"),
)
def plot(options: argparse.Namespace) -> None:
    """Draw saved runs: a figure, and a table of what they cost."""
    report.require_figure_path(options.out)
    problems = _loaded(options)
    plotting.plot_grid(
        problems,
        path=options.out,
        what=options.what,
        x=options.x,
        scale=options.scale,
        band=options.band,
        guides=options.guides or (),
        ratio_to=options.ratio_to,
    )
    print(plotting.summaries(problems).text(columns()), end="\n\n")
    print(f"figure: {options.out}")


def _loaded(options: argparse.Namespace) -> dict[str, dict[str, Runs]]:
    """The runs of all files and folders, by problem and then by label or name of the algorithm."""
    paths = [file for path in map(Path, options.files) for file in _files(path)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlgorithmTextWarning)  # only the text is drawn
        loaded = [lowswitch.load(path) for path in paths]
    labels = options.label or [runs.algorithm.label for runs in loaded]
    if len(labels) != len(loaded):
        raise ValueError(
            f"there are {len(loaded)} runs but {len(labels)} labels; give one label for each run"
        )
    if not plotting.distinct(list(zip(labels, loaded, strict=True))):
        labels = [path.stem for path in paths]
    pairs = list(zip(labels, loaded, strict=True))
    if not plotting.distinct(pairs):
        raise ValueError("two of these files have the same name; tell them apart with --label")
    return plotting.grouped(pairs)


def _files(path: Path) -> list[Path]:
    """A file itself, or the saved runs in a folder, by their names."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.npz"))
    if not found:
        raise ValueError(f"there are no saved runs (*.npz) in {str(path)!r}")
    return found


# ---- demo ----------------------------------------------------------------------------------------

DEMO_PROBLEMS = {
    "RiverSwim": "riverswim:states=6,horizon=10",
    "random MDP": "random-mdp:states=5,actions=3,horizon=5",
}
DEMO_ALGORITHMS = ("ucb-h", "ucb2-h", "ucb-b", "ucb2-b")


@command(
    argument("--learners"),
    argument(
        "--episodes",
        default=10**6,
        help="The number of episodes per seed of --learners (default: %(default)s).",
    ),
    argument(
        "--seeds", default=16, help="The number of seeds of --learners (default: %(default)s)."
    ),
    argument("--out", default="lowswitch-demo.png", metavar="FILE"),
)
def demo(options: argparse.Namespace) -> None:
    """Draw one picture of what the library is for, in seconds."""
    report.require_figure_path(options.out)
    if options.learners:
        _demo_of_learners(options)
    else:
        from lowswitch.cli import demo as bandits

        runs = bandits.play()
        bandits.draw(runs, options.out)
        print(bandits.STORY, bandits.table(runs).text(columns()), sep="\n\n", end="\n\n")
    print(f"figure: {options.out}")


def _demo_of_learners(options: argparse.Namespace) -> None:
    """Run the paper's learners and their every-visit baselines."""
    sizes = {"episodes": options.episodes, "seeds": options.seeds}
    results: dict[str, dict[str, Runs]] = {}
    for title, env in DEMO_PROBLEMS.items():
        runs = {
            name: lowswitch.simulate(envs.make(env), algorithm_of(f"{name}:c=0.05"), **sizes)
            for name in DEMO_ALGORITHMS
        }
        results[title] = runs
        table = report.versus(runs, {"ucb2-h": "ucb-h", "ucb2-b": "ucb-b"})
        heading = f"{title} ({env}), c = 0.05\n{table.heading}"
        print(table.titled(heading).text(columns()), end="\n\n", flush=True)
    plotting.plot_grid(results, path=options.out)
