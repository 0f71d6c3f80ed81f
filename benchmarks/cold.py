"""How long the first call of each kind takes, with an empty cache of compiled kernels and again.

    python benchmarks/cold.py [NAME ...] [--json docs/numbers/cold.json]

Each name is a fresh process: its seconds on the clock, its CPU seconds with those of its children,
and what this process compiles: kernels of lowswitch, and compilations in all, those of numba's own
functions among them. `serve` ends when the page is there. The targets are seconds on the clock of
two idle cores.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench

SIMULATE = "ls.simulate(ls.envs.riverswim(states=6, horizon=10), {}, episodes=200, seeds=1)"
LEDGER = """\
from lowswitch.ledger import Ledger
ledger = Ledger.create("run.db", ls.few(deployments=5), horizon=2, states=["x", "y"],
    actions=["a", "b"], episodes=100, rewards=(0, 1), by="me")
"""
REPORT = """\
ticket = ledger.ask("here", "case 1")
ledger.tell(ticket.ticket, ["x", "y"], None, [1, 0])
"""
COMMAND = "import runpy; sys.argv[1:] = {!r}; runpy.run_module('lowswitch', run_name='__main__')"
WORKS = {
    "import": "",  # in a process without anything else
    "demo": COMMAND.format(["demo"]),
    "q": SIMULATE.format("ls.ucb2_hoeffding(c=0.05)"),
    "psrl": SIMULATE.format("ls.psrl(schedule='growth/2')"),
    "few": SIMULATE.format("ls.few(deployments=5)"),
    "plan": "ls.plan((4, 6, 3), episodes=600, deployments=3, problems=4)",
    "create": LEDGER,
    "report": LEDGER + REPORT,
    "serve": COMMAND.format(["serve", "--demo", "--port", "0"]),
}
MOST = {"import": 0.15, "q": 5.0} | dict.fromkeys(("few", "plan", "create", "report", "serve"), 15)
CHILD = """\
import json, sys, time
counts = sys.argv.pop()
begin = time.perf_counter()
import lowswitch as ls
imported = time.perf_counter() - begin
"""
COUNT = """\
import atexit
from numba.core import event

class Compiled(event.Listener):
    def __init__(self):
        self.kernels = []
    def on_start(self, event):
        self.kernels.append(event.data["dispatcher"].py_func)
    def on_end(self, event):
        pass

compiled = Compiled()
event.register("numba:compile", compiled)

@atexit.register
def count():
    ours = {one for one in compiled.kernels if one.__module__.startswith("lowswitch.")}
    found = {"kernels": len(ours), "compilations": len(compiled.kernels)}
    with open(counts, "w") as file:
        json.dump(found, file)
"""
IMPORTED = """\
with open(counts, "w") as file:
    json.dump({"import": imported}, file)
"""


def first(name: str, cache: str, folder: str) -> dict[str, float]:
    """One fresh process that does this work."""
    counts = Path(folder, "counts.json")
    code = CHILD + (IMPORTED if name == "import" else COUNT) + WORKS[name]
    begin, before = time.perf_counter(), os.times()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, str(counts)],
        cwd=folder,
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if name == "serve":
        assert process.stdout is not None
        while "Ctrl-C" not in (line := process.stdout.readline()):
            assert line, "the service ended before it was ready"
        wall = time.perf_counter() - begin
        process.send_signal(signal.SIGINT)
    process.communicate()
    if name != "serve":
        assert process.returncode == 0, name
        wall = time.perf_counter() - begin
    after, found = os.times(), json.loads(counts.read_text())
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    wall = found.pop("import") if name == "import" else wall
    return {"seconds": round(wall, 2), "cpu": round(cpu, 2), **found}


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("names", nargs="*", choices=[*WORKS, []], help="only these")
    options = parser.parse_args()
    results = bench.Results(options.json)
    for name in options.names or WORKS:
        load, run = os.getloadavg()[0], bench.described(bench.load_before())
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (
                first(name, cache, folder)
                for folder in (tempfile.mkdtemp(dir=cache), tempfile.mkdtemp(dir=cache))
            )
        most = MOST.get(name)
        verdict = "" if most is None else "PASS" if cold["seconds"] < most else "MISS"
        found = {"cold": cold, "warm": warm, "most": most, "verdict": verdict, "load": load}
        results.keep(name, found | {"run": run})


if __name__ == "__main__":
    main()
