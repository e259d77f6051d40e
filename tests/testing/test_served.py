"""A relay in the event loop of a test, as applications use it from `seseragi.testing`."""

import subprocess
import sys
from typing import Any

import httpx2
import pytest

from app.settings import SettingsError, load_settings
from app.testing import Substitutes, answer, serve_relay, serve_upstream
from tests.test_docs import block

QUESTION = {"messages": [{"role": "user", "content": "hi"}], "stream": False}


class Spy:
    """Stands before an event log and notes the types of the events it is given."""

    def __init__(self, log: Any, seen: list[str]) -> None:
        self._log, self._seen = log, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, stream: str, events: Any, *more: Any) -> Any:
        self._seen += [type(event).__name__ for event in events]
        return await self._log.append(stream, events, *more)


async def test_relay_of_these_settings_asks_the_scripted_provider():
    async with serve_upstream() as upstream:
        upstream.script = answer("Hello", " world")
        environ = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": upstream.base_url}
        async with (
            serve_relay(load_settings(environ)) as relay,
            httpx2.AsyncClient(base_url=relay.url, trust_env=False) as client,
        ):
            reply = await client.post("/v1/chat", json=QUESTION)
            stream = reply.headers["stream-id"]

            assert "Hello world" == reply.json()["message"]["content"]
            assert 1 == len(upstream.calls)
            assert "completed" == (await client.get(f"/v1/streams/{stream}")).json()["status"]
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"{relay.url}/healthz", trust_env=False)


async def test_example_of_the_page_moves_the_clock_past_the_retention(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    names: dict[str, Any] = {}
    exec(block("served", "docs/testing.md").replace("seseragi.", "app."), names)  # noqa: S102

    await names["test_streams_expire"]()


async def test_wrapped_log_is_given_every_event():
    seen: list[str] = []
    substitutes = Substitutes(wrap_log=lambda log: Spy(log, seen))
    async with (
        serve_relay(load_settings({}), substitutes=substitutes) as relay,
        httpx2.AsyncClient(base_url=relay.url, trust_env=False) as client,
    ):
        await client.post("/v1/chat", json={**QUESTION, "max_tokens": 1})

    assert ("StreamStart", "StreamEnd") == (seen[0], seen[-1])
    assert "TextDelta" in seen


async def test_settings_that_cannot_be_used_are_refused():
    with pytest.raises(SettingsError, match="default_model"):
        async with serve_relay(load_settings({"SESERAGI_DEFAULT_MODEL": "nobody/none"})):
            pass


def test_kit_does_not_import_the_relay_until_it_is_asked_for_it():
    code = "import sys, app.testing; print('app.relay' in sys.modules, 'starlette' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False False\n" == done.stdout
    with pytest.raises(ImportError, match="nothing"):
        from app.testing import nothing  # noqa: F401
