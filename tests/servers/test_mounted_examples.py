"""The examples of host applications: their sessions own the streams."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.ports import free_port
from tests.serving import HELLO
from tests.waiting import until

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples/mounted"
USERS = {"ada": "lovelace", "grace": "hopper"}
WITH_USERS = f"""
import sys

import django_app
import uvicorn
from django.contrib.auth.models import User
from django.core.management import call_command

call_command("migrate", verbosity=0)
for name, password in {USERS!r}.items():
    User.objects.create_user(name, password=password)
uvicorn.run(django_app.app, port=int(sys.argv[1]))
"""
SHORT = {**HELLO, "max_tokens": 3}


@contextlib.asynccontextmanager
async def serve(example: str, folder: Path) -> AsyncIterator[str]:
    """Run an example under uvicorn; give its URL."""
    for installed, name in {"seseragi": "app", "static": "static"}.items():
        (folder / installed).symlink_to(ROOT / name)
    python_path = os.pathsep.join(map(str, (folder, EXAMPLES)))
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environ = {**kept, "PYTHONPATH": python_path, "SECRET_KEY": "0123456789abcdef" * 4}
    port = free_port()

    arguments = ["-m", "uvicorn", f"{example}:app", "--port", str(port)]
    if example == "django_app":
        arguments = ["-c", WITH_USERS, str(port)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=folder,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:

            async def answers() -> bool:
                assert process.returncode is None, (await process.communicate())[0].decode()
                with contextlib.suppress(httpx2.TransportError):
                    return (await client.get("/llm/healthz")).is_success
                return False

            await until(answers, limit_s=60)
        yield url
    finally:
        if process.returncode is None:
            process.kill()
        log = (await process.communicate())[0].decode()
        assert "Traceback" not in log, log


@contextlib.asynccontextmanager
async def logged_in(url: str, user: str | None) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=20) as client:
        if user is not None:
            form = {"user": user, "password": USERS[user]}
            assert 204 == (await client.post("/login", json=form)).status_code
        yield client


@pytest.mark.parametrize("example", ["fastapi_app", "starlette_app", "django_app"])
async def test_users_of_the_host_application_own_their_streams(example, tmp_path):
    async with (
        serve(example, tmp_path) as url,
        logged_in(url, "ada") as ada,
        logged_in(url, "grace") as grace,
        logged_in(url, None) as nobody,
    ):
        wrong = await nobody.post("/login", json={"user": "ada", "password": "wrong"})
        assert 401 == wrong.status_code

        streamed = await grace.post("/llm/v1/chat", json=SHORT)
        assert '"status":"completed"' in streamed.text
        stream = f"/llm/v1/streams/{streamed.headers['stream-id']}"
        assert streamed.text == (await grace.get(f"{stream}/events")).text

        admin = example == "starlette_app"
        for path in (stream, f"{stream}/events"):
            assert (200 if admin else 404) == (await ada.get(path)).status_code
            assert 401 == (await nobody.get(path)).status_code
        assert (200 if admin else 403) == (await ada.get("/llm/v1/admin/summary")).status_code
        assert 403 == (await grace.get("/llm/v1/admin/summary")).status_code
        refused = await nobody.post("/llm/v1/chat/completions", json={**SHORT, "model": "demo"})
        assert 401 == refused.status_code
        assert "sign in" in refused.json()["error"]["message"]

        other_page = {"origin": "http://evil.test", "content-type": "text/plain"}
        forged = await grace.post("/llm/v1/chat", json=SHORT, headers=other_page)
        assert 403 == forged.status_code
        assert "evil.test" in forged.json()["detail"]
