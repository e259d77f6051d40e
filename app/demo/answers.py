"""The answers of the demo models: requests to tokens, without bytes and time.

A text is in the language of the last user message: Japanese if that has kana or kanji, and
English otherwise.
"""

import re
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.json import encode as to_json

from .request import ApiError, DemoRequest
from .sample_calls import MOST, chosen, sample_json
from .texts import ENGLISH, JAPANESE, Texts

MODELS: Final[dict[str, str]] = {
    "demo": "Answers with text, emoji and code, in English or Japanese",
    "demo-reasoning": "Thinks first, then answers",
    "demo-tools": "Calls up to two of the request's harmless tools, or get_weather if it has none",
    "demo-slow": "First token after 3 seconds, then four tokens a second",
    "demo-error": "Fails with HTTP 503 before the first byte",
    "demo-drop": "Loses the connection in the middle of a character",
    "demo-long": "Some 3,000 tokens in numbered paragraphs, at 200 tokens a second",
    "demo-pause": "Ten tokens, four minutes of silence, and the rest",
}
"""The chat models, with one line about each."""

LONG_PARAGRAPHS: Final = 50
MAX_QUOTE: Final = 60
MAX_RESULT: Final = 200
MAX_RESULTS: Final = 8
AGENT_TOOLS: Final = 3
AGENT_INSTRUCTIONS: Final = 1000
"""From so many tools, or characters of instructions, the client is taken for an agent."""
_WEATHER: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}

_JA: Final = "ぁ-ゖゝ-ヺー-ヿ々〆〇㐀-䶿一-鿿豈-\ufaffｦ-ﾟ\U00020000-\U0003ffff"
# Compiled when the demo is first asked: both take a tenth of the time in which a relay starts.
_JAPANESE: Final = f"[{_JA}]"
# Like tokenizers: a word with the space before it, Japanese in ones and twos (particles
# on their own), punctuation and emoji in short runs. Every character is in some token.
_TOKEN: Final = (
    rf" ?[A-Za-z0-9_]{{1,12}}| ?[はがをにでともの]| ?[{_JA}]{{1,2}}| ?[^\w\s]{{1,3}}|\s+|\w{{1,4}}"
)


class Call(NamedTuple):
    """A tool call, its arguments in pieces of JSON text."""

    name: str
    arguments: tuple[str, ...]


class Answer(Struct, frozen=True):
    """One choice, cut into tokens."""

    reasoning: tuple[str, ...]
    text: tuple[str, ...]
    calls: tuple[Call, ...]
    finish_reason: str

    @property
    def size(self) -> int:
        return len(self.reasoning) + len(self.text) + sum(len(c.arguments) for c in self.calls)


def tokens(text: str) -> tuple[str, ...]:
    """Cut a text into tokens."""
    return tuple(re.compile(_TOKEN).findall(text))


def answer(request: DemoRequest) -> Answer:
    """Return the answer, which is the same for every choice.

    Raises:
        ApiError: the model is unknown, or the one that fails.
    """
    if request.model not in MODELS:
        names = ", ".join(MODELS)
        reason = f"The model {request.model!r} does not exist; models: {names}"
        raise ApiError(404, reason, code="model_not_found")
    if request.model == "demo-error":
        raise ApiError(503, "demo-error is always overloaded", code="overloaded")
    texts = JAPANESE if re.compile(_JAPANESE).search(request.words) else ENGLISH
    quote = _quote(request.words, MAX_QUOTE, texts) or "…"
    if calls := _calls(request, texts, quote):
        whole = Answer((), (), calls=tuple(calls), finish_reason="tool_calls")
    else:
        text, reasoning = _text(request, texts, quote)
        text = text[
            : min((text.index(stop) for stop in request.stops if stop in text), default=len(text))
        ]
        if request.begun and text.startswith(request.begun):
            text, reasoning = text[len(request.begun) :], ""
        whole = Answer(tokens(reasoning), tokens(text), calls=(), finish_reason="stop")
    return whole if request.budget is None else _limited(whole, request.budget)


def _text(request: DemoRequest, texts: Texts, quote: str) -> tuple[str, str]:
    """Return the text, and the reasoning before it."""
    thinks = request.model == "demo-reasoning"
    reasoning = texts.reasoning.replace("{quote}", quote) if thinks else ""
    form = request.response_format
    if form is not None and form.json_schema is not None:
        schema = form.json_schema.schema or {}
        return sample_json(schema, quote, texts.cities[0], optional=True), reasoning
    if form is not None and form.type == "json_object":
        language = "ja" if texts is JAPANESE else "en"
        return to_json({"demo": True, "language": language, "quote": quote}).decode(), reasoning
    if request.results:
        return texts.results.replace("{results}", _results(request, texts)), reasoning
    if request.model == "demo-long":
        numbers = range(1, LONG_PARAGRAPHS + 1)
        paragraphs = (f"[{number}/{LONG_PARAGRAPHS}] {texts.paragraph}" for number in numbers)
        return "\n\n".join(paragraphs), reasoning
    template = texts.brief if request.model == "demo-slow" or _is_agent(request) else texts.usual
    return template.replace("{quote}", quote), reasoning


def _is_agent(request: DemoRequest) -> bool:
    tools = len(request.tools or [])
    return tools >= AGENT_TOOLS or len(request.instructions) >= AGENT_INSTRUCTIONS


def _calls(request: DemoRequest, texts: Texts, quote: str) -> list[Call]:
    wanted = [(tool.function.name, tool.function.parameters or {}) for tool in chosen(request)]
    if _needs_sample_tool(request):
        wanted = [("get_weather", _WEATHER)] * (1 if request.parallel_tool_calls is False else MOST)
    return [
        Call(name, tokens(sample_json(parameters, quote, city)))
        for (name, parameters), city in zip(wanted, texts.cities, strict=False)
    ]


def _needs_sample_tool(request: DemoRequest) -> bool:
    """Return whether demo-tools calls a tool of its own, for a page that has none."""
    is_plain = not request.tools and not request.instructions and request.response_format is None
    wants = request.model == "demo-tools" and request.tool_choice != "none"
    return wants and is_plain and not request.results


def _results(request: DemoRequest, texts: Texts) -> str:
    """List the results of the last tool calls."""
    results = request.results[-MAX_RESULTS:]
    return "\n".join(f"- {_quote(result.text, MAX_RESULT, texts)}" for result in results)


def _quote(text: str, most: int, texts: Texts) -> str:
    """Return the start of a text in one line."""
    line = " ".join(text[: most * 20].split())
    if len(line) > most:
        line = line[: most - 1] + "…"
    return line.replace("「", "『").replace("」", "』") if texts is JAPANESE else line


def _limited(answer: Answer, budget: int) -> Answer:
    """Return the first tokens; reasoning counts, as it does at providers."""
    if answer.size <= budget:
        return answer
    reasoning = answer.reasoning[:budget]
    budget -= len(reasoning)
    text = answer.text[:budget]
    budget -= len(text)
    calls = []
    for call in answer.calls:
        if budget > 0:
            calls.append(Call(call.name, call.arguments[:budget]))
            budget -= len(call.arguments)
    return Answer(reasoning, text, calls=tuple(calls), finish_reason="length")
