"""Encoders of content codings, by a name each: deflate has two forms, zstd is not in every Python."""

import contextlib
import gzip
import zlib
from collections.abc import Callable
from importlib import import_module

from app.framing.content_coding import CODINGS


def _raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return encoder.compress(data) + encoder.flush()


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without a header": ("deflate", _raw_deflate),
}
if "zstd" in CODINGS:
    for _module in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            ENCODERS["zstd"] = ("zstd", import_module(_module).compress)
