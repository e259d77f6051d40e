"""Requests of any size: what clients send, and what providers are sent, for every format."""

from collections.abc import Callable
from typing import Any, NamedTuple

from app import requests as r
from app.bounds import MAX_TOOLS, MAX_VALUES
from app.dialects.openai_chat.upstream.request import Quirks as ChatQuirks
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from tests.dialects.cost import LARGE

# What clients send. A shape is a body of `n` items; its fronts are those that it is for.


class Shape(NamedTuple):
    client_formats: tuple[str, ...]
    items: int
    body: Callable[[int], Any]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


CHAT = ("native", "openai_chat")
OPENAI = ("openai_chat",)
TURN = [user("a"), {"role": "assistant", "content": "b"}]
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
GIANT = 2**21
"""Four of it are 8 MiB."""


def chat_results(n: int) -> list[Any]:
    called = [
        {"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
        for i in range(n)
    ]
    results = [{"role": "tool", "tool_call_id": f"c{i}", "content": "{}"} for i in range(n)]
    return [user("a"), {"role": "assistant", "content": None, "tool_calls": called}, *results]


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def schema(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        found = {"type": "object", "properties": {"a": found}}
    return found


def function(n: int) -> dict[str, Any]:
    return {"name": f"f{n}", "description": "d", "parameters": schema(3)}


def ui(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"id": "m", "role": role, "parts": [*parts]}


def ui_tool(n: int) -> dict[str, Any]:
    return {
        "type": "tool-f",
        "toolCallId": f"c{n}",
        "state": "output-available",
        "input": {"a": n},
        "output": {"b": n},
    }


def run_input(messages: list[Any], **more: Any) -> dict[str, Any]:
    return {"threadId": "t", "runId": "r", "messages": messages, **more}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def claude(messages: list[Any], **more: Any) -> dict[str, Any]:
    return {"model": "demo", "max_tokens": 9, "messages": messages, **more}


def claude_results(n: int) -> list[Any]:
    uses = [{"type": "tool_use", "id": f"t{i}", "name": "f", "input": {}} for i in range(n)]
    results = [
        {"type": "tool_result", "tool_use_id": f"t{i}", "content": [text_block("a")]}
        for i in range(n)
    ]
    return [user("a"), {"role": "assistant", "content": uses}, user(results)]


MESSAGES = 500
PARTS = 700
TOOLS = MAX_TOOLS // LARGE

SHAPES = {
    "chat messages": Shape(CHAT, MESSAGES, lambda n: {"messages": TURN * n}),
    "chat parts": Shape(CHAT, PARTS, lambda n: {"messages": [user([text_block("a")] * n)]}),
    "chat images": Shape(CHAT, PARTS, lambda n: {"messages": [user([image("https://a/b")] * n)]}),
    "chat results": Shape(CHAT, MESSAGES, lambda n: {"messages": chat_results(n)}),
    "chat calls in turn": Shape(CHAT, MESSAGES, lambda n: {"messages": [CALLS, {"role": "tool", "tool_call_id": "c", "content": "r"}] * n}),
    "chat tools": Shape(CHAT, TOOLS, lambda n: {"messages": TURN, "tools": [{"type": "function", "function": function(i)} for i in range(n)]}),
    "foreign messages": Shape(OPENAI, MESSAGES, lambda n: {"messages": [{**user("a"), "id": "m"}, {**TURN[1], "provider_specific_fields": {"a": 1}}] * n}),
    "foreign parts": Shape(OPENAI, PARTS, lambda n: {"messages": [user([{**text_block("a"), "role": "user"}] * n)]}),
    "foreign fields of a message": Shape(OPENAI, MAX_VALUES // 10, lambda n: {"messages": [{**user("a"), **{f"f{i}": 1 for i in range(n)}}]}),
    "foreign giant name": Shape(OPENAI, GIANT, lambda n: {"messages": [{**user("a"), "f" * n: 1}]}),
    "foreign extras": Shape(OPENAI, 2_500, lambda n: {"messages": TURN, "logit_bias": {str(i): 1 for i in range(n)}, "top_k": 1}),
    "custom calls": Shape(
        OPENAI, PARTS, lambda n: {"messages": [user("a"), {"role": "assistant", "tool_calls": [{"id": f"c{i}", "type": "custom", "custom": {"name": "f", "input": "a"}} for i in range(n)]}]}
    ),
    "custom tools": Shape(OPENAI, TOOLS // 2, lambda n: {"messages": TURN, "tools": [{"type": "custom", "custom": {"name": f"{i}"}} for i in range(n)]}),
    "allowed tools": Shape(
        OPENAI, TOOLS, lambda n: {"messages": TURN, "tools": [{"type": "function", "function": function(i)} for i in range(n)], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": f"f{i}"}} for i in range(n)]}}}
    ),
    "chat giant text": Shape(CHAT, GIANT, lambda n: {"messages": [user("a" * n)]}),
    "chat giant escapes": Shape(CHAT, GIANT // 2, lambda n: {"messages": [user("\n" * n)]}),
    "chat giant url": Shape(CHAT, GIANT, lambda n: {"messages": [user([image("https://a" + ".a" * (n // 2))])]}),
    "chat giant name": Shape(CHAT, GIANT, lambda n: {"messages": TURN, "a" * n: 1}),
    "chat giant role": Shape(CHAT, GIANT, lambda n: {"messages": [{"role": " - at `$" * (n // 9)}]}),
    "chat options": Shape(CHAT, MAX_VALUES // 5, lambda n: {"messages": TURN, "provider_options": {"a": [[]] * (n // 2)}}),
    "chat details": Shape(("openai_chat",), PARTS, lambda n: {"messages": [{"role": "assistant", "reasoning_details": [{"type": "t", "text": "a", "data": "d"}] * n}]}),
    "responses items": Shape(
        ("openai_responses",),
        MESSAGES,
        lambda n: {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}, {"type": "reasoning", "summary": [{"text": "b"}]}] * (n // 2)},
    ),
    "responses calls": Shape(
        ("openai_responses",),
        MESSAGES // 2,
        lambda n: {"input": [{"type": "function_call", "call_id": f"c{i}", "name": "f", "arguments": "{}"} for i in range(n)] + [{"type": "function_call_output", "call_id": f"c{i}", "output": "r"} for i in range(n)]},
    ),
    "responses parts": Shape(("openai_responses",), PARTS, lambda n: {"input": [user([{"type": "input_text", "text": "a"}] * n)]}),
    "responses tools": Shape(("openai_responses",), TOOLS, lambda n: {"input": "a", "tools": [{"type": "function", **function(i)} for i in range(n)]}),
    "responses giant text": Shape(("openai_responses",), GIANT, lambda n: {"input": "a" * n}),
    "responses giant signature": Shape(("openai_responses",), GIANT, lambda n: {"input": [{"type": "reasoning", "encrypted_content": "seseragi." + "A" * n}]}),
    "messages turns": Shape(("anthropic",), MESSAGES, lambda n: claude(TURN * n)),
    "messages blocks": Shape(("anthropic",), PARTS, lambda n: claude([user([text_block("a")] * n)])),
    "messages results": Shape(("anthropic",), PARTS // 3, lambda n: claude(claude_results(n))),
    "messages thinking": Shape(("anthropic",), PARTS, lambda n: claude([{"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "s"}] * n}])),
    "messages tools": Shape(("anthropic",), TOOLS, lambda n: claude(TURN, tools=[{"name": f"f{i}", "input_schema": schema(3)} for i in range(n)])),
    "messages giant text": Shape(("anthropic",), GIANT, lambda n: claude([user("a" * n)])),
    "messages giant kind": Shape(("anthropic",), GIANT, lambda n: claude([user([{"type": "k" * n}])])),
    "messages giant field": Shape(("anthropic",), GIANT, lambda n: claude(TURN, **{"f" * n: 1})),
    "messages many fields": Shape(("anthropic",), MAX_VALUES // 10, lambda n: claude(TURN, **{f"f{i}": 1 for i in range(n)})),
    "ui messages": Shape(("ui",), MESSAGES, lambda n: {"id": "c", "messages": [ui(text_block("a")), ui(text_block("b"), role="assistant")] * n}),
    "ui parts": Shape(("ui",), PARTS, lambda n: {"id": "c", "messages": [ui(*[text_block("a")] * n)]}),
    "ui steps": Shape(("ui",), PARTS // 2, lambda n: {"id": "c", "messages": [ui(*[{"type": "step-start"}, text_block("a")] * n, role="assistant")]}),
    "ui tools": Shape(("ui",), PARTS // 3, lambda n: {"id": "c", "messages": [ui(*map(ui_tool, range(n)), role="assistant")]}),
    "ui giant kind": Shape(("ui",), GIANT, lambda n: {"id": "c", "messages": [ui({"type": "k" * n})]}),
    "ui giant file": Shape(("ui",), GIANT, lambda n: {"id": "c", "messages": [ui({"type": "file", "mediaType": "image/png", "url": "data:image/png" + ";a=b" * (n // 4)})]}),
    "ui unknown": Shape(("ui",), MAX_VALUES // 10, lambda n: {"id": "c", "messages": [], **{f"f{i}": 1 for i in range(n)}}),
    "ag_ui messages": Shape(("ag_ui",), MESSAGES, lambda n: run_input(TURN * n)),
    "ag_ui parts": Shape(("ag_ui",), PARTS, lambda n: run_input([user([text_block("a")] * n)])),
    "ag_ui one turn": Shape(("ag_ui",), MESSAGES, lambda n: run_input([{"role": "assistant", "content": "a"}, {"role": "reasoning", "content": "b"}] * n)),
    "ag_ui results": Shape(("ag_ui",), MESSAGES // 2, lambda n: run_input([CALLS, {"role": "tool", "toolCallId": "c", "content": "r"}] * n)),
    "ag_ui context": Shape(("ag_ui",), MAX_VALUES // LARGE // 6, lambda n: run_input(TURN, context=[{"description": "a", "value": "b"}] * n)),
    "ag_ui tools": Shape(("ag_ui",), TOOLS, lambda n: run_input(TURN, tools=[function(i) for i in range(n)])),
    "ag_ui giant signature": Shape(("ag_ui",), GIANT, lambda n: run_input([{"role": "reasoning", "content": "", "encryptedValue": "{" * n}])),
}  # fmt: skip

RAW = {
    "empty lists": b"[],",
    "numbers": b"1,",
    "texts": b'"a",',
    "marks in texts": b'"[",',
    "escapes": rb'"\",",',
    "open": b"[",
    "quotes": b'"',
    "commas": b",",
    "backslashes": b"\\",
    "white space": b" ",
    "bad UTF-8": b"\xff",
    "halves": rb"\ud800",
    "digits": b"9",
}


# What providers are sent.


def given(*content: Any) -> r.ChatRequest:
    return r.ChatRequest([r.UserMessage([*content])])


def data_url(media_type: str, size: int = 8) -> str:
    return f"data:{media_type};base64,{'A' * size}"


def file(url: str | None = None, name: str | None = None, id: str | None = None) -> r.FilePart:
    return r.FilePart(r.FileSource(url, id, name))


def call(n: int, arguments: str = '{"a": 1}') -> r.ToolCall:
    return r.ToolCall(f"c{n}", r.FunctionCall("f", arguments), opaque=[r.Opaque("anthropic", "x")])


def results(n: int, *, between: bool = False) -> r.ChatRequest:
    found: list[r.Message] = [r.AssistantMessage(tool_calls=[call(i) for i in range(n)])]
    for i in range(n):
        found.append(r.ToolMessage('{"a": 1}', f"c{i}"))
        if between:
            found.append(r.UserMessage("b"))
    return r.ChatRequest(found)


def answered(*content: Any, **more: Any) -> r.ChatRequest:
    return r.ChatRequest([r.UserMessage("a"), r.AssistantMessage([*content], **more)])


Build = Callable[[int], r.ChatRequest]

REQUESTS: dict[str, tuple[int, Build]] = {
    "messages": (MESSAGES, lambda n: r.ChatRequest([r.UserMessage("a"), r.AssistantMessage("b")] * n)),
    "one side": (MESSAGES, lambda n: r.ChatRequest([r.UserMessage("a")] * (2 * n))),
    "system": (MESSAGES, lambda n: r.ChatRequest([r.SystemMessage("s"), r.UserMessage("a")] * n)),
    "parts": (PARTS, lambda n: given(*[r.TextPart("a")] * n)),
    "results": (PARTS // 2, results),
    "results and texts": (PARTS // 3, lambda n: results(n, between=True)),
    "calls in turn": (PARTS // 2, lambda n: r.ChatRequest([m for i in range(n) for m in (r.AssistantMessage("a", tool_calls=[call(i)]), r.ToolMessage("r", f"c{i}"))])),
    "blank after a giant text": (PARTS, lambda n: answered(r.TextPart("a" * 200 * n), *[r.TextPart(" ")] * n)),
    "blank in a user's": (PARTS, lambda n: given(r.TextPart("a" * 200 * n), *[r.TextPart(" ")] * n)),
    "reasoning": (PARTS // 3, lambda n: answered(*[r.ReasoningPart("t", "s", format="anthropic"), r.OpaquePart("gemini.thought_signature", "x"), r.TextPart("a")] * n)),
    "reasoning in one": (PARTS, lambda n: answered(*[r.ReasoningPart("t", encrypted="e")] * n)),
    "refusals": (PARTS, lambda n: answered(*[r.RefusalPart("no")] * n)),
    "opaque": (PARTS, lambda n: answered(*[r.OpaquePart("gemini.part", "{}")] * n)),
    "signatures of one call": (PARTS, lambda n: r.ChatRequest([r.AssistantMessage(tool_calls=[r.ToolCall("c", r.FunctionCall("f", "{}"), opaque=[r.Opaque("x", "y")] * n)])])),
    "tools": (TOOLS, lambda n: r.ChatRequest([r.UserMessage("a")], tools=[r.Tool(r.Function(f"f{i}", "d", schema(3))) for i in range(n)])),
    "deep schema": (100, lambda n: r.ChatRequest([r.UserMessage("a")], tools=[r.Tool(r.Function("f", "d", schema(n // 2)))])),
    "format": (10_000, lambda n: r.ChatRequest([r.UserMessage("a")], response_format=r.JsonSchemaFormat(r.JsonSchema("a", {"properties": {f"p{i}": {} for i in range(n)}})))),
    "stops": (5_000, lambda n: r.ChatRequest([r.UserMessage("a")], stop=["s"] * n)),
    "metadata": (5_000, lambda n: r.ChatRequest([r.UserMessage("a")], metadata={f"k{i}": "v" for i in range(n)})),
    "options": (5_000, lambda n: r.ChatRequest([r.UserMessage("a")], provider_options={f"k{i}": {} for i in range(n)})),
    "documents of one name": (PARTS, lambda n: given(*[file(data_url("application/pdf"), "a.pdf")] * n)),
    "documents of numbered names": (
        PARTS // 2,
        lambda n: given(*[file(data_url("application/pdf"), f"a {i}.pdf") for i in range(n)], *[file(data_url("application/pdf"), "a.pdf")] * n),
    ),
    "files of texts": (PARTS, lambda n: given(*[file(data_url("text/plain"), "a.txt")] * n)),
    "images": (PARTS, lambda n: given(*[r.ImagePart(r.ImageUrl(data_url("image/png")))] * n)),
    "sounds": (PARTS, lambda n: given(*[r.AudioPart(r.InputAudio("AAAA", "mp3"))] * n)),
    "marks": (PARTS, lambda n: given(*[r.TextPart("a", r.CacheControl("ephemeral"))] * n)),
    "marks of the system": (PARTS, lambda n: r.ChatRequest([r.SystemMessage([r.TextPart("a", r.CacheControl("ephemeral"))] * n), r.UserMessage("a")])),
    "allowed tools": (TOOLS, lambda n: r.ChatRequest([r.UserMessage("a")], tools=[r.Tool(r.Function(f"f{i}")) for i in range(n)], allowed_tools=[f"f{i}" for i in range(n)])),
    "giant text": (GIANT, lambda n: given(r.TextPart("a" * n))),
    "giant name": (GIANT, lambda n: given(file(data_url("application/pdf"), ".a" * (n // 2)))),
    "giant data": (GIANT, lambda n: given(r.ImagePart(r.ImageUrl(data_url("image/png", n))))),
    "giant document": (GIANT, lambda n: given(file(data_url("text/plain", n // 4 * 4), "a.txt"))),
    "giant media type": (GIANT, lambda n: given(r.ImagePart(r.ImageUrl(data_url("image/" + "a" * n))))),
    "giant parameters": (GIANT, lambda n: given(r.ImagePart(r.ImageUrl("data:image/png" + ";a=b" * (n // 4) + ";base64,AA")))),
    "giant parameter": (GIANT, lambda n: given(r.ImagePart(r.ImageUrl("data:image/png;a=" + "=" * n)))),
    "giant host": (GIANT, lambda n: given(r.ImagePart(r.ImageUrl("https://" + "generativelanguage" * (n // 18))))),
    "giant hosts": (GIANT, lambda n: given(r.ImagePart(r.ImageUrl("https://generativelanguage/v1" * (n // 29))))),
    "giant path": (GIANT, lambda n: given(file(id="https://generativelanguage" + "/v1/files/a" * (n // 11), name="a.pdf"))),
    "giant marks": (GIANT // 8, lambda n: given(r.ImagePart(r.ImageUrl("https://" + "\u0301\u0316" * n + "/a.png")))),
    "giant bucket": (GIANT, lambda n: given(r.ImagePart(r.ImageUrl("s3://" + "." * n)))),
    "giant arguments": (GIANT, lambda n: r.ChatRequest([r.AssistantMessage(tool_calls=[call(1, '{"a": "' + "\\ud800" * (n // 6) + '"}')])])),
    "long arguments": (20_000, lambda n: r.ChatRequest([r.AssistantMessage(tool_calls=[call(1, '{"a": [' + "1," * n + "1]}")])])),
    "giant id": (GIANT, lambda n: r.ChatRequest([r.AssistantMessage(tool_calls=[r.ToolCall("call_" + "1_" * (n // 2), r.FunctionCall("f", "{}"))]), r.ToolMessage("r", "call_" + "1_" * (n // 2))])),
    "giant result": (GIANT, lambda n: r.ChatRequest([r.AssistantMessage(tool_calls=[call(1)]), r.ToolMessage('{"a": [' + "[]," * (n // 3), "c1")])),
    "giant signature": (GIANT, lambda n: answered(r.ReasoningPart("a", "s" * n, format="anthropic"), r.OpaquePart("anthropic.redacted_thinking", "A" * n))),
}  # fmt: skip

BUILDERS: dict[str, tuple[str, Any]] = {
    **{name: (name, None) for name in UPSTREAM_FORMATS},
    "mistral": ("openai_chat", ChatQuirks(plain=True, files="document_url", send_reasoning="thinking", stream_options=False, bare_audio=True)),
    "openrouter": ("openai_chat", ChatQuirks(send_reasoning="reasoning_details", cache_control=True, allowed_tools=True, effort_field="reasoning")),
}  # fmt: skip

PASSED_ON = {
    "quoted texts": Shape(("anthropic",), PARTS, lambda n: claude([{"role": "assistant", "content": [{**text_block("a"), "citations": [{"encrypted_index": ""}]}] * n}])),
    "custom calls": Shape(
        ("openai_responses",),
        PARTS,
        lambda n: {
            "input": [
                item
                for i in range(n // 2)
                for item in (
                    {"type": "custom_tool_call", "call_id": f"c{i}", "name": "p", "input": "a"},
                    {"type": "custom_tool_call_output", "call_id": f"c{i}", "output": "a"},
                )
            ]
        },
    ),
    "namespaces": Shape(("openai_responses",), TOOLS, lambda n: {"input": "a", "tools": [{"type": "namespace", "name": "n" * 64, "tools": [{"name": f"f{i}"}]} for i in range(n)]}),
    "tools of other names": Shape(("openai_responses",), TOOLS, lambda n: {"input": "a", "tools": [{"type": "custom", "name": "." + "_" * (i % 50)} for i in range(n)]}),
    "hosted": Shape(("openai_responses",), TOOLS, lambda n: {"input": "a", "tools": [{"type": f"t{i}"} for i in range(n)]}),
    "strange items": Shape(("openai_responses",), PARTS // 2, lambda n: {"input": [{"role": "user", "content": "a"}, *[{"type": f"t{i}"} for i in range(n)]]}),
    "strange fields": Shape(("openai_responses",), 5_000, lambda n: {"input": "a", **{f"f{i}": i for i in range(n)}}),
    "found tools": Shape(
        ("openai_responses",),
        PARTS // 2,
        lambda n: {"input": [{"role": "user", "content": "a"}, *[{"type": "additional_tools", "tools": [{"name": "f"}] * 4} for _ in range(n // 4)]]},
    ),
}  # fmt: skip
"""What is passed on to a provider of the client's own format."""
