"""The prompts of the relay's own page, and what the demo says to them."""

import re
from pathlib import Path

import pytest

from tests.demo.client import asked, stream

pytestmark = pytest.mark.pure

SCRIPT = (Path(__file__).parents[2] / "static" / "chat" / "prompts.js").read_text("utf-8")
SUGGESTED = re.findall(r"model: '([\w-]+)', text: '([^']+)'", SCRIPT)
RIVERS = re.findall(r"RIVER = LANGUAGE === 'ja' \? '([^']+)' : '([^']+)'", SCRIPT)[0]
ANSWERED = {"demo", "demo-reasoning", "demo-slow"}
KANA = re.compile("[ぁ-ヿ]")


@pytest.mark.parametrize(
    ("model", "prompt"),
    [*((model, text) for model, text in SUGGESTED if model in ANSWERED)]
    + [("demo", text) for text in RIVERS],
)
async def test_a_suggested_prompt_has_an_answer_of_its_own(model, prompt):
    streamed = await stream(asked(model, prompt))
    text = streamed.text()

    assert f"“{prompt}”" not in text
    assert f"「{prompt}」" not in text
    assert bool(KANA.search(prompt)) == (len(KANA.findall(text)) > 4)
    assert text == (await stream(asked(model, prompt, seed=7))).text()
    if model == "demo-reasoning":
        assert "goat" in (thought := streamed.text(key="reasoning_content")) or "ヤギ" in thought


async def test_answers_hold_what_a_page_has_to_draw():
    texts = [(await stream(asked(model, text))).text() for model, text in SUGGESTED if model in ANSWERED]  # fmt: skip
    together = "\n".join(texts)

    for mark in ("**", "`", "```js", "\n|", "\n- [x] ", "\n1. ", "\n> "):
        assert together.count(mark) >= 2, mark


async def test_both_languages_suggest_the_same_models():
    models = [model for model, _ in SUGGESTED]

    assert models[: len(models) // 2] == models[len(models) // 2 :]


@pytest.mark.parametrize(
    "prompt", ["how do Server-Sent Events work", " How do server-sent events work?\n"]
)
async def test_case_and_punctuation_do_not_count(prompt):
    assert "EventSource" in (await stream(asked(words=prompt))).text()


async def test_an_agent_is_not_given_a_prepared_answer():
    tool = {"type": "function", "function": {"name": "look"}}

    streamed = await stream(asked(words=SUGGESTED[0][1], tools=[tool], tool_choice="none"))

    assert SUGGESTED[0][1] in streamed.text()
