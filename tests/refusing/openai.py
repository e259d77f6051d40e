"""OpenAI: Chat Completions, Responses and the older Completions.

Sources, read in November 2026: the API reference (lengths, numbers, parameters, by the types of
its SDK) and the error messages of these reports:
- stops: continuedev/continue#1572 (2024-06-26);
- names of tools: openai/codex#9163, anomalyco/opencode#1833, `string_above_max_length`;
- schemas of tools: openai/openai-agents-python#449 (2025-04-07), github/github-mcp-server#1548
  (2025-12-07); of strict ones: camel-ai/camel#2629 (2025-06-13);
- ids of calls: vercel/ai#9119, at most 40 characters in Chat Completions and 64 in Responses;
- smallest limit: vectorize-io/hindsight#58 (2025-12-19), QuantumNous/new-api#2438 (2025-12-14).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params
from openai.types.responses import response_create_params

from .reading import is_object, list_of, object_of, schemas_in

HOST = "api.openai.com"
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_CHAT = frozenset(chat_create_params.CompletionCreateParamsStreaming.__annotations__)
_RESPONSES = frozenset(response_create_params.ResponseCreateParamsStreaming.__annotations__)
_COMPLETIONS = frozenset(completion_create_params.CompletionCreateParamsStreaming.__annotations__)
_IMAGES = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")
_REASONING_MODELS = re.compile(r"(o[1-9]|gpt-[5-9])(?!.*chat)")


def _is_openai(host: str) -> bool:
    return host in ("", HOST) or host.endswith(".openai.azure.com")


def refuse_chat(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what Chat Completions answers; at other hosts only what all of them demand."""
    found = [*_pairs(list_of(body.get("messages")))]
    if not body.get("messages"):
        found.append("Invalid 'messages': empty array. Expected an array with minimum length 1")
    tools = [object_of(tool.get("function")) for tool in list_of(body.get("tools"))]
    found += _tools(body, tools, "function.")
    for number, message in enumerate(list_of(body.get("messages"))):
        found += _message(message, f"messages[{number}]")
    if not _is_openai(host):
        return found
    found += _unknown(body, _CHAT)
    stops = body.get("stop")
    if isinstance(stops, list) and len(stops) > 4:
        found.append("Invalid 'stop': array too long. Expected an array with maximum length 4")
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        found.append("'logprobs' must be set to true if 'top_logprobs' is used")
    if "parallel_tool_calls" in body and not tools:
        found.append("'parallel_tool_calls' is only allowed when 'tools' are specified")
    for number, message in enumerate(list_of(body.get("messages"))):
        for call in list_of(message.get("tool_calls")):
            if len(call.get("id", "")) > 40:
                found.append(f"Invalid 'messages[{number}].tool_calls[0].id': string too long")
    if _REASONING_MODELS.match(model) and "max_tokens" in body:
        found.append("Unsupported parameter: 'max_tokens' is not supported with this model")
    form = object_of(body.get("response_format"))
    found += _schema_form(object_of(form.get("json_schema")), form.get("type"))
    return found + _lengths(body)


