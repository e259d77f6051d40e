"""`GET /openapi.json`: what the relay takes and answers, as OpenAPI 3.1.

Made from the types that requests are decoded as and events are encoded from. Bodies in the
words of other dialects are described as far as the relay reads them; what those dialects
answer is told by their own documents.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .. import __version__
from ..admin.summary import Summary
from ..cassettes.cassette import Head
from ..dialects.client_formats import CLIENT_FORMATS
from ..dialects.embeddings import MAX_INPUTS
from ..dialects.embeddings import RequestBody as EmbeddingsRequest
from ..dialects.native.client.renderer import Result
from ..errors import CODES
from ..events import Event
from ..ledger.report import Report
from . import admin, cassettes, client_secrets, share
from .counting import NOT_NEEDED, Counted
from .streams import CURSORS
from .usage import MAX_NAME

SCHEMAS: Final = "#/components/schemas/"
NATIVE: Final = "native"


class Problem(msgspec.Struct):
    """A failure, as `application/problem+json` (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    request_id: str
    retry_after_s: float | None = None


class Begun(msgspec.Struct):
    """Where a stream is, for `Prefer: respond-async`."""

    id: str
    url: str
    events_url: str
    cancel_url: str


class Link(msgspec.Struct):
    """A link by which others can read a stream."""

    url: str
    page_url: str
    token: str | None
    expires_at: int
    limited_by: str


class Operation(NamedTuple):
    """What the document says of a call."""

    summary: str
    takes: str = ""
    """The schema of its body."""
    optional: bool = False
    """Whether the body may be left out."""
    answers: Mapping[str, Any] = {}
    """By their status."""
    dialect: str = NATIVE
    """In whose words it fails."""
    query: Mapping[str, str] = {}
    """What the names of its query are for."""


def _json(name: str = "", *, told: str = "The answer.", kind: str = "application/json") -> Any:
    schema = {"$ref": f"{SCHEMAS}{name}"} if name else {"type": "object"}
    return {"description": told, "content": {kind: {"schema": schema}}}


def _text(kind: str, told: str) -> Any:
    return {"description": told, "content": {kind: {"schema": {"type": "string"}}}}


EVENTS: Final[dict[str, Any]] = {
    "description": (
        "Server-sent events. The `data` of each is one JSON object, the schema `Event`, whose "
        "`type` is also its `event`; `id` is a cursor for `Last-Event-ID`. The body ends after "
        "`stream.end`; one that ends without it was cut."
    ),
    "content": {
        "text/event-stream": {
            "schema": {"type": "string", "x-data-schema": {"$ref": f"{SCHEMAS}Event"}}
        }
    },
}
EMPTY: Final = {"description": "Done, or nothing to tell."}
_READS: Final = {
    "format": f"A dialect: {', '.join(CLIENT_FORMATS)}",
    "from": "`snapshot`: what is there already comes joined",
    "suffix": "Ask for the rest alone, in a dialect that is sent whole",
    **dict.fromkeys(CURSORS, "The event after which to read on"),
    "token": "A stream token, in place of a credential",
}
_OPENAI: Final = "openai_responses"
_TO_COMPACT: Final = "OpenaiResponsesRequestToCompact"

_VALUES: Final[Mapping[str, dict[str, Any]]] = {
    "format": {"enum": [*CLIENT_FORMATS]},
    "from": {"enum": ["snapshot"]},
    **{name: {"minLength": 1, "maxLength": MAX_NAME} for name in ("tenant", "user", "key")},
}
"""What the values of a query may be, beside texts."""

_TEXTS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_TOKENS: Final = {"type": "array", "items": {"type": "integer"}, "minItems": 1}

_FIELDS: Final[Mapping[tuple[str, str], dict[str, Any]]] = {
    ("OpenaiCompletionsRequest", "prompt"): {
        "anyOf": [{"type": "string"}, {**_TEXTS, "maxItems": 1}]
    },
    ("EmbeddingsRequest", "input"): {
        "anyOf": [
            {"type": "string"},
            {**_TEXTS, "maxItems": MAX_INPUTS},
            _TOKENS,
            {"type": "array", "items": _TOKENS, "minItems": 1, "maxItems": MAX_INPUTS},
        ]
    },
}
"""Fields that a request has to have, of which its type says less than its parser wants."""

_OTHERS: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", "/v1/streams/{stream}/events"): Operation(
        "Read a stream, live or again",
        answers={"200": EVENTS, "204": EMPTY},
        query=_READS,
    ),
    ("GET", "/v1/streams/{stream}"): Operation(
        "Look at a stream", answers={"200": _json("Result"), "304": EMPTY}
    ),
    ("DELETE", "/v1/streams/{stream}"): Operation(
        "Stop a stream and forget it", answers={"204": EMPTY}
    ),
    ("POST", "/v1/streams/{stream}/cancel"): Operation(
        "Stop a stream", answers={"202": _json("Result")}, query={"token": _READS["token"]}
    ),
    ("POST", "/v1/streams/{stream}/share"): Operation(
        "Make a link to a stream", "ShareRequest", True, {"200": _json("Link")}
    ),
    ("POST", "/v1/streams/{stream}/cassette"): Operation(
        "Save a stream as a file",
        "CassetteRequest",
        True,
        {
            "200": _text(
                "application/jsonl",
                "JSON lines: the schema `CassetteHead`, then `{at, event}` for each event.",
            )
        },
    ),
    ("GET", "/v1/responses/{response_id}"): Operation(
        "Look at a response, or read it", answers={"200": _json()}, dialect=_OPENAI
    ),
    ("DELETE", "/v1/responses/{response_id}"): Operation(
        "Stop a response and forget it", answers={"200": _json()}, dialect=_OPENAI
    ),
    ("GET", "/v1/responses/{response_id}/input_items"): Operation(
        "List what a response was made from", answers={"200": _json()}, dialect=_OPENAI
    ),
    ("POST", "/v1/responses/{response_id}/cancel"): Operation(
        "Stop a response", answers={"200": _json()}, dialect=_OPENAI
    ),
    ("POST", "/v1/responses/compact"): Operation(
        "Compact a conversation",
        _TO_COMPACT,
        answers={"200": _json()},
        dialect=_OPENAI,
    ),
    ("POST", "/v1/responses/input_tokens"): Operation(
        "Count the tokens of a request",
        "OpenaiResponsesRequestToCount",
        answers={"200": _json("Counted")},
        dialect=_OPENAI,
    ),
    ("POST", "/v1/messages/count_tokens"): Operation(
        "Count the tokens of a request",
        "AnthropicRequestToCount",
        answers={"200": _json("Counted")},
        dialect="anthropic",
    ),
    ("GET", "/v1/ui/chat/{chat}/stream"): Operation(
        "Read the last stream of a chat",
        answers={"200": _text("text/event-stream", "UI message chunks."), "204": EMPTY},
        dialect="ui",
    ),
    ("POST", "/v1/ui/chat/{chat}/stop"): Operation(
        "Stop what runs for a chat", answers={"204": EMPTY}, dialect="ui"
    ),
    ("POST", "/v1/embeddings"): Operation(
        "Embed texts", "EmbeddingsRequest", answers={"200": _json()}, dialect="openai_chat"
    ),
    ("POST", "/v1/client_secrets"): Operation(
        "Make a client secret", "ClientSecretRequest", True, {"200": _json()}
    ),
    ("GET", "/v1/usage"): Operation(
        "What whoever asks has used",
        answers={"200": _json("Report")},
        query=dict.fromkeys(("tenant", "user", "key"), "Whose, for an admin"),
    ),
    ("GET", "/v1/models"): Operation(
        "List the models", answers={"200": _json()}, dialect="openai_chat"
    ),
    ("GET", "/v1/models/{model}"): Operation(
        "Look at a model", answers={"200": _json()}, dialect="openai_chat"
    ),
    ("GET", "/v1/echo"): Operation("How this request came", answers={"200": _json()}),
    ("GET", "/healthz"): Operation("Whether the process lives", answers={"200": _json()}),
    ("GET", "/readyz"): Operation(
        "Whether it takes streams",
        answers={"200": _json(), "503": _json()},
        query={"verbose": "Tell of the targets too"},
    ),
    ("GET", "/metrics"): Operation(
        "For Prometheus", answers={"200": _text("text/plain", "Metrics.")}
    ),
    ("GET", "/admin"): Operation(
        "The operator's page", answers={"200": _text("text/html", "The page.")}
    ),
    ("GET", "/v1/admin/summary"): Operation(
        "How all processes fare", answers={"200": _json("Summary")}
    ),
    ("POST", "/v1/admin/targets"): Operation(
        "Order something of a target", "TargetOrder", answers={"202": _json()}
    ),
    ("GET", "/openapi.json"): Operation("This document", answers={"200": _json()}),
    ("GET", "/docs"): Operation(
        "This document as a page", answers={"200": _text("text/html", "The page.")}
    ),
    ("GET", "/"): Operation("The page", answers={"200": _text("text/html", "The page.")}),
}


