"""The transcripts of PROTOCOL.md are what the relay says, but for ids and times."""

import asyncio
import re
from asyncio.subprocess import PIPE

import pytest

from tests.api.asking import serve_asked
from tests.needs import program
from tests.serving import HELLO, Relay, serve_relay
from tests.test_docs import PROTOCOL, README, block
from tests.watching import watching

pytestmark = pytest.mark.proving

ID = re.compile(r"\bst_[\w-]{22}\b")
PLACES = re.compile(r"\br[\d.]+e[\d.]+")
VARYING = (
    (re.compile(r"retry: [23]\d{3}\n\Z"), "retry: SPREAD\n"),
    (PLACES, "rPLACEePLACE"),
    (re.compile(r'("(?:started|ended)_at":)[\d.]+'), r"\1TIME"),
    (ID, "st_ID"),
    (re.compile(r"\breq_[0-9a-f]{24}\b"), "req_ID"),
    (re.compile(r"(?m)^date: .*$"), "date: DATE"),
    (re.compile(r'("created":)\d+'), r"\1TIME"),
)


def transcript(name: str) -> tuple[str, str]:
    """Return a command of the document and its output."""
    match = re.search(rf"<!-- transcript: {name} -->\n```console\n(.*?)```", PROTOCOL, re.DOTALL)
    assert match is not None, name
    first, _, shown = match[1].partition("\n")
    return first.removeprefix("$ "), shown


def alike(text: str) -> str:
    """Put the same in the place of each id and time; a head's lines end in CR LF."""
    for pattern, word in VARYING:
        text = pattern.sub(word, text.replace("\r", ""))
    return text


async def show(relay: Relay, command: str, stream: str = "") -> str:
    """Run a command of the document, with the ids of a stream here."""
    command = ID.sub(stream, command).replace("localhost:8000", f"127.0.0.1:{relay.port}")
    command = command.replace("curl ", "curl -s --max-time 60 ", 1)
    process = await asyncio.create_subprocess_shell(command, stdout=PIPE)
    out, _ = await process.communicate()
    return out.decode()


def stream_of(shown: str) -> str:
    match = ID.search(shown)
    assert match is not None, shown
    return match[0]


@pytest.fixture(autouse=True)
def _curl() -> None:
    program("curl")


async def test_curl_of_the_readme_streams():
    async with serve_relay() as relay:
        shown = await show(relay, block("curl"))

    example = README.split("<!-- run: curl -->")[1].split("```")[3].removeprefix("\n")
    assert "event: text.delta\n" in example
    assert alike(example) in alike(shown)
    assert '"status":"completed"' in shown


async def test_transcripts_of_a_stream_and_its_resume():
    async with serve_relay() as relay:
        command, shown = transcript("stream")
        stream = await show(relay, command)
        assert alike(shown) == alike(stream)
        for name in ("resume", "after"):
            command, shown = transcript(name)
            assert alike(shown) == alike(await show(relay, command, stream_of(stream)))


async def test_transcript_of_a_watch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.api.stream_watch.LONGEST_S", 0.5)
    async with serve_asked() as asked:
        async with watching(asked.relay.client) as watched:
            await watched.until("watch.ready")
            at = watched.id
        body = {**HELLO, "model": "demo", "max_tokens": 3, "metadata": {"chat": "tea"}}
        reply = await asked.by("ann", "POST", "/v1/chat", json=body)
        assert b"stream.end" in reply.content
        command, shown = transcript("watch")
        command = PLACES.sub(at, command).replace("ssk_...", "ann")
        assert alike(shown) == alike(await show(asked.relay, command))
