"""What the demo's models say: requests to tokens. No bytes and no time here.

A text is in the language of the last user message, Japanese if that holds kana or kanji
and English otherwise. Which wording it is depends on the prompt alone.
"""

import re
from itertools import cycle, islice
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.json import encode as to_json

from .english import ENGLISH
from .japanese import JAPANESE
from .phrases import Phrases
from .prepared import Prepared, prepared_for
from .request import ApiError, DemoRequest
from .samples import sample_json
from .tools import MOST, chosen

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
"""Every model, with one line about it."""

LONG_PARAGRAPHS: Final = 60
MAX_QUOTE: Final = 60
MAX_TITLE: Final = 30
MAX_RESULT: Final = 200
MAX_RESULTS: Final = 8
AGENT_TOOLS: Final = 3
AGENT_INSTRUCTIONS: Final = 1000
"""So many tools, or characters of instructions: it is an agent that asks, and not a page."""
_TITLE: Final = re.compile(r"\btitles?\b|タイトル", re.IGNORECASE)
_WEATHER: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}

_JA: Final = "ぁ-ゖゝ-ヺー-ヿ々〆〇㐀-䶿一-鿿豈-\ufaffｦ-ﾟ\U00020000-\U0003ffff"
_JAPANESE: Final = re.compile(f"[{_JA}]")
# As tokenizers do: a word with the space before it, Japanese in ones and twos (particles
# on their own), punctuation and emoji in short runs. Every character is in some token.
_TOKEN: Final = re.compile(
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
    return tuple(_TOKEN.findall(text))


def answers(request: DemoRequest) -> list[Answer]:
    """Return an answer for every choice.

    Raises:
        ApiError: there is no such model, or it is the one that fails.
    """
    if request.model not in MODELS:
        names = ", ".join(MODELS)
        reason = f"The model {request.model!r} does not exist; models: {names}"
        raise ApiError(404, reason, param="model", code="model_not_found")
    if request.model == "demo-error":
        reason = "demo-error is overloaded, as it always is: that is what it is for"
        raise ApiError(503, reason, code="overloaded")
    phrases = JAPANESE if _JAPANESE.search(request.words) else ENGLISH
    kinds = len(phrases.variants)
    count = request.n or 1
    first = request.variant()
    # With many choices the wordings repeat; each is made once.
    made = [_answer(request, phrases, (first + i) % kinds) for i in range(min(count, kinds))]
    return [made[choice % kinds] for choice in range(count)]


def _answer(request: DemoRequest, phrases: Phrases, variant: int) -> Answer:
    quote = _quote(request.words, MAX_QUOTE, phrases) or "…"
    calls = _calls(request, phrases, quote)
    text = "" if calls else _text(request, phrases, variant, quote)
    thinks = request.model == "demo-reasoning"
    reasoning = _reasoning(request, phrases, quote) if thinks else ""
    text = _stopped(text, request.stops)
    if request.begun and text.startswith(request.begun):
        reasoning, text = "", text[len(request.begun) :]
    whole = Answer(
        tokens(reasoning),
        tokens(text),
        tuple(calls),
        "tool_calls" if calls else "stop",
    )
    return whole if request.budget is None else _limited(whole, request.budget)


def _reasoning(request: DemoRequest, phrases: Phrases, quote: str) -> str:
    prepared = _prepared(request)
    if prepared is not None and prepared.reasoning:
        return prepared.reasoning
    return phrases.reasoning.replace("{quote}", quote)


def _text(request: DemoRequest, phrases: Phrases, variant: int, quote: str) -> str:
    form = request.response_format
    if form is not None and form.json_schema is not None:
        schema = form.json_schema.schema or {}
        return sample_json(schema, quote, phrases.cities[0], optional=True)
    if form is not None and form.type == "json_object":
        language = "ja" if phrases is JAPANESE else "en"
        return to_json({"demo": True, "language": language, "quote": quote}).decode()
    if request.has_results:
        return phrases.results.replace("{results}", _results(request, phrases))
    if not request.tools and request.instructions and _asks_for_title(request):
        return phrases.title.replace("{quote}", _quote(request.words, MAX_TITLE, phrases) or "…")
    prepared = _prepared(request)
    if prepared is not None:
        return prepared.text
    if request.model == "demo-slow":
        return phrases.slow.replace("{quote}", quote)
    if request.model == "demo-long":
        return _long(phrases, variant)
    if request.model == "demo-tools" and request.tools and request.tool_choice != "none":
        return phrases.no_tool.replace("{quote}", quote)
    if len(request.tools or []) >= AGENT_TOOLS or request.instructions >= AGENT_INSTRUCTIONS:
        return phrases.brief.replace("{quote}", quote)
    return _usual(request, phrases, variant, quote)


def _prepared(request: DemoRequest) -> Prepared | None:
    """Return what is said to a prompt of the relay's own page, which comes without tools."""
    if request.model not in ("demo", "demo-reasoning", "demo-slow") or request.tools:
        return None
    return prepared_for(request.words)


def _asks_for_title(request: DemoRequest) -> bool:
    """Return whether an application wants a name for a conversation."""
    told = next(m.text for m in request.messages if m.role in ("system", "developer") and m.text)
    return _TITLE.search(told[:4000]) is not None


def _usual(request: DemoRequest, phrases: Phrases, variant: int, quote: str) -> str:
    opening = [reply for begin, reply in phrases.greetings if begin.match(request.words)][:1]
    if request.turn > 1:
        opening.append(phrases.turn.replace("{turn}", phrases.ordinal(request.turn)))
    wording = phrases.variants[variant]
    body = wording._replace(quote=wording.quote.replace("{quote}", quote))
    return "\n\n".join([*([" ".join(opening)] if opening else []), *body])


def _long(phrases: Phrases, variant: int) -> str:
    """Number the paragraphs, so that the eye sees what is missing."""
    sentences = cycle(phrases.sentences)
    for _ in range(5 * variant):
        next(sentences)
    paragraphs = []
    for number in range(1, LONG_PARAGRAPHS + 1):
        head = phrases.paragraph.replace("{number}", f"{number}/{LONG_PARAGRAPHS}")
        paragraphs.append(head + "".join(islice(sentences, 3)).rstrip())
    return "\n\n".join(paragraphs)


def _calls(request: DemoRequest, phrases: Phrases, quote: str) -> list[Call]:
    wanted = [(tool.function.name, tool.function.parameters or {}) for tool in chosen(request)]
    if _shows_a_call(request):
        wanted = [("get_weather", _WEATHER)] * (1 if request.parallel_tool_calls is False else MOST)
    return [
        Call(name, tokens(sample_json(parameters, quote, city)))
        for (name, parameters), city in zip(wanted, phrases.cities, strict=False)
    ]


def _shows_a_call(request: DemoRequest) -> bool:
    """Return whether it is a page that wants to see a tool call, and has no tools of its own."""
    asks = not request.tools and request.tool_choice != "none"
    plain = not request.instructions and request.response_format is None
    return request.model == "demo-tools" and asks and plain and not request.has_results


def _results(request: DemoRequest, phrases: Phrases) -> str:
    """List what the tools answered since the model called them."""
    names = {
        call.id: call.function.name
        for message in request.messages
        for call in message.tool_calls or []
        if call.function is not None
    }
    before, after = phrases.result
    return "\n".join(
        before
        + names.get(message.tool_call_id or "", "tool")[:MAX_QUOTE]
        + after
        + _quote(message.text, MAX_RESULT, phrases)
        for message in request.results[-MAX_RESULTS:]
    )


def _quote(text: str, most: int, phrases: Phrases) -> str:
    line = " ".join(text[: most * 20].split())
    if len(line) > most:
        line = line[: most - 1] + "…"
    if phrases is JAPANESE:
        return line.replace("「", "『").replace("」", "』")
    return line


def _stopped(text: str, stops: list[str]) -> str:
    return text[: min((text.index(stop) for stop in stops if stop in text), default=len(text))]


def _limited(answer: Answer, budget: int) -> Answer:
    """Keep the first tokens; thoughts count, as they do at providers."""
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
    return Answer(reasoning, text, tuple(calls), "length")
