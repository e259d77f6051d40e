"""What a program asks the relay and is answered, as an application around the relay's sees it."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass
class Exchange:
    """One request and its answer, so far."""

    method: str
    path: str
    body: bytearray = field(default_factory=bytearray)
    status: int = 0
    answer: bytearray = field(default_factory=bytearray)
    """Empty where it is a stream: the server writes those past the application."""


class Watch:
    """Notes every exchange. Call it with the application to watch."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def __call__(self, app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            exchange = Exchange(scope["method"], scope["path"])
            self.exchanges.append(exchange)

            async def hear() -> MutableMapping[str, Any]:
                message = await receive()
                exchange.body += message.get("body", b"")
                return message

            async def say(message: MutableMapping[str, Any]) -> None:
                exchange.status = message.get("status", exchange.status)
                exchange.answer += message.get("body", b"")
                await send(message)

            await app(scope, hear, say)
            return None

        return watched

    @property
    def refused(self) -> list[str]:
        """What was answered with an error, and how."""
        return [
            f"{one.method} {one.path} {one.status} {one.answer.decode()}"
            for one in self.exchanges
            if one.status >= 400
        ]
