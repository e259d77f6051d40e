"""What holds for all tests."""

import functools
import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from unittest.mock import patch

import pytest
import trustme
from hypothesis import HealthCheck, settings

from tests import leaks

# How long one example takes says more about the machine than about the code. With CI=true each
# run has the same examples, so that its verdict is the code's; other runs look for new ones.
EXAMPLES = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", EXAMPLES, max_examples=25)
settings.register_profile("long", EXAMPLES, max_examples=100)
settings.load_profile("short")  # unless --hypothesis-profile says otherwise

MARK = re.compile(r"\bpytest\.mark\.(pure|proving|alone)\b")
LAYER = re.compile(rf"^pytestmark = .*{MARK.pattern}", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the modules of other layers: that would take longer than `pytest -m pure`.

    The layer of a module is its `pytestmark`. Nor is the conftest.py of a folder imported that has
    no pure test, for the sake of browsers and databases.
    """
    wanted = config.option.markexpr.removesuffix(" and hypothesis")
    if wanted == "pure" and collection_path.is_dir():
        patterns = ("test_*.py", "*/test_*.py")  # no deeper, where packages of npm are
        modules = (module for pattern in patterns for module in collection_path.glob(pattern))
        return None if any(_layer(module) == "pure" for module in modules) else True
    layers = ("pure", "alone", "not alone", "not proving")
    if wanted not in layers or collection_path.suffix != ".py":
        return None
    if wanted == "alone":
        marks = MARK.findall(collection_path.read_text(encoding="utf-8"))
        return None if "alone" in marks else True
    layer = _layer(collection_path)
    if wanted == "pure":
        return None if layer == "pure" else True
    if wanted == "not alone":
        return True if layer == "alone" else None
    return True if layer in ("proving", "alone") else None


def _layer(module: Path) -> str:
    """Return the last mark of a module: "alone" if it is marked as proving too."""
    layer = LAYER.search(module.read_text(encoding="utf-8"))
    return layer[1] if layer is not None else ""


def pytest_configure(config: pytest.Config) -> None:
    """Look for what tests leave open, and have relays and clients trust one authority.

    Nobody has a certificate of it. All that a system trusts takes each of them 30 ms to read, and
    Node.js 40, where most tests take 10. Tests of whom the relay trusts say it themselves.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell makes its background jobs ignore Ctrl-C, and each process of a test inherits that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(leaks)  # not imported from: also for fixtures of a session
    installed = patch("app.plugins.entry_points", _entry_points)
    installed.start()
    config.add_cleanup(installed.stop)
    if hasattr(config, "workerinput"):
        return  # it has the environment of the process that started it
    folder = tempfile.TemporaryDirectory(prefix="trust-")
    config.add_cleanup(folder.cleanup)
    path = Path(folder.name, "authority.pem")
    trustme.CA().cert_pem.write_to_path(str(path))
    os.environ["SSL_CERT_FILE"] = str(path)
    os.environ.pop("NODE_EXTRA_CA_CERTS", None)


@functools.cache
def _installed(_path: tuple[str, ...], group: str) -> metadata.EntryPoints:
    return metadata.entry_points(group=group)


def _entry_points(*, group: str) -> metadata.EntryPoints:
    """Read what is installed in a group once for each `sys.path`.

    Each relay looks for parts of packages. Here 130 are installed, whose metadata takes 8 ms to
    read, where a relay takes 20 to start and stop.
    """
    return _installed(tuple(sys.path), group)


@pytest.fixture(autouse=True)
def _taken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test whose requests a provider refuses, unless it is marked as `sends_refused`."""
    played = "app.testing.upstream" in sys.modules  # by which every test plays a provider
    if not played or request.node.get_closest_marker("pure"):
        yield
        return
    from tests.refusing.upstream import watch  # with an SDK, which takes 2 s

    refused = watch(monkeypatch)
    yield
    if not request.node.get_closest_marker("sends_refused"):
        assert refused == []


def pytest_collection() -> None:
    """Look for no garbage while tests are collected, which makes none: a fifth of its time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was collected out of the collections of garbage.

    15,000 tests and what they import are 730,000 objects, which each `gc.collect()` of a
    test would look through, for half a second; those of its own are a few thousand.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)  # of the layer that is asked for
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip one test by name where the recorded streams are absent, and deselect the others."""
    without = [item for item in items if _wants_recordings(item)]
    if len(without) > 1:
        config.hook.pytest_deselected(items=without[1:])
        left_out = {*without[1:]}
        items[:] = [item for item in items if item not in left_out]


def _wants_recordings(item: pytest.Item) -> bool:
    """Whether a test is one for a recording of `tests.dialects.streams` that is not there."""
    reasons = [mark.args[0] for mark in item.iter_markers("skip") if mark.args]
    return any(str(reason).startswith("no recorded streams") for reason in reasons)