def refuse_responses(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what the Responses API answers."""
    items = list_of(body.get("input"))
    found = []
    stored = body.get("previous_response_id") or body.get("conversation")
    if not body.get("input") and not stored and not body.get("prompt"):
        found.append("One of 'input', 'previous_response_id', 'prompt' must be provided")
    tools = [tool for tool in list_of(body.get("tools")) if tool.get("type") == "function"]
    found += _tools(body, tools, "")
    limit = body.get("max_output_tokens")
    if limit is not None and limit < 16:
        found.append("Invalid 'max_output_tokens': integer below minimum value. Expected >= 16")
    calls = [item for item in items if item.get("type") in ("function_call", "custom_tool_call")]
    ids = {item.get("call_id") for item in calls}
    outputs = [item for item in items if str(item.get("type")).endswith("call_output")]
    answered = {item.get("call_id") for item in outputs}
    if missing := ids - answered:
        found.append(f"No tool output found for function call {sorted(missing)}")
    if (stray := answered - ids) and not stored:
        found.append(f"No tool call found for function call output with call_id {sorted(stray)}")
    for number, item in enumerate(items):
        path = f"input[{number}]"
        if len(item.get("call_id") or "") > 64:
            found.append(f"Invalid '{path}.call_id': string too long. Maximum length 64")
        if "name" in item:
            found += _name(item["name"], f"{path}.name", longest=64)
        if isinstance(item.get("output"), list):
            found += _input_parts(item["output"], f"{path}.output")
        if item.get("role") in ("user", "system", "developer"):
            found += _input_parts(list_of(item.get("content")), f"{path}.content")
        if item.get("content") == []:
            found.append(f"Invalid '{path}.content': empty array")
    if _is_openai(host):
        found += _unknown(body, _RESPONSES)
    form = object_of(object_of(body.get("text")).get("format"))
    found += _schema_form(form, form.get("type"))
    return found + _lengths(body)


def refuse_completions(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what the older Completions answer."""
    found = _unknown(body, _COMPLETIONS) if _is_openai(host) else []
    stops = body.get("stop")
    if isinstance(stops, list) and len(stops) > 4:
        found.append("Invalid 'stop': array too long. Expected an array with maximum length 4")
    if (body.get("logprobs") or 0) > 5:
        found.append("Invalid 'logprobs': integer above maximum value. Expected a value <= 5")
    if (body.get("best_of") or 1) < (body.get("n") or 1):
        found.append("'best_of' must be greater than or equal to 'n'")
    return found


def _unknown(body: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    return [f"Unknown parameter: {name!r}" for name in sorted(body.keys() - set(known))]


def _name(name: Any, path: str, *, longest: int) -> list[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return [f"Invalid '{path}': string does not match pattern. Expected '^[a-zA-Z0-9_-]+$'"]
    if len(name) > longest:
        return [f"Invalid '{path}': string too long. Expected maximum length {longest}"]
    return []


def _tools(body: Mapping[str, Any], tools: list[dict[str, Any]], under: str) -> list[str]:
    found = []
    if body.get("tools") == []:
        found.append("Invalid 'tools': empty array. Expected an array with minimum length 1")
    choice = body.get("tool_choice")
    if choice is not None and not body.get("tools"):
        found.append("'tool_choice' is only allowed when 'tools' are specified")
    if isinstance(choice, dict) and choice.get("type") == "function":
        name = choice.get("name") or object_of(choice.get("function")).get("name")
        if name not in [tool.get("name") for tool in tools]:
            found.append(f"Tool choice {name!r} not found in 'tools' parameter")
    if len(tools) > 128:
        found.append("Invalid 'tools': array too long. Expected an array with maximum length 128")
    for number, tool in enumerate(tools):
        found += _name(tool.get("name"), f"tools[{number}].{under}name", longest=64)
        found += _parameters(tool, f"tools[{number}].{under}parameters")
    return found


def _parameters(tool: dict[str, Any], path: str) -> list[str]:
    schema, name = tool.get("parameters"), tool.get("name")
    if schema is None:
        return []
    if not is_object(schema):
        return [f"Invalid schema for function {name!r}: must be of 'type: \"object\"' ({path})"]
    if "properties" not in schema:
        return [f"Invalid schema for function {name!r}: object schema missing properties ({path})"]
    above = {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys()
    if above:
        return [f"Invalid schema for function {name!r}: {sorted(above)} at the top level ({path})"]
    return _strict(schema, path) if tool.get("strict") else []


def _strict(schema: dict[str, Any], path: str) -> list[str]:
    found = []
    for where, one in schemas_in(schema, path):
        if is_object(one):
            if one.get("additionalProperties") is not False:
                found.append(f"Invalid schema: {where}: 'additionalProperties' must be false")
            if set(list_of(one.get("required"))) != set(object_of(one.get("properties"))):
                found.append(f"Invalid schema: {where}: 'required' must have every property")
    return found


def _schema_form(form: dict[str, Any], kind: Any) -> list[str]:
    if kind != "json_schema":
        return []
    found = _name(form.get("name"), "response_format.json_schema.name", longest=64)
    schema = object_of(form.get("schema"))
    return found + (_strict(schema, "schema") if form.get("strict") else [])


def _lengths(body: Mapping[str, Any]) -> list[str]:
    found = []
    for name in ("user", "safety_identifier", "prompt_cache_key"):
        if len(body.get(name) or "") > 64:
            found.append(f"Invalid '{name}': string too long. Expected maximum length 64")
    metadata = object_of(body.get("metadata"))
    if len(metadata) > 16:
        found.append("Invalid 'metadata': too many properties. Expected at most 16")
    found += [f"Invalid 'metadata': key {key[:20]!r} too long" for key in metadata if len(key) > 64]
    found += [f"Invalid 'metadata.{k}': too long" for k, v in metadata.items() if len(v) > 512]
    return found


def _pairs(messages: list[dict[str, Any]]) -> list[str]:
    """Check that the results of all calls follow them at once."""
    waiting: set[str] = set()
    found = []
    for number, message in enumerate(messages):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in waiting:
                found.append(
                    f"messages[{number}]: messages with role 'tool' must be a response to a "
                    "preceding message with 'tool_calls'"
                )
            waiting.discard(message.get("tool_call_id", ""))
            continue
        if waiting:
            found.append(f"tool_call_ids did not have response messages: {sorted(waiting)}")
        waiting = {call["id"] for call in list_of(message.get("tool_calls"))}
    if waiting:
        found.append(f"tool_call_ids did not have response messages: {sorted(waiting)}")
    return found


def _message(message: dict[str, Any], path: str) -> list[str]:
    found, content = [], message.get("content")
    calls = list_of(message.get("tool_calls"))
    if message.get("tool_calls") == []:
        found.append(f"Invalid '{path}.tool_calls': empty array")
    if content == []:
        found.append(f"Invalid '{path}.content': empty array")
    if content is None and not calls and "refusal" not in message and "audio" not in message:
        found.append(f"Invalid value for '{path}.content': expected a string, got null")
    for number, call in enumerate(calls):
        name = object_of(call.get("function")).get("name")
        found += _name(name, f"{path}.tool_calls[{number}].function.name", longest=64)
        if call.get("type") not in ("function", "custom"):
            found.append(f"Missing required parameter: '{path}.tool_calls[{number}].type'")
        if not isinstance(object_of(call.get("function")).get("arguments"), str):
            found.append(f"{path}.tool_calls[{number}].function.arguments: expected a string")
    for number, part in enumerate(list_of(content)):
        found += _chat_part(part, f"{path}.content[{number}]", message.get("role"))
    return found


def _chat_part(part: dict[str, Any], path: str, role: Any) -> list[str]:
    kind = part.get("type")
    kinds = {"user": ("text", "image_url", "input_audio", "file"), "assistant": ("text", "refusal")}
    if role in kinds and kind not in (*kinds[role], "video_url", "document_url", "thinking"):
        return [f"Invalid value: {kind!r} ({path}.type)"]
    if role in ("system", "developer", "tool") and kind != "text":
        return [f"Invalid content type. {kind!r} is only supported by user messages ({path})"]
    if kind == "image_url":
        return _image(object_of(part.get("image_url")).get("url"), path)
    if kind == "file" and not {"file_data", "file_id"} & object_of(part.get("file")).keys():
        return [f"Missing required parameter: '{path}.file.file_id'"]
    return []


def _input_parts(parts: list[dict[str, Any]], path: str) -> list[str]:
    found = []
    for number, part in enumerate(parts):
        kind, where = part.get("type"), f"{path}[{number}]"
        if kind not in ("input_text", "input_image", "input_file", "input_audio"):
            found.append(f"Invalid value: {kind!r} ({where}.type)")
        if kind == "input_image" and "file_id" not in part:
            found += _image(part.get("image_url"), where)
        if kind == "input_file" and not {"file_data", "file_id", "file_url"} & part.keys():
            found.append(f"Missing required parameter: '{where}.file_id'")
    return found


def _image(url: Any, path: str) -> list[str]:
    if not isinstance(url, str) or not url.startswith(("http://", "https://", "data:")):
        return [f"Invalid '{path}.image_url': expected a valid URL"]
    kind = url[5:].partition(";")[0]
    if url.startswith("data:") and kind not in _IMAGES:
        return [f"You uploaded an unsupported image ({path}): {kind}; use png, jpeg, gif or webp"]
    return []
