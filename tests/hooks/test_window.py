"""The window of an answer: what is passed on, whatever its pieces, and how much waits."""

import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from app.events import (
    Event,
    LogProbs,
    Notice,
    ProviderData,
    ProviderTool,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    Source,
    StreamEnd,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from app.generation.stages.check import CheckAnswer
from app.generation.stages.original import Original
from app.hooks.contract import Check, Function, Hook, Text, Verdict
from app.hooks.window import BEFORE, MAX_HELD, Window

pytestmark = pytest.mark.pure

Delta = ReasoningDelta | RefusalDelta | TextDelta | ToolCallDelta
WORD = re.compile(r"<[a-z]{1,30}>")


async def cross_out(check: Check) -> Verdict:
    return Verdict([WORD.sub("#", one.text) for one in check.texts])


def window_of(call: Function = cross_out, hold: int = 40) -> Window:
    return Window([Hook(name="h", call=call, hold=hold)], route="r", stream="s")


async def passed(window: Window, pieces: list[str]) -> list[str]:
    """Return the pieces that a window passes on."""
    events: list[Event] = [TextStart(0), *(TextDelta(0, piece) for piece in pieces)]
    found = []
    for event in [*events, TextEnd(0), StreamEnd("completed", "stop")]:
        found += await window.feed([event])
    return [event.text for event in found if isinstance(event, TextDelta)]


def cut(text: str, chance: random.Random) -> list[str]:
    pieces = []
    while text:
        size = chance.choice((1, 2, 3, 8, 50))
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@pytest.mark.parametrize("seed", range(40))
async def test_an_answer_is_the_same_in_whatever_pieces(seed):
    chance = random.Random(seed)
    words = ["<secret>", "<thisisaratherlongsecretword>", "and", "a", "<", ">", "\n", "<<b>>", "é"]
    text = " ".join(chance.choice(words) for _ in range(200))
    found = await passed(window_of(), cut(text, chance))
    assert "".join(found) == WORD.sub("#", text)


async def test_no_more_waits_than_twice_what_is_held():
    window, sent, shown = window_of(), 0, 0
    for _ in range(500):
        found = await window.feed([TextDelta(0, "abcd ")])
        sent, shown = sent + 5, shown + sum(len(e.text) for e in found if isinstance(e, TextDelta))
        assert sent - shown < 2 * 40


async def test_a_change_near_the_end_waits_for_its_end_but_not_for_ever():
    async def grow(check: Check) -> Verdict:
        return Verdict(["#" if "<" in one.text else one.text for one in check.texts])

    window = window_of(grow)
    sent = 0
    while not (found := await window.feed([TextDelta(0, "<" + "x" * 99)])):
        sent += 100
        assert sent <= MAX_HELD
    assert found == [TextDelta(0, "#")]


async def test_a_hook_sees_the_end_of_what_was_passed_on():
    seen: list[Text] = []

    async def look(check: Check) -> None:
        seen.extend(check.texts)

    await passed(window_of(look), ["word "] * 100)
    assert all(one.before.endswith("word ") for one in seen[1:])
    assert max(len(one.before) for one in seen) == BEFORE
    assert [one.final for one in seen] == [False] * (len(seen) - 1) + [True]


async def test_nothing_is_passed_on_before_the_first_checked_text():
    window = window_of()
    assert [] == await window.feed([StreamTarget("u", "m", 1), TextStart(0)])
    assert [] == await window.feed([TextDelta(0, "few")])
    found = await window.feed([TextEnd(0)])
    assert [type(event) for event in found] == [StreamTarget, TextStart, TextDelta, TextEnd]


async def test_a_signature_is_of_unchanged_reasoning_only():
    for text, signature in (("fine", "sig"), ("a <secret>", None)):
        events: list[Event] = [
            ReasoningStart(0),
            ReasoningDelta(0, text),
            ReasoningEnd(0, signature="sig"),
        ]
        *_, end = await window_of().feed(events)
        assert isinstance(end, ReasoningEnd)
        assert end.signature == signature


async def test_a_tool_of_the_provider_and_citations_are_no_way_around():
    raw = Raw("x", '{"text": "<secret>"}')
    tool = ProviderTool(1, "search", input={"q": "<secret>"}, output=["<secret>", 1], raw=raw)
    source = Source(url="u", cited_text="<secret>", start=0, end=9, block=0, raw=raw)
    events: list[Event] = [TextStart(0), TextDelta(0, "a <secret>"), source, TextEnd(0), tool]
    found = await window_of().feed([*events, ToolCallStart(2, "c", "f", raw=raw)])
    assert "secret" not in repr(found)
    assert ProviderTool(1, "search", input={"q": "#"}, output=["#", 1]) in found


async def wait_for_bracket(check: Check) -> Verdict:
    text = check.texts[-1].text
    return Verdict(hold=len(text) - text.index("<") if "<" in text and ">" not in text else 0)


HOOKS: dict[str, dict[str, Any]] = {
    "characters": {"call": cross_out, "hold": 40},
    "few characters": {"call": cross_out, "hold": 3},
    "as the hook says": {"call": wait_for_bracket, "hold": 5},
}


def answer_of(chance: random.Random) -> list[Event]:
    """Return an answer of two choices: reasoning and a text, a text, a call, and a refusal."""
    words = ["<secret>", "and ", "a. ", "< ", "> ", "\n", "。", "b! ", "many more words of it "]
    texts = ["".join(chance.choices(words, k=chance.choice((5, 50, 150)))) for _ in range(4)]
    reasoning, first, second, refusal = (cut(text, chance) for text in texts)
    one: list[Event] = [ReasoningStart(0), *(ReasoningDelta(0, piece) for piece in reasoning)]
    one += [ReasoningEnd(0, signature="s"), TextStart(1)]
    for piece in first:
        one += [TextDelta(1, piece), LogProbs(1, [piece])]
    one += [TextEnd(1), ToolCallStart(2, "c", "f")]
    one += [ToolCallDelta(2, '"<secret>"')] * 9 + [ToolCallEnd(2, '"<secret>"')]
    two: list[Event] = [TextStart(3, 1), *(TextDelta(3, piece, 1) for piece in second)]
    two += [TextEnd(3, 1), RefusalStart(4, 1), *(RefusalDelta(4, piece, 1) for piece in refusal)]
    two += [ProviderData(Raw("x", "{}"), 4, 1), RefusalEnd(4, 1)]
    events: list[Event] = [StreamTarget("u", "m", 1)]
    while one or two:
        part = one if not two or (one and chance.random() < 0.5) else two
        events.append(part.pop(0))
    return [*events, StreamEnd("completed", "stop")]


@pytest.mark.parametrize("rule", HOOKS)
@pytest.mark.parametrize("seed", range(10))
async def test_tokens_held_without_a_wait_release_the_same(rule, seed):
    chance, count = random.Random(seed), 0
    events = answer_of(chance)
    fed, held = window_of(**HOOKS[rule]), window_of(**HOOKS[rule])
    while events:
        size = chance.choice((1, 1, 2, 5))
        batch, events = events[:size], events[size:]
        expected = await fed.feed(batch)
        if held.hold(batch):
            count += 1
            found = []
            assert all(isinstance(e, Delta | LogProbs | ProviderData) for e in batch)
        else:
            found = await held.feed(batch)
        assert expected == found
    assert count > 9


class Nowhere:
    """A log that takes nothing at once."""

    def push(self, events: Sequence[Event]) -> bool:
        return False

    async def take(self, events: Sequence[Event]) -> bool:
        raise NotImplementedError

    async def tell(self, notice: Notice) -> None:
        raise NotImplementedError


async def test_what_is_held_without_a_wait_is_billed_and_nothing_else():
    window, original = window_of(), list[Event]()
    stage = Original(original, CheckAnswer(window, Nowhere()))
    few: list[Event] = [TextDelta(0, "b"), TextDelta(0, "c")]
    first, end = TextDelta(0, "a"), TextEnd(0)
    assert not stage.push([first])
    await window.feed([TextStart(0), first])
    for last in (end, TextDelta(1, "d"), TextDelta(0, "e" * 99), Notice("retry", "m")):
        assert not stage.push([*few, last])
    assert original == []
    assert stage.push(few)
    assert original == few
    assert [TextDelta(0, "abc"), end] == (await window.feed([end]))[1:]


@pytest.mark.parametrize("rule", HOOKS)
async def test_a_held_token_takes_few_calls(rule):
    window, token = window_of(**HOOKS[rule]), [TextDelta(0, "a")]
    await window.feed([TextStart(0), *token])
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_name] += 1

    sys.setprofile(profile)
    try:
        window.hold(token)
    finally:
        sys.setprofile(None)
    assert {"hold": 1, "_is_due": 1} == calls
