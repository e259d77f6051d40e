"""The table of what each client's dialect carries: made from the code, the same in the docs.

`python -m tests.dialects.test_carried` writes it anew into the document.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from app import events as e
from app.dialects.client_formats import CLIENT_FORMATS
from tests.dialects import examples as ex

pytestmark = pytest.mark.pure

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients" / "README.md"
STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
MARK = "MARKMARK"
NUMBER = 471_147
BEGIN, END = "<!-- carried: begin -->", "<!-- carried: end -->"


def said(*events: e.Event, usage: e.TokenCounts | None = None, model: str = "m") -> list[e.Event]:
    """A whole stream around some events."""
    counts = (
        [e.Usage(*(getattr(usage, f) for f in e.TokenCounts.__struct_fields__))] if usage else []
    )
    return [
        e.StreamStart(STREAM, "route", 1_700_000_000, {"usage": "1"}),
        e.StreamTarget("u", model, 1),
        *events,
        e.ChoiceEnd("stop", "stop"),
        *counts,
        e.StreamEnd("completed", "stop", usage),
    ]


TEXT: list[e.Event] = ex.text(0, "a")


CARRIED: dict[str, list[e.Event]] = {
    "text": said(*ex.text(0, MARK)),
    "reasoning": said(*ex.thought(0, MARK)),
    "signature of reasoning": said(*ex.thought(0, "r", signature=MARK, format="anthropic")),
    "encrypted reasoning": said(*ex.thought(0, "r", encrypted=MARK, format="openai")),
    "refusal": said(*ex.refusal(0, MARK)),
    "tool call: name": said(*ex.call(0, "i", MARK)),
    "tool call: id": said(*ex.call(0, MARK, "f")),
    "tool call: arguments": said(*ex.call(0, "i", "f", f'{{"a": "{MARK}"}}')),
    "`opaque` of a call": said(e.ToolCallStart(0, "i", "f"), e.Opaque("google.thought_signature", MARK, 0), e.ToolCallEnd(0, "{}")),
    "`opaque` of the answer": said(*TEXT, e.Opaque("gemini.thought_signature", MARK)),
    "source": said(*TEXT[:2], e.Source(url=f"https://a.example/{MARK}", title="t", block=0), TEXT[2]),
    "place of a source": said(e.TextStart(0), e.TextDelta(0, "a" * 20), e.Source(url="https://a.example/", title="t", start=13, end=17, block=0), e.TextEnd(0)),
    "media": said(e.Media(0, "image/png", data=MARK)),
    "logprobs": said(e.TextStart(0), e.TextDelta(0, "a"), e.LogProbs(0, [{"token": MARK, "logprob": -0.1, "bytes": None, "top_logprobs": []}]), e.TextEnd(0)),
    "verdicts of filters": said(e.ContentFilter("prompt", {MARK: {"filtered": False}}, False), *TEXT),
    "moderation results": said(*(e.ContentFilter(side, {"type": "moderation_results", "results": [{"model": MARK}]}, False) for side in ("prompt", "completion")), *TEXT),
    "tools that the provider ran": said(e.ProviderTool(0, "web_search", input={"q": MARK}), e.ProviderTool(0, "web_search", output=1)),
    "tools that Anthropic ran": said(e.ProviderTool(0, "web_search", input={"q": MARK}, raw=e.Raw("anthropic", '{"type":"server_tool_use"}'))),
    "notices": said(e.Notice("retry", MARK), *TEXT),
    "the model that answers": said(*TEXT, model=MARK),
    "input tokens": said(*TEXT, usage=e.TokenCounts(input_tokens=NUMBER, output_tokens=1)),
    "output tokens": said(*TEXT, usage=e.TokenCounts(input_tokens=1, output_tokens=NUMBER)),
    "cached input tokens": said(*TEXT, usage=e.TokenCounts(input_tokens=NUMBER + 9, output_tokens=1, cached_input_tokens=NUMBER)),
    "reasoning tokens": said(*TEXT, usage=e.TokenCounts(input_tokens=1, output_tokens=NUMBER + 9, reasoning_tokens=NUMBER)),
    "a second choice": said(*TEXT, *ex.text(1, MARK, choice=1)),
    "what failed": [*said(*TEXT)[:-2], e.StreamEnd("failed", "error", None, e.ErrorInfo("upstream_truncated", MARK, True))],
}  # fmt: skip


def carries(client_format: str, events: Sequence[e.Event]) -> bool:
    """Return whether the mark of a stream stands in its frames."""
    writer = CLIENT_FORMATS[client_format].writer(STREAM, after=0, retry_ms=2000)
    body = b"".join(writer.feed(event) for event in events).decode()
    if "13," in repr(events) and "start=13" in repr(events):
        return bool(re.search(r'"start[^"]*": ?13\b', body))
    return MARK in body or str(NUMBER) in body


def render() -> str:
    """What the same formats lack is one row; the native one carries all."""
    names = [name for name in CLIENT_FORMATS if name != "native"]
    carried = {
        feature: [carries(name, events) for name in names] for feature, events in CARRIED.items()
    }
    common = ", ".join(feature for feature, cells in carried.items() if all(cells))
    lines = [
        f"All dialects carry: {common}.",
        "",
        f"| | {' | '.join(f'`{name}`' for name in names)} |",
        "|" + "---|" * (len(names) + 1),
    ]
    rows: dict[tuple[bool, ...], list[str]] = {}
    for feature, cells in carried.items():
        rows.setdefault(tuple(cells), []).append(feature)
    for same, features in rows.items():
        if not all(same):
            shown = " | ".join("yes" if cell else "" for cell in same)
            lines.append(f"| {', '.join(features)} | {shown} |")
    return "\n".join(lines)


def test_the_native_dialect_carries_everything() -> None:
    assert [] == [name for name, events in CARRIED.items() if not carries("native", events)]


def test_the_document_says_what_the_code_does() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")

    assert render() == document.split(BEGIN)[1].split(END)[0].strip()


@pytest.mark.parametrize(
    "client_format", [name for name in CLIENT_FORMATS if name != "openai_completions"]
)
def test_the_answer_itself_is_carried_everywhere(client_format: str) -> None:
    for feature in (
        *("text", "reasoning", "refusal", "tool call: name", "tool call: id"),
        *("tool call: arguments", "input tokens", "output tokens"),
    ):
        assert carries(client_format, CARRIED[feature]), feature


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    DOCUMENT.write_text(f"{head}{BEGIN}\n{render()}\n{END}{tail}", encoding="utf-8")
