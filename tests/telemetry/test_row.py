"""The row of an ended stream: every column comes from a field of `StreamEnded`."""

from typing import Any

import msgspec
import pytest

from app.errors import CODES
from app.eventlog.stream_ended import Charge, StreamEnded
from app.eventlog.stream_info import StreamInfo
from app.events import ErrorInfo, StreamEnd, TokenCounts
from app.telemetry.row import StreamRow, row_of

pytestmark = pytest.mark.pure

RECORD = StreamInfo(
    "st_1",
    request_id="req",
    tenant="acme",
    user="ann",
    key_name="k",
    route="fast",
    model="asked",
    client_format="native",
    traceparent=f"00-{'a' * 32}-{'b' * 16}-01",
)
ERROR = ErrorInfo("internal", "broken", CODES["internal"].retryable)
COUNTS = TokenCounts(1, 2, 3, cached_input_tokens=4, cache_write_tokens=5, reasoning_tokens=6)
ENDED = StreamEnded(
    info=RECORD,
    end=StreamEnd("failed", "error", COUNTS, ERROR, cost="1", ended_by="relay"),
    charges=(Charge(COUNTS, 5, "p2"), Charge(COUNTS, 4, "p1"), Charge(None, 0)),
    nano_usd=9,
    target="u/m",
    answered_model="m-1",
    attempts=3,
    started_at=100.0,
    ended_at=110.0,
    duration_s=10.0,
    first_event_s=0.5,
    longest_gap_s=0.25,
    readers=2,
    resumes=1,
    events=7,
    lost=True,
    content=b"{}",
)


def test_every_field_of_the_row_is_filled():
    row = row_of(ENDED)
    fields = msgspec.structs.fields(StreamRow)
    assert [] == [one.name for one in fields if getattr(row, one.name) == one.default]


def test_row_adds_up_all_attempts():
    row = row_of(ENDED)
    counts = (row.input_tokens, row.output_tokens, row.cached_input_tokens)
    assert (2, 4, 8, 10, 12) == (*counts, row.cache_write_tokens, row.reasoning_tokens)
    assert (9, "p1, p2", "provider") == (row.nano_usd, row.price_version, row.usage_from)
    assert ("st_1", "k", "internal", "a" * 32) == (row.stream, row.key, row.code, row.trace_id)


@pytest.mark.parametrize(
    ("counts", "usage_from"), [(COUNTS, "provider"), (None, "none"), ("estimated", "estimate")]
)
def test_row_has_the_source_of_its_counts(counts: Any, usage_from: str):
    if counts == "estimated":
        counts = msgspec.structs.replace(COUNTS, estimated=True)
    charges = (Charge(counts, None),)
    assert usage_from == row_of(msgspec.structs.replace(ENDED, charges=charges)).usage_from
