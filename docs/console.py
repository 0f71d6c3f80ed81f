"""Take the pictures of the console that are on the pages, and record a meeting: docs/console/.

    python docs/console.py

It starts `lowswitch serve --demo`, opens its pages in Chromium, and needs the extra `test`.
"""

import contextlib
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "console"
sys.path.append(str(ROOT / "tests"))
# who looks at which page, and the size of the picture
PICTURES = {
    "status": ("Dr Vega", "/", 1200, 1010),
    "proposal": ("Dr Vega", "/proposal", 1200, 1010),
    "confirm": ("Dr Vega", "/proposal", 1200, 900),
    "map": ("Dr Vega", "/map", 1200, 660),
    "timeline": ("Dr Vega", "/timeline", 1200, 1000),
}
SCREEN = (1200, 800)  # of the recording, which is shown at two thirds of it
MOST_BYTES = 2_000_000


class Meeting:
    """People of the demo, who take turns in one tab."""

    def __init__(self, url: str, tokens: dict[str, str], browser: Any) -> None:
        self.url, self.tokens, self.browser = url, tokens, browser
        self.frames: list[tuple[Image.Image, int]] = []  # with milliseconds

    def be(self, name: str) -> None:
        """Log in."""
        self.browser.send("Network.clearBrowserCookies")
        self.browser.open(f"{self.url}/login")
        self.browser.type("#token", self.tokens[name])
        self.browser.click("main button", leaves=True)

    def go(self, path: str) -> None:
        self.browser.open(f"{self.url}{path}")

    def press(self, selector: str) -> None:
        self.browser.click(selector, leaves=True)

    def choose(self, decision: str) -> None:
        self.browser.evaluate(f"document.querySelector('[name=decision]').value = '{decision}'")

    def frame(self, seconds: float = 2.5) -> None:
        """Add what the window shows to the recording."""
        small = self.shown().resize(
            (SCREEN[0] * 2 // 3, SCREEN[1] * 2 // 3), Image.Resampling.LANCZOS
        )
        self.frames.append((small, round(1000 * seconds)))

    def shown(self) -> Image.Image:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.png"
            self.browser.picture(path, whole=False)
            with Image.open(path) as picture:
                return picture.convert("RGB")

    def scroll(self, times: int) -> None:
        """Read on to the end of the page, a few frames a screen."""
        for i in range(1, times + 1):
            end = "document.body.scrollHeight - innerHeight"
            self.browser.evaluate(f"scrollTo(0, ({end}) * {i} / {times})")
            self.frame(1.2)


def main() -> None:
    from browser import Browser

    TARGET.mkdir(exist_ok=True)
    with demo() as (url, tokens), Browser() as browser:
        meeting = Meeting(url, tokens, browser)
        take_pictures(meeting)
        record(meeting)


@contextlib.contextmanager
def demo() -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a new demo, and the token of each person."""
    command = [sys.executable, "-m", "lowswitch", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = ""
        while "Ctrl-C" not in said:
            said += server.stdout.readline()
        people = re.findall(r"^  (\w+) +(.+?) +(\S+)$", said, re.MULTILINE)
        yield re.findall(r"http://[\d.:]+", said)[0], {name: token for _, name, token in people}
        server.terminate()


def take_pictures(meeting: Meeting) -> None:
    """The pictures that pages show."""
    for name, (person, path, width, height) in PICTURES.items():
        meeting.browser.size(width, height)
        meeting.be(person)
        if name == "status":
            meeting.press("form[action='/verify'] button")
            meeting.go("/")  # says once what was done
        meeting.go(path)
        if name == "confirm":
            meeting.choose("approve all")
            meeting.press(".bar button")
        few = meeting.shown().quantize(128, Image.Quantize.MAXCOVERAGE)
        few.save(TARGET / f"{name}.png", optimize=True)


def record(meeting: Meeting) -> None:
    """One meeting: open reports, a new proposal, one change is left out, two reviewers agree."""
    meeting.browser.size(*SCREEN)
    meeting.be("Ms Okafor")
    meeting.frame()
    meeting.go("/tickets?days=10&select=all")
    meeting.frame()
    meeting.press(".bar button")
    meeting.browser.type("[name=reason]", "lost to follow-up")
    meeting.frame()
    meeting.press("[name=sure]")
    meeting.go("/proposal")
    meeting.press("form[action='/propose'] button")
    meeting.frame()
    meeting.press("[name=sure]")
    meeting.be("Dr Vega")
    meeting.go("/proposal")
    meeting.frame(4)
    meeting.scroll(3)
    meeting.press("button.link[value*='select=LIKELY']")
    meeting.choose("approve selected")
    meeting.scroll(1)
    meeting.press(".bar button")
    meeting.frame(4)
    meeting.browser.type("[name=reason]", "minutes of meeting 6, item 2")
    meeting.scroll(2)
    meeting.press("[name=sure]")
    meeting.frame()
    meeting.be("Dr Roth")
    meeting.frame(3)
    meeting.press("form[action='/confirm'] button")
    meeting.browser.type("[name=reason]", "agreed")
    meeting.scroll(2)
    meeting.press("[name=sure]")
    meeting.go("/timeline")
    meeting.frame(4)
    (first, *others), times = zip(*meeting.frames, strict=True)
    file = io.BytesIO()
    how = {"save_all": True, "append_images": others, "duration": list(times), "loop": 0}
    first.save(file, "WEBP", quality=60, method=4, **how)
    if len(file.getvalue()) > MOST_BYTES:
        raise SystemExit(f"the recording has {len(file.getvalue()):,} bytes; make it shorter")
    (TARGET / "meeting.webp").write_bytes(file.getvalue())


if __name__ == "__main__":
    main()
