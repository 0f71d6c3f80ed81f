"""Every public function with evil values, fleets that lie, and learners that are told nonsense."""

import contextlib
import inspect
import json
import random

import numpy as np
from scipy import sparse

import lowswitch as ls
from fuzz.attempts import EVIL, REFUSALS, WrongError, shown
from fuzz.files import LEARNERS, MASK, MDP, taught
from lowswitch import bandits, concurrent
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.concurrent import InProcess, Processes, Ray, Stop, System


def sparse_table(indices, indptr=(0, 1, 2, 3, 4, 5, 6), data=(1.0,) * 6):
    """A sparse matrix that scipy does not check."""
    matrix = sparse.csr_array((6, 3))
    matrix.data, matrix.indices = np.array(data), np.array(indices)
    matrix.indptr = np.array(indptr)
    return matrix


def coordinates(rows):
    matrix = sparse.coo_array((np.ones(6), (np.arange(6), np.zeros(6, dtype=int))), shape=(6, 3))
    matrix.coords = (np.array(rows), matrix.coords[1])
    return matrix


TABLES = [
    MDP.rewards,
    np.full((3, 2), 1 + 3e-16),
    np.full((3, 2), 1j),
    np.full((3, 2, 3), 1 / 3, dtype=np.float32),
    np.full((3, 2, 3), 1 / 3) + 0j,
    np.eye(3)[[0, 1, 2, 0, 1, 2]].reshape(3, 2, 3).astype(np.int8),
    sparse_table([0, 1, 2, 3, -1, 10**6]),
    sparse_table([0, 1, 2, 0, 1, 2], (0, 9, 1, 3, 4, 5, 6)),
    sparse_table([0, 1, 2, 0, 1, 2], data=(1.0, np.nan, 1, 1, 1, 1)),
    coordinates([0, 1, 2, 3, 4, 10**9]),
    coordinates([0, 1, 2, 3, 4, -5]),
    sparse.csr_array(np.eye(3)[[0, 1, 2, 0, 1, 2]]),
]
CHANGES = np.array([[1, 0, 1, 0], [3, 1, 2, 1]])


class BadFleet:
    """A fleet of one's own that returns what it should not."""

    def __init__(self, states, rewards):
        self.answer = states, rewards

    def open(self, source, seed, policy):
        return self

    bytes_sent = bytes_received = lost = 0

    def play(self, changes, episodes):
        states, rewards = self.answer
        return (np.resize(states, (len(episodes), 2)), np.resize(rewards, (len(episodes), 2)))

    def close(self):
        pass


def bad_play(states, actions, rewards):
    return System(lambda *_: (states, actions, rewards), horizon=2, states=3, actions=2)


def in_rounds(**given):
    asked = {"source": MDP, "algorithm": LEARNERS["rows"], "episodes": 8, "machines": 2}
    return concurrent.run(**asked | {"progress": False} | given)


def tables_of(**given):
    asked = {"transitions": np.full((3, 2, 3), 1 / 3), "rewards": np.zeros((3, 2)), "horizon": 2}
    ls.TabularMDP(**asked | given).optimal_value()


def learner_of(**given):
    ls.Learner(**{"algorithm": LEARNERS["rows"], **SIZE} | given)


def simulated(**given):
    asked = {"mdp": MDP, "algorithm": LEARNERS["rows"], "episodes": 4, "seeds": 1}
    ls.simulate(**asked | {"progress": False} | given)


def pulled(**given):
    asked = {"means": (0.9, 0.5), "algorithm": bandits.ucb2(), "pulls": 20, "runs": 2}
    bandits.simulate(**asked | {"progress": False} | given)


SIZE = {"horizon": 2, "states": 3, "actions": 2, "episodes": 60}
THEORY = {"H": 3, "S": 3, "A": 2, "K": 100, "p": 0.1, "eps": 0.1, "M": 4, "bonus": "H"}
WORK = ("episodes", "seeds", "pulls", "runs", "machines", "first_seed", "states", "horizon", "size")


def door(call, options, more=()):
    return call, options, [*EVIL, *more]


