"""The exact price of few changes, against published digits, brute force and a GPU's text."""

import ctypes
import functools
import itertools
import json
import math
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.cli.commands import main
from lowswitch.exact import Arms, SmallMDP, on_gpu, price, value_on_dates
from lowswitch.exact.simplex import Simplex, points

UNIFORM = Arms()


# ---- brute force: the best decision by looking at every future -----------------------------------


@functools.cache
def best_with_switches(counts, arm, left, pulls):
    """The most that can be earned in `pulls` pulls of which the first one is of this arm."""
    if pulls == 0:
        return 0.0
    won, lost = counts[arm]
    p = (1 + won) / (2 + won + lost)
    total = 0.0
    for paid, chance in ((1, p), (0, 1 - p)):
        after = list(counts)
        after[arm] = (won + paid, lost + 1 - paid)
        after = tuple(after)
        futures = [best_with_switches(after, arm, left, pulls - 1)]
        if left:
            others = range(len(counts))
            futures += [best_with_switches(after, b, left - 1, pulls - 1) for b in others]
        total += chance * (paid + max(futures))
    return total


@functools.cache
def best_with_batches(counts, left, pulls, kind):
    """The most that can be earned if the pulls of a batch are chosen when it begins."""
    if pulls == 0:
        return 0.0
    lengths = range(1, pulls + 1) if left else [pulls]
    return max(
        expected_after(counts, order, left, pulls, kind)
        for length in lengths
        for order in itertools.combinations_with_replacement((0, 1), length)
        if kind == "pulls" or len(set(order)) == 1
    )


def expected_after(counts, order, left, pulls, kind):
    """What these pulls and everything after them earn, outcome by outcome."""
    if not order:
        return best_with_batches(counts, left - 1, pulls, kind) if pulls else 0.0
    arm, total = order[0], 0.0
    won, lost = counts[arm]
    p = (1 + won) / (2 + won + lost)
    for paid, chance in ((1, p), (0, 1 - p)):
        after = list(counts)
        after[arm] = (won + paid, lost + 1 - paid)
        later = expected_after(tuple(after), order[1:], left, pulls - 1, kind)
        total += chance * (paid + later)
    return total


@pytest.mark.parametrize("arms", [2, 3])
def test_switches_equal_brute_force(arms):
    problem, fresh = Arms(((1.0, 1.0),) * arms), ((0, 0),) * arms
    found = price(problem, episodes=6, changes=3)
    expected = [best_with_switches(fresh, 0, left, 6) for left in range(4)]
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)
    assert found.unlimited == pytest.approx(best_with_switches(fresh, 0, 6, 6), rel=1e-12)


@pytest.mark.parametrize("kind", ["batches", "pulls"])
def test_batches_equal_brute_force(kind):
    expected = [best_with_batches(((0, 0), (0, 0)), left, 6, kind) for left in range(4)]
    found = price(UNIFORM, episodes=6, changes=3, notion=kind)
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)


@functools.cache
def best_in_mdp(mdp, seen, policy, left, episodes):
    """The most that can be earned in episodes of which the first one is by this policy."""
    if episodes == 0:
        return 0.0
    total = 0.0
    for after in itertools.product(range(mdp.states), repeat=mdp.horizon):
        known, x, chance, paid = list(seen), mdp.start, 1.0, 0.0
        for h, y in enumerate(after):
            row = x * mdp.actions + mdp.policies[policy, h, x]
            cells = known[row]
            chance *= (mdp.mass + cells[y]) / (mdp.mass * mdp.states + sum(cells))
            known[row] = tuple(n + (z == y) for z, n in enumerate(cells))
            x, paid = y, paid + mdp.rewards[y]
        futures = [best_in_mdp(mdp, tuple(known), policy, left, episodes - 1)]
        if left:
            others = range(len(mdp.policies))
            futures += [best_in_mdp(mdp, tuple(known), p, left - 1, episodes - 1) for p in others]
        total += chance * (paid + max(futures))
    return total


