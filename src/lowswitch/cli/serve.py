"""The commands of the service: `lowswitch serve` and `lowswitch token`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lowswitch.cli.syntax import argument, command
from lowswitch.show.text import columns

if TYPE_CHECKING:
    from lowswitch.service.access import Access

PORT = 8642
DAYS = 90
ROLES = ("site", "reviewer", "operator", "auditor")


_ADDRESS = "A ledger: a file, or postgresql://...#name."
_ACCESS = argument(
    "--access",
    metavar="FILE",
    type=Path,
    help="The file of the tokens (default: beside the ledger, ending in .access).",
)


# ---- serving -------------------------------------------------------------------------------------


@command(
    argument("address", nargs="?", help=_ADDRESS),
    argument("--demo", action="store_true", help="Serve a made-up clinic to look at."),
    argument(
        "--host",
        default="127.0.0.1",
        help="Where to listen (default: %(default)s); other machines only with --behind-tls.",
    ),
    argument(
        "--port",
        default=PORT,
        type=int,
        help="The port (default: %(default)s; 0: any that is free).",
    ),
    argument(
        "--behind-tls", action="store_true", help="A reverse proxy with TLS is in front of it."
    ),
    argument(
        "--origin",
        metavar="URL",
        help="Its name for browsers, behind TLS: https://ledger.example.org.",
    ),
    _ACCESS,
)
def serve(options: argparse.Namespace) -> None:
    """Serve a ledger over HTTP: JSON for sites, pages for the people who decide."""
    from lowswitch.ledger.address import printable
    from lowswitch.service.server import Place, opened, warm_up
    from lowswitch.service.server import serve as run

    if bool(options.address) == options.demo:
        raise ValueError("give the address of a ledger, or --demo")
    place = Place(options.host, options.port, options.behind_tls, options.origin)
    if options.demo:
        _serve_demo(place)
        return
    with opened(options.address, options.access, place) as service, place.listen() as listening:
        warm_up(service.ledger)
        url, shown = place.url(listening), printable(options.address)
        run(service, listening, lambda: _say(f"{shown} is served at {url}"))


def _serve_demo(place: object) -> None:
    """Make a ledger in a temporary folder, and serve it."""
    from lowswitch.service import demo
    from lowswitch.service.access import Access
    from lowswitch.service.server import Place, opened
    from lowswitch.service.server import serve as run

    assert isinstance(place, Place)
    with tempfile.TemporaryDirectory(prefix="lowswitch-demo-") as folder:
        address = Path(folder) / "clinic.db"
        _say("four sites of a made-up clinic treat patients for half a year ...")
        demo.fill(address).close()
        access = Access(Path(folder) / "clinic.db.access")
        tokens = demo.tokens(access)
        access.close()
        note = "A demo: the clinic is made up, and so are its numbers."
        with opened(str(address), None, place, note) as service, place.listen() as listening:
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


@command(
    *_TOKEN,
    argument("--role", required=True, choices=ROLES, help="What it may do."),
    argument("--name", required=True, help="Who gets it; of a site, its name."),
    argument(
        "--days",
        type=int,
        default=DAYS,
        help="After so many days it expires (default: %(default)s).",
    ),
    argument("--json"),
)
def create(access: Access, options: argparse.Namespace) -> None:
    """Make a token and print it; it cannot be shown again."""
    made = access.create(name=options.name, role=options.role, days=options.days)
    print(json.dumps({"token": made}) if options.json else made)
    if not options.json and sys.stdout.isatty():
        print("keep it: only its hash is stored, and it is not shown again", file=sys.stderr)


@command(*_TOKEN, argument("--json"))
def list_all(access: Access, options: argparse.Namespace) -> None:
    """List the tokens, without their secrets."""
    known = [one.shown(datetime.now(UTC)) for one in access.tokens()]
    names = ("id", "role", "name", "state", "expires")
    lines = [names, *(tuple(str(one[name]) for name in names) for one in known)]
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
    print(json.dumps(gone) if options.json else f"the token of {gone['name']} works no more")


TOKENS = {"create": create, "list": list_all, "revoke": revoke}


@command(below=TOKENS)
def token(options: argparse.Namespace) -> None:
    """Say who may use a served ledger: create, list and revoke tokens."""
    from lowswitch.ledger import Ledger
    from lowswitch.service.access import Access, beside

    Ledger.open(options.address, read_only=True).close()  # or say that it is none
    path = options.access or beside(options.address)
    if options.token != "create" and not path.exists():
        raise ValueError(
            f"there is no file of tokens {str(path)!r}; 'lowswitch token create' makes the first"
            " token, and --access names another file"
        )
    access = Access(path)
    TOKENS[options.token].run(access, options)
    access.close()
