"""The receiver of the guide, as a process: it accepts what the relay signs, and nothing else."""

import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from app.webhooks.message import sign
from tests.commands.test_command import environment
from tests.ports import free_port
from tests.waiting import wait_until
from tests.webhooks.receiver import KEYS, SECRETS

pytestmark = pytest.mark.proving

DOCUMENT = Path(__file__).parents[2] / "docs" / "webhooks.md"
BODY = b'{"type": "stream.ended", "data": {"status": "completed"}}'


def test_receiver_of_the_guide_accepts_only_what_is_signed(tmp_path):
    found = re.search(r"<!-- run: receiver -->\n```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert found is not None
    port = free_port()
    code = found[1].replace('("", 9000)', f'("127.0.0.1", {port})')
    assert code != found[1]
    now = int(time.time())
    variables = environment(ENDED_SECRET=SECRETS[0])
    with subprocess.Popen(
        [sys.executable, "-c", code], env=variables, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        try:

            def post(headers: dict[str, str], body: bytes = BODY) -> int:
                url = f"http://127.0.0.1:{port}/ended"
                return httpx2.post(url, content=body, headers=headers, trust_env=False).status_code

            def answers() -> bool:
                try:
                    return bool(post({"webhook-timestamp": "0"}))
                except httpx2.HTTPError:
                    return False

            wait_until(answers)
            good = sign("st_1", BODY, secrets=KEYS, at=now)
            assert 204 == post(good)
            for headers, body in (
                (sign("st_1", BODY, secrets=KEYS[1:], at=now), BODY),
                (sign("st_1", BODY, secrets=KEYS, at=now - 400), BODY),
                ({**good, "webhook-id": "ended_st_2"}, BODY),
                (good, BODY.replace(b"completed", b"cancelled")),
            ):
                assert 401 == post(headers, body)
        finally:
            process.kill()
        assert process.stdout is not None
        assert "ended_st_1 completed\n" == process.stdout.read()
