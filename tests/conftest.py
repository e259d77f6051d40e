"""What holds for all tests."""

import gc
import os
import tempfile
from pathlib import Path

import pytest
import trustme
from hypothesis import settings

# How long one example takes says more about the machine than about the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_configure(config: pytest.Config) -> None:
    """Have relays and clients trust one authority, which nobody has a certificate of.

    All that a system trusts takes each of them 30 ms to read, and Node.js 40, where most tests
    take 10. Tests of whom the relay trusts say it themselves.
    """
    if hasattr(config, "workerinput"):
        return  # it has the environment of the process that started it
    folder = tempfile.TemporaryDirectory(prefix="trust-")
    config.add_cleanup(folder.cleanup)
    path = Path(folder.name, "authority.pem")
    trustme.CA().cert_pem.write_to_path(str(path))
    os.environ["SSL_CERT_FILE"] = str(path)
    os.environ.pop("NODE_EXTRA_CA_CERTS", None)


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
