"""The time that one hostile input takes, before anything is known about its sender or its use."""

import time
from collections.abc import Callable

import pytest

from app.upstreams.media import find_foreign
from app.upstreams.response_parser import ResponseParser

pytestmark = [pytest.mark.proving, pytest.mark.alone]


def seconds(act: Callable[[], object]) -> float:
    """Return the least time of the processor of three runs."""
    times = []
    for _ in range(3):
        began = time.thread_time()
        act()
        times.append(time.thread_time() - began)
    return min(times)


@pytest.mark.parametrize("fold", [b"\r\n ", b"\n\t", b"\r\n a"])
def test_a_response_field_continued_over_many_lines(fold):
    """255 KiB took 0.26 s."""
    head = b"HTTP/1.1 200 OK\r\na: b" + fold * (255 * 1024 // len(fold))
    assert seconds(lambda: ResponseParser().feed(head)) < 0.1


@pytest.mark.parametrize("field", ["uri", "fileUri", "file_uri"])
def test_a_long_escaped_url(field):
    """4 MiB took 0.5 s."""
    body = {"a": [{field: "https://x/" + "%41" * (4 * 2**20 // 3), "type": "image"}]}

    def find() -> object:
        return find_foreign(body, schemes=("https",), stored={field})

    assert find() is not None
    assert seconds(find) < 0.1
