"""What is sent to the Interactions API."""

from functools import partial
from typing import Any

import pytest

from app.errors import RequestError
from tests.dialects import rendering
from tests.dialects.gemini_interactions.written import (
    STEP,
    THOUGHT,
    answer,
    asked,
    end,
    ran,
    thought,
)
from tests.dialects.gemini_interactions.written import said as text_step
from tests.dialects.rendering import (
    HI,
    SOUND,
    assistant,
    call,
    file,
    function,
    image,
    part,
    result,
    said,
    user,
)
from tests.dialects.streams import play
from tests.dialects.test_turn import message_of
from tests.sdk.conversations import PDF, PICTURE, PNG

pytestmark = pytest.mark.pure

NEW, OLD = "gemini-3.8-flash", "gemini-2.5-flash"
MARK = {"type": "thought", "signature": "skip_thought_signature_validator"}
render = partial(rendering.render, "gemini_interactions", model=NEW)
rendered = partial(rendering.rendered, "gemini_interactions", model=NEW)
Json = dict[str, Any]


def steps(*messages: Json, model: str = NEW, **quirks: Any) -> Any:
    return render({"messages": list(messages)}, model=model, **quirks)["input"]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def step(kind: str, *content: Json) -> Json:
    return {"type": kind, "content": [*content]}


def called(id: str = "i", name: str = "f", **arguments: Any) -> Json:
    return {"type": "function_call", "id": id, "name": name, "arguments": arguments}


def resulted(value: Any, id: str = "i", name: str = "f", **more: Any) -> Json:
    return {"type": "function_result", "call_id": id, "name": name, "result": value, **more}


def opaque(format: str, data: str) -> Json:
    return part("opaque", format=format, data=data)


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
    assert ("a\n\nb", [step("user_input", text("hi"))]) == (
        body["system_instruction"],
        body["input"],
    )


def test_turns_of_one_role_are_one() -> None:
    assert steps(
        *HI,
        {"role": "user", "content": [said(""), said("again")]},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b", "refusal": "c"},
        {"role": "user", "content": ""},
        {"role": "user", "content": "d"},
    ) == [
        step("user_input", text("hi"), text("again")),
        step("model_output", text("a"), text("b"), text("c")),
        step("user_input", text("d")),
    ]


def test_the_last_turn_is_never_the_models() -> None:
    answered = rendered({"messages": [*HI, {"role": "assistant", "content": "a"}]})

    assert [step("user_input", text("Go on."))] == answered.body["input"][2:]
    assert ["does not allow a last message of the assistant: added 'Go on.'"] == [*answered.changes]


MEDIA: list[tuple[Json, Json]] = [
    (
        image(f"data:image/png;base64,{PNG}"),
        {"type": "image", "data": PNG, "mime_type": "image/png"},
    ),
    (image(PICTURE), {"type": "image", "uri": PICTURE, "mime_type": "image/png"}),
    (SOUND, {"type": "audio", "data": "x", "mime_type": "audio/wav"}),
    (
        file(file_data=PDF, filename="a.pdf"),
        {"type": "document", "data": PDF, "mime_type": "application/pdf"},
    ),
    (
        file(file_id="https://h/a.mp4"),
        {"type": "video", "uri": "https://h/a.mp4", "mime_type": "video/mp4"},
    ),
    *(
        (given, {"type": kind, "uri": "https://generativelanguage.googleapis.com/v1beta/files/a"})
        for given, kind in (
            (file(file_id="https://generativelanguage.googleapis.com/v1beta/files/a"), "document"),
            (image("https://generativelanguage.googleapis.com/v1beta/files/a"), "image"),
        )
    ),
]


@pytest.mark.parametrize(("given", "sent"), MEDIA, ids=range(len(MEDIA)))
def test_media_say_what_they_are(given: Json, sent: Json) -> None:
    assert [step("user_input", text("a"), sent)] == steps(user(said("a"), given))


