"""Requests that one provider takes and another refuses, as bodies of Chat Completions."""

from typing import Any

USER = {"role": "user", "content": "Hi"}
SYSTEM = {"role": "system", "content": "Be brief."}
YES = {"role": "assistant", "content": "Yes?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "found"}
HISTORY = [USER, CALLED, RESULT]
SCHEMA = {
    "type": "object",
    "properties": {"q": {"type": "string"}},
    "required": ["q"],
    "additionalProperties": False,
}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
BITMAP = {"type": "image_url", "image_url": {"url": "data:image/bmp;base64,Qk0="}}
LINK = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
PDF = {
    "type": "file",
    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
}
MARKED = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
LONG = "mcp__a-server-with-a-very-long-name__and.a.tool-with-a-long-name-too_2"


def tool(name: str = "look", parameters: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    function = {"name": name, "description": "d", "parameters": parameters, **more}
    return {"type": "function", "function": function}


def wants(schema: Any, **more: Any) -> dict[str, Any]:
    form = {"name": "x", "schema": schema, **more}
    return {"messages": [USER], "response_format": {"type": "json_schema", "json_schema": form}}


def renamed(name: str, id: str = "c1") -> list[dict[str, Any]]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": "found"},
    ]


def says(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*parts]}]}


def bounded(**keywords: Any) -> dict[str, Any]:
    return {**SCHEMA, "properties": {"q": keywords}}


