"""Tools and fields of Responses clients: sent on as they came, or translated, and told of."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from app.testing.upstream import DONE, Upstream, event, head, send
from tests.api.test_options import configured
from tests.serving import Relay, serve_script

F = {"type": "function", "name": "f", "parameters": {"type": "object"}}
SPACE = {"type": "namespace", "name": "mcp__w", "description": "d", "tools": [{**F, "name": "get"}]}
PATCH: dict[str, Any] = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
TOOLS = [F, SPACE, PATCH, {"type": "tool_search", "execution": "client"}, {"type": "web_search"}]
CODEX: dict[str, Any] = {
    **{"model": "r", "tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": True},
    **{"reasoning": {"effort": "medium", "summary": "auto"}, "text": {"verbosity": "low"}},
    **{"include": ["reasoning.encrypted_content"], "store": False, "prompt_cache_key": "k"},
    **{"client_metadata": {"session_id": "s"}, "stream": True},
    "input": [
        {"type": "message", "id": "msg_1", "role": "user", "content": "Hi"},
        {
            **{"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "apply_patch"},
            **{"input": "a", "status": "completed"},
        },
        {"type": "custom_tool_call_output", "id": "o1", "call_id": "c1", "output": "ok"},
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "x"}},
    ],
}
"""What Codex sends, in short."""
COMPLETED = {"id": "r", "status": "completed", "output": [], "model": "m"}


def completed() -> list[Any]:
    done = {"type": "response.completed", "response": COMPLETED}
    return [head(), send(f"event: response.completed\ndata: {json.dumps(done)}\n\n")]


async def notices(relay: Relay, stream: str) -> list[str]:
    events = (await relay.client.get(f"/v1/streams/{stream}/events")).text
    data = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: ")]
    return [e["message"] for e in data if e["type"] == "notice" and e["code"] == "field_ignored"]


AGENT = {"user-agent": "codex_cli_rs/0.169.0 (Debian 12; x86_64)"}


async def ask(relay: Relay, upstream: Upstream, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    """Return what the upstream was sent, and what the client is told was not."""
    reply = await relay.client.post("/v1/responses", json={**CODEX, **fields}, headers=AGENT)
    assert 200 == reply.status_code, reply.text
    (call,) = upstream.calls
    sent: dict[str, Any] = call.json
    return sent, await notices(relay, reply.headers["stream-id"])


@pytest.mark.sends_refused
async def test_an_upstream_that_speaks_responses_is_sent_the_request_itself(tmp_path: Path) -> None:
    async with configured(tmp_path, routes="", dialect="openai_responses") as (relay, upstream):
        upstream.script = completed()
        sent, told = await ask(relay, upstream, model="u/m", novel={"a": 1})

    items = [{k: v for k, v in item.items() if k != "id"} for item in CODEX["input"]]
    items[3] = CODEX["input"][3]
    assert {**CODEX, "model": "m", "input": items, "novel": {"a": 1}} == sent
    assert [] == told


CITED: list[dict[str, Any]] = [
    {"type": "file_citation", "file_id": "file-1", "filename": "a.pdf", "index": 2},
    {"type": "file_citation", "file_id": "file-2", "filename": "a.pdf", "index": 2},
    {"type": "file_path", "file_id": "file-3", "index": 0},
    {
        **{"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1"},
        **{"filename": "b.png", "start_index": 0, "end_index": 2},
    },
    {
        **{"type": "url_citation", "url": "https://a.example", "title": "A"},
        **{"start_index": 0, "end_index": 2},
    },
]


async def test_citations_of_files_keep_their_ids_and_go_back(tmp_path: Path) -> None:
    said = {"type": "output_text", "text": "Yes", "annotations": CITED, "logprobs": []}
    item = {"type": "message", "id": "msg_up", "role": "assistant", "status": "completed"}
    place = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", **place, "delta": "Yes"},
        *(
            {"type": "response.output_text.annotation.added", **place, "annotation": annotation}
            for annotation in CITED[:3]
        ),
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, "content": [said]},
        },
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    async with (
        configured(tmp_path, routes="", dialect="openai_responses") as (relay, upstream),
        AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0) as client,
    ):
        upstream.script = [head(), send(body), *completed()[1:]]
        whole = await client.responses.create(model="u/m", input="Hi")
        async with client.responses.stream(model="u/m", input="Hi") as stream:
            added = [e async for e in stream if e.type == "response.output_text.annotation.added"]
            streamed = await stream.get_final_response()
        for response in (whole, streamed):
            (message,) = response.output
            assert CITED == message.model_dump(exclude_unset=True)["content"][0]["annotations"]
            await client.responses.create(model="u/m", input=[message.model_dump()])  # type: ignore[list-item]
            assert CITED == upstream.calls[-1].json["input"][0]["content"][0]["annotations"]
        assert CITED == [json.loads(json.dumps(e.annotation, default=vars)) for e in added]


@pytest.mark.sends_refused
async def test_its_list_of_options_holds_and_drops_what_it_does_not_have(tmp_path: Path) -> None:
    async with configured(tmp_path, dialect="openai_responses") as (relay, upstream):
        upstream.script = completed()
        hosted = [
            {"type": "mcp", "server_url": "https://elsewhere.example"},
            {"type": "web_search"},
        ]
        sent, told = await ask(
            relay, upstream, tools=[*TOOLS, *hosted], models=["gpt-9"], novel=1, user="u"
        )

    assert TOOLS[:-1] == sent["tools"]
    assert not {"models", "novel"} & sent.keys()
    assert {"low", "k", "u"} == {sent["text"]["verbosity"], sent["prompt_cache_key"], sent["user"]}
    assert [
        "upstream 'u' does not allow models, novel, tools.mcp, tools.web_search from clients "
        "(setting `options`): dropped"
    ] == told


@pytest.mark.sends_refused
async def test_what_it_may_take_it_is_sent(tmp_path: Path) -> None:
    line = 'options = ["safe", "tools.web_search"]'
    async with configured(tmp_path, line, dialect="openai_responses") as (relay, upstream):
        upstream.script = completed()
        sent, told = await ask(relay, upstream)

    assert (TOOLS, []) == (sent["tools"], told)


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini", "bedrock_converse"])
async def test_others_are_sent_what_they_know_and_the_client_is_told_the_rest(
    dialect: str, tmp_path: Path
) -> None:
    async with configured(tmp_path, dialect=dialect) as (relay, upstream):
        reply = await relay.client.post("/v1/responses", json={**CODEX, "novel": 1}, headers=AGENT)
        (call,) = upstream.calls
        told = await notices(relay, reply.headers.get("stream-id", ""))

    sent = call.body.decode()
    for name in ("apply_patch", "mcp__w__get", "tool_search"):
        assert f'"name":"{name}"' in sent
    assert "novel" not in sent
    if dialect == "openai_chat":  # whose answer this is
        (said,) = told
        for name in ("client_metadata", "input.web_search_call", "tools.web_search", "novel"):
            assert name in said


@pytest.mark.parametrize(
    ("dialect", "line", "tools", "sent"),
    [
        ("anthropic", "web_search_*", [F], {"type": "web_search_20250305", "name": "web_search"}),
        ("anthropic", "web_fetch_*", [F], None),
        ("anthropic", "web_search_*", [{**F, "name": "web_search"}], None),
        ("gemini", "googleSearch", [], {"googleSearch": {}}),
        ("gemini", "googleSearch", [F], None),
        ("gemini", "urlContext", [], None),
        ("gemini_interactions", "google_search", [F], {"type": "google_search"}),
        ("openai_chat", "*", [], None),
    ],
)
async def test_a_search_is_the_providers_own_where_that_is_allowed(
    dialect: str, line: str, tools: list[Any], sent: Any, tmp_path: Path
) -> None:
    lines = f'options = ["safe", "tools.{line}"]'
    async with configured(tmp_path, lines, dialect=dialect) as (relay, upstream):
        search = {"type": "web_search"}
        body = {"model": "r", "input": "Hi", "stream": True, "tools": [*tools, search]}
        refused = await relay.client.post("/v1/responses", json=body)
        if sent is None:  # only an agent that always sends it is answered without it
            assert 400 == refused.status_code
            assert "tools.web_search: upstream 'u' has no such tool" in refused.text
            assert [] == upstream.calls
            tools = tools or [F]
            body["tools"] = [*tools, search]
            await relay.client.post("/v1/responses", json=body, headers=AGENT)
        (call,) = upstream.calls

    found = call.json.get("tools", [])
    assert ([sent] if sent else []) == [t for t in found if t == sent or "googleSearch" in t]
    assert len(found) == len(tools) + bool(sent)


@pytest.mark.parametrize("choice", ["none", {"type": "function", "name": "f"}])
async def test_a_hosted_tool_that_may_not_be_called_is_dropped(choice, tmp_path: Path) -> None:
    body = {
        "model": "r",
        "input": "Hi",
        "tools": [F, {"type": "web_search"}],
        "tool_choice": choice,
    }
    async with configured(tmp_path, dialect="openai_chat") as (relay, _):
        reply = await relay.client.post("/v1/responses", json=body)

    assert 200 == reply.status_code
    assert "tools.web_search" == reply.headers["seseragi-ignored"]


async def test_a_hosted_tool_that_options_do_not_allow_is_an_error_that_names_them(
    tmp_path: Path,
) -> None:
    body = {"model": "r", "input": "Hi", "tools": [F, {"type": "web_search"}]}
    async with configured(tmp_path, dialect="openai_responses") as (relay, upstream):
        reply = await relay.client.post("/v1/responses", json=body)

    assert (400, []) == (reply.status_code, upstream.calls)
    assert "tools.web_search" in reply.text
    assert "add it to options of [upstream.u]" in reply.text


async def test_an_answer_of_a_server_tool_of_anthropic_is_not_made_up(tmp_path: Path) -> None:
    own = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
    search = {"type": "web_search_20250305", "name": "web_search"}
    body = {"model": "r", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    agent = {"user-agent": "claude-cli/2.1.275 (external, cli)"}
    async with configured(tmp_path, dialect="openai_chat") as (relay, upstream):
        refused = [
            await relay.client.post("/v1/messages", json={**body, "tools": [own, search]}),
            await relay.client.post(
                "/v1/messages", json={**body, "tools": [search]}, headers=agent
            ),
        ]
        calls = len(upstream.calls)
        beside = {**body, "tools": [own, search]}
        reply = await relay.client.post("/v1/messages", json=beside, headers=agent)

    assert ([400, 400], 0) == ([one.status_code for one in refused], calls)
    assert all("web_search_20250305" in one.text for one in refused)
    assert (200, "tools[1]") == (reply.status_code, reply.headers["seseragi-ignored"])


async def test_openais_client_takes_a_custom_call_that_another_provider_made() -> None:
    text = 'line "one"\n\t☂ 🐟 \\'
    arguments = json.dumps({"input": text})
    call = {"index": 0, "id": "call_x1", "function": {"name": "apply_patch", "arguments": ""}}
    pieces = [
        {"index": 0, "function": {"arguments": arguments[at : at + 3]}}
        for at in range(0, len(arguments), 3)
    ]
    calls = "".join(event({"tool_calls": [piece]}) for piece in (call, *pieces))
    finish = event(finish_reason="tool_calls")
    async with serve_script([head(), send(calls + finish + DONE)]) as (relay, upstream):
        client = AsyncOpenAI(api_key="none", base_url=f"{relay.url}/v1", max_retries=0)
        tools: Any = [PATCH]
        async with client.responses.stream(model="openai/m", input="Hi", tools=tools) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_response()
        (item,) = final.output
        assert item.type == "custom_tool_call"
        (done,) = [e for e in events if e.type == "response.custom_tool_call_input.done"]
        deltas = [e for e in events if e.type == "response.custom_tool_call_input.delta"]
        again: Any = [{"role": "user", "content": "Hi"}, item.model_dump(exclude_unset=True)]
        again.append({"type": "custom_tool_call_output", "call_id": "call_x1", "output": "ok"})
        await client.responses.create(model="openai/m", input=again, tools=tools)
        await client.close()

    assert ("custom_tool_call", "call_x1", "apply_patch", text) == (
        *(item.type, item.call_id, item.name, item.input),
    )
    assert text == done.input == "".join(e.delta for e in deltas)
    assert 1 == len(deltas)
    said = upstream.calls[1].json["messages"][1]["tool_calls"][0]["function"]
    assert {"input": text} == json.loads(said["arguments"])
