"""The commands of a ledger, and history from a CSV file."""

import json
import re

import numpy as np
import pytest

import lowswitch as ls
from ledgers import approve, episode, made, play
from lowswitch.cli import commands
from lowswitch.envs.files import policy_from_file
from lowswitch.ledger import Ledger, LedgerError, import_csv

CREATE = (
    "--algorithm q-h:c=0.05 --horizon 3 --states s0,s1,s2,s3 --actions left,right"
    " --episodes 50 --by me"
)


def run(capsys, command, address, *more):
    code = commands.main(["ledger", command, str(address), *more])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_ledger_with_features_is_read_and_decided_on_by_the_command_line(tmp_path, capsys):
    address = tmp_path / "run.db"
    size = {"horizon": 1, "features": 2, "actions": ["wait", "treat"], "episodes": 50}
    ledger = Ledger.create(address, ls.few(deployments=4), **size)
    for number in range(9):
        ledger.tell(ledger.ask("here", f"r{number}").ticket, [1.0, number / 9], None, number % 2)
    table = run(capsys, "proposal", address)[1]
    assert re.search(r"^all episodes|^all cases +100% ", table, re.MULTILINE)
    assert "The usual action changes in" in table
    who = ["--by", "board", "--reason", "seen"]
    chosen = ["--proposal", ledger.proposal().hash[:12], *who]
    said = run(capsys, "reject", address, *chosen)[1]
    assert said.startswith("the deployed policy stays for now, another one waits as ")
    chosen[1] = ledger.proposal().hash
    said = run(capsys, "approve", address, *chosen)[1]
    assert said.startswith("the policy approved, nothing waits; version 2 is deployed now")
    assert "whole" in run(capsys, "verify", address)[1]


def test_a_ledger_takes_a_saved_plan_and_a_patience_in_days(tmp_path, capsys):
    plan = tmp_path / "plan.json"
    plan.write_text('{"expected": [[0, 0.5, 1.0, 1.5]]}')
    more = ["--forecast", str(plan), "--patience-days", "30"]
    assert run(capsys, "create", tmp_path / "run.db", *CREATE.split(), *more)[0] == 0
    terms = Ledger.open(tmp_path / "run.db", read_only=True).terms
    assert (terms.patience_days, terms.forecast) == (30.0, ((0, 0.5, 1.0, 1.5),))
    plan.write_text("{}")
    code, _, error = run(capsys, "create", tmp_path / "other.db", *CREATE.split(), *more)
    assert (code, "is not a plan.json of this version" in error) == (2, True)


def test_a_run_with_features_by_the_command_line(tmp_path, capsys):
    """Created with ranges and units, asked with a context, told a vector; a bad one is refused."""
    address = tmp_path / "run.db"
    make = ["--algorithm", "few:deployments=4", "--actions", "wait,treat", "--episodes", "50"]
    make += ["--by", "office"]
    code, _, error = run(capsys, "create", address, *make)
    assert (code, "give --states for a table, or --features" in error) == (2, True)
    features = ["--features", "age:18..90:years,dose:0..:mg"]
    assert run(capsys, "create", address, *make, *features)[0] == 0
    ask = ["--site", "here", "--request", "r1", "--context", "40 2"]
    said = run(capsys, "ask", address, *ask)[1]
    action, chance = re.search(r"version 1 plays (\w+) \(propensity ([\d.]+)\)", said).groups()
    issued = json.loads(run(capsys, "ask", address, *ask, "--json")[1])
    assert issued["choice"] == {"action": action, "propensity": float(chance)}
    assert issued["labels"]["features"] == ["age", "dose"]
    report = ["--ticket", issued["ticket"], "--action", action, "--reward", "1"]
    code, _, error = run(capsys, "tell", address, *report, "--state", "17 2")
    assert (code, "age is 17 years, outside of the declared range 18 to 90" in error) == (2, True)
    assert run(capsys, "tell", address, *report, "--state", "40 2")[0] == 0
    who = ["--by", "board", "--reason", "seen"]
    assert run(capsys, "forbid", address, "--forbid", "treat", *who)[0] == 0
    with Ledger.open(address, read_only=True) as ledger:
        told = [one.payload for one in ledger.events() if one.kind == "told"]
        assert (told[0]["states"], told[0]["propensities"]) == ([[40, 2]], [float(chance)])
        assert ledger.policy.allowed.tolist() == [[True, False]]
        assert ledger.terms.about[1].range == "0 to ∞ mg"


