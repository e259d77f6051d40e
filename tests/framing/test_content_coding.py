"""Content codings: every split, several members, and what is refused."""

import gzip
import os
import zlib
from itertools import islice

import pytest

from app.framing.content_coding import (
    CODINGS,
    MAX_MEMBERS,
    PIECE_BYTES,
    ContentDecoder,
    name_coding,
)
from app.framing.sse import FramingError
from tests.coding import ENCODERS

pytestmark = pytest.mark.pure

TEXT = os.urandom(3000) + b"a line of text\n" * 3000


def decode(coding: str, *pieces: bytes) -> bytes:
    decoder = ContentDecoder(coding)
    found = [one for piece in pieces for one in decoder.feed(piece)]
    decoder.close()
    assert all(0 < len(one) <= PIECE_BYTES for one in found)
    return b"".join(found)


@pytest.mark.parametrize("name", ENCODERS)
def test_body_is_decoded_in_every_chunking(name):
    coding, encode = ENCODERS[name]
    data = encode(TEXT)

    assert TEXT == decode(coding, data)
    assert TEXT == decode(coding, *(bytes([one]) for one in data))
    assert TEXT == decode(coding, data[:7], data[7:])


def test_zstd_is_decoded_where_python_has_it():
    pytest.importorskip("compression.zstd")
    assert "zstd" in CODINGS


def test_members_follow_each_other_up_to_a_number():
    assert TEXT * 2 == decode("gzip", gzip.compress(TEXT) * 2)
    with pytest.raises(FramingError, match=f"more than {MAX_MEMBERS} parts"):
        decode("gzip", gzip.compress(b"") * (MAX_MEMBERS + 1))


def test_event_is_decoded_as_soon_as_it_is_flushed():
    encoder, decoder = zlib.compressobj(wbits=31), ContentDecoder("gzip")
    for number in range(3):
        event = f"data: {number}\n\n".encode()
        assert [event] == [
            *decoder.feed(encoder.compress(event) + encoder.flush(zlib.Z_SYNC_FLUSH))
        ]


@pytest.mark.parametrize("name", ENCODERS)
def test_bomb_is_refused_by_its_ratio(name):
    coding, encode = ENCODERS[name]
    within_8_mib = islice(ContentDecoder(coding).feed(encode(bytes(2**26))), 256)
    with pytest.raises(FramingError, match="more than 200 times its size"):
        list(within_8_mib)


@pytest.mark.parametrize("name", ENCODERS)
def test_incomplete_and_wrong_data_is_refused(name):
    coding, encode = ENCODERS[name]
    with pytest.raises(FramingError, match="incomplete"):
        decode(coding, encode(TEXT)[:-10])
    with pytest.raises(FramingError, match=f"not {coding}"):
        decode(coding, b"\xff\xfe no coding at all")


@pytest.mark.parametrize("value", ["", "none", "identity", "utf-8", " Identity ", "UTF-8"])
def test_names_of_no_coding(value):
    assert "identity" == name_coding(value)


def test_other_names():
    assert ["gzip", "gzip", "br"] == [name_coding(one) for one in ("GZIP", "x-gzip", "br")]
