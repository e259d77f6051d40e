"""Answers to bytes: chunks of Chat Completions, and their pauses.

A pause is counted in tokens: 1 is the time of one token of `demo`. The form is OpenAI's;
`demo-reasoning` has DeepSeek's `reasoning_content`, with both keys in every delta and one
of them null.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec.json import encode as to_json

from ..framing import sse
from .answers import MODELS, Answer
from .request import DemoRequest

DROP_AFTER: Final = 40
"""Tokens of each choice that `demo-drop` sends before it loses the connection."""
FACTS: Final = {
    "context_length": 128_000,  # not enforced
    "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
    "supported_parameters": (
        "max_tokens",
        "max_completion_tokens",
        "n",
        "response_format",
        "seed",
        "stop",
        "tool_choice",
        "tools",
        "parallel_tool_calls",
    ),
}
"""The facts of every model in the list, by which clients choose what they send."""
_KEEP_ALIVE: Final = b": keep-alive\n\n"
_KEEP_ALIVE_EVERY: Final = 40.0
_NEW_YEAR: Final = 1_767_225_600
"""2026 began at this second; every `created` lies in the year after it."""


class Step(NamedTuple):
    """A pause, and the bytes that arrive after it."""

    pause: float
    data: bytes


class Tempo(NamedTuple):
    """The pauses before the first token and before each later one."""

    first: float = 10
    token: float = 1
    pauses_after: int | None = None
    """Number of tokens before a silence of `PAUSE`, with keep-alives only."""


PAUSE: Final = 9600.0
"""Four minutes, in tokens: beyond the idle limits of proxies, within the relay's."""
_TEMPOS: Final = {
    "demo-slow": Tempo(120, 10),
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
    row = {"object": "model", "created": _NEW_YEAR, "owned_by": "seseragi", **FACTS}
    data = [{"id": name, **row} for name in MODELS]
    return to_json({"object": "list", "data": data})


def render_stream(request: DemoRequest, answer: Answer) -> Iterator[Step]:
    """Write the event stream, one event a step; `demo-drop`'s stops inside a character."""
    digest = request.digest()
    tempo = tempo_of(request.model)
    envelope = _envelope(request, digest)

    def event(choice: int, delta: dict[str, Any], finish_reason: str | None) -> bytes:
        one = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return _event({**envelope, "choices": [one], "usage": None})

    pause = tempo.first - tempo.token
    every = [list(_deltas(answer, digest, choice)) for choice in range(request.n or 1)]
    rounds = list(zip(*every, strict=True))  # the first round has the roles
    if drops(request):
        rounds = rounds[: 1 + min(DROP_AFTER, answer.size)]
    for number, deltas in enumerate(rounds):
        if tempo.pauses_after is not None and number == tempo.pauses_after + 1:
            for _ in range(int(PAUSE / _KEEP_ALIVE_EVERY)):
                yield Step(_KEEP_ALIVE_EVERY, _KEEP_ALIVE)
        for choice, delta in enumerate(deltas):
            yield Step(pause, event(choice, delta, None if delta else answer.finish_reason))
            pause = 0
        pause = tempo.token
    if drops(request):
        wave = event(0, {"content": "🌊"}, None)
        yield Step(pause, wave[: wave.index("🌊".encode()) + 2])
        return
    yield Step(0, _event({**envelope, "choices": [], "usage": _usage(request, answer)}))
    yield Step(0, sse.encode("[DONE]"))


def _deltas(answer: Answer, digest: bytes, choice: int) -> Iterator[dict[str, Any]]:
    """Yield the deltas of one choice: the role, the tokens, and an empty one at the end."""
    thinks = bool(answer.reasoning)
    role = {"role": "assistant", "content": None if thinks or answer.calls else "", "refusal": None}
    yield {**role, "reasoning_content": ""} if thinks else role
    for token in answer.reasoning:
        yield {"content": None, "reasoning_content": token}
    for token in answer.text:
        yield {"content": token, "reasoning_content": None} if thinks else {"content": token}
    for index, call in enumerate(answer.calls):
        head = _call(call.name, _call_id(digest, choice, index))
        yield {"tool_calls": [{"index": index, **head}]}
        for piece in call.arguments:
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
    yield {}


def _call(name: str, id: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": ""}}


def _call_id(digest: bytes, choice: int, index: int) -> str:
    return f"call_{digest[4:14].hex()}{choice:02x}{index:02x}"


def _envelope(request: DemoRequest, digest: bytes) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{digest[4:18].hex()}",
        "object": "chat.completion.chunk",
        "created": _NEW_YEAR + int.from_bytes(digest[:4]) % (365 * 86_400),
        "model": request.model,
        "system_fingerprint": "fp_demo",
    }


def _usage(request: DemoRequest, answer: Answer) -> dict[str, Any]:
    prompt, choices = request.prompt_tokens, request.n or 1
    completion = choices * answer.size
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if answer.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": choices * len(answer.reasoning)}
    return usage


def _event(chunk: dict[str, Any]) -> bytes:
    return sse.encode(to_json(chunk).decode())