def test_a_small_mdp_equals_brute_force():
    mdp = SmallMDP(mass=0.5)
    nothing = ((0, 0),) * 4
    every = range(len(mdp.policies))
    expected = [max(best_in_mdp(mdp, nothing, p, left, 3) for p in every) for left in range(3)]
    np.testing.assert_allclose(price(mdp, episodes=3, changes=2).values, expected, rtol=1e-12)


# ---- brute force without a recursion: all decision trees, and the chance of each whole course ----


def chance_of(counts):
    """The chance that rows with uniform priors show these numbers of ones and zeros, in order."""
    return math.prod(
        math.factorial(n) * math.factorial(m) / math.factorial(n + m + 1) for n, m in counts
    )


@pytest.mark.parametrize("pulls", [3, 4])
def test_no_decision_tree_earns_more(pulls):
    """A tree names an arm for each sequence of outcomes so far; there are 2^(2^T - 1)."""
    nodes = [seen for t in range(pulls) for seen in itertools.product((0, 1), repeat=t)]
    trees = np.arange(2 ** len(nodes))[:, None] >> np.arange(len(nodes)) & 1
    values, switches = np.zeros(len(trees)), np.zeros(len(trees), dtype=int)
    for outcomes in itertools.product((0, 1), repeat=pulls):
        path = [nodes.index(outcomes[:t]) for t in range(pulls)]
        arms = trees[:, path]  # [trees, pulls]
        switches = np.maximum(switches, (np.diff(arms, axis=1) != 0).sum(axis=1))
        first = (arms == 0).sum(axis=1)
        paid = (arms == 0) @ np.array(outcomes)
        ones = sum(outcomes) - paid
        pairs = zip(paid, first - paid, ones, pulls - first - ones, strict=True)
        chances = [chance_of([(a, b), (c, d)]) for a, b, c, d in pairs]
        values += np.array(chances) * sum(outcomes)
    best = [values[switches <= n].max() for n in range(pulls)]
    np.testing.assert_allclose(
        price(UNIFORM, episodes=pulls, changes=pulls - 1).values, best, rtol=1e-12
    )


def test_no_decision_tree_earns_more_in_two_episodes_of_an_mdp():
    """A tree has a policy for the first episode, and one for each course that it may take."""
    mdp, places = SmallMDP(), list(itertools.product((0, 1), repeat=2))
    policies, courses = mdp.policies.tolist(), places

    def counts(policy, course, known):
        known = [list(row) for row in known]
        for x, y, actions in zip((0, course[0]), course, policy, strict=True):
            known[2 * x + actions[x]][y] += 1
        return known

    nothing = [[0, 0]] * 4
    value = np.zeros((8, 4, 8))  # first policy, course, second policy
    for (p, first), (i, seen), (q, second) in itertools.product(
        *map(enumerate, (policies, courses, policies))
    ):
        before = counts(first, seen, nothing)
        chances = {after: chance_of(counts(second, after, before)) for after in courses}
        value[p, i, q] = sum(c * (sum(seen) + sum(after)) for after, c in chances.items())
    trees = np.array(list(itertools.product(range(8), repeat=4)))
    changed = value[:, range(4), trees].sum(axis=-1)  # [first policy, trees]
    same = [value[p, :, p].sum() for p in range(8)]
    found = price(mdp, episodes=2, changes=1)
    np.testing.assert_allclose(found.values, [max(same), changed.max()], rtol=1e-12)


# ---- known digits --------------------------------------------------------------------------------

REGRETS = [
    (30, "switches", [1.959, 1.324, 1.177, 1.122, 1.102]),
    (50, "switches", [2.984, 1.755, 1.523, 1.430, 1.388]),
    (50, "batches", [3.512, 2.261]),
    (30, "pulls", [1.875, 1.551, 1.378, 1.279]),
]


