"""`POST /v1/embeddings`: one schema, whoever makes the vectors."""

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

import openai
import pytest

from app.dialects.embeddings_calls import as_base64, as_numbers
from app.testing.upstream import (
    Call,
    Send,
    Step,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    serve_upstream,
    wait,
)
from tests.clock import Clock
from tests.serving import HELLO, Relay, serve_relay, serve_script

PATH = "/v1/embeddings"
VECTORS = [[0.5, -0.25], [1.0, 0.0], [0.0, 2.0]]


def client(relay: Relay, **fields: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0, **fields)


def packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def answer(body: Any) -> list[Step]:
    return reply("200 OK", json.dumps(body))


def openai_answer(*vectors: Any, **fields: Any) -> list[Step]:
    rows = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
    usage = {"prompt_tokens": 9, "total_tokens": 9}
    return answer({"object": "list", "data": rows, "model": "e-1", "usage": usage, **fields})


FORMATS: dict[str, tuple[str, Callable[[Call], list[Step]], str, dict[str, Any]]] = {
    "openai_chat": ("e-1", lambda _: openai_answer(*VECTORS), "/v1/embeddings", {"model": "e-1", "input": ["a", "b", "c"], "dimensions": 2, "encoding_format": "float"}),
    "openai_responses": ("e-1", lambda _: openai_answer(*VECTORS), "/v1/embeddings", {"model": "e-1", "input": ["a", "b", "c"], "dimensions": 2, "encoding_format": "float"}),
    "gemini": (
        "gemini-embedding-001",
        lambda _: answer(
            {
                "embeddings": [{"values": v} for v in VECTORS],
                "usageMetadata": {"promptTokenCount": 9}
            }
        ),
        "/v1/models/gemini-embedding-001:batchEmbedContents",
        {
            "requests": [
                {
                    "model": "models/gemini-embedding-001",
                    "outputDimensionality": 2,
                    "content": {"parts": [{"text": text}]}
                }
                for text in "abc"
            ]
        }
    ),
    "cohere": (
        "embed-v4.0",
        lambda _: answer(
            {"embeddings": {"float": VECTORS}, "meta": {"billed_units": {"input_tokens": 9}}}
        ),
        "/v1/v2/embed",
        {
            "model": "embed-v4.0",
            "texts": ["a", "b", "c"],
            "input_type": "search_document",
            "output_dimension": 2,
            "embedding_types": ["float"]
        }
    ),
    "ollama": (
        "nomic-embed-text",
        lambda _: answer({"embeddings": VECTORS, "prompt_eval_count": 9}),
        "/v1/api/embed",
        {"model": "nomic-embed-text", "input": ["a", "b", "c"], "dimensions": 2}
    ),
    "bedrock_converse": (
        "cohere.embed-v4:0",
        lambda _: answer({"embeddings": {"float": VECTORS}}),
        "/v1/model/cohere.embed-v4%3A0/invoke",
        {
            "texts": ["a", "b", "c"],
            "input_type": "search_document",
            "output_dimension": 2,
            "embedding_types": ["float"]
        }
    )
}  # fmt: skip


@pytest.mark.parametrize("dialect", FORMATS)
async def test_every_format_of_an_upstream_gives_the_same(dialect: str) -> None:
    model, script, path, body = FORMATS[dialect]
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, dialect=dialect) as relay,
        client(relay) as sdk,
    ):
        upstream.choose = script
        plain = await sdk.embeddings.create(
            model=f"openai/{model}", input=list("abc"), dimensions=2, encoding_format="float"
        )
        coded = await sdk.embeddings.create(model=f"openai/{model}", input=list("abc"))

    assert VECTORS == [row.embedding for row in plain.data] == [r.embedding for r in coded.data]
    assert [0, 1, 2] == [row.index for row in plain.data]
    assert plain.usage.prompt_tokens == (1 * 3 if dialect == "bedrock_converse" else 9)
    assert (path, body) == (upstream.calls[0].path, upstream.calls[0].json)
    assert "via" in upstream.calls[0].headers


