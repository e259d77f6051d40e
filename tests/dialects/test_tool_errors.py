"""That a tool failed, in the formats that can say so."""

import msgspec
import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.requests import (
    AssistantMessage,
    ChatRequest,
    FunctionCall,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

pytestmark = pytest.mark.pure

WORDS = {
    "anthropic": b'"is_error":true',
    "vertex_anthropic": b'"is_error":true',
    "bedrock_anthropic": b'"is_error":true',
    "bedrock_converse": b'"status":"error"',
    "gemini_interactions": b'"is_error":true',
}


def render(dialect: str, *, is_error: bool | None) -> bytes:
    call = ToolCall("call_1", FunctionCall("f", "{}"))
    result = ToolMessage("no such city", "call_1", is_error)
    messages: list[Message] = [UserMessage("Hi"), AssistantMessage(tool_calls=[call]), result]
    return msgspec.json.encode(
        UPSTREAM_FORMATS[dialect].render_request(ChatRequest(messages), model="m").body
    )


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
def test_a_failed_tool_is_told_where_there_are_words_for_it(dialect: str) -> None:
    failed, fine = render(dialect, is_error=True), render(dialect, is_error=None)

    assert b"no such city" in failed
    if dialect in WORDS:
        assert WORDS[dialect] in failed
        assert WORDS[dialect] not in fine
    else:
        assert fine == failed
