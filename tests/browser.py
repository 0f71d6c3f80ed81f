"""A real Chromium, driven through its DevTools: open, click, type, look.

The pages have no script of their own; what is evaluated here is only how a test finds things.
"""

import base64
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
_FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)


def missing():
    """Why no browser can be had, or None."""
    if CHROMIUM is None:
        return "there is no chromium; apt-get install chromium"
    if importlib.util.find_spec("websocket") is None:
        return "there is no websocket-client; the test extra installs it"
    if importlib.util.find_spec("axe_core_python") is None:
        return "there is no axe-core-python; the test extra installs it"
    return None


class Browser:
    """One tab."""

    def __init__(self):
        import websocket

        self.folder = tempfile.mkdtemp(prefix="lowswitch-chromium-")
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        with open(Path(self.folder) / "log", "wb") as log:
            self.process = subprocess.Popen(
                [CHROMIUM, *_FLAGS, *root, f"--user-data-dir={self.folder}", "about:blank"],
                stdout=log,
                stderr=log,
            )
        port = self._port()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            tabs = json.load(answer)
        address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        self.socket = websocket.create_connection(address, timeout=60)
        self.number, self.dialogs, self.requests, self.console = 0, [], [], []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.size(1200, 900)

    def forget(self):
        """Be as if just opened: nobody is logged in, and nothing has happened."""
        self.send("Network.clearBrowserCookies")
        self.open("about:blank")
        self.size(1200, 900)
        self.dialogs, self.requests, self.console = [], [], []

    def _port(self):
        file, end = Path(self.folder) / "DevToolsActivePort", time.monotonic() + 60
        while not (file.exists() and file.read_text().strip()):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(
                    f"chromium did not start: {Path(self.folder, 'log').read_text()}"
                )
            time.sleep(0.05)
        return int(file.read_text().split()[0])

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- the protocol ----------------------------------------------------------------------------

    def send(self, method, **values):
        """Call a method of DevTools; take in what happens meanwhile."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": values}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._happened(message)

    def _happened(self, message):
        kind, facts = message.get("method"), message.get("params", {})
        if kind == "Page.javascriptDialogOpening":
            self.dialogs.append(facts["message"])
        elif kind == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif kind == "Log.entryAdded":
            self.console.append(facts["entry"]["text"])

    def evaluate(self, script, *, wait=False):
        """What a script gives; wait: it gives a promise."""
        values = {"expression": script, "returnByValue": True, "awaitPromise": wait}
        answer = self.send("Runtime.evaluate", **values)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    # ---- what a person does ----------------------------------------------------------------------

    def open(self, url):
        """Go to an address, and wait until the page is there."""
        self._leaving(lambda: self.send("Page.navigate", url=url))

    def _leaving(self, act):
        """Do something that leads to another page, and wait for that."""
        self.evaluate("window.__left = true")
        act()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                if self.evaluate("!window.__left && document.readyState === 'complete'"):
                    return
            except RuntimeError:  # between two pages
                pass
            time.sleep(0.01)
        raise RuntimeError("the next page did not come")

    def click(self, selector, *, leaves=False):
        """Click where an element is; leaves: and wait for the next page."""

        def act():
            box = self.evaluate(
                f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
                " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
            )
            for kind in ("mousePressed", "mouseReleased"):
                at = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
                self.send("Input.dispatchMouseEvent", type=kind, **at)

        self._leaving(act) if leaves else act()

    def type(self, selector, text):
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.send("Input.insertText", text=text)

    def key(self, name, *, code, leaves=False, text=""):
        """Press a key such as Tab (code 9), Enter (13) or space (32)."""

        def act():
            facts = {"key": name, "code": name, "windowsVirtualKeyCode": code, "text": text}
            for kind in ("keyDown", "keyUp"):
                self.send("Input.dispatchKeyEvent", type=kind, **facts)

        self._leaving(act) if leaves else act()

    # ---- what a person sees ----------------------------------------------------------------------

    @property
    def text(self):
        return self.evaluate("document.body.innerText")

    @property
    def address(self):
        return self.evaluate("location.pathname + location.search")

    def size(self, width, height):
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def overflow(self):
        """How many pixels the page is wider than the window."""
        return self.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    def look(self, *, dark=False, prints=False):
        """Show pages in dark colours, or as they are printed."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media = "print" if prints else ""
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def faults(self, *rules):
        """What axe-core finds that is serious or critical: each rule with the elements.

        rules: look for these alone.
        """
        (folder,) = importlib.util.find_spec("axe_core_python").submodule_search_locations
        if not self.evaluate("!!window.axe"):
            self.evaluate((Path(folder) / "axe.min.js").read_text(encoding="utf-8"))
        options = json.dumps({"runOnly": rules} if rules else {})
        found = self.evaluate(f"axe.run({options}).then(found => found.violations)", wait=True)
        return {
            one["id"]: [node["html"][:200] for node in one["nodes"]][:5]
            for one in found
            if one["impact"] in ("serious", "critical")
        }

    def picture(self, path, *, whole=True):
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    def print(self, path):
        answer = self.send("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        Path(path).write_bytes(base64.b64decode(answer["data"]))
