"""The options of the command line: their names, what they mean, and which command has them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any, get_args

import lowswitch
from lowswitch.cli.ledger import add_commands
from lowswitch.cli.serve import add_serve, add_token
from lowswitch.concurrent.runner import RoundRule
from lowswitch.runs.jobs import Device
from lowswitch.show.plotting import Against, Cost, Scale

_MOST_DIGITS = 100  # of a whole number; none that the library takes has so many


def _whole(text: str) -> int:
    """A whole number, to the last digit, which may be written as 100_000 or 1e5."""
    try:
        number = Decimal(text.replace("_", ""))
        whole = number.is_finite() and number.adjusted() < _MOST_DIGITS and number == int(number)
    except (ArithmeticError, ValueError):
        whole = False
    if not whole:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number")
    return int(number)


def _pair(text: str) -> tuple[float, float]:
    """Two numbers with a comma between them."""
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not two numbers such as -1,1") from None
    return low, high


def with_joined_ranges(arguments: list[str] | None) -> list[str]:
    """The arguments, in which `--reward-range -1,1` is one: argparse takes -1,1 for an option."""
    joined: list[str] = []
    for word in sys.argv[1:] if arguments is None else arguments:
        if joined and joined[-1] == "--reward-range" and re.match(r"-[\d.]", word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _size(text: str) -> tuple[int, ...]:
    """Three whole numbers with commas between them."""
    numbers = tuple(map(_whole, text.split(",")))
    if len(numbers) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not three whole numbers such as 6,12,4")
    return numbers


# what each option means; the commands say which ones they have, and what else they know of them
_HELP = {
    "--algorithm": "The algorithm, such as ucb2-b:c=0.05; 'lowswitch algorithms' lists all.",
    "--budget": "No algorithm may make more than N deployments.",
    "--data": "Logged episodes: an .npz file with states, actions and rewards [episodes, H].",
    "--deployments": "How often the policy may change.",
    "--deployments-at": "After which numbers of episodes it may change, such as 300-600-900.",
    "--gap": "The least number of episodes between two deployments (default: %(default)s).",
    "--problems": "How many problems are drawn (default: %(default)s).",
    "--size": "The size of the problem, H,S,A: steps of an episode, states, actions.",
    "--checkpoint": "Go on from this file if it exists, and keep it up to date.",
    "--device": "Where it runs: cpu (the default), or gpu for Q-learners, with the same results.",
    "--env": "The problem, such as riverswim:states=6,horizon=20; 'lowswitch envs' lists all.",
    "--episodes": "How many episodes of H steps each seed plays.",
    "--fleet": "Who plays: in-process (the default), processes:workers=4 or ray:address=...",
    "--full": "Run everything at length: about twelve minutes on two cores.",
    "--actions": "The labels of the actions in the file of --initial: wait,drug A,drug B.",
    "--initial": "The policy in use: a line for each step, an action for each state, with commas.",
    "--gymnasium": "An environment, such as FrozenLake-v1:is_slippery=false; it needs --horizon.",
    "--horizon": "How many steps an episode has, for --gymnasium and --tables.",
    "--label": "What a run is called, in the order of the files; by default its algorithm.",
    "--learners": "Run the paper's learners on two problems instead: a minute and more.",
    "--json": "Print one JSON object.",
    "--machines": "How many episodes are played in a round; may exceed the workers of the fleet.",
    "--max-rounds": "Stop after this many rounds.",
    "--max-seconds": "Stop after this many seconds.",
    "--only": "Measure this claim only; may be given several times.",
    "--out": "Where to write (default: %(default)s).",
    "--plot": "Draw regret and switching costs into a PNG, SVG or PDF file.",
    "--quick": "Run what takes about two minutes on two cores (default).",
    "--reward-range": "The least and the largest reward, such as -1,1 (default: 0,1).",
    "--rule": "What ends a round (default: %(default)s).",
    "--save": "Write the results to a file that lowswitch.load reads.",
    "--scale": "Which axes are logarithmic: log is both (default: %(default)s).",
    "--seed": "The seed of the run (default: %(default)s).",
    "--seeds": "How many seeds run (default: %(default)s).",
    "--stationary": "Let learners of models know that all steps are alike.",
    "--stop-mixture": "Stop when the mixture of all policies so far is within EPS of the optimum.",
    "--stop-policy": "Stop when the deployed policy is within EPS of the optimum.",
    "--tables": "A problem of your own: an .npz file with transitions, rewards and horizon.",
    "--threads": "How many threads play (default: one for each core).",
    "--what": "Draw this cost only; may be given several times.",
    "--x": "What it is drawn against (default: %(default)s).",
}
_WHOLE = (
    "budget",
    "deployments",
    "gap",
    "problems",
    "episodes",
    "horizon",
    "machines",
    "max-rounds",
    "seed",
    "seeds",
    "threads",
)
_TYPES: dict[str, Callable[[str], Any]] = {
    **{f"--{name}": _whole for name in _WHOLE},
    **{f"--{name}": float for name in ("max-seconds", "stop-policy", "stop-mixture")},
    "--reward-range": _pair,
    "--size": _size,
}
_METAVARS = {
    **{f"--{name}": "FILE" for name in ("checkpoint", "data", "initial", "plot", "save", "tables")},
    **{f"--{name}": "EPS" for name in ("stop-policy", "stop-mixture")},
    "--budget": "N",
    "--deployments": "N",
    "--deployments-at": "DATES",
    "--gymnasium": "NAME",
    "--only": "CLAIM",
    "--reward-range": "LOW,HIGH",
    "--size": "H,S,A",
}
_FLAGS = ("--full", "--json", "--learners", "--quick", "--stationary")


def _add(command: argparse._ActionsContainer, *names: str, **more: Any) -> None:
    """Give a command these options."""
    for name in names:
        known: dict[str, Any] = {"help": _HELP[name]}
        if name in _FLAGS:
            known["action"] = "store_true"
        else:
            known |= {"type": _TYPES.get(name), "metavar": _METAVARS.get(name)}
        command.add_argument(name, **known | more)


def _add_problem(command: argparse.ArgumentParser, *others: str) -> None:
    """Give a command the ways to name a problem, of which one is given."""
    ways = command.add_mutually_exclusive_group(required=True)
    _add(ways, *others, "--env", "--gymnasium", "--tables")
    _add(command, "--horizon", "--reward-range")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; it says in `command` which command was given."""
    parser = argparse.ArgumentParser(prog="lowswitch", description=lowswitch.__doc__)
    parser.add_argument("--version", action="version", version=f"lowswitch {lowswitch.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        new = commands.add_parser(name, help=text, description=text)
        new.set_defaults(command=name)
        return new

    one = command("run", "Run one algorithm on one problem.")
    _add(one, "--algorithm", required=True)
    _add(one, "--save")
    many = command("compare", "Run several algorithms on one problem.")
    text = f"{_HELP['--algorithm']} Give it several times."
    _add(many, "--algorithm", required=True, action="append", help=text)
    text = (
        "Write a file for each algorithm into this folder, for lowswitch plot and lowswitch.load."
    )
    _add(many, "--save", metavar="DIR", help=text)
    for each in (one, many):
        _add_problem(each)
        _add(each, "--episodes", required=True)
        _add(each, "--seeds", default=16)
        _add(each, "--device", default="cpu", choices=get_args(Device))
        _add(each, "--threads", "--json", "--plot")

    drawn = command("plot", "Draw saved runs: a figure, and a table of what they cost.")
    text = "Files that --save wrote, or folders of them."
    drawn.add_argument("files", nargs="+", metavar="FILE", help=text)
    _add(drawn, "--out", default="lowswitch-plot.png", metavar="FILE")
    _add(drawn, "--what", action="append", choices=get_args(Cost))
    _add(drawn, "--x", default="episodes", choices=get_args(Against))
    _add(drawn, "--scale", default="log", choices=get_args(Scale))
    _add(drawn, "--label", action="append")

    text = "Let M machines play one policy a round, with the results of the sequential run."
    fleet = command("concurrent", text)
    _add_problem(fleet)
    _add(fleet, "--algorithm", "--episodes", "--machines", required=True)
    _add(fleet, "--rule", default="switch", choices=get_args(RoundRule))
    _add(fleet, "--fleet", default="in-process")
    _add(fleet, "--seed", default=0)
    _add(fleet, "--stop-policy", "--stop-mixture", "--max-rounds", "--max-seconds")
    _add(fleet, "--checkpoint", "--json")
    _add(fleet, "--save", help="Write the result to a file that lowswitch.concurrent.load reads.")

    text = "Find which algorithm has the least regret for how many deployments: a table, a figure."
    race = command("frontier", text)
    _add_problem(race)
    _add(race, "--episodes", required=True)
    text = "On how many fresh seeds the finalists are reported (default: %(default)s)."
    _add(race, "--seeds", default=8, help=text)
    text = "Race this algorithm instead of the portfolio; may be given several times."
    _add(race, "--algorithm", action="append", help=text)
    _add(race, "--budget", "--stationary", "--threads", "--json")
    _add(race, "--out", default="lowswitch-frontier", metavar="DIR")

    text = "Keep a learner behind a board: tickets, reports, proposals and decisions in a database."
    add_commands(command("ledger", text))

    text = "Serve a ledger over HTTP: JSON for sites, pages for the people who decide."
    add_serve(command("serve", text))
    add_token(command("token", "Say who may use a served ledger: create, list and revoke tokens."))

    text = "Say what to run for N deployments and what to expect: a page, a figure, JSON."
    ahead = command("plan", text)
    _add_problem(ahead, "--size", "--data")
    _add(ahead, "--episodes", required=True, help="How many episodes are to be played.")
    _add(ahead.add_mutually_exclusive_group(required=True), "--deployments", "--deployments-at")
    _add(ahead, "--gap", default=1)
    _add(ahead, "--initial", "--actions")
    _add(ahead, "--problems", default=40)
    _add(ahead, "--json")
    _add(ahead, "--out", default="lowswitch-plan", metavar="DIR")

    command("envs", "List the named problems.")
    command("algorithms", "List the named algorithms.")

    text = "Draw one picture of what the library is for, in seconds."
    show = command("demo", text)
    _add(show, "--learners")
    text = "How many episodes each seed of --learners plays (default: %(default)s)."
    _add(show, "--episodes", default=10**6, help=text)
    _add(
        show, "--seeds", default=16, help="How many seeds of --learners run (default: %(default)s)."
    )
    _add(show, "--out", default="lowswitch-demo.png", metavar="FILE")

    text = "Measure the paper claim by claim: one page with figures, numbers and verdicts."
    paper = command("reproduce", text)
    _add(paper.add_mutually_exclusive_group(), "--quick", "--full")
    _add(paper, "--out", default="lowswitch-reproduce", metavar="DIR")
    _add(paper, "--only", action="append", default=[])
    return parser
