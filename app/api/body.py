"""Request bodies: JSON, bounded in bytes and in time."""

import asyncio

from starlette.requests import Request

from app.errors import RequestError


async def read_json(request: Request, *, max_bytes: int, timeout_s: float) -> bytes:
    """Read the body of a request that has to be JSON.

    Raises:
        RequestError: `unsupported_media_type`, `request_too_large`, or `invalid_request`
            for one that takes longer than `timeout_s` to come.
        ClientDisconnect: the client went away before it was complete.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise RequestError(
            "unsupported_media_type",
            f"the content type is {media_type or 'missing'!r}; "
            "send the header 'content-type: application/json'",
        )
    too_large = RequestError(
        "request_too_large", f"the body is larger than the limit of {max_bytes} bytes"
    )
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length[:15]) > max_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise too_large
    except TimeoutError:
        raise RequestError(
            "invalid_request", f"the body did not come within {timeout_s:g} s"
        ) from None
    return bytes(body)


async def disconnected(request: Request) -> None:
    """Return when the client has gone; for after the body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
