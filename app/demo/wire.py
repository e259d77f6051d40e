"""Answers to bytes: chunks of Chat Completions, their pauses, and how they are cut.

A pause is counted in tokens: 1 is the time of one token of `demo`. The form is OpenAI's;
`demo-reasoning` has DeepSeek's `reasoning_content`, with both keys in every delta and one
of them null.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple

from msgspec.json import encode as to_json

from ..framing import sse
from .answers import MODELS, Answer
from .request import DemoRequest

DROP_AFTER: Final = 40
"""How many tokens of each choice `demo-drop` sends before it loses the connection."""
CYCLE: Final = 16
"""Of so many events three are cut or joined; each of the others is one read."""
CONTEXT_LENGTH: Final = 128_000
"""What the list of models says; nothing is counted."""
SUPPORTED: Final = (
    *("max_tokens", "max_completion_tokens", "n", "response_format", "seed", "stop"),
    *("tool_choice", "tools", "parallel_tool_calls"),
)
_KEEP_ALIVE: Final = b": keep-alive\n\n"
_KEEP_ALIVE_EVERY: Final = 40.0
_NEW_YEAR: Final = 1_767_225_600
"""2026 began at this second; every `created` lies in the year after it."""
_NON_ASCII: Final = re.compile(rb"[\xc0-\xff]")


class Step(NamedTuple):
    """A pause, and the bytes that arrive after it."""

    pause: float
    data: bytes


class Tempo(NamedTuple):
    """The pauses before the first token and before each later one."""

    first: float = 10
    token: float = 1
    keep_alives: int = 0
    """How many of them shorten the wait for the first token."""
    pauses_after: int | None = None
    """After so many tokens nothing is said for `PAUSE`, but for keep-alives."""


PAUSE: Final = 9600.0
"""Four minutes: longer than proxies let a connection be silent, and less than the relay does."""
_TEMPOS: Final = {
    "demo-slow": Tempo(120, 10, keep_alives=3),
    "demo-long": Tempo(token=0.2),
    "demo-pause": Tempo(pauses_after=10),
}


def tempo_of(model: str) -> Tempo:
    return _TEMPOS.get(model, Tempo())


def drops(request: DemoRequest) -> bool:
    """Return whether the connection is lost after the last step."""
    return request.model == "demo-drop"


def render_models() -> bytes:
    """Write the answer of `GET /v1/models`."""
    data = [
        {
            **{"id": name, "object": "model", "created": _NEW_YEAR, "owned_by": "seseragi"},
            "context_length": CONTEXT_LENGTH,
            "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
            "supported_parameters": SUPPORTED,
        }
        for name in MODELS
    ]
    return to_json({"object": "list", "data": data})


def render_completion(request: DemoRequest, answers: list[Answer]) -> list[Step]:
    """Write the answer as one JSON object, after the time that all of its tokens take."""
    tempo = tempo_of(request.model)
    digest = request.digest()
    choices = [
        {
            "index": choice,
            "message": _message(answer, digest, choice),
            "logprobs": None,
            "finish_reason": answer.finish_reason,
        }
        for choice, answer in enumerate(answers)
    ]
    body = to_json(
        {
            **_envelope("chat.completion", request, digest),
            "choices": choices,
            "usage": _usage(request, answers),
        }
    )
    size = max(answer.size for answer in answers)
    pause = tempo.first + tempo.token * size
    if tempo.pauses_after is not None and size > tempo.pauses_after:
        pause += PAUSE
    return [Step(pause, body[: len(body) // 2] if drops(request) else body)]


def render_stream(request: DemoRequest, answers: list[Answer]) -> Iterator[Step]:
    """Write the event stream, read by read; `demo-drop`'s stops inside a character."""
    digest = request.digest()
    return scatter(_events(request, answers, digest), digest[0])


def scatter(events: Iterable[Step], start: int) -> Iterator[Step]:
    """Cut events into reads as networks do, in places that no parser may rely on.

    In each `CYCLE`, counted from `start`, one event waits for the next and arrives with
    it, one comes in two reads, and one comes in two reads that share a character. The
    second read follows without a pause.
    """
    held = nothing = Step(0, b"")
    inside_character = False
    for index, event in enumerate(events, start):
        pause, data = held.pause + event.pause, held.data + event.data
        held = nothing
        cut = 0
        match index % CYCLE:
            case 3:
                held = Step(pause, data)
                continue
            case 8:
                cut = 1 + index * 31 % (len(data) - 1)
            case 13:
                inside_character = True
        if inside_character and not cut and (found := _NON_ASCII.search(data)):
            inside_character = False
            cut = found.end()
        if cut:
            yield Step(pause, data[:cut])
            pause, data = 0, data[cut:]
        yield Step(pause, data)
    if held.data:
        yield held


