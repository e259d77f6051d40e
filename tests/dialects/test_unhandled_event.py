"""A type of event that is not handled fails each renderer and fold; none drops it silently.

All of them end their `match` with `assert_never`, so mypy names them where `events.Event` has a
new class. The native frames are the events themselves, whatever they are.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.reading.open_blocks import OpenBlocks
from app.dialects.writing.token_estimate import estimate_output
from app.events import StreamStart, StreamTarget, TaggedEvent
from app.generation.content import Content
from tests.dialects import examples as ex
from tests.dialects.rendering import parse

pytestmark = pytest.mark.pure

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"


class Unhandled(TaggedEvent, frozen=True, tag="unhandled"):
    block: int = 1
    choice: int = 0


def note_blocks(events: Iterable[Any]) -> None:
    blocks = OpenBlocks()
    for event in events:
        blocks.note(event)


def renderer(name: str) -> Callable[[Iterable[Any]], object]:
    feed = CLIENT_FORMATS[name].renderer(STREAM).feed
    return lambda events: [frame for event in events for frame in feed(event)]


def result(name: str) -> Callable[[Sequence[Any]], object]:
    render = CLIENT_FORMATS[name].render_result
    return lambda events: render(STREAM, events)


FOLDS: dict[str, Callable[[list[Any]], object]] = {
    **{f"frames of {name}": renderer(name) for name in CLIENT_FORMATS if name != "native"},
    **{f"result of {name}": result(name) for name in CLIENT_FORMATS},
    "open blocks": note_blocks,
    "estimate of the output": estimate_output,
    "recorded content": lambda events: Content(parse({})).pack(events),
}


@pytest.mark.parametrize("name", FOLDS)
def test_an_unhandled_event_is_an_error(name: str) -> None:
    known = [StreamStart(STREAM, "m", 1_700_000_000), StreamTarget("u", "m", 1), *ex.text(0, "a")]

    with pytest.raises(AssertionError, match=r"unreachable.*Unhandled"):
        FOLDS[name]([*known, Unhandled()])
