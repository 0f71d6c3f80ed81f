"""The same numbers as Open Bandit Pipeline (obp) on its own data: random clicks of a shop.

`obp.json` has 3,000 rows of the data set that the wheel of obp 0.4.1 ships (men, random), a law of
the items in each position (how often Thompson sampling showed them, in its other log), and what
obp's estimators say of it. `python tests/evaluation/test_obp.py` writes the file anew where obp can
be imported.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.evaluation import Episodes

FILE = Path(__file__).with_name("obp.json")
POSITIONS, ITEMS, ROWS = 3, 34, 3000


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
    from obp import ope

    n = len(data["click"])
    law = np.array(data["law"])  # [positions, items]
    given = {
        "reward": np.array(data["click"]),
        "action": np.array(data["item"]),
        "pscore": np.full(n, 1 / ITEMS),
        "position": np.array(data["position"]),
        "action_dist": np.repeat(law.T[None], n, axis=0),
    }
    predicted = np.zeros((n, ITEMS, POSITIONS))
    for fold in range(5):
        rest = [i for i in range(n) if i % 5 != fold]
        predicted[fold::5] = cell_means(data, rest).T
    whole = np.repeat(cell_means(data, range(n)).T[None], n, axis=0)
    model = "estimated_rewards_by_reg_model"
    parts = {"action_dist": given["action_dist"], "position": given["position"], model: whole}
    return {
        "ips": ope.InverseProbabilityWeighting().estimate_policy_value(**given),
        "snips": ope.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given),
        "dr": ope.DoublyRobust().estimate_policy_value(**given, **{model: predicted}),
        "model": ope.DirectMethod().estimate_policy_value(**parts),
    }


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
    assert set(kept["obp"]) == {"ips", "snips", "dr", "model"}
    require_same(kept["data"], kept["obp"])


def test_the_numbers_of_obp_that_is_installed():
    pytest.importorskip("obp.ope", reason="obp or its torch is not there", exc_type=ImportError)
    data = json.loads(FILE.read_text(encoding="utf-8"))["data"]
    require_same(data, by_obp(data))


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
    }
    made = {name: float(value) for name, value in by_obp(data).items()}
    return {"made with": f"obp {obp.__version__}", "obp": made, "data": data}


if __name__ == "__main__":
    FILE.write_text(json.dumps(_written()) + "\n", encoding="utf-8")
