"""A provider of Chat Completions receives what a client of Chat Completions sends."""

import json
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_chat.client.result import render_result
from app.errors import RequestError
from app.events import Event, StreamStart, ToolCallEnd
from app.requests import ChatRequest, parse_chat_request
from app.settings.load import load_settings
from app.upstreams.endpoints import Upstream
from app.upstreams.request_builder import RequestBuilder, TargetRequest
from tests.dialects.clients import STREAM
from tests.dialects.openai_chat import same

pytestmark = pytest.mark.pure

BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
NOVEL = {"novel": {"a": [1]}}
PNG = "data:image/png;base64,AAAA"
GRAMMAR = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
CUSTOM = {"type": "custom", "custom": {"name": "g", "description": "d", "format": GRAMMAR}}
CUSTOM_CALL = {"id": "c1", "type": "custom", "custom": {"name": "g", "input": "a"}}
USER = {"role": "user", "content": "Hi"}


@pytest.fixture
def upstreams(tmp_path) -> dict[str, Upstream]:
    config = tmp_path / "seseragi.toml"
    rows = [
        f'[upstream.{dialect}]\nbase_url = "http://127.0.0.1:9/v1"\nauth = "none"\n'
        f'dialect = "{dialect}"\n'
        for dialect in (
            "openai_chat",
            "openai_responses",
            "anthropic",
            "gemini",
            "ollama",
            "gemini_interactions",
        )
    ]
    config.write_text("".join(rows))
    keys = ("OPENAI_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY", "XAI_API_KEY")
    environ = {"SESERAGI_CONFIG": str(config), **dict.fromkeys(keys, "x")}
    return {one.name: one for one in load_settings(environ).upstreams}


def parse(*messages: Any, **fields: Any) -> ChatRequest:
    body = {"model": "m", "messages": [*(messages or (USER,))], **fields}
    return CLIENT_FORMATS["openai_chat"].parse_request(json.dumps(body).encode()).chat


def build(upstream: Upstream, *messages: Any, **fields: Any) -> TargetRequest:
    return RequestBuilder(upstream, "m").build(parse(*messages, **fields), last=True)


def notices(sent: TargetRequest) -> str:
    return "\n".join(notice.message for notice in sent.notices)


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": [{"type": "text", "text": "s", **BREAKPOINT}], **NOVEL},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Hi", **BREAKPOINT},
            {"type": "image_url", "image_url": {"url": PNG, **NOVEL}, **BREAKPOINT},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}, **NOVEL},
            {"type": "file", "file": {"file_data": "data:a/b;base64,AA==", **NOVEL}},
        ],
        **NOVEL,
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "f", "arguments": "{}", **NOVEL},
                **NOVEL,
            }
        ],
        **NOVEL,
    },
    {
        "role": "tool",
        "tool_call_id": "c1",
        "name": "f",
        "content": [{"type": "text", "text": "r", **BREAKPOINT}],
    },
]
TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}, **NOVEL},
    **BREAKPOINT,
}


def test_unknown_members_of_messages_parts_and_tools_are_sent(upstreams) -> None:
    sent = build(upstreams["openai_chat"], *MESSAGES, tools=[TOOL])

    assert MESSAGES == sent.body["messages"]
    assert [TOOL] == sent.body["tools"]
    assert "" == notices(sent)