TOOLS = [tool()]
CHOICE = {"type": "function", "function": {"name": "look"}}
CASES: dict[str, dict[str, Any]] = {
    "plain": {"messages": [SYSTEM, USER]},
    # first, empty and last turns
    "a greeting first": {"messages": [SYSTEM, YES, USER]},
    "a system message alone": {"messages": [SYSTEM]},
    "an empty user message": {"messages": [USER, YES, {"role": "user", "content": ""}]},
    "a blank user message": {"messages": [USER, YES, {"role": "user", "content": "\n"}]},
    "an empty user message alone": {"messages": [{"role": "user", "content": ""}]},
    "an empty assistant message": {"messages": [USER, {"role": "assistant", "content": ""}, USER]},
    "a blank assistant message": {"messages": [USER, {"role": "assistant", "content": "\n"}, USER]},
    "an empty system message": {"messages": [{"role": "system", "content": ""}, USER]},
    "a blank system message": {"messages": [{"role": "system", "content": "  "}, USER]},
    "two messages of the user": {"messages": [USER, USER]},
    "two messages of the assistant": {"messages": [USER, YES, YES, USER]},
    "an answer to continue": {"messages": [USER, {"role": "assistant", "content": "Well "}]},
    "a system message later": {"messages": [USER, YES, SYSTEM, USER]},
    # calls and results
    "a history without tools": {"messages": [*HISTORY, YES, USER]},
    "a history with no tool": {"messages": HISTORY, "tools": TOOLS, "tool_choice": "none"},
    "a call first": {"messages": [CALLED, RESULT, USER], "tools": TOOLS},
    "a call without a result": {"messages": [USER, CALLED, USER], "tools": TOOLS},
    "a result without its call": {"messages": [USER, RESULT, USER], "tools": TOOLS},
    "a user between call and result": {"messages": [USER, CALLED, USER, RESULT], "tools": TOOLS},
    "a call beside an empty text": {
        "messages": [USER, {**CALLED, "content": ""}, RESULT],
        "tools": TOOLS,
    },
    "a call beside a blank text": {
        "messages": [USER, {**CALLED, "content": "\n\n"}, RESULT],
        "tools": TOOLS,
    },
    "an empty result": {"messages": [USER, CALLED, {**RESULT, "content": ""}], "tools": TOOLS},
    "a blank result": {"messages": [USER, CALLED, {**RESULT, "content": " "}], "tools": TOOLS},
    "a picture in a result": {
        "messages": [USER, CALLED, {**RESULT, "content": [PICTURE]}],
        "tools": TOOLS,
    },
    "a repeated id": {"messages": [*HISTORY, *HISTORY], "tools": TOOLS},
    "a long id": {"messages": renamed("look", "call_" + 90 * "x"), "tools": TOOLS},
    "an id with marks": {"messages": renamed("look", "functions.look:0"), "tools": TOOLS},
    # tools
    "a name with dots": {
        "messages": renamed("files.read"),
        "tools": [tool("files.read")],
        "tool_choice": {"type": "function", "function": {"name": "files.read"}},
    },
    "a long name": {"messages": renamed(LONG), "tools": [tool(LONG)]},
    "a name that begins with a digit": {"messages": [USER], "tools": [tool("9lives")]},
    "a choice": {"messages": [USER], "tools": TOOLS, "tool_choice": CHOICE},
    "a call required": {"messages": [USER], "tools": TOOLS, "tool_choice": "required"},
    "no tools": {"messages": [USER], "tools": []},
    "a choice without tools": {"messages": [USER], "tool_choice": "auto"},
    "none without tools": {"messages": [USER], "tool_choice": "none"},
    "an object without properties": {"messages": [USER], "tools": [tool("a", {"type": "object"})]},
    "an empty schema": {"messages": [USER], "tools": [tool("a", {})]},
    "a choice of schemas": {
        "messages": [USER],
        "tools": [tool("a", {"type": "object", "properties": {}, "anyOf": [{"required": ["q"]}]})],
    },
    "one call at a time": {"messages": [USER], "parallel_tool_calls": False},
    # schemas
    "a strict schema": wants(SCHEMA, strict=True),
    "a schema with bounds": wants(bounded(type="integer", minimum=0, maximum=9)),
    "a schema with lengths": wants(bounded(type="string", minLength=1, maxLength=9)),
    "a schema with items": wants(bounded(type="array", items={"type": "string"}, maxItems=5)),
    "an open schema": wants({"type": "object", "properties": {"q": {"type": "string"}}}),
    "an open strict tool": {
        "messages": [USER],
        "tools": [tool(parameters={**SCHEMA, "additionalProperties": False}, strict=True)],
    },
    # stops, limits and sampling
    "blank stops": {"messages": [USER], "stop": ["\n", "END"]},
    "four stops": {"messages": [USER], "stop": ["a", "b", "c", "d"]},
    "six stops": {"messages": [USER], "stop": ["a", "b", "c", "d", "e", "f"]},
    "an empty stop": {"messages": [USER], "stop": [""]},
    "one token": {"messages": [USER], "max_tokens": 1},
    "both of sampling": {"messages": [USER], "temperature": 0.5, "top_p": 0.9},
    "a high temperature": {"messages": [USER], "temperature": 1.6},
    "all of top_p": {"messages": [USER], "top_p": 1},
    "penalties": {"messages": [USER], "presence_penalty": -1, "frequency_penalty": 1.5},
    "a long user": {"messages": [USER], "user": 300 * "u"},
    # thinking
    "thinking and a temperature": {
        "messages": [USER],
        "reasoning_effort": "high",
        "temperature": 0.3,
    },
    "thinking and a low top_p": {"messages": [USER], "reasoning_effort": "high", "top_p": 0.5},
    "thinking and a forced call": {
        "messages": [USER],
        "tools": TOOLS,
        "tool_choice": CHOICE,
        "reasoning_effort": "high",
    },
    "thinking within a call": {"messages": HISTORY, "tools": TOOLS, "reasoning_effort": "high"},
    "thinking in a small limit": {
        "messages": [USER],
        "reasoning_effort": "high",
        "max_tokens": 500,
    },
    "no thinking": {"messages": [USER], "reasoning_effort": "none"},
    "minimal thinking": {"messages": [USER], "reasoning_effort": "minimal"},
    # media
    "an empty text beside a picture": says({"type": "text", "text": ""}, PICTURE),
    "a picture by a link": says({"type": "text", "text": "Look"}, LINK),
    "a bitmap": says({"type": "text", "text": "Look"}, BITMAP),
    "a document without a text": says(PDF),
    "a document": says({"type": "text", "text": "Read"}, PDF),
    "six documents": says({"type": "text", "text": "Read"}, *[PDF] * 6),
    "six marks": {"messages": [{"role": "user", "content": [MARKED]}, YES] * 5 + [USER]},
}
