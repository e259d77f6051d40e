"""The transcripts of PROTOCOL.md are what the relay says, but for ids and times."""

import asyncio
import re
from asyncio.subprocess import PIPE, Process

import pytest

from app.demo.wire import _TEMPOS, Tempo
from tests.needs import program
from tests.serving import Relay, serve_relay
from tests.test_docs import PROTOCOL, README, block

pytestmark = pytest.mark.proving

ID = re.compile(r"\bst_[\w-]{22}\b")
VARYING = (
    (ID, "st_ID"),
    (re.compile(r"\breq_[0-9a-f]{24}\b"), "req_ID"),
    (re.compile(r"(?m)^date: .*$"), "date: DATE"),
    (re.compile(r'("(?:created|started_at|ended_at)":)[\d.]+'), r"\1TIME"),
)


def transcript(name: str) -> tuple[str, str]:
    """A command of the document and what it shows; "" for what goes on from before."""
    match = re.search(rf"<!-- transcript: {name} -->\n```console\n(.*?)```", PROTOCOL, re.DOTALL)
    assert match is not None, name
    first, _, shown = match[1].partition("\n")
    return (first[2:], shown) if first.startswith("$ ") else ("", match[1])


def alike(text: str) -> str:
    """Put the same in the place of each id and time; a head's lines end in CR LF."""
    for pattern, word in VARYING:
        text = pattern.sub(word, text.replace("\r", ""))
    return text


async def start(relay: Relay, command: str, stream: str = "") -> Process:
    """Run a command of the document, of a stream here in place of the one there."""
    command = ID.sub(stream, command).replace("localhost:8000", f"127.0.0.1:{relay.port}")
    command = command.replace("curl ", "curl -s --max-time 60 ", 1)
    return await asyncio.create_subprocess_shell(command, stdout=PIPE)


async def show(relay: Relay, command: str, stream: str = "") -> str:
    out, _ = await (await start(relay, command, stream)).communicate()
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


async def test_transcript_of_a_stream():
    command, shown = transcript("stream")
    async with serve_relay() as relay:
        assert alike(shown) == alike(await show(relay, command))


async def test_transcript_of_a_cut_and_its_resume():
    async with serve_relay() as relay:
        command, shown = transcript("cut")
        cut = await show(relay, command)
        assert alike(shown) == alike(cut)
        for name in ("resume", "after"):
            command, shown = transcript(name)
            assert alike(shown) == alike(await show(relay, command, stream_of(cut)))


async def test_transcript_of_a_stop(monkeypatch):
    # Only the pauses are other ones: the stop comes long before the next token.
    monkeypatch.setitem(_TEMPOS, "demo-slow", Tempo(4, 4, pauses_after=1))
    async with serve_relay(demo_pace=0.025) as relay:
        command, shown = transcript("running")
        reader = await start(relay, command)
        assert reader.stdout is not None
        running = "".join([(await reader.stdout.readline()).decode() for _ in shown.splitlines()])
        assert alike(shown) == alike(running)

        command, shown = transcript("stop")
        assert alike(shown).rstrip() == alike(await show(relay, command, stream_of(running)))
        rest, _ = await reader.communicate()
        assert alike(transcript("stopped")[1]) == alike(rest.decode())
