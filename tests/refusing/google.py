"""Google: `generateContent` of the Gemini API and Vertex AI, and the Interactions API.

Sources, read in November 2026: ai.google.dev/api (`GenerateContentRequest`, `GenerationConfig`,
`FunctionDeclaration`, `CreateModelInteraction`), and the error messages of these reports:
- no contents: ikechan8370/chatgpt-plugin#733 (2024-12-22), NousResearch/hermes-agent#57942
  (2026-07-03); no parts: vercel/ai#3775, egoist/chatwise-releases#250 (2025-02-18);
- a choice without functions: musistudio/claude-code-router#1207 (2026-02-12),
  pydantic/pydantic-ai#5791 (2026-06-05, measured: 2.5 and older at the Gemini API);
- order of calls: `Please ensure that function call turn comes immediately after a user turn`;
- budgets: snailyp/gemini-balance#206 (2025-07-14), earendil-works/pi#3460 (2026-04-20),
  googleapis/python-genai#2936 (2026-09-08).
"""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from .reading import has_duplicates, list_of, object_of

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_CONTENT = frozenset(
    (
        *("contents", "systemInstruction", "tools", "toolConfig", "generationConfig"),
        *("safetySettings", "cachedContent", "serviceTier", "labels", "model", "store"),
    )
)
_BEFORE_3 = re.compile(r"gemini-[12](?![0-9])")
_CONTINUED = re.compile(r"gemini-(?:[12](?![0-9])|3(?:\.1)?(?![.0-9]))")


