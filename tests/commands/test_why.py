"""`seseragi why`: what its users are told of an answer, from each place that knows of it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from structlog.testing import capture_logs

from app.__main__ import main
from app.commands.why import conclude
from app.events import EndedBy
from app.identity.principal import Principal
from app.records.address import Address
from app.records.database import Database
from app.testing.upstream import DONE, FINISH, USAGE, Step, head, reply, send, serve_upstream, text
from tests.generation.test_ended_by import ME
from tests.identities import bearer, known
from tests.records.kept import make_row, write
from tests.serving import HELLO, serve_relay
from tests.waiting import until

Why = Callable[..., tuple[int, str, str]]

AT_NOON = "2026-11-23T12:00:0{}.000000Z"
OF_STREAM = {"request_id": "req_1", "stream": "st_1"}
FAILED = {
    **{"event": "attempt failed", "target": "openai/m", "attempt": 1, "http_status": 529},
    **{
        "code": "upstream_overloaded",
        "provider_message": "no \x1b[31mroom",
        "cause": "peer closed connection",
        "upstream_request_id": "req_9",
    },
    **{"attempt_s": 0.8, "then": "asking 'other/m' instead", "timestamp": AT_NOON.format(1)},
}
ENDED = {
    **{"event": "stream ended", "model": "fast", "upstream": "other/m", "status": "cancelled"},
    **{"code": None, "ended_by": "reader_gone", "first_event_s": 2.5, "duration_s": 4.0},
    **{"output_tokens": 60, "cost": "0.0012", "timestamp": AT_NOON.format(4)},
}
ASKED = {
    **{"event": "request", "method": "POST", "path": "/v1/chat", "status": 200, "bytes": 9416},
    **{"complete": False, "user": "ann", "timestamp": AT_NOON.format(3)},
}
READ = {**ASKED, "method": "GET", "request_id": "req_2", "stream": "st_1"}
REFUSED = {**ASKED, "code": "rate_limited", "status": 429, "request_id": "req_3", "stream": None}


@pytest.fixture
def why(capfd, tmp_path, monkeypatch) -> Why:
    """What the command prints on stdout and stderr, and its exit status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SESERAGI_RECORDS", raising=False)

    def why(*arguments: str) -> tuple[int, str, str]:
        status = 0
        try:
            main(["why", *arguments])
        except SystemExit as stopped:
            status = int(stopped.code or 0)
        said = capfd.readouterr()
        return status, said.out, said.err

    return why


@pytest.fixture
def log(tmp_path: Path) -> str:
    lines = [{**OF_STREAM, **FAILED}, {**OF_STREAM, **ASKED}, {**OF_STREAM, **ENDED}, READ, REFUSED]
    others = ['{"event":"listening"}', "no JSON, of st_1", '["st_1"]', '{"stream":["st_1"]}']
    file = tmp_path / "relay.log"
    file.write_text("\n".join([*others, *map(json.dumps, lines)]))
    return str(file)


@pytest.mark.parametrize("name", ["st_1", "req_1"])
def test_log_tells_the_attempts_the_requests_and_the_end_in_their_order(why, log, name):
    status, out, _ = why(name, "--log-file", log)

    first, *steps, last = out.splitlines()
    assert (0, "stream st_1, request_id req_1, user ann, model fast") == (status, first)
    assert [
        "request for fast",
        "attempt 1 at openai/m failed after 0.8 s, HTTP 529, upstream_overloaded, "
        "no \\x1b[31mroom, peer closed connection, asking 'other/m' instead",
        "other/m began to answer",
        "POST /v1/chat: 200, 9416 bytes, not to its end",
        "GET /v1/chat: 200, 9416 bytes, not to its end",
        "cancelled, ended by reader_gone, 60 output tokens, 0.0012 USD",
    ] == [line.partition("Z  ")[2] for line in steps]
    assert steps[0].startswith("2026-11-23 12:00:00.000Z")
    assert "linger_s" in last


def test_request_of_a_reader_leads_to_the_stream_and_a_refused_one_to_its_error(why, log):
    assert "GET /v1/chat" in why("req_2", "--log-file", log)[1]

    status, out, _ = why("req_3", "--log-file", log)
    assert (0, 1) == (status, out.count("/v1/chat"))
    assert "The request was refused: Too many requests (rate_limited). Wait" in out


async def test_records_tell_of_older_ones(why, tmp_path):
    url = f"sqlite:///{tmp_path}/records.db"
    database = Database(Address(url))
    await database.migrate()
    row = make_row("st_1", status="interrupted", code="producer_lost", ended_by="relay_lost")
    await write(database, row, make_row("st_2"))
    await database.close()

    for name in ("st_1", "req_st_1"):
        status, out, _ = await asyncio.to_thread(why, name, "--records", url)
        assert 0 == status
        assert "openai/gpt" not in out  # it is not known when that began
        assert (
            "interrupted, producer_lost, stop, ended by relay_lost, 10 input tokens, "
            "20 output tokens, 0.0000015" in out
        )
        assert "Its process died" in out
    whole = await asyncio.to_thread(why, "st_2", "--records", url)
    assert whole[1].endswith("The answer is complete. It did not stop early.\n")
    assert 1 == (await asyncio.to_thread(why, "st_3", "--records", url))[0]


