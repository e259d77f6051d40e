"""What clients may set of a provider's own: fields, and the URLs that it reads."""

import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import DONE, FINISH, Upstream, head, send, serve_upstream, text
from tests.dialects.openai_responses import own_items
from tests.serving import HELLO, Relay, serve_relay

ANSWER = [head(), send(text("a") + FINISH + DONE)]
ROUTE = '[[route]]\nname = "r"\ntargets = ["u/m"]\n'


@contextlib.asynccontextmanager
async def configured(
    folder: Path, *lines: str, dialect: str = "openai_chat", routes: str = ROUTE, **settings: Any
) -> AsyncIterator[tuple[Relay, Upstream]]:
    """Serve a relay with one upstream `u`, whose table has these lines too."""
    async with serve_upstream() as upstream:
        upstream.script = ANSWER
        base_url = upstream.base_url.removesuffix("/v1")
        table = [f'[upstream.u]\nbase_url = "{base_url}"\ndialect = "{dialect}"', *lines, routes]
        config = folder / "seseragi.toml"
        config.write_text("\n".join(table))
        environ = {"SESERAGI_CONFIG": str(config)}
        async with serve_relay(environ=environ, **settings) as relay:
            yield relay, upstream


async def ask(relay: Relay, options: dict[str, Any], **fields: Any) -> Any:
    body = {**HELLO, "model": "r", "provider_options": options, **fields}
    return await relay.client.post("/v1/chat", json=body)


CHAT: dict[str, Any] = {
    "model": "gpt-9",
    "Stream": False,
    "models": ["gpt-9"],
    "provider": {"order": ["elsewhere"]},
    "api_base": "http://127.0.0.1:1",
    "previous_response_id": "resp_1",
    "mcp_servers": [{"url": "http://x"}],
    "container": "c_1",
    "service_tier": "priority",
    "web_search_options": {},  # which searches, as it likes
    "tools": [{"type": "mcp", "server_url": "http://x"}],
    "n": 128,
    "not_known": 1,
}
FUNCTION: dict[str, Any] = {"function": {"name": "f"}}
REFUSED = [
    *(("openai_chat", {name: value}, name) for name, value in CHAT.items()),
    ("openai_chat", {"tools": [FUNCTION, {"google_search": {}}]}, "tools.untyped"),
    ("openai_responses", {"tools": [{"type": "file_search"}]}, "tools.file_search"),
    ("anthropic", {"fallbacks": [{"model": "x"}]}, "fallbacks"),
    ("anthropic", {"tools": [{"name": "web_search_20260318"}]}, "tools.untyped"),
    ("gemini", {"model": "gemini-9"}, "model"),
    ("gemini", {"cachedContent": "c"}, "cachedContent"),
    ("gemini", {"tools": [{"googleSearch": {}}]}, "tools.googleSearch"),
    ("gemini", {"tools": [{"type": "function", "retrieval": {}}]}, "tools.type"),
    ("gemini", {"generationConfig": {"candidateCount": 8}}, "generationConfig.candidateCount"),
    ("gemini_interactions", {"agent": "a"}, "agent"),
    ("gemini_interactions", {"previous_interaction_id": "v1_a"}, "previous_interaction_id"),
    ("gemini_interactions", {"tools": [{"type": "mcp_server"}]}, "tools.mcp_server"),
    ("gemini_interactions", {"response_format": [{"type": "video"}]}, "response_format.video"),
    ("bedrock_converse", {"modelId": "m"}, "modelId"),
    (
        "bedrock_converse",
        {"additionalModelRequestFields": {"thinking": {}, "mcp_servers": []}},
        "additionalModelRequestFields.mcp_servers",
    ),
    ("cohere", {"priority": 0}, "priority"),
    ("ollama", {"options": {"top_k": 1, "num_gpu": 9}}, "options.num_gpu"),
]


