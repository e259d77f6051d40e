"""The loop that the relay runs on, and that of the other tests."""

import asyncio
import sys
from collections.abc import Callable, Mapping


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "asyncio": asyncio.new_event_loop
    }
    if sys.platform != "win32":
        import uvloop

        factories["uvloop"] = uvloop.new_event_loop
    return factories
