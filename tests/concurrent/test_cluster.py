"""Actors of a cluster of three nodes play what one process plays, whatever happens to them."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
from itertools import product

import numpy as np
import pytest
import ray

import lowswitch as ls
from calls import alike, measured, planned, raced, swept
from conftest import ALGORITHMS, PROBLEMS
from exam import MACHINES, RULES, StaysOpen, in_turn, same_rounds, same_run, sequential
from lowswitch import concurrent
from lowswitch.concurrent import cluster as cluster_module
from lowswitch.concurrent import scheduler
from lowswitch.concurrent.cluster import Ray
from lowswitch.concurrent.fleets import FleetError, InProcess
from lowswitch.concurrent.sources import PlayError, Tabular
from lowswitch.io import storage
from toys import (
    NONE,
    FailsAtStart,
    H,
    Toy,
    Trouble,
    children,
    everybody_up,
    hang,
    lives,
    plays_right,
    raise_error,
    same,
    some_changes,
    until,
    zeros,
)

CPUS = 4
HERE = pathlib.Path(__file__).parent
TESTS = os.pathsep.join(map(str, (HERE.parent, HERE)))  # toys, and what is defined here


# ---- addresses -----------------------------------------------------------------------------------


MALFORMED = "", "head", "head:", "head:port", "head:0", "head:99999", "http://a:1", "a:1:2", "a b:1"


@pytest.mark.parametrize("address", MALFORMED)
def test_a_malformed_address_is_refused(address):
    with pytest.raises(ValueError, match='address must be "host:port", "auto" or "local", not '):
        Ray(address)


def test_a_number_of_workers_is_no_address():
    with pytest.raises(ValueError, match="not 2; for two workers write Ray.workers=2."):
        Ray(2)


def test_the_ray_client_is_refused():
    with pytest.raises(
        ValueError,
        match=(
            "address 'ray://head:10001' is one of the Ray Client, .* submit the script as a Ray job"
        ),
    ):
        Ray("ray://head:10001")


@pytest.mark.parametrize("setting", [{"workers": 0}, {"patience": 0.0}])
def test_settings_are_checked(setting):
    with pytest.raises(ValueError, match="must be a"):
        Ray(**setting)


def refused(address, reason, limit):
    begin = time.monotonic()
    with pytest.raises(FleetError, match=reason):
        Ray(address).open(Toy(), 5, zeros())
    assert time.monotonic() - begin < limit
    assert not ray.is_initialized()


def test_a_dead_address_is_named_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    refused(
        f"127.0.0.1:{port}",
        f"nothing answers at '127.0.0.1:{port}' .*refused.*; check the address",
        5,
    )


def test_an_unknown_host_is_named():
    refused("no-such-host.invalid:6379", "nothing answers at 'no-such-host.invalid:6379'", 10)


def test_a_listener_that_is_no_cluster_is_named(monkeypatch):
    monkeypatch.setattr(cluster_module, "_HEALTH_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refused(f"127.0.0.1:{port}", f"no Ray cluster answers at '127.0.0.1:{port}' within 3 s", 10)


def test_without_ray_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r'Ray is not installed; install it with: pip install "lowswitch\[ray\]"',
    ):
        Ray().open(Toy(), 5, zeros())


def listening(pids):
    """The addresses on which any of these processes listens, in hexadecimal."""
    inodes = set()
    for pid in pids:
        for file in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(file).removeprefix("socket:[").removesuffix("]"))
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


def descendants(pid):
    found = []
    with contextlib.suppress(FileNotFoundError):
        for child in children(pid):
            found += [child, *descendants(child)]
    return found


def test_a_cluster_of_its_own_listens_on_loopback_only_and_ends_even_if_interrupted(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", TESTS, prepend=os.pathsep)
    before = set(children(os.getpid()))
    with contextlib.closing(Ray("local", workers=1).open(Toy(), 5, zeros())) as opened:
        plays_right(opened, np.arange(9))
        started = set(children(os.getpid())) - before
        hosts = listening([os.getpid(), *descendants(os.getpid())])
        monkeypatch.setattr(ray, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            opened.close()
        assert not ray.is_initialized()
    assert started
    assert not any(map(lives, started))
    assert not ray.is_initialized()
    assert hosts
    assert hosts <= {"0100007F", "0000000000000000FFFF00000100007F", "0" * 24 + "01000000"}


HEADLESS = """
import os, pathlib, signal, socket, subprocess, sys, threading, time
import lowswitch as ls
from lowswitch import concurrent
from lowswitch.concurrent import cluster

