"""Addresses of ledgers: which database they mean, and that no password of them is ever shown."""

import contextlib
import traceback
from types import SimpleNamespace

import pytest

from ledgers import made
from lowswitch.cli import commands
from lowswitch.ledger import Client, Ledger, LedgerError, NotALedgerError, UnreachableError
from lowswitch.ledger import address as addresses
from lowswitch.service import server
from lowswitch.service.server import Place, opened

SECRETS = ("s3", "cret", "p%40ss", "p@", "ss@")
CLOSED = "127.0.0.1:9"  # nobody listens there


def shows_none(text):
    """Whether nothing of a password is in a text."""
    return not any(secret in text for secret in SECRETS)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("run.db", "run.db"),
        ("/var/lib/run:1.db", "/var/lib/run:1.db"),
        ("postgresql://host/db#clinic", "postgresql://host/db#clinic"),
        ("postgresql://ann@host:5432/db", "postgresql://ann@host:5432/db"),
        ("postgresql://ann:s3cret@host/db#clinic", "postgresql://ann:***@host/db#clinic"),
        ("postgres://ann:p%40ss@[::1]:5432/db", "postgres://ann:***@[::1]:5432/db"),
        ("postgresql://ann:p?s3cret@one:1,two:2/db", "postgresql://ann:***@one:1,two:2/db"),
        ("postgresql://host/db?password=s3cret#a", "postgresql://host/db?***#a"),
        ("postgresql:///db?host=/tmp&p%61ssword=s3cret", "postgresql:///db?***"),
        ("postgres+psycopg://ann:s3cret@host/db", "postgres+psycopg://ann:***@host/db"),
        # those that cannot be read are not repeated at all
        ("postgresql://ann:s3cret", "postgresql://***"),  # no host
        ("postgresql://ann:p@ss@host/db", "postgresql://***"),
        ("postgresql://ann:s3/cret@host/db", "postgresql://***"),
        ("postgresql://ann:s3#cret@host/db", "postgresql://***"),
        ("postgresql://host/db&password=s3cret", "postgresql://***"),
        ("postgresql://?password=s3cret@host", "postgresql://***"),
        ("postgresql:/ann:s3cret@host/db", "***"),
        ("ann:s3cret@host/db", "***"),
        ("host=here user=ann password=s3cret", "***"),
    ],
)
def test_an_address_is_shown_without_its_password(address, shown):
    assert addresses.printable(address) == shown
    assert shows_none(shown)


BAD = (
    f"postgresql://ann:s3cret@{CLOSED}/db",  # these are well formed, and nobody answers
    f"postgresql://ann:p%40ss@{CLOSED}/db#clinic",
    f"postgresql://ann@{CLOSED}/db?password=s3cret",
    # of these libpq takes a part of the password for a port, a host or a database
    "postgresql://localhost:s3cret",
    f"postgresql://ann:p@ss@{CLOSED}/db",
    f"postgresql://localhost:s3/cret@{CLOSED}/db",
    f"postgresql://localhost:12/cret@{CLOSED}/db",
    f"postgresql://ann:s3#cret@{CLOSED}/db",
    f"postgresql://ann:12#cret@{CLOSED}/db",
    f"postgresql://ann:s3%zzcret@{CLOSED}/db",
    f"postgresql://ann:s3 cret@{CLOSED}/db",
    f"postgresql://ann@{CLOSED}/db?password=s3&cret",
    "postgresql://ann:s3cret@[::1]x:9/db#clinic",
    f"postgresql://ann:s3cret@{CLOSED}/db#s3-cret@",
    f"PostgreSQL://ann:s3cret@{CLOSED}/db",
    f"postgres+psycopg://ann:s3cret@{CLOSED}/db",
    f"postgresql:/ann:s3cret@{CLOSED}/db",
    f"ann:s3cret@{CLOSED}/db",
    "host=127.0.0.1 port=9 user=ann password=s3cret",
)


