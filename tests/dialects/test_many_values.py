"""Arguments with millions of values, which no bound of a message sees: none is built to judge them."""

import time
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest

from app.dialects.answering.custom_tools import decode_input
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.reading.answer_bounds import MAX_VALUES
from app.dialects.reading.event_builder import EventBuilder
from app.dialects.reading.json_values import compact_object, decode_or, is_json
from app.events import Event
from tests.dialects.clients import HEAD, STREAM, render_result
from tests.dialects.cost import check_time

UNITS = ("1", "{}", "[1]", '"a"', '{"a":1}', '"["', '"\\\\\\""')


def arguments(unit: str, size: int) -> str:
    return '{"a":[' + ",".join([unit] * (size // (len(unit) + 1))) + "]}"


def call(text: str, *, piece: int) -> list[Event]:
    """Return the events of an answer with one call, whose arguments come in pieces."""
    builder = EventBuilder()
    for at in range(0, len(text), piece):
        builder.tool_call(0, index=0, id="c", name="f", arguments=text[at : at + piece])
    builder.finish(0, "tool_calls")
    assert builder.finished
    builder.end("completed")
    return HEAD + builder.take()


def peak(act: Callable[[], object]) -> int:
    """Return the bytes that work allocates at most."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.pure
@pytest.mark.parametrize("unit", UNITS)
def test_arguments_are_judged_without_building_their_values(unit):
    text = arguments(unit, 2**20)

    assert is_json(text)
    assert not is_json(text[:-1])
    assert peak(lambda: is_json(text)) < 2**20
    assert peak(lambda: compact_object(text)) < 3 * 2**20


@pytest.mark.pure
def test_a_text_that_came_in_pieces_is_only_decoded_up_to_a_bound():
    few, many = (f"[{','.join(['1'] * count)}]" for count in (MAX_VALUES - 10, MAX_VALUES + 10))

    assert MAX_VALUES - 10 == len(decode_or(few, None))
    assert many == decode_or(many, many)
    assert not is_json(many.replace("1]", "NaN]"))  # which only Python reads, into objects
    assert [1, None] == decode_or("[1,NaN]", None)
    crowded = f'{{"input":"a","b":{many}}}'
    assert crowded == decode_input(crowded)


@pytest.mark.pure
@pytest.mark.parametrize("client_format", sorted({*CLIENT_FORMATS} - {"openai_completions"}))
def test_every_client_gets_arguments_of_more_values_than_are_decoded(client_format):
    text = arguments("1", 2 * MAX_VALUES + 100)
    shown = msgspec.json.encode(render_result(client_format, call(text, piece=len(text))))

    assert text[5:] in shown.decode().replace('\\"', '"') or text.encode() in shown


@pytest.mark.proving
@pytest.mark.alone
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("piece", [16, 65_536])
def test_arguments_in_pieces_cost_little_and_in_proportion(unit, piece):
    """30 MiB took 4 to 12 s, 10 s of which at once."""
    check_time(lambda size: lambda: call(arguments(unit, size), piece=piece), 2**17)
    events = call(arguments(unit, 2**23), piece=65_536)
    for name, client_format in CLIENT_FORMATS.items():
        began = time.process_time()
        client_format.render_result(STREAM, events)
        assert time.process_time() - began < 3, name


@pytest.mark.proving
@pytest.mark.alone
@pytest.mark.parametrize("unit", UNITS)
def test_thirty_mebibytes_of_arguments_are_judged_at_once(unit):
    text = arguments(unit, 30 * 2**20)
    began = time.process_time()
    call(text, piece=65_536)

    assert time.process_time() - began < 2.5
