"""`GET /openapi.json`: the API description, as OpenAPI 3.1.

The schemas are those of the types that requests are decoded as and answers are encoded from.
Requests of other dialects are described as far as the relay reads them; the dialects' own
documents describe their answers.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .. import __version__
from ..admin.snapshot import Summary
from ..cassettes.cassette import CassetteHead
from ..dialects.anthropic.client.format import CLIENT_FORMAT as ANTHROPIC
from ..dialects.client_formats import CLIENT_FORMATS, client_format_of
from ..dialects.embeddings_calls import EmbeddingsRequest
from ..dialects.forwarded import CALLS
from ..dialects.native.client.format import CLIENT_FORMAT as NATIVE
from ..dialects.native.client.format import Problem
from ..dialects.native.client.renderer import Result
from ..dialects.openai_responses.client.format import CLIENT_FORMAT as RESPONSES
from ..dialects.ui.client.format import CLIENT_FORMAT as UI
from ..events import Event
from ..ledger.usage import AccountUsage
from ..requests import ChatBody
from .client_secrets import ClientSecret, SecretOptions
from .endpoints import FORM, JSON
from .generation import Accepted
from .monitoring import Echo, ProcessStatus
from .request import JSON_LINES, MAX_PAGE, PAGE
from .single_call import TokenCount
from .stream_watch import WatchEvent
from .streams import CURSORS, ShareLink, ShareOptions, StreamList
from .usage import MAX_NAME

SCHEMAS: Final = "#/components/schemas/"


class Operation(NamedTuple):
    """One call."""

    summary: str
    takes: Any = None
    """The type of its body; None for none, `dict` for an object of another API."""
    answers: Mapping[str, Any] = {"200": dict}
    """By status: the type of the JSON object, or a whole response object."""
    query: Sequence[str] = ()
    """Names of `_PARAMETERS`."""
    media_type: str = JSON
    """Of its body."""


_EMPTY: Final = {"description": "An empty answer."}


def _events(schema: str, end: str) -> dict[str, Any]:
    data = {"type": "string", "x-data-schema": {"$ref": f"{SCHEMAS}{schema}"}}
    return {
        "description": (
            f"Server-sent events. The `data` of each is one JSON object, the schema `{schema}`, "
            "whose `type` is also its `event`; `id` is a cursor for `Last-Event-ID`. "
            f"{end} A JSON line is the `data` after the id, as `event_id`."
        ),
        "content": {
            media_type: {"schema": data} for media_type in ("text/event-stream", JSON_LINES)
        },
    }


_EVENTS: Final = _events(
    "Event", "The body ends after `stream.end`; one that ends without it was cut."
)
_CHANGES: Final = _events(
    "WatchEvent",
    "With `events=true` also the events of the streams, the schema `Event` with `stream`. The body "
    "ends from time to time: come back with the last id.",
)

_NAME: Final = {"minLength": 1, "maxLength": MAX_NAME}
_PARAMETERS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "format": ("The format of the frames", {"enum": [*CLIENT_FORMATS]}),
    "from": ("`snapshot`: join the deltas that are in the log", {"enum": ["snapshot"]}),
    "ping": ("Send heartbeats as `ping` events", {}),
    "suffix": ("Return only the rest, in a format that is sent whole", {}),
    **dict.fromkeys(CURSORS, ("The event after which to read, or the `next` of a page", {})),
    "token": ("A stream token, instead of a credential", {}),
    **{name: (f"The {name} of another account, for admins", _NAME) for name in ("tenant", "user")},
    "key": ("The key of another account, for admins", _NAME),
    "status": ("Only these streams", {"enum": ["running", "ended"]}),
    "metadata": ("Only streams with this `key:value`", {}),
    "events": ("Send the streams' events, too", {"enum": ["true"]}),
    "limit": (f"The most entries: 1 to {MAX_PAGE}, by default {PAGE}", {}),
    "verbose": ("Include the health of the targets", {}),
}
"""Query parameters: description and schema, besides that they are strings."""


def _text(media_type: str, description: str) -> dict[str, Any]:
    content = {media_type: {"schema": {"type": "string"}}}
    return {"description": description, "content": content}


def _bytes(media_types: Sequence[str]) -> dict[str, Any]:
    return {name: {"schema": {} if name == JSON else {"type": "string"}} for name in media_types}


_HTML: Final = {"200": _text("text/html", "The page.")}

_OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", "/v1/streams"): Operation(
        "List the caller's streams",
        answers={"200": StreamList},
        query=("status", "metadata", "limit", "after"),
    ),
    ("GET", "/v1/streams/watch"): Operation(
        "Watch the caller's streams",
        answers={"200": _CHANGES},
        query=("events", "metadata", "ping", *CURSORS),
    ),
    ("GET", "/v1/streams/{stream}/events"): Operation(
        "Read a stream, live or again",
        answers={"200": _EVENTS, "204": _EMPTY},
        query=("format", "from", "ping", "suffix", *CURSORS, "token"),
    ),
    ("GET", "/v1/streams/{stream}"): Operation(
        "Get a stream as one object", answers={"200": Result}
    ),
    ("DELETE", "/v1/streams/{stream}"): Operation("Delete a stream", answers={"204": _EMPTY}),
    ("POST", "/v1/streams/{stream}/cancel"): Operation(
        "Stop a stream", answers={"202": Result}, query=("token",)
    ),
    ("POST", "/v1/streams/{stream}/share"): Operation(
        "Create a link to a stream", ShareOptions, {"200": ShareLink}
    ),
    ("POST", "/v1/streams/{stream}/cassette"): Operation(
        "Save a stream as a file",
        answers={
            "200": _text(
                "application/jsonl",
                "JSON lines: the schema `CassetteHead`, then `{at, event}` for each event.",
            )
        },
    ),
    ("GET", "/v1/responses/{response_id}"): Operation("Get a response"),
    ("DELETE", "/v1/responses/{response_id}"): Operation("Delete a response"),
    ("GET", "/v1/responses/{response_id}/input_items"): Operation("List the input of a response"),
    ("POST", "/v1/responses/{response_id}/cancel"): Operation("Stop a response"),
    ("POST", "/v1/responses/compact"): Operation("Compact a conversation", RESPONSES.request_type),
    ("POST", "/v1/responses/input_tokens"): Operation(
        "Count the tokens of a request", RESPONSES.request_type, {"200": TokenCount}
    ),
    ("POST", "/v1/messages/count_tokens"): Operation(
        "Count the tokens of a request; `max_tokens` may be left out",
        ANTHROPIC.request_type,
        {"200": TokenCount},
    ),
    ("GET", "/v1/ui/chat/{chat}/stream"): Operation(
        "Read the last stream of a chat",
        answers={"200": _text("text/event-stream", "UI message chunks."), "204": _EMPTY},
    ),
    ("POST", "/v1/ui/chat/{chat}/stop"): Operation(
        "Stop the streams of a chat", answers={"204": _EMPTY}
    ),
    ("POST", "/v1/embeddings"): Operation("Create embeddings", EmbeddingsRequest),
    **{
        ("POST", path): Operation(
            f"Forward a call to the provider: {call.kind}",
            dict,
            {"200": {"description": "The provider's answer.", "content": _bytes(call.answers)}},
            media_type=FORM if call.form else JSON,
        )
        for call in CALLS
        for path in call.paths
    },
    ("POST", "/v1/client_secrets"): Operation(
        "Create a client secret", SecretOptions, {"200": ClientSecret}
    ),
    ("GET", "/v1/usage"): Operation(
        "Get the caller's usage", answers={"200": AccountUsage}, query=("tenant", "user", "key")
    ),
    ("GET", "/v1/models"): Operation("List the models"),
    ("GET", "/v1/models/{model}"): Operation("Get a model"),
    ("GET", "/v1/echo"): Operation("Echo this request", answers={"200": Echo}),
    ("GET", "/healthz"): Operation(
        "Check that the process is alive", answers={"200": ProcessStatus}
    ),
    ("GET", "/readyz"): Operation(
        "Check that the process accepts streams",
        answers={"200": ProcessStatus, "503": ProcessStatus},
        query=("verbose",),
    ),
    ("GET", "/metrics"): Operation(
        "Get the metrics for Prometheus", answers={"200": _text("text/plain", "Metrics.")}
    ),
    ("GET", "/admin"): Operation("Get the operator's page", answers=_HTML),
    ("GET", "/v1/admin/summary"): Operation(
        "Get the state of all processes", answers={"200": Summary}
    ),
    ("GET", "/openapi.json"): Operation("Get this document"),
    ("GET", "/docs"): Operation("Get this document as a page", answers=_HTML),
    ("GET", "/"): Operation("Get the page", answers=_HTML),
}

_SECURITY: Final[dict[str, dict[str, str]]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    **{
        name: {"type": "apiKey", "in": "header", "name": name}
        for name in ("x-api-key", "api-key", "x-goog-api-key")
    },
}


def render_document(routes: Sequence[BaseRoute], *, root_path: str = "") -> dict[str, Any]:
    """Return the document of the routes.

    Raises:
        KeyError: a route has no row above.
    """
    schemas = _Schemas()
    operations = {**_OPERATIONS, **_build_starts(schemas)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Route):
            path = re.sub(r":path}", "}", route.path)
            for method in sorted((route.methods or set()) - {"HEAD"}):
                operation = _render(operations[method, path], method, path, schemas)
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
        "security": [{}, *({name: []} for name in _SECURITY)],
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": _SECURITY},
    }


def _build_starts(schemas: "_Schemas") -> dict[tuple[str, str], Operation]:
    """Return the calls that start streams, one for each client format."""
    found = {}
    for name, one in CLIENT_FORMATS.items():
        stream = _EVENTS if one is NATIVE else _text("text/event-stream", f"Frames of {name}.")
        # Generators that support one media type take the first: the object.
        whole = {"application/json": {"schema": schemas.get(Result if one is NATIVE else dict)}}
        content = {**(whole if one is not UI else {}), **stream["content"]}
        answers = {"200": {**stream, "content": content}, "202": Accepted}
        summary = "Generate an answer" + ("" if one is NATIVE else f", for clients of {name}")
        found["POST", one.path] = Operation(summary, one.request_type, answers=answers)
    return found


def _render(operation: Operation, method: str, path: str, schemas: "_Schemas") -> dict[str, Any]:
    words = [word for word in re.split(r"[^A-Za-z0-9]+", f"{method.lower()} {path}") if word]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]
    for name in operation.query:
        description, schema = _PARAMETERS[name]
        parameters.append(
            {
                "name": name,
                "in": "query",
                "description": description,
                "schema": {"type": "string", **schema},
            }
        )
    responses = {
        status: answer if isinstance(answer, dict) else schemas.respond(answer)
        for status, answer in operation.answers.items()
    }
    responses["default"] = (
        schemas.respond(Problem, "application/problem+json")
        if (dialect := client_format_of(path)) is NATIVE
        else {"description": f"An error, in the format {dialect.name}."}
    )
    rendered: dict[str, Any] = {
        "operationId": words[0] + "".join(word[:1].upper() + word[1:] for word in words[1:]),
        "summary": operation.summary,
        "responses": responses,
    }
    if parameters:
        rendered["parameters"] = parameters
    if operation.takes is not None:
        rendered["requestBody"] = {
            "required": not schemas.can_be_empty(operation.takes),
            "content": {operation.media_type: {"schema": schemas.get(operation.takes)}},
        }
    return rendered


class _Schemas:
    """The schemas of all types that requests and answers are made of."""

    def __init__(self) -> None:
        kinds: list[Any] = [Problem, Event, WatchEvent, CassetteHead, Result, Accepted, dict]
        kinds += [one.request_type for one in CLIENT_FORMATS.values()]
        for operation in _OPERATIONS.values():
            kinds += [operation.takes, *operation.answers.values()]
        types = {kind for kind in kinds if not isinstance(kind, dict)} - {None}
        schemas, components = msgspec.json.schema_components(
            types, ref_template=f"{SCHEMAS}{{name}}"
        )
        self._schemas = dict(zip(types, map(_simplify, schemas), strict=True))
        self.components: dict[str, Any] = {}
        for name in sorted(components):
            word = _word(name)
            assert word not in self.components, f"two types are called {word}"  # noqa: S101
            # Generators name what they make by the title.
            self.components[word] = {**_simplify(components[name]), "title": word}
        self.components |= {"Event": self._schemas[Event], "WatchEvent": self._schemas[WatchEvent]}

    def get(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type, or a reference to it."""
        schema: dict[str, Any] = self._schemas[kind]
        return schema

    def respond(self, kind: Any, media_type: str = "application/json") -> dict[str, Any]:
        """Return a response object with a type as JSON."""
        description = "The answer." if kind is dict else kind.__doc__.partition("\n")[0]
        return {"description": description, "content": {media_type: {"schema": self.get(kind)}}}

    def can_be_empty(self, kind: Any) -> bool:
        """Return whether no field of a type is required."""
        name = str(self._schemas[kind].get("$ref", "")).removeprefix(SCHEMAS)
        return bool(name) and not self.components[name].get("required")


