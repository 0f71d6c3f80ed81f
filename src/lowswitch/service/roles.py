"""Permissions: one table, from which the routes are made.

Nothing outside the table exists. A token has one role, and everything not granted to the role is
denied. Operators cannot approve, and reviewers cannot resume the run or restore a version. Both can
stop it: the first person to see a danger pauses the run or ends the trial, alone.
"""

from __future__ import annotations

from typing import NamedTuple

SITE, REVIEWER, OPERATOR, AUDITOR = "site", "reviewer", "operator", "auditor"
ROLES = (SITE, REVIEWER, OPERATOR, AUDITOR)
DUTIES = {  # what a person may do, in words
    SITE: (
        "enrols {episodes} and reports what came of them, under its own name",
        "has no pages: its own program reports, and hears when the run is paused, by whom and why",
    ),
    REVIEWER: (
        "reads everything",
        "asks for proposals, approves or postpones changes, and approves or limits a trial",
        "pauses the run and ends a trial, alone and at once",
        "forbids {actions}, and allows them again",
        "agrees to what another person asks for, where several reviewers must agree",
    ),
    OPERATOR: (
        "reads everything",
        "asks for proposals, settles and corrects reports",
        "pauses the run and ends a trial, alone and at once",
        "puts an earlier version back and resumes a paused run; where several reviewers must agree,"
        " they agree to both, and the operator can withdraw the request",
        "revokes tokens",
    ),
    AUDITOR: ("reads everything, checks the integrity and exports",),
}
ANYBODY = ("anybody",)  # also without a token
PROBES = ("/healthz", "/readyz")  # of a load balancer, which may know an address and no name

_ALL = ROLES
_READ = (REVIEWER, OPERATOR, AUDITOR)
STOPPING = (REVIEWER, OPERATOR)  # who may stop something, without asking anybody


class Endpoint(NamedTuple):
    """One route of the service."""

    method: str
    path: str
    handler: str  # the function in `api` or `pages`
    roles: tuple[str, ...]
    what: str  # as it follows "your role cannot"

    @property
    def is_api(self) -> bool:
        """Whether it is for programs, which send a token with each request."""
        return self.path.startswith("/api") or self.path in ("/metrics", *PROBES)

    @property
    def is_form(self) -> bool:
        """Whether it takes a form of a page."""
        return self.method == "POST" and not self.is_api