def test_a_run_by_the_command_line(tmp_path, capsys):
    address = tmp_path / "run.db"
    assert run(capsys, "create", address, *CREATE.split())[0] == 0
    number, pending = 0, None
    while pending is None:
        number += 1
        ask = ["--site", "here", "--request", f"r{number}", "--json"]
        issued = json.loads(run(capsys, "ask", address, *ask)[1])
        states, actions, rewards = episode(issued["policy"], number)
        names = ["--state", ",".join(f"s{x}" for x in states)]
        names += ["--action", ",".join(("left", "right")[a] for a in actions)]
        report = ["--ticket", issued["ticket"], *names, "--reward", ",".join(map(str, rewards))]
        code, out, _ = run(capsys, "tell", address, *report, "--json")
        assert (code, json.loads(out)["number"]) == (0, number)
        pending = json.loads(run(capsys, "proposal", address, "--json")[1])
    table = run(capsys, "proposal", address)[1]
    assert pending["hash"] in table
    assert re.search(
        r"^2 +s\d +left +right +left \d+, right 0 .*UNTRIED; never tried: right$",
        table,
        re.MULTILINE,
    )
    row = pending["rows"][0]
    who = ["--by", "board", "--reason", "seen"]
    rows = ["--rows", f"{row['step']}:{row['state_label']}"]
    decided = ["--proposal", pending["hash"], *rows, *who]
    assert json.loads(run(capsys, "approve", address, *decided, "--json")[1])["version"] == 2
    code, _, error = run(capsys, "approve", address, *decided)
    assert (code, "does not wait for a decision any more" in error) == (2, True)
    ask = ["--site", "here", "--request", "lost", "--json"]
    lost = json.loads(run(capsys, "ask", address, *ask)[1])["ticket"]
    assert "missing" in run(capsys, "missing", address, "--ticket", lost, *who)[1]
    assert run(capsys, "freeze", address, *who)[0] == 0
    assert "paused this run" in run(capsys, "ask", address, "--site", "here", "--request", "x")[2]
    assert run(capsys, "thaw", address, *who)[0] == 0
    assert run(capsys, "rollback", address, "--version", "1", *who)[0] == 0
    code, out, _ = run(capsys, "verify", address)
    assert (code, "events are whole" in out, "None" in out) == (0, True, False)
    assert run(capsys, "export", address, "--out", str(tmp_path / "events.jsonl"))[0] == 0
    assert run(capsys, "backup", address, "--out", str(tmp_path / "copy.db"))[0] == 0
    status = json.loads(run(capsys, "status", tmp_path / "copy.db", "--json")[1])
    assert (status["version"], status["issued"], status["missing"]) == (3, number + 1, 1)
    assert run(capsys, "propose", address, "--by", "me")[0] == 0


def test_a_veto_and_an_amendment_by_the_command_line(tmp_path, capsys):
    address = tmp_path / "run.db"
    ledger = made(address)
    while ledger.proposal() is None:
        play(ledger, 1)
    pending = ledger.proposal()
    who = ["--by", "board", "--reason", "unsafe"]
    assert run(capsys, "reject", address, "--proposal", pending.hash, "--forever", *who)[0] == 0
    report = ["--ticket", "t1", "--state", "0,0,0", "--reward", "0,0,0", *who]
    assert run(capsys, "amend", address, *report)[0] == 0
    ledger.store.execute("UPDATE events SET body = ? WHERE seq = 3", "[]")
    code, _, error = run(capsys, "verify", address)
    assert (code, "event 3: its hash does not match its text" in error) == (3, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "left,right,left,up\n" * 3,
            "entry 4 in line 1 .* is 'up', which is not an action; .*left, right.*, or numbers",
        ),
        ("0,1,0,0\n0,1\n0,0,0,0\n", "line 2 of .* has 2 entries, not 4"),
        ("0,1,0,0\n", "has 1 lines; a table of actions has 3 lines"),
        ("", "has 0 lines"),
        ("0,1,0,7\n" * 3, "entry 4 in line 1 .* is '7', which is not an action"),
    ],
)
def test_a_policy_in_a_file_that_is_none(tmp_path, capsys, text, message):
    (tmp_path / "first.csv").write_text(text)
    options = [*CREATE.split(), "--policy", str(tmp_path / "first.csv")]
    code, _, error = run(capsys, "create", tmp_path / "run.db", *options)
    assert code == 2
    assert re.search(message, error), error
    assert not (tmp_path / "run.db").exists()