@pytest.mark.parametrize(("episodes", "notion", "regrets"), REGRETS)
def test_two_uniform_arms(episodes, notion, regrets):
    found = price(UNIFORM, episodes=episodes, changes=len(regrets), notion=notion)
    assert np.round(found.regret[1:], 3).tolist() == regrets


def test_without_a_limit():
    found = price(UNIFORM, episodes=50, changes=0)
    assert round(found.known - found.unlimited, 3) == 1.337


def test_a_small_mdp():
    found = price(SmallMDP(), episodes=10, changes=6)
    expected = [1.0, 1.1174, 1.1418, 1.1487, 1.1509, 1.1516, 1.1518]
    assert np.round(found.values / 10, 4).tolist() == expected
    # two uniform numbers have a maximum M with E M = 2/3 and E M^2 = 1/2, and an optimal policy
    # earns 2 M_0 + M_0 M_1 - M_0^2
    assert found.known / 10 == pytest.approx(4 / 3 + 4 / 9 - 1 / 2, abs=2e-4)


# ---- how the notions relate ----------------------------------------------------------------------


def test_the_first_change_of_a_batch_by_hand():
    """Two pulls and one change: pull an arm, stay if it paid (2/3), else change (1/2)."""
    found = price(UNIFORM, episodes=2, changes=1)
    assert found.values.tolist() == pytest.approx([1.0, 1 / 2 + 1 / 2 * 2 / 3 + 1 / 2 * 1 / 2])


def test_more_freedom_never_earns_less():
    some = {kind: price(UNIFORM, episodes=20, changes=3, notion=kind).values for kind in KINDS}
    fixed = {
        kind: price(UNIFORM, episodes=20, changes=3, notion=kind, dates=True).values
        for kind in KINDS[1:]
    }
    for kind in KINDS[1:]:
        assert (some[kind] >= fixed[kind] - 1e-12).all()  # lengths that may depend on what is seen
        assert (np.diff(some[kind]) >= -1e-12).all()
    assert (some["switches"] >= some["batches"] - 1e-12).all()
    assert (some["pulls"] >= some["batches"] - 1e-12).all()
    assert (some["draws"] >= some["batches"] - 1e-12).all()


KINDS = ("switches", "batches", "pulls", "draws")


@pytest.mark.parametrize("kind", ["batches", "draws"])
def test_the_dates_that_are_found_are_the_best_of_all_pairs(kind):
    pairs = list(itertools.combinations(range(1, 14), 2))
    values = [value_on_dates(UNIFORM, pair, episodes=14, notion=kind) for pair in pairs]
    found = price(UNIFORM, episodes=14, changes=2, notion=kind, dates=True)
    assert found.values[2] == max(values)
    assert found.dates[2] == pairs[int(np.argmax(values))]


def test_one_change_on_a_date_of_a_small_mdp_is_a_batch():
    """With one change nothing is seen before its date is chosen, so both notions agree."""
    mdp = SmallMDP()
    free = price(mdp, episodes=6, changes=1, notion="batches")
    fixed = price(mdp, episodes=6, changes=1, notion="batches", dates=True)
    np.testing.assert_allclose(free.values, fixed.values, rtol=1e-12)


def test_points_are_numbered_once():
    simplex = Simplex.of(5, 3)
    places = {}
    for lead, base in zip(simplex.leads.tolist(), simplex.bases, strict=True):
        for z in range(5 - sum(lead) + 1):
            places[*lead, z] = base + z
    assert sorted(places.values()) == list(range(points(5, 3)))
    for lead, further in zip(simplex.leads.tolist(), simplex.further, strict=True):
        if sum(lead) < 5:
            assert further.tolist() == [
                places[lead[0] + 1, lead[1], 0],
                places[lead[0], lead[1] + 1, 0],
            ]


# ---- a GPU ---------------------------------------------------------------------------------------