async def test_titan_is_asked_for_one_text_after_the_other() -> None:
    def vector(call: Call) -> list[Step]:
        place = "abcdefgh".index(call.json["inputText"])
        return answer({"embedding": [float(place)], "inputTextTokenCount": place})

    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, dialect="bedrock_converse") as relay,
        client(relay) as sdk,
    ):
        upstream.choose = vector
        found = await sdk.embeddings.create(
            model="openai/amazon.titan-embed-text-v2:0", input=list("abcdefgh")
        )

    assert [[float(n)] for n in range(8)] == [row.embedding for row in found.data]
    assert sum(range(8)) == found.usage.prompt_tokens
    assert 8 == len(upstream.calls)
    assert "/v1/model/amazon.titan-embed-text-v2%3A0/invoke" == upstream.calls[0].path


@pytest.mark.parametrize(
    "given", [VECTORS, [packed(v) for v in VECTORS]], ids=["numbers", "base64"]
)
async def test_what_was_asked_for_is_given_whatever_comes(given: Any) -> None:
    async with serve_script(openai_answer(*given)) as (relay, upstream):
        body = {"model": "openai/e", "input": ["a", "b", "c"]}
        plain = (await relay.client.post(PATH, json=body)).json()
        coded = (await relay.client.post(PATH, json={**body, "encoding_format": "base64"})).json()

    assert VECTORS == [row["embedding"] for row in plain["data"]]
    assert [packed(v) for v in VECTORS] == [row["embedding"] for row in coded["data"]]
    assert "base64" == upstream.calls[1].json["encoding_format"]
    assert {"object": "list", "model": "e-1", "usage": {"prompt_tokens": 9, "total_tokens": 9}} == {
        name: value for name, value in plain.items() if name != "data"
    }


async def test_an_answer_and_a_refusal_come_whole_in_whatever_pieces() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        start, whole = openai_answer([1.0, 2.0])
        assert isinstance(whole, Send)
        pieces = [step for part in batched(whole.data, 40) for step in (wait(0.02), send(part))]
        upstream.script = [start, *pieces]
        found = await relay.client.post(PATH, json={"model": "openai/e", "input": "a"})
        start, whole = reply("400 Bad Request", '{"error":{"message":"no such size"}}')
        upstream.script = [start, wait(0.05), whole]
        refusals = [
            await relay.client.post(path, json={**asked, "model": "openai/e"})
            for path, asked in ((PATH, {"input": "a"}), ("/v1/chat", HELLO))
        ]

    assert [1.0, 2.0] == found.json()["data"][0]["embedding"]
    assert [400, 400] == [refusal.status_code for refusal in refusals]
    assert all("no such size" in refusal.text for refusal in refusals)


async def test_an_answer_that_lacks_only_its_last_chunk_is_whole() -> None:
    """Some servers close the connection instead; half a document is cut all the same."""
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        _, whole = openai_answer([1.0, 2.0])
        assert isinstance(whole, Send)
        found = []
        deep = 500_000  # CPython 3.15 decodes 100,000 levels with 8 MiB of stack
        nested = b'{"a":' + b"[" * deep + b"]" * deep + b"}"
        for body in (whole.data, whole.data[:-1], nested):
            upstream.script = [chunked_head(content_type="application/json"), chunk(body)]
            found.append(await relay.client.post(PATH, json={"model": "openai/e", "input": "a"}))

    assert [1.0, 2.0] == found[0].json()["data"][0]["embedding"]
    for cut in found[1:]:
        assert "upstream_truncated" == cut.json()["error"]["code"]