def start():
    with socket.create_server(("", 0)) as server:
        port = str(server.getsockname()[1])
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port", port]
    command += ["--num-cpus", "1", "--include-dashboard", "false", "--disable-usage-stats"]
    environment = os.environ | {"RAY_AUTH_MODE": "token"}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return said.stdout.split("--address='")[1].split("'")[0]

def end(word, name=""):
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split(chr(0))
        except OSError:
            continue
        ours = words[0].endswith(name) and any(one.endswith(word) for one in words)
        if ours and int(folder.name) != os.getpid():
            os.kill(int(folder.name), signal.SIGKILL)

def lose_the_head(port):
    while not pathlib.Path("run.npz").exists():
        time.sleep(0.1)
    end(f"--gcs_server_port={port}", "gcs_server")

if __name__ == "__main__":
    cluster._LOST_SECONDS = 2.0
    address = start()
    lose = threading.Thread(target=lose_the_head, args=[address.split(":")[1]], daemon=True)
    lose.start()
    lake = concurrent.Gymnasium("FrozenLake-v1", horizon=8)
    task = lake, ls.ucb2_hoeffding(c=0.05), 10**7
    try:
        concurrent.run(*task, machines=2, fleet=concurrent.Ray(address), checkpoint="run.npz",
                       save_every=0)
    except concurrent.FleetError as error:
        import ray

        print(error, *error.__notes__, ray.is_initialized())
    end("=" + address)
    sys.stdout.flush()
    os._exit(0)  # at a usual exit, Ray may wait for processes that are gone
"""


def driven(script, folder):
    """What a script prints; its cluster has a token, which it finds where Ray keeps it."""
    (folder / ".ray").mkdir()
    (folder / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
    (folder / "driver.py").write_text(script)
    environment = os.environ | {"HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, str(folder / "driver.py")],
        env={name: value for name, value in environment.items() if name != "RAY_AUTH_MODE"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "the head of the Ray cluster at" in done.stdout, done.stderr[-3000:]
    assert done.returncode == 0
    return done.stdout


def test_a_lost_head_is_an_error_and_the_checkpoint_is_kept(tmp_path):
    printed = driven(HEADLESS, tmp_path)
    assert "'run.npz' is saved; repeat this call to resume from it False" in printed
    facts, _ = storage.read(tmp_path / "run.npz", "concurrent checkpoint")
    assert facts["setting"]["machines"] == 2


HEADLESS_SWEEP = (
    HEADLESS.partition("def lose_the_head")[0]
    + """
def lose_the_head(port):
    while len(list(pathlib.Path("folder").glob("seed-*"))) < 3:
        time.sleep(0.1)
    end(f"--gcs_server_port={port}", "gcs_server")

def slow(state, action, h, random):
    time.sleep(0.002)
    return action, float(state)

if __name__ == "__main__":
    cluster._LOST_SECONDS = 2.0
    address = start()
    lose = threading.Thread(target=lose_the_head, args=[address.split(":")[1]], daemon=True)
    lose.start()
    slow = ls.envs.Simulator(slow, horizon=4, states=2, actions=2)
    what = {"episodes": 150, "seeds": 100, "folder": "folder"}
    try:
        ls.sweep(slow, ls.q_hoeffding(c=0.05), **what, fleet=concurrent.Ray(address))
    except concurrent.FleetError as error:
        import ray

        print(error, ray.is_initialized())
    end("=" + address)
    sys.stdout.flush()
    os._exit(0)  # at a usual exit, Ray may wait for processes that are gone
