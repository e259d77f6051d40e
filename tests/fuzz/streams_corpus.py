"""Bodies of upstreams to begin with, and seeded ways to make others of them."""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from app.framing.eventstream import Decoder as EventStream
from tests.dialects.streams import DIALECT_OF, STREAMS, index
from tests.framing import frames

RECORDINGS: Final = Path(__file__).parents[1] / "recordings"

BINARY: Final = ("bedrock_converse", "bedrock_anthropic")

TOKENS: Final = (
    *(b"null", b"{}", b"[]", b'""', b"0", b"-1", b"1e999", b"9" * 30, b"9" * 5000, b"true"),
    *(rb"\ud800", rb"\udc00", rb"\u0000", b"\xff", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\0"),
    *(b"\n", b"\r", b"\n\n", b"\r\n", b"data: ", b"data:[DONE]\n\n", b"event: error\n", b"id: 1\n"),
    *(b"{", b"}", b"[", b"]", b'"', b",", b"\\", b'{"error":{}}', b"[" * 300, b"]" * 300),
)


def _deep() -> Any:
    value: Any = {}
    for _ in range(300):
        value = [value]
    return value


_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 3, 127, 128, 2**53, -(2**63), 2**64, 0.5, 1e300, "", "a"),
    *("\ud83d", "\ude00", "\ud83d\ude00", "\0", "\u2028", "x" * 9000, "data:", "data:,a"),
    *([], {}, [None], [[]], [{}], {"": ""}, {"type": "error"}, "stop", "error", "[DONE]"),
    *("{", "}", '{"a"', '{"a":1}', "https://a", "call_0", "text", "tool_use", "https://a?b=c"),
    _deep(),
)


class Body(NamedTuple):
    dialect: str
    name: str
    data: bytes

    def messages(self) -> list[bytes]:
        """Cut it where one message ends and the next begins, as far as can be seen."""
        if self.dialect in BINARY and self.data[:1] == b"\0":
            return _frames(self.data)
        end = rb"(?<=\n)" if self.dialect == "ollama" else rb"(?<=\n\n)|(?<=\r\n\r\n)"
        return [piece for piece in re.split(end, self.data) if piece]


def kept() -> list[Body]:
    """Return what is recorded in the repository."""
    return [
        Body(_dialect_of(path), f"{path.parent.name}/{path.name}", path.read_bytes())
        for path in sorted(RECORDINGS.glob("*/*"))
        if path.suffix in (".sse", ".ndjson", ".jsonarray", ".eventstream")
    ]


def corpus() -> list[Body]:
    """Return what is recorded in the repository, and beside it where that is there."""
    found = kept()
    for row in (index("index.json") or {"streams": []})["streams"]:
        if row["format"] in DIALECT_OF:
            data = (STREAMS / row["file"]).read_bytes()
            found.append(Body(DIALECT_OF[row["format"]], row["file"], data))
    return found


def _dialect_of(path: Path) -> str:
    if path.parent.name == "bedrock":
        return "bedrock_anthropic" if path.name.startswith("invoke") else "bedrock_converse"
    return path.parent.name


def mutate(body: Body, others: list[Body], dice: Random) -> bytes:
    """Return another body: some of its bytes, its messages or their values are not the same."""
    messages = body.messages()
    for _ in range(dice.choice((1, 1, 2, 4, 8))):
        dice.choice(_BY_MESSAGE)(messages, body.dialect, others, dice)
    data = b"".join(messages)[: 2**18]
    for _ in range(dice.choice((0, 0, 0, 1, 3))):
        data = dice.choice(_BY_BYTE)(data, dice)
    return data


def cuts(data: bytes, dice: Random) -> list[bytes]:
    """Cut a body into pieces as reads may bring it."""
    most = dice.choice((1, 3, 20, 500, 5000)) if len(data) < 20_000 else 5000
    pieces, at = [], 0
    while at < len(data):
        size = dice.randint(1, most)
        pieces.append(data[at : at + size])
        at += size
    return pieces


def _drop(messages: list[bytes], dialect: str, others: list[Body], dice: Random) -> None:
    if messages:
        at = dice.randrange(len(messages))
        del messages[at : at + dice.choice((1, 1, 3, len(messages)))]


def _repeat(messages: list[bytes], dialect: str, others: list[Body], dice: Random) -> None:
    if messages:
        one = dice.choice(messages)
        at = dice.randint(0, len(messages))
        messages[at:at] = [one] * dice.choice((1, 2, 20))


