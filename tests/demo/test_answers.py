"""What the models say, read through a real client."""

import json
import re
from typing import Any

import pytest

from app.demo import MODELS
from app.demo.answers import tokens
from tests.demo.client import ENGLISH, JAPANESE, asked, post, stream

pytestmark = pytest.mark.pure

TALKING = [name for name in MODELS if name not in ("demo-error", "demo-tools")]
KANA = re.compile("[ぁ-ヿ]")


@pytest.mark.parametrize("model", TALKING)
@pytest.mark.parametrize("words", [ENGLISH, JAPANESE])
async def test_every_model_answers_in_the_language_of_the_prompt(model, words):
    streamed = await stream(asked(model, words))

    assert bool(KANA.search(streamed.text())) == (words == JAPANESE)


async def test_the_language_is_that_of_the_last_user_message():
    messages = [
        {"role": "system", "content": "日本語で答えてください"},
        {"role": "user", "content": "こんにちは"},
        {"role": "assistant", "content": "こんにちは！"},
        {"role": "user", "content": [{"type": "text", "text": "Now in English"}]},
    ]

    text = (await stream(asked(messages=messages))).text()

    assert not KANA.search(text)
    assert "“Now in English”" in text


@pytest.mark.parametrize("words", [ENGLISH, JAPANESE])
async def test_demo_is_honest_quotes_and_has_a_list_code_and_emoji(words):
    streamed = await stream(asked(words=words))
    text = streamed.text()

    assert "Seseragi" in text
    assert "モデル" in text if words == JAPANESE else "no model" in text.lower()
    assert words in text
    assert re.search(r"^- ", text, re.MULTILINE)
    assert text.count("```") == 2
    assert "🌊" in text
    assert 120 <= len(streamed.deltas()) <= 230


async def test_a_long_message_is_quoted_in_one_short_line():
    text = (await stream(asked(words="line\r\n\u2028" * 100))).text()

    quote = re.search("“(.*)”", text)
    assert quote is not None
    assert len(quote[1]) == 60
    assert quote[1].endswith("…")


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "Be brief"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}],
    ],
)
async def test_a_request_without_words_is_answered(messages):
    assert "“…”" in (await stream(asked(messages=messages))).text()


@pytest.mark.parametrize("words", [ENGLISH, JAPANESE])
async def test_demo_reasoning_thinks_before_it_answers(words):
    streamed = await stream(asked("demo-reasoning", words))
    deltas = streamed.deltas()
    thoughts = [bool(delta.get("reasoning_content")) for delta in deltas[1:-1]]

    assert thoughts.count(True) >= 60
    assert thoughts == sorted(thoughts, reverse=True)
    assert deltas[0]["content"] is None
    assert all({"content", "reasoning_content"} <= delta.keys() for delta in deltas[:-1])
    assert words in streamed.text(key="reasoning_content")


@pytest.mark.parametrize(("words", "cities"), [(ENGLISH, "Tokyo Kyoto"), (JAPANESE, "東京 京都")])
async def test_demo_tools_asks_for_the_weather_when_it_has_no_tools(words, cities):
    streamed = await stream(asked("demo-tools", words))
    calls = streamed.calls()

    assert [call["name"] for call in calls] == ["get_weather", "get_weather"]
    assert [call["arguments"] for call in calls] == [{"city": city} for city in cities.split()]
    assert len({call["id"] for call in calls}) == 2
    assert streamed.text() == ""
    assert streamed.finish_reasons() == ["tool_calls"]


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [
    tool("search", query={"type": "string"}, limit={"type": "integer"}),
    tool("convert", unit={"enum": ["°C", "°F"]}, exact={"type": "boolean"}),
    tool("never"),
]


async def test_demo_tools_calls_the_first_two_tools_with_fitting_arguments():
    streamed = await stream(asked("demo-tools", tools=TOOLS))

    assert [(call["name"], call["arguments"]) for call in streamed.calls()] == [
        ("search", {"query": ENGLISH, "limit": 3}),
        ("convert", {"unit": "°C", "exact": True}),
    ]
    pieces = [piece for delta in streamed.deltas() for piece in delta.get("tool_calls", [])]
    assert len(pieces) > 12
    assert [piece["index"] for piece in pieces] == sorted(piece["index"] for piece in pieces)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"parallel_tool_calls": False}, ["search"]),
        ({"tool_choice": {"type": "function", "function": {"name": "never"}}}, ["never"]),
        ({"tool_choice": "required"}, ["search", "convert"]),
        ({"tool_choice": "none"}, []),
    ],
)
async def test_demo_tools_obeys_the_tool_choice(fields, names):
    streamed = await stream(asked("demo-tools", tools=TOOLS, **fields))

    assert [call["name"] for call in streamed.calls()] == names
    assert bool(streamed.text()) == (not names)


