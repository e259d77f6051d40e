"""Answers that are one JSON document."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response


def document(
    body: object, *, headers: Mapping[str, str] | None = None, status_code: int = 200
) -> Response:
    """Return a document as JSON, which nobody is to store."""
    return Response(
        msgspec.json.encode(body),
        status_code,
        headers={"cache-control": "no-store", **(headers or {})},
        media_type="application/json",
    )
