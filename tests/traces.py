"""Record which packages call each other, for each walk of docs/architecture.md.

`python tests/traces.py FOLDER` plays every walk at a small size, with interpreted kernels, and
prints for each of them the stacks of packages in the order in which they were entered. Calls within
one package are one entry. What worker processes do is in sequences of their own.
"""

import asyncio
import contextlib
import io
import json
import multiprocessing
import os
import sys
import threading
import warnings
from pathlib import Path

if __name__ == "__main__":  # before numba is imported; workers inherit it
    os.environ["NUMBA_DISABLE_JIT"] = "1"

from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

import lowswitch as ls
from lowswitch import reproduce
from lowswitch.cli import commands
from lowswitch.reproduce import Effort
from lowswitch.service.access import Access
from lowswitch.service.app import Service, make_app

WORKERS = "LOWSWITCH_TRACES"  # the variable that says in which folder workers write
PACKAGE = str(Path(ls.__file__).parent) + os.sep


# ---- recording -----------------------------------------------------------------------------------


def package_of(file):
    """The package of a file; the two families of learners belong to the learner."""
    return file.split("/")[0].removeprefix("table_").removeprefix("feature_")


class Trace:
    """The stacks of packages, in the order in which they were entered."""

    def __init__(self, note=lambda stack: None):
        self.stacks, self._note = [], note
        self._packages = {}  # of code objects; None for those that are not of the library
        self._here = threading.local()

    def __enter__(self):
        start = self._start = threading.Thread.start

        def start_from_here(thread):
            """A thread goes on from the stack of the one that starts it."""
            thread.began_on = self._stack()[-1]
            start(thread)

        threading.Thread.start = start_from_here
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)
        threading.Thread.start = self._start

    def _stack(self):
        if not hasattr(self._here, "stack"):
            self._here.stack = [getattr(threading.current_thread(), "began_on", ())]
        return self._here.stack

    def _package(self, code):
        if code not in self._packages:
            file, ours = code.co_filename, code.co_filename.startswith(PACKAGE)
            name = Path(file.removeprefix(PACKAGE)).with_suffix("").as_posix()
            self._packages[code] = package_of(name) if ours else None
        return self._packages[code]

    def _profile(self, frame, event, _):
        package = self._package(frame.f_code)
        if package is None or event not in ("call", "return"):
            return
        stack = self._stack()
        if event == "return":
            if len(stack) > 1:
                stack.pop()
            return
        stack.append(_entered(stack[-1], package, frame.f_code.co_name))
        if stack[-1] is not None and self.stacks[-1:] != stack[-1:]:
            self.stacks.append(stack[-1])
            self._note(stack[-1])


def _entered(stack, package, name):
    """The stack after a call; None while a module is loaded, which is no part of a walk."""
    if stack is None or name == "<module>":
        return None
    return stack if stack[-1:] == (package,) else (*stack, package)


# ---- the walks: what is made ready, and then a function that is traced ---------------------------

MDP = ls.envs.riverswim(states=3, horizon=2)
SIZE = {"horizon": 2, "states": 3, "actions": 2}
TINY = Effort(
    name="tiny",
    episodes=40,
    seeds=1,
    pulls=1,
    bandit_runs=1,
    plain_episodes=2,
    plain_seeds=1,
    proof_episodes=40,
    proof_seeds=1,
)


def simulated(folder):
    return lambda: ls.simulate(MDP, ls.ucb2_hoeffding(c=0.05), episodes=20, seeds=1)


def told(folder, algorithm=None):
    learner = ls.Learner(algorithm or ls.ucbvi(c=0.01), **SIZE, episodes=30)

    def tell():
        for k in range(30):
            path = list(enumerate([0, k % 3]))
            actions = [learner.policy_for(k)[h, x] for h, x in path]
            learner.tell([x for _, x in path], actions, [0.0, 0.5])

    return tell


