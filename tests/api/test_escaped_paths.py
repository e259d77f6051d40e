"""A path that a proxy's filter does not recognize is none of the relay's."""

import pytest

from tests.hostile import statuses, tell
from tests.serving import serve_relay


@pytest.mark.parametrize(
    "path",
    ["/%6detrics", "/metric%73", "/%2e/metrics", "/%41dmin", "/v%31/models", "/a%7Eb", "/a%2Db"],
)
async def test_escaped_unreserved_characters_are_refused(path: str):
    async with serve_relay() as relay:
        ask = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
        answer = await tell(relay.port, ask)

        assert [400] == statuses(answer)
        assert b"must not be percent-encoded" in answer


@pytest.mark.parametrize(
    "path", ["/v1/ui/chat/a%20b/stream", "/v1/ui/chat/%E3%81%82/stream", "/a%2Fb"]
)
async def test_other_escapes_are_read(path: str):
    async with serve_relay() as relay:
        ask = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()

        assert statuses(await tell(relay.port, ask)) in ([204], [404])