@pytest.mark.parametrize(
    ("dialect", "options", "path"), REFUSED, ids=[f"{row[0]}-{row[2]}" for row in REFUSED]
)
async def test_where_there_are_routes_other_options_than_the_safe_are_refused(
    dialect: str, options: dict[str, Any], path: str, tmp_path: Path
) -> None:
    async with configured(tmp_path, dialect=dialect) as (relay, upstream):
        reply = await ask(relay, options)

        assert (400, "invalid_request") == (reply.status_code, reply.json()["code"])
        assert reply.json()["detail"].startswith(f"provider_options.{path}")
        if path.lower() not in ("model", "modelid", "stream"):
            assert "upstream 'u'" in reply.json()["detail"]
            assert "options of [upstream.u]" in reply.json()["detail"]
        assert [] == upstream.calls


SAFE: list[tuple[str, dict[str, Any]]] = [
    ("openai_chat", {"top_k": 3, "min_p": 0.1, "repetition_penalty": 1.1}),
    ("openai_chat", {"tools": [{"type": "function", **FUNCTION}, FUNCTION]}),
    ("openai_chat", {"stream_options": {"include_obfuscation": False}}),
    ("openai_responses", {"text": {"verbosity": "low"}, "truncation": "auto"}),
    ("anthropic", {"top_k": 3, "thinking": {"type": "adaptive"}}),
    ("gemini", {"generationConfig": {"topK": 3, "thinking_config": {"includeThoughts": True}}}),
    ("gemini_interactions", {"generation_config": {"thinking_level": "low"}}),
    ("gemini_interactions", {"response_format": [{"type": "text"}, {"type": "image"}]}),
    ("bedrock_converse", {"additionalModelRequestFields": {"thinking": {}, "top_k": 3}}),
    ("cohere", {"k": 3, "safety_mode": "OFF"}),
    ("ollama", {"think": True, "options": {"top_k": 3}}),
]


@pytest.mark.parametrize(("dialect", "options"), SAFE)
async def test_what_shapes_the_answer_is_passed_on(
    dialect: str, options: dict[str, Any], tmp_path: Path
) -> None:
    async with configured(tmp_path, dialect=dialect) as (relay, upstream):
        await ask(relay, options)

        (call,) = upstream.calls
        assert options.keys() <= call.json.keys()


@pytest.mark.parametrize(
    ("dialect", "path", "body", "sent"),
    [
        ("openai_chat", "/v1/chat", {}, 2000),
        ("openai_chat", "/v1/chat", {"max_tokens": 3000}, 2000),
        ("openai_chat", "/v1/chat", {"max_tokens": 30}, 30),
        ("openai_responses", "/v1/responses", {"input": "hello"}, 2000),
        ("anthropic", "/v1/chat", {}, 2000),
    ],
)
async def test_no_limit_is_made_up_that_the_models_cannot_give(
    dialect: str, path: str, body: dict[str, Any], sent: int, tmp_path: Path
) -> None:
    lines = "max_output_tokens = 2000"
    routes = f'{ROUTE}\n[limits]\nusd_per_day = 1\n[[price]]\ntarget = "u/*"\ninput = 1\noutput = 1'
    async with configured(tmp_path, lines, dialect=dialect, routes=routes) as (relay, upstream):
        asked = {"model": "r", **(body if "input" in body else {**HELLO, **body})}
        await relay.client.post(path, json=asked)

        [call] = upstream.calls
        names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        assert [sent] == [call.json[name] for name in names if name in call.json]


async def test_options_of_the_settings_are_the_list(tmp_path: Path) -> None:
    line = 'options = ["safe", "service_tier", "provider.sort", "web_*"]'
    async with configured(tmp_path, line) as (relay, upstream):
        allowed = {"service_tier": "flex", "provider": {"sort": "price"}, "web_search_options": {}}
        given: list[dict[str, Any]] = [{"top_k": 3}, {**allowed, "top_k": 3}]
        for options in given:
            assert 200 == (await ask(relay, options)).status_code
        given = [{"provider": {"sort": "price", "only": ["x"]}}, {"models": ["x"]}]
        for options in given:
            assert 400 == (await ask(relay, options)).status_code

        assert allowed.items() <= upstream.calls[1].json.items()
        assert 2 == len(upstream.calls)