async def test_relay_tells_of_a_stream_that_it_has(why):
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, attempts=2, authenticator=known(me=ME)) as relay,
    ):
        answer: list[Step] = [head(), send(text("hi") + FINISH + USAGE + DONE)]
        busy = reply("503 Busy", "{}")
        upstream.choose = lambda call: answer if len(upstream.calls) > 1 else busy
        begun = await relay.client.post("/v1/chat", json=HELLO, headers=bearer("me"))
        stream = begun.headers["stream-id"]

        async def ask(name: str, *more: str) -> tuple[int, str, str]:
            return await asyncio.to_thread(why, name, "--url", relay.url, *more)

        status, out, _ = await ask(stream, "--key", "key-me")
        assert (0, "The answer is complete. It did not stop early.") == (
            status,
            out.splitlines()[-1],
        )
        assert " began to answer\n" in out
        assert "retry, upstream 'openai' is overloaded; try again later; asking" in out
        assert "completed, stop, 3 input tokens, 2 output tokens" in out
        assert (1, "") == (await ask("st_unknown", "--key", "key-me"))[:2]
        refused = await ask(stream)
        assert (2, True) == (refused[0], "requires the stream's" in refused[2])
        assert 2 == (await ask("req_1", "--key", "key-me"))[0]


def test_what_is_nowhere_or_cannot_be_looked_for_has_an_exit_status(why, log):
    status, out, err = why("st_9", "--log-file", log)
    assert (1, "", True) == (status, out, "'st_9' is not in the log" in err)
    for arguments in (
        ("st_1",),
        ("st 1", "--log-file", log),
        ("st_1", "--log-file", "/nowhere"),
        ("st_1", "--url", "nowhere"),
        ("st_1", "--records", "mysql://x"),
    ):
        status, out, err = why(*arguments)
        assert (2, "") == (status, out)
        assert "Traceback" not in err
        assert 1 == err.count("\n")


@pytest.mark.parametrize("by", [*get_args(EndedBy), None])
def test_there_is_a_conclusion_of_each_end(by):
    told = conclude({"status": "failed", "code": "upstream_auth", "ended_by": by})

    assert told.endswith(".")
    assert ("key" in told) == (by in ("provider", None, "operator"))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"ended_by": "reader_gone", "client_format": "native"}, "raise `linger_s`"),
        ({"ended_by": "reader_gone", "client_format": "ui"}, "raise `linger_s`"),
        ({"ended_by": "reader_gone", "client_format": "openai_chat"}, "set `on_disconnect`"),
        ({"ended_by": "reader_gone", "client_format": "anthropic"}, "set `on_disconnect`"),
        ({"ended_by": "deadline"}, "`first_event_timeout_s`"),
        ({"ended_by": "deadline", "first_event_s": 1.5}, "`event_gap_timeout_s`"),
        ({"status": "completed", "finish_reason": "length"}, "`max_tokens`"),
        (
            {"status": "completed", "finish_reason": "length", "client_format": "openai_responses"},
            "`max_output_tokens`",
        ),
        ({"status": "", "code": "budget_exceeded"}, "budget"),
    ],
)
def test_advice_is_for_the_cause_and_the_format(facts, told):
    assert told in conclude({"status": "failed", **facts})


async def test_line_of_the_stream_says_who_and_why_repeats_it(why, tmp_path):
    me = Principal("acme", "ann", "web")
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, authenticator=known(me=me)) as relay,
    ):
        upstream.script = [head(), send(text("hi") + FINISH + USAGE + DONE)]
        with capture_logs() as logs:
            await relay.client.post("/v1/chat", json=HELLO, headers=bearer("me"))
            await until(lambda: [line for line in logs if line["event"] == "stream ended"])

    (line,) = [line for line in logs if line["event"] == "stream ended"]
    told = {
        "key": "web",
        "tenant": "acme",
        "user": "ann",
        "input_tokens": 3,
        "client_format": "native",
    }
    assert told == {name: line[name] for name in told}
    assert "hi" not in line.values()
    (tmp_path / "relay.log").write_text(json.dumps({**line, "timestamp": AT_NOON.format(1)}))
    shown = await asyncio.to_thread(why, line["stream"], "--log-file", "relay.log")
    assert "tenant acme, user ann, key web" in shown[1]
    assert "3 input tokens, 2 output tokens" in shown[1]