def test_a_ledger_begins_with_the_policy_in_a_file(tmp_path, capsys):
    (tmp_path / "first.csv").write_text("left, right,0,1\nleft,left,left,left\n\n1,1,1,1\n")
    options = [*CREATE.split(), "--policy", str(tmp_path / "first.csv")]
    assert run(capsys, "create", tmp_path / "run.db", *options)[0] == 0
    table = [[0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]]
    assert Ledger.open(tmp_path / "run.db").policy.tolist() == [table]
    missing = [*CREATE.split(), "--policy", str(tmp_path / "none")]
    assert "cannot read a table" in run(capsys, "create", tmp_path / "other.db", *missing)[2]


def test_labels_that_look_like_numbers_are_labels(tmp_path):
    """And a file that Excel wrote begins with a mark."""
    file = tmp_path / "first.csv"
    file.write_text("2,1\n", encoding="utf-8-sig")
    assert policy_from_file(file, [" 1", "2 "]) == [[1, 0]]
    assert policy_from_file(file, 3) == [[2, 1]]
    file.write_text("0,1\n")
    with pytest.raises(
        ValueError, match="entry 1 .* is '0', which is not an action; actions are 1, 2$"
    ):
        policy_from_file(file, ["1", "2"])


# ---- what people read ----------------------------------------------------------------------------

LABELS = (
    "--algorithm psrl:members=16,schedule=asked,deployments=9 --horizon 3 --episodes 50 --by me"
    " --actions wait,treat --absorbing gone --states well,ill,worse,gone --steps one,two,three"
)


def labelled(tmp_path, capsys):
    """A ledger with labels, by the command line, and the same by Python."""
    address = tmp_path / "run.db"
    assert run(capsys, "create", address, *LABELS.split())[0] == 0
    return address, Ledger.open(address)


def test_a_ticket_shows_its_policy_in_a_table_of_labels(tmp_path, capsys):
    address, _ = labelled(tmp_path, capsys)
    out = run(capsys, "ask", address, "--site", "north", "--request", "p1")[1]
    assert "number 1 of north, p1; play version 1:\n\n" in out
    assert "state  one   two   three\nwell   wait  wait  wait\nill " in out
    asked = run(capsys, "ask", address, "--site", "north", "--request", "p1", "--json")[1]
    facts = json.loads(asked)
    assert facts["policy"] == [[0] * 4] * 3
    assert facts["labels"]["actions"] == ["wait", "treat"]
    assert facts["labels"]["states"] == ["well", "ill", "worse", "gone"]


def test_the_ticket_that_blocks_learning_is_named(tmp_path, capsys):
    address, ledger = labelled(tmp_path, capsys)
    first = ledger.ask("north", "p2")
    ledger.ask("south", "p3")
    assert "behind" not in run(capsys, "status", address)[1]
    later = ledger.ask("north", "p4")
    ledger.tell(later.ticket, ["well"] * 3, None, [0, 0, 1])
    words = f"1 report waits behind ticket {first.ticket[:12]}… (north, p2)"
    status = run(capsys, "status", address)[1]
    assert re.search(rf"^behind +{re.escape(words)}$", status, re.MULTILINE)
    assert "None" not in status
    assert json.loads(run(capsys, "status", address, "--json")[1])["behind"] == words
    printed = run(capsys, "tickets", address)[1]
    assert re.search(rf"^1 +{first.ticket} +north +p2 +1 +just now$", printed, re.MULTILINE)
    assert "p4" not in printed
    assert printed.endswith(f"\n2 tickets open\n{words}\n")
    south = run(capsys, "tickets", address, "--site", "south")[1]
    assert ("p3" in south, "p2 " in south, "1 ticket open" in south) == (True, False, True)
    (waiting,) = json.loads(run(capsys, "tickets", address, "--status", "waiting", "--json")[1])
    assert (waiting["request"], waiting["status"]) == ("p4", "waiting")
    assert "no ticket is missing" in run(capsys, "tickets", address, "--status", "missing")[1]


