"""What the retry code of official SDKs makes of each error: whether it asks again, and when."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from starlette.requests import Request

from app.api.problems import failure
from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import CODES, RelayError
from tests.needs import file, program

ROOT = Path(__file__).parents[2]

RETRIED = {
    *("rate_limited", "upstream_rate_limited", "upstream_unavailable", "upstream_overloaded"),
    *("upstream_timeout", "upstream_tool_failed", "upstream_truncated", "overloaded"),
    "producer_lost",
}
"""The codes after which the same request may succeed."""

WAITS: dict[float | None, tuple[str | None, bool]] = {
    None: (None, True),
    0: (None, True),
    0.4: ("1", True),
    5: ("5", True),
    59: ("59", True),
    64.2: ("59", True),
    118: ("59", True),
    119: ("119", False),
    3600: ("3600", False),
}
"""By the seconds that an error asks for: `retry-after`, and whether a retry can succeed."""


def head_of(name: str, error: RelayError) -> tuple[int, dict[str, str]]:
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "request_id": "r"}
    response = failure(CLIENT_FORMATS[name], error, Request(scope))
    return response.status_code, dict(response.headers)


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, tuple[Any, Any]]]:
    """OpenAI's and Anthropic's, each with its options of a request."""
    with openai.OpenAI(api_key="k") as of_openai, anthropic.Anthropic(api_key="k") as of_anthropic:
        yield {
            "openai_chat": (of_openai, openai._models.FinalRequestOptions),
            "anthropic": (of_anthropic, anthropic._models.FinalRequestOptions),
        }


@pytest.mark.parametrize("wait_s", WAITS)
@pytest.mark.parametrize("name", ["openai_chat", "anthropic"])
def test_python_sdks(clients: dict[str, tuple[Any, Any]], name: str, wait_s: float | None) -> None:
    retry_after, retries = WAITS[wait_s]
    client, new_options = clients[name]
    options = new_options.construct(method="post", url="/")
    for code in CODES:
        status, headers = head_of(name, RelayError(code, "m", retry_after_s=wait_s))
        response = httpx2.Response(status, headers=headers)
        found = client._should_retry(response)
        after_s = client._calculate_retry_timeout(2, options, response.headers)

        assert (code in RETRIED and retries) == found, code
        if found and retry_after:
            assert float(retry_after) == after_s, code
        elif found:
            assert 0.3 < after_s <= 0.5, code  # their own first pause


@pytest.mark.proving
async def test_node_sdks() -> None:
    """The AI SDK does not read `x-should-retry`: it retries each 429 and 5xx."""
    file(ROOT / "node_modules" / "@anthropic-ai" / "sdk" / "package.json", how="run npm ci")
    rows: list[dict[str, Any]] = []
    for code in CODES:
        for wait_s, (retry_after, retries) in WAITS.items():
            error = RelayError(code, "m", retry_after_s=wait_s)
            rows.append(
                {
                    "code": code,
                    "expected": code in RETRIED and retries,
                    "after": retry_after,
                    "heads": {name: head_of(name, error) for name in ("openai_chat", "anthropic")},
                }
            )
    process = await asyncio.create_subprocess_exec(
        *(program("node"), str(ROOT / "tests" / "clients" / "retries.mjs")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(json.dumps(rows).encode()), 120)
    assert 0 == process.returncode
    for row, found in zip(rows, json.loads(out), strict=True):
        for client in ("openai", "anthropic", "ai"):
            asked, waits = found[client]
            head: Any = row["heads"]["anthropic" if client == "anthropic" else "openai_chat"]
            expected = row["expected"]
            if client == "ai":
                expected = head[0] == 429 or head[0] >= 500
            assert (2 if expected else 1) == asked, (client, row)
            if expected and row["expected"]:
                [after_ms] = waits
                if row["after"]:
                    assert 1000 * float(row["after"]) == after_ms, (client, row)
                else:
                    assert 300 < after_ms <= 2000, (client, row)