def refuse_content(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what `generateContent` answers."""
    contents = list_of(body.get("contents"))
    found = [f'Unknown name "{name}"' for name in sorted(body.keys() - _CONTENT)]
    if not contents:
        found.append("* GenerateContentRequest.contents: contents is not specified")
    for number, content in enumerate(contents):
        found += _content(content, f"contents[{number}]")
    found += _order(contents)
    ends = contents[-1].get("role") if contents else ""
    if ends == "model" and model.startswith("gemini") and not _CONTINUED.search(model):
        found.append("Please ensure that multiturn requests end with a user turn")
    for part in list_of(object_of(body.get("systemInstruction")).get("parts")):
        found += _part(part, "system_instruction.parts")
    declared = [
        one
        for tool in list_of(body.get("tools"))
        for one in list_of(tool.get("functionDeclarations"))
    ]
    names = [str(one.get("name")) for one in declared]
    if {"functionDeclarations": []} in list_of(body.get("tools")):
        found.append("tools[0].function_declarations: should not be empty")
    found += [f"Invalid function name {name!r}" for name in names if not _NAME.fullmatch(name)]
    if has_duplicates(names):
        found.append("Duplicate function declaration found")
    calling = object_of(object_of(body.get("toolConfig")).get("functionCallingConfig"))
    if calling and not declared:
        found.append("Function calling config is set without function_declarations.")
    allowed = list_of(calling.get("allowedFunctionNames"))
    if allowed and calling.get("mode") not in ("ANY", "VALIDATED"):
        found.append("Allowed function names can only be set with mode ANY")
    if set(allowed) - set(names):
        found.append("allowed_function_names should be a subset of the declarations")
    return found + _config(object_of(body.get("generationConfig")), model)


def _content(content: dict[str, Any], path: str) -> list[str]:
    parts = list_of(content.get("parts"))
    found = [] if parts else [f"{path}.parts: contents.parts must not be empty."]
    if content.get("role") not in ("user", "model"):
        found.append(f"{path}.role: Please use a valid role: user, model.")
    for number, part in enumerate(parts):
        found += _part(part, f"{path}.parts[{number}]")
    return found


def _part(part: dict[str, Any], path: str) -> list[str]:
    if part.get("text") == "" and "thoughtSignature" not in part:
        return [f"{path}.data: required oneof field 'data' must have one initialized field"]
    for kind in ("functionCall", "functionResponse"):
        one = object_of(part.get(kind))
        if one and not _NAME.fullmatch(str(one.get("name"))):
            return [f"{path}.{kind}.name: Invalid function name {one.get('name')!r}"]
        if one and not isinstance(one.get("args", one.get("response", {})), dict):
            return [f"{path}.{kind}: must be an object"]
    inline, file = object_of(part.get("inlineData")), object_of(part.get("fileData"))
    if inline and (not inline.get("mimeType") or not inline.get("data")):
        return [f"{path}.inline_data: mime_type and data are required"]
    if file and not str(file.get("fileUri")).startswith(("https://", "http://", "gs://")):
        return [f"{path}.file_data.file_uri: Invalid or unsupported file uri"]
    return []


def _order(contents: list[dict[str, Any]]) -> list[str]:
    found = []
    roles = [content.get("role") for content in contents]
    if any(one == other for one, other in itertools.pairwise(roles)):
        found.append("Please ensure that multiturn requests alternate between user and model.")
    calls = 0
    for number, content in enumerate(contents):
        parts = list_of(content.get("parts"))
        responses = sum("functionResponse" in part for part in parts)
        if responses != calls:
            found.append(
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn."
            )
        calls = sum("functionCall" in part for part in parts)
        if calls and number == 0:
            found.append(
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn."
            )
    if calls:
        found.append("Please ensure that function response turn comes after a function call turn.")
    return found


def _config(config: dict[str, Any], model: str) -> list[str]:
    found = []
    if len(list_of(config.get("stopSequences"))) > 5:
        found.append("stop_sequences: must have at most 5 elements")
    if "" in list_of(config.get("stopSequences")):
        found.append("stop_sequences: must not be empty")
    thinking = object_of(config.get("thinkingConfig"))
    budget = thinking.get("thinkingBudget")
    if {"thinkingLevel", "thinkingBudget"} <= thinking.keys():
        found.append("You can only set only one of thinking budget and thinking level.")
    if budget == 0 and "2.5-pro" in model:
        found.append("Budget 0 is invalid. This model only works in thinking mode.")
    if "thinkingLevel" in thinking and _BEFORE_3.search(model):
        found.append("Thinking level is not supported for this model.")
    if (config.get("temperature") or 0) > 2:
        found.append("temperature must be in the range [0.0, 2.0].")
    if "logprobs" in config and not config.get("responseLogprobs"):
        found.append("logprobs requires response_logprobs to be true")
    return found


def refuse_interactions(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what the Interactions API answers."""
    found = []
    steps = body.get("input")
    if not steps and not body.get("previous_interaction_id"):
        found.append("input: must not be empty")
    waiting: set[str] = set()
    for number, step in enumerate(list_of(steps)):
        path, kind = f"input[{number}]", step.get("type")
        if kind in ("user_input", "model_output") and not step.get("content"):
            found.append(f"{path}.content: must not be empty")
        for part in list_of(step.get("content")):
            if part.get("type") == "text" and not part.get("text"):
                found.append(f"{path}.content: text must not be empty")
        if kind == "function_call":
            waiting.add(step["id"])
            if not _NAME.fullmatch(str(step.get("name"))):
                found.append(f"{path}.name: Invalid function name")
        if kind == "function_result":
            if step.get("call_id") not in waiting:
                found.append(f"{path}: no function call with the id {step.get('call_id')!r}")
            waiting.discard(str(step.get("call_id")))
        if kind == "user_input" and waiting:
            found.append(f"{path}: function calls without results: {sorted(waiting)}")
    config = object_of(body.get("generation_config"))
    functions = [tool for tool in list_of(body.get("tools")) if tool.get("type") == "function"]
    names = [str(tool.get("name")) for tool in functions]
    found += [f"Invalid function name {name!r}" for name in names if not _NAME.fullmatch(name)]
    if "tool_choice" in config and not functions:
        found.append("Function calling config is set without function_declarations.")
    if len(list_of(config.get("stop_sequences"))) > 5:
        found.append("stop_sequences: must have at most 5 elements")
    return found
