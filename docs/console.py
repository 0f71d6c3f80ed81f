"""Take the pictures of the console that are on the pages: docs/console/*.png.

    python docs/console.py

It starts `lowswitch serve --demo`, opens its pages in Chromium, and needs the extra `test`.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "console"
sys.path.append(str(ROOT / "tests"))
# who looks at which page, and the size of the picture
PICTURES = {
    "status": ("reviewer", "/", 1200, 900),
    "proposal": ("reviewer", "/proposal", 1200, 1000),
    "confirm": ("reviewer", "/proposal", 1200, 900),
    "map": ("reviewer", "/map", 1200, 660),
    "timeline": ("reviewer", "/timeline", 1200, 900),
}


def main() -> None:
    from browser import Browser

    command = [sys.executable, "-m", "lowswitch", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = ""
        while "Ctrl-C" not in said:
            said += server.stdout.readline()
        url = re.findall(r"http://[\d.:]+", said)[0]
        people = re.findall(r"^  (\w+) +(.+?) +(\S+)$", said, re.MULTILINE)
        tokens = {role: token for role, _, token in reversed(people)}
        with Browser() as browser:
            for name, (role, path, width, height) in PICTURES.items():
                browser.size(width, height)
                browser.send("Network.clearBrowserCookies")
                browser.open(f"{url}/login")
                browser.type("#token", tokens[role])
                browser.click("main button", leaves=True)
                if name == "status":
                    browser.click("form[action='/verify'] button", leaves=True)
                    browser.open(f"{url}/")  # says once what was done
                browser.open(f"{url}{path}")
                if name == "confirm":
                    choice = "document.querySelector('[name=decision]').value = 'approve protocol'"
                    browser.evaluate(choice)
                    browser.click(".bar button", leaves=True)
                save(browser, name, (width, height))
        server.terminate()


def save(browser: Any, name: str, size: tuple[int, int]) -> None:
    """A picture with few colours, which is small."""
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.png"
        browser.picture(path, whole=False)
        with Image.open(path) as picture:
            cut = picture.convert("RGB").crop((0, 0, *size))
        cut.quantize(128, Image.Quantize.MAXCOVERAGE).save(TARGET / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
