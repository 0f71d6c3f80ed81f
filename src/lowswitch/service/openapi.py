"""The API as OpenAPI, made from the table of roles and the types of the bodies."""

from __future__ import annotations

from typing import Any

import msgspec

from lowswitch.service.bodies import BODIES
from lowswitch.service.roles import ANYBODY, API, Endpoint

_REF = "#/components/schemas/{name}"
_QUERIES = {
    "policy": ("version", "member"),
    "proposal": ("hash", "first", "count"),
    "proposals": ("first", "count"),
    "versions": ("first", "count"),
    "worth": ("rows",),
    "certificate": ("within", "probability", "cost"),
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
    "408": "the body did not come in time",
    "413": "the body, or the answer, would be too large",
    "415": "the body is compressed, or of another type",
    "422": "the ledger refuses it",
    "423": "the run is frozen",
    "429": "too many tokens that do not work, or too many open tickets; wait",
    "503": "nothing was done; send it again",
}


_TEXT = {  # answers that are no JSON
    "metrics": ("text/plain",),
    "export": ("application/jsonl", "text/csv"),
}
_ERROR = {
    "type": "object",
    "required": ["error", "says"],
    "properties": {"error": {"type": "string"}, "says": {"type": "string"}},
}


_DONE = {  # 202: the answer comes before all of it is on record
    "verify": ("202",),
    "freeze": ("200", "202"),
    "thaw": ("200", "202"),
}


def description() -> dict[str, Any]:
    """The whole API."""
    from lowswitch import __version__

    paths: dict[str, Any] = {}
    for endpoint in API:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    sent = [BODIES[one.handler] for one in API if one.handler in BODIES]
    _, schemas = msgspec.json.schema_components(sent, ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {"title": "lowswitch ledger", "version": __version__},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas | {"Refusal": _ERROR},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    public = endpoint.roles == ANYBODY
    codes = ("400", "503") if public else _REFUSED
    error = {"application/json": {"schema": {"$ref": _REF.format(name="Refusal")}}}
    refused = {code: {"description": _REFUSED[code], "content": error} for code in codes}
    kinds = _TEXT.get(endpoint.handler, ("application/json",))
    answer = {"description": "the ledger's answer", "content": {kind: {} for kind in kinds}}
    found: dict[str, Any] = {
        "operationId": endpoint.handler,
        "summary": endpoint.what,
        "description": f"For {', '.join(endpoint.roles)}.",
        "security": [] if public else [{"token": []}],
        "responses": dict.fromkeys(_DONE.get(endpoint.handler, ("200",)), answer) | refused,
    }
    if endpoint.handler in _QUERIES:
        found["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string"}}
            for name in _QUERIES[endpoint.handler]
        ]
    if endpoint.handler in BODIES:
        schema = {"$ref": _REF.format(name=BODIES[endpoint.handler].__name__)}
        content = {"application/json": {"schema": schema}}
        found["requestBody"] = {"required": True, "content": content}
    return found