def _swap(messages: list[bytes], dialect: str, others: list[Body], dice: Random) -> None:
    if messages:
        here, there = dice.randrange(len(messages)), dice.randrange(len(messages))
        messages[here], messages[there] = messages[there], messages[here]


def _splice(messages: list[bytes], dialect: str, others: list[Body], dice: Random) -> None:
    alike = [other for other in others if other.dialect == dialect]
    other = dice.choice(others if dice.random() < 0.1 else alike).messages()
    if other:
        at, start = dice.randint(0, len(messages)), dice.randrange(len(other))
        messages[at:at] = other[start : start + dice.randint(1, 10)]


def _change(messages: list[bytes], dialect: str, others: list[Body], dice: Random) -> None:
    """Change values in the JSON of a message."""
    if not messages:
        return
    at = dice.randrange(len(messages))
    changed = (_in_frame if dialect in BINARY else _in_text)(messages[at], dice)
    if changed is not None:
        messages[at] = changed


def _in_text(message: bytes, dice: Random) -> bytes | None:
    start, end = message.find(b"{"), message.rfind(b"}")
    try:
        document = json.loads(message[start : end + 1])
    except ValueError:
        return None
    return message[:start] + _dump(_odd(document, dice), dice) + message[end + 1 :]


def _in_frame(message: bytes, dice: Random) -> bytes | None:
    try:
        (decoded,) = EventStream().feed(message)
        kind, _, name = decoded.event.partition(":")
        document = json.loads(decoded.data)
        if name == "chunk" and dice.random() < 0.9:
            inner = _odd(json.loads(b64decode(document["bytes"])), dice)
            document["bytes"] = b64encode(_dump(inner, dice)).decode()
        else:
            document = _odd(document, dice)
    except (ValueError, KeyError, TypeError):
        return None
    headers = frames.text(f":{kind}-type", name) + frames.text(":message-type", kind)
    return frames.frame(headers, _dump(document, dice))


def _dump(document: Any, dice: Random) -> bytes:
    # Half a surrogate pair is an escape, as hosts send it.
    return json.dumps(document, separators=dice.choice(((",", ":"), (", ", ": ")))).encode()


def _odd(document: Any, dice: Random) -> Any:
    """Change one value somewhere in it."""
    places: list[tuple[Any, Any]] = []
    _walk(document, places)
    if not places:
        return document
    holder, key = dice.choice(places)
    values = [holder[key] for holder, key in places]
    match dice.randrange(6):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, dict):
            other = dice.choice(places)[1]
            holder[other if isinstance(other, str) else "x"] = holder[key]
        case 2 if isinstance(holder, list):
            holder[key:key] = [holder[key]] * dice.choice((1, 5))
        case 3:
            holder[key] = dice.choice(values)
        case 4:
            holder[key] = [holder[key]]
        case _:
            holder[key] = dice.choice(_VALUES)
    try:
        json.dumps(document)
    except ValueError:  # it holds itself
        return {}
    return document


def _walk(value: Any, places: list[tuple[Any, Any]], depth: int = 0) -> None:
    rows: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        rows = list(value.items())
    elif isinstance(value, list):
        rows = list(enumerate(value))
    for key, inner in rows:
        places.append((value, key))
        if depth < 40:
            _walk(inner, places, depth + 1)


def _flip(data: bytes, dice: Random) -> bytes:
    if not data:
        return data
    at = dice.randrange(len(data))
    return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]


def _cut(data: bytes, dice: Random) -> bytes:
    return data[: dice.randint(0, len(data))]


def _insert(data: bytes, dice: Random) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + dice.choice(TOKENS) + data[at:]


def _remove(data: bytes, dice: Random) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + data[at + dice.choice((1, 4, 50)) :]


_BY_MESSAGE: Final[tuple[Callable[[list[bytes], str, list[Body], Random], None], ...]] = (
    *(_change, _change, _change, _change, _change),
    *(_drop, _repeat, _swap, _splice),
)
_BY_BYTE: Final = (_flip, _cut, _insert, _remove)


def _frames(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at + 4 <= len(data):
        size = max(int.from_bytes(data[at : at + 4], "big"), 16)
        found.append(data[at : at + size])
        at += size
    return [*found, data[at:]] if at < len(data) else found
