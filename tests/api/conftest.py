"""What tests of the interface share."""

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the relay keeps its streams: the interface is the same for all."""
    kind: str = request.param
    return kind if kind == "memory" else f"{kind}:///{tmp_path / 'streams.db'}"
