"""The document of the calls: all there are, and what they really take and answer."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from starlette.routing import Route

from app.api.openapi import render_document
from app.dialects import embeddings_calls
from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RequestError
from app.events import Event
from app.settings import load_settings
from tests.api.bodies import body_of
from tests.api.test_ownership_matrix import STARTS
from tests.sdk.conversations import TURNS
from tests.serving import HELLO, routes_of, serve_relay


@pytest.fixture(scope="module")
def document() -> Any:
    routes = routes_of(load_settings({}))
    [route] = [one for one in routes if getattr(one, "path", "") == "/openapi.json"]
    assert isinstance(route, Route)
    return json.loads(json.dumps(render_document(routes)))


def validator(document: Any, name: str) -> jsonschema.Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return jsonschema.Draft202012Validator(schema)


def taken(document: Any, path: str) -> str:
    """The schema of what is sent to a path."""
    body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    return body["schema"]["$ref"].rpartition("/")[2]


def test_document_has_every_call_and_no_other(document):
    there = {
        (method.lower(), route.path.replace(":path}", "}"))
        for route in routes_of(load_settings({}))
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    told = {(method, path) for path, calls in document["paths"].items() for method in calls}

    assert there == told
    assert "3.1.0" == document["openapi"]


def test_document_is_well_formed(document):
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        assert re.fullmatch(r"[A-Za-z0-9]+", name), name
        assert schema.get("title", name) == name  # what generators call it
        jsonschema.Draft202012Validator.check_schema(schema)
    for reference in set(re.findall(r"#/components/schemas/([^\"]+)", json.dumps(document))):
        assert reference in schemas
    operations = [
        (path, operation)
        for path, calls in document["paths"].items()
        for operation in calls.values()
    ]
    names = [operation["operationId"] for _, operation in operations]
    assert sorted(set(names)) == sorted(names)
    for path, operation in operations:
        declared = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
        assert set(re.findall(r"{(\w+)}", path)) == declared
        assert {"summary", "operationId", "responses"} <= set(operation)


def test_every_event_is_told_by_its_type(document):
    event = document["components"]["schemas"]["Event"]
    types = {str(kind.__struct_config__.tag) for kind in Event.__args__}

    assert types == set(event["discriminator"]["mapping"])
    assert len(types) == len(event["anyOf"])


@pytest.mark.parametrize("path", sorted(STARTS - {"/v1/responses/compact"}))
def test_requests_of_each_dialect_are_as_told(document, path: str):
    check = validator(document, taken(document, path))
    body = body_of(path)
    more = TURNS.values() if path in ("/v1/chat", "/v1/chat/completions") else ()
    for one in (body, *more):
        check.validate(one)
    [client_format] = [one for one in CLIENT_FORMATS.values() if one.path == path]
    client_format.parse_request(json.dumps(body).encode())
    wrong = copy.deepcopy(body)
    wrong[next(iter({"messages", "input", "prompt"} & set(body)))] = 5
    assert not check.is_valid(wrong)


INPUTS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "openai_completions": ("prompt", ["hi", ["hi"]], [None, [], ["a", "b"], [1, 2], 5]),
    "embeddings": ("input", ["hi", ["a", "b"], [1, 2], [[1], [2, 3]]], [None, [], 5, [None], {}]),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_a_type_says_little_of_are_as_told(document, name: str):
    field, taken_ones, refused = INPUTS[name]
    path = "/v1/embeddings"
    parse: Callable[[bytes], object] = embeddings_calls.parse_request
    if name in CLIENT_FORMATS:
        path, parse = CLIENT_FORMATS[name].path, CLIENT_FORMATS[name].parse_request
    check = validator(document, taken(document, path))
    for value in taken_ones:
        check.validate({field: value, "model": "demo"})
        parse(json.dumps({field: value, "model": "demo"}).encode())
    for body in ({"model": "demo"}, *({field: value, "model": "demo"} for value in refused)):
        assert not check.is_valid(body), body
        with pytest.raises(RequestError):
            parse(json.dumps(body).encode())


async def test_values_of_a_query_are_as_told(document):
    async with serve_relay() as relay:
        reply = await relay.client.post("/v1/chat", json={**HELLO, "max_tokens": 1})
        path = f"/v1/streams/{reply.headers['stream-id']}/events"
        [told] = [
            {one["name"]: one["schema"] for one in call["get"]["parameters"]}
            for path, call in document["paths"].items()
            if path.endswith("/events")
        ]
        for name in ("format", "from"):
            for value in told[name]["enum"]:
                answer = await relay.client.get(path, params={name: value})
                assert 200 == answer.status_code, value
            for value in ("", "none"):
                assert value not in told[name]["enum"]
                answer = await relay.client.get(path, params={name: value})
                assert 400 == answer.status_code
        for who in ("tenant", "user", "key"):
            answer = await relay.client.get("/v1/usage", params={who: ""})
            assert 400 == answer.status_code
    [usage] = [
        call["get"]["parameters"] for path, call in document["paths"].items() if "usage" in path
    ]
    assert all(one["schema"]["minLength"] == 1 for one in usage)


async def test_what_the_relay_says_is_as_told(document):
    async with serve_relay() as relay:
        said = (await relay.client.get("/openapi.json")).json()
        assert document == said
        reply = await relay.client.post("/v1/chat", json={**HELLO, "max_tokens": 5})
        check = validator(document, "Event")
        for line in reply.text.splitlines():
            if line.startswith("data: "):
                check.validate(json.loads(line.removeprefix("data: ")))
        stream = reply.headers["stream-id"]
        shown = (await relay.client.get(f"/v1/streams/{stream}")).json()
        validator(document, "Result").validate(shown)
        saved = await relay.client.post(f"/v1/streams/{stream}/cassette")
        validator(document, "CassetteHead").validate(json.loads(saved.text.splitlines()[0]))
        link = (await relay.client.post(f"/v1/streams/{stream}/share")).json()
        validator(document, "ShareLink").validate(link)
        begun = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        validator(document, "Accepted").validate(begun.json())
        validator(document, "AccountUsage").validate((await relay.client.get("/v1/usage")).json())
        validator(document, "Echo").validate((await relay.client.get("/v1/echo")).json())
        for path in ("/healthz", "/readyz", "/readyz?verbose"):
            validator(document, "ProcessStatus").validate((await relay.client.get(path)).json())
        counted = await relay.client.post(
            "/v1/messages/count_tokens", json={**HELLO, "model": "demo"}
        )
        validator(document, "TokenCount").validate(counted.json())
        summary = (await relay.client.get("/v1/admin/summary", headers=relay.operator)).json()
        validator(document, "Summary").validate(summary)
        wrong = await relay.client.post("/v1/chat", json={})
        validator(document, "Problem").validate(wrong.json())
        assert not check.is_valid({"type": "text.delta", "block": "0", "text": "a"})
