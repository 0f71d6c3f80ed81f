"""What a ledger and a CSV file have logged, with propensities, for evaluations."""

import numpy as np
import pytest

import lowswitch as ls
from ledgers import H, S, made, play
from lowswitch.ledger import LedgerError, logged_batches, logged_csv, logged_episodes

MIXTURE = ls.few(deployments=3, asked=True, members=8, trial=None)


@pytest.fixture
def ledger(tmp_path):
    """Thirty episodes of a first version and thirty of a mixture that the board approved."""
    with made(tmp_path / "run.db", MIXTURE) as ledger:
        play(ledger, 30)
        proposal = ledger.propose(by="ann")
        ledger.approve(proposal.hash, by="ann", reason="a trial")
        play(ledger, 30)
        yield ledger


def test_propensities_are_the_shares_of_policies_that_agree_so_far(ledger):
    log = logged_episodes(ledger)
    assert log.states.shape == (60, H)
    assert (log.propensities[:30] == 1).all()  # one table
    tables = ledger.policy_of(2)
    for i in range(30, 60):
        agree = list(tables)
        for h in range(H):
            x, a = log.states[i, h], log.actions[i, h]
            still = [table for table in agree if table[h, x] == a]
            assert log.propensities[i, h] == pytest.approx(len(still) / len(agree))
            agree = still
    assert (log.propensities[30:] < 1).any()


def test_a_policy_is_evaluated_on_what_a_ledger_logged_after_its_proposal(ledger):
    later = logged_episodes(ledger, after=30)
    assert len(later.states) == 30
    found = ls.evaluate(ledger.policy, later)
    assert found.share.value == pytest.approx(1)
    assert found.ips.value == pytest.approx(found.logged.value)  # it played itself


def test_what_is_missing_truncated_or_corrected(ledger):
    asked = [ledger.ask("here", f"more {i}") for i in range(3)]
    ledger.missing(asked[0].ticket, "no report came", by="ann")
    ledger.tell(asked[1].ticket, [0], [asked[1].policy[0][0]], [0.5], ended="truncated")
    table = asked[2].policy
    ledger.tell(asked[2].ticket, [0] * H, [table[h][0] for h in range(H)], [0.0] * H)
    rewards = [0.25] * H
    ledger.amend(
        asked[2].ticket,
        [0] * H,
        [table[h][0] for h in range(H)],
        rewards,
        by="ann",
        reason="a slip of the pen",
    )
    log = logged_episodes(ledger)
    assert (len(log.states), log.left_out) == (61, 2)
    assert log.rewards[-1].tolist() == rewards


def test_an_episode_that_was_terminated_has_no_action_after_its_end(tmp_path):
    with made(tmp_path / "run.db", absorbing=0) as ledger:
        for i in range(2):
            issued = ledger.ask("here", f"r{i}")
            ledger.tell(issued.ticket, [1], [issued.policy[0][1]], [1.0], ended="terminated")
        log = logged_episodes(ledger)
    assert log.actions[:, 1:].tolist() == [[-1] * (H - 1)] * 2
    assert ls.evaluate(np.zeros((H, S), int), log).logged.value == 1


def test_without_reports_there_is_nothing_to_evaluate(tmp_path):
    with made(tmp_path / "run.db") as ledger:
        with pytest.raises(LedgerError, match="no whole reports"):
            logged_episodes(ledger)
        with pytest.raises(LedgerError, match="3 steps; pairs of arms"):
            logged_batches(ledger)


def test_arms_of_a_ledger_of_one_step(tmp_path):
    """Two states, three arms; the versions are the batches, and their laws the shares."""
    generator = np.random.default_rng(1)
    size = {"horizon": 1, "states": 2, "actions": 3, "episodes": 400}
    with made(
        tmp_path / "run.db", ls.few(deployments=3, asked=True, members=8, trial=None), **size
    ) as ledger:
        for _ in range(3):
            for _ in range(60):
                issued = ledger.ask("here", f"r{ledger.status().issued}")
                x = int(generator.integers(2))
                paid = float(generator.random() < 0.3 + 0.2 * (issued.policy[0][x] == x))
                ledger.tell(issued.ticket, [x], [issued.policy[0][x]], [paid])
            proposal = ledger.propose(by="ann")
            if proposal is not None:
                ledger.approve(proposal.hash, by="ann", reason="a trial")
        data = logged_batches(ledger)
        laws = [[(ledger.policy_of(2)[:, 0, x] == a).mean() for a in range(3)] for x in range(2)]
    assert len(data.actions) == 180
    assert data.laws[1] == pytest.approx(np.array(laws))
    found = ls.compare_arms(data)
    assert [(one.state, one.first, one.second) for one in found[:3]] == [
        (0, 0, 1),
        (0, 0, 2),
        (0, 1, 2),
    ]


LINES = """episode,step,state,action,reward,propensity
p1,0,well,wait,0.5,0.8
p1,1,ill,drug,1,0.25
p2,0,ill,wait,0,0.5
p2,1,well,wait,1,1
"""
SIZE = {"horizon": 2, "states": ["well", "ill"], "actions": ["wait", "drug"]}


def test_a_csv_file_with_and_without_propensities(tmp_path):
    path = tmp_path / "old.csv"
    path.write_text(LINES, encoding="utf-8")
    log = logged_csv(path, **SIZE)
    assert log.states.tolist() == [[0, 1], [1, 0]]
    assert log.actions.tolist() == [[0, 1], [0, 0]]
    assert log.rewards.tolist() == [[0.5, 1], [0, 1]]
    assert log.propensities.tolist() == [[0.8, 0.25], [0.5, 1]]
    # the policy of (wait, drug in ill): weights 1 / 0.8 and then 5 of the first episode alone
    found = ls.evaluate([[0, 0], [0, 1]], log)
    assert found.ips.value == pytest.approx((0.5 / 0.8 + 5 + 0 + 2) / 2)
    short = "\n".join(line.rpartition(",")[0] for line in LINES.splitlines())
    path.write_text(short, encoding="utf-8")
    assert logged_csv(path, **SIZE).propensities is None


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (",0.25", ",", "line 3, column propensity: it is empty"),
        (",0.25", ",often", "line 3, column propensity: 'often' is not a number"),
    ],
)
def test_a_propensity_that_is_none_is_refused(tmp_path, before, after, message):
    path = tmp_path / "old.csv"
    path.write_text(LINES.replace(before, after), encoding="utf-8")
    with pytest.raises(LedgerError, match=message):
        logged_csv(path, **SIZE)
