"""Puts the commit into the wheel, so that an installed service can say what it is."""

import os
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    """Add `lowswitch/commit.txt` with LOWSWITCH_COMMIT, or with the commit that git names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # which asks git when it runs
            return
        commit = os.environ.get("LOWSWITCH_COMMIT") or self._git()
        if commit:
            file = Path(mkdtemp()) / "commit.txt"
            file.write_text(f"{commit}\n", encoding="utf-8")
            build_data["force_include"][str(file)] = "lowswitch/commit.txt"

    def _git(self) -> str:
        command = ["git", "-C", self.root, "describe", "--always", "--dirty", "--exclude=*"]
        try:
            ran = subprocess.run([*command, "--abbrev=40"], capture_output=True, text=True)
        except OSError:
            return ""
        return ran.stdout.strip() if ran.returncode == 0 else ""
