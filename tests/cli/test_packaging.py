"""The files of `packaging/` name what is there, and their commands are commands."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lowswitch.cli import commands, syntax
from served import Served

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


def test_the_container_is_built_of_files_that_exist():
    text = (PACKAGING / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert "hatch_build.py" in text  # without which pip cannot build it
    known = r"FROM|ARG|WORKDIR|COPY|RUN|ENV|USER|VOLUME|EXPOSE|HEALTHCHECK|STOPSIGNAL|ENTRYPOINT"
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


def unit(name):
    """The settings of a unit, each with all its values."""
    found = {}
    for line in (PACKAGING / name).read_text(encoding="utf-8").splitlines():
        key, mark, value = line.partition("=")
        if mark and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("name", ["backup", "anchor", "verify"])
def test_a_timer_starts_a_job_whose_failure_is_heard_of(name):
    assert unit(f"lowswitch-{name}.timer")["OnCalendar"]
    job = unit(f"lowswitch-{name}.service")
    assert job["OnFailure"] == ["lowswitch-failed@%n.service"]
    assert (PACKAGING / "lowswitch-failed@.service").exists()
    line = job["ExecStart"][0].split()
    assert line[0] == "/opt/lowswitch/bin/lowswitch"
    options = syntax.parser(commands.COMMANDS).parse_args(line[1:])
    assert options.ledger == name
    if name != "verify":  # which writes nothing
        (folder,) = job["ReadWritePaths"]
        assert str(options.out).startswith(folder)


def test_the_server_checks_itself_also_if_the_nightly_check_finds_damage():
    """After a failure systemd runs ExecStopPost, but not ExecStartPost."""
    job = unit("lowswitch-verify.service")
    assert "ExecStartPost" not in job
    assert job["ExecStopPost"][0].endswith("/api/verify")


def test_the_page_makes_every_folder_that_a_unit_writes_to():
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    made = " ".join(re.findall(r"^install -d -o lowswitch (.*)$", page, re.M)).split()
    for name in ("backup", "anchor"):
        assert set(unit(f"lowswitch-{name}.service")["ReadWritePaths"]) <= set(made)


def test_others_may_read_the_anchors():
    assert unit("lowswitch-anchor.service")["UMask"] == ["0022"]


def test_a_backup_and_an_anchor_need_their_disks():
    for name in ("backup", "anchor"):
        job = unit(f"lowswitch-{name}.service")
        (folder,) = job["RequiresMountsFor"]
        assert re.search(rf"--out {folder}[ /]", job["ExecStart"][0])
        # "+" leaves out the unit's own view of the disk, in which each of its paths is a mount
        assert job["ExecStartPre"] == [f"+/usr/bin/mountpoint -q {folder}"]


def test_a_server_whose_database_is_away_starts_again_for_ever():
    service = unit("lowswitch.service")
    assert service["StartLimitIntervalSec"] == ["0"]
    assert service["Restart"] == ["always"]
    assert int(service["RestartSec"][0]) >= 5


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd comes with the system")
def test_the_units_are_hardened(tmp_path):
    for name in ("lowswitch", "lowswitch-backup", "lowswitch-anchor", "lowswitch-verify"):
        line = ["systemd-analyze", "security", "--offline=yes", "--threshold=20"]
        ran = subprocess.run([*line, PACKAGING / f"{name}.service"], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout[-200:] + ran.stderr


def test_the_alerts_are_about_metrics_that_exist(tmp_path):
    yaml = pytest.importorskip("yaml")
    groups = yaml.safe_load((PACKAGING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert all(rule["annotations"]["summary"] for rule in rules)
    named = {one for rule in rules for one in re.findall(r"lowswitch_\w+", rule["expr"])}
    with Served(tmp_path) as served:
        text = served.request("GET", "/metrics", role="auditor")[2].decode()
    known = set(re.findall(r"# TYPE (\w+)", text))
    assert named <= known
    expressions = " ".join(rule["expr"] for rule in rules)
    assert "absent(" not in expressions  # one run of several would do for all of them
    assert set(re.findall(r"unless (\S+ ?\S*\))", expressions)) == {"on(job, instance)"}
    assert {"lowswitch_freeze_unrecorded", "lowswitch_last_backup_timestamp_seconds"} <= named
    assert "lowswitch_outages_total" in named  # outages that are too short for the rule about one
    if shutil.which("promtool"):
        line = ["promtool", "check", "rules", PACKAGING / "alerts.yaml"]
        subprocess.run(line, check=True, capture_output=True)


def test_a_night_in_containers_goes_on_after_a_step_that_fails(tmp_path):
    """Every program that it starts fails here; the commands of the ledger are commands."""
    for name in ("podman", "curl", "mountpoint"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> "$0.said"\nexit 1\n')
        (tmp_path / name).chmod(0o755)
    night, path = PACKAGING / "nightly-in-containers", {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run([night], cwd=ROOT, env=path, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr.count("failed: ")) == (1, 4)
    assert (tmp_path / "curl.said").exists()
    assert (tmp_path / "mountpoint.said").read_text() == "mountpoint -q /backup\n"
    text = night.read_text(encoding="utf-8").replace("$ledger", "run.db")
    commands_of = re.findall(r"inside lowswitch ([^<;\n]+)", text)
    assert len(commands_of) == 2
    for line in commands_of:
        syntax.parser(commands.COMMANDS).parse_args(line.replace('"', "").split())


def test_a_night_in_containers_leaves_earlier_copies_alone(tmp_path):
    """Whoever spoils a backup in the volume must not reach the copy of it on the other disk."""
    volume, backup, programs = (tmp_path / name for name in ("volume", "backup", "programs"))
    for folder in (volume, backup, programs):
        folder.mkdir()
    for name, line in (("podman", f"exec tar -C {volume} -cf - ."), ("mountpoint", "exit 0")):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    text = (PACKAGING / "nightly-in-containers").read_text(encoding="utf-8")
    steps = text.replace("/backup", str(backup)).partition("step curl")[0]
    for first, second in (("whole", None), ("spoilt", "new")):
        (volume / "first.db").write_text(first)
        if second:
            (volume / "second.db").write_text(second)
        path = {"PATH": f"{programs}:/usr/bin:/bin"}
        subprocess.run(["bash", "-c", steps + "copied_out"], env=path, check=True)
    found = {one.name: one.read_text() for one in backup.iterdir()}
    assert found == {"first.db": "whole", "second.db": "new"}


def test_an_image_is_built_without_the_secrets():
    text = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    left_in = {line[1:] for line in text.splitlines() if line.startswith("!")}
    assert "*" in text.splitlines()
    container = (PACKAGING / "Containerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", container, re.M)
    assert left_in == {name for line in copied for name in line.split()}


def test_a_probe_does_not_end_a_server_whose_database_is_away():
    """It can still FREEZE."""
    for name in ("Containerfile", "compose.yaml"):
        text = (PACKAGING / name).read_text(encoding="utf-8")
        assert re.findall(r"8642(/\w+)", text) == ["/healthz"]
