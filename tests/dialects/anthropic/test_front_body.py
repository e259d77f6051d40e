"""What a client of Anthropic asks, in our words and in its own."""

import json
import re
from typing import Any

import msgspec
import pytest

from app.dialects.answering.ids import pack_id
from app.dialects.anthropic.client.format import CLIENT_FORMAT
from app.dialects.anthropic.client.request import parse_request
from app.dialects.anthropic.upstream.passthrough import pass_on, pass_on_bedrock, pass_on_vertex
from app.dialects.reasoning_signatures import PackedSignature, pack
from app.errors import RequestError
from app.requests import ChatRequest, ClientBody

pytestmark = pytest.mark.pure

HELLO: dict[str, Any] = {
    "model": "m",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hello"}],
}
TOOL: dict[str, Any] = {"name": "f", "input_schema": {"type": "object"}}
FUNCTION = {"function": {"name": "f", "parameters": {"type": "object"}}}


def parse(betas: str = "", **fields: Any) -> ChatRequest:
    return parse_request(json.dumps({**HELLO, **fields}).encode(), betas=betas).chat


def original_of(betas: str = "", **fields: Any) -> ClientBody:
    client_body = parse(betas, **fields).client_body
    assert client_body is not None
    return client_body


def said(**fields: Any) -> dict[str, Any]:
    """Return the chat request that comes of a request, without the body of the client."""
    found: dict[str, Any] = msgspec.to_builtins(parse(**fields))
    del found["client_body"]
    return found


def messages(*turns: tuple[str, Any]) -> Any:
    found = said(messages=[{"role": role, "content": content} for role, content in turns])
    return found["messages"]


def test_a_request_is_said_in_ours() -> None:
    assert said() == {
        "messages": [{"role": "user", "content": "Hello"}],
        "model": "m",
        "stream": False,
        "max_tokens": 100,
    }


FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "stream": ({"stream": True}, {"stream": True}),
    "sampling": ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    "stop": ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
    "no stop": ({"stop_sequences": []}, {}),
    "user": ({"metadata": {"user_id": "u", "more": 1}}, {"user": "u"}),
    "budget, low": ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"reasoning_effort": "low"}),
    "budget, medium": ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, {"reasoning_effort": "medium"}),
    "budget, high": ({"thinking": {"type": "enabled", "budget_tokens": 31999}}, {"reasoning_effort": "high"}),
    "adaptive": ({"thinking": {"type": "adaptive"}}, {}),
    "effort": ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}}, {"reasoning_effort": "xhigh"}),
    "effort without thought": ({"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}, {}),
    "a schema": (
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True}}},
    ),
    "tools": (
        {"tools": [{**TOOL, "type": "custom", "description": "d", "strict": True, "cache_control": {}}]},
        {"tools": [{"function": {**FUNCTION["function"], "description": "d", "strict": True}}]},
    ),
    "any tool": (
        {"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        {"tools": [FUNCTION], "tool_choice": "required", "parallel_tool_calls": False},
    ),
    "one tool": ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}}, {"tools": [FUNCTION], "tool_choice": {"function": {"name": "f"}}}),
    "no tool": ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tools": [FUNCTION], "tool_choice": "none"}),
    "a choice among none": ({"tools": [], "tool_choice": {"type": "auto"}}, {}),
    "the relay's own": ({"provider_options": {"a": 1}, "on_disconnect": "continue"}, {"provider_options": {"a": 1}, "on_disconnect": "continue"}),
    "null": ({"tools": None, "system": None, "speed": None, "novel": None}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_has_its_place(name: str) -> None:
    fields, ours = FIELDS[name]

    assert {**said(), **ours} == said(**fields)
    assert original_of(**fields).untranslatable == ()


@pytest.mark.parametrize(
    ("system", "content"),
    [
        ("Be brief.", "Be brief."),
        ([{"type": "text", "text": "a", "cache_control": 1}], "a"),
        ([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}], [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    ],
)  # fmt: skip
def test_what_the_system_says_comes_first(system: Any, content: Any) -> None:
    assert said(system=system)["messages"] == [
        {"role": "system", "content": content},
        {"role": "user", "content": "Hello"},
    ]


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image(url: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "url", "url": url}}


def image_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def result(call: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, **fields}


def use(call: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "f", "input": input}


URL = "https://a.example/i.png"


def test_a_message_of_the_system_stands_in_its_place() -> None:
    assert messages(("user", "a"), ("system", "b"), ("user", "c")) == [
        {"role": "user", "content": "a"},
        {"role": "system", "content": "b"},
        {"role": "user", "content": "c"},
    ]


def test_images_and_documents_are_parts() -> None:
    png = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    plain = {"type": "text", "media_type": "text/plain", "data": "words"}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "BBBB"}
    content = [
        text("Look."),
        {"type": "image", "source": png},
        image(URL),
        {"type": "document", "source": pdf, "title": "p.pdf", "citations": {"enabled": True}},
        {"type": "document", "source": plain, "title": "T", "context": "C"},
    ]
    file = {"file_data": "data:application/pdf;base64,BBBB", "filename": "p.pdf"}

    (message,) = messages(("user", content))
    assert message["content"] == [
        text("Look."),
        image_part("data:image/png;base64,AAAA"),
        image_part(URL),
        {"type": "file", "file": file},
        *(text("T"), text("C"), text("words")),
    ]


