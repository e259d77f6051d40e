"""Bedrock's Converse, by botocore's own model of the service and these error messages.

Sources, read in November 2026: the API reference of Converse, and
- turns, blank texts, documents: NousResearch/hermes-agent#63983 (2026-07-13),
  home-assistant/core#175637 (2026-07-04), archestra-ai/archestra#4220 (2026-04-30);
- cache points: docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html, 4 per request;
- tools of a history: BerriAI/litellm#5747, anomalyco/opencode#46577;
- empty results: pydantic/pydantic-ai#6115 (2026-06-28), aws-samples/
  sample-multi-agent-orchestration-chat-on-agentcore#15 (2026-06-01).
"""

import itertools
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from botocore import loaders, model, validate

from .claude import refuse_schema, refuse_thinking, version_of
from .reading import has_duplicates, is_blank, list_of, object_of


@cache
def _shape() -> Any:
    loaded = loaders.Loader().load_service_model("bedrock-runtime", "service-2")
    return model.ServiceModel(loaded).operation_model("ConverseStream").input_shape


def refuse(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what Converse answers."""
    report = validate.ParamValidator().validate({**body, "modelId": "m" * 5}, _shape())
    found = [report.generate_report()] if report.has_errors() else []
    turns = list_of(body.get("messages"))
    if not turns:
        found.append("The value at messages is empty.")
    elif turns[0].get("role") != "user":
        found.append("A conversation must start with a user message.")
    roles = [turn.get("role") for turn in turns]
    if any(one == other for one, other in itertools.pairwise(roles)):
        found.append("Roles must alternate between user and assistant.")
    names: list[str] = []
    for number, turn in enumerate(turns):
        found += _turn(list_of(turn.get("content")), f"messages.{number}", names)
    if has_duplicates(names):
        found.append("Document names must be unique.")
    for number, block in enumerate(list_of(body.get("system"))):
        if "text" in block and is_blank(block["text"]):
            found.append(f"The text field in the ContentBlock object at system.{number} is blank.")
    if list_of(body.get("system"))[:1] and "cachePoint" in body["system"][0]:
        found.append("A cache point cannot be first.")
    points = json.dumps(body).count('"cachePoint": {')
    if points > 4:
        found.append(f"A maximum of 4 cache points may be provided. Found {points}.")
    found += _pairs(turns) + _tools(body, turns) + _inference(body, turns, model)
    text = object_of(object_of(body.get("outputConfig")).get("textFormat")).get("structure")
    schema = object_of(object_of(text).get("jsonSchema")).get("schema")
    if schema is not None:
        found += refuse_schema(json.loads(schema), "outputConfig.textFormat")
    return found


def _turn(blocks: list[dict[str, Any]], path: str, names: list[str]) -> list[str]:
    found = []
    if not blocks:
        found.append(f"The content field in the Message object at {path} is empty.")
    documents = [block["document"] for block in blocks if "document" in block]
    if documents and not any("text" in block for block in blocks):
        found.append("A text block must be included in the content when using documents.")
    if len(documents) > 5:
        found.append("A maximum of 5 documents may be provided.")
    names += [str(document.get("name")) for document in documents]
    for number, block in enumerate(blocks):
        if "text" in block and is_blank(block["text"]):
            found.append(f"The text field in the ContentBlock object at {path}.{number} is blank.")
        result = object_of(block.get("toolResult"))
        if result and not list_of(result.get("content")):
            found.append(f"The content field at {path}.{number}.toolResult is empty.")
        for inner in list_of(result.get("content")):
            if "text" in inner and is_blank(inner["text"]):
                found.append(f"The text field at {path}.{number}.toolResult is blank.")
        if "cachePoint" in block and (number == 0 or "cachePoint" in blocks[number - 1]):
            found.append(f"{path}.{number}: a cache point needs content before it.")
    return found


def _pairs(turns: list[dict[str, Any]]) -> list[str]:
    found, waiting, seen = [], set[str](), list[str]()
    for turn in turns:
        blocks = list_of(turn.get("content"))
        results = {b["toolResult"]["toolUseId"] for b in blocks if "toolResult" in b}
        if waiting - results:
            found.append("Expected toolResult blocks for the toolUse blocks of the previous turn.")
        if results - waiting:
            found.append("The number of toolResult blocks exceeds the toolUse blocks before.")
        uses = [b["toolUse"]["toolUseId"] for b in blocks if "toolUse" in b]
        seen += uses
        waiting = {*uses}
    if waiting:
        found.append("Expected toolResult blocks for the toolUse blocks of the previous turn.")
    if has_duplicates(seen):
        found.append("toolUseId must be unique.")
    return found


def _tools(body: Mapping[str, Any], turns: list[dict[str, Any]]) -> list[str]:
    found = []
    config = object_of(body.get("toolConfig"))
    used = any(
        "toolUse" in block or "toolResult" in block
        for turn in turns
        for block in list_of(turn.get("content"))
    )
    if used and not config:
        found.append(
            "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        )
    specs = [object_of(tool.get("toolSpec")) for tool in list_of(config.get("tools"))]
    specs = [spec for spec in specs if spec]
    if has_duplicates([str(spec.get("name")) for spec in specs]):
        found.append("The tool names must be unique.")
    for spec in specs:
        schema = object_of(object_of(spec.get("inputSchema")).get("json"))
        if schema.get("type") != "object":
            found.append(f"The value at toolConfig.{spec.get('name')}.inputSchema must be object.")
        if spec.get("description") == "":
            found.append("toolSpec.description: length must be at least 1")
        if spec.get("strict"):
            found += refuse_schema(schema, "toolConfig")
    wanted = object_of(object_of(config.get("toolChoice")).get("tool")).get("name")
    if wanted is not None and wanted not in [spec.get("name") for spec in specs]:
        found.append(f"toolChoice names {wanted!r}, which is not in tools.")
    return found


def _inference(body: Mapping[str, Any], turns: list[dict[str, Any]], name: str) -> list[str]:
    found = []
    config = object_of(body.get("inferenceConfig"))
    if (config.get("temperature") or 0) > 1:
        found.append("inferenceConfig.temperature: must be at most 1")
    version = version_of(name)
    if version is None:
        return found
    if any(is_blank(stop) for stop in list_of(config.get("stopSequences"))):
        found.append("stop_sequences: each stop sequence must contain non-whitespace")
    if version >= (4, 6) and turns and turns[-1].get("role") == "assistant":
        found.append("This model does not support assistant message prefill.")
    if (4, 1) <= version < (4, 7) and {"temperature", "topP"} <= config.keys():
        found.append("`temperature` and `top_p` cannot both be specified for this model.")
    fields = object_of(body.get("additionalModelRequestFields"))
    as_claudes = [
        {"role": turn["role"], "content": [*map(_as_claudes, turn["content"])]} for turn in turns
    ]
    choice = object_of(object_of(body.get("toolConfig")).get("toolChoice"))
    forced = {"type": "any" if "any" in choice else "tool" if "tool" in choice else "auto"}
    return found + refuse_thinking(
        {
            "thinking": fields.get("thinking") or fields.get("reasoning_config"),
            "messages": as_claudes,
            "max_tokens": config.get("maxTokens", 1_000_000),
            "temperature": config.get("temperature"),
            "top_p": config.get("topP"),
            "tool_choice": forced,
        },
        name,
    )


def _as_claudes(block: dict[str, Any]) -> dict[str, Any]:
    kinds = {"toolUse": "tool_use", "toolResult": "tool_result", "reasoningContent": "thinking"}
    return {"type": next((kind for name, kind in kinds.items() if name in block), "text")}
