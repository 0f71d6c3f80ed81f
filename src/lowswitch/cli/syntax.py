"""Commands and their arguments, and the known facts about each argument by its name.

A command is a function with `@command(...)` above it, which lists its arguments; the docstring is
its help.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

import lowswitch
from lowswitch.io.setting import with_commit

_MOST_DIGITS = 100  # of a whole number; the library takes none this long


def _whole(text: str) -> int:
    """A whole number, exact to the last digit, which may be written as 100_000 or 1e5."""
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
    """The arguments with `--reward-range -1,1` joined: argparse takes -1,1 for an option."""
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


def _counts(text: str) -> dict[str, int]:
    """Features and actions: two whole numbers with a comma between them."""
    numbers = tuple(map(_whole, text.split(",")))
    if len(numbers) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not two whole numbers such as 5,4")
    return {"features": numbers[0], "actions": numbers[1]}


# ---- arguments -----------------------------------------------------------------------------------

KNOWN: dict[str, dict[str, Any]] = {
    "--actions": {
        "help": "The labels of the actions in the file of --initial: wait,drug A,drug B."
    },
    "--algorithm": {
        "help": "The algorithm, such as ucb2-b:c=0.05; 'lowswitch algorithms' lists all."
    },
    "--behaviour": {
        "help": "Where propensities come from: the log, or its own counts (default: %(default)s).",
        "choices": ("logged", "estimated"),
    },
    "--budget": {
        "help": "No algorithm may make more than N deployments.",
        "type": _whole,
        "metavar": "N",
    },
    "--checkpoint": {
        "help": "Go on from this file if it exists, and keep it up to date.",
        "metavar": "FILE",
    },
    "--confidence": {
        "help": "How often an interval holds (default: %(default)s).",
        "type": float,
    },
    "--csv": {
        "help": "Logged episodes: a CSV file with one line a step; needs --horizon and labels.",
        "metavar": "FILE",
    },
    "--data": {
        "help": "Logged episodes: an .npz file with states, actions and rewards [episodes, H].",
        "metavar": "FILE",
    },
    "--deployments": {"help": "How often the policy may change.", "type": _whole, "metavar": "N"},
    "--deployments-at": {
        "help": "After which numbers of episodes it may change, such as 300-600-900.",
        "metavar": "DATES",
    },
    "--device": {
        "help": "Where it runs: cpu (the default), or gpu for Q-learners, with the same results."
    },
    "--env": {
        "help": "The problem, such as riverswim:states=6,horizon=20; 'lowswitch envs' lists all."
    },
    "--episodes": {"help": "How many episodes of H steps each seed plays.", "type": _whole},
    "--fleet": {
        "help": "Who plays: in-process (the default), processes:workers=4 or ray:address=..."
    },
    "--full": {
        "help": "Run everything at length: about fifteen minutes on two cores.",
        "action": "store_true",
    },
    "--gap": {
        "help": "The least number of episodes between two deployments (default: %(default)s).",
        "type": _whole,
    },
    "--gymnasium": {
        "help": "An environment, such as FrozenLake-v1:is_slippery=false; it needs --horizon.",
        "metavar": "NAME",
    },
    "--horizon": {
        "help": "The number of steps per episode, for --gymnasium and --tables.",
        "type": _whole,
    },
    "--features": {
        "help": "Features and actions, such as 5,4, where a case is described by numbers.",
        "type": _counts,
        "metavar": "D,A",
    },
    "--initial": {
        "help": "The policy in use: a line for each step, an action for each state, with commas;"
        " --actions names the actions. With --features, one action, or a file of"
        " LinearPolicy.save.",
        "metavar": "FILE",
    },
    "--json": {"help": "Print one JSON object.", "action": "store_true"},
    "--ledger": {"help": "A ledger: a file, or postgresql://...#name.", "metavar": "ADDRESS"},
    "--never": {
        "help": "Actions that may never be played, with --size: step:state:action, with commas; *"
        " stands for all: *:2:surgery.",
        "metavar": "RULES",
    },
    "--label": {
        "help": "What a run is called, in the order of the files; by default its algorithm."
    },
    "--learners": {
        "help": "Run the paper's learners on two problems instead: a minute and more.",
        "action": "store_true",
    },
    "--machines": {
        "help": "How many episodes are played in a round; may exceed the workers of the fleet.",
        "type": _whole,
    },
    "--max-rounds": {"help": "Stop after this many rounds.", "type": _whole},
    "--max-seconds": {"help": "Stop after this many seconds.", "type": float},
    "--only": {"help": "Measure this claim only; may be given several times.", "metavar": "CLAIM"},
    "--out": {"help": "Where to write (default: %(default)s)."},
    "--policy": {
        "help": "The policy to evaluate: a line for each step, an action for each state. With"
        " features, one action, or a file of LinearPolicy.save.",
        "metavar": "FILE",
    },
    "--plot": {
        "help": "Draw regret and switching costs into a PNG, SVG or PDF file.",
        "metavar": "FILE",
    },
    "--confirm": {
        "help": "On how many further seeds those are reported that may be the best for some limit"
        " (default: %(default)s).",
        "type": _whole,
    },
    "--present-reward": {
        "help": "With --size: how much the present policy earns per episode.",
        "type": float,
    },
    "--problems": {"help": "How many problems are drawn (default: %(default)s).", "type": _whole},
    "--quick": {
        "help": "Run what takes about two minutes on two cores (default).",
        "action": "store_true",
    },
    "--reward-range": {
        "help": "The least and the largest reward, such as -1,1 (default: 0,1).",
        "type": _pair,
        "metavar": "LOW,HIGH",
    },
    "--rule": {"help": "What ends a round (default: %(default)s)."},
    "--save": {"help": "Write the results to a file that lowswitch.load reads.", "metavar": "FILE"},
    "--band": {"help": "What the bands around the means are (default: %(default)s)."},
    "--guides": {"help": "A line that grows like the root of K, or like log K; may be repeated."},
    "--ratio-to": {"help": "Divide the regret by the regret of the runs with this label, by seed."},
    "--scale": {"help": "Which axes are logarithmic: log is both (default: %(default)s)."},
    "--seed": {"help": "The seed of the run (default: %(default)s).", "type": _whole},
    "--seeds": {"help": "How many seeds run (default: %(default)s).", "type": _whole},
    "--size": {
        "help": "The size of the problem, H,S,A: steps of an episode, states, actions.",
        "type": _size,
        "metavar": "H,S,A",
    },
    "--states": {"help": "How many states there are, or their labels: well,ill."},
    "--stationary": {
        "help": "Let learners of models know that all steps are alike.",
        "action": "store_true",
    },
    "--stop-mixture": {
        "help": "Stop when the mixture of all policies so far is within EPS of the optimum.",
        "type": float,
        "metavar": "EPS",
    },
    "--stop-policy": {
        "help": "Stop when the deployed policy is within EPS of the optimum.",
        "type": float,
        "metavar": "EPS",
    },
    "--stop-within": {
        "help": "Stop when the learner's bounds say so, with 95 %% confidence, without the tables.",
        "type": float,
        "metavar": "EPS",
    },
    "--tables": {
        "help": "A problem of your own: an .npz file with transitions, rewards and horizon.",
        "metavar": "FILE",
    },
    "--threads": {"help": "How many threads play (default: one for each core).", "type": _whole},
    "--what": {"help": "Draw this cost only; may be given several times."},
    "--x": {"help": "What it is drawn against (default: %(default)s)."},
}


class Argument(NamedTuple):
    """An argument of a command, and its settings for argparse."""

    name: str
    facts: dict[str, Any]

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        parser.add_argument(self.name, **self.facts)


class OneOf(NamedTuple):
    """Arguments of which only one may be given."""

    arguments: tuple[Argument, ...]
    required: bool = True

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        group = parser.add_mutually_exclusive_group(required=self.required)
        for argument in self.arguments:
            argument.add_to(group)


class _Parser(argparse.ArgumentParser):
    """A parser whose error messages repeat no password."""

    def error(self, message: str) -> NoReturn:
        from lowswitch.ledger.address import printable_text

        super().error(printable_text(message))


class _Version(argparse.Action):
    """Prints the version; its commit is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"lowswitch {with_commit(lowswitch.__version__)}")
        parser.exit()


