"""Requests of clients of every format: what is refused, with the place, and what no junk breaks."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_chat.client.request import EXTRAS
from app.dialects.openai_responses.client.request import REFUSED as NOT_TAKEN
from app.dialects.openai_responses.client.request import Request
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import CODES, RelayError, RequestError
from app.requests import ChatBody, ChatRequest
from tests.dialects.clients import REQUESTS, TEXT, USER

pytestmark = pytest.mark.pure

EVERY_FORMAT = pytest.mark.parametrize("client_format", CLIENT_FORMATS)


def parse(client_format: str, **fields: Any) -> Any:
    body = json.dumps({**REQUESTS[client_format], **fields}).encode()
    return CLIENT_FORMATS[client_format].parse_request(body)


def block(role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": [fields]}]}


def part(role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "parts": [fields]}]}


def item(role: str, **fields: Any) -> dict[str, Any]:
    return {"input": [{"role": role, "content": [fields]}]}


def tool(**fields: Any) -> dict[str, Any]:
    return part("assistant", type="dynamic-tool", toolName="f", toolCallId="c1", **fields)


IMAGE = {"type": "input_image", "image_url": "x"}
BLOB = "'blob:x' is only readable in the page"
FILE = {"type": "document", "source": {"type": "file", "value": "f"}}
RESULT = {"role": "tool", "toolCallId": "c", "content": [FILE]}

WRONG: dict[str, list[tuple[bytes | dict[str, Any], str]]] = {
    "openai_chat": [
        ({"functions": [{"name": "f"}]}, "functions: deprecated by OpenAI; send tools"),
        ({f"f{i}": 1 for i in range(101)}, "101 unknown fields; send at most 100"),
        ({"messages": []}, "messages: expected `array` of length >= 1"),
        ({"messages": [{"role": "function", "content": "1"}]}, "messages[0].role: invalid value 'function'"),
        ({"messages": [{"role": "assistant", "audio": {"id": "audio_a_0"}}]}, "messages[0].audio: not supported as input; send its transcript"),
        ({"tools": [{"type": "custom", "custom": {"name": 1}}]}, "tools[0].type: invalid enum value 'custom'"),
        ({"tools": [{"type": "custom", "custom": {"name": "f" * 5000}}]}, "tools: the names of custom tools exceed 4096 characters"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.type: invalid enum value 'allowed_tools'"),
        ({"temperature": 3}, "temperature: expected `float` <= 2"),
    ],
    "openai_responses": [
        *(({name: "x"}, f"{name}: not supported") for name in NOT_TAKEN),
        ({"input": []}, "input: empty"),
        ({"input": 7}, "input: expected `str | array`, got `int`"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type: 'item_reference' was not recognised; write its name without escapes"),
        ({"input": [{"type": []}]}, "input[0].type: '[]' is not supported"),
        ({"input": [{"role": "user"}]}, "input[0]: object missing required field `content`"),
        (item("user", type="input_image"), "input[0].content[0].image_url: missing"),
        (item("system", **IMAGE), "input[0].content: the role 'system' only allows text"),
        ({"input": [{"type": "reasoning", "encrypted_content": "seseragi.!"}]}, "input[0].encrypted_content: modified since the relay sent it; send it unchanged"),
        ({"input": [{"type": "compaction", "encrypted_content": "seseragi.!"}]}, "input[0].encrypted_content: modified since the relay sent it; send it unchanged"),
    ],
    "anthropic": [
        (b"", "the body is empty"),
        (b"{", "the body is not JSON"),
        ({"max_tokens": None}, "max_tokens: expected `int`, got `null`"),
        ({"model": ""}, "model: expected `str` of length >= 1"),
        ({"messages": []}, "messages: expected `array` of length >= 1"),
        ({"messages": [{"role": "user", "content": []}]}, "messages: empty; send a message"),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages[0].role: invalid enum value 'tool'"),
        (block(), "messages[0].content[0]: object missing required field `type`"),
        (block(type="text", text=1), "messages[0].content[0].text: expected `str`, got `int`"),
        (block("assistant", type="tool_use", id="a", name="f", input="x"), "messages[0].content[0].input: expected `object`, got `str`"),
        ({"tools": [{"name": "f"}]}, "tools[0]: object missing required field `input_schema`"),
        ({"temperature": 1.5}, "temperature: expected `float` <= 1"),
        ({"output_config": {"format": {"type": "xml", "schema": {}}}}, "output_config.format.type: invalid enum value 'xml'"),
    ],
    "ui": [
        (b"", "the body is empty"),
        (b"[]", "expected `object`, got `array`"),
        (b'{"messages":[]}', "object missing required field `id`"),
        ({"id": ""}, "id: expected `str` of length >= 1"),
        ({"messages": []}, "messages: the conversation is empty; send a message"),
        ({"trigger": "resume-stream"}, "trigger: invalid enum value 'resume-stream'"),
        (part("robot"), "messages[0].role: invalid enum value 'robot'"),
        ({"messages": [USER]}, "messages[0]: unknown field `content`"),
        ({"web_search": True}, "unknown field `web_search`"),
        ({"n": 2}, "unknown field `n`"),
        ({"temperature": 3}, "temperature: expected `float` <= 2"),
        ({"tools": [{"function": {}}]}, "tools[0].function: object missing required field `name`"),
        (part(type="file", mediaType="image/png", url="blob:x"), f"messages[0].parts[0]: {BLOB}"),
        (part(type="file", mediaType="image/png"), "messages[0].parts[0]: object missing required field `url`"),
        (part(type="text", text=1), "messages[0].parts[0].text: expected `str`, got `int`"),
        (part(type="data-x"), "messages[0]: has neither text nor file"),
        (part(), "messages[0].parts[0]: part type None is not allowed here"),
        (part(type="reasoning", text="a"), "messages[0].parts[0]: part type 'reasoning' is not allowed here"),
        (part("system", type="file"), "messages[0].parts[0]: part type 'file' is not allowed here"),
        (part("assistant", type="custom", kind="a.b"), "messages[0].parts[0]: part type 'custom' is not allowed here"),
        (tool(state="done"), "messages[0].parts[0].state: invalid enum value 'done'"),
        (tool(state="approval-responded", input={}, approval={"approved": True}), "messages[0].parts[0]: the call is approved but has no output; the relay does not run tools"),
        (part("assistant", **TEXT, providerMetadata={"seseragi": {"opaque": [1]}}), "messages[0].parts[0].providerMetadata.seseragi.opaque[0]: expected `object`"),
    ],
    "ag_ui": [
        ({"messages": []}, "messages: the conversation is empty; send a message"),
        ({"threadId": None}, "threadId: expected `str`"),
        ({"resume": [{"interruptId": "i", "status": "resolved"}]}, "resume: the relay never interrupts runs; send `messages`"),
        ({"forwardedProps": {"temperature": 9}}, "forwardedProps.temperature: expected `float` <= 2"),
        ({"messages": [{**USER, "role": "robot"}]}, "messages[0].role: invalid value 'robot'"),
        (block(type="binary"), "messages[0].content[0].type: invalid value 'binary'"),
        (block(type="image", source={"type": "data", "value": "x"}), "messages[0].content[0].source: missing field `mimeType`"),
        (block(type="image", source={"type": "url", "value": "blob:x"}), f"messages[0].content[0]: {BLOB}"),
        ({"messages": [RESULT]}, "messages[0].content: only text and images are allowed in a tool result"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("client_format", "given", "message"),
    [(name, *row) for name, rows in WRONG.items() for row in rows],
)
def test_a_wrong_request_is_refused_with_the_place(
    client_format: str, given: Any, message: str
) -> None:
    spoken = CLIENT_FORMATS[client_format]
    wrong = given
    if not isinstance(given, bytes):
        wrong = json.dumps({**REQUESTS[client_format], **given}).encode()
    with pytest.raises(RequestError) as caught:
        spoken.parse_request(wrong)

    assert "invalid_request" == caught.value.code
    assert caught.value.message.startswith(message)
    failure = spoken.render_failure(caught.value, "req_1")
    assert 400 == failure.status
    if client_format.startswith("openai"):
        error = json.loads(failure.body)["error"]
        param = message.partition(":")[0] if ": " in message else None
        assert (param, "invalid_request", "invalid_request_error") == (
            error["param"],
            error["code"],
            error["type"],
        )


OPENAIS = {
    **dict.fromkeys(("rate_limited", "upstream_rate_limited"), "rate_limit_exceeded"),
    "upstream_not_found": "model_not_found",
    **dict.fromkeys(("budget_exceeded", "upstream_billing"), "insufficient_quota"),
}
ANTHROPICS = {
    **{401: "authentication_error", 402: "billing_error", 403: "permission_error"},
    **{404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error"},
    **{499: "api_error", 504: "timeout_error", 529: "overloaded_error"},
}
PROVIDERS = {"upstream_auth": 401, "upstream_billing": 402}
PROVIDERS |= {"upstream_forbidden": 403, "upstream_not_found": 404}
FULL = {
    "openai_chat": "This model's maximum context length is exceeded; "
    "reduce the length of the messages: m",
    "anthropic": "prompt is too long: m",
}


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_status_that_clients_do_not_repeat_in_vain(code: str) -> None:
    openai, anthropic = (
        CLIENT_FORMATS[name].render_failure(RelayError(code, "m"), "req_1")
        for name in ("openai_chat", "anthropic")
    )

    if code in PROVIDERS:  # at a 5xx some ask again whatever `x-should-retry` says
        assert PROVIDERS[code] == openai.status == anthropic.status
    assert 409 != openai.status >= 400
    assert OPENAIS.get(code, code) == json.loads(openai.body)["error"]["code"]
    assert 409 != anthropic.status >= 400
    default = "invalid_request_error" if anthropic.status < 500 else "api_error"
    body = json.loads(anthropic.body)
    full = FULL if code == "context_length_exceeded" else dict.fromkeys(FULL, "m")
    assert ("req_1", full["anthropic"]) == (body["request_id"], body["error"]["message"])
    assert full["openai_chat"] == json.loads(openai.body)["error"]["message"]
    assert ANTHROPICS.get(anthropic.status, default) == body["error"]["type"]


@pytest.mark.parametrize(
    ("client_format", "usual"),
    [
        *((name, False) for name in REQUESTS if name.startswith("openai") or name == "anthropic"),
        *(("native", True), ("ui", True)),
    ],
)
def test_an_answer_is_streamed_as_is_asked_or_usual(client_format: str, usual: bool) -> None:
    assert [usual, usual, False, True] == [
        parse(client_format, **fields).chat.streams
        for fields in ({}, {"stream": None}, {"stream": False}, {"stream": True})
    ]


NAMES = st.sampled_from(
    (
        *("", "a", "type", "text", "content", "source", "input", "id", "name", "data"),
        *("tool_use_id", "signature", "thinking", "input_schema", "citations"),
    )
)
WORDS = st.sampled_from(
    (
        *("", "a", "text", "call_1", '{"signature":"x"}', "[[", "image", "document", "tool_use"),
        *("tool_result", "thinking", "redacted_thinking", "base64", "url", "custom"),
    )
)
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | WORDS
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES | st.text(max_size=5), inner | WORDS, max_size=4)
    ),
    max_leaves=5,
)
CALLS = st.lists(
    st.builds(
        lambda call: {"id": call, "type": "function", "function": {"name": "f", "arguments": "{}"}},
        WORDS,
    ),
    max_size=2,
)


def objects(optional: str = "", **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with some fields, and with junk in others."""
    rest = dict.fromkeys(optional.split(), JUNK)
    return st.fixed_dictionaries(fields, optional=rest)


