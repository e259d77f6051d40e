"""What we send to Google's Interactions API has no field that Google's own SDK does not know.

The SDK sends a body as it is given, so its types are the judge of ours: it has the fields of the
API as types, and keeps what they lack apart.
"""

import json
from typing import Any

import pytest
from google import genai
from google.genai import types
from google.genai.interactions import CreateModelInteraction
from pydantic import BaseModel

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from tests.dialects.rendering import render
from tests.sdk.conversations import PICTURE, PNG, TURNS, WEATHER, call, image, text
from tests.sdk.recorder import Recorder

MODEL = "gemini-3.8-flash"
DIALECT = "gemini_interactions"


def opaque(format: str, data: str) -> dict[str, Any]:
    return {"type": "opaque", "format": f"{DIALECT}.{format}", "data": data}


SEARCH = {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}}
FOUND = {"type": "google_search_result", "call_id": "s", "result": [{"search_suggestions": "a"}]}
OURS: dict[str, dict[str, Any]] = {
    "signatures": {
        "messages": [
            {"role": "user", "content": "Weather in Kyoto?"},
            {
                "role": "assistant",
                "content": [
                    opaque("thought", "c2lnMQ=="),
                    opaque("step", json.dumps({**SEARCH, "signature": "c2lnMg=="})),
                    opaque("step", json.dumps({**FOUND, "is_error": False})),
                    {"type": "text", "text": "I look it up."},
                ],
                "tool_calls": [
                    {
                        **call("dv8szvqe", "get_weather", '{"city": "Kyoto"}'),
                        "opaque": [{"format": f"{DIALECT}.thought", "data": "c2lnMw=="}],
                    }
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "dv8szvqe",
                "content": [text("rain"), image(f"data:image/png;base64,{PNG}")],
                "is_error": True,
            },
        ],
        "tools": [WEATHER],
        "tool_choice": "none",
        "provider_options": {"tools": [{"type": "google_search"}, {"type": "code_execution"}]},
    },
    "more": {
        "messages": [{"role": "user", "content": [image(PICTURE)]}],
        "seed": 7,
        "store": True,
        "service_tier": "flex",
        "reasoning_summary": "auto",
        "reasoning_effort": "xhigh",
    },
}
ALL = {**TURNS, **OURS}


def unknown(value: object) -> list[object]:
    """All members and variants that the SDK has no type for."""
    if isinstance(value, list):
        return [found for item in value for found in unknown(item)]
    if not isinstance(value, BaseModel):
        return []
    if getattr(value, "is_unknown", False):
        return [value.raw]  # type: ignore[attr-defined]  # each of them has it
    return [*(value.model_extra or {}), *(found for _, inner in value for found in unknown(inner))]


@pytest.mark.parametrize("name", ALL)
def test_the_sdk_knows_all_of_our_body(name: str) -> None:
    body = render(DIALECT, ALL[name], MODEL)
    read = CreateModelInteraction.model_validate(body)

    assert [] == unknown(read)
    assert body == read.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_the_sdk_knows_no_other_fields() -> None:
    body = render(DIALECT, TURNS["sampling"], MODEL)
    body["input"].append({"type": "user", "content": []})
    body["generation_config"]["top_k"] = 3
    body["input"][0]["role"] = "user"

    found = unknown(CreateModelInteraction.model_validate(body))
    assert {"role", "top_k"} == {name for name in found if isinstance(name, str)}
    assert body["input"][-1] in found


def test_the_sdk_calls_the_same_path(recorder: Recorder) -> None:
    body = render(DIALECT, TURNS["one-turn"], MODEL)
    options = types.HttpOptions(base_url=recorder.url, api_version="v1beta")
    with genai.Client(api_key="k", http_options=options) as client:
        theirs = recorder.record(lambda: client.interactions.create(**body))

    assert (body, "k") == (theirs.body, theirs.headers["x-goog-api-key"])
    assert f"/v1beta/{UPSTREAM_FORMATS[DIALECT].path}" == theirs.path
