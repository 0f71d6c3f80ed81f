"""The commands of the service: `lowswitch serve` and `lowswitch token`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import lowswitch
from lowswitch.cli.syntax import argument, command
from lowswitch.io.files import OwnedError
from lowswitch.io.setting import with_commit
from lowswitch.show.progress import Progress
from lowswitch.show.text import columns

if TYPE_CHECKING:
    from lowswitch.service.access import Access
    from lowswitch.service.log import JsonLog
    from lowswitch.service.server import Place

PORT = 8642
DAYS, OVERLAP = 90, 7
ROLES = ("site", "reviewer", "operator", "auditor")


_ADDRESS = "A ledger: a file, or postgresql://...#name (without #name: #ledger)."
_ACCESS = argument(
    "--access",
    metavar="FILE",
    type=Path,
    help="A token file of an older version, which is moved into the ledger (default: the one"
    " beside it, ending in .access, if there is one).",
)
_BY = argument("--by", default="command line", help="Who does this (default: %(default)s).")


# ---- serving -------------------------------------------------------------------------------------


@command(
    argument("address", nargs="?", help=_ADDRESS),
    argument("--demo", action="store_true", help="Serve an invented clinic to try the console."),
    argument(
        "--host",
        default="127.0.0.1",
        help="The address to listen on (default: %(default)s); one that other machines can reach"
        " needs --behind-tls.",
    ),
    argument(
        "--port",
        default=PORT,
        type=int,
        help="The port (default: %(default)s; 0 picks a free one).",
    ),
    argument(
        "--behind-tls", action="store_true", help="A reverse proxy with TLS is in front of it."
    ),
    argument(
        "--origin",
        metavar="URL",
        help="The address that browsers use, behind TLS: https://ledger.example.org.",
    ),
    argument(
        "--most-open",
        metavar="N",
        type=int,
        help="The most open tickets per site (default: a tenth of the run, 100 to 10,000).",
    ),
    argument(
        "--log-level",
        choices=("debug", "info", "warning", "error", "off"),
        default="info",
        help="The lowest level of the JSON log lines on standard error (default: %(default)s).",
    ),
    argument(
        "--key-file",
        metavar="FILE",
        type=Path,
        help="The key that signs anchors (default: beside the ledger, ending in .key).",
    ),
    _ACCESS,
)
def serve(options: argparse.Namespace) -> None:
    """Serve a ledger over HTTP: JSON for sites, pages for the people who decide."""
    from lowswitch.ledger.address import has_password, printable
    from lowswitch.service.log import JsonLog
    from lowswitch.service.server import Place, opened, warm_up
    from lowswitch.service.server import serve as run

    if bool(options.address) == options.demo:
        raise ValueError("give the address of a ledger, or --demo")
    place = Place(options.host, options.port, options.behind_tls, options.origin)
    log = JsonLog(options.log_level)
    if options.demo:
        with contextlib.closing(log):
            _serve_demo(place, log)
        return
    if has_password(options.address):
        says = "other users can see the database password in the list of processes; see the manual"
        log.write("warning", "password on the command line", says=says)
    settings = {"log": log, "most_open": options.most_open, "old_tokens": options.access}
    settings |= {"key_file": options.key_file}
    shown = printable(options.address)
    log.write(
        "info", "starting", ledger=shown, says="the first start compiles for a minute or more"
    )
    try:
        with (
            Progress(1, unit="", show=False),  # so that compiling writes no line among the log's
            opened(options.address, place, **settings) as service,
            place.listen() as listening,
        ):
            warm_up(service.ledger)
            url, version = place.url(listening), with_commit(lowswitch.__version__)
            log.write("info", "started", ledger=shown, url=url, version=version)
            run(service, listening, lambda: _say(f"{shown} is served at {url}"))
            log.write("info", "stopped", ledger=shown)
    except (ValueError, OwnedError) as error:
        options.is_logged = log.write("error", "failed", ledger=shown, says=str(error))
        raise
    finally:
        log.close()


def _serve_demo(place: Place, log: JsonLog) -> None:
    """Make a ledger in a temporary folder, and serve it."""
    from lowswitch.service import demo
    from lowswitch.service.access import Access
    from lowswitch.service.server import opened
    from lowswitch.service.server import serve as run

    with tempfile.TemporaryDirectory(prefix="lowswitch-demo-") as folder:
        address = Path(folder) / "clinic.db"
        _say("four sites of a made-up clinic treat patients for half a year ...")
        demo.fill(address).close()
        access = Access(str(address))
        tokens = demo.tokens(access)
        access.close()
        note = "A demo: the clinic is made up, and so are its numbers."
        with (
            opened(str(address), place, note=note, log=log) as service,
            place.listen() as listening,
        ):
            url, (*people, (_, _, site)) = place.url(listening), tokens
            lines = [f"open {url} and log in with one of these tokens:"]
            lines += [f"  {role:9} {name:10} {token}" for role, name, token in people]
            lines += [f"the site {demo.SITES[0]} has no pages, but a program that begins with"]
            lines += [f'  client = lowswitch.ledger.Client("{url}", "{site}")']
            lines += ["Ctrl-C ends it, and nothing is kept."]
            run(service, listening, lambda: _say("\n".join(lines)))


def _say(text: str) -> None:
    print(text, flush=True)


# ---- tokens --------------------------------------------------------------------------------------


_TOKEN = (argument("address", help=_ADDRESS), _ACCESS)
_DAYS = argument(
    "--days", type=int, default=DAYS, help="The days until it expires (default: %(default)s)."
)


@command(
    *_TOKEN,
    argument("--role", required=True, choices=ROLES, help="The role of its owner."),
    argument("--name", required=True, help="The person who gets it, or the site."),
    _DAYS,
    _BY,
    argument("--json"),
)
def create(access: Access, options: argparse.Namespace) -> None:
    """Create a token and print it; it cannot be shown again."""
    made = access.create(name=options.name, role=options.role, days=options.days, by=options.by)
    _print_token(access, made, options)


@command(
    *_TOKEN,
    argument("id", help="The part of the old token before the dot."),
    _DAYS,
    argument(
        "--overlap",
        type=int,
        default=OVERLAP,
        help="The days for which the old one stays valid (default: %(default)s).",
    ),
    _BY,
    argument("--json"),
)
def rotate(access: Access, options: argparse.Namespace) -> None:
    """Make a new token for the same name and role; the old one works on for a while."""
    days = {"days": options.days, "overlap": options.overlap}
    _print_token(access, access.rotate(options.id, **days, by=options.by), options)


def _print_token(access: Access, made: str, options: argparse.Namespace) -> None:
    identity = made.split(".")[0]
    (known,) = (one for one in access.tokens() if one.id == identity)
    facts = {"token": made} | known.shown(datetime.now(UTC))
    print(json.dumps(facts) if options.json else made)
    if not options.json and sys.stdout.isatty():
        print("keep it: only its hash is stored, and it is not shown again", file=sys.stderr)


@command(*_TOKEN, argument("--json"))
def list_all(access: Access, options: argparse.Namespace) -> None:
    """List the tokens, without their secrets, with their last use and what expires soon."""
    known = [one.shown(datetime.now(UTC)) for one in access.tokens()]
    names = ("id", "role", "name", "state", "expires", "used")
    lines = [names, *(tuple(str(one[name] or "never") for name in names) for one in known)]
    print(json.dumps(known) if options.json else columns(lines))


@command(
    *_TOKEN,
    argument("id", help="The part of the token before the dot."),
    argument("--by", required=True, help="Who does this."),
    argument("--json"),
)
def revoke(access: Access, options: argparse.Namespace) -> None:
    """Let a token work no more."""
    gone = access.revoke(options.id, by=options.by).shown(datetime.now(UTC))
    print(json.dumps(gone) if options.json else f"the token of {gone['name']} is revoked")


TOKENS = {"create": create, "rotate": rotate, "list": list_all, "revoke": revoke}


@command(below=TOKENS)
def token(options: argparse.Namespace) -> None:
    """Say who may use a served ledger: create, rotate, list and revoke tokens."""
    from lowswitch.ledger import Ledger
    from lowswitch.service.access import Access
    from lowswitch.service.moving import move_file

    Ledger.open(options.address, read_only=True).close()  # or fail if it is not a ledger
    move_file(options.address, options.access)
    read_only = options.token == "list"  # of a kept copy, too, which stays as it is
    with contextlib.closing(Access(options.address, read_only=read_only)) as access:
        TOKENS[options.token].run(access, options)
