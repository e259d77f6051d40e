"""The table of what each format supports: made from the code, and the same in the documents.

`python -m tests.test_features` writes the document anew.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RequestError
from app.requests import parse_chat_request
from app.upstreams.request_builder import list_effective
from tests.sdk.conversations import CITY, NOW, PNG, TURNS, WEATHER, call

pytestmark = pytest.mark.pure

DOCUMENT = Path(__file__).parent.parent / "docs" / "features.md"
ASK = {"role": "user", "content": "Hello"}
HEAD = """# Features of each format

The fields of a request that each upstream format supports (a table made by `python -m tests.test_features`); [providers](providers/README.md) lists the format of each provider.

- yes: sent.
- dropped: the format has no place for it. The `notice` `field_ignored` says so.
- adapted: the provider would refuse it, so it is dropped or changed, with the same notice.
- refused: without it the answer would be a different one. The relay answers 400, and a route tries its next target.

OpenRouter, Vercel and LiteLLM also accept `cache_control`, the first two also `reasoning_summary`.
`service_tier` and files by id need [`options`](providers/options.md); so does `store`, with routes or authentication.
Whether a model supports a field is up to the provider.
"""


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*parts]}]}


def asked(**fields: Any) -> dict[str, Any]:
    return {"messages": [ASK], **fields}


def answered(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": [ASK, {"role": "assistant", "content": [*parts], **fields}, ASK]}


MARK = {"type": "ephemeral"}
SIGNATURE = "UFJPT0Y="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
CALLS = {"role": "assistant", "tool_calls": [call("call_1", "now", "{}")]}
CITY_SCHEMA = {"name": "city", "schema": CITY, "strict": True}
SHOWN = {"role": "tool", "tool_call_id": "call_1", "content": [IMAGE]}
FEATURES: dict[str, dict[str, Any]] = {
    "conversation, system message": TURNS["system-and-history"],
    "image, inline": TURNS["image-inline"],
    "image, by URL": TURNS["image-by-url"],
    "PDF, inline": TURNS["file-inline"],
    "file, by id": user({"type": "file", "file": {"file_id": "file-1"}}),
    "sound": user({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
    "tools": TURNS["tools"],
    "`tool_choice`: required": TURNS["tool-required"],
    "`tool_choice`: one by name": TURNS["tool-by-name"],
    "`tool_choice`: none": asked(tools=[WEATHER], tool_choice="none"),
    "`parallel_tool_calls`: false": asked(tools=[WEATHER, NOW], parallel_tool_calls=False),
    "results of tools": TURNS["tool-results"],
    "images in results": {"messages": [ASK, CALLS, SHOWN], "tools": [NOW]},
    "calls without a result": {"messages": [ASK, CALLS, ASK], "tools": [NOW]},
    "an assistant's message last": {
        "messages": [ASK, {"role": "assistant", "content": "Once upon"}],
    },
    "`response_format`: JSON": TURNS["json-object"],
    "`response_format`: a schema": asked(
        response_format={"type": "json_schema", "json_schema": CITY_SCHEMA}
    ),
    "`reasoning_effort`": asked(reasoning_effort="low", max_tokens=4000),
    "`reasoning_effort`: max": asked(reasoning_effort="max", max_tokens=4000),
    "`reasoning_effort` with a `temperature`": asked(
        reasoning_effort="low", max_tokens=4000, temperature=0.5
    ),
    "`max_tokens`": asked(max_tokens=100),
    "`temperature`": asked(temperature=0.5),
    "`top_p`": asked(top_p=0.9),
    "`stop`": asked(stop=["END"]),
    "`seed`": asked(seed=7),
    "`frequency_penalty`": asked(frequency_penalty=0.5),
    "`presence_penalty`": asked(presence_penalty=0.5),
    "`logprobs`": asked(logprobs=True, top_logprobs=2),
    "`n` above 1": asked(n=2),
    "`metadata`": asked(metadata={"a": "b"}),
    "`user`": asked(user="u-1"),
    "`safety_identifier`": asked(safety_identifier="u-1"),
    "`allowed_tools`": asked(tools=[WEATHER, NOW], allowed_tools=["now"]),
    "`verbosity`": asked(verbosity="low"),
    "`reasoning_summary`": asked(
        reasoning_effort="low", max_tokens=4000, reasoning_summary="detailed"
    ),
    "`service_tier`": asked(service_tier="priority"),
    "`store`": asked(store=True),
    "`truncation`": asked(truncation="auto"),
    "`max_tool_calls`": asked(max_tool_calls=3),
    "`prompt_cache_key`": asked(prompt_cache_key="k-1"),
    "`prompt_cache_retention`": asked(prompt_cache_retention="24h"),
    "`cache_control`": asked(cache_control=MARK),
    "`cache_control` in a message": user({"type": "text", "text": "Hello", "cache_control": MARK}),
    "`cache_control` of a tool": asked(tools=[{**WEATHER, "cache_control": MARK}]),
    "signature of reasoning sent back": answered(
        {"type": "reasoning", "text": "Hm.", "signature": SIGNATURE, "format": "anthropic"},
        {"type": "reasoning", "text": "Hm.", "encrypted": SIGNATURE, "format": "openai"},
        {"type": "opaque", "format": "gemini.thought_signature", "data": SIGNATURE},
        {"type": "opaque", "format": "gemini_interactions.thought", "data": SIGNATURE},
        {"type": "text", "text": "Yes."},
    ),
}


def outcome(dialect: str, request: dict[str, Any]) -> str:
    """Return what becomes of a feature, by doing it."""
    row = UPSTREAM_FORMATS[dialect]
    parsed = parse_chat_request(json.dumps(request).encode())
    ignored = row.ignored | {*row.quirks().ignored}
    if list_effective(parsed, ignored):
        return "dropped"
    try:
        rendered = row.render_request(parsed, model="m")
    except RequestError:
        return "refused"
    if rendered.changes:
        return "adapted"
    lost = SIGNATURE in json.dumps(request) and SIGNATURE not in json.dumps(rendered.body)
    return "dropped" if lost else "yes"


def render() -> str:
    """Formats and features of the same outcomes share a column or a row; "yes" has no row."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for name in UPSTREAM_FORMATS:
        cells = tuple(outcome(name, request) for request in FEATURES.values())
        columns.setdefault(cells, []).append(f"`{name}`")
    rows: dict[tuple[str, ...], list[str]] = {}
    for feature, cells in zip(FEATURES, zip(*columns, strict=True), strict=True):
        rows.setdefault(cells, []).append(feature)
    common = rows.pop(("yes",) * len(columns))
    lines = [
        f"{HEAD}\nAll formats support: {'; '.join(common)}.\n",
        f"| | {' | '.join(', '.join(names) for names in columns.values())} |",
        "|" + "---|" * (len(columns) + 1),
        *(f"| {'; '.join(names)} | {' | '.join(cells)} |" for cells, names in rows.items()),
    ]
    return "\n".join(lines) + "\n"


def test_the_document_says_what_the_code_does() -> None:
    assert render() == DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
def test_what_is_left_out_is_a_field_and_not_in_the_body(dialect: str) -> None:
    fields = {name for request in FEATURES.values() for name in request if name != "messages"}
    for name in UPSTREAM_FORMATS[dialect].ignored:
        assert name in fields, f"{name} has no row"
        request = next(r for r in FEATURES.values() if name in r)
        parsed = parse_chat_request(json.dumps({**asked(), name: request[name]}).encode())
        plain = parse_chat_request(json.dumps(asked()).encode())
        render_request = UPSTREAM_FORMATS[dialect].render_request

        assert render_request(parsed, model="m").body == render_request(plain, model="m").body


if __name__ == "__main__":
    DOCUMENT.write_text(render(), encoding="utf-8")