def test_held_reports_say_that_the_ticket_before_them_is_missing(tmp_path):
    ledger = made(tmp_path / "run.db", missing="hold")
    first = ledger.ask("north", "p2")
    play(ledger, 2)
    ledger.missing(first.ticket, "lost", by="me")
    assert ledger.status().behind == "2 reports wait behind ticket t1 (north, p2), which is missing"
    with pytest.raises(ValueError, match="status must be"):
        ledger.list_tickets("lost")


def test_a_decision_prints_one_line_and_a_proposal_says_what_it_replaces(tmp_path, capsys):
    address, ledger = labelled(tmp_path, capsys)
    play(ledger, 3)
    old = ledger.propose(by="me")
    play(ledger, 1)
    printed = run(capsys, "propose", address, "--by", "me")[1]
    assert f"It replaces the proposal {old.hash[:12]}, on which nobody had decided" in printed
    for word in ("gain ", "better ", "UNTRIED "):
        assert word in printed.partition("\n\ngain")[1] + printed.partition("\n\ngain")[2]
    pending = ledger.proposal()
    rows = [f"{row['step_label']}:{row['state_label']}" for row in pending.rows]
    who = ["--by", "board", "--reason", "seen"]
    some = ["--proposal", pending.hash[:8], "--rows", rows[0]]
    line = run(capsys, "reject", address, *some, *who)[1]
    left = ledger.proposal()
    waits = f"{len(rows) - 1} rows wait as {left.hash[:12]}"
    assert line == f"1 row stays for now, {waits}; version 1 stays deployed\n"
    line = run(capsys, "approve", address, "--proposal", left.hash[:12], *who)[1]
    said = f"{len(rows) - 1} rows approved, nothing waits; version 2 is deployed now\n"
    assert line == said


def test_a_proposal_that_nobody_wants_any_more_is_said_to_be_withdrawn(tmp_path, capsys):
    ledger = made(
        tmp_path / "run.db",
        ls.q_hoeffding(c=0.05, schedule="asked"),
        horizon=1,
        states=["any"],
        actions=["old", "new"],
    )

    def told(action, reward, times):
        for _ in range(times):
            ticket = ledger.ask("here", f"r{ledger.status().issued}").ticket
            ledger.tell(ticket, ["any"], [action], [reward])

    told("old", 0, 5)
    first = ledger.propose(by="me")
    assert first.rows[0]["to"] == [1]
    told("new", 0, 60)
    told("old", 1, 60)
    printed = run(capsys, "propose", tmp_path / "run.db", "--by", "me")[1]
    assert printed.startswith("nothing to propose: ")
    assert f"The proposal {first.hash[:12]}, on which nobody had decided, is withdrawn" in printed
    assert ledger.proposal() is None


def test_an_episode_that_is_terminated_ends_where_the_ledger_says(tmp_path, capsys):
    address, ledger = labelled(tmp_path, capsys)
    ticket = ["--ticket", ledger.ask("north", "p1").ticket]
    report = ["--state", "well,ill", "--action", "wait,treat", "--reward", "0,1"]
    assert run(capsys, "tell", address, *ticket, *report, "--ended", "terminated")[0] == 0
    assert Ledger.open(address).status().learned == 1


