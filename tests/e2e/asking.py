"""A relay that asks for a key, as the page and the client meet one: with links to one stream."""

import json
import re
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PUBLIC = re.compile(r"/|/docs|/admin|/static/.*|/healthz")
STREAM = re.compile(r"/v1/streams/([^/]+)/(events|share)")


@dataclass
class Asking:
    """Stands in front of the relay; what it takes can be changed while it runs."""

    keys: set[str] = field(default_factory=lambda: {"ssk_right"})
    tokens: dict[str, str] = field(default_factory=dict)
    """The stream that each token is for."""
    users: list[str] = field(default_factory=list)
    """Those for whom `ssk_backend` has asked for a secret."""
    shown: list[tuple[str, str | None]] = field(default_factory=list)
    """The path of each request that is not public, and its credential."""
    kinds: set[tuple[str, str | None]] = field(default_factory=set)
    """The methods that each credential was shown with."""
    targets: list[str] = field(default_factory=list)
    """The path of every request with its query, and what its head says beside."""

    def __call__(self, app: ASGIApp) -> ASGIApp:
        async def asked(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            heads = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.targets.append(
                f"{scope['path']}?{scope['query_string'].decode()} {heads.get('referer', '')}"
            )
            if PUBLIC.fullmatch(scope["path"]) or scope["method"] == "OPTIONS":
                await app(scope, receive, send)
                return
            given = heads.get("authorization", "").removeprefix("Bearer ") or None
            self.shown.append((scope["path"], given))
            self.kinds.add((scope["method"], given))
            found = STREAM.fullmatch(scope["path"])
            (token,) = parse_qs(scope["query_string"].decode()).get("token", [None])
            if (scope["path"], given) == ("/v1/client_secrets", "ssk_backend"):
                body = await Request(scope, receive).json()
                await JSONResponse(self.secret(body["user"]))(scope, receive, send)
            elif given not in self.keys and not (
                found and self.tokens.get(token or "") == found[1]
            ):
                refusal = {"code": "unauthenticated", "detail": "no key, or a wrong one"}
                await JSONResponse(refusal, 401)(scope, receive, send)
            elif found and found[2] == "share":
                await JSONResponse(self.share(found[1]))(scope, receive, send)
            else:
                await app(scope, receive, self._naming(send))

        return asked

    def secret(self, user: str) -> dict[str, Any]:
        self.users.append(user)
        value = f"ek_{len(self.users)}"
        self.keys.add(value)
        return {"value": value, "expires_at": int(time.time()) + 600}

    def share(self, stream: str) -> dict[str, Any]:
        token = f"eyJ.{len(self.tokens)}.share-_secret"
        self.tokens[token] = stream
        return {
            "url": f"/v1/streams/{stream}/events?token={token}",
            "token": token,
            "expires_at": int(time.time()) + 900,
            "page_url": f"/#watch={stream}&token={token}",
        }

    def _naming(self, send: Send) -> Send:
        """Put a token into the events_url of a stream that was started by 202."""
        held: list[Message] = []

        async def name(message: Message) -> None:
            if message.get("status") == 202:
                held.append(message)
            elif not held:
                await send(message)
            else:
                body = json.loads(message["body"])
                token = f"eyJ.{len(self.tokens)}.events-_secret"
                self.tokens[token] = body["id"]
                if "events_url" in body:
                    body["events_url"] += f"?token={token}"
                out = json.dumps(body).encode()
                (start,) = held
                start["headers"] = [
                    (name, b"%d" % len(out) if name == b"content-length" else value)
                    for name, value in start["headers"]
                ]
                held.clear()
                await send(start)
                await send({**message, "body": out})

        return name