def few(folder):
    return told(folder, ls.few(deployments=2, members=2))


def features(folder):
    problem = ls.features.problems.linear_bandit(features=2, actions=3)
    algorithm = ls.linear(deployments=2, members=2)
    return lambda: ls.simulate(problem, algorithm, episodes=20, seeds=1)


def rounds(folder):
    fleet = ls.concurrent.Processes(workers=1)
    options = {"machines": 2, "rule": "speculate", "fleet": fleet}
    return lambda: ls.concurrent.run(MDP, ls.ucb2_hoeffding(c=0.1), 20, **options)


def raced(folder):
    portfolio = [ls.q_hoeffding(c=0.05), ls.ucb2_hoeffding(c=0.05)]
    options = {"episodes": 3, "seeds": 1, "portfolio": portfolio, "folder": folder}
    return lambda: ls.frontier(MDP, **options)


def untraced(function):
    """The same function, without the time that tracing it takes."""

    def run(*given, **named):
        profile = sys.getprofile()
        sys.setprofile(None)
        try:
            return function(*given, **named)
        finally:
            sys.setprofile(profile)

    return run


def reproduced(folder):
    reproduce.QUICK = TINY
    FigureCanvasBase.print_figure = untraced(FigureCanvasBase.print_figure)
    FigureCanvasAgg.draw = untraced(FigureCanvasAgg.draw)
    return lambda: commands.main(["reproduce", "--only", "pac", "--out", str(folder)])


def waiting(folder):
    """A ledger in which a proposal waits."""
    algorithm = ls.ucb2_hoeffding(c=0.1)
    made = ls.ledger.Ledger.create(folder / "run.db", algorithm, **SIZE, episodes=40)
    for k in range(3):
        made.tell(made.ask("north", str(k)).ticket, [0, 0], None, [0.0, 0.0])
    return made


def approved(folder):
    ledger = waiting(folder)
    return lambda: ledger.approve(ledger.proposal(), by="a board", reason="it looks right")


def served(folder):
    """A report by HTTP to the application, as the server hands it over."""
    ledger = waiting(folder)
    ticket = ledger.ask("north", "the next").ticket
    access = Access(str(folder / "run.db"))
    token = access.create(name="north", role="site", days=1)
    body = {"reports": [{"ticket": ticket, "states": [0, 0], "actions": None, "rewards": [0, 0]}]}
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/api/tell", "headers": headers}

    async def receive():
        return {"type": "http.request", "body": json.dumps(body).encode()}

    async def send(message):
        assert message.get("status", 200) == 200, message

    def report():
        service = Service(ledger, str(folder / "run.db"), access)
        with contextlib.closing(service):
            asyncio.run(make_app(service)(scope | {"query_string": b""}, receive, send))

    return report


SCENES = {
    "Simulate": simulated,
    "Tell": told,
    "`few`": few,
    "Features": features,
    "A speculative round": rounds,
    "Frontier": raced,
    "Reproduce": reproduced,
    "Approve": approved,
    "Report": served,
}


def traced(scene, folder):
    """The sequences of stacks of a scene: of this process, and of each worker."""
    folder.mkdir()
    os.environ[WORKERS] = str(folder)
    play = scene(folder)
    with Trace() as trace:
        play()
    workers = [path.read_text().splitlines() for path in folder.glob("worker-*")]
    return [trace.stacks, *([json.loads(line) for line in lines] for lines in workers)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # interpreted, numbers overflow with a warning
    out = Path(sys.argv[1])
    with contextlib.redirect_stdout(io.StringIO()):
        found = {name: traced(scene, out / scene.__name__) for name, scene in SCENES.items()}
    print(json.dumps(found))
elif multiprocessing.current_process().name == "lowswitch worker":

    def note(stack):
        with Path(os.environ[WORKERS], f"worker-{os.getpid()}").open("a") as file:
            file.write(json.dumps(stack) + "\n")

    Trace(note).__enter__()
