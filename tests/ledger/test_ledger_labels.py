"""Labels that look like numbers: a text is always a label, wherever it is read."""

import pytest

import lowswitch as ls
from ledgers import MDP, made
from lowswitch.cli import commands
from lowswitch.ledger import Client, Ledger, LedgerError, import_csv
from served import Served

ASKED = ls.psrl(members=16, schedule="asked", deployments=9)  # changes every row
NUMBERS = {
    "states": ["1", "2", "3", "4"],
    "actions": ["10", "20"],
    "steps": ["1", "2", "3"],
    "algorithm": ASKED,
}
CREATE = (
    "--algorithm psrl:members=16,schedule=asked,deployments=9 --horizon 3 --episodes 50 --by me"
    " --states 1,2,3,4 --actions 10,20 --steps 1,2,3 --absorbing 4"
)


def run(capsys, command, address, *more):
    code = commands.main(["ledger", command, str(address), *more])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def last(ledger, kind):
    """The payload of the newest event of a kind."""
    return ledger.newest(1, kind=kind)[0].payload


def test_the_command_line_reads_labels(tmp_path, capsys):
    address = tmp_path / "run.db"
    assert run(capsys, "create", address, *CREATE.split())[0] == 0
    ledger = Ledger.open(address)
    assert ledger.terms.absorbing == 3  # called 4
    ticket = ["--ticket", ledger.ask("here", "a").ticket]
    given = ["--state", "1,2,3", "--action", "10,20,10", "--reward", "0,0,1"]
    assert run(capsys, "tell", address, *ticket, *given)[0] == 0
    assert last(ledger, "told")["states"] == [0, 1, 2]
    assert last(ledger, "told")["actions"] == [0, 1, 0]
    who = ["--by", "me", "--reason", "seen"]
    again = ["--state", "4,4,4", "--action", "20,20,20", "--reward", "0,0,1"]
    assert run(capsys, "amend", address, *ticket, *again, *who)[0] == 0
    assert last(ledger, "amended")["states"] == [3, 3, 3]
    proposal = ledger.propose(by="me")
    rows = ["--proposal", proposal.hash, "--rows", "1:2,3:4"]
    assert run(capsys, "approve", address, *rows, *who)[0] == 0
    assert last(ledger, "approved")["rows"] == [[0, 1], [2, 3]]
    bare = made(tmp_path / "bare.db")  # without labels a number is its own label
    given = ["--ticket", bare.ask("here", "a").ticket, "--state", "1,2,3", "--action", "0,1,0"]
    assert run(capsys, "tell", tmp_path / "bare.db", *given, "--reward", "0,0,0")[0] == 0
    assert last(bare, "told")["states"] == [1, 2, 3]


@pytest.mark.parametrize(("states", "bad"), [("1,2,3,4", "0"), ("well,ill,worse,gone", "1")])
def test_a_text_that_is_no_label_is_refused(tmp_path, capsys, states, bad):
    address = tmp_path / "run.db"
    run(capsys, "create", address, *CREATE.replace("1,2,3,4", states).split()[:-2])
    ledger = Ledger.open(address)
    given = ["--ticket", ledger.ask("here", "a").ticket, "--state", ",".join([bad] * 3)]
    code, _, error = run(capsys, "tell", address, *given, "--reward", "0,0,0")
    assert (code, f"there is no state '{bad}'; the states are {states[:2]}" in error) == (2, True)
    assert ledger.status().open == 1


def test_a_csv_file_has_labels(tmp_path):
    ledger, file = made(tmp_path / "run.db", **NUMBERS), tmp_path / "old.csv"
    options = {"most": 5, "by": "me", "attested": "the state alone decided"}
    lines = ["episode,step,state,action,reward", "a,1,1,10,0", "a,2,3,20,1", "a,3,4,10,0"]
    for old, new, column in (("a,1,1", "a,0,1", "step"), ("3,4,10", "3,0,10", "state")):
        file.write_text("\n".join(lines).replace(old, new))
        with pytest.raises(LedgerError, match=f"column {column}: there is no {column} '0'"):
            import_csv(ledger, file, **options)
    file.write_text("\n".join(lines).replace("20", "1"))  # no label, but a position
    with pytest.raises(LedgerError, match="line 3, column action: there is no action '1'"):
        import_csv(ledger, file, **options)
    file.write_text("\n".join(lines))
    import_csv(ledger, file, **options)
    assert last(ledger, "history")["states"] == [[0, 2, 3]]
    assert last(ledger, "history")["actions"] == [[0, 1, 0]]


