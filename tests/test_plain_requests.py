"""Requests of bare texts skip what others need; everything else is looked at."""

import pytest

from app.requests import parse_chat_request

pytestmark = pytest.mark.pure

MARK = '"cache_control": {"type": "ephemeral"}'
CALL = '{"id": "c", "function": {"name": "f", "arguments": "{}"}}'


@pytest.mark.parametrize(
    ("fields", "plain"),
    [
        ('"messages": [{"role": "user", "content": "x"}]', True),
        ('"messages": [{"role": "user", "content": "x", "name": "n"}], "seed": 1', True),
        ('"messages": [{"role": "assistant", "content": "x"}]', True),
        ('"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]', False),
        (f'"messages": [{{"role": "user", "content": "x", {MARK}}}]', False),
        (f'"messages": [{{"role": "user", "content": "x"}}], {MARK}', False),
        (f'"messages": [{{"role": "assistant", "content": "x", "tool_calls": [{CALL}]}}]', False),
        ('"messages": [{"role": "assistant", "content": "x", "refusal": "no"}]', False),
        ('"messages": [{"role": "assistant", "content": "x", "reasoning_content": "r"}]', False),
        ('"messages": [{"role": "assistant", "content": null}]', False),
        ('"messages": [{"role": "tool", "content": "x", "tool_call_id": "c"}]', False),
        ('"messages": [{"role": "user", "content": "x"}], "provider_options": {"a": 1}', False),
        (
            '"messages": [{"role": "user", "content": "x"}], "tools": [{"function": {"name": "f"}}]',
            False,
        ),
    ],
)
def test_only_bare_texts_are_plain(fields: str, plain: bool) -> None:
    assert plain is parse_chat_request(f"{{{fields}}}".encode()).is_plain
