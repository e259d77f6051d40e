"""A judge of Chat Completions chunks: the types and the helper of OpenAI's client."""

import json
from collections.abc import Sequence
from typing import Any

from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from app.dialects.client_format import Frame


def check(found: Sequence[Frame], *, completed: bool) -> Any:
    """Assert what holds of every stream; return the completion that the helper makes of it.

    A stream that was not completed ends with an error, and makes no completion.
    """
    done = [frame.data == b"[DONE]" for frame in found]
    assert done.count(True) == completed
    assert done[-1] == completed
    assert all(frame.event is None and b"\n" not in frame.data for frame in found)
    *payloads, last = [json.loads(frame.data) for frame in found[: len(found) - completed]]
    if completed:
        payloads.append(last)
    else:
        assert {"message", "type", "param", "code"} == last["error"].keys()
    state: ChatCompletionStreamState = ChatCompletionStreamState()
    roles: set[int] = set()
    finished: set[int] = set()
    ids = set()
    for payload in payloads:
        chunk = ChatCompletionChunk.model_validate(payload, strict=True)
        ids.add((chunk.id, chunk.created, chunk.model))
        for choice in chunk.choices:
            assert choice.index not in finished
            assert (choice.delta.role == "assistant") == (choice.index not in roles)
            roles.add(choice.index)
            if choice.finish_reason:
                finished.add(choice.index)
        state.handle_chunk(chunk)
    assert len(ids) <= 1
    assert finished == (roles if completed else set())
    return state.current_completion_snapshot if completed else None


def summary(message: Any) -> dict[str, Any]:
    """Return what a message of the client's types says."""
    calls = [
        (call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()
    ]
    extra = message.model_extra or {}
    return {
        "text": message.content or "",
        "refusal": message.refusal or "",
        "calls": calls,
        **extra,
    }
