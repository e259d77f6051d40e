"""What is sent to Gemini."""

import json
from functools import partial
from typing import Any

import pytest

from app.dialects.gemini.upstream.request import Quirks, render_request
from app.errors import RequestError
from app.requests import parse_chat_request
from tests.dialects import rendering
from tests.dialects.rendering import HI, assistant, call, file, function, image, part, result, said

pytestmark = pytest.mark.pure

render = partial(rendering.render, "gemini", model="gemini-3.6-flash")

CONTENTS = [{"role": "user", "parts": [{"text": "hi"}]}]


def contents(*messages: dict[str, Any], **options: Any) -> Any:
    """Return the turns of messages, without that of the user which a call has to follow."""
    asked = [] if "tool_calls" not in messages[0] else [{"role": "user", "content": "Hi"}]
    return render({"messages": [*asked, *messages]}, **options)["contents"][len(asked) :]


def parts(*content: dict[str, Any]) -> Any:
    (turn,) = contents({"role": "user", "content": list(content)})
    return turn["parts"]


def test_instructions_stand_beside_the_conversation() -> None:
    body = render(
        {
            "messages": [
                {"role": "system", "content": "a"},
                *HI,
                {"role": "developer", "content": [said("b")]},
                {"role": "system", "content": ""},
            ]
        }
    )
    assert body == {
        "contents": CONTENTS,
        "systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}]},
    }