def one_of(*words: str) -> st.SearchStrategy[str]:
    return st.sampled_from(words)


MESSAGES = objects(
    "tool_calls reasoning_details audio tool_call_id content",
    role=one_of("user", "assistant", "tool", "system", "function"),
)
ITEMS = objects(
    "role content call_id name arguments output summary id",
    type=one_of("message", "function_call", "reasoning", "compaction", "x") | JUNK,
)
TURNS = st.fixed_dictionaries(
    {"role": one_of("user", "assistant", "system")},
    optional={"content": st.lists(JUNK, max_size=3) | JUNK},
)
PARTS = st.fixed_dictionaries(
    {"type": one_of("text", "reasoning", "file", "tool-a", "dynamic-tool", "data-x", "step-start") | JUNK},
    optional={
        "state": one_of("output-available", "output-error", "output-denied", "input-available") | JUNK,
        "toolCallId": WORDS,
        "url": st.just("data:,") | JUNK,
        "providerMetadata": objects(seseragi=JUNK) | JUNK,
        **dict.fromkeys(("text", "input", "rawInput", "output", "approval", "mediaType"), JUNK),
    },
)  # fmt: skip
AG_UI = st.fixed_dictionaries(
    {"role": one_of("user", "assistant", "system", "developer", "tool", "reasoning", "activity") | JUNK, "content": JUNK},
    optional={"toolCallId": WORDS, "error": WORDS, "encryptedValue": JUNK, "toolCalls": CALLS | JUNK},
)  # fmt: skip


