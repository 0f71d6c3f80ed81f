"""A sweep on a Ray cluster: one node against two, with a node killed meanwhile, and the results.

The nodes are on this machine and have one CPU each. The steps of the problem sleep, so the time
depends little on how busy the machine is.

    python benchmarks/cluster.py [--json FILE]
"""

import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import ray
from ray.cluster_utils import Cluster

import bench
import lowswitch as ls
from lowswitch.concurrent import Ray

STEP_SECONDS, HORIZON, EPISODES, SEEDS, ROUNDS = 0.001, 5, 60, 16, 3
ALGORITHMS = [ls.q_hoeffding(c=0.05), ls.few(deployments=3)]
NOTICE_SOON = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3}


def slow_step(state, action, h, random):
    """A ring of five states whose every step takes a millisecond."""
    time.sleep(STEP_SECONDS)
    moved = random.random() < 0.7
    return (state + (1 if action else -1) * moved) % 5, float(state == 2)


def problem():
    return ls.envs.Simulator(slow_step, horizon=HORIZON, states=5, actions=2)


def swept(fleet=None, folder=None):
    """The seconds of a sweep, and its results."""
    what = {"episodes": EPISODES, "seeds": SEEDS, "threads": 1, "progress": False}
    begin = time.perf_counter()
    found = ls.sweep(problem(), ALGORITHMS, **what, fleet=fleet, folder=folder)
    return time.perf_counter() - begin, found


def same(one, other):
    """Whether two sweeps have the same numbers, to the bit."""
    names = ("regret", "deployments", "local_switches", "policy", "earned")
    pairs = [(mine, theirs) for mine, theirs in zip(one, other, strict=True)]
    return all(
        getattr(mine, name).tobytes() == getattr(theirs, name).tobytes()
        for mine, theirs in pairs
        for name in names
    )


def kill_after(cluster, node, folder, units):
    """Kill a node once so many units are kept."""
    while len(list(folder.glob("seed-*"))) < units:
        time.sleep(0.02)
    cluster.remove_node(node, allow_graceful=False)


def main():
    options = bench.parser(__doc__).parse_args()
    results = bench.Results(options.json)
    results.keep("run", bench.described(f"Ray {ray.__version__}", bench.load_before()))
    alone, here = swept()
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": NOTICE_SOON}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(cluster.address, log_to_driver=False)
    try:
        swept(Ray())  # starts the worker
        one = [swept(Ray()) for _ in range(ROUNDS)]
        node = cluster.add_node(num_cpus=1)
        while ray.cluster_resources().get("CPU", 0) < 2:
            time.sleep(0.1)
        swept(Ray())
        two = [swept(Ray()) for _ in range(ROUNDS)]
        seconds = [float(np.median([time_ for time_, _ in some])) for some in (one, two)]
        results.keep("seconds", {"one process": alone, "one node": seconds[0], "two": seconds[1]})
        results.keep("speed-up", seconds[0] / seconds[1])
        with tempfile.TemporaryDirectory() as name:
            folder, units = Path(name), SEEDS * len(ALGORITHMS)
            killer = threading.Thread(target=kill_after, args=(cluster, node, folder, units // 4))
            killer.start()
            killed = swept(Ray(), folder)
            killer.join()
        results.keep("seconds with a killed node", killed[0])
        results.keep("equal", all(same(found, here) for _, found in (*one, *two, killed)))
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
