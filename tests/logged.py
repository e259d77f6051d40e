"""The log lines of a module, whatever an earlier test has set for logs.

A logger that was used keeps the settings of then, which `capture_logs` alone does not change.
"""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import structlog
from structlog.testing import capture_logs


@contextmanager
def logged(module: ModuleType) -> Iterator[list[MutableMapping[str, Any]]]:
    """Collect what a module logs by its `log`."""
    with patch.object(module, "log", structlog.get_logger()), capture_logs() as lines:
        yield lines
