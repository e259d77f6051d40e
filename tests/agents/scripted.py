"""One small task as an upstream of each dialect plays it: write a file, then say so.

What is asked in the first turn is the tool that the agent offers, by the names that it gives
to the tool and its arguments. Each dialect is spoken as its provider does.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from app.testing.upstream import Call, Reset, Send, Step, head
from tests.dialects.anthropic import written as anthropic
from tests.dialects.bedrock import written as bedrock
from tests.dialects.cohere import written as cohere
from tests.dialects.gemini_interactions import written as interactions
from tests.dialects.openai_chat import written as openai_chat

ANSWER = "The file is written: 🌊 done."
CUT_AFTER = "The file is"

Json = dict[str, Any]


class Dialect(NamedTuple):
    """How one format says what the task needs."""

    preset: str
    offered: Callable[[Json], dict[str, Json]]
    """The tools of a request, names to JSON schemas of their arguments."""
    results: Callable[[Json], list[str]]
    """The ids of the calls whose results a request holds; names where the format has no ids."""
    ask: Callable[[str, str, Json], bytes]
    """The answer that calls a tool: its id, which not every format has, its name, arguments."""
    say: Callable[[str], tuple[bytes, bytes]]
    """The answer that is a text: up to its end, and from there."""
    content_type: str = "text/event-stream"


def _sse(*payloads: Json, named: bool = True) -> bytes:
    return "".join(
        (f"event: {payload['type']}\n" if named else "") + f"data: {json.dumps(payload)}\n\n"
        for payload in payloads
    ).encode()


def _pieces(text: str) -> tuple[str, str]:
    """Split in two, since providers do."""
    return text[: len(text) // 2], text[len(text) // 2 :]


# Chat Completions


_CHAT_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def _chat(delta: Json, finish: str | None = None) -> Json:
    fields: Json = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
    }
    found: Json = openai_chat.chunk(delta, finish, **fields)
    return found


def _chat_end(reason: str) -> bytes:
    return openai_chat.answer(_chat({}, reason), {**_chat({}), "choices": [], "usage": _CHAT_USAGE})


def _chat_ask(id: str, name: str, arguments: Json) -> bytes:
    first, second = _pieces(json.dumps(arguments))
    call = {"index": 0, "id": id, "type": "function"}
    return openai_chat.sse(
        _chat({"role": "assistant", "content": None}),
        _chat({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]}),
        _chat({"tool_calls": [{"index": 0, "function": {"arguments": first}}]}),
        _chat({"tool_calls": [{"index": 0, "function": {"arguments": second}}]}),
    ) + _chat_end("tool_calls")


def _chat_say(text: str) -> tuple[bytes, bytes]:
    start = _chat({"role": "assistant", "content": ""})
    return openai_chat.sse(start, _chat({"content": text})), _chat_end("stop")


def _functions(tools: Iterable[Json]) -> dict[str, Json]:
    return {
        tool["function"]["name"]: tool["function"].get("parameters") or {}
        for tool in tools
        if tool["type"] == "function"
    }


# Anthropic Messages


_MESSAGE = anthropic.head(
    type="message",
    role="assistant",
    stop_reason=None,
    stop_sequence=None,
    usage={"input_tokens": 100, "output_tokens": 1},
)


def _messages_end(*payloads: Json, reason: str) -> bytes:
    end = anthropic.last(reason, {"output_tokens": 10}, stop_sequence=None)
    return anthropic.answer(*payloads, end)


def _anthropic_ask(id: str, name: str, arguments: Json) -> bytes:
    pieces = _pieces(json.dumps(arguments))
    block = anthropic.inputs(0, "tool_use", *pieces, id=id, name=name)
    return _messages_end(_MESSAGE, *block, reason="tool_use")


def _anthropic_say(text: str) -> tuple[bytes, bytes]:
    *begun, stop = anthropic.text(0, text)
    return anthropic.sse(_MESSAGE, *begun), _messages_end(stop, reason="end_turn")


def _anthropic_results(body: Json) -> list[str]:
    return [
        part["tool_use_id"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "tool_result"
    ]


# OpenAI Responses


def _response(status: str, *output: Json) -> Json:
    usage = {
        "input_tokens": 100,
        "output_tokens": 10,
        "total_tokens": 110,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "m",
        "output": [*output],
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
        "usage": usage if status == "completed" else None,
    }


def responses(item: Json, *middle: Json, done: Json) -> tuple[bytes, bytes]:
    item_id = {"item_id": item["id"], "output_index": 0}
    events: list[Json] = [
        {"type": "response.created", "response": _response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({**event, **item_id} for event in middle),
    ]
    ends: list[Json] = [
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": _response("completed", done)},
    ]
    return (
        _sse(*({**event, "sequence_number": n} for n, event in enumerate(events))),
        _sse(*({**event, "sequence_number": len(events) + n} for n, event in enumerate(ends))),
    )


def _responses_ask(id: str, name: str, arguments: Json) -> bytes:
    whole = json.dumps(arguments)
    item = {"id": "fc_1", "type": "function_call", "call_id": id, "name": name}
    kind = "response.function_call_arguments"
    return b"".join(
        responses(
            {**item, "arguments": "", "status": "in_progress"},
            *({"type": f"{kind}.delta", "delta": piece} for piece in _pieces(whole)),
            {"type": f"{kind}.done", "arguments": whole},
            done={**item, "arguments": whole, "status": "completed"},
        )
    )


def _responses_say(text: str) -> tuple[bytes, bytes]:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    return responses(
        {**item, "status": "in_progress"},
        {"type": "response.content_part.added", "content_index": 0, "part": part},
        {"type": "response.output_text.delta", "content_index": 0, "delta": text},
        done={**item, "status": "completed", "content": [{**part, "text": text}]},
    )


def _responses_offered(body: Json) -> dict[str, Json]:
    return {
        tool["name"]: tool.get("parameters") or {}
        for tool in body.get("tools") or ()
        if tool["type"] == "function"
    }


# Gemini


def _gemini(part: Json, **fields: Any) -> Json:
    content = {"role": "model", "parts": [part]}
    return {
        "candidates": [{"content": content, "index": 0, **fields}],
        "modelVersion": "m",
        "responseId": "gemini-1",
        "usageMetadata": {
            "promptTokenCount": 100,
            "candidatesTokenCount": 10,
            "totalTokenCount": 110,
        },
    }


def _gemini_ask(id: str, name: str, arguments: Json) -> bytes:
    call = {"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "c2lnbmVk"}
    return _sse(_gemini(call, finishReason="STOP"), named=False)


def _gemini_say(text: str) -> tuple[bytes, bytes]:
    return (
        _sse(_gemini({"text": text}), named=False),
        _sse(_gemini({"text": ""}, finishReason="STOP"), named=False),
    )


def _gemini_offered(body: Json) -> dict[str, Json]:
    return {
        declared["name"]: declared.get("parametersJsonSchema") or declared.get("parameters") or {}
        for tool in body.get("tools") or ()
        for declared in tool.get("functionDeclarations") or ()
    }


def _gemini_results(body: Json) -> list[str]:
    return [
        part["functionResponse"]["name"]
        for content in body["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]


# Google's Interactions API


_INTERACTIONS_USAGE = {"total_input_tokens": 100, "total_output_tokens": 10, "total_tokens": 110}


def _interactions_ask(id: str, name: str, arguments: Json) -> bytes:
    return interactions.answer(
        interactions.START,
        interactions.thought("c2lnbmVk"),
        interactions.asked(1, *_pieces(json.dumps(arguments)), id=id, name=name),
        interactions.end("requires_action", usage=_INTERACTIONS_USAGE),
    )


def _interactions_say(text: str) -> tuple[bytes, bytes]:
    *begun, stop = interactions.said(text)
    end = interactions.end(usage=_INTERACTIONS_USAGE)
    return interactions.sse(interactions.START, *begun), interactions.sse(stop, end)


# Bedrock Converse


_CONVERSE_USAGE = {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110}


def _converse_end(reason: str) -> bytes:
    return bedrock.stop(0) + bedrock.finish(reason) + bedrock.metadata(usage=_CONVERSE_USAGE)


def _converse_ask(id: str, name: str, arguments: Json) -> bytes:
    call = bedrock.start(0, toolUse={"toolUseId": id, "name": name})
    for piece in _pieces(json.dumps(arguments)):
        call += bedrock.delta(0, toolUse={"input": piece})
    return bedrock.BEGIN + call + _converse_end("tool_use")


def _converse_say(text: str) -> tuple[bytes, bytes]:
    return bedrock.BEGIN + bedrock.delta(0, text=text), _converse_end("end_turn")


def _converse_offered(body: Json) -> dict[str, Json]:
    return {
        tool["toolSpec"]["name"]: tool["toolSpec"]["inputSchema"]["json"]
        for tool in (body.get("toolConfig") or {}).get("tools", ())
        if "toolSpec" in tool
    }


def _converse_results(body: Json) -> list[str]:
    return [
        part["toolResult"]["toolUseId"]
        for message in body["messages"]
        for part in message["content"]
        if "toolResult" in part
    ]


# Cohere


_COHERE_USAGE = {"tokens": {"input_tokens": 100, "output_tokens": 10}}


def _cohere_ask(id: str, name: str, arguments: Json) -> bytes:
    pieces = _pieces(json.dumps(arguments))
    return cohere.sse(
        cohere.START,
        cohere.start(0, id, name),
        *(cohere.more(0, piece) for piece in pieces),
        cohere.event("tool-call-end", 0),
        cohere.end("TOOL_CALL", usage=_COHERE_USAGE),
    )


def _cohere_say(text: str) -> tuple[bytes, bytes]:
    return cohere.sse(
        cohere.START,
        cohere.content(kind="content-start", type="text", text=""),
        cohere.content(text=text),
    ), cohere.sse(cohere.event("content-end", 0), cohere.end(usage=_COHERE_USAGE))


# Ollama


def _ollama(message: Json, **fields: Any) -> bytes:
    line = {"model": "m", "created_at": "2026-11-01T00:00:00Z", "done": False, **fields}
    return json.dumps({**line, "message": {"role": "assistant", **message}}).encode() + b"\n"


_OLLAMA_END = _ollama(
    {"content": ""}, done=True, done_reason="stop", prompt_eval_count=100, eval_count=10
)


def _ollama_ask(id: str, name: str, arguments: Json) -> bytes:
    call = {"function": {"name": name, "arguments": arguments}}
    return _ollama({"content": "", "tool_calls": [call]}) + _OLLAMA_END


DIALECTS = {
    "openai_chat": Dialect(
        preset="openai",
        offered=lambda body: _functions(body.get("tools") or ()),
        results=lambda body: [
            message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"
        ],
        ask=_chat_ask,
        say=_chat_say,
    ),
    "anthropic": Dialect(
        preset="anthropic",
        offered=lambda body: {
            tool["name"]: tool["input_schema"]
            for tool in body.get("tools") or ()
            if "input_schema" in tool
        },
        results=_anthropic_results,
        ask=_anthropic_ask,
        say=_anthropic_say,
    ),
    "openai_responses": Dialect(
        preset="openai-responses",
        offered=_responses_offered,
        results=lambda body: [
            item["call_id"]
            for item in body["input"]
            if item.get("type", "").endswith("_call_output")
        ],
        ask=_responses_ask,
        say=_responses_say,
    ),
    "gemini": Dialect(
        preset="gemini",
        offered=_gemini_offered,
        results=_gemini_results,
        ask=_gemini_ask,
        say=_gemini_say,
    ),
    "gemini_interactions": Dialect(
        preset="gemini-interactions",
        offered=_responses_offered,
        results=lambda body: [
            step["call_id"] for step in body["input"] if step["type"] == "function_result"
        ],
        ask=_interactions_ask,
        say=_interactions_say,
    ),
    "bedrock_converse": Dialect(
        preset="bedrock",
        offered=_converse_offered,
        results=_converse_results,
        ask=_converse_ask,
        say=_converse_say,
        content_type="application/vnd.amazon.eventstream",
    ),
    "cohere": Dialect(
        preset="cohere",
        offered=lambda body: _functions(body.get("tools") or ()),
        results=lambda body: [
            message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"
        ],
        ask=_cohere_ask,
        say=_cohere_say,
    ),
    "ollama": Dialect(
        preset="ollama",
        offered=lambda body: _functions(body.get("tools") or ()),
        results=lambda body: [
            message.get("tool_name", "")
            for message in body["messages"]
            if message["role"] == "tool"
        ],
        ask=_ollama_ask,
        say=lambda text: (_ollama({"content": text}), _OLLAMA_END),
        content_type="application/x-ndjson",
    ),
}


Picker = Callable[[dict[str, Json]], tuple[str, Json] | None]
"""Picks a call among the tools of a request; None: they are not there."""


class Task:
    """An upstream's part: ask for each call in turn, say that all is done, or break off.

    Requests without the tools (titles, summaries, warm-ups) are answered with a text.
    """

    def __init__(self, dialect: str, calls: Sequence[Picker], *, cuts: int = 0) -> None:
        self._dialect = DIALECTS[dialect]
        self._calls = calls
        self._cuts = cuts
        """How many of the last answers break off in the middle."""
        self.asked = 0
        """How many requests were answered with a call."""
        self.told = 0
        """How many held the results of all calls."""
        self.results: list[str] = []
        """Whose results the last request held."""

    def choose(self, call: Call) -> Sequence[Step]:
        dialect, body = self._dialect, call.json
        start = head(content_type=dialect.content_type)
        results = dialect.results(body)
        if len(results) < len(self._calls):
            found = self._calls[len(results)](dialect.offered(body))
            if found is None:
                return [start, Send(b"".join(dialect.say("A file")))]
            self.asked += 1
            return [start, Send(dialect.ask(call_id(len(results)), *found))]
        self.told += 1
        self.results = results
        whole, end = dialect.say(ANSWER)
        if self._cuts > 0:
            self._cuts -= 1
            torn, _ = dialect.say(CUT_AFTER)
            return [start, Send(torn), Reset()]
        return [start, Send(whole), Send(end)]


def call_id(number: int) -> str:
    """Return the id of a call, of a form that the relay's own could have."""
    return f"call_6705580{number}"
