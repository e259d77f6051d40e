"""An identity provider, in memory or on a real socket: it signs, publishes, rotates, lies, hangs."""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import strategies as st

from app.identity.config import IssuerConfig
from app.identity.issuers import Issuers
from app.identity.jwks import Fetcher

AUDIENCE = "https://relay.example"
DISCOVERY = "/.well-known/openid-configuration"
JWKS = "/keys"

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
"""Whatever may stand in a token or a key."""


trust = cache(httpx2.create_ssl_context)
"""The system's certificates, which take 20 ms to read."""


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return a key, the same for the same name: large ones take a second to make."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def ec_key(name: str, curve: str = "P-256") -> ec.EllipticCurvePrivateKey:
    curves: Any = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1, "P-521": ec.SECP521R1}
    return ec.generate_private_key(curves[curve]())


@cache
def ed_key(name: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, kid: str | None, **fields: Any) -> dict[str, Any]:
    """Return the public key as a JWK."""
    algorithm = {rsa.RSAPrivateKey: "RS256", ec.EllipticCurvePrivateKey: "ES256"}
    kind = next((name for form, name in algorithm.items() if isinstance(key, form)), "EdDSA")
    reader: Any = jwt.get_algorithm_by_name(kind)
    row = reader.to_jwk(key.public_key(), as_dict=True)
    row.pop("key_ops", None)
    return {**row, **({} if kid is None else {"kid": kid}), "use": "sig", **fields}


def sign(
    key: Any, claims: dict[str, Any], *, alg: str = "RS256", kid: str | None = "1", **header: Any
) -> str:
    named = {} if kid is None else {"kid": kid}
    return jwt.encode(claims, key, alg, headers={**named, **header})


@dataclass
class Provider:
    """What it publishes; `asked` are the paths of the requests it was sent."""

    keys: list[Any] = field(default_factory=list)
    url: str = ""
    asked: list[str] = field(default_factory=list)
    answer: bytes | None = None
    """Sent as it is instead of the keys."""
    chunk: bytes = b""
    """Sent after it, again and again."""
    pause_s: float = 0
    """Between the chunks."""
    discovery: dict[str, Any] | None = None
    hold: asyncio.Event | None = None
    """Nothing is answered before it is set."""

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return claims of a valid token; None takes one out."""
        now = time.time()
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 600}
        return {name: one for name, one in {**usual, **changes}.items() if one is not None}

    def config(self, **changes: Any) -> IssuerConfig:
        values = {"issuer": self.url, "audience": AUDIENCE, "jwks_url": self.url + JWKS}
        return IssuerConfig(**{**values, **changes})

    def fetches(self) -> int:
        return self.asked.count(JWKS)

    def publish(self, *rows: Any) -> None:
        self.keys = list(rows)

    def lie(self, body: bytes, status: str = "200 OK", **headers: str) -> None:
        """Answer with this from now on."""
        lines = [f"HTTP/1.1 {status}", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.answer = "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def document(self, path: str) -> str:
        """Return what stands at a path, unless it lies."""
        if path != DISCOVERY:
            return json.dumps({"keys": self.keys})
        said = {"issuer": self.url, "jwks_uri": self.url + JWKS}
        return json.dumps(said if self.discovery is None else self.discovery)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split()[1].decode()
            self.asked.append(path)
            if self.hold is not None:
                await self.hold.wait()
            writer.write(self._answer_to(path))
            while self.chunk and path == JWKS:
                await writer.drain()
                await asyncio.sleep(self.pause_s)
                writer.write(self.chunk)
            await writer.drain()
        writer.close()

    def _answer_to(self, path: str) -> bytes:
        if path != DISCOVERY and self.answer is not None:
            return self.answer
        body = self.document(path)
        return (
            f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}"
        ).encode()


class Documents(Fetcher):
    """Fetches from providers in memory."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        super().__init__()
        self._providers = providers

    async def fetch(self, url: str) -> bytes:
        provider = next(one for one in self._providers if url.startswith(f"{one.url}/"))
        path = url.removeprefix(provider.url)
        provider.asked.append(path)
        if provider.hold is not None:
            await provider.hold.wait()
        return provider.document(path).encode()


def make_issuers(configs: Sequence[IssuerConfig], *providers: Provider, **changes: Any) -> Issuers:
    """Return issuers that fetch from these providers in memory, or without any over sockets."""
    fetcher = Documents(providers) if providers else None
    return Issuers(configs, trust=trust, fetcher=fetcher, **changes)


def in_memory(*keys: Any, name: str = "idp") -> Provider:
    """Return a provider that publishes `keys`, by default `rsa_key("1")` as "1"."""
    return Provider(list(keys) or [jwk(rsa_key("1"), "1")], url=f"https://{name}.example")


@contextlib.asynccontextmanager
async def serve_provider(
    *keys: Any, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Provider]:
    """Run a provider that publishes `keys`, as `in_memory` does, on a port."""
    provider = in_memory(*keys)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await provider._serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=tls)
    host = "http://127.0.0.1" if tls is None else "https://localhost"
    provider.url = f"{host}:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
