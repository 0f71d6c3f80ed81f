"""Every bit of every kind of file flipped, and every field of it set to evil values."""

import copy
import json
import random
import warnings
from pathlib import Path

import numpy as np

import lowswitch as ls
from fuzz.attempts import DEEP, WrongError, shown
from lowswitch import bandits, concurrent
from lowswitch.concurrent import Stop
from lowswitch.io import archive, storage

MDP = ls.TabularMDP(
    np.random.default_rng(1).dirichlet(np.ones(3), (3, 2)),
    np.random.default_rng(2).random((3, 2)),
    horizon=2,
)
LEARNERS = {
    "rows": ls.ucb2_bernstein(c=0.1),
    "budget": ls.q_hoeffding(c=0.05, schedule="whole/1.5", deployments=4),
    "stages": ls.ucb_advantage(c=0.02, reference=9),
    "mixture": ls.ucb2_bernstein(c=0.1, scales=(1, 0.3)),
    "planner": ls.mvp(c=0.01, data="all"),
    "posterior": ls.psrl(members=2, schedule="grid/geometric/5"),
}
RUN = {"source": MDP, "algorithm": LEARNERS["rows"], "episodes": 60, "machines": 4}


def taught(name, episodes=25):
    """A learner of this name that was told some episodes."""
    learner = ls.Learner(
        LEARNERS[name], horizon=2, states=3, actions=2, episodes=60, actions_allowed=MASK
    )
    generator = np.random.default_rng(3)
    for _ in range(episodes):
        tell(learner, generator)
    return learner


MASK = np.array([[True, True], [True, False], [True, True]])


def tell(learner, generator):
    """Tell one more episode by the learner's policy."""
    states = generator.integers(0, 3, 2)
    learner.tell(states, learner.policy[np.arange(2), states], generator.random(2))


class Kind:
    """A kind of file: how one is made, and what whoever loads it does next."""

    def __init__(self, name, make, use):
        self.name, self.make, self.use = name, make, use


def go_on(learner):
    """Use a learner that was loaded: nothing in it is out of range, and it learns."""
    generator = np.random.default_rng(4)
    if not (learner.policy.min() >= 0 and learner.policy.max() < 2):
        raise WrongError("a policy out of range was loaded")
    if np.isnan(learner.values).any() or (learner.visits < 0).any():
        raise WrongError("NaN or negative visits were loaded")
    for _ in range(min(8, learner.episodes - learner.told)):
        tell(learner, generator)


def resume(path, **more):
    """Go on from a checkpoint, for some rounds."""
    run = concurrent.run(**RUN, **more, checkpoint=path, stop=Stop(rounds=60), progress=False)
    if not run.episodes <= 60 or np.isnan(run.regret).any():
        raise WrongError("a checkpoint ended in a result that cannot be")


def make_checkpoint(path, **more):
    concurrent.run(**RUN, **more, checkpoint=path, stop=Stop(rounds=9), progress=False)


def results():
    return ls.simulate(MDP, LEARNERS["rows"], episodes=40, seeds=2, history=True, progress=False)


def small_frontier():
    two = [ls.ucb2_bernstein(c=0.05), ls.q_hoeffding(c=0.05)]
    return ls.frontier(MDP, episodes=30, seeds=2, portfolio=two, progress=False)


def few_pulls():
    return bandits.simulate((0.9, 0.5), bandits.ucb2(), pulls=60, runs=3, progress=False)


KINDS = {
    **{
        name: Kind(
            "learner",
            lambda path, name=name: taught(name).save(path),
            lambda path: go_on(ls.Learner.load(path)),
        )
        for name in LEARNERS
    },
    "checkpoint": Kind("concurrent checkpoint", make_checkpoint, resume),
    "speculation": Kind(
        "concurrent checkpoint",
        lambda path: make_checkpoint(path, rule="speculate"),
        lambda path: resume(path, rule="speculate"),
    ),
    "runs": Kind("runs", lambda path: results().save(path), lambda path: ls.load(path).to_dict()),
    "pac": Kind(
        "pac policy",
        lambda path: results().pac_policy(1).save(path),
        lambda path: ls.PacPolicy.load(path).evaluate(MDP),
    ),
    "run": Kind(
        "concurrent run",
        lambda path: concurrent.run(**RUN, progress=False).save(path),
        lambda path: concurrent.load(path).to_dict(),
    ),
    "bandit": Kind(
        "bandit runs",
        lambda path: few_pulls().save(path),
        lambda path: repr(bandits.load(path)),
    ),
    "frontier": Kind(
        "frontier",
        lambda path: small_frontier().save(path),
        lambda path: ls.Frontier.load(path).table(),
    ),
}