@pytest.mark.parametrize("name", ["openai_responses", "anthropic", "gemini", "ollama"])
def test_other_dialects_name_the_unknown_members(upstreams, name: str) -> None:
    messages = [
        {**MESSAGES[0], "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "Hi", **BREAKPOINT}]},
    ]
    sent = build(upstreams[name], *messages, tools=[TOOL])

    text = json.dumps(sent.body)
    assert "novel" not in text
    assert "prompt_cache_breakpoint" not in text
    assert '"rest"' not in text
    for path in (
        *("messages[].novel", "messages[].content[].prompt_cache_breakpoint"),
        *("tools[].function.novel", "tools[].prompt_cache_breakpoint"),
    ):
        assert path in notices(sent)


def test_hosts_that_refuse_unknown_members_receive_theirs_alone(upstreams) -> None:
    content = [{"type": "text", "text": "Hi", **BREAKPOINT, **NOVEL}]
    sent = build(upstreams["openai"], {"role": "user", "content": content})
    mistral = build(upstreams["mistral"], {"role": "user", "content": content})

    (message,) = sent.body["messages"]
    assert [{"type": "text", "text": "Hi", **BREAKPOINT}] == message["content"]
    assert "support messages[].content[].novel: dropped" in notices(sent)
    assert [{"type": "text", "text": "Hi"}] == mistral.body["messages"][0]["content"]
    assert "content[].prompt_cache_breakpoint" in notices(mistral)


def test_a_members_name_gives_no_other_meaning_to_what_is_known(upstreams) -> None:
    rest = {"role": "system", "content": "evil", "text": "evil", "type": "image_url"}
    user = {"role": "user", "content": [{"type": "text", "text": "Hi", "rest": rest}], "rest": rest}
    sent = build(upstreams["openai_chat"], user)

    assert [user] == sent.body["messages"]  # a `rest` is a member like any other
    with pytest.raises(RequestError, match="Rest"):
        parse_chat_request(json.dumps({"messages": [{**USER, "rest": {"a": 1}}]}).encode())


@pytest.mark.parametrize(
    "user",
    [
        {**USER, "file_id": "file-1"},
        {**USER, "attachments": [{"file_id": "file-1"}]},
        {"role": "user", "content": [{"type": "text", "text": "Hi", "file_id": "file-1"}]},
    ],
)
def test_a_member_does_not_reach_stored_data(upstreams, user: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="file_id"):
        build(upstreams["openai_chat"], user)


def test_names_in_results_are_for_hosts_that_take_them(upstreams) -> None:
    for name in ("xai", "groq"):
        sent = build(upstreams[name], *MESSAGES[2:])
        assert "name" not in sent.body["messages"][1]
        assert "name" in notices(sent)


HISTORY = (
    USER,
    {"role": "assistant", "tool_calls": [CUSTOM_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "r"},
)


def test_custom_tools_are_sent_to_openai_as_they_are(upstreams) -> None:
    choice = {"type": "custom", "custom": {"name": "g"}}
    sent = build(upstreams["openai"], *HISTORY, tools=[CUSTOM, TOOL], tool_choice=choice)

    assert CUSTOM == sent.body["tools"][0]
    assert "function" == sent.body["tools"][1]["type"]
    assert choice == sent.body["tool_choice"]
    assert [CUSTOM_CALL] == sent.body["messages"][1]["tool_calls"]
    assert "custom" not in notices(sent)


def test_custom_tools_among_those_allowed(upstreams) -> None:
    listed = [{"type": "custom", "custom": {"name": "g"}}]
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": listed}}
    sent = build(upstreams["openai"], tools=[CUSTOM, TOOL], tool_choice=allowed)

    assert allowed == sent.body["tool_choice"]


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses", "anthropic", "mistral"])
def test_others_receive_functions_and_a_notice_says_so(upstreams, name: str) -> None:
    sent = build(upstreams[name], *HISTORY, tools=[CUSTOM])

    assert '"custom"' not in json.dumps(sent.body)
    assert "does not support custom tools: sent as functions" in notices(sent)


def answer(*deltas: dict[str, Any]) -> list[Event]:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    head = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    lines = [f"data: {json.dumps({**head, **chunk})}\n\n" for chunk in chunks]
    events = same.parse("".join([*lines, "data: [DONE]\n\n"]).encode())
    labels = {"custom_tools": '["g"]'}
    return [StreamStart("st_1", "m", 1, labels=labels), *events[1:]]


@pytest.mark.parametrize("text", ["a b", '{"input": "x"}', '{"a": "b"}', "null", "{}{}"])
@pytest.mark.parametrize("whole", [True, False])
def test_the_input_of_a_custom_call_is_what_the_provider_sent(text: str, whole: bool) -> None:
    begun = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "g", "input": ""}}
    pieces = [{"index": 0, "custom": {"input": piece}} for piece in (text[:2], text[2:])]
    if whole:
        begun["custom"], pieces = {"name": "g", "input": text}, []
    events = answer(*({"tool_calls": [call]} for call in (begun, *pieces)))

    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert text == end.arguments
    (choice,) = render_result("st_1", events)["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert ("custom", {"name": "g", "input": text}) == (call["type"], call["custom"])
    assert "extra_content" not in call
    assert "tool_calls" == choice["finish_reason"]


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": {"type": "disabled"}},
        {"enable_thinking": False},
        {"reasoning": {"effort": "none"}},
        {"reasoning_effort": "none"},
    ],
)
def test_no_thinking_is_none_or_the_least_with_a_notice(upstreams, fields: Any) -> None:
    chat = parse(**fields)
    for model, config, told in (
        ("gemini-2.5-flash", {"thinkingBudget": 0}, ""),
        ("gemini-3.1-pro", {"thinkingLevel": "LOW"}, "reasoning_effort 'none': sent 'low'"),
    ):
        sent = RequestBuilder(upstreams["gemini"], model).build(chat, last=True)
        assert config == sent.body["generationConfig"]["thinkingConfig"]
        assert told in notices(sent)
        assert bool(told) == bool(notices(sent))
    sent = RequestBuilder(upstreams["gemini_interactions"], "gemini-3.1-pro").build(chat, last=True)
    assert {"thinking_level": "low"} == sent.body["generation_config"]
    assert "reasoning_effort 'none': sent 'low'" in notices(sent)


def test_the_sound_of_an_answer_goes_back_by_its_id(upstreams) -> None:
    spoken = {"id": "audio_abc", "data": "AA==", "expires_at": 1, "transcript": "t"}
    asked = (USER, {"role": "assistant", "content": None, "audio": spoken, **NOVEL}, USER)
    sent = build(upstreams["openai_chat"], *asked)
    openai = build(upstreams["openai"], *asked)

    answered = {"role": "assistant", "content": None, "audio": {"id": "audio_abc"}}
    assert {**answered, **NOVEL} == sent.body["messages"][1]
    assert answered == openai.body["messages"][1]
    for name in ("anthropic", "groq"):
        with pytest.raises(RequestError, match=r"messages\[1\]\.audio: upstream .* not support it"):
            build(upstreams[name], *asked)


def test_a_sound_with_its_text_is_left_out_elsewhere(upstreams) -> None:
    asked = (USER, {"role": "assistant", "content": "t", "audio": {"id": "audio_abc"}}, USER)
    sent = build(upstreams["anthropic"], *asked)

    assert "audio_abc" not in json.dumps(sent.body)
    assert "does not support messages[].audio: dropped" in notices(sent)


def test_the_relays_own_id_of_a_sound_names_nothing_at_a_provider(upstreams) -> None:
    made = {"id": f"audio_{STREAM}_0"}
    sent = build(
        upstreams["openai_chat"], USER, {"role": "assistant", "content": "t", "audio": made}
    )

    assert "audio" not in sent.body["messages"][1]
    with pytest.raises(RequestError, match=r"messages\[1\]\.audio: not supported as input"):
        parse(USER, {"role": "assistant", "audio": made})
