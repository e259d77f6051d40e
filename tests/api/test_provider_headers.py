"""Headers between a client and a provider of the same dialect."""

from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import DONE, FINISH, head, reply, send, text
from tests.api.test_options import configured
from tests.serving import HELLO

SENT = {
    "x-request-id": "req_up",
    "openai-processing-ms": "12",
    "openai-version": "2020-10-01",
    "openai-organization": "org-1",
    "x-ratelimit-remaining-tokens": "99",
    "set-cookie": "a=b",
    "x-other": "no",
}
HARMLESS = {
    "upstream-request-id": "req_up",
    "openai-processing-ms": "12",
    "openai-version": "2020-10-01",
}
ACCOUNT = {"openai-organization": "org-1", "upstream-x-ratelimit-remaining-tokens": "99"}
FROM_CLIENT = {
    "openai-organization": "org-client",
    "openai-beta": "responses=experimental",
    "x-client-request-id": "c1",
    "idempotency-key": "i1",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "cookie": "a=b",
    "x-api-key": "k",
    "x-other": "no",
}
SAFE = {"x-client-request-id": "c1"}
OPEN = {**SAFE, "openai-beta": "responses=experimental"}


def of_provider(headers: Any) -> dict[str, str]:
    """Return the headers of an answer that the relay does not make itself."""
    names = {*SENT, *ACCOUNT, *HARMLESS} - {"x-request-id"}
    return {name: value for name, value in headers.items() if name in names}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", HARMLESS),
        ('options = ["safe", "reply_header.*"]', HARMLESS | ACCOUNT),
        ('options = ["reply_header.openai-organization"]', HARMLESS | {"openai-organization": "org-1"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("streams", [True, False])
async def test_headers_of_a_reply_reach_the_client(
    tmp_path: Path, options: str, wanted: dict[str, str], streams: bool
) -> None:
    body = {**HELLO, "model": "r", "stream": streams}
    async with configured(tmp_path, options) as (relay, upstream):
        upstream.script = [head(**SENT), send(text("a") + FINISH + DONE)]
        answer = await relay.client.post("/v1/chat/completions", json=body)
        refused = reply("400 Bad Request", '{"error": {"message": "no"}}', **SENT)
        upstream.script = refused
        failed = await relay.client.post("/v1/chat/completions", json=body)
        upstream.script = [head(**SENT), send(text("a") + FINISH + DONE)]
        other = await relay.client.post("/v1/chat", json=body)

    assert (200, wanted) == (answer.status_code, of_provider(answer.headers))
    assert (400, wanted) == (failed.status_code, of_provider(failed.headers))
    assert (200, {}) == (other.status_code, of_provider(other.headers))
    assert "req_up" != answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", SAFE),
        ('options = ["*"]', {n: v for n, v in FROM_CLIENT.items() if n not in ("cookie", "x-api-key", "x-other")}),
        ('options = ["header.openai-beta"]', {"openai-beta": "responses=experimental"}),
        ('options = ["*"]\nheaders = { OpenAI-Organization = "org-own" }\n', None),
    ],
)  # fmt: skip
async def test_headers_of_a_request_reach_the_provider(
    tmp_path: Path, options: str, wanted: dict[str, str] | None
) -> None:
    async with configured(tmp_path, options) as (relay, upstream):
        body = {**HELLO, "model": "r"}
        await relay.client.post("/v1/chat/completions", json=body, headers=FROM_CLIENT)
        again = {**FROM_CLIENT, "idempotency-key": "i2"}
        await relay.client.post("/v1/chat", json=body, headers=again)

    same, other = (
        {name: value for name, value in call.headers.items() if name in FROM_CLIENT}
        for call in upstream.calls
    )
    if wanted is None:
        assert "org-own" == same["openai-organization"] == other["openai-organization"]
    else:
        assert (wanted, {}) == (same, other)


async def test_without_routes_a_client_chooses_no_account(tmp_path: Path) -> None:
    async with configured(tmp_path, 'models = ["m"]', routes="") as (relay, upstream):
        body = {**HELLO, "model": "u/m"}
        upstream.script = [head(**SENT), send(text("a") + FINISH + DONE)]
        answer = await relay.client.post("/v1/chat/completions", json=body, headers=FROM_CLIENT)

    (call,) = upstream.calls
    assert OPEN == {name: value for name, value in call.headers.items() if name in FROM_CLIENT}
    assert HARMLESS | ACCOUNT == of_provider(answer.headers)


async def test_openais_headers_are_for_openais_formats(tmp_path: Path) -> None:
    dialect = {"dialect": "anthropic", "routes": ""}
    async with configured(tmp_path, 'models = ["m"]', **dialect) as (relay, upstream):
        body = {**HELLO, "model": "u/m", "max_tokens": 9}
        sent = {**FROM_CLIENT, "openai-project": "p", "anthropic-version": "2027-01-01"}
        del sent["x-api-key"]
        await relay.client.post("/v1/messages", json=body, headers=sent)

    (call,) = upstream.calls
    assert [] == [name for name in call.headers if name.startswith("openai-")]
    assert "2027-01-01" == call.headers["anthropic-version"]
    assert "c1" == call.headers["x-client-request-id"]
