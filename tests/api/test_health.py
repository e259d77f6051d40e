"""`/healthz` and `/readyz`."""

import pytest

from tests.serving import serve_relay


async def test_relay_is_alive_and_ready():
    async with serve_relay() as relay:
        for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
            reply = await relay.client.get(path)

            assert (200, {"status": status}) == (reply.status_code, reply.json())


@pytest.mark.parametrize("why", ["draining", "log failing"])
async def test_relay_that_takes_no_streams_is_not_ready(why, monkeypatch):
    async with serve_relay() as relay:
        if why == "draining":
            relay.hub.draining = True
        else:
            monkeypatch.setattr(relay.hub._log, "healthy", lambda: False)
        reply = await relay.client.get("/readyz")
        alive = await relay.client.get("/healthz")

        assert (503, {"status": why}) == (reply.status_code, reply.json())
        assert 200 == alive.status_code
