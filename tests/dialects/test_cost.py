"""What anybody sends costs in proportion to its size, whatever its shape: calls are counted.

`test_linear.py` measures times too, which show what is quadratic within one call.
"""

import pytest

from app import events as e
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.reading import answer_bounds
from tests.dialects import cost, work
from tests.dialects.request_shapes import BUILDERS, GIANT, PASSED_ON, RAW, REQUESTS, SHAPES
from tests.dialects.shapes import ANSWERS, FRAMINGS, LINES
from tests.dialects.shapes import SHAPES as BODIES
from tests.dialects.streams import check, end_of

pytestmark = pytest.mark.pure

MAX_CALLS_PER_ITEM = 60


def few(items: int) -> int:
    """Return a small size of a shape of so many items, or of so many bytes."""
    return 2**12 if items >= GIANT // 8 else max(4, items // 20)


@pytest.mark.parametrize("dialect", BODIES)
def test_a_parser_is_linear(dialect: str) -> None:
    lines = LINES if dialect in FRAMINGS else {}
    for name, shape in {**BODIES[dialect], **lines}.items():
        cost.check_calls(work.parse(dialect, shape), 2**9, name=name)


@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
def test_a_renderer_is_linear(client_format: str) -> None:
    for name in ANSWERS:
        cost.check_calls(work.write(client_format, name), 12, name=name)
        cost.check_calls(work.render_result(client_format, name), 12, name=name)


def test_a_snapshot_is_linear() -> None:
    for name in ANSWERS:
        cost.check_calls(work.snapshot(name), 12, name=name)


@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
def test_reading_a_request_is_linear(client_format: str) -> None:
    for name, shape in SHAPES.items():
        if client_format in shape.client_formats:
            read = work.read(client_format, shape.body)
            cost.check_calls(read, few(shape.items), per_item=MAX_CALLS_PER_ITEM, name=name)
    for name, piece in RAW.items():
        cost.check_calls(work.refuse(client_format, piece), 2**12, per_item=1, name=name)


@pytest.mark.parametrize("builder", BUILDERS)
def test_building_a_request_is_linear(builder: str) -> None:
    for name, (items, _) in REQUESTS.items():
        build = work.build(builder, name)
        cost.check_calls(build, few(items), per_item=MAX_CALLS_PER_ITEM, name=name)


def test_passing_a_request_on_is_linear() -> None:
    for name, shape in PASSED_ON.items():
        pass_on = work.pass_on(shape)
        cost.check_calls(pass_on, few(shape.items), per_item=MAX_CALLS_PER_ITEM, name=name)


SMALL = {"MAX_CALLS": 10, "MAX_BLOCKS": 20, "MAX_SOURCES": 30, "MAX_BUFFERED": 4096}


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound, value in SMALL.items():
        assert value < getattr(answer_bounds, bound)
        monkeypatch.setattr(f"app.dialects.reading.event_builder.{bound}", value)


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize(
    ("dialect", "name", "most"),
    [
        ("openai_chat", "calls", "10 tool calls"),
        ("openai_chat", "calls without a name", "10 tool calls"),
        ("openai_chat", "turns of text and reasoning", "20 blocks"),
        ("openai_chat", "annotations", "30 sources"),
        ("openai_chat", "log probabilities without a text", "4096 bytes"),
        ("openai_chat", "verdicts", "4096 bytes"),
        ("openai_responses", "pieces of code", "4096 bytes"),
        ("anthropic", "blocks that never end", "4096 bytes"),
        ("anthropic", "citations without a text", "4096 bytes"),
        ("anthropic", "input of a tool of the provider", "4096 bytes"),
        ("bedrock_converse", "citations without a text", "4096 bytes"),
        ("gemini_interactions", "two texts at once", "20 blocks"),
        ("gemini_interactions", "steps that never end", "4096 bytes"),
        ("gemini_interactions", "tools of Google's", "4096 bytes"),
        ("cohere", "one block of many numbers", "4096 bytes"),
        ("ollama", "calls", "10 tool calls"),
    ],
)
def test_what_nobody_can_tell_yet_is_bounded(dialect: str, name: str, most: str) -> None:
    found = work.play(dialect, work.pieces(BODIES[dialect][name](2**16)))

    error = end_of(found).error
    assert error is not None
    assert error.code == "upstream_invalid_response"
    assert f"more than {most}" in error.message
    check(found)


@pytest.mark.usefixtures("small_bounds")
def test_what_came_before_a_bound_is_kept() -> None:
    found = work.play("openai_chat", work.pieces(BODIES["openai_chat"]["calls"](2**13)))

    starts, ends = (
        [x for x in found if isinstance(x, t)] for t in (e.ToolCallStart, e.ToolCallEnd)
    )
    assert SMALL["MAX_CALLS"] == len(starts) == len(ends)
    assert end_of(found).status == "failed"
