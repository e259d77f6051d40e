"""Calls and results as upstreams take them: what follows what, and under which ids."""

import json
import re
from typing import Any

import pytest

from app.dialects.answering.ids import is_generated, make_call_id, pack_id, show_call, unpack_id
from app.dialects.writing.exchange import Exchange, ExchangeForm, arrange
from app.requests import ImagePart, TextPart, parse_chat_request

pytestmark = pytest.mark.pure

ANY = ExchangeForm()
CLAUDE = ExchangeForm(re.compile(r"[a-zA-Z0-9_-]+"), unique=True)
NINE = ExchangeForm(re.compile(r"[a-zA-Z0-9]{9}"), short=True)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
ASK = {"role": "user", "content": "ask"}
SYSTEM = {"role": "system", "content": "s"}
LATER = {"role": "user", "content": "later"}


def called(*ids: str, **more: Any) -> dict[str, Any]:
    calls = [{"id": one, "function": {"name": "f", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "tool_calls": calls, **more}


def result(call: str, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": content}


def fit(messages: list[dict[str, Any]], form: ExchangeForm = ANY) -> Exchange:
    asked = parse_chat_request(json.dumps({"messages": messages}).encode())
    return arrange(asked.messages, form)


def shape(found: Exchange) -> list[str]:
    """Say the messages in short: u, s, a, a calls, r and the id of a call."""
    said = []
    for message in found.messages:
        calls = getattr(message, "tool_calls", None)
        told = getattr(message, "tool_call_id", None)
        role = str(message.__struct_config__.tag)[0]
        said.append(f"r:{told}" if told else role + "".join(f":{call.id}" for call in calls or ()))
    return said


NO_RESULT = "does not allow a tool call without a result: added a placeholder"
NO_CALL = "does not allow a tool result without its call: sent as the user's text"
ORDERS: dict[str, tuple[list[dict[str, Any]], list[str], tuple[str, ...]]] = {
    "as it is": ([ASK, called("a"), result("a"), LATER], ["u", "a:a", "r:a", "u"], ()),
    "two at once": ([ASK, called("a", "b"), result("b"), result("a")], ["u", "a:a:b", "r:b", "r:a"], ()),
    "one after the other": ([called("a"), result("a"), called("b"), result("b")], ["a:a", "r:a", "a:b", "r:b"], ()),
    "two messages of one turn": ([called("a"), called("b"), result("a"), result("b")], ["a:a", "a:b", "r:a", "r:b"], ()),
    "a result that comes late": ([called("a"), LATER, SYSTEM, result("a"), ASK], ["a:a", "r:a", "u", "s", "u"], ()),
    "interrupted": ([called("a"), LATER], ["a:a", "r:a", "u"], (NO_RESULT,)),
    "interrupted within": ([called("a", "b"), result("b"), LATER], ["a:a:b", "r:b", "r:a", "u"], (NO_RESULT,)),
    "interrupted twice": ([called("a"), LATER, called("b"), LATER], ["a:a", "r:a", "u", "a:b", "r:b", "u"], (NO_RESULT,)),
    "nothing follows yet": ([ASK, called("a")], ["u", "a:a"], ()),
    "a beginning that is gone": ([result("a"), LATER, called("b"), result("b")], ["u", "u", "a:b", "r:b"], (NO_CALL,)),
    "a second result": ([called("a"), result("a"), result("a")], ["a:a", "r:a", "u"], (NO_CALL,)),
    "one id in two turns": ([called("0"), LATER, called("0"), result("0")], ["a:0", "r:0", "u", "a:0", "r:0"], (NO_RESULT,)),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_results_follow_their_calls(name: str) -> None:
    given, expected, told = ORDERS[name]
    found = fit(given)

    assert shape(found) == expected
    assert found.changes == told
    again = arrange(found.messages, ANY)
    assert (again.messages, again.changes) == (found.messages, ())


def test_a_conversation_without_calls_is_not_touched() -> None:
    asked = parse_chat_request(json.dumps({"messages": [SYSTEM, ASK]}).encode())

    assert arrange(asked.messages, CLAUDE).messages is asked.messages


def test_the_provider_may_know_a_call_that_is_not_there() -> None:
    found = fit([result("a")], ExchangeForm(stray_results=True))

    assert (shape(found), found.changes) == (["r:a"], ())


def test_images_are_shown_by_the_user_after_all_results_of_the_turn() -> None:
    text = {"type": "text", "text": "seen"}
    form = ExchangeForm(images=False)
    turn = [called("a", "b"), result("a", [text, IMAGE]), result("b", [IMAGE])]
    found = fit([*turn, LATER], form)
    first, second, user = found.messages[1:]

    assert shape(found) == ["a:a:b", "r:a", "r:b", "u"]
    assert first.content == "seen\n[Its images are in the next message.]"
    assert second.content == "[Its images are in the next message.]"
    assert [type(part).__name__ for part in user.content or ()] == [
        *("TextPart", "ImagePart", "TextPart", "ImagePart", "TextPart")
    ]
    assert shape(fit([*turn, called("c")], form)) == ["a:a:b", "r:a", "r:b", "u", "a:c"]
    assert shape(fit([*turn, SYSTEM], form)) == ["a:a:b", "r:a", "r:b", "u", "s"]
    assert shape(fit(turn, form)) == ["a:a:b", "r:a", "r:b", "u"]
    assert fit(turn).messages[1].content != first.content


def test_an_image_that_cannot_be_fetched_is_named() -> None:
    url = {"type": "image_url", "image_url": {"url": "https://a.example/i.png"}}
    found = fit([called("a"), result("a", [url, IMAGE])], ExchangeForm(links=False))
    told = found.messages[1].content
    assert isinstance(told, list)
    first, second = told

    assert first == TextPart("[image: https://a.example/i.png]")
    assert isinstance(second, ImagePart)
    assert found.changes == ("does not support image URLs in a tool result: sent the URL as text",)


def test_a_model_that_takes_no_prefill_is_asked_to_go_on() -> None:
    said = {"role": "assistant", "content": "I"}
    form = ExchangeForm(prefill=False)

    assert shape(fit([ASK, said], form)) == ["u", "a", "u"]
    assert "does not allow a last message of the assistant" in fit([ASK, said], form).changes[0]
    assert shape(fit([ASK, said])) == ["u", "a"]
    assert shape(fit([ASK, called("a")], form)) == ["u", "a:a"]


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("I am ", ["I am"]),
        ("I\n am", ["I\n am"]),
        (" \n", []),
        ([{"type": "text", "text": "I "}, {"type": "text", "text": "am\t"}], ["I ", "am"]),
        ([{"type": "text", "text": "I "}, {"type": "text", "text": "\u3000"}], ["I "]),
    ],
)
def test_what_a_model_goes_on_with_ends_in_no_space_where_that_is_refused(
    content: Any, sent: list[str]
) -> None:
    said = {"role": "assistant", "content": content}
    found = fit([ASK, said], ExchangeForm(trailing_space=False))
    told = [message.content for message in found.messages[1:]]
    parts = told[0] if told and isinstance(told[0], list) else told

    assert sent == [part.text if isinstance(part, TextPart) else part for part in parts]
    assert bool(found.changes) == (content != "I\n am")
    assert fit([ASK, said]).changes == ()
    assert fit([said, LATER], ExchangeForm(trailing_space=False)).changes == ()


ODD = ["functions.get_weather:0", "functions_get_weather_0", "functions.get_weather_0", "é", "é?"]


@pytest.mark.parametrize("form", [CLAUDE, NINE], ids=["claude", "nine"])
def test_ids_that_a_format_cannot_say_are_others_and_none_is_another_ones(
    form: ExchangeForm,
) -> None:
    turns = [turn for one in ODD for turn in (called(one), result(one))]
    found = shape(fit(turns, form))
    sent = [said.removeprefix("a:") for said in found[::2]]

    assert [said.removeprefix("r:") for said in found[1::2]] == sent
    assert all(form.ids.fullmatch(one) for one in sent)
    assert len({*sent}) == len(ODD)
    assert shape(fit(turns[:2], form)) == found[:2]


def test_an_id_of_two_turns_is_two_where_ids_are_unique() -> None:
    turns = [called("0"), result("0"), called("0"), result("0"), called("0"), LATER]
    first, _, second, told, third, *_ = shape(fit(turns, CLAUDE))

    assert first == "a:0"
    assert told.removeprefix("r:") == second.removeprefix("a:")
    assert len({first, second, third}) == 3
    assert shape(fit(turns, NINE))[0] == shape(fit(turns, NINE))[2]


def test_the_work_grows_with_the_conversation_and_no_faster() -> None:
    """Equal ids are the worst case: each is looked up, and none is tried again."""
    tried = []

    class Counting:
        def fullmatch(self, text: str) -> None:
            tried.append(text)

    form = ExchangeForm(Counting(), unique=True)  # type: ignore[arg-type]  # a pattern that counts
    counts = []
    for size in (50, 100):
        tried.clear()
        turns = [turn for _ in range(size) for turn in (called("0"), result("0"))]
        assert len({*shape(fit(turns, form))[::2]}) == size
        counts.append(len(tried))

    assert counts == [51, 101]  # once more where it is found that they are equal


IDS = [
    "call_67055809",
    "functions.get_weather:0",
    "get_weather:0",
    "é",
    "a b",
    "x" * 500,
    "=",
    "a=",
]


@pytest.mark.parametrize("known", [*IDS, "seseragi-YQ", "seseragi-", pack_id("é"), "", "a-b_c"])
def test_a_packed_id_is_read_back(known: str) -> None:
    shown = pack_id(known)

    assert re.fullmatch(r"[a-zA-Z0-9_-]+", shown)
    assert unpack_id(shown) == known


@pytest.mark.parametrize("junk", ["seseragi-=", "seseragi-A", "seseragi-_w", "seseragi-é", "other"])
def test_what_was_not_packed_is_as_it_is(junk: str) -> None:
    assert unpack_id(junk) == junk


def test_only_the_relays_own_ids_are_made_up() -> None:
    made = make_call_id(3)
    shown = show_call("st_4fJ9qXw0V1cT8mYbR2nZkQ", made)

    assert is_generated(made)
    assert is_generated(shown)
    assert show_call("st_4fJ9qXw0V1cT8mYbR2nZkQ", shown) == shown != made
    assert shown != show_call("st_of_the_next_answer", made)
    assert len(shown) <= 40
    assert pack_id(shown) == shown
    for known in (*IDS, "call_0", "call_1"):
        assert not is_generated(known)
        assert show_call("st_4fJ9qXw0V1cT8mYbR2nZkQ", known) == known