"""
)


def test_a_lost_head_ends_a_sweep_with_an_error_and_finished_runs_are_kept(tmp_path):
    printed = driven(HEADLESS_SWEEP, tmp_path)
    assert "repeat this call, which resumes from what is kept False" in printed
    assert 3 <= len(list((tmp_path / "folder").glob("seed-*"))) < 100


def interrupt(*_, **__):
    """What a second Ctrl-C does to whoever waits."""
    raise KeyboardInterrupt


# ---- a cluster -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        # The nodes must be able to import the sources.
        patch.setenv("PYTHONPATH", TESTS, prepend=os.pathsep)
        notice_soon = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 1000,
            "health_check_failure_threshold": 3,
        }
        head = {"num_cpus": 2, "include_dashboard": False, "_system_config": notice_soon}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(num_cpus=1)
        cluster.add_node(num_cpus=1)
        yield cluster
        cluster.shutdown()


@pytest.fixture(scope="module")
def connected(cluster):
    ray.init(cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()


@pytest.fixture
def open_fleet(connected):
    """Open a fleet; in the end it leaves no actor behind, and the connection as it was."""
    with contextlib.ExitStack() as stack:
        yield lambda fleet, source, policy=None: stack.enter_context(
            contextlib.closing(fleet.open(source, 5, zeros() if policy is None else policy))
        )
    assert ray.is_initialized()
    until(lambda: ray.available_resources().get("CPU", 0) >= CPUS)


def test_a_fleet_ends_the_connection_that_it_made(cluster):
    with contextlib.closing(Ray(cluster.address, workers=1).open(Toy(), 5, zeros())) as opened:
        plays_right(opened, np.arange(9))
    assert not ray.is_initialized()
    opened.close()


def test_actors_play_what_one_process_plays(open_fleet):
    opened, here = open_fleet(Ray(), Toy()), InProcess().open(Toy(), 5, zeros())
    assert len(everybody_up(opened).workers) == CPUS
    generator = np.random.default_rng(1)
    for batch in (1, 2, 7, 64, 1000, 64):
        changes, episodes = some_changes(generator), generator.permutation(5000)[:batch]
        sent = opened.bytes_sent
        same(opened.play(changes, episodes), here.play(changes, episodes))
        assert 8 * batch <= opened.bytes_sent - sent <= 8 * batch + 64 * zeros().nbytes
    assert opened.lost == 0
    assert opened.bytes_received > 1000 * H * 12


def test_what_a_hung_actor_left_is_played_by_others(open_fleet, tmp_path):
    opened = open_fleet(Ray(workers=2, patience=2.0), Trouble(hang, 70, tmp_path / "happened"))
    here, generator = InProcess().open(Toy(), 5, zeros()), np.random.default_rng(6)
    for first in range(0, 150, 50):
        changes, episodes = some_changes(generator), np.arange(first, first + 50)
        same(opened.play(changes, episodes), here.play(changes, episodes))
    assert opened.lost == 1
    assert (tmp_path / "happened").exists()


@contextlib.contextmanager
def meanwhile(act, when):
    thread = threading.Thread(target=lambda: (until(when), act()))
    thread.start()
    yield
    thread.join()


class Naps(Toy):
    def befall(self, episodes):
        time.sleep(0.02 * len(episodes))


def test_a_failing_environment_is_a_play_error_with_the_actors_traceback(open_fleet):
    opened = open_fleet(Ray(workers=2), Trouble(raise_error, 12))
    with pytest.raises(
        PlayError, match="episode 12, step 3, machine 2: the valve is stuck"
    ) as failed:
        opened.play(NONE, np.arange(10, 20))
    assert "OSError: no contact" in str(failed.value.__cause__)


def test_a_second_interrupt_leaves_no_actor_behind(open_fleet, monkeypatch):
    opened = everybody_up(open_fleet(Ray(workers=2), Toy()))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ray, "wait", interrupt)
        opened.close()
    assert ray.is_initialized()  # which is not the fleet's own
    assert len(opened.workers) == 2  # so that nobody ended for want of a handle
    until(lambda: ray.available_resources().get("CPU", 0) >= CPUS)


def test_actors_that_cannot_start_say_why(open_fleet):
    with pytest.raises(
        FleetError,
        match="(?s)3 workers in a row died while starting, .*no licence for the simulator",
    ):
        open_fleet(Ray(workers=2), FailsAtStart())


def test_a_full_cluster_is_an_error_in_bounded_time(open_fleet, monkeypatch):
    everybody_up(open_fleet(Ray(workers=CPUS), Toy()))
    monkeypatch.setattr(scheduler, "START_SECONDS", 1.0)
    with pytest.raises(
        FleetError,
        match=(
            "no worker became available within 1 s; check with `ray status` whether the cluster has"
            " free CPUs"
        ),
    ):
        open_fleet(Ray(workers=1, patience=1.0), Toy())


def test_a_process_is_connected_to_one_cluster_only(open_fleet, connected):
    with pytest.raises(
        FleetError,
        match="connected to the Ray cluster at .*, not to '127.0.0.1:1'; leave the address out",
    ):
        open_fleet(Ray("127.0.0.1:1"), Toy())
    port = connected.address.split(":")[1]
    open_fleet(Ray(f"127.0.0.1:{port}", workers=1), Toy())


def test_actors_and_a_node_may_go_in_the_middle_of_a_round(open_fleet, connected):
    node = connected.add_node(num_cpus=1)
    opened = everybody_up(open_fleet(Ray(patience=20.0), Naps()))
    assert len(opened.workers) == CPUS + 1
    victims = opened.workers[:2]
    with meanwhile(
        lambda: [ray.kill(worker.actor) for worker in victims],
        when=lambda: all(worker.piece for worker in victims),
    ):
        plays_right(opened, np.arange(100))
    assert opened.lost == 2
    everybody_up(opened)  # Those that were killed have successors.
    with meanwhile(
        lambda: connected.remove_node(node, allow_graceful=False),
        when=lambda: all(worker.piece for worker in opened.workers),
    ):
        plays_right(opened, np.arange(400))
    assert opened.lost == 3
    # There is no room for the fifth one, and the others did not wait for it.
    assert sum(worker.up for worker in opened.workers) == CPUS


# ---- units of work -------------------------------------------------------------------------------


@pytest.fixture
def crew(connected):
    """The workers of the cluster; in the end none of them is busy."""
    with Ray().crew() as opened:
        yield opened
    assert ray.is_initialized()
    until(lambda: ray.available_resources().get("CPU", 0) >= CPUS)


def nap(table, number, seconds=0.0):
    time.sleep(seconds)
    table[0] += number  # which changes nothing for other units
    return os.getpid(), table.sum()


def test_every_unit_is_carried_out_by_some_worker(crew):
    table = np.zeros(10**5)
    found = dict(crew.each(nap, [(table, number, 0.05) for number in range(40)]))
    assert sorted(found) == list(range(40))
    assert len({pid for pid, _ in found.values()}) > 1
    assert os.getpid() not in {pid for pid, _ in found.values()}
    assert table.sum() == 0.0
    assert list(crew.each(nap, [])) == []


def die(happened, number, times):
    """The worker of this unit is killed the first times."""
    if number == 3 and len(list(happened.iterdir())) < times:
        (happened / str(time.time_ns())).touch()
        os.kill(os.getpid(), 9)
    return number**2


def test_the_unit_of_a_killed_worker_is_carried_out_again(crew, tmp_path):
    found = dict(crew.each(die, [(tmp_path, number, 2) for number in range(8)]))
    assert found == {number: number**2 for number in range(8)}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_unit_that_kills_every_worker_is_an_error(crew, tmp_path):
    with pytest.raises(FleetError, match="lost its worker 4 times .*check the memory"):
        list(crew.each(die, [(tmp_path, number, 99) for number in range(8)]))
    assert len(list(tmp_path.iterdir())) == 4


def refuse(number):
    raise ArithmeticError(f"{number} is odd")


def test_the_error_of_a_unit_is_raised_as_it_is(crew):
    with pytest.raises(ArithmeticError, match="[13579] is odd"):
        list(crew.each(refuse, [(1,), (3,)]))


def test_what_cannot_be_sent_is_named(crew):
    with pytest.raises(ValueError, match="lock cannot be sent to another machine"):
        list(crew.each(nap, [(threading.Lock(), 1)]))


def test_units_that_nobody_waits_for_any_more_end(crew):
    for place, _ in crew.each(nap, [(np.zeros(1), number, 0.5) for number in range(50)]):
        if place >= 0:
            break  # the fixture waits until no CPU is busy


def test_a_node_may_go_while_it_works(crew, connected):
    node = connected.add_node(num_cpus=2)
    until(lambda: ray.cluster_resources().get("CPU", 0) >= CPUS + 2)
    gone = threading.Thread(
        target=connected.remove_node, args=(node,), kwargs={"allow_graceful": 0}
    )
    found = {}
    for place, (_, total) in crew.each(nap, [(np.zeros(1), n, 0.3) for n in range(40)]):
        found[place] = total
        if len(found) == 3:
            gone.start()
    gone.join()
    assert found == {number: number for number in range(40)}
    until(lambda: sum(one["Alive"] for one in ray.nodes()) == 3)


@pytest.mark.parametrize("work", [swept, raced, planned], ids=lambda work: work.__name__)
def test_whole_calls_on_a_cluster_are_those_of_one_process(connected, work, tmp_path):
    alike(work(Ray(), tmp_path), work())


def test_the_claims_are_measured_on_a_cluster(connected, tmp_path):
    alike(measured(Ray(workers=2), tmp_path / "there"), measured(folder=tmp_path / "here"))


def test_a_crew_ends_the_connection_that_it_made(tmp_path):
    code = (
        "import ray\nfrom lowswitch import concurrent\n"
        "with concurrent.Ray('local', workers=1).crew() as crew:\n"
        "    assert dict(crew.each(pow, [(2, 3), (3, 2)])) == {0: 8, 1: 9}\n"
        "assert not ray.is_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)


# ---- whole runs ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_actors(connected):
    kept = StaysOpen(Ray(workers=2), Tabular(PROBLEMS["sparse-bernoulli"]()))
    yield kept
    kept.opened.close()


@pytest.mark.parametrize(("cell", "name"), in_turn(product(RULES, MACHINES), ["ucb2-h", "ucb2-b"]))
def test_a_run_on_actors_is_the_sequential_run(two_actors, cell, name):
    mdp, algorithm, (rule, machines) = PROBLEMS["sparse-bernoulli"](), ALGORITHMS[name], cell
    run = concurrent.run(mdp, algorithm, 60, machines=machines, rule=rule, fleet=two_actors)
    same_run(run, sequential(mdp, algorithm, 60))
    same_rounds(run, concurrent.run(mdp, algorithm, 60, machines=machines, rule=rule))


def test_actors_send_the_sums_of_one_process(connected):
    mdp, algorithm = PROBLEMS["dense"](), ls.fedq_hoeffding(c=0.05, machines=4)
    asked = {"machines": 4, "send": "sums"}
    here = concurrent.run(mdp, algorithm, 6_000, **asked)
    there = concurrent.run(mdp, algorithm, 6_000, **asked, fleet=Ray(workers=2))
    same_run(there, here)
    same_run(there, sequential(mdp, algorithm, 6_000))
    assert there.bytes_received < 0.9 * 6_000 * mdp.horizon * 12  # a step of an episode has 12


class Disturbed:
    """A fleet to which something happens while it plays certain rounds."""

    def __init__(self, fleet, disturbances):
        self.fleet, self.disturbances, self.rounds = fleet, disturbances, 0

    def open(self, source, seed, policy):
        self.opened = everybody_up(self.fleet.open(source, seed, policy))
        return self

    def play(self, changes, episodes):
        self.rounds += 1
        disturb = self.disturbances.get(self.rounds, contextlib.nullcontext)
        with disturb(self.opened) if self.rounds in self.disturbances else disturb():
            return self.opened.play(changes, episodes)

    def __getattr__(self, name):
        return getattr(self.opened, name)


def test_a_run_survives_an_actor_and_a_node(connected, two_actors):
    """The two actors have two CPUs, so every node is needed."""
    node = connected.add_node(num_cpus=1)
    source, algorithm = concurrent.Gymnasium("FrozenLake-v1", horizon=20), ls.ucb2_hoeffding(c=0.05)

    def kill(opened):
        return meanwhile(
            lambda: ray.kill(opened.workers[0].actor),
            when=lambda: opened.workers[0].piece is not None,
        )

    def take_down():
        connected.remove_node(node, allow_graceful=False)
        until(lambda: sum(node["Alive"] for node in ray.nodes()) == 3)

    def remove(opened):
        everybody_up(opened)  # the one that was killed has a successor
        return meanwhile(take_down, when=lambda: all(worker.piece for worker in opened.workers))

    fleet = Disturbed(Ray(workers=CPUS - 1, patience=20.0), {3: kill, 6: remove})
    run = concurrent.run(source, algorithm, 400, machines=300, rule="speculate", fleet=fleet)
    whole = concurrent.run(source, algorithm, 400, machines=300, rule="speculate")
    same_rounds(run, whole)
    assert run.history[0].changes.tolist() == whole.history[0].changes.tolist()
    assert run.rounds > 6
    assert run.lost == 2