def chain(error):
    """An error and all that are behind it, also those that a traceback leaves out."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("address", BAD)
def test_no_error_shows_a_password(address, tmp_path, monkeypatch, capsys):
    pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    place = Place("127.0.0.1", 0, False, None)
    for call in (
        lambda: Ledger.open(address),
        lambda: made(address),
        lambda: opened(address, place).__enter__(),
    ):
        with pytest.raises(LedgerError) as caught:
            call()
        assert shows_none("".join(traceback.format_exception(caught.value)))
        assert all(shows_none(f"{one} {one!r}") for one in chain(caught.value))
    for command in (["ledger", "status"], ["serve"], ["token", "list"]):
        assert commands.main([*command, address]) in (2, 4)  # refused, or not reached
        printed = capsys.readouterr()
        assert shows_none(printed.out + printed.err)
        assert "lowswitch: " in printed.err or '"event": "failed"' in printed.err  # of a server
    assert list(tmp_path.iterdir()) == []  # and no file has such a name


def test_a_password_that_must_be_encoded_is_answered_with_how(tmp_path):
    pytest.importorskip("psycopg")
    for address in ("postgresql://ann:p@ss@host/db", "postgresql://ann:s3%zz@host/db"):
        with pytest.raises(NotALedgerError, match="cannot be read.*write @ as %40"):
            Ledger.open(address)
    with pytest.raises(NotALedgerError, match="small letters, digits and _, not 'The-Clinic'"):
        Ledger.open("postgresql://host/db#The-Clinic")


def test_the_parser_repeats_no_password(capsys):
    for arguments in (
        ["ledger", "postgresql://ann:s3cret@host/db#a", "status"],  # in the wrong order
        ["ledger", "status", "run.db", "postgresql://ann:s3 cret@host/db"],
    ):
        with pytest.raises(SystemExit):
            commands.main(arguments)
        error = capsys.readouterr().err
        assert shows_none(error)
        assert "postgresql://" in error
    text = "no 'postgresql://ann:s3cret@host/db#a' (or run.db)"
    assert addresses.printable_text(text) == "no 'postgresql://ann:***@host/db#a' (or run.db)"


def test_serving_prints_the_address_without_its_password(monkeypatch, capsys):
    monkeypatch.setattr(
        server, "opened", lambda *_, **__: contextlib.nullcontext(SimpleNamespace(ledger=None))
    )
    monkeypatch.setattr(server, "warm_up", lambda ledger: None)
    monkeypatch.setattr(server, "serve", lambda service, listening, ready: ready())
    address = "postgresql://ann:s3cret@host/db?password=s3cret#clinic"
    assert commands.main(["serve", address, "--port", "0"]) == 0
    printed = capsys.readouterr()
    assert "postgresql://ann:***@host/db?***#clinic is served at http://127.0.0.1:" in printed.out
    assert shows_none(printed.out + printed.err)


def test_a_ledger_in_postgresql_hides_the_password_of_its_address(postgres, tmp_path):
    address = f"{postgres.get_uri()}&password=s3cret#hidden"
    made(address).close()
    with opened(address, Place("127.0.0.1", 0, False, None)) as service:
        ledger = service.ledger
        for one in (service, ledger, ledger.store, ledger.store.connection, ledger.status()):
            assert shows_none(repr(one))
        with pytest.raises(NotALedgerError, match="exists already") as caught:
            made(address)
        assert shows_none(str(caught.value))
        with ledger.store.transaction():
            ledger.store.execute("DELETE FROM events")
        with pytest.raises(NotALedgerError, match="holds no event") as caught:
            Ledger.open(address)
        assert shows_none(str(caught.value))


def test_a_copy_goes_into_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = made(tmp_path / "run.db")
    for write in (ledger.backup, ledger.export):
        with pytest.raises(LedgerError, match="not the name of a file") as caught:
            write("postgresql://ann:s3cret@host/db")
        assert shows_none(str(caught.value))
        write(f"./password={write.__name__}")  # a file that is really called so
    ledger.close()
    assert Ledger.open("./password=backup", read_only=True).verify().whole


def test_a_client_shows_no_password_of_its_url():
    for url in ("https://ann:s3/cret@host", "https://ann:s3cret@host?x=s3cret", "ann:s3cret@host"):
        with pytest.raises(LedgerError, match="url must be such as") as caught:
            Client(url, "a.b")
        assert shows_none(str(caught.value))
    with Client(f"http://ann:s3cret@{CLOSED}", "a.b") as away:
        with pytest.raises(UnreachableError, match="http://ann:\\*\\*\\*@127") as caught:
            away.ask("a")
        assert shows_none(str(caught.value))
