"""Each door applies hooks on requests, and no secret is kept anywhere where `redact` is on."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import websockets

from app.dialects.client_formats import CLIENT_FORMATS
from app.testing.upstream import DONE, FINISH, USAGE, event, head, send, serve_upstream, text, wait
from tests.api.bodies import body_of
from tests.collector import collect
from tests.dialects.clients import REQUESTS
from tests.serving import Relay, serve_relay

CANARY = "ghp_" + "aB3" * 12
MORE = "AKIA1234567890ABCDEF"
FOUND = ("aB3aB3", "1234567890ABCDEF")
REDACT = '[[hook]]\ncall = "redact"\nhold = 100\n'
STOP = '[[hook]]\ncall = "tests.api.test_hooks:stop"\non = ["request"]\n'
TABLES = """
{settings}
[upstream.a]
base_url = "{a}"
options = ["*"]
[[route]]
name = "fast"
targets = ["a/m"]
{route}
{hooks}
"""

DOORS: dict[str, Any] = {
    **{
        one.path: {**body_of(one.path), "model": "fast"}
        for one in CLIENT_FORMATS.values()
        if one.path not in ("/v1/ui/chat", "/v1/ag-ui")
    },
    "/v1/ui/chat": body_of("/v1/ui/chat"),
    "/v1/ag-ui": body_of("/v1/ag-ui"),
    "/v1/embeddings": {"model": "fast", "input": "hello"},
    "/v1/responses/compact": {"model": "fast", "input": "hello"},
    "/v1/responses/input_tokens": {"model": "fast", "input": "hello"},
    "/v1/messages/count_tokens": {
        "model": "fast",
        "messages": [{"role": "user", "content": "hello"}],
    },
    "/v1/moderations": {"model": "fast", "input": "hello"},
    "/v1/rerank": {"model": "fast", "query": "q", "documents": ["hello"]},
    "/v1/images/generations": {"model": "fast", "prompt": "hello"},
    "/v1/audio/speech": {"model": "fast", "input": "hello", "voice": "alloy"},
}


def write(tmp_path: Path, base_url: str, hooks: str, *, route: str = "", settings: str = "") -> Any:
    path = tmp_path / "seseragi.toml"
    path.write_text(TABLES.format(a=base_url, hooks=hooks, route=route, settings=settings))
    return path


def planted(value: Any, word: str) -> Any:
    return json.loads(json.dumps(value).replace("hello", word))


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("path", DOORS)
async def test_a_hook_stops_a_request_at_each_door(path, streams, tmp_path):
    body = planted(DOORS[path], "a forbidden word")
    if "stream" in body:
        body["stream"] = streams
    async with serve_upstream() as upstream:
        config = write(tmp_path, upstream.base_url, STOP)
        async with serve_relay(config=config, default_model="fast") as relay:
            answer = await relay.client.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert "a forbidden word" in answer.text
    assert not upstream.calls


async def test_a_hook_stops_a_form_and_a_web_socket(tmp_path):
    async with serve_upstream() as upstream:
        config = write(tmp_path, upstream.base_url, STOP)
        async with serve_relay(config=config, default_model="fast") as relay:
            answer = await relay.client.post(
                "/v1/audio/transcriptions",
                data={"model": "fast", "prompt": "a forbidden word"},
                files={"file": ("a.wav", b"\0" * 99, "audio/wav")},
            )
            url = f"ws://127.0.0.1:{relay.port}/v1/responses"
            async with websockets.connect(url, proxy=None) as socket:
                create = {"type": "response.create", "model": "fast", "input": "a forbidden word"}
                await socket.send(json.dumps(create))
                refused = json.loads(await socket.recv())
    assert answer.status_code == 400
    assert (refused["type"], refused["status"]) == ("error", 400)
    assert "stopped the request" in answer.text
    assert "stopped the request" in refused["error"]["message"]
    assert not upstream.calls


async def test_tokens_are_no_way_around(tmp_path):
    async with serve_upstream() as upstream:
        config = write(tmp_path, upstream.base_url, REDACT)
        async with serve_relay(config=config) as relay:
            answer = await relay.client.post(
                "/v1/embeddings", json={"model": "fast", "input": [[1, 2], [3]]}
            )
    assert answer.status_code == 400
    assert "input: a hook cannot check tokens; send texts instead" in answer.text
    assert not upstream.calls


CALLS = [path for path in DOORS if "responses" not in path and path not in REQUESTS]


@pytest.mark.parametrize("path", CALLS)
async def test_a_provider_gets_the_redacted_request_at_each_door(path, tmp_path):
    body = planted(DOORS[path], CANARY)
    async with serve_upstream() as upstream:
        upstream.script = [head(), send(text("x") + FINISH + DONE)]
        config = write(tmp_path, upstream.base_url, REDACT)
        async with serve_relay(config=config, default_model="fast") as relay:
            await relay.client.post(path, json=body)
    for call in upstream.calls:
        assert b"[key]" in call.body
        assert b"aB3" not in call.body
    assert upstream.calls or "count" in path


async def test_what_is_sent_of_a_form_is_redacted(tmp_path):
    async with serve_upstream() as upstream:
        config = write(tmp_path, upstream.base_url, REDACT)
        async with serve_relay(config=config) as relay:
            await relay.client.post(
                "/v1/audio/transcriptions",
                data={"model": "fast", "prompt": f"it is {CANARY}"},
                files={"file": ("a.wav", b"RIFF", "audio/wav")},
            )
    assert b"it is [key]" in upstream.calls[0].body
    assert b"RIFF" in upstream.calls[0].body


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/messages/count_tokens", "/v1/moderations"])
async def test_a_failed_hook_is_503_at_doors_without_a_stream(path, tmp_path):
    hook = '[[hook]]\nname = "mine"\ncall = "tests.api.test_hooks:fail"\n'
    async with serve_upstream() as upstream:
        config = write(tmp_path, upstream.base_url, hook)
        async with serve_relay(config=config) as relay:
            answer = await relay.client.post(path, json=DOORS[path])
    assert answer.status_code == (529 if "messages" in path else 503)  # as Anthropic says it
    assert answer.headers["retry-after"] == "1"
    assert "the hook 'mine' failed" in answer.text
    assert not upstream.calls


def call_with(arguments: str) -> str:
    function = {"name": "f", "arguments": arguments}
    call = {"index": 0, "id": "c", "type": "function", "function": function}
    return event({"tool_calls": [call]})


ESCAPED = [
    f'"\\n{CANARY}"',
    f'"\\t{CANARY}"',
    f'"\\u00e9 {CANARY}"',
    '"\\u0041KIA' + MORE[4:] + '"',
]


@pytest.mark.parametrize("escaped", ESCAPED)
async def test_escapes_hide_no_key_in_a_call_or_a_json_answer(escaped, tmp_path):
    document = f'{{"name": {escaped}, "mail": "\\nann@example.com", "n": 1}}'
    pieces = [text(document[at : at + 5]) for at in range(0, len(document), 5)]
    async with serve_upstream() as upstream:
        upstream.script = [
            head(),
            *(send(piece) for piece in pieces),
            send(call_with(document) + event(finish_reason="tool_calls") + DONE),
        ]
        config = write(tmp_path, upstream.base_url, REDACT)
        async with serve_relay(config=config, default_model="fast") as relay:
            body = {"messages": [{"role": "user", "content": document}], "stream": False}
            answer = (await relay.client.post("/v1/chat/completions", json=body)).json()
    message = answer["choices"][0]["message"]
    sent = json.loads(upstream.calls[0].json["messages"][0]["content"])
    for found in (message["content"], message["tool_calls"][0]["function"]["arguments"]):
        assert json.loads(found)["mail"] == "\n[email]"
        assert json.loads(found)["name"].endswith("[key]")
    assert sent["name"].endswith("[key]")
    assert sent["mail"] == "\n[email]"


NAMES = ["name", "id", "url", "data", "type", "role", "format", "detail", "text"]


@pytest.mark.parametrize("name", NAMES)
async def test_parameters_of_any_name_are_checked(name, tmp_path):
    schema = {
        "type": "object",
        "properties": {name: {"type": "string", "description": f"like {CANARY}"}},
    }
    arguments = json.dumps({name: {"inner": CANARY}})
    function = {"name": "f", "arguments": arguments}
    body = {
        "messages": [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c", "content": arguments},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}],
    }
    async with serve_upstream() as upstream:
        upstream.script = [head(), send(text("x") + FINISH + DONE)]
        config = write(tmp_path, upstream.base_url, REDACT)
        async with serve_relay(config=config, default_model="fast") as relay:
            await relay.client.post("/v1/chat", json=body)
    sent = upstream.calls[0].json
    assert "aB3" not in json.dumps(sent)
    parameters = sent["tools"][0]["function"]["parameters"]
    assert parameters["properties"][name] == {"type": "string", "description": "like [key]"}
    assert json.loads(sent["messages"][2]["content"]) == {name: {"inner": "[key]"}}


async def test_a_name_that_a_hook_would_change_is_refused(tmp_path):
    tools = [{"type": "function", "function": {"name": CANARY}}]
    async with serve_upstream() as upstream:
        config = write(tmp_path, upstream.base_url, REDACT)
        async with serve_relay(config=config, default_model="fast") as relay:
            answer = await relay.client.post(
                "/v1/chat", json={"messages": [{"role": "user", "content": "x"}], "tools": tools}
            )
    assert answer.status_code == 400
    assert answer.json()["code"] == "content_filtered"
    assert "Function.name: hooks replace a part of it" in answer.text
    assert not upstream.calls


def body_with_canaries(path: str) -> dict[str, Any]:
    """Return a request with a canary in each text."""
    body = planted({**DOORS[path]}, f"it is {CANARY}")
    if "input" in body:
        body |= {"instructions": CANARY, "metadata": {"a": CANARY}, "user": CANARY}
    elif "completions" in path or path == "/v1/chat":
        body |= {"user": CANARY, "metadata": {"a": CANARY}, "stop": [CANARY]}
    elif path == "/v1/ag-ui":
        body |= {"threadId": CANARY}
    elif path == "/v1/ui/chat":
        body |= {"id": CANARY}
    if path in ("/v1/chat", "/v1/chat/completions"):
        body |= {"chat": CANARY, "overlap": "refuse"}
    return body


def found_in(place: str, data: bytes) -> list[str]:
    return [place for one in FOUND if one.encode() in data]


@pytest.mark.parametrize("name", CLIENT_FORMATS)
async def test_no_secret_is_kept_anywhere(name, tmp_path, capfd, monkeypatch):
    path = CLIENT_FORMATS[name].path
    said = f"the key {CANARY} and {MORE}. " + "more words " * 30
    logged, records = tmp_path / "log.sqlite", tmp_path / "records.sqlite"
    leaks: list[str] = []
    with collect() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        async with serve_upstream() as upstream:
            pieces = [send(text(said[at : at + 7])) for at in range(0, len(said), 7)]
            upstream.script = [
                head(),
                send(event({"reasoning_content": f"hm {CANARY}"})),
                *pieces,
                wait(0.01),
                send(call_with(json.dumps({"k": f"\n{CANARY}"})) + FINISH + USAGE + DONE),
            ]
            config = write(
                tmp_path,
                upstream.base_url,
                REDACT,
                route="record_content = true",
                settings="trace_content = true\nrecord_cassettes = 'new'",
            )
            (tmp_path / "cassettes").mkdir()
            async with serve_relay(
                config=config,
                default_model="fast",
                log=f"sqlite:///{logged}",
                records=f"sqlite:///{records}",
                cassettes=tmp_path / "cassettes",
                traces="true",
                admin="true",
            ) as relay:
                leaks += await _ask(relay, path)
                await collector.wait_for_requests(1)
            for call in upstream.calls:
                leaks += found_in("provider", call.body)
            assert upstream.calls
        leaks += [place for body in collector.bodies for place in found_in("trace", body)]
        assert collector.bodies
    written = capfd.readouterr()
    leaks += found_in("log", (written.out + written.err).encode())
    leaks += [
        place
        for file in tmp_path.rglob("*")
        if file.is_file()
        for place in found_in(file.name, file.read_bytes())
    ]
    with contextlib.closing(sqlite3.connect(records)) as database:
        assert "[key]" in json.dumps(database.execute("select content from streams").fetchall())
    assert list((tmp_path / "cassettes").glob("*.jsonl"))
    assert leaks == []


async def _ask(relay: Relay, path: str) -> list[str]:
    leaks = []
    reply = await relay.client.post(path, json=body_with_canaries(path))
    assert reply.status_code == 200, reply.text
    leaks += found_in("client", reply.content)
    stream = reply.headers["stream-id"]
    places = [f"/v1/streams/{stream}", f"/v1/streams/{stream}/events", "/v1/admin/summary"]
    if path == "/v1/responses":
        body = reply.text
        response = json.loads(body.split("data: ")[1].split("\n")[0])["response"]["id"]
        places += [f"/v1/responses/{response}", f"/v1/responses/{response}/input_items"]
    for place in places:
        headers = relay.operator if "admin" in place else {}
        answer = await relay.client.get(place, headers=headers)
        leaks += found_in(place, answer.content)
        assert "admin" in place or answer.status_code == 200, (place, answer.text)
    return leaks
