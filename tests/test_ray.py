"""Actors of a cluster of three nodes play what one process plays, whatever happens to them."""

import contextlib
import socket
import threading
import time

import numpy as np
import pytest

from lowswitch.concurrent import cluster as cluster_module
from lowswitch.concurrent.cluster import Ray
from lowswitch.concurrent.fleets import FleetError, InProcess
from lowswitch.concurrent.sources import PlayError, Tabular
from test_fleets import H, Toy, Trouble, die, everybody_up, hang, raise_error, same, some_changes, until, zeros

ray = pytest.importorskip("ray")

NONE = np.empty((0, 3), dtype=int)
CPUS = 4


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["", "head", "head:", "head:port", "head:0", "head:99999", "http://head:6379", "head:1:2", "a b:1"])
def test_a_malformed_address_is_refused(address):
    with pytest.raises(ValueError, match='address must be "host:port", "auto" or "local", not '):
        Ray(address)


def test_the_ray_client_is_refused():
    with pytest.raises(ValueError, match="address 'ray://head:10001' is one of the Ray Client, .* submit the script as a Ray job"):
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
    refused(f"127.0.0.1:{port}", f"nothing answers at '127.0.0.1:{port}' .*refused.*; check the address", 5)


def test_an_unknown_host_is_named():
    refused("no-such-host.invalid:6379", "nothing answers at 'no-such-host.invalid:6379'", 10)


def test_a_listener_that_is_no_cluster_is_named(monkeypatch):
    monkeypatch.setattr(cluster_module, "_HEALTH_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refused(f"127.0.0.1:{port}", f"no Ray cluster answers at '127.0.0.1:{port}' within 3 s", 10)


# ---- a cluster -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
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
def opened(connected):
    """Open a crew by a fleet; in the end it leaves no actor and the connection as it was."""
    with contextlib.ExitStack() as stack:
        yield lambda fleet, source, policy=None: stack.enter_context(
            contextlib.closing(fleet.open(source, 5, zeros() if policy is None else policy))
        )
    assert ray.is_initialized()
    until(lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"])


def test_a_crew_ends_the_connection_that_it_made(cluster):
    with contextlib.closing(Ray(cluster.address, workers=1).open(Toy(), 5, zeros())) as team:
        same(team.play(NONE, np.arange(9)), InProcess().open(Toy(), 5, zeros()).play(NONE, np.arange(9)))
    assert not ray.is_initialized()
    team.close()


def test_actors_play_what_one_process_plays(opened):
    team, solo = opened(Ray(), Toy()), InProcess().open(Toy(), 5, zeros())
    assert len(everybody_up(team).seats) == CPUS
    generator = np.random.default_rng(1)
    for batch in (1, 2, 7, 64, 1000, 64):
        changes, episodes = some_changes(generator), generator.permutation(5000)[:batch]
        sent = team.bytes_sent
        same(team.play(changes, episodes), solo.play(changes, episodes))
        assert 8 * batch <= team.bytes_sent - sent <= 8 * batch + 64 * zeros().nbytes
    assert team.lost == 0
    assert team.bytes_received > 1000 * H * 12


def test_the_tables_play_as_they_do_here(opened, mdp):
    policy = np.zeros((mdp.horizon, mdp.states), dtype=np.int64) + mdp.actions_allowed.argmax(axis=2)
    team, solo = opened(Ray(workers=1), Tabular(mdp), policy), InProcess().open(Tabular(mdp), 5, policy)
    same(team.play(NONE, np.arange(500)), solo.play(NONE, np.arange(500)))


@pytest.mark.parametrize(("trouble", "patience"), [(die, 60.0), (hang, 2.0)])
def test_what_a_lost_actor_left_is_played_by_others(opened, tmp_path, trouble, patience):
    team = opened(Ray(workers=2, patience=patience), Trouble(trouble, 70, tmp_path / "happened"))
    solo, generator = InProcess().open(Toy(), 5, zeros()), np.random.default_rng(6)
    for first in range(0, 150, 50):
        changes, episodes = some_changes(generator), np.arange(first, first + 50)
        same(team.play(changes, episodes), solo.play(changes, episodes))
    assert team.lost == 1
    assert (tmp_path / "happened").exists()


class Naps(Toy):
    def befall(self, episodes):
        time.sleep(0.02 * len(episodes))


def test_actors_killed_from_outside_are_replaced(opened):
    team = everybody_up(opened(Ray(workers=3), Naps()))
    victims = [seat.worker.actor for seat in team.seats[:2]]
    killer = threading.Timer(0.3, lambda: [ray.kill(actor) for actor in victims])
    killer.start()
    same(team.play(NONE, np.arange(100)), InProcess().open(Toy(), 5, zeros()).play(NONE, np.arange(100)))
    killer.join()
    assert team.lost == 2


def test_a_node_may_go_in_the_middle_of_a_round(opened, connected):
    node = connected.add_node(num_cpus=1)
    team = everybody_up(opened(Ray(patience=20.0), Naps()))
    assert len(team.seats) == CPUS + 1
    remover = threading.Timer(0.3, connected.remove_node, [node], {"allow_graceful": False})
    remover.start()
    same(team.play(NONE, np.arange(200)), InProcess().open(Toy(), 5, zeros()).play(NONE, np.arange(200)))
    remover.join()
    assert team.lost == 1
    assert sum(seat.worker.up for seat in team.seats) == CPUS  # there is no room for the fifth, and the others did not wait for it


def test_a_failing_environment_is_a_play_error_with_the_actors_traceback(opened):
    team = opened(Ray(workers=2), Trouble(raise_error, 12))
    with pytest.raises(PlayError, match="episode 12, step 3, machine 2: the valve is stuck") as failed:
        team.play(NONE, np.arange(10, 20))
    assert "OSError: no contact" in str(failed.value.__cause__)


class FailsAtStart(Toy):
    def player(self, seed):
        raise OSError("no licence for the simulator")


def test_actors_that_cannot_start_say_why(opened):
    with pytest.raises(FleetError, match="(?s)3 workers in a row died while starting, .*no licence for the simulator"):
        opened(Ray(workers=2), FailsAtStart())


def test_a_process_is_connected_to_one_cluster_only(opened, connected):
    with pytest.raises(FleetError, match="connected to the Ray cluster at .*, not to '127.0.0.1:1'; leave the address out"):
        opened(Ray("127.0.0.1:1"), Toy())
    port = connected.address.split(":")[1]
    opened(Ray(f"127.0.0.1:{port}", workers=1), Toy())
