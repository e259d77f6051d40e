"""The backends of docs/backends.md give a secret to who is signed in, and to nobody else.

That of FastAPI and that of Express run in theirs. That of Next.js is a function of the web's own
`Request` and `Response`: it is called as Next.js calls it, which is not here. That of Django is
compiled only. The browser's side is run by tests/e2e/test_backends.py.
"""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from tests.e2e.asking import Asking
from tests.needs import file, program
from tests.serving import serve_relay
from tests.test_docs import block

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
DOCUMENT = "docs/backends.md"
EXPRESS = ROOT / "tests" / "clients" / "backends"

Ask = Callable[[str | None], Coroutine[Any, Any, tuple[int, str]]]


def fastapi_app(snippet: str) -> FastAPI:
    """Return the app of the recipe; its session is what the header `x-user` says."""
    names: dict[str, Any] = {}
    exec(compile(snippet, DOCUMENT, "exec"), names)  # noqa: S102  (of the document)
    app = FastAPI()
    app.include_router(names["router"])

    class Sessions:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            user = dict(scope.get("headers", ())).get(b"x-user")
            await self.app({**scope, "session": {"user": user and user.decode()}}, receive, send)

    app.add_middleware(Sessions)
    return app


async def test_fastapi(monkeypatch):
    asking = Asking()
    async with serve_relay(watch=asking) as relay:
        monkeypatch.setenv("RELAY_URL", relay.url)
        monkeypatch.setenv("RELAY_KEY", "ssk_backend")
        transport = httpx2.ASGITransport(fastapi_app(block("fastapi", DOCUMENT)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://app.test") as client:
            stranger = await client.post("/api/llm-secret")
            reply = await client.post("/api/llm-secret", headers={"x-user": "1234"})
            monkeypatch.setenv("RELAY_KEY", "ssk_revoked")
            refused = httpx2.ASGITransport(fastapi_app(block("fastapi", DOCUMENT)))
        async with httpx2.AsyncClient(transport=refused, base_url="http://app.test") as client:
            failed = await client.post("/api/llm-secret", headers={"x-user": "1234"})

    assert [401, 200, 502] == [stranger.status_code, reply.status_code, failed.status_code]
    assert {"value": "ek_1", "expires_at": reply.json()["expires_at"]} == reply.json()
    assert "no-store" == reply.headers["cache-control"]
    assert ["1234"] == asking.users
    assert "ssk_" not in failed.text


IN_EXPRESS = """
import express from 'express';
const app = express();
app.use((req, res, next) => {
  req.session = { user: req.headers['x-user'] };
  next();
});
%s
const server = app.listen(0, '127.0.0.1', () => ask(async (user) => {
  const headers = user ? { 'x-user': user } : {};
  return fetch(`http://127.0.0.1:${server.address().port}/api/llm-secret`, { method: 'POST', headers });
}).then(() => process.exit()));
"""
IN_NEXT = """
let session = null;
globalThis.auth = async () => session;
const { POST } = await import('data:text/javascript,' + encodeURIComponent(%s));
await ask((user) => {
  session = user && { user: { id: user } };
  return POST(new Request('http://app.test/api/llm-secret', { method: 'POST' }));
});
"""
ASK = """
async function ask(call) {
  const told = [];
  for (const [key, user] of [['ssk_backend', null], ['ssk_backend', '1234'], ['ssk_revoked', '1234']]) {
    process.env.RELAY_KEY = key;
    const reply = await call(user);
    told.push([reply.status, reply.headers.get('cache-control'), await reply.text()]);
  }
  console.log(JSON.stringify(told));
}
"""


def in_express() -> str:
    file(EXPRESS / "node_modules" / "express", how=f"run npm ci --prefix {EXPRESS}")
    return IN_EXPRESS % block("express", DOCUMENT)


def in_next() -> str:
    snippet = block("next", DOCUMENT)
    stubbed = snippet.replace("import { auth } from '@/auth';", "const auth = globalThis.auth;")
    assert stubbed != snippet
    return IN_NEXT % json.dumps(stubbed)


@pytest.mark.parametrize("program_of", [in_express, in_next])
async def test_node(program_of):
    asking = Asking()
    async with serve_relay(watch=asking) as relay:
        process = await asyncio.create_subprocess_exec(
            *(program("node"), "--input-type=module", "--eval", program_of() + ASK),
            cwd=EXPRESS,
            env={"PATH": os.environ["PATH"], "RELAY_URL": relay.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, complaints = await asyncio.wait_for(process.communicate(), 60)
    assert (0, "") == (process.returncode, complaints.decode())
    stranger, given, failed = json.loads(out)

    assert [401, 200, 502] == [stranger[0], given[0], failed[0]]
    assert "no-store" == given[1]
    assert "ek_1" == json.loads(given[2])["value"]
    assert ["1234"] == asking.users
    assert "ssk_" not in failed[2]


def test_django_is_python():
    compile(block("django", DOCUMENT), DOCUMENT, "exec")


def test_every_code_block_of_the_backends_is_run():
    text = (ROOT / DOCUMENT).read_text(encoding="utf-8")
    found = set(re.findall(r"(?m)(?:^<!-- run: (\w+) -->\n)?^```(?:js|python)$", text))

    assert {
        "fastapi",
        "express",
        "next",
        "django",
        "secret",
        "seseragi",
        "usechat",
        "openai",
    } == found
