"""Content codings: as zlib decodes them, in small pieces, and never much more than was sent."""

import contextlib
import gzip
import zlib

from app.framing.content_coding import (
    CODINGS,
    FREE_BYTES,
    MAX_RATIO,
    PIECE_BYTES,
    ContentDecoder,
    name_coding,
)
from app.framing.sse import FramingError
from tests.fuzz.target import CUTS, Target, in_pieces, split


def check(data: bytes) -> None:
    choice, body = split(data)
    name_coding(body.decode("latin-1"))
    if not body:
        return
    coding = CODINGS[choice % len(CODINGS)]
    whole, failure = decode(coding, [body])
    piecewise = decode(coding, in_pieces(body, CUTS[choice >> 5]))
    if len(whole) < FREE_BYTES - 2 * PIECE_BYTES:  # beyond, the ratio is that of what has come
        assert failure == piecewise[1]
        assert whole == piecewise[0] or failure
    assert len(whole) <= max(FREE_BYTES, MAX_RATIO * len(body)) + PIECE_BYTES
    if coding == "gzip" and not failure:
        with contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile):  # it refuses more
            assert gzip.decompress(body) == whole
    # Whatever the content is, it comes back.
    for name, encoded in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body))):
        assert (body, "") == decode(name, in_pieces(encoded, CUTS[choice >> 5]))


def decode(coding: str, pieces) -> tuple[bytes, str]:
    decoder = ContentDecoder(coding)
    found: list[bytes] = []
    try:
        for piece in pieces:
            for decoded in decoder.feed(piece):
                assert 0 < len(decoded) <= PIECE_BYTES
                found.append(decoded)
        decoder.close()
    except FramingError as error:
        return b"".join(found), str(error)
    return b"".join(found), ""


TARGET = Target(
    check,
    seeds=(
        b"\x00" + gzip.compress(b"data: a\n\n", mtime=0),
        b"\x20" + gzip.compress(b"a", mtime=0) * 2,
        b"\x01" + zlib.compress(b"data: b\n\n"),
        b"\x41" + zlib.compress(b"data: c\n\n")[2:-4],
        b"\x60" + gzip.compress(bytes(50_000), mtime=0),
        b"\xe0" + gzip.compress(bytes(3 * 2**20), mtime=0),
        b"\x82gzip",
    ),
    tokens=(b"\x1f\x8b\x08", b"\x78\x9c", b"\x00", b"\x03\x00", b"gzip", b"x-"),
)
