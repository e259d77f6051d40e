"""`seseragi doctor` as it is typed."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from app.identity.authenticator import Authenticator
from app.identity.principal import Principal
from app.settings import load_settings
from tests.doctor.exams import PACE
from tests.identities import Table
from tests.serving import serve_relay

ROOT = Path(__file__).parents[2]


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


async def test_report_for_people_and_for_programs():
    async with serve_relay(observers=(), demo_pace=PACE) as relay:
        words, data = await asyncio.gather(
            run(relay.url, "--idle", "0"), run(relay.url, "--idle", "0", "--json")
        )

    assert (0, 0) == (words[0], data[0])
    assert "Nothing is wrong." in words[1]
    assert "measuring a stream" in words[2]
    report: dict[str, Any] = json.loads(data[1])
    assert "well" == report["status"]
    assert {"busy"} >= {finding["code"] for finding in report["findings"]}
    assert report["measures"]["pace"]["tokens"] == 80
    assert "" == data[2]


async def test_nobody_there_is_2():
    status, out, _ = await run("http://127.0.0.1:1", "--json")

    assert 2 == status
    assert "not tried" == json.loads(out)["status"]


async def test_what_is_wrong_is_1():
    async with serve_relay(observers=(), demo_pace=PACE) as relay:
        status, out, _ = await run(f"{relay.url}/elsewhere")

    assert 1 == status
    assert "WRONG  not_seseragi" in out


async def test_relay_that_asks_who_it_is_is_told():
    known = Authenticator([Table({"key-me": Principal("t", "me", "k1")})])
    async with serve_relay(observers=(), demo_pace=PACE, authenticator=known) as relay:
        without, wrong, right = await asyncio.gather(
            run(relay.url),
            run(relay.url, SESERAGI_KEY="sk_wrong"),
            run(relay.url, "--idle", "0", SESERAGI_KEY="key-me"),
        )

    assert (2, True) == (without[0], "--key" in without[1]), without
    assert (2, True) == (wrong[0], "refuses the credential" in wrong[1]), wrong
    assert "sk_wrong" not in wrong[1]
    assert 0 == right[0], right


def test_relay_on_the_machine_of_the_key_ignores_it():
    assert load_settings({}) == load_settings({"SESERAGI_KEY": "sk_1"})


async def test_ctrl_c_ends_it_without_a_traceback():
    async with serve_relay(observers=(), demo_pace=PACE) as relay:
        process = await start(relay.url)
        assert process.stderr is not None
        while b"measuring a stream" not in await process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 10)

    assert 130 == process.returncode
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftp://a"], "'ftp://a' is no URL"),
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