def _starts() -> dict[tuple[str, str], Operation]:
    """Return the calls that start streams, one a dialect."""
    found = {}
    for name, one in CLIENT_FORMATS.items():
        own = name == NATIVE
        # Generators that type one kind alone take the first: an object is more than a text.
        content: dict[str, Any] = {}
        content |= _json("Result" if own else "")["content"] if name != "ui" else {}
        content |= (EVENTS if own else _text("text/event-stream", f"Frames of {name}."))["content"]
        told = EVENTS["description"] if own else f"The answer, in the words of {name}."
        found["POST", one.path] = Operation(
            f"Start a generation, in the words of {name}",
            _request_name(name),
            answers={
                "200": {"description": told, "content": content},
                "202": _json("Begun", told="Asked for with `Prefer: respond-async`."),
            },
            dialect=name,
        )
    return found


def _request_name(client_format: str) -> str:
    if client_format == NATIVE:
        return "ChatRequest"
    return "".join(part.title() for part in client_format.split("_")) + "Request"


def render_document(routes: Sequence[BaseRoute], *, root_path: str = "") -> dict[str, Any]:
    """Return the document of the routes; one that nothing is written of is an error.

    Raises:
        KeyError: a route has no row above.
    """
    operations = {**_OTHERS, **_starts()}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Route):
            path = re.sub(r":path}", "}", route.path)
            for method in sorted((route.methods or set()) - {"HEAD"}):
                operation = _render(operations[method, path], method, path)
                paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Seseragi",
            "version": __version__,
            "summary": "A relay between LLM APIs and browsers.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": root_path or "/"}],
        "security": [{}, *({name: []} for name in _SCHEMES)],
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": _SCHEMES},
    }