TWIN = """
#include <cstring>
#define __device__ static
#define __global__
struct Index { long long x; };
static Index blockIdx, threadIdx, blockDim;
#include TEXT
extern "C" void launch(const char *name, int blocks, int threads, const Arguments *arguments) {
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
            strcmp(name, "pull_level") ? episode_level(*arguments) : pull_level(*arguments);
}
"""


class Twin:
    """A GPU that is this CPU: memory is numpy's, and kernels are compiled by g++."""

    facts = SimpleNamespace(architecture=90)

    def __init__(self, library):
        self._library, self._kept = library, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._kept.clear()

    def allocate(self, size):
        memory = np.full(size, 0xA5, dtype=np.uint8)
        self._kept[memory.ctypes.data] = memory
        return memory.ctypes.data

    def upload(self, address, array):
        array = np.ascontiguousarray(array)
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def clear(self, address, size):
        ctypes.memset(address, 0, size)

    def download(self, address, shape, dtype):
        array = np.empty(shape, dtype)
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
        return array

    def load(self, _, names):
        return {name: name.encode() for name in names}

    def launch(self, function, blocks, threads, _, arguments):
        self._library.launch(function, blocks, threads, ctypes.byref(arguments))


@pytest.fixture(scope="module")
def twin_library(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("the twin needs a C++ compiler")
    folder = tmp_path_factory.mktemp("twin")
    (folder / "twin.cpp").write_text(TWIN, encoding="utf-8")
    flags = ["-O1", "-std=c++17", "-w", "-ffp-contract=off", "-shared", "-fPIC"]
    command = ["g++", *flags, f'-DTEXT="{on_gpu.TEXT}"', "twin.cpp", "-o", "twin.so"]
    subprocess.run(command, check=True, cwd=folder)
    return ctypes.CDLL(str(folder / "twin.so"))


@pytest.mark.parametrize(
    ("problem", "episodes"),
    [(UNIFORM, 12), (Arms(((2.0, 1.0), (1.0, 3.0), (0.5, 0.5))), 7), (SmallMDP(mass=0.7), 4)],
    ids=["two arms", "three arms", "mdp"],
)
def test_a_gpu_finds_the_same_bits(problem, episodes, twin_library, monkeypatch):
    monkeypatch.setattr(on_gpu.driver, "Gpu", lambda: Twin(twin_library))
    monkeypatch.setattr(on_gpu.compiler, "compiled", lambda *_: b"")
    on_cpu = price(problem, episodes=episodes, changes=3)
    there = price(problem, episodes=episodes, changes=3, device="gpu")
    assert on_cpu.values.tobytes() == there.values.tobytes()
    assert on_cpu.unlimited == there.unlimited


# ---- doors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"notion": "dates"}, "notion must be"),
        ({"dates": True}, 'choose "batches", "pulls" or "draws"'),
        ({"notion": "pulls", "device": "gpu"}, "leave it out"),
        ({"changes": 9}, "changes must be"),
        ({"episodes": 10**6}, "GiB"),
    ],
)
def test_bad_input_names_the_way_out(given, said):
    with pytest.raises(ValueError, match=said):
        price(UNIFORM, **{"episodes": 9, "changes": 2} | given)


def test_batches_of_three_arms_and_large_mdps_are_refused():
    with pytest.raises(ValueError, match="two arms, not 3"):
        price(Arms(((1, 1),) * 3), episodes=5, changes=1, notion="pulls")
    with pytest.raises(ValueError, match="too many to be enumerated"):
        price(SmallMDP(states=3, rewards=(0, 0, 1)), episodes=9, changes=1)
    with pytest.raises(ValueError, match="one number for each of 3 states"):
        SmallMDP(states=3)
    with pytest.raises(ValueError, match="must be a positive number"):
        Arms(((1, 0), (1, 1)))


def test_the_command_prints_the_table(capsys):
    assert main(["price", "--episodes", "30", "--changes", "2"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[-2].split() == ["any", "0.6307", "1.080"]
    assert main(["price", "--mdp", "--episodes", "3", "--changes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"][0] == pytest.approx(3.0)
    assert ls.price is price
