"""A conversation of Chat Completions as a client of another format would send it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from .reading import list_of

Body = dict[str, Any]
"""A body of Chat Completions, without a model."""


class NotExpressible(Exception):
    """A format has no word for something of a request."""


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list_of(content)


def _split(url: str) -> tuple[str, str]:
    head, _, data = url.removeprefix("data:").partition(",")
    return head.partition(";")[0], data


def to_responses(body: Body) -> Body:
    items: list[dict[str, Any]] = []
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        if role == "tool":
            output = content if isinstance(content, str) else [*map(_input_part, content)]
            call = message["tool_call_id"]
            items.append({"type": "function_call_output", "call_id": call, "output": output})
            continue
        if role == "assistant":
            if content is not None:
                items.append({"role": role, "content": content})
        else:
            whole = content if isinstance(content, str) else [*map(_input_part, content)]
            items.append({"role": role, "content": whole})
        for call in message.get("tool_calls", ()):
            items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    found: Body = {"input": items}
    for name, value in body.items():
        match name:
            case "messages":
                pass
            case "tools":
                found[name] = [{"type": "function", **tool["function"]} for tool in value]
            case "tool_choice" if isinstance(value, dict):
                found[name] = {"type": "function", **value["function"]}
            case "max_tokens":
                found["max_output_tokens"] = value
            case "reasoning_effort":
                found["reasoning"] = {"effort": value}
            case "response_format":
                inner = value.get("json_schema", {})
                found["text"] = {"format": {"type": value["type"], **inner}}
            case "temperature" | "top_p" | "tool_choice" | "user" | "metadata":
                found[name] = value
            case "parallel_tool_calls" | "top_logprobs":
                found[name] = value
            case _:
                raise NotExpressible(name)
    return found


def _input_part(part: dict[str, Any]) -> dict[str, Any]:
    match part["type"]:
        case "text":
            return {"type": "input_text", "text": part["text"]}
        case "image_url":
            return {"type": "input_image", "image_url": part["image_url"]["url"]}
        case "file":
            return {"type": "input_file", **part["file"]}
    raise NotExpressible(part["type"])


def to_anthropic(body: Body) -> Body:
    turns: list[dict[str, Any]] = []
    system = []
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        if role in ("system", "developer"):
            system += _parts(content)
            continue
        if role == "tool":
            output = content if isinstance(content, str) else [*map(_block, content)]
            call = message["tool_call_id"]
            result = {"type": "tool_result", "tool_use_id": call, "content": output}
            turns.append({"role": "user", "content": [result]})
            continue
        blocks = [*map(_block, _parts(content or []))]
        for call in message.get("tool_calls", ()):
            given = json.loads(call["function"]["arguments"] or "{}")
            name = call["function"]["name"]
            blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": given})
        turns.append({"role": role, "content": blocks})
    if not turns:
        raise NotExpressible("no messages")
    found: Body = {"messages": turns, "max_tokens": body.get("max_tokens", 4096)}
    if system:
        found["system"] = system
    for name, value in body.items():
        match name:
            case "messages" | "max_tokens":
                pass
            case "tools":
                found[name] = [*map(_claudes, value)]
            case "tool_choice" if isinstance(value, dict):
                found[name] = {"type": "tool", "name": value["function"]["name"]}
            case "tool_choice":
                found[name] = {"type": {"required": "any"}.get(value, value)}
            case "stop":
                found["stop_sequences"] = [value] if isinstance(value, str) else value
            case "reasoning_effort" if value == "none":
                found["thinking"] = {"type": "disabled"}
            case "reasoning_effort":
                found["thinking"] = {"type": "adaptive"}
                found["output_config"] = {"effort": value}
            case "response_format" if value["type"] == "json_schema":
                schema = value["json_schema"]["schema"]
                if schema.get("additionalProperties") is not False:
                    raise NotExpressible("an open schema, which Anthropic refuses")
                found["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
            case "temperature" if value <= 1:
                found[name] = value
            case "top_p" | "top_k":
                found[name] = value
            case "user":
                found["metadata"] = {"user_id": value}
            case _:
                raise NotExpressible(name)
    return found


def _block(part: dict[str, Any]) -> dict[str, Any]:
    mark = {"cache_control": part["cache_control"]} if "cache_control" in part else {}
    match part["type"]:
        case "text":
            return {"type": "text", "text": part["text"], **mark}
        case "image_url" if part["image_url"]["url"].startswith("data:"):
            media, data = _split(part["image_url"]["url"])
            return {
                "type": "image",
                "source": {"type": "base64", "media_type": media, "data": data},
            }
        case "image_url":
            return {"type": "image", "source": {"type": "url", **part["image_url"]}}
        case "file" if "file_data" in part["file"]:
            media, data = _split(part["file"]["file_data"])
            source = {"type": "base64", "media_type": media, "data": data}
            return {"type": "document", "source": source}
    raise NotExpressible(part["type"])


def _claudes(tool: dict[str, Any]) -> dict[str, Any]:
    function = {**tool["function"]}
    schema = function.pop("parameters", {"type": "object"})
    return {**function, "input_schema": schema}


def to_ui(body: Body) -> Body:
    messages: list[dict[str, Any]] = []
    for number, message in enumerate(body["messages"]):
        role = message["role"]
        if role == "tool":
            for part in messages[-1]["parts"] if messages else ():
                if part.get("toolCallId") == message["tool_call_id"]:
                    part |= {"state": "output-available", "output": message["content"]}
            continue
        parts = [*map(_ui_part, _parts(message.get("content") or []))]
        for call in message.get("tool_calls", ()):
            name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
            tool = {"type": "dynamic-tool", "toolName": name, "toolCallId": call["id"]}
            parts.append({**tool, "state": "input-available", "input": given})
        messages.append({"id": f"m{number}", "role": role, "parts": parts})
    return _beside(body, {"id": "chat", "messages": messages}, "tools")


def _beside(body: Body, found: Body, *taken: str) -> Body:
    for name in body.keys() - {"messages"}:
        if name not in taken:
            raise NotExpressible(name)
        found[name] = body[name]
    return found


def _ui_part(part: dict[str, Any]) -> dict[str, Any]:
    match part["type"]:
        case "text":
            return {"type": "text", "text": part["text"]}
        case "image_url" if part["image_url"]["url"].startswith("data:"):
            url = part["image_url"]["url"]
            return {"type": "file", "mediaType": _split(url)[0], "url": url}
        case "file" if "file_data" in part["file"]:
            url = part["file"]["file_data"]
            return {"type": "file", "mediaType": _split(url)[0], "url": url}
    raise NotExpressible(part["type"])


def to_ag_ui(body: Body) -> Body:
    messages = []
    for number, message in enumerate(body["messages"]):
        one = {"id": f"m{number}", "role": message["role"]}
        if message.get("content") is not None:
            if not isinstance(message["content"], str):
                raise NotExpressible("parts")
            one["content"] = message["content"]
        if "tool_calls" in message:
            one["toolCalls"] = message["tool_calls"]
        if message["role"] == "tool":
            one["toolCallId"] = message["tool_call_id"]
        messages.append(one)
    tools = [{"description": "d", **tool["function"]} for tool in body.get("tools", ())]
    found = {"threadId": "t", "runId": "r", "state": {}, "context": [], "tools": tools}
    _beside(body, {}, "tools")
    return {**found, "messages": messages, "forwardedProps": {}}


def to_completions(body: Body) -> Body:
    (message,) = body["messages"] if len(body["messages"]) == 1 else [{}]
    if message.get("role") != "user" or not isinstance(message["content"], str):
        raise NotExpressible("messages")
    sampling = ("stop", "max_tokens", "temperature", "top_p", "n", "user", "presence_penalty")
    return _beside(body, {"prompt": message["content"]}, *sampling, "frequency_penalty")


def unchanged(body: Body) -> Body:
    return body


CONVERSIONS: Mapping[str, Callable[[Body], Body]] = {
    "native": unchanged,
    "openai_chat": unchanged,
    "openai_responses": to_responses,
    "openai_completions": to_completions,
    "anthropic": to_anthropic,
    "ui": to_ui,
    "ag_ui": to_ag_ui,
}
