"""TLS for real: whom the relay trusts, and what it says when it does not."""

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
import trustme

from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from app.upstreams.http import open_trust
from tests.needs import program
from tests.serving import HELLO, serve_relay

ANSWER = [head(), send(text("fine") + FINISH + DONE)]


@pytest.fixture
def authority(tmp_path, monkeypatch) -> trustme.CA:
    """An authority that the relay trusts."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return made


def context_of(authority: trustme.CA, *names: str, **issue: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, **issue).configure_cert(context)
    return context


async def ask(base_url: str) -> tuple[dict[str, Any], list[str]]:
    """Ask a relay with this upstream; give its answer, and what its log says failed."""
    with structlog.testing.capture_logs() as logs:
        async with serve_relay(environ={"OPENAI_BASE_URL": base_url}) as relay:
            body = {**HELLO, "model": "openai/m", "stream": False}
            answer = (await relay.client.post("/v1/chat", json=body)).json()
    failed = [line.get("cause", "") for line in logs if line["event"] == "attempt failed"]
    return answer, failed


async def test_trusted_upstream_is_reached(authority):
    async with serve_upstream(tls=context_of(authority, "localhost")) as upstream:
        upstream.script = ANSWER
        answer, failed = await ask(f"https://localhost:{upstream.port}/v1")

    assert "fine" == answer["text"]
    assert [] == failed


@pytest.mark.proving  # needs OpenSSL's command
async def test_trust_may_be_a_folder(authority, tmp_path, monkeypatch):
    pem = (tmp_path / "ca.pem").read_bytes()
    folder = tmp_path / "certs"
    folder.mkdir()
    (folder / f"{subject_hash(tmp_path / 'ca.pem')}.0").write_bytes(pem)
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    async with serve_upstream(tls=context_of(authority, "localhost")) as upstream:
        upstream.script = ANSWER
        answer, _ = await ask(f"https://localhost:{upstream.port}/v1")

    assert "fine" == answer["text"]


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

UNTRUSTED = {
    "another host": (
        "other.example",
        {},
        "a certificate for another host name; check its base URL",
        "Hostname mismatch",
    ),
    "expired": (
        "localhost",
        {"not_before": LONG_AGO, "not_after": LONG_AGO + timedelta(days=1)},
        "an expired certificate",
        "certificate has expired",
    ),
    "of the future": (
        "localhost",
        {"not_before": datetime.now(UTC) + timedelta(days=1)},
        "an untrusted certificate",
        "certificate is not yet valid",
    ),
}


@pytest.mark.parametrize(("name", "dates", "told", "logged"), UNTRUSTED.values(), ids=UNTRUSTED)
async def test_wrong_certificate_is_explained(name, dates, told, logged, authority):
    async with serve_upstream(tls=context_of(authority, name, **dates)) as upstream:
        answer, failed = await ask(f"https://localhost:{upstream.port}/v1")

    assert ("upstream_unavailable", 502) == (answer["code"], answer["status"])
    assert f"upstream 'openai' has {told}" == answer["detail"]
    assert logged in failed[0]
    assert [] == upstream.calls


async def test_unknown_authority_is_explained(authority):
    async with serve_upstream(tls=context_of(trustme.CA(), "localhost")) as upstream:
        answer, failed = await ask(f"https://localhost:{upstream.port}/v1")

    assert "upstream_unavailable" == answer["code"]
    assert (
        "an untrusted authority; set SSL_CERT_FILE to the authority's certificate"
        in answer["detail"]
    )
    assert "unable to get local issuer certificate" in failed[0]


ALERT = b"\x15\x03\x01\x00\x02\x02\x46"
"""A TLS record: a fatal alert, "protocol version", as of a server that knows no newer TLS."""

REFUSALS = {
    "https to a plain port": (
        *("https", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        *("does not speak TLS at its address; check its base URL", ""),
    ),
    "plain http to a TLS port": ("http", ALERT, "begin its base URL with https://", ""),
    "old TLS": ("https", ALERT, "TLS 1.2 or later is required", "alert protocol version"),
}


@pytest.mark.parametrize(("scheme", "said", "told", "logged"), REFUSALS.values(), ids=REFUSALS)
async def test_server_that_hangs_up_is_explained(scheme, said, told, logged):
    async with refusing(said) as port:
        answer, failed = await ask(f"{scheme}://127.0.0.1:{port}/v1")

    assert "upstream_unavailable" == answer["code"]
    assert told in answer["detail"]
    assert logged in failed[0]


def test_old_tls_is_not_offered():
    assert open_trust().minimum_version >= ssl.TLSVersion.TLSv1_2


@contextlib.asynccontextmanager
async def refusing(answer: bytes) -> AsyncIterator[int]:
    """Answer whatever comes with a few bytes, and hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_unresolvable_host_is_explained():
    answer, failed = await ask("http://no-such-host.invalid/v1")

    assert "upstream_unavailable" == answer["code"]
    assert "has a host name that cannot be resolved; check its base URL" in answer["detail"]
    assert "no-such-host.invalid" in failed[0]


@pytest.fixture
def _no_store(tmp_path, monkeypatch):
    """A system as the smallest images are."""
    empty = ssl.DefaultVerifyPaths("", "", "", str(tmp_path / "no"), "", str(tmp_path / "no"))
    monkeypatch.setattr("ssl.get_default_verify_paths", lambda: empty)
    monkeypatch.setattr("httpcore2._ssl.CA_FILE_CANDIDATES", ())
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)


@pytest.mark.usefixtures("_no_store")
def test_system_without_certificates_trusts_certifis():
    assert open_trust().cert_store_stats()["x509_ca"] > 50


def test_folder_that_was_named_is_the_only_one(tmp_path, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))

    assert 0 == open_trust().cert_store_stats()["x509_ca"]


def test_authority_that_was_named_is_the_only_one(authority):
    assert 1 == open_trust().cert_store_stats()["x509_ca"]


def subject_hash(path: Path) -> str:
    """The name under which OpenSSL looks for a certificate in a folder."""
    command = [program("openssl"), "x509", "-hash", "-noout", "-in", str(path)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
