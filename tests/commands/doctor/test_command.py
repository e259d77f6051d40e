"""`seseragi doctor` as it is typed."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.__main__ import main
from app.identity.authenticator import Authenticator
from app.identity.principal import Principal
from app.settings import load_settings
from app.testing import start_upstream
from app.testing.upstream import Call, Step, head, send
from tests.commands.doctor.exams import PACE
from tests.identities import Table
from tests.serving import serve_relay

ROOT = Path(__file__).parents[3]


async def run(*arguments: str, **environ: str) -> tuple[int, str, str]:
    process = await start(*arguments, **environ)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def start(*arguments: str, **environ: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app", "doctor", *arguments),
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def test_nobody_there_is_2(capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["doctor", "http://127.0.0.1:1", "--json"])
    assert "not tried" == json.loads(capsys.readouterr().out)["status"]


def test_what_is_no_relay_is_wrong_and_1(capsys):
    with start_upstream() as other, pytest.raises(SystemExit, match=r"^1$"):
        main(["doctor", other.base_url])
    assert "WRONG  not_seseragi" in capsys.readouterr().out


def test_key_is_not_sent_to_another_port(capsys):
    seen: list[dict[str, str]] = []

    def answer(call: Call) -> list[Step]:
        seen.append(call.headers)
        return [head(), send('{"status": "ok"}')]

    with start_upstream() as asked, start_upstream() as other:
        asked.models = [head("307 x", location=f"{other.base_url}/healthz")]
        other.choose_models = answer
        with pytest.raises(SystemExit, match=r"^1$"):
            main(["doctor", asked.base_url, "--key", "sk_secret"])
    assert "sk_secret" not in str(seen)
    said = capsys.readouterr().out
    assert f"leads to {other.base_url}/healthz" in said
    assert "sk_secret" not in said


@pytest.mark.proving
async def test_reports_for_people_and_for_programs_with_a_key_and_without():
    known = Authenticator([Table({"key-me": Principal("t", "me", "k1")})])
    async with serve_relay(observers=(), demo_pace=PACE, authenticator=known) as relay:
        words, data, without, wrong, elsewhere = await asyncio.gather(
            run(relay.url, "--idle", "0", SESERAGI_KEY="key-me"),
            run(relay.url, "--idle", "0", "--json", SESERAGI_KEY="key-me"),
            run(relay.url),
            run(relay.url, SESERAGI_KEY="sk_wrong"),
            run(f"{relay.url}/elsewhere", SESERAGI_KEY="key-me"),
        )

    assert (0, 0) == (words[0], data[0]), (words, data)
    assert "Nothing is wrong." in words[1]
    assert "measuring a stream" in words[2]
    report: dict[str, Any] = json.loads(data[1])
    assert "well" == report["status"]
    assert [] == report["findings"]
    assert report["measures"]["timing"].startswith("80 tokens came within")
    assert "" == data[2]
    assert (2, True) == (without[0], "--key" in without[1]), without
    assert (2, True) == (wrong[0], "refuses the credential" in wrong[1]), wrong
    assert "sk_wrong" not in wrong[1]
    assert (1, True) == (elsewhere[0], "WRONG  not_seseragi" in elsewhere[1])


STREAM = (b"content-type", b"text/event-stream; charset=utf-8")


class StandsStill:
    """Has the doctor stand still while its first stream comes, as a machine does at times."""

    def __init__(self) -> None:
        self.doctor: asyncio.subprocess.Process | None = None
        self.tasks: list[asyncio.Task[None]] = []

    def __call__(self, app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            async def note(message: Message) -> None:
                await send(message)
                if STREAM in message.get("headers", ()) and not self.tasks:
                    self.tasks.append(asyncio.create_task(self._stand_still()))

            await app(scope, receive, note)

        return watched

    async def _stand_still(self) -> None:
        assert self.doctor is not None
        self.doctor.send_signal(signal.SIGSTOP)
        await asyncio.sleep(2)
        self.doctor.send_signal(signal.SIGCONT)


@pytest.mark.proving
async def test_machine_that_stands_still_is_not_taken_for_a_proxy_that_holds_back():
    stands_still = StandsStill()
    async with serve_relay(observers=(), demo_pace=PACE, watch=stands_still) as relay:
        stands_still.doctor = await start(relay.url, "--idle", "0", "--json")
        out, _ = await asyncio.wait_for(stands_still.doctor.communicate(), 60)

    assert "well" == json.loads(out)["status"], out.decode()
    assert 0 == stands_still.doctor.returncode
    assert len(stands_still.tasks) == 1


def test_relay_on_the_machine_of_the_key_ignores_it():
    assert load_settings({}) == load_settings({"SESERAGI_KEY": "sk_1"})


@pytest.mark.proving
async def test_ctrl_c_ends_it_without_a_traceback():
    async with serve_relay(observers=(), demo_pace=PACE) as relay:
        process = await start(relay.url)
        assert process.stderr is not None
        while b"measuring a stream" not in (line := await process.stderr.readline()):
            assert line, "it has ended"
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 30)

    assert 130 == process.returncode
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftp://a"], "'ftp://a' is not a URL"),
        (["http://a", "--idle", "1000"], "--idle: 1000 is not between"),
        (["http://a", "--timeout", "-1"], "--timeout: -1 is not between"),
        (["http://a", "--key", "a\nb"], "--key or SESERAGI_KEY"),
        (["http://a", "--ca", "/none"], "--ca: '/none' cannot be read"),
        ([], "required: URL"),
    ],
)
def test_arguments_that_cannot_be_used(arguments, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", *arguments])

    assert said in capsys.readouterr().err