def _simplify(schema: Any) -> Any:
    """Return a schema with plain names, without defaults.

    Generators take a default for a promise that the field is present.
    """
    match schema:
        case str() if schema.startswith(SCHEMAS):
            return SCHEMAS + _word(schema.removeprefix(SCHEMAS))
        case list():
            return [_simplify(one) for one in schema]
        case {"type": "array"} if not {"items", "prefixItems"} & schema.keys():
            return {**schema, "items": {}}  # which generators require
        case {"properties": properties}:
            # No client can send a `rest`.
            fields = {n: _simplify(field) for n, field in properties.items() if n != "rest"}
            return {**schema, "properties": fields}
        case dict():
            return {key: _simplify(one) for key, one in schema.items() if key != "default"}
        case _:
            return schema


def _word(name: str) -> str:
    """Return the name of a type as one word.

    Types of one name have their module's name before it, or their dialect's.
    """
    *modules, last = name.split(".")
    if last == ChatBody.__name__:
        return "ChatRequest"  # its public name, that of the npm package's type too
    prefix = modules[2] if "dialects" in modules else modules[-1] if modules else ""
    return f"{prefix.title()}{last}".replace("_", "")


def routes(others: Sequence[BaseRoute], *, root_path: str = "") -> list[Route]:
    """Return the route of the document, which describes the others and itself."""
    made: list[bytes] = []

    async def get(request: Request) -> Response:
        if not made:  # at the first request: it takes 20 ms
            made.append(msgspec.json.encode(render_document([*others, own], root_path=root_path)))
        headers = {"cache-control": "no-cache"}
        return Response(made[0], headers=headers, media_type="application/json")

    own = Route("/openapi.json", get, methods=["GET"])
    return [own]