def test_turns_of_one_role_are_one() -> None:
    sent = contents(
        *HI,
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b", "refusal": "c"},
        {"role": "user", "content": "d"},
    )
    assert sent == [
        {"role": "user", "parts": [{"text": "hi"}, {"text": "again"}]},
        {"role": "model", "parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}]},
        {"role": "user", "parts": [{"text": "d"}]},
    ]


def test_an_answer_of_nothing_is_left_out() -> None:
    sent = contents(*HI, {"role": "assistant", "content": ""}, {"role": "user", "content": "d"})

    assert sent == [{"role": "user", "parts": [{"text": "hi"}, {"text": "d"}]}]


def video(url: str) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": url}}


FILES = "https://generativelanguage.googleapis.com/v1beta/files/abc-1"
MEDIA = [
    (image("data:image/PNG;base64,AA=="), "inlineData", "image/png", "AA=="),
    (image("https://x/a/B.WebP?w=1.png#c"), "fileData", "image/webp", "https://x/a/B.WebP?w=1.png#c"),
    (image("gs://bucket/a.jpg"), "fileData", "image/jpeg", "gs://bucket/a.jpg"),
    (image("https://x/picture"), "fileData", "image/jpeg", "https://x/picture"),
    (image("https://x.png/"), "fileData", "image/jpeg", "https://x.png/"),
    (image(FILES), "fileData", None, FILES),
    (
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        "inlineData",
        "audio/wav",
        "AA==",
    ),
    (file(file_data="data:application/pdf;base64,AA=="), "inlineData", "application/pdf", "AA=="),
    (file(file_data="AA==", filename="a.CSV"), "inlineData", "text/csv", "AA=="),
    (file(file_id=FILES), "fileData", None, FILES),
    (file(file_url="https://x/a.CSV?b"), "fileData", "text/csv", "https://x/a.CSV?b"),
    (file(file_url="https://x/y", filename="b.txt"), "fileData", "text/plain", "https://x/y"),
    (file(file_url="https://x/y"), "fileData", "application/pdf", "https://x/y"),
    (file(file_data="https://x/y", filename="a.pdf"), "fileData", "application/pdf", "https://x/y"),
    (video("data:video/webm;base64,AA=="), "inlineData", "video/webm", "AA=="),
    (video("https://x/a.mov"), "fileData", "video/quicktime", "https://x/a.mov"),
    (video("https://youtu.be/x"), "fileData", "video/mp4", "https://youtu.be/x"),
    (file(file_id="gs://b/a.mp4"), "fileData", "video/mp4", "gs://b/a.mp4"),
    (file(file_id="https://x/y", filename="a.pdf"), "fileData", "application/pdf", "https://x/y"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "kind", "media_type", "value"), MEDIA)
def test_media_are_sent_inline_or_by_their_place(
    part: dict[str, Any], kind: str, media_type: str | None, value: str
) -> None:
    (sent,) = parts(part)

    key = "data" if kind == "inlineData" else "fileUri"
    assert sent == {kind: {**({"mimeType": media_type} if media_type else {}), key: value}}


@pytest.mark.parametrize(
    ("part", "path", "what"),
    [
        (image("cat.png"), ".image_url.url", "anything but a base64 data:, https: or gs: URL"),
        (
            image("data:image/png,plain"),
            ".image_url.url",
            "anything but a base64 data:, https: or gs: URL",
        ),
        (file(file_data="AA=="), ".file.file_data", "data without a media type"),
        (file(file_data="AA==", filename="a.xyz"), ".file.file_data", "data without a media type"),
        (file(file_id="https://x/y"), ".file.file_id", "a URL without a known extension"),
        (
            file(file_id="file-123"),
            ".file.file_id",
            "anything but a base64 data:, https: or gs: URL",
        ),
        (file(filename="a.pdf"), ".file", "has no file_data, file_url or file_id"),
    ],
)
def test_media_that_cannot_be_sent_are_refused(part: dict[str, Any], path: str, what: str) -> None:
    with pytest.raises(RequestError) as refused:
        parts(said("a"), part)

    assert refused.value.code == "invalid_request"
    assert refused.value.message.startswith(f"messages[0].content[1]{path}: {what}")


def test_thoughts_are_not_sent_back() -> None:
    (sent, _) = contents(
        assistant(
            part("reasoning", "t", signature="S", format="of-another"),
            said("a"),
            part("opaque", format="of-another", data="D"),
            reasoning_content="t",
        ),
        *HI,
    )
    assert sent == {"role": "model", "parts": [{"text": "a"}]}


def signature(data: str, format: str = "gemini.thought_signature") -> dict[str, Any]:
    return part("opaque", format=format, data=data)


def test_a_signature_goes_back_with_the_text_before_it() -> None:
    (sent, _) = contents(
        assistant(
            part("reasoning", "t"),
            signature("1"),
            said("a"),
            said("b"),
            signature("2"),
            signature("3"),
            part("refusal", refusal="c"),
        ),
        *HI,
    )
    assert sent["parts"] == [
        {"text": "", "thoughtSignature": "1"},
        {"text": "a"},
        {"text": "b", "thoughtSignature": "2"},
        {"text": "", "thoughtSignature": "3"},
        {"text": "c"},
    ]


def test_parts_of_googles_tools_go_back_as_they_came() -> None:
    part = {"toolCall": {"id": "t", "toolType": "X"}, "thoughtSignature": "S"}
    (sent, _) = contents(
        assistant(signature(json.dumps(part), "gemini.part"), signature("1"), said("a")), *HI
    )
    assert sent["parts"] == [part, {"text": "", "thoughtSignature": "1"}, {"text": "a"}]


@pytest.mark.parametrize("data", ["", "[]", "{"])
def test_a_part_that_is_none_is_refused(data: str) -> None:
    with pytest.raises(
        RequestError, match=r"messages\[0\].content\[0\].data: must be a JSON object"
    ):
        contents(assistant(signature(data, "gemini.part")))


@pytest.mark.parametrize("format", ["gemini.thought_signature", "google.thought_signature"])
def test_a_signature_goes_back_with_its_call(format: str) -> None:
    opaque = [{"format": "of-another", "data": "T"}, {"format": format, "data": "S"}]
    (sent,) = contents(assistant(tool_calls=[call(opaque=opaque), call("j")]))

    assert sent["parts"] == [
        {"functionCall": {"name": "f", "args": {}, "id": "i"}, "thoughtSignature": "S"},
        {"functionCall": {"name": "f", "args": {}, "id": "j"}},
    ]


def test_a_call_of_another_model_is_marked_as_one() -> None:
    message = assistant(tool_calls=[call(), call("j")])
    marked = "skip_thought_signature_validator"

    (sent,) = contents(message)
    assert [part.get("thoughtSignature") for part in sent["parts"]] == [marked, None]
    (sent,) = contents(message, model="gemini-2.5-pro")
    assert [part.get("thoughtSignature") for part in sent["parts"]] == [None, None]
    (sent,) = contents(message, unsigned_calls="send")
    assert "thoughtSignature" not in sent["parts"][0]
    (sent,) = contents(message, model="gemini-2.5-pro", unsigned_calls="mark")
    assert sent["parts"][0]["thoughtSignature"] == marked


@pytest.mark.parametrize(
    ("id", "model", "quirk", "sent"),
    [
        ("i", "gemini-3.1-pro-preview", "auto", True),
        ("i", "gemini-10-flash", "auto", True),
        ("i", "gemini-flash-latest", "auto", True),
        ("i", "gemini-2.5-pro", "auto", False),
        ("i", "publishers/google/models/gemini-2.0-flash", "auto", False),
        ("i", "gemini-2.5-pro", "yes", True),
        ("i", "gemini-3.6-flash", "no", False),
        ("seseragi_0", "gemini-3.6-flash", "auto", False),
        ("seseragi_4fJ9qXw0V1cT8mYbR2nZkQ_12", "gemini-3.6-flash", "yes", False),
        ("call_67055809", "gemini-3.6-flash", "auto", True),
        ("call_AbC", "gemini-3.6-flash", "auto", True),
    ],
)
def test_ids_are_sent_where_they_are_known(id: str, model: str, quirk: str, sent: bool) -> None:
    body = contents(assistant(tool_calls=[call(id)]), result("r", id), model=model, call_ids=quirk)

    (made,), (answered,) = body[0]["parts"], body[1]["parts"]
    expected = id if sent else None
    assert made["functionCall"].get("id") == expected
    assert answered["functionResponse"].get("id") == expected


@pytest.mark.parametrize(
    ("content", "response"),
    [
        ('{"a": 1}', {"a": 1}),
        ("sunny", {"result": "sunny"}),
        ("[1]", {"result": "[1]"}),
        ("5", {"result": "5"}),
        ("", {"result": ""}),
        ([said('{"a":'), said("1}")], {"a": 1}),
    ],
)
def test_a_result_is_an_object(content: Any, response: dict[str, Any]) -> None:
    sent = contents(assistant(tool_calls=[call()]), result(content))

    assert sent[1] == {
        "role": "user",
        "parts": [{"functionResponse": {"name": "f", "response": response, "id": "i"}}],
    }


def test_a_result_may_have_pictures() -> None:
    content = [said("a"), image("data:image/png;base64,AA==")]
    sent = contents(assistant(tool_calls=[call()]), result(content))

    (part,) = sent[1]["parts"]
    assert part["functionResponse"] == {
        "name": "f",
        "id": "i",
        "response": {"result": "a"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}],
    }