@pytest.mark.parametrize("dialect", ["openai_chat", "gemini", "bedrock_converse"])
@pytest.mark.sends_refused
async def test_even_any_option_is_not_the_model_or_the_stream(dialect: str, tmp_path: Path) -> None:
    async with configured(tmp_path, 'options = ["*"]', dialect=dialect) as (relay, upstream):
        assert 400 == (await ask(relay, {"model": "x"})).status_code
        assert 400 == (await ask(relay, {"stream": False})).status_code
        await ask(relay, {"models": ["x"]})

        assert 1 == len(upstream.calls)


async def test_a_relay_for_any_model_takes_any_option_but_those_that_reach_beyond(
    tmp_path: Path,
) -> None:
    async with configured(tmp_path, routes="") as (relay, upstream):
        for name in ("api_base", "models", "mcp_servers", "service_tier", "previous_response_id"):
            reply = await ask(relay, {name: "x"}, model="u/m")
            assert (400, True) == (reply.status_code, name in reply.json()["detail"])
        reply = await ask(relay, {}, model="u/m", **asks(part("id", "file-1")))
        assert (400, True) == (
            reply.status_code,
            "add 'file_id' to options" in reply.json()["detail"],
        )
        await ask(relay, {"not_known": 1}, model="u/m")

        assert 1 == upstream.calls[0].json["not_known"]


async def test_without_passthrough_an_upstream_is_as_strict_as_with_routes(tmp_path: Path) -> None:
    line = 'models = ["m"]'
    async with configured(tmp_path, line, passthrough=False) as (relay, upstream):
        assert 400 == (await ask(relay, {"not_known": 1})).status_code
        assert [] == upstream.calls


async def test_what_one_target_refuses_the_next_may_take(tmp_path: Path) -> None:
    async with serve_upstream() as other:
        other.script = ANSWER
        routes = (
            f'[upstream.o]\nbase_url = "{other.base_url}"\noptions = ["service_tier"]\n'
            '[[route]]\nname = "r"\ntargets = ["u/m", "o/m"]\n'
        )
        async with configured(tmp_path, routes=routes) as (relay, upstream):
            for _ in range(5):
                assert 200 == (await ask(relay, {"service_tier": "flex"})).status_code
            assert [] == upstream.calls
            assert 5 == len(other.calls)

            assert 200 == (await ask(relay, {})).status_code
            assert 1 == len(upstream.calls)  # it has not failed


MESSAGES: dict[str, Any] = {
    "model": "r",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi"}],
}
CUSTOM = {"name": "f", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"tools": [CUSTOM, {"type": "web_search_20260318"}]}, "tools.web_search_20260318"),
        ({"tools": [CUSTOM, {**CUSTOM, "google_search": {}}]}, "tools.untyped"),
    ],
)
async def test_the_list_holds_for_a_request_in_the_upstreams_own_words(
    fields: dict[str, Any], path: str, tmp_path: Path
) -> None:
    async with configured(tmp_path, dialect="anthropic") as (relay, upstream):
        reply = await relay.client.post("/v1/messages", json={**MESSAGES, **fields})

        assert 400 == reply.status_code
        assert reply.json()["error"]["message"].startswith(f"{path}: upstream 'u'")
        assert [] == upstream.calls


