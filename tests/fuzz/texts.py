"""Texts of algorithms, schedules and problems with mistakes in them, and command lines."""

import contextlib
import io
import random

import lowswitch as ls
from fuzz.attempts import WrongError
from fuzz.doors import planned
from lowswitch.algorithms.text import as_schedule
from lowswitch.cli.commands import main

TEXTS = [
    "ucb2-b:c=0.05",
    "ucb2-h:c=0.1,eta=0.25,r_star=3,clip=remaining",
    "q-h:schedule=whole/2/10,deployments=9",
    "psrl:members=3,prior=0.2,schedule=grid/geometric/9,last=greedy,deployments=6",
    "ucbvi:scales=1/0.3/0.1,pooled=true",
    "orlc:c=0.01,pooled=true,schedule=growth/2",
    "mbie:most_visits=30,schedule=episodes/7",
    "rmax:known=5,schedule=visits/1-5-25",
    "stage-q:schedule=stages,switches=9",
]
PIECES = [
    *(":", ",", "=", "/", "-", ".", "e", "0", "9", "_", "(", "[", "{", "'", '"', "\\", "\0", "é"),
    *("nan", "inf", "1e308", "5e-324", "1e-8", "true", "None", "theory", "10**9", "2000000000"),
    *(
        "grid/equal/2000000000",
        "growth/1.00000001",
        "eta=1e-8",
        "(" * 300,
        "9" * 5000,
        "c=",
        "é" * 9,
    ),
    *("grid/minimax/100000", "episodes/1", "visits/3-2-1", "p=0", "1+1", "0x1f", "1j", "[" * 9000),
]
PROBLEMS = ["riverswim:states=6,horizon=20", "chain:states=3,horizon=3", "garnet:states=9,seed=3"]


def mutated(text, generator):
    """A text with some pieces put in, taken out or doubled."""
    for _ in range(generator.choice((1, 1, 2, 3, 6))):
        low, high = sorted(generator.choices(range(len(text) + 1), k=2))
        change = generator.random()
        if change < 0.5:
            text = text[:low] + generator.choice(PIECES) + text[low:]
        elif change < 0.75:
            text = text[:low] + text[min(high, low + 4) :]
        else:
            text = text[:high] + text[low:high] + text[high:]
    return text[:20_000]


def at_texts(folder, seed=0):
    """Texts of algorithms, schedules, problems; what is read is written as what reads the same."""
    generator = random.Random(seed)

    def read(text):
        algorithm = ls.Algorithm.from_text(text)
        planned(algorithm)
        if ls.Algorithm.from_text(str(algorithm)) != algorithm:
            raise WrongError(f"{text!r} is written as {algorithm}, which is another algorithm")

    while True:
        if generator.random() < 0.6:
            text = mutated(generator.choice(TEXTS), generator)
            yield f"the algorithm {text[:80]!r}", lambda text=text: read(text)
        elif generator.random() < 0.5:
            text = mutated(generator.choice(("whole/2/10", "grid/10-100", "growth/2")), generator)
            yield f"the schedule {text[:80]!r}", lambda text=text: as_schedule(text)
        else:
            text = mutated(generator.choice(PROBLEMS), generator)
            yield f"the problem {text[:80]!r}", lambda text=text: ls.envs.make(text)


COMMANDS = {
    "run": {"--env": PROBLEMS, "--algorithm": TEXTS, "--episodes": ["9"], "--seeds": ["1", "2"]},
    "compare": {"--env": PROBLEMS, "--algorithm": TEXTS, "--episodes": ["9"], "--seeds": ["1"]},
    "concurrent": {
        "--env": PROBLEMS[1:],
        "--algorithm": TEXTS[:3],
        "--episodes": ["9"],
        "--machines": ["3"],
        "--rule": ["trigger", "switch", "speculate"],
        "--seed": ["0", "9007199254740993"],
    },
    "algorithms": {},
    "envs": {},
}
WORDS = ["-1", "0", "1.5", "nan", "1e400", "1e9999999999", "x", "", "é", "9" * 400, "--json", "-h"]
WORDS += ["/dev/full/x", "\0", "1_0", "0x3", "true", "--save", "--nothing", "=", "1e-5"]


def at_command_lines(folder, seed=0):
    """Command lines of which one or two words are wrong."""
    generator = random.Random(seed)

    def command(words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(words)
            except SystemExit as ended:
                code = ended.code
        if code not in (0, 1, 2, None) or "Traceback" in err.getvalue():
            raise WrongError(f"exit status {code}: {err.getvalue()[-300:]}")
        if code and not err.getvalue().strip():
            raise WrongError(f"exit status {code} without a word")

    while True:
        name = generator.choice([*COMMANDS, "run", "concurrent"])
        words = [name]
        for option, values in COMMANDS[name].items():
            value = generator.choice(values)
            if generator.random() < 0.2 and option not in ("--episodes", "--seeds"):
                value = mutated(value, generator)
            elif generator.random() < 0.15:
                value = generator.choice(WORDS)
            words += [option, value]
        if generator.random() < 0.3:
            words.insert(generator.randrange(len(words) + 1), generator.choice(WORDS))
        yield f"lowswitch {' '.join(words)[:200]!r}", lambda words=words: command(words)
