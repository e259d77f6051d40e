"""Cassettes of a running relay: saved, replayed with faults, recorded for requests."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.framing.sse import Decoder
from app.identity.authenticator import Authenticator
from app.identity.principal import Principal
from app.settings import SettingsError, load_settings
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Hold,
    Reset,
    Step,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    text,
    wait,
)
from tests.api.bodies import body_of
from tests.cassettes.test_replay import masked
from tests.identities import Table, bearer
from tests.serving import (
    HELLO,
    Relay,
    chat,
    events_of,
    serve_relay,
    serve_script,
    text_of,
)

ANSWER: list[Step] = [head(), *(send(text(word)) for word in ("One", " two", " three")), send(FINISH + USAGE + DONE)]  # fmt: skip


def ask(**fields: Any) -> dict[str, Any]:
    return {**HELLO, **fields}


async def save(relay: Relay, stream: str, file: Path) -> httpx2.Response:
    saved = await relay.client.post(f"/v1/streams/{stream}/cassette")
    assert 200 == saved.status_code, saved.text
    file.write_bytes(saved.content)
    return saved


def heads(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_bytes().splitlines()[0]) for file in folder.iterdir()]


async def test_stream_is_saved_without_a_secret_and_replayed_with_faults(tmp_path):
    table = Table({"key-ann": Principal("acme", "ann", "her-key")})
    async with serve_script([], cassettes=tmp_path, authenticator=Authenticator([table])) as (
        relay,
        upstream,
    ):
        relay.client.headers.update(bearer("ann"))
        upstream.script = ANSWER
        live = await relay.client.post("/v1/chat", json=ask(user="an-end-user"))
        stream = live.headers["stream-id"]
        saved = await save(relay, stream, tmp_path / "one.jsonl")
        assert "application/jsonl" == saved.headers["content-type"]
        name = r'attachment; filename="openai-gpt-6-luna-[0-9a-f]{24}\.jsonl"'
        assert re.fullmatch(name, saved.headers["content-disposition"])
        told = json.loads(saved.text.splitlines()[0])
        assert {"cassette", "made_by", "model", "request_digest"} == set(told)
        for secret in (stream, "sk-test", "acme", "ann", "her-key", live.headers["x-request-id"]):
            assert secret not in saved.text

        async def replay(options: str) -> list[dict[str, Any]]:
            return await chat(relay, model=f"cassette/one?{options}")

        whole = await replay("speed=0")
        assert ("One two three", "completed") == (text_of(whole), whole[-1]["status"])
        cut = await replay("cut_at=5")
        assert ("One two", "upstream_truncated") == (text_of(cut), cut[-1]["error"]["code"])
        assert cut[:5][1:] == whole[:5][1:]
        assert ["text.end", "stream.end"] == [event["type"] for event in cut[5:]]
        failed = await replay("error_at=4&error=upstream_overloaded")
        assert ("One", "upstream_overloaded") == (text_of(failed), failed[-1]["error"]["code"])
        assert whole[1:-1] == (await replay("stall_at=4&stall_s=0.01"))[1:-1]

        async def refused(model: str) -> tuple[int, str, str]:
            answer = await relay.client.post("/v1/chat", json=ask(model=model))
            return answer.status_code, answer.json()["code"], answer.json()["detail"]

        # Before the answer has begun a failure is an HTTP status, and nothing asks again.
        error = await refused("cassette/one?error_at=2&error=upstream_rate_limited")
        assert (429, "upstream_rate_limited") == error[:2]
        assert (502, "upstream_truncated") == (await refused("cassette/one?cut_at=1"))[:2]
        code, _, message = await refused("cassette/one?cut_at=99")
        assert (400, "model: cut_at: the cassette 'one' has 10 events") == (code, message)
        assert 404 == (await refused("cassette/none"))[0]
        assert 404 == (await refused("cassette/../secrets"))[0]
        lines = (tmp_path / "one.jsonl").read_bytes().splitlines()
        (tmp_path / "one.jsonl").write_bytes(b"\n".join([*lines[:3], b"{", *lines[3:]]))
        code, _, message = await refused("cassette/one")
        assert (502, "cassette 'one.jsonl': line 4: Input data was truncated") == (code, message)
        listed = (await relay.client.get("/v1/models")).json()["data"]
        assert {"id": "cassette/one", "owned_by": "cassette"}.items() <= listed[-1].items()
        # A replay costs nothing and is not stopped by how others of it have failed.
        assert 1 == len(upstream.calls)
        usage = (await relay.client.get("/v1/usage")).json()
        assert "0" == usage["today"]["cost"]


async def test_running_stream_is_saved_as_far_as_it_is(tmp_path):
    async with serve_script([head(), send(text("One")), Hold()], cassettes=tmp_path) as (relay, _):
        started = await relay.client.post(
            "/v1/chat", json=HELLO, headers={"prefer": "respond-async"}
        )
        stream = started.headers["stream-id"]
        async with relay.client.stream("GET", f"/v1/streams/{stream}/events") as reader:
            async for piece in reader.aiter_text():
                if "text.delta" in piece:
                    break
        saved = await save(relay, stream, tmp_path / "so-far.jsonl")
        assert '"text.delta"' in saved.text.splitlines()[-1]
        so_far = await chat(relay, model="cassette/so-far?speed=0")
        assert ("One", "upstream_truncated") == (text_of(so_far), so_far[-1]["error"]["code"])

        assert 404 == (await relay.client.post("/v1/streams/st_none/cassette")).status_code


async def test_stream_beyond_the_largest_file_is_refused(monkeypatch):
    monkeypatch.setattr("app.api.streams.MAX_BYTES", 2000)
    async with serve_script([head(), send(text("x" * 2000) + FINISH + DONE)]) as (relay, _):
        stream = (await relay.client.post("/v1/chat", json=HELLO)).headers["stream-id"]
        assert 409 == (await relay.client.post(f"/v1/streams/{stream}/cassette")).status_code


async def test_request_is_recorded_once_and_then_replayed_in_every_dialect(tmp_path):
    folder = tmp_path / "made" / "here"
    settings: Any = {"cassettes": folder, "record_cassettes": "new"}
    async with serve_script(ANSWER, **settings) as (relay, upstream):
        for calls, path in enumerate((one.path for one in CLIENT_FORMATS.values()), 1):
            body = json.loads(json.dumps(body_of(path)).replace("hello", path))
            live = await relay.client.post(path, json=body)
            assert "seseragi-cassette" not in live.headers, path
            again = await relay.client.post(
                path, json=body, headers={"idempotency-key": path, "authorization": "Bearer x"}
            )
            assert (200, calls) == (again.status_code, len(upstream.calls)), path
            assert (folder / f"{again.headers['seseragi-cassette']}.jsonl").is_file()
            assert varying(live) == varying(again), path
        # Neither who asks nor how it is answered makes another request of it.
        upstream.script = reply("500 Oops", "{}")
        said = {"messages": [{"role": "user", "content": "/v1/ui/chat"}]}
        whole = await relay.client.post("/v1/chat", json={**said, "stream": False, "user": "ann"})
        assert "One two three" == whole.json()["text"]
        asked = {"input": "/v1/ui/chat", "model": "openai/gpt-6-luna"}
        other = await relay.client.post("/v1/responses", json=asked)
        assert whole.headers["seseragi-cassette"] == other.headers["seseragi-cassette"]
        assert whole.headers["seseragi-cassette"].startswith("openai-gpt-6-luna-")
        assert all("request" not in told for told in heads(folder))
        assert {1} == {told["measured_from"] for told in heads(folder)}


def varying(answer: httpx2.Response) -> str:
    """An answer but for its own ids and the time at which it was made."""
    return masked(answer.text, answer.headers["stream-id"])


async def test_only_what_completed_is_recorded_and_at_the_same_time_harmlessly(tmp_path):
    settings: Any = {"cassettes": tmp_path, "record_cassettes": "new", "cassette_requests": True}
    scripts: dict[str, list[Step]] = {
        "cut": [chunked_head(), chunk(text("One")), Reset()],
        "refused": reply("401 Unauthorized", "{}"),
        "whole": [head(), send(text("One")), wait(0.05), send(text(" two") + FINISH + DONE)],
    }

    def choose(call: Call) -> list[Step]:
        return scripts[call.json["messages"][0]["content"]]

    def said(word: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": word}]}

    async with serve_script([], **settings) as (relay, upstream):
        upstream.choose = choose
        for word in ("cut", "refused"):
            for _ in range(2):
                await relay.client.post("/v1/chat", json=said(word))
        assert (4, []) == (len(upstream.calls), list(tmp_path.iterdir()))
        # The demo costs nothing, and its answers are its own.
        await chat(relay, model="demo", max_tokens=2)
        assert [] == list(tmp_path.iterdir())

        answers = await asyncio.gather(*(chat(relay, said("whole")) for _ in range(5)))
        assert {"One two"} == set(map(text_of, answers))
        assert "One two" == text_of(await chat(relay, said("whole")))
        assert 9 == len(upstream.calls)
        [told] = heads(tmp_path)
        assert said("whole")["messages"] == told["request"]["messages"]
        [file] = tmp_path.iterdir()
        times = [json.loads(line)["at"] for line in file.read_bytes().splitlines()[1:]]
        assert 0.05 <= times[-1] < 20
        assert sorted(times) == times

        replayed = await relay.client.post("/v1/chat", json={**said("whole"), "model": "openai/m"})
        assert 10 == len(upstream.calls), "another model is another request"
        assert "seseragi-cassette" not in replayed.headers
    replays: Any = {"cassettes": tmp_path, "record_cassettes": "replay"}
    async with serve_script([], **replays) as (relay, upstream):
        assert "One two" == text_of(await chat(relay, said("whole")))
        none = await relay.client.post("/v1/chat", json=said("cut"))
        assert (400, []) == (none.status_code, upstream.calls)
        assert ".jsonl' for this request to 'openai/gpt-6-luna'" in none.json()["detail"]
        async with serve_relay(**replays) as keyless:  # as in CI, where there is no key
            assert "One two" == text_of(await chat(keyless, said("whole")))
            asked = {**said("whole"), "model": "openai/gpt-6-luna"}
            assert "One two" == text_of(await chat(keyless, asked))
            none = await keyless.client.post("/v1/chat", json=said("cut"))
            assert ".jsonl' for this request to 'openai/gpt-6-luna'" in none.json()["detail"]
        file.write_bytes(b"{}\n")
        broken = await relay.client.post("/v1/chat", json=said("whole"))
        assert 502 == broken.status_code
        assert f"cassette '{file.name}': line 1: " in broken.json()["detail"]


async def test_saved_stream_has_the_name_that_its_recording_would_have(tmp_path):
    folder = tmp_path / "recorded"
    async with serve_script(ANSWER, cassettes=folder, record_cassettes="new") as (relay, _):
        first, again = [await relay.client.post("/v1/chat", json=HELLO) for _ in range(2)]
        recorded = f"{again.headers['seseragi-cassette']}.jsonl"
        assert [recorded] == [file.name for file in folder.iterdir()]
        for answer in (first, again):
            saved = await save(relay, answer.headers["stream-id"], tmp_path / recorded)
            disposition = f'attachment; filename="{recorded}"'
            assert disposition == saved.headers["content-disposition"]

    (folder / recorded).unlink()
    async with serve_script([], cassettes=folder, record_cassettes="replay") as (relay, upstream):
        missing = await relay.client.post("/v1/chat", json=HELLO)
        assert f"no cassette '{recorded}'" in missing.json()["detail"]
        (tmp_path / recorded).rename(folder / recorded)
        replayed = await relay.client.post("/v1/chat", json=HELLO)
        assert (200, recorded) == (
            replayed.status_code,
            f"{replayed.headers['seseragi-cassette']}.jsonl",
        )
        assert [] == upstream.calls


async def test_cost_is_told_as_it_was_and_not_taken_again(tmp_path):
    config = tmp_path / "seseragi.toml"
    config.write_text('[[price]]\ntarget = "openai/*"\ninput = 1000\noutput = 1000\n')
    settings: Any = {"cassettes": tmp_path, "config": config}
    async with serve_script(ANSWER, **settings) as (relay, _):
        live = await relay.client.post("/v1/chat", json=HELLO)
        await save(relay, live.headers["stream-id"], tmp_path / "one.jsonl")
        before = (await relay.client.get("/v1/usage")).json()["today"]["cost"]
        again = await chat(relay, model="cassette/one?speed=0")
        cut = await chat(relay, model="cassette/one?speed=0&cut_at=6")

        assert events_of(Decoder().feed(live.content))[1:] == again[1:]
        assert "0.005" == again[-1]["cost"] == before
        assert "0" == cut[-1]["cost"]
        assert before == (await relay.client.get("/v1/usage")).json()["today"]["cost"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"record_cassettes": "new"}, "record_cassettes: it needs 'cassettes'"),
        ({"cassettes": "/nothing/here"}, "cassettes: there is no folder '/nothing/here'; make it"),
        (
            {"cassettes": "/dev/null/x", "record_cassettes": "new"},
            "cassettes: '/dev/null/x' cannot",
        ),
    ],
)
async def test_setting_that_cannot_be_used_is_told(settings: dict[str, Any], expected: str):
    with pytest.raises(SettingsError, match=expected):
        async with serve_relay(**settings):
            pass


async def test_without_the_setting_there_are_no_cassettes():
    async with serve_relay() as relay:
        answer = await relay.client.post("/v1/chat", json=ask(model="cassette/one"))

    assert (404, "off") == (answer.status_code, load_settings({}).record_cassettes)
    assert "cassette" not in answer.json()["detail"].replace("unknown model 'cassette/one'", "")
