"""Judges of cut answers: whether a body is a whole one, by the rules of its format.

They know nothing of the code under test.
"""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

Judge = Callable[[bytes, bool], bool]
"""(body, ended) to whether the body is a whole answer. `ended` says that the input ended by
itself, so that what is unterminated counts; the rest of a broken connection does not."""


def blocks_of(body: bytes, ended: bool) -> list[list[str]]:
    """Return the lines of each event of an event stream."""
    text = body.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    *blocks, rest = text.split("\n\n")
    return [block.split("\n") for block in ([*blocks, rest] if ended else blocks)]


def data_of(lines: list[str]) -> str:
    return "\n".join(line[5:].lstrip() for line in lines if line.startswith("data:"))


def object_of(text: str) -> dict[str, Any]:
    """Read a JSON object, an empty one of what is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def openai_chat(body: bytes, ended: bool) -> bool:
    """[DONE], or a finish reason of every choice; never after an error."""
    finished: dict[int, bool] = {}
    for lines in blocks_of(body, ended):
        if (data := data_of(lines)) == "[DONE]":
            return True
        named = any(line.startswith("error:") for line in lines) or "event: error" in lines
        chunk = object_of(data)
        without_data = object_of("\n".join(lines))
        if named or "error" in {**chunk, **without_data}:
            return False
        for choice in chunk.get("choices") or ():
            number, reason = choice.get("index", 0), choice.get("finish_reason")
            if reason in ("error", "insufficient_system_resource"):
                return False
            finished[number] = finished.get(number, False) or bool(reason)
    return bool(finished) and all(finished.values())


def openai_responses(body: bytes, ended: bool) -> bool:
    """The first event that ends a response is no failure."""
    ends = ("response.completed", "response.incomplete", "response.done")
    for lines in blocks_of(body, ended):
        kind = object_of(data_of(lines)).get("type")
        if kind in ends or kind == "error":
            return kind != "error"
    return False


def anthropic(body: bytes, ended: bool) -> bool:
    """`message_stop`, and no error before it."""
    kinds = [object_of(data_of(lines)).get("type") for lines in blocks_of(body, ended)]
    return "message_stop" in kinds and "error" not in kinds[: kinds.index("message_stop")]


def gemini(body: bytes, ended: bool) -> bool:
    """A finish reason of every candidate, and nothing said after it; an array to its bracket."""
    text = body.decode(errors="replace")
    chunks: list[Any] = []
    if text.startswith("["):
        try:
            chunks = json.loads(text)
        except ValueError:
            return False
    else:
        found = blocks_of(body, ended)
        for number, lines in enumerate(found):
            # An error may stand between the events without any "data:".
            text = data_of(lines) or "\n".join(lines)
            try:
                chunks.append(json.loads(text))
            except ValueError:
                if number == len(found) - 1 and ended and text.startswith("{"):
                    return False
    finished: dict[int, bool] = {}
    for chunk in chunks:
        if "error" in chunk or chunk.get("promptFeedback", {}).get("blockReason"):
            return False
        for candidate in chunk.get("candidates", ()):
            number = candidate.get("index", 0)
            parts = candidate.get("content", {}).get("parts", ())
            says = any(part != {"text": ""} for part in parts)
            finished[number] = "finishReason" in candidate or (
                finished.get(number, False) and not says
            )
    return bool(finished) and all(finished.values())


def frames_of(body: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole frames of Amazon's event stream, and what is left."""
    found = []
    while len(body) >= 4 and len(body) >= (size := struct.unpack_from(">I", body)[0]):
        found.append(body[:size])
        body = body[size:]
    return found, body


def bedrock_converse(body: bytes, ended: bool) -> bool:
    """A frame of `messageStop` and none of an error; half a frame is a truncation."""
    frames, rest = frames_of(body)
    errors = any(b"exception" in frame or b":error-code" in frame for frame in frames)
    stopped = any(b"messageStop" in frame for frame in frames)
    return stopped and not errors and not (ended and rest)


def bedrock_anthropic(body: bytes, ended: bool) -> bool:
    """A frame whose bytes are `message_stop`, and none of an error before it."""
    frames, _ = frames_of(body)
    for frame in frames:
        if b"xception" in frame or b":error-code" in frame:
            return False
        _, found, text = frame.partition(b'"bytes":')
        if found and b"message_stop" in base64.b64decode(text.split(b'"')[1]):
            return True
    return False


def cohere(body: bytes, ended: bool) -> bool:
    """`message-end` that tells of no error."""
    for lines in blocks_of(body, ended):
        payload = object_of(data_of(lines))
        if payload.get("type") == "message-end":
            told = payload["delta"]
            failures = ("ERROR", "ERROR_LIMIT", "TIMEOUT")
            return not told.get("error") and told.get("finish_reason") not in failures
    return False


def gemini_interactions(body: bytes, ended: bool) -> bool:
    """`interaction.completed` that tells of no failure, and no error before it."""
    for lines in blocks_of(body, ended):
        event = object_of(data_of(lines))
        if event.get("event_type") in ("error", "interaction.completed"):
            status = event.get("interaction", {}).get("status")
            return event["event_type"] != "error" and status not in ("failed", "cancelled")
    return False


def ollama(body: bytes, ended: bool) -> bool:
    """A line that is done, or all lines together; none that holds an error before it."""
    text = body.decode("utf-8-sig", errors="replace")
    text = text if ended else text.rpartition("\n")[0]
    for line in map(object_of, [text, *text.split("\n")]):
        if "error" in line or line.get("done") is True:
            return "error" not in line
    return False


JUDGES: dict[str, Judge] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "vertex_anthropic": anthropic,
    "bedrock_anthropic": bedrock_anthropic,
    "bedrock_converse": bedrock_converse,
    "gemini": gemini,
    "gemini_interactions": gemini_interactions,
    "cohere": cohere,
    "ollama": ollama,
}


def cuts(
    body: bytes, dialect: str, *, most: int, last: int = 0
) -> Iterator[tuple[int, bool, bool]]:
    """Yield sizes to cut a body to, whether the input ends by itself there, and is then whole.

    The cuts are near the ends of all lines or frames, at `most` more places, and at all of the
    `last` bytes.
    """
    ends, around = [at for at, byte in enumerate(body, 1) if byte == 0x0A], (-2, -1, 0)
    if dialect.startswith("bedrock"):
        ends, around = [*accumulate(map(len, frames_of(body)[0]))], (-1, 0, 12)
    near = {end + d for end in ends for d in around}
    samples = range(0, len(body), max(1, len(body) // most))
    wanted = {*near, *samples, *range(len(body) - last, len(body) + 1)}
    for size in sorted(wanted & {*range(len(body) + 1)}):
        for ended in (True, False):
            yield size, ended, JUDGES[dialect](body[:size], ended)
