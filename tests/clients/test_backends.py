"""The backends of docs/backends.md in Node.js give secrets to signed-in users only.

Express runs the one written for it. That for Next.js is a function of the web's `Request` and
`Response`, called as Next.js calls it. tests/clients/test_documents.py has those in Python, and
tests/e2e/test_backends.py the browser's side.
"""

import json
from typing import Any

import pytest
from fastapi import FastAPI

from tests.clients.programs import ROOT, run
from tests.e2e.asking import Asking
from tests.needs import file, program
from tests.serving import serve_relay
from tests.test_docs import block

pytestmark = pytest.mark.proving

DOCUMENT = "docs/backends.md"
EXPRESS = ROOT / "tests" / "clients" / "backends"

BLOCKS = ("fastapi", "express", "next", "django", "secret", "seseragi", "usechat", "openai")


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
async def test_backend_in_node_gives_a_secret_to_who_is_signed_in_and_to_nobody_else(program_of):
    asking = Asking()
    async with serve_relay(watch=asking) as relay:
        node = (program("node"), "--input-type=module", "--eval", program_of() + ASK)
        out = await run(*node, folder=EXPRESS, quiet=True, RELAY_URL=relay.url)
    stranger, given, failed = json.loads(out)

    assert [401, 200, 502] == [stranger[0], given[0], failed[0]]
    assert "no-store" == given[1]
    assert "ek_1" == json.loads(given[2])["value"]
    assert ["1234"] == asking.users
    assert "ssk_" not in failed[2]
