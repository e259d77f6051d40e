"""Betas at Vertex AI and Bedrock, which answer 400 to a request with one name they do not know."""

import json
from typing import Any

import pytest

from app.dialects.anthropic.client.request import parse_request
from app.upstreams.endpoints import Upstream
from app.upstreams.targets import Target

pytestmark = pytest.mark.pure

CLAUDE_CODE = (
    "claude-code-20250219,oauth-2025-04-20,interleaved-thinking-2025-05-14,"
    "prompt-caching-scope-2026-01-05,effort-2025-11-24,advanced-tool-use-2025-11-20"
)
PLATFORMS = ("vertex_anthropic", "bedrock_anthropic")
ANY = "interleaved-thinking-2025-05-14"


def sent(
    dialect: str, betas: str, headers: dict[str, str] | None = None, **fields: Any
) -> tuple[list[str], list[str]]:
    """Return the betas that a provider gets, and the notices."""
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}], **fields}
    chat = parse_request(json.dumps(body).encode(), betas=betas).chat
    upstream = Upstream("u", "http://127.0.0.1:9", dialect, headers=headers or {})
    request = Target(upstream, "m").build_request(chat)
    found = request.headers.get("anthropic-beta", "").split(",")
    if dialect == "bedrock_anthropic":
        assert request.headers == {}
        found = request.body.get("anthropic_beta", [])
    return [*filter(None, found)], [notice.message for notice in request.notices]


@pytest.mark.parametrize("dialect", PLATFORMS)
def test_only_betas_that_the_platform_takes_are_sent(dialect: str) -> None:
    betas, notices = sent(dialect, CLAUDE_CODE)

    assert betas == [ANY]
    assert notices == [
        "upstream 'u' does not take anthropic-beta claude-code-20250219, "
        "prompt-caching-scope-2026-01-05, effort-2025-11-24, advanced-tool-use-2025-11-20 "
        "for this request: dropped"
    ]


def test_anthropic_gets_all_betas_but_those_of_the_clients_login() -> None:
    betas, notices = sent("anthropic", f"{CLAUDE_CODE},novel-2030-01-01")

    assert betas == [*CLAUDE_CODE.replace("oauth-2025-04-20,", "").split(","), "novel-2030-01-01"]
    assert notices == []


SEARCH = {"type": "tool_search_tool_regex_20251119", "name": "search"}
LATER = {"name": "f", "input_schema": {"type": "object"}, "defer_loading": True}
EXAMPLES = {"name": "f", "input_schema": {"type": "object"}, "input_examples": [{}]}
EDITS = {"edits": [{"type": "clear_thinking_20251015"}]}
COMPUTER = {"type": "computer_20250124", "name": "computer"}
WEB = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.parametrize(
    ("beta", "fields", "vertex", "bedrock"),
    [
        ("effort-2025-11-24", {"output_config": {"effort": "high"}}, "", "effort-2025-11-24"),
        ("context-management-2025-06-27", {"context_management": EDITS}, "same", "same"),
        ("computer-use-2025-01-24", {"tools": [COMPUTER]}, "same", "same"),
        ("tool-search-tool-2025-10-19", {"tools": [SEARCH]}, "same", "same"),
        ("web-search-2025-03-05", {"tools": [WEB]}, "same", ""),
        *(
            ("advanced-tool-use-2025-11-20", {"tools": [tool]}, *both)
            for tool, both in {
                "later": (LATER, ["tool-search-tool-2025-10-19"] * 2),
                "examples": (EXAMPLES, ["", "tool-examples-2025-10-29"]),
            }.values()
        ),
    ],
)
def test_a_beta_of_a_field_is_sent_with_the_field(
    beta: str, fields: dict[str, Any], vertex: str, bedrock: str
) -> None:
    for dialect, expected in zip(PLATFORMS, (vertex, bedrock), strict=True):
        betas, notices = sent(dialect, beta, **fields)

        assert [beta if expected == "same" else expected] == (betas or [""])
        assert bool(notices) == (not expected)
        assert sent(dialect, beta)[0] == []


def test_the_setting_headers_overrides_the_clients_betas() -> None:
    for dialect in ("anthropic", "vertex_anthropic"):
        betas, notices = sent(dialect, ANY, headers={"Anthropic-Beta": "own-1"})

        assert betas == []
        assert notices == [
            "upstream 'u' has its own anthropic-beta (setting headers): the client's was dropped"
        ]


@pytest.mark.parametrize("dialect", PLATFORMS)
def test_a_notice_of_many_betas_is_short(dialect: str) -> None:
    _, (notice,) = sent(dialect, ",".join(f"b-{number}" for number in range(1000)))

    assert len(notice) < 400
    assert "and 980 more" in notice


@pytest.mark.parametrize("dialect", PLATFORMS)
def test_without_betas_nothing_is_said(dialect: str) -> None:
    assert sent(dialect, "") == sent(dialect, "oauth-2025-04-20") == ([], [])