def batched(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


async def test_tokens_go_where_they_are_taken_and_nowhere_else() -> None:
    async with serve_script(openai_answer([1.0])) as (relay, upstream):
        # What LangChain sends: as many tokens as OpenAI takes in a request.
        many = [[*range(10, 40)] * 10] * 1000
        upstream.script = openai_answer(*([1.0],) * 1000)
        taken = await relay.client.post(PATH, json={"model": "openai/e", "input": many})
        await relay.client.post(PATH, json={"model": "openai/e", "input": [1, 2, 3]})
    async with serve_upstream() as other, serve_relay(other, dialect="gemini") as relay:
        refused = await relay.client.post(PATH, json={"model": "openai/e", "input": [[1], [2]]})

    assert 200 == taken.status_code, taken.text[:500]
    assert many == upstream.calls[0].json["input"]
    assert [1, 2, 3] == upstream.calls[1].json["input"]
    assert 400 == refused.status_code
    assert "check_embedding_ctx_length=False" in refused.json()["error"]["message"]
    assert not other.calls


async def test_an_upstream_without_embeddings_says_so() -> None:
    for dialect in ("anthropic", "bedrock_converse"):
        async with serve_upstream() as upstream, serve_relay(upstream, dialect=dialect) as relay:
            response = await relay.client.post(PATH, json={"model": "openai/c", "input": "a"})

        assert 400 == response.status_code
        assert "does not support embeddings" in response.json()["error"]["message"]
        assert not upstream.calls


async def test_other_fields_go_where_they_are_known() -> None:
    body = {"model": "openai/e", "input": "a", "input_type": "search_query", "user": "u", "odd": 1}
    async with serve_script(openai_answer([1.0])) as (relay, upstream):
        kept = await relay.client.post(PATH, json={**body, "api_base": "http://evil.test"})
        refused = await relay.client.post(
            PATH, json={**body, "provider_options": {"api_base": "x"}}
        )
    async with serve_script(answer({"embeddings": {"float": [[1.0]]}}), dialect="cohere") as (
        relay,
        cohere,
    ):
        fitted = await relay.client.post(PATH, json=body)

    assert {"input_type": "search_query", "user": "u", "odd": 1}.items() <= upstream.calls[
        0
    ].json.items()
    assert "api_base" not in upstream.calls[0].json
    assert "api_base" == kept.headers["seseragi-ignored"]
    assert 400 == refused.status_code
    assert "provider_options.api_base" in refused.json()["error"]["message"]
    assert "search_query" == cohere.calls[0].json["input_type"]
    assert {"odd", "user"}.isdisjoint(cohere.calls[0].json)
    assert "odd" == fitted.headers["seseragi-ignored"]
    assert "true" == fitted.headers["seseragi-estimated"]


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        (reply("429 Slow", "{}", retry_after="7"), 429, "rate_limit_exceeded"),
        (reply("401 No", '{"error":{"message":"bad key sk-test-0123456789"}}'), 401, "upstream_auth"),
        (reply("403 No", "{}"), 403, "upstream_forbidden"),
        (reply("400 Bad", '{"error":{"message":"sk-test-0123456789 odd"}}'), 400, "upstream_invalid_request"),
        (reply("404 No", "{}"), 404, "model_not_found"),
        (reply("200 OK", "[]"), 502, "upstream_invalid_response"),
        (reply("200 OK", "{"), 502, "upstream_invalid_response"),
        (openai_answer([1.0], [2.0]), 502, "upstream_invalid_response"),
        (openai_answer(["x"]), 502, "upstream_invalid_response"),
        (openai_answer([[1.0]]), 502, "upstream_invalid_response"),
        (openai_answer({"a": 1}), 502, "upstream_invalid_response"),
        (openai_answer("!!"), 502, "upstream_invalid_response"),
        ([head(content_type="application/json", content_length="9"), send("{")], 502, "upstream_truncated"),
        ([], 502, "upstream_unavailable")
    ]
)  # fmt: skip
async def test_a_failure_is_told_in_openais_words(script: Any, status: int, code: str) -> None:
    async with serve_script(script) as (relay, _):
        response = await relay.client.post(PATH, json={"model": "openai/e", "input": "a"})

    assert (status, code) == (response.status_code, response.json()["error"]["code"])
    assert "sk-test" not in response.text
    assert (code == "rate_limit_exceeded") == ("retry-after" in response.headers)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"input": []}, "input"),
        ({"input": {"a": 1}}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": ["a"] * 2049}, "2048"),
        ({"input": None}, "input"),
        ({"dimensions": 0}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
    ],
)
async def test_what_is_no_request_is_refused_with_its_place(fields: Any, told: str) -> None:
    async with serve_relay() as relay:
        body = {"model": "demo", "input": "a", **fields}
        response = await relay.client.post(PATH, json=body)

    assert (400, "invalid_request") == (response.status_code, response.json()["error"]["code"])
    assert told in response.json()["error"]["message"]


