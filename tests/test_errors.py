"""Errors as the events of a stream carry them."""

import msgspec
import pytest

from app.errors import ServiceError
from app.events import StreamEnd

pytestmark = pytest.mark.pure


def test_an_end_is_the_same_bytes_before_and_after_a_log():
    error = ServiceError("overloaded", "try again", retry_after_s=1)
    shown = msgspec.json.encode(StreamEnd("failed", "error", error=error.info()))

    assert shown == msgspec.json.encode(msgspec.json.decode(shown, type=StreamEnd))
