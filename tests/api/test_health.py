"""`/healthz` and `/readyz`."""

import pytest

from app.testing.upstream import reply
from tests.api.asking import altering
from tests.serving import HELLO, serve_relay, serve_script


async def test_relay_is_alive_and_ready():
    async with serve_relay() as relay:
        for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
            reply = await relay.client.get(path)

            assert (200, {"status": status}) == (reply.status_code, reply.json())


@pytest.mark.parametrize("why", ["draining", "log failing"])
async def test_relay_that_takes_no_streams_is_not_ready(why):
    async with serve_relay(
        wrap_log=altering(healthy=lambda of: of() and why == "draining")
    ) as relay:
        if why == "draining":
            relay.hub.shutdown.draining = True
        reply = await relay.client.get("/readyz")
        alive = await relay.client.get("/healthz")

        assert (503, {"status": why}) == (reply.status_code, reply.json())
        assert 200 == alive.status_code


async def test_names_of_models_that_clients_made_up_are_told_to_nobody():
    """They may say what somebody works on."""
    async with serve_script(reply("503 Busy", "{}"), default_model="openai/known") as (relay, _):
        for model in ("openai/known", "openai/acme-merger-draft", "openai/gpt-6-luna"):
            answer = await relay.client.post("/v1/chat", json={**HELLO, "model": model})
            assert 503 == answer.status_code
        told = await relay.client.get("/readyz?verbose")

    assert "acme" not in told.text
    names = [target["target"] for target in told.json()["targets"]]
    assert ["openai/known", "openai/gpt-6-luna"] == names  # the setting's, the preset's