_SCHEMES: Final[dict[str, dict[str, str]]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    **{
        name: {"type": "apiKey", "in": "header", "name": name}
        for name in ("x-api-key", "api-key", "x-goog-api-key")
    },
}


def _render(operation: Operation, method: str, path: str) -> dict[str, Any]:
    words = [word for word in re.split(r"[^A-Za-z0-9]+", f"{method.lower()} {path}") if word]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]
    parameters += [
        {
            "name": name,
            "in": "query",
            "description": told,
            "schema": {"type": "string", **_VALUES.get(name, {})},
        }
        for name, told in operation.query.items()
    ]
    failure = (
        _json("Problem", told="A failure.", kind="application/problem+json")
        if operation.dialect == NATIVE
        else {"description": f"A failure, in the words of {operation.dialect}."}
    )
    said: dict[str, Any] = {
        "operationId": words[0] + "".join(word[:1].upper() + word[1:] for word in words[1:]),
        "summary": operation.summary,
        "responses": {**operation.answers, "default": failure},
    }
    if parameters:
        said["parameters"] = parameters
    if operation.takes:
        said["requestBody"] = {
            "required": not operation.optional,
            "content": {"application/json": {"schema": {"$ref": f"{SCHEMAS}{operation.takes}"}}},
        }
    return said