HOSTILE = [rb'"\ud800"', b"1e999", b"9" * 5000, b"[" * 800 + b"]" * 800, b"\xff"]
PLACES = [
    b'"input": @',
    b'"input": [@]',
    b'"input": "a", "odd": @',
    b'"input": "a", "provider_options": {"a": @}',
    b'"input": "a", "dimensions": @',
]


@pytest.mark.parametrize("place", PLACES)
async def test_no_value_is_a_failure_of_the_relay(place: bytes) -> None:
    headers = {"content-type": "application/json"}
    async with serve_relay() as relay:
        for value in HOSTILE:
            body = b'{"model": "demo", ' + place.replace(b"@", value) + b"}"
            response = await relay.client.post(PATH, content=body, headers=headers)

            code = response.json()["error"]["code"]
            assert (400, "invalid_request") == (response.status_code, code), value
            assert len(response.text) < 1000


async def test_a_route_falls_back_and_its_breaker_learns(tmp_path: Any, monkeypatch: Any) -> None:
    async with serve_upstream() as first, serve_upstream() as second:
        first.script = reply("503 Busy", "{}")
        second.script = openai_answer([1.0])
        (tmp_path / "seseragi.toml").write_text(
            f"""
            [upstream.one]
            base_url = "{first.base_url}"
            key_env = "KEY"
            [upstream.two]
            base_url = "{second.base_url}"
            key_env = "KEY"
            [[route]]
            name = "vectors"
            targets = ["one/e", "two/e"]
            """
        )
        monkeypatch.chdir(tmp_path)
        async with serve_relay(environ={"KEY": "sk-a"}) as relay, client(relay) as sdk:
            found = [await sdk.embeddings.create(model="vectors", input="a") for _ in range(5)]
            health = (await relay.client.get("/readyz?verbose")).json()["targets"]

    assert all([1.0] == one.data[0].embedding for one in found)
    assert 5 == len(second.calls)
    assert 3 == len(first.calls), "it is passed over after three failures"
    assert "open" == {row["target"]: row["state"] for row in health}["one/e"]


@pytest.mark.parametrize(
    ("script", "status"),
    [([], 200), ([head(content_length="9"), send("{")], 200), (reply("503 Busy", "{}"), 503)],
)
async def test_it_is_asked_again_unless_the_client_will(
    script: Any, status: int, monkeypatch: Any
) -> None:
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, attempts=2) as relay,
        Clock(monkeypatch).hurrying(),
    ):
        scripts = [script, openai_answer([1.0])]
        upstream.choose = lambda _: scripts[len(upstream.calls) - 1]
        response = await relay.client.post(PATH, json={"model": "openai/e", "input": "a"})

    assert status == response.status_code


async def test_the_memory_of_an_answer_is_bounded() -> None:
    async with serve_script(
        openai_answer([0.123456789] * 200_000), max_request_memory_bytes=1_000_000
    ) as (relay, _):
        response = await relay.client.post(PATH, json={"model": "openai/e", "input": "a"})
        left = relay.hub.admission.bytes

    assert (413, "request_too_large") == (response.status_code, response.json()["error"]["code"])
    assert 0 == left


@pytest.mark.parametrize("text", ["[1,2,-0.5e3]", f'"{packed([1, 2, -500])}"'])
def test_a_vector_is_the_same_in_both_forms(text: str) -> None:
    assert [1, 2, -500] == json.loads(as_numbers(text.encode()))
    assert packed([1, 2, -500]) == json.loads(as_base64(text.encode()))


@pytest.mark.parametrize(
    "text", ['"AAA="', '{"a":1}', "[[1]]", '["1"]', "[null]", '"é"', "1", "[1"]
)
def test_what_is_no_vector_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        as_base64(text.encode())
    if text != "[1":  # no decoder would have given it
        with pytest.raises(ValueError):  # noqa: PT011
            as_numbers(text.encode())