class _Delta(NamedTuple):
    delta: dict[str, Any]
    finish_reason: str | None = None


def _events(request: DemoRequest, answers: list[Answer], digest: bytes) -> Iterator[Step]:
    tempo = tempo_of(request.model)
    envelope = _envelope("chat.completion.chunk", request, digest)
    wants_usage = request.stream_options is not None and request.stream_options.include_usage

    def event(choice: int, delta: _Delta) -> bytes:
        chunk = {
            **envelope,
            "choices": [
                {
                    "index": choice,
                    "delta": delta.delta,
                    "logprobs": None,
                    "finish_reason": delta.finish_reason,
                }
            ],
        }
        return _event({**chunk, "usage": None} if wants_usage else chunk)

    pause = tempo.first - tempo.token
    for beat in range(tempo.keep_alives):
        yield Step(_KEEP_ALIVE_EVERY if beat else 0, _KEEP_ALIVE)
        pause -= _KEEP_ALIVE_EVERY if beat else 0
    rounds: Iterator[tuple[_Delta | None, ...]]
    rounds = zip_longest(*(_deltas(answer, digest, i) for i, answer in enumerate(answers)))
    if drops(request):
        rounds = islice(rounds, 1 + min(DROP_AFTER, answers[0].size))  # the role comes first
    for number, deltas in enumerate(rounds):  # the first is the role
        if tempo.pauses_after is not None and number == tempo.pauses_after + 1:
            for _ in range(int(PAUSE / _KEEP_ALIVE_EVERY)):
                yield Step(_KEEP_ALIVE_EVERY, _KEEP_ALIVE)
        for choice, delta in enumerate(deltas):
            if delta is not None:
                yield Step(pause, event(choice, delta))
                pause = 0
        pause = tempo.token
    if drops(request):
        wave = event(0, _Delta({"content": "🌊"}))
        yield Step(pause, wave[: wave.index("🌊".encode()) + 2])
        return
    if wants_usage:
        yield Step(0, _event({**envelope, "choices": [], "usage": _usage(request, answers)}))
    yield Step(0, sse.encode("[DONE]"))


def _deltas(answer: Answer, digest: bytes, choice: int) -> Iterator[_Delta]:
    """Yield the deltas of one choice: the role, the tokens, the finish."""
    thinks = bool(answer.reasoning)
    role = {"role": "assistant", "content": None if thinks or answer.calls else "", "refusal": None}
    yield _Delta({**role, "reasoning_content": ""} if thinks else role)
    for token in answer.reasoning:
        yield _Delta({"content": None, "reasoning_content": token})
    for token in answer.text:
        yield _Delta(
            {"content": token, "reasoning_content": None} if thinks else {"content": token}
        )
    for index, call in enumerate(answer.calls):
        head = _call(call.name, "", _call_id(digest, choice, index))
        yield _Delta({"tool_calls": [{"index": index, **head}]})
        for piece in call.arguments:
            yield _Delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _Delta({}, answer.finish_reason)


def _message(answer: Answer, digest: bytes, choice: int) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if answer.calls else "".join(answer.text),
        "refusal": None,
    }
    if answer.reasoning:
        message["reasoning_content"] = "".join(answer.reasoning)
    if answer.calls:
        message["tool_calls"] = [
            _call(call.name, "".join(call.arguments), _call_id(digest, choice, index))
            for index, call in enumerate(answer.calls)
        ]
    return message


def _call(name: str, arguments: str, id: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _call_id(digest: bytes, choice: int, index: int) -> str:
    return f"call_{digest[4:14].hex()}{choice:02x}{index:02x}"


def _envelope(object: str, request: DemoRequest, digest: bytes) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{digest[4:18].hex()}",
        "object": object,
        "created": _NEW_YEAR + int.from_bytes(digest[:4]) % (365 * 86_400),
        "model": request.model,
        "system_fingerprint": "fp_demo",
    }


def _usage(request: DemoRequest, answers: list[Answer]) -> dict[str, Any]:
    prompt = request.prompt_tokens
    completion = sum(answer.size for answer in answers)
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    reasoning = sum(len(answer.reasoning) for answer in answers)
    if reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return usage


def _event(chunk: dict[str, Any]) -> bytes:
    return sse.encode(to_json(chunk).decode())