async def test_what_changes_nothing_of_the_answer_is_left_out_and_told(tmp_path: Path) -> None:
    fields = {
        **{"service_tier": "auto", "speed": "fast", "fallbacks": [{"model": "x"}]},
        **{"tools": [CUSTOM, {"type": "bash_20250124", "name": "bash"}], "top_k": 3},
        **{"mcp_servers": [], "cache_control": {"type": "ephemeral"}, "novel": 1},
    }
    async with configured(tmp_path, dialect="anthropic") as (relay, upstream):
        upstream.script = [
            head(),
            send('data: {"type":"message_start","message":{"id":"m"}}\n\n'),
            send('data: {"type":"content_block_start","index":0,"content_block":'),
            send('{"type":"text","text":"a"}}\n\ndata: {"type":"message_stop"}\n\n'),
        ]
        reply = await relay.client.post("/v1/messages", json={**MESSAGES, **fields})
        stream = reply.headers["stream-id"]
        events = (await relay.client.get(f"/v1/streams/{stream}/events")).text

        sent = upstream.calls[0].json
        assert {"tools", "top_k", "cache_control"} <= sent.keys()
        assert not {"service_tier", "speed", "fallbacks", "novel"} & sent.keys()
        assert "does not allow fallbacks, novel, service_tier, speed from clients" in events


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
@pytest.mark.parametrize("dialect", ["openai_responses", "openai_chat"])
@pytest.mark.parametrize("allowed", [False, True])
async def test_the_provider_keeps_no_answer_that_it_is_not_set_to_keep(
    dialect: str, path: str, allowed: bool, tmp_path: Path
) -> None:
    lines = ['options = ["safe", "store"]'] if allowed else []
    async with configured(tmp_path, *lines, dialect=dialect) as (relay, upstream):
        if dialect == "openai_responses":
            delta = {"type": "response.output_text.delta", "delta": "a"}
            upstream.script = [head(), send(f"data: {json.dumps(delta)}\n\n")]
        body = {"model": "r", "store": True}
        body |= {"input": "Hi"} if path == "/v1/responses" else HELLO
        reply = await relay.client.post(path, json=body)
        stream = reply.headers["stream-id"]
        events = (await relay.client.get(f"/v1/streams/{stream}/events")).text

        # Responses are kept unless the request says otherwise, Chat Completions are not.
        kept = False if dialect == "openai_responses" else None
        assert (True if allowed else kept) is upstream.calls[0].json.get("store")
        assert allowed != (
            "does not allow store from clients (setting `options`): dropped" in events
        )


def part(kind: str, url: str) -> dict[str, Any]:
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"file_id" if kind == "id" else "file_data": url}}


FOREIGN = ["gs://bucket/a.png", "s3://bucket/a.png", "http://169.254.169.254/a.png"]
ODD = ["GS://b/a.png", " gs://b/a.png", "g\ns://b/a.png", "file:///etc/passwd", "ftp://h/a.png"]


@pytest.mark.parametrize("url", [*FOREIGN, *ODD])
@pytest.mark.parametrize(
    "dialect", ["openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
async def test_only_urls_of_the_schemes_of_the_settings_are_sent(
    dialect: str, url: str, tmp_path: Path
) -> None:
    async with configured(tmp_path, dialect=dialect) as (relay, upstream):
        for kind in ("image", "file", "id"):
            message = {"role": "user", "content": [part(kind, url)]}
            reply = await ask(relay, {}, messages=[message])
            assert 400 == reply.status_code, kind
        assert [] == upstream.calls


@pytest.mark.parametrize(
    ("dialect", "options"),
    [
        ("openai_chat", {"messages": [{"role": "user", "content": [part("image", FOREIGN[0])]}]}),
        (
            "openai_responses",
            {"input": [{"content": [{"type": "input_file", "file_url": FOREIGN[0]}]}]},
        ),
        ("gemini", {"contents": [{"parts": [{"file_data": {"file_uri": FOREIGN[0]}}]}]}),
        ("gemini", {"systemInstruction": {"parts": [{"fileData": {"fileUri": FOREIGN[0]}}]}}),
        (
            "gemini_interactions",
            {"input": [{"content": [{"type": "image", "uri": FOREIGN[0]}]}]},
        ),
        (
            "bedrock_converse",
            {"messages": [{"content": [{"video": {"source": {"s3Location": {"uri": "s3://b"}}}}]}]},
        ),
    ],
)
async def test_nor_are_those_in_options(
    dialect: str, options: dict[str, Any], tmp_path: Path
) -> None:
    async with configured(tmp_path, 'options = ["*"]', dialect=dialect) as (relay, upstream):
        reply = await ask(relay, options)

        assert 400 == reply.status_code
        assert "url_schemes" in reply.json()["detail"]
        assert [] == upstream.calls


async def test_nor_are_those_in_a_request_in_the_upstreams_own_words(tmp_path: Path) -> None:
    async with configured(tmp_path, dialect="anthropic") as (relay, upstream):
        for url in FOREIGN:
            source = {"type": "url", "url": url}
            image = {"type": "image", "source": source}
            result = {"type": "tool_result", "tool_use_id": "t", "content": [image]}
            call = {"type": "tool_use", "id": "t", "name": "f", "input": {"url": url, "image": url}}
            turns = [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result]},
            ]
            body = {**MESSAGES, "messages": turns}
            reply = await relay.client.post("/v1/messages", json=body)
            assert 400 == reply.status_code
            assert reply.json()["error"]["message"].startswith("url: upstream 'u' does not allow")

            # What a tool was asked and has said is nothing that anybody reads.
            result["content"] = [{"type": "text", "text": url}]
            await relay.client.post("/v1/messages", json=body)
        assert 3 == len(upstream.calls)


