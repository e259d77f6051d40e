"""Seeded changes to JSON and to bytes, for fuzzing: the same seed gives the same inputs."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

TEXTS: Sequence[str] = (
    *("", " ", "\n", "\x00", "é", "せ", "😀", "\ufeff", "\u2028", "a" * 300),
    *("null", "true", "[]", "{}", '{"a": 1}', '{"a": "\\ud800"}', '{"a": 1e999, "b": NaN}', "[" * 90),
    *('{"a":' * 600, "9" * 5000, "user", "assistant", "tool", "system", "developer", "function"),
    *("text", "image", "image_url", "file", "input_audio", "refusal", "reasoning", "opaque"),
    *("tool_use", "tool_result", "thinking", "redacted_thinking", "document", "function_call"),
    *("function_call_output", "item_reference", "compaction", "step-start", "dynamic-tool", "tool-f"),
    *("output-available", "output-error", "approval-responded", "data-x", "source-url"),
    *("gemini.part", "gemini.thought_signature", "anthropic", "anthropic.compaction"),
    *("anthropic.redacted_thinking", "openai.custom_tool_call", "seseragi.", "seseragi.e30="),
    *("https://[", "https://generativelanguage.googleapis.com/v1/files/a", "gs://b/c.pdf", "s3://a.png"),
    *("data:image/png;base64,AA==", "data:text/plain;a=b;base64,/w==", "data:,", "data:a/b;base64,"),
    *("call_0", "call_st_4fJ9qXw0V1cT8mYbR2nZkQ_1", "none", "auto", "required", "json_schema"),
)  # fmt: skip

VALUES: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1),
    *(10**300, [], {}, [[]], [{}], {"": {}}, [None], {"a": None}, [[[[[[1]]]]]]),
)

RAW: Sequence[bytes] = (
    *(b"1e999", b"-1e999", b"NaN", b"Infinity", b"-", b"01", b"9" * 5000, b"1" * 400 + b".5"),
    *(rb'"\ud800"', rb'"\udc00\ud800"', rb'"\ud83d\ude00"', rb'"\x"', b'"\xff"', b'"\xed\xa0\x80"'),
    *(b'"\x00"', b'"', b"[" * 600 + b"]" * 600, b"[" * 600, b"\xef\xbb\xbf", b"/**/", b"'a'"),
    *(b"[" + b"[]," * 300 + b"1]", b"{" * 40, b'{"a":1,"a":2}', b"tru", b"\\", b"\x1b[31m"),
)  # fmt: skip

MAX_VALUES = 400
"""In a document that is still changed: it may become 10 times as large."""

_PLACE = "\ue000"
"""Where raw bytes are put into a document."""


def mutate(corpus: Sequence[Any], generator: random.Random) -> bytes:
    """Return a changed document of a corpus, as JSON, or as what nearly is."""
    document = json.loads(json.dumps(generator.choice(corpus)))
    for _ in range(generator.choice((1, 1, 2, 3, 6))):
        if sum(1 for _ in walk(document)) < MAX_VALUES:
            document = change(document, corpus, generator)
    raw = generator.random() < 0.3
    if raw:
        document = replace(document, _PLACE, generator)
    plain = generator.random() < 0.5
    body = json.dumps(document, ensure_ascii=plain).encode(errors="surrogatepass")
    if raw:
        place = json.dumps(_PLACE, ensure_ascii=plain).encode()
        body = body.replace(place, generator.choice(RAW))
    if generator.random() < 0.1:
        body = damage(body, generator)
    return body


def change(document: Any, corpus: Sequence[Any], generator: random.Random) -> Any:
    """Return a document with one thing changed somewhere in it."""
    way = generator.randrange(7)
    if way == 0:
        return replace(document, generator.choice(TEXTS), generator)
    if way == 1:
        return replace(document, generator.choice(VALUES), generator)
    if way == 2:
        return replace(document, pick(generator.choice(corpus), generator), generator)
    containers = [one for one in walk(document) if isinstance(one, dict | list) and one]
    if not containers:
        return document
    container = generator.choice(containers)
    if isinstance(container, list):
        place = generator.randrange(len(container))
        if way == 3:
            del container[place]
        elif way == 4:
            container.insert(place, pick(document, generator))
        elif way == 5:
            container *= generator.choice((2, 3, 10))
        else:
            generator.shuffle(container)
        return json.loads(json.dumps(document))
    name = generator.choice(sorted(container))
    if way == 3:
        del container[name]
    elif way == 4:
        container[generator.choice(TEXTS)] = container[name]
    elif way == 5:
        container[generator.choice(names(corpus))] = pick(document, generator)
    else:
        container[generator.choice(names(corpus))] = container.pop(name)
    return json.loads(json.dumps(document))


def replace(document: Any, value: Any, generator: random.Random) -> Any:
    """Return a document with a copy of a value at a place that is picked."""
    value = json.loads(json.dumps(value))
    places = [
        (one, key)
        for one in walk(document)
        if isinstance(one, dict | list)
        for key in (one if isinstance(one, dict) else range(len(one)))
    ]
    if not places:
        return value
    container, key = generator.choice(places)
    container[key] = value
    return document


def damage(body: bytes, generator: random.Random) -> bytes:
    """Return bytes cut, with some exchanged, or with a piece of them twice."""
    at = generator.randrange(len(body) + 1)
    match generator.randrange(4):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + bytes((generator.randrange(256),)) + body[at + 1 :]
        case 2:
            return body[:at] + generator.choice(RAW) + body[at:]
        case _:
            return body[:at] + body[max(0, at - 20) :]


def walk(document: Any) -> Iterator[Any]:
    """Yield every value of a document."""
    waiting = [document]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one


def pick(document: Any, generator: random.Random) -> Any:
    """Return a copy of some value of a document."""
    return json.loads(json.dumps(generator.choice(list(walk(document)))))


def names(corpus: Sequence[Any]) -> list[str]:
    """Return the names of all fields in a corpus."""
    found = {name for one in walk(list(corpus)) if isinstance(one, dict) for name in one}
    return sorted(found)