def content(data, kind):
    """A digest of all that the bytes of a file say."""
    if kind.name == "frontier":
        facts = archive.from_text(data.decode(errors="replace"), kind.name, FRONTIER)
        return json.dumps(facts, sort_keys=True)
    return archive.digest(*archive.from_bytes(bytes(data), kind.name))


FRONTIER = frozenset({*ls.Frontier.__annotations__, "best", "crowned", "fronts"})


def flips(name, folder, seed=0):
    """Each bit of each byte of a file, in random order: the file is refused, or says the same."""
    kind, path = KINDS[name], Path(folder) / f"{name}-flipped"
    kind.make(path)
    data = path.read_bytes()
    before = content(data, kind)
    places = list(range(8 * len(data)))
    random.Random(seed).shuffle(places)

    def flip(place):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        if content(flipped, kind) != before:
            raise WrongError(f"bit {place} of a {name} changed what it says in silence")

    for place in places:
        yield f"bit {place} of a {name}", lambda place=place: flip(place)


EVIL_FACTS = [None, True, -1, 0, 1, 7, 2**31, 2**70, 0.5, -0.5, 1e308, "x", "", [], [1], {}, DEEP]
EVIL_FACTS += [float("nan"), float("inf"), [None], {"kind": "x"}, "rows" * 99]
EVIL_NUMBERS = [-7, -1, 0, 1, 2, 5, 2**31 - 1, 2**31, 2**62, -(2**62), 0.5, 1e308, -1e308]
EVIL_NUMBERS += [float("nan"), float("inf"), -float("inf")]


def paths_of(data, place=()):
    """Every place in nested facts."""
    yield place
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from paths_of(value, (*place, key))
        else:
            yield (*place, key)


def edited_fact(facts, place, value):
    """The facts with another value at a place."""
    other = copy.deepcopy(facts)
    *way, last = place
    here = other
    for key in way:
        here = here[key]
    here[last] = value
    return other


def edited_array(array, field, value, generator, everywhere):
    """The array with another value at one entry of a field, or at all; None if it cannot be."""
    other = array.copy()
    part = other if field is None else other[field]
    if not part.size:
        return None
    flat = part.reshape(-1)
    place = slice(None) if everywhere else generator.randrange(flat.size)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            flat[place] = value
    except (OverflowError, ValueError, RuntimeWarning):
        return None
    part[...] = flat.reshape(part.shape)
    return other


def edits(name, folder, seed=0):
    """Every field of a file set to every evil value, with a right digest: refused, or harmless."""
    kind, path = KINDS[name], Path(folder) / f"{name}-edited"
    kind.make(path)
    generator = random.Random(seed)
    if kind.name == "frontier":
        facts, arrays = json.loads(path.read_text()), {}
        for own in ("format", "kind", "library", "sha256"):
            del facts[own]
    else:
        facts, arrays = storage.read(path, kind.name)

    def write(facts, arrays):
        if kind.name == "frontier":
            path.write_text(archive.to_text(kind.name, facts))
        else:
            path.write_bytes(archive.to_bytes(kind.name, facts, arrays))
        kind.use(path)

    tries = [
        (f"{name}: fact {place} = {shown(value)}", edited_fact, (facts, place, value))
        for place in paths_of(facts)
        if place
        for value in EVIL_FACTS
    ]
    tries += [
        (
            f"{name}: array {key}.{field} = {value} {everywhere}",
            None,
            (key, field, value, everywhere),
        )
        for key, array in arrays.items()
        for field in array.dtype.names or [None]
        for value in EVIL_NUMBERS
        for everywhere in (False, True)
    ]
    generator.shuffle(tries)
    for what, edit, given in tries:
        if edit is not None:
            yield what, lambda edit=edit, given=given: write(edit(*given), arrays)
            continue
        key, field, value, everywhere = given
        other = edited_array(arrays[key], field, value, generator, everywhere)
        if other is not None:
            yield what, lambda key=key, other=other: write(facts, arrays | {key: other})
    for key, array in arrays.items():
        for what, other in (
            ("absent", None),
            ("of another kind", np.zeros(array.shape, "S3")),
            ("shorter", array[:-1]),
            ("longer", np.concatenate([array, array])),
            ("deeper", array[None]),
        ):
            rest = {name: one for name, one in arrays.items() if name != key}
            more = rest if other is None else rest | {key: other}
            yield f"{name}: array {key} {what}", lambda more=more: write(facts, more)