async def test_the_settings_say_which_schemes(tmp_path: Path) -> None:
    line = 'url_schemes = ["gs", "http"]'
    async with configured(tmp_path, line, dialect="gemini") as (relay, upstream):
        for url, status in zip([*FOREIGN, "https://h/a.png"], (200, 400, 200, 400), strict=True):
            message = {"role": "user", "content": [part("image", url)]}
            reply = await ask(relay, {}, messages=[message])
            assert status == (400 if reply.status_code == 400 else 200), url
        assert FOREIGN[0] in json.dumps(upstream.calls[0].json)
    async with configured(tmp_path, url_schemes="http,data") as (relay, _):
        for url, status in zip([*FOREIGN, "https://h/a.png"], (400, 400, 200, 400), strict=True):
            message = {"role": "user", "content": [part("image", url)]}
            assert status == (await ask(relay, {}, messages=[message])).status_code, url


def asks(*content: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*content]}]}


GEMINIS = "https://generativelanguage.googleapis.com/v1beta/files/abc"
FILE = {"type": "file", "file_id": "file-1"}
STORED: list[tuple[str, str, dict[str, Any], str]] = [
    ("openai_chat", "/v1/chat", asks(part("id", "file-1")), "file_id"),
    ("openai_responses", "/v1/chat", asks(part("id", "file-1")), "file_id"),
    ("anthropic", "/v1/chat", asks(part("id", "file_1")), "file_id"),
    ("gemini", "/v1/chat", asks(part("id", GEMINIS)), "fileUri"),
    ("gemini_interactions", "/v1/chat", asks(part("id", GEMINIS)), "uri"),
    ("openai_responses", "/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]}, "file_id"),
    ("openai_responses", "/v1/responses", {"input": "Hi", "tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, "container"),
    ("openai_responses", "/v1/responses", {"input": "Hi", "tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}}]}, "file_ids"),
    ("openai_responses", "/v1/responses", {"input": "Hi", "tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}, "vector_store_ids"),
    ("anthropic", "/v1/messages", {"max_tokens": 9, **asks({"type": "document", "source": FILE})}, "file_id"),
    ("anthropic", "/v1/messages", {"max_tokens": 9, **asks({"type": "container_upload", "file_id": "file_1"})}, "file_id"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "path", "body", "field"), STORED)
async def test_what_the_provider_stores_is_named_only_where_that_is_allowed(
    dialect: str, path: str, body: dict[str, Any], field: str, tmp_path: Path
) -> None:
    tools = '"safe", "tools.file_search", "tools.code_interpreter"'
    for options, allowed in ((tools, False), (f'{tools}, "{field}"', True)):
        line = f"options = [{options}]"
        async with configured(tmp_path, line, dialect=dialect) as (relay, upstream):
            reply = await relay.client.post(path, json={"model": "r", **body})

            assert allowed == bool(upstream.calls)
            assert allowed or 400 == reply.status_code
            assert allowed or f"{field}: upstream 'u'" in reply.text
            assert allowed or f"add {field!r} to options of [upstream.u]" in reply.text


RUN = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1", "code": "1"}
HELD = {"type": "container_reference", "container_id": "cntr_1"}
SHELL = {"type": "shell_call", "id": "s_1", "call_id": "c", "action": {}, "environment": HELD}
LISTED = {"type": "shell_call_output", "id": "o_1", "call_id": "c", "output": []}


@pytest.mark.sends_refused
async def test_calls_of_a_provider_are_left_out_where_what_they_read_is_not_allowed(
    tmp_path: Path,
) -> None:
    """The client has them from an earlier answer, and the model continues without them."""
    asked = {"role": "user", "content": "Hi"}
    for names, kept in (('"safe"', [asked]), ('"container_id"', [RUN, SHELL, LISTED, asked])):
        line = f"options = [{names}]"
        async with configured(tmp_path, line, dialect="openai_responses") as (relay, upstream):
            upstream.script = [head(), send(own_items.body(own_items.text("Tea.")))]
            request = {"model": "r", "input": [RUN, SHELL, LISTED, asked]}
            reply = await relay.client.post("/v1/responses", json=request)
            stream = reply.headers["stream-id"]
            events = (await relay.client.get(f"/v1/streams/{stream}/events")).text

            assert kept == upstream.calls[0].json["input"]
            assert ("input.code_interpreter_call" in events) == (kept == [asked])


CITED = {"type": "file_citation", "file_id": "file-1", "index": 1, "filename": "a.pdf"}
SAID = {"type": "output_text", "text": "a", "annotations": [CITED]}
NAMES = {"type": "object", "properties": {"file_id": {"type": "string"}}, "examples": [FILE]}


@pytest.mark.parametrize(
    ("dialect", "path", "body"),
    [
        (
            "openai_responses",
            "/v1/responses",
            {"input": [{"role": "assistant", "content": [SAID]}]},
        ),
        (
            "openai_responses",
            "/v1/responses",
            {"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": NAMES}]},
        ),
        ("anthropic", "/v1/messages", {**MESSAGES, "tools": [{**CUSTOM, "input_schema": NAMES}]}),
        ("gemini", "/v1/chat", asks(part("image", "https://h/generative/a.png"))),
    ],
)
async def test_what_only_speaks_of_files_is_passed_on(
    dialect: str, path: str, body: dict[str, Any], tmp_path: Path
) -> None:
    async with configured(tmp_path, dialect=dialect) as (relay, upstream):
        await relay.client.post(path, json={"model": "r", **body})

        assert 1 == len(upstream.calls)


# Smuggled past the list: spelt, doubled, nested


def pairs(*fields: tuple[str, Any]) -> str:
    """Write an object that may have a name twice."""
    return f"{{{', '.join(f'{json.dumps(name)}: {raw(value)}' for name, value in fields)}}}"


def raw(value: Any) -> str:
    return value if isinstance(value, str) and value[:1] in "{[" else json.dumps(value)


SPELLINGS = [
    *("Service_Tier", "SERVICE-TIER", "serviceTier", "s-e_r-v_icetier"),
    *("\u017fervice_tier", "api_\u212aey", "API-KEY", "\u017fTREAM", "Model", "mo_del"),
]
"""Some decoders ignore case; Go's also takes U+017F for "s" and U+212A for "k"."""


@pytest.mark.parametrize("routes", [ROUTE, ""], ids=["routes", "any model"])
@pytest.mark.parametrize("name", SPELLINGS)
async def test_refused_option_is_refused_in_every_spelling(
    name: str, routes: str, tmp_path: Path
) -> None:
    model = "r" if routes else "u/m"
    async with configured(tmp_path, routes=routes) as (relay, upstream):
        replies = [
            await ask(relay, {name: "x"}, model=model),
            await relay.client.post(
                "/v1/chat/completions", json={**HELLO, "model": model, name: "x"}
            ),
        ]

        assert 400 == replies[0].status_code
        assert not [call for call in upstream.calls if name in call.json]
        assert all(call.json["model"] == "m" for call in upstream.calls)


EVIL = {"order": ["evil"]}
DOUBLED = [
    pairs(("provider_options", {"top_k": 1}), ("provider_options", {"provider": EVIL})),
    pairs(("provider_options", {"provider": EVIL}), ("provider_options", {"top_k": 1})),
    *(
        pairs(("provider_options", options))
        for options in (
            pairs(("provider", EVIL), ("provider", {"sort": "p"})),
            pairs(("provider", {"sort": "p"}), ("provider", EVIL)),
            pairs(("provider", EVIL), ("provider", None)),
            pairs(("provider", pairs(("order", ["evil"]), ("order", [])))),
            pairs(("provider", pairs(("a", pairs(("order", 1))), ("a", {"b": 1})))),
            pairs(("stream", False), ("stream", None)),
            pairs(("model", "evil"), ("model", None)),
            pairs(("tools", [[{"type": "mcp", "server_url": "evil"}]])),
            pairs(("tools", {"0": {"type": "mcp", "server_url": "evil"}})),
            pairs(("tools", f"[{pairs(('type', 'mcp'), ('type', 'other'), ('url', 'evil'))}]")),
            pairs(("provider", [EVIL])),
            pairs(("provider", [[EVIL]])),
            pairs(("provider_options", {"provider": EVIL})),
            pairs(("extra_body", {"provider": EVIL})),
        )
    ),
    pairs(("model", "evil"), ("model", "r")),
    pairs(("provider", EVIL), ("provider", {"sort": "p"})),
    pairs(("provider", pairs(("a", EVIL), ("a", {"b": 1})))),
]


@pytest.mark.parametrize("body", DOUBLED)
@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/completions"])
async def test_what_a_route_denies_is_not_smuggled_by_doubled_or_nested_names(
    path: str, body: str, tmp_path: Path
) -> None:
    line = 'options = ["safe", "provider.sort", "provider.a.b"]'
    async with configured(tmp_path, line) as (relay, upstream):
        whole = json.dumps({**HELLO, "model": "r"})[:-1] + ", " + body[1:]
        await relay.client.post(path, content=whole, headers={"content-type": "application/json"})
        for call in upstream.calls:
            assert "evil" not in call.body.decode()
            assert not re.search(r'"order"|"mcp"|"server_url"', call.body.decode())
            assert ("m", True) == (call.json["model"], call.json["stream"])


@pytest.mark.parametrize(
    ("path", "fields"),
    [("images/generations", {"prompt": "x"}), ("rerank", {"query": "x", "documents": ["x"]})],
)
async def test_a_forwarded_body_is_sent_as_it_was_checked(
    path: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    """One parser takes the first of two equal names, and another the last."""
    line = 'options = ["provider.a.b"]'
    async with configured(tmp_path, line) as (relay, upstream):
        for doubled in (
            pairs(("provider", pairs(("a", EVIL), ("a", {"b": 1})))),
            pairs(("provider", {"a": EVIL}), ("provider", {"a": {"b": 1}})),
        ):
            whole = json.dumps({**fields, "model": "r"})[:-1] + ", " + doubled[1:]
            await relay.client.post(
                f"/v1/{path}", content=whole, headers={"content-type": "application/json"}
            )

        assert 2 == len(upstream.calls)
        assert [1, 1] == [call.json["provider"]["a"]["b"] for call in upstream.calls]
        assert not [call for call in upstream.calls if b"evil" in call.body]
