"""Files by their URL and videos: what each upstream format makes of them, and each client's."""

import json
from typing import Any

import pytest

from app.dialects.anthropic.client.request import parse_request as parse_messages
from app.dialects.openai_responses.client.request import parse_request as parse_responses
from app.errors import RequestError
from app.requests import FilePart, FileSource, TextPart, UserMessage, UserPart
from app.upstreams.presets import PRESETS
from tests.dialects.rendering import file, part, render, said, user

pytestmark = pytest.mark.pure

PDF = "https://a.example/p.pdf"
CLIP = "https://a.example/c.mp4"
FILE, VIDEO = file(file_url=PDF, filename="p.pdf"), part("video_url", video_url={"url": CLIP})
INLINE = part("video_url", video_url={"url": "data:video/quicktime;base64,AA=="})
STORED = part("video_url", video_url={"url": "s3://b/c.mkv"})

SENT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("openai_chat", FILE, file(file_data=PDF, filename="p.pdf")),
    ("openai_chat", VIDEO, VIDEO),
    ("openai_responses", FILE, {"type": "input_file", "file_url": PDF}),
    ("anthropic", FILE, {"type": "document", "source": {"type": "url", "url": PDF}, "title": "p.pdf"}),
    ("gemini", FILE, {"fileData": {"mimeType": "application/pdf", "fileUri": PDF}}),
    ("gemini", VIDEO, {"fileData": {"mimeType": "video/mp4", "fileUri": CLIP}}),
    ("gemini_interactions", FILE, {"type": "document", "uri": PDF, "mime_type": "application/pdf"}),
    ("gemini_interactions", VIDEO, {"type": "video", "uri": CLIP, "mime_type": "video/mp4"}),
    ("bedrock_converse", INLINE, {"video": {"format": "mov", "source": {"bytes": "AA=="}}}),
    ("bedrock_converse", STORED, {"video": {"format": "mkv", "source": {"s3Location": {"uri": "s3://b/c.mkv"}}}}),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "sent", "expected"), SENT)
def test_who_takes_it_gets_it(dialect: str, sent: Any, expected: Any) -> None:
    body = render(dialect, {"messages": [user(said("a"), sent)]})

    assert expected in _leaves(body)


REFUSED = [
    ("openai_responses", VIDEO, "video cannot be sent"),
    ("anthropic", VIDEO, "video cannot be sent"),
    ("bedrock_converse", FILE, "a file without a data: URL cannot be sent"),
    ("bedrock_converse", VIDEO, "a video by its URL (send a data: or s3: URL) cannot be sent"),
    ("cohere", VIDEO, "anything but text and images cannot be sent"),
    ("cohere", FILE, "anything but text and images cannot be sent"),
    ("ollama", VIDEO, "anything but text and images cannot be sent"),
    ("ollama", FILE, "anything but text and images cannot be sent"),
]


@pytest.mark.parametrize(("dialect", "sent", "what"), REFUSED)
def test_who_does_not_take_it_is_not_asked(dialect: str, sent: Any, what: str) -> None:
    with pytest.raises(RequestError) as refused:
        render(dialect, {"messages": [user(said("a"), sent)]})

    assert refused.value.message.startswith(f"messages[0].content[1]: {what}")


@pytest.mark.parametrize("sent", [FILE, VIDEO, file(file_data=PDF)])
@pytest.mark.parametrize("preset", ["openai", "azure", "azure-deployments"])
def test_openai_itself_is_not_asked(preset: str, sent: Any) -> None:
    named = PRESETS[preset]
    quirks: dict[str, Any] = {**named.quirks, **named.host_quirks}

    with pytest.raises(RequestError, match=r"messages\[0\].content\[1\]: "):
        render("openai_chat", {"messages": [user(said("a"), sent)]}, **quirks)


def test_a_document_of_a_client_of_messages_is_a_file() -> None:
    document = {"type": "document", "title": "p", "source": {"type": "url", "url": PDF}}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [document]}]}

    assert [UserMessage([FilePart(FileSource(file_url=PDF, filename="p"))])] == parse_messages(
        json.dumps(body).encode(), betas=""
    ).chat.messages


def test_a_file_of_a_client_of_responses_is_one() -> None:
    content = [{"type": "input_text", "text": "a"}, {"type": "input_file", "file_url": PDF}]
    body = {"model": "m", "input": [{"role": "user", "content": content}]}

    parts: list[UserPart] = [TextPart("a"), FilePart(FileSource(file_url=PDF))]
    assert [UserMessage(parts)] == parse_responses(json.dumps(body).encode()).chat.messages


def _leaves(value: Any) -> list[Any]:
    """All objects within a value."""
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict) else []
    return own + [leaf for one in within for leaf in _leaves(one)]
