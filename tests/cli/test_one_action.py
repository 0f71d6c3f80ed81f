"""A policy that plays one action in every context, as a protocol in use often does."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.cli import commands


def test_one_action_is_played_in_every_context_or_one_at_each_step():
    contexts = np.random.default_rng(0).normal(scale=100, size=(50, 3))
    policy = ls.LinearPolicy.always(2, features=3, actions=4)
    assert (policy.propensities(contexts)[:, 2] == 1).all()
    policy = ls.LinearPolicy.always([1, 3], features=3, actions=4, horizon=2)
    assert [policy.act(contexts[0], 0, h).action for h in (0, 1)] == [1, 3]
    assert policy.without([1]).act(contexts[0], 0).action == 0  # a veto leaves another one
    with pytest.raises(ValueError, match="action must be 0 to 3, not 4 to 4"):
        ls.LinearPolicy.always(4, features=3, actions=4)


def test_a_file_that_names_one_action_is_the_policy_in_use(tmp_path, capsys):
    usual, run = tmp_path / "usual.csv", str(tmp_path / "run.db")
    usual.write_text("usual\n")
    create = ["ledger", "create", run, "--algorithm", "few:deployments=3,asked=true"]
    size = ["--features", "heat:0..9,wear", "--actions", "slow,usual", "--episodes", "40"]
    assert commands.main([*create, *size, "--policy", str(usual), "--by", "office"]) == 0
    with ls.ledger.Ledger.open(run) as ledger:
        for number in range(8):
            issued = ledger.ask("here", f"part {number}")
            assert issued.act([number, 0.5]).action == 1
            ledger.tell(issued.ticket, [number, 0.5], "usual", 0.25 + 0.5 * (number % 2))
    capsys.readouterr()
    assert commands.main(["evaluate", "--policy", str(usual), "--ledger", run]) == 0
    assert "the log itself       0.5" in capsys.readouterr().out
