"""The commands of the service, and what the ledger gives to its console."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from ledgers import approve, episode, made, play
from lowswitch.cli import commands, syntax
from lowswitch.ledger import Client, FrozenError, Issued, LedgerError
from lowswitch.service.access import Access
from lowswitch.service.server import Place
from lowswitch.show.progress import Progress
from served import Served


def run(capsys, *arguments):
    code = commands.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_tokens_by_the_command_line(tmp_path, capsys):
    address = tmp_path / "run.db"
    made(address).close()
    who = ["--role", "reviewer", "--name", "Dr Vega"]
    code, token, _ = run(capsys, "token", "create", address, *who)
    assert (code, re.fullmatch(r"[0-9a-f]{12}\.[\w-]{43}\n", token) is not None) == (0, True)
    facts = json.loads(run(capsys, "token", "create", address, *who, "--json")[1])
    made_too = facts["token"]
    assert (facts["name"], facts["role"]) == ("Dr Vega", "reviewer")
    assert made_too.startswith(f"{facts['id']}.")
    listed = run(capsys, "token", "list", address)[1]
    assert listed.count("Dr Vega") == 2
    assert token.split(".")[1].strip() not in listed
    identity = made_too.split(".")[0]
    assert "is revoked" in run(capsys, "token", "revoke", address, identity, "--by", "me")[1]
    states = {
        one["id"]: one["state"]
        for one in json.loads(run(capsys, "token", "list", address, "--json")[1])
    }
    assert states == {identity: "revoked", token.split(".")[0]: "works"}
    code, _, error = run(capsys, "token", "revoke", address, "nobody", "--by", "me")
    assert (code, "there is no token 'nobody'" in error) == (2, True)


@pytest.mark.parametrize("old", [False, True], ids=["this format", "before tokens"])
def test_listing_tokens_changes_no_byte_of_a_kept_copy(tmp_path, capsys, old):
    ledger = made(tmp_path / "run.db")
    run(capsys, "token", "create", tmp_path / "run.db", "--role", "site", "--name", "north")
    if old:
        for drop in ("TABLE access_events", "TABLE token_uses", "INDEX tickets_open_by_site"):
            ledger.store.execute(f"DROP {drop}")
        ledger.store.execute("PRAGMA user_version = 2")
    ledger.backup(tmp_path / "copy.db")
    before, files = (tmp_path / "copy.db").read_bytes(), sorted(tmp_path.iterdir())
    code, listed, _ = run(capsys, "token", "list", tmp_path / "copy.db")
    assert (code, "north" in listed) == (0, not old)
    assert ((tmp_path / "copy.db").read_bytes(), sorted(tmp_path.iterdir())) == (before, files)
    ledger.close()


@contextlib.contextmanager
def closed_to_this_user(folder):
    """Only its owner may enter the folder, and that is somebody else."""
    if os.geteuid():
        folder.chmod(0)
    else:
        os.seteuid(65534)
    try:
        yield
    finally:
        if os.geteuid() == 65534:
            os.seteuid(0)
        folder.chmod(0o700)


@pytest.mark.parametrize("command", [("ledger", "verify"), ("token", "list")], ids="_".join)
def test_a_ledger_in_a_closed_folder_is_named(tmp_path, capsys, command):
    folder = tmp_path / "damaged"
    folder.mkdir(mode=0o700)
    made(folder / "run.db").close()
    assert run(capsys, *command, folder / "run.db")[0] == 0
    with closed_to_this_user(folder):
        code, _, error = run(capsys, *command, folder / "run.db")
    assert (code, "run.db" in error, "output" in error) == (4, True, False), error
    assert "no permission to read" in error


def test_a_file_that_cannot_be_used_is_not_taken_for_the_output(capsys, monkeypatch):
    def fail(_):
        raise PermissionError(13, "Permission denied", "plan.json")

    failing = commands.COMMANDS["envs"]._replace(run=fail)
    monkeypatch.setitem(commands.COMMANDS, "envs", failing)
    assert run(capsys, "envs") == (2, "", "lowswitch: cannot use 'plan.json': Permission denied\n")


@pytest.mark.parametrize(
    "command",
    [("create", "--role", "site", "--name", "north"), ("list",), ("revoke", "x", "--by", "me")],
    ids=lambda command: command[0],
)
def test_a_mistyped_address_makes_no_file(tmp_path, capsys, command):
    name, *rest = command
    code, _, error = run(capsys, "token", name, tmp_path / "rum.db", *rest)
    assert (code, "there is no ledger" in error) == (2, True)
    assert list(tmp_path.iterdir()) == []
    made(tmp_path / "run.db").close()
    if name != "create":
        elsewhere = ["--access", tmp_path / "rum.access"]
        code, _, error = run(capsys, "token", name, tmp_path / "run.db", *rest, *elsewhere)
        assert (code, "there is no file of tokens" in error) == (2, True)
    assert list(tmp_path.glob("*.access")) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": ""}, "name must be a text"),
        ({"name": "a\nb"}, "name must be a text"),
        ({"name": "x" * 81}, "name may have 80 characters"),
        ({"role": "god"}, "role must be"),
        ({"days": 0}, "days must be"),
        ({"days": 10**6}, "days may be at most"),
    ],
)
def test_a_bad_token_is_not_made(tmp_path, options, says):
    made(tmp_path / "run.db").close()
    access = Access(str(tmp_path / "run.db"))
    with pytest.raises(ValueError, match=says):
        access.create(**{"name": "north", "role": "site", "days": 1} | options)
    assert access.tokens() == []
    access.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org"])
def test_other_machines_are_let_in_behind_tls_alone(host, capsys):
    with pytest.raises(LedgerError, match="unencrypted"):
        Place(host, 0, False, None)
    assert Place(host, 0, True, "https://ledger.example.org").behind_tls
    with pytest.raises(LedgerError, match="--behind-tls needs --origin"):
        Place(host, 0, True, None)
    code, _, error = run(capsys, "serve", "run.db", "--host", host)
    assert (code, "--behind-tls" in error) == (2, True)


def test_what_cannot_be_served_is_said(tmp_path, capsys):
    for arguments, says in (
        (["serve"], "give the address of a ledger, or --demo"),
        (["serve", tmp_path / "none.db"], "there is no ledger"),
        (["serve", "x", "--behind-tls", "--origin", "http://x"], "--origin begins with https"),
    ):
        code, _, error = run(capsys, *arguments)
        assert (code, says in error) == (2, True), error
    assert list(tmp_path.iterdir()) == []  # no file of tokens beside what is no ledger
    taken = Place("127.0.0.1", 0, False, None).listen()
    with taken, pytest.raises(LedgerError, match="choose another --port"):
        Place("127.0.0.1", taken.getsockname()[1], False, None).listen()


def test_answers_are_sent_without_delay():
    """Otherwise the second part of each waits until the client acknowledges the first: 40 ms."""
    listening = Place("127.0.0.1", 0, False, None).listen()
    found = []

    def note(_, writer):
        accepted = writer.get_extra_info("socket")
        found.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def connect():
        async with await asyncio.start_server(note, sock=listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            await reader.read()
            writer.close()

    asyncio.run(connect())
    assert found == [1]


def test_the_demo_prints_an_address_and_a_login(tmp_path):
    command = [sys.executable, "-m", "lowswitch", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            said = ""
            while "Ctrl-C" not in said:
                said += (line := server.stdout.readline())
                assert line, said  # it has ended
            url = re.search(r"http://[\d.:]+", said)[0]
            token = re.search(r"reviewer +Dr Vega +(\S+)", said)[1]
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            data, headers = f"token={token}".encode(), {"Origin": url}
            with opener.open(urllib.request.Request(f"{url}/login", data, headers)) as page:
                text = page.read().decode()
            with Client(*re.search(r'Client\("(.*)", "(.*)"\)', said).groups()) as north:
                issued = north.ask("patient 1")
                told = north.tell(issued.ticket, [0, 0, 0, 0], None, [1, 0, 0, 1])
        finally:
            server.terminate()
        assert server.wait() == 0
    assert "Read the proposal" in text
    assert "Proposed just now" in text
    assert told.number > 0
    assert "A demo" in text


def test_a_ledger_in_either_database_is_served(tmp_path, address):
    with Served(tmp_path, address) as served:
        with Client(served.url, served.tokens["site"]) as site:
            for i in range(3):
                issued = site.ask(f"r{i}")
                site.tell(issued.ticket, *episode(issued.policy, issued.number))
        session = served.login("auditor")
        for path in ("/", "/map", "/timeline", "/audit?search=r1", "/audit?kind=told"):
            assert served.page(path, session)[0] == 200, path
        served.post("/verify", session)
        assert "are whole and lead to this state" in served.page("/", session)[1]
        assert served.ledger.status().learned == 3


def test_compiling_writes_no_plain_line_into_the_log(tmp_path, monkeypatch, capsys):
    made(tmp_path / "run.db").close()

    def warm_up(_):
        assert not Progress.opened[0].show  # the bar that says what is compiled
        raise LedgerError("warmed up")

    monkeypatch.setattr("lowswitch.service.server.warm_up", warm_up)
    assert commands.main(["serve", str(tmp_path / "run.db"), "--port", "0"]) == 2
    error = capsys.readouterr().err
    assert '"event": "starting"' in error
    assert "warmed up" in error


def test_the_commands_of_the_page_are_commands():
    root = Path(__file__).parents[2]
    pages = [
        root / "docs" / name for name in ("operations.md", "recovery.md", "around.md", "howto.md")
    ]
    units = sorted((root / "packaging").glob("*.service"))
    texts = [path.read_text(encoding="utf-8") for path in (*pages, *units)]
    found = [
        re.findall(r"```(?:sh|ini)\n(.*?)```", text, re.DOTALL) for text in texts[: len(pages)]
    ]
    text = "\n".join([*(line for some in found for line in some), *texts[len(pages) :]])
    lines = re.findall(
        r"^ *(?:ExecStart=|\S*\$\(|as_|podman .* exec -T ledger )?(?:/opt/lowswitch/bin/)?"
        r"lowswitch ([^|)<>\n]*)",
        text.replace("\\\n", " ").replace("${PORT}", "8642"),
        re.MULTILINE,
    )
    assert len(lines) >= 25
    for line in lines:
        if line.strip() == "--version":  # which ends the program
            continue
        syntax.parser(commands.COMMANDS).parse_args(shlex.split(line))


@pytest.mark.parametrize(
    "name",
    [
        "operations",
        "recovery",
        "around",
        "service",
        "security",
        "howto",
        "record",
        "evidence",
        "ledger",
    ],
)
def test_links_to_a_section_name_a_heading(name):
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / f"{name}.md").read_text(encoding="utf-8")
    for page, section in re.findall(r"\]\((\w+\.md)?#([\w-]+)\)", text):
        heads = re.findall(r"^#+ (.*)$", (docs / (page or f"{name}.md")).read_text("utf-8"), re.M)
        named = [re.search(r"\{ *#([\w-]+)", head) for head in heads]
        slugs = [re.sub(r"[^\w]+", "-", head.lower()).strip("-") for head in heads]
        assert section in [*slugs, *(one[1] for one in named if one)], (page, section)


# ---- what the ledger gives to its console --------------------------------------------------------


def test_tickets_of_many_sites_in_one_transaction(address):
    ledger = made(address, episodes=3)
    first = ledger.ask_each([("a", "1"), ("b", "1"), ("a", "1"), ("", "1"), ("a", "2"), ("b", "2")])
    assert [one.number for one in first if isinstance(one, Issued)] == [1, 2, 1, 3]
    assert first[0] == ledger.ask("a", "1")
    assert "site must be a text" in str(first[3])
    assert "all tickets are issued" in str(first[5])
    ledger.freeze(by="me", reason="alarm")
    again, new = ledger.ask_each([("b", "1"), ("c", "1")])
    assert again == first[1]
    assert isinstance(new, FrozenError)
    assert ledger.verify().whole


def test_the_newest_events_are_found_by_kind_and_words(address):
    ledger = made(address)
    play(ledger, 4, site="100%_~ 'north'")
    play(ledger, 2, site="south")
    assert [event.seq for event in ledger.newest(3)] == [14, 13, 12]
    assert [event.seq for event in ledger.newest(2, before=12)] == [11, 10]
    assert {event.kind for event in ledger.newest(99, kind="told")} == {"told"}
    assert len(ledger.newest(99, containing="100%_~ 'north'")) == 8
    assert len(ledger.newest(99, kind="asked", containing="100%_~")) == 4
    assert ledger.newest(99, containing="100x") == []
    assert ledger.newest(1)[0] == list(ledger.events())[-1]


def test_the_chart_and_a_row_say_what_the_learner_knows(tmp_path):
    ledger = made(tmp_path / "run.db")
    play(ledger, 150, decide=approve)
    chart, learner = ledger.chart(), ledger._ready().learner
    assert (chart.policy == ledger.policy).all()
    assert (chart.visits == learner.visits).all()
    tables = [ledger.policy_of(n + 1) for n in range(ledger.version)]
    changed = sum((a != b).any(axis=0) for a, b in itertools.pairwise(tables))
    assert (chart.changes == changed).all()
    h, x = np.unravel_index(chart.changes.argmax(), chart.changes.shape)
    row = ledger.row(int(h), int(x))
    assert len(row.versions) == chart.changes[h, x] + 1
    assert row.versions[-1][1] == chart.policy[:, h, x].tolist()
    assert [one["visits"] for one in row.actions] == chart.visits[h, x].tolist()
    assert sum(one["share"] for one in row.actions) == 1
    assert len(row.decisions) == chart.changes[h, x]
    with pytest.raises(LedgerError, match="there is no state"):
        ledger.row(0, 99)


def test_a_start_that_fails_is_a_line_of_the_log(tmp_path):
    line = [sys.executable, "-m", "lowswitch", "serve", str(tmp_path / "none.db")]
    ran = subprocess.run(line, capture_output=True, text=True)
    said = [json.loads(one) for one in ran.stderr.splitlines()]
    assert (ran.returncode, said[-1]["level"], said[-1]["event"]) == (2, "error", "failed")
    assert "there is no ledger" in said[-1]["says"]
    ran = subprocess.run([*line, "--log-level", "off"], capture_output=True, text=True)
    assert ran.stderr.startswith("lowswitch: there is no ledger")


def test_the_version_names_the_commit_of_a_clone_and_of_what_was_built_in_one(
    tmp_path, monkeypatch, capsys
):
    from lowswitch.io import setting

    package = tmp_path / "site-packages" / "lowswitch"
    (package / "io").mkdir(parents=True)
    monkeypatch.setattr(setting, "__file__", str(package / "io" / "setting.py"))
    monkeypatch.setattr(setting, "commit_of", lambda _: "f" * 40 + "-dirty")
    assert setting.with_commit("1.0.0") == "1.0.0"  # some other repository around it
    (package / "commit.txt").write_text("0123456789abcdef\n")
    with pytest.raises(SystemExit):
        commands.main(["--version"])
    assert capsys.readouterr().out == f"lowswitch {ls.__version__} (0123456789ab)\n"
    clone = tmp_path / "clone" / "src" / "lowswitch" / "io"
    clone.mkdir(parents=True)
    (tmp_path / "clone" / "pyproject.toml").touch()
    monkeypatch.setattr(setting, "__file__", str(clone / "setting.py"))
    assert setting.with_commit("1.0.0") == f"1.0.0 ({'f' * 12}-dirty)"
