"""How a request came, as the relay tells it."""

from tests.serving import serve_relay


async def test_what_a_proxy_has_made_of_a_request_is_told():
    async with serve_relay(heartbeat_s=3) as relay:
        headers = {"via": "1.1 varnish", "last-event-id": "st_1.4", "x-origin-secret": "s3cret"}
        told = (await relay.client.get("/v1/echo", headers=headers)).json()

    assert ("1.1", "127.0.0.1", 3) == (told["http_version"], told["client"], told["heartbeat_s"])
    assert {"via": "1.1 varnish", "last-event-id": "st_1.4"}.items() <= dict(
        told["headers"]
    ).items()


async def test_headers_that_may_be_secrets_are_not_told():
    async with serve_relay() as relay:
        headers = {
            "authorization": "Bearer s3cret",
            "cookie": "s3cret",
            "x-origin-verify": "s3cret",
        }
        reply = await relay.client.get("/v1/echo", headers=headers)

    assert "s3cret" not in reply.text
    assert "no-store" == reply.headers["cache-control"]


async def test_what_is_told_is_bounded():
    async with serve_relay() as relay:
        headers = [("x-forwarded-for", "1" * 2000)] * 20 + [("via", "1.1 a")] * 30
        told = (await relay.client.get("/v1/echo", headers=headers)).json()

    assert 40 == len(told["headers"])
    assert 512 == max(len(value) for _, value in told["headers"])