def argument(name: str, **more: Any) -> Argument:
    """An argument, with the known facts about its name unless `more` overrides them."""
    return Argument(name, KNOWN.get(name, {}) | more)


def arguments(*names: str, **more: Any) -> tuple[Argument, ...]:
    """Several arguments with the same settings."""
    return tuple(argument(name, **more) for name in names)


def problem(*others: str) -> tuple[Argument | OneOf, ...]:
    """The ways to name a problem; one of them is given."""
    ways = OneOf(arguments(*others, "--env", "--gymnasium", "--tables"))
    return ways, *arguments("--horizon", "--reward-range")


# ---- commands ------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A function of the command line, its arguments, and its subcommands."""

    run: Callable[..., Any]
    arguments: tuple[Argument | OneOf, ...]
    below: Mapping[str, Command]


def command(
    *arguments: Argument | OneOf, below: Mapping[str, Command] | None = None
) -> Callable[[Callable[..., Any]], Command]:
    """Make a command from the function below."""
    return lambda function: Command(function, arguments, below or {})


def parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser of the whole command line; it stores the given command in `command`."""
    made = _Parser(prog="lowswitch", description=lowswitch.__doc__)
    made.add_argument("--version", action=_Version, nargs=0, help="Print the version.")
    _add_commands(made, commands, "command", "command")
    return made


def _add_commands(
    parser: argparse.ArgumentParser, commands: Mapping[str, Command], dest: str, metavar: str
) -> None:
    below = parser.add_subparsers(required=True, metavar=metavar, dest=dest)
    for name, one in commands.items():
        text = (one.run.__doc__ or "").strip()
        new = below.add_parser(name, help=text, description=text)
        for each in one.arguments:
            each.add_to(new)
        if one.below:
            _add_commands(new, one.below, name, f"{name} command")
