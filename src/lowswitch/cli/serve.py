"""The commands of the service: `lowswitch serve` and `lowswitch token`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from lowswitch.show.text import columns

PORT = 8642
DAYS = 90
ROLES = ("site", "reviewer", "operator", "auditor")


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Give `lowswitch serve` its options."""
    parser.add_argument("address", nargs="?", help="A ledger: a file, or postgresql://...#name.")
    parser.add_argument("--demo", action="store_true", help="Serve a made-up clinic to look at.")
    text = "Where to listen (default: %(default)s); other machines only with --behind-tls."
    parser.add_argument("--host", default="127.0.0.1", help=text)
    text = "The port (default: %(default)s; 0: any that is free)."
    parser.add_argument("--port", default=PORT, type=int, help=text)
    text = "A reverse proxy with TLS is in front of it."
    parser.add_argument("--behind-tls", action="store_true", help=text)
    text = "Its name for browsers, behind TLS: https://ledger.example.org."
    parser.add_argument("--origin", metavar="URL", help=text)
    _add_access(parser)


def add_token(parser: argparse.ArgumentParser) -> None:
    """Give `lowswitch token` its commands."""
    commands = parser.add_subparsers(required=True, metavar="token command", dest="token")
    for name, text in (
        ("create", "Make a token and print it; it cannot be shown again."),
        ("list", "List the tokens, without their secrets."),
        ("revoke", "Let a token work no more."),
    ):
        new = commands.add_parser(name, help=text, description=text)
        new.add_argument("address", help="A ledger: a file, or postgresql://...#name.")
        _add_access(new)
        if name == "create":
            new.add_argument("--role", required=True, choices=ROLES, help="What it may do.")
            new.add_argument("--name", required=True, help="Who gets it; of a site, its name.")
            text = "After so many days it expires (default: %(default)s)."
            new.add_argument("--days", type=int, default=DAYS, help=text)
        if name == "revoke":
            new.add_argument("id", help="The part of the token before the dot.")
            new.add_argument("--by", required=True, help="Who does this.")
        new.add_argument("--json", action="store_true", help="Print one JSON object.")


def _add_access(parser: argparse.ArgumentParser) -> None:
    text = "The file of the tokens (default: beside the ledger, ending in .access)."
    parser.add_argument("--access", metavar="FILE", type=Path, help=text)


# ---- serving -------------------------------------------------------------------------------------


def serve(options: argparse.Namespace) -> None:
    """Serve a ledger until a signal says to stop."""
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
        url = place.url(listening)
        run(service, listening, lambda: _say(f"{options.address} is served at {url}"))


def _serve_demo(place: object) -> None:
    """Make a ledger in a temporary folder, and serve it."""
    from lowswitch.service import demo
    from lowswitch.service.access import Access
    from lowswitch.service.server import Place, opened
    from lowswitch.service.server import serve as run

    assert isinstance(place, Place)
    with tempfile.TemporaryDirectory(prefix="lowswitch-demo-") as folder:
        address = Path(folder) / "clinic.db"
        _say("four sites of a made-up clinic play for a year ...")
        demo.fill(address).close()
        access = Access(Path(folder) / "clinic.db.access")
        tokens = demo.tokens(access)
        access.close()
        note = "A demo: the clinic is made up, and so are its numbers."
        with opened(str(address), None, place, note) as service, place.listen() as listening:
            url, site = place.url(listening), tokens.pop("site")
            lines = [f"open {url} and log in with one of these tokens:"]
            lines += [f"  {role:9} {token}" for role, token in tokens.items()]
            lines += [f"the site {demo.SITES[0]} has no pages, but a program that begins with"]
            lines += [f'  client = lowswitch.ledger.Client("{url}", "{site}")']
            lines += ["Ctrl-C ends it, and nothing is kept."]
            run(service, listening, lambda: _say("\n".join(lines)))


def _say(text: str) -> None:
    print(text, flush=True)


# ---- tokens --------------------------------------------------------------------------------------


def token(options: argparse.Namespace) -> None:
    """Carry out one command on tokens."""
    from lowswitch.ledger import Ledger
    from lowswitch.service.access import Access, beside

    Ledger.open(options.address, read_only=True).close()  # or say that it is none
    path, now = options.access or beside(options.address), datetime.now(UTC)
    if options.token != "create" and not path.exists():
        raise ValueError(
            f"there is no file of tokens {str(path)!r}; 'lowswitch token create' makes the first"
            " token, and --access names another file"
        )
    access = Access(path)
    if options.token == "create":
        made = access.create(name=options.name, role=options.role, days=options.days)
        print(json.dumps({"token": made}) if options.json else made)
        _hint(options)
    elif options.token == "revoke":
        gone = access.revoke(options.id, by=options.by).shown(now)
        print(json.dumps(gone) if options.json else f"the token of {gone['name']} works no more")
    else:
        known = [one.shown(now) for one in access.tokens()]
        print(json.dumps(known) if options.json else _table(known))
    access.close()


def _hint(options: argparse.Namespace) -> None:
    if not options.json and sys.stdout.isatty():
        print("keep it: only its hash is stored, and it is not shown again", file=sys.stderr)


def _table(known: list[dict[str, object]]) -> str:
    names = ("id", "role", "name", "state", "expires")
    return columns([names, *(tuple(str(one[name]) for name in names) for one in known)])
