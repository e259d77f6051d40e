"""The end of a stream whose producer is gone, wherever it was cut."""

import msgspec
import pytest

from app.eventlog.recovery import closing_events, orphan_of
from app.events import (
    ChoiceEnd,
    ErrorInfo,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from app.generation.settlement import Settlements
from app.ledger.accounts import Reservation
from app.ledger.prices import PriceBook
from app.telemetry.row import unpack_row
from tests.dialects.streams import check
from tests.eventlog.accounts_contract import AT, asking, info

pytestmark = pytest.mark.pure

LOST = ErrorInfo("producer_lost", "the relay that ran the stream is gone", True)
HEAD: list[Event] = [StreamStart("st_1", "demo", 0), StreamTarget("demo", "demo", 1, "up_1")]

STREAMS: dict[str, list[Event]] = {
    "text": [
        TextStart(0),
        TextDelta(0, "so"),
        LogProbs(0, [{"token": "so", "logprob": -0.5}]),
        TextDelta(0, " far"),
        TextEnd(0),
        ChoiceEnd("stop", "stop"),
        Usage(3, 2, 5),
        StreamEnd("completed", "stop", TokenCounts(3, 2, 5)),
    ],
    "reasoning, then text and refusal": [
        ReasoningStart(0),
        ReasoningDelta(0, "hm"),
        ReasoningEnd(0, signature="s"),
        Opaque("anthropic.signature", "data", 0),
        TextStart(1),
        TextDelta(1, "no"),
        TextEnd(1),
        RefusalStart(2),
        RefusalDelta(2, "I will not"),
        RefusalEnd(2),
        ChoiceEnd("refusal", "refusal"),
        StreamEnd("completed", "refusal"),
    ],
    "parallel tool calls": [
        TextStart(0),
        TextDelta(0, "let me look"),
        TextEnd(0),
        ToolCallStart(1, "call_1", "weather"),
        ToolCallDelta(1, '{"city":'),
        ToolCallStart(2, "call_2", "time"),
        ToolCallDelta(2, '{"zone"'),
        ToolCallDelta(1, '"Kyoto"}'),
        ToolCallDelta(2, ':"JST"}'),
        ToolCallEnd(1, '{"city":"Kyoto"}'),
        ToolCallEnd(2, '{"zone":"JST"}'),
        ChoiceEnd("tool_calls", "tool_calls"),
        StreamEnd("completed", "tool_calls"),
    ],
    "two choices": [
        TextStart(0, 1),
        TextDelta(0, "b", 1),
        TextStart(1),
        TextDelta(1, "a"),
        TextEnd(1),
        ChoiceEnd("length", "length"),
        TextDelta(0, "c", 1),
        TextEnd(0, 1),
        ChoiceEnd("stop", "stop", choice=1),
        StreamEnd("completed", "length"),
    ],
    "what has no end of its own": [
        Media(0, "image/png", data="aaaa"),
        ProviderTool(1, "search", {"query": "sea"}),
        Notice("retry", "once more"),
        TextStart(2),
        TextDelta(2, "a"),
        TextEnd(2),
        ChoiceEnd("stop"),
        StreamEnd("completed", "stop"),
    ],
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_prefix_ends_well(name: str) -> None:
    events = [*HEAD, *STREAMS[name]]
    for cut in range(1, len(events)):
        ending = closing_events(iter(events[:cut]), status="interrupted", error=LOST)

        check([*events[1:cut], *ending])  # it wants what a parser gives, without the start
        end = ending[-1]
        assert isinstance(end, StreamEnd)
        assert ("interrupted", LOST) == (end.status, end.error)
    assert [] == closing_events(events, status="interrupted", error=LOST)


def test_open_blocks_end_in_the_order_they_began() -> None:
    events = [*HEAD, *STREAMS["parallel tool calls"][:7]]

    assert [
        ToolCallEnd(1, '{"city":', incomplete=True),
        ToolCallEnd(2, '{"zone"', incomplete=True),
        StreamEnd("failed", "error", error=LOST, ended_by="relay_lost"),
    ] == closing_events(events, status="failed", error=LOST)


def test_call_without_arguments_does_not_look_whole() -> None:
    ending = closing_events(
        [*HEAD, ToolCallStart(0, "c", "f", 2)], status="interrupted", error=LOST
    )

    assert ToolCallEnd(0, "", 2, incomplete=True) == ending[0]


def test_finish_reason_and_usage_are_those_that_were_told() -> None:
    events = [*HEAD, *STREAMS["text"][:-1]]

    assert [
        StreamEnd("interrupted", "stop", TokenCounts(3, 2, 5), error=LOST, ended_by="relay_lost")
    ] == closing_events(events, status="interrupted", error=LOST)


def test_finish_reason_of_another_choice_is_not_the_streams() -> None:
    events = [*HEAD, ChoiceEnd("stop", choice=1)]

    assert [StreamEnd("cancelled", "cancelled", ended_by="relay_lost")] == closing_events(
        events, status="cancelled", error=None
    )


def test_relay_counts_what_was_held_where_nothing_else_is_known():
    """As close_orphaned is told of it."""
    settlements = Settlements(PriceBook(()), keeps_rows=True)
    end = StreamEnd("interrupted", "error")
    kept = info("st_1", asking())
    lost = orphan_of(kept, (), end, started_at=AT, ended_at=AT + 1)
    lost = lost._replace(reserved=Reservation(110, 2 * 110))
    closing = settlements.close_orphaned(lost)
    spent = closing.settlement
    assert (10, 100, 220) == (spent.input_tokens, spent.output_tokens, spent.nano_usd)
    assert ("0.00000022", True) == (closing.ended.end.cost, closing.ended.end.usage.estimated)  # type: ignore[union-attr]
    row = unpack_row(spent.row)
    assert (220, "estimate", True) == (row.nano_usd, row.usage_from, row.lost)

    free = settlements.close_orphaned(lost._replace(reserved=Reservation(110, 0)))
    assert 0 == free.settlement.nano_usd
    unknown = info("st_1", asking(unpriced=True))
    unpriced = settlements.close_orphaned(
        lost._replace(ended=msgspec.structs.replace(lost.ended, info=unknown))
    )
    assert None is unpriced.settlement.nano_usd
