"""Keys in a relay that runs: it takes up new ones, and nobody is shown any."""

import json
import logging
from collections.abc import Sequence
from hashlib import sha256

import pytest
import structlog

from app.testing.upstream import Step, head, reply, send, serve_upstream
from tests.serving import HELLO, serve_relay
from tests.upstreams.test_credentials import replace
from tests.upstreams.test_redaction import FORMS, KEY, pieces


async def test_running_relay_takes_up_a_new_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "key"
    path.write_text("first-0123456789")
    async with serve_upstream() as upstream:
        (tmp_path / "seseragi.toml").write_text(
            f'[upstream.x]\nbase_url = "{upstream.base_url}"\nkey_file = "key"\n'
        )
        upstream.script = reply("401 Unauthorized", "{}")
        async with serve_relay() as relay:
            for key in ("first-0123456789", "second-0123456789"):
                replace(path, key)
                await relay.client.post("/v1/chat", json={**HELLO, "model": "x/m"})
                assert f"Bearer {key}" == upstream.calls[-1].headers["authorization"]


SAYINGS = {
    "JSON": lambda said: json.dumps({"error": {"message": f"Incorrect API key provided: {said}"}}),
    "text": lambda said: f"wrong key {said}",
    "HTML": lambda said: f"<html><body><h1>401</h1> key {said}</body></html>",
}


@pytest.mark.parametrize("saying", SAYINGS.values(), ids=SAYINGS)
async def test_what_an_upstream_quotes_reaches_nobody(saying, caplog):
    """Neither the client nor a log, at its most talkative; in no form of the key."""
    caplog.set_level(logging.DEBUG)
    async with serve_upstream() as upstream, serve_relay(upstream, key=KEY) as relay:
        for form in FORMS.values():
            said = form(KEY)
            quoted = f"data: {json.dumps({'error': {'message': saying(said)}})}\n\n"
            statuses = ("400 Bad Request", "401 Unauthorized", "500 Oops")
            scripts: list[Sequence[Step]] = [reply(status, saying(said)) for status in statuses]
            scripts.append([head(), send(quoted)])
            upstream.calls.clear()
            caplog.clear()
            shown = []
            with structlog.testing.capture_logs() as logs:
                for number, script in enumerate(scripts):
                    upstream.script = script
                    # Another one each time: what has failed too often is asked no more.
                    body = {
                        **HELLO,
                        "model": f"openai/{sha256(said.encode()).hexdigest()}-{number}",
                    }
                    answer = await relay.client.post("/v1/chat", json=body)
                    assert answer.status_code >= 400
                    assert f"Bearer {KEY}" == upstream.calls[-1].headers["authorization"]
                    shown.append(f"{answer.text} {answer.headers}")
            assert 4 == len(upstream.calls)

            for everything in (*shown, f"{logs} {caplog.text}"):
                assert not pieces(said[4:-4]) & pieces(everything)
                assert not pieces(json.dumps(said[4:-4])[1:-1]) & pieces(everything)


GATEWAY = """
[upstream.x]
base_url = "{url}"
headers = {{ cf-aig-authorization = "Bearer gateway-0123456789", x-title = "A long title" }}
query = {{ code = "function-0123456789", api-version = "2026-01-01" }}
"""

BROKEN = {
    "refusal": reply("400 No", "gateway-0123456789, function-0123456789, A long title, 2026-01-01"),
    "no HTTP": [send("HTTP/1.1 what?\r\n\r\n")],
}


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
async def test_what_headers_and_queries_hold_is_secret_by_its_name(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with structlog.testing.capture_logs() as logs:
        async with serve_upstream() as upstream:
            (tmp_path / "seseragi.toml").write_text(GATEWAY.format(url=upstream.base_url))
            upstream.script = script
            async with serve_relay() as relay:
                shown = await relay.client.post("/v1/chat", json={**HELLO, "model": "x/m"})
            assert "code=function-0123456789" in upstream.calls[0].path

    everything = f"{shown.text} {logs}"
    assert "gateway-" not in everything
    assert "function-" not in everything
    if script is BROKEN["refusal"]:
        assert "A long title, 2026-01-01" in shown.text


async def test_what_an_upstream_says_besides_its_answer_is_redacted():
    finish = {"finishReason": "SAFETY", "finishMessage": f"blocked for {KEY}"}
    said = [{"content": {"parts": [{"text": "a"}]}}, finish]
    async with serve_upstream() as upstream:
        events = "".join(f"data: {json.dumps({'candidates': [one]})}\n\n" for one in said)
        upstream.script = [head(), send(events)]
        async with serve_relay(upstream, key=KEY, dialect="gemini") as relay:
            shown = await relay.client.post("/v1/chat", json={**HELLO, "model": "openai/m"})

    assert "blocked for [key]" in shown.text
    assert not pieces(json.dumps(KEY)[1:-1]) & pieces(shown.text)
