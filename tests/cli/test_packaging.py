"""The files of `packaging/` name what is there, and their commands are commands."""

import re
from pathlib import Path

import pytest

from lowswitch.cli import commands, syntax

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


def test_the_container_is_built_of_files_that_exist():
    text = (PACKAGING / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = r"FROM|WORKDIR|COPY|RUN|ENV|USER|VOLUME|EXPOSE|HEALTHCHECK|STOPSIGNAL|ENTRYPOINT"
    assert all(re.match(rf"({known}) ", line) for line in lines)
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            *sources, _ = line.split()[1:]
            assert all((ROOT / source).exists() for source in sources)


def test_the_compose_file_starts_a_server_behind_tls():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((PACKAGING / "compose.yaml").read_text(encoding="utf-8"))["services"]
    given = [
        re.sub(r"\$\{[^}]+\}", "ledger.example.org", one) for one in services["ledger"]["command"]
    ]
    options = syntax.parser(commands.COMMANDS).parse_args(given)
    assert (options.host, options.behind_tls) == ("0.0.0.0", True)
    assert "@database/" in options.address
    assert ":" not in options.address.partition("://")[2].partition("@")[0]  # no password
    assert "ports" not in services["ledger"]  # only the proxy is reached from outside
    assert (PACKAGING / "Caddyfile").exists()


def test_what_is_installed_can_sign_anchors():
    """A ledger in PostgreSQL has no place for a key of its own, so that the file is named."""
    container = (PACKAGING / "Containerfile").read_text(encoding="utf-8")
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    extras = re.findall(r"pip install [^\n]*'\.\[([\w,]+)\]'", container + page)
    assert len(extras) == 3
    assert all({"serve", "anchor"} <= set(found.split(",")) for found in extras)
    folder = re.search(r"--key-file=(/[^\s]+)/", (PACKAGING / "compose.yaml").read_text())[1]
    assert re.search(rf"install -d -o lowswitch .* {folder}\b", container)


def test_the_timer_starts_the_backup():
    assert (PACKAGING / "lowswitch-backup.service").exists()
    assert "OnCalendar=" in (PACKAGING / "lowswitch-backup.timer").read_text(encoding="utf-8")