API = (
    Endpoint("GET", "/healthz", "health", ANYBODY, "say whether the server runs"),
    Endpoint("GET", "/readyz", "ready", ANYBODY, "say whether the ledger answers"),
    Endpoint("GET", "/metrics", "metrics", (OPERATOR, AUDITOR), "read the counts for Prometheus"),
    Endpoint("GET", "/api/openapi.json", "openapi", _ALL, "read the description of this interface"),
    Endpoint("GET", "/api/terms", "terms", _ALL, "read the terms: sizes, labels, rewards"),
    Endpoint("GET", "/api/policy", "policy", _ALL, "read the deployed policy, or a version"),
    Endpoint("POST", "/api/ask", "ask", (SITE,), "get tickets"),
    Endpoint("POST", "/api/act", "act", (SITE,), "get the action of a ticket"),
    Endpoint("POST", "/api/tell", "tell", (SITE,), "report on tickets"),
    Endpoint("GET", "/api/status", "status", _READ, "read the status of the run"),
    Endpoint("GET", "/api/proposal", "proposal", _READ, "read the pending proposal"),
    Endpoint("GET", "/api/worth", "worth", _READ, "read what rows of the proposal are worth"),
    Endpoint("GET", "/api/certificate", "certificate", _READ, "read whether the run may stop"),
    Endpoint("GET", "/api/proposals", "proposals", _READ, "list proposals and decisions"),
    Endpoint("GET", "/api/versions", "versions", _READ, "list the versions"),
    Endpoint("GET", "/api/tickets", "tickets", _READ, "list the tickets of a status"),
    Endpoint("GET", "/api/events", "events", _READ, "read the events from a number on"),
    Endpoint("GET", "/api/export", "export", _READ, "download all events as JSON lines or CSV"),
    Endpoint("POST", "/api/verify", "verify", _READ, "replay everything from the start"),
    Endpoint("GET", "/api/verdict", "verdict", _READ, "read the result of the last replay"),
    Endpoint("GET", "/api/anchor", "anchor", _READ, "get the signed head of the ledger"),
    Endpoint("POST", "/api/approve", "approve", (REVIEWER,), "deploy rows of the proposal"),
    Endpoint("POST", "/api/reject", "reject", (REVIEWER,), "let rows stay as they are"),
    Endpoint("POST", "/api/forbid", "forbid", (REVIEWER,), "forbid actions"),
    Endpoint("POST", "/api/lift", "lift", (REVIEWER,), "allow forbidden actions again"),
    Endpoint("GET", "/api/motions", "motions", _READ, "list decisions that need reviewers"),
    Endpoint("POST", "/api/confirm", "confirm", (REVIEWER,), "agree to a request"),
    Endpoint("POST", "/api/decline", "decline", STOPPING, "turn a request down"),
    Endpoint("POST", "/api/quorum", "set_quorum", (REVIEWER,), "change how many must agree"),
    Endpoint("POST", "/api/propose", "propose", STOPPING, "let the learner propose"),
    Endpoint("POST", "/api/freeze", "freeze", STOPPING, "pause the run"),
    Endpoint("POST", "/api/thaw", "thaw", (OPERATOR,), "resume the run"),
    Endpoint("POST", "/api/rollback", "rollback", (OPERATOR,), "deploy an earlier version again"),
    Endpoint("POST", "/api/cap", "cap_trial", STOPPING, "let fewer cases enter the trial"),
    Endpoint("POST", "/api/missing", "missing", (OPERATOR,), "declare that no report will come"),
    Endpoint("POST", "/api/lost", "missing_many", (OPERATOR,), "declare that no report will come"),
    Endpoint("POST", "/api/dismiss", "dismiss", (OPERATOR,), "dismiss a contradicting report"),
    Endpoint("POST", "/api/amend", "amend", (OPERATOR,), "correct a report"),
    Endpoint("POST", "/api/corrections", "amend_many", (OPERATOR,), "correct several reports"),
    Endpoint("GET", "/api/tokens", "tokens", (OPERATOR, AUDITOR), "list the tokens"),
    Endpoint("POST", "/api/tokens/revoke", "revoke", (OPERATOR,), "revoke a token"),
)
PAGES = (
    Endpoint("GET", "/style.css", "style", ANYBODY, "load the style of the pages"),
    Endpoint("GET", "/login", "login_form", ANYBODY, "open the form to log in"),
    Endpoint("POST", "/login", "login", ANYBODY, "log in with a token"),
    Endpoint("POST", "/logout", "logout", _READ, "log out"),
    Endpoint("GET", "/", "status", _READ, "see the status of the run"),
    Endpoint("GET", "/proposal", "proposal", _READ, "see the pending proposal"),
    Endpoint("GET", "/shown", "shown", _READ, "see again what a form led to"),
    Endpoint("POST", "/decide", "decide", (REVIEWER,), "approve or reject rows"),
    Endpoint("GET", "/map", "policy_map", _READ, "see the policy map"),
    Endpoint("GET", "/row", "row", _READ, "see a row and its history"),
    Endpoint("GET", "/timeline", "timeline", _READ, "see the timeline"),
    Endpoint("GET", "/audit", "audit", _READ, "see the audit"),
    Endpoint("GET", "/audit.csv", "audit_list", _READ, "download the events that fit a filter"),
    Endpoint("GET", "/difference", "difference", _READ, "compare two versions"),
    Endpoint("GET", "/export", "export", _READ, "download all events"),
    Endpoint("GET", "/roles", "roles", _READ, "see what each role may do"),
    Endpoint("GET", "/tokens", "tokens", (OPERATOR, AUDITOR), "see the tokens"),
    Endpoint("POST", "/verify", "verify", _READ, "replay everything from the start"),
    Endpoint("GET", "/forbid", "forbid_form", (REVIEWER,), "choose actions to forbid"),
    Endpoint("POST", "/forbid", "forbid", (REVIEWER,), "forbid actions"),
    Endpoint("POST", "/lift", "lift", (REVIEWER,), "allow forbidden actions again"),
    Endpoint("POST", "/confirm", "confirm", (REVIEWER,), "agree to a request"),
    Endpoint("POST", "/decline", "decline", STOPPING, "turn a request down"),
    Endpoint("POST", "/quorum", "quorum", (REVIEWER,), "change how many must agree"),
    Endpoint("POST", "/propose", "propose", STOPPING, "let the learner propose"),
    Endpoint("GET", "/freeze", "freeze_form", STOPPING, "open the form that pauses the run"),
    Endpoint("POST", "/freeze", "freeze", STOPPING, "pause the run"),
    Endpoint("POST", "/thaw", "thaw", (OPERATOR,), "resume the run"),
    Endpoint("POST", "/rollback", "rollback", (OPERATOR,), "deploy an earlier version again"),
    Endpoint("POST", "/cap", "cap", STOPPING, "let fewer cases enter the trial"),
    Endpoint("GET", "/tickets", "tickets", _READ, "see the reports"),
    Endpoint("GET", "/tickets.csv", "ticket_list", _READ, "download a list of reports"),
    Endpoint("GET", "/reports.csv", "report_table", _READ, "download reports as a table"),
    Endpoint("POST", "/missing", "missing", (OPERATOR,), "declare that no report will come"),
    Endpoint("GET", "/amend", "amend_form", (OPERATOR,), "open a report to correct it"),
    Endpoint("POST", "/amend", "amend", (OPERATOR,), "correct a report"),
    Endpoint("GET", "/corrections", "corrections_form", (OPERATOR,), "open a table of corrections"),
    Endpoint("POST", "/corrections", "corrections", (OPERATOR,), "correct several reports"),
    Endpoint("POST", "/dismiss", "dismiss", (OPERATOR,), "dismiss a contradicting report"),
    Endpoint("POST", "/late", "late", (OPERATOR,), "take in reports that came too late"),
    Endpoint("POST", "/tokens/revoke", "revoke", (OPERATOR,), "revoke a token"),
)
ENDPOINTS = (*API, *PAGES)
