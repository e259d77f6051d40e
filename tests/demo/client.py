"""A client of the demo, as the relay is one: httpx2 with its transport."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx2

from app.demo import DemoTransport
from app.framing import sse

URL = "http://demo/v1/chat/completions"
ENGLISH = "Show me how this works, please"
JAPANESE = "どんなふうに動くのか見せてください"


def client(transport: DemoTransport | None = None) -> httpx2.AsyncClient:
    """Open a client; without a transport of its own it waits for nothing."""
    return httpx2.AsyncClient(transport=transport or DemoTransport(pace=0), trust_env=False)


def asked(model: str = "demo", words: str = ENGLISH, **fields: Any) -> dict[str, Any]:
    """A request that streams; `messages` in the fields replaces the words."""
    messages = [{"role": "user", "content": words}]
    return {"model": model, "messages": messages, "stream": True, **fields}


@dataclass
class Streamed:
    """What came over the stream, and what a parser makes of it."""

    reads: list[bytes]
    error: httpx2.ReadError | None

    @property
    def body(self) -> bytes:
        return b"".join(self.reads)

    @cached_property
    def data(self) -> list[str]:
        decoder = sse.Decoder()
        return [message.data for read in self.reads for message in decoder.feed(read)]

    @cached_property
    def chunks(self) -> list[dict[str, Any]]:
        return [json.loads(data) for data in self.data if data != "[DONE]"]

    def deltas(self, choice: int = 0) -> list[dict[str, Any]]:
        return [
            one["delta"]
            for chunk in self.chunks
            for one in chunk["choices"]
            if one["index"] == choice
        ]

    def text(self, choice: int = 0, key: str = "content") -> str:
        return "".join(delta.get(key) or "" for delta in self.deltas(choice))

    def finish_reasons(self) -> list[str]:
        """Of the choices, in the order in which they finished."""
        choices = [one for chunk in self.chunks for one in chunk["choices"]]
        return [one["finish_reason"] for one in choices if one["finish_reason"]]

    def calls(self, choice: int = 0) -> list[dict[str, Any]]:
        """The tool calls, put together as a client does."""
        calls: dict[int, dict[str, Any]] = {}
        for delta in self.deltas(choice):
            for piece in delta.get("tool_calls", []):
                function = piece["function"]
                if "id" in piece:
                    call = {"id": piece["id"], "name": function["name"], "text": ""}
                    calls[piece["index"]] = call
                calls[piece["index"]]["text"] += function["arguments"]
        return [call | {"arguments": json.loads(call["text"])} for call in calls.values()]


_streamed: dict[str, Streamed] = {}


async def stream(body: dict[str, Any]) -> Streamed:
    """Return the answer to a request, which is always the same."""
    key = json.dumps(body)
    if key not in _streamed:
        _streamed[key] = await stream_again(body)
    return _streamed[key]


async def stream_again(body: dict[str, Any]) -> Streamed:
    reads = []
    error = None
    async with client() as http, http.stream("POST", URL, json=body) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        try:
            async for read in response.aiter_raw():
                reads.append(read)
        except httpx2.ReadError as caught:
            error = caught
    return Streamed(reads, error)


async def post(body: dict[str, Any] | bytes, path: str = "/v1/chat/completions") -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client() as http:
        return await http.post(f"http://demo{path}", content=content)
