"""The pytest plugin with the fixture `seseragi_relay`.

Every run of pytest loads it where the package is installed, so it imports only pytest; the rest
is imported on use.
"""

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from .relay import Relay

MODES = ("off", "new", "replay")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for cassettes."""
    group = parser.getgroup("seseragi")
    group.addoption(
        "--seseragi-record",
        choices=MODES,
        help="new: requests to providers that have no cassette are recorded, with the keys of "
        "the environment, and cost money; replay: such requests fail; off: none is looked for",
    )
    parser.addini("seseragi_record", "what --seseragi-record is without the option", default="off")
    parser.addini("seseragi_cassettes", "the folder of cassettes, from the root of the project")


@pytest.fixture(scope="session")
def seseragi_settings() -> dict[str, Any]:
    """Return settings of the relay; override it to change some."""
    return {}


@pytest.fixture(scope="session")
def _seseragi_running(
    pytestconfig: pytest.Config, seseragi_settings: dict[str, Any]
) -> Iterator["Relay"]:
    from .relay import start_relay

    mode = pytestconfig.getoption("--seseragi-record") or pytestconfig.getini("seseragi_record")
    if mode not in MODES:
        _fail(f"seseragi_record: use one of {', '.join(MODES)}, not {mode!r}")
    folder: str = pytestconfig.getini("seseragi_cassettes")
    if mode != "off" and not folder:
        _fail(f"seseragi_record = {mode!r}: it needs seseragi_cassettes, the folder they are in")
    path = Path(pytestconfig.rootpath, folder) if folder else None
    with contextlib.ExitStack() as stack:
        starting = start_relay(
            cassettes=path, record=mode, settings=seseragi_settings, providers=mode == "new"
        )
        try:
            relay = stack.enter_context(starting)
        except (RuntimeError, OSError) as error:
            _fail(f"seseragi_relay: {error}")
        yield relay


def _fail(reason: str) -> NoReturn:
    """Fail without a traceback, which would show only this module."""
    pytest.fail(reason, pytrace=False)


@pytest.fixture
def seseragi_relay(_seseragi_running: "Relay") -> "Relay":
    """Return a running relay: `url`, `api_url`, `upstream` to script, `cassettes`, `log`.

    One process serves all tests of a run; the script and the calls are reset for each test.
    """
    _seseragi_running.reset()
    return _seseragi_running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the requests to the provider, and the relay's log, to the report of a failed test."""
    report = yield
    if report.failed and report.when == "call":
        relay = getattr(item, "funcargs", {}).get("seseragi_relay")
        if relay is not None:
            report.sections += relay.report()
    return report
