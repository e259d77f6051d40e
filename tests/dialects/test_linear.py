"""What anybody sends costs in proportion to its size, whatever its shape: times are compared.

Four times as much may take little more than four times as long. `SHAPE_BYTES` is the larger
size of a body of an upstream, 128 KiB where it is not set. `test_cost.py` counts calls instead.
"""

import os
from collections.abc import Callable

import msgspec
import pytest

from app.dialects import forwarded
from app.dialects.client_formats import CLIENT_FORMATS
from app.events import Event, Media, Opaque, ProviderData, Raw, StreamStart, StreamTarget
from tests.dialects import work
from tests.dialects.clients import frames
from tests.dialects.cost import LARGE, check_time
from tests.dialects.request_shapes import BUILDERS, GIANT, PASSED_ON, RAW, REQUESTS, SHAPES
from tests.dialects.shapes import ANSWERS, FRAMINGS, LINES
from tests.dialects.shapes import SHAPES as BODIES

START: list[Event] = [StreamStart("st_1", "m", 1), StreamTarget("up", "m", 1)]
PNG = Media(0, "image/png", data="AAAA")

pytestmark = pytest.mark.proving

SIZE = int(os.environ.get("SHAPE_BYTES", 2**17)) // LARGE
EVENTS = SIZE // 96
EVERY_FRAMING = pytest.mark.parametrize("dialect", FRAMINGS)


@pytest.mark.parametrize(
    ("dialect", "name"), [(dialect, name) for dialect in BODIES for name in BODIES[dialect]]
)
def test_a_parser_is_linear(dialect: str, name: str) -> None:
    check_time(work.parse(dialect, BODIES[dialect][name]), SIZE)


@EVERY_FRAMING
@pytest.mark.parametrize("name", LINES)
def test_a_framing_is_linear(dialect: str, name: str) -> None:
    check_time(work.parse(dialect, LINES[name]), SIZE)


@EVERY_FRAMING
def test_one_long_message_in_many_small_reads_is_linear(dialect: str) -> None:
    check_time(work.parse(dialect, BODIES[dialect]["one text"], read=16), SIZE)


@pytest.mark.parametrize("name", ANSWERS)
def test_rendering_is_linear(name: str) -> None:
    for client_format in CLIENT_FORMATS:
        check_time(work.write(client_format, name), EVENTS, name=client_format)
        check_time(work.render_result(client_format, name), EVENTS, name=client_format)
    check_time(work.snapshot(name), EVENTS)


@pytest.mark.parametrize("name", SHAPES)
def test_reading_a_request_is_linear(name: str) -> None:
    shape = SHAPES[name]
    for client_format in shape.client_formats:
        check_time(work.read(client_format, shape.body), shape.items, name=client_format)


@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
@pytest.mark.parametrize("piece", RAW.values(), ids=RAW.keys())
def test_refusing_a_body_is_linear(client_format: str, piece: bytes) -> None:
    check_time(work.refuse(client_format, piece), GIANT)


@pytest.mark.parametrize("name", REQUESTS)
def test_building_a_request_is_linear(name: str) -> None:
    for builder in BUILDERS:
        check_time(work.build(builder, name), REQUESTS[name][0], name=builder)


@pytest.mark.parametrize("name", PASSED_ON)
def test_passing_a_request_on_is_linear(name: str) -> None:
    check_time(work.pass_on(PASSED_ON[name]), PASSED_ON[name].items)


@pytest.mark.parametrize("last", [Opaque("openai.item", '{"type": "x"}'), PNG])
def test_rendering_beside_many_items_that_are_not_done_is_linear(last: Event) -> None:
    def make(items: int) -> Callable[[], object]:
        added = [
            ProviderData(
                Raw(
                    "openai_responses",
                    f'{{"type":"response.output_item.added","output_index":{n},"item":{{"type":"x"}}}}',
                ),
                block=n,
            )
            for n in range(items)
        ]
        return lambda: frames("openai_responses", [*START, *added, *[last] * items])

    check_time(make, 2_000)


def test_leaving_fields_out_of_a_forwarded_call_is_linear() -> None:
    def make(fields: int) -> Callable[[], object]:
        body = msgspec.json.encode({"model": "up/m"} | {f"f{n}": 1 for n in range(fields)})
        request = forwarded.parse_json(forwarded.CALLS[0], body)
        return lambda: request.render("m", sorted(request.extras))

    check_time(make, 2_000)


def test_the_shapes_are_not_refused() -> None:
    """They stay within the bounds of a request, or refusals would be measured."""
    for name, shape in SHAPES.items():
        if "giant" not in name and name != "ui unknown":
            for client_format in shape.client_formats:
                body = msgspec.json.encode(shape.body(shape.items * LARGE))
                CLIENT_FORMATS[client_format].parse_request(body)
