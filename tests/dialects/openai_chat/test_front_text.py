"""The short way of a text's chunk writes what the long one does, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.openai_chat.client.deltas import Delta
from app.dialects.openai_chat.client.renderer import Renderer
from app.events import StreamStart, StreamTarget, TextDelta, TextStart

pytestmark = pytest.mark.pure


@given(st.text(), st.integers(0, 3), st.text(max_size=4))
def test_text_is_written_as_any_piece(text: str, choice: int, model: str) -> None:
    renderer = Renderer("st_x")
    renderer.feed(StreamStart("st_x", model, 1))
    renderer.feed(StreamTarget("u", model, 1))
    renderer.feed(TextStart(0, choice))

    (frame,) = renderer.feed(TextDelta(0, text, choice))

    assert renderer._chunk(Delta(choice, {"content": text})) == frame
