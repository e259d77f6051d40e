"""Google's tokens, from servers on this machine that stand for Google's."""

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from app.errors import UpstreamError
from app.settings import SettingsError, load_settings
from app.upstreams.google import GoogleCredentials

VARIABLES = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCE_METADATA_HOST")

# Google's library warns of quotas for a user's credentials.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def token_of(number: int) -> str:
    return "abcdefghij"[number] * 20


@dataclass
class Tokens:
    """A token server: each token it gives is another."""

    port: int = 0
    life_s: int = 3600
    asked: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    status: str = "200 OK"
    error: Mapping[str, str] = field(default_factory=dict)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    def answer(self, path: str) -> Any:
        if self.error:
            return self.error
        if path.endswith("/token") or "/token?" in path:
            number = sum("/token" in one for one in self.asked)
            return {"access_token": token_of(number), "expires_in": self.life_s}
        raise AssertionError(path)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            raw = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = raw.split(" ")[1]
            length = int(raw.lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
            self.bodies.append((await reader.readexactly(length)).decode())
            self.asked.append(path)
            if "/token" in path:
                self.begun.set()
                await self.gate.wait()
            body = json.dumps(self.answer(path))
            writer.write(
                f"HTTP/1.1 {self.status}\r\ncontent-type: application/json\r\n"
                f"connection: close\r\n"
                f"content-length: {len(body)}\r\n\r\n{body}".encode()
            )
        writer.close()


@contextlib.asynccontextmanager
async def serve_tokens() -> AsyncIterator[Tokens]:
    tokens = Tokens()
    tokens.gate.set()
    server = await asyncio.start_server(tokens.serve, "127.0.0.1", 0)
    tokens.port = server.sockets[0].getsockname()[1]
    try:
        yield tokens
    finally:
        server.close()


@pytest.fixture(autouse=True)
def _bare(tmp_path, monkeypatch):
    """No credentials of this machine, and no metadata server."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("NO_PROXY", "*")


PEM = (
    rsa.generate_private_key(public_exponent=65537, key_size=2048)
    .private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    .decode()
)


def service_account(tokens: Tokens) -> dict[str, str]:
    return {
        "type": "service_account",
        "project_id": "p-1",
        "private_key_id": "k1",
        "private_key": PEM,
        "client_email": "relay@p-1.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": tokens.url,
    }


def user(tokens: Tokens) -> dict[str, str]:
    return {
        "type": "authorized_user",
        "client_id": "c1",
        "client_secret": "s-0123456789",
        "refresh_token": "1//refresh-0123456789",
        "quota_project_id": "q-1",
    }


Kind = Callable[[Tokens], dict[str, Any]]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make a file of credentials those of the machine."""
    monkeypatch.chdir(tmp_path)

    def put(tokens: Tokens, kind: Kind = service_account) -> None:
        monkeypatch.setattr("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", tokens.url)
        (tmp_path / "adc.json").write_text(json.dumps(kind(tokens)))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))

    return put


async def ask(credentials: GoogleCredentials) -> Mapping[str, str]:
    return await credentials.headers("POST", "https://aiplatform.googleapis.com/v1", b"{}")


@pytest.mark.parametrize("kind", [service_account, user])
async def test_file_of_credentials_gives_a_token(kind, install):
    async with serve_tokens() as tokens:
        install(tokens, kind)
        headers = await ask(GoogleCredentials())

    assert f"Bearer {token_of(1)}" == headers["authorization"]
    assert ("q-1" if kind is user else None) == headers.get("x-goog-user-project")


async def test_token_is_kept(install):
    async with serve_tokens() as tokens:
        install(tokens)
        credentials = GoogleCredentials()
        assert await ask(credentials) == await ask(credentials)

    assert 1 == len(tokens.asked)


async def test_token_is_replaced_before_it_expires(install):
    async with serve_tokens() as tokens:
        tokens.life_s = 60
        install(tokens)
        credentials = GoogleCredentials()
        first, second = [await ask(credentials) for _ in range(2)]

    assert first != second