def test_what_the_model_said_goes_back_in_its_order() -> None:
    """All steps of an answer but a thought's text, which only its signature stands for."""
    search = {"id": "s", "arguments": {"queries": ["q"]}, "signature": "2"}
    found = {"call_id": "s", "result": [{"search_suggestions": "<b>"}], "signature": "3"}
    sent = [
        thought("1", "Searching."),
        ran(1, "google_search_call", search),
        ran(2, "google_search_result", found),
        thought("4", index=3),
        text_step("I look. ", index=4),
        thought("5", index=5),
        asked(6, '{"city":"京都"}', id="a", name="weather"),
        asked(7, id="b", name="now"),
        end("requires_action"),
    ]
    message = message_of(play([answer(*sent)], dialect="gemini_interactions"))
    (hi,) = HI
    assert steps(hi, message, result("sunny", "a"), result("12:00", "b")) == [
        step("user_input", text("hi")),
        {"type": "thought", "signature": "1"},
        {"type": "google_search_call", **search},
        {"type": "google_search_result", **found},
        {"type": "thought", "signature": "4"},
        step("model_output", text("I look. ")),
        {"type": "thought", "signature": "5"},
        called("a", "weather", city="京都"),
        called("b", "now"),
        resulted("sunny", "a", "weather"),
        resulted("12:00", "b", "now"),
    ]


def test_signatures_of_others_are_not_sent() -> None:
    others = [{"format": "gemini.thought_signature", "data": "S"}]
    assert steps(
        assistant(
            part("reasoning", "t", signature="S", format="anthropic"),
            part("reasoning", "t", format=THOUGHT),
            opaque("gemini.part", "{}"),
            said("a"),
            tool_calls=[call(opaque=others)],
            reasoning_content="t",
        ),
        result("r"),
        model=OLD,
    ) == [step("model_output", text("a")), called(), resulted("r")]


def test_a_call_of_another_model_is_marked_as_one() -> None:
    unsigned = assistant(tool_calls=[call(), call("j")])
    signed = assistant(tool_calls=[call(opaque=[{"format": THOUGHT, "data": "S"}]), call("j")])
    calls = [called(), called("j")]

    assert [MARK, *calls] == steps(unsigned)
    assert calls == steps(unsigned, model=OLD)
    assert [MARK, *calls] == steps(unsigned, model=OLD, unsigned_calls="mark")
    assert calls == steps(unsigned, unsigned_calls="send")
    assert [{"type": "thought", "signature": "S"}, *calls] == steps(signed)


@pytest.mark.parametrize(
    "data", ["", "[]", "{", "{}", '{"type":1}', '{"type":"user_input"}', '{"type":"thought"}']
)
def test_a_step_that_is_no_tools_is_refused(data: str) -> None:
    where = r"messages\[0\].content\[0\].data: must be a tool's step"
    with pytest.raises(RequestError, match=where):
        steps(assistant(opaque(STEP, data)))


def test_results_are_texts_or_have_pictures() -> None:
    asked = assistant(tool_calls=[call(), call("j"), call("k")])
    picture = image(f"data:image/png;base64,{PNG}")
    sent = steps(
        asked,
        result([said("a"), said("b")]),
        {**result("no", "j"), "is_error": True},
        result([said("c"), picture], "k"),
    )
    shown = {"type": "image", "data": PNG, "mime_type": "image/png"}
    assert sent[4:] == [
        resulted("ab"),
        resulted("no", "j", is_error=True),
        resulted([text("c"), shown], "k"),
    ]


def test_pictures_follow_the_results_of_older_models() -> None:
    picture = image(f"data:image/png;base64,{PNG}")
    sent = steps(assistant(tool_calls=[call()]), result([said("c"), picture]), model=OLD)

    assert isinstance(sent[1]["result"], str)
    assert {"image"} <= {part["type"] for part in sent[2]["content"]}


def test_what_is_not_supported_is_said() -> None:
    given = {"reasoning_effort": "max", "service_tier": "scale", "tools": [function("f")]}
    assert [*rendered(given).changes] == [
        "does not support service_tier 'scale': dropped",
        "does not support reasoning_effort 'max': sent 'high'",
    ]
