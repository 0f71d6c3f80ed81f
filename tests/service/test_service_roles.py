"""Who may do what: every route against every role, and the ways around it that are closed."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from lowswitch.service import roles
from lowswitch.service.access import Access
from lowswitch.service.app import make_app
from served import Served, wait_for

S, R, Op, A = "site", "reviewer", "operator", "auditor"
READ = {R, Op, A}
EVERY = {S, R, Op, A}
ANYBODY = EVERY | {None}
# written out by hand: what each role may do, and nobody else
TABLE = {
    "GET /healthz": ANYBODY,
    "GET /readyz": ANYBODY,
    "GET /metrics": {Op, A},
    "GET /api/openapi.json": EVERY,
    "GET /api/terms": EVERY,
    "GET /api/policy": EVERY,
    "POST /api/ask": {S},
    "POST /api/act": {S},
    "POST /api/tell": {S},
    "GET /api/status": READ,
    "GET /api/proposal": READ,
    "GET /api/worth": READ,
    "GET /api/certificate": READ,
    "GET /api/proposals": READ,
    "GET /api/versions": READ,
    "GET /api/tickets": READ,
    "GET /api/events": READ,
    "GET /api/export": READ,
    "POST /api/verify": READ,
    "GET /api/verdict": READ,
    "GET /api/anchor": READ,
    "POST /api/approve": {R},
    "POST /api/reject": {R},
    "POST /api/forbid": {R},
    "POST /api/lift": {R},
    "GET /api/motions": READ,
    "POST /api/confirm": {R},
    "POST /api/decline": {R, Op},
    "POST /api/quorum": {R},
    "POST /api/propose": {R, Op},
    "POST /api/freeze": {R, Op},
    "POST /api/thaw": {Op},
    "POST /api/rollback": {Op},
    "POST /api/cap": {R, Op},
    "POST /api/missing": {Op},
    "POST /api/lost": {Op},
    "POST /api/dismiss": {Op},
    "POST /api/amend": {Op},
    "POST /api/corrections": {Op},
    "GET /api/tokens": {Op, A},
    "POST /api/tokens/revoke": {Op},
    "GET /style.css": ANYBODY,
    "GET /login": ANYBODY,
    "POST /login": ANYBODY,
    "POST /logout": READ,
    "GET /": READ,
    "GET /proposal": READ,
    "GET /shown": READ,
    "POST /decide": {R},
    "GET /map": READ,
    "GET /row": READ,
    "GET /timeline": READ,
    "GET /audit": READ,
    "GET /difference": READ,
    "GET /audit.csv": READ,
    "GET /export": READ,
    "GET /roles": READ,
    "GET /tokens": {Op, A},
    "POST /verify": READ,
    "GET /forbid": {R},
    "POST /forbid": {R},
    "POST /lift": {R},
    "POST /confirm": {R},
    "POST /decline": {R, Op},
    "POST /quorum": {R},
    "POST /propose": {R, Op},
    "GET /freeze": {R, Op},
    "POST /freeze": {R, Op},
    "POST /thaw": {Op},
    "POST /rollback": {Op},
    "POST /cap": {R, Op},
    "GET /tickets": READ,
    "GET /tickets.csv": READ,
    "GET /reports.csv": READ,
    "GET /corrections": {Op},
    "POST /corrections": {Op},
    "POST /dismiss": {Op},
    "POST /late": {Op},
    "POST /missing": {Op},
    "GET /amend": {Op},
    "POST /amend": {Op},
    "POST /tokens/revoke": {Op},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("roles")) as running:
        yield running


def test_the_routes_are_those_of_the_table(served):
    routes = make_app(served.service).app.routes
    found = {f"{method} {route.path}" for route in routes for method in route.methods - {"HEAD"}}
    assert found == TABLE.keys()
    assert len(routes) == len(TABLE) == len(roles.ENDPOINTS)


def test_every_role_at_every_endpoint(served):
    """An empty body is refused with 400, and so nothing changes where a role is let in."""
    sessions = {role: served.login(role) for role in READ}
    before, tried = served.ledger.status().events, 0
    for key, allowed in TABLE.items():
        method, path = key.split()
        for role in (None, *EVERY):
            if path.startswith("/api") or path in ("/metrics", "/healthz", "/readyz"):
                status = served.request(
                    method, path, b"[]" if method == "POST" else None, role=role
                )[0]
                denied = 401 if role is None else 403
            elif path == "/logout":
                continue  # below: it ends a session
            else:
                cookie, form = sessions.get(role, (None, ""))
                headers = served.form_headers(cookie)
                body = f"form={form}".encode() if method == "POST" else None
                status, said, _ = served.request(method, path, body, headers=headers)
                if said.get("location", "").startswith("/shown"):
                    status = served.request("GET", said["location"], headers=headers)[0]
                denied = {403} if role in READ else ({303} if method == "GET" else {401})
            expected = {denied} if isinstance(denied, int) else denied
            if role in allowed or allowed == ANYBODY:
                passed = (
                    {200, 202, 303} if path in ("/", "/login", "/verify", "/shown") else {200, 202}
                )
                assert status in passed | {400, 401, 404, 422}, (key, role, status)
                assert path == "/login" or status != 401, (key, role)
            else:
                assert status in expected, (key, role, status)
            tried += 1
    assert tried == 5 * (len(TABLE) - 1)
    assert served.ledger.status().events == before


def test_logging_out_ends_the_session(served):
    session = served.login("auditor")
    assert served.page("/", session)[0] == 200
    assert served.post("/logout", session)[0] == 303
    assert served.page("/", session)[0] == 303
    assert served.post("/logout", session)[0] == 401


def test_a_head_request_is_let_in_like_a_get(served):
    assert served.request("HEAD", "/api/status")[0] == 401
    assert served.request("HEAD", "/api/status", role="auditor")[0] == 200


def test_a_site_has_no_pages_and_one_token_is_no_other(served):
    token = served.tokens["site"]
    body = f"token={token}".encode()
    assert served.request("POST", "/login", body, headers=served.form_headers())[0] == 403
    assert served.request("GET", "/", token=token)[0] == 303  # pages know no header
    cookie, _ = served.login("auditor")
    assert served.request("GET", "/api/status", headers={"Cookie": cookie})[0] == 401


# ---- tokens --------------------------------------------------------------------------------------


def test_tokens_that_are_guessed_do_not_work(served):
    identity, secret = served.tokens["auditor"].split(".")
    other = served.tokens["operator"].split(".")[1]
    guesses = [
        *(
            "",
            ".",
            "x",
            "Bearer",
            identity,
            f"{identity}.",
            f".{secret}",
            secret,
            f"{identity}.{other}",
        ),
        *(f"{identity}.{secret[:-1]}", f"{identity}.{secret}x", f"{identity}.{secret.upper()}"),
        *("' OR 1=1 --", f"{identity}.{secret}.{secret}", "\xe9.\xe9", f"{identity}. {secret}"),
    ]
    for guess in guesses:
        headers = {"Authorization": f"Bearer {guess}"}
        assert served.request("GET", "/api/status", headers=headers)[0] == 401, guess
    for kind in ("Basic", "bearer:", "Token", ""):
        headers = {"Authorization": f"{kind} {served.tokens['auditor']}"}
        assert served.request("GET", "/api/status", headers=headers)[0] == 401, kind
    assert served.request("GET", "/api/status", role="auditor")[0] == 200


def test_a_secret_is_long_and_is_not_stored(served):
    for token in served.tokens.values():
        identity, secret = token.split(".")
        assert len(secret) == 43  # 256 bits in base64
        stored = served.access.token(identity)
        assert secret not in repr(stored)
        data = b"".join(path.read_bytes() for path in served.address.parent.glob("run.db*"))
        assert secret.encode() not in data
        assert stored.hash.encode() in data
    assert served.address.stat().st_mode & 0o777 == 0o600


def test_a_token_that_has_expired_does_not_work(served, monkeypatch):
    token = served.access.create(name="late", role="auditor", days=1)
    assert served.request("GET", "/api/status", token=token)[0] == 200
    later = datetime.now(UTC) + timedelta(days=1, seconds=1)
    monkeypatch.setattr("lowswitch.service.access._now", lambda: later)
    assert served.request("GET", "/api/status", token=token)[0] == 401


def test_a_revoked_token_and_its_sessions_stop_soon_also_by_another_process(served):
    token = served.access.create(name="gone", role="auditor", days=1)
    served.tokens["gone"] = token
    session = served.login("gone")
    assert served.page("/", session)[0] == 200
    other = Access(str(served.address))  # as the command line has it
    other.revoke(token.split(".")[0], by="me")
    other.close()
    wait_for(lambda: served.request("GET", "/api/status", token=token)[0] == 401, seconds=5)
    assert served.page("/", session)[0] == 303
    body = f"token={token}".encode()
    assert served.request("POST", "/login", body, headers=served.form_headers())[0] == 401


def test_an_operator_revokes_but_cannot_make_tokens(served):
    token = served.access.create(name="gone too", role="site", days=1)
    identity = token.split(".")[0]
    status, said = served.json("POST", "/api/tokens/revoke", {"id": identity}, role="operator")
    assert (status, said["state"], said["revoked_by"]) == (200, "revoked", "the operator")
    status, said = served.json("POST", "/api/tokens/revoke", {"id": identity}, role="operator")
    assert status == 422
    status, listed = served.json("GET", "/api/tokens", role="auditor")
    assert "hash" not in listed[0]
    assert not any("token" in key and "create" in key for key in TABLE)


# ---- where a form comes from ---------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null", None, ""])
def test_a_form_from_elsewhere_is_refused(served, origin):
    cookie, form = served.login("operator")
    headers = served.form_headers(cookie)
    headers.pop("Origin")
    if origin is not None:
        headers["Origin"] = origin
    body = f"form={form}&reason=evil".encode()
    assert served.request("POST", "/freeze", body, headers=headers)[0] == 403
    body = f"token={served.tokens['operator']}".encode()
    headers.pop("Cookie")
    assert served.request("POST", "/login", body, headers=headers)[0] == 403
    assert not served.ledger.status().frozen


def test_a_form_needs_the_form_token_of_its_own_session(served):
    cookie, _ = served.login("operator")
    _, other = served.login("operator")
    for form in ("", "x", other):
        status = served.post("/freeze", (cookie, form), reason="evil")[0]
        assert status == 403
    assert not served.ledger.status().frozen


def test_a_foreign_name_is_no_name_of_this_service(served):
    for host in ("evil.example", "127.0.0.1.evil.example", "", "a b", "8.8.8.8:80"):
        for path in ("/login", "/metrics", "/api/status", "/healthz/"):
            assert served.request("GET", path, headers={"Host": host})[0] == 400, (host, path)
    for host in ("localhost", "localhost:1", "127.0.0.1", "[::1]:80"):
        assert served.request("GET", "/login", headers={"Host": host})[0] == 200, host


def test_a_load_balancer_may_probe_by_address(served, monkeypatch):
    monkeypatch.setattr(served.service, "origin", "https://ledger.example.org")
    monkeypatch.setattr(served.service, "behind_tls", True)
    for path in ("/healthz", "/readyz"):
        assert served.request("GET", path, headers={"Host": "10.0.0.7:8642"})[0] == 200, path
    assert served.request("GET", "/login", headers={"Host": "10.0.0.7:8642"})[0] == 400


def test_every_answer_has_the_headers_that_keep_the_door_shut(served):
    session = served.login("auditor")
    for path in ("/", "/login", "/healthz", "/nowhere", "/api/nowhere", "/style.css"):
        _, headers, _ = served.request("GET", path, headers={"Cookie": session[0]})
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert headers["cache-control"] == "no-store" or path == "/style.css"
    body = f"token={served.tokens['auditor']}".encode()
    cookie = served.request("POST", "/login", body, headers=served.form_headers())[1]["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_sessions_end_when_they_are_old(served, monkeypatch):
    session = served.login("auditor")
    now = time.monotonic()
    monkeypatch.setattr("lowswitch.service.sessions._now", lambda: now + 3500)
    assert served.page("/", session)[0] == 200
    monkeypatch.setattr("lowswitch.service.sessions._now", lambda: now + 7200)
    assert served.page("/", session)[0] == 303