async def test_requests_at_once_fetch_one_token(install):
    async with serve_tokens() as tokens:
        install(tokens)
        tokens.gate.clear()
        credentials = GoogleCredentials()
        asking = [asyncio.create_task(ask(credentials)) for _ in range(50)]
        await asyncio.wait_for(tokens.begun.wait(), 20)
        asking[0].cancel()
        tokens.gate.set()
        answers = await asyncio.gather(*asking[1:])

    assert 1 == len(tokens.asked)
    assert 1 == len({answer["authorization"] for answer in answers})


async def test_stale_token_outlives_a_failed_refresh(install):
    async with serve_tokens() as tokens:
        tokens.life_s = 60
        install(tokens)
        credentials = GoogleCredentials()
        first = await ask(credentials)
        tokens.status, tokens.error = "400 Bad Request", {"error": "invalid_grant"}

        assert first == await ask(credentials)


async def test_failure_tells_nothing_of_the_machine(install, tmp_path):
    async with serve_tokens() as tokens:
        tokens.status, tokens.error = "400 Bad Request", {"error": "invalid_grant"}
        install(tokens)
        with structlog.testing.capture_logs() as logs, pytest.raises(UpstreamError) as caught:
            await ask(GoogleCredentials())

    assert "upstream_auth" == caught.value.code
    for secret in (str(tmp_path), "127.0.0.1", "p-1", "invalid_grant"):
        assert secret not in caught.value.message
    assert "invalid_grant" in str(logs)
    assert "PRIVATE KEY" not in str(logs)


@pytest.mark.parametrize(
    "content", [None, "folder", "{", "[1]", '{"type": "odd"}', '{"type": "service_account"}']
)
async def test_credentials_that_are_none_are_a_failure(content, tmp_path, monkeypatch):
    path = tmp_path / "adc.json"
    if content is not None:
        path.mkdir() if content == "folder" else path.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    with pytest.raises(UpstreamError) as caught:
        await ask(GoogleCredentials())

    assert "upstream_auth" == caught.value.code
    assert str(tmp_path) not in caught.value.message


async def test_no_credentials_at_all_are_a_failure():
    with pytest.raises(UpstreamError) as caught:
        await ask(GoogleCredentials())

    assert "GOOGLE_APPLICATION_CREDENTIALS" in caught.value.message


async def test_file_that_is_mended_is_read_again(install, tmp_path):
    async with serve_tokens() as tokens:
        install(tokens)
        (tmp_path / "adc.json").write_text("{")
        credentials = GoogleCredentials()
        with pytest.raises(UpstreamError):
            await ask(credentials)
        install(tokens)

        assert "authorization" in await ask(credentials)


async def test_tokens_are_taken_out_of_texts_and_logs(install, caplog):
    caplog.set_level(logging.DEBUG)
    async with serve_tokens() as tokens:
        tokens.life_s = 60
        install(tokens)
        credentials = GoogleCredentials()
        first, second = [(await ask(credentials))["authorization"] for _ in range(2)]

    assert "[key] [key]" == credentials.redact(f"{first} {second}").replace("Bearer ", "")
    for token in (token_of(1), token_of(2)):
        assert token not in caplog.text
        assert token not in repr(credentials)


def test_missing_package_is_told_at_the_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seseragi.toml").write_text('[upstream.vertex]\nproject = "p"\n')

    monkeypatch.setitem(sys.modules, "google.auth", None)
    with pytest.raises(SettingsError) as caught:
        load_settings({})

    assert 'pip install ".[vertex]"' in str(caught.value)
    assert "\n" not in str(caught.value)


URLS = {
    "global": "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google",
    "us-central1": "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/publishers/google",
    "eu": "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/google",
}


@pytest.mark.parametrize(("location", "url"), URLS.items())
def test_location_makes_the_host(location, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seseragi.toml").write_text(
        f'[upstream.vertex]\nproject = "p"\nlocation = "{location}"\n'
    )
    (upstream,) = load_settings({}).upstreams

    assert url == upstream.base_url
    assert isinstance(upstream.credentials, GoogleCredentials)