def many(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=3) | JUNK


def anything_in(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), JUNK, max_size=4)


FIELDS = (*ChatBody.__struct_fields__, *EXTRAS, "stream_options", "functions", "store")
BODIES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "native": st.builds(dict, anything_in(*FIELDS), messages=many(MESSAGES)),
    "openai_chat": st.builds(dict, anything_in(*FIELDS), messages=many(MESSAGES)),
    "openai_completions": anything_in(*FIELDS, "prompt", "suffix", "best_of", "echo"),
    "openai_responses": st.builds(
        dict, anything_in(*Request.__struct_fields__), input=many(ITEMS) | st.text()
    ),
    "anthropic": st.fixed_dictionaries(
        {},
        optional={
            "messages": many(TURNS),
            **dict.fromkeys(("model", "max_tokens", "system", "tools", "tool_choice"), JUNK),
            **dict.fromkeys(("thinking", "x"), JUNK),
        },
    ),
    "ui": objects(
        "trigger messageId model tools",
        messages=many(
            objects("id metadata", role=one_of("user", "assistant", "system"), parts=many(PARTS))
        ),
    ),
    "ag_ui": objects("tools context forwardedProps state", messages=many(AG_UI)),
}


BESIDE = sorted({*ChatRequest.__struct_fields__} - {*ChatBody.__struct_fields__})


