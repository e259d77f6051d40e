"""An `Idempotency-Key` on a call that keeps no answer is refused: it would be billed twice."""

import pytest

from app.testing.upstream import serve_upstream
from tests.serving import VECTOR, serve_relay

BODIES = {
    "/v1/embeddings": {"model": "openai/e", "input": "hello"},
    "/v1/messages/count_tokens": {
        "model": "demo",
        "messages": [{"role": "user", "content": "hello"}],
    },
    "/v1/responses/input_tokens": {"model": "demo", "input": "hello"},
}


@pytest.mark.parametrize("path", BODIES)
async def test_key_of_a_call_without_a_stream_is_refused(path: str):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        headers = {"idempotency-key": "a-key"}
        refused = await relay.client.post(path, json=BODIES[path], headers=headers)
        assert 400 == refused.status_code
        assert "Idempotency-Key: calls without a stream keep no answer" in refused.text
        assert [] == upstream.calls
        upstream.script = VECTOR
        assert 200 == (await relay.client.post(path, json=BODIES[path])).status_code
