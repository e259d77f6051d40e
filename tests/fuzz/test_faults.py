"""The fuzzing targets find faults that are put into what they test."""

from collections.abc import Callable
from functools import cache
from importlib import import_module, reload
from typing import NamedTuple

import pytest

from tests.fuzz.planted import plant
from tests.fuzz.target import Target, check_linear, inputs
from tests.fuzz.targets import NAMES
from tests.fuzz.targets import load as load_target

pytestmark = pytest.mark.proving

MOST = 4000
"""Inputs within which a fault has to be found; Atheris needs fewer."""

load = cache(load_target)


class Fault(NamedTuple):
    target: str
    module: str
    before: str
    after: str


FAULTS = [
    Fault("sse", "framing.sse", "if data[0] == _LF:", "if False:"),
    Fault("sse", "framing.sse", "self._check_line(len(self._partial))", "pass"),
    Fault("sse", "framing.lenient", "if self._raw_size > MAX_RAW:", "if True:"),
    Fault("ndjson", "framing.ndjson", "self._depth += depth", "self._depth = depth"),
    Fault("json_array", "framing.json_array", "self._after_backslash = True", "pass"),
    Fault("eventstream", "framing.eventstream", "if zlib.crc32(frame[: -_CRC.size]) != ", "if 0 and "),
    Fault("eventstream", "framing.eventstream", "if payload > self._max_event:", "if False:"),
    Fault("multipart", "framing.multipart", "_NAME.fullmatch(", "_NAME.match("),
    Fault("content_coding", "framing.content_coding", "if self._returned > max(", "if 0 > max("),
    Fault(
        "http_response", "upstreams.response_parser", "headers.setdefault(name, value)", "headers[name] = value"
    ),
    Fault("http_response", "upstreams.response_parser", "if self.excess:\n            del", "if 0:\n            del"),
    Fault("cursors", "dialects.client_format", 'and match["letter"] != letter', "and not letter"),
    Fault("cursors", "dialects.client_format", "if number <= self._after:", "if number < self._after:"),
    Fault("cursors", "eventlog.listing", 'part == "e", float', 'part == "r", float'),
    Fault("tokens", "identity.tokens", "if _FORM.fullmatch(token) else None", ""),
    Fault("jwt", "identity.claims", "if tenant in reserved:", "if False:"),
    Fault("jwt", "identity.jwks", '"d" not in row and ', ""),
    Fault("cassettes", "cassettes.cassette", "if self._ended:", "if False:"),
    Fault("cassettes", "cassettes.cassette", "if found.at < before:", "if False:"),
    Fault("settings", "settings.convert", "except msgspec.ValidationError", "except KeyError"),
    Fault("keys_file", "identity.keys_file", '"keys": keys}\n    raw', '"keys": keys[:1]}\n    raw'),
    Fault("websocket", "server.socket_protocol", "data.decode()", "pass"),
    Fault("websocket", "server.socket_protocol", "if not self.close_sent:\n            self.conn.fail", "if 1:\n            self.conn.fail"),
    Fault("answers", "dialects.reading.answer_parser", 'self._fail("upstream_truncated", "ended its answer early")', "pass"),
    Fault("requests", "requests", "except (msgspec.DecodeError, RecursionError):", "except KeyError:"),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.target}: {fault.before[:40]}")
def test_a_fault_is_found(fault: Fault) -> None:
    target = load(fault.target)
    with plant(import_module(f"app.{fault.module}"), fault.before, fault.after):
        assert any(fails(target, data) for data in inputs(target, seed="fault", most=MOST))
    reload(import_module(f"tests.fuzz.targets.{fault.target}"))  # it may remember a verdict


def fails(target: Target, data: bytes) -> bool:
    try:
        target.check(data)
    except Exception:
        return True
    return False


def test_time_that_grows_with_the_square_is_found() -> None:
    bodies = [b"%d" % number for number in range(300)]

    def scan(data: bytes) -> None:
        for at in range(0, len(data), 8):
            sum(data[:at])

    def check_all(act: Callable[[bytes], object]) -> None:
        for body in bodies:
            check_linear(act, body)

    check_all(sum)
    with pytest.raises(AssertionError, match="times as much"):
        check_all(scan)


def test_each_target_has_a_fault_to_find() -> None:
    assert {*NAMES} == {fault.target for fault in FAULTS}