def _schemas() -> dict[str, Any]:
    """Return the schemas of all types; those of a request have names of its own."""
    # Its blocks are structs of several kinds, which msgspec writes and does not describe.
    fields = [
        (field.name, list[dict[str, Any]] if field.name == "blocks" else field.type, field.default)
        for field in msgspec.structs.fields(Result)
    ]
    result = msgspec.defstruct(
        "Result", [one[:2] if one[2] is msgspec.NODEFAULT else one for one in fields]
    )
    found: dict[str, Any] = {}
    for kind in (result, Problem, Begun, Link, Counted):
        found |= _describe(kind)
    for name, kind in (("Report", Report), ("Summary", Summary)):  # their parts have words of all
        found |= _describe(kind, name=name)
    found |= _describe(Head, name="CassetteHead")
    found["Problem"]["properties"]["code"] = {"enum": [*CODES]}
    found |= _describe(Event)
    for name, kind in (
        *((_request_name(name), one.request_type) for name, one in CLIENT_FORMATS.items()),
        ("EmbeddingsRequest", EmbeddingsRequest),
        ("ShareRequest", share.ShareOptions),
        ("CassetteRequest", cassettes.CassetteOptions),
        ("ClientSecretRequest", client_secrets.SecretOptions),
        ("TargetOrder", admin.TargetCommand),
    ):
        found |= _describe(kind, name=name, taken=True)
    for (name, field), schema in _FIELDS.items():
        found[name]["properties"][field] = schema
        found[name]["required"] = sorted({field, *found[name].get("required", ())})
    for dialect, field in NOT_NEEDED.items():
        whole = found[_request_name(dialect)]
        found[f"{whole['title']}ToCount"] = _without(whole, field)
    found[_TO_COMPACT] = {
        **found["OpenaiResponsesRequestToCount"],
        "title": _TO_COMPACT,
        "description": "A conversation: its items in `input`, or `previous_response_id`.",
        "required": ["model"],
    }
    return found


def _without(whole: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the schema of a request that need not say a field, or says null."""
    properties = {**whole["properties"]}
    properties[field] = {"anyOf": [properties[field], {"type": "null"}]}
    return {
        **whole,
        "title": f"{whole['title']}ToCount",
        "description": f"What is counted: as {whole['title']}, where `{field}` is not needed.",
        "required": [name for name in whole["required"] if name != field],
        "properties": properties,
    }


def _describe(kind: Any, *, name: str = "", taken: bool = False) -> dict[str, Any]:
    """Return the schemas of a type and all that it is made of.

    With a name that is the type's own, and begins those of the others. `taken`: it is a request's.
    """
    [whole], parts = msgspec.json.schema_components((kind,), ref_template=f"{SCHEMAS}{{name}}")
    own = str(whole.get("$ref", "")).removeprefix(SCHEMAS)
    names = {one: name if name and one == own else name + _word(one) for one in parts}
    if kind is Event:
        mapping = {
            str(part["properties"]["type"]["enum"][0]): f"{SCHEMAS}{names[one]}"
            for one, part in parts.items()
            if "enum" in part["properties"].get("type", {})
        }
        parts["Event"] = {**whole, "discriminator": {"propertyName": "type", "mapping": mapping}}
        names["Event"] = "Event"
    # Generators name what they make by the title, which would be the same in several dialects.
    return {
        names[one]: {**_rename(_plain(part, sent=not taken), names), "title": names[one]}
        for one, part in parts.items()
    }


def _plain(schema: dict[str, Any], *, sent: bool) -> dict[str, Any]:
    """Leave out defaults, which generators take for a promise that the field is there.

    In what is sent a field that would be null is not there.
    """
    fields = {}
    for name, field in schema.get("properties", {}).items():
        said = {key: value for key, value in field.items() if key != "default"}
        if sent and "default" in field and field["default"] is None and "anyOf" in said:
            kinds = [kind for kind in said.pop("anyOf") if kind != {"type": "null"}]
            said |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        fields[name] = said
    return {**schema, "properties": fields} if fields else schema


def _word(name: str) -> str:
    """Return the name of a type as one word; of types of one name, with that of their module."""
    *_, module, last = f".{name}".split(".")
    return (module.title().replace("_", "") + last if module else last).replace("_", "")


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case list():
            return [_rename(item, names) for item in value]
        case {"type": "array"} if "items" not in value and "prefixItems" not in value:
            # Generators refuse a list of anything that does not say so.
            return _rename({**value, "items": {}}, names)
        case dict():
            return {
                key: f"{SCHEMAS}{names[item.removeprefix(SCHEMAS)]}"
                if isinstance(item, str) and (key == "$ref" or item.startswith(SCHEMAS))
                else _rename(item, names)
                for key, item in value.items()
            }
        case _:
            return value


def routes(others: Sequence[BaseRoute], *, root_path: str = "") -> list[Route]:
    """Return the route of the document, which tells of the others and of itself."""
    made: list[bytes] = []

    async def get(request: Request) -> Response:
        if not made:  # when it is asked for first: 20 ms
            made.append(msgspec.json.encode(render_document([*others, own], root_path=root_path)))
        headers = {"cache-control": "no-cache"}
        return Response(made[0], headers=headers, media_type="application/json")

    own = Route("/openapi.json", get, methods=["GET"])
    return [own]
