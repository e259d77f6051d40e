"""What the tests of every SDK share."""

from collections.abc import Iterator

import pytest

from tests.sdk.recorder import Recorder, serve_recorder


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    with serve_recorder() as found:
        yield found