def test_results_of_tools_stand_before_what_else_the_turn_says() -> None:
    results = [
        result("a", content="1"),
        result("b", is_error=True),
        result("c", content=[text("2"), image(URL)]),
    ]

    assert messages(("user", [text("And?"), *results])) == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "", "is_error": True},
        {"role": "tool", "tool_call_id": "c", "content": [text("2"), image_part(URL)]},
        {"role": "user", "content": "And?"},
    ]


def test_an_answer_comes_back_with_its_thoughts_and_calls() -> None:
    theirs = pack(PackedSignature("o", encrypted="e"))
    turn = [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "thinking", "thinking": "", "signature": "hidden"},
        {"type": "thinking", "thinking": "unsigned", "signature": ""},
        {"type": "thinking", "thinking": "theirs", "signature": theirs},
        {"type": "redacted_thinking", "data": "r"},
        {"type": "redacted_thinking", "data": pack(PackedSignature("gemini", data="loose"))},
        text("I look."),
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        use("a", x=1),
        {"type": "redacted_thinking", "data": pack(PackedSignature("gemini", data="g", call="a"))},
    ]
    call = {
        "id": "a",
        "type": "function",
        "function": {"name": "f", "arguments": '{"x":1}'},
        "opaque": [{"format": "gemini", "data": "g"}],
    }

    assert messages(("user", "a"), ("assistant", turn))[1] == {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "Hm", "signature": "s", "format": "anthropic"},
            {"type": "opaque", "format": "anthropic", "data": "hidden"},
            {"type": "reasoning", "text": "unsigned"},
            {"type": "reasoning", "text": "theirs", "encrypted": "e", "format": "o"},
            {"type": "opaque", "format": "anthropic.redacted_thinking", "data": "r"},
            {"type": "opaque", "format": "gemini", "data": "loose"},
            text("I look."),
            text("[server_tool_use: web_search\n{}]"),
            text("[web_search_tool_result]"),
        ],
        "tool_calls": [call],
    }


@pytest.mark.parametrize("known", ["call_67055809", "functions.get_weather:0", "é", "seseragi-x"])
def test_an_id_comes_back_as_the_provider_gave_it(known: str) -> None:
    shown = pack_id(known)
    results = ("user", [result(shown, content="r")])
    _, answer, told = messages(("user", "a"), ("assistant", [use(shown)]), results)

    assert re.fullmatch("[a-zA-Z0-9_-]+", shown)
    assert answer["tool_calls"][0]["id"] == told["tool_call_id"] == known


def test_an_answer_of_nothing_is_no_message() -> None:
    assert messages(("user", "a"), ("assistant", []), ("assistant", ""), ("user", "b")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ]


TOOLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a container": ({"container": "c"}, ("container",)),
    "servers of tools": ({"mcp_servers": [{"type": "url"}]}, ("mcp_servers",)),
    "no servers of tools": ({"mcp_servers": []}, ()),
    "a tool of Anthropic's": ({"tools": [TOOL, {"type": "web_search_20260318", "name": "web_search"}]}, ("tools[1]: Anthropic's tool 'web_search_20260318'",)),
    "a tool for tools": ({"tools": [{**TOOL, "allowed_callers": ["code_execution_20260521"]}]}, ("tools[0]: a tool for Anthropic's tools",)),
    "a tool of the client's": ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, ()),
}  # fmt: skip
PDF = {"type": "base64", "media_type": "application/pdf", "data": "A"}
FOUND = {"type": "web_search_result", "title": "T", "url": "https://a.example/t"}
BLOCKS: dict[str, tuple[str, dict[str, Any], str]] = {
    "an image by id": ("user", {"type": "image", "source": {"type": "file", "file_id": "f"}}, "[image: f]"),
    "a document by id": ("user", {"type": "document", "source": {"type": "file", "file_id": "f"}}, "[document: f]"),
    "a result of a search": ("user", {"type": "search_result", "source": "s", "title": "T", "content": [{"text": "x"}]}, "[search_result: T\ns\nx]"),
    "an upload": ("user", {"type": "container_upload", "file_id": "f"}, "[container_upload: f]"),
    "a search": ("assistant", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}, '[server_tool_use: web_search\n{"query":"q"}]'),
    "what was found": ("assistant", {"type": "web_search_tool_result", "tool_use_id": "s", "content": [FOUND]}, "[web_search_tool_result: T\nhttps://a.example/t]"),
    "what code printed": ("assistant", {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"stdout": "1\n"}}, "[code_execution_tool_result: 1\n]"),
    "a compaction": ("assistant", {"type": "compaction", "content": "c"}, "[compaction: c]"),
    "a block that nobody knows": ("assistant", {"type": "novel", "at": 1}, "[novel]"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOOLS)
def test_what_only_anthropic_can_do_is_listed_by_its_place(name: str) -> None:
    fields, what = TOOLS[name]
    found = original_of(**fields)

    assert (found.unsupported, found.untranslatable) == (what, ())


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_that_only_anthropic_knows_becomes_a_text(name: str) -> None:
    role, block, said = BLOCKS[name]
    found = parse(messages=[*HELLO["messages"], {"role": role, "content": [block]}])

    assert getattr(found.messages[1], "content", None) == said
    assert found.client_body is not None
    assert found.client_body.shortened == (block["type"],)


def test_a_result_says_what_it_cannot_hold() -> None:
    blocks = [
        {"type": "tool_reference", "tool_name": "t"},
        image(URL),
        {"type": "document", "title": "T", "source": PDF},
        {"type": "document", "source": {"type": "content", "content": "words"}},
    ]
    results = ("user", [result("a", content=blocks), text("go on")])
    _, _, told, user = messages(("user", "a"), ("assistant", [use("a")]), results)

    assert told["content"] == [
        text("[tool_reference: t]"),
        image_part(URL),
        text("[document: T]"),
        text("words"),
    ]
    assert [part["type"] for part in user["content"]] == ["file", "text"]


def test_a_long_block_is_shortened() -> None:
    block = {"type": "novel", "content": [{"text": "x" * 1500}] * 1000}
    found = parse(messages=[{"role": "assistant", "content": [block]}])

    assert len(str(getattr(found.messages[0], "content", ""))) < 2100


def test_what_the_client_relies_on_is_beyond_others() -> None:
    assert original_of(max_tokens=0).untranslatable == ("max_tokens: 0, for filling the cache,",)
    assert original_of(inference_geo="eu").untranslatable == ("inference_geo: this field",)


def test_what_nobody_knows_is_listed() -> None:
    found = original_of(novel=1, output_config={"effort": "low", "task_budget": {}})

    assert found.ignored == ("novel", "output_config.task_budget")


def test_what_others_can_do_without_is_listed() -> None:
    found = original_of(
        cache_control={"type": "ephemeral"},
        context_management={"edits": []},
        service_tier="auto",
        top_k=5,
        thinking={"type": "disabled"},
    )

    assert found.ignored == (
        *("cache_control", "context_management", "service_tier", "top_k"),
        "thinking",
    )
    assert found.untranslatable == ()


def test_a_thread_is_refused_such_that_the_sdk_goes_on_without() -> None:
    with pytest.raises(RequestError) as refused:
        parse(thread={"type": "create"})
    error = json.loads(CLIENT_FORMAT.render_failure(refused.value, "req_1").body)["error"]

    assert error["type"] == "invalid_request_error"
    assert error["details"] == {"error_code": "thread_unsupported_request"}