def doors():
    """Each public door: a function, its options, and what else to try there."""
    yield door(tables_of, ["transitions", "rewards", "start", "horizon", "reward_law"], TABLES)
    yield door(tables_of, ["actions_allowed"], [MASK, ~MASK])
    yield door(learner_of, [*SIZE, "algorithm", "actions_allowed", "seed"])
    yield door(simulated, ["mdp", "algorithm", "episodes", "seeds", "threads", "regret", "history"])
    yield door(in_rounds, ["source", "algorithm", "episodes", "machines", "rule", "fleet", "seed"])
    yield door(in_rounds, ["stop", "checkpoint", "save_every", "regret"])
    yield door(pulled, ["means", "algorithm", "pulls", "runs", "first_seed", "threads"])
    yield door(lambda **given: ls.rescale(**{"rewards": [0.0, 5.0]} | given), ["rewards", "low"])
    yield door(lambda **given: ls.History(**given), ["changes"])
    yield door(lambda **given: ls.from_gymnasium(**{"horizon": 2} | given), ["env", "horizon"])
    yield door(lambda **given: Stop(**given), ["policy", "mixture", "rounds", "seconds"])
    yield door(lambda **given: Processes(**given), ["workers", "patience"])
    yield door(lambda **given: Ray(**given), ["address", "workers", "patience"])
    yield door(lambda **given: ls.load(**given), ["path"])
    yield door(lambda **given: ls.Learner.load(**given), ["path"])
    yield door(lambda **given: ls.Frontier.load(**given), ["path"])
    yield door(lambda **given: ls.Algorithm.from_dict(**given), ["data"])
    yield door(lambda **given: ls.Algorithm.from_text(**given), ["text"])
    yield door(lambda **given: ls.Learner.from_bytes(**given), ["data"])
    history = ls.History(CHANGES)
    regret = {"mdp": MDP, "history": history, "episodes": 9, "initial": np.ones((2, 3), dtype=int)}
    yield door(lambda **given: ls.exact_regret(**regret | given), list(regret))
    gaps = {name: regret[name] for name in ("mdp", "history", "initial")}
    yield door(lambda **given: ls.deployment_gaps(**gaps | given), list(gaps))
    for recipe in RECIPES.values():
        names = list(inspect.signature(recipe).parameters)
        yield door(lambda recipe=recipe, **given: planned(recipe(**given)), names)
    for recipe in bandits.RECIPES.values():
        names = list(inspect.signature(recipe).parameters)
        yield door(lambda recipe=recipe, **given: pulled(algorithm=recipe(**given)), names)
    for problem in ls.envs.PROBLEMS.values():
        yield door(problem, list(inspect.signature(problem).parameters))
    for name in ("QLearning", "Planning", "Posterior", "UCB2", "Growth", "Grid", "WholePolicy"):
        part = getattr(ls.parts, name)
        yield door(part, list(inspect.signature(part).parameters))


def planned(algorithm):
    """Work an algorithm out for a problem of the largest number of episodes, and a small one."""
    if not isinstance(algorithm, ls.Algorithm):
        raise WrongError("a recipe made no algorithm")
    for episodes in (60, 2**31 - 2):
        ls.Learner(algorithm, horizon=2, states=3, actions=2, episodes=episodes)
    json.dumps(algorithm.to_dict())


def at_doors(folder, seed=0):
    """One or two options of a door set to evil values, the others as they should be."""
    generator, known = random.Random(seed), list(doors())
    while True:
        call, options, values = generator.choice(known)
        chosen = generator.sample(options, min(len(options), generator.choice((1, 1, 1, 2))))
        given = {}
        for name in chosen:
            pool = values if name not in WORK else [one for one in values if idle(one)]
            given[name] = generator.choice(pool)
        what = ", ".join(f"{name}={shown(value)}" for name, value in given.items())
        name = getattr(call, "__qualname__", repr(call))
        yield f"{name}({what})", lambda call=call, given=given: call(**given)


def idle(value):
    """Whether an amount of work is no amount, or a small one."""
    large = isinstance(value, int | np.integer) and 2**20 < value < 2**31
    return not large


def at_fleets(folder, seed=0):
    """Fleets and systems of one's own that return what they should not."""
    generator = random.Random(seed)
    arrays = [one for one in EVIL if isinstance(one, np.ndarray)]
    numbers = [-7, 0, 1, 3, 10**6, 2**31, 0.5, 1.5, np.nan, -np.inf, 2**40]
    while True:
        values = generator.choices(numbers, k=3)
        states, actions, rewards = (
            generator.choice(arrays) if generator.random() < 0.3 else np.full((2, 2), value)
            for value in values
        )
        if generator.random() < 0.5:
            fleet = BadFleet(states, rewards)
            yield (
                f"a fleet returns {shown(states)}, {shown(rewards)}",
                lambda fleet=fleet: contained(source=System(len, **TRIO), fleet=fleet),
            )
        else:
            source = bad_play(states, actions, rewards)
            yield (
                f"a system returns {shown(states)}, {shown(actions)}, {shown(rewards)}",
                lambda source=source: contained(source=source, fleet=InProcess()),
            )


TRIO = {"horizon": 2, "states": 3, "actions": 2}


def contained(**given):
    """A run of rounds whose environment may fail, which has an exception of its own."""
    with contextlib.suppress(concurrent.PlayError):
        in_rounds(**given)


def at_learners(folder, seed=0):
    """Learners that are told what is wrong, and have learned nothing from it."""
    generator = random.Random(seed)
    learners = {name: taught(name) for name in LEARNERS}
    right = {"states": [0, 2], "actions": [0, 0], "rewards": [0.5, 0.0], "off_policy": True}
    while True:
        name = generator.choice(list(learners))
        learner, before = learners[name], learners[name].digest()
        chosen = generator.sample(list(right), generator.choice((1, 1, 2)))
        given = right | {key: generator.choice([*EVIL, *TABLES]) for key in chosen}

        def told(name=name, learner=learner, before=before, given=given):
            try:
                learner.tell(**given)
            except REFUSALS:
                if learner.digest() != before:
                    raise WrongError("a tell that failed changed the learner") from None
                raise
            if not np.isfinite(learner.values).all():
                raise WrongError("a learner was told what is no number")
            learners[name] = taught(name)

        what = ", ".join(f"{key}={shown(given[key])}" for key in chosen)
        yield f"{name}.tell({what})", told
