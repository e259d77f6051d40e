"""A long conversation of texts takes few calls a message in each client's dialect."""

import msgspec
import pytest

from app.dialects.anthropic.client.request import parse_request as parse_anthropic
from app.dialects.openai_chat.client.request import parse_request as parse_openai
from app.requests import AssistantMessage, UserMessage
from tests.test_request_cost import counted, show

pytestmark = pytest.mark.pure

MESSAGES = 1000


@pytest.mark.parametrize(("parse", "most"), [(parse_openai, 1.5), (parse_anthropic, 2.5)])
def test_a_text_takes_few_calls(parse, most):
    roles = ("user", "assistant")
    messages = [
        {"role": roles[number % 2], "content": f"text {number}"} for number in range(MESSAGES)
    ]
    body = msgspec.json.encode({"model": "m", "max_tokens": 9, "messages": messages})
    parse(body)
    with counted() as calls:
        parsed = parse(body)

    assert [UserMessage("text 0"), AssistantMessage("text 1")] == parsed.chat.messages[:2]
    assert 0 < calls.total() / MESSAGES < most, show(calls)
