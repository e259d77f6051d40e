"""The table of what reaches the providers of each dialect: made from the code, the same in the docs.

`python -m tests.dialects.test_carried_requests` writes it anew into the document.
"""

import json
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RequestError
from app.settings.load import load_settings
from app.upstreams.endpoints import Upstream
from app.upstreams.request_builder import RequestBuilder

pytestmark = pytest.mark.pure

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients" / "README.md"
BEGIN, END = "<!-- carried requests: begin -->", "<!-- carried requests: end -->"
MARK = "MARKMARK"
UPSTREAMS: Final = (
    *("openai_chat", "openai_responses", "anthropic", "bedrock_converse", "gemini", "cohere"),
    "ollama",
)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
PDF = "data:application/pdf;base64,AAAA"


def user(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*parts] or "Hi", **fields}


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [*(messages or (user(),))], **fields}


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": SCHEMA, **fields}}


def responses(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": [user(), *items], **fields}


def messages(*turns: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [*(turns or (user(),))], **fields}


def text(**fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": "a", **fields}


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": f'{{"a": "{MARK}"}}'}}
TOOL = {"name": "f", "input_schema": SCHEMA}
CUSTOM = {
    "name": "g",
    "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": MARK}},
}
FEATURES: dict[str, dict[str, dict[str, Any]]] = {
    "openai_chat": {
        "texts of all roles": chat(user(text(text=MARK))),
        "a tool and its description": chat(tools=[function(description=MARK)]),
        "arguments of a call": chat(user(), {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c", "content": "r"}),
        "grammar of a custom tool": chat(tools=[{"type": "custom", "custom": CUSTOM}]),
        "`prompt_cache_breakpoint`": chat(user(text(prompt_cache_breakpoint={"mode": MARK}))),
        "unknown members of messages": chat(user(novel=MARK)),
        "unknown members of parts": chat(user(text(novel=MARK))),
        "unknown members of tools": chat(tools=[{**function(), "novel": MARK}]),
        "unknown members of calls": chat(user(), {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{}"}, "novel": MARK}]}, {"role": "tool", "tool_call_id": "c", "content": "r"}),
        "unknown fields": chat(novel=MARK),
        "`audio.id` of an answer": chat(user(), {"role": "assistant", "audio": {"id": MARK}}, user()),
        "`stop`": chat(stop=[MARK]),
        "`user`": chat(user=MARK),
        "`metadata`": chat(metadata={"a": MARK}),
        "`prompt_cache_key`": chat(prompt_cache_key=MARK),
        "`logit_bias`": chat(logit_bias={"471147": 1}),
        "`prediction`": chat(prediction={"type": "content", "content": MARK}),
        "`seed`": chat(seed=471147),
        "`verbosity`": chat(verbosity=MARK),
        "file in base64": chat(user({"type": "file", "file": {"file_data": f"{PDF}{MARK}", "filename": "a.pdf"}})),
    },
    "openai_responses": {
        "texts of all roles": responses({"role": "developer", "content": MARK}),
        "a tool and its description": responses(tools=[{"type": "function", "name": "f", "parameters": SCHEMA, "description": MARK}]),
        "grammar of a custom tool": responses(tools=[{"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "lark", "definition": MARK}}]),
        "`prompt_cache_breakpoint`": responses(user({"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": MARK}})),
        "unknown members of items": responses(user(novel=MARK)),
        "unknown members of tools": responses(tools=[{"type": "function", "name": "f", "parameters": SCHEMA, "novel": MARK}]),
        "unknown items": responses({"type": "novel", "a": MARK}),
        "unknown fields": responses(novel=MARK),
        "a hosted tool": responses(tools=[{"type": "novel", "a": MARK}]),
        "`metadata`": responses(metadata={"a": MARK}),
        "`prompt_cache_key`": responses(prompt_cache_key=MARK),
        "`text.verbosity`": responses(text={"verbosity": MARK}),
        "a stored conversation": responses(conversation=MARK),
    },
    "anthropic": {
        "texts of all roles": messages(system=MARK),
        "a tool and its description": messages(tools=[{**TOOL, "description": MARK}]),
        "`input_examples` of a tool": messages(tools=[{**TOOL, "input_examples": [{"a": MARK}]}]),
        "`defer_loading` and unknown members of tools": messages(tools=[{**TOOL, "defer_loading": MARK}]),
        "unknown members of messages": messages(user(novel=MARK)),
        "unknown members of blocks": messages(user(text(novel=MARK))),
        "unknown blocks": messages(user({"type": "novel", "text": MARK})),
        "unknown fields": messages(novel=MARK),
        "a hosted tool": messages(tools=[{"type": "novel_20990101", "name": MARK}]),
        "`context_management`": messages(context_management={"edits": [{"type": MARK}]}),
        "`compaction`": messages(compaction={"type": MARK}),
        "`anthropic-beta`, `anthropic-version`": messages(),
        "`top_k`": messages(top_k=471147),
        "`metadata.user_id`": messages(metadata={"user_id": MARK}),
        "`stop_sequences`": messages(stop_sequences=[MARK]),
        "document in base64": messages(user(text(), {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": f"AAAA{MARK}"}})),
    },
}  # fmt: skip
"""By client: requests with a mark."""


@cache
def upstreams() -> dict[str, Upstream]:
    rows = [
        f'[upstream.{dialect}]\nbase_url = "http://127.0.0.1:9/v1"\nauth = "none"\n'
        f'dialect = "{dialect}"\n'
        for dialect in UPSTREAMS
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write("".join(rows))
        file.flush()
        loaded = load_settings({"SESERAGI_CONFIG": file.name})
    return {one.name: one for one in loaded.upstreams}


def outcome(client: str, feature: str, dialect: str) -> str:
    """Return what becomes of the mark: it arrives, a notice names its loss, or it is refused."""
    body = json.dumps(FEATURES[client][feature]).encode()
    of_headers = feature.startswith("`anthropic-")
    headers = {"betas": MARK, "version": MARK} if of_headers else {}
    try:
        asked = CLIENT_FORMATS[client].parse_request(body, **headers).chat
        sent = RequestBuilder(upstreams()[dialect], "m").build(asked, last=True)
    except RequestError:
        return "refused"
    text = json.dumps([sent.body, dict(sent.headers)])
    if MARK in text or "471147" in text:
        return "yes"
    return "notice" if sent.notices else ""


def render() -> str:
    """Dialects and features with the same outcomes share a column or a row; "yes" has no row."""
    lines = []
    for client, features in FEATURES.items():
        outcomes = {
            feature: [outcome(client, feature, dialect) for dialect in UPSTREAMS]
            for feature in features
        }
        everywhere = [name for name, cells in outcomes.items() if {*cells} == {"yes"}]
        partly = {name: cells for name, cells in outcomes.items() if name not in everywhere}
        columns = joined(zip(UPSTREAMS, zip(*partly.values(), strict=True), strict=True), "`{}`")
        rows = joined(zip(partly, zip(*columns.values(), strict=True), strict=True), "{}")
        lines += ["", f"Every provider receives from `{client}`: {', '.join(everywhere)}."]
        lines += ["", f"| `{client}` | {' | '.join(columns)} |", "|" + "---|" * (len(columns) + 1)]
        lines += [f"| {names} | {' | '.join(cells)} |" for names, cells in rows.items()]
    return "\n".join(lines).strip()


def joined(named: Iterable[tuple[str, tuple[str, ...]]], form: str) -> dict[str, tuple[str, ...]]:
    """Join the names of equal cells, in the order of the first ones."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, cells in named:
        names.setdefault(cells, []).append(form.format(name))
    return {", ".join(alike): cells for cells, alike in names.items()}


def test_the_document_says_what_the_code_does() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")

    assert render() == document.split(BEGIN)[1].split(END)[0].strip()


@pytest.mark.parametrize("client", FEATURES)
def test_a_provider_of_the_same_dialect_receives_everything(client: str) -> None:
    lost = [name for name in FEATURES[client] if outcome(client, name, client) != "yes"]

    assert {
        "openai_chat": [],  # a grammar in the description, unless the host has custom tools
        "openai_responses": ["a stored conversation"],  # the relay's own
        "anthropic": [],
    }[client] == lost


@pytest.mark.parametrize("client", FEATURES)
def test_nothing_is_dropped_in_silence(client: str) -> None:
    silent = [
        f"{name} at {dialect}"
        for name in FEATURES[client]
        for dialect in UPSTREAMS
        if not outcome(client, name, dialect) and not name.startswith("`anthropic-")
    ]

    assert [] == silent  # headers alone: they are about Anthropic's API


if __name__ == "__main__":
    page = DOCUMENT.read_text(encoding="utf-8")
    head, tail = page.split(BEGIN)[0], page.split(END)[1]
    DOCUMENT.write_text(f"{head}{BEGIN}\n{render()}\n{END}{tail}", encoding="utf-8")