@EVERY_FORMAT
@pytest.mark.parametrize("name", BESIDE)
def test_no_client_sets_what_is_beside_its_request(client_format: str, name: str) -> None:
    """They decide what is passed through, and what may be spent."""
    value = {"tokens": 10**6, "client_format": client_format, "body": {}}
    if client_format in ("native", "ui"):
        with pytest.raises(RequestError, match=f"unknown field `{name}`"):
            parse(client_format, **{name: value})
        return
    plain, chat = parse(client_format).chat, parse(client_format, **{name: value}).chat
    assert chat.ceiling is None
    assert type(chat.client_body) is type(plain.client_body)
    assert (chat.extras or {}).get(name) in (None, value)


@EVERY_FORMAT
@given(data=st.data())
def test_junk_is_a_request_or_refused(client_format: str, data: st.DataObject) -> None:
    with contextlib.suppress(RequestError):
        fields = CLIENT_FORMATS[client_format].request_type.__struct_fields__
        bodies = BODIES.get(client_format, anything_in(*fields))
        chat = parse(client_format, **data.draw(bodies)).chat
        assert isinstance(chat, ChatRequest)
        assert chat.messages
        if chat.client_body is not None:
            for spoken in UPSTREAM_FORMATS.values():
                if client_format in spoken.passthrough:
                    spoken.passthrough[client_format].pass_on(chat.client_body)


@given(st.binary(max_size=40))
def test_bytes_are_no_request(body: bytes) -> None:
    for spoken in CLIENT_FORMATS.values():
        with pytest.raises(RequestError):
            spoken.parse_request(body)