def test_a_number_that_could_mean_two_things_is_refused(tmp_path):
    ledger = made(tmp_path / "run.db", **NUMBERS)
    ticket = ledger.ask("here", "a").ticket
    twice = "state 1 could mean the label '1', or position 1 counted from 0, which is '2'"
    with pytest.raises(LedgerError, match=twice):
        ledger.tell(ticket, [1, 2, 3], ["10"] * 3, [0, 0, 0])
    with pytest.raises(LedgerError, match="action 10 is a label, .*; give it as '10'"):
        ledger.tell(ticket, ["1", "2", "3"], [10, 20, 10], [0, 0, 0])
    assert ledger.status().open == 1
    ledger.tell(ticket, ["1", "2", "3"], [0, 1, 0], [0, 0, 0])  # no action is called 0 or 1
    assert last(ledger, "told")["states"] == [0, 1, 2]
    assert last(ledger, "told")["actions"] == [0, 1, 0]
    proposal = ledger.propose(by="me")
    with pytest.raises(LedgerError, match="step 1 could mean the label '1'"):
        ledger.approve(proposal, rows=[(1, "1")], by="board", reason="seen")
    ledger.approve(proposal, rows=[("1", "2")], by="board", reason="seen")
    assert last(ledger, "approved")["rows"] == [[0, 1]]
    with pytest.raises(LedgerError, match="state 4 is a label"):
        made(tmp_path / "other.db", **NUMBERS, absorbing=4)


def test_a_served_ledger_reads_labels(tmp_path):
    environments = pytest.importorskip("lowswitch.envs.gymnasium")
    with (
        Served(tmp_path, **NUMBERS) as served,
        Client(served.url, served.tokens["site"]) as site,
    ):
        ticket = site.ask("a").ticket
        report = {"ticket": ticket, "states": ["1", "2", "3"], "actions": ["20", "10", "20"]}
        report |= {"rewards": [0, 0, 1]}
        for wrong in ({"states": [1, 2, 3]}, {"actions": [20, 10, 20]}):
            body = {"reports": [report | wrong]}
            _, answer = served.json("POST", "/api/tell", body, role="site")
            assert "could mean the label" in str(answer) or "is a label" in str(answer)
            with pytest.raises(LedgerError, match="label"):
                site.tell(**report | wrong)
        site.tell(**report)
        assert last(served.ledger, "told")["states"] == [0, 1, 2]
        assert last(served.ledger, "told")["actions"] == [1, 0, 1]
        proposal = served.ledger.propose(by="secretary")
        row = proposal.rows[0]
        labelled = str(row["step"] + 1), str(row["state"] + 1)
        with Client(served.url, served.tokens["auditor"]) as auditor:
            assert auditor.worth([labelled]) == served.ledger.worth([labelled])
            with pytest.raises(LedgerError, match="could mean the label"):
                auditor.worth([(1, 1)])  # a position is no label
        site.play(environments.TabularEnv(MDP), 5, seed=1)  # which counts states from 0
        assert served.ledger.status().learned == 6
        states = [event.payload["states"] for event in served.ledger.newest(5, kind="told")]
        assert {one[0] for one in states} == {0}  # where the river begins


def test_the_console_decides_on_rows_by_their_labels(tmp_path):
    with Served(tmp_path, **NUMBERS) as served:
        for number in range(5):
            issued = served.ledger.ask("here", f"r{number}")
            served.ledger.tell(issued.ticket, ["1", "2", "3"], None, [0, 0, 1])
        proposal = served.ledger.propose(by="secretary")
        session = served.login("reviewer")
        given = {"proposal": proposal.hash, "reason": "minutes", "decision": "approve", "sure": "1"}
        shown = served.post("/decide", session, **given | {"sure": ""}, row="1:2")
        assert (shown[0], b"minutes" in shown[2]) == (200, True)  # what it would change, first
        assert served.post("/decide", session, **given, consent="1", row="1:2")[0] == 303
        assert last(served.ledger, "approved")["rows"] == [[1, 2]]  # positions, as on the page
        given["proposal"] = served.ledger.proposal().hash
        assert served.post("/decide", session, **given, row="3:0")[0] == 422  # not the label 3
        status, text = served.page("/row?step=1&state=2", session)
        assert (status, "minutes" in text) == (200, True)
        rows = {"proposal": served.ledger.proposal().hash, "rows": [[1, 2]], "reason": "no"}
        status, said = served.json("POST", "/api/reject", rows, role="reviewer")
        assert (status, "step 1 could mean the label '1'" in said["says"]) == (422, True)
        rows |= {"rows": [["1", "2"]]}
        assert served.json("POST", "/api/reject", rows, role="reviewer")[0] == 200
        assert last(served.ledger, "rejected")["rows"] == [[0, 1]]
