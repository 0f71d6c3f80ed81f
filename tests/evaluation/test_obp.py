"""The same numbers as Open Bandit Pipeline (obp) on its own data: random clicks of a shop.

`obp.json` has 3,000 rows of the data set that the wheel of obp 0.4.1 ships (men, random), a law of
the items in each position (how often Thompson sampling showed them, in its other log), and what
obp's estimators say of it. As contexts the same rows have the position and two features of the
user, and the policy is a mixture of linear ones. `python tests/evaluation/test_obp.py` writes the
file anew where obp can be imported.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.evaluation import Episodes, Log
from lowswitch.policy.shape import Shape

FILE = Path(__file__).with_name("obp.json")
POSITIONS, ITEMS, ROWS = 3, 34, 3000
USER = ("user_feature_0", "user_feature_1")


def cell_means(data, train):  # [positions, items]
    """Clicks by position and item with one more sample at the mean of all, the plain way."""
    means = np.zeros((POSITIONS, ITEMS))
    middle = np.mean([data["click"][i] for i in train])
    for position in range(POSITIONS):
        for item in range(ITEMS):
            found = [
                data["click"][i]
                for i in train
                if data["position"][i] == position and data["item"][i] == item
            ]
            means[position, item] = (sum(found) + middle) / (len(found) + 1)
    return means


def by_obp(data):
    """What obp says of the law, with models of clicks that this file fits."""
    n = len(data["click"])
    law = np.array(data["law"])  # [positions, items]
    predicted = np.zeros((n, ITEMS, POSITIONS))
    for fold in range(5):
        rest = [i for i in range(n) if i % 5 != fold]
        predicted[fold::5] = cell_means(data, rest).T
    whole = np.repeat(cell_means(data, range(n)).T[None], n, axis=0)
    laws = np.repeat(law.T[None], n, axis=0)
    return four_of_obp(data, laws, np.array(data["position"]), predicted, whole)


def four_of_obp(data, laws, position, predicted, whole):
    """obp's estimates, of laws and predictions [n, items, positions]; whole: without folds."""
    from obp import ope

    given = {
        "reward": np.array(data["click"]),
        "action": np.array(data["item"]),
        "pscore": np.full(len(data["click"]), 1 / ITEMS),
        "position": position,
        "action_dist": laws,
    }
    model = "estimated_rewards_by_reg_model"
    parts = {"action_dist": laws, "position": position, model: whole}
    return {
        "ips": ope.InverseProbabilityWeighting().estimate_policy_value(**given),
        "snips": ope.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given),
        "dr": ope.DoublyRobust().estimate_policy_value(**given, **{model: predicted}),
        "model": ope.DirectMethod().estimate_policy_value(**parts),
    }


# ---- contexts ------------------------------------------------------------------------------------


def contexts_of(data):  # [n, d]
    """A constant, and the position and two features of the user as zeros and ones."""
    columns = [np.eye(np.max(data[name]) + 1)[data[name]] for name in ("position", *USER)]
    return np.column_stack([np.ones(len(data["click"])), *columns])


def mixture(features):
    """Eight linear policies with weights that are drawn once."""
    weights = np.random.default_rng(0).normal(size=(1, features, ITEMS, 8))
    return ls.LinearPolicy(Shape.of(1, features, ITEMS), weights, np.uint64(0))


def ridge_means(data, x, train):  # [n, items]
    """Clicks by item: the mean of all, and a ridge regression of what is left, the plain way."""
    click, item = np.array(data["click"], dtype=float), np.array(data["item"])
    middle, means = click[train].mean(), np.zeros((len(x), ITEMS))
    for a in range(ITEMS):
        mine = [i for i in train if item[i] == a]
        square = x[mine].T @ x[mine] + np.eye(x.shape[1])
        means[:, a] = middle + x @ np.linalg.solve(square, x[mine].T @ (click[mine] - middle))
    return means


def contexts_by_obp(data):
    """What obp says of the mixture, with models of clicks that this file fits."""
    x = contexts_of(data)
    n = len(x)
    choices = (x @ mixture(x.shape[1]).weights[0].transpose(2, 0, 1)).argmax(axis=2)  # [8, n]
    laws = np.eye(ITEMS)[choices].mean(axis=0)[:, :, None]  # [n, items, 1]
    predicted = np.zeros((n, ITEMS, 1))
    for fold in range(5):
        rest = [i for i in range(n) if i % 5 != fold]
        predicted[fold::5, :, 0] = ridge_means(data, x, rest)[fold::5]
    whole = ridge_means(data, x, list(range(n)))[:, :, None]
    return four_of_obp(data, laws, np.zeros(n, dtype=int), predicted, whole)


def require_same_contexts(data, numbers):
    x = contexts_of(data)
    log = Log(x, np.array(data["item"]), np.array(data["click"]), np.full(len(x), 1 / ITEMS))
    found = ls.evaluate(mixture(x.shape[1]), log)
    for name, value in numbers.items():
        assert getattr(found, name).value == pytest.approx(value, rel=1e-9), name


# ---- the tests -----------------------------------------------------------------------------------


def require_same(data, numbers):
    log = Episodes(
        np.array(data["position"])[:, None],
        np.array(data["item"])[:, None],
        np.array(data["click"])[:, None],
        np.full((len(data["click"]), 1), 1 / ITEMS),
    )
    found = ls.evaluate(np.array(data["law"])[None], log)
    for name, value in numbers.items():
        assert getattr(found, name).value == pytest.approx(value, rel=1e-9), name


def test_the_numbers_of_obp_that_are_on_file():
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    assert set(kept["obp"]) == set(kept["contexts"]) == {"ips", "snips", "dr", "model"}
    require_same(kept["data"], kept["obp"])
    require_same_contexts(kept["data"], kept["contexts"])


def test_the_numbers_of_obp_that_is_installed():
    pytest.importorskip("obp.ope", reason="obp or its torch is not there", exc_type=ImportError)
    data = json.loads(FILE.read_text(encoding="utf-8"))["data"]
    require_same(data, by_obp(data))
    require_same_contexts(data, contexts_by_obp(data))


def _written():
    """The rows and the law from the files of obp."""
    import obp
    import pandas

    folder = Path(obp.__file__).parent / "dataset" / "obd"
    rows = pandas.read_csv(folder / "random" / "men" / "men.csv").head(ROWS)
    shown = pandas.read_csv(folder / "bts" / "men" / "men.csv")
    law = np.ones((POSITIONS, ITEMS))
    np.add.at(law, (shown["position"] - 1, shown["item_id"]), 1)
    data = {
        "item": rows["item_id"].tolist(),
        "position": (rows["position"] - 1).tolist(),
        "click": rows["click"].tolist(),
        "law": (law / law.sum(axis=1, keepdims=True)).tolist(),
        **{name: pandas.factorize(rows[name])[0].tolist() for name in USER},
    }
    found = {"obp": by_obp(data), "contexts": contexts_by_obp(data)}
    made = {
        kind: {name: float(value) for name, value in one.items()} for kind, one in found.items()
    }
    return {"made with": f"obp {obp.__version__}", **made, "data": data}


if __name__ == "__main__":
    FILE.write_text(json.dumps(_written()) + "\n", encoding="utf-8")