def test_anthropic_is_sent_the_request_as_it_came() -> None:
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = {
        "max_tokens": 100,
        "system": [{**text("s"), **cached}],
        "messages": [
            {"role": "user", "content": [{**text("a"), **cached}]},
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "", "signature": "s"}],
            },
            {"role": "user", "content": []},
        ],
        "tools": [{**TOOL, **cached}, {"type": "web_search_20260318", "name": "web_search"}],
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
        "novel": {"a": [1]},
    }
    client_body = original_of(
        "a-1,b-2 , oauth-2025-04-20", **body, stream=True, provider_options={}, on_disconnect=3
    )

    assert pass_on(client_body) == (body, {"anthropic-beta": "a-1,b-2"}, ())
    assert pass_on_bedrock(client_body).body == body


def test_members_that_others_lack_are_named() -> None:
    example = {"input_examples": [{"a": 1}], "defer_loading": True, "eager": None}
    content = [{"type": "text", "text": "a", "novel": 1, "citations": []}]
    used = {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": {"type": "direct"}}
    asked = original_of(
        tools=[{**TOOL, **example}],
        messages=[
            {"role": "user", "content": content, "id": "m1"},
            {"role": "assistant", "content": [used]},
        ],
    )

    assert {
        *("tools[].input_examples", "tools[].defer_loading"),
        *("messages[].id", "messages[].content[].novel"),
    } == {*asked.ignored}
    assert {**TOOL, **example} == pass_on(asked).body["tools"][0]
    many = original_of(tools=[{**TOOL, **{f"{n}{'x' * 100}": 1 for n in range(100)}}]).ignored
    assert (20, 68) == (len(many), max(map(len, many)))


def test_a_compaction_is_asked_of_anthropic_only() -> None:
    asked = original_of(compaction={"type": "summarize"})

    assert ("compaction: this field",) == asked.untranslatable
    assert {"type": "summarize"} == pass_on(asked).body["compaction"]


def test_a_summary_of_a_conversation_is_not_shortened() -> None:
    block = {"type": "compaction", "content": "c" * 10_000, "signature": "S"}
    (_, message) = messages(("user", "a"), ("assistant", [block]))

    assert f"[compaction: {'c' * 10_000}]" == message["content"]


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("2027-01-01", {"anthropic-version": "2027-01-01"}),
        ("2023-06-01", {}),
        ("a\r\nx-api-key: b", {}),
        ("", {}),
    ],
)
def test_another_version_of_the_api_is_sent_on(version: str, headers: dict[str, str]) -> None:
    chat = parse_request(json.dumps(HELLO).encode(), version=version).chat
    assert chat.client_body is not None

    assert headers == pass_on(chat.client_body).headers
    assert {} == pass_on_vertex(chat.client_body).headers


def test_without_betas_there_is_no_header() -> None:
    assert pass_on(original_of("oauth-2025-04-20")).headers == {}
    assert "anthropic_beta" not in pass_on_bedrock(original_of()).body


def test_the_name_of_a_beta_has_only_letters_of_names() -> None:
    with pytest.raises(RequestError, match="anthropic-beta: 'ä' is not the name"):
        parse("a,ä")


def test_what_other_providers_said_is_not_sent_to_anthropic() -> None:
    own = {"type": "web_search_result_location", "url": "u", "encrypted_index": "i"}
    turns = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": ""}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "x", "signature": pack(PackedSignature("o"))},
                {"type": "redacted_thinking", "data": pack(PackedSignature("o"))},
                {**text("b"), "citations": [{**own, "encrypted_index": ""}]},
                {**text("c"), "citations": [own]},
                {**text("d"), "citations": None},
            ],
        },
    ]

    assert pass_on(original_of(messages=turns)).body["messages"] == [
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": [
                text("b"),
                {**text("c"), "citations": [own]},
                {**text("d"), "citations": None},
            ],
        },
    ]


def test_deep_nesting_is_refused() -> None:
    body = json.dumps({**HELLO, "x": 0}).replace('"x": 0', '"x": ' + "[" * 9999 + "]" * 9999)
    with pytest.raises(RequestError, match="nested too deeply"):
        parse_request(body.encode())
