"""The proxies that the environment names: what goes through them, and what they may see."""

import ssl

import pytest
import structlog
import trustme

from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.serving import HELLO, serve_relay
from tests.upstreams.proxy import serve_proxy

KEY = "sk-proxy-0123456789abcdef"
ANSWER = [head(), send(text("fine") + FINISH + DONE)]
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)


@pytest.fixture
def tls(tmp_path, monkeypatch) -> ssl.SSLContext:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


async def ask(base_url: str, *, model: str = "openai/m") -> tuple[dict[str, str], str]:
    """Ask a relay with this upstream; give its answer and its log."""
    with structlog.testing.capture_logs() as logs:
        environ = {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": KEY}
        async with serve_relay(environ=environ, demo_pace=0) as relay:
            body = {**HELLO, "model": model, "stream": False}
            answer = (await relay.client.post("/v1/chat", json=body)).json()
    return answer, str(logs)


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
async def test_https_goes_through_a_tunnel_in_which_the_proxy_sees_no_key(
    variable, tls, monkeypatch
):
    async with serve_upstream(tls=tls) as upstream, serve_proxy() as proxy:
        upstream.script = ANSWER
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        answer, _ = await ask(f"https://localhost:{upstream.port}/v1")

    assert "fine" == answer["text"]
    assert [f"CONNECT localhost:{upstream.port} HTTP/1.1"] == proxy.asked
    assert f"Bearer {KEY}" == upstream.calls[0].headers["authorization"]
    assert b"CONNECT" in proxy.seen
    assert KEY.encode() not in proxy.seen
    assert b"authorization" not in bytes(proxy.seen).lower()


async def test_proxy_may_want_a_password(tls, monkeypatch):
    async with serve_upstream(tls=tls) as upstream, serve_proxy(user="me:se cret") as proxy:
        upstream.script = ANSWER
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:se%20cret@127.0.0.1:{proxy.port}")
        answer, log = await ask(f"https://localhost:{upstream.port}/v1")

    assert "fine" == answer["text"]
    assert "proxy-authorization" not in upstream.calls[0].headers
    assert "cret" not in log


async def test_wrong_password_of_a_proxy_is_explained_without_it(tls, monkeypatch):
    async with serve_upstream(tls=tls) as upstream, serve_proxy(user="me:right") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:wr0ng-password@127.0.0.1:{proxy.port}")
        answer, log = await ask(f"https://localhost:{upstream.port}/v1")

    assert "upstream_unavailable" == answer["code"]
    assert "the proxy answered with status 407" in answer["detail"]
    assert "407" in log
    assert "wr0ng" not in log + str(answer)
    assert [] == upstream.calls


DOWN, SOCKS = "http://me:wr0ng-password@127.0.0.1:1", "socks5://me:wr0ng-password@127.0.0.1:1080"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (DOWN, "cannot be reached through the proxy"),
        (SOCKS, "sets a proxy that is not an HTTP proxy"),
    ],
    ids=["down", "SOCKS"],
)
async def test_proxy_that_cannot_be_used_is_explained_without_its_password(url, told, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", url)
    answer, log = await ask("https://llm.invalid/v1")

    assert "upstream_unavailable" == answer["code"]
    assert told in answer["detail"]
    assert "wr0ng" not in log + str(answer)


async def test_proxy_that_cannot_reach_the_upstream_is_explained(monkeypatch):
    async with serve_proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        answer, _ = await ask("https://127.0.0.1:1/v1")

    assert "upstream_unavailable" == answer["code"]


async def test_plain_http_is_asked_of_the_proxy(monkeypatch):
    body = text("from the proxy") + FINISH + DONE
    plain = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{body}".encode()
    async with serve_proxy(plain=plain) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        answer, _ = await ask("http://llm.invalid/v1")

    assert "from the proxy" == answer["text"]
    assert ["POST http://llm.invalid/v1/chat/completions HTTP/1.1"] == proxy.asked


@pytest.mark.parametrize("exempt", ["localhost", "localhost,127.0.0.1", "*", ".local,localhost"])
async def test_no_proxy_goes_straight(exempt, monkeypatch):
    async with serve_upstream() as upstream, serve_proxy() as proxy:
        upstream.script = ANSWER
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", exempt)
        answer, _ = await ask(f"http://localhost:{upstream.port}/v1")

    assert "fine" == answer["text"]
    assert [] == proxy.asked


async def test_demo_never_goes_through_a_proxy(monkeypatch):
    async with serve_proxy() as proxy:
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        answer, _ = await ask("http://llm.invalid/v1", model="demo")

    assert "completed" == answer["status"]
    assert [] == proxy.asked