def test_refusals_at_the_shell_name_its_options(tmp_path, capsys):
    address = tmp_path / "run.db"
    run(capsys, "create", address, *CREATE.split())
    ask = ["--site", "here", "--request", "a", "--json"]
    ticket = ["--ticket", json.loads(run(capsys, "ask", address, *ask)[1])["ticket"]]
    states, ended = ["--state", "s0,s1,s2"], ["--ended", "terminated"]
    for more, words in (
        (states, "--reward is missing: give one for each step"),
        (["--reward", "0,0,0"], "--state is missing"),
        ([*states, "--reward", "0,0"], "or --ended truncated on the command line"),
        ([*states, "--reward", "0,0,0", *ended], "which is --absorbing on the command line"),
    ):
        code, _, error = run(capsys, "tell", address, *ticket, *more)
        assert (code, words in error) == (2, True), error
    assert "lowswitch ledger create" in run(capsys, "status", tmp_path / "none.db")[2]


# ---- history -------------------------------------------------------------------------------------

GOOD = """id,when,visit,place,what,paid
b,2025-02-01,1,s1,right,0
b,2025-02-01,2,s2,left,0.5
b,2025-02-01,3,s1,left,0
a,2025-01-01,1,s0,left,0
a,2025-01-01,3,s0,left,0
a,2025-01-01,2,s0,right,1
"""
NAMES = {"episode": "id", "date": "when", "step": "visit"}
NAMES |= {"state": "place", "action": "what", "reward": "paid"}
WORDS = {"states": ["s0", "s1", "s2", "s3"], "actions": ["left", "right"], "steps": ["1", "2", "3"]}


def imported(tmp_path, text, **options):
    (tmp_path / "old.csv").write_text(text)
    ledger = made(tmp_path / "run.db", **WORDS)
    given = {"most": 5, "by": "me", "attested": "the state alone decided", "columns": NAMES}
    return ledger, lambda: import_csv(ledger, tmp_path / "old.csv", **given | options)


def test_history_comes_in_by_its_dates(tmp_path):
    ledger, go = imported(tmp_path, GOOD)
    go()
    (event,) = [event for event in ledger.events() if event.kind == "history"]
    assert event.payload["states"] == [[0, 0, 0], [1, 2, 1]]  # a was earlier
    assert event.payload["actions"] == [[0, 1, 0], [1, 0, 0]]
    assert event.payload["source"] == "old.csv"
    assert ledger.verify().whole
    play(ledger, 30, decide=approve)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2,s2,left", "2,s9,left", "line 3, column state: there is no state 's9'"),
        ("3,s1,left,0", "3,s1,left,7", "line 4, column reward: the reward 7.0 is outside"),
        ("3,s1,left,0", "3,s1,left,x", "line 4, column reward: 'x' is not a number"),
        ("3,s1,left,0", "3,s1,,0", "line 4, column action: it is empty"),
        ("3,s1,left,0", "2,s1,left,0", "line 4, column step: episode 'b' has step 2 twice"),
        ("b,2025-02-01,3,s1,left,0\n", "", "line 3, column step: episode 'b' has 2 of 3 steps"),
        ("b,2025-02-01,2", "b,soon,2", "line 3, column date"),
        (",s2,left,0.5", ",s2,left", "line 3: 5 cells under 6 columns"),
        ("id,when", "ID,when", "line 1: there is no column 'id', but ID, when"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported(tmp_path, old, new, message):
    ledger, go = imported(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(LedgerError, match=re.escape(message)):
        go()
    assert ledger.status().events == 1


def test_import_by_the_command_line(tmp_path, capsys):
    text = GOOD.replace("id,when,visit,place,what,paid", "episode,date,step,state,action,reward")
    (tmp_path / "old.csv").write_text(text)
    address = tmp_path / "run.db"
    run(capsys, "create", address, *CREATE.split(), "--steps", "1,2,3")
    more = ["--most", "5", "--by", "me", "--attested", "the state alone decided"]
    assert run(capsys, "import", address, str(tmp_path / "old.csv"), *more)[0] == 0
    visits = Ledger.open(address)._ready().learner.visits
    assert np.count_nonzero(visits) == 6
    (tmp_path / "old.csv").write_text(text.replace("left", "right"))
    create = CREATE.replace("left,right", "right").split()
    run(capsys, "create", tmp_path / "one.db", *create, "--steps", "1,2,3")
    code, said, _ = run(capsys, "import", tmp_path / "one.db", str(tmp_path / "old.csv"), *more)
    assert (code, said.startswith("nothing to propose: ")) == (0, True)