@pytest.mark.parametrize("words", ["What is the weather?", "天気は？"])
async def test_demo_tools_answers_with_the_results(words):
    calls = [
        {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}},
        {"id": "x", "type": "custom"},
    ]
    messages = [
        {"role": "user", "content": words},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": '{"sky": "clear {results}"}'},
        {"role": "tool", "tool_call_id": "b", "content": "late"},
    ]

    streamed = await stream(asked("demo-tools", messages=messages))

    assert re.search(r'- \{"sky": "clear \{results\}"\}\n', streamed.text())
    assert re.search(r"- late\n", streamed.text())
    assert streamed.calls() == []
    assert streamed.finish_reasons() == ["stop"]


async def test_demo_slow_is_short():
    assert len((await stream(asked("demo-slow"))).deltas()) < 60


@pytest.mark.parametrize("words", [ENGLISH, JAPANESE])
async def test_demo_long_numbers_its_paragraphs(words):
    streamed = await stream(asked("demo-long", words))

    numbers = re.findall(r"^[\[【](\d+)/50[\]】] ?\S", streamed.text(), re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, 51))
    assert 2500 < len(streamed.deltas()) < 3500


async def test_demo_error_fails_before_the_first_byte():
    response = await post(asked("demo-error"))

    assert response.status_code == 503
    assert response.headers["retry-after"] == "2"
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}
    assert response.json()["error"]["type"] == "server_error"


@pytest.mark.parametrize("model", ["demo", "demo-reasoning"])
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_a_limit_cuts_the_answer_and_thoughts_count(model, name):
    whole = await stream(asked(model))
    cut = await stream(asked(model) | {name: 5})

    assert cut.finish_reasons() == ["length"]
    assert cut.deltas()[:-1] == whole.deltas()[:6]
    assert (cut.text() == "") == (model == "demo-reasoning")


async def test_a_limit_that_is_just_enough_does_not_cut():
    size = len((await stream(asked())).deltas()) - 2

    assert (await stream(asked(max_tokens=size))).finish_reasons() == ["stop"]
    assert (await stream(asked(max_tokens=size - 1))).finish_reasons() == ["length"]


@pytest.mark.parametrize("model", ["demo", "demo-reasoning", "demo-long"])
async def test_an_answer_that_was_cut_off_goes_on(model):
    whole = await stream(asked(model))
    begun = whole.text()[:100].rstrip()
    request = asked(model)
    request["messages"] += [{"role": "assistant", "content": begun}]
    rest = await stream(request)

    assert whole.text() == begun + rest.text()
    assert "" == rest.text(key="reasoning_content")


async def test_a_limit_cuts_tool_calls_in_their_arguments():
    streamed = await stream(asked("demo-tools", max_tokens=3))

    pieces = [piece for delta in streamed.deltas() for piece in delta.get("tool_calls", [])]
    assert {piece["index"] for piece in pieces} == {0}
    assert "".join(piece["function"]["arguments"] for piece in pieces) == '{"city":"'
    assert streamed.finish_reasons() == ["length"]


@pytest.mark.parametrize("stop", ["```", ["never", "```", ""]])
async def test_a_stop_sequence_ends_the_text_before_it(stop):
    whole = (await stream(asked())).text()
    streamed = await stream(asked(stop=stop))

    assert streamed.text() == whole[: whole.index("```")]
    assert streamed.finish_reasons() == ["stop"]


async def test_choices_come_interleaved():
    streamed = await stream(asked(n=4))
    order = [one["index"] for chunk in streamed.chunks for one in chunk["choices"]]

    assert order[:8] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert {streamed.text(choice) for choice in range(4)} == {(await stream(asked())).text()}
    assert streamed.finish_reasons() == ["stop"] * 4


@pytest.mark.parametrize("words", [ENGLISH, JAPANESE])
async def test_a_json_object_is_given_on_request(words):
    streamed = await stream(asked(words=words, response_format={"type": "json_object"}))

    language = "ja" if words == JAPANESE else "en"
    assert json.loads(streamed.text()) == {"demo": True, "language": language, "quote": words}


async def test_a_structured_answer_has_the_properties_of_the_schema():
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "stars": {"type": "integer"}},
    }
    form = {"type": "json_schema", "json_schema": {"name": "review", "schema": schema}}

    text = (await stream(asked(response_format=form))).text()

    assert json.loads(text) == {"title": ENGLISH, "stars": 3}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " a  b\n\n\tc ",
        "日本語の、文章です。",
        "é ñandú привет 👩‍💻🇯🇵",
        "x" * 40,
        "\u2028\x00𠮷",
    ],
)
def test_tokens_put_together_are_the_text(text):
    assert "".join(tokens(text)) == text
