"""The conversations that every dialect has to be able to ask, as `POST /v1/chat` takes them.

A dialect's test says the same to the provider's own SDK, in that SDK's words, and compares
what the SDK sends with what we send.
"""

import json
from typing import Any

from app.requests import ChatRequest, parse_chat_request

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjEKJSVFT0YK"
PICTURE = "https://example.com/cat.png"

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NO_PARAMETERS = {"type": "object", "properties": {}}
TELLS_WEATHER = {"name": "get_weather", "description": "Tell the weather of a city."}
TELLS_TIME = {"name": "now", "description": "Tell the time."}
WEATHER = {"type": "function", "function": {**TELLS_WEATHER, "parameters": PARAMETERS}}
NOW = {"type": "function", "function": TELLS_TIME}
CITY = {**PARAMETERS, "additionalProperties": False}


def request_of(body: dict[str, Any]) -> ChatRequest:
    return parse_chat_request(json.dumps(body).encode())


def call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


PAPER = {"filename": "paper.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
KYOTO = [{"role": "user", "content": "Weather in Kyoto?"}]
AS_JSON = [{"role": "user", "content": "A city, as JSON."}]

TURNS: dict[str, dict[str, Any]] = {
    "one-turn": {"messages": [{"role": "user", "content": "こんにちは"}]},
    "system-and-history": {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Answer in English."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi."},
            user(text("How are you?")),
        ]
    },
    "sampling": {
        "messages": [{"role": "user", "content": "Hello"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 100,
        "stop": ["END", "###"],
    },
    "image-inline": {
        "messages": [user(text("What is this?"), image(f"data:image/png;base64,{PNG}"))]
    },
    "image-by-url": {"messages": [user(image(PICTURE), text("What is this?"))]},
    "file-inline": {"messages": [user({"type": "file", "file": PAPER}, text("Sum it up."))]},
    "tools": {"messages": KYOTO, "tools": [WEATHER, NOW], "tool_choice": "auto"},
    "tool-required": {"messages": KYOTO, "tools": [WEATHER], "tool_choice": "required"},
    "tool-by-name": {
        "messages": KYOTO,
        "tools": [WEATHER, NOW],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    },
    "tool-results": {
        "messages": [
            {"role": "user", "content": "Weather in Kyoto and Nara?"},
            {
                "role": "assistant",
                "content": "I look it up.",
                "tool_calls": [
                    call("call_1", "get_weather", '{"city": "Kyoto"}'),
                    call("call_2", "get_weather", '{"city": "Nara"}'),
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "call_2", "content": "rain"},
            {"role": "user", "content": "And now?"},
            {"role": "assistant", "tool_calls": [call("call_3", "now", "")]},
            {"role": "tool", "tool_call_id": "call_3", "content": '{"time": "12:00"}'},
        ],
        "tools": [WEATHER, NOW],
    },
    "json-object": {"messages": AS_JSON, "response_format": {"type": "json_object"}},
    "json-schema": {
        "messages": AS_JSON,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "city", "schema": CITY, "strict": True},
        },
    },
    "effort": {
        "messages": [{"role": "user", "content": "Think."}],
        "reasoning_effort": "low",
        "max_tokens": 4000,
    },
}
"""Reasoning that goes back is each dialect's own matter: what proves it is."""
