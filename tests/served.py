"""A served ledger for tests: a real server on 127.0.0.1, in a thread or in a process of its own."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

from psycopg.conninfo import conninfo_to_dict

from ledgers import made
from lowswitch.service.access import Access
from lowswitch.service.roles import ROLES
from lowswitch.service.server import Place, Server, opened


class Served:
    """A server in a thread, with a token of each role."""

    def __init__(self, folder, address=None, **options):
        self.address = address or folder / "run.db"
        if address or not self.address.exists():
            made(self.address, **options).close()
        self.place = Place("127.0.0.1", 0, False, None)
        self.tokens = {}
        access = Access(str(self.address))
        for role in ROLES:
            self.tokens[role] = access.create(name=f"the {role}", role=role, days=1)
        access.close()

    @classmethod
    def beside(cls, other):
        """Another server of the same ledger, with the same tokens."""
        second = cls.__new__(cls)
        second.address, second.tokens, second.place = other.address, other.tokens, other.place
        return second

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.service = self.stack.enter_context(opened(str(self.address), self.place))
        self.ledger, self.access = self.service.ledger, self.service.access
        listening = self.stack.enter_context(self.place.listen())
        self.port = listening.getsockname()[1]
        self.url = self.place.url(listening)
        ready = threading.Event()
        self.server = Server(self.service, ready.set)
        self.thread = threading.Thread(target=self.server.run, args=([listening],))
        self.thread.start()
        assert ready.wait(30)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join()
        self.stack.close()

    def request(self, method, path, body=None, *, role=None, token=None, headers=()):
        """One request; its status, headers and body."""
        given = dict(headers)
        shown = token or self.tokens.get(role)
        if shown:
            given.setdefault("Authorization", f"Bearer {shown}")
        if not (body is None or isinstance(body, bytes)):
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def json(self, method, path, body=None, **options):
        """One request for JSON; its status and what it says."""
        status, _, text = self.request(method, path, body, **options)
        return status, json.loads(text)

    def login(self, role, page="/roles"):
        """A browser's view: the cookie and the form token of somebody who has logged in.

        page: one that has the form token.
        """
        body = urllib.parse.urlencode({"token": self.tokens[role]}).encode()
        status, headers, _ = self.request("POST", "/login", body, headers=self.form_headers())
        assert status == 303, status
        cookie = headers["set-cookie"].partition(";")[0]
        text = self.request("GET", page, headers={"Cookie": cookie})[2].decode()
        return cookie, re.search(r'name="form" value="([^"]+)"', text)[1]

    def form_headers(self, cookie=None, origin=None):
        headers = {"Origin": origin or self.url}
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        return headers | ({"Cookie": cookie} if cookie else {})

    def post(self, path, session, **fields):
        """Send a form of a page, as a browser does, and read the page that it leads to.

        Who is sure of something has read what it changes, on the page before.
        """
        if fields.get("sure") and "read" not in fields and path != "/freeze":  # which is one step
            before = {name: value for name, value in fields.items() if name != "sure"}
            page = self.post(path, session, **before)[2].decode()
            read = re.search(r'name="read" value="(\w*)"', page)
            fields["read"] = read[1] if read else ""
        cookie, form = session
        body = urllib.parse.urlencode({"form": form, **fields}, doseq=True).encode()
        answer = self.request("POST", path, body, headers=self.form_headers(cookie))
        place = answer[1].get("location", "").partition("#")[0]
        if place.startswith("/shown"):
            return self.request("GET", place, headers={"Cookie": cookie})
        return answer

    def page(self, path, session):
        status, _, body = self.request("GET", path, headers={"Cookie": session[0]})
        return status, body.decode()


class Gate:
    """A door before PostgreSQL that can be shut: connections are cut, and new ones refused."""

    def __init__(self, postgres):
        given = conninfo_to_dict(postgres.get_uri())
        self.target = f"{given['host']}/.s.PGSQL.{given.get('port', 5432)}"
        self.pipes = []
        self.open()
        user, database = given["user"], given["dbname"]
        self.address = f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    port = 0

    def open(self):
        self.listening = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listening,), daemon=True).start()

    def shut(self):
        for one in (self.listening, *self.pipes):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.pipes.clear()

    def _accept(self, listening):
        with contextlib.suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.target)
                self.pipes += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one, other):
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                other.sendall(piece)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Process:
    """A server in a process of its own, which can be killed."""

    def __init__(self, address, port=0, level="error", log=None):
        self.address, self.port, self.level = address, port, level
        self.log = log  # a file for what it logs; by default that is part of what it says

    def start(self):
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lowswitch",
                "serve",
                str(self.address),
                "--port",
                str(self.port),
                "--log-level",
                self.level,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if self.log is None else open(self.log, "ab"),  # noqa: SIM115
            text=True,
            env=os.environ,
        )
        said = ""
        for line in self.process.stdout:  # it may say first that it compiles
            said += line
            if found := re.search(r"http://127.0.0.1:(\d+)", line):
                self.port = int(found[1])
                return self
        raise AssertionError(said)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        """As systemd does."""
        self.process.terminate()
        said = self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(), said


def wait_for(true, seconds=30):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)
