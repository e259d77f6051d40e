"""What the relay records of streams, as clients start and end them."""

import asyncio
import contextlib
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import structlog

from app.errors import CODES
from app.events import (
    Event,
    ReasoningDelta,
    StreamStart,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from app.generation.content import MAX_ANSWER, MAX_REQUEST, Content
from app.records.address import Address
from app.records.database import Database
from app.records.recorder import INTERVAL_S
from app.relay import Relay
from app.requests import parse_chat_request
from app.settings import SettingsError, load_settings
from tests.records.kept import check_sums
from tests.serving import HELLO, serve_relay
from tests.waiting import until

ROUTE = """
record_content_hook = {hook}
[[route]]
name = "told"
record_content = true
targets = ["demo/demo"]
[[route]]
name = "quiet"
targets = ["demo/demo"]
"""


def rows_of(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            found = connection.execute("SELECT * FROM streams ORDER BY started_at").fetchall()
        except sqlite3.OperationalError:  # there are no tables yet
            return []
    return [dict(row) for row in found]


async def wait_for(path: Path, count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def there() -> bool:
        rows[:] = rows_of(path)
        return len(rows) >= count

    await until(there, limit_s=INTERVAL_S + 20)
    return rows


async def test_each_way_to_end_leaves_one_row(tmp_path):
    path = tmp_path / "records.db"
    async with serve_relay(records=f"sqlite:///{path}") as relay:
        post = relay.client.post
        await post("/v1/chat", json={**HELLO, "max_tokens": 5})
        await post("/v1/chat/completions", json={**HELLO, "model": "demo-error"})
        await post("/v1/chat", json={**HELLO, "model": "demo-drop"})
        async with relay.client.stream(
            "POST", "/v1/chat", json={**HELLO, "model": "demo-pause"}
        ) as answer:
            stream, seen = answer.headers["stream-id"], b""
            async for piece in answer.aiter_bytes():
                seen += piece
                if b"text.delta" in seen:
                    break
            await post(f"/v1/streams/{stream}/cancel")
        async with relay.client.stream(
            "POST", "/v1/chat", json={**HELLO, "model": "demo-long"}
        ) as left:
            assert await anext(left.aiter_bytes())
            rows = await wait_for(path, 4)
    rows = await wait_for(path, 5)

    ends = Counter((row["model"], row["status"], row["client_format"]) for row in rows)
    assert 5 == len(rows) == len({row["stream"] for row in rows})
    assert 1 == ends["demo-error", "failed", "openai_chat"] + ends["demo-error", "failed", "openai"]
    assert {"completed", "failed", "cancelled", "interrupted"} >= {row["status"] for row in rows}
    by_model = {row["model"]: row for row in rows if row["model"]}
    assert by_model["demo-error"]["code"] in CODES
    cancelled = next(row for row in rows if row["stream"] == stream)
    assert ("cancelled", "estimate") == (cancelled["status"], cancelled["usage_from"])
    assert cancelled["output_tokens"] > 0
    assert all(row["content"] is None for row in rows)
    database = Database(Address(f"sqlite:///{path}"))
    await check_sums(database)
    await database.close()


async def test_streams_go_on_while_the_database_is_away(tmp_path):
    path = tmp_path / "records.db"
    async with serve_relay(records=f"sqlite:///{path}") as relay:
        await relay.client.post("/v1/chat", json={**HELLO, "max_tokens": 3})
        await wait_for(path, 1)
        other = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
        # Not on this loop: the relay may be about to commit on it.
        await asyncio.to_thread(other.execute, "BEGIN EXCLUSIVE")
        answers = await asyncio.gather(
            *(relay.client.post("/v1/chat", json={**HELLO, "max_tokens": 3}) for _ in range(30))
        )
        assert {200} == {answer.status_code for answer in answers}
        other.execute("ROLLBACK")
        other.close()
    rows = await wait_for(path, 31)

    assert 31 == len(rows)


async def test_content_is_recorded_for_routes_that_say_so_only(tmp_path):
    (tmp_path / "seseragi.toml").write_text(ROUTE.replace("record_content_hook = {hook}", ""))
    path = tmp_path / "records.db"
    environ = {"SESERAGI_CONFIG": str(tmp_path / "seseragi.toml")}
    async with serve_relay(environ=environ, records=f"sqlite:///{path}") as relay:
        for model in ("told", "quiet", "demo"):
            await relay.client.post("/v1/chat", json={**HELLO, "model": model, "max_tokens": 9})
    told, *others = await wait_for(path, 3)

    content = json.loads(told["content"])
    assert [{"role": "user", "content": "hello"}] == content["messages"]
    assert content["answer"][0]["text"].startswith("Hello!")
    assert [None, None] == [row["content"] for row in others]


@pytest.mark.parametrize(
    ("hook", "said", "content"),
    [
        ("redact", "hello", {"asked": [{"role": "user", "content": "hello"}]}),
        ("redact", "my secret", None),
        ("fail", "hello", None),
        ("forget_to_return", "hello", None),
    ],
)
async def test_hook_says_what_is_stored(tmp_path, hook, said, content):
    name = json.dumps(f"tests.records.hooks:{hook}")
    (tmp_path / "seseragi.toml").write_text(ROUTE.replace("{hook}", name))
    path = tmp_path / "records.db"
    environ = {"SESERAGI_CONFIG": str(tmp_path / "seseragi.toml")}
    asked = {"model": "told", "max_tokens": 9, "messages": [{"role": "user", "content": said}]}
    with structlog.testing.capture_logs() as lines:
        async with serve_relay(environ=environ, records=f"sqlite:///{path}") as relay:
            await asyncio.gather(*(relay.client.post("/v1/chat", json=asked) for _ in range(3)))
    rows = await wait_for(path, 3)

    failures = [line for line in lines if "record_content_hook failed" in line["event"]]
    assert (0 if hook == "redact" else 1) == len(failures)
    assert said not in str(failures)
    for row in rows:
        kept = None if row["content"] is None else json.loads(row["content"])
        assert content == (kept and {"asked": kept["asked"]})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"RECORD_CONTENT_HOOK": "no_such:thing"}, "record_content_hook: 'no_such:thing' cannot"),
        ({"RECORD_CONTENT_HOOK": "tests.records.hooks"}, "record_content_hook: "),
        ({"RECORD_CONTENT_HOOK": "tests.records.hooks:number"}, "is not a function"),
        ({"RECORDS": "sqlite:////none/x.db"}, "records: the directory '/none' does not exist"),
        ({"RECORDS": "mysql://me:s3cret@h/d"}, "use 'sqlite:///PATH' or 'postgresql://"),
    ],
)
async def test_settings_that_cannot_be_used_are_told_at_the_start(settings, told):
    environ = {"SESERAGI_RECORDS": "sqlite:///records.db"}
    environ |= {f"SESERAGI_{name}": value for name, value in settings.items()}

    with pytest.raises(SettingsError) as raised:
        async with Relay.open(load_settings(environ)):
            pass

    assert told in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_content_is_bounded_and_has_no_pictures():
    picture = "data:image/png;base64," + "A" * 100_000
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": picture}}]
    messages = [{"role": "user", "content": f"{number} " + "x" * 30_000} for number in range(20)]
    body = json.dumps({"messages": [*messages, {"role": "user", "content": parts}]})
    events: list[Event] = [
        StreamStart("st_1", "m", 0),
        ReasoningDelta(0, "hm"),
        ToolCallStart(2, "c", "look"),
        ToolCallDelta(2, '{"a":'),
        ToolCallDelta(2, "1}"),
        *(TextDelta(1, "y" * 1000) for _ in range(1000)),
    ]

    packed = Content(parse_chat_request(body.encode())).pack(events)

    content = json.loads(packed)
    assert len(packed) < MAX_REQUEST + MAX_ANSWER + 1000
    assert "AAAA" not in packed.decode()
    assert parts[0] in content["messages"][-1]["content"]
    assert 21 == content["messages_left_out"] + len(content["messages"])
    assert content["messages_left_out"] > 15
    thought, text, call = content["answer"]
    assert {"type": "reasoning", "text": "hm"} == thought
    assert {"type": "tool_call", "name": "look", "arguments": '{"a":1}'} == call
    assert MAX_ANSWER - 2000 < len(text["text"]) <= MAX_ANSWER
    assert content["answer_cut"]
