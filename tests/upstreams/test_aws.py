"""Signatures that Amazon takes, and keys from where Amazon's own tools look."""

import asyncio
import datetime
import hashlib
import logging
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import botocore.auth
import pytest
import structlog
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from app.errors import UpstreamError
from app.requests import parse_chat_request
from app.upstreams.aws import AwsCredentials
from app.upstreams.endpoints import Upstream
from app.upstreams.http import open_client
from app.upstreams.targets import Target
from tests.sdk.recorder import Recorder, serve_recorder

NOW = datetime.datetime(2026, 11, 21, 1, 2, 3)
ID = "AKIAIOSFODNN7EXAMPLE"
KEY = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN = "FwoGZXIvYXdzEXAMPLE//////////tokentoken=="  # noqa: S105  (made up)
URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/a.b-v1%3A0/converse-stream"


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any keys, and no way to ask for some."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_: NOW)


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    with serve_recorder() as recorder:
        yield recorder


MODELS = (
    "amazon.nova-lite",
    "a~b.c_d-e",
    "anthropic.claude-3-sonnet-20240229-v1:0",
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x:0",
)


@pytest.mark.usefixtures("keys", "clock")
@pytest.mark.parametrize("model", MODELS)
async def test_a_signature_is_the_one_of_the_sdk(model: str, recorder: Recorder) -> None:
    client = boto3.client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=recorder.url,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=30, read_timeout=30),
    )
    messages = [{"role": "user", "content": [{"text": "こんにちは"}]}]
    theirs = recorder.record(lambda: client.converse_stream(modelId=model, messages=messages))
    client.close()

    ours = await AwsCredentials("eu-west-1").headers("POST", recorder.url + theirs.path, theirs.raw)

    signed = ("content-type", "x-amz-date", "x-amz-security-token", "authorization")
    assert ours == {name: theirs.headers[name] for name in signed}
    assert f"/{NOW:%Y%m%d}/eu-west-1/bedrock/aws4_request" in ours["authorization"]


@pytest.mark.usefixtures("keys", "clock")
@pytest.mark.parametrize("model", MODELS)
async def test_what_arrives_is_what_was_signed(model: str) -> None:
    """The server signs what it received, with the path quoted once more, and compares."""
    chat = parse_chat_request('{"messages": [{"role": "user", "content": "せ"}]}'.encode())
    with serve_recorder() as server:
        credentials = AwsCredentials("us-east-1")
        upstream = Upstream("b", server.url, "bedrock_converse", credentials=credentials)
        async with open_client(connect_timeout_s=5, mounts={}) as http:
            target = Target(upstream, model)
            request = await target.build_call(target.build_request(chat), connect_timeout_s=5)
            await (await http.open(request)).body.aclose()
    (sent,) = server.requests

    received = AWSRequest(
        "POST",
        server.url + sent.path,
        headers={"content-type": sent.headers["content-type"], "host": sent.headers["host"]},
        data=sent.raw,
    )
    signer = SigV4Auth(Credentials(ID, KEY, TOKEN), "bedrock", "us-east-1")
    signer.add_auth(received)
    assert received.headers["authorization"] == sent.headers["authorization"]
    assert received.headers["x-amz-date"] == sent.headers["x-amz-date"]
    canonical = signer.canonical_request(received).splitlines()
    assert canonical[1] == quote(sent.path, safe="/~")
    assert canonical[-1] == hashlib.sha256(sent.raw).hexdigest()
    assert sent.path == f"/model/{quote(model, safe='')}/converse-stream"


@pytest.mark.usefixtures("keys")
async def test_a_request_without_a_body_has_no_type() -> None:
    headers = await AwsCredentials("us-east-1").headers("GET", URL, b"")

    assert "content-type" not in headers
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token" in headers["authorization"]


async def test_a_profile_is_read_from_the_shared_files(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = other\naws_secret_access_key = {KEY}\n"
        f"[team]\naws_access_key_id = {ID}\naws_secret_access_key = {KEY}\n"
    )

    headers = await AwsCredentials("us-east-1", profile="team").headers("POST", URL, b"{}")

    assert f"Credential={ID}/" in headers["authorization"]
    assert "x-amz-security-token" not in headers
    other = await AwsCredentials("us-east-1").headers("POST", URL, b"{}")
    assert "Credential=other/" in other["authorization"]