def test_a_result_of_no_call_is_said_by_the_user() -> None:
    (turn,) = contents(*HI, result("a", "x"))

    assert turn["parts"][1:] == [{"text": "Result of the tool call 'x':\n"}, {"text": "a"}]


def test_arguments_are_streamed_where_that_is_known() -> None:
    tools = [function("f")]
    asked = {"streamFunctionCallArguments": True}

    body = render({"tools": tools}, stream_arguments=True)
    assert body["toolConfig"] == {"functionCallingConfig": asked}
    body = render({"tools": tools, "tool_choice": "auto"}, stream_arguments=True)
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO", **asked}}
    assert "toolConfig" not in render({}, stream_arguments=True)
    assert "toolConfig" not in render({"tools": tools})


@pytest.mark.parametrize(
    ("effort", "model", "config"),
    [
        ("low", "gemini-3.6-flash", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("minimal", "gemini-flash-latest", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("xhigh", "gemini-3.1-pro", {"includeThoughts": True, "thinkingLevel": "XHIGH"}),
        ("none", "gemini-3.1-pro", {"thinkingLevel": "LOW"}),
        ("none", "gemini-3.8-flash", {"thinkingLevel": "LOW"}),
        ("none", "gemini-3.6-flash", {"thinkingLevel": "MINIMAL"}),
        ("none", "gemini-2.5-flash", {"thinkingBudget": 0}),
        ("none", "gemini-2.5-pro", {"thinkingBudget": 128}),
        ("minimal", "gemini-2.5-flash", {"includeThoughts": True, "thinkingBudget": 1024}),
        ("low", "gemini-2.5-flash", {"includeThoughts": True, "thinkingBudget": 1024}),
        ("medium", "gemini-2.5-flash", {"includeThoughts": True, "thinkingBudget": 8192}),
        ("high", "gemini-2.5-flash", {"includeThoughts": True, "thinkingBudget": 24576}),
        ("xhigh", "gemini-2.5-flash", {"includeThoughts": True, "thinkingBudget": 24576}),
    ],
)
def test_an_effort_is_a_level_or_a_budget(effort: str, model: str, config: Any) -> None:
    body = render({"reasoning_effort": effort}, model=model)

    assert body["generationConfig"] == {"thinkingConfig": config}


@pytest.mark.parametrize(
    ("effort", "model", "config", "told"),
    [
        ("max", "gemini-3.6-flash", "HIGH", "does not support reasoning_effort 'max': sent 'high'"),
        (
            "ultra",
            "gemini-latest",
            "HIGH",
            "does not support reasoning_effort 'ultra': sent 'high'",
        ),
        ("xhigh", "gemini-3.1-pro", "XHIGH", None),
        (
            *("none", "gemini-3.1-pro", "LOW"),
            "does not support reasoning_effort 'none': sent 'low'",
        ),
        ("none", "gemini-2.5-flash", 0, None),
        (
            *("none", "gemini-2.5-pro", 128),
            "does not support reasoning_effort 'none': sent a budget of 128 tokens",
        ),
        ("max", "gemini-2.5-pro", 24576, None),
        (
            *("ultra", "gemini-2.5-pro", 24576),
            "does not support reasoning_effort 'ultra': sent a budget of 24576 tokens",
        ),
    ],
)
def test_an_effort_that_it_does_not_know_is_the_nearest(
    effort: str, model: str, config: str | int, told: str | None
) -> None:
    request = {"messages": HI, "reasoning_effort": effort}
    parsed = parse_chat_request(json.dumps(request).encode())
    thinking = render_request(parsed, model=model).body["generationConfig"]["thinkingConfig"]

    assert config in (thinking.get("thinkingLevel"), thinking.get("thinkingBudget"))
    changes = [*render_request(parsed, model=model, quirks=Quirks()).changes]
    assert changes == ([] if told is None else [told])


def test_how_effort_is_said_may_be_set() -> None:
    for thinking, model in (("budget", "gemini-3.6-flash"), ("level", "gemini-2.5-pro")):
        body = render({"reasoning_effort": "high"}, model=model, thinking=thinking)
        config = body["generationConfig"]["thinkingConfig"]
        assert ("thinkingBudget" in config) == (thinking == "budget")
