"""Bodies that are not quite JSON, or hold what cannot go on: 400 in the client's own words."""

import json
import re
from typing import Any

import httpx2
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.testing.upstream import DONE, FINISH, head, send, text
from tests.serving import Relay, serve_relay, serve_script

VALUES = {
    "bad UTF-8": b'"\xff"',
    "a cut character": b'"\xe3\x81"',
    "half a pair as bytes": b'"\xed\xa0\x80"',
    "half a pair": rb'"\ud800"',
    "the other half": rb'"a\udc00b"',
    "1e999": b"1e999",
    "-1e999": b"-1e999",
    "NaN": b"NaN",
    "5,000 digits": b"9" * 5000,
    "200,000 digits": b"-" + b"9" * 200_000,
    "deep": b"[" * 800 + b"]" * 800,
    "deeper": b'{"a":' * 100_000,
}

PLACES: dict[str, list[str]] = {
    "native": [
        '{"messages": [{"role": "user", "content": @}]}',
        '{"messages": [{"role": "user", "content": "a"}], "provider_options": {"a": @}}',
        '{"messages": [{"role": "user", "content": "a"}], "zzz": @}',
        '{"messages": [{"role": "user", "content": "a"}], "on_disconnect": @}',
    ],
    "openai_chat": [
        '{"model": @, "messages": [{"role": "user", "content": "a"}]}',
        '{"model": "demo", "messages": [{"role": "user", "content": "a"}], "prediction": {"a": @}}',
        '{"model": "demo", "messages": [{"role": "user", "content": "a"}], "zzz": @}',
    ],
    "openai_responses": [
        '{"model": "demo", "input": @}',
        '{"model": "demo", "input": [{"type": "message", "role": "user", "content": @}]}',
        '{"model": "demo", "input": "a", "metadata": {"a": @}}',
        '{"model": "demo", "input": "a", "zzz": @}',
    ],
    "openai_completions": [
        '{"model": "demo", "prompt": @}',
        '{"model": "demo", "prompt": [@]}',
        '{"model": "demo", "prompt": "a", "logit_bias": {"a": @}}',
        '{"model": "demo", "prompt": "a", "zzz": @}',
    ],
    "anthropic": [
        '{"model": "demo", "max_tokens": 9, "messages": [{"role": "user", "content": @}]}',
        '{"model": "demo", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}], "zzz": @}',
        '{"model": "demo", "max_tokens": 9, "messages": [{"role": "user", "content": "a", "zzz": @}]}',
        '{"model": "demo", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}], "metadata": {"zzz": @}}',
    ],
    "ui": [
        '{"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": @}]}]}',
        '{"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "a", "zzz": @}]}]}',
        '{"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "a"}]}], "zzz": @}',
        '{"id": @, "messages": [{"role": "user", "parts": [{"type": "text", "text": "a"}]}]}',
    ],
    "ag_ui": [
        '{"threadId": @, "runId": "r", "messages": [{"role": "user", "content": "a"}]}',
        '{"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "a"}], "state": @}',
        '{"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "a"}], "zzz": @}',
        '{"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "a"}], "forwardedProps": {"a": @}}',
    ],
}


async def post(relay: Relay, client_format: str, body: bytes) -> httpx2.Response:
    headers = {"content-type": "application/json"}
    return await relay.client.post(
        CLIENT_FORMATS[client_format].path, content=body, headers=headers
    )


def reason_of(client_format: str, response: httpx2.Response) -> str:
    """Read an error as the dialect's clients do."""
    if client_format == "ui":
        return response.text
    body: Any = response.json()
    match client_format:
        case "native":
            assert "invalid_request" == body["code"]
            return str(body["detail"])
        case "anthropic":
            assert "invalid_request_error" == body["error"]["type"]
            return str(body["error"]["message"])
        case "ag_ui":
            assert "invalid_request" == body["code"]
            return str(body["message"])
        case _:
            assert "invalid_request_error" == body["error"]["type"]
            return str(body["error"]["message"])


@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
async def test_what_cannot_be_read_is_refused_with_its_place(
    client_format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serve_relay() as relay:
        for template in PLACES[client_format]:
            for name, value in VALUES.items():
                body = template.encode().replace(b"@", value)
                response = await post(relay, client_format, body)

                assert 400 == response.status_code, (template, name, response.text[:500])
                reason = reason_of(client_format, response)
                assert len(reason) < 500
                assert re.search(r"position \d+|byte \d+|levels|nested|zzz|[\w\]]: ", reason), (
                    reason
                )
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_the_field_of_a_wrong_number_is_named() -> None:
    async with serve_relay() as relay:
        for client_format in ("ui", "anthropic"):
            template = next(place for place in PLACES[client_format] if '], "zzz"' in place)
            for value in (b"1e999", b"9" * 5000, b'{"a": [-1e999]}'):
                response = await post(relay, client_format, template.encode().replace(b"@", value))

                assert "zzz" in reason_of(client_format, response)


async def test_half_a_pair_in_arguments_goes_on_whole() -> None:
    """They are JSON within JSON, as a model wrote them: nobody has read them before."""
    function = {"name": "f", "arguments": r'{"a": "\ud83d\ude00 \ud800", "b": NaN}'}
    call = {"id": "c", "type": "function", "function": function}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": r'{"a": "\udc00", "b": 1e999}'},
    ]
    for dialect in ("anthropic", "gemini", "bedrock_converse", "ollama", "cohere", "openai_chat"):
        async with serve_script([head(), send(text("a") + FINISH + DONE)], dialect=dialect) as (
            relay,
            upstream,
        ):
            body = {"model": "openai/m", "messages": messages}
            response = await relay.client.post("/v1/chat", json=body)

            assert 500 != response.status_code
            sent = upstream.calls[-1].json
            assert "internal" not in response.text
            if dialect in ("anthropic", "gemini"):
                assert '{"a": "😀 ?", "b": null}' in json.dumps(sent, ensure_ascii=False)


async def test_small_values_by_the_million_are_refused() -> None:
    async with serve_relay() as relay:
        for client_format in CLIENT_FORMATS:
            response = await post(relay, client_format, b'{"provider_options": [' + b"[]," * 2**20)

            assert 400 == response.status_code
            assert "values" in reason_of(client_format, response)