@pytest.mark.parametrize("profile", [None, "nobody"])
async def test_no_keys_are_an_error_that_tells_nothing_of_the_machine(
    profile: str | None, tmp_path: Path
) -> None:
    credentials = AwsCredentials("us-east-1", profile)

    with pytest.raises(UpstreamError) as failed:
        await credentials.headers("POST", URL, b"{}")

    assert failed.value.code == "upstream_auth"
    assert "no AWS credentials" in failed.value.message
    assert str(tmp_path) not in failed.value.message
    assert failed.value.__context__ is None
    assert credentials.redact("a text") == "a text"


async def test_keys_are_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = AwsCredentials("us-east-1")
    with pytest.raises(UpstreamError):
        await credentials.headers("POST", URL, b"{}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)

    assert ID in (await credentials.headers("POST", URL, b"{}"))["authorization"]


def script(tmp_path: Path, expires: str) -> None:
    """Keys that a program gives, numbered, each valid until a time."""
    program = tmp_path / "keys.py"
    program.write_text(
        "import json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "number = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (number + 1))\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'ASIAEXAMPLE00000000{number}',\n"
        f"  'SecretAccessKey': f'secretsecret-number-{{number}}', 'SessionToken': f'{{number}}' * 20,\n"
        f"  'Expiration': {expires!r}}}))\n"
    )
    (tmp_path / "config").write_text(
        f"[default]\ncredential_process = {sys.executable} {program}\n"
    )


async def test_keys_that_last_are_asked_for_once(tmp_path: Path) -> None:
    script(tmp_path, "2999-01-01T00:00:00Z")
    credentials = AwsCredentials("us-east-1")

    found = await asyncio.gather(*(credentials.headers("POST", URL, b"{}") for _ in range(5)))

    assert {re.findall(r"Credential=(\w+)", h["authorization"])[0] for h in found} == {
        "ASIAEXAMPLE000000000"
    }


async def test_keys_that_expire_are_renewed_and_both_are_redacted(tmp_path: Path) -> None:
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=5)
    script(tmp_path, soon.isoformat())
    credentials = AwsCredentials("us-east-1")

    headers = [await credentials.headers("POST", URL, b"{}") for _ in range(2)]

    first, second = (h["x-amz-security-token"] for h in headers)
    assert first != second
    assert credentials.redact(f"of {first} and {second}") == "of [key] and [key]"


@pytest.mark.usefixtures("keys")
async def test_secrets_are_taken_out_of_texts_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    credentials = AwsCredentials("us-east-1")
    with caplog.at_level(logging.DEBUG):
        await credentials.headers("POST", URL, b"{}")

    assert credentials.redact(f"a {KEY} b {TOKEN} c {ID} d") == "a [key] b [key] c [key] d"
    assert TOKEN not in caplog.text
    assert KEY not in repr(credentials)


@pytest.mark.usefixtures("keys")
async def test_the_loop_does_not_wait_for_keys() -> None:
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    answer = threading.Event()

    class Slow:
        def __init__(self, **_: Any) -> None:
            loop.call_soon_threadsafe(asked.set)
            assert answer.wait(60)

        def get_credentials(self) -> Credentials:
            return Credentials(ID, KEY)

    credentials = AwsCredentials("us-east-1", open_session=Slow)
    tasks = [asyncio.create_task(credentials.headers("POST", URL, b"{}")) for _ in range(50)]
    await asked.wait()
    # Names of hosts are looked up in these threads: others must not wait for Amazon's keys.
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 20) == "free"
    answer.set()

    assert all(ID in headers["authorization"] for headers in await asyncio.gather(*tasks))


REFUSALS = {
    "role": ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRole"),
    "program": FileNotFoundError("/opt/keys"),
    "output": ValueError("no JSON"),
}


@pytest.mark.parametrize("error", REFUSALS.values(), ids=REFUSALS)
async def test_keys_that_cannot_be_had_are_an_error_and_logged(error: Exception) -> None:
    def refuse(**_: Any) -> None:
        raise error

    with structlog.testing.capture_logs() as logs, pytest.raises(UpstreamError) as failed:
        await AwsCredentials("us-east-1", open_session=refuse).headers("POST", URL, b"{}")

    assert failed.value.code == "upstream_auth"
    assert [type(error).__name__] == [entry["reason"] for entry in logs]


def test_without_botocore_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.auth", None)

    with pytest.raises(UpstreamError, match=r'pip install "\.\[bedrock\]"'):
        AwsCredentials("us-east-1")
