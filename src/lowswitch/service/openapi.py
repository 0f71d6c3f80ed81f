"""The interface as OpenAPI, made from the table of roles."""

from __future__ import annotations

from typing import Any

from lowswitch.service.roles import ANYBODY, API, Endpoint

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 2000}
_LABEL: dict[str, Any] = {
    "oneOf": [{"type": "integer", "minimum": 0}, _TEXT],
    "description": "a label as text, or a position from 0 on that is no label of another one",
}
_LABELS: dict[str, Any] = {"type": "array", "items": _LABEL}
_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_ROWS: dict[str, Any] = {
    "type": "array",
    "items": {"type": "array", "items": _LABEL, "minItems": 2, "maxItems": 2},
    "nullable": True,
}
_ENDED: dict[str, Any] = {"type": "string", "enum": ["whole", "truncated", "terminated"]}


def _object(required: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": required | more,
        "required": list(required),
        "additionalProperties": False,
    }


_SEEN = {"states": _LABELS, "actions": {**_LABELS, "nullable": True}, "rewards": _NUMBERS}
_REPORT = _object({"ticket": _TEXT, **_SEEN}, ended=_ENDED)
_DECISION = {"proposal": _TEXT, "reason": _TEXT}
BODIES: dict[str, dict[str, Any]] = {
    "ask": _object({"requests": {"type": "array", "items": _TEXT, "maxItems": 512}}),
    "tell": _object({"reports": {"type": "array", "items": _REPORT, "maxItems": 512}}),
    "approve": _object(_DECISION, rows=_ROWS),
    "reject": _object(
        _DECISION,
        rows=_ROWS,
        forever={"type": "boolean"},
        visits={"type": "integer", "nullable": True},
    ),
    "propose": _object({}, early={"type": "boolean"}),
    "freeze": _object({"reason": _TEXT}),
    "thaw": _object({"reason": _TEXT}),
    "rollback": _object({"version": {"type": "integer"}, "reason": _TEXT}),
    "missing": _object({"ticket": _TEXT, "reason": _TEXT}, **_SEEN),
    "amend": _object({"ticket": _TEXT, **_SEEN, "reason": _TEXT}, ended=_ENDED),
    "revoke": _object({"id": _TEXT}),
}
_QUERIES = {
    "policy": ("version",),
    "tickets": ("status", "first"),
    "events": ("first", "count"),
    "export": ("kind",),
}
_REFUSED = {
    "400": "the request cannot be read",
    "401": "no token that works",
    "403": "the role may not",
    "404": "no such ticket",
    "409": "another report is on record, or another proposal is pending",
    "410": "the ticket was declared missing",
    "413": "the body is larger than 1 MiB",
    "422": "the ledger refuses it",
    "423": "the run is frozen",
    "503": "nothing was done; send it again",
}


def description() -> dict[str, Any]:
    """The whole interface."""
    from lowswitch import __version__

    paths: dict[str, Any] = {}
    for endpoint in API:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.0.3",
        "info": {"title": "lowswitch ledger", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    public = endpoint.roles == ANYBODY
    refused = {} if public else {code: {"description": says} for code, says in _REFUSED.items()}
    found: dict[str, Any] = {
        "operationId": endpoint.handler,
        "summary": endpoint.what,
        "description": f"For {', '.join(endpoint.roles)}.",
        "security": [] if public else [{"token": []}],
        "responses": {"200": {"description": "the ledger's answer"}} | refused,
    }
    if endpoint.handler in _QUERIES:
        found["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string"}}
            for name in _QUERIES[endpoint.handler]
        ]
    if endpoint.handler in BODIES:
        content = {"application/json": {"schema": BODIES[endpoint.handler]}}
        found["requestBody"] = {"required": True, "content": content}
    return found
