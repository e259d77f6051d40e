"""Sessions of coding agents that go on with a provider that would refuse what stands in them."""

import hashlib
import json
from typing import Any

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.testing.upstream import serve_upstream
from tests.api.test_call_ids import script
from tests.serving import serve_relay, serve_script

USER = json.dumps({"device_id": "d" * 64, "account_uuid": "a" * 36, "session_id": "s" * 36})
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
READ = [
    {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a.png"}},
    {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"path": "b.txt"}},
]
LINK = {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}}
SHOWN = [
    {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "image", "source": PNG}, LINK],
    },
    {"type": "tool_result", "tool_use_id": "toolu_2", "content": "b"},
]
SEARCHED = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "title": "T", "url": "https://a.example/t"}],
    },
    {"type": "text", "text": "Found."},
]
ASK = {"role": "user", "content": "ask"}
MARK = "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;"
SESSION: dict[str, Any] = {
    "system": [{"type": "text", "text": MARK}, {"type": "text", "text": "You are Claude Code."}],
    "max_tokens": 4000,
    "metadata": {"user_id": USER},
    "novel_field": {"x": 1},
    "output_config": {"effort": "high"},
    "tools": [{"name": "Read", "input_schema": {"type": "object", "properties": {}}}],
    "messages": [
        ASK,
        {"role": "assistant", "content": READ},
        {"role": "user", "content": [*SHOWN, {"type": "text", "text": "look"}]},
        {"role": "assistant", "content": SEARCHED},
        ASK,
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": ""}]},
        ASK,
        # Interrupted here, and asked something else.
        {"role": "assistant", "content": [{**READ[0], "id": "toolu_3"}]},
        {"role": "user", "content": [{"type": "text", "text": "leave it"}]},
    ],
}
OTHERS = [name for name, row in UPSTREAM_FORMATS.items() if "anthropic" not in row.passthrough]


@pytest.mark.parametrize("dialect", OTHERS)
async def test_a_session_of_claude_code_goes_on_with_any_provider(dialect: str) -> None:
    async with serve_script(script(dialect, "i"), dialect=dialect) as (relay, upstream):
        body = {"model": "openai/gemini-3.6-flash", **SESSION}
        reply = await relay.client.post("/v1/messages", json=body)

    assert reply.status_code == 200, reply.text
    sent = upstream.calls[0].body.decode()
    assert "https://a.example/t" in sent
    assert "There is no result: the call was interrupted." in sent
    assert "iVBORw0KGgo=" in sent
    assert USER not in sent
    assert "d" * 64 not in sent
    assert "You are Claude Code." in sent
    assert "billing" not in sent


@pytest.mark.parametrize(("dialect", "kept"), [("anthropic", 2), ("bedrock_anthropic", 1)])
@pytest.mark.sends_refused
async def test_anthropic_is_sent_the_mark_of_claude_code(dialect: str, kept: int) -> None:
    async with serve_script(script(dialect, "i"), dialect=dialect) as (relay, upstream):
        await relay.client.post("/v1/messages", json={"model": "openai/m", **SESSION})

    assert upstream.calls[0].json["system"] == SESSION["system"][-kept:]


async def test_chat_completions_are_sent_what_openai_takes() -> None:
    async with serve_script(script("openai_chat", "i")) as (relay, upstream):
        await relay.client.post("/v1/messages", json={"model": "openai/m", **SESSION})

    body = upstream.calls[0].json
    messages = body["messages"]
    assert body["user"] == hashlib.sha256(USER.encode()).hexdigest()
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "tool", "tool", "user"),
        # The turn of thoughts alone is left out.
        *("assistant", "user", "user", "assistant", "tool", "user"),
    ]
    assert all(isinstance(m["content"], str) for m in messages if m["role"] == "tool")
    assert [part["type"] for part in messages[5]["content"]] == [
        "text",
        "image_url",
        "image_url",
        "text",
    ]


async def test_mistral_is_sent_a_last_turn_of_the_assistant_as_a_prefix(tmp_path: Any) -> None:
    config = tmp_path / "seseragi.toml"
    async with serve_upstream() as upstream:
        config.write_text(
            f'[upstream.mistral]\nbase_url = "{upstream.base_url}"\nauth = "none"\n',
            encoding="utf-8",
        )
        upstream.script = script("openai_chat", "D681PevKs")
        environ = {"SESERAGI_CONFIG": str(config)}
        async with serve_relay(environ=environ) as relay:
            calls = [{"id": "functions.f:0", "function": {"name": "f", "arguments": "{}"}}]
            told = [
                ASK,
                {"role": "assistant", "tool_calls": calls},
                {"role": "tool", "tool_call_id": "functions.f:0", "content": "r"},
                {"role": "assistant", "content": "Once"},
            ]
            body = {"model": "mistral/m", "messages": told}
            reply = await relay.client.post("/v1/chat/completions", json=body)

    assert reply.status_code == 200, reply.text
    _, answer, result, last = upstream.calls[0].json["messages"]
    assert answer["tool_calls"][0]["id"] == result["tool_call_id"]
    assert len(result["tool_call_id"]) == 9
    assert result["tool_call_id"].isalnum()
    assert last["prefix"] is True


@pytest.mark.parametrize("client", ["/v1/chat", "/v1/chat/completions"])
@pytest.mark.parametrize(
    "dialect", ["anthropic", "vertex_anthropic", "bedrock_anthropic", "bedrock_converse"]
)
async def test_claude_4_5_is_sent_one_of_temperature_and_top_p(dialect: str, client: str) -> None:
    model = "openai/anthropic.claude-sonnet-4-5-20250929-v1:0"
    async with serve_script(script(dialect, "i"), dialect=dialect) as (relay, upstream):
        body = {"model": model, "messages": [ASK], "temperature": 0.2, "top_p": 0.9}
        reply = await relay.client.post(client, json=body)

    sent = upstream.calls[0].json
    found = sent.get("inferenceConfig", sent)
    assert reply.status_code == 200
    assert found["temperature"] == 0.2
    assert not {"top_p", "topP"} & found.keys()


@pytest.mark.parametrize("dialect", OTHERS)
async def test_a_document_in_a_result_does_not_end_the_session(dialect: str) -> None:
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "document", "source": pdf, "title": "paper.pdf"}],
    }
    messages = [
        ASK,
        {"role": "assistant", "content": READ[:1]},
        {"role": "user", "content": [result]},
    ]
    async with serve_script([], dialect=dialect) as (relay, upstream):
        upstream.choose = lambda _: script(dialect, "call_1")
        body = {"model": "openai/m", **SESSION, "messages": messages}
        reply = await relay.client.post("/v1/messages", json=body)
    sent = upstream.calls[0].body.decode()

    assert 200 == reply.status_code, reply.text
    assert "paper.pdf" in sent
    assert ("JVBERi0xLjQK" in sent) == (dialect not in ("cohere", "ollama"))
